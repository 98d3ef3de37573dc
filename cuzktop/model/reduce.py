"""`apply`: the one place that changes the model.

No clock and no I/O; what makes no sense is counted and shown, never raised. Reading a log in any
two pieces gives the same model.
"""

from __future__ import annotations

import contextlib
import math
from array import array
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cuzktop import events as ev
from cuzktop.dataclass import NamedTuple
from cuzktop.model.attribution import Attributor
from cuzktop.model.kinds import C1, C2, C3, C4, C6, C7, C8, C9, C10, C11
from cuzktop.model.state import (
    FINAL,
    KEEP_JOBS,
    KEEP_SYNTH_TIMES,
    KEEP_SYNTHESES,
    ONE_GPU_UNTIL,
    Alert,
    Call,
    Gpu,
    Job,
    Line,
    Partition,
    Run,
)

TRIM_EVERY = 128  # calls of a GPU; what is forgotten then are columns' heads
LATE_MS = 60_000.0  # a call is settled so long after its end at most
RESTART_MS = 5000  # TIMELINE falls back by less than this when lines are printed out of order
SHORTEST_CALL_MS = 50  # a worker that moves on sooner had nothing to prove
WAITED_IN_QUEUE_MS = 3  # an item that lay so long was picked up as soon as a worker was free
EPOCH_LATE_US = 50_000  # the start line's stamp is at most so late; more is a clock that was set
STEP_MS = 5000  # a wall clock that is further off TIMELINE than this has been set
SEVERAL_WORKERS_FROM = 19  # on one GPU
UNSURE_UNTIL = 32  # the start lines of these two steps are those of the last ones before
SPARE_JOBS = 40  # beyond KEEP_JOBS before the oldest are put away, many at a time
DOUBLING, DOUBLING_MOST = 40, 200  # repeats of late above which two equal lines are one
DOUBLING_STEP = 20  # a repeat counts until so many lines stood once
USUAL_PARTITIONS = {"porep": 10, "snap": 16}

Finished = Callable[[Run, Partition], None]
RunEnded = Callable[[Run], None]


class Unnamed(NamedTuple):
    """The failure of a proof in one piece whose line doesn't say which: it is one of these."""

    event: ev.PartitionFailed
    at_ms: float
    seq: int  # its place among the anonymous lines
    candidates: list[Partition]

    def left(self) -> list[Partition]:
        """Those that nothing else became of since."""
        return [one for one in self.candidates if one.state == "gpu"]


