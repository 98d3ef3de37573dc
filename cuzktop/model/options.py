"""What could be a claimant's own lines, and what it means for those who come after it.

Lines are written in the order in which they stand in the log, each has one owner, and a lock has
one holder: so what one claimant gets narrows what is left to the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import attrgetter

from cuzktop.dataclass import NamedTuple
from cuzktop.model.kinds import C1
from cuzktop.model.lateness import Window, print_cost, start_cost
from cuzktop.model.state import Line

WITHOUT = 36.0  # the cost of a claimant that goes without any line: four of them lost

Lines = tuple[Line | None, ...]


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
    since: tuple[float, ...] = ()  # the cost holds that none was written before; (): by its clock
    tick_ms: float = 0.0  # the last ms of when C2 and C3 were due are for a thread that had to wait


NOTHING = Option(WITHOUT, (), ())
by_cost = attrgetter("cost")
"""The sorting key of options and of whatever else has a cost."""


class Entry(NamedTuple):
    """A line of a chosen option, as far as its place in the log matters."""

    place: int
    earliest: float  # when it was due
    latest: float
    clock: float  # it was not written before: what it cost that it came so late is told
    gap: float  # the clock below it: lines above one clock and below another stand together
    member: int
    tick_ms: float = 0.0  # it was due so much later if its thread had to wait for a tick


class Plan:
    """An option, and what can be said of it whatever else is chosen."""

    __slots__ = ("disorder", "entries", "gaps", "option")

    def __init__(self, option: Option, member: int, *, ticks: bool = True) -> None:
        """`member` tells the lines of one claimant from those of others.

        With `ticks` it costs something that a thread had to wait for a tick.
        """
        self.option = option
        since = option.since or tuple(0.0 if line is None else line.lo for line in option.lines)
        tick_ms = option.tick_ms if ticks else 0.0
        entries: list[Entry] = []
        for line, due, counted in zip(option.lines, option.due, since, strict=True):
            if line is not None and due is not None:
                more = 0.0 if line.kind == C1 else tick_ms
                lo, hi = due[0], due[1] - more
                entries.append(Entry(line.seq, lo, hi, counted, line.hi, member, more))
        self.entries = tuple(entries)
        self.gaps = {entry.gap for entry in self.entries}
        self.disorder = disorder(self.entries)


class Stage:
    """A claimant's options by cost, and what the claimants after it want."""

    __slots__ = ("_following", "_forced", "_locks", "_spans", "least", "plans", "wanted")

    def __init__(self, plans: Sequence[Plan], after: Stage | None = None) -> None:
        """`after` is the next claimant's stage."""
        self.plans = plans
        self.least = 0.0  # what the claimants after it cost if each gets what is best for it
        self.wanted: frozenset[Line | None] = frozenset()  # the lines in their options
        self._following: tuple[Sequence[Plan], ...] = ()
        self._forced: dict[frozenset[Line | None], float] = {}
        # By gap: the first and last place of their lines, the highest `earliest`, lowest `latest`.
        self._spans: dict[float, tuple[int, int, float, float]] = {}
        self._locks: dict[int, tuple[int, int]] = {}  # by lock: from where to where they want it
        if after is not None:
            self.least = after.least + after.plans[0].option.cost
            self.wanted, self._spans, self._locks = after._with_its_own()  # noqa: SLF001 (its kind)
            self._following = (after.plans, *after._following)  # noqa: SLF001

    def _with_its_own(
        self,
    ) -> tuple[
        frozenset[Line | None],
        dict[float, tuple[int, int, float, float]],
        dict[int, tuple[int, int]],
    ]:
        """What this claimant and those after it want."""
        lines: set[Line | None] = set()
        spans, locks = dict(self._spans), dict(self._locks)
        for plan in self.plans:
            lines.update(plan.option.lines)
            for place, earliest, latest, _, gap, *_ in plan.entries:
                first, last, highest, lowest = spans.get(gap, (place, place, earliest, latest))
                spans[gap] = (
                    min(first, place),
                    max(last, place),
                    max(highest, earliest),
                    min(lowest, latest),
                )
            hold = plan.option.hold
            if hold is not None:
                taken, given_back = locks.get(hold.lock, (hold.taken, hold.given_back))
                locks[hold.lock] = (min(taken, hold.taken), max(given_back, hold.given_back))
        lines.discard(None)
        return self.wanted.union(lines), spans, locks

    def matters(self, entry: Entry) -> bool:
        """Whether a line of those after it can stand in wrong order with this one."""
        span = self._spans.get(entry.gap)
        if span is None:
            return False
        first, last, highest, lowest = span
        return (entry.place < last and entry.earliest > lowest) or (
            first < entry.place and highest > entry.latest
        )

    def may_overlap(self, hold: Hold) -> bool:
        """Whether those after it can want the lock meanwhile."""
        taken, given_back = self._locks.get(hold.lock, (hold.given_back, hold.taken))
        return taken < hold.given_back and hold.taken < given_back

    def forced(self, used: frozenset[Line | None]) -> float:
        """What those after it cost more, at least, when these of their lines are taken."""
        more = self._forced.get(used)
        if more is None:
            more = 0.0
            for plans in self._following:
                if used.isdisjoint(plans[0].option.lines):
                    continue
                for plan in plans:
                    if used.isdisjoint(plan.option.lines):
                        more += plan.option.cost - plans[0].option.cost
                        break
                else:
                    more = math.inf
                    break
            self._forced[used] = more
        return more


def overlaps(hold: Hold, others: Iterable[Hold]) -> bool:
    """Whether the same lock was held by another meanwhile."""
    lock, taken, given_back = hold
    for its_lock, its_taken, its_given_back in others:
        if its_taken < given_back and taken < its_given_back and its_lock == lock:
            return True
    return False


def disorder(entries: Iterable[Entry]) -> float:
    """The cost of lines standing in the log in another order than the one they were due in.

    No line is written before the lines above it: what was due before one of them came late, and
    so did what follows it in its own thread.
    """
    cost, newest = 0.0, -math.inf
    delayed: dict[int, float] = {}
    for _, earliest, latest, clock, _, member, tick_ms in sorted(entries):
        if newest > latest:
            more = delayed.get(member, 0.0)
            late = newest - latest
            if late > more:
                delayed[member] = late
                if newest > clock:  # else its own cost holds the delay already
                    cost += min(WITHOUT, _late_cost(late, tick_ms))
                    cost -= min(WITHOUT, _late_cost(max(clock - latest, more), tick_ms))
        elif earliest > newest:
            newest = earliest
    return cost


def _late_cost(late_ms: float, tick_ms: float) -> float:
    if late_ms <= tick_ms:
        return start_cost(late_ms)
    return max(start_cost(tick_ms), print_cost(late_ms - tick_ms))
