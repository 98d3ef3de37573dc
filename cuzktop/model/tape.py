"""The anonymous lines of a run, in the order of the log, as long as calls can want them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from cuzktop.dataclass import NamedTuple
from cuzktop.model.kinds import KINDS
from cuzktop.model.lateness import GRACE_MS
from cuzktop.model.state import Line

KEEP_LINES = 4096  # so many are kept at least, whoever may still want them
DROP_AT_LEAST = 64  # lines at a time, so that dropping costs little a line
LONG = 100  # as many as one that is used has nearly always
NEIGHBOURS = 8  # lines above and below that are asked for their time


class Bounds(NamedTuple):
    """When a line was written: by clocks, and by neighbours whose times are known too."""

    clock_lo: float
    clock_hi: float
    lo: float
    hi: float


_place = attrgetter("seq")


def between(pool: Sequence[Line], first: int, last: int) -> Sequence[Line]:
    """The lines of a pool from place `first` up to, but not at, place `last`."""
    return pool[bisect_left(pool, first, key=_place) : bisect_left(pool, last, key=_place)]


class Tape:
    """Anonymous lines, by kind (`pools`) and by place."""

    def __init__(self) -> None:
        """Begin with no lines."""
        self.pools: dict[int, list[Line]] = {kind: [] for kind in KINDS}
        self._lines: list[Line] = []
        self._base = 0  # the place of the first of them
        self._unbounded: list[Line] = []  # no clock was read since

    def end(self) -> int:
        """The place of the next line: orders calls and lines in the log."""
        return self._base + len(self._lines)

    def add(self, kind: int, a: int, b: int, clock: float) -> Line:
        """A line was read; `clock` is the newest time before it."""
        lines = self._lines
        line = Line(kind, a, b, self._base + len(lines), clock)
        lines.append(line)
        self._unbounded.append(line)
        self.pools[kind].append(line)
        if len(lines) > 2 * KEEP_LINES:
            self._drop(KEEP_LINES)
        return line

    def clocked(self, at: float) -> None:
        """A line with a clock was read: what came before it was written by then."""
        if self._unbounded:
            for line in self._unbounded:
                line.hi = at
            self._unbounded.clear()

    def bounds(self, line: Line) -> Bounds:
        """When a line was written, by the clocks round it and by its neighbours."""
        index = line.seq - self._base
        lines = self._lines
        lo, hi = line.lo, line.hi
        for above in lines[max(0, index - NEIGHBOURS) : index]:
            tied = above.tied
            if tied is not None and tied[0] - 0.5 > lo:
                lo = tied[0] - 0.5
        for below in lines[index + 1 : index + 1 + NEIGHBOURS]:
            tied = below.tied
            if tied is not None:
                latest = max(below.lo, tied[1])
                if latest + GRACE_MS < hi:
                    hi = latest + GRACE_MS
        return Bounds(line.lo, line.hi, lo, hi)

    def is_long(self) -> bool:
        """Whether it pays to find out what nobody wants any more."""
        return len(self._lines) > LONG

    def forget(self, place: int) -> bool:
        """Nobody wants what stands before `place`; tells whether lines were dropped."""
        if place - self._base <= DROP_AT_LEAST:
            return False
        self._drop(place - self._base)
        return True

    def _drop(self, count: int) -> None:
        del self._lines[:count]
        self._base += count
        for kind, pool in self.pools.items():
            if pool and pool[0].seq < self._base:
                self.pools[kind] = [line for line in pool if line.seq >= self._base]