class Model:
    """All that is known, from one owner's hand.

    `on_finished` is called once for each partition when nothing more will change about it;
    `on_run_ended` when the daemon was started anew, and never for the last run. Times of calls are
    kept for `keep_ms`, for shares over as long a time; all of them if it is infinite.
    """

    def __init__(
        self,
        on_finished: Finished | None = None,
        on_run_ended: RunEnded | None = None,
        *,
        keep_ms: float = 3_600_000.0,
    ) -> None:
        """Begin with a run in which nothing has happened."""
        self._on_finished = on_finished or (lambda _run, _partition: None)
        self._on_run_ended = on_run_ended or (lambda _run: None)
        self._keep_ms = keep_ms
        self.run = Run(0)
        self._empty = True  # the run has no content: the next start line opens it, not another
        self._order = 0
        self._newest: dict[type, object] = {}  # the last event of a kind that is in `ONCE`
        self._doubling = 0  # how many lines stood twice in the log of late
        self._repeat: object = None  # the newest of them
        self._before: object = None  # the last event of another kind, where lines stand twice
        self._torn = False  # the next TIMELINE event's line was cut by the lines above it
        self._torn_at = -1  # the offset of the last such line
        self.attributor = Attributor(self._settled)
        self._ended_monos: list[Job] = []  # proofs in one piece whose completion is not said yet
        self._undispatched: list[Job] = []
        self._loading: list[Job] = []  # dequeued, their partitions not known yet
        self._unnamed: list[Unnamed] = []

    # ------------------------------------------------------------ entry

    def feed(self, events: Iterable[ev.Event]) -> int:
        """Fold events in, in the order of the log; how many were repeats, and so passed over."""
        repeats = 0
        rules, once, newest = RULES, ONCE, self._newest
        for event in events:
            kind = type(event)
            rule = once.get(kind)
            if rule is not None:
                if newest.get(kind) == event:  # its line stands in the log twice
                    repeats += 1
                    if event != self._repeat:  # it counts once, however often it stands there
                        self._repeat = event
                        self._doubling = min(DOUBLING_MOST, self._doubling + DOUBLING_STEP)
                    continue
                newest[kind] = event
                if self._doubling:
                    self._doubling -= 1
            else:
                rule = rules.get(kind)
                if rule is None:
                    continue
                if self._doubling:
                    if isinstance(event, ev.TimingStretch):
                        repeats += self.feed(event.events())
                        continue
                    if self._doubling > DOUBLING and event == self._before:
                        repeats += 1
                        continue  # this one says no time, but most others like it are repeats
                    self._before = event
            rule(self, event)
        return repeats

    def finish(self) -> None:
        """The log is at its end and no more will come: settle what has ended."""
        self._name_failures(at_end=True)
        self.attributor.flush()
        refused = self.attributor.effort.refused
        if refused:
            text = f"too much fits too many calls: {refused} of them got the nearest timing lines"
            self._alert("warning", text)

    # ------------------------------------------------------------ time

    def _wall(self, wall_us: int) -> float | None:
        """A tracing line's time: moves the clock, and bounds the lines before it.

        The same on the run's clock; None as long as its zero is unknown.
        """
        run = self.run
        run.tracing_seen = True
        if run.first_wall_us is None:
            run.first_wall_us = wall_us
        if run.epoch_us is None:
            return None
        at = (wall_us - run.epoch_us) / 1000.0
        if run.timeline_seen and at < run.newest_ms - STEP_MS:
            self._lose_anchor()
            return None
        run.wall_ms = at
        self.attributor.clocked(at)
        if at > run.clock:
            run.clock = at
        return at

    def _lose_anchor(self) -> None:
        """The machine's clock was set, or it slept: a pair of lines has to bound zero anew."""
        run = self.run
        run.epoch_us, run.epoch_known = None, False
        run.epoch_lo, run.epoch_hi = float("-inf"), float("inf")
        run.clock, run.wall_ms = float(run.newest_ms), 0.0

    def _offset(self, at_ms: int) -> None:
        """A TIMELINE line's time; a fall by seconds means that the daemon was started anew."""
        run = self.run
        if at_ms < run.newest_ms - RESTART_MS:
            self._start_run(None)
            run = self.run
        elif run.wall_ms > max(at_ms, run.newest_ms) + STEP_MS:
            self._lose_anchor()
        if at_ms > run.newest_ms:
            run.newest_ms = at_ms
        self._empty = False
        run.timeline_seen = True
        if run.first_at is None:
            run.first_at = float(at_ms)
        if self._torn:  # read before the lines above were written, so that it bounds none
            self._torn = False
            self._torn_at = at_ms
        elif at_ms > self._torn_at:  # else its thread may have waited until the torn line was out
            self.attributor.clocked(at_ms + 1.0)
        if at_ms > run.clock:
            run.clock = float(at_ms)

    def head_seen(self, event: ev.HeadSeen) -> None:
        """A TIMELINE line is cut: its offset is a clock here, and none where its event comes."""
        self._torn = True
        at_ms, run = event.at_ms, self.run
        if at_ms is not None and run.timeline_seen and at_ms >= run.clock:
            self.attributor.clocked(at_ms + 1.0)
            run.clock = float(at_ms)

    def _pair(self, wall_us: int, at_ms: int, *, after: bool) -> None:
        """Bound TIMELINE's zero by a tracing line just after (or before) an event of its thread."""
        run = self.run
        bound = wall_us - at_ms * 1000
        if run.epoch_known:
            # The start line may have been stamped late; no line after it can be earlier than due.
            if after and run.epoch_us is not None and 0 < run.epoch_us - bound <= EPOCH_LATE_US:
                run.epoch_us = bound
            return
        if after:
            run.epoch_hi = min(run.epoch_hi, bound)
        else:
            run.epoch_lo = max(run.epoch_lo, bound - 1000)
        if run.epoch_hi < float("inf"):
            room = run.epoch_hi - run.epoch_lo
            run.epoch_us = int(run.epoch_hi - min(500.0, max(0.0, room / 2)))
        else:
            run.epoch_us = int(run.epoch_lo)

    # ------------------------------------------------------------ runs

    def _start_run(self, wall_us: int | None) -> None:
        self._end_run()
        self.run = Run(self.run.index + 1, first_wall_us=wall_us)
        self._empty = True
        self.attributor = Attributor(self._settled)
        self.attributor.from_start = True
        self._torn_at = -1
        self._ended_monos.clear()
        self._undispatched.clear()
        self._loading.clear()

    def _end_run(self) -> None:
        """The daemon went away: what was in flight is lost."""
        run = self.run
        self._name_failures(at_end=True)
        for gpu in run.gpus.values():
            for call in list(gpu.open_calls.values()):
                self._close(call, run.clock, failed=True)
        self.finish()
        for partition in run.unfinished():
            if partition.state not in FINAL:
                self._work_until(partition, run.clock)
                self._end_partition(partition, "lost")
        for job in run.jobs.values():
            if job.ended is None and not job.failed:
                run.lost += 1
        self._on_run_ended(run)

    def daemon_started(self, event: ev.DaemonStarted) -> None:
        """`cuzk-daemon starting`."""
        if not self._empty:
            self._start_run(event.wall_us)
        self.run.first_wall_us = self.run.began_us = event.wall_us
        self.attributor.from_start = True
        self._empty = False

    def engine_started(self, event: ev.EngineStarted) -> None:
        """`starting cuzk engine`: TIMELINE zero."""
        run = self.run
        if run.started_us is not None or run.timeline_seen:
            self._start_run(event.wall_us)
            run = self.run
        if run.first_wall_us is None:
            run.first_wall_us = event.wall_us
        run.started_us = run.epoch_us = event.wall_us
        run.epoch_known = True
        self.attributor.from_start = True
        self._empty = False

    def tick(self, event: ev.Tick) -> None:
        """A tracing line without further interest."""
        self._wall(event.wall_us)

    def timing_stretch(self, event: ev.TimingStretch) -> None:
        """Lines C1–C12 that follow one another, and the clocks around them."""
        since_us, lines, until_us = event
        if since_us is not None:
            self._wall(since_us)
        run = self.run
        if self.attributor.add_all(lines, run.clock):
            run.timing_seen = True
            self._empty = False
            if not run.lock_lines:
                run.lock_lines = any(line[0] == C4 for line in lines)
        if until_us is not None:
            self._wall(until_us)

    def dialect_seen(self, event: ev.DialectSeen) -> None:
        """A fingerprint narrows the range of steps."""
        run = self.run
        run.told = True
        self._narrow(event.first, event.last)

    def _narrow(self, first: int, last: int) -> None:
        """Only these steps are still possible."""
        run = self.run
        run.step_lo, run.step_hi = max(run.step_lo, first), min(run.step_hi, last)
        self.attributor.steps(run.step_lo, run.step_hi)

    def setting_seen(self, event: ev.SettingSeen) -> None:
        """A start-up line states a setting."""
        self.run.settings[event.name] = event.value

    def worker_started(self, event: ev.WorkerStarted) -> None:
        """The worker → GPU map."""
        self.run.worker_gpu[event.worker] = event.gpu
        self._gpu(self._card(event.gpu)).workers.add(event.worker)
        self.attributor.locks.add(self._lock_of(event.worker))

    def _learn_place(self, worker: int, label: int) -> None:
        """A later line names the GPU of a worker, which may have been counted on another so far."""
        run = self.run
        if worker in run.worker_gpu:
            return
        if label in run.worker_gpu.values():  # several workers of a GPU
            self._narrow(SEVERAL_WORKERS_FROM, run.step_hi)
        run.worker_gpu[worker] = label
        for gpu in run.gpus.values():
            gpu.workers.discard(worker)
        self._gpu(self._card(label)).workers.add(worker)

    def gpu_count(self, event: ev.GpuCount) -> None:
        """The daemon's GPUs."""
        self.run.gpu_numbers = event.gpus
        self.run.workers_per_gpu = event.workers_per_gpu

    def _card(self, label: int) -> int:
        """The card behind a label: the first, up to S30.

        A log of S28–S32 could be either: the first card counts until another one's first use is
        printed, if the daemon's start, and so every card's first use, is in the log.
        """
        run = self.run
        if run.step_lo > ONE_GPU_UNTIL or run.step_hi > UNSURE_UNTIL:
            return label
        return 0 if run.step_hi <= ONE_GPU_UNTIL or run.started_us is not None else label

    def card_seen(self, event: ev.CardSeen) -> None:
        """C19 or C20: the use of a second card tells that labels are true."""
        run = self.run
        if event.gpu == 0 or run.step_lo > ONE_GPU_UNTIL or run.step_hi <= ONE_GPU_UNTIL:
            return
        calls = [call for gpu in run.gpus.values() for call in gpu.open_calls.values()]
        batches = ("porep", "snap")
        if any(call.partition.index is None and call.partition.kind in batches for call in calls):
            return  # a batch has always been spread over all cards
        self._narrow(ONE_GPU_UNTIL + 1, run.step_hi)
        run.told = True
        for worker, label in run.worker_gpu.items():
            for gpu in run.gpus.values():
                gpu.workers.discard(worker)
            self._gpu(label).workers.add(worker)
        for partition in run.unfinished():
            if partition.worker is not None and partition.state == "gpu":
                self._place(partition, partition.worker)
        for call in calls:
            if call.partition.gpu is None or call.partition.gpu == call.gpu:
                continue
            before, gpu = run.gpus[call.gpu or 0], run.gpus[call.partition.gpu]
            before.open_calls.pop(id(call), None)
            gpu.open_calls[id(call)] = call
            call.gpu = gpu.number
            gpu.first_start = min(call.start, gpu.first_start or call.start)
            left = (one.start for one in self.attributor.waiting if one.gpu == before.number)
            before.first_start = min([*before.history.start, *left], default=None)

    def _lock_of(self, worker: int) -> int:
        """The mutex that a worker's calls take: its GPU label's, or the process's only one."""
        run = self.run
        if run.step_hi <= 18 or run.step_lo == run.step_hi == ONE_GPU_UNTIL:
            return 0
        return run.worker_gpu.get(worker, -1 - worker)  # a worker of unknown place: its own

    def _gpu(self, number: int) -> Gpu:
        gpu = self.run.gpus.get(number)
        if gpu is None:
            gpu = self.run.gpus[number] = Gpu(number)
        return gpu

    def _gpu_of(self, worker: int) -> Gpu:
        """The GPU of a worker; GPU 0 for one that the log does not place."""
        gpu = self._gpu(self._card(self.run.worker_gpu.get(worker, 0)))
        gpu.workers.add(worker)
        return gpu

    def _place(self, partition: Partition, worker: int) -> Gpu:
        """The GPU that a worker's call is counted on: the partition's own, unless it's a guess."""
        gpu = self._gpu_of(worker)
        run = self.run
        begun = partition.pickup is not None or partition.bracket_start is not None
        one = begun or run.step_hi <= ONE_GPU_UNTIL  # what began before the log may be anywhere
        guessed = worker not in run.worker_gpu and (run.has_several_gpus or not one)
        partition.gpu = None if guessed else gpu.number
        return gpu

    # ------------------------------------------------------------ jobs

    def _new_job(self, job_id: str, kind: str | None) -> Job:
        run = self.run
        before = run.jobs.pop(job_id, None)
        if before is not None:
            self._shelve(before)
        attempt = run.attempts.count(job_id)
        job = Job(job_id, attempt, kind or _kind_of_id(job_id), run.clock)
        run.jobs[job_id] = job
        self._empty = False
        if len(run.jobs) > KEEP_JOBS + SPARE_JOBS:
            self._drop_ended_jobs()
        return job

    def _shelve(self, job: Job) -> None:
        """Another attempt has begun: the one before is over, whatever of it still runs."""
        run = self.run
        if job.ended is None:
            job.ended = run.clock
            whole = all(part.state == "done" for part in job.parts.values())
            if not job.failed and not whole:  # else only the line that says so is missing
                job.failed = True
                job.message = "sent again before it ended"
                run.failed += 1
        run.put_away(job)
        for partition in job.parts.values():
            if partition.state == "pending":
                self._end_partition(partition, "skipped")
            elif partition.state not in FINAL:
                key = (job.id, partition.index)
                run.stragglers.setdefault(key, []).append(partition)
                run.in_flight.pop(key, None)

    def _drop_ended_jobs(self) -> None:
        run = self.run
        ended = [job for job in run.jobs.values() if job.ended is not None]
        for job in ended[:-KEEP_JOBS]:
            del run.jobs[job.id]
            run.put_away(job)
        if len(run.jobs) > 4 * KEEP_JOBS:  # failed ones that never say that they are over
            for job in [job for job in run.jobs.values() if job.failed][:KEEP_JOBS]:
                del run.jobs[job.id]
                run.put_away(job)

    def _job(self, job_id: str, kind: str | None = None) -> Job:
        job = self.run.jobs.get(job_id)
        return self._new_job(job_id, kind) if job is None else job

    def job_enqueued(self, event: ev.JobEnqueued) -> None:
        """The scheduler took a request: a new attempt if the id has been worked on."""
        self._wall(event.wall_us)
        self._undispatched.append(self._requested(event.job, event.kind))
        del self._undispatched[:-KEEP_JOBS]

    def job_dequeued(self, event: ev.JobDequeued) -> None:
        """The dispatcher begins with the job: what fails to load next is this one's."""
        self._wall(event.wall_us)
        self._loading.append(self._requested(event.job, event.kind))
        del self._loading[:-KEEP_JOBS]

    def _requested(self, job_id: str, kind: str) -> Job:
        job = self.run.jobs.get(job_id)
        if job is None or job.ended is not None or job.failed or job.parts:
            job = self._new_job(job_id, kind)
        return job

    def _load_failed(self, text: str) -> None:
        """Input or parameters could not be loaded; the line doesn't say for which job."""
        kind = "snap" if text.startswith("SnapDeals") else "porep"
        for jobs in (self._loading, self._undispatched):
            for job in reversed(jobs):
                if job.kind == kind and not job.parts and job.ended is None and not job.failed:
                    self._fail_job(job, text, skips=True)
                    return

    def job_dispatched(self, event: ev.JobDispatched) -> None:
        """The job's partitions are known."""
        self._wall(event.wall_us)
        kind = event.kind
        if event.partitions == USUAL_PARTITIONS["snap"] and _kind_of_id(event.job) == "snap":
            kind = "snap"  # the message alone names only some SnapDeals
        job = self.run.jobs.get(event.job)
        if job is None or job.total is not None or job.ended is not None or job.failed:
            job = self._new_job(event.job, kind)
        job.kind = kind
        job.total = event.partitions
        for index in range(min(event.partitions, 64)):
            if index not in job.parts:
                self._new_partition(job, index)
        for partition in job.parts.values():
            partition.kind = kind

    def job_assembled(self, event: ev.JobAssembled) -> None:
        """The proof is assembled: complete, unless its self-check fails."""
        at = self._wall(event.wall_us)
        self._complete(self._job(event.job), at)

    def _complete(self, job: Job, at: float | None) -> None:
        run = self.run
        if job.assembled is not None:
            return
        job.assembled = job.ended = run.clock if at is None else at
        if not job.failed:
            run.completed += 1
            run.last_completed = job.ended

    def job_completed(self, event: ev.JobCompleted) -> None:
        """A proof in one piece is done; S24 and newer don't say which."""
        at = self._wall(event.wall_us)
        job = self.run.jobs.get(event.job) if event.job else self._ended_mono()
        if job is None:
            return
        self._complete(job, at)
        whole = job.parts.get(None)
        if whole is not None and whole.state not in FINAL and not self.run.timeline_seen:
            self._end_partition(whole, "done")

    def _ended_mono(self) -> Job | None:
        """The proof in one piece that is done: its GPU_END stands right before, if there are any.

        Two finalizers may print at a time, so that both of GPU_END come before both of completion.
        """
        while self._ended_monos:
            job = self._ended_monos.pop()
            if job.assembled is None:
                return job
        if not self.run.timeline_seen:
            for partition in self.run.in_flight.values():
                if partition.index is None and partition.state == "gpu":
                    return partition.job
        return None

    def self_check(self, event: ev.SelfCheck) -> None:
        """The PoRep self-check passed or failed."""
        self._wall(event.wall_us)
        if event.passed:
            return
        job = self._job(event.job)
        self._fail_job(job, event.text, skips=False)
        self._alert("error", f"self-check failed: {event.job}")

    def _fail_job(self, job: Job, text: str, *, skips: bool) -> None:
        job.skips = job.skips or skips
        if job.failed:
            return
        job.failed = True
        job.message = text
        run = self.run
        run.failed += 1
        if job.assembled is not None:  # its self-check came after it had counted as completed
            run.completed -= 1
            good = [
                other.assembled
                for other in (*run.jobs.values(), *run.ended_jobs)
                if other.assembled is not None and not other.failed
            ]
            run.last_completed = max(good, default=None)

    def _alert(self, level: str, text: str) -> None:
        run = self.run
        dated = run.timeline_seen or run.epoch_us is not None
        if len(run.alerts) == run.alerts.maxlen:
            # A warning that comes with each partition must not push the failures out.
            milder = next((at for at, one in enumerate(run.alerts) if one.level != "error"), 0)
            del run.alerts[milder]
        run.alerts.append(Alert(level, run.clock if dated else None, text))

    # ------------------------------------------------------------ partitions

    def _new_partition(self, job: Job, index: int | None) -> Partition:
        self._order += 1
        partition = Partition(job, index, self._order)
        job.parts[index] = partition
        self.run.in_flight[job.id, index] = partition
        return partition

    def _find(
        self, job_id: str, index: int | None, states: tuple[str, ...], worker: int | None = None
    ) -> Partition | None:
        """The partition that an event is about; an older attempt's first, if it waits for it.

        `worker` is the one that the event names, None if it names none.
        """
        key = (job_id, index)
        if self.run.stragglers:
            for older in self.run.stragglers.get(key, ()):
                if older.state in states and worker in (None, older.worker):
                    return older
        partition = self.run.in_flight.get(key)
        return partition if partition is not None and partition.state in states else None

    def _ending(self, event: ev.GpuEnded, index: int | None) -> Partition | None:
        """Of the attempts that are on a GPU the one whose call lasted as long as the line says."""
        partition = self._find(event.job, index, ("gpu",), event.worker)
        key = (event.job, index)
        newest = self.run.in_flight.get(key)
        if partition is None or partition is newest or newest is None:
            return partition
        attempts: list[Partition] = [
            one
            for one in (*self.run.stragglers.get(key, ()), newest)
            if one.state == "gpu" and one.worker in (None, event.worker)
        ]
        begun = event.at_ms - event.gpu_ms

        def off(attempt: Partition) -> float:
            start = attempt.pickup if attempt.bracket_start is None else attempt.bracket_start
            return math.inf if start is None else abs(start - begun)

        return min(attempts, key=off)

    def _end_partition(self, partition: Partition, state: str) -> None:
        partition.state = state
        if partition.synth_start is not None and partition.synth_end is None:
            with contextlib.suppress(ValueError):  # forgotten already
                self.run.synth_starts.remove(partition.synth_start)  # it is in flight no more
        key = (partition.job.id, partition.index)
        if self.run.in_flight.get(key) is partition:
            del self.run.in_flight[key]
        elif key in self.run.stragglers:
            rest = [other for other in self.run.stragglers[key] if other is not partition]
            if rest:
                self.run.stragglers[key] = rest
            else:
                del self.run.stragglers[key]
        call = partition.call
        if call is None or call.settled:
            self._finish(partition)
        if self._unnamed:
            self._name_failures()

    def _finish(self, partition: Partition) -> None:
        """Nothing more will change about a partition: its call and all its lines can go."""
        self._on_finished(self.run, partition)
        partition.call = None

    def _work_until(self, partition: Partition, at: float) -> None:
        """The partition no longer waits for the GPU: note from when to when it did."""
        if partition.synth_start is not None and partition.bracket_start is None:
            join(self.run.waiting_work, partition.synth_start, at)

    def synth_started(self, event: ev.SynthStarted) -> None:
        """SYNTH_START."""
        self._offset(event.at_ms)
        run = self.run
        job = run.jobs.get(event.job)
        if job is None:
            job = self._new_job(event.job, event.kind)
        partition = job.parts.get(event.partition)
        if job.assembled is not None or (partition is not None and partition.state != "pending"):
            job = self._new_job(event.job, event.kind or job.kind)
            partition = None
        if job.kind is None:
            job.kind = event.kind
            if job.kind is None and event.partition is not None and run.step_hi < 37:
                job.kind = "porep"
        if partition is None:
            partition = self._new_partition(job, event.partition)
        if partition.kind is None:
            partition.kind = job.kind
        partition.state = "synthesizing"
        partition.synth_start = event.at_ms
        keep_in_order(run.synth_starts, event.at_ms)
        if job.first_synth is None:
            job.first_synth = event.at_ms
        if run.first_synth is None:
            run.first_synth = event.at_ms

    def _any(self, job_id: str, index: int | None, states: tuple[str, ...]) -> Partition:
        """`_find`, or a new partition when the log began after its first lines."""
        found = self._find(job_id, index, states)
        if found is not None:
            return found
        job = self._job(job_id)
        known = job.parts.get(index)
        if known is None or known.state in FINAL:
            return self._new_partition(job, index)
        return known

    def synth_ended(self, event: ev.SynthEnded) -> None:
        """SYNTH_END."""
        self._offset(event.at_ms)
        partition = self._any(event.job, event.partition, ("synthesizing",))
        partition.state = "queued"
        partition.synth_end = event.at_ms
        partition.synth_ms = event.synth_ms
        keep_in_order(self.run.synth_ends, event.at_ms)
        if partition.synth_start is not None:
            spans = self.run.synth_spans.get(partition.kind)
            if spans is None:
                spans = self.run.synth_spans[partition.kind] = deque(maxlen=KEEP_SYNTHESES)
            spans.append(event.at_ms - partition.synth_start)

    def gpu_queued(self, event: ev.GpuQueued) -> None:
        """GPU_QUEUE or CHAN_SEND.

        A torn CHAN_SEND that has lost its partition looks like that of a proof in one piece. Of a
        job with partitions it tells nothing.
        """
        self._offset(event.at_ms)
        if event.partition is None:
            job = self.run.jobs.get(event.job)
            if job is not None and job.has_partitions:
                return
        partition = self._find(event.job, event.partition, ("queued",))
        if partition is None:
            partition = self._any(event.job, event.partition, ("queued", "synthesizing"))
            partition.state = "queued"
        partition.queued = event.at_ms

    def gpu_picked_up(self, event: ev.GpuPickedUp) -> None:
        """GPU_PICKUP: the worker has given up the lock of its call before."""
        self._offset(event.at_ms)
        partition = self._any(event.job, event.partition, ("queued",))
        partition.state = "gpu"
        partition.pickup = event.at_ms
        partition.worker = event.worker
        self._place(partition, event.worker)
        missed = self.run.last_pickup.get(event.worker)
        if missed is not None and event.at_ms - (missed.pickup or 0) >= SHORTEST_CALL_MS:
            self._start_missed(missed)
        partition.pickup_seq = self.attributor.sequence()
        self.attributor.picked_up(event.worker)
        self.run.last_pickup[event.worker] = partition
        before = self.run.last_worker_call.get(event.worker)
        if before is not None and before.next_pickup is None:
            queued = partition.queued
            waited = queued is not None and event.at_ms - queued >= WAITED_IN_QUEUE_MS
            self.attributor.moved_on(before, float(event.at_ms), waited=waited)

    def gpu_started(self, event: ev.GpuStarted) -> None:
        """GPU_START: a bracket opens."""
        self._offset(event.at_ms)
        run = self.run
        partition = self._find(event.job, event.partition, ("gpu",), event.worker)
        newest = run.last_pickup.get(event.worker)
        if newest is not None and (newest.job.id, newest.index) == (event.job, event.partition):
            partition = newest  # what the worker picked up before will never begin
        if partition is None or partition.bracket_start is not None:
            partition = self._any(event.job, event.partition, ("queued", "synthesizing"))
        partition.state = "gpu"
        partition.worker = event.worker
        gpu = self._place(partition, event.worker)
        self._work_until(partition, event.at_ms)
        partition.bracket_start = event.at_ms
        if gpu.first_start is None:
            gpu.first_start = float(event.at_ms)
        call = Call(
            partition, event.worker, gpu.number, float(event.at_ms), self.attributor.sequence()
        )
        before = run.last_worker_call.get(event.worker)
        if before is not None and before.next_pickup is None:
            self.attributor.moved_on(before, call.start, waited=False)
        call.lock = self._lock_of(event.worker)
        run.last_worker_call[event.worker] = call
        partition.call = call
        gpu.open_calls[id(call)] = call
        self.attributor.opened(call)

    def _start_missed(self, partition: Partition | None) -> None:
        """A partition was picked up and its GPU_START is missing: its call began all the same."""
        if (
            partition is None
            or partition.pickup is None
            or partition.call is not None
            or partition.worker is None
            or partition.state != "gpu"
            or partition.job.failed
        ):
            return
        start, worker = float(partition.pickup), partition.worker
        gpu = self._place(partition, worker)
        call = Call(partition, worker, gpu.number, start, partition.pickup_seq)
        call.lock = self._lock_of(worker)
        partition.call = call
        gpu.open_calls[id(call)] = call
        self.run.last_worker_call[worker] = call
        self.attributor.opened(call)

    def gpu_ended(self, event: ev.GpuEnded) -> None:
        """GPU_END: a bracket closes. A WindowPoSt's names a partition that it never had."""
        self._offset(event.at_ms)
        partition = self._ending(event, event.partition)
        if partition is None and event.partition is not None:
            partition = self._ending(event, None)
        if partition is None:
            index = event.partition
            job = self.run.jobs.get(event.job)
            if _kind_of_id(event.job) == "window-post" or (job is not None and None in job.parts):
                index = None
            partition = self._any(event.job, index, ("queued", "synthesizing"))
        if partition.index is None:
            self._ended_monos.append(partition.job)
            del self._ended_monos[:-KEEP_JOBS]
        partition.worker = event.worker
        gpu = self._place(partition, event.worker)
        partition.bracket_end = event.at_ms
        partition.gpu_ms = event.gpu_ms
        gpu.last_end = max(gpu.last_end or 0.0, float(event.at_ms))
        if partition.call is None:
            self._start_missed(partition)
        call = partition.call
        if call is not None:
            call.gpu_ms = event.gpu_ms
            self._close(call, float(event.at_ms), failed=False)
        self._end_partition(partition, "done")

    def _close(self, call: Call, at: float, *, failed: bool, seq: int | None = None) -> None:
        if call.end is not None:
            return
        call.end = at
        call.failed = failed
        call.end_seq = self.attributor.sequence() if seq is None else seq
        gpu = self.run.gpus.get(call.gpu or 0)
        if gpu is not None:
            gpu.open_calls.pop(id(call), None)
        self.attributor.ended(call)

    def _settled(self, call: Call) -> None:
        """Nothing more will change about a call: its times join the history."""
        run = self.run
        gpu = run.gpus.get(call.gpu or 0)
        partition = call.partition
        if partition.bracket_start is None and partition.bracket_end is None:
            gpu = None  # taken for begun when its worker moved on, and nothing of it was seen
        if gpu is not None:
            place(call, gpu)
            record(gpu, call)
            if self._keep_ms < math.inf:
                draw(gpu, call)
                if len(gpu.history) % TRIM_EVERY == 0:
                    self._trim(gpu)
        if partition.state in FINAL:
            self._finish(partition)

    def _trim(self, gpu: Gpu) -> None:
        """Forget times that are too old for any share."""
        run = self.run
        since = run.clock - self._keep_ms - LATE_MS
        gpu.history.trim(since)
        del run.waiting_work[: 2 * bisect_left(run.waiting_work[1::2], since)]
        for times in (run.synth_starts, run.synth_ends):
            del times[:-KEEP_SYNTH_TIMES]

    # ------------------------------------------------------------ tracing lines of a call

    def pickup_seen(self, event: ev.PickupSeen) -> None:
        """R1 or R2: names the worker's GPU."""
        at = self._wall(event.wall_us)
        run = self.run
        self._learn_place(event.worker, event.gpu)
        partition = run.in_flight.get((event.job, event.partition))
        if partition is not None and partition.kind is None and event.kind is not None:
            partition.job.kind = event.kind
            for part in partition.job.parts.values():
                part.kind = event.kind
        if run.timeline_seen:
            if partition is not None and partition.pickup is not None:
                self._pair(event.wall_us, partition.pickup, after=True)
            return
        partition = self._any(event.job, event.partition, ("queued", "synthesizing", "pending"))
        partition.state = "gpu"
        partition.worker = event.worker
        self._place(partition, event.worker)
        partition.pickup = None if at is None else int(at)

    def prove_start(self, event: ev.ProveStartTimed) -> None:
        """R3: the start call of this worker and partition is back."""
        at = self._wall(event.wall_us)
        call = self._open_call(event.worker, event.partition)
        if call is None or at is None:
            return
        call.spawn = event.spawn_to_enter_ms
        call.prove_start = event.prove_start_ms
        call.returned = at
        call.returned_seq = self.attributor.sequence()

    def _open_call(self, worker: int, index: int | None) -> Call | None:
        """The newest call of a worker and partition that has not returned yet."""
        call = self.run.last_worker_call.get(worker)
        if call is not None and call.partition.index == index and call.prove_start is None:
            return call
        for gpu in self.run.gpus.values():
            for other in gpu.open_calls.values():
                if (
                    other.worker == worker
                    and other.partition.index == index
                    and other.prove_start is None
                ):
                    return other
        return None

    def prove_start_returned(self, event: ev.ProveStartReturned) -> None:
        """R4: printed also when the start call failed."""
        at = self._wall(event.wall_us)
        self._learn_place(event.worker, event.gpu)
        call = self.run.last_worker_call.get(event.worker)
        if (
            call is not None
            and at is not None
            and call.partition.index == event.partition
            and call.returned is None
        ):
            call.returned = at
            call.returned_seq = self.attributor.sequence()

    def synthesis_seen(self, event: ev.SynthesisSeen) -> None:
        """Y17."""
        at = self._wall(event.wall_us)
        run = self.run
        if run.timeline_seen:
            partition = run.in_flight.get((event.job, event.partition))
            if partition is not None and partition.synth_end is not None and at is None:
                self._pair(event.wall_us, partition.synth_end, after=True)
            return
        self._empty = False
        partition = self._any(event.job, event.partition, ("pending", "synthesizing"))
        partition.state = "queued"
        partition.synth_ms = event.synth_ms
        partition.synth_end = None if at is None else int(at)

    def partition_complete(self, event: ev.PartitionComplete) -> None:
        """R8."""
        self._wall(event.wall_us)
        run = self.run
        if run.timeline_seen:
            if not run.epoch_known:
                job = run.jobs.get(event.job)
                partition = None if job is None else job.parts.get(event.partition)
                if partition is not None and partition.bracket_end is not None:
                    self._pair(event.wall_us, partition.bracket_end, after=True)
            return
        self._empty = False
        partition = self._any(
            event.job, event.partition, ("pending", "synthesizing", "queued", "gpu")
        )
        partition.gpu_ms = event.gpu_ms
        self._end_partition(partition, "done")

    # ------------------------------------------------------------ failures

    def partition_failed(self, event: ev.PartitionFailed) -> None:
        """An ERROR that ends a partition, and its job's chances."""
        at = self._wall(event.wall_us)
        run = self.run
        when = run.clock if at is None else at
        self._alert("error", event.text)
        if event.stage == "load":
            self._load_failed(event.text)
            return
        states = ("gpu",) if event.stage == "gpu" else ("synthesizing", "pending")
        partition = None
        if event.job:
            partition = self._find(event.job, event.partition, states, event.worker)
            if partition is None and event.partition is not None:
                partition = self._find(event.job, None, states, event.worker)
            job = self._job(event.job) if partition is None else partition.job
            if partition is None and job.attempt == 1:  # lines of it are missing
                partition = job.parts.get(event.partition)
                if partition is None and None not in job.parts:
                    partition = self._new_partition(job, event.partition)
                elif partition is not None and partition.state in FINAL:
                    partition = None
            self._fail_job(job, event.text, skips=event.fails_job)
        else:  # a proof in one piece
            candidates = [
                one for one in run.in_flight.values() if one.index is None and one.state in states
            ]
            if event.stage == "gpu" and len(candidates) > 1:
                seq = self.attributor.sequence()
                self._unnamed.append(Unnamed(event, when, seq, candidates))
                self._name_failures()
                return
            if candidates:
                partition = candidates[0]  # the one that has been at it longest
                self._fail_job(partition.job, event.text, skips=event.fails_job)
        if partition is not None:
            self._fail(partition, event, when)

    def _fail(
        self, partition: Partition, event: ev.PartitionFailed, at_ms: float, seq: int | None = None
    ) -> None:
        """It failed at `at_ms`, its line at the place `seq` among the anonymous ones, or here."""
        self._work_until(partition, at_ms)
        call = partition.call
        if call is not None:
            if not event.fails_job and call.returned is not None:
                at_ms = call.returned
            self._close(call, at_ms, failed=True, seq=seq)
        self._end_partition(partition, "failed")

    def _name_failures(self, *, at_end: bool = False) -> None:
        """Tell whose the unnamed failures are: all others that were under way went on and ended.

        Where several are left when there are no more lines, those that had been at it longest.
        """
        while self._unnamed:
            failure = min(self._unnamed, key=lambda one: len(one.left()))
            if len(failure.left()) > 1:
                everyone = {id(one) for other in self._unnamed for one in other.left()}
                if not at_end and len(everyone) > len(self._unnamed):
                    return
                failure = self._unnamed[0]
            self._unnamed.remove(failure)
            for partition in failure.left()[:1]:
                self._fail_job(partition.job, failure.event.text, skips=failure.event.fails_job)
                self._fail(partition, failure.event, failure.at_ms, failure.seq)

    def partition_skipped(self, event: ev.PartitionSkipped) -> None:
        """Its job had failed: it is not proved, or its result is thrown away."""
        at = self._wall(event.wall_us)
        when = self.run.clock if at is None else at
        if event.discarded:
            return
        partition = self._find(event.job, event.partition, ("gpu", "queued", "pending"))
        job = self._job(event.job) if partition is None else partition.job
        if not job.failed:
            if job.attempt > 1:  # an older attempt's, which ended when this one began
                return
            self._fail_job(job, "it had failed before this log begins", skips=True)
        if partition is None and event.partition not in job.parts:
            partition = self._new_partition(job, event.partition)
        if partition is not None and partition.bracket_start is None:
            if partition.worker is not None:
                self.attributor.dropped(partition.worker)
            self._work_until(partition, when)
            self._end_partition(partition, "skipped")

    def noticed(self, event: ev.Noticed) -> None:
        """A WARN, an ERROR or a crash's text."""
        if event.wall_us is not None:
            self._wall(event.wall_us)
        self._alert(event.level, event.text)

    def prestage_seen(self, event: ev.PrestageSeen) -> None:
        """C13–C18: a fall-back makes the partition slow."""
        if event.outcome in ("skip_vram", "fallback", "host_register_fallback"):
            what = event.outcome.replace("_", " ")
            self._alert("warning", f"prestage {what}: that partition takes the slow path")


