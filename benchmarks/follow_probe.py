"""The reading half of the live program, for `table.py`: how late is a line, what does waiting cost?

    python benchmarks/follow_probe.py LOG --model     until standard input ends; then the times at
                                                      which SYNTH_START lines were in the model
    python benchmarks/follow_probe.py LOG             only the log's thread

Prints "ready" once the log's end was reached, and at the end JSON: offset → CLOCK_MONOTONIC in s.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from cuzktop.engine import Engine, Inbox
from cuzktop.events import Event, SynthStarted
from cuzktop.frame import Frame
from cuzktop.parse.scanner import LogScanner
from cuzktop.picture import Picture
from cuzktop.sources.log_tail import LogTail


class TimedPicture(Picture):
    """Notes when an event has become part of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[int, float] = {}

    def feed(self, events: Iterable[Event]) -> None:
        told = list(events)
        super().feed(told)
        now = time.monotonic()
        for event in told:
            if isinstance(event, SynthStarted):
                self.seen[event.at_ms] = now


def wall_ms() -> float:
    return time.time() * 1000.0


def drop(frame: Frame) -> None:
    """A screen that draws nothing."""
    del frame


def main() -> int:
    parser = argparse.ArgumentParser(description="The log's reader, to be measured.")
    parser.add_argument("log", type=Path)
    parser.add_argument("--model", action="store_true", help="with the engine behind it")
    options = parser.parse_args()
    scanner, picture = LogScanner(), TimedPicture()
    inbox = Inbox(picture)
    tail = LogTail(options.log, scanner, inbox.emit, clock=wall_ms)
    engine = Engine(
        picture,
        inbox,
        drop,
        clock=wall_ms,
        monotonic_s=time.monotonic,
        counts=scanner.counts,
        path=str(options.log),
        interval_s=1.0,
    )
    tail.start()
    if options.model:
        engine.start()
    while not tail.caught_up:
        time.sleep(0.05)
    print("ready", flush=True)
    sys.stdin.read()
    tail.stop()
    engine.stop()
    json.dump(picture.seen, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
