"""The thread that reads all cards a step a second, and what goes on when one of them hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable

from cuzktop.sources.gpu_reader import UTIL_SOURCES, GpuReader, UtilSource
from cuzktop.sources.gpu_sampling import (
    DEFAULT_PERIOD_S,
    SamplerState,
    find_cards,
    forget_cards,
    sample,
    unavailable,
)
from cuzktop.sources.ordinals import CudaChoice
from cuzktop.sources.sampler import Sampler, in_a_line
from cuzktop.sources.sink import EventSink

MIN_PERIOD_S = 0.5  # nothing changes faster than 200 ms, and each call takes the driver's locks
RELIEF_PERIOD_S = 1.5  # between two looks if a card holds up the others
STUCK_S = 0.5  # a card's turn takes a millisecond, ten when the driver is busy


class GpuSampler(Sampler):
    """Puts a `GpuSampled` of each card on `events` every `period_s`, and notes on what is missing.

    A card that hangs must not hold up the others, either: a `_Relief` looks after it, and has them
    read by another such thread. One thread reads all of them until then, for what is woken once
    costs less than what is woken four times.
    """

    def __init__(
        self,
        events: EventSink,
        clock: Callable[[], float],
        stop: threading.Event,
        *,
        reader: GpuReader,
        period_s: float = DEFAULT_PERIOD_S,
        sources: tuple[UtilSource, ...] = UTIL_SOURCES,
        choice: Callable[[], CudaChoice | None] = lambda: None,
    ) -> None:
        """Take `period_s` in seconds, half a second at least.

        `choice` gives what the daemon's environment says of its GPUs.
        """
        super().__init__("cuzktop-nvml", events, clock, stop)
        self._period_s = max(MIN_PERIOD_S, period_s)
        self._reader = reader
        self._state = SamplerState(sources=sources, choice=choice)
        self._relief: _Relief | None = None

    def _step(self) -> float:
        reader, state = self._reader, self._state
        try:
            for event in find_cards(reader, self._clock, state):
                self._events.put(event)
            if self._relief is None and len(state.cards) > 1:
                self._relief = _Relief(self._stop_event, state, self._go_on)
                self._relief.start()
            for event in sample(reader, self._clock, state):
                self._events.put(event)
        finally:
            state.give_turn(None, state.cards)
        return self._period_s

    def _fail(self, error: Exception) -> float:
        """Take back what was said of the cards, say this instead, and look for them again."""
        now_ms = self._clock()
        for taken_back in forget_cards(self._state, now_ms):
            self._events.put(taken_back)
        why = f"GPU readings broke off: {in_a_line(error)}"
        for note in unavailable(self._state, now_ms, why):
            self._events.put(note)
        return self._period_s

    def _go_on(self, state: SamplerState) -> None:
        """Have another thread read the cards of `state`."""
        other = GpuSampler(
            self._events,
            self._clock,
            self._stop_event,
            reader=self._reader,
            period_s=self._period_s,
        )
        other._state = state
        other.start()


class _Relief(threading.Thread):
    """Looks now and then if a card keeps its turn, and has the others read elsewhere if so."""

    def __init__(
        self,
        stop: threading.Event,
        state: SamplerState,
        go_on: Callable[[SamplerState], None],
    ) -> None:
        """Look after the step that `state` belongs to."""
        super().__init__(name="cuzktop-nvml-relief", daemon=True)
        self._stop_event = stop
        self._state = state
        self._go_on = go_on

    def run(self) -> None:
        """Look until there is nothing left to do."""
        state = self._state
        while not self._stop_event.wait(RELIEF_PERIOD_S):
            turn = state.turns
            if state.reading is None or self._stop_event.wait(STUCK_S):
                continue
            others = state.leave_alone(turn)
            if others is not None:
                self._go_on(others)
                return
