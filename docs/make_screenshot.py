"""Draw docs/screenshot.svg: the overview of the first demo, as the program shows it.

python docs/make_screenshot.py
"""  # noqa: INP001 - a script, not a package

from __future__ import annotations

import asyncio
import gzip
import os
import re
from pathlib import Path

os.environ.pop("NO_COLOR", None)
os.environ["COLORTERM"] = "truecolor"

from cuzktop.frame import Frame, Source
from cuzktop.parse.scanner import LogScanner
from cuzktop.picture import Picture
from cuzktop.sources.demos import DEFAULT_DEMO, demo
from cuzktop.tui.app import CuzktopApp

UNTIL = b"TIMELINE,502954,"  # a call at the barrier, work queued, syntheses in flight
SIZE = (112, 34)
PICTURE = Path(__file__).with_name("screenshot.svg")


def frame() -> Frame:
    """The demo's picture right after the first line of that second."""
    log = gzip.decompress(demo(DEFAULT_DEMO).log.read_bytes())
    until = log.index(b"\n", log.index(UNTIL)) + 1
    scanner, picture = LogScanner(), Picture()
    picture.sampler_note = "this demo has no GPU readings"
    picture.feed(scanner.feed(log[:until]))
    counts = scanner.counts
    source = Source(
        path=f"demo {DEFAULT_DEMO}",
        bytes=counts.bytes,
        lines=counts.lines,
        events=counts.events,
        silent_ms=0.0,
    )
    return picture.frame(source=source)


async def draw() -> str:
    """The screen as SVG."""
    app = CuzktopApp(title=f"demo {DEFAULT_DEMO}")
    async with app.run_test(size=SIZE) as pilot:
        app.publish(frame())
        await pilot.pause()
        await pilot.pause()
        return app.export_screenshot(title="cuzktop --demo")


def main() -> None:
    """Write the file; the ids in it are the same each time."""
    svg = re.sub(r"terminal-\d+", "terminal", asyncio.run(draw()))
    PICTURE.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", "utf-8")


if __name__ == "__main__":
    main()
