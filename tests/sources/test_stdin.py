"""A log that comes as a stream, and keys that work beside it."""

from __future__ import annotations

import itertools
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from cuzktop.events import Event, GpuStarted, LineUnparsed, LogEvent, SourceNote
from cuzktop.parse.scanner import LogScanner
from cuzktop.sources.stdin import StreamReader


class Lines:
    """A parser that makes an event of every line, and of the half line at the end."""

    def __init__(self) -> None:
        self.held = b""

    def feed(self, data: bytes) -> list[LogEvent]:
        *lines, self.held = (self.held + data).split(b"\n")
        return [LineUnparsed(line.decode(), "") for line in lines]

    def finish(self) -> list[LogEvent]:
        held, self.held = self.held, b""
        return [LineUnparsed(held.decode(), "half")] if held else []

    def cut(self) -> list[LogEvent]:
        raise AssertionError


class Emitted(list[Event]):
    """What was emitted; can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.came = threading.Condition()

    def __call__(self, events: Sequence[Event]) -> None:
        with self.came:
            self.extend(events)
            self.came.notify_all()

    def wait_for(self, count: int) -> None:
        with self.came:
            assert self.came.wait_for(lambda: len(self) >= count, timeout=60)


def reader(fd: int, emitted: Emitted) -> StreamReader:
    return StreamReader(fd, Lines(), emitted, clock=lambda: 5.0)


def test_lines_come_before_the_stream_ends() -> None:
    read_fd, write_fd = os.pipe()
    emitted = Emitted()
    thread = reader(read_fd, emitted)
    thread.start()
    os.write(write_fd, b"one\ntw")
    emitted.wait_for(1)
    assert emitted == [LineUnparsed("one", "")]
    assert thread.is_alive()
    os.write(write_fd, b"o\nthree")
    emitted.wait_for(2)
    os.close(write_fd)
    thread.join(timeout=60)
    assert emitted[1:] == [
        LineUnparsed("two", ""),
        LineUnparsed("three", "half"),
        SourceNote(5.0, "info", "standard input has ended"),
    ]
    assert not thread.is_alive()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(read_fd)


def test_a_half_line_in_a_pipe_is_told_and_becomes_one_line() -> None:
    """`printf 'TIMELINE,5,GPU_'; sleep 1; printf 'START,j,worker=0\\n'`, a longer sleep."""
    read_fd, write_fd = os.pipe()
    emitted, scanner = Emitted(), LogScanner()
    hours = itertools.count(step=3_600_000.0)
    thread = StreamReader(
        read_fd, scanner, emitted, clock=lambda: next(hours), on_idle=scanner.half_line
    )
    thread.start()
    os.write(write_fd, b"TIMELINE,5,GPU_")
    emitted.wait_for(1)
    os.write(write_fd, b"START,j,worker=0\n")
    emitted.wait_for(3)
    os.close(write_fd)
    thread.join(timeout=60)
    told, taken_back, started, *_ = emitted
    assert isinstance(told, SourceNote)
    assert told.text == "the log ends in the middle of a line: TIMELINE,5,GPU_"
    assert isinstance(taken_back, SourceNote)
    assert taken_back.text == ""
    assert started == GpuStarted(5, "j", None, 0)
    assert scanner.counts.unparsed == 0


def test_a_file_is_a_stream_too(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    path.write_bytes(b"line\n" * 100_000)
    emitted = Emitted()
    reader(os.open(path, os.O_RDONLY), emitted).run()
    assert len(emitted) == 100_001


def test_a_descriptor_that_does_not_wait_is_waited_for() -> None:
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    emitted = Emitted()
    thread = reader(read_fd, emitted)
    thread.start()
    os.write(write_fd, b"one\n")
    emitted.wait_for(1)
    os.close(write_fd)
    thread.join(timeout=60)
    assert len(emitted) == 2


def test_a_stream_that_breaks_says_so(tmp_path: Path) -> None:
    emitted = Emitted()
    thread = reader(os.open(tmp_path, os.O_RDONLY), emitted)
    thread.run()
    assert emitted == [
        SourceNote(5.0, "error", "standard input can't be read any more: Is a directory")
    ]


def test_a_parser_that_breaks_says_so() -> None:
    read_fd, write_fd = os.pipe()
    os.write(write_fd, b"\xff\n")
    os.close(write_fd)
    emitted = Emitted()
    reader(read_fd, emitted).run()
    [note] = emitted
    assert isinstance(note, SourceNote)
    assert note.text.startswith("reading standard input stopped: UnicodeDecodeError")


def test_a_stopped_reader_reads_no_further() -> None:
    read_fd, write_fd = os.pipe()
    emitted = Emitted()
    thread = reader(read_fd, emitted)
    thread.stop()
    thread.run()
    os.close(write_fd)
    assert emitted == []


REOPEN = """
import os, sys
from cuzktop.parse.scanner import LogScanner
from cuzktop.sources.stdin import reopen_tty
if sys.argv[1:]:
    os.open(sys.argv[1], os.O_RDWR)  # a session's first terminal controls it
log = reopen_tty()
if log is None:
    print("none", os.read(0, 99))
else:
    print(os.isatty(0), os.read(log, 99), os.read(0, 99))
"""


def reopen(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", REOPEN, *arguments],
        input=b"TIMELINE\n",
        capture_output=True,
        check=True,
        start_new_session=True,
        timeout=60,
    )
    return done.stdout.decode().strip()


def test_keys_come_from_the_terminal_and_the_log_from_the_pipe() -> None:
    controller, terminal = pty.openpty()
    os.write(controller, b"q\n")
    try:
        assert reopen(os.ttyname(terminal)) == r"True b'TIMELINE\n' b'q\n'"
    finally:
        os.close(controller)
        os.close(terminal)


def test_without_a_terminal_nothing_changes() -> None:
    assert reopen() == r"none b'TIMELINE\n'"
