"""The terminal, read so that no byte from it can end the program.

Textual's input thread decodes strictly: one old-style mouse report (`ESC [ M` and three bytes,
which terminals send after a tmux client comes back) kills it, and every later key is lost.
"""

from __future__ import annotations

import codecs
import re
import sys
from typing import Any

from textual import events
from textual.drivers import linux_driver
from textual.message import Message

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


class ForgivingDriver(linux_driver.LinuxDriver):
    """Textual's driver with a decoder that never raises.

    It draws on standard error, as Textual does, unless that leads elsewhere and standard output
    is the terminal.
    """

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - Textual's own
        """Take what Textual's driver takes."""
        super().__init__(*args, **options)
        errors, output = sys.__stderr__, sys.__stdout__
        if output is not None and output.isatty() and not (errors and errors.isatty()):
            self._file = output

    def run_input_thread(self) -> None:
        """Read keys until told to stop."""
        # The thread looks its decoder up by this name when it starts.
        setattr(linux_driver, "getincrementaldecoder", lambda _name: ForgivingDecoder)  # noqa: B010 - the name isn't exported
        super().run_input_thread()

    def process_message(self, message: Message) -> None:
        """Ask for the mouse again when the terminal comes back: another client may not have it."""
        if isinstance(message, events.AppFocus):
            self._enable_mouse_support()
        super().process_message(message)
