"""Windows that close once, however many keys and clicks ask for it before they have gone."""

from __future__ import annotations

from pathlib import Path

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, ScreenResultType


class Closing(ModalScreen[ScreenResultType]):
    """A window; Textual's own takes another with it, or the program, when it is closed twice."""

    CSS_PATH = Path(__file__).with_name("windows.tcss")

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close the window if it is the topmost."""
        if self.app.screen is not self:
            return AwaitComplete()
        return super().dismiss(result)
