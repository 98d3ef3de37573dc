"""`cuzktop trace`: what the viewers' rules ask for, and that the figures are the log's."""

from __future__ import annotations

import io
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzktop.events import GpuSampled
from cuzktop.headless.trace import TraceCounts, _Lane, _Slots, write_trace
from cuzktop.parse.scanner import LogScanner
from cuzktop.sources.demos import demo, demo_names
from cuzktop.sources.files import open_log, read_blocks
from cuzktop.sources.samples import read_samples
from tests import logsim
from tests.corelog import ZERO_US, Json, Log
from tests.logsim import SCENARIOS, Knobs

SECOND = 1_000_000
QUICK = Knobs(jobs=4, synth=700, srs=300, cuts=0)


def trace(
    log: bytes, samples: tuple[GpuSampled, ...] = (), name: str = "daemon.log"
) -> tuple[Json, TraceCounts]:
    out = io.StringIO()
    counts = write_trace(out, [log], LogScanner(), samples, name)
    document: Json = json.loads(out.getvalue())
    assert counts.events == len(document["traceEvents"])
    return document, counts


def of_phase(document: Json, *phases: str) -> list[Json]:
    return [event for event in document["traceEvents"] if event["ph"] in phases]


def rows(document: Json, pid: int) -> dict[str, int]:
    """A process's rows by name."""
    return {
        event["args"]["name"]: event["tid"]
        for event in of_phase(document, "M")
        if event["name"] == "thread_name" and event["pid"] == pid
    }


def slices(document: Json, tid: int) -> list[Json]:
    """A row's slices, in order of time."""
    found = [event for event in of_phase(document, "X") if event["tid"] == tid]
    return sorted(found, key=lambda event: (event["ts"], -event["dur"]))


def asynchronous(document: Json, category: str) -> list[tuple[str, int, int, Json]]:
    """Name, from, to and arguments of that category's slices."""
    found, opened = [], defaultdict(list)
    for event in of_phase(document, "b", "e"):
        if event["cat"] != category:
            continue
        if event["ph"] == "b":
            opened[event["id"]].append(event)
        else:
            begun = opened[event["id"]].pop()
            found.append((begun["name"], begun["ts"], event["ts"], begun.get("args", {})))
    return found


# ---------------------------------------------------------------- the format's rules


def problems(document: Json) -> list[str]:
    """What Perfetto or chrome://tracing would drop, misplace or refuse."""
    return [
        *_bad_events(document),
        *_badly_nested(document),
        *_unbalanced(document),
    ]


def _bad_events(document: Json) -> Iterator[str]:
    threads: dict[int, int] = {}
    processes = {
        event["pid"] for event in document["traceEvents"] if event["name"] == "process_name"
    }
    for event in document["traceEvents"]:
        phase, pid, tid = event["ph"], event["pid"], event["tid"]
        if not (isinstance(pid, int) and isinstance(tid, int) and event["name"]):
            yield f"no place or name: {event}"
        if threads.setdefault(tid, pid) != pid:
            yield f"thread id in two processes: {event}"
        if phase == "M":
            continue
        if pid not in processes:
            yield f"the process has no name: {event}"
        if not isinstance(event["ts"], int) or event["ts"] < 0:
            yield f"bad time: {event}"
        if phase == "X":
            if not isinstance(event["dur"], int) or event["dur"] < 0:
                yield f"bad length: {event}"
        elif phase == "C":
            figures = event["args"].values()
            if not figures or not all(isinstance(value, int | float) for value in figures):
                yield f"no figure: {event}"
        elif phase == "i":
            if event["s"] not in {"g", "p", "t"}:
                yield f"bad scope: {event}"
        elif phase in {"b", "e"}:
            if not (event["cat"] and event["id"]):
                yield f"no id: {event}"
        else:
            yield f"unknown phase: {event}"


def _badly_nested(document: Json) -> Iterator[str]:
    by_row = defaultdict(list)
    for order, event in enumerate(of_phase(document, "X")):
        by_row[event["tid"]].append((event["ts"], order, event["ts"] + event["dur"], event["name"]))
    for tid, row in by_row.items():
        open_until: list[int] = []
        for start, _, end, name in sorted(row):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            if open_until and end > open_until[-1]:
                yield f"{name} at {start} in {tid} outlasts what holds it"
            open_until.append(end)


