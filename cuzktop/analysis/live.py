"""Calls that aren't settled yet, as well as the lines read so far tell: the lock's state now.

Every call whose lines are not final gets the likeliest ones, so that the screen can show its
figures at once; the final attribution replaces them when its rivals have ended too.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator

from cuzktop.dataclass import NamedTuple, dataclass, field
from cuzktop.frame import Holding, Lock
from cuzktop.model.attribution import SURE, Attributor, bound_entry
from cuzktop.model.blocks import PASSING_MS, Block
from cuzktop.model.handover import Free
from cuzktop.model.kinds import C1, C4, C6, C7, C8, C9, C10, C11, CHAIN, KINDS
from cuzktop.model.lateness import Window, gap_cost, misfit
from cuzktop.model.state import Call, Line

STAGES = ("ntt_msm_h", "barrier", "batch_add", "tail_msm", "releasing")
WAITED_MS = 2  # who waited for so long has the lock as soon as it is given back
OTHER_LOCK = 4.0  # the cost of another one having been given back in between
FIT = 5.0  # a line that costs more than this is not taken for an open call's
NOBODYS = 12.0  # the cost of an acquisition that no call is given
UNCLAIMED = 12.0  # the cost of still holding the lock although a release would fit
FAR, SILENT_MS = 8.0, 100.0  # a release printed so long after the newest clock costs 1, at most 8
MOST_REST_MS = 3  # what total_start_fn exceeds the times before and under the lock by
MOST_FITS = 8  # ways to give an acquisition to a call that are weighed
MOST_TAKES = 24  # acquisitions that are weighed; 8 GPUs have 8, and a few that were given back


@dataclass(slots=True)
class LiveCall:
    """An open or unsettled call and what is known of it now.

    `state`: waiting (no lock yet, or preparing), holding, finishing (lock given back), ended.
    """

    call: Call
    state: str
    lines: dict[int, Line] = field(default_factory=dict)
    lock_at: float | None = None
    release_at: float | None = None
    stage: str | None = None
    sure: bool = True
    rivals: tuple[Call, ...] = ()  # who else could hold the lock


class _Fit(NamedTuple):
    """A call that an acquisition could be of, and its release of the lock if there is one."""

    cost: float
    call: Call
    release: Line | None


_Owners = dict[int, tuple[Line, Line | None]]
"""A call's acquisition of the lock, and its release if there is one, by the call's id."""


def live_calls(attributor: Attributor) -> list[LiveCall]:
    """Every call that is open or not settled, with its likeliest lines."""
    if not attributor.lock_lines:
        pools = {
            kind: [line for line in attributor.pools[kind] if not line.owned] for kind in KINDS
        }
        for call in attributor.waiting:
            if call.end is None:
                bound_entry(call)
        if attributor.contiguous:
            found = _together(sorted(attributor.waiting, key=lambda call: call.entry_lo), pools)
        else:
            found = _foreseen(attributor, pools)
        found.sort(key=lambda live: live.call.start)
        return found
    used: set[Line] = set()
    found = []
    open_calls: list[Call] = []
    for call in attributor.waiting:
        if call.end is None:
            open_calls.append(call)
            continue
        live = LiveCall(call, "ended")
        for chain in call.chains:
            if not any(line in used for line in chain.lines if line is not None):
                for kind, line in zip(CHAIN, chain.lines, strict=True):
                    if line is not None:
                        used.add(line)
                        live.lines[kind] = line
                break
        found.append(live)
    pools = {
        kind: [line for line in attributor.pools[kind] if not line.owned and line not in used]
        for kind in (C4, C6, C7, C8, C9, C10)
    }
    for call in open_calls:
        bound_entry(call)
    locks = attributor.given_back()
    locks.update((live.lines[C10].seq, live.call.lock) for live in found if C10 in live.lines)
    releases = attributor.pools[C10]
    passed: dict[Line, int] = {}  # by whose release the lock became free
    for take in pools[C4]:
        before = bisect_left(releases.places, take.seq) - 1
        if take.b >= WAITED_MS and before >= 0 and releases.places[before] in locks:
            passed[take] = locks[releases.places[before]]
    found.extend(_printed(open_calls, pools, passed))
    found.sort(key=lambda live: live.call.start)
    return found


# ---------------------------------------------------------------- S41 and newer


def _printed(
    calls: list[Call], pools: dict[int, list[Line]], passed: dict[Line, int]
) -> list[LiveCall]:
    """The lock's acquisition is printed: whose is each, and has it been given back?

    `passed` tells which lock was given back last before some of them.
    """
    choices: list[list[_Fit]] = []
    takes = pools[C4]
    for take in takes:
        fits: list[_Fit] = []
        for call in calls:
            if call.start_seq <= take.seq:
                fits += _fits(
                    take, call, pools[C10], other_lock=passed.get(take, call.lock) != call.lock
                )
        fits.sort(key=lambda fit: fit.cost)
        choices.append(fits[:MOST_FITS])
    owners, margin = _assign(takes, choices)
    result: list[LiveCall] = []
    for call in calls:
        if id(call) not in owners:
            state = "finishing" if call.returned is not None else "waiting"
            result.append(LiveCall(call, state, release_at=call.returned))
            continue
        owned, release = owners[id(call)]
        lock_at = call.entry_lo + owned.a + owned.b + 1.0
        live = LiveCall(call, "holding", {C4: owned}, lock_at=lock_at, sure=margin >= SURE)
        _kernels_so_far(live, owned, release, pools)
        if release is not None or call.returned is not None:
            live.state, live.stage = "finishing", None
            live.sure = live.sure or call.returned is not None
            if release is not None:
                live.lines[C10] = release
                live.release_at = lock_at + release.a + 0.5
            else:
                live.release_at = call.returned
        elif not live.sure:
            live.rivals = tuple(
                other
                for other in calls
                if other is not call
                and other.gpu == call.gpu
                and other.returned is None
                and id(other) not in owners
            )
        result.append(live)
    return result


def _fits(take: Line, call: Call, releases: list[Line], *, other_lock: bool) -> Iterator[_Fit]:
    """How an acquisition could be the call's; `other_lock`: it followed another lock's release."""
    before = take.a + take.b
    cost = misfit(call.entry_lo + before, call.entry_hi + before + 2, take)
    if other_lock:
        cost += OTHER_LOCK
    if cost == math.inf:
        return
    unclaimed = 0.0
    for release in releases:
        later = _release_cost(take, call, release)
        if later < math.inf:
            unclaimed = UNCLAIMED
            yield _Fit(cost + later, call, release)
    if call.returned is None:
        yield _Fit(cost + unclaimed, call, None)


def _release_cost(take: Line, call: Call, release: Line) -> float:
    """The cost of a release that follows an acquisition by the call: total = before + held."""
    rest = release.b - take.a - take.b - release.a
    if release.seq <= take.seq or not 0 <= rest <= MOST_REST_MS:
        return math.inf
    due = call.entry_lo + release.b
    cost = misfit(due, call.entry_hi + release.b + 1, release)
    if cost >= FIT:
        return math.inf
    if release.hi == math.inf:  # no clock was read since: one that is due soon is likelier
        cost += min(FAR, max(0.0, due - release.lo) / SILENT_MS)
    if call.returned is not None:
        if call.returned_seq <= release.seq:
            return math.inf
        if call.prove_start is not None:
            gap = call.prove_start - release.b
            if gap < -1:
                return math.inf
            cost += gap_cost(gap, 3.0, 0.5)
    return cost


def _assign(takes: list[Line], choices: list[list[_Fit]]) -> tuple[_Owners, float]:
    """The cheapest owners of the acquisitions, a call each; and how much the next best costs."""
    best: list[tuple[float, _Owners]] = []

    def go(index: int, cost: float, owners: _Owners, taken: frozenset[object]) -> None:
        if len(best) >= 2 and cost >= best[1][0]:
            return
        if index == len(takes):
            best.append((cost, dict(owners)))
            best.sort(key=lambda one: one[0])
            del best[2:]
            return
        take = takes[index]
        for fit, call, release in choices[index]:
            if id(call) in owners:
                continue
            # A lock has one holder, a release one call.
            only = (-1 if call.gpu is None else call.gpu) if release is None else release
            if only in taken:
                continue
            owners[id(call)] = (take, release)
            go(index + 1, cost + fit, owners, taken | {only})
            del owners[id(call)]
        go(index + 1, cost + NOBODYS, owners, taken)

    if len(takes) > MOST_TAKES:
        return {}, 0.0
    go(0, 0.0, {}, frozenset())
    if not best:
        return {}, 0.0
    margin = best[1][0] - best[0][0] if len(best) > 1 else 4 * SURE
    return best[0][1], margin


def _kernels_so_far(
    live: LiveCall, take: Line, release: Line | None, pools: dict[int, list[Line]]
) -> None:
    """The stage that the holder is in: the kernels' lines that fit it, in their order."""
    if live.lock_at is None:
        return
    lo, hi = live.lock_at - 1.0, live.lock_at + 3.0
    last = math.inf if release is None else release.seq
    live.stage = STAGES[0]
    after = take.seq
    for step, kind in enumerate((C6, C7, C8, C9), 1):
        best, best_cost = None, FIT
        for line in pools[kind]:
            if not after < line.seq < last:
                continue
            cost = misfit(lo + line.a, hi + line.a + 1, line)
            if cost < best_cost:
                best, best_cost = line, cost
        if best is None:
            return
        live.lines[kind] = best
        pools[kind].remove(best)
        after = best.seq
        lo, hi = lo + best.a, hi + best.a + 1
        live.stage = STAGES[step]


