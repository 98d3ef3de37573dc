"""Rows of partitions, in whatever view: their key, which are slow or failed, the next of a kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cuzktop.columns import SHOWN_STAGES
from cuzktop.frame import PartitionRow, StageStats
from cuzktop.tui.widgets.cells import clean

PartitionKey = tuple[str, int, int | None]
"""What a partition is known by while tables move: job, attempt, partition."""

SLOW = 1.5  # times the stage's median
SLOW_LEAST_MS = 50.0  # over it, too: a stage of 5 ms that takes 9 is nobody's trouble
WAITS = frozenset({"queue_ms", "lock_wait_ms"})
"""What a partition only waits for others in: it isn't slow for that."""


def key_of(row: PartitionRow) -> PartitionKey:
    """The key of a row."""
    return (row.job, row.attempt, row.partition)


def row_of(rows: Iterable[PartitionRow], key: PartitionKey | None) -> PartitionRow | None:
    """The row with a key, if it is among `rows`."""
    return None if key is None else next((row for row in rows if key_of(row) == key), None)


def told_at(row: PartitionRow) -> float | None:
    """The instant whose log lines tell most of a partition: its failure, or its call's start."""
    if has_failed(row):
        if row.bracket_end_ms is not None:
            return float(row.bracket_end_ms)
        if row.lock_at_ms is not None:
            return row.lock_at_ms + (row.lock_held_ms or 0)
    for at in (row.bracket_start_ms, row.pickup_ms, row.synth_start_ms):
        if at is not None:
            return float(at)
    return None


def slow_stages(row: PartitionRow, stages: Mapping[str, StageStats]) -> frozenset[str]:
    """The stages of its own that took `row` over `SLOW` times their median."""
    return frozenset(
        field
        for field in SHOWN_STAGES
        if field not in WAITS
        and (usual := stages.get(field)) is not None
        and (value := getattr(row, field)) is not None
        and value > SLOW * usual.p50
        and value - usual.p50 >= SLOW_LEAST_MS
    )


def is_slow(row: PartitionRow, stages: Mapping[str, StageStats]) -> bool:
    """Whether a stage that is the partition's own took long."""
    return bool(slow_stages(row, stages))


def has_failed(row: PartitionRow) -> bool:
    """Whether the partition's own call or synthesis failed, or it was lost with the daemon."""
    return row.state in {"failed", "lost"}


def next_where(fits: Sequence[bool], at: int | None, by: int) -> int | None:
    """The next index in the direction of `by` that fits, round the end; None if none does."""
    size = len(fits)
    start = (-1 if by > 0 else 0) if at is None else at
    for step in range(1, size + 1):
        index = (start + by * step) % size
        if fits[index]:
            return index
    return None


def row_text(row: PartitionRow) -> str:
    """A partition on one line, for a report or a message: every figure that is known."""
    words = [
        f"job={clean(row.job)}",
        f"attempt={row.attempt}",
        f"partition={'whole' if row.partition is None else row.partition}",
        f"state={row.state}",
    ]
    words += [
        f"{name}={value}"
        for name in ("kind", "worker", "gpu", *SHOWN_STAGES)
        if (value := getattr(row, name)) is not None
    ]
    words.append(f"attribution={row.attribution}")
    if row.message:
        words.append(f"message={clean(row.message)}")
    return " ".join(words)
