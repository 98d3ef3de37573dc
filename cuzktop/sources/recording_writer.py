"""Writing a recording: records are appended, and the oldest of them dropped when it gets large."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import threading
from collections.abc import Callable
from pathlib import Path

from cuzktop import units
from cuzktop.dataclass import dataclass
from cuzktop.errors import CuzktopError, SourceUnreadableError, UsageError
from cuzktop.events import Event, GpuSampled, GpuSamplerNote, HostSampled, SourceNote
from cuzktop.settings import MAX_LINE_BYTES, READ_BLOCK_BYTES
from cuzktop.sources.files import reason_of
from cuzktop.sources.recording import Header, header_line, note_json, older_part, reading_json

DEFAULT_MAX_BYTES = 1024 * 1024 * 1024  # about a week of one GPU
LEAST_MAX_BYTES = 256 * 1024  # two parts that hold the longest record each
FLUSH_MS = 1000.0
HALF_WAITS_MS = 2000.0  # a line without an end is written as it is after that silence


class RecordingStoppedError(CuzktopError):
    """A recording could not be gone on with: the disk is full, say."""


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
            kind, text = b"G", reading_json(event)
        elif isinstance(event, HostSampled):
            kind, text = b"H", reading_json(event)
        elif isinstance(event, GpuSamplerNote | SourceNote):
            kind, text = b"N", note_json(event)
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
        self._put(header_line(self._header, now_ms))

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
