"""What a thread that sleeps is woken by.

Waiting for `threading.Event` runs a page of Python each time, and a thread that wakes a few times
a second runs all of it on cold caches. A lock is waited for in C.
"""

from __future__ import annotations

import threading


class Bell:
    """Ends one thread's wait; a ring that nobody waits for ends the next wait."""

    def __init__(self) -> None:
        """It is silent."""
        self._silence = threading.Lock()  # held until it rings
        self._silence.acquire()

    def ring(self) -> None:
        """Wake who waits. Any thread may."""
        try:  # noqa: SIM105 (loaded at start: contextlib isn't otherwise)
            self._silence.release()
        except RuntimeError:  # it rings already
            pass

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
        if self._bell.wait(-1 if timeout is None else timeout):
            self._bell.ring()  # for the next who waits
        return self.is_set()
