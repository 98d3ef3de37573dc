"""What was rotated away from a log: its predecessors beside it, the oldest first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from cuzktop.dataclass import NamedTuple
from cuzktop.errors import SourceUnreadableError
from cuzktop.settings import Since
from cuzktop.sources.beginning import STAMP, stamp_ms
from cuzktop.sources.files import open_log, plain_size, read_blocks
from cuzktop.sources.since import find_since, settle

Tell = Callable[[str, str], object]
"""Called with a note's level (info, warning) and text."""

_TAIL = re.compile(
    r"[.-](?:(?P<number>\d{1,3})|(?P<date>\d{4}-?\d\d-?\d\d(?:[-_.T]?\d[\d:.-]*)?))"
    r"(?P<packed>\.gz|\.zst|\.zstd)?"
)
_SEAM_BYTES = 256 * 1024  # of a file's end and the next one's beginning, searched for their times
_SILENCE_MS = 10 * 60 * 1000  # between two files: longer is told
_BACKWARDS_MS = 1000


class Rotated(NamedTuple):
    """One predecessor; `number` as logrotate counts (1 is the newest), None if it has a date."""

    path: Path
    number: int | None


def predecessors(path: Path) -> list[Rotated]:
    """The files beside `path` that were rotated away from it, the oldest first.

    `LOG.1`, `LOG.2.gz`; `LOG-20260314`, `LOG.2026-03-14.gz`. Of a file and its packed self the
    plain one: packing isn't finished as long as both are there.
    """
    place = path.resolve()
    found: dict[str, tuple[tuple[int, str, int], bool, Rotated]] = {}
    try:
        beside = sorted(place.parent.iterdir())
    except OSError:
        return []
    for one in beside:
        tail = one.name.removeprefix(place.name)
        match = _TAIL.fullmatch(tail) if tail != one.name else None
        if match is None or not one.is_file():
            continue
        packed = match["packed"]
        plain_name = one.name.removesuffix(packed or "")
        if match["number"] is not None:
            number = int(match["number"])
            entry = ((1, "", -number), bool(packed), Rotated(one, number))
        else:
            digits = re.sub(r"\D", "", match["date"])
            entry = ((0, digits, 0), bool(packed), Rotated(one, None))
        known = found.get(plain_name)
        if known is None or (known[1] and not packed):
            found[plain_name] = entry
    return [rotated for _, _, rotated in sorted(found.values(), key=lambda entry: entry[0])]


def rotated_blocks(path: Path, tell: Tell, since: Since | None = None) -> Iterator[bytes]:
    """The bytes of the predecessors of `path`, the oldest first, from `since` on where it is given.

    A line may go on in the next file, so nothing is put between them; a line break is where one is
    missing or can't be read. `tell` hears what is read, and of every gap. Never raises for a file
    that can't be read.
    """
    files = predecessors(path)
    if not files:
        tell("warning", f"{path} has no rotated predecessors beside it")
        return
    names = ", ".join(one.path.name for one in files)
    tell("info", f"{path}: reading what was rotated away before it: {names}")
    with ExitStack() as stack:
        # All at once: a rotation while they are read gives them other names.
        opened = [(one, _open(one.path, stack)) for one in files]
        if since is not None:  # counted from the end of the log, not of each file
            newest = _open(path, stack)
            since = since if isinstance(newest, SourceUnreadableError) else settle(newest, since)
        yield from _blocks(path, opened, tell, since)


def _open(path: Path, stack: ExitStack) -> BinaryIO | SourceUnreadableError:
    try:
        return stack.enter_context(open_log(path))
    except SourceUnreadableError as error:
        return error


def _blocks(
    path: Path,
    opened: list[tuple[Rotated, BinaryIO | SourceUnreadableError]],
    tell: Tell,
    since: Since | None,
) -> Iterator[bytes]:
    seam = _Seam(tell)
    expected: int | None = None
    for one, file in opened:
        if one.number is not None:
            if expected is not None and one.number < expected:
                missing = f"{path.name}.{expected}"
                if one.number + 1 < expected:
                    missing = f"{path.name}.{one.number + 1} to .{expected}"
                tell("warning", f"a gap: {missing} is not there")
                yield b"\n"
            expected = one.number - 1
        yield from _read(one.path, file, tell, since, seam)
    if expected:
        tell("warning", f"a gap: {path.name}.{expected} is not there")
        yield b"\n"
    seam.enter(path, _first_bytes(path))


def _read(
    path: Path,
    file: BinaryIO | SourceUnreadableError,
    tell: Tell,
    since: Since | None,
    seam: _Seam,
) -> Iterator[bytes]:
    try:
        if isinstance(file, SourceUnreadableError):
            raise file
        blocks = read_blocks(file)
        if since is not None:
            if plain_size(file) is None and since.at_ms is not None:
                blocks = _from_then(blocks, since.at_ms)
            else:
                find_since(file, since)
        first = True
        for block in blocks:
            if first:
                seam.enter(path, block)
                first = False
            seam.leave(block)
            yield block
    except SourceUnreadableError as error:
        tell("warning", f"a gap: {error}")
        yield b"\n"


def _from_then(blocks: Iterator[bytes], since_ms: float) -> Iterator[bytes]:
    """What a packed file has from a time on; it is searched from its beginning."""
    for block in blocks:
        for stamp in STAMP.finditer(block):
            if stamp_ms(stamp[0]) >= since_ms:
                yield block[block.rfind(b"\n", 0, stamp.start()) + 1 :]
                yield from blocks
                return


def _first_bytes(path: Path) -> bytes:
    try:
        with open_log(path) as file:
            return next(read_blocks(file, _SEAM_BYTES), b"")
    except SourceUnreadableError:  # said by whoever reads it
        return b""


class _Seam:
    """Compares the time at a file's end with that at the next one's beginning."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._end = b""
        self._name = ""
        self._last: datetime | None = None

    def leave(self, block: bytes) -> None:
        """Remember the last time in it; most blocks are not a file's last one."""
        self._end = (self._end + block)[-_SEAM_BYTES:] if len(block) < _SEAM_BYTES else block

    def enter(self, path: Path, block: bytes) -> None:
        """A file begins with `block`; the one before has ended."""
        stamps = STAMP.findall(self._end)
        if stamps:
            self._last = _time(stamps[-1])
        first = STAMP.search(block)
        begun = None if first is None else _time(first[0])
        if self._last is not None and begun is not None and self._name:
            apart_ms = (begun - self._last).total_seconds() * 1000.0
            if apart_ms > _SILENCE_MS:
                text = (
                    f"no line for {apart_ms / 60_000:.0f} min between {self._name} and {path.name}"
                )
                self._tell("warning", f"a gap: {text}")
            elif apart_ms < -_BACKWARDS_MS:
                text = f"{path.name} begins before {self._name} ends: a wrong order, or a copy"
                self._tell("warning", text)
        self._end, self._name, self._last = b"", path.name, None


def _time(stamp: bytes) -> datetime | None:
    try:
        return datetime.fromisoformat(stamp.decode("ascii"))
    except ValueError:
        return None
