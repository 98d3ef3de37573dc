"""The anonymous lines of a run, in the order of the log, as long as calls can want them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from cuzktop.dataclass import NamedTuple
from cuzktop.events import TimingLine
from cuzktop.model.kinds import KINDS
from cuzktop.model.lateness import GRACE_MS
from cuzktop.model.state import Line

KEEP_LINES = 4096  # so many are kept at least, whoever may still want them
DROP_AT_LEAST = 64  # lines at a time, so that dropping costs little a line
LONG = 100  # as many as one that is used has nearly always
NEIGHBOURS = 8  # lines above and below that are asked for their time


class Bounds(NamedTuple):
    """When a line was written: by clocks, and by neighbours whose times are known too.

    `lo` and `hi` lie within what the clocks say.
    """

    clock_lo: float
    clock_hi: float
    lo: float
    hi: float


class Pool(list[Line]):
    """Lines of one kind, in the order of the log, and the places where they stand."""

    __slots__ = ("places",)

    def __init__(self, lines: Iterable[Line] = ()) -> None:
        """Begin with these lines."""
        super().__init__(lines)
        self.places = [line.seq for line in self]  # to be searched without asking each line

    def between(self, first: int, last: int) -> list[Line]:
        """The lines from place `first` up to, but not at, place `last`."""
        places = self.places
        return self[bisect_left(places, first) : bisect_left(places, last)]

    def forget(self, place: int) -> None:
        """Drop what stands before `place`."""
        count = bisect_left(self.places, place)
        del self[:count]
        del self.places[:count]


Pools = Mapping[int, Pool]
"""By kind."""

_make = tuple.__new__


class Tape:
    """Anonymous lines, by kind (`pools`) and by place."""

    def __init__(self) -> None:
        """Begin with no lines."""
        self.pools: dict[int, Pool] = {kind: Pool() for kind in KINDS}
        self._lines: list[Line] = []
        self._base = 0  # the place of the first of them
        self._unbounded: list[Line] = []  # no clock was read since

    def end(self) -> int:
        """The place of the next line: orders calls and lines in the log."""
        return self._base + len(self._lines)

    def add(self, kind: int, a: int, b: int, clock: float) -> Line:
        """A line was read; `clock` is the newest time before it."""
        lines = self._lines
        place = self._base + len(lines)
        line = Line(kind, a, b, place, clock)
        lines.append(line)
        self._unbounded.append(line)
        pool = self.pools[kind]
        pool.append(line)
        pool.places.append(place)
        if len(lines) > 2 * KEEP_LINES:
            self._drop(KEEP_LINES)
        return line

    def add_all(self, told: Iterable[TimingLine], clock: float) -> None:
        """The same of lines that follow one another; those of no call are left out."""
        lines, unbounded, pools = self._lines, self._unbounded, self.pools
        place = self._base + len(lines)
        for kind, a, b, _ in told:
            if kind in pools:
                pool = pools[kind]
                line = Line(kind, a, b, place, clock)
                lines.append(line)
                unbounded.append(line)
                pool.append(line)
                pool.places.append(place)
                place += 1
        while len(lines) > 2 * KEEP_LINES:
            self._drop(KEEP_LINES)

    def between(self, first: int, last: int) -> list[Line]:
        """The lines from place `first` up to, but not at, place `last`."""
        return self._lines[max(0, first - self._base) : max(0, last - self._base)]

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
        for above in lines[index - NEIGHBOURS if index > NEIGHBOURS else 0 : index]:
            tied = above.tied
            if tied is not None and tied[0] - 0.5 > lo:
                lo = tied[0] - 0.5
        for below in lines[index + 1 : index + 1 + NEIGHBOURS]:
            if below.lo + GRACE_MS >= hi:  # and so are those below it
                break
            tied = below.tied
            if tied is not None and tied[1] + GRACE_MS < hi:
                hi = max(below.lo, tied[1]) + GRACE_MS
        return _make(Bounds, (line.lo, line.hi, lo, hi))

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
        for pool in self.pools.values():
            pool.forget(self._base)
