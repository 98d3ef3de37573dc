"""Spans against the same thing counted millisecond by millisecond."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cuzktop.analysis.intervals import Span, clipped, gaps, length, shared, united

TICKS = range(-5, 65)
spans = st.lists(st.tuples(st.integers(-5, 60), st.integers(-5, 60)), max_size=12)
window = st.tuples(st.integers(-3, 55), st.integers(-3, 55)).map(sorted).map(tuple)


def ticks(of: list[Span]) -> set[int]:
    """The milliseconds that at least one span covers; a span that ends early covers none."""
    return {tick for tick in TICKS for lo, hi in of if lo <= tick < hi}


def tidy(of: list[Span]) -> bool:
    """Whether spans are in order, apart from each other, and none is empty."""
    edges = [edge for span in of for edge in span]
    return edges == sorted(edges) and len(set(edges)) == len(edges)


@given(spans, window)
def test_a_union_covers_what_any_span_covers(some: list[Span], within: tuple[int, int]) -> None:
    start, end = within
    union = united(some, start, end)
    assert ticks(union) == {tick for tick in ticks(some) if start <= tick < end}
    assert tidy(union)
    assert length(union) == len(ticks(union))
    assert united(reversed(some), start, end) == union


@given(spans, window)
def test_gaps_are_what_a_union_leaves_free(some: list[Span], within: tuple[int, int]) -> None:
    start, end = within
    union = united(some, start, end)
    free = gaps(union, start, end)
    assert ticks(free) == set(range(start, end)) - ticks(union)
    assert tidy(free)
    assert length(union) + length(free) == end - start


@given(spans, spans)
def test_what_two_unions_share(left: list[Span], right: list[Span]) -> None:
    one, other = united(left, -5, 60), united(right, -5, 60)
    both = shared(one, other)
    assert ticks(both) == ticks(one) & ticks(other)
    assert tidy(both)
    assert shared(other, one) == both


@given(st.tuples(st.integers(-5, 60), st.integers(-5, 60)), window)
def test_a_clipped_span_is_as_long_as_what_is_left_of_it(
    span: tuple[int, int], within: tuple[int, int]
) -> None:
    start, end = within
    left = [tick for tick in ticks([span]) if start <= tick < end]
    assert clipped(*span, start, end) == len(left)


def test_parts_of_a_millisecond_count() -> None:
    assert united([(0.25, 0.5), (0.5, 0.75), (0.7, 2.0)], 0.0, 1.5) == [(0.25, 1.5)]
    assert gaps([(0.25, 1.5)], 0.0, 1.75) == [(0.0, 0.25), (1.5, 1.75)]
    assert clipped(0.25, 9.0, 0.0, 1.5) == 1.25
