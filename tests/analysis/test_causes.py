"""Logs whose limit is known because one knob made it: the diagnosis finds what was moved."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import cache

import pytest

from cuzktop.analysis.advice import Facts, gain
from cuzktop.events import HostSampled
from cuzktop.frame import RunReport, Source
from cuzktop.parse.scanner import LogScanner
from cuzktop.picture import Picture
from cuzktop.reading import LogSummary
from tests.corelog import Log
from tests.logsim import Knobs, only_stream, simulate

CALM = Knobs(
    jobs=10,
    cuts=0,
    synth=2500,
    concurrency=4,
    srs=300,
    cold=200,
    torn=0,
    stall=0,
    contention=0,
    jitter=0.3,
    unpinned=0,
    intruders=0,
    check=0,
)
"""A GPU that is always fed and never waits; the rest moves one thing away from it."""

TOGETHER = replace(CALM, concurrency=1, synth=8000, synth_cv=0.01, sync=0.9, slots=10)

CAUSES: dict[str, tuple[Knobs, str]] = {
    "nothing-else": (CALM, "gpu"),
    "slow-ntt": (replace(CALM, ntt=900), "gpu"),
    "slow-batch-additions": (replace(CALM, version=21, batch=500), "gpu"),
    "two-gpus-fed": (replace(CALM, gpus=2), "gpu"),
    "slow-prep": (replace(CALM, prep=1800), "cpu-memory"),
    "slow-prep-one-worker": (replace(CALM, prep=1800, version=21, workers=1), "cpu-memory"),
    "slow-prep-no-lock-lines": (replace(CALM, prep=1800, version=30), "cpu-memory"),
    "slow-prep-two-gpus": (replace(CALM, gpus=2, prep=1800), "cpu-memory"),
    "contention": (replace(CALM, prep=500, contention=5, slots=12), "cpu-memory"),
    "contention-one-worker": (
        replace(CALM, prep=400, contention=4, slots=12, workers=1),
        "cpu-memory",
    ),
    "one-worker-long-b-g2": (replace(CALM, workers=1, b_g2=2500), "cpu-memory"),
    "one-worker-long-b-g2-no-lock-lines": (
        replace(CALM, workers=1, b_g2=2500, version=21),
        "cpu-memory",
    ),
    "one-worker-slow-frees": (replace(CALM, workers=1, free=1500), "cpu-memory"),
    "two-slots": (replace(CALM, slots=2), "synthesis"),
    "three-slots": (replace(CALM, slots=3, synth=6000), "synthesis"),
    "two-slots-s21": (replace(CALM, slots=2, version=21), "synthesis"),
    "two-slots-s18": (replace(CALM, slots=2, version=18), "synthesis"),
    "slow-synthesis": (replace(CALM, slots=5, synth=9000), "synthesis"),
    "little-memory": (replace(CALM, inflight=4), "synthesis"),
    "two-gpus-three-slots": (replace(CALM, gpus=2, slots=3), "synthesis"),
    "herd": (TOGETHER, "herding"),
    "herd-s33": (replace(TOGETHER, version=33, seed=2), "herding"),
    "herd-two-gpus": (replace(TOGETHER, gpus=2, seed=3), "herding"),
    "few-arrivals": (replace(CALM, parse=30_000, concurrency=1, jobs=4), "idle"),
    "few-arrivals-s24": (replace(CALM, parse=20_000, concurrency=1, version=24), "idle"),
}
SURE = 0.7


def summed(data: bytes) -> RunReport:
    with closing(LogSummary(lambda _: "")) as summary:
        summary.read([data], LogScanner())
        ((run, _),) = summary.runs
        return run


@cache
def run_of(name: str) -> RunReport:
    return summed(simulate(CAUSES[name][0])[0])


def told(run: RunReport) -> str:
    return " ".join((run.verdict.sentence, *run.verdict.evidence, *run.verdict.advice))


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_is_named(name: str) -> None:
    assert run_of(name).verdict.bottleneck == CAUSES[name][1]


@pytest.mark.parametrize("version", [20, 21, 23, 27])
def test_uploads_under_an_unseen_lock_are_no_sure_handoff(version: int) -> None:
    """S20–S27 upload under the lock without a line: the log can't tell it from a handoff."""
    run = summed(simulate(replace(CALM, version=version, prestage=900))[0])
    assert run.verdict.bottleneck == "cpu-memory"
    assert run.verdict.confidence < SURE
    assert "lock overhead" in told(run)
    assert "prestaging" in told(run)


def overhead(extra_ms: int) -> RunReport:
    """One worker that keeps the lock for `extra_ms` after its GPU section."""
    log = Log().start(workers=(0,))
    job, at = "porep-1000-1", 5000
    for index in range(10):
        log.picked(at, job, index, 0)
        for text in (
            "split_vectors_ms=1 setup_to_split_ms=1",
            "pre_lock_cpu_ms=2 mutex_wait_ms=0",
            "prep_msm_ms=300",
            "gpu_tid=0 ntt_msm_h_ms=200",
            "gpu_tid=0 barrier_wait_ms=0",
            "gpu_tid=0 batch_add_ms=150",
            "gpu_tid=0 tail_msm_ms=50 gpu_total_ms=401",
            f"mutex_held_ms={403 + extra_ms} total_start_fn_ms={405 + extra_ms}",
            "b_g2_msm_ms=290 num_circuits=1",
        ):
            log.timing(text)
        log.ended(at + 420 + extra_ms, job, index, 0, 420 + extra_ms)
        at += 430 + extra_ms
    return summed(log.data)


