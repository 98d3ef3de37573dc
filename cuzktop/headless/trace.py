"""`cuzktop trace`: the log as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing.

Events are written as they become known, so memory doesn't grow with the log and the file isn't in
order of time; neither viewer asks for that. What they do ask for is kept: slices of a row never
overlap unless one holds the other, ids of asynchronous slices are balanced, and thread ids are
unique over all processes (Perfetto names threads by them).

- process "jobs": a row a synthesis slot, each proof as an asynchronous slice, failures and restarts
  as instants, and counters of syntheses in flight and of partitions queued for a GPU
- process "GPU n", or a word for several that the log doesn't tell apart: row "lock", where the lock
  was held and which stage ran under it; each worker's brackets with their lock waits as
  asynchronous slices, for they overlap; NVML's counters

Times are microseconds from the first run's TIMELINE zero; later runs lie where their wall clock
puts them. A figure that isn't printed or whose owner is inferred carries `NOT_PRINTED` in its name.
The format: "Trace Event Format", Google.
"""

from __future__ import annotations

import json
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TextIO

from cuzktop import events as ev
from cuzktop.analysis.rows import partition_row
from cuzktop.analysis.summary import gpu_phases, is_placed, started_us
from cuzktop.cards import MIXED
from cuzktop.columns import ATTRIBUTED, NOT_PRINTED
from cuzktop.dataclass import dataclass, field
from cuzktop.frame import PartitionRow
from cuzktop.headless import parts
from cuzktop.headless.blocks import place
from cuzktop.model.reduce import Model
from cuzktop.model.state import Partition, Run
from cuzktop.reading import Parser

SCHEMA: Final = "cuzktop.trace/1"

JOBS_PID: Final = 1
SOME_GPU_PID: Final = 9  # of calls on any of several GPUs
GPU_PID: Final = 10  # of GPU 0; the others follow
TIDS: Final = 1000  # thread ids a process

TRIM_US: Final = 10_000  # locks are placed to some ms: where they overlap by less, one is cut
KEEP_LOCKS: Final = 512  # a row's latest slices; calls are settled at most some hundred late
RUN_GAP_MS: Final = 1000.0  # between two runs whose wall clocks are unknown
SAMPLES_AFTER_MS: Final = 5000.0  # readings from later than this after the log's end are left out
NAME_LENGTH: Final = 160

STAGES: Final = (
    ("ntt_msm_h", "ntt_msm_h_ms"),
    ("barrier", "barrier_wait_ms"),
    ("batch_add", "batch_add_ms"),
    ("tail_msm", "tail_msm_ms"),
)
"""Under the lock, in order: a slice's name and the figure that is its length."""

_encode: Final = json.JSONEncoder(allow_nan=False).encode


@dataclass(slots=True)
class TraceCounts:
    """What was written: trace events, partitions, and of them those with a figure inferred."""

    events: int = 0
    runs: int = 0
    partitions: int = 0
    inferred: int = 0
    samples: int = 0
    samples_outside: int = 0  # before or after the log, or with no clock to place them by


def write_trace(
    out: TextIO,
    log: Iterable[bytes],
    parser: Parser,
    samples: Iterable[ev.GpuSampled] = (),
    name: str = "",
) -> TraceCounts:
    """Read a whole log and write its trace. `name` says where the log comes from.

    A counter holds its last value where readings are missing: the format knows no gaps. Raises what
    `out` and the iterables raise.
    """
    writer = _Writer(out)
    tracer = _Tracer(writer)
    out.write('{"displayTimeUnit": "ms",\n"traceEvents": [')
    for block in log:
        tracer.feed(parser.feed(block))
    tracer.feed(parser.finish())
    tracer.finish()
    for reading in samples:
        tracer.sample(reading)
    tracer.name_gpus()
    counts = tracer.counts
    counts.events = writer.count
    about = {
        "schema": SCHEMA,
        "log": parts.text(name),
        "runs": [
            {
                "run": run.index,
                "epoch_us": run.epoch_us,
                "offset_ms": parts.ms(run.offset_ms),
                "end_ms": parts.ms(run.end_ms),
            }
            for run in tracer.runs
        ],
    }
    out.write(f'],\n"otherData": {_encode(about)}}}\n')
    return counts


