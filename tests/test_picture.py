"""The live half: what a frame holds after any events, and that it doesn't matter how they came."""

from __future__ import annotations

import functools
import gzip
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzktop.columns import partition_json
from cuzktop.events import (
    Event,
    GpuProcess,
    GpuSampled,
    GpuSamplerNote,
    HostSampled,
    PlayedAgain,
    SourceNote,
)
from cuzktop.frame import Alert, Frame, Gpu, Nvml, PartitionRow, Source
from cuzktop.headless.snapshot import snapshot_document
from cuzktop.parse.scanner import LogScanner
from cuzktop.picture import HISTORY_S, SUMMED_MS, Picture
from cuzktop.sources.demos import demo
from cuzktop.tui.widgets.alerts import notice
from tests import logsim

SOURCE = Source(path="daemon.log")
EPOCH_MS = 1_771_488_751_442.0  # 2026-02-19T08:12:31.442Z
START_UP = b"""\
2026-02-19T08:12:31.402000Z  INFO cuzk_daemon: cuzk-daemon starting
2026-02-19T08:12:31.442000Z  INFO cuzk_core::engine: starting cuzk engine pipeline_enabled=true
2026-02-19T08:12:31.444000Z  INFO cuzk_core::engine: pipeline GPU worker started worker_id=0 \
gpu=0 sub_id=0
"""


@functools.cache
def log_of(name: str) -> bytes:
    """A demo's log."""
    return gzip.decompress(demo(name).log.read_bytes())


def document(picture: Picture, scanner: LogScanner) -> dict[str, Any]:
    """Everything that a snapshot would print."""
    counts = scanner.counts
    source = Source(path="x", bytes=counts.bytes, lines=counts.lines, events=counts.events)
    return snapshot_document(picture.frame(source=source))


def fed(*pieces: bytes) -> tuple[Picture, LogScanner]:
    """A picture of a log that came in pieces."""
    picture, scanner = Picture(), LogScanner()
    for piece in pieces:
        picture.feed(scanner.feed(piece))
    return picture, scanner


# ---------------------------------------------------------------- how the log came


