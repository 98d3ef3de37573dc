"""Log and driver set beside each other: what lies between them, and which of them can't be right.

Both are mostly right when they differ: the log's kernel time is host time around launches, copies
and waits, so that a GPU which is idle inside it is the finding, not an error. What can't be true:
a card that works while nobody holds its lock, and one that never works while kernels run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from cuzktop.analysis.intervals import Span
from cuzktop.events import GpuSampled
from cuzktop.frame import Shares
from cuzktop.units import percent

APART_PTS = 15.0
BIN_MS = 2000.0  # a reading is up to a second long, and late
MOST_BINS = 2000
LEAST_BINS = 10
MISFIT = 0.2  # of a card's use while the lock is free: it isn't this log's card
FITS = 0.1  # late readings and ends of bins make some
AT_WORK_PCT = 5.0


def credible(kernel_pct: float | None, util_pct: float) -> bool:
    """Whether a mean can be a measurement of this card.

    Some platforms give a constant 0. What runs kernels for that long by the log isn't idle to the
    last digit.
    """
    return util_pct > 0.0 or kernel_pct is None or kernel_pct <= APART_PTS


def differences(shares: Shares | None, util_pct: float | None) -> dict[str, float]:
    """What lies between the steps, by name, in points; those that are known, from the outside in.

    before_lock: CPU work before the lock. after_lock: after it. lock_overhead: staging, allocation
    and release under it. barrier: kernels wait for the CPU. idle_in_stages: the GPU did nothing
    while the log's kernel stages ran.
    """
    if shares is None:
        return {}
    steps = {
        "before_lock": (shares.before_lock_pct, 0.0),
        "after_lock": (shares.after_lock_pct, 0.0),
        "lock_overhead": (shares.lock_held_pct, shares.gpu_section_pct),
        "barrier": (shares.gpu_section_pct, shares.kernel_pct),
        "idle_in_stages": (shares.kernel_pct, util_pct),
    }
    return {
        name: outer - inner
        for name, (outer, inner) in steps.items()
        if outer is not None and inner is not None
    }


def suspects(
    shares: Shares | None,
    util_pct: float | None,
    *,
    fits: int | None = None,
    strangers: Sequence[str] = (),
) -> tuple[str, ...]:
    """Sentences on what can't be true of a card's figures over the same time; mostly none.

    `fits` is the card whose readings go with this one's log (`misplaced`); `strangers` are the
    processes on the card that aren't the daemon's.
    """
    if shares is None or util_pct is None:
        return ()
    if fits is not None:
        return (
            f"wrong ordinal: readings of GPU {fits} go with this GPU's log, its own don't; NVML"
            " counts by bus id, CUDA as CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER say",
        )
    kernel, lock = shares.kernel_pct, shares.lock_held_pct
    if not credible(kernel, util_pct):
        return (
            f"NVML not credible: it stayed at 0 while the log's kernels ran {percent(kernel)} % of"
            " the time; it is left out of the verdict",
        )
    name, bound = ("lock held", lock) if lock is not None else ("bracket", shares.bracket_union_pct)
    if bound is None or util_pct - bound <= APART_PTS:
        return ()
    others = f" ({', '.join(strangers)})" if strangers else ""
    return (
        f"NVML saw the GPU busy {percent(util_pct)} %, {util_pct - bound:.1f} points more than"
        f" {name}: another process uses the card{others}, or lines are missing",
    )


# ------------------------------------------------------------------------------- bins of time


class Grid:
    """Time cut into bins, the same for the log and for the readings; ms on the readings' clock."""

    __slots__ = ("count", "start_ms", "width_ms")

    def __init__(self, start_ms: float, end_ms: float) -> None:
        """Bins of two seconds over [start, end], longer ones for more than hours."""
        span_ms = max(0.0, end_ms - start_ms)
        self.start_ms = start_ms
        self.width_ms = max(BIN_MS, span_ms / MOST_BINS)
        self.count = int(span_ms // self.width_ms)

    def index(self, at_ms: float) -> int:
        """The bin that a time lies in, which may lie outside of the grid."""
        return int((at_ms - self.start_ms) // self.width_ms)

    def part(self, span: Span) -> slice:
        """The bins that lie in `span`."""
        first = math.ceil((span[0] - self.start_ms) / self.width_ms)
        last = self.count if span[1] == math.inf else self.index(span[1])
        return slice(max(0, first), max(0, last))

    def held(self, locks: Iterable[Span]) -> list[float]:
        """Per cent of each bin in which one of `locks` (which don't overlap) was held."""
        width = self.width_ms
        bins = [0.0] * self.count
        for lo, hi in locks:
            first, last = max(0, self.index(lo)), min(self.count - 1, self.index(hi))
            for index in range(first, last + 1):
                left = self.start_ms + index * width
                bins[index] += max(0.0, min(hi, left + width) - max(lo, left))
        return [100.0 * ms / width for ms in bins]


Use = list[float | None]
"""Mean use in each bin; None where nothing was read."""


class UseBins:
    """Readings collected into the bins of a grid, by card."""

    __slots__ = ("_areas", "_covered", "first_ms", "gpus", "grid", "last_ms")

    def __init__(self, grid: Grid) -> None:
        """Nothing was read."""
        self.grid = grid
        self.first_ms = math.inf  # of all readings, also of those outside of the grid
        self.last_ms = -math.inf
        self.gpus: set[int] = set()  # of which there is any reading at all
        self._areas: dict[int, list[float]] = {}
        self._covered: dict[int, list[float]] = {}

    def add(self, reading: GpuSampled) -> None:
        """Take a reading into account."""
        at_ms, window_ms = reading.at_ms, reading.util_window_ms
        self.first_ms, self.last_ms = min(self.first_ms, at_ms), max(self.last_ms, at_ms)
        self.gpus.add(reading.gpu)
        index = self.grid.index(at_ms - 0.5 * window_ms)
        if reading.util_pct is None or not 0 <= index < self.grid.count:
            return
        gpu = reading.gpu
        if gpu not in self._areas:
            self._areas[gpu] = [0.0] * self.grid.count
            self._covered[gpu] = [0.0] * self.grid.count
        self._areas[gpu][index] += reading.util_pct * window_ms
        self._covered[gpu][index] += window_ms

    def passing(self, readings: Iterable[GpuSampled]) -> Iterator[GpuSampled]:
        """The same readings, counted on their way."""
        for reading in readings:
            self.add(reading)
            yield reading

    def uses(self) -> dict[int, Use]:
        """What was read of each card."""
        return {
            gpu: [
                area / ms if ms > 0.0 else None
                for area, ms in zip(areas, self._covered[gpu], strict=True)
            ]
            for gpu, areas in self._areas.items()
        }


# ------------------------------------------------------------------------------- wrong ordinals


def misplaced(locks: Mapping[int, Sequence[float]], uses: Mapping[int, Use]) -> dict[int, int]:
    """GPUs of the log whose own readings can't be theirs while another card's can: that card.

    Only what is impossible counts, use while the lock is free and no use at all while it is held:
    two cards that are busy all the time can't be told apart, and nothing is said of them.
    """
    found = {}
    for gpu, held in locks.items():
        own = uses.get(gpu)
        if own is None or _is_possible(held, own):
            continue
        fits = [
            card
            for card, use in uses.items()
            if card != gpu
            and _mean(use) >= AT_WORK_PCT
            and _misfit(held, use) <= FITS
            and (card not in locks or not _is_possible(locks[card], use))
        ]
        if len(fits) == 1:
            found[gpu] = fits[0]
    return found


def _is_possible(held: Sequence[float], use: Use) -> bool:
    if sum(one is not None for one in use) < LEAST_BINS:
        return True
    if _mean(use) <= 0.0:
        return sum(held) / max(1, len(held)) <= APART_PTS
    return _mean(use) < AT_WORK_PCT or _misfit(held, use) < MISFIT


def _misfit(held: Sequence[float], use: Use) -> float:
    """How much of the use fell into time in which the lock was free, 0–1."""
    known = [(lock, one) for lock, one in zip(held, use, strict=True) if one is not None]
    whole = sum(one for _, one in known)
    return sum(max(0.0, one - lock) for lock, one in known) / whole if whole > 0.0 else 0.0


def _mean(use: Use) -> float:
    known = [one for one in use if one is not None]
    return sum(known) / len(known) if known else 0.0


# ------------------------------------------------------------------------------- clocks apart

OFFSET_MARGIN_MS = 900_000.0  # offsets up to this are looked for by what fits
LEAST_OFFSET_MS = 4000.0  # two bins
CONFLICT_MS = 3000.0  # as much must be impossible with the clocks as they are
BETTER = 0.5  # and at most this share of it with the other clock
ENOUGH = 0.6  # of the bins must still be compared after a shift
FULL_PCT = 90.0
IDLE_PCT = 1.0
ZONE_STEP_MS = 900_000.0  # time zones differ by quarters of an hour
ZONE_STEPS = 56  # 14 hours either way


def clock_offset_ms(
    locks: Mapping[int, Sequence[float]],
    uses: Mapping[int, Use],
    width_ms: float,
    *,
    known: slice,
    around: slice,
    warm: Mapping[int, int],
) -> float | None:
    """How far ahead of the log's clock the readings' is, if another clock fits much better.

    What doesn't fit is use while the lock is free, and a held lock with no use at all, but for what
    comes before a GPU's bin `warm`: its first call reads parameters before its first kernel. Two
    GPUs are enough. Only in the bins `known` does the log tell who held the lock: readings go on
    when a log was copied, and when the daemon is started again. So what doesn't fit there counts;
    how far to shift is told by the bins `around`, too, in which nobody is thought to hold a lock.
    """
    pairs = [(held, warm[gpu], uses[gpu]) for gpu, held in locks.items() if gpu in uses][:2]
    compared, now = _conflict(pairs, known, 0)
    if not compared or now * width_ms < CONFLICT_MS:
        return None
    best_rate, best = math.inf, 0
    most = int(OFFSET_MARGIN_MS // width_ms)
    for shift in sorted(range(-most, most + 1), key=abs):
        there, misfit = _conflict(pairs, known, shift)
        count, conflict = _conflict(pairs, around, shift)
        fits = there >= ENOUGH * compared and misfit / there <= BETTER * now / compared
        if fits and conflict / count < best_rate:
            best_rate, best = conflict / count, shift
    return best * width_ms if abs(best) * width_ms >= LEAST_OFFSET_MS else None


def _conflict(
    pairs: Sequence[tuple[Sequence[float], int, Use]], known: slice, shift: int
) -> tuple[int, float]:
    """How many bins can be compared, and how many of them (as a sum of shares) don't fit."""
    compared, conflict = 0, 0.0
    for held, warm, use in pairs:
        for at in range(max(known.start, -shift), min(known.stop, len(use) - shift)):
            one, lock = use[at + shift], held[at]
            if one is None:
                continue
            compared += 1
            if one > lock:
                conflict += one - lock
            elif lock >= FULL_PCT and one < IDLE_PCT and at >= warm:
                conflict += lock
    return compared, conflict / 100.0


def zone_offset_ms(span: Span, first_ms: float, last_ms: float) -> float | None:
    """By how many quarters of an hour the readings' clock is ahead, if that lays them over `span`.

    For readings that don't touch the span at all; None if no time zone explains it.
    """
    lo, hi = span
    best_ms, best = 0.0, None
    for step in sorted(range(-ZONE_STEPS, ZONE_STEPS + 1), key=abs):
        ahead_ms = step * ZONE_STEP_MS
        over_ms = min(hi, last_ms - ahead_ms) - max(lo, first_ms - ahead_ms)
        if over_ms > max(best_ms, ENOUGH * (hi - lo)):
            best_ms, best = over_ms, ahead_ms
    return best
