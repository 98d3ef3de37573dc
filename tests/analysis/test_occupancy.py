"""Where a GPU's time went, against a classification of every single millisecond."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzktop.analysis.intervals import Span
from cuzktop.analysis.occupancy import Phases, pairs, weighted
from cuzktop.frame import TIME_CLASSES, Shares
from cuzktop.model.state import History

NAN = math.nan


@dataclass
class Once:
    """One call: its edges in the order in which they come, in whole milliseconds."""

    start: int
    acquired: int
    ntt: int
    barrier: int
    batch: int
    tail: int
    released: int
    end: int
    failed: bool = False

    def doing(self, tick: int) -> str | None:
        """What the contract calls the millisecond after `tick`, as far as this call goes."""
        if not self.start <= tick < self.end:
            return None
        if not self.failed:
            if self.acquired <= tick < self.ntt or self.barrier <= tick < self.tail:
                return "kernel"
            if self.ntt <= tick < self.barrier:
                return "barrier"
        return "lock_overhead" if self.acquired <= tick < self.released else "handoff"


def recorded(calls: list[Once]) -> History:
    history = History()
    for call in sorted(calls, key=lambda call: call.end):
        history.start.append(call.start)
        history.end.append(call.end)
        history.acquired.append(call.acquired)
        history.released.append(call.released)
        known = (NAN,) * 5
        if not call.failed:
            known = (call.ntt, call.barrier, call.batch, call.tail, call.tail - call.acquired)
        history.ntt.append(known[0])
        history.barrier.append(known[1])
        history.batch.append(known[2])
        history.tail.append(known[3])
        history.total.append(known[4])
        history.finished.append(0 if call.failed else 1)
    return history


@st.composite
def one_gpu(draw: st.DrawFn) -> list[Once]:
    """Calls that take turns at the lock; their brackets overlap as they like."""
    calls: list[Once] = []
    free = draw(st.integers(0, 40))
    for _ in range(draw(st.integers(0, 6))):
        acquired = free + draw(st.integers(0, 25))
        ntt = acquired + draw(st.integers(0, 12))
        barrier = ntt + draw(st.integers(0, 12))
        batch = barrier + draw(st.integers(0, 8))
        tail = batch + draw(st.integers(0, 5))
        released = tail + draw(st.integers(0, 5))
        start = max(0, acquired - draw(st.integers(0, 30)))
        end = released + draw(st.integers(0, 30))
        failed = draw(st.sampled_from([False, False, False, True]))
        calls.append(Once(start, acquired, ntt, barrier, batch, tail, released, end, failed))
        free = released
    return calls


work = st.lists(
    st.tuples(st.integers(0, 150), st.integers(1, 60)).map(lambda w: (w[0], w[0] + w[1])),
    max_size=6,
)


def brute(calls: list[Once], waiting: list[Span], start: int, end: int) -> dict[str, float]:
    """Per cent of [start, end] in each class: for every millisecond the first that holds."""
    spent: Counter[str] = Counter()
    for tick in range(start, end):
        found = {call.doing(tick) for call in calls} - {None}
        if not found:
            starving = any(lo <= tick < hi for lo, hi in waiting)
            found = {"starved" if starving else "no_work"}
        spent[next(name for name in TIME_CLASSES if name in found)] += 1
    return {name: 100 * spent[name] / (end - start) for name in TIME_CLASSES}


def shares_of(
    calls: list[Once], waiting: list[Span], start: int, end: int
) -> tuple[Shares, list[Span]]:
    phases = Phases(start, end)
    phases.add_history(recorded(calls))
    return phases.shares(waiting, derived=False)


@given(one_gpu(), work, st.integers(0, 80), st.integers(1, 120))
@settings(max_examples=300, deadline=None)
def test_shares_are_what_every_millisecond_says(
    calls: list[Once], waiting: list[Span], start: int, span: int
) -> None:
    end = start + span
    figures, starved = shares_of(calls, waiting, start, end)
    assert figures.time_pct is not None
    expected = brute(calls, waiting, start, end)
    assert dict(figures.time_pct) == pytest.approx(expected, abs=1e-6)
    assert sum(figures.time_pct.values()) == pytest.approx(100)
    assert sum(hi - lo for lo, hi in starved) == pytest.approx(expected["starved"] * span / 100)
    open_ticks = {t for t in range(start, end) if any(c.start <= t < c.end for c in calls)}
    assert figures.bracket_union_pct == pytest.approx(100 * len(open_ticks) / span)
    finished = [c for c in calls if not c.failed]
    summed = sum(c.start <= t < c.end for t in range(start, end) for c in finished)
    assert figures.bracket_sum_pct == pytest.approx(100 * summed / span)
    locked = sum(c.acquired <= t < c.released for t in range(start, end) for c in calls)
    assert figures.lock_held_pct == pytest.approx(100 * locked / span)
    assert figures.kernel_pct == pytest.approx(expected["kernel"])
    section = sum(c.acquired <= t < c.tail for t in range(start, end) for c in finished)
    assert figures.gpu_section_pct == pytest.approx(100 * section / span)


@given(one_gpu(), work, st.integers(0, 60), st.lists(st.integers(1, 40), min_size=2, max_size=4))
@settings(max_examples=60, deadline=None)
def test_windows_one_after_the_other_make_up_the_whole(
    calls: list[Once], waiting: list[Span], start: int, lengths: list[int]
) -> None:
    whole = shares_of(calls, waiting, start, start + sum(lengths))[0].time_pct
    parts = []
    at = start
    for span in lengths:
        parts.append(shares_of(calls, waiting, at, at + span)[0])
        at += span
    assert weighted(parts) == pytest.approx(whole, abs=1e-6)


@given(one_gpu(), st.integers(0, 60), st.integers(1, 120))
@settings(max_examples=60, deadline=None)
def test_gaps_lie_between_brackets(calls: list[Once], start: int, span: int) -> None:
    end = start + span
    phases = Phases(start, end)
    phases.add_history(recorded(calls))
    count, mean_ms = phases.bracket_gaps()
    free = "".join(
        "." if not any(c.start <= t < c.end for c in calls) else "x" for t in range(start, end)
    )
    between = [gap for gap in free.strip(".").split("x") if gap]
    assert count == len(between)
    if between:
        assert mean_ms == pytest.approx(sum(map(len, between)) / len(between))
    else:
        assert mean_ms is None


CALL = Once(0, 10, 30, 50, 60, 70, 75, 100)


def with_unknown(share: float, *, lock: bool) -> Shares:
    """A hundred calls in a row, of some of which kernels (or also the lock) are not known."""
    history = History()
    for n in range(100):
        known = n >= 100 * share
        shift = 100 * n
        history.start.append(shift)
        history.end.append(shift + 100)
        history.acquired.append(NAN if lock and not known else shift + CALL.acquired)
        history.released.append(NAN if lock and not known else shift + CALL.released)
        for name in ("ntt", "barrier", "batch", "tail"):
            getattr(history, name).append(shift + getattr(CALL, name) if known else NAN)
        history.total.append(60 if known else NAN)
        history.finished.append(1)
    phases = Phases(0, 10_000)
    phases.add_history(history)
    return phases.shares([], derived=False)[0]


def test_a_few_unknown_calls_don_t_hide_the_rest() -> None:
    figures = with_unknown(0.02, lock=False)
    assert figures.time_pct is not None
    assert figures.kernel_pct == pytest.approx(40 * 0.98)
    assert figures.lock_held_pct == pytest.approx(65)


def test_shares_of_many_unknown_calls_are_unknown() -> None:
    figures = with_unknown(0.2, lock=False)
    assert (figures.time_pct, figures.kernel_pct, figures.gpu_section_pct) == (None, None, None)
    assert figures.lock_held_pct == pytest.approx(65)
    figures = with_unknown(0.2, lock=True)
    assert (figures.time_pct, figures.lock_held_pct) == (None, None)
    assert (figures.bracket_union_pct, figures.bracket_sum_pct) == (100, 100)


def test_locks_that_are_placed_over_each_other_count_in_full() -> None:
    """A lock has one holder: before S41 its times are guessed from lines printed later."""
    first = Once(0, 10, 40, 40, 50, 60, 60, 100)
    second = Once(20, 50, 80, 80, 90, 100, 100, 120)
    figures, _ = shares_of([first, second], [], 0, 120)
    assert figures.lock_held_pct == pytest.approx(100 * 100 / 120)
    assert figures.time_pct is not None
    assert figures.time_pct["kernel"] == pytest.approx(100 * 100 / 120)


def test_nothing_is_a_span_without_length() -> None:
    figures, starved = Phases(5, 5).shares([(0, 10)], derived=True)
    assert (figures.span_ms, figures.time_pct, starved) == (0, None, [])


def test_spans_come_in_pairs() -> None:
    assert pairs([1, 2, 3, 4]) == [(1, 2), (3, 4)]
    assert pairs([]) == []


def test_gpus_count_by_their_spans() -> None:
    def shares(span_ms: float, kernel: float | None) -> Shares:
        time_pct = None if kernel is None else {"kernel": kernel, "no_work": 100 - kernel}
        return Shares(span_ms=span_ms, time_pct=time_pct)

    assert weighted([shares(100, 10), shares(300, 50)]) == {"kernel": 40, "no_work": 60}
    assert weighted([shares(100, 10), shares(0, None)]) == {"kernel": 10, "no_work": 90}
    assert weighted([shares(100, 10), shares(300, None)]) is None
    assert weighted([]) is None


@given(st.integers(1, 400), st.floats(0, 1), st.integers(0, 60))
@settings(max_examples=50, deadline=None)
def test_a_window_over_the_end_of_a_long_history_misses_no_call(
    count: int, where: float, jitter: int
) -> None:
    calls = [
        Once(100 * n, 100 * n + 5, *(100 * n + 20,) * 4, 100 * n + 30, 100 * n + 40 + (7 * n) % 50)
        for n in range(count)
    ]
    history = recorded(calls)
    start = int(where * 100 * count) + jitter
    phases = Phases(start, 100 * count + 50)
    phases.add_history(history)
    assert phases.total == sum(call.end >= start for call in calls)


def test_figures_that_make_no_sense_give_no_share_below_nothing() -> None:
    figures, _ = shares_of([Once(0, 10, 30, 5, 5, 5, 40, 50)], [], 0, 60)
    assert figures.time_pct is not None
    assert min(figures.time_pct.values()) >= 0
    assert sum(figures.time_pct.values()) == pytest.approx(100)
