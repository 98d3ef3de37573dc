"""Facts from outside, one class a fact, and their union `Event`.

Log events carry what the daemon printed and nothing else: the reducer knows when a line without a
time of its own was written, because it sees the lines before and after it. The classes are
`NamedTuple`s because a report makes millions of them: they are immutable like a frozen dataclass
and cost a third of one. Durations are whole milliseconds as printed, except where a name says so.
"""

from __future__ import annotations

from cuzktop.dataclass import NamedTuple

# ---------------------------------------------------------------- the daemon's log: clocks and life


class Tick(NamedTuple):
    """A tracing line's time stamp, emitted where it bounds an anonymous line in time."""

    wall_us: int  # microseconds since 1970 UTC, the daemon's system clock


class HeadSeen(NamedTuple):
    """The first part of a TIMELINE line that other lines cut in two.

    The event follows when its rest has come; lines in between were written after its offset was
    read. `at_ms` is that offset, None if the cut came before it.
    """

    at_ms: int | None


class DaemonStarted(NamedTuple):
    """`cuzk-daemon starting`: a new life of the daemon begins."""

    wall_us: int


class EngineStarted(NamedTuple):
    """`starting cuzk engine`: TIMELINE offsets count from this instant."""

    wall_us: int


class DialectSeen(NamedTuple):
    """A fingerprint: the line can only come from steps `first` to `last` of the daemon."""

    first: int
    last: int


class SettingSeen(NamedTuple):
    """A setting that a start-up line states, by the daemon's own name for it."""

    name: str
    value: str


class WorkerStarted(NamedTuple):
    """`pipeline GPU worker started`: the only authoritative worker → GPU map."""

    worker: int
    gpu: int


class GpuCount(NamedTuple):
    """`initializing GPU workers`: the true number of GPUs, and workers on each."""

    gpus: tuple[int, ...]
    workers_per_gpu: int


# ---------------------------------------------------------------- the daemon's log: jobs


class JobEnqueued(NamedTuple):
    """`job enqueued`: the scheduler took a request."""

    wall_us: int
    job: str
    kind: str  # porep, snap, window-post, winning-post


class JobDequeued(NamedTuple):
    """`job dequeued for proving`: its input is parsed and its parameters are loaded next."""

    wall_us: int
    job: str
    kind: str


class JobDispatched(NamedTuple):
    """`dispatching per-partition synthesis`: the job's partitions are known from here."""

    wall_us: int
    job: str
    kind: str
    partitions: int


class JobAssembled(NamedTuple):
    """`all partitions complete, proof assembled`."""

    wall_us: int
    job: str
    total_ms: int


class JobCompleted(NamedTuple):
    """`proof completed successfully (pipeline)`, or a sector's proof delivered from a batch.

    `job` is empty where the line names none (S24 and newer).
    """

    wall_us: int
    job: str


class SelfCheck(NamedTuple):
    """The PoRep self-check's answer; before S32 a failed proof was returned all the same."""

    wall_us: int
    job: str
    passed: bool
    text: str


# ---------------------------------------------------------------- the daemon's log: TIMELINE


class SynthStarted(NamedTuple):
    """`TIMELINE …,SYNTH_START`. `partition` is None for a proof in one piece."""

    at_ms: int
    job: str
    partition: int | None
    kind: str | None


class SynthEnded(NamedTuple):
    """`TIMELINE …,SYNTH_END`; `synth_ms` is the synthesis call alone."""

    at_ms: int
    job: str
    partition: int | None
    synth_ms: int


class GpuQueued(NamedTuple):
    """`TIMELINE …,GPU_QUEUE` or, before S38, `CHAN_SEND`."""

    at_ms: int
    job: str
    partition: int | None


class GpuPickedUp(NamedTuple):
    """`TIMELINE …,GPU_PICKUP`: a worker took the item."""

    at_ms: int
    job: str
    partition: int | None
    worker: int


class GpuStarted(NamedTuple):
    """`TIMELINE …,GPU_START`: a bracket opens."""

    at_ms: int
    job: str
    partition: int | None
    worker: int


class GpuEnded(NamedTuple):
    """`TIMELINE …,GPU_END`: a bracket closes."""

    at_ms: int
    job: str
    partition: int | None
    worker: int
    gpu_ms: int


# ------------------------------------------------- the daemon's log: CUZK_TIMING, without an owner


class SplitVectors(NamedTuple):
    """C1, the first line of every prove call."""

    split_vectors_ms: int
    setup_to_split_ms: int


class PrepMsm(NamedTuple):
    """C2: CPU preparation done; the GPU's barrier opens."""

    prep_msm_ms: int


class BG2Msm(NamedTuple):
    """C3: the CPU's G2 MSM done."""

    b_g2_msm_ms: int
    num_circuits: int


