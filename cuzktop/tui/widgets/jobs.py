"""Each job's partitions as a row of cells."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

from cuzktop.frame import Frame, JobRow, jobs_left_out, jobs_to_show
from cuzktop.tui.messages import ViewWanted
from cuzktop.tui.widgets.cells import Line, Span, clean, clip, fit, label, right, title, width_of
from cuzktop.tui.widgets.empty import blind, reason, sentence
from cuzktop.tui.widgets.lines import Lines
from cuzktop.units import age, duration

# state: its cell, its style, its name in the legend
CELLS = {
    "pending": (".", "muted", "pending"),
    "synthesizing": ("s", "synth", "synthesis"),
    "queued": ("q", "starved", "queued"),
    "gpu": ("G", "kernel", "on the GPU"),
    "done": ("✓", "good", "done"),
    "failed": ("F", "error", "failed"),
    "skipped": ("-", "muted", "skipped"),
    "lost": ("?", "warn", "lost"),
}
ON_THEIR_WAY = (
    ("pending", "pending"),
    ("synthesizing", "synth"),
    ("queued", "queue"),
    ("gpu", "GPU"),
)
COUNTS = 14  # " 10/10", an age, a mark and the blanks between


def summary(frame: Frame) -> str:
    """Counts of proofs, and the time that one takes over all that are done."""
    proofs = frame.proofs
    if proofs.completed is None:
        return "no standard output: not told what is done"
    parts = [f"{proofs.in_flight} in flight", f"{proofs.completed} done"]
    if proofs.failed:
        parts.append(f"{proofs.failed} failed")
    if proofs.lost:
        parts.append(f"{proofs.lost} lost")
    if proofs.seconds_per_proof is not None:
        parts.append(f"{duration(1000 * proofs.seconds_per_proof)} a proof over {proofs.completed}")
    return " · ".join(parts)


def draw_jobs(frame: Frame, width: int, height: int) -> list[Line]:
    """Title with the counts, then a row of cells for each job, in columns where they fit."""
    if width <= 0 or height <= 0:
        return []
    jobs = frame.jobs
    if not jobs and blind(frame):
        return [title("JOBS", width), *sentence(reason(frame, "none"), width, height - 1)]
    detail = summary(frame)
    legend = _legend(width - width_of(detail) - 9)
    lines = [title("JOBS", width, detail=detail, end=legend)]
    room = height - 1
    if not jobs:
        return lines + sentence(reason(frame, "no job yet"), width, room)
    cells = max(1, min(max(len(job.states) for job in jobs), max(1, width - COUNTS - 12)))
    longest = min(40, max(width_of(clean(job.job)) + (2 if job.attempt > 1 else 0) for job in jobs))
    # Another column is worth more than whole job ids, as long as their ends can be told apart; but
    # not if all that is in flight can be shown with whole ids.
    wanted = max(1, -(-len(jobs) // max(1, room)))
    columns = max(1, min((width + 1) // (cells + COUNTS + longest), wanted))
    if room * columns <= sum(not job.is_over for job in jobs):
        columns = max(1, min((width + 1) // (cells + COUNTS + 9), wanted))
    column = width // columns
    fitting = room * columns
    shown = jobs_to_show(jobs, fitting - 1 if len(jobs) > fitting > 1 else fitting)
    name_width = max(3, min(longest, column - cells - COUNTS))
    blocks = [_job(job, name_width, cells, column) for job in shown]
    if len(shown) < len(jobs) and len(blocks) < room * columns:
        blocks.append(clip(((_left_out(frame, shown, column), "muted"),), column))
    rows = -(-len(blocks) // columns)
    for y in range(rows):
        spans = [span for block in blocks[y::rows] for span in block]
        lines.append(clip(spans, width))
    return lines[:height]


def _left_out(frame: Frame, shown: Sequence[JobRow], width: int) -> str:
    """How many aren't shown, in the words that fit."""
    counts = jobs_left_out(frame.jobs, shown, ends_told=frame.proofs.completed is not None)
    words = ", ".join(f"+{count} {what}" for what, count in counts.items())
    return words if width_of(words) <= width else f"+{len(frame.jobs) - len(shown)} more"


@lru_cache(maxsize=16)
def _legend(room: int) -> str:
    """What the cells mean, as far as there is room: of all, or of those on their way."""
    words = "  ".join(f"{glyph} {name}" for glyph, _style, name in CELLS.values())
    short = " ".join(f"{CELLS[state][0]} {name}" for state, name in ON_THEIR_WAY)
    return words if width_of(words) <= room else short if width_of(short) <= room else ""


@lru_cache(maxsize=128)
def _cells(
    job: str, attempt: int, states: tuple[str, ...], style: str, name_width: int, cells: int
) -> Line:
    """A job's name and its partitions: neither grows older from picture to picture."""
    spans: list[Span] = [(label(job, None, name_width, attempt), style), (" ", "text")]
    for state, run in groupby(states[:cells]):
        cell, cell_style, _name = CELLS.get(state, ("?", "warn", state))
        spans.append((cell * len(list(run)), cell_style))
    spans.append((" " * (cells - len(states)), "text"))
    return tuple([span for span in spans if span[0]])


def _job(job: JobRow, name_width: int, cells: int, width: int) -> Line:
    over = job.is_over
    style = "error" if job.failed else "muted" if over else "text"
    spans = list(_cells(job.job, job.attempt, job.states, style, name_width, cells))
    total = "?" if job.total is None else str(job.total)
    spans.append((right(f"{job.done}/{total}", 6), "text"))
    spans.append((right(age(job.age_ms), 6), "muted"))
    spans.append(("✗" if job.failed else " ", "error"))
    used = name_width + cells + COUNTS
    if job.message and width - used > 8:
        spans.append((fit(f" {clean(job.message)}", width - used), "error"))
    elif width - used > 8:
        begun = any(state != "pending" for state in job.states)
        spans.append(("in all" if over else "running" if begun else "waiting", "muted"))
    return clip(spans, width)


class JobsPanel(Lines):
    """Question 4, second half: how far each proof is."""

    def made_of(self, frame: Frame) -> object:
        """See `Lines`."""
        return (frame.jobs, frame.proofs) if frame.jobs else frame

    def on_click(self) -> None:
        """Show all jobs."""
        self.post_message(ViewWanted("jobs"))

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        """See `draw_jobs`."""
        return draw_jobs(frame, width, height)
