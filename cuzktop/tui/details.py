"""One partition in full: facts, a time line drawn to scale, figures, certainty, its log lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from cuzktop.frame import Frame, JobRow, PartitionRow
from cuzktop.tui.axis import clock_ms, time_of
from cuzktop.tui.rows import slow_stages
from cuzktop.tui.sgr import coloured, plain
from cuzktop.tui.widgets.cells import Line, Span, clean, clip, fit, right, width_of, wrap
from cuzktop.tui.widgets.jobs import CELLS
from cuzktop.tui.widgets.partitions import MARKS
from cuzktop.units import duration

# figure, its name, what it is; indented ones lie inside the one above
FIGURES: tuple[tuple[str, str, str], ...] = (
    ("synth_ms", "synthesis", "CPU work before the GPU"),
    ("queue_ms", "queue", "waits for a worker"),
    ("bracket_ms", "bracket", "GPU_START to GPU_END"),
    ("pre_lock_cpu_ms", "  CPU before the lock", "in the bracket, GPU idle"),
    ("lock_wait_ms", "  lock wait", "another has the GPU"),
    ("lock_held_ms", "  lock held", "the GPU is its own"),
    ("gpu_total_ms", "    GPU section", "first kernel to last"),
    ("ntt_msm_h_ms", "      NTT and H MSM", "kernel"),
    ("barrier_wait_ms", "      barrier", "kernels wait for the CPU"),
    ("batch_add_ms", "      batch additions", "kernel"),
    ("tail_msm_ms", "      tail MSM", "kernel"),
    ("kernel_ms", "  kernel, together", "what the GPU computed"),
    ("prep_msm_ms", "  prep_msm", "what the barrier waits for"),
    ("b_g2_msm_ms", "  b_g2", "CPU work after prep_msm"),
    ("gpu_ms", "gpu_ms", "as the daemon printed it"),
)
SOURCE_OF = {
    "lock": ("pre_lock_cpu_ms", "lock_wait_ms", "lock_held_ms"),
    "kernel": (
        "ntt_msm_h_ms",
        "barrier_wait_ms",
        "batch_add_ms",
        "tail_msm_ms",
        "gpu_total_ms",
        "kernel_ms",
    ),
    "cpu": ("prep_msm_ms", "b_g2_msm_ms"),
}
WHY = {
    "exact": "no other assignment of these lines fits the log",
    "inferred": "calls ran beside each other and several assignments fit: this is the likeliest",
    "none": "no line could be given to it",
}
STYLE_OF = {
    "synth_ms": "synth",
    "queue_ms": "starved",
    "bracket_ms": "bracket",
    "pre_lock_cpu_ms": "handoff",
    "lock_wait_ms": "lock",
    "lock_held_ms": "lock",
    "gpu_total_ms": "section",
    "ntt_msm_h_ms": "kernel",
    "barrier_wait_ms": "barrier",
    "batch_add_ms": "kernel",
    "tail_msm_ms": "kernel",
    "prep_msm_ms": "synth",
    "b_g2_msm_ms": "synth",
}
LOG_LINES = 200  # of the latest that name the partition or its job
FIGURE_CELLS = 48  # what the figures take
WORDS = 28  # and what they mean; in a narrow window the time line takes its place
LEAST_BAR = 16


class Book(Protocol):
    """The daemon's latest lines by number: `cuzktop.logbook.LogBook`."""

    @property
    def span(self) -> tuple[int, int]:
        """Numbers of the oldest line kept and of the line that will come next."""

    def read(self, first: int, last: int) -> list[bytes]:
        """The lines numbered `first` … `last` − 1, as far as they are kept."""


def job_of(frame: Frame, row: PartitionRow) -> JobRow | None:
    """The job that `row` is a partition of, while it is kept."""
    jobs = (*frame.jobs, *frame.older_jobs)
    return next((job for job in jobs if (job.job, job.attempt) == (row.job, row.attempt)), None)


