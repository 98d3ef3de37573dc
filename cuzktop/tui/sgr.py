"""The daemon's coloured lines as styled text: SGR becomes style names, nothing else gets through.

A logger's colours are kept by meaning: `log-red` is whatever the theme calls red. Other control
sequences, bells and half-cut escapes leave nothing behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from cuzktop.tui.widgets.cells import Line, clean

COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
LOG_STYLES = (*(f"log-{colour}" for colour in COLOURS), "log-dim")
"""Style names beyond those of `cells.STYLES` that a log line may have."""

_ESCAPES = re.compile(
    r"\x1b\[(?P<sgr>[0-9;:]*)m"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # another CSI
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, …
    r"|\x1b[ -/]*[0-~]?"
)


def plain(raw: bytes) -> str:
    """The line without colours, as one line of printable text."""
    return clean(_ESCAPES.sub("", raw.decode("utf-8", "replace")))


class _Pen:
    """The colours and weights in force."""

    __slots__ = ("bold", "colour", "dim", "italic", "underline")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.colour: str | None = None
        self.bold = self.dim = self.italic = self.underline = False

    def take(self, sgr: str) -> None:
        """Follow one SGR sequence."""
        # 38:2::1:2:3 and 38;2;1;2;3 are the same colour.
        codes = iter([int(code) if code else 0 for code in re.split("[;:]", sgr)])
        for code in codes:
            if code == 0:
                self.reset()
            elif code == 1:
                self.bold = True
            elif code == 2:
                self.dim = True
            elif code == 3:
                self.italic = True
            elif code == 4:
                self.underline = True
            elif code == 22:
                self.bold = self.dim = False
            elif code == 23:
                self.italic = False
            elif code == 24:
                self.underline = False
            elif 30 <= code <= 37:
                self.colour = COLOURS[code - 30]
            elif 90 <= code <= 97:
                self.colour = COLOURS[code - 90]
            elif code == 39:
                self.colour = None
            elif code in {38, 48}:
                colour = _extended(codes)
                if code == 38:
                    self.colour = colour

    def style(self) -> str:
        """The name of a style, with what is added to it."""
        name = "text" if self.colour is None else f"log-{self.colour}"
        if self.dim and self.colour is None:
            name = "log-dim"
        for wanted, word in (
            (self.bold, "+bold"),
            (self.italic, "+italic"),
            (self.underline, "+underline"),
        ):
            if wanted:
                name += word
        return name


def _extended(codes: Iterator[int]) -> str | None:
    """The rest of a 256-colour or RGB sequence, as one of the eight; None for grey."""
    form = next(codes, 0)
    if form == 5:
        number = next(codes, 0)
        if number < 16:
            return COLOURS[number % 8]
        if number >= 232:
            return None
        number -= 16
        rgb = [number // 36, number // 6 % 6, number % 6]
    elif form == 2:
        rgb = list(codes)[-3:]
    else:
        return None
    if len(rgb) < 3 or max(rgb) - min(rgb) <= max(rgb) // 4:
        return None
    bright = [part > max(rgb) // 2 for part in rgb]
    return COLOURS[bright[0] + 2 * bright[1] + 4 * bright[2]]


@lru_cache(maxsize=1024)
def styled(raw: bytes) -> Line:
    """The line as spans in the logger's colours."""
    text = raw.decode("utf-8", "replace")
    if "\x1b" not in text and "\x9b" not in text:
        return ((clean(text), "text"),) if text else ()
    pen = _Pen()
    spans: list[tuple[str, str]] = []
    at = 0
    for escape in _ESCAPES.finditer(text):
        if escape.start() > at:
            spans.append((clean(text[at : escape.start()]), pen.style()))
        at = escape.end()
        sgr = escape["sgr"]
        if sgr is not None:
            pen.take(sgr)
    if at < len(text):
        spans.append((clean(text[at:]), pen.style()))
    return tuple(spans)
