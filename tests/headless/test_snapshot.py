from __future__ import annotations

import json
import math
from typing import Any

import pytest

from cuzktop.dataclass import replace
from cuzktop.frame import Alert, Frame, Gpu, Synthesis
from cuzktop.headless.snapshot import snapshot_document
from tests.headless.fixtures import BUSY, DEAF, EIGHT, LOCK, NVML, OLD, SHARES, SOURCE


def as_read(frame: Frame) -> Any:  # noqa: ANN401 - a JSON document
    """The document as a script gets it."""
    return json.loads(json.dumps(snapshot_document(frame), allow_nan=False))


# What the contract names, literally; a program may add names, never drop one.
TOP = [
    *("schema", "at", "at_ms", "since_ms", "run", "syntheses", "gpu_queue", "gpus", "jobs"),
    *("counters", "verdict", "alerts"),
]
SYNTHESIS = ["job", "partition", "elapsed_ms", "expected_ms"]
QUEUED = ["job", "partition", "waiting_ms"]
GPU = ["gpu", "lock", "window", "nvml"]
LOCK_KEYS = ["holder", "waiting", "finishing", "confidence"]
HOLDER = ["worker", "job", "partition", "held_ms", "stage"]
WAITING = ["worker", "job", "partition", "waiting_ms"]
FINISHING = ["worker", "job", "partition", "since_ms"]
WINDOW = ["seconds", "bracket_union_pct", "lock_held_pct", "kernel_pct", "time_pct"]
TIME = ["kernel", "barrier", "lock_overhead", "handoff", "starved", "no_work"]
NVML_KEYS = ["util_pct", "power_w", "samples", "source"]
JOB = ["job", "attempt", "kind", "age_ms", "total", "done", "failed", "states"]
COUNTERS = ["completed", "failed"]
VERDICT = ["bottleneck", "confidence", "evidence", "advice"]
ALERT = ["level", "at_ms", "text"]


def in_order(keys: list[str], document: dict[str, Any]) -> bool:
    """Whether `document` has all of `keys`, in their order."""
    return [key for key in document if key in keys] == keys


@pytest.mark.parametrize(
    "frame", [BUSY, OLD, DEAF, EIGHT, Frame()], ids=["busy", "old", "deaf", "eight", "empty"]
)
def test_every_name_of_the_contract_is_there(frame: Frame) -> None:
    document = as_read(frame)
    assert in_order(TOP, document)
    assert document["schema"] == "cuzktop.snapshot/1"
    for part, keys in (
        ("syntheses", SYNTHESIS),
        ("gpu_queue", QUEUED),
        ("gpus", GPU),
        ("jobs", JOB),
        ("alerts", ALERT),
    ):
        for item in document[part]:
            assert in_order(keys, item)
    for gpu in document["gpus"]:
        assert in_order(LOCK_KEYS, gpu["lock"])
        assert in_order(WINDOW, gpu["window"])
        if gpu["window"]["time_pct"] is not None:
            assert list(gpu["window"]["time_pct"]) == TIME
        if gpu["nvml"] is not None:
            assert in_order(NVML_KEYS, gpu["nvml"])
        lock = gpu["lock"]
        for holder in filter(None, [lock["holder"], *lock.get("candidates", [])]):
            assert list(holder) == HOLDER
        assert all(list(item) == WAITING for item in lock["waiting"])
        assert all(list(item) == FINISHING for item in lock["finishing"])
    assert in_order(COUNTERS, document["counters"])
    assert in_order(VERDICT, document["verdict"])


def test_a_busy_gpu() -> None:
    document = as_read(BUSY)
    assert document["at"] == "2026-02-19T08:20:11.120Z"
    assert document["at_ms"] == 459678.0
    assert document["syntheses"][1] == {
        "job": "porep-1000-40022",
        "partition": 4,
        "elapsed_ms": 12010,
        "expected_ms": 33100,
    }
    assert document["gpu_queue"] == [{"job": "porep-1000-40021", "partition": 1, "waiting_ms": 830}]
    assert document["gpus"][0]["lock"] == {
        "holder": {
            "worker": 0,
            "job": "porep-1000-40021",
            "partition": 3,
            "held_ms": 640,
            "stage": "ntt_msm_h",
        },
        "waiting": [
            {"worker": 1, "job": "porep-1000-40021", "partition": 7, "waiting_ms": 610},
        ],
        "finishing": [
            {"worker": 0, "job": "porep-1000-40021", "partition": 2, "since_ms": 300.4},
        ],
        "confidence": "exact",
    }
    assert document["gpus"][0]["window"] == {
        "seconds": 60.0,
        "bracket_union_pct": 91.04,
        "bracket_sum_pct": 178.2,
        "lock_held_pct": 90.2,
        "gpu_section_pct": 89.6,
        "kernel_pct": 47.7,
        "time_pct": {
            "kernel": 47.7,
            "barrier": 42.13,
            "lock_overhead": 0.37,
            "handoff": 0.84,
            "starved": 8.96,
            "no_work": 0.0,
        },
        "span_ms": 60000,
        "derived": [],
    }
    assert document["jobs"][0]["failed"] is True
    assert document["jobs"][1]["states"][:3] == ["done", "queued", "gpu"]
    assert document["counters"]["completed"] == 12
    assert document["verdict"]["bottleneck"] == "cpu-memory"
    assert document["verdict"]["sentence"].startswith("The CPU holds the GPU back")
    assert document["alerts"][0]["at_ms"] == 401000


