"""A session's recording: log lines and readings with the times at which they came.

The format is described in docs/recording-format.md: lines of text, each of them a record of its
own, a letter and a time before what was recorded. So a file that a crash has torn loses its last
record and no more, `grep TIMELINE` finds in it what it finds in the log, and looking for a place
in it needs no index.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import json
import math
import os
import re
import threading
import typing
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

from cuzktop import __version__, units
from cuzktop.dataclass import NamedTuple, dataclass
from cuzktop.errors import CuzktopError, SourceUnreadableError, UsageError
from cuzktop.events import (
    Event,
    GpuProcess,
    GpuSampled,
    GpuSamplerNote,
    HostSampled,
    LogEvent,
    SampleEvent,
    SourceNote,
)
from cuzktop.settings import MAX_LINE_BYTES, READ_BLOCK_BYTES, Since
from cuzktop.sources.files import (
    RECORDING,
    LogParser,
    find_start,
    is_stream,
    open_log,
    plain_size,
    read_blocks,
    reason_of,
)
from cuzktop.sources.gpu_reader import MAX_BYTES_PER_S, MAX_GPU, MAX_POWER_W
from cuzktop.sources.since import find_since, settle

VERSION: Final = 1
PREFIX_BYTES: Final = 16  # b"L 1796029645000 "
MAX_RECORD_BYTES = 2 * MAX_LINE_BYTES  # none that we write is longer
MAX_NOTE_CHARS = 4096  # nor is a sentence, or a file's name
MOST_LINK = 1024  # no generation or number of lanes is as large
MAX_FIGURE = 2**62  # no count, rate or number of bytes is larger
MOST: Final[dict[str, float]] = {
    "at_ms": 1e13,
    "gpu": MAX_GPU,
    "util_pct": 100.0,
    "sm_util_pct": 100.0,
    "util_window_ms": 1e8,
    "power_w": MAX_POWER_W,
    "power_limit_w": MAX_POWER_W,
    "host_to_device_bytes_per_s": MAX_BYTES_PER_S,
    "device_to_host_bytes_per_s": MAX_BYTES_PER_S,
    "cpu_pct": 100.0,
    "psi_cpu_pct": 100.0,
    "psi_memory_pct": 100.0,
}
"""Field → the largest figure that a sound recording has of it; none is below 0."""

DEFAULT_MAX_BYTES = 1024 * 1024 * 1024  # about a week of one GPU
LEAST_MAX_BYTES = 256 * 1024  # two parts that hold the longest record each
FLUSH_MS = 1000.0
HALF_WAITS_MS = 2000.0  # a line without an end is written as it is after that silence

_HEADER = re.compile(rb"cuzktop-recording (\d{1,6})(?: (.*))?\Z", re.DOTALL)
_PREFIX = re.compile(rb"([A-Z]) (\d{13}) ")
_GPU_RECORD = re.compile(rb"\nG \d{13} ([^\n]+)(?=\n)")
_JSON: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":"))

_SOURCES: Final = ("gpm", "samples", "utilization.gpu")  # the contract's words
_Reading = TypeVar("_Reading", GpuSampled, HostSampled)


class LogCut(NamedTuple):
    """The log's bytes after this don't continue those before it."""


Piece = bytes | LogCut | SampleEvent
"""What a record holds: bytes of the log, a cut in it, or something beside it."""


class RecordingStoppedError(CuzktopError):
    """A recording could not be gone on with: the disk is full, say."""


# ---------------------------------------------------------------- the header


class Header(NamedTuple):
    """A part's first line. Parts of one recording have the same `identity` and count from 1.

    `rest_of_line`: the part begins in the middle of a log line. `log` is the recorded file's name.
    """

    identity: str
    part: int
    rest_of_line: bool = False
    log: str = ""


def read_header(line: bytes, path: str) -> Header:
    """The header in a part's first line, or in what there is of it.

    Raises SourceUnreadableError for a version that we don't know; `path` is what it calls the file.
    """
    match = _HEADER.match(line.split(b"\n", 1)[0])
    if match is None:
        message = f"cannot read {path}: its first line is damaged"
        raise SourceUnreadableError(message, hint="it should begin cuzktop-recording 1")
    version = int(match[1])
    if version != VERSION:
        message = f"cannot read {path}: it is a recording of version {version}"
        raise SourceUnreadableError(message, hint="a newer cuzktop reads it")
    told = _json_object(match[2] or b"{}") or {}
    part, identity, log = told.get("part"), told.get("id"), told.get("log")
    return Header(
        identity=identity if isinstance(identity, str) else "",
        part=part if isinstance(part, int) else 1,
        rest_of_line=told.get("rest_of_line") is True,
        log=log if isinstance(log, str) else "",
    )


def _header_line(header: Header, now_ms: float) -> bytes:
    told: dict[str, object] = {
        "id": header.identity,
        "part": header.part,
        "began_ms": int(now_ms),
        "log": header.log[:MAX_NOTE_CHARS],
        "by": f"cuzktop {__version__}",
    }
    if header.rest_of_line:
        told["rest_of_line"] = True
    return b"%s%d %s\n" % (RECORDING, VERSION, _JSON.encode(told).encode("ascii"))


# ---------------------------------------------------------------- readings as JSON


def _json_object(text: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError, too
        return None
    return told if isinstance(told, dict) else None


@functools.cache
def _fields(kind: str) -> dict[str, tuple[type, ...]]:
    """The fields of a reading and what their values may be; `NoneType` where one may lack."""
    hints = typing.get_type_hints({"G": GpuSampled, "H": HostSampled}[kind])
    return {name: typing.get_args(hint) or (hint,) for name, hint in hints.items()}


def _to_json(event: GpuSampled | HostSampled) -> str:
    """A reading's fields that are known; JSON has no word for a figure that isn't finite."""
    told = {
        name: value
        for name, value in zip(event._fields, event, strict=True)
        if value is not None and not (isinstance(value, float) and not math.isfinite(value))
    }
    return _JSON.encode(told)


def _from_json(kind: type[_Reading], told: dict[str, Any]) -> _Reading | None:
    """A reading; None if what it can't be without is missing. Unknown fields are left out."""
    values: dict[str, Any] = {}
    for name, types in _fields("G" if kind is GpuSampled else "H").items():
        value = told.get(name)
        if name == "processes":
            values[name] = _processes(value)
            continue
        if isinstance(value, int | float) and not 0 <= value <= MOST.get(name, MAX_FIGURE):
            value = None  # nor is NaN
        if float in types and type(value) is int:
            value = float(value)
        if type(value) not in types:
            value = None
        if value is not None or type(None) in types:
            values[name] = value
        elif name not in kind._field_defaults:
            return None
    return kind(**values)


