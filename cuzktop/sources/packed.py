"""A compressed log on the screen: nobody writes into one, so it is read once, to its end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from cuzktop.errors import CuzktopError, SourceUnreadableError
from cuzktop.events import Event, SourceNote
from cuzktop.sources.files import LogParser, is_stream, open_log, plain_size, read_blocks


def is_packed(path: Path) -> bool:
    """Whether `path` is a compressed file; False for what can't be read."""
    if is_stream(path):  # to open one may take something out of it
        return False
    try:
        with open_log(path) as file:
            return plain_size(file) is None
    except SourceUnreadableError:
        return False


class PackedReader(threading.Thread):
    """A daemon thread that reads what is inside a compressed log, and ends with a SourceNote."""

    def __init__(
        self,
        path: Path,
        parser: LogParser,
        emit: Callable[[Sequence[Event]], object],
        *,
        clock: Callable[[], float],
        on_end: Callable[[], object] = lambda: None,
    ) -> None:
        """Prepare to read it; `clock` gives wall-clock milliseconds, `on_end` is called last."""
        super().__init__(name="log-packed", daemon=True)
        self._path = path
        self._parser = parser
        self._emit = emit
        self._clock = clock
        self._on_end = on_end
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the thread after the block that it reads."""
        self._stopped.set()

    def run(self) -> None:
        """Read until the end, or to where it is damaged."""
        try:
            with closing(open_log(self._path)) as file:
                for block in read_blocks(file):
                    self._emit(self._parser.feed(block))
                    if self._stopped.is_set():
                        return
        except CuzktopError as error:
            self._end("error", str(error))
        except Exception as error:  # noqa: BLE001 - the thread ends here; the screen goes on
            self._end("error", f"reading {self._path} stopped: {type(error).__name__}: {error}")
        else:
            self._end("info", f"{self._path} is read to its end: a compressed log doesn't grow")

    def _end(self, level: str, text: str) -> None:
        self._emit([*self._parser.finish(), SourceNote(self._clock(), level, text)])
        self._on_end()
