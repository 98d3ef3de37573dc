"""Several claimants of the same lines: the cheapest choice, and how sure each of them may be."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from cuzktop.model.attribution import SURE
from cuzktop.model.joint import HORIZON, LOSS, Contest, alone, unrivalled
from cuzktop.model.lateness import (
    EARLY_MAX_MS,
    LATE_MAX_MS,
    early_cost,
    misfit,
    print_cost,
    start_cost,
)
from cuzktop.model.options import NOTHING, WITHOUT, Entry, Hold, Option, disorder
from cuzktop.model.state import Line


def line(place: int, figure: int, lo: float = 0.0) -> Line:
    made = Line(6, figure, 0, place, lo)
    made.hi = lo + 1000.0
    return made


def option(cost: float, *lines: Line | None, hold: Hold | None = None) -> Option:
    return Option(cost, lines, (None,) * len(lines), hold)


def figures(lines: tuple[Line | None, ...]) -> tuple[int | None, ...]:
    return tuple(None if one is None else one.a for one in lines)


def settled(options: dict[str, list[Option]]) -> dict[str, tuple[Option, float]]:
    """What each claimant gets, in order, and how sure that is after all doubts."""
    contest = Contest(options, figures)
    sure = dict.fromkeys(options, math.inf)
    result: dict[str, tuple[Option, float]] = {}
    for name in options:
        verdict, doubts = contest.verdict(name)
        contest.give(name, verdict.option)
        for other, margin in doubts.items():
            sure[other] = min(sure[other], margin)
        result[name] = verdict.option, min(verdict.margin, sure[name])
    return result


def test_the_cheapest_for_all_is_not_the_cheapest_for_each() -> None:
    one, other = line(0, 100), line(1, 200)
    result = settled(
        {"a": [option(0, one), option(1, other)], "b": [option(0, one), option(6, other)]}
    )
    assert result["a"][0].lines == (other,)
    assert result["b"][0].lines == (one,)
    assert result["a"][1] == pytest.approx(5)  # swapped it would cost 6 instead of 1


def test_a_toss_up_leaves_both_in_doubt() -> None:
    one, other = line(0, 100), line(1, 200)
    fits = [option(0, one), option(0, other)]
    assert [margin for _, margin in settled({"a": fits, "b": fits}).values()] == [0, 0]


def test_figures_that_are_alike_need_not_be_told_apart() -> None:
    one, other = line(0, 100), line(1, 101)
    fits = [option(0, one), option(0, other)]
    assert all(margin >= HORIZON for _, margin in settled({"a": fits, "b": fits}).values())


def test_who_is_without_a_line_makes_nobody_sure() -> None:
    one = line(0, 100)
    result = settled({"a": [option(0, one)], "b": [option(0.5, one), option(12, None)]})
    assert result["a"][0].lines == (one,)
    assert result["b"][0].lines == (None,)
    assert result["a"][1] <= LOSS
    assert alone([], figures).option is NOTHING


@pytest.mark.parametrize("excused", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_who_has_no_rival_gets_what_a_contest_would_give(seed: int, *, excused: bool) -> None:
    dice = random.Random(seed)
    lines: list[Line | None] = [*(line(place, dice.randrange(4)) for place in range(4)), None]
    mine = sorted(
        (option(dice.choice([0.0, 2.0, 12.0, 30.0]), *dice.sample(lines, 2)) for _ in range(3)),
        key=lambda one: one.cost,
    )
    theirs = [option(0.0, line(9, 9), None)]
    contest = Contest({"a": mine, "b": theirs}, figures, excused={"a"} if excused else set())
    assert unrivalled(mine, figures, excused=excused) == contest.verdict("a")[0]


def test_a_line_that_both_would_lack_is_no_line_that_both_want() -> None:
    lines = [line(place, 100 * place) for place in range(5)]
    options = {
        "a": [option(0, lines[0], lines[1]), option(1, lines[2], None)],
        "b": [option(0, lines[2], lines[3]), option(2, lines[4], None)],
    }
    assert Contest(options, figures).verdict("a")[0].margin == pytest.approx(3)


def test_who_can_own_nothing_by_what_is_known_now_gets_nothing() -> None:
    one, other = line(0, 100), line(1, 200)
    fits = [option(0, one), option(1, other)]
    contest = Contest(
        {"a": fits, "b": fits}, figures, again=lambda name: [] if name == "a" else fits
    )
    verdict, doubts = contest.verdict("a")
    assert (verdict.option, doubts) == (NOTHING, {})
    assert contest.verdict("b")[0].option.lines == (one,)


def test_a_lock_has_one_holder() -> None:
    lines = [line(place, 100 * place) for place in range(4)]
    early, late = Hold(0, 0, 5), Hold(0, 6, 9)
    result = settled(
        {
            "a": [option(0, lines[0], hold=early), option(5, lines[1], hold=early)],
            "b": [option(0, lines[1], hold=Hold(0, 4, 8)), option(2, lines[2], hold=late)],
        }
    )
    assert result["b"][0].hold == late


def brute(
    options: dict[str, list[Option]], *, ordered: bool = False
) -> tuple[float, dict[str, float]]:
    """The least cost of all, and for each how much more any other choice of its figures costs.

    `ordered`: it also costs if lines would stand in another order than they were due in.
    """
    names = list(options)
    ranked: list[tuple[float, tuple[Option, ...]]] = []
    for choice in itertools.product(*([*options[name], NOTHING] for name in names)):
        used = [one for chosen in choice for one in chosen.lines if one is not None]
        if len(used) == len(set(used)):
            cost = sum(chosen.cost for chosen in choice)
            if ordered:
                cost += disorder(
                    Entry(one.seq, *window, one.lo, one.hi, member)
                    for member, chosen in enumerate(choice)
                    for one, window in zip(chosen.lines, chosen.due, strict=True)
                    if one is not None and window is not None
                )
            ranked.append((cost, choice))
    ranked.sort(key=lambda one: one[0])
    best_cost, best = ranked[0]
    margins = {
        name: min(
            (
                cost - best_cost
                for cost, choice in ranked
                if figures(choice[at].lines) != figures(best[at].lines)
            ),
            default=math.inf,
        )
        for at, name in enumerate(names)
    }
    return best_cost, margins


@pytest.mark.parametrize("seed", range(40))
def test_margins_are_those_of_a_search_through_all(seed: int) -> None:
    rng = random.Random(seed)
    lines = [line(place, 50 * place) for place in range(8)]
    options = {
        name: sorted(
            (option(rng.choice([0, 1, 2, 3, 5, 8]), one) for one in rng.sample(lines, 4)),
            key=lambda one: one.cost,
        )
        for name in "abcd"
    }
    cost, margins = brute(options)
    contest = Contest(options, figures)
    verdict, doubts = contest.verdict("a")
    assert verdict.margin == pytest.approx(min(HORIZON, margins["a"]))
    for name, sure in doubts.items():
        assert sure >= min(HORIZON, margins[name]) - 1e-9
    assert sum(chosen.cost for chosen, _ in settled(options).values()) == pytest.approx(cost)
    assert cost < WITHOUT


def test_the_order_of_lines_tells_owners_where_no_clock_does() -> None:
    """Ten threads print a line each in one second that no clock divides."""
    rng = random.Random(1)
    sure = 0
    for _ in range(10):
        begun = {name: 120.0 * at for at, name in enumerate("abcdefghij")}
        took = {name: rng.randrange(300, 700) for name in begun}
        printed = sorted(begun, key=lambda name: begun[name] + took[name])
        own = {name: line(at, took[name]) for at, name in enumerate(printed)}
        options = {
            name: [Option(0, (one,), ((start + one.a, start + one.a + 2),)) for one in own.values()]
            for name, start in begun.items()
        }
        contest = Contest(options, figures, frontier=len(own))
        for name in begun:
            verdict, _ = contest.verdict(name)
            if verdict.margin >= SURE:
                assert verdict.option.lines == (own[name],)
                sure += 1
    assert sure >= 30  # of a hundred, where 47 orders are the only ones


@pytest.mark.parametrize("seed", range(20))
def test_alike_choices_go_on_as_one_without_loss(seed: int) -> None:
    """Twelve lines in one stretch: more orders than could be followed one by one."""
    rng = random.Random(seed)
    lines = [line(place, 50 * place) for place in range(8)]
    options = {}
    for name in "abcdef":
        chosen = rng.sample(lines, 5)
        windows = [(10.0 * one.seq, 10.0 * one.seq + rng.choice([1, 20, 40])) for one in chosen]
        costs = sorted(rng.choice([0, 0, 1, 2, 4]) for _ in chosen)
        options[name] = [
            Option(cost, (one,), (window,))
            for cost, one, window in zip(costs, chosen, windows, strict=True)
        ]
    cost, margins = brute(options, ordered=True)
    contest = Contest(options, figures)
    verdict, _ = contest.verdict("a")
    assert min(HORIZON, verdict.margin) == pytest.approx(min(HORIZON, margins["a"]), abs=0.3)
    assert cost < WITHOUT


def test_what_is_given_tells_when_it_was_due_for_all_who_may_have_it() -> None:
    first, second = line(0, 100), line(1, 200)
    early, late = (10.0, 12.0), (50.0, 60.0)
    wants_either = [Option(0.0, (first,), (late,)), Option(0.0, (second,), (late,))]
    contest = Contest(
        {
            "a": [Option(0.0, (first,), (early,)), Option(1.0, (second,), (early,))],
            "b": wants_either,
        },
        figures,
        frontier=9,
    )
    assert contest.give("a", wants_either[0]) == {first: (10.0, 60.0)}


def test_who_has_no_other_line_tells_alone_when_it_was_due() -> None:
    first, second = line(0, 100), line(1, 200)
    early, late = (10.0, 12.0), (50.0, 60.0)
    wants_either = [Option(0.0, (first,), (late,)), Option(0.0, (second,), (late,))]
    contest = Contest(
        {"a": [Option(0.0, (first,), (early,))], "b": wants_either}, figures, frontier=9
    )
    assert contest.give("a", Option(0.0, (first,), (early,))) == {first: early}


def test_a_line_between_two_tells_whose_they_are_though_others_might_have_it() -> None:
    """`c` has the line between: that it was due later for `d` is no excuse."""
    above, between, below, last = (line(place, 100 * place) for place in range(4))

    def may_have(**at: float) -> list[Option]:
        lines = {"above": above, "between": between, "below": below, "last": last}
        return [Option(0.0, (lines[name],), ((due, due + 2.0),)) for name, due in at.items()]

    options = {
        "a": may_have(above=100.0, below=300.0),
        "b": may_have(above=250.0, below=450.0),
        "c": may_have(between=150.0),
        "d": may_have(between=400.0, last=500.0),
    }
    verdict, _ = Contest(options, figures, frontier=4).verdict("a")
    assert verdict.option.lines == (above,)
    assert verdict.margin >= SURE


# ---------------------------------------------------------------- what delays cost


def entry(place: int, due: float, member: int) -> Entry:
    return Entry(place, due, due + 1, 0.0, 1000.0, member)


def test_lines_in_the_order_they_were_due_in_cost_nothing() -> None:
    assert disorder([entry(0, 10, 0), entry(1, 20, 1), entry(2, 20.5, 0)]) == 0


def test_a_line_out_of_order_costs_as_much_as_its_delay() -> None:
    swapped = [entry(0, 60, 0), entry(1, 20, 1)]
    assert disorder(swapped) == pytest.approx(print_cost(60 - 21))
    behind = [*swapped, entry(2, 22, 1)]  # its own thread was late already
    assert disorder(behind) == pytest.approx(disorder(swapped), abs=0.2)


def test_a_thread_that_waited_for_a_tick_is_cheaper_than_a_late_line() -> None:
    ticked = [entry(0, 24, 0), Entry(1, 20, 21, 0.0, 1000.0, 1, tick_ms=5.0)]
    assert disorder(ticked) == pytest.approx(start_cost(24 - 21))
    later = [entry(0, 40, 0), Entry(1, 20, 21, 0.0, 1000.0, 1, tick_ms=5.0)]
    assert disorder(later) == pytest.approx(print_cost(40 - 21 - 5))


@pytest.mark.parametrize("cost", [print_cost, start_cost, early_cost])
def test_the_later_the_dearer(cost: object) -> None:
    assert callable(cost)
    costs = [cost(late / 10) for late in range(1, 8000)]
    assert costs == sorted(costs)
    assert costs[0] == 0


def test_nothing_is_later_than_anything_was_seen_to_be() -> None:
    late = line(0, 10, lo=1000.0)
    assert misfit(990, 1000.5, late) == 0
    assert misfit(200, 1000 - LATE_MAX_MS - 1, late) == math.inf
    assert misfit(2000 + EARLY_MAX_MS + 1, 2100, late) == math.inf
    assert 0 < misfit(900, 990, late) < misfit(800, 900, late) < 13
