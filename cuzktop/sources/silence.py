"""A log that stops in the middle of a line: said after a while, taken back when the rest comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from cuzktop.events import Event, SourceNote

IDLE_MS: Final = 2000.0


class Silence:
    """Asks `ask` once a silence what there is to say ("" for nothing), and takes it back."""

    def __init__(self, ask: Callable[[], str] | None) -> None:
        """Nothing was read yet: a log that has not begun isn't silent."""
        self._ask = ask
        self._since_ms: float | None = None
        self._said = False

    def ends(self, now_ms: float) -> Sequence[Event]:
        """Something was read."""
        self._since_ms = now_ms
        if not self._said:
            return ()
        self._said = False
        return [SourceNote(now_ms, "info", "")]

    def lasts(self, now_ms: float) -> Sequence[Event]:
        """Nothing was read this time."""
        if self._since_ms is None or now_ms - self._since_ms < IDLE_MS:
            return ()
        self._since_ms = None
        text = self._ask() if self._ask is not None else ""
        self._said = bool(text)
        return [SourceNote(now_ms, "info", text)] if text else ()
