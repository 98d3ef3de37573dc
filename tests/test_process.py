"""The process itself: stopped and continued, resized, cut off, fed through a pipe."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cuzktop.errors import EXIT_INTERNAL
from cuzktop.sources.demos import demo
from tests.canned import log_bytes
from tests.on_terminal import ROOT, Terminal

SHOWN = b"barrier"  # a word of the overview that no other text has
SIZES = ((200, 60), (80, 24), (40, 10), (20, 5), (5, 2), (1, 1), (2, 1), (1, 40), (200, 1))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "daemon.log"
    path.write_bytes(log_bytes(demo("h200-one-gpu").log))
    return path


def cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs a shell with job control")
def test_ctrl_z_gives_the_shell_back_and_fg_the_picture(log: Path) -> None:
    terminal = Terminal("--norc", "--noediting", "-i", command=("bash",))
    terminal.type(b"PS1='ready> '\n")
    terminal.type(f"cd {ROOT}; {sys.executable} -m cuzktop {log}\n".encode())
    terminal.read_until(SHOWN)
    terminal.type(b"\x1a")
    terminal.read_until(b"Stopped")
    assert terminal.modes_on() == []
    terminal.type(b"echo still $((40 + 2)) here\n")
    terminal.read_until(b"still 42 here")
    terminal.type(b"fg\n")
    terminal.look(SHOWN)
    assert b"1049" in terminal.modes_on()
    terminal.type(b"q")
    terminal.look(b"ready> ")  # what is typed earlier is a key, or lost
    left = terminal.modes_on()
    terminal.type(b"echo left with $?\n")
    terminal.read_until(b"left with 0")
    assert left == []
    terminal.type(b"exit\n")
    assert terminal.end() == 0


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs a shell with job control")
@pytest.mark.parametrize("end", ["fg", "hang up"])
def test_continued_from_outside_it_draws_nothing_over_the_shell_s_lines(
    log: Path, end: str
) -> None:
    """It is stopped and continued by its number, as htop and less may be, and stays behind."""
    terminal = Terminal("--norc", "--noediting", "-i", command=("bash",))
    terminal.type(f"PS1='ready> '; cd {ROOT}; {sys.executable} -m cuzktop {log}\n".encode())
    terminal.read_until(SHOWN)
    shell = terminal.process.pid
    pid = int(Path(f"/proc/{shell}/task/{shell}/children").read_text())
    os.kill(pid, signal.SIGSTOP)
    terminal.look(b"ready> ")
    os.kill(pid, signal.SIGCONT)
    terminal.rest(0.5)  # where it was stopped in the middle of a picture, that one is written
    terminal.seen = b""
    terminal.rest(2.0)
    assert terminal.seen == b""
    if end == "fg":
        terminal.type(b"fg\n")
        terminal.look(SHOWN)
        terminal.type(b"q")
        terminal.look(b"ready> ")
        terminal.type(b"exit\n")
        assert terminal.end() == 0
    else:
        os.close(terminal.master)
        terminal.process.wait(20)
    late = time.monotonic() + 20.0
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < late
        time.sleep(0.05)


def test_a_stop_from_outside_ends_with_the_whole_picture(log: Path) -> None:
    terminal = Terminal(str(log))
    terminal.read_until(SHOWN)
    terminal.rest(1.0)
    os.kill(terminal.process.pid, signal.SIGSTOP)
    terminal.resize(110, 32)  # a shell gives its lines back as it likes
    os.kill(terminal.process.pid, signal.SIGCONT)
    terminal.look(SHOWN)
    assert b"1049" in terminal.modes_on()
    terminal.type(b"q")
    assert terminal.end() == 0
    assert terminal.modes_on() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_told_to_end_before_the_first_picture_it_leaves_the_terminal(
    log: Path, number: signal.Signals
) -> None:
    terminal = Terminal(str(log))
    terminal.read_until(b"1049h")
    terminal.process.send_signal(number)
    assert terminal.end() == 128 + number
    assert terminal.modes_on() == []


LOADING = """
import runpy, sys

class CtrlC:
    def find_spec(self, name, *rest):
        if name == "cuzktop.arguments":
            raise KeyboardInterrupt

sys.meta_path.insert(0, CtrlC())
runpy.run_module("cuzktop", run_name="__main__")
"""


def test_ctrl_c_while_it_is_loading_says_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADING, "--version"], cwd=ROOT, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


BROKEN = """
import sys
from cuzktop import cli
from cuzktop.tui.app import CuzktopApp

def no_help(app):
    raise KeyError("no such key")

