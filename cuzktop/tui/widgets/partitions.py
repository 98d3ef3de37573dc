"""Where each finished partition's time went: a table, newest first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import ClassVar

from textual import events
from textual.binding import BindingType

from cuzktop.dataclass import dataclass
from cuzktop.frame import Frame, PartitionRow
from cuzktop.tui.messages import PartitionOpened, Selected
from cuzktop.tui.rows import PartitionKey, key_of, next_where
from cuzktop.tui.widgets.cells import WIDE, Line, Span, clip, fit, label, right
from cuzktop.tui.widgets.empty import reason, sentence
from cuzktop.tui.widgets.jobs import CELLS
from cuzktop.tui.widgets.lines import Lines
from cuzktop.units import count, duration

MARKS = {"exact": "=", "inferred": "~", "none": " "}
LEAST_NAME = 18  # cells of "porep-1000-40021/3"; below 78 the id is cut to
SHORT_NAME = 12  # cells, which still tell jobs apart


@dataclass(frozen=True, slots=True)
class Column:
    """One stage, a field of the rows. `rank` says which stay when it gets narrow: 1 the longest."""

    name: str
    short: str
    long: str
    rank: int
    style: str = "text"

    def value(self, row: PartitionRow) -> int | None:
        """What a row has of it."""
        found: int | None = getattr(row, self.name)
        return found


COLUMNS: tuple[Column, ...] = (
    Column("synth_ms", "synth", "synthesis", 2),
    Column("queue_ms", "queue", "queue", 5),
    Column("pre_lock_cpu_ms", "prelk", "pre-lock", 12),
    Column("lock_wait_ms", "lockw", "lock wait", 4),
    Column("ntt_msm_h_ms", "ntt+H", "ntt+H", 6, "kernel"),
    Column("barrier_wait_ms", "barr", "barrier", 3, "barrier"),
    Column("batch_add_ms", "batch", "batch add", 7, "kernel"),
    Column("tail_msm_ms", "tail", "tail MSM", 8, "kernel"),
    Column("kernel_ms", "kern", "kernel", 10, "kernel"),
    Column("lock_held_ms", "held", "lock held", 11),
    Column("prep_msm_ms", "prep", "prep_msm", 13),
    Column("b_g2_msm_ms", "b_g2", "b_g2", 9),
    Column("bracket_ms", "brckt", "bracket", 1),
)


@dataclass(frozen=True, slots=True)
class Shape:
    """Which columns there are, and how wide, at one width of the panel."""

    columns: tuple[Column, ...]
    column: int
    name: int
    gpu: bool
    words: bool


@lru_cache(maxsize=8)
def shape_of(width: int, *, several: bool) -> Shape:
    """The columns that fit into `width` cells beside a job id that can be told apart."""
    words = width >= WIDE
    column = 10 if words else 6
    gpu = several and width >= 100  # a worker's number tells its GPU well enough
    fixed = 3 + (4 if gpu else 0) + (12 if words else 3)
    room = width - fixed - (LEAST_NAME if width >= 78 else SHORT_NAME)
    most = max(0, room // column)
    kept = {c.name for c in sorted(COLUMNS, key=lambda c: c.rank)[:most]}
    columns = tuple(c for c in COLUMNS if c.name in kept)
    name = width - fixed - column * len(columns)
    return Shape(columns, column, min(name, 46), gpu, words)


def draw_partitions(
    frame: Frame,
    width: int,
    height: int,
    *,
    top: int = 0,
    selected: PartitionKey | None = None,
    focused: bool = False,
) -> list[Line]:
    """Column titles, then one row a partition from `top` on; `selected` is marked."""
    if width <= 0 or height <= 0:
        return []
    several = len(frame.gpus) > 1
    lines = [_head(width, several=several, focused=focused)]
    rows = frame.recent
    if not rows:
        return lines + sentence(reason(frame, "no partition has finished yet"), width, height - 1)
    for row in rows[top : top + height - 1]:
        line = _row(row, width, several=several)
        if selected is not None and key_of(row) == selected:
            line = tuple((text, "selected") for text, _style in line)
        lines.append(line)
    return lines


@lru_cache(maxsize=8)
def _head(width: int, *, several: bool, focused: bool) -> Line:
    shape = shape_of(width, several=several)
    name = "PARTITION" if shape.name < 26 else "PARTITIONS, newest first"
    style = "key" if focused else "title"
    head: list[Span] = [(fit(name, shape.name), style), (right("w", 3), "muted")]
    if shape.gpu:
        head.append((right("gpu", 4), "muted"))
    for column in shape.columns:
        words = column.long if shape.words else column.short
        head.append((right(words, shape.column), "muted"))
    if shape.words:
        head.append(("  state", "muted"))
    return clip(head, width)


_STAGES = tuple(column.name for column in COLUMNS)
_SHOWN = attrgetter(
    "job",
    "partition",
    "attempt",
    "state",
    "worker",
    "gpu",
    "derived",
    "attribution",
    *_STAGES,
)


def _row(row: PartitionRow, width: int, *, several: bool) -> Line:
    """One partition's line; remembered by what it shows, for few change once they are there."""
    return _line(*_SHOWN(row), width=width, several=several)


