"""Reading a recording: its pieces with their times, or the log in it where a log is expected."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from cuzktop.dataclass import dataclass
from cuzktop.errors import SourceUnreadableError
from cuzktop.events import GpuSampled, LogEvent, SampleEvent
from cuzktop.settings import Since
from cuzktop.sources.beginning import find_start
from cuzktop.sources.files import RECORDING, LogParser, is_stream, open_log, plain_size, read_blocks
from cuzktop.sources.gpu_reader import UTIL_SOURCES
from cuzktop.sources.recording import (
    MAX_RECORD_BYTES,
    Header,
    LogCut,
    Piece,
    gpu_reading,
    host_reading,
    json_object,
    note_of,
    older_part,
    read_header,
)
from cuzktop.sources.since import find_since, settle

PREFIX_BYTES: Final = 16  # b"L 1796029645000 "
MOST_LINK = 1024  # no generation or number of lanes of PCIe is as large

_PREFIX = re.compile(rb"([A-Z]) (\d{13}) ")
_GPU_RECORD = re.compile(rb"\nG \d{13} ([^\n]+)(?=\n)")


def _left_out(number: int, one: str, which: str = "") -> str:
    """`1 damaged line was left out`, `2 records of a newer kind were left out`."""
    ending, verb = ("", "was") if number == 1 else ("s", "were")
    return f"{number} {one}{ending}{which} {verb} left out"


@dataclass(slots=True)
class Damage:
    """Lines of a recording that could not be used.

    `bad` are no records, `unknown` are of a kind that we don't know, and `torn` says that the
    last one is cut off.
    """

    bad: int = 0
    unknown: int = 0
    torn: bool = False

    def text(self) -> str:
        """In a few words; empty where there is none."""
        said = []
        if self.bad:
            said.append(_left_out(self.bad, "damaged line"))
        if self.unknown:
            said.append(_left_out(self.unknown, "record", " of a newer kind"))
        if self.torn:
            said.append("its last record is cut off")
        return ", ".join(said)


class RecordReader:
    """Makes pieces of a recording, a block of bytes at a time, each with the time it came at.

    Parts may follow each other. A damaged line costs that line.
    """

    def __init__(
        self,
        *,
        name: str = "the recording",
        inside: bool = False,
        readings: bool = True,
        damage: Damage | None = None,
    ) -> None:
        """`name` is what an error calls it; `inside`: the first bytes are the rest of a line.

        Without `readings` it gives the log alone. What can't be used is counted in `damage`.
        """
        self.damage = Damage() if damage is None else damage
        self._name = name
        self._readings = readings
        self._held = b""
        self._usual: bytes | None = None  # how records of the log begin
        self._too_long = inside  # drop everything up to the next line
        self._count_it = not inside
        self._header: Header | None = None
        self._begun = False  # something was read of the log
        self._rest_of_line = False  # drop what is left of a log line

    def feed(self, block: bytes) -> list[tuple[int, Piece]]:
        """The pieces of the records that end in `block`, with their times in ms since 1970.

        Lines of the log that came at the same time are one piece. Raises SourceUnreadableError
        when a part of another version begins.
        """
        return self._timed(self._records(block))

    def _timed(self, records: list[bytes]) -> list[tuple[int, Piece]]:
        found: list[tuple[int, Piece]] = []
        lines: list[bytes] = []
        same: bytes | None = None  # the prefix of the lines that are collected
        at_ms = 0
        for record in records:
            if record[:PREFIX_BYTES] == same:
                lines.append(record[PREFIX_BYTES:])
                continue
            if lines:
                found.append((at_ms, _joined(lines)))
                lines, same = [], None
            kind, at_ms, piece = self._read(record, at_ms)
            if kind == b"L":
                lines, same = [record[PREFIX_BYTES:]], record[:PREFIX_BYTES]
            elif piece is not None:
                found.append((at_ms, piece))
        if lines:
            found.append((at_ms, _joined(lines)))
        return found

    def feed_untimed(self, block: bytes) -> list[Piece]:
        """The same pieces without their times, at a fifth of the cost."""
        records = self._records(block)
        others = [n for n, record in enumerate(records) if record[:6] != self._usual]
        if self._rest_of_line or any(records[n].startswith(RECORDING) for n in others):
            return [piece for _, piece in self._timed(records)]
        found: list[Piece] = []
        begun = 0  # lines of the log from there on are still to be taken
        for index in others:
            if index > begun:
                found.append(_joined([line[PREFIX_BYTES:] for line in records[begun:index]]))
            begun = index + 1
            record = records[index]
            kind, _, piece = self._read(record, 0)
            if kind == b"L":
                found.append(record[PREFIX_BYTES:] + b"\n")
                self._usual = record[:6]  # holds for eleven days
            elif piece is not None:
                found.append(piece)
        if begun < len(records):
            found.append(_joined([line[PREFIX_BYTES:] for line in records[begun:]]))
        return found

    def finish(self) -> None:
        """No more bytes will come: a record without an end is left out."""
        self.damage.torn = bool(self._held) or self._too_long
        self._held = b""

    def _records(self, block: bytes) -> list[bytes]:
        """The lines that end in `block`, without their ends."""
        text = self._held + block
        if self._too_long:
            start = text.find(b"\n") + 1
            if not start:
                return []
            self.damage.bad += self._count_it
            self._too_long, self._count_it = False, True
            text = text[start:]
        end = text.rfind(b"\n")
        self._held = text[end + 1 :]
        if len(self._held) > MAX_RECORD_BYTES:
            self._held, self._too_long = b"", True
        return [] if end < 0 else text[:end].split(b"\n")

    def _read(self, record: bytes, before_ms: int) -> tuple[bytes, int, Piece | None]:
        """A record's kind, its time and what it holds; a line of the log (L) is left in it."""
        prefix = _PREFIX.match(record)
        if prefix is None:
            return b"", before_ms, self._without_prefix(record)
        kind, at_ms = prefix[1], int(prefix[2])
        if kind == b"L":
            if self._rest_of_line:
                self._rest_of_line = False
                return b"", at_ms, None
            self._begun = True
            return kind, at_ms, None
        return kind, at_ms, self._other(kind, at_ms, record[PREFIX_BYTES:])

    def _other(self, kind: bytes, at_ms: int, text: bytes) -> Piece | None:
        piece: Piece | None = None
        if kind == b"P":
            if self._rest_of_line:
                return None
            self._begun = True
            return text
        if kind == b"C":
            self._rest_of_line = False
            return LogCut()
        if kind not in (b"G", b"H", b"N"):
            self.damage.unknown += 1
            return None
        if not self._readings:
            return None
        told = json_object(text)
        if told is not None:
            if kind == b"G":
                piece = gpu_reading(told)
            elif kind == b"H":
                piece = host_reading(told)
            else:
                piece = note_of(at_ms, told)
        if piece is None:
            self.damage.bad += 1
        return piece

    def _without_prefix(self, record: bytes) -> Piece | None:
        if not record.startswith(RECORDING):
            self.damage.bad += 1
            return None
        header, before = read_header(record, self._name), self._header
        follows = before is not None and header[:2] == (before.identity, before.part + 1)
        self._header = header
        if follows:
            return None
        self._rest_of_line = header.rest_of_line
        return LogCut() if self._begun else None


