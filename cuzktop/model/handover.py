"""S19–S40: who held the lock, when nothing printed says so.

Blocks (see `blocks`) under one lock follow one another, and each begins when the lock is free and
its call is ready for it: then at once. A worker takes its next item only after its call gave the
lock back, a call ends only after its block, and where the kernels waited, prep_msm of the block's
call was done at that time.

The blocks are handed out in the order in which they ended, and several ways of doing so are
followed until the log has told enough: a wrong one soon leaves a call without a block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy

from cuzktop.dataclass import NamedTuple
from cuzktop.model.blocks import (
    PASSING_MS,
    Block,
    Former,
    entries,
    opening,
    since_start,
)
from cuzktop.model.effort import Effort
from cuzktop.model.fitting import Fitting
from cuzktop.model.joint import LOSS
from cuzktop.model.lateness import FORBIDDEN, Window, early_cost, print_cost, start_cost
from cuzktop.model.options import Entry, by_cost, disorder
from cuzktop.model.state import Call, Line
from cuzktop.model.tape import Pools

ORPHAN = 18.0  # the cost of a block that is nobody's: its call's GPU_START was lost
EARLY_ORPHAN = 1.0  # the same where calls were under way before the log begins
UNSERVED = 16.0  # the cost of a call without a block: its lines were lost
OUT_OF_TURN, TURN_MS = 0.3, 5.0  # who has waited longer is likelier to have the lock next
# The cost of a lock that is wanted and stays free for longer than usual, for each ms:
IDLE_MS, IDLE_WEIGHT, IDLE_MOST = 2.0, 0.3, 2.0
# and for longer than `PASSING_MS`; at most as much as that someone unseen held it,
LATE, LATE_MOST_MS, UNKNOWN_HOLDER = 2.0, 600.0, 9.0
# Or it passed at once to a thread that got no CPU for long, as a late pickup of its worker tells.
LATE_START = 4.5
STRAY_HOLDER = 0.5  # or that the call did whose block is nobody's
# A block may have begun, by its lines, at times when its call couldn't have: the more, the dearer.
SHARED_WEIGHT, TOLD_MS = 0.5, 2.0
TOLD_APART = 20.0  # ways dearer than the best by more are given up
UNLIKELY_WAY = 6.0  # ways dearer than the best by more tell nothing of the moment
ALIKE_MS = 3.0  # ways whose locks are free at times as near are the same
KEEP_WAYS = 48  # ways of handing out that are followed at a time
KEEP_AHEAD = 8  # the same for a picture of the moment
KEEP_BESIDE = 8  # blocks among whose lines those of the next one can stand
KEEP_STRAYS = 32
BEHIND = 3  # so many blocks for each lock after its first line, a block has ended
KEEP_FAILURES = 16
END = 1 << 62  # a place of the log that is never reached
POOR_FIT = 15.0  # a block that costs so much isn't surely its call's: something else has happened
PATIENCE = 3  # a toss-up is settled when so many more blocks than two for each worker have ended


class Free(NamedTuple):
    """A lock was given back: when, and where in the log its last block ended."""

    at: Window
    seq: int


class Passing(NamedTuple):
    """The lock passes on to a block's call."""

    cost: float
    begun: Window  # by all that is known of the call
    alone: Window  # by the block's own lines and the lock's holder before
    soon: float  # it begins by then as a rule


class Trace(NamedTuple):
    """Who had which block, the newest first."""

    call: Call | None
    block: Block
    passing: Passing
    before: Trace | None
    depth: int


