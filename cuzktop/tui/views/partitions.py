"""View 2: where each partition's time went: one row each, to sort, to filter and to search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

from textual import events

from cuzktop.dataclass import dataclass, field
from cuzktop.frame import Frame, PartitionRow, StageStats
from cuzktop.tui.filters import Filter, parse_filter
from cuzktop.tui.messages import PartitionOpened, Selected
from cuzktop.tui.rows import (
    PartitionKey,
    key_of,
    next_where,
    row_text,
    slow_stages,
)
from cuzktop.tui.views.base import Jumping, Searching, View
from cuzktop.tui.widgets.cells import (
    WIDE,
    Line,
    Span,
    clean,
    clip,
    fit,
    label,
    right,
    title,
)
from cuzktop.tui.widgets.empty import reason, sentence
from cuzktop.tui.widgets.jobs import CELLS
from cuzktop.tui.widgets.legend import legend
from cuzktop.tui.widgets.partitions import COLUMNS, LEAST_NAME, MARKS, SHORT_NAME, Column
from cuzktop.units import age, count, duration

STAGE = 7  # cells of a stage: a blank or ~, five of the figure, a mark
STAGE_WIDE = 10  # the same with the stage's whole name over it
LEAST_BAR = 12
MOST_BAR = 48
FOOT = (("p50", "p50"), ("p95", "p95"), ("max", "max"))

# part of a partition's time, its glyph, its style, its name in the legend
PARTS: tuple[tuple[str, str, str, str], ...] = (
    ("synth", "╌", "synth", "synthesis"),
    ("queue", "·", "starved", "queue"),
    ("pre", "░", "handoff", "CPU, lock free"),
    ("wait", "○", "lock", "lock wait"),
    ("lead", "?", "muted", "not known"),
    ("ntt", "█", "kernel", "kernel"),
    ("barrier", "▓", "barrier", "barrier"),
    ("batch", "█", "kernel", ""),
    ("over", "▒", "lock_overhead", "lock overhead"),
    ("after", "░", "handoff", ""),
    ("unknown", "?", "muted", ""),
)
WAITING_PARTS = ("synth", "queue")


def parts_of(row: PartitionRow, *, whole: bool) -> dict[str, float]:
    """Milliseconds of each part of a partition's time, in order; `whole` has what was before."""
    spent: dict[str, float] = {}
    if whole:
        spent["synth"] = float(row.synth_ms or 0)
        spent["queue"] = float(row.queue_ms or 0)
    bracket = row.bracket_ms
    if bracket is None:
        return spent
    pre, wait = row.pre_lock_cpu_ms or 0, row.lock_wait_ms or 0
    held = row.lock_held_ms
    if held is None:
        spent["pre"], spent["wait"] = float(pre), float(wait)
        spent["unknown"] = float(max(0, bracket - pre - wait))
        return spent
    lead = 0.0
    if row.lock_wait_ms is None and row.lock_at_ms is not None and row.bracket_start_ms is not None:
        # Before S41 the log doesn't say what of the time before the lock was waiting.
        lead = max(0.0, min(row.lock_at_ms - row.bracket_start_ms, float(bracket - held)))
    ntt, barrier = row.ntt_msm_h_ms or 0, row.barrier_wait_ms or 0
    batch = (row.batch_add_ms or 0) + (row.tail_msm_ms or 0)
    spent |= {
        "pre": float(pre),
        "wait": float(wait),
        "lead": lead,
        "ntt": float(ntt),
        "barrier": float(barrier),
        "batch": float(batch),
        "over": float(max(0, held - ntt - barrier - batch)),
        "after": max(0.0, bracket - pre - wait - lead - held),
    }
    return spent


