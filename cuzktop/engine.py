"""Between sources and views: events are folded into the picture, and frames of it published."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence

from cuzktop.bell import Bell
from cuzktop.dataclass import replace
from cuzktop.events import Event, SourceNote
from cuzktop.frame import Alert, Frame, LogCounts, Source
from cuzktop.picture import Picture
from cuzktop.watch import Watch

Batch = Sequence[Event]
LEAST_INTERVAL_S = 0.1
FIRST_S = 0.2  # nobody should wait a whole interval for the first picture with the log in it
BEHIND_MS = 3000.0  # a log whose newest line is so old when it comes is being caught up with
BRING_S = 0.19  # a log is read no more often than every second frame of ten a second
FILL_S = 0.9  # a history that is filled anew takes less; of a long one, what has come is shown
ERROR_PAUSE_S = 1.0  # after one of our own errors: it may come again at once


class Inbox:
    """Where sources bring batches of events: whoever brings one folds it into the picture.

    So a line is in the model as soon as it is read, no thread is woken for it, and a source that
    is faster than the folding waits. One at a time is at the picture; a frame's turn is the next
    that comes free, however many batches follow each other.
    """

    def __init__(self, picture: Picture) -> None:
        """Nothing has come."""
        self._picture = picture
        self._turn = threading.Lock()  # held by who works with the picture
        self._next = threading.Lock()  # held by a frame that waits for its turn
        self._beside: deque[Batch] = deque()
        self._bell = Bell()
        self.failure: Exception | None = None  # the latest in folding; not a source's fault

    def emit(self, batch: Batch) -> None:
        """Fold a batch in. Raises nothing: what goes wrong is a `failure`."""
        with self._next:
            pass
        with self._turn:
            self._fold(batch)

    def _fold(self, batch: Batch) -> None:
        try:
            self._picture.feed(batch)
        except Exception as error:  # noqa: BLE001 (the engine raises it)
            self.failure = error

    def lay_beside(self, batch: Batch) -> None:
        """Add a batch that can wait for the next frame."""
        self._beside.append(batch)

    def look(self, make: Callable[[], Frame]) -> Frame:
        """The frame that `make` makes of the picture, in which all is that has come."""
        with self._next, self._turn:
            while self._beside:
                self._fold(self._beside.popleft())
            return make()

    def wait(self, timeout_s: float) -> None:
        """Let batches come for so long, or until `wake`."""
        self._bell.wait(timeout_s)

    def wake(self) -> None:
        """End a wait."""
        self._bell.ring()


class Engine(threading.Thread):
    """Publishes a frame of `picture`, into which `inbox` folds, every `interval_s`.

    `clock` gives wall-clock milliseconds (a replay's own), `monotonic_s` the seconds that paces
    go by; `age_ms` is how long ago the log last grew when reading began. `glance` gives a picture
    of the log's end, if there is one: it is shown until all before it is read. `bring` has a
    source fold in what has come, before a frame is made.
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
        bring: Callable[[], object] = lambda: None,
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
        self._seen_growing = False
        self._filling = age_ms is not None  # what was there before us is no growth
        self._latest: Frame | None = None
        self._refilled_s: float | None = None  # since when what is played anew fills the picture
        self._told = ""
        self._glance = glance
        self._bring = bring
        self._brought_s = -math.inf
        self._watch = Watch()

    def stop(self) -> None:
        """End the thread after what it is doing."""
        self._stopped.set()
        self._inbox.wake()

    def set_interval(self, interval_s: float) -> None:
        """Publish every `interval_s` seconds from the latest frame on."""
        self.interval_s = max(LEAST_INTERVAL_S, interval_s)
        self._inbox.wake()

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
            self._inbox.emit([SourceNote(self._clock(), "error", text)])
        try:
            frame = self._inbox.look(self.frame)
        except Exception:  # noqa: BLE001 (it is what is being told)
            frame = self._latest or Frame(source=Source(path=self._path))
            source = replace(frame.source, note=text)
            alert = Alert(level="error", at_ms=None, text=text)
            frame = replace(frame, source=source, alerts=(*frame.alerts, alert))
        self._publish(frame)

    def step(self) -> None:
        """Let one interval pass, then publish a frame."""
        interval_s = self.interval_s
        if self._latest is None or self._filling or self._is_half_filled():
            interval_s = min(FIRST_S, interval_s)
        begun = self._monotonic_s()
        while (left := begun + min(interval_s, self.interval_s) - self._monotonic_s()) > 0.0:
            self._inbox.wait(left)
            if self._stopped.is_set():
                return
        now_s = self._monotonic_s()
        if now_s - self._brought_s >= BRING_S:
            self._brought_s = now_s
            self._bring()
        failure, self._inbox.failure = self._inbox.failure, None
        if failure is not None:
            raise failure
        self._latest = self._inbox.look(self.frame)
        self._publish(self._latest)

    def _is_half_filled(self) -> bool:
        """Whether what is played anew has not all come, which takes no longer than `FILL_S`."""
        if not self._picture.fills:
            self._refilled_s = None
            return False
        now_s = self._monotonic_s()
        if self._refilled_s is None:
            self._refilled_s = now_s
        return now_s < self._refilled_s + FILL_S

    def frame(self) -> Frame:
        """The picture now; the glance at the log's end, until all before it is read.

        While what is played anew fills the picture, the last one stands.
        """
        if self._latest is not None and self._is_half_filled():
            return self._latest
        glance = self._glance() if self._filling else None
        if glance is not None:
            note, read_pct = self._picture.source_note, self.read_pct or 0.0
            return replace(glance, source=replace(glance.source, note=note, read_pct=read_pct))
        counts = self._counts
        wall_ms = self._clock()
        grows = counts.bytes != self._bytes
        if grows and not self._filling:
            self._bytes = counts.bytes
            self._grown_ms = max(self._grown_ms, wall_ms)
            self._seen_growing = True
        unwritten_ms = max(0.0, wall_ms - self._grown_ms)
        silent_ms = self._picture.ended_ms(wall_ms, unwritten_ms, grows=self._seen_growing)
        source = Source.of(
            counts,
            path=self._path,
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
