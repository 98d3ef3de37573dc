"""The screen: composition, keys, and one reactive frame."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.driver import Driver
from textual.filter import LineFilter, NoColor
from textual.message import Message
from textual.reactive import var
from textual.screen import Screen

from cuzktop.frame import Frame
from cuzktop.settings import Settings
from cuzktop.tui.driver import ForgivingDriver
from cuzktop.tui.keys import KEYS
from cuzktop.tui.themes import DARK, THEMES
from cuzktop.tui.widgets.footer import FooterPanel
from cuzktop.tui.widgets.lines import EMPTY
from cuzktop.tui.widgets.overview import Overview
from cuzktop.tui.widgets.partitions import PartitionsPanel
from cuzktop.tui.widgets.verdict import NoticePanel, Opened, VerdictPanel
from cuzktop.tui.widgets.windows import (
    Window,
    alert_lines,
    details_lines,
    help_lines,
    verdict_lines,
)

PLAIN = frozenset(theme.name for theme in THEMES if not theme.ansi)
INTERVALS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class CuzktopApp(App[None]):
    """Draws the frames that are published to it; reads nothing and starts no timer of its own."""

    CSS_PATH = "app.tcss"
    TITLE = "cuzktop"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    AUTO_FOCUS = "PartitionsPanel"
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (3, "-tall")]  # noqa: RUF012 - typed by Textual
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True, system=True),
        *(Binding(key.keys, key.action, key.title, show=False) for key in KEYS),
    ]

    frame: var[Frame] = var(EMPTY)
    paused: var[bool] = var(False, toggle_class="-paused")  # noqa: FBT003 - the value itself
    interval_s: var[float] = var(1.0)

    @dataclass
    class FrameReady(Message):
        """A new frame; a later one takes its place if the terminal is slow."""

        frame: Frame

        def can_replace(self, message: Message) -> bool:
            """Skip frames that were not drawn in time."""
            return isinstance(message, CuzktopApp.FrameReady)

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        title: str = "",
        colour: bool | None = None,
        ascii_only: bool | None = None,
        on_interval: Callable[[float], None] | None = None,
        on_started: Callable[[], None] | None = None,
        driver_class: type[Driver] | None = None,
    ) -> None:
        """Set up what is drawn and how.

        `title` is shown in the header; `colour` and `ascii_only` go before `settings`. Without
        colour not one colour code is written: Textual settles that here or never. `on_interval` is
        told the seconds that `+` and `-` choose; `on_started` is called after the first paint, so
        that what it starts doesn't slow that down. Both may be set later, too.
        """
        settings = Settings() if settings is None else settings
        colour = settings.colour if colour is None else colour
        colour = colour and "NO_COLOR" not in os.environ
        super().__init__(
            driver_class=driver_class or (None if os.name == "nt" else ForgivingDriver),
            ansi_color=None if colour else True,
        )
        if not colour and not self.no_color:
            self.no_color = True
            self._filters.append(NoColor())
        for theme in THEMES:
            self.register_theme(theme)
        few = colour and self.console.color_system not in {"256", "truecolor"}
        self.theme = "cuzk-16" if few else "cuzk"
        self.title = title or (str(settings.log) if settings.log is not None else "")
        self.ascii_only = settings.ascii_only if ascii_only is None else ascii_only
        self.on_interval = on_interval
        self.on_started = on_started
        self.set_reactive(CuzktopApp.interval_s, settings.interval_s)
        self.set_class(not colour, "-no-colour")
        self.set_class(self.ascii_only, "-ascii")
        self._latest = EMPTY

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our colours, for themes that don't know them."""
        return dict(DARK)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """No filters with our own themes: they only turn the sixteen colours into others."""
        return () if self.theme in PLAIN and not self.no_color else super().get_line_filters()

    def compose(self) -> ComposeResult:
        """The overview over the footer."""
        yield Overview(ascii_only=self.ascii_only).data_bind(CuzktopApp.frame)
        yield FooterPanel(ascii_only=self.ascii_only, id="footer").data_bind(
            CuzktopApp.frame, CuzktopApp.interval_s
        )

    def on_mount(self) -> None:
        """Leave the terminal as it was when we are told to end; start what waits for the screen."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Only a main thread can; elsewhere whoever runs the app handles signals.
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, self._told_to_end, number)
        if self.on_started is not None:
            self.call_after_refresh(self.on_started)

    def on_unmount(self) -> None:
        """Give the signals back."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
                loop.remove_signal_handler(number)

    def _told_to_end(self, number: signal.Signals) -> None:
        self.exit(return_code=128 + number)

    # ------------------------------------------------------------------------------ frames

    def publish(self, frame: Frame) -> None:
        """Show `frame`. Safe from any thread."""
        self.post_message(self.FrameReady(frame))

    @on(FrameReady)
    def show(self, message: FrameReady) -> None:
        """Draw a new frame, or while paused count what happened since."""
        self._latest = message.frame
        if self.paused:
            self._count_behind()
        else:
            self.frame = message.frame

    def _count_behind(self) -> None:
        behind = max(0, self._latest.source.events - self.frame.source.events)
        for footer in self.screen_stack[0].query(FooterPanel):
            footer.behind = behind if self.paused else None

    def watch_paused(self) -> None:
        """Go on from the newest frame when the pause ends."""
        if not self.is_running or not self.screen_stack:
            return
        if not self.paused:
            self.frame = self._latest
        self._count_behind()

    # ------------------------------------------------------------------------------ actions

    def action_pause(self) -> None:
        """Freeze the picture, or let it go on."""
        self.paused = not self.paused

    def action_help(self) -> None:
        """Show every key."""
        self._open("Help", help_lines())

    def action_slower(self) -> None:
        """Draw at the next longer interval."""
        self._set_interval(min((s for s in INTERVALS_S if s > self.interval_s), default=None))

    def action_faster(self) -> None:
        """Draw at the next shorter interval."""
        self._set_interval(max((s for s in INTERVALS_S if s < self.interval_s), default=None))

    def _set_interval(self, seconds: float | None) -> None:
        if seconds is None:
            return
        self.interval_s = seconds
        if self.on_interval is not None:
            self.on_interval(seconds)

    def action_command_palette(self) -> None:
        """Let the user find an action by its name."""
        if not isinstance(self.screen, CommandPalette):
            placeholder = "Search for commands"
            self.push_screen(CommandPalette(placeholder=placeholder, id="--command-palette"))

    def action_focus_next(self) -> None:
        """Move the focus to the next panel that takes it."""
        self.screen.focus_next()

    def action_let_go(self) -> None:
        """Let go of the selected row."""
        for table in self._table():
            table.let_go()

    def _table(self) -> Iterable[PartitionsPanel]:
        return self.screen_stack[0].query(PartitionsPanel)

    def action_row_down(self) -> None:
        """Select the next partition."""
        self._move(1)

    def action_row_up(self) -> None:
        """Select the partition before."""
        self._move(-1)

    def _move(self, by: int) -> None:
        for table in self._table():
            table.focus()
            table.move(by)

    def action_row_first(self) -> None:
        """Select the newest partition."""
        for table in self._table():
            table.focus()
            table.select(0)

    def action_row_last(self) -> None:
        """Select the oldest partition."""
        for table in self._table():
            table.focus()
            table.select(len(table.frame.recent) - 1)

    def action_details(self) -> None:
        """Open the selected partition, or what has the focus."""
        if isinstance(self.focused, VerdictPanel | NoticePanel):
            self.open_panel(Opened(self.focused))
            return
        for table in self._table():
            table.open_selected()

    @on(Opened)
    def open_panel(self, message: Opened) -> None:
        """All evidence of the verdict, or all alerts."""
        if isinstance(message.panel, VerdictPanel):
            self._open("Verdict", verdict_lines(self.frame))
        else:
            self._open("Alerts", alert_lines(self.frame))

    def _open(self, heading: str, lines: list[str]) -> None:
        self.push_screen(Window(heading, lines, ascii_only=self.ascii_only))

    @on(PartitionsPanel.Opened)
    def open_details(self, message: PartitionsPanel.Opened) -> None:
        """All figures of one partition, beside what is usual."""
        row = message.row
        failures = (
            job.message
            for job in self.frame.jobs
            if (job.job, job.attempt) == (row.job, row.attempt)
        )
        lines = details_lines(row, self.frame.stages, next(failures, ""))
        self._open("Partition", lines)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:  # noqa: ARG002 - Textual's signature
        """Every action of `KEYS`, and the themes."""
        for key in KEYS:
            if key.action != "command_palette":
                yield SystemCommand(
                    key.title, f"{key.says} ({key.shown})", getattr(self, f"action_{key.action}")
                )
        yield SystemCommand("Theme", "choose the colours", self.action_change_theme)