def test_a_lock_held_for_nothing_is_named() -> None:
    assert overhead(0).verdict.bottleneck == "gpu"
    run = overhead(400)
    assert run.verdict.bottleneck == "lock"
    assert "holds the lock 803ms, its GPU section takes 401ms" in told(run)


# ---------------------------------------------------------------- what else the log tells


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("contention", {"contention"}),
        ("contention-one-worker", {"contention"}),
        ("slow-prep", {"none", "unknown"}),
        ("nothing-else", {"none", "unknown"}),
        ("herd", {"none", "unknown"}),
    ],
)
def test_cpu_stages_stretch_only_where_they_contend(name: str, found: set[str]) -> None:
    inflation = run_of(name).inflation
    assert inflation is not None
    assert inflation.found in found
    if inflation.found == "contention":
        assert len([one for one in inflation.stages if one.follows]) >= 2
        assert inflation.sentence in run_of(name).verdict.evidence


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("slow-prep", "something holds the GPU up"),
        ("one-worker-long-b-g2", "something holds the GPU up"),
        ("two-gpus-three-slots", "the GPU isn't fed"),
        ("herd", "the GPU isn't fed"),
        ("herd", "they herd"),
        ("slow-synthesis", "too few syntheses"),
        ("slow-prep", "Without the barrier a partition would hold the lock"),
        ("two-slots-s21", "partition_workers"),
        ("two-slots-s18", "partition_workers"),
        ("one-worker-long-b-g2", "gpu_workers_per_device"),
        ("few-arrivals", "concurrency"),
    ],
)
def test_words_that_fit_the_cause(name: str, words: str) -> None:
    assert words in told(run_of(name))


@pytest.mark.parametrize("name", ["two-slots", "slow-prep", "one-worker-long-b-g2"])
def test_no_knob_of_another_generation(name: str) -> None:
    assert not {"partition_workers"} & set(told(run_of(name)).split())


@pytest.mark.parametrize(("slots", "jobs"), [(2, 8), (3, 8)])
def test_the_syntheses_that_it_asks_for_feed_the_gpu(slots: int, jobs: int) -> None:
    few = replace(CALM, slots=slots, synth=4000, jobs=jobs)
    words = told(summed(simulate(few)[0])).split(" at a time would feed it")[0].split()
    enough = summed(simulate(replace(few, slots=int(words[-1]) + 1))[0])
    classes = enough.gpus[0].shares.time_pct
    assert classes is not None
    assert classes["starved"] < 10


def test_a_gain_can_be_checked_by_what_it_says() -> None:
    """The ratio follows from the share that stays, not from the lock's two figures."""
    facts = Facts(means={"lock_held_ms": 3590.0, "barrier_wait_ms": 1780.0})
    said = gain(42.2, facts, when="without the barrier", lock_without="barrier_wait_ms")
    assert said == (
        "Without the barrier a partition would hold the lock 1.81s on average instead of 3.59s, and"
        " 1.7 times as many proofs would come at best: of the time now 42.2 % would go,"
        " 57.8 % stay."
    )
    assert pytest.approx(1.7, abs=0.05) == 1 / 0.578


def test_no_gain_beyond_the_bound() -> None:
    """What slow preparation costs, without it: not more than the bound said."""
    slow, quick = run_of("slow-prep"), run_of("nothing-else")
    bound = told(slow).split("a proof would take ")[1].split(" s at best")[0]
    assert quick.proofs.seconds_per_proof is not None
    assert quick.proofs.seconds_per_proof >= float(bound) * 0.95


def test_the_live_picture_knows_it_too() -> None:
    scanner = LogScanner()
    picture = Picture()
    picture.feed(scanner.feed(simulate(CAUSES["contention"][0])[0]))
    picture.feed([HostSampled(0.0, 90.0, None, None, None, 3.0, 0.0)])
    frame = picture.frame(source=Source(path="x"))
    assert frame.inflation is not None
    assert frame.inflation.found == "contention"
    assert frame.inflation.sentence in frame.verdict.evidence
    assert any("waits for memory bandwidth" in line for line in frame.verdict.evidence)
    assert frame.herd is not None
    assert frame.herd.sentence


def test_without_the_daemon_s_word_proofs_are_counted_by_partitions() -> None:
    log = only_stream(simulate(CAUSES["slow-prep"][0])[0], "stderr")
    run = summed(log)
    assert run.verdict.bottleneck == "cpu-memory"
    assert run.proofs.completed is None
    assert "0 of 10 proofs" not in told(run)
    assert "by partitions about" in told(run)


def test_a_single_slow_start_is_told_from_the_rest() -> None:
    """A cold GPU that reads its parameters for half of a short log; then it is fed."""
    run = summed(simulate(replace(CALM, jobs=5, cold=20_000, srs=20_000, workers=1))[0])
    assert "without the warm-up" in told(run)
