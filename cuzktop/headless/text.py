"""What `cuzktop snapshot` and `cuzktop report` print for people.

The answer comes first, then the figures that it rests on: text for a terminal without a screen, a
pipe or a ticket. Nothing here is measured or judged; it is all in the frame or the report.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from cuzktop import box, cards, units
from cuzktop.analysis.rows import unplaced_row
from cuzktop.analysis.summary import UNPLACED
from cuzktop.columns import LOCK_STAGES, NOT_PRINTED, PARTITION, STAGE_KEYS, STATE_CELLS
from cuzktop.dataclass import dataclass, field
from cuzktop.frame import (
    NO_WORK,
    Frame,
    Gpu,
    GpuReport,
    Holding,
    Host,
    JobRow,
    Nvml,
    PartitionRow,
    Proofs,
    RunReport,
    Source,
    StageStats,
    Synthesis,
    jobs_left_out,
    jobs_to_show,
)
from cuzktop.headless import blocks
from cuzktop.headless.blocks import Measured, Notes, place
from cuzktop.headless.layout import Field, Page

MAX_SYNTHESES: Final = 16  # enough to see a herd; the JSON has them all
MAX_QUEUED: Final = 8
MAX_JOBS: Final = 12
MAX_RECENT: Final = 8
MAX_SLOWEST: Final = 5
MAX_FAILED: Final = 10
SLOW_SYNTHESIS: Final = 1.5  # times the usual

DERIVED_BEFORE_S41: Final = frozenset({"barrier_wait_ms", "lock_held_ms"})


@dataclass(slots=True)
class RowsTally:
    """What the report's text says about partitions, collected while they stream by.

    Bounded: counts, the slowest `MAX_SLOWEST` brackets and the first `MAX_FAILED` failures.
    """

    states: Counter[str] = field(default_factory=Counter)
    attributions: Counter[str] = field(default_factory=Counter)
    failed: list[PartitionRow] = field(default_factory=list)
    _slowest: list[tuple[int, int, PartitionRow]] = field(default_factory=list)

    def add(self, row: PartitionRow) -> None:
        """Take one partition into account."""
        self.states[row.state] += 1
        if row.state == "done":
            self.attributions[row.attribution] += 1
            if row.bracket_ms is not None:
                # the count breaks ties: rows have no order of their own
                entry = (row.bracket_ms, -self.states["done"], row)
                if len(self._slowest) < MAX_SLOWEST:
                    heapq.heappush(self._slowest, entry)
                else:
                    heapq.heappushpop(self._slowest, entry)
        elif row.state in {"failed", "lost"} and len(self.failed) < MAX_FAILED:
            self.failed.append(row)

    def unplace(self, workers: Collection[int]) -> None:
        """It turned out that these workers may use any of several GPUs."""
        self.failed = [unplaced_row(row, workers) for row in self.failed]
        self._slowest = [
            (took, order, unplaced_row(row, workers)) for took, order, row in self._slowest
        ]

    @property
    def slowest(self) -> list[PartitionRow]:
        """The longest brackets, longest first."""
        return [row for _, _, row in sorted(self._slowest, reverse=True)]


# ---------------------------------------------------------------- snapshot


def snapshot_text(frame: Frame, *, width: int, colour: bool, ascii_only: bool) -> str:
    """One picture as text of at most `width` columns, with a newline at its end."""
    page = Page(width=width, colour=colour, ascii_only=ascii_only)
    notes = Notes()
    blocks.put_verdict(page, frame.verdict)
    page.blank()
    facts = (
        blocks.wall_time(frame.at) or f"{units.duration(frame.now_ms)} into the run",
        f"run {frame.run}",
        f"up {units.age(frame.now_ms)}" if frame.at else "",
        f"daemon {frame.dialect}" if frame.dialect else "daemon of unknown version",
    )
    page.paragraph(page.dot.join(filter(None, facts)), style="faint")
    if frame.source.old:
        ended = units.age(frame.source.silent_ms)
        page.paragraph(f"The log ended {ended} ago: all of this is of then.", style="warn")
    for gpu in frame.gpus:
        _put_gpu(page, notes, frame, gpu)
    if not frame.gpus:
        page.heading("No GPU seen yet")
        page.paragraph(_why_no_lock_times(frame) or "no worker has taken a partition", indent=2)
    _put_syntheses(page, notes, frame)
    _put_queue(page, notes, frame)
    _put_jobs(page, frame)
    if frame.recent:
        page.heading("Finished last", f"newest first, {min(MAX_RECENT, len(frame.recent))} shown")
        blocks.put_partitions(
            page, notes, frame.recent[:MAX_RECENT], lambda key: _why_no_figure(frame, key)
        )
    blocks.put_proofs(page, frame.proofs, _since(frame))
    blocks.put_alerts(
        page, frame.alerts, lambda at_ms: f"{units.age(max(0.0, frame.now_ms - at_ms))} ago"
    )
    if frame.host is not None:
        _put_host(page, frame.host)
    elif frame.host_note:
        page.heading("Host")
        page.paragraph(frame.host_note, label="– ", indent=2)
    _put_status(page, frame)
    notes.put(page)
    blocks.put_source(page, frame.source)
    return page.text()


def _since(frame: Frame) -> str:
    """What the counters cover, where it isn't the whole run."""
    if frame.since_ms <= 0:
        return ""
    return f"of the last {units.age(max(0.0, frame.now_ms - frame.since_ms))}, as far as was read"


