"""View 4: how far each proof is: its partitions as cells, and when it will be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from textual import events

from cuzktop.frame import Frame, JobRow, PartitionRow
from cuzktop.tui.details import log_lines
from cuzktop.tui.messages import PartitionOpened, Selected, TextOpened
from cuzktop.tui.rows import PartitionKey, key_of, next_where
from cuzktop.tui.views.base import Searching, View
from cuzktop.tui.views.partitions import Table, draw_head, draw_rows, shape_for
from cuzktop.tui.widgets.cells import (
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
    wrap,
)
from cuzktop.tui.widgets.empty import reason, sentence
from cuzktop.tui.widgets.jobs import CELLS, summary
from cuzktop.tui.widgets.legend import legend
from cuzktop.units import age, duration

JobKey = tuple[str, int]

MOST_CELLS = 32  # partitions that a row shows; more are counted behind it
NAME_LEAST, NAME_MOST = 12, 40
SPACED = 120  # cells from which partitions stand apart
PANE = 24  # rows from which the selected job's partitions stand under the list


def key(job: JobRow) -> JobKey:
    """What a job is known by."""
    return (job.job, job.attempt)


def in_order(frame: Frame) -> list[JobRow]:
    """Those in flight, oldest first; then all that ended and are kept, newest first."""
    jobs = (*frame.older_jobs, *frame.jobs)
    flying = [job for job in jobs if not _ended(job)]
    return flying + [job for job in reversed(jobs) if _ended(job)]


def _ended(job: JobRow) -> bool:
    """Whether nothing of it goes on; a failed job's partitions may still be on their way."""
    going = {"synthesizing", "queued", "gpu"}
    if job.failed:
        return not going & set(job.states)
    return job.is_over or "lost" in job.states


def ends_of(frame: Frame) -> Mapping[JobKey, list[int]]:
    """When the partitions of each job were done, earliest first."""
    ends: dict[JobKey, list[int]] = {}
    for row in reversed(frame.recent):
        if row.state == "done" and row.bracket_end_ms is not None:
            ends.setdefault((row.job, row.attempt), []).append(row.bracket_end_ms)
    for found in ends.values():
        found.sort()
    return ends


def left_ms(job: JobRow, frame: Frame, ends: Sequence[int]) -> float | None:
    """The time until the job is done, at the pace of its partitions so far.

    None with fewer than two done: one is no pace. What is still in synthesis, or before it, takes
    the usual time for that at least. 0 when it is overdue.
    """
    if job.total is None or job.failed or job.done >= job.total or len(ends) < 2:
        return None
    pace = (ends[-1] - ends[0]) / (len(ends) - 1)
    left = ends[-1] + pace * (job.total - job.done) - frame.now_ms
    usual = 0.0
    for synthesis in frame.syntheses:
        if synthesis.job == job.job and synthesis.expected_ms is not None:
            usual = synthesis.expected_ms
            left = max(left, usual - synthesis.age_ms(frame.now_ms))
    if "pending" in job.states:
        left = max(left, usual)
    return max(0.0, left)


def partitions_of(frame: Frame, job: JobRow) -> list[PartitionRow]:
    """The job's partitions in order; one of which nothing is known yet has its state alone."""
    rows = sorted(
        (row for row in (*frame.in_flight, *frame.recent) if key_of(row)[:2] == key(job)),
        key=lambda row: -1 if row.partition is None else row.partition,
    )
    if len(rows) >= len(job.states):
        return rows
    if job.total != len(job.states):
        return rows  # which of them the others are can't be told
    known = {row.partition: row for row in rows}
    return [
        known.get(number)
        or PartitionRow(
            job=job.job, attempt=job.attempt, partition=number, kind=job.kind, state=state
        )
        for number, state in enumerate(job.states)
    ]


# ---------------------------------------------------------------------------------------- drawing


def _state(job: JobRow) -> tuple[str, str]:
    if "lost" in job.states:
        return "lost", "warn"
    if job.failed:
        return "failed", "error"
    if job.is_over:
        return "done", "good"
    return ("running", "text") if _begun(job) else ("waiting", "muted")


