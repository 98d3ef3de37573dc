"""Recordings and canned logs, played in their own time: the demos, again and again.

A demo is a folder `demo_logs/NAME/` with `daemon.log` (or `daemon.log.gz`), `about.txt`, whose
first line says what it shows and whose others are `start=SECONDS` (where live playing begins)
and `utc=1`, and perhaps `gpu.csv`, what nvidia-smi saw at the time. In place of both it may have
a `recording` (or `recording.gz`).
"""

from __future__ import annotations

import math
import re
import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from cuzktop.bell import Bell
from cuzktop.dataclass import NamedTuple, dataclass
from cuzktop.errors import CuzktopError, SourceUnreadableError, UsageError
from cuzktop.events import Event, GpuSampled, HostSampled, PlayedAgain, PlayedFrom, SourceNote
from cuzktop.settings import READ_BLOCK_BYTES
from cuzktop.sources.bringing import BROUGHT_MS, Bringing
from cuzktop.sources.files import (
    MARK,
    STAMP,
    LogParser,
    holds_recording,
    open_log,
    plain_size,
    read_blocks,
)
from cuzktop.sources.recording import (
    Damage,
    LogCut,
    Piece,
    RecordReader,
    opened_parts,
    whole_lines,
)

DEFAULT_DEMO = "ninety-percent"
LINGER_S = 3.0  # the last picture stands this long before the next round
LEAST_WAIT_S = 0.25  # lines closer together than this come together: a log is polled no faster
MOST_WAIT_S = 1.0  # the stop button is looked after at least this often
BROUGHT_WAIT_S = 5.0  # while others hand over what is due, and say when more is to be read
MOST_EVENTS = 1000  # at a time: a history of hours is not held beside what it becomes
FORWARD_MS = 10 * 60_000.0  # a step forward that is played through; a longer one begins anew
PIECES_AHEAD = 256  # some seconds of a log; more would be a hitch in what is played
SEEK_BACK_BYTES = 16 * 1024 * 1024  # of a recording, read before the point that is asked for

_ANEW: Final = "anew"
_STOPPED: Final = "stopped"

ENGINE_STARTS = b"starting cuzk engine"  # TIMELINE counts from its time stamp
GPU_WORKS = b",GPU_START,"
FELL_US = 5_000_000  # TIMELINE steps back by milliseconds on its own; by this much at a restart
LEAPT_US = 600_000_000  # a longer silence must be confirmed by a second line
AGREE_US = 60_000_000


# ---------------------------------------------------------------- the demos


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """A demo's files. `start_s` counts from the log's first line that has a time."""

    name: str
    about: str
    log: Path
    gpu_csv: Path | None
    start_s: float | None
    utc: bool  # the clock of gpu.csv


