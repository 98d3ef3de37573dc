"""A comparison of logs in sentences: what changed, by how much, is it real, and why.

The answer comes first. What can't be told is said as such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cuzktop.analysis.compare import ADDRESSES, Comparison, Pace, StageChange, Step, tested_pace
from cuzktop.analysis.figures import GPUS, UNKNOWN_KIND, LogFigures
from cuzktop.analysis.stats import too_few
from cuzktop.frame import TIME_CLASSES
from cuzktop.units import UNKNOWN, duration, percent

LARGE_PART: Final = 0.25  # of the change: a class of GPU time with less isn't named as its cause
NAMED_CAUSES: Final = 2
NAMED_STAGES: Final = 3
LARGE_CHANGE_PCT: Final = 5.0  # of the pace: too much to call two logs the same without proof
START_MATTERS_PTS: Final = 5.0  # between a change with and without the runs' start

STAGE_WORDS: Final[Mapping[str, str]] = {
    "synth_ms": "synthesis",
    "queue_ms": "queue",
    "pre_lock_cpu_ms": "CPU before the lock",
    "lock_wait_ms": "lock wait",
    "ntt_msm_h_ms": "NTT and H MSM",
    "barrier_wait_ms": "barrier",
    "batch_add_ms": "batch add",
    "tail_msm_ms": "tail MSM",
    "prep_msm_ms": "prep_msm",
    "b_g2_msm_ms": "b_g2_msm",
}
"""Stages that hold no other stage: what sentences name."""

CLASS_WORDS: Final[Mapping[str, str]] = {
    "kernel": "kernels",
    "barrier": "the barrier",
    "lock_overhead": "lock overhead",
    "handoff": "handoff",
    "starved": "starved time",
    "no_work": "time without work",
}

Named = tuple[str, LogFigures]


def sentences(comparison: Comparison) -> list[str]:
    """What the comparison says, the answer first."""
    if comparison.sweep:
        first, *more = _sweep(comparison)
        more += [
            step_sentences(comparison, step)[0]
            for step in comparison.steps
            if step.pace is None or step.pace.real is not False
        ]
    else:
        first, *more = step_sentences(comparison, comparison.steps[0])
    return [first, *_unlike(comparison), *more, *_caveats(comparison)]


def step_sentences(comparison: Comparison, step: Step) -> list[str]:
    """What changed from one log to another, the answer first."""
    a, b = ((comparison.labels[i], comparison.logs[i]) for i in (step.a, step.b))
    pace, changes = step.pace, step.stages
    changed = {
        name: (values[step.a], values[step.b])
        for name, values in comparison.differ.items()
        if values[step.a] != values[step.b]
    }
    if not changed and _identical(a[1], b[1], pace, changes):
        return [f"Nothing to report: {a[0]} and {b[0]} say the same."]
    stages_moved = any(change.p50_real or change.p95_real for change in changes.values())
    pace_moved = pace is not None and pace.real is not False
    said = [_headline(a, b, pace, stages_moved=stages_moved)]
    if pace is not None:
        said += _start_matters(a, b, pace)
    said += _limit(a, b)
    said += _stages_said(a, b, changes)
    said += _settings_said(a, b, changed, quiet=not stages_moved and not pace_moved)
    return said


def _identical(
    a: LogFigures, b: LogFigures, pace: Pace | None, changes: Mapping[str, StageChange]
) -> bool:
    return (
        a.partitions == b.partitions > 0
        and (pace is None or pace.a_s == pace.b_s)
        and a.pace_ms == b.pace_ms
        and all(change.p50_diff_ms == change.p95_diff_ms == 0 for change in changes.values())
    )


def _pct(change: float) -> str:
    change = abs(change)
    return f"{change:.0f} %" if change >= 9.95 else f"{change:.1f} %"


def _plural(names: Sequence[str], one: str, many: str) -> str:
    """`A has`, `A and B have`."""
    return f"{' and '.join(names)} {one if len(names) == 1 else many}"


def _headline(a: Named, b: Named, pace: Pace | None, *, stages_moved: bool) -> str:
    """The pace, whether it really differs, and what made it."""
    if pace is None:
        missing = [(name, log) for name, log in (a, b) if tested_pace(log) is None]
        blind = [name for name, log in missing if log.partitions and not log.timed]
        if blind:
            return f"Can't compare the pace: {_plural(blind, 'has', 'have')} no TIMELINE lines."
        names = " and ".join(name for name, _ in missing)
        return f"Can't compare the pace: {names} finished no proof after warm-up."
    if pace.real is None:
        return _untold(a, b, pace)
    if not pace.real:
        return _same(a, b, pace, stages_moved=stages_moved)
    before, after, change, warm = pace.a_s, pace.b_s, pace.change_pct, ""
    warm_change = pace.warm_change_pct
    if (
        warm_change is not None
        and pace.warm_a_s is not None
        and pace.warm_b_s is not None
        and (change < 0) != (warm_change < 0)
    ):
        before, after, change, warm = pace.warm_a_s, pace.warm_b_s, warm_change, " after warm-up"
    faster = change < 0
    because = _because(a[1], b[1], faster=faster)
    return (
        f"{b[0]} is {'faster' if faster else 'slower'}: {after:.1f} s a proof{warm} instead of"
        f" {before:.1f} s ({_pct(change)} {'less' if faster else 'more'}){because}."
    )


def _same(a: Named, b: Named, pace: Pace, *, stages_moved: bool) -> str:
    """No real difference in pace, and how small a one would have been seen."""
    figures = f"{pace.a_s:.1f} s and {pace.b_s:.1f} s a proof"
    if pace.warm_a_s is not None and pace.warm_b_s is not None and _start_matters(a, b, pace):
        figures = f"{pace.warm_a_s:.1f} s and {pace.warm_b_s:.1f} s a proof after warm-up"
    seen = ""
    if pace.detectable_pct is not None:
        seen = f"; a change of less than {_pct(pace.detectable_pct)} would not have shown"
    if pace.warm_change_pct is not None and abs(pace.warm_change_pct) >= LARGE_CHANGE_PCT:
        return (
            f"Too little to tell the pace of {a[0]} and {b[0]} apart: {figures}, which runs as"
            f" short and uneven as these can come to by chance{seen}."
        )
    if stages_moved:
        return (
            f"{b[0]} is no faster and no slower than {a[0]} beyond the runs' own spread:"
            f" {figures}{seen}."
        )
    return f"Nothing to report: {figures}, within the runs' own spread{seen}."


def _untold(a: Named, b: Named, pace: Pace) -> str:
    """What was measured, and why it can't be told from chance."""
    took = f"{b[0]} took {pace.b_s:.1f} s a proof, {a[0]} {pace.a_s:.1f} s"
    if pace.a_s != pace.b_s:
        took += f" ({_pct(pace.change_pct)} {'less' if pace.b_s < pace.a_s else 'more'})"
    untimed = [name for name, log in (a, b) if not log.timed]
    if untimed:
        return (
            f"Can't tell whether the pace differs: {_plural(untimed, 'has', 'have')} no TIMELINE"
            f" lines; {took}."
        )
    return (
        f"Too few proofs to tell whether the pace differs: {took}, over {_count_of(a)} and"
        f" {_count_of(b)} after warm-up."
    )


