"""The canned logs of the format's description, with the figures that it expects of them."""

from __future__ import annotations

from typing import Any

import pytest

from cuzktop.model.reduce import Model
from tests.corelog import Json, Log, by_key, coloured, golden, only_run, report, scan, states

UUID = "0f5cb8be-9a1c-4f3e-8e47-3d2a9c1b7e55"
POST = "wdpost-1000-0-[12 255 3 4 5 6 7 8]"
EXACT = {"lock": "exact", "kernel": "exact", "cpu": "exact"}
INFERRED = dict.fromkeys(EXACT, "inferred")  # a log that begins in the middle of a call


def run_of(data: bytes) -> Json:
    """The one run of a log, which reads the same in colours."""
    run = only_run(report(data))
    assert only_run(report(coloured(data))) == run
    return run


def figures(row: Json, *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


def agrees(row: Json, **expected: object) -> None:
    assert {name: row[name] for name in expected} == expected


def adds_up(gpu: Json) -> None:
    assert sum(gpu["time_pct"].values()) == pytest.approx(100, abs=0.1)


def test_c1_a_start_and_its_first_job() -> None:
    data = golden("c1_s45_start_up")
    run = run_of(data)
    assert run["started"] == "2026-03-14T01:02:03.456799Z"
    assert run["dialect"] == "S42-S45"
    assert run["proofs"]["in_flight"] == 1
    assert run["gpus"] == []  # nothing ran on a GPU yet
    synthesizing = {("porep-1000-42", 1, n): "synthesizing" for n in range(3)}
    pending = {("porep-1000-42", 1, n): "pending" for n in range(3, 10)}
    assert states(run) == synthesizing | pending
    assert run["verdict"]["bottleneck"] == "unknown"
    assert run["settings"]["total_budget_gib"] == "750"
    assert run["settings"]["synth_worker_count"] == "18"
    model = Model()
    model.feed(scan(data)[0])
    assert model.run.gpu_numbers == (0,)
    assert model.run.worker_gpu == {0: 0, 1: 0}


def test_c2_two_workers_on_one_gpu() -> None:
    run = run_of(golden("c2_s45_two_workers"))
    rows = by_key(run)
    agrees(
        rows["porep-1000-57", 1, 8],
        state="done",
        worker=0,
        gpu=0,
        attribution="inferred",
        attribution_by=INFERRED,
        synth_start_ms=905874,
        bracket_start_ms=939080,
        bracket_end_ms=941641,
        synth_ms=32415,
        queue_ms=0,
        pre_lock_cpu_ms=5,
        lock_wait_ms=0,
        lock_held_ms=2548,
        ntt_msm_h_ms=412,
        barrier_wait_ms=1494,
        batch_add_ms=553,
        tail_msm_ms=86,
        gpu_total_ms=2547,
        kernel_ms=1051,
        prep_msm_ms=1909,
        b_g2_msm_ms=484,
        bracket_ms=2561,
        gpu_ms=2560,
        derived=[],
    )
    agrees(
        rows["porep-1000-57", 1, 9],
        state="done",
        worker=1,
        gpu=0,
        attribution_by=INFERRED,
        queue_ms=1,
        lock_wait_ms=2317,
        lock_held_ms=1065,
        ntt_msm_h_ms=415,
        barrier_wait_ms=0,
        batch_add_ms=561,
        tail_msm_ms=87,
        gpu_total_ms=1064,
        kernel_ms=1063,
        prep_msm_ms=1931,
        b_g2_msm_ms=502,
        bracket_ms=3396,
        gpu_ms=3395,
    )
    (gpu,) = run["gpus"]
    agrees(gpu, gpu=0, workers=[0, 1], span_ms=3627.0, gap_count=0, gap_mean_ms=None)
    assert gpu["bracket_sum_pct"] == pytest.approx(100 * 5957 / 3627, abs=0.01)
    assert gpu["bracket_union_pct"] == 100
    assert gpu["lock_held_pct"] == pytest.approx(100 * 3613 / 3627, abs=0.05)
    assert gpu["kernel_pct"] == pytest.approx(100 * 2114 / 3627, abs=0.05)
    assert gpu["time_pct"]["barrier"] == pytest.approx(100 * 1494 / 3627, abs=0.05)
    adds_up(gpu)
    assert run["proofs"]["completed"] == 1
    assert run["verdict"]["bottleneck"] == "cpu-memory"


FOUR_WORKERS = b"""\
2026-03-14T01:02:03.415589Z  INFO cuzk_daemon: cuzk-daemon starting
2026-03-14T01:02:03.456489Z  INFO cuzk_core::engine: starting cuzk engine pipeline_enabled=true
2026-03-14T01:02:03.669889Z  INFO cuzk_core::engine: pipeline GPU worker started worker_id=0 gpu=0
2026-03-14T01:02:03.669890Z  INFO cuzk_core::engine: pipeline GPU worker started worker_id=1 gpu=0
2026-03-14T01:02:03.669891Z  INFO cuzk_core::engine: pipeline GPU worker started worker_id=2 gpu=1
2026-03-14T01:02:03.669892Z  INFO cuzk_core::engine: pipeline GPU worker started worker_id=3 gpu=1
"""


def test_c3_two_gpus_whose_lines_all_say_tid_0() -> None:
    run = run_of(FOUR_WORKERS + golden("c3_s45_two_gpus"))
    rows = by_key(run)
    agrees(
        rows["porep-1000-50", 1, 2],
        worker=0,
        gpu=0,
        attribution_by=EXACT,
        lock_held_ms=2139,
        ntt_msm_h_ms=412,
        barrier_wait_ms=1085,
        batch_add_ms=553,
        tail_msm_ms=86,
        gpu_total_ms=2138,
        kernel_ms=1051,
        prep_msm_ms=1500,
        b_g2_msm_ms=484,
    )
    agrees(
        rows["porep-1000-51", 1, 7],
        worker=3,
        gpu=1,
        attribution_by=EXACT,
        lock_held_ms=2545,
        ntt_msm_h_ms=612,
        barrier_wait_ms=1107,
        batch_add_ms=701,
        tail_msm_ms=122,
        gpu_total_ms=2544,
        kernel_ms=1435,
        prep_msm_ms=1722,
        b_g2_msm_ms=470,
    )
    first, second = run["gpus"]
    assert first["kernel_pct"] == pytest.approx(100 * 1051 / 2152, abs=0.05)
    assert second["kernel_pct"] == pytest.approx(100 * 1435 / 2558, abs=0.05)
    adds_up(first)
    adds_up(second)


@pytest.mark.parametrize(
    ("name", "dialect", "expected", "barrier_ms"),
    [
        pytest.param(
            "c4_s20_one_partition",
            "S20-S23",
            {"ntt_msm_h_ms": 690, "batch_add_ms": 650, "tail_msm_ms": 83, "gpu_total_ms": 2604}
            | {"kernel_ms": 1423, "prep_msm_ms": 1909, "b_g2_msm_ms": 484, "bracket_ms": 2664}
            | {"gpu_ms": 2663},
            1181,
            id="S20",
        ),
        pytest.param(
            "c5_s19_gpu_part",
            "S16-S23",
            {"ntt_msm_h_ms": 2430, "batch_add_ms": 640, "tail_msm_ms": 125, "gpu_total_ms": 3196}
            | {"kernel_ms": 3195, "prep_msm_ms": 1700, "b_g2_msm_ms": 380, "bracket_ms": 3210}
            | {"gpu_ms": 3208},
            0,
            id="S19",
        ),
        pytest.param(
            "c6_s28_gpu_part",
            "S28-S37",
            {"ntt_msm_h_ms": 1180, "batch_add_ms": 571, "tail_msm_ms": 84, "gpu_total_ms": 2466}
            | {"kernel_ms": 1835, "prep_msm_ms": 1812, "b_g2_msm_ms": 455, "bracket_ms": 2786}
            | {"gpu_ms": 2785},
            631,
            id="S28",
        ),
    ],
)
def test_c4_to_c6_before_the_lock_had_lines(
    name: str, dialect: str, expected: dict[str, int], barrier_ms: int
) -> None:
    run = run_of(golden(name))
    row = by_key(run)[UUID, 1, 3]
    assert run["dialect"] == dialect
    assert figures(row, *expected) == expected
    agrees(row, synth_ms=34118, queue_ms=0, lock_wait_ms=None, pre_lock_cpu_ms=None)
    assert row["derived"] == ["barrier_wait_ms", "lock_held_ms"]
    assert row["barrier_wait_ms"] == pytest.approx(barrier_ms, abs=3)
    assert row["lock_held_ms"] == pytest.approx(expected["gpu_total_ms"], abs=25)
    adds_up(run["gpus"][0])


def test_c4_in_the_words_of_s21() -> None:
    long_form = b" sync_ms=3 trim_ms=1 alloc_ms=9 upload_ms=4 total_ps_ms=18\n"
    data = golden("c4_s20_one_partition").replace(
        b"lot_of_memory=1\n", b"lot_of_memory=1" + long_form
    )
    run = run_of(data)
    assert run["dialect"] == "S21"
    assert by_key(run)[UUID, 1, 3]["kernel_ms"] == 1423


def test_c7_a_window_post_in_one_piece() -> None:
    run = run_of(golden("c7_s45_window_post"))
    assert list(by_key(run)) == [(POST, 1, None)]  # although its GPU_END says partition=0
    agrees(
        by_key(run)[POST, 1, None],
        kind="window-post",
        state="done",
        worker=1,
        gpu=0,
        attribution_by=INFERRED,
        synth_ms=26397,
        queue_ms=1,
        pre_lock_cpu_ms=18242,
        lock_wait_ms=0,
        lock_held_ms=3751,
        barrier_wait_ms=0,
        kernel_ms=3749,
        gpu_total_ms=3750,
        prep_msm_ms=1988,
        b_g2_msm_ms=511,
        bracket_ms=22638,
        gpu_ms=22638,
    )
    assert run["proofs"]["completed"] == 1
    (gpu,) = run["gpus"]
    # 18.2 s of the bracket are the rest of the SRS being read, outside the lock.
    assert gpu["time_pct"]["handoff"] == pytest.approx(100 * (22638 - 3751) / 22638, abs=0.1)
    adds_up(gpu)


def test_c8_out_of_memory_fails_the_job_and_closes_the_call() -> None:
    run = run_of(golden("c8_s41_out_of_memory"))
    row = by_key(run)["porep-1000-60", 1, 4]
    agrees(row, state="failed", worker=0, bracket_start_ms=2400100, bracket_end_ms=None)
    agrees(row, lock_wait_ms=0, lock_held_ms=9, kernel_ms=None, gpu_ms=None, b_g2_msm_ms=None)
    assert run["proofs"] == {
        "completed": 0,
        "failed": 1,
        "in_flight": 0,
        "lost": 0,
        "seconds_per_proof": None,
    }
    assert any("out of memory" in alert["text"] for alert in run["alerts"])


def test_c8_its_late_line_is_not_the_next_call_s() -> None:
    after = Log().called(2400118, "porep-1000-61", 2)
    after.text = [line for line in after.text if not line.startswith("2026")]  # another zero
    run = run_of(golden("c8_s41_out_of_memory") + after.data)
    assert by_key(run)["porep-1000-61", 1, 2]["prep_msm_ms"] in (700, None)
    assert by_key(run)["porep-1000-61", 1, 2]["kernel_ms"] == 550


def test_c9_failures_of_every_kind() -> None:
    run = run_of(golden("c9_s38_failures"))
    assert states(run) == {
        ("porep-1000-61", 1, 2): "failed",
        ("porep-1000-61", 1, 0): "skipped",
        ("porep-1000-61", 1, 7): "skipped",
    }
    assert run["proofs"]["failed"] == 2
    assert run["proofs"]["in_flight"] == 0
    texts = " ".join(alert["text"] for alert in run["alerts"])
    for part in ("an assignment for a variable", "invalid_partitions=[3]", "porep-1000-62"):
        assert part in texts
    assert run["alerts"][0]["at_ms"] is None  # nothing tells TIMELINE zero there
