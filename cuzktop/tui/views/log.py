"""View 5: the daemon's own lines, its colours kept; filtered, searched, followed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import events

from cuzktop.dataclass import dataclass
from cuzktop.frame import Frame
from cuzktop.tui.axis import clock_ms
from cuzktop.tui.details import Book, lines_end, wrapped
from cuzktop.tui.messages import TextOpened
from cuzktop.tui.rows import PartitionKey
from cuzktop.tui.sgr import SEVERITY, coloured, plain, severity
from cuzktop.tui.views.base import Searching, View
from cuzktop.tui.widgets.brush import Brush
from cuzktop.tui.widgets.cells import Line, Span, clean, clip, title, width_of
from cuzktop.tui.widgets.empty import NOTHING, sentence

LEVELS = ("all", "info", "warn", "error")
LEAST = {"all": 0, "info": 2, "warn": 3, "error": 4}
SIDEWAYS = 16  # cells that one key moves a long line


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines are shown: at least so severe, without timing lines, of one job."""

    least: int = 0
    no_timing: bool = False
    job: str = ""

    def fits(self, raw: bytes) -> bool:
        """Whether a line is shown."""
        if self.job and self.job.encode("utf-8", "replace") not in raw:
            return False
        if self.least or self.no_timing:
            return severity(raw) >= max(self.least, 1 if self.no_timing else 0)
        return True


class Index:
    """The numbers of the lines that are wanted; each line is looked at once."""

    __slots__ = ("_end", "_numbers", "_wanted")

    def __init__(self) -> None:
        """Nothing was looked at."""
        self._wanted = Wanted()
        self._numbers: list[int] = []
        self._end = 0

    def numbers(self, book: Book, end: int, wanted: Wanted) -> Sequence[int]:
        """The numbers of the lines before `end` that fit, oldest first."""
        first, last = book.span
        end = min(end, last)
        if wanted == Wanted():
            return range(min(first, end), end)
        if wanted != self._wanted or end < self._end:
            self._wanted, self._numbers, self._end = wanted, [], first
        start = max(first, self._end)
        for number, raw in enumerate(book.read(start, end), start):
            if wanted.fits(raw):
                self._numbers.append(number)
        self._end = max(end, start)
        numbers = self._numbers
        gone = 0
        while gone < len(numbers) and numbers[gone] < first:
            gone += 1
        if gone:
            del numbers[:gone]
        return numbers


def read_lines(book: Book, numbers: Sequence[int]) -> list[tuple[int, bytes]]:
    """The lines with these numbers, as far as they are still kept."""
    if isinstance(numbers, range) and numbers:
        lines = book.read(numbers[0], numbers[-1] + 1)
        first = max(numbers[0], book.span[0])
        return list(enumerate(lines, first))
    found: list[tuple[int, bytes]] = []
    for number in numbers:
        lines = book.read(number, number + 1)
        if lines:
            found.append((number, lines[0]))
    return found


_TIMELINE = re.compile(rb"TIMELINE,(\d{1,15}),")
_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT(\d\d):(\d\d):(\d\d(?:\.\d{1,9})?)")
DAY_MS = 86_400_000.0


def line_ms(raw: bytes, clock: float | None, now_ms: float) -> float | None:
    """When a line was written, on the run's clock; None for one without a time.

    `clock` is the run's zero as a time of day (ms). A time of day is taken for the one that is
    nearest to `now_ms`.
    """
    if (found := _TIMELINE.search(raw)) is not None:
        return float(found[1])
    if clock is None or (found := _STAMP.search(raw)) is None:
        return None
    of_day = 3_600_000.0 * int(found[1]) + 60_000.0 * int(found[2]) + 1000.0 * float(found[3])
    ms = of_day - clock
    return ms - DAY_MS * round((ms - now_ms) / DAY_MS)


# ---------------------------------------------------------------------------------------- drawing


