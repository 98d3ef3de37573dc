"""What people get without a screen.

The files in golden/ were read line by line when they were made; CUZKTOP_WRITE_GOLDENS=1 makes them
anew, to be read again.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cuzktop.columns import PARTITION_COLUMNS, STATE_CELLS
from cuzktop.dataclass import replace
from cuzktop.frame import (
    TIME_CLASSES,
    Alert,
    Frame,
    Gpu,
    GpuReport,
    Holding,
    Host,
    JobRow,
    Lock,
    Nvml,
    PartitionRow,
    Proofs,
    Queued,
    RunReport,
    Shares,
    Source,
    StageStats,
    Synthesis,
    Verdict,
)
from cuzktop.headless.layout import cells
from cuzktop.headless.text import RowsTally, report_text, snapshot_text
from tests.headless.fixtures import (
    BUSY,
    DEAF,
    EIGHT,
    FAILED_ROW,
    GPU_REPORT,
    IDLE_RUN,
    INFERRED_ROW,
    LONG_JOB,
    NVML,
    OLD,
    OLD_ROW,
    OLD_RUN,
    ROW,
    RUN,
    SHARES,
    SOURCE,
    WHOLE_ROW,
)

GOLDEN = Path(__file__).parent / "golden"
WIDTHS = range(40, 201)
NAMES = ["busy", "old", "deaf", "eight", "empty"]


def tally(*rows: PartitionRow) -> RowsTally:
    counted = RowsTally()
    for row in rows:
        counted.add(row)
    return counted


REPORTS = (RUN, OLD_RUN, IDLE_RUN)
TALLIES = {0: tally(ROW, INFERRED_ROW, WHOLE_ROW), 1: tally(OLD_ROW, FAILED_ROW)}


def snapshot(frame: Frame, width: int = 100, *, ascii_only: bool = False) -> str:
    return snapshot_text(frame, width=width, colour=False, ascii_only=ascii_only)


def report(*reports: RunReport, width: int = 100, ascii_only: bool = False) -> str:
    return report_text(reports, SOURCE, TALLIES, width=width, colour=False, ascii_only=ascii_only)


# ---------------------------------------------------------------- goldens


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("snapshot_80", snapshot(BUSY, 80), id="snapshot-80"),
        pytest.param("snapshot_160", snapshot(BUSY, 160), id="snapshot-160"),
        pytest.param("old_100_ascii", snapshot(OLD, 100, ascii_only=True), id="old-ascii"),
        pytest.param("deaf_80", snapshot(DEAF, 80), id="deaf"),
        pytest.param("report_80", report(RUN, width=80), id="report-80"),
        pytest.param("report_runs_100", report(*REPORTS), id="report-of-runs"),
    ],
)
def test_the_page_is_the_one_that_was_read(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("CUZKTOP_WRITE_GOLDENS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


# ---------------------------------------------------------------- what it says


def test_the_answer_is_the_first_line() -> None:
    assert snapshot(BUSY).splitlines()[0].startswith("The CPU holds the GPU back")
    assert report(RUN).splitlines()[0].startswith("The CPU holds the GPU back")


@pytest.mark.parametrize(
    ("confidence", "word"),
    [(0.95, "high"), (0.8, "fair"), (0.5, "low"), (0.1, "very low"), (0.0, "none")],
)
def test_confidence_is_a_word_and_a_figure(confidence: float, word: str) -> None:
    verdict = replace(BUSY.verdict, confidence=confidence)
    assert f"confidence {word} ({confidence:.2f})" in snapshot(replace(BUSY, verdict=verdict))


def printed_classes(text: str) -> list[float]:
    """The shares behind the names of the classes."""
    names = r"(?:kernel|barrier|lock overhead|handoff|starved|no work)"
    where = re.findall(rf"[█░]   {names} +~?([\d.]+) %", text)
    return [float(share) for share in where]


def test_printed_shares_add_up_to_100() -> None:
    thirds = replace(SHARES, time_pct=dict.fromkeys(TIME_CLASSES, 100.0 / 6))
    for shares in (SHARES, thirds):
        frame = replace(BUSY, gpus=(replace(BUSY.gpus[0], window=shares),))
        found = printed_classes(snapshot(frame, 80))
        assert len(found) == 6
        assert sum(found) == pytest.approx(100.0, abs=1e-6)


def test_two_steps_far_apart_get_a_sentence() -> None:
    text = snapshot(BUSY, 160)
    assert "41.9 points between GPU section and kernel: the barrier" in text
    assert "18.1 points between kernel and NVML: the GPU idle inside the stages" in text
    assert "suspect" not in text


def test_what_can_not_be_true_is_called_suspect() -> None:
    shares = replace(SHARES, kernel_pct=95.0)
    gpu = replace(BUSY.gpus[0], window=shares, nvml=None)
    text = snapshot(replace(BUSY, gpus=(gpu,)), 160)
    assert "suspect: kernel 95.0 % is more than GPU section 89.6 %" in text
    more = replace(BUSY.gpus[0], nvml=replace(NVML, mean_util_pct=90.0))
    assert "suspect: NVML saw 42.3 points more" in snapshot(replace(BUSY, gpus=(more,)), 160)
    odd = replace(more, suspects=("wrong ordinal: it is another card's",))
    text = snapshot(replace(BUSY, gpus=(odd,)), 160)
    assert "suspect: wrong ordinal: it is another card's" in text
    assert "points more" not in text


def test_holder_waiter_and_finisher_stand_in_this_order() -> None:
    lines = snapshot(BUSY).splitlines()
    at = next(n for n, line in enumerate(lines) if "held by" in line)
    assert re.search(r"held by +worker 0 +porep-1000-40021 p3 +640ms +NTT and H MSM", lines[at])
    assert re.search(r"waits +worker 1 +porep-1000-40021 p7 +610ms", lines[at + 1])
    assert re.search(r"finishing +worker 0 +porep-1000-40021 p2 +300ms", lines[at + 2])


def test_a_choice_of_holders_is_shown_as_one() -> None:
    text = snapshot(OLD)
    assert re.search(r"held by +worker 1 .*\n +or +worker 0 ", text)
    assert "which of them holds it is inferred" in text


def test_a_free_lock_is_free_and_an_unknown_one_is_not() -> None:
    free = Lock(holder=None, waiting=(), finishing=())
    frame = replace(BUSY, gpus=(replace(BUSY.gpus[0], lock=free),))
    assert "  lock  free\n" in snapshot(frame)
    assert "  lock  –\n" in snapshot(DEAF)


def test_what_is_unknown_has_its_reason() -> None:
    assert "– CPU pre-lock, Lock wait: this generation of the daemon does not" in snapshot(OLD)
    assert "standard error is missing; start it with 2>&1" in " ".join(snapshot(DEAF).split())
    assert "NVML not available: libnvidia-ml.so.1 not found" in snapshot(OLD)
    assert "no synthesis of that kind has ended yet" in snapshot(BUSY)
    assert "no samples of this time (--samples FILE" in report(OLD_RUN)
    assert "nothing of the log has been read" in snapshot(Frame())
    foreign = Frame(source=replace(SOURCE, events=0))
    assert "no line of the log comes from cuzk" in snapshot(foreign)


def test_derived_and_inferred_figures_are_marked_and_the_mark_is_explained() -> None:
    note = "~ derived from other lines, or on a line whose owner is inferred"
    assert "~1.83s" in snapshot(OLD)
    assert "~90.2 %" in snapshot(OLD)
    assert note in snapshot(OLD)
    assert "~1.91s" in snapshot(BUSY, 160)
    assert note in snapshot(BUSY, 160)
    assert "~" not in snapshot(replace(BUSY, recent=(ROW,)), 160)


def test_a_slow_synthesis_is_told_against_the_usual() -> None:
    assert re.search(r"40022 p0 +62.0s +of 33.1s .* 1.9 times the usual", snapshot(BUSY))


def test_the_oldest_jobs_in_flight_are_shown_before_those_that_only_wait() -> None:
    one = replace(BUSY.jobs[0], failed=False, attempt=1, total=10)
    done = [replace(one, job=f"done-{n}", done=10) for n in range(8)]
    flying = [replace(one, job=f"flies-{n}", done=0) for n in range(20)]
    text = snapshot(replace(BUSY, jobs=(*done, *flying)), 120)
    assert "flies-0 " in text
    assert "flies-19" not in text
    assert "left out: 8 in flight · 8 ended" in text


def test_long_lists_say_what_they_leave_out() -> None:
    text = snapshot(EIGHT, 120)
    assert "and 14 more, the youngest 11s" in text
    assert "and 12 more" in text
    assert "left out: 5 in flight · 3 ended" in text
    assert "30 earlier ones are in --json" in text


def test_a_partition_keeps_its_number_when_its_job_is_cut() -> None:
    for width in (60, 80):
        held = [line for line in snapshot(EIGHT, width).splitlines() if "held by" in line]
        assert len(held) == 8
        assert all(f"7e55 p{gpu} " in line for gpu, line in enumerate(held))
        assert LONG_JOB not in snapshot(EIGHT, width)


def test_a_jobs_cells_follow_its_partitions() -> None:
    assert "4/10  ■◆▶▶■■■▶◌·" in snapshot(BUSY)
    assert "4/10  #qGG###Gs." in snapshot(BUSY, ascii_only=True)
    young = JobRow(
        job="j", attempt=1, kind="snap", age_ms=5.0, total=16, done=0, failed=False, states=()
    )
    assert "0/16  " + "·" * 16 in snapshot(replace(BUSY, jobs=(young,)))


def test_states_have_glyphs_of_their_own() -> None:
    for style in (0, 1):
        marks = [cell[style] for cell in STATE_CELLS.values()]
        assert len(set(marks)) == len(marks)
        assert all(cells(mark) == 1 for mark in marks)


def test_a_report_has_pace_gaps_stages_and_the_figure_of_grep() -> None:
    text = report(RUN)
    assert "42.6 s a proof · 84.5 an hour" in text
    assert "139 gaps with no bracket open, 410ms on average" in text
    assert re.search(r"Lock wait +149 +1.41s +1.80s +2.50s +waiting for the GPU lock", text)
    assert "brackets add up to 178.2 %" in text
    assert "465K · 3120 lines · 2100 events · 2 torn, mended · 0 unparsed" in text


def test_several_runs_begin_with_a_table_of_them() -> None:
    text = report(*REPORTS)
    assert text.startswith("3 runs of the daemon, newest last\n")
    assert "\nRun 0 · started 2026-02-19 08:12:31 UTC" in text
    assert "\nRun 2 ·" not in text  # it brought no job: its line in the table says all


def test_a_foreign_log_says_so() -> None:
    assert report().startswith("No cuzk event in this log.\n")


def test_failed_partitions_are_listed() -> None:
    text = report(OLD_RUN)
    assert re.search(r"porep-1000-40022 +2 +7 +failed +0 +0", text)
    assert "error    at 10m12: GPU prove start failed" in text


def test_the_tally_keeps_the_longest_and_is_bounded() -> None:
    counted = tally(*(replace(ROW, partition=n, bracket_ms=n % 97) for n in range(2000)))
    assert counted.states["done"] == 2000
    assert [row.bracket_ms for row in counted.slowest] == [96] * 5
    many = tally(*(replace(FAILED_ROW, partition=n) for n in range(2000)))
    assert len(many.failed) == 10
    text = report_text([OLD_RUN], SOURCE, {1: many}, width=100, colour=False, ascii_only=False)
    assert "1990 more in --json" in text


# ---------------------------------------------------------------- what holds of every page

SGR = re.compile(r"\x1b\[[\d;]*m")


def assert_well_formed(text: str, width: int) -> None:
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    for line in text.split("\n")[:-1]:
        assert cells(line) <= width, line
        assert line == line.rstrip()
        assert line == "" or line.isprintable()


@pytest.mark.parametrize("frame", [BUSY, OLD, DEAF, EIGHT, Frame()], ids=NAMES)
def test_a_snapshot_fits_every_width(frame: Frame) -> None:
    for width in WIDTHS:
        text = snapshot(frame, width, ascii_only=width % 2 == 1)
        assert_well_formed(text, width)
        if width % 2 == 1:
            assert text.isascii()


def test_a_report_fits_every_width() -> None:
    for width in WIDTHS:
        text = report(*REPORTS, width=width, ascii_only=width % 2 == 1)
        assert_well_formed(text, width)
        if width % 2 == 1:
            assert text.isascii()


@pytest.mark.parametrize("width", [1, 39, 500])
def test_odd_widths_do_no_harm(width: int) -> None:
    assert_well_formed(snapshot(BUSY, width), max(40, width))


@pytest.mark.parametrize("frame", [BUSY, OLD, DEAF, EIGHT], ids=NAMES[:4])
def test_colour_adds_codes_and_nothing_else(frame: Frame) -> None:
    coloured = snapshot_text(frame, width=100, colour=True, ascii_only=False)
    assert SGR.search(coloured)
    assert SGR.sub("", coloured) == snapshot(frame)
    for line in coloured.splitlines():
        codes = SGR.findall(line)
        assert codes[1::2] == ["\x1b[0m"] * (len(codes) // 2)  # each line ends as it began


WORDS = st.one_of(
    st.text(max_size=90),
    st.text("证明é\u0301\u200b\x1b[0m \t–-", max_size=40),
    st.sampled_from(["porep-1000-42", LONG_JOB]),
)
PCT = st.none() | st.floats(0, 400, allow_nan=False)
MS = st.none() | st.floats(0, 1e12, allow_nan=False)
NUMBER = st.integers(0, 10**6)
CLASSES = st.lists(st.floats(0.001, 100), min_size=6, max_size=6).map(
    lambda raw: {name: 100.0 * x / sum(raw) for name, x in zip(TIME_CLASSES, raw, strict=True)}
)
SHARES_ANY = st.builds(
    Shares,
    span_ms=st.floats(0, 1e9),
    bracket_union_pct=PCT,
    bracket_sum_pct=PCT,
    lock_held_pct=PCT,
    gpu_section_pct=PCT,
    kernel_pct=PCT,
    time_pct=st.none() | CLASSES,
    lock_derived=st.booleans(),
)
HOLDING = st.builds(
    Holding,
    worker=st.none() | NUMBER,
    job=WORDS,
    partition=st.none() | NUMBER,
    since_ms=MS,
    stage=st.none() | st.sampled_from(["ntt_msm_h", "barrier"]) | WORDS,
)
HOLDINGS = st.lists(HOLDING, max_size=3).map(tuple)
NVML_ANY = st.builds(
    Nvml,
    util_pct=PCT,
    util_source=st.none() | st.just("gpm"),
    power_w=PCT,
    power_limit_w=PCT,
    sm_clock_mhz=st.none() | NUMBER,
    temperature_c=st.none() | NUMBER,
    memory_used_bytes=st.none() | NUMBER,
    memory_total_bytes=st.none() | NUMBER,
    held_down=st.none() | WORDS,
    mean_util_pct=PCT,
    mean_power_w=PCT,
    samples=NUMBER,
    age_ms=MS,
    name=st.none() | WORDS,
    note=WORDS,
)
ROWS = st.builds(
    PartitionRow,
    job=WORDS,
    attempt=NUMBER,
    partition=st.none() | NUMBER,
    kind=st.none() | WORDS,
    state=st.sampled_from([*STATE_CELLS]),
    worker=st.none() | NUMBER,
    gpu=st.none() | st.integers(0, 8),
    attribution=st.sampled_from(["exact", "inferred", "none"]),
    attribution_by=st.just({"lock": "inferred", "cpu": "exact"}),
    derived=st.just(("lock_held_ms",)),
    **{
        column.key: st.none() | st.integers(0, 10**10)
        for column in PARTITION_COLUMNS
        if column.unit == "ms"
    },
)
STAGES_ANY = st.dictionaries(
    st.sampled_from([c.key for c in PARTITION_COLUMNS if c.unit == "ms"]),
    st.builds(
        StageStats,
        count=NUMBER,
        p50=st.floats(0, 1e9),
        p95=st.floats(0, 1e9),
        max=st.floats(0, 1e9),
    ),
)
VERDICTS = st.builds(
    Verdict,
    bottleneck=st.sampled_from(["gpu", "unknown", "cpu-memory"]) | WORDS,
    confidence=st.floats(0, 1),
    sentence=WORDS,
    evidence=st.lists(WORDS, max_size=2).map(tuple),
    advice=st.lists(WORDS, max_size=2).map(tuple),
)
ALERTS = st.lists(
    st.builds(Alert, level=st.sampled_from(["error", "info"]) | WORDS, at_ms=MS, text=WORDS),
    max_size=12,
).map(tuple)
PROOFS = st.builds(
    Proofs,
    completed=NUMBER,
    failed=NUMBER,
    in_flight=NUMBER,
    lost=NUMBER,
    seconds_per_proof=st.none() | st.floats(0, 1e6),
)
SOURCES = st.builds(
    Source,
    path=WORDS,
    bytes=NUMBER,
    lines=NUMBER,
    events=NUMBER,
    silent_ms=MS,
    read_pct=PCT,
    note=WORDS,
)
FRAMES = st.builds(
    Frame,
    now_ms=st.floats(0, 1e12),
    at=st.none() | st.just("2026-02-19T08:20:11.120Z") | WORDS,
    since_ms=st.floats(0, 1e6),
    run=NUMBER,
    dialect=st.none() | WORDS,
    window_s=st.sampled_from([60.0, 0.5, 3600.0]),
    source=SOURCES,
    gpus=st.lists(
        st.builds(
            Gpu,
            gpu=NUMBER,
            workers=st.lists(NUMBER, max_size=5).map(tuple),
            lock=st.builds(
                Lock,
                holder=st.none() | HOLDING,
                waiting=HOLDINGS,
                finishing=HOLDINGS,
                candidates=HOLDINGS,
                confidence=st.sampled_from(["exact", "inferred", "none"]),
            ),
            window=st.none() | SHARES_ANY,
            nvml=st.none() | NVML_ANY,
            nvml_note=WORDS,
        ),
        max_size=2,
    ).map(tuple),
    syntheses=st.lists(
        st.builds(
            Synthesis,
            job=WORDS,
            partition=st.none() | NUMBER,
            since_ms=st.floats(0, 1e9),
            expected_ms=MS,
        ),
        max_size=3,
    ).map(tuple),
    gpu_queue=st.lists(
        st.builds(Queued, job=WORDS, partition=NUMBER, since_ms=st.floats(0, 1e9)), max_size=3
    ).map(tuple),
    jobs=st.lists(
        st.builds(
            JobRow,
            job=WORDS,
            attempt=NUMBER,
            kind=st.none() | WORDS,
            age_ms=MS,
            total=st.none() | st.integers(0, 300),
            done=NUMBER,
            failed=st.booleans(),
            states=st.lists(st.sampled_from([*STATE_CELLS]) | WORDS, max_size=20).map(tuple),
            message=WORDS,
        ),
        max_size=2,
    ).map(tuple),
    recent=st.lists(ROWS, max_size=2).map(tuple),
    proofs=PROOFS,
    verdict=VERDICTS,
    alerts=ALERTS,
    host=st.none() | st.builds(Host, cpu_pct=PCT, load_1m=PCT, daemon_pid=st.none() | NUMBER),
    host_note=WORDS,
    has_timeline=st.booleans(),
    has_timing=st.booleans(),
)
RUN_REPORTS = st.builds(
    RunReport,
    run=st.integers(0, 3),
    started=st.none() | WORDS,
    dialect=st.none() | WORDS,
    span_ms=MS,
    proofs=PROOFS,
    gpus=st.lists(
        st.builds(
            GpuReport,
            gpu=NUMBER,
            workers=st.lists(NUMBER, max_size=5).map(tuple),
            shares=SHARES_ANY,
            gap_count=NUMBER,
            gap_mean_ms=MS,
            nvml_util_pct=PCT,
            nvml_power_w=PCT,
            nvml_source=st.none() | WORDS,
        ),
        max_size=2,
    ).map(tuple),
    stages=STAGES_ANY,
    verdict=VERDICTS,
    alerts=ALERTS,
    settings=st.dictionaries(WORDS, WORDS, max_size=4),
)
QUICK = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@QUICK
@given(FRAMES, st.integers(40, 200), st.booleans())
def test_any_frame_gives_a_page(frame: Frame, width: int, ascii_only: bool) -> None:  # noqa: FBT001
    text = snapshot(frame, width, ascii_only=ascii_only)
    assert_well_formed(text, width)
    assert text.isascii() or not ascii_only


@QUICK
@given(
    st.lists(RUN_REPORTS, max_size=2),
    SOURCES,
    st.lists(ROWS, max_size=4),
    st.integers(40, 200),
    st.booleans(),
)
def test_any_report_gives_a_page(
    reports: list[RunReport],
    source: Source,
    rows: list[PartitionRow],
    width: int,
    ascii_only: bool,  # noqa: FBT001
) -> None:
    tallies = {0: tally(*rows)}
    text = report_text(reports, source, tallies, width=width, colour=False, ascii_only=ascii_only)
    assert_well_formed(text, width)
    assert text.isascii() or not ascii_only


def test_the_headless_side_stays_light() -> None:
    code = (
        "import sys, cuzktop.headless.text, cuzktop.headless.report, cuzktop.headless.snapshot;"
        "print([m for m in ('textual', 'rich', 'pynvml', 'psutil', 'asyncio', 'argparse')"
        " if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_a_measured_report_names_its_source() -> None:
    assert "NVML by utilization.gpu, 488 samples" in report(RUN)
    unnamed = replace(RUN, gpus=(replace(GPU_REPORT, nvml_source=None),))
    assert "NVML by unknown source" in report(unnamed)
