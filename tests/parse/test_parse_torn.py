"""TIMELINE lines that another line cuts: the same events as if nothing had happened."""

from __future__ import annotations

import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzktop.events import (
    BG2Msm,
    GpuEnded,
    GpuPickedUp,
    GpuQueued,
    GpuStarted,
    LineUnparsed,
    LogEvent,
    Noticed,
    SplitVectors,
    SynthEnded,
    SynthesisSeen,
    SynthStarted,
)
from cuzktop.parse.scanner import MAX_INTRUDERS
from tests import logsim
from tests.corelog import coloured, golden, report, said, scan
from tests.logsim import Knobs, split_writes

JOB = "porep-1000-57"
TIMELINE = (SynthStarted, SynthEnded, GpuQueued, GpuPickedUp, GpuStarted, GpuEnded)


@pytest.mark.parametrize("dress", [coloured, bytes], ids=["coloured", "plain"])
@pytest.mark.parametrize("size", [1, 65536])
@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("c10_torn_1", [BG2Msm(502, 1), GpuEnded(941641, JOB, 8, 0, 2560)]),
        (
            "c10_torn_2",
            [SynthesisSeen(1773451062537219, JOB, 8, 32415), SynthEnded(939080, JOB, 8, 32415)],
        ),
        ("c10_torn_3", [GpuStarted(939080, JOB, 8, 0), SplitVectors(1, 3)]),
    ],
)
def test_the_three_shapes_mend(
    name: str, events: list[LogEvent], size: int, dress: type[bytes]
) -> None:
    data = dress(golden(name))
    assert said(data) == events
    counts = scan(data, size)[1]
    assert (counts.torn, counts.unparsed) == (1, 0)


TIMING = "CUZK_TIMING: gpu_tid=0 tail_msm_ms=83 gpu_total_ms=1824\n"
NTT = (
    "CUZK_NTT_H: d_b_alloc=3ms ntt_kernels=0ms coset_intt_sync=60ms msm_init=22ms"
    " msm_invoke=323ms msm_dtor=4ms total=411ms\n"
)
TRACING = (
    "2026-03-14T01:17:42.537219Z  INFO cuzk_core::engine: partition synthesis complete, pushing to"
    f" GPU queue job_id={JOB} partition=8 synth_ms=32415\n"
)
FOREIGN = "2026-03-14T01:17:42.537219Z  INFO filecoin_proofs::caches: found a, b=1, worker=3\n"
SPANNED = (
    "2026-03-14T01:02:03.456789Z  INFO gpu_worker{worker_id=0 gpu=0 job_id=p,3,worker=9"
    " proof_kind=porep-c2 batch_size=1 partition=Some(3)}: cuzk_core::engine: GPU_TIMING"
    " prove_start returned worker_id=0 partition=Some(3) total_pre_prove_ms=1\n"
)
MULTILINE = (
    "2026-03-14T01:02:03.456789Z  WARN cuzk_core::pipeline: failed to save PCE error=a\n"
    "Caused by:\n"
    "    0: No space left on device, worker=\n"
)
INTRUDERS = [TIMING, NTT, TRACING, FOREIGN, SPANNED, MULTILINE]
LINES = [
    "TIMELINE,11891,SYNTH_START,{job},partition=0",
    "TIMELINE,11891,SYNTH_START,{job},kind=window-post",
    "TIMELINE,11891,SYNTH_START,{job},snap_partition=3",
    "TIMELINE,939080,SYNTH_END,{job},partition=8,synth_ms=32415",
    "TIMELINE,939080,SYNTH_END,{job},synth_ms=32415",
    "TIMELINE,939080,CHAN_SEND,{job},",
    "TIMELINE,939080,CHAN_SEND,{job},partition=8",
    "TIMELINE,939080,GPU_QUEUE,{job},monolithic",
    "TIMELINE,939080,GPU_PICKUP,{job},worker=0,partition=8",
    "TIMELINE,939080,GPU_START,{job},worker=10",
    "TIMELINE,941641,GPU_END,{job},worker=0,partition=8,gpu_ms=2560",
]
IDS = [JOB, "wdpost-1000-0-[12 255 3 4 5 6 7 8]", "a,partition=3,b", "p,7,worker=9", "größer, №1"]
intruders = st.lists(st.sampled_from(INTRUDERS), max_size=3)


@st.composite
def torn_lines(draw: st.DrawFn) -> tuple[str, str, int]:
    """A log with cut lines, the same one whole, and how many lines are cut."""
    torn, whole, cuts = "", "", 0
    for line in draw(st.lists(st.sampled_from(LINES), min_size=1, max_size=6)):
        pieces = split_writes(line.format(job=draw(st.sampled_from(IDS))))
        between = [draw(intruders) for _ in pieces[:-1]]
        torn += pieces[0]
        for guests, piece in zip(between, pieces[1:], strict=True):
            torn += "".join(guests) + piece
        # After the last piece but the line break the line is complete, and its event comes there.
        whole += "".join("".join(guests) for guests in between) + "".join(pieces)
        cuts += any(between)
        quiet = "".join(draw(intruders))
        torn += quiet
        whole += quiet
    return torn, whole, cuts


