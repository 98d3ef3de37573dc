"""What a line costs, in microseconds, step by step: `python benchmarks/per_line.py LOG`.

Steps of a report: text to events, events into the model, rows and sums out of it. The last figure
is a live picture's, which keeps less. Prints JSON.
"""

from __future__ import annotations

import gc
import json
import math
import sys
import time
from pathlib import Path

from cuzktop.headless.report import partition_line
from cuzktop.model.reduce import Model
from cuzktop.parse.scanner import LogScanner
from cuzktop.picture import Picture
from cuzktop.reading import LogSummary

BLOCK = 64 * 1024


def blocks_of(text: bytes) -> list[bytes]:
    return [text[at : at + BLOCK] for at in range(0, len(text), BLOCK)]


def scan_s(blocks: list[bytes]) -> tuple[float, int, int]:
    """Seconds, lines, events."""
    scanner = LogScanner()
    begun = time.process_time()
    for block in blocks:
        scanner.feed(block)
    return time.process_time() - begun, scanner.counts.lines, scanner.counts.events


def model_s(blocks: list[bytes], model: Model | Picture) -> float:
    """Seconds of the model alone: each block's events are made before the clock runs."""
    scanner, used = LogScanner(), 0.0
    for block in blocks:
        events = scanner.feed(block)
        begun = time.process_time()
        model.feed(events)
        used += time.process_time() - begun
    return used


def report_s(blocks: list[bytes]) -> float:
    begun = time.process_time()
    summary = LogSummary(partition_line)
    summary.read(blocks, LogScanner())
    summary.close()
    return time.process_time() - begun


def main() -> int:
    blocks = blocks_of(Path(sys.argv[1]).read_bytes())
    gc.collect()
    scan, lines, events = min(scan_s(blocks) for _ in range(2))
    model = min(model_s(blocks, Model(keep_ms=math.inf)) for _ in range(2))
    report = min(report_s(blocks) for _ in range(2))
    picture = min(model_s(blocks, Picture()) for _ in range(2))
    figures = {
        "lines": lines,
        "events": events,
        "text to events": 1e6 * scan / lines,
        "events into the model": 1e6 * model / lines,
        "rows and sums": 1e6 * (report - scan - model) / lines,
        "report in all": 1e6 * report / lines,
        "live: text to events and picture": 1e6 * (scan + picture) / lines,
    }
    json.dump(figures, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
