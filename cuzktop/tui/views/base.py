"""What the app asks of a view, whichever of the six it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.widget import Widget

from cuzktop.frame import Frame, PartitionRow
from cuzktop.tui.messages import Said
from cuzktop.tui.rows import PartitionKey, has_failed, is_slow
from cuzktop.tui.widgets.lines import Lines


class Acting:
    """A view's half of the keys: `do_NAME` is what the action NAME does here."""

    number: ClassVar[int]  # its key
    view: ClassVar[str]  # its id in `keys.VIEWS`

    def act(self, action: str) -> bool:
        """Do `action`; False if this view has no such thing."""
        do: Callable[[], object] | None = getattr(self, f"do_{action}", None)
        if do is None:
            return False
        do()
        return True

    def follow(self, key: PartitionKey | None) -> None:
        """Take over what was selected in another view."""

    def show_moment(self, at_ms: float | None) -> None:
        """Go to the instant that was chosen in another view; None: none is any more."""

    def take_focus(self) -> None:
        """Let keys and the pointer's wheel come here."""

    def copy_text(self) -> str:
        """What `y` copies; empty if there is nothing."""
        return ""

    @property
    def search_text(self) -> str:
        """What is searched for at the moment."""
        return ""

    def begin_search(self) -> None:
        """Remember where one is: what is being typed is searched for from here."""

    def search(self, text: str) -> None:
        """Search for `text` from where `begin_search` was; empty ends the search."""

    @property
    def sorted_by(self) -> tuple[str, bool] | None:
        """What rows are sorted by, and whether backwards; None where there is no choice."""
        return None

    def sort_by(self, name: str, *, backwards: bool) -> None:
        """Sort as it was sorted last time."""

    @property
    def filter_text(self) -> str:
        """The filter at the moment."""
        return ""

    def set_filter(self, text: str) -> str:
        """Show only what fits `text`; what is wrong with it, or nothing."""
        raise NotImplementedError


class View(Lines, Acting, can_focus=True):
    """A view that is one panel: it draws all its lines itself and has rows to move over."""

    def say(self, text: str) -> None:
        """Answer a key in the footer."""
        self.post_message(Said(text))

    def take_focus(self) -> None:
        """See `Acting`."""
        self.focus()

    @property
    def page(self) -> int:
        """Rows that a page has."""
        return max(1, self.size.height - 4)

    def move(self, by: int) -> None:
        """Go `by` rows down."""
        raise NotImplementedError

    def do_row_down(self) -> None:
        """The next row."""
        self.move(1)

    def do_row_up(self) -> None:
        """The row before."""
        self.move(-1)

    def do_page_down(self) -> None:
        """A page down."""
        self.move(self.page)

    def do_page_up(self) -> None:
        """A page up."""
        self.move(-self.page)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Move down."""
        event.stop()
        self.move(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Move up."""
        event.stop()
        self.move(-3)


class Searching:
    """The keys of a view whose rows can be searched."""

    def next_match(self, by: int) -> None:
        """Go to the next row in the direction of `by` that was found, or say why not."""
        raise NotImplementedError

    def do_next_match(self) -> None:
        """The next that was found."""
        self.next_match(1)

    def do_previous_match(self) -> None:
        """The one before."""
        self.next_match(-1)


class Jumping(Widget):
    """The keys of a view that has partitions among which to jump."""

    frame: Frame
    among: ClassVar[str] = "partition"  # what is looked through, in the sentence that none fits

    def jump(self, fits: Callable[[PartitionRow], bool], by: int, nothing: str) -> None:
        """Select the next partition in the direction of `by` that fits, or say `nothing`."""
        raise NotImplementedError

    def _next_slow(self, by: int) -> None:
        self.jump(lambda row: is_slow(row, self.frame.stages), by, f"no {self.among} is slow")

    def do_next_slow(self) -> None:
        """The next slow partition."""
        self._next_slow(1)

    def do_previous_slow(self) -> None:
        """The one before."""
        self._next_slow(-1)

    def _next_failure(self, by: int) -> None:
        self.jump(has_failed, by, f"no {self.among} has failed")

    def do_next_failure(self) -> None:
        """The next partition that failed."""
        self._next_failure(1)

    def do_previous_failure(self) -> None:
        """The one before."""
        self._next_failure(-1)
