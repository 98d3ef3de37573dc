"""cuzktop on a pseudo-terminal that controls it, as a user has it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODES = (b"1000", b"1003", b"1006", b"1049", b"2004")

ON_TERMINAL = """
import os, sys
given = int(sys.argv[1])
terminal = os.open(os.ttyname(given), os.O_RDWR)  # the first that a new session opens controls it
os.close(given)
for descriptor in (0, 1, 2) if sys.argv[2] == "keys" else (1, 2):
    os.dup2(terminal, descriptor)
os.execvp(sys.argv[3], sys.argv[3:])
"""


class Terminal:
    """The command on a pseudo-terminal of 100 × 30, `keys` from it, or standard input elsewhere.

    That is the null device, or `stdin`. `command` is run in place of cuzktop.
    """

    def __init__(
        self,
        *arguments: str,
        keys: str = "keys",
        term: str = "xterm-256color",
        stdin: int = subprocess.DEVNULL,
        command: tuple[str, ...] = (sys.executable, "-m", "cuzktop"),
    ) -> None:
        self.master, slave = pty.openpty()
        self.resize(100, 30)
        self.seen = b""
        self.process = subprocess.Popen(
            [sys.executable, "-c", ON_TERMINAL, str(slave), keys, *command, *arguments],
            pass_fds=(slave,),
            cwd=ROOT,
            env={**os.environ, "TERM": term},
            stdin=stdin,
            start_new_session=True,
        )
        os.close(slave)

    def read_until(self, word: bytes | None, seconds: float = 20.0) -> None:
        """Read what is drawn until `word` appears, or the program has ended."""
        late = time.monotonic() + seconds
        while word is None or word not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0.0, late - time.monotonic()))
            if not ready:
                self.process.kill()
                self.process.wait()
                pytest.fail(f"no {word!r} within {seconds} s: …{self.seen[-300:]!r}")
            try:
                read = os.read(self.master, 65536)
            except OSError:  # its end is closed
                return
            self.seen += read

    def end(self) -> int:
        """Read to the end; the exit status."""
        self.read_until(None)
        os.close(self.master)
        return self.process.wait(20)

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size; the program hears of it."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self.master, keys)

    def look(self, word: bytes) -> None:
        """Forget what was drawn, and read until `word` is drawn."""
        self.seen = b""
        self.read_until(word)

    def rest(self, seconds: float) -> None:
        """Take in what is drawn for a while."""
        late = time.monotonic() + seconds
        while select.select([self.master], [], [], max(0.0, late - time.monotonic()))[0]:
            self.seen += os.read(self.master, 65536)

    def modes_on(self) -> list[bytes]:
        """The terminal's modes that were switched on last and not off again."""
        last = {
            mode: switch
            for modes, switch in re.findall(rb"\x1b\[\?([0-9;]+)([hl])", self.seen)
            for mode in modes.split(b";")
        }
        return [mode for mode in MODES if last.get(mode) == b"h"]
