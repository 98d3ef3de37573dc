"""Percentiles of stages, and proofs over time."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from cuzktop.analysis.inflation import CpuTable
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
COLD_STAGES = frozenset(STAGES) - {"synth_ms", "queue_ms"}
"""What a GPU's first call distorts: module load, first allocations, the SRS still being read."""


class StageTable:
    """Every finished partition's stages, a column each; a GPU's first, cold call is left out."""

    __slots__ = ("_seen", "columns", "cpu")

    def __init__(self) -> None:
        """No partition has finished."""
        self.columns: dict[str, array[int]] = {stage: array("q") for stage in STAGES}
        self._seen: set[int | None] = set()
        self.cpu = CpuTable()

    def add(self, row: PartitionRow) -> None:
        """Count a finished partition."""
        cold = row.gpu not in self._seen
        self._seen.add(row.gpu)
        for stage, column in self.columns.items():
            figure = getattr(row, stage)
            if figure is not None and not (cold and stage in COLD_STAGES):
                column.append(figure)
        self.cpu.add(row, cold=cold)

    def stats(self) -> Mapping[str, StageStats]:
        """Count, p50, p95 and max of each stage that has a figure."""
        return {stage: stats(column) for stage, column in self.columns.items() if column}

    def means(self) -> Mapping[str, float]:
        """The mean of each stage that has a figure."""
        return {
            stage: sum(column) / len(column) for stage, column in self.columns.items() if column
        }


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
    index = max(0, -(-len(ordered) * rank // 100) - 1)
    return ordered[min(len(ordered) - 1, int(index))]


def median(figures: Sequence[float]) -> float | None:
    """The median, or None of nothing."""
    ordered = sorted(figures)
    return percentile(ordered, 50) if ordered else None
