"""Each column once: its JSON name, its title, its value and its text.

The JSON rows, the text tables and the screen's tables are all made from these, so a figure has one
name and one rounding wherever it is shown. Columns stand in the order of the report's
`partitions[]`.
A figure that the log doesn't print as such (derived from other lines, or on a line whose owner is
inferred) carries `NOT_PRINTED` in front of its text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Final, Generic, TypeVar

from cuzktop import units
from cuzktop.dataclass import dataclass
from cuzktop.frame import PartitionRow, Shares

Row = TypeVar("Row")

NOT_PRINTED: Final = "~"
WHOLE: Final = "whole"  # the partition of a proof in one piece: a None that is known

ATTRIBUTED: Final[Mapping[str, str]] = {
    "pre_lock_cpu_ms": "lock",
    "lock_wait_ms": "lock",
    "lock_held_ms": "lock",
    "barrier_wait_ms": "lock",
    "ntt_msm_h_ms": "kernel",
    "batch_add_ms": "kernel",
    "tail_msm_ms": "kernel",
    "gpu_total_ms": "kernel",
    "kernel_ms": "kernel",
    "prep_msm_ms": "cpu",
    "b_g2_msm_ms": "cpu",
}
"""Figures from anonymous lines, and the entry of `attribution_by` that says whose they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Generic[Row]):
    """One figure of a `Row`.

    `title` may hold a blank: a table short of room breaks it there. `unit` is "ms", "%" or empty.
    `rank` orders the columns by need: the highest rank is the first to go when room is short.
    `about` says in a few words what the figure is.
    """

    key: str
    title: str
    value: Callable[[Row], object]
    text: Callable[[Row], str]
    unit: str = ""
    right: bool = True
    rank: int = 9
    about: str = ""


# ---------------------------------------------------------------- partitions


def _name(
    key: str,
    title: str,
    text: Callable[[PartitionRow], str],
    *,
    rank: int,
    right: bool = True,
    about: str = "",
) -> Column[PartitionRow]:
    """A column that names something: a job, a state, a worker."""
    value = attrgetter(key)
    return Column(key=key, title=title, value=value, text=text, right=right, rank=rank, about=about)


def _figure(key: str, title: str, *, rank: int, about: str) -> Column[PartitionRow]:
    """A column of whole milliseconds; durations are shown by `units.duration`."""
    value: Callable[[PartitionRow], int | None] = attrgetter(key)
    group = ATTRIBUTED.get(key)

    def text(row: PartitionRow) -> str:
        figure = value(row)
        if figure is None:
            return units.UNKNOWN
        inferred = group is not None and row.attribution_by.get(group) == "inferred"
        return (NOT_PRINTED if inferred or key in row.derived else "") + units.duration(figure)

    return Column(key=key, title=title, value=value, text=text, unit="ms", rank=rank, about=about)


def _attribution_by(row: PartitionRow) -> dict[str, str]:
    """`attribution_by` with all of its three entries, in the contract's order."""
    by = row.attribution_by
    return {name: by.get(name, "none") for name in ("lock", "kernel", "cpu")}


PARTITION_COLUMNS: Final[tuple[Column[PartitionRow], ...]] = (
    _name("job", "Job", lambda row: row.job, right=False, rank=0),
    _name("attempt", "Try", lambda row: str(row.attempt), rank=14, about="attempt of this job id"),
    _name("partition", "Part", lambda row: partition_text(row.partition), rank=0),
    _name("kind", "Kind", lambda row: row.kind or units.UNKNOWN, right=False, rank=15),
    _name("state", "State", lambda row: row.state, right=False, rank=13),
    _name("worker", "Wkr", lambda row: units.count(row.worker), rank=7, about="GPU worker"),
    _name("gpu", "GPU", lambda row: units.count(row.gpu), rank=8, about="card that it ran on"),
    _name(
        "attribution",
        "Owner",
        lambda row: row.attribution,
        right=False,
        rank=12,
        about="how sure it is that these lines are this partition's",
    ),
    Column(
        key="attribution_by",
        title="Owner by",
        value=_attribution_by,
        text=lambda row: " ".join(f"{k}:{v}" for k, v in _attribution_by(row).items()),
        right=False,
        rank=16,
    ),
    Column(
        key="derived",
        title="Derived",
        value=lambda row: list(row.derived),
        text=lambda row: ",".join(row.derived),
        right=False,
        rank=17,
    ),
    _figure("synth_start_ms", "Synth start", rank=18, about="from the run's TIMELINE zero"),
    _figure("bracket_start_ms", "Bracket start", rank=18, about="from the run's TIMELINE zero"),
    _figure("bracket_end_ms", "Bracket end", rank=18, about="from the run's TIMELINE zero"),
    _figure("synth_ms", "Synth", rank=3, about="synthesis on the CPU"),
    _figure("queue_ms", "Queue", rank=6, about="synthesized, waiting for a worker"),
    _figure("pre_lock_cpu_ms", "CPU pre-lock", rank=10, about="CPU work before the lock"),
    _figure("lock_wait_ms", "Lock wait", rank=4, about="waiting for the GPU lock"),
    _figure("lock_held_ms", "Lock held", rank=2, about="under the GPU lock"),
    _figure("ntt_msm_h_ms", "NTT+H MSM", rank=5, about="kernels: NTT and H MSM"),
    _figure("barrier_wait_ms", "Barrier", rank=3, about="lock held, kernels wait for prep_msm"),
    _figure("batch_add_ms", "Batch add", rank=6, about="kernels: batch additions"),
    _figure("tail_msm_ms", "Tail MSM", rank=6, about="kernels: tail MSM"),
    _figure("gpu_total_ms", "GPU section", rank=11, about="kernels and barrier"),
    _figure("kernel_ms", "Kernel", rank=1, about="NTT+H MSM, batch add and tail MSM"),
    _figure("prep_msm_ms", "Prep MSM", rank=9, about="CPU work that the barrier waits for"),
    _figure("b_g2_msm_ms", "b_g2 MSM", rank=9, about="CPU work after prep_msm"),
    _figure("bracket_ms", "Bracket", rank=1, about="GPU_START to GPU_END, CPU work included"),
    _figure("gpu_ms", "GPU ms", rank=16, about="what GPU_END printed"),
)