def _count_of(named: Named) -> str:
    count = len(named[1].proofs)
    return f"{count} {'proof' if count == 1 else 'proofs'} of {named[0]}"


def _because(a: LogFigures, b: LogFigures, *, faster: bool) -> str:
    """Which classes of GPU time moved a proof's time in that direction, and what went against."""
    before, after = a.gpu_ms_per_proof, b.gpu_ms_per_proof
    shares_a, shares_b = a.time_pct, b.time_pct
    if before is None or after is None or shares_a is None or shares_b is None:
        return ""
    gpus_a, gpus_b = _gpus(a), _gpus(b)
    if gpus_a != gpus_b and (gpus_b > gpus_a) == faster:
        return _because_of_gpus((gpus_a, sum(before.values())), (gpus_b, sum(after.values())))
    moved = {
        name: after.get(name, 0.0) / gpus_b - before.get(name, 0.0) / gpus_a
        for name in TIME_CLASSES
    }
    if (sum(moved.values()) < 0) != faster:
        return ""

    def told(name: str) -> str:
        share_a, share_b = shares_a.get(name, 0.0), shares_b.get(name, 0.0)
        fell = moved[name] < 0
        if name != "kernel" and (share_b < share_a) == fell:
            return (
                f"{CLASS_WORDS[name]} {'fell' if fell else 'rose'} from {percent(share_a)} % to"
                f" {percent(share_b)} % of the time"
            )
        return (
            f"{CLASS_WORDS[name]} took {duration(after.get(name, 0.0))} of GPU time a proof instead"
            f" of {duration(before.get(name, 0.0))}"
        )

    ranked = sorted(moved, key=lambda name: -abs(moved[name]))
    along = [name for name in ranked if (moved[name] < 0) == faster]
    large = LARGE_PART * sum(abs(moved[name]) for name in along)
    causes = [name for name in along if abs(moved[name]) >= large][:NAMED_CAUSES]
    against = [name for name in ranked if name not in along and abs(moved[name]) >= large]
    said = f", because {' and '.join(map(told, causes))}" if causes else ""
    return said + (f", although {told(against[0])}" if against else "")