def from_cell(line: Sequence[Span], left: int) -> list[Span]:
    """`line` without its first `left` cells."""
    if left <= 0:
        return list(line)
    out: list[Span] = []
    for text, style in line:
        if left <= 0:
            out.append((text, style))
            continue
        cells = width_of(text)
        if cells <= left:
            left -= cells
            continue
        kept = text
        while kept and left > 0:
            left -= width_of(kept[0])
            kept = kept[1:]
        out.append((" " * -left + kept if left < 0 else kept, style))
        left = 0
    return out


def marked(line: Sequence[Span], text: str) -> list[Span]:
    """`line` with each place where `text` stands in the style of what was found."""
    whole = "".join(part for part, _style in line)
    wanted = text.casefold()
    low = whole.casefold()
    if not wanted or wanted not in low or len(low) != len(whole):
        return list(line)
    hits: list[tuple[int, int]] = []
    at = low.find(wanted)
    while at >= 0:
        hits.append((at, at + len(wanted)))
        at = low.find(wanted, at + len(wanted))
    out: list[Span] = []
    start = 0
    for part, style in line:
        end = start + len(part)
        cut = start
        for lo, hi in hits:
            if hi <= cut or lo >= end:
                continue
            if lo > cut:
                out.append((part[cut - start : lo - start], style))
            stop = min(hi, end)
            out.append((part[max(lo, cut) - start : stop - start], "find"))
            cut = stop
        if cut < end:
            out.append((part[cut - start :], style))
        start = end
    return out


def draw_log(
    lines: Sequence[tuple[int, bytes]],
    width: int,
    height: int,
    *,
    detail: str = "",
    end: str = "",
    selected: int | None = None,
    search: str = "",
    left: int = 0,
    why: str = "",
    focused: bool = True,
) -> list[Line]:
    """Title and lines; `why` says in their place why there is none."""
    if width <= 0 or height <= 0:
        return []
    out: list[Line] = []
    if height >= 3:
        out.append(title("LOG", width, detail=detail, end=end, focused=focused))
    room = height - len(out)
    if not lines:
        return out + sentence(why or NOTHING, width, room)
    for number, raw in lines[:room]:
        spans = from_cell(coloured(raw), left)
        if search:
            spans = marked(spans, search)
        line = clip(spans, width)
        if number == selected:
            line = tuple((text, "selected") for text, _style in line)
        out.append(line)
    return out


# --------------------------------------------------------------------------------------- the view


