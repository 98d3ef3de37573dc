"""What views 2 to 6 draw, at every size, and what they say."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzktop.dataclass import replace
from cuzktop.frame import TIME_CLASSES, Alert, Frame, Herd, Shares, StageStats
from cuzktop.tui.axis import stalls
from cuzktop.tui.details import details
from cuzktop.tui.rows import is_slow, key_of, slow_stages
from cuzktop.tui.sgr import LOG_STYLES
from cuzktop.tui.views.diagnosis import content, draw_diagnosis, missing
from cuzktop.tui.views.jobs import draw_jobs_view, ends_of, job_details, key, left_ms
from cuzktop.tui.views.log import draw_log, read_lines
from cuzktop.tui.views.partitions import Table, arrange, draw_table, parts_bar, parts_of
from cuzktop.tui.views.scene import Memory, Scroll, draw_timeline
from cuzktop.tui.widgets.alerts import merged
from cuzktop.tui.widgets.cells import STYLES, Line, line_width
from cuzktop.tui.widgets.gpus import draw_gpus
from cuzktop.tui.widgets.windows import alert_lines
from tests.tui.frames import (
    FRAMES,
    busy,
    failures,
    four,
    gpu,
    herd,
    job,
    job_id,
    no_nvml,
    no_timing,
    row,
    shape_of_box,
    shares,
)

Draw = Callable[[Frame, int, int], Sequence[Line]]


def log_of(frame: Frame, width: int, height: int) -> list[Line]:
    book = frame.book
    lines = [] if book is None else read_lines(book, range(*book.span))[-max(1, height - 1) :]
    middle = lines[len(lines) // 2][0] if lines else None
    return draw_log(lines, width, height, detail="9", selected=middle, search="job", left=3)


def held_timeline(frame: Frame, width: int, height: int) -> list[Line]:
    selected = key_of(frame.recent[0]) if frame.recent else None
    at = frame.now_ms - 9000.0
    scroll = Scroll(zoom=3, last=int(at / 200.0) + 7, at_ms=at, track=2, selected=selected)
    return draw_timeline(frame, width, height, scroll=scroll, memory=Memory())


def sorted_table(frame: Frame, width: int, height: int) -> list[Line]:
    rows = frame.recent
    table = Table(order="queue_ms", backwards=True, search="porep", whole=True, top=3)
    table.selected = key_of(rows[4]) if len(rows) > 4 else None
    return draw_table(frame, width, height, table=table)


VIEWS: dict[str, Draw] = {
    "partitions": draw_table,
    "partitions, sorted": sorted_table,
    "timeline": draw_timeline,
    "timeline, held": held_timeline,
    "jobs": draw_jobs_view,
    "jobs, selected": lambda frame, width, height: draw_jobs_view(
        frame,
        width,
        height,
        top=1,
        selected=key(frame.jobs[-1]) if frame.jobs else None,
        cell=2,
        search="porep",
    ),
    "log": log_of,
    "diagnosis": draw_diagnosis,
    "diagnosis, further down": lambda frame, width, height: draw_diagnosis(
        frame, width, height, top=9
    ),
}
PICTURES = {name: make() for name, make in FRAMES.items()}
PICTURES |= {f"{count} GPUs": shape_of_box(count) for count in range(17)}
# Each width at which something changes, and its neighbours.
BREAKS = (24, 40, 50, 72, 76, 78, 80, 100, 110, 116, 120, 150)
WIDTHS = sorted({1, 2, 3, 5, 8, 13, 200, 220, *(w + by for w in BREAKS for by in (-1, 0, 1))})
HEIGHTS = (1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 14, 18, 23, 24, 60)


def text(lines: Sequence[Line]) -> str:
    return "\n".join("".join(part for part, _ in line) for line in lines)


def check(view: str, frame: Frame, width: int, height: int) -> None:
    lines = VIEWS[view](frame, width, height)
    assert len(lines) <= height, (view, width, height)
    for line in lines:
        assert line_width(line) == width, (view, width, height, line)
        for part, style in line:
            assert style.split("+")[0] in (*STYLES, *LOG_STYLES), (view, line)
            assert part.isprintable(), (view, part)


@pytest.mark.parametrize("view", VIEWS)
def test_every_line_is_as_wide_as_its_view(view: str) -> None:
    sizes = [(width, height) for width in WIDTHS for height in HEIGHTS]
    assert len(sizes) >= 300
    pictures = list(PICTURES.values())
    for at, (width, height) in enumerate(sizes):
        check(view, pictures[(at * 7) % len(pictures)], width, height)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(VIEWS)),
    st.sampled_from(sorted(PICTURES)),
    st.integers(1, 220),
    st.integers(1, 60),
)
def test_every_line_is_as_wide_as_its_view_at_any_size(
    view: str, picture: str, width: int, height: int
) -> None:
    check(view, PICTURES[picture], width, height)


@pytest.mark.parametrize("width", [1, 4, 5, 30, 79, 80, 128, 200])
def test_a_window_about_a_partition_or_a_job_fits(width: int) -> None:
    for frame in PICTURES.values():
        for shown in (*frame.recent[:4], *frame.in_flight[:2]):
            assert {line_width(line) for line in details(shown, frame, width)} == {width}
        for one in frame.jobs[:2]:
            assert {line_width(line) for line in job_details(one, frame, width)} == {width}


def test_an_empty_view_says_why() -> None:
    for name in ("nothing", "reading"):
        for view in ("partitions", "timeline", "jobs"):
            shown = text(VIEWS[view](FRAMES[name](), 80, 10))
            words = "waiting for the log's first line" if name == "nothing" else "reading the log"
            assert words in shown, (view, shown)
    shown = text(draw_table(busy(), 80, 10, rows=[]))
    assert "none of" in shown
    assert "fits the filter" in shown
    assert "standard error is missing" in text(draw_diagnosis(no_timing(), 80, 60))
    assert "no CUZK_TIMING lines" in text(draw_timeline(no_timing(), 80, 20))


# ------------------------------------------------------------------------------------- partitions


def test_a_table_has_stages_a_bar_and_percentiles() -> None:
    lines = text(draw_table(busy(), 100, 30)).splitlines()
    assert "40 ended, 15 on their way" in lines[0]
    assert lines[0].endswith("newest first")
    for name in ("synth", "lockw", "barr", "brckt"):
        assert name in lines[1]
    running = next(line for line in lines if "porep-1000-40021/0" in line)
    assert "2s+" in running  # its bracket so far
    assert running.rstrip().endswith("G")
    done = next(line for line in lines if "porep-1000-40020/9" in line)
    assert "○○" in done
    assert "█▓" in done.replace("██", "█").replace("▓▓", "▓")
    for name in ("p50", "p95", "max"):
        assert any(line.startswith(name) and "s" in line for line in lines)
    assert "over 1.5 × p50" in lines[-1]


def test_a_bar_adds_up_to_the_bracket() -> None:
    for made in busy().recent:
        parts = parts_of(made, whole=False)
        assert sum(parts.values()) == pytest.approx(made.bracket_ms or 0, abs=1.0)
        with_wait = parts_of(made, whole=True)
        waited = (made.synth_ms or 0) + (made.queue_ms or 0)
        assert sum(with_wait.values()) - sum(parts.values()) == waited


def test_what_nobody_knows_is_not_drawn_as_something() -> None:
    parts = parts_of(busy().recent[3], whole=False)
    assert {name for name, ms in parts.items() if ms} == {"unknown"}
    assert parts_bar(parts, 10, 6081.0) == (("??????????", "muted"),)
    assert parts_bar({}, 4, 100.0) == (("    ", "text"),)


def test_a_bar_beyond_the_scale_ends_in_an_arrow() -> None:
    assert parts_bar({"ntt": 300.0}, 6, 100.0)[-1] == ("█████▸", "kernel")


def test_slow_stages_are_marked() -> None:
    usual = {"bracket_ms": StageStats(count=9, p50=3000, p95=4000, max=9000)}
    usual["queue_ms"] = StageStats(count=9, p50=100, p95=4000, max=9000)
    usual["pre_lock_cpu_ms"] = StageStats(count=9, p50=3, p95=9, max=9)
    slow = row(0, bracket_ms=4501, queue_ms=90, pre_lock_cpu_ms=9)
    waited = row(0, bracket_ms=4500, queue_ms=2000, pre_lock_cpu_ms=9)
    assert slow_stages(slow, usual) == {"bracket_ms"}
    assert is_slow(slow, usual)
    assert slow_stages(waited, usual) == set()  # it only waited
    assert not is_slow(waited, usual)
    frame = replace(busy(), recent=(slow,), in_flight=(), stages=usual)
    line = draw_table(frame, 80, 8)[2]
    assert ("4.50s!", "late") in [(part.strip(), style) for part, style in line]


@pytest.mark.parametrize("order", ["synth_ms", "lock_wait_ms", "kernel_ms", "bracket_ms"])
def test_a_table_is_sorted_by_any_stage(order: str) -> None:
    frame = busy()
    down = [getattr(r, order) for r in arrange(frame, Table(order=order))]
    known = [value for value in down if value is not None]
    assert known == sorted(known, reverse=True)
    assert down[len(known) :] == [None] * (len(down) - len(known))  # not known comes last
    up = [getattr(r, order) for r in arrange(frame, Table(order=order, backwards=True))]
    assert [value for value in up if value is not None] == sorted(known)
    head = text(draw_table(frame, 80, 20, table=Table(order=order))).splitlines()[1]
    assert "▼" in head


def test_rows_move_down_as_partitions_go_on() -> None:
    rows = arrange(busy(), Table())
    states = [made.state for made in rows]
    assert states == sorted(
        states, key=lambda s: ["synthesizing", "queued", "gpu"].index(s) if s != "done" else 3
    )
    # What is on a GPU stands at the top; those before it are reached by going up.
    first = text(draw_table(busy(), 80, 10)).splitlines()[2]
    assert first.rstrip().endswith("G")


def test_a_partition_in_full_has_its_time_line_its_certainty_and_its_lines() -> None:
    frame = failures()
    shown = text(details(frame.recent[0], frame, 120))
    assert "F failed, worker 1 on GPU 0" in shown
    assert "failure    GPU prove failed: cudaMalloc(&cache.ptr, sz_bytes) failed" in shown
    assert "~ inferred: calls ran beside each other" in shown
    assert "life       ╌╌╌╌" in shown
    assert "the daemon's own lines that name it: " in shown
    assert "partition=7" in shown
    assert "partition=6" not in shown
    exact = text(details(frame.recent[2], frame, 120))
    assert "= exact: no other assignment of these lines fits the log" in exact
    barrier = next(line for line in exact.splitlines() if line.startswith("      barrier"))
    ntt = next(line for line in exact.splitlines() if line.startswith("      NTT"))
    # Drawn to scale: the barrier begins where the kernels before it end, and is twice as long.
    assert barrier.index("█") == len(ntt.rstrip())
    assert 1.5 < barrier.count("█") / ntt.count("█") < 2.5


@pytest.mark.parametrize("width", [74, 92, 130])
def test_a_partition_is_drawn_to_scale_in_any_usual_window(width: int) -> None:
    """Drawn lengths against the figures, and nothing is cut."""
    frame = busy()
    shown = [line.rstrip() for line in text(details(frame.recent[0], frame, width)).splitlines()]
    figures = shown[: next(at for at, line in enumerate(shown) if line.startswith("gpu_ms"))]
    assert not any(line.endswith("…") for line in figures)
    bars = {line[:22].strip(): line.count("█") for line in figures if "█" in line[40:]}
    whole = bars.pop("bracket")
    assert whole >= 14
    row = frame.recent[0]
    for name, ms in (
        ("lock wait", row.lock_wait_ms),
        ("lock held", row.lock_held_ms),
        ("barrier", row.barrier_wait_ms),
        ("prep_msm", row.prep_msm_ms),
    ):
        assert bars[name] == pytest.approx(whole * (ms or 0) / (row.bracket_ms or 1), abs=1.01)


# --------------------------------------------------------------------------------------- timeline


def track(lines: Sequence[str], name: str) -> str:
    return next(line for line in lines if line.strip().startswith(name))[11:]


def test_the_timeline_has_locks_brackets_measurements_and_syntheses() -> None:
    lines = text(draw_timeline(busy(), 100, 30)).splitlines()
    assert lines[0].endswith("live")
    assert "500 ms a column" in lines[0]
    assert "╵08:20:00" in lines[1]
    assert "█▓▓▓█" in track(lines, "GPU 0 lock")
    assert "├○○" in track(lines, "w0")
    assert "·····" in track(lines, "NVML")  # a gap in the readings
    assert "▂" in track(lines, "power")
    assert "█" in track(lines, "syntheses")
    lanes = [line for line in lines if "/" in line and "╌╌" in line]
    assert len(lanes) >= 10
    assert "█ kernel" in lines[-2]
    assert "▪ shorter than half a column" in lines[-1]


def test_the_cursor_says_what_held() -> None:
    frame = busy()
    holder = frame.recent[2]
    assert holder.lock_at_ms is not None
    at = holder.lock_at_ms + (holder.ntt_msm_h_ms or 0) + 100.0
    scroll = Scroll(zoom=3, last=int(at / 200) + 20, at_ms=at)
    shown = text(draw_timeline(frame, 100, 30, scroll=scroll))
    assert "GPU 0 ▓ porep-1000-40021/7 barrier" in shown
    assert "08:19:" in shown
    assert "ago; G follows" in shown


def test_locks_of_several_gpus_that_nobody_tells_apart_are_nobodys_on_the_timeline() -> None:
    frame = busy()
    (card,) = frame.gpus
    mixed = Shares(span_ms=60_000.0, mixed=True)
    unplaced = replace(
        frame,
        gpus=(replace(card, window=mixed),),
        recent=tuple(replace(one, gpu=None) for one in frame.recent),
        in_flight=tuple(replace(one, gpu=None) for one in frame.in_flight),
    )
    for width in (100, 40):
        told, untold = (
            text(draw_timeline(one, width, 30)).splitlines() for one in (frame, unplaced)
        )
        names = ("GPU 0 lock", "GPUs lock") if width == 100 else ("G0", "Gs")
        assert track(untold, names[1]).strip()
        for name, without_gpu in (names, ("w0", "w0"), ("w1", "w1")):
            assert track(told, name) in track(untold, without_gpu)
    holder = unplaced.recent[2]
    scroll = Scroll(zoom=3, at_ms=(holder.lock_at_ms or 0) + 100.0)
    shown = text(draw_timeline(unplaced, 100, 30, scroll=scroll))
    assert "GPUs █ porep-1000-40021/7" in shown
    assert "GPU 0" not in shown
    assert "on a GPU that this log doesn't name" in text(details(holder, unplaced, 120))
    for shown in (text(draw_gpus(unplaced, 100, 9)), text(content(unplaced, 100))):
        assert "several GPUs that this log doesn't tell apart" in shown
        assert "no bracket in this window" not in shown
    assert stalls(unplaced.recent) == []


def test_a_stall_is_a_lock_that_nobody_had_for_long() -> None:
    """Two GPUs; a call that is still running, and one whose lock lines are missing."""
    free = row(0, partition=0, lock_at_ms=1000.0, lock_held_ms=500)
    late = row(0, partition=1, lock_at_ms=4000.0, lock_held_ms=900)
    soon = row(0, partition=2, lock_at_ms=6800.0, lock_held_ms=None, state="gpu")
    long = row(0, partition=3, lock_at_ms=900.0, lock_held_ms=9000, gpu=1)
    after = row(0, partition=4, lock_at_ms=12_000.0, lock_held_ms=9, gpu=1)
    unknown = row(0, partition=5, lock_at_ms=None, lock_held_ms=None)
    inside = row(0, partition=6, lock_at_ms=1100.0, lock_held_ms=100)
    rows = (soon, late, unknown, long, inside, after, free)
    assert stalls(rows) == [(1500.0, 4000.0, 0), (9900.0, 12_000.0, 1)]
    assert stalls(()) == []


def test_a_free_lock_is_free_under_the_cursor() -> None:
    frame = replace(busy(), recent=busy().recent[:1], in_flight=())
    at = (frame.recent[0].bracket_end_ms or 0) + 1000.0
    shown = text(draw_timeline(frame, 100, 30, scroll=Scroll(at_ms=at)))
    assert "GPU 0 free" in shown


def unowned(frame: Frame) -> Frame:
    """The same, but the newest partition's lines have no owner yet."""
    newest = replace(frame.recent[0], lock_at_ms=None, attribution="none")
    return replace(frame, recent=(newest, *frame.recent[1:]))


