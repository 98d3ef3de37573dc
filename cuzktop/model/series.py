"""Bounded histories of readings; a missed reading is a gap, not a zero."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar, overload

from cuzktop.events import GpuSampled

T = TypeVar("T")

KEEP_READINGS = 3000  # ten minutes at five a second
KEEP_READINGS_MS = 600_000.0  # if they come less often
KEEP_BINS = 400  # seconds kept for graphs: a few more than the widest screen shows
SPARE_BINS = 100  # beyond those, before the oldest go, many at a time
LONGEST_PAUSE_MS = 10_000.0  # between two readings that still go along with a span
SPARE = 100  # readings, beyond those that are kept, before the oldest go
SAME_ZERO_MS = 50.0
MOVING = 4  # seconds that a late reading, or a long one, may still change


class Trail(Sequence[T]):
    """The latest of a row that grows at its end: what stays of it is shared, the rest its own.

    To the list `settled` others only append: what lies from `begin` to `end` is this trail's for
    good. `moving` comes after it.
    """

    __slots__ = ("_begin", "_end", "_moving", "_settled")

    def __init__(self, settled: list[T], begin: int, end: int, moving: tuple[T, ...]) -> None:
        """Costs the same however much has settled."""
        self._settled = settled
        self._begin = begin
        self._end = end
        self._moving = moving

    def __len__(self) -> int:
        """How many there are."""
        return self._end - self._begin + len(self._moving)

    @overload
    def __getitem__(self, at: int) -> T: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[T, ...]: ...

    def __getitem__(self, at: int | slice) -> T | tuple[T, ...]:
        """One of them, or a few."""
        size = len(self)
        if isinstance(at, slice):
            lo, hi, step = at.indices(size)
            if step != 1:
                return tuple(self)[at]
            begin, end = self._begin, self._end
            settled = self._settled[begin + lo : min(begin + hi, end)]
            apart = end - begin
            return (*settled, *self._moving[max(0, lo - apart) : max(0, hi - apart)])
        where = at if at >= 0 else at + size
        if not 0 <= where < size:
            raise IndexError(at)
        where += self._begin
        return self._settled[where] if where < self._end else self._moving[where - self._end]

    def __iter__(self) -> Iterator[T]:
        """All of them."""
        return iter(self[:])

    def is_like(self, other: Trail[T]) -> bool:
        """Whether both end alike, of the same row."""
        return (
            self._settled is other._settled
            and (self._begin, self._end) == (other._begin, other._end)
            and self._moving == other._moving
        )


class Shown:
    """Trails of a figure's latest seconds, newest last; what has settled is worked out once."""

    __slots__ = ("_first", "_latest", "_settled", "_value")

    def __init__(self, value: Callable[[int], float | None]) -> None:
        """`value` gives the figure of a second."""
        self._value = value
        self._settled: list[float | None] = []
        self._first = 0  # the second of the first of them
        self._latest: Trail[float | None] | None = None

    def touch(self, second: int) -> None:
        """The figure of `second` is another one now."""
        kept = second - self._first
        if kept < len(self._settled):
            self._settled = self._settled[: max(0, kept)]

    def trail(self, begin: int, since: int, moving: Iterable[float | None]) -> Trail[float | None]:
        """The figures of the seconds from `begin` up to `since`, then `moving`.

        If nothing has changed it is the same as the one before.
        """
        if not 0 <= begin - self._first <= min(len(self._settled), SPARE_BINS):
            later = begin - self._first
            self._settled = self._settled[later:] if later >= 0 else []
            self._first = begin
        settled, first, value = self._settled, self._first, self._value
        settled += [value(at) for at in range(first + len(settled), since)]
        trail = Trail(settled, begin - first, since - first, tuple(moving))
        if self._latest is None or not trail.is_like(self._latest):
            self._latest = trail
        return self._latest