def _because_of_gpus(before: tuple[int, float], after: tuple[int, float]) -> str:
    """Another number of GPUs, and what it made of a proof's GPU time; both as (GPUs, ms)."""
    (gpus_a, ms_a), (gpus_b, ms_b) = before, after
    said = f", because {gpus_b} {'GPU does' if gpus_b == 1 else 'GPUs do'} the work of {gpus_a}"
    if (ms_b > ms_a) == (gpus_b > gpus_a) and abs(ms_b - ms_a) >= LARGE_PART * ms_a:
        said += f", although a proof took {duration(ms_b)} of GPU time instead of {duration(ms_a)}"
    return said


def _gpus(log: LogFigures) -> int:
    return 0 if log.report is None else len(log.report.gpus)


def _start_matters(a: Named, b: Named, pace: Pace) -> list[str]:
    """Where the runs' start, or proofs that failed, make much of the seconds a proof."""
    warm = pace.warm_change_pct
    if warm is None or abs(warm - pace.change_pct) < START_MATTERS_PTS:
        return []
    over_all = pace.real is False or (warm < 0) != (pace.change_pct < 0)  # the headline is warm
    when = "Over the whole runs" if over_all else "After warm-up"
    seconds = (pace.a_s, pace.b_s) if over_all else (pace.warm_a_s, pace.warm_b_s)
    change = pace.change_pct if over_all else warm
    failed = any(log.counts.failed or log.counts.lost for _, log in (a, b))
    return [
        f"{when} {b[0]} took {seconds[1]:.1f} s a proof, {a[0]} {seconds[0]:.1f} s ({_pct(change)}"
        f" {'less' if change < 0 else 'more'}): the rest is the runs' start"
        f"{', or proofs that failed' if failed else ''}."
    ]


def _limit(a: Named, b: Named) -> list[str]:
    if a[1].report is None or b[1].report is None:
        return []
    before, after = a[1].report.verdict.bottleneck, b[1].report.verdict.bottleneck
    if "unknown" in (before, after):
        return []
    if before == after:
        return [f"The limit is {before} in both."]
    return [f"The limit was {before} in {a[0]} and is {after} in {b[0]}."]


def _stages_said(a: Named, b: Named, changes: Mapping[str, StageChange]) -> list[str]:
    """The stages that moved most."""
    own = [changes[stage] for stage in STAGE_WORDS if stage in changes]
    if not any(change.p50_p is not None for change in own):
        if own and too_few(len(a[1].proofs), len(b[1].proofs)):
            return ["There are too few proofs after warm-up to tell stages apart."]
        return []
    moved = [change for change in own if change.p50_real]
    if not moved:
        return ["No stage's median moved by more than the runs' own spread."]
    moved.sort(key=lambda change: -abs(change.p50_diff_ms or 0.0))
    said = [
        f"{STAGE_WORDS[change.stage]} {duration(change.a.p50)} → {duration(change.b.p50)}"
        for change in moved[:NAMED_STAGES]
        if change.a is not None and change.b is not None
    ]
    more = len(moved) - len(said)
    rest = f", and {more} more" if more > 0 else ""
    return [f"Stages whose median really moved: {', '.join(said)}{rest}."]