def test_whole_milliseconds_are_integers() -> None:
    text = json.dumps(snapshot_document(BUSY))
    assert '"elapsed_ms": 12010,' in text
    assert '"held_ms": 640,' in text
    assert '"at_ms": 459678.0,' in text


def test_the_means_of_the_window_stand_for_nvml() -> None:
    nvml = as_read(BUSY)["gpus"][0]["nvml"]
    assert [nvml[key] for key in NVML_KEYS] == [29.6, 311.7, 120, "gpm"]
    assert nvml["now_util_pct"] == 51.0


def test_nvml_is_null_and_says_why_when_nothing_was_measured() -> None:
    gpu = as_read(OLD)["gpus"][0]
    assert gpu["nvml"] is None
    assert gpu["nvml_note"] == "NVML not available: libnvidia-ml.so.1 not found"
    unread = replace(
        NVML,
        util_pct=None,
        mean_util_pct=None,
        power_w=None,
        mean_power_w=None,
        memory_used_bytes=None,
        samples=0,
    )
    silent = replace(BUSY, gpus=(Gpu(gpu=0, workers=(), lock=LOCK, window=None, nvml=unread),))
    assert as_read(silent)["gpus"][0]["nvml"] is None


def test_candidates_are_listed_only_where_there_are_any() -> None:
    assert "candidates" not in as_read(BUSY)["gpus"][0]["lock"]
    lock = as_read(OLD)["gpus"][0]["lock"]
    assert lock["confidence"] == "inferred"
    assert lock["holder"]["held_ms"] is None
    assert [(c["worker"], c["partition"]) for c in lock["candidates"]] == [(0, 7)]


def test_what_the_log_does_not_tell_is_null() -> None:
    document = as_read(DEAF)
    window = document["gpus"][0]["window"]
    assert window["seconds"] == 60.0
    assert [window[key] for key in WINDOW[1:]] == [None] * 4
    assert document["at"] is None
    assert document["gpus"][0]["lock"]["holder"] is None


def test_shares_add_up_to_100_whatever_they_are() -> None:
    thirds = dict.fromkeys(TIME, 100.0 / 6)
    gpu = replace(BUSY.gpus[0], window=replace(SHARES, time_pct=thirds))
    shares = as_read(replace(BUSY, gpus=(gpu,)))["gpus"][0]["window"]["time_pct"]
    assert math.isclose(sum(shares.values()), 100.0, abs_tol=1e-9)
    assert set(shares.values()) == {16.67, 16.66}


def test_neither_nan_nor_half_a_character_reaches_a_reader() -> None:
    gpu = replace(
        BUSY.gpus[0],
        window=replace(SHARES, kernel_pct=math.nan, time_pct={"kernel": math.nan}),
        nvml=replace(NVML, mean_power_w=math.inf),
    )
    odd = replace(
        BUSY,
        gpus=(gpu,),
        syntheses=(
            Synthesis(
                job="j\N{REPLACEMENT CHARACTER}",
                partition=0,
                since_ms=math.nan,
                expected_ms=math.inf,
            ),
        ),
        source=replace(SOURCE, path="caf\udce9.log"),
        alerts=(Alert(level="error", at_ms=math.nan, text='a "quoted" \x1b[31m\ud800 line'),),
    )
    document = as_read(odd)
    assert document["gpus"][0]["window"]["kernel_pct"] is None
    assert document["gpus"][0]["window"]["time_pct"] is None
    assert document["gpus"][0]["nvml"]["power_w"] is None
    assert document["syntheses"][0]["job"] == "j\N{REPLACEMENT CHARACTER}"
    assert document["syntheses"][0]["elapsed_ms"] is None
    assert document["source"]["path"] == "caf\N{REPLACEMENT CHARACTER}.log"
    assert document["alerts"][0]["text"] == 'a "quoted" \x1b[31m\N{REPLACEMENT CHARACTER} line'
    json.dumps(document, ensure_ascii=False).encode()  # a lone surrogate would raise
