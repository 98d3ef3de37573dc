"""Where in a log to begin when the user says it: ten minutes back, at 08:20, at its first line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import BinaryIO

from cuzktop.settings import (
    EVERYTHING,
    MAX_LINE_BYTES,
    START_BACK_BYTES,
    START_BACK_MS,
    Since,
)
from cuzktop.sources.beginning import MARK, STAMP, find_start, stamp_ms
from cuzktop.sources.files import plain_size

_STEP_BYTES = 256 * 1024  # a daemon at work prints a tracing line within far less
_FURTHEST_BYTES = 16 * 1024 * 1024
_NEAR_MS = 60_000.0  # lines without a stamp are taken to be written so soon after the last stamp


def instant_ms(since: Since, end_ms: float) -> float:
    """What is meant for a log that ends at `end_ms`, both in ms since 1970 UTC.

    A time of day is the last one that the log can hold.
    """
    if since.at_ms is not None:
        return since.at_ms
    if since.back_ms is not None:
        return end_ms - since.back_ms
    end = datetime.fromtimestamp(end_ms / 1000.0, UTC)
    if since.local:
        end = end.astimezone()
    day = end.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    while True:
        moment = day + timedelta(milliseconds=since.of_day_ms or 0.0)
        aware = moment.astimezone() if since.local else moment.replace(tzinfo=UTC)
        if aware <= end:
            return aware.timestamp() * 1000.0
        day -= timedelta(days=1)


def settle(file: BinaryIO, since: Since) -> Since:
    """`since` as an instant, by the end of the log in `file`; as it is where that isn't known."""
    size = plain_size(file)
    end_ms = None if size is None else _last_stamp_ms(file, size)
    return since if end_ms is None else Since(at_ms=instant_ms(since, end_ms))


def find_since(file: BinaryIO, since: Since) -> int:
    """The byte offset, a line's start, of what was written at `since` or later.

    The time stamps of tracing lines are searched by halves, so the cost doesn't grow with the
    file; starts of the daemon in between are no limit. Lines without a stamp between the last
    stamp before `since` and the first one after it are taken, unless `since` is so long after that
    stamp that they were written before it. A log without any stamp is read from as far before its
    end as was asked for by its TIMELINE, and else as `find_start` does by itself. 0 for what can't
    be read backwards. A plain file is left standing at the offset.
    """
    size = plain_size(file)
    if size is None or since == EVERYTHING:
        return 0
    end_ms = _last_stamp_ms(file, size)
    if end_ms is None:
        if since.back_ms is None:
            return find_start(file, back_ms=START_BACK_MS, max_bytes=START_BACK_BYTES)
        return find_start(file, back_ms=since.back_ms, max_bytes=size)
    wanted_ms = instant_ms(since, end_ms)
    low, high = 0, size  # all before `low` is earlier, all from `high` on is later
    while high - low > _STEP_BYTES:
        middle = (low + high) // 2
        found = _next_stamp(file, middle, high)
        if found is None or found[1] >= wanted_ms:
            high = middle
        else:
            low = found[0]
    file.seek(low)
    text = file.read(high - low + MAX_LINE_BYTES)
    start, before_ms = low, wanted_ms
    for stamp in STAMP.finditer(text):
        at_ms = stamp_ms(stamp[0])
        if at_ms >= wanted_ms:
            break
        before_ms = at_ms
        end = text.find(b"\n", stamp.end())
        start = low + (end + 1 if end >= 0 else len(text))
    start = _without_older(file, start, size, wanted_ms - before_ms)
    file.seek(start)
    return start


def _without_older(file: BinaryIO, start: int, size: int, after_ms: float) -> int:
    """Where to begin if lines without a stamp stand at `start`, and `after_ms` earlier a stamp.

    The next line with a stamp, or the file's end, where they can't have been written so late.
    """
    if after_ms <= _NEAR_MS:
        return start
    found = _next_stamp(file, start, size)
    end = size if found is None else found[0]
    if _span_ms(file, start, end) >= after_ms:
        return start
    if found is None:
        return size
    back = max(start, end - MAX_LINE_BYTES)
    file.seek(back)
    return back + file.read(end - back).rfind(b"\n") + 1


def _span_ms(file: BinaryIO, begin: int, end: int) -> float:
    """How long the lines between two offsets took, by their TIMELINE."""
    file.seek(begin)
    first = MARK.search(file.read(min(_STEP_BYTES, end - begin)))
    back = max(begin, end - _STEP_BYTES)
    file.seek(back)
    marks = MARK.findall(file.read(end - back))
    return float(int(marks[-1]) - int(first[1])) if first and marks else 0.0


def _next_stamp(file: BinaryIO, at: int, end: int) -> tuple[int, float] | None:
    """Where the first stamp at or after `at` begins a line's tracing part, and its ms."""
    while at < end:
        file.seek(at)
        text = file.read(min(_STEP_BYTES, end - at) + 64)
        found = STAMP.search(text)
        if found is not None:
            return at + found.start(), stamp_ms(found[0])
        at += _STEP_BYTES
    return None


def _last_stamp_ms(file: BinaryIO, size: int) -> float | None:
    """The time of the newest tracing line."""
    end = size
    while end > 0 and size - end < _FURTHEST_BYTES:
        begin = max(0, end - _STEP_BYTES)
        file.seek(begin)
        stamps = STAMP.findall(file.read(end - begin + 64))
        if stamps:
            return stamp_ms(stamps[-1])
        end = begin
    return None
