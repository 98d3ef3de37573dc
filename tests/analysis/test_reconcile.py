"""Log and readings side by side: what lies between them, and what can't be true."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from cuzktop.analysis.reconcile import (
    Grid,
    Use,
    UseBins,
    clock_offset_ms,
    credible,
    differences,
    misplaced,
    suspects,
    zone_offset_ms,
)
from cuzktop.events import GpuSampled
from cuzktop.frame import Shares

SHARES = Shares(
    span_ms=60_000.0,
    bracket_union_pct=99.0,
    lock_held_pct=90.0,
    gpu_section_pct=88.0,
    kernel_pct=47.0,
    before_lock_pct=6.0,
    after_lock_pct=3.0,
)
Span = tuple[float, float]


def readings(
    spans: list[Span], gpu: int, until_ms: float, *, pct: float = 45.0, since_ms: float = 0.0
) -> list[GpuSampled]:
    """A reading a second of a card that is `pct` busy in `spans`."""
    found = []
    for at in range(int(since_ms / 1000.0) + 1, int(until_ms / 1000.0) + 1):
        lo, hi = 1000.0 * (at - 1), 1000.0 * at
        busy = sum(max(0.0, min(hi, b) - max(lo, a)) for a, b in spans)
        found.append(GpuSampled(hi, gpu, pct * busy / 1000.0, "gpm", 1000.0))
    return found


def uses(grid: Grid, *cards: list[GpuSampled]) -> dict[int, Use]:
    bins = UseBins(grid)
    for card in cards:
        list(bins.passing(card))
    return bins.uses()


def bursts(seed: int, until_ms: float) -> list[Span]:
    """Some seconds of work, some of none."""
    rng = random.Random(seed)
    at, spans = 5000.0, []
    while at < until_ms - 20_000.0:
        long = rng.uniform(2000.0, 9000.0)
        spans.append((at, at + long))
        at += long + rng.uniform(3000.0, 9000.0)
    return spans


# ------------------------------------------------------------------------------- steps and suspects


def test_differences_have_their_names() -> None:
    assert differences(SHARES, 20.0) == {
        "before_lock": 6.0,
        "after_lock": 3.0,
        "lock_overhead": 2.0,
        "barrier": 41.0,
        "idle_in_stages": 27.0,
    }
    assert "idle_in_stages" not in differences(SHARES, None)
    assert differences(None, 20.0) == {}


@pytest.mark.parametrize("util_pct", [1.0, 20.0, 47.0, 95.0, 105.0])
def test_what_can_be_true_is_not_suspect(util_pct: float) -> None:
    assert suspects(SHARES, util_pct) == ()


def test_a_constant_0_beside_a_busy_log_is_not_credible() -> None:
    (said,) = suspects(SHARES, 0.0)
    assert said.startswith("NVML not credible: it stayed at 0 while the log's kernels ran 47.0 %")
    assert not credible(47.0, 0.0)
    assert credible(3.0, 0.0)  # a card with little to do may read 0
    assert credible(None, 0.0)
    assert credible(47.0, 0.01)


def test_more_use_than_the_lock_was_held_is_somebody_elses() -> None:
    quiet = Shares(span_ms=60_000.0, lock_held_pct=30.0, kernel_pct=20.0)
    (said,) = suspects(quiet, 81.0, strangers=["python3 12 2.0G"])
    assert (
        "51.0 points more than lock held: another process uses the card (python3 12 2.0G)" in said
    )
    assert suspects(quiet, 44.0) == ()
    without_locks = Shares(span_ms=60_000.0, bracket_union_pct=30.0)
    assert "more than bracket" in suspects(without_locks, 81.0)[0]


def test_another_cards_readings_are_named_before_anything_else() -> None:
    (said,) = suspects(SHARES, 0.0, fits=1)
    assert said.startswith("wrong ordinal: readings of GPU 1 go with this GPU's log")


# ------------------------------------------------------------------------------- wrong ordinals


def test_swapped_cards_are_found_by_what_they_did_while_the_lock_was_free() -> None:
    until = 120_000.0
    work = [bursts(1, until), bursts(2, until)]
    grid = Grid(0.0, until)
    locks = {gpu: grid.held(spans) for gpu, spans in enumerate(work)}
    right = uses(grid, readings(work[0], 0, until), readings(work[1], 1, until))
    swapped = uses(grid, readings(work[1], 0, until), readings(work[0], 1, until))
    assert misplaced(locks, right) == {}
    assert misplaced(locks, swapped) == {0: 1, 1: 0}


def test_a_daemon_on_the_second_card_is_found_though_the_log_calls_it_0() -> None:
    until = 120_000.0
    work = bursts(3, until)
    grid = Grid(0.0, until)
    seen = uses(grid, readings([], 0, until), readings(work, 1, until))
    assert misplaced({0: grid.held(work)}, seen) == {0: 1}


def test_cards_that_are_busy_all_the_time_are_not_told_apart() -> None:
    until = 120_000.0
    always = [(0.0, until)]
    grid = Grid(0.0, until)
    locks = {0: grid.held(always), 1: grid.held(always)}
    seen = uses(grid, readings(always, 0, until, pct=30.0), readings(always, 1, until, pct=60.0))
    assert misplaced(locks, seen) == {}


def test_a_neighbour_on_the_card_is_no_wrong_ordinal() -> None:
    until = 120_000.0
    work = bursts(4, until)
    grid = Grid(0.0, until)
    seen = uses(grid, readings([(0.0, until)], 0, until, pct=80.0), readings([], 1, until))
    assert misplaced({0: grid.held(work)}, seen) == {}


# ------------------------------------------------------------------------------- clocks


def offset_ms(grid: Grid, locks: list[Span], seen: Mapping[int, Use], until: float) -> float | None:
    """What is found of a log from 0 to `until`, whose first lock is a cold call's."""
    return clock_offset_ms(
        {0: grid.held(locks)},
        seen,
        grid.width_ms,
        known=grid.part((0.0, until)),
        around=slice(0, grid.count),
        warm={0: grid.index(locks[0][1]) + 1},
    )


