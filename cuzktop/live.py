"""The screen on a growing log: put together, shown, and taken apart at the end.

What stands behind the screen is loaded after its first picture where nothing speaks against it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from cuzktop.errors import EXIT_OK
from cuzktop.glance import Glance
from cuzktop.settings import Settings
from cuzktop.sources.files import FileKind, look_at
from cuzktop.where import STDIN, Log

if TYPE_CHECKING:
    from cuzktop.events import GpuSampled
    from cuzktop.feeding import Feeding

YOUNG_OBJECTS = 200_000  # until the picture stands: what is loaded stays, so none of it is garbage


def run_live(
    settings: Settings,
    log: Log,
    *,
    status: str | None,
    wall_ms: Callable[[], float],
    monotonic_s: Callable[[], float],
    samples: Callable[[], Iterable[GpuSampled]] | None,
) -> int:
    """Show the screen until the user leaves; the exit status.

    `status` is the address of the daemon's status server, if there is one. Raises
    SourceUnreadableError before anything is drawn when the log can't be read.
    """
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)
    path = log.path
    title = log.name if settings.demo is None else f"demo {settings.demo or path.parent.name}"
    kind: FileKind | None = None
    age_ms: float | None = None
    glance: Glance | None = None
    if settings.demo is None and not log.is_journal and path != STDIN:
        kind, written_ms = look_at(path)  # a file that can't be read is said before the screen
        if kind in ("plain", "packed"):
            age_ms = max(0.0, wall_ms() - written_ms)
        if kind == "plain" and settings.since is None:
            glance = Glance(path, title, window_s=settings.window_s, wall_ms=wall_ms)

    from cuzktop.tui.app import CuzktopApp  # noqa: PLC0415 - the glance goes before it

    app = CuzktopApp(settings=settings, title=title)
    if glance is not None:
        glance.tell(app.publish)

    def put_together() -> Feeding:
        from cuzktop.feeding import Feeding  # noqa: PLC0415 - the screen goes before it

        feeding = Feeding(
            settings,
            log,
            app.publish,
            title=title,
            interval_s=app.interval_s,
            kind=kind,
            status=status,
            wall_ms=wall_ms,
            monotonic_s=monotonic_s,
            samples=samples,
            age_ms=age_ms,
            glance=glance,
        )
        app.on_interval = feeding.set_interval
        app.deck = feeding.deck
        return feeding

    # What may fail to be opened is opened before the screen; a plain log was, just now.
    feedings = [put_together()] if age_ms is None else []

    def start() -> None:
        if not feedings:
            feedings.append(put_together())
        feedings[0].start()

    app.on_started = start
    try:
        app.run(mouse=settings.mouse)
    finally:
        for feeding in feedings:
            feeding.stop()
    if app.failure is not None:
        raise app.failure
    return app.return_code or EXIT_OK
