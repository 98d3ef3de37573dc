"""The usual call of S41 and newer: one set of lines could be its own, so there is nothing to weigh.

Where one GPU writes the log, nine calls of ten are such. `chains` and `preparation` list everything
that could be a call's and sort it; here it is seen to first, in whole numbers, that there is no
second choice. What is found is what those would list as their only option, with the same costs and
times; where anything else might fit as well, or anything is missing, None sends the call to them.
Where several GPUs print between one call's lines, they find it at once that none of these fits.
"""

from __future__ import annotations

from cuzktop.model.chains import (
    HELD_MORE_MS,
    IDENTITY_COST,
    LIMIT,
    MISSING,
    SLACK_COST,
)
from cuzktop.model.joint import HORIZON, LISTED
from cuzktop.model.kinds import C1, C2, C3, C4, C6, C7, C8, C9, C10
from cuzktop.model.lateness import (
    EARLY_MAX_MS,
    GRACE_MS,
    TICK_MS,
    Window,
    gap_cost,
    misfit,
    print_cost,
    start_cost,
)
from cuzktop.model.options import Hold, Option
from cuzktop.model.preparation import (
    FINISH_MS,
    USUAL_LATE_MS,
    WAITED_MS,
    Finish,
    finish_cost,
    misfit_within,
)
from cuzktop.model.state import Call, Line
from cuzktop.model.tape import Tape

_make = tuple.__new__
_KERNELS = (C6, C7, C8, C9)


def only_chain(call: Call, tape: Tape) -> Option | None:
    """The only set (C4, C6, C7, C8, C9, C10) that can be the call's, if that is plain."""
    lock = _only_lock(call, tape)
    if lock is None:
        return None
    take, release = lock
    kernels = _only_kernels(tape.between(take.seq + 1, release.seq))
    if kernels is None:
        return None
    ntt, barrier, batch, end = kernels
    lo, hi = call.entry_lo, call.entry_hi
    total, before = release.b, take.a + take.b
    cost = _cost(lo + total, hi + total + 1, release)
    cost += gap_cost((call.prove_start or 0) - total, 3.0, 0.5)
    locked = _cost(lo + before, hi + before + 2, take)
    if cost > LIMIT or locked > LIMIT:
        return None
    locked = cost + locked + IDENTITY_COST[total - before - release.a]
    acquired = lo, hi = (lo + before, hi + before + 2)

    total, tail = end.b, end.a
    outside = release.a - total
    if not -1 <= outside <= HELD_MORE_MS:
        return None
    if outside > 0:
        hi += outside
    end_cost = locked + gap_cost(outside, 7.0, 1.0)
    end_cost += _cost(lo + total, hi + total + 1, end)
    if end_cost > locked + LIMIT:
        return None
    lo = min(hi, max(lo, end.lo - total - 2))
    hi = max(lo, min(hi, end.hi - total + 1))

    added = (lo + total - tail - 6, hi + total - tail + 1)
    slack = total - tail - batch.a - barrier.a - ntt.a
    if not 0 <= slack < len(SLACK_COST):
        return None
    fit = _cost(added[0], added[1], batch)
    fit += _cost(added[0] - batch.a - 1, added[1] - batch.a, barrier)
    done = (lo + ntt.a, hi + ntt.a + 1)
    fit += _cost(done[0], done[1], ntt)
    fit += SLACK_COST[slack]
    cost = end_cost + fit
    if fit > LIMIT or cost > MISSING:
        return None
    opened = done[0] + barrier.a
    due = (
        acquired,
        done,
        (opened, done[1] + barrier.a + slack + 1),
        (opened + batch.a, hi + total - tail + 1),
        (lo + total, hi + total + 1),
        (lo + total, hi + total + 6),
    )
    hold = _make(Hold, (call.lock, take.seq, release.seq))
    return _make(Option, (cost, (take, ntt, barrier, batch, end, release), due, hold, (), 0.0))


def _only_lock(call: Call, tape: Tape) -> tuple[Line, Line] | None:
    """The only C4 and C10 that agree with each other, and with what the start call took."""
    prove_start = call.prove_start
    if prove_start is None:
        return None
    found: tuple[Line, Line] | None = None
    takes = tape.pools[C4].between(call.start_seq, call.returned_seq)
    for release in tape.pools[C10].between(call.start_seq, call.returned_seq):
        if release.b > prove_start + 1:
            continue
        before = release.b - release.a
        for take in takes:
            if take.seq > release.seq:
                break
            if 0 <= before - take.a - take.b < len(IDENTITY_COST):
                if found is not None:
                    return None
                found = take, release
    if found is None or found[0].owned or found[1].owned:
        return None
    return found


def _only_kernels(lines: list[Line]) -> tuple[Line, Line, Line, Line] | None:
    """C6, C7, C8 and C9 if each stands once among these lines, in this order."""
    found: list[Line] = []
    due = iter(_KERNELS)
    for line in lines:
        if line.kind in _KERNELS:
            if line.kind != next(due, None) or line.owned:
                return None
            found.append(line)
    if len(found) < len(_KERNELS):
        return None
    ntt, barrier, batch, end = found
    return ntt, barrier, batch, end


