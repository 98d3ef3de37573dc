"""One growing log file, followed across everything that happens to log files.

`Follower` asks the file system and answers with bytes; `LogTail` is the thread around it. The
open descriptor is polled: a watch on a file goes blind at a rotation, and one on its directory
costs more than all polls. A new file under the path is seen a second late, and lost by nobody.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, cast

from cuzktop.dataclass import NamedTuple
from cuzktop.events import Event, SourceNote
from cuzktop.settings import LOG_POLL_S, READ_BLOCK_BYTES, START_BACK_BYTES, START_BACK_MS, Since
from cuzktop.sources.beginning import find_start
from cuzktop.sources.bringing import Bringing
from cuzktop.sources.files import LogParser, unreadable
from cuzktop.sources.log_reader import Emit, LogReader
from cuzktop.sources.silence import Silence
from cuzktop.sources.since import find_since

TAIL_BYTES = 64  # what was read last is compared with what stands there now
HEAD_BYTES = 64  # with the inode and the tail, tells a copy of the file from another file
COPY_LEAST_BYTES = 16 * 1024  # less text than this proves no copy
FIRST_READ_BYTES = 4096  # most polls find little; a larger buffer costs more than the reading
POLL_BYTES = 256 * 1024  # one poll reads no more, so that stopping and progress stay prompt
SKIM_BYTES = 16 * 1024  # at a time, of at most POLL_BYTES, by who must not wait
SKIMMED_POLL_S = 1.05  # as often as the path is looked at, while somebody skims
PATH_CHECK_MS = 1000.0  # the path is looked at this often, the open file at every poll
KEEP_WAITING = 8  # empty files, if a log is rotated daily and its writer is never told

Tell = Callable[[str, str], object]
"""Called with a note's level and text."""


class Cut(NamedTuple):
    """The bytes after this don't continue the bytes before it; `text` says why."""

    text: str
    level: str = "info"


class Say(NamedTuple):
    """Something about the file that the user should know; the bytes go on."""

    text: str
    level: str = "info"


Piece = bytes | Cut | Say


