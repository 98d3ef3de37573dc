"""What all readers of a log are: threads that hand its bytes to a parser, and end with a note."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from cuzktop.bell import End
from cuzktop.errors import CuzktopError
from cuzktop.events import Event, SourceNote
from cuzktop.sources.files import LogParser

Emit = Callable[[Sequence[Event]], object]
"""Called with what was made of some bytes, or with a note."""


class LogReader(threading.Thread):
    """A daemon thread that reads a log. What ends it becomes a note: the screen goes on.

    Each kind of log says in `_read_all` how it is read and in `_close` what is given back.
    """

    def __init__(
        self, thread: str, called: str, parser: LogParser, emit: Emit, clock: Callable[[], float]
    ) -> None:
        """Begin nothing yet; `called` is the log's name in a note, `clock` gives wall-clock ms."""
        super().__init__(name=thread, daemon=True)
        self._called = called
        self._parser = parser
        self._emit = emit
        self._clock = clock
        self._stopped = End()

    def stop(self) -> None:
        """End the thread soon."""
        self._stopped.set()

    def run(self) -> None:
        """Read until told to stop, or until the log ends."""
        try:
            self._read_all()
        except CuzktopError as error:  # it says of what
            self._end("error", str(error))
        except Exception as error:  # noqa: BLE001 - the thread ends here; the screen goes on
            self._say("error", f"reading {self._called} stopped: {type(error).__name__}: {error}")
        finally:
            self._close()

    def _read_all(self) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        """Give back what was opened."""

    def _pass_on(self, events: Sequence[Event]) -> None:
        """Emit them, if there are any."""
        if events:
            self._emit(events)

    def _say(self, level: str, text: str) -> None:
        self._emit([SourceNote(self._clock(), level, text)])

    def _end(self, level: str, text: str) -> None:
        """Say why no more bytes will come, after what a last line without an end gives."""
        self._emit([*self._parser.finish(), SourceNote(self._clock(), level, text)])
