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
from tests.tui.frames import FRAMES

GOLDENS = Path(__file__).parent / "goldens"


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("busy", (80, 24)),
        ("eight", (80, 24)),
        ("failures", (100, 30)),
        ("busy", (200, 60)),
    ],
)
async def test_the_screen_looks_as_it_did(name: str, size: tuple[int, int]) -> None:
    app = CuzktopApp()
    async with app.run_test(size=size) as pilot:
        app.publish(FRAMES[name]())
        await pilot.pause()
        await pilot.pause()
        shown = app.export_screenshot(title=f"cuzktop, {name}", simplify=True)
    golden = GOLDENS / f"{name}-{size[0]}x{size[1]}.svg"
    if os.environ.get("UPDATE_GOLDENS"):
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8"), (
        "the picture has changed: if that is meant, run with UPDATE_GOLDENS=1 and look at it"
    )
