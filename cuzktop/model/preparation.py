"""The CPU's lines of a call: split vectors (C1), prep_msm (C2), b_g2_msm (C3).

C1 counts from the call's entry. The thread that C1 starts measures prep_msm from its beginning, and
b_g2_msm from the end of that; so each line leads back to the one before. What the GPU thread shows
narrows the choice: where it had to wait for prep_msm, the barrier opened when C2 had been written.
And the call ends soon after the later of C3 and the return of its start call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from cuzktop.dataclass import NamedTuple
from cuzktop.model.blocks import ALWAYS, Block
from cuzktop.model.chains import LIMIT, MISSING
from cuzktop.model.joint import HORIZON, LISTED
from cuzktop.model.kinds import C1, C2, C3
from cuzktop.model.lateness import (
    EARLY_MAX_MS,
    GRACE_MS,
    LATE_MAX_MS,
    TICK_MS,
    Window,
    early_cost,
    gap_cost,
    misfit,
    print_cost,
    start_cost,
)
from cuzktop.model.options import Option, by_cost
from cuzktop.model.state import Call, Line
from cuzktop.model.tape import Bounds, Pools

KEEP_OPTIONS = 24
TOLD_MS = 1.0  # times are known to about a millisecond
KEEP_ALIKE = 2  # of them with the same C2 and C3
APART = 0.2  # of options alike, those are kept that pair early lines, and late ones
KEEP_SETUPS = 3
KEEP_PREPS = 8
WAITED_MS = 2  # a barrier of so many ms was a wait; less is its overhead
FINISH_MS = 9.0  # the call's end follows its last work by at most so much, as a rule
FINISH_MAX_MS = 500.0  # longer than that costs no more
USUAL_LIMIT = LISTED  # one line of a call that has others to choose from costs at most so much
USUAL_LATE_MS = 150.0  # and is at most so late: `start_cost` is the cheaper one
UNFINISHED = 2.0  # a failed call's C2 or C3 may never come, an open one's not yet


class Barrier(NamedTuple):
    """The GPU thread's wait for prep_msm."""

    opened: Window
    waited: bool  # it had to wait: prep_msm was done at that very time
    before: int  # prep_msm stands above this place of the log
    soon: float = math.inf  # it opens by then, as a rule


def barrier_of_chain(call: Call, chain: Sequence[Line | None]) -> Barrier | None:
    """S41 and newer: the wait for prep_msm as the lines of a chain tell it; C7 states it."""
    take, ntt, barrier, batch, end, _ = chain
    last = 1 << 62
    before = last if batch is None else batch.seq
    if barrier is not None and barrier.seq < before:
        before = barrier.seq
    if take is None or ntt is None or barrier is None:
        return Barrier(ALWAYS, waited=False, before=before) if before < last else None
    since = take.a + take.b + ntt.a + barrier.a
    lo, hi = call.entry_lo + since, call.entry_hi + since + 5
    if end is not None and batch is not None:
        by_end = end.a + batch.a
        lo = max(lo, end.lo - by_end - 6)
        hi = max(lo, min(hi, end.hi - by_end + 1))
    return Barrier((lo, hi), barrier.a >= WAITED_MS, before)


def barrier_of_block(block: Block) -> Barrier | None:
    """S19–S40: the wait for prep_msm is what the block's figures leave over."""
    batch = block.lines[1]
    if batch is None or block.opened is None:
        return None
    soon = math.inf if block.soon is None or not block.waited else block.soon
    return Barrier(block.opened, block.waited, batch.seq, soon)


class Finish(NamedTuple):
    """The end of all work of a call, and what it followed: C3 or the start call's return."""

    at: float
    usual_ms: float  # it follows the last of them by at most so much, as a rule
    returned: float


def finish_cost(finish: Finish, written: float) -> float:
    """The cost of C3 having been written at `written` at the latest."""
    idle = finish.at - max(written, finish.returned) - finish.usual_ms
    return start_cost(min(idle, FINISH_MAX_MS))


