"""Whose line is it: the anonymous lines of the prove calls get their owners.

What is known. A call is entered at an instant that GPU_START, GPU_END − gpu_ms and the start call's
own report bound to a few milliseconds. Each of its lines states durations that lead back to that
instant: the lock was taken at entry + pre_lock + wait, the NTT was done ntt_msm_h later, and so on.
So a line that was written in `[lo, hi]` and states `d` belongs to a call entered about `d` before.

What is done. When a call has ended, the sets of lines that could be its own are listed with their
costs (`chains`: the lock and the kernels; `preparation`: the CPU). With one GPU nine calls of ten
have one set each, which `plain` finds at half the cost. When all calls that overlap it have ended
too, every line that it could own has been read, and so have all that its rivals could own: then the
cheapest assignment of all of them together is looked for (`joint`), unless nobody else is likely to
own what is best for it. Before S41 the lock leaves no lines;
what the GPU threads printed is put together (`blocks`) and handed out in order (`handover`,
`fitting`). The attribution is `exact` when the next best that would change a figure costs at least
`SURE` more, `inferred` otherwise. Figures that are a toss-up are left out.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from cuzktop.events import TimingLine
from cuzktop.model import blocks, fitting
from cuzktop.model.blocks import Block
from cuzktop.model.chains import MISSING, printed_chains
from cuzktop.model.effort import Effort
from cuzktop.model.fitting import Fitting
from cuzktop.model.handover import PATIENCE, Handover, Outlook
from cuzktop.model.joint import (
    HORIZON,
    ROUNDING_MS,
    Contest,
    Verdict,
    unrivalled,
)
from cuzktop.model.kinds import BLOCK, C1, C4, C7, C10, C11, CHAIN, CPU, TOGETHER
from cuzktop.model.lateness import misfit
from cuzktop.model.options import NOTHING, Hold, Option, by_cost, overlaps
from cuzktop.model.plain import only_chain, only_preparation
from cuzktop.model.preparation import (
    FINISH_MS,
    WAITED_MS,
    Finish,
    barrier_of_block,
    barrier_of_chain,
    preparations,
)
from cuzktop.model.state import Call, Line
from cuzktop.model.tape import Pool, Pools, Tape

SURE = 6.0  # e^6: the next best assignment is four hundred times less likely
# Until S40 no line says who has a lock. What several locks' blocks tell by their order alone goes
# wrong more often than that: of calls whose margin is less one in forty has another's, of the
# others hardly any. Of the lines themselves nothing else may be likely at all.
SURE_OF_ORDER, SURE_UNLOCKED = 14.0, HORIZON - 0.01
TOSS_UP = 0.1  # figures on which choices so near to each other differ are not given
TELLING = 3.0  # lines of a call that is so sure tell when others were written
POOR_CHAIN = 10.0  # a chain that costs more isn't exact: something else has happened
POOR_CPU = 8.0  # the same for a call's CPU lines
DEAR = 5.0  # until S40, where one pays so much for what others get, these aren't sure either
DEARER = 3.0  # and for such as are so much dearer than those that fit it best, and another has
FITS_WELL = 2.5  # what costs less may be so
TIE_MARGIN = 4.0  # chains this much dearer than the best don't disturb what it says of times

MAX_WAITING = 192  # unsettled calls: 8 GPUs, 4 workers, 6 calls each; more are forced
GHOST_LINES = 400  # so long after a failure its CPU thread may still print
KEEP_HOLDS = 16  # certain holds of a lock that later calls are held against
KEEP_LOOSE = 256  # S16–S18: sets of lines without a call

ENTRY_MS = 2.5  # GPU_END − gpu_ms is the entry, rounded twice; rarely later, when it was stalled
STAMP_MS = 0.4  # a tracing line's time is known so well on the run's clock
USUAL_SPAWN_MS = 10.0
SPAWN_MS = 25.0  # from GPU_START to the entry at most, as a rule
TIMED_SPAWN_MS = 3.0  # and where the start call's delay is printed
STAGING_MS = 45.0  # what S20–S27 do under the lock before the kernels

CONTIGUOUS_UNTIL = 18  # up to this step a call's lines stand together
APART = 3  # so many calls begun while another's kernels ran show that a later step it is
RETURN_MAX_MS = 100.0  # and its GPU_END follows the last of them: 20 ms is usual
STAGED = range(20, 28)
ONE_LOCK_AGAIN = 30

NEVER = 1 << 62  # a place of the log that is never reached
_NONE_ENDED = (-1, -1)


class Attributor:
    """Holds the anonymous lines of one run until their calls are known.

    `on_settled` is called once for each call, in the order of settling, when nothing more will
    change about it.
    """

    def __init__(self, on_settled: Callable[[Call], None]) -> None:
        """Begin with no lines and no calls."""
        self._on_settled = on_settled
        self._tape = Tape()
        self.effort = Effort()
        self.clocked = self._tape.clocked
        self.waiting: list[Call] = []  # open or unsettled, by GPU_START
        self.lock_lines = False  # S41 and newer
        self.contiguous = False  # S16–S18: a call's lines stand together
        self._loose: deque[dict[int, Line]] = deque(maxlen=KEEP_LOOSE)  # such sets without a call
        self._growing: dict[int, Line] = {}  # the one that isn't complete
        self.locks: set[int] = set()  # of the workers; negative where the GPU isn't known
        self._warm: set[int | None] = set()  # GPUs that have had a call
        self.from_start = False  # no call was under way before the first line
        self._begun: dict[int, int] = {}  # worker → its calls so far, up to two
        self._known_from = 0  # calls since that place were not under way before the first line
        self._expected: dict[int, int] = {}  # worker → place of a pickup that awaits its GPU_START
        self._ended: dict[int, tuple[int, int]] = {}  # worker → starts of its newest ended calls
        self._lost: list[Call] = []  # whose end never came
        self._under_way: list[Call] = []  # at the end of the run
        self._ghosts: list[Call] = []  # failed calls whose CPU thread may still print
        self._holds: dict[int, deque[Hold]] = {}  # by lock, those that are certain
        self._fitting = Fitting()
        self._handover = Handover(self._fitting, self.effort)
        self._maybe_one_lock = False  # S30 may be the step
        self._maybe_contiguous = False  # S18 may be, and a later one may be
        self._begun_inside = 0  # calls begun within another's block: not until S18

    @property
    def pools(self) -> Pools:
        """The lines that calls can still want, by kind."""
        return self._tape.pools

    # ------------------------------------------------------------ input

    def add(self, kind: int, a: int, b: int, clock: float) -> None:
        """An anonymous line was read; `clock` is the newest time before it."""
        line = self._tape.add(kind, a, b, clock)
        if not self.lock_lines and kind in (C4, C7, C10):
            self.lock_lines = True
        if self.contiguous:
            if kind == C1:
                self._growing = {}
            self._growing[kind] = line
            if kind == C11:
                self._loose.append(self._growing)
                self._growing = {}

    def add_all(self, lines: Sequence[TimingLine], clock: float) -> bool:
        """Lines that follow one another were read; whether any of them is of a call."""
        before = self.sequence()
        if self.contiguous:
            for kind, a, b, _ in lines:
                if kind in self.pools:
                    self.add(kind, a, b, clock)
        else:
            if not self.lock_lines:
                self.lock_lines = any(line[0] in (C4, C7, C10) for line in lines)
            self._tape.add_all(lines, clock)
        return self.sequence() > before

    def sequence(self) -> int:
        """The place of the next anonymous line: orders calls and lines in the file."""
        return self._tape.end()

    def steps(self, first: int, last: int) -> None:
        """The daemon's steps that are still possible."""
        self.contiguous = last <= CONTIGUOUS_UNTIL
        self._maybe_one_lock = first <= ONE_LOCK_AGAIN <= last
        self._maybe_contiguous = first <= CONTIGUOUS_UNTIL < last
        self._handover.staging_ms = STAGING_MS if first in STAGED and last in STAGED else 0.0

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
        call.is_first = self.from_start and call.gpu not in self._warm
        self._warm.add(call.gpu)
        self._expected.pop(call.worker, None)
        begun = self._begun.get(call.worker, 0)
        if not self.from_start and begun < 2:
            # Its worker may have been in a call before the log begins, which ended by now.
            self._begun[call.worker] = begun + 1
            self._known_from = self._handover.known_from = call.start_seq + 1

    def moved_on(self, call: Call, at: float, *, waited: bool) -> None:
        """The worker of `call` has its next item in hand; `waited`: it lay in the queue before."""
        call.next_pickup = at
        call.next_waited = waited
        call.deadline_seq = min(call.deadline_seq, self.sequence())

    def ended(self, call: Call) -> None:
        """GPU_END of `call`, or its failure: all its lines have been read, but for late ones."""
        newest, _ = self._ended.get(call.worker, _NONE_ENDED)
        self._ended[call.worker] = (max(newest, call.start_seq), min(newest, call.start_seq))
        call.deadline_seq = min(call.deadline_seq, call.end_seq)
        if not self.contiguous:
            self._list_options(call)
        self.settle()

    def flush(self) -> None:
        """The run is over: settle every ended call, whatever may have been missing.

        Calls that are still under way, and are not settled, have some of the last lines.
        """
        self.clocked(math.inf)
        if self.lock_lines:
            self._under_way = [call for call in self.waiting if call.end is None]
        for call in self._under_way:
            call.end_seq = self.sequence()
            self._list_options(call)
        self.settle(force=True)
        self._under_way = []

    # ------------------------------------------------------------ settling

    def settle(self, *, force: bool = False) -> None:
        """Settle every ended call whose rivals have all ended; with `force`, every ended call."""
        self.effort.earn(self.sequence())
        self._give_up_lost()
        all_ended = self._frontier()
        frontier = NEVER if force else all_ended
        ended = [call for call in self.waiting if call.end is not None]
        ripe = [call for call in ended if call.end_seq <= frontier]
        if not ripe:
            return
        if self.contiguous:
            for call in ripe:
                self._settle_together(call)
        elif not self.lock_lines or not self._settle_plainly(ripe, ended):
            if self.lock_lines:
                self._settle_chains(ripe, ended)
            else:
                ripe = self._settle_blocks(ripe, frontier)
            if not ripe:
                return
            self._settle_cpu(ripe, ended, all_ended)
        for call in ripe:
            self.waiting.remove(call)
        for call in ripe:
            call.settled = True
            call.chains, call.cpu_options = [], []
            if call.failed:
                self._ghosts.append(call)
            self._on_settled(call)
        self._forget()

    def _frontier(self) -> int:
        """The place of the log before which every call that began has ended."""
        frontier = self.sequence() + 1
        if self._expected:
            frontier = min(self._expected.values())
        for call in self.waiting:
            if call.end is None:
                return min(frontier, call.start_seq)
        return frontier

    def _give_up_lost(self) -> None:
        """Open calls whose end won't come: two later ones of their worker ended, or a crowd did."""
        crowd = len(self.waiting) > MAX_WAITING
        lost: list[Call] = []
        for call in self.waiting:
            if call.end is not None:
                continue
            if crowd or call.start_seq < self._ended.get(call.worker, _NONE_ENDED)[1]:
                crowd = False
                lost.append(call)
        for call in lost:
            self.waiting.remove(call)
            self._lost.append(call)
            call.end_seq = self.sequence()
            call.deadline_seq = min(call.deadline_seq, call.end_seq)
            self._list_options(call)
        if self._lost:
            oldest = self.sequence() - GHOST_LINES
            self._lost = [call for call in self._lost if call.end_seq > oldest]

    def _forget(self) -> None:
        """Drop lines that no call to come can own: those written before all of them opened."""
        if not self._tape.is_long():
            return
        oldest = min((call.start_seq for call in self.waiting), default=self.sequence())
        if self._ghosts:
            oldest = min(oldest, self._ghosts[0].end_seq)
        oldest = min([oldest, *self._expected.values(), *(call.start_seq for call in self._lost)])
        if self._tape.forget(oldest):
            while self._loose and self._loose[0][C11].seq < oldest:
                self._loose.popleft()

    def _unsure(self, call: Call) -> bool:
        """Whether calls may have been under way beside it that the log doesn't show.

        Or other calls may have had the lock, the process's only one, where it has two by the labels
        of GPUs: until S18 a call's figures count from when it got it. Where no worker's GPU is
        named, lines that no step after S23 prints are a sign that it may be so.
        """
        if self._maybe_contiguous and self._begun_inside < APART and len(self.locks) > 1:
            named = sum(lock >= 0 for lock in self.locks)
            if named > 1 or (not named and self.pools[C11]):
                return True
        return call.start_seq < self._known_from

    def _list_options(self, call: Call) -> None:
        """List what could be the call's lines."""
        bound_entry(call)
        if self.lock_lines:
            if call.end is not None and not call.failed and self._list_plainly(call):
                return
            call.chains, cpu_options = self._supported(call, printed_chains(call, self.pools))
            if call.chains and call.end is not None:
                _tie_chain(call.chains)
            call.cpu_options = cpu_options or self._preparations(call)
        else:
            fitting.note_epilogue(call, self.pools[C11])
            call.cpu_options = self._preparations(call)
            call.begun = fitting.asked(call)

    # ------------------------------------------------------------ S41 and newer

    def _list_plainly(self, call: Call) -> bool:
        """List the call's lines if nothing else could be its own."""
        chain = only_chain(call, self._tape)
        if chain is None:
            return False
        for line, due in zip(chain.lines, chain.due):  # noqa: B905 (one a line)
            if line is not None:
                line.tied = due
        cpu = only_preparation(call, chain, self._tape)
        call.chains = [chain]
        call.cpu_options = self._preparations(call) if cpu is None else [cpu]
        return True

    def _settle_plainly(self, ripe: Sequence[Call], ended: Sequence[Call]) -> bool:
        """Give calls their only choices of lines if nobody else wants them.

        False if there is more to weigh.
        """
        if self._lost or self._ghosts or self._under_way:
            return False
        held: list[Hold] = []
        for call in ripe:
            hold = self._plain_hold(call, ended)
            if hold is None or (held and overlaps(hold, held)):
                return False
            held.append(hold)
        for call in ripe:
            self._own_chain(call, Verdict(call.chains[0], HORIZON, None))
        for call in ripe:
            self._own_cpu(call, Verdict(call.cpu_options[0], HORIZON, None))
        return True

    def _plain_hold(self, call: Call, ended: Sequence[Call]) -> Hold | None:
        """When the call had the lock, if it has one choice of lines and nobody else wants them."""
        if len(call.chains) != 1 or not call.cpu_options or call.failed:
            return None
        chain, cpu = call.chains[0], call.cpu_options[0]
        if len(call.cpu_options) > 1 and call.cpu_options[1].cost <= cpu.cost + HORIZON:
            return None
        wanted = {*chain.lines, *cpu.lines}
        if None in wanted or chain.hold is None:
            return None
        for line in wanted:
            if line is not None and line.owned:
                return None
        for other in ended:
            if other is not call:
                for option in other.chains:
                    if not wanted.isdisjoint(option.lines):
                        return None
                for option in other.cpu_options:
                    if not wanted.isdisjoint(option.lines):
                        return None
        holds = self._holds.get(call.lock)
        return None if holds and overlaps(chain.hold, holds) else chain.hold

    def _supported(
        self, call: Call, chains: list[Option]
    ) -> tuple[list[Option], list[Option] | None]:
        """The chains, with what it costs to find CPU lines for each where there is a choice.

        The best one's CPU lines are returned, too, if they have been looked for.
        """
        if len(chains) < 2 or chains[1].cost > chains[0].cost + HORIZON or call.failed:
            return chains, None
        limit = chains[0].cost + HORIZON
        likely = [chain for chain in chains if chain.cost <= limit]
        keys = [_barrier_key(chain.lines) for chain in likely]
        if len(set(keys)) == 1:
            return likely, None
        told: list[Option] = []
        found: dict[object, tuple[Option, list[Option]]] = {}
        for chain, key in zip(likely, keys, strict=True):
            if key not in found:
                found[key] = (chain, self._preparations_by_chain(call, chain.lines))
            _, cpu = found[key]
            more = min(cpu[0].cost, MISSING) if cpu else MISSING
            told.append(chain._replace(cost=chain.cost + more))
        told.sort(key=by_cost)
        first, cpu = found[_barrier_key(told[0].lines)]
        return told, cpu if first.lines is told[0].lines else None

    def _settle_chains(self, ripe: Sequence[Call], ended: Sequence[Call]) -> None:
        """Give these calls, some of those that have `ended`, their lock's and kernels' lines."""
        near = [*self._lost, *self._under_way, *ended]
        if self._settle_chains_apart(ripe, near):
            return
        near.sort(key=_entry_of)
        excused = {*self._under_way, *(call for call in ended if call.failed)}
        contest = Contest(
            {call: self._possible(call) for call in near},
            _chain_figures,
            self._all_chains,
            excused,
            effort=self.effort,
        )
        for call in ripe:
            verdict, doubts = contest.verdict(call)
            if not verdict.option.lines:  # its likely lines are all taken: what is left?
                verdict = Verdict(self._leftover(call), 0.0, None)
            contest.give(call, verdict.option)
            if verdict.option.lines:
                self._own_chain(call, verdict)
            for other, sure in doubts.items():
                other.chain_margin = min(other.chain_margin, sure)

    def _settle_chains_apart(self, ripe: Sequence[Call], near: Sequence[Call]) -> bool:
        """Do so if no other is likely to own any of the lines that are likely these calls'.

        False if there is more to weigh. Most calls go this way, at a tenth of what a contest costs.
        """
        given: list[tuple[Call, Verdict]] = []
        held: list[Hold] = []
        for call in ripe:
            likely = _likely(self._possible(call))
            if not likely or self._likely_wanted(call, likely, near):
                return False
            if len(ripe) > 1:
                holds = [option.hold for option in likely if option.hold is not None]
                if any(overlaps(hold, held) for hold in holds):
                    return False
                held += holds[:1]
            given.append((call, unrivalled(likely, _chain_figures, excused=call.failed)))
        for call, verdict in given:
            self._own_chain(call, verdict)
        return True

    def _likely_wanted(self, call: Call, likely: Sequence[Option], near: Sequence[Call]) -> bool:
        """Whether a line of these chains is in a likely one of another call."""
        lines = _lines_of(likely)
        for other in near:
            if other is call:
                continue
            wanting = [one.cost for one in other.chains if not lines.isdisjoint(one.lines)]
            if wanting:
                free = self._possible(other)
                if free and wanting[0] <= free[0].cost + HORIZON:
                    return True
        return False

    def _possible(self, call: Call) -> list[Option]:
        """The chains that nobody has taken a line of, and the lock meanwhile."""
        return self._unheld(call, _available(call.chains))

    def _unheld(self, call: Call, chains: list[Option]) -> list[Option]:
        """Those of the call's chains that had its lock when nobody surely had it."""
        holds = self._holds.get(call.lock)
        if holds is None:
            return chains
        return [one for one in chains if one.hold is None or not overlaps(one.hold, holds)]

    def _all_chains(self, call: Call) -> list[Option]:
        """The same as `_possible`, with all that is hardly likely if one chain is likely."""
        chains = printed_chains(call, self.pools, full=True)
        if len(_likely(chains)) > 1:  # costs of these were told apart
            return self._possible(call)
        return self._unheld(call, _available(chains))

    def _leftover(self, call: Call) -> Option:
        free = {
            kind: Pool(line for line in pool if not line.owned) for kind, pool in self.pools.items()
        }
        options = printed_chains(call, free)
        return options[0] if options else NOTHING

    def _own_chain(self, call: Call, verdict: Verdict) -> None:
        option = verdict.option
        sure = min(verdict.margin, call.chain_margin) >= SURE and option.cost < POOR_CHAIN
        if self._unsure(call) or None in option.lines:
            sure = False
        for line, due in zip(option.lines, option.due, strict=True):
            if line is None:
                continue
            line.owned = True
            call.lines[line.kind] = line
            if sure and line.tied is None:
                line.tied = due
        level = "exact" if sure else "inferred"
        take, ntt, barrier, batch, end, release = option.lines
        if take is not None or release is not None:
            call.lock_sure = level
        if ntt is not None or barrier is not None or batch is not None or end is not None:
            call.kernel_sure = level
        if sure and option.hold is not None:
            if call.lock not in self._holds:
                self._holds[call.lock] = deque(maxlen=KEEP_HOLDS)
            self._holds[call.lock].append(option.hold)

    # ------------------------------------------------------------ S19–S40

    def _settle_blocks(self, ripe: Sequence[Call], frontier: int) -> list[Call]:
        """Give calls their blocks; returns those of `ripe` for which it is decided."""
        self._tell_locks()
        handover = self._handover
        ended = [call for call in self.waiting if call.end is not None]
        for formed in handover.hand_out(self.pools, frontier, [*self._lost, *ended]):
            if formed.sure >= SURE:  # whoever has it, its lines tell when others were written
                blocks.tie(formed)
            if self._maybe_contiguous and formed.sure >= SURE and not formed.waited:
                inside = self.pools[C1].between(formed.first_seq, formed.end.seq)
                self._begun_inside += bool(inside)
        patience = 0
        if frontier < NEVER:
            patience = PATIENCE + 2 * len({call.worker for call in self.waiting})
        decided = handover.decided(ripe, frontier, patience)
        made = handover.sharpened(self.pools, [one.call for one in decided if one.block])
        for call, _, margin in decided:
            block = made.get(call)
            if block is not None:
                self._own_block(call, block, margin)
                call.cpu_options = self._preparations(call)
        settled = [one.call for one in decided]
        if settled:
            gone = set(settled)
            left = (call.start_seq for call in self.waiting if call not in gone)
            handover.settle(settled, min(left, default=frontier))
        return settled

    def _tell_locks(self) -> None:
        """See whether there are several locks."""
        handover = self._handover
        if handover.one_lock:
            # Nothing tells S30 from its neighbours, and who has which GPU may not be known.
            handover.doubtful = self._maybe_one_lock or min(self.locks, default=0) < 0
            if len(self.locks) > 1 and not handover.doubtful:
                handover.several_locks()

    def _own_block(self, call: Call, block: Block, margin: float) -> None:
        if call.lock < 0 and not self._handover.one_lock:
            margin -= SURE  # who else wants its lock is not known
        sure = min(margin, block.sure) >= SURE and not self._unsure(call)
        if not self._handover.one_lock:
            sure = sure and margin >= SURE_OF_ORDER and block.sure >= SURE_UNLOCKED
        margin = min(margin, block.sure)
        for kind, line in zip(BLOCK, block.lines, strict=True):
            if line is not None:
                line.owned = True
                call.lines[kind] = line
        call.lock_sure = call.kernel_sure = "exact" if sure else "inferred"
        if sure:
            blocks.tie(block)
        if margin >= SURE:
            self._fitting.learn(call, block)
        call.block = block
        if self._handover.one_lock:
            call.lock = 0

    def given_back(self) -> dict[int, int]:
        """S41 and newer: where in the log a lock was given back for certain, and which one."""
        return {hold.given_back: hold.lock for holds in self._holds.values() for hold in holds}

    def foreseen(self) -> Outlook:
        """S19–S40: who has had which block, and when each lock was given back, as it looks now.

        Open calls count with what is known of them so far.
        """
        self.effort.earn(self.sequence())
        self._tell_locks()
        for call in self.waiting:
            if call.end is None:
                bound_entry(call)
                call.cpu_options = self._preparations(call)
                call.begun = fitting.asked(call)
        return self._handover.foreseen(self.pools, [*self._lost, *self.waiting])

    # ------------------------------------------------------------ S16–S18

    def _settle_together(self, call: Call) -> None:
        """Give the call the set of lines that was complete last before its GPU_END.

        How long it waited for the lock is in its GPU time, and not in that of these lines.
        """
        if call.failed or call.end is None:
            return
        fits = [
            lines
            for lines in self._loose
            if call.start_seq <= lines[C11].seq < call.end_seq
            and (call.gpu_ms is None or call.gpu_ms - lines[C11].b >= -1)
            and call.end - lines[C11].hi <= RETURN_MAX_MS
        ]
        if not fits:
            return
        *others, own = fits
        self._loose.remove(own)
        for kind, line in own.items():
            call.lines[kind] = line
            line.owned = True
        sure = own.keys() >= TOGETHER and not others and not self._unsure(call)
        call.kernel_sure = call.cpu_sure = "exact" if sure else "inferred"

    # ------------------------------------------------------------ the CPU's lines

    def _settle_cpu(self, ripe: Sequence[Call], ended: Sequence[Call], frontier: int) -> None:
        """Give these calls, whose other lines are known, their CPU lines.

        They are some of those that have `ended`, as all have that began before `frontier`.
        """
        if self._ghosts:
            oldest = self.sequence() - GHOST_LINES
            self._ghosts = [ghost for ghost in self._ghosts if ghost.end_seq > oldest]
            for ghost in self._ghosts:
                ghost.cpu_options = self._preparations(ghost)
        near = [*self._ghosts, *self._lost, *self._under_way, *ended]
        unsure = self._settle_cpu_apart(ripe, near)
        if not unsure:
            return
        done = set(ripe).difference(unsure)
        near = sorted((call for call in near if call not in done), key=_entry_of)
        contest = Contest(
            {call: _available(call.cpu_options) for call in near},
            _cpu_figures,
            self._all_preparations,
            {*self._under_way, *(call for call in near if call.failed)},
            frontier,
            self.effort,
            self._free_preparations,
            math.inf if self.lock_lines else DEAR,
        )
        if self.lock_lines:
            for call in unsure:  # its chain is known now, and neighbours' times
                contest.add(call, self._free_preparations(call))
                contest.renewed(call)
        for call in unsure:
            self._give_cpu(call, *contest.verdict(call), contest)

    def _give_cpu(
        self, call: Call, verdict: Verdict, doubts: Mapping[Call, float], contest: Contest[Call]
    ) -> None:
        due = contest.give(call, verdict.option)
        if verdict.option.lines:
            self._own_cpu(call, verdict)
            if min(verdict.margin, call.cpu_margin) >= TELLING:
                # Whoever has its lines, they tell when others were written.
                for line, window in due.items():
                    if line.tied is None:
                        line.tied = window
                contest.forget_lists()
        for other, sure in doubts.items():
            other.cpu_margin = min(other.cpu_margin, sure)

    def _settle_cpu_apart(self, ripe: Sequence[Call], near: Sequence[Call]) -> list[Call]:
        """Give those that have one choice their CPU lines if nobody wants them; returns the others.

        Calls of which no line is left are not among these.
        """
        given: list[tuple[Call, Verdict]] = []
        unsure: list[Call] = []
        for call in ripe:
            options = _available(call.cpu_options)
            if not options:
                continue
            if len(_likely(options)) > 1 or self._cpu_wanted(call, options[0], near):
                unsure.append(call)
            else:
                given.append((call, unrivalled(options, _cpu_figures, excused=call.failed)))
        for call, verdict in given:
            self._own_cpu(call, verdict)
        return unsure

    def _cpu_wanted(self, call: Call, mine: Option, near: Sequence[Call]) -> bool:
        """Whether a CPU line of this option could be another call's."""
        lines = _lines_of((mine,))
        for other in near:
            if other is not call:
                wanting = [one for one in other.cpu_options if not lines.isdisjoint(one.lines)]
                if wanting and _available(wanting):
                    return True
        return False

    def _own_cpu(self, call: Call, verdict: Verdict) -> None:
        option = verdict.option
        margin = min(verdict.margin, call.cpu_margin)
        if call.kernel_sure != "exact":  # what its barrier says of prep_msm isn't sure either
            margin = min(margin, SURE / 2)
        if margin >= SURE and self._fits_one_without(call, option):
            margin = SURE / 2
        rival = option.lines
        if margin < TOSS_UP and verdict.rival is not None:
            rival = verdict.rival.lines or rival
        for kind, line, other in zip(CPU, option.lines, rival, strict=True):
            if line is None:
                continue
            line.owned = True
            if other is not None and abs(other.a - line.a) <= ROUNDING_MS:
                call.lines[kind] = line
        _, prep, b_g2 = option.lines
        if prep is None and b_g2 is None:
            return
        poor = option.cost >= min(POOR_CPU, call.cpu_options[0].cost + DEARER)
        least = SURE if self.lock_lines else SURE_UNLOCKED
        sure = margin >= least and not poor and not self._unsure(call)
        call.cpu_sure = "exact" if sure else "inferred"
        if sure:
            for line, due in zip(option.lines, option.due, strict=True):
                if line is not None and due is not None and line.tied is None:
                    line.tied = due

    def _fits_one_without(self, call: Call, option: Option) -> bool:
        """Whether a call that finds no lines that fit it was entered as if these were its own.

        Its C1 or its GPU_START may be lost or torn, so that it doesn't claim them.
        """
        prep = option.lines[1]
        if prep is None:
            return False
        for other in self.waiting:
            if other is call or other.end is None or other.failed:
                continue
            some = other.cpu_options
            if some and some[0].cost <= POOR_CPU and None not in some[0].lines:
                continue
            lo, hi = other.entry_lo + prep.a, other.entry_hi + prep.a + USUAL_SPAWN_MS
            if misfit(lo, hi, prep) < FITS_WELL:
                return True
        return False

    def _free_preparations(self, call: Call) -> list[Option]:
        """The same as `_preparations`, free, and noted."""
        call.cpu_options = self._preparations(call)
        return _available(call.cpu_options)

    def _all_preparations(self, call: Call) -> list[Option]:
        """The same as `_preparations`, with all that is hardly likely, and free."""
        return _available(self._preparations(call, full=True))

    def _preparations(self, call: Call, *, full: bool = False) -> list[Option]:
        """The sets (C1, C2, C3) that could be the call's, given what is known of its kernels."""
        if not self.lock_lines:
            return self._preparations_by_block(call, full=full)
        if call.settled or not call.lines.keys().isdisjoint(CHAIN):
            chain = tuple(call.lines.get(kind) for kind in CHAIN)
        else:
            free = _available(call.chains)
            chain = free[0].lines if free else (None,) * len(CHAIN)
        return self._preparations_by_chain(call, chain, full=full)

    def _preparations_by_chain(
        self, call: Call, chain: tuple[Line | None, ...], *, full: bool = False
    ) -> list[Option]:
        take = chain[0]
        finish = None
        if call.end is not None and not call.failed and call.returned is not None:
            finish = Finish(call.end, FINISH_MS, call.returned)
        return preparations(
            call,
            self.pools,
            self._tape.bounds,
            setup_limit=(call.end_seq, None) if take is None else (take.seq, take.a),
            barrier=barrier_of_chain(call, chain),
            finish=finish,
            last=NEVER if call.failed else call.end_seq,
            unfinished=call.failed or call in self._under_way,
            full=full,
        )

    def _preparations_by_block(self, call: Call, *, full: bool) -> list[Option]:
        block = call.block
        still_open = call.end is None and not call.end_seq
        last = NEVER if call.failed or still_open else min(call.end_seq, call.done_seq)
        return preparations(
            call,
            self.pools,
            self._tape.bounds,
            setup_limit=(last if block is None else block.first_seq, None),
            barrier=None if block is None else barrier_of_block(block),
            finish=self._fitting.finish(call, block),
            last=last,
            unfinished=call.failed or still_open,
            full=full,
        )