def _processes(told: object) -> tuple[GpuProcess, ...] | None:
    """A card's processes, each [pid, bytes, name, here]; None unless all of them are in order."""
    if not isinstance(told, list):
        return None
    found = []
    for one in told:
        match one:
            case [int(pid), int() | None as used, str() | None as name, bool(here)]:
                if not (0 <= pid <= MAX_FIGURE and 0 <= (used or 0) <= MAX_FIGURE):
                    return None
                found.append(GpuProcess(pid, used, name, here))
            case _:
                return None
    return tuple(found)


def _gpu_reading(told: dict[str, Any]) -> GpuSampled | None:
    reading = _from_json(GpuSampled, told)
    return None if reading is None or reading.util_source not in _SOURCES else reading


def _note_json(event: GpuSamplerNote | SourceNote) -> str:
    text = event.text[:MAX_NOTE_CHARS]
    if isinstance(event, SourceNote):
        return _JSON.encode({"of": "log", "level": event.level, "text": text})
    return _JSON.encode({"of": "gpu", "gpu": event.gpu, "text": text})


def _note(at_ms: float, told: dict[str, Any]) -> GpuSamplerNote | SourceNote | None:
    text, level, gpu = told.get("text"), told.get("level"), told.get("gpu")
    if not isinstance(text, str):
        return None
    if told.get("of") == "log" and level in ("info", "warning", "error"):
        return SourceNote(at_ms, level, text)
    if told.get("of") == "gpu" and (gpu is None or type(gpu) is int):
        return GpuSamplerNote(at_ms, gpu, text)
    return None


