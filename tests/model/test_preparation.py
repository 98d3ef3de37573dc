"""The CPU's lines of calls, made by hand: what each of them can be, and who gets which."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cuzktop.model.attribution import SURE
from cuzktop.model.joint import Contest, Verdict
from cuzktop.model.kinds import C1, C2, C3
from cuzktop.model.options import Lines, Option
from cuzktop.model.preparation import preparations
from cuzktop.model.state import Call, Job, Partition
from cuzktop.model.tape import Tape

Printed = tuple[float, int, int, int]  # when, kind, its two figures


def taped(printed: Sequence[Printed], clocks: Sequence[float]) -> Tape:
    """These lines, with clocks read between them."""
    tape = Tape()
    clock = 0.0
    waiting = sorted(clocks)
    for at, kind, a, b in sorted(printed):
        while waiting and waiting[0] < at:
            clock = waiting.pop(0)
            tape.clocked(clock)
        tape.add(kind, a, b, clock)
    tape.clocked(waiting[0] if waiting else clock + 10_000.0)
    return tape


def call(tape: Tape, start: float) -> Call:
    made = Call(Partition(Job("job", 1, "porep", 0.0), 0, 0), 0, 0, start, 0)
    made.entry_lo, made.entry_hi = start, start + 1.0
    made.end_seq = tape.end()
    return made


def possible(tape: Tape, calls: Sequence[Call], *, full: bool = False) -> dict[Call, list[Option]]:
    return {
        one: preparations(
            one,
            tape.pools,
            tape.bounds,
            setup_limit=(tape.end(), None),
            barrier=None,
            finish=None,
            last=tape.end(),
            full=full,
        )
        for one in calls
    }


def cpu_figures(lines: Lines) -> tuple[int | None, ...]:
    return tuple(None if one is None else one.a for one in lines[1:])


def settled(tape: Tape, calls: Sequence[Call]) -> list[Verdict]:
    contest = Contest(possible(tape, calls), cpu_figures, frontier=tape.end())
    verdicts = []
    for one in calls:
        verdict, _ = contest.verdict(one)
        contest.give(one, verdict.option)
        verdicts.append(verdict)
    return verdicts


@pytest.mark.parametrize("together", [2, 3, 4, 6])
def test_however_many_calls_start_at_once_each_finds_lines(together: int) -> None:
    printed: list[Printed] = []
    for number in range(together):
        prep, b_g2 = 400 + 50 * number, 300 + 7 * number
        begun = 1000.6 + 0.01 * number
        printed += [
            (begun, C1, 0, 0),
            (begun + 0.5 + prep, C2, prep, 0),
            (begun + 0.6 + prep + b_g2, C3, b_g2, 1),
        ]
    tape = taped(printed, [999.0, 1002.0])
    verdicts = settled(tape, [call(tape, 1000.0) for _ in range(together)])
    found = [cpu_figures(verdict.option.lines) for verdict in verdicts]
    assert len(set(found)) == together
    assert all(None not in figures for figures in found)
    assert all(verdict.option.cost < 1 for verdict in verdicts)


def test_a_line_of_a_third_call_that_stands_between_tells_whose_lines_two_are() -> None:
    """Two calls' prep_msm were done 31 ms apart; without the third it would be a toss-up."""
    two = [
        (1000.4, C1, 0, 0),
        (1401.0, C2, 400, 0),
        (1701.5, C3, 300, 1),
        (1200.4, C1, 0, 0),
        (1432.0, C2, 231, 0),
        (1832.5, C3, 400, 1),
    ]
    third = [(1100.4, C1, 0, 0), (1501.0, C2, 400, 0), (1706.5, C3, 205, 1)]
    clocks = [999.0, 1001.0, 1099.0, 1101.0, 1199.0, 1201.0, 1450.0]
    tape = taped(two, clocks)
    verdicts = settled(tape, [call(tape, 1000.0), call(tape, 1200.0)])
    assert verdicts[0].margin < 1
    tape = taped([*two, *third], clocks)
    calls = [call(tape, start) for start in (1000.0, 1100.0, 1200.0)]
    verdicts = settled(tape, calls)
    found = [cpu_figures(one.option.lines) for one in verdicts]
    assert found == [(400, 300), (400, 205), (231, 400)]
    assert verdicts[0].margin > SURE


def test_a_late_b_g2_msm_may_be_late_alone_or_after_a_late_prep_msm() -> None:
    printed = [(1000.4, C1, 0, 0), (1401.0, C2, 400, 0), (1741.0, C3, 300, 1)]
    tape = taped(printed, [999.0, 1001.0, 1350.0, 1735.0])
    some = possible(tape, [call(tape, 1000.0)])
    (options,) = some.values()
    due = [option.due[1] for option in options if None not in option.lines]
    assert any(window is not None and window[1] < 1410 for window in due)
    assert any(window is not None and window[0] > 1430 for window in due)


def test_a_line_that_came_very_late_is_listed_whatever_stands_above_it() -> None:
    printed = [
        (1000.4, C1, 0, 0),
        (1401.0, C2, 400, 0),
        (1701.5, C3, 300, 1),  # might be the call's own: it came in time
        (2100.0, C3, 338, 1),  # and so might this one, 360 ms late
    ]
    tape = taped(printed, [999.0, 1001.0, 1402.0, 1702.0, 2095.0])
    (options,) = possible(tape, [call(tape, 1000.0)], full=True).values()
    assert {cpu_figures(option.lines) for option in options} >= {(400, 300), (400, 338)}


def test_calls_whose_threads_began_at_once_are_likelier_than_such_as_waited_for_a_tick() -> None:
    """Swapped, the first call's thread would have waited 2 ms: that is seen, but seldom."""
    printed = [
        (1000.6, C1, 0, 0),
        (1004.6, C1, 0, 0),
        (1404.0, C2, 403, 0),
        (1405.2, C2, 400, 0),
        (1704.4, C3, 300, 1),
        (1705.7, C3, 300, 1),
    ]
    tape = taped(printed, [999.0, 1002.0, 1004.0, 1006.0])
    verdicts = settled(tape, [call(tape, 1000.0), call(tape, 1004.0)])
    assert [cpu_figures(one.option.lines) for one in verdicts] == [(403, 300), (400, 300)]
    assert 1 < verdicts[0].margin < SURE