def _begun(job: JobRow) -> bool:
    """Whether one of its partitions has."""
    return any(state != "pending" for state in job.states)


def _time(job: JobRow) -> str:
    """How long it has waited or run, or took: what its state says."""
    return f"took {age(job.age_ms)}" if _ended(job) else age(job.age_ms)


class Widths:
    """Columns of the list at one width."""

    __slots__ = ("age", "bar", "cells", "kind", "name", "spaced", "state")

    def __init__(self, width: int, jobs: Sequence[JobRow]) -> None:
        """For `jobs`, as far as they go into `width`."""
        longest = max(
            (width_of(clean(job.job)) + (2 if job.attempt > 1 else 0) for job in jobs), default=0
        )
        count = max((len(job.states) for job in jobs), default=0)
        self.spaced = width >= SPACED and count <= 16
        self.kind = 13 if width >= 100 else 0
        self.state = 10 if width >= 72 else 0
        self.age = 11  # "took 12m05" and a blank
        fixed = 1 + 1 + 7 + 8 + self.age + self.state + self.kind
        wanted = min(count, MOST_CELLS) * (2 if self.spaced else 1)
        self.name = max(3, min(longest, NAME_MOST, max(NAME_LEAST, width - fixed - wanted - 9)))
        self.cells = max(1, min(wanted, width - fixed - self.name)) if wanted else 0
        left = width - fixed - self.name - self.cells - 1
        self.bar = min(left, 40) if left >= 6 else 0


def _row(
    job: JobRow,
    widths: Widths,
    width: int,
    *,
    left: float | None,
    selected: bool,
    cell: int | None,
    found: bool,
) -> Line:
    word, word_style = _state(job)
    over = _ended(job)
    name_style = "error" if job.failed else "muted" if over else "text"
    spans: list[Span] = [
        (label(job.job, None, widths.name, job.attempt), "find" if found else name_style),
        (" ", "text"),
    ]
    if widths.kind:
        spans.append((fit(job.kind or "–", widths.kind), "muted"))
    if widths.state:
        spans.append((fit(word, widths.state), word_style))
    step = 2 if widths.spaced else 1
    room = widths.cells // step
    for at, state in enumerate(job.states[:room]):
        glyph, style, _name = CELLS.get(state, ("?", "warn", state))
        here = selected and cell == at
        spans.append((glyph, "find" if here else style))
        if widths.spaced:
            spans.append((" ", "text"))
    spans.append((" " * (widths.cells - step * min(room, len(job.states))), "text"))
    total = "?" if job.total is None else str(job.total)
    spans.append((right(f"{job.done}/{total}", 7) + " ", "text"))
    if widths.bar:
        share = None if not job.total else 100.0 * job.done / job.total
        style = "late" if job.failed else "section" if over else "kernel"
        spans += [bar(share, widths.bar, style), (" ", "text")]
    until = "" if over or job.failed else "–" if left is None else f"≈{age(left)}"
    spans.append((right(until, 7), "muted" if left is None else "strong"))
    spans.append((right(_time(job), widths.age), "muted"))
    line = clip(spans, width)
    if not selected:
        return line
    return tuple((text, style if style == "find" else "selected") for text, style in line)


def _head(widths: Widths, width: int) -> Line:
    head = fit("JOB", widths.name) + " "
    if widths.kind:
        head += fit("kind", widths.kind)
    if widths.state:
        head += fit("state", widths.state)
    head += fit("partitions", widths.cells) + right("done", 7) + " "
    if widths.bar:
        head += fit("", widths.bar) + " "
    return clip(
        ((head, "muted"), (right("left", 7), "muted"), (right("time", widths.age), "muted")), width
    )


def matches(job: JobRow, text: str) -> bool:
    """Whether a search finds the job."""
    words = f"{job.job}#{job.attempt} {job.kind or ''} {_state(job)[0]} {job.message}"
    return text.casefold() in words.casefold()


