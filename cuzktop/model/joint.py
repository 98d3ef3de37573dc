"""The cheapest assignment of lines to several claimants at once, and how sure it is.

Each claimant (a call, say) brings its options: sets of lines that could be its own, with a cost. A
line has one owner, and lines are written in the order in which they stand in the log. What is
looked for is the cheapest choice of one option for each, and for each claimant how much dearer the
cheapest choice is that would change a figure of it: its margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

from cuzktop.model.lateness import Window, print_cost
from cuzktop.model.state import Line

WITHOUT = 36.0  # the cost of a claimant that goes without any line: four of them lost
LOSS = 3.0  # where a line is missing, nothing is surer
LISTED = 9.5  # options that cost so much more than a claimant's best may not be listed at first
SPARE = 0.01
HORIZON = 7.0  # choices dearer than the best by more are not looked at
KEEP_CHOICES = 80  # partial choices that are followed at a time
KEEP_AT_LEAST = 12
CROWD = 120  # options in a contest; where there are more, much is open and little can be told
KEEP_MEMBERS = 12  # claimants that are looked at together

Lines = tuple[Line | None, ...]
Figures = Callable[[Lines], tuple[int | None, ...]]
ROUNDING_MS = 1  # figures are truncated to whole ms: such that differ by one tell the same
Claimant = TypeVar("Claimant")


class Hold(NamedTuple):
    """A lock, and the places of the log between which it was held: no one else had it there."""

    lock: int
    taken: int
    given_back: int


class Option(NamedTuple):
    """Lines that could be a claimant's own."""

    cost: float
    lines: Lines
    due: tuple[Window | None, ...]  # when each of them was due to be written
    hold: Hold | None = None


NOTHING = Option(WITHOUT, (), ())
by_cost = attrgetter("cost")
"""The sorting key of options and of whatever else has a cost."""


class Verdict(NamedTuple):
    """What the cheapest choice gives to one claimant."""

    option: Option
    margin: float  # how much dearer the cheapest choice is that changes a figure
    rival: Option | None  # what the claimant gets by that one


Second = tuple[float, Option | None]
"""What a change of a claimant's figures costs at least, and what it gets by that."""


class Entry(NamedTuple):
    """A line of a chosen option, as far as its place in the log matters."""

    place: int
    earliest: float  # when it was due
    latest: float
    clock: float  # it was not written before
    gap: float  # the clock below it: lines above one clock and below another stand together
    member: int


class _Plan:
    """An option, and what can be said of it whatever else is chosen."""

    __slots__ = ("disorder", "entries", "gaps", "option")

    def __init__(self, option: Option, member: int) -> None:
        """`member` tells the lines of one claimant from those of others."""
        self.option = option
        self.entries = tuple(
            Entry(line.seq, due[0], due[1], line.lo, line.hi, member)
            for line, due in zip(option.lines, option.due, strict=True)
            if line is not None and due is not None
        )
        self.gaps = {entry.gap for entry in self.entries}
        self.disorder = disorder(self.entries)


