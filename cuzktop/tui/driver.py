"""The terminal, read so that no byte from it can end the program.

Textual's input thread decodes strictly: one old-style mouse report (`ESC [ M` and three bytes,
which terminals send after a tmux client comes back) kills it, and every later key is lost.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import re
import select
import signal
import sys
from collections.abc import Callable
from typing import Any, TextIO

from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

STEP_S = 0.1  # after a key: a lone Esc is one once nothing follows it for so long
REST_S = 60.0  # while nothing is typed: the thread is woken when it is to end
GIVE_UP_S = 0.5  # a terminal that takes nothing for so long isn't waited for when we leave

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

    Nobody waits for a terminal (`take`): what one doesn't take yet, as one does that was stopped
    by Ctrl-S or whose line is dead, is kept for it while keys and signals are answered.
    """

    def __init__(self, stream: TextIO) -> None:
        """Write to `stream`."""
        self._stream = stream
        self._own: int | None = None  # the same terminal, and writing to it never waits
        self._rest = bytearray()  # what it didn't take yet
        self._loop: asyncio.AbstractEventLoop | None = None
        self._then: Callable[[], object] | None = None

    def open(self) -> None:
        """Open the terminal once more: that writing doesn't wait is nobody's business but ours."""
        flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK
        self._loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError, ValueError):  # no terminal, or one that isn't ours
            self._own = os.open(os.ttyname(self._stream.fileno()), flags)
        self._go_on()

    def close(self) -> None:
        """Let go of what was opened, once the terminal has all that it still takes."""
        if self._own is None:
            return
        while self._rest and select.select([], [self._own], [], GIVE_UP_S)[1]:
            self._send(self._own)
        if self._loop is not None:
            self._loop.remove_writer(self._own)
        self._rest.clear()
        os.close(self._own)
        self._own = None

    @property
    def is_behind(self) -> bool:
        """Whether the terminal hasn't taken all yet."""
        return bool(self._rest)

    def when_taken(self, then: Callable[[], object]) -> None:
        """Call `then`, and what was to be called before no more, when it has."""
        self._then = then

    def take(self, text: str) -> bool:
        """Write what the terminal takes now, and the rest as it does; False: it isn't open."""
        if self._own is None:
            return False
        was_behind = self.is_behind
        self._rest += text.encode(self._stream.encoding, self._stream.errors or "replace")
        if not was_behind:
            self._send(self._own)
            if self._rest and self._loop is not None:
                self._loop.add_writer(self._own, self._go_on)
        return True

    def _send(self, terminal: int) -> None:
        """Write what the terminal takes; all is lost if it has gone."""
        try:
            del self._rest[: os.write(terminal, self._rest)]
        except BlockingIOError:
            return
        except OSError:
            self._rest.clear()

    def _go_on(self) -> None:
        """Write more; when all is written, have done what waits for it."""
        if self._own is not None and self._rest:
            self._send(self._own)
        if self._rest or self._loop is None:
            return
        if self._own is not None:
            self._loop.remove_writer(self._own)
        then, self._then = self._then, None
        if then is not None:
            self._loop.call_soon(then)

    def write(self, text: str) -> None:
        """Write to what is no terminal, or lose it; in Textual's thread, which may wait."""
        with contextlib.suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        """Bring it there, or lose it."""
        with contextlib.suppress(OSError):
            self._stream.flush()


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
        """Write what the terminal takes, and the rest when it does; what is none has a thread."""
        if self._paper is None or not self._paper.take(data):
            super().write(data)

    def put_off(self, picture: Callable[[], object]) -> bool:
        """Whether the terminal is behind: then `picture` is called when it has caught up.

        Pictures that it doesn't take would pile up.
        """
        behind = self._paper is not None and self._paper.is_behind
        if behind and self._paper is not None:
            self._paper.when_taken(picture)
        return behind

    def close(self) -> None:
        """Write what the terminal still takes, and no more."""
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

        A terminal that hangs up sends the same signal: then there is nothing to be taken. So does
        `kill -CONT` of a background job: it stops again until it is brought to the front, as less
        does when it reads there, instead of drawing over the shell's lines.
        """
        if not self._must_signal_resume:
            picture_is_up = self._key_thread is not None and self._key_thread.is_alive()
            front = self._front_group()
            if not picture_is_up or front is None:
                return
            if front != os.getpgrp():
                signal.raise_signal(signal.SIGTTOU)  # stops no group that nobody could wake
                return
            self.suspend_application_mode()
            self._must_signal_resume = True
        super()._sigcont_application()

    def _front_group(self) -> int | None:
        """The process group that may use the terminal; None: it has gone, or it isn't told."""
        try:
            return os.tcgetpgrp(self.fileno) or None
        except OSError:
            return None

    def process_message(self, message: Message) -> None:
        """Ask for the mouse again when the terminal comes back: another client may not have it."""
        if isinstance(message, events.AppFocus):
            self._loop.call_soon_threadsafe(self._enable_mouse_support)
        super().process_message(message)