def bound_entry(call: Call) -> None:
    """Bound the instant at which the call was entered by all that is known of it."""
    lo = call.start + (call.spawn or 0)
    hi = math.inf
    within = ENTRY_MS
    if call.end is not None and call.gpu_ms is not None:
        hi = call.end + 1.0 - call.gpu_ms
    if call.prove_start is not None and call.returned is not None:
        timed = call.returned + STAMP_MS - call.prove_start
        if timed < hi:
            hi, within = timed, 1.0 + 2 * STAMP_MS
    if hi == math.inf:
        hi = lo + (SPAWN_MS if call.spawn is None else TIMED_SPAWN_MS)
    elif call.spawn is not None or hi - lo <= USUAL_SPAWN_MS:
        lo = max(lo, hi - within)
    call.entry_lo = lo
    call.entry_hi = max(hi, lo + 1.0)


def _tie_chain(chains: Sequence[Option]) -> None:
    """Note when lines were due on which all likely chains agree: neighbours gain by it."""
    best = chains[0]
    rivals = [other for other in chains[1:] if other.cost - best.cost < TIE_MARGIN]
    if not rivals:
        for line, due in zip(best.lines, best.due, strict=True):
            if line is not None and due is not None:
                line.tied = due
        return
    for index, (line, due) in enumerate(zip(best.lines, best.due, strict=True)):
        if line is None or due is None:
            continue
        if all(other.lines[index] is line for other in rivals):
            line.tied = due


