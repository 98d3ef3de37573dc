from __future__ import annotations

import gzip
import json
import os
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzktop.analysis import summary
from cuzktop.cli import main
from cuzktop.errors import CuzktopError, SourceUnreadableError, UsageError
from cuzktop.events import GpuSampled
from cuzktop.sources.samples import GpuMeans, means_by_gpu, read_samples
from tests.canned import log_bytes

MIB = 1024 * 1024
H200_CSV = Path(__file__).parent.parent / "data" / "h200_nvidia_smi.csv"


def ms(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000.0


@pytest.fixture
def csv(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "gpu.csv"  # noqa: PT022


def rows(path: Path, text: str, *, utc: bool = True) -> list[GpuSampled]:
    path.write_text(text, encoding="utf-8", newline="")
    return list(read_samples(path, utc=utc))


# ------------------------------------------------------------------------------- columns


def test_a_recording_of_an_h200_reads_as_it_is() -> None:
    first, second, *_ = read_samples(H200_CSV, utc=True)
    assert first == GpuSampled(
        at_ms=ms("2026-11-30 09:07:36.950"),
        gpu=0,
        util_pct=0.0,
        util_source="utilization.gpu",
        util_window_ms=200.0,
        power_w=184.77,
        sm_clock_mhz=1980,
        temperature_c=41,
        memory_used_bytes=3009 * MIB,
        name="NVIDIA H200",
    )
    assert second.util_window_ms == pytest.approx(100.0)


def test_columns_come_in_any_order_with_or_without_units(csv: Path) -> None:
    with_units = rows(
        csv,
        "utilization.gpu [%], clocks.current.memory [MHz], index, memory.total [MiB], timestamp, "
        "power.limit [W], memory.used [MiB], power.draw [W]\n"
        "46 %, 3201 MHz, 2, 143771 MiB, 2026/11/30 09:08:20.156, 700.00 W, 615 MiB, 128.87 W\n",
    )
    without = rows(
        csv,
        "timestamp,power.limit,power.draw,memory.used,memory.total,clocks.mem,utilization.gpu,index\n"
        "2026/11/30 09:08:20.156,700.00,128.87,615,143771,3201,46,2\n",
    )
    assert with_units == without
    (row,) = with_units
    assert (row.gpu, row.util_pct, row.power_w, row.power_limit_w) == (2, 46.0, 128.87, 700.0)
    assert (row.memory_used_bytes, row.memory_total_bytes) == (615 * MIB, 143771 * MIB)
    assert row.memory_clock_mhz == 3201
    assert row.at_ms == pytest.approx(ms("2026-11-30 09:08:20.156"))


def test_instant_power_is_preferred_where_there_is_a_figure(csv: Path) -> None:
    read = rows(
        csv,
        "timestamp, power.draw [W], power.draw.instant [W]\n"
        "2026/11/30 09:08:20.100, 100.00 W, 300.00 W\n"
        "2026/11/30 09:08:20.200, 101.00 W, [N/A]\n",
    )
    assert [row.power_w for row in read] == [300.0, 101.0]


@pytest.mark.parametrize(
    "cell", ["[N/A]", "[Not Supported]", "N/A", "", "[GPU is lost]", "nan", "inf", "-1 %", "255 %"]
)
def test_a_cell_that_is_no_figure_is_unknown_and_the_others_stay(csv: Path, cell: str) -> None:
    (row,) = rows(
        csv,
        "timestamp, index, utilization.gpu [%], power.draw [W]\n"
        f"2026/11/30 09:08:20.156, 0, {cell}, 128.87 W\n",
    )
    assert row.util_pct is None
    assert row.power_w == 128.87


def test_more_memory_used_than_there_is_is_no_figure(csv: Path) -> None:
    (row,) = rows(
        csv, "timestamp, memory.used, memory.total\n2026/11/30 09:08:20.156, 99999, 1000\n"
    )
    assert row.memory_used_bytes is None


@pytest.mark.parametrize(
    ("header", "cells", "words"),
    [
        ("clocks_event_reasons.active", "0x0000000000000004", "power cap"),
        ("clocks_throttle_reasons.active", "0x0000000000000001", ""),
        ("clocks_throttle_reasons.sw_power_cap", "Active", "power cap"),
        ("clocks_event_reasons.sw_power_cap", "Not Active", None),
        ("clocks_event_reasons.active", "[N/A]", None),
    ],
)
def test_what_holds_the_clocks_down_is_in_words(
    csv: Path, header: str, cells: str, words: str | None
) -> None:
    (row,) = rows(csv, f"timestamp, {header}\n2026/11/30 09:08:20.156, {cells}\n")
    assert row.held_down == words


# ------------------------------------------------------------------------------- which GPU


def test_several_gpus_each_have_their_own_period(csv: Path) -> None:
    read = rows(
        csv,
        "timestamp, index, utilization.gpu [%]\n"
        "2026/11/30 09:08:20.000, 0, 10 %\n"
        "2026/11/30 09:08:20.003, 1, 90 %\n"
        "2026/11/30 09:08:20.100, 0, 20 %\n"
        "2026/11/30 09:08:20.104, 1, 80 %\n",
    )
    assert [(row.gpu, row.util_pct, round(row.util_window_ms)) for row in read] == [
        (0, 10.0, 200),
        (1, 90.0, 200),
        (0, 20.0, 100),
        (1, 80.0, 101),
    ]


def test_without_an_index_gpus_are_numbered_as_they_appear(csv: Path) -> None:
    read = rows(
        csv,
        "timestamp, uuid, utilization.gpu [%]\n"
        "2026/11/30 09:08:20.000, GPU-b, 10 %\n"
        "2026/11/30 09:08:20.003, GPU-a, 90 %\n"
        "2026/11/30 09:08:20.100, GPU-b, 20 %\n"
        "2026/11/30 09:08:20.100, [GPU is lost], 20 %\n",
    )
    assert [(row.gpu, row.util_pct) for row in read] == [(0, 10.0), (1, 90.0), (0, 20.0)]


def test_without_any_name_of_a_gpu_it_is_the_only_one(csv: Path) -> None:
    (row,) = rows(csv, "timestamp, utilization.gpu [%]\n2026/11/30 09:08:20.000, 10 %\n")
    assert row.gpu == 0


# ------------------------------------------------------------------------------- time


@pytest.fixture
def berlin() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "CET-1CEST,M3.5.0,M10.5.0/3"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_times_are_the_machines_unless_utc_is_said(csv: Path) -> None:
    text = "timestamp, utilization.gpu\n2026/07/30 09:08:20.156, 10\n"
    (local,) = rows(csv, text, utc=False)
    (utc,) = rows(csv, text, utc=True)
    assert utc.at_ms == pytest.approx(ms("2026-07-30 09:08:20.156"))
    assert local.at_ms == pytest.approx(ms("2026-07-30 07:08:20.156"))


@pytest.mark.usefixtures("berlin")
def test_the_hour_that_comes_twice_in_autumn_does_not_run_backwards(csv: Path) -> None:
    stamps = ["02:58", "02:59", "02:00", "02:01", "02:59", "03:00"]
    read = rows(
        csv,
        "timestamp, utilization.gpu\n"
        + "".join(f"2026/10/25 {stamp}:00.000, 10\n" for stamp in stamps),
        utc=False,
    )
    minutes = [round((b.at_ms - a.at_ms) / 60_000) for a, b in pairwise(read)]
    assert minutes == [1, 1, 1, 58, 1]


def test_after_a_pause_a_row_does_not_speak_for_the_pause(csv: Path) -> None:
    *_, last = rows(
        csv,
        "timestamp, utilization.gpu\n2026/11/30 09:08:20.000, 10\n2026/11/30 10:08:20.000, 90\n",
    )
    assert last.util_window_ms == 10_000.0


# ------------------------------------------------------------------------------- damage


def test_torn_rows_are_left_out_and_a_torn_last_cell_is_not_believed(csv: Path) -> None:
    read = rows(
        csv,
        "timestamp, index, utilization.gpu [%], temperature.gpu\n"
        "2026/11/30 09:08:20.000, 0, 10 %, 41\n"
        "2026/11/30 09:08:2026/11/30 09:08:20.200, 0, 30 %, 41\n"
        "2026/11/30 09:0\n"
        "\0\0\0\0\n"
        "2026/11/30 09:08:20.400, 0, 50 %, 4",
    )
    assert [(row.util_pct, row.temperature_c) for row in read] == [(10.0, 41), (50.0, None)]


@pytest.mark.parametrize("keep", range(1, 80))
def test_a_file_cut_anywhere_gives_only_figures_that_were_in_it(csv: Path, keep: int) -> None:
    header = "timestamp, index, utilization.gpu [%], power.draw [W]\n"
    row = "2026/11/30 09:08:20.156, 10, 98 %, 128.87 W\r\n"
    for read in rows(csv, header + (row + row)[:keep]):
        assert read.gpu == 10
        assert read.util_pct == 98.0
        assert read.power_w in (128.87, None)


def test_headers_in_between_are_obeyed(csv: Path) -> None:
    read = rows(
        csv,
        "timestamp, index, utilization.gpu [%]\n"
        "2026/11/30 09:08:20.000, 0, 10 %\n"
        "timestamp, index, utilization.gpu [%]\n"
        "2026/11/30 09:08:21.000, 0, 20 %\n"
        "timestamp, utilization.gpu [%], index, power.draw [W]\n"
        "2026/11/30 09:08:22.000, 30 %, 0, 99.00 W\n",
    )
    assert [(row.util_pct, row.power_w) for row in read] == [
        (10.0, None),
        (20.0, None),
        (30.0, 99.0),
    ]


def test_windows_line_ends_a_byte_order_mark_and_talk_before_the_header(csv: Path) -> None:
    csv.write_bytes(
        b"\xef\xbb\xbfWarning: persistence mode is disabled\r\n\r\n"
        b"timestamp, utilization.gpu [%]\r\n2026/11/30 09:08:20.000, 10 %\r\n"
    )
    (row,) = read_samples(csv, utc=True)
    assert row.util_pct == 10.0


def test_rows_are_streamed(csv: Path) -> None:
    csv.write_text("timestamp, utilization.gpu\n" + "2026/11/30 09:08:20.000, 10\n" * 50_000)
    reading = read_samples(csv, utc=True)
    assert next(reading).util_pct == 10.0
    csv.unlink()  # nothing was read ahead of need, nothing is opened again
    assert sum(1 for _ in reading) == 49_999


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "are empty"),
        ("\n\n", "are empty"),
        ("index, utilization.gpu\n0, 10\n", "no timestamp column"),
        ("2026/11/30 09:08:20.000, 0, 10 %\n", "without noheader"),
        ("\x7fELF\x02\x01" * 50_000, "no timestamp column"),
    ],
)
def test_a_file_that_is_no_recording_is_one_clear_line(csv: Path, text: str, words: str) -> None:
    csv.write_text(text)
    with pytest.raises(UsageError, match=words) as caught:
        read_samples(csv, utc=True)
    assert str(csv) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_gzip_reads_as_what_is_in_it_and_a_damaged_one_is_said(csv: Path) -> None:
    packed = gzip.compress(H200_CSV.read_bytes())
    csv.write_bytes(packed)
    assert list(read_samples(csv, utc=True)) == list(read_samples(H200_CSV, utc=True))
    for damaged in (packed[: len(packed) // 2], packed[:9], packed[:12] + b"\xff" * 500):
        csv.write_bytes(damaged)
        with pytest.raises(SourceUnreadableError, match=re.escape(str(csv))) as caught:
            list(read_samples(csv, utc=True))
        assert "\n" not in str(caught.value)


def test_a_stream_is_refused_before_anything_is_taken_from_it(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(SourceUnreadableError, match="save it to a file"):
        read_samples(fifo, utc=True)


@pytest.mark.parametrize(
    ("column", "cell", "name"),
    [
        ("power.draw", "1e300 W", "power_w"),
        ("enforced.power.limit", "1e300 W", "power_limit_w"),
        ("memory.used", "1e308 MiB", "memory_used_bytes"),
        ("memory.total", "1e308 MiB", "memory_total_bytes"),
        ("clocks.sm", "1e300 MHz", "sm_clock_mhz"),
        ("clocks.mem", "1e300 MHz", "memory_clock_mhz"),
        ("temperature.gpu", "1e300", "temperature_c"),
    ],
)
def test_a_figure_that_no_card_has_is_unknown(csv: Path, column: str, cell: str, name: str) -> None:
    text = f"timestamp, utilization.gpu, {column}\n2026/11/30 09:08:20.000, 10, {cell}\n"
    (row,) = rows(csv, text)
    assert getattr(row, name) is None
    assert row.util_pct == 10.0


@pytest.mark.parametrize("index", ["9" * 5000, "99999", "-1", "x", "\u0663"])
def test_a_row_of_no_card_is_left_out(csv: Path, index: str) -> None:
    text = "timestamp, index, utilization.gpu\n2026/11/30 09:08:20.000, {}, 10\n"
    assert rows(csv, text.format(index)) == []


def test_a_time_that_says_it_is_utc_is(csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        text = "timestamp, utilization.gpu\n2026-11-30T09:08:20.000Z, 10\n"
        assert rows(csv, text, utc=False)[0].at_ms == ms("2026-11-30 09:08:20")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_missing_file_and_a_directory_are_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadableError, match="no such file"):
        read_samples(tmp_path / "none.csv", utc=True)
    with pytest.raises(SourceUnreadableError, match="name the CSV file"):
        read_samples(tmp_path, utc=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_is_not_ours_to_read_is_said(csv: Path) -> None:
    csv.write_text("timestamp\n")
    csv.chmod(0)
    with pytest.raises(CuzktopError, match="permission"):
        read_samples(csv, utc=True)


# ------------------------------------------------------------------------------- means


def reading(
    at_ms: float,
    util_pct: float | None,
    window_ms: float,
    *,
    gpu: int = 0,
    source: str = "utilization.gpu",
    power_w: float | None = None,
) -> GpuSampled:
    return GpuSampled(
        at_ms=at_ms,
        gpu=gpu,
        util_pct=util_pct,
        util_source=source,
        util_window_ms=window_ms,
        power_w=power_w,
    )


def time_weighted_means(
    readings: Iterable[GpuSampled], start_ms: float, end_ms: float, *, gpu: int = 0
) -> GpuMeans:
    return means_by_gpu(readings, {gpu: (start_ms, end_ms)})[gpu]


def test_readings_weigh_what_they_cover_inside_the_span() -> None:
    readings = [
        reading(1000.0, 0.0, 1000.0, power_w=100.0),
        reading(2000.0, 100.0, 1000.0, power_w=200.0),
        reading(5000.0, 50.0, 3000.0, power_w=300.0),
        reading(6000.0, 80.0, 1000.0, power_w=400.0),
    ]
    means = time_weighted_means(readings, 1500.0, 5500.0)
    assert means.util_pct == pytest.approx((100 * 500 + 50 * 3000 + 80 * 500) / 4000)
    assert means.power_w == pytest.approx((200 * 500 + 300 * 3000 + 400 * 500) / 4000)
    assert (means.samples, means.source) == (3, "utilization.gpu")


def test_nothing_read_in_the_span_is_unknown() -> None:
    nothing = GpuMeans(util_pct=None, power_w=None, samples=0, source=None)
    assert time_weighted_means([], 0.0, 1000.0) == nothing
    assert time_weighted_means([reading(9000.0, 50.0, 100.0)], 0.0, 1000.0) == nothing
    assert means_by_gpu([reading(500.0, 50.0, 100.0)], {1: (0.0, 1000.0)}) == {1: nothing}


def test_time_that_no_reading_covers_counts_for_nothing() -> None:
    readings = [
        reading(1000.0, 40.0, 1000.0),
        reading(2000.0, None, 1000.0),
        reading(9000.0, 60.0, 1000.0),
    ]
    assert time_weighted_means(readings, 0.0, 9000.0).util_pct == pytest.approx(50.0)


def test_two_kinds_of_figure_are_not_mixed() -> None:
    readings = [
        reading(1000.0, 99.0, 200.0),
        reading(2000.0, 40.0, 1000.0, source="gpm"),
        reading(3000.0, 42.0, 1000.0, source="gpm"),
    ]
    means = time_weighted_means(readings, 0.0, 3000.0)
    assert means.util_pct == pytest.approx(41.0)
    assert (means.samples, means.source) == (2, "gpm")


def test_each_gpu_has_its_own_span_and_one_pass_is_enough() -> None:
    readings = [
        reading(at_ms, util_pct, 1000.0, gpu=gpu)
        for at_ms in (1000.0, 2000.0)
        for gpu, util_pct in ((0, at_ms / 100), (1, 90.0))
    ]
    means = means_by_gpu(iter(readings), {0: (1000.0, 2000.0), 1: (0.0, 2000.0)})
    assert (means[0].util_pct, means[0].samples) == (20.0, 1)
    assert (means[1].util_pct, means[1].samples) == (90.0, 2)
    assert time_weighted_means(readings, 1000.0, 2000.0, gpu=0) == means[0]


@given(st.lists(st.floats(0, 100), min_size=2, max_size=60))
def test_even_ticks_weigh_the_same(utils: list[float]) -> None:
    readings = [reading(100.0 * n, util, 100.0) for n, util in enumerate(utils)]
    means = time_weighted_means(readings, 0.0, readings[-1].at_ms)
    assert means.util_pct == pytest.approx(sum(utils[1:]) / len(utils[1:]))


@given(st.integers(0, 2**32), st.floats(0, 300), st.floats(40_400, 40_700))
def test_a_span_that_cuts_a_tick_agrees_with_the_plain_mean(
    seed: int, start_ms: float, end_ms: float
) -> None:
    levels = random.Random(seed)
    readings = [reading(100.0 * n, levels.choice((0.0, 100.0)), 100.0) for n in range(410)]
    inside = [r.util_pct or 0.0 for r in readings if start_ms < r.at_ms <= end_ms]
    means = time_weighted_means(readings, start_ms, end_ms)
    assert means.util_pct == pytest.approx(sum(inside) / len(inside), abs=0.5)


@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.integers(0, 100), st.integers(1, 80)),
        min_size=1,
        max_size=20,
    ),
    st.integers(0, 300),
    st.integers(1, 300),
)
def test_means_equal_a_count_of_milliseconds(
    ticks: list[tuple[int, int, int]], start: int, length: int
) -> None:
    readings, now = [], 0
    for step, util, window in ticks:
        now += step
        readings.append(reading(float(now), float(util), float(window)))
    inside: list[float] = []
    edge = -1000  # before every reading
    for read in readings:
        begin = max(int(read.at_ms - read.util_window_ms), edge)
        inside += [
            read.util_pct or 0.0
            for instant in range(begin, int(read.at_ms))
            if start <= instant < start + length
        ]
        edge = int(read.at_ms)
    means = time_weighted_means(readings, float(start), float(start + length))
    if inside:
        assert means.util_pct == pytest.approx(sum(inside) / len(inside))
    else:
        assert means.util_pct is None


def test_the_mean_of_a_real_recording_is_near_the_plain_mean_of_its_ticks() -> None:
    readings = list(read_samples(H200_CSV, utc=True))
    start_ms, end_ms = readings[10].at_ms, readings[-10].at_ms
    inside = [r.util_pct for r in readings if start_ms < r.at_ms <= end_ms]
    plain = sum(util or 0.0 for util in inside) / len(inside)
    means = time_weighted_means(readings, start_ms, end_ms)
    assert means.util_pct == pytest.approx(plain, abs=0.5)


# ------------------------------------------------------------------------------- beside a log


DEMO = Path(__file__).parent.parent.parent / "demo_logs" / "h200-one-gpu"


def report_beside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[str], str]
) -> tuple[dict[str, Any], str]:
    """A real run's report with its real readings, each row changed; and what stderr says.

    The readings go on for half a minute after it.
    """
    head, *rows = (DEMO / "gpu.csv").read_text().splitlines()
    csv = tmp_path / "gpu.csv"
    idle = [re.sub(r"\d+ %", "0 %", moved(rows[-1], 0.1 * tick)) for tick in range(1, 300)]
    csv.write_text("\n".join([head, *map(change, [*rows, *idle])]) + "\n")
    log = str(next(DEMO.glob("daemon.log*")))
    assert main(["report", log, "--json", "--samples", str(csv), "--samples-utc"]) == 0
    told = capsys.readouterr()
    (run,) = json.loads(told.out)["runs"]
    return run, told.err


