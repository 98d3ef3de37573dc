"""What views tell the app: the user chose, opened or asked for something."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.message import Message
from textual.widget import Widget

from cuzktop.frame import PartitionRow
from cuzktop.tui.rows import PartitionKey
from cuzktop.tui.widgets.cells import Line

Body = Callable[[int], Sequence[Line]]
"""Makes the lines of a text for a width in cells."""


class Selected(Message):
    """The user chose a partition, for all views; None lets it go. `at_ms` is a cursor's instant."""

    def __init__(self, key: PartitionKey | None, at_ms: float | None = None) -> None:
        """The partition that was chosen."""
        super().__init__()
        self.key = key
        self.at_ms = at_ms


class PartitionOpened(Message):
    """The user asks for all that is known of one partition."""

    def __init__(self, row: PartitionRow) -> None:
        """Of `row`."""
        super().__init__()
        self.row = row


class Opened(Message):
    """The user asks for all that a panel knows."""

    def __init__(self, panel: Widget) -> None:
        """Of `panel`."""
        super().__init__()
        self.panel = panel


class TextOpened(Message):
    """The user asks for a text in full."""

    def __init__(self, heading: str, body: Body | list[str]) -> None:
        """`body` is shown as it is, under `heading`."""
        super().__init__()
        self.heading = heading
        self.body = body


class ViewWanted(Message):
    """The user asks for more of what a panel shows: for the view that has all of it."""

    def __init__(self, name: str) -> None:
        """The view's id in `keys.VIEWS`."""
        super().__init__()
        self.name = name


class Said(Message):
    """A few words for the footer, in answer to a key."""

    def __init__(self, text: str) -> None:
        """The words."""
        super().__init__()
        self.text = text
