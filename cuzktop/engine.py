"""Drain, fold, publish, until told to stop: the thread that owns the picture."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from cuzktop.dataclass import replace
from cuzktop.events import Event, SourceNote
from cuzktop.frame import Alert, Frame, Source
from cuzktop.picture import Picture
from cuzktop.watch import Watch

Batch = Sequence[Event]
LEAST_INTERVAL_S = 0.1
FIRST_S = 0.2  # nobody should wait a whole interval for the first picture with the log in it
BEHIND_MS = 3000.0  # a log whose newest line is so old when it comes is being caught up with
ERROR_PAUSE_S = 1.0  # after one of our own errors: it may come again at once
MOST_WAITING = 16  # batches: a block of the log is hundreds of events, a large log gigabytes
ROOM_S = 0.005
BATCHES_A_FRAME = 64  # while a large log is read, a frame comes after so many blocks at the latest


class Inbox(queue.SimpleQueue[Batch]):
    """What sources put batches of events into."""

    def __init__(self) -> None:
        """Nothing has come."""
        super().__init__()
        self._beside: deque[Batch] = deque()
        self._closed = threading.Event()

    def emit(self, batch: Batch) -> None:
        """Add a batch; a source that is faster than the engine waits until it has caught up."""
        super().put(batch)
        while self.qsize() > MOST_WAITING and not self._closed.wait(ROOM_S):
            pass

    def close(self) -> None:
        """Nothing is taken any more: let no source wait."""
        self._closed.set()
        self.put(())

    def lay_beside(self, batch: Batch) -> None:
        """Add a batch that can wait for the next frame: nobody is woken for it."""
        self._beside.append(batch)

    def take_beside(self) -> Iterator[Batch]:
        """What was laid beside, the oldest first."""
        while self._beside:
            yield self._beside.popleft()


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
    go by; `age_ms` is how long ago the log last grew when reading began. `glance` gives a picture
    of the log's end, if there is one: it is shown until all before it is read.
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
        glance: Callable[[], Frame | None] = lambda: None,
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
        self._bytes = 0  # that were read when the log last grew
        self._filling = age_ms is not None  # what was there before us is no growth
        self._latest: Frame | None = None
        self._told = ""
        self._glance = glance
        self._watch = Watch()

    def stop(self) -> None:
        """End the thread after what it is doing."""
        self._stopped.set()
        self._inbox.close()

    def set_interval(self, interval_s: float) -> None:
        """Publish every `interval_s` seconds from the next frame on."""
        self.interval_s = max(LEAST_INTERVAL_S, interval_s)
        self._inbox.put(())

    def progress(self, read_bytes: int, total_bytes: int) -> None:
        """The first read has come so far; called by the log's source."""
        done = total_bytes <= 0 or read_bytes >= total_bytes
        self.read_pct = None if done else 100.0 * read_bytes / total_bytes
        if done and self._filling:
            self._bytes = self._counts.bytes
            self._filling = False

    def run(self) -> None:
        """Work until `stop`; what goes wrong is told on the screen, once."""
        while not self._stopped.is_set():
            try:
                self.step()
            except Exception as error:  # noqa: BLE001 (a thread's end: it becomes an event)
                self._tell(
                    f"internal error, figures may be missing: {type(error).__name__}: {error}"
                )
                if self._stopped.wait(ERROR_PAUSE_S):
                    return

    def _tell(self, text: str) -> None:
        """Show an error of our own as long as it lasts: in the picture, or over the last one."""
        if text != self._told:
            self._told = text
            self._picture.feed([SourceNote(self._clock(), "error", text)])
        try:
            frame = self.frame()
        except Exception:  # noqa: BLE001 (it is what is being told)
            frame = self._latest or Frame(source=Source(path=self._path))
            source = replace(frame.source, note=text)
            alert = Alert(level="error", at_ms=None, text=text)
            frame = replace(frame, source=source, alerts=(*frame.alerts, alert))
        self._publish(frame)

    def step(self) -> None:
        """Fold in what comes within one interval, then publish a frame."""
        interval_s = self.interval_s
        if self._latest is None or self._filling:
            interval_s = min(FIRST_S, interval_s)
        due = self._monotonic_s() + interval_s
        batches = 0
        while True:
            left = due - self._monotonic_s()
            try:
                batch = self._inbox.get(timeout=max(0.0, min(left, self.interval_s)))
            except queue.Empty:
                break
            if self._stopped.is_set():
                return
            self._picture.feed(batch)
            batches += 1
            if left <= 0 or (self.read_pct is not None and batches >= BATCHES_A_FRAME):
                break
        for batch in self._inbox.take_beside():
            self._picture.feed(batch)
        self._latest = self.frame()
        self._publish(self._latest)

    def frame(self) -> Frame:
        """The picture now; the glance at the log's end, until all before it is read."""
        glance = self._glance() if self._filling else None
        if glance is not None:
            note, read_pct = self._picture.source_note, self.read_pct or 0.0
            return replace(glance, source=replace(glance.source, note=note, read_pct=read_pct))
        counts = self._counts
        wall_ms = self._clock()
        grows = counts.bytes != self._bytes
        if counts.bytes != self._bytes and not self._filling:
            self._bytes = counts.bytes
            self._grown_ms = max(self._grown_ms, wall_ms)
        silent_ms = self._picture.ended_ms(wall_ms, max(0.0, wall_ms - self._grown_ms))
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
        frame = self._picture.frame(
            source=source,
            now_ms=self._picture.now_ms(wall_ms, silent_ms),
            wall_ms=wall_ms,
        )
        if grows and frame.now_ms - self._picture.clock_ms > BEHIND_MS:
            return frame  # what happened a while ago is still being read: nothing of it is so now
        lasting = self._watch.look(frame, wall_ms)
        return replace(frame, alerts=(*frame.alerts, *lasting)) if lasting else frame