def moved(row: str, seconds: float) -> str:
    stamp, rest = row.split(",", 1)
    at = datetime.strptime(stamp, "%Y/%m/%d %H:%M:%S.%f") + timedelta(seconds=seconds)  # noqa: DTZ007
    return f"{at:%Y/%m/%d %H:%M:%S.%f},{rest}"


def test_readings_whose_clock_is_right_are_used_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, said = report_beside(tmp_path, capsys, lambda row: row)
    assert said == ""
    assert run["gpus"][0]["suspects"] == []
    assert run["gpus"][0]["nvml"]["util_pct"] > 20.0


@pytest.mark.parametrize(("seconds", "way"), [(20.0, "ahead of"), (-20.0, "behind")])
def test_a_clock_offset_between_log_and_readings_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seconds: float, way: str
) -> None:
    _, said = report_beside(tmp_path, capsys, lambda row: moved(row, seconds))
    found = re.search(r"clock seems to be about ([\d.]+)s (.*) the log's", said)
    assert found is not None, said
    assert float(found[1]) == pytest.approx(20.0, abs=4.0)
    assert found[2] == way


def test_a_log_that_was_copied_while_the_readings_went_on_has_no_clock_that_is_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = log_bytes(next(DEMO.glob("daemon.log*")))
    for share in (0.5, 0.8):
        (tmp_path / "part.log").write_bytes(text[: int(share * len(text))])
        arguments = ["report", str(tmp_path / "part.log"), "--json", "--samples"]
        assert main([*arguments, str(DEMO / "gpu.csv"), "--samples-utc"]) == 0
        told = capsys.readouterr()
        assert told.err == ""
        assert json.loads(told.out)["runs"][0]["gpus"][0]["nvml"]["util_pct"] > 20.0


