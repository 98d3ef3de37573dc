"""What carriers put before a log line or round it, and the time at which they took the line.

journalctl (`-o short`, `short-precise`, `short-iso`, `short-iso-precise`, `short-unix`, `json`),
syslog files, `ts`, `docker logs -t` and Docker's own JSON files. The daemon's tracing lines begin
with a time stamp too: that one is the line's own and stays.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

from cuzktop.dataclass import NamedTuple

_WRITER = rb"(\S+ [^\s:\[\]]+(?:\[(\d{1,10})\]: ?|: ))"
"""`host cuzk[4242]: `; the kernel, for one, has no process id."""
_ISO = re.compile(
    rb"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d) " + _WRITER + rb"?"
)
_SHORT = re.compile(
    rb"([^\s\d]{2,12}) ([ \d]\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))? " + _WRITER + rb"?"
)
_UNIX = re.compile(rb"(\d{9,11}\.\d{1,9}) " + _WRITER)
_RECORD = re.compile(rb"TIMELINE,|CUZK_|\x1b\[2m\d{4}-|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z ")
"""How the daemon's own lines begin: what stands before one of these is a carrier's."""

_MONTHS = {
    name: number
    for number, name in enumerate(b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)
}
_TRACING_DIGITS = 6  # of a second, as the daemon prints them; `docker logs -t` prints nine
_YEARS_APART = (0, -1, 1)


Clock = tuple[int, int, int, int, int]
"""Month, day, hour, minute, second."""


class Unwrapped(NamedTuple):
    """A bare line. `wall_ms` (since 1970 UTC) is when the carrier took it, `pid` who wrote it."""

    wall_ms: float | None
    pid: int | None
    line: bytes


def unwrap(
    line: bytes, *, tz: tzinfo = UTC, near_ms: float | None = None
) -> tuple[float | None, bytes]:
    """The carrier's time of `line` (ms since 1970 UTC, None if it gives none) and the bare line."""
    wall_ms, _, bare = split_prefix(line, tz=tz, near_ms=near_ms)
    return wall_ms, bare


def split_prefix(line: bytes, *, tz: tzinfo = UTC, near_ms: float | None = None) -> Unwrapped:
    """Part a line, without its line break, from what its carrier added. Never raises.

    `tz` is the zone of prefixes that name none (`-o short`). Those have no year either: it is the
    one that comes closest to `near_ms`, and without that their time is None.
    """
    first = line[:1]
    if first == b"{":
        return _from_json(line)
    if first.isdigit():
        return _from_iso(line) or _from_unix(line) or Unwrapped(None, None, line)
    return _from_short(line, tz, near_ms) or Unwrapped(None, None, line)


def _from_iso(line: bytes) -> Unwrapped | None:
    """Forms that begin with an ISO time, of which the daemon's own lines are no part."""
    found = _ISO.match(line)
    if found is None:
        return None
    second, fraction, zone, writer, pid = found.groups()
    if zone == b"Z" and pid is None:
        writer = None  # `…Z ERROR cuzk_daemon: text` only looks as if it named a host and a program
    rest = line[found.end(3) + 1 :] if writer is None else line[found.end() :]
    if not (writer or len(fraction or b"") > _TRACING_DIGITS or _RECORD.match(rest)):
        return None
    wall_ms = _second_ms(second, zone)
    if wall_ms is not None and fraction:
        wall_ms += _part_ms(fraction)
    return Unwrapped(wall_ms, _number(pid), rest)


@lru_cache(maxsize=64)  # lines come many a second, and in order
def _second_ms(second: bytes, zone: bytes) -> float | None:
    """Milliseconds since 1970 UTC; None for a time that no calendar or clock has."""
    try:
        whole = datetime.fromisoformat(second.decode()).replace(tzinfo=_zone(zone))
        return whole.timestamp() * 1000.0
    except (ValueError, OverflowError):
        return None


def _part_ms(fraction: bytes) -> float:
    return int(fraction.ljust(9, b"0")) / 1e6