def spans_ms(row: PartitionRow) -> dict[str, tuple[float, float]]:
    """When each stage ran, from the bracket's start, as far as the log tells or implies it."""
    start = row.bracket_start_ms
    if start is None:
        return {}
    spans: dict[str, tuple[float, float]] = {}
    if row.bracket_ms is not None:
        spans["bracket_ms"] = (0.0, float(row.bracket_ms))
    pre, wait = row.pre_lock_cpu_ms, row.lock_wait_ms
    lock: float | None = None
    if row.lock_at_ms is not None:
        lock = max(0.0, row.lock_at_ms - start)
    elif pre is not None and wait is not None:
        lock = float(pre + wait)
    if lock is None:
        return spans
    if wait is not None:
        spans["lock_wait_ms"] = (max(0.0, lock - wait), lock)
        if pre is not None:
            begun = max(0.0, lock - wait - pre)
            spans["pre_lock_cpu_ms"] = (begun, begun + pre)
    if row.lock_held_ms is not None:
        spans["lock_held_ms"] = (lock, lock + row.lock_held_ms)
    if row.gpu_total_ms is not None:
        spans["gpu_total_ms"] = (lock, lock + row.gpu_total_ms)
    at = lock
    for field in ("ntt_msm_h_ms", "barrier_wait_ms", "batch_add_ms", "tail_msm_ms"):
        value = getattr(row, field)
        if value is None:
            break
        spans[field] = (at, at + value)
        at += value
    prep = row.prep_msm_ms
    barrier = spans.get("barrier_wait_ms")
    if prep is not None and barrier is not None and barrier[1] > barrier[0]:
        # The barrier opens when the CPU's preparation is done; without one it was done before.
        spans["prep_msm_ms"] = (max(0.0, barrier[1] - prep), barrier[1])
        if row.b_g2_msm_ms is not None:
            spans["b_g2_msm_ms"] = (barrier[1], barrier[1] + row.b_g2_msm_ms)
    return spans


def _piece(lo: float, hi: float, total: float, width: int, style: str) -> list[Span]:
    """A bar from `lo` to `hi` on an axis of `total`, `width` cells wide; at least one cell."""
    if total <= 0 or width <= 0:
        return []
    first = min(width - 1, max(0, int(lo / total * width + 0.5)))
    last = min(width, max(first + 1, int(hi / total * width + 0.5)))
    return [
        (" " * first, "text"),
        ("█" * (last - first), style),
        (" " * (width - last), "text"),
    ]


def _life(row: PartitionRow, width: int) -> list[Line]:
    """Synthesis, queue and bracket on one scale, with their lengths under them."""
    parts = [
        ("synthesis", row.synth_ms, "╌", "synth"),
        ("queue", row.queue_ms, "·", "starved"),
        ("bracket", row.bracket_ms, "█", "bracket"),
    ]
    known = [(name, float(ms), glyph, style) for name, ms, glyph, style in parts if ms]
    total = sum(ms for _name, ms, _glyph, _style in known)
    room = width - 11
    if not known or room < 20:
        return []
    bar: list[Span] = []
    drawn, at = 0, 0.0
    words: list[str] = []
    for name, ms, glyph, style in known:
        at += ms
        end = max(drawn + 1, min(room, int(at / total * room + 0.5)))
        bar.append((glyph * (end - drawn), style))
        drawn = end
        words.append(f"{glyph} {name} {duration(ms)} {100 * ms / total:.0f} %")
    return [
        clip((("life       ", "muted"), *bar), width),
        clip(((" " * 11, "text"), ("  ".join(words), "muted")), width),
    ]


def _times(row: PartitionRow, frame: Frame) -> str:
    """When synthesis and bracket began and ended, as the daemon's own lines have it."""

    def at(ms: float | None) -> str:
        return "–" if ms is None else time_of(frame, ms, digits=3)

    since = "" if clock_ms(frame) is not None else " (from the run's start)"
    words = f"synthesis from {at(row.synth_start_ms)}"
    if row.synth_start_ms is not None and row.synth_ms is not None:
        words += f" to {at(row.synth_start_ms + row.synth_ms)}"
    if row.bracket_start_ms is not None:
        words += f", bracket from {at(row.bracket_start_ms)}"
        words += "" if row.bracket_end_ms is None else f" to {at(row.bracket_end_ms)}"
    return words + since


