"""S41 and newer: the lines of one call from taking the lock to giving it back.

Taking the lock (C4) and giving it back (C10) are printed with times that count from the call's
entry, so both lead back to the same instant; `pre_lock + wait + held = total_start_fn` ties them to
each other without any clock. What the GPU thread prints between them (C6–C9) counts from its start,
which follows the acquisition at once or after a scheduler's tick; then `held − gpu_total` shows it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuzktop.dataclass import NamedTuple
from cuzktop.model.joint import HORIZON, LISTED
from cuzktop.model.kinds import C4, C6, C7, C8, C9, C10
from cuzktop.model.lateness import (
    EARLY_MAX_MS,
    LATE_MAX_MS,
    TICK_MS,
    Window,
    gap_cost,
    misfit,
)
from cuzktop.model.options import Hold, Option, by_cost
from cuzktop.model.state import Call, Line
from cuzktop.model.tape import Pools

MISSING = 12.0  # the cost of a line that should be there and isn't: it was lost
LIMIT = 13.0  # a line costs at most so much, or it is another call's
USUAL_LIMIT = LISTED  # one line of a call that has others to choose from costs at most so much
HELD_MORE_MS = 450  # mutex_held exceeds gpu_total by so much as a rule; 400 was the worst seen
HELD_MS = (-1, HELD_MORE_MS)
HELD_LONG_MS = (HELD_MORE_MS + 1, 3_600_000)  # if nothing else fits: its thread may get no CPU
GAVE_UP = 2.0  # the cost of each line that a failed call did not come to print
PARTIAL_FIT = 4.0  # a line that costs more isn't taken on its own evidence
KEEP_OPTIONS = 80
MOST_OPTIONS = 2000  # more are never weighed; then nothing is sure
KEEP_ALIKE = 8  # of them that end with the same lines
KEEP_TWINS = 2  # of these that differ in C7 alone

SLACK_COST = (1.5, 0.0, 0.0, 1.5, 3.0, 4.0, 5.0, 6.0)
"""What gpu_total may exceed the sum of its parts by, in ms → cost; 1 and 2 are usual."""

SLACK_MAX_MS = 10

IDENTITY_COST = (0.0, 0.0, 0.0, 4.0)
"""What total_start_fn may exceed pre_lock + wait + held by, in ms → cost."""


def printed_chains(call: Call, pools: Pools, *, full: bool = False) -> list[Option]:
    """The sets (C4, C6, C7, C8, C9, C10) that could be the call's, by cost.

    With `full` none is left out for being much dearer than the best.
    """
    options: list[Option] = []
    if not full and not call.failed:  # mostly there is nothing to be found beyond the first limit
        _add_chains(call, pools, USUAL_LIMIT, options)
    if not options or min(option.cost for option in options) >= LISTED - HORIZON:
        options = []
        _add_chains(call, pools, LIMIT, options)
        if len(options) >= MOST_OPTIONS:
            call.chain_margin = 0.0
        if not options or min(option.cost for option in options) > MISSING:
            _partial_chains(call, pools, options)
    options.sort(key=by_cost)
    if len(options) > KEEP_ALIKE:
        options = _varied(options)
    return options[:KEEP_OPTIONS]


def _add_chains(call: Call, pools: Pools, limit: float, options: list[Option]) -> None:
    """Add the sets with both lines of the lock; `limit` is what a line costs at most, as a rule."""
    for lock in _locks(call, pools, limit):
        if len(options) >= MOST_OPTIONS:
            break
        _kernels(call, pools, lock, options, limit)


class _Lock(NamedTuple):
    """A lock taken and given back: one of the lines may be missing."""

    take: Line | None
    release: Line | None
    acquired: Window
    cost: float  # of both
    first: int  # between these places of the log the kernels' lines stand
    last: int


def _locks(call: Call, pools: Pools, limit: float) -> list[_Lock]:
    """The C4 and C10 that fit each other and the call's times, of at most `limit` each."""
    lo, hi = call.entry_lo, call.entry_hi
    first, last = call.start_seq, _last_place(call)
    longest = math.inf if call.prove_start is None else call.prove_start + 1
    locks: list[_Lock] = []
    takes = pools[C4].between(first, last)
    for release in pools[C10].between(first, last):
        total = release.b
        if total > longest:
            continue
        cost = misfit(lo + total, hi + total + 1, release)
        if cost > limit:
            continue
        if call.prove_start is not None:
            cost += gap_cost(call.prove_start - total, 3.0, 0.5)
        for take in takes:
            if take.seq > release.seq:
                break
            before = take.a + take.b
            rest = total - before - release.a
            if not 0 <= rest < len(IDENTITY_COST):
                continue
            acquired = (lo + before, hi + before + 2)
            take_cost = misfit(*acquired, take)
            if take_cost <= limit:
                both = cost + take_cost + IDENTITY_COST[rest]
                locks.append(_Lock(take, release, acquired, both, take.seq, release.seq))
    return locks


