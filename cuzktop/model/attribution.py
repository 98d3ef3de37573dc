"""Whose line is it: the anonymous lines of the prove calls get their owners.

What is known. A call is entered at an instant that GPU_START, GPU_END − gpu_ms and the start call's
own report bound to a few milliseconds. Each of its lines states durations that lead back to that
instant: the lock was taken at entry + pre_lock + wait, the NTT was done ntt_msm_h later, and so on.
So a line that was written in `[lo, hi]` and states `d` belongs to a call entered about `d` before.
Identities tie lines together without any clock: `pre_lock + wait + held = total_start_fn`,
`ntt + barrier + batch + tail = gpu_total`; and a barrier that had to wait ends when prep_msm does.

What is done. When a call has ended, every line of it has been read, so the sets of lines that
could be its own are listed, each with a cost: how late its lines would have been printed, and how
far its identities are off. Once the calls that entered about the same time have ended too, the
cheapest assignment of all of them together is looked for; it is `exact` when the next best that
would change a figure costs at least `SURE` more, `inferred` otherwise. A cost is roughly the
negative logarithm of a likelihood; the constants are read off real captures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from cuzktop.model.state import Call, Line

C1, C2, C3, C4, C6, C7, C8, C9, C10, C11 = 1, 2, 3, 4, 6, 7, 8, 9, 10, 11
KINDS = (C1, C2, C3, C4, C6, C7, C8, C9, C10, C11)

LATE_MAX_MS = 700.0  # a line is printed at most so late; 401 was the worst seen
EARLY_MAX_MS = 60.0  # a later line's clock can be older than this line by so much; 23 was the worst
NEAR_MS = 500.0  # calls entered closer than this compete for lines
MISSING = 9.0  # the cost of a line that should be there and isn't
SURE = 5.0  # e^5: the next best assignment is a hundred times less likely
KEEP_OPTIONS = 12
MAX_WAITING_CALLS = 192  # unsettled calls: 8 GPUs, 4 workers, 6 calls each; more are forced
TIE_MARGIN = 4.0  # chains this much dearer than the best don't disturb what it says of times
SEARCH_STEPS = 4000
KEEP_OLDER = 64  # lines dropped at a time, so that dropping costs little a line
KEEP_LINES = 4096  # anonymous lines that are remembered for their order

Option = tuple[float, tuple[Line | None, ...]]
"""The cost of a call owning these lines."""
CpuOption = tuple[float, tuple[Line | None, ...], tuple[tuple[float, float], tuple[float, float]]]
"""The same with the times between which C2 and C3 would have been written."""

_SLACK_COST = (1.5, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
"""What gpu_total may exceed the sum of its parts by, in ms → cost; 1 and 2 are usual."""


def late_cost(late_ms: float) -> float:
    """The cost of a line printed `late_ms` after the instant that it reports."""
    if late_ms <= 1.5:
        return 0.0
    return 2.0 * math.log(1.0 + (late_ms - 1.5) / 1.5)


def misfit(earliest: float, latest: float, line: Line) -> float:
    """The cost of `line` having been due between `earliest` and `latest`; inf if it can't be."""
    late = line.lo - latest
    if late > 1.5:
        return math.inf if late > LATE_MAX_MS else 2.0 * math.log(late / 1.5)
    early = earliest - line.hi
    if early > 0.0:
        return math.inf if early > EARLY_MAX_MS else 0.3 + 0.2 * early
    return 0.0


