"""A real (pseudo-)terminal: what is written to it, and how it is left."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from cuzktop.tui.driver import ForgivingDecoder, Paper

ROOT = Path(__file__).parents[2]
PATIENCE_S = 15.0
# Each view's key, and words that it alone shows.
VIEWS = (
    (b"2", b"on their way"),
    (b"3", b"a column"),
    (b"4", b"partitions   "),
    (b"5", b"panicked at"),
    (b"6", b"WHERE THE TIME GOES"),
    (b"1", b"CPU/MEMORY"),
)
MODES = ("1000", "1002", "1003", "1006", "1049", "2004")


class Terminal:
    """The other end of a program's terminal."""

    def __init__(self, descriptor: int, process: subprocess.Popen[bytes]) -> None:
        self.descriptor = descriptor
        self.process = process
        self.seen = b""

    def read_until(self, words: bytes) -> bytes:
        """Everything written so far, as soon as `words` are in it (or the program has ended)."""
        end = time.monotonic() + PATIENCE_S
        while words not in self.seen and time.monotonic() < end:
            if not select.select([self.descriptor], [], [], 0.05)[0]:
                continue
            try:
                self.seen += os.read(self.descriptor, 65536)
            except OSError:
                break
        return self.seen

    def type(self, keys: bytes) -> None:
        os.write(self.descriptor, keys)

    def stop_reading(self) -> None:
        """Have so much drawn that the terminal takes no more: nothing comes to it for a while."""
        waits, before = 0, -1
        while waits < 5:
            for key in b"232123456":
                self.type(bytes([key]))
            select.select([], [], [], 0.1)
            now = self._unread()
            waits, before = (waits + 1 if now == before else 0), now

    def _unread(self) -> int:
        count = fcntl.ioctl(self.descriptor, termios.FIONREAD, bytes(4))
        return int.from_bytes(count, sys.byteorder)

    def look_round(self) -> None:
        """Go to every view."""
        for key, words in VIEWS:
            self.type(key)
            assert words in self.read_until(words)

    def wait(self) -> int:
        """The program's exit status; all that it wrote is in `seen`."""
        self.read_until(b"never written")
        return self.process.wait(PATIENCE_S)

    def modes_on(self) -> list[str]:
        """The modes that were switched on last and not off again."""
        last = {
            mode: switch
            for modes, switch in re.findall(rb"\x1b\[\?([0-9;]+)([hl])", self.seen)
            for mode in modes.decode().split(";")
        }
        return [mode for mode in MODES if last.get(mode) == b"h"]


