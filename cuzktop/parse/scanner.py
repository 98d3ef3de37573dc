"""Bytes → events: framing, torn lines, and the clocks that bound lines without one.

Two streams end in one file. Tracing and CUZK lines are written whole; a TIMELINE line is written in
nine pieces, and any of the others can land between them. So a TIMELINE line may be cut at a piece's
end by a complete line, and its rest comes later at the start of a line of its own. The repair holds
the head back until that rest comes (at most `MAX_INTRUDERS` lines).
"""

from __future__ import annotations

import re
from collections import deque

from cuzktop.dataclass import dataclass
from cuzktop.events import (
    DaemonStarted,
    DialectSeen,
    Epilogue,
    GpuQueued,
    HeadSeen,
    LineUnparsed,
    LogEvent,
    Noticed,
    PrestageSeen,
    SynthStarted,
    Tick,
    TimingStretch,
)
from cuzktop.logbook import LogBook
from cuzktop.parse import timing
from cuzktop.parse.prefix import split_prefix
from cuzktop.parse.text import ANSI, ESC, line_us
from cuzktop.parse.timeline import TimelineEvent, parse_timeline
from cuzktop.parse.tracing import (
    LAST_STEP,
    NOISE_AT,
    TracingReader,
)
from cuzktop.settings import MAX_LINE_BYTES

MAX_INTRUDERS = 64  # lines between a torn line's head and its rest; more means the rest is lost

_OFFSET = re.compile(rb"TIMELINE,(\d{1,13})(?!\d)")

_INTRUDER = re.compile(
    rb"CUZK_TIMING: |CUZK_NTT_H: |(?:\x1b\[2m)?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z|TIMELINE,\d"
)
"""The beginning of a line that was written whole, in the middle of another."""

_BARE_STAMP = re.compile(
    rb"(?:\w{3} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?"
    rb"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)) "
)
"""A prefix before any text, in a log that is known to have prefixes."""
_DELAYS = 32  # tracing lines by which a carrier's clock is judged
_DELAYS_LEAST = 4
_DELAY_SPREAD_US = 20_000  # a carrier less steady than this tells no time (whole seconds, say)
_TAKE_OVER_LINES = 1000  # of one daemon without any of the other, which has gone then

_CRASHES = (
    b"terminate called",
    b"fatal runtime error",
    b"Error: ",
)
_CRASH = re.compile(
    rb": Assertion .* failed\.|\.service: (?:Main process exited|Failed with result)"
)
_FALL_MS = 5000  # TIMELINE offsets fall back by more than this when the daemon was started anew


_make = tuple.__new__  # a named tuple, at half its constructor's price


@dataclass(slots=True)
class Counts:
    """What was read; json-contract's `source`."""

    bytes: int = 0
    lines: int = 0
    events: int = 0
    torn: int = 0
    unparsed: int = 0
    unknown_timing: int = 0
    timeline: int = 0
    timing: int = 0
    tracing: int = 0


_MARKS = {
    4: ("lock", 41, LAST_STEP),
    7: ("lock", 41, LAST_STEP),
    11: ("epilogue", 10, 23),
}
"""What a timing line says of the daemon's generation, by its number: mark, first and last step."""
_NO_STRETCH = TimingStretch(None, [], None)


class _Carrier:
    """The clock of what carries the log (journald, Docker), held against the daemon's own.

    It dates the lines that have no time of their own. Only its steadiness counts: a zone, or
    another machine's clock, makes all its times late by the same.
    """

    def __init__(self) -> None:
        self.near_ms: float | None = None  # about when the log is being written
        self._delays_us: deque[int] = deque(maxlen=_DELAYS)
        self._told_us = 0  # the latest time that is known anyhow

    def compare(self, wall_ms: float | None, line: bytes) -> None:
        """A tracing line, taken at the carrier's `wall_ms`, tells how late that is."""
        try:
            stamp_us = line_us(line)
        except ValueError:
            return
        self.near_ms = stamp_us / 1000.0
        self._told_us = stamp_us
        if wall_ms is not None:
            self._delays_us.append(round(wall_ms * 1000.0) - stamp_us)

    def tick_us(self, wall_ms: float) -> int | None:
        """When, at the earliest, the line was written that the carrier took at `wall_ms`.

        Microseconds since 1970 by the daemon's clock; None if that is no news, or unsure.
        """
        delays = self._delays_us
        if len(delays) < _DELAYS_LEAST:
            return None
        latest = max(delays)
        if latest - min(delays) > _DELAY_SPREAD_US:
            return None
        at_us = round(wall_ms * 1000.0) - latest
        if at_us <= self._told_us:
            return None
        self._told_us = at_us
        return at_us


