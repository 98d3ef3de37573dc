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
    r"\x1b\[(?P<sgr>[0-9;:]{0,64})m"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # another CSI
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, …
    r"|\x1b[ -/]*[0-~]?"
)

SEVERITY = {b"TRACE": 1, b"DEBUG": 1, b"INFO": 2, b"WARN": 3, b"ERROR": 4}
# The level stands near the start: after a time stamp, in a journal after a host's name, too.
_LEVEL = re.compile(rb"(?:^|[ m])(TRACE|DEBUG|INFO|WARN|ERROR)(?=[ \x1b:])")
_LEVEL_WITHIN = 140
_CRASH = re.compile(rb"panicked at|terminate called|CUDA error|Segmentation fault|Aborted")
_NOISE = re.compile(rb"TIMELINE,|CUZK_TIMING|CUZK_NTT_H")


def severity(raw: bytes) -> int:
    """0 for timing lines, 1 for debug, 2 for info and what has no level, 3 warn, 4 error."""
    level = _LEVEL.search(raw, 0, _LEVEL_WITHIN)
    if level is not None:
        return SEVERITY[level[1]]
    if _CRASH.search(raw):
        return 4
    return 0 if _NOISE.search(raw) else 2


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


def coloured(raw: bytes) -> Line:
    """A line in its own colours; one that has none gets those of its level."""
    line = styled(raw)
    if len(line) == 1 and line[0][1] == "text":
        style = {0: "log-dim", 1: "log-dim", 3: "log-yellow", 4: "log-red"}.get(severity(raw))
        if style is not None:
            return ((line[0][0], style),)
    return line
