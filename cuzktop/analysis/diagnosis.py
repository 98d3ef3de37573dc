"""What limits the box, in a sentence with its evidence and an experiment that could refute it.

The rule is json-contract's: by the log, `gpu` when kernels take 80 % or more of the span, else the
largest of the other classes. The log's kernel time is host time around launches, copies and waits:
an upper bound, so a measurement far below it overrules `gpu`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cuzktop.analysis.intervals import Span
from cuzktop.analysis.throughput import median
from cuzktop.frame import Verdict
from cuzktop.units import percent, shares_to_100

GPU_BOUND_PCT = 80.0
DISAGREE_PTS = 15.0  # a measurement this far under the log's kernel share overrules it
WAVE_MIN = 4
WAVE_SHARE = 0.75  # of the starved time lies in gaps that end in a wave
WAVE_SPREAD = 0.15  # of the median synthesis time
FEW_PROOFS = 10  # fewer completed proofs than this lower the confidence
MEASURED_CONFIDENCE = 0.6

BOTTLENECK_OF = {
    "barrier": "cpu-memory",
    "handoff": "cpu-memory",
    "lock_overhead": "lock",
    "starved": "synthesis",
    "no_work": "idle",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Waves:
    """How syntheses end around the gaps in which GPUs starved.

    `share` is the part of the starved time in gaps that end in a wave, 0–1; `size` the number of
    SYNTH_ENDs that make one.
    """

    share: float
    size: int
    median_synth_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """NVML's time-weighted means over a span, and how many readings they come from."""

    util_pct: float
    power_w: float | None
    source: str
    samples: int = 0


def waves(
    starved: Sequence[Span],
    synth_starts: Sequence[float],
    synth_ends: Sequence[float],
    synth_ms: Sequence[float],
) -> Waves:
    """Do syntheses end in waves at the ends of the starved gaps?

    `synth_starts` and `synth_ends` are instants, `synth_ms` the durations of the syntheses.
    """
    usual = median(synth_ms)
    total = sum(hi - lo for lo, hi in starved)
    starts, ends = sorted(synth_starts), sorted(synth_ends)
    in_flight = [bisect_right(starts, at) - index for index, at in enumerate(ends)]
    size = int(max(WAVE_MIN, (median(in_flight) or 0) / 2))
    if usual is None or total <= 0:
        return Waves(share=0.0, size=size, median_synth_ms=usual)
    reach = WAVE_SPREAD * usual
    bunched = 0.0
    for lo, hi in starved:
        if bisect_right(ends, hi + reach) - bisect_left(ends, hi - reach) >= size:
            bunched += hi - lo
    return Waves(share=bunched / total, size=size, median_synth_ms=usual)


def bunching(synth_ends: Sequence[float], synth_ms: float | None) -> float | None:
    """How bunched syntheses finish, from 0 (evenly spread) to 1 (all together).

    The coefficient of variation of the gaps between SYNTH_ENDs, c, as c² / (1 + c²): 0.5 for ends
    that come at random, near 1 for waves. None with fewer than eight ends, or no usual duration.
    """
    ends = sorted(synth_ends)
    if len(ends) < WAVE_MIN * 2 or not synth_ms:
        return None
    between = [after - before for before, after in pairwise(ends)]
    mean = sum(between) / len(between)
    if mean <= 0:
        return 1.0
    spread = sum((gap - mean) ** 2 for gap in between) / len(between) / mean**2
    return spread / (1.0 + spread)