def misfit_within(
    earliest: float, latest: float, bounds: Bounds, cost: Callable[[float], float]
) -> float:
    """The cost of a line due in a window, where `cost` is that of being late."""
    lo, hi = bounds.lo, bounds.hi
    if lo <= earliest <= latest <= hi:
        return 0.0
    # The less of the window lies between the line's clocks, the less likely it stands there.
    shared = min(latest, hi) - max(earliest, lo)
    chance = math.log((latest - earliest + TOLD_MS) / (max(0.0, shared) + TOLD_MS))
    late = lo - latest
    if late > 0.0:
        return max(cost(late), chance)
    early = 0.0
    if earliest > bounds.clock_hi:
        early = early_cost(earliest - bounds.clock_hi)
    if earliest > bounds.hi:  # then the neighbour came late
        early = max(early, print_cost(earliest - bounds.hi))
    return max(early, chance)


def preparations(
    call: Call,
    pools: Pools,
    bounds_of: Callable[[Line], Bounds],
    *,
    setup_limit: tuple[int, int | None],
    barrier: Barrier | None,
    finish: Finish | None,
    last: int,
    unfinished: bool = False,
    full: bool = False,
) -> list[Option]:
    """The sets (C1, C2, C3) that could be the call's, by cost.

    `setup_limit` is where C1 stands at the latest, and what pre_lock_cpu leaves for it (None: not
    known); `last` is the end of the call's lines in the log; C2 and C3 of an `unfinished` one may
    still come, or never; with `full` none is left out for being much dearer than the best.
    """
    first = call.start_seq
    until = last if barrier is None else min(last, barrier.before)
    preps = pools[C2].between(first, until)
    b_g2s = pools[C3].between(first, last)
    memory: dict[Line, Bounds] = {}

    def bounds(line: Line) -> Bounds:
        known = memory.get(line)
        if known is None:
            known = memory[line] = bounds_of(line)
        return known

    options: list[Option] = []
    keep_preps = 4 * KEEP_PREPS if full else KEEP_PREPS
    # Mostly there is nothing to be found beyond the first limit.
    for limit in (LIMIT,) if full else (USUAL_LIMIT, LIMIT):
        for setup_cost, setup, begun in _setups(call, pools, bounds_of, setup_limit, limit):
            due1 = None
            if setup is not None:
                due1 = (call.entry_lo + setup.b, call.entry_hi + setup.b + 1)
            after = first if setup is None else setup.seq
            prepared_by = _prepared(preps, after, begun, barrier, bounds, limit)
            for prepared in prepared_by[:keep_preps]:
                head = (setup_cost + prepared.cost, setup, due1)
                found = _complete(head, prepared, b_g2s, finish, bounds, limit, options)
                if not found or unfinished:
                    more = UNFINISHED if unfinished else MISSING
                    lines, due = (setup, prepared.line, None), (due1, prepared.due, None)
                    since = (setup.lo if setup is not None else 0.0, prepared.since, 0.0)
                    options.append(Option(head[0] + more, lines, due, since=since))
            if unfinished:
                more = setup_cost + 2 * UNFINISHED
                options.append(Option(more, (setup, None, None), (due1, None, None)))
        if options:
            options.sort(key=by_cost)
            if options[0].cost < LISTED - HORIZON:
                break
        if limit < LIMIT:
            options = []
    keep = 2 * KEEP_OPTIONS if full else KEEP_OPTIONS
    return options if len(options) <= keep else _varied(options, keep)


