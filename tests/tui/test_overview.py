"""Who gets how many rows: nothing overlaps or sticks out, and what matters is there at 80 × 24."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzktop.tui.widgets.overview import Wants, plan
from tests.tui.frames import FRAMES, busy, shape_of_box

shapes = st.builds(
    Wants,
    gpus=st.integers(0, 16),
    lock_rows=st.integers(1, 60),
    syntheses=st.integers(0, 60),
    jobs=st.integers(0, 40),
    notice=st.booleans(),
)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 220), st.integers(0, 70), shapes)
def test_panels_lie_within_the_screen_and_never_overlap(
    width: int, height: int, wants: Wants
) -> None:
    regions = plan(width, height, wants)
    for region in regions.values():
        assert region.x >= 0
        assert region.y >= 0
        assert region.right <= width
        assert region.bottom <= height
        assert region.area > 0
    for one, other in combinations(regions.values(), 2):
        assert not one.overlaps(other)
    if width and height:
        assert "verdict" in regions


@pytest.mark.parametrize("name", FRAMES)
def test_the_smallest_usual_terminal_answers_all_questions(name: str) -> None:
    wants = Wants().with_frame(FRAMES[name]())
    regions = plan(80, 23, wants)  # the footer has the last row
    for panel in ("verdict", "gpus", "syntheses", "jobs", "recent"):
        assert panel in regions, panel
    assert ("notice" in regions) == wants.notice
    if wants.gpus <= 4:
        assert "chart" in regions
    # The lock has a panel, or else each GPU's line names the holder.
    assert ("lock" in regions) == (wants.gpus <= 2)
    assert regions["gpus"].height >= wants.gpus + 1


def test_a_full_rack_still_has_a_line_for_each_gpu() -> None:
    regions = plan(80, 23, Wants().with_frame(shape_of_box(16)))
    assert regions["gpus"].height == 17
    assert "syntheses" in regions


def test_a_large_terminal_has_two_columns() -> None:
    regions = plan(200, 59, Wants().with_frame(busy()))
    assert set(regions) == {
        *("header", "verdict", "gpus", "chart", "lock", "syntheses", "jobs", "stages", "recent")
    }
    assert regions["lock"].x > regions["gpus"].right
    assert regions["lock"].y == regions["gpus"].y
    assert regions["recent"].width == 200


def test_rows_grow_with_the_terminal() -> None:
    wants = Wants().with_frame(busy())
    for panel in ("recent", "chart"):
        heights = [plan(100, rows, wants)[panel].height for rows in (23, 30, 40, 60)]
        assert heights == sorted(heights)
        assert heights[0] < heights[-1]


def test_a_job_less_does_not_move_the_panels() -> None:
    wants = Wants().with_frame(busy())
    assert wants.with_frame(FRAMES["herd"]()).jobs == wants.jobs
