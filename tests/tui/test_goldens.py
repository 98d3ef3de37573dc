"""Screenshots, to be looked at in review: `goldens/*.svg`.

A change that is meant is taken over by

    UPDATE_GOLDENS=1 python -m pytest tests/tui/test_goldens.py

and then looked at in a browser before it is committed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuzktop.tui.app import CuzktopApp
from cuzktop.tui.keys import VIEWS
from tests.tui.frames import FRAMES

GOLDENS = Path(__file__).parent / "goldens"


SIZES = ((80, 24), (100, 30), (200, 60))
SHOTS = [
    *(("failures", name, size) for name, *_ in VIEWS for size in SIZES[:2]),
    *(("four", name, SIZES[2]) for name, *_ in VIEWS),
    ("busy", "overview", SIZES[0]),
    ("eight", "overview", SIZES[0]),
    ("busy", "overview", SIZES[2]),
]
"""Each of the six views at three sizes, and the first for one card and for eight."""


@pytest.mark.parametrize(("name", "view", "size"), SHOTS)
async def test_the_screen_looks_as_it_did(name: str, view: str, size: tuple[int, int]) -> None:
    app = CuzktopApp()
    async with app.run_test(size=size) as pilot:
        app.publish(FRAMES[name]())
        await pilot.pause()
        await app.go_to(view)
        while view != "overview" and (app.focused is None or app.focused.id != view):
            await pilot.pause()
        await pilot.pause()
        await pilot.pause()
        shown = app.export_screenshot(title=f"cuzktop, {name}", simplify=True)
    kind = "" if view == "overview" else f"{view}-"
    golden = GOLDENS / f"{kind}{name}-{size[0]}x{size[1]}.svg"
    if os.environ.get("UPDATE_GOLDENS"):
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8"), (
        "the picture has changed: if that is meant, run with UPDATE_GOLDENS=1 and look at it"
    )