def test_a_call_whose_lines_have_no_owner_yet_is_not_a_free_lock() -> None:
    frame = unowned(replace(busy(), in_flight=()))
    newest = frame.recent[0]
    at = float(newest.bracket_start_ms or 0) + 2000.0
    shown = text(draw_timeline(frame, 100, 30, scroll=Scroll(at_ms=at)))
    assert "GPU 0 ? not known yet: porep-1000-40021/9's lines have no owner so far" in shown
    assert "free" not in shown
    lines = text(draw_timeline(frame, 100, 30)).splitlines()
    bracket = track(lines, "w1" if newest.worker else "w0").rstrip()
    lock = track(lines, "GPU 0 lock")
    assert "????????" in lock
    assert lock.rindex("?") <= len(bracket)
    assert "? not known yet" in "".join(lines[-2:])
    old = replace(frame, now_ms=frame.now_ms + 130_000.0)
    shown = text(draw_timeline(old, 100, 30, scroll=Scroll(last=920, at_ms=at)))
    assert "not known: no owner was found for porep-1000-40021/9's lines" in shown


def test_who_is_known_to_hold_the_lock_stands_over_who_may_have() -> None:
    """Another worker's bracket spans all of a call that is known."""
    made = busy().recent[0]
    other = replace(made, worker=1, partition=8, lock_at_ms=None, attribution="none")
    frame = replace(busy(), recent=(made, other), in_flight=(), now_ms=456_700.0)
    line = track(text(draw_timeline(frame, 112, 20, scroll=Scroll(zoom=2))).splitlines(), "GPU 0")
    runs = [glyph for glyph, _ in itertools.groupby(line.strip())]
    assert runs == ["?", "█", "▓", "█", "?"]


