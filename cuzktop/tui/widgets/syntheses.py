"""Every synthesis in flight with its age against what is usual, and what waits for the GPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

from cuzktop.frame import Frame, Synthesis
from cuzktop.tui.messages import ViewWanted
from cuzktop.tui.widgets.cells import (
    LEVELS,
    Line,
    Span,
    bar,
    clean,
    clip,
    fit,
    label,
    right,
    title,
    width_of,
)
from cuzktop.tui.widgets.empty import blind, reason, sentence
from cuzktop.tui.widgets.lines import Lines
from cuzktop.units import age, duration

LATE = 1.25  # times the usual: beyond the spread that syntheses of one kind have on a calm box
BLANK = (" ", "text")
COLUMN = 38  # cells that one synthesis needs with its label, gauge and age


def late_ones(running: Sequence[Synthesis], ages: Sequence[float]) -> list[bool]:
    """Which of them have run well over what is usual for their kind."""
    return [
        one.expected_ms is not None and age_ms > LATE * one.expected_ms
        for one, age_ms in zip(running, ages, strict=True)
    ]


def draw_syntheses(frame: Frame, width: int, height: int) -> list[Line]:
    """Title with both counts, the oldest syntheses as gauges, and the GPU queue.

    Where not all have a gauge, the first row holds one column for each, oldest first: a herd
    shows as a flat top.
    """
    if width <= 0 or height <= 0:
        return []
    running, now_ms = frame.syntheses, frame.now_ms
    ages = [synthesis.age_ms(now_ms) for synthesis in running]
    lates = late_ones(running, ages)
    late = sum(lates)
    usual = next((s.expected_ms for s in running if s.expected_ms is not None), None)
    if blind(frame) and not running:
        why = reason(frame, "none")
        return [title("SYNTHESES", width), *sentence(why, width, height - 1)]
    detail = str(len(running))
    if usual is not None:
        detail += f", usual {age(1000 * round(usual / 1000))}"
    end = f"{late} late" if late else ""
    lines = [title("SYNTHESES", width, detail=detail, end=end)]
    room = height - 1
    queue_rows = 1 if room >= 2 else 0
    rows = room - queue_rows
    if not running:
        why = reason(frame, "none: nothing is being synthesized")
        lines += sentence(why, width, 1 if rows > 0 else 0)
        rows -= 1
    elif rows > 0:
        columns = max(1, width // COLUMN)
        column = width // columns
        shown = running
        if len(running) > rows * columns and usual is not None:
            lines.append(_strip(running, ages, lates, width))
            rows -= 1
            shown = running[: rows * columns]
        longest = max(
            width_of(clean(s.job)) + (0 if s.partition is None else 1 + len(str(s.partition)))
            for s in shown or running
        )
        for start in range(0, len(shown), columns):
            row: list[Span] = []
            for at in range(start, min(start + columns, len(shown))):
                row += _gauge(shown[at], ages[at], column, longest, late=lates[at])
            lines.append(clip(row, width))
            rows -= 1
    if queue_rows:
        lines += [((" " * width, "text"),)] * max(0, rows)
        lines.append(_queue(frame, width))
    return lines[:height]


def _strip(
    running: Sequence[Synthesis], ages: Sequence[float], lates: Sequence[bool], width: int
) -> Line:
    """One column a synthesis, as high as its share of the usual time."""
    words = f"  {age(ages[-1])} to {age(ages[0])} old"
    room = max(1, width - width_of(words))
    levels = [
        round(8 * age_ms / one.expected_ms) if one.expected_ms else 1
        for one, age_ms in zip(running[:room], ages, strict=False)
    ]
    text = "".join([LEVELS[max(1, min(8, level))] for level in levels])
    spans: list[Span] = []
    for late, some in groupby(lates[:room]):
        columns = len(list(some))
        spans.append((text[:columns], "late" if late else "synth"))
        text = text[columns:]
    spans.append((words, "muted"))
    return clip(spans, width)


def _gauge(synthesis: Synthesis, age_ms: float, width: int, longest: int, *, late: bool) -> Line:
    expected_ms = synthesis.expected_ms
    name, gauge_width, words = _beside_gauge(
        synthesis.job,
        synthesis.partition,
        age_ms // 1000,
        expected_ms,
        width,
        longest,
        late=late,
    )
    share = None if not expected_ms else 100 * age_ms / expected_ms
    return (name, BLANK, bar(share, gauge_width, "late" if late else "synth"), words)


@lru_cache(maxsize=256)
def _beside_gauge(
    job: str,
    partition: int | None,
    age_s: float,
    expected_ms: float | None,
    width: int,
    longest: int,
    *,
    late: bool,
) -> tuple[Span, int, Span]:
    """What stands before a gauge, its width, and what stands behind it, for a second each."""
    words = age(1000 * age_s)
    if expected_ms:
        words += f"/{age(1000 * round(expected_ms / 1000))}"
    words = right(words, 8) + ("!" if late else " ")
    least = max(4, (width - 12) // 4) if width >= 30 else 0
    room = max(0, min(longest, width - 2 - least - width_of(words)))
    gauge_width = min(30, max(least, width - 3 - room - width_of(words))) if least else 0
    behind = fit(words, max(0, width - 1 - room - gauge_width))
    return (label(job, partition, room), "text"), gauge_width, (behind, "late" if late else "text")


def _queue(frame: Frame, width: int) -> Line:
    queue = frame.gpu_queue
    if not queue:
        return clip((("GPU queue empty", "muted"),), width)
    spans: list[Span] = [(f"GPU queue {len(queue)}", "strong")]
    left = width - width_of(spans[0][0])
    for index, item in enumerate(queue):
        more = f"  +{len(queue) - index - 1}" if index < len(queue) - 1 else ""
        text = f" {duration(item.age_ms(frame.now_ms))}"
        name = label(item.job, item.partition, 22).rstrip()
        used = 2 + width_of(name) + width_of(text)
        if used + width_of(more) > left:
            if index:
                spans.append((f"  +{len(queue) - index}", "muted"))
                break
            name = label(item.job, item.partition, max(0, left - used + width_of(name) - 4))
        spans += [("  " + name, "text"), (text, "muted")]
        left -= 2 + width_of(name) + width_of(text)
    return clip(spans, width)


class SynthesesPanel(Lines):
    """Question 4, first half: what is being synthesized, and what waits for the GPU."""

    def on_click(self) -> None:
        """Show all syntheses on one axis of time."""
        self.post_message(ViewWanted("timeline"))

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        """See `draw_syntheses`."""
        return draw_syntheses(frame, width, height)