def demos_root() -> Path:
    """Where the demos lie: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "demo_logs"
    return installed if installed.is_dir() else package.parent / "demo_logs"


def demo_names() -> tuple[str, ...]:
    """The demos there are, the default one first."""
    try:
        names = sorted(about.parent.name for about in demos_root().glob("*/about.txt"))
    except OSError:
        return ()
    return tuple(sorted(names, key=lambda name: name != DEFAULT_DEMO))


def demo_folder(name: str) -> Path:
    """The folder of demo `name`. Raises UsageError that lists the names if there is none."""
    names = demo_names()
    if name not in names:
        message = f"there is no demo {name!r}"
        hint = f"choose one of {', '.join(names)}" if names else "no demos are installed"
        raise UsageError(message, hint=hint)
    return demos_root() / name


def demo(name: str = DEFAULT_DEMO) -> Demo:
    """Demo `name`. Raises UsageError if there is none."""
    folder = demo_folder(name)
    about, *rest = (folder / "about.txt").read_text("utf-8").splitlines() or [""]
    options = dict(line.split("=", 1) for line in rest if "=" in line)
    start = options.get("start")
    return Demo(
        name=name,
        about=about,
        log=_first_of(folder, "daemon.log", "daemon.log.gz", "recording", "recording.gz")
        or folder / "daemon.log",
        gpu_csv=_first_of(folder, "gpu.csv", "gpu.csv.gz"),
        start_s=None if start is None else float(start),
        utc=options.get("utc") == "1",
    )


def _first_of(folder: Path, *names: str) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


# ---------------------------------------------------------------- a log's own time


class LineClock:
    """When a log's lines were written, by the clocks in them: time stamps and TIMELINE offsets.

    The time never falls: where a log was damaged, a clock was set back or another run follows,
    it stands until the lines have caught up, or counts on from there.
    """

    def __init__(self) -> None:
        """Begin before the first line."""
        self._now_us: int | None = None
        self._epoch_us: int | None = None  # of TIMELINE's zero
        self._leapt_us: int | None = None  # an unlikely time that a second line must confirm
        self._fallen_us: int | None = None  # the same for an offset

    def read(self, line: bytes) -> int | None:
        """The time of `line` in microseconds since 1970; a line without one has its forerunner's.

        None before the first line with a time. Without any time stamp the log begins in 1970.
        """
        self.reads(line)
        return self._now_us

    def reads(self, line: bytes) -> bool:
        """Read the time of `line`, if it has one; whether it has."""
        stamp = STAMP.search(line)
        if stamp is not None:
            wall_us = _stamp_us(stamp[0])
            if wall_us is not None:
                if ENGINE_STARTS in line:
                    self._epoch_us, self._fallen_us = wall_us, None
                self._advance(wall_us)
            return True
        mark = MARK.search(line)
        if mark is not None:
            self._read_offset(int(mark[1]) * 1000)
        return mark is not None

    @property
    def now_us(self) -> int | None:
        """The time of the last line that was read."""
        return self._now_us

    def _read_offset(self, offset_us: int) -> None:
        if self._now_us is None:
            self._now_us = 0
        if self._epoch_us is None:
            self._epoch_us = self._now_us - offset_us
        if self._epoch_us + offset_us < self._now_us - FELL_US:
            confirmed = self._fallen_us is not None and abs(offset_us - self._fallen_us) < AGREE_US
            self._fallen_us = offset_us
            if not confirmed:
                return
            self._epoch_us = self._now_us - offset_us  # a run whose start-up lines are missing
        self._fallen_us = None
        self._advance(self._epoch_us + offset_us)

    def _advance(self, wall_us: int) -> None:
        if self._now_us is not None and wall_us > self._now_us + LEAPT_US:
            confirmed = self._leapt_us is not None and abs(wall_us - self._leapt_us) < AGREE_US
            self._leapt_us = wall_us
            if not confirmed:
                return
        self._leapt_us = None
        self._now_us = wall_us if self._now_us is None else max(self._now_us, wall_us)


STAGE = re.compile(rb"(tail_msm|batch_add|barrier_wait|ntt_msm_h)_ms=(\d{1,9})")
FIRST_STAGES = (b"ntt_msm_h", b"barrier_wait")
LAST_STAGES = (b"batch_add", b"tail_msm")
SHORT_LINES = 100_000  # of a log: times of so many are remembered, 8 bytes each
LONGEST_GROUP = 256  # lines without a time that are held back until one with a time comes


def timed(lines: Iterable[bytes], clock: LineClock | None = None) -> Iterator[tuple[int, bytes]]:
    """Each line with its time (µs since 1970); those without one are placed by what they print.

    The library's lines have no clock, and a whole call of them may stand between two that have.
    `clock` reads those that have; it is begun here unless one is given.
    """
    clock = LineClock() if clock is None else clock
    now_us = 0
    group: list[bytes] = []
    for line in lines:
        if not clock.reads(line):
            group.append(line)
            if len(group) < LONGEST_GROUP:
                continue
            yield from ((now_us, held) for held in group)
            group.clear()
            continue
        before_us, now_us = now_us, clock.now_us or now_us
        if group:
            yield from zip(_placed(group, before_us, now_us), group, strict=True)
            group.clear()
        yield now_us, line
    yield from ((now_us, held) for held in group)


def _placed(group: Sequence[bytes], from_us: int, until_us: int) -> list[int]:
    """Times in [from_us, until_us] for lines of one stretch, in order.

    A call's first stages count from the stretch's beginning, its last ones from its end: what
    lies between them is the wait of the kernels for the CPU.
    """
    stages = [STAGE.search(line) for line in group]
    late: list[int] = []
    at_us = until_us
    for stage in reversed(stages):
        late.append(at_us)
        if stage is not None and stage[1] in LAST_STAGES:
            at_us -= int(stage[2]) * 1000  # the line before it was printed when this stage began
    late.reverse()
    last_early = max(
        (at for at, stage in enumerate(stages) if stage is not None and stage[1] in FIRST_STAGES),
        default=-1,
    )
    times: list[int] = []
    at_us = newest_us = from_us
    for index, stage in enumerate(stages):
        if stage is not None and stage[1] in FIRST_STAGES:
            at_us += int(stage[2]) * 1000
        due_us = min(at_us, late[index]) if index <= last_early else late[index]
        newest_us = max(newest_us, due_us)
        times.append(newest_us)
    return times


def _stamp_us(stamp: bytes) -> int | None:
    second_us = _second_us(stamp[:-7])
    return None if second_us is None else second_us + int(stamp[-6:])


@lru_cache(maxsize=4)  # most lines are of the second of the one before
def _second_us(second: bytes) -> int | None:
    try:
        moment = datetime.fromisoformat(second.decode("ascii")).replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp()) * 1_000_000


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a log, each with its line end; the last may lack one."""
    with open_log(path) as file:
        held = b""
        for block in read_blocks(file):
            *whole, held = (held + block).split(b"\n")
            for line in whole:
                yield line + b"\n"
        if held:
            yield held


