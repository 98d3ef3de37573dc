"""Whole logs: read in pieces, with noise, in halves; what is counted is what was simulated."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzktop.analysis.rows import partition_row
from cuzktop.analysis.summary import summarize
from cuzktop.analysis.throughput import StageTable
from cuzktop.events import LogEvent
from cuzktop.frame import PartitionRow
from cuzktop.model.reduce import Model
from cuzktop.model.state import Partition, Run
from tests import logsim
from tests.corelog import Json, Log, by_key, coloured, golden, only_run, read, report, scan
from tests.logsim import Knobs

STEPS = [16, 18, 19, 21, 23, 24, 27, 28, 30, 31, 33, 36, 38, 40, 41, 45]
SMALL = Knobs(jobs=3, synth=700, srs=300, cuts=0, torn=0.05)
TIME_CLASSES = {"kernel", "barrier", "lock_overhead", "handoff", "starved", "no_work"}
STATES = {"pending", "synthesizing", "queued", "gpu", "done", "failed", "skipped", "lost"}


@cache
def mixed(step: int) -> tuple[bytes, Json]:
    """Every kind of proof; ids with blanks, commas and brackets; two GPUs."""
    return logsim.simulate(
        Knobs(
            version=step,
            jobs=4,
            gpus=2,
            synth=700,
            srs=300,
            cuts=0,
            torn=0.05,
            kind="porep+snap+wdpost",
            ids="weird",
            seed=step,
        )
    )


@cache
def troubled(step: int) -> tuple[bytes, Json]:
    """Two runs, the first one killed; failures of every kind, and jobs that are sent again."""
    return logsim.simulate(
        Knobs(
            version=step,
            jobs=9,
            synth=700,
            srs=300,
            cuts=0,
            torn=0.05,
            ids="curio",
            fail_gpu=0.05,
            fail_finish=0.03,
            fail_synth=0.03,
            fail_check=0.3,
            retry=True,
            runs=2,
            kill=9000.0,
            seed=100 + step,
        )
    )


# ---------------------------------------------------------------- the truth


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("made", [mixed, troubled])
def test_everything_is_what_it_was_simulated_to_be(made: Any, step: int) -> None:  # noqa: ANN401
    log, truth = made(step)
    document = report(log)
    assert document["source"]["torn"] == truth["scenario"]["torn_lines"]
    assert document["source"]["unparsed"] == 0
    assert len(document["runs"]) == len(truth["runs"])
    for want, run in zip(truth["runs"], document["runs"], strict=True):
        rows = by_key(run)
        for partition in want["partitions"]:
            key = (partition["job"], partition["attempt"], partition["partition"])
            names = ["state", "kind"]
            if partition["state"] != "lost":  # its last line may not have been written
                names += ["worker", "gpu"]
            if partition["state"] == "done":
                names += ["synth_ms", "gpu_ms"]
            row = rows.pop(key)
            assert {name: row[name] for name in names} == {name: partition[name] for name in names}
        assert {row["state"] for row in rows.values()} <= {"pending"}  # dispatched, never begun
        counts = (run["proofs"]["completed"], run["proofs"]["failed"])
        assert counts == (want["proofs_completed"], want["proofs_failed"])
        for gpu, expected in zip(run["gpus"], want["gpus"], strict=True):
            for name in ("bracket_union_pct", "bracket_sum_pct"):
                assert gpu[name] == pytest.approx(expected[name], abs=0.3)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("made", [mixed, troubled])
def test_shares_add_up_and_stay_in_their_bounds(made: Any, step: int) -> None:  # noqa: ANN401
    for run in report(made(step)[0])["runs"]:
        for gpu in run["gpus"]:
            shares = gpu["time_pct"]
            if shares is None:  # too few calls have times of their own
                continue
            assert set(shares) == TIME_CLASSES
            assert sum(shares.values()) == pytest.approx(100, abs=0.1)
            assert all(0 <= share <= 100 for share in shares.values())
            ladder = [
                gpu[f"{name}_pct"]
                for name in ("bracket_union", "lock_held", "gpu_section", "kernel")
            ]
            assert 100 >= ladder[0] >= ladder[1] - 0.2
            assert ladder[1] >= ladder[2] - 0.2
            assert ladder[2] >= ladder[3] >= 0
            sum_pct = gpu["bracket_sum_pct"]
            assert 0 <= sum_pct <= 100 * (len(gpu["workers"]) + 1)
        assert 0 <= run["verdict"]["confidence"] <= 1


def herd(log: Log, at_ms: int, job: str) -> Log:
    """Four syntheses of 20 s that end together, and their calls one after the other."""
    for index in range(4):
        log.clocked(at_ms, "SYNTH_START", job, f"partition={index}")
    for index in range(4):
        log.clocked(at_ms + 20_000, "SYNTH_END", job, f"partition={index},synth_ms=19900")
    for index in range(4):
        log.called(at_ms + 20_000 + 1020 * index, job, index)
    return log


@pytest.mark.parametrize("failures", [0, 60])
def test_syntheses_that_end_together_are_a_herd(failures: int) -> None:
    """Those that failed long ago are not in flight any more."""
    log = Log().start()
    for n in range(failures):
        log.clocked(50, "SYNTH_START", f"f{n}", "partition=0")
        log.say(60, f"partition synthesis failed error=e job_id=f{n} partition=0", "ERROR")
    for n in range(6):
        herd(log, 100 + 24_500 * n, f"porep-1000-{n}")
    run = only_run(report(log.data))
    assert run["gpus"][0]["time_pct"]["starved"] > 60
    assert run["verdict"]["bottleneck"] == "herding"


# ---------------------------------------------------------------- in pieces


def told(events: list[LogEvent], cut: int) -> list[Any]:
    """What a model tells of each run, with its events fed in two batches."""
    result: list[Any] = []
    rows: list[PartitionRow] = []
    stages = StageTable()

    def finished(run: Run, partition: Partition) -> None:
        row = partition_row(partition, lock_lines=run.lock_lines)
        rows.append(row)
        stages.add(row)

    def ended(run: Run) -> None:
        result.append(plain(summarize(run, stages, {})))

    model = Model(finished, ended, keep_ms=math.inf)
    model.feed(events[:cut])
    model.feed(events[cut:])
    model.finish()
    ended(model.run)
    return [*result, [plain(row) for row in rows]]


def plain(value: Any) -> Any:  # noqa: ANN401
    """A frame's objects, which compare by identity, as their fields."""
    if hasattr(value, "__dataclass_names__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_names__}
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


@cache
def all_of(step: int) -> tuple[list[LogEvent], list[Any]]:
    events = scan(troubled(step)[0])[0]
    return events, told(events, 0)


@given(st.sampled_from([21, 30, 45]), st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_events_may_come_in_any_two_batches(step: int, where: float) -> None:
    events, whole = all_of(step)
    assert told(events, int(where * len(events))) == whole


@cache
def report_of(step: int) -> Json:
    return report(troubled(step)[0])


@given(st.sampled_from([18, 24, 45]), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_bytes_may_come_in_any_pieces(step: int, one: float, other: float) -> None:
    log = troubled(step)[0]
    first, second = sorted(int(where * len(log)) for where in (one, other))
    assert read(iter((log[:first], log[first:second], log[second:]))) == report_of(step)


# ---------------------------------------------------------------- noise

UNKNOWN = (
    " INFO cuzk_core::engine: a message of tomorrow worker_id=0 partition=Some(3)",
    " INFO filecoin_proofs::caches: found params in memory cache for STACKED",
    "DEBUG cuzk_core::memory: budget acquired amount_gib=14 used_gib=90 total_gib=750",
    " INFO cuzk_core::srs_manager: SRS loaded successfully circuit_id=porep-32g elapsed_ms=6019",
)
STAMP = re.compile(rb"2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@given(
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from(("", " ", *UNKNOWN))), max_size=40),
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_noise_changes_nothing_outside_source(
    noise: list[tuple[float, str]],
    colours: bool,  # noqa: FBT001
) -> None:
    log = logsim.simulate(SMALL)[0] if colours else golden("c2_s45_two_workers")
    lines = log.split(b"\n")[:-1]
    kept = dict.fromkeys(range(len(lines)), b"")
    places = [at for at, line in enumerate(lines) if STAMP.match(line)]
    for where, text in noise:
        # A line of the same instant as the one before: its time tells nothing that was not known.
        at = places[int(where * (len(places) - 1))]
        stamp = lines[at][:27] + b" "
        kept[at] += (stamp if text.strip() else b"") + text.encode() + b"\n"
    noisy = b"".join(line + b"\n" + kept[at] for at, line in enumerate(lines))
    if colours:
        noisy = coloured(noisy)
    with_noise, without = report(noisy), report(log)
    assert with_noise["runs"] == without["runs"]
    assert with_noise["source"]["lines"] == without["source"]["lines"] + len(noise)
    for name in ("torn", "unparsed"):
        assert with_noise["source"][name] == without["source"][name]


# ---------------------------------------------------------------- logs with holes


def sane(document: Json) -> None:
    """What holds of every report, of however damaged a log."""
    for run in document["runs"]:
        counts = run["proofs"]
        for name in ("completed", "failed", "in_flight", "lost"):
            assert counts[name] is None or counts[name] >= 0
        for row in run["partitions"]:
            assert row["state"] in STATES
            for name in ("synth_ms", "bracket_ms", "gpu_ms", "queue_ms", "kernel_ms"):
                assert row[name] is None or row[name] >= 0
        for gpu in run["gpus"]:
            if gpu["time_pct"] is not None:
                assert sum(gpu["time_pct"].values()) == pytest.approx(100, abs=0.1)


@given(st.sampled_from([19, 30, 45]), st.floats(0, 0.98), st.floats(0.02, 1))
@settings(max_examples=30, deadline=None)
def test_a_log_may_be_cut_at_both_ends(step: int, front: float, back: float) -> None:
    log = logsim.cut_front(troubled(step)[0], front)
    sane(report(log[: int(back * len(log))]))


@given(st.sampled_from([19, 30, 45]), st.floats(0, 0.9), st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_lines_may_be_missing(step: int, share: float, seed: int) -> None:
    sane(report(logsim.drop_lines(troubled(step)[0], share, seed)))


@pytest.mark.parametrize("step", [18, 24, 30, 36, 45])
def test_standard_output_alone_counts_the_same_proofs(step: int) -> None:
    log, truth = mixed(step)
    run = only_run(report(logsim.only_stream(log, "stdout")))
    (want,) = truth["runs"]
    assert run["proofs"]["completed"] == want["proofs_completed"]
    assert run["proofs"]["failed"] == want["proofs_failed"]
    done = {key for key, row in by_key(run).items() if row["state"] == "done"}
    partitioned = {
        (p["job"], p["attempt"], p["partition"])
        for p in want["partitions"]
        if p["partition"] is not None
    }
    assert partitioned <= done
    assert run["gpus"] == []


@pytest.mark.parametrize("step", [18, 24, 36, 45])
def test_standard_error_alone_counts_the_same_brackets(step: int) -> None:
    log, truth = troubled(step)
    stderr = report(logsim.only_stream(log, "stderr"))
    assert len(stderr["runs"]) == 2
    for run, want in zip(stderr["runs"], truth["runs"], strict=True):
        ended = [row for row in run["partitions"] if row["state"] == "done"]
        assert len(ended) == sum(p["state"] == "done" for p in want["partitions"])
        for row in ended:
            assert row["gpu_ms"] is not None
