"""Text in cells: nothing is wider than its room, and nothing in it moves the cursor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cuzktop.frame import TIME_CLASSES
from cuzktop.tui.widgets.cells import (
    Graphs,
    Line,
    bar,
    beside,
    clean,
    clip,
    count,
    differences,
    fit,
    graph,
    label,
    line_width,
    right,
    stacked,
    title,
    to_ascii,
    wrap,
)

texts = st.text(st.characters(), max_size=60)
widths = st.integers(0, 80)


@given(texts, widths)
def test_fitted_text_has_exactly_its_width(text: str, width: int) -> None:
    assert cell_len(fit(clean(text), width)) == width
    assert cell_len(right(clean(text), width)) == width


@given(texts, st.none() | st.integers(0, 300), widths, st.integers(1, 3))
def test_a_label_has_exactly_its_width_and_keeps_its_partition(
    job: str, partition: int | None, width: int, attempt: int
) -> None:
    shown = label(job, partition, width, attempt)
    assert cell_len(shown) == width
    if partition is not None and width >= 12:
        assert shown.rstrip().endswith(f"/{partition}")


@pytest.mark.parametrize(
    ("job", "partition", "width", "shown"),
    [
        ("porep-1000-40021", 3, 20, "porep-1000-40021/3  "),
        ("81ffd99a-a654-41df-b65b-e5db81d9ec77", 11, 18, "81f…5db81d9ec77/11"),
        ("wdpost-1000-0-[12 255 3 4 5 6 7 8]", None, 18, "wdpo… 3 4 5 6 7 8]"),
        ("[/gpu0] 日本語", 2, 10, "[…日本語/2"),
    ],
)
def test_a_long_job_id_loses_its_middle(
    job: str, partition: int | None, width: int, shown: str
) -> None:
    assert label(job, partition, width) == shown


@given(texts)
def test_clean_text_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    cleaned = clean(text)
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in cleaned)
    cleaned.encode()  # no lone surrogate is left


@given(texts)
def test_ascii_text_takes_as_many_cells(text: str) -> None:
    shown = to_ascii(clean(text))
    assert shown.isascii()
    assert cell_len(shown) == cell_len(clean(text))


@given(texts, st.integers(1, 50), st.integers(1, 50), st.integers(1, 4))
def test_wrapped_lines_fit(text: str, first: int, rest: int, lines: int) -> None:
    wrapped = wrap(text, first, rest, lines)
    assert 1 <= len(wrapped) <= lines
    assert cell_len(wrapped[0]) <= first
    assert all(cell_len(line) <= rest for line in wrapped[1:])


@given(st.lists(st.tuples(texts.map(clean), st.just("text")), max_size=6), st.integers(0, 60))
def test_a_clipped_line_has_exactly_its_width(spans: list[tuple[str, str]], width: int) -> None:
    assert line_width(clip(spans, width)) == width
    assert line_width(beside(spans, [("right", "muted")], width)) == width


@given(texts.map(clean), st.integers(1, 60), texts.map(clean), texts.map(clean))
def test_a_title_has_exactly_its_width(name: str, width: int, detail: str, end: str) -> None:
    assert line_width(title(name, width, detail=detail, end=end)) == width


@given(st.none() | st.floats(-5, 130), st.integers(0, 60))
def test_a_bar_has_exactly_its_width(share_pct: float | None, width: int) -> None:
    assert cell_len(bar(share_pct, width, "kernel")[0]) == width


lines = st.lists(
    st.tuples(st.sampled_from(["a", "ab", "日本", "  ", "█▌"]), st.sampled_from(["text", "warn"])),
    max_size=6,
)


@given(lines, lines, st.integers(1, 12))
def test_what_differs_written_over_a_line_makes_the_other_of_it(
    one: list[tuple[str, str]], other: list[tuple[str, str]], width: int
) -> None:
    old, new = clip(one, width), clip(other, width)

    def cells(line: Line) -> list[tuple[str, str]]:
        return [(char, name) for text, name in line for char in text for _ in range(cell_len(char))]

    screen = cells(old)
    for at, piece in differences(old, new):
        screen[at : at + line_width(piece)] = cells(piece)
    assert screen == cells(new)


def test_a_figure_and_an_end_that_change_leave_the_middle_alone() -> None:
    old = (("gpu  7", "muted"), ("=" * 50, "kernel"), ("a", "text"))
    new = (("gpu 17", "muted"), ("=" * 50, "kernel"), ("b", "text"))
    assert differences(old, new) == [(0, new[:1]), (56, new[2:])]


def test_a_bar_never_hides_a_little_and_never_invents_any() -> None:
    assert bar(0.2, 10, "kernel")[0].strip() == "▏"
    assert bar(0.0, 10, "kernel")[0].strip() == ""
    assert bar(None, 10, "kernel") == ("··········", "track")
    assert bar(100.0, 10, "kernel")[0] == "█" * 10


@given(
    st.lists(st.floats(0, 100), min_size=6, max_size=6).filter(lambda s: sum(s) > 1),
    st.integers(1, 100),
)
def test_a_stacked_bar_fills_its_width(shares: list[float], width: int) -> None:
    total = sum(shares)
    by_class = {n: 100 * s / total for n, s in zip(TIME_CLASSES, shares, strict=True)}
    assert line_width(stacked(by_class, width)) == width


@given(st.lists(st.none() | st.floats(0, 100), max_size=80), st.integers(1, 60), st.integers(1, 8))
def test_a_graph_has_exactly_its_size(history: list[float | None], width: int, height: int) -> None:
    rows = graph(history, width, height)
    assert len(rows) == height
    assert all(len(row) == width for row in rows)


@given(
    st.lists(st.one_of(st.none(), st.floats(0, 100)), min_size=60, max_size=90),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.floats(0, 100)), max_size=12),
)
def test_a_graph_that_goes_on_is_what_it_would_be_if_made_anew(
    history: list[float | None], steps: list[tuple[int, int, float]]
) -> None:
    graphs = Graphs()
    for seconds, back, share in steps:
        history = [*history[seconds:], *[share] * seconds]
        history[-1 - back] = share
        made = graphs.rows("it", tuple(history), 50, 3)
        assert made == graph(tuple(history), 50, 3)


def test_a_graph_keeps_to_its_scale_and_shows_gaps_as_gaps() -> None:
    assert graph((97.0, 97.0, 97.0), 3, 1) == ("███",)
    assert graph((0.0, 3.0, None, 50.0, 100.0), 7, 1) == ("   ▁·▄█",)
    assert graph((50.0, None, 75.0, 100.0), 4, 2) == ("  ▄█", "█·██")
    assert graph((None, None, 50.0), 3, 1) == ("  ▄",)  # nothing yet isn't a gap


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (9999, "9999"),
        (48_200, "48.2k"),
        (480_200, "480k"),
        (1_300_000, "1.3M"),
        (130_000_000, "130M"),
    ],
)
def test_counts_stay_short(number: int, shown: str) -> None:
    assert count(number) == shown
