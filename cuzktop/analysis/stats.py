"""Does a difference exceed the runs' own spread? Shuffling, without tables or libraries.

Figures of partitions are skewed, tied at 0 and alike within a proof, so no formula for means fits
them. What is shuffled between the two sides are whole units (a proof with all its partitions):
what happened to a proof happened to all of it. Two sides are compared by the share of their figures
beyond an edge, which neither tails nor ties upset; edges are quantiles of both sides together. A
side's p50 (p95) counts as different where the shares differ at an edge between the two p50 (p95).

The same shuffles serve every edge of every measure, and one counts only where it stands out further
than the furthest of all does in 95 % of the shuffles (Westfall and Young's max-T): one chance
finding in twenty comparisons of two logs, not one in twenty figures. Everything is deterministic.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from typing import Final

from cuzktop.analysis.throughput import percentile
from cuzktop.dataclass import dataclass

ALPHA: Final = 0.05
RESAMPLES: Final = 500
SEED: Final = 20_260_314
MAX_UNITS: Final = 100  # a side; a larger sample is cut to as many of its first
RANKS: Final = (50, 95)
EDGES: Final = (20, 35, 50, 65, 80, 90, 95)  # per cent of both sides' figures lie up to it
LEAST_BEYOND: Final = 1.0  # figures that lie beyond a p95, or it is the maximum by another name
_SAME: Final = 1e-9

Unit = Sequence[float]
"""The figures of one unit; empty where it has none."""


def too_few(count_a: int, count_b: int) -> bool:
    """Whether no difference between so many units could ever be told from chance."""
    return ALPHA * math.comb(count_a + count_b, count_a) < 2.0


def quantile_tests(
    measures: Mapping[str, tuple[Sequence[Unit], Sequence[Unit]]],
) -> dict[str, dict[int, float | None]]:
    """By measure and rank of `RANKS`: how likely chance alone is to make such a difference.

    Each measure has a list of units a side, in the same order in all measures. The p-values are
    corrected for the number of comparisons. None: too few units or figures to tell.
    """
    sides = [(len(a), len(b)) for a, b in measures.values()]
    found: dict[str, dict[int, float | None]] = {name: dict.fromkeys(RANKS) for name in measures}
    if not sides:
        return found
    count_a, count_b = (min(MAX_UNITS, max(side)) for side in zip(*sides, strict=True))
    shuffles = _shuffles(count_a, count_b)
    edges: dict[str, list[tuple[float, list[float]]]] = {}
    for name, (a, b) in measures.items():
        units_a, units_b = a[:count_a], b[:count_b]
        if not too_few(sum(map(bool, units_a)), sum(map(bool, units_b))):
            edges[name] = _edges(units_a, units_b, shuffles)
    if not edges:
        return found
    furthest = [
        max(shuffle)
        for shuffle in zip(*(apart for kept in edges.values() for _, apart in kept), strict=True)
    ]
    for name, kept in edges.items():
        for rank in RANKS:
            between = _between(measures[name], rank)
            if between is None:
                continue
            low, high = between
            if low == high:
                found[name][rank] = 1.0
                continue
            observed = max((apart[0] for edge, apart in kept if low <= edge <= high), default=0.0)
            reached = sum(far >= observed - _SAME for far in furthest)
            found[name][rank] = reached / len(furthest)
    return found


def _between(sides: tuple[Sequence[Unit], Sequence[Unit]], rank: int) -> tuple[float, float] | None:
    """Both sides' quantile, the lower first; None where a side has too few figures for it."""
    quantiles = []
    for side in sides:
        figures = sorted(itertools.chain.from_iterable(side))
        if len(figures) * (100 - rank) / 100 < LEAST_BEYOND:
            return None
        quantiles.append(percentile(figures, rank))
    return min(quantiles), max(quantiles)


@dataclass(frozen=True, slots=True)
class MeanTest:
    """Whether two means differ. `detectable` is the smallest difference that would have shown."""

    p: float | None  # None: too few to tell
    detectable: float | None


def mean_test(a: Sequence[float], b: Sequence[float]) -> MeanTest:
    """Compare the means of two samples by shuffling; each holds at most `MAX_UNITS` figures."""
    if too_few(len(a), len(b)):
        return MeanTest(None, None)
    figures = [*a[:MAX_UNITS], *b[:MAX_UNITS]]
    shuffles = _shuffles(min(MAX_UNITS, len(a)), min(MAX_UNITS, len(b)))
    own = [float(len(chosen)) for chosen in shuffles]
    differences = [abs(apart) for apart in _differences(figures, own, len(figures), shuffles)]
    observed = differences[0] * (1 - _SAME)
    ordered = sorted(differences)
    return MeanTest(
        p=sum(apart >= observed for apart in differences) / len(differences),
        detectable=percentile(ordered, 100 * (1 - ALPHA)),
    )


def _shuffles(count_a: int, count_b: int) -> list[Sequence[int]]:
    """Which units count as the first side's: as they are, then shuffled; all ways if few."""
    everyone = range(count_a + count_b)
    if math.comb(len(everyone), count_a) <= RESAMPLES:
        return list(itertools.combinations(everyone, count_a))  # the first is as they are
    drawn = random.Random(SEED)  # noqa: S311 (the same answer for the same logs)
    return [range(count_a), *(drawn.sample(everyone, count_a) for _ in range(RESAMPLES))]


def _edges(
    a: Sequence[Unit], b: Sequence[Unit], shuffles: Sequence[Sequence[int]]
) -> list[tuple[float, list[float]]]:
    """Edges, and how far the sides' shares beyond each lie apart, as they are and shuffled."""
    units = [*a, *b]
    counts = [len(unit) for unit in units]
    own = [float(sum(map(counts.__getitem__, chosen))) for chosen in shuffles]
    ordered = sorted(itertools.chain.from_iterable(units))
    found = []
    for edge in dict.fromkeys(percentile(ordered, rank) for rank in EDGES):
        beyond = [
            sum(1.0 if x > edge else 0.5 if x == edge else 0.0 for x in unit) for unit in units
        ]
        differences = _differences(beyond, own, len(ordered), shuffles)
        found.append((edge, _standardised(differences)))
    return found


def _differences(
    sums: Sequence[float], own: Sequence[float], count: int, shuffles: Sequence[Sequence[int]]
) -> list[float]:
    """The first side's mean less the second's, for each shuffle.

    `own` is the number of the first side's figures in each, `count` that of all.
    """
    everything = sum(sums)
    found = []
    for chosen, mine in zip(shuffles, own, strict=True):
        part = sum(map(sums.__getitem__, chosen))
        rest = count - mine
        found.append(part / mine - (everything - part) / rest if mine and rest else 0.0)
    return found


def _standardised(differences: Sequence[float]) -> list[float]:
    """Distances from their mean in standard deviations; all 0 where nothing varies."""
    mean = math.fsum(differences) / len(differences)
    variance = math.fsum((apart - mean) ** 2 for apart in differences) / len(differences)
    if variance <= _SAME**2:
        return [0.0] * len(differences)
    spread = math.sqrt(variance)
    return [abs(apart - mean) / spread for apart in differences]
