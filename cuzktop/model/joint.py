"""The cheapest assignment of lines to several claimants at once, and how sure it is.

Each claimant (a call, say) brings its options: sets of lines that could be its own, with a cost.
What is looked for is the cheapest choice of one option for each, and for each claimant how much
dearer the cheapest choice is that would change a figure of it: its margin.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Generic, TypeVar

from cuzktop.dataclass import NamedTuple
from cuzktop.model.effort import Effort
from cuzktop.model.lateness import Window, print_cost
from cuzktop.model.options import (
    NOTHING,
    WITHOUT,
    Entry,
    Hold,
    Lines,
    Option,
    Plan,
    Stage,
    by_cost,
    disorder,
    overlaps,
)
from cuzktop.model.state import Line

LOSS = 3.0  # where a line is missing, nothing is surer
LISTED = 9.5  # options that cost so much more than a claimant's best may not be listed at first
SPARE = 0.01
HORIZON = 7.0  # choices dearer than the best by more are not looked at
KEEP_ROOM = 1_100_000  # partial choices that are followed at a time: fewer, the more is weighed
KEEP_AT_LEAST, KEEP_AT_MOST = 12, 400
KEEP_MEMBERS = 12  # claimants that are looked at together
MOST_MEMBERS = 2 * KEEP_MEMBERS  # even if a line is wanted by more
TICKING = 8  # where there are more, it costs nothing that threads had to wait for a tick
MANY_MEMBERS = 6  # where there are more, the order of all lines is looked at first
OUT_OF_ORDER = 8.0  # options that cost so much more by their lines' order aren't listed either
POOR = 8.0  # what costs more has lost a line, or something else has happened
ROUNDS = 4  # what is dropped bounds the others more tightly, and so on

Figures = Callable[[Lines], tuple[int | None, ...]]
ROUNDING_MS = 1  # figures are truncated to whole ms: such that differ by one tell the same
Claimant = TypeVar("Claimant")


class Verdict(NamedTuple):
    """What the cheapest choice gives to one claimant."""

    option: Option
    margin: float  # how much dearer the cheapest choice is that changes a figure
    rival: Option | None  # what the claimant gets by that one


Second = tuple[float, Option | None]
"""What a change of a claimant's figures costs at least, and what it gets by that."""


class _Choice(NamedTuple):
    """Options chosen for the first claimants of a contest."""

    cost: float
    least: float  # what it costs at least when all have chosen
    chosen: tuple[Option, ...]
    used: frozenset[Line | None]  # of the lines that claimants to come want, too
    beside: tuple[Entry, ...]  # lines that theirs can be in wrong order with
    holds: frozenset[Hold]  # that theirs can overlap
    seconds: dict[int, Second]


_by_least = attrgetter("least")