def draw_jobs_view(
    frame: Frame,
    width: int,
    height: int,
    *,
    top: int = 0,
    selected: JobKey | None = None,
    cell: int | None = None,
    search: str = "",
    focused: bool = True,
) -> list[Line]:
    """Title, jobs from `top` on with failures under them, and the partitions of one job."""
    if width <= 0 or height <= 0:
        return []
    jobs = in_order(frame)
    heading = 1 if height >= 3 else 0
    if not jobs:
        why = reason(frame, "no proof was asked for yet", brief=False)
        lines = [title("JOBS", width, focused=focused)] if heading else []
        return lines + sentence(why, width, height - heading)
    widths = Widths(width, jobs)
    head = [_head(widths, width)] if height >= 4 else []
    pane = pane_rows(frame, height, jobs, selected)
    signs = 1 if height >= 12 else 0
    room = height - heading - len(head) - pane - signs
    ends = ends_of(frame)
    body: list[Line] = []
    shown = 0
    for job in jobs[top:]:
        if len(body) >= room:
            break
        shown += 1
        chosen = key(job) == selected
        body.append(
            _row(
                job,
                widths,
                width,
                left=left_ms(job, frame, ends.get(key(job), ())),
                selected=chosen,
                cell=cell,
                found=bool(search) and matches(job, search),
            )
        )
        if job.message:
            rest = max(1, width - 4)
            body += [
                clip(((f"  {'✗' if at == 0 else ' '} {text}", "error"),), width)
                for at, text in enumerate(wrap(job.message, rest, rest, 2))
            ]
    lines = head + body[:room]
    if heading:
        end = f"{top + 1} to {top + shown} of {len(jobs)}" if shown < len(jobs) else ""
        if search:
            end = f"/{clean(search)}: {sum(matches(job, search) for job in jobs)} found"
        lines.insert(0, title("JOBS", width, detail=summary(frame), end=end, focused=focused))
    blank: Line = ((" " * width, "text"),)
    lines += [blank] * (height - len(lines) - pane - signs)
    if pane:
        lines += _pane(frame, jobs, selected, cell, width, pane)
    if signs:
        lines.append(_legend(width))
    return lines[:height]


