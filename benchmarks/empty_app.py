"""An empty Textual app: what a first paint costs before anything is in it."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widgets import Static


class EmptyApp(App[None]):
    """One line of text."""

    def compose(self) -> ComposeResult:
        yield Static("nothing-in-here")


if __name__ == "__main__":
    EmptyApp().run()