class _Writer:
    """Events, one a line; rows are named when they first appear."""

    def __init__(self, out: TextIO) -> None:
        self.count = 0
        self._out = out
        self._named: set[tuple[int, int]] = set()

    def put(self, event: Mapping[str, Any]) -> None:
        self._out.write(",\n" if self.count else "\n")
        self._out.write(_encode(event))
        self.count += 1

    def process(self, pid: int, name: str) -> None:
        """Name a process, once."""
        if (pid, 0) not in self._named:
            self._named.add((pid, 0))
            for what, args in (
                ("process_name", {"name": name}),
                ("process_sort_index", {"sort_index": pid}),
            ):
                self.put({"ph": "M", "pid": pid, "tid": pid * TIDS, "name": what, "args": args})

    def row(self, pid: int, index: int, name: str) -> int:
        """Name a row of a process, once; its thread id."""
        tid = pid * TIDS + 1 + index
        if (pid, tid) not in self._named:
            self._named.add((pid, tid))
            for what, args in (
                ("thread_name", {"name": name}),
                ("thread_sort_index", {"sort_index": index}),
            ):
                self.put({"ph": "M", "pid": pid, "tid": tid, "name": what, "args": args})
        return tid

    def slice(
        self, pid: int, tid: int, name: str, span: tuple[int, int], args: Mapping[str, Any]
    ) -> None:
        """A complete event; `span` is from, to in µs. What holds others is put before them."""
        self.put(
            {
                "ph": "X",
                "pid": pid,
                "tid": tid,
                "ts": span[0],
                "dur": span[1] - span[0],
                "name": parts.text(name[:NAME_LENGTH]),
                "args": args,
            }
        )

    def counter(self, pid: int, name: str, unit: str, at_us: int, value: float) -> None:
        self.put(
            {
                "ph": "C",
                "pid": pid,
                "tid": pid * TIDS,
                "ts": at_us,
                "name": name,
                "args": {unit: value},
            }
        )

    def instant(
        self, name: str, at_us: int, args: Mapping[str, Any], *, everywhere: bool = False
    ) -> None:
        self.put(
            {
                "ph": "i",
                "pid": JOBS_PID,
                "tid": JOBS_PID * TIDS,
                "ts": at_us,
                "s": "g" if everywhere else "p",
                "name": parts.text(name[:NAME_LENGTH]),
                "args": args,
            }
        )


@dataclass(frozen=True, slots=True)
class _Nested:
    """Asynchronous slices of one id: each holds those after it until they end."""

    writer: _Writer
    pid: int
    category: str
    id: str

    def begin(self, name: str, at_us: int, args: Mapping[str, Any] | None = None) -> None:
        self._put("b", name, at_us, args)

    def end(self, name: str, at_us: int) -> None:
        self._put("e", name, at_us, None)

    def _put(self, phase: str, name: str, at_us: int, args: Mapping[str, Any] | None) -> None:
        event = {
            "ph": phase,
            "cat": self.category,
            "id": self.id,
            "pid": self.pid,
            "tid": self.pid * TIDS,
            "ts": at_us,
            "name": parts.text(name[:NAME_LENGTH]),
        }
        self.writer.put(event if args is None else {**event, "args": args})


class _Slots:
    """Rows for syntheses: each is taken by one at a time, the lowest free one first."""

    def __init__(self) -> None:
        self._free_at: list[int | None] = []  # None: taken

    def take(self, at_us: int) -> int:
        """A row that has been free since `at_us` or longer; lines may be out of order by ms."""
        for slot, free_at in enumerate(self._free_at):
            if free_at is not None and free_at <= at_us:
                self._free_at[slot] = None
                return slot
        self._free_at.append(None)
        return len(self._free_at) - 1

    def give_back(self, slot: int, at_us: int) -> None:
        self._free_at[slot] = at_us


