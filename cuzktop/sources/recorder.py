"""Recording what runs: beside the screen, by a tap, or without one, by `record`."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, Self

from cuzktop import units
from cuzktop.errors import SourceUnreadableError, UsageError
from cuzktop.events import (
    Event,
    GpuSampled,
    GpuSamplerNote,
    HostSampled,
    LogEvent,
    SourceNote,
)
from cuzktop.sources.files import LogParser, look_at, open_stream
from cuzktop.sources.log_reader import Emit
from cuzktop.sources.recording_writer import (
    DEFAULT_MAX_BYTES,
    Recorded,
    RecordingStoppedError,
    RecordingWriter,
)
from cuzktop.sources.sink import EventSink, Singles

STATUS_S = 60.0
LOOK_S = 0.5  # a signal, the end of the log and a full disk are seen this soon

_RECORDED: Final = frozenset({GpuSampled, GpuSamplerNote, HostSampled, SourceNote})

# ---------------------------------------------------------------- beside what runs anyway


class RecordingTap:
    """A parser that also writes down what it is fed, while it has a writer.

    It stands between a log source and the parser, so that a recording can begin and end while the
    log is read. `clock` gives wall-clock milliseconds.
    """

    def __init__(
        self,
        parser: LogParser,
        clock: Callable[[], float],
        writer: RecordingWriter,
        *,
        in_line: bool = False,
    ) -> None:
        """Pass everything on to `parser`; record to `writer` from the first whole line on.

        `in_line`: what comes first is the rest of a line.
        """
        self._parser = parser
        self._clock = clock
        self._writer: RecordingWriter | None = writer
        self._skipping = in_line  # up to the line's end

    @property
    def writer(self) -> RecordingWriter | None:
        """What is recorded to, None where nothing is."""
        return self._writer

    def end(self) -> Recorded | None:
        """End the recording; what was recorded, None where nothing was."""
        writer, self._writer = self._writer, None
        if writer is None:
            return None
        writer.close(self._clock())
        return writer.recorded

    # ------------------------------------------------------------ the log

    def feed(self, data: bytes) -> list[LogEvent]:
        """Record `data`, and hand it on."""
        writer = self._writer
        if writer is not None:
            text = data
            if self._skipping:
                end = data.find(b"\n")
                self._skipping = end < 0
                text = data[end + 1 :] if end >= 0 else b""
            writer.log(text, self._clock())
        return self._parser.feed(data)

    def finish(self) -> list[LogEvent]:
        """No more bytes will come; the recording goes on with what comes beside the log."""
        return self._parser.finish()

    def cut(self) -> list[LogEvent]:
        """Continuity is lost."""
        writer = self._writer
        if writer is not None:
            writer.cut(self._clock())
        self._skipping = False
        return self._parser.cut()

    # ------------------------------------------------------------ what comes beside it

    def note(self, events: Iterable[Event]) -> None:
        """Record the readings and notes among `events`."""
        writer = self._writer
        if writer is None:
            return
        for event in events:
            if type(event) in _RECORDED:
                writer.event(event, self._clock())

    def emitting(self, emit: Emit) -> Emit:
        """`emit` for a source that emits batches, with what of them is recorded."""

        def recorded(events: Sequence[Event]) -> None:
            self.note(events)
            emit(events)

        return recorded


# ---------------------------------------------------------------- recording without a screen


class LogSource(Protocol):
    """A thread that reads the log."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End soon."""

    def is_alive(self) -> bool:
        """Whether more may come."""

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""


class _Nothing:
    """A parser that makes nothing of a log: recording it costs no more than copying it."""

    def feed(self, data: bytes) -> list[LogEvent]:
        """No event."""
        del data
        return []

    def finish(self) -> list[LogEvent]:
        """No event."""
        return []

    def cut(self) -> list[LogEvent]:
        """No event."""
        return []