def _why_no_lock_times(frame: Frame) -> str:
    """Why lock and kernel times are unknown; empty if the log has what they need."""
    if not frame.source.lines:
        return "nothing of the log has been read"
    if not frame.source.events:
        return "no line of the log comes from cuzk"
    if frame.no_work_yet:
        return NO_WORK
    if not frame.has_timing:
        return blocks.NO_TIMING if frame.has_timeline else blocks.NO_STDERR
    return "" if frame.has_timeline else blocks.NO_TIMELINE


def _why_no_figure(frame: Frame, key: str) -> str:
    """Why no finished partition has the figure `key`."""
    if why := _why_no_lock_times(frame):
        return why
    if key in blocks.PRINTED_FROM_S41:
        return blocks.NOT_IN_THIS_GENERATION
    return "no line of these partitions gives it"


def _workers(page: Page, workers: Sequence[int]) -> str:
    if not workers:
        return ""
    return page.clean(
        f"{'worker' if len(workers) == 1 else 'workers'} {', '.join(map(str, workers))}"
    )


def _put_gpu(page: Page, notes: Notes, frame: Frame, gpu: Gpu) -> None:
    nvml = gpu.nvml
    name = nvml.name if nvml is not None and nvml.name else ""
    title = cards.title(gpu.gpu, gpu.window)
    page.heading(title, _window(frame, gpu), _workers(page, gpu.workers), name)
    measured = None
    if nvml is not None:
        measured = Measured(
            util_pct=nvml.util_pct if nvml.mean_util_pct is None else nvml.mean_util_pct,
            power_w=nvml.power_w if nvml.mean_power_w is None else nvml.mean_power_w,
            power_limit_w=nvml.power_limit_w,
        )
    if gpu.window is not None or measured is not None:
        blocks.put_shares(page, notes, gpu.window, measured)
    for line in blocks.between_steps(gpu.window, measured, gpu.suspects):
        page.paragraph(line, indent=2, style="bad" if line.startswith("suspect") else "")
    if gpu.window is None:
        why = _why_no_lock_times(frame) or "no bracket was open in the window"
        notes.unknown(f"shares of GPU {gpu.gpu}", why)
    elif gpu.window.mixed:
        notes.unknown("shares of each GPU", UNPLACED)
    elif gpu.window.time_pct is None or gpu.window.kernel_pct is None:
        why = _why_no_lock_times(frame) or "lines of this window that would tell are missing"
        notes.unknown("lock, kernel and time shares", why)
    _put_nvml(page, nvml, gpu.nvml_note, cards.card_words(gpu, frame))
    _put_lock(page, notes, frame, gpu)


