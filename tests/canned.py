"""Recordings for tests, made from logs whose lines tell their own time."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from pathlib import Path

from cuzktop.events import GpuSampled, HostSampled
from cuzktop.sources.files import open_log, read_blocks
from cuzktop.sources.line_clock import LineClock
from cuzktop.sources.recording import LogCut
from cuzktop.sources.recording_reader import RecordReader
from cuzktop.sources.recording_writer import DEFAULT_MAX_BYTES, RecordingWriter


def log_bytes(path: Path) -> bytes:
    with open_log(path) as file:
        return b"".join(read_blocks(file))


def recording_blocks(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The log in a recording, byte for byte.

    Where the log was cut inside a line, a line break ends it.
    """
    reader = RecordReader(readings=False)
    in_line = False
    for block in blocks:
        log = []
        for piece in reader.feed_untimed(block):
            if isinstance(piece, bytes):
                log.append(piece)
                in_line = not piece.endswith(b"\n")
            elif isinstance(piece, LogCut) and in_line:
                log.append(b"\n")
                in_line = False
        if log:
            yield b"".join(log)


def record_log(
    path: Path,
    log: bytes,
    readings: Iterable[GpuSampled | HostSampled] = (),
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> RecordingWriter:
    """Record `log` as if each line had come when it says, with `readings` at their times."""
    clock = LineClock()
    now_ms = 0.0
    coming: list[tuple[float, int, bytes | GpuSampled | HostSampled]] = []
    for line in log.splitlines(keepends=True) if b"\r" not in log else [log]:
        now_ms = max(now_ms, (clock.read(line) or 0) / 1000.0)
        coming.append((now_ms, len(coming), line))
    beside = [(one.at_ms, len(coming) + n, one) for n, one in enumerate(readings)]
    first_ms = coming[0][0] if coming else 0.0
    writer = RecordingWriter(path, now_ms=first_ms, log="daemon.log", max_bytes=max_bytes)
    at_ms = first_ms
    for came_ms, _, piece in heapq.merge(coming, sorted(beside)):
        at_ms = max(at_ms, came_ms)
        if isinstance(piece, bytes):
            writer.log(piece, at_ms)
        else:
            writer.event(piece, at_ms)
    writer.close(at_ms)
    return writer
