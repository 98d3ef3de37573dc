"""Lines of terminal cells: what a panel draws, before it has colours.

A `Line` is a tuple of `(text, style name)`; the style names are those of `STYLES`, to which
`tui.palette` gives looks. Panels make lines in plain functions, so that they can be compared with
the lines before and tested without a terminal. Widths are in cells: a wide character has two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import ne

from rich.cells import cell_len, set_cell_size

from cuzktop.frame import TIME_CLASSES

Span = tuple[str, str]
Line = tuple[Span, ...]

STYLES = (
    "text",
    "strong",
    "muted",
    "title",
    "rule",
    "track",
    "key",
    "good",
    "warn",
    "error",
    "badge-good",
    "badge-warn",
    "badge-quiet",
    "badge-pause",
    "selected",
    "find",
    "kernel",
    "barrier",
    "lock_overhead",
    "handoff",
    "starved",
    "no_work",
    "bracket",
    "lock",
    "section",
    "nvml",
    "power",
    "synth",
    "late",
    "bracket-bar",
    "lock-bar",
    "section-bar",
    "kernel-bar",
    "nvml-bar",
    "power-bar",
    "synth-bar",
    "late-bar",
)
"""Every style that a line may name; `tui.palette` says how each looks."""

CLASS_GLYPHS: Mapping[str, str] = dict(zip(TIME_CLASSES, "█▓▒░╌·", strict=True))
CLASS_TITLES: Mapping[str, str] = dict(
    zip(
        TIME_CLASSES,
        ("kernel", "barrier", "lock overhead", "handoff", "starved", "no work"),
        strict=True,
    )
)

BARS = {style: f"{style}-bar" for style in STYLES}
"""The style of the bar beside a figure of a style."""

WIDE = 150  # cells from which names are whole and panels stand beside each other
EIGHTHS = " ▏▎▍▌▋▊▉█"
LEVELS = " ▁▂▃▄▅▆▇█"
GAP = "·"

# One cell becomes one cell, so that a picture keeps its columns.
_ASCII = str.maketrans(
    {
        **dict(zip(EIGHTHS, " ::==####", strict=True)),
        **dict(zip(LEVELS, " _,:-=+*#", strict=True)),
        "▓": "=",
        "▒": "+",
        "░": "-",
        "╌": "~",
        "·": ".",
        "─": "-",
        "━": "=",
        "├": "[",
        "┤": "]",
        "│": "|",
        "┊": ":",
        "╵": "'",
        "–": "-",
        "−": "-",
        "—": "-",
        "…": "~",
        "≥": ">",
        "≠": "!",
        "×": "x",
        "±": "+",
        "→": ">",
        "←": "<",
        "↑": "^",
        "↓": "v",
        "▸": ">",
        "▾": "v",
        "▼": "v",
        "▲": "!",
        "●": "*",
        "○": "o",
        "◌": ",",
        "◆": "*",
        "✓": "d",
        "✗": "X",
        "≈": "~",
        "°": " ",
        "µ": "u",
        "’": "'",
        "‘": "'",
        "“": '"',
        "”": '"',
    }
)


# What our own pictures are made of: all of one cell, so that nobody has to look each up.
_NARROW = re.compile(
    "[ -~\u00b7\u00d7\u2013\u2026\u2190-\u2193\u2500-\u259f▪▸▾▲▼○●◆✓✗≥≠≈]*"
).fullmatch


def width_of(text: str) -> int:
    """The cells that `text` takes."""
    return len(text) if text.isascii() or _NARROW(text) else cell_len(text)


def clean(text: str) -> str:
    """`text` on one line, with nothing in it that a terminal would obey."""
    if text.isprintable():
        return text
    # Bidi overrides and separators would move what stands beside them: not printable either.
    text = text.expandtabs(1).replace("\n", " ").replace("\r", "")
    return "".join(char if char.isprintable() else "�" for char in text)


def to_ascii(text: str) -> str:
    """`text` in ASCII, as many cells wide; what has no likeness becomes question marks."""
    if text.isascii():
        return text
    text = text.translate(_ASCII)
    if text.isascii():
        return text
    return "".join(char if char.isascii() else "?" * cell_len(char) for char in text)


def fit(text: str, width: int) -> str:
    """`text` padded or cut to exactly `width` cells; a cut shows as an ellipsis."""
    cells = len(text) if text.isascii() else width_of(text)
    if cells <= width:
        return text + " " * (width - cells)
    if width <= 1:
        return "…" if width == 1 else ""
    return set_cell_size(text, width - 1) + "…"


def right(text: str, width: int) -> str:
    """`text` at the right end of exactly `width` cells."""
    cells = len(text) if text.isascii() else width_of(text)
    return " " * (width - cells) + text if cells <= width else fit(text, width)


def _tail(text: str, width: int) -> str:
    """The end of `text` in exactly `width` cells."""
    if text.isascii() and 0 < width <= len(text):
        return text[-width:]
    kept, cells = "", 0
    for char in reversed(text):
        cells += cell_len(char)
        if cells > width:
            break
        kept = char + kept
    return " " * (width - cell_len(kept)) + kept


@lru_cache(maxsize=1024)  # several screens full; of a day there would be thousands
def label(job: str, partition: int | None, width: int, attempt: int = 1) -> str:
    """`job/partition` in exactly `width` cells.

    A long job id loses its middle: ids differ at their ends. The partition is never cut away, and
    a later attempt shows as `#2`.
    """
    name = clean(job)
    end = ("" if attempt == 1 else f"#{attempt}") + ("" if partition is None else f"/{partition}")
    room = width - len(end)
    if width_of(name) <= room or room < 3:
        return (
            fit(name + end, width) if room >= 3 else right(_tail(end, min(width, len(end))), width)
        )
    head = min(5, (room - 1) // 4)
    return set_cell_size(name, head) + "…" + _tail(name, room - 1 - head) + end


@lru_cache(maxsize=512)
def wrap(text: str, first: int, rest: int, lines: int) -> tuple[str, ...]:
    """`text` in at most `lines` lines: the first `first` cells wide, the others `rest`.

    What doesn't fit ends in an ellipsis. Lines are not padded.
    """
    out: list[str] = []
    current = ""
    for word in clean(text).split():
        width = first if not out else rest
        joined = f"{current} {word}" if current else word
        if width_of(joined) <= width or not current:
            current = joined
        else:
            out.append(current)
            current = word
    out.append(current)
    if len(out) > lines:
        width = first if lines == 1 else rest
        out = [*out[: lines - 1], fit(" ".join(out[lines - 1 :]), width)]
    return tuple(
        fit(line, first if y == 0 else rest).rstrip() for y, line in enumerate(out[:lines])
    )


def line_width(line: Sequence[Span]) -> int:
    """The cells of a whole line."""
    return width_of("".join([text for text, _ in line]))


def moved_down(old: Sequence[Line], new: Sequence[Line]) -> tuple[int, int] | None:
    """From which row on most of `old` stands further down in `new`, and by how much.

    The last two rows tell; those between may have changed as well.
    """
    rows = len(old)
    first = next((y for y, line in enumerate(old) if line is not new[y] and line != new[y]), rows)
    for by in range(1, rows - first - 2):
        if new[-1] == old[-1 - by] and new[-2] == old[-2 - by]:
            return first, by
    return None


def differences(old: Line, new: Line) -> list[tuple[int, Line]]:
    """What of `new` has to be written over `old`, a line of the same width, and at which cells.

    Where the spans of both stand at the same cells, only those that differ; else all from the
    first that differs to the last.
    """
    found = _span_by_span(old, new) if len(old) == len(new) else None
    if found is not None:
        return found
    same = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        same += 1
    behind = 0
    most = min(len(old), len(new)) - same
    while behind < most and old[-1 - behind] == new[-1 - behind]:
        behind += 1
    return [(line_width(new[:same]), new[same : len(new) - behind])]


def _span_by_span(old: Line, new: Line) -> list[tuple[int, Line]] | None:
    """See `differences`; None where the spans stand at other cells."""
    texts = [text for text, _ in new]
    whole = "".join(texts)
    widths = list(map(len if whole.isascii() or _NARROW(whole) else width_of, texts))
    found: list[tuple[int, Line]] = []
    first = -1  # of the spans that differ up to here; -1: the one before doesn't
    for index, differs in enumerate(map(ne, old, new)):
        if differs:
            if width_of(old[index][0]) != widths[index]:
                return None
            if first < 0:
                first = index
        elif first >= 0:
            found.append((sum(widths[:first]), new[first:index]))
            first = -1
    if first >= 0:
        found.append((sum(widths[:first]), new[first:]))
    return found


def clip(line: Sequence[Span], width: int) -> Line:
    """`line` in exactly `width` cells; what is cut leaves an ellipsis."""
    texts = [text for text, _ in line]
    whole = "".join(texts)
    if len(whole) == width and all(texts) and (whole.isascii() or _NARROW(whole)):
        return tuple(line)
    spans: list[Span] = []
    left = width
    for text, style in line:
        cells = len(text) if text.isascii() else width_of(text)
        if cells > left:
            if left > 0:
                spans.append((fit(text, left), style))
            return tuple(spans)
        if cells:
            spans.append((text, style))
            left -= cells
    if left > 0:
        spans.append((" " * left, "text"))
    return tuple(spans)


def beside(left: Sequence[Span], right_spans: Sequence[Span], width: int) -> Line:
    """`left` at the left end and `right_spans` at the right end of `width` cells."""
    used = line_width(right_spans)
    if not used or used >= width:
        return clip(left, width)
    return (*clip(left, width - used), *right_spans)


@lru_cache(maxsize=64)
def title(name: str, width: int, *, detail: str = "", end: str = "", focused: bool = False) -> Line:
    """A panel's first line: its name, what it shows, a rule, and a remark at the end."""
    head = name if width_of(name) <= width else fit(name, width)
    spans: list[Span] = [(head, "key" if focused else "title")]
    left = width - width_of(head)
    tail = f" {end}" if end and width_of(end) + 3 <= left else ""
    left -= width_of(tail)
    if detail and left > 3:
        text = fit(f" {detail}", min(width_of(detail) + 1, left))
        spans.append((text, "muted"))
        left -= width_of(text)
    if left > 0:
        spans.append((" " + "─" * (left - 1), "rule"))
    if tail:
        spans.append((tail, "muted"))
    return tuple(spans)


