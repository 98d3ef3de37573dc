"""What the log's events add up to: mutable, owned by one thread, bounded.

Times are milliseconds on the run's clock (TIMELINE zero) unless a name says otherwise.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING

from cuzktop.dataclass import dataclass, field

if TYPE_CHECKING:
    from cuzktop.model.blocks import Block
    from cuzktop.model.options import Option

from cuzktop.model.series import Bins

FINAL = frozenset({"done", "failed", "skipped", "lost"})  # a partition's states that stay
ONE_GPU_UNTIL = 30  # up to this step partitions ran on GPU 0 whatever the label said
KEEP_RECENT = 400  # finished partitions a screen can scroll through
KEEP_JOBS = 200  # ended jobs that are kept for the screen
KEEP_ALERTS = 200
KEEP_SYNTHESES = 200  # durations of the latest syntheses of a kind, for what is usual
KEEP_ATTEMPTS = 100_000  # job ids whose attempts are counted; a day brings two thousand
KEEP_CALLS = 20_000  # of a GPU, for shares over a long window: five hours of one fast GPU
KEEP_SYNTH_TIMES = 4000  # starts and ends of syntheses, for how they lie to each other


class Line:
    """An anonymous line: its figures, and the interval in which it was written.

    `lo` is a hard bound (a clock was read before it); `hi` a soft one (a later line's clock may
    have been read before this line was written, and printed after).
    """

    __slots__ = ("a", "b", "hi", "kind", "lo", "owned", "seq", "tied")

    def __init__(self, kind: int, a: int, b: int, seq: int, lo: float) -> None:
        """`a` and `b` are the figures of C-line `kind`, in the order they are printed."""
        self.kind = kind
        self.a = a
        self.b = b
        self.seq = seq
        self.lo = lo
        self.hi = inf
        self.owned = False  # by a call; which one knows it: two that know each other stay too long
        self.tied: tuple[float, float] | None = None  # when it was due, once its call is known

    def copy(self) -> Line:
        """The same line, to be owned apart from this one."""
        twin = Line(self.kind, self.a, self.b, self.seq, self.lo)
        twin.hi, twin.tied = self.hi, self.tied
        return twin


class Partition:
    """One circuit of one attempt of a job, or a whole proof in one piece (`index` None)."""

    __slots__ = (
        "attempt",
        "bracket_end",
        "bracket_start",
        "call",
        "gpu",
        "gpu_ms",
        "index",
        "job",
        "kind",
        "order",
        "pickup",
        "pickup_seq",
        "queued",
        "state",
        "synth_end",
        "synth_ms",
        "synth_start",
        "worker",
    )

    def __init__(self, job: Job, index: int | None, order: int) -> None:
        """A partition that is dispatched and has done nothing yet."""
        self.job = job
        self.attempt = job.attempt
        self.index = index
        self.kind = job.kind
        self.order = order
        self.state = "pending"
        self.worker: int | None = None
        self.gpu: int | None = None
        self.synth_start: int | None = None
        self.synth_end: int | None = None
        self.synth_ms: int | None = None
        self.queued: int | None = None
        self.pickup: int | None = None
        self.pickup_seq = 0  # the place of the anonymous line after it
        self.bracket_start: int | None = None
        self.bracket_end: int | None = None
        self.gpu_ms: int | None = None
        self.call: Call | None = None


class Call:
    """One prove call: what happens between a GPU_START and its GPU_END.

    `entry_lo` … `entry_hi` bound the instant when the call was entered; everything that its
    anonymous lines state counts from there.
    """

    __slots__ = (
        "begun",
        "block",
        "chain_margin",
        "chains",
        "cpu_margin",
        "cpu_options",
        "cpu_sure",
        "deadline_seq",
        "done",
        "done_seq",
        "end",
        "end_seq",
        "entry_hi",
        "entry_lo",
        "failed",
        "gpu",
        "gpu_ms",
        "is_first",
        "kernel_sure",
        "lines",
        "lock",
        "lock_at",
        "lock_sure",
        "next_pickup",
        "next_waited",
        "partition",
        "prove_start",
        "release_at",
        "returned",
        "returned_seq",
        "settled",
        "spawn",
        "start",
        "start_seq",
        "worker",
    )

    def __init__(
        self, partition: Partition, worker: int, gpu: int | None, start: float, seq: int
    ) -> None:
        """Open a call at `start`; `seq` is its line's place in the log."""
        self.partition = partition
        self.worker = worker
        self.gpu = gpu
        self.start = start
        self.start_seq = seq
        self.entry_lo = start
        self.entry_hi = inf
        self.spawn: int | None = None
        self.prove_start: int | None = None
        self.returned: float | None = None  # the start call is back: the lock was given up
        self.returned_seq = 0
        self.next_pickup: float | None = None  # the same worker's next item
        self.next_waited = False  # it lay in the queue: picked up as soon as this call was back
        self.deadline_seq = 1 << 62  # its GPU thread is done by this place of the log
        self.lock = 0  # the GPU mutex that it takes
        self.is_first = False  # of its GPU, which was cold
        self.begun = (start, inf)  # its CPU thread was started, the lock asked for
        self.done: tuple[float, float] | None = None  # all its work was done, where a line says so
        self.done_seq = 1 << 62
        self.chain_margin = inf  # how sure verdicts on its rivals leave its chain
        self.cpu_margin = inf  # and its CPU lines
        self.end: float | None = None
        self.end_seq = 0
        self.gpu_ms: int | None = None
        self.failed = False
        self.lines: dict[int, Line] = {}  # C-number → line
        self.block: Block | None = None  # before S41: its GPU thread's lines
        self.chains: list[Option] = []  # what could be its lock's and kernels' lines
        self.cpu_options: list[Option] = []  # what could be its C1, C2 and C3
        self.lock_sure = self.kernel_sure = self.cpu_sure = "none"
        self.lock_at: float | None = None
        self.release_at: float | None = None
        self.settled = False