class LogView(View, Searching):
    """The daemon's latest lines. Follows the end until a line is selected."""

    number: ClassVar[int] = 5
    view: ClassVar[str] = "log"

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002 - Textual's word
        """All lines, at the end."""
        super().__init__(ascii_only=ascii_only, id=id)
        self.level = "all"
        self.no_timing = False
        self.only: str = ""  # a job's id
        self.chosen: PartitionKey | None = None  # in another view
        self.at: int | None = None  # the selected line's number; None follows the end
        self.left = 0
        self._top = 0  # an index into what is shown
        self._search = ""
        self._origin: int | None = None  # where a search begins
        self._index = Index()
        self._end = 0
        self._moment: float | None = None  # that was chosen in another view
        self._moment_line: int | None = None
        self._arrived = False  # there just now: what came before and after it is shown, too

    # ------------------------------------------------------------ drawing

    def show(self, frame: Frame, brush: Brush | None = None) -> None:
        """Go to the end that the book has now: it grows on while the picture is frozen."""
        self._end = lines_end(frame)
        super().show(frame, brush)

    @property
    def wanted(self) -> Wanted:
        """Which lines are shown."""
        return Wanted(LEAST[self.level], self.no_timing, self.only)

    def numbers(self) -> Sequence[int]:
        """The numbers of the lines that are shown."""
        book = self.frame.book
        return () if book is None else self._index.numbers(book, self._end, self.wanted)

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        """See `draw_log`."""
        book = frame.book
        numbers = self.numbers()
        room = max(1, height - (1 if height >= 3 else 0))
        last = max(0, len(numbers) - room)
        if self.at is None:
            self._top = last
        else:
            place = self._place(numbers, self.at)
            if self._arrived:
                self._top, self._arrived = place - room // 3, False
            self._top = max(0, min(max(self._top, place - room + 1), place, last))
        shown = numbers[self._top : self._top + room]
        lines = [] if book is None else read_lines(book, shown)
        detail = f"{len(numbers)} lines"
        if self.level != "all":
            detail += f" · {self.level}" + ("" if self.level == "error" else " and worse")
        if self.no_timing:
            detail += " · no timing lines"
        if self.only:
            detail += f" · only {clean(self.only)}"
        end = "follows" if self.at is None else f"line {self.at + 1}; G follows"
        if self._search:
            end = f"/{clean(self._search)} · {end}"
        why = ""
        if book is None:
            why = "no lines are kept here: this picture doesn't come from a log"
        elif book.span[0] < self._end:
            why = f"none of the {self._end - book.span[0]} lines kept fits"
        elif self._end:
            why = "the lines of this picture are kept no more: too many have come since"
        return draw_log(
            lines,
            width,
            height,
            detail=detail,
            end=end,
            selected=self.at,
            search=self._search,
            left=self.left,
            why=why,
            focused=self.has_focus,
        )

    @staticmethod
    def _place(numbers: Sequence[int], number: int) -> int:
        """The index of the first line that isn't before `number`."""
        low, high = 0, len(numbers)
        while low < high:
            middle = (low + high) // 2
            if numbers[middle] < number:
                low = middle + 1
            else:
                high = middle
        return min(low, max(0, len(numbers) - 1))

    def follow(self, key: PartitionKey | None) -> None:
        """Take over what was selected elsewhere; `f` shows its lines."""
        self.chosen = key
        if key is not None and self.only:
            self.only = key[0]
        self.redraw()

    def show_moment(self, at_ms: float | None) -> None:
        """Select the line that was the latest at an instant; follow again when it is let go."""
        if at_ms == self._moment:
            return
        self._moment = at_ms
        if at_ms is None:
            if self.at == self._moment_line:
                self.at = None
        else:
            self._moment_line = self._line_at(at_ms)
            if self._moment_line is not None:
                self.at, self._arrived = self._moment_line, True
        self.redraw()

    def _line_at(self, at_ms: float) -> int | None:
        """The number of the latest line shown that is not younger than an instant of the run."""
        book = self.frame.book
        if book is None:
            return None
        clock = clock_ms(self.frame)
        for number, raw in reversed(read_lines(book, self.numbers())):
            ms = line_ms(raw, clock, self.frame.now_ms)
            if ms is not None and ms <= at_ms:
                return number
        return None

    # ------------------------------------------------------------ moving

    def select(self, index: int) -> None:
        """Select the line at an index of those shown, or the nearest."""
        numbers = self.numbers()
        if numbers:
            self.at = numbers[max(0, min(len(numbers) - 1, index))]
            self.redraw()

    def move(self, by: int) -> None:
        """Select the line `by` further down; at first the last one."""
        numbers = self.numbers()
        if self.at is None:
            if by < 0:
                self.select(len(numbers) - 1 if by == -1 else len(numbers) - 1 + by)
            return
        self.select(self._place(numbers, self.at) + by)

    def do_row_first(self) -> None:
        """The oldest line kept."""
        self.select(0)

    def do_row_last(self) -> None:
        """Follow the end."""
        self.at = None
        self.redraw()

    def do_left(self) -> None:
        """Back to a line's beginning."""
        self.left = max(0, self.left - SIDEWAYS)
        self.redraw()

    def do_right(self) -> None:
        """Further along a long line."""
        self.left = min(4096, self.left + SIDEWAYS)
        self.redraw()

    def do_let_go(self) -> None:
        """Follow again; then no search; then all lines."""
        if self.at is not None or self.left:
            self.at, self.left = None, 0
        elif self._search:
            self._search = ""
        else:
            self.level, self.no_timing, self.only = "all", False, ""
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Select the line under the pointer; a second click opens it."""
        line = event.y - (1 if self.size.height >= 3 else 0)
        if line >= 0 and self._top + line < len(self.numbers()):
            self.select(self._top + line)
            if event.chain == 2:
                self.do_details()

    # ------------------------------------------------------------ what is shown

    def do_level(self) -> None:
        """The next level."""
        self.level = LEVELS[(LEVELS.index(self.level) + 1) % len(LEVELS)]
        self.redraw()

    def do_noise(self) -> None:
        """Hide or show the timing lines."""
        self.no_timing = not self.no_timing
        self.redraw()

    def do_only_job(self) -> None:
        """Only lines of the selected job, or of all again."""
        if self.only:
            self.only = ""
        else:
            raw = self._raw()
            named = "" if raw is None else self._job_in(plain(raw))
            job = named or ("" if self.chosen is None else self.chosen[0])
            if not job:
                self.say("no job is selected, and this line names none")
                return
            self.only = job
        self.redraw()

    def _job_in(self, text: str) -> str:
        """The job that a line names, of those that are known."""
        frame = self.frame
        known = {job.job for job in (*frame.older_jobs, *frame.jobs)}
        known |= {row.job for row in (*frame.in_flight, *frame.recent)}
        return max((job for job in known if job and job in text), key=len, default="")

    def _raw(self) -> bytes | None:
        """The selected line."""
        book = self.frame.book
        if book is None or self.at is None:
            return None
        lines = book.read(self.at, self.at + 1)
        return lines[0] if lines else None

    def do_details(self) -> None:
        """The selected line in full."""
        raw = self._raw()
        if raw is None:
            self.say("no line is selected: k selects the last")
            return
        at = 0 if self.at is None else self.at
        line = coloured(raw)
        self.post_message(TextOpened(f"Line {at + 1}", lambda width: wrapped(line, width, 200)))

    def copy_text(self) -> str:
        """The selected line without its colours."""
        raw = self._raw()
        return "" if raw is None else plain(raw)

    # ------------------------------------------------------------ finding

    def _find(self, fits: Callable[[bytes], bool], by: int, *, here: bool = False) -> bool:
        """Select the next line in the direction of `by` that fits, round the end."""
        book = self.frame.book
        numbers = self.numbers()
        if book is None or not numbers:
            return False
        size = len(numbers)
        at = size if self.at is None else self._place(numbers, self.at)
        first = at if here and at < size else at + by
        lines = dict(read_lines(book, numbers))
        for step in range(size):
            index = (first + by * step) % size
            raw = lines.get(numbers[index])
            if raw is not None and fits(raw):
                self.select(index)
                return True
        return False

    @property
    def search_text(self) -> str:
        """What is searched for."""
        return self._search

    def begin_search(self) -> None:
        """Search from the selected line, or back from the end."""
        self._origin = self.at

    def search(self, text: str) -> None:
        """Mark what `text` is found in; select the latest such line, or the next from here on."""
        self._search = text
        self.at = self._origin
        if text:
            wanted = text.casefold()
            by = -1 if self.at is None else 1
            self._find(lambda raw: wanted in plain(raw).casefold(), by, here=True)
        self.redraw()

    def next_match(self, by: int) -> None:
        """See `Searching`."""
        wanted = self._search.casefold()
        if not wanted:
            self.say("nothing to search for: / asks")
        elif not self._find(lambda raw: wanted in plain(raw).casefold(), by):
            self.say(f"{clean(self._search)}: not found")

    def _next_error(self, by: int) -> None:
        if not self._find(lambda raw: severity(raw) == SEVERITY[b"ERROR"], by):
            self.say("no error in these lines")

    def do_next_failure(self) -> None:
        """The next error."""
        self._next_error(1)

    def do_previous_failure(self) -> None:
        """The error before."""
        self._next_error(-1)
