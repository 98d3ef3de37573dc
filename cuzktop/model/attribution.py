"""Whose line is it: the anonymous lines of the prove calls get their owners.

What is known. A call is entered at an instant that GPU_START, GPU_END − gpu_ms and the start call's
own report bound to a few milliseconds. Each of its lines states durations that lead back to that
instant: the lock was taken at entry + pre_lock + wait, the NTT was done ntt_msm_h later, and so on.
So a line that was written in `[lo, hi]` and states `d` belongs to a call entered about `d` before.

What is done. When a call has ended, the sets of lines that could be its own are listed with their
costs (`chains`: the lock and the kernels; `preparation`: the CPU). When all calls that overlap it
have ended too, every line that it could own has been read, and so have all that its rivals could
own: then the cheapest assignment of all of them together is looked for (`joint`). Before S41 the
lock leaves no lines, and what the GPU threads printed is handed out in order (`handover`). The
attribution is `exact` when the next best that would change a figure costs at least `SURE` more,
`inferred` otherwise.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from cuzktop.model.chains import MISSING, printed_chains
from cuzktop.model.handover import PATIENCE, Block, Handover
from cuzktop.model.joint import HORIZON, NOTHING, Contest, Hold, Option, Verdict, overlaps
from cuzktop.model.kinds import C1, C2, C3, C4, C6, C7, C8, C9, C10, C11, KINDS
from cuzktop.model.lateness import (
    FORBIDDEN,
    GRACE_MS,
    Window,
    early_cost,
    gap_cost,
    misfit,
    start_cost,
)
from cuzktop.model.preparation import (
    FINISH_MS,
    WAITED_MS,
    Barrier,
    Bounds,
    Finish,
    finish_cost,
    preparations,
)
from cuzktop.model.state import Call, Line

SURE = 6.0  # e^6: the next best assignment is four hundred times less likely
TOSS_UP = 0.4  # figures on which choices so near to each other differ are not given
POOR_CPU = 8.0
POOR = 16.0  # a set of lines that costs more isn't exact: something else has happened
MAX_WAITING_CALLS = 192  # unsettled calls: 8 GPUs, 4 workers, 6 calls each; more are forced
TIE_MARGIN = 4.0  # sets this much dearer than the best don't disturb what it says of times
KEEP_OLDER = 64  # lines dropped at a time, so that dropping costs little a line
KEEP_LINES = 4096  # anonymous lines that are remembered for their order
NEIGHBOURS = 8  # lines above and below that are asked for their time
GHOST_LINES = 400  # so long after a failure its CPU thread may still print
ENTRY_MS = 2.5  # GPU_END − gpu_ms is the entry, rounded twice; rarely later, when it was stalled
MIN_FREEING = 5
SOON_MS, SOON_WEIGHT = 20.0, 0.4  # what is known before: the sooner, the likelier
KEEP_FREEING = 63  # calls from which the usual time between a block and the next pickup is learnt
UNKNOWN_SETUP_MS = 40.0
KEEP_HOLDS = 16
EPILOGUE_MS = 4.0  # from the end of all work to the epilogue, as a rule

CHAIN = (C4, C6, C7, C8, C9, C10)
CPU = (C1, C2, C3)

__all__ = [
    "C1",
    "C2",
    "C3",
    "C4",
    "C6",
    "C7",
    "C8",
    "C9",
    "C10",
    "C11",
    "KINDS",
    "SURE",
    "Attributor",
    "bound_entry",
    "misfit",
]


class Attributor:
    """Holds the anonymous lines of one run until their calls are known.

    `on_settled` is called once for each call, in the order of settling, when nothing more will
    change about it.
    """

    def __init__(self, on_settled: Callable[[Call], None]) -> None:
        """Begin with no lines and no calls."""
        self._on_settled = on_settled
        self.pools: dict[int, list[Line]] = {kind: [] for kind in KINDS}
        self._order: list[Line] = []
        self._order_base = 0
        self._unbounded: list[Line] = []
        self.waiting: list[Call] = []  # open or unsettled, by GPU_START
        self.lock_lines = False
        self.contiguous = False  # S16–S18: a call's lines stand together
        self.locks: set[int] = set()  # negative for a worker whose GPU isn't known
        self._maybe_s30 = False
        self.counts = {"lines": 0, "owned": 0, "orphans": 0}
        self._blocks: list[dict[int, Line]] = []
        self._block: dict[int, Line] = {}
        self._handover = Handover(self._fit, self._moved_on_cost)
        self._ended: dict[int, tuple[int, int]] = {}  # worker → starts of its newest ended calls
        self._holds: dict[int, deque[Hold]] = {}  # by lock, those that are certain
        self._lost: list[Call] = []  # whose end never came
        self._expected: dict[int, int] = {}  # worker → place of a pickup that awaits its GPU_START
        self.from_start = False  # no call was under way before the first line
        self._starts: dict[int, int] = {}  # worker → its calls so far, up to two
        self._known_from = 0  # calls since that place were not under way before the first line
        self._ghosts: list[Call] = []  # failed calls whose CPU thread may still print
        self._freeing: list[float] = []
        self._freeing_sorted: list[float] = []
        self._freeing_best = 0.0

    # ------------------------------------------------------------ input

    def add(self, kind: int, a: int, b: int, clock: float) -> None:
        """An anonymous line was read; `clock` is the newest time before it."""
        line = Line(kind, a, b, self._order_base + len(self._order), clock)
        self._order.append(line)
        self._unbounded.append(line)
        self.pools[kind].append(line)
        self.counts["lines"] += 1
        if kind in (C4, C7, C10):
            self.lock_lines = True
        if self.contiguous:
            if kind == C1:
                self._block = {}
            self._block[kind] = line
            if kind == C11:
                self._blocks.append(self._block)
                self._block = {}
        if len(self._order) > 2 * KEEP_LINES:
            self._forget(len(self._order) - KEEP_LINES)

    def clocked(self, at: float) -> None:
        """A line with a clock was read: what came before it was written by then."""
        if self._unbounded:
            for line in self._unbounded:
                line.hi = at
            self._unbounded.clear()

    def sequence(self) -> int:
        """The place of the next anonymous line: orders calls and lines in the file."""
        return self._order_base + len(self._order)

    def steps(self, first: int, last: int) -> None:
        """The daemon's steps that are still possible."""
        self.contiguous = last <= 18
        self._maybe_s30 = first <= 30 <= last
        self._handover.staging_ms = 45.0 if first >= 20 and last <= 27 else 0.0

    def picked_up(self, worker: int) -> None:
        """GPU_PICKUP: a call is to begin, even if the line that says so should be missing."""
        self._expected[worker] = self.sequence()

    def dropped(self, worker: int) -> None:
        """What the worker had picked up is not proved."""
        self._expected.pop(worker, None)

    def opened(self, call: Call) -> None:
        """GPU_START of `call`."""
        self.waiting.append(call)
        self.locks.add(call.lock)
        self._expected.pop(call.worker, None)
        if not self.from_start and self._starts.get(call.worker, 0) < 2:
            # Its worker may have been in a call before the log begins, which ended by now.
            self._starts[call.worker] = self._starts.get(call.worker, 0) + 1
            self._known_from = self._handover.known_from = call.start_seq + 1

    def _unsure(self, call: Call) -> bool:
        """Whether calls may have been under way beside it that the log doesn't show."""
        return call.start_seq < self._known_from

    def moved_on(self, call: Call, at: float, *, waited: bool) -> None:
        """The worker of `call` has its next item in hand; `waited`: it lay in the queue before."""
        call.next_pickup = at
        call.next_waited = waited
        call.deadline_seq = min(call.deadline_seq, self.sequence())

    def ended(self, call: Call) -> None:
        """GPU_END of `call`, or its failure: all its lines have been read, but for late ones."""
        newest, _ = self._ended.get(call.worker, (-1, -1))
        self._ended[call.worker] = (max(newest, call.start_seq), min(newest, call.start_seq))
        if not self.contiguous:
            self._list_options(call)
        self.settle()

    def _list_options(self, call: Call) -> None:
        """List what could be the call's lines."""
        bound_entry(call)
        call.deadline_seq = min(call.deadline_seq, call.end_seq)
        if self.lock_lines:
            call.chains = self._supported(call, printed_chains(call, self.pools))
            if call.chains and call.end is not None:
                self._tie_chain(call)
            chain = call.chains[0].lines if call.chains else None
            call.cpu_options = self._printed_preparations(call, chain)
        else:
            self._epilogue(call)
            call.cpu_options = self._derived_preparations(call, None)
            call.begun = _begun(call)
        call.options = [(option.cost, option.lines) for option in call.chains]

    def flush(self) -> None:
        """The run is over: settle every ended call, whatever may have been missing."""
        self.clocked(math.inf)
        self.settle(force=True)

    # ------------------------------------------------------------ settling

    def _frontier(self) -> int:
        """The place of the log before which every call that began has ended.

        An open call does not count once two later ones of its worker have ended: its end was lost.
        """
        expected = min(self._expected.values(), default=self.sequence() + 1)
        for call in self.waiting:
            if call.end is None:
                return min(expected, call.start_seq)
        return expected

    def _give_up_lost(self) -> None:
        """Open calls whose end won't come: two later ones of their worker ended, or a crowd."""
        crowd = len(self.waiting) > MAX_WAITING_CALLS
        for call in list(self.waiting):
            if call.end is not None:
                continue
            if crowd or call.start_seq < self._ended.get(call.worker, (-1, -1))[1]:
                crowd = False
                self.waiting.remove(call)
                self._lost.append(call)
                call.end_seq = self.sequence()
                self._list_options(call)
        oldest = self.sequence() - GHOST_LINES
        self._lost = [call for call in self._lost if call.end_seq > oldest]

    def settle(self, *, force: bool = False) -> None:
        """Settle every ended call whose rivals have all ended; with `force`, every ended call."""
        self._give_up_lost()
        frontier = 1 << 62 if force else self._frontier()
        ripe = [call for call in self.waiting if call.end is not None and call.end_seq <= frontier]
        if not ripe:
            return
        if self.contiguous:
            for call in ripe:
                self._settle_block(call)
        elif self.lock_lines:
            self._settle_chains(ripe)
        else:
            ripe = self._settle_handed(ripe, frontier)
        if not ripe:
            return
        if not self.contiguous:
            self._settle_cpu(ripe)
        gone = set(ripe)
        self.waiting = [call for call in self.waiting if call not in gone]
        for call in ripe:
            call.settled = True
            call.chains, call.cpu_options = [], []
            if call.failed:
                self._ghosts.append(call)
            self._on_settled(call)
        self._prune()

    def _settle_chains(self, ripe: Sequence[Call]) -> None:
        """S41 and newer: give these calls their lock's and kernels' lines."""
        ended = [call for call in self.waiting if call.end is not None]
        near = sorted([*self._lost, *ended], key=_entry_of)
        excused = {call for call in ended if call.failed}
        chains = {call: self._possible(call) for call in near}
        contest = Contest(chains, _all_figures, excused=excused)
        for call in ripe:
            verdict, doubts = contest.verdict(call)
            if not verdict.option.lines:  # its likely lines are all taken: what is left?
                verdict = Verdict(self._leftover(call), 0.0, None)
            contest.give(call, verdict.option)
            self._own_chain(call, verdict)
            for other, sure in doubts.items():
                other.margin = min(other.margin, sure)

    def _possible(self, call: Call) -> list[Option]:
        """The chains that nobody has taken a line of, and the lock meanwhile."""
        holds = self._holds.get(call.lock, ())
        return [
            option
            for option in _available(call.chains)
            if option.hold is None or not overlaps(option.hold, holds)
        ]

    def _leftover(self, call: Call) -> Option:
        free = {
            kind: [line for line in pool if line.owner is None] for kind, pool in self.pools.items()
        }
        options = printed_chains(call, free)
        return options[0] if options else NOTHING

    def _own_chain(self, call: Call, verdict: Verdict) -> None:
        option = verdict.option
        if not option.lines:
            return
        margin = min(verdict.margin, call.margin)
        level = "exact" if margin >= SURE and option.cost < POOR else "inferred"
        if self._unsure(call) or None in option.lines:
            level = "inferred"
        self._own(call, CHAIN, verdict, margin)
        take, ntt, barrier, batch, end, release = option.lines
        if take is not None or release is not None:
            call.lock_sure = level
        if level == "exact" and option.hold is not None:
            self._holds.setdefault(call.lock, deque(maxlen=KEEP_HOLDS)).append(option.hold)
        if any(line is not None for line in (ntt, barrier, batch, end)):
            call.kernel_sure = level

    def _settle_handed(self, ripe: Sequence[Call], frontier: int) -> list[Call]:
        """Before S41: give these calls their blocks, as far as it is decided whose they are."""
        handover = self._handover
        if handover.one_lock:
            # Nothing tells S30 from its neighbours, and who has which GPU may not be known.
            handover.doubtful = self._maybe_s30 or min(self.locks, default=0) < 0
            handover.one_lock = len(self.locks) <= 1 or handover.doubtful
        ended = [call for call in self.waiting if call.end is not None]
        handover.hand_out(self.pools, frontier, [*self._lost, *ended])
        workers = max(1, len({call.worker for call in self.waiting}))
        patience = 0 if frontier > self.sequence() + 1 else PATIENCE + 2 * workers
        settled: list[Call] = []
        decided = handover.decided(ripe, frontier, patience)
        sharpened = handover.sharpened(
            self.pools, (call for call, block, _ in decided if block is not None)
        )
        for call, rough, margin in decided:
            settled.append(call)
            if rough is None:
                continue
            block = sharpened[call]
            sure = min(margin, block.sure) >= SURE
            level = "exact" if sure and not self._unsure(call) else "inferred"
            for kind, line in zip((C6, C8, C9), block.lines, strict=True):
                if line is not None:
                    call.lines[kind] = line
                    line.owner = call
                    self.counts["owned"] += 1
            call.lock_sure = call.kernel_sure = level
            if level == "exact":
                _tie_block(block)
            if sure and call.next_waited and call.next_pickup is not None:
                self._learn_freeing(call.next_pickup - sum(block.ended) / 2)
            call.block = block
            call.lock = 0 if handover.one_lock else call.lock
            call.cpu_options = self._derived_preparations(call, block)
        if settled:
            oldest = min(
                (call.start_seq for call in self.waiting if call not in settled),
                default=frontier,
            )
            handover.settle(settled, min(oldest, frontier))
        return settled

    def _settle_cpu(self, ripe: Sequence[Call]) -> None:
        """Give these calls, whose chains are known, their CPU lines."""
        self._ghosts = [
            ghost for ghost in self._ghosts if ghost.end_seq > self.sequence() - GHOST_LINES
        ]
        ended = [call for call in self.waiting if call.end is not None]
        for ghost in self._ghosts:
            ghost.cpu_options = self._preparations(ghost)
        near = sorted([*self._ghosts, *self._lost, *ended], key=_entry_of)
        excused = {call for call in near if call.failed}
        options = {call: _available(call.cpu_options) for call in near}
        contest = Contest(options, _cpu_figures, self._all_preparations, excused)
        fresh = [call for call in ripe if contest.contested(call)]
        if fresh:
            for call in fresh:
                call.cpu_options = self._preparations(call)
                options[call] = _available(call.cpu_options)
            contest = Contest(options, _cpu_figures, self._all_preparations, excused)
        for call in ripe:
            verdict, doubts = contest.verdict(call)
            contest.give(call, verdict.option)
            self._own_cpu(call, verdict)
            for other, sure in doubts.items():
                other.cpu_margin = min(other.cpu_margin, sure)

    def _own_cpu(self, call: Call, verdict: Verdict) -> None:
        option = verdict.option
        if not option.lines or (option.lines[1] is None and option.lines[2] is None):
            if option.lines and option.lines[0] is not None:
                self._own(call, CPU, verdict, verdict.margin)
            return
        margin = min(verdict.margin, call.cpu_margin)
        if call.kernel_sure == "inferred":  # what its barrier says of prep_msm isn't sure either
            margin = min(margin, SURE / 2)
        sure = margin >= SURE and option.cost < POOR_CPU and not self._unsure(call)
        self._own(call, CPU, verdict, margin)
        call.cpu_sure = "exact" if sure else "inferred"
        if sure:
            for line, due in zip(option.lines, option.due, strict=True):
                if line is not None and due is not None and line.tied is None:
                    line.tied = due

    def _own(self, call: Call, kinds: Iterable[int], verdict: Verdict, margin: float) -> None:
        """Give the call its lines; what a toss-up leaves open stays without figure."""
        rival = verdict.rival.lines if verdict.rival is not None and margin < TOSS_UP else ()
        for index, (kind, line) in enumerate(zip(kinds, verdict.option.lines, strict=True)):
            if line is None:
                continue
            line.owner = call
            self.counts["owned"] += 1
            other = rival[index] if rival else line
            if kind in CPU and other is not line and (other is None or abs(other.a - line.a) > 1):
                continue
            call.lines[kind] = line

    def _settle_block(self, call: Call) -> None:
        """S16–S18: the block of lines that ended last before GPU_END."""
        if call.failed:
            return
        fits = [
            block
            for block in self._blocks
            if call.start_seq <= block[C11].seq < call.end_seq
            and (call.gpu_ms is None or call.gpu_ms - block[C11].b >= -1)
        ]
        if not fits:
            return
        block = min(fits, key=lambda lines: abs((call.gpu_ms or 0) - lines[C11].b))
        self._blocks.remove(block)
        for kind, line in block.items():
            call.lines[kind] = line
            line.owner = call
            self.counts["owned"] += 1
        level = "exact" if C1 in block and C9 in block else "inferred"
        call.kernel_sure = call.cpu_sure = level

    # ------------------------------------------------------------ housekeeping

    def _prune(self) -> None:
        """Drop lines that no call to come can own: those written before all of them opened."""
        oldest = min((call.start_seq for call in self.waiting), default=self.sequence())
        if self._ghosts:
            oldest = min(oldest, self._ghosts[0].end_seq)
        oldest = min([oldest, *self._expected.values(), *(call.start_seq for call in self._lost)])
        if oldest - self._order_base > KEEP_OLDER:
            self._forget(oldest - self._order_base)

    def _forget(self, count: int) -> None:
        base = self._order_base + count
        for line in self._order[:count]:
            if line.owner is None:
                self.counts["orphans"] += 1
        del self._order[:count]
        self._order_base = base
        for kind, pool in self.pools.items():
            if pool and pool[0].seq < base:
                self.pools[kind] = [line for line in pool if line.seq >= base]
        self._blocks = [block for block in self._blocks if block[C11].seq >= base]

    # ------------------------------------------------------------ the CPU's lines

    def _supported(self, call: Call, chains: list[Option]) -> list[Option]:
        """The chains, with what it costs to find CPU lines for each where there is a choice."""
        if len(chains) < 2 or chains[1].cost > chains[0].cost + HORIZON or call.failed:
            return chains
        limit = chains[0].cost + HORIZON
        likely = [chain for chain in chains if chain.cost <= limit]
        keys = [_barrier_key(chain.lines) for chain in likely]
        if len(set(keys)) == 1:
            return likely
        told: list[Option] = []
        known: dict[object, float] = {}
        for chain, key in zip(likely, keys, strict=True):
            if key not in known:
                cpu = self._printed_preparations(call, chain.lines)
                known[key] = min(cpu[0].cost, MISSING) if cpu else MISSING
            told.append(chain._replace(cost=chain.cost + known[key]))
        told.sort(key=_cost_of)
        return told

    def _all_preparations(self, call: Call) -> list[Option]:
        """The same as `_preparations`, with all that is hardly likely, and free."""
        return _available(self._preparations(call, full=True))

    def _preparations(self, call: Call, *, full: bool = False) -> list[Option]:
        """The sets (C1, C2, C3) that could be the call's, given what is known of its chain."""
        if self.lock_lines:
            chain: tuple[Line | None, ...] | None
            if call.settled or any(kind in call.lines for kind in CHAIN):
                chain = tuple(call.lines.get(kind) for kind in CHAIN)
            else:
                free = _available(call.chains)
                chain = free[0].lines if free else None
            return self._printed_preparations(call, chain, full=full)
        if full or call.failed:
            return self._derived_preparations(call, call.block, full=full)
        return call.cpu_options

    def _printed_preparations(
        self, call: Call, chain: tuple[Line | None, ...] | None, *, full: bool = False
    ) -> list[Option]:
        take, ntt, barrier, batch, end, _ = chain or (None,) * 6
        last = self.sequence() + 1 if call.failed else call.end_seq
        opened: Barrier | None = None
        before = min((line.seq for line in (barrier, batch) if line is not None), default=last)
        if take is not None and ntt is not None and barrier is not None:
            since = take.a + take.b + ntt.a + barrier.a
            window = (call.entry_lo + since, call.entry_hi + since + 5)
            if end is not None and batch is not None:
                by_end = end.a + batch.a
                window = (
                    max(window[0], end.lo - by_end - 6),
                    max(window[0], min(window[1], end.hi - by_end + 1)),
                )
            opened = Barrier(window, barrier.a >= WAITED_MS, before)
        elif before < last:
            opened = Barrier((-math.inf, math.inf), waited=False, before=before)
        limit = (call.end_seq, None) if take is None else (take.seq, take.a)
        return preparations(
            call,
            self.pools,
            self._bounds,
            setup_limit=limit,
            barrier=opened,
            finish=self._finish(call, None),
            last=last,
            full=full,
        )

    def _derived_preparations(
        self, call: Call, block: Block | None, *, full: bool = False
    ) -> list[Option]:
        last = self.sequence() + 1 if call.failed else call.end_seq
        barrier, before = None, call.end_seq
        if block is not None:
            before = block.first_seq
            batch = block.lines[1]
            if batch is not None and block.opened is not None:
                soon = math.inf if block.soon is None or not block.waited else block.soon
                barrier = Barrier(block.opened, block.waited, batch.seq, soon)
        return preparations(
            call,
            self.pools,
            self._bounds,
            setup_limit=(before, None),
            barrier=barrier,
            finish=self._finish(call, block),
            last=last if call.failed else min(last, call.done_seq),
            full=full,
        )

    def _bounds(self, line: Line) -> Bounds:
        """When a line was written, by clocks and by neighbours whose times are known."""
        index = line.seq - self._order_base
        order = self._order
        lo, hi = line.lo, line.hi
        for at in range(index - 1, max(-1, index - 1 - NEIGHBOURS), -1):
            tied = order[at].tied
            if tied is not None and tied[0] - 0.5 > lo:
                lo = tied[0] - 0.5
        for at in range(index + 1, min(len(order), index + 1 + NEIGHBOURS)):
            tied = order[at].tied
            if tied is not None:
                latest = max(tied[1], order[at].lo) + GRACE_MS
                hi = min(hi, latest)
        return Bounds(line.lo, line.hi, lo, hi)

    def _tie_chain(self, call: Call) -> None:
        """Note when lines were due on which all likely chains agree: neighbours gain by it."""
        best = call.chains[0]
        rivals = [other for other in call.chains[1:] if other.cost - best.cost < TIE_MARGIN]
        for index, (line, due) in enumerate(zip(best.lines, best.due, strict=True)):
            if line is None or due is None:
                continue
            if all(other.lines[index] is line for other in rivals):
                line.tied = due

    # ------------------------------------------------------------ before S41

    def _epilogue(self, call: Call) -> None:
        """S19–S23: the call's own last line, and what it says of the end of all work."""
        best, best_cost = None, SURE
        for line in self.pools[C11]:
            if line.owner is not None or not call.start_seq <= line.seq < call.end_seq:
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
        best.owner = call
        call.lines[C11] = best
        self.counts["owned"] += 1
        call.deadline_seq = min(call.deadline_seq, best.seq)
        since = best.b - best.a
        call.done = (call.entry_lo + since - 1, call.entry_hi + since + 1)
        call.done_seq = best.seq

    def _learn_freeing(self, gap_ms: float) -> None:
        """Remember how long a worker's next pickup came after its block."""
        self._freeing.append(gap_ms)
        insort(self._freeing_sorted, gap_ms)
        known = self._freeing_sorted
        if len(known) > KEEP_FREEING:
            del known[bisect_left(known, self._freeing.pop(0))]
        if len(self._freeing) % 8 == 0 or len(known) < KEEP_FREEING:
            self._freeing_best = max(_log_density(known, gap) for gap in known[::4])

    def _usual_freeing(self) -> float | None:
        known = self._freeing_sorted
        return known[len(known) // 2] if len(known) >= MIN_FREEING else None

    def _moved_on_cost(self, call: Call, ended: Window) -> float:
        """The cost of its worker's next pickup so long after the call's block, by what is usual."""
        known = self._freeing_sorted
        pickup = call.next_pickup
        if pickup is None or not call.next_waited or call.done:
            return 0.0
        least, most = pickup - ended[1], pickup - ended[0]
        soon = SOON_WEIGHT * math.log(1.0 + max(0.0, least) / SOON_MS)
        if len(known) < MIN_FREEING:
            return soon
        at = bisect_left(known, least)
        usual = known[at] if at < len(known) else most
        gap = min(max(usual, least), most)
        return soon + max(0.0, self._freeing_best - _log_density(known, gap))

    def _finish(self, call: Call, block: Block | None) -> Finish | None:
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
        usual = self._usual_freeing()
        returned = block.ended[1] + (30.0 if usual is None else 6.0 + 3.0 * usual)
        return Finish(call.end, FINISH_MS, returned)

    def _fit(self, call: Call, block: Block) -> tuple[float, Window]:
        """The cost of a block being a call's, whoever else may want it; and when it began then."""
        end = block.lines[2]
        if end.seq >= call.deadline_seq:
            return FORBIDDEN, block.begun
        fits: list[tuple[float, Window]] = []
        best = MISSING
        for option in call.cpu_options:
            if option.cost > best + TIE_MARGIN:
                break
            agreement = option.cost + self._agreement(call, block, option)
            prepared = option.due[1] if option.lines[1] is not None else None
            begun = block.begun
            if block.waited and block.opened is not None and prepared is not None:
                # It began so long before prep_msm was done as its kernels and their wait took.
                back = block.opened[1] - block.begun[1]
                lo = max(block.begun[0], prepared[0] - back, call.begun[0])
                hi = min(block.begun[1], prepared[1] - back + 4)
                agreement += 2.0 * early_cost(lo - hi)
                begun = (min(lo, hi), max(lo, hi) + 0.5)
            if agreement < MISSING:
                fits.append((agreement, begun))
                best = min(best, agreement)
        near = [window for agreement, window in fits if agreement <= best + TIE_MARGIN]
        if not near:
            return best, block.begun
        return best, (min(lo for lo, _ in near), max(hi for _, hi in near))

    def _agreement(self, call: Call, block: Block, option: Option) -> float:
        """The cost of a block and CPU lines being of one call."""
        _, prep, b_g2 = option.lines
        _, due2, due3 = option.due
        cost = 0.0
        batch = block.lines[1]
        if prep is not None and due2 is not None and block.opened is not None:
            if batch is not None and prep.seq > batch.seq:
                return FORBIDDEN
            if due2[0] > block.opened[1]:
                cost += 2.0 + 2.0 * early_cost(due2[0] - block.opened[1])
            elif block.waited and due2[1] < block.opened[0]:
                cost += start_cost(block.opened[0] - due2[1])
        if b_g2 is not None and due3 is not None:
            written = min(b_g2.hi, max(due3[1], b_g2.lo))
            finish = self._finish(call, block)
            if finish is not None:
                cost += finish_cost(finish, written)
                if call.done is not None:
                    cost += early_cost(block.ended[0] - call.done[1])
        return cost


def _tie_block(block: Block) -> None:
    """Note when the block's lines were due."""
    ntt, batch, end = block.lines
    lo, hi = block.begun
    if ntt is not None:
        ntt.tied = (lo + ntt.a, hi + ntt.a + 1)
    if batch is not None:
        batch.tied = (lo + end.b - end.a - 1, hi + end.b - end.a + 1)
    end.tied = (lo + end.b, hi + end.b + 1)


def bound_entry(call: Call) -> None:
    """Bound the instant at which the call was entered by all that is known of it."""
    lo = call.start + (call.spawn or 0)
    hi = math.inf
    if call.end is not None and call.gpu_ms is not None:
        hi = call.end + 1.0 - call.gpu_ms
    if call.prove_start is not None and call.returned is not None:
        hi = min(hi, call.returned + 1.0 - call.prove_start)
    if hi == math.inf:
        hi = lo + (3.0 if call.spawn is not None else 25.0)
    else:
        lo = max(lo, hi - ENTRY_MS)
    call.entry_lo = lo
    call.entry_hi = max(hi, lo + 1.0)


def _log_density(known: Sequence[float], gap_ms: float) -> float:
    """The logarithm of how often a gap so long was seen, per ms; `known` is sorted."""
    width = 2.0 + 0.15 * abs(gap_ms)
    near = bisect_right(known, gap_ms + width) - bisect_left(known, gap_ms - width)
    return math.log((near + 0.2) / (len(known) + 1) / width)


def _begun(call: Call) -> Window:
    """When the call's CPU thread was started, by its likeliest C1; it asks for the lock then."""
    best = call.cpu_options[0].cost if call.cpu_options else 0.0
    lo, hi = math.inf, -math.inf
    for option in call.cpu_options:
        setup, due = option.lines[0], option.due[0]
        if option.cost > best + SURE:
            break
        if setup is None or due is None:
            lo, hi = min(lo, call.entry_lo), max(hi, call.entry_hi + UNKNOWN_SETUP_MS)
        else:
            lo, hi = min(lo, max(due[0], setup.lo)), max(hi, due[1], setup.lo)
    return (lo, hi) if lo <= hi else (call.entry_lo, call.entry_hi + UNKNOWN_SETUP_MS)


def _entry_of(call: Call) -> float:
    return call.entry_lo


def _barrier_key(chain: Sequence[Line | None]) -> object:
    """What a chain says of prep_msm: chains of which it is the same ask for the same CPU lines."""
    take, ntt, barrier, batch, _, _ = chain
    if take is None or ntt is None or barrier is None or batch is None:
        return chain
    since = take.a + take.b + ntt.a + barrier.a
    return since // 2, barrier.a >= WAITED_MS


def _cost_of(option: Option) -> float:
    return option.cost


def _available(options: Sequence[Option]) -> list[Option]:
    return [
        option
        for option in options
        if all(line is None or line.owner is None for line in option.lines)
    ]


def _all_figures(lines: Sequence[Line | None]) -> tuple[int | None, ...]:
    """All that is shown of a chain."""
    return tuple(
        figure for line in lines for figure in ((None, None) if line is None else (line.a, line.b))
    )


def _cpu_figures(lines: Sequence[Line | None]) -> tuple[int | None, ...]:
    if not lines:
        return (None, None)
    _, prep, b_g2 = lines
    return (None if prep is None else prep.a, None if b_g2 is None else b_g2.a)