def verdict(
    time_pct: Mapping[str, float] | None,
    *,
    proofs: int,
    wave: Waves | None = None,
    measured: Measured | None = None,
    why_unknown: str = "",
    step: tuple[int, int] = (1, 45),
    window: str = "the run",
) -> Verdict:
    """The verdict over a span from its classes (which add up to 100), by the contract's rule.

    `proofs` completed in the span set the confidence; `step` is the range of daemon steps that the
    log leaves possible, for the knobs that advice names; `window` names the span in sentences.
    """
    if time_pct is None:
        reason = why_unknown or "the log gives no lock or kernel times"
        return Verdict(
            bottleneck="unknown",
            confidence=0.0,
            sentence=f"Can't tell what limits this box: {reason}.",
            evidence=(reason,),
        )
    kernel = time_pct["kernel"]
    confidence = _confidence(time_pct, proofs)
    evidence = [_shares_sentence(time_pct, window)]
    if proofs < FEW_PROOFS:
        evidence.append(f"{proofs} of {FEW_PROOFS} proofs completed: the shares may still move")
    if kernel >= GPU_BOUND_PCT:
        if measured is not None and kernel - measured.util_pct > DISAGREE_PTS:
            return _measured_verdict(kernel, measured, confidence, evidence, step)
        return _gpu_verdict(kernel, measured, confidence, evidence, step)
    worst = max(BOTTLENECK_OF, key=lambda kind: time_pct[kind])
    bottleneck = BOTTLENECK_OF[worst]
    if measured is not None:
        evidence.append(_measured_sentence(kernel, measured))
    if bottleneck == "synthesis" and wave is not None and wave.share >= WAVE_SHARE:
        bottleneck = "herding"
    sentence, advice = _ADVICE[bottleneck](shares_to_100(time_pct), worst, wave, step)
    if bottleneck == "herding" and wave is not None:
        evidence.append(
            f"{100 * wave.share:.0f} % of the starved time ends in a wave of {wave.size} or more"
            " syntheses that finish together"
        )
    return Verdict(
        bottleneck=bottleneck,
        confidence=confidence,
        sentence=sentence,
        evidence=tuple(evidence),
        advice=tuple(advice),
    )


def _confidence(time_pct: Mapping[str, float], proofs: int) -> float:
    """0–0.95: by the number of proofs, and by how clear the largest class is."""
    ranked = sorted(time_pct.values(), reverse=True)
    clear = min(1.0, (ranked[0] - ranked[1]) / 20.0) if len(ranked) > 1 else 1.0
    many = min(1.0, proofs / FEW_PROOFS)
    return round(0.95 * (0.4 + 0.6 * many) * (0.7 + 0.3 * clear), 2)


def _shares_sentence(time_pct: Mapping[str, float], window: str) -> str:
    shown = ", ".join(
        f"{name.replace('_', ' ')} {percent(share)} %"
        for name, share in shares_to_100(time_pct).items()
    )
    return f"over {window}: {shown}"


def _measured_sentence(kernel_pct: float, measured: Measured) -> str:
    power = "" if measured.power_w is None else f" at {measured.power_w:.0f} W"
    return (
        f"NVML ({measured.source}) measured the GPU busy {percent(measured.util_pct)} %{power};"
        f" the log's kernel time is {percent(kernel_pct)} %"
    )


def _measured_verdict(
    kernel: float,
    measured: Measured,
    confidence: float,
    evidence: list[str],
    step: tuple[int, int],
) -> Verdict:
    evidence.append(_measured_sentence(kernel, measured))
    evidence.append(
        "the GPU idles inside the stages that the log calls kernel: the CPU's work in them, or"
        " host-to-device copies, take the rest"
    )
    return Verdict(
        bottleneck="cpu-memory",
        confidence=min(confidence, MEASURED_CONFIDENCE),
        sentence=(
            f"The log says kernels run {percent(kernel)} % of the time, NVML saw the GPU busy"
            f" {percent(measured.util_pct)} %: the GPU waits for the CPU inside its stages."
        ),
        evidence=tuple(evidence),
        advice=(
            f"Lower the load on CPU and memory bandwidth first ({_fewer_syntheses(step)}) and"
            " compare; if NTT times don't fall, measure host-to-device copies.",
        ),
    )


def _gpu_verdict(
    kernel: float,
    measured: Measured | None,
    confidence: float,
    evidence: list[str],
    step: tuple[int, int],
) -> Verdict:
    if measured is None:
        evidence.append(
            "the log alone can't tell: its kernel times are host times around launches, copies"
            " and waits; record NVML beside it (--samples) to be sure"
        )
        sentence = (
            f"By the log the GPU is the limit: kernels run {percent(kernel)} % of the time"
            " (host times; NVML would settle it)."
        )
        confidence = min(confidence, 0.8)
    else:
        evidence.append(_measured_sentence(kernel, measured))
        sentence = (
            f"The GPU is the limit: kernels run {percent(kernel)} % of the time,"
            f" NVML agrees with {percent(measured.util_pct)} %."
        )
    return Verdict(
        bottleneck="gpu",
        confidence=confidence,
        sentence=sentence,
        evidence=tuple(evidence),
        advice=(
            "More syntheses or workers won't help; a faster or second GPU would. To prove it wrong:"
            f" {_more_workers(step)}; proofs an hour should not rise.",
        ),
    )