def keep_in_order(times: array[float], at: float) -> None:
    """Add a time to times in order: lines are a little out of it, so mostly it is the latest."""
    if times and at < times[-1]:
        insort(times, at)
    else:
        times.append(at)


def join(spans: array[float], lo: float, hi: float) -> None:
    """Add [lo, hi] to disjoint spans in order (`from, to, from, to, …`); it is one of the last."""
    while spans and lo <= spans[-1]:
        if hi < spans[-2]:  # before the last one, since lines are out of order
            after = spans[-2:]
            del spans[-2:]
            join(spans, lo, hi)
            spans.extend(after)
            return
        hi = max(hi, spans.pop())
        lo = min(lo, spans.pop())
    if hi > lo:
        spans.extend((lo, hi))


def place(call: Call, gpu: Gpu | None) -> None:
    """Set when the call took the lock and gave it back, by its lines and by those around them."""
    lines = call.lines
    if call.block is not None and gpu is not None:
        lo, hi = call.block.begun
        call.lock_at = max(lo, min(hi, gpu.free_at.get(call.lock, lo)))
        call.release_at = call.lock_at + call.block.lines[2].b + 0.5
        gpu.free_at[call.lock] = call.release_at
    elif C11 in lines and C9 in lines and call.end is not None:  # S16–S18: the whole call is locked
        call.release_at = min(call.end, lines[C11].hi)
        call.lock_at = call.release_at - lines[C11].b
    else:
        call.lock_at, call.release_at = place_lines(call, lines)


