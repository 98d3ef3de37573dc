"""Recordings and canned logs, played in their own time: the demos, again and again."""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from cuzktop.bell import Bell
from cuzktop.dataclass import NamedTuple
from cuzktop.errors import CuzktopError
from cuzktop.events import Event, GpuSampled, PlayedAgain, PlayedFrom, SourceNote
from cuzktop.settings import READ_BLOCK_BYTES
from cuzktop.sources.bringing import BROUGHT_MS, Bringing
from cuzktop.sources.files import LogParser
from cuzktop.sources.recording import LogCut, Piece
from cuzktop.sources.reels import RecordingReel, reel

LINGER_S = 3.0  # the last picture stands this long before the next round
LEAST_WAIT_S = 0.25  # lines closer together than this come together: a log is polled no faster
MOST_WAIT_S = 1.0  # the stop button is looked after at least this often
BROUGHT_WAIT_S = 5.0  # while others hand over what is due, and say when more is to be read
MOST_EVENTS = 1000  # at a time: a history of hours is not held beside what it becomes
FORWARD_MS = 10 * 60_000.0  # a step forward that is played through; a longer one begins anew
PIECES_AHEAD = 256  # some seconds of a log; more would be a hitch in what is played

_ANEW: Final = "anew"
_STOPPED: Final = "stopped"


class Ahead:
    """Pieces read ahead, many at a time: read one by one as they come, each costs several times.

    One thread reads on; another may take what was read, if they keep out of each other's way.
    """

    def __init__(self, pieces: Iterator[tuple[float, Piece]]) -> None:
        """Nothing is read yet; each piece comes at a time (ms)."""
        self._pieces = pieces
        self._times: list[float] = []
        self._read: list[Piece] = []
        self._at = 0  # of these, the next
        self.newest_ms = -math.inf
        self._ended = False
        self._failure: Exception | None = None
        self.taken_ms = -math.inf  # when the last that was taken came

    @property
    def next_ms(self) -> float | None:
        """When the next piece comes that was read, never before the last one; None without one."""
        return self._times[self._at] if self._at < len(self._times) else None

    @property
    def reaches_ms(self) -> float:
        """Up to when all has been read; -inf if there is nothing to be taken."""
        if self._at == len(self._times):
            return -math.inf
        return math.inf if self._ended else self.newest_ms

    def read_on(self) -> None:
        """Read more if little is left."""
        if self._ended or len(self._times) - self._at > PIECES_AHEAD // 2:
            return
        del self._times[: self._at], self._read[: self._at]
        self._at = 0
        most = len(self._times) + PIECES_AHEAD
        try:
            for came_ms, piece in islice(self._pieces, PIECES_AHEAD):
                self.newest_ms = max(self.newest_ms, came_ms)  # a clock was set back
                self._times.append(self.newest_ms)
                self._read.append(piece)
        except Exception as error:  # noqa: BLE001 - raised after what was read before
            self._failure = error
        self._ended = len(self._times) < most

    def upto(self, until_ms: float) -> list[Piece]:
        """Take what comes by then, as far as it was read."""
        begin = self._at
        end = self._at = bisect_right(self._times, until_ms, begin)
        if end > begin:
            self.taken_ms = self._times[end - 1]
        return self._read[begin:end]

    def end(self) -> None:
        """Raise what ended it, if it wasn't its end."""
        if self._failure is not None:
            raise self._failure


class _Pace(NamedTuple):
    """The log's time at an instant of the clock, and how fast it goes on; speed 0: it stands."""

    log_ms: float
    clock_ms: float
    speed: float