class Contest(Generic[Claimant]):
    """Claimants, in the order of time, each with its options by cost.

    One after another is asked for (`verdict`) and given what it gets (`give`).
    """

    def __init__(
        self,
        options: Mapping[Claimant, Sequence[Option]],
        figures: Figures,
        listing: Callable[[Claimant], Sequence[Option]] | None = None,
        excused: Container[Claimant] = (),
        frontier: int = 0,
        effort: Effort | None = None,
        again: Callable[[Claimant], Sequence[Option]] | None = None,
        dear: float = math.inf,
    ) -> None:
        """`figures` are what is shown of a claimant's lines.

        `options` need not hold what costs `LISTED` more than a claimant's best; `listing` gives
        all of them. `excused` are those that need not have had all their lines. All who can own
        a line that stands before `frontier` are claimants, or had it before. Where `effort` is
        spent, a claimant gets the best that is left. Where one gets what costs `dear` more than
        the best, nothing is sure, as where it goes without.
        """
        self._options = {claimant: some for claimant, some in options.items() if some}
        self._figures = figures
        self._list = listing
        self._again = again
        self._dear = dear
        self._fresh: set[Claimant] = set()
        self._excused = excused
        self._listed: set[Claimant] = set()
        self._best: dict[Claimant, float] = {}  # what its best option costs, whoever has its lines
        self._effort = effort or Effort()
        self._frontier = frontier
        self._in_order = frontier == 0  # what stands out of order isn't listed any more
        self._bounds: Mapping[Line, Window] = {}  # when lines were written, whoever has the others
        self._taken: set[Line | None] = set()
        self._held: list[Hold] = []  # by those who have their lines
        self._wanted: dict[Line, list[tuple[float, Claimant]]] = {}
        self._plans: dict[tuple[int, bool], Plan] = {}  # by the option's id
        # By gap: lines that anyone wants, and when they were due, whoever gets them.
        self._claims: dict[float, dict[Line, Window]] | None = None
        self._settled: dict[Line, Window] = {}  # when lines that were given were due
        self._numbers = {claimant: number for number, claimant in enumerate(self._options)}
        for claimant, some in self._options.items():
            self.add(claimant, some)

    def add(self, claimant: Claimant, some: Sequence[Option]) -> None:
        """These are a claimant's options, instead of those before."""
        if not some:
            self._options.pop(claimant, None)
            return
        self._options[claimant] = some
        self._claims = None
        self._best[claimant] = some[0].cost
        self._want(claimant, some)

    def _want(self, claimant: Claimant, some: Sequence[Option]) -> None:
        cheapest: dict[Line, float] = {}
        for option in some:
            for line in option.lines:
                if line is not None:
                    cheapest.setdefault(line, option.cost - some[0].cost)
        for line, excess in cheapest.items():
            self._wanted.setdefault(line, []).append((excess, claimant))

    def verdict(self, first: Claimant) -> tuple[Verdict, dict[Claimant, float]]:
        """What `first` gets; and how sure that leaves its rivals at most, where it isn't sure.

        Only claimants near `first` are looked at. To leave others out makes rivals' alternatives
        cheaper, so that a margin is rather too small than too large.
        """
        left = self._left(first)
        if not left:
            return Verdict(NOTHING, HORIZON, None), {}
        if self._effort.refuses():
            rivals = {other for line in left[0].lines if line for _, other in self._wanted[line]}
            return Verdict(left[0], 0.0, None), dict.fromkeys(rivals - {first}, 0.0)
        if self._is_plain(first):
            return Verdict(left[0], HORIZON, None), {}
        members, groups, verdicts = self._solved(first)
        if self._complete(first, members, groups, verdicts) or (
            verdicts[members.index(first)].margin < HORIZON and self._renew(first, members, groups)
        ):
            if not self._left(first):  # by all that is known now, no line can be its own
                return Verdict(NOTHING, HORIZON, None), {}
            members, groups, verdicts = self._solved(first)
        if any(
            None in verdict.option.lines
            or not verdict.option.lines
            or verdict.option.cost > options[0].cost + self._dear
            for member, options, verdict in zip(members, groups, verdicts, strict=True)
            if member not in self._excused
        ):  # a line was lost, or came very late, and who knows which of them is without it
            verdicts = [one._replace(margin=min(one.margin, LOSS)) for one in verdicts]
        mine = verdicts[members.index(first)]
        doubts: dict[Claimant, float] = {}
        if mine.margin < HORIZON:
            for member, verdict in zip(members, verdicts, strict=True):
                if member is not first and verdict.margin < HORIZON:
                    doubts[member] = max(mine.margin, verdict.margin)
        return mine, doubts

    def _solved(self, first: Claimant) -> tuple[list[Claimant], list[list[Option]], list[Verdict]]:
        """`first` and those near it, their likely options and the verdicts on them."""
        within = HORIZON
        if not self._in_order and len(self._members(first, within)) > MANY_MEMBERS:
            self._put_in_order()
        while True:
            members = self._members(first, within)
            groups = [
                [option for option in (*some, NOTHING) if option.cost <= some[0].cost + within]
                for some in (self._left(member) for member in members)
            ]
            verdicts, gap, lost = self._decided(members, groups, within)
            # What exceeds its claimant's best by more than the gap and the horizon is in no choice
            # that matters; nor does it where there are too many choices that don't.
            needed = gap + min(HORIZON, lost)
            if verdicts and (within >= needed - SPARE or within > WITHOUT):
                return members, groups, verdicts
            within = gap + HORIZON if verdicts else within + WITHOUT

    def _decided(
        self, members: Sequence[Claimant], groups: list[list[Option]], within: float
    ) -> tuple[list[Verdict], float, float]:
        """The same as `_cheapest`, in whatever order that is looked for."""
        ideal = sum(options[0].cost for options in groups)
        narrowed = _narrowed(groups, within)
        if not narrowed:
            return [], WITHOUT, math.inf
        # Who has the least choice comes first: what can't be is found out soon.
        order = sorted(range(len(narrowed)), key=lambda number: len(narrowed[number]))
        found, gap, lost = self._cheapest(
            [members[number] for number in order],
            [narrowed[number] for number in order],
            ideal,
            within,
        )
        verdicts = found.copy()
        for number, verdict in zip(order, found, strict=False):
            verdicts[number] = verdict
        return verdicts, gap, lost

    def _is_plain(self, first: Claimant) -> bool:
        """Whether all near `first` can have what is best for them, and it can't have anything else.

        The usual case: then there is nothing to weigh.
        """
        members = self._members(first, HORIZON)
        if len(members) > MANY_MEMBERS:
            return False
        groups = [self._left(member) for member in members]
        best = [options[0] for options in groups]
        if not self._in_harmony(members, best):
            return False
        mine = groups[members.index(first)]
        limit = mine[0].cost + HORIZON
        if limit >= WITHOUT:
            return False
        for option in mine[1:]:
            if option.cost > limit:
                break
            if option.cost + _displaced(option, groups, mine) < limit and not _same(
                self._figures, mine[0].lines, option.lines
            ):
                return False
        return True

    def _in_harmony(self, members: Sequence[Claimant], options: Sequence[Option]) -> bool:
        """Whether each can have its option, with all lines, and none of these is out of order."""
        lines = [line for option in options for line in option.lines]
        mine = set(lines)
        if None in mine or len(mine) < len(lines):
            return False
        held: list[Hold] = []
        entries: list[Entry] = []
        for member, option in zip(members, options, strict=True):
            if option.hold is not None:
                if overlaps(option.hold, held):
                    return False
                held.append(option.hold)
            entries += self._planned(member, option, ticks=len(members) <= TICKING).entries
        entries += self._claimed({entry.gap for entry in entries}, mine)
        return disorder(entries) == 0.0

    def _put_in_order(self) -> None:
        """Drop options with lines that would stand far out of order, whoever has the others."""
        self._in_order = True
        for claimant, some in self._options.items():
            if claimant not in self._excused and (some[0].cost > POOR or None in some[0].lines):
                return  # a line of it was lost, or came very late: others of it may be nobody's
        for _ in range(ROUNDS):
            free = {claimant: self._left(claimant) for claimant in self._options}
            self._bounds = _written(free.values(), self._frontier)
            kept: dict[Claimant, Sequence[Option]] = {}
            for claimant, some in free.items():
                left = self._orderly(some)
                if len(left) < len(some):
                    kept[claimant] = left
            if not kept:
                return
            self._options.update(kept)
            self._claims = None
            self._wanted.clear()
            for claimant, some in self._options.items():
                self._want(claimant, some)

    def _orderly(self, some: Sequence[Option]) -> Sequence[Option]:
        """Those of a claimant's options whose lines don't stand far out of order, if any."""
        if not some or not self._bounds:
            return some
        limit = some[0].cost + OUT_OF_ORDER
        left = [one for one in some if one.cost + _out_of_order(one, self._bounds) <= limit]
        return left or some

    def _complete(
        self,
        first: Claimant,
        members: Sequence[Claimant],
        groups: Sequence[Sequence[Option]],
        verdicts: Sequence[Verdict],
    ) -> bool:
        """List all options of those that do not get what they want, and of their rivals.

        The same for `first` and its rivals. Tells whether there are more now.
        """
        if self._list is None:
            return False
        likely = LISTED - HORIZON
        dearer = [
            verdict.option.cost > self._best[member] + likely
            for member, verdict in zip(members, verdicts, strict=True)
        ]
        if not any(dearer):
            return False
        wanted: set[Line | None] = set()
        for member, options, more_than_listed in zip(members, groups, dearer, strict=True):
            if member is first or more_than_listed:
                wanted.update(options[0].lines)
        wanted.discard(None)
        more = False
        for member, options in zip(members, groups, strict=True):
            if member in self._listed:
                continue
            if any(not wanted.isdisjoint(option.lines) for option in options):
                self._listed.add(member)
                self.add(member, self._list(member))
                more = True
        return more

    def renewed(self, claimant: Claimant) -> None:
        """Its options were listed with all that is known by now."""
        self._fresh.add(claimant)

    def forget_lists(self) -> None:
        """More is known since any options were listed."""
        self._fresh.clear()

    def _renew(
        self, first: Claimant, members: Sequence[Claimant], groups: Sequence[Sequence[Option]]
    ) -> bool:
        """List the options of `first` and its rivals with all that is known now."""
        if self._again is None:
            return False
        mine = groups[members.index(first)]
        wanted = {line for option in mine for line in option.lines if line is not None}
        stale = [
            member
            for member, options in zip(members, groups, strict=True)
            if member not in self._fresh
            and any(not wanted.isdisjoint(option.lines) for option in options)
        ]
        changed = False
        for member in stale:
            self._fresh.add(member)
            before, now = self._options.get(member), self._orderly(self._again(member))
            if before is None or not _alike(before, now):
                self.add(member, now)
                changed = True
        return changed

    def give(self, claimant: Claimant, option: Option) -> Mapping[Line, Window]:
        """The claimant has its lines: no one else gets them.

        Tells when each of them was due for all who are likely to have it, if it could be told.
        """
        lines = [line for line in option.lines if line is not None]
        due = self._due(lines) if self._frontier else {}
        self._settled.update(due)
        self._taken.update(lines)
        if option.hold is not None:
            self._held.append(option.hold)
        self._options.pop(claimant, None)
        return due

    def _due(self, lines: Iterable[Line]) -> dict[Line, Window]:
        """When lines were due for all who are likely to have them."""
        told: dict[Claimant, tuple[dict[Line, Window], set[Line | None]]] = {}
        due: dict[Line, Window] = {}
        needed: dict[Line, Window] = {}
        for line in lines:
            for excess, claimant in self._wanted.get(line, ()):
                some = self._options.get(claimant)
                if some is None or excess > HORIZON:
                    continue
                if claimant not in told:
                    told[claimant] = _likely(some)
                mine, common = told[claimant]
                if line in mine:
                    known = needed if line in common else due
                    known[line] = _united(mine[line], known.get(line))
        due.update(needed)
        return due

    def _left(self, claimant: Claimant) -> Sequence[Option]:
        """The options of a claimant that nobody has taken a line from, or the lock meanwhile."""
        some = self._options.get(claimant, ())
        if not self._taken:
            return some
        left = [option for option in some if self._free(option)]
        return some if len(left) == len(some) else left

    def _free(self, option: Option) -> bool:
        if not self._taken.isdisjoint(option.lines):
            return False
        return option.hold is None or not overlaps(option.hold, self._held)

    def _members(self, first: Claimant, within: float) -> list[Claimant]:
        """`first`, who wants its lines, who wants theirs, and so on: the nearest, in order."""
        found = {first}
        queue = [first]
        seen: set[Line] = set()
        for claimant in queue:
            some = self._left(claimant)
            for option in some:
                if option.cost > some[0].cost + within or len(found) >= KEEP_MEMBERS:
                    break
                for line in option.lines:
                    if line is None or line in seen:
                        continue
                    seen.add(line)
                    for excess, other in self._wanted[line]:
                        if len(found) >= MOST_MEMBERS:
                            break
                        if excess <= within and other not in found and other in self._options:
                            found.add(other)
                            queue.append(other)
        if len(found) == 1:
            return [first]
        return [
            claimant for claimant in self._options if claimant in found and self._left(claimant)
        ]

    def _cheapest(
        self,
        members: Sequence[Claimant],
        groups: Sequence[Sequence[Option]],
        ideal: float,
        within: float,
    ) -> tuple[list[Verdict], float, float]:
        """The verdicts on groups, and what the choice costs more than `ideal`, up to `within`.

        And how much dearer the cheapest choice can be, at least, that there was no room for.

        Group after group is given an option. Choices that leave the same to the groups to come go
        on as one, the cheapest; what the others would have cost more is noted.
        """
        if len(groups) == 1:
            return [alone(groups[0], self._figures)], 0.0, math.inf
        weighed = sum(len(options) for options in groups)
        room = min(KEEP_AT_MOST, max(KEEP_AT_LEAST, KEEP_ROOM // weighed**2))
        self._effort.take(weighed)
        stages = self._stages(members, groups)
        choices = [_Choice(0.0, ideal, (), frozenset(), self._beside(stages), frozenset(), {})]
        dropped = math.inf  # what those cost at least that were dropped for want of room
        for stage in stages:
            kept: dict[tuple[object, ...], _Choice] = {}
            for choice in choices:
                self._extend(choice, stage, ideal + within + SPARE, kept)
            choices = list(kept.values())
            if len(choices) > room:
                choices.sort(key=_by_least)
                dropped = min(dropped, choices[room].least)
                del choices[room:]
            if not choices:  # there are not lines enough for all
                return [], WITHOUT, dropped
        best, *others = sorted(choices, key=by_cost)
        for other in others:
            best = self._noted(best, other)
        lost = max(0.0, dropped - best.cost)
        verdicts: list[Verdict] = []
        for index, option in enumerate(best.chosen):
            margin, rival = best.seconds.get(index, (within, None))
            verdicts.append(Verdict(option, min(margin, lost), rival))
        return verdicts, best.cost - ideal, lost

    def _stages(
        self, members: Sequence[Claimant], groups: Sequence[Sequence[Option]]
    ) -> list[Stage]:
        stages: list[Stage] = []
        after: Stage | None = None
        ticks = len(members) <= TICKING
        for member, options in zip(reversed(members), reversed(groups), strict=True):
            plans = [self._planned(member, option, ticks=ticks) for option in options]
            after = Stage(plans, after)
            stages.append(after)
        stages.reverse()
        return stages

    def _beside(self, stages: Sequence[Stage]) -> tuple[Entry, ...]:
        """Lines that only others want, as far as those of the stages can be in wrong order."""
        first = Stage((), stages[0])
        gaps = {entry.gap for stage in stages for plan in stage.plans for entry in plan.entries}
        return tuple(entry for entry in self._claimed(gaps, first.wanted) if first.matters(entry))

    def _claimed(self, gaps: Iterable[float], but: Container[Line | None]) -> Iterator[Entry]:
        """The lines in these gaps that anyone wants, but those."""
        if self._frontier == 0:  # nothing is known of lines' order
            return
        if self._claims is None:
            self._claims = self._all_claims()
        for gap in gaps:
            for line, due in self._claims.get(gap, {}).items():
                if line not in but:
                    yield Entry(line.seq, *due, line.lo, gap, ~line.seq)

    def _all_claims(self) -> dict[float, dict[Line, Window]]:
        """The lines that are in anyone's best option, and when they were due for all likely.

        Who has nothing else has it: then it doesn't count when it was due for others.
        """
        best: set[Line | None] = set()
        due: dict[Line, Window] = {}
        needed: dict[Line, Window] = {}
        for some in self._options.values():
            best.update(some[0].lines)
            mine, common = _likely(some)
            for line, window in mine.items():
                known = needed if line in common else due
                known[line] = _united(window, known.get(line))
        due.update(needed)
        claims: dict[float, dict[Line, Window]] = {}
        due.update(self._settled)
        best.update(self._settled)
        for line, window in due.items():
            if line in best and line.seq < self._frontier:
                claims.setdefault(line.hi, {})[line] = window
        return claims

    def _extend(
        self, choice: _Choice, stage: Stage, bound: float, kept: dict[tuple[object, ...], _Choice]
    ) -> None:
        """Keep what a choice becomes by each option of the stage, as far as `bound` allows."""
        here = {entry.gap for entry in choice.beside}
        before = -1.0
        lasting = tuple(entry for entry in choice.beside if stage.matters(entry))
        spare = bound - stage.least - choice.cost
        self._effort.take(len(stage.plans))
        for plan in stage.plans:
            option = plan.option
            if option.cost > spare:
                break
            if option.cost + plan.disorder > spare or not choice.used.isdisjoint(option.lines):
                continue
            holds = choice.holds
            if option.hold is not None:
                if overlaps(option.hold, holds):
                    continue
                if stage.may_overlap(option.hold):
                    holds = holds.union((option.hold,))
            cost = choice.cost + option.cost + plan.disorder
            if not here.isdisjoint(plan.gaps):
                if before < 0.0:
                    before = disorder(choice.beside)
                cost += disorder((*choice.beside, *plan.entries)) - before - plan.disorder
            used = choice.used.union(option.lines) & stage.wanted
            least = cost + stage.least + stage.forced(used)
            if least > bound:
                continue
            beside = lasting
            if plan.entries:
                beside += tuple(entry for entry in plan.entries if stage.matters(entry))
            made = _Choice(
                cost, least, (*choice.chosen, option), used, beside, holds, choice.seconds
            )
            key = (used, beside, holds)
            other = kept.get(key)
            if other is None:
                kept[key] = made
            elif cost < other.cost:
                kept[key] = self._noted(made, other)
            else:
                kept[key] = self._noted(other, made)

    def _planned(self, member: Claimant, option: Option, *, ticks: bool) -> Plan:
        plan = self._plans.get((id(option), ticks))
        if plan is None:
            plan = self._plans[id(option), ticks] = Plan(option, self._numbers[member], ticks=ticks)
        return plan

    def _noted(self, kept: _Choice, dropped: _Choice) -> _Choice:
        """The kept choice, with what the dropped one would have cost more."""
        dearer = dropped.cost - kept.cost
        if dearer > 2 * HORIZON:
            return kept
        seconds = dict(kept.seconds)
        for index, (mine, theirs) in enumerate(zip(kept.chosen, dropped.chosen, strict=True)):
            if mine is theirs or _same(self._figures, mine.lines, theirs.lines):
                more = dropped.seconds.get(index)
                if more is None:
                    continue
                second = (dearer + more[0], more[1])
            else:
                second = (dearer, theirs)
            if index not in seconds or second[0] < seconds[index][0]:
                seconds[index] = second
        return kept._replace(seconds=seconds)


def _alike(some: Sequence[Option], others: Sequence[Option]) -> bool:
    """Whether nothing that is likely changed."""
    limit = some[0].cost + HORIZON
    for one, other in itertools.zip_longest(some, others):
        if one is None or other is None or one.cost > limit:
            return one is other or (one is not None and one.cost > limit)
        if (one.cost, one.lines, one.due) != (other.cost, other.lines, other.due):
            return False
    return True


def _likely(some: Sequence[Option]) -> tuple[dict[Line, Window], set[Line | None]]:
    """When lines were due by a claimant's likely options, and which are in each of these."""
    due: dict[Line, Window] = {}
    common = set(some[0].lines)
    limit = some[0].cost + HORIZON
    for option in some:
        if option.cost > limit:
            break
        common.intersection_update(option.lines)
        for line, window in zip(option.lines, option.due, strict=True):
            if line is not None and window is not None:
                due[line] = _united(window, due.get(line))
    return due, common


def _united(one: Window, other: Window | None) -> Window:
    if other is None:
        return one
    return (min(one[0], other[0]), max(one[1], other[1]))


def _narrowed(groups: list[list[Option]], within: float) -> list[list[Option]]:
    """The options that can be in a choice that exceeds the best of each by at most `within`.

    What one is given, the others go without: that alone rules many out. None are left if there
    is no such choice.
    """
    if len(groups) == 1:
        return groups
    spare = within + SPARE
    ideal = [options[0].cost for options in groups]
    for _ in range(ROUNDS):
        raised = sum(options[0].cost - best for options, best in zip(groups, ideal, strict=True))
        kept: list[list[Option]] = []
        for options in groups:
            limit = spare - raised + options[0].cost
            left = [
                option
                for option in options
                if option.cost <= limit
                and option.cost + _displaced(option, groups, options) <= limit
            ]
            if not left:
                return []
            kept.append(left)
        settled = all(len(some) == len(more) for some, more in zip(kept, groups, strict=True))
        groups = kept
        if settled:
            break
    return groups


def _displaced(option: Option, groups: Iterable[Sequence[Option]], mine: Sequence[Option]) -> float:
    """What the others have to pay more, at least, if one whose options are `mine` has this."""
    more = 0.0
    lines = set(option.lines)
    lines.discard(None)
    for theirs in groups:
        if theirs is mine or lines.isdisjoint(theirs[0].lines):
            continue
        for other in theirs:
            if lines.isdisjoint(other.lines):
                more += other.cost - theirs[0].cost
                break
        else:
            return math.inf
    return more


def unrivalled(options: Sequence[Option], figures: Figures, *, excused: bool) -> Verdict:
    """What `Contest.verdict` says of a claimant whose lines nobody else wants: the usual case.

    `excused`: it need not have had all its lines.
    """
    limit = options[0].cost + HORIZON
    if len(options) == 1 and limit < WITHOUT:
        verdict = Verdict(options[0], HORIZON, None)
    else:
        verdict = alone([one for one in (*options, NOTHING) if one.cost <= limit], figures)
    if None in verdict.option.lines and not excused:
        return verdict._replace(margin=min(verdict.margin, LOSS))
    return verdict


def _written(options: Iterable[Sequence[Option]], frontier: int) -> dict[Line, Window]:
    """When lines before `frontier` were written: by when all of them were due for anyone."""
    due: dict[Line, Window] = {}
    for some in options:
        for option in some:
            for line, window in zip(option.lines, option.due, strict=True):
                if line is not None and window is not None and line.seq < frontier:
                    due[line] = _united(window, due.get(line))
    lines = sorted(due, key=lambda line: line.seq)
    after: list[float] = []
    newest = -math.inf
    for line in lines:
        newest = max(newest, due[line][0])
        after.append(newest)
    bounds: dict[Line, Window] = {}
    oldest = math.inf
    for line, newest in zip(reversed(lines), reversed(after), strict=True):
        oldest = min(oldest, max(due[line][1], line.lo))
        bounds[line] = (newest, oldest)
    return bounds


def _out_of_order(option: Option, bounds: Mapping[Line, Window]) -> float:
    """What an option's most misplaced line costs."""
    worst = 0.0
    for line, window in zip(option.lines, option.due, strict=True):
        if line is not None and window is not None and line in bounds:
            newest, oldest = bounds[line]
            worst = max(worst, newest - window[1], window[0] - oldest)
    return print_cost(worst)


def alone(options: Sequence[Option], figures: Figures) -> Verdict:
    """The verdict on a claimant that has no rivals."""
    if not options:
        return Verdict(NOTHING, HORIZON, None)
    best = options[0]
    for other in options[1:]:
        if not _same(figures, best.lines, other.lines):
            return Verdict(best, min(HORIZON, other.cost - best.cost), other)
    return Verdict(best, HORIZON, None)


def _same(figures: Figures, one: Lines, other: Lines) -> bool:
    """Whether two sets of lines tell the same of their claimant."""
    if not one or not other:
        return False
    for mine, theirs in zip(figures(one), figures(other), strict=True):
        if mine is None or theirs is None:
            if mine is not theirs:
                return False
        elif abs(mine - theirs) > ROUNDING_MS:
            return False
    return True