CuzktopApp.action_help = no_help
sys.exit(cli.main(sys.argv[1:]))
"""


def test_a_fault_of_the_screen_is_one_line(log: Path) -> None:
    terminal = Terminal(str(log), command=(sys.executable, "-c", BROKEN))
    terminal.read_until(b"Overview")
    terminal.type(b"?")
    assert terminal.end() == EXIT_INTERNAL
    assert terminal.modes_on() == []
    said = terminal.seen.rpartition(b"\x1b[?1049l")[2].decode()
    assert "internal error: KeyError: 'no such key': please report it with the log" in said
    assert "Traceback" not in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("rest_s", [0.0, 0.3, 1.0])
def test_a_terminal_that_goes_away_ends_it_within_two_seconds(log: Path, rest_s: float) -> None:
    """At whatever moment: while it draws, while it waits."""
    terminal = Terminal(str(log))
    terminal.read_until(SHOWN)
    terminal.rest(rest_s)
    before_s = cpu_s(terminal.process.pid)
    began = time.monotonic()
    os.close(terminal.master)
    used_s = before_s
    while terminal.process.poll() is None:
        assert time.monotonic() - began < 2.0
        used_s = max(used_s, cpu_s(terminal.process.pid))
        time.sleep(0.01)
    assert used_s - before_s < 0.5


def test_any_size_at_any_moment_down_to_one_cell_and_back(log: Path) -> None:
    terminal = Terminal(str(log))
    for size in (*SIZES, (100, 30)):  # while it starts
        terminal.resize(*size)
        terminal.rest(0.05)
    terminal.read_until(SHOWN)
    for size in (*SIZES, *reversed(SIZES)):
        terminal.resize(*size)
        terminal.rest(0.05)
    terminal.resize(120, 40)
    terminal.look(SHOWN)
    assert terminal.process.poll() is None
    terminal.type(b"q")
    assert terminal.end() == 0
    assert b"Traceback" not in terminal.seen


@pytest.mark.parametrize("name", ["-", "/dev/stdin", "/proc/self/fd/0"])
def test_a_log_in_a_pipe_presses_no_keys(log: Path, name: str) -> None:
    """Lines that hold q, ? and Ctrl-C are a log's; the terminal's own q leaves."""
    reader, writer = os.pipe()
    terminal = Terminal(name, keys="pipe", stdin=reader)
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(b"q\n?\n\x03\n" + log.read_bytes() + b"\nq\nq?\n")
        pipe.flush()
        terminal.read_until(SHOWN)
        terminal.rest(0.5)
        assert terminal.process.poll() is None
        assert b"this list" not in terminal.seen
        terminal.type(b"?")
        terminal.read_until(b"this list")
        terminal.type(b"\x03")
        assert terminal.end() == 0


def test_a_log_that_is_standard_input_is_followed_as_the_file_it_is(
    log: Path, tmp_path: Path
) -> None:
    path = tmp_path / "growing.log"
    path.write_bytes(log.read_bytes())
    with path.open("rb") as opened:
        terminal = Terminal("/dev/stdin", keys="file", stdin=opened.fileno())
    terminal.read_until(SHOWN)
    terminal.type(b"5")
    with path.open("ab") as grown:
        grown.write(b"what came later\n")
    terminal.read_until(b"what came later")
    terminal.type(b"q")
    assert terminal.end() == 0
    assert b"growing.log" in terminal.seen


@pytest.mark.parametrize(
    ("left", "on_overview", "on_diagnosis"),
    [(1.0, b"all this is of then", b"doesn't grow"), (0.5, b"is cut off", b"cannot read")],
)
def test_a_compressed_log_shows_what_is_in_it(
    log: Path, tmp_path: Path, left: float, on_overview: bytes, on_diagnosis: bytes
) -> None:
    """And says at once that this is all, or that it is cut off."""
    path = tmp_path / "old.log.gz"
    packed = gzip.compress(log.read_bytes())
    path.write_bytes(packed[: int(len(packed) * left)])
    os.utime(path, (1.0, 1.0))
    terminal = Terminal(str(path))
    terminal.read_until(SHOWN)
    terminal.resize(200, 60)
    terminal.read_until(on_overview)
    terminal.type(b"6")
    terminal.read_until(on_diagnosis)
    terminal.type(b"q")
    assert terminal.end() == 0


def test_a_fifo_is_waited_for_with_keys_that_work(log: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    terminal = Terminal(str(fifo))
    terminal.read_until(b"nothing read yet")
    terminal.type(b"?")
    terminal.read_until(b"this list")
    terminal.type(b"?")
    fifo.write_bytes(log.read_bytes())
    terminal.read_until(b"has ended")
    terminal.type(b"q")
    assert terminal.end() == 0
    assert SHOWN in terminal.seen


def test_a_device_is_refused_before_the_screen(tmp_path: Path) -> None:
    """Some do something when they are only opened, and others never end."""
    terminal = Terminal("/dev/zero")
    assert terminal.end() == 2
    assert b"cuzktop: cannot read /dev/zero: is a device: name a log file" in terminal.seen
    assert SHOWN not in terminal.seen
    command = [sys.executable, "-m", "cuzktop", "record", str(tmp_path / "r"), "--log", "/dev/zero"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=60)
    assert ended.returncode == 2
    assert ended.stderr == b"cuzktop: cannot read /dev/zero: is a device: name a log file\n"
    assert list(tmp_path.iterdir()) == []


def test_standard_input_from_nowhere_takes_no_cpu(log: Path) -> None:
    terminal = Terminal(str(log), keys="null")
    terminal.read_until(SHOWN)
    terminal.rest(1.0)
    before_s = cpu_s(terminal.process.pid)
    terminal.rest(2.0)
    assert cpu_s(terminal.process.pid) - before_s < 0.5
    terminal.type(b"q")
    assert terminal.end() == 0


def test_without_any_terminal_text_is_printed(log: Path) -> None:
    """As under cron: no controlling terminal at all."""
    ended = subprocess.run(
        [sys.executable, "-m", "cuzktop", "-"],
        cwd=ROOT,
        input=log.read_bytes(),
        capture_output=True,
        start_new_session=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 0
    assert SHOWN in ended.stdout
    assert b"no terminal: printed text instead" in ended.stderr