def test_without_lock_lines_the_cursor_says_that_it_cannot_tell() -> None:
    frame = no_timing()
    shown = text(draw_timeline(frame, 100, 30, scroll=Scroll(at_ms=frame.now_ms - 3000.0)))
    assert "GPU 0 not known: no CUZK_TIMING lines" in shown


def test_no_stall_is_where_a_call_may_have_held_the_lock() -> None:
    before = row(0, partition=0, lock_at_ms=1000.0, lock_held_ms=500)
    after = row(0, partition=2, lock_at_ms=8000.0, lock_held_ms=500)
    lost = row(0, lock_at_ms=None, bracket_start_ms=1600, bracket_end_ms=5000, lock_held_ms=None)
    assert stalls((before, after)) == [(1500.0, 8000.0, 0)]
    assert stalls((before, lost, after)) == [(5000.0, 8000.0, 0)]
    assert stalls((before, replace(lost, bracket_end_ms=7800), after)) == []
    open_one = replace(lost, bracket_end_ms=None, state="gpu")
    assert stalls((before, open_one, after)) == []


def test_what_goes_on_is_there_at_the_edge_of_the_present() -> None:
    frame = busy()
    shown = text(draw_timeline(frame, 100, 30, scroll=Scroll(at_ms=frame.now_ms)))
    assert f"{len(frame.syntheses)} syntheses" in shown
    holder = frame.gpus[0].lock.holder
    assert holder is not None
    assert f"GPU 0 ▓ {holder.job}/{holder.partition} barrier" in shown