def _window(frame: Frame, gpu: Gpu) -> str:
    """The window in words; a run younger than the window has a shorter one."""
    asked_ms = frame.window_s * 1000.0
    if gpu.window is not None and gpu.window.span_ms < asked_ms - 50.0:
        return f"last {units.duration(gpu.window.span_ms)}, since its first bracket"
    return f"last {frame.window_s:g} s"


def _put_nvml(page: Page, nvml: Nvml | None, note: str, words: Sequence[str]) -> None:
    """What stands beside the two bars: where they come from, and the card's state."""
    if nvml is None:
        page.paragraph(f"NVML and power: {note or 'not asked'}", label="– ", indent=2)
        return
    state = []
    if nvml.util_source is not None:
        samples = blocks.count(nvml.samples, "sample")
        state.append(f"NVML by {nvml.util_source}, {samples}")
    if nvml.age_ms is not None and nvml.age_ms >= 1000.0:
        state.append(f"{units.age(nvml.age_ms)} old")
    power_w = nvml.power_w if nvml.mean_power_w is None else nvml.mean_power_w
    if power_w is not None:
        limit = "" if nvml.power_limit_w is None else f" of {units.watts(nvml.power_limit_w)}"
        state.append(f"{units.watts(power_w)}{limit}")
    if nvml.sm_clock_mhz is not None:
        state.append(f"{nvml.sm_clock_mhz} MHz")
    if nvml.temperature_c is not None:
        state.append(f"{nvml.temperature_c} °C")
    if nvml.memory_used_bytes is not None:
        total = (
            "" if nvml.memory_total_bytes is None else f" of {units.size(nvml.memory_total_bytes)}"
        )
        state.append(f"memory {units.size(nvml.memory_used_bytes)}{total}")
    if nvml.held_down is not None:
        held = f"held down: {nvml.held_down}" if nvml.held_down else "not held down"
        state.append(f"clocks {held}")
    if nvml.reading is not None and nvml.reading.memory_clock_mhz is not None:
        state.append(f"memory at {nvml.reading.memory_clock_mhz} MHz")
    for told in (state, words):
        if told:
            page.paragraph(page.clean(page.dot.join(told)), indent=2, style="faint")
    if nvml.note:
        page.paragraph(nvml.note, label="– ", indent=2)


def _put_lock(page: Page, notes: Notes, frame: Frame, gpu: Gpu) -> None:
    """Holder on top, those who wait under it, then those who gave the lock back."""
    lock = gpu.lock
    held = ([lock.holder] if lock.holder is not None else []) + list(lock.candidates)
    unsure = lock.confidence == "inferred" or len(held) > 1
    rows: list[tuple[str, Holding]] = []
    for number, holding in enumerate(held):
        rows.append(("or" if number else "held by", holding))
    rows += [("waits", holding) for holding in lock.waiting]
    rows += [("finishing", holding) for holding in lock.finishing]
    if not held:
        why = _why_no_lock_times(frame)
        known = lock.confidence != "none" and not why
        page.put(("  lock  ", "faint"), "free" if known else units.UNKNOWN)
        if not known:
            notes.unknown(f"lock of GPU {gpu.gpu}", why or "the log doesn't tell who holds it")
    if not rows:
        return
    labels = [f"{'lock' if held and not number else '':4}" for number in range(len(rows))]
    page.table(
        (
            Field(texts=labels, styles=["faint"] * len(rows)),
            Field(texts=[what for what, _ in rows], styles=[_WHAT_STYLES[w] for w, _ in rows]),
            Field(
                texts=["–" if h.worker is None else f"worker {h.worker}" for _, h in rows], rank=2
            ),
            Field(
                texts=[place(h.job, h.partition) for _, h in rows],
                flexible=True,
                least=14,
            ),
            Field(
                texts=[units.duration(h.age_ms(frame.now_ms)) for _, h in rows], right=True, rank=1
            ),
            Field(texts=[_doing(what, h) for what, h in rows], rank=3),
        )
    )
    if unsure:
        page.paragraph(
            "which of them holds it is inferred, likeliest first: the log has no line that says so"
            if len(held) > 1
            else "the holder is inferred from the lines around it",
            label=f"{NOT_PRINTED} ",
            indent=2,
            style="faint",
        )


