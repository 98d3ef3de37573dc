"""What each panel says, and that it says it within its size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzktop.analysis.diagnosis import Measured, verdict
from cuzktop.dataclass import replace
from cuzktop.frame import TIME_CLASSES, Alert, Frame, Lock, Queued
from cuzktop.tui.rows import key_of
from cuzktop.tui.widgets.activity import draw_activity
from cuzktop.tui.widgets.cells import STYLES, Line, line_width
from cuzktop.tui.widgets.footer import draw_footer
from cuzktop.tui.widgets.gpus import draw_gpus
from cuzktop.tui.widgets.jobs import draw_jobs
from cuzktop.tui.widgets.lock import draw_lock
from cuzktop.tui.widgets.partitions import draw_partitions
from cuzktop.tui.widgets.stages import draw_stages
from cuzktop.tui.widgets.syntheses import draw_syntheses
from cuzktop.tui.widgets.verdict import draw_header, draw_notice, draw_verdict
from tests.tui.frames import (
    FRAMES,
    busy,
    failures,
    four,
    gpu,
    herd,
    lock,
    no_nvml,
    no_timing,
    row,
    shape_of_box,
)

Draw = Callable[[Frame, int, int], Sequence[Line]]
PANELS: dict[str, Draw] = {
    "verdict": draw_verdict,
    "notice": draw_notice,
    "header": lambda frame, width, _height: draw_header(frame, width, "a title [/b]"),
    "gpus": draw_gpus,
    "gpus without holders": lambda frame, width, height: draw_gpus(
        frame, width, height, with_holder=False
    ),
    "lock": draw_lock,
    "syntheses": draw_syntheses,
    "jobs": draw_jobs,
    "chart": draw_activity,
    "stages": draw_stages,
    "recent": draw_partitions,
    "recent, scrolled": lambda frame, width, height: draw_partitions(
        frame,
        width,
        height,
        top=3,
        selected=key_of(frame.recent[4]) if frame.recent else None,
        focused=True,
    ),
    "footer": lambda frame, width, _height: draw_footer(frame, width),
    "footer, paused": lambda frame, width, _height: draw_footer(frame, width, behind=231),
}
PICTURES = {name: make() for name, make in FRAMES.items()}
PICTURES |= {f"{count} GPUs": shape_of_box(count) for count in range(17)}
SIZES = [
    (width, height)
    for width in (*range(1, 45), 59, 60, 64, 72, 76, 78, 80, 90, 104, 108, 116, 149, 150, 200)
    for height in (1, 2, 3, 4, 5, 9, 16, 24, 60)
]


def text(lines: Sequence[Line]) -> str:
    return "\n".join("".join(part for part, _ in line) for line in lines)


def check(panel: str, frame: Frame, width: int, height: int) -> None:
    lines = PANELS[panel](frame, width, height)
    assert len(lines) <= height, (panel, width, height)
    for line in lines:
        assert line_width(line) == width, (panel, width, height, line)
        assert all(style in STYLES for _, style in line), (panel, line)


@pytest.mark.parametrize("panel", PANELS)
def test_every_line_is_as_wide_as_its_panel(panel: str) -> None:
    # Each size meets a few of the pictures, and over all sizes each picture is met.
    pictures = list(PICTURES.values())
    for at, (width, height) in enumerate(SIZES):
        for step in range(4):
            check(panel, pictures[(at * 4 + step) % len(pictures)], width, height)


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(sorted(PANELS)),
    st.sampled_from(sorted(PICTURES)),
    st.integers(1, 200),
    st.integers(1, 60),
)
def test_every_line_is_as_wide_as_its_panel_at_any_size(
    panel: str, picture: str, width: int, height: int
) -> None:
    check(panel, PICTURES[picture], width, height)


# ---------------------------------------------------------------------------------- the verdict


def test_the_verdict_is_a_sentence_with_its_certainty() -> None:
    shown = text(draw_verdict(busy(), 80, 2))
    assert shown.startswith(" ▲ CPU/MEMORY  80 % sure Kernels run 45 % of the time")
    assert "memory bandwidth." in shown


def test_more_room_for_the_verdict_brings_advice_and_evidence() -> None:
    shown = text(draw_verdict(busy(), 100, 6))
    assert "→ synthesize 6 partitions at a time" in shown
    assert "· barrier 43.9 % of the last 60 s" in shown


def test_what_to_try_is_said_whole_or_short_but_not_cut() -> None:
    advice = (
        "Lower partition_workers by a quarter: fewer syntheses leave CPU and memory bandwidth to"
        " prep_msm. Its p50 should fall; if it doesn't, memory bandwidth is not what it waits for."
    )
    doubt = " Can't tell for sure yet: 7 proofs so far, sure from 10 on."
    verdict = busy().verdict
    frame = replace(
        busy(), verdict=replace(verdict, sentence=verdict.sentence + doubt, advice=(advice,))
    )
    lines = text(draw_verdict(frame, 80, 3)).splitlines()
    assert lines[1].rstrip().endswith("memory bandwidth.")  # the doubt is in the figure before
    assert lines[2].rstrip() == " → Lower partition_workers by a quarter (press 6 for why)"
    shown = " ".join(text(draw_verdict(frame, 80, 5)).split())
    assert "bandwidth to prep_msm (press 6 for why, and what would prove it wrong)" in shown
    assert advice in " ".join(text(draw_verdict(frame, 150, 4)).split())
    assert doubt.strip() in " ".join(text(draw_verdict(frame, 150, 4)).split())


@pytest.mark.parametrize("step", [(1, 45), (21, 21), (33, 45), (33, 38), (45, 45)])
@pytest.mark.parametrize("most", ["kernel", "barrier", "lock_overhead", "handoff", "starved"])
@pytest.mark.parametrize("measured", [None, Measured(util_pct=9.0, power_w=None, source="fake")])
def test_no_advice_is_cut_on_80_columns(
    step: tuple[int, int], most: str, measured: Measured | None
) -> None:
    shares = dict.fromkeys(TIME_CLASSES, 0.0) | {most: 85.0, "no_work": 15.0}
    said = verdict(shares, proofs=20, step=step, measured=measured)
    last = text(draw_verdict(replace(busy(), verdict=said), 80, 3)).splitlines()[-1].rstrip()
    assert last.startswith(" → ")
    assert "…" not in last
    assert last.endswith(("(press 6 for why)", "what would prove it wrong)"))
    assert last.count("(") == last.count(")")


def test_a_verdict_that_is_not_sure_gives_no_figure() -> None:
    assert "sure" not in text(draw_verdict(no_timing(), 80, 2))


def test_the_newest_error_stands_with_its_age() -> None:
    shown = text(draw_notice(failures(), 120, 1))
    assert "✗ 12s ago porep-1000-40021/7: GPU prove failed" in shown
    assert "(+2 more)" in shown


def test_what_is_so_now_goes_before_an_old_error_and_what_ended_is_no_news() -> None:
    frame = failures()
    hot = Alert(level="warning", at_ms=frame.now_ms - 90_000, text="GPU 0 is hot", lasts=True)
    assert "✗ 12s ago" in text(draw_notice(replace(frame, alerts=(*frame.alerts, hot)), 90, 1))
    later = replace(frame, now_ms=frame.now_ms + 3_600_000, alerts=(*frame.alerts, hot))
    assert text(draw_notice(later, 90, 1)).startswith(" ! for 1h01 GPU 0 is hot (+3 more)")
    ended = replace(hot, lasts=False, until_ms=frame.now_ms - 61_000)
    assert draw_notice(replace(busy(), alerts=(ended,)), 90, 1) == []
    lately = replace(hot, lasts=False, until_ms=frame.now_ms - 30_000)
    shown = text(draw_notice(replace(busy(), alerts=(lately,)), 90, 1))
    assert shown.startswith(" ! 30s ago for 60s GPU 0 is hot")


def test_a_log_that_ended_long_ago_is_not_shown_as_the_present() -> None:
    measured = gpu().nvml
    assert measured is not None
    frame = busy()
    card = replace(gpu(), nvml=replace(measured, mean_util_pct=None, util_pct=0.0, of_now=True))
    frame = replace(frame, gpus=(card,), source=replace(frame.source, silent_ms=10_800_000.0))
    notice = text(draw_notice(frame, 120, 1))
    assert notice.startswith(" ! 3h00 ago the log stopped with 15 partitions in flight")
    assert "card and box of now" in notice
    header = text(draw_header(frame, 120, ""))
    assert "box CPU now 97 %" in header
    assert "log ended 08:20:11 UTC, 3h00 ago" in header
    for width, height in ((110, 9), (80, 9), (80, 4)):
        shown = text(draw_gpus(frame, width, height))
        assert "of now" in shown, (width, height)
        assert "≠" not in shown
        assert "−45.1" not in shown
    chart = text(draw_activity(frame, 80, 8))
    assert "NVML" not in chart
    assert chart.splitlines()[-1].endswith("end")


def test_a_log_that_cannot_be_read_to_its_end_is_told_before_all_that_it_tells() -> None:
    words = "cannot read d.log.gz: the compressed file is cut off; the 6.1M of text before that"
    frame = busy()
    hot = Alert(level="warning", at_ms=frame.now_ms - 90_000, text="GPU 0 is hot", lasts=True)
    for silent_ms in (0.0, 10_800_000.0):
        source = replace(frame.source, silent_ms=silent_ms, note=words)
        alerts = (hot, Alert(level="error", at_ms=None, text=words))
        broken = replace(frame, source=source, alerts=alerts)
        assert text(draw_notice(broken, 120, 1)).startswith(f" ✗ {words}")
    mended = replace(broken, source=replace(broken.source, note="", silent_ms=0.0))
    assert text(draw_notice(mended, 120, 1)).startswith(" ! for 90s GPU 0 is hot")


def test_nothing_wrong_needs_no_line() -> None:
    assert draw_notice(busy(), 80, 1) == []


# ------------------------------------------------------------------------------------- the GPUs


def test_the_ladder_stands_in_order_on_one_line() -> None:
    line = text(draw_gpus(busy(), 80, 4)).splitlines()[1]
    steps = [line.index(share) for share in ("89.9", "89.6", "89.0", "45.1", "46.4 gpm", "295W")]
    assert steps == sorted(steps)


def test_the_classes_of_time_add_up_to_100() -> None:
    line = text(draw_gpus(busy(), 80, 4)).splitlines()[3]
    figures = [float(word) for word in line.split()[2:]]
    assert figures == [45.1, 43.9, 0.6, 0.3, 10.1, 0.0]
    assert sum(figures) == pytest.approx(100.0)


def test_a_block_says_what_lies_between_two_steps() -> None:
    shown = text(draw_gpus(busy(), 110, 9))
    assert "−43.9 barrier: waits for the CPU" in shown
    assert "−0.3  handoff" in shown


def test_measurement_and_log_that_disagree_are_marked() -> None:
    frame = busy()
    measured = frame.gpus[0].nvml
    assert measured is not None
    low = replace(frame.gpus[0], nvml=replace(measured, mean_util_pct=12.0))
    frame = replace(frame, gpus=(low,))
    assert "gpm −33.1: idle in its stages" in text(draw_gpus(frame, 110, 9))
    assert "12.0≠gpm" in text(draw_gpus(frame, 80, 4))
    assert "12.0≠" in text(draw_gpus(frame, 80, 2))


def test_a_derived_lock_is_marked() -> None:
    assert "~89.6" in text(draw_gpus(no_nvml(), 80, 4))


def test_an_old_reading_shows_its_age() -> None:
    frame = busy()
    measured = frame.gpus[0].nvml
    assert measured is not None
    old = replace(frame.gpus[0], nvml=replace(measured, age_ms=42_000.0))
    frame = replace(frame, gpus=(old,))
    assert "46.4 42s old" in text(draw_gpus(frame, 80, 4))
    assert "42s old" in text(draw_gpus(frame, 110, 9))
    assert "46.4!" in text(draw_gpus(frame, 80, 2))


def test_a_missing_driver_says_so_and_leaves_the_ladder() -> None:
    for height in (4, 9):
        shown = text(draw_gpus(no_nvml(), 110, height))
        assert "not available: no driver" in shown
        assert "45.1" in shown


def test_one_reason_for_all_cards_stands_in_their_columns() -> None:
    bare = tuple(
        replace(one, nvml=None, nvml_note="this demo has no GPU readings") for one in four().gpus
    )
    lines = text(draw_gpus(replace(four(), gpus=bare), 80, 5)).splitlines()
    column = lines[0].index("NVML,")
    words = " ".join(line[column : column + 12].strip() for line in lines)
    assert words == "NVML, power: – this demo has no GPU readings"
    # One card has no rows for it, and one that is read needs the columns.
    assert "NVML  power" in text(draw_gpus(replace(four(), gpus=bare[:1]), 80, 2))
    mixed = (*bare[:3], four().gpus[3])
    assert "NVML  power" in text(draw_gpus(replace(four(), gpus=mixed), 80, 5))
    shown = text(draw_gpus(replace(four(), gpus=bare[:1]), 80, 4))
    assert "NVML, power: – this demo" in shown
    assert "has no GPU readings" in shown


def test_before_the_first_call_has_ended_no_lines_are_missed() -> None:
    shown = " ".join(text(draw_gpus(replace(no_timing(), recent=()), 80, 4)).split())
    assert "no partition has finished on a GPU yet" in shown
    assert "standard error" not in shown


def test_without_timing_lines_the_panel_says_what_to_do() -> None:
    shown = " ".join(text(draw_gpus(no_timing(), 80, 4)).split())
    assert "this log has no CUZK_TIMING lines" in shown
    assert "start it with 2>&1" in shown
    assert "89.9" in shown  # the brackets are known all the same


def test_eight_gpus_take_a_line_each_with_ladder_and_holder() -> None:
    lines = text(draw_gpus(FRAMES["eight"](), 80, 9)).splitlines()
    assert len(lines) == 9
    assert "89.0  30.0" in lines[1]
    assert "● w0" in lines[1]
    assert "barrier 640ms +1○" in lines[1]
    assert "○ free" in lines[7]


def test_gpus_without_room_are_counted() -> None:
    shown = text(draw_gpus(FRAMES["eight"](), 80, 5))
    assert "+5 more GPUs, least kernel" in shown


# ------------------------------------------------------------------------------------- the lock


def test_the_holder_stands_over_the_waiter_over_the_finishing() -> None:
    lines = text(draw_lock(busy(), 39, 4)).splitlines()
    assert lines[1] == "● w0 porep-1000-40021/0 barrier   640ms"
    assert lines[2] == "○ w1 porep-1000-40022/4 waits     610ms"
    assert lines[3] == "✓ w0 porep-1000-40021/9 finishing 300ms"


def test_a_holder_that_is_not_certain_has_its_other_candidates() -> None:
    shown = text(draw_lock(no_nvml(), 39, 5))
    assert "~ inferred" in shown
    assert "~640ms" in shown
    assert "? w1 porep-1000-40022/4 or this" in shown


def test_a_free_lock_is_not_an_unknown_one() -> None:
    assert "free" in text(draw_lock(herd(), 39, 4))
    assert "free" not in text(draw_lock(no_timing(), 39, 4))
    assert "no CUZK_TIMING lines" in text(draw_lock(no_timing(), 39, 4))


def test_every_gpu_gets_a_row_before_any_gets_two() -> None:
    lines = text(draw_lock(four(), 60, 6)).splitlines()
    assert [line[:4] for line in lines[1:]] == [" 0 ●", "   ○", " 1 ●", " 2 ●", " 3 ●"]


def test_waiters_without_room_are_counted() -> None:
    crowd = Lock(holder=lock().holder, waiting=lock().waiting * 9, finishing=())
    frame = replace(busy(), gpus=(replace(gpu(), lock=crowd),))
    assert "+7 more in their brackets" in text(draw_lock(frame, 39, 5))


# -------------------------------------------------------------------- what is in flight, and jobs


def test_a_synthesis_stands_with_its_age_against_the_usual() -> None:
    shown = text(draw_syntheses(busy(), 40, 13))
    assert "SYNTHESES 10, usual 33s" in shown
    assert "1 late" in shown
    assert "46s/33s!" in shown
    assert "28s/33s " in shown


def test_all_syntheses_show_in_one_row_where_not_all_have_a_gauge() -> None:
    line = text(draw_syntheses(herd(), 39, 5)).splitlines()[1]
    assert line.startswith("▆" * 20 + "  22s to 24s old")  # a flat top: they herd


def test_the_gpu_queue_names_who_waits_longest() -> None:
    shown = text(draw_syntheses(busy(), 80, 5))
    assert "GPU queue 2  porep-1000-40022/1 830ms  porep-1000-40022/2 300ms" in shown
    assert "GPU queue empty" in text(draw_syntheses(herd(), 80, 5))
    crowd = tuple(Queued(job="j", partition=at, since_ms=busy().now_ms - 9.0) for at in range(40))
    assert "+3" in text(draw_syntheses(replace(busy(), gpu_queue=crowd), 40, 5))


def test_what_is_not_known_is_not_called_empty() -> None:
    for name in ("nothing", "reading"):
        for draw in (draw_syntheses, draw_jobs):
            shown = text(draw(FRAMES[name](), 80, 5))
            assert "0" not in shown
            assert "empty" not in shown


def test_the_footer_says_whose_cost_it_is() -> None:
    frame = busy()
    assert "cuzktop 0.4% 36.0M" in text(draw_footer(frame, 200))
    assert "own 0.4% 36.0M" in text(draw_footer(frame, 80, view="timeline"))


def test_a_share_of_the_log_is_of_a_second_that_is_over() -> None:
    """The last second still goes on; of a call whose lines have no owner yet nothing is known."""
    shares = (*[10.0] * 290, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 5.0)
    bare = replace(gpu(), nvml=None, kernel_history=shares)
    frame = replace(busy(), now_ms=459_678.0, gpus=(bare,), recent=(), in_flight=())
    assert text(draw_activity(frame, 80, 6)).splitlines()[0].endswith("1s ago 95 %")
    unowned = row(
        0, bracket_start_ms=455_500, bracket_end_ms=459_600, lock_at_ms=None, attribution="none"
    )
    frame = replace(frame, recent=(unowned,))
    assert text(draw_activity(frame, 80, 6)).splitlines()[0].endswith("5s ago 60 %")
    waits = frame.gpus[0].lock.waiting[0]
    waiting = replace(
        unowned, job=waits.job, partition=waits.partition, state="gpu", bracket_end_ms=None
    )
    frame = replace(frame, recent=(), in_flight=(waiting,))
    assert text(draw_activity(frame, 80, 6)).splitlines()[0].endswith("1s ago 95 %")


def test_a_job_is_a_row_of_cells_with_its_counts() -> None:
    shown = text(draw_jobs(busy(), 80, 6))
    assert "porep-1000-40022 Gqqsssssss  0/10   41s running" in shown
    assert "porep-1000-40021 ✓✓✓✓✓✓✓✓GG  8/10   50s" in shown
    assert "3 in flight · 12 done · 42.6s a proof over 12" in shown


def test_a_failed_job_is_marked_and_says_why() -> None:
    shown = text(draw_jobs(failures(), 120, 6))
    assert "✓✓✓✓✓✓✓F--  7/10   50s✗ GPU prove failed" in shown
    assert "✓✓✓???????" in shown
    assert "porep-1000-40022#2" in shown


def test_jobs_in_flight_go_before_those_that_ended() -> None:
    shown = text(draw_jobs(FRAMES["eight"](), 80, 3))
    assert "porep-1000-40030" in shown
    assert "porep-1000-40010" not in shown
    title, *rows = shown.splitlines()
    assert "8 in flight" in title
    assert [row.split()[-1] for row in rows] == ["0s", "ended"]
    assert "+5 in flight, +8 ended" in shown  # and three are shown
    assert "+1 in flight, +8 ended" in text(draw_jobs(FRAMES["eight"](), 80, 5))
    eight = FRAMES["eight"]()
    deaf = replace(eight, proofs=replace(eight.proofs, completed=None))
    assert "+9 more" in text(draw_jobs(deaf, 80, 5))  # it isn't told which are done
    narrow = text(draw_jobs(FRAMES["eight"](), 20, 3))
    assert "+15 more" in narrow


# ------------------------------------------------------------------------------------ activity


def test_the_graph_says_what_it_draws_and_whence() -> None:
    assert "NVML util %, gpm" in text(draw_activity(busy(), 80, 4))
    assert "kernel % by the log" in text(draw_activity(no_nvml(), 80, 4))


def test_the_graph_has_a_fixed_scale_and_a_time_axis() -> None:
    lines = text(draw_activity(busy(), 80, 4)).splitlines()
    assert lines[1].startswith("100 ┊")
    assert lines[2].startswith("  0 ┊")
    assert lines[3].index("-60s") + len("-60s") - 1 == 79 - 60
    assert lines[3].endswith("now")


def test_missing_readings_are_dots() -> None:
    assert "······" in text(draw_activity(busy(), 80, 4))


def test_more_room_brings_more_histories() -> None:
    shown = text(draw_activity(busy(), 100, 24))
    for name in ("NVML util", "kernel %", "lock held %", "power, %"):
        assert name in shown


def test_each_gpu_has_its_history() -> None:
    lines = text(draw_activity(four(), 80, 5)).splitlines()
    assert [line[:2] for line in lines[1:]] == [" 0", " 1", " 2", " 3"]


def test_a_graph_that_can_not_be_drawn_says_why() -> None:
    shown = " ".join(text(draw_activity(no_timing(), 80, 4)).split())
    assert "no CUZK_TIMING lines in this log." in shown
    assert "NVML not available" in shown


# ---------------------------------------------------------------------------- partitions, stages


def test_a_partition_shows_all_its_stages() -> None:
    lines = text(draw_partitions(busy(), 80, 6)).splitlines()
    assert lines[0].split() == [
        *("PARTITION", "w", "synth", "queue", "lockw", "ntt+H", "barr", "batch", "tail", "b_g2"),
        "brckt",
    ]
    assert lines[1].split() == [
        *("porep-1000-40021/9", "0", "33.1s", "870ms", "1.41s", "690ms", "1.40s", "650ms"),
        *("83ms", "484ms", "4.68s", "✓="),
    ]
    assert lines[2].rstrip().endswith("✓~")  # inferred
    assert lines[4].rstrip().endswith("✓")  # nothing was assigned
    assert "~1.96s" in lines[5]  # derived


def test_a_wide_table_has_more_columns_under_their_full_names() -> None:
    head = text(draw_partitions(busy(), 200, 3)).splitlines()[0]
    for name in ("pre-lock", "lock wait", "lock held", "prep_msm", "kernel", "bracket", "state"):
        assert name in head


def test_a_selected_row_is_marked_all_along() -> None:
    lines = draw_partitions(busy(), 80, 6, selected=key_of(busy().recent[2]))
    assert {style for _, style in lines[3]} == {"selected"}
    assert all("selected" not in {style for _, style in line} for line in lines[:3])


def test_stages_show_percentiles_and_what_goes_beyond_the_scale() -> None:
    lines = text(draw_stages(busy(), 90, 10)).splitlines()
    assert "over 150 partitions" in lines[0]
    assert lines[1].split()[-3:] == ["4.68s", "5.91s", "8.96s"]
    assert "▸" in lines[9]
    assert lines[9].startswith("synthesis")


# -------------------------------------------------------------------------------- header, footer


def test_the_footer_holds_keys_source_and_cost() -> None:
    words = ("1-6 views", "q quit", "? help", "Space pause", ": menu", "daemon.log", "0.4%")
    for width in (80, 200):
        shown = text(draw_footer(busy(), width))
        for word in (*words, *(("3120", "2100") if width > 80 else ())):
            assert word in shown, (width, word)
    assert "silent 0s every 1 s" in text(draw_footer(busy(), 200))


def test_the_footer_tells_a_pause_and_how_to_end_it() -> None:
    shown = text(draw_footer(busy(), 80, behind=231))
    assert " PAUSED +231 events " in shown
    assert "Space go on" in shown


def test_the_header_keeps_what_matters_where_it_is_narrow() -> None:
    shown = text(draw_header(busy(), 80, ""))
    assert "daemon 3080 % of a core, 212G" in shown
    assert "08:20:11 UTC" in shown
    assert "S44-S45" in text(draw_header(busy(), 200, ""))
