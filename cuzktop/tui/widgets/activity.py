"""GPU activity over time: what NVML measured or else what the log says, on a fixed scale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from cuzktop.frame import Frame, Gpu
from cuzktop.tui.axis import unplaced, waits
from cuzktop.tui.messages import ViewWanted
from cuzktop.tui.widgets.cells import Graphs, Line, Span, clean, clip, right, title
from cuzktop.tui.widgets.empty import no_shares, sentence
from cuzktop.tui.widgets.gpus import SOURCES
from cuzktop.tui.widgets.lines import Lines
from cuzktop.units import age, percent

GUTTER = 5  # "100 ┊"
UNOWNED_MS = 20_000.0  # a call that has no lines for so long hardly gets any
LEAST_CHART = 5  # rows from which a chart of its own is worth its title


class Series(NamedTuple):
    """One history to draw; `style` is its colour, `title` says what it is and whence."""

    gpu: int
    title: str
    history: Sequence[float | None]
    style: str
    measured: bool = False


def known(history: Sequence[float | None]) -> bool:
    """Whether there is a reading in it at all."""
    return bool(history) and (
        history[-1] is not None or any(share is not None for share in history)
    )


def series_of(gpu: Gpu) -> Iterator[Series]:
    """One GPU's histories, the most telling first: what was measured goes before the log.

    What was measured after the log had ended is on no axis with it.
    """
    nvml = None if gpu.nvml is not None and gpu.nvml.of_now else gpu.nvml
    if nvml is not None and known(nvml.util_history):
        source = SOURCES.get(nvml.util_source or "", nvml.util_source or "source unknown")
        yield Series(gpu.gpu, f"NVML util %, {source}", nvml.util_history, "nvml", measured=True)
    if known(gpu.kernel_history):
        yield Series(gpu.gpu, "kernel % by the log", gpu.kernel_history, "kernel")
    if known(gpu.lock_history):
        yield Series(gpu.gpu, "lock held % by the log", gpu.lock_history, "lock")
    if nvml is not None and known(nvml.power_history):
        yield Series(gpu.gpu, "power, % of its limit", nvml.power_history, "power", measured=True)


Since = Mapping[int | None, float]
"""By GPU: when its oldest call began whose lines have no owner yet, if there is one."""


def unowned_since(frame: Frame) -> Since:
    """Since when there is no telling what ran: see `Since`."""
    since: dict[int | None, float] = {}
    for row in (*frame.in_flight, *frame.recent):
        if (
            row.lock_at_ms is None
            and (row.bracket_end_ms or frame.now_ms) > frame.now_ms - UNOWNED_MS
            and (span := unplaced(row, frame.now_ms)) is not None
            and not waits(frame, row)
        ):
            since[row.gpu] = min(span[0], since.get(row.gpu, span[0]))
    return since


def latest_of(frame: Frame, series: Series, since: Since) -> tuple[float | None, int]:
    """A history's newest figure that stands, and how many seconds ago that second ended.

    The log's last second isn't over, and the kernels of a call whose lines have no owner yet are
    missing in those before.
    """
    if series.measured:
        return (series.history[-1] if series.history else None), 0
    until = min(frame.now_ms, since.get(series.gpu, frame.now_ms))
    now_s, whole = int(frame.now_ms // 1000), int(until // 1000)
    at = len(series.history) - 1 - (now_s - whole) - 1
    return (series.history[at] if at >= 0 else None), now_s - whole + 1


def ago_words(frame: Frame, figure: float | None, ago: int) -> str:
    """A history's newest figure with its time: a share of the log is of one second, not of all."""
    if figure is None:
        return "not known yet" if ago else "not read"
    if frame.source.old:
        when = "in the last second" if ago else "end"
    else:
        when = f"in the second {ago}s ago" if ago else "now"
    return f"{when} {percent(figure, digits=0)} %"


def draw_activity(
    frame: Frame, width: int, height: int, graphs: Graphs | None = None
) -> list[Line]:
    """A chart a GPU where there is room, else a row a GPU; more histories as room grows.

    `graphs` remembers those that were drawn last.
    """
    graphs = graphs or Graphs()
    if width <= 0 or height <= 0:
        return []
    per_gpu = [(gpu, list(islice(series_of(gpu), 1))) for gpu in frame.gpus]
    if not any(series for _gpu, series in per_gpu):
        notes = [gpu.nvml_note for gpu in frame.gpus if gpu.nvml_note]
        why = no_shares(frame, "no kernel has run yet")
        text = f"{why}. {clean(notes[0])}." if notes else why
        return [title("ACTIVITY", width), *sentence(text, width, height - 1)]
    end = "end" if frame.source.old else "now"
    several = len(per_gpu) > 1
    charts = sum(len(series) for _gpu, series in per_gpu)
    if charts * (LEAST_CHART if several else 2) + 1 > height or width < GUTTER + 8:
        return _rows(frame, per_gpu, width, height, end, graphs)
    per_gpu = [(gpu, list(series_of(gpu))) for gpu in frame.gpus]
    most = max(len(series) for _gpu, series in per_gpu)
    deep = 1
    for depth in range(2, most + 1):
        charts = sum(min(depth, len(series)) for _gpu, series in per_gpu)
        if charts * LEAST_CHART + 1 <= height:
            deep = depth
    wanted = [series for _gpu, found in per_gpu for series in found[:deep]]
    axis = 1 if height >= 3 else 0
    body = height - axis
    since = {} if all(series.measured for series in wanted) else unowned_since(frame)
    lines: list[Line] = []
    for index, series in enumerate(wanted):
        rows = body // len(wanted) + (1 if index < body % len(wanted) else 0)
        says = ago_words(frame, *latest_of(frame, series, since))
        lines += _chart(series, width, rows, graphs, several=several, first=index == 0, says=says)
    if axis:
        lines.append(_axis(width - GUTTER, GUTTER, end))
    return lines[:height]


