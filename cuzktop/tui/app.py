"""The screen: composition, keys, and the frame that is shown."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.filter import LineFilter
from textual.reactive import var
from textual.screen import Screen

from cuzktop.frame import Frame
from cuzktop.settings import DEFAULT_INTERVAL_S, Settings
from cuzktop.tui import preferences
from cuzktop.tui.driver import ForgivingDriver
from cuzktop.tui.keys import KEYS
from cuzktop.tui.messages import (
    Body,
    Opened,
    PartitionOpened,
    Said,
    Selected,
    TextOpened,
    ViewWanted,
)
from cuzktop.tui.preferences import Preferences
from cuzktop.tui.rows import PartitionKey, row_of, told_at
from cuzktop.tui.themes import DARK, THEMES, Colourless
from cuzktop.tui.views import view_class
from cuzktop.tui.views.base import View
from cuzktop.tui.widgets.brush import Brush
from cuzktop.tui.widgets.footer import FooterPanel
from cuzktop.tui.widgets.gpus import GpusPanel
from cuzktop.tui.widgets.lines import EMPTY
from cuzktop.tui.widgets.overview import Overview
from cuzktop.tui.widgets.verdict import VerdictPanel

if TYPE_CHECKING:
    from cuzktop.tui.deck import Deck
    from cuzktop.tui.prompt import Prompt


NO_DECK = "nothing is played or recorded here"


def _nothing(_text: str) -> None:
    """What is typed matters at its end."""


PLAIN = frozenset(theme.name for theme in THEMES if not theme.ansi)
INTERVALS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
AT_ONCE = ("\x1b[?2026h", "\x1b[?2026l")  # for a terminal that can show a picture whole
COLOURLESS = (Colourless(),)
SAID_S = 5.0  # an answer to a key makes room again after this long
NOTICE_S = 20.0  # so does what nobody asked for


class CuzktopApp(App[None]):
    """Draws the frames that are published to it; reads nothing and starts no timer of its own."""

    CSS_PATH = Path(__file__).with_name("app.tcss")
    TITLE = "cuzktop"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    AUTO_FOCUS = "PartitionsPanel"
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (3, "-tall")]  # noqa: RUF012 - typed by Textual
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True, system=True),
        *(
            Binding(
                key.keys,
                f"act('{key.action}')" if key.views else key.action,
                key.title,
                show=False,
            )
            for key in KEYS
        ),
    ]

    paused: var[bool] = var(False, toggle_class="-paused")  # noqa: FBT003 - the value itself
    interval_s: var[float] = var(1.0)

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
        preferences_file: Path | None = None,
    ) -> None:
        """Set up what is drawn and how.

        `title` is shown in the header; `colour` and `ascii_only` go before `settings`. Without
        colour not one colour code is written: Textual settles that here or never. `on_interval` is
        told the seconds that `+` and `-` choose; `on_started` is called after the first paint, so
        that what it starts doesn't slow that down. Both may be set later, too. `preferences_file`
        is read now and written by `W`; it is the user's own unless one is named.
        """
        settings = Settings() if settings is None else settings
        colour = settings.colour if colour is None else colour
        colour = colour and "NO_COLOR" not in os.environ
        super().__init__(
            driver_class=driver_class or (None if os.name == "nt" else ForgivingDriver),
            ansi_color=None if colour else True,
        )
        self.no_color = not colour
        for theme in THEMES:
            self.register_theme(theme)
        self.title = title or (str(settings.log) if settings.log is not None else "")
        self.ascii_only = settings.ascii_only if ascii_only is None else ascii_only
        self.on_interval = on_interval
        self.on_started = on_started
        self.set_reactive(CuzktopApp.interval_s, settings.interval_s or DEFAULT_INTERVAL_S)
        self.set_class(not colour, "-no-colour")
        self.set_class(self.ascii_only, "-ascii")
        self.deck: Deck | None = None
        self.frame = EMPTY  # what is shown
        self._latest = EMPTY  # what was published last
        self._ring: Callable[[], object] | None = None  # has the latest frame taken up
        self._called = False
        self.selected: PartitionKey | None = None
        self._moment: float | None = None  # of what is selected, or the time line's cursor
        self._panels: dict[str, Overview | View] = {}
        self._view = "overview"
        self._footer: FooterPanel | None = None
        self._prompt: Prompt | None = None
        self._said_at = 0
        self._preferences_file = preferences_file or preferences.user_file()
        self._preferences, self._notice = preferences.load(self._preferences_file)
        self._begin_with(self._first_theme(self._preferences))
        if self._preferences.interval_s is not None and settings.interval_s is None:
            self.set_reactive(CuzktopApp.interval_s, self._preferences.interval_s)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our colours, for themes that don't know them."""
        return dict(DARK)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """No filters with our own themes: they only turn the sixteen colours into others."""
        if self.no_color:
            return COLOURLESS
        return () if self.theme in PLAIN else super().get_line_filters()

    def compose(self) -> ComposeResult:
        """The overview over the footer; the other views come when they are wanted."""
        overview = Overview(ascii_only=self.ascii_only)
        self._panels["overview"] = overview
        yield overview
        self._footer = FooterPanel(ascii_only=self.ascii_only, id="footer")
        yield self._footer.data_bind(CuzktopApp.interval_s)

    def _first_theme(self, kept: Preferences) -> str:
        """The theme that was kept, if the terminal has its colours."""
        if not self.no_color:
            if self.console.color_system not in {"256", "truecolor"}:
                return "cuzk-16"
            for theme in THEMES:
                if theme.name == kept.theme and not theme.ansi:
                    return theme.name
        return "cuzk"

    def _begin_with(self, name: str) -> None:
        """Have the theme from the start: one that is set is read, and then read once more."""
        self.set_reactive(CuzktopApp.theme, name)
        dark = self.current_theme.dark
        self.update_classes(
            {f"-theme-{name}": True, "-dark-mode": dark, "-light-mode": not dark}, update=False
        )
        self.stylesheet.set_variables(self.get_css_variables())
        self._refresh_truecolor_filter(self.ansi_theme)  # the sixteen colours go out as they are

    def on_load(self) -> None:
        """Before the terminal is taken: leave it as it was when we are told to end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            # Only a main thread can; elsewhere whoever runs the app handles signals.
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, self._told_to_end, number)

    async def on_mount(self) -> None:
        """Start what waits for the screen."""
        self._ring = partial(
            asyncio.get_running_loop().call_soon_threadsafe,
            self._take_up,
            context=contextvars.copy_context(),  # whoever rings knows nothing of this app
        )
        if self._called:
            self._ring()
        if self.on_interval is not None and self.interval_s == self._preferences.interval_s:
            self.on_interval(self.interval_s)
        if self._preferences.view is not None:
            await self.go_to(self._preferences.view)
        if self._notice:
            self._say(self._notice, NOTICE_S)
        self.call_after_refresh(self._complete)

    async def _complete(self) -> None:
        """After the first picture: what nobody has missed in it, and what waits for the screen."""
        from cuzktop.tui.prompt import Prompt  # noqa: PLC0415 - the picture goes before it

        if not self._stands():
            return
        prompt = Prompt()
        await self.screen_stack[0].mount(prompt, before="#footer")
        self._prompt = prompt
        if self.on_started is not None:
            self.on_started()

    def _stands(self) -> bool:
        """Whether there is a screen to put something on; not while the program is being left."""
        return bool(self.screen_stack) and self.screen_stack[0].is_attached

    def on_unmount(self) -> None:
        """Give the signals back, and show nothing more."""
        self._ring = None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
                loop.remove_signal_handler(number)

    @on(Driver.SignalResume)
    def draw_all(self) -> None:
        """Draw all anew after Ctrl-Z and fg: the shell has written where the picture was."""
        self.refresh(layout=True)

    @property
    def failure(self) -> Exception | None:
        """The fault of ours that ended the program."""
        return self._exception

    def _fatal_error(self) -> None:
        """End; who runs the app says why in a line, where Textual prints pages of variables."""
        self._close_messages_no_wait()

    async def on_event(self, event: events.Event) -> None:
        """Leave alone what is typed behind the key that leaves: a window would have no content."""
        if not (self._exit and isinstance(event, events.InputEvent | events.Paste)):
            await super().on_event(event)

    def _told_to_end(self, number: signal.Signals) -> None:
        self.exit(return_code=128 + number)

    # ------------------------------------------------------------------------------ frames

    def publish(self, frame: Frame) -> None:
        """Show `frame`, or what comes after it before it can be shown. Safe from any thread."""
        self._latest = frame
        if self._called:
            return
        self._called = True
        if (ring := self._ring) is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                ring()

    def _take_up(self) -> None:
        """Draw the latest frame, or while paused count what happened since.

        Called by the loop itself: a message would go through five times as much of Textual.
        """
        driver = self._driver
        if isinstance(driver, ForgivingDriver) and driver.put_off(self._take_up):
            return
        self._called = False
        if self._ring is None:
            return  # it is over
        try:
            if self.paused:
                self._count_behind()
            else:
                self._show(self._latest)
        except Exception as error:  # noqa: BLE001 - as if it had come from a message
            self._handle_exception(error)

    def _show(self, frame: Frame) -> None:
        """Give the frame to the view that is seen and to the footer; the others cost nothing."""
        self.frame = frame
        self._tell_footer_of_deck()
        brush = Brush(self.screen_stack[0]) if self._lies_open() else None
        for panel in (self._panels.get(self._view), self._footer):
            if panel is not None:
                panel.show(frame, brush)
        written = "" if brush is None else brush.written()
        if written and self._driver is not None:
            begin, end = AT_ONCE if self._sync_available else ("", "")
            self._driver.write(begin + written + end)

    def _lies_open(self) -> bool:
        """Whether panels may write to the terminal themselves: nothing lies over them."""
        return (
            self._running
            and not self._batch_count
            and not self.is_headless
            and not self.is_inline
            and len(self.screen_stack) == 1
        )

    def _count_behind(self) -> None:
        behind = max(0, self._latest.source.events - self.frame.source.events)
        for footer in self.screen_stack[0].query(FooterPanel):
            footer.behind = behind if self.paused else None

    def watch_paused(self) -> None:
        """Go on from the newest frame when the pause ends."""
        if not self.is_running or not self.screen_stack:
            return
        if not self.paused:
            self._show(self._latest)
        self._count_behind()

    # ------------------------------------------------------------------------------ actions

    def action_pause(self) -> None:
        """Freeze the picture, or let it go on; what is played stands instead, and can be moved."""
        if self.deck is not None and self.deck.plays:
            self._play(lambda deck: deck.pause())
        else:
            self.paused = not self.paused

    def _play(self, key: Callable[[Deck], str]) -> None:
        """Do what a key stands for to what is played or recorded, and show what it did."""
        said = NO_DECK if self.deck is None else key(self.deck)
        if said:
            self._say(said)
        self._tell_footer_of_deck()
        if self._footer is not None:
            self._footer.show(self.frame)

    def _tell_footer_of_deck(self) -> None:
        """What is played or recorded; the footer draws it with the frame that it is shown next."""
        if self._footer is not None and self.deck is not None:
            self._footer.deck = self.deck.badge()

    def action_play_back(self) -> None:
        """Ten seconds back."""
        self._play(lambda deck: deck.step(-1))

    def action_play_on(self) -> None:
        """Ten seconds on."""
        self._play(lambda deck: deck.step(1))

    def action_play_slower(self) -> None:
        """Play at the next lower speed."""
        self._play(lambda deck: deck.change_speed(-1))

    def action_play_faster(self) -> None:
        """Play at the next higher speed."""
        self._play(lambda deck: deck.change_speed(1))

    def action_play_at(self) -> None:
        """Ask for a time, and go there."""
        if self.deck is None or not self.deck.plays:
            self._play(lambda deck: deck.go_to(""))
        else:
            self._ask(
                "go to @", "", _nothing, lambda text: self._play(lambda deck: deck.go_to(text))
            )

    def action_record(self) -> None:
        """Ask where to record to, and do it; or end it."""
        if self.deck is not None and self.deck.records:
            self._play(lambda deck: deck.end_recording())
        elif self.deck is None or not (name := self.deck.new_name()):
            self._play(lambda deck: deck.record(""))
        else:
            self._ask(
                "record to", name, _nothing, lambda text: self._play(lambda deck: deck.record(text))
            )

    def action_help(self) -> None:
        """Show every key."""
        from cuzktop.tui.widgets.windows import help_lines  # noqa: PLC0415 - the picture goes before it

        self._open("Help", help_lines())

    def action_slower(self) -> None:
        """Draw at the next longer interval."""
        self._set_interval(min((s for s in INTERVALS_S if s > self.interval_s), default=None))

    def action_faster(self) -> None:
        """Draw at the next shorter interval."""
        self._set_interval(max((s for s in INTERVALS_S if s < self.interval_s), default=None))

    def _set_interval(self, seconds: float | None) -> None:
        if seconds is None:
            self._say(f"every {self.interval_s:g} s: there is no step further")
            return
        self.interval_s = seconds
        self._say(f"every {seconds:g} s; W keeps it")
        if self.on_interval is not None:
            self.on_interval(seconds)

    def action_command_palette(self) -> None:
        """Let the user find an action by its name."""
        from cuzktop.tui.commands import Commands  # noqa: PLC0415 - the picture goes before it

        if not isinstance(self.screen, Commands):
            self.push_screen(Commands(placeholder="Search for commands", id="--command-palette"))

    def search_themes(self) -> None:
        """Let the user find a theme by its name."""
        from cuzktop.tui.commands import Commands, Themes  # noqa: PLC0415 - the picture goes before it

        self.push_screen(Commands([Themes], placeholder="Search for themes"))

    def action_focus_next(self) -> None:
        """Move the focus to the next panel that takes it."""
        self.screen.focus_next()

    async def action_act(self, action: str) -> None:
        """Do what a key stands for: in the program, or in the view that is seen."""
        own = getattr(self, f"action_{action}", None)
        if own is not None:
            done = own()
            if asyncio.iscoroutine(done):
                await done
        elif not self._panels[self._view].act(action):
            key = next(key for key in KEYS if key.action == action)
            self._say(f"{key.shown.split()[0]} does nothing in this view, only {key.where}")

    # ------------------------------------------------------------------------------ views

    async def go_to(self, name: str) -> None:
        """Show the view `name`."""
        if name == self._view or not self._stands():
            return
        before = self._panels[self._view]
        panel = self._panels.get(name)
        if panel is None:
            panel = self._panels[name] = view_class(name)(ascii_only=self.ascii_only, id=name)
            if self._preferences.sort is not None:
                panel.sort_by(self._preferences.sort, backwards=self._preferences.reverse)
            await self.screen_stack[0].mount(panel, after="#overview")  # over what is typed
        self._view = name
        self._unsay(self._said_at)  # it was about the view before
        before.display = False
        panel.show(self.frame)
        panel.follow(self.selected)
        panel.show_moment(self._moment)
        panel.display = True
        panel.take_focus()
        for footer in self.screen_stack[0].query(FooterPanel):
            footer.view = name

    async def action_view_overview(self) -> None:
        """View 1."""
        await self.go_to("overview")

    async def action_view_partitions(self) -> None:
        """View 2."""
        await self.go_to("partitions")

    async def action_view_timeline(self) -> None:
        """View 3."""
        await self.go_to("timeline")

    async def action_view_jobs(self) -> None:
        """View 4."""
        await self.go_to("jobs")

    async def action_view_log(self) -> None:
        """View 5."""
        await self.go_to("log")

    async def action_view_diagnosis(self) -> None:
        """View 6."""
        await self.go_to("diagnosis")

    @on(ViewWanted)
    async def show_more(self, message: ViewWanted) -> None:
        """The view that has all of what was clicked."""
        await self.go_to(message.name)

    @on(Selected)
    def select(self, message: Selected) -> None:
        """Keep what was chosen for the other views."""
        self.selected = message.key
        self._moment = message.at_ms
        if self._moment is None:
            row = row_of((*self.frame.in_flight, *self.frame.recent), message.key)
            self._moment = None if row is None else told_at(row)

    # ------------------------------------------------------------------------------ the footer

    @on(Said)
    def answer(self, message: Said) -> None:
        """Show a view's answer to a key."""
        self._say(message.text)

    def _say(self, text: str, seconds: float = SAID_S) -> None:
        """Show a few words in the footer, for a while."""
        self._said_at += 1
        number = self._said_at
        for footer in self.screen_stack[0].query(FooterPanel):
            footer.said = text
        self.set_timer(seconds, lambda: self._unsay(number))

    def _unsay(self, number: int) -> None:
        if number == self._said_at:  # nothing else has been said since
            for footer in self.screen_stack[0].query(FooterPanel):
                footer.said = ""

    # ------------------------------------------------------------------------------ typing

    def action_search(self) -> None:
        """Ask what to search for."""
        panel = self._panels[self._view]
        if self._offers("search"):
            panel.begin_search()
            self._ask("search /", panel.search_text, panel.search)

    def action_filter(self) -> None:
        """Ask what to show."""
        panel = self._panels[self._view]
        if self._offers("filter"):
            self._ask("filter \\", panel.filter_text, partial(self._filter, panel))

    def _filter(self, panel: Overview | View, text: str) -> None:
        problem = panel.set_filter(text)
        if problem:
            self._say(problem)
        else:
            self._unsay(self._said_at)

    def _offers(self, action: str) -> bool:
        """Whether the view has the action; if it hasn't, say where it is."""
        key = next(key for key in KEYS if key.action == action)
        if str(self._panels[self._view].number) in key.views:
            return True
        self._say(f"{key.shown} does nothing in this view, only {key.where}")
        return False

    def _ask(
        self,
        words: str,
        text: str,
        tell: Callable[[str], None],
        keep: Callable[[str], None] = lambda _text: None,
    ) -> None:
        if self.screen is self.screen_stack[0] and self._prompt is not None:
            self._prompt.ask(words, text, tell, self._panels[self._view].take_focus, keep)

    # ------------------------------------------------------------------------------ what is kept

    def action_copy(self) -> None:
        """Copy the selected row by the terminal (OSC 52)."""
        text = self._panels[self._view].copy_text()
        if not text:
            self._say("nothing is selected: j or k selects a row")
            return
        self.copy_to_clipboard(text)
        self._say(f"copied {len(text)} characters")

    def action_next_theme(self) -> None:
        """The next of our themes."""
        if self.no_color:
            self._say("no colours were asked for (-C, NO_COLOR)")
            return
        names = [theme.name for theme in THEMES]
        at = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(at + 1) % len(names)]
        self._say(f"theme {self.theme}; W keeps it")

    def action_write(self) -> None:
        """Keep interval, theme, view and sort for the next time."""
        sort, backwards = self._preferences.sort, self._preferences.reverse
        for panel in self._panels.values():
            sort, backwards = panel.sorted_by or (sort, backwards)
        wanted = Preferences(
            interval_s=self.interval_s,
            theme=self._preferences.theme if self.no_color else self.theme,
            view=self._view,
            sort=sort,
            reverse=backwards,
        )
        try:
            preferences.save(self._preferences_file, wanted)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            self._say(f"{self._preferences_file}: can't be written: {why}")
            return
        self._preferences = wanted
        self._say(f"kept in {self._preferences_file}")

    @on(Opened)
    def open_panel(self, message: Opened) -> None:
        """All evidence of the verdict, all that is known of the cards, or all alerts."""
        from cuzktop.tui.widgets.cards import card_lines  # noqa: PLC0415 - the picture goes before it
        from cuzktop.tui.widgets.windows import alert_lines, verdict_lines  # noqa: PLC0415 - the picture goes before it

        if isinstance(message.panel, VerdictPanel):
            self._open("Verdict", verdict_lines(self.frame))
        elif isinstance(message.panel, GpusPanel):
            self._open("Cards, as they were now", partial(card_lines, self.frame), broad=True)
        else:
            self._open("Alerts", alert_lines(self.frame))

    def _open(self, heading: str, body: Body | list[str], *, broad: bool = False) -> None:
        """Show a text over the picture; one at a time, however fast a key is repeated."""
        from cuzktop.tui.widgets.windows import Window  # noqa: PLC0415 - the picture goes before it

        if any(isinstance(screen, Window) for screen in self.screen_stack):
            return
        self.push_screen(Window(heading, body, ascii_only=self.ascii_only, broad=broad))

    @on(TextOpened)
    def open_text(self, message: TextOpened) -> None:
        """A text in full."""
        self._open(message.heading, message.body, broad=callable(message.body))

    @on(PartitionOpened)
    def open_details(self, message: PartitionOpened) -> None:
        """All about one partition, as it was when it was opened."""
        from cuzktop.tui.details import details  # noqa: PLC0415 (nobody waits for it at the start)

        frame, row = self.frame, message.row
        lines = partial(details, row, frame)
        self._open("Partition", lines, broad=True)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:  # noqa: ARG002 - Textual's signature
        """Every action of `KEYS`, and the themes."""
        for key in KEYS:
            if key.action != "command_palette":
                says = f"{key.help} ({key.shown})"
                yield SystemCommand(key.title, says, partial(self.action_act, key.action))
        yield SystemCommand("Theme", "choose the colours", self.action_change_theme)
