"""A partition of the model as the row that every view shows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache

from cuzktop.dataclass import replace
from cuzktop.frame import PartitionRow
from cuzktop.model.kinds import C2, C3, C4, C6, C7, C8, C9, C10
from cuzktop.model.state import Line, Partition

_ORDER = {"none": 0, "inferred": 1, "exact": 2}
_ROUNDING_MS = 1  # gpu_total exceeds the sum of its truncated parts by 1 or 2 ms
_UNORDERED_MS = 100  # a line's time is taken before the line is written, by another thread perhaps


def unplaced_row(row: PartitionRow, workers: Collection[int]) -> PartitionRow:
    """A row made before it was known that these workers may use any of several GPUs."""
    return replace(row, gpu=None) if row.worker in workers else row


@cache  # of three words each
def _owners(lock: str, kernel: str, cpu: str) -> tuple[Mapping[str, str], str]:
    """How sure the owners are, by what the lines tell, and the weakest of them."""
    by = {"lock": lock, "kernel": kernel, "cpu": cpu}
    return by, min(by.values(), key=_ORDER.__getitem__)


def _took(start: int | None, finish: int | None) -> int | None:
    """Milliseconds between two lines; None where one is missing, or the clock was put back.

    Lines of two threads may be out of order by a little.
    """
    if start is None or finish is None or finish < start - _UNORDERED_MS:
        return None
    return max(0, finish - start)


def partition_row(
    partition: Partition,
    *,
    lock_lines: bool,
    likely: Mapping[int, Line] | None = None,
    lock_at: float | None = None,
    unplaced: Collection[int] = (),
) -> PartitionRow:
    """All that the log says about a partition, and how sure it is whose lines these are.

    `likely` are the lines of a call that isn't settled yet, `lock_at` is when it took the lock, by
    these lines. `unplaced` are workers of which isn't known which GPU they use.

    `lock_lines` says whether this generation prints the lock's times (S41 and newer); before it
    the barrier and the lock's times are derived from the kernels' lines.
    """
    call = partition.call
    lines: Mapping[int, Line] = {} if call is None else call.lines
    if likely is not None:
        lines = likely
    find = lines.get
    ntt, barrier, batch, end = find(C6), find(C7), find(C8), find(C9)
    take, release, prep, b_g2 = find(C4), find(C10), find(C2), find(C3)
    kernel_ms = None
    if ntt is not None and batch is not None and end is not None:
        kernel_ms = ntt.a + batch.a + end.a
    barrier_ms = None if barrier is None else barrier.a
    held_ms = None if release is None else release.a
    derived: tuple[str, ...] = ()
    lock_sure = kernel_sure = cpu_sure = "none"
    if call is not None:
        lock_sure, kernel_sure, cpu_sure = call.lock_sure, call.kernel_sure, call.cpu_sure
        if likely is not None:
            lock_sure = "none" if take is None and release is None else "inferred"
            kernel_sure = "none" if end is None and ntt is None else "inferred"
        if not lock_lines and end is not None:
            held_ms = end.b
            derived = ("lock_held_ms",)
            if kernel_ms is not None:
                barrier_ms = max(0, end.b - kernel_ms - _ROUNDING_MS)
                derived = ("barrier_wait_ms", "lock_held_ms")
            lock_sure = kernel_sure
    by, weakest = _owners(lock_sure, kernel_sure, cpu_sure)
    start, finish = partition.bracket_start, partition.bracket_end
    made, picked = partition.synth_end, partition.pickup
    return PartitionRow(
        job=partition.job.id,
        attempt=partition.attempt,
        partition=partition.index,
        kind=partition.kind,
        state=partition.state,
        worker=partition.worker,
        gpu=None if partition.worker in unplaced else partition.gpu,
        attribution=weakest,
        attribution_by=by,
        derived=derived,
        synth_start_ms=partition.synth_start,
        bracket_start_ms=start,
        bracket_end_ms=finish,
        synth_ms=partition.synth_ms,
        queue_ms=_took(made, picked),
        pre_lock_cpu_ms=None if take is None else take.a,
        lock_wait_ms=None if take is None else take.b,
        lock_held_ms=held_ms,
        ntt_msm_h_ms=None if ntt is None else ntt.a,
        barrier_wait_ms=barrier_ms,
        batch_add_ms=None if batch is None else batch.a,
        tail_msm_ms=None if end is None else end.a,
        gpu_total_ms=None if end is None else end.b,
        kernel_ms=kernel_ms,
        prep_msm_ms=None if prep is None else prep.a,
        b_g2_msm_ms=None if b_g2 is None else b_g2.a,
        bracket_ms=_took(start, finish),
        gpu_ms=partition.gpu_ms,
        lock_at_ms=lock_at if likely is not None or call is None else call.lock_at,
        pickup_ms=partition.pickup,
        message=partition.job.message if partition.state == "failed" else "",
    )
