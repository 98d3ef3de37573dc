"""What `cuzktop doctor` and `cuzktop --list` print: text for people, JSON for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cuzktop.doctor import Check, DaemonRow
from cuzktop.headless.layout import Field, Page, cells
from cuzktop.units import age

SCHEMA: Final = "cuzktop.doctor/1"
GLYPHS: Final = {"ok": "✓", "warning": "!", "failed": "✗"}
ASCII_GLYPHS: Final = {"ok": "+", "warning": "!", "failed": "x"}
STYLES: Final = {"ok": "good", "warning": "warn", "failed": "bad"}
GAP: Final = 2
MOST_LINES: Final = 8  # of one check, on the narrowest terminal


def doctor_text(checks: Sequence[Check], *, width: int, colour: bool, ascii_only: bool) -> str:
    """A line a check, what mends it under it, and the sum of it all."""
    page = Page(width=width, colour=colour, ascii_only=ascii_only)
    glyphs = ASCII_GLYPHS if ascii_only else GLYPHS
    names = max((cells(check.name) for check in checks), default=0)
    for check in checks:
        label = f"{glyphs[check.level]} {check.name}{' ' * (names - cells(check.name) + GAP)}"
        page.paragraph(check.text, label=label, label_style=STYLES[check.level], limit=MOST_LINES)
        if check.mend and check.level != "ok":
            hang = 2 + names + GAP
            page.paragraph(check.mend, label="→ ", indent=hang, style="strong", limit=MOST_LINES)
    page.blank()
    page.put(_sum(checks))
    return page.text()


def _sum(checks: Sequence[Check]) -> str:
    """How many checks failed or warn."""
    failed, warnings = (
        sum(check.level == level for check in checks) for level in ("failed", "warning")
    )
    if not failed and not warnings:
        return "Nothing is missing."
    parts = [f"{failed} failed"] if failed else []
    if warnings:
        parts.append("1 warning" if warnings == 1 else f"{warnings} warnings")
    return ", ".join(parts)


def doctor_document(checks: Sequence[Check]) -> dict[str, Any]:
    """The document `cuzktop.doctor/1`; `mend` is null where nothing needs mending."""
    return {
        "schema": SCHEMA,
        "failed": sum(check.level == "failed" for check in checks),
        "warnings": sum(check.level == "warning" for check in checks),
        "checks": [
            {
                "name": check.name,
                "level": check.level,
                "text": check.text,
                "mend": check.mend or None,
            }
            for check in checks
        ],
    }


def daemons_text(rows: Sequence[DaemonRow], *, width: int, colour: bool, ascii_only: bool) -> str:
    """A table of the daemons that run; each can be named by `--pid`."""
    page = Page(width=width, colour=colour, ascii_only=ascii_only)
    page.table(
        [
            Field(title="PID", texts=[str(row.pid) for row in rows], right=True),
            Field(title="Name", texts=[row.name for row in rows], rank=4),
            Field(title="Up", texts=[age(row.up_ms) for row in rows], right=True, rank=1),
            Field(title="Log", texts=[row.log for row in rows], flexible=True),
            Field(title="Config", texts=[row.config for row in rows], flexible=True, rank=3),
            Field(title="Status", texts=[row.status for row in rows], flexible=True, rank=2),
        ],
        indent=0,
    )
    return page.text()
