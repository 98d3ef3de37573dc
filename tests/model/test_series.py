"""Histories second by second: the same whether they are looked at once or every now and then."""

from __future__ import annotations

import pytest
from hypothesis import given
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
        assert bins.shares(last, seconds) == tuple(
            bins.share(second) for second in range(last + 1 - seconds, last + 1)
        )


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
    assert looked_at.history(30_000.0, 20) == fresh.history(30_000.0, 20)


def test_what_did_not_change_is_the_same_object() -> None:
    bins = Bins()
    bins.add(1000, 2500)
    before = bins.shares(5, 4)
    assert bins.shares(5, 4) is before
    bins.add(5000, 5100)
    assert bins.shares(5, 4) == (50.0, 0.0, 0.0, 10.0)


def test_a_second_without_a_reading_is_a_gap_and_the_present_one_is_none() -> None:
    readings = Readings()
    readings.add(reading(10_700, 40))
    readings.add(reading(13_700, 60))
    assert readings.history(13_900, 5)[0] == (None, 40, None, None, 60)
    assert readings.history(14_100, 5)[0] == (None, 40, None, None, 60)
    assert readings.history(15_300, 5)[0] == (None, None, 60, None, None)


def test_a_late_reading_leaves_no_gap_in_what_it_covers() -> None:
    readings = Readings()
    for at_ms in (10_990, 12_010, 12_990, 14_000):
        readings.add(reading(at_ms, 50))
    assert readings.history(14_000, 4) == ((50,) * 4, (50,) * 4)


def test_readings_that_nobody_asks_for_any_more_go() -> None:
    """One a second: after an hour there are those of ten minutes, or of a longer window."""
    for keep_ms, kept in ((600_000.0, 601), (1_800_000.0, 1801)):
        readings = Readings(keep_ms)
        for second in range(3600):
            readings.add(reading(1000 * second, 50))
        assert sum(1 for _ in readings) == kept
        assert readings.means(3_599_000 - keep_ms, 3_599_000)[4] == pytest.approx(keep_ms, rel=0.01)
