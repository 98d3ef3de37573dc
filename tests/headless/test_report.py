from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from cuzktop.columns import partition_json
from cuzktop.dataclass import replace
from cuzktop.frame import PartitionRow, RunReport, Source
from cuzktop.headless.report import partition_line, write_report
from tests.headless.fixtures import (
    FAILED_ROW,
    GPU_REPORT,
    IDLE_RUN,
    INFERRED_ROW,
    OLD_ROW,
    OLD_RUN,
    ROW,
    RUN,
    SOURCE,
    WHOLE_ROW,
    WILD_JOB,
)

TOP = ["schema", "source", "runs"]
SOURCE_KEYS = ["path", "bytes", "lines", "events", "torn", "unparsed"]
RUN_KEYS = [
    *("run", "started", "dialect", "span_ms", "proofs", "gpus", "partitions", "stages"),
    "verdict",
]
PROOFS = ["completed", "failed", "in_flight", "lost", "seconds_per_proof"]
GPU = [
    *("gpu", "workers", "span_ms", "bracket_union_pct", "bracket_sum_pct", "lock_held_pct"),
    *("gpu_section_pct", "kernel_pct", "gap_count", "gap_mean_ms", "time_pct", "nvml"),
]
TIME = ["kernel", "barrier", "lock_overhead", "handoff", "starved", "no_work"]
NVML = ["util_pct", "power_w", "samples", "source"]
STAGE = ["count", "p50", "p95", "max"]
VERDICT = ["bottleneck", "confidence", "evidence", "advice"]

Runs = list[tuple[RunReport, list[PartitionRow]]]
RUNS: Runs = [
    (RUN, [ROW, INFERRED_ROW, WHOLE_ROW]),
    (OLD_RUN, [OLD_ROW, FAILED_ROW]),
    (IDLE_RUN, []),
]


def written(runs: Runs, source: Source = SOURCE) -> str:
    out = io.StringIO()
    streamed = ((report, map(partition_line, rows)) for report, rows in runs)
    write_report(out, source=source, runs=streamed)
    return out.getvalue()


def in_order(keys: list[str], document: dict[str, Any]) -> bool:
    return [key for key in document if key in keys] == keys


@pytest.mark.parametrize(
    "runs", [RUNS, RUNS[:1], RUNS[2:], []], ids=["three", "one", "idle", "no-cuzk-event"]
)
def test_what_is_streamed_is_one_document_with_every_run_and_its_rows(runs: Runs) -> None:
    text = written(runs)
    assert text.endswith("]}\n")
    document = json.loads(text)
    assert document["source"]["path"] == SOURCE.path
    assert [(run["run"], run["partitions"]) for run in document["runs"]] == [
        (report.run, json.loads(json.dumps([partition_json(row) for row in rows])))
        for report, rows in runs
    ]


def test_workers_of_any_gpu_name_none_in_the_rows_written_before_that_showed() -> None:
    rows = [replace(ROW, worker=worker, gpu=0, job=f'"worker": {worker}') for worker in (0, 1, 11)]
    text = written([(replace(RUN, unplaced=frozenset({1})), rows)])
    found = json.loads(text)["runs"][0]["partitions"]
    assert [(row["job"], row["gpu"]) for row in found] == [
        ('"worker": 0', 0),
        ('"worker": 1', None),
        ('"worker": 11', 0),
    ]


def test_every_name_of_the_contract_is_there_in_its_order() -> None:
    document = json.loads(written(RUNS))
    assert list(document) == TOP
    assert document["schema"] == "cuzktop.report/1"
    assert list(document["source"]) == SOURCE_KEYS
    for run in document["runs"]:
        assert in_order(RUN_KEYS, run)
        assert list(run["proofs"]) == PROOFS
        assert in_order(VERDICT, run["verdict"])
        for gpu in run["gpus"]:
            assert in_order(GPU, gpu)
            assert list(gpu["time_pct"]) == TIME
            assert gpu["nvml"] is None or list(gpu["nvml"]) == NVML
        for stage in run["stages"].values():
            assert list(stage) == STAGE


