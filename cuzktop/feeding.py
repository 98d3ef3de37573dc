"""What stands behind the screen: the log's reader, the samplers, and the engine between."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from cuzktop.bell import End
from cuzktop.deck import Deck, Junction, Tape
from cuzktop.engine import Engine, Inbox
from cuzktop.errors import SourceUnreadableError
from cuzktop.events import GpuSampled, SourceNote
from cuzktop.logbook import LogBook
from cuzktop.parse.scanner import LogScanner
from cuzktop.picture import Picture
from cuzktop.settings import EVERYTHING, Settings
from cuzktop.sources.files import FileKind, open_stream
from cuzktop.sources.packed import PackedReader
from cuzktop.sources.sink import Singles
from cuzktop.where import STDIN, Log

if TYPE_CHECKING:
    from cuzktop.frame import Frame
    from cuzktop.glance import Glance

TURN_S = 0.0005  # while a large log is read, a key waits for its turn several times
YOUNG_OBJECTS = 5000  # between two looks for garbage: a frame is thousands, and leaves little
HOST_PERIOD_S = 3.0  # the machine's own figures move slowly, and are dear to read
PACE_MS = 950.0  # averages and histories are worked out anew once a second, at any rate of frames
Tell = Callable[[str, str], object]


class LogSource(Protocol):
    """A thread that reads the log."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End soon."""