class Follower:
    """The bytes of the file that `path` names, as they are written. No thread, no clock.

    A file is another one when device or inode differ, when it got smaller than what was read of
    it, or when what was read last no longer stands there; then it is read from its start. While
    the descriptor is open its inode can't be given to another file, so those are enough.
    """

    def __init__(
        self,
        path: Path,
        *,
        back_ms: float = START_BACK_MS,
        max_bytes: int = START_BACK_BYTES,
        since: Since | None = None,
    ) -> None:
        """Follow `path`, beginning as find_start says, or at `since`. It need not exist yet."""
        self.path = path
        self._name = os.fspath(path)
        self.more = False  # the last poll stopped before the file's end
        self.skimmed = False  # all that `skim` was asked for last was at hand
        self.truncated = False  # once at least: what isn't read in time will be lost again
        self.read_bytes = 0  # of what was there at the first look
        self.total_bytes = 0
        self._back_ms = back_ms
        self._max_bytes = max_bytes
        self._since = since
        self._file: BinaryIO | None = None
        self._fd = -1  # its descriptor
        self._waiting: list[BinaryIO] = []  # new files under the path, the oldest first
        self._offset = 0
        self._tail = b""
        self._head = b""
        self._identity = (-1, -1)  # device and inode
        self._in_hole = False  # nothing but NULs since the start of the file
        self._checked_ms: float | None = None
        self._failed = False  # reading did, and has not succeeded since
        self._said = ""  # what is wrong with the path now; said once

    def close(self) -> None:
        """Give the descriptors back."""
        for file in (self._file, *self._waiting):
            if file is not None:
                file.close()
        self._file, self._fd = None, -1
        self._waiting.clear()

    def open(self) -> list[Piece]:
        """Open the file now, if it is there, and read nothing yet; what there is to say of it."""
        pieces: list[Piece] = []
        try:
            if self._file is None:
                self._first_open(pieces)
        except OSError:
            self.close()  # the next poll says it
        return pieces

    def poll(self, now_ms: float) -> list[Piece]:
        """What is new since the last poll: bytes, in blocks, and what happened in between.

        `now_ms` may come from any clock, also from one that is set back. Never raises OSError.
        """
        pieces: list[Piece] = []
        try:
            if self._file is None and not self._first_open(pieces):
                return pieces
            self._read(pieces)
            if self._failed:
                self._failed = False
                self._good(pieces, "can be read again")
            if not self.more and self._is_time(now_ms):
                self._look_at_path(pieces)
            # The writer has gone on to a new file once that has bytes in it; what the old one
            # holds after that was seen is all there will be.
            while self._waiting and not self.more and any(map(_size, self._waiting)):
                self._read(pieces)
                if not self.more:
                    self._switch(pieces)
                    self._read(pieces)
        except OSError as error:
            self._say(pieces, f"{unreadable(self.path, error).message}; trying again", "error")
            self._failed = True
            self.close()  # opened again at the next poll
            self.more = False
        return pieces

    def skim(self) -> list[bytes]:
        """What was appended since, as far as it is in memory: no disk or server is waited for.

        All else is left to the next poll: what is unusual, and what can't be had so.
        """
        blocks: list[bytes] = []
        self.skimmed = False
        if self._file is None or self._waiting or self.more or self._failed or self._in_hole:
            return blocks
        try:
            while len(blocks) * SKIM_BYTES < POLL_BYTES:
                tail = self._tail
                got = _at_hand(self._fd, len(tail) + SKIM_BYTES, self._offset - len(tail))
                if not got.startswith(tail):
                    return blocks  # it was truncated or rewritten
                fresh = got[len(tail) :]
                if fresh:
                    blocks.append(fresh)
                    self._offset += len(fresh)
                    self._tail = got[-TAIL_BYTES:]
                    self.read_bytes += len(fresh)
                if len(fresh) < SKIM_BYTES:
                    self.skimmed = True
                    break
        except OSError:  # not at hand, or its file system never says
            pass
        return blocks

    # ------------------------------------------------------------ the open file

    def _read(self, pieces: list[Piece]) -> None:
        """Read the open file, at most POLL_BYTES of it; sets `more`."""
        block = READ_BLOCK_BYTES if self.more else FIRST_READ_BYTES
        left = POLL_BYTES
        self.more = True
        while self.more and left > 0:
            tail, asked = self._tail, min(block, left)
            got = os.pread(self._fd, len(tail) + asked, self._offset - len(tail))
            if got == tail:  # nothing new, as at most polls
                self.more = False
                return
            if not got.startswith(tail):
                short = os.fstat(self._fd).st_size < self._offset
                self.truncated |= short
                what = "was truncated" if short else "was rewritten"
                pieces.append(Cut(f"{self.path} {what}; reading it from its start"))
                self._offset, self._tail, self._head, self._in_hole = 0, b"", b"", True
                continue
            fresh = got[len(tail) :]
            self.more = len(fresh) == asked
            self._offset += len(fresh)
            self._tail = got[-TAIL_BYTES:]
            self.read_bytes += len(fresh)
            left -= len(fresh)
            block = READ_BLOCK_BYTES
            if self._in_hole and fresh:
                fresh = self._after_hole(fresh)
            if fresh:
                pieces.append(fresh)

    def _after_hole(self, fresh: bytes) -> bytes:
        """`fresh` without the NULs at the front of the file.

        A writer that does not append goes on at its old place after a truncation: what lies
        before it is a hole that reads as NULs, gigabytes of them at times.
        """
        text = fresh.lstrip(b"\0")
        if text:
            self._in_hole = False
            return text
        try:
            data_at = os.lseek(self._fd, self._offset, os.SEEK_DATA)
        except OSError:  # no data after it, or a file system without holes
            return b""
        if data_at > self._offset:
            self._offset = data_at
            self._tail = b"\0" * TAIL_BYTES
        return b""

    # ------------------------------------------------------------ the path

    def _is_time(self, now_ms: float) -> bool:
        if self._checked_ms is not None and 0.0 <= now_ms - self._checked_ms < PATH_CHECK_MS:
            return False
        self._checked_ms = now_ms
        return True

    def _first_open(self, pieces: list[Piece]) -> bool:
        """Open the path if it is there; False (and said once) if not."""
        file = self._open(pieces)
        if file is None:
            return False
        self._waiting.append(file)
        if not self._failed:
            self._good(pieces, "is there; reading it")
        if self._is_same(file):  # reading failed for a while
            self._take(file, self._offset)
        else:
            if self._offset:
                pieces.append(Cut(f"{self.path} is another file now; reading it from its start"))
            self._take(file, self._start(file))
        return True

    def _open(self, pieces: list[Piece]) -> BinaryIO | None:
        try:
            mode = self.path.stat().st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not stat.S_ISREG(mode):
                text = f"{self.path} is not a plain file; use cuzktop - < {self.path}"
                self._say(pieces, text, "error")
                return None
            return cast("BinaryIO", io.FileIO(self.path, "rb"))
        except FileNotFoundError:
            self._say(pieces, f"{self.path} is not there; waiting for it", "warning")
        except OSError as error:
            self._say(pieces, f"{unreadable(self.path, error)}; trying again", "error")
        return None

    def _say(self, pieces: list[Piece], text: str, level: str) -> None:
        """Say it, unless it was said last."""
        if text != self._said:
            self._said = text
            pieces.append(Say(text, level))

    def _good(self, pieces: list[Piece], text: str) -> None:
        """Take back what was said last, if something was."""
        if self._said:
            self._said = ""
            pieces.append(Say(f"{self.path} {text}"))

    def _start(self, file: BinaryIO) -> int:
        if self._since is not None:
            return find_since(file, self._since)
        return find_start(file, back_ms=self._back_ms, max_bytes=self._max_bytes)

    def _take(self, file: BinaryIO, offset: int) -> None:
        """Follow `file` from `offset` on."""
        fd, before = file.fileno(), min(TAIL_BYTES, offset)
        tail, head = os.pread(fd, before, offset - before), os.pread(fd, HEAD_BYTES, 0)
        self.read_bytes = 0
        self.total_bytes = max(0, os.fstat(fd).st_size - offset)
        self._offset, self._tail, self._head, self._in_hole = offset, tail, head, offset == 0
        self._identity = _identity(file)
        self._waiting.remove(file)
        former, self._file, self._fd = self._file, file, fd
        if former is not None:
            former.close()

    def _look_at_path(self, pieces: list[Piece]) -> None:
        """See whether the path names another file by now; if so, it waits for its turn.

        It is opened at once: the path may name yet another one when the daemon writes to it.
        """
        try:
            there = os.stat(self._name)  # noqa: PTH116 (once a second: a Path's own is dearer)
        except OSError as error:
            lost = isinstance(error, FileNotFoundError | NotADirectoryError)
            why = "is gone" if lost else unreadable(self.path, error).message
            self._say(pieces, f"{self.path} {why}; the open file is still read", "warning")
            return
        identity = (there.st_dev, there.st_ino)
        if identity == self._identity:
            self._good(pieces, "is back")
            if len(self._head) < HEAD_BYTES:
                self._head = os.pread(self._fd, HEAD_BYTES, 0)
            return
        if there.st_size == 0:
            # Whoever rotates makes the new file; the daemon may go on writing to the old one.
            text = f"{self.path} is a new, empty file; the old one is still read"
            self._say(pieces, text, "info")
        if identity in map(_identity, self._waiting):
            return
        file = self._open(pieces)
        if file is not None:
            self._waiting.append(file)
        if len(self._waiting) > KEEP_WAITING:
            self._waiting.pop(0).close()

    def _switch(self, pieces: list[Piece]) -> None:
        """Go over to the oldest file that waits."""
        file = self._waiting[0]
        self._said = ""
        if self._is_copy(file):
            pieces.append(Say(f"{self.path} was replaced by a copy of itself"))
            self._take(file, self._offset)
            return
        # Only a file that was there before, as behind a switched link, can be a large one.
        start = self._start(file) if _size(file) > self._max_bytes else 0
        if _size(file) or len(self._waiting) == 1:
            pieces.append(Cut(f"{self.path} is another file now; reading it from its start"))
        self._take(file, start)

    def _is_copy(self, file: BinaryIO) -> bool:
        """Whether another `file` holds what was read of the open one, at the same place."""
        return self._offset >= COPY_LEAST_BYTES and self._reads_alike(file)

    def _is_same(self, file: BinaryIO) -> bool:
        """Whether `file` is the one that was read before, and not one that got its inode."""
        if self._identity != _identity(file):
            return self._is_copy(file)
        return self._reads_alike(file)

    def _reads_alike(self, file: BinaryIO) -> bool:
        if not self._offset:
            return False
        fd, tail = file.fileno(), self._tail
        same_head = os.pread(fd, len(self._head), 0) == self._head
        return same_head and os.pread(fd, len(tail), self._offset - len(tail)) == tail