def _last_place(call: Call) -> int:
    """The place of the log above which all lines of the call's lock stand."""
    return call.end_seq if call.prove_start is None else call.returned_seq


def _varied(options: Sequence[Option]) -> list[Option]:
    """The options without most of those that end alike: twins must not crowd out the others.

    Where no kernel waited, many lines C7 are the same: of options that differ in it alone few are
    kept, and they don't count.
    """
    ends: dict[tuple[Line | None, Line | None], int] = {}
    alike: dict[tuple[Line | None, ...], int] = {}
    kept: list[Option] = []
    for option in options:
        _, ntt, _, batch, end, release = option.lines
        key = (ntt, batch, end, release)
        before = alike.get(key, 0)
        if before == 0:
            ends[end, release] = ends.get((end, release), 0) + 1
        if ends[end, release] <= KEEP_ALIKE and before < KEEP_TWINS:
            kept.append(option)
            alike[key] = before + 1
    return kept


def _kernels(
    call: Call, pools: Pools, lock: _Lock, options: list[Option], limit: float = LIMIT
) -> None:
    """Add what completes a lock: the kernels' lines while it was held.

    If there are such of which none costs more than `limit`, they are all that is added.
    """
    hold = None
    if lock.take is not None and lock.release is not None:
        hold = Hold(call.lock, lock.first, lock.last)
    found = _whole(pools, lock, hold, HELD_MS, limit)
    if not found and limit < LIMIT:
        found = _whole(pools, lock, hold, HELD_MS, LIMIT)
    if _poor(found, lock) and lock.release is not None and not call.failed:
        found += _whole(pools, lock, hold, HELD_LONG_MS, LIMIT)
    options += found
    if call.failed:
        _failed_kernels(pools, lock, options)
    elif _poor(found, lock):
        _partial_kernels(pools, lock, options)


def _poor(found: Sequence[Option], lock: _Lock) -> bool:
    """Whether none of these is better than that a line was lost."""
    return not found or min(option.cost for option in found) - lock.cost > MISSING


def _whole(
    pools: Pools, lock: _Lock, hold: Hold | None, held_ms: tuple[int, int], limit: float
) -> list[Option]:
    """The sets of all kernels' lines; `held_ms`: how much longer the lock was held than they took.

    No line of them costs more than `limit`.
    """
    take, release, acquired, before, first, last = lock
    least, most = held_ms
    found: list[Option] = []
    for end in pools[C9].between(first, last):
        total = end.b
        lo, hi = acquired
        cost = before
        if release is None:
            hi += 5.0
        else:
            outside = release.a - total
            if not least <= outside <= most:
                continue
            hi += max(0, outside)  # as late as the thread may have begun
            cost += gap_cost(outside, 7.0, 1.0)
        cost += misfit(lo + total, hi + total + 1, end)
        if cost > before + limit:
            continue
        # When the GPU thread began, by this line's own clocks too.
        lo = min(hi, max(lo, end.lo - total - 2))
        hi = max(lo, min(hi, end.hi - total + 1))
        released = None if release is None else (lo + total, hi + total + 6)
        for fit, kernels, due in _inside(pools, first, end, (lo, hi), limit):
            lines = (take, *kernels, end, release)
            found.append(Option(cost + fit, lines, (acquired, *due, released), hold))
    return found


_Kernels = tuple[float, tuple[Line, Line, Line], tuple[Window, Window, Window, Window]]
"""The cost of a C6, a C7 and a C8, these lines, and when they and their C9 were due."""


def _inside(pools: Pools, first: int, end: Line, begun: Window, limit: float) -> list[_Kernels]:
    """The C6, C7 and C8 from `first` on that fit the C9 of a GPU thread that began in `begun`."""
    lo, hi = begun
    total, tail = end.b, end.a
    added = (lo + total - tail - 6, hi + total - tail + 1)
    ntts = _due_after(begun, pools[C6].between(first, end.seq), limit)
    if not ntts:
        return []
    barriers = pools[C7].between(first, end.seq)
    fits: list[_Kernels] = []
    for batch in pools[C8].between(first, end.seq):
        if len(fits) >= MOST_OPTIONS:
            break
        batch_cost = misfit(*added, batch)
        if batch_cost > limit:
            continue
        opened = (added[0] - batch.a - 1, added[1] - batch.a)
        rest = total - tail - batch.a
        for barrier in barriers:
            if barrier.seq >= batch.seq:
                break
            for ntt_cost, ntt, done in ntts:
                slack = rest - barrier.a - ntt.a
                if not 0 <= slack <= SLACK_MAX_MS or ntt.seq >= barrier.seq:
                    continue
                fit = batch_cost + misfit(*opened, barrier) + ntt_cost
                if fit > limit:
                    continue
                fit += SLACK_COST[slack] if slack < len(SLACK_COST) else 7.0
                due = (
                    done,
                    (done[0] + barrier.a, done[1] + barrier.a + slack + 1),
                    (done[0] + barrier.a + batch.a, hi + total - tail + 1),
                    (lo + total, hi + total + 1),
                )
                fits.append((fit, (ntt, barrier, batch), due))
    return fits