def place_lines(call: Call, lines: Mapping[int, Line]) -> tuple[float | None, float | None]:
    """When a call with these lines took the lock and gave it back, on the run's clock."""
    entry = (call.entry_lo + min(call.entry_hi, call.entry_lo + 4.0)) / 2
    take, release, end = lines.get(C4), lines.get(C10), lines.get(C9)
    lock_at = None
    if take is not None:
        lock_at = entry + take.a + take.b + 0.5
    elif release is not None:
        lock_at = entry + release.b - release.a + 0.5
    if lock_at is not None:
        if release is not None:
            return lock_at, lock_at + release.a + 0.5
        return lock_at, call.returned if end is None else lock_at + end.b + 2.0
    if end is None:
        return None, None
    # Before S41: the block's end lies between its line's bounds, its beginning after the entry.
    total = end.b + 0.5
    batch, ntt, prep, setup = lines.get(C8), lines.get(C6), lines.get(C2), lines.get(C1)
    latest = min(end.hi, call.end if call.end is not None else end.hi)
    earliest = max(end.lo, entry + total)
    at = None
    if batch is not None and ntt is not None and prep is not None:
        waited = end.b - end.a - batch.a - ntt.a
        if waited > 4:
            begun = entry + (0 if setup is None else setup.b) + 1.0
            at = begun + prep.a + batch.a + end.a + 2.0
    if at is None:
        at = earliest if latest - earliest < total else earliest + 1.0
    at = min(max(at, earliest), max(latest, earliest))
    return at - total, at