# ---------------------------------------------------------------- what is played


class Reel(Protocol):
    """Something to play: pieces of a log and what came beside it, each at a time.

    Times are wall-clock milliseconds since 1970. `start_ms` is where playing begins unless
    something else is asked for.
    """

    first_ms: float
    last_ms: float
    start_ms: float

    def pieces(self, at_ms: float) -> Iterator[tuple[float, Piece]]:
        """What came, in the order in which it did, from well before `at_ms` on."""


class LogReel:
    """A log, played by the clocks in it, and perhaps GPU readings of the same time."""

    def __init__(
        self, path: Path, samples: Callable[[], Iterable[GpuSampled]] | None = None
    ) -> None:
        """Read the log's times. Raises SourceUnreadableError if it can't be read."""
        self._path = path
        self._samples = samples
        self._times: array[int] | None = array("q")  # of a short log's lines (µs)
        clock = LineClock()
        first_us = works_us = None
        for at_us, line in timed(_lines(path), clock):
            if first_us is None:
                first_us = clock.now_us
            if works_us is None and GPU_WORKS in line:
                works_us = at_us
            if self._times is not None:
                self._times.append(at_us)
                if len(self._times) > SHORT_LINES:
                    self._times = None
        self.first_ms = (first_us or 0) / 1000.0
        self.last_ms = (clock.now_us or 0) / 1000.0
        self.start_ms = self.first_ms if works_us is None else works_us / 1000.0

    def pieces(self, at_ms: float) -> Iterator[tuple[float, Piece]]:
        """All lines, and the readings up to the last one."""
        del at_ms  # such logs are short: they are always played from their beginning
        samples = iter(self._samples() if self._samples is not None else ())
        sample = next(samples, None)
        lines = _lines(self._path)
        timed_lines = timed(lines) if self._times is None else zip(self._times, lines, strict=False)
        for at_us, line in timed_lines:
            while sample is not None and sample.at_ms * 1000.0 <= at_us:
                yield sample.at_ms, sample
                sample = next(samples, None)
            yield at_us / 1000.0, line


