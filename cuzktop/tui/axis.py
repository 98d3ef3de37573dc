"""An axis of time and what is painted on it: what a partition did when, as cells of a terminal.

Times are milliseconds from the run's TIMELINE zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from cuzktop.dataclass import NamedTuple, dataclass
from cuzktop.frame import Frame, PartitionRow
from cuzktop.tui.rows import PartitionKey, key_of
from cuzktop.tui.widgets.cells import CLASS_GLYPHS, GAP, LEVELS, Line, Span, width_of
from cuzktop.units import duration

STALL_MS = 2000.0  # a lock that nobody has for so long: more than a call's own CPU work
KEEP_COLUMNS = 6000  # remembered for each GPU and zoom: more than a screen can scroll through

# what the lock's holder does: its glyph and its style
KINDS = {
    "kernel": (CLASS_GLYPHS["kernel"], "kernel"),
    "barrier": (CLASS_GLYPHS["barrier"], "barrier"),
    "over": (CLASS_GLYPHS["lock_overhead"], "lock_overhead"),
    "held": ("━", "lock"),
    "unknown": ("?", "muted"),
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


def clock_ms(frame: Frame) -> float | None:
    """Milliseconds between the run's clock and the time of day; None if that isn't known."""
    at = frame.at
    if at is None or len(at) < 19:
        return None
    try:
        hours, minutes, seconds = int(at[11:13]), int(at[14:16]), float(at[17:].rstrip("Z"))
    except ValueError:
        return None
    return 3_600_000.0 * hours + 60_000.0 * minutes + 1000.0 * seconds - frame.now_ms


def time_of(frame: Frame, at_ms: float, *, digits: int = 0) -> str:
    """An instant as the time of day where the log tells it, else from the run's start."""
    clock = clock_ms(frame)
    if clock is None:
        return duration(at_ms)
    seconds = (at_ms + clock) / 1000.0 % 86_400
    if not digits:
        seconds += 1e-6
    whole = int(seconds)
    text = f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
    return text + f".{int((seconds - whole) * 1000):03d}" if digits else text


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


def unplaced(row: PartitionRow, now_ms: float) -> tuple[float, float] | None:
    """The bracket of a call of which isn't known when it held the lock; None if it is known.

    An open call's bracket goes on.
    """
    if row.lock_at_ms is not None or row.bracket_start_ms is None:
        return None
    if row.bracket_end_ms is not None:
        return float(row.bracket_start_ms), float(row.bracket_end_ms)
    return (float(row.bracket_start_ms), now_ms) if row.state == "gpu" else None


def mixed_gpu(frame: Frame) -> int | None:
    """The number under which calls of several GPUs are counted that can't be told apart, if any."""
    window = frame.gpus[0].window if len(frame.gpus) == 1 else None
    return frame.gpus[0].gpu if window is not None and window.mixed else None


def waits(frame: Frame, row: PartitionRow) -> bool:
    """Whether a call is known not to have had its GPU's lock yet."""
    return any(
        (one.job, one.partition) == (row.job, row.partition)
        for gpu in frame.gpus
        if row.gpu in {gpu.gpu, None}
        for one in gpu.lock.waiting
    )


def outside(
    span: tuple[float, float], others: Iterable[tuple[float, float]]
) -> list[tuple[float, float]]:
    """What of a span none of the others covers, in no particular order."""
    left = [span]
    for lo, hi in others:
        if lo < span[1] and hi > span[0]:
            cut = [piece for a, b in left for piece in ((a, min(b, lo)), (max(a, hi), b))]
            left = [(a, b) for a, b in cut if a < b]
    return left


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


class Stall(NamedTuple):
    """A time in which nobody held a GPU's lock, between two who did."""

    start_ms: float
    end_ms: float
    gpu: int


def stalls(rows: Iterable[PartitionRow]) -> list[Stall]:
    """The times of `STALL_MS` and more in which a GPU's lock was free, in their order.

    A call of which isn't known when it held the lock may have done so in all of its bracket.
    """
    held: dict[int, list[tuple[float, float]]] = {}
    for row in rows:
        if row.gpu is None:
            continue
        if (span := unplaced(row, math.inf)) is not None:
            held.setdefault(row.gpu, []).append(span)
        if (at := row.lock_at_ms) is None:
            continue
        until = math.inf if row.state == "gpu" else float(row.bracket_end_ms or at)
        if row.lock_held_ms is not None:
            until = at + row.lock_held_ms
        held.setdefault(row.gpu, []).append((at, until))
    found: list[Stall] = []
    for gpu, spans in held.items():
        spans.sort()
        free = spans[0][1]
        for start, end in spans[1:]:
            if start - free >= STALL_MS:
                found.append(Stall(free, start, gpu))
            free = max(free, end)
    return sorted(found)


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


Cell = tuple[str, str]
BLANK: Cell = (" ", "text")