class Way:
    """One way of handing out the blocks so far.

    `free` says of each lock when it was given back; `open` are the calls without a block; `margins`
    how much dearer the cheapest way is, of those given up for this one, that serves a call
    otherwise; `stray` is when the last block ended that is nobody's.
    """

    __slots__ = ("cost", "free", "margins", "open", "stray", "trace")

    def __init__(
        self,
        cost: float = 0.0,
        free: Mapping[int, Free] | None = None,
        open_: tuple[Call, ...] = (),
        trace: Trace | None = None,
        margins: Mapping[Call, float] | None = None,
        stray: Window | None = None,
    ) -> None:
        """Nothing has been handed out, unless the arguments say so."""
        self.cost = cost
        self.free = free or {}
        self.open = open_
        self.trace = trace
        self.margins = margins or {}
        self.stray = stray

    def twin(self) -> Way:
        """The same way, to be followed further apart from this one."""
        return Way(self.cost, self.free, self.open, self.trace, self.margins, self.stray)


class Decision(NamedTuple):
    """A call's block is known."""

    call: Call
    block: Block | None
    margin: float


class Outlook(NamedTuple):
    """How things look now: nothing is decided by it."""

    blocks: dict[Call, Block]  # of calls that aren't settled
    free: Mapping[int, Free]  # by lock, when it was given back
    one_lock: bool  # all calls take the same one
    unsure: frozenset[Call]  # calls that may have had a block, and may not


