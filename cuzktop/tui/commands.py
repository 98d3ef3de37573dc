"""The command palette."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from textual import on
from textual.command import CommandList, CommandPalette
from textual.theme import ThemeProvider
from textual.widgets import Input

from cuzktop.tui.closing import Closing
from cuzktop.tui.themes import THEMES


class Themes(ThemeProvider):
    """The themes that have all of our colours: not those that Textual brings along."""

    @property
    def commands(self) -> list[tuple[str, Callable[[], None]]]:
        """Each by its name."""
        return [(one.name, partial(setattr, self.app, "theme", one.name)) for one in THEMES]


class Commands(CommandPalette, Closing[None]):
    """Textual's palette, without what ended the program."""

    def on_mount(self) -> None:
        """Let the cursor stand still: it would wake us twice a second.

        There is none where the program is being left.
        """
        for line in self.query(Input):
            line.cursor_blink = False

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        """Look for nothing that was typed behind the key that closes: the list may have gone."""
        if not self.is_current:
            event.prevent_default()

    def _action_command_list(self, action: str) -> None:
        """Hand a key on to the list; where it shows nothing there are no pages."""
        room = self.query_one(CommandList).scrollable_content_region
        if room.area or not action.startswith("page"):
            super()._action_command_list(action)