class LockAcquired(NamedTuple):
    """C4 (S41 and newer): printed right after the GPU lock was taken."""

    pre_lock_cpu_ms: int
    lock_wait_ms: int


class NttMsmH(NamedTuple):
    """C6: NTT and the H MSM are done."""

    gpu_tid: int
    ntt_msm_h_ms: int


class BarrierWaited(NamedTuple):
    """C7 (S41 and newer): the kernels waited this long for prep_msm."""

    gpu_tid: int
    barrier_wait_ms: int


class BatchAdded(NamedTuple):
    """C8: batch additions are done."""

    gpu_tid: int
    batch_add_ms: int


class TailMsm(NamedTuple):
    """C9: the last line of a call's GPU thread."""

    gpu_tid: int
    tail_msm_ms: int
    gpu_total_ms: int


class LockReleased(NamedTuple):
    """C10 (S41 and newer): printed just before the GPU lock is given back."""

    lock_held_ms: int
    total_start_fn_ms: int


class Epilogue(NamedTuple):
    """C11 (S10–S23): the call's last line; `pre_destructor_ms` counts from its entry."""

    epilogue_ms: int
    pre_destructor_ms: int


class Deallocated(NamedTuple):
    """C12: some earlier call's vectors were freed."""

    async_dealloc_ms: int


class PrestageSeen(NamedTuple):
    """C13–C18 (S20–S27). `outcome`: vram, ok, skip_vram, fallback, host_register_fallback.

    `total_ms` is given by S21 alone, where it holds the whole prestage.
    """

    outcome: str
    err: int | None
    total_ms: int | None


TimingLine = tuple[int, int, int, int]
"""One of C1–C12: its number, the two figures that tell whose it is, and its thread's number.

C6–C8 have one such figure; the thread's number is their second. What a line doesn't have is 0.
"""


class TimingStretch(NamedTuple):
    """Timing lines that follow one another: as one event they cost half of what they do apart.

    They stand between two ticks: `since_us` and `until_us` are the time stamps (µs since 1970 UTC)
    of the tracing lines next above and below that bound them; None where there is no such line, or
    it is an event of its own.
    """

    since_us: int | None
    lines: list[TimingLine]
    until_us: int | None

    def events(self) -> list[LogEvent]:
        """The same as events of their own."""
        events = [timing_event(line) for line in self.lines]
        if self.since_us is not None:
            events.insert(0, Tick(self.since_us))
        if self.until_us is not None:
            events.append(Tick(self.until_us))
        return events


def timing_event(line: TimingLine) -> LogEvent:
    """The line as an event of its own."""
    number, a, b, tid = line
    if number in _WITH_ONE_FIGURE:
        return _WITH_ONE_FIGURE[number](a)
    if number in _OF_A_THREAD:
        return _OF_A_THREAD[number](tid, a)
    if number == 9:
        return TailMsm(tid, a, b)
    return _WITH_TWO_FIGURES[number](a, b)


_WITH_ONE_FIGURE: dict[int, type[PrepMsm | Deallocated]] = {2: PrepMsm, 12: Deallocated}
_OF_A_THREAD: dict[int, type[NttMsmH | BarrierWaited | BatchAdded]] = {
    6: NttMsmH,
    7: BarrierWaited,
    8: BatchAdded,
}
_WITH_TWO_FIGURES: dict[
    int, type[SplitVectors | BG2Msm | LockAcquired | LockReleased | Epilogue]
] = {1: SplitVectors, 3: BG2Msm, 4: LockAcquired, 10: LockReleased, 11: Epilogue}

# ------------------------------------------------------- the daemon's log: Rust lines round a call


class CardSeen(NamedTuple):
    """C19 or C20 (S28 and newer): a card's first use, or another circuit size on it."""

    gpu: int


class ProveStartTimed(NamedTuple):
    """R3 (S41 and newer), printed by the call's own thread when the start call succeeded."""

    wall_us: int
    worker: int
    partition: int | None
    spawn_to_enter_ms: int
    prove_start_ms: int


class ProveStartReturned(NamedTuple):
    """R4 (S41 and newer), printed by the worker task, also when the start call failed."""

    wall_us: int
    job: str
    partition: int | None
    worker: int
    gpu: int


class PickupSeen(NamedTuple):
    """R1 or R2: a worker has an item in hand; names the GPU beside the worker, and the kind."""

    wall_us: int
    job: str
    partition: int | None
    worker: int
    gpu: int
    kind: str | None = None


class SynthesisSeen(NamedTuple):
    """Y17: a partition's synthesis is complete, as the tracing stream says it."""

    wall_us: int
    job: str
    partition: int
    synth_ms: int


