"""Files of logs: opened with errors that help, read in blocks, and told from what is no log."""

from __future__ import annotations

import errno
import io
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol, cast

from cuzktop.errors import SourceUnreadableError
from cuzktop.settings import READ_BLOCK_BYTES

if TYPE_CHECKING:
    from cuzktop.events import LogEvent

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


def plain_size(file: BinaryIO) -> int | None:
    """The size in bytes of a plain, seekable file; None for a stream or a compressed file."""
    raw = file.raw if isinstance(file, io.BufferedReader) else file
    if isinstance(raw, io.FileIO):
        status = os.fstat(raw.fileno())
        return status.st_size if stat.S_ISREG(status.st_mode) else None
    return len(raw.getbuffer()) if isinstance(raw, io.BytesIO) else None


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