class _Writers:
    """The processes whose lines are in one log, by the ids that a carrier adds.

    A new one is the daemon started anew. One that comes back shows that two are at work: the
    clocks of both can't be followed at once, so the lines of the one that came last count.
    """

    def __init__(self) -> None:
        self._now: int | None = None
        self._former: set[int] = set()
        self._others_lines = 0  # since the last line that counted
        self._returns = 0
        self._told = False

    def counts(self, pid: int, line: bytes, out: list[LogEvent]) -> bool:
        """Whether to read a bare line of this process."""
        if pid == self._now:
            self._others_lines = 0
            return True
        if not (line.startswith((b"TIMELINE,", b"CUZK_")) or b"cuzk_" in line[:80]):
            return pid not in self._former  # another program, or a piece of the other's line
        new = pid not in self._former or b"cuzk-daemon starting" in line
        if new or self._others_lines >= _TAKE_OVER_LINES:
            if self._now is not None:
                self._former.add(self._now)
            self._former.discard(pid)
            self._now, self._others_lines, self._returns = pid, 0, 0
            return True
        if not self._others_lines:
            self._returns += 1
        self._others_lines += 1
        if self._returns > 1 and not self._told:  # once may be its last words, come late
            self._told = True
            out.append(Noticed(None, "error", _two_daemons(pid, self._now)))
        return False


def _two_daemons(other: int, counted: int | None) -> str:
    return (
        f"two daemons write into this log, processes {other} and {counted}:"
        f" only the lines of {counted} count, which came last"
    )


