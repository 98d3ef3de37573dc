"""What the signs of a view mean, as many as fit, the most telling first."""

from __future__ import annotations

from collections.abc import Sequence

from cuzktop.tui.widgets.cells import Span, width_of

Sign = tuple[str, str, str]
"""A glyph, its style, and what it means."""

GAPS = (3, 2, 1)  # blanks between two signs, the fewer the narrower it is


def legend(signs: Sequence[Sign], width: int, rows: int = 1) -> list[list[Span]]:
    """`signs` in at most `rows` rows of `width` cells; the last ones go where room is short."""
    made: list[list[Span]] = []
    for gap in GAPS:
        made, all_fit = _flow(signs, width, rows, gap)
        if all_fit:
            break
    return made


def _flow(signs: Sequence[Sign], width: int, rows: int, gap: int) -> tuple[list[list[Span]], bool]:
    made: list[list[Span]] = [[]]
    used = 0
    for glyph, style, says in signs:
        cells = width_of(glyph) + 1 + width_of(says)
        if used and used + gap + cells > width:
            if len(made) == rows:
                return made, False
            made.append([])
            used = 0
        if used:
            made[-1].append((" " * gap, "muted"))
            used += gap
        if cells > width:
            return made, False
        made[-1] += [(glyph, style), (f" {says}", "muted")]
        used += cells
    return made, True
