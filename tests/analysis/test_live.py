"""Who holds the lock now: simulated logs cut in quiet moments, whose state is known."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cuzktop.analysis.live import live_calls, lock_of
from cuzktop.frame import Holding
from cuzktop.model.kinds import C10
from cuzktop.model.reduce import Model
from cuzktop.parse.scanner import LogScanner
from tests import logsim
from tests.corelog import Log
from tests.logsim import Knobs

Who = tuple[int | None, str, int | None]
QUIET: dict[str, Any] = {
    "stall": 0.0,
    "split_slow": 0.0,
    "cold": 0.0,
    "torn": 0.0,
    "srs": 300.0,
    "jobs": 5,
}


def who(one: Holding | None) -> Who | None:
    return None if one is None else (one.worker, one.job, one.partition)


def known(one: dict[str, Any] | None) -> Who | None:
    return None if one is None else (one["worker"], one["job"], one["partition"])


def compared(knobs: Knobs) -> tuple[int, list[str]]:
    """Every GPU of every cut: how many are as they were, and what is said of the others."""
    log, truth = logsim.simulate(knobs)
    right, wrong = 0, []
    for cut in truth["cuts"]:
        model = Model()
        model.feed(LogScanner().feed(log[: cut["at_byte"]]))
        calls = live_calls(model.attributor)
        for want in cut["gpus"]:
            lock = lock_of(want["gpu"], calls)
            got = (who(lock.holder), {who(one) for one in lock.waiting})
            true = (known(want["holder"]), {known(one) for one in want["waiting"]})
            if got == true:
                right += 1
            else:
                wrong.append(f"at {cut['t_ms']}: {got} for {true}, {lock.confidence}")
    return right, wrong


@pytest.mark.parametrize(
    ("version", "gpus"),
    [(18, 1), (19, 1), (22, 1), (25, 1), (28, 1), (31, 2), (34, 2), (37, 4), (40, 2), (45, 4)],
)
def test_holder_and_waiters_are_those_of_the_moment(version: int, gpus: int) -> None:
    right, wrong = compared(Knobs(version=version, gpus=gpus, **QUIET))
    assert right > 30
    assert len(wrong) <= 0.03 * right, wrong


@pytest.mark.parametrize("version", [19, 23, 27, 29])
def test_each_lock_has_a_holder_where_two_locks_are_on_one_card(version: int) -> None:
    right, wrong = compared(Knobs(version=version, gpus=2, **QUIET))
    assert right > 30
    assert len(wrong) <= 0.05 * right, wrong


@pytest.mark.parametrize(
    "knobs",
    [
        pytest.param(Knobs(version=19, workers=3, jobs=12, seed=771), id="one lock"),
        pytest.param(
            Knobs(version=31, gpus=4, jobs=10, seed=30131, concurrency=6), id="blocks of four cards"
        ),
    ],
)
def test_who_may_hold_the_lock_is_named(knobs: Knobs) -> None:
    """A block has ended, and nothing tells yet whether, or who, gave the lock back."""
    log, truth = logsim.simulate(knobs)
    for cut in truth["cuts"]:
        model = Model()
        model.feed(LogScanner().feed(log[: cut["at_byte"]]))
        calls = live_calls(model.attributor)
        for want in cut["gpus"]:
            lock = lock_of(want["gpu"], calls)
            true = known(want["holder"])
            if lock.confidence == "exact":
                assert who(lock.holder) == true
            elif lock.holder is not None and true is not None:
                assert true in {who(one) for one in (lock.holder, *lock.candidates)}


def test_a_lock_is_given_back_once() -> None:
    """Two cards' calls began nearly at once; one has given its lock back, with the same wait."""
    log = Log().start(workers=(0, 1))
    log.synthesized(90, "porep-1000-1", 0).synthesized(1090, "porep-1000-1", 1, synth_ms=8)
    for worker, at_ms in ((0, 1100), (1, 1108)):
        log.picked(at_ms, "porep-1000-1", worker, worker)
        log.timing("split_vectors_ms=0 setup_to_split_ms=0")
        log.timing("pre_lock_cpu_ms=0 mutex_wait_ms=0")
    log.clocked(1500, "SYNTH_START", "porep-1000-1", "partition=5")
    log.timing("mutex_held_ms=501 total_start_fn_ms=501")
    log.clocked(1603, "SYNTH_START", "porep-1000-1", "partition=6")
    model = Model()
    model.feed(LogScanner().feed(log.data))
    locks = [lock_of(gpu, live_calls(model.attributor)) for gpu in (0, 1)]
    assert [who(lock.holder) for lock in locks] == [None, (1, "porep-1000-1", 1)]


def test_a_lock_that_was_given_back_is_taken_by_who_waited_for_it() -> None:
    """Two waiters asked at times as would fit both acquisitions; each card's release tells."""
    knobs = Knobs(
        gpus=4, workers=3, slots=26, jobs=16, concurrency=6, prep=800.0, prep_cv=0.4, seed=445
    )
    right, wrong = compared(knobs)
    assert right > 150
    assert not wrong


def test_a_release_is_of_the_call_that_was_due_and_of_no_other() -> None:
    """Calls that never wait print the same times before the lock: a release fits all of them."""
    knobs = Knobs(gpus=4, workers=1, slots=12, ntt=1200.0, seed=5, **QUIET)
    log, truth = logsim.simulate(knobs)
    owners = {
        (one["lock_held_ms"], one["total_start_fn_ms"]): (one["job"], one["partition"])
        for one in truth["runs"][0]["partitions"]
    }
    right, wrong = 0, []
    for line in re.finditer(rb"mutex_held_ms=(\d+) total_start_fn_ms=(\d+)\n", log):
        figures = int(line[1]), int(line[2])
        model = Model()
        model.feed(LogScanner().feed(log[: line.end()]))
        found = [
            live
            for live in live_calls(model.attributor)
            if C10 in live.lines and (live.lines[C10].a, live.lines[C10].b) == figures
        ]
        partitions = [live.call.partition for live in found]
        if [(one.job.id, one.index) for one in partitions] == [owners[figures]]:
            right += 1
        elif len(found) > 1 or any(live.sure for live in found):
            wrong.append(f"{figures}: {partitions} for {owners[figures]}")
    assert right > 40
    assert not wrong
