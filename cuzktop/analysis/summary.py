"""One life of the daemon, summed up: what `report` prints of a run beside its partitions."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from cuzktop.analysis.advice import Facts
from cuzktop.analysis.diagnosis import Measured, is_dead, verdict
from cuzktop.analysis.herding import (
    Waves,
    bunching,
    stall_sentence,
    starving_sentence,
    waves,
)
from cuzktop.analysis.inflation import inflation
from cuzktop.analysis.intervals import Span
from cuzktop.analysis.occupancy import Phases, pairs, weighted
from cuzktop.analysis.reconcile import suspects
from cuzktop.analysis.throughput import StageTable
from cuzktop.frame import NO_WORK, Alert, GpuReport, Herd, Proofs, RunReport, Shares
from cuzktop.model.state import ONE_GPU_UNTIL, Gpu, History, Partition, Run
from cuzktop.parse.text import iso_utc


def started_us(run: Run) -> int | None:
    """The run's beginning: TIMELINE zero, else the banner; None if the log began later."""
    if run.started_us is not None:
        return run.started_us
    return run.began_us if run.epoch_us is None else run.epoch_us


UNORDERED_MS = 60_000.0  # lines of one clock stand in order but for less than this


def waiting_spans(
    run: Run,
    now: float,
    since: float = -math.inf,
    unfinished: Iterable[Partition] | None = None,
) -> list[Span]:
    """When partitions were on their way to the GPU; those still on it until `now`.

    `unfinished` are the run's, where they are at hand. Those that ended well before `since` are
    left out: pick-ups come in order, nearly.
    """
    work = run.waiting_work
    first = bisect_left(work[1::2], since - UNORDERED_MS) if since > 0 else 0
    spans = pairs(work[2 * first :])
    for partition in run.unfinished() if unfinished is None else unfinished:
        if partition.synth_start is not None and partition.bracket_start is None:
            spans.append((partition.synth_start, now))
    return spans


def proofs(run: Run) -> Proofs:
    """Counts of the run's jobs."""
    seconds = None
    if run.completed and run.last_completed is not None and run.first_synth is not None:
        took_ms = run.last_completed - run.first_synth
        if took_ms > 0:  # else the lines are out of order
            seconds = took_ms / 1000.0 / run.completed
    if not run.tracing_seen and run.timeline_seen:  # only tracing lines say that a proof is done
        return Proofs(completed=None, failed=None, in_flight=None, lost=None)
    flying = sum(job.ended is None and not job.failed for job in run.jobs.values()) - run.lost
    return Proofs(
        completed=run.completed,
        failed=run.failed,
        in_flight=max(0, flying),
        lost=run.lost,
        seconds_per_proof=seconds,
    )


def is_placed(run: Run, gpu: Gpu) -> bool | None:
    """Whether the log says which GPU each of these workers uses.

    None where it tells of several GPUs and not of all workers: any of them may be this GPU's.
    """
    if run.has_several_gpus:
        return None if unplaced_workers(run) else True
    return run.step_hi <= ONE_GPU_UNTIL or run.worker_gpu.keys() >= gpu.workers


def unplaced_workers(run: Run) -> frozenset[int]:
    """The workers of which the log doesn't say which GPU they use."""
    workers = {worker for gpu in run.gpus.values() for worker in gpu.workers}
    return frozenset(workers - run.worker_gpu.keys())


def workers_anywhere(run: Run, shares: Iterable[Shares]) -> frozenset[int]:
    """The workers that may be any GPU's: there are several, as the run's shares have found."""
    return unplaced_workers(run) if any(one.mixed for one in shares) else frozenset()


FOLD_CALLS = 4096  # and more of a GPU's calls that have ended are counted and forgotten
KEEP_CALLS = 512  # of them at least: minutes, which readings are compared with
KEEP_FIRST_CALLS = 1024  # for the warm-up


class LongRun:
    """What one GPU's older calls came to, where a run has more than should be kept."""

    def __init__(self) -> None:
        """Nothing is forgotten yet."""
        self._phases: Phases | None = None
        self.first = History()  # the first calls

    def fold(self, gpu: Gpu, until: float) -> None:
        """Count calls and forget them, if there are many; not where calls of two locks overlap.

        Those that aren't in the GPU's history yet began at `until` or after.
        """
        history = gpu.history
        many = len(history) - KEEP_CALLS
        if many < FOLD_CALLS or len(history.locks) > 1 or gpu.first_start is None:
            return
        if self._phases is None:
            self._phases = Phases(gpu.first_start, math.inf)
            self.first = history.head(KEEP_FIRST_CALLS)
        self._phases.add_history(history.head(many))
        history.forget(many)
        self._phases.fold(min(until, *history.start))

    def until(self, end: float) -> Phases | None:
        """What was counted, for the calls up to `end` to be added; None if nothing was."""
        if self._phases is not None:
            self._phases.end = end
        return self._phases