def _varied(options: Sequence[Option], keep: int) -> list[Option]:
    """So many of the options, the cheapest, and of those that cost much the same a variety.

    Others want lines, too, and where any C2 fits any C3, the first ones wouldn't be enough for all.
    Of options that differ in C1 alone few are kept: of it no figure is shown.
    """
    alike: dict[tuple[Line | None, Line | None], int] = {}
    seen: dict[Line | None, int] = {}
    ranked: list[tuple[float, int]] = []
    for number, option in enumerate(options):
        _, prep, b_g2 = option.lines
        count = alike.get((prep, b_g2), 0)
        alike[prep, b_g2] = count + 1
        if count < KEEP_ALIKE:
            apart = abs(seen.get(prep, 0) - seen.get(b_g2, 0))  # 0: the n-th of both
            ranked.append((option.cost + APART * apart, number))
            seen[prep] = seen.get(prep, 0) + 1
            seen[b_g2] = seen.get(b_g2, 0) + 1
    ranked.sort()
    return [options[number] for number in sorted(number for _, number in ranked[:keep])]


class Prepared(NamedTuple):
    """A line C2 that could be the call's."""

    line: Line
    cost: float
    usual: Window  # when it was written if its thread began as usual
    due: Window  # and if the thread waited for a tick
    since: float  # it was not written before
    room: float  # it was written by then, whenever its thread began


def _complete(
    head: tuple[float, Line | None, Window | None],
    prepared: Prepared,
    b_g2s: Sequence[Line],
    finish: Finish | None,
    bounds_of: Callable[[Line], Bounds],
    limit: float,
    options: list[Option],
) -> bool:
    """Add the options of C1 and C2 with each line C3 that follows from them."""
    cost, setup, due1 = head
    prep = prepared.line
    lo, hi = prepared.usual
    room = prepared.room
    found = False
    place, earliest, latest = prep.seq, lo - EARLY_MAX_MS, hi + _latest(limit)
    for line in b_g2s:
        figure = line.a
        if line.seq < place or line.hi < earliest + figure or line.lo > latest + figure:
            continue
        bounds = bounds_of(line)
        due = (lo + figure, hi + figure + 1)
        late = bounds.lo - due[1]
        ways: list[tuple[float, Window, Window, float]] = []
        if GRACE_MS < late <= room - hi:  # C2 came as late: their thread began late
            begun = (lo + late, min(room, max(hi, bounds.clock_hi - figure)))
            then = (begun[0] + figure, begun[1] + figure + 1)
            ways.append((start_cost(late), begun, then, 0.0))
        if late <= GRACE_MS or late > room - hi or late > TICK_MS:
            tick_ms = prepared.due[1] - hi
            cost3 = misfit_within(*due, bounds, print_cost)
            ways.append((cost3, prepared.due, (due[0], due[1] + tick_ms), tick_ms))
        for cost3, due2, due3, tick_ms in ways:
            if cost3 > limit:
                continue
            total = cost + cost3
            if finish is not None:
                written = min(bounds.hi, max(due3[1] + 1, line.lo))
                total += finish_cost(finish, written)
            found = True
            since = (setup.lo if setup is not None else 0.0, prepared.since, bounds.lo)
            lines, windows = (setup, prep, line), (due1, due2, due3)
            options.append(Option(total, lines, windows, since=since, tick_ms=tick_ms))
    return found


def _latest(limit: float) -> float:
    """How late a line is at most whose cost is within the limit."""
    return USUAL_LATE_MS if limit <= USUAL_LIMIT else LATE_MAX_MS


