"""A compressed log on the screen: nobody writes into one, so it is read once, to its end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from cuzktop.errors import SourceUnreadableError
from cuzktop.sources.files import LogParser, open_log, read_blocks
from cuzktop.sources.log_reader import Emit, LogReader
from cuzktop.units import size


class PackedReader(LogReader):
    """Reads what is inside a compressed log, to its end or to where it is damaged."""

    def __init__(
        self,
        path: Path,
        parser: LogParser,
        emit: Emit,
        *,
        clock: Callable[[], float],
        on_end: Callable[[], object] = lambda: None,
    ) -> None:
        """Prepare to read it; `clock` gives wall-clock milliseconds, `on_end` is called last."""
        super().__init__("log-packed", str(path), parser, emit, clock)
        self._path = path
        self._on_end = on_end

    def _read_all(self) -> None:
        read_bytes = 0
        try:
            with closing(open_log(self._path)) as file:
                for block in read_blocks(file):
                    read_bytes += len(block)
                    self._pass_on(self._parser.feed(block))
                    if self._stopped.is_set():
                        return
        except SourceUnreadableError as error:
            if not read_bytes:
                raise
            before = f"{size(read_bytes)} of text before that are shown"
            self._end("error", f"{error.message}; the {before}: fetch it again for the rest")
        else:
            self._end("info", f"{self._path} is read to its end: a compressed log doesn't grow")

    def _close(self) -> None:
        self._on_end()
