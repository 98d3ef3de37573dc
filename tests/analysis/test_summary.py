"""A run summed up: its proofs, why a verdict is missing, and what was measured beside the log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cuzktop.analysis.diagnosis import Measured
from cuzktop.analysis.summary import proofs
from cuzktop.cli import main
from cuzktop.frame import PartitionRow, RunReport
from cuzktop.model.state import Job, Run
from cuzktop.parse.scanner import LogScanner
from cuzktop.reading import LogSummary
from cuzktop.sources.demos import demo
from tests import logsim
from tests.canned import log_bytes
from tests.corelog import Log

JOB = "porep-1000-1"


def summed(log: Log, measured: Mapping[int, Measured] | None = None) -> RunReport:
    """The report of a log's only run, with NVML's means over its GPUs' spans."""
    with closing(LogSummary(lambda _: "", lambda _: measured or {})) as summary:
        summary.read([log.data], LogScanner())
        ((run, _),) = summary.runs
        return run


def busy(log: Log, worker: int = 0) -> Log:
    """Calls one after the other, in which kernels run 84 % of the time."""
    for index in range(5):
        at_ms = 5000 + 1000 * index
        log.picked(at_ms, JOB, index, worker)
        for text in (
            "split_vectors_ms=1 setup_to_split_ms=1",
            "pre_lock_cpu_ms=2 mutex_wait_ms=0",
            "prep_msm_ms=300",
            "gpu_tid=0 ntt_msm_h_ms=500",
            "gpu_tid=0 barrier_wait_ms=0",
            "gpu_tid=0 batch_add_ms=300",
            "gpu_tid=0 tail_msm_ms=100 gpu_total_ms=901",
            "mutex_held_ms=903 total_start_fn_ms=905",
            "b_g2_msm_ms=290 num_circuits=1",
        ):
            log.timing(text)
        log.ended(at_ms + 950, JOB, index, worker, 950)
    return log


def nvml(util_pct: float) -> Measured:
    return Measured(util_pct=util_pct, power_w=300.0, source="gpm", samples=77)


def test_a_measurement_stands_beside_the_log_s_shares() -> None:
    (gpu,) = summed(busy(Log().start()), {0: nvml(88.0)}).gpus
    found = (gpu.nvml_util_pct, gpu.nvml_power_w, gpu.nvml_samples, gpu.nvml_source)
    assert found == (88.0, 300.0, 77, "gpm")
    (gpu,) = summed(busy(Log().start())).gpus
    assert (gpu.nvml_util_pct, gpu.nvml_power_w, gpu.nvml_samples) == (None, None, 0)


@pytest.mark.parametrize(("util_pct", "bottleneck"), [(85.0, "gpu"), (40.0, "cpu-memory")])
def test_a_measurement_overrules_the_log(util_pct: float, bottleneck: str) -> None:
    run = summed(busy(Log().start()), {0: nvml(util_pct)})
    assert run.gpus[0].shares.kernel_pct == pytest.approx(100 * 4500 / 4950, abs=0.2)
    assert run.verdict.bottleneck == bottleneck
    assert summed(busy(Log().start())).verdict.bottleneck == "gpu"


def test_half_a_measurement_overrules_nothing() -> None:
    """Of two GPUs one was measured: what the other did is not known."""
    log = busy(Log().start(workers=(0, 1)))
    for index in range(5):
        log.text += [
            line.replace("worker=0", "worker=1")
            .replace("partition=", "partition=1")
            .replace("TIMELINE,", "TIMELINE,1")
            for line in busy(Log()).text[12 * index : 12 * index + 12]
        ]
    run = summed(log, {0: nvml(20.0)})
    assert [gpu.nvml_util_pct for gpu in run.gpus] == [20.0, None]
    assert run.verdict.bottleneck == "gpu"
    assert summed(log, {0: nvml(20.0), 1: nvml(30.0)}).verdict.bottleneck == "cpu-memory"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (Log().start(), "the first synthesis brings them"),
        (Log().proved(1000, JOB, 0), "no CUZK_TIMING lines"),
        (Log().timing("prep_msm_ms=5"), "no TIMELINE lines"),
        (Log().picked(1000, JOB, 0), "no partition has finished"),
        (Log().picked(1000, JOB, 0).timing("prep_msm_ms=5"), "no partition has finished"),
        (Log().start().admitted(5, JOB, 2), "2>&1"),
    ],
)
def test_a_verdict_that_can_t_be_given_says_why(log: Log, reason: str) -> None:
    found = summed(log).verdict
    assert (found.bottleneck, found.confidence) == ("unknown", 0.0)
    assert reason in found.sentence


def test_seconds_a_proof_run_from_the_first_synthesis_to_the_last_proof() -> None:
    run = Run(0)
    assert proofs(run).seconds_per_proof is None
    run.first_synth, run.completed, run.last_completed = 2000.0, 3, 92_000.0
    assert proofs(run).seconds_per_proof == 30
    run.completed, run.last_completed = 0, None
    assert proofs(run).seconds_per_proof is None


