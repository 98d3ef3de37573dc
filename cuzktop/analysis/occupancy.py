"""Where a GPU's wall time went: the ladder, and the exclusive classes that add up to 100 %.

Brackets contain the lock, the lock contains the kernels and their wait for the CPU. So the classes
follow from four unions: kernels, barrier, lock, brackets; what no bracket covers is starved while
some partition is on its way to the GPU, and without work otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from cuzktop.analysis.intervals import Span, clipped, gaps, length, shared, united
from cuzktop.dataclass import NamedTuple
from cuzktop.frame import Shares
from cuzktop.model.state import History

KNOWN_SHARE = 0.97  # of the calls must have lock and kernel times, or the shares aren't given


SPLIT_MOST = 20_000  # calls; of more, what lies before and after the lock isn't told apart
TWICE_HELD = 1.2  # the sum of the locks' times exceeds their union by no more on one card


class _Folded(NamedTuple):
    """What forgotten calls came to; locks, and what lies before them, up to `until`."""

    kernel_ms: float
    barrier_ms: float
    section_ms: float
    held_ms: float
    lock_ms: float
    before_ms: float
    until: float


class Running(NamedTuple):
    """A call that is open or not settled, as far as it went."""

    begun: float
    ended: float | None
    lock: Span | None
    kernels: list[Span]
    barrier: Span | None
    section_ms: float  # at most so long after it took the lock


class Phases:
    """One GPU's calls over [start, end], as spans: what `shares` is made of."""

    __slots__ = (
        "_folded",
        "barrier_ms",
        "barriers",
        "befores",
        "bracket_sum_ms",
        "brackets",
        "end",
        "kernel_ms",
        "kernels",
        "known",
        "locks",
        "section_ms",
        "sections",
        "start",
        "total",
        "unlocked",
    )

    def __init__(self, start: float, end: float) -> None:
        """Nothing has happened in [start, end]."""
        self.start = start
        self.end = end
        self.brackets: list[Span] = []
        self.locks: list[Span] = []
        self.befores: list[Span] = []  # brackets up to their locks
        self.kernel_ms = 0.0
        self.barrier_ms = 0.0
        self.kernels: list[Span] = []  # instead of their sums where calls can overlap
        self.barriers: list[Span] = []
        self.sections: list[Span] = []
        self.section_ms = 0.0
        self.bracket_sum_ms = 0.0
        self.total = 0  # finished calls in the span
        self.known = 0  # of them with kernel times
        self.unlocked = 0  # of them without lock times
        self._folded = _Folded(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, start)

    def add_history(self, history: History) -> None:
        """Count the ended calls that touch the span."""
        start, end = self.start, self.end
        first = history.first_since(start)
        overlapping = len(history.locks) > 1
        columns = zip(
            history.start[first:],
            history.end[first:],
            history.acquired[first:],
            history.ntt[first:],
            history.barrier[first:],
            history.batch[first:],
            history.tail[first:],
            history.released[first:],
            history.total[first:],
            history.finished[first:],
            strict=True,
        )
        for begun, ended, taken, ntt, barrier, batch, tail, released, total, finished in columns:
            if ended < start or begun > end:
                continue
            self.brackets.append((begun, ended))
            if finished:
                if start <= begun <= ended <= end:
                    self.bracket_sum_ms += ended - begun
                else:
                    self.bracket_sum_ms += clipped(begun, ended, start, end)
                self.total += 1
                if tail == tail and batch == batch:  # noqa: PLR0124 (NaN is unknown)
                    self.known += 1
                if not (taken == taken and released == released):  # noqa: PLR0124
                    self.unlocked += 1
            if taken == taken and released == released:  # noqa: PLR0124
                self.locks.append((taken, released))
                if len(self.befores) <= SPLIT_MOST:
                    self.befores.append((begun, taken))
            if taken != taken:  # noqa: PLR0124
                continue
            if overlapping:
                if total == total:  # noqa: PLR0124
                    self.sections.append((taken, taken + total))
                if ntt == ntt:  # noqa: PLR0124
                    self.kernels.append((taken, ntt))
                    if tail == tail:  # noqa: PLR0124
                        self.barriers.append((ntt, barrier))
                        self.kernels.append((barrier, tail))
                continue
            if start <= taken and (released <= end):
                if total == total:  # noqa: PLR0124
                    self.section_ms += total
                if ntt == ntt:  # noqa: PLR0124
                    self.kernel_ms += ntt - taken
                    if barrier == barrier:  # noqa: PLR0124
                        self.barrier_ms += barrier - ntt
                        if batch == batch:  # noqa: PLR0124
                            self.kernel_ms += batch - barrier
                            if tail == tail:  # noqa: PLR0124
                                self.kernel_ms += tail - batch
                continue
            self.add_phases(taken, ntt, barrier, batch, tail)
            if total == total:  # noqa: PLR0124
                self.section_ms += clipped(taken, taken + total, start, end)

    def add_phases(
        self, taken: float, ntt: float, barrier: float, batch: float, tail: float
    ) -> None:
        """Count a call's kernels and barrier as far as they lie in the span; NaN is unknown."""
        start, end = self.start, self.end
        if not math.isnan(ntt):
            self.kernel_ms += clipped(taken, ntt, start, end)
            if not math.isnan(barrier):
                self.barrier_ms += clipped(ntt, barrier, start, end)
                if not math.isnan(batch):
                    self.kernel_ms += clipped(barrier, batch, start, end)
                    if not math.isnan(tail):
                        self.kernel_ms += clipped(batch, tail, start, end)

    def add_running(self, one: Running) -> None:
        """Count a call that is open or not settled, as what it is so far."""
        start, end = self.start, self.end
        begun, ended, lock, kernels, barrier, section_ms = one
        self.brackets.append((begun, end if ended is None else ended))
        if ended is not None:
            self.bracket_sum_ms += clipped(begun, ended, start, end)
        self.befores.append((begun, end if lock is None else lock[0]))
        for lo, hi in kernels:
            self.kernel_ms += clipped(lo, hi, start, end)
        if barrier is not None:
            self.barrier_ms += clipped(*barrier, start, end)
        if lock is not None:
            self.locks.append(lock)
            self.section_ms += clipped(lock[0], min(lock[1], lock[0] + section_ms), start, end)

    def fold(self, until: float) -> None:
        """Give back the room that calls have taken, but for the gaps between brackets.

        They must have taken one lock. What is counted later must have begun at `until` or after.
        """
        before = self._folded
        self._folded = _Folded(
            kernel_ms=self.kernel_ms,
            barrier_ms=self.barrier_ms,
            section_ms=self.section_ms,
            held_ms=self._held_ms(until),
            lock_ms=self._lock_ms(until),
            before_ms=self._before_ms(until),
            until=max(before.until, until),
        )
        self.locks = [(max(lo, until), hi) for lo, hi in self.locks if hi > until]
        self.befores = [(max(lo, until), hi) for lo, hi in self.befores if hi > until]
        self.brackets = united(self.brackets, self.start, math.inf)

    def _held_ms(self, end: float) -> float:
        """How long locks were held up to `end`, each by itself."""
        before = self._folded
        start, held_ms = before.until, before.held_ms
        for lo, hi in self.locks:
            if start <= lo <= hi <= end:
                held_ms += hi - lo
            else:
                held_ms += clipped(lo, hi, start, end)
        return held_ms

    def _lock_ms(self, end: float) -> float:
        """How long some lock was held up to `end`."""
        before = self._folded
        return before.lock_ms + length(united(self.locks, before.until, end))

    def several_cards(self) -> bool:
        """Whether the lock would have been held twice at a time: these calls ran on several GPUs.

        One card's locks overlap only by the few milliseconds that their times are unsure.
        """
        return self._held_ms(self.end) > TWICE_HELD * self._lock_ms(self.end)

    def shares(
        self, waiting: Iterable[Span], *, derived: bool, placed: bool | None = True
    ) -> tuple[Shares, list[Span]]:
        """The shares of the span, and the spans in which the GPU starved.

        `waiting` are spans in which some partition was on its way to the GPU; `placed` says
        whether the log tells which GPU the workers use, None that there are several and it does so
        for some workers only. The lock's and the kernels' shares are None when too few calls have
        them; where calls of several GPUs can't be told apart, all are.
        """
        span_ms = self.end - self.start
        if span_ms <= 0:
            return Shares(span_ms=0.0), []
        covered = united(self.brackets, self.start, self.end)
        free = gaps(covered, self.start, self.end)
        starved = shared(free, united(waiting, self.start, self.end)) if free else []
        bracket_ms = length(covered)
        starved_ms = length(starved)
        percent = 100.0 / span_ms
        if placed is None or (not placed and self.several_cards()):
            return Shares(span_ms=span_ms, lock_derived=derived, mixed=True), starved
        if self.kernels:
            before = self._folded
            computing = united(self.kernels, self.start, self.end)
            kernel_ms = length(computing)
            self.kernel_ms = before.kernel_ms + kernel_ms
            sections = united(self.sections, self.start, self.end)
            self.section_ms = before.section_ms + length(sections)
            either = united([*computing, *self.barriers], self.start, self.end)
            self.barrier_ms = before.barrier_ms + length(either) - kernel_ms
        enough = self.total == 0 or self.known >= KNOWN_SHARE * self.total
        locked = self.total == 0 or self.unlocked <= (1 - KNOWN_SHARE) * self.total
        lock_pct = kernel_pct = section_pct = before_pct = after_pct = None
        time_pct = None
        if enough:
            kernel_pct = max(0.0, min(100.0, self.kernel_ms * percent))
            section_pct = max(0.0, min(100.0, self.section_ms * percent))
        if locked:
            # A lock has one holder: where spans overlap, one is misplaced, and their sum is right.
            # Only calls of several locks can overlap, up to S29.
            held_ms = self._lock_ms(self.end) if self.kernels else self._held_ms(self.end)
            lock_ms = min(held_ms, bracket_ms)
            lock_pct = lock_ms * percent
            if len(self.befores) <= SPLIT_MOST:
                handoff_ms = bracket_ms - lock_ms
                before_ms = min(handoff_ms, self._before_ms(self.end))
                before_pct, after_pct = before_ms * percent, (handoff_ms - before_ms) * percent
            if enough:
                kernel_ms = max(0.0, min(self.kernel_ms, lock_ms))
                barrier_ms = max(0.0, min(self.barrier_ms, lock_ms - kernel_ms))
                spent = {
                    "kernel": kernel_ms,
                    "barrier": barrier_ms,
                    "lock_overhead": lock_ms - kernel_ms - barrier_ms,
                    "handoff": bracket_ms - lock_ms,
                    "starved": min(starved_ms, span_ms - bracket_ms),
                }
                spent["no_work"] = max(0.0, span_ms - sum(spent.values()))
                time_pct = {name: part * percent for name, part in spent.items()}
        figures = Shares(
            span_ms=span_ms,
            bracket_union_pct=length(covered) * percent,
            bracket_sum_pct=self.bracket_sum_ms * percent,
            lock_held_pct=lock_pct,
            gpu_section_pct=section_pct,
            kernel_pct=kernel_pct,
            time_pct=time_pct,
            lock_derived=derived,
            before_lock_pct=before_pct,
            after_lock_pct=after_pct,
        )
        return figures, starved

    def _before_ms(self, end: float) -> float:
        """Time up to `end` with the lock free and some worker on its way to it."""
        before = self._folded
        befores = united(self.befores, before.until, end)
        held = shared(befores, united(self.locks, before.until, end))
        return before.before_ms + length(befores) - length(held)

    def bracket_gaps(self) -> tuple[int, float | None]:
        """Number and mean length of the times with no bracket open between two brackets."""
        free = gaps(united(self.brackets, self.start, self.end), self.start, self.end)
        inner = [hi - lo for lo, hi in free if lo > self.start and hi < self.end]
        return len(inner), sum(inner) / len(inner) if inner else None


def pairs(flat: Sequence[float]) -> list[Span]:
    """`from, to, from, to, …` as spans."""
    values = iter(flat)
    return list(zip(values, values, strict=False))


def weighted(shares: Iterable[Shares]) -> dict[str, float] | None:
    """The classes of several GPUs, weighted by span; None when one of them has none."""
    total: dict[str, float] = {}
    span = 0.0
    for one in shares:
        if one.span_ms <= 0:
            continue
        if one.time_pct is None:
            return None
        for name, part in one.time_pct.items():
            total[name] = total.get(name, 0.0) + part * one.span_ms
        span += one.span_ms
    return {name: part / span for name, part in total.items()} if span else None
