"""A simulator of the cuzk daemon's log whose truth is known by construction.

It plays the daemon as threads that really wait for one another (synthesis pool, GPU workers, the
preparation thread and the GPU thread of every prove call, mutexes, finalizers) and lets each of
them print what the step of the daemon prints. So lines come in an order that could happen, late
where a thread was not scheduled, and every printed figure has a known owner.

    python tests/logsim.py OUTDIR --version 45 --gpus 4 --workers 3 --jobs 20 --seed 7
    python tests/logsim.py OUTDIR --scenario s45-4x3

writes OUTDIR/daemon.log and OUTDIR/truth.json. Every disturbance is a knob with 0 as "off". Times
are milliseconds since the run's TIMELINE zero, as floats; what the daemon prints is truncated.
"""

from __future__ import annotations

import argparse
import dataclasses
import heapq
import itertools
import json
import math
import random
import re
import sys
import uuid
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ENGINE, PIPELINE, POOL = "cuzk_core::engine", "cuzk_core::pipeline", "cuzk_core::pinned_pool"
DAEMON, SERVICE, SCHEDULER = "cuzk_daemon", "cuzk_server::service", "cuzk_core::scheduler"
SUPRASEAL, SRS, PROVER = (
    "bellperson::groth16::prover::supraseal",
    "cuzk_core::srs_manager",
    "cuzk_core::prover",
)
OOM = 'cudaMalloc(&cache.ptr, sz_bytes)@cuda/groth16_cuda.cu:182 failed: "out of memory"'
BUF_GIB = "3.882613718509674"
CUT_MARGIN_MS = 6.0  # no state changes this near to a cut