def _zone(text: bytes) -> tzinfo:
    """The zone of `Z`, `+0000` or `+00:00`. Raises ValueError if it is a day or more off."""
    if text == b"Z":
        return UTC
    ahead = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return timezone(-ahead if text[:1] == b"-" else ahead)


def _from_unix(line: bytes) -> Unwrapped | None:
    found = _UNIX.match(line)
    if found is None:
        return None
    return Unwrapped(float(found[1]) * 1000.0, _number(found[3]), line[found.end() :])


def _from_short(line: bytes, tz: tzinfo, near_ms: float | None) -> Unwrapped | None:
    """`Mar 14 01:02:03 host cuzk[4242]: `; in another language the month stays unknown."""
    found = _SHORT.match(line)
    if found is None:
        return None
    rest = line[found.end() :]
    if found[7] is None and not _RECORD.match(rest):
        return None
    month = _MONTHS.get(found[1])
    wall_ms = None
    if month is not None and near_ms is not None:
        clock = (month, int(found[2]), int(found[3]), int(found[4]), int(found[5]))
        wall_ms = _nearest(clock, found[6], tz, near_ms)
    return Unwrapped(wall_ms, _number(found[8]), rest)


def _nearest(clock: Clock, fraction: bytes | None, tz: tzinfo, near_ms: float) -> float | None:
    """The time without a year that is closest to `near_ms`."""
    try:
        near = datetime.fromtimestamp(near_ms / 1000.0, tz).year
    except (ValueError, OverflowError, OSError):
        return None
    found = (_wall_ms(clock, fraction, near + apart, tz) for apart in _YEARS_APART)
    times = [wall_ms for wall_ms in found if wall_ms is not None]
    return min(times, key=lambda wall_ms: abs(wall_ms - near_ms), default=None)


def _wall_ms(clock: Clock, fraction: bytes | None, year: int, zone: tzinfo) -> float | None:
    """Milliseconds since 1970 UTC; None where no calendar has such a day (29 February)."""
    try:
        whole_ms = datetime(year, *clock, tzinfo=zone).timestamp() * 1000.0
    except (ValueError, OverflowError):
        return None
    return whole_ms + (_part_ms(fraction) if fraction else 0.0)


def _number(digits: bytes | None) -> int | None:
    return None if digits is None else int(digits)


# ---------------------------------------------------------------- JSON


def _from_json(line: bytes) -> Unwrapped:
    """An entry of `journalctl -o json`, or of Docker's `…-json.log`."""
    kept = Unwrapped(None, None, line)
    if b'"MESSAGE"' not in line and b'"log"' not in line:
        return kept
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):  # cut in the middle, or no JSON
        return kept
    if not isinstance(entry, dict):
        return kept
    if "MESSAGE" in entry:
        return Unwrapped(
            _micros(entry.get("__REALTIME_TIMESTAMP")),
            _decimal(entry.get("_PID", entry.get("SYSLOG_PID"))),
            _message(entry["MESSAGE"]),
        )
    if isinstance(entry.get("log"), str) and isinstance(entry.get("time"), str):
        stamp = _from_iso(entry["time"].encode("utf-8", "replace") + b" TIMELINE,")
        return Unwrapped(
            None if stamp is None else stamp.wall_ms,
            None,
            _one_line(entry["log"].encode("utf-8", "replace")),
        )
    return kept


def _micros(value: object) -> float | None:
    micros = _decimal(value)
    return None if micros is None else micros / 1000.0


def _decimal(value: object) -> int | None:
    """A number that journalctl prints as a string."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    return None


def _message(value: object) -> bytes:
    """MESSAGE as bytes: a string, or byte values where it holds an escape sequence.

    Null stands for a message that journalctl found too long to print; a field that was sent twice
    comes as a list of both, of which the first is taken.
    """
    if isinstance(value, list) and value and isinstance(value[0], (str, list)):
        value = value[0]
    if isinstance(value, str):
        return _one_line(value.encode("utf-8", "replace"))
    if isinstance(value, list):
        try:
            return _one_line(bytes(value))
        except (TypeError, ValueError):
            return b""
    return b""


def _one_line(text: bytes) -> bytes:
    return text.rstrip(b"\r\n").replace(b"\n", b" ")
