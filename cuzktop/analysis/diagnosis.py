"""What limits the box, in a sentence with its evidence and an experiment that could refute it.

The rule is json-contract's: by the log, `gpu` when kernels take 80 % or more of the span, else the
largest of the other classes. The log's kernel time is host time around launches, copies and waits:
an upper bound, so a measurement far below it overrules `gpu`.
"""

from __future__ import annotations

from collections.abc import Mapping

from cuzktop.analysis import advice
from cuzktop.analysis.advice import Facts
from cuzktop.analysis.herding import Waves, starving_sentence
from cuzktop.analysis.inflation import pressure
from cuzktop.analysis.reconcile import credible
from cuzktop.dataclass import dataclass
from cuzktop.frame import (
    DISAGREE_PTS,
    FEW_PROOFS,
    GPU_BOUND_PCT,
    HELD,
    UNFED,
    WAVE_SHARE,
    Verdict,
)
from cuzktop.units import duration, percent, shares_to_100

LEAST_COVERAGE = 0.5  # of a span must be measured, or a mean over it says nothing of it
CANT_TELL = 0.6  # few proofs and less confidence than this: the sentence says so
MEASURED_CONFIDENCE = 0.6
COPIES_MATTER = 0.5  # of the gap: from then on copies are the larger part of it
UNSETTLED = 0.5  # at most, where warm-up or a single stall may have made the answer
CLOSE_PTS = 5.0  # two classes so near to each other may change places
NEAR_PTS = 2.0
WARM_PTS = 5.0  # a class that moves by more without warm-up is told
FIRST_PRESTAGE, LAST_PRESTAGE = 20, 27  # steps that upload under the lock and don't time it
LEAST_IDLE_PCT = 10.0
DECIDED = 2 / 3  # of the time without kernels on one side settles why the GPU is jumpy