class Handover:
    """Hands blocks out to calls, as far as `fitting` and the order of events allow."""

    def __init__(self, fitting: Fitting, effort: Effort | None = None) -> None:
        """No block has been seen."""
        self._fitting = fitting
        self._effort = effort or Effort()
        self._former = Former(effort=self._effort)
        self._ways = [Way()]
        self._keep_ways = KEEP_WAYS
        self._known: set[Call] = set()  # calls that the ways have in `open` or in their trace
        self._fits: dict[tuple[Call, Line], tuple[tuple[float, Window], ...]] = {}
        self._handed: list[Block] = []  # whose calls aren't all settled
        self._failures: list[Call] = []
        self._past_strays: list[tuple[int, int]] = []  # see `_strays`
        self._left_over: list[int] = []  # places of kernels' lines whose block's end is lost
        self.doubtful = False  # that all calls take one lock is only likely
        self.known_from = 0  # before that place of the log, calls may be missing
        self.staging_ms = 0.0  # what S20–S27 do under the lock before the block begins

    @property
    def one_lock(self) -> bool:
        """Whether all calls take the same lock."""
        return self._former.one_lock

    def several_locks(self) -> None:
        """Two calls can be under a lock at a time."""
        self._former.one_lock = False

    # ------------------------------------------------------------ handing out

    def hand_out(self, pools: Pools, frontier: int, calls: Sequence[Call]) -> list[Block]:
        """Extend every way by the blocks before `frontier`; returns those that are new.

        `calls` are all that could have one of them.
        """
        blocks = self._former.form(pools, frontier)
        if not blocks:
            return []
        together = [*self._handed[-1:], *blocks]
        if self.one_lock and self.doubtful and self._former.interleaved(pools, together):
            # Two calls were under a lock at a time, so these are two locks: begin anew.
            reached = self._handed[0].first_seq - 1 if self._handed else self._former.reached
            self._former = Former(one_lock=False, reached=reached, effort=self._effort)
            self._handed.clear()
            self._ways = [Way()]
            self._known.clear()
            self._failures.clear()
            self._fits.clear()
            blocks = self._former.form(pools, frontier)
        pending = [call for call in calls if call not in self._known]
        self._handed.extend(blocks)
        for block in blocks:
            fresh = [call for call in pending if call.start_seq < block.end.seq]
            if fresh:
                pending = [call for call in pending if call.start_seq >= block.end.seq]
                self._known.update(fresh)
                for way in self._ways:
                    way.open = (*way.open, *fresh)
                self._failures.extend(call for call in fresh if call.failed)
            self._advance(block)
            self._former.take(block)
        self._left_over = self._former.left_over(pools, self._all_closed())
        return blocks

    def _all_closed(self) -> int:
        """The place of the log before which every block has ended that will."""
        if self.one_lock:
            return self._former.reached
        locks = {call.lock for call in self._known}
        ends = [block.end.seq for block in self._handed]
        behind = BEHIND * max(1, len(locks))
        return ends[-behind] if len(ends) >= behind else -1

    def _advance(self, block: Block) -> None:
        """Extend every way by one block: it is some call's, or nobody's."""
        end = block.end
        more: dict[tuple[object, ...], Way] = {}
        if self._effort.refuses():  # the likeliest alone goes on
            for way in self._ways[1:]:
                _note_margins(self._ways[0], way)
            del self._ways[1:]
        for way in self._ways:
            self._effort.take(4 * len(way.open))
            cost, open_ = way.cost, way.open
            overdue = [call for call in open_ if call.deadline_seq <= end.seq]
            if overdue:
                open_ = tuple(call for call in open_ if call not in overdue)
                cost += sum(0.0 if call.failed else UNSERVED for call in overdue)
            depth = 1 + (way.trace.depth if way.trace else 0)
            wanted = self._wanted(open_)
            for call in open_:
                if call.start_seq >= block.first_seq:
                    continue
                for fit, passing in self._passings(way, wanted, call, block):
                    lo, hi = passing.begun
                    total = cost + fit + passing.cost
                    if not self.one_lock:
                        total += _order_cost(way.trace, block, passing.begun)
                    ended = (lo + end.b, hi + end.b + 1)
                    free = {**way.free, self._lock_of(call): Free(ended, end.seq)}
                    trace = Trace(call, block, passing, way.trace, depth)
                    left = tuple(other for other in open_ if other is not call)
                    _keep(more, Way(total, free, left, trace, way.margins, way.stray))
            nobody = EARLY_ORPHAN if block.first_seq < self.known_from else ORPHAN
            unseen = Passing(nobody, block.begun, block.begun, math.inf)
            trace = Trace(None, block, unseen, way.trace, depth)
            _keep(more, Way(cost + nobody, way.free, open_, trace, way.margins, block.ended))
        ways = sorted(more.values(), key=by_cost)
        best = ways[0]
        keep = self._keep_ways
        self._ways = [way for way in ways[:keep] if way.cost <= best.cost + TOLD_APART]
        for way in ways[keep:]:
            if way.cost > best.cost + TOLD_APART:
                break
            _note_margins(best, way)

    def _lock_of(self, call: Call) -> int:
        return 0 if self.one_lock else call.lock

    def _fits_of(self, call: Call, block: Block) -> tuple[tuple[float, Window], ...]:
        key = (call, block.end)
        fits = self._fits.get(key)
        if fits is None:
            fits = self._fits[key] = self._fitting.fits(call, block)
        return fits

    def _wanted(self, calls: Iterable[Call]) -> dict[int, float]:
        """By lock, since when any of these calls is ready for it."""
        wanted: dict[int, float] = {}
        for call in calls:
            lock = self._lock_of(call)
            wanted[lock] = min(call.begun[1], wanted.get(lock, math.inf))
        return wanted

    def _passings(
        self, way: Way, wanted: Mapping[int, float], call: Call, block: Block
    ) -> Iterator[tuple[float, Passing]]:
        """How the lock may pass on to this call for the block, and what it costs besides.

        It begins at once as a rule; later if its worker's next pickup is late for that.
        """
        free = way.free.get(self._lock_of(call))
        if free is not None and free.seq > block.first_seq:
            return
        total = block.end.b
        for fit, begun in self._fits_of(call, block):
            passing = self._passing(way, wanted, call, block, begun)
            if passing.cost >= FORBIDDEN:
                continue
            lo, hi = passing.begun
            after = self._fitting.after(call, (lo + total, hi + total + 1))
            yield fit + after, passing
            if after > LATE_START and fit < LATE_START and passing.soon < begun[1]:
                lo, hi = passing.soon, begun[1]
                less = self._fitting.after(call, (lo + total, hi + total + 1))
                if LATE_START + less < after:
                    cost = passing.cost + LATE_START
                    yield fit + less, passing._replace(cost=cost, begun=(lo, hi))

    def _passing(
        self, way: Way, wanted_by: Mapping[int, float], call: Call, block: Block, begun: Window
    ) -> Passing:
        """What it costs that the lock passes on to this call now, if the block began in `begun`.

        The lock is taken as soon as it is free and anyone is ready for it.
        """
        lock = self._lock_of(call)
        free = way.free.get(lock)
        lo, hi = begun
        asked = call.begun[0]  # when it asked for the lock
        wanted = wanted_by[lock]  # and when anyone did
        out_of_turn = wanted < asked - TURN_MS
        ready = asked
        if free is not None:
            ready = max(ready, free.at[0])
            wanted = max(wanted, free.at[1])
        for failed in self._failures:  # it may have held the lock until its end
            end = failed.end
            late = end is not None and wanted < end <= hi + PASSING_MS
            if end is not None and late and self._lock_of(failed) == lock:
                wanted = end
        soon = wanted + PASSING_MS + self.staging_ms
        alone = (max(block.begun[0], min(ready, block.begun[1])), block.begun[1])
        if ready > hi:
            cost = 2.0 * early_cost(ready - hi)
            if ready <= block.begun[1]:  # then the kernels waited longer, for a late prep_msm
                cost = min(cost, start_cost(ready - hi))
                return Passing(cost, (ready, min(block.begun[1], max(ready, soon))), alone, soon)
            return Passing(cost, begun, alone, soon)
        lo = max(lo, ready)
        if lo <= soon:
            cost = min(IDLE_MOST, IDLE_WEIGHT * max(0.0, lo - wanted - IDLE_MS))
            if out_of_turn:
                cost += OUT_OF_TURN
            spread = begun[1] - begun[0]
            if spread < math.inf:  # the block may have begun when this call could not have
                shared = max(0.0, min(hi, soon) - lo)
                cost += SHARED_WEIGHT * math.log((spread + TOLD_MS) / (shared + TOLD_MS))
            return Passing(cost, (lo, max(lo, min(hi, soon))), alone, soon)
        if lock < 0:  # others may hold it, too
            return Passing(0.0, (lo, hi), alone, math.inf)
        most = UNKNOWN_HOLDER if free is not None else UNKNOWN_HOLDER / 2
        stray = way.stray
        if stray is not None and stray[0] <= hi and lo <= stray[1] + PASSING_MS:
            most = STRAY_HOLDER
        cost = min(most, LATE + print_cost(min(LATE_MOST_MS, lo - soon)))
        return Passing(cost, (lo, hi), alone, soon)

    # ------------------------------------------------------------ what is decided

    def decided(self, ripe: Sequence[Call], frontier: int, patience: int) -> list[Decision]:
        """The calls of `ripe` whose block is known now.

        A call is known when all ways agree about it, or when so many blocks ended after its own
        end that no more can be hoped for.
        """
        best = self._ways[0]
        served = _served(best.trace)
        others = [(way.cost - best.cost, _served(way.trace), way.margins) for way in self._ways[1:]]
        after = [node.block.end.seq for node in _nodes(best.trace)]
        passings = {node.call: node.passing for node in _nodes(best.trace)}
        strays = self._strays(best, served, frontier)
        result: list[Decision] = []
        for call in ripe:
            if call not in self._known:  # no block ended since it began
                if frontier > call.end_seq:
                    result.append(Decision(call, None, TOLD_APART))
                continue
            block = served.get(call)
            margin = best.margins.get(call, TOLD_APART)
            agreed = True
            for dearer, other, margins in others:
                if other.get(call) is not block:
                    agreed = False
                    margin = min(margin, dearer)
                margin = min(margin, dearer + margins.get(call, TOLD_APART))
            if any(lo < call.end_seq and call.start_seq < hi for lo, hi in strays):
                margin = min(margin, LOSS)
            if block is not None:
                fit = min(cost for cost, _ in self._fits_of(call, block))
                if fit + passings[call].cost >= POOR_FIT:
                    margin = min(margin, LOSS)
            if agreed or sum(seq > call.end_seq for seq in after) >= patience:
                result.append(Decision(call, block, margin))
        return result

    def _strays(
        self, best: Way, served: Mapping[Call, Block], frontier: int
    ) -> list[tuple[int, int]]:
        """Where in the log blocks without a call stand, and calls without a block: lines were lost.

        What is beside them may have changed hands unseen.
        """
        spans = [
            (node.block.first_seq, node.block.end.seq + 1)
            for node in _nodes(best.trace)
            if node.call is None
        ]
        unserved = [
            (call.start_seq, call.deadline_seq)
            for call in self._known
            if not call.failed
            and call not in served
            and (call not in best.open or call.deadline_seq <= frontier)
        ]
        loose = [(place, place + 1) for place in self._left_over]
        return [*self._past_strays, *spans, *unserved, *loose]

    def sharpened(self, pools: Pools, calls: Iterable[Call]) -> dict[Call, Block]:
        """The blocks of `calls` made anew, now that it is known better when each began."""
        nodes = [node for node in _nodes(self._ways[0].trace) if not node.block.end.owned]
        nodes.reverse()
        wanted = set(calls)
        asked = {node.block.end: node for node in nodes if node.call in wanted}
        if self.one_lock:
            blocks = {end: node.block for end, node in asked.items()}
        else:
            taken = {node.block.end: node.block for node in nodes}
            begun = {node.block.end: node.passing.begun for node in nodes}
            cold = {node.block.end for node in nodes if node.call and node.call.is_first}
            blocks = self._former.form_again(pools, taken, begun, asked.keys(), cold)
        return {
            node.call: _passed(node.passing, blocks[end])
            for end, node in asked.items()
            if node.call is not None
        }

    def settle(self, calls: Sequence[Call], oldest: int) -> None:
        """These calls are settled as the best way has it; lines before `oldest` are past."""
        best = self._ways[0]
        served = _served(best.trace)
        gone = set(calls)
        strays = [span for span in self._strays(best, served, oldest) if span[1] >= oldest]
        self._past_strays = strays[-KEEP_STRAYS:]
        kept: list[Way] = []
        for way in self._ways:
            other = _served(way.trace)
            if way is best or all(other.get(call) is served.get(call) for call in calls):
                way.open = tuple(call for call in way.open if call not in gone)
                kept.append(way)
            else:  # who has whose block instead is as unsure as what is settled
                _note_margins(best, way)
        for way in kept:
            way.margins = {call: sure for call, sure in way.margins.items() if call not in gone}
            way.trace = _shortened(way.trace, oldest)
        self._ways = kept
        self._known.difference_update(gone)
        self._fits = {key: fit for key, fit in self._fits.items() if key[0] not in gone}
        recent = [call for call in self._failures if call.end_seq >= oldest]
        self._failures = recent[-KEEP_FAILURES:]
        self._handed = [
            block for block in self._handed if block.end.seq >= oldest and not block.end.owned
        ]
        self._former.forget(oldest)

    def foreseen(self, pools: Pools, calls: Sequence[Call]) -> Outlook:
        """The blocks of calls that aren't settled yet, and when each lock was given back.

        That is what the best way comes to if it is followed to the log's end, where `calls` may be
        open still. Nothing is decided by it.
        """
        return self._twin().followed(pools, calls)

    def _twin(self) -> Handover:
        """The same, to go on apart from this one, a little less thoroughly."""
        twin = copy(self)
        twin.__dict__.update(
            _effort=Effort(),
            _former=self._former.twin(),
            _ways=[way.twin() for way in self._ways[:KEEP_AHEAD]],
            _keep_ways=KEEP_AHEAD,
            _known=set(self._known),
            _handed=list(self._handed),
            _failures=list(self._failures),
            _fits=dict(self._fits),
        )
        return twin

    def followed(self, pools: Pools, calls: Sequence[Call]) -> Outlook:
        """Hand out all blocks up to the log's end; see `foreseen`."""
        self.hand_out(pools, END, calls)
        gone = {call for call in calls if call.deadline_seq < END and not call.failed}

        def cost(way: Way) -> float:
            return way.cost + UNSERVED * sum(call in gone for call in way.open)

        best = min(self._ways, key=cost)
        served = _served(best.trace)
        unsure: set[Call] = set()
        for way in self._ways:
            if way is not best and cost(way) < cost(best) + UNLIKELY_WAY:
                unsure.update(served.keys() ^ _served(way.trace).keys())
        return Outlook(served, best.free, one_lock=self.one_lock, unsure=frozenset(unsure))


