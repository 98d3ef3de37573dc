"""The simulator keeps the promises that tests of attribution build on."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tests import logsim
from tests.logsim import Knobs

SMALL = Knobs(jobs=3, synth=900, cuts=30, srs=700, concurrency=2)
CUZK = re.compile(rb"CUZK_(?:TIMING|NTT_H): [^\n]*\n")
VERSIONS = [16, 18, 19, 21, 23, 24, 28, 30, 33, 36, 38, 40, 41, 45]
Call = dict[str, tuple[int, int]]  # figure → (position among the CUZK lines, value)


@cache
def played(version: int, kind: str = "porep+snap+wdpost") -> tuple[bytes, dict[str, Any]]:
    gpus = 2 if version >= 31 else 1
    return logsim.simulate(
        replace(SMALL, version=version, gpus=gpus, kind=kind, ids="curio", torn=0.3, seed=version)
    )


def partitions(truth: dict[str, Any]) -> list[dict[str, Any]]:
    return [p for run in truth["runs"] for p in run["partitions"]]


def calls(truth: dict[str, Any]) -> dict[int, Call]:
    """What each call printed."""
    printed: dict[int, Call] = defaultdict(dict)
    for at, (_, owner, text) in enumerate(truth["cuzk_lines"]):
        for name, value in re.findall(r"(\w+)=(-?\d+)", text):
            printed[owner].setdefault(name, (at, int(value)))
    return printed


def timeline(log: bytes) -> Iterator[tuple[int, str, str, dict[str, str]]]:
    """Offset, event, job and detail of every TIMELINE line, torn ones put together again."""
    rest = CUZK.sub(b"", logsim.only_stream(log, "stderr")).decode()
    for line in rest.splitlines():
        if line.startswith("TIMELINE,"):
            _, offset, event, tail = line.split(",", 3)
            detail = logsim.DETAIL[event].search(tail)
            assert detail is not None, line
            pairs = dict(x.split("=") for x in detail[1].split(",") if "=" in x)
            yield int(offset), event, tail[: detail.start()], pairs


def number(pairs: dict[str, str]) -> int | None:
    shown = pairs.get("partition", pairs.get("snap_partition"))
    return None if shown is None else int(shown)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_partition_passes_its_six_events_in_order(version: int) -> None:
    log, truth = played(version)
    seen: dict[tuple[str, int | None], list[tuple[str, int, str | None]]] = defaultdict(list)
    for offset, event, job, pairs in timeline(log):
        key = (job, number(pairs))
        if job.startswith("wdpost"):  # its GPU_END names the deadline's partition from S24 on
            assert (key[1] is not None) == (event == "GPU_END" and version >= 24)
            key = (job, None)
        seen[key].append((event, offset, pairs.get("worker")))
    queued = "GPU_QUEUE" if version >= 38 else "CHAN_SEND"
    events = ["SYNTH_START", "SYNTH_END", queued, "GPU_PICKUP", "GPU_START", "GPU_END"]
    for steps in seen.values():
        assert [event for event, _, _ in steps] == events
        offsets = [offset for _, offset, _ in steps]
        assert offsets == sorted(offsets)
        assert len({worker for _, _, worker in steps[3:]}) == 1
    assert set(seen) == {(p["job"], p["partition"]) for p in partitions(truth)}
    assert (b"snap_partition=" in log) == (29 <= version <= 36)


@pytest.mark.parametrize("version", VERSIONS)
def test_lines_of_a_call_keep_order_and_identities(version: int) -> None:
    _, truth = played(version)
    printed = calls(truth)
    chain = ["setup_to_split_ms", "ntt_msm_h_ms", "batch_add_ms", "tail_msm_ms"]
    if version >= 28:
        chain.insert(1, "d_b_alloc")
    if version >= 41:
        chain.insert(1, "mutex_wait_ms")
        chain.insert(4, "barrier_wait_ms")
        chain.append("mutex_held_ms")
    for p in partitions(truth):
        call = printed[p["call"]]
        at = {name: place for name, (place, _) in call.items()}
        ms = {name: value for name, (_, value) in call.items()}
        assert [at[name] for name in chain] == sorted(at[name] for name in chain)
        assert at["setup_to_split_ms"] < at["prep_msm_ms"] < at["b_g2_msm_ms"]
        assert at["prep_msm_ms"] < at["batch_add_ms"]
        parts = ms["ntt_msm_h_ms"] + ms["batch_add_ms"] + ms["tail_msm_ms"]
        assert 0 <= ms["gpu_total_ms"] - parts - p["barrier_wait_ms"] <= 7
        assert "async_dealloc_ms" in ms
        for name in ("prep_msm_ms", "b_g2_msm_ms", "ntt_msm_h_ms", "batch_add_ms", "tail_msm_ms"):
            assert p[name] == ms[name]
        if version <= 23:
            assert max(at["b_g2_msm_ms"], at["tail_msm_ms"]) < at["epilogue_ms"]
            assert p["gpu_ms"] >= ms["pre_destructor_ms"]
        if version >= 41:
            assert at["prep_msm_ms"] < at["barrier_wait_ms"]
            assert ms["mutex_held_ms"] >= ms["gpu_total_ms"]
            before = ms["pre_lock_cpu_ms"] + ms["mutex_wait_ms"] + ms["mutex_held_ms"]
            assert 0 <= ms["total_start_fn_ms"] - before <= 2


@pytest.mark.parametrize("version", VERSIONS)
def test_the_file_holds_the_lines_of_the_truth(version: int) -> None:
    log, truth = played(version)
    written = [line.decode().rstrip("\n") for line in CUZK.findall(log)]
    assert written == [text for _, _, text in truth["cuzk_lines"]]


@pytest.mark.parametrize("version", [18, 23, 24, 38, 45])
def test_shares_of_the_truth_follow_from_the_log(version: int) -> None:
    log, truth = played(version)
    started: dict[str, int] = {}
    brackets: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for offset, event, job, pairs in timeline(log):
        key = f"{job}/{None if job.startswith('wdpost') else number(pairs)}"
        if event == "GPU_START":
            started[key] = offset
        if event == "GPU_END":
            gpu = int(pairs["worker"]) // truth["scenario"]["gw"]
            brackets[gpu].append((started.pop(key), offset))
    assert not started
    for gpu in truth["runs"][0]["gpus"]:
        mine = brackets[gpu["gpu"]]
        span = max(b for _, b in mine) - min(a for a, _ in mine)
        together = logsim.covered(logsim.union(mine))
        assert 100 * together / span == pytest.approx(gpu["bracket_union_pct"], abs=0.3)
        assert 100 * logsim.covered(mine) / span == pytest.approx(gpu["bracket_sum_pct"], abs=0.3)
        own = [p for p in partitions(truth) if p["gpu"] == gpu["gpu"]]
        kernel = sum(p["ntt_msm_h_ms"] + p["batch_add_ms"] + p["tail_msm_ms"] + 1.5 for p in own)
        held = sum(p["lock_held_ms"] + 0.5 for p in own)
        assert 100 * kernel / span == pytest.approx(gpu["kernel_pct"], abs=0.3)
        assert 100 * held / span == pytest.approx(gpu["lock_held_pct"], abs=0.3)
        assert sum(gpu["time_pct"].values()) == pytest.approx(100, abs=0.1)


def test_a_cut_names_the_holder_between_its_lock_lines() -> None:
    log, truth = played(45)
    by_call = {p["call"]: p for p in partitions(truth)}
    held = 0
    for cut in truth["cuts"]:
        holders: dict[int, dict[str, Any] | None] = defaultdict(lambda: None)
        before = len(CUZK.findall(log[: cut["at_byte"]]))
        assert log[cut["at_byte"] - 1 : cut["at_byte"]] == b"\n"
        for _, owner, text in truth["cuzk_lines"][:before]:
            p = by_call[owner]
            if "mutex_wait_ms" in text:
                holders[p["gpu"]] = {n: p[n] for n in ("worker", "job", "partition")}
            if "mutex_held_ms" in text:
                holders[p["gpu"]] = None
        for gpu in cut["gpus"]:
            assert gpu["holder"] == holders[gpu["gpu"]]
            held += gpu["holder"] is not None
    assert held > 10


def test_the_same_seed_gives_the_same_log() -> None:
    knobs = replace(SMALL, seed=5)
    assert logsim.simulate(knobs) == logsim.simulate(knobs)


def test_every_timeline_line_can_be_torn() -> None:
    log, truth = logsim.simulate(replace(SMALL, torn=1.0, intruders=4, ids="weird", seed=3))
    whole = sum(1 for _ in timeline(log))
    assert whole == 6 * len(partitions(truth))
    assert truth["scenario"]["torn_lines"] > 0.5 * whole


def test_a_kill_loses_what_was_under_way_and_the_next_run_proves_it() -> None:
    log, truth = logsim.simulate(replace(SMALL, runs=2, kill=6000, ids="curio", seed=6))
    first, second = truth["runs"]
    assert log.count(b"cuzk-daemon starting") == 2
    assert {p["state"] for p in first["partitions"]} == {"done", "lost"}
    assert first["proofs_completed"] + second["proofs_completed"] == 3


@pytest.mark.parametrize("version", [23, 24, 45])
def test_a_failed_start_prints_no_kernel_lines(version: int) -> None:
    knobs = replace(SMALL, version=version, fail_gpu=0.15, fail_synth=0.05, retry=True, seed=8)
    log, truth = logsim.simulate(knobs)
    printed = calls(truth)
    failed = [p for p in partitions(truth) if p["state"] == "failed" and p["start_ms"] is not None]
    assert failed
    assert max(p["attempt"] for p in partitions(truth)) == 2
    for p in failed:
        names = set(printed[p["call"]])
        assert not names & {"ntt_msm_h_ms", "batch_add_ms", "tail_msm_ms", "async_dealloc_ms"}
        assert ("mutex_held_ms" in names) == (version >= 41)
    ended = sum(event == "GPU_END" for _, event, _, _ in timeline(log))
    assert ended == sum(p["state"] == "done" for p in partitions(truth))


def test_disturbances_can_be_switched_off() -> None:
    _, truth = logsim.simulate(
        replace(SMALL, jitter=0, stall=0, split_slow=0, sync=0, torn=0, cold=0, srs=1)
    )
    assert truth["scenario"]["torn_lines"] == 0
    for p in partitions(truth):
        assert p["lock_held_ms"] - p["gpu_total_ms"] <= 1


def test_damage_takes_what_it_says() -> None:
    log, _ = played(45)
    assert len(logsim.cut_front(log, 0.5)) == pytest.approx(0.5 * len(log), abs=1000)
    out, err = logsim.only_stream(log, "stdout"), logsim.only_stream(log, "stderr")
    assert len(out) + len(err) == len(log)
    assert b"TIMELINE," not in out
    assert b"INFO" not in err
    kept = logsim.drop_lines(log, 0.1, seed=1)
    assert kept.count(b"\n") == pytest.approx(0.9 * log.count(b"\n"), rel=0.05)