def gpu_phases(gpu: Gpu, start: float, end: float, older: LongRun | None = None) -> Phases:
    """The GPU's calls over a span; a call still open counts as a bracket until the span's end.

    `older` are those that its history doesn't have any more.
    """
    phases = None if older is None else older.until(end)
    if phases is None:
        phases = Phases(start, end)
    phases.add_history(gpu.history)
    for call in gpu.open_calls.values():
        phases.brackets.append((call.start, end))
    return phases


def partitions_of_a_proof(run: Run) -> int | None:
    """How many partitions the run's proofs mostly have."""
    counts: dict[int, int] = {}
    for job in (*run.ended_jobs, *run.jobs.values()):
        size = job.total or len(job.states())
        if size:
            counts[size] = counts.get(size, 0) + 1
    return max(counts, key=counts.__getitem__, default=None)


def herd_of(wave: Waves, gauge: float | None, gaps: str = "") -> Herd:
    """How bunched syntheses finish, for the views."""
    return Herd(
        share=wave.share,
        wave_size=wave.size,
        gauge=gauge,
        sentence=starving_sentence(wave, gauge, limits=False),
        gaps=gaps,
        stall=stall_sentence(wave),
    )


WARM_AFTER = 10  # a GPU's first calls are warm-up: first allocations, parameters, an empty pipeline
WARM_UP_OF = 3  # in a log of at least three times as many


def warm_up(
    run: Run,
    gpu: Gpu,
    waiting: Iterable[Span],
    figures: Shares,
    first: int,
    older: LongRun | None = None,
) -> tuple[Shares, float] | None:
    """The GPU's shares without its `first` calls, and how long these took in ms.

    None where there are too few calls, or no shares.
    """
    history = gpu.history if older is None or not older.first else older.first
    if len(history) < WARM_UP_OF * first or gpu.first_start is None or figures.time_pct is None:
        return None
    until = max(history.end[:first])
    rest_ms = figures.span_ms - (until - gpu.first_start)
    if rest_ms <= 0:
        return None
    phases = Phases(gpu.first_start, until)
    early = history.head(2 * first)
    early.locks.clear()
    phases.add_history(early)
    cold, _ = phases.shares(
        [span for span in waiting if span[0] < until],
        derived=not run.lock_lines,
        placed=is_placed(run, gpu),
    )
    if cold.time_pct is None:
        return None
    warm = {
        name: max(0.0, share * figures.span_ms - cold.time_pct[name] * cold.span_ms) / rest_ms
        for name, share in figures.time_pct.items()
    }
    return Shares(span_ms=rest_ms, time_pct=warm), cold.span_ms


