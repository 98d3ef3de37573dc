"""The terminal, read so that no byte from it can end the program.

Textual's input thread decodes strictly: one old-style mouse report (`ESC [ M` and three bytes,
which terminals send after a tmux client comes back) kills it, and every later key is lost.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import select
import sys
from typing import Any, TextIO

from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

STEP_S = 0.1  # after a key: a lone Esc is one once nothing follows it for so long
REST_S = 60.0  # while nothing is typed: the thread is woken when it is to end

_OLD_MOUSE = re.compile(rb"\x1b\[M[\x20-\xff]{3}")
_OLD_MOUSE_BEGUN = re.compile(rb"\x1b\[M[\x20-\xff]{0,2}\Z")


class ForgivingDecoder(codecs.IncrementalDecoder):
    """UTF-8 to text: old-style mouse reports are dropped, other bad bytes become U+FFFD."""

    def __init__(self, errors: str = "replace") -> None:
        """Take up nothing yet."""
        super().__init__(errors)
        self._held = b""
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def decode(self, data: object, final: bool = False) -> str:  # noqa: FBT001, FBT002 - codecs' signature
        """The text of `data` and of what was held back; a report cut in two is held back."""
        read = self._held + bytes(data)  # type: ignore[call-overload]
        read = _OLD_MOUSE.sub(b"", read)
        begun = None if final else _OLD_MOUSE_BEGUN.search(read)
        self._held = read[begun.start() :] if begun else b""
        return self._utf8.decode(read[: begun.start()] if begun else read, final)


class Paper:
    """A terminal's text stream that takes what is written also when the terminal has gone.

    Textual's writing thread ends at the first error, and who waits for it then waits for ever.
    What the terminal takes without a wait needs no such thread (`take`): to wake one for each
    picture costs more than to write it.
    """

    def __init__(self, stream: TextIO) -> None:
        """Write to `stream`."""
        self._stream = stream
        self._own: int | None = None  # the same terminal, and writing to it never waits
        self._handed = self._begun = self._brought = 0  # texts that go through the thread

    def open(self) -> None:
        """Open the terminal once more: that writing doesn't wait is nobody's business but ours."""
        flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK
        with contextlib.suppress(OSError, ValueError):  # no terminal, or one that isn't ours
            self._own = os.open(os.ttyname(self._stream.fileno()), flags)

    def close(self) -> None:
        """Let go of what was opened."""
        if self._own is not None:
            os.close(self._own)
            self._own = None

    def take(self, text: str) -> str | bytes:
        """Write what the terminal takes now; return what has to be handed to the thread.

        That is all of it while an earlier text is still there.
        """
        rest: str | bytes = text
        if self._own is not None and self._handed == self._brought:
            stream = self._stream
            sent = text.encode(stream.encoding, stream.errors or "replace")
            written = 0
            with contextlib.suppress(OSError):
                written = os.write(self._own, sent)
            rest = sent[written:]
        if rest:
            self._handed += 1
        return rest

    def write(self, text: str | bytes) -> None:
        """Write, or lose it; in the thread, which may wait."""
        self._begun += 1
        with contextlib.suppress(OSError):
            if isinstance(text, str):
                self._stream.write(text)
            else:
                self._stream.flush()
                self._stream.buffer.write(text)

    def flush(self) -> None:
        """Bring it to the terminal, or lose it."""
        with contextlib.suppress(OSError):
            self._stream.flush()
        self._brought = self._begun


class ForgivingDriver(LinuxDriver):
    """Textual's driver with a decoder that never raises, whose thread sleeps until a key comes.

    It draws on standard error, as Textual does, unless that leads elsewhere and standard output
    is the terminal. It outlives the terminal for as long as leaving takes.
    """

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - Textual's own
        """Take what Textual's driver takes."""
        super().__init__(*args, **options)
        errors, output = sys.__stderr__, sys.__stdout__
        other = output is not None and output.isatty() and not (errors and errors.isatty())
        stream = output if other else errors
        self._paper: Paper | None = None
        if stream is not None:
            self._paper = self._file = Paper(stream)  # type: ignore[assignment]  # enough for Textual
        self._woken, self._waker = os.pipe()

    def start_application_mode(self) -> None:
        """Take the terminal."""
        if self._paper is not None:
            self._paper.open()
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def write(self, data: str) -> None:
        """Write at once if the terminal takes it; else a thread waits until it does."""
        rest = data if self._paper is None else self._paper.take(data)
        if rest:
            super().write(rest)  # type: ignore[arg-type]  # bytes go through it as well

    def close(self) -> None:
        """Wait until all is written, and write no more."""
        super().close()
        if self._paper is not None:
            self._paper.close()

    def run_input_thread(self) -> None:
        """Read keys until woken, or until the terminal has gone."""
        parser = XTermParser(self._debug)
        decoder = ForgivingDecoder()
        wait_s = REST_S
        while True:
            ready, _, _ = select.select([self.fileno, self._woken], [], [], wait_s)
            if self._woken in ready:
                os.read(self._woken, 1)
                return
            wait_s = REST_S
            if ready:
                read = os.read(self.fileno, 4096)
                if not read:
                    return
                wait_s = STEP_S
                if text := decoder.decode(read):
                    for event in parser.feed(text):
                        self.process_message(event)
            for event in parser.tick():
                self.process_message(event)

    def disable_input(self) -> None:
        """Read no more keys."""
        if self._key_thread is not None and self._key_thread.is_alive():
            os.write(self._waker, b".")
        super().disable_input()

    def _sigcont_application(self, *_: object) -> None:
        """Take the terminal again after Ctrl-Z and fg, or after a stop that nobody told us of.

        A terminal that hangs up sends the same signal: then there is nothing to be taken.
        """
        if not self._must_signal_resume:
            if not self._is_drawn_on():
                return
            self.suspend_application_mode()
            self._must_signal_resume = True
        super()._sigcont_application()

    def _is_drawn_on(self) -> bool:
        """Whether the picture is up, on a terminal that is there and ours to draw on."""
        if self._key_thread is None or not self._key_thread.is_alive():
            return False
        try:
            return os.tcgetpgrp(self.fileno) == os.getpgrp()
        except OSError:
            return False

    def process_message(self, message: Message) -> None:
        """Ask for the mouse again when the terminal comes back: another client may not have it."""
        if isinstance(message, events.AppFocus):
            self._enable_mouse_support()
        super().process_message(message)