def _unbalanced(document: Json) -> Iterator[str]:
    by_id = defaultdict(list)
    for order, event in enumerate(of_phase(document, "b", "e")):
        by_id[event["cat"], event["id"]].append((event["ts"], order, event))
    for key, events in by_id.items():
        if len({event["pid"] for _, _, event in events}) > 1:
            yield f"{key} in two processes"
        opened: list[str] = []
        for at, _, event in sorted(events, key=lambda one: one[:2]):
            if event["ph"] == "b":
                opened.append(event["name"])
            elif not opened or opened.pop() != event["name"]:
                yield f"{key} ends {event['name']} at {at}, which isn't the one open"
        if opened:
            yield f"{key} never ends {opened}"


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        ({"ph": "X", "pid": 1, "tid": 2, "ts": 5, "dur": 10, "name": "x"}, "outlasts"),
        ({"ph": "X", "pid": 1, "tid": 2, "ts": -5, "dur": 1, "name": "x"}, "bad time"),
        ({"ph": "X", "pid": 1, "tid": 2, "ts": 90, "dur": 1.5, "name": "x"}, "bad length"),
        ({"ph": "X", "pid": 3, "tid": 9, "ts": 90, "dur": 1, "name": "x"}, "has no name"),
        ({"ph": "M", "pid": 3, "tid": 2, "name": "thread_name", "args": {}}, "two processes"),
        ({"ph": "b", "pid": 1, "tid": 1, "ts": 1, "cat": "c", "id": "1", "name": "x"}, "never"),
        ({"ph": "e", "pid": 1, "tid": 1, "ts": 1, "cat": "c", "id": "1", "name": "x"}, "isn't"),
        ({"ph": "C", "pid": 1, "tid": 1, "ts": 1, "name": "x", "args": {"a": None}}, "no figure"),
    ],
)
def test_the_rules_find_what_is_wrong(event: Json, complaint: str) -> None:
    good = [
        {"ph": "M", "pid": 1, "tid": 1, "name": "process_name", "args": {"name": "p"}},
        {"ph": "X", "pid": 1, "tid": 2, "ts": 0, "dur": 10, "name": "a"},
        {"ph": "X", "pid": 1, "tid": 2, "ts": 0, "dur": 4, "name": "b"},
        {"ph": "X", "pid": 1, "tid": 2, "ts": 10, "dur": 4, "name": "c"},
    ]
    assert problems({"traceEvents": good}) == []
    assert complaint in " ".join(problems({"traceEvents": [*good, event]}))


HARD = (
    "s16-mixed", "s18-2x1", "s19-2x2", "s20-mixed", "s23-fail", "s24-1x3", "s29", "s31-2x2",
    "s36-torn", "s40-fail", "s45-torn100", "s45-fail", "s45-wdpost", "s45-jitter", "s45-kill",
    "s45-weird",
)  # fmt: skip


@pytest.mark.parametrize("name", HARD)
def test_every_kind_of_log_gives_a_good_trace(name: str) -> None:
    log, _ = logsim.simulate(replace(SCENARIOS[name], cuts=0, jobs=min(8, SCENARIOS[name].jobs)))
    document, counts = trace(log)
    assert problems(document) == []
    assert counts.partitions > 5


@pytest.mark.parametrize("name", demo_names())
def test_every_demo_gives_a_good_trace(name: str) -> None:
    chosen = demo(name)
    out = io.StringIO()
    samples = () if chosen.gpu_csv is None else read_samples(chosen.gpu_csv, utc=chosen.utc)
    with open_log(chosen.log) as file:
        counts = write_trace(out, read_blocks(file), LogScanner(), samples, name)
    document = json.loads(out.getvalue())
    assert problems(document) == []
    assert (counts.samples > 100) == (chosen.gpu_csv is not None)
    for pid in {event["pid"] for event in of_phase(document, "X")} - {1}:
        assert list(rows(document, pid)) == ["lock"], "one alone holds a GPU's lock"


@cache
def quick() -> bytes:
    return logsim.simulate(QUICK)[0]


@pytest.mark.parametrize("share", [0.1, 0.4, 0.8])
def test_a_log_without_its_beginning_gives_a_good_trace(share: float) -> None:
    document, _ = trace(logsim.cut_front(quick(), share))
    assert problems(document) == []


