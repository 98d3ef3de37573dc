"""Bounded histories of readings; a missed reading is a gap, not a zero."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from cuzktop.events import GpuSampled

KEEP_READINGS = 3000  # ten minutes at five a second
KEEP_BINS = 1200  # seconds of kernel and lock time kept for graphs
LONGEST_PAUSE_MS = 10_000.0  # between two readings that still go along with a span


class Bins:
    """Milliseconds of something in each second of a run: spans are added, seconds read."""

    __slots__ = ("_ms",)

    def __init__(self) -> None:
        """Nothing anywhere."""
        self._ms: dict[int, float] = {}

    def add(self, lo: float, hi: float) -> None:
        """Spread the span [lo, hi] (ms) over its seconds; a span that isn't one is nothing."""
        if not hi > lo or hi - lo > 3_600_000:
            return
        ms = self._ms
        second = int(lo // 1000)
        last = int(hi // 1000)
        if second == last:
            ms[second] = ms.get(second, 0.0) + hi - lo
            return
        ms[second] = ms.get(second, 0.0) + (second + 1) * 1000 - lo
        for between in range(second + 1, last):
            ms[between] = ms.get(between, 0.0) + 1000.0
        ms[last] = ms.get(last, 0.0) + hi - last * 1000
        if len(ms) > 2 * KEEP_BINS:
            for old in sorted(ms)[:-KEEP_BINS]:
                del ms[old]

    def share(self, second: int) -> float:
        """Per cent of the second, 0–100."""
        return min(100.0, self._ms.get(second, 0.0) / 10.0)


class Readings:
    """The latest readings of one GPU, oldest first."""

    __slots__ = ("_readings", "latest", "note")

    def __init__(self) -> None:
        """Nothing was read."""
        self._readings: deque[GpuSampled] = deque(maxlen=KEEP_READINGS)
        self.latest: GpuSampled | None = None
        self.note = ""

    def add(self, reading: GpuSampled) -> None:
        """Keep a reading."""
        self._readings.append(reading)
        self.latest = reading

    def clear(self) -> None:
        """Forget all: the clock was set back."""
        self._readings.clear()
        self.latest = None

    def history(
        self, end_ms: float, seconds: int
    ) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
        """Utilisation and power (% of the limit) in each of the `seconds` before `end_ms`."""
        util = _Means(seconds)
        power = _Means(seconds)
        start_ms = end_ms - seconds * 1000.0
        for reading in reversed(self._readings):
            if reading.at_ms < start_ms:
                break
            if reading.at_ms > end_ms + 1000:
                continue
            last = min(seconds - 1, int((reading.at_ms - start_ms) // 1000))
            covered = max(1.0, reading.util_window_ms or 0.0)
            first = max(0, int((reading.at_ms - covered - start_ms) // 1000) + 1)
            for index in range(min(first, last), last + 1):
                if reading.util_pct is not None:
                    util.add(index, reading.util_pct)
                if reading.power_w is not None and reading.power_limit_w:
                    power.add(index, 100.0 * reading.power_w / reading.power_limit_w)
        return util.means(), power.means()

    def means(
        self, start_ms: float, end_ms: float
    ) -> tuple[float | None, float | None, int, str | None, float]:
        """Time-weighted utilisation and power over [start, end], readings, their source and reach.

        The reach is the time (ms) that readings go along with; longer pauses don't count.
        """
        util = power = util_ms = power_ms = reach_ms = 0.0
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
        return (
            util / util_ms if util_ms else None,
            power / power_ms if power_ms else None,
            count,
            source,
            reach_ms,
        )


class _Means:
    """Running means, one a second."""

    __slots__ = ("_counts", "_sums")

    def __init__(self, seconds: int) -> None:
        self._sums = [0.0] * seconds
        self._counts = [0] * seconds

    def add(self, index: int, figure: float) -> None:
        if 0 <= index < len(self._sums) and math.isfinite(figure):
            self._sums[index] += figure
            self._counts[index] += 1

    def means(self) -> tuple[float | None, ...]:
        return tuple(
            total / count if count else None
            for total, count in zip(self._sums, self._counts, strict=True)
        )


def median_of(figures: Iterable[int]) -> float | None:
    """The median (nearest rank); None of nothing."""
    ordered = sorted(figures)
    return ordered[(len(ordered) - 1) // 2] if ordered else None
