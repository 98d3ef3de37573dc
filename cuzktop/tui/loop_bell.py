"""Wakes the screen's loop from another thread, at the price of a byte through a pipe.

`call_soon_threadsafe` makes a handle each time and reads its socket until an error says that it is
empty: at ten pictures a second that is a noticeable part of what they cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable


class LoopBell:
    """Has `loop` call `answer`, in the context of whoever makes the bell, once it is rung.

    Where it is rung again before it was heard, that is one call.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, answer: Callable[[], object]) -> None:
        """Listen from now on."""
        self._loop = loop
        self._answer = answer
        heard, rung = os.pipe()
        self._heard, self._rung = os.fdopen(heard, "rb", 0), os.fdopen(rung, "wb", 0)
        loop.add_reader(heard, self._hear)

    def ring(self) -> None:
        """Have it called soon. Safe from any thread; after `close` it does nothing."""
        with contextlib.suppress(OSError, ValueError):
            self._rung.write(b".")

    def _hear(self) -> None:
        self._heard.read(64)
        self._answer()

    def close(self) -> None:
        """Listen no more."""
        self._loop.remove_reader(self._heard.fileno())
        self._heard.close()
        self._rung.close()
