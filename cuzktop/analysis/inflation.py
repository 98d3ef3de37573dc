"""Do CPU stages stretch together as more syntheses run? That is what a full memory bus looks like.

Synthesis, prep_msm and b_g2_msm share nothing but cores and memory bandwidth. Each is compared with
itself: its median while many syntheses run against its median while few do. One stage that grows
alone has a cause of its own; several that grow together wait for what they share.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, islice, repeat
from operator import itemgetter, le, mul
from typing import Final, Protocol

from cuzktop.analysis.intervals import Span
from cuzktop.frame import CpuStage, Host, Inflation, PartitionRow
from cuzktop.units import duration

CPU_STAGES: Final = ("synth_ms", "prep_msm_ms", "b_g2_msm_ms")
NAMES: Final = {"synth_ms": "synthesis", "prep_msm_ms": "prep_msm", "b_g2_msm_ms": "b_g2_msm"}
KEEP: Final = 2048  # partitions of a kind; 40 bytes each, and half of them go when twice as many
FEWEST: Final = 5  # partitions make a band
BANDS: Final = 4
RANGE: Final = 1.5  # times as many syntheses, or their number hardly changed
STRETCHED: Final = 1.25  # times its quiet time
FOLLOWS: Final = 0.3  # rank correlation with the number of syntheses
BUSY_PSI_PCT: Final = 20.0
MANY_SHOOTDOWNS: Final = (
    1e6  # of all cores; at some microseconds each, more than one is lost to them
)


class CpuTimes(Protocol):
    """When CPU stages ran and how long they took."""

    def times(self, stage: str) -> list[tuple[float, float]]:
        """Begin (offset in ms) and duration in ms of a stage, of the commonest kind of partition.

        A stage counts as begun when its partition's synthesis did, or else its call.
        """


class CpuTable:
    """The `CpuTimes` of partitions evenly drawn from the whole log."""

    __slots__ = ("_kinds",)

    def __init__(self) -> None:
        """No partition has finished."""
        self._kinds: dict[str | None, _Columns] = {}

    def add(self, row: PartitionRow, *, cold: bool) -> None:
        """Count a finished partition; a GPU's cold first call gives its synthesis alone."""
        columns = self._kinds.get(row.kind)
        if columns is None:
            columns = self._kinds[row.kind] = _Columns()
        columns.add(row, cold=cold)

    def times(self, stage: str) -> list[tuple[float, float]]:
        """See `CpuTimes`."""
        columns = max(self._kinds.values(), key=lambda one: one.seen, default=None)
        return [] if columns is None else columns.times(stage)


