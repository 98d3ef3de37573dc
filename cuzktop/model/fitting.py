"""S19–S40: how well a block fits a call, whoever else may want it.

The call's CPU lines lead from its entry to prep_msm, for which the block's kernels waited or not,
and to b_g2_msm. The call ends soon after that and after the block; and its worker, free again after
the block, takes its next item after a time that is much the same for all calls.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Sequence

from cuzktop.model.blocks import Block, since_start
from cuzktop.model.chains import MISSING
from cuzktop.model.kinds import C11
from cuzktop.model.lateness import FORBIDDEN, Window, early_cost, gap_cost, misfit, start_cost
from cuzktop.model.options import Option
from cuzktop.model.preparation import FINISH_MS, Finish, finish_cost
from cuzktop.model.state import Call, Line

NEAR_COST = 4.0  # sets of CPU lines this much dearer than the best don't say when a block began
UNLIKELY = 6.0  # and those this much dearer don't say when the CPU thread was started
UNKNOWN_SETUP_MS = 40.0  # a call asks for the lock at most so long after its entry
EPILOGUE_MS = 4.0  # from the end of all work to the epilogue, as a rule
EPILOGUE_LIMIT = 6.0  # an epilogue that costs more is another call's

LEAST_KNOWN = 5  # calls from which what is usual is learnt
KEEP_KNOWN = 63
LEARN_EVERY = 8  # the most usual gap is looked for again after so many calls
SOON_MS, SOON_WEIGHT = 20.0, 0.4  # before anything is learnt: the sooner, the likelier
UNKNOWN_FREEING_MS = 30.0  # a call gives the lock back and returns within so long of its block


class Fitting:
    """Tells how well blocks fit calls, and learns what is usual."""

    def __init__(self) -> None:
        """Nothing is known of this daemon's pace."""
        # From a call's block to its worker's next pickup: the newest ones, and the same sorted.
        self._gaps: deque[float] = deque()
        self._sorted: list[float] = []
        self._best = 0.0  # the log density of the most usual gap
        self._fresh = 0  # gaps since it was looked for

    # ------------------------------------------------------------ a block and a call

    def fits(self, call: Call, block: Block) -> tuple[tuple[float, Window], ...]:
        """The cost of a block being a call's, and when the block began then.

        Where its kernels waited there is a second answer: they waited for no prep_msm, which had
        been there, but their thread for a CPU; then it may have begun later, and that is seldom.
        """
        if block.end.seq >= call.deadline_seq:
            return ()
        cost, begun = self._fit(call, block)
        if cost >= FORBIDDEN:
            return ()
        ntt = block.lines[0]
        if not block.waited or ntt is None or begun[1] >= block.begun[1]:
            return ((cost, begun),)
        stalled = start_cost(since_start(block.lines) - ntt.a)
        return (cost, begun), (cost + stalled, (begun[0], block.begun[1]))

    def _fit(self, call: Call, block: Block) -> tuple[float, Window]:
        """The same, with kernels that waited for prep_msm if they waited."""
        fits: list[tuple[float, Window]] = []
        best = MISSING
        for option in call.cpu_options:
            if option.cost > best + NEAR_COST:
                break
            cost = option.cost + self._agreement(call, block, option)
            prepared = option.due[1] if option.lines[1] is not None else None
            begun = block.begun
            if block.waited and block.opened is not None and prepared is not None:
                # It began so long before prep_msm was done as its kernels and their wait took.
                back = block.opened[1] - block.begun[1]
                lo = max(block.begun[0], prepared[0] - back, call.begun[0])
                hi = min(block.begun[1], prepared[1] - back + 4)
                cost += 2.0 * early_cost(lo - hi)
                begun = (min(lo, hi), max(lo, hi) + 0.5)
            if cost < MISSING:
                fits.append((cost, begun))
                best = min(best, cost)
        near = [begun for cost, begun in fits if cost <= best + NEAR_COST]
        if not near:
            return best, block.begun
        return best, (min(lo for lo, _ in near), max(hi for _, hi in near))

    def _agreement(self, call: Call, block: Block, option: Option) -> float:
        """The cost of a block and CPU lines being of one call."""
        _, prep, b_g2 = option.lines
        _, prep_due, b_g2_due = option.due
        cost = 0.0
        batch = block.lines[1]
        if prep is not None and prep_due is not None and block.opened is not None:
            if batch is not None and prep.seq > batch.seq:
                return FORBIDDEN
            if prep_due[0] > block.opened[1]:
                cost += 2.0 + 2.0 * early_cost(prep_due[0] - block.opened[1])
            elif block.waited and prep_due[1] < block.opened[0]:
                cost += start_cost(block.opened[0] - prep_due[1])
        if b_g2 is not None and b_g2_due is not None:
            finish = self.finish(call, block)
            if finish is not None:
                cost += finish_cost(finish, min(b_g2.hi, max(b_g2_due[1], b_g2.lo)))
                if call.done is not None:
                    cost += early_cost(block.ended[0] - call.done[1])
        return cost

    def finish(self, call: Call, block: Block | None) -> Finish | None:
        """What the call's end says of the end of its work, if this block is its own."""
        if call.end is None or call.failed:
            return None
        if call.returned is not None:
            return Finish(call.end, FINISH_MS, call.returned)
        if block is None:
            return None
        if call.done is not None:
            return Finish(call.done[0], EPILOGUE_MS, block.ended[1])
        if call.next_waited and call.next_pickup is not None:
            return Finish(call.end, FINISH_MS, call.next_pickup)
        usual = UNKNOWN_FREEING_MS
        if len(self._sorted) >= LEAST_KNOWN:
            usual = 6.0 + 3.0 * self._sorted[len(self._sorted) // 2]
        return Finish(call.end, FINISH_MS, block.ended[1] + usual)

    # ------------------------------------------------------------ the next pickup

    def after(self, call: Call, ended: Window) -> float:
        """The cost of its worker's next pickup so long after the call's block, by what is usual."""
        pickup = call.next_pickup
        if pickup is None or not call.next_waited or call.done:
            return 0.0
        known = self._sorted
        least, most = pickup - ended[1], pickup - ended[0]
        soon = SOON_WEIGHT * math.log(1.0 + max(0.0, least) / SOON_MS)
        if len(known) < LEAST_KNOWN:
            return soon
        at = bisect_left(known, least)
        usual = known[at] if at < len(known) else most
        gap = min(max(usual, least), most)
        if not math.isfinite(gap):
            return soon
        return soon + max(0.0, self._best - _log_density(known, gap))

    def learn(self, call: Call, block: Block) -> None:
        """The block is the call's: remember how long after it the next pickup came."""
        if not call.next_waited or call.next_pickup is None:
            return
        gap = call.next_pickup - sum(block.ended) / 2
        if not math.isfinite(gap):  # nothing bounds the block's end
            return
        known = self._sorted
        self._gaps.append(gap)
        insort(known, gap)
        if len(known) > KEEP_KNOWN:
            del known[bisect_left(known, self._gaps.popleft())]
        self._fresh += 1
        if self._fresh >= LEARN_EVERY or len(known) < KEEP_KNOWN:
            self._fresh = 0
            self._best = max(_log_density(known, one) for one in known[::4])


def _log_density(known: Sequence[float], gap_ms: float) -> float:
    """The logarithm of how often a gap so long was seen, per ms; `known` is sorted."""
    width = 2.0 + 0.15 * abs(gap_ms)
    near = bisect_right(known, gap_ms + width) - bisect_left(known, gap_ms - width)
    return math.log((near + 0.2) / (len(known) + 1) / width)


# ---------------------------------------------------------------- a call


def note_epilogue(call: Call, pool: Sequence[Line]) -> None:
    """S19–S23: find the call's own last line in `pool`, which says when all its work was done."""
    best, best_cost = None, EPILOGUE_LIMIT
    for line in pool:
        if line.owned or not call.start_seq <= line.seq < call.end_seq:
            continue
        if call.gpu_ms is not None and call.gpu_ms < line.b:
            continue
        cost = misfit(call.entry_lo + line.b, call.entry_hi + line.b + 1, line)
        if call.gpu_ms is not None:
            cost += gap_cost(call.gpu_ms - line.b, 4.0, 1.0)
        if cost < best_cost:
            best, best_cost = line, cost
    if best is None:
        return
    best.owned = True
    call.lines[C11] = best
    call.deadline_seq = min(call.deadline_seq, best.seq)
    since = best.b - best.a
    call.done = (call.entry_lo + since - 1, call.entry_hi + since + 1)
    call.done_seq = best.seq


def asked(call: Call) -> Window:
    """When the call's CPU thread was started, by its likeliest C1; it asks for the lock then."""
    best = call.cpu_options[0].cost if call.cpu_options else 0.0
    lo, hi = math.inf, -math.inf
    for option in call.cpu_options:
        setup, due = option.lines[0], option.due[0]
        if option.cost > best + UNLIKELY:
            break
        if setup is None or due is None:
            lo, hi = min(lo, call.entry_lo), max(hi, call.entry_hi + UNKNOWN_SETUP_MS)
        else:
            lo, hi = min(lo, max(due[0], setup.lo)), max(hi, due[1], setup.lo)
    return (lo, hi) if lo <= hi else (call.entry_lo, call.entry_hi + UNKNOWN_SETUP_MS)