_NO_WAIT = getattr(os, "RWF_NOWAIT", None)


def _at_hand(descriptor: int, count: int, offset: int) -> bytes:
    """`os.pread` of what is in memory. Raises OSError if some of it isn't, or nobody can tell."""
    if _NO_WAIT is None:
        raise BlockingIOError
    buffer = bytearray(count)
    return bytes(buffer[: os.preadv(descriptor, [buffer], offset, _NO_WAIT)])


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _identity(file: BinaryIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino


class LogTail(LogReader):
    """Reads a growing log, hands it to the parser, and emits the events.

    It ends by `stop`, and only by it: what goes wrong becomes a SourceNote.
    """

    def __init__(
        self,
        path: Path,
        parser: LogParser,
        emit: Emit,
        *,
        clock: Callable[[], float],
        wait: Callable[[float], bool] | None = None,
        poll_s: float = LOG_POLL_S,
        back_ms: float = START_BACK_MS,
        max_bytes: int = START_BACK_BYTES,
        since: Since | None = None,
        before: Callable[[Tell], Iterable[bytes]] | None = None,
        on_progress: Callable[[int, int], object] | None = None,
        on_idle: Callable[[], str] | None = None,
        at_once: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepare to follow `path`.

        It is read from `since` on, without one as find_start says; `before` gives what lies before
        it, in files that were rotated away. `clock` gives wall-clock milliseconds. `wait` sleeps
        so many seconds and says whether to stop; without one, `stop` ends the sleep.
        `on_progress` is called with bytes read and bytes there were, until the log's end is
        reached for the first time. `on_idle` is asked once for what there is to say when nothing
        came for two seconds; it is taken back when something does. While `at_once` says so, what
        is read is handed on when it is, and not left for `bring`.
        """
        super().__init__("log-tail", "the log", parser, emit, clock)
        self.caught_up = False  # the log's end was reached once
        self._follower = Follower(path, back_ms=back_ms, max_bytes=max_bytes, since=since)
        self._before = before
        self._wait = wait or self._stopped.wait
        self._poll_s = poll_s
        self._on_progress = on_progress
        self._silence = Silence(on_idle)
        self._at_once = at_once
        self._bringing = Bringing(clock)
        self._read: deque[Piece] = deque()  # and not handed on yet
        self._polling = threading.Lock()  # held by who reads

    def bring(self) -> None:
        """Hand on what has come, if nothing else goes on; any thread may ask, and waits for none.

        As long as one does, our own only sees to what it can't have at hand, and less often if
        that is nothing.
        """
        if self.caught_up:
            self._bringing.bring(self._skim)

    def _skim(self) -> None:
        if self._polling.acquire(blocking=False):
            try:
                self._read += self._follower.skim()
            finally:
                self._polling.release()
        self._hand_on()

    def step(self) -> bool:
        """Poll once; whether there is more to read at once."""
        self._bringing.check()
        with self._polling:
            self._read += self._follower.poll(self._clock())
            more = self._follower.more
        if more or not self.caught_up or not self._bringing.goes_on or self._at_once():
            with self._bringing.working:
                self._hand_on()
        if not self.caught_up:
            self._tell_progress()
        return more

    def _rest_s(self) -> float:
        """How long to sleep before the next poll."""
        follower = self._follower
        seldom = follower.skimmed and not follower.truncated and self._bringing.goes_on
        return SKIMMED_POLL_S if seldom and not self._at_once() else self._poll_s

    def _hand_on(self) -> None:
        now_ms = self._clock()
        pieces, events = len(self._read), list[Event]()
        for _ in range(pieces):
            piece = self._read.popleft()
            if isinstance(piece, bytes):
                events += self._parser.feed(piece)
                continue
            if isinstance(piece, Cut):
                events += self._parser.cut()
            events.append(SourceNote(now_ms, piece.level, piece.text))
        events += self._silence.ends(now_ms) if pieces else self._silence.lasts(now_ms)
        self._pass_on(events)

    def _read_before(self) -> None:
        """Read the rotated predecessors, if they were asked for.

        The log itself is opened first: it may be rotated in the meantime.
        """
        if self._before is None:
            return
        for piece in self._follower.open():
            if not isinstance(piece, bytes):
                self._say(piece.level, piece.text)
        for block in self._before(self._say):
            self._pass_on(self._parser.feed(block))
            if self._stopped.is_set():
                return

    def _tell_progress(self) -> None:
        follower = self._follower
        read, total = follower.read_bytes, follower.total_bytes
        self.caught_up = not follower.more
        if self._on_progress is not None:
            self._on_progress(min(read, total), total)

    def _read_all(self) -> None:
        self._read_before()
        while not self._stopped.is_set():
            if not self.step() and self._wait(self._rest_s()):
                break

    def _close(self) -> None:
        self._bringing.end()
        with self._polling:
            self._follower.close()