def test_a_clock_offset_is_said_of_a_run_whose_older_calls_are_forgotten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "FOLD_CALLS", 8)
    monkeypatch.setattr(summary, "KEEP_CALLS", 40)
    assert report_beside(tmp_path, capsys, lambda row: row)[1] == ""
    _, said = report_beside(tmp_path, capsys, lambda row: moved(row, -20.0))
    assert "behind the log's" in said


def test_readings_of_another_time_zone_are_said_to_be_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, said = report_beside(tmp_path, capsys, lambda row: moved(row, 7200.0))
    assert "another time" in said
    assert "2h00 ahead of the log's" in said
    assert run["gpus"][0]["nvml"] is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda row: re.sub(r"\d+ %", "[N/A]", row), "GPU 0 say nothing of its use"),
        (lambda row: row.replace(", 0, NV", ", 3, NV"), "are of GPU 3, none of GPU 0"),
        (lambda row: row.replace("2026/", "0000/"), "there are no GPU readings"),
    ],
)
def test_why_readings_are_not_used_is_said_as_it_is(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[str], str],
    words: str,
) -> None:
    run, said = report_beside(tmp_path, capsys, change)
    assert words in said
    assert "another time" not in said
    assert said.count("\n") == 1
    assert run["gpus"][0]["nvml"] is None


def test_readings_that_run_backwards_are_said_to_do_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (DEMO / "gpu.csv").read_text().splitlines()[:0:-1]
    again = iter(rows * 2)
    _, said = report_beside(tmp_path, capsys, lambda _: next(again))
    assert "in order of time" in said


def test_readings_that_stay_at_0_are_not_credible_and_decide_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = report_beside(tmp_path, capsys, lambda row: re.sub(r"\d+ %", "0 %", row))
    gpu = run["gpus"][0]
    assert gpu["nvml"]["util_pct"] == 0.0
    assert "NVML not credible" in gpu["suspects"][0]
    assert not any("measured the GPU busy" in text for text in run["verdict"]["evidence"])