def bar(share_pct: float | None, width: int, style: str) -> Span:
    """A horizontal bar of `width` cells on its track; 100 % fills it. Unknown is a dotted track.

    `style` is that of the figure beside it; the bar's own is `STYLE-bar`, which has the track's
    ground, so that a cell filled in part shows both.
    """
    if width <= 0:
        return ("", style)
    if share_pct is None:
        return (GAP * width, "track")
    eighths = round(max(0.0, min(100.0, share_pct)) / 100.0 * width * 8)
    if eighths == 0 and share_pct > 0:
        eighths = 1
    return _bar(eighths, width), BARS[style]


@lru_cache(maxsize=4096)
def _bar(eighths: int, width: int) -> str:
    full, part = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[part] if part else "")).ljust(width)


def stacked(shares_pct: Mapping[str, float], width: int) -> Line:
    """The six classes of time as one bar of `width` cells; largest remainders fill it up."""
    if width <= 0:
        return ()
    total = sum(shares_pct.values()) or 1.0
    exact = [shares_pct.get(name, 0.0) / total * width for name in TIME_CLASSES]
    counts = [int(cells + 1e-9) for cells in exact]
    missing = width - sum(counts)
    if missing > 0:
        rest = [cells - count for cells, count in zip(exact, counts, strict=True)]
        for at in sorted(range(len(rest)), key=rest.__getitem__, reverse=True)[:missing]:
            counts[at] += 1
    return tuple(
        [
            (CLASS_GLYPHS[name] * count, name)
            for name, count in zip(TIME_CLASSES, counts, strict=True)
            if count
        ]
    )