def _due_after(
    begun: Window, lines: Sequence[Line], limit: float
) -> list[tuple[float, Line, Window]]:
    """The lines of what took `a` ms from `begun` on, at most at `limit`: cost, line, when due."""
    lo, hi = begun
    found: list[tuple[float, Line, Window]] = []
    for line in lines:
        figure = line.a
        if line.hi >= lo + figure - EARLY_MAX_MS and line.lo <= hi + figure + 1 + LATE_MAX_MS:
            due = (lo + figure, hi + figure + 1)
            cost = misfit(*due, line)
            if cost <= limit:
                found.append((cost, line, due))
    return found


def _failed_kernels(pools: Pools, lock: _Lock, options: list[Option]) -> None:
    """What a failed call may have printed: the lines up to where its GPU thread gave up."""
    take, release, acquired, cost, first, last = lock
    cost += 4 * GAVE_UP
    options.append(Option(cost, (take, None, None, None, None, release), (None,) * 6))
    lo, hi = acquired[0], acquired[1] + TICK_MS
    begun: list[Line | None] = []
    for kind in (C6, C7, C8):
        fits = [
            line
            for line in pools[kind].between(first, last)
            if misfit(lo + line.a, hi + line.a + 1, line) <= LIMIT / 2
        ]
        if len(fits) != 1:
            return
        line = fits[0]
        cost += misfit(lo + line.a, hi + line.a + 1, line)
        begun.append(line)
        first, lo, hi = line.seq, lo + line.a, hi + line.a + 2
        lines = (take, *begun, *(None,) * (4 - len(begun)), release)
        options.append(Option(cost - GAVE_UP * len(begun), lines, (None,) * 6))


def _partial_kernels(pools: Pools, lock: _Lock, options: list[Option]) -> None:
    """What is left of the kernels' lines when some are missing, by their times alone."""
    take, release, (lo, hi), cost, first, last = lock

    def nearest(kind: int, earliest: float, latest: float, own: int) -> Line | None:
        fits = [
            line
            for line in pools[kind].between(first, last)
            if misfit(
                earliest + (line.b if own else line.a), latest + (line.b if own else line.a), line
            )
            <= PARTIAL_FIT
        ]
        return fits[0] if len(fits) == 1 else None

    ntt = nearest(C6, lo, hi + 6, 0)
    end = nearest(C9, lo, hi + 6, 1)
    if end is not None and release is not None and not -1 <= release.a - end.b <= HELD_MORE_MS:
        end = None
    barrier = None if ntt is None else nearest(C7, lo + ntt.a, hi + ntt.a + 6, 0)
    batch = None
    if end is not None:
        due = (lo + end.b - end.a - 7, hi + end.b - end.a + 6)
        fits = [
            line for line in pools[C8].between(first, end.seq) if misfit(*due, line) <= PARTIAL_FIT
        ]
        batch = fits[0] if len(fits) == 1 else None
    elif barrier is not None and ntt is not None:
        since = ntt.a + barrier.a
        batch = nearest(C8, lo + since, hi + since + 6, 0)
    if end is not None and batch is not None and ntt is not None:
        known = end.a + batch.a + ntt.a + (0 if barrier is None else barrier.a)
        if end.b < known or (barrier is not None and end.b > known + SLACK_MAX_MS):
            return
    missing = sum(line is None for line in (ntt, barrier, batch, end))
    lines = (take, ntt, barrier, batch, end, release)
    options.append(Option(cost + MISSING * missing, lines, (None,) * len(lines)))


def _partial_chains(call: Call, pools: Pools, options: list[Option]) -> None:
    """A call whose acquisition or release is missing from the log."""
    lo, hi = call.entry_lo, call.entry_hi
    first, last = call.start_seq, _last_place(call)
    for take in pools[C4].between(first, last):
        before = take.a + take.b
        acquired = (lo + before, hi + before + 2)
        cost = misfit(*acquired, take)
        if cost <= PARTIAL_FIT:
            lock = _Lock(take, None, acquired, cost + MISSING, take.seq, call.end_seq)
            _kernels(call, pools, lock, options)
    for release in pools[C10].between(first, last):
        total = release.b
        if call.prove_start is not None and total > call.prove_start + 1:
            continue
        cost = misfit(lo + total, hi + total + 1, release)
        if cost <= PARTIAL_FIT:
            acquired = (lo + total - release.a - 2, hi + total - release.a + 1)
            lock = _Lock(None, release, acquired, cost + MISSING, first, release.seq)
            _kernels(call, pools, lock, options)