_WHAT_STYLES: Final = {"held by": "good", "or": "good", "waits": "warn", "finishing": "faint"}


def _doing(what: str, holding: Holding) -> str:
    """What a worker is at, as far as its state leaves that open."""
    if what == "waits":
        return "or prepares on the CPU"
    if what == "finishing":
        return "b_g2 and assembly"
    if holding.stage is None:
        return ""
    return LOCK_STAGES.get(holding.stage, holding.stage)


def _put_syntheses(page: Page, notes: Notes, frame: Frame) -> None:
    total = len(frame.syntheses)
    page.heading("Syntheses in flight", _how_many(notes, frame, total))
    shown = frame.syntheses[:MAX_SYNTHESES]
    if not shown:
        return
    ratios = [_ratio(s, frame.now_ms) for s in shown]
    page.table(
        (
            Field(texts=[place(s.job, s.partition) for s in shown], flexible=True),
            Field(texts=[units.duration(s.age_ms(frame.now_ms)) for s in shown], right=True),
            Field(texts=[f"of {units.duration(s.expected_ms)}" for s in shown]),
            Field(
                texts=[page.bar(None if r is None else 100.0 * r, 12) for r in ratios],
                styles=["warn" if r is not None and r > SLOW_SYNTHESIS else "" for r in ratios],
                rank=2,
            ),
            Field(
                texts=[
                    f"{r:.1f} times the usual" if r is not None and r > SLOW_SYNTHESIS else ""
                    for r in ratios
                ],
                styles=["warn"] * len(shown),
                rank=1,
            ),
        )
    )
    if any(s.expected_ms is None for s in shown):
        notes.unknown("usual synthesis time", "no synthesis of that kind has ended yet")
    if total > len(shown):
        rest = frame.syntheses[len(shown) :]
        youngest = min(s.age_ms(frame.now_ms) for s in rest)
        page.put((f"  and {len(rest)} more, the youngest {units.age(youngest)}", "faint"))


def _ratio(synthesis: Synthesis, now_ms: float) -> float | None:
    """Age in terms of the usual time."""
    expected_ms = synthesis.expected_ms
    return synthesis.age_ms(now_ms) / expected_ms if expected_ms else None


def _how_many(notes: Notes, frame: Frame, total: int) -> str:
    """A count of what only TIMELINE lines tell."""
    if total or frame.has_timeline:
        return str(total) if total else "none"
    notes.unknown("syntheses and queue", _why_no_lock_times(frame))
    return units.UNKNOWN


def _put_queue(page: Page, notes: Notes, frame: Frame) -> None:
    total = len(frame.gpu_queue)
    page.heading("Queued for the GPU", _how_many(notes, frame, total))
    shown = frame.gpu_queue[:MAX_QUEUED]
    if not shown:
        return
    page.table(
        (
            Field(texts=[place(q.job, q.partition) for q in shown], flexible=True),
            Field(texts=[f"waits {units.duration(q.age_ms(frame.now_ms))}" for q in shown]),
        )
    )
    if total > len(shown):
        page.put((f"  and {total - len(shown)} more", "faint"))