@lru_cache(maxsize=128)  # a screen full
def _line(
    job: str,
    partition: int | None,
    attempt: int,
    state: str,
    worker: int | None,
    gpu: int | None,
    derived: tuple[str, ...],
    attribution: str,
    *values: int | None,
    width: int,
    several: bool,
) -> Line:
    shape = shape_of(width, several=several)
    glyph, style, _name = CELLS.get(state, ("?", "warn", state))
    spans: list[Span] = [
        (label(job, partition, shape.name, attempt), "text"),
        (right(count(worker), 3), "muted"),
    ]
    if shape.gpu:
        spans.append((right(count(gpu), 4), "muted"))
    figures = dict(zip(_STAGES, values, strict=True))
    for column in shape.columns:
        value = figures[column.name]
        mark = "~" if value is not None and column.name in derived else ""
        spans.append(
            (
                right(mark + duration(value), shape.column),
                "muted" if value is None else column.style,
            )
        )
    mark = MARKS.get(attribution, " ")
    if shape.words:
        spans += [(f"  {glyph} {fit(state, 7)}", style), (f"{mark}", "muted")]
    else:
        spans += [(f" {glyph}", style), (mark, "muted")]
    return clip(spans, width)


class PartitionsPanel(Lines, can_focus=True):
    """Question 5: where each partition's time went. Follows the newest until a row is selected."""

    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002 - Textual's word
        """Start at the newest partition with nothing selected."""
        super().__init__(ascii_only=ascii_only, id=id)
        self.selected: PartitionKey | None = None
        self.top = 0

    def made_of(self, frame: Frame) -> object:
        """See `Lines`."""
        if not frame.recent:
            return frame
        return frame.recent, len(frame.gpus) > 1, frame.has_timing, frame.has_timeline

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        """See `draw_partitions`."""
        self._keep_in_view(frame.recent, height - 1)
        return draw_partitions(
            frame,
            width,
            height,
            top=self.top,
            selected=self.selected,
            focused=self.has_focus and self.selected is not None,
        )

    def _position(self, rows: Sequence[PartitionRow]) -> int | None:
        if self.selected is None:
            return None
        return next((at for at, row in enumerate(rows) if key_of(row) == self.selected), None)

    def selected_row(self) -> PartitionRow | None:
        """The row that is selected, if it is still kept."""
        at = self._position(self.frame.recent)
        return None if at is None else self.frame.recent[at]

    def _keep_in_view(self, rows: Sequence[PartitionRow], room: int) -> None:
        at = self._position(rows)
        if at is None:
            self.selected, self.top = None, 0
            return
        room = max(1, room)
        self.top = max(0, min(max(self.top, at - room + 1), at, max(0, len(rows) - room)))

    def jump(self, fits: Callable[[PartitionRow], bool], by: int) -> bool:
        """Select the next row in the direction of `by` that fits; whether there is one."""
        rows = self.frame.recent
        at = next_where([fits(row) for row in rows], self._position(rows), by)
        if at is not None:
            self.select(at)
        return at is not None

    def move(self, by: int) -> None:
        """Select the row `by` rows further down; the first one if none was selected."""
        rows = self.frame.recent
        if not rows:
            return
        at = self._position(rows)
        self.select(0 if at is None else at + by)

    def select(self, at: int) -> None:
        """Select row `at`, or the nearest there is; a negative one counts from the end."""
        rows = self.frame.recent
        if rows:
            at = max(0, min(len(rows) - 1, at))
            self.selected = key_of(rows[at])
            self.post_message(Selected(self.selected))
            self.redraw()

    def let_go(self) -> bool:
        """Follow the newest again; whether anything was selected."""
        if self.selected is None:
            return False
        self.selected, self.top = None, 0
        self.post_message(Selected(None))
        self.redraw()
        return True

    def open_selected(self) -> None:
        """Ask for the figures of the selected row, or of the newest."""
        rows = self.frame.recent
        if rows:
            at = self._position(rows)
            self.post_message(PartitionOpened(rows[at or 0]))

    def on_click(self, event: events.Click) -> None:
        """Select the row under the pointer; a second click opens it."""
        at = self.top + event.y - 1
        if event.y >= 1 and at < len(self.frame.recent):
            self.select(at)
            if event.chain == 2:
                self.open_selected()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Move down."""
        event.stop()
        self.move(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Move up."""
        event.stop()
        self.move(-1)