@given(torn_lines(), st.sampled_from([coloured, bytes]), st.integers(1, 400))
@settings(max_examples=250, deadline=None)
def test_cut_lines_tell_the_same_as_whole_ones(
    logs: tuple[str, str, int], dress: type[bytes], size: int
) -> None:
    torn, whole, cuts = (dress(logs[0].encode()), dress(logs[1].encode()), logs[2])
    events, counts = scan(torn, size)
    assert counts.unparsed == 0
    assert counts.torn == cuts
    assert in_order(events, *TIMELINE) == in_order(said(whole), *TIMELINE)
    assert others(events) == others(scan(whole)[0])


def in_order(events: list[LogEvent], *kinds: type[LogEvent]) -> list[LogEvent]:
    return [event for event in events if isinstance(event, kinds)]


def others(events: list[LogEvent]) -> list[LogEvent]:
    """Events of lines that are never cut; a bound in time is no event of its own."""
    kinds = (*TIMELINE, LineUnparsed)
    return [e for e in events if not isinstance(e, kinds) and type(e).__name__ not in BOUNDS]


BOUNDS = ("Tick", "DialectSeen", "HeadSeen")


@pytest.mark.parametrize("boundary", range(1, 9))
@pytest.mark.parametrize("intruder", INTRUDERS, ids=range(len(INTRUDERS)))
def test_every_boundary_may_be_cut(boundary: int, intruder: str) -> None:
    line = "TIMELINE,941641,GPU_END,p,7,worker=9,worker=0,partition=8,gpu_ms=2560"
    pieces = split_writes(line)
    torn = "".join(pieces[:boundary]) + intruder + "".join(pieces[boundary:])
    events, counts = scan(torn.encode())
    assert (counts.torn, counts.unparsed) == (1, 0)
    assert in_order(events, GpuEnded) == [GpuEnded(941641, "p,7,worker=9", 8, 0, 2560)]


def test_a_complete_head_counts_where_it_stands() -> None:
    start = "TIMELINE,5,GPU_START,j,worker=0,partition=8"
    events = said((start + TIMING + TRACING + "\n").encode())
    assert [type(event).__name__ for event in events] == ["GpuStarted", "TailMsm", "SynthesisSeen"]


def test_a_rest_that_never_comes_is_given_up_and_counted() -> None:
    head = "TIMELINE,5,GPU_START,"
    rest = "j,worker=0,partition=8\n"
    near = (head + TIMING * MAX_INTRUDERS + rest).encode()
    far = (head + TIMING * (MAX_INTRUDERS + 1) + rest).encode()
    assert scan(near)[1].torn == 1
    assert (scan(far)[1].torn, scan(far)[1].unparsed) == (0, 1)
    assert scan((head + TIMING).encode())[1].unparsed == 1


def test_a_restart_ends_the_waiting_for_a_rest() -> None:
    banner = "2026-03-14T01:02:03.415589Z  INFO cuzk_daemon: cuzk-daemon starting\n"
    events, counts = scan(f"TIMELINE,5,GPU_START,{TIMING}{banner}j,worker=0\n".encode())
    assert in_order(events, *TIMELINE) == []
    assert (counts.torn, counts.unparsed) == (0, 1)


def test_a_line_that_is_no_timeline_line_keeps_nothing_from_the_next_ones() -> None:
    wrong = "TIMELINE,5,GPU_STOP,j,worker=0\n"
    panic = "thread 'rayon-synth-3' panicked at a.rs:1:1:\nboom\n"
    good = "TIMELINE,6,GPU_START,j,worker=0\n"
    torn = f"TIMELINE,7,GPU_END,{TIMING}j,worker=0,gpu_ms=1\n"
    events, counts = scan((wrong + panic + good + torn).encode())
    assert in_order(events, *TIMELINE) == [
        GpuStarted(6, "j", None, 0),
        GpuEnded(7, "j", None, 0, 1),
    ]
    assert Noticed(None, "error", "boom") in events
    assert (counts.torn, counts.unparsed) == (1, 1)


@cache
def simulated(ids: str, *, ansi: bool) -> tuple[bytes, int]:
    knobs = Knobs(
        jobs=2, synth=700, srs=300, cuts=0, torn=0.5, intruders=4, ids=ids, ansi=ansi, seed=8
    )
    log, truth = logsim.simulate(knobs)
    return log, truth["scenario"]["torn_lines"]


@pytest.mark.parametrize("ansi", [False, True])
@pytest.mark.parametrize("ids", ["uuid", "curio", "weird"])
def test_a_simulated_log_full_of_cuts_is_read_whole(ids: str, ansi: bool) -> None:  # noqa: FBT001
    log, torn = simulated(ids, ansi=ansi)
    source = report(log)["source"]
    assert torn > 20
    assert (source["torn"], source["unparsed"]) == (torn, 0)
    written = len(re.findall(rb"TIMELINE,", log))
    assert len(in_order(scan(log)[0], *TIMELINE)) == written
