"""Histories second by second: the same whether they are looked at once or every now and then."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cuzktop.events import GpuSampled
from cuzktop.model.series import Bins, Readings

spans = st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 4000)), max_size=30)
looks = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), min_size=30, max_size=30)


@given(spans, looks)
def test_bins_that_are_looked_at_meanwhile_show_the_same(
    added: list[tuple[int, int]], looked: list[tuple[int, int]]
) -> None:
    bins = Bins()
    for (at, length), (last, seconds) in zip(added, looked, strict=False):
        bins.add(at, at + length)
        bins.shares(last, seconds)
    for last, seconds in looked[:3]:
        fresh = Bins()
        for at, length in added:
            fresh.add(at, at + length)
        assert [*bins.shares(last, seconds)] == [*fresh.shares(last, seconds)]


def by_hand(added: list[tuple[int, int]], last: int, begun: int) -> list[float | None]:
    """The shares of twelve seconds."""
    found: list[float | None] = []
    for second in range(last - 11, last + 1):
        lo, hi = 1000 * second, 1000 * second + 1000
        ms = sum(max(0, min(at + length, hi) - max(at, lo)) for at, length in added)
        found.append(None if second < begun else min(100.0, ms / 10.0))
    return found


@given(spans, spans, looks, st.integers(0, 9))
def test_what_is_not_over_counts_too_and_a_later_look_changes_no_earlier_one(
    added: list[tuple[int, int]],
    running: list[tuple[int, int]],
    looked: list[tuple[int, int]],
    begun: int,
) -> None:
    bins, seen = Bins(), []
    since = min((at for at, _ in running), default=30_000) // 1000
    ends = [(at, at + length) for at, length in running]
    for index, (last, _) in enumerate(looked):
        for at, length in added[index : index + 1]:
            bins.add(at, at + length)
        shares = bins.shares(last, 12, begun=begun, since=since, spans=ends)
        seen.append((shares, by_hand([*added[: index + 1], *running], last, begun)))
    for shares, expected in seen:
        assert [*shares] == pytest.approx(expected)
        listed = [*shares]
        assert (len(shares), shares[0], shares[-1]) == (12, listed[0], listed[-1])
        assert all([*shares[lo : lo + 5]] == listed[lo : lo + 5] for lo in range(12))


def reading(at_ms: float, util_pct: float | None, window_ms: float = 1000.0) -> GpuSampled:
    return GpuSampled(
        at_ms=at_ms,
        gpu=0,
        util_pct=util_pct,
        util_source="gpm",
        util_window_ms=window_ms,
        power_w=350.0,
        power_limit_w=700.0,
    )


def shown(
    readings: Readings, end_ms: float, seconds: int
) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    util, power = readings.history(end_ms, seconds)
    return util[:], power[:]


@given(
    st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 100)), max_size=30),
    looks,
)
def test_readings_that_are_looked_at_meanwhile_show_the_same(
    read: list[tuple[int, int]], looked: list[tuple[int, int]]
) -> None:
    looked_at, fresh = Readings(), Readings()
    for (at_ms, util), (last, seconds) in zip(read, looked, strict=False):
        looked_at.add(reading(at_ms, util))
        fresh.add(reading(at_ms, util))
        looked_at.history(last * 1000.0, seconds)
    assert shown(looked_at, 30_000.0, 20) == shown(fresh, 30_000.0, 20)


def test_what_did_not_change_is_the_same_object() -> None:
    bins = Bins()
    bins.add(1000, 2500)
    before = bins.shares(5, 4)
    assert bins.shares(5, 4) is before
    bins.add(5000, 5100)
    assert bins.shares(5, 4)[:] == (50.0, 0.0, 0.0, 10.0)


def test_a_second_without_a_reading_is_a_gap_and_the_present_one_is_none() -> None:
    readings = Readings()
    readings.add(reading(10_700, 40))
    readings.add(reading(13_700, 60))
    assert shown(readings, 13_900, 5)[0] == (None, 40, None, None, 60)
    assert shown(readings, 14_100, 5)[0] == (None, 40, None, None, 60)
    assert shown(readings, 15_300, 5)[0] == (None, None, 60, None, None)


def test_a_late_reading_leaves_no_gap_in_what_it_covers() -> None:
    readings = Readings()
    for at_ms in (10_990, 12_010, 12_990, 14_000):
        readings.add(reading(at_ms, 50))
    assert shown(readings, 14_000, 4) == ((50,) * 4, (50,) * 4)


figures = st.one_of(st.none(), st.integers(0, 100))


@given(
    st.lists(st.tuples(st.integers(0, 15), st.integers(0, 4), figures, figures), max_size=40),
    st.integers(0, 60),
    st.integers(0, 60),
)
@example([(2, 1, None, None), (0, 2, None, 0)], 0, 1)  # a later one that began earlier
def test_means_of_any_span_are_those_of_the_readings_in_it(
    read: list[tuple[int, int, int | None, int | None]], start_s: int, length_s: int
) -> None:
    """Readings may overlap, leave pauses, or reach beyond both of its ends."""
    readings, at_s = Readings(), 0
    util, power, inside = [0.0, 0.0], [0.0, 0.0], []
    end_s = start_s + length_s
    for pause, covered, util_pct, power_w in read:
        at_s += pause
        taken = reading(1000.0 * at_s, util_pct, 1000.0 * covered)
        readings.add(taken._replace(power_w=power_w))
        lo, hi = max(start_s, at_s - covered), min(end_s, at_s)
        if hi > lo:
            inside.append((lo, hi))
            for figure, sums in ((util_pct, util), (power_w, power)):
                if figure is not None:
                    sums[0] += figure * (hi - lo)
                    sums[1] += hi - lo
    means = readings.means(1000.0 * start_s, 1000.0 * end_s)
    assert means[:2] == pytest.approx([a / s if s else None for a, s in (util, power)])
    assert means[2] == len(inside)
    reach = sum(min(10, later[1] - one[1]) for one, later in pairwise(inside))
    reach += inside[-1][1] - inside[-1][0] if inside else 0
    assert means[4] == pytest.approx(1000.0 * reach)


def test_readings_that_nobody_asks_for_any_more_go() -> None:
    """One a second: after an hour there are those of ten minutes, or of a longer window."""
    for keep_ms, kept in ((600_000.0, 601), (1_800_000.0, 1801)):
        readings = Readings(keep_ms)
        for second in range(3600):
            readings.add(reading(1000 * second, 50))
        assert sum(1 for _ in readings) == kept
        assert readings.means(3_599_000 - keep_ms, 3_599_000)[4] == pytest.approx(keep_ms, rel=0.01)
