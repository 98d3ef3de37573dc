"""Windows over the picture: help, and all figures of one partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from cuzktop.frame import Frame, PartitionRow, StageStats
from cuzktop.tui.keys import KEYS
from cuzktop.tui.widgets.cells import CLASS_GLYPHS, CLASS_TITLES, clean, fit, right, to_ascii, wrap
from cuzktop.tui.widgets.jobs import CELLS
from cuzktop.tui.widgets.partitions import MARKS
from cuzktop.tui.widgets.verdict import LEVELS, certainty
from cuzktop.units import age, duration

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
    ("b_g2_msm_ms", "  b_g2", "CPU work after the lock"),
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


class Window(ModalScreen[None]):
    """Text in a frame that scrolls; Esc, q or the key that opened it close it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark", "dismiss", "Close", show=False),
        Binding("j", "scroll('down')", show=False),
        Binding("k", "scroll('up')", show=False),
        Binding("g", "scroll('home')", show=False),
        Binding("G", "scroll('end')", show=False),
    ]

    def __init__(self, heading: str, lines: Sequence[str], *, ascii_only: bool = False) -> None:
        """Show `lines`, which never go through markup, under `heading`."""
        super().__init__()
        self.ascii_only = ascii_only
        self.heading = heading
        self.text = "\n".join(lines)

    def compose(self) -> ComposeResult:
        """The frame and the text in it."""
        to_text = to_ascii if self.ascii_only else str
        with VerticalScroll(id="window") as window:
            window.border_title = Text(to_text(self.heading)).markup
            window.border_subtitle = "Esc closes"
            yield Static(Text(to_text(self.text), no_wrap=True, overflow="ellipsis"))

    def action_scroll(self, where: str) -> None:
        """Scroll the text: down, up, home or end."""
        window = self.query_one("#window", VerticalScroll)
        if where == "down":
            window.scroll_down(animate=False)
        elif where == "up":
            window.scroll_up(animate=False)
        elif where == "home":
            window.scroll_home(animate=False)
        else:
            window.scroll_end(animate=False)


def help_lines() -> list[str]:
    """The help: every key, then what the signs on the screen mean."""
    lines = [f"{fit(key.shown, 14)} {key.says}" for key in KEYS]
    lines += ["", "Where a GPU's time goes: the first that holds, so they add up to 100 %"]
    lines += [
        f"  {CLASS_GLYPHS[name]} {fit(CLASS_TITLES[name], 14)} {says}"
        for name, says in (
            ("kernel", "NTT or MSM kernels run"),
            ("barrier", "lock held, kernels wait for the CPU (prep_msm)"),
            ("lock_overhead", "lock held, neither: staging, allocation, cleanup"),
            ("handoff", "lock free, a worker inside its bracket: CPU work"),
            ("starved", "no bracket open, but partitions on their way"),
            ("no_work", "none of these"),
        )
    ]
    lines += ["", "A partition in its job's row"]
    cells = [f"{glyph} {fit(name, 12)}" for glyph, _style, name in CELLS.values()]
    lines += ["  " + "".join(cells[start : start + 4]) for start in range(0, len(cells), 4)]
    lines += ["", "Whose a CUZK_TIMING line is: the log doesn't say"]
    lines += ["  =  exact: no other assignment fits the log    ~  the likeliest of several"]
    lines += ["  ~ before a figure: derived, not printed by this daemon        –  not known"]
    lines += ["", "Ladder: bracket ≥ lock held ≥ GPU section ≥ kernel, over the same window."]
    lines += ["A full bracket can be an idle GPU; only the kernel step is GPU work."]
    return lines


def verdict_lines(frame: Frame) -> list[str]:
    """The verdict with all its evidence and advice."""
    verdict = frame.verdict
    lines = list(wrap(verdict.sentence, 76, 76, 6))
    sure = certainty(verdict)
    lines += ["", f"{verdict.bottleneck}, {sure}" if sure else verdict.bottleneck]
    for heading, texts in (("because", verdict.evidence), ("try", verdict.advice)):
        if texts:
            lines += ["", heading]
        for text in texts:
            lines += [
                f"  {'·' if at == 0 else ' '} {line}"
                for at, line in enumerate(wrap(text, 72, 72, 8))
            ]
    return lines


def alert_lines(frame: Frame) -> list[str]:
    """All alerts, the newest first, and what the source lacks."""
    lines = list(wrap(frame.source.note, 76, 76, 6)) if frame.source.note else []
    for alert in reversed(frame.alerts):
        glyph = LEVELS.get(alert.level, LEVELS["info"])[0]
        old = "" if alert.at_ms is None else f"{age(frame.now_ms - alert.at_ms)} ago"
        for at, line in enumerate(wrap(alert.text, 64, 64, 12)):
            lines.append(f"{glyph if at == 0 else ' '} {old if at == 0 else '':<9} {line}")
    return lines or ["nothing went wrong"]


def _named(name: str, text: str) -> list[str]:
    """`text` beside its name, in at most four lines."""
    return [
        f"{name if at == 0 else '':<10} {line}" for at, line in enumerate(wrap(text, 62, 62, 4))
    ]


def details_lines(
    row: PartitionRow, stages: Mapping[str, StageStats], message: str = ""
) -> list[str]:
    """All figures of one partition beside what is usual; `message` is its job's failure."""
    glyph, _style, name = CELLS.get(row.state, ("?", "", row.state))
    job = clean(row.job)
    lines = [
        f"{'job' if start == 0 else '':<10} {job[start : start + 62]}"
        for start in range(0, max(1, len(job)), 62)
    ]
    partition = "in one piece" if row.partition is None else str(row.partition)
    lines.append(f"partition  {partition}, attempt {row.attempt}, {row.kind or 'kind unknown'}")
    where = "no worker yet" if row.worker is None else f"worker {row.worker}"
    where += "" if row.gpu is None else f" on GPU {row.gpu}"
    lines.append(f"state      {glyph} {name}, {where}")
    started = f"synthesis {duration(row.synth_start_ms)}"
    opened = f"bracket {duration(row.bracket_start_ms)} to {duration(row.bracket_end_ms)}"
    lines.append(f"times      {started}, {opened} (from the run's start)")
    sources = ", ".join(f"{name} {row.attribution_by.get(name, 'none')}" for name in SOURCE_OF)
    lines.append(f"its lines  {row.attribution}: {sources}")
    if row.derived:
        lines += _named("derived", f"{', '.join(row.derived)}: not printed by this daemon")
    if message:
        lines += _named("failure", message)
    lines += ["", f"{fit('', 22)} {'this':>7} {'p50':>7} {'p95':>7}"]
    group = {field: name for name, fields in SOURCE_OF.items() for field in fields}
    for field, title, says in FIGURES:
        value = getattr(row, field)
        usual = stages.get(field)
        sure = row.attribution_by.get(group[field], "none") if field in group else "exact"
        derived = "~" if field in row.derived and value is not None else ""
        lines.append(
            f"{fit(title, 22)} {right(derived + duration(value), 7)}"
            f" {duration(usual.p50 if usual else None):>7}"
            f" {duration(usual.p95 if usual else None):>7}"
            f" {' ' if value is None else MARKS[sure]} {says}"
        )
    return lines
