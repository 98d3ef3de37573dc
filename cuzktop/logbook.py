"""The daemon's own latest lines, for reading on the screen."""

from __future__ import annotations

import threading

KEEP_LINES = 5000  # what a person scrolls through; more is what a pager is for
KEEP_LINE_BYTES = 4096  # longer lines are cut for display


class LogBook:
    """A ring of the latest raw lines, numbered from the first line read.

    One thread extends it, others read; a line is bytes as the daemon wrote it, colours included.
    """

    __slots__ = ("_first", "_lines", "_lock")

    def __init__(self) -> None:
        """Nothing was read."""
        self._lines: list[bytes] = []
        self._first = 0
        self._lock = threading.Lock()

    def extend(self, lines: list[bytes]) -> None:
        """Add lines; the oldest go beyond `KEEP_LINES`."""
        new = lines if len(lines) <= KEEP_LINES else lines[-KEEP_LINES:]
        if max(map(len, new), default=0) > KEEP_LINE_BYTES:  # thousands of them would fill memory
            new = [line[:KEEP_LINE_BYTES] for line in new]
        with self._lock:
            kept = self._lines
            kept += new
            self._first += len(lines) - len(new)
            over = len(kept) - KEEP_LINES
            if over > KEEP_LINES // 4:  # drop many at a time: dropping costs the whole list
                del kept[:over]
                self._first += over

    def clear(self) -> None:
        """Forget all lines, and go on counting."""
        with self._lock:
            self._first += len(self._lines)
            self._lines.clear()

    @property
    def span(self) -> tuple[int, int]:
        """Numbers of the oldest line kept and of the line that will come next."""
        with self._lock:
            return self._first, self._first + len(self._lines)

    def read(self, first: int, last: int) -> list[bytes]:
        """The lines numbered `first` … `last` − 1, as far as they are kept, cut for display."""
        with self._lock:
            return self._lines[max(0, first - self._first) : max(0, last - self._first)]
