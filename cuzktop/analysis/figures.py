"""One log's figures, as a comparison of logs needs them.

Of each log the longest run with finished partitions counts. Warm-up is cut the same way from all of
them: the first proof with all its partitions, and every GPU's first, cold call. What is kept is
bounded: of a long run it is a sample of the proofs.
"""

from __future__ import annotations

import heapq
import itertools
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from cuzktop.analysis.occupancy import weighted
from cuzktop.analysis.throughput import COLD_STAGES, STAGES
from cuzktop.dataclass import dataclass, field
from cuzktop.frame import PartitionRow, Proofs, RunReport

KEEP_PROOFS: Final = 1000  # of each run, drawn evenly: ten thousand partitions place a p95 well
PACE_BLOCKS: Final = 40  # the pace is measured over so many stretches at most
DAEMON: Final = "daemon"  # the range of versions, among the settings
GPUS: Final = "gpus"
UNKNOWN_KIND: Final = "unknown kind"  # of a proof whose dispatch isn't in the log

LADDER: Final = (
    "bracket_union_pct",
    "bracket_sum_pct",
    "lock_held_pct",
    "gpu_section_pct",
    "kernel_pct",
)

ProofKey = tuple[str, int]  # job, attempt


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Proof:
    """One attempt's finished partitions: a row each, a figure a stage of `STAGES`."""

    kind: str
    rows: tuple[tuple[int | None, ...], ...]

    def figures(self, stage: int) -> list[int]:
        """What its partitions have of the stage with that index."""
        return [row[stage] for row in self.rows if row[stage] is not None]  # type: ignore[misc]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogFigures:
    """What a comparison needs of one log: figures of its longest run with finished partitions.

    `report` is None where no run has any. `proofs` are the warm ones, in an order drawn by their
    ids; `pace_ms` are stretches of `pace_partitions` finished partitions, in ms.
    """

    name: str
    runs: int = 0  # that brought jobs
    report: RunReport | None = None
    partitions: int = 0  # finished
    kinds: Mapping[str, int] = field(default_factory=dict)  # finished partitions by kind
    per_proof: int | None = None  # partitions of a proof of its most frequent kind
    proofs: tuple[Proof, ...] = ()
    proofs_seen: int = 0  # with a finished partition
    timed: bool = False  # whether it says when partitions finished
    pace_ms: tuple[float, ...] = ()
    pace_partitions: int = 0
    warm_seconds_per_proof: float | None = None
    proofs_at_a_time: int | None = None  # at most, as the log shows
    syntheses_at_a_time: int | None = None

    @property
    def counts(self) -> Proofs:
        """Counts of proofs; all 0 without a run."""
        return Proofs() if self.report is None else self.report.proofs

    @property
    def seconds_per_proof(self) -> float | None:
        """The contract's figure: from the first SYNTH_START to the last proof, start included."""
        return self.counts.seconds_per_proof

    @property
    def time_pct(self) -> Mapping[str, float] | None:
        """Where the GPUs' time went, weighted by their spans."""
        return None if self.report is None else weighted(gpu.shares for gpu in self.report.gpus)

    @property
    def span_ms(self) -> float:
        """The GPUs' spans, added up."""
        return 0.0 if self.report is None else sum(gpu.shares.span_ms for gpu in self.report.gpus)

    @property
    def lock_derived(self) -> bool:
        """Whether the lock's and the barrier's times are derived (before S41)."""
        return self.report is not None and any(g.shares.lock_derived for g in self.report.gpus)

    def share_pct(self, step: str) -> float | None:
        """A step of the ladder, weighted by the GPUs' spans; None where a GPU has none."""
        gpus = () if self.report is None else self.report.gpus
        return _weighted_mean((getattr(g.shares, step), g.shares.span_ms) for g in gpus)

    @property
    def nvml_util_pct(self) -> float | None:
        """What NVML measured, weighted by the GPUs' spans; None unless measured on all of them."""
        gpus = () if self.report is None else self.report.gpus
        return _weighted_mean((g.nvml_util_pct, g.shares.span_ms) for g in gpus)

    @property
    def nvml_power_w(self) -> float | None:
        """Mean power of a GPU, in the same way."""
        gpus = () if self.report is None else self.report.gpus
        return _weighted_mean((g.nvml_power_w, g.shares.span_ms) for g in gpus)

    @property
    def gpu_ms_per_proof(self) -> Mapping[str, float] | None:
        """GPU time that a proof took, by class, in ms: what adds up to the GPUs' spans."""
        shares = self.time_pct
        if shares is None or not self.per_proof or not self.partitions:
            return None
        proofs = self.partitions / self.per_proof
        return {name: self.span_ms * share / 100.0 / proofs for name, share in shares.items()}

    @property
    def settings(self) -> dict[str, str]:
        """What the log states about how it was run, the daemon's version and GPUs among it."""
        report = self.report
        if report is None:
            return {}
        found = {DAEMON: report.dialect} if report.dialect else {}
        if report.gpus and not any(gpu.shares.mixed for gpu in report.gpus):
            found[GPUS] = str(len(report.gpus))
        return {**found, **report.settings}


def _weighted_mean(pairs: Iterable[tuple[float | None, float]]) -> float | None:
    total = weights = 0.0
    for value, weight in pairs:
        if value is None:
            return None
        total += value * weight
        weights += weight
    return total / weights if weights > 0 else None


@dataclass(slots=True)
class _ProofRows:
    kind: str
    rows: list[tuple[int | None, int | None, tuple[int | None, ...]]] = field(default_factory=list)