def test_kernels_are_drawn_where_the_calls_ran_them() -> None:
    """At 100 ms a column no kernels stand over a barrier, though they share its second."""
    made = busy().recent[0]
    frame = replace(busy(), recent=(made,), in_flight=(), now_ms=456_000.0)
    lines = text(draw_timeline(frame, 112, 20, scroll=Scroll(zoom=2))).splitlines()
    lock, kernels = track(lines, "GPU 0 lock"), track(lines, "kernel")
    assert {kernels[at] for at, glyph in enumerate(lock) if glyph == "█"} >= {"█"}
    inside = [kernels[at] for at in range(1, 96) if lock[at - 1 : at + 2] == "▓▓▓"]
    assert len(inside) >= 8
    assert set(inside) == {" "}
    # Whose kernels aren't known has the log's seconds.
    lines = text(draw_timeline(unowned(frame), 112, 20, scroll=Scroll(zoom=2))).splitlines()
    lock, kernels = track(lines, "GPU 0 lock"), track(lines, "kernel")
    assert " " not in {kernels[at] for at, glyph in enumerate(lock) if glyph == "?"}


def test_stages_are_placed_one_after_the_other() -> None:
    made = busy().recent[0]
    frame = replace(busy(), recent=(made,), in_flight=(), now_ms=456_000.0)
    assert made.lock_at_ms is not None
    lines = text(draw_timeline(frame, 112, 20, scroll=Scroll(zoom=2))).splitlines()
    line = track(lines, "GPU 0 lock")
    runs = {glyph: line.count(glyph) for glyph in "█▓"}
    # 100 ms a column: 690 + 650 + 83 ms of kernels, 1402 ms of barrier.
    assert runs["█"] in range(13, 16)
    assert runs["▓"] in range(13, 16)
    assert line.strip().startswith("█")
    assert line.index("▓") - line.index("█") in range(6, 8)


