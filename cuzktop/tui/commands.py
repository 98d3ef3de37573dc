"""The command palette."""

from __future__ import annotations

from textual.command import CommandList, CommandPalette
from textual.widgets import Input

from cuzktop.tui.closing import Closing


class Commands(CommandPalette, Closing[None]):
    """Textual's palette, without what ended the program."""

    def on_mount(self) -> None:
        """Let the cursor stand still: it would wake us twice a second."""
        self.query_one(Input).cursor_blink = False

    def _action_command_list(self, action: str) -> None:
        """Hand a key on to the list; where it shows nothing there are no pages."""
        room = self.query_one(CommandList).scrollable_content_region
        if room.area or not action.startswith("page"):
            super()._action_command_list(action)
