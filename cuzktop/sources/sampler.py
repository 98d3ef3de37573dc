"""What all that is read now and then has in common: a thread that takes a step a period."""

from __future__ import annotations

import threading
from collections.abc import Callable

from cuzktop.sources.sink import EventSink


class Sampler(threading.Thread):
    """A daemon thread that takes steps, in which it puts what it reads on `events`, until `stop`.

    A call that hangs must hold up neither the screen nor the exit, and a fault must not end the
    readings. Each kind says in `_step` what it reads and in `_fail` what it says of a fault; both
    give the seconds from that step's beginning to the next one's. `clock` gives wall-clock ms.
    """

    def __init__(
        self, thread: str, events: EventSink, clock: Callable[[], float], stop: threading.Event
    ) -> None:
        """Read nothing yet."""
        super().__init__(name=thread, daemon=True)
        self._events = events
        self._clock = clock
        self._stop_event = stop

    def run(self) -> None:
        """Take a step a period until told to stop."""
        while not self._stop_event.is_set():
            began_ms = self._clock()
            try:
                period_s = self._step()
            except Exception as error:  # noqa: BLE001  # a fault here must not end the readings
                period_s = self._fail(error)
            spent_s = max(0.0, (self._clock() - began_ms) / 1000.0)
            self._stop_event.wait(max(0.0, period_s - spent_s))

    def _step(self) -> float:
        raise NotImplementedError

    def _fail(self, error: Exception) -> float:
        raise NotImplementedError


def in_a_line(error: Exception) -> str:
    """A fault's kind and text, without line breaks."""
    return " ".join(f"{type(error).__name__}: {error}".split())
