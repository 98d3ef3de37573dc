"""What a thread that sleeps is woken by.

Waiting for `threading.Event` runs a page of Python each time, and a thread that wakes a few times
a second runs all of it on cold caches. A lock is waited for in C.
"""

from __future__ import annotations

import contextlib
import threading

FOR_EVER_S = -1  # as a lock has it


class Bell:
    """Ends one thread's wait; a ring that nobody waits for ends the next wait."""

    def __init__(self) -> None:
        """It is silent."""
        self._silence = threading.Lock()  # held until it rings
        self._silence.acquire()

    def ring(self) -> None:
        """Wake who waits. Any thread may."""
        with contextlib.suppress(RuntimeError):  # it rings already
            self._silence.release()

    def wait(self, timeout_s: float) -> bool:
        """Sleep so long, or until it rings; whether it rang."""
        return self._silence.acquire(timeout=timeout_s)


class End(threading.Event):
    """An event that is set once, for any number of threads, and cheap to wait for."""

    def __init__(self) -> None:
        """It has not come."""
        super().__init__()
        self._bell = Bell()

    def set(self) -> None:
        """Let it come: nobody waits any more."""
        super().set()
        self._bell.ring()

    def wait(self, timeout: float | None = None) -> bool:
        """See `threading.Event`."""
        if self._bell.wait(FOR_EVER_S if timeout is None else max(0.0, timeout)):
            self._bell.ring()  # for the next who waits
        return self.is_set()
