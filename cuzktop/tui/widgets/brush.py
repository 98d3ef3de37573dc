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
Changed = tuple[int, Iterable[tuple[int, Line]]]
"""A row of a panel, and what of it is to be written from which column on; both from 0."""


class Inks(dict[str, str]):
    """What the terminal is sent before a text of each style, made by `make` when first needed.

    Each ends whatever was before it.
    """

    def __init__(self, make: Callable[[str], str]) -> None:
        """Know none yet."""
        super().__init__()
        self._make = make

    def __missing__(self, style: str) -> str:
        """One more."""
        ink = self[style] = self._make(style)
        return ink


class Brush:
    """Collects what panels write of one picture on `screen`."""

    __slots__ = ("_find", "_ink", "_parts", "width")

    def __init__(self, screen: Screen[object]) -> None:
        """Nothing is written yet, and what colour the terminal writes in isn't known."""
        self.width = screen.outer_size.width
        self._find = screen.find_widget
        self._parts: list[str] = []
        self._ink = ""

    def place(self, panel: Widget) -> Region:
        """Where a panel stands on the screen; of no size if it doesn't."""
        try:
            return self._find(panel).region
        except NoWidget:
            return NULL_REGION

    def push_down(self, top: int, bottom: int, by: int) -> None:
        """Have the terminal move the rows from `top` to `bottom` down, as far as they stay there.

        The rows that become free have no colours yet.
        """
        self._ink = PLAIN
        self._parts.append(f"{PLAIN}\x1b[{top + 1};{bottom + 1}r\x1b[{top + 1};1H\x1b[{by}L\x1b[r")

    def write(
        self,
        left: int,
        top: int,
        changed: Iterable[Changed],
        inks: Inks,
        convert: Callable[[str], str] | None,
    ) -> None:
        """Write what of a panel has changed that stands at column `left` of row `top`, from 0."""
        parts, ink = self._parts, self._ink
        for y, pieces in changed:
            for x, piece in pieces:
                parts.append(f"\x1b[{top + y + 1};{left + x + 1}H")
                for text, style in piece:
                    wanted = inks[style]
                    if wanted != ink:
                        parts.append(wanted)
                        ink = wanted
                    parts.append(text if convert is None else convert(text))
        self._ink = ink

    def written(self) -> str:
        """All that was written; it leaves the terminal without colours."""
        return "".join((*self._parts, PLAIN)) if self._parts else ""
