"""The screen on a growing log: sources, engine and app put together, and taken apart at the end."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from cuzktop.engine import Engine, Inbox
from cuzktop.errors import EXIT_OK, SourceUnreadableError
from cuzktop.events import GpuSampled, SourceNote
from cuzktop.logbook import LogBook
from cuzktop.parse.scanner import LogScanner
from cuzktop.picture import Picture
from cuzktop.settings import EVERYTHING, Settings
from cuzktop.sources.sink import OwnCost, Singles
from cuzktop.where import STDIN, Log

YOUNG_OBJECTS = 20_000  # between two looks for garbage: a frame is thousands, and leaves none
HOST_PERIOD_S = 3.0  # the machine's own figures move slowly, and are dear to read
PACE_MS = 950.0  # averages and histories are worked out anew once a second, at any rate of frames
Tell = Callable[[str, str], object]


class LogSource(Protocol):
    """A thread that reads the log."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End soon."""


def run_live(
    settings: Settings,
    log: Log,
    *,
    status: str | None,
    wall_ms: Callable[[], float],
    monotonic_s: Callable[[], float],
    samples: Callable[[], Iterable[GpuSampled]] | None,
) -> int:
    """Show the screen until the user leaves; the exit status.

    `status` is the address of the daemon's status server, if there is one. Raises
    SourceUnreadableError before anything is drawn when the log can't be read.
    """
    from cuzktop.tui.app import CuzktopApp  # noqa: PLC0415 (a second of imports, only for this)

    path = log.path
    scanner = LogScanner()
    inbox = Inbox()
    picture = Picture(window_s=settings.window_s, pace_ms=PACE_MS)
    picture.book = scanner.book = LogBook()
    stop = threading.Event()
    clock = wall_ms
    age_ms: float | None = None
    source: LogSource
    engine_progress: list[Engine] = []

    since = settings.since

    def before(tell: Tell) -> Iterable[bytes]:
        from cuzktop.sources.rotated import rotated_blocks  # noqa: PLC0415

        return rotated_blocks(path, tell, since)

    def progress(read: int, total: int) -> None:
        for engine in engine_progress:
            engine.progress(read, total)

    from cuzktop.sources.recording import is_recording_file  # noqa: PLC0415

    if log.unsure:
        inbox.put([SourceNote(wall_ms(), "warning", log.note)])
    played = settings.demo is not None or (not log.is_journal and is_recording_file(path))
    if played:
        from cuzktop.sources.replay import Replay  # noqa: PLC0415

        replay = Replay(
            path,
            scanner,
            inbox.emit,
            clock=lambda: monotonic_s() * 1000.0,
            speed=settings.speed,
            start_s=settings.start_at_s,
            samples=samples,
            again=settings.demo is not None,
            stay=settings.demo is None,
        )
        clock = replay.now_ms
        source = replay
        title = str(path) if settings.demo is None else f"demo {settings.demo or path.parent.name}"
        if settings.demo is not None and samples is None:
            picture.sampler_note = "this demo has no GPU readings"
    elif log.unit is not None:
        from cuzktop.sources.journal import JournalReader  # noqa: PLC0415

        since_s = None
        if settings.since is not None:
            from cuzktop.sources.since import instant_ms  # noqa: PLC0415

            since_s = max(0.0, instant_ms(settings.since, wall_ms()) / 1000.0)
        source = JournalReader(
            log.unit, scanner, inbox.emit, clock=wall_ms, user=log.user_unit, since_s=since_s
        )
        title = log.name
    elif path == STDIN:
        from cuzktop.sources.stdin import StreamReader, reopen_tty  # noqa: PLC0415

        if sys.stdin.isatty():
            message = "standard input is the terminal, not a log"
            raise SourceUnreadableError(
                message, hint="pipe the log in: journalctl -u cuzk -f -o cat | cuzktop -"
            )
        descriptor = reopen_tty()
        if descriptor is None:
            message = "no terminal to read keys from"
            raise SourceUnreadableError(message, hint="use `cuzktop snapshot -` instead")
        source = StreamReader(
            descriptor, scanner, inbox.emit, clock=wall_ms, on_idle=scanner.half_line
        )
        title = "standard input"
    else:
        from cuzktop.sources.files import is_stream, open_log  # noqa: PLC0415
        from cuzktop.sources.log_tail import LogTail  # noqa: PLC0415
        from cuzktop.sources.stdin import StreamReader  # noqa: PLC0415

        if is_stream(path):
            import os  # noqa: PLC0415

            source = StreamReader(
                os.open(path, os.O_RDONLY),
                scanner,
                inbox.emit,
                clock=wall_ms,
                name=str(path),
                on_idle=scanner.half_line,
            )
        else:
            with open_log(path) as file:  # a file that can't be read is said before the screen
                import os  # noqa: PLC0415

                age_ms = max(0.0, wall_ms() - os.fstat(file.fileno()).st_mtime * 1000.0)
            source = LogTail(
                path,
                scanner,
                inbox.emit,
                clock=wall_ms,
                since=EVERYTHING if log.rotated and since is None else since,
                before=before if log.rotated else None,
                on_progress=progress,
                on_idle=scanner.half_line,
            )
        title = str(path)
    app = CuzktopApp(settings=settings, title=title)
    engine = Engine(
        picture,
        inbox,
        app.publish,
        clock=clock,
        monotonic_s=monotonic_s,
        counts=scanner.counts,
        path=title,
        interval_s=app.interval_s,
        age_ms=age_ms,
    )
    engine_progress.append(engine)
    app.on_interval = engine.set_interval
    recorded = played and settings.demo is None
    app.on_started = lambda: _start(
        source,
        engine,
        inbox,
        wall_ms,
        stop,
        played=played,
        host=not recorded,
        pid=log.pid,
        status=None if played else status,
    )
    try:
        app.run(mouse=settings.mouse)
    finally:
        stop.set()
        source.stop()
        engine.stop()
    return app.return_code or EXIT_OK


def _start(
    source: LogSource,
    engine: Engine,
    inbox: Inbox,
    wall_ms: Callable[[], float],
    stop: threading.Event,
    *,
    played: bool,
    host: bool,
    pid: int | None,
    status: str | None,
) -> None:
    """Start all threads: the log first, then the samplers that are wanted beside it.

    A log that is `played` is of another box, of which nothing is read here.
    """
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)
    gc.freeze()  # what is there now stays: nobody needs to look through it again and again
    source.start()
    engine.start()
    readings = Singles(inbox.lay_beside)
    if host:
        from cuzktop.sources.host import HostSampler  # noqa: PLC0415

        sink = OwnCost(readings) if played else readings
        sampler = HostSampler(sink, wall_ms, stop, period_s=HOST_PERIOD_S, daemon_pid=pid)
        sampler.start()
    if not played:
        from cuzktop.sources.nvml import NvmlSampler  # noqa: PLC0415
        from cuzktop.sources.ordinals import read_choice  # noqa: PLC0415

        NvmlSampler(
            readings,
            wall_ms,
            stop,
            choice=lambda: read_choice(sampler.daemon_pid if host else pid),
        ).start()
    if status:
        from cuzktop.sources.status import StatusPoller, address_of, parse_address  # noqa: PLC0415

        address = address_of(status) or parse_address(status)
        StatusPoller(address, readings, wall_ms, stop).start()