def record(gpu: Gpu, call: Call) -> None:
    """Append the call's times to its GPU's history."""
    history = gpu.history
    history.locks.add(max(-1, call.lock))  # those of workers of unknown place count as one
    nan = float("nan")
    lines = call.lines
    taken = nan if call.lock_at is None else call.lock_at
    history.start.append(call.start)
    history.end.append(nan if call.end is None else call.end)
    history.acquired.append(taken)
    history.released.append(nan if call.release_at is None else call.release_at)
    ntt, barrier, batch, end = lines.get(C6), lines.get(C7), lines.get(C8), lines.get(C9)
    if call.failed and end is None:  # a start call that failed: its lock was held for nothing
        ntt = barrier = batch = end = None
    at = taken
    at = nan if ntt is None else at + ntt.a
    history.ntt.append(at)
    if barrier is not None:
        at += barrier.a
    elif end is not None and batch is not None and ntt is not None:
        at += max(0, end.b - end.a - batch.a - ntt.a - 1)
    else:
        at = nan
    history.barrier.append(at)
    at = nan if batch is None else at + batch.a
    history.batch.append(at)
    at = nan if end is None else at + end.a
    history.tail.append(at)
    history.total.append(nan if end is None else end.b)
    history.finished.append(0 if call.failed else 1)