@lru_cache(maxsize=64)
def _graph_rows(height: int) -> tuple[str, ...]:
    """For each row from the top: the character of each level, 0 to `8 * height`, then a gap's."""
    steps = 8 * height
    return tuple(
        "".join(LEVELS[max(0, min(8, level - 8 * above))] for level in range(steps + 1))
        + (" " if above else GAP)
        for above in range(height - 1, -1, -1)
    )


def graph(history: Sequence[float | None], width: int, height: int) -> tuple[str, ...]:
    """A 0–100 % history as `height` rows of `width` cells, newest at the right, top row first.

    A bin that was not read is a dot on the bottom row; what lies before the first reading is blank.
    What isn't 0 shows at least the least there is.
    """
    if width <= 0 or height <= 0:
        return ()
    shown = history[-width:]
    first = next((at for at, share_pct in enumerate(shown) if share_pct is not None), len(shown))
    return tuple([row.rjust(width) for row in _columns(shown[first:], height)])


def _columns(shares_pct: Sequence[float | None], height: int) -> list[str]:
    """A column a share, as rows of text from the top."""
    steps = 8 * height
    scale = steps / 100.0
    levels = [
        steps + 1
        if share_pct is None
        else 0
        if share_pct <= 0
        else steps
        if share_pct >= 100
        else int(share_pct * scale + 0.5) or 1
        for share_pct in shares_pct
    ]
    return ["".join([row[level] for level in levels]) for row in _graph_rows(height)]