def _barrier_key(chain: Sequence[Line | None]) -> object:
    """What a chain says of prep_msm: chains of which it is the same ask for the same CPU lines."""
    take, ntt, barrier, batch, _, _ = chain
    if take is None or ntt is None or barrier is None or batch is None:
        return chain
    since = take.a + take.b + ntt.a + barrier.a
    return since // 2, barrier.a >= WAITED_MS


def _available(options: Sequence[Option]) -> list[Option]:
    """Those of which nobody has a line."""
    free: list[Option] = []
    for option in options:
        for line in option.lines:
            if line is not None and line.owned:
                break
        else:
            free.append(option)
    return free


def _likely(options: Sequence[Option]) -> Sequence[Option]:
    """Those that cost little more than the first, which is the cheapest."""
    if len(options) < 2:
        return options
    return [option for option in options if option.cost <= options[0].cost + HORIZON]


def _lines_of(options: Sequence[Option]) -> set[Line]:
    """All that are in these options."""
    return {line for option in options for line in option.lines if line is not None}


def _chain_figures(lines: Sequence[Line | None]) -> tuple[int | None, ...]:
    """All that is shown of a chain."""
    return tuple(
        figure for line in lines for figure in ((None, None) if line is None else (line.a, line.b))
    )


def _cpu_figures(lines: Sequence[Line | None]) -> tuple[int | None, ...]:
    """All that is shown of a call's CPU lines."""
    _, prep, b_g2 = lines
    return (None if prep is None else prep.a, None if b_g2 is None else b_g2.a)


def _entry_of(call: Call) -> float:
    return call.entry_lo