class Job:
    """One attempt at a proof."""

    __slots__ = (
        "assembled",
        "attempt",
        "ended",
        "failed",
        "first_synth",
        "id",
        "kind",
        "message",
        "parts",
        "past",
        "seen",
        "skips",
        "total",
    )

    def __init__(self, job_id: str, attempt: int, kind: str | None, seen: float) -> None:
        """A job that was seen first at `seen`."""
        self.id = job_id
        self.attempt = attempt
        self.kind = kind
        self.seen = seen
        self.total: int | None = None
        self.parts: dict[int | None, Partition] = {}
        self.past: dict[int | None, str] = {}  # instead: its partitions' states, once put away
        self.first_synth: float | None = None
        self.assembled: float | None = None
        self.ended: float | None = None  # assembled, or failed with nothing of it in flight
        self.failed = False
        self.skips = False  # it failed in a way that makes the daemon skip its partitions
        self.message = ""

    def states(self) -> dict[int | None, str]:
        """Its partitions' states."""
        return {index: part.state for index, part in self.parts.items()} or self.past

    @property
    def has_partitions(self) -> bool:
        """Whether it is known not to be proved in one piece."""
        states = self.states()
        return bool(states) and None not in states

    def put_away(self) -> None:
        """Keep no more than the states: partitions know their job, and both would stay too long."""
        self.past = self.states()
        self.parts = {}


class Attempts:
    """How often each job id came. Of the many that came once only a hash is kept."""

    __slots__ = ("_again", "_seen")

    def __init__(self) -> None:
        """None has come."""
        self._seen = array("q")  # hashes, in order
        self._again: dict[str, int] = {}

    def count(self, job_id: str) -> int:
        """The id has come once more; how often by now."""
        again = self._again.get(job_id, 1)
        if again == 1:
            key = hash(job_id)
            at = bisect_left(self._seen, key)
            if at == len(self._seen) or self._seen[at] != key:
                if len(self._seen) >= KEEP_ATTEMPTS:
                    del self._seen[:]
                    at = 0
                self._seen.insert(at, key)
                return 1
        self._again[job_id] = again + 1
        return again + 1


class History:
    """Times of one GPU's ended calls, a column each: what shares over any window are made of.

    NaN stands for unknown. A failed call's bracket ends at its failure and `finished` is 0.
    """

    COLUMNS = ("start", "end", "acquired", "ntt", "barrier", "batch", "tail", "released")
    __slots__ = (*COLUMNS, "finished", "locks", "total")

    def __init__(self) -> None:
        """Nothing has ended yet."""
        self.locks: set[int] = set()  # of its calls; several let calls overlap (until S29)
        for column in self.COLUMNS:
            setattr(self, column, array("d"))
        self.total = array("d")  # gpu_total_ms
        self.finished = array("b")

    start: array[float]
    end: array[float]
    acquired: array[float]  # the lock taken
    ntt: array[float]  # NTT and H MSM done
    barrier: array[float]  # the CPU's preparation arrived
    batch: array[float]  # batch additions done
    tail: array[float]  # tail MSM done
    released: array[float]  # the lock given back
    total: array[float]
    finished: array[int]

    def __len__(self) -> int:
        """The number of calls."""
        return len(self.start)

    def first_since(self, start: float) -> int:
        """The index from which on calls may end after `start`; they end nearly in order."""
        ends = self.end
        index = len(ends)
        while index > 0:
            below = max(0, index - 64)
            if max(ends[below:index]) < start:
                return index
            index = below
        return 0

    def head(self, count: int) -> History:
        """The oldest `count` calls."""
        oldest = History()
        oldest.locks = set(self.locks)
        for column in (*self.COLUMNS, "total", "finished"):
            setattr(oldest, column, getattr(self, column)[:count])
        return oldest

    def forget(self, count: int) -> None:
        """Forget the oldest `count` calls."""
        for column in (*self.COLUMNS, "total", "finished"):
            del getattr(self, column)[:count]

    def trim(self, since: float) -> None:
        """Forget the oldest calls that ended before `since`, and those beyond `KEEP_CALLS`."""
        old = max(0, len(self) - KEEP_CALLS)
        while old < len(self) and not self.end[old] >= since:
            old += 1
        self.forget(old)