@pytest.mark.parametrize("share", [0.02, 0.3])
def test_a_log_with_missing_lines_gives_a_good_trace(share: float) -> None:
    document, _ = trace(logsim.drop_lines(quick(), share, seed=3))
    assert problems(document) == []


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_half_a_log_gives_what_it_has(stream: str) -> None:
    document, counts = trace(logsim.only_stream(quick(), stream))
    assert problems(document) == []
    slots = [name for name in rows(document, 1) if name.startswith("synthesis slot")]
    assert slots, "syntheses are known from either half"
    assert (counts.partitions == 0) == (stream == "stdout")


def test_lines_that_stand_in_the_log_twice_are_drawn_once() -> None:
    twice = b"".join(line * 2 for line in quick().splitlines(keepends=True))
    once, doubled = trace(quick())[0], trace(twice)[0]
    assert [(e["ts"], e["name"]) for e in of_phase(doubled, "C")] == [
        (e["ts"], e["name"]) for e in of_phase(once, "C")
    ]
    assert len(of_phase(doubled, "X")) == len(of_phase(once, "X"))


def test_a_line_that_comes_again_after_a_restart_ends_nothing() -> None:
    log = Log().start().admitted(50, "j", 2).clocked(100, "SYNTH_START", "j", "partition=0")
    log.start().clocked(100, "SYNTH_START", "j", "partition=0")
    document, counts = trace(log.data)
    assert counts.runs == 2
    assert problems(document) == []


@pytest.mark.parametrize("log", [b"", b"nothing of ours\n", bytes(range(256))])
def test_a_foreign_log_gives_an_empty_trace(log: bytes) -> None:
    document, counts = trace(log, (GpuSampled(1e12, 0, 50.0, "gpm", 100.0),))
    assert document["traceEvents"] == []
    assert counts == TraceCounts(samples_outside=1)


# ---------------------------------------------------------------- what is in it


def one_call() -> Log:
    """One partition: synthesized from 100 to 1100, proved from 2000 to 3010."""
    log = Log().start().admitted(50, "porep-1", 1).synthesized(100, "porep-1", 0)
    return log.called(2000, "porep-1", 0).assembled(3050, "porep-1")


def test_one_partition_stands_where_the_log_has_it() -> None:
    document, counts = trace(one_call().data)
    assert counts == TraceCounts(events=counts.events, runs=1, partitions=1)
    (synthesis,) = slices(document, rows(document, 1)["synthesis slot 1"])
    assert (synthesis["ts"], synthesis["dur"]) == (100_000, SECOND)
    assert synthesis["name"] == "porep-1 p0"
    lock, *stages = slices(document, rows(document, 10)["lock"])
    assert lock["name"] == "porep-1 p0"
    assert lock["ts"] == pytest.approx(2_005_000, abs=3000)
    assert lock["dur"] == pytest.approx(855_000, abs=1000)
    assert [(stage["name"], stage["dur"]) for stage in stages] == [
        ("ntt_msm_h", 400_000),
        ("barrier", 303_000),
        ("batch_add", 100_000),
        ("tail_msm", 50_000),
    ]
    assert lock["args"]["attribution"] == "exact"
    assert lock["args"]["attempt"] == 1
    brackets = {name: (lo, hi) for name, lo, hi, _ in asynchronous(document, "bracket")}
    assert brackets["worker 0 brackets"] == brackets["porep-1 p0"] == (2_000_000, 3_010_000)
    assert brackets["lock held"] == (lock["ts"], lock["ts"] + lock["dur"])
    assert brackets["CPU before the lock"][1] == lock["ts"]
    assert brackets["finishing"] == (lock["ts"] + lock["dur"], 3_010_000)
    assert "lock wait" not in brackets, "it had none"
    proofs = {name: (lo, hi) for name, lo, hi, _ in asynchronous(document, "proof")}
    assert proofs["porep-1"] == (100_000, 3_050_000)


def test_every_stage_of_every_partition_is_as_long_as_printed() -> None:
    log, _ = logsim.simulate(replace(SCENARIOS["s45-calm"], cuts=0))
    document, counts = trace(log)
    printed = re.findall(rb"ntt_msm_h_ms=(\d+)", log)
    ntt = [event["dur"] for event in of_phase(document, "X") if event["name"] == "ntt_msm_h"]
    assert len(ntt) == len(printed) == counts.partitions
    assert sum(ntt) == pytest.approx(1000 * sum(map(int, printed)), rel=0.005)