def test_the_figures_of_a_run() -> None:
    run = json.loads(written(RUNS))["runs"][0]
    assert run["started"] == "2026-02-19T08:12:31.442118Z"
    assert run["span_ms"] == 611400.0
    assert run["proofs"]["seconds_per_proof"] == 42.6
    gpu = run["gpus"][0]
    assert (gpu["bracket_union_pct"], gpu["bracket_sum_pct"]) == (89.9, 178.2)
    assert (gpu["gap_count"], gpu["gap_mean_ms"]) == (139, 409.7)
    assert gpu["nvml"] == {
        "util_pct": 46.4,
        "power_w": 312.0,
        "samples": 488,
        "source": "utilization.gpu",
    }
    assert math.isclose(sum(gpu["time_pct"].values()), 100.0, abs_tol=1e-9)
    assert run["stages"]["synth_ms"] == {"count": 150, "p50": 33120, "p95": 36810, "max": 39911}


def test_a_run_without_a_job_has_empty_lists() -> None:
    idle = json.loads(written(RUNS))["runs"][2]
    assert (idle["gpus"], idle["partitions"], idle["stages"]) == ([], [], {})
    assert (idle["started"], idle["span_ms"], idle["dialect"]) == (None, None, None)


def test_nvml_is_null_unless_measured() -> None:
    assert json.loads(written(RUNS))["runs"][1]["gpus"][0]["nvml"] is None
    only_power = replace(RUN, gpus=(replace(GPU_REPORT, nvml_util_pct=None),))
    nvml = json.loads(written([(only_power, [])]))["runs"][0]["gpus"][0]["nvml"]
    assert (nvml["util_pct"], nvml["power_w"]) == (None, 312.0)


def test_one_partition_a_line() -> None:
    lines = written(RUNS).splitlines()
    found = [json.loads(line.rstrip(",]")) for line in lines if line.startswith('{"job"')]
    assert [p["partition"] for p in found] == [3, 4, None, 3, 7]


@pytest.mark.parametrize("row", [ROW, INFERRED_ROW, WHOLE_ROW, OLD_ROW, FAILED_ROW])
def test_a_partition_s_line_is_its_row_as_json(row: PartitionRow) -> None:
    assert partition_line(row) == json.dumps(partition_json(row))


def test_no_partition_is_kept_while_others_are_written() -> None:
    out = io.StringIO()

    def partitions() -> Iterator[str]:
        for number in range(100):
            line = partition_line(replace(ROW, partition=number))
            yield line
            # asked for the next one: the one before is already out
            assert out.getvalue().endswith(line)

    def runs() -> Iterator[tuple[RunReport, Iterable[str]]]:
        yield RUN, partitions()

    write_report(out, source=SOURCE, runs=runs())
    assert len(json.loads(out.getvalue())["runs"][0]["partitions"]) == 100


def test_odd_names_and_figures_are_still_json() -> None:
    odd = replace(ROW, job=WILD_JOB + '"\\\udc80\n', synth_ms=math.nan)  # type: ignore[arg-type]
    line = partition_line(odd)
    assert "\n" not in line
    assert line.isascii()
    document = json.loads(line)
    assert document["job"].startswith(WILD_JOB)
    assert document["synth_ms"] is None
    text = written(
        [(replace(RUN, span_ms=math.nan, settings={"a\udcff": "é"}), [])],
        replace(SOURCE, path="caf\udce9.log"),
    )
    run = json.loads(text)["runs"][0]
    assert run["span_ms"] is None
    assert run["settings"] == {"a\N{REPLACEMENT CHARACTER}": "é"}
    assert json.loads(text)["source"]["path"] == "caf\N{REPLACEMENT CHARACTER}.log"