class Replay(threading.Thread):
    """A daemon thread that plays a log or a recording as if it were being written now.

    What lies before the start point comes at once, to fill the history; the rest in its own
    time, `speed` times as fast, after a PlayedFrom event. When that starts anew, at another point
    or in another round, a PlayedAgain event comes first: time may fall back there.

    `pause`, `resume`, `set_speed` and `seek` may be called by any thread; `now_ms` is the one
    clock of all that is played.
    """

    def __init__(
        self,
        log: Path,
        parser: LogParser,
        emit: Callable[[Sequence[Event]], object],
        *,
        clock: Callable[[], float],
        speed: float = 1.0,
        start_s: float | None = None,
        samples: Callable[[], Iterable[GpuSampled]] | None = None,
        wait: Callable[[float], bool] | None = None,
        again: bool = True,
        stay: bool = False,
    ) -> None:
        """Prepare to play `log` from `start_s` seconds after its first line or record.

        Without `start_s` a log is played from where a GPU works, a recording from its beginning.
        `clock` gives milliseconds from any zero; `wait` sleeps so many seconds and says whether
        to stop. `samples` gives a round's GPU readings in the order of their times; a recording
        has its own. `again=False` plays one round; with `stay` the thread then waits at the end
        for a `seek`. Raises SourceUnreadableError if the log can't be read, ValueError if `speed`
        isn't above 0.
        """
        super().__init__(name="replay", daemon=True)
        self._speed = _checked_speed(speed)
        self.round = 0  # how often the log was played to its end
        self._log = log
        self._parser = parser
        self._emit = emit
        self._clock = clock
        self._again = again
        self._stay = stay
        self._stopped = threading.Event()
        self._woken = Bell()
        self._wait = wait or self._doze
        self._reel = reel(log, samples)
        self._start_ms = self._reel.start_ms
        if start_s is not None:
            self._start_ms = self._reel.first_ms + start_s * 1000.0
        self._control = threading.RLock()  # over what follows
        self._paused = False
        self._standing = True  # while the history is filled, and at the end
        self._sought_ms: float | None = None  # asked for, not gone to yet
        self._fill_to_ms = self._start_ms
        self._pace = _Pace(self._start_ms, 0.0, 0.0)
        self._bringing = Bringing(clock)  # over what has been read and not handed over
        self._ahead: Ahead | None = None
        self._ends_ms = self._reel.last_ms  # what was after it nobody knows
        self._lines: list[bytes] = []
        self._line_bytes = 0
        self._events: list[Event] = []

    # ------------------------------------------------------------ the clock and its control

    @property
    def first_ms(self) -> float:
        """When the log or recording begins, in wall-clock milliseconds since 1970."""
        return self._reel.first_ms

    @property
    def last_ms(self) -> float:
        """When it ends."""
        return self._reel.last_ms

    @property
    def paused(self) -> bool:
        """Whether its time stands because of `pause`."""
        return self._paused

    @property
    def speed(self) -> float:
        """How fast it is played when it isn't paused."""
        return self._speed

    def now_ms(self) -> float:
        """What time it is in the log, in wall-clock milliseconds since 1970. Any thread may ask."""
        pace = self._pace
        if pace.speed == 0.0:
            return pace.log_ms
        now_ms = pace.log_ms + (self._clock() - pace.clock_ms) * pace.speed
        return min(now_ms, max(pace.log_ms, self._ends_ms))

    def pause(self) -> None:
        """Let its time stand."""
        self._change(paused=True)

    def resume(self) -> None:
        """Let its time go on."""
        self._change(paused=False)

    def set_speed(self, speed: float) -> None:
        """Go on `speed` times as fast. Raises ValueError if `speed` isn't above 0."""
        self._change(speed=_checked_speed(speed))

    def seek(self, at_ms: float) -> None:
        """Go to a time (wall-clock ms since 1970); one outside of what was recorded to its end.

        What lies before it is handed over at once, after a PlayedAgain event unless it is a small
        step forward. A paused replay stays paused there.
        """
        with self._control:
            self._sought_ms = min(max(at_ms, self.first_ms), self.last_ms)
            self._set_pace(self._sought_ms, standing=True)
        self._woken.ring()

    def stop(self) -> None:
        """End the thread soon."""
        self._stopped.set()
        self._woken.ring()

    def bring(self) -> None:
        """Hand over what is due by now, if it was read and nothing else goes on; reads nothing.

        Any thread may ask. As long as one does, our own reads ahead and does nothing else.
        """
        if not self._standing and not self._bringing.bring(self._hand_over_read):
            self._woken.ring()

    def _hand_over_read(self) -> None:
        ahead = self._ahead
        if ahead is not None:
            self._take(ahead.upto(self.now_ms()))
            self._hand_over()
            if not self._is_enough(ahead):
                self._woken.ring()

    def _is_enough(self, ahead: Ahead) -> bool:
        """Whether so much was read that our own thread may sleep."""
        return ahead.reaches_ms >= self.now_ms() + BROUGHT_MS * self._pace.speed

    def _change(self, *, paused: bool | None = None, speed: float | None = None) -> None:
        with self._control:
            now_ms = self.now_ms()
            self._paused = self._paused if paused is None else paused
            self._speed = self._speed if speed is None else speed
            self._set_pace(now_ms, standing=self._standing)
        self._woken.ring()

    def _set_pace(self, log_ms: float, *, standing: bool) -> None:
        self._standing = standing
        speed = 0.0 if standing or self._paused else self._speed
        self._pace = _Pace(log_ms, self._clock(), speed)

    def _doze(self, seconds: float) -> bool:
        """Sleep until it is time, or something was asked for; whether to stop."""
        self._woken.wait(seconds)
        return self._stopped.is_set()

    # ------------------------------------------------------------ the thread

    def run(self) -> None:
        """Play until told to stop."""
        try:
            while (self._play() or self._rest()) == _ANEW:
                self._begin_anew()
        except CuzktopError as error:  # it says of what
            self._emit([SourceNote(self.now_ms(), "error", f"playing stopped: {error}")])
        except Exception as error:  # noqa: BLE001 - the thread ends here; the screen goes on
            text = f"playing {self._log} stopped: {type(error).__name__}: {error}"
            self._emit([SourceNote(self.now_ms(), "error", text)])

    def _play(self) -> str:
        """Play to the end; how it was broken off, if it was."""
        ahead = Ahead(self._reel.pieces(self._fill_to_ms))
        with self._bringing.working:
            self._ahead = ahead
        try:
            return self._play_on(ahead)
        finally:
            with self._bringing.working:
                self._ahead = None

    def _play_on(self, ahead: Ahead) -> str:
        while (at_ms := self._go_on(ahead)) is not None:
            if self._sought_ms is not None:
                if not self._seeks_forward(ahead.taken_ms):
                    return _ANEW
            elif self._sleep(self._wait_s(at_ms, ahead)):
                return _STOPPED
        if self._standing:
            self._end_fill()
        with self._control:
            if self._sought_ms is None:
                played_ms = ahead.taken_ms
                end_ms = max(played_ms, self._fill_to_ms) if self._standing else self.now_ms()
                self._set_pace(end_ms, standing=not self._again)
        return ""

    def _go_on(self, ahead: Ahead) -> float | None:
        """Read on, and hand over what is due unless others do; when the next one comes, or None."""
        with self._bringing.working:
            self._bringing.check()
            self._read_on(ahead)
            if self._bringing.goes_on and not self._standing and self._is_enough(ahead):
                return ahead.next_ms
            while (at_ms := ahead.next_ms) is not None:
                pieces = ahead.upto(self._due_ms(at_ms))
                if not pieces:
                    break
                self._take(pieces)
                self._read_on(ahead)
            self._hand_over()
            if at_ms is None:
                ahead.end()
        return at_ms

    def _read_on(self, ahead: Ahead) -> None:
        ahead.read_on()
        self._ends_ms = max(self._ends_ms, ahead.newest_ms)  # a clock was set back at its end

    def _due_ms(self, at_ms: float) -> float:
        """Up to when all is to be handed over now, if the next piece comes at `at_ms`."""
        if self._sought_ms is not None:
            return -math.inf
        if self._standing:
            if at_ms < self._fill_to_ms:
                return math.nextafter(self._fill_to_ms, -math.inf)
            self._end_fill()
            with self._control:
                if self._sought_ms is not None:
                    return -math.inf
                self._set_pace(self._fill_to_ms, standing=False)
        return self.now_ms()

    def _seeks_forward(self, played_ms: float) -> bool:
        """Whether the time that is asked for comes soon enough to be played up to; begin that."""
        with self._control:
            sought_ms = self._sought_ms
            if sought_ms is None or not played_ms <= sought_ms <= played_ms + FORWARD_MS:
                return False
            self._sought_ms, self._fill_to_ms = None, sought_ms
        return True

    def _wait_s(self, at_ms: float, ahead: Ahead) -> float:
        """How long to sleep before what comes at `at_ms`, or before looking again."""
        speed = self._pace.speed
        if speed == 0.0:
            return MOST_WAIT_S
        if self._bringing.goes_on and self._is_enough(ahead):
            return BROUGHT_WAIT_S
        seconds = (at_ms - self.now_ms()) / 1000.0 / speed
        return min(max(seconds, LEAST_WAIT_S), MOST_WAIT_S)

    def _rest(self) -> str:
        """Stand at the end for as long as that is wanted; what comes then."""
        if self._sought_ms is not None:
            return _ANEW
        if not self._again:
            what = "recording" if isinstance(self._reel, RecordingReel) else "log"
            note = SourceNote(self.now_ms(), "info", f"the {what} has ended")
            self._emit([*self._parser.finish(), note])
            if not self._stay:
                return _STOPPED
        until_ms = self._clock() + LINGER_S * 1000.0
        while self._sought_ms is None:
            left_s = (until_ms - self._clock()) / 1000.0
            if self._paused or self._stay:
                left_s = MOST_WAIT_S
            elif left_s <= 0.0:
                self.round += 1
                break
            if self._sleep(left_s):
                return _STOPPED
        return _ANEW

    def _begin_anew(self) -> None:
        """Forget what was played, and play from the start point, or from where is asked for."""
        with self._control:
            to_ms = self._start_ms if self._sought_ms is None else self._sought_ms
            self._sought_ms, self._fill_to_ms = None, to_ms
            self._set_pace(to_ms, standing=True)
        self._lines.clear()
        self._line_bytes = 0
        self._events = []
        self._emit([*self._parser.cut(), PlayedAgain(to_ms)])

    def _take(self, pieces: Iterable[Piece]) -> None:
        """Keep pieces until the next handing over."""
        for piece in pieces:
            if isinstance(piece, bytes):
                self._lines.append(piece)
                self._line_bytes += len(piece)
                if self._line_bytes >= READ_BLOCK_BYTES:
                    self._hand_over()
            else:
                self._take_event(piece)

    def _take_event(self, piece: Event | LogCut) -> None:
        self._parse()
        if isinstance(piece, LogCut):
            self._events += self._parser.cut()
        else:
            self._events.append(piece)
        if len(self._events) >= MOST_EVENTS:
            self._hand_over()

    def _parse(self) -> None:
        if self._lines:
            self._events += self._parser.feed(b"".join(self._lines))
            self._lines.clear()
            self._line_bytes = 0

    def _hand_over(self) -> None:
        """Emit what was taken."""
        self._parse()
        if self._events:
            events, self._events = self._events, []
            self._emit(events)

    def _end_fill(self) -> None:
        """Say that the history has all that it will have."""
        self._take_event(PlayedFrom(self._fill_to_ms))
        self._hand_over()

    def _sleep(self, seconds: float) -> bool:
        return self._wait(seconds) or self._stopped.is_set()


def _checked_speed(speed: float) -> float:
    if not speed > 0:
        message = f"speed must be above 0, not {speed}"
        raise ValueError(message)
    return speed