class RecordingReel:
    """A recording, played by the times at which things came."""

    def __init__(self, path: Path) -> None:
        """Read its first and its last time.

        Raises SourceUnreadableError if it can't be read, or holds no record.
        """
        self._path = path
        with opened_parts(self._path) as files:
            first = next((at_ms for at_ms, _ in self._read(files, 0, 0)), None)
            if first is None:
                message = f"cannot play {path}: nothing is recorded in it"
                raise SourceUnreadableError(message, hint="name another recording")
            last = next(filter(None, map(self._last, reversed(files))), first)
        self.first_ms = self.start_ms = float(first)
        self.last_ms = float(max(first, last))

    def pieces(self, at_ms: float) -> Iterator[tuple[float, Piece]]:
        """All that was recorded, or what of it is near enough to tell what is true at `at_ms`."""
        with opened_parts(self._path) as files:
            index, offset = self._place(files, at_ms)
            damage = Damage()
            for came_ms, piece in self._read(files, index, offset, damage):
                if isinstance(piece, HostSampled):
                    # What the recorder cost is not what this program costs.
                    yield came_ms, piece._replace(own_cpu_pct=None, own_rss_bytes=None)
                else:
                    yield came_ms, piece
            if damage.text():
                note = SourceNote(self.last_ms, "warning", f"{self._path}: {damage.text()}")
                yield self.last_ms, note

    def _read(
        self, files: list[BinaryIO], index: int, offset: int, damage: Damage | None = None
    ) -> Iterator[tuple[int, Piece]]:
        """The pieces from `offset` of a part on, which may lie inside a record."""
        reader = RecordReader(name=str(self._path), inside=offset > 0, damage=damage)
        for file in files[index:]:
            file.seek(offset)
            offset = 0
            for block in whole_lines(read_blocks(file)):
                yield from reader.feed(block)

    def _last(self, file: BinaryIO) -> int | None:
        """The time of a part's last record; None if there is none in it."""
        size = plain_size(file) or 0
        for back in (READ_BLOCK_BYTES, size):
            last = None
            for last, _ in self._read([file], 0, max(0, size - back)):  # noqa: B007
                pass
            if last is not None:
                return last
        return None

    def _place(self, files: list[BinaryIO], at_ms: float) -> tuple[int, int]:
        """The part and the offset in it from which to read to know what is true at `at_ms`."""
        sizes = [plain_size(file) for file in files]
        if None in sizes:  # compressed: there is no way into its middle
            return 0, 0
        back = SEEK_BACK_BYTES
        for index in range(len(files) - 1, -1, -1):
            size = sizes[index] or 0
            end = self._offset(files[index], size, at_ms)
            if end == 0:
                continue  # it begins later
            if end > back:
                return index, end - back
            back -= end
        return 0, 0

    def _offset(self, file: BinaryIO, size: int, at_ms: float) -> int:
        """An offset soon after which the records of `at_ms` stand: records are in order of time."""
        low, high = 0, size
        while high - low > READ_BLOCK_BYTES:
            middle = (low + high) // 2
            found = next((came for came, _ in self._read([file], 0, middle)), None)
            if found is not None and found <= at_ms:
                low = middle
            else:
                high = middle
        if low == 0:
            first = next((came for came, _ in self._read([file], 0, 0)), None)
            return 0 if first is None or first > at_ms else high
        return high


def reel(path: Path, samples: Callable[[], Iterable[GpuSampled]] | None = None) -> Reel:
    """The log or recording `path`, ready to be played; `samples` are a log's.

    Raises SourceUnreadableError if it can't be read.
    """
    return RecordingReel(path) if holds_recording(path) else LogReel(path, samples)


POSITION_HINT = "give seconds after its beginning or a time as the log has it, 14:30:05"
_OF_DAY = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?\Z")


def position_s(text: str, first_ms: float) -> float:
    """Where `text` points to, in seconds after `first_ms` (wall-clock ms since 1970).

    It is a number of seconds, a time of day (UTC, as the log's time stamps; the first that comes)
    or date and time as in the log. Raises UsageError for anything else.
    """
    try:
        seconds = float(text)
    except ValueError:
        return _clock_position_s(text, datetime.fromtimestamp(first_ms / 1000.0, UTC))
    if not 0.0 <= seconds <= 1e9:
        message = f"{text!r} is no time in a recording"
        raise UsageError(message, hint=POSITION_HINT)
    return seconds


def _clock_position_s(text: str, first: datetime) -> float:
    of_day = _OF_DAY.match(text)
    if of_day is not None:
        midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
        since = timedelta(
            hours=int(of_day[1]), minutes=int(of_day[2]), seconds=float(of_day[3] or 0.0)
        )
        return (midnight + since - first).total_seconds() % 86_400.0
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        message = f"{text!r} is no time in a recording"
        raise UsageError(message, hint=POSITION_HINT) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - first).total_seconds())


# ---------------------------------------------------------------- playing


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
