"""S41 and newer: the lines of one call from taking the lock to giving it back.

Taking the lock (C4) and giving it back (C10) are printed with times that count from the call's
entry, so both lead back to the same instant; `pre_lock + wait + held = total_start_fn` ties them to
each other without any clock. What the GPU thread prints between them (C6–C9) counts from its start,
which follows the acquisition at once or after a scheduler's tick; then `held − gpu_total` shows it.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuzktop.model.kinds import C4, C6, C7, C8, C9, C10
from cuzktop.model.lateness import FORBIDDEN, TICK_MS, Window, gap_cost, misfit
from cuzktop.model.options import Hold, Option, by_cost
from cuzktop.model.state import Call, Line
from cuzktop.model.tape import Pools

MISSING = 12.0  # the cost of a line that should be there and isn't: it was lost
LIMIT = 13.0  # a line costs at most so much, or it is another call's
HELD_MORE_MS = 450  # mutex_held exceeds gpu_total by so much as a rule; 400 was the worst seen
LONGEST_MS = 3_600_000  # by more only if nothing else fits: its thread may have got no CPU
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


def printed_chains(call: Call, pools: Pools) -> list[Option]:
    """The sets (C4, C6, C7, C8, C9, C10) that could be the call's."""
    lo, hi = call.entry_lo, call.entry_hi
    first, last = call.start_seq, call.end_seq
    prove_start = call.prove_start
    if prove_start is not None:
        last = call.returned_seq
    options: list[Option] = []
    takes = pools[C4].between(first, last)
    for release in pools[C10].between(first, last):
        total = release.b
        if prove_start is not None and total > prove_start + 1:
            continue
        cost = misfit(lo + total, hi + total + 1, release)
        if cost > LIMIT:
            continue
        if prove_start is not None:
            cost += gap_cost(prove_start - total, 3.0, 0.5)
        for take in takes:
            if take.seq > release.seq:
                break
            before = take.a + take.b
            rest = total - before - release.a
            if not 0 <= rest < len(IDENTITY_COST):
                continue
            take_cost = misfit(lo + before, hi + before + 2, take)
            if take_cost > LIMIT:
                continue
            acquired = (lo + before, hi + before + 2)
            locked = cost + take_cost + IDENTITY_COST[rest]
            if len(options) < MOST_OPTIONS:
                _kernels(call, pools, (take, release), acquired, locked, options)
    if len(options) >= MOST_OPTIONS:
        call.chain_margin = 0.0
    if not options or min(option.cost for option in options) > MISSING:
        _partial_chains(call, pools, takes, options)
    options.sort(key=by_cost)
    if len(options) > KEEP_ALIKE:
        options = _varied(options)
    return options[:KEEP_OPTIONS]


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
    call: Call,
    pools: Pools,
    lock: tuple[Line | None, Line | None],
    acquired: Window,
    cost: float,
    options: list[Option],
) -> None:
    """Complete a lock's acquisition and release by the kernels' lines between them."""
    take, release = lock
    first = call.start_seq if take is None else take.seq
    last = call.end_seq if release is None else release.seq
    hold = None
    if take is not None and release is not None:
        hold = Hold(call.lock, take.seq, release.seq)
    found = FORBIDDEN
    ends = pools[C9].between(first, last)
    for least, most in ((-1, HELD_MORE_MS), (HELD_MORE_MS + 1, LONGEST_MS)):
        for end in ends:
            total = end.b
            lo, hi = acquired
            end_cost = cost
            if release is None:
                hi += 5.0
            else:
                outside = release.a - total
                if not least <= outside <= most:
                    continue
                hi += max(0, outside)  # as late as the thread may have begun
                end_cost += gap_cost(outside, 7.0, 1.0)
            end_cost += misfit(lo + total, hi + total + 1, end)
            if end_cost > cost + LIMIT:
                continue
            # When the GPU thread began, by this line's own clocks too.
            lo = min(hi, max(lo, end.lo - total - 2))
            hi = max(lo, min(hi, end.hi - total + 1))
            released = None if release is None else (lo + end.b, hi + end.b + 6)
            for fit, kernels, due in _inside(pools, first, end, (lo, hi)):
                lines = (take, *kernels, end, release)
                options.append(Option(end_cost + fit, lines, (acquired, *due, released), hold))
                found = min(found, end_cost + fit - cost)
        if found <= MISSING or release is None or call.failed:
            break
    if call.failed:
        _failed_kernels(pools, lock, (first, last), acquired, cost, options)
    elif found > MISSING:
        _partial_kernels(pools, lock, (first, last), acquired, cost, options)