def _named(name: str, text: str, width: int, style: str = "text") -> list[Line]:
    """`text` beside its name, in at most six lines."""
    room = max(8, width - 11)
    return [
        clip(((f"{name if at == 0 else '':<10} ", "muted"), (line, style)), width)
        for at, line in enumerate(wrap(text, room, room, 6))
    ]


def details(row: PartitionRow, frame: Frame, width: int) -> list[Line]:
    """All that is known of one partition, `width` cells wide."""
    glyph, style, name = CELLS.get(row.state, ("?", "warn", row.state))
    job = clean(row.job)
    room = max(8, width - 11)
    lines: list[Line] = [
        clip(
            ((f"{'job' if start == 0 else '':<10} ", "muted"), (job[start : start + room], "text")),
            width,
        )
        for start in range(0, max(1, len(job)), room)
    ]
    partition = "in one piece" if row.partition is None else str(row.partition)
    lines += _named(
        "partition", f"{partition}, attempt {row.attempt}, {row.kind or 'kind unknown'}", width
    )
    where = "no worker yet" if row.worker is None else f"worker {row.worker}"
    if row.gpu is not None:
        where += f" on GPU {row.gpu}"
    elif row.worker is not None:
        where += " on a GPU that this log doesn't name"
    lines += _named("state", f"{glyph} {name}, {where}", width, style)
    lines += _named("times", _times(row, frame), width)
    owner = job_of(frame, row)
    message = row.message or (owner.message if owner is not None else "")
    if message:
        lines += _named("failure", message, width, "error")
    lines += _sure(row, width)
    lines.append(clip((), width))
    lines += _life(row, width)
    lines += _figures(row, frame, width)
    return lines + log_lines(frame, row.job, row, width)


def _sure(row: PartitionRow, width: int) -> list[Line]:
    """Whose the CUZK_TIMING lines are: how sure that is, and why."""
    sources = ", ".join(f"{name} {row.attribution_by.get(name, 'none')}" for name in SOURCE_OF)
    lines = _named("its lines", f"{row.attribution}: {sources}", width)
    marks = [row.attribution_by.get(name, "none") for name in SOURCE_OF]
    for mark in ("exact", "inferred", "none"):
        if mark in marks:
            why = WHY[mark]
            if mark == "none" and row.state in {"synthesizing", "queued", "gpu"}:
                why = "lines are still to come"
            elif mark == "none" and row.state in {"skipped", "lost"}:
                why = "it was never proved"
            lines += _named("", f"{MARKS[mark]} {mark}: {why}", width, "muted")
    if row.derived:
        lines += _named("derived", f"{', '.join(row.derived)}: not printed by this daemon", width)
    return lines


def _figures(row: PartitionRow, frame: Frame, width: int) -> list[Line]:
    """Every figure beside what is usual, what it means, and where in the bracket it lies.

    A narrow window has no room for both of the latter: meanings stand where nothing can be drawn.
    """
    stages = frame.stages
    spans = spans_ms(row)
    total = spans.get("bracket_ms", (0.0, 0.0))[1]
    room = width - FIGURE_CELLS
    words = WORDS if room >= WORDS + LEAST_BAR or not total else 0
    bar = room - words if total and room - words >= LEAST_BAR else 0
    head: list[Span] = [
        (f"{fit('', 22)} {'this':>7} {'p50':>7} {'p95':>7}", "muted"),
    ]
    if bar and total:
        says = "in the bracket, to scale" if bar > 24 else "to scale"
        head.append((fit("", 3 + words) + says, "muted"))
    lines = [clip(head, width)]
    slow = slow_stages(row, stages)
    group = {field: name for name, fields in SOURCE_OF.items() for field in fields}
    for field, name, says in FIGURES:
        value = getattr(row, field)
        usual = stages.get(field)
        sure = row.attribution_by.get(group[field], "none") if field in group else "exact"
        derived = "~" if field in row.derived and value is not None else ""
        late = field in slow
        figure = right(derived + duration(value), 7)
        line: list[Span] = [
            (fit(name, 22) + " ", "text"),
            (figure, "muted" if value is None else "late" if late else "strong"),
            (f" {duration(usual.p50 if usual else None):>7}", "muted"),
            (f" {duration(usual.p95 if usual else None):>7}", "muted"),
            (f" {' ' if value is None else MARKS[sure]} ", "muted"),
        ]
        meaning = ("slow: " if late else "") + says
        drawn = bar and (field in spans or (field == "kernel_ms" and "batch_add_ms" in spans))
        if words or not drawn:
            meaning = fit(meaning, words) if drawn else meaning
            line.append((meaning, "late" if late else "text"))
        if bar and field in spans:
            line += _piece(*spans[field], total, bar - 1, STYLE_OF[field])
        elif bar and field == "kernel_ms" and "batch_add_ms" in spans:
            line += _kernels(spans, total, bar - 1)
        lines.append(clip(line, width))
    return lines