class Flights:
    """How many syntheses are in flight, from their starts and ends (offsets in ms)."""

    __slots__ = ("_ends_sum", "_known", "_missing", "_starts", "_starts_sum", "ends")

    def __init__(
        self, starts: Sequence[float], ends: Sequence[float], flying: int | None = None
    ) -> None:
        """Of all syntheses, or of the latest with `flying` in flight at the end."""
        self._starts, self.ends = in_order(starts), in_order(ends)
        self._starts_sum, self._ends_sum = _Sums(self._starts), _Sums(self.ends)
        before = 0 if flying is None else flying - (len(starts) - len(ends))
        self._missing = max(0, before)  # began before the first of `starts`
        self._known: dict[float, int] = {}  # the last that were asked for

    def at(self, at_ms: float) -> int:
        """In flight at an instant; one that ends at it is not."""
        return self.at_each([at_ms])[0]

    def at_each(self, times: Sequence[float]) -> list[int]:
        """In flight at each of some instants; asked for some of them again, it knows the answer.

        Stages of one call begin together.
        """
        known = self._known
        if not all(map(known.__contains__, times)):
            missing = self._missing
            counts = [begun - ended + missing for begun, ended in self._counts(times)]
            if min(counts) < 0:
                counts = [max(0, count) for count in counts]
            known = self._known = dict(zip(times, counts, strict=True))
        return list(map(known.__getitem__, times))

    def mean(self, lo_ms: float, hi_ms: float) -> float:
        """The time-weighted mean over a span, which is not empty."""
        return self.mean_each([(lo_ms, hi_ms)])[0]

    def mean_each(self, spans: Sequence[Span]) -> list[float]:
        """The time-weighted mean over each of some spans, none of which is empty."""
        areas = zip(
            self._areas([lo for lo, _ in spans]), self._areas([hi for _, hi in spans]), strict=True
        )
        missing = self._missing
        return [
            max(0.0, (upto_hi - upto_lo) / (hi - lo) + missing)
            for (lo, hi), (upto_lo, upto_hi) in zip(spans, areas, strict=True)
        ]

    def _counts(self, times: Sequence[float]) -> Iterator[tuple[int, int]]:
        """How many have begun and how many have ended by each of some instants."""
        begun = map(bisect_right, repeat(self._starts), times)
        return zip(begun, map(bisect_right, repeat(self.ends), times), strict=True)

    def _areas(self, times: Sequence[float]) -> list[float]:
        starts = [bisect_right(self._starts, at) for at in times]
        ends = [bisect_right(self.ends, at) for at in times]
        started, ended = self._starts_sum.of_each(starts), self._ends_sum.of_each(ends)
        return [
            (begun - over) * at - (begun_sum - over_sum)
            for at, begun, over, begun_sum, over_sum in zip(
                times, starts, ends, started, ended, strict=True
            )
        ]

    def usual(self) -> float | None:
        """The median over the time from the first start or end to the last end."""
        held: dict[int, float] = {}  # how long so many were in flight
        begun, starts = 0, self._starts
        clock = min([*starts[:1], *self.ends[:1]], default=0.0)
        for index, end in enumerate(self.ends):
            while begun < len(starts) and starts[begun] <= end:
                at = starts[begun]
                number = begun - index + self._missing
                held[number] = held.get(number, 0.0) + at - clock
                clock = at
                begun += 1
            number = begun - index + self._missing
            held[number] = held.get(number, 0.0) + end - clock
            clock = end
        half = sum(held.values()) / 2
        for number in sorted(held):
            half -= held[number]
            if half <= 0:
                return float(number)
        return None


FEW: Final = 10_000  # times: of so many a copy, and a sum each, are no burden
SUM_EVERY: Final = 64  # of more


def in_order(times: Sequence[float]) -> Sequence[float]:
    """Sorted; not a copy, if it is already and long: a log of weeks has a million of them."""
    if len(times) <= FEW:
        return sorted(times)
    if all(map(le, times, islice(times, 1, None))):
        return times
    return array("d", sorted(times))


