"""An axis of time and what is painted on it: what a partition did when, as cells of a terminal.

Times are milliseconds from the run's TIMELINE zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from cuzktop.frame import PartitionRow
from cuzktop.tui.rows import PartitionKey, key_of
from cuzktop.tui.widgets.cells import CLASS_GLYPHS, GAP, LEVELS, Line, Span, width_of

KEEP_COLUMNS = 6000  # remembered for each GPU and zoom: more than a screen can scroll through

# what the lock's holder does: its glyph and its style
KINDS = {
    "kernel": (CLASS_GLYPHS["kernel"], "kernel"),
    "barrier": (CLASS_GLYPHS["barrier"], "barrier"),
    "over": (CLASS_GLYPHS["lock_overhead"], "lock_overhead"),
    "held": ("━", "lock"),
}
LIVE_KIND = {
    "ntt_msm_h": "kernel",
    "barrier": "barrier",
    "batch_add": "kernel",
    "tail_msm": "kernel",
    "releasing": "over",
}
Piece = tuple[float, float, str]
Run = tuple[float, float, str, str]  # from, to, glyph, style


# ------------------------------------------------------------------------ what a partition did when


def lock_pieces(row: PartitionRow, now_ms: float, live: str | None = None) -> list[Piece]:
    """What happened under the lock: spans and their kinds; `live` is a holder's kind now."""
    at = row.lock_at_ms
    if at is None:
        return []
    pieces: list[Piece] = []
    lo = at
    for field, kind in (
        ("ntt_msm_h_ms", "kernel"),
        ("barrier_wait_ms", "barrier"),
        ("batch_add_ms", "kernel"),
        ("tail_msm_ms", "kernel"),
    ):
        value: int | None = getattr(row, field)
        if value is None:
            break
        pieces.append((lo, lo + value, kind))
        lo += value
    if row.lock_held_ms is not None:
        until = at + row.lock_held_ms
        if until > lo:
            pieces.append((lo, until, "over" if pieces else "held"))
    elif live is not None:
        pieces.append((lo, max(lo, now_ms), live))
    elif row.state == "failed" and row.bracket_end_ms is not None:
        # A call that fails under the lock prints no end of it: the bracket's is the latest.
        pieces.append((lo, max(lo, float(row.bracket_end_ms)), "held"))
    return pieces


def bracket_runs(row: PartitionRow, now_ms: float) -> list[Run]:
    """A bracket before the lock, under it, and after it."""
    start = row.bracket_start_ms
    if start is None:
        return []
    running = row.state == "gpu"
    end = now_ms if row.bracket_end_ms is None and running else row.bracket_end_ms
    if end is None:
        return []
    lock = row.lock_at_ms
    if lock is None:
        waits = running or row.lock_wait_ms is not None
        return [(start, end, "○" if waits else "─", "lock" if waits else "bracket")]
    lock = min(max(lock, float(start)), float(end))
    held = row.lock_held_ms
    free = float(end) if held is None else min(lock + held, float(end))
    runs: list[Run] = []
    if lock > start:
        runs.append((start, lock, "○", "lock"))
    runs.append((lock, free, "━", "bracket"))
    if end > free:
        runs.append((free, end, "░", "handoff"))
    return runs


@lru_cache(maxsize=1024)
def ended_lock(row: PartitionRow) -> tuple[Piece, ...]:
    """The same of a call that ended, remembered by the row itself."""
    return tuple(lock_pieces(row, 0.0))


@lru_cache(maxsize=1024)
def ended_bracket(row: PartitionRow) -> tuple[Run, ...]:
    """The same of a bracket that closed, remembered by the row itself."""
    return tuple(bracket_runs(row, 0.0))


def synth_end(row: PartitionRow) -> float | None:
    """When the synthesis was done; None while it goes on, or if that isn't known."""
    if row.synth_start_ms is None or row.synth_ms is None:
        return None
    return float(row.synth_start_ms + row.synth_ms)


def lane_end(row: PartitionRow) -> float:
    """When a synthesis' lane is free again: at the pickup; never while it is on its way."""
    if row.pickup_ms is not None:
        return float(row.pickup_ms)
    if row.state in {"synthesizing", "queued"}:
        return math.inf
    ended = synth_end(row)
    return float(row.synth_start_ms or 0) if ended is None else ended


def begun_at(row: PartitionRow) -> float:
    """The instant to jump to for a partition: when it got the lock, or what is nearest to that."""
    for at in (row.lock_at_ms, row.bracket_start_ms, row.pickup_ms, synth_end(row)):
        if at is not None:
            return float(at)
    return float(row.synth_start_ms or 0)


# ------------------------------------------------------------------------------------------- lanes


class Lanes:
    """Which lane each synthesis has: the lowest that was free when it began, kept ever after."""

    __slots__ = ("_lane", "_last")

    def __init__(self) -> None:
        """None began."""
        self._lane: dict[PartitionKey, int] = {}
        self._last: list[float] = []  # when each lane was free again, as far as is known

    def assign(self, rows: Sequence[PartitionRow]) -> dict[PartitionKey, int]:
        """The lane of each row that began to be synthesized."""
        begun = sorted(
            (row for row in rows if row.synth_start_ms is not None),
            key=lambda row: row.synth_start_ms or 0,
        )
        known = {key_of(row): row for row in begun}
        self._lane = {key: lane for key, lane in self._lane.items() if key in known}
        last = [-math.inf] * len(self._last)
        for key, lane in self._lane.items():
            last[lane] = max(last[lane], lane_end(known[key]))
        for key, row in known.items():
            if key in self._lane:
                continue
            start = float(row.synth_start_ms or 0)
            lane = next((at for at, end in enumerate(last) if end <= start), len(last))
            if lane == len(last):
                last.append(-math.inf)
            last[lane] = lane_end(row)
            self._lane[key] = lane
        while last and last[-1] == -math.inf:
            last.pop()
        self._last = last
        return self._lane