def test_the_window_moves_in_steps_and_old_columns_stay() -> None:
    memory = Memory()
    frame = replace(busy(), now_ms=460_000.0)
    before = text(draw_timeline(frame, 100, 30, memory=memory)).splitlines()
    frame = replace(frame, now_ms=frame.now_ms + 500)
    after = text(draw_timeline(frame, 100, 30, memory=memory)).splitlines()
    assert track(before, "GPU 0 lock")[:60] == track(after, "GPU 0 lock")[:60]
    frame = replace(frame, now_ms=frame.now_ms + 3000)
    moved = text(draw_timeline(frame, 100, 30, memory=memory)).splitlines()
    assert track(moved, "GPU 0 lock")[:50] == track(after, "GPU 0 lock")[5:55]


def test_time_that_goes_back_forgets_what_was_painted() -> None:
    memory = Memory()
    draw_timeline(busy(), 100, 20, memory=memory)
    fresh = replace(busy(), now_ms=9000.0, recent=(), in_flight=())
    assert "█" not in track(
        text(draw_timeline(fresh, 100, 20, memory=memory)).splitlines(), "GPU 0 lock"
    )


def test_without_readings_one_line_says_so_for_all_cards() -> None:
    frame = four()
    bare = tuple(replace(one, nvml=None, nvml_note="no driver here") for one in frame.gpus)
    shown = text(draw_timeline(replace(frame, gpus=bare), 100, 50))
    assert shown.count("no driver here") == 1
    assert "power" not in shown