class _Lane:
    """One row of a GPU's locks: slices that don't overlap, the latest of them remembered."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []
        self._floor = 0  # what lies before it is forgotten, and taken

    def fit(self, start: int, end: int, latest: int) -> tuple[int, int, int] | None:
        """From and to of a span in this row, and by how much it was moved to fit.

        Where it overlaps the one before, it is moved, but not to end after `latest`; an overlap of
        a few ms is cut. None if there is no room for it.
        """
        spans = self._spans
        index = bisect_left(spans, (start, start))
        before = max(self._floor, spans[index - 1][1] if index else 0)
        after = spans[index][0] if index < len(spans) else None
        moved = max(0, min(before - start, latest - end))
        if after is not None:
            moved = max(0, min(moved, after - end))
        start, end = start + moved, end + moved
        if before - start > TRIM_US or (after is not None and end - after > TRIM_US):
            return None
        start, end = max(start, before), end if after is None else min(end, after)
        if end <= start:
            return None
        insort(spans, (start, end))
        if len(spans) > KEEP_LOCKS:
            self._floor = max(self._floor, spans.pop(0)[1])
        return start, end, moved


@dataclass(frozen=True, slots=True)
class _Synthesis:
    slot: int
    start_us: int
    attempt: int
    kind: str | None


@dataclass(slots=True)
class _Proof:
    """A proof whose end isn't known yet; `last_us` is when it was last heard of."""

    start_us: int
    last_us: int
    kind: str | None
    failed: bool = False
    message: str = ""


@dataclass(slots=True)
class _RunPlace:
    """Where a run lies in the trace."""

    index: int
    offset_ms: float
    epoch_us: int | None = None
    end_ms: float = 0.0  # on the run's own clock


Key = tuple[str, int | None]  # job, partition


@dataclass(slots=True)
class _RunState:
    """What is open in the current run."""

    syntheses: dict[Key, deque[_Synthesis]] = field(default_factory=dict)
    queued: set[Key] = field(default_factory=set)
    proofs: dict[tuple[str, int], _Proof] = field(default_factory=dict)  # job, attempt
    in_flight: int = 0
    lost: int = 0


