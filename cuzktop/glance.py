"""The picture at a log's end, made by another process while this one loads the screen.

Loading Textual takes longer than all else before a first picture, and one process can only do one
of them at a time. The other one is forked before anything of this is loaded, reads the last minutes
of the log, and sends a frame through a pipe. Whatever goes wrong with it, there is no such frame.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cuzktop.frame import Frame

BEFORE_MS = 30_000.0  # before the window of the shares: what was begun then ends in it
MOST_BYTES = 2 * 1024 * 1024  # more would not be there in time
PIPE_BYTES = 64 * 1024


class Glance:
    """A process that looks at the end of `path`, and the thread that waits for its frame."""

    def __init__(
        self, path: Path, title: str, *, window_s: float, wall_ms: Callable[[], float]
    ) -> None:
        """Start the process. It must be done while no other thread runs."""
        self.frame: Frame | None = None
        self._process = 0
        self._pipe = -1
        with contextlib.suppress(OSError):  # no more processes, or files: no glance
            self._pipe, answer = os.pipe()
            self._process = os.fork()
            if not self._process:
                _answer(answer, path, title, window_s, wall_ms)
            os.close(answer)

    def tell(self, publish: Callable[[Frame], object]) -> None:
        """Publish the frame as soon as it comes, from a thread."""
        if self._process:
            threading.Thread(target=self._wait, args=(publish,), name="glance", daemon=True).start()

    def _wait(self, publish: Callable[[Frame], object]) -> None:
        parts = []
        with contextlib.suppress(OSError):
            while part := os.read(self._pipe, PIPE_BYTES):
                parts.append(part)
            os.close(self._pipe)
            os.waitpid(self._process, 0)
        if parts:
            with contextlib.suppress(Exception):
                self.frame = pickle.loads(b"".join(parts))  # noqa: S301 - see above
                publish(self.frame)


def _answer(
    answer: int, path: Path, title: str, window_s: float, wall_ms: Callable[[], float]
) -> None:
    """Be the other process: send a frame, or nothing, and end without a trace."""
    with contextlib.suppress(BaseException):
        frame = glance(path, title, window_s=window_s, now_ms=wall_ms())
        if frame is not None:
            with open(answer, "wb") as pipe:
                pickle.dump(frame, pipe, pickle.HIGHEST_PROTOCOL)
    os._exit(0)


def glance(path: Path, title: str, *, window_s: float, now_ms: float) -> Frame | None:
    """The picture at the end of a plain log, by its last minutes; marked as still being read.

    None if they are too long for a glance, or tell nothing. `now_ms` is wall-clock time.
    """
    from cuzktop.frame import Source  # noqa: PLC0415 - only the other process needs all this
    from cuzktop.parse.scanner import LogScanner  # noqa: PLC0415
    from cuzktop.picture import Picture  # noqa: PLC0415
    from cuzktop.sources.beginning import find_start  # noqa: PLC0415
    from cuzktop.sources.files import open_log, plain_size  # noqa: PLC0415

    with open_log(path) as file:
        size = plain_size(file)
        if size is None:
            return None
        start = find_start(file, back_ms=window_s * 1000.0 + BEFORE_MS, max_bytes=MOST_BYTES)
        if start and size - start >= MOST_BYTES:
            return None
        written_ms = os.fstat(file.fileno()).st_mtime * 1000.0
        text = file.read(MOST_BYTES)
    scanner, picture = LogScanner(), Picture(window_s=window_s)
    picture.feed(scanner.feed(text))
    if not picture.model.run.gpus:
        return None
    silent_ms = picture.ended_ms(now_ms, max(0.0, now_ms - written_ms), grows=False)
    source = Source.of(scanner.counts, path=title, silent_ms=silent_ms, read_pct=0.0)
    run_ms = picture.now_ms(now_ms, silent_ms)
    return picture.frame(source=source, now_ms=run_ms, wall_ms=now_ms)