# ------------------------------------------------------------------------------------------- jobs


def test_jobs_in_flight_stand_first_with_what_is_left() -> None:
    frame = busy()
    lines = text(draw_jobs_view(frame, 100, 12)).splitlines()
    assert "3 in flight · 12 done" in lines[0]
    assert [line.split()[0] for line in lines[2:7]] == [job_id(n) for n in (21, 22, 23, 20, 19)]
    assert "≈" in lines[2]
    assert "–" in lines[3]  # none of its partitions is done: no pace


def test_a_job_says_what_its_time_is() -> None:
    """The same column: waiting since, running since, took."""
    over = job(20, "dddddddddd", age_ms=61_000.0)
    waits = job(24, "..........", age_ms=315_000.0)
    frame = replace(busy(), jobs=(over, job(22, "Gqqsssssss"), waits))
    lines = text(draw_jobs_view(frame, 100, 12)).splitlines()
    for number, state, time in (
        (20, "done", "took 61s"),
        (22, "running", "41s"),
        (24, "waiting", "5m15"),
    ):
        line = next(line for line in lines if line.startswith(job_id(number)))
        assert state in line
        assert line.rstrip().endswith(f" {time}")
    assert "waiting    5m15" in text(job_details(waits, frame, 100))
    assert "took       61.0s" in text(job_details(over, frame, 100))


def test_figures_that_are_marked_do_not_run_together() -> None:
    """A slow stage before a derived one."""
    made = replace(row(0), ntt_msm_h_ms=1953, barrier_wait_ms=1640, derived=("barrier_wait_ms",))
    frame = replace(busy(), recent=(made, *busy().recent[1:]), in_flight=())
    for width in (80, 100, 120):
        shown = text(draw_table(frame, width, 12, table=Table(order="ntt_msm_h_ms")))
        assert "1.95s!" in shown
        assert "~1.64s" in shown or " 1.64s~" in shown
        assert "!~" not in shown


def test_the_knobs_that_the_advice_names_are_among_the_settings() -> None:
    verdict = replace(busy().verdict, advice=("Lower partition_workers by a quarter.",))
    shown = text(content(replace(busy(), verdict=verdict), 100))
    assert "partition_workers: not stated in this log" in shown
    stated = {"partition_workers": "10"}
    shown = text(content(replace(busy(), verdict=verdict, settings=stated), 100))
    assert "not stated" not in shown
    bare = text(content(replace(busy(), verdict=verdict, settings={}), 100))
    assert "partition_workers: not stated in this log" in bare


def test_the_pace_of_its_partitions_tells_when_a_job_is_done() -> None:
    half = job(50, "dddds")
    ends = [100_000, 104_000, 108_000, 112_000]
    frame = replace(busy(), now_ms=113_000.0, syntheses=(), jobs=(half,))
    assert left_ms(half, frame, ends) == 3000.0
    assert left_ms(half, replace(frame, now_ms=200_000.0), ends) == 0.0
    assert left_ms(half, frame, ends[:1]) is None
    assert left_ms(job(50, "ddFds"), frame, ends) is None
    assert left_ms(job(50, "ddddd"), frame, ends) is None
    # What is still in synthesis takes its usual time at least.
    synthesis = replace(busy().syntheses[1], job=half.job, since_ms=frame.now_ms - 3100.0)
    assert left_ms(half, replace(frame, syntheses=(synthesis,)), ends) == 30_000.0
    assert ends_of(busy())[(job_id(20), 1)] == sorted(ends_of(busy())[(job_id(20), 1)])


def test_a_failure_stands_under_its_job() -> None:
    lines = text(draw_jobs_view(failures(), 100, 20)).splitlines()
    at = next(at for at, line in enumerate(lines) if "dddd" in line or "✓✓✓✓✓✓✓F--" in line)
    assert "failed" in lines[at]
    assert "✗ GPU prove failed: cudaMalloc" in lines[at + 1]
    assert any("lost" in line for line in lines)
    assert any(f"{job_id(22)}#2" in line for line in lines)