class _Choice(NamedTuple):
    """Options chosen for the first claimants of a contest."""

    cost: float
    chosen: tuple[Option, ...]
    used: frozenset[Line | None]  # of the lines that claimants to come want, too
    beside: tuple[Entry, ...]  # lines among which those of claimants to come can stand
    holds: frozenset[Hold]
    seconds: dict[int, Second]


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
    ) -> None:
        """`figures` are what is shown of a claimant's lines.

        `options` need not hold what costs `LISTED` more than a claimant's best; `listing` gives
        all of them. `excused` are those that need not have had all their lines.
        """
        self._options = {claimant: some for claimant, some in options.items() if some}
        self._figures = figures
        self._list = listing
        self._excused = excused
        self._listed: set[Claimant] = set()
        self._taken: set[Line | None] = set()
        self._held: list[Hold] = []  # by those who have their lines
        self._wanted: dict[Line, list[tuple[float, Claimant]]] = {}
        self._plans: dict[int, _Plan] = {}  # by the option's id
        self._numbers = {claimant: number for number, claimant in enumerate(self._options)}
        for claimant, some in self._options.items():
            self.add(claimant, some)

    def add(self, claimant: Claimant, some: Sequence[Option]) -> None:
        """These are a claimant's options, instead of those before."""
        if not some:
            self._options.pop(claimant, None)
            return
        self._options[claimant] = some
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
        if not self._left(first):
            return Verdict(NOTHING, HORIZON, None), {}
        members, groups, verdicts, gap = self._solved(first)
        if gap > LISTED - HORIZON and self._complete(first, members, groups, verdicts):
            members, groups, verdicts, gap = self._solved(first)
        if any(
            None in verdict.option.lines or not verdict.option.lines
            for member, verdict in zip(members, verdicts, strict=True)
            if member not in self._excused
        ):  # a line was lost, and who knows which of them is without it
            verdicts = [one._replace(margin=min(one.margin, LOSS)) for one in verdicts]
        mine = verdicts[members.index(first)]
        doubts: dict[Claimant, float] = {}
        if mine.margin < HORIZON:
            for member, verdict in zip(members, verdicts, strict=True):
                if member is not first and verdict.margin < HORIZON:
                    doubts[member] = max(mine.margin, verdict.margin)
        return mine, doubts

    def _solved(
        self, first: Claimant
    ) -> tuple[list[Claimant], list[list[Option]], list[Verdict], float]:
        """`first` and those near it, their options and the verdicts on them; see `_cheapest`."""
        within = HORIZON
        while True:
            members = self._members(first, within)
            groups = [
                [option for option in (*some, NOTHING) if option.cost <= some[0].cost + within]
                for some in (self._left(member) for member in members)
            ]
            verdicts, gap = self._cheapest(members, groups, within)
            # What exceeds its claimant's best by more than the gap and the horizon is in no choice
            # that matters.
            if verdicts and (within >= gap + HORIZON - SPARE or within > WITHOUT):
                return members, groups, verdicts, gap
            within = gap + HORIZON if verdicts else within + WITHOUT

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
        wanted: set[Line | None] = set()
        for member, options, verdict in zip(members, groups, verdicts, strict=True):
            if member is first or verdict.option.cost > options[0].cost + LISTED - HORIZON:
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

    def give(self, claimant: Claimant, option: Option) -> None:
        """The claimant has its lines: no one else gets them."""
        self._taken.update(line for line in option.lines if line is not None)
        if option.hold is not None:
            self._held.append(option.hold)
        self._options.pop(claimant, None)

    def contested(self, claimant: Claimant) -> bool:
        """Whether it has a choice, or anyone else wants what it would have."""
        some = self._options.get(claimant)
        if not some:
            return False
        if len(some) > 1 and some[1].cost <= some[0].cost + HORIZON:
            return True
        return any(line is not None and len(self._wanted[line]) > 1 for line in some[0].lines)

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
        within: float,
    ) -> tuple[list[Verdict], float]:
        """The verdicts on groups, and what the choice costs more than the best of each alone.

        Group after group is given an option. Choices that leave the same lines to the groups to
        come go on as one, the cheapest; what the others would have cost more is noted.
        """
        if len(groups) == 1:
            return [alone(groups[0], self._figures)], 0.0
        crowd = sum(len(options) for options in groups) / CROWD
        room = int(max(KEEP_AT_LEAST, KEEP_CHOICES / max(1.0, crowd) ** 2))
        least = 0.0
        choices = [_Choice(0.0, (), frozenset(), (), frozenset(), {})]
        lost = within  # the cheapest of what was dropped for want of room, above the best
        for member, options, (later, gaps) in zip(
            members, groups, _wanted_later(groups), strict=True
        ):
            kept: dict[tuple[object, ...], _Choice] = {}
            least += options[0].cost
            bound = least + within + SPARE
            plans = [self._planned(member, option) for option in options]
            for choice in choices:
                here = {entry.gap for entry in choice.beside}
                before = -1.0
                lasting = tuple(entry for entry in choice.beside if entry.gap in gaps)
                for plan in plans:
                    option = plan.option
                    cost = choice.cost + option.cost + plan.disorder
                    if cost > bound:
                        if choice.cost + option.cost > bound:
                            break
                        continue
                    if not choice.used.isdisjoint(option.lines):
                        continue
                    holds = choice.holds
                    if option.hold is not None:
                        if overlaps(option.hold, holds):
                            continue
                        holds = holds.union((option.hold,))
                    if not here.isdisjoint(plan.gaps):
                        if before < 0.0:
                            before = disorder(choice.beside)
                        cost += disorder((*choice.beside, *plan.entries)) - before - plan.disorder
                        if cost > bound:
                            continue
                    beside = lasting
                    if not gaps.isdisjoint(plan.gaps):
                        beside += tuple(entry for entry in plan.entries if entry.gap in gaps)
                    used = choice.used.union(option.lines) & later
                    made = _Choice(
                        cost, (*choice.chosen, option), used, beside, holds, choice.seconds
                    )
                    key = (used, beside, holds)
                    other = kept.get(key)
                    if other is None:
                        kept[key] = made
                    elif cost < other.cost:
                        kept[key] = self._noted(made, other)
                    else:
                        kept[key] = self._noted(other, made)
            choices = sorted(kept.values(), key=by_cost)
            if len(choices) > room:
                lost = min(lost, choices[room].cost - choices[0].cost)
                del choices[room:]
            if not choices:  # there are not lines enough for all
                return [], WITHOUT
        best = choices[0]
        for other in choices[1:]:
            best = self._noted(best, other)
        verdicts: list[Verdict] = []
        for index, option in enumerate(best.chosen):
            margin, rival = best.seconds.get(index, (within, None))
            verdicts.append(Verdict(option, min(margin, lost), rival))
        return verdicts, best.cost - sum(options[0].cost for options in groups)

    def _planned(self, member: Claimant, option: Option) -> _Plan:
        plan = self._plans.get(id(option))
        if plan is None:
            plan = self._plans[id(option)] = _Plan(option, self._numbers[member])
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


