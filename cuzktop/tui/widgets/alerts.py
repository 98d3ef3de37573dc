"""What went wrong, as a list that doesn't flicker: since when, until when, how often."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from cuzktop.dataclass import dataclass
from cuzktop.frame import Alert, Frame
from cuzktop.units import age

LEVELS = {"error": ("✗", "error"), "warning": ("!", "warn"), "info": ("·", "muted")}
STAYS_MS = 60_000.0  # what has ended stays on the overview for so long
NEWS_MS = 600_000.0  # an older error gives way to a warning of what is so now


@dataclass(frozen=True, slots=True)
class Told:
    """Alerts of the same text: how often it came, when first and when last, and if it lasts."""

    level: str
    text: str
    count: int
    first_ms: float | None
    last_ms: float | None
    began_ms: float | None = None  # of a state that lasts, or lasted until `last_ms`
    lasts: bool = False


def merged(alerts: Sequence[Alert]) -> list[Told]:
    """Alerts by their text: what lasts, then what came last first."""
    found: dict[tuple[str, str], Told] = {}
    for alert in alerts:
        key = (alert.level, alert.text)
        before = found.pop(key, None)
        first = alert.at_ms if alert.first_ms is None else alert.first_ms
        state = alert.lasts or alert.until_ms is not None
        found[key] = Told(
            alert.level,
            alert.text,
            alert.count + (0 if before is None else before.count),
            first if before is None else before.first_ms,
            alert.at_ms if alert.until_ms is None else alert.until_ms,
            began_ms=alert.at_ms if state else None,
            lasts=alert.lasts,
        )
    newest = list(reversed(found.values()))
    newest.sort(key=_last)
    return newest


_merged = lru_cache(maxsize=1)(merged)  # the same alerts come with many frames


def _last(one: Told) -> float:
    if one.lasts:
        return -math.inf
    return math.inf if one.last_ms is None else -one.last_ms


def when(one: Told, now_ms: float) -> str:
    """Since when, until when and how often, in a few words."""
    words: list[str] = []
    if one.lasts and one.began_ms is not None:
        words.append(f"for {age(now_ms - one.began_ms)}")
    elif one.last_ms is not None:
        words.append(f"{age(now_ms - one.last_ms)} ago")
        if one.began_ms is not None:
            words.append(f"for {age(one.last_ms - one.began_ms)}")
    if one.count > 1:
        words.append(f"×{one.count}")
        if one.first_ms is not None:
            words.append(f"since {age(now_ms - one.first_ms)}")
    return " ".join(words)


@lru_cache(maxsize=1)  # the layout asks, too
def notice(frame: Frame) -> tuple[str, str, str] | None:
    """The one thing beside the verdict worth a line: its level, since when, and its text.

    What ended a minute ago is no news, and an error of ten minutes ago gives way to a warning of
    what is so now. A log that can't be read to its end goes before all that it tells.
    """
    now_ms = frame.present_ms
    news = [one for one in _merged(frame.alerts) if _is_news(one, now_ms)]
    shown = [one for one in news if one.level != "info"]
    broken = [one for one in shown if one.level == "error" and one.text == frame.source.note]
    if frame.source.old and not broken:
        return _ended(frame, sum(not one.lasts for one in shown))
    if shown:
        first = min(broken or shown, key=lambda one: _rank(one, now_ms))
        more = f"  (+{len(shown) - 1} more)" if len(shown) > 1 else ""
        return first.level, when(first, now_ms), first.text + more
    if frame.source.read_pct is not None:
        return "info", "", f"reading the log: {frame.source.read_pct:.0f} %"
    if frame.source.note:
        return "warning", "", frame.source.note
    if news:
        return "info", when(news[0], now_ms) if news[0].lasts else "", news[0].text
    return None


def _is_news(one: Told, now_ms: float) -> bool:
    """Whether it lasts, is of an instant, or has only just ended: a line shouldn't come and go."""
    if one.lasts or one.began_ms is None or one.last_ms is None:
        return True
    return now_ms - one.last_ms < STAYS_MS


def _ended(frame: Frame, others: int) -> tuple[str, str, str]:
    """That the whole picture is of a time that is past, which nothing else on it tells."""
    flying = len(frame.in_flight)
    text = "the log has ended: all this is of then"
    if flying:
        text = f"the log stopped with {flying} partitions in flight: all this is of then"
    if any(gpu.nvml is not None for gpu in frame.gpus) or frame.host is not None:
        text += ", card and box of now"
    if others:
        text += f"  (+{others} more)"
    return ("warning" if flying else "info"), f"{age(frame.source.silent_ms)} ago", text


def _rank(one: Told, now_ms: float) -> tuple[bool, bool]:
    fresh = one.lasts or (one.last_ms is not None and now_ms - one.last_ms < NEWS_MS)
    return (not fresh, one.level != "error")