def test_a_large_terminal_shows_the_partitions_of_the_selected_job() -> None:
    shown = text(draw_jobs_view(busy(), 120, 40, selected=(job_id(20), 1)))
    assert f"PARTITIONS {job_id(20)}" in shown
    assert f"{job_id(20)}/9" in shown
    assert f"{job_id(20)}/0" in shown


def test_a_job_in_full_lists_its_partitions() -> None:
    frame = failures()
    shown = text(job_details(frame.jobs[2], frame, 120))
    assert "failed, 7 of 10 partitions done" in shown
    assert "cudaMalloc" in shown
    assert "the daemon's own lines that name it" in shown


# -------------------------------------------------------------------------------------- diagnosis


def test_the_diagnosis_has_every_section() -> None:
    shown = text(content(failures(), 100))
    for words in (
        "CPU/MEMORY  80 % sure",
        "because",
        "try this, and what would prove it wrong",
        "WHERE THE TIME GOES",
        "IS THE GPU COMPUTING?",
        "IDLE, BUT WHY?",
        "HERDING",
        "MISSING TO BE SURE",
        "THE BOX",
        "ALERTS",
        "THE DAEMON'S SETTINGS",
        "max_parallel_synthesis  10",
        "no alert" if not failures().alerts else "ALERTS 3",
    ):
        assert words in shown, words


def test_the_six_classes_have_their_meanings_and_add_up() -> None:
    lines = text(content(busy(), 120)).splitlines()
    start = next(at for at, line in enumerate(lines) if "WHERE THE TIME GOES" in line)
    figures = []
    for name in ("kernel", "barrier", "lock overhead", "handoff", "starved", "no work"):
        line = next(line for line in lines[start + 2 :] if name in line[:20])
        figures.append(float(line[17:24]))
    assert sum(figures) == pytest.approx(100.0)


def jumpy(window: Shares, **nvml: float) -> str:
    one = replace(gpu(), window=window)
    if nvml:
        assert one.nvml is not None
        one = replace(one, nvml=replace(one.nvml, mean_util_pct=nvml["util"]))
    return " ".join(text(content(replace(busy(), gpus=(one,)), 100)).split())


def test_a_jumpy_gpu_is_explained() -> None:
    assert "Something holds the GPU up" in jumpy(shares(45.0, 44.0, 10.0))
    assert "The GPU is simply fast" in jumpy(shares(52.0, 3.0, 44.0))
    assert "Both: part of the time" in jumpy(shares(50.0, 22.0, 27.0))
    assert "hardly ever idle" in jumpy(shares(95.0, 2.0, 2.0), util=93.0)
    shown = jumpy(shares(95.0, 2.0, 2.0), util=20.0)
    assert "NVML saw up to 75.0 points more of it" in shown
    assert "NVML saw 75.0 points less than the log's kernels. Both can be right" in shown
    assert "suspect" not in shown


def test_what_can_not_be_true_is_said_and_nothing_else_of_that_card() -> None:
    one = replace(gpu(), window=shares(95.0, 2.0, 2.0), suspects=("NVML not credible: [/b]",))
    assert one.nvml is not None
    one = replace(one, nvml=replace(one.nvml, mean_util_pct=0.0))
    shown = " ".join(text(content(replace(busy(), gpus=(one,)), 100)).split())
    assert "≠ NVML not credible: [/b]." in shown
    assert "points less than the log's kernels" not in shown


@pytest.mark.parametrize(
    ("gauge", "words"),
    [(None, "too few"), (0.2, "evenly"), (0.5, "at random"), (0.7, "bunched"), (0.95, "in waves")],
)
def test_the_herding_gauge_is_read_out(gauge: float | None, words: str) -> None:
    frame = replace(busy(), herd=Herd(share=0.9, wave_size=6, gauge=gauge))
    shown = " ".join(text(content(frame, 100)).split())
    assert words in shown
    assert "90 % of the starved time ends in a wave of 6" in shown


def test_the_herding_section_says_what_the_verdict_says() -> None:
    """A stall is no wave; and from half of a herd's share on, waves are part of it."""

    def said(herd: Herd) -> str:
        return " ".join(text(content(replace(busy(), herd=herd), 100)).split())

    stall = "one gap of 34.1s at 3m12 holds 88 % of the starved time: a stall, not a rhythm"
    shown = said(Herd(share=0.1, wave_size=5, gauge=0.6, stall=stall))
    assert "One gap of 34.1s at 3m12 holds 88 % of the starved time" in shown
    assert "waves don't explain it" not in shown
    assert "waves are part of it" in said(Herd(share=0.39, wave_size=5, gauge=0.6))


