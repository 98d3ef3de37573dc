"""Lines of text that fit: width in cells, what is cut, colour and ASCII, each in one place.

Nothing that came from outside reaches a terminal unchanged: control characters of a log line would
move its cursor or change its colours.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from cuzktop.dataclass import dataclass

MIN_WIDTH: Final = 40  # below this the figures themselves no longer fit

Span = tuple[str, str]
"""A text and the name of its style in `STYLES`; an empty name is plain."""

STYLES: Final = {
    "strong": "1",
    "faint": "2",
    "good": "36",  # the blue and the orange that eight colours have and a dark screen shows
    "warn": "33",
    "bad": "31",
}
RESET: Final = "\x1b[0m"

IN_ASCII: Final = str.maketrans(
    {
        "–": "-",
        "—": "-",
        "‘": "'",
        "’": "'",
        "“": '"',
        "”": '"',
        "…": "...",
        "·": "|",
        "×": "x",
        "≥": ">=",
        "≤": "<=",
        "→": "->",
        "±": "+-",
        "°": "",
        "µ": "u",
        "Σ": "sum",
        "█": "#",
        "░": ".",
        "\N{REPLACEMENT CHARACTER}": "?",
    }
)


def cells(text: str) -> int:
    """The columns that `text` takes: two for a wide character, none for a combining mark."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def head_of(text: str, room: int) -> str:
    """The longest beginning of `text` that takes at most `room` columns."""
    if text.isascii():
        return text[: max(0, room)]
    used = 0
    for index, character in enumerate(text):
        used += _cells_of(character)
        if used > room:
            return text[:index]
    return text