# ---------------------------------------------------------------- ways


def _keep(more: dict[tuple[object, ...], Way], way: Way) -> None:
    """Keep the cheaper of two ways that leave the same to come."""
    locks = ((lock, free.seq, free.at[0] // ALIKE_MS) for lock, free in way.free.items())
    key = (way.open, way.stray, *sorted(locks))
    other = more.get(key)
    if other is None:
        more[key] = way
    elif way.cost < other.cost:
        more[key] = way
        _note_margins(way, other)
    else:
        _note_margins(other, way)


def _note_margins(kept: Way, dropped: Way) -> None:
    """Note for each call that two ways serve otherwise how much dearer the dropped one is."""
    dearer = dropped.cost - kept.cost
    one, other = kept.trace, dropped.trace
    mine: dict[Call, Block] = {}
    theirs: dict[Call, Block] = {}
    while one is not other:
        if one is not None and (other is None or one.depth >= other.depth):
            if one.call is not None:
                mine[one.call] = one.block
            one = one.before
        elif other is not None:
            if other.call is not None:
                theirs[other.call] = other.block
            other = other.before
    margins = dict(kept.margins)
    for call, margin in dropped.margins.items():  # what was second best to the dropped one
        margins[call] = min(dearer + margin, margins.get(call, TOLD_APART))
    for call in mine.keys() | theirs.keys():
        if mine.get(call) is not theirs.get(call):
            margins[call] = min(dearer, margins.get(call, TOLD_APART))
    kept.margins = margins


def _order_cost(trace: Trace | None, block: Block, begun: Window) -> float:
    """The cost of a block's lines standing in wrong order among those of blocks handed out."""
    beside: list[Entry] = []
    for member, node in enumerate(_nodes(trace), 1):
        if node.block.end.seq < block.first_seq or member > KEEP_BESIDE:
            break
        beside.extend(entries(node.block.certain, node.passing.begun, member))
    if not beside:
        return 0.0
    return disorder([*beside, *entries(block.certain, begun, 0)]) - disorder(beside)


def _nodes(trace: Trace | None) -> Iterator[Trace]:
    while trace is not None:
        yield trace
        trace = trace.before


def _served(trace: Trace | None) -> dict[Call, Block]:
    return {node.call: node.block for node in _nodes(trace) if node.call is not None}


def _shortened(trace: Trace | None, oldest: int) -> Trace | None:
    """The trace without what ended before `oldest`."""
    kept = [node for node in _nodes(trace) if node.block.end.seq >= oldest]
    short: Trace | None = None
    for node in reversed(kept):
        short = node._replace(before=short)
    return short


def _passed(passing: Passing, block: Block) -> Block:
    """The block with what the lock's holder before says of it."""
    begun = (max(block.begun[0], passing.begun[0]), min(block.begun[1], passing.begun[1]))
    if begun[0] > begun[1]:
        begun = passing.begun
    if block.opened is None:
        return block._replace(begun=begun)
    return block._replace(
        begun=begun,
        opened=opening(block.lines, passing.alone),
        soon=passing.soon + since_start(block.lines),
    )