class Bins:
    """Milliseconds of something in each second of a run: spans are added, seconds read."""

    __slots__ = ("_begun", "_ms", "_shown")

    def __init__(self) -> None:
        """Nothing anywhere."""
        self._ms: dict[int, float] = {}
        self._begun = 0
        self._shown = Shown(self._share)

    def add(self, lo: float, hi: float) -> None:
        """Spread the span [lo, hi] (ms) over its seconds; a span that isn't one is nothing."""
        if not hi > lo or hi - lo > 3_600_000:
            return
        ms = self._ms
        second = int(lo // 1000)
        last = int(hi // 1000)
        self._shown.touch(second)
        if second == last:
            ms[second] = ms.get(second, 0.0) + hi - lo
            return
        ms[second] = ms.get(second, 0.0) + (second + 1) * 1000 - lo
        for between in range(second + 1, last):
            ms[between] = ms.get(between, 0.0) + 1000.0
        ms[last] = ms.get(last, 0.0) + hi - last * 1000
        if len(ms) > KEEP_BINS + SPARE_BINS:
            for old in sorted(ms)[:-KEEP_BINS]:
                del ms[old]

    def _share(self, second: int) -> float | None:
        """Per cent of the second, 0–100; None before the first."""
        if second < self._begun:
            return None
        return min(100.0, self._ms.get(second, 0.0) / 10.0)

    def shares(
        self,
        last: int,
        seconds: int,
        *,
        begun: int = 0,
        since: int | None = None,
        spans: Iterable[tuple[float, float]] = (),
    ) -> Trail[float | None]:
        """Per cent of each of so many `seconds`, of which `last` is the last; None before `begun`.

        `spans` (ms) are counted, too, without being added: they are not over. None of them begins
        before the second `since`; what is added later hardly does.
        """
        if begun != self._begun:
            self._begun, self._shown = begun, Shown(self._share)
        begin = last + 1 - seconds
        since = last if since is None else max(begin, min(since, last))
        ms = self._ms
        moving = [ms.get(at, 0.0) for at in range(since, last + 1)]
        for lo, hi in spans:
            _spread(moving, lo - 1000.0 * since, hi - 1000.0 * since)
        shown: list[float | None] = [100.0 if one > 1000.0 else one / 10.0 for one in moving]
        unseen = begun - since
        if unseen > 0:
            shown[:unseen] = [None] * min(unseen, len(shown))
        return self._shown.trail(begin, since, shown)


def _spread(ms: list[float], lo: float, hi: float) -> None:
    """Add a span (ms from the first one's beginning) to milliseconds of seconds."""
    at = max(lo, 0.0)
    while at < hi:
        second = int(at // 1000)
        if second >= len(ms):
            break
        edge = (second + 1) * 1000.0
        if edge > hi:
            edge = hi
        ms[second] += edge - at
        at = edge


class Readings:
    """The latest readings of one GPU, oldest first."""

    __slots__ = ("_keep_ms", "_power", "_readings", "_sums", "_util", "_zero_ms", "latest", "note")

    def __init__(self, keep_ms: float = KEEP_READINGS_MS) -> None:
        """Nothing was read; nobody asks for what is older than `keep_ms`."""
        self._keep_ms = keep_ms
        self._readings: deque[GpuSampled] = deque(maxlen=KEEP_READINGS)
        self._util = _Means()
        self._power = _Means()
        self._sums = _Sums()
        self._zero_ms = 0.0
        self.latest: GpuSampled | None = None
        self.note = ""

    def add(self, reading: GpuSampled) -> None:
        """Keep a reading."""
        self._readings.append(reading)
        while self._readings[0].at_ms < reading.at_ms - self._keep_ms:
            self._readings.popleft()
        self.latest = reading
        self._sums.add(reading, self._keep_ms)
        self._count(reading)

    def _count(self, reading: GpuSampled) -> None:
        end_ms = reading.at_ms - self._zero_ms
        begin_ms = end_ms - max(1.0, reading.util_window_ms or 0.0)
        if reading.util_pct is not None:
            self._util.add(begin_ms, end_ms, reading.util_pct)
        if reading.power_w is not None and reading.power_limit_w:
            self._power.add(begin_ms, end_ms, 100.0 * reading.power_w / reading.power_limit_w)

    def __iter__(self) -> Iterator[GpuSampled]:
        """All that is kept."""
        return iter(self._readings)

    def clear(self) -> None:
        """Forget all: the clock was set back."""
        self._readings.clear()
        self._util, self._power, self._sums = _Means(), _Means(), _Sums()
        self.latest = None

    def history(
        self, end_ms: float, seconds: int, zero_ms: float = 0.0
    ) -> tuple[Trail[float | None], Trail[float | None]]:
        """Utilisation and power (% of the limit) in each of the `seconds` up to `end_ms`.

        Seconds are counted from `zero_ms`: a run's stand over those of its log. As long as the
        newest reading is of the second before, that one is the last: it is no gap that the present
        second has not been read yet.
        """
        if abs(zero_ms - self._zero_ms) > SAME_ZERO_MS:  # a run's zero is told ever more exactly
            self._zero_ms = zero_ms
            self._util, self._power = _Means(), _Means()
            for reading in self._readings:
                self._count(reading)
        last = int((end_ms - zero_ms) // 1000)
        if self.latest is not None and int((self.latest.at_ms - zero_ms) // 1000) == last - 1:
            last -= 1
        return self._util.upto(last, seconds), self._power.upto(last, seconds)

    def means(
        self, start_ms: float, end_ms: float
    ) -> tuple[float | None, float | None, int, str | None, float, float | None]:
        """Time-weighted utilisation and power over [start, end], readings, their source and reach.

        The reach is the time (ms) that readings go along with; longer pauses don't count. Last
        comes the least share of the time in which copies to the card ran.
        """
        return self._sums.means(start_ms, end_ms)


class _Sums:
    """Figures times the milliseconds that they cover, summed up from the first reading on.

    So what a span comes to is the difference of two sums, but for the readings across its ends.
    """

    __slots__ = ("_at", "_covered", "_figures", "_longest_ms", "_reach", "_sources")

    def __init__(self) -> None:
        self._at = array("d")
        self._covered = array("d")  # ms before it
        self._longest_ms = 0.0  # of these
        self._sources: list[str | None] = []  # of its utilisation, if there is one
        self._reach = array("d")  # ms up to it, long pauses left out
        # Before the first reading, after it, and so on: figure x ms, and ms in which it is known.
        nothing = array("d", [0.0])
        self._figures = tuple((nothing[:], nothing[:]) for _ in ("util", "power", "copies"))

    def add(self, reading: GpuSampled, keep_ms: float) -> None:
        """Count a reading; one that covers no time has no weight. What is older may go."""
        covered = reading.util_window_ms
        if not covered:
            return
        at = self._at
        pause = min(reading.at_ms - at[-1], LONGEST_PAUSE_MS) if at else 0.0
        self._reach.append(self._reach[-1] + pause if at else 0.0)
        at.append(reading.at_ms)
        self._covered.append(covered)
        self._longest_ms = max(self._longest_ms, covered)
        self._sources.append(None if reading.util_pct is None else reading.util_source)
        figures = (reading.util_pct, reading.power_w, reading.copies_pct)
        for figure, (areas, known) in zip(figures, self._figures, strict=True):
            area, ms = 0.0, 0.0
            if figure is not None and math.isfinite(figure):
                area, ms = figure * covered, covered
            areas.append(areas[-1] + area)
            known.append(known[-1] + ms)
        if len(at) > KEEP_READINGS + SPARE or at[min(SPARE, len(at) - 1)] < at[-1] - keep_ms:
            del self._sources[:SPARE]
            for column in (at, self._covered, self._reach, *chain(*self._figures)):
                del column[:SPARE]

    def means(
        self, start_ms: float, end_ms: float
    ) -> tuple[float | None, float | None, int, str | None, float, float | None]:
        """See `Readings.means`."""
        at = self._at
        first = max(bisect_right(at, start_ms), len(at) - KEEP_READINGS)
        last = max(first, bisect_right(at, end_ms))
        across = list(self._across(start_ms, end_ms, first, last))
        beyond = [index for index, _ in across if index >= last]
        count = last - first + len(beyond)
        means = []
        for areas, known in self._figures:
            area, ms = areas[last] - areas[first], known[last] - known[first]
            for index, share in across:
                area += share * (areas[index + 1] - areas[index])
                ms += share * (known[index + 1] - known[index])
            means.append(area / ms if ms > 0.0 else None)
        util, power, copies = means
        sources = (self._sources[index] for index in chain(range(first, last), beyond))
        return (
            util,
            power,
            count,
            next((source for source in sources if source is not None), None),
            self._reach_ms(start_ms, end_ms, first, last, beyond) if count else 0.0,
            copies,
        )

    def _across(
        self, start_ms: float, end_ms: float, first: int, last: int
    ) -> Iterator[tuple[int, float]]:
        """Readings across an end of a span, and what of each is missing in the sum.

        That is of those which end in it: from `first` up to `last`.
        """
        at, covered = self._at, self._covered
        for index in range(first, last):
            if at[index] - self._longest_ms >= start_ms:
                break
            outside = start_ms - (at[index] - covered[index])
            if outside > 0.0:
                yield index, -outside / covered[index]
        for index in range(last, len(at)):
            if at[index] - self._longest_ms >= end_ms:
                break
            inside = end_ms - max(start_ms, at[index] - covered[index])
            if inside > 0.0:
                yield index, inside / covered[index]

    def _reach_ms(
        self, start_ms: float, end_ms: float, first: int, last: int, beyond: Sequence[int]
    ) -> float:
        """How long the readings from `first` to `last`, and those `beyond`, go along with a span.

        Those end after it.
        """
        at, reach = self._at, self._reach
        newest = beyond[-1] if beyond else last - 1
        since = max(start_ms, at[newest] - self._covered[newest])
        reach_ms = min(end_ms, at[newest]) - since
        if last > first:
            reach_ms += reach[last - 1] - reach[first]
            if beyond:
                reach_ms += min(end_ms - at[last - 1], LONGEST_PAUSE_MS)
        return reach_ms


class _Means:
    """The mean of a figure in each second that was measured."""

    __slots__ = ("_edges", "_shown", "_sums")

    def __init__(self) -> None:
        self._sums: dict[int, tuple[float, int]] = {}
        self._edges: dict[
            int, float
        ] = {}  # of seconds that a later reading covers by more than half
        self._shown = Shown(self._mean)

    def add(self, begin_ms: float, end_ms: float, figure: float) -> None:
        """Count a figure that was measured over a span."""
        if not math.isfinite(figure):
            return
        edge, last = int(begin_ms // 1000), int(end_ms // 1000)
        if last - edge > KEEP_BINS:
            return
        self._shown.touch(edge)
        if edge < last and begin_ms < 1000 * edge + 500:
            self._edges[edge] = figure
        for second in range(min(edge + 1, last), last + 1):
            total, count = self._sums.get(second, (0.0, 0))
            self._sums[second] = total + figure, count + 1
        for kept in (self._sums, self._edges):
            if len(kept) > KEEP_BINS + SPARE_BINS:
                for old in sorted(kept)[:-KEEP_BINS]:
                    del kept[old]

    def _mean(self, second: int) -> float | None:
        total, count = self._sums.get(second, (0.0, 0))
        return total / count if count else self._edges.get(second)

    def upto(self, last: int, seconds: int) -> Trail[float | None]:
        """The means of so many `seconds`, of which `last` is the last."""
        begin = last + 1 - seconds
        since = max(begin, last + 1 - MOVING)
        return self._shown.trail(begin, since, [self._mean(at) for at in range(since, last + 1)])


def median_of(figures: Iterable[int]) -> float | None:
    """The median (nearest rank); None of nothing."""
    ordered = sorted(figures)
    return ordered[(len(ordered) - 1) // 2] if ordered else None
