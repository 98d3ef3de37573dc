"""Where a source puts events one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cuzktop.events import Event, HostSampled


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


class OwnCost:
    """A sink for the host's readings beside a log that is played: it is of another box.

    What remains is what cuzktop itself costs here.
    """

    def __init__(self, events: EventSink) -> None:
        """Hand on to `events`."""
        self._events = events

    def put(self, event: Event, /) -> None:
        """See `EventSink`."""
        if isinstance(event, HostSampled):
            nothing = HostSampled(event.at_ms, *[None] * (len(event) - 1))
            event = nothing._replace(
                own_cpu_pct=event.own_cpu_pct, own_rss_bytes=event.own_rss_bytes
            )
        self._events.put(event)