def apart(options: Iterable[Option], others: Iterable[Sequence[Option]]) -> bool:
    """Whether no line of these options is in any of the others'."""
    mine = {line for option in options for line in option.lines}
    mine.discard(None)
    for some in others:
        for option in some:
            if not mine.isdisjoint(option.lines):
                return False
    return True


def unrivalled(options: Sequence[Option], figures: Figures, *, excused: bool) -> Verdict:
    """What `Contest.verdict` says of a claimant whose lines nobody else wants: the usual case.

    `excused`: it need not have had all its lines.
    """
    limit = options[0].cost + HORIZON
    verdict = alone([one for one in (*options, NOTHING) if one.cost <= limit], figures)
    if None in verdict.option.lines and not excused:
        return verdict._replace(margin=min(verdict.margin, LOSS))
    return verdict


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


def overlaps(hold: Hold, others: Iterable[Hold]) -> bool:
    """Whether the same lock was held by another meanwhile."""
    lock, taken, given_back = hold
    for other in others:
        if other.taken < given_back and taken < other.given_back and other.lock == lock:
            return True
    return False


def _wanted_later(
    groups: Sequence[Sequence[Option]],
) -> list[tuple[frozenset[Line | None], frozenset[float]]]:
    """For each group the lines that the groups after it want, and the gaps that they stand in."""
    later: list[tuple[frozenset[Line | None], frozenset[float]]] = []
    lines: frozenset[Line | None] = frozenset()
    gaps: frozenset[float] = frozenset()
    for options in reversed(groups):
        later.append((lines, gaps))
        wanted = {line for option in options for line in option.lines if line is not None}
        lines = lines.union(wanted)
        gaps = gaps.union(line.hi for line in wanted)
    later.reverse()
    return later


def disorder(entries: Iterable[Entry]) -> float:
    """The cost of lines standing in the log in another order than the one they were due in.

    No line is written before the lines above it: what was due before one of them came late, and
    so did what follows it in its own thread.
    """
    cost, newest = 0.0, -math.inf
    delayed: dict[int, float] = {}
    for _, earliest, latest, clock, _, member in sorted(entries):
        if newest > latest:
            more = delayed.get(member, 0.0)
            late = newest - latest
            if late > more:
                delayed[member] = late
                if newest > clock:  # else its own cost holds the delay already
                    cost += min(WITHOUT, print_cost(late))
                    cost -= min(WITHOUT, print_cost(max(clock - latest, more)))
        elif earliest > newest:
            newest = earliest
    return cost
