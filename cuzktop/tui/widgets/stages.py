"""Percentiles of each stage over the finished partitions."""

from __future__ import annotations

from cuzktop.frame import Frame
from cuzktop.tui.messages import ViewWanted
from cuzktop.tui.widgets.cells import Line, Span, bar, clip, fit, right, title
from cuzktop.tui.widgets.empty import reason, sentence
from cuzktop.tui.widgets.lines import Lines
from cuzktop.units import duration

# field, name, style of its bar: what the GPU computes, what it waits for, and the rest
STAGES = (
    ("bracket_ms", "bracket", "bracket"),
    ("lock_wait_ms", "lock wait", "lock"),
    ("ntt_msm_h_ms", "NTT and H MSM", "kernel"),
    ("barrier_wait_ms", "barrier", "late"),
    ("batch_add_ms", "batch additions", "kernel"),
    ("tail_msm_ms", "tail MSM", "kernel"),
    ("b_g2_msm_ms", "b_g2", "section"),
    ("queue_ms", "queue", "section"),
    ("synth_ms", "synthesis", "synth"),
)


def draw_stages(frame: Frame, width: int, height: int) -> list[Line]:
    """One row a stage: its bar against the bracket's median, and p50, p95, max."""
    if width <= 0 or height <= 0:
        return []
    stages = frame.stages
    counts = [stats.count for stats in stages.values()]
    detail = f"over {max(counts)} partitions" if counts else ""
    columns = "".join(right(name, 7) for name in ("p50", "p95", "max"))
    lines = [title("STAGES", width, detail=detail, end=columns.strip().rjust(21))]
    if not stages:
        return lines + sentence(reason(frame, "no partition has finished yet"), width, height - 1)
    bracket = stages.get("bracket_ms")
    scale = bracket.p50 if bracket is not None and bracket.p50 > 0 else None
    room = max(0, width - 17 - 22)
    for field, name, style in STAGES[: height - 1]:
        stats = stages.get(field)
        share = None if stats is None or scale is None else 100 * stats.p50 / scale
        drawn = bar(share, room, style)
        if share is not None and share > 100 and room:
            drawn = (drawn[0][:-1] + "▸", drawn[1])  # it goes beyond the scale
        spans: list[Span] = [(fit(name, 17), "text"), drawn, (" ", "text")]
        values = (stats.p50, stats.p95, stats.max) if stats else (None, None, None)
        spans += [
            (right(duration(value), 7), "muted" if value is None else "text") for value in values
        ]
        lines.append(clip(spans, width))
    return lines[:height]


class StagesPanel(Lines):
    """Question 5, in short: how long each stage takes."""

    def made_of(self, frame: Frame) -> object:
        """See `Lines`."""
        return frame.stages or frame

    def on_click(self) -> None:
        """Show the partitions that the percentiles are of."""
        self.post_message(ViewWanted("partitions"))

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        """See `draw_stages`."""
        return draw_stages(frame, width, height)
