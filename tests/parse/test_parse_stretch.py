"""Timing lines that follow one another are one event, which tells what they tell apart."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from cuzktop.events import (
    BatchAdded,
    BG2Msm,
    Deallocated,
    LockAcquired,
    LockReleased,
    LogEvent,
    NttMsmH,
    PrepMsm,
    Tick,
    TimingStretch,
)
from cuzktop.headless.report import partition_line
from cuzktop.parse.scanner import LogScanner
from cuzktop.reading import LogSummary
from tests import logsim
from tests.corelog import apart, blocks, report, stamp, wall
from tests.logsim import Knobs

LOCK = "CUZK_TIMING: pre_lock_cpu_ms=1 mutex_wait_ms=2\n"


def fed(*lines: str) -> list[LogEvent]:
    """The events of lines that come at once, after a first of a kind that tells the generation."""
    scanner = LogScanner()
    scanner.feed(LOCK.encode())
    scanner.feed(b"TIMELINE,1,GPU_QUEUE,j,partition=0\n")
    return scanner.feed("".join(lines).encode())


def timing(text: str) -> str:
    return f"CUZK_TIMING: {text}\n"


def noise(at_ms: float) -> str:
    return f"{stamp(at_ms)}  INFO cuzk_core::pinned_pool: pinned pool: checkin size_gib=3.9\n"


def test_lines_between_two_clocks_are_one_event() -> None:
    ntt, batch = timing("gpu_tid=1 ntt_msm_h_ms=5"), timing("gpu_tid=2 batch_add_ms=6")
    (event,) = fed(noise(1), ntt, batch, timing("prep_msm_ms=7"), noise(2))
    assert isinstance(event, TimingStretch)
    assert (event.since_us, event.until_us) == (wall(1), wall(2))
    assert event.events() == [
        Tick(wall(1)),
        NttMsmH(1, 5),
        BatchAdded(2, 6),
        PrepMsm(7),
        Tick(wall(2)),
    ]


def test_a_clock_between_two_lines_parts_them() -> None:
    first, second = fed(timing("prep_msm_ms=7"), noise(1), noise(2), timing("async_dealloc_ms=8"))
    assert isinstance(first, TimingStretch)
    assert isinstance(second, TimingStretch)
    assert first.events() == [PrepMsm(7), Tick(wall(1))]
    assert second.events() == [Tick(wall(2)), Deallocated(8)]


def test_what_stands_between_lines_keeps_its_place() -> None:
    held = timing("mutex_held_ms=4 total_start_fn_ms=9")
    events = fed(held, "TIMELINE,9,GPU_QUEUE,j,partition=1\n", LOCK)
    assert [type(event).__name__ for event in events] == [
        "TimingStretch",
        "GpuQueued",
        "TimingStretch",
    ]
    assert list(apart(events))[::2] == [LockReleased(4, 9), LockAcquired(1, 2)]


def test_lines_of_two_blocks_are_not_joined() -> None:
    scanner = LogScanner()
    g2 = timing("b_g2_msm_ms=3 num_circuits=1").encode()
    found = [*scanner.feed(g2 + g2), *scanner.feed(g2)]
    assert [len(one.lines) for one in found if isinstance(one, TimingStretch)] == [2, 1]
    assert list(apart(found)) == [BG2Msm(3, 1)] * 3
    assert scanner.counts.events == scanner.counts.timing == 3


# ---------------------------------------------------------------- a whole log, with and without


class TakingApart(LogScanner):
    """The scanner without its stretches."""

    def feed(self, data: bytes) -> list[LogEvent]:
        return list(apart(super().feed(data)))


def told(pieces: Iterator[bytes], scanner: LogScanner) -> str:
    """What a report says of a log in pieces, and what was counted."""
    with closing(LogSummary(partition_line)) as summary:
        summary.read(pieces, scanner)
        said = [(repr(run), list(rows.lines())) for run, rows in summary.runs]
    return json.dumps([said, repr(scanner.counts)])


SMALL = Knobs(jobs=4, synth=1500, srs=300, cuts=0, torn=0.05)
LOGS = {
    "s18": replace(SMALL, version=18),
    "s23": replace(SMALL, version=23),
    "s28-2x2": replace(SMALL, version=28, gpus=2),
    "s45-1x1": replace(SMALL, workers=1, ansi=True),
    "s45-1x2": replace(SMALL, ansi=True),
    "s45-2x3": replace(SMALL, gpus=2, workers=3),
    "s45-fail": replace(SMALL, fail_gpu=0.05, fail_finish=0.05, retry=True),
}


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("name", LOGS)
def test_a_log_tells_the_same_in_stretches_and_line_by_line(name: str, *, twice: bool) -> None:
    rng = random.Random(f"{name} {twice}")
    log = logsim.simulate(replace(LOGS[name], seed=rng.randrange(1 << 30)))[0]
    if twice:  # most lines that stand twice then are one, in a stretch as outside
        log = logsim.double_lines(log, 2)
    whole = told(blocks(log, 65536), LogScanner())
    assert told(blocks(log, 65536), TakingApart()) == whole
    assert told(iter(log.splitlines(keepends=True)), LogScanner()) == whole
    cuts = [0, *sorted(rng.sample(range(len(log)), 60)), len(log)]
    pieces = (log[lo:hi] for lo, hi in itertools.pairwise(cuts))
    assert told(pieces, LogScanner()) == whole


def test_nearly_all_timing_lines_are_in_stretches_of_several() -> None:
    scanner = LogScanner()
    events = scanner.feed(logsim.simulate(replace(SMALL, ansi=True))[0])
    stretches = [event for event in events if isinstance(event, TimingStretch)]
    assert sum(len(one.lines) for one in stretches) > 0.98 * scanner.counts.timing
    assert len(stretches) < 0.75 * scanner.counts.timing
    assert report(logsim.simulate(SMALL)[0])["source"]["events"] > len(events)