def misfit_within(
    earliest: float, latest: float, bounds: tuple[float, float, float, float]
) -> float:
    """`misfit` for a line that is bounded by clocks, and by neighbours, who may be late."""
    clock_lo, clock_hi, lo, hi = bounds
    late = max(clock_lo, lo) - latest
    if late > 1.5:
        return math.inf if late > LATE_MAX_MS else 2.0 * math.log(late / 1.5)
    early = earliest - clock_hi
    cost = 0.0
    if early > 0.0:
        if early > EARLY_MAX_MS:
            return math.inf
        cost = 0.3 + 0.2 * early
    if earliest > hi:
        cost = max(cost, late_cost(earliest - hi))
    return cost


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
        self.single_gpu = True
        self.counts = {"lines": 0, "owned": 0, "orphans": 0}
        self._blocks: list[dict[int, Line]] = []
        self._block: dict[int, Line] = {}

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

    def opened(self, call: Call) -> None:
        """GPU_START of `call`."""
        self.waiting.append(call)

    def ended(self, call: Call) -> None:
        """GPU_END of `call`, or its failure: all its lines have been read, but for late ones."""
        bound_entry(call)
        call.options = self._chains(call)
        if call.options:
            self._tie(call, call.options)
        self.settle()

    def settle(self, *, force: bool = False) -> None:
        """Settle every ended call whose rivals have all ended; with `force`, every ended call."""
        waiting = self.waiting
        found = True
        while found:
            found = False
            crowded = force or len(waiting) > MAX_WAITING_CALLS
            for call in waiting:
                if call.end is not None and (crowded or not self._has_open_rival(call)):
                    self._settle(call)
                    waiting.remove(call)
                    call.settled = True
                    self._on_settled(call)
                    self._prune()
                    found = True
                    break

    def _has_open_rival(self, call: Call) -> bool:
        """Whether some call that could own the same lines has not ended yet."""
        first, last = call.entry_lo - NEAR_MS, call.entry_hi + NEAR_MS
        if not self.lock_lines and call.end is not None:
            first, last = -math.inf, call.end  # whoever waited for the lock meanwhile
        return any(other.end is None and first <= other.start <= last for other in self.waiting)

    def flush(self) -> None:
        """The run is over: settle every ended call, whatever may have been missing."""
        self.clocked(math.inf)
        self.settle(force=True)

    # ------------------------------------------------------------ housekeeping

    def _prune(self) -> None:
        """Drop lines that no call to come can own: those written before all of them opened."""
        oldest = min((call.start_seq for call in self.waiting), default=self.sequence())
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

    # ------------------------------------------------------------ lock and kernels

    def _chains(self, call: Call) -> list[Option]:
        """The sets (C4, C6, C7, C8, C9, C10) that could be the call's, cheapest first."""
        if self.contiguous:
            return []
        options = self._printed_chains(call) if self.lock_lines else self._derived_chains(call)
        options.sort(key=_cost)
        if options:
            limit = options[0][0] + 4 * SURE
            options = [option for option in options[:KEEP_OPTIONS] if option[0] <= limit]
        return options

    def _printed_chains(self, call: Call) -> list[Option]:
        """S41 and newer: the lock's acquisition and release are printed."""
        lo, hi = call.entry_lo, call.entry_hi
        first, last = call.start_seq, call.end_seq
        release_last = call.returned_seq if call.prove_start is not None else last
        prove_start = call.prove_start
        options: list[Option] = []
        takes = [line for line in self.pools[C4] if first <= line.seq < last]
        for release in self.pools[C10]:
            if not first <= release.seq < release_last:
                continue
            total = release.b
            if prove_start is not None and total > prove_start + 1:
                continue
            cost = misfit(lo + total, hi + total + 1, release)
            if cost > LIMIT:
                continue
            if prove_start is not None:
                cost += _gap_cost(prove_start - total, 3.0, 0.5)
            for take in takes:
                if take.seq > release.seq:
                    break
                before = take.a + take.b
                rest = total - before - release.a
                if not 0 <= rest <= 3:
                    continue
                take_cost = misfit(lo + before, hi + before + 2, take)
                if take_cost > LIMIT:
                    continue
                locked = cost + take_cost + (0.0 if rest <= 2 else 3.0)
                acquired = (lo + before, hi + before + 2)
                self._kernels(call, take, release, acquired, locked, options)
        if not options:
            self._partial_chains(call, takes, options)
        return options

    def _kernels(
        self,
        call: Call,
        take: Line | None,
        release: Line | None,
        acquired: tuple[float, float],
        cost: float,
        options: list[Option],
    ) -> None:
        """Complete a lock's acquisition and release by the kernels' lines between them."""
        lo, hi = acquired
        first = call.start_seq if take is None else take.seq
        last = call.end_seq if release is None else release.seq
        found = False
        for end in self.pools[C9]:
            if not first <= end.seq < last:
                continue
            total, tail = end.b, end.a
            if release is not None:
                outside = release.a - total
                if outside < -1 or outside > 450:
                    continue
                end_cost = _gap_cost(outside, 7.0, 1.0)
            else:
                end_cost = 0.0
            end_cost += cost + misfit(lo + total, hi + total + 1, end)
            if end_cost > cost + LIMIT:
                continue
            for batch in self.pools[C8]:
                if batch.seq >= end.seq:
                    break
                if batch.seq < first:
                    continue
                batch_cost = end_cost + misfit(lo + total - tail - 7, hi + total - tail + 1, batch)
                if batch_cost > cost + LIMIT:
                    continue
                opened = total - tail - batch.a
                for barrier in self.pools[C7]:
                    if barrier.seq >= batch.seq:
                        break
                    if barrier.seq < first:
                        continue
                    barrier_cost = batch_cost + misfit(lo + opened - 7, hi + opened + 1, barrier)
                    if barrier_cost > cost + LIMIT:
                        continue
                    for ntt in self.pools[C6]:
                        if ntt.seq >= barrier.seq:
                            break
                        if ntt.seq < first:
                            continue
                        slack = total - tail - batch.a - barrier.a - ntt.a
                        if not -1 <= slack <= 10:
                            continue
                        ntt_cost = barrier_cost + misfit(lo + ntt.a, hi + ntt.a + 1, ntt)
                        if ntt_cost > cost + LIMIT:
                            continue
                        ntt_cost += _SLACK_COST[slack] if 0 <= slack < 8 else 6.0
                        options.append((ntt_cost, (take, ntt, barrier, batch, end, release)))
                        found = True
        if not found:
            self._partial_kernels(call, take, release, acquired, cost, options)

    def _partial_kernels(
        self,
        call: Call,
        take: Line | None,
        release: Line | None,
        acquired: tuple[float, float],
        cost: float,
        options: list[Option],
    ) -> None:
        """What is left of the kernels' lines when some are missing, by their times alone."""
        lo, hi = acquired
        first = call.start_seq if take is None else take.seq
        last = call.end_seq if release is None else release.seq

        def nearest(kind: int, earliest: float, latest: float, own: int) -> Line | None:
            best, best_cost, rivals = None, 4.0, 0
            for line in self.pools[kind]:
                if not first <= line.seq < last:
                    continue
                figure = line.b if own else line.a
                fit = misfit(earliest + figure, latest + figure + 1, line)
                if fit <= 4.0:
                    rivals += 1
                if fit < best_cost:
                    best, best_cost = line, fit
            return best if rivals == 1 else None

        ntt = nearest(C6, lo, hi, 0)
        end = nearest(C9, lo, hi, 1)
        if end is not None and release is not None and not -1 <= release.a - end.b <= 450:
            end = None
        barrier = None if ntt is None else nearest(C7, lo + ntt.a, hi + ntt.a + 1, 0)
        batch = None
        if end is not None:
            due = (lo + end.b - end.a - 7, hi + end.b - end.a + 1)
            fits = [
                line
                for line in self.pools[C8]
                if first <= line.seq < end.seq and misfit(*due, line) <= 4.0
            ]
            batch = fits[0] if len(fits) == 1 else None
        elif barrier is not None and ntt is not None:
            since = ntt.a + barrier.a
            batch = nearest(C8, lo + since, hi + since + 2, 0)
        if end is not None and batch is not None and ntt is not None:
            known = end.a + batch.a + ntt.a + (0 if barrier is None else barrier.a)
            if end.b < known - 1 or (barrier is not None and end.b > known + 10):
                return
        missing = sum(line is None for line in (ntt, barrier, batch, end))
        weight = 0.0 if call.failed else MISSING
        options.append((cost + weight * missing, (take, ntt, barrier, batch, end, release)))

    def _partial_chains(self, call: Call, takes: list[Line], options: list[Option]) -> None:
        """A call whose acquisition or release is missing from the log."""
        lo, hi = call.entry_lo, call.entry_hi
        last = call.returned_seq if call.prove_start is not None else call.end_seq
        for take in takes:
            before = take.a + take.b
            cost = misfit(lo + before, hi + before + 2, take)
            if cost <= 4.0:
                acquired = (lo + before, hi + before + 2)
                self._kernels(call, take, None, acquired, cost + MISSING, options)
        for release in self.pools[C10]:
            if not call.start_seq <= release.seq < last:
                continue
            total = release.b
            if call.prove_start is not None and not call.prove_start - total >= -1:
                continue
            cost = misfit(lo + total, hi + total + 1, release)
            if cost <= 4.0:
                acquired = (lo + total - release.a - 2, hi + total - release.a + 1)
                self._kernels(call, None, release, acquired, cost + MISSING, options)

    def _derived_chains(self, call: Call) -> list[Option]:
        """Before S41: a block of kernels' lines, placed by its end and by prep_msm."""
        lo, hi = call.entry_lo, call.entry_hi
        first, last = call.start_seq, call.end_seq
        if call.end is None:
            return []
        options: list[Option] = []
        preps = [line for line in self.pools[C2] if first <= line.seq < last]
        setups = [
            line
            for line in self.pools[C1]
            if first <= line.seq < last and misfit(lo + line.b, hi + line.b + 1, line) < 6.0
        ]
        setup_ms = min((line.b for line in setups), default=0) if len(setups) == 1 else None
        previous: Line | None = None
        for end in self.pools[C9]:
            if end.seq >= last:
                break
            before, previous = previous, end
            if end.seq < first:
                continue
            total, tail = end.b, end.a
            # Acquired not before the entry; released not after the worker moved on.
            acquired_lo, acquired_hi = end.lo - total - 1, end.hi - total
            if acquired_hi < lo - 5:
                continue
            cost = 0.0
            if call.next_pickup is not None and end.lo > call.next_pickup + 5:
                continue
            if call.end is not None and end.lo > call.end + 1:
                continue
            free = -math.inf if before is None or not self.single_gpu else before.hi
            due = max(free, hi + (60 if setup_ms is None else setup_ms + 30))
            if self.single_gpu:
                cost += late_cost(acquired_lo - due)
            wait = max(0.0, (acquired_lo + acquired_hi) / 2 - hi)
            cost += min(6.0, 0.5 * (wait / max(total, 1)) ** 2)
            for batch in reversed(self.pools[C8]):
                if batch.seq >= end.seq or batch.seq < first:
                    continue
                batch_cost = cost + misfit(end.lo - tail - 8, end.hi - tail + 1, batch)
                if batch_cost > cost + LIMIT:
                    continue
                opened_lo, opened_hi = end.lo - tail - batch.a - 8, end.hi - tail - batch.a + 1
                for ntt in reversed(self.pools[C6]):
                    if ntt.seq >= batch.seq or ntt.seq < first:
                        continue
                    barrier_ms = total - tail - batch.a - ntt.a
                    if barrier_ms < -1:
                        continue
                    ntt_cost = batch_cost + misfit(
                        end.lo - total + ntt.a - 1, end.hi - total + ntt.a + 2, ntt
                    )
                    if ntt_cost > cost + LIMIT:
                        continue
                    ntt_cost += self._prep_cost(
                        preps, (lo, hi), setup_ms, barrier_ms, (opened_lo, opened_hi), batch
                    )
                    options.append((ntt_cost, (None, ntt, None, batch, end, None)))
                    if self.single_gpu:
                        break
                if self.single_gpu:
                    break
        return options

    def _prep_cost(
        self,
        preps: list[Line],
        entry: tuple[float, float],
        setup_ms: int | None,
        barrier_ms: int,
        opened: tuple[float, float],
        batch: Line,
    ) -> float:
        """How badly the best prep_msm fits a barrier that ended in `opened`."""
        best = 8.0
        lo, hi = entry
        spread = (0, 40) if setup_ms is None else (setup_ms, setup_ms + 1)
        for prep in preps:
            if prep.seq > batch.seq:
                break
            due_lo, due_hi = lo + spread[0] + prep.a, hi + spread[1] + prep.a + 1
            fit = misfit(due_lo, due_hi, prep)
            if fit > LIMIT:
                continue
            if barrier_ms > 4:  # the kernels waited, so the barrier opened when prep was done
                fit += late_cost(max(opened[0] - due_hi, due_lo - opened[1]))
            else:
                fit += late_cost(due_lo - opened[1])
            best = min(best, fit)
        return best

    def _tie(self, call: Call, options: list[Option]) -> None:
        """Note when lines were written on which all likely chains agree: neighbours gain by it."""
        best, lines = options[0]
        rivals = [other for cost, other in options[1:] if cost - best < TIE_MARGIN]
        take, ntt, barrier, batch, end, release = lines
        if take is None:
            return
        locked = call.entry_lo + take.a + take.b + 1.0
        times: list[float | None] = [locked, None, None, None, None, None]
        if ntt is not None:
            times[1] = locked + ntt.a + 0.5
            if barrier is not None:
                times[2] = locked + ntt.a + barrier.a + 1.0
        if end is not None:
            times[4] = locked + end.b + 0.5
            if batch is not None:
                times[3] = locked + end.b - end.a
        if release is not None:
            times[5] = call.entry_lo + release.b + 0.5
        for index, line in enumerate(lines):
            if line is not None and all(other[index] is line for other in rivals):
                line.tied = times[index]

    # ------------------------------------------------------------ the CPU's lines

    def _bounds(self, line: Line) -> tuple[float, float, float, float]:
        """The line's interval by clocks, and by neighbours whose times are known: lo, hi, lo, hi."""
        index = line.seq - self._order_base
        order = self._order
        lo, hi = line.lo, line.hi
        for at in range(index - 1, max(-1, index - 9), -1):
            tied = order[at].tied
            if tied is not None:
                lo = tied - 1.5
                break
        for at in range(index + 1, min(len(order), index + 9)):
            tied = order[at].tied
            if tied is not None:
                hi = tied + 1.5
                break
        return line.lo, line.hi, lo, hi

    def _cpu_options(
        self, call: Call, chain: tuple[Line | None, ...] | None
    ) -> tuple[list[CpuOption], list[CpuOption]]:
        """The sets (C1, C2, C3) that could be the call's; and those that a settled call took."""
        take, ntt, barrier, batch, end, _ = chain or (None,) * 6
        first, last = call.start_seq, call.end_seq
        entry_lo, entry_hi = call.entry_lo, call.entry_hi
        late_failure = call.failed
        before_take = last if take is None else take.seq
        setups: list[tuple[float, Line | None]] = []
        for line in self.pools[C1]:
            if not first <= line.seq <= before_take:
                continue
            if take is not None and line.b > take.a + 2:
                continue
            cost = misfit(entry_lo + line.b, entry_hi + line.b + 1, line)
            if cost <= LIMIT:
                setups.append((cost, line))
        setups.sort(key=_first)
        if not setups:
            setups = [(MISSING, None)]
        open_known: tuple[float, float] | None = None
        waited = False
        if take is not None and ntt is not None and barrier is not None:
            since = take.a + take.b + ntt.a + barrier.a
            open_known = (entry_lo + since, entry_hi + since + 5)
            waited = barrier.a >= 2
        elif end is not None and batch is not None and ntt is not None and take is None:
            open_known = (end.lo - end.a - batch.a - 8, end.hi - end.a - batch.a + 1)
            waited = end.b - end.a - batch.a - ntt.a > 4
        before_open = min((line.seq for line in (barrier, batch) if line is not None), default=last)
        returned = call.returned if call.returned is not None else -math.inf
        options: list[CpuOption] = []
        taken: list[CpuOption] = []
        for setup_cost, setup in setups[:3]:
            setup_ms = 0 if setup is None else setup.b
            begun_lo, begun_hi = entry_lo + setup_ms, entry_hi + setup_ms + 1
            if setup is None:
                begun_hi += 30
            for prep in self.pools[C2]:
                if prep.seq < first or (setup is not None and prep.seq < setup.seq):
                    continue
                if prep.seq > before_open:
                    break
                due_lo, due_hi = begun_lo + prep.a, begun_hi + prep.a + 1.5
                bounds = self._bounds(prep)
                cost = misfit_within(due_lo, due_hi, bounds)
                if open_known is not None:
                    if waited:
                        # It was written just before the barrier opened.
                        cost = max(cost, late_cost(open_known[0] - 1 - due_hi))
                    early = due_lo - open_known[1]
                    if early > 0:
                        cost += 1.0 + 0.4 * early
                if cost > LIMIT:
                    continue
                cost += setup_cost
                lo = max(bounds[0], bounds[2])
                hi = max(lo, min(bounds[1], bounds[3]))
                late = max(0.0, lo - due_hi)
                done_lo, done_hi = max(lo, due_lo), min(hi, due_hi + late + 3)
                if waited and open_known is not None:
                    done_lo = max(done_lo, open_known[0] - 4)
                    done_hi = max(done_lo, min(done_hi, open_known[1] + 1))
                done_hi = max(done_lo, done_hi)
                found = False
                for b_g2 in self.pools[C3]:
                    if b_g2.seq < prep.seq:
                        continue
                    if b_g2.seq > last:
                        break
                    due3 = (done_lo + b_g2.a, done_hi + b_g2.a + 2.5)
                    bounds3 = self._bounds(b_g2)
                    cost3 = misfit_within(*due3, bounds3)
                    if cost3 > LIMIT:
                        continue
                    if call.end is not None and not call.failed:
                        done3 = min(bounds3[1], due3[1])
                        cost3 += 0.6 * late_cost(call.end - max(done3, returned) - 3)
                    found = True
                    option: CpuOption = (
                        cost + cost3,
                        (setup, prep, b_g2),
                        ((done_lo, done_hi), (max(due3[0], bounds3[0]), max(due3[1], bounds3[0]))),
                    )
                    if _final(prep) or _final(b_g2):
                        taken.append(option)
                    else:
                        options.append(option)
                if not found or late_failure:
                    alone: CpuOption = (
                        cost + (0.0 if late_failure else MISSING),
                        (setup, prep, None),
                        ((done_lo, done_hi), (0.0, math.inf)),
                    )
                    (taken if _final(prep) else options).append(alone)
        options.sort(key=_cost)
        return options[:KEEP_OPTIONS], taken

    # ------------------------------------------------------------ settling

    def _settle(self, call: Call) -> None:
        """Give the call its lines for good, as its rivals allow."""
        if self.contiguous:
            self._settle_block(call)
            return
        near = [
            other
            for other in self.waiting
            if other is not call
            and other.end is not None
            and abs(other.entry_lo - call.entry_lo) <= 8 * NEAR_MS
        ]
        chain = self._settle_chain(call, near)
        self._settle_cpu(call, chain, near)

    def _settle_chain(self, call: Call, near: list[Call]) -> tuple[Line | None, ...] | None:
        options = _available(call.options or [])
        if not options:
            return None
        taken = [option for option in call.options or () if option not in options]
        mine = {line for _, lines in options for line in lines if line is not None}
        rivals = [
            other
            for other in near
            if other.options and any(line in mine for _, lines in other.options for line in lines)
        ]
        best, margin = search(
            options, [_available(rival.options or []) for rival in rivals[:7]], _chain_figures
        )
        if best is None:
            return None
        margin = min(margin, _regret(best, taken, _chain_figures, "kernel_sure"))
        take, ntt, barrier, batch, end, release = best[1]
        certain = margin >= SURE and len(rivals) <= 7
        if not self.lock_lines:
            certain = certain and best[0] < 2 * SURE
        level = "exact" if certain and best[0] < 3 * SURE + MISSING else "inferred"
        for kind, line in zip((C4, C6, C7, C8, C9, C10), best[1], strict=True):
            if line is not None:
                self._own(call, kind, line)
        if take is not None or release is not None:
            call.lock_sure = level
        if any(line is not None for line in (ntt, barrier, batch, end)):
            call.kernel_sure = level
        return best[1]

    def _settle_cpu(
        self, call: Call, chain: tuple[Line | None, ...] | None, near: Iterable[Call]
    ) -> None:
        options, taken = self._cpu_options(call, chain)
        if not options:
            return
        mine = {line for _, lines, _ in options for line in lines if line is not None}
        rivals: list[list[CpuOption]] = []
        for other in near:
            if abs(other.entry_lo - call.entry_lo) > 2 * NEAR_MS:
                continue
            other_chain = other.options[0][1] if other.options else None
            theirs, _ = self._cpu_options(other, other_chain)
            if any(line in mine for _, lines, _ in theirs for line in lines):
                rivals.append(theirs)
        best, margin = search(options, rivals[:7], _cpu_figures, _disorder)
        if best is None:
            return
        margin = min(margin, _regret(best, taken, _cpu_figures, "cpu_sure"))
        for kind, line in zip((C1, C2, C3), best[1], strict=True):
            if line is not None:
                self._own(call, kind, line)
        sure = margin >= SURE and best[0] < 2 * SURE and len(rivals) <= 7
        call.cpu_sure = "exact" if sure else "inferred"
        if sure:
            for line, (lo, hi) in zip(best[1][1:], best[2], strict=True):
                if line is not None and line.tied is None and hi - lo < 12:
                    line.tied = (lo + hi) / 2

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
            self._own(call, kind, line)
        level = "exact" if C1 in block and C9 in block else "inferred"
        call.kernel_sure = call.cpu_sure = level

    def _own(self, call: Call, kind: int, line: Line) -> None:
        call.lines[kind] = line
        line.owner = call
        self.counts["owned"] += 1