@settings(max_examples=25, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize(("name", "size"), [("h200-two-gpus", 200_000), ("failures", 420_000)])
def test_a_log_in_two_pieces_tells_the_same(name: str, size: int, data: st.DataObject) -> None:
    """Cut anywhere, in a torn line or beyond a restart of the daemon, too."""
    log = log_of(name)[-size:]
    cut = data.draw(st.integers(0, size))
    assert document(*fed(log[:cut], log[cut:])) == whole(name, size)


@functools.cache
def whole(name: str, size: int) -> dict[str, Any]:
    return document(*fed(log_of(name)[-size:]))


def test_a_log_in_small_pieces_with_a_frame_after_each_tells_the_same() -> None:
    """To look changes nothing."""
    log = log_of("h200-two-gpus")[:200_000]
    picture, scanner = Picture(), LogScanner()
    for at in range(0, len(log), 997):
        picture.feed(scanner.feed(log[at : at + 997]))
        picture.frame(source=SOURCE)
    assert document(picture, scanner) == document(*fed(log))


@pytest.mark.parametrize("name", ["h200-two-gpus", "failures", "herd"])
def test_a_paced_picture_is_a_second_behind_at_most(name: str) -> None:
    """Many frames a second: what is worked out seldom is right again when it is due."""
    log = log_of(name)[:400_000]
    paced, scanner = Picture(pace_ms=950.0), LogScanner()
    for at in range(0, len(log), 997):
        paced.feed(scanner.feed(log[at : at + 997]))
        paced.frame(source=SOURCE)
    fresh, _ = fed(log)
    later = fresh.model.run.clock + SUMMED_MS
    frames = [one.frame(source=SOURCE, now_ms=later) for one in (paced, fresh)]
    assert snapshot_document(frames[0]) == snapshot_document(frames[1])
    rows = [[partition_json(row) for row in frame.in_flight] for frame in frames]
    assert rows[0] == rows[1]


def plain(one: object) -> object:
    """All that is in a part of a frame, down to its figures."""
    names = getattr(one, "__dataclass_names__", None)
    if names is not None:
        return {name: plain(getattr(one, name)) for name in names}
    if isinstance(one, str):
        return one
    if isinstance(one, Mapping):
        return {key: plain(value) for key, value in one.items()}
    return [plain(item) for item in one] if isinstance(one, Sequence) else one


@settings(max_examples=10, deadline=None)
@given(pieces=st.lists(st.integers(1, 30_000), min_size=5, max_size=30), late=st.integers(0, 3000))
@pytest.mark.parametrize("name", ["h200-two-gpus", "failures", "herd"])
def test_a_picture_that_is_looked_at_meanwhile_is_the_one_made_afresh(
    name: str, pieces: list[int], late: int
) -> None:
    """With histories, means, rows and sums: whatever is kept from one look to the next."""
    log, scanner, at = log_of(name), LogScanner(), 0
    kept, fresh = Picture(), Picture()
    for number, size in enumerate(pieces):
        events = scanner.feed(log[at : at + size])
        at += size
        for picture in (kept, fresh):
            picture.feed(events)
        run = kept.model.run
        now_ms = run.clock + late * (number % 3)
        if run.epoch_us is not None:
            wall_ms = run.epoch_us / 1000.0 + now_ms
            taken = reading(wall_ms - EPOCH_MS, float(size % 101), power_w=300.0 + number)
            for picture in (kept, fresh):
                picture.feed([taken._replace(util_window_ms=200.0 + size % 4000)])
        kept.frame(source=SOURCE, now_ms=now_ms)
    now_ms = kept.model.run.clock + late
    frames = [picture.frame(source=SOURCE, now_ms=now_ms) for picture in (kept, fresh)]
    assert plain(frames[0]) == plain(frames[1])


def test_within_its_pace_a_picture_keeps_what_it_worked_out() -> None:
    paced, scanner = Picture(pace_ms=950.0), LogScanner()
    paced.feed(scanner.feed(log_of("h200-two-gpus")[:400_000]))
    clock = paced.model.run.clock
    one, soon, later = (
        paced.frame(source=SOURCE, now_ms=clock + ms) for ms in (0.0, 900.0, 1000.0)
    )
    assert soon.verdict is one.verdict
    assert soon.gpus[0].window is one.gpus[0].window
    assert soon.recent is one.recent
    assert soon.syntheses[0].age_ms(soon.now_ms) - one.syntheses[0].age_ms(one.now_ms) == 900.0
    assert later.gpus[0].window is not one.gpus[0].window


@pytest.mark.parametrize("before_ms", [0.0, 500.0])
def test_while_its_clock_stands_a_picture_comes_to_be_of_that_very_moment(
    before_ms: float,
) -> None:
    """A recording that is over or paused: what is due in a second never will be."""
    log = log_of("h200-two-gpus")[:400_000]
    fresh, scanner = fed(log)
    wall_ms = EPOCH_MS + fresh.model.run.clock
    expected = fresh.frame(source=SOURCE, wall_ms=wall_ms)
    paced, scanner = Picture(pace_ms=950.0), LogScanner()
    paced.feed(scanner.feed(log[:-40_000]))
    paced.frame(source=SOURCE, wall_ms=wall_ms - 60_000.0)
    paced.feed(scanner.feed(log[-40_000:-4_000]))
    paced.frame(source=SOURCE, wall_ms=wall_ms - before_ms)
    paced.feed(scanner.feed(log[-4_000:]))
    paced.frame(source=SOURCE, wall_ms=wall_ms)
    last = paced.frame(source=SOURCE, wall_ms=wall_ms)
    assert snapshot_document(last) == snapshot_document(expected)
    again = paced.frame(source=SOURCE, wall_ms=wall_ms)
    assert again.verdict is last.verdict


# ---------------------------------------------------------------- the cards' readings


def reading(at_ms: float, util_pct: float | None, **more: Any) -> GpuSampled:  # noqa: ANN401
    """A reading that covers the 200 ms before `at_ms`, on the run's clock."""
    figures: dict[str, Any] = {"util_window_ms": 200.0, "gpu": 0, "util_source": "samples", **more}
    return GpuSampled(at_ms=EPOCH_MS + at_ms, util_pct=util_pct, **figures)


def picture_of(events: Sequence[Event], **options: float) -> Picture:
    """A daemon that has just started, and what was measured beside it."""
    picture = Picture(**options)
    picture.feed(LogScanner().feed(START_UP))
    picture.feed(events)
    return picture


def gpu_at(picture: Picture, now_ms: float, number: int = 0) -> Gpu:
    frame = picture.frame(source=SOURCE, now_ms=now_ms)
    return next(gpu for gpu in frame.gpus if gpu.gpu == number)


def nvml_at(picture: Picture, now_ms: float) -> Nvml:
    nvml = gpu_at(picture, now_ms).nvml
    assert nvml is not None
    return nvml


def test_readings_become_a_bin_a_second() -> None:
    """Five readings a second, each second with a level of its own; none from 20 s to 30 s."""
    events = [
        reading(200.0 * n - 100.0, float(n - 1) // 5, power_w=350.0, power_limit_w=700.0)
        for n in range(1, 201)
        if not 100 < n <= 150
    ]
    nvml = nvml_at(picture_of(events), 40_000.0)
    assert len(nvml.util_history) == len(nvml.power_history) == HISTORY_S
    assert nvml.util_history[:-40] == (None,) * (HISTORY_S - 40)
    expected = [None if 20 <= second < 30 else second for second in range(40)]
    assert list(nvml.util_history[-40:]) == expected
    assert set(nvml.power_history[-40:]) == {50.0, None}


def test_means_are_weighted_by_the_time_that_a_reading_covers() -> None:
    """Checked with a figure for each millisecond of the window."""
    events, covered, at = [], [math.nan] * 30_000, 0
    for n, window in enumerate([200, 1000, 350, 5000, 130, 700, 2500] * 3):
        at += window
        util = float(7 * n % 101)
        events.append(reading(at, util, util_window_ms=float(window), power_w=100.0 + n))
        covered[at - window : at] = [util] * window
    last = covered[at - 10_000 : at]
    nvml = nvml_at(picture_of(events, window_s=10.0), float(at))
    assert nvml.mean_util_pct == pytest.approx(sum(last) / len(last))
    assert nvml.mean_power_w is not None
    assert 100.0 < nvml.mean_power_w < 121.0
    assert nvml.util_source == "samples"


def test_what_was_not_read_is_unknown_and_the_rest_is_shown() -> None:
    events = [reading(200.0 * n, None, power_w=300.0) for n in range(1, 51)]
    nvml = nvml_at(picture_of(events), 10_000.0)
    assert (nvml.util_pct, nvml.mean_util_pct, nvml.mean_power_w) == (None, None, 300.0)
    assert set(nvml.util_history) == {None}
    assert set(nvml.power_history) == {None}  # its limit is not known


def test_the_last_good_reading_shows_its_age() -> None:
    nvml = nvml_at(picture_of([reading(1000.0, 80.0)]), 31_000.0)
    assert (nvml.util_pct, nvml.age_ms) == (80.0, 30_000.0)


def test_a_number_that_another_card_has_now_forgets_the_one_before() -> None:
    """A daemon that was started anew with another CUDA_VISIBLE_DEVICES."""
    before = [reading(200.0 * n, 90.0, uuid="GPU-a") for n in range(1, 101)]
    after = [reading(200.0 * n, 10.0, uuid="GPU-b") for n in range(101, 301)]
    nvml = nvml_at(picture_of([*before, *after]), 60_000.0)
    assert nvml.mean_util_pct == pytest.approx(10.0)
    assert 90.0 not in nvml.util_history


def test_a_moment_is_no_mean_over_a_minute() -> None:
    """Readings that go along with less than half of the window give no figure for it."""
    events = [reading(200.0 * n, 30.0) for n in range(1, 151)]
    nvml = nvml_at(picture_of(events[:140]), 60_000.0)
    assert (nvml.mean_util_pct, nvml.note) == (None, "measured for 28 of 60 s")
    assert nvml_at(picture_of(events), 60_000.0).mean_util_pct == pytest.approx(30.0)


def test_readings_of_now_say_nothing_of_a_log_that_ended_long_ago() -> None:
    """A minute's readings; the log is silent for one minute, or for an hour."""
    picture = picture_of([reading(200.0 * n, 30.0) for n in range(1, 301)])
    lately = Source(path="daemon.log", silent_ms=60_000.0)
    fresh = picture.frame(source=lately, now_ms=60_000.0).gpus[0].nvml
    assert fresh is not None
    assert fresh.mean_util_pct == pytest.approx(30.0)
    assert not fresh.of_now
    old = Source(path="daemon.log", silent_ms=3_600_000.0)
    frame = picture.frame(source=old, now_ms=60_000.0)
    now = frame.gpus[0].nvml
    assert now is not None
    assert (now.util_pct, now.mean_util_pct, now.mean_power_w, now.of_now) == (
        30.0,
        None,
        None,
        True,
    )


@pytest.mark.parametrize("util", [(0.0, 0.0), (0.0, 85.0)])
def test_a_card_that_reads_0_while_its_kernels_run_settles_nothing(
    util: tuple[float, float],
) -> None:
    scanner, picture = LogScanner(), Picture()
    picture.feed(scanner.feed(log_of("h200-two-gpus")))
    run = picture.model.run
    assert run.epoch_us is not None
    end_ms = run.epoch_us / 1000.0 + run.clock - EPOCH_MS
    for gpu, util_pct in enumerate(util):
        picture.feed(reading(end_ms - 250.0 * n, util_pct, gpu=gpu) for n in range(400, -1, -1))
    verdict = picture.frame(source=Source(path="daemon.log")).verdict
    assert verdict.bottleneck == "gpu"
    assert any("isn't credible here" in line for line in verdict.evidence)


def test_every_job_that_is_kept_has_a_row() -> None:
    """The latest jobs are in the picture, those before them beside it; no job is in both."""
    picture, scanner = fed(log_of("four-gpus"))
    frame = picture.frame(source=SOURCE)
    rows = [(row.job, row.attempt) for row in (*frame.older_jobs, *frame.jobs)]
    assert len(rows) == len(set(rows))
    run = picture.model.run
    kept = [(job.id, job.attempt) for job in (*run.ended_jobs, *run.jobs.values())]
    assert sorted(rows) == sorted(kept)
    assert len(frame.older_jobs) >= 3
    again = picture.frame(source=SOURCE, now_ms=frame.now_ms + 1000.0)
    assert all(one is two for one, two in zip(frame.older_jobs, again.older_jobs, strict=True))
    picture.feed(scanner.feed(START_UP))
    assert picture.frame(source=SOURCE).older_jobs == ()


def test_a_clock_that_is_set_back_begins_anew() -> None:
    events = [reading(500_000.0 + 200.0 * n, 90.0) for n in range(50)]
    events += [reading(200.0 * n, 10.0) for n in range(1, 51)]
    nvml = nvml_at(picture_of(events, window_s=10.0), 10_000.0)
    assert nvml.mean_util_pct == pytest.approx(10.0)
    assert {share for share in nvml.util_history if share is not None} == {10.0}


def test_why_a_card_is_not_measured() -> None:
    picture = picture_of([GpuSamplerNote(0.0, None, "no NVML here")])
    assert gpu_at(picture, 1000.0).nvml_note == "no NVML here"
    picture.feed([GpuSamplerNote(0.0, 0, "GPU is lost")])
    assert gpu_at(picture, 1000.0).nvml_note == "GPU is lost"
    picture.feed([GpuSamplerNote(0.0, 0, ""), GpuSamplerNote(0.0, None, "")])
    assert gpu_at(picture, 1000.0).nvml_note == ""
    picture.feed([reading(1000.0, 5.0), GpuSamplerNote(0.0, 0, "power isn't given")])
    assert nvml_at(picture, 1000.0).note == "power isn't given"
    assert gpu_at(picture, 1000.0).nvml_note == ""


def test_the_host_is_the_newest_reading() -> None:
    picture = picture_of([])
    assert picture.frame(source=SOURCE).host is None
    for cpu in (10.0, 20.0):
        picture.feed([HostSampled(0.0, cpu, 1, 2, 3.0, None, None, daemon_pid=7)])
    host = picture.frame(source=SOURCE).host
    assert host is not None
    assert (host.cpu_pct, host.load_1m, host.psi_cpu_pct, host.daemon_pid) == (20.0, 3.0, None, 7)


# ---------------------------------------------------------------- graphs


@pytest.mark.parametrize("name", ["four-gpus", "herd", "h200-one-gpu", "ninety-percent"])
def test_graphs_and_shares_agree(name: str) -> None:
    """The mean of a window's seconds is the window's share, computed from spans."""
    log = log_of(name)
    picture, _ = fed(log[: len(log) * 3 // 4])
    now = math.ceil(picture.model.run.clock / 1000.0) * 1000.0
    picture.window_s = 20.0
    for gpu in picture.frame(source=SOURCE, now_ms=now).gpus:
        assert gpu.window is not None
        for share, bins in (
            (gpu.window.kernel_pct, gpu.kernel_history),
            (gpu.window.lock_held_pct, gpu.lock_history),
        ):
            seconds = bins[-21:-1]  # the last one has only begun
            assert None not in seconds
            assert share == pytest.approx(sum(one or 0.0 for one in seconds) / 20, abs=1.5)


def test_what_goes_wrong_in_reading_has_an_age_so_that_it_is_news_while_it_is() -> None:
    """Without one it would stand behind any lock that was held a little longer than usual."""
    picture = Picture()
    picture.feed([SourceNote(1_000_000.0, "error", "the log can't be read")])

    def alert_at(wall_ms: float, **source: float) -> Alert:
        shown = Source(path="x", **source)  # type: ignore[arg-type]  # figures alone
        frame = picture.frame(source=shown, now_ms=5000.0, wall_ms=wall_ms)
        ages.append(None if (at := frame.alerts[0].at_ms) is None else frame.present_ms - at)
        return frame.alerts[0]

    ages: list[float | None] = []
    held = Alert(level="warning", at_ms=4000.0, text="held long", lasts=True)
    alert = alert_at(1_003_000.0)
    alert_at(1_009_000.0, silent_ms=10_000_000.0)
    alert_at(900_000.0)  # the clock was set back
    assert ages == [3000.0, 9000.0, 0.0]
    told = notice(Frame(now_ms=5000.0, alerts=(held, alert)))
    assert told == ("error", "3s ago", "the log can't be read  (+1 more)")
    assert picture.frame(source=Source(path="x")).alerts[0].at_ms is None


def test_before_the_first_bracket_there_is_no_graph() -> None:
    picture, _ = fed(log_of("herd")[:100_000])
    gpu = picture.frame(source=SOURCE).gpus[0]
    first = picture.model.run.gpus[0].first_start
    assert first is not None
    now = picture.model.run.clock
    known = [share is not None for share in gpu.kernel_history]
    assert known.index(True) == HISTORY_S - 1 - (int(now // 1000) - int(first // 1000))
    assert all(known[known.index(True) :])


# ---------------------------------------------------------------- lives of the daemon


def test_a_new_run_begins_with_nothing_of_the_old_one() -> None:
    log = log_of("failures")
    restart = log.rindex(b"cuzk-daemon starting")
    before, scanner = fed(log[: log.rindex(b"\n", 0, restart) + 1])
    old = before.frame(source=SOURCE)
    assert (old.run, len(old.recent) > 50, len(old.syntheses) > 3) == (0, True, True)
    before.feed(scanner.feed(log[log.rindex(b"\n", 0, restart) + 1 :][:3000]))
    new = before.frame(source=SOURCE)
    assert new.run == 1
    assert (new.recent, new.syntheses, new.gpu_queue, dict(new.stages)) == ((), (), (), {})
    assert (new.proofs.completed, new.proofs.failed) == (0, 0)
    assert new.now_ms < 10_000.0
    texts = [alert.text for alert in new.alerts]
    assert texts == ["the daemon was started anew: run 0 ended, 5 proofs lost"]


def test_a_demo_that_is_played_again_begins_with_nothing() -> None:
    log = log_of("failures")[:300_000]
    picture, scanner = fed(log)
    picture.feed([reading(1000.0, 99.0), SourceNote(0.0, "warning", "rotated")])
    picture.feed([*scanner.cut(), PlayedAgain(0.0)])
    assert picture.frame(source=SOURCE).gpus == ()
    again, fresh = LogScanner(), LogScanner()
    picture.feed(again.feed(log[:150_000]))
    other = Picture()
    other.feed(fresh.feed(log[:150_000]))
    assert document(picture, again) == document(other, fresh)


def test_what_comes_after_playing_again_in_one_batch_counts() -> None:
    scanner, picture = LogScanner(), Picture()
    events = scanner.feed(START_UP)
    picture.feed([*events, PlayedAgain(0.0), *LogScanner().feed(START_UP)])
    assert picture.frame(source=SOURCE).run == 0
    assert len(picture.frame(source=SOURCE).gpus) == 1


# ---------------------------------------------------------------- figures that are not final yet


def key(row: PartitionRow) -> tuple[str, int, int | None]:
    return row.job, row.attempt, row.partition


def test_figures_appear_at_once_and_are_replaced_by_the_final_ones() -> None:
    """Two workers' lines mix: whose they are is settled only when the rivals have ended, too."""
    picture, scanner = Picture(), LogScanner()
    provisional: dict[tuple[str, int, int | None], PartitionRow] = {}
    for line in log_of("h200-two-gpus").splitlines(keepends=True):
        ended = b",GPU_END," in line
        picture.feed(scanner.feed(line))
        if not ended:
            continue
        rows = picture.frame(source=SOURCE).recent
        assert max(Counter(map(key, rows)).values()) == 1  # never both
        settled = set(map(key, picture.recent))
        for row in rows:
            if key(row) not in settled:
                provisional.setdefault(key(row), row)
    assert len(provisional) > 50
    final = {key(row): row for row in picture.recent}
    replaced = [(row, final[key(row)]) for row in provisional.values() if key(row) in final]
    assert len(replaced) > 50
    for row, last in replaced:
        assert row.attribution != "exact"
        assert (row.state, row.bracket_ms, row.gpu_ms) == ("done", last.bracket_ms, last.gpu_ms)
    known = [(row, last) for row, last in replaced if row.kernel_ms is not None]
    assert len(known) > 0.9 * len(replaced)
    same = sum(row.kernel_ms == last.kernel_ms for row, last in known)
    assert same > 0.9 * len(known)


def test_an_empty_picture_has_a_frame() -> None:
    frame = Picture().frame(source=SOURCE)
    assert isinstance(frame, Frame)
    assert (frame.gpus, frame.jobs, frame.at) == ((), (), None)
    assert frame.verdict.bottleneck == "unknown"


def test_a_daemon_that_starts_again_still_has_its_standard_error() -> None:
    picture, scanner = Picture(), LogScanner()
    start = b"2026-03-14T01:02:03.415589Z  INFO cuzk_daemon: cuzk-daemon starting\n"
    picture.feed(scanner.feed(start + b"TIMELINE,2000,SYNTH_START,porep-1000-1,partition=0\n"))
    assert picture.frame(source=SOURCE).has_timeline
    picture.feed(scanner.feed(start.replace(b"01:02", b"02:02")))
    frame = picture.frame(source=SOURCE)
    assert frame.run == 1
    assert frame.has_timeline


# ---------------------------------------------------------------- log and readings together


def measured_like(picture: Picture, number: int, at: int, share: float) -> list[GpuSampled]:
    """A minute's readings of card `at` that go with the lock of the log's GPU `number`."""
    run = picture.model.run
    frame = picture.frame(source=SOURCE)
    held = next(gpu for gpu in frame.gpus if gpu.gpu == number).lock_history
    assert run.epoch_us is not None
    zero_ms, last_s = run.epoch_us / 1000.0, int(frame.now_ms // 1000)
    return [
        GpuSampled(
            at_ms=zero_ms + 1000.0 * (last_s - HISTORY_S + 2 + index),
            gpu=at,
            util_pct=share * (lock or 0.0),
            util_source="gpm",
            util_window_ms=1000.0,
        )
        for index, lock in enumerate(held[:-1])
    ]


def starving(name: str = "herd") -> Picture:
    """A log whose GPU is free for seconds at a time."""
    picture = Picture()
    picture.feed(LogScanner().feed(log_of(name)))
    return picture


def test_readings_that_go_with_the_log_are_not_suspect() -> None:
    picture = starving()
    picture.feed(measured_like(picture, 0, 0, 0.9))
    assert picture.frame(source=SOURCE).gpus[0].suspects == ()


def test_a_daemon_on_another_card_than_its_number_says_is_noticed() -> None:
    picture = starving()
    picture.feed(measured_like(picture, 0, 1, 0.9))
    picture.feed([one._replace(util_pct=0.0) for one in measured_like(picture, 0, 0, 0.9)])
    frame = picture.frame(source=SOURCE)
    (said,) = frame.gpus[0].suspects
    assert said.startswith("wrong ordinal: readings of GPU 1 go with this GPU's log")
    assert not any("NVML" in text and "measured" in text for text in frame.verdict.evidence)


def test_another_process_on_the_card_is_named() -> None:
    picture = starving()
    busy = [
        one._replace(
            util_pct=100.0,
            processes=(GpuProcess(7, 1 << 30, "cuzk-daemon"), GpuProcess(12, 2 << 30, "python3")),
        )
        for one in measured_like(picture, 0, 0, 0.9)
    ]
    picture.feed([HostSampled(EPOCH_MS, None, None, None, None, None, None, daemon_pid=7), *busy])
    (said,) = picture.frame(source=SOURCE).gpus[0].suspects
    assert "another process uses the card (python3 12 2.0G)" in said


def test_a_first_call_that_reads_parameters_makes_no_card_suspect() -> None:
    """The lock is held for a minute, the card does nothing: no kernel has really run yet."""
    picture, scanner = Picture(), LogScanner()
    picture.feed(scanner.feed(START_UP))
    picture.feed(
        scanner.feed(
            b"TIMELINE,1000,GPU_PICKUP,porep-1000-1,worker=0,partition=0\n"
            b"TIMELINE,1000,GPU_START,porep-1000-1,worker=0,partition=0\n"
            b"CUZK_TIMING: pre_lock_cpu_ms=1 lock_wait_ms=0\n"
        )
    )
    picture.feed([reading(1000.0 * n, 0.0, util_window_ms=1000.0) for n in range(1, 61)])
    assert gpu_at(picture, 60_000.0).suspects == ()


def test_rows_forget_a_guessed_gpu_once_the_locks_show_several() -> None:
    """Those made before, too; and they don't guess again when all GPUs rest."""
    log = logsim.only_stream(log_of("four-gpus"), "stderr")
    picture, scanner = Picture(), LogScanner()
    seen: list[set[int | None]] = []
    for at in range(0, len(log), 2_000):
        picture.feed(scanner.feed(log[at : at + 2_000]))
        frame = picture.frame(source=SOURCE)
        rows = [row for row in (*frame.recent, *frame.in_flight) if row.worker is not None]
        seen += [{row.gpu for row in rows}] if rows else []
    turned = seen.index({None})
    assert seen == [{0}] * turned + [{None}] * (len(seen) - turned)
    assert 0 < turned < len(seen) // 10
    frame = picture.frame(source=SOURCE, now_ms=picture.clock_ms + 600_000.0)
    assert {row.gpu for row in frame.recent} == {None}
    assert frame.gpus[0].window is not None
    assert frame.gpus[0].window.mixed
    assert not any(frame.gpus[0].kernel_history)  # of which GPU isn't known
