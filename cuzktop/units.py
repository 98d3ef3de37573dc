"""Milliseconds, bytes and per cent as text: the one home of rounding.

Unknown is `None` and becomes `UNKNOWN`; it never becomes 0.
"""

from __future__ import annotations

from collections.abc import Mapping

UNKNOWN = "–"


def duration(ms: float | None) -> str:
    """`ms` milliseconds in at most five characters: 7ms, 850ms, 3.68s, 45.2s, 12m05, 3h07."""
    if ms is None:
        return UNKNOWN
    if ms < 0:
        return "-" + duration(-ms)
    if ms < 999.5:
        return f"{ms:.0f}ms"
    seconds = ms / 1000.0
    if seconds < 9.995:
        return f"{seconds:.2f}s"
    if seconds < 99.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}"
    if whole < 100 * 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}"


def age(ms: float | None) -> str:
    """A running age to whole seconds, for figures that tick: 0s, 41s, 2m05, 3h07."""
    if ms is None:
        return UNKNOWN
    whole = max(0, int(ms // 1000))
    return f"{whole}s" if whole < 100 else duration(whole * 1000)


def count(number: int | None) -> str:
    """A count or a number that names something: 3."""
    return UNKNOWN if number is None else str(number)


def percent(share_pct: float | None, *, digits: int = 1) -> str:
    """`share_pct` with one decimal and no sign: 45.1, 100."""
    if share_pct is None:
        return UNKNOWN
    text = f"{share_pct:.1f}" if digits == 1 else f"{share_pct:.{digits}f}"
    return "100" if share_pct > 99.9 and text.startswith("100.0") else text


def size(count_bytes: float | None) -> str:
    """Bytes in binary units: 512B, 38.2G, 141G."""
    if count_bytes is None:
        return UNKNOWN
    value = float(count_bytes)
    for unit in "BKMG":
        if value < 1000:
            return f"{value:.0f}{unit}" if unit == "B" or value >= 99.95 else f"{value:.1f}{unit}"
        value /= 1024
    return f"{value:.1f}T"


def watts(power_w: float | None) -> str:
    """Power in whole watts: 312W."""
    return UNKNOWN if power_w is None else f"{power_w:.0f}W"


def shares_to_100(shares_pct: Mapping[str, float], *, digits: int = 1) -> dict[str, float]:
    """Round exclusive shares so that what is shown adds up to what was there.

    The largest remainders take the missing units (Hamilton's method), so no share moves by more
    than one unit of the last digit.
    """
    unit = 10.0**-digits
    floors = {name: int(share / unit + 1e-9) for name, share in shares_pct.items()}
    wanted = round(sum(shares_pct.values()) / unit)
    short = wanted - sum(floors.values())
    if short > 0:
        by_remainder = sorted(
            floors, key=lambda name: shares_pct[name] / unit - floors[name], reverse=True
        )
        for name in by_remainder[:short]:
            floors[name] += 1
    return {name: count / 10**digits for name, count in floors.items()}