LIMIT = 13.0  # a single line costs at most so much: 700 ms late


AnyOption = TypeVar("AnyOption", bound=tuple[Any, ...])


def search(
    mine: list[AnyOption],
    rivals: list[list[AnyOption]],
    figures: Callable[[tuple[Line | None, ...]], tuple[int | None, ...]],
    between: Callable[[AnyOption, AnyOption], float] | None = None,
) -> tuple[AnyOption | None, float]:
    """My option in the cheapest assignment of me and my rivals, and how much the next one costs.

    An option is (cost, lines, …). The next one is the cheapest whose `figures` for me differ. Each
    line is used once; `between` is the cost of two options standing side by side. A rival may go
    without, at the cost of what it then lacks.
    """
    if not mine:
        return None, 0.0
    without = 4 * MISSING
    floor = [min((option[0] for option in options), default=without) for options in rivals]
    rest = [sum(floor[index:]) for index in range(len(floor) + 1)]
    steps = 0

    def cheapest(
        index: int, chosen: tuple[AnyOption, ...], used: frozenset[Line], limit: float
    ) -> float:
        nonlocal steps
        if index == len(rivals):
            return 0.0
        best = limit
        for option in rivals[index]:
            steps += 1
            if option[0] + rest[index + 1] >= best or steps > SEARCH_STEPS:
                break
            lines = [line for line in option[1] if line is not None]
            if any(line in used for line in lines):
                continue
            cost: float = option[0]
            if between is not None:
                for other in chosen:
                    cost += between(other, option)
                if cost + rest[index + 1] >= best:
                    continue
            below = cheapest(index + 1, (*chosen, option), used.union(lines), best - cost)
            best = min(best, cost + below)
        if without + rest[index + 1] < best:
            best = min(best, without + cheapest(index + 1, chosen, used, best - without))
        return best

    totals: list[tuple[float, AnyOption]] = []
    bound = math.inf
    for option in mine:
        if option[0] + rest[0] > bound + 2 * SURE:
            continue
        used = frozenset(line for line in option[1] if line is not None)
        total = option[0] + cheapest(0, (option,), used, without * (len(rivals) + 1))
        totals.append((total, option))
        bound = min(bound, total)
    totals.sort(key=_first_total)
    best_total, best = totals[0]
    chosen_figures = figures(best[1])
    margin = 4 * SURE
    for total, option in totals[1:]:
        if figures(option[1]) != chosen_figures:
            margin = total - best_total
            break
    if steps > SEARCH_STEPS:
        margin = min(margin, 0.0)
    return best, margin