def tail_of(text: str, room: int) -> str:
    """The longest end of `text` that takes at most `room` columns."""
    if text.isascii():
        return text[max(0, len(text) - max(0, room)) :]
    used = 0
    for index in range(len(text) - 1, -1, -1):
        used += _cells_of(text[index])
        if used > room:
            return text[index + 1 :]
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column of a table: `texts` has a text a row.

    A `flexible` one is cut in the middle, down to `least` columns, before any other is left out;
    then the highest `rank` goes first. `styles` has a style a row, or is empty.
    """

    title: str = ""
    texts: Sequence[str]
    right: bool = False
    rank: int = 0
    flexible: bool = False
    least: int = 12
    styles: Sequence[str] = ()


class Page:
    """Lines for one reader: `width` columns at most, no blanks at their ends.

    With `colour` off no escape sequence is written; with `ascii_only` nothing beyond ASCII.
    """

    def __init__(self, *, width: int, colour: bool, ascii_only: bool) -> None:
        """Start an empty page; a width below `MIN_WIDTH` counts as that."""
        self.width = max(MIN_WIDTH, width)
        self.colour = colour
        self.ascii_only = ascii_only
        self.ellipsis = ".." if ascii_only else "…"
        self.dot = " | " if ascii_only else " · "
        self._lines: list[str] = []

    def text(self) -> str:
        """Everything put so far; ends with one newline."""
        lines = self._lines
        while lines and not lines[-1]:
            lines.pop()
        return "\n".join(lines) + "\n"

    def clean(self, text: str) -> str:
        """`text` without what a terminal would obey; in ASCII where that was asked for."""
        if text.isascii() and text.isprintable():
            return text
        if not text.isprintable():
            text = "".join(
                c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}"
                for c in text
            )
        if self.ascii_only and not text.isascii():
            text = text.translate(IN_ASCII)
            text = text.encode("ascii", "replace").decode("ascii")
        return text

    def middle(self, text: str, room: int) -> str:
        """`text` in at most `room` columns; what is left out is left out of its middle.

        The end keeps two thirds of the room: ids differ there.
        """
        text = self.clean(text)
        if cells(text) <= room:
            return text
        room -= len(self.ellipsis)
        if room < 1:
            return tail_of(text, room + len(self.ellipsis))
        head = head_of(text, room // 3)
        return head + self.ellipsis + tail_of(text, room - cells(head))

    def bar(self, share_pct: float | None, length: int) -> str:
        """A bar of `length` columns for a share of 0–100 %; nothing for an unknown one."""
        if share_pct is None:
            return ""
        full = round(min(100.0, max(0.0, share_pct)) / 100.0 * length)
        on, off = ("#", ".") if self.ascii_only else ("█", "░")
        return on * full + off * (length - full)

    def blank(self) -> None:
        """An empty line, unless one is there."""
        if self._lines and self._lines[-1]:
            self._lines.append("")

    def put(self, *spans: Span | str) -> None:
        """One line. What doesn't fit is cut at its end and marked."""
        room = self.width
        pieces: list[Span] = []
        for span in spans:
            text, style = (span, "") if isinstance(span, str) else span
            text = self.clean(text)
            used = cells(text)
            if used > room:
                if not text.strip():
                    continue  # padding that nothing follows
                text = head_of(text, room - len(self.ellipsis)) + self.ellipsis
                pieces.append((head_of(text, room), style))
                break
            room -= used
            pieces.append((text, style))
        while pieces:
            text, style = pieces.pop()
            if text := text.rstrip():
                pieces.append((text, style))
                break
        self._lines.append("".join(map(self._painted, pieces)))

    def _painted(self, piece: Span) -> str:
        text, style = piece
        return f"\x1b[{STYLES[style]}m{text}{RESET}" if self.colour and style and text else text

    def paragraph(
        self,
        text: str,
        *,
        label: str = "",
        label_style: str = "faint",
        indent: int = 0,
        style: str = "",
        limit: int = 6,
    ) -> None:
        """`text` over as many lines as it needs, at most `limit`, aligned behind `label`."""
        label = self.clean(label)
        if cells(label) > self.width // 2:  # an id as long as the line: it wraps with the text
            text, label = label + text, ""
        hang = indent + cells(label)
        lines = list(self._wrapped(text, self.width - hang))
        if len(lines) > limit:
            room = self.width - hang - len(self.ellipsis)
            lines[limit - 1] = head_of(lines[limit - 1], room).rstrip() + self.ellipsis
        for number, line in enumerate(lines[:limit]):
            lead = " " * cells(label) if number else label
            self.put(" " * indent, (lead, "" if number else label_style), (line, style))

    def _wrapped(self, text: str, room: int) -> Iterator[str]:
        """`text` in lines of at most `room` columns, broken at blanks where it has them."""
        words: list[str] = []
        for word in self.clean(text).split():
            if words and (word.startswith("%") or word == self.dot.strip()):
                words[-1] += f" {word}"  # neither a unit nor a separator begins a line
            else:
                words.append(word)
        line = ""
        for word in words:
            if line and cells(line) + 1 + cells(word) <= room:
                line += " " + word
                continue
            if line:
                yield line
            rest = word
            while cells(rest) > room:
                head = head_of(rest, room)
                yield head
                rest = rest[len(head) :]
            line = rest
        if line:
            yield line

    def heading(self, title: str, *more: str) -> None:
        """A section's title after an empty line, and what belongs on the same line."""
        self.blank()
        self.put((title, "strong"), ("".join(self.dot + text for text in more if text), "faint"))

    def table(self, fields: Iterable[Field], *, indent: int = 2, gap: int = 2) -> Sequence[Field]:
        """Aligned columns, with a title line or two where there are titles.

        A column without a title and without a text takes no room. Gives back the columns that
        there was room for.
        """
        kept = [
            Field(
                title=field.title,
                texts=[self.clean(text) for text in field.texts],
                right=field.right,
                rank=field.rank,
                flexible=field.flexible,
                least=field.least,
                styles=field.styles,
            )
            for field in fields
            if field.title or any(field.texts)
        ]
        kept, widths = self._fitted(kept, self.width - indent, gap)
        titles = [_title_lines(field, width) for field, width in zip(kept, widths, strict=True)]
        for level in range(2):
            if any(title[level] for title in titles):
                spans = [(title[level], "faint") for title in titles]
                self._row(spans, kept, widths, indent, gap)
        for number in range(len(kept[0].texts) if kept else 0):
            row = [
                (
                    self.middle(field.texts[number], width)
                    if field.flexible
                    else field.texts[number],
                    field.styles[number] if field.styles else "",
                )
                for field, width in zip(kept, widths, strict=True)
            ]
            self._row(row, kept, widths, indent, gap)
        return kept

    def _row(
        self,
        row: Sequence[Span],
        fields: Sequence[Field],
        widths: Sequence[int],
        indent: int,
        gap: int,
    ) -> None:
        spans: list[Span] = [(" " * indent, "")]
        for (text, style), field, width in zip(row, fields, widths, strict=True):
            padding = (" " * max(0, width - cells(text)), "")
            spans += [padding, (text, style)] if field.right else [(text, style), padding]
            spans.append((" " * gap, ""))
        self.put(*spans)

    @staticmethod
    def _fitted(fields: list[Field], room: int, gap: int) -> tuple[list[Field], list[int]]:
        """The columns that fit into `room`, and their widths."""
        while True:
            widths = [_width(field) for field in fields]
            over = sum(widths) + gap * (len(widths) - 1) - room
            spare = [
                max(0, width - field.least) if field.flexible else 0
                for field, width in zip(fields, widths, strict=True)
            ]
            if over <= sum(spare) or len(fields) <= 1:
                for index, most in enumerate(spare):
                    cut = min(most, max(0, over))
                    widths[index] -= cut
                    over -= cut
                return fields, widths
            last = max(range(len(fields)), key=lambda index: (fields[index].rank, index))
            fields = fields[:last] + fields[last + 1 :]


def _width(field: Field) -> int:
    """The columns that a field needs; a title is broken at its blank before it widens one."""
    body = max(map(cells, field.texts), default=0)
    return max(body, *(cells(part) for part in field.title.split(" ")))


def _title_lines(field: Field, width: int) -> tuple[str, str]:
    """A title's two lines, the first of them empty where one is enough."""
    if cells(field.title) <= width:
        return "", field.title
    first, _, rest = field.title.partition(" ")
    return first, rest
