"""Settings that are kept: written by a key, read at the start, ignored when they make no sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuzktop.settings import Settings
from cuzktop.tui.app import CuzktopApp
from cuzktop.tui.preferences import Preferences, load, save, user_file
from cuzktop.tui.widgets.footer import FooterPanel


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "settings.toml"
    for wanted in (
        Preferences(),
        Preferences(interval_s=0.5, theme="cuzk-light", view="log", sort="queue_ms", reverse=True),
    ):
        save(path, wanted)
        assert load(path) == (wanted, "")
    assert [entry.name for entry in path.parent.iterdir()] == ["settings.toml"]


def test_the_file_lies_where_such_files_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/etc/xdg-of-a-user")
    assert user_file() == Path("/etc/xdg-of-a-user/cuzktop/settings.toml")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/home/operator")
    assert user_file() == Path("/home/operator/.config/cuzktop/settings.toml")


def test_no_file_is_no_fault(tmp_path: Path) -> None:
    assert load(tmp_path / "settings.toml") == (Preferences(), "")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"interval_s = ", "Invalid value"),
        (b"interval_s = 'often'", "interval_s = 'often' is no number of seconds"),
        (b"interval_s = true", "interval_s = True is no number of seconds"),
        (b"interval_s = 0.0001", "is no number of seconds"),
        (b"interval_s = nan", "is no number of seconds"),
        (b"view = 'cellar'", "view = 'cellar' is none of overview"),
        (b"theme = ['a']", "theme = ['a'] is no name"),
        (b"sort = '../../etc'", "is no name"),
        (b"reverse = 1", "neither true nor false"),
        (b"\xff\xfe", "can't decode"),
        (b"x" * 70_000, "too large"),
    ],
)
def test_a_file_that_makes_no_sense_is_ignored_with_a_notice(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(content)
    kept, notice = load(path)
    assert kept == Preferences()
    assert words in notice
    assert str(path) in notice
    assert "\n" not in notice


def test_a_folder_in_its_place_is_ignored_with_a_notice(tmp_path: Path) -> None:
    assert "can't be read" in load(tmp_path)[1]


def test_names_that_are_not_known_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text("view = 'jobs'\nfuture = [1, 2]\n", encoding="utf-8")
    assert load(path) == (Preferences(view="jobs"), "")


async def test_settings_are_taken_over_at_the_start_and_written_by_a_key(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    told: list[float] = []
    app = CuzktopApp(preferences_file=path, on_interval=told.append)
    async with app.run_test(size=(120, 30)) as pilot:
        assert told == []
        await pilot.press("2", "greater_than_sign", "greater_than_sign", "r", "minus", "T", "W")
        await pilot.pause()
        assert f"kept in {path}" in app.query_one(FooterPanel).lines[0]
    assert load(path)[0] == Preferences(
        interval_s=0.5, theme="cuzk-light", view="partitions", sort="worker", reverse=True
    )
    told.clear()
    again = CuzktopApp(preferences_file=path, on_interval=told.append)
    async with again.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        assert again.theme == "cuzk-light"
        assert told == [0.5]
        assert again.query_one(FooterPanel).lines[0].startswith(" 2 Partitions ")
        assert again.interval_s == 0.5
    # The command line goes first, with what would be the interval anyway, too.
    for wanted_s in (5.0, 1.0):
        asked = CuzktopApp(Settings(interval_s=wanted_s), preferences_file=path)
        assert asked.interval_s == wanted_s


async def test_a_notice_stands_in_the_footer(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text("view = 'cellar'", encoding="utf-8")
    app = CuzktopApp(preferences_file=path)
    async with app.run_test(size=(200, 30)) as pilot:
        await pilot.pause()
        assert "view = 'cellar' is none of" in app.query_one(FooterPanel).lines[0]


async def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    app = CuzktopApp(preferences_file=tmp_path / "file" / "settings.toml")
    async with app.run_test(size=(200, 30)) as pilot:
        await pilot.press("W")
        await pilot.pause()
        assert "can't be written" in app.query_one(FooterPanel).lines[0]
        assert app.is_running
