"""The app under a pilot: what keys do, and what is drawn when."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from rich.cells import cell_len
from textual import events
from textual.command import CommandPalette
from textual.geometry import Region
from textual.pilot import Pilot
from textual.widgets import Input

from cuzktop.dataclass import replace
from cuzktop.events import GpuProcess, GpuSampled
from cuzktop.frame import Frame
from cuzktop.settings import Settings
from cuzktop.tui.app import CuzktopApp
from cuzktop.tui.views.diagnosis import content
from cuzktop.tui.widgets.activity import ActivityPanel
from cuzktop.tui.widgets.brush import Brush
from cuzktop.tui.widgets.footer import FooterPanel
from cuzktop.tui.widgets.gpus import GpusPanel
from cuzktop.tui.widgets.jobs import JobsPanel
from cuzktop.tui.widgets.lines import Lines
from cuzktop.tui.widgets.lock import LockPanel
from cuzktop.tui.widgets.partitions import PartitionsPanel
from cuzktop.tui.widgets.stages import StagesPanel
from cuzktop.tui.widgets.syntheses import SynthesesPanel
from cuzktop.tui.widgets.verdict import VerdictPanel
from cuzktop.tui.widgets.windows import Window
from tests.tui.frames import (
    FRAMES,
    MARKUP,
    busy,
    eight,
    failures,
    herd,
    ids,
    no_timing,
    row,
    shape_of_box,
)


async def show(pilot: Pilot[None], frame: Frame) -> None:
    app = pilot.app
    assert isinstance(app, CuzktopApp)
    app.publish(frame)
    await pilot.pause()


def screen_text(app: CuzktopApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def table(app: CuzktopApp) -> PartitionsPanel:
    return app.screen_stack[0].query_one(PartitionsPanel)


def later(frame: Frame, events: int) -> Frame:
    """A frame after which the verdict is another one."""
    return replace(herd(), source=replace(frame.source, events=frame.source.events + events))


# --------------------------------------------------------------------------------------- frames


async def test_a_frame_is_drawn() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        assert "nothing read yet: waiting for the log's first line" in screen_text(app)
        await show(pilot, busy())
        shown = screen_text(app)
    for words in ("CPU/MEMORY  80 % sure", "≥ kernel", "● w0", "SYNTHESES 10", "8/10", "ntt+H"):
        assert words in shown


async def test_frames_may_come_from_another_thread_and_before_the_screen() -> None:
    app = CuzktopApp()
    app.publish(busy())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "CPU/MEMORY" in screen_text(app)
        thread = threading.Thread(target=app.publish, args=(herd(),))
        thread.start()
        thread.join()
        await pilot.pause()
        assert "HERDING" in screen_text(app)


async def test_a_slow_terminal_skips_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        shown: list[Frame] = []
        show_footer = FooterPanel.show

        def spy(self: FooterPanel, frame: Frame, brush: Brush | None = None) -> None:
            shown.append(frame)
            show_footer(self, frame, brush)

        monkeypatch.setattr(FooterPanel, "show", spy)
        frames = busy(), herd()
        for frame in frames:
            app.publish(frame)
        await pilot.pause()
        assert shown == [frames[1]]
        assert "HERDING" in screen_text(app)


async def test_a_fault_while_drawing_ends_the_program_with_its_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_self: VerdictPanel, _frame: Frame, _brush: Brush | None = None) -> None:
        raise ZeroDivisionError

    app = CuzktopApp()
    monkeypatch.setattr(VerdictPanel, "show", fail)
    with pytest.raises(ZeroDivisionError):
        async with app.run_test(size=(80, 24)) as pilot:
            await show(pilot, busy())
    assert isinstance(app.failure, ZeroDivisionError)


async def test_the_same_picture_again_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    app = CuzktopApp()
    async with app.run_test(size=(200, 60)) as pilot:
        await show(pilot, busy())
        refreshed: list[tuple[Region, ...]] = []
        refresh = Lines.refresh

        def spy(self: Lines, *regions: Region, **options: bool) -> Lines:
            refreshed.append(regions)
            return refresh(self, *regions, **options)

        monkeypatch.setattr(Lines, "refresh", spy)
        await show(pilot, busy())
        assert refreshed == []
        # One synthesis grows older: one row changes.
        frame = busy()
        first, *others = frame.syntheses
        older = replace(first, since_ms=first.since_ms - 1000)
        await show(pilot, replace(frame, syntheses=(older, *others)))
        assert [len(regions) for regions in refreshed] == [1]
        assert refreshed[0][0].height == 1


async def test_a_panel_that_gets_room_again_catches_up() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await show(pilot, busy())
        await pilot.resize_terminal(80, 3)
        await show(pilot, no_timing())
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "no CUZK_TIMING lines in this log" in screen_text(app)


async def test_more_gpus_make_the_panels_move() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await show(pilot, Frame())
        await show(pilot, eight())
        shown = screen_text(app).splitlines()
    assert shown[3].startswith("GPU brack≥ lock≥ sect≥ kern")
    assert [line[:2] for line in shown[4:12]] == [f"{gpu:>2}" for gpu in range(8)]


async def test_any_size_can_be_drawn() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        for frame in (shape_of_box(16), ids()):
            await show(pilot, frame)
            for size in ((1, 1), (1, 9), (7, 3), (40, 10), (149, 16)):
                await pilot.resize_terminal(*size)
                lines = screen_text(app).splitlines()
                assert len(lines) == size[1]
                assert all(cell_len(line) <= size[0] for line in lines)
        await pilot.press("j", "enter")
        await pilot.resize_terminal(1, 1)
        await pilot.press("escape")


async def test_text_from_the_log_is_never_markup() -> None:
    app = CuzktopApp(title="[/b] title")
    async with app.run_test(size=(200, 60)) as pilot:
        await show(pilot, ids())
        assert MARKUP in screen_text(app).replace("  ", " ") or "[/gpu0]" in screen_text(app)
        for at in (0, 2, 4):
            table(app).select(at)
            await pilot.press("enter")
            assert isinstance(app.screen, Window)
            await pilot.press("escape")


# ----------------------------------------------------------------------------------------- keys


async def test_pause_holds_the_picture_and_counts_what_it_misses() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await show(pilot, busy())
        await pilot.press("space")
        await show(pilot, later(busy(), 231))
        shown = screen_text(app)
        assert "CPU/MEMORY" in shown
        assert "HERDING" not in shown
        assert "PAUSED +231 events" in shown
        await pilot.press("space")
        await pilot.pause()
        shown = screen_text(app)
        assert "HERDING" in shown
        assert "PAUSED" not in shown


async def test_each_pause_key_pauses() -> None:
    app = CuzktopApp()
    async with app.run_test() as pilot:
        for key in ("space", "p", "Z"):
            app.paused = False
            await pilot.press(key)
            assert app.paused


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_each_quit_key_quits(key: str) -> None:
    app = CuzktopApp()
    async with app.run_test() as pilot:
        await show(pilot, busy())
        await pilot.press(key)
        await pilot.pause()
        assert not app.is_running
    assert app.return_code == 0


async def test_ctrl_c_quits_from_a_window_too() -> None:
    app = CuzktopApp()
    async with app.run_test() as pilot:
        await pilot.press("question_mark")
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert not app.is_running


@pytest.mark.parametrize(
    "typed",
    [
        ("q", "colon"),
        ("q", "question_mark", "j"),
        ("j", "q", "enter", "pagedown"),
        ("q", "slash", "a", "3"),
        ("question_mark", "ctrl+c", "j"),
        ("ctrl+p", "ctrl+c", "a", "enter"),
    ],
    ids=" ".join,
)
async def test_what_is_typed_behind_the_key_that_leaves_is_no_fault(typed: tuple[str, ...]) -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await show(pilot, busy())
        for key in typed:  # faster than any of them is heard
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        for _ in range(10):
            await pilot.pause()
        assert not app.is_running
    assert app.failure is None
    assert app.return_code == 0


async def test_what_is_typed_behind_the_key_that_closes_the_palette_is_no_fault() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("colon")
        await pilot.pause()
        palette, line = app.screen, app.screen.query_one(Input)
        await palette.dismiss()
        await palette._dispatch_message(Input.Changed(line, "x"))  # it had been busy until now
        await pilot.pause()
        await pilot.pause()
        assert app.is_running
    assert app.failure is None


@pytest.mark.parametrize("keys", [("enter",), ("question_mark", "enter"), ("tab", "enter")])
async def test_a_key_that_is_repeated_fast_opens_one_window(keys: tuple[str, ...]) -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await show(pilot, busy())
        await pilot.press("j", *keys[:-1])
        for _ in range(60):  # what is held down while the terminal hangs comes at once
            app.post_message(events.Key(keys[-1], None))
        await pilot.pause()
        assert len(app.screen_stack) <= 2
        while len(app.screen_stack) > 1:
            await pilot.press("escape")
        await show(pilot, failures())
    assert app.failure is None


async def test_help_opens_and_closes() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, Window)
        assert "freeze the picture (reading goes on)" in screen_text(app)
        await pilot.press("G")
        await pilot.pause()
        assert "A full bracket can be an idle GPU" in screen_text(app)
        await pilot.press("q")
        await pilot.pause()
        assert app.is_running
        assert not isinstance(app.screen, Window)


async def test_a_window_is_scrolled_by_every_key_that_moves_and_nothing_under_it_is() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await show(pilot, busy())
        await pilot.press("question_mark")
        await pilot.pause()
        tops = []
        for key in ("down", "j", "pagedown", "pageup", "up", "k", "end", "home", "G", "g"):
            await pilot.press(key)
            await pilot.pause()
            tops.append(int(app.screen.query_one("#window").scroll_y))
        assert tops[:2] == [1, 2]
        assert tops[2] > 15
        assert tops[3:6] == [2, 1, 0]
        assert tops[6] == tops[8] > tops[2]
        assert tops[7] == tops[9] == 0
        await pilot.press("escape")
        assert table(app).selected is None


async def test_plus_and_minus_tell_the_interval() -> None:
    told: list[float] = []
    app = CuzktopApp(Settings(interval_s=1.0), on_interval=told.append)
    async with app.run_test(size=(200, 24)) as pilot:
        await show(pilot, busy())
        await pilot.press("plus", "minus", "minus")
        await pilot.pause()
        assert told == [2.0, 1.0, 0.5]
        assert "every 0.5 s" in screen_text(app)
        await pilot.press("minus", "minus", "minus", "minus")
        assert told[3:] == [0.2, 0.1]  # and no further


async def test_an_interval_between_two_steps_goes_to_the_next() -> None:
    told: list[float] = []
    app = CuzktopApp(Settings(interval_s=1.5), on_interval=told.append)
    async with app.run_test() as pilot:
        await pilot.press("plus")
        assert told == [2.0]


async def test_the_palette_opens() -> None:
    app = CuzktopApp()
    async with app.run_test() as pilot:
        for key in ("colon", "ctrl+p"):
            await pilot.press(key)
            assert isinstance(app.screen, CommandPalette)
            await pilot.press("escape")


@pytest.mark.parametrize("size", [(1, 1), (20, 3), (20, 5), (40, 6)])
@pytest.mark.parametrize("opened", ["command_palette", "change_theme"])
async def test_the_palettes_pages_are_turned_in_the_smallest_terminal(
    size: tuple[int, int], opened: str
) -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.run_action(opened)
        await pilot.press("down")
        await pilot.pause()
        for width in range(12, 0, -1):
            await pilot.resize_terminal(width, size[1])
        await pilot.resize_terminal(*size)
        await pilot.press("down", "pagedown", "pagedown", "pageup", "down", "escape", "escape")
        assert len(app.screen_stack) == 1


@pytest.mark.parametrize("opened", ["command_palette", "change_theme", "help"])
async def test_a_window_that_is_closed_twice_takes_nothing_with_it(opened: str) -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.run_action(opened)
        await pilot.pause()
        window = app.screen
        window.dismiss()
        window.dismiss()
        await pilot.pause()
        assert len(app.screen_stack) == 1
        await app.run_action(opened)
        await app.run_action("help")
        app.screen_stack[1].dismiss()  # what lies under another window stays
        await pilot.pause()
        await pilot.press("escape", "escape")
        assert len(app.screen_stack) == 1


async def test_a_line_to_type_in_ends_where_one_goes_elsewhere() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await show(pilot, busy())
        await pilot.press("2", "backslash", *"kind:p")
        assert "filter" in screen_text(app)
        await pilot.click("#partitions", offset=(5, 5))
        await pilot.pause()
        assert "filter \\" not in screen_text(app)
        await pilot.press("3", "tab", "x", "tab", "y")
        await pilot.pause()
        assert "Timeline" in screen_text(app).splitlines()[-1]
        await pilot.press("2", "backslash")
        assert "kind:p" in screen_text(app)  # what was typed had been told


async def test_rows_are_selected_and_opened() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await show(pilot, busy())
        rows = table(app)
        assert rows.selected is None
        await pilot.press("j", "down", "j", "k")
        assert rows.selected == ("porep-1000-40021", 1, 8)
        await pilot.press("G")
        assert rows.selected == ("porep-1000-40018", 1, 0)
        assert rows.top == 40 - 3  # three rows have room
        await pilot.press("g")
        assert rows.selected == ("porep-1000-40021", 1, 9)
        await pilot.press("j", "enter")
        await pilot.pause()
        shown = screen_text(app)
        for words in (
            "partition  8, attempt 1, porep",
            "worker 1 on GPU 0",
            "its lines  inferred: lock exact, kernel inferred, cpu inferred",
            "      barrier            1.54s   1.40s   2.21s ~             ████████ ",
        ):
            assert words in shown
        await pilot.press("escape", "escape")
        assert rows.selected is None


async def test_details_name_what_was_derived_and_why_it_failed() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(100, 40)) as pilot:
        await show(pilot, busy())
        table(app).select(4)
        await pilot.press("enter")
        await pilot.pause()
        assert "derived    barrier_wait_ms, lock_held_ms" in screen_text(app)
        assert "~1.96s" in screen_text(app)
        await pilot.press("escape", "escape")
        await show(pilot, failures())
        await pilot.press("enter")  # nothing is selected: the newest
        await pilot.pause()
        shown = screen_text(app)
        assert "state      F failed, worker 1 on GPU 0" in shown
        assert "cudaMalloc" in shown


async def test_the_verdict_and_the_alerts_open_in_full() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await show(pilot, failures())
        await pilot.press("tab", "enter")
        await pilot.pause()
        shown = screen_text(app)
        assert "because" in shown
        assert "· NVML saw 46.4 %, which agrees with the log's kernels (45.1 %)" in shown
        assert "isn't memory bandwidth" in shown
        await pilot.press("escape", "tab", "enter")
        await pilot.pause()
        shown = screen_text(app)
        assert "✗ 12s ago   porep-1000-40021/7: GPU prove failed" in shown
        assert "✗ 59s ago   porep-1000-40018/2: GPU prove failed" in shown
        assert "! 2m39 ago  SRS evicted" in shown
        await pilot.press("escape", "j")
        assert app.focused is table(app)


async def test_all_that_is_known_of_the_cards_opens_from_their_panel() -> None:
    frame = busy()
    reading = GpuSampled(
        1.0,
        0,
        46.4,
        "gpm",
        1000.0,
        host_to_device_bytes_per_s=9.06e9,
        device_to_host_bytes_per_s=0.2e9,
        pcie_gen=5,
        pcie_width=8,
        pcie_gen_max=5,
        pcie_width_max=16,
        processes=(GpuProcess(12, 2 << 30, "[/b]python"),),
    )
    nvml = frame.gpus[0].nvml
    assert nvml is not None
    gpu = replace(frame.gpus[0], nvml=replace(nvml, reading=reading))
    app = CuzktopApp()
    async with app.run_test(size=(100, 40)) as pilot:
        await show(pilot, replace(frame, gpus=(gpu,)))
        app.query_one(GpusPanel).focus()
        await pilot.press("enter")
        await pilot.pause()
        shown = screen_text(app)
        assert "host to device 9.1 GB/s, device to host 0.2 GB/s" in shown
        assert "generation 5 × 8 of 5 × 16" in shown
        assert "[/b]python 12" in shown
        words = "".join(text for line in content(app.frame, 100) for text, _style in line)
        assert "THE CARDS" in words
        assert "device to host 0.2 GB/s" in words


async def test_a_selected_row_stays_selected_while_others_come() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await show(pilot, busy())
        await pilot.press("j", "j")
        chosen = table(app).selected
        newer = tuple(row(0, job=f"porep-1000-5000{at}") for at in range(5))
        await show(pilot, replace(busy(), recent=(*newer, *busy().recent)))
        assert table(app).selected == chosen
        assert any("porep-1000-40021/8" in line for line in table(app).lines)
        await show(pilot, replace(busy(), recent=newer))  # it is forgotten
        assert table(app).selected is None
        assert table(app).top == 0


async def test_a_click_selects_and_a_second_one_opens() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await show(pilot, busy())
        await pilot.click(PartitionsPanel, offset=(5, 2))
        assert table(app).selected == ("porep-1000-40021", 1, 8)
        await pilot.click(PartitionsPanel, offset=(5, 2), times=2)
        await pilot.pause()
        assert isinstance(app.screen, Window)


@pytest.mark.parametrize(
    ("panel", "view"),
    [
        (LockPanel, "3 Timeline"),
        (SynthesesPanel, "3 Timeline"),
        (ActivityPanel, "3 Timeline"),
        (JobsPanel, "4 Jobs"),
        (StagesPanel, "2 Partitions"),
    ],
)
async def test_a_click_on_a_panel_shows_more_of_it(panel: type[Lines], view: str) -> None:
    app = CuzktopApp()
    async with app.run_test(size=(200, 60)) as pilot:
        await show(pilot, busy())
        await pilot.click(panel, offset=(4, 1))
        await pilot.pause()
        assert view in app.query_one(FooterPanel).lines[0]


async def test_keys_on_an_empty_screen_do_nothing_bad() -> None:
    app = CuzktopApp()
    async with app.run_test() as pilot:
        await pilot.press("j", "k", "G", "enter", "escape")
        assert app.is_running


# ------------------------------------------------------------------------------------- settings


async def test_what_waits_for_the_screen_is_started_once() -> None:
    started: list[bool] = []
    app = CuzktopApp()
    app.on_started = lambda: started.append(app.is_running)
    async with app.run_test() as pilot:
        await pilot.pause()
        assert started == [True]


async def test_ascii_only_draws_with_ascii_alone() -> None:
    app = CuzktopApp(ascii_only=True)
    async with app.run_test(size=(100, 30)) as pilot:
        for make in FRAMES.values():
            await show(pilot, make())
            assert screen_text(app).isascii()
        for key in ("question_mark", "enter", "colon"):
            await pilot.press(key)
            await pilot.pause()
            assert screen_text(app).isascii(), key
            await pilot.press("escape")


async def test_meaning_survives_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    for app in (CuzktopApp(colour=False), CuzktopApp(Settings(colour=False))):
        async with app.run_test(size=(80, 24)) as pilot:
            await show(pilot, busy())
            strips = app.screen._compositor.render_strips()
            colours = {
                colour.name
                for strip in strips
                for segment in strip.apply_filter(
                    app.get_line_filters()[-1], app.screen.styles.background
                )
                if segment.style is not None
                for colour in (segment.style.color, segment.style.bgcolor)
                if colour is not None
            }
            assert not colours  # nor the default's: that is a code, too
    monkeypatch.setenv("NO_COLOR", "1")
    assert CuzktopApp().no_color


async def test_every_theme_can_draw() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await show(pilot, busy())
        await pilot.press("question_mark")
        for theme in ("cuzk-light", "cuzk-16", "ansi-dark"):
            app.theme = theme
            await pilot.pause()


async def test_a_console_with_sixteen_colours_gets_its_own_theme(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COLORTERM")
    monkeypatch.setenv("TERM", "linux")
    assert CuzktopApp().theme == "cuzk-16"
    monkeypatch.setenv("TERM", "xterm-256color")
    assert CuzktopApp().theme == "cuzk"


async def test_the_footer_and_the_verdict_survive_in_a_sliver() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(40, 3)) as pilot:
        await show(pilot, busy())
        assert app.query_one(FooterPanel).lines[0].startswith("1 Overview 1-6 views q quit")
        assert app.query_one(VerdictPanel).lines[0].startswith(" ▲ CPU/MEMORY")


# ------------------------------------------------------------- what panels write themselves

Grid = dict[tuple[int, int], tuple[str, str]]
"""Row and column of each cell: its character and colours."""


def written_to(grid: Grid, text: str) -> None:
    """Do what a terminal does that is sent `text`."""
    x = y = 0
    colours = ""
    first, last = 1, 0  # the rows that are moved
    for row_at, column, begin, end, pushed, sent, char in re.findall(
        r"\x1b\[(?:(\d+);(\d+)H|(\d*);?(\d*)r|(\d+)L|([0-9;]*)m)|([^\x1b])", text
    ):
        if row_at:
            x, y = int(column) - 1, int(row_at) - 1
        elif begin:
            first, last = int(begin) - 1, int(end) - 1
        elif pushed:
            assert (y, colours) == (first, "")
            for (row, at), cell in sorted(grid.items(), reverse=True):
                if first <= row <= last - int(pushed):
                    grid[row + int(pushed), at] = cell
                if first <= row < first + int(pushed):
                    grid[row, at] = " ", ""
        elif char:
            for more in range(cell_len(char)):
                grid[y, x + more] = char, colours
            x += cell_len(char)
        else:
            colours = sent.removeprefix("0").removeprefix(";")


def drawn_by_textual(app: CuzktopApp) -> Grid:
    grid: Grid = {}
    for y, strip in enumerate(app.screen._compositor.render_strips()):
        written_to(grid, f"\x1b[{y + 1};1H{strip.render(app.console)}")
    return grid


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
@pytest.mark.parametrize("colour", [True, False])
async def test_what_panels_write_themselves_is_what_textual_would_draw(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], *, colour: bool
) -> None:
    written: list[str] = []
    monkeypatch.setattr(CuzktopApp, "_lies_open", lambda _app: True)
    app = CuzktopApp(colour=colour)
    async with app.run_test(size=size) as pilot:
        assert app._driver is not None
        monkeypatch.setattr(app._driver, "write", written.append)
        for one, other in (("busy", "ids"), ("busy", "herd"), ("eight", "four")):
            calm: dict[str, Any] = {"alerts": (), "source": FRAMES["busy"]().source}
            frames = [replace(FRAMES[name](), **calm) for name in (one, other)]
            await show(pilot, frames[0])
            await show(pilot, frames[1])  # now there is room for all that either has
            screen = drawn_by_textual(app)
            written.clear()
            await show(pilot, frames[0])
            assert len("".join(written)) > 500
            written_to(screen, "".join(written))
            assert screen == drawn_by_textual(app)


@pytest.mark.parametrize("size", [(100, 50), (200, 60)])
async def test_rows_that_move_down_are_moved_by_the_terminal(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    written: list[str] = []
    monkeypatch.setattr(CuzktopApp, "_lies_open", lambda _app: True)
    app = CuzktopApp()
    async with app.run_test(size=size) as pilot:
        assert app._driver is not None
        monkeypatch.setattr(app._driver, "write", written.append)
        frame = busy()
        await show(pilot, frame)
        *rows, last = frame.recent
        new = [replace(rows[0], partition=number) for number in range(70, 73)]
        for recent, moved in (
            ((new[0], *rows, last), True),
            ((new[2], new[1], new[0], *rows), True),
            ((new[1], new[2], new[0], *rows), False),
            (tuple(reversed(rows)), False),
        ):
            screen = drawn_by_textual(app)
            written.clear()
            await show(pilot, replace(frame, recent=recent))
            assert ("L\x1b[r" in "".join(written)) == moved
            written_to(screen, "".join(written))
            assert screen == drawn_by_textual(app)


async def test_tab_passes_over_a_panel_that_has_no_room() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(100, 50)) as pilot:
        await show(pilot, replace(busy(), alerts=()))
        focused = []
        for _ in range(3):
            await pilot.press("tab")
            await pilot.pause()
            focused.append(type(app.focused))
        assert focused == [VerdictPanel, GpusPanel, PartitionsPanel]


async def test_a_panel_that_lost_the_focus_looks_as_if_it_had_never_had_it() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(100, 50)) as pilot:
        await show(pilot, busy())
        place = table(app).region.y, 0
        before = drawn_by_textual(app)[place]
        await pilot.press("j")
        await pilot.pause()
        assert drawn_by_textual(app)[place] != before
        app.query_one(VerdictPanel).focus()
        await pilot.pause()
        assert drawn_by_textual(app)[place] == before


class FakeDeck:
    """Something that is played, and remembers what was asked of it."""

    def __init__(self, *, plays: bool) -> None:
        self.plays = plays
        self.records = False
        self.asked: list[str] = []

    def _take(self, asked: str) -> str:
        self.asked.append(asked)
        return f"did {asked}"

    def badge(self) -> str:
        return "▶ 2× 09:07:30" if self.plays else "● REC 12K" if self.records else ""

    def pause(self) -> str:
        return self._take("pause")

    def change_speed(self, by: int) -> str:
        return self._take(f"speed {by}")

    def step(self, by: int) -> str:
        return self._take(f"step {by}")

    def go_to(self, text: str) -> str:
        return self._take(f"go to {text}")

    def new_name(self) -> str:
        return "" if self.plays else "offered.rec"

    def record(self, text: str) -> str:
        self.records = True
        return self._take(f"record {text}")

    def end_recording(self) -> str:
        self.records = False
        return self._take("end")


async def test_what_is_played_is_paused_sped_up_and_moved_by_keys() -> None:
    app = CuzktopApp()
    deck = app.deck = FakeDeck(plays=True)
    async with app.run_test(size=(100, 24)) as pilot:
        await show(pilot, busy())
        assert "▶ 2× 09:07:30" in app.query_one(FooterPanel).lines[0]
        await pilot.press("space", "}", "{", ".", ",", "R")
        await pilot.press("@", *"14:30", "enter")
        await pilot.pause()
        assert not app.paused  # its time stands, and the picture can still be moved
        assert "did go to 14:30" in screen_text(app)
    assert deck.asked == [
        *("pause", "speed 1", "speed -1", "step 1", "step -1", "record "),
        "go to 14:30",
    ]


async def test_recording_from_the_screen_asks_for_a_name_and_ends_by_the_same_key() -> None:
    app = CuzktopApp()
    deck = app.deck = FakeDeck(plays=False)
    async with app.run_test(size=(100, 24)) as pilot:
        await show(pilot, busy())
        await pilot.press("R", "escape")
        assert deck.asked == []  # called off
        await pilot.press("R", "end", "2", "enter")
        await pilot.pause()
        assert deck.asked == ["record offered.rec2"]
        await show(pilot, busy())
        assert "● REC 12K" in app.query_one(FooterPanel).lines[0]
        await pilot.press("R", "space")
        assert deck.asked[1:] == ["end"]
        assert app.paused


async def test_keys_of_a_player_say_so_where_nothing_is_played() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(100, 24)) as pilot:
        await show(pilot, busy())
        for key in ("R", "@", ".", "}"):
            await pilot.press(key)
            await pilot.pause()
            assert "nothing is played or recorded here" in screen_text(app)


async def test_what_is_typed_stands_right_over_the_footer_in_a_view_that_was_opened_later() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await show(pilot, busy())
        for key in ("2", "5"):
            await pilot.press(key, "/", "a", "b")
            await pilot.pause()
            lines = screen_text(app).splitlines()
            assert lines[-2].strip() == "search / ab"
            await pilot.press("escape")


@pytest.mark.parametrize("then", ["nothing", "a view"])
def test_leaving_while_the_screen_is_put_together_is_no_fault(then: str) -> None:
    class Leaving(CuzktopApp):
        async def on_mount(self) -> None:
            self.exit()
            if then == "a view":
                self.call_after_refresh(self.go_to, "jobs")

    app = Leaving()
    app.run(headless=True)
    assert app.return_code == 0
