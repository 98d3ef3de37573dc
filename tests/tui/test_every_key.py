"""Every key of the help, in every view that has it: what it says is seen on the screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from textual.command import CommandPalette

from cuzktop.dataclass import replace
from cuzktop.frame import Frame
from cuzktop.tui.app import CuzktopApp
from cuzktop.tui.keys import KEYS, VIEWS, Key
from cuzktop.tui.prompt import Prompt
from cuzktop.tui.rows import key_of
from cuzktop.tui.themes import DARK
from tests.tui.frames import failures, job, job_id, row

SIZE = (100, 24)


class Look(NamedTuple):
    """What is on the screen: its lines, and those that have something selected in them."""

    lines: tuple[str, ...]
    selected: tuple[int, ...]
    painted: tuple[str, ...]  # with their colours

    @property
    def row(self) -> str:
        """The line that is selected."""
        assert self.selected, "nothing is selected"
        return self.lines[self.selected[0]]

    def says(self, *words: str) -> bool:
        """Whether all of `words` stand on the screen."""
        shown = "\n".join(self.lines)
        return all(word in shown for word in words)


def look(app: CuzktopApp) -> Look:
    strips = app.screen._compositor.render_strips()
    ground = DARK["cz-selected"]
    return Look(
        tuple(strip.text for strip in strips),
        tuple(
            y
            for y, strip in enumerate(strips)
            if any(
                segment.style is not None
                and segment.style.bgcolor is not None
                and segment.style.bgcolor.name == ground
                for segment in strip
            )
        ),
        tuple(str(list(strip)) for strip in strips),
    )


def scene() -> Frame:
    """Failures, slow partitions, jobs and lines enough to page through."""
    frame = failures()
    slow = tuple(
        row(at, job=job_id(at), partition=at, bracket_ms=9000 + at, kind="snap") for at in (3, 7)
    )
    first = {key_of(one): one for one in reversed(frame.recent)}
    recent = [one for one in frame.recent if first[key_of(one)] is one]
    # One is left out, so that nobody holds the lock for a while.
    rows = (*recent[:8], slow[0], *recent[8:12], *recent[13:16], slow[1], *recent[16:])
    older = tuple(
        job(at, "dddddFdddd" if at % 9 == 4 else "dddddddddd", message="self-check" * (at % 9 == 4))
        for at in range(-40, 12)
    )
    return replace(frame, recent=rows, older_jobs=older)


class Player:
    """Something that is played, or can be recorded, and tells what it was asked for."""

    records = False

    def __init__(self, *, plays: bool) -> None:
        self.plays = plays

    def badge(self) -> str:
        return "08:20:11"

    def pause(self) -> str:
        return "stands"

    def change_speed(self, by: int) -> str:
        return f"speed {by:+d}"

    def step(self, by: int) -> str:
        return f"step {by:+d}"

    def go_to(self, text: str) -> str:
        return f"at {text}"

    def new_name(self) -> str:
        return "today.rec"

    def record(self, text: str) -> str:
        return f"records to {text}"

    def end_recording(self) -> str:
        return "ended"


Check = Callable[[CuzktopApp, Look, Look], bool]


class Case(NamedTuple):
    """How a key is tried: in these views, after these keys, and what must be seen then."""

    views: str
    before: tuple[str, ...]
    check: Check


def differs(_app: CuzktopApp, before: Look, after: Look) -> bool:
    return before.painted != after.painted


def moved(by: int) -> Check:
    """The line that was `by` below the selected one is selected now."""

    def check(_app: CuzktopApp, before: Look, after: Look) -> bool:
        return before.lines[before.selected[0] + by].strip() == after.row.strip()

    return check


def scrolled(by: int) -> Check:
    """The picture has moved by so many lines."""

    def check(_app: CuzktopApp, before: Look, after: Look) -> bool:
        if by > 0:
            return before.lines[by:20] == after.lines[: 20 - by]
        return before.lines[: 20 + by] == after.lines[-by:20]

    return check


def far(_app: CuzktopApp, before: Look, after: Look) -> bool:
    """Another row is selected that was not beside the one before."""
    beside = {before.lines[before.selected[0] + by].strip() for by in (-1, 0, 1)}
    return after.row.strip() not in beside


def says(*words: str) -> Check:
    """These words are on the screen, and at least one of them was not before."""

    def check(_app: CuzktopApp, before: Look, after: Look) -> bool:
        return after.says(*words) and not before.says(*words)

    return check


def row_says(*words: str) -> Check:
    """The selected row has one of these words."""

    def check(_app: CuzktopApp, _before: Look, after: Look) -> bool:
        return any(word in after.row for word in words)

    return check


def opened(kind: type) -> Check:
    return lambda app, _before, after: isinstance(app.screen, kind) and bool(after.lines)


def asks(words: str) -> Check:
    return lambda app, _before, after: app.query_one(Prompt).asks and after.says(words)


def copied(app: CuzktopApp, _before: Look, after: Look) -> bool:
    return bool(app.clipboard) and after.says(f"copied {len(app.clipboard)} characters")


def let_go(_app: CuzktopApp, before: Look, after: Look) -> bool:
    return bool(before.selected) and not after.selected


def footer(number: int) -> Check:
    title = VIEWS[number - 1][1]
    return lambda _app, _before, after: f" {number} {title} " in after.lines[-1]


DOWN = ("g", "j", "j", "j")
SEARCH = ("slash", *"40020", "enter")
CASES: dict[str, tuple[Case, ...]] = {
    "quit": (Case("1", (), lambda app, _before, _after: not app.is_running),),
    "help": (Case("1", (), says("Help", "this list", "Esc closes")),),
    **{
        f"view_{name}": (Case("2" if number == 1 else "1", (), footer(number)),)
        for number, (name, _title, _says) in enumerate(VIEWS, 1)
    },
    "pause": (Case("1", (), says("PAUSED +0 events")),),
    "command_palette": (Case("1", (), opened(CommandPalette)),),
    "record": (Case("1", (), asks("today.rec")),),
    "play_back": (Case("1", (), says("step -1")),),
    "play_on": (Case("1", (), says("step +1")),),
    "play_at": (Case("1", (), asks("go to @")),),
    "play_slower": (Case("1", (), says("speed -1")),),
    "play_faster": (Case("1", (), says("speed +1")),),
    "slower": (Case("1", (), says("every 2 s")),),
    "faster": (Case("1", (), says("every 0.5 s")),),
    "focus_next": (Case("1", (), differs),),
    "let_go": (
        Case("1245", ("g", "j"), let_go),
        Case("3", ("left",), says(" live")),
        Case("6", ("G",), says("CPU/MEMORY")),
    ),
    "row_down": (
        Case("124", ("g",), moved(1)),
        Case("5", ("g",), moved(1)),
        Case("3", ("left",), differs),
        Case("6", (), scrolled(1)),
    ),
    "row_up": (
        Case("1245", DOWN, moved(-1)),
        Case("3", ("left", "j", "j"), differs),
        Case("6", ("j", "j"), scrolled(-1)),
    ),
    "row_first": (
        Case("1", ("G",), row_says(f"{job_id(21)}/7")),
        Case("2", ("G",), row_says("40022/9", "40023/")),
        Case("4", ("G",), row_says(job_id(22))),
        Case("5", (), row_says("TIMELINE,0,SYNTH_START")),
        Case("3", (), says("held, ")),
        Case("6", ("G",), says("CPU/MEMORY")),
    ),
    "row_last": (
        Case("124", ("g",), far),
        Case("5", ("g",), says(" follows", "panicked at")),
        Case("3", ("g",), says(" live")),
        Case("6", (), says("THE DAEMON'S SETTINGS")),
    ),
    "page_down": (
        Case("1245", ("g",), far),
        Case("3", ("g",), differs),
        Case("6", (), differs),
    ),
    "page_up": (
        Case("1245", ("g", "pagedown", "pagedown"), far),
        Case("3", (), says("held, ")),
        Case("6", ("pagedown",), says("CPU/MEMORY")),
    ),
    "details": (
        Case("1", ("g",), says("Partition", "partition  7, attempt 1", "failure ")),
        Case("2", ("g",), says("Partition", "attempt 1", "its lines ")),
        Case("3", ("e",), says("Partition", "partition  7, attempt 1")),
        Case("4", ("g",), says("Job", "partitions done")),
        Case("5", ("g",), says("Line 1", "TIMELINE,0,SYNTH_START")),
        Case("6", (), says("Alerts", "12s ago")),
    ),
    "copy": (Case("1245", ("g",), copied), Case("3", ("e",), copied), Case("6", (), copied)),
    "next_theme": (Case("1", (), says("theme cuzk-light")),),
    "write": (Case("1", (), says("kept in")),),
    "next_slow": (
        Case("12", (), row_says("40003/3")),
        Case("3", (), lambda app, _before, _after: app.selected == (job_id(3), 1, 3)),
    ),
    "previous_slow": (
        Case("12", ("s", "s"), row_says("40003/3")),
        Case("3", ("s", "s"), lambda app, _before, _after: app.selected == (job_id(3), 1, 3)),
    ),
    "next_failure": (
        Case("12", (), row_says(" F")),
        Case("3", (), says("then failed")),
        Case("4", (), row_says("lost", "failed")),
        Case("5", (), row_says("ERROR", "panicked")),
    ),
    "previous_failure": (
        Case("12", ("g",), row_says(" F")),
        Case("3", (), says("then failed")),
        Case("4", ("G",), row_says("failed")),
        Case("5", (), row_says("ERROR", "panicked")),
    ),
    "next_stall": (Case("3", (), says("nobody held the lock for ", "GPU 0 free")),),
    "previous_stall": (Case("3", ("e",), says("nobody held the lock for ", "GPU 0 free")),),
    "search": (Case("245", (), asks("search /")),),
    "next_match": (
        Case("24", SEARCH, row_says(job_id(20))),
        Case("5", ("slash", *"budget", "enter"), row_says("budget")),
    ),
    "previous_match": (
        Case("24", SEARCH, row_says(job_id(20))),
        Case("5", ("slash", *"budget", "enter"), row_says("budget")),
    ),
    "filter": (Case("2", (), asks("filter \\")),),
    "sort_left": (Case("2", ("greater_than_sign",) * 2, says("by job ▲")),),
    "sort_right": (Case("2", (), says("by job ▲")),),
    "reverse": (Case("2", (), says("oldest first")),),
    "bar": (Case("2", (), says("whole life")),),
    "left": (
        Case("3", (), says("syntheses  GPU 0", "held")),
        Case("4", ("g", "l", "l"), differs),
        Case("5", ("k", "l"), differs),
    ),
    "right": (
        Case("3", ("left", "left"), differs),
        Case("4", ("g",), differs),
        Case("5", ("g",), differs),
    ),
    "zoom_out": (Case("3", (), says("1 s a column")),),
    "zoom_in": (Case("3", (), says("200 ms a column")),),
    "level": (Case("5", (), says(" · info and worse")),),
    "noise": (Case("5", (), says(" · no timing lines")),),
    "only_job": (Case("5", ("g",), says(f" · only {job_id(21)}")),),
}


UNSEEN = frozenset({"suspend_process"})  # stops the process itself: that takes a real terminal
WALK = [key for key in KEYS if key.action not in UNSEEN]


def tried(key: Key) -> set[str]:
    """The views in which a key is tried."""
    return {number for case in CASES[key.action] for number in case.views}


@pytest.mark.parametrize("key", WALK, ids=lambda key: key.action)
def test_each_key_is_tried_wherever_the_help_says_that_it_works(key: Key) -> None:
    assert tried(key) >= set(key.views or "")
    assert tried(key)


@pytest.mark.parametrize("number", "123456")
async def test_every_key_does_what_the_help_says(number: str, tmp_path: Path) -> None:
    for key in WALK:
        for case in CASES[key.action]:
            if number not in case.views:
                continue
            aliases = key.keys.split(",")
            # One view tries all that a key is known by; elsewhere one of them is enough.
            for alias in aliases if number == min(tried(key)) else aliases[:1]:
                app = CuzktopApp(preferences_file=tmp_path / "settings.toml")
                if key.action == "record" or key.action.startswith("play_"):
                    app.deck = Player(plays=key.action != "record")
                async with app.run_test(size=SIZE) as pilot:
                    app.publish(scene())
                    await pilot.press(number, *case.before)
                    await pilot.pause()
                    before = look(app)
                    await pilot.press(alias)
                    await pilot.pause()
                    after = look(app) if app.is_running else before
                    assert case.check(app, before, after), (
                        f"{alias} in view {number}: {key.help}\n" + "\n".join(after.lines)
                    )