# ---------------------------------------------------------------- S19–S40


def _foreseen(attributor: Attributor, pools: dict[int, list[Line]]) -> list[LiveCall]:
    """The lock leaves no lines: whose block has ended has given it back, and who waits is next."""
    blocks, free, one_lock, unsure = attributor.foreseen()
    result: list[LiveCall] = []
    waiting: dict[int, list[Call]] = {}
    leaving: dict[int, list[LiveCall]] = {}  # who may not have given the lock back yet
    used: set[Line] = set()
    for call in attributor.waiting:
        block = blocks.get(call)
        if block is not None:
            used.update(line for line in block.lines if line is not None)
        if call.end is not None:
            result.append(LiveCall(call, "ended", _lines_of(block)))
        elif block is not None:
            at = sum(block.ended) / 2
            live = LiveCall(call, "finishing", _lines_of(block), release_at=at)
            # As long as nothing with a time was read since, it may be about to give the lock back.
            if call.next_pickup is None and (call in unsure or block.end.hi == math.inf):
                leaving.setdefault(0 if one_lock else call.lock, []).append(live)
            result.append(live)
        elif call.next_pickup is not None:
            result.append(LiveCall(call, "finishing", release_at=call.next_pickup))
        else:
            waiting.setdefault(0 if one_lock else call.lock, []).append(call)
    running = {kind: [line for line in pools[kind] if line not in used] for kind in (C6, C8, C9)}
    for lock, calls in waiting.items():
        found = _contenders(calls, free.get(lock), running)
        late = leaving.get(lock, [])
        if found[0].lines and unsure.isdisjoint(live.call for live in late):
            late.clear()  # the next block has begun, and it can't be another GPU's
        elif late:
            found[0].sure = False
            found[0].rivals = (*found[0].rivals, *(live.call for live in late))
        result.extend(found)
    for late in leaving.values():
        for live in late:
            live.sure = False
    return result


