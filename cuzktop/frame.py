"""What a view gets: one frozen picture of everything that is known at one instant.

The screen, the text and the JSON are all drawn from these classes, so what one of them shows the
others can. Times ending in `_ms` count from the run's TIMELINE zero unless they are durations;
shares ending in `_pct` are per cent of the span or window that the object names. `None` is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from cuzktop.dataclass import dataclass, field
from cuzktop.logbook import LogBook

if TYPE_CHECKING:
    from cuzktop.events import DaemonStatus, GpuSampled

LIVE_WITHIN_MS = 120_000.0
"""A log that grew within two minutes is being written."""

TIME_CLASSES = ("kernel", "barrier", "lock_overhead", "handoff", "starved", "no_work")
"""Where a GPU's wall time goes, in the contract's order of precedence; they add up to 100 %."""

HELD = ("barrier", "lock_overhead", "handoff")  # no kernel, but a worker is in its bracket
UNFED = ("starved", "no_work")  # nor is there a bracket
GPU_BOUND_PCT = 80.0  # kernels so much of the time: the GPU is the limit
DISAGREE_PTS = 15.0  # a measurement this far from the log's kernel share deserves a word
FEW_PROOFS = 10  # fewer completed proofs than this make a verdict less sure
WAVE_SHARE = 0.75  # of the starved time in gaps that end in a wave: a herd; half of it: in part
EVEN, BUNCHED = 0.35, 0.65  # of the herding gauge: 0.5 is what chance gives
NO_WORK = (
    "no TIMELINE lines so far; the first synthesis brings them, unless the daemon's standard error"
    " is missing (2>&1)"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shares:
    """The ladder and the classes of one GPU over `span_ms` (json-contract's names)."""

    span_ms: float
    bracket_union_pct: float | None = None
    bracket_sum_pct: float | None = None
    lock_held_pct: float | None = None
    gpu_section_pct: float | None = None
    kernel_pct: float | None = None
    time_pct: Mapping[str, float] | None = None
    lock_derived: bool = False  # before S41 the lock's times are derived, not printed
    before_lock_pct: float | None = None  # of handoff: the first part, and the rest of it
    after_lock_pct: float | None = None
    mixed: bool = False  # calls of several GPUs that the log doesn't tell apart: no share is one's


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Holding:
    """A worker's call in relation to the GPU lock.

    `since_ms` is when the state began: the lock was taken, asked for, or given back. What was
    printed since says that it lasted `least_ms` at least.
    """

    worker: int | None
    job: str
    partition: int | None
    since_ms: float | None
    stage: str | None = None  # ntt_msm_h, barrier, batch_add, tail_msm, releasing
    least_ms: float = 0.0

    def age_ms(self, now_ms: float) -> float | None:
        """How long the state has lasted."""
        return None if self.since_ms is None else max(now_ms - self.since_ms, self.least_ms)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lock:
    """One GPU's lock, as the log tells it; `candidates` are other possible holders."""

    holder: Holding | None
    waiting: tuple[Holding, ...]
    finishing: tuple[Holding, ...]
    candidates: tuple[Holding, ...] = ()
    confidence: str = "exact"  # exact, inferred, none: the log has no lines that tell


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nvml:
    """What the card's driver measured.

    `util_pct`, `power_w` are the latest readings; `*_history` has a bin a second, newest last, and
    None where nothing was read. `mean_*` are time-weighted over the window. `age_ms` is the age of
    the newest reading; `note` says in a sentence what is missing. `of_now`: the log ended long
    before, so that these are no measurement of its window, and there are no means. `reading` is the
    newest reading with all that it has. `held_down` says what holds clocks down; it is empty where
    nothing does.
    """

    util_pct: float | None
    util_source: str | None  # gpm, samples, utilization.gpu
    power_w: float | None
    power_limit_w: float | None
    sm_clock_mhz: int | None
    temperature_c: int | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    held_down: str | None
    mean_util_pct: float | None
    mean_power_w: float | None
    samples: int
    age_ms: float | None
    util_history: Sequence[float | None] = ()
    power_history: Sequence[float | None] = ()  # per cent of the limit, where it is known
    name: str | None = None
    note: str = ""
    of_now: bool = False
    reading: GpuSampled | None = None
    mean_copies_pct: float | None = None  # of the window: at least so long copies to the card ran


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gpu:
    """One GPU: its lock now, its shares over the window, its history a bin a second.

    `kernel_history` and `lock_history` are per cent of each second (newest last) by the log; None
    before the log's first bracket or where the log gives no such figure.
    """

    gpu: int
    workers: tuple[int, ...]
    lock: Lock
    window: Shares | None
    kernel_history: Sequence[float | None] = ()
    lock_history: Sequence[float | None] = ()
    nvml: Nvml | None = None
    nvml_note: str = ""  # why nvml is None
    suspects: tuple[str, ...] = ()  # what can't be true of log and readings together


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Synthesis:
    """A synthesis in flight; `expected_ms` is the median of its kind, None with no history."""

    job: str
    partition: int | None
    since_ms: float
    expected_ms: float | None

    def age_ms(self, now_ms: float) -> float:
        """How long it has run."""
        return max(now_ms - self.since_ms, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Queued:
    """A partition that is synthesized and that no worker has picked up."""

    job: str
    partition: int | None
    since_ms: float | None  # None: only just

    def age_ms(self, now_ms: float) -> float:
        """How long it has waited."""
        return 0.0 if self.since_ms is None else max(now_ms - self.since_ms, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartitionRow:
    """One partition of one attempt: json-contract's `partitions[]`, field by field."""

    job: str
    attempt: int
    partition: int | None
    kind: str | None
    state: str  # pending, synthesizing, queued, gpu, done, failed, skipped, lost
    worker: int | None = None
    gpu: int | None = None
    attribution: str = "none"  # exact, inferred, none: the weakest of attribution_by
    attribution_by: Mapping[str, str] = field(default_factory=dict)  # lock, kernel, cpu
    derived: tuple[str, ...] = ()
    synth_start_ms: int | None = None
    bracket_start_ms: int | None = None
    bracket_end_ms: int | None = None
    synth_ms: int | None = None
    queue_ms: int | None = None
    pre_lock_cpu_ms: int | None = None
    lock_wait_ms: int | None = None
    lock_held_ms: int | None = None
    ntt_msm_h_ms: int | None = None
    barrier_wait_ms: int | None = None
    batch_add_ms: int | None = None
    tail_msm_ms: int | None = None
    gpu_total_ms: int | None = None
    kernel_ms: int | None = None
    prep_msm_ms: int | None = None
    b_g2_msm_ms: int | None = None
    bracket_ms: int | None = None
    gpu_ms: int | None = None
    lock_at_ms: float | None = None  # when the lock was taken, back-dated; not printed by the log
    pickup_ms: int | None = None
    message: str = ""  # why it failed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Herd:
    """How bunched syntheses finish.

    `share` is the part of the starved time that lies between waves, 0–1; `wave_size` the number of
    SYNTH_ENDs within ± 15 % of a synthesis time that make a wave; `gauge` 0 (even) to 1 (bunched)
    by the spread of the gaps between SYNTH_ENDs. `gaps` says what the gaps between brackets have in
    common, `stall` that one of them alone is most of the starved time, where it is.
    """

    share: float
    wave_size: int
    gauge: float | None = None
    sentence: str = ""  # what it means: herding, too few syntheses, or one long stall
    gaps: str = ""
    stall: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CpuStage:
    """How much a CPU stage takes longer while many syntheses run than while few do.

    `quiet` and `busy` are the numbers of syntheses in flight (from, to) of the two ends compared,
    `quiet_ms` and `busy_ms` the medians there. `bands` rises from quiet to busy: from, to, number
    of partitions, median as a multiple of `quiet_ms`. `follows` says whether it really rises with
    their number.
    """

    stage: str  # synth_ms, prep_msm_ms, b_g2_msm_ms
    count: int
    quiet: tuple[int, int]
    quiet_ms: float
    busy: tuple[int, int]
    busy_ms: float
    bands: tuple[tuple[int, int, int, float], ...]
    follows: bool

    @property
    def factor(self) -> float:
        """`busy_ms` as a multiple of `quiet_ms`."""
        return self.busy_ms / self.quiet_ms


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inflation:
    """Whether CPU stages stretch together as more syntheses run.

    `found` is contention (several do), one (a single one does), none, or unknown (too few
    partitions, or their number never changed); `sentence` says it.
    """

    found: str
    sentence: str
    stages: tuple[CpuStage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobRow:
    """One proof; `states` has one entry a partition known, in order of partition."""

    job: str
    attempt: int
    kind: str | None
    age_ms: float | None
    total: int | None
    done: int
    failed: bool
    states: tuple[str, ...]
    message: str = ""  # the failure's text

    @property
    def is_over(self) -> bool:
        """Whether it has ended, one way or the other."""
        return self.failed or (self.total is not None and self.done >= self.total)


def jobs_to_show(jobs: Sequence[JobRow], most: int) -> list[JobRow]:
    """At most so many jobs, in their order: those in flight, then failures, then the newest."""
    if len(jobs) <= most:
        return list(jobs)
    # Of those in flight the oldest matter; of those that ended the newest.
    order = sorted(
        (1, -at) if job.failed else (2, -at) if job.is_over else (0, at)
        for at, job in enumerate(jobs)
    )
    return [jobs[at] for at in sorted(abs(at) for _rank, at in order[:most])]


def jobs_left_out(
    jobs: Sequence[JobRow], shown: Sequence[JobRow], *, ends_told: bool
) -> dict[str, int]:
    """How many aren't shown, by what they are, so that those in flight add up.

    Without `ends_told` the log doesn't say which proofs are done, and these are just `more`.
    """
    if not ends_told:
        return {"more": len(jobs) - len(shown)}
    flying = sum(not job.is_over for job in jobs) - sum(not job.is_over for job in shown)
    counts = {"in flight": flying, "ended": len(jobs) - len(shown) - flying}
    return {what: count for what, count in counts.items() if count}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageStats:
    """Percentiles of one stage over the finished partitions, cold first calls left out."""

    count: int
    p50: float
    p95: float
    max: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Verdict:
    """What limits the box: gpu, cpu-memory, lock, synthesis, herding, idle or unknown.

    `sentence` is the one line for a person; `confidence` is 0–1.
    """

    bottleneck: str
    confidence: float
    sentence: str
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alert:
    """Something an operator should see; `level` is error, warning or info.

    Most are of an instant. One that `lasts` began at `at_ms` and is still so; one with `until_ms`
    ended then. `count` is how often it came, `first_ms` when that was first.
    """

    level: str
    at_ms: float | None
    text: str
    lasts: bool = False
    until_ms: float | None = None
    count: int = 1
    first_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Proofs:
    """Counts of jobs; None where the log has no tracing lines, which alone say what became of them.

    `seconds_per_proof` is from the first SYNTH_START to the last proof, over the proofs.
    """

    completed: int | None = 0
    failed: int | None = 0
    in_flight: int | None = 0
    lost: int | None = 0
    seconds_per_proof: float | None = None


class LogCounts(Protocol):
    """What was read of the log; `cuzktop.parse.scanner.Counts`."""

    bytes: int
    lines: int
    events: int
    torn: int
    unparsed: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """Where the log comes from and what was read of it.

    `silent_ms` is the time since the log last grew (live only); `note` says what is missing.
    `read_pct` is the progress of the first read, None once it is done.
    """

    path: str
    bytes: int = 0
    lines: int = 0
    events: int = 0
    torn: int = 0
    unparsed: int = 0
    silent_ms: float | None = None
    read_pct: float | None = None
    note: str = ""

    @classmethod
    def of(
        cls,
        counts: LogCounts,
        *,
        path: str,
        silent_ms: float | None = None,
        read_pct: float | None = None,
        note: str = "",
    ) -> Source:
        """With what was counted in reading."""
        return cls(
            path=path,
            bytes=counts.bytes,
            lines=counts.lines,
            events=counts.events,
            torn=counts.torn,
            unparsed=counts.unparsed,
            silent_ms=silent_ms,
            read_pct=read_pct,
            note=note,
        )

    @property
    def old(self) -> bool:
        """Whether the log last grew so long ago that readings of now are none of its time."""
        return self.silent_ms is not None and self.silent_ms > LIVE_WITHIN_MS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Host:
    """The machine, the daemon's process and cuzktop's own cost."""

    cpu_pct: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    load_1m: float | None = None
    psi_cpu_pct: float | None = None
    psi_memory_pct: float | None = None
    daemon_pid: int | None = None
    daemon_cpu_pct: float | None = None
    daemon_rss_bytes: int | None = None
    daemon_threads: int | None = None
    tlb_shootdowns_per_s: float | None = None
    memory_bandwidth_bytes_per_s: float | None = None
    missing: str = ""  # what isn't given here, and why
    own_cpu_pct: float | None = None
    own_rss_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame:
    """The picture right after the last complete line, at `now_ms` of the newest run."""

    now_ms: float = 0.0
    at: str | None = None  # wall-clock time of now_ms, ISO 8601 UTC
    since_ms: float = 0.0  # where reading began
    run: int = 0
    started: str | None = None
    dialect: str | None = None
    window_s: float = 60.0
    source: Source = field(default_factory=lambda: Source(path=""))
    gpus: tuple[Gpu, ...] = ()
    syntheses: tuple[Synthesis, ...] = ()  # oldest first
    gpu_queue: tuple[Queued, ...] = ()  # longest waiting first
    jobs: tuple[JobRow, ...] = ()  # in flight and lately ended, oldest first
    older_jobs: tuple[JobRow, ...] = ()  # that ended before those, as far as kept; oldest first
    recent: tuple[PartitionRow, ...] = ()  # finished partitions, newest first
    in_flight: tuple[PartitionRow, ...] = ()  # begun and not finished, in order of dispatch
    stages: Mapping[str, StageStats] = field(default_factory=dict)
    proofs: Proofs = field(default_factory=Proofs)
    verdict: Verdict = field(
        default_factory=lambda: Verdict(
            bottleneck="unknown", confidence=0.0, sentence="Nothing read yet."
        )
    )
    alerts: tuple[Alert, ...] = ()  # newest last
    host: Host | None = None
    host_note: str = ""
    no_work_yet: bool = False  # no synthesis was told, no proof's end: TIMELINE lines aren't due
    has_timeline: bool = False
    has_timing: bool = False
    herd: Herd | None = None
    inflation: Inflation | None = None
    book: LogBook | None = None  # the daemon's latest lines; it grows on
    book_end: int | None = None  # the number of the line that came next; None: the book's end
    settings: Mapping[str, str] = field(default_factory=dict)  # as the start-up lines state them
    status: DaemonStatus | None = None  # the daemon's own words, a second opinion
    status_note: str = ""  # why there is none

    @property
    def present_ms(self) -> float:
        """The present on the run's clock; `now_ms` is the log's end where that was long ago."""
        return self.now_ms + ((self.source.silent_ms or 0.0) if self.source.old else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpuReport:
    """One GPU over its span: first GPU_START to last GPU_END."""

    gpu: int
    workers: tuple[int, ...]
    shares: Shares
    gap_count: int | None
    gap_mean_ms: float | None
    nvml_util_pct: float | None = None
    nvml_power_w: float | None = None
    nvml_samples: int = 0
    nvml_source: str | None = None
    suspects: tuple[str, ...] = ()  # what can't be true of log and readings together


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunReport:
    """One life of the daemon; its partitions are streamed beside it, not kept in it.

    They are told to run on GPU 0 while no other is known of: those of the workers `unplaced` turned
    out to run on any of several.
    """

    run: int
    started: str | None
    dialect: str | None
    span_ms: float | None
    proofs: Proofs
    gpus: tuple[GpuReport, ...]
    stages: Mapping[str, StageStats]
    verdict: Verdict
    alerts: tuple[Alert, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    herd: Herd | None = None
    inflation: Inflation | None = None
    unplaced: frozenset[int] = frozenset()
