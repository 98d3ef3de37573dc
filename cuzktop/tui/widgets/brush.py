"""Changed cells straight to the terminal, in one write a picture.

Textual makes strips of all lines that stand between the first and the last change of the screen,
cuts them into pieces, and writes those that changed: most of what a picture costs. Where nothing
lies over the panels, they can write what changed themselves; Textual draws the rest (other sizes,
other colours, windows), and finds the panels' own lines when it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from textual.errors import NoWidget
from textual.geometry import NULL_REGION, Region
from textual.screen import Screen
from textual.widget import Widget

from cuzktop.tui.widgets.cells import Line

PLAIN = "\x1b[0m"


class Brush:
    """Collects what panels write of one picture on `screen`."""

    __slots__ = ("_find", "_ink", "_parts")

    def __init__(self, screen: Screen[object]) -> None:
        """Nothing is written yet, and what colour the terminal writes in isn't known."""
        self._find = screen.find_widget
        self._parts: list[str] = []
        self._ink = ""

    def place(self, panel: Widget) -> Region:
        """Where a panel stands on the screen; of no size if it doesn't."""
        try:
            return self._find(panel).region
        except NoWidget:
            return NULL_REGION

    def write(
        self, x: int, y: int, pieces: Iterable[tuple[int, Line]], ink: Callable[[str], str]
    ) -> None:
        """Write `pieces` of a line that begins at column `x` of row `y`, both from 0.

        Each piece has its distance from `x`. `ink` is the sequence that a style begins with; it
        ends whatever was before.
        """
        parts = self._parts
        for at, piece in pieces:
            parts.append(f"\x1b[{y + 1};{x + at + 1}H")
            for text, style in piece:
                wanted = ink(style)
                if wanted != self._ink:
                    parts.append(wanted)
                    self._ink = wanted
                parts.append(text)

    def written(self) -> str:
        """All that was written; it leaves the terminal without colours."""
        return "".join((*self._parts, PLAIN)) if self._parts else ""
