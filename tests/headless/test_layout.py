from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzktop.headless.layout import Field, Page, cells


def page(width: int = 60, *, ascii_only: bool = False, colour: bool = False) -> Page:
    return Page(width=width, colour=colour, ascii_only=ascii_only)


@pytest.mark.parametrize(
    ("text", "room", "shown"),
    [
        ("porep-1000-40021", 16, "porep-1000-40021"),
        ("porep-1000-40021", 12, "por…00-40021"),
        ("0f5cb8be-9a1c-4f3e-8e47-3d2a9c1b7e55", 20, "0f5cb8…-3d2a9c1b7e55"),
        ("abcdef", 2, "…f"),
        ("abcdef", 1, "f"),
        ("abcdef", 0, ""),
        ("证明证明证明", 7, "证…证明"),
    ],
)
def test_an_id_is_cut_in_its_middle(text: str, room: int, shown: str) -> None:
    assert page().middle(text, room) == shown


def test_in_ascii_the_cut_is_two_dots() -> None:
    assert page(ascii_only=True).middle("porep-1000-40021", 12) == "por..0-40021"


@given(st.text(), st.integers(0, 80), st.booleans())
def test_what_is_cut_fits(text: str, room: int, ascii_only: bool) -> None:  # noqa: FBT001
    assert cells(page(ascii_only=ascii_only).middle(text, room)) <= room


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x07", "�[31mred�"),
        ("a\tb\nc\xa0d", "a b c d"),
        ("right\u202eleft", "right�left"),
        ("half\udce9", "half�"),
        ("证明 ✗", "证明 ✗"),
    ],
)
def test_nothing_that_a_terminal_obeys_is_passed_on(raw: str, clean: str) -> None:
    assert page().clean(raw) == clean


def test_in_ascii_every_character_is_replaced() -> None:
    assert page(ascii_only=True).clean("10 → 6 · 54 °C – ≥ 证") == "10 -> 6 | 54 C - >= ?"


@given(st.text(), st.booleans())
def test_cleaning_twice_changes_nothing(text: str, ascii_only: bool) -> None:  # noqa: FBT001
    sheet = page(ascii_only=ascii_only)
    assert sheet.clean(sheet.clean(text)) == sheet.clean(text)


@pytest.mark.parametrize(
    ("share_pct", "bar"),
    [(None, ""), (0.0, "░░░░"), (50.0, "██░░"), (100.0, "████"), (178.2, "████"), (-3.0, "░░░░")],
)
def test_a_bar_is_0_to_100(share_pct: float | None, bar: str) -> None:
    assert page().bar(share_pct, 4) == bar


def test_colour_is_written_round_words_and_only_when_asked_for() -> None:
    coloured = page(colour=True)
    coloured.put(("GPU 0", "strong"), "  ", ("  ", "bad"))
    assert coloured.text() == "\x1b[1mGPU 0\x1b[0m\n"
    plain = page()
    plain.put(("GPU 0", "strong"), "  ")
    assert plain.text() == "GPU 0\n"


def test_a_paragraph_hangs_behind_its_label_and_keeps_units_with_figures() -> None:
    sheet = page(40)
    sheet.paragraph("the barrier takes much of it, some 42.1 % of the window", label="why ")
    assert sheet.text() == ("why the barrier takes much of it, some\n    42.1 % of the window\n")


def test_a_paragraph_has_a_limit() -> None:
    sheet = page(40)
    sheet.paragraph("word " * 100, limit=2)
    lines = sheet.text().splitlines()
    assert len(lines) == 2
    assert lines[1].endswith("word…")


def test_a_table_cuts_the_long_name_then_leaves_out_the_least_needed() -> None:
    job = Field(title="Job", texts=["a-very-long-job-name-0123456789"], flexible=True)
    figures = [
        Field(title="Lock wait", texts=["1.41s"], right=True, rank=1),
        Field(title="Bracket", texts=["3.68s"], right=True, rank=3),
        Field(title="Owner", texts=["exact"], rank=2),
    ]
    sheet = page(40)
    assert len(sheet.table([job, *figures])) == 4
    assert sheet.text() == (
        "                    Lock\n"
        "  Job               wait  Bracket  Owner\n"
        "  a-ve…0123456789  1.41s    3.68s  exact\n"
    )
    sheet = page(40)
    kept = sheet.table([job, *figures, Field(title="Kernel time", texts=["0.61s"], right=True)])
    assert [field.title for field in kept] == ["Job", "Lock wait", "Owner", "Kernel time"]


def test_a_column_without_text_takes_no_room() -> None:
    sheet = page(40)
    sheet.table([Field(texts=["a"]), Field(texts=[""]), Field(texts=["b"])])
    assert sheet.text() == "  a  b\n"
