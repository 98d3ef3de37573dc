"""Drain, fold, publish, until told to stop: the thread that owns the picture."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from cuzktop.events import Event, SourceNote
from cuzktop.frame import Frame, Source
from cuzktop.picture import Picture

Batch = Sequence[Event]
LEAST_INTERVAL_S = 0.1
BATCHES_A_FRAME = 64  # while a large log is read, a frame comes after so many blocks at the latest


class Inbox(queue.SimpleQueue[Batch]):
    """What sources put events into: `emit` a batch, or `put` a single event."""

    def emit(self, batch: Batch) -> None:
        """Add a batch."""
        super().put(batch)

    def one(self) -> _One:
        """The same inbox for a source that puts single events."""
        return _One(self)


class _One(queue.SimpleQueue[Event]):
    """A queue for single events that hands them on."""

    def __init__(self, inbox: Inbox) -> None:
        super().__init__()
        self._inbox = inbox

    def put(self, item: Event, block: bool = True, timeout: float | None = None) -> None:  # noqa: FBT001, FBT002 (queue's signature)
        self._inbox.put([item], block, timeout)


class LogCounts(Protocol):
    """What was read of the log; `cuzktop.parse.scanner.Counts`."""

    bytes: int
    lines: int
    events: int
    torn: int
    unparsed: int


class Engine(threading.Thread):
    """Takes events out of `inbox`, keeps the picture, and publishes a frame every `interval_s`.

    `clock` gives wall-clock milliseconds (a replay's own), `monotonic_s` the seconds that paces
    go by; `age_ms` is how long ago the log last grew when reading began.
    """

    def __init__(
        self,
        picture: Picture,
        inbox: Inbox,
        publish: Callable[[Frame], None],
        *,
        clock: Callable[[], float],
        monotonic_s: Callable[[], float],
        counts: LogCounts,
        path: str,
        interval_s: float,
        age_ms: float | None = None,
    ) -> None:
        """Nothing happens before `start`."""
        super().__init__(name="engine", daemon=True)
        self._picture = picture
        self._inbox = inbox
        self._monotonic_s = monotonic_s
        self._publish = publish
        self._clock = clock
        self._counts = counts
        self._path = path
        self.interval_s = interval_s
        self.read_pct: float | None = None
        self._stopped = threading.Event()
        self._grown_ms = clock() - (age_ms or 0.0)
        self._bytes = 0

    def stop(self) -> None:
        """End the thread after what it is doing."""
        self._stopped.set()
        self._inbox.put(())

    def set_interval(self, interval_s: float) -> None:
        """Publish every `interval_s` seconds from the next frame on."""
        self.interval_s = max(LEAST_INTERVAL_S, interval_s)
        self._inbox.put(())

    def progress(self, read_bytes: int, total_bytes: int) -> None:
        """The first read has come so far; called by the log's source."""
        done = total_bytes <= 0 or read_bytes >= total_bytes
        self.read_pct = None if done else 100.0 * read_bytes / total_bytes

    def run(self) -> None:
        """Work until `stop`; what goes wrong is told on the screen, once."""
        while not self._stopped.is_set():
            try:
                self.step()
            except Exception as error:  # noqa: BLE001 (a thread's end: it becomes an event)
                text = f"internal error, figures may be missing: {type(error).__name__}: {error}"
                self._picture.feed([SourceNote(self._clock(), "error", text)])
                if self._stopped.wait(1.0):
                    return

    def step(self) -> None:
        """Fold in what comes within one interval, then publish a frame."""
        due = self._monotonic_s() + self.interval_s
        for _ in range(BATCHES_A_FRAME):
            left = due - self._monotonic_s()
            try:
                batch = self._inbox.get(timeout=max(0.0, min(left, self.interval_s)))
            except queue.Empty:
                break
            if self._stopped.is_set():
                return
            self._picture.feed(batch)
            if left <= 0:
                break
        self._publish(self.frame())

    def frame(self) -> Frame:
        """The picture now."""
        counts = self._counts
        wall_ms = self._clock()
        if counts.bytes != self._bytes:
            self._bytes = counts.bytes
            self._grown_ms = max(self._grown_ms, wall_ms)
        silent_ms = max(0.0, wall_ms - self._grown_ms)
        source = Source(
            path=self._path,
            bytes=counts.bytes,
            lines=counts.lines,
            events=counts.events,
            torn=counts.torn,
            unparsed=counts.unparsed,
            silent_ms=silent_ms,
            read_pct=self.read_pct,
            note=self._picture.source_note,
        )
        return self._picture.frame(
            source=source,
            now_ms=self._picture.now_ms(wall_ms, silent_ms),
            wall_ms=wall_ms,
        )
