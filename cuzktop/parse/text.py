"""Bytes of the log as the values that events carry."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

ANSI = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
"""A control sequence; the daemon's logger colours by default, also into files."""

ESC = 27  # a coloured line begins with it
MAX_DIGITS = 13  # three hundred years in milliseconds: more is a damaged line
_KEEP_NAMES = 512  # more than the jobs that are ever in flight; bounds the two caches

_names: dict[bytes, str] = {}
_minutes: dict[bytes, int] = {}

KINDS = {
    b"porep-c2": "porep",
    b"snap-update": "snap",
    b"window-post": "window-post",
    b"winning-post": "winning-post",
}
"""The daemon's `proof_kind` → the contract's `kind`."""


def name(raw: bytes) -> str:
    """A job id as text; bytes that aren't UTF-8 become replacement characters."""
    text = _names.get(raw)
    if text is None:
        if len(_names) >= _KEEP_NAMES:
            _names.clear()
        text = _names[raw] = raw.decode("utf-8", "replace")
    return text


def wall_us(text: bytes, start: int = 0) -> int:
    """Microseconds since 1970 of `YYYY-MM-DDTHH:MM:SS.ffffffZ`, which begins at `start`.

    Raises:
        ValueError: there is no such stamp.
    """
    minute = text[start : start + 16]
    minute_us = _minutes.get(minute)
    if minute_us is None:
        minute_us = _minute_us(minute)
    # Six digits stand behind the point, so both together are microseconds.
    return minute_us + int(text[start + 17 : start + 19] + text[start + 20 : start + 26])


def _minute_us(minute: bytes) -> int:
    """Microseconds since 1970 of `YYYY-MM-DDTHH:MM`. Raises ValueError."""
    if len(_minutes) >= _KEEP_NAMES:
        _minutes.clear()
    when = datetime.fromisoformat(minute.decode("ascii")).replace(tzinfo=UTC)
    if not 1970 <= when.year < 2900:  # a damaged line: no clock says so
        raise ValueError(minute)
    minute_us = _minutes[minute] = int(when.timestamp()) * 1_000_000
    return minute_us


_MINUTE, _SECONDS, _MICROS = slice(4, 20), slice(21, 23), slice(24, 30)  # of a coloured line


def line_us(line: bytes) -> int:
    """Microseconds since 1970 of a tracing line, coloured or not.

    Raises:
        ValueError: it doesn't begin with a stamp.
    """
    if line[0] != ESC:
        return wall_us(line)
    minute_us = _minutes.get(line[_MINUTE])
    if minute_us is None:
        return wall_us(line, 4)
    return minute_us + int(line[_SECONDS] + line[_MICROS])


def iso_utc(at_us: int) -> str:
    """The inverse of `wall_us`, as the contract prints times."""
    seconds, micros = divmod(at_us, 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{_day(days)}T{hours:02d}:{minutes:02d}:{seconds:02d}.{micros:06d}Z"


@lru_cache(maxsize=8)
def _day(days: int) -> str:
    """A day so long after that of 1970."""
    return f"{datetime.fromtimestamp(86_400 * days, UTC):%Y-%m-%d}"
