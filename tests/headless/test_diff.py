"""`cuzktop diff` on whole logs: what is read of them, its text and its document."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from cuzktop import dataclass
from cuzktop.analysis.compare import Comparison, compare
from cuzktop.analysis.diagnosis import Measured
from cuzktop.analysis.figures import LogFigures
from cuzktop.analysis.findings import sentences
from cuzktop.frame import TIME_CLASSES
from cuzktop.headless.diff import diff_document, diff_text, summarise_for_diff
from cuzktop.headless.layout import cells
from cuzktop.model.state import Run
from cuzktop.parse.scanner import LogScanner
from cuzktop.sources.demos import demo
from cuzktop.sources.files import open_log, read_blocks
from tests import logsim
from tests.logsim import Knobs

QUICK = Knobs(jobs=10, srs=300, cold=500, cuts=0)


@cache
def simulated(knobs: Knobs) -> bytes:
    return logsim.simulate(knobs)[0]


def figures(log: bytes, name: str = "daemon.log") -> LogFigures:
    return summarise_for_diff([log], LogScanner(), name)


@cache
def of(knobs: Knobs, name: str = "daemon.log") -> LogFigures:
    return figures(simulated(knobs), name)


@cache
def of_demo(name: str) -> LogFigures:
    with open_log(demo(name).log) as file:
        return summarise_for_diff(read_blocks(file), LogScanner(), f"logs/{name}/daemon.log")


@cache
def story() -> Comparison:
    """The run that started it all, and one whose GPU computes."""
    return compare([of_demo("ninety-percent"), of_demo("h200-one-gpu")])


@cache
def swept() -> Comparison:
    return compare(
        [
            of(replace(QUICK, slots=slots, concurrency=4, seed=slots), f"sweep/{slots}.log")
            for slots in (12, 2, 8)
        ]
    )


def text(comparison: Comparison, width: int = 100, **look: bool) -> str:
    return diff_text(
        comparison,
        width=width,
        colour=look.get("colour", False),
        ascii_only=look.get("ascii_only", False),
    )


# ---------------------------------------------------------------- reading


def test_the_longest_run_that_finished_anything_is_compared() -> None:
    knobs = replace(QUICK, runs=2, kill=12_000, seed=4)
    log = of(knobs)
    assert log.runs == 2
    assert log.report is not None
    assert log.report.run == 1
    assert "run 1, the longest with finished partitions" in " ".join(sentences(compare([log, log])))
    assert "run 1" in text(compare([log, of(QUICK)]))


def test_a_log_of_nothing_has_nothing_to_compare() -> None:
    for log in (b"", b"some other\nprogram's log\n"):
        nothing = figures(log)
        assert (nothing.report, nothing.partitions) == (None, 0)
        comparison = compare([nothing, of(QUICK)])
        assert "A has no finished partition" in " ".join(sentences(comparison))
        assert "no finished partition" in text(comparison)
        json.dumps(diff_document(comparison), allow_nan=False)


def test_without_standard_error_the_pace_is_not_known() -> None:
    half = figures(logsim.only_stream(simulated(QUICK), "stdout"))
    assert half.partitions == 100
    comparison = compare([of(QUICK), half])
    assert sentences(comparison)[0] == "Can't compare the pace: B has no TIMELINE lines."
    assert comparison.steps[0].stages["synth_ms"].p50_diff_ms == 0
    assert "unknown in B" not in " ".join(sentences(comparison))


def test_without_standard_output_the_pace_is_that_of_partitions() -> None:
    half = figures(logsim.only_stream(simulated(QUICK), "stderr"))
    told = sentences(compare([of(QUICK), half]))
    assert told[0].startswith("Nothing to report: 5.5 s and 5.5 s a proof, within the runs' own")
    assert told[-1] == "B does not hold the daemon's start, so what was set there is unknown."


def test_measurements_are_compared_where_there_are_any() -> None:
    def measure(_: Run) -> Mapping[int, Measured]:
        return {0: Measured(util_pct=42.0, power_w=300.0, source="gpm")}

    with_nvml = summarise_for_diff([simulated(QUICK)], LogScanner(), "x", measure)
    comparison = compare([of(QUICK), with_nvml])
    assert "NVML %" in text(comparison)
    documents: Any = diff_document(comparison)["logs"]
    assert [log["gpu"]["nvml_util_pct"] for log in documents] == [None, 42.0]


# ---------------------------------------------------------------- what it says


def test_the_story_reads_from_the_answer_to_the_figures() -> None:
    told = text(story())
    first = told.split("\n\n", maxsplit=1)[0].replace("\n", " ")
    assert first.startswith("B is faster: 6.7 s a proof instead of 42.6 s (84 % less), because")
    assert "because the barrier fell from 43.9 % to" in first
    assert "The limit was cpu-memory in A and is gpu in B." in first.replace("  ", " ")
    for heading in ("Logs", "Settings", "Proofs", "Share of the GPUs' time", "Where it goes"):
        assert f"\n{heading}" in told
    assert "  A  ninety-percent/daemon.log  " in told, "what all paths share is left out"
    assert "\n~ derived from other lines" in told


def test_a_log_against_itself_marks_no_figure() -> None:
    log = of(QUICK)
    told = text(compare([log, log]))
    assert told.startswith("Nothing to report: A and B say the same.\n")
    assert "  real" not in told
    steps: Any = diff_document(compare([log, log]))["steps"]
    for stage in steps[0]["stages"].values():
        assert stage["p50_diff_ms"] == stage["p95_diff_ms"] == 0
        assert stage["p50_real"] is stage["p95_real"] is False


def test_another_run_of_the_same_settings_differs_in_nothing_real() -> None:
    comparison = compare([of(QUICK), of(replace(QUICK, seed=99))])
    assert sentences(comparison)[0].startswith("Nothing to report: ")
    assert not any(
        change.p50_real or change.p95_real for change in comparison.steps[0].stages.values()
    )


def test_what_was_changed_is_what_is_found() -> None:
    slow_prep = replace(QUICK, prep=1100, seed=3)
    comparison = compare([of(slow_prep), of(QUICK)])
    told = sentences(comparison)
    assert told[0].startswith("B is faster: ")
    assert "because the barrier fell" in told[0]
    real = {name for name, change in comparison.steps[0].stages.items() if change.p50_real}
    assert {"prep_msm_ms", "barrier_wait_ms"} <= real
    assert not {"tail_msm_ms", "batch_add_ms", "kernel_ms"} & real


def test_a_sweep_is_ordered_by_what_differs_and_shows_its_knee() -> None:
    comparison = swept()
    assert comparison.order_by == "synth_worker_count"
    assert [log.name for log in comparison.logs] == [f"sweep/{n}.log" for n in (2, 8, 12)]
    told = text(comparison)
    assert told.startswith("The knee is at B (synth_worker_count 8): nothing after it is really")
    assert "Proofs · by synth_worker_count\n" in told
    (pace,) = [line for line in told.splitlines() if line.startswith("  after warm-up")]
    assert pace.count("*") == 1, "the step to B alone is real"
    document = diff_document(comparison)
    assert document["sweep"] == {"order_by": "synth_worker_count", "knee": "B"}


# ---------------------------------------------------------------- text and document


@pytest.mark.parametrize("width", [40, 52, 72, 80, 100, 200])
@pytest.mark.parametrize("made", [story, swept])
def test_text_fits_and_is_clean(made: Any, width: int) -> None:  # noqa: ANN401
    told = text(made(), width=width)
    assert max(map(cells, told.splitlines())) <= width
    assert all(line == line.rstrip() for line in told.splitlines())
    assert told.endswith("\n")
    assert "\x1b" not in told
    assert text(made(), width=width, ascii_only=True).isascii()
    assert "\x1b[" in text(made(), width=width, colour=True)


def test_all_logs_of_a_wide_sweep_are_shown_in_a_narrow_room() -> None:
    logs = [
        dataclass.replace(log, name=f"log-{n}")
        for n, log in enumerate([of(QUICK), of(replace(QUICK, seed=99))] * 4)
    ]
    told = text(compare(logs), width=60)
    (stages,) = [part for part in told.split("\n\n") if part.startswith("p50 of a partition")]
    assert sum(line.startswith("  Synth ") for line in stages.splitlines()) > 1
    for letter in "ABCDEFGH":
        assert any(letter in line.split() for line in stages.splitlines())


def test_the_document_has_what_scripts_look_for() -> None:
    document: Any = diff_document(story())
    json.dumps(document, allow_nan=False)
    assert document["schema"] == "cuzktop.diff/1"
    assert [log["label"] for log in document["logs"]] == ["A", "B"]
    for log in document["logs"]:
        assert sum(log["gpu"]["time_pct"].values()) == pytest.approx(100, abs=0.1)
        assert tuple(log["gpu"]["time_pct"]) == TIME_CLASSES
        assert log["proofs"]["per_hour"] == pytest.approx(
            3600 / log["proofs"]["seconds_per_proof"], rel=0.01
        )
        assert sum(log["gpu"]["ms_per_proof"].values()) == pytest.approx(
            log["gpu"]["span_ms"] * log["partitions"]["per_proof"] / log["partitions"]["done"]
        )
    assert document["settings"]["differ"]["daemon"][1] == "S42-S45"
    assert document["settings"]["same"]["gpu_workers_per_device"] == "1"
    (step,) = document["steps"]
    assert (step["a"], step["b"]) == ("A", "B")
    assert step["pace"]["real"] is True
    synth = step["stages"]["synth_ms"]
    assert synth["p50_diff_ms"] == synth["p50_ms"][1] - synth["p50_ms"][0]
    assert step["stages"]["lock_wait_ms"]["p50_ms"][0] is None, "not printed before S41"
    assert step["stages"]["lock_wait_ms"]["p50_real"] is None
    assert document["sweep"] is None
    assert document["sentences"] == sentences(story())


def test_outside_text_reaches_no_terminal() -> None:
    evil = dataclass.replace(of(QUICK), name="logs/\x1b[31m\ud800.log")
    comparison = compare([evil, of(replace(QUICK, seed=99))])
    assert "\x1b" not in text(comparison)
    json.dumps(diff_document(comparison), ensure_ascii=False).encode()


def test_a_difference_that_is_rounded_to_nothing_has_no_sign() -> None:
    """Two logs that differ a little in everything, and each of them against itself."""
    one, other = of(replace(QUICK, seed=3)), of(replace(QUICK, seed=4))
    pairs = [(one, other), (other, one), (one, one)]
    for comparison in (compare(list(pair)) for pair in pairs):
        printed = text(comparison)
        assert re.search(r"[+-]0(\.0+)?( |$)", printed, re.MULTILINE) is None, printed
        assert re.search(r"-0\.0\b(?![1-9])", json.dumps(diff_document(comparison))) is None