def _settings_said(
    a: Named, b: Named, changed: Mapping[str, tuple[str | None, str | None]], *, quiet: bool
) -> list[str]:
    """What was changed, as far as the logs say it."""
    silent = [name for name, log in (a, b) if log.report is not None and not log.report.settings]
    if silent:
        return [
            f"{_plural(silent, 'does', 'do')} not hold the daemon's start, so what was set there is"
            " unknown."
        ]
    changed = {
        name: pair
        for name, pair in changed.items()
        if name not in ADDRESSES and not (name == GPUS and None in pair)
    }
    told = ", ".join(
        f"{name} {'not stated' if old is None else old} → {'not stated' if new is None else new}"
        for name, (old, new) in changed.items()
    )
    if len(changed) > 1:
        return [
            f"{len(changed)} settings differ ({told}), so these logs alone can't tell which of them"
            " did it."
        ]
    if changed:
        return [f"One setting differs: {told}."]
    if quiet:
        return []
    seen = []
    for what, old, new in (
        ("proofs at a time", a[1].proofs_at_a_time, b[1].proofs_at_a_time),
        ("syntheses at a time", a[1].syntheses_at_a_time, b[1].syntheses_at_a_time),
    ):
        if old is not None and new is not None and old != new:
            seen.append(f"{what} {old} → {new}")
    more = f"; what the logs show is {', '.join(seen)} at most" if seen else ""
    return [f"No setting that the logs state differs{more}."]


def _unlike(comparison: Comparison) -> list[str]:
    """Why seconds a proof of these logs mean different work, if they do."""
    named = zip(comparison.labels, comparison.logs, strict=True)
    found = [(name, log) for name, log in named if log.partitions]
    mixes = [
        {one: round(10.0 * count / log.partitions) for one, count in log.kinds.items()}
        for _, log in found
        if UNKNOWN_KIND not in log.kinds
    ]
    if any(mix != mixes[0] for mix in mixes):
        told = "; ".join(f"{name} {', '.join(log.kinds)}" for name, log in found)
        kind = comparison.kind
        rest = (
            "their stages can't be compared"
            if kind is None
            else f"stages are compared for {kind} alone"
        )
        return [f"The logs prove different kinds ({told}), so seconds a proof mislead; {rest}."]
    if len({log.per_proof for _, log in found}) > 1:
        told = ", ".join(f"{log.per_proof} in {name}" for name, log in found)
        return [f"A proof has a different number of partitions ({told}): seconds a proof mislead."]
    return []


def _caveats(comparison: Comparison) -> list[str]:
    """What else is to be known of each log."""
    said = []
    for name, log in zip(comparison.labels, comparison.logs, strict=True):
        if log.report is None:
            said.append(f"{name} has no finished partition: there is nothing to compare.")
            continue
        if log.runs > 1:
            said.append(
                f"{name} has {log.runs} runs of the daemon; run {log.report.run}, the longest with"
                " finished partitions, is compared."
            )
        broken = [
            f"{count} {what}"
            for count, what in ((log.counts.failed, "failed"), (log.counts.lost, "lost"))
            if count
        ]
        if broken:
            said.append(f"In {name} not every proof went well: {' and '.join(broken)}.")
    return said


def _sweep(comparison: Comparison) -> list[str]:
    """The trend over all logs, and from where on more brings nothing."""
    labels, logs, knee = comparison.labels, comparison.logs, comparison.knee
    paces = [tested_pace(log) for log in logs]
    paced = [index for index, pace in enumerate(paces) if pace is not None]
    if comparison.best is None or not paced:
        return ["Can't compare the pace: none of the logs finished a proof after warm-up."]
    trend = " → ".join(
        f"{name} {UNKNOWN if pace is None else f'{pace:.1f} s'}"
        for name, pace in zip(labels, paces, strict=True)
    )
    said = [f"Seconds a proof after warm-up: {trend}."]
    if len(paced) < 2:
        return [f"Can't compare the pace: {labels[paced[0]]} alone has one.", *said]
    if knee is None:
        return ["Too few proofs to tell where it stops getting faster.", *said]
    order_by = comparison.order_by
    named = labels[knee]
    if order_by is not None:
        named += f" ({order_by} {logs[knee].settings[order_by]})"
    slower = [
        labels[index]
        for index in paced
        if index > knee and (pace := comparison.against_best.get(index)) and pace.real
    ]
    worse = f" {_plural(slower, 'is', 'are')} really slower." if slower else ""
    if knee == paced[-1]:
        first = f"No knee yet: {named}, the last, is really the fastest; go on in that direction."
    elif knee == paced[0]:
        first = f"None is really faster than {named}, the first.{worse}"
    else:
        first = f"The knee is at {named}: nothing after it is really faster.{worse}"
    return [first, *said]
