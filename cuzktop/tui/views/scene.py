"""The timeline's picture: which tracks there are, and what stands in each of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby

from cuzktop.dataclass import dataclass
from cuzktop.frame import Frame, Gpu, PartitionRow
from cuzktop.tui.axis import (
    KINDS,
    LIVE_KIND,
    Axis,
    Lanes,
    LockPaint,
    Piece,
    Run,
    bracket_runs,
    clock_ms,
    ended_bracket,
    ended_lock,
    fill,
    graph_row,
    kernel_row,
    lane_end,
    lock_pieces,
    mixed_gpu,
    outside,
    overlay,
    paint,
    synth_end,
    time_of,
    unplaced,
    waits,
)
from cuzktop.tui.rows import PartitionKey, key_of, row_of
from cuzktop.tui.widgets.activity import Series, latest_of, unowned_since
from cuzktop.tui.widgets.cells import (
    CLASS_TITLES,
    LEVELS,
    Line,
    Span,
    clip,
    fit,
    label,
    line_width,
    right,
    title,
    width_of,
)
from cuzktop.tui.widgets.empty import no_shares, reason, sentence
from cuzktop.tui.widgets.legend import Sign, legend
from cuzktop.tui.widgets.syntheses import LATE
from cuzktop.units import age, duration, percent

ZOOMS_MS = (20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000)  # a column
ZOOM = 4  # the one to begin with: half a minute in 80 columns, stages of a second can be seen
GUTTER, NARROW_GUTTER = 11, 5
FIGURE = 4  # cells at the right for a track's figure now
NARROW = 50  # cells below which tracks' names are short
SETTLED_MS = 20_000.0  # what is older doesn't change any more: whose lines are whose is known
TICKS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
OUT_OF_ORDER_MS = 120_000.0
STRIDES = 16  # steps in which the window follows the present across its width
TICK_CELLS = 12  # between two times on the axis, at least


@dataclass(frozen=True, slots=True)
class Track:
    """One row of the picture: a GPU's lock, a worker, a graph, the count, or a lane."""

    kind: str  # lock, worker, kernel, nvml, power, count, lane
    gpu: int | None = None
    index: int = 0  # worker or lane


def tracks_for(frame: Frame, room: int, lanes: int) -> list[Track]:
    """The tracks that fit into `room` rows: the most telling kinds first, then in their order."""
    gpus = len(frame.gpus)
    workers = sum(len(gpu.workers) for gpu in frame.gpus)
    # Where no card was read, one line says why, and not one for each.
    read = any(
        share is not None
        for gpu in frame.gpus
        if gpu.nvml is not None
        for share in (*gpu.nvml.util_history, *gpu.nvml.power_history)
    )
    wanted = dict.fromkeys(("lock", "count", "worker", "nvml", "kernel", "power"), 0)
    left = room
    shown_lanes = 0
    for kind, rows in (
        ("lock", gpus),
        ("count", 1 if lanes else 0),
        ("worker", workers),
        ("lane", min(lanes, 5)),
        ("nvml", gpus if read else min(1, gpus)),
        ("kernel", gpus),
        ("lane", min(lanes, 12)),
        ("power", gpus if read else 0),
        ("lane", lanes),
    ):
        if kind == "lane":
            more = min(left, max(0, rows - shown_lanes))
            shown_lanes += more
            left -= more
        elif kind == "lock" or rows <= left:
            wanted[kind] = rows
            left -= min(left, rows)
    tracks: list[Track] = []
    for gpu in frame.gpus:
        tracks.append(Track("lock", gpu.gpu))
        if wanted["worker"]:
            tracks += [Track("worker", gpu.gpu, worker) for worker in gpu.workers]
        tracks += [
            Track(kind, gpu.gpu)
            for kind in ("kernel", "nvml", "power")
            if wanted[kind] and (read or kind == "kernel")
        ]
    if wanted["nvml"] and not read:
        tracks.append(Track("nvml", frame.gpus[0].gpu))
    if wanted["count"]:
        tracks.append(Track("count"))
    return tracks + [Track("lane", None, lane) for lane in range(shown_lanes)]