class LogScanner:
    """Makes events of a daemon's log, a block of bytes at a time.

    A line in two blocks is held back until its end comes. Nothing it reads makes it raise.
    """

    def __init__(self) -> None:
        """Begin at the start of a line."""
        self.counts = Counts()
        self.book: LogBook | None = None  # keeps the lines for a screen
        self._half = b""
        self._skipping = False  # inside a line that is too long
        self._tracing = TracingReader()
        self._head: bytes | None = None
        self._head_lines = 0
        self._unticked: bytes | None = None
        self._anonymous = False
        self._dialects: set[str] = set()
        self._panic = False
        self._prefixed = False  # the log's lines came with a prefix so far
        self._carrier = _Carrier()
        self._writers = _Writers()
        self._newest_ms = 0  # the latest TIMELINE offset
        self._unmarked = set(_MARKS)  # numbers of timing lines whose fingerprint would be news
        self._stretch = _NO_STRETCH
        self._stretch_end = -1  # how many events there are as long as it is the last one
        self._joined = 0  # events of the block that have become parts of one

    def feed(self, data: bytes) -> list[LogEvent]:
        """The events of the lines that end in `data`."""
        counts = self.counts
        counts.bytes += len(data)
        if b"\0" in data:
            data = data.replace(b"\0", b"")
        end = data.rfind(b"\n")
        if end < 0:
            if self._skipping:
                return []
            self._half += data
            if len(self._half) > MAX_LINE_BYTES:
                self._half, self._skipping = self._half[:MAX_LINE_BYTES], True
            return []
        block = data[:end] if self._skipping or not self._half else self._half + data[:end]
        held_back = self._half
        self._half = data[end + 1 :]
        lines = block.split(b"\n")
        if self._skipping:
            lines[0] = held_back
            self._skipping = False
        if len(self._half) > MAX_LINE_BYTES:
            self._half, self._skipping = self._half[:MAX_LINE_BYTES], True
        if _may_be_too_long(block):
            # As if its blocks had been smaller: what is read of a line depends on nothing else.
            lines = [line[:MAX_LINE_BYTES] for line in lines]
        counts.lines += len(lines)
        if self.book is not None:
            self.book.extend(lines)
        out: list[LogEvent] = []
        self._stretch_end = -1
        if b"\r" in block:
            lines = [line.rstrip(b"\r") for line in lines]
        noise = self._tracing.noise
        for line in lines:
            head = line[:5]  # nearly all lines begin in one of three ways
            if head == b"\x1b[2m2":
                if line[NOISE_AT] not in noise and self._tracing.wants(line):
                    self._tracing_line(line, out)
                elif self._anonymous:
                    self._tick(line, out)
                else:  # only its time may be asked for
                    self._unticked = line
                    self._panic = False
            elif head == b"CUZK_":
                self._timing(line, out)
            elif head == b"TIMEL" and line.startswith(b"TIMELINE,"):
                event = parse_timeline(line)
                if event is None:
                    self._torn(line, out)
                else:
                    self._clocked(event, line, out)
            elif line:
                self._line(line, out)
            elif self._head is not None:
                self._close_head(b"", out)
            if self._head is not None:
                self._head_lines += 1
                if self._head_lines > MAX_INTRUDERS:
                    self._give_up_head(out)
        counts.events += len(out) + self._joined
        self._joined = 0
        return out

    def finish(self) -> list[LogEvent]:
        """No more bytes will come: the half line is dropped unless it is a record by itself."""
        out: list[LogEvent] = []
        half, self._half = self._half, b""
        if half and not self._skipping:
            self.counts.lines += 1
            if half.startswith((b"TIMELINE,", b"CUZK_")):
                # Its number may be cut short: half a figure is no figure.
                self._unparsed(half, "the log ends in the middle of this line", out)
        if self._head is not None:
            self._give_up_head(out)
        return out

    def half_line(self) -> str:
        """What a user may be told while a line's end does not come; "" if none is waited for.

        It is no record: the number that it ends in may go on.
        """
        if not self._half.strip():
            return ""
        return f"the log ends in the middle of a line: {_printable(self._half)}"

    def newest_us(self) -> int | None:
        """When the last line was written, if it has a time stamp that no event has told yet."""
        if self._unticked is None:
            return None
        try:
            return line_us(self._unticked)
        except ValueError:
            return None

    def cut(self) -> list[LogEvent]:
        """Continuity is lost (the file was truncated or replaced): forget what was begun."""
        out: list[LogEvent] = []
        self._half, self._skipping = b"", False
        if self._head is not None:
            self._give_up_head(out)
        self._unticked = None
        self._anonymous = False
        self._forget_dialects()
        return out

    # ------------------------------------------------------------ one line

    def _line(self, line: bytes, out: list[LogEvent]) -> None:
        first = line[0]
        if first == 67 and line.startswith(b"CUZK_"):  # C
            self._timing(line, out)
        elif first == 84 and line.startswith(b"TIMELINE,"):  # T
            self._timeline(line, out)
        elif (first == ESC and line.startswith(b"\x1b[2m2")) or (
            first == 50 and line[10:11] == b"T" and line[26:27] == b"Z" and line[27:28] == b" "
        ):
            self._tracing_line(line, out)
        else:
            self._other(line, out)

    def _tracing_line(self, line: bytes, out: list[LogEvent]) -> None:
        try:
            found = self._tracing.read(line)
            self._panic = False
            if found is None:
                if self._anonymous:
                    self._tick(line, out)
                else:
                    self._unticked = line
                return
        except ValueError:
            self._other(line, out)
            return
        self.counts.tracing += 1
        self._anonymous = False
        self._unticked = None
        if found and type(found[0]) is DaemonStarted:
            self._new_run(out)
        out.extend(found)

    def _tick(self, line: bytes, out: list[LogEvent]) -> None:
        """A tracing line of which only its time matters: the lines above have none."""
        self._panic = False
        try:
            at_us = line_us(line)
        except ValueError:
            self._other(line, out)
            return
        if self._stretch_end == len(out):
            since_us, lines, _ = self._stretch
            out[-1] = _make(TimingStretch, (since_us, lines, at_us))
            self._stretch_end = -1
            self._joined += 1
        else:
            out.append(_make(Tick, (at_us,)))
        self._anonymous = False
        self._unticked = None

    def _new_run(self, out: list[LogEvent]) -> None:
        if self._head is not None:
            self._give_up_head(out)
        self._forget_dialects()

    def _forget_dialects(self) -> None:
        """Fingerprints are news again: they are of another life of the daemon."""
        self._dialects.clear()
        self._unmarked.update(_MARKS)
        self._tracing.forget()
        self._newest_ms = 0

    def _timing(self, line: bytes, out: list[LogEvent]) -> None:
        found = timing.usual_timing(line)
        if found is None:
            self._unusual_timing(line, out)
            return
        if found[0] in self._unmarked:
            self._mark(found[0], out)
        self.counts.timing += 1
        if self._stretch_end == len(out):
            self._stretch.lines.append(found)
            self._joined += 1
            return
        since_us = self._since_us()
        if since_us is not None:
            self._joined += 1
        self._stretch = _make(TimingStretch, (since_us, [found], None))
        out.append(self._stretch)
        self._stretch_end = len(out)
        self._anonymous = True

    def _since_us(self) -> int | None:
        """The time stamp that no event has told yet; whoever asks tells it."""
        unticked, self._unticked = self._unticked, None
        if unticked is not None:
            try:
                return line_us(unticked)
            except ValueError:
                pass
        return None

    def _end_silence(self, out: list[LogEvent]) -> None:
        """Tell that time stamp by an event of its own."""
        since_us = self._since_us()
        if since_us is not None:
            out.append(Tick(since_us))

    def _mark(self, number: int, out: list[LogEvent]) -> None:
        """Emit the fingerprint that timing lines of this number are."""
        self._unmarked.discard(number)
        mark, first, last = _MARKS[number]
        if mark not in self._dialects:
            self._end_silence(out)
            self._seen(mark, first, last, out)

    def _unusual_timing(self, line: bytes, out: list[LogEvent]) -> None:
        if line.startswith(b"CUZK_NTT_H: "):
            self._seen("ntt", 28, LAST_STEP, out)
            return
        if not line.startswith(timing.HEAD):
            self.counts.unknown_timing += 1
            return
        try:
            event = timing.parse_timing(line)
        except ValueError:
            if line[13:20] in timing.RULES:
                self._unparsed(line, "a CUZK_TIMING line with values that can't be read", out)
            else:
                self.counts.unknown_timing += 1
            return
        self._end_silence(out)
        self.counts.timing += 1
        if isinstance(event, PrestageSeen):
            if b" total_ps_ms=" in line:
                self._seen("prestage_total", 21, 21, out)
            else:
                self._seen("prestage", 20, 27, out)
        elif isinstance(event, Epilogue):
            self._mark(11, out)
        out.append(event)
        self._anonymous = True

    def _timeline(self, line: bytes, out: list[LogEvent]) -> None:
        event = parse_timeline(line)
        if event is None:
            self._torn(line, out)
            return
        self._clocked(event, line, out)

    def _clocked(self, event: TimelineEvent, line: bytes, out: list[LogEvent]) -> None:
        """Emit a TIMELINE event, and after it the fingerprint that its form is."""
        self.counts.timeline += 1
        self._tracing.has_timeline = True
        self._anonymous = False
        at_ms = event.at_ms
        if at_ms > self._newest_ms:
            self._newest_ms = at_ms
        elif at_ms < self._newest_ms - _FALL_MS:
            self._forget_dialects()
        out.append(event)
        kind = type(event)
        if kind is GpuQueued:
            if b",GPU_QUEUE," in line:
                self._seen("queue", 38, LAST_STEP, out)
            else:
                self._seen("send", 16, 37, out)
        elif kind is SynthStarted and b",snap_partition=" in line:
            self._seen("snap", 29, 36, out)

    def _seen(self, mark: str, first: int, last: int, out: list[LogEvent]) -> None:
        if mark not in self._dialects:
            self._dialects.add(mark)
            out.append(DialectSeen(first, last))

    # ------------------------------------------------------------ torn lines

    def _torn(self, line: bytes, out: list[LogEvent]) -> None:
        """A TIMELINE line that can't be read as it is: cut where another line begins."""
        intruder = _INTRUDER.search(line, 9)
        if intruder is None:
            # Its end may be in a later line, if the line break that ended it is another's.
            self._open_head(line, out)
            return
        at = intruder.start()
        self._open_head(line[:at], out)
        self._close_complete_head(out)
        self._line(line[at:], out)

    def _open_head(self, head: bytes, out: list[LogEvent]) -> None:
        if self._head is not None:
            self._give_up_head(out)
        self._head = head
        self._head_lines = 0
        offset = _OFFSET.match(head)
        out.append(HeadSeen(None if offset is None else int(offset[1])))

    def _close_head(self, rest: bytes, out: list[LogEvent]) -> bool:
        """Put a torn line together with its rest; False if `rest` is something else.

        An intruder may have several lines, so what doesn't fit is left alone.
        """
        line = b"" if self._head is None else self._head + rest
        event = parse_timeline(line)
        if event is None:
            return False
        self._head = None
        self.counts.torn += 1
        self._clocked(event, line, out)
        return True

    def _close_complete_head(self, out: list[LogEvent]) -> None:
        """A torn line that lacks nothing but its line break counts at once: its place is here.

        One that could still go on, for its id or its detail is cut at a comma, has to wait.
        """
        if self._head is None or self._head.endswith(b","):
            return
        event = parse_timeline(self._head)
        if event is not None and "," not in event.job:
            self._close_head(b"", out)

    def _give_up_head(self, out: list[LogEvent]) -> None:
        head, self._head = self._head, None
        if head is None:
            return
        event = parse_timeline(head)
        if event is not None:
            self.counts.torn += 1
            self._clocked(event, head, out)
        else:
            self._unparsed(head, "a torn TIMELINE line whose rest never came", out)

    def _unparsed(self, line: bytes, reason: str, out: list[LogEvent]) -> None:
        self.counts.unparsed += 1
        out.append(LineUnparsed(line[:200].decode("utf-8", "replace"), reason))

    # ------------------------------------------------------------ everything else

    def _other(self, line: bytes, out: list[LogEvent]) -> None:
        """A line that begins like none of ours: the rest of a torn one, a prefix, or noise."""
        if self._unwrapped(line, out):
            return
        intruder = _INTRUDER.search(line)
        if intruder is None:
            if self._head is None or not self._close_head(line, out):
                self._crash(line, out)
            return
        if intruder.start() == 0:  # a bare time stamp without a tracing line's shape
            return
        before = line[: intruder.start()]
        if self._head is not None and not line[intruder.start() :].startswith(b"TIMELINE,"):
            self._head += before
            self._close_complete_head(out)
        elif self._head is not None:
            self._close_head(before, out)
        self._line(line[intruder.start() :], out)

    def _unwrapped(self, line: bytes, out: list[LogEvent]) -> bool:
        """Whether the line came with a carrier's prefix; what is behind that has been read then."""
        carrier = self._carrier
        wall_ms, pid, bare = split_prefix(line, near_ms=carrier.near_ms)
        if bare is line:
            again = _BARE_STAMP.match(line) if self._prefixed else None
            if again is None:
                return False
            bare = line[again.end() :]
        self._prefixed = True
        if not bare:
            if self._head is not None:
                self._close_head(b"", out)
            return True
        if pid is not None and not self._writers.counts(pid, bare, out):
            return True
        if bare[0] == ESC or bare[10:11] == b"T":
            carrier.compare(wall_ms, bare)
        elif wall_ms is not None and bare.startswith(b"CUZK_TIMING: "):
            tick_us = carrier.tick_us(wall_ms)
            if tick_us is not None:
                self._unticked = None
                out.append(Tick(tick_us))
        self._line(bare, out)
        return True

    def _crash(self, line: bytes, out: list[LogEvent]) -> None:
        """What a dying daemon, or its service manager, says; other text is noise."""
        if self._panic:
            self._panic = False
        elif line.startswith(b"thread '"):
            self._panic = True  # what it says is in the next line
            return
        elif not line.startswith(_CRASHES) and _CRASH.search(line) is None:
            return
        out.append(Noticed(None, "error", _printable(line)))


def _may_be_too_long(block: bytes) -> bool:
    """False only if no line of the block is longer than a line is read."""
    step = MAX_LINE_BYTES // 2  # a line that is too long has no end in one of these pieces
    starts = range(0, len(block) - step + 1, step)
    return any(block.find(b"\n", at, at + step) < 0 for at in starts)


def _printable(line: bytes) -> str:
    return ANSI.sub(b"", line)[:400].decode("utf-8", "replace")