FRESH = (3, 30)  # seconds at the end that a measurement, and a log, may still change


def _fresh(old: Sequence[float | None], new: Sequence[float | None]) -> int | None:
    """How many of the latest differ if `new` is `old` a second later; None: it is another one."""
    if not new or len(old) != len(new) or (new[0] is None) != (old[0] is None):
        return None
    for fresh in FRESH:
        # Behind a reading, what wasn't read is a gap; before the first, it is blank.
        behind_one = fresh < len(new) - 2 and new[-fresh - 2] is not None
        if behind_one and new[: -fresh - 1] == old[1:-fresh]:
            return fresh
    return None


class Graphs:
    """Graphs as they were drawn last: one that has gone on by a second is moved, not made anew."""

    def __init__(self) -> None:
        """None was drawn yet."""
        self._drawn: dict[object, tuple[int, Sequence[float | None], tuple[str, ...]]] = {}

    def rows(
        self, of: object, history: Sequence[float | None], width: int, height: int
    ) -> tuple[str, ...]:
        """See `graph`; `of` is what the history is of."""
        shown = history[-width:] if width > 0 else ()
        before, old, rows = self._drawn.get(of, (0, (), ()))
        if before != height:
            old = ()
        elif shown == old:
            return rows
        fresh = _fresh(old, shown)
        if fresh is not None:
            latest = _columns(shown[-fresh - 1 :], height)
            rows = tuple([row[1:-fresh] + new for row, new in zip(rows, latest, strict=True)])
        else:
            rows = graph(history, width, height)
        self._drawn[of] = height, shown, rows
        return rows


def count(number: int) -> str:
    """A count in at most five characters: 3120, 48.2k, 1.3M."""
    if number < 10_000:
        return str(number)
    if number < 999_500:
        return f"{number / 1000:.1f}k" if number < 99_950 else f"{number / 1000:.0f}k"
    return f"{number / 1e6:.1f}M" if number < 99_950_000 else f"{number / 1e6:.0f}M"
