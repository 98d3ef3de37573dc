"""Recording beside a screen, and without one."""

from __future__ import annotations

import errno
import gzip
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cuzktop.deck import Junction
from cuzktop.errors import SourceUnreadableError, UsageError
from cuzktop.events import (
    Event,
    GpuSampled,
    GpuSamplerNote,
    HostSampled,
    LineUnparsed,
    LogEvent,
    SourceNote,
)
from cuzktop.sources import recorder
from cuzktop.sources.files import LogParser, open_log, read_blocks
from cuzktop.sources.recorder import RecordingTap, record
from cuzktop.sources.recording import Piece
from cuzktop.sources.recording_reader import RecordReader
from cuzktop.sources.recording_writer import Recorded, RecordingStoppedError, RecordingWriter
from tests.canned import recording_blocks

T0_MS = 1_796_029_645_000.0
GPU = GpuSampled(T0_MS, 0, 45.0, "gpm", 1000.0, power_w=300.0)
HOST = HostSampled(T0_MS, 50.0, None, None, None, None, None)
NO_GPU = GpuSamplerNote(T0_MS, None, "NVML not available: no driver")
PATIENCE_S = 60.0


class Lines:
    """A parser that makes an event of every line."""

    def __init__(self) -> None:
        self.finished = 0

    def feed(self, data: bytes) -> list[LogEvent]:
        return [LineUnparsed(line, "") for line in data.decode().splitlines()]

    def finish(self) -> list[LogEvent]:
        return [LineUnparsed("", "finished")]

    def cut(self) -> list[LogEvent]:
        return [LineUnparsed("", "cut")]


class Clock:
    def __init__(self) -> None:
        self.now_ms = T0_MS

    def __call__(self) -> float:
        self.now_ms += 100.0
        return self.now_ms


def log_of(path: Path) -> bytes:
    with open_log(path) as file:
        return b"".join(recording_blocks(read_blocks(file)))