def test_counters_follow_syntheses_and_queue() -> None:
    log = Log().start().admitted(50, "j", 2).synthesized(100, "j", 0).synthesized(200, "j", 1)
    document, _ = trace(log.picked(1500, "j", 0).picked(1600, "j", 1, worker=1).data)
    counted = defaultdict(list)
    for event in of_phase(document, "C"):
        (value,) = event["args"].values()
        counted[event["name"]].append(value)
    assert counted["syntheses"] == [1, 0, 1, 0]
    assert counted["GPU queue"] == [1, 2, 1, 0]


def test_what_is_in_flight_at_the_end_is_shown_as_such() -> None:
    log = one_call().admitted(3100, "porep-2", 2).synthesized(3200, "porep-2", 0)
    log.picked(4300, "porep-2", 0).clocked(4400, "SYNTH_START", "porep-2", "partition=1")
    document, _ = trace(log.say(5000, "still alive").data)
    assert problems(document) == []
    names = {name for name, *_ in asynchronous(document, "bracket")}
    assert "porep-2 p0 (in flight)" in names
    assert "porep-2 (in flight)" in {name for name, *_ in asynchronous(document, "proof")}
    last = max(of_phase(document, "X"), key=lambda event: event["ts"])
    assert last["args"]["unfinished"] is True


def test_failures_are_instants_and_their_locks_hold_no_stage() -> None:
    log, _ = logsim.simulate(
        replace(
            SCENARIOS["s45-fail"], cuts=0, fail_gpu=0.1, fail_check=0.6, fail_synth=0.05, jobs=8
        )
    )
    document, _ = trace(log)
    texts = [event["args"].get("text", "") for event in of_phase(document, "i")]
    assert any("GPU prove start" in text for text in texts)
    assert any("self-check FAILED" in text or "self-check failed" in text for text in texts)
    assert any("synthesis failed" in text for text in texts)
    failed = [name for name, *_ in asynchronous(document, "bracket") if name.endswith("(failed)")]
    assert failed
    locks = [event for event in of_phase(document, "X") if event["name"].endswith("(failed)")]
    stages = [event for event in of_phase(document, "X") if event["name"] == "ntt_msm_h"]
    for lock in locks:
        end = lock["ts"] + lock["dur"]
        held = [s for s in stages if s["tid"] == lock["tid"] and lock["ts"] < s["ts"] < end]
        assert not held


def test_a_restart_lies_where_the_wall_clock_puts_it() -> None:
    knobs = replace(SCENARIOS["s45-kill"], cuts=0, jobs=6, runs=2, kill=9000)
    log, _ = logsim.simulate(knobs)
    document, counts = trace(log)
    assert counts.runs == 2
    started = {event["name"]: event["ts"] for event in of_phase(document, "i") if event["s"] == "g"}
    zeros = re.findall(rb"(\d\d):(\d\d):(\d\d\.\d{6})Z.{1,40}starting cuzk engine", log)
    first, second = (int(h) * 3600 + int(m) * 60 + float(s) for h, m, s in zeros)
    assert started["run 0: daemon started"] == 0
    apart_us = round((second - first) * SECOND)
    assert started["run 1: daemon started"] == pytest.approx(apart_us, abs=5)
    gone = [name for name in started if name.startswith("daemon gone: ")]
    assert gone
    assert started[gone[0]] < started["run 1: daemon started"]
    assert any(name.endswith("(lost)") for name, *_ in asynchronous(document, "bracket"))


def test_without_wall_clocks_a_run_follows_the_one_before() -> None:
    log = logsim.only_stream(
        logsim.simulate(replace(SCENARIOS["s45-kill"], cuts=0, jobs=6, runs=2, kill=9000))[0],
        "stderr",
    )
    document, counts = trace(log)
    assert problems(document) == []
    assert counts.runs == 2
    first, second = document["otherData"]["runs"]
    assert second["offset_ms"] == first["end_ms"] + 1000


def test_what_is_not_certain_is_marked() -> None:
    log, _ = logsim.simulate(replace(SCENARIOS["s31-2x2"], cuts=0, jobs=6))
    document, counts = trace(log)
    assert counts.inferred
    locks = [event for event in of_phase(document, "X") if "lock_held_ms" in event["args"]]
    assert all(lock["name"].startswith("~") for lock in locks), "before S41 it is derived"
    for event in of_phase(document, "X"):
        if event["name"].endswith("ntt_msm_h"):
            inferred = event["args"]["attribution"] == "inferred"
            assert event["name"].startswith("~") == inferred


