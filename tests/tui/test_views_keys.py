"""Every key in every view, the pointer, and what one view hands to another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from cuzktop.dataclass import replace
from cuzktop.frame import Frame
from cuzktop.logbook import LogBook
from cuzktop.tui.app import CuzktopApp
from cuzktop.tui.keys import KEYS, VIEWS
from cuzktop.tui.prompt import Prompt
from cuzktop.tui.sgr import plain
from cuzktop.tui.views.base import View
from cuzktop.tui.views.diagnosis import DiagnosisView
from cuzktop.tui.views.jobs import JobsView
from cuzktop.tui.views.log import LogView
from cuzktop.tui.views.partitions import PartitionsView
from cuzktop.tui.views.timeline import TimelineView
from cuzktop.tui.widgets.brush import Brush
from cuzktop.tui.widgets.footer import FooterPanel
from cuzktop.tui.widgets.lines import Lines
from cuzktop.tui.widgets.partitions import PartitionsPanel
from cuzktop.tui.widgets.windows import Window
from tests.tui.frames import FRAMES, busy, eight, failures, ids, job, job_id, nothing


async def show(pilot: Pilot[None], frame: Frame) -> CuzktopApp:
    app = pilot.app
    assert isinstance(app, CuzktopApp)
    app.publish(frame)
    await pilot.pause()
    return app


def screen_text(app: CuzktopApp) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def footer(app: CuzktopApp) -> str:
    return app.screen_stack[0].query_one(FooterPanel).lines[0]


async def step_back(pilot: Pilot[None]) -> None:
    """Close whatever a key has opened."""
    app = pilot.app
    assert isinstance(app, CuzktopApp)
    while len(app.screen_stack) > 1:
        app.pop_screen()
        await pilot.pause()
    if app.query_one(Prompt).asks:
        await pilot.press("p", "q", "enter")


async def hit(pilot: Pilot[None], *keys: str) -> None:
    """Press keys one after the other without waiting for each."""
    app = pilot.app
    assert isinstance(app, CuzktopApp)
    for key in keys:
        app.simulate_key(key)
    await pilot.pause()


OPENS = {"help", "command_palette", "details", "search", "filter"}


@pytest.mark.parametrize(
    ("make", "size"), [(failures, (80, 24)), (nothing, (100, 30)), (eight, (30, 7))]
)
async def test_every_key_in_every_view(
    make: Callable[[], Frame], size: tuple[int, int], tmp_path: Path
) -> None:
    app = CuzktopApp(ascii_only=make is eight, preferences_file=tmp_path / "settings.toml")
    async with app.run_test(size=size) as pilot:
        await show(pilot, make())
        for number, (name, title, _says) in enumerate(VIEWS, 1):
            await pilot.press(str(number))
            walk = [key for key in KEYS if key.action != "quit" and "view_" not in key.action]
            for key in walk:
                if key.action in OPENS and (key.views or number == 1):
                    await pilot.press(key.keys.split(",")[0])
                    await step_back(pilot)
                elif key.action not in OPENS:
                    for alias in key.keys.split(","):
                        app.simulate_key(alias)
            await pilot.pause()
            assert app.is_running
            assert app.paused  # three keys pause, so it is on at the end
            app.paused = False
            await step_back(pilot)
            lines = screen_text(app).splitlines()
            assert len(lines) == size[1]
            assert all(cell_len(line) <= size[0] for line in lines)
            assert footer(app).lstrip().startswith(str(number)), name
            assert title in footer(app) or size[0] < 40, name


async def test_each_view_has_its_number_and_hidden_ones_draw_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = CuzktopApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await show(pilot, busy())
        for number, (_name, title, _says) in enumerate(VIEWS, 1):
            await pilot.press(str(number))
            await pilot.pause()
            assert f" {number} {title} " in footer(app)
            shown = [panel for panel in app.screen.children if panel.display and panel.size]
            assert len(shown) == 2  # a view and the footer
        drawn: list[str] = []
        redraw = Lines.redraw

        def spy(self: Lines, brush: Brush | None = None) -> None:
            drawn.append(self.id or "")
            redraw(self, brush)

        monkeypatch.setattr(Lines, "redraw", spy)
        await show(pilot, replace(busy(), now_ms=460_000.0))
        assert drawn == ["diagnosis", "footer"]


async def test_a_key_of_another_view_says_where_it_works() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(120, 30)) as pilot:
        await show(pilot, busy())
        for keys, words in (
            (("1", "less_than_sign"), "< does nothing in this view, only in 2"),
            (("6", "slash"), "/ does nothing in this view, only in 2 4 5"),
            (("2", "L"), "L does nothing in this view, only in 5"),
        ):
            await pilot.press(*keys)
            await pilot.pause()
            assert words in footer(app)


async def test_the_palette_goes_to_a_view() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("colon")
        await pilot.press(*"5 log", "enter")
        await pilot.pause()
        await pilot.pause()
        assert "5 Log" in footer(app)


# ------------------------------------------------------------------------- a choice for all views


async def test_what_is_selected_in_one_view_is_selected_in_the_others() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await show(pilot, busy())
        await pilot.press("j", "j")
        chosen = app.query_one(PartitionsPanel).selected
        assert chosen == (job_id(21), 1, 8)
        await pilot.press("2")
        assert app.query_one(PartitionsView).table.selected == chosen
        await pilot.press("3")
        assert app.query_one(TimelineView).scroll_state.selected == chosen
        await pilot.press("4")
        jobs = app.query_one(JobsView)
        assert jobs.job == chosen[:2]
        await pilot.press("5", "f")
        assert app.query_one(LogView).only == job_id(21)
        await pilot.press("2", "j", "1")
        assert app.query_one(PartitionsPanel).selected == (job_id(21), 1, 7)
        await pilot.press("escape", "2")
        assert app.query_one(PartitionsView).table.selected is None


async def test_the_selected_row_is_copied() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await show(pilot, failures())
        await pilot.press("y")
        await pilot.pause()
        assert "nothing is selected" in footer(app)
        copied = {}
        for number, keys in (
            ("1", ["g"]),
            ("2", ["e"]),
            ("3", ["e"]),
            ("4", ["e"]),
            ("5", ["k"]),
            ("6", []),
        ):
            await pilot.press(number, *keys, "y")
            await pilot.pause()
            assert f"copied {len(app.clipboard)} characters" in footer(app)
            copied[number] = app.clipboard
        assert copied["2"].startswith(f"job={job_id(21)} attempt=1 partition=7 state=failed")
        assert "message=GPU prove failed" in copied["2"]
        assert copied["1"] == copied["2"] == copied["3"]
        assert "state=lost done=3 total=10" in copied["4"]
        assert "panicked at" in copied["5"]
        assert copied["6"].startswith("Kernels run 45 %")
        assert all(text.replace("\n", "").isprintable() for text in copied.values())


# --------------------------------------------------------------------------- search, filter, sort


async def test_a_search_finds_as_it_is_typed_and_keys_are_letters_meanwhile() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await show(pilot, busy())
        await pilot.press("2", "slash", *"40018")
        view = app.query_one(PartitionsView)
        assert view.search_text == "40018"
        assert view.table.selected == (job_id(18), 1, 9)
        await pilot.press("enter")
        await pilot.pause()
        assert "/40018: 10 found" in screen_text(app)
        await pilot.press("n", "n")
        assert view.table.selected == (job_id(18), 1, 7)
        await pilot.press("N")
        assert view.table.selected == (job_id(18), 1, 8)
        await pilot.press("slash", "q", "q", "escape")  # q doesn't quit, Esc takes it back
        assert view.search_text == "40018"
        assert app.is_running
        assert not app.query_one(Prompt).asks
        assert app.focused is view
        for _ in range(2):
            await pilot.press("escape")
        assert view.search_text == ""
        await pilot.press("n")
        await pilot.pause()
        assert "nothing to search for" in footer(app)


async def test_a_filter_is_typed_and_taken_away() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(160, 30)) as pilot:
        await show(pilot, failures())
        await pilot.press("2", "backslash", *"state:failed", "enter")
        await pilot.pause()
        view = app.query_one(PartitionsView)
        assert [row.state for row in view.rows()] == ["failed"]
        shown = screen_text(app)
        assert "1 of " in shown
        assert "with state:failed" in shown
        assert "p50 of what fits" in shown
        await pilot.press("backslash")
        assert app.query_one(Input).value == "state:failed"
        await pilot.press(*" wokrer:1")
        await pilot.pause()
        assert "no wokrer: in the filter" in footer(app)
        await pilot.press("escape")
        assert view.filter_text == "state:failed"
        await pilot.press("escape")
        assert view.filter_text == ""


async def test_columns_are_chosen_turned_round_and_clicked() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await show(pilot, busy())
        await pilot.press("2", "greater_than_sign")
        view = app.query_one(PartitionsView)
        assert view.table.order == "job"
        await pilot.press("less_than_sign", "less_than_sign")
        assert view.table.order == "attribution"
        await pilot.press("r")
        assert view.table.backwards
        head = view.lines[1]
        await pilot.click(PartitionsView, offset=(head.index("brckt") + 1, 1))
        assert (view.table.order, view.table.backwards) == ("bracket_ms", False)
        await pilot.click(PartitionsView, offset=(head.index("brckt") + 1, 1))
        assert view.table.backwards
        await pilot.press("b")
        await pilot.pause()
        assert "whole life" in view.lines[1]


async def test_slow_and_failed_partitions_are_jumped_to() -> None:
    app = CuzktopApp()
    slow = replace(busy().recent[5], bracket_ms=9000)
    rows = (*failures().recent[:5], slow, *failures().recent[7:])
    frame = replace(failures(), recent=rows)
    async with app.run_test(size=(120, 40)) as pilot:
        await show(pilot, frame)
        for number in ("1", "2", "3"):
            await pilot.press(number, "escape", "e")
            assert app.selected == (job_id(21), 1, 7), number
            await pilot.press("s")
            assert app.selected == (slow.job, 1, slow.partition), number
            await pilot.press("S")
            assert app.selected == (slow.job, 1, slow.partition), number
            await pilot.press("E")
            assert app.selected == (job_id(21), 1, 7), number
            await pilot.press("escape", "escape")
        await show(pilot, busy())
        for number in ("1", "2", "3", "4"):
            await pilot.press(number, "e")
            await pilot.pause()
            assert "has failed" in footer(app)


# ------------------------------------------------------------------------------- partitions, jobs


async def test_enter_opens_a_partition_with_the_daemons_lines() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await show(pilot, failures())
        await pilot.press("2", "e", "enter")
        await pilot.pause()
        assert isinstance(app.screen, Window)
        shown = screen_text(app)
        assert "F failed, worker 1 on GPU 0" in shown
        assert "cudaMalloc" in shown
        assert "the daemon's own lines that name it" in shown
        await pilot.press("q")
        assert len(app.screen_stack) == 1


async def test_jobs_have_cells_to_go_over() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await show(pilot, busy())
        await pilot.press("4", "j", "j", "right", "l", "h")
        view = app.query_one(JobsView)
        assert (view.job, view.cell) == ((job_id(22), 1), 0)
        await pilot.press("enter")
        await pilot.pause()
        assert "partition  0, attempt 1" in screen_text(app)
        await pilot.press("escape", "escape", "enter")
        await pilot.pause()
        assert "of 10 partitions done" in screen_text(app)
        await pilot.press("escape", "slash", *"40019", "enter")
        assert view.job == (job_id(19), 1)
        await pilot.press("G")
        assert view.job == (job_id(19), 1)
        await pilot.press("g")
        assert view.job == (job_id(21), 1)
        cells = view.lines[3].index("Gqqss")
        await pilot.click(JobsView, offset=(cells + 2, 3))
        assert (view.job, view.cell) == ((job_id(22), 1), 2)


async def test_every_job_that_is_kept_can_be_reached() -> None:
    older = tuple(
        job(at, "ddddFddddd" if at == 3 else "dddddddddd", message="out of memory" * (at == 3))
        for at in range(-50, 12)
    )
    app = CuzktopApp()
    async with app.run_test(size=(100, 24)) as pilot:
        await show(pilot, replace(busy(), older_jobs=older))
        await pilot.press("4")
        view = app.query_one(JobsView)
        assert "1 to 19 of 67" in view.lines[0]
        await pilot.press("G")
        assert view.job == (job_id(-50), 1)
        assert any(line.startswith(job_id(-50)) for line in view.lines)
        assert "of 67" in view.lines[0]
        await pilot.press("g", "e")
        assert view.job == (job_id(3), 1)
        at = next(at for at, line in enumerate(view.lines) if line.startswith(job_id(3)))
        assert "✗ out of memory" in view.lines[at + 1]


async def test_a_click_selects_a_row_and_a_second_one_opens_it() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await show(pilot, busy())
        await pilot.press("2")
        await pilot.click(PartitionsView, offset=(3, 6))
        view = app.query_one(PartitionsView)
        first = view.table.selected
        assert first is not None
        line = view.lines[6]
        assert line.startswith(f"{first[0]}/{first[2]}")
        await pilot.click(PartitionsView, offset=(3, 6), times=2)
        await pilot.pause()
        assert isinstance(app.screen, Window)


@pytest.mark.parametrize("kind", [PartitionsView, JobsView, LogView, TimelineView, DiagnosisView])
async def test_the_wheel_scrolls(kind: type[View]) -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 20)) as pilot:
        await show(pilot, failures())
        await pilot.press(str(kind.number))
        view = app.query_one(kind)
        before = view.lines
        await pilot._post_mouse_events([_wheel(up=True)], kind, offset=(5, 5))
        await pilot._post_mouse_events([_wheel(up=False)] * 3, kind, offset=(5, 5))
        await pilot._post_mouse_events([_wheel(up=True)] * 5, kind, offset=(5, 5))
        await pilot.pause()
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert app.is_running
        assert len(view.lines) == len(before)


def _wheel(*, up: bool) -> type:
    from textual import events  # noqa: PLC0415

    return events.MouseScrollUp if up else events.MouseScrollDown


# ------------------------------------------------------------------------------------------- log


def with_book(lines: int) -> tuple[Frame, LogBook]:
    kept = LogBook()
    kept.extend([f"2026 INFO line {at}".encode() for at in range(lines)])
    return replace(busy(), book=kept), kept


async def test_the_log_follows_until_a_line_is_selected() -> None:
    frame, kept = with_book(100)
    app = CuzktopApp()
    async with app.run_test(size=(80, 12)) as pilot:
        await show(pilot, frame)
        await pilot.press("5")
        view = app.query_one(LogView)
        assert view.lines[-1].startswith("2026 INFO line 99")
        assert view.lines[0].rstrip().endswith("follows")
        kept.extend([b"2026 INFO newer"])
        await show(pilot, replace(frame, now_ms=460_000.0))
        assert view.lines[-1].startswith("2026 INFO newer")
        await pilot.press("k", "k")
        kept.extend([b"2026 INFO newest"])
        await show(pilot, replace(frame, now_ms=461_000.0))
        assert view.lines[-1].startswith("2026 INFO newer")
        assert "line 100; G follows" in view.lines[0]
        await pilot.press("G")
        assert view.lines[-1].startswith("2026 INFO newest")


async def test_a_pause_holds_the_log_too() -> None:
    frame, kept = with_book(100)
    app = CuzktopApp()
    async with app.run_test(size=(80, 12)) as pilot:
        await show(pilot, frame)
        await pilot.press("5", "space")
        kept.extend([b"2026 ERROR while paused"])
        await show(pilot, replace(frame, now_ms=460_000.0))
        view = app.query_one(LogView)
        await pilot.press("t", "t", "k", "G")
        assert view.lines[-1].startswith("2026 INFO line 99")
        await pilot.press("space")
        await pilot.pause()
        assert view.lines[-1].startswith("2026 ERROR while paused")


async def test_the_log_of_a_pause_is_that_of_the_picture_wherever_one_comes_from() -> None:
    """The view is opened in the pause, and the book has read on before that."""
    frame, kept = with_book(100)
    frame = replace(frame, book_end=kept.span[1])
    app = CuzktopApp()
    async with app.run_test(size=(80, 12)) as pilot:
        await show(pilot, frame)
        await pilot.press("space")
        kept.extend([b"2026 ERROR while paused"])
        await pilot.press("5")
        view = app.query_one(LogView)
        assert view.lines[-1].startswith("2026 INFO line 99")
        kept.extend([b"2026 INFO flood"] * 12_000)
        await pilot.press("t")
        assert "kept no more: too many have come since" in view.lines[1]


async def test_the_log_goes_to_what_is_selected_elsewhere_and_follows_again() -> None:
    kept = LogBook()
    kept.extend([f"TIMELINE,{1000 * at},SYNTH_START,j,partition=1".encode() for at in range(460)])
    app = CuzktopApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await show(pilot, replace(failures(), book=kept))
        await pilot.press("2", "e", "5")
        view = app.query_one(LogView)
        assert view.at == 447  # the failed call's end: 447 000 ms
        # What came before stands over it, what came after under it.
        at = next(y for y, line in enumerate(view.lines) if line.startswith("TIMELINE,447000,"))
        assert 5 < at < len(view.lines) - 10
        await pilot.press("3", "G", "left", "left", "left", "left", "5")
        timeline = app.query_one(TimelineView)
        assert timeline.scroll_state.at_ms is not None
        assert view.at == int(timeline.scroll_state.at_ms // 1000)
        await pilot.press("k", "2", "5")
        assert view.at == int(timeline.scroll_state.at_ms // 1000) - 1  # it stays where one went
        await pilot.press("3", "escape", "escape", "2", "escape", "5", "G")
        await pilot.press("2", "g", "5")
        assert view.at is not None
        await pilot.press("2", "escape", "5")
        assert view.at is None
        assert view.lines[0].rstrip().endswith("follows")


async def test_the_time_line_goes_to_what_is_selected_elsewhere() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await show(pilot, busy())
        await pilot.press("3")
        view = app.query_one(TimelineView)
        assert view.lines[0].rstrip().endswith("live")
        await pilot.press("1", "g", "j", "3")  # what is seen has it: nothing moves
        assert view.lines[0].rstrip().endswith("live")
        await pilot.press("2", "G", "3")
        oldest = busy().recent[-1]
        assert view.scroll_state.at_ms == oldest.lock_at_ms
        assert "held, 2m" in view.lines[0]
        assert f"{oldest.job}/{oldest.partition}" in "\n".join(view.lines)


async def test_levels_noise_and_the_job_filter_the_log() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await show(pilot, failures())
        await pilot.press("5", "t")
        view = app.query_one(LogView)
        assert "no timing lines" in view.lines[0]
        assert not any(line.startswith(("TIMELINE", "CUZK")) for line in view.lines)
        await pilot.press("t", "L", "L")
        assert "warn and worse" in view.lines[0]
        await pilot.press("L")
        assert all("ERROR" in line or "panicked" in line for line in view.lines[1:] if line.strip())
        await pilot.press("L", "f")
        await pilot.pause()
        assert "no job is selected" in footer(app)
        await pilot.press("E", "E", "f")  # the error's line names a job
        assert view.only == job_id(18)
        assert all(job_id(18) in line for line in view.lines[1:] if line.strip())
        await pilot.press("f")
        assert view.only == ""


async def test_the_log_is_searched_backwards_from_its_end() -> None:
    frame, _kept = with_book(100)
    app = CuzktopApp()
    async with app.run_test(size=(80, 12)) as pilot:
        await show(pilot, frame)
        await pilot.press("5", "slash", *"line 7", "enter")
        view = app.query_one(LogView)
        assert view.at == 79
        await pilot.press("N")
        assert view.at == 78
        await pilot.press("n", "n")
        assert view.at == 7  # round the end
        await pilot.press("l", "enter")
        await pilot.pause()
        assert "2026 INFO line 7" in screen_text(app)
        await pilot.press("escape", "y")
        assert app.clipboard == "2026 INFO line 7"


async def test_a_key_held_down_in_a_search_has_the_lines_gone_through_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[bytes] = []

    def look(raw: bytes) -> str:
        looked_at.append(raw)
        return plain(raw)

    monkeypatch.setattr("cuzktop.tui.views.log.plain", look)
    frame, _kept = with_book(1000)
    app = CuzktopApp()
    async with app.run_test(size=(80, 12)) as pilot:
        await show(pilot, frame)
        await pilot.press("5", "slash")
        for key in [*"line 7", *"7" * 200, *["backspace"] * 199]:
            name = {" ": "space"}.get(key, key)
            app.post_message(events.Key(name, key if len(key) == 1 else None))
        for _ in range(5):
            await pilot.pause()
        view = app.query_one(LogView)
        assert view.search_text == "line 77"
        assert view.at == 779
        assert len(looked_at) < 10_000  # of a thousand lines


# --------------------------------------------------------------------------------------- timeline


async def test_the_timeline_is_live_until_it_is_moved() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await show(pilot, busy())
        await pilot.press("3")
        view = app.query_one(TimelineView)
        assert view.lines[0].rstrip().endswith("live")
        await pilot.press("left", "h", "h")
        assert "G follows" in view.lines[0]
        ticks = view.lines[1]
        later = replace(busy(), now_ms=busy().now_ms + 9000, at="2026-02-19T08:20:20.120Z")
        await show(pilot, later)
        assert view.lines[1].replace("▾", " ") == ticks.replace("▾", " ")
        assert "8s ago; G follows" in view.lines[0]
        await pilot.press("G")
        assert view.lines[0].rstrip().endswith("live")


async def test_the_cursor_selects_what_it_meets() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await show(pilot, busy())
        await pilot.press("3")
        await hit(pilot, *["left"] * 31)
        view = app.query_one(TimelineView)
        assert "GPU 0" in view.lines[-2] + view.lines[-1]
        assert app.selected is not None
        chosen = app.selected
        await pilot.press("enter")
        await pilot.pause()
        assert f"partition  {chosen[2]}, attempt 1" in screen_text(app)
        await pilot.press("escape")
        lane = next(at for at, line in enumerate(view.lines) if "40022/3" in line)
        await pilot.click(TimelineView, offset=(view.lines[lane].index("40022/3"), lane))
        assert app.selected == (job_id(22), 1, 3)


async def test_zooming_keeps_what_is_under_the_cursor() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await show(pilot, failures())
        await pilot.press("3", "e")
        view = app.query_one(TimelineView)
        at = view.scroll_state.at_ms
        assert at == 446_400.0
        for key in ("right_square_bracket", "right_square_bracket", "left_square_bracket"):
            await pilot.press(key)
            axis = view._axis()
            assert view.scroll_state.at_ms == at
            assert 0 <= axis.column(at) < axis.columns
        await hit(pilot, *["left_square_bracket"] * 12)
        assert "no further" in footer(app)
        await hit(pilot, *["right_square_bracket"] * 14)
        assert "20 ms a column" in view.lines[0]
        await hit(pilot, "pageup", "pageup", "pagedown", "g", "G")
        assert view.lines[0].rstrip().endswith("live")


# -------------------------------------------------------------------------------------- diagnosis


async def test_the_diagnosis_scrolls_and_opens_the_alerts() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await show(pilot, failures())
        await pilot.press("6")
        view = app.query_one(DiagnosisView)
        assert "CPU/MEMORY" in view.lines[0]
        assert "more lines" in view.lines[-1]
        await pilot.press("G")
        assert "max_parallel_synthesis" in "\n".join(view.lines)
        await pilot.press("pageup", "g", "enter")
        await pilot.pause()
        assert "✗ 12s ago" in screen_text(app)


# --------------------------------------------------------------------------------------- drawing


async def test_a_list_of_jobs_that_gets_room_again_fills_it() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(120, 40)) as pilot:
        await show(pilot, FRAMES["eight"]())
        await pilot.press("4", "G")
        await pilot.pause()
        whole = screen_text(app)
        for size in ((40, 10), (1, 1), (120, 40)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        assert screen_text(app) == whole


@pytest.mark.parametrize("number", ["2", "3", "4", "5", "6"])
async def test_any_size_can_be_drawn(number: str) -> None:
    app = CuzktopApp()
    async with app.run_test(size=(80, 24)) as pilot:
        for frame in (eight(), ids()):
            await show(pilot, frame)
            await pilot.press(number, "j")
            for size in ((1, 1), (7, 3), (40, 10), (220, 60)):
                await pilot.resize_terminal(*size)
                app.simulate_key("j")
                await pilot.pause()
                lines = screen_text(app).splitlines()
                assert len(lines) == size[1]
                assert all(cell_len(line) <= size[0] for line in lines)


async def test_every_view_can_be_drawn_with_ascii_alone() -> None:
    app = CuzktopApp(ascii_only=True)
    async with app.run_test(size=(120, 40)) as pilot:
        for make in (failures, ids, FRAMES["no_timing"]):
            await show(pilot, make())
            for number in "23456":
                await pilot.press(number)
                await hit(pilot, "j", "k")
                assert screen_text(app).isascii(), (make.__name__, number)
        for keys in (("2", "enter"), ("4", "enter"), ("5", "k", "enter"), ("2", "slash", "a")):
            await pilot.press(*keys)
            await pilot.pause()
            assert screen_text(app).isascii(), keys
            await pilot.press("escape")


async def test_every_theme_has_the_logs_colours() -> None:
    app = CuzktopApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await show(pilot, failures())
        await pilot.press("5")
        for name in ("cuzk-light", "cuzk-16", "cuzk"):
            await pilot.press("T")
            await pilot.pause()
            assert app.theme == name
            assert "theme" in footer(app)
        view = app.query_one(LogView)
        colours = {
            segment.style.color.name
            for y in range(30)
            for segment in view.render_line(y)
            if segment.style is not None and segment.style.color is not None
        }
        assert len(colours) >= 5