def beside(path: Path) -> list[Piece]:
    """What was recorded beside the log."""
    found = RecordReader().feed(path.read_bytes())
    return [piece for _, piece in found if not isinstance(piece, bytes)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.rec"


# ---------------------------------------------------------------- beside a screen


def test_what_is_fed_is_recorded_and_handed_on(path: Path) -> None:
    clock = Clock()
    tap = RecordingTap(Lines(), clock, RecordingWriter(path, now_ms=T0_MS))
    assert tap.feed(b"one\ntw") == [LineUnparsed("one", ""), LineUnparsed("tw", "")]
    assert tap.cut() == [LineUnparsed("", "cut")]
    assert tap.feed(b"new\n") == [LineUnparsed("new", "")]
    assert tap.finish() == [LineUnparsed("", "finished")]
    assert tap.end() == Recorded(path.stat().st_size, lines=2)
    assert log_of(path) == b"one\ntw\nnew\n"
    assert b"L 1796029645100 one" in path.read_bytes()


def begun(junction: Junction, path: Path) -> RecordingTap:
    """A recording of what `junction` is fed from now on."""
    taps: list[RecordingTap] = []

    def tap_of(parser: LogParser, in_line: bool) -> LogParser:  # noqa: FBT001
        writer = RecordingWriter(path, now_ms=T0_MS)
        taps.append(RecordingTap(parser, Clock(), writer, in_line=in_line))
        return taps[0]

    junction.lead_through(tap_of)
    return taps[0]


def test_a_recording_can_begin_and_end_while_the_log_is_read(path: Path, tmp_path: Path) -> None:
    junction = Junction(Lines())
    assert junction.feed(b"before\nha")
    tap = begun(junction, path)
    assert tap.writer is not None
    assert junction.feed(b"l") == [LineUnparsed("l", "")]
    junction.feed(b"f\nwhole\nnext ")
    junction.feed(b"one\nhalf")
    tap.end()
    assert tap.writer is None
    assert tap.end() is None
    junction.feed(b" its rest\n")
    assert log_of(path) == b"whole\nnext one\nhalf"
    tap = begun(junction, tmp_path / "again")
    junction.feed(b"again\n")
    tap.end()
    assert log_of(tmp_path / "again") == b"again\n"


def test_a_cut_ends_the_line_that_would_be_left_out(path: Path) -> None:
    junction = Junction(Lines())
    junction.feed(b"half")
    tap = begun(junction, path)
    junction.cut()
    junction.feed(b"new\n")
    tap.end()
    assert log_of(path) == b"new\n"


def test_readings_and_notes_are_recorded_on_their_way(path: Path) -> None:
    tap = RecordingTap(Lines(), Clock(), RecordingWriter(path, now_ms=T0_MS))
    emitted: list[Event] = []
    inbox: list[Event] = []
    note = SourceNote(T0_MS, "info", "x")
    tap.emitting(emitted.extend)([LineUnparsed("x", ""), note])
    tap.emitting(inbox.extend)([GPU])
    tap.emitting(inbox.extend)([HOST])
    tap.end()
    tap.emitting(inbox.extend)([NO_GPU])
    tap.emitting(emitted.extend)([note])
    assert emitted == [LineUnparsed("x", ""), note, note]
    assert inbox == [GPU, HOST, NO_GPU]
    assert beside(path) == [note._replace(at_ms=beside(path)[0].at_ms), GPU, HOST]  # type: ignore[union-attr]


# ---------------------------------------------------------------- without one


class Session:
    """A recording that runs in a thread of its own, with readings that the test gives."""

    def __init__(self, path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self.stop = threading.Event()
        self.result: Recorded | Exception | None = None
        self.seconds = 0.0
        self.thread = threading.Thread(target=self._run)
        self._path = path
        self._log = log
        monkeypatch.setattr(recorder, "LOOK_S", 0.01)
        monkeypatch.setattr(recorder, "_start_samplers", self._sample)
        self.options: dict[str, object] = {}

    def _sample(
        self,
        events: queue.SimpleQueue[Event],
        wall_ms: Callable[[], float],
        stop: threading.Event,
        pid: int | None,
    ) -> None:
        assert pid is None
        assert wall_ms() > 0
        assert not stop.is_set()
        for event in (GPU, NO_GPU, HOST, NO_GPU._replace(text="")):
            events.put(event)

    def _run(self) -> None:
        try:
            self.result = record(
                self._path,
                self._log,
                wall_ms=lambda: time.time() * 1000.0,
                monotonic_s=self._monotonic_s,
                say=self.said.append,
                stop=self.stop,
                **self.options,  # type: ignore[arg-type]
            )
        except (RecordingStoppedError, SourceUnreadableError, UsageError) as error:
            self.result = error

    def _monotonic_s(self) -> float:
        self.seconds += 10.0
        return self.seconds

    def run_until(self, done: Callable[[], bool]) -> None:
        self.thread.start()
        give_up = time.monotonic() + PATIENCE_S
        while not done() and self.thread.is_alive() and time.monotonic() < give_up:
            time.sleep(0.01)
        self.stop.set()
        self.thread.join(PATIENCE_S)


def test_a_log_is_recorded_with_its_history_until_told_to_stop(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "daemon.log"
    log.write_bytes(b"TIMELINE,1,SYNTH_START,j,partition=0\nha")
    session = Session(path, log, monkeypatch)

    def grown() -> bool:
        if not path.exists():
            return False
        if b"SYNTH_START" in path.read_bytes() and not log.read_bytes().endswith(b"last\n"):
            with log.open("ab") as file:
                file.write(b"lf\nlast\n")
        return b" last\n" in path.read_bytes() and any("log lines" in text for text in session.said)

    session.run_until(grown)
    assert isinstance(session.result, Recorded)
    assert session.result.lines == 3
    assert (session.result.gpu_readings, session.result.host_readings) == (1, 1)
    assert log_of(path) == log.read_bytes()
    assert GPU in beside(path)
    assert HOST in beside(path)
    begin, no_gpu, status, *_, end = session.said
    assert all(session.said)
    assert begin == f"recording {log} to {path}; Ctrl-C ends it"
    assert no_gpu == NO_GPU.text
    assert "1 GPU readings" in status
    assert end.startswith("recorded 3 log lines, 1 GPU readings, 1 host readings, ")
    assert end.endswith(f"; cuzktop replay {path} plays it")


def test_quiet_says_only_what_is_wrong(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "daemon.log"
    log.write_bytes(b"x\n")
    session = Session(path, log, monkeypatch)
    session.options = {"quiet": True}
    session.run_until(lambda: path.exists() and b" x\n" in path.read_bytes())
    assert isinstance(session.result, Recorded)
    assert session.said == [NO_GPU.text]


def test_another_source_can_be_recorded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Journal(threading.Thread):
        def __init__(self, parser: LogParser, emit: Callable[[Sequence[Event]], object]) -> None:
            super().__init__()
            self.parser, self.emit = parser, emit

        def run(self) -> None:
            self.emit(self.parser.feed(b"line\n"))
            self.emit([SourceNote(T0_MS, "warning", "the journal is gone")])

        def stop(self) -> None:
            pass

    session = Session(path, Path("cuzk.service"), monkeypatch)
    session.options = {"source": Journal}
    session.run_until(lambda: False)
    assert isinstance(session.result, Recorded)
    assert log_of(path) == b"line\n"
    assert session.said[0].startswith("recording cuzk.service to")
    assert "the journal is gone" in session.said


def test_a_stream_is_recorded_to_its_end(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_bytes(b"one\ntwo\nhalf"))
    writer.start()
    session = Session(path, fifo, monkeypatch)
    session.run_until(lambda: False)
    writer.join(PATIENCE_S)
    assert isinstance(session.result, Recorded)
    assert log_of(path) == b"one\ntwo\nhalf"
    assert f"{fifo} has ended" in session.said


@pytest.mark.parametrize(("log", "why"), [("none.log", "no such file"), (".", "is a directory")])
def test_what_cannot_be_recorded_is_told_before_a_file_is_made(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str, why: str
) -> None:
    session = Session(path, tmp_path / log, monkeypatch)
    session.run_until(lambda: False)
    assert isinstance(session.result, SourceUnreadableError)
    assert why in str(session.result)
    assert not path.exists()


@pytest.mark.parametrize(
    ("written", "why"),
    [
        pytest.param(b"cuzktop-recording 1 {}\n", "old is a recording: cuzktop replay", id="ours"),
        pytest.param(gzip.compress(b"TIMELINE\n"), "old is a compressed log", id="gzip"),
    ],
)
def test_what_nobody_writes_into_is_not_recorded_as_if_it_were_a_growing_log(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bytes, why: str
) -> None:
    (tmp_path / "old").write_bytes(written)
    session = Session(path, tmp_path / "old", monkeypatch)
    session.run_until(lambda: False)
    assert isinstance(session.result, UsageError)
    assert why in str(session.result)
    assert not path.exists()


@pytest.mark.parametrize(
    ("terminal", "why"),
    [(True, "standard input is the terminal, not a log"), (False, "standard input is closed")],
)
def test_standard_input_that_holds_no_log(
    path: Path, monkeypatch: pytest.MonkeyPatch, *, terminal: bool, why: str
) -> None:
    def closed(_fd: int) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(os, "isatty", lambda _fd: terminal)
    monkeypatch.setattr(os, "dup", closed)
    session = Session(path, Path("-"), monkeypatch)
    session.run_until(lambda: False)
    assert isinstance(session.result, SourceUnreadableError)
    assert why in str(session.result)
    assert not path.exists()


def test_a_file_that_is_there_is_left_alone(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "daemon.log").write_bytes(b"x\n")
    path.write_bytes(b"mine")
    session = Session(path, tmp_path / "daemon.log", monkeypatch)
    session.run_until(lambda: False)
    assert isinstance(session.result, UsageError)
    assert path.read_bytes() == b"mine"


def test_a_full_disk_ends_it_with_an_error(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "daemon.log").write_bytes(b"x\n")

    def full(_fd: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    session = Session(path, tmp_path / "daemon.log", monkeypatch)
    session.run_until(lambda: False)
    monkeypatch.undo()
    assert isinstance(session.result, RecordingStoppedError)
    assert str(session.result).startswith(f"recording to {path} stopped: no space left on device")
    assert session.result.exit_code == 2


PROGRAM = """
import signal, sys, time
from pathlib import Path
from cuzktop.sources.recorder import record

signal.signal(signal.SIGHUP, eval(sys.argv[3]))
record(
    Path(sys.argv[1]),
    Path(sys.argv[2]),
    wall_ms=lambda: time.time() * 1000.0,
    monotonic_s=time.monotonic,
    say=lambda text: print(text, file=sys.stderr, flush=True),
)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_well(path: Path, tmp_path: Path, number: int) -> None:
    log = tmp_path / "daemon.log"
    log.write_bytes(b"one\ntwo\n")
    process = run([str(path), str(log)], stdin=subprocess.DEVNULL)
    wait_for(lambda: path.exists() and b" two\n" in path.read_bytes())
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert said.splitlines()[-1].startswith(b"recorded 2 log lines, ")
    assert log_of(path) == b"one\ntwo\n"
    assert [type(one) for one in beside(path)].count(HostSampled) >= 1


def test_what_is_ignored_stays_ignored_and_a_closed_pipe_is_no_end(
    path: Path, tmp_path: Path
) -> None:
    log = tmp_path / "daemon.log"
    log.write_bytes(b"one\n")
    process = run([str(path), str(log)], stdin=subprocess.DEVNULL, before="signal.SIG_IGN")
    assert process.stderr is not None
    wait_for(lambda: path.exists() and b" one\n" in path.read_bytes())
    process.stderr.close()
    process.send_signal(signal.SIGHUP)
    with log.open("ab") as file:
        file.write(b"two\n")
    wait_for(lambda: b" two\n" in path.read_bytes())
    process.terminate()
    process.wait(timeout=PATIENCE_S)
    assert log_of(path) == b"one\ntwo\n"


def test_standard_input_is_recorded_to_its_end(path: Path) -> None:
    process = run([str(path), "-"], stdin=subprocess.PIPE)
    _, said = process.communicate(b"one\ntwo", timeout=PATIENCE_S)
    assert process.returncode == 0
    assert b"recording standard input to" in said
    assert log_of(path) == b"one\ntwo"


def run(
    arguments: Sequence[str], *, stdin: int, before: str = "signal.SIG_DFL"
) -> subprocess.Popen[bytes]:
    """Record; `before` is what SIGHUP does until then."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments, before],
        stdin=stdin,
        stderr=subprocess.PIPE,
    )


def wait_for(done: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not done() and time.monotonic() < give_up:
        time.sleep(0.02)
    assert done()