_Kernels = tuple[float, tuple[Line, Line, Line], tuple[Window, Window, Window, Window]]
"""The cost of a C6, a C7 and a C8, these lines, and when they and their C9 were due."""


def _inside(pools: Pools, first: int, end: Line, begun: Window) -> list[_Kernels]:
    """The C6, C7 and C8 from `first` on that fit the C9 of a GPU thread that began in `begun`."""
    ntts, barriers, batches = (pools[kind].between(first, end.seq) for kind in (C6, C7, C8))
    lo, hi = begun
    total, tail = end.b, end.a
    added = (lo + total - tail - 6, hi + total - tail + 1)
    fits: list[_Kernels] = []
    for batch in batches:
        if len(fits) >= MOST_OPTIONS:
            break
        batch_cost = misfit(*added, batch)
        if batch_cost > LIMIT:
            continue
        opened = (added[0] - batch.a - 1, added[1] - batch.a)
        for barrier in barriers:
            if barrier.seq >= batch.seq:
                break
            known = tail + batch.a + barrier.a
            if known > total + 1:
                continue
            barrier_cost = batch_cost + misfit(*opened, barrier)
            if barrier_cost > LIMIT:
                continue
            for ntt in ntts:
                if ntt.seq >= barrier.seq:
                    break
                slack = total - known - ntt.a
                if not 0 <= slack <= SLACK_MAX_MS:
                    continue
                done = (lo + ntt.a, hi + ntt.a + 1)
                fit = barrier_cost + misfit(*done, ntt)
                if fit > LIMIT:
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


def _failed_kernels(
    pools: Pools,
    lock: tuple[Line | None, Line | None],
    places: tuple[int, int],
    acquired: Window,
    cost: float,
    options: list[Option],
) -> None:
    """What a failed call may have printed: the lines up to where its GPU thread gave up."""
    take, release = lock
    first, last = places
    cost += 4 * GAVE_UP
    options.append(Option(cost, (take, None, None, None, None, release), (None,) * 6))
    lo, hi = acquired[0], acquired[1] + TICK_MS
    begun: list[Line | None] = []
    for kind in (C6, C7, C8):
        fits = [
            line
            for line in pools[kind]
            if first <= line.seq < last and misfit(lo + line.a, hi + line.a + 1, line) <= LIMIT / 2
        ]
        if len(fits) != 1:
            return
        line = fits[0]
        cost += misfit(lo + line.a, hi + line.a + 1, line)
        begun.append(line)
        first, lo, hi = line.seq, lo + line.a, hi + line.a + 2
        lines = (take, *begun, *(None,) * (4 - len(begun)), release)
        options.append(Option(cost - GAVE_UP * len(begun), lines, (None,) * 6))


def _partial_kernels(
    pools: Pools,
    lock: tuple[Line | None, Line | None],
    places: tuple[int, int],
    acquired: Window,
    cost: float,
    options: list[Option],
) -> None:
    """What is left of the kernels' lines when some are missing, by their times alone."""
    take, release = lock
    first, last = places
    lo, hi = acquired

    def nearest(kind: int, earliest: float, latest: float, own: int) -> Line | None:
        fits = [
            line
            for line in pools[kind]
            if first <= line.seq < last
            and misfit(
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
            line
            for line in pools[C8]
            if first <= line.seq < end.seq and misfit(*due, line) <= PARTIAL_FIT
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


def _partial_chains(call: Call, pools: Pools, takes: Sequence[Line], options: list[Option]) -> None:
    """A call whose acquisition or release is missing from the log."""
    lo, hi = call.entry_lo, call.entry_hi
    last = call.returned_seq if call.prove_start is not None else call.end_seq
    for take in takes:
        before = take.a + take.b
        cost = misfit(lo + before, hi + before + 2, take)
        if cost <= PARTIAL_FIT:
            acquired = (lo + before, hi + before + 2)
            _kernels(call, pools, (take, None), acquired, cost + MISSING, options)
    for release in pools[C10]:
        if not call.start_seq <= release.seq < last:
            continue
        total = release.b
        if call.prove_start is not None and total > call.prove_start + 1:
            continue
        cost = misfit(lo + total, hi + total + 1, release)
        if cost <= PARTIAL_FIT:
            acquired = (lo + total - release.a - 2, hi + total - release.a + 1)
            _kernels(call, pools, (None, release), acquired, cost + MISSING, options)
