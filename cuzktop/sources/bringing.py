"""A source's work, done by its own thread or by whoever needs what comes of it, before that.

Two threads that wake in turn cost more than one: each finds its caches cold. So a frame has its
source hand over what it has, and as long as that goes on the source's own thread lets it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Final

BROUGHT_MS: Final = 1500.0  # by what nobody has done for so long, the own thread sees to


class Bringing:
    """Keeps the two apart, and remembers whether the other one still comes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Nobody has come; `clock` gives milliseconds from any zero."""
        self.working = threading.Lock()  # held by who does the work
        self._clock = clock
        self._came_ms = -math.inf
        self._failure: Exception | None = None
        self._over = False

    def bring(self, work: Callable[[], object]) -> bool:
        """Do the work, for another thread than its own; whether all went well.

        If it is being done at the moment nobody waits for it. What goes wrong its own thread tells.
        """
        if self._over or not self.working.acquire(blocking=False):
            return True
        try:
            self._came_ms = self._clock()
            work()
        except Exception as error:  # noqa: BLE001 - see `check`
            self._failure = error
            return False
        finally:
            self.working.release()
        return True

    def check(self) -> None:
        """Raise what went wrong when another thread did the work."""
        if self._failure is not None:
            raise self._failure

    def end(self) -> None:
        """Have nothing done any more."""
        self._over = True

    @property
    def goes_on(self) -> bool:
        """Whether another thread does the work."""
        return 0.0 <= self._clock() - self._came_ms < BROUGHT_MS
