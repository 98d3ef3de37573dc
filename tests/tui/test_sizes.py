"""Any size of the terminal with any number of cards: what is drawn fills it and stays within it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzktop.frame import Frame
from cuzktop.logbook import LogBook
from cuzktop.tui.keys import VIEWS
from cuzktop.tui.sgr import LOG_STYLES
from cuzktop.tui.views.diagnosis import draw_diagnosis
from cuzktop.tui.views.jobs import PANE, SPACED, draw_jobs_view
from cuzktop.tui.views.log import draw_log, read_lines
from cuzktop.tui.views.partitions import draw_table
from cuzktop.tui.views.scene import ROOMY, draw_timeline
from cuzktop.tui.widgets.activity import draw_activity
from cuzktop.tui.widgets.cells import STYLES, WIDE, Line, line_width
from cuzktop.tui.widgets.footer import draw_footer
from cuzktop.tui.widgets.gpus import BLOCKS, TABLES, draw_gpus
from cuzktop.tui.widgets.jobs import draw_jobs
from cuzktop.tui.widgets.lock import draw_lock
from cuzktop.tui.widgets.overview import BESIDE, Wants, plan
from cuzktop.tui.widgets.partitions import draw_partitions
from cuzktop.tui.widgets.stages import draw_stages
from cuzktop.tui.widgets.syntheses import draw_syntheses
from cuzktop.tui.widgets.verdict import draw_header, draw_notice, draw_verdict
from tests.tui.frames import FRAMES, shape_of_box

Draw = Callable[[Frame, int, int], Sequence[Line]]
KNOWN = {*STYLES, *LOG_STYLES}
WIDEST, HIGHEST, MOST_GPUS = 220, 60, 16


def draw_lines(frame: Frame, width: int, height: int) -> Sequence[Line]:
    """The log's latest lines."""
    book = frame.book or LogBook()
    first, end = book.span
    return draw_log(read_lines(book, range(max(first, end - height), end)), width, height)


PANELS: dict[str, Draw] = {
    "header": lambda frame, width, _height: draw_header(frame, width, "/var/log/cuzk.log"),
    "verdict": draw_verdict,
    "notice": draw_notice,
    "gpus": draw_gpus,
    "lock": draw_lock,
    "syntheses": draw_syntheses,
    "jobs": draw_jobs,
    "stages": draw_stages,
    "chart": draw_activity,
    "recent": draw_partitions,
}
OTHERS: dict[str, Draw] = {
    "partitions": draw_table,
    "timeline": draw_timeline,
    "jobs": draw_jobs_view,
    "log": draw_lines,
    "diagnosis": draw_diagnosis,
}

# Where something else is drawn, or in another way: what the code names, and what it doesn't.
WIDTHS = (BLOCKS, TABLES, BESIDE, ROOMY, SPACED, WIDE, 23, 27, 40, 50, 64, 78, 90, 104, 110, 116)
HEIGHTS = (PANE, 3, 4, 7, 9, 12, 14, 16, 18, 40)
CORNERS = tuple(product((1, 2, WIDEST), (1, 2, HIGHEST)))


def beside(places: Sequence[int], most: int) -> list[int]:
    """Each place, and the one before and after it."""
    return sorted({at + by for at in places for by in (-1, 0, 1) if 1 <= at + by <= most})


@functools.cache
def box(gpus: int) -> Frame:
    """A box with so many cards."""
    return shape_of_box(gpus)


def check(lines: Sequence[Line], width: int, height: int, what: object) -> None:
    assert len(lines) <= height, what
    assert {line_width(line) for line in lines} <= {width}, what
    assert all(style.partition("+")[0] in KNOWN for line in lines for _text, style in line), what


def draw_all(frame: Frame, width: int, height: int) -> None:
    """All six views and the footer, at one size of the terminal."""
    room = height - 1
    check(draw_footer(frame, width), width, 1, ("footer", width, height))
    regions = plan(width, room, Wants().with_frame(frame))
    cells = 0
    for name, region in regions.items():
        lines = PANELS[name](frame, region.width, region.height)
        check(lines, region.width, region.height, (name, region, width, height))
        cells += region.area
    assert cells <= width * room
    for name, draw in OTHERS.items():
        lines = draw(frame, width, room)
        check(lines, width, room, (name, width, height))
        assert lines or room == 0 or width <= 2, (name, width, height)


def test_every_view_is_drawn_here() -> None:
    assert {name for name, *_ in VIEWS} == {"overview", *OTHERS}


@settings(max_examples=320, deadline=None)
@given(st.integers(1, WIDEST), st.integers(1, HIGHEST), st.integers(0, MOST_GPUS))
def test_any_size_is_filled_and_not_left(width: int, height: int, gpus: int) -> None:
    draw_all(box(gpus), width, height)


@pytest.mark.parametrize("gpus", [0, 1, 4, MOST_GPUS])
def test_the_corners_are_filled(gpus: int) -> None:
    for width, height in CORNERS:
        draw_all(box(gpus), width, height)


def test_every_place_where_the_picture_changes_its_shape() -> None:
    """Each such width and height, one more and one less; the cards change from one to the next."""
    sizes = [(width, height) for width in beside(WIDTHS, WIDEST) for height in (9, 24, 41)]
    sizes += [(width, height) for height in beside(HEIGHTS, HIGHEST) for width in (79, 101, 160)]
    for at, (width, height) in enumerate(sizes):
        draw_all(box(at % (MOST_GPUS + 1)), width, height)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, WIDEST), st.integers(1, HIGHEST), st.sampled_from(sorted(FRAMES)))
def test_what_is_empty_old_missing_or_wrong_is_drawn_at_any_size(
    width: int, height: int, name: str
) -> None:
    draw_all(FRAMES[name](), width, height)


@pytest.mark.parametrize("name", sorted(FRAMES))
def test_what_is_empty_old_missing_or_wrong_is_drawn_where_next_to_nothing_fits(name: str) -> None:
    for width, height in product((1, 2, 3), (1, 2, 3, 4)):
        draw_all(FRAMES[name](), width, height)
