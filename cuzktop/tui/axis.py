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

    __slots__ = ("_lane",)

    def __init__(self) -> None:
        """None began."""
        self._lane: dict[PartitionKey, int] = {}

    def assign(self, rows: Sequence[PartitionRow]) -> dict[PartitionKey, int]:
        """The lane of each row that began to be synthesized."""
        known = {key_of(row): row for row in rows if row.synth_start_ms is not None}
        if known.keys() == self._lane.keys():
            return self._lane
        self._lane = {key: lane for key, lane in self._lane.items() if key in known}
        last = [-math.inf] * (1 + max(self._lane.values(), default=-1))
        for key, lane in self._lane.items():
            last[lane] = max(last[lane], lane_end(known[key]))
        new = [
            (row.synth_start_ms or 0, key) for key, row in known.items() if key not in self._lane
        ]
        new.sort(key=lambda item: item[0])
        for start, key in new:
            lane = next((at for at, end in enumerate(last) if end <= start), len(last))
            if lane == len(last):
                last.append(-math.inf)
            last[lane] = lane_end(known[key])
            self._lane[key] = lane
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


@lru_cache(maxsize=8)
def _slices(axis: Axis, end_ms: float, size: int) -> tuple[tuple[int, int], ...]:
    """The bins of each column of `axis`: a history of `size` seconds that ends at `end_ms`.

    (0, 0) where a column lies outside.
    """
    seconds = axis.step_ms / 1000.0
    start = axis.start_ms / 1000.0 - (end_ms / 1000.0 - size)
    out: list[tuple[int, int]] = []
    for column in range(axis.columns):
        at = start + column * seconds
        first = math.floor(at + 1e-9)
        last = max(first + 1, math.ceil(at + seconds - 1e-9))
        out.append((max(0, first), min(size, last)) if last > 0 and first < size else (0, 0))
    return tuple(out)


# Per cent, rounded up, to a cell: what isn't 0 shows at least the least there is.
_CELLS = "".join(LEVELS[max(min(1, share), int(share * 0.08 + 0.5))] for share in range(101))


def _level(share: float | None) -> str:
    return GAP if share is None else _CELLS[min(100, math.ceil(share))]


def graph_row(history: Sequence[float | None], end_ms: float, axis: Axis) -> str:
    """A 0–100 % history of seconds on the axis: each column shows the mean of its seconds.

    `end_ms` is the end of the last second. Gaps are dots; what lies outside is blank.
    """
    slices = _slices(axis, end_ms, len(history))
    if axis.step_ms <= 1000.0:
        seen = [first for first, last in slices if last]
        if not seen:
            return " " * axis.columns
        levels = [_level(share) for share in history[seen[0] : seen[-1] + 1]]
        return "".join([levels[first - seen[0]] if last else " " for first, last in slices])
    cells: list[str] = []
    for first, last in slices:
        if not last:
            cells.append(" ")
            continue
        read = [share for share in history[first:last] if share is not None]
        cells.append(_level(sum(read) / len(read) if read else None))
    return "".join(cells)


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