class _Tracer:
    """Follows the model through a log and writes down what has become certain."""

    def __init__(self, writer: _Writer) -> None:
        self.counts = TraceCounts()
        self.runs: list[_RunPlace] = []
        self._writer = writer
        self._model = Model(self._finished, self._run_ended)
        self._state = _RunState()
        self._slots = _Slots()
        self._lanes: dict[int, list[_Lane]] = {}  # by process
        self._gpus: set[int] = set()  # processes
        self._measured: set[int] = set()  # those with readings
        self._mixed: set[int] = set()  # those with calls of several GPUs
        self._ids = 0
        self._counted_us = 0  # counters go forward only: lines are out of order by some ms

    # ------------------------------------------------------------ reading

    def feed(self, events: Iterable[ev.LogEvent]) -> None:
        """Take events in, in the order of the log."""
        feed, rules = self._model.feed, RULES
        for event in events:
            if feed((event,)):
                continue
            rule = rules.get(type(event))
            if rule is not None:
                rule(self, event)

    def finish(self) -> None:
        """The log is at its end: write what is still open, as far as it got."""
        self._model.finish()
        run = self._model.run
        for partition in run.unfinished():
            self._bracket_so_far(run, partition)
        self._close_run(run, over=False)

    def _place(self, run: Run) -> _RunPlace:
        """Where the run lies; fixed when it first matters."""
        if self.runs and self.runs[-1].index == run.index:
            return self.runs[-1]
        offset_ms = 0.0
        if self.runs:
            before = self.runs[-1]
            end_ms = before.offset_ms + before.end_ms
            offset_ms = end_ms + RUN_GAP_MS
            if before.epoch_us is not None and run.epoch_us is not None:
                apart_ms = (run.epoch_us - before.epoch_us) / 1000.0
                offset_ms = max(end_ms, before.offset_ms + apart_ms)  # a clock may be set back
        place = _RunPlace(run.index, offset_ms)
        self.runs.append(place)
        self.counts.runs += 1
        self._writer.process(JOBS_PID, "jobs")
        if run.index or started_us(run) is not None:
            self._writer.instant(
                f"run {run.index}: daemon started", self._us(run, 0.0), {}, everywhere=True
            )
        return place

    def _us(self, run: Run, at_ms: float) -> int:
        """A time on the run's clock as the trace's."""
        return max(0, round((self._place(run).offset_ms + at_ms) * 1000.0))

    # ------------------------------------------------------------ syntheses and the queue

    def synth_started(self, event: ev.SynthStarted) -> None:
        """A synthesis takes a row; its proof begins with its first."""
        run, state = self._model.run, self._state
        at_us = self._us(run, event.at_ms)
        job = run.jobs[event.job]
        state.syntheses.setdefault((event.job, event.partition), deque()).append(
            _Synthesis(self._slots.take(at_us), at_us, job.attempt, job.kind)
        )
        state.proofs.setdefault(
            (event.job, job.attempt), _Proof(start_us=at_us, last_us=at_us, kind=job.kind)
        )
        state.in_flight += 1
        self._count("syntheses", "in flight", at_us, state.in_flight)

    def synth_ended(self, event: ev.SynthEnded) -> None:
        """A synthesis gives its row back, and its partition is queued."""
        run, key = self._model.run, (event.job, event.partition)
        at_us = self._us(run, event.at_ms)
        if not self._end_synthesis(key, None, at_us, {"synth_ms": event.synth_ms}):
            self._unseen_synthesis(run, key, event.at_ms, event.synth_ms)
        self._queue(key, at_us, waits=True)

    def synthesis_seen(self, event: ev.SynthesisSeen) -> None:
        """The same from a log without TIMELINE lines."""
        run = self._model.run
        if run.timeline_seen or run.epoch_us is None:
            return
        at_ms = (event.wall_us - run.epoch_us) / 1000.0
        self._unseen_synthesis(run, (event.job, event.partition), at_ms, event.synth_ms)

    def _unseen_synthesis(self, run: Run, key: Key, at_ms: float, synth_ms: int) -> None:
        """A synthesis that began before the log, or whose beginning isn't printed."""
        start_us, end_us = self._us(run, at_ms - synth_ms), self._us(run, at_ms)
        job = run.jobs.get(key[0])
        slot = self._slots.take(start_us)
        synthesis = _Synthesis(slot, start_us, 1 if job is None else job.attempt, None)
        self._put_synthesis(
            key, synthesis, end_us, {"synth_ms": synth_ms, "derived": ["start"]}, NOT_PRINTED
        )

    def _end_synthesis(
        self, key: Key, attempt: int | None, at_us: int, args: Mapping[str, Any]
    ) -> bool:
        """Write an open synthesis, the oldest of that partition or its `attempt`'s."""
        opened = self._state.syntheses.get(key)
        if not opened:
            return False
        for synthesis in opened:
            if attempt is None or synthesis.attempt == attempt:
                break
        else:
            return False
        opened.remove(synthesis)
        if not opened:
            del self._state.syntheses[key]
        self._put_synthesis(key, synthesis, at_us, args)
        self._state.in_flight -= 1
        self._count("syntheses", "in flight", at_us, self._state.in_flight)
        return True

    def _put_synthesis(
        self,
        key: Key,
        synthesis: _Synthesis,
        at_us: int,
        args: Mapping[str, Any],
        mark: str = "",
    ) -> None:
        end_us = max(at_us, synthesis.start_us)
        self._slots.give_back(synthesis.slot, end_us)
        tid = self._writer.row(JOBS_PID, synthesis.slot, f"synthesis slot {synthesis.slot + 1}")
        self._writer.slice(
            JOBS_PID,
            tid,
            mark + place(*key),
            (synthesis.start_us, end_us),
            {
                "job": parts.text(key[0]),
                "attempt": synthesis.attempt,
                "partition": key[1],
                "kind": synthesis.kind,
                **args,
            },
        )

    def queued(self, event: ev.GpuQueued) -> None:
        """GPU_QUEUE or CHAN_SEND: it is queued already, unless SYNTH_END is missing."""
        at_us = self._us(self._model.run, event.at_ms)
        self._queue((event.job, event.partition), at_us, waits=True)

    def picked_up(self, event: ev.GpuPickedUp | ev.GpuStarted) -> None:
        """GPU_PICKUP or, where that line is missing, GPU_START."""
        at_us = self._us(self._model.run, event.at_ms)
        self._queue((event.job, event.partition), at_us, waits=False)

    def _queue(self, key: Key, at_us: int, *, waits: bool) -> None:
        queued = self._state.queued
        if waits == (key in queued):
            return
        if waits:
            queued.add(key)
        else:
            queued.discard(key)
        self._count("GPU queue", "partitions", at_us, len(queued))

    def _count(self, name: str, unit: str, at_us: int, value: int) -> None:
        self._counted_us = max(self._counted_us, at_us)
        self._writer.counter(JOBS_PID, name, unit, self._counted_us, value)

    # ------------------------------------------------------------ proofs, failures, runs

    def assembled(self, event: ev.JobAssembled) -> None:
        """A proof is complete."""
        run = self._model.run
        job = run.jobs.get(event.job)
        if job is not None and job.assembled is not None:
            self._end_proof((job.id, job.attempt), self._us(run, job.assembled), "")

    def _end_proof(self, key: tuple[str, int], at_us: int, how: str) -> None:
        proof = self._state.proofs.pop(key, None)
        if proof is None:
            return
        job, attempt = key
        args = {"job": parts.text(job), "attempt": attempt, "kind": proof.kind}
        if proof.message:
            args["message"] = parts.text(proof.message)
        nested = self._nested(JOBS_PID, "proof")
        title = f"{job}{'' if attempt == 1 else f' attempt {attempt}'}{how}"
        end_us = max(proof.start_us, at_us)
        # Perfetto gathers asynchronous slices of one name in one group: the outer name is the group
        nested.begin("proofs", proof.start_us)
        nested.begin(title, proof.start_us, args)
        nested.end(title, end_us)
        nested.end("proofs", end_us)

    def _nested(self, pid: int, category: str) -> _Nested:
        self._ids += 1
        return _Nested(self._writer, pid, category, f"0x{self._ids:x}")

    def failed(self, event: ev.PartitionFailed) -> None:
        """An ERROR that ended a partition."""
        args = {"job": parts.text(event.job), "partition": event.partition, "stage": event.stage}
        self._instant(event.text, args)

    def self_checked(self, event: ev.SelfCheck) -> None:
        """The self-check's answer; only a bad one is shown."""
        if not event.passed:
            self._instant(f"self-check failed: {event.job}", {"job": parts.text(event.job)})

    def noticed(self, event: ev.Noticed) -> None:
        """A WARN, an ERROR or a crash's text."""
        self._instant(event.text, {"level": event.level})

    def _instant(self, text: str, args: Mapping[str, Any]) -> None:
        run = self._model.run
        self._writer.instant(text, self._us(run, run.clock), {**args, "text": parts.text(text)})

    def _run_ended(self, run: Run) -> None:
        self._close_run(run, over=True)

    def _close_run(self, run: Run, *, over: bool) -> None:
        """Write what the run leaves open; the daemon is gone, or the log is at its end."""
        heard = run.timeline_seen or run.timing_seen or bool(run.jobs)
        if not heard and not self.runs:
            return
        run_place = self._place(run)
        self._find_mixed(run)
        state, end_us = self._state, self._us(run, run.clock)
        how = " (lost)" if over else " (in flight)"
        for key in list(state.syntheses):
            while self._end_synthesis(key, None, end_us, {"unfinished": True}):
                pass
        for proof_key, proof in list(state.proofs.items()):
            if proof.failed:
                self._end_proof(proof_key, proof.last_us, " (failed)")
            else:
                self._end_proof(proof_key, end_us, how)
        if state.queued:
            self._count("GPU queue", "partitions", end_us, 0 if over else len(state.queued))
        if over and state.lost:
            self._writer.instant(
                f"daemon gone: {state.lost} partitions lost", end_us, {}, everywhere=True
            )
        run_place.epoch_us = run.epoch_us
        run_place.end_ms = run.clock
        self._state = _RunState()

    # ------------------------------------------------------------ partitions at a GPU

    def _finished(self, run: Run, partition: Partition) -> None:
        """Nothing more will change about a partition: write its bracket and its lock."""
        key, job = (partition.job.id, partition.index), partition.job
        if key in self._state.syntheses:  # it failed, or its SYNTH_END is missing
            begun = partition.bracket_start
            until_us = self._us(run, run.clock if begun is None else begun)
            self._end_synthesis(key, partition.attempt, until_us, {"state": partition.state})
        if partition.state != "done":
            self._queue(key, self._us(run, run.clock), waits=False)
            self._state.lost += partition.state == "lost"
        call = partition.call
        end_ms = partition.bracket_end if call is None else call.end
        proof_key = (job.id, partition.attempt)
        proof = self._state.proofs.get(proof_key)
        if proof is not None:
            if end_ms is not None:
                proof.last_us = max(proof.last_us, self._us(run, end_ms))
            proof.failed, proof.message = job.failed, job.message
            if partition.index is None and partition.state == "done" and not job.failed:
                self._end_proof(proof_key, proof.last_us, "")
        if partition.bracket_start is None or end_ms is None:
            return
        row = partition_row(partition, lock_lines=run.lock_lines)
        self.counts.partitions += 1
        self.counts.inferred += row.attribution == "inferred"
        bracket = (self._us(run, partition.bracket_start), self._us(run, end_ms))
        bracket = (bracket[0], max(bracket))
        lock = None
        if call is not None and call.lock_at is not None and call.release_at is not None:
            span = (self._us(run, call.lock_at), self._us(run, call.release_at))
            # Its length is printed, its place is known to ms or, before S41, to some hundred; but
            # only one holds it at a time, so it may lie later, up to its bracket's end.
            latest = span[1] if _two_locks(run) else max(span[1], bracket[1])
            lock = self._put_lock(row, span, latest)
        self._put_bracket(row, bracket, lock)

    def _bracket_so_far(self, run: Run, partition: Partition) -> None:
        """A bracket that is open at the log's end."""
        if partition.bracket_start is None:
            return
        self.counts.partitions += 1
        row = partition_row(partition, lock_lines=run.lock_lines)
        bracket = (self._us(run, partition.bracket_start), self._us(run, run.clock))
        self._put_bracket(row, (bracket[0], max(bracket)), None)

    def _put_lock(
        self, row: PartitionRow, span: tuple[int, int], latest: int
    ) -> tuple[int, int] | None:
        """The lock's slice with the stages under it; where it lies beside the others'."""
        if span[1] <= span[0]:
            return None
        pid = self._gpu(row.gpu)
        index, fitted = self._lane(pid, span, latest)
        if fitted is None:
            return None
        start, end, moved = fitted
        name = "lock" if not index else f"lock {index + 1} (overlaps: inferred, or two locks)"
        tid = self._writer.row(pid, index, name)
        owner = _owner(row)
        self._writer.slice(
            pid,
            tid,
            _marked(row, "lock_held_ms", place(row.job, row.partition) + _state(row)),
            (start, end),
            {**owner, "lock_held_ms": row.lock_held_ms},
        )
        if row.state != "done":
            return start, end  # what it computed is thrown away
        at_us = span[0] + moved
        for stage, figure in STAGES:
            length_ms = getattr(row, figure)
            if length_ms is None:
                break  # those after it can't be placed
            lo, at_us = max(start, at_us), at_us + length_ms * 1000
            hi = min(end, at_us)
            if hi > lo:
                args = {"attribution": _sure(row, figure), figure: length_ms}
                self._writer.slice(pid, tid, _marked(row, figure, stage), (lo, hi), args)
        return start, end

    def _lane(
        self, pid: int, span: tuple[int, int], latest: int
    ) -> tuple[int, tuple[int, int, int] | None]:
        """The first row of the GPU's locks with room for the span, and where it lies in it."""
        lanes = self._lanes.setdefault(pid, [])
        for index, lane in enumerate(lanes):
            fitted = lane.fit(*span, latest)
            if fitted is not None:
                return index, fitted
        lanes.append(_Lane())
        return len(lanes) - 1, lanes[-1].fit(*span, latest)

    def _put_bracket(
        self, row: PartitionRow, bracket: tuple[int, int], lock: tuple[int, int] | None
    ) -> None:
        """The worker's bracket, and in it what came before, under and after the lock."""
        nested = self._nested(self._gpu(row.gpu), "bracket")
        start, end = bracket
        group = f"worker {'unknown' if row.worker is None else row.worker} brackets"
        title = place(row.job, row.partition) + _state(row)
        figures = {
            name: getattr(row, name)
            for name in (*ATTRIBUTED, "synth_ms", "queue_ms", "bracket_ms", "gpu_ms")
        }
        nested.begin(group, start)
        nested.begin(title, start, {**_owner(row), **figures})
        for name, lo, hi in _phases(row, lock, end):
            lo, hi = max(start, min(lo, end)), max(start, min(hi, end))  # noqa: PLW2901
            if hi > lo:
                nested.begin(name, lo)
                nested.end(name, hi)
        nested.end(title, end)
        nested.end(group, end)

    def _gpu(self, gpu: int | None) -> int:
        pid = SOME_GPU_PID if gpu is None else GPU_PID + gpu
        self._gpus.add(pid)
        return pid

    def _find_mixed(self, run: Run) -> None:
        """Which processes hold calls of several GPUs: it shows when all of them are known."""
        for number, gpu in run.gpus.items():
            if gpu.first_start is not None and gpu.last_end is not None:
                phases = gpu_phases(gpu, gpu.first_start, gpu.last_end)
                shares, _ = phases.shares((), derived=False, placed=is_placed(run, gpu))
                if shares.mixed and len(run.gpus) == 1:
                    self._mixed.add(GPU_PID + number)

    def name_gpus(self) -> None:
        """Name the GPUs' processes; the last thing, for until then one may turn out as several."""
        for pid in sorted(self._gpus):
            name = f"GPU {pid - GPU_PID}"
            if pid == SOME_GPU_PID:
                name = "GPU unknown"
            elif pid in self._mixed:
                name = f"{MIXED}; NVML: {name}" if pid in self._measured else MIXED
            self._writer.process(pid, name)

    # ------------------------------------------------------------ NVML

    def sample(self, reading: ev.GpuSampled) -> None:
        """One reading of a GPU as counters, placed by the wall clock of the run it falls into."""
        at_ms = self._trace_ms(reading.at_ms)
        if at_ms is None:
            self.counts.samples_outside += 1
            return
        self.counts.samples += 1
        pid = self._gpu(reading.gpu)
        self._measured.add(pid)
        # Use and copies tell of the window before them.
        begun_us = max(0, round((at_ms - reading.util_window_ms) * 1000.0))
        if reading.util_pct is not None:
            self._writer.counter(pid, "NVML util", "%", begun_us, round(reading.util_pct, 2))
        for name, rate in (
            ("host to device", reading.host_to_device_bytes_per_s),
            ("device to host", reading.device_to_host_bytes_per_s),
        ):
            if rate is not None:
                self._writer.counter(pid, name, "GB/s", begun_us, round(rate / 1e9, 3))
        if reading.power_w is not None:
            at_us = max(0, round(at_ms * 1000.0))
            self._writer.counter(pid, "power", "W", at_us, round(reading.power_w, 2))

    def _trace_ms(self, wall_ms: float) -> float | None:
        """A wall-clock time as the trace's; None outside of the log."""
        for run in reversed(self.runs):
            if run.epoch_us is not None and wall_ms * 1000.0 >= run.epoch_us:
                at_ms = wall_ms - run.epoch_us / 1000.0
                last = run is self.runs[-1]
                if last and at_ms > run.end_ms + SAMPLES_AFTER_MS:
                    return None
                return run.offset_ms + at_ms
        return None