def draw(gpu: Gpu, call: Call) -> None:
    """Add the call's lock and kernels to its GPU's graphs."""
    if call.lock_at is None or call.release_at is None:
        return
    gpu.lock_bins.add(call.lock_at, call.release_at)
    for lo, hi in kernel_spans(call.lines, call.lock_at):
        gpu.kernel_bins.add(lo, hi)


def kernel_spans(lines: Mapping[int, Line], lock_at: float) -> list[tuple[float, float]]:
    """When the call's kernels ran, as far as its lines are known."""
    ntt, barrier, batch, end = (lines.get(kind) for kind in (C6, C7, C8, C9))
    if ntt is None:
        return []
    spans = [(lock_at, lock_at + ntt.a)]
    if batch is None:
        return spans
    if barrier is not None:
        opened = lock_at + ntt.a + barrier.a
    elif end is not None:
        opened = lock_at + max(ntt.a, end.b - end.a - batch.a - 1)
    else:
        return spans
    closed = opened + batch.a + (0 if end is None else end.a)
    return [*spans, (opened, closed)]


_KIND_HEADS = (
    ("porep-", "porep"),
    ("ps-porep-", "porep"),
    ("snap-", "snap"),
    ("ps-snap-", "snap"),
    ("wdpost-", "window-post"),
    ("winpost-", "winning-post"),
)


