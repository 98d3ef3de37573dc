"""What both JSON documents hold: numbers as JSON has them, and the pieces they share.

JSON knows neither NaN nor half of a surrogate pair; a figure that isn't finite is unknown, and so
`null`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from cuzktop import units
from cuzktop.frame import TIME_CLASSES, Alert, Proofs, Shares, Source, StageStats, Verdict

SHARE_DIGITS: Final = 2
MS_DIGITS: Final = 3  # a clock's microseconds
SURROGATE: Final = re.compile(
    "[\ud800-\udfff]"
)  # a path that isn't UTF-8 reaches Python with these


def text(raw: str) -> str:
    """`raw` with every lone surrogate replaced, so that any JSON reader takes it."""
    return raw if raw.isascii() else SURROGATE.sub("\N{REPLACEMENT CHARACTER}", raw)


def ms(value_ms: float | None) -> int | float | None:
    """Milliseconds: an integer where whole, `None` where not finite."""
    if value_ms is None or not math.isfinite(value_ms):
        return None
    rounded = round(value_ms, MS_DIGITS)
    return int(rounded) if rounded == int(rounded) else rounded


def number(value: float | None, digits: int = SHARE_DIGITS) -> float | None:
    """A share or a measurement, always with a decimal point; `None` where not finite."""
    if value is None or not math.isfinite(value):
        return None
    return round(float(value), digits) + 0.0  # never -0.0


def time_pct(shares_pct: Mapping[str, float] | None) -> dict[str, float] | None:
    """The classes in the contract's order, rounded so that they still add up to 100."""
    if shares_pct is None or not all(map(math.isfinite, shares_pct.values())):
        return None
    exclusive = {name: max(0.0, shares_pct.get(name, 0.0)) for name in TIME_CLASSES}
    return units.shares_to_100(exclusive, digits=SHARE_DIGITS)


def points(differences: Mapping[str, float]) -> dict[str, float | None]:
    """Differences between steps, in points."""
    return {name: number(apart) for name, apart in differences.items()}


def ladder(shares: Shares | None) -> dict[str, float | None]:
    """The steps of one GPU's ladder; all unknown without shares."""
    names = (
        "bracket_union_pct",
        "bracket_sum_pct",
        "lock_held_pct",
        "gpu_section_pct",
        "kernel_pct",
    )
    return {name: None if shares is None else number(getattr(shares, name)) for name in names}


def verdict(judged: Verdict) -> dict[str, object]:
    """`verdict`, with the sentence for people after the contract's names."""
    return {
        "bottleneck": judged.bottleneck,
        "confidence": number(judged.confidence) or 0.0,
        "evidence": [text(line) for line in judged.evidence],
        "advice": [text(line) for line in judged.advice],
        "sentence": text(judged.sentence),
    }


def alerts(raised: Sequence[Alert]) -> list[dict[str, object]]:
    """`alerts`, oldest first."""
    return [
        {"level": alert.level, "at_ms": ms(alert.at_ms), "text": text(alert.text)}
        for alert in raised
    ]


def proofs(counts: Proofs) -> dict[str, object]:
    """`proofs` of a report, `counters` of a snapshot."""
    return {
        "completed": counts.completed,
        "failed": counts.failed,
        "in_flight": counts.in_flight,
        "lost": counts.lost,
        "seconds_per_proof": number(counts.seconds_per_proof),
    }


def stages(stats: Mapping[str, StageStats]) -> dict[str, object]:
    """`stages`: count and percentiles of each."""
    return {
        name: {"count": s.count, "p50": ms(s.p50), "p95": ms(s.p95), "max": ms(s.max)}
        for name, s in stats.items()
    }


def source(read: Source) -> dict[str, object]:
    """`source`: what was read, and how much of it was of use."""
    return {
        "path": text(read.path),
        "bytes": read.bytes,
        "lines": read.lines,
        "events": read.events,
        "torn": read.torn,
        "unparsed": read.unparsed,
    }
