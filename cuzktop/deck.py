"""The keys of a player and a recorder: what is played here, or recorded beside the screen.

Every answer is a few words for the footer. Any thread may ask.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cuzktop.errors import CuzktopError
from cuzktop.units import size

if TYPE_CHECKING:
    from cuzktop.events import Event, LogEvent
    from cuzktop.sources.files import LogParser
    from cuzktop.sources.recorder import RecordingTap
    from cuzktop.sources.replay import Replay

SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0)
STEP_S = 10.0
NOTHING_PLAYED = "nothing is played here: cuzktop replay FILE plays a recording"
PLAYED = "what is played here is recorded already"


class Junction:
    """The parser that a source feeds: the log's own, or one that records what it is fed, too."""

    def __init__(self, parser: LogParser) -> None:
        """Hand everything on to `parser`."""
        self._own = self._parser = parser
        self._lock = threading.Lock()
        self._in_line = False

    def feed(self, data: bytes) -> list[LogEvent]:
        """See `LogParser`."""
        with self._lock:
            if data:
                self._in_line = not data.endswith(b"\n")
            return self._parser.feed(data)

    def finish(self) -> list[LogEvent]:
        """See `LogParser`."""
        return self._parser.finish()

    def cut(self) -> list[LogEvent]:
        """See `LogParser`."""
        with self._lock:
            self._in_line = False
            return self._parser.cut()

    def lead_through(self, make: Callable[[LogParser, bool], LogParser]) -> None:
        """Lead the log through another parser; `make` is told our own, and if we are in a line."""
        with self._lock:
            self._parser = make(self._own, self._in_line)

    def lead_back(self) -> None:
        """Feed the log's own parser again."""
        with self._lock:
            self._parser = self._own


class Tape:
    """Records the log and the readings while the screen runs."""

    def __init__(
        self,
        junction: Junction,
        *,
        log: str,
        wall_ms: Callable[[], float],
        on_failure: Callable[[str], object],
    ) -> None:
        """Record what goes through `junction`, from `begin` on; `log` is its name."""
        self._junction = junction
        self._log = log
        self._wall_ms = wall_ms
        self._on_failure = on_failure
        self._tap: RecordingTap | None = None
        self._path = Path()

    @property
    def runs(self) -> bool:
        """Whether anything is recorded."""
        tap = self._tap
        return tap is not None and tap.writer is not None and tap.writer.going

    def emitting(
        self, emit: Callable[[Sequence[Event]], object]
    ) -> Callable[[Sequence[Event]], None]:
        """`emit` for a source, with what is recorded of its events."""

        def recorded(events: Sequence[Event]) -> None:
            tap = self._tap
            if tap is not None:
                tap.note(events)
            emit(events)

        return recorded

    def begin(self, path: Path) -> str:
        """Record to the new file `path`. Raises CuzktopError if it can't be made."""
        from cuzktop.sources.recorder import RecordingTap  # noqa: PLC0415 (few record)
        from cuzktop.sources.recording_writer import RecordingWriter  # noqa: PLC0415

        writer = RecordingWriter(
            path, now_ms=self._wall_ms(), log=self._log, on_failure=self._on_failure
        )

        def tap_of(parser: LogParser, in_line: bool) -> LogParser:  # noqa: FBT001
            tap = self._tap = RecordingTap(parser, self._wall_ms, writer, in_line=in_line)
            return tap

        self._junction.lead_through(tap_of)
        self._path = path
        return f"recording to {path}; R ends it"

    def end(self) -> str:
        """End the recording."""
        tap, self._tap = self._tap, None
        self._junction.lead_back()
        recorded = None if tap is None else tap.end()
        return "" if recorded is None else f"recorded {recorded.text()} to {self._path}"

    def badge(self) -> str:
        """`● REC 1.2M`."""
        tap = self._tap
        writer = None if tap is None else tap.writer
        if writer is None or not writer.going:
            return ""
        return f"● REC {size(writer.recorded.kept_bytes)}"

    def new_name(self) -> str:
        """A name with the time in it."""
        now = datetime.fromtimestamp(self._wall_ms() / 1000.0, UTC)
        return f"cuzktop-{now:%Y%m%d-%H%M%S}.rec"


class Deck:
    """What the keys of the screen do with `player` or `tape`; one of them is there at most."""

    def __init__(self, player: Replay | None = None, tape: Tape | None = None) -> None:
        """Without both, every key says why it does nothing."""
        self._player = player
        self._tape = tape

    @property
    def plays(self) -> bool:
        """Whether something is played, which pauses by itself."""
        return self._player is not None

    @property
    def records(self) -> bool:
        """Whether something is being recorded."""
        return self._tape is not None and self._tape.runs

    def badge(self) -> str:
        """Speed and time of what is played, or what was recorded; empty if neither."""
        player = self._player
        if player is None:
            return "" if self._tape is None else self._tape.badge()
        at = _of_day(player.now_ms())
        return f"‖ {at}" if player.paused else f"▶ {player.speed:g}× {at}"

    def pause(self) -> str:
        """Let what is played stand, or go on."""
        player = self._player
        if player is None:
            return NOTHING_PLAYED
        if player.paused:
            player.resume()
            return "playing"
        player.pause()
        return f"stands at {_of_day(player.now_ms())} UTC; , and . step"

    def change_speed(self, by: int) -> str:
        """Play at the next higher speed, or the one before."""
        player = self._player
        if player is None:
            return NOTHING_PLAYED
        others = [speed for speed in SPEEDS if (speed > player.speed) == (by > 0)]
        others = [speed for speed in others if speed != player.speed]
        if not others:
            return f"{player.speed:g} times as fast: there is no step further"
        player.set_speed(min(others) if by > 0 else max(others))
        return f"{player.speed:g} times as fast"

    def step(self, by: int) -> str:
        """Go ten seconds on, or back."""
        player = self._player
        if player is None:
            return NOTHING_PLAYED
        return self._seek(player, player.now_ms() + 1000.0 * STEP_S * by)

    def go_to(self, text: str) -> str:
        """Go to a time: seconds after the beginning, or a time of day (UTC)."""
        from cuzktop.sources.reels import position_s  # noqa: PLC0415 (loaded if it plays)

        player = self._player
        if player is None or not text:
            return "" if player is not None else NOTHING_PLAYED
        try:
            at_s = position_s(text, player.first_ms)
        except CuzktopError as error:
            return str(error)
        return self._seek(player, player.first_ms + 1000.0 * at_s)

    def _seek(self, player: Replay, at_ms: float) -> str:
        player.seek(at_ms)
        return f"at {_of_day(player.now_ms())} UTC"

    def new_name(self) -> str:
        """A name for a recording that begins now; empty where nothing can be recorded."""
        return "" if self._tape is None else self._tape.new_name()

    def record(self, text: str) -> str:
        """Record to the new file that `text` names."""
        if self._tape is None:
            return PLAYED
        if not text:
            return ""
        try:
            return self._tape.begin(Path(os.path.expanduser(text)))  # noqa: PTH111 (raises nothing)
        except CuzktopError as error:
            return str(error)

    def end_recording(self) -> str:
        """End what is being recorded."""
        return "" if self._tape is None else self._tape.end()


def _of_day(at_ms: float) -> str:
    """The time of day, UTC."""
    minutes, second = divmod(int(at_ms // 1000) % 86_400, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