def _joined(lines: list[bytes]) -> bytes:
    lines.append(b"")
    return b"\n".join(lines)


class RecordingParser:
    """Reads a recording where a log is expected: takes its bytes, gives the log's events.

    What was recorded beside the log goes to `on_event`, in the order of the recording.
    """

    def __init__(
        self,
        parser: LogParser,
        on_event: Callable[[SampleEvent], object] | None = None,
        *,
        name: str = "the recording",
    ) -> None:
        """Hand the log's bytes, exactly as they were, to `parser`."""
        self._parser = parser
        self._on_event = on_event
        self._reader = RecordReader(name=name, readings=on_event is not None)

    @property
    def damage(self) -> Damage:
        """What could not be used so far."""
        return self._reader.damage

    def feed(self, data: bytes) -> list[LogEvent]:
        """The log's events in `data`. Raises SourceUnreadableError for another version."""
        events: list[LogEvent] = []
        log: list[bytes] = []
        for piece in self._reader.feed_untimed(data):
            if isinstance(piece, bytes):
                log.append(piece)
            elif isinstance(piece, LogCut):
                events += self._parser.feed(b"".join(log))
                events += self._parser.cut()
                log.clear()
            elif self._on_event is not None:
                self._on_event(piece)
        if log:
            events += self._parser.feed(b"".join(log))
        return events

    def finish(self) -> list[LogEvent]:
        """No more bytes will come."""
        self._reader.finish()
        return self._parser.finish()

    def cut(self) -> list[LogEvent]:
        """Continuity of the log is lost."""
        return self._parser.cut()


# ---------------------------------------------------------------- the parts of one


@contextlib.contextmanager
def opened_parts(path: Path) -> Iterator[list[BinaryIO]]:
    """The files of the recording `path`, the older part first, each at its beginning.

    Raises SourceUnreadableError if it can't be read or is of another version.
    """
    if is_stream(path):
        message = f"cannot read {path} as a recording: it is a stream"
        raise SourceUnreadableError(message, hint="save it to a file first")
    with contextlib.ExitStack() as stack:
        newest = stack.enter_context(open_log(path))
        header = read_header(_first_line(newest), str(path))
        older = None if plain_size(newest) is None else _open_older(path, header)
        yield [newest] if older is None else [stack.enter_context(older), newest]


def _first_line(file: BinaryIO) -> bytes:
    first = next(read_blocks(file), b"")
    file.seek(0)
    return first


def _open_older(path: Path, header: Header) -> BinaryIO | None:
    """The part before the one with `header`; None where there is none, or it isn't that one.

    Between two looks the writer may have gone on: then the other file is another part.
    """
    if header.part == 1:
        return None
    try:
        file = open_log(older_part(path))
    except SourceUnreadableError:
        return None
    try:
        found = read_header(_first_line(file), "")
    except SourceUnreadableError:
        found = None
    if found is None or found[:2] != (header.identity, header.part - 1):
        file.close()
        return None
    return file