def _chart(
    series: Series,
    width: int,
    height: int,
    graphs: Graphs,
    *,
    several: bool,
    first: bool,
    says: str,
) -> list[Line]:
    name = "ACTIVITY" if first else ""
    if several:
        name = f"{name} GPU {series.gpu}".strip()
    head = title(
        name or series.title,
        width,
        detail=series.title if name else "",
        end=says,
    )
    rows = height - 1
    lines = [head]
    of = series.gpu, series.title
    for y, text in enumerate(graphs.rows(of, series.history, width - GUTTER, rows)):
        scale = "100" if y == 0 else "0" if y == rows - 1 and rows > 1 else ""
        if rows >= 5 and y == rows // 2:
            scale = "50"
        lines.append(((right(scale, 3), "muted"), (" ┊", "rule"), (text, series.style)))
    return lines


@lru_cache(maxsize=8)
def _axis(width: int, gutter: int, end: str) -> Line:
    """Seconds before the `end` under the columns that they belong to; a column is a second."""
    step = 10 if width < 60 else 15 if width < 90 else 30
    cells = [" "] * width
    cells[-len(end) :] = end if width >= len(end) else " " * width
    seconds = step
    while seconds < width:
        text = f"-{age(1000 * seconds)}"
        at = width - 1 - seconds
        start = at - len(text) + 1
        if start >= 0 and at < width - len(end) - 1:
            cells[start : at + 1] = text
        seconds += step
    return ((" " * gutter, "text"), ("".join(cells), "muted"))


def _rows(
    frame: Frame,
    per_gpu: list[tuple[Gpu, list[Series]]],
    width: int,
    height: int,
    end: str,
    graphs: Graphs,
) -> list[Line]:
    """A row a GPU: its number, its history, and the latest figure."""
    titles = {series[0].title for _gpu, series in per_gpu if series}
    detail = titles.pop() if len(titles) == 1 else "NVML util %, else kernel % by the log"
    graph_width = max(1, width - 3 - 5)
    room = height - 1
    each = max(1, min(3, room // max(1, len(per_gpu))))
    axis = room - each * len(per_gpu) >= 1
    span = "" if axis else f"last {graph_width} s"
    lines = [title("ACTIVITY", width, detail=detail, end=span)]
    measured = all(series[0].measured for _gpu, series in per_gpu if series)
    since = {} if measured else unowned_since(frame)
    for gpu, series in per_gpu:
        if not series:
            text = clean(gpu.nvml_note) or "nothing read yet"
            lines.append(clip(((f"{gpu.gpu:>2} ", "strong"), (text, "muted")), width))
            lines += [clip((), width)] * (each - 1)
            continue
        main = series[0]
        latest, _ago = latest_of(frame, main, since)
        of = gpu.gpu, main.title
        for y, text in enumerate(graphs.rows(of, main.history, graph_width, each)):
            last = y == each - 1
            spans: list[Span] = [
                (f"{gpu.gpu:>2} " if last else "   ", "strong"),
                (text, main.style),
                (right(percent(latest, digits=0), 5) if last else "     ", main.style),
            ]
            lines.append(clip(spans, width))
    if axis:
        lines.append(clip(_axis(graph_width, 3, end), width))
    return lines[:height]


class ActivityPanel(Lines):
    """The GPU's use over the last minutes; a missing reading is a gap."""

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002 - Textual's word
        """Nothing was drawn yet."""
        super().__init__(ascii_only=ascii_only, id=id)
        self._graphs = Graphs()

    def made_of(self, frame: Frame) -> object:
        """See `Lines`."""
        if not frame.gpus:
            return frame
        histories = [(gpu.kernel_history, gpu.lock_history, gpu.nvml) for gpu in frame.gpus]
        notes = [gpu.nvml_note for gpu in frame.gpus]
        return histories, notes, frame.has_timing, frame.now_ms // 1000, frame.recent[:1]

    def on_click(self) -> None:
        """Show what held when."""
        self.post_message(ViewWanted("timeline"))

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        """See `draw_activity`."""
        return draw_activity(frame, width, height, self._graphs)