def only_preparation(call: Call, chain: Option, tape: Tape) -> Option | None:
    """The only set (C1, C2, C3) that can be the call's, which has this chain, if that is plain."""
    take, ntt, barrier, batch, end, _ = chain.lines
    if not (take and ntt and barrier and batch and end) or call.end is None:
        return None
    pools, entry_lo, entry_hi = tape.pools, call.entry_lo, call.entry_hi

    setups = pools[C1].between(call.start_seq, take.seq + 1)
    if len(setups) != 1:
        return None
    setup = setups[0]
    spare = take.a - setup.b
    due1 = lo, hi = (entry_lo + setup.b, entry_hi + setup.b + 1)
    if spare < -1 or setup.owned:
        return None
    setup_cost = _cost(lo, hi, setup) + gap_cost(spare, 2.0, 1.0)
    written = tape.bounds(setup)
    begun_lo = max(lo, written.lo)
    begun_hi = max(hi, begun_lo + 1)
    if begun_lo > hi + GRACE_MS:  # it came late, and the thread after it
        begun_hi = max(begun_lo + 1, written.hi)

    prep = None
    for line in pools[C2].between(setup.seq, min(call.end_seq, barrier.seq, batch.seq)):
        figure = line.a
        if (
            line.hi >= begun_lo + figure - EARLY_MAX_MS
            and line.lo <= begun_hi + figure + 1 + USUAL_LATE_MS
        ):
            if prep is not None:
                return None
            prep = line
    if prep is None or prep.owned:
        return None
    bounds = tape.bounds(prep)
    due_lo, due_hi = begun_lo + prep.a, begun_hi + prep.a + 1
    prep_cost = 0.0
    if not bounds.lo <= due_lo <= due_hi <= bounds.hi:
        prep_cost = misfit_within(due_lo, due_hi, bounds, start_cost)
    lo, room = max(due_lo, bounds.lo), bounds.hi
    hi = max(lo + 0.5, room if lo > due_hi + GRACE_MS else min(due_hi, room))
    ticked = max(hi, min(due_hi + TICK_MS, room))
    opened_lo, opened_hi = _opened(call, take, ntt, barrier, batch, end)
    waited = barrier.a >= WAITED_MS
    if lo > opened_hi or (waited and ticked < opened_lo):
        return None
    if waited:
        lo = max(lo, min(opened_lo - 1, room))
        hi = ticked
    hi = max(lo + 0.5, min(hi, opened_hi + GRACE_MS))
    ticked = max(hi, min(ticked, opened_hi + GRACE_MS))

    b_g2 = None
    earliest, latest = lo - EARLY_MAX_MS, hi + USUAL_LATE_MS
    for line in pools[C3].between(prep.seq, call.end_seq):
        figure = line.a
        if line.hi >= earliest + figure and line.lo <= latest + figure:
            if b_g2 is not None:
                return None
            b_g2 = line
    if b_g2 is None or b_g2.owned:
        return None
    figure, tick_ms = b_g2.a, ticked - hi
    read = tape.bounds(b_g2)
    due2, due3 = (lo, ticked), (lo + figure, hi + figure + 1)
    late = read.lo - due3[1]
    if GRACE_MS < late <= room - hi:  # C2 came as late: their thread began late
        if late > TICK_MS:  # or C3 did
            return None
        cost, tick_ms = start_cost(late), 0.0
        due2 = (lo + late, min(room, max(hi, read.clock_hi - figure)))
        due3 = (due2[0] + figure, due2[1] + figure + 1)
    else:
        cost = 0.0
        if not read.lo <= due3[0] <= due3[1] <= read.hi:
            cost = misfit_within(*due3, read, print_cost)
        due3 = (due3[0], due3[1] + tick_ms)
    cost = setup_cost + prep_cost + cost
    if call.returned is not None:
        finish = Finish(call.end, FINISH_MS, call.returned)
        cost += finish_cost(finish, min(read.hi, max(due3[1] + 1, b_g2.lo)))
    if cost >= LISTED - HORIZON:
        return None
    since = (setup.lo, bounds.lo, read.lo)
    return _make(Option, (cost, (setup, prep, b_g2), (due1, due2, due3), None, since, tick_ms))


def _opened(call: Call, take: Line, ntt: Line, barrier: Line, batch: Line, end: Line) -> Window:
    """When prep_msm was there at the latest, by the lines of the call's kernels."""
    since = take.a + take.b + ntt.a + barrier.a
    lo, hi = call.entry_lo + since, call.entry_hi + since + 5
    by_end = end.a + batch.a
    lo = max(lo, end.lo - by_end - 6)
    return lo, max(lo, min(hi, end.hi - by_end + 1))


def _cost(earliest: float, latest: float, line: Line) -> float:
    """`misfit`, which nearly always is nothing."""
    if line.lo <= latest and line.hi >= earliest:
        return 0.0
    return misfit(earliest, latest, line)