PROTO = {"porep-c2": 1, "snap-update": 2, "window-post": 3, "winning-post": 4}
KIND = {  # in the contract's words
    "porep-c2": "porep",
    "snap-update": "snap",
    "window-post": "window-post",
    "winning-post": "winning-post",
}
CIRCUIT = {
    "porep-c2": "porep-32g",
    "snap-update": "snap-32g",
    "window-post": "wpost-32g",
    "winning-post": "winning-32g",
}
SRS_GIB = {"porep-c2": 44, "snap-update": 56, "window-post": 56, "winning-post": 1}
PARTITIONS = {"porep-c2": 10, "snap-update": 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """What to simulate. Durations in ms; probabilities 0–1; 0 switches a disturbance off."""

    version: int = 45
    gpus: int = 1
    workers: int = 2  # on each GPU; 1 before S19, whatever is asked for
    jobs: int = 12
    seed: int = 1
    kind: str = "porep"  # porep, snap, wdpost, winpost, or a mix: "porep+snap+wdpost"
    ids: str = "uuid"  # uuid, curio, weird
    ansi: bool = False
    concurrency: int = 3  # jobs that the client keeps in flight
    duration: float = 0.0  # no job is submitted after it; 0: no limit
    slots: int = 0  # partitions synthesized at a time; 0: enough to keep the GPUs busy
    inflight: int = 0  # partitions that the memory holds; 0: twice the slots and the workers
    lookahead: int = 2  # room in the channel to the GPU workers, before S38
    synth: float = 3500.0
    synth_cv: float = 0.10
    parse: float = 250.0
    prep: float = 430.0
    prep_cv: float = 0.25
    b_g2: float = 380.0
    b_g2_cv: float = 0.25
    b_g2_pool: float = 0.0  # b_g2 that run at full speed at a time; 0: 1.5 for each GPU
    ntt: float = 400.0
    batch: float = 60.0
    tail: float = 50.0
    kernel_cv: float = 0.04
    prestage: float = 18.0
    free: float = 6.0  # a/b/c given back: mean, exponential
    dealloc: float = 30.0
    trim: float = 8.0
    check: float = 45.0  # the self-check, under the tracker's lock
    unpinned: float = 0.15  # partitions without pinned buffers (S41 and newer)
    srs: float = 2500.0  # point data still being read after "SRS loaded"
    cold: float = 2500.0  # longest extra NTT time of a GPU's first call
    contention: float = 0.6  # how much a full synthesis pool stretches CPU work
    jitter: float = 1.0  # scheduling latencies, as a multiple of what was measured
    stall: float = 0.003  # a thread loses the CPU for long, per print or wake-up
    stall_max: float = 400.0
    stall_clocked: float = 25.0  # the same for lines with a time: an offset or stamp too old
    split_slow: float = 0.03  # split_vectors that take 50–400 ms
    sync: float = 0.15  # syntheses whose ends fall together
    torn: float = 0.01  # TIMELINE lines that another line cuts
    intruders: int = 2  # most cuts in one torn line
    tear_wait: float = 30.0  # how long its thread stays without the CPU if nobody cuts in
    fail_gpu: float = 0.0  # start calls that panic
    fail_finish: float = 0.0  # finish calls that fail (S24 and newer)
    fail_synth: float = 0.0
    fail_check: float = 0.0  # self-checks that fail (S32 and newer)
    late_b_g2: float = 0.5  # failed calls whose b_g2_msm line comes all the same
    retry: bool = False  # the client sends a failed job once more, under the same id
    pin_fallback: float = 0.0  # host_register=fallback (S20–S27)
    prestage_fallback: float = 0.0
    kill: float = 0.0  # SIGKILL of every run but the last, at this time
    runs: int = 1
    status: bool = False
    pacer: bool = False  # S42 and newer
    cuts: int = 40
    start: str = "2026-11-30T09:16:07.656672"

    @property
    def sub_workers(self) -> int:
        """Workers on each GPU as this step has them."""
        return self.workers if self.version >= 19 else 1

    @property
    def synth_slots(self) -> int:
        """Synthesis slots."""
        per_call = self.ntt + self.batch + self.tail
        return self.slots or max(4, math.ceil(1.05 * self.gpus * self.synth / per_call))

    @property
    def memory_slots(self) -> int:
        """Partitions that may be synthesized, queued or at the GPU at a time."""
        return self.inflight or self.synth_slots + 2 * self.gpus * self.sub_workers + 4


# ---------------------------------------------------------------- a small discrete-event kernel


class Signal:
    """Wakes what waits for it, once and for ever."""

    __slots__ = ("fired", "waiting")

    def __init__(self) -> None:
        self.fired = False
        self.waiting: list[Steps] = []


Steps = Generator[float | Signal, None, None]  # a thread: yields how long, or what, it waits for


class Kernel:
    """Time and the threads that wait for it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Steps]] = []
        self._count = 0

    def spawn(self, steps: Steps, after: float = 0.0) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self.now + after, self._count, steps))

    def fire(self, signal: Signal, after: float = 0.0) -> None:
        signal.fired = True
        for steps in signal.waiting:
            self.spawn(steps, after)
        signal.waiting.clear()

    def run(self, until: float = math.inf) -> None:
        while self._heap and self._heap[0][0] <= until:
            self.now, _, steps = heapq.heappop(self._heap)
            try:
                wait = next(steps)
            except StopIteration:
                continue
            if isinstance(wait, Signal):
                if wait.fired:
                    self.spawn(steps)
                else:
                    wait.waiting.append(steps)
            else:
                self.spawn(steps, wait)


class Mutex:
    """Unfair: any waiter may be woken, and a newcomer may be faster than the woken one."""

    def __init__(self, kernel: Kernel, rng: random.Random) -> None:
        self._kernel, self._rng = kernel, rng
        self.held = False
        self._waiting: list[Signal] = []

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for it."""
        return bool(self._waiting)

    def acquire(self) -> Steps:
        while self.held:
            turn = Signal()
            self._waiting.append(turn)
            yield turn
        self.held = True

    def release(self) -> None:
        self.held = False
        if self._waiting:
            turn = self._waiting.pop(self._rng.randrange(len(self._waiting)))
            slow = self._rng.random() < 0.02
            self._kernel.fire(turn, self._rng.uniform(0.5, 4.0) if slow else 0.02)


class FairMutex(Mutex):
    """First come, first served."""

    def acquire(self) -> Steps:
        if self.held or self._waiting:
            turn = Signal()
            self._waiting.append(turn)
            yield turn
        self.held = True

    def release(self) -> None:
        if self._waiting:
            self._kernel.fire(self._waiting.pop(0), 0.002)
        else:
            self.held = False


class Pool:
    """CPU work that shares `size` full speeds among all that runs."""

    def __init__(self, kernel: Kernel, size: float) -> None:
        self._kernel, self._size = kernel, size
        self._left: dict[int, tuple[float, Signal]] = {}
        self._at, self._round, self._count = 0.0, 0, 0

    def work(self, amount: float) -> Steps:
        self._advance()
        done = Signal()
        self._count += 1
        self._left[self._count] = (amount, done)
        self._plan()
        yield done

    def _speed(self) -> float:
        return min(1.0, self._size / max(1, len(self._left)))

    def _advance(self) -> None:
        gone = (self._kernel.now - self._at) * self._speed()
        self._at = self._kernel.now
        self._left = {k: (w - gone, s) for k, (w, s) in self._left.items()}

    def _plan(self) -> None:
        self._round += 1
        if self._left:
            first = min(w for w, _ in self._left.values())
            self._kernel.spawn(self._finish(self._round), max(0.0, first) / self._speed())

    def _finish(self, planned: int) -> Steps:
        if planned == self._round:
            self._advance()
            for key in [k for k, (w, _) in self._left.items() if w < 1e-6]:
                self._kernel.fire(self._left.pop(key)[1])
            self._plan()
        yield 0.0


# ---------------------------------------------------------------- what happens, and to whom


@dataclass(slots=True)
class Job:
    """One dispatch of a job."""

    id: str
    kind: str
    attempt: int
    seq: int
    total: int  # partitions; 1 for a proof in one piece
    mono: bool
    deadline: int = 0  # WindowPoSt: the partition that its GPU_END names
    circuits: int = 1
    submitted: float = 0.0
    filled: int = 0
    synth_sum: int = 0
    gpu_sum: int = 0
    dead: bool = False  # later partitions are skipped
    replied: bool = False
    ok: bool | None = None  # what became of the proof
    open: int = 0  # partitions not at their end
    drained: Signal = field(default_factory=Signal)
    first_hint: bool = False


@dataclass(slots=True, eq=False)
class Item:
    """One partition (or a proof in one piece) on its way."""

    job: Job
    partition: int | None
    state: str = "pending"
    worker: int | None = None
    gpu: int | None = None
    pinned: bool = False
    begun: float | None = None  # SYNTH_START
    synth_end: float | None = None
    pickup: float | None = None
    start: float | None = None
    end: float | None = None
    finished: bool = False
    entry: float = 0.0
    acq: float | None = None
    rel: float | None = None
    kernels: list[tuple[float, float]] = field(default_factory=list)
    prep_done: Signal = field(default_factory=Signal)
    b_done: Signal = field(default_factory=Signal)
    figures: dict[str, int] = field(default_factory=dict)
    failing: bool = False
    patience: float = 3.9  # what its GPU thread may still lose between two lines
    gone: float | None = None  # when it failed or was skipped

    @property
    def key(self) -> tuple[str, int, int | None]:
        return (self.job.id, self.job.attempt, self.partition)

    @property
    def name(self) -> dict[str, Any]:
        return {"job": self.job.id, "partition": self.partition}

    @property
    def opt(self) -> str:
        return "None" if self.partition is None else f"Some({self.partition})"


@dataclass(slots=True)
class Line:
    """One write: `kind` T(racing), R (TIMELINE), C (CUZK), P (panic text), r (part of an R)."""

    at: float
    kind: str
    text: str
    thread: str
    key: object


@dataclass(slots=True)
class Change:
    """A change of state: when it was true, when the line that says so was written."""

    true_at: float
    written_at: float
    what: str
    item: Item


Fields = Sequence[tuple[str, object]]


class Daemon:
    """One life of the daemon."""

    def __init__(
        self,
        knobs: Knobs,
        rng: random.Random,
        run: int,
        wall: datetime,
        todo: list[tuple[str, str]],
    ) -> None:
        self.k, self.rng, self.run_no, self.wall = knobs, rng, run, wall
        self.v = knobs.version
        self.sim = Kernel()
        self.lines: list[Line] = []
        self.changes: list[Change] = []
        self.items: list[Item] = []
        self.jobs: list[Job] = []
        self.todo = todo  # (id, kind) that the client will still send
        self.redo: list[tuple[str, str]] = []
        self.tracker = Mutex(self.sim, rng)
        self.stderr = FairMutex(self.sim, rng)  # Rust's: TIMELINE and panics, not the C++ lines
        self.cut_in: Signal | None = None
        shared = self.v <= 18 or self.v == 30  # one lock for the process
        locks = [Mutex(self.sim, rng) for _ in range(1 if shared else knobs.gpus)]
        self.locks = locks * knobs.gpus if shared else locks
        self.b_g2 = Pool(self.sim, knobs.b_g2_pool or 1.5 * knobs.gpus)
        self.dealloc = Mutex(self.sim, rng)
        self.mono_turn = Mutex(self.sim, rng)
        self.pending: list[Item] = []
        self.queue: list[Item] = []
        self.idle: list[Signal] = []
        self.idle_synth: list[Signal] = []
        self.room: list[Signal] = []
        self.memory = knobs.memory_slots
        self.synthesizing = 0
        self.srs_at: dict[str, float] = {}
        self.hints: set[str] = set()
        self.warm: set[int] = set()
        self.released: set[int] = set()
        self.cache: dict[int, str] = {}
        self.buffers = self.free_buffers = 0
        self.flying = 0
        self.to_parse: list[Job] = []
        self.parse_wake = Signal()
        self.pause = Signal()
        self.sent: dict[str, int] = {}
        self.last_complete: float | None = None
        self.task = 19
        self.panicked = False
        self.dispatched = 0

    # ------------------------------------------------------------ time and text

    def tick(self) -> float:
        """Time that code takes between two lines of one thread."""
        return self.rng.uniform(0.004, 0.03)

    def lat(self) -> float:
        """Until a thread or task runs: mostly far below 1 ms, often a scheduler tick of 4 ms."""
        r = self.rng.random()
        if r < self.k.stall:
            return self._stall()
        if r < 0.12:
            return self.rng.uniform(3.5, 4.9) * self.k.jitter + 0.01
        if r < 0.5:
            return self.rng.uniform(0.2, 1.0) * self.k.jitter + 0.01
        return self.rng.uniform(0.02, 0.2) * self.k.jitter + 0.01

    def late(self, most: float = math.inf) -> float:
        """Between computing a figure and writing the line."""
        r = self.rng.random()
        if r < self.k.stall:
            return min(most, self._stall())
        if r < 0.02:
            return self.rng.uniform(0.2, 3.0) * self.k.jitter
        return self.rng.expovariate(100.0) * self.k.jitter

    def late_g(self, it: Item) -> float:
        """The same on the GPU thread, where more than 6 ms in one call was never seen."""
        most = 4.0 if self.rng.random() < 0.012 else 0.02
        spent = min(self.rng.uniform(0.0, most) * self.k.jitter, it.patience)
        it.patience -= spent
        return spent

    def _stall(self) -> float:
        return min(self.k.stall_max, 4.0 * self.rng.paretovariate(0.6))

    def vary(self, mean: float, cv: float) -> float:
        """A log-normal duration."""
        if mean <= 0 or cv <= 0:
            return max(mean, 0.0)
        sigma = math.sqrt(math.log(1 + cv * cv))
        return mean * math.exp(self.rng.gauss(-sigma * sigma / 2, sigma))

    def load(self) -> float:
        """How much other CPU work stretches this one's."""
        return 1.0 + self.k.contention * self.synthesizing / self.k.synth_slots

    def put(self, kind: str, text: str, thread: str, key: object) -> None:
        self.lines.append(Line(self.sim.now, kind, text, thread, key))
        if kind in "CT" and self.cut_in is not None:
            self.sim.fire(self.cut_in, self.rng.uniform(0.001, 0.05))
            self.cut_in = None

    def mark(self, true_at: float, what: str, item: Item) -> None:
        if what == "gone":
            item.gone = true_at
        self.changes.append(Change(true_at, self.sim.now, what, item))

    def tl(self, thread: str, it: Item, event: str, detail: str) -> Steps:
        """A TIMELINE line: the offset is taken, then the line is written, maybe later."""
        offset = int(self.sim.now)
        yield self.late(self.k.stall_clocked)
        yield from self.stderr.acquire()
        text = f"TIMELINE,{offset},{event},{it.job.id},{detail}"
        if self.rng.random() < self.k.torn:
            text = yield from self.tear(text, thread, it)
        self.put("R", text, thread, it.key)
        self.stderr.release()
        yield self.tick()

    def tear(self, text: str, thread: str, it: Item) -> Generator[float | Signal, None, str]:
        """Lose the CPU between the nine writes of a TIMELINE line; returns what is left to write.

        The thread holds stderr's lock meanwhile, so tracing and CUZK lines of other threads come
        between, but no TIMELINE line.
        """
        parts = split_writes(text)
        cuts = self.rng.randint(1, max(1, self.k.intruders))
        at = 0
        for bound in sorted(self.rng.randint(1, len(parts) - 1) for _ in range(cuts)):
            if bound > at:
                self.put("r", "".join(parts[at:bound]), thread, it.key)
                at = bound
            self.cut_in = somebody = Signal()
            # A longer wait with a queue behind it would make offsets go back by seconds.
            patience = min(2.0, self.k.tear_wait) if self.stderr.wanted else self.k.tear_wait
            self.sim.spawn(self.back_on_cpu(somebody), patience)
            yield somebody
        return "".join(parts[at:])[:-1]

    def back_on_cpu(self, somebody: Signal) -> Steps:
        if not somebody.fired:
            self.cut_in = None
            self.sim.fire(somebody)
        yield 0.0

    def log(
        self,
        thread: str,
        key: object,
        target: str,
        message: str,
        fields: Fields = (),
        *,
        span: Sequence[tuple[str, Fields]] = (),
        level: str = "INFO",
    ) -> Steps:
        """A tracing line."""
        stamp = (self.wall + timedelta(milliseconds=self.sim.now)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        text = self.tracing(stamp, level, span, target, (message, fields))
        yield self.late(self.k.stall_clocked)
        self.put("T", text, thread, key)
        yield self.tick()

    def tracing(
        self,
        stamp: str,
        level: str,
        span: Sequence[tuple[str, Fields]],
        target: str,
        text: tuple[str, Fields],
    ) -> str:
        message, fields = text
        if not self.k.ansi:
            spans = "".join(
                name + ("{" + " ".join(f"{n}={v}" for n, v in args) + "}" if args else "") + ":"
                for name, args in span
            )
            tail = "".join(f" {n}={v}" for n, v in fields)
            return f"{stamp} {level:>5} {spans}{' ' if spans else ''}{target}: {message}{tail}"
        color = {"INFO": 32, "WARN": 33, "ERROR": 31, "DEBUG": 34, "TRACE": 35}[level]

        def shown(args: Fields) -> str:
            return " ".join(f"\x1b[3m{n}\x1b[0m\x1b[2m=\x1b[0m{v}" for n, v in args)

        spans = "".join(
            f"\x1b[1m{name}\x1b[0m"
            + (f"\x1b[1m{{\x1b[0m{shown(args)}\x1b[1m}}\x1b[0m" if args else "")
            + "\x1b[2m:\x1b[0m"
            for name, args in span
        )
        tail = f" {shown(fields)}" if fields else ""
        return (
            f"\x1b[2m{stamp}\x1b[0m \x1b[{color}m{level:>5}\x1b[0m {spans}{' ' if spans else ''}"
            f"\x1b[2m{target}\x1b[0m\x1b[2m:\x1b[0m {message}{tail}"
        )

    def c(self, thread: str, it: Item, text: str) -> None:
        self.put("C", f"CUZK_TIMING: {text}", thread, it.key)

    # ------------------------------------------------------------ start

    def boot(self) -> Steps:
        """Everything that a start prints; TIMELINE's zero is this thread's time 0."""
        v, k = self.v, self.k
        workers = k.gpus * k.sub_workers
        gpus = f"[{', '.join(str(g) for g in range(k.gpus))}]"

        def say(target: str, message: str, fields: Fields = ()) -> Steps:
            yield from self.log("main", "boot", target, message, fields)
            yield self.rng.uniform(0.01, 0.2)

        yield from say(DAEMON, "cuzk-daemon starting")
        yield from say(DAEMON, "configuration loaded", [("listen", "0.0.0.0:9820")])
        if v >= 17:
            yield from say(
                DAEMON, "set CUZK_GPU_THREADS for C++ groth16_pool", [("gpu_threads", 32)]
            )
            yield self.rng.uniform(2, 30)
            yield from say(DAEMON, "rayon global thread pool configured", [("rayon_threads", 192)])
        if v >= 33:
            yield from say(ENGINE, "memory budget initialized", [("total_budget_gib", 750)])
        if v >= 41:
            yield from say(ENGINE, "CUDA pinned memory pool initialized")
        yield max(0.0, -self.sim.now)  # the epoch is taken here
        yield self.rng.uniform(0.01, 0.4)
        yield from say(ENGINE, "starting cuzk engine", [("pipeline_enabled", "true")])
        if v >= 33:
            yield from say(ENGINE, "evictor callback wired")
        else:
            yield from say(
                ENGINE, "preloading SRS via SrsManager (Phase 2)", [("circuit_ids", "[Porep32G]")]
            )
            yield from self.load_srs("main", "porep-c2")
            yield from say(
                ENGINE,
                "SRS preloaded (Phase 2)",
                [("circuit_id", "porep-32g"), ("elapsed_ms", int(self.sim.now))],
            )
            yield from say(PIPELINE, "PCE disk preload complete", [("loaded", 1), ("total", 4)])
            yield from say(ENGINE, "PCE disk preload complete", [("loaded", 1)])
        yield self.rng.uniform(5, 250)
        if v <= 18:
            counts: Fields = [("num_workers", k.gpus), ("gpus", gpus)]
        else:
            counts = [
                ("num_gpus", k.gpus),
                ("gpu_workers_per_device", k.sub_workers),
                ("total_workers", workers),
                ("gpus", gpus),
            ]
        yield from say(ENGINE, "initializing GPU workers", counts)
        if v >= 42 and k.pacer:
            yield from say(
                ENGINE, "GPU queue target dispatch pacer enabled", [("gpu_queue_target", 8)]
            )
        head = "starting pipeline: synthesis task + GPU workers"
        if v <= 24:
            yield from say(ENGINE, head, [("lookahead", k.lookahead), ("num_gpus", workers)])
        elif v <= 32:
            fields: list[tuple[str, object]] = [
                ("configured_lookahead", k.lookahead),
                ("partition_workers", k.synth_slots),
                ("effective_lookahead", k.lookahead),
                ("num_gpus", workers),
            ]
            yield from say(ENGINE, head, fields)
        else:
            fields = [
                ("configured_lookahead", k.lookahead),
                ("max_partitions_in_budget", k.memory_slots),
                ("effective_lookahead", k.lookahead),
            ]
            if v >= 37:
                fields.append(("synth_worker_count", k.synth_slots))
            yield from say(ENGINE, f"{head} (budget-gated)", [*fields, ("num_gpus", workers)])
        dispatch: list[tuple[str, object]] = [
            ("max_batch_size", 1),
            ("max_batch_wait_ms", 10000),
            ("slot_size", 0),
            ("synthesis_concurrency", 1),
        ]
        if v <= 17:
            self.sim.spawn(say(ENGINE, "synthesis dispatcher started", dispatch), self.lat())
        elif v <= 32:
            dispatch.append(("partition_workers", k.synth_slots))
            self.sim.spawn(say(ENGINE, "synthesis dispatcher started", dispatch), self.lat())
        else:
            started = "synthesis dispatcher started (budget-gated)"
            self.sim.spawn(say(ENGINE, started, dispatch), self.lat())
        if v >= 39:
            pacer = " (PI pacer)" if v >= 42 else ""
            self.sim.spawn(say(ENGINE, f"synthesis priority dispatcher started{pacer}"), self.lat())
        if v >= 19:
            yield from say(
                ENGINE,
                "spawning GPU workers with Phase 8 dual-worker interlock",
                [("gpu_workers_per_device", k.sub_workers)],
            )
        for worker in range(workers):
            self.sim.spawn(self.worker(worker), self.lat())
        for slot in range(k.synth_slots):
            self.sim.spawn(self.synth_worker(slot))
        self.sim.spawn(self.parser())
        yield from say(
            ENGINE, "cuzk engine started", [("num_workers", workers), ("pipeline", "true")]
        )
        if v >= 35 and k.status:
            yield from say(DAEMON, "status HTTP server listening", [("addr", "0.0.0.0:9821")])
        yield from say(DAEMON, "listening on TCP", [("addr", "0.0.0.0:9820")])
        yield from say(DAEMON, "cuzk-daemon ready, serving on 0.0.0.0:9820")
        yield self.rng.uniform(50, 1500)
        self.sim.spawn(self.client())

    def load_srs(self, thread: str, kind: str) -> Steps:
        """Reads the header; the points are still read in the background when it returns."""
        if kind in self.srs_at:
            return
        circuit = CIRCUIT[kind]
        path = f"/data/zk/params/v28-{circuit}.params"
        yield from self.log(
            thread,
            ("srs", kind),
            SRS,
            "loading SRS from disk",
            [("circuit_id", circuit), ("path", path), ("file_size_gib", SRS_GIB[kind])],
        )
        took = self.vary(min(300.0, 0.2 * self.k.srs), 0.2)
        yield took
        fields: list[tuple[str, object]] = [("circuit_id", circuit), ("elapsed_ms", int(took))]
        if self.v >= 33:
            fields += [("budget_used_gib", SRS_GIB[kind]), ("budget_available_gib", 700)]
        self.srs_at[kind] = self.sim.now + self.vary(self.k.srs, 0.2)
        yield from self.log(thread, ("srs", kind), SRS, "SRS loaded successfully", fields)

    # ------------------------------------------------------------ the client and the dispatcher

    def client(self) -> Steps:
        k = self.k
        while self.todo or self.redo or self.flying:
            over = 0 < k.duration <= self.sim.now
            source = self.todo if self.todo and not over else self.redo
            if over or not source or self.flying >= k.concurrency:
                if over and not self.flying:
                    return
                self.pause = Signal()
                if not self.flying:
                    return
                yield self.pause
                continue
            job_id, kind = source.pop(0)
            self.flying += 1
            yield from self.submit(job_id, kind)
            yield self.rng.choice((0.05, 0.05, self.rng.uniform(1, 40)))

    def submit(self, job_id: str, kind: str) -> Steps:
        mono = not (
            (kind == "porep-c2" and self.v >= 18) or (kind == "snap-update" and self.v >= 29)
        )
        self.sent[job_id] = self.sent.get(job_id, 0) + 1
        job = Job(
            id=job_id,
            kind=kind,
            attempt=self.sent[job_id],
            seq=len(self.jobs),
            total=1 if mono else PARTITIONS[kind],
            mono=mono,
            circuits=PARTITIONS.get(kind, 1) if mono else 1,
            submitted=self.sim.now,
        )
        if (found := re.match(r"wdpost-\d+-(\d+)-", job_id)) is not None:
            job.deadline = int(found[1])
        self.jobs.append(job)
        size = {"porep-c2": 51234567}.get(kind, 0)
        shown = "" if self.k.ids == "uuid" and self.rng.random() < 0.5 else job_id
        me, key = "grpc", ("job", job.seq)
        yield from self.log(
            me,
            key,
            SERVICE,
            "Prove",
            [("request_id", shown), ("proof_kind", PROTO[kind]), ("input_size", size)],
        )
        named: Fields = [("job_id", job_id), ("proof_kind", kind)]
        rank = {"window-post": "High", "winning-post": "Critical"}.get(kind, "Normal")
        queued: Fields = [*named, ("priority", rank), ("queue_position", len(self.to_parse))]
        yield from self.log(me, key, SCHEDULER, "job enqueued", queued)
        self.to_parse.append(job)
        self.sim.fire(self.parse_wake, self.lat())
        self.parse_wake = Signal()

    def parser(self) -> Steps:
        """The dispatcher: one job after the other is parsed and taken apart."""
        while True:
            if not self.to_parse:
                yield self.parse_wake
                continue
            job = self.to_parse.pop(0)
            me, key = "dispatcher", ("job", job.seq)
            named: Fields = [("job_id", job.id), ("proof_kind", job.kind)]
            span = [("synth_single", [("proof_kind", job.kind)])]
            yield from self.log(me, key, SCHEDULER, "job dequeued for proving", named)
            batch: Fields = [("batch_size", 1), ("proof_kind", job.kind), ("slot_size", 0)]
            yield from self.log(me, key, ENGINE, "processing batch", batch, span=span)
            if job.mono:
                self.sim.spawn(self.synth_mono(job), self.lat())
                continue
            yield self.vary(self.k.parse, 0.2)
            yield from self.load_srs(me, job.kind)
            snap = "SnapDeals " if job.kind == "snap-update" else ""
            phase = "" if self.v >= 33 or snap else "Phase 7: "
            gated = " (budget-gated)" if self.v >= 33 else ""
            fields: list[tuple[str, object]] = [("job_id", job.id), ("num_partitions", job.total)]
            if self.v >= 33:
                fields.append(("budget_available_gib", 14 * max(0, self.memory)))
            else:
                fields.append(("partition_workers", self.k.synth_slots))
            message = f"{phase}dispatching per-partition {snap}synthesis{gated}"
            yield from self.log(me, key, ENGINE, message, fields, span=span)
            if self.v >= 38:
                message = f"assigned {snap}pipeline sequence number"
                numbers: Fields = [("job_id", job.id), ("job_seq", job.seq)]
                yield from self.log(me, key, ENGINE, message, numbers, span=span)
            if job.seq == 0 and (not snap):
                yield from self.log(
                    "pce", ("pce", 0), ENGINE, "background PCE extraction starting for PoRep 32G"
                )
            job.first_hint = job.kind in self.hints
            batch_items = [Item(job, p) for p in range(job.total)]
            job.open = job.total
            self.items += batch_items
            if self.v <= 36:
                self.rng.shuffle(batch_items)
            self.pending += batch_items
            for waiting in self.idle_synth:
                self.sim.fire(waiting, self.lat())
            self.idle_synth.clear()

    def closed(self, it: Item) -> None:
        """A partition came to its end; a client that retries waits for all of them."""
        job = it.job
        job.open -= 1
        if job.open == 0:
            self.sim.fire(job.drained)

    def reply(self, job: Job, *, ok: bool) -> None:
        """The client has its answer and may send the next job."""
        if job.replied:
            return
        job.replied, job.ok = True, ok
        if ok:
            self.last_complete = self.sim.now

        def answered() -> Steps:
            if not ok and self.k.retry and job.attempt == 1:
                yield job.drained
                yield self.rng.uniform(30, 900)
                self.redo.append((job.id, job.kind))
            yield self.lat()
            self.flying -= 1
            self.sim.fire(self.pause)

        self.sim.spawn(answered())

    # ------------------------------------------------------------ synthesis

    def give_memory(self) -> None:
        self.memory += 1
        if self.idle_synth:
            self.sim.fire(self.idle_synth.pop(0), self.lat())

    def synth_worker(self, slot: int) -> Steps:
        me = f"sw{slot}"
        while True:
            if not self.pending or self.memory <= 0:
                turn = Signal()
                self.idle_synth.append(turn)
                yield turn
                continue
            if self.v >= 39:
                self.pending.sort(key=lambda it: (it.job.seq, it.partition or 0))
            it = self.pending.pop(0)
            self.memory -= 1
            yield self.tick()
            if it.job.dead:
                named: Fields = [("job_id", it.job.id), ("partition", it.partition)]
                snap = 29 <= self.v <= 36 and it.job.kind == "snap-update"
                message = f"skipping synthesis for failed {'SnapDeals ' if snap else ''}job"
                at = self.sim.now
                yield from self.log(me, it.key, ENGINE, message, named)
                it.state = "skipped"
                self.mark(at, "gone", it)
                self.give_memory()
                self.closed(it)
                continue
            yield from self.pace()
            yield from self.synthesize(it, me)

    def pace(self) -> Steps:
        """The pacer's line on every fifth dispatch, S42 and newer."""
        self.dispatched += 1
        if not self.k.pacer or self.v <= 41 or self.dispatched % 5:
            return
        waiting, flying = len(self.queue), self.k.memory_slots - self.memory
        fields: list[tuple[str, object]] = [("total", self.dispatched)]
        if self.v >= 44:
            fields.append(("in_flight", flying))
        fields += [("waiting", waiting), ("ema_waiting", f'"{waiting * 0.9:.1f}"')]
        if self.v == 42:
            fields.append(("ema_gpu_ms", '"812"'))
        else:
            fields += [
                ("gpu_proc_ms", '"812"'),
                ("gpu_eff_ms", '"406"'),
                ("ema_synth_ms", '"3500"'),
            ]
        fields += [("interval_ms", 350), ("integral", '"0.12"'), ("bootstrap", "false")]
        if self.v >= 43:
            fields.append(("rebootstraps", 0))
        yield from self.log("pacer", "pacer", ENGINE, "pacer: status", fields)

    def synthesize(self, it: Item, me: str) -> Steps:
        job, v = it.job, self.v
        snap = job.kind == "snap-update"
        name = "snap_partition" if snap and 29 <= v <= 36 else "partition"
        sb = f"sb{it.key}"
        at = it.begun = self.sim.now
        yield from self.tl(me, it, "SYNTH_START", f"{name}={it.partition}")
        it.state = "synthesizing"
        self.mark(at, "synth_start", it)
        yield self.lat()
        span = [
            (
                "synthesize_snap_deals_partition" if snap else "synthesize_partition",
                [("job_id", f'"{job.id}"'), ("partition", it.partition)],
            )
        ]
        took = yield from self.burn(it, sb, span)
        if took is None:
            named: Fields = [
                ("error", "an assignment for a variable could not be computed"),
                ("job_id", job.id),
                ("partition", it.partition),
            ]
            which = "SnapDeals partition" if snap and 29 <= v <= 36 else "partition"
            at = self.sim.now
            yield from self.log(
                me, it.key, ENGINE, f"{which} synthesis failed", named, level="ERROR"
            )
            it.state = "failed"
            self.mark(at, "gone", it)
            job.dead = True
            self.reply(job, ok=False)
            self.give_memory()
            self.closed(it)
            return
        done: list[tuple[str, object]] = [("partition", it.partition), ("synth_ms", took)]
        if v >= 41:
            done.append(("is_pinned", str(it.pinned).lower()))
        title = "SnapDeals partition" if snap else "partition"
        yield from self.log(sb, it.key, PIPELINE, f"{title} synthesis complete", done, span=span)
        yield self.lat()
        if self.rng.random() < self.k.sync:  # a late scheduler wakes several tasks together
            yield 250.0 - self.sim.now % 250.0
        at = it.synth_end = self.sim.now
        yield from self.tl(me, it, "SYNTH_END", f"{name}={it.partition},synth_ms={took}")
        it.state = "queued"
        self.mark(at, "synth_end", it)
        if v >= 38:
            message = "partition synthesis complete, pushing to GPU queue"
        else:
            old = title if 29 <= v <= 36 else "partition"
            message = f"{old} synthesis complete, sending to GPU"
        sent: Fields = [("job_id", job.id), ("partition", it.partition), ("synth_ms", took)]
        yield from self.log(me, it.key, ENGINE, message, sent)
        if v >= 38:
            yield from self.tl(me, it, "GPU_QUEUE", f"partition={it.partition}")
        else:
            yield from self.tl(me, it, "CHAN_SEND", f"{name}={it.partition}")
        yield from self.enqueue(it)

    def burn(
        self, it: Item, thread: str, span: Sequence[tuple[str, Fields]]
    ) -> Generator[float | Signal, None, int | None]:
        """The synthesis itself, with the lines of its thread; None if it fails."""
        job, v = it.job, self.v
        circuit: Fields = [("circuit_id", CIRCUIT[job.kind])]

        def say(target: str, message: str, fields: Fields = (), *, inside: bool = True) -> Steps:
            where = span if inside else ()
            yield from self.log(thread, it.key, target, message, fields, span=where)

        pce = v <= 27 and job.kind == "porep-c2"
        hint = job.kind in self.hints
        if pce:
            yield from say(PIPELINE, "using PCE fast path for synthesis", circuit)
        elif v >= 28:
            text = "using standard synthesis path (synthesize_with_hint)"
            yield from say(PIPELINE, text, circuit)
        else:
            yield from say(PIPELINE, "PCE not yet cached — using old synthesis path", circuit)
        if not pce:
            text = (
                "using cached capacity hint for synthesis"
                if hint
                else "no capacity hint cached — first synthesis will grow organically"
            )
            yield from say(PIPELINE, text, circuit)
        it.pinned = v >= 41 and hint and self.rng.random() >= self.k.unpinned
        if it.pinned:
            shape: Fields = [
                *circuit,
                ("num_constraints", 130278869),
                ("scalar_size", 32),
                ("buf_gib", BUF_GIB),
            ]
            yield from say(PIPELINE, "attempting pinned memory synthesis", shape)
            for _ in range(3):
                if self.free_buffers:
                    self.free_buffers -= 1
                    got: Fields = [("size_gib", BUF_GIB), ("free_remaining", self.free_buffers)]
                    yield from say(POOL, "pinned pool: checkout (reuse)", got, inside=False)
                else:
                    self.buffers += 1
                    total = f"{self.buffers * float(BUF_GIB)!r}"
                    got = [
                        ("size_gib", BUF_GIB),
                        ("total_buffers", self.buffers),
                        ("total_gib", total),
                    ]
                    yield from say(POOL, "pinned pool: allocated new buffer", got, inside=False)
            yield from say(PIPELINE, "pinned prover created for partition synthesis", inside=False)
        self.synthesizing += 1
        mean = {"window-post": 0.8, "winning-post": 0.05}.get(job.kind, 1.0) * self.k.synth
        work = self.vary(mean * job.circuits**0.5, self.k.synth_cv)
        began = self.sim.now
        if self.rng.random() < self.k.fail_synth:
            yield work * self.rng.uniform(0.2, 1.0)
            self.synthesizing -= 1
            return None
        if pce:
            yield 0.7 * work
            witness = int(self.sim.now - began)
            count = [("num_circuits", job.circuits)]
            fields: Fields = [*circuit, ("witness_ms", witness), *count]
            yield from say(PIPELINE, "PCE witness generation complete (WitnessCS)", fields)
            mid = self.sim.now
            yield 0.3 * work
            matvec = int(self.sim.now - mid)
            sizes: Fields = [
                ("eval_ms", matvec),
                *[(n, 130278869) for n in ("a_len", "b_len", "c_len")],
            ]
            title = "PCE MatVec evaluation complete"
            yield from say("cuzk_pce::eval", title, sizes, inside=False)
            yield from say(PIPELINE, title, [*circuit, ("eval_ms", matvec), *count])
            parts: Fields = [
                *circuit,
                ("total_pce_ms", int(self.sim.now - began)),
                ("witness_ms", witness),
                ("eval_ms", matvec),
            ]
            yield from say(PIPELINE, "PCE synthesis complete (witness + eval)", parts)
        else:
            yield work
            text = f"synthesis time: {(self.sim.now - began) / 1000:.9f}s"
            yield from say(SUPRASEAL, text)
            yield from say(SUPRASEAL, "starting proof timer")
            learnt: Fields = [
                *circuit,
                ("num_constraints", 130278869),
                ("num_aux", 130169893),
                ("num_inputs", 328),
            ]
            yield from say(PIPELINE, "cached synthesis capacity hint", learnt)
            self.hints.add(job.kind)
        self.synthesizing -= 1
        took = int(self.sim.now - began)
        it.figures["synth_ms"] = took
        return took

    def synth_mono(self, job: Job) -> Steps:
        """A proof in one piece; one at a time, and none is queued before the last was taken."""
        it = Item(job, None)
        job.open = 1
        self.items.append(it)
        yield from self.mono_turn.acquire()
        me, sb = f"mono{job.seq}", f"msb{job.seq}"
        quoted: tuple[str, object] = ("job_id", f'"{job.id}"')
        outer = [("synth_single", [("proof_kind", job.kind)])]
        spans: dict[str, list[tuple[str, Fields]]] = {
            "porep-c2": [("synthesize_porep_c2_batch", [quoted])],
            "snap-update": [("synthesize_snap_deals", [quoted])],
            "window-post": [("synthesize_window_post", [quoted, ("partition", job.deadline)])],
            "winning-post": [("synthesize_winning_post", [quoted])],
        }
        span = spans[job.kind]

        def say(message: str, fields: Fields = ()) -> Steps:
            yield from self.log(sb, it.key, PIPELINE, message, fields, span=span)

        at = it.begun = self.sim.now
        yield from self.tl(me, it, "SYNTH_START", f"kind={job.kind}")
        it.state = "synthesizing"
        self.mark(at, "synth_start", it)
        yield self.lat()
        title = {"window-post": "WindowPoSt", "winning-post": "WinningPoSt"}.get(job.kind, "")
        if job.kind == "window-post":
            yield from say(
                "building WindowPoSt circuit", [("num_sectors", 2349), ("partition", job.deadline)]
            )
            yield self.rng.uniform(5, 60)
            yield from say("synthesizing WindowPoSt circuit")
        elif job.kind == "winning-post":
            yield from say("building WinningPoSt circuit", [("num_sectors", 1)])
            yield from say("synthesizing WinningPoSt circuits", [("num_circuits", 1)])
        elif job.kind == "porep-c2":
            yield self.vary(self.k.parse, 0.2)
            yield from say(
                "building circuits for all partitions (parallel)", [("num_partitions", 10)]
            )
            yield from say("synthesizing all circuits", [("num_circuits", 10)])
        else:
            yield from say(
                "building SnapDeals circuits", [("num_partitions", 16), ("num_vanilla_proofs", 16)]
            )
            yield from say("synthesizing SnapDeals circuits", [("num_circuits", 16)])
        took = yield from self.burn(it, sb, span)
        if took is None:
            at = self.sim.now
            yield from self.log(
                me,
                it.key,
                ENGINE,
                "synthesis failed",
                [("error", "an assignment for a variable could not be computed")],
                span=outer,
                level="ERROR",
            )
            it.state = "failed"
            self.mark(at, "gone", it)
            self.reply(job, ok=False)
            self.closed(it)
            self.mono_turn.release()
            return
        if title:
            await_fields: Fields = [("synth_ms", took), ("num_constraints", 125279217)]
            yield from say(f"{title} synthesis complete", await_fields)
        else:
            whole = "batch" if job.kind == "porep-c2" else "SnapDeals"
            yield from say(
                f"{whole} synthesis complete",
                [
                    ("synth_ms", took),
                    ("num_circuits", job.circuits),
                    ("num_constraints", 1302788690),
                ],
            )
        yield from self.load_srs(sb, job.kind)
        yield self.lat()
        at = it.synth_end = self.sim.now
        yield from self.tl(me, it, "SYNTH_END", f"synth_ms={took}")
        it.state = "queued"
        self.mark(at, "synth_end", it)
        fields: Fields = [
            ("synth_ms", took),
            ("circuit_id", CIRCUIT[job.kind]),
            ("batch_size", 1),
            ("sectors", 1),
        ]
        text = "synthesis complete, sending to GPU"
        yield from self.log(me, it.key, ENGINE, text, fields, span=outer)
        yield from self.tl(
            me, it, *(("GPU_QUEUE", "monolithic") if self.v >= 38 else ("CHAN_SEND", ""))
        )
        while self.v >= 38 and any(
            q.job.mono or (q.job.seq, q.partition) == (0, 0) for q in self.queue
        ):
            yield 1.0  # the real queue would replace one by the other; here none is lost
        yield from self.enqueue(it)
        while it in self.queue:
            yield 0.5
        self.mono_turn.release()

    def enqueue(self, it: Item) -> Steps:
        while self.v <= 37 and len(self.queue) >= self.k.lookahead:
            turn = Signal()
            self.room.append(turn)
            yield turn
        self.queue.append(it)
        if self.v >= 38:
            self.queue.sort(key=lambda q: (0, 0) if q.job.mono else (q.job.seq, q.partition or 0))
        if self.idle:
            turn = self.idle.pop(self.rng.randrange(len(self.idle)))
            self.sim.fire(turn, self.rng.uniform(0.005, 0.08))

    # ------------------------------------------------------------ a GPU worker

    def span_of(self, it: Item, worker: int) -> list[tuple[str, Fields]]:
        fields: list[tuple[str, object]] = [
            ("worker_id", worker),
            ("gpu", worker // self.k.sub_workers),
            ("job_id", it.job.id),
            ("proof_kind", it.job.kind),
            ("batch_size", 1),
        ]
        if self.v >= 18:
            fields.append(("partition", it.opt))
        return [("gpu_worker", fields)]

    def worker(self, worker: int) -> Steps:
        me, v = f"w{worker}", self.v
        gpu, sub = divmod(worker, self.k.sub_workers)
        hello: list[tuple[str, object]] = [("worker_id", worker), ("gpu", gpu)]
        if v >= 19:
            hello.append(("sub_id", sub))
        yield from self.log(me, me, ENGINE, "pipeline GPU worker started", hello)
        while True:
            if not self.queue:
                turn = Signal()
                self.idle.append(turn)
                yield turn
                continue
            it = self.queue.pop(0)
            if self.room:
                self.sim.fire(self.room.pop(0), self.lat())
            yield from self.serve(it, worker, gpu, me)

    def serve(self, it: Item, worker: int, gpu: int, me: str) -> Steps:
        v, job = self.v, it.job
        span = self.span_of(it, worker)
        it.worker = worker
        it.gpu = gpu if v >= 31 else 0  # before, every single-circuit call ran on GPU 0
        part = "" if it.partition is None else f",partition={it.partition}"
        picked = it.pickup = self.sim.now
        yield from self.tl(me, it, "GPU_PICKUP", f"worker={worker}{part}")
        it.state = "gpu"
        self.mark(picked, "pickup", it)
        if v <= 40:
            fields: list[tuple[str, object]] = [("batched", "false")]
            if v >= 18:
                partitioned = str(it.partition is not None).lower()
                fields += [("partitioned", partitioned), ("partition", it.opt)]
            message = "GPU worker picked up synthesized proof"
            yield from self.log(me, it.key, ENGINE, message, fields, span=span)
        waits: list[int] = []
        for _ in range(2):
            asked = self.sim.now
            yield from self.tracker.acquire()
            waits.append(int(self.sim.now - asked))
            yield 0.001
            self.tracker.release()
            if job.dead:
                fields = [("job_id", job.id), ("partition", it.opt)]
                message = "skipping GPU prove for failed partitioned job"
                at = self.sim.now
                yield from self.log(me, it.key, ENGINE, message, fields, span=span)
                it.state = "skipped"
                self.mark(at, "gone", it)
                self.give_back_buffers(it)
                if not job.mono:
                    self.give_memory()
                self.closed(it)
                return
        if v >= 41:
            fields = [
                ("worker_id", worker),
                ("partition", it.opt),
                ("status_ms", 0),
                ("fail_check_ms", waits[0]),
                ("mark_busy_ms", waits[1]),
                ("total_overhead_ms", int(self.sim.now - picked)),
            ]
            message = "GPU_TIMING hot_path pre-prove overhead"
            yield from self.log(me, it.key, ENGINE, message, fields, span=span)
        at = it.start = self.sim.now
        yield from self.tl(me, it, "GPU_START", f"worker={worker}{part}")
        self.mark(at, "start", it)
        spawned, returned = self.sim.now, Signal()
        self.task += 1
        task = self.task
        self.sim.spawn(self.prove(it, returned, spawned), self.lat())
        yield returned
        yield self.lat()
        if v >= 41:
            fields = [
                ("worker_id", worker),
                ("partition", it.opt),
                ("total_pre_prove_ms", int(self.sim.now - picked)),
                ("spawn_blocking_wall_ms", int(self.sim.now - spawned)),
            ]
            message = "GPU_TIMING prove_start returned"
            yield from self.log(me, it.key, ENGINE, message, fields, span=span)
        if not job.mono:
            self.give_memory()
        if it.failing:
            yield from self.start_failed(it, me, span, task)
            return
        if v >= 24:
            self.sim.spawn(self.finalize(it, worker), self.lat())
            return
        yield from self.result(it, me, span)

    def give_back_buffers(self, it: Item) -> None:
        if it.pinned:
            it.pinned = False
            self.free_buffers += 3

    def start_failed(
        self, it: Item, me: str, span: Sequence[tuple[str, Fields]], task: int
    ) -> Steps:
        job = it.job
        escaped = OOM.replace('"', '\\"')
        error = ("error", f'task {task} panicked with message "{escaped}"')
        fields: list[tuple[str, object]] = [error]
        if self.v >= 24:
            message = "GPU prove start task panicked"
        elif job.mono:
            message = "GPU proving task panicked"
        else:
            message = "partition GPU proving task panicked"
            fields += [("job_id", job.id), ("partition", it.partition)]
            job.dead = True
        at = self.sim.now
        it.end = at
        yield from self.log(me, it.key, ENGINE, message, fields, span=span, level="ERROR")
        it.state = "failed"
        self.mark(at, "gone", it)
        self.reply(job, ok=False)
        self.closed(it)

    # ------------------------------------------------------------ one prove call: threads M, P, G

    def prove(self, it: Item, returned: Signal, spawned: float) -> Steps:
        k, v, sim = self.k, self.v, self.sim
        me, fig, job = f"m{it.key}", it.figures, it.job
        assert it.worker is not None
        assert it.gpu is not None
        lock = self.locks[it.worker // k.sub_workers]
        it.failing = self.rng.random() < k.fail_gpu
        entry = it.entry = sim.now
        since = entry  # what setup_to_split and pre_destructor count from
        yield self.tick()
        if v <= 18:  # the whole call is locked
            yield from lock.acquire()
            it.acq = since = sim.now
            fig["lock_wait_ms"] = int(sim.now - entry)
            fig["pre_lock_cpu_ms"] = 0
            self.mark(sim.now, "acquire", it)
        if sim.now < (ready := self.srs_at.get(job.kind, 0.0)):
            yield ready - sim.now
            yield self.lat()
        at = sim.now
        slow = self.rng.random() < k.split_slow
        yield self.rng.uniform(50, 400) if slow else self.rng.expovariate(2.0)
        fig["split_vectors_ms"] = int(sim.now - at)
        setup = int(sim.now - since)
        yield self.late()
        self.c(me, it, f"split_vectors_ms={fig['split_vectors_ms']} setup_to_split_ms={setup}")
        sim.spawn(self.prepare(it), self.lat())
        prestaged = 20 <= v <= 27 and job.circuits == 1
        if prestaged:
            yield self.vary(0.4 * k.prestage, 0.3)  # pinning host pages
            if self.rng.random() < k.pin_fallback:
                prestaged = False
                self.c(me, it, "host_register=fallback err=304")
        yield self.tick()
        if v >= 19:
            asked = sim.now
            fig["pre_lock_cpu_ms"] = int(asked - entry)
            yield from lock.acquire()
            it.acq = sim.now
            fig["lock_wait_ms"] = int(sim.now - asked)
            if v >= 41:
                yield self.rng.uniform(0.002, 0.02)
                self.c(
                    me,
                    it,
                    f"pre_lock_cpu_ms={fig['pre_lock_cpu_ms']} mutex_wait_ms={fig['lock_wait_ms']}",
                )
            self.mark(it.acq, "acquire", it)
        acquired = it.acq
        assert acquired is not None
        if it.failing:
            if v >= 28 and it.gpu not in self.released:
                yield self.lat()
                self.released.add(it.gpu)
                self.c(me, it, f"set pool release threshold to MAX on gpu {it.gpu}")
            yield self.rng.choice((self.rng.uniform(2, 20), self.rng.uniform(100, 1200)))
        else:
            if prestaged:
                yield from self.stage(it, me)
            finished = Signal()
            sim.spawn(self.gpu_thread(it, finished), self.lat())
            yield finished
            yield self.lat()
            if prestaged:
                yield self.rng.uniform(0.2, 3.0)
        if v >= 19:
            at = sim.now
            fig["lock_held_ms"] = int(at - acquired)
            yield self.rng.uniform(0.001, 0.05)
            fig["total_start_fn_ms"] = int(sim.now - entry)
            if v >= 41:
                self.c(
                    me,
                    it,
                    f"mutex_held_ms={fig['lock_held_ms']} "
                    f"total_start_fn_ms={fig['total_start_fn_ms']}",
                )
            it.rel = sim.now
            lock.release()
            self.mark(at, "release", it)
            yield self.tick()
        if it.failing:
            if v <= 18:
                it.rel = sim.now
                lock.release()
                self.mark(sim.now, "release", it)
            yield from self.stderr.acquire()
            self.put("P", "", me, it.key)
            head = "thread 'tokio-runtime-worker' panicked at extern/supraseal-c2/src/lib.rs:318:9:"
            self.put("P", head, me, it.key)
            yield 0.01
            self.put("P", OOM, me, it.key)
            if not self.panicked:
                self.panicked = True
                note = "run with `RUST_BACKTRACE=1` environment variable to display a backtrace"
                self.put("P", f"note: {note}", me, it.key)
            self.stderr.release()
            yield self.lat()
            yield from self.checkin(it, me)
            sim.fire(returned)
            return
        if v >= 24:
            pinned = it.pinned
            yield (
                self.rng.uniform(0.03, 4.0)
                if pinned
                else self.rng.expovariate(1 / max(0.05, k.free))
            )
            if not pinned and self.rng.random() < 0.05 * (k.jitter > 0):
                yield self.rng.uniform(20, 290)
            yield from self.checkin(it, me)
            if v >= 41:
                fields: Fields = [
                    ("worker_id", it.worker),
                    ("partition", it.opt),
                    ("spawn_to_enter_ms", int(entry - spawned)),
                    ("prove_start_ms", int(sim.now - entry)),
                ]
                text = "GPU_TIMING spawn_blocking prove_start"
                yield from self.log(me, it.key, ENGINE, text, fields)
            sim.fire(returned)
            return
        yield it.b_done
        yield self.lat()
        at = sim.now
        yield self.rng.uniform(0.2, 4.0)
        epilogue, total = int(sim.now - at), int(sim.now - since)
        yield self.late()
        self.c(me, it, f"epilogue_ms={epilogue} pre_destructor_ms={total}")
        if v <= 18:
            it.rel = sim.now
            fig["lock_held_ms"] = int(sim.now - acquired)
            lock.release()
            self.mark(sim.now, "release", it)
        sim.spawn(self.drop_vectors(it), self.lat())
        yield self.rng.uniform(0.1, 3.0)
        span: list[tuple[str, Fields]] = [
            ("gpu_prove", [("circuit_id", CIRCUIT[job.kind]), ("partition", it.opt)])
        ]
        fig["gpu_ms"] = int(sim.now - entry)
        seconds = f"GPU prove time: {(sim.now - entry) / 1000:.9f}s"
        yield from self.log(me, it.key, SUPRASEAL, seconds, span=span)
        done: Fields = [
            ("proof_count", job.circuits),
            ("proof_bytes", 192 * job.circuits),
            ("gpu_ms", fig["gpu_ms"]),
        ]
        yield from self.log(me, it.key, PIPELINE, "GPU prove complete", done, span=span)
        yield from self.gpu_end(it, me)
        sim.fire(returned)

    def gpu_end(self, it: Item, me: str) -> Steps:
        job = it.job
        number = it.partition
        if self.v >= 24 and job.kind == "window-post" and it.partition is None:
            number = job.deadline
        part = "" if number is None else f",partition={number}"
        at = it.end = self.sim.now
        detail = f"worker={it.worker}{part},gpu_ms={it.figures['gpu_ms']}"
        yield from self.tl(me, it, "GPU_END", detail)
        it.state, it.finished = "done", True
        self.mark(at, "end", it)

    def checkin(self, it: Item, me: str) -> Steps:
        if it.pinned:
            for _ in range(3):
                size: Fields = [("size_gib", BUF_GIB)]
                yield from self.log(me, it.key, POOL, "pinned pool: checkin", size)
            self.give_back_buffers(it)

    def stage(self, it: Item, me: str) -> Steps:
        """Prestaging under the lock, S20–S27."""
        k = self.k
        sync, trim, alloc, upload = (self.vary(k.prestage * s, 0.3) for s in (0.2, 0.06, 0.5, 0.24))
        yield sync + trim
        yield self.late_g(it)
        self.c(
            me,
            it,
            "prestage_vram free_mib=15466 usable_mib=14954 need_da_mib=4096 need_dbc_mib=8192 "
            "total_mib=12288",
        )
        if self.rng.random() < k.prestage_fallback:
            choice = self.rng.randrange(3)
            if choice == 0:
                self.c(me, it, "prestage_setup=skip_vram")
            elif choice == 1:
                yield alloc
                self.c(me, it, "prestage_setup=fallback err=700")
            return
        yield alloc + upload
        text = "prestage_setup=ok domain=134217728 lot_of_memory=1"
        if self.v == 21:
            text += (
                f" sync_ms={int(sync)} trim_ms={int(trim)} alloc_ms={int(alloc)}"
                f" upload_ms={int(upload)} total_ps_ms={int(sync + trim + alloc + upload)}"
            )
        yield self.late_g(it)
        self.c(me, it, text)

    def prepare(self, it: Item) -> Steps:
        """Thread P: prep_msm, then b_g2_msm."""
        me, sim, k = f"p{it.key}", self.sim, self.k
        many = it.job.circuits
        small = 0.1 if it.job.kind == "winning-post" else 1.0
        at = sim.now
        yield self.vary(k.prep * small * many * self.load(), k.prep_cv)
        it.figures["prep_msm_ms"] = int(sim.now - at)
        yield self.late()
        self.c(me, it, f"prep_msm_ms={it.figures['prep_msm_ms']}")
        yield self.rng.uniform(0.001, 0.02)
        sim.fire(it.prep_done, self.rng.uniform(0.01, 0.3))
        if it.failing and self.rng.random() >= k.late_b_g2:
            return
        at = sim.now
        yield from self.b_g2.work(self.vary(k.b_g2 * small * many * self.load(), k.b_g2_cv))
        it.figures["b_g2_msm_ms"] = int(sim.now - at)
        yield self.late()
        self.c(me, it, f"b_g2_msm_ms={it.figures['b_g2_msm_ms']} num_circuits={many}")
        sim.fire(it.b_done)

    def gpu_thread(self, it: Item, finished: Signal) -> Steps:
        """Thread G, under the lock."""
        me, sim, k, v, fig = f"g{it.key}", self.sim, self.k, self.v, it.figures
        assert it.gpu is not None
        many = it.job.circuits
        small = 0.1 if it.job.kind == "winning-post" else 1.0
        began = sim.now
        if v >= 28 and it.gpu not in self.released:
            self.released.add(it.gpu)
            yield self.tick()
            self.c(me, it, f"set pool release threshold to MAX on gpu {it.gpu}")
        extra = 0.0
        if it.gpu not in self.warm and k.cold > 0:
            self.warm.add(it.gpu)
            extra = self.rng.uniform(0.3, 1.0) * k.cold
        shape = CIRCUIT[it.job.kind]
        if v >= 28 and self.cache.get(it.gpu) != shape:
            self.cache[it.gpu] = shape
            yield 0.3 * extra + self.rng.uniform(0.2, 3)
            size = 64 if it.job.kind == "winning-post" else 4096
            self.c(me, it, f"d_a_cache allocated {size} MiB on gpu {it.gpu}")
        inner = sim.now
        unpinned = v >= 28 and not it.pinned
        copies = self.vary(0.6 * k.ntt, 0.3) if unpinned and v >= 41 else 0.0
        yield self.vary(k.ntt * small * many, k.kernel_cv) + copies + 0.7 * extra
        if v >= 28:
            yield from self.ntt_h(it, me, sim.now - inner, unpinned=unpinned)
        at = sim.now
        it.kernels.append((began, at))
        fig["ntt_msm_h_ms"] = int(at - began)
        yield self.late_g(it)
        self.c(me, it, f"gpu_tid=0 ntt_msm_h_ms={fig['ntt_msm_h_ms']}")
        at = sim.now
        if not it.prep_done.fired:
            yield it.prep_done
        fig["barrier_wait_ms"] = int(sim.now - at)
        if v >= 41:
            yield self.late_g(it)
            self.c(me, it, f"gpu_tid=0 barrier_wait_ms={fig['barrier_wait_ms']}")
        at = sim.now
        yield self.vary(k.batch * small * many, k.kernel_cv)
        it.kernels.append((at, sim.now))
        fig["batch_add_ms"] = int(sim.now - at)
        yield self.late_g(it)
        self.c(me, it, f"gpu_tid=0 batch_add_ms={fig['batch_add_ms']}")
        at = sim.now
        yield self.vary(k.tail * small * many, 4 * k.kernel_cv)
        it.kernels.append((at, sim.now))
        fig["tail_msm_ms"] = int(sim.now - at)
        fig["gpu_total_ms"] = int(sim.now - began)
        yield self.late_g(it)
        self.c(
            me,
            it,
            f"gpu_tid=0 tail_msm_ms={fig['tail_msm_ms']} gpu_total_ms={fig['gpu_total_ms']}",
        )
        sim.fire(finished)

    def ntt_h(self, it: Item, me: str, took: float, *, unpinned: bool) -> Steps:
        """C5, once a circuit."""
        for _ in range(it.job.circuits):
            total = took / it.job.circuits
            alloc = self.rng.uniform(1.5, 4.0)
            kernels = 0.55 * total if unpinned else 0.4
            sync, init, dtor = 0.08 * total, 0.03 * total, 0.5
            invoke = max(0.0, total - alloc - kernels - sync - init - dtor)
            parts = zip(
                (
                    "d_b_alloc",
                    "ntt_kernels",
                    "coset_intt_sync",
                    "msm_init",
                    "msm_invoke",
                    "msm_dtor",
                ),
                (alloc, kernels, sync, init, invoke, dtor),
                strict=True,
            )
            text = " ".join(f"{name}={int(ms)}ms" for name, ms in parts)
            wall = total + self.rng.uniform(0.0, 0.6)  # the wall clock's, so it may exceed C6
            yield 0.002
            self.put("C", f"CUZK_NTT_H: {text} total={int(wall)}ms", me, it.key)

    def drop_vectors(self, it: Item) -> Steps:
        """Thread D: frees what a call left."""
        me = f"d{it.key}"
        if self.v >= 23:
            yield from self.dealloc.acquire()
        at = self.sim.now
        yield self.vary(self.k.dealloc, 0.8) + 0.1
        took = int(self.sim.now - at)
        if self.v >= 23:
            self.dealloc.release()
        yield self.late()
        self.c(me, it, f"async_dealloc_ms={took}")

    # ------------------------------------------------------------ after the call

    def finalize(self, it: Item, worker: int) -> Steps:
        """The finalizer of a call, S24 and newer."""
        v, sim, job, fig = self.v, self.sim, it.job, it.figures
        me = f"f{it.key}"
        began = sim.now
        yield self.lat()
        yield it.b_done
        yield self.lat()
        yield self.rng.uniform(1.0, 4.0)
        sim.spawn(self.drop_vectors(it), self.lat())
        if self.rng.random() < self.k.fail_finish:
            yield self.lat()
            at = it.end = sim.now
            error: list[tuple[str, object]] = [("error", "GPU prove finish failed: MalformedProof")]
            title = "GPU proving failed"
            if not job.mono:
                title = "partition GPU proving failed"
                error += [("job_id", job.id), ("partition", it.partition)]
            yield from self.log(me, it.key, ENGINE, title, error, level="ERROR")
            it.state = "failed"
            self.mark(at, "gone", it)
            job.dead = True
            self.reply(job, ok=False)
            self.closed(it)
            return
        fig["gpu_ms"] = int(sim.now - it.entry)
        done: Fields = [
            ("proof_count", job.circuits),
            ("proof_bytes", 192 * job.circuits),
            ("gpu_ms", fig["gpu_ms"]),
        ]
        yield from self.log(me, it.key, PIPELINE, "GPU prove complete (split)", done)
        yield from self.gpu_end(it, me)
        yield self.lat()
        finish = int(sim.now - began)
        asked = sim.now
        yield from self.tracker.acquire()
        waited, at = int(sim.now - asked), sim.now
        yield from self.process(it, me, ())
        self.tracker.release()
        processed, total = int(sim.now - at), int(sim.now - began)
        if v >= 41:
            fields: list[tuple[str, object]] = [("worker_id", worker)]
            if not job.mono:
                fields.append(("partition", it.opt))
            fields += [
                ("finish_ms", finish),
                ("drop_res_ms", 0),
                ("lock_wait_ms", waited),
                ("process_ms", processed),
                ("total_ms", total),
            ]
            what = "monolithic" if job.mono else "partition"
            yield from self.log(me, it.key, ENGINE, f"FIN_TIMING finalizer {what}", fields)
        self.closed(it)

    def result(self, it: Item, me: str, span: Sequence[tuple[str, Fields]]) -> Steps:
        """What a worker does with a result, before S24."""
        yield from self.tracker.acquire()
        yield from self.process(it, me, span)
        self.tracker.release()
        self.closed(it)

    def process(self, it: Item, me: str, span: Sequence[tuple[str, Fields]]) -> Steps:
        """A result is taken into its job, under the tracker's lock."""
        job, sim, v = it.job, self.sim, self.v
        fig = it.figures

        def say(message: str, fields: Fields = (), *, level: str = "INFO") -> Steps:
            yield from self.log(me, it.key, ENGINE, message, fields, span=span, level=level)

        if job.mono:
            fields: Fields = [
                ("proof_len", 192 * job.circuits),
                ("total_ms", int(sim.now - job.submitted)),
                ("queue_ms", 0),
                ("synth_ms", fig["synth_ms"]),
                ("gpu_ms", fig["gpu_ms"]),
            ]
            yield from say("proof completed successfully (pipeline)", fields)
            self.reply(job, ok=True)
            return
        named: Fields = [("job_id", job.id), ("partition", it.partition)]
        path = "discard" if job.dead else "success"
        if job.dead:
            yield from say("discarding GPU result for failed job", named)
        else:
            job.filled += 1
            job.synth_sum += fig["synth_ms"]
            job.gpu_sum += fig["gpu_ms"]
            whole = int(job.filled == job.total)
            fields = [*named, ("gpu_ms", fig["gpu_ms"]), ("filled", whole)]
            yield from say("partition GPU prove complete", fields)
        at = sim.now
        yield self.vary(self.k.trim, 0.7)
        if v >= 41:
            fields = [*named, ("malloc_trim_ms", int(sim.now - at))]
            yield from say(f"FIN_TIMING malloc_trim ({path} path)", fields)
        if job.dead or job.filled < job.total:
            return
        fields = [
            ("job_id", job.id),
            ("proof_len", 192 * job.total),
            ("total_ms", int(sim.now - job.submitted)),
            ("synth_ms", job.synth_sum),
            ("gpu_ms", job.gpu_sum),
        ]
        yield from say("Phase 7: all partitions complete, proof assembled", fields)
        passed = True
        if v >= 28 and job.kind == "porep-c2":
            passed = yield from self.self_check(it, me)
        self.reply(job, ok=passed)

    def self_check(self, it: Item, me: str) -> Generator[float | Signal, None, bool]:
        job = it.job
        quoted = f'"{job.id}"'
        span = [("verify_porep_proof", [("job_id", quoted)])]
        sector = 1000 + job.seq
        proof: Fields = [
            ("registered_proof", "StackedDrg32GiBV1_1"),
            ("proof_len", 1920),
            ("sector_number", sector),
            ("miner_id", 1000),
        ]
        yield from self.log(
            me, it.key, PROVER, "verifying PoRep proof (self-check)", proof, span=span
        )
        seal, caches = "filecoin_proofs::api::seal", "filecoin_proofs::caches"
        cache = "STACKED[34359738368]-verifying-key"
        for target, text in (
            (seal, f"verify_seal:start: SectorId({sector})"),
            (caches, f"trying parameters memory cache for: {cache}"),
            (caches, f"found params in memory cache for {cache}"),
        ):
            yield from self.log(me, it.key, target, text, span=span)
        yield self.vary(self.k.check, 0.3)
        text = f"verify_seal:finish: SectorId({sector})"
        yield from self.log(me, it.key, seal, text, span=span)
        if self.v >= 32 and self.rng.random() < self.k.fail_check:
            text = "PoRep proof self-check FAILED — proof is invalid"
            fields: Fields = [("job_id", quoted), *proof]
            yield from self.log(me, it.key, PROVER, text, fields, span=span, level="WARN")
            text = "Phase 7: PoRep proof self-check FAILED — proof will NOT be returned to caller"
            fields = [("job_id", job.id), ("proof_len", 1920), ("sector", sector), ("miner", 1000)]
            yield from self.log(me, it.key, ENGINE, text, fields, level="ERROR")
            yield self.rng.uniform(5, 60)
            text = (
                "Phase 7: per-partition verification results "
                "(invalid partitions produced bad proofs)"
            )
            bad = self.rng.randrange(job.total)
            good = [p for p in range(job.total) if p != bad]
            fields = [
                ("job_id", job.id),
                ("valid_partitions", good),
                ("invalid_partitions", [bad]),
            ]
            yield from self.log(me, it.key, ENGINE, text, fields, level="ERROR")
            return False
        text = "PoRep proof self-check PASSED"
        yield from self.log(me, it.key, PROVER, text, [("job_id", quoted)], span=span)
        yield from self.log(me, it.key, ENGINE, f"Phase 7: {text}", [("job_id", job.id)])
        return True


# ---------------------------------------------------------------- the truth about it

Span = tuple[float, float]


def union(spans: Iterable[Span]) -> list[Span]:
    """Spans without overlap, in order."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def clip(spans: Iterable[Span], low: float, high: float) -> list[Span]:
    """What of the spans lies between `low` and `high`."""
    return [(max(a, low), min(b, high)) for a, b in spans if min(b, high) > max(a, low)]


def covered(spans: Iterable[Span]) -> float:
    """Total length, counting overlaps as often as they come."""
    return sum(b - a for a, b in spans)


def minus(spans: list[Span], holes: list[Span]) -> list[Span]:
    """`spans` without `holes`; both as `union` gives them."""
    left: list[Span] = []
    for start, end in spans:
        at = start
        for low, high in holes:
            if high <= at or low >= end:
                continue
            if low > at:
                left.append((at, low))
            at = max(at, high)
        if at < end:
            left.append((at, end))
    return left


@dataclass(slots=True)
class Spans:
    """What truly happened at one GPU between its first GPU_START and its last GPU_END."""

    low: float
    high: float
    bracket_sum: float
    ended: int
    brackets: list[Span]
    locks: list[Span]
    kernels: list[Span]
    barriers: list[Span]
    work: list[Span]  # some partition synthesizing, queued or picked up


def spans_of(daemon: Daemon, gpu: int) -> Spans | None:
    """None if nothing ended on that GPU."""
    now = daemon.sim.now
    mine = [it for it in daemon.items if it.gpu == gpu and it.start is not None]
    ended = [it for it in mine if it.finished and it.end is not None]
    if not ended:
        return None
    low = min(it.start for it in mine if it.start is not None)
    high = max(it.end for it in ended if it.end is not None)

    def inside(spans: Iterable[Span]) -> list[Span]:
        return union(clip(spans, low, high))

    locks = inside((it.acq, it.rel or now) for it in mine if it.acq is not None)
    waits = inside(
        (it.kernels[0][1], it.kernels[1][0] if len(it.kernels) > 1 else now)
        for it in mine
        if it.kernels
    )
    return Spans(
        low=low,
        high=high,
        bracket_sum=sum((it.end or 0.0) - (it.start or 0.0) for it in ended),
        ended=len(ended),
        brackets=inside((it.start or 0.0, now if it.end is None else it.end) for it in mine),
        locks=locks,
        kernels=inside(s for it in mine for s in it.kernels),
        barriers=[s for w in waits if w[1] - w[0] >= 1.0 for s in clip(locks, *w)],
        work=inside(
            (it.begun, begun_until(it, now)) for it in daemon.items if it.begun is not None
        ),
    )


def gpu_truth(spans: Spans, gpu: int) -> dict[str, Any]:
    """A GPU's figures."""
    low, high = spans.low, spans.high

    def pct(ms: float) -> float:
        return round(100 * ms / (high - low), 2) if high > low else 0.0

    left: list[Span] = [(low, high)]
    shares: dict[str, float] = {}
    for name, covering in (
        ("kernel", spans.kernels),
        ("barrier", spans.barriers),
        ("lock_overhead", spans.locks),
        ("handoff", spans.brackets),
        ("starved", spans.work),
    ):
        rest = minus(left, covering)
        shares[name] = pct(covered(left) - covered(rest))
        left = rest
    shares["no_work"] = pct(covered(left))
    gaps = minus([(low, high)], spans.brackets)
    return {
        "gpu": gpu,
        "span_ms": round(high - low, 1),
        "first_gpu_start_ms": round(low, 1),
        "last_gpu_end_ms": round(high, 1),
        "bracket_union_pct": pct(covered(spans.brackets)),
        "bracket_sum_pct": pct(spans.bracket_sum),
        "lock_held_pct": pct(covered(spans.locks)),
        "kernel_pct": pct(covered(spans.kernels)),
        "gap_count": len(gaps),
        "gap_mean_ms": round(covered(gaps) / len(gaps), 1) if gaps else None,
        "partitions": spans.ended,
        "time_pct": shares,
    }


def begun_until(it: Item, now: float) -> float:
    """When a partition stopped being synthesized, queued or picked up."""
    if it.start is not None:
        return it.start
    return now if it.gone is None else it.gone


def verdict_of(daemon: Daemon, gpus: list[dict[str, Any]]) -> str | None:
    """The contract's rule; None where two answers lie within three points."""
    weight = sum(g["span_ms"] for g in gpus)
    if not weight:
        return None
    share = {
        name: sum(g["time_pct"][name] * g["span_ms"] for g in gpus) / weight
        for name in gpus[0]["time_pct"]
    }
    if share["kernel"] >= 83:
        return "gpu"
    if share["kernel"] > 77:
        return None
    answers = set()
    for cpu in (share["barrier"] + share["handoff"], max(share["barrier"], share["handoff"])):
        ranked = sorted(
            [
                (cpu, "cpu-memory"),
                (share["lock_overhead"], "lock"),
                (share["starved"], "synthesis"),
                (share["no_work"], "idle"),
            ],
            reverse=True,
        )
        answers.add(ranked[0][1] if ranked[0][0] - ranked[1][0] > 3 else None)
    if len(answers) != 1:
        return None
    answer = answers.pop()
    return herding(daemon, [g["gpu"] for g in gpus]) if answer == "synthesis" else answer


def herding(daemon: Daemon, gpus: list[int]) -> str | None:
    """Whether the starved time ends in waves of syntheses; None where that is close."""
    done = [it for it in daemon.items if it.synth_end is not None and it.begun is not None]
    took = sorted((it.synth_end or 0.0) - (it.begun or 0.0) for it in done)
    edges = sorted(
        [(it.begun or 0.0, 1) for it in done] + [(it.synth_end or 0.0, -1) for it in done]
    )
    flying, levels = 0, []
    for at, ((time, step), after) in enumerate(itertools.pairwise(edges)):
        flying += step
        levels.append((flying, after[0] - time, at))
    levels.sort()
    half, median = sum(ms for _, ms, _ in levels) / 2, 0
    for level, ms, _ in levels:
        half -= ms
        if half <= 0:
            median = level
            break
    reach = 0.15 * took[len(took) // 2]
    shares = []
    for need in (max(4, median // 2 - 1), max(4, -(-median // 2) + 1)):
        starved = wave = 0.0
        for gpu in gpus:
            spans = spans_of(daemon, gpu)
            assert spans is not None
            for gap in minus([(spans.low, spans.high)], spans.brackets):
                ms = covered(clip(spans.work, *gap))
                near = sum(abs((it.synth_end or 0.0) - gap[1]) <= reach for it in done)
                starved += ms
                wave += ms * (near >= need)
        shares.append(wave / starved if starved else 0.0)
    if min(shares) > 0.85:
        return "herding"
    return "synthesis" if max(shares) < 0.65 else None


FIGURES = (
    "split_vectors_ms",
    "pre_lock_cpu_ms",
    "lock_wait_ms",
    "prep_msm_ms",
    "b_g2_msm_ms",
    "ntt_msm_h_ms",
    "barrier_wait_ms",
    "batch_add_ms",
    "tail_msm_ms",
    "gpu_total_ms",
    "lock_held_ms",
    "total_start_fn_ms",
    "synth_ms",
    "gpu_ms",
)


def run_truth(daemon: Daemon, first_call: int, *, killed: bool) -> dict[str, Any]:
    """A run's part of truth.json; `first_call` numbers its partitions across runs."""
    partitions: list[dict[str, Any]] = []
    for it in daemon.items:
        state = it.state
        if state == "pending" and (not killed or it.job.mono):
            continue
        if state not in ("done", "failed", "skipped") and killed:
            state = "lost"
        partitions.append(
            {
                "job": it.job.id,
                "attempt": it.job.attempt,
                "partition": it.partition,
                "kind": KIND[it.job.kind],
                "worker": it.worker if it.pickup is not None else None,
                "gpu": it.gpu if it.pickup is not None else None,
                "state": state,
                "start_ms": None if it.start is None else round(it.start, 1),
                "call": first_call + len(partitions),
                **{name: it.figures[name] for name in FIGURES if name in it.figures},
            }
        )
    gpus = [
        gpu_truth(spans, gpu)
        for gpu in range(daemon.k.gpus)
        if (spans := spans_of(daemon, gpu)) is not None
    ]
    submitted = min((j.submitted for j in daemon.jobs), default=None)
    last = daemon.last_complete
    return {
        "run": daemon.run_no,
        "proofs_completed": sum(j.ok is True for j in daemon.jobs),
        "proofs_failed": sum(j.ok is False for j in daemon.jobs),
        "first_submit_ms": None if submitted is None else round(submitted, 1),
        "last_complete_ms": None if last is None else round(last, 1),
        "gpus": gpus,
        "partitions": partitions,
    }


def state_at(daemon: Daemon, changes: Sequence[Change]) -> dict[str, Any]:
    """The lists of a cut after these changes."""
    synth: list[Item] = []
    queue: list[Item] = []
    bracket: list[Item] = []
    holding: list[Item] = []
    over: list[Item] = []
    for change in changes:
        it = change.item
        match change.what:
            case "synth_start":
                synth.append(it)
            case "synth_end":
                synth.remove(it)
                queue.append(it)
            case "pickup":
                queue.remove(it)
            case "start":
                bracket.append(it)
            case "acquire":
                holding.append(it)
            case "release":
                holding.remove(it)
                over.append(it)
            case _:
                for held in (synth, queue, bracket, holding, over):
                    if it in held:
                        held.remove(it)

    def at_gpu(it: Item) -> dict[str, Any]:
        return {"worker": it.worker, **it.name}

    gpus = []
    for gpu in range(daemon.k.gpus if daemon.v >= 31 else 1):
        mine = [it for it in bracket if it.gpu == gpu]
        holder = [it for it in mine if it in holding]
        gpus.append(
            {
                "gpu": gpu,
                "holder": at_gpu(holder[0]) if holder else None,
                "waiting": [at_gpu(it) for it in mine if it not in holding and it not in over],
                "preparing": [],
                "finishing": [at_gpu(it) for it in mine if it in over],
            }
        )
    return {
        "syntheses": [it.name for it in synth],
        "gpu_queue": [it.name for it in queue],
        "gpus": gpus,
    }


def cuts_of(daemon: Daemon, ends: list[tuple[int, float]], wanted: int) -> list[dict[str, Any]]:
    """Up to `wanted` cuts in quiet moments; `ends` are (byte, time) after complete lines."""
    changes = sorted(daemon.changes, key=lambda c: c.written_at)
    busy = union((c.true_at - CUT_MARGIN_MS, c.written_at + CUT_MARGIN_MS) for c in changes) + [
        (it.pickup, it.start)
        for it in daemon.items
        if it.pickup is not None and it.start is not None and it.start - it.pickup > CUT_MARGIN_MS
    ]
    busy = union(busy)
    quiet: list[tuple[int, float]] = []
    at = 0
    for byte, time in ends:
        while at < len(busy) and busy[at][1] < time:
            at += 1
        if time > 0 and (at == len(busy) or busy[at][0] > time):
            quiet.append((byte, time))
    daemon.rng.shuffle(quiet)
    cuts = []
    for byte, time in sorted(quiet[:wanted]):
        before = [c for c in changes if c.written_at <= time]
        cuts.append({"at_byte": byte, "t_ms": round(time, 1), **state_at(daemon, before)})
    return cuts


# ---------------------------------------------------------------- bytes


def pieces_of(lines: list[Line]) -> tuple[list[tuple[str, float, bool]], int]:
    """The file in pieces (text, time, whether all is complete after it); the torn lines."""
    pieces: list[tuple[str, float, bool]] = []
    torn = 0
    pending, cut = False, False
    for line in lines:
        if line.kind == "r":
            pending = True
            pieces.append((line.text, line.at, False))
            continue
        if line.kind == "R":
            torn += cut
            pending = cut = False
        elif pending:
            cut = True
        pieces.append((line.text + "\n", line.at, not pending))
    return pieces, torn


def drop_complete_head(lines: list[Line]) -> None:
    """Of a TIMELINE line cut by a kill, don't leave all but the LF: that would count."""
    at = max((i for i, line in enumerate(lines) if line.kind in "rR"), default=-1)
    if at >= 0 and lines[at].kind == "r":
        del lines[at]


def split_writes(text: str) -> list[str]:
    """A TIMELINE line as the daemon writes it: prefix, offset, event, job, detail, commas, LF."""
    head, offset, event, rest = text.split(",", 3)
    own = DETAIL[event].search(rest)
    assert own is not None
    parts = [f"{head},", offset, ",", event, ",", rest[: own.start()], ","]
    return [*parts, *([own[1]] if own[1] else []), "\n"]


DETAIL = {
    "SYNTH_START": re.compile(r",(kind=[a-z0-9-]+|(?:snap_)?partition=\d+)\Z"),
    "SYNTH_END": re.compile(r",((?:(?:snap_)?partition=\d+,)?synth_ms=\d+)\Z"),
    "CHAN_SEND": re.compile(r",((?:snap_)?partition=\d+|)\Z"),
    "GPU_QUEUE": re.compile(r",(partition=\d+|monolithic)\Z"),
    "GPU_PICKUP": re.compile(r",(worker=\d+(?:,partition=\d+)?)\Z"),
    "GPU_START": re.compile(r",(worker=\d+(?:,partition=\d+)?)\Z"),
    "GPU_END": re.compile(r",(worker=\d+(?:,partition=\d+)?,gpu_ms=\d+)\Z"),
}


def job_list(knobs: Knobs, rng: random.Random) -> list[tuple[str, str]]:
    """(id, kind) of every job that the client will send."""
    names = {
        "porep": "porep-c2",
        "snap": "snap-update",
        "wdpost": "window-post",
        "winpost": "winning-post",
    }
    kinds = knobs.kind.split("+")
    todo = []
    for n in range(knobs.jobs):
        kind = names[kinds[n % len(kinds)]]
        sector = 40000 + n
        eight = [rng.randrange(256) for _ in range(8)]
        curio = {
            "porep-c2": f"porep-{1000 + n % 3}-{sector}",
            "snap-update": f"snap-1000-{sector}",
            "window-post": f"wdpost-1000-{n % 5}-[{' '.join(str(b) for b in eight)}]",
            "winning-post": f"winpost-1000-{bytes(eight).hex()}",
        }[kind]
        weird = rng.choice(
            (
                f"my job, no. {n}",
                f"sector={sector}, deal [a, b]",
                f"p,{n},worker=9",
                f"ps-porep-1000-{sector}-{n}",
                f"Auftrag № {n} (größer)",
            )
        )
        plain = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        todo.append(({"uuid": plain, "curio": curio, "weird": weird}[knobs.ids], kind))
    return todo


def simulate(knobs: Knobs) -> tuple[bytes, dict[str, Any]]:
    """One log and its truth."""
    rng = random.Random(knobs.seed)
    wall = datetime.fromisoformat(knobs.start).replace(tzinfo=UTC)
    todo = job_list(knobs, rng)
    log = bytearray()
    runs: list[dict[str, Any]] = []
    cuts: list[dict[str, Any]] = []
    verdicts: list[str | None] = []
    owners: list[list[Any]] = []
    torn = 0
    for number in range(knobs.runs):
        daemon = Daemon(knobs, rng, number, wall, list(todo))
        daemon.sim.now = -rng.uniform(20, 60)
        daemon.sim.spawn(daemon.boot())
        killed = number < knobs.runs - 1 and knobs.kill > 0
        daemon.sim.run(knobs.kill if killed else math.inf)
        if killed:
            daemon.sim.now = knobs.kill
            done = {j.id for j in daemon.jobs if j.ok}
            todo = [(job, kind) for job, kind in todo if job not in done]
            drop_complete_head(daemon.lines)
        pieces, broken = pieces_of(daemon.lines)
        torn += broken
        ends: list[tuple[int, float]] = []
        for text, at, complete in pieces:
            log += text.encode()
            if complete:
                ends.append((len(log), at))
        runs.append(run_truth(daemon, sum(len(r["partitions"]) for r in runs), killed=killed))
        calls: dict[object, int] = {
            (p["job"], p["attempt"], p["partition"]): p["call"] for p in runs[-1]["partitions"]
        }
        owners += [
            [round(line.at, 3), calls.get(line.key), line.text]
            for line in daemon.lines
            if line.kind == "C"
        ]
        share = knobs.cuts // knobs.runs
        cuts += cuts_of(daemon, ends, share)
        verdicts.append(verdict_of(daemon, runs[-1]["gpus"]))
        wall += timedelta(milliseconds=daemon.sim.now + rng.uniform(900, 6000))
    scenario = dataclasses.asdict(knobs) | {
        "name": f"s{knobs.version}",
        "version": "head" if knobs.version >= 41 else f"s{knobs.version}",
        "gw": knobs.sub_workers,
        "torn_lines": torn,
    }
    same = verdicts[0] if len(set(verdicts)) == 1 else None
    return bytes(log), {
        "scenario": scenario,
        "runs": runs,
        "cuts": cuts,
        "verdict": same,
        "cuzk_lines": owners,  # [ms since the run's zero, the owner's `call`, the text]
    }


# ---------------------------------------------------------------- damage, for tests

TRACING = re.compile(rb"(?:\x1b\[2m)?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z(?:\x1b\[0m)? [^\n]*\n")


def cut_front(log: bytes, fraction: float) -> bytes:
    """The log without its first part, from the next line start on."""
    at = log.find(b"\n", int(len(log) * fraction))
    return log[at + 1 :] if at >= 0 else b""


def only_stream(log: bytes, stream: str) -> bytes:
    """What the file would hold had only "stdout" or "stderr" been redirected into it."""
    if stream == "stdout":
        return b"".join(TRACING.findall(log))
    return TRACING.sub(b"", log)


def drop_lines(log: bytes, share: float, seed: int) -> bytes:
    """The log without a random share of its lines."""
    rng = random.Random(seed)
    return b"".join(line for line in log.splitlines(keepends=True) if rng.random() >= share)


def double_lines(log: bytes, every: int) -> bytes:
    """The log with every so many-th line written twice."""
    lines = log.splitlines(keepends=True)
    return b"".join(line * (2 if at % every == 0 else 1) for at, line in enumerate(lines))


# ---------------------------------------------------------------- named scenarios and the command

SCENARIOS: dict[str, Knobs] = {
    "s45-1x1": Knobs(gpus=1, workers=1, jobs=6, seed=11),
    "s45-1x2": Knobs(gpus=1, workers=2, jobs=10, seed=12),
    "s45-1x3": Knobs(gpus=1, workers=3, jobs=10, seed=13),
    "s45-2x2": Knobs(
        gpus=2, workers=2, jobs=16, seed=22, ansi=True, slots=12, prep=520, prep_cv=0.4
    ),
    "s45-4x3": Knobs(
        gpus=4, workers=3, jobs=24, seed=43, concurrency=6, slots=26, prep=800, prep_cv=0.4
    ),
    "s45-8x3": Knobs(
        gpus=8,
        workers=3,
        jobs=200,
        seed=83,
        concurrency=12,
        duration=52000,
        slots=52,
        prep=600,
        b_g2=420,
    ),
    "s45-torn100": Knobs(gpus=2, workers=2, jobs=10, seed=100, torn=1.0, intruders=4, ansi=True),
    "s45-fail": Knobs(
        gpus=2,
        workers=2,
        jobs=24,
        seed=5,
        fail_gpu=0.03,
        fail_synth=0.01,
        fail_finish=0.01,
        fail_check=0.15,
        retry=True,
        ids="curio",
    ),
    "s45-wdpost": Knobs(
        gpus=2, workers=2, jobs=24, seed=6, kind="wdpost+porep+winpost+snap", ids="curio"
    ),
    "s45-jitter": Knobs(
        gpus=2,
        workers=3,
        jobs=16,
        seed=7,
        jitter=2.0,
        stall=0.015,
        split_slow=0.1,
        contention=1.2,
        b_g2=320,
        sync=0.4,
        cold=6000,
    ),
    "s45-late-b_g2": Knobs(gpus=2, workers=2, jobs=16, seed=8, b_g2=480, contention=0.8),
    "s45-twins": Knobs(gpus=4, workers=2, jobs=20, seed=9, kernel_cv=0.004, sync=0.6),
    "s45-barrier": Knobs(gpus=1, workers=2, jobs=10, seed=14, prep=900, prep_cv=0.4),
    "s45-starved": Knobs(
        gpus=1,
        workers=2,
        jobs=6,
        seed=15,
        slots=2,
        sync=0,
        srs=300,
        cold=500,
        prep=200,
        split_slow=0,
    ),
    "s45-herd": Knobs(
        gpus=1,
        workers=2,
        jobs=10,
        seed=19,
        slots=20,
        synth=26000,
        synth_cv=0.02,
        inflight=80,
        concurrency=4,
        srs=300,
        prep=300,
    ),
    "s45-kill": Knobs(gpus=1, workers=2, jobs=10, seed=16, runs=3, kill=20000, ids="curio"),
    "s45-weird": Knobs(gpus=1, workers=2, jobs=8, seed=17, ids="weird", torn=0.2),
    "s45-calm": Knobs(
        gpus=1, workers=2, jobs=8, seed=18, jitter=0, stall=0, split_slow=0, sync=0, torn=0, cold=0
    ),
}
SCENARIOS |= {
    "s16-mixed": Knobs(version=16, jobs=12, seed=160, kind="porep+wdpost+winpost"),
    "s18-2x1": Knobs(version=18, gpus=2, jobs=10, seed=180),
    "s19-1x3": Knobs(version=19, workers=3, jobs=10, seed=193),
    "s19-2x2": Knobs(version=19, gpus=2, jobs=10, seed=192),
    "s20-mixed": Knobs(
        version=20, jobs=16, seed=200, kind="porep+wdpost+snap+winpost", ids="curio"
    ),
    "s21-fallback": Knobs(
        version=21, jobs=8, seed=210, pin_fallback=0.1, prestage_fallback=0.1, ansi=True
    ),
    "s23-fail": Knobs(version=23, jobs=16, seed=230, fail_gpu=0.02, fail_synth=0.01, retry=True),
    "s23-jitter": Knobs(version=23, jobs=12, seed=231, jitter=2, stall=0.015, b_g2=600),
    "s24-1x3": Knobs(version=24, workers=3, jobs=10, seed=243),
    "s24-fail": Knobs(
        version=24, jobs=16, seed=244, fail_gpu=0.02, fail_synth=0.01, fail_finish=0.02, retry=True
    ),
    "s28-2x2": Knobs(version=28, gpus=2, jobs=10, seed=282),
    "s30-2x2": Knobs(version=30, gpus=2, jobs=10, seed=302),
    "s31-2x2": Knobs(version=31, gpus=2, jobs=16, seed=312),
    "s31-4x2": Knobs(version=31, gpus=4, jobs=24, seed=314, concurrency=6),
    "s32-jitter": Knobs(version=32, gpus=2, jobs=12, seed=320, jitter=2, stall=0.015, b_g2=440),
    "s35-snap": Knobs(version=35, gpus=2, jobs=12, seed=350, kind="snap+porep", ids="curio"),
    "s36-torn": Knobs(
        version=36, jobs=8, seed=360, kind="snap+porep", torn=1.0, ids="weird", ansi=True
    ),
    "s37-8x2": Knobs(
        version=37, gpus=8, jobs=200, seed=378, concurrency=12, duration=30000, kind="porep+snap"
    ),
    "s38-1x4": Knobs(version=38, workers=4, jobs=10, seed=384),
    "s40-kill": Knobs(version=40, gpus=2, jobs=10, seed=401, runs=2, kill=15000, ids="curio"),
    "s40-wdpost": Knobs(
        version=40, gpus=2, jobs=24, seed=400, kind="wdpost+porep+winpost+snap", ids="curio"
    ),
    "s40-fail": Knobs(
        version=40, gpus=2, jobs=20, seed=402, fail_gpu=0.02, fail_finish=0.01, fail_check=0.1
    ),
    "s41-2x3": Knobs(version=41, gpus=2, workers=3, jobs=12, seed=413),
    "s42-pacer": Knobs(version=42, jobs=8, seed=420, pacer=True, status=True),
}
for _step in range(16, 46):
    SCENARIOS.setdefault(
        f"s{_step}", Knobs(version=_step, gpus=1, workers=2, jobs=10, seed=1000 + _step)
    )


def write(folder: Path, knobs: Knobs, name: str) -> dict[str, Any]:
    """Simulate and write daemon.log and truth.json."""
    log, truth = simulate(knobs)
    truth["scenario"]["name"] = name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "daemon.log").write_bytes(log)
    (folder / "truth.json").write_text(json.dumps(truth))
    return truth


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("outdir", type=Path)
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="start from this one's knobs")
    for item in dataclasses.fields(Knobs):
        flag = f"--{item.name.replace('_', '-')}"
        if isinstance(item.default, bool):
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=None)
        elif item.name == "version":
            parser.add_argument(flag, type=lambda text: int(text.lstrip("sS")), default=None)
        else:
            parser.add_argument(flag, type=type(item.default), default=None)
    args = vars(parser.parse_args(argv))
    outdir, scenario = args.pop("outdir"), args.pop("scenario")
    given = {name: value for name, value in args.items() if value is not None}
    knobs = replace(SCENARIOS[scenario] if scenario else Knobs(), **given)
    truth = write(outdir, knobs, outdir.name)
    sys.stdout.write(
        f"{outdir}: {sum(len(r['partitions']) for r in truth['runs'])} partitions, "
        f"{sum(r['proofs_completed'] for r in truth['runs'])} proofs, "
        f"{len(truth['cuts'])} cuts, {truth['scenario']['torn_lines']} torn, "
        f"verdict {truth['verdict']}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