def test_jobs_are_in_flight_until_they_have_ended_or_failed() -> None:
    run = Run(0)
    for name in ("flying", "ended", "failed"):
        run.jobs[name] = Job(name, 1, "porep", 0.0)
    run.jobs["ended"].ended = 5.0
    run.jobs["failed"].failed = True
    run.completed = run.failed = 1
    counts = proofs(run)
    assert (counts.completed, counts.failed, counts.in_flight, counts.lost) == (1, 1, 1, 0)
    run.lost = 1  # the daemon went away: what was in flight is lost
    assert (proofs(run).in_flight, proofs(run).lost) == (0, 1)


def test_gpus_that_can_t_be_told_apart_are_not_called_gpu_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which worker uses which GPU stands in standard output only."""
    log = tmp_path / "daemon.log"
    log.write_bytes(logsim.only_stream(log_bytes(demo("four-gpus").log), "stderr"))
    assert main(["report", "--json", str(log)]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    ((gpu,),) = [run["gpus"] for run in runs]
    assert {name for name, value in gpu.items() if value is not None} <= {
        *("gpu", "workers", "span_ms", "derived", "differences_pct", "suspects")
    }
    assert {part["gpu"] for run in runs for part in run["partitions"]} == {None}
    for words in (["report"], ["snapshot"], ["report", "--markdown"]):
        assert main([*words, str(log)]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "Several GPUs, mixed" in text
        assert "GPU 0" not in text
        assert "daemon's standard output is missing" in text
    assert main(["diff", str(log), str(log)]) == 0
    text = capsys.readouterr().out
    assert "None" not in text
    assert "gpus" not in text
    trace = tmp_path / "trace.json"
    assert main(["trace", str(log), "-o", str(trace)]) == 0
    names = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "M"]
    assert [event["args"]["name"] for event in names if event["name"] == "process_name"] == [
        *("jobs", "Several GPUs, mixed")
    ]


def test_one_gpu_whose_workers_nobody_names_stays_gpu_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Up to S30 it is the only one that partitions use; later, the only one that shows."""
    for scenario in ("s24-1x3", "s30-2x2", "s45-1x3"):
        log = tmp_path / "daemon.log"
        whole = logsim.simulate(replace(logsim.SCENARIOS[scenario], jobs=6))[0]
        log.write_bytes(logsim.only_stream(whole, "stderr"))
        assert main(["report", "--json", str(log)]) == 0
        (run,) = json.loads(capsys.readouterr().out)["runs"]
        assert [gpu["gpu"] for gpu in run["gpus"]] == [0]
        assert run["gpus"][0]["time_pct"] is not None
        assert {part["gpu"] for part in run["partitions"] if part["worker"] is not None} == {0}


def test_why_there_are_no_shares_of_one_gpu_is_not_that_there_are_several(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Most calls are without their lines, and the lines that name the workers' GPU as well."""
    lines = logsim.simulate(logsim.SCENARIOS["s45-1x2"])[0].splitlines(keepends=True)
    kept = [line for at, line in enumerate(lines) if b"CUZK_TIMING" not in line or not at % 10]
    log = tmp_path / "daemon.log"
    log.write_bytes(logsim.only_stream(b"".join(kept), "stderr"))
    assert main(["report", str(log)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "several GPUs" not in text
    assert "too few calls have lock and kernel times" in text


def test_what_a_few_lines_say_of_one_gpu_is_not_taken_for_all_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `grep -E 'TIMELINE|CUZK'` leaves: torn lines name the GPU of some workers."""
    whole = log_bytes(demo("four-gpus").log)
    lines = whole.splitlines(keepends=True)
    told = [line for line in lines if b"pipeline GPU worker started" in line][2]  # on GPU 1
    log = tmp_path / "daemon.log"
    log.write_bytes(told + logsim.only_stream(whole, "stderr"))
    assert main(["report", "--json", str(log)]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert len(run["gpus"]) == 2
    for gpu in run["gpus"]:
        assert gpu["time_pct"] is None
        assert gpu["kernel_pct"] is gpu["bracket_union_pct"] is None
    assert {(part["worker"] == 2, part["gpu"]) for part in run["partitions"]} == {
        (True, 1),
        (False, None),
    }
    assert main(["report", str(log)]) == 0
    assert "which worker uses which" in " ".join(capsys.readouterr().out.split())


def test_one_gpu_is_gpu_0_without_being_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "daemon.log"
    log.write_bytes(logsim.only_stream(log_bytes(demo("h200-one-gpu").log), "stderr"))
    assert main(["report", str(log)]) == 0
    assert "GPU 0 · " in capsys.readouterr().out


def test_nothing_takes_less_than_no_time_when_the_clock_is_put_back() -> None:
    """The daemon's offsets fell by less than a restart's do."""
    rows: list[PartitionRow] = []

    def keep(row: PartitionRow) -> str:
        rows.append(row)
        return ""

    log = Log().start().admitted(50, JOB, 1).synthesized(5000, JOB, 0).picked(5100, JOB, 0)
    log.ended(3000, JOB, 0)
    with closing(LogSummary(keep, lambda _: {})) as summary:
        summary.read([log.data], LogScanner())
    (row,) = rows
    assert (row.bracket_start_ms, row.bracket_end_ms) == (5100, 3000)
    assert row.bracket_ms is None
