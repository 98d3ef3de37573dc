"""Where in a large log to begin: it is searched backwards from its end.

Everything here reads bytes. A live log is never mapped: it may shrink under us.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from cuzktop.settings import MAX_LINE_BYTES
from cuzktop.sources.files import plain_size

STEP_BYTES = 64 * 1024  # of larger blocks the allocator keeps megabytes for the program's life
RESTART_DROP_MS = 5000  # TIMELINE offsets step back by milliseconds on their own, not by this much
STAMP_SEARCH_BYTES = 16 * 1024  # a block's ends are searched for a tracing time stamp, no more
UNFINISHED_WINDOW_BYTES = 8 * 1024 * 1024  # a larger window isn't searched for unfinished jobs
HOLE = b"\0" * 64  # what a truncation under a writer that does not append leaves at the front
FEW_JOBS = 4
FRUITLESS_BYTES = 1024 * 1024  # nor do we go on where so much text names none of them

DAEMON_STARTING = b"cuzk-daemon starting"
# Tears fall between fragments, so an offset with a comma and an event's name after it is whole.
MARK = re.compile(rb"TIMELINE,(\d{1,15}),[A-Z_]+,")
MARK_JOB = re.compile(
    rb"TIMELINE,\d{1,15},[A-Z_]+,([^\n]*?),(?:worker=|partition=|snap_partition=|kind=|monolithic)"
)
STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(?=Z)")
WHOLE_JOB = (b"job enqueued", b"dispatching per-partition", b"proof assembled")


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
