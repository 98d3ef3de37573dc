"""A herd, too few syntheses and a stall are three things."""

from __future__ import annotations

import pytest

from cuzktop.analysis.advice import Facts
from cuzktop.analysis.diagnosis import verdict
from cuzktop.analysis.herding import Waves, bunching, gaps_sentence, starving_sentence, waves
from cuzktop.frame import TIME_CLASSES, PartitionRow


def rounds(count: int, size: int, period_ms: float) -> tuple[list[float], list[float]]:
    """Syntheses that begin and end together, round after round."""
    starts = [period_ms * turn for turn in range(count) for _ in range(size)]
    return starts, [at + period_ms for at in starts]


HERD = waves(
    [(10_000.0 * n - 6000, 10_000.0 * n) for n in range(1, 9)],
    *rounds(8, 8, 10_000),
    [10_000.0] * 64,
    span_ms=80_000,
)
FEW = waves(
    [(5000.0 * n - 3500, 5000.0 * n) for n in range(1, 40)],
    [5000.0 * n - 10_000 for n in range(1, 40)],
    [5000.0 * n for n in range(1, 40)],
    [10_000.0] * 39,
    span_ms=200_000,
)
STALL = waves(
    [(20_000.0, 80_000.0), (90_000.0, 91_000.0)],
    [5000.0 * n - 10_000 for n in range(1, 40)],
    [5000.0 * n for n in range(1, 40)],
    [10_000.0] * 39,
    span_ms=200_000,
)


@pytest.mark.parametrize(
    ("wave", "words"),
    [(HERD, "they herd"), (FEW, "too few syntheses"), (STALL, "a stall, not a rhythm")],
)
def test_each_kind_has_its_words(wave: Waves, words: str) -> None:
    kinds = ("they herd", "too few syntheses", "a stall, not a rhythm")
    text = starving_sentence(wave, 0.5, limits=True)
    assert [kind for kind in kinds if kind in text] == [words]


def test_one_beat_of_a_herd_is_no_stall() -> None:
    gap, ends = [(4000.0, 10_000.0)], [10_000.0] * 8
    seen = waves(gap, [0.0] * 8, ends, [10_000.0] * 8, span_ms=15_000)
    assert not seen.stalled
    assert waves(gap, [0.0] * 8, ends, [10_000.0] * 8, span_ms=400_000).stalled
    longer = waves([(0.0, 10_500.0)], [0.0] * 8, ends, [10_000.0] * 8, span_ms=15_000)
    assert longer.stalled  # no synthesis takes so long


def test_a_stall_of_two_gpus_is_one() -> None:
    two = waves([(0.0, 50_000.0), (100.0, 50_100.0)], [0.0], [60_000.0], [10_000.0])
    assert two.longest_share == pytest.approx(1)
    assert two.stalled


def test_a_stall_lowers_the_confidence_and_asks_what_stood_still() -> None:
    shares = {**dict.fromkeys(TIME_CLASSES, 0.0), "kernel": 40.0, "starved": 60.0}
    sure = verdict(shares, proofs=50, wave=FEW)
    stalled = verdict(shares, proofs=50, wave=STALL, facts=Facts(gauge=0.2))
    assert (sure.bottleneck, stalled.bottleneck) == ("synthesis", "synthesis")
    assert stalled.confidence <= 0.5 < sure.confidence
    assert "stood still" in " ".join(stalled.advice)


@pytest.mark.parametrize(
    ("ends", "low", "high"),
    [
        ([100.0 * n for n in range(50)], 0.0, 0.01),
        ([1000.0 * (n // 10) + n % 10 for n in range(100)], 0.85, 1.0),
        ([5.0] * 20, 1.0, 1.0),
    ],
)
def test_the_gauge_goes_from_even_to_all_together(
    ends: list[float], low: float, high: float
) -> None:
    gauge = bunching(ends, 1000)
    assert gauge is not None
    assert low <= gauge <= high


def test_too_little_for_the_gauge() -> None:
    assert bunching([1.0] * 7, 1000) is None
    assert bunching([1.0] * 20, None) is None
    assert starving_sentence(Waves(share=0, size=4, median_synth_ms=None), None, limits=True) == ""


def brackets(*spans: tuple[int, int, str], gpu: int = 0) -> list[PartitionRow]:
    return [
        PartitionRow(
            job=job,
            attempt=1,
            partition=at,
            kind="porep",
            state="done",
            gpu=gpu,
            bracket_start_ms=lo,
            bracket_end_ms=hi,
        )
        for at, (lo, hi, job) in enumerate(spans)
    ]


def test_gaps_that_recur_between_two_proofs_are_told() -> None:
    """Gaps of 4, 6, 5 and 5 s, 38, 41 and 35 s after each other; one of 0.2 s within a proof."""
    spans = [
        (0, 20_000, "a"),
        (20_200, 36_000, "a"),
        (40_000, 74_000, "b"),
        (80_000, 115_000, "c"),
        (120_000, 150_000, "d"),
        (155_000, 190_000, "e"),
    ]
    newest_first = brackets(*spans)[::-1]
    other_card = brackets((0, 1000, "x"), (9000, 9500, "x"), gpu=1)
    assert gaps_sentence([*newest_first, *other_card]) == (
        "gaps of 4.00s to 6.00s between brackets recur about every 38s, where one proof's"
        " partitions end and the next one's begin"
    )
    within = brackets(*[(lo, hi, "a") for lo, hi, _ in spans])
    assert "proof's" not in gaps_sentence(within)
    assert gaps_sentence(brackets(*spans[:4])) == ""
    assert gaps_sentence([]) == ""


def test_gaps_without_a_rhythm_are_counted() -> None:
    spans = [(0, 1000, "a"), (4000, 5000, "a"), (9000, 80_000, "a"), (82_000, 83_000, "a")]
    assert "came 3 times in 81s" in gaps_sentence(brackets(*spans))


def test_a_bracket_of_another_worker_leaves_no_gap() -> None:
    one = brackets((0, 1000, "a"), (4000, 5000, "a"), (9000, 9500, "a"), (12_000, 13_000, "a"))
    assert gaps_sentence([*one, *brackets((0, 13_000, "b"))]) == ""