def parts_bar(spent: Mapping[str, float], width: int, scale_ms: float) -> Line:
    """The parts as one bar; `scale_ms` fill `width` cells, and what is longer ends in an arrow."""
    if width <= 0:
        return ()
    cells: list[tuple[str, str]] = []
    at = 0.0
    drawn = 0
    scale = width / scale_ms if scale_ms > 0 else 0.0
    for name, glyph, style, _says in PARTS:
        at += spent.get(name, 0.0) * scale
        # Edges are rounded, not lengths: the whole keeps its length.
        count = min(width, int(at + 0.5)) - drawn
        if count > 0:
            cells.append((glyph * count, style))
            drawn += count
    if at > width + 0.5 and cells:
        text, style = cells[-1]
        cells[-1] = (text[:-1] + "▸", style)
    if drawn < width:
        cells.append((" " * (width - drawn), "text"))
    return tuple(cells)


# ------------------------------------------------------------------------------ order and filter


@dataclass(frozen=True, slots=True)
class Order:
    """One thing to sort by: its name in settings, its title, its value, whether large goes first.

    `stage` is the column that shows it, None for those at the ends of a row.
    """

    name: str
    title: str
    value: Callable[[PartitionRow], float | str | None]
    large_first: bool = True


def _place(row: PartitionRow) -> str:
    return f"{row.job}\x00{row.attempt:>6}\x00{-1 if row.partition is None else row.partition:>6}"


ORDERS: tuple[Order, ...] = (
    Order("newest", "newest", lambda _row: None),
    Order("job", "job", _place, large_first=False),
    Order("worker", "worker", lambda row: row.worker, large_first=False),
    Order("gpu", "GPU", lambda row: row.gpu, large_first=False),
    *(Order(column.name, column.long, column.value) for column in COLUMNS),
    Order("state", "state", lambda row: row.state, large_first=False),
    Order("attribution", "attribution", lambda row: row.attribution, large_first=False),
)
ORDER: Mapping[str, Order] = {order.name: order for order in ORDERS}


@dataclass(slots=True)
class Table:
    """What the user chose in this view, and where the picture begins."""

    order: str = "newest"
    backwards: bool = False
    filter: Filter = field(default_factory=Filter)
    filter_text: str = ""
    search: str = ""
    whole: bool = False  # the bar has synthesis and queue, too
    selected: PartitionKey | None = None
    top: int | None = None  # None: where what runs on a GPU begins


def arrange(frame: Frame, table: Table) -> list[PartitionRow]:
    """The rows that fit the filter, in order.

    By default a row moves down as its partition goes on: those in synthesis, queued, on a GPU, and
    then those that ended, newest first.
    """
    rows: list[PartitionRow] = [*reversed(frame.in_flight), *frame.recent]
    if table.filter.terms:
        rows = [row for row in rows if table.filter.fits(row)]
    if table.order == "newest":
        progress = {"synthesizing": 0, "queued": 1, "gpu": 2}
        rows.sort(key=lambda row: progress.get(row.state, 3))
        if table.backwards:
            rows.reverse()
        return rows
    order = ORDER[table.order]
    known = [(value, row) for row in rows if (value := order.value(row)) is not None]
    unknown = [row for row in rows if order.value(row) is None]
    known.sort(key=lambda pair: pair[0], reverse=order.large_first != table.backwards)
    return [row for _value, row in known] + unknown


def anchor(rows: Sequence[PartitionRow]) -> int:
    """Where to begin if nothing else is wanted: at what runs on a GPU, or ended last."""
    return next(
        (at for at, row in enumerate(rows) if row.state not in {"synthesizing", "queued"}), 0
    )


def matches(row: PartitionRow, text: str) -> bool:
    """Whether a search for `text` finds the row: by its name, its failure or its state."""
    name = f"{row.job}#{row.attempt}/{row.partition} {row.state} {row.message}"
    return text.casefold() in name.casefold()


# ---------------------------------------------------------------------------------------- drawing


