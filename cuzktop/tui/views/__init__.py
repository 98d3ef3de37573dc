"""The views behind the keys 2 to 6, a file each, and what they share.

Each is imported when it is wanted first: the first picture doesn't wait for five that aren't seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cuzktop.tui.views.base import View


def view_class(name: str) -> type[View]:
    """The view with the id `name` of `keys.VIEWS`, the overview excepted."""
    if name == "partitions":
        from cuzktop.tui.views.partitions import PartitionsView  # noqa: PLC0415

        return PartitionsView
    if name == "timeline":
        from cuzktop.tui.views.timeline import TimelineView  # noqa: PLC0415

        return TimelineView
    if name == "jobs":
        from cuzktop.tui.views.jobs import JobsView  # noqa: PLC0415

        return JobsView
    if name == "log":
        from cuzktop.tui.views.log import LogView  # noqa: PLC0415

        return LogView
    from cuzktop.tui.views.diagnosis import DiagnosisView  # noqa: PLC0415

    return DiagnosisView
