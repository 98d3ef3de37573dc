"""S19–S40: who held the lock, when nothing printed says so.

What a call's GPU thread prints under the lock (C6, C8, C9) is a block. Its figures count from the
thread's start, so its lines find each other by their times. Blocks under one lock follow one
another, and each begins when the lock is free and its call is ready for it: then at once. A worker
takes its next item only after its call gave the lock back, a call ends only after its block, and
where the kernels waited, prep_msm of the block's call was done at that time.

The blocks are handed out in the order in which they ended, and several ways of doing so are
followed until the log has told enough: a wrong one soon leaves a call without a block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import NamedTuple

from cuzktop.model.chains import LIMIT, MISSING, SLACK_COST, SLACK_MAX_MS, Pools
from cuzktop.model.joint import LOSS, Contest, Entry, Option, Verdict, alone, disorder
from cuzktop.model.kinds import C6, C8, C9
from cuzktop.model.lateness import FORBIDDEN, GRACE_MS, Window, early_cost, misfit, print_cost
from cuzktop.model.state import Call, Line

ORPHAN = 18.0  # the cost of a block that is nobody's: its call's GPU_START was lost
EARLY_ORPHAN = 1.0  # the same where calls were under way before the log begins
UNSERVED = 16.0  # the cost of a call without a block: its lines were lost
CERTAIN = 4.0  # lines of a block with a smaller margin don't say when it began
KEEP_STRAYS = 32
KEEP_PARTS = 16  # sets of lines that one block's end could close
KEEP_WAYS = 48  # ways of handing out that are followed at a time
PASSING_MS = 10.0  # from a block's end to the next one's beginning, as a rule: three threads wake
KEEP_BESIDE = 8  # blocks among whose lines those of the next one can stand
TURN_MS = 5.0
OUT_OF_TURN = 0.3  # who has waited longest is a little likelier to have the lock next
ALIKE_MS = 3.0  # ways whose locks are free at times as near are the same
UNKNOWN_HOLDER = 9.0  # the most that a late beginning costs: someone unseen held the lock
BARRIER = 3.5  # the cost of kernels that had to wait, whatever the time
TOLD_APART = 20.0  # ways dearer than the best by more are given up
PATIENCE = 3  # how many more blocks than workers are waited for before a toss-up is settled


class Block(NamedTuple):
    """What one call's GPU thread printed."""

    lines: tuple[Line | None, Line | None, Line]  # C6, C8, C9
    certain: tuple[Line | None, Line | None, Line]  # without those that may be another's
    begun: Window
    ended: Window
    opened: Window | None  # when prep_msm was there at the latest; None: not known
    soon: float | None  # and by when, as a rule
    waited: bool
    first_seq: int
    sure: float  # the margin of these lines belonging together


class Way:
    """One way of handing out the blocks so far."""

    __slots__ = ("cost", "free", "margins", "open", "trace")

    def __init__(
        self,
        cost: float,
        free: dict[int, Free],
        open_: frozenset[Call],
        trace: Trace | None,
        margins: dict[Call, float],
    ) -> None:
        """`free` says of each lock when it was given back; `open_` are calls without a block."""
        self.cost = cost
        self.free = free
        self.open = open_
        self.trace = trace
        self.margins = margins


class Free(NamedTuple):
    """A lock was given back: when, and where in the log its last block ended."""

    at: Window
    seq: int


class Trace(NamedTuple):
    """Who had which block, the newest first."""

    call: Call | None
    block: Block
    begun: Window  # by all that is known of the call
    alone: Window  # by its own lines and the lock's holder before
    soon: float  # it begins by then as a rule
    before: Trace | None
    depth: int


