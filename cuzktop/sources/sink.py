"""Where a source puts events one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cuzktop.events import Event


class EventSink(Protocol):
    """Takes single events; a queue is one."""

    def put(self, event: Event, /) -> object:
        """Take `event`; any thread may call."""


class Singles:
    """A sink before something that takes batches: each event is a batch of its own."""

    def __init__(self, emit: Callable[[Sequence[Event]], object]) -> None:
        """Hand on to `emit`."""
        self._emit = emit

    def put(self, event: Event, /) -> None:
        """See `EventSink`."""
        self._emit([event])
