"""Show one of the hand-made pictures, to look at the screen without a daemon.

    python -m tests.tui.play_fixture [NAME] [--live] [--ascii] [--no-colour]

With `--live` ages and graphs move once a second.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from cuzktop.dataclass import replace
from cuzktop.frame import Frame
from cuzktop.tui.app import CuzktopApp
from tests.tui.frames import FRAMES


def turned(history: Sequence[float | None], seconds: int) -> tuple[float | None, ...]:
    return (*history[seconds:], *history[:seconds])


def moved(frame: Frame, seconds: int) -> Frame:
    """The same box `seconds` later, roughly: ages grow and histories shift."""
    gpus = tuple(
        replace(
            gpu,
            kernel_history=turned(gpu.kernel_history, seconds),
            nvml=None
            if gpu.nvml is None
            else replace(
                gpu.nvml,
                util_history=turned(gpu.nvml.util_history, seconds),
            ),
        )
        for gpu in frame.gpus
    )
    return replace(
        frame,
        now_ms=frame.now_ms + 1000 * seconds,
        source=replace(frame.source, events=frame.source.events + 11 * seconds),
        gpus=gpus,
    )


def main() -> int:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    frame = FRAMES[words[0] if words else "busy"]()
    app = CuzktopApp(
        title="fixture", ascii_only="--ascii" in sys.argv, colour="--no-colour" not in sys.argv
    )
    stop = threading.Event()

    def feed() -> None:
        seconds = 0
        while not stop.wait(1.0 if seconds else 0.3):
            app.publish(moved(frame, seconds))
            seconds += 1
            if "--live" not in sys.argv:
                return

    threading.Thread(target=feed, daemon=True).start()
    app.run()
    stop.set()
    return app.return_code or 0


if __name__ == "__main__":
    sys.exit(main())