# ---------------------------------------------------------------- words


def _owner(row: PartitionRow) -> dict[str, Any]:
    """Whose it is and how sure that is, for a slice's arguments."""
    return {
        "job": parts.text(row.job),
        "attempt": row.attempt,
        "partition": row.partition,
        "kind": row.kind,
        "worker": row.worker,
        "state": row.state,
        "attribution": row.attribution,
        "attribution_by": dict(row.attribution_by),
        "derived": list(row.derived),
    }


def _two_locks(run: Run) -> bool:
    """Whether workers of several labels, each with its own lock, ran on one card (S19–S29)."""
    return len(run.gpus) == 1 and len(set(run.worker_gpu.values())) > 1


def _state(row: PartitionRow) -> str:
    if row.state == "done":
        return ""
    return " (in flight)" if row.state == "gpu" else f" ({row.state})"


def _sure(row: PartitionRow, figure: str) -> str:
    return row.attribution_by.get(ATTRIBUTED[figure], "none")


def _marked(row: PartitionRow, figure: str, name: str) -> str:
    """The name, marked where the figure isn't printed or its owner is inferred."""
    inferred = _sure(row, figure) == "inferred" or figure in row.derived
    return NOT_PRINTED + name if inferred else name


def _phases(
    row: PartitionRow, lock: tuple[int, int] | None, end: int
) -> list[tuple[str, int, int]]:
    """Name, from and to of a bracket's parts, in order."""
    if lock is None:
        return []
    taken, given_back = lock
    found = []
    if row.lock_wait_ms is not None and row.pre_lock_cpu_ms is not None:
        waits = taken - row.lock_wait_ms * 1000
        found += [
            (
                _marked(row, "pre_lock_cpu_ms", "CPU before the lock"),
                waits - row.pre_lock_cpu_ms * 1000,
                waits,
            ),
            (_marked(row, "lock_wait_ms", "lock wait"), waits, taken),
        ]
    found.append((_marked(row, "lock_held_ms", "lock held"), taken, given_back))
    if row.state == "done":
        found.append(("finishing", given_back, end))
    return found


RULES: Final[Mapping[type, Callable[[_Tracer, Any], None]]] = {
    ev.SynthStarted: _Tracer.synth_started,
    ev.SynthEnded: _Tracer.synth_ended,
    ev.SynthesisSeen: _Tracer.synthesis_seen,
    ev.GpuQueued: _Tracer.queued,
    ev.GpuPickedUp: _Tracer.picked_up,
    ev.GpuStarted: _Tracer.picked_up,
    ev.JobAssembled: _Tracer.assembled,
    ev.PartitionFailed: _Tracer.failed,
    ev.SelfCheck: _Tracer.self_checked,
    ev.Noticed: _Tracer.noticed,
}
"""What is written as soon as an event is read; a partition's time at a GPU follows when settled."""