def summarize(
    run: Run,
    stages: StageTable,
    measured: Mapping[int, Measured],
    older: Mapping[int, LongRun] = MappingProxyType({}),
) -> RunReport:
    """The run's report. `measured` are NVML's means over each GPU's span, where there are any.

    `older` are calls that the run doesn't keep any more, by GPU.
    """
    waiting = waiting_spans(run, run.clock)
    reports: list[GpuReport] = []
    shares: list[Shares] = []
    starved: list[Span] = []
    per_proof = partitions_of_a_proof(run)
    warm: list[tuple[Shares, float] | None] = []
    for number in sorted(run.gpus):
        gpu = run.gpus[number]
        if gpu.first_start is None or gpu.last_end is None:
            continue
        long = older.get(number)
        phases = gpu_phases(gpu, gpu.first_start, gpu.last_end, long)
        figures, starved_here = phases.shares(
            waiting, derived=not run.lock_lines, placed=is_placed(run, gpu)
        )
        warm.append(warm_up(run, gpu, waiting, figures, max(WARM_AFTER, per_proof or 0), long))
        gap_count, gap_mean_ms = (None, None) if figures.mixed else phases.bracket_gaps()
        nvml = measured.get(number)
        shares.append(figures)
        starved.extend(starved_here)
        reports.append(
            GpuReport(
                gpu=number,
                workers=tuple(sorted(gpu.workers)),
                shares=figures,
                gap_count=gap_count,
                gap_mean_ms=gap_mean_ms,
                nvml_util_pct=None if nvml is None else nvml.util_pct,
                nvml_power_w=None if nvml is None else nvml.power_w,
                nvml_samples=0 if nvml is None else nvml.samples,
                nvml_source=None if nvml is None else nvml.source,
                suspects=() if nvml is None else suspects(figures, nvml.util_pct, fits=nvml.fits),
            )
        )
    counts = proofs(run)
    figures_of = stages.stats()
    synthesis = figures_of.get("synth_ms")
    wave = waves(
        starved,
        run.synth_starts,
        run.synth_ends,
        [] if synthesis is None else [synthesis.p50],  # all that it asks for is the median
        span_ms=max((one.span_ms for one in shares), default=None),
    )
    gauge = bunching(run.synth_ends, wave.median_synth_ms)
    stretched = inflation(stages.cpu, run.synth_starts, run.synth_ends)
    known = [one for one in warm if one is not None]
    complete = bool(known) and len(known) == len(warm)
    at_us = started_us(run)
    return RunReport(
        run=run.index,
        started=None if at_us is None else iso_utc(at_us),
        dialect=run.dialect,
        span_ms=run.clock if run.timeline_seen or run.epoch_us is not None else None,
        proofs=counts,
        gpus=tuple(reports),
        stages=figures_of,
        verdict=verdict(
            weighted(shares),
            proofs=counts.completed,
            wave=wave,
            measured=_together(shares, reports, measured),
            why_unknown=why_unknown(run) or why_without_shares(run, shares),
            step=(run.step_lo, run.step_hi),
            facts=Facts(
                stages=figures_of,
                means=stages.means(),
                pace_s=counts.seconds_per_proof,
                per_proof=per_proof,
                gpus=max(1, len(reports)),
                lock_derived=not run.lock_lines,
                settings=run.settings,
                inflation=stretched,
                gauge=gauge,
                warm=weighted(one for one, _ in known) if complete else None,
                warm_up_ms=max((took for _, took in known), default=0.0),
            ),
        ),
        alerts=tuple(Alert(level=one.level, at_ms=one.at, text=one.text) for one in run.alerts),
        settings=dict(run.settings),
        herd=herd_of(wave, gauge),
        inflation=stretched,
        unplaced=workers_anywhere(run, shares),
    )


def _together(
    shares: list[Shares], reports: list[GpuReport], measured: Mapping[int, Measured]
) -> Measured | None:
    """The measurements of all GPUs as one, weighted by span; None if one has none to trust.

    One that is dead makes them dead together.
    """
    span = util = power = 0.0
    copies: float | None = 0.0
    known_power = True
    source = ""
    for figures, report in zip(shares, reports, strict=True):
        one = measured.get(report.gpu)
        if one is None or one.fits is not None:
            return None
        if is_dead(one, figures.kernel_pct):
            return one
        span += figures.span_ms
        util += one.util_pct * figures.span_ms
        if one.power_w is None:
            known_power = False
        else:
            power += one.power_w * figures.span_ms
        if copies is not None:
            share = one.copies_pct
            copies = None if share is None else copies + share * figures.span_ms
        source = one.source
    if span <= 0:
        return None
    return Measured(
        util_pct=util / span,
        power_w=power / span if known_power else None,
        source=source,
        copies_pct=None if copies is None else copies / span,
    )


def why_unknown(run: Run) -> str:
    """Why no shares can be computed, in words for the operator; empty if nothing is known."""
    if not run.has_worked:
        return NO_WORK
    if not run.timeline_seen and not run.timing_seen:
        return (
            "this log has no TIMELINE and no CUZK_TIMING lines: the daemon's standard error is"
            " missing; start it with 2>&1"
        )
    if not run.timeline_seen:
        return "this log has no TIMELINE lines"
    if not any(gpu.last_end for gpu in run.gpus.values()):
        return "no partition has finished on a GPU yet"
    return "" if run.timing_seen else "this log has no CUZK_TIMING lines"


UNPLACED = (
    "there are several GPUs (the log names them, or calls hold the lock at the same time), and this"
    " log doesn't say which worker uses which: the daemon's standard output is missing; start it"
    " with 2>&1"
)


def why_without_shares(run: Run, shares: Iterable[Shares]) -> str:
    """Why there are no `shares` although brackets have closed."""
    if any(one.mixed for one in shares):
        return UNPLACED
    calls = without = 0
    for gpu in run.gpus.values():
        history = gpu.history
        times = zip(history.acquired, history.batch, history.tail, history.finished, strict=True)
        for taken, batch, tail, finished in times:
            calls += finished
            without += finished and math.isnan(taken + batch + tail)
    return f"too few calls have lock and kernel times in this log: {without} of {calls} are without"