def _kernels(spans: dict[str, tuple[float, float]], total: float, width: int) -> list[Span]:
    """The kernels on both sides of the barrier."""
    cells = [" "] * width
    for field in ("ntt_msm_h_ms", "batch_add_ms", "tail_msm_ms"):
        if field in spans and total > 0:
            lo, hi = spans[field]
            first = min(width - 1, int(lo / total * width + 0.5))
            last = min(width, max(first + 1, int(hi / total * width + 0.5)))
            cells[first:last] = "█" * (last - first)
    return [("".join(cells), "kernel")]


# ------------------------------------------------------------------------- the daemon's own lines


def lines_end(frame: Frame) -> int:
    """The number of the line that came after the frame's: the book itself reads on."""
    if frame.book is None:
        return 0
    return frame.book.span[1] if frame.book_end is None else frame.book_end


def naming(book: Book, end: int, job: str, row: PartitionRow | None) -> tuple[list[bytes], int]:
    """The latest lines before `end` that name a partition (None: a job), and how many the job.

    Lines that name the job and no partition at all are the job's, and so its partitions'.
    """
    raw_job = job.encode("utf-8", "replace")
    of_job = [line for line in book.read(book.span[0], end) if raw_job in line]
    found = of_job
    if row is not None:
        found = [line for line in of_job if names_partition(plain(line), row.partition)]
    return found[-LOG_LINES:], len(of_job)


_PARTITION = re.compile(r"partition=(?:Some\()?(\d+)")


def names_partition(text: str, partition: int | None) -> bool:
    """Whether a line of the right job speaks of `partition`, or of no partition."""
    numbers = _PARTITION.findall(text)
    return not numbers or partition is None or str(partition) in numbers


def log_lines(frame: Frame, job: str, row: PartitionRow | None, width: int) -> list[Line]:
    """The daemon's own lines about a partition, or about a whole job (`row` None)."""
    if frame.book is None:
        return []
    end = lines_end(frame)
    found, of_job = naming(frame.book, end, job, row)
    says = f" that name it: {len(found)}" if found else ""
    if of_job > len(found):
        says += f" ({of_job} name its job)" if row is not None else f", the latest of {of_job}"
    head = "the daemon's own lines"
    lines: list[Line] = [clip((), width), clip(((head, "title"), (says, "muted")), width)]
    if not found:
        kept = max(0, end - frame.book.span[0])
        why = f"none of the {kept} latest lines names it"
        lines.append(clip(((why, "muted"),), width))
    for raw in found:
        lines += wrapped(coloured(raw), width)
    return lines


def wrapped(line: Sequence[Span], width: int, most: int = 6) -> list[Line]:
    """A styled line broken at `width` cells, its second and later lines indented."""
    if width <= 4:
        return [clip(line, max(0, width))]
    out: list[Line] = []
    current: list[Span] = []
    left = width
    for text, style in line:
        rest = text
        while rest:
            taken = _taken(rest, left)
            if not taken:
                out.append(clip(current, width))
                if len(out) >= most:
                    return out
                current, left = [("  ", "text")], width - 2
                continue
            current.append((taken, style))
            left -= width_of(taken)
            rest = rest[len(taken) :]
    out.append(clip(current, width))
    return out


def _taken(text: str, room: int) -> str:
    """As much of the beginning of `text` as fits into `room` cells."""
    if width_of(text[:room]) <= room:
        return text[:room]
    taken = text[:room]
    while taken and width_of(taken) > room:
        taken = taken[:-1]
    return taken