BOTTLENECK_OF = {
    "barrier": "cpu-memory",
    "handoff": "cpu-memory",
    "lock_overhead": "lock",
    "starved": "synthesis",
    "no_work": "idle",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """NVML's time-weighted means over a span, and how many readings they come from.

    `fits` is another GPU's number if these readings go with that one's log and not with this one's;
    `copies_pct` the least share of the time in which copies to the card ran.
    """

    util_pct: float
    power_w: float | None
    source: str
    samples: int = 0
    fits: int | None = None
    copies_pct: float | None = None


def is_dead(measured: Measured, kernel_pct: float | None) -> bool:
    """Whether NVML's figure can't be true: nothing but 0 while kernels ran.

    Some platforms (WSL, a card in slices) answer so.
    """
    return not credible(kernel_pct, measured.util_pct)


def verdict(
    time_pct: Mapping[str, float] | None,
    *,
    proofs: int | None,
    wave: Waves | None = None,
    measured: Measured | None = None,
    why_unknown: str = "",
    step: tuple[int, int] = (1, 45),
    window: str = "the run",
    facts: Facts | None = None,
) -> Verdict:
    """The verdict over a span from its classes (which add up to 100), by the contract's rule.

    `proofs` completed set the confidence (None: the log doesn't say); `step` is the range of daemon
    steps that the log leaves possible, for the knobs that advice names; `window` names the span in
    sentences. `facts` change no bottleneck: they explain it and bound what a change can bring.
    """
    if time_pct is None:
        reason = why_unknown or "the log gives no lock or kernel times"
        return Verdict(
            bottleneck="unknown",
            confidence=0.0,
            sentence=f"Can't tell what limits this box: {reason}.",
            evidence=(reason,),
        )
    facts = facts or Facts()
    count = _proofs(proofs, facts)
    shown = shares_to_100(time_pct)
    worst = max(BOTTLENECK_OF, key=lambda kind: time_pct[kind])
    bottleneck = _by_rule(time_pct, wave)
    confidence = _confidence(time_pct, count)
    evidence = [_shares_sentence(time_pct, window)]
    if measured is not None and is_dead(measured, time_pct["kernel"]):
        evidence.append(
            f"NVML ({measured.source}) stayed at 0 while kernels ran: it isn't credible here, and"
            " doesn't count"
        )
        measured = None
    told: list[str]
    if bottleneck == "gpu":
        sentence, bottleneck, confidence, told = _kernels(time_pct["kernel"], measured, confidence)
        evidence += told
        tips = (
            advice.gpu(step, facts)
            if bottleneck == "gpu"
            else [
                f"Lower the load on CPU and memory bandwidth first"
                f" ({advice.synthesis_knob(step)}) and compare; if NTT times don't fall, measure"
                " host-to-device copies."
            ]
        )
    else:
        sentence, tips = advice.BY_BOTTLENECK[bottleneck](shown, worst, wave, step, facts)
        if measured is not None:
            evidence.append(_measured_sentence(time_pct["kernel"], measured))
        jumpy, settled = _jumpy(shown)
        if jumpy:
            evidence.append(jumpy)
        if jumpy and not settled:
            tips = [*tips, TELL_APART]
    evidence += _cpu_evidence(bottleneck, facts)
    if bottleneck in {"synthesis", "herding"} and wave is not None:
        starving = starving_sentence(wave, facts.gauge, limits=True)
        if starving:
            evidence.append(starving)
        if wave.stalled:
            confidence = min(confidence, UNSETTLED)
    doubts, most = _doubts(time_pct, bottleneck, proofs, facts, wave, step)
    evidence += doubts
    confidence = min(confidence, most)
    tail = ""
    if count < FEW_PROOFS and confidence < CANT_TELL:
        about = "" if proofs is not None else "about "
        plural = "" if count == 1 else "s"
        tail = (
            f" Can't tell for sure yet: {about}{count} proof{plural} so far, sure from"
            f" {FEW_PROOFS} on."
        )
    return Verdict(
        bottleneck=bottleneck,
        confidence=confidence,
        sentence=f"{sentence}.{tail}",
        evidence=tuple(evidence),
        advice=tuple(tips),
    )


def _by_rule(time_pct: Mapping[str, float], wave: Waves | None) -> str:
    """The contract's rule, without measurements."""
    if time_pct["kernel"] >= GPU_BOUND_PCT:
        return "gpu"
    worst = max(BOTTLENECK_OF, key=lambda kind: time_pct[kind])
    bottleneck = BOTTLENECK_OF[worst]
    if bottleneck == "synthesis" and wave is not None and wave.share >= WAVE_SHARE:
        return "herding"
    return bottleneck


def _proofs(proofs: int | None, facts: Facts) -> int:
    """Proofs completed; without the daemon's word for it, what its partitions make."""
    if proofs is not None:
        return proofs
    done = max((one.count for one in facts.stages.values()), default=0)
    return done // (facts.per_proof or 10)


def _confidence(time_pct: Mapping[str, float], proofs: int) -> float:
    """0–0.95: by the number of proofs, and by how clear the largest class is."""
    ranked = sorted(time_pct.values(), reverse=True)
    clear = min(1.0, (ranked[0] - ranked[1]) / 20.0) if len(ranked) > 1 else 1.0
    many = min(1.0, proofs / FEW_PROOFS)
    return round(0.95 * (0.4 + 0.6 * many) * (0.7 + 0.3 * clear), 2)


# ---------------------------------------------------------------- evidence


def _shares_sentence(time_pct: Mapping[str, float], window: str) -> str:
    return f"over {window}: {_shares_list(time_pct)}"


def _shares_list(time_pct: Mapping[str, float]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {percent(share)} %"
        for name, share in shares_to_100(time_pct).items()
    )


def _measured_sentence(kernel_pct: float, measured: Measured) -> str:
    power = "" if measured.power_w is None else f" at {measured.power_w:.0f} W"
    return (
        f"NVML ({measured.source}) measured the GPU busy {percent(measured.util_pct)} %{power};"
        f" the log's kernel time is {percent(kernel_pct)} %"
    )


def _kernels(
    kernel: float, measured: Measured | None, confidence: float
) -> tuple[str, str, float, list[str]]:
    """Sentence, bottleneck, confidence and evidence where kernels take the time by the log."""
    if measured is None:
        return (
            f"By the log the GPU is the limit: kernels run {percent(kernel)} % of the time"
            " (host times; NVML would settle it)",
            "gpu",
            min(confidence, 0.8),
            [
                "the log alone can't tell: its kernel times are host times around launches, copies"
                " and waits; record NVML beside it (--samples) to be sure"
            ],
        )
    told = [_measured_sentence(kernel, measured)]
    if kernel - measured.util_pct > DISAGREE_PTS:
        told.append(
            "the GPU idles inside the stages that the log calls kernel: the CPU's work in them, or"
            " host-to-device copies, take the rest"
        )
        waits_for = "the CPU"
        if measured.copies_pct is None:
            confidence = min(confidence, MEASURED_CONFIDENCE)
        else:
            gap = kernel - measured.util_pct
            copied, most = percent(measured.copies_pct), measured.copies_pct >= COPIES_MATTER * gap
            told.append(
                f"by PCIe's rate host-to-device copies took at least {copied} % of the time:"
                + (
                    " they explain most of what lies between"
                    if most
                    else f" of the {percent(gap)} points between, the CPU has the larger part"
                )
            )
            waits_for = "copies" if most else "the CPU"
        return (
            f"The log says kernels run {percent(kernel)} % of the time, NVML saw the GPU busy"
            f" {percent(measured.util_pct)} %: the GPU waits for {waits_for} inside its stages",
            "cpu-memory",
            confidence,
            told,
        )
    return (
        f"The GPU is the limit: kernels run {percent(kernel)} % of the time,"
        f" NVML agrees with {percent(measured.util_pct)} %",
        "gpu",
        confidence,
        told,
    )


TELL_APART = (
    "To tell the two apart: keep one more proof in flight at the client and wait until the pipeline"
    " has spread out, two proofs' time. If the GPU wasn't fed, starved falls and kernels rise; if"
    " something holds it up, only the queue and lock wait grow."
)


def _jumpy(shown: Mapping[str, float]) -> tuple[str, bool]:
    """Is the GPU held up, or not fed? In a sentence, and whether the log settles it."""
    held, unfed = sum(shown[name] for name in HELD), sum(shown[name] for name in UNFED)
    idle = held + unfed
    if idle < LEAST_IDLE_PCT:
        return "", True
    text = (
        f"of the {percent(idle)} % without kernels, {percent(100 * held / idle, digits=0)} % pass"
        f" with a worker in its bracket, {percent(100 * unfed / idle, digits=0)} % with none"
    )
    if held >= DECIDED * idle:
        return f"{text}: something holds the GPU up, it isn't short of work", True
    if unfed >= DECIDED * idle:
        return f"{text}: the GPU isn't fed, no lock holds it up", True
    return f"{text}: it is held up and badly fed, both", False


def _cpu_evidence(bottleneck: str, facts: Facts) -> list[str]:
    """Whether CPU stages stretch, and what the machine says of it."""
    found = facts.inflation
    if found is None or (found.found == "unknown" and bottleneck != "cpu-memory"):
        return []
    told = [found.sentence]
    said = pressure(facts.host)
    if said and found.found in {"contention", "one"}:
        told.append(said)
    return told


def _doubts(
    time_pct: Mapping[str, float],
    bottleneck: str,
    proofs: int | None,
    facts: Facts,
    wave: Waves | None,
    step: tuple[int, int],
) -> tuple[list[str], float]:
    """What is missing to be sure, and the most confidence that it leaves."""
    told, most = [], 1.0
    count = _proofs(proofs, facts)
    worst = max(BOTTLENECK_OF, key=lambda kind: time_pct[kind])
    if count < FEW_PROOFS and proofs is not None:
        proof = "proof" if count == 1 else "proofs"
        told.append(
            f"only {count} {proof} completed, sure from {FEW_PROOFS} on: the shares may still move"
        )
    elif proofs is None:
        told.append(
            "the log doesn't say which proofs are completed: the daemon's standard output is"
            f" missing; by partitions about {count}"
        )
    if abs(time_pct["kernel"] - GPU_BOUND_PCT) < NEAR_PTS:
        told.append(
            f"kernels at {percent(time_pct['kernel'])} % are near the {GPU_BOUND_PCT:.0f} % from"
            " which on the GPU counts as the limit"
        )
        most = MEASURED_CONFIDENCE
    if time_pct["kernel"] < GPU_BOUND_PCT:
        hidden = step[0] <= LAST_PRESTAGE and step[1] >= FIRST_PRESTAGE
        if facts.lock_derived and hidden and worst in {"handoff", "lock_overhead"}:
            told.append(
                "this daemon doesn't say when it holds the lock: prestaging counts as handoff, and"
                " is lock overhead; more workers shrink handoff alone"
            )
            most = min(most, UNSETTLED)
        others = sorted((share, name) for name, share in time_pct.items() if name in BOTTLENECK_OF)
        second_pct, second = others[-2]
        apart = time_pct[worst] - second_pct
        if apart < CLOSE_PTS and BOTTLENECK_OF[second] != BOTTLENECK_OF[worst]:
            told.append(
                f"{worst.replace('_', ' ')} and {second.replace('_', ' ')} lie"
                f" {apart:.1f} points apart: a longer log would tell which is larger"
            )
            most = min(most, MEASURED_CONFIDENCE)
    if facts.warm is not None:
        warm = _by_rule(facts.warm, wave)
        without = f"without the warm-up (the first {duration(facts.warm_up_ms)}): "
        if warm not in {_by_rule(time_pct, wave), bottleneck}:
            told.append(f"{without}{_shares_list(facts.warm)}; the limit would be {warm}")
            most = min(most, UNSETTLED)
        elif max(abs(facts.warm[name] - time_pct[name]) for name in time_pct) > WARM_PTS:
            told.append(without + _shares_list(facts.warm))
    return told, most
