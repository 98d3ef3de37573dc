"""Colours: blue and orange, which every kind of colour vision tells apart.

The first theme is for terminals with many colours on a dark ground, the second for a light one, the
third for the sixteen colours of a Linux console or plain `screen`, without the bright ones.
Each class of time and each step of the ladder has a variable, so that `palette` names meanings.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

DARK: Mapping[str, str] = {
    "cz-text": "#d3dae3",
    "cz-strong": "#ffffff",
    "cz-muted": "#8794a5",
    "cz-rule": "#323d4b",
    "cz-track": "#1d2530",
    "cz-title": "#b9c7d8",
    "cz-key": "#e8b458",
    "cz-good": "#6aaee8",
    "cz-warn": "#f0a13a",
    "cz-error": "#ff7a5c",
    "cz-on-badge": "#0e131a",
    "cz-quiet": "#9aa7b8",
    "cz-selected": "#24476b",
    # The ladder: the three upper steps are grey, for they are no work of the GPU.
    "cz-bracket": "#5d6c80",
    "cz-lock": "#71849b",
    "cz-section": "#8ba0b9",
    "cz-kernel": "#4fa8f0",
    "cz-barrier": "#f0951f",
    "cz-lock-overhead": "#c9632b",
    "cz-handoff": "#e6d36a",
    "cz-starved": "#b78fd6",
    "cz-no-work": "#5a6676",
    "cz-nvml": "#a9d3f5",
    "cz-power": "#c8b6e8",
    "cz-synth": "#5f93bd",
    # A logger's own colours.
    "cz-log-red": "#ff7a5c",
    "cz-log-green": "#86bf7c",
    "cz-log-yellow": "#e8b458",
    "cz-log-blue": "#6aaee8",
    "cz-log-magenta": "#c79be0",
    "cz-log-cyan": "#62c0c4",
}
LIGHT: Mapping[str, str] = {
    "cz-text": "#28323e",
    "cz-strong": "#000000",
    "cz-muted": "#5b6877",
    "cz-rule": "#c3ccd6",
    "cz-track": "#e3e8ee",
    "cz-title": "#2f4256",
    "cz-key": "#8a5200",
    "cz-good": "#0b62ad",
    "cz-warn": "#a85a00",
    "cz-error": "#b3280a",
    "cz-on-badge": "#ffffff",
    "cz-quiet": "#5b6877",
    "cz-selected": "#bcd8f2",
    "cz-bracket": "#94a3b4",
    "cz-lock": "#7b8da1",
    "cz-section": "#62768c",
    "cz-kernel": "#0b6bc2",
    "cz-barrier": "#cf6f00",
    "cz-lock-overhead": "#9a3f12",
    "cz-handoff": "#8f7a00",
    "cz-starved": "#7a4fa3",
    "cz-no-work": "#8b97a5",
    "cz-nvml": "#2a78b8",
    "cz-power": "#6a4fa0",
    "cz-synth": "#3d78a8",
    "cz-log-red": "#b3280a",
    "cz-log-green": "#2f7d2b",
    "cz-log-yellow": "#8a5200",
    "cz-log-blue": "#0b62ad",
    "cz-log-magenta": "#7a3fa3",
    "cz-log-cyan": "#0a7378",
}
SIXTEEN: Mapping[str, str] = {
    "ansi-background": "ansi_black",
    "ansi-foreground": "ansi_white",
    "block-cursor-foreground": "ansi_black",
    "block-cursor-background": "ansi_white",
    "input-cursor-background": "ansi_white",
    "input-cursor-foreground": "ansi_black",
    "input-selection-background": "ansi_blue",
    "input-selection-foreground": "ansi_white",
    "screen-selection-background": "ansi_blue",
    "screen-selection-foreground": "ansi_white",
    "cz-text": "ansi_white",
    "cz-strong": "ansi_white",
    "cz-muted": "ansi_white",
    "cz-rule": "ansi_blue",
    "cz-track": "ansi_black",
    "cz-title": "ansi_white",
    "cz-key": "ansi_yellow",
    "cz-good": "ansi_cyan",
    "cz-warn": "ansi_yellow",
    "cz-error": "ansi_red",
    "cz-on-badge": "ansi_black",
    "cz-quiet": "ansi_white",
    "cz-selected": "ansi_blue",
    "cz-bracket": "ansi_white",
    "cz-lock": "ansi_white",
    "cz-section": "ansi_white",
    "cz-kernel": "ansi_cyan",
    "cz-barrier": "ansi_yellow",
    "cz-lock-overhead": "ansi_red",
    "cz-handoff": "ansi_green",
    "cz-starved": "ansi_magenta",
    "cz-no-work": "ansi_white",
    "cz-nvml": "ansi_white",
    "cz-power": "ansi_magenta",
    "cz-synth": "ansi_blue",
    "cz-log-red": "ansi_red",
    "cz-log-green": "ansi_green",
    "cz-log-yellow": "ansi_yellow",
    "cz-log-blue": "ansi_blue",
    "cz-log-magenta": "ansi_magenta",
    "cz-log-cyan": "ansi_cyan",
}

THEMES: tuple[Theme, ...] = (
    Theme(
        name="cuzk",
        primary="#4fa8f0",
        secondary="#8ba0b9",
        accent="#f0951f",
        warning="#f0a13a",
        error="#ff7a5c",
        success="#6aaee8",
        foreground="#d3dae3",
        background="#0e131a",
        surface="#151c25",
        panel="#1d2530",
        dark=True,
        variables=dict(DARK),
    ),
    Theme(
        name="cuzk-light",
        primary="#0b6bc2",
        secondary="#62768c",
        accent="#cf6f00",
        warning="#a85a00",
        error="#b3280a",
        success="#0b62ad",
        foreground="#28323e",
        background="#fbfcfd",
        surface="#f1f4f7",
        panel="#e3e8ee",
        dark=False,
        variables=dict(LIGHT),
    ),
    Theme(
        name="cuzk-16",
        primary="ansi_cyan",
        secondary="ansi_white",
        accent="ansi_yellow",
        warning="ansi_yellow",
        error="ansi_red",
        success="ansi_cyan",
        foreground="ansi_white",
        background="ansi_black",
        surface="ansi_black",
        panel="ansi_black",
        dark=True,
        ansi=True,
        variables=dict(SIXTEEN),
    ),
)


class Colourless(LineFilter):
    """Takes every colour away, the terminal's default too: that one has a code as well."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - Textual's signature
        """The same segments, with bold, reverse and the like alone."""
        return [
            Segment(text, None if style is None else _plain(style), control)
            for text, style, control in segments
        ]


@lru_cache(maxsize=512)
def _plain(style: Style) -> Style:
    return style.without_color
