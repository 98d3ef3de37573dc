"""From shares to a verdict: which class limits, how sure that is, and what would refute it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzktop.analysis.diagnosis import Measured, verdict
from cuzktop.analysis.herding import Waves, waves
from cuzktop.analysis.intervals import Span
from cuzktop.frame import FEW_PROOFS, TIME_CLASSES, Verdict
from cuzktop.units import percent


def judged(
    parts: Mapping[str, float],
    *,
    proofs: int = 20,
    wave: Waves | None = None,
    measured: Measured | None = None,
    step: tuple[int, int] = (1, 45),
) -> Verdict:
    """The verdict over those shares; the other classes have none."""
    time_pct = {**dict.fromkeys(TIME_CLASSES, 0.0), **parts}
    return verdict(time_pct, proofs=proofs, wave=wave, measured=measured, step=step)


def nvml(util_pct: float) -> Measured:
    return Measured(util_pct=util_pct, power_w=312.0, source="gpm", samples=400)


def bunched(share: float) -> Waves:
    return Waves(share=share, size=5, median_synth_ms=33_000)


@pytest.mark.parametrize(
    ("parts", "bottleneck"),
    [
        ({"kernel": 100}, "gpu"),
        ({"kernel": 80, "barrier": 20}, "gpu"),
        ({"kernel": 79.9, "barrier": 20.1}, "cpu-memory"),
        ({"kernel": 79.9, "no_work": 20.1}, "idle"),
        ({"kernel": 45, "barrier": 44, "starved": 11}, "cpu-memory"),
        ({"kernel": 45, "handoff": 44, "starved": 11}, "cpu-memory"),
        ({"kernel": 45, "lock_overhead": 44, "starved": 11}, "lock"),
        ({"kernel": 45, "starved": 44, "barrier": 11}, "synthesis"),
        ({"kernel": 45, "no_work": 44, "barrier": 11}, "idle"),
        ({"no_work": 100}, "idle"),
        # Below 80 % kernels are not the answer, however far ahead of the other classes they are.
        ({"kernel": 70, "starved": 16, "barrier": 14}, "synthesis"),
        # The largest class by itself, not the sum of two that have the same answer.
        ({"kernel": 20, "barrier": 25, "handoff": 25, "starved": 30}, "synthesis"),
    ],
)
def test_the_largest_class_is_the_bottleneck(parts: dict[str, float], bottleneck: str) -> None:
    found = judged(parts)
    assert found.bottleneck == bottleneck
    assert found.sentence
    assert found.advice
    assert any(f"kernel {percent(parts.get('kernel', 0))} %" in line for line in found.evidence)


def test_without_shares_nothing_is_known() -> None:
    found = verdict(None, proofs=50, why_unknown="this log has no CUZK_TIMING lines")
    assert (found.bottleneck, found.confidence) == ("unknown", 0.0)
    assert "CUZK_TIMING" in found.sentence
    assert verdict(None, proofs=0).evidence


# ---------------------------------------------------------------- herding


@pytest.mark.parametrize(
    ("share", "bottleneck"),
    [(0.0, "synthesis"), (0.74, "synthesis"), (0.75, "herding"), (1.0, "herding")],
)
def test_a_gpu_that_starves_between_waves_is_herded(share: float, bottleneck: str) -> None:
    found = judged({"kernel": 40, "starved": 50, "no_work": 10}, wave=bunched(share))
    assert found.bottleneck == bottleneck


@pytest.mark.parametrize("other", ["barrier", "handoff", "lock_overhead", "no_work"])
def test_waves_matter_only_to_a_gpu_that_starves_most(other: str) -> None:
    found = judged({"kernel": 40, "starved": 20, other: 40}, wave=bunched(1.0))
    assert found.bottleneck not in {"herding", "synthesis"}
    assert judged({"kernel": 85, "starved": 15}, wave=bunched(1.0)).bottleneck == "gpu"


def together(at: float, count: int, synth_ms: float = 1000) -> tuple[list[float], list[float]]:
    """Syntheses that begin and end at the same time."""
    return [at - synth_ms] * count, [at] * count


def test_a_gap_that_ends_as_syntheses_end_together_ends_in_a_wave() -> None:
    starts, ends = together(5000, 6)
    later = together(9000, 1)
    starved: list[Span] = [(4000, 5010), (8600, 9010)]
    found = waves(starved, starts + later[0], ends + later[1], [1000.0] * 7)
    assert found.share == pytest.approx(1010 / 1420)
    assert found.size == 4
    assert found.median_synth_ms == 1000


@pytest.mark.parametrize(("off_ms", "share"), [(149, 1.0), (151, 0.0), (-149, 1.0), (-151, 0.0)])
def test_a_wave_lies_within_15_per_cent_of_a_synthesis(off_ms: int, share: float) -> None:
    starts, ends = together(5000, 4)
    assert waves([(4000, 5000 + off_ms)], starts, ends, [1000.0] * 4).share == share


@pytest.mark.parametrize(("count", "share"), [(19, 1.0), (10, 1.0), (4, 0.0)])
def test_a_wave_is_half_of_the_syntheses_in_flight(count: int, share: float) -> None:
    """Twenty are in flight: ten that end together are a wave, four of them are not."""
    starts = [0.0] * 20
    rest = [6000.0 + 2000 * n for n in range(20 - count)]
    # As one ends another begins, so that twenty stay in flight.
    starts += [5000.0] * count + rest[:-1]
    ends = [5000.0] * count + rest
    found = waves([(4500, 5000)], starts, ends, [5000.0] * 20)
    assert found.size >= 8
    assert found.share == share


def test_half_of_an_odd_number_is_more_than_the_next_number_below() -> None:
    """Of seventeen in flight, eight are not half."""
    starts = [0.0] * 17
    ends = [5000.0] * 8 + [9000.0] * 9
    found = waves([(4500, 5000)], starts, ends, [5000.0] * 17)
    assert found.size == 9
    assert found.share == 0


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(1, 40)), max_size=8),
    st.lists(st.integers(0, 250), max_size=20),
)
def test_waves_by_hand(gaps: Sequence[tuple[int, int]], ends: list[int]) -> None:
    starved = [(float(lo), float(lo + span)) for lo, span in gaps]
    synth_ms = 60
    found = waves(starved, [end - synth_ms for end in ends], ends, [float(synth_ms)] * len(ends))
    total = sum(hi - lo for lo, hi in starved)
    if not ends or not total:
        assert found.share == 0
        return
    near = {hi: sum(abs(end - hi) <= 0.15 * synth_ms for end in ends) for _, hi in starved}
    in_waves = sum(hi - lo for lo, hi in starved if near[hi] >= found.size)
    assert found.share == pytest.approx(in_waves / total)
    assert 0 <= found.share <= 1
    assert found.size >= 4


def test_without_syntheses_there_are_no_waves() -> None:
    assert waves([(0, 10)], [], [], []).share == 0
    assert waves([], [0.0], [5.0], [5.0]).share == 0


# ---------------------------------------------------------------- measurements


@pytest.mark.parametrize(
    ("kernel", "util", "bottleneck"),
    [(90, 90, "gpu"), (90, 75, "gpu"), (90, 74.9, "cpu-memory"), (90, 99, "gpu")],
)
def test_a_measurement_far_below_the_log_overrules_it(
    kernel: float, util: float, bottleneck: str
) -> None:
    found = judged({"kernel": kernel, "barrier": 100 - kernel}, measured=nvml(util))
    assert found.bottleneck == bottleneck
    told = " ".join(found.evidence)
    assert f"{percent(kernel)} %" in told
    assert f"{percent(util)} %" in told


def test_what_the_measurement_overrules_is_not_certain() -> None:
    found = judged({"kernel": 95, "barrier": 5}, proofs=500, measured=nvml(40))
    assert found.confidence <= 0.6
    assert any("copies" in line for line in found.evidence)


def test_a_driver_that_gives_0_while_kernels_run_overrules_nothing() -> None:
    """WSL, and cards in slices, answer 0 all the time."""
    found = judged({"kernel": 95, "barrier": 5}, measured=nvml(0.0))
    without = judged({"kernel": 95, "barrier": 5})
    assert (found.bottleneck, found.confidence) == ("gpu", without.confidence)
    assert found.sentence == without.sentence
    assert any("isn't credible here" in line for line in found.evidence)
    busy = judged({"kernel": 45, "barrier": 55}, measured=nvml(0.0))
    assert not any("measured the GPU busy" in line for line in busy.evidence)
    # Where hardly a kernel ran, 0 is what it should be.
    idle = judged({"kernel": 2, "no_work": 98}, measured=nvml(0.0))
    assert any("measured the GPU busy 0.0 %" in line for line in idle.evidence)


@pytest.mark.parametrize(
    ("copies_pct", "waits_for", "words"),
    [
        (30.0, "copies", "they explain most of what lies between"),
        (8.0, "the CPU", "of the 45.0 points between, the CPU has the larger part"),
    ],
)
def test_copies_that_were_measured_settle_what_the_gpu_waits_for(
    copies_pct: float, waits_for: str, words: str
) -> None:
    seen = Measured(util_pct=40.0, power_w=None, source="gpm", samples=60, copies_pct=copies_pct)
    found = judged({"kernel": 85, "barrier": 15}, measured=seen)
    assert found.bottleneck == "cpu-memory"
    assert found.confidence > 0.6  # the contract's bound is for copies that weren't measured
    assert f"the GPU waits for {waits_for} inside its stages" in found.sentence
    assert any(words in text for text in found.evidence)


def test_without_a_measurement_the_log_alone_can_t_tell() -> None:
    found = judged({"kernel": 95, "barrier": 5})
    assert any("log alone can't tell" in line for line in found.evidence)
    sure = judged({"kernel": 95, "barrier": 5}, measured=nvml(93))
    assert not any("alone can't tell" in line for line in sure.evidence)
    assert sure.confidence >= found.confidence


@pytest.mark.parametrize("other", ["barrier", "lock_overhead", "starved", "no_work"])
def test_a_measurement_changes_no_other_verdict(other: str) -> None:
    alone = judged({"kernel": 60, other: 40})
    beside = judged({"kernel": 60, other: 40}, measured=nvml(20))
    assert beside.bottleneck == alone.bottleneck
    assert any("20.0 %" in line for line in beside.evidence)


# ---------------------------------------------------------------- confidence


@given(
    st.lists(st.floats(0, 1), min_size=6, max_size=6).filter(lambda parts: sum(parts) > 0),
    st.integers(0, 5000),
    st.none() | st.floats(0, 100).map(nvml),
    st.none() | st.floats(0, 1).map(bunched),
    st.sampled_from([(1, 45), (16, 17), (20, 27), (33, 36), (44, 45)]),
)
def test_every_verdict_has_words_and_a_confidence(
    parts: list[float],
    proofs: int,
    seen: Measured | None,
    around: Waves | None,
    step: tuple[int, int],
) -> None:
    time_pct = {n: 100 * p / sum(parts) for n, p in zip(TIME_CLASSES, parts, strict=True)}
    found = verdict(time_pct, proofs=proofs, wave=around, measured=seen, step=step)
    assert 0 <= found.confidence <= 1
    assert found.bottleneck in {"gpu", "cpu-memory", "lock", "synthesis", "herding", "idle"}
    assert found.sentence.endswith(".")
    assert found.evidence
    assert found.advice


@pytest.mark.parametrize("parts", [{"barrier": 50.0}, {"starved": 40.0, "no_work": 10.0}])
def test_few_proofs_lower_the_confidence_and_are_told(parts: dict[str, float]) -> None:
    known = [judged({"kernel": 50} | parts, proofs=n) for n in (0, 1, 3, 9, FEW_PROOFS, 500)]
    confidences = [one.confidence for one in known]
    assert confidences == sorted(confidences)
    assert confidences[0] > 0
    assert confidences[-2] == confidences[-1]
    assert any("only 3 proofs completed" in line for line in known[2].evidence)
    assert not any("proofs completed" in line for line in known[-1].evidence)
    assert {one.bottleneck for one in known} == {known[0].bottleneck}


def test_a_close_call_is_less_sure_than_a_clear_one() -> None:
    close = judged({"kernel": 32, "barrier": 34, "starved": 34})
    clear = judged({"kernel": 5, "barrier": 90, "starved": 5})
    assert close.confidence < clear.confidence


@pytest.mark.parametrize(
    ("step", "knob"), [((20, 23), "partition_workers"), ((45, 45), "memory budget")]
)
def test_advice_names_a_knob_that_this_daemon_has(step: tuple[int, int], knob: str) -> None:
    found = judged({"kernel": 40, "starved": 60}, step=step)
    assert knob in " ".join(found.advice)
    assert ("partition_workers" in " ".join(found.advice)) == (knob == "partition_workers")