def _disorder(one: CpuOption, other: CpuOption) -> float:
    """The cost of lines standing in the file in another order than they would be written in."""
    cost = 0.0
    for line, (lo, hi) in zip(one[1][1:], one[2], strict=True):
        if line is None:
            continue
        for beside, (beside_lo, beside_hi) in zip(other[1][1:], other[2], strict=True):
            if beside is None:
                continue
            if line.seq < beside.seq:
                cost += late_cost(lo - beside_hi - 1.0)
            else:
                cost += late_cost(beside_lo - hi - 1.0)
    return cost


def _regret(
    best: AnyOption,
    taken: list[AnyOption],
    figures: Callable[[tuple[Line | None, ...]], tuple[int | None, ...]],
    level: str,
) -> float:
    """How much dearer the best option is to replace by one that an unsure call has taken from us."""
    least = math.inf
    chosen = figures(best[1])
    for option in taken:
        if figures(option[1]) != chosen and any(
            line is not None and line.owner is not None and getattr(line.owner, level) != "exact"
            for line in option[1]
        ):
            least = min(least, option[0] - best[0])
    return least


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
    call.entry_lo = lo
    call.entry_hi = max(hi, lo + 1.0)


def _gap_cost(gap_ms: float, usual_ms: float, weight: float) -> float:
    """The cost of a gap that is usually at most `usual_ms`."""
    return 0.0 if gap_ms <= usual_ms else weight * math.log(gap_ms / usual_ms)


def _cost(option: Option | CpuOption) -> float:
    return option[0]


def _first(pair: tuple[float, Line | None]) -> float:
    return pair[0]


def _first_total(pair: tuple[float, object]) -> float:
    return pair[0]


def _final(line: Line) -> bool:
    return line.owner is not None


def _available(options: list[Option]) -> list[Option]:
    return [
        option
        for option in options
        if all(line is None or line.owner is None for line in option[1])
    ]


def _chain_figures(lines: tuple[Line | None, ...]) -> tuple[int | None, ...]:
    """All that is shown of a chain."""
    return tuple(
        figure for line in lines for figure in ((None, None) if line is None else (line.a, line.b))
    )


def _cpu_figures(lines: tuple[Line | None, ...]) -> tuple[int | None, ...]:
    _, prep, b_g2 = lines
    return (None if prep is None else prep.a, None if b_g2 is None else b_g2.a)
