"""The line over the footer in which a search or a filter is typed."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Label


class Prompt(Horizontal):
    """Asks for a line of text and tells every change of it; Enter keeps it, Esc takes it back."""

    DEFAULT_CSS = """
    Prompt {
        height: 1; display: none; background: $surface;
        &.-asks { display: block; }
        Label { color: $cz-key; text-style: bold; }
        #line { width: 1fr; background: $surface; color: $cz-text; padding: 0; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", show=False)]

    def __init__(self) -> None:
        """Nothing is asked."""
        super().__init__(id="prompt")
        self._tell: Callable[[str], None] = lambda _text: None
        self._before = ""
        self._done: Callable[[], None] = lambda: None
        self._keep: Callable[[str], None] = lambda _text: None

    def compose(self) -> ComposeResult:
        """What is asked, and the line."""
        yield Label("", markup=False)
        line = Input(compact=True, id="line")
        line.cursor_blink = False  # it would wake us twice a second
        yield line

    @property
    def asks(self) -> bool:
        """Whether something is being typed."""
        return self.has_class("-asks")

    def ask(
        self,
        words: str,
        text: str,
        tell: Callable[[str], None],
        done: Callable[[], None],
        keep: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Ask for `words`, beginning with `text`.

        `tell` gets each change, `keep` what is there at Enter; `done` is the end either way.
        """
        self._tell, self._before, self._done, self._keep = tell, text, done, keep
        self.query_one(Label).update(f" {words} ")
        line = self.query_one(Input)
        with self.prevent(Input.Changed):
            line.value = text
        line.cursor_position = len(text)
        self.add_class("-asks")
        line.focus()

    @on(Input.Changed)
    def changed(self, event: Input.Changed) -> None:
        """Tell the view, unless more was typed meanwhile: that is told next.

        A search goes through thousands of lines, and a key that is held down comes faster.
        """
        event.stop()
        if self.asks and event.value == event.input.value:
            self._tell(event.value)

    @on(Input.Submitted)
    def submitted(self, event: Input.Submitted) -> None:
        """Keep what was typed."""
        event.stop()
        self._close()
        self._keep(event.value)

    def action_cancel(self) -> None:
        """Go back to what was there before."""
        self._tell(self._before)
        self._close()

    @on(events.DescendantBlur)
    def left(self) -> None:
        """Ask no more when the user goes elsewhere; what was told so far stays."""
        elsewhere = self.screen.focused
        if elsewhere is not None and elsewhere is not self.query_one(Input):
            self.remove_class("-asks")

    def _close(self) -> None:
        self.remove_class("-asks")
        self._done()
