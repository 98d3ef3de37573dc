"""What to change: the knob that this generation of the daemon has, which way, and what it can gain.

A gain is an upper bound: it supposes that all of a class's time goes and that nothing else gets
worse. Stages' times are medians.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cuzktop.analysis.herding import Waves
from cuzktop.dataclass import dataclass, field
from cuzktop.frame import HELD, Host, Inflation, StageStats
from cuzktop.units import duration, percent

LEAST_GAIN_PCT: Final = 3.0
USED_WORKERS: Final = 0.75  # with fewer of them busy the client, or memory, is short
MEMORY_BUDGET: Final = 33  # the first step that gates synthesis by memory, not by a number
GPU_THREADS: Final = 17
SEVERAL_WORKERS: Final = 19
PARTITION_WORKERS: Final = 18
PARALLEL_SYNTHESIS: Final = 45
PRESTAGE: Final = 20

Step = tuple[int, int]
"""The range of the daemon's steps that a log leaves possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a verdict may use beside the classes; each of them may be missing.

    `pace_s` is seconds a proof over the same span. `warm` are the classes without warm-up, which
    took `warm_up_ms`. `gauge` is `herding.bunching`'s.
    """

    stages: Mapping[str, StageStats] = field(default_factory=dict)
    means: Mapping[str, float] = field(default_factory=dict)  # of the same stages, ms
    pace_s: float | None = None
    per_proof: int | None = None
    gpus: int = 1
    lock_derived: bool = False  # this generation doesn't print the lock's times
    settings: Mapping[str, str] = field(default_factory=dict)
    inflation: Inflation | None = None
    host: Host | None = None
    gauge: float | None = None
    warm: Mapping[str, float] | None = None
    warm_up_ms: float = 0.0

    def p50(self, stage: str) -> float | None:
        """A stage's median in ms."""
        known = self.stages.get(stage)
        return None if known is None else known.p50

    def now(self, setting: str) -> str:
        """` (now 2)`, where the start-up lines told it."""
        value = self.settings.get(setting)
        return "" if value is None else f" (now {value})"

    @property
    def contended(self) -> bool:
        """Whether CPU stages stretch together."""
        return self.inflation is not None and self.inflation.found == "contention"


# ---------------------------------------------------------------- knobs by generation


def synthesis_knob(step: Step) -> str:
    """What bounds the number of syntheses."""
    if step[1] < PARTITION_WORKERS:
        return "synthesis_concurrency"
    if step[1] < MEMORY_BUDGET:
        return "partition_workers"
    if step[0] >= PARALLEL_SYNTHESIS:
        return "max_parallel_synthesis or the memory budget (total_budget)"
    budget = "the memory budget (total_budget)"
    if step[1] >= PARALLEL_SYNTHESIS:
        budget += " or, from S45 on, max_parallel_synthesis"
    if step[0] < MEMORY_BUDGET:
        return f"{budget} (before S33: partition_workers)"
    return budget


def more_syntheses(step: Step) -> str:
    """Raise what bounds syntheses."""
    return f"raise {synthesis_knob(step)}"


def more_workers(step: Step, facts: Facts) -> str:
    """One more worker on each GPU, where this daemon can have several."""
    if step[1] < SEVERAL_WORKERS:
        return "send more proofs at a time"
    return f"raise gpu_workers_per_device by one{facts.now('gpu_workers_per_device')}"


# ---------------------------------------------------------------- what it can gain


def gain(share_pct: float, facts: Facts, *, when: str, lock_without: str = "") -> str:
    """The most that a change can bring, as a sentence with its full stop; empty if little.

    `share_pct` is the class's share, `when` the supposition that it goes, `lock_without` the stage
    in it that the lock is held for. What stays is told, so that the gain can be checked.
    """
    if not LEAST_GAIN_PCT <= share_pct < 100:
        return ""
    parts = []
    held, part = facts.means.get("lock_held_ms"), facts.means.get(lock_without)
    if held is not None and part is not None and 0 < part < held:
        parts.append(
            f"a partition would hold the lock {duration(held - part)} on average instead of"
            f" {duration(held)}"
        )
    rest = 1.0 - share_pct / 100.0
    if facts.pace_s is not None:
        parts.append(
            f"a proof would take {facts.pace_s * rest:.1f} s at best instead of"
            f" {facts.pace_s:.1f} s"
        )
    else:
        parts.append(f"{1 / rest:.1f} times as many proofs would come at best")
    return (
        f"{_capital(when)} {', and '.join(parts)}: of the time now {percent(share_pct)} % would go,"
        f" {percent(100 - share_pct)} % stay."
    )


