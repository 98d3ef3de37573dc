"""Windows over the picture: help, the verdict's reasons, the alerts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.geometry import Size

from cuzktop.frame import Frame
from cuzktop.tui.closing import Closing
from cuzktop.tui.keys import KEYS
from cuzktop.tui.messages import Body
from cuzktop.tui.widgets.alerts import LEVELS, merged, when
from cuzktop.tui.widgets.cells import CLASS_GLYPHS, CLASS_TITLES, Line, clip, fit, to_ascii, wrap
from cuzktop.tui.widgets.jobs import CELLS
from cuzktop.tui.widgets.lines import Lines
from cuzktop.tui.widgets.verdict import certainty

WIDTH = 74  # of 80 cells, without frame and scroll bar


class Page(Lines):
    """The lines of a window, all of them: the frame around it scrolls."""

    def __init__(self, body: Body, *, ascii_only: bool) -> None:
        """Show what `body` makes."""
        super().__init__(ascii_only=ascii_only)
        self.body = body

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002 - Textual's signature
        """As many rows as there are lines."""
        return len(self.body(width))

    def draw(self, frame: Frame, width: int, height: int) -> Sequence[Line]:  # noqa: ARG002 - they stay
        """All lines."""
        return self.body(width)


class Window(Closing[None]):
    """Text in a frame that scrolls; Esc, q or the key that opened it close it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark", "dismiss", "Close", show=False),
        Binding("j,down", "scroll('down')", show=False),
        Binding("k,up", "scroll('up')", show=False),
        Binding("g,home", "scroll('home')", show=False),
        Binding("G,end", "scroll('end')", show=False),
        Binding("pagedown", "scroll('page_down')", show=False),
        Binding("pageup", "scroll('page_up')", show=False),
    ]

    def __init__(
        self,
        heading: str,
        body: Body | Sequence[str],
        *,
        ascii_only: bool = False,
        broad: bool = False,
    ) -> None:
        """Show `body`, which never goes through markup, under `heading`; `broad` where it helps."""
        super().__init__()
        self.ascii_only = ascii_only
        self.heading = heading
        self.broad = broad
        self.body: Body = body if callable(body) else _as_body(body)

    def compose(self) -> ComposeResult:
        """The frame and the text in it."""
        with VerticalScroll(id="window", classes="-broad" if self.broad else "") as window:
            heading = to_ascii(self.heading) if self.ascii_only else self.heading
            window.border_title = Text(heading).markup
            window.border_subtitle = "Esc closes"
            yield Page(self.body, ascii_only=self.ascii_only)

    def action_scroll(self, where: str) -> None:
        """Scroll the text: by a line or a page, or to an end of it."""
        window = self.query_one("#window", VerticalScroll)
        scroll = {
            "down": window.scroll_down,
            "up": window.scroll_up,
            "home": window.scroll_home,
            "end": window.scroll_end,
            "page_down": window.scroll_page_down,
            "page_up": window.scroll_page_up,
        }[where]
        scroll(animate=False)


def _as_body(texts: Sequence[str]) -> Body:
    return lambda width: [clip(((text, "text"),), width) for text in texts]


def help_lines() -> list[str]:
    """The help: every key, then what the signs on the screen mean."""
    lines = [f"{fit(key.shown, 14)} {key.help}" for key in KEYS]
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
    lines += ["  =  exact: no other assignment fits the log   ~  the likeliest of several"]
    lines += ["  ~  before a figure: derived, this daemon doesn't print it   –  not known"]
    lines += ["", "The pointer: a click selects a row, a second one opens it."]
    lines += ["A click on a panel of the overview opens what it is about."]
    lines += ["", "Ladder: bracket ≥ lock held ≥ GPU section ≥ kernel, over the same window."]
    lines += ["A full bracket can be an idle GPU; only the kernel step is GPU work."]
    return lines


def verdict_lines(frame: Frame) -> list[str]:
    """The verdict with all its evidence and advice."""
    verdict = frame.verdict
    lines = list(wrap(verdict.sentence, WIDTH, WIDTH, 6))
    sure = certainty(verdict)
    lines += ["", f"{verdict.bottleneck}, {sure}" if sure else verdict.bottleneck]
    for heading, texts in (("because", verdict.evidence), ("try", verdict.advice)):
        if texts:
            lines += ["", heading]
        for text in texts:
            lines += [
                f"  {'·' if at == 0 else ' '} {line}"
                for at, line in enumerate(wrap(text, WIDTH - 4, WIDTH - 4, 8))
            ]
    return lines


def alert_lines(frame: Frame) -> list[str]:
    """All alerts: what lasts, then the newest first; and what the source lacks."""
    lines = list(wrap(frame.source.note, WIDTH, WIDTH, 6)) if frame.source.note else []
    told = [(one, when(one, frame.present_ms)) for one in merged(frame.alerts)]
    column = max((len(words) for _one, words in told), default=0)
    room = max(20, WIDTH - column - 4)
    for one, words in told:
        glyph = LEVELS.get(one.level, LEVELS["info"])[0]
        for at, line in enumerate(wrap(one.text, room, room, 12)):
            lead = f"{glyph} {words}" if at == 0 else ""
            lines.append(f"{lead:<{column + 2}}  {line}")
    return lines or ["no alert"]