def test_ids_of_any_shape_pass_through() -> None:
    log, _ = logsim.simulate(replace(QUICK, ids="weird"))
    document, _ = trace(log, name="a\ud800b")
    jobs = {event["args"]["job"] for event in of_phase(document, "X") if "job" in event["args"]}
    assert any(re.search(r"[ ,\[\]]", job) for job in jobs)
    assert document["otherData"]["log"] == "a\N{REPLACEMENT CHARACTER}b"


# ---------------------------------------------------------------- NVML


def reading(at_ms: float, util_pct: float | None = 40.0, **more: Any) -> GpuSampled:  # noqa: ANN401
    return GpuSampled(ZERO_US / 1000 + at_ms, more.pop("gpu", 0), util_pct, "gpm", 100.0, **more)


def test_readings_become_counters_of_the_window_they_tell_of() -> None:
    document, counts = trace(
        one_call().data,
        (reading(2500, power_w=300.0), reading(2600, None, power_w=310.0), reading(2700, gpu=1)),
    )
    counters = [
        (event["pid"], event["name"], event["ts"], event["args"])
        for event in of_phase(document, "C")
        if event["pid"] >= 10
    ]
    assert counters == [
        (10, "NVML util", 2_400_000, {"%": 40.0}),
        (10, "power", 2_500_000, {"W": 300.0}),
        (10, "power", 2_600_000, {"W": 310.0}),
        (11, "NVML util", 2_600_000, {"%": 40.0}),
    ]
    assert counts.samples == 3
    assert problems(document) == []


def test_copies_are_counters_in_their_direction() -> None:
    copies = reading(2500, None, host_to_device_bytes_per_s=9e9, device_to_host_bytes_per_s=1e9)
    document, _ = trace(one_call().data, (copies,))
    counters = [
        (event["name"], event["ts"], event["args"])
        for event in of_phase(document, "C")
        if event["pid"] >= 10
    ]
    assert counters == [
        ("host to device", 2_400_000, {"GB/s": 9.0}),
        ("device to host", 2_400_000, {"GB/s": 1.0}),
    ]
    assert problems(document) == []


def test_readings_from_before_and_long_after_the_log_are_left_out() -> None:
    _, counts = trace(one_call().data, (reading(-1), reading(0), reading(4000), reading(60_000)))
    assert (counts.samples, counts.samples_outside) == (2, 2)


# ---------------------------------------------------------------- rows


def test_events_are_written_while_the_log_is_read() -> None:
    out = io.StringIO()
    log = quick()
    sizes = []

    def pieces() -> Iterator[bytes]:
        for at in range(0, len(log), 4096):
            sizes.append(len(out.getvalue()))
            yield log[at : at + 4096]

    write_trace(out, pieces(), LogScanner())
    assert sizes[len(sizes) // 2] > len(out.getvalue()) / 4


@given(
    st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(0, 10**5), st.integers(0, 10**5)), max_size=60
    )
)
@settings(max_examples=60, deadline=None)
def test_a_row_never_holds_two_locks_at_a_time(spans: list[tuple[int, int, int]]) -> None:
    lane = _Lane()
    kept = []
    for start, length, spare in spans:
        fitted = lane.fit(start, start + length, start + length + spare)
        if fitted is not None:
            low, high, moved = fitted
            assert 0 <= moved <= spare
            assert start <= low < high <= start + length + moved
            kept.append((low, high))
    kept.sort()
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(kept))


def test_a_row_of_locks_forgets_and_stays_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuzktop.headless.trace.KEEP_LOCKS", 4)
    lane = _Lane()
    for at in range(0, 2000, 100):
        assert lane.fit(at * 1000, (at + 100) * 1000, (at + 100) * 1000)
    assert lane.fit(100_000, 150_000, 150_000) is None, "what lies there is forgotten, not free"


def test_a_synthesis_takes_the_lowest_row_that_was_free_by_then() -> None:
    slots = _Slots()
    assert [slots.take(0), slots.take(1)] == [0, 1]
    slots.give_back(0, 100)
    assert slots.take(98) == 2, "a line that is out of order by 2 ms"
    assert slots.take(100) == 0