class Handover:
    """Hands blocks out to calls.

    `fit` gives the cost of a block being a call's, without regard to others, and when it began
    then; `after` the cost of what the call's worker did after a block that ended in a window.
    """

    def __init__(
        self,
        fit: Callable[[Call, Block], tuple[float, Window]],
        after: Callable[[Call, Window], float],
    ) -> None:
        """No block has been seen."""
        self._fit = fit
        self._after = after
        self._ways = [Way(0.0, {}, frozenset(), None, {})]
        self._known: set[Call] = set()  # calls that the ways have in `open` or in their trace
        self._fits: dict[tuple[int, int], tuple[float, Window]] = {}
        self._handed: list[Block] = []  # whose calls aren't all settled
        self.one_lock = True  # all calls take the same one
        self.doubtful = False  # that is only likely
        self._failures: list[Call] = []
        self._reached = -1  # the place of the newest block that was handed out
        self._parts: dict[Line, list[Option]] = {}  # what each C9 could close
        self._used: set[Line] = set()  # lines of blocks that were handed out
        # How sure older verdicts leave a block's lines: when formed, and when settled.
        self._past_strays: list[tuple[int, int]] = []
        self._doubts: dict[Line, float] = {}
        self._final_doubts: dict[Line, float] = {}
        self.known_from = 0  # before that place of the log, calls may be missing
        self.staging_ms = 0.0  # what S20–S27 do under the lock before the block begins

    # ------------------------------------------------------------ blocks

    def _form(self, pools: Pools, frontier: int) -> list[Block]:
        """The blocks that ended before `frontier` and have not been handed out, in order."""
        ends = [line for line in pools[C9] if line.seq > self._reached and line.owner is None]
        if not ends or ends[0].seq >= frontier:
            return []
        parts: dict[Line, list[Option]] = {}
        before = self._reached
        for end in ends:
            parts[end] = self._possible(pools, end, before if self.one_lock else -1)
            if self.one_lock:
                before = end.seq
        contest = Contest({} if self.one_lock else parts, _figures)
        blocks: list[Block] = []
        for end in ends:
            if end.seq >= frontier:
                break
            if self.one_lock:  # blocks follow one another, so that none wants another's lines
                blocks.append(_block(end, alone(parts[end], _figures)))
                continue
            verdict, doubts = contest.verdict(end)
            contest.give(end, verdict.option)
            _lower(self._doubts, doubts)
            sure = min(verdict.margin, self._doubts.get(end, verdict.margin))
            blocks.append(_block(end, verdict._replace(margin=sure)))
        return blocks

    def _span(self, end: Line) -> tuple[int, int]:
        """The places of the log between which a block's lines stand, whichever they are."""
        some = self._parts.get(end, ())
        return (
            min((line.seq for option in some for line in option.lines if line), default=end.seq),
            end.seq,
        )

    def _possible(
        self, pools: Pools, end: Line, after: int = -1, free: AbstractSet[Line | None] = frozenset()
    ) -> list[Option]:
        """The sets (C6, C8, C9) that `end` could close, by cost.

        Only lines that no block has, or that are `free` again.
        """
        known = self._parts.get(end)
        if known is None:
            known = self._parts[end] = _parts(pools, end, after)
        used = self._used - free if free else self._used
        return [
            option
            for option in known
            if used.isdisjoint(option.lines)
            and all(line is None or line.owner is None for line in option.lines)
        ]

    # ------------------------------------------------------------ handing out

    def hand_out(self, pools: Pools, frontier: int, calls: Sequence[Call]) -> None:
        """Extend every way by the blocks before `frontier`.

        `calls` are all that could have one of them.
        """
        blocks = self._form(pools, frontier)
        if not blocks:
            return
        if self.one_lock and self.doubtful and _overlap([*self._handed[-1:], *blocks]):
            # Two calls were under a lock at a time, so these are two locks: begin anew.
            self.one_lock = False
            if self._handed:
                self._reached = self._handed[0].first_seq - 1
            self._handed.clear()
            self._used.clear()
            self._parts.clear()
            self._ways = [Way(0.0, {}, frozenset(), None, {})]
            self._known.clear()
            self._failures.clear()
            self._fits.clear()
            blocks = self._form(pools, frontier)
        pending = [call for call in calls if call not in self._known]
        self._handed.extend(blocks)
        for block in blocks:
            end = block.lines[2]
            fresh = [call for call in pending if call.start_seq < end.seq]
            if fresh:
                pending = [call for call in pending if call.start_seq >= end.seq]
                self._known.update(fresh)
                for way in self._ways:
                    way.open = way.open.union(fresh)
                self._failures.extend(call for call in fresh if call.failed)
            self._advance(block)
            self._used.update(line for line in block.lines if line is not None)
            self._reached = end.seq

    def _advance(self, block: Block) -> None:
        end = block.lines[2]
        more: dict[tuple[object, ...], Way] = {}
        for way in self._ways:
            cost, open_ = way.cost, way.open
            overdue = [call for call in open_ if call.deadline_seq <= end.seq]
            if overdue:
                open_ = open_.difference(overdue)
                cost += sum(0.0 if call.failed else UNSERVED for call in overdue)
            depth = 1 + (way.trace.depth if way.trace else 0)
            for call in open_:
                if call.start_seq >= block.first_seq:
                    continue
                fit, begun = self._fit_of(call, block)
                if fit >= FORBIDDEN:
                    continue
                lock = self._lock_of(call)
                more_cost, begun, alone, soon = self._passing(way, open_, call, lock, block, begun)
                if more_cost >= FORBIDDEN:
                    continue
                total = end.b
                ended = (begun[0] + total, begun[1] + total + 1)
                more_cost += self._after(call, ended)
                if not self.one_lock:
                    more_cost += _order_cost(way.trace, block, begun)
                free = {**way.free, lock: Free(ended, end.seq)}
                trace = Trace(call, block, begun, alone, soon, way.trace, depth)
                self._keep(
                    more,
                    Way(cost + fit + more_cost, free, open_ - {call}, trace, way.margins),
                )
            trace = Trace(None, block, block.begun, block.begun, math.inf, way.trace, depth)
            nobody = EARLY_ORPHAN if block.first_seq < self.known_from else ORPHAN
            self._keep(more, Way(cost + nobody, way.free, open_, trace, way.margins))
        ways = sorted(more.values(), key=lambda way: way.cost)
        best = ways[0]
        self._ways = [way for way in ways[:KEEP_WAYS] if way.cost <= best.cost + TOLD_APART]
        for way in ways[KEEP_WAYS:]:
            if way.cost <= best.cost + TOLD_APART:
                _note_margins(best, way)
                break

    def _keep(self, more: dict[tuple[object, ...], Way], way: Way) -> None:
        """Keep the cheaper of two ways that leave the same to come."""
        key = (
            way.open,
            *sorted((lock, free.seq, free.at[0] // ALIKE_MS) for lock, free in way.free.items()),
        )
        other = more.get(key)
        if other is None:
            more[key] = way
        elif way.cost < other.cost:
            more[key] = way
            _note_margins(way, other)
        else:
            _note_margins(other, way)

    def _lock_of(self, call: Call) -> int:
        return 0 if self.one_lock else call.lock

    def _fit_of(self, call: Call, block: Block) -> tuple[float, Window]:
        key = (id(call), block.lines[2].seq)
        fit = self._fits.get(key)
        if fit is None:
            fit = self._fits[key] = self._fit(call, block)
        return fit

    def _passing(
        self,
        way: Way,
        open_: frozenset[Call],
        call: Call,
        lock: int,
        block: Block,
        begun: Window,
    ) -> tuple[float, Window, Window, float]:
        """The cost of the time that passed before the block, and when it began.

        The lock is taken as soon as it is free and anyone is ready for it. The second window and
        the time by which it begins as a rule don't regard `begun`.
        """
        free = way.free.get(lock)
        lo, hi = begun
        ready_lo, ready_hi = call.begun
        first_hi = ready_hi
        for other in open_:
            if other.begun[1] < first_hi and self._lock_of(other) == lock:
                first_hi = other.begun[1]
        wanted_hi, ready_at = first_hi, ready_lo
        if free is not None:
            if free.seq > block.first_seq:
                return FORBIDDEN, begun, begun, math.inf
            ready_lo = max(ready_lo, free.at[0])
            wanted_hi = max(wanted_hi, free.at[1])
        for failed in self._failures:
            if self._lock_of(failed) != lock or failed.end is None:
                continue
            if wanted_hi < failed.end <= hi + PASSING_MS:
                wanted_hi = failed.end
        soon = wanted_hi + PASSING_MS + self.staging_ms
        alone = (max(block.begun[0], min(ready_lo, block.begun[1])), block.begun[1])
        if ready_lo > hi:
            return 2.0 * early_cost(ready_lo - hi), begun, alone, soon
        lo = max(lo, ready_lo)
        if lo <= soon:
            cost = min(2.0, 0.3 * max(0.0, lo - wanted_hi - 2.0))
            if first_hi < ready_at - TURN_MS:
                cost += OUT_OF_TURN
            return cost, (lo, max(lo, min(hi, soon))), alone, soon
        if lock < 0:  # others may hold it, too
            return 0.0, (lo, hi), alone, math.inf
        cost = 2.0 + print_cost(min(600.0, lo - soon))
        most = UNKNOWN_HOLDER if free is not None else UNKNOWN_HOLDER / 2
        return min(cost, most), (lo, hi), alone, soon

    # ------------------------------------------------------------ what is decided

    def decided(
        self, ripe: Sequence[Call], frontier: int, patience: int
    ) -> list[tuple[Call, Block | None, float]]:
        """The calls of `ripe` whose block is known now, with the margin of that.

        A call is known when all ways agree about it, or when so many blocks ended after its own
        end that no more can be hoped for.
        """
        best = self._ways[0]
        served = _served(best.trace)
        others = [(way.cost - best.cost, _served(way.trace), way.margins) for way in self._ways[1:]]
        after = [node.block.lines[2].seq for node in _nodes(best.trace)]
        strays = self._strays(best, served)
        result: list[tuple[Call, Block | None, float]] = []
        for call in ripe:
            if call not in self._known:  # no block ended since it began
                if frontier > call.end_seq:
                    result.append((call, None, TOLD_APART))
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
            passed = sum(seq > call.end_seq for seq in after)
            if agreed or passed >= patience or frontier > call.end_seq + (1 << 60):
                result.append((call, block, margin))
        return result

    def _strays(self, best: Way, served: Mapping[Call, Block]) -> list[tuple[int, int]]:
        """Where in the log blocks without a call stand, and calls without a block: lines were lost.

        What is beside them may have changed hands unseen.
        """
        orphans = [node.block for node in _nodes(best.trace) if node.call is None]
        spans = [(block.first_seq, block.lines[2].seq + 1) for block in orphans]
        for call in self._known:
            if call.failed or call in served or call in best.open:
                continue
            spans.append((call.start_seq, call.deadline_seq))
        return [*self._past_strays, *spans]

    def sharpened(self, pools: Pools, calls: Iterable[Call]) -> dict[Call, Block]:
        """The blocks of `calls` made anew, now that it is known better when each began."""
        nodes = [
            node
            for node in reversed(list(_nodes(self._ways[0].trace)))
            if node.block.lines[2].owner is None
        ]
        wanted = set(calls)
        if self.one_lock:
            return {
                node.call: _held(node, node.block)
                for node in nodes
                if node.call is not None and node.call in wanted
            }
        # The others matter as far as their lines stand among those of blocks that are asked for.
        spans = {node.block.lines[2]: self._span(node.block.lines[2]) for node in nodes}
        asked = [spans[node.block.lines[2]] for node in nodes if node.call in wanted]
        first = min((span[0] for span in asked), default=0)
        last = max((span[1] for span in asked), default=0)
        near = [span for span in spans.values() if span[1] >= first and span[0] <= last]
        first = min((span[0] for span in near), default=first)
        last = max((span[1] for span in near), default=last)
        nodes = [
            node
            for node in nodes
            if spans[node.block.lines[2]][1] >= first and spans[node.block.lines[2]][0] <= last
        ]
        parts = {}
        mine = {line for node in nodes for line in node.block.lines}
        for node in nodes:
            end = node.block.lines[2]
            parts[end] = _parts(pools, end, -1, self._used - mine, node.begun)
        for end in pools[C9]:  # those not handed out yet want lines, too
            if end.seq > self._reached:
                parts[end] = self._possible(pools, end, free=mine)
        contest = Contest(parts, _figures)
        blocks: dict[Call, Block] = {}
        for node in nodes:
            if node.call in wanted and node.call is not None:
                end = node.block.lines[2]
                verdict, doubts = contest.verdict(end)
                contest.give(end, verdict.option)
                _lower(self._final_doubts, doubts)
                sure = min(verdict.margin, self._final_doubts.get(end, verdict.margin))
                block = _block(end, verdict._replace(margin=sure), node.begun)
                if None in block.lines and None not in node.block.lines:
                    block = node.block._replace(sure=0.0)  # what is known better doesn't fit it
                blocks[node.call] = _held(node, block)
        return blocks

    def settle(self, calls: Sequence[Call], oldest: int) -> None:
        """These calls are settled as the best way has it; lines before `oldest` are past."""
        best = self._ways[0]
        served = _served(best.trace)
        gone = set(calls)
        self._past_strays = [span for span in self._strays(best, served) if span[1] >= oldest][
            -KEEP_STRAYS:
        ]
        self._ways = [
            way
            for way in self._ways
            if way is best
            or all(
                other.get(call) is served.get(call)
                for other in (_served(way.trace),)
                for call in calls
            )
        ]
        for way in self._ways:
            way.open = way.open.difference(gone)
            way.margins = {call: sure for call, sure in way.margins.items() if call not in gone}
            way.trace = _shortened(way.trace, oldest)
        self._known.difference_update(gone)
        ids = {id(call) for call in gone}
        self._fits = {key: fit for key, fit in self._fits.items() if key[0] not in ids}
        self._failures = [call for call in self._failures if call.end_seq >= oldest][-16:]
        self._used = {line for line in self._used if line.seq >= oldest}
        self._parts = {end: some for end, some in self._parts.items() if end.seq >= oldest}
        for doubts in (self._doubts, self._final_doubts):
            for line in [line for line in doubts if line.seq < oldest]:
                del doubts[line]
        self._handed = [
            block
            for block in self._handed
            if block.lines[2].seq >= oldest and block.lines[2].owner is None
        ]

    def likely(self) -> dict[Call, Block]:
        """The blocks of calls that aren't settled yet, by the best way."""
        return _served(self._ways[0].trace)


def _lower(doubts: dict[Line, float], more: Mapping[Line, float]) -> None:
    """Note how sure a verdict leaves the blocks that want the same lines."""
    for end, sure in more.items():
        doubts[end] = min(sure, doubts.get(end, sure))


def _held(node: Trace, block: Block) -> Block:
    """The block with what the lock's holder before says of it."""
    begun = (max(block.begun[0], node.begun[0]), min(block.begun[1], node.begun[1]))
    if begun[0] > begun[1]:
        begun = node.begun
    if block.opened is None:
        return block._replace(begun=begun)
    return block._replace(
        begun=begun,
        opened=_opened(block.lines, node.alone),
        soon=node.soon + _since(block.lines),
    )


def _nodes(trace: Trace | None) -> Iterable[Trace]:
    while trace is not None:
        yield trace
        trace = trace.before


def _served(trace: Trace | None) -> dict[Call, Block]:
    return {node.call: node.block for node in _nodes(trace) if node.call is not None}


def _shortened(trace: Trace | None, oldest: int) -> Trace | None:
    """The trace without what ended before `oldest`."""
    kept = [node for node in _nodes(trace) if node.block.lines[2].seq >= oldest]
    short: Trace | None = None
    for node in reversed(kept):
        short = node._replace(before=short)
    return short


def _note_margins(kept: Way, dropped: Way) -> None:
    """Note for every call served differently how much dearer the dropped way is."""
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


# ---------------------------------------------------------------- blocks


def _order_cost(trace: Trace | None, block: Block, begun: Window) -> float:
    """The cost of a block's lines standing in wrong order among those of blocks handed out."""
    beside: list[Entry] = []
    for member, node in enumerate(_nodes(trace), 1):
        if node.block.lines[2].seq < block.first_seq or member > KEEP_BESIDE:
            break
        beside.extend(_entries(node.block.certain, node.begun, member))
    if not beside:
        return 0.0
    return disorder([*beside, *_entries(block.certain, begun, 0)]) - disorder(beside)


def _entries(
    lines: tuple[Line | None, Line | None, Line], begun: Window, member: int
) -> list[Entry]:
    """When the lines of a block that began in a window were due."""
    ntt, batch, end = lines
    lo, hi = begun
    entries = [Entry(end.seq, lo + end.b, hi + end.b + 1, end.lo, end.hi, member)]
    if ntt is not None:
        entries.append(Entry(ntt.seq, lo + ntt.a, hi + ntt.a + 1, ntt.lo, ntt.hi, member))
    if batch is not None:
        since = end.b - end.a
        due = (lo + since - 1, hi + since + 1)
        entries.append(Entry(batch.seq, *due, batch.lo, batch.hi, member))
    return entries


def _parts(
    pools: Pools,
    end: Line,
    after: int,
    used: AbstractSet[Line | None] = frozenset(),
    begun: Window = (-math.inf, math.inf),
) -> list[Option]:
    """The sets (C6, C8, C9) that `end` could close, by cost.

    Only lines after place `after` and not in `used`; `begun` is when the thread began, if known.
    """
    total, tail = end.b, end.a
    oldest = end.lo - total - 40.0
    ntts, batches = (
        [
            line
            for line in pools[kind]
            if after < line.seq < end.seq
            and line.hi >= oldest
            and line.owner is None
            and line not in used
        ]
        for kind in (C6, C8)
    )
    options: list[Option] = []
    for batch in batches:
        lo = max(begun[0], end.lo - total - 1, batch.lo - (total - tail) - 1)
        hi = min(begun[1], end.hi - total, batch.hi - (total - tail) + 1)
        cost = _apart(lo, hi)
        if cost > LIMIT:
            continue
        for ntt in ntts:
            if ntt.seq > batch.seq:
                break
            slack = total - tail - batch.a - ntt.a
            if slack < 0:
                continue
            begun_lo, begun_hi = max(lo, ntt.lo - ntt.a - 1), min(hi, ntt.hi - ntt.a)
            fit = _apart(begun_lo, begun_hi)
            if fit > LIMIT:
                continue
            fit += SLACK_COST[slack] if slack < len(SLACK_COST) else BARRIER
            if begun_lo > begun_hi:
                begun_lo, begun_hi = begun_hi, begun_lo
            due = (
                (begun_lo + ntt.a, begun_hi + ntt.a + 1),
                (begun_lo + total - tail - 1, begun_hi + total - tail + 1),
                (begun_lo + total, begun_hi + total + 1),
            )
            options.append(Option(fit, (ntt, batch, end), due))
        options.append(Option(cost + BARRIER + MISSING, (None, batch, end), (None,) * 3))
    for ntt in ntts:
        if ntt.a <= total - tail:
            cost = misfit(end.lo - total + ntt.a - 1, end.hi - total + ntt.a + 1, ntt)
            if cost <= LIMIT:
                options.append(Option(cost + BARRIER + MISSING, (ntt, None, end), (None,) * 3))
    options.append(Option(BARRIER + 2 * MISSING, (None, None, end), (None,) * 3))
    options.sort(key=lambda option: option.cost)
    return options[:KEEP_PARTS]


def _overlap(blocks: Sequence[Block]) -> bool:
    """Whether two blocks that follow one another were under way at the same time."""
    return any(
        later.begun[1] < earlier.ended[0] - PASSING_MS or None in later.lines
        for earlier, later in pairwise(blocks)
    )


def _apart(lo: float, hi: float) -> float:
    """The cost of bounds that don't meet: some line came late, or a clock was old."""
    gap = lo - hi
    if gap <= 0.0:
        return 0.0
    return print_cost(gap)


def _figures(lines: Sequence[Line | None]) -> tuple[int | None, ...]:
    return tuple(None if line is None else line.a for line in lines)


def _since(lines: tuple[Line | None, Line | None, Line]) -> int:
    """From the beginning of the thread to the opening of its barrier."""
    _, batch, end = lines
    return end.b - end.a - (0 if batch is None else batch.a)


def _opened(lines: tuple[Line | None, Line | None, Line], begun: Window) -> Window | None:
    """When prep_msm was there at the latest, for a thread that began in `begun`."""
    if lines[1] is None:
        return None
    since = _since(lines)
    return begun[0] + since - 4, begun[1] + since


def _block(end: Line, verdict: Verdict, begun: Window = (-math.inf, math.inf)) -> Block:
    """The block that `end` closes; a line that could be another as well tells no time."""
    ntt = batch = None
    if verdict.option.lines:
        ntt, batch, _ = verdict.option.lines
    told_ntt, told_batch = ntt, batch
    if verdict.margin < CERTAIN:
        other_ntt = other_batch = None
        if verdict.rival is not None and verdict.rival.lines:
            other_ntt, other_batch, _ = verdict.rival.lines
        told_ntt = ntt if ntt is other_ntt else None
        told_batch = batch if batch is other_batch else None
    total, tail = end.b, end.a
    lo, hi = max(begun[0], end.lo - total - 1), min(begun[1], end.hi - total)
    if told_batch is not None:
        since = total - tail
        lo, hi = max(lo, told_batch.lo - since - 1), min(hi, told_batch.hi - since + 1)
    if told_ntt is not None:
        lo, hi = max(lo, told_ntt.lo - told_ntt.a - 1), min(hi, told_ntt.hi - told_ntt.a)
    if lo > hi:
        lo, hi = hi, lo
    waited = False
    if told_ntt is not None and told_batch is not None:
        waited = _since((ntt, batch, end)) - told_ntt.a > SLACK_MAX_MS
    first = next(line for line in (told_ntt, told_batch, end) if line is not None)
    return Block(
        (ntt, batch, end),
        (told_ntt, told_batch, end),
        (lo, hi),
        (lo + total, hi + total + 1 + GRACE_MS),
        None if told_batch is None else _opened((ntt, batch, end), (lo, hi)),
        None,
        waited,
        first.seq,
        0.0 if ntt is None or batch is None else verdict.margin,
    )