PARTITION: Final[Mapping[str, Column[PartitionRow]]] = {
    column.key: column for column in PARTITION_COLUMNS
}

STAGE_KEYS: Final[tuple[str, ...]] = tuple(
    column.key
    for column in PARTITION_COLUMNS
    if column.unit == "ms" and not column.key.endswith(("_start_ms", "_end_ms"))
)
"""Durations of a partition, in the contract's order: the rows of a table of percentiles."""
SHOWN_STAGES: Final = tuple(key for key in STAGE_KEYS if key not in {"gpu_total_ms", "gpu_ms"})
"""The columns of a table of partitions: those two tell what kernel and bracket tell already."""


def partition_text(partition: int | None) -> str:
    """A partition's number, or `WHOLE` for a proof in one piece."""
    return WHOLE if partition is None else str(partition)


def partition_json(row: PartitionRow) -> dict[str, object]:
    """The contract's `partitions[]` entry: its names, in its order."""
    return {column.key: column.value(row) for column in PARTITION_COLUMNS}


# ---------------------------------------------------------------- a GPU's shares


def _share(key: str, title: str, *, about: str, of_lock: bool = False) -> Column[Shares]:
    """A share of a GPU's time. `of_lock`: before S41 it is derived, not printed."""
    value: Callable[[Shares], float | None] = attrgetter(key)

    def text(shares: Shares) -> str:
        share_pct = value(shares)
        derived = of_lock and shares.lock_derived and share_pct is not None
        return (NOT_PRINTED if derived else "") + units.percent(share_pct)

    return Column(key=key, title=title, value=value, text=text, unit="%", about=about)


LADDER: Final[tuple[Column[Shares], ...]] = (
    _share("bracket_union_pct", "bracket", about="a GPU_START to GPU_END open"),
    _share("lock_held_pct", "lock held", about="the GPU lock held", of_lock=True),
    _share("gpu_section_pct", "GPU section", about="kernels and barrier"),
    _share("kernel_pct", "kernel", about="NTT or MSM kernels, by the log"),
)
"""The steps of "is the GPU computing?", widest first: each holds the next."""

CLASS_TITLES: Final[Mapping[str, str]] = {
    "kernel": "kernel",
    "barrier": "barrier",
    "lock_overhead": "lock overhead",
    "handoff": "handoff",
    "starved": "starved",
    "no_work": "no work",
}
"""`time_pct`'s classes as people read them, in the contract's order."""

CLASS_MEANINGS: Final[Mapping[str, str]] = {
    "kernel": "NTT or MSM kernels run",
    "barrier": "lock held, kernels wait for the CPU",
    "lock_overhead": "lock held, neither of the two",
    "handoff": "lock free, CPU work inside a bracket",
    "starved": "no bracket, work on its way",
    "no_work": "nothing to do",
}

# ---------------------------------------------------------------- words and glyphs

STATE_CELLS: Final[Mapping[str, tuple[str, str]]] = {
    "done": ("■", "#"),
    "gpu": ("▶", "G"),
    "queued": ("◆", "q"),
    "synthesizing": ("◌", "s"),
    "pending": ("·", "."),
    "failed": ("✗", "X"),
    "skipped": ("–", "-"),
    "lost": ("?", "?"),
}
"""A partition's state as one cell, and the same in ASCII, furthest first."""

LOCK_STAGES: Final[Mapping[str, str]] = {
    "ntt_msm_h": "NTT and H MSM",
    "barrier": "barrier: waits for the CPU",
    "batch_add": "batch additions",
    "tail_msm": "tail MSM",
    "releasing": "releasing",
}
"""What a holder of the lock is doing, by `Holding.stage`."""
