"""The command palette."""

from __future__ import annotations

from textual.command import CommandList, CommandPalette


class Commands(CommandPalette):
    """Textual's palette, which a page key ended where the list has no room for a single line."""

    def _action_command_list(self, action: str) -> None:
        """Hand a key on to the list; where it shows nothing there are no pages."""
        room = self.query_one(CommandList).scrollable_content_region
        if room.area or not action.startswith("page"):
            super()._action_command_list(action)
