"""A log that comes as a stream: standard input, a FIFO."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable, Sequence

from cuzktop.events import Event, SourceNote
from cuzktop.settings import READ_BLOCK_BYTES, STDIN_FD
from cuzktop.sources.files import LogParser
from cuzktop.sources.silence import IDLE_MS, Silence


class StreamReader(threading.Thread):
    """A daemon thread that reads a stream until it ends, in whatever blocks it comes.

    It can't be stopped while it waits for bytes; being a daemon, it keeps nobody from leaving.
    """

    def __init__(
        self,
        fd: int,
        parser: LogParser,
        emit: Callable[[Sequence[Event]], object],
        *,
        clock: Callable[[], float],
        name: str = "standard input",
        on_idle: Callable[[], str] | None = None,
    ) -> None:
        """Prepare to read descriptor `fd`, which the thread closes at the end.

        `clock` gives wall-clock milliseconds; `name` is what notes call the stream. `on_idle` is
        asked once for what there is to say when nothing came for two seconds.
        """
        super().__init__(name="log-stream", daemon=True)
        self.ended = False  # no more bytes will come
        self._fd = fd
        self._parser = parser
        self._emit = emit
        self._clock = clock
        self._called = name
        self._silence = Silence(on_idle)
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the thread after the block that it waits for."""
        self._stopped.set()

    def run(self) -> None:
        """Read until the stream ends."""
        try:
            while not self._stopped.is_set():
                block = self._read()
                if not block:
                    self._end("info", f"{self._called} has ended")
                    break
                events = [*self._silence.ends(self._clock()), *self._parser.feed(block)]
                if events:
                    self._emit(events)
        except OSError as error:
            self._end("error", f"{self._called} can't be read any more: {error.strerror}")
        except Exception as error:  # noqa: BLE001 - the thread ends here; the screen goes on
            text = f"reading {self._called} stopped: {type(error).__name__}: {error}"
            self._emit([SourceNote(self._clock(), "error", text)])
        finally:
            self.ended = True
            os.close(self._fd)

    def _read(self) -> bytes:
        """The next bytes; waits for them also where the descriptor itself would not."""
        while True:
            while not select.select([self._fd], [], [], IDLE_MS / 1000.0)[0]:
                said = self._silence.lasts(self._clock())
                if said:
                    self._emit(said)
            with contextlib.suppress(BlockingIOError):  # another reader was quicker
                return os.read(self._fd, READ_BLOCK_BYTES)

    def _end(self, level: str, text: str) -> None:
        self.ended = True
        self._emit([*self._parser.finish(), SourceNote(self._clock(), level, text)])


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