class _EndSignals:
    """Takes note of the signals that ask for an end, instead of dying of them."""

    def __init__(self) -> None:
        self.came = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) is signal.SIG_IGN:
                    continue  # nohup, or a job in the background
                self._before[number] = signal.signal(number, self._take)
        return self

    def _take(self, number: int, frame: object) -> None:
        del number, frame
        self.came = True

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def record(
    path: Path,
    log: Path,
    *,
    wall_ms: Callable[[], float],
    monotonic_s: Callable[[], float],
    say: Callable[[str], object],
    max_bytes: int = DEFAULT_MAX_BYTES,
    max_age_s: float | None = None,
    quiet: bool = False,
    pid: int | None = None,
    stop: threading.Event | None = None,
    source: Callable[[LogParser, Emit], LogSource] | None = None,
) -> Recorded:
    """Record `log` (`-` is standard input), the GPUs and the host to `path` until told to end.

    `pid` is the daemon's process, if it is known. `source` makes another source than a file or
    stream, the journal say; `log` is its name then. It ends by SIGINT, SIGTERM or SIGHUP, by
    `stop`, or when a log that is a stream has ended. `say` takes one line for the user: what is
    recorded, once a minute how much, and at the end; `quiet` leaves out all but warnings. Raises
    SourceUnreadableError or UsageError before anything is recorded, RecordingStoppedError when it
    can't be gone on with.
    """
    stop = stop or threading.Event()
    name = "standard input" if log == Path("-") else str(log)
    stream = None if source is not None else _stream_of(log)
    writer = RecordingWriter(
        path, now_ms=wall_ms(), log=name, max_bytes=max_bytes, max_age_s=max_age_s
    )
    tap = RecordingTap(_Nothing(), wall_ms, writer)

    def speak(text: str) -> None:
        with contextlib.suppress(OSError):  # nobody reads it any more: recording goes on
            say(text)

    def tell(events: Sequence[Event]) -> None:
        for event in events:
            warns = isinstance(event, GpuSamplerNote) or (
                isinstance(event, SourceNote) and event.level != "info"
            )
            text = event.text if isinstance(event, GpuSamplerNote | SourceNote) else ""
            if text and (warns or not quiet):
                speak(text)

    emit = tap.emitting(tell)
    reader = source(tap, emit) if source else _source(log, stream, tap, emit, wall_ms)
    if not quiet:
        speak(f"recording {name} to {path}; Ctrl-C ends it")
    began_s = said_s = monotonic_s()
    with _EndSignals() as signals:
        reader.start()
        _start_samplers(Singles(emit), wall_ms, stop, pid)
        while reader.is_alive() and not (signals.came or stop.is_set() or writer.failure):
            stop.wait(LOOK_S)
            writer.flush(wall_ms())
            if not quiet and monotonic_s() - said_s >= STATUS_S:
                said_s = monotonic_s()
                speak(f"{units.age(1000.0 * (said_s - began_s))}: {writer.recorded.text()}")
        stop.set()
        reader.stop()
        if stream is None:
            reader.join(2.0 * LOOK_S)
        writer.close(wall_ms())
    if writer.failure:
        hint = f"what came until then can be played: cuzktop replay {path}"
        raise RecordingStoppedError(writer.failure, hint=hint)
    if not quiet:
        lasted = units.age(1000.0 * (monotonic_s() - began_s))
        speak(f"recorded {writer.recorded.text()} in {lasted}; cuzktop replay {path} plays it")
    return writer.recorded


def _source(
    log: Path,
    stream: int | None,
    tap: RecordingTap,
    emit: Emit,
    wall_ms: Callable[[], float],
) -> LogSource:
    from cuzktop.sources.log_tail import LogTail  # noqa: PLC0415 (a report doesn't need it)
    from cuzktop.sources.stdin import StreamReader  # noqa: PLC0415 (the same)

    if stream is None:
        return LogTail(log, tap, emit, clock=wall_ms)
    name = "standard input" if log == Path("-") else str(log)
    return StreamReader(stream, tap, emit, clock=wall_ms, name=name)


def _start_samplers(
    events: EventSink, wall_ms: Callable[[], float], stop: threading.Event, pid: int | None
) -> None:
    from cuzktop.sources.gpu_sampler import GpuSampler  # noqa: PLC0415 (a screen may have it)
    from cuzktop.sources.host import HostSampler  # noqa: PLC0415 (a report doesn't need it)
    from cuzktop.sources.nvml import PynvmlReader  # noqa: PLC0415 (to be replaced in tests)
    from cuzktop.sources.ordinals import read_choice  # noqa: PLC0415 (the same)

    host = HostSampler(events, wall_ms, stop, daemon_pid=pid)
    host.start()
    choice = lambda: read_choice(host.daemon_pid)  # noqa: E731
    GpuSampler(events, wall_ms, stop, reader=PynvmlReader(), choice=choice).start()


def _stream_of(log: Path) -> int | None:
    """The descriptor of a log that is read once; None for a file that is followed.

    Raises SourceUnreadableError if it can't be read, UsageError if nobody writes into it.
    """
    if log != Path("-"):
        kind, _ = look_at(log)
        if kind == "recording":
            message = f"{log} is a recording"
            raise UsageError(message, hint=f"cuzktop replay {log} plays it; name the daemon's log")
        if kind == "packed":
            message = f"{log} is a compressed log, into which nobody writes"
            raise UsageError(message, hint=f"cuzktop {log} shows it; name the daemon's log")
        return open_stream(log, wait=True) if kind == "stream" else None
    try:
        if os.isatty(0):
            message = "standard input is the terminal, not a log"
            hint = "pipe the log in: journalctl -u cuzk -f -o cat | cuzktop record FILE --log -"
            raise SourceUnreadableError(message, hint=hint)
        return os.dup(0)
    except OSError:
        message = "standard input is closed"
        raise SourceUnreadableError(message, hint="pipe the log in, or name a file") from None