def syntheses_needed(wave: Waves | None, facts: Facts) -> str:
    """How many syntheses at a time would keep the GPUs busy, as a sentence; empty if unknown."""
    synth, held = facts.p50("synth_ms"), facts.p50("lock_held_ms")
    if wave is None or not wave.in_flight or not synth or not held:
        return ""
    supply = synth / wave.in_flight
    demand = held / facts.gpus
    if supply <= demand:
        return ""
    gpu = "the GPU takes" if facts.gpus == 1 else f"{facts.gpus} GPUs take"
    return (
        f"{wave.in_flight:.0f} syntheses of {duration(synth)} bring a partition every"
        f" {duration(supply)}, {gpu} one every {duration(demand)}: about"
        f" {-(-synth // demand):.0f} at a time would feed it."
    )


def _idle_workers(wave: Waves | None, facts: Facts) -> str:
    """Whether the daemon could synthesize more than the client gives it, as a sentence."""
    value = facts.settings.get("synth_worker_count") or facts.settings.get("partition_workers")
    if wave is None or not wave.in_flight or value is None or not value.isdecimal():
        return ""
    if wave.in_flight >= USED_WORKERS * int(value):
        return ""
    return (
        f"Only {wave.in_flight:.0f} of {value} synthesis workers are busy: first send more proofs"
        " at a time, or see whether memory holds them back."
    )


# ---------------------------------------------------------------- by bottleneck

Advised = tuple[str, list[str]]
Shares = Mapping[str, float]