class Feeding:
    """All threads that bring frames to the screen; none runs before `start`."""

    def __init__(
        self,
        settings: Settings,
        log: Log,
        publish: Callable[[Frame], None],
        *,
        title: str,
        interval_s: float,
        kind: FileKind | None,
        status: str | None,
        wall_ms: Callable[[], float],
        monotonic_s: Callable[[], float],
        samples: Callable[[], Iterable[GpuSampled]] | None,
        age_ms: float | None = None,
        glance: Glance | None = None,
    ) -> None:
        """Put them together. Raises SourceUnreadableError for a log that can't be read.

        `kind` is what look_at found the log to be, None for what is no file of the user's: the
        journal, standard input, a demo. `status` is the address of the daemon's status server, if
        there is one; `age_ms` how long ago a log file was written, None for others; `glance` has
        the first picture of it.
        """
        self._settings, self._log = settings, log
        self._wall_ms, self._monotonic_s = wall_ms, monotonic_s
        self._samples = samples
        self._stop = End()
        self._scanner = LogScanner()
        self._picture = Picture(window_s=settings.window_s, pace_ms=PACE_MS)
        self._inbox = Inbox(self._picture)
        self._picture.book = self._scanner.book = LogBook()
        self._played = settings.demo is not None or kind == "recording"
        self._status = None if self._played else status
        self._clock = wall_ms
        self._junction = Junction(self._scanner)
        self._tape = Tape(
            self._junction,
            log=title,
            wall_ms=wall_ms,
            on_failure=lambda text: self._inbox.lay_beside([SourceNote(wall_ms(), "error", text)]),
        )
        self._emit = self._tape.emitting(self._inbox.emit)
        self.deck = Deck(tape=self._tape)
        if log.unsure:
            self._inbox.lay_beside([SourceNote(wall_ms(), "warning", log.note)])
        self._bring: Callable[[], object] = lambda: None
        self._source = self._source_of(settings, log, kind)
        self._engine = Engine(
            self._picture,
            self._inbox,
            publish,
            clock=self._clock,
            monotonic_s=monotonic_s,
            counts=self._scanner.counts,
            path=title,
            interval_s=interval_s,
            age_ms=age_ms,
            glance=lambda: None if glance is None else glance.frame,
            bring=self._bring,
        )
        self.set_interval = self._engine.set_interval

    def _source_of(self, settings: Settings, log: Log, kind: FileKind | None) -> LogSource:
        if self._played:
            return self._replay(settings, log)
        if log.unit is not None:
            return self._journal(settings, log.unit, user=log.user_unit)
        if log.path == STDIN:
            return self._standard_input()
        if kind == "stream":
            # A FIFO that nobody writes into yet is waited for by its thread, not by the keys.
            return self._stream(open_stream(log.path, wait=False), str(log.path))
        if kind == "packed":
            return PackedReader(
                log.path,
                self._junction,
                self._emit,
                clock=self._wall_ms,
                on_end=lambda: self._progress(0, 0),
            )
        return self._tail(settings, log)

    def _replay(self, settings: Settings, log: Log) -> LogSource:
        from cuzktop.sources.replay import Replay  # noqa: PLC0415

        replay = Replay(
            log.path,
            self._scanner,
            self._inbox.emit,
            clock=lambda: self._monotonic_s() * 1000.0,
            speed=settings.speed,
            start_s=settings.start_at_s,
            samples=self._samples,
            again=settings.demo is not None,
            stay=settings.demo is None,
        )
        self._clock = replay.now_ms
        self._bring = replay.bring
        self.deck = Deck(replay)
        if settings.demo is not None and self._samples is None:
            self._picture.sampler_note = "this demo has no GPU readings"
        return replay

    def _journal(self, settings: Settings, unit: str, *, user: bool) -> LogSource:
        from cuzktop.sources.journal import JournalReader  # noqa: PLC0415

        since_s = None
        if settings.since is not None:
            from cuzktop.sources.since import instant_ms  # noqa: PLC0415

            since_s = max(0.0, instant_ms(settings.since, self._wall_ms()) / 1000.0)
        return JournalReader(
            unit,
            self._junction,
            self._emit,
            clock=self._wall_ms,
            user=user,
            since_s=since_s,
        )

    def _standard_input(self) -> LogSource:
        from cuzktop.sources.stdin import reopen_tty  # noqa: PLC0415

        if sys.stdin.isatty():
            message = "standard input is the terminal, not a log"
            raise SourceUnreadableError(
                message, hint="pipe the log in: journalctl -u cuzk -f -o cat | cuzktop -"
            )
        descriptor = reopen_tty()
        if descriptor is None:
            message = "no terminal to read keys from"
            raise SourceUnreadableError(message, hint="use `cuzktop snapshot -` instead")
        return self._stream(descriptor, None)

    def _stream(self, descriptor: int, name: str | None) -> LogSource:
        from cuzktop.sources.stdin import StreamReader  # noqa: PLC0415

        named = {} if name is None else {"name": name}
        return StreamReader(
            descriptor,
            self._junction,
            self._emit,
            clock=self._wall_ms,
            on_idle=self._scanner.half_line,
            **named,
        )

    def _tail(self, settings: Settings, log: Log) -> LogSource:
        from cuzktop.sources.log_tail import LogTail  # noqa: PLC0415

        since = settings.since

        def before(tell: Tell) -> Iterable[bytes]:
            from cuzktop.sources.rotated import rotated_blocks  # noqa: PLC0415

            return rotated_blocks(log.path, tell, since)

        tail = LogTail(
            log.path,
            self._junction,
            self._emit,
            clock=self._wall_ms,
            since=EVERYTHING if log.rotated and since is None else since,
            before=before if log.rotated else None,
            on_progress=self._progress,
            on_idle=self._scanner.half_line,
            at_once=lambda: self._tape.runs,
        )
        self._bring = tail.bring
        return tail

    def _progress(self, read_bytes: int, total_bytes: int) -> None:
        self._engine.progress(read_bytes, total_bytes)

    def start(self) -> None:
        """Start all threads: the log first, then the samplers that are wanted beside it."""
        sys.setswitchinterval(TURN_S)
        gc.set_threshold(YOUNG_OBJECTS, 10, 10)
        gc.freeze()  # what is there now stays: nobody needs to look through it again and again
        self._source.start()
        self._engine.start()
        self._start_samplers(Singles(self._tape.emitting(self._inbox.lay_beside)))

    def _start_samplers(self, readings: Singles) -> None:
        """Start what reads this box. A log that is played is of another one.

        Beside a demo it is shown what cuzktop itself costs, beside a recording not even that.
        """
        wall_ms, stop = self._wall_ms, self._stop
        if self._played and self._settings.demo is None:
            return
        from cuzktop.sources.host import HostSampler  # noqa: PLC0415

        host = HostSampler(
            readings,
            wall_ms,
            stop,
            period_s=HOST_PERIOD_S,
            daemon_pid=self._log.pid,
            own_only=self._played,
        )
        host.start()
        if self._played:
            return
        from cuzktop.sources.gpu_sampler import GpuSampler  # noqa: PLC0415
        from cuzktop.sources.nvml import PynvmlReader  # noqa: PLC0415
        from cuzktop.sources.ordinals import read_choice  # noqa: PLC0415

        choice = lambda: read_choice(host.daemon_pid)  # noqa: E731
        GpuSampler(readings, wall_ms, stop, reader=PynvmlReader(), choice=choice).start()
        if self._status:
            from cuzktop.sources.status import (  # noqa: PLC0415
                StatusPoller,
                address_of,
                parse_address,
            )

            address = address_of(self._status) or parse_address(self._status)
            StatusPoller(address, readings, wall_ms, stop).start()

    def stop(self) -> None:
        """End all threads soon."""
        self._stop.set()
        self._source.stop()
        self._engine.stop()
        self._tape.end()