class Collector:
    """Takes one run's partitions as they finish; of a long run it keeps a sample of the proofs.

    Which proofs are kept depends on their ids alone, so a log compared with itself is compared with
    the same proofs.
    """

    def __init__(self) -> None:
        """Nothing has finished."""
        self.partitions = 0
        self._kinds: Counter[str] = Counter()
        self._kept: dict[ProofKey, _ProofRows] = {}
        self._ranking: list[tuple[int, ProofKey]] = []  # a heap; the first is the next to go
        self._spans: dict[ProofKey, list[float]] = {}  # from, to
        self._first: tuple[float, ProofKey] | None = None
        self._cold: dict[int | None, tuple[float, ProofKey, int | None]] = {}
        self._ends = array("q")
        self._synth_starts = array("q")
        self._synth_ends = array("q")

    def add(self, row: PartitionRow) -> None:
        """Count a partition if it finished well."""
        if row.state != "done":
            return
        key = (row.job, row.attempt)
        kind = row.kind or UNKNOWN_KIND
        self.partitions += 1
        self._kinds[kind] += 1
        start = float("inf") if row.synth_start_ms is None else float(row.synth_start_ms)
        if self._first is None or start < self._first[0]:
            self._first = (start, key)
        bracket = float("inf") if row.bracket_start_ms is None else float(row.bracket_start_ms)
        if row.gpu not in self._cold or bracket < self._cold[row.gpu][0]:
            self._cold[row.gpu] = (bracket, key, row.partition)
        span = self._spans.setdefault(key, [float("inf"), float("-inf")])
        span[0] = min(span[0], start)
        if row.bracket_end_ms is not None:
            span[1] = max(span[1], row.bracket_end_ms)
            self._ends.append(row.bracket_end_ms)
        if row.synth_start_ms is not None and row.synth_ms is not None:
            self._synth_starts.append(row.synth_start_ms)
            self._synth_ends.append(row.synth_start_ms + row.synth_ms)
        self._keep(key, kind, row)

    def _keep(self, key: ProofKey, kind: str, row: PartitionRow) -> None:
        proof = self._kept.get(key)
        if proof is None:
            rank = -_lot(key)
            if len(self._kept) >= KEEP_PROOFS:
                if (rank, key) <= self._ranking[0]:
                    return  # once out, always out: the bar only rises
                _, out = heapq.heapreplace(self._ranking, (rank, key))
                del self._kept[out]
            else:
                heapq.heappush(self._ranking, (rank, key))
            proof = self._kept[key] = _ProofRows(kind)
        figures = tuple(getattr(row, stage) for stage in STAGES)
        proof.rows.append((row.gpu, row.partition, figures))

    def figures(self, name: str, runs: int, report: RunReport | None) -> LogFigures:
        """What was collected, warm-up cut; `report` is the run's."""
        main = max(self._kinds, key=self._kinds.__getitem__, default=None)
        sizes = [len(proof.rows) for proof in self._kept.values() if proof.kind == main]
        per_proof = max(sizes, default=None)
        blocks, size, warm_s = self._pace(per_proof)
        return LogFigures(
            name=name,
            runs=runs,
            report=report,
            partitions=self.partitions,
            kinds=dict(self._kinds.most_common()),
            per_proof=per_proof,
            proofs=self._warm(),
            proofs_seen=len(self._spans),
            timed=bool(self._ends),
            pace_ms=blocks,
            pace_partitions=size,
            warm_seconds_per_proof=warm_s,
            proofs_at_a_time=_most_at_a_time(
                [lo for lo, hi in self._spans.values() if lo < hi < float("inf")],
                [hi for lo, hi in self._spans.values() if lo < hi < float("inf")],
            ),
            syntheses_at_a_time=_most_at_a_time(self._synth_starts, self._synth_ends),
        )

    def _warm(self) -> tuple[Proof, ...]:
        """The kept proofs without warm-up, in the order of their lots."""
        cold = {(key, gpu, partition) for gpu, (_, key, partition) in self._cold.items()}
        first = None if self._first is None or len(self._spans) < 2 else self._first[1]
        chilled = [stage in COLD_STAGES for stage in STAGES]
        proofs = []
        for key in sorted(self._kept, key=_lot):
            if key == first:
                continue
            proof = self._kept[key]
            rows = []
            for gpu, partition, figures in proof.rows:
                if (key, gpu, partition) in cold:
                    rows.append(
                        tuple(None if gone else x for x, gone in zip(figures, chilled, strict=True))
                    )
                else:
                    rows.append(figures)
            proofs.append(Proof(kind=proof.kind, rows=tuple(rows)))
        return tuple(proofs)

    def _pace(self, per_proof: int | None) -> tuple[tuple[float, ...], int, float | None]:
        """Stretches of time, the partitions in each, and seconds a proof, all after warm-up."""
        if per_proof is None or self._first is None or not self._ends:
            return (), 0, None
        ends = sorted(self._ends)
        begin = max(self._spans[self._first[1]][1], ends[0])
        ends = [end for end in ends if end > begin]
        if not ends:
            return (), 0, None
        size = max(per_proof, -(-len(ends) // PACE_BLOCKS))
        edges = [begin, *ends[size - 1 :: size]]
        blocks = tuple(hi - lo for lo, hi in itertools.pairwise(edges))
        return blocks, size, (ends[-1] - begin) / len(ends) * per_proof / 1000.0


def _lot(key: ProofKey) -> int:
    """A number drawn by a proof's id alone."""
    return zlib.crc32(f"{key[1]} {key[0]}".encode("utf-8", "surrogatepass"))


def _most_at_a_time(starts: Sequence[float], ends: Sequence[float]) -> int | None:
    """How many spans overlap at most; None of no span."""
    steps = sorted([(at, 1) for at in starts] + [(at, -1) for at in ends])  # ends first
    most = max(itertools.accumulate(step for _, step in steps), default=0)
    return most or None