def jumpy_like(bottleneck: str, window: Shares, gaps: str = "") -> str:
    """The sections on idle time and herding under a verdict."""
    frame = replace(
        busy(),
        gpus=(replace(gpu(), window=window),),
        verdict=replace(busy().verdict, bottleneck=bottleneck),
        herd=Herd(share=0.1, wave_size=5, gauge=0.6, gaps=gaps),
    )
    shown = " ".join(text(content(frame, 100)).split())
    return shown[shown.index("IDLE, BUT WHY?") :]


def test_the_sections_agree_with_the_verdict() -> None:
    """Fewer syntheses, more syntheses and 'too few syntheses' don't stand beside each other."""
    held = shares(45.0, 42.0, 8.0)
    shown = jumpy_like("cpu-memory", held, "gaps of 2.3s to 6.5s recur about every 40s")
    assert "More syntheses would not help" in shown
    assert "waves don't explain it. Gaps of 2.3s to 6.5s recur about every 40s." in shown
    assert "Starved time is 8.0 % of all here, and isn't what limits the box" in shown
    assert "too few syntheses" not in shown
    shown = jumpy_like("synthesis", shares(45.0, 10.0, 43.0))
    assert "there are too few syntheses" in shown
    assert "would not help" not in shown
    shown = jumpy_like("synthesis", shares(20.0, 26.0, 26.5))
    assert "of the single parts starved is the largest" in shown
    assert "would not help" not in shown
    shown = jumpy_like("cpu-memory", shares(50.0, 27.0, 22.0))
    assert "raise the syntheses" not in shown
    assert "The verdict's first step settles it" in shown
    nothing_asked = replace(
        shares(), time_pct=dict(zip(TIME_CLASSES, (20.0, 5.0, 0.0, 2.0, 3.0, 70.0), strict=True))
    )
    shown = jumpy_like("idle", nothing_asked)
    assert "there was nothing for it to do" in shown
    assert "raise the syntheses" not in shown


def test_what_is_missing_is_said() -> None:
    assert missing(replace(busy(), recent=())) == []
    found = "\n".join(missing(no_timing()))
    assert "CUZK_TIMING lines" in found
    assert "NVML's readings (NVML not available" in found
    assert "the daemon's process was not found" in found
    assert "older than S41" in "\n".join(missing(no_nvml()))


def test_alerts_of_the_same_text_are_one() -> None:
    again = [Alert(level="error", at_ms=1000.0 * at, text="out of memory") for at in range(5)]
    other = Alert(level="warning", at_ms=2500.0, text="SRS evicted")
    told = merged([*again[:3], other, *again[3:]])
    assert [(one.text, one.count, one.first_ms, one.last_ms) for one in told] == [
        ("out of memory", 5, 0.0, 4000.0),
        ("SRS evicted", 1, 2500.0, 2500.0),
    ]
    frame = replace(busy(), now_ms=64_000.0, alerts=(*again, other))
    shown = text(content(frame, 100))
    assert "✗ 60s ago ×5 since 64s: out of memory" in shown


def test_alerts_tell_since_when_until_when_and_how_often() -> None:
    lasting = Alert(
        level="warning", at_ms=20_000.0, text="GPU 0 is hot", lasts=True, count=3, first_ms=4000.0
    )
    ended = Alert(level="error", at_ms=1000.0, text="GPU 1 is gone", until_ms=31_000.0)
    event = Alert(level="error", at_ms=50_000.0, text="out of memory")
    frame = replace(busy(), now_ms=64_000.0, alerts=(ended, event, lasting))
    wanted = [
        ("! for 44s ×3 since 60s", "GPU 0 is hot"),
        ("✗ 14s ago", "out of memory"),
        ("✗ 33s ago for 30s", "GPU 1 is gone"),
    ]
    lines = alert_lines(frame)
    assert [line.split("  ")[0].strip() for line in lines] == [when for when, _ in wanted]
    assert [line.split("  ")[-1].strip() for line in lines] == [what for _, what in wanted]
    shown = text(content(frame, 100))
    assert all(f"{when}: {what}" in shown for when, what in wanted)


def test_a_herd_is_told_from_a_hold_up() -> None:
    shown = " ".join(text(content(herd(), 100)).split())
    assert "The GPU is simply fast" in shown
    assert "queue empty 43.0" in shown