def _said(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def cpu_memory(shares: Shares, worst: str, _: Waves | None, step: Step, facts: Facts) -> Advised:
    """The GPU waits for the CPU, at the barrier or between locks."""
    return _handoff(shares, step, facts) if worst == "handoff" else _barrier(shares, step, facts)


def _barrier(shares: Shares, step: Step, facts: Facts) -> Advised:
    bracket = shares["kernel"] + sum(shares[name] for name in HELD)
    sentence = (
        f"The GPU waits for the CPU: brackets say {percent(bracket, digits=0)} %, kernels run"
        f" {percent(shares['kernel'])} %; {percent(shares['barrier'])} % of the time they wait for"
        " prep_msm with the lock held"
    )
    threads = f"raise gpu_threads{facts.now('gpu_threads')}" if step[1] >= GPU_THREADS else ""
    fewer = f"lower {synthesis_knob(step)} by a quarter"
    found = "unknown" if facts.inflation is None else facts.inflation.found
    if found in {"none", "one"} and threads:
        what = (
            f"{_capital(threads)} (0 is all CPUs), for prep_msm doesn't wait for the bus that"
            f" syntheses fill. If its p50 stays, {fewer} and see whether it falls: then it was"
            " memory bandwidth after all."
        )
    else:
        last = f", and gpu_threads{facts.now('gpu_threads')} is the next knob" if threads else ""
        why = (
            "CPU stages stretch together with the number of syntheses"
            if found == "contention"
            else "fewer syntheses leave CPU and memory bandwidth to prep_msm"
        )
        what = (
            f"{_capital(fewer)}: {why}. The p50 of prep_msm and the barrier should fall; if they"
            f" don't, memory bandwidth is not what it waits for{last}."
        )
    bound = gain(
        shares["barrier"], facts, when="without the barrier", lock_without="barrier_wait_ms"
    )
    return sentence, [what, *([bound] if bound else [])]


def _handoff(shares: Shares, step: Step, facts: Facts) -> Advised:
    sentence = (
        f"The GPU waits for its workers: {percent(shares['handoff'])} % of the time the lock"
        f" is free while a worker does CPU work in its bracket; kernels run"
        f" {percent(shares['kernel'])} %"
    )
    prep, b_g2 = facts.p50("prep_msm_ms"), facts.p50("b_g2_msm_ms")
    cost = ""
    if b_g2 is not None and prep is not None:
        cost = f"b_g2_msm takes {duration(b_g2)} a partition, prep_msm {duration(prep)}."
    workers = more_workers(step, facts)
    fewer = f"lower {synthesis_knob(step)} by a quarter"
    if facts.contended:
        what = (
            f"{_capital(fewer)}: CPU stages stretch together with the number of syntheses. If"
            f" handoff stays, {workers}, so that one can compute while another prepares."
        )
    else:
        what = (
            f"{_capital(workers)}, so that one can compute while another prepares or finishes;"
            f" handoff should fall. If it doesn't, the CPU or memory bandwidth is short: {fewer}"
            " instead."
        )
    bound = gain(shares["handoff"], facts, when="without the handoff")
    return sentence, [_said(what, cost), *([bound] if bound else [])]


def lock(shares: Shares, _: str, __: Waves | None, step: Step, facts: Facts) -> Advised:
    """The lock is held for neither kernels nor the barrier."""
    held, section = facts.p50("lock_held_ms"), facts.p50("gpu_total_ms")
    figures = ""
    if held is not None and section is not None and held > section:
        figures = (
            f"A partition holds the lock {duration(held)}, its GPU section takes"
            f" {duration(section)}."
        )
    look = "Compare the p50 of lock held with that of the GPU section."
    if step[1] >= PRESTAGE:
        look = (
            "Look for allocations under the lock: prestage fall-backs, circuits of changing size,"
            " a card short of memory. Free card memory or keep one kind of proof a GPU; the p50 of"
            " lock held should come down to that of the GPU section, or it was something else."
        )
    bound = gain(shares["lock_overhead"], facts, when="without the overhead")
    return (
        f"The GPU lock is held without computing {percent(shares['lock_overhead'])} % of the"
        f" time; kernels run {percent(shares['kernel'])} %",
        [_said(look, figures), *([bound] if bound else [])],
    )


def synthesis(shares: Shares, _: str, wave: Waves | None, step: Step, facts: Facts) -> Advised:
    """Too few partitions come."""
    spread = ""
    if wave is not None and wave.stalled:
        spread = " (most of it in one long stall)"
    elif wave is not None and wave.share > 0.4:
        spread = " (in part because syntheses finish together)"
    sentence = (
        f"The GPU starves: {percent(shares['starved'])} % of the time no partition is ready for"
        f" it{spread}; kernels run {percent(shares['kernel'])} %"
    )
    bound = gain(shares["starved"], facts, when="if it never starved,")
    if wave is not None and wave.stalled:
        when = "" if wave.longest_at_ms is None else f" around {duration(wave.longest_at_ms)}"
        what = (
            f"See the log{when}: what stood still there (parameters being read, a client that sent"
            " nothing, memory that was short)? A run without that stall would show whether more"
            f" syntheses are needed; only then {more_syntheses(step)}."
        )
        return sentence, [what]
    what = (
        f"To feed it, {more_syntheses(step)}, or send more proofs at a time, while CPU and"
        " memory last. If starved stays and synthesis p50 grows instead, the CPU is full."
    )
    idle = _idle_workers(wave, facts)
    if idle:
        what = f"{idle} {what}"
    if facts.contended:
        what += " CPU stages stretch already as more syntheses run: take small steps."
    return sentence, [_said(what, syntheses_needed(wave, facts)), *([bound] if bound else [])]


def herding(shares: Shares, _: str, wave: Waves | None, step: Step, facts: Facts) -> Advised:
    """Partitions come in waves."""
    usual = "" if wave is None or wave.median_synth_ms is None else " within one synthesis time"
    if wave is not None and wave.stalled:
        sentence = (
            f"The GPU starves {percent(shares['starved'])} % of the time, most of it in one stall"
            f" that ended in a wave of syntheses; kernels run {percent(shares['kernel'])} %"
        )
    else:
        sentence = (
            f"Syntheses finish in waves: the GPU starves {percent(shares['starved'])} % of the time"
            f" between them and queues in between; kernels run {percent(shares['kernel'])} %"
        )
    bound = gain(shares["starved"], facts, when="if the waves overlapped,")
    return sentence, [
        "Start proofs apart instead of together, or keep one more proof in flight, so that"
        f" waves overlap{usual}. If starved stays, there are too few syntheses:"
        f" {more_syntheses(step)}.",
        *([bound] if bound else []),
    ]


def idle(shares: Shares, _: str, __: Waves | None, ___: Step, ____: Facts) -> Advised:
    """No partition was on its way."""
    return (
        f"Nothing to do {percent(shares['no_work'])} % of the time: no partition was on its way"
        f" to the GPU; kernels run {percent(shares['kernel'])} %",
        [
            "Send more proofs at a time (the client's concurrency); the box has room. If no work"
            " stays, proofs wait outside the daemon: look at the client."
        ],
    )


def gpu(step: Step, facts: Facts) -> list[str]:
    """Kernels take the time."""
    kernel = facts.p50("kernel_ms")
    bound = ""
    if kernel is not None and facts.per_proof:
        cards = "one GPU" if facts.gpus == 1 else f"{facts.gpus} GPUs"
        bound = (
            f" Kernels of a proof take {kernel * facts.per_proof / facts.gpus / 1000:.1f} s on"
            f" {cards}: nothing but a faster or another card gets under that."
        )
    return [
        "More syntheses or workers won't help; a faster or second GPU would. To prove it wrong:"
        f" {more_workers(step, facts)}; proofs an hour should not rise.{bound}"
    ]


BY_BOTTLENECK: Final = {
    "cpu-memory": cpu_memory,
    "lock": lock,
    "synthesis": synthesis,
    "herding": herding,
    "idle": idle,
}