class Gpu:
    """One GPU as the log numbers it."""

    __slots__ = (
        "first_start",
        "free_at",
        "history",
        "kernel_bins",
        "last_end",
        "lock_bins",
        "number",
        "open_calls",
        "workers",
    )

    def __init__(self, number: int) -> None:
        """A GPU that nothing ran on yet."""
        self.number = number
        self.workers: set[int] = set()
        self.free_at: dict[int, float] = {}  # by lock: its last holder gave it back (before S41)
        self.open_calls: dict[int, Call] = {}  # by the sequence number of GPU_START
        self.history = History()
        self.kernel_bins = Bins()
        self.lock_bins = Bins()
        self.first_start: float | None = None
        self.last_end: float | None = None


@dataclass(slots=True)
class Alert:
    """Something an operator should see, and when."""

    level: str
    at: float | None
    text: str


@dataclass(slots=True)
class Run:
    """One life of the daemon."""

    index: int
    first_wall_us: int | None = None
    began_us: int | None = None  # wall clock of the banner
    started_us: int | None = None  # wall clock of the engine's start, as printed
    epoch_us: int | None = None  # TIMELINE zero on the wall clock as it is set now
    epoch_known: bool = False  # from the start line; else bounded by pairs of lines
    epoch_lo: float = float("-inf")
    epoch_hi: float = inf
    clock: float = 0.0  # the newest time seen
    first_at: float | None = None
    newest_ms: int = 0  # the latest TIMELINE offset
    wall_ms: float = 0.0  # the time of the last tracing line
    step_lo: int = 1
    step_hi: int = 45
    told: bool = False  # some fingerprint was seen
    settings: dict[str, str] = field(default_factory=dict)
    worker_gpu: dict[int, int] = field(default_factory=dict)
    workers_per_gpu: int | None = None
    gpu_numbers: tuple[int, ...] = ()
    gpus: dict[int, Gpu] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)  # the newest attempt of each id
    attempts: Attempts = field(default_factory=Attempts)
    ended_jobs: deque[Job] = field(default_factory=deque)
    in_flight: dict[tuple[str, int | None], Partition] = field(default_factory=dict)
    stragglers: dict[tuple[str, int | None], list[Partition]] = field(default_factory=dict)
    # (partitions that go on although their job was sent again: not in `in_flight`)
    waiting_work: array[float] = field(default_factory=lambda: array("d"))
    # (when some partition was on its way to a GPU: disjoint spans in order, from, to, from, to, …)
    synth_ends: array[float] = field(default_factory=lambda: array("d"))  # in order
    synth_starts: array[float] = field(default_factory=lambda: array("d"))  # in order
    synth_spans: dict[str | None, deque[int]] = field(default_factory=dict)  # by kind, ms
    completed: int = 0
    failed: int = 0
    lost: int = 0
    first_synth: float | None = None
    last_completed: float | None = None
    alerts: deque[Alert] = field(default_factory=lambda: deque(maxlen=KEEP_ALERTS))
    timeline_seen: bool = False
    timing_seen: bool = False
    tracing_seen: bool = False
    lock_lines: bool = False
    last_worker_call: dict[int, Call] = field(default_factory=dict)
    last_pickup: dict[int, Partition] = field(default_factory=dict)

    def put_away(self, job: Job) -> None:
        """It has ended, and its id may come again."""
        self.ended_jobs.append(job)
        if all(part.state in FINAL for part in job.parts.values()):
            job.put_away()
        if len(self.ended_jobs) > KEEP_JOBS:
            self.ended_jobs.popleft().put_away()

    def unfinished(self) -> list[Partition]:
        """Every partition that has not come to its end, those of older attempts too, in order."""
        older = [partition for others in self.stragglers.values() for partition in others]
        return sorted([*self.in_flight.values(), *older], key=attrgetter("order"))

    @property
    def has_worked(self) -> bool:
        """Whether a synthesis was told to have begun, or a proof to have ended."""
        if self.timeline_seen or self.timing_seen or self.completed or self.failed or self.lost:
            return True
        return any(partition.state != "pending" for partition in self.in_flight.values())

    @property
    def has_several_gpus(self) -> bool:
        """Whether the log tells that partitions run on several GPUs."""
        told = len(self.gpu_numbers) > 1 and self.step_lo > ONE_GPU_UNTIL
        return told or len(self.gpus) > 1

    @property
    def dialect(self) -> str | None:
        """The range of steps that the fingerprints leave possible, as the contract prints it."""
        if not self.told or self.step_lo > self.step_hi:
            return None
        if self.step_lo == self.step_hi:
            return f"S{self.step_lo}"
        return f"S{self.step_lo}-S{self.step_hi}"
