"""A log that comes as a stream: standard input, a FIFO."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable

from cuzktop.settings import READ_BLOCK_BYTES, STDIN_FD
from cuzktop.sources.files import LogParser
from cuzktop.sources.log_reader import Emit, LogReader
from cuzktop.sources.silence import IDLE_MS, Silence


class StreamReader(LogReader):
    """Reads a stream until it ends, in whatever blocks it comes.

    It can't be stopped while it waits for bytes; being a daemon, it keeps nobody from leaving.
    """

    def __init__(
        self,
        fd: int,
        parser: LogParser,
        emit: Emit,
        *,
        clock: Callable[[], float],
        name: str = "standard input",
        on_idle: Callable[[], str] | None = None,
    ) -> None:
        """Prepare to read descriptor `fd`, which the thread closes at the end.

        `clock` gives wall-clock milliseconds; `name` is what notes call the stream. `on_idle` is
        asked once for what there is to say when nothing came for two seconds.
        """
        super().__init__("log-stream", name, parser, emit, clock)
        self._fd = fd
        self._silence = Silence(on_idle)

    def _read_all(self) -> None:
        while not self._stopped.is_set():
            try:
                block = self._next()
            except OSError as error:
                self._end("error", f"{self._called} can't be read any more: {error.strerror}")
                return
            if not block:
                self._end("info", f"{self._called} has ended")
                return
            self._pass_on([*self._silence.ends(self._clock()), *self._parser.feed(block)])

    def _next(self) -> bytes:
        """The next bytes; waits for them also where the descriptor itself would not."""
        while True:
            while not select.select([self._fd], [], [], IDLE_MS / 1000.0)[0]:
                self._pass_on(self._silence.lasts(self._clock()))
            with contextlib.suppress(BlockingIOError):  # another reader was quicker
                return os.read(self._fd, READ_BLOCK_BYTES)

    def _close(self) -> None:
        os.close(self._fd)


def reopen_tty() -> int | None:
    """Make keys work although standard input is a pipe; the descriptor to read the log from.

    Standard input becomes the controlling terminal. None, and nothing has changed, where there
    is none: then only text can be shown.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return None
    try:
        log = os.dup(STDIN_FD)
    except OSError:  # started with standard input closed
        os.close(terminal)
        return None
    os.dup2(terminal, STDIN_FD)
    os.close(terminal)
    return log
