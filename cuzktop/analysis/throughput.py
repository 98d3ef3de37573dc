"""Percentiles of stages, and proofs over time."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from operator import attrgetter

from cuzktop.analysis.inflation import CPU_STAGES, CpuTable
from cuzktop.frame import PartitionRow, StageStats

STAGES = (
    "synth_ms",
    "queue_ms",
    "pre_lock_cpu_ms",
    "lock_wait_ms",
    "lock_held_ms",
    "ntt_msm_h_ms",
    "barrier_wait_ms",
    "batch_add_ms",
    "tail_msm_ms",
    "gpu_total_ms",
    "kernel_ms",
    "prep_msm_ms",
    "b_g2_msm_ms",
    "bracket_ms",
    "gpu_ms",
)
EARLY = 2  # of these stages come before the GPU
COLD_STAGES = frozenset(STAGES[EARLY:])
"""What a GPU's first call distorts: module load, first allocations, the SRS still being read."""


COUNTED_AT_A_TIME = 256
_figures_of = attrgetter(*STAGES)
_early_of, _late_of = attrgetter(*STAGES[:EARLY]), attrgetter(*STAGES[EARLY:])
_TIMES = {
    stage: attrgetter(
        "kind", "bracket_start_ms" if stage in COLD_STAGES else "synth_start_ms", stage
    )
    for stage in CPU_STAGES
}
Counts = Mapping[int, int]
"""How often each figure occurred."""


class StageTable:
    """Every finished partition's stages; a GPU's first, cold call is left out.

    Figures are counted, not kept: whole milliseconds repeat, so that a log of weeks needs no more
    room than one of hours.
    """

    __slots__ = ("_counts", "_seen", "_uncounted", "cpu")

    def __init__(self) -> None:
        """No partition has finished."""
        self._counts: dict[str, Counter[int]] = {stage: Counter() for stage in STAGES}
        self._uncounted: list[tuple[int | None, ...]] = []  # many are counted for little more
        self._seen: set[int | None] = set()
        self.cpu = CpuTable()

    def add(self, row: PartitionRow) -> None:
        """Count a finished partition."""
        figures = _figures_of(row)
        cold = row.gpu not in self._seen
        if cold:
            self._seen.add(row.gpu)
            figures = tuple(
                None if stage in COLD_STAGES else figure
                for stage, figure in zip(STAGES, figures, strict=True)
            )
        self._uncounted.append(figures)
        if len(self._uncounted) >= COUNTED_AT_A_TIME:
            self._count()
        self.cpu.add(row, cold=cold)

    def _count(self) -> None:
        if self._uncounted:
            columns = zip(*self._uncounted, strict=True)
            for counts, column in zip(self._counts.values(), columns, strict=True):
                counts.update([figure for figure in column if figure is not None])
            self._uncounted.clear()

    def stats(self) -> Mapping[str, StageStats]:
        """Count, p50, p95 and max of each stage that has a figure."""
        self._count()
        return {stage: _stats(counts) for stage, counts in self._counts.items() if counts}

    def means(self) -> Mapping[str, float]:
        """The mean of each stage that has a figure."""
        self._count()
        return {
            stage: sum(figure * count for figure, count in counts.items()) / counts.total()
            for stage, counts in self._counts.items()
            if counts
        }


class FewStages:
    """What `StageTable` tells, of a few partitions at hand: they are sorted, not counted."""

    __slots__ = ("_kind", "_rows", "_warm")

    def __init__(self, rows: Iterable[PartitionRow]) -> None:
        """`rows` in the order in which they finished; those that are done count."""
        self._rows = [row for row in rows if row.state == "done"]
        self._warm: list[PartitionRow] = []  # without each GPU's first
        seen: set[int | None] = set()
        for row in self._rows:
            if row.gpu in seen:
                self._warm.append(row)
            else:
                seen.add(row.gpu)
        kinds = Counter([row.kind for row in self._rows])
        self._kind = max(kinds, key=kinds.__getitem__, default=None)  # the commonest

    def figures(self) -> tuple[Mapping[str, StageStats], Mapping[str, float]]:
        """Statistics and mean of each stage that has a figure."""
        told: dict[str, StageStats] = {}
        means: dict[str, float] = {}
        always = zip(*map(_early_of, self._rows), strict=True)
        columns = (*always, *zip(*map(_late_of, self._warm), strict=True))
        for stage, column in zip(STAGES, columns, strict=False):
            known = [figure for figure in column if figure is not None]
            if known:
                told[stage] = stats(known)
                means[stage] = sum(known) / len(known)
        return told, means

    def times(self, stage: str) -> list[tuple[float, float]]:
        """See `CpuTimes`."""
        times = map(_TIMES[stage], self._warm if stage in COLD_STAGES else self._rows)
        kind = self._kind
        return [
            (begun, took)
            for of, begun, took in times
            if of == kind and begun is not None and took is not None
        ]


def _stats(counts: Counts) -> StageStats:
    """What `stats` says of as many figures."""
    ordered = sorted(counts)
    upto = list(accumulate(counts[figure] for figure in ordered))
    total = upto[-1]
    return StageStats(
        count=total,
        p50=ordered[bisect_right(upto, _index(total, 50))],
        p95=ordered[bisect_right(upto, _index(total, 95))],
        max=ordered[-1],
    )


def stats(figures: Sequence[float]) -> StageStats:
    """Nearest-rank percentiles of at least one figure."""
    ordered = sorted(figures)
    return StageStats(
        count=len(ordered),
        p50=percentile(ordered, 50),
        p95=percentile(ordered, 95),
        max=ordered[-1],
    )


def percentile(ordered: Sequence[float], rank: float) -> float:
    """The nearest-rank percentile of ordered figures: a value that really occurred."""
    return ordered[_index(len(ordered), rank)]


def _index(count: int, rank: float) -> int:
    """Where among so many ordered figures the nearest-rank percentile stands."""
    return min(count - 1, int(max(0, -(-count * rank // 100) - 1)))


def median(figures: Sequence[float]) -> float | None:
    """The median, or None of nothing."""
    ordered = sorted(figures)
    return percentile(ordered, 50) if ordered else None