# ----------------------------------------------------------------------------------------- painting


@dataclass(frozen=True, slots=True)
class Axis:
    """The window in time: `columns` of `step_ms` each, from column number `first` on."""

    first: int
    step_ms: float
    columns: int

    @property
    def start_ms(self) -> float:
        """The left edge."""
        return self.first * self.step_ms

    @property
    def end_ms(self) -> float:
        """The right edge."""
        return (self.first + self.columns) * self.step_ms

    def column(self, at_ms: float) -> int:
        """The column of an instant, counted from the left edge."""
        return math.floor(at_ms / self.step_ms) - self.first


def paint(runs: Iterable[tuple[float, float, Callable[[int], Line]]], axis: Axis) -> Line:
    """Spans in their order on the axis; each is drawn by a function of its cells."""
    spans: list[Span] = []
    at = 0
    for lo, hi, draw in runs:
        first = max(at, axis.column(lo))
        last = min(axis.columns, max(first + 1, math.ceil(hi / axis.step_ms) - axis.first))
        if hi < axis.start_ms or first >= axis.columns or last <= first:
            continue
        if first > at:
            spans.append((" " * (first - at), "text"))
        spans += draw(last - first)
        at = last
    if at < axis.columns:
        spans.append((" " * (axis.columns - at), "text"))
    return tuple(spans)


def fill(glyph: str, style: str) -> Callable[[int], Line]:
    """Draws nothing but `glyph`."""
    return lambda cells: ((glyph * cells, style),)


class LockPaint:
    """One GPU's lock, a column at a time; columns that can't change any more are remembered."""

    __slots__ = ("_cells", "_step_ms")

    def __init__(self) -> None:
        """Nothing was painted."""
        self._cells: dict[int, tuple[str, str]] = {}
        self._step_ms = 0.0

    def draw(self, pieces: Iterable[Piece], axis: Axis, settled_ms: float) -> list[tuple[str, str]]:
        """Glyph and style of each column; what lies before `settled_ms` is painted only once."""
        if axis.step_ms != self._step_ms or len(self._cells) > KEEP_COLUMNS:
            self._cells = {}
            self._step_ms = axis.step_ms
        cells = self._cells
        step = axis.step_ms
        missing = [c for c in range(axis.first, axis.first + axis.columns) if c not in cells]
        if not missing:
            return [cells[c] for c in range(axis.first, axis.first + axis.columns)]
        lowest, highest = missing[0], missing[-1]
        spent: dict[int, dict[str, float]] = {}
        for lo, hi, kind in pieces:
            first = max(lowest, math.floor(lo / step))
            last = min(highest, math.floor(hi / step))
            for c in range(first, last + 1):
                covered = min(hi, (c + 1) * step) - max(lo, c * step)
                if covered > 0:
                    column = spent.setdefault(c, {})
                    column[kind] = column.get(kind, 0.0) + covered
        painted: list[tuple[str, str]] = []
        for c in range(axis.first, axis.first + axis.columns):
            cell = cells.get(c)
            if cell is None:
                cell = (" ", "text")
                kinds = spent.get(c)
                if kinds is not None:
                    most = max(kinds, key=kinds.__getitem__)
                    # Less than half of a column: the lock was free for the most of it.
                    small = sum(kinds.values()) * 2 < step
                    cell = ("▪", KINDS[most][1]) if small else KINDS[most]
                if (c + 1) * step < settled_ms:
                    cells[c] = cell
            painted.append(cell)
        return painted


def resampled(
    history: Sequence[float | None], end_ms: float, axis: Axis
) -> list[float | bool | None]:
    """A history of seconds on the axis: the mean of each column.

    `end_ms` is the end of its last second. None where nothing was read, False beyond its ends.
    """
    size = len(history)
    begin = end_ms / 1000.0 - size
    out: list[float | bool | None] = []
    seconds = axis.step_ms / 1000.0
    at = axis.start_ms / 1000.0 - begin
    for _ in range(axis.columns):
        first = math.floor(at + 1e-9)
        last = max(first + 1, math.ceil(at + seconds - 1e-9))
        at += seconds
        if last <= 0 or first >= size:
            out.append(False)
            continue
        read = [share for share in history[max(0, first) : last] if share is not None]
        out.append(sum(read) / len(read) if read else None)
    return out


def graph_row(values: Sequence[float | bool | None]) -> str:
    """One row of a 0–100 % graph; gaps are dots, what lies outside is blank."""
    return "".join(
        " "
        if value is False
        else GAP
        if value is None
        else LEVELS[min(8, max(1 if value > 0 else 0, int(value * 0.08 + 0.5)))]
        for value in values
    )


def overlay(line: Line, first: int, last: int, style: str) -> Line:
    """`line` with its cells `first` … `last` − 1 in `style`."""
    spans: list[Span] = []
    at = 0
    for text, old in line:
        end = at + width_of(text)
        lo, hi = max(first, at), min(last, end)
        if lo >= hi or width_of(text) != len(text):
            spans.append((text, old))
        else:
            if lo > at:
                spans.append((text[: lo - at], old))
            spans.append((text[lo - at : hi - at], style))
            if hi < end:
                spans.append((text[hi - at :], old))
        at = end
    return tuple(spans)