class _Sums:
    """The sum of the first few of many times."""

    __slots__ = ("_every", "_sums", "_times")

    def __init__(self, times: Sequence[float]) -> None:
        self._times = times
        every = self._every = 1 if len(times) <= FEW else SUM_EVERY
        parts = times
        if every > 1:
            starts = range(0, len(times) // every * every, every)
            parts = [sum(times[at : at + every]) for at in starts]
        self._sums = list(accumulate(parts, initial=0.0))

    def of_each(self, counts: Sequence[int]) -> list[float]:
        """The sum of the first so many, for each of `counts`."""
        if self._every == 1:
            return list(map(self._sums.__getitem__, counts))
        return list(map(self._of, counts))

    def _of(self, count: int) -> float:
        whole = count // self._every
        return self._sums[whole] + sum(self._times[whole * self._every : count])


class _Columns:
    """NaN is unknown; offsets in ms from the run's zero."""

    __slots__ = ("b_g2", "called", "made", "prep", "seen", "stride", "synth")

    def __init__(self) -> None:
        self.seen = 0
        self.stride = 1
        self.made = array("d")  # SYNTH_START
        self.called = array("d")  # GPU_START
        self.synth = array("d")
        self.prep = array("d")
        self.b_g2 = array("d")

    def add(self, row: PartitionRow, *, cold: bool) -> None:
        self.seen += 1
        if self.seen % self.stride:
            return
        self.made.append(_or_nan(row.synth_start_ms))
        self.called.append(_or_nan(row.bracket_start_ms))
        self.synth.append(_or_nan(row.synth_ms))
        self.prep.append(math.nan if cold else _or_nan(row.prep_msm_ms))
        self.b_g2.append(math.nan if cold else _or_nan(row.b_g2_msm_ms))
        if len(self.synth) >= 2 * KEEP:
            self.stride *= 2
            for name in ("made", "called", "synth", "prep", "b_g2"):
                setattr(self, name, getattr(self, name)[1::2])

    def times(self, stage: str) -> list[tuple[float, float]]:
        at = self.made if stage == "synth_ms" else self.called
        took = {"synth_ms": self.synth, "prep_msm_ms": self.prep, "b_g2_msm_ms": self.b_g2}[stage]
        return [
            (when, ms)
            for when, ms in zip(at, took, strict=True)
            if when == when and ms == ms  # noqa: PLR0124
        ]


def _or_nan(figure: float | None) -> float:
    return math.nan if figure is None else figure


def inflation(
    table: CpuTimes,
    synth_starts: Sequence[float],
    synth_ends: Sequence[float],
    *,
    flying: int | None = None,
) -> Inflation:
    """Compare each CPU stage with its own quiet time.

    `synth_starts` and `synth_ends` are the instants of all syntheses or of the latest; `flying` is
    the number in flight at their end, None where none is missing from the two.
    """
    return inflation_of(table, Flights(synth_starts, synth_ends, flying))


def inflation_of(table: CpuTimes, flights: Flights) -> Inflation:
    """The same, of the syntheses in `flights`."""
    found = [_compared(stage, pairs(table, stage, flights)) for stage in CPU_STAGES]
    return _judged(tuple([one for one in found if one is not None]))


def pairs(table: CpuTimes, stage: str, flights: Flights) -> list[tuple[int, float]]:
    """Syntheses in flight and duration in ms.

    For a synthesis it is the mean number over its time, itself among them.
    """
    times = table.times(stage)
    if stage == "synth_ms":
        means = iter(flights.mean_each([(at, at + took) for at, took in times if took > 0]))
        return [(round(next(means)) if took > 0 else flights.at(at), took) for at, took in times]
    levels = flights.at_each([at for at, _ in times])
    return [(level, took) for level, (_, took) in zip(levels, times, strict=True)]


def _compared(stage: str, pairs: list[tuple[int, float]]) -> CpuStage | None:
    """None where there are too few, or where the number of syntheses hardly changed."""
    pairs.sort()
    size = len(pairs) / BANDS
    least = max(FEWEST, size / 2)
    bands: list[list[tuple[int, float]]] = []
    for _, same in groupby(pairs, key=itemgetter(0)):
        level = list(same)
        room = bands and (len(bands[-1]) < least or len(bands[-1]) + len(level) <= 1.25 * size)
        if room:
            bands[-1] += level
        else:
            bands.append(level)
    if len(bands) > 1 and len(bands[-1]) < least:
        last = bands.pop()
        bands[-1] += last
    if len(bands) < 2:
        return None
    quiet, busy = (_middle([float(level) for level, _ in band]) for band in (bands[0], bands[-1]))
    if busy < RANGE * max(1.0, quiet):
        return None
    medians = [_middle([ms for _, ms in band]) for band in bands]
    if medians[0] <= 0:
        return None
    return CpuStage(
        stage=stage,
        count=len(pairs),
        quiet=(bands[0][0][0], bands[0][-1][0]),
        quiet_ms=medians[0],
        busy=(bands[-1][0][0], bands[-1][-1][0]),
        busy_ms=medians[-1],
        bands=tuple(
            (band[0][0], band[-1][0], len(band), ms / medians[0])
            for band, ms in zip(bands, medians, strict=True)
        ),
        follows=medians[-1] >= STRETCHED * medians[0] and _correlation(pairs) >= FOLLOWS,
    )


def _middle(figures: list[float]) -> float:
    figures.sort()
    return figures[(len(figures) - 1) // 2]


def _correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Spearman's, from -1 to 1; 0 where one of the two never changes."""
    first = _ranks([level for level, _ in pairs])
    second = _ranks([ms for _, ms in pairs])
    # Ranks are whole or half, so that no sum is rounded; all ranks have the same sum.
    means = len(pairs) * ((len(pairs) - 1) / 2) ** 2
    together = sum(map(mul, first, second)) - means
    spread = (sum(map(mul, first, first)) - means) * (sum(map(mul, second, second)) - means)
    return together / math.sqrt(spread) if spread > 0 else 0.0


def _ranks(figures: Sequence[float]) -> list[float]:
    """Ranks from 0; equal figures share the mean of theirs."""
    ordered = sorted(figures)
    last = dict(zip(ordered, range(len(ordered)), strict=True))
    first = dict(zip(reversed(ordered), range(len(ordered) - 1, -1, -1), strict=True))
    return [(first[figure] + last[figure]) / 2 for figure in figures]


def _judged(stages: tuple[CpuStage, ...]) -> Inflation:
    if not stages:
        return Inflation(
            found="unknown",
            sentence=(
                "whether CPU stages stretch with the number of syntheses can't be told: too few"
                " partitions, or their number hardly changed"
            ),
        )
    grown = [one for one in stages if one.follows]
    told = ", ".join(_factor(one) for one in stages)
    if len(grown) > 1:
        return Inflation(
            found="contention",
            sentence=(
                f"{_and([NAMES[one.stage] for one in grown])} stretch together as more syntheses"
                f" run: {told}; they share only cores and memory bandwidth"
            ),
            stages=stages,
        )
    if grown:
        name = NAMES[grown[0].stage]
        return Inflation(
            found="one",
            sentence=(
                f"only {name} stretches as more syntheses run: {told}; a full memory bus would"
                " stretch the others too"
                if len(stages) > 1
                else f"{name} stretches as more syntheses run: {told}; no other CPU stage is known"
            ),
            stages=stages,
        )
    return Inflation(
        found="none",
        sentence=f"CPU stages don't stretch as more syntheses run: {told}",
        stages=stages,
    )


def _factor(one: CpuStage) -> str:
    return (
        f"{NAMES[one.stage]} x {one.factor:.1f} ({duration(one.quiet_ms)} at {_range(one.quiet)}"
        f" in flight, {duration(one.busy_ms)} at {_range(one.busy)})"
    )


def _range(ends: tuple[int, int]) -> str:
    return str(ends[0]) if ends[0] == ends[1] else f"{ends[0]}–{ends[1]}"


def _and(names: Sequence[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]


def pressure(host: Host | None) -> str:
    """What the machine's pressure says about cores and memory, in a sentence; empty if unread."""
    if host is None or host.psi_cpu_pct is None:
        return ""
    text = f"tasks wait for a CPU {host.psi_cpu_pct:.0f} % of the time"
    if host.psi_memory_pct is not None:
        text += f", for memory to be freed {host.psi_memory_pct:.0f} %"
    if host.memory_bandwidth_bytes_per_s is not None:
        text += f", memory carries {host.memory_bandwidth_bytes_per_s / 1e9:.0f} GB/s"
    if host.tlb_shootdowns_per_s is not None and host.tlb_shootdowns_per_s >= MANY_SHOOTDOWNS:
        text += (
            f", {host.tlb_shootdowns_per_s:.0f} TLB shootdowns a second interrupt every core"
            " (memory is given back and mapped again)"
        )
    if host.psi_cpu_pct >= BUSY_PSI_PCT:
        return f"{text}: cores are short"
    return f"{text}: cores aren't short, so what stretches waits for memory bandwidth"