class ProveComplete(NamedTuple):
    """R6 (with the partition) or R7 (without): a proof is ready; `gpu_ms` is GPU_END's."""

    wall_us: int
    partition: int | None
    gpu_ms: int


class PartitionComplete(NamedTuple):
    """R8: `partition GPU prove complete`."""

    wall_us: int
    job: str
    partition: int
    gpu_ms: int


class FinalizerTimed(NamedTuple):
    """R10 or R11 (S41 and newer): the last line of a finalizer."""

    wall_us: int
    worker: int
    partition: int | None
    finish_ms: int
    total_ms: int


class PartitionFailed(NamedTuple):
    """An ERROR that ends one partition. `stage`: synthesis or gpu; `job` is empty if not named."""

    wall_us: int
    job: str
    partition: int | None
    worker: int | None
    stage: str
    text: str
    fails_job: bool  # later partitions of the job are skipped; else they keep running


class PartitionSkipped(NamedTuple):
    """`skipping …` or `discarding …`: its job had failed already."""

    wall_us: int
    job: str
    partition: int | None
    discarded: bool


class Noticed(NamedTuple):
    """A WARN or ERROR, or the text of a crash, that an operator should see."""

    wall_us: int | None
    level: str  # error, warning
    text: str


class LineUnparsed(NamedTuple):
    """A record that began like ours and could not be used."""

    raw: str
    reason: str


# ---------------------------------------------------------------- samplers and sources


class GpuProcess(NamedTuple):
    """A process that has a context on a card. `pid` is the driver's, which counts as the host does.

    `here`: it is a process of our own pid namespace, so that `pid` is what ps shows.
    """

    pid: int
    memory_bytes: int | None = None  # of the card
    name: str | None = None
    here: bool = True


LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""What a lane of PCIe carries in one direction, by generation (its specification)."""


class GpuSampled(NamedTuple):
    """One reading of one GPU. A field that was not read, or is not supported, is None.

    `at_ms` is wall-clock milliseconds since 1970 UTC, taken when the reading returned. `gpu` is the
    daemon's number of the card, as far as it is known. `util_pct` covers the `util_window_ms`
    before it, and so do the figures that GPM gives beside it (`sm_util_pct` and the PCIe rates);
    `util_source` is gpm, samples or utilization.gpu (the contract's words).
    """

    at_ms: float
    gpu: int
    util_pct: float | None
    util_source: str
    util_window_ms: float
    power_w: float | None = None
    power_limit_w: float | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    temperature_c: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    held_down: str | None = None  # why clocks are held down; empty when they are not
    name: str | None = None
    uuid: str | None = None
    sm_util_pct: float | None = None  # share of the SMs that were busy, over all the time
    host_to_device_bytes_per_s: float | None = None
    device_to_host_bytes_per_s: float | None = None
    pcie_gen: int | None = None  # when it was last busy: an idle link is turned down
    pcie_width: int | None = None
    pcie_gen_max: int | None = None  # what card and slot could do
    pcie_width_max: int | None = None
    ecc_errors: int | None = None  # uncorrected, since the driver was loaded
    xid: int | None = None  # the last critical event since this sampler began; 0 when there is none
    processes: tuple[GpuProcess, ...] | None = None
    xid_unread: str | None = None  # why the driver tells of none, in its words

    @property
    def copies_pct(self) -> float | None:
        """The least share of the time in which copies to the card ran: at the link's full speed.

        None where the rate or the link is unknown.
        """
        lane = LANE_BYTES_PER_S.get(self.pcie_gen or 0)
        if self.host_to_device_bytes_per_s is None or lane is None or not self.pcie_width:
            return None
        return min(100.0, 100.0 * self.host_to_device_bytes_per_s / (lane * self.pcie_width))


class GpuSamplerNote(NamedTuple):
    """What the GPU sampler can't do, in a sentence. `gpu` is None if it concerns all of them.

    An empty text takes back the note before.
    """

    at_ms: float
    gpu: int | None
    text: str


class HostSampled(NamedTuple):
    """One reading of the machine and, when its process is known, of the daemon."""

    at_ms: float
    cpu_pct: float | None  # of the whole machine, 0–100
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    load_1m: float | None
    psi_cpu_pct: float | None  # share of the last 10 s in which some task waited for a CPU
    psi_memory_pct: float | None
    daemon_pid: int | None = None
    daemon_cpu_pct: float | None = None  # of one core: 1600 on sixteen busy cores
    daemon_rss_bytes: int | None = None
    daemon_threads: int | None = None
    own_cpu_pct: float | None = None  # cuzktop's own, of one core
    own_rss_bytes: int | None = None
    tlb_shootdowns_per_s: float | None = None  # of all CPUs together
    memory_bandwidth_bytes_per_s: float | None = None  # by the CPUs' own counters (resctrl)
    missing: str | None = None  # what isn't given here, and why, in a sentence


class SourceNote(NamedTuple):
    """Something about the log itself that the reader should know (rotated, gone, back)."""

    at_ms: float
    level: str  # info, warning, error
    text: str


class PlayedAgain(NamedTuple):
    """What is played begins anew, or at another point: what was known of it no longer holds.

    What lies before `at_ms` follows at once, and then a `PlayedFrom`.
    """

    at_ms: float


class PlayedFrom(NamedTuple):
    """All of what is played that lies before this time has come; the rest comes in its own time."""

    at_ms: float


# ---------------------------------------------------------------- the daemon's GET /status


class StatusPartition(NamedTuple):
    """One partition as `/status` sees it.

    `state`: pending, synthesizing, synth_done, gpu, done, failed. `gpu` lasts from pickup until the
    finalizer was processed, so longer than a bracket; both times grow while their stage lasts.
    """

    partition: int
    state: str | None
    synth_ms: int | None
    gpu_ms: int | None


class StatusJob(NamedTuple):
    """A partitioned job; PoSt and batches never appear. `age_ms` counts from its registration."""

    job: str
    kind: str | None  # porep, snap; another of the daemon's own words as it is
    age_ms: float | None
    total: int | None
    done: int | None  # finalizers that ran, of failed GPU calls too
    partitions: tuple[StatusPartition, ...]


class StatusWorker(NamedTuple):
    """A GPU worker; one that proves a PoSt says idle, one whose start call failed says proving."""

    worker: int | None
    gpu: int | None
    state: str | None  # idle, proving
    job: str | None
    partition: int | None
    busy_ms: float | None  # since pickup


class StatusResident(NamedTuple):
    """Proving parameters (SRS) or constraints (PCE) in memory; `bytes` is their file's size."""

    circuit: str
    bytes: int | None
    idle_ms: float | None
    evictable: bool | None


class DaemonStatus(NamedTuple):
    """One answer of `GET /status`; a key that it lacks, or that can't be right, is None.

    Memory is the budget's accounting, not the process's: `used` may exceed `total` for an instant.
    `synthesis_max` is no real limit in S37 and newer; `synthesis_active` drifts up with failed
    syntheses. `completed` and `failed` count partitioned jobs only. `queue_depth` are requests that
    the scheduler still holds. Jobs come oldest first, workers in their order.
    """

    uptime_ms: float | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_available_bytes: int | None = None
    synthesis_active: int | None = None
    synthesis_max: int | None = None
    jobs: tuple[StatusJob, ...] | None = None
    workers: tuple[StatusWorker, ...] | None = None
    srs: tuple[StatusResident, ...] | None = None  # None also while one may be loading
    pce: tuple[StatusResident, ...] | None = None  # only those that nobody uses now
    completed: int | None = None
    failed: int | None = None
    queue_depth: int | None = None
    synth_in_flight: int | None = None
    provers_in_flight: int | None = None
    pending_handles: int | None = None


class StatusRead(NamedTuple):
    """`/status` has answered after `took_ms`; `at_ms` is wall-clock ms of the answer."""

    at_ms: float
    status: DaemonStatus
    took_ms: float


class StatusNote(NamedTuple):
    """Why `/status` gives nothing, in a sentence. An empty text takes back the note before."""

    at_ms: float
    text: str


LogEvent = (
    Tick
    | HeadSeen
    | DaemonStarted
    | EngineStarted
    | DialectSeen
    | SettingSeen
    | WorkerStarted
    | GpuCount
    | JobEnqueued
    | JobDequeued
    | JobDispatched
    | JobAssembled
    | JobCompleted
    | SelfCheck
    | SynthStarted
    | SynthEnded
    | GpuQueued
    | GpuPickedUp
    | GpuStarted
    | GpuEnded
    | SplitVectors
    | PrepMsm
    | BG2Msm
    | LockAcquired
    | NttMsmH
    | BarrierWaited
    | BatchAdded
    | TailMsm
    | LockReleased
    | Epilogue
    | Deallocated
    | TimingStretch
    | PrestageSeen
    | CardSeen
    | ProveStartTimed
    | ProveStartReturned
    | PickupSeen
    | SynthesisSeen
    | ProveComplete
    | PartitionComplete
    | FinalizerTimed
    | PartitionFailed
    | PartitionSkipped
    | Noticed
    | LineUnparsed
)
SampleEvent = (
    GpuSampled
    | GpuSamplerNote
    | HostSampled
    | SourceNote
    | PlayedAgain
    | PlayedFrom
    | StatusRead
    | StatusNote
)
Event = LogEvent | SampleEvent