def pane_rows(frame: Frame, height: int, jobs: Sequence[JobRow], selected: JobKey | None) -> int:
    """Rows under the list for the partitions of one job: none where the list needs all."""
    if height < PANE or not jobs:
        return 0
    job = next((job for job in jobs if key(job) == selected), jobs[0])
    return min(2 + max(1, len(partitions_of(frame, job))), height // 2)


def _pane(
    frame: Frame,
    jobs: Sequence[JobRow],
    selected: JobKey | None,
    cell: int | None,
    width: int,
    height: int,
) -> list[Line]:
    job = next((job for job in jobs if key(job) == selected), jobs[0])
    rows = partitions_of(frame, job)
    attempt = f", attempt {job.attempt}" if job.attempt > 1 else ""
    detail = f"{clean(job.job)}{attempt}"
    lines = [title("PARTITIONS", width, detail=detail)]
    if not rows:
        return lines + sentence("none of them has begun", width, height - 1)
    chosen = rows[cell] if cell is not None and cell < len(rows) else None
    table = Table(selected=None if chosen is None else key_of(chosen))
    shape = shape_for(frame, rows, table, width)
    room = height - 2
    first = 0 if cell is None else max(0, min(cell - room + 1, len(rows) - room))
    lines.append(draw_head(shape, table, width))
    lines += draw_rows(frame, rows[first : first + room], shape, table, width)
    return lines + [((" " * width, "text"),)] * (height - len(lines))


def _legend(width: int) -> Line:
    return clip(legend(list(CELLS.values()), width)[0], width)


def job_details(job: JobRow, frame: Frame, width: int) -> list[Line]:
    """All about one job: facts, failure, partitions, and the daemon's lines that name it."""
    word, style = _state(job)
    ends = ends_of(frame).get(key(job), [])
    left = left_ms(job, frame, ends)
    total = "?" if job.total is None else str(job.total)
    facts: list[tuple[str, str, str]] = [
        ("job", clean(job.job), "text"),
        ("attempt", f"{job.attempt}, {job.kind or 'kind unknown'}", "text"),
        ("state", f"{word}, {job.done} of {total} partitions done", style),
        ("took" if _ended(job) else word, duration(job.age_ms), "text"),
    ]
    if not _ended(job):
        says = "not known before two partitions are done"
        if left is not None:
            pace = (ends[-1] - ends[0]) / (len(ends) - 1)
            says = f"about {age(left)}, at {duration(pace)} a partition"
        facts.append(("left", says, "text"))
    if job.message:
        facts.append(("failure", job.message, "error"))
    lines: list[Line] = []
    room = max(8, width - 11)
    for name, text, tone in facts:
        lines += [
            clip(((f"{name if at == 0 else '':<10} ", "muted"), (part, tone)), width)
            for at, part in enumerate(wrap(text, room, room, 8))
        ]
    rows = partitions_of(frame, job)
    if rows:
        table = Table()
        shape = shape_for(frame, rows, table, width)
        lines += [clip((), width), draw_head(shape, table, width)]
        lines += draw_rows(frame, rows, shape, table, width)
    return lines + log_lines(frame, job.job, None, width)


# --------------------------------------------------------------------------------------- the view


class JobsView(View, Searching):
    """Question 4, in full."""

    number: ClassVar[int] = 4
    view: ClassVar[str] = "jobs"

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002 - Textual's word
        """Begin at the oldest in flight, nothing selected."""
        super().__init__(ascii_only=ascii_only, id=id)
        self.job: JobKey | None = None
        self.cell: int | None = None
        self.top = 0
        self._search = ""
        self._origin: JobKey | None = None  # where a search begins

    # ------------------------------------------------------------ drawing

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        """See `draw_jobs_view`."""
        jobs = in_order(frame)
        at = self._position(jobs)
        if at is None:
            self.top = 0
        else:
            head = 0 if height < 3 else 1 if height < 4 else 2
            signs = 1 if height >= 12 else 0
            room = max(1, height - head - signs - pane_rows(frame, height, jobs, self.job))
            self.top = min(self.top, at)
            first, rows = at, _rows_of(jobs[at], width)
            while first > self.top and (rows := rows + _rows_of(jobs[first - 1], width)) <= room:
                first -= 1
            self.top = min(first, _last_top(jobs, width, room))
        return draw_jobs_view(
            frame,
            width,
            height,
            top=self.top,
            selected=self.job,
            cell=self.cell,
            search=self._search,
            focused=self.has_focus,
        )

    def _position(self, jobs: Sequence[JobRow]) -> int | None:
        return next((at for at, job in enumerate(jobs) if key(job) == self.job), None)

    # ------------------------------------------------------------ selection

    def follow(self, chosen: PartitionKey | None) -> None:
        """Select the job, and the partition, that were selected elsewhere."""
        self.job = None if chosen is None else chosen[:2]
        self.cell = None
        if chosen is not None:
            job = next((job for job in in_order(self.frame) if key(job) == self.job), None)
            if job is not None:
                rows = partitions_of(self.frame, job)
                self.cell = next((at for at, r in enumerate(rows) if key_of(r) == chosen), None)
        self.redraw()

    def select(self, at: int, cell: int | None = None) -> None:
        """Select a job by its place in the list, and one of its partitions."""
        jobs = in_order(self.frame)
        if not jobs:
            return
        job = jobs[max(0, min(len(jobs) - 1, at))]
        self.job = key(job)
        self.cell = None
        number: int | None = None
        if cell is not None and job.states:
            self.cell = max(0, min(len(job.states) - 1, cell))
            rows = partitions_of(self.frame, job)
            number = rows[self.cell].partition if self.cell < len(rows) else None
        self.post_message(Selected((*self.job, number)))
        self.redraw()

    def move(self, by: int) -> None:
        """Select the job `by` rows further down."""
        at = self._position(in_order(self.frame))
        self.select(0 if at is None else at + by, self.cell)

    def _sideways(self, by: int) -> None:
        at = self._position(in_order(self.frame))
        if at is None:
            self.select(0, 0)
        else:
            self.select(at, 0 if self.cell is None else self.cell + by)

    def do_right(self) -> None:
        """The next partition of the job."""
        self._sideways(1)

    def do_left(self) -> None:
        """The partition before."""
        self._sideways(-1)

    def do_row_first(self) -> None:
        """The first job."""
        self.select(0, self.cell)

    def do_row_last(self) -> None:
        """The last job."""
        self.select(len(in_order(self.frame)) - 1, self.cell)

    def do_let_go(self) -> None:
        """Let go of the partition, of the job, of the search."""
        if self.cell is not None:
            self.cell = None
        elif self.job is not None:
            self.job = None
            self.post_message(Selected(None))
        else:
            self._search = ""
        self.redraw()

    def do_details(self) -> None:
        """Open the selected partition, or its job."""
        jobs = in_order(self.frame)
        if not jobs:
            return
        job = jobs[self._position(jobs) or 0]
        rows = partitions_of(self.frame, job)
        if self.cell is not None and self.cell < len(rows):
            self.post_message(PartitionOpened(rows[self.cell]))
        else:
            self.post_message(TextOpened("Job", partial(job_details, job, self.frame)))

    def _jump(self, fits: Sequence[bool], by: int, nothing: str) -> None:
        at = next_where(fits, self._position(in_order(self.frame)), by)
        if at is None:
            self.say(nothing)
        else:
            self.select(at)

    def _next_failure(self, by: int) -> None:
        fits = [job.failed or "lost" in job.states for job in in_order(self.frame)]
        self._jump(fits, by, "no job here has failed")

    def do_next_failure(self) -> None:
        """The next job that failed."""
        self._next_failure(1)

    def do_previous_failure(self) -> None:
        """The one before."""
        self._next_failure(-1)

    # ------------------------------------------------------------ search

    @property
    def search_text(self) -> str:
        """What is searched for."""
        return self._search

    def begin_search(self) -> None:
        """Search from the selected job."""
        self._origin = self.job

    def search(self, text: str) -> None:
        """Mark what is found, and select the first from here on."""
        self._search = text
        self.job = self._origin
        jobs = in_order(self.frame)
        at = self._position(jobs)
        start = (0 if at is None else at) - 1
        found = next_where([matches(job, text) for job in jobs], start, 1) if text else None
        if found is not None:
            self.select(found)
        self.redraw()

    def next_match(self, by: int) -> None:
        """See `Searching`."""
        text = self._search
        if not text:
            self.say("nothing to search for: / asks")
            return
        fits = [matches(job, text) for job in in_order(self.frame)]
        self._jump(fits, by, f"{clean(text)}: not found")

    # ------------------------------------------------------------ mouse, clipboard

    def on_click(self, event: events.Click) -> None:
        """Select the job, or the partition, under the pointer; a second click opens it."""
        height, width = self.size.height, self.size.width
        jobs = in_order(self.frame)
        if not jobs:
            return
        y = event.y - (0 if height < 3 else 1 if height < 4 else 2)
        at = self.top
        while at < len(jobs) and y >= 0:
            rows = _rows_of(jobs[at], width)
            if y < rows:
                widths = Widths(width, jobs)
                x = event.x - widths.name - 1 - widths.kind - widths.state
                step = 2 if widths.spaced else 1
                on_cell = y == 0 and 0 <= x < min(widths.cells, step * len(jobs[at].states))
                self.select(at, x // step if on_cell else None)
                if event.chain == 2:
                    self.do_details()
                return
            y -= rows
            at += 1

    def copy_text(self) -> str:
        """The selected job on one line."""
        jobs = in_order(self.frame)
        at = self._position(jobs)
        if at is None:
            return ""
        job = jobs[at]
        words = [
            f"job={clean(job.job)} attempt={job.attempt} kind={job.kind} state={_state(job)[0]}",
            f"done={job.done} total={job.total} states={','.join(job.states)}",
        ]
        if job.message:
            words.append(f"message={clean(job.message)}")
        return " ".join(words)


def _last_top(jobs: Sequence[JobRow], width: int, room: int) -> int:
    """The first of the jobs that fill the last page: from a later one on, room would be left."""
    first, rows = len(jobs), 0
    while first > 0 and (rows := rows + _rows_of(jobs[first - 1], width)) <= room:
        first -= 1
    return first


def _rows_of(job: JobRow, width: int) -> int:
    """Rows that a job takes, its failure included."""
    rest = max(1, width - 4)
    return 1 + (len(wrap(job.message, rest, rest, 2)) if job.message else 0)