# ------------------------------------------------------------------------------------------- state


@dataclass(slots=True)
class Scroll:
    """Where the user is: zoom, window, cursor, track."""

    zoom: int = ZOOM
    last: int | None = None  # the column number after the window's last; None follows
    at_ms: float | None = None  # the cursor
    track: int = 0
    selected: PartitionKey | None = None

    @property
    def step_ms(self) -> float:
        """Milliseconds a column."""
        return float(ZOOMS_MS[self.zoom])


class Memory:
    """What is kept from one picture to the next, to paint less."""

    def __init__(self) -> None:
        """Nothing."""
        self.lanes = Lanes()
        self.locks: dict[int, LockPaint] = {}
        self.now_ms = -math.inf
        self.run = -1

    def look(self, frame: Frame) -> None:
        """Forget all if time went back or the daemon was started anew."""
        if frame.now_ms < self.now_ms - 1000 or frame.run != self.run:
            self.lanes, self.locks = Lanes(), {}
        self.now_ms, self.run = frame.now_ms, frame.run

    def lock(self, gpu: int) -> LockPaint:
        """A GPU's paint."""
        return self.locks.setdefault(gpu, LockPaint())


def gutter_of(width: int) -> int:
    """Cells at the left for the tracks' names."""
    return GUTTER if width >= NARROW else min(NARROW_GUTTER, max(0, width - 1))


def figure_of(width: int) -> int:
    """Cells at the right for the tracks' figures, where the present is."""
    return FIGURE if width >= NARROW else 0