def _lines_of(block: Block | None) -> dict[int, Line]:
    lines = () if block is None else block.lines
    return {line.kind: line for line in lines if line is not None}


def _contenders(
    calls: list[Call], free: Free | None, pools: dict[int, list[Line]]
) -> list[LiveCall]:
    """The calls that want one lock: who asked for it first holds it, the others wait."""
    ready = [call for call in calls if call.cpu_options and call.cpu_options[0].lines[0]]
    if not ready:
        return [LiveCall(call, "waiting") for call in calls]
    holder = min(ready, key=lambda call: call.begun[0])
    rivals = tuple(call for call in ready if call is not holder)
    lo, hi = holder.begun
    if free is not None:
        lo, hi = max(lo, free.at[0]), max(hi, free.at[1])
    live = LiveCall(holder, "holding", lock_at=lo, sure=not rivals, rivals=rivals)
    live.stage = STAGES[0]
    _block_so_far(
        live, (lo, hi + PASSING_MS), holder.start_seq if free is None else free.seq, pools
    )
    return [live, *(LiveCall(call, "waiting") for call in calls if call is not holder)]


def _block_so_far(live: LiveCall, begun: Window, after: int, pools: dict[int, list[Line]]) -> None:
    """The stage that the holder is in, by the lines that a block begun in a window would have."""
    lo, hi = begun
    for kind, stage in ((C6, STAGES[1]), (C8, STAGES[3])):
        fits = [line for line in pools[kind] if line.seq > after]
        if kind == C6:
            fits = [line for line in fits if misfit(lo + line.a, hi + line.a + 1, line) < FIT]
        if not fits:
            return
        live.lines[kind] = fits[0]
        live.stage = stage
        after = fits[0].seq
        pools[kind].remove(fits[0])


# ---------------------------------------------------------------- S16–S18