# ---------------------------------------------------------------- writing


@dataclass(slots=True)
class Recorded:
    """What was recorded so far. `kept_bytes` stand on the disk, what was dropped left out."""

    kept_bytes: int = 0
    lines: int = 0
    gpu_readings: int = 0
    host_readings: int = 0
    parts: int = 1

    def text(self) -> str:
        """In a few words."""
        return (
            f"{self.lines} log lines, {self.gpu_readings} GPU readings,"
            f" {self.host_readings} host readings, {units.size(self.kept_bytes)}"
        )


class RecordingWriter:
    """Appends records to a new file; any thread may write, and nothing is raised once it is open.

    The recording has two parts at most, FILE.1 and FILE, of which FILE is the newer one. When
    FILE holds half of `max_bytes`, or of `max_age_s` seconds, it becomes FILE.1 in place of the
    former FILE.1, which is gone then; so the two never take more than `max_bytes`. All times are
    wall-clock milliseconds since 1970.
    """

    def __init__(
        self,
        path: Path,
        *,
        now_ms: float,
        log: str = "",
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_age_s: float | None = None,
        on_failure: Callable[[str], object] | None = None,
    ) -> None:
        """Make the file `path`. `log` names what is recorded.

        `on_failure` is called once, with a sentence, when writing fails; what comes after that
        is left out. Raises UsageError if the file or its other part exists already, or
        `max_bytes` is below `LEAST_MAX_BYTES`, SourceUnreadableError if it can't be made.
        """
        if max_bytes < LEAST_MAX_BYTES:
            message = f"a recording of {max_bytes} bytes is too small"
            raise UsageError(message, hint=f"give it {LEAST_MAX_BYTES} bytes or more")
        if not path.name:
            raise _unwritable(path, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
        self.path = path
        self.older = older_part(path)
        self.recorded = Recorded()
        self.failure = ""  # why nothing is written any more
        self._header = Header(os.urandom(8).hex(), part=1, log=log)
        self._part_bytes = max_bytes // 2
        self._part_ms = math.inf if max_age_s is None else max_age_s * 500.0
        self._on_failure = on_failure
        self._lock = threading.RLock()  # a failure is told under it, and may be written down
        self._half = b""  # the log's line whose end has not come
        self._half_ms = now_ms
        self._in_line = False  # what is written ends inside a line
        self._buffer = bytearray()
        self._flushed_ms = now_ms
        self._size = 0  # of FILE, with the buffer
        self._older_size = 0
        self._began_ms = now_ms
        for there in (path, self.older):
            if os.path.lexists(there):
                message = f"cannot record to {path}: {there} exists"
                raise UsageError(message, hint="record to another file, or move that one away")
        try:
            self._fd = _create(path)
        except OSError as error:
            raise _unwritable(path, error) from None
        self._begin_part(now_ms)

    @property
    def going(self) -> bool:
        """Whether what comes is written."""
        return self._fd >= 0

    # ------------------------------------------------------------ what comes

    def log(self, text: bytes, now_ms: float) -> None:
        """More bytes of the log have come, with or without a line's end."""
        with self._lock:
            if self._fd < 0:
                return
            end = text.rfind(b"\n")
            if end < 0:
                self._half += text
            else:
                block, self._half = self._half + text[:end], text[end + 1 :]
                self._lines(block, now_ms)
            self._half_ms = now_ms
            while len(self._half) > MAX_LINE_BYTES:
                self._put_half(self._half[:MAX_LINE_BYTES], now_ms)
                self._half = self._half[MAX_LINE_BYTES:]
            self._flush_if_due(now_ms)

    def cut(self, now_ms: float) -> None:
        """The log does not go on from here: it was truncated, or is another file."""
        with self._lock:
            self._give_half(now_ms)
            self._append(b"C %013d \n" % now_ms, now_ms)
            self._in_line = False

    def event(self, event: Event, now_ms: float) -> None:
        """Write down a reading or a note; any other event is left out."""
        if isinstance(event, GpuSampled):
            kind, text = b"G", _to_json(event)
        elif isinstance(event, HostSampled):
            kind, text = b"H", _to_json(event)
        elif isinstance(event, GpuSamplerNote | SourceNote):
            kind, text = b"N", _note_json(event)
        else:
            return
        with self._lock:
            if self._fd < 0 or len(text) > MAX_LINE_BYTES:
                return
            self._append(b"%s %013d %s\n" % (kind, now_ms, text.encode("ascii")), now_ms)
            self.recorded.gpu_readings += kind == b"G"
            self.recorded.host_readings += kind == b"H"
            self._flush_if_due(now_ms)

    def flush(self, now_ms: float) -> None:
        """Give to the system what has come, also a line that has been half for a while."""
        with self._lock:
            if self._half and now_ms - self._half_ms >= HALF_WAITS_MS:
                self._give_half(now_ms)
            if self._is_old(now_ms):
                self._next_part(now_ms)
            self._flush(now_ms)

    def close(self, now_ms: float) -> None:
        """Write what is left, and see that it is on the disk. More than once does no harm."""
        with self._lock:
            self._give_half(now_ms)
            self._flush(now_ms)
            self._close_part()

    # ------------------------------------------------------------ records

    def _lines(self, block: bytes, now_ms: float) -> None:
        """Write whole lines, the last of them without its line break."""
        at = 0
        while len(block) - at > MAX_LINE_BYTES:
            end = block.rfind(b"\n", at, at + MAX_LINE_BYTES)
            if end >= 0:
                self._put_lines(block[at:end], now_ms)
                at = end + 1
            else:
                self._put_half(block[at : at + MAX_LINE_BYTES], now_ms)
                at += MAX_LINE_BYTES
        self._put_lines(block[at:], now_ms)

    def _put_lines(self, lines: bytes, now_ms: float) -> None:
        prefix = b"L %013d " % now_ms
        self._append(prefix + lines.replace(b"\n", b"\n" + prefix) + b"\n", now_ms)
        self.recorded.lines += 1 + lines.count(b"\n")
        self._in_line = False

    def _put_half(self, part: bytes, now_ms: float) -> None:
        self._append(b"P %013d %s\n" % (now_ms, part), now_ms)
        self._in_line = True

    def _give_half(self, now_ms: float) -> None:
        half, self._half = self._half, b""
        if half:
            self._put_half(half, now_ms)

    def _append(self, records: bytes, now_ms: float) -> None:
        """Add whole records; where they don't fit into the part, to the next one."""
        if self._fd >= 0 and self._is_old(now_ms):
            self._next_part(now_ms)
        while self._fd >= 0 and self._size + len(records) > self._part_bytes:
            fits = records.rfind(b"\n", 0, max(0, self._part_bytes - self._size)) + 1
            if fits:
                self._put(records[:fits])
                self._in_line = False  # only whole lines come several at a time
                records = records[fits:]
            self._next_part(now_ms)
        if self._fd >= 0:
            self._put(records)

    def _put(self, records: bytes) -> None:
        self._buffer += records
        self._size += len(records)
        self.recorded.kept_bytes = self._size + self._older_size

    # ------------------------------------------------------------ the file

    def _begin_part(self, now_ms: float) -> None:
        self._size, self._began_ms = 0, now_ms
        self._put(_header_line(self._header, now_ms))

    def _is_old(self, now_ms: float) -> bool:
        self._began_ms = min(self._began_ms, now_ms)  # the clock was set back
        return now_ms - self._began_ms > self._part_ms

    def _next_part(self, now_ms: float) -> None:
        """FILE becomes FILE.1, and a new FILE goes on."""
        self._flush(now_ms)
        if self._fd < 0:
            return
        try:
            there, ours = os.stat(self.path), os.fstat(self._fd)  # noqa: PTH116 (as its neighbour)
            if not os.path.samestat(there, ours):
                raise FileExistsError(errno.EEXIST, "another file has taken its place")
            os.fsync(self._fd)
            self.path.replace(self.older)
            fd = _create(self.path)
        except OSError as error:
            self._fail(error)
            return
        os.close(self._fd)
        self._fd = fd
        self._older_size = self._size
        self.recorded.parts += 1
        self._header = self._header._replace(part=self._header.part + 1, rest_of_line=self._in_line)
        self._begin_part(now_ms)

    def _flush_if_due(self, now_ms: float) -> None:
        since_ms = now_ms - self._flushed_ms
        if since_ms >= FLUSH_MS or since_ms < 0 or len(self._buffer) >= READ_BLOCK_BYTES:
            self._flush(now_ms)

    def _flush(self, now_ms: float) -> None:
        self._flushed_ms = now_ms
        try:
            while self._buffer and self._fd >= 0:
                del self._buffer[: os.write(self._fd, self._buffer)]
        except OSError as error:
            self._fail(error)

    def _close_part(self) -> None:
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        try:
            os.fsync(fd)
        except OSError as error:
            self._tell(error)
        finally:
            with contextlib.suppress(OSError):
                os.close(fd)

    def _fail(self, error: OSError) -> None:
        fd, self._fd = self._fd, -1
        with contextlib.suppress(OSError):
            os.close(fd)
        self._buffer.clear()
        self._tell(error)

    def _tell(self, error: OSError) -> None:
        self.failure = f"recording to {self.path} stopped: {reason_of(error)}"
        if self._on_failure is not None:
            self._on_failure(self.failure)


def older_part(path: Path) -> Path:
    """Where the older part of the recording `path` is, once there are two."""
    return path.with_name(f"{path.name}.1")


def _create(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)


def _unwritable(path: Path, error: OSError) -> SourceUnreadableError:
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            hint = "make its folder first"
        case errno.EISDIR:
            hint = "name a new file in it"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            hint = "record to a folder that you may write to"
        case _:
            hint = ""
    return SourceUnreadableError(f"cannot record to {path}: {reason_of(error)}", hint=hint)


# ---------------------------------------------------------------- reading


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
        told = _json_object(text)
        if told is not None:
            if kind == b"G":
                piece = _gpu_reading(told)
            elif kind == b"H":
                piece = _from_json(HostSampled, told)
            else:
                piece = _note(at_ms, told)
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
                for told in map(_json_object, _GPU_RECORD.findall(text)):
                    reading = None if told is None else _gpu_reading(told)
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
        self._sources = array("B")  # as they stand in _SOURCES
        self._links = array("I")  # generation and lanes of PCIe; 0 is unknown

    def add(self, event: SampleEvent) -> None:
        """Keep `event` if it is a GPU reading."""
        if not isinstance(event, GpuSampled):
            return
        self._sources.append(_SOURCES.index(event.util_source))
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
                util_source=_SOURCES[source],
                util_window_ms=window_ms,
                power_w=None if math.isnan(power_w) else power_w,
                host_to_device_bytes_per_s=None if math.isnan(copied) else copied,
                pcie_gen=generation or None,
                pcie_width=lanes or None,
            )