def axis_of(frame: Frame, width: int, scroll: Scroll) -> Axis:
    """The window in time at a width: up to now, or where the user stays."""
    columns = max(1, width - gutter_of(width) - figure_of(width))
    last = scroll.last
    if last is None:
        # The window moves in steps: in between only what happens now has to be drawn anew.
        stride = max(1, columns // STRIDES)
        last = (math.floor(frame.now_ms / scroll.step_ms) // stride + 1) * stride
    return Axis(last - columns, scroll.step_ms, columns)


def rows_in(frame: Frame, axis: Axis) -> list[PartitionRow]:
    """Partitions of which something lies in the window, those on their way first."""
    rows = [
        row
        for row in frame.in_flight
        if row.synth_start_ms is None or row.synth_start_ms < axis.end_ms
    ]
    start = axis.start_ms
    for row in frame.recent:
        end = row.bracket_end_ms
        if end is None:
            end = row.pickup_ms if row.pickup_ms is not None else int(synth_end(row) or 0)
        if end < start - OUT_OF_ORDER_MS:
            break  # they come in the order of their ends, but for those that ended out of turn
        if end >= start and (row.synth_start_ms or 0) < axis.end_ms:
            rows.append(row)
    return rows


# ---------------------------------------------------------------------------------------- drawing


def draw_timeline(
    frame: Frame,
    width: int,
    height: int,
    *,
    scroll: Scroll | None = None,
    memory: Memory | None = None,
    focused: bool = True,
) -> list[Line]:
    """Title, axis, tracks, and what held under the cursor."""
    if width <= 0 or height <= 0:
        return []
    scroll = Scroll() if scroll is None else scroll
    memory = Memory() if memory is None else memory
    memory.look(frame)
    axis = axis_of(frame, width, scroll)
    lines: list[Line] = []
    if height >= 3:
        lines.append(_title(frame, axis, scroll, width, focused=focused))
    if not frame.gpus and not frame.in_flight and not frame.recent:
        why = reason(frame, "no partition has begun yet", brief=False)
        lines += sentence(why, width, height - len(lines))
        return lines or [clip(((why, "muted"),), width)]
    if height >= 4:
        lines.append(clip(((" " * gutter_of(width), "text"), *_ticks(frame, axis)), width))
    foot = foot_rows(height)
    room = height - len(lines) - foot
    rows = rows_in(frame, axis)
    lanes = memory.lanes.assign([*frame.in_flight, *frame.recent])
    scene = Scene(frame, axis, rows, lanes, memory)
    tracks, first = shown_tracks(frame, room, scroll, scene.lane_count)
    chosen = row_of(rows, scroll.selected)
    body = [
        _track(scene, track, scroll, width, chosen=chosen, focused=at == scroll.track)
        for at, track in enumerate(tracks, first)
    ]
    hidden = scene.lane_count - sum(track.kind == "lane" for track in tracks)
    if hidden > 0 and body and tracks[-1].kind == "lane":
        gutter = gutter_of(width)
        more = f"+{hidden} more" if gutter >= GUTTER else f"+{hidden}"
        body[-1] = ((fit(more, gutter), "muted"), *body[-1][1:])
    lines += body
    lines += [((" " * width, "text"),)] * (height - len(lines) - foot)
    if foot:
        lines += _foot(scene, scroll, width, foot)
    return lines[:height]


def _track(
    scene: Scene,
    track: Track,
    scroll: Scroll,
    width: int,
    *,
    chosen: PartitionRow | None,
    focused: bool,
) -> Line:
    """A track with its name and its figure; the cursor and the `chosen` partition marked."""
    line = scene.draw(track)
    name_style = "strong" if track.kind == "lock" else "muted"
    if chosen is not None:
        line = scene.marked(line, track, chosen)
    if scroll.at_ms is not None:
        cursor = scene.axis.column(scroll.at_ms)
        if 0 <= cursor < scene.axis.columns:
            line = overlay(line, cursor, cursor + 1, "find")
        if focused:
            name_style = "key"
    spans: list[Span] = [(scene.name(track, gutter_of(width)), name_style), *line]
    if figures := figure_of(width):
        spans.append((right(scene.figure(track), figures), "muted"))
    return tuple(spans)


def foot_rows(height: int) -> int:
    """Rows under the tracks for what the cursor meets, or the legend."""
    return 2 if height >= 12 else 1 if height >= 7 else 0


def shown_tracks(
    frame: Frame,
    room: int,
    scroll: Scroll,
    lanes: int,
) -> tuple[list[Track], int]:
    """The tracks that are seen, and the place of the first; the chosen one is among them."""
    tracks = tracks_for(frame, room, lanes)
    if len(tracks) <= room:
        return tracks, 0
    first = max(0, min(scroll.track - room + 1, len(tracks) - room))
    return tracks[first : first + room], first


def _title(frame: Frame, axis: Axis, scroll: Scroll, width: int, *, focused: bool) -> Line:
    step = f"{axis.step_ms:.0f} ms" if axis.step_ms < 1000 else f"{axis.step_ms / 1000:.0f} s"
    detail = f"{step} a column, {age(axis.columns * axis.step_ms)} in all"
    end = "the log's end" if frame.source.old else "live"
    if scroll.last is not None:
        behind = frame.present_ms - axis.end_ms
        end = f"held, {age(behind)} ago; G follows" if behind >= 1000 else "held; G follows"
    return title("TIMELINE", width, detail=detail, end=end, focused=focused)


def _ticks(frame: Frame, axis: Axis) -> Line:
    """Times under which their columns begin."""
    least = TICK_CELLS * axis.step_ms / 1000.0
    every = 1000.0 * next((tick for tick in TICKS_S if tick >= least), TICKS_S[-1])
    clock = clock_ms(frame) or 0.0
    cells = [" "] * axis.columns
    number = math.ceil((axis.start_ms + clock) / every)
    free = 0
    while True:
        at_ms = number * every - clock
        number += 1
        column = axis.column(at_ms)
        if column >= axis.columns:
            break
        if column < free:
            continue
        text = "╵" + time_of(frame, at_ms, digits=0 if every >= 1000 else 1)
        if column + len(text) <= axis.columns:
            cells[column : column + len(text)] = text
            free = column + len(text) + 1
    line: Line = (("".join(cells), "muted"),)
    now = axis.column(frame.now_ms)
    if 0 <= now < axis.columns and cells[now] == " ":
        line = ((line[0][0][:now], "muted"), ("▾", "key"), (line[0][0][now + 1 :], "muted"))
    return line


class Scene:
    """All that tracks are drawn from, for one picture."""

    def __init__(
        self,
        frame: Frame,
        axis: Axis,
        rows: Sequence[PartitionRow],
        lanes: dict[PartitionKey, int],
        memory: Memory,
    ) -> None:
        """Sort the rows by where they are drawn."""
        self.frame = frame
        self.axis = axis
        self.rows = rows
        self.gpus = {gpu.gpu: gpu for gpu in frame.gpus}
        self.mixed = mixed_gpu(frame)
        self.memory = memory
        self.expected = {
            (one.job, one.partition): one.expected_ms for one in frame.syntheses if one.expected_ms
        }
        self.by_worker: dict[int, list[PartitionRow]] = {}
        self.by_gpu: dict[int, list[PartitionRow]] = {}
        self.undated: dict[int, list[PartitionRow]] = {}  # it isn't known when they held the lock
        self.by_lane: dict[int, list[PartitionRow]] = {}
        for row in rows:
            if row.worker is not None and row.bracket_start_ms is not None:
                self.by_worker.setdefault(row.worker, []).append(row)
            gpu = self._gpu(row)
            if gpu is not None:
                if row.lock_at_ms is not None:
                    self.by_gpu.setdefault(gpu, []).append(row)
                elif row.bracket_start_ms is not None and not waits(frame, row):
                    self.undated.setdefault(gpu, []).append(row)
            lane = lanes.get(key_of(row))
            if lane is not None and lane_end(row) >= axis.start_ms:
                self.by_lane.setdefault(lane, []).append(row)
        self.lane_count = 1 + max(self.by_lane, default=-1)

    def _gpu(self, row: PartitionRow) -> int | None:
        """The GPU on whose tracks a row is drawn."""
        return self.mixed if row.gpu is None else row.gpu

    # ------------------------------------------------------------ names

    def name(self, track: Track, gutter: int) -> str:
        """A track's name in `gutter` cells."""
        if gutter <= 0:
            return ""
        short = gutter < GUTTER
        gpu = "s" if track.gpu == self.mixed else f"{track.gpu}" if short else f" {track.gpu}"
        names = {
            "lock": f"G{gpu}" if short else f"GPU{gpu} lock",
            "worker": f" w{track.index}" if short else f"  w{track.index}",
            "count": "syn" if short else "syntheses",
            "lane": "",
            "kernel": " krn" if short else "  kernel",
            "nvml": " NVML" if short else "  NVML",
            "power": " pwr" if short else "  power",
        }
        return fit(names[track.kind], gutter)

    def figure(self, track: Track) -> str:
        """A track's figure now: per cent, or how many."""
        if track.kind == "count":
            return str(len(self.frame.syntheses))
        gpu = self.gpus.get(track.gpu) if track.gpu is not None else None
        if gpu is None or track.kind not in {"kernel", "nvml", "power"}:
            return ""
        history = self._history(gpu, track.kind)
        if track.kind == "kernel":
            log = Series(gpu.gpu, "", history, "kernel")
            return percent(latest_of(self.frame, log, unowned_since(self.frame))[0], digits=0)
        return percent(history[-1] if history else None, digits=0)

    @staticmethod
    def _history(gpu: Gpu, kind: str) -> Sequence[float | None]:
        if kind == "kernel":
            return gpu.kernel_history
        if gpu.nvml is None or gpu.nvml.of_now:  # what is read now is nowhere on this axis
            return ()
        return gpu.nvml.util_history if kind == "nvml" else gpu.nvml.power_history

    # ------------------------------------------------------------ lines

    def draw(self, track: Track) -> Line:
        """The track's cells, as many as the axis has columns."""
        if track.kind == "lock":
            return self._lock(track.gpu or 0)
        if track.kind == "worker":
            return self._worker(track.index)
        if track.kind == "lane":
            return self._lane(track.index)
        if track.kind == "count":
            return self._count()
        gpu = self.gpus.get(track.gpu or 0)
        return self._measured(gpu, track.kind) if gpu is not None else ()

    def _live(self, row: PartitionRow) -> str | None:
        """The kind of what a row's call does under the lock now, if it holds it."""
        number = self._gpu(row)
        gpu = None if number is None else self.gpus.get(number)
        holder = None if gpu is None else gpu.lock.holder
        if holder is None or (holder.job, holder.partition) != (row.job, row.partition):
            return None
        return LIVE_KIND.get(holder.stage or "", "held")

    def pieces(self, row: PartitionRow) -> Sequence[Piece]:
        """What happened under the lock of one call."""
        if row.state == "gpu":
            return lock_pieces(row, self.frame.now_ms, self._live(row))
        return ended_lock(row)

    def vague(self, number: int) -> list[Piece]:
        """When one of the calls may have held a GPU's lock, and nobody is known to have."""
        now = self.frame.now_ms
        held = [piece[:2] for row in self.by_gpu.get(number, ()) for piece in self.pieces(row)]
        return [
            (lo, hi, "unknown")
            for row in self.undated.get(number, ())
            if (span := unplaced(row, now)) is not None
            for lo, hi in outside(span, held)
        ]

    def _lock(self, number: int) -> Line:
        axis, frame = self.axis, self.frame
        rows = self.by_gpu.get(number, ())
        if not frame.has_timing and frame.has_timeline:
            return clip(((reason(frame, "", timing=True), "muted"),), axis.columns)
        open_ms = min(
            (float(row.bracket_start_ms or 0) for row in rows if row.state == "gpu"),
            default=math.inf,
        )
        # What isn't known yet will be, most likely, before it is old.
        late_ms = min(
            (
                float(row.bracket_start_ms or 0)
                for row in self.undated.get(number, ())
                if (row.bracket_end_ms or math.inf) > frame.now_ms - OUT_OF_ORDER_MS
            ),
            default=math.inf,
        )
        settled = min(open_ms, late_ms, frame.now_ms - SETTLED_MS)
        pieces = [piece for row in rows for piece in self.pieces(row)] + self.vague(number)
        cells = self.memory.lock(number).draw(pieces, axis, settled)
        return tuple((glyph * len(list(run)), style) for (glyph, style), run in groupby(cells))

    def _worker(self, number: int) -> Line:
        rows = sorted(self.by_worker.get(number, ()), key=lambda row: row.bracket_start_ms or 0)
        runs: list[tuple[float, float, Callable[[int], Line]]] = []
        for at, row in enumerate(rows):
            parts = (
                bracket_runs(row, self.frame.now_ms)
                if row.state == "gpu"
                else list(ended_bracket(row))
            )
            if not parts:
                continue
            # A worker takes its next item while the last one is being finished.
            after = rows[at + 1].bracket_start_ms if at + 1 < len(rows) else None
            end = parts[-1][1] if after is None else min(parts[-1][1], float(after))
            lo = parts[0][0]
            runs.append((lo, max(lo, end), self._bracket(row, parts, end)))
        return paint(runs, self.axis)

    def _bracket(
        self, row: PartitionRow, parts: Sequence[Run], end: float
    ) -> Callable[[int], Line]:
        axis = self.axis

        def draw(cells: int) -> Line:
            if cells == 1:
                return (("│", "bracket"),)
            # The part of it that lies in the window, cut where its phases change.
            first = max(parts[0][0], axis.start_ms)
            begin = axis.column(first)
            spans: list[Span] = []
            done = 0
            for at, (_lo, hi, glyph, style) in enumerate(parts):
                stop = cells if at == len(parts) - 1 else axis.column(min(hi, end)) - begin
                stop = max(done, min(cells, stop))
                if stop > done:
                    text = glyph * (stop - done)
                    if glyph in "━─" and stop - done >= 14:
                        text = _named(row, stop - done, glyph)
                    spans.append((text, style))
                    done = stop
            if done < cells:
                spans.append((" " * (cells - done), "text"))
            if parts[0][0] >= axis.start_ms:
                spans[0] = ("├" + spans[0][0][1:], spans[0][1])
            if row.bracket_end_ms is not None and end >= row.bracket_end_ms <= axis.end_ms:
                spans[-1] = (spans[-1][0][:-1] + "┤", spans[-1][1])
            return tuple(spans)

        return draw

    def _lane(self, number: int) -> Line:
        rows = sorted(self.by_lane.get(number, ()), key=lambda row: row.synth_start_ms or 0)
        now = self.frame.now_ms
        runs: list[tuple[float, float, Callable[[int], Line]]] = []
        for row in rows:
            start = float(row.synth_start_ms or 0)
            ended = synth_end(row)
            running = row.state == "synthesizing"
            stop = now if running else ended
            if stop is None:
                continue
            usual = self.expected.get((row.job, row.partition))
            late = running and usual is not None and now - start > LATE * usual
            style = "late" if late else "error" if row.state == "failed" else "synth"
            runs.append((start, stop, self._synthesis(row, start, style)))
            until = now if row.state == "queued" else row.pickup_ms
            if until is not None and until > stop:
                runs.append((stop, float(until), fill("·", "starved")))
        return paint(runs, self.axis)

    def _synthesis(self, row: PartitionRow, start: float, style: str) -> Callable[[int], Line]:
        axis = self.axis

        def draw(cells: int) -> Line:
            text = "╌" * cells
            if cells >= 8:
                text = _named(row, cells, "╌")
            elif start >= axis.start_ms and cells > 1:
                text = "┊" + text[1:]
            return ((text, style),)

        return draw

    def _count(self) -> Line:
        """How many syntheses go on in each column: the most there were is the whole height."""
        axis = self.axis
        change = [0] * (axis.columns + 1)
        for row in self.rows:
            if row.synth_start_ms is None:
                continue
            ended = synth_end(row)
            if ended is None:
                ended = self.frame.now_ms if row.state == "synthesizing" else row.synth_start_ms
            first = max(0, axis.column(row.synth_start_ms))
            last = min(axis.columns, axis.column(ended) + 1)
            if last > first:
                change[first] += 1
                change[last] -= 1
        counts: list[int] = []
        running = 0
        for step in change[:-1]:
            running += step
            counts.append(running)
        most = max(counts, default=0) or 1
        text = "".join(LEVELS[-(-8 * count // most)] for count in counts)
        return ((text, "synth"),)

    def _measured(self, gpu: Gpu, kind: str) -> Line:
        history = self._history(gpu, kind)
        columns = self.axis.columns
        if not any(share is not None for share in history):
            why = "not read"
            if kind == "kernel":
                why = no_shares(self.frame, why)
            elif gpu.nvml is None:
                why = gpu.nvml_note or why
            elif gpu.nvml.of_now:
                why = "not read then"
            return clip(((why, "muted"),), columns)
        now = self.frame.now_ms
        # The log's seconds are the run's own; what was measured ends now.
        end = 1000.0 * (math.floor(now / 1000.0) + 1) if kind == "kernel" else now
        text = graph_row(history, end, self.axis)
        if kind == "kernel":
            pieces = [piece for row in self.by_gpu.get(gpu.gpu, ()) for piece in self.pieces(row)]
            vague = [piece[:2] for piece in self.vague(gpu.gpu)]
            vague += [(lo, hi) for lo, hi, what in pieces if what == "held"]
            text = kernel_row(text, pieces, vague, self.axis, now)
        return ((text, {"kernel": "kernel", "nvml": "nvml", "power": "power"}[kind]),)

    # ------------------------------------------------------------ what the cursor meets

    def at(self, track: Track, at_ms: float) -> PartitionRow | None:
        """The partition that a track shows at an instant."""
        if track.kind == "lane":
            return next(
                (
                    row
                    for row in self.by_lane.get(track.index, ())
                    if (row.synth_start_ms or 0) <= at_ms <= min(lane_end(row), self.frame.now_ms)
                ),
                None,
            )
        if track.kind == "worker":
            found = [
                row
                for row in self.by_worker.get(track.index, ())
                if (row.bracket_start_ms or 0) <= at_ms <= (row.bracket_end_ms or self.frame.now_ms)
            ]
            return max(found, key=lambda row: row.bracket_start_ms or 0, default=None)
        if track.gpu is None:
            return None
        holder, _kind = self.holder(track.gpu, at_ms)
        return holder

    def holder(self, gpu: int, at_ms: float) -> tuple[PartitionRow | None, str]:
        """Who held a GPU's lock at an instant, and doing what; who may have is `unknown`."""
        now = self.frame.now_ms
        for row in self.by_gpu.get(gpu, ()):
            for lo, hi, kind in self.pieces(row):
                if lo <= at_ms < hi or lo <= at_ms == hi == now:  # what goes on ends now
                    return row, kind
        for row in self.undated.get(gpu, ()):
            span = unplaced(row, now)
            if span is not None and (span[0] <= at_ms < span[1] or at_ms == span[1] == now):
                return row, "unknown"
        return None, ""

    def marked(self, line: Line, track: Track, row: PartitionRow) -> Line:
        """A track's cells, a partition's part of them marked."""
        span = self._span_on(track, row)
        if span is None or span[1] <= span[0]:
            return line
        axis = self.axis
        first, last = max(0, axis.column(span[0])), min(axis.columns, axis.column(span[1]) + 1)
        return overlay(line, first, last, "selected") if last > first else line

    def _span_on(self, track: Track, row: PartitionRow) -> tuple[float, float] | None:
        """From when to when a partition is on a track."""
        now = self.frame.now_ms
        ended = now if row.bracket_end_ms is None else float(row.bracket_end_ms)
        if track.kind == "lock" and self._gpu(row) == track.gpu and row.lock_at_ms is not None:
            held_ms = row.lock_held_ms
            return row.lock_at_ms, ended if held_ms is None else row.lock_at_ms + held_ms
        if track.kind == "worker" and row.worker == track.index:
            return None if row.bracket_start_ms is None else (float(row.bracket_start_ms), ended)
        if track.kind == "lane" and row in self.by_lane.get(track.index, ()):
            return float(row.synth_start_ms or 0), min(lane_end(row), now)
        return None


def _named(row: PartitionRow, cells: int, glyph: str) -> str:
    """A bar of `cells` with the partition's name at its beginning."""
    end = "" if row.partition is None else f"/{row.partition}"
    name = row.job.rpartition("-")[2] if row.job.isascii() and row.job.isprintable() else ""
    text = f"{name[-6:]}{end}"
    if not name or len(text) + 2 > cells:
        text = end.lstrip("/")
    return (glyph + text).ljust(cells, glyph)[:cells]


ROOMY = 100  # cells from which the legend stands under the tracks, beside their names
SIGNS: tuple[Sign, ...] = (
    (*KINDS["kernel"], CLASS_TITLES["kernel"]),
    (*KINDS["barrier"], CLASS_TITLES["barrier"]),
    (*KINDS["over"], CLASS_TITLES["lock_overhead"]),
    ("○", "lock", "waits for the lock"),
    ("━", "bracket", "holds it"),
    ("░", "handoff", "finishing"),
    ("╌", "synth", "synthesis"),
    ("·", "starved", "queued"),
    (*KINDS["unknown"], "not known yet"),
    ("▪", "kernel", "shorter than half a column"),
)
HINTS = (
    "← a cursor that tells what held at an instant; [ ] zoom; e s i to a failure, slow one, stall",
    "← what held at an instant; [ ] zoom; e s i failure, slow, stall",
    "← what held then; [ ] zoom",
    "← a cursor",
)


def _foot(scene: Scene, scroll: Scroll, width: int, rows: int) -> list[Line]:
    if scroll.at_ms is not None:
        return _readout(scene, scroll.at_ms, width, rows)
    gutter = min(gutter_of(width), width) if width >= ROOMY else 0
    room = width - gutter
    lines = legend(SIGNS, room, rows)
    if len(lines) < rows:
        lines.append([])
    left = room - line_width(tuple(lines[-1])) - (3 if lines[-1] else 0)
    hint = next((words for words in HINTS if width_of(words) <= left), "")
    if hint and rows > 1:
        lines[-1] += [("   " if lines[-1] else "", "muted"), (hint, "muted")]
    return [clip(((" " * gutter, "text"), *line), width) for line in lines]


def _not_known(frame: Frame, row: PartitionRow) -> str:
    """Why it isn't known whether a call held the lock."""
    name = label(row.job, row.partition, 18, row.attempt).rstrip()
    ended = row.bracket_end_ms
    if ended is not None and ended < frame.now_ms - OUT_OF_ORDER_MS:
        return f"not known: no owner was found for {name}'s lines"
    return f"not known yet: {name}'s lines have no owner so far"


def _readout(scene: Scene, at_ms: float, width: int, rows: int) -> list[Line]:
    """When the cursor is, and what each GPU did then."""
    frame = scene.frame
    ago = max(0.0, frame.present_ms - at_ms)
    when = f"{time_of(frame, at_ms, digits=3)}  {duration(ago)} ago  "
    running = sum(_is_made_at(row, at_ms) for row in scene.rows)
    spans: list[Span] = [(when, "strong"), (f"{running} syntheses  ", "synth")]
    for gpu in frame.gpus:
        spans += _held_at(scene, gpu.gpu, at_ms)
    lines: list[list[Span]] = [[]]
    used = 0
    for text, style in spans:
        cells = width_of(text)
        if used + cells > width and used and len(lines) < rows:
            lines.append([])
            used = 0
        lines[-1].append((text, style))
        used += cells
    return [clip(line, width) for line in lines] + [clip((), width)] * (rows - len(lines))


def _is_made_at(row: PartitionRow, at_ms: float) -> bool:
    """Whether a partition was in synthesis at an instant."""
    ended = synth_end(row)
    if ended is None and row.state == "synthesizing":
        ended = math.inf
    begun = row.synth_start_ms
    return begun is not None and ended is not None and begun <= at_ms < ended


def _held_at(scene: Scene, gpu: int, at_ms: float) -> list[Span]:
    """Who held a GPU's lock at an instant, and doing what."""
    frame = scene.frame
    if frame.has_timeline and not frame.has_timing:
        return [(f"GPU {gpu} not known: no CUZK_TIMING lines  ", "muted")]
    row, kind = scene.holder(gpu, at_ms)
    head = "GPUs " if gpu == scene.mixed else f"GPU {gpu} "
    if row is None:
        return [(head, "muted"), ("free  ", "muted")]
    glyph, style = KINDS[kind]
    if kind == "unknown":
        return [(f"{head}{glyph} {_not_known(frame, row)}  ", style)]
    word = {"kernel": "kernel", "barrier": "barrier", "over": "overhead", "held": "holds"}[kind]
    if row.state == "failed":
        word = f"{word}, then failed"
    return [
        (head, "muted"),
        (f"{glyph} ", style),
        (label(row.job, row.partition, 18, row.attempt).rstrip() + " ", "text"),
        (f"{word}  ", style),
    ]
