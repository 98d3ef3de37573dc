"""From the model to the `Frame` that every view draws: the live half of cuzktop.

`Picture` owns the model, the readings and what is kept for the screen. It is fed events by one
thread and asked for frames by the same; a frame is frozen and may go anywhere.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from cuzktop import frame as fr
from cuzktop.analysis.advice import Facts
from cuzktop.analysis.diagnosis import LEAST_COVERAGE, Measured, is_dead, verdict
from cuzktop.analysis.herding import Rhythm, Waves, bunching, gaps_sentence, rhythm_of, waves_of
from cuzktop.analysis.inflation import Flights, inflation_of
from cuzktop.analysis.intervals import Span, united
from cuzktop.analysis.live import STAGES as LOCK_STAGES
from cuzktop.analysis.live import LiveCall, live_calls, lock_made_of, lock_of
from cuzktop.analysis.occupancy import Phases, Running, weighted
from cuzktop.analysis.reconcile import Grid, UseBins, misplaced, suspects
from cuzktop.analysis.rows import partition_row
from cuzktop.analysis.second_opinion import LogPicture, disagreements
from cuzktop.analysis.summary import (
    herd_of,
    is_placed,
    partitions_of_a_proof,
    proofs,
    started_us,
    waiting_spans,
    why_unknown,
    why_without_shares,
    workers_anywhere,
)
from cuzktop.analysis.throughput import FewStages
from cuzktop.cards import process_text, strangers
from cuzktop.dataclass import dataclass, replace
from cuzktop.events import (
    Event,
    GpuSampled,
    GpuSamplerNote,
    HostSampled,
    PlayedAgain,
    PlayedFrom,
    SourceNote,
    StatusNote,
    StatusRead,
)
from cuzktop.logbook import LogBook
from cuzktop.model.kinds import C6, C7, C8, C9
from cuzktop.model.reduce import Model, kernel_spans, place_lines
from cuzktop.model.series import KEEP_READINGS_MS, Readings, median_of
from cuzktop.model.state import KEEP_RECENT, Gpu, Job, Partition, Run
from cuzktop.parse.text import iso_utc

HISTORY_S = 300  # seconds of graphs: more than the widest terminal has columns
ENDED_JOBS_SHOWN = 8
SURE_CALLS = 40  # fewer may seem to overlap, by lines whose owners are inferred, on one GPU
SUMMED_SHARE = 0.05  # of the partitions summed up must be new before they are summed up anew
SUMMED_MS = 10_000.0  # or this time have passed
COPIED_MS = 86_400_000.0  # no clock of a log that is written now is set as wrong as that
BESIDE = frozenset(
    {
        GpuSampled,
        GpuSamplerNote,
        HostSampled,
        SourceNote,
        StatusRead,
        StatusNote,
        PlayedAgain,
        PlayedFrom,
    }
)
"""Events that aren't the log's."""
OVER = frozenset({"done", "failed", "skipped", "lost"})  # states in which a partition stays


@dataclass(slots=True, kw_only=True)
class _Told:
    """What follows from the lines read so far, whatever the time is."""

    calls: Mapping[int | None, list[LiveCall]]  # that aren't settled, by GPU
    locks: Mapping[int, fr.Lock]
    unfinished: list[Partition]  # in order of dispatch
    syntheses: list[Partition]  # in flight, oldest first
    queue: tuple[fr.Queued, ...]  # longest waiting first
    recent: tuple[fr.PartitionRow, ...]
    in_flight: tuple[fr.PartitionRow, ...]
    proofs: fr.Proofs
    started: str | None
    dialect: str | None
    settings: Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class _Summed:
    """Sums over the latest partitions: costly, and little changed by one more."""

    of: tuple[int, int, int, int]  # run, partitions finished, syntheses begun and ended
    at_ms: float
    stages: Mapping[str, fr.StageStats]
    means: Mapping[str, float]
    inflation: fr.Inflation | None
    rhythm: Rhythm
    gauge: float | None
    gaps: str
    usual_ms: Mapping[str | None, float | None]  # of a synthesis, by kind


@dataclass(slots=True, kw_only=True)
class _Flying:
    """The syntheses in flight as they were last told, and what they are made of."""

    parts: list[Partition]
    begun: list[int | None]
    usual_ms: Mapping[str | None, float | None]
    told: tuple[fr.Synthesis, ...]


@dataclass(slots=True, kw_only=True)
class _OneGpu:
    """What a GPU did over the window, and what its driver measured."""

    workers: tuple[int, ...]
    window: fr.Shares | None
    kernel_history: Sequence[float | None]
    lock_history: Sequence[float | None]
    nvml: fr.Nvml | None
    nvml_note: str
    starved: list[Span]  # of the window
    locks: list[Span]  # when it was held, as far back as is kept
    suspects: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Paced:
    """What is worked out anew once a second, however often there is a frame."""

    of: tuple[object, ...]  # what it must not outlive
    made_of: tuple[float, int, float]  # the run's clock, how much was fed, the summary's clock
    at_ms: float
    until_ms: float
    gpus: Mapping[int, _OneGpu]
    jobs: tuple[fr.JobRow, ...]
    older_jobs: tuple[fr.JobRow, ...]
    verdict: fr.Verdict
    alerts: tuple[fr.Alert, ...]
    host: fr.Host | None
    herd: fr.Herd | None


@dataclass(slots=True, kw_only=True)
class _Over:
    """The rows of the jobs that ended: they stay, unless one fails after all."""

    jobs: list[Job]
    failed: int  # proofs of the run
    final: bool  # no partition of them goes on
    rows: Mapping[Job, fr.JobRow]  # in the order in which they ended
    older: tuple[fr.JobRow, ...]
    latest: tuple[fr.JobRow, ...]


class Picture:
    """All that is shown, kept in one place.

    A frame costs little more than what changed since the last one: what follows from lines alone
    is kept until others come (`_Told`), and what is an average or a history anyway is no older
    than `pace_ms` (`_Paced`). While the clock stands, all comes to be of that very moment.
    """

    def __init__(self, *, window_s: float = 60.0, pace_ms: float = 0.0) -> None:
        """Nothing is known; shares will cover the last `window_s` seconds.

        With `pace_ms` 0 all of a frame is of its very moment.
        """
        self.window_s = window_s
        self.pace_ms = pace_ms
        self.book: LogBook | None = None
        self.recent: deque[fr.PartitionRow] = deque(maxlen=KEEP_RECENT)
        self.readings: dict[int, Readings] = {}
        self.sampler_note = ""
        self.host: fr.Host | None = None
        self.source_note = ""
        self.status: StatusRead | None = None
        self.status_note = ""
        self.fills = False  # what is played anew has not come up to where it goes on in its time
        self._notes: deque[tuple[float | None, fr.Alert]] = deque(maxlen=20)
        self._present: tuple[float, float] | None = None  # wall clock, and the run's
        self._had_timeline = False
        self._had_timing = False
        self._summed: _Summed | None = None
        self.finished = 0
        self._over: _Over | None = None
        self._rows_before: dict[tuple[object, ...], fr.PartitionRow] = {}
        self._locks: dict[int, tuple[object, fr.Lock]] = {}  # each with what it is made of
        self._gpus: dict[int, tuple[_OneGpu, fr.Gpu]] = {}  # the same
        self._flying: _Flying | None = None
        self._told: _Told | None = None
        self._unplaced: frozenset[int] = frozenset()  # workers whose GPU isn't known, of several
        self._several = False  # locks have overlapped: it stays so when the GPUs rest
        self._paced: _Paced | None = None
        self._fed = 0  # batches of events
        self._shown = (math.nan, math.nan)  # the run's clock and the wall's in the last frame
        self.model = Model(self._finished, self._run_ended, keep_ms=1000.0 * self.window_s)

    # ------------------------------------------------------------ input

    def feed(self, events: Iterable[Event]) -> None:
        """Fold events of any source in."""
        self._fed += 1
        log: list[Event] = []
        for event in events:
            if type(event) not in BESIDE:
                log.append(event)
            elif isinstance(event, GpuSampled):
                self._reading(event)
            elif isinstance(event, GpuSamplerNote):
                if event.gpu is None:
                    self.sampler_note = event.text
                else:
                    self._readings_of(event.gpu).note = event.text
            elif isinstance(event, HostSampled):
                self.host = _host(event)
            elif isinstance(event, SourceNote):
                self._note(event)
            elif isinstance(event, StatusRead):
                self.status, self.status_note = event, ""
            elif isinstance(event, StatusNote):
                self.status_note = event.text
            elif isinstance(event, PlayedAgain):
                self.model.feed(log)
                log.clear()
                self._reset()
                self.fills = True
            elif isinstance(event, PlayedFrom):
                self.fills = False
                self._summed = self._paced = None  # they may be of half of it
        if log:
            self._told = None
            self.model.feed(log)

    def _reset(self) -> None:
        """Forget the log, not what was measured beside it."""
        self._forget_run()
        self.readings.clear()
        self._notes.clear()
        self.finished = 0
        self._told = self._paced = None
        self.model = Model(self._finished, self._run_ended, keep_ms=1000.0 * self.window_s)

    def _forget_run(self) -> None:
        self.recent.clear()
        self._unplaced, self._several = frozenset(), False
        self._summed = self._over = None

    def _readings_of(self, gpu: int) -> Readings:
        readings = self.readings.get(gpu)
        if readings is None:
            keep_ms = max(KEEP_READINGS_MS, 1000.0 * self.window_s)
            readings = self.readings[gpu] = Readings(keep_ms)
        return readings

    def _reading(self, event: GpuSampled) -> None:
        readings = self._readings_of(event.gpu)
        latest = readings.latest
        if latest is not None:
            other_card = None not in (event.uuid, latest.uuid) and event.uuid != latest.uuid
            if other_card or event.at_ms < latest.at_ms - 60_000:  # or the clock was set back
                readings.clear()
        readings.add(event)

    def _note(self, event: SourceNote) -> None:
        self.source_note = event.text
        if event.level != "info":
            alert = fr.Alert(level=event.level, at_ms=None, text=event.text)
            self._notes.append((event.at_ms, alert))

    def _finished(self, run: Run, partition: Partition) -> None:
        row = partition_row(partition, lock_lines=run.lock_lines, unplaced=self._unplaced)
        self.recent.appendleft(row)
        self.finished += 1

    def _run_ended(self, run: Run) -> None:
        lost = sum(job.ended is None and not job.failed for job in run.jobs.values())
        self._forget_run()
        text = f"the daemon was started anew: run {run.index} ended"
        if lost:
            text += f", {lost} proofs lost"
        self._notes.append((None, fr.Alert(level="warning", at_ms=None, text=text)))

    # ------------------------------------------------------------ output

    def ended_ms(self, wall_ms: float, unwritten_ms: float, *, grows: bool) -> float:
        """How long ago the log ended whose file was not written for `unwritten_ms`.

        Longer by the log's own clock if the file is a copy; where it is written, that clock may be
        another machine's. `grows`: it was seen to grow. Else it may have been copied just now,
        which a clock more than a day ago tells: none is set as wrong as that.
        """
        run = self.model.run
        if run.epoch_us is None:
            return unwritten_ms
        by_clock_ms = wall_ms - run.epoch_us / 1000.0 - run.clock
        if unwritten_ms <= fr.LIVE_WITHIN_MS and (grows or by_clock_ms <= COPIED_MS):
            return unwritten_ms
        return max(unwritten_ms, by_clock_ms)

    @property
    def clock_ms(self) -> float:
        """The time of the newest line, on the run's clock."""
        return self.model.run.clock

    def now_ms(self, wall_ms: float, silent_ms: float | None) -> float:
        """The run's clock at wall-clock time `wall_ms`; it stands still when the log does.

        `silent_ms` is the time since the log last grew, None for a log that doesn't any more.
        """
        run = self.model.run
        if silent_ms is None or silent_ms > fr.LIVE_WITHIN_MS:
            return run.clock
        if run.epoch_us is not None:
            now = wall_ms - run.epoch_us / 1000.0
            if run.clock <= now <= run.clock + fr.LIVE_WITHIN_MS:
                return now
        return run.clock + silent_ms

    def frame(
        self, *, source: fr.Source, now_ms: float | None = None, wall_ms: float | None = None
    ) -> fr.Frame:
        """The picture at `now_ms` of the newest run (None: right after the last line).

        `wall_ms` is the same instant on the clock of the readings; None when there is none.
        """
        run = self.model.run
        now = run.clock if now_ms is None else max(now_ms, run.clock)
        self._present = None
        if wall_ms is not None:
            self._present = wall_ms, now + ((source.silent_ms or 0.0) if source.old else 0.0)
        elif run.epoch_us is not None:
            wall_ms = run.epoch_us / 1000.0 + now
        self._had_timeline |= run.timeline_seen  # a daemon that starts again writes them again
        self._had_timing |= run.timing_seen
        told = self._told
        if told is None:
            told = self._told = self._tell(run)
        summed = self._sum_up(run, told, now)
        paced = self._pace(run, told, now, wall_ms, source)
        if self._place_rows(run, paced):
            told = self._told = self._tell(run)
        self._shown = now, now if wall_ms is None else wall_ms
        return fr.Frame(
            now_ms=now,
            at=None if run.epoch_us is None else iso_utc(int(run.epoch_us + now * 1000)),
            since_ms=run.first_at or 0.0,
            run=run.index,
            started=told.started,
            dialect=told.dialect,
            window_s=self.window_s,
            source=source,
            gpus=tuple([self._gpu(number, gpu, told) for number, gpu in paced.gpus.items()]),
            syntheses=self._syntheses(told.syntheses, summed.usual_ms),
            gpu_queue=told.queue,
            jobs=paced.jobs,
            older_jobs=paced.older_jobs,
            recent=told.recent,
            in_flight=told.in_flight,
            stages=summed.stages,
            proofs=told.proofs,
            verdict=paced.verdict,
            alerts=paced.alerts,
            host=paced.host,
            no_work_yet=not (self._had_timeline or run.has_worked),
            has_timeline=self._had_timeline,
            has_timing=self._had_timing,
            herd=paced.herd,
            inflation=summed.inflation,
            book=self.book,
            book_end=None if self.book is None else self.book.span[1],
            status=None if self.status is None else self.status.status,
            status_note=self.status_note,
            settings=told.settings,
        )

    def _tell(self, run: Run) -> _Told:
        """See `_Told`."""
        calls = live_calls(self.model.attributor)
        unfinished = run.unfinished()
        flying = [part for part in unfinished if part.state == "synthesizing"]
        flying.sort(key=lambda part: (part.synth_start or 0, part.order))
        queued = [part for part in unfinished if part.state == "queued"]
        queued.sort(key=lambda part: (part.synth_end or part.queued or 0, part.order))
        by_gpu: dict[int | None, list[LiveCall]] = {}
        for live in calls:
            if not live.call.settled:
                by_gpu.setdefault(live.call.gpu, []).append(live)
        fresh, in_flight = self._rows(run, unfinished, calls)
        at_us = started_us(run)
        return _Told(
            calls=by_gpu,
            locks={number: self._lock(number, by_gpu.get(number, [])) for number in run.gpus},
            unfinished=unfinished,
            syntheses=flying,
            queue=_queue(queued),
            recent=(*fresh, *self.recent),
            in_flight=in_flight,
            proofs=proofs(run),
            started=None if at_us is None else iso_utc(at_us),
            dialect=run.dialect,
            settings=dict(run.settings),
        )

    def _sum_up(self, run: Run, told: _Told, now: float) -> _Summed:
        """See `_Summed`: anew if another partition was made or has finished, and it is time."""
        of = (run.index, self.finished, len(run.synth_starts), len(run.synth_ends))
        summed = self._summed
        if summed is not None:
            few = self.pace_ms and self.finished - summed.of[1] < len(self.recent) * SUMMED_SHARE
            early = summed.at_ms <= now < summed.at_ms + SUMMED_MS and now != self._shown[0]
            if summed.of == of or (few and early):
                return summed
        table = FewStages(reversed(self.recent))
        stages, means = table.figures()
        flights = Flights(run.synth_starts[-2000:], run.synth_ends[-2000:], len(told.syntheses))
        beat = rhythm_of(flights, [span for kinds in run.synth_spans.values() for span in kinds])
        self._summed = _Summed(
            of=of,
            at_ms=now,
            stages=stages,
            means=means,
            inflation=inflation_of(table, flights) if self.finished else None,
            rhythm=beat,
            gauge=bunching(run.synth_ends[-200:], beat.usual_ms),
            gaps=gaps_sentence(told.recent),
            usual_ms={kind: median_of(spans) for kind, spans in run.synth_spans.items()},
        )
        return self._summed

    def _pace(
        self, run: Run, told: _Told, now: float, wall_ms: float | None, source: fr.Source
    ) -> _Paced:
        """See `_Paced`: anew if it is time, or if it belongs to something else."""
        paced = self._paced
        of = (run.index, len(run.gpus), source.old, source.read_pct is None)
        moment_ms = now if wall_ms is None else wall_ms
        summed = self._sum_up(run, told, now)
        made_of = now, self._fed, summed.at_ms
        if paced is not None and paced.of == of and paced.at_ms <= moment_ms < paced.until_ms:
            stands = moment_ms == self._shown[1]
            if not stands or paced.made_of == made_of:
                return paced
        start = now - self.window_s * 1000.0
        waiting = united(waiting_spans(run, now, start, told.unfinished), start, now)
        gpus = {
            number: self._one_gpu(run, number, told, waiting, now, wall_ms, old=source.old)
            for number in sorted(run.gpus)
        }
        windows = [one.window for one in gpus.values() if one.window is not None]
        starved = [span for one in gpus.values() for span in one.starved]
        span_ms = max((one.span_ms for one in windows), default=None)
        wave = waves_of(starved, summed.rhythm, span_ms=span_ms)
        measured = self._reconciled(gpus, now, wall_ms)
        dead: list[Measured | None] = [
            figure
            for figure, one in zip(measured, gpus.values(), strict=True)
            if figure and one.window and is_dead(figure, one.window.kernel_pct)
        ]
        older, jobs = self._jobs(run, now)
        self._paced = _Paced(
            of=of,
            made_of=made_of,
            at_ms=moment_ms,
            until_ms=moment_ms + self.pace_ms,
            gpus=gpus,
            jobs=jobs,
            older_jobs=older,
            verdict=self._verdict(run, windows, wave, summed, dead[:1] or measured),
            alerts=(*self._alerts(run), *self._second_opinion(run, now)),
            host=self.host,
            herd=herd_of(wave, summed.gauge, summed.gaps),
        )
        return self._paced

    def _one_gpu(
        self,
        run: Run,
        number: int,
        told: _Told,
        waiting: list[Span],
        now: float,
        wall_ms: float | None,
        *,
        old: bool,
    ) -> _OneGpu:
        """See `_OneGpu`; `old`: the log ended long ago."""
        gpu = run.gpus[number]
        running = [_running(live, now) for live in told.calls.get(number, [])]
        window, span_ms = None, self.window_s * 1000.0
        starved: list[Span] = []
        locks: list[Span] = []
        if gpu.first_start is not None:
            phases = Phases(max(now - span_ms, gpu.first_start), now)
            phases.add_history(gpu.history)
            for one in running:
                phases.add_running(one)
            window, starved = phases.shares(
                waiting, derived=not run.lock_lines, placed=self._is_placed(run, gpu)
            )
            self._several |= window.mixed and len(gpu.history) >= SURE_CALLS
            locks, span_ms = phases.locks, window.span_ms
        nvml = self._nvml(number, wall_ms, span_ms, of_now=old)
        mixed = window is not None and window.mixed
        kernels, held = ((), ()) if mixed else self._graphs(gpu, running, now)
        return _OneGpu(
            workers=tuple(sorted(gpu.workers)),
            window=window,
            kernel_history=kernels,
            lock_history=held,
            nvml=nvml,
            nvml_note=self._nvml_note(number, nvml),
            starved=starved,
            locks=locks,
        )

    # ------------------------------------------------------------ parts

    def _is_placed(self, run: Run, gpu: Gpu) -> bool | None:
        """See `is_placed`; what once showed several GPUs needn't show it all the time."""
        placed = is_placed(run, gpu)
        return None if self._several and not placed else placed

    def _place_rows(self, run: Run, paced: _Paced) -> bool:
        """Have the rows of workers that may be any GPU's name none; whether any was changed.

        Which workers these are is known by the shares, and so when there are rows already.
        """
        windows = [one.window for one in paced.gpus.values() if one.window is not None]
        unplaced = workers_anywhere(run, windows)
        changed = unplaced ^ self._unplaced
        if not changed:
            return False
        self._unplaced = unplaced
        self._rows_before.clear()
        first = next(iter(run.gpus))  # where calls are counted that nobody places
        for at, row in enumerate(self.recent):
            worker = row.worker
            if worker is not None and worker in changed:
                gpu = None if worker in unplaced else run.worker_gpu.get(worker, first)
                self.recent[at] = replace(row, gpu=gpu)
        return True

    def _lock(self, gpu: int, calls: list[LiveCall]) -> fr.Lock:
        """The lock of a GPU: the one told before, as long as it is so."""
        idle = all(live.state == "ended" for live in calls)
        told = self._had_timeline and (self._had_timing or idle)
        made_of = told, lock_made_of(calls)
        before = self._locks.get(gpu)
        if before is not None and before[0] == made_of:
            return before[1]
        lock = lock_of(gpu, calls, told=told)
        self._locks[gpu] = made_of, lock
        return lock

    def _gpu(self, number: int, one: _OneGpu, told: _Told) -> fr.Gpu:
        """A GPU for a frame: the one of the frame before, if all of it is."""
        lock = told.locks[number]
        before = self._gpus.get(number)
        if before is not None and before[0] is one and before[1].lock is lock:
            return before[1]
        gpu = fr.Gpu(
            gpu=number,
            workers=one.workers,
            lock=lock,
            window=one.window,
            kernel_history=one.kernel_history,
            lock_history=one.lock_history,
            nvml=one.nvml,
            nvml_note=one.nvml_note,
            suspects=one.suspects,
        )
        self._gpus[number] = one, gpu
        return gpu

    def _syntheses(
        self, parts: list[Partition], usual_ms: Mapping[str | None, float | None]
    ) -> tuple[fr.Synthesis, ...]:
        """Those in flight: the ones told before, as long as they are the same."""
        begun = [part.synth_start for part in parts]
        before = self._flying
        if (
            before is None
            or before.usual_ms is not usual_ms
            or before.begun != begun
            or before.parts != parts
        ):
            told = tuple(
                [
                    fr.Synthesis(
                        job=part.job.id,
                        partition=part.index,
                        since_ms=part.synth_start or 0.0,
                        expected_ms=usual_ms.get(part.kind),
                    )
                    for part in parts
                ]
            )
            before = _Flying(parts=parts, begun=begun, usual_ms=usual_ms, told=told)
            self._flying = before
        return before.told

    def _graphs(
        self, gpu: Gpu, running: list[Running], now: float
    ) -> tuple[Sequence[float | None], Sequence[float | None]]:
        """Kernel and lock share of each second up to now; None before the first bracket."""
        first = gpu.first_start
        if first is None or not self.model.run.timing_seen:
            return (), ()
        last, begun = int(now // 1000), int(first // 1000)
        kernels = [span for one in running for span in one.kernels]
        locks = [one.lock for one in running if one.lock is not None]
        since = int(min([now, *[lo for lo, _ in locks]]) // 1000)
        return (
            gpu.kernel_bins.shares(last, HISTORY_S, begun=begun, since=since, spans=kernels),
            gpu.lock_bins.shares(last, HISTORY_S, begun=begun, since=since, spans=locks),
        )

    def _nvml(
        self, gpu: int, wall_ms: float | None, span_ms: float, *, of_now: bool
    ) -> fr.Nvml | None:
        """The card's readings, with means over the `span_ms` that the log's shares cover.

        `of_now`: the log ended long ago, and no reading belongs to what it tells.
        """
        readings = self.readings.get(gpu)
        if readings is None or readings.latest is None:
            return None
        latest = readings.latest
        at = latest.at_ms if wall_ms is None else wall_ms
        epoch_us = self.model.run.epoch_us
        zero_ms = 0.0 if epoch_us is None else epoch_us / 1000.0
        util, power = readings.history(at, HISTORY_S, zero_ms)
        means = readings.means(at - span_ms, at)
        mean_util, mean_power, count, source, reach_ms, copies = means
        note = readings.note
        if mean_util is not None and reach_ms < LEAST_COVERAGE * span_ms:
            mean_util = mean_power = None  # a moment says nothing of a minute
            note = note or f"measured for {reach_ms / 1000:.0f} of {span_ms / 1000:.0f} s"
        if of_now:
            mean_util = mean_power = None
        return fr.Nvml(
            util_pct=latest.util_pct,
            util_source=source or latest.util_source,
            power_w=latest.power_w,
            power_limit_w=latest.power_limit_w,
            sm_clock_mhz=latest.sm_clock_mhz,
            temperature_c=latest.temperature_c,
            memory_used_bytes=latest.memory_used_bytes,
            memory_total_bytes=latest.memory_total_bytes,
            held_down=latest.held_down,
            mean_util_pct=mean_util,
            mean_power_w=mean_power,
            samples=count,
            age_ms=max(0.0, at - latest.at_ms),
            util_history=util,
            power_history=power,
            name=latest.name,
            note=note,
            of_now=of_now,
            reading=latest,
            mean_copies_pct=None if mean_util is None else copies,
        )

    def _reconciled(
        self, gpus: Mapping[int, _OneGpu], now: float, wall_ms: float | None
    ) -> list[Measured | None]:
        """What was measured of each GPU and is its own; what can't be true is said of it.

        Nothing is said before the first partition is done: a first call holds the lock for a minute
        while it reads parameters, and the log can't tell that from kernels.
        """
        found = {number: _measured(one.nvml) for number, one in gpus.items()}
        if not self.finished:
            return list(found.values())
        means = {number: None if one is None else one.util_pct for number, one in found.items()}
        odd = any(suspects(one.window, means[number]) for number, one in gpus.items())
        fits = self._misplaced(gpus, now, wall_ms) if odd and wall_ms is not None else {}
        for number, one in gpus.items():
            others = [process_text(other) for other in strangers(one.nvml, self.host)]
            one.suspects = suspects(
                one.window, means[number], fits=fits.get(number), strangers=others
            )
            if number in fits:
                found[number] = None
        return list(found.values())

    def _misplaced(self, gpus: Mapping[int, _OneGpu], now: float, wall_ms: float) -> dict[int, int]:
        """GPUs of the log whose readings are another one's."""
        spans_ms = [one.window.span_ms for one in gpus.values() if one.window is not None]
        if not spans_ms or len(self.readings) < 2:
            return {}
        span_ms = min(spans_ms)
        use = UseBins(Grid(wall_ms - span_ms, wall_ms))
        for readings in self.readings.values():
            for reading in readings:
                use.add(reading)
        grid = Grid(now - span_ms, now)
        held = {
            number: grid.held(one.locks) for number, one in gpus.items() if one.window is not None
        }
        return misplaced(held, use.uses())

    def _nvml_note(self, gpu: int, nvml: fr.Nvml | None) -> str:
        if nvml is not None:
            return ""
        readings = self.readings.get(gpu)
        if readings is not None and readings.note:
            return readings.note
        return self.sampler_note

    def _rows(
        self, run: Run, unfinished: list[Partition], calls: list[LiveCall]
    ) -> tuple[list[fr.PartitionRow], tuple[fr.PartitionRow, ...]]:
        """The partitions whose calls have just ended, and those that have begun, in order.

        With what is known of their calls so far. Few change between two frames: a row is made anew
        if what it is made of did.
        """
        before, lock_lines = self._rows_before, run.lock_lines
        kept: dict[tuple[object, ...], fr.PartitionRow] = {}
        self._rows_before = kept

        def row_of(part: Partition, live: LiveCall | None) -> fr.PartitionRow:
            key = (lock_lines, *_made_of(part, live))
            row = before.get(key)
            if row is None:
                likely, lock_at = (None, None) if live is None else (live.lines, live.lock_at)
                row = partition_row(
                    part,
                    lock_lines=lock_lines,
                    likely=likely,
                    lock_at=lock_at,
                    unplaced=self._unplaced,
                )
            kept[key] = row
            return row

        of_part = {id(live.call.partition): live for live in calls if live.state != "ended"}
        fresh = [
            row_of(live.call.partition, live)
            for live in calls
            if live.state == "ended" and not live.call.settled
        ]
        fresh.sort(key=lambda row: row.bracket_end_ms or 0, reverse=True)
        begun = [part for part in unfinished if part.state != "pending"]
        return fresh, tuple([row_of(part, of_part.get(id(part))) for part in begun])

    def _jobs(self, run: Run, now: float) -> tuple[tuple[fr.JobRow, ...], tuple[fr.JobRow, ...]]:
        """The jobs that ended long ago, and those that ended lately or are in flight."""
        jobs = run.jobs.values()
        ended = [*run.ended_jobs, *[job for job in jobs if job.ended is not None]]
        over = self._over
        if over is None or over.jobs != ended or over.failed != run.failed or not over.final:
            over = self._over = _over(ended, run.failed, now, {} if over is None else over.rows)
        flying = [_job_row(job, now) for job in jobs if job.ended is None]
        return over.older, (*over.latest, *flying)

    def _verdict(
        self,
        run: Run,
        windows: list[fr.Shares],
        wave: Waves,
        summed: _Summed,
        measured: list[Measured | None],
    ) -> fr.Verdict:
        unknown = why_unknown(run)
        time_pct = weighted(windows) if windows and not unknown else None
        if time_pct is None:
            unknown = unknown or why_without_shares(run, windows)
        return verdict(
            time_pct,
            proofs=proofs(run).completed,
            wave=wave,
            measured=_together(measured),
            why_unknown=unknown,
            step=(run.step_lo, run.step_hi),
            window=f"the last {self.window_s:.0f} s",
            facts=Facts(
                stages=summed.stages,
                means=summed.means,
                per_proof=partitions_of_a_proof(run),
                gpus=max(1, len(windows)),
                lock_derived=not run.lock_lines,
                settings=run.settings,
                inflation=summed.inflation,
                host=self.host,
                gauge=summed.gauge,
            ),
        )

    def _alerts(self, run: Run) -> tuple[fr.Alert, ...]:
        """What went wrong; notes have a time where the clock of the present is known."""
        present = self._present
        own = [fr.Alert(level=one.level, at_ms=one.at, text=one.text) for one in run.alerts]
        notes = [
            note
            if at_ms is None or present is None
            else replace(note, at_ms=present[1] - max(0.0, present[0] - at_ms))
            for at_ms, note in self._notes
        ]
        return (*notes, *own)

    def _second_opinion(self, run: Run, now: float) -> list[fr.Alert]:
        """Where the daemon's own status contradicts its log."""
        if self.status is None:
            return []
        done = frozenset(
            (job.id, index)
            for job in run.jobs.values()
            if job.ended is None
            for index, part in job.parts.items()
            if index is not None and part.state == "done"
        )
        brackets = {
            (part.job.id, part.index): now - part.bracket_start
            for part in run.in_flight.values()
            if part.index is not None
            and part.kind in {"porep", "snap"}
            and part.bracket_start is not None
            and part.bracket_end is None
        }
        seen = LogPicture(
            run_age_ms=None if run.epoch_us is None else self.status.at_ms - run.epoch_us / 1000.0,
            completed=None,
            brackets=brackets,
            done=done,
        )
        return [
            fr.Alert(level="warning", at_ms=None, text=f"/status: {text}")
            for text in disagreements(self.status.status, seen)
        ]


def _running(live: LiveCall, now: float) -> Running:
    """A call that isn't settled, as far as it went by `now`."""
    call = live.call
    end = live.lines.get(C9)
    section = math.inf if end is None else end.b
    lock_at, release_at = live.lock_at, live.release_at
    if live.state == "ended" and lock_at is None:
        lock_at, release_at = place_lines(call, live.lines)
    if lock_at is None:
        return Running(call.start, call.end, None, [], None, section)
    lock = (lock_at, now if release_at is None else release_at)
    kernels = kernel_spans(live.lines, lock_at)
    ntt, wait = live.lines.get(C6), live.lines.get(C7)
    barrier: Span | None = None
    if ntt is not None:
        begun = lock_at + ntt.a
        if wait is not None:
            barrier = (begun, begun + wait.a)
        elif len(kernels) > 1:
            barrier = (begun, kernels[1][0])
    if live.state == "holding" and live.stage is not None:
        at = max((hi for _, hi in kernels), default=lock_at)
        if live.stage == LOCK_STAGES[1]:
            barrier = (at, now)
        elif live.stage in LOCK_STAGES[2:4]:
            after = lock_at + sum(live.lines[kind].a for kind in (C6, C7, C8) if kind in live.lines)
            kernels.append((after, now))
        elif live.stage == LOCK_STAGES[0]:
            kernels.append((lock_at, now))
    return Running(call.start, call.end, lock, kernels, barrier, section)


def _made_of(part: Partition, live: LiveCall | None) -> tuple[object, ...]:
    """What changes while a partition isn't finished, of what its row is made of."""
    own = (
        part,
        part.state,
        part.kind,
        part.synth_ms,
        part.synth_end,
        part.pickup,
        part.bracket_start,
        part.bracket_end,
        part.gpu_ms,
        part.worker,
        part.gpu,
    )
    if live is None:
        call = part.call
        return own if call is None else (*own, call.settled, call.cpu_sure, *call.lines.values())
    return (*own, live.call.cpu_sure, live.lock_at, *live.lines.values())


def _measured(nvml: fr.Nvml | None) -> Measured | None:
    if nvml is None or nvml.mean_util_pct is None:
        return None
    return Measured(
        util_pct=nvml.mean_util_pct,
        power_w=nvml.mean_power_w,
        source=nvml.util_source or "",
        samples=nvml.samples,
        copies_pct=nvml.mean_copies_pct,
    )


def _together(measured: list[Measured | None]) -> Measured | None:
    """The cards' measurements as one; None if one of them has none."""
    known = [one for one in measured if one is not None]
    if not known or len(known) < len(measured):
        return None
    return Measured(
        util_pct=sum(one.util_pct for one in known) / len(known),
        power_w=_mean([one.power_w for one in known]),
        source=known[0].source,
        samples=sum(one.samples for one in known),
        copies_pct=_mean([one.copies_pct for one in known]),
    )


def _mean(figures: Sequence[float | None]) -> float | None:
    """The mean; None if one of them is unknown."""
    known = [figure for figure in figures if figure is not None]
    return sum(known) / len(known) if known and len(known) == len(figures) else None


def _queue(queued: list[Partition]) -> tuple[fr.Queued, ...]:
    return tuple(
        [
            fr.Queued(
                job=part.job.id,
                partition=part.index,
                since_ms=part.synth_end or part.queued or None,
            )
            for part in queued
        ]
    )


def _host(host: HostSampled) -> fr.Host:
    return fr.Host(
        cpu_pct=host.cpu_pct,
        memory_used_bytes=host.memory_used_bytes,
        memory_total_bytes=host.memory_total_bytes,
        load_1m=host.load_1m,
        psi_cpu_pct=host.psi_cpu_pct,
        psi_memory_pct=host.psi_memory_pct,
        daemon_pid=host.daemon_pid,
        daemon_cpu_pct=host.daemon_cpu_pct,
        daemon_rss_bytes=host.daemon_rss_bytes,
        daemon_threads=host.daemon_threads,
        tlb_shootdowns_per_s=host.tlb_shootdowns_per_s,
        memory_bandwidth_bytes_per_s=host.memory_bandwidth_bytes_per_s,
        missing=host.missing or "",
        own_cpu_pct=host.own_cpu_pct,
        own_rss_bytes=host.own_rss_bytes,
    )


def _over(ended: list[Job], failed: int, now: float, before: Mapping[Job, fr.JobRow]) -> _Over:
    rows: dict[Job, fr.JobRow] = {}
    for job in sorted(ended, key=lambda job: job.ended or 0.0):
        row = before.get(job)
        if row is None or row.failed != job.failed or not OVER.issuperset(row.states):
            row = _job_row(job, now)
        rows[job] = row
    listed = tuple(rows.values())
    return _Over(
        jobs=ended,
        failed=failed,
        final=all(OVER.issuperset(row.states) for row in listed),
        rows=rows,
        older=listed[:-ENDED_JOBS_SHOWN],
        latest=listed[-ENDED_JOBS_SHOWN:],
    )


def _job_row(job: Job, now: float) -> fr.JobRow:
    by_index = job.states()
    order = sorted([index for index in by_index if index is not None])
    states = tuple([by_index[index] for index in order])
    if None in by_index:
        states = (by_index[None], *states)
    begun = job.seen if job.first_synth is None else job.first_synth
    until = now if job.ended is None else job.ended
    total = job.total
    if total is None and None in by_index and not order:
        total = 1
    return fr.JobRow(
        job=job.id,
        attempt=job.attempt,
        kind=job.kind,
        age_ms=max(0.0, until - begun),
        total=total,
        done=states.count("done"),
        failed=job.failed,
        states=states,
        message=job.message,
    )