@contextmanager
def playing(*words: str, **variables: str) -> Iterator[Terminal]:
    """The screen with a hand-made picture, in a terminal of 80 × 24."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {
        name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS"}
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.tui.play_fixture", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        env=environment | {"TERM": "xterm-256color"} | variables,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(ours, process)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_is_restored_when_the_program_is_ended(number: signal.Signals) -> None:
    with playing("busy") as terminal:
        assert b"CPU/MEMORY" in terminal.read_until(b"CPU/MEMORY")
        assert "1049" in terminal.modes_on()
        terminal.process.send_signal(number)
        assert terminal.wait() == 128 + number
        assert terminal.modes_on() == []
        assert terminal.seen.rindex(b"\x1b[?25h") > terminal.seen.rindex(b"\x1b[?25l")


@pytest.mark.parametrize(("words", "variables"), [(("--no-colour",), {}), ((), {"NO_COLOR": "1"})])
def test_without_colour_not_one_colour_code_is_written(
    words: tuple[str, ...], variables: dict[str, str]
) -> None:
    with playing("failures", *words, **variables) as terminal:
        terminal.read_until(b"CPU/MEMORY")
        terminal.look_round()
        terminal.type(b"Tjj?")
        terminal.read_until(b"this list")
        terminal.type(b"\x03")
        assert terminal.wait() == 0
        assert b"CPU/MEMORY" in terminal.seen
        assert re.findall(rb"\x1b\[[0-9;]*\b[34]8[:;]", terminal.seen) == []
        assert (
            re.findall(rb"\x1b\[(?:[0-9;]*;)?(?:3|4|9|10)[0-7](?:;[0-9;]*)?m", terminal.seen) == []
        )


def test_old_mouse_reports_are_no_keys_and_kill_nothing() -> None:
    with playing("eight", "--ascii") as terminal:
        terminal.read_until(b"CPU/MEMORY")
        terminal.type(b"\x1b[M \xa0!")  # a blank would pause, a ! kills a strict decoder
        terminal.type(b"\xff\xfe")
        terminal.type(b"?")
        assert b"this list" in terminal.read_until(b"this list")
        assert b"PAUSED" not in terminal.seen
        terminal.type(b"\x03")
        assert terminal.wait() == 0
        assert terminal.modes_on() == []
        terminal.seen.decode("ascii")


@pytest.mark.parametrize("cut", [0, 1, 4, 5, 6, 7, 8])  # an ESC by itself is a key: not held back
def test_a_mouse_report_cut_in_two_is_still_one(cut: int) -> None:
    data = b"a\x1b[M \xa0!\xc3\xa9"
    decoder = ForgivingDecoder()
    shown = decoder.decode(data[:cut]) + decoder.decode(data[cut:])
    assert shown + decoder.decode(b"", final=True) == "aé"


def test_bad_bytes_become_replacements() -> None:
    assert ForgivingDecoder().decode(b"a\xffb", final=True) == "a�b"


def test_what_is_written_to_a_terminal_that_has_gone_is_lost_without_a_word() -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as stream:
        paper = Paper(stream)
        paper.write("seen")
        paper.flush()
        assert os.read(ours, 9) == b"seen"
        os.close(ours)
        for _ in range(100):
            paper.write("lost" * 1000)
            paper.flush()
        with contextlib.suppress(OSError):
            stream.close()


def test_a_terminal_that_takes_nothing_is_not_waited_for_and_gets_all_in_order() -> None:
    async def scenario(stream: TextIO, ours: int) -> None:
        paper = Paper(stream)
        paper.open()
        texts = [f"{number}:{'▁█' * 700}\n" for number in range(25)]  # 100 kB: more than fit
        assert all(paper.take(text) for text in texts)
        assert paper.is_behind
        taken = asyncio.Event()
        paper.when_taken(taken.set)
        await asyncio.sleep(0)
        assert not taken.is_set()
        wanted = "".join(texts).encode()
        seen = b""
        late = time.monotonic() + PATIENCE_S
        while len(seen) < len(wanted):
            assert time.monotonic() < late
            if select.select([ours], [], [], 0)[0]:  # else more has to be written first
                seen += os.read(ours, 65536)
            await asyncio.sleep(0)
        assert seen == wanted
        await asyncio.wait_for(taken.wait(), PATIENCE_S)
        assert not paper.is_behind
        assert paper.take("at once again")
        assert os.read(ours, 99) == b"at once again"
        paper.close()
        assert not paper.take("later")

    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        tty.setraw(theirs)
        asyncio.run(scenario(stream, ours))
    os.close(ours)


@pytest.mark.parametrize("end", [b"q", signal.SIGTERM, signal.SIGHUP])
def test_a_terminal_that_takes_nothing_keeps_nobody_from_leaving(
    end: bytes | signal.Signals,
) -> None:
    with playing("busy") as terminal:
        terminal.read_until(b"CPU/MEMORY")
        terminal.stop_reading()
        if isinstance(end, bytes):
            terminal.type(end)
        else:
            terminal.process.send_signal(end)
        assert terminal.process.wait(PATIENCE_S) == (0 if isinstance(end, bytes) else 128 + end)


def test_a_terminal_that_takes_something_again_gets_the_picture_of_what_was_typed() -> None:
    with playing("busy") as terminal:
        terminal.read_until(b"CPU/MEMORY")
        terminal.stop_reading()
        terminal.type(b"6")
        assert b"WHERE THE TIME GOES" in terminal.read_until(b"WHERE THE TIME GOES")
        terminal.type(b"q")
        assert terminal.wait() == 0
        assert terminal.modes_on() == []


def test_a_console_with_sixteen_colours_gets_no_others_in_any_view() -> None:
    with playing("failures", TERM="linux", COLORTERM="") as terminal:
        terminal.read_until(b"CPU/MEMORY")
        terminal.look_round()
        terminal.type(b"\x03")
        assert terminal.wait() == 0
        assert re.findall(rb"\x1b\[[0-9;]*\b[34]8[:;]", terminal.seen) == []
        assert re.findall(rb"\x1b\[(?:[0-9;]*;)?(?:9|10)[0-7](?:;[0-9;]*)?m", terminal.seen) == []


def test_the_selected_row_goes_to_the_terminals_clipboard() -> None:
    with playing("failures", "--ascii") as terminal:
        terminal.read_until(b"CPU/MEMORY")
        terminal.look_round()
        terminal.type(b"2ey")
        terminal.read_until(b"copied")
        terminal.type(b"\x03")
        assert terminal.wait() == 0
        copied = re.search(rb"\x1b\]52;c;([A-Za-z0-9+/=]+)\x07", terminal.seen)
        assert copied is not None
        text = base64.b64decode(copied[1]).decode()
        assert text.startswith("job=porep-1000-40021 attempt=1 partition=7 state=failed")
        # Nothing of the daemon's own escapes got through, and all is ASCII.
        assert b"\x1b[10;10H" not in terminal.seen
        assert b"]0;title" not in terminal.seen
        terminal.seen.decode("ascii")
