"""What can be played: a log by the clocks in it, a recording by the times at which things came."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Protocol

from cuzktop.errors import SourceUnreadableError, UsageError
from cuzktop.events import GpuSampled, HostSampled, SourceNote
from cuzktop.settings import READ_BLOCK_BYTES
from cuzktop.sources.files import holds_recording, open_log, plain_size, read_blocks
from cuzktop.sources.line_clock import LineClock, timed
from cuzktop.sources.recording import Piece
from cuzktop.sources.recording_reader import Damage, RecordReader, opened_parts, whole_lines

GPU_WORKS = b",GPU_START,"
SEEK_BACK_BYTES = 16 * 1024 * 1024  # of a recording, read before the point that is asked for
SHORT_LINES = 100_000  # of a log: times of so many are remembered, 8 bytes each


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


# ---------------------------------------------------------------- a place in it


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