@dataclass(frozen=True, slots=True, eq=False)
class TableShape:
    """Which columns there are, and how wide, at one width; hashed by identity: it is a key."""

    columns: tuple[Column, ...]
    column: int
    name: int
    lead: int  # worker and GPU
    bar: int
    gpu: bool
    words: bool


def shape_for(frame: Frame, rows: Sequence[PartitionRow], table: Table, width: int) -> TableShape:
    """The table's shape for a frame."""
    # A name's length is looked up on what is likely to be long: all ids of a log look alike.
    longest = max((len(row.job) + 6 for row in rows[:8]), default=0)
    absent = frozenset[str]()
    if frame.stages:
        absent = frozenset(c.name for c in COLUMNS if c.name not in frame.stages)
    return shape_of(width, table.order, min(longest, 46), absent, several=len(frame.gpus) > 1)


@lru_cache(maxsize=16)
def shape_of(
    width: int, order: str, longest: int, absent: frozenset[str], *, several: bool
) -> TableShape:
    """The columns that fit into `width` cells; the one that is sorted by always does.

    Those in `absent`, which this daemon doesn't print, only come where there is room to spare.
    """
    words = width >= WIDE
    column = STAGE_WIDE if words else STAGE
    gpu = several and width >= 100
    lead = 3 + (4 if gpu else 0) + (1 if words else 0)
    fixed = lead + (12 if words else 3)
    name = LEAST_NAME if width >= 78 else min(SHORT_NAME, max(4, width - fixed - column))
    bar = LEAST_BAR + 1 if width >= 78 else 0
    room = width - fixed - name - bar
    ranked = sorted(COLUMNS, key=lambda c: (c.name != order, c.name in absent, c.rank))
    kept = {c.name for c in ranked[: max(0, room // column)]}
    columns = tuple(c for c in COLUMNS if c.name in kept)
    left = width - fixed - name - bar - column * len(columns)
    # Turn by turn: a name that can be told apart, a bar that can be read, then more of both.
    for name_most, bar_most in ((26, 26), (longest, MOST_BAR + 1)):
        more = max(0, min(left, min(longest, name_most) - name))
        name += more
        left -= more
        more = max(0, min(left, bar_most - bar)) if bar else 0
        bar += more
        left -= more
    return TableShape(columns, column, name, lead, bar, gpu, words)


def draw_table(
    frame: Frame,
    width: int,
    height: int,
    *,
    rows: Sequence[PartitionRow] | None = None,
    table: Table | None = None,
    focused: bool = True,
) -> list[Line]:
    """Title, column names, rows from `table.top` on, percentiles and the bar's legend."""
    if width <= 0 or height <= 0:
        return []
    table = Table() if table is None else table
    if rows is None:
        rows = arrange(frame, table)
    shape = shape_for(frame, rows, table, width)
    lines: list[Line] = []
    if height >= 4:
        lines.append(_title(frame, rows, table, width, focused=focused))
    lines.append(draw_head(shape, table, width))
    foot = _foot(frame, rows, shape, table, width, height)
    room = height - len(lines) - len(foot)
    if not rows:
        kept = len(frame.recent) + len(frame.in_flight)
        why = reason(frame, "no partition has begun yet", brief=False)
        if kept:
            why = f"none of {kept} partitions fits the filter; Esc takes it away"
        body = sentence(why, width, room)
    else:
        top = anchor(rows) if table.top is None else table.top
        top = max(0, min(top, len(rows) - 1))
        body = draw_rows(frame, rows[top : top + max(0, room)], shape, table, width)
    lines += body
    if foot:
        lines += [((" " * width, "text"),)] * (height - len(lines) - len(foot))
        lines += foot
    return lines[:height]


def draw_rows(
    frame: Frame, rows: Sequence[PartitionRow], shape: TableShape, table: Table, width: int
) -> list[Line]:
    """A line for each of `rows`."""
    scale = _scale(frame, whole=table.whole)
    return [_shown(row, frame, shape, table, width, scale) for row in rows]


def _title(
    frame: Frame, rows: Sequence[PartitionRow], table: Table, width: int, *, focused: bool
) -> Line:
    kept = len(frame.recent)
    detail = f"{kept} ended"
    if frame.in_flight:
        detail += f", {len(frame.in_flight)} on their way"
    if table.filter_text:
        detail = f"{len(rows)} of {kept + len(frame.in_flight)}"
        detail += f" with {clean(table.filter_text)}"
    order = ORDER[table.order]
    down = order.large_first != table.backwards
    way = "by " + order.title + (" ▼" if down else " ▲")
    if table.order == "newest":
        way = "oldest first" if table.backwards else "newest first"
    if table.search:
        found = sum(matches(row, table.search) for row in rows)
        way = f"/{clean(table.search)}: {found} found · {way}"
    return title("PARTITIONS", width, detail=detail, end=way, focused=focused)


def draw_head(shape: TableShape, table: Table, width: int) -> Line:
    """The columns' names; the one that is sorted by has an arrow."""
    head: list[Span] = [
        (fit("PARTITION", shape.name), "title"),
        (fit("  w gpu" if shape.gpu else "  w", shape.lead), "muted"),
    ]
    down = ORDER[table.order].large_first != table.backwards
    for column in shape.columns:
        words = column.long if shape.words else column.short
        chosen = column.name == table.order
        mark = ("▼" if down else "▲") if chosen else " "
        head.append((right(words, shape.column - 1) + mark, "key" if chosen else "muted"))
    if shape.bar:
        words = "whole life" if table.whole else "bracket"
        head.append((" " + fit(words, shape.bar - 1), "muted"))
    if shape.words:
        head.append(("  state", "muted"))
    return clip(head, width)


def _scale(frame: Frame, *, whole: bool) -> float:
    """What fills the bar: the 95th percentile, so that one slow partition doesn't shrink all."""
    bracket = frame.stages.get("bracket_ms")
    total = 0.0 if bracket is None else bracket.p95
    if whole:
        for stage in ("synth_ms", "queue_ms"):
            stats = frame.stages.get(stage)
            total += 0.0 if stats is None else stats.p95
    return total


def _running(row: PartitionRow, stage: str, now_ms: float) -> float | None:
    """How long a stage has lasted so far, if it is the one that `row` is in."""
    if stage == "synth_ms" and row.state == "synthesizing" and row.synth_start_ms is not None:
        return max(0.0, now_ms - row.synth_start_ms)
    if stage == "queue_ms" and row.state == "queued" and row.synth_start_ms is not None:
        return max(0.0, now_ms - row.synth_start_ms - (row.synth_ms or 0))
    if stage == "bracket_ms" and row.state == "gpu" and row.bracket_start_ms is not None:
        return max(0.0, now_ms - row.bracket_start_ms)
    return None


def _shown(
    row: PartitionRow,
    frame: Frame,
    shape: TableShape,
    table: Table,
    width: int,
    scale_ms: float,
) -> Line:
    found = bool(table.search) and matches(row, table.search)
    slow = slow_stages(row, frame.stages)
    if row.state in {"synthesizing", "queued", "gpu"}:
        running = {
            stage: age(so_far)
            for stage in ("synth_ms", "queue_ms", "bracket_ms")
            if (so_far := _running(row, stage, frame.now_ms)) is not None
        }
        line = _row(row, shape, width, slow, table.whole, found, scale_ms, running)
    else:
        line = _ended_row(row, shape, width, slow, table.whole, found, scale_ms)
    if table.selected is not None and key_of(row) == table.selected:
        return tuple((text, "selected") for text, _style in line)
    return line


@lru_cache(maxsize=512)
def _ended_row(
    row: PartitionRow,
    shape: TableShape,
    width: int,
    slow: frozenset[str],
    whole: bool,  # noqa: FBT001 - part of what is remembered
    found: bool,  # noqa: FBT001 - the same
    scale_ms: float,
) -> Line:
    """Remembered by the row itself, for an ended one never changes."""
    return _row(row, shape, width, slow, whole, found, scale_ms, {})


def _row(
    row: PartitionRow,
    shape: TableShape,
    width: int,
    slow: frozenset[str],
    whole: bool,  # noqa: FBT001 - as above
    found: bool,  # noqa: FBT001 - the same
    scale_ms: float,
    running: Mapping[str, str],
) -> Line:
    glyph, style, _name = CELLS.get(row.state, ("?", "warn", row.state))
    worker = count(row.worker)
    gpu = right(count(row.gpu), 4) if shape.gpu else ""
    spans: list[Span] = [
        (label(row.job, row.partition, shape.name, row.attempt), "find" if found else "text"),
        (fit(right(worker, 3) + gpu, shape.lead), "muted"),
    ]
    touches = False  # a mark that stands right before the next cell
    for column in shape.columns:
        so_far = running.get(column.name)
        if so_far is not None:
            spans.append((right(so_far, shape.column - 1) + "+", "synth"))
            touches = True
            continue
        value = column.value(row)
        derived = "~" if value is not None and column.name in row.derived else ""
        late = column.name in slow
        mark = "!" if late else " "
        if derived and touches and shape.column == STAGE:
            derived, mark = "", mark.replace(" ", derived)  # behind it, so that a blank is left
        text = right(derived + duration(value), shape.column - 1) + mark
        touches = mark != " "
        spans.append((text, "muted" if value is None else "late" if late else column.style))
    if shape.bar:
        spans.append((" ", "text"))
        spans += parts_bar(parts_of(row, whole=whole), shape.bar - 1, scale_ms)
    mark = MARKS.get(row.attribution, " ")
    if row.state in {"synthesizing", "queued", "gpu"}:
        mark = " "  # its lines are still to come
    if shape.words:
        # "synthesizing" is a little long for its column.
        spans += [(f"  {glyph} {fit(_SHORT.get(row.state, row.state), 7)}", style), (mark, "muted")]
    else:
        spans += [(f" {glyph}", style), (mark, "muted")]
    return clip(spans, width)


_SHORT = {"synthesizing": "synth"}


def _foot(
    frame: Frame,
    rows: Sequence[PartitionRow],
    shape: TableShape,
    table: Table,
    width: int,
    height: int,
) -> list[Line]:
    """Percentiles under their columns, and what the bar's glyphs mean."""
    if not rows or height < 9:
        return []
    wanted = FOOT if height >= 14 else FOOT[:1]
    stages = frame.stages
    over = "all that ended"
    if table.filter.terms:
        stages = _stats_of(rows, shape.columns)
        over = "what fits"
    lines: list[Line] = []
    lead = shape.name + shape.lead
    for at, (name, key) in enumerate(wanted):
        head = f"{name} of {over}" if at == 0 and lead >= 24 else name
        spans: list[Span] = [(fit(head, lead), "title")]
        for column in shape.columns:
            stats = stages.get(column.name)
            value = None if stats is None else getattr(stats, key)
            text = right(duration(value), shape.column - 1) + " "
            spans.append((text, "muted" if value is None else "strong"))
        lines.append(clip(spans, width))
    if height >= 18:
        lines.append(_legend(table, width))
    return lines


def _stats_of(rows: Sequence[PartitionRow], columns: Sequence[Column]) -> Mapping[str, StageStats]:
    """Nearest-rank percentiles of the rows that are shown."""
    found: dict[str, StageStats] = {}
    for column in columns:
        figures = sorted(value for row in rows if (value := column.value(row)) is not None)
        if figures:
            last = len(figures) - 1
            found[column.name] = StageStats(
                count=len(figures),
                p50=figures[last // 2],
                p95=figures[min(last, -(-len(figures) * 95 // 100) - 1)],
                max=figures[last],
            )
    return found


def _legend(table: Table, width: int) -> Line:
    parts = {name: (glyph, style, says) for name, glyph, style, says in PARTS if says}
    names = ("ntt", "barrier", "over", "pre", "wait")
    before = WAITING_PARTS if table.whole else ()
    signs = [parts[name] for name in (*before, *names)]
    signs += [("!", "late", "slow: over 1.5 × p50"), ("+", "synth", "so far"), parts["lead"]]
    return clip(legend(signs, width)[0], width)


# --------------------------------------------------------------------------------------- the view


class PartitionsView(View, Searching, Jumping):
    """Question 5, in full."""

    number: ClassVar[int] = 2
    view: ClassVar[str] = "partitions"
    among: ClassVar[str] = "partition here"

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002 - Textual's word
        """Newest first, nothing selected."""
        super().__init__(ascii_only=ascii_only, id=id)
        self.table = Table()
        self._rows: list[PartitionRow] = []
        self._rows_of: tuple[object, ...] = ()
        self._origin: PartitionKey | None = None  # where a search begins

    # ------------------------------------------------------------ drawing

    def rows(self) -> list[PartitionRow]:
        """The rows of the frame, arranged; remembered until something in it changes."""
        frame, table = self.frame, self.table
        made_of = (frame.in_flight, frame.recent, table.order, table.backwards, table.filter)
        if made_of != self._rows_of:
            self._rows = arrange(frame, table)
            self._rows_of = made_of
        return self._rows

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        """See `draw_table`."""
        rows = self.rows()
        self._keep_in_view(rows, self._room(height))
        return draw_table(frame, width, height, rows=rows, table=self.table, focused=self.has_focus)

    def _room(self, height: int) -> int:
        """Rows that partitions have, at a height."""
        head = 2 if height >= 4 else 1
        foot = 0 if height < 9 else 1 if height < 14 else 3 if height < 18 else 4
        return max(1, height - head - foot)

    def _position(self, rows: Sequence[PartitionRow]) -> int | None:
        if self.table.selected is None:
            return None
        return next((at for at, row in enumerate(rows) if key_of(row) == self.table.selected), None)

    def _keep_in_view(self, rows: Sequence[PartitionRow], room: int) -> None:
        at = self._position(rows)
        if at is None:
            self.table.top = None
            if self.table.order != "newest" or self.table.backwards:
                self.table.top = 0
            return
        top = anchor(rows) if self.table.top is None else self.table.top
        self.table.top = max(0, min(max(top, at - room + 1), at, max(0, len(rows) - room)))

    # ------------------------------------------------------------ selection

    def follow(self, key: PartitionKey | None) -> None:
        """Select what was selected elsewhere."""
        self.table.selected = key
        self.redraw()

    def select(self, at: int) -> None:
        """Select row `at`, or the nearest there is."""
        rows = self.rows()
        if rows:
            self.table.selected = key_of(rows[max(0, min(len(rows) - 1, at))])
            self.post_message(Selected(self.table.selected))
            self.redraw()

    def move(self, by: int) -> None:
        """Select the row `by` rows further down; the first of those shown if none was."""
        rows = self.rows()
        at = self._position(rows)
        self.select((self.table.top or anchor(rows)) if at is None else at + by)

    def do_row_first(self) -> None:
        """The first row."""
        self.select(0)

    def do_row_last(self) -> None:
        """The last row."""
        self.select(len(self.rows()) - 1)

    def do_let_go(self) -> None:
        """Let go of the row; then of the search; then of the filter."""
        table = self.table
        if table.selected is not None:
            table.selected = None
            self.post_message(Selected(None))
        elif table.search:
            table.search = ""
        elif table.filter_text:
            self.set_filter("")
        self.redraw()

    def do_details(self) -> None:
        """Open the selected row, or the newest that ended."""
        rows = self.rows()
        if rows:
            at = self._position(rows)
            self.post_message(PartitionOpened(rows[anchor(rows) if at is None else at]))

    def jump(self, fits: Callable[[PartitionRow], bool], by: int, nothing: str) -> None:
        """See `Jumping`."""
        rows = self.rows()
        at = next_where([fits(row) for row in rows], self._position(rows), by)
        if at is None:
            self.say(nothing)
        else:
            self.select(at)

    # ------------------------------------------------------------ order, filter, search

    @property
    def sorted_by(self) -> tuple[str, bool]:
        """The order's name, and whether backwards."""
        return self.table.order, self.table.backwards

    def sort_by(self, name: str, *, backwards: bool) -> None:
        """Sort as it was sorted last time; a name that isn't known changes nothing."""
        if name in ORDER:
            self.table.order, self.table.backwards = name, backwards

    def _sort(self, by: int) -> None:
        names = [order.name for order in ORDERS]
        table = self.table
        table.order = names[(names.index(table.order) + by) % len(names)]
        table.backwards = False
        self.redraw()

    def do_sort_left(self) -> None:
        """Sort by the column before."""
        self._sort(-1)

    def do_sort_right(self) -> None:
        """Sort by the next column."""
        self._sort(1)

    def do_reverse(self) -> None:
        """Turn the order round."""
        self.table.backwards = not self.table.backwards
        self.redraw()

    def do_bar(self) -> None:
        """The bar: the bracket alone, or all from the start of the synthesis."""
        self.table.whole = not self.table.whole
        self.redraw()

    @property
    def filter_text(self) -> str:
        """The filter as it was typed."""
        return self.table.filter_text

    def set_filter(self, text: str) -> str:
        """Show only what fits; what is wrong with the filter."""
        self.table.filter, problem = parse_filter(text)
        self.table.filter_text = text.strip()
        self.redraw()
        return problem

    @property
    def search_text(self) -> str:
        """What is searched for."""
        return self.table.search

    def begin_search(self) -> None:
        """Search from the selected row."""
        self._origin = self.table.selected

    def search(self, text: str) -> None:
        """Mark what `text` is found in, and select the first from here on."""
        self.table.search = text
        self.table.selected = self._origin
        rows = self.rows()
        if text and rows:
            at = self._position(rows)
            start = anchor(rows) if at is None else at
            found = next_where([matches(row, text) for row in rows], start - 1, 1)
            if found is not None:
                self.select(found)
        self.redraw()

    def next_match(self, by: int) -> None:
        """See `Searching`."""
        text = self.table.search
        if not text:
            self.say("nothing to search for: / asks")
            return
        self.jump(lambda row: matches(row, text), by, f"{clean(text)}: not found")

    # ------------------------------------------------------------ mouse, clipboard

    def on_click(self, event: events.Click) -> None:
        """Select the row under the pointer, sort by the column; a second click opens the row."""
        head = 1 if self.size.height >= 4 else 0
        if event.y == head:
            self._sort_at(event.x)
            return
        rows = self.rows()
        top = anchor(rows) if self.table.top is None else self.table.top
        line = event.y - head - 1
        if 0 <= line < self._room(self.size.height) and top + line < len(rows):
            self.select(top + line)
            if event.chain == 2:
                self.do_details()

    def _sort_at(self, x: int) -> None:
        shape = shape_for(self.frame, self.rows(), self.table, self.size.width)
        at = shape.name + shape.lead
        if x < shape.name:
            chosen = "job"
        elif x < at:
            chosen = "worker"
        else:
            index = (x - at) // shape.column
            chosen = shape.columns[index].name if index < len(shape.columns) else "newest"
        table = self.table
        table.backwards = not table.backwards if table.order == chosen else False
        table.order = chosen
        self.redraw()

    def copy_text(self) -> str:
        """The selected row as text, a name and a figure after the other."""
        rows = self.rows()
        at = self._position(rows)
        return "" if at is None else row_text(rows[at])
