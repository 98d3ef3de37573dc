"""Spans of time: their union, what they share, what they leave free. All in milliseconds."""

from __future__ import annotations

import math
from collections.abc import Iterable

Span = tuple[float, float]
_NO_MORE = (math.inf, math.nan)


def united(spans: Iterable[Span], start: float, end: float) -> list[Span]:
    """Disjoint spans, in order, covering what at least one of `spans` covers of [start, end]."""
    result: list[Span] = []
    edge_lo, edge_hi = start, start
    for lo, hi in sorted(spans):
        if lo < start:
            lo = start  # noqa: PLW2901
        if hi > end:
            hi = end  # noqa: PLW2901
        if hi <= lo:
            continue
        if lo > edge_hi:
            if edge_hi > edge_lo:
                result.append((edge_lo, edge_hi))
            edge_lo, edge_hi = lo, hi
        elif hi > edge_hi:
            if edge_hi == edge_lo:
                edge_lo = lo
            edge_hi = hi
    if edge_hi > edge_lo:
        result.append((edge_lo, edge_hi))
    return result


def length(spans: Iterable[Span]) -> float:
    """The length of disjoint spans."""
    return sum([hi - lo for lo, hi in spans])


def gaps(spans: list[Span], start: float, end: float) -> list[Span]:
    """What disjoint, ordered spans leave free of [start, end]."""
    free: list[Span] = []
    at = start
    for lo, hi in spans:
        if lo > at:
            free.append((at, lo))
        at = max(at, hi)
    if end > at:
        free.append((at, end))
    return free


def shared(left: list[Span], right: list[Span]) -> list[Span]:
    """What two lists of disjoint, ordered spans both cover."""
    result: list[Span] = []
    others = iter(right)
    other_lo, other_hi = next(others, _NO_MORE)
    for lo, hi in left:
        while other_hi <= hi:
            if other_hi > lo and other_hi > other_lo:
                result.append((max(lo, other_lo), other_hi))
            other_lo, other_hi = next(others, _NO_MORE)
        if other_lo < hi:
            result.append((max(lo, other_lo), hi))
    return result


def clipped(lo: float, hi: float, start: float, end: float) -> float:
    """How much of [lo, hi] lies in [start, end]."""
    return max(0.0, min(hi, end) - max(lo, start))
