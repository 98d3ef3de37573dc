"""Looks: every name that a line may have, in every theme."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cuzktop.tui.palette import COLOURLESS, LOOKS, look
from cuzktop.tui.sgr import LOG_STYLES
from cuzktop.tui.themes import DARK, LIGHT, SIXTEEN
from cuzktop.tui.widgets.cells import STYLES


def test_every_style_of_a_line_has_a_look() -> None:
    assert set(LOOKS) == {*STYLES, *LOG_STYLES}
    assert set(COLOURLESS) <= set(LOOKS)


@pytest.mark.parametrize("variables", [DARK, LIGHT, SIXTEEN])
def test_every_look_can_be_had_in_every_theme(variables: Mapping[str, str]) -> None:
    for name in LOOKS:
        style = look(name, variables, colour=True)
        assert style.color is not None


def test_weights_are_added_and_stand_for_colours() -> None:
    assert look("text+bold", DARK, colour=True).bold
    assert look("text+underline", DARK, colour=True).underline
    assert not look("warn", DARK, colour=True).bold
    assert look("warn", DARK, colour=False).bold
    assert look("selected", DARK, colour=False).reverse
