"""Log files: opening them with errors that help, and where in a large one to begin.

Everything here reads bytes. A live log is never mapped: it may shrink under us.
"""

from __future__ import annotations

import errno
import io
import math
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol, cast

from cuzktop.errors import SourceUnreadableError
from cuzktop.settings import MAX_LINE_BYTES, READ_BLOCK_BYTES

if TYPE_CHECKING:
    from cuzktop.events import LogEvent

STEP_BYTES = 64 * 1024  # of larger blocks the allocator keeps megabytes for the program's life
RESTART_DROP_MS = 5000  # TIMELINE offsets step back by milliseconds on their own, not by this much
STAMP_SEARCH_BYTES = 16 * 1024  # a block's ends are searched for a tracing time stamp, no more
UNFINISHED_WINDOW_BYTES = 8 * 1024 * 1024  # a larger window isn't searched for unfinished jobs
HOLE = b"\0" * 64  # what a truncation under a writer that does not append leaves at the front
FEW_JOBS = 4
FRUITLESS_BYTES = 1024 * 1024  # nor do we go on where so much text names none of them

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
DECOMPRESSORS = ("gzip", "zlib", "zstd", "zstandard", "_zstd", "compression")
RECORDING = b"cuzktop-recording "  # how a recording of ours begins, of whatever version
# How a file that is no text begins, and what it is.
FOREIGN_MAGICS = (
    (b"\x7fELF", "a program"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x89PNG", "a picture"),
    (b"SQLite format 3\x00", "a database"),
    (GZIP_MAGIC, "compressed"),
    (ZSTD_MAGIC, "compressed"),
    (b"\xfd7zXZ", "compressed"),
    (b"BZh", "compressed"),
    (b"LPKSHHRH", "a systemd journal (use journalctl -o cat)"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)
RECORDS = (b"TIMELINE,", b"CUZK_TIMING: ", b"cuzk_core::", b"cuzk_daemon")
# Bytes that text has no use for: controls but tab, line ends, form feed, backspace, bell and ESC.
NOT_TEXT = bytes(b for b in range(32) if b not in b"\t\n\r\f\b\a\x1b") + b"\x7f"
NOT_TEXT_SHARE = 0.02

DAEMON_STARTING = b"cuzk-daemon starting"
# Tears fall between fragments, so an offset with a comma and an event's name after it is whole.
MARK = re.compile(rb"TIMELINE,(\d{1,15}),[A-Z_]+,")
MARK_JOB = re.compile(
    rb"TIMELINE,\d{1,15},[A-Z_]+,([^\n]*?),(?:worker=|partition=|snap_partition=|kind=|monolithic)"
)
STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(?=Z)")
WHOLE_JOB = (b"job enqueued", b"dispatching per-partition", b"proof assembled")


class LogParser(Protocol):
    """What a source hands bytes to."""

    def feed(self, data: bytes) -> list[LogEvent]:
        """The events of the complete lines in `data`; a half line is held back."""

    def finish(self) -> list[LogEvent]:
        """No more bytes will come: the held half line is used, or given up."""

    def cut(self) -> list[LogEvent]:
        """Continuity is lost (truncated, replaced): drop the half line, begin anew."""


# ---------------------------------------------------------------- opening


def unreadable(path: Path, error: OSError) -> SourceUnreadableError:
    """The one line for `error`, which came up while `path` was opened or read."""
    hint = ""
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            reason, hint = "no such file", "cuzktop doctor shows where the daemon writes"
        case errno.EISDIR:
            reason, hint = "is a directory", "name the log file inside it"
        case errno.EACCES | errno.EPERM:
            reason = "permission denied"
            hint = "run as the daemon's user, or make the file readable"
        case errno.ENXIO:
            reason, hint = "is a socket", "pipe its text into cuzktop -"
        case _:
            reason = reason_of(error)
    return SourceUnreadableError(f"cannot read {path}: {reason}", hint=hint)


def reason_of(error: OSError) -> str:
    """The system's words for it, as the end of a sentence."""
    reason = error.strerror or str(error) or type(error).__name__
    return reason[:1].lower() + reason[1:]


def is_stream(path: Path) -> bool:
    """Whether `path` is a FIFO or the like, which is read once, forwards, and can't be followed.

    False where it doesn't exist.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def open_log(path: Path) -> BinaryIO:
    """`path`, unbuffered and binary; what is inside a gzip or zstd file is given as it was.

    A FIFO opens when its writer comes. Raises SourceUnreadableError with one line for a missing
    file, a directory, no permission, a device, a socket, and any other refusal.
    """
    try:
        mode = _readable_mode(path)
        file = cast("BinaryIO", io.FileIO(path, "rb"))
        if not stat.S_ISREG(mode):
            return file
        magic = file.read(4)
        file.seek(0)
    except OSError as error:
        raise unreadable(path, error) from None
    if magic.startswith(GZIP_MAGIC):
        import gzip  # noqa: PLC0415 - start-up: few logs are compressed

        file.close()
        return cast("BinaryIO", gzip.GzipFile(path, "rb"))
    if magic == ZSTD_MAGIC:
        file.close()
        return _open_zstd(path)
    return file


def open_stream(path: Path, *, wait: bool) -> int:
    """The descriptor of `path`, which is_stream; to be opened once, for that may take bytes out.

    A FIFO opens when its writer comes, unless we don't `wait` for it. Raises SourceUnreadableError
    as open_log does.
    """
    try:
        _readable_mode(path)
        return os.open(path, os.O_RDONLY | os.O_NOCTTY | (0 if wait else os.O_NONBLOCK))
    except OSError as error:
        raise unreadable(path, error) from None


def _readable_mode(path: Path) -> int:
    """The mode of a file that may be opened. Raises OSError or SourceUnreadableError if not."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not _is_harmless(path)):
        message = f"cannot read {path}: is a device"
        raise SourceUnreadableError(message, hint="name a log file")
    return mode


def _is_harmless(path: Path) -> bool:
    """The null device reads as an empty log, a terminal as what is typed.

    Any other device isn't even opened: for some that alone does something.
    """
    return str(path.resolve()).startswith(("/dev/null", "/dev/tty", "/dev/pts/"))


def _open_zstd(path: Path) -> BinaryIO:
    """`path` unpacked, by the standard library (3.14) or the zstandard package."""
    import importlib  # noqa: PLC0415 - start-up: few logs are compressed

    for module in ("compression.zstd", "zstandard"):
        try:
            found = importlib.import_module(module)
        except ImportError:
            continue
        return cast("BinaryIO", found.open(path, "rb"))
    message = f"cannot read {path}: zstd needs a module that is not installed"
    raise SourceUnreadableError(message, hint=f"zstd -dc {path} | cuzktop report -")


def read_blocks(stream: BinaryIO, size: int = READ_BLOCK_BYTES) -> Iterator[bytes]:
    """The rest of `stream` in blocks of at most `size` bytes, as they come.

    Raises SourceUnreadableError where reading fails in the middle (a disk fault, a broken gzip).
    """
    while True:
        try:
            block = stream.read(size)
        except Exception as error:
            # gzip, zlib and zstd have errors of their own, most of which are no OSError.
            if type(error).__module__.split(".")[0] in DECOMPRESSORS:
                raise _damaged(stream, f"is damaged ({error})") from None
            if isinstance(error, EOFError):
                raise _damaged(stream, "is cut off") from None
            if isinstance(error, OSError):
                raise unreadable(Path(_name(stream)), error) from None
            raise
        if not block:
            return
        yield block


def _damaged(stream: BinaryIO, how: str) -> SourceUnreadableError:
    name = _name(stream)
    unpack = "zcat" if type(stream).__module__ == "gzip" else "zstd -dc"
    return SourceUnreadableError(
        f"cannot read {name}: the compressed file {how}",
        hint=f"fetch it again, or use what is left: {unpack} {name} | cuzktop report -",
    )


def _name(stream: BinaryIO) -> str:
    name = getattr(stream, "name", None)
    return name if isinstance(name, str) and name else "the log"


def holds_recording(path: Path) -> bool:
    """Whether a file is a recording; a log is told without loading what reads recordings.

    False for standard input and a stream, which can't be looked at twice. Raises
    SourceUnreadableError for a file that can't be read.
    """
    if path == Path("-") or is_stream(path):
        return False
    with open_log(path) as file:
        return _begins_recording(file)


def _begins_recording(file: BinaryIO) -> bool:
    return next(read_blocks(file, len(RECORDING)), b"") == RECORDING


FileKind = Literal["stream", "recording", "packed", "plain"]
"""How a file is read: once and forwards, played, unpacked to its end, or followed as it grows."""


def look_at(path: Path) -> tuple[FileKind, float]:
    """What kind of file `path` is, and when it was last written (wall-clock ms).

    A stream is not opened. Raises SourceUnreadableError as open_log and read_blocks do.
    """
    if is_stream(path):
        return "stream", math.nan
    with open_log(path) as file:
        kind: FileKind = "plain" if plain_size(file) is not None else "packed"
        written_ms = os.fstat(file.fileno()).st_mtime * 1000.0
        return "recording" if _begins_recording(file) else kind, written_ms


def sniff(first_bytes: bytes) -> str | None:
    """Why a file that begins like this can't be a log ("is binary"), or None if it may be one.

    A run of NULs at the front is no reason: truncation under a writer that does not append leaves
    such a hole. Nor is a stray byte: a crashed daemon or a full disk leaves those.
    """
    text = first_bytes.lstrip(b"\0")
    if not text or any(record in text for record in RECORDS):
        return None
    for magic, what in FOREIGN_MAGICS:
        if text.startswith(magic):
            return f"is {what}"
    strange = len(text) - len(text.translate(None, NOT_TEXT + b"\0"))
    return "is binary" if strange > NOT_TEXT_SHARE * len(text) else None


# ---------------------------------------------------------------- where to begin


def plain_size(file: BinaryIO) -> int | None:
    """The size in bytes of a plain, seekable file; None for a stream or a compressed file."""
    raw = file.raw if isinstance(file, io.BufferedReader) else file
    if isinstance(raw, io.FileIO):
        status = os.fstat(raw.fileno())
        return status.st_size if stat.S_ISREG(status.st_mode) else None
    return len(raw.getbuffer()) if isinstance(raw, io.BytesIO) else None


def find_start(file: BinaryIO, *, back_ms: float, max_bytes: int) -> int:
    """The byte offset, a line's start, from which `file` has to be read to know its end.

    From there at least `back_ms` of log time lie before the end (by TIMELINE's clock; by the time
    stamps where it has none), and jobs that were at work in that time are there from their first
    line; but never more than `max_bytes`, and nothing from before the newest start of the daemon.
    The text is read backwards, so the cost doesn't grow with the file. 0 for what can't be read
    backwards (a stream, a compressed file). A plain file is left standing at the offset.
    """
    size = plain_size(file)
    if size is None:
        return 0
    start = _Backwards(file, size, max(0, size - max_bytes), back_ms).find()
    file.seek(start)
    return start


class _Backwards:
    """One search from a file's end: blocks come newest first, each made of whole lines."""

    def __init__(self, file: BinaryIO, size: int, floor: int, back_ms: float) -> None:
        self._file = file
        self._size = size
        self._floor = floor
        self._back_ms = back_ms
        self._last_ms: int | None = None  # newest TIMELINE offset
        self._low_ms: int | None = None  # lowest since
        self._later_ms: int | None = None  # of the mark after the one that is judged
        self._edge: list[tuple[int, int]] = []  # a block's first mark waits for the one before it
        self._newest_stamp_ms: float | None = None
        self._by_stamp: int | None = None  # where the time stamps say that it is far enough
        self._works = False  # a tracing line named a job

    def find(self) -> int:
        """Where to begin: the first of far enough, the newest run's start, and the floor."""
        lines_at = self._size
        for lines_at, lines in self._blocks(self._size):
            begun = _run_begin(lines)
            start = self._look(lines_at, lines, first=begun or 0)
            if start is not None:
                return start
            if begun is not None:
                return lines_at + begun
            self._look_at_stamps(lines_at, lines)
            if self._last_ms is None and self._by_stamp is not None and self._works:
                return self._by_stamp
        start = self._judge(self._edge, first=0)
        if start is not None:
            return start
        if self._last_ms is None and self._by_stamp is not None:
            return self._by_stamp
        return lines_at

    def _blocks(self, end: int) -> Iterator[tuple[int, bytes]]:
        """Each block's offset and whole lines, newest first, from `end` down to the floor.

        The half line at the end of the file comes along with the first.
        """
        carry = b""
        while end > self._floor:
            begin = max(self._floor, end - STEP_BYTES)
            text = self._read(begin, end - begin) + carry
            if text.startswith(HOLE):  # the log begins after it
                text = text.lstrip(b"\0")
                yield end + len(carry) - len(text), text
                return
            # A line that began before the block is left for the next one.
            cut = 0 if begin == 0 else text.find(b"\n") + 1
            if cut or begin == 0:
                yield begin + cut, text[cut:]
                carry = text[:cut]
            else:
                carry = text
            if len(carry) > MAX_LINE_BYTES + STEP_BYTES:
                carry = b""  # that isn't a log line
            end = begin

    def _lines_from(self, at: int) -> Iterator[bytes]:
        """The text from a line's start to the file's end, in blocks of whole lines."""
        half = b""
        while at < self._size:
            text = half + self._read(at, min(STEP_BYTES, self._size - at))
            at += STEP_BYTES
            cut = text.rfind(b"\n") + 1
            yield text[:cut]
            half = text[cut:][-MAX_LINE_BYTES:]
        yield half

    def _read(self, at: int, count: int) -> bytes:
        self._file.seek(at)
        return self._file.read(count)

    def _look(self, lines_at: int, lines: bytes, *, first: int) -> int | None:
        """Judge the marks at or after `lines[first]`; where to begin, if one of them tells.

        The run's own start-up lines stand at `first`, if that isn't 0.
        """
        marks = [(lines_at + m.start(), int(m[1])) for m in MARK.finditer(lines, first)]
        marks += self._edge
        self._edge = marks[:1]
        # The first mark of a run has none before it to be compared with.
        return self._judge(marks, first=1 if first == 0 else 0)

    def _judge(self, marks: list[tuple[int, int]], *, first: int) -> int | None:
        """Take marks `first` and after, newest first; where to begin, if one of them tells.

        A single offset that its neighbours contradict is no restart: that line was damaged.
        """
        for i in range(len(marks) - 1, first - 1, -1):
            at, offset_ms = marks[i]
            if i and self._is_outlier(marks[i - 1][1], offset_ms):
                if self._later_ms is None:
                    self._later_ms = offset_ms
                continue
            if self._low_ms is not None and offset_ms > self._low_ms + RESTART_DROP_MS:
                return self._line_end(at)  # an older run: the daemon started after this line
            if self._last_ms is None:
                self._last_ms = offset_ms
            self._later_ms = offset_ms
            self._low_ms = offset_ms if self._low_ms is None else min(self._low_ms, offset_ms)
            if offset_ms <= self._last_ms - self._back_ms:
                return self._first_line_of_jobs(self._line_start(at))
        return None

    def _is_outlier(self, before_ms: int, offset_ms: int) -> bool:
        """Whether a mark fits neither the one before it in the file nor the one after."""
        fell = offset_ms < before_ms - RESTART_DROP_MS
        if self._later_ms is None:
            # The last one of all: the first of a new run, or damage. To begin before it is right
            # in both cases.
            return fell
        if self._later_ms < before_ms - RESTART_DROP_MS:
            return False  # the fall lasts: a restart
        return fell or offset_ms > self._later_ms + RESTART_DROP_MS

    def _line_start(self, at: int) -> int:
        """The start of the line that offset `at` lies in."""
        begin = max(self._floor, at - MAX_LINE_BYTES)
        found = self._read(begin, at - begin).rfind(b"\n")
        return begin + found + 1 if found >= 0 or begin == 0 else at

    def _line_end(self, at: int) -> int:
        """The start of the line after the one that offset `at` lies in."""
        found = self._read(at, MAX_LINE_BYTES).find(b"\n")
        return at + found + 1 if found >= 0 else at

    def _look_at_stamps(self, lines_at: int, lines: bytes) -> None:
        """See how far back the time stamps reach; they count where TIMELINE lines are missing."""
        if self._last_ms is not None:
            return
        self._works = self._works or b"job_id" in lines
        if self._by_stamp is not None:
            return
        if self._newest_stamp_ms is None:
            stamps = STAMP.findall(lines[-STAMP_SEARCH_BYTES:])
            self._newest_stamp_ms = stamp_ms(stamps[-1]) if stamps else None
        oldest = STAMP.search(lines, 0, STAMP_SEARCH_BYTES)
        if self._newest_stamp_ms is None or oldest is None:
            return
        wanted_ms = self._newest_stamp_ms - self._back_ms
        if stamp_ms(oldest[0]) > wanted_ms:
            return
        old, new = oldest.start(), len(lines)  # what begins at `old` is old enough
        while new - old > 1:
            middle = (old + new) // 2
            stamp = STAMP.search(lines, middle, new)
            if stamp is not None and stamp_ms(stamp[0]) <= wanted_ms:
                old = stamp.start()
            else:
                new = middle
        self._by_stamp = lines_at + lines.rfind(b"\n", 0, old) + 1

    def _first_line_of_jobs(self, start: int) -> int:
        """Move `start` back to the first line of the jobs that were at work after it."""
        if self._size - start > UNFINISHED_WINDOW_BYTES:
            return start
        jobs: set[bytes] = set()
        told: list[bytes] = []
        for lines in self._lines_from(start):
            jobs.update(MARK_JOB.findall(lines))
            told += _whole_jobs(lines)
        jobs = _without(jobs, told)
        fruitless = 0
        for lines_at, lines in self._blocks(start) if jobs else ():
            older = _run_begin(lines)  # lines before it belong to an older run
            for mark in MARK.finditer(lines, older or 0):
                if self._low_ms is not None and int(mark[1]) > self._low_ms + RESTART_DROP_MS:
                    older = lines.find(b"\n", mark.end()) + 1
            seen = jobs.intersection(MARK_JOB.findall(lines, older or 0))
            if len(jobs) <= FEW_JOBS:  # their tracing lines may stand alone
                seen = jobs
            found = [at for at in (lines.find(job, older or 0) for job in seen) if at >= 0]
            if found:
                first = lines.rfind(b"\n", 0, min(found)) + 1
                start = lines_at + first
                jobs = _without(jobs, _whole_jobs(lines[first:]))
                fruitless = 0
            fruitless += len(lines)
            if older is not None or not jobs or fruitless > FRUITLESS_BYTES:
                break
        return start


def _whole_jobs(text: bytes) -> list[bytes]:
    """The lines of `text` that tell of a job that it is dispatched there, or finished."""
    told = []
    for words in WHOLE_JOB:  # hopping is three times as fast as one expression for all
        at = text.find(words)
        while at >= 0:
            end = text.find(b"\n", at)
            told.append(text[at : end if end >= 0 else len(text)])
            at = text.find(words, at + 1)
    return told


def _without(jobs: set[bytes], told: list[bytes]) -> set[bytes]:
    """The jobs that no line of `told` names."""
    whole = b"\n".join(told)
    return {job for job in jobs if not _names(whole, job)}


def _run_begin(lines: bytes) -> int | None:
    """Where the newest life of the daemon begins in `lines`, if it does."""
    at = lines.rfind(DAEMON_STARTING)
    return None if at < 0 else lines.rfind(b"\n", 0, at) + 1


def _names(text: bytes, job: bytes) -> bool:
    """Whether `text` names exactly this job, not one whose name begins like it."""
    at = text.find(job)
    while at >= 0:
        after = text[at + len(job) : at + len(job) + 1]
        if not after.isalnum() and after not in (b"-", b"_"):
            return True
        at = text.find(job, at + 1)
    return False


def stamp_ms(stamp: bytes) -> float:
    """A tracing time stamp (2026-03-14T01:02:03.456789, UTC) in milliseconds since 1970."""
    from datetime import UTC, datetime  # noqa: PLC0415 - start-up: most logs have TIMELINE

    try:
        return datetime.fromisoformat(stamp.decode("ascii")).replace(tzinfo=UTC).timestamp() * 1e3
    except ValueError:  # the 31st of February
        return 0.0