def as_log(
    blocks: Iterable[bytes],
    parser: LogParser,
    *,
    path: Path | None = None,
    on_event: Callable[[SampleEvent], object] | None = None,
) -> tuple[Iterable[bytes], LogParser]:
    """What to read, and with which parser: for a recording its log, for anything else the same.

    `blocks` are the file's, from its beginning; `path` is its name, unless it is a stream: there
    the older part is looked for. A RecordingParser is given if, and only if, it is a recording.
    """
    rest = iter(blocks)
    first = b""
    while len(first) < len(RECORDING) and (block := next(rest, b"")):
        first += block
    whole = itertools.chain([first], rest) if first else rest
    if not first.startswith(RECORDING):
        return whole, parser
    name = "standard input" if path is None else str(path)
    if path is not None and not is_stream(path):
        older = _open_older(path, read_header(first, name))
        if older is not None:
            whole = itertools.chain(whole_lines(_all_of(older)), whole)
    return whole, RecordingParser(parser, on_event, name=name)


def _all_of(file: BinaryIO) -> Iterator[bytes]:
    with file:
        yield from read_blocks(file)


def whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """A part that another one follows: a torn record must not run into that one's header."""
    held = b""
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if end:
            yield held + block[:end]
        held = block[end:] if end else held + block


def recording_since(path: Path, since: Since) -> Iterator[bytes]:
    """What a recording has from `since` on, by its log's clock, for a RecordingParser.

    Raises SourceUnreadableError as `opened_parts` does.
    """
    with opened_parts(path) as (*older, newest):
        since = settle(newest, since)
        if find_since(newest, since) == 0:
            for file in older:
                find_since(file, since)
                yield from whole_lines(read_blocks(file))
        yield from read_blocks(newest)


def recording_tail(path: Path, *, back_ms: float, max_bytes: int) -> Iterator[bytes]:
    """The recording's end as `find_start` has it for a log, for a RecordingParser.

    Raises SourceUnreadableError as `opened_parts` does.
    """
    with opened_parts(path) as (*older, newest):
        start = find_start(newest, back_ms=back_ms, max_bytes=max_bytes)
        if start == 0:
            left = max(0, max_bytes - (plain_size(newest) or 0))
            for file in older:
                find_start(file, back_ms=back_ms, max_bytes=left)
                yield from whole_lines(read_blocks(file))
        yield from read_blocks(newest)


def recording_samples(path: Path) -> Iterator[GpuSampled]:
    """The GPU readings of the recording `path`, in its order; memory doesn't grow with it.

    Raises SourceUnreadableError as `opened_parts` does.
    """
    with opened_parts(path) as files:
        for file in files:
            held = b"\n"
            for block in read_blocks(file):
                text = held + block
                for told in map(json_object, _GPU_RECORD.findall(text)):
                    reading = None if told is None else gpu_reading(told)
                    if reading is not None:
                        yield reading
                held = text[max(0, text.rfind(b"\n")) :]
                if len(held) > MAX_RECORD_BYTES:
                    held = b""


class KeptReadings:
    """GPU readings for means over spans that are known only later; 50 bytes each.

    For a recording that can be read once only: of a file, `recording_samples` reads them again.
    """

    def __init__(self) -> None:
        """Keep none yet."""
        self._figures = array("d")  # time, use, its window, power, rate of copies to the card
        self._gpus = array("q")
        self._sources = array("B")  # as they stand in UTIL_SOURCES
        self._links = array("I")  # generation and lanes of PCIe; 0 is unknown

    def add(self, event: SampleEvent) -> None:
        """Keep `event` if it is a GPU reading."""
        if not isinstance(event, GpuSampled):
            return
        self._sources.append(UTIL_SOURCES.index(event.util_source))
        self._gpus.append(event.gpu)
        for value in (
            event.at_ms,
            event.util_pct,
            event.util_window_ms,
            event.power_w,
            event.host_to_device_bytes_per_s,
        ):
            self._figures.append(math.nan if value is None else value)
        for link in (event.pcie_gen, event.pcie_width):
            self._links.append(link if link is not None and 0 < link < MOST_LINK else 0)

    def __iter__(self) -> Iterator[GpuSampled]:
        """The readings in their order, with use, power and copies alone."""
        figures = self._figures
        for index, (gpu, source) in enumerate(zip(self._gpus, self._sources, strict=True)):
            at_ms, util_pct, window_ms, power_w, copied = figures[5 * index : 5 * index + 5]
            generation, lanes = self._links[2 * index : 2 * index + 2]
            yield GpuSampled(
                at_ms=at_ms,
                gpu=gpu,
                util_pct=None if math.isnan(util_pct) else util_pct,
                util_source=UTIL_SOURCES[source],
                util_window_ms=window_ms,
                power_w=None if math.isnan(power_w) else power_w,
                host_to_device_bytes_per_s=None if math.isnan(copied) else copied,
                pcie_gen=generation or None,
                pcie_width=lanes or None,
            )