def _fewer_syntheses(step: tuple[int, int]) -> str:
    return "partition_workers" if step[1] < 33 else "max_parallel_synthesis or the memory budget"


def _more_syntheses(step: tuple[int, int]) -> str:
    if step[1] < 33:
        return "raise partition_workers"
    return "raise the memory budget (total_budget) and max_parallel_synthesis"


def _more_workers(step: tuple[int, int]) -> str:
    if step[1] < 19:
        return "submit more proofs at a time"
    return "raise gpu_workers_per_device by one"


Advised = tuple[str, list[str]]


def _cpu_memory(
    time_pct: Mapping[str, float], worst: str, _: Waves | None, step: tuple[int, int]
) -> Advised:
    kernel = percent(time_pct["kernel"])
    if worst == "handoff":
        return (
            f"The GPU waits for its workers: {percent(time_pct['handoff'])} % of the time the lock"
            f" is free while a worker does CPU work in its bracket; kernels run {kernel} %.",
            [
                f"{_more_workers(step)[0].upper()}{_more_workers(step)[1:]}, so that one can"
                " compute while another prepares; handoff should fall. If it doesn't, the CPU or"
                f" memory bandwidth is short: lower {_fewer_syntheses(step)} instead."
            ],
        )
    return (
        f"The GPU waits for the CPU: {percent(time_pct['barrier'])} % of the time kernels wait for"
        f" prep_msm with the lock held; they run {kernel} %.",
        [
            f"Lower {_fewer_syntheses(step)} by a quarter: fewer syntheses leave CPU and memory"
            " bandwidth to prep_msm. Its p50 and the barrier should fall; if they don't, memory"
            " bandwidth is not what it waits for, and gpu_threads is the next knob."
        ],
    )


def _lock(
    time_pct: Mapping[str, float], _: str, __: Waves | None, step: tuple[int, int]
) -> Advised:
    return (
        f"The GPU lock is held without computing {percent(time_pct['lock_overhead'])} % of the"
        f" time; kernels run {percent(time_pct['kernel'])} %.",
        [
            "Look for allocations under the lock: prestage fall-backs, circuits of changing size,"
            " a short card memory; free card memory or keep one proof kind a GPU, then compare"
            " lock_held p50 with gpu_total p50."
            if step[1] >= 20
            else "Compare lock_held p50 with gpu_total p50."
        ],
    )


def _synthesis(
    time_pct: Mapping[str, float], _: str, wave: Waves | None, step: tuple[int, int]
) -> Advised:
    spread = ""
    if wave is not None and wave.share > 0.4:
        spread = " (in part because syntheses finish together)"
    return (
        f"The GPU starves: {percent(time_pct['starved'])} % of the time no partition is ready for"
        f" it{spread}; kernels run {percent(time_pct['kernel'])} %.",
        [
            f"To feed it, {_more_syntheses(step)}, or send more proofs at a time, while CPU and"
            " memory last. If starved stays and synthesis p50 grows instead, the CPU is full."
        ],
    )


def _herding(
    time_pct: Mapping[str, float], _: str, wave: Waves | None, step: tuple[int, int]
) -> Advised:
    usual = "" if wave is None or wave.median_synth_ms is None else " within one synthesis time"
    return (
        f"Syntheses finish in waves: the GPU starves {percent(time_pct['starved'])} % of the time"
        f" between them and queues in between; kernels run {percent(time_pct['kernel'])} %.",
        [
            "Start proofs apart instead of together, or keep one more proof in flight, so that"
            f" waves overlap{usual}. If starved stays, there are too few syntheses:"
            f" {_more_syntheses(step)}."
        ],
    )


def _idle(time_pct: Mapping[str, float], _: str, __: Waves | None, ___: tuple[int, int]) -> Advised:
    return (
        f"Nothing to do {percent(time_pct['no_work'])} % of the time: no partition was on its way"
        " to the GPU.",
        ["Send more proofs at a time; the box has room."],
    )


_ADVICE = {
    "cpu-memory": _cpu_memory,
    "lock": _lock,
    "synthesis": _synthesis,
    "herding": _herding,
    "idle": _idle,
}
