"""Changed cells straight to the terminal, in one write a picture.

Textual makes strips of all lines that stand between the first and the last change of the screen,
cuts them into pieces, and writes those that changed: most of what a picture costs. Where nothing
lies over the panels, they can write what changed themselves; Textual draws the rest (other sizes,
other colours, windows), and finds the panels' own lines when it does.
"""

from __future__ import annotations


class Brush:
    """Collects what panels write; `wet` while they may."""

    __slots__ = ("_parts", "wet")

    def __init__(self) -> None:
        """Nothing may be written yet."""
        self.wet = False
        self._parts: list[str] = []

    def move(self, x: int, y: int) -> None:
        """Go on at column `x` of row `y`, both from 0."""
        self._parts.append(f"\x1b[{y + 1};{x + 1}H")

    def write(self, text: str, escape: tuple[str, str]) -> None:
        """Write `text` between the two sequences of its style."""
        self._parts += (escape[0], text, escape[1])

    def take(self) -> str:
        """All that was written since the last time; the panels may write no more."""
        written = "".join(self._parts)
        self._parts.clear()
        self.wet = False
        return written