def _kind_of_id(job_id: str) -> str | None:
    """The kind that Curio's ids name; None for any other id."""
    for head, kind in _KIND_HEADS:
        if job_id.startswith(head):
            return kind
    return None


def _anonymous(kind: int, a: int, b: int | None = None) -> Callable[[Model, Any], None]:
    """The rule of line C`kind`, whose figures are the event's `a`th and `b`th."""

    def rule(self: Model, event: Any) -> None:  # noqa: ANN401 - a tuple of whole numbers
        run = self.run
        run.timing_seen = True
        if kind == C4:
            run.lock_lines = True
        self._empty = False
        self.attributor.add(kind, event[a], 0 if b is None else event[b], run.clock)

    return rule


RULES: dict[type, Callable[[Model, Any], None]] = {
    ev.Tick: Model.tick,
    ev.HeadSeen: Model.head_seen,
    ev.DaemonStarted: Model.daemon_started,
    ev.EngineStarted: Model.engine_started,
    ev.DialectSeen: Model.dialect_seen,
    ev.SettingSeen: Model.setting_seen,
    ev.WorkerStarted: Model.worker_started,
    ev.GpuCount: Model.gpu_count,
    ev.JobEnqueued: Model.job_enqueued,
    ev.JobDequeued: Model.job_dequeued,
    ev.JobDispatched: Model.job_dispatched,
    ev.JobAssembled: Model.job_assembled,
    ev.JobCompleted: Model.job_completed,
    ev.SelfCheck: Model.self_check,
    ev.SynthStarted: Model.synth_started,
    ev.SynthEnded: Model.synth_ended,
    ev.GpuQueued: Model.gpu_queued,
    ev.GpuPickedUp: Model.gpu_picked_up,
    ev.GpuStarted: Model.gpu_started,
    ev.GpuEnded: Model.gpu_ended,
    ev.SplitVectors: _anonymous(C1, 0, 1),
    ev.PrepMsm: _anonymous(C2, 0),
    ev.BG2Msm: _anonymous(C3, 0, 1),
    ev.LockAcquired: _anonymous(C4, 0, 1),
    ev.NttMsmH: _anonymous(C6, 1, 0),
    ev.BarrierWaited: _anonymous(C7, 1, 0),
    ev.BatchAdded: _anonymous(C8, 1, 0),
    ev.TailMsm: _anonymous(C9, 1, 2),
    ev.LockReleased: _anonymous(C10, 0, 1),
    ev.Epilogue: _anonymous(C11, 0, 1),
    ev.TimingStretch: Model.timing_stretch,
    ev.PrestageSeen: Model.prestage_seen,
    ev.CardSeen: Model.card_seen,
    ev.ProveStartTimed: Model.prove_start,
    ev.ProveStartReturned: Model.prove_start_returned,
    ev.PickupSeen: Model.pickup_seen,
    ev.SynthesisSeen: Model.synthesis_seen,
    ev.PartitionComplete: Model.partition_complete,
    ev.PartitionFailed: Model.partition_failed,
    ev.PartitionSkipped: Model.partition_skipped,
    ev.Noticed: Model.noticed,
}
"""What each kind of event does; a kind that is not here changes nothing in the model."""

ONCE = {
    kind: rule
    for kind, rule in RULES.items()
    if kind is ev.ProveStartTimed
    or ("job" in getattr(kind, "_fields", ()) and kind is not ev.JobCompleted)
}
"""What says whose it is and when, and so happens once; a completed job may be nameless."""