def _put_jobs(page: Page, frame: Frame) -> None:
    total = len(frame.jobs)
    page.heading("Jobs", str(total) if total else "none seen")
    shown = jobs_to_show(frame.jobs, MAX_JOBS)
    if not shown:
        return
    if total > len(shown):
        ends_told = frame.proofs.completed is not None
        counts = jobs_left_out(frame.jobs, shown, ends_told=ends_told).items()
        words = page.dot.join(f"{count} {what}" for what, count in counts)
        page.put((f"  left out: {words}", "faint"))
    most = max(8, page.width // 3)
    page.table(
        (
            Field(texts=[job.job for job in shown], flexible=True),
            Field(
                texts=["" if job.attempt <= 1 else f"attempt {job.attempt}" for job in shown],
                rank=4,
            ),
            Field(texts=[job.kind or "–" for job in shown], rank=2),
            Field(texts=[units.age(job.age_ms) for job in shown], right=True, rank=1),
            Field(
                texts=[f"{job.done}/{'–' if job.total is None else job.total}" for job in shown],
                right=True,
            ),
            Field(
                texts=[_cells(page, job, most) for job in shown],
                styles=["bad" if job.failed else "" for job in shown],
            ),
            Field(
                texts=["failed" if job.failed else "" for job in shown],
                styles=["bad"] * len(shown),
                rank=3,
            ),
        )
    )
    seen = {state for job in shown for state in job.states}
    if any(job.total is not None and job.total > len(job.states) for job in shown):
        seen.add("pending")
    legend = [
        f"{marks[page.ascii_only]} {state}" for state, marks in STATE_CELLS.items() if state in seen
    ]
    if legend:
        page.paragraph(", ".join(legend), indent=2, style="faint")
    for job in shown:
        if job.failed and job.message:
            page.paragraph(f"{job.job}: {job.message}", indent=2, style="bad", limit=3)


def _cells(page: Page, job: JobRow, most: int) -> str:
    """A cell a partition; partitions that are not known yet are pending."""
    states = list(job.states) + ["pending"] * max(0, (job.total or 0) - len(job.states))
    marks = [STATE_CELLS.get(state, ("?", "?"))[page.ascii_only] for state in states]
    if len(marks) > most:
        return "".join(marks[: most - len(page.ellipsis)]) + page.ellipsis
    return "".join(marks)


def _put_status(page: Page, frame: Frame) -> None:
    """What the daemon itself says; nothing where it wasn't asked."""
    said = frame.status
    if said is None and not frame.status_note:
        return
    page.heading("The daemon's status", "a second opinion on the log")
    if frame.status_note:
        page.paragraph(frame.status_note, label="– ", indent=2)
    if said is None:
        return
    known = box.status_words(said)
    if said.memory_used_bytes is not None:
        used, total = units.size(said.memory_used_bytes), units.size(said.memory_total_bytes)
        known.append(f"memory budget {used} of {total} in use")
    page.paragraph(page.dot.join(known) or "– no figure in it", indent=2)
    for text in box.resident_words(said):
        page.paragraph(page.clean(text), indent=2)


def _put_host(page: Page, host: Host) -> None:
    page.heading("Host")
    known = box.box_words(host)
    page.paragraph(page.dot.join(known) or "– nothing was read", indent=2)
    if host.missing:
        page.paragraph(f"not given here: {page.clean(host.missing)}", label="– ", indent=2)


# ---------------------------------------------------------------- report


def report_text(
    reports: Sequence[RunReport],
    source: Source,
    tallies: Mapping[int, RowsTally],
    *,
    width: int,
    colour: bool,
    ascii_only: bool,
) -> str:
    """The whole log as text of at most `width` columns, with a newline at its end.

    `tallies` has a run's partitions by `RunReport.run`; a run without one has no tables of
    partitions.
    """
    page = Page(width=width, colour=colour, ascii_only=ascii_only)
    notes = Notes()
    if not reports:
        page.put(("No cuzk event in this log.", "strong"))
    if len(reports) > 1:
        _put_runs(page, reports)
    for report in reports:
        tally = tallies.get(report.run, RowsTally())
        if len(reports) == 1 or _brought_work(report, tally):
            page.blank()
            _put_run(page, notes, report, tally, alone=len(reports) == 1)
    notes.put(page)
    blocks.put_source(page, source)
    return page.text()


def _put_runs(page: Page, reports: Sequence[RunReport]) -> None:
    """One line a run, where the log has several."""
    page.put((f"{len(reports)} runs of the daemon, newest last", "strong"))
    page.table(
        (
            Field(title="Run", texts=[str(r.run) for r in reports], right=True),
            Field(title="Started", texts=[blocks.wall_time(r.started) or "–" for r in reports]),
            Field(title="Long", texts=[units.duration(r.span_ms) for r in reports], right=True),
            Field(
                title="Completed",
                texts=[units.count(r.proofs.completed) for r in reports],
                right=True,
            ),
            Field(
                title="Failed",
                texts=[units.count(r.proofs.failed) for r in reports],
                right=True,
                rank=2,
            ),
            Field(
                title="Lost",
                texts=[units.count(r.proofs.lost) for r in reports],
                right=True,
                rank=3,
            ),
            Field(
                title="s/proof",
                texts=[
                    "–" if (pace := r.proofs.seconds_per_proof) is None else f"{pace:.1f}"
                    for r in reports
                ],
                right=True,
                rank=1,
            ),
            Field(title="Limit", texts=[r.verdict.bottleneck for r in reports]),
            Field(title="Daemon", texts=[r.dialect or "–" for r in reports], rank=4),
        )
    )


def _jobs(proofs: Proofs) -> int:
    return sum(
        count or 0 for count in (proofs.completed, proofs.failed, proofs.in_flight, proofs.lost)
    )


def _brought_work(report: RunReport, tally: RowsTally) -> bool:
    """Whether a run has more to tell than its line in the table of runs."""
    return bool(report.gpus or report.alerts or tally.states or _jobs(report.proofs))


def _put_run(page: Page, notes: Notes, report: RunReport, tally: RowsTally, *, alone: bool) -> None:
    facts = page.dot.join(
        part
        for part in (
            f"Run {report.run}",
            f"started {blocks.wall_time(report.started)}" if report.started else "start not in log",
            "" if report.span_ms is None else f"{units.duration(report.span_ms)} long",
            f"daemon {report.dialect}" if report.dialect else "daemon of unknown version",
        )
        if part
    )
    if alone:
        blocks.put_verdict(page, report.verdict)
        page.blank()
        page.put((facts, "faint"))
    else:
        page.put((facts, "strong"))
        blocks.put_verdict(page, report.verdict)
    if not _jobs(report.proofs) and not report.gpus and not tally.states:
        page.put("  no job came")
    blocks.put_proofs(page, report.proofs, _states(tally))
    for gpu in report.gpus:
        _put_gpu_report(page, notes, gpu)
    derived = any(gpu.shares.lock_derived for gpu in report.gpus)
    _put_stages(page, notes, report.stages, derived=derived)
    why = blocks.NOT_IN_THIS_GENERATION if derived else "no line of these partitions gives it"
    if tally.slowest:
        page.heading("Longest brackets", _owners(tally))
        blocks.put_partitions(
            page,
            notes,
            tally.slowest,
            lambda key: why if key in blocks.PRINTED_FROM_S41 else "not in these partitions' lines",
        )
    if tally.failed:
        lost = tally.states["failed"] + tally.states["lost"] - len(tally.failed)
        page.heading("Failed and lost partitions", f"{lost} more in --json" if lost else "")
        _put_failed(page, tally.failed)
    blocks.put_alerts(page, report.alerts, lambda at_ms: f"at {units.duration(at_ms)}")
    if report.settings:
        page.heading("Settings")
        said = page.dot.join(f"{name} {value}" for name, value in report.settings.items())
        page.paragraph(said, indent=2, limit=8)


def _states(tally: RowsTally) -> str:
    """How many partitions ended how."""
    if not tally.states:
        return ""
    states = [f"{tally.states[state]} {state}" for state in STATE_CELLS if tally.states[state]]
    return "partitions: " + ", ".join(states)


def _owners(tally: RowsTally) -> str:
    """How sure the owners of the anonymous lines are."""
    done = tally.attributions.total()
    return f"owner of the timing lines exact for {tally.attributions['exact']} of {done}"


def _put_failed(page: Page, rows: Sequence[PartitionRow]) -> None:
    keys = ("job", "attempt", "partition", "state", "worker", "gpu")
    page.table(
        Field(
            title=PARTITION[key].title,
            texts=[PARTITION[key].text(row) for row in rows],
            right=PARTITION[key].right,
            flexible=key == "job",
            styles=["bad"] * len(rows) if key == "state" else (),
        )
        for key in keys
    )


def _put_gpu_report(page: Page, notes: Notes, gpu: GpuReport) -> None:
    over = f"{units.duration(gpu.shares.span_ms)} from first GPU_START to last GPU_END"
    page.heading(cards.title(gpu.gpu, gpu.shares), over, _workers(page, gpu.workers))
    measured = None
    if gpu.nvml_util_pct is not None or gpu.nvml_power_w is not None:
        measured = Measured(util_pct=gpu.nvml_util_pct, power_w=gpu.nvml_power_w)
    blocks.put_shares(page, notes, gpu.shares, measured)
    for line in blocks.between_steps(gpu.shares, measured, gpu.suspects):
        page.paragraph(line, indent=2, style="bad" if line.startswith("suspect") else "")
    if gpu.shares.bracket_sum_pct is not None:
        page.paragraph(
            f"brackets add up to {units.percent(gpu.shares.bracket_sum_pct)} %: what grep | awk "
            "gives; they overlap, and none of them is kernel time",
            indent=2,
            style="faint",
        )
    if gpu.gap_count is not None:
        page.paragraph(blocks.gaps(gpu.gap_count, gpu.gap_mean_ms), indent=2, style="faint")
    if measured is None:
        page.paragraph(
            "NVML and power: no samples of this time (--samples FILE takes nvidia-smi's CSV)",
            label="– ",
            indent=2,
            style="faint",
        )
    else:
        samples = blocks.count(gpu.nvml_samples, "sample")
        page.paragraph(
            f"NVML by {gpu.nvml_source or 'unknown source'}, {samples}", indent=2, style="faint"
        )
    if gpu.shares.mixed:
        notes.unknown("shares of each GPU", UNPLACED)
    elif gpu.shares.kernel_pct is None:
        notes.unknown(
            f"lock, kernel and time shares of GPU {gpu.gpu}",
            "the log has no CUZK_TIMING lines for them",
        )


def _put_stages(
    page: Page, notes: Notes, stages: Mapping[str, StageStats], *, derived: bool
) -> None:
    """Percentiles of each stage, in the order of a partition's life."""
    keys = [key for key in STAGE_KEYS if key in stages]
    if not keys:
        return
    page.heading("Stages of a partition", "finished ones, cold first calls left out")
    marks = [NOT_PRINTED if derived and key in DERIVED_BEFORE_S41 else "" for key in keys]
    notes.derived = notes.derived or any(marks)
    figures = [stages[key] for key in keys]

    def column(title: str, values: list[float]) -> Field:
        texts = [mark + units.duration(value) for mark, value in zip(marks, values, strict=True)]
        return Field(title=title, texts=texts, right=True)

    page.table(
        (
            Field(title="Stage", texts=[PARTITION[key].title for key in keys]),
            Field(title="Count", texts=[str(s.count) for s in figures], right=True, rank=2),
            column("p50", [s.p50 for s in figures]),
            column("p95", [s.p95 for s in figures]),
            column("max", [s.max for s in figures]),
            Field(
                texts=[PARTITION[key].about for key in keys], rank=3, styles=["faint"] * len(keys)
            ),
        )
    )
    missing = [PARTITION[key].title for key in blocks.PRINTED_FROM_S41 if key not in stages]
    if derived and missing:
        for title in missing:
            notes.unknown(title, blocks.NOT_IN_THIS_GENERATION)