def _prepared(
    preps: Sequence[Line],
    after: int,
    begun: Window,
    barrier: Barrier | None,
    bounds_of: Callable[[Line], Bounds],
    limit: float,
) -> list[Prepared]:
    """The lines C2 that a thread begun in `begun` could have written; by cost if they are many."""
    begun_lo, begun_hi = begun
    most = _latest(limit)
    fits: list[Prepared] = []
    for prep in preps:
        due_lo, due_hi = begun_lo + prep.a, begun_hi + prep.a + 1
        if prep.seq < after or prep.hi < due_lo - EARLY_MAX_MS or prep.lo > due_hi + most:
            continue
        bounds = bounds_of(prep)
        cost = misfit_within(due_lo, due_hi, bounds, start_cost)
        if cost > limit:
            continue
        lo, room = max(due_lo, bounds.lo), bounds.hi
        late = lo > due_hi + GRACE_MS  # then nothing says how late
        hi = max(lo + 0.5, room if late else min(due_hi, room))
        ticked = max(hi, min(due_hi + TICK_MS, room))
        if barrier is not None:
            cost += _barrier_cost(barrier, lo, ticked)
            if cost > limit:
                continue
            if barrier.waited:
                lo = max(lo, min(barrier.opened[0] - 1, room))
                hi = ticked
            hi = max(lo + 0.5, min(hi, barrier.opened[1] + GRACE_MS))
            ticked = max(hi, min(ticked, barrier.opened[1] + GRACE_MS))
        fits.append(Prepared(prep, cost, (lo, hi), (lo, ticked), bounds.lo, room))
    if len(fits) > KEEP_PREPS:
        fits.sort(key=by_cost)
    return fits


def _first_of(setup: tuple[float, Line | None, Window]) -> float:
    return setup[0]


def _setups(
    call: Call,
    pools: Pools,
    bounds_of: Callable[[Line], Bounds],
    setup_limit: tuple[int, int | None],
    limit: float,
) -> list[tuple[float, Line | None, Window]]:
    """The lines C1 that could be the call's: cost, line, and when it started the CPU thread."""
    before, pre_lock = setup_limit
    lo, hi = call.entry_lo, call.entry_hi
    setups: list[tuple[float, Line | None, Window]] = []
    for line in pools[C1].between(call.start_seq, before + 1):
        cost = misfit(lo + line.b, hi + line.b + 1, line)
        if pre_lock is not None:
            if line.b > pre_lock + 1:
                continue
            cost += gap_cost(pre_lock - line.b, 2.0, 1.0)
        if cost > limit:
            continue
        written = bounds_of(line)
        begun_lo = max(lo + line.b, written.lo)
        begun_hi = max(hi + line.b + 1, begun_lo + 1)
        if begun_lo > hi + line.b + 1 + GRACE_MS:  # it came late, and the thread after it
            begun_hi = max(begun_lo + 1, written.hi)
        setups.append((cost, line, (begun_lo, begun_hi)))
    if not setups:
        spare = 30.0 if pre_lock is None else pre_lock + 1.0
        return [(MISSING, None, (lo, hi + spare))]
    setups.sort(key=_first_of)
    return _distinct(setups)[:KEEP_SETUPS]


def _distinct(
    setups: Sequence[tuple[float, Line | None, Window]],
) -> list[tuple[float, Line | None, Window]]:
    """One line C1 for all that are alike.

    Several calls that start at once print them together. They tell the same of each call, so it
    doesn't matter whose is which, and a copy stands for them: no other call lacks it.
    """
    kinds: dict[tuple[float, int], tuple[float, Line | None, Window]] = {}
    for cost, line, begun in setups:
        if line is None:
            return list(setups)
        near = (kinds.get((line.hi, figure)) for figure in (line.b, line.b - 1, line.b + 1))
        kept = next((one for one in near if one is not None), None)
        if kept is None:
            kinds[line.hi, line.b] = (cost, line, begun)
        elif kept[1] is not None:
            kinds[kept[1].hi, kept[1].b] = (kept[0], kept[1].copy(), kept[2])
    return list(kinds.values())


def _barrier_cost(barrier: Barrier, lo: float, hi: float) -> float:
    """The cost of prep_msm having been written in [lo, hi]."""
    opened_lo, opened_hi = barrier.opened
    if lo > opened_hi:
        return 2.0 + 2.0 * early_cost(lo - opened_hi)
    if barrier.waited and hi < opened_lo:
        return start_cost(opened_lo - hi)
    return start_cost(lo - barrier.soon) if lo > barrier.soon else 0.0
