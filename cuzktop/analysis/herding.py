"""Why a GPU starves: syntheses that herd, too few of them, or one long stall.

A herd starts together and finishes together, so that the GPU has a queue and nothing in turns. Too
few syntheses starve it evenly. A stall is one gap that holds most of the starved time: something
stood still once, and no rhythm explains it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import ceil
from typing import Final

from cuzktop.analysis.inflation import Flights, in_order
from cuzktop.analysis.intervals import Span
from cuzktop.analysis.throughput import median
from cuzktop.dataclass import dataclass
from cuzktop.frame import BUNCHED, EVEN, WAVE_SHARE, PartitionRow
from cuzktop.units import age, duration

WAVE_MIN: Final = 4
WAVE_SPREAD: Final = 0.15  # of the median synthesis time
STALL_SHARE: Final = 0.5  # of the starved time in one gap
LEAST_GAP_MS: Final = 1000.0  # between two brackets: longer than any handover
MANY_GAPS: Final = 3  # make a rhythm
REGULAR: Final = 0.5  # of the usual time between two gaps, by which each may differ from it
RHYTHM: Final = 4  # synthesis times: what is seen for less may be one beat of a herd


@dataclass(frozen=True, slots=True, kw_only=True)
class Waves:
    """How syntheses end around the gaps in which GPUs starved.

    `share` is the part of the starved time in gaps that end in a wave, 0–1; `size` the number of
    SYNTH_ENDs that make one. `in_flight` is the median number of syntheses, `gaps` the number of
    gaps; `longest_ms` the longest of them, at `longest_at_ms`, with `longest_share` (0–1) of the
    starved time.
    """

    share: float
    size: int
    median_synth_ms: float | None
    in_flight: float | None = None
    gaps: int = 0
    longest_ms: float = 0.0
    longest_at_ms: float | None = None
    longest_share: float = 0.0
    span_ms: float | None = None  # what was looked at

    @property
    def stalled(self) -> bool:
        """Whether one gap holds most of the starved time, and no rhythm explains it.

        A herd's gaps are shorter than a synthesis; in a short span one of them may be alone.
        """
        usual = self.median_synth_ms
        if usual is None or self.longest_share <= STALL_SHARE:
            return False
        short = self.span_ms is not None and self.span_ms < RHYTHM * usual
        return self.longest_ms >= usual or not short


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rhythm:
    """When syntheses ended (ms, in order), how long one usually takes, and how many there are."""

    ends: Sequence[float]
    usual_ms: float | None
    in_flight: float | None


def rhythm(
    synth_starts: Sequence[float],
    synth_ends: Sequence[float],
    synth_ms: Sequence[float],
    *,
    flying: int | None = None,
) -> Rhythm:
    """The rhythm of syntheses; see `waves`."""
    return rhythm_of(Flights(synth_starts, synth_ends, flying), synth_ms)


def rhythm_of(flights: Flights, synth_ms: Sequence[float]) -> Rhythm:
    """The rhythm of the syntheses in `flights`, which took `synth_ms`."""
    return Rhythm(ends=flights.ends, usual_ms=median(synth_ms), in_flight=flights.usual())


def waves(
    starved: Sequence[Span],
    synth_starts: Sequence[float],
    synth_ends: Sequence[float],
    synth_ms: Sequence[float],
    *,
    flying: int | None = None,
    span_ms: float | None = None,
) -> Waves:
    """Do syntheses end in waves at the ends of the starved gaps?

    `synth_starts` and `synth_ends` are instants, `synth_ms` the durations of the syntheses. Where
    the instants are the latest ones alone, `flying` is the number in flight at their end.
    `starved` are the gaps in a span of `span_ms`; None is long enough to see a rhythm.
    """
    beat = rhythm(synth_starts, synth_ends, synth_ms, flying=flying)
    return waves_of(starved, beat, span_ms=span_ms)


def waves_of(starved: Sequence[Span], beat: Rhythm, *, span_ms: float | None = None) -> Waves:
    """Do syntheses of this rhythm end in waves at the ends of the starved gaps? See `waves`."""
    usual, ends, in_flight = beat.usual_ms, beat.ends, beat.in_flight
    total = sum(hi - lo for lo, hi in starved)
    size = max(WAVE_MIN, ceil((in_flight or 0) / 2))
    if usual is None or total <= 0:
        return Waves(share=0.0, size=size, median_synth_ms=usual, in_flight=in_flight)
    reach = WAVE_SPREAD * usual
    bunched = 0.0
    for lo, hi in starved:
        if bisect_right(ends, hi + reach) - bisect_left(ends, hi - reach) >= size:
            bunched += hi - lo
    longest = max(starved, key=lambda gap: gap[1] - gap[0])
    # A stall starves all GPUs at the same time: their gaps around its middle belong to it.
    middle = sum(longest) / 2
    stalled = sum(hi - lo for lo, hi in starved if lo <= middle <= hi)
    return Waves(
        share=bunched / total,
        size=size,
        median_synth_ms=usual,
        in_flight=in_flight,
        gaps=len(starved),
        longest_ms=longest[1] - longest[0],
        longest_at_ms=longest[0],
        longest_share=stalled / total,
        span_ms=span_ms,
    )


def bunching(synth_ends: Sequence[float], synth_ms: float | None) -> float | None:
    """How bunched syntheses finish, from 0 (evenly spread) to 1 (all together).

    The coefficient of variation of the gaps between SYNTH_ENDs, c, as c² / (1 + c²): 0.5 for ends
    that come at random, near 1 for waves. None with fewer than eight ends, or no usual duration.
    """
    ends = in_order(synth_ends)
    if len(ends) < WAVE_MIN * 2 or not synth_ms:
        return None
    count = len(ends) - 1
    mean = sum(after - before for before, after in pairwise(ends)) / count
    if mean <= 0:
        return 1.0
    squares = sum((after - before - mean) ** 2 for before, after in pairwise(ends))
    spread = squares / count / mean**2
    return spread / (1.0 + spread)


def spread_words(gauge: float | None) -> str:
    """How syntheses end by the gauge; empty where it is unknown."""
    if gauge is None:
        return ""
    how = "evenly" if gauge < EVEN else "in bunches" if gauge > BUNCHED else "at random"
    return f"syntheses end {how} (gauge {gauge:.2f}: 0 even, 1 all together)"


def stall_sentence(wave: Waves) -> str:
    """That one gap holds most of the starved time, without a full stop; empty if none does."""
    if not wave.stalled:
        return ""
    when = "" if wave.longest_at_ms is None else f" at {duration(wave.longest_at_ms)}"
    return (
        f"one gap of {duration(wave.longest_ms)}{when} holds"
        f" {100 * wave.longest_share:.0f} % of the starved time: a stall, not a rhythm"
    )


def starving_sentence(wave: Waves, gauge: float | None, *, limits: bool) -> str:
    """What kind of starving it is, in a sentence without a full stop.

    `limits` says that starving is what limits the box.
    """
    how = spread_words(gauge)
    tail = f"; {how}" if how else ""
    if wave.gaps == 0 or wave.median_synth_ms is None:
        return how
    if stall := stall_sentence(wave):
        return f"{stall}{tail}"
    in_waves = (
        f"{100 * wave.share:.0f} % of the starved time ends in a wave of {wave.size} or more"
        " syntheses that finish together"
    )
    if wave.share >= WAVE_SHARE:
        return f"{in_waves}: they herd{tail}"
    if wave.share > WAVE_SHARE / 2:
        return f"{in_waves}: they herd in part{tail}"
    if gauge is not None and gauge > BUNCHED:
        tail += ", but the gaps don't end with the bunches"
    return f"no herd{', but too few syntheses' if limits else ''}: {in_waves}{tail}"


def gaps_sentence(rows: Iterable[PartitionRow]) -> str:
    """What the gaps between brackets of one GPU have in common, without a full stop.

    Of the GPU with the most of them; empty where there are too few.
    """
    brackets: dict[int, list[tuple[int, int, str]]] = {}
    for row in rows:
        if row.gpu is not None and row.bracket_start_ms is not None and row.bracket_end_ms:
            span = (row.bracket_start_ms, row.bracket_end_ms, row.job)
            brackets.setdefault(row.gpu, []).append(span)
    found = max((_gaps_between(spans) for spans in brackets.values()), key=len, default=[])
    if len(found) < MANY_GAPS:
        return ""
    lengths = [hi - lo for lo, hi, _ in found]
    every = [after[0] - before[0] for before, after in pairwise(found)]
    usual = median(every) or 0.0
    if all(abs(one - usual) <= REGULAR * usual for one in every):
        rhythm_words = f"recur about every {age(usual)}"
    else:
        rhythm_words = f"came {len(found)} times in {age(found[-1][1] - found[0][0])}"
    turns = sum(turn for _, _, turn in found)
    where = ", where one proof's partitions end and the next one's begin"
    return (
        f"gaps of {duration(min(lengths))} to {duration(max(lengths))} between brackets"
        f" {rhythm_words}{where if turns > WAVE_SHARE * len(found) else ''}"
    )


def _gaps_between(brackets: list[tuple[int, int, str]]) -> list[tuple[int, int, bool]]:
    """From, to, and whether another job's bracket comes after the gap."""
    found: list[tuple[int, int, bool]] = []
    brackets.sort()
    _, edge, job = brackets[0]
    for lo, hi, other in brackets[1:]:
        if lo - edge >= LEAST_GAP_MS:
            found.append((edge, lo, other != job))
        if hi >= edge:
            edge, job = hi, other
    return found
