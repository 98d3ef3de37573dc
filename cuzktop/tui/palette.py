"""The looks that lines name: which of the theme's colours each has, and how it does without.

They aren't in the style sheet: fifty rules more to be read, and to be held against every widget
whenever one of their classes changes, are a third of the time until the first picture.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.style import Style
from textual.color import Color

# name: colour, ground (both variables of a theme, less `cz-`), weight
LOOKS: Mapping[str, tuple[str, str, str]] = {
    "text": ("text", "", ""),
    "strong": ("strong", "", "bold"),
    "muted": ("muted", "", ""),
    "title": ("title", "", "bold"),
    "rule": ("rule", "", ""),
    "track": ("no-work", "track", ""),
    "key": ("key", "", "bold"),
    "good": ("good", "", ""),
    "warn": ("warn", "", ""),
    "error": ("error", "", "bold"),
    "badge-good": ("on-badge", "good", "bold"),
    "badge-warn": ("on-badge", "warn", "bold"),
    "badge-quiet": ("on-badge", "quiet", "bold"),
    "badge-pause": ("on-badge", "key", "bold"),
    "selected": ("strong", "selected", "bold"),
    "find": ("on-badge", "key", ""),
    "kernel": ("kernel", "", ""),
    "barrier": ("barrier", "", ""),
    "lock_overhead": ("lock-overhead", "", ""),
    "handoff": ("handoff", "", ""),
    "starved": ("starved", "", ""),
    "no_work": ("no-work", "", ""),
    "bracket": ("bracket", "", ""),
    "lock": ("lock", "", ""),
    "section": ("section", "", ""),
    "nvml": ("nvml", "", ""),
    "power": ("power", "", ""),
    "synth": ("synth", "", ""),
    "late": ("barrier", "", "bold"),
    "bracket-bar": ("bracket", "track", ""),
    "lock-bar": ("lock", "track", ""),
    "section-bar": ("section", "track", ""),
    "kernel-bar": ("kernel", "track", ""),
    "nvml-bar": ("nvml", "track", ""),
    "power-bar": ("power", "track", ""),
    "synth-bar": ("synth", "track", ""),
    "late-bar": ("barrier", "track", ""),
    # A logger's own colours.
    "log-black": ("muted", "", ""),
    "log-dim": ("muted", "", ""),
    "log-red": ("log-red", "", ""),
    "log-green": ("log-green", "", ""),
    "log-yellow": ("log-yellow", "", ""),
    "log-blue": ("log-blue", "", ""),
    "log-magenta": ("log-magenta", "", ""),
    "log-cyan": ("log-cyan", "", ""),
    "log-white": ("text", "", ""),
}

# Without colour, weight and reversal carry what they can; glyphs carry the rest.
COLOURLESS: Mapping[str, str] = {
    **dict.fromkeys(
        ("badge-good", "badge-warn", "badge-quiet", "badge-pause", "selected"), "bold reverse"
    ),
    "find": "underline",
    "late": "bold",
    "warn": "bold",
}


def look(name: str, variables: Mapping[str, str], *, colour: bool) -> Style:
    """The look `name` with a theme's `variables`; `+bold`, `+italic`, `+underline` are added."""
    base, *added = name.split("+")
    front, ground, weight = LOOKS[base]
    if not colour:
        weight = COLOURLESS.get(base, weight)
    words = {*weight.split(), *added}
    return Style(
        color=Color.parse(variables[f"cz-{front}"]).rich_color,
        bgcolor=Color.parse(variables[f"cz-{ground}"]).rich_color if ground else None,
        bold="bold" in words or None,
        italic="italic" in words or None,
        underline="underline" in words or None,
        reverse="reverse" in words or None,
    )