@pytest.mark.parametrize("ahead_s", [-140.0, -31.0, 0.0, 12.0, 140.0])
def test_a_clock_that_is_ahead_or_behind_is_found(ahead_s: float) -> None:
    until = 300_000.0
    work = bursts(5, until)
    grid = Grid(-900_000.0, until + 900_000.0)
    moved = [one._replace(at_ms=one.at_ms + 1000.0 * ahead_s) for one in readings(work, 0, until)]
    found = offset_ms(grid, work, uses(grid, moved), until)
    if not ahead_s:
        assert found is None
    else:
        assert found == pytest.approx(1000.0 * ahead_s, abs=3000.0)


def test_a_first_call_that_reads_parameters_under_the_lock_moves_no_clock() -> None:
    until = 200_000.0
    work = [(60_000.0, 190_000.0)]
    grid = Grid(-900_000.0, until + 900_000.0)
    seen = uses(grid, readings(work, 0, until))
    locks = [(5000.0, 70_000.0), (71_000.0, 190_000.0)]
    assert offset_ms(grid, locks, seen, until) is None


def test_what_a_card_did_before_and_after_the_log_moves_no_clock() -> None:
    """A log that was copied while the daemon worked on, or that another run goes before."""
    until = 200_000.0
    grid = Grid(-900_000.0, until + 900_000.0)
    for work in ([(0.0, 900_000.0)], [(-900_000.0, -5000.0), (60_000.0, until)]):
        seen = uses(grid, readings(work, 0, until + 800_000.0, since_ms=-900_000.0))
        assert offset_ms(grid, [(0.0, 70_000.0), (71_000.0, until)], seen, until) is None


def test_a_time_zone_is_told_where_the_times_do_not_touch() -> None:
    hour = 3_600_000.0
    span = (10.0 * hour, 10.5 * hour)
    assert zone_offset_ms(span, 8.0 * hour, 8.6 * hour) == -2.0 * hour
    assert zone_offset_ms(span, 15.4 * hour, 16.1 * hour) == 5.5 * hour
    assert zone_offset_ms(span, 100.0 * hour, 101.0 * hour) is None