class LockPaint:
    """One GPU's lock, a column at a time; columns that can't change any more are remembered."""

    __slots__ = ("_done", "_first", "_step_ms")

    def __init__(self) -> None:
        """Nothing was painted."""
        self._done: list[Cell] = []  # of the columns from `_first` on
        self._first = 0
        self._step_ms = 0.0

    def draw(self, pieces: Sequence[Piece], axis: Axis, settled_ms: float) -> list[Cell]:
        """Glyph and style of each column; what lies before `settled_ms` is painted only once."""
        done = self._done
        known = self._first + len(done)
        if (
            axis.step_ms != self._step_ms
            or not self._first <= axis.first <= known
            or len(done) > KEEP_COLUMNS
        ):
            done = self._done = []
            self._step_ms, self._first, known = axis.step_ms, axis.first, axis.first
        end = axis.first + axis.columns
        fresh = self._paint(pieces, known, end)
        settled = math.floor(settled_ms / axis.step_ms) - known
        cells = done[axis.first - self._first : end - self._first] + fresh
        if settled > 0:
            done += fresh[:settled]
        return cells

    def _paint(self, pieces: Sequence[Piece], known: int, end: int) -> list[Cell]:
        """The columns from `known` up to `end`."""
        step = self._step_ms
        cells = [BLANK] * max(0, end - known)
        spent: dict[int, dict[str, float]] = {}
        begin = known * step
        for lo, hi, kind in pieces:
            if hi <= begin:
                continue
            for c in range(max(known, math.floor(lo / step)), min(end - 1, int(hi / step)) + 1):
                covered = min(hi, (c + 1) * step) - max(lo, c * step)
                if covered > 0:
                    column = spent.setdefault(c, {})
                    column[kind] = column.get(kind, 0.0) + covered
        for c, kinds in spent.items():
            most = max(kinds, key=kinds.__getitem__)
            # Less than half of a column: the lock was free for the most of it.
            small = sum(kinds.values()) * 2 < step and most != "unknown"
            cells[c - known] = ("▪", KINDS[most][1]) if small else KINDS[most]
        return cells


# Per cent, rounded up, to a cell: what isn't 0 shows at least the least there is.
_CELLS = "".join(LEVELS[max(min(1, share), int(share * 0.08 + 0.5))] for share in range(101))


def _levels(shares: Sequence[float | None]) -> list[str]:
    ceil, full = math.ceil, LEVELS[-1]
    return [
        GAP if share is None else _CELLS[ceil(share)] if share <= 100 else full for share in shares
    ]


@lru_cache(maxsize=4)
def _bins(start_ms: float, step_ms: float, columns: int) -> tuple[int, ...]:
    """The second that each column lies in, counted from `start_ms` before the first column."""
    return tuple([int((start_ms + column * step_ms + 1e-6) // 1000.0) for column in range(columns)])


def graph_row(history: Sequence[float | None], end_ms: float, axis: Axis) -> str:
    """A 0–100 % history of seconds on the axis: each column shows the mean of its seconds.

    `end_ms` is the end of the last second. Gaps are dots; what lies outside is blank.
    """
    size, step = len(history), axis.step_ms
    start = axis.start_ms - (end_ms - 1000.0 * size)  # from the history's beginning
    if step <= 1000.0:
        bins = _bins(start, step, axis.columns)
        first, last = max(0, bins[0]), min(size, bins[-1] + 1)
        levels = _levels(history[first:last])
        return "".join([levels[at - first] if first <= at < last else " " for at in bins])
    means: list[float | None] = []
    blank_before = blank_after = 0
    for column in range(axis.columns):
        lo = int((start + column * step + 1e-6) // 1000.0)
        hi = int((start + (column + 1) * step + 999.0) // 1000.0)
        if hi <= 0:
            blank_before += 1
        elif lo >= size:
            blank_after += 1
        else:
            read = [share for share in history[max(0, lo) : hi] if share is not None]
            means.append(sum(read) / len(read) if read else None)
    return " " * blank_before + "".join(_levels(means)) + " " * blank_after


def kernel_row(
    coarse: str,
    pieces: Sequence[Piece],
    vague: Sequence[tuple[float, float]],
    axis: Axis,
    now: float,
) -> str:
    """A graph whose cells show the calls' own kernels, where these are known.

    `coarse` is the same of whole seconds; it stays before the first of `pieces`, in `vague`
    spans, of which no call's kernels are known, and after `now`.
    """
    if not pieces:
        return coarse
    step, cells = axis.step_ms, list(coarse)
    spent = [0.0] * axis.columns
    for lo, hi, kind in pieces:
        if kind != "kernel":
            continue
        for c in range(max(0, axis.column(lo)), min(axis.columns - 1, axis.column(hi)) + 1):
            begin = axis.start_ms + c * step
            spent[c] += max(0.0, min(hi, begin + step) - max(lo, begin))
    first = max(0, axis.column(min(lo for lo, _, _ in pieces)))
    last = min(axis.columns - 1, axis.column(now))
    own = set(range(first, last + 1))
    for lo, hi in vague:
        own.difference_update(range(axis.column(lo), axis.column(hi) + 1))
    for c in own:
        length = min(step, now - axis.start_ms - c * step)
        if length > 0:
            cells[c] = _levels([min(100.0, 100.0 * spent[c] / length)])[0]
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