def _together(calls: list[Call], pools: dict[int, list[Line]]) -> list[LiveCall]:
    """A call's lines stand together, and the last one's end gives the only lock back."""
    result: list[LiveCall] = []
    owners = _owners(calls, pools[C11])
    rest: list[Call] = []
    for call in calls:
        mark = owners.get(call)
        if call.end is not None:
            result.append(LiveCall(call, "ended"))
        elif mark is not None or call.next_pickup is not None:
            at = call.next_pickup if mark is None else mark.hi
            result.append(LiveCall(call, "finishing", release_at=at))
        else:
            rest.append(call)
    if not rest:
        return result
    holder, *others = rest
    result.extend(LiveCall(call, "waiting") for call in others)
    live = LiveCall(holder, "holding", sure=not others, rivals=tuple(others))
    newest = pools[C11][-1] if pools[C11] else None
    live.lock_at = holder.entry_lo if newest is None else max(holder.entry_lo, newest.lo)
    after = holder.start_seq if newest is None else max(holder.start_seq, newest.seq + 1)
    live.lines = {
        line.kind: line for kind in (C1, C6, C8, C9) for line in pools[kind] if line.seq >= after
    }
    live.stage = STAGES[3] if C8 in live.lines else STAGES[1] if C6 in live.lines else STAGES[0]
    return [*result, live]


def _owners(calls: list[Call], marks: list[Line]) -> dict[Call, Line]:
    """Whose last line each of `marks` is, as likely as can be said."""
    owners: dict[Call, Line] = {}
    for index, mark in enumerate(marks):
        following = marks[index + 1].seq if index + 1 < len(marks) else math.inf
        fits = [
            call
            for call in calls
            if call not in owners
            and not call.failed
            and call.start_seq <= mark.seq
            and (call.end is None or mark.seq < call.end_seq)
            and (call.next_pickup is None or mark.lo <= call.next_pickup + 5)
        ]
        if not fits:
            continue
        urgent = [call for call in fits if call.end is not None and call.end_seq <= following]
        # A worker picks up its next item as soon as its call has given the lock back.
        moved = [call for call in fits if call.next_pickup is not None]
        moved.sort(key=lambda call: call.next_pickup or 0.0)
        owners[(urgent or moved or fits)[0]] = mark
    return owners


# ---------------------------------------------------------------- the lock, for a view


def lock_of(gpu: int, calls: list[LiveCall], *, told: bool = True) -> Lock:
    """One GPU's lock: holder, waiters, and who is finishing.

    Where the log hasn't `told` of locks so far, that nobody is seen to hold it says nothing.
    """
    holder = None
    candidates: tuple[Holding, ...] = ()
    confidence = "exact"
    waiting: list[Holding] = []
    finishing: list[Holding] = []
    others: list[Holding] = []  # until S29 the calls of several locks run on one GPU
    for live in calls:
        if live.state == "ended" or live.call.gpu != gpu:
            continue
        if live.state == "holding" and holder is not None:
            others.append(_holding(live.call, live.call.entry_lo))
            confidence = "inferred"
        elif live.state == "holding":
            # A picture's time is that of the last clock read; what was printed since took time.
            holder = _holding(live.call, live.lock_at, live.stage, _printed_ms(live.lines))
            if not live.sure:
                confidence = "inferred"
            candidates = tuple([_holding(rival, rival.entry_lo) for rival in live.rivals])
        elif live.state == "finishing":
            if not live.sure:
                confidence = "inferred"
            finishing.append(_holding(live.call, live.release_at))
        else:
            waiting.append(_holding(live.call, live.call.start))
    if holder is None and not told:
        confidence = "none"
    return Lock(
        holder=holder,
        waiting=tuple(waiting),
        finishing=tuple(finishing),
        candidates=(*candidates, *others),
        confidence=confidence,
    )


def lock_made_of(calls: list[LiveCall]) -> object:
    """What a GPU's lock is made of: while it stays equal, so does the lock."""
    return [
        (
            live.call,
            live.call.worker,
            live.call.entry_lo,
            live.state,
            live.stage,
            live.sure,
            live.lock_at,
            live.release_at,
            _printed_ms(live.lines) if live.state == "holding" else 0.0,
            [(rival, rival.entry_lo) for rival in live.rivals],
        )
        for live in calls
        if live.state != "ended"
    ]


def _printed_ms(lines: dict[int, Line]) -> float:
    """How long the stages took whose lines are there: the lock was held at least so long."""
    printed = 0.0
    for kind in (C6, C7, C8, C9):
        line = lines.get(kind)
        if line is not None:
            printed += line.a
    return printed


def _holding(
    call: Call, since: float | None, stage: str | None = None, least_ms: float = 0.0
) -> Holding:
    return Holding(
        worker=call.worker,
        job=call.partition.job.id,
        partition=call.partition.index,
        since_ms=since,
        stage=stage,
        least_ms=least_ms,
    )
