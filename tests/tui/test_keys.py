"""One list of keys: bindings, palette, help, footer and README say the same."""

from __future__ import annotations

from textual.command import CommandList

from cuzktop.dataclass import replace
from cuzktop.tui.app import CuzktopApp
from cuzktop.tui.keys import KEYS, VIEWS, markdown_table
from cuzktop.tui.themes import THEMES
from cuzktop.tui.views import view_class
from cuzktop.tui.views.base import Acting
from cuzktop.tui.widgets.overview import Overview
from cuzktop.tui.widgets.windows import alert_lines, help_lines, verdict_lines
from tests.tui.frames import failures


async def test_the_palette_has_every_action() -> None:
    app = CuzktopApp()
    async with app.run_test():
        offered = {command.title: command for command in app.get_system_commands(app.screen)}
    for key in KEYS:
        if key.action != "command_palette":  # it is what one is in
            assert key.says in offered[key.title].help
            assert key.shown in offered[key.title].help
    assert "Theme" in offered


def test_every_action_can_be_done_where_it_is_said_to_be() -> None:
    kinds: tuple[type[Acting], ...] = (Overview, *(view_class(name) for name, *_ in VIEWS[1:]))
    views = {str(view.number): view for view in kinds}
    for key in KEYS:
        own = getattr(CuzktopApp, f"action_{key.action}", None)
        for number in key.views if own is None else "":
            assert callable(getattr(views[number], f"do_{key.action}")), (key.action, number)
        for number in set("123456") - set(key.views) if own is None else "":
            assert not hasattr(views[number], f"do_{key.action}"), (key.action, number)


def test_no_key_has_two_meanings() -> None:
    keys = [name for key in KEYS for name in key.keys.split(",")]
    assert len(keys) == len(set(keys))


def test_help_and_readme_list_every_key() -> None:
    lines = "\n".join(help_lines())
    for key in KEYS:
        assert key.shown in lines
        assert key.says in lines
        assert key.says in markdown_table()


def test_windows_fit_the_smallest_usual_terminal() -> None:
    long = failures()
    long = replace(
        long, alerts=tuple(replace(one, text=9 * "out of memory ") for one in long.alerts)
    )
    for lines in (help_lines(), verdict_lines(long), alert_lines(long)):
        assert max(map(len, lines)) <= 74  # of 80, without frame and scroll bar


async def test_the_palette_offers_the_themes_that_the_key_goes_through() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 40)) as pilot:
        app.search_themes()
        await pilot.pause()
        assert app.screen.query_one(CommandList).option_count == len(THEMES)
