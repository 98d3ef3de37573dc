"""Bounded histories of readings; a missed reading is a gap, not a zero."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from cuzktop.events import GpuSampled

KEEP_READINGS = 3000  # ten minutes at five a second
KEEP_READINGS_MS = 600_000.0  # if they come less often
KEEP_BINS = 400  # seconds kept for graphs: a few more than the widest screen shows
SPARE_BINS = 100  # beyond those, before the oldest go, many at a time
LONGEST_PAUSE_MS = 10_000.0  # between two readings that still go along with a span
SAME_ZERO_MS = 50.0


class Shown:
    """The latest seconds of a figure as a tuple, newest last, made anew only where it changed."""

    __slots__ = ("_begin", "_changed", "_figures", "_value")

    def __init__(self, value: Callable[[int], float | None]) -> None:
        """`value` gives the figure of a second."""
        self._value = value
        self._begin = 0  # the second of the first figure
        self._figures: tuple[float | None, ...] = ()
        self._changed = 0  # from this second on they are not what they were

    def touch(self, second: int) -> None:
        """The figure of `second` is another one now."""
        self._changed = min(self._changed, second)

    def upto(self, last: int, seconds: int) -> tuple[float | None, ...]:
        """The figures of so many `seconds`, of which `last` is the last; the same if unchanged."""
        begin = last + 1 - seconds
        kept = min(self._changed, last + 1)  # before it figures are as they were
        old: tuple[float | None, ...] = ()
        if self._begin <= begin <= kept:
            old = self._figures[begin - self._begin : kept - self._begin]
        if len(old) < seconds or len(self._figures) != seconds:
            value = self._value
            old = (*old, *[value(at) for at in range(begin + len(old), last + 1)])
            self._begin, self._figures = begin, old
        self._changed = last + 1
        return self._figures


class Bins:
    """Milliseconds of something in each second of a run: spans are added, seconds read."""

    __slots__ = ("_ms", "_shown")

    def __init__(self) -> None:
        """Nothing anywhere."""
        self._ms: dict[int, float] = {}
        self._shown: Shown | None = None  # only what is looked at has one

    def add(self, lo: float, hi: float) -> None:
        """Spread the span [lo, hi] (ms) over its seconds; a span that isn't one is nothing."""
        if not hi > lo or hi - lo > 3_600_000:
            return
        ms = self._ms
        second = int(lo // 1000)
        last = int(hi // 1000)
        if self._shown is not None:
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

    def share(self, second: int) -> float:
        """Per cent of the second, 0–100."""
        return min(100.0, self._ms.get(second, 0.0) / 10.0)

    def shares(self, last: int, seconds: int) -> tuple[float | None, ...]:
        """Per cent of each of so many `seconds`, of which `last` is the last."""
        if self._shown is None:
            self._shown = Shown(self.share)
        return self._shown.upto(last, seconds)


class Readings:
    """The latest readings of one GPU, oldest first."""

    __slots__ = ("_keep_ms", "_power", "_readings", "_util", "_zero_ms", "latest", "note")

    def __init__(self, keep_ms: float = KEEP_READINGS_MS) -> None:
        """Nothing was read; nobody asks for what is older than `keep_ms`."""
        self._keep_ms = keep_ms
        self._readings: deque[GpuSampled] = deque(maxlen=KEEP_READINGS)
        self._util = _Means()
        self._power = _Means()
        self._zero_ms = 0.0
        self.latest: GpuSampled | None = None
        self.note = ""

    def add(self, reading: GpuSampled) -> None:
        """Keep a reading."""
        self._readings.append(reading)
        while self._readings[0].at_ms < reading.at_ms - self._keep_ms:
            self._readings.popleft()
        self.latest = reading
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
        self._util, self._power = _Means(), _Means()
        self.latest = None

    def history(
        self, end_ms: float, seconds: int, zero_ms: float = 0.0
    ) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
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
        util = power = util_ms = power_ms = reach_ms = copies = copies_ms = 0.0
        count = 0
        source: str | None = None
        later_ms: float | None = None
        for reading in reversed(self._readings):
            if reading.at_ms <= start_ms:
                break
            covered = reading.util_window_ms or 0.0
            lo, hi = max(start_ms, reading.at_ms - covered), min(end_ms, reading.at_ms)
            if hi <= lo:
                continue
            count += 1
            reach_ms += hi - lo if later_ms is None else min(later_ms - hi, LONGEST_PAUSE_MS)
            later_ms = hi
            if reading.util_pct is not None:
                util += reading.util_pct * (hi - lo)
                util_ms += hi - lo
                source = reading.util_source
            if reading.power_w is not None:
                power += reading.power_w * (hi - lo)
                power_ms += hi - lo
            if (share := reading.copies_pct) is not None:
                copies += share * (hi - lo)
                copies_ms += hi - lo
        return (
            util / util_ms if util_ms else None,
            power / power_ms if power_ms else None,
            count,
            source,
            reach_ms,
            copies / copies_ms if copies_ms else None,
        )


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

    def upto(self, last: int, seconds: int) -> tuple[float | None, ...]:
        """The means of so many `seconds`, of which `last` is the last."""
        return self._shown.upto(last, seconds)


def median_of(figures: Iterable[int]) -> float | None:
    """The median (nearest rank); None of nothing."""
    ordered = sorted(figures)
    return ordered[(len(ordered) - 1) // 2] if ordered else None
