"""What holds for every log: how it is cut up, who looks meanwhile and what else stands in it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from cuzktop.analysis.live import live_calls
from cuzktop.model.reduce import Model
from cuzktop.model.state import Partition, Run
from cuzktop.parse.scanner import LogScanner
from tests import logsim
from tests.corelog import Json, report
from tests.logsim import Knobs

SMALL = Knobs(jobs=4, synth=1500, srs=300, cuts=0, torn=0.03)
LOGS = {
    "s18": replace(SMALL, version=18),
    "s23": replace(SMALL, version=23),
    "s28-2x2": replace(SMALL, version=28, gpus=2),
    "s37-2x2": replace(SMALL, version=37, gpus=2),
    "s45-2x3": replace(SMALL, gpus=2, workers=3),
    "s45-fail": replace(SMALL, fail_gpu=0.05, fail_finish=0.05, retry=True),
}


@cache
def log_of(name: str) -> bytes:
    return logsim.simulate(LOGS[name])[0]


def told(run: Run, partition: Partition) -> tuple[object, ...]:
    """What is known of a finished partition."""
    call = partition.call
    lines = {} if call is None else {kind: (line.a, line.b) for kind, line in call.lines.items()}
    sure = None if call is None else (call.lock_sure, call.kernel_sure, call.cpu_sure)
    return run.index, partition.job.id, partition.index, partition.state, lines, sure


def followed(pieces: list[bytes]) -> list[tuple[object, ...]]:
    """What a log that grows by these pieces tells, with a look at it after each."""
    seen: list[tuple[object, ...]] = []
    model = Model(lambda run, partition: seen.append(told(run, partition)))
    scanner = LogScanner()
    for piece in pieces:
        model.feed(scanner.feed(piece))
        live_calls(model.attributor)
    model.feed(scanner.finish())
    model.finish()
    return seen


@pytest.mark.parametrize("name", LOGS)
def test_in_two_pieces_a_log_tells_the_same_whoever_looks_between(name: str) -> None:
    log = log_of(name)
    rng = random.Random(name)
    whole = followed([log])
    assert len(whole) > 20
    for cut in sorted(rng.sample(range(len(log)), 4)):
        assert followed([log[:cut], log[cut:]]) == whole
    cuts = [0, *sorted(rng.sample(range(len(log)), 40)), len(log)]
    assert followed([log[lo:hi] for lo, hi in itertools.pairwise(cuts)]) == whole


NOISE = (b"", b"some library: 12 things", b"CUZK_OTHER: a=1", b"\xff\xfe broken", b"[gpu] = x")


@pytest.mark.parametrize("name", [name for name in LOGS if name != "s45-fail"])
def test_lines_of_others_change_nothing_but_the_counts(name: str) -> None:
    log = logsim.simulate(replace(LOGS[name], torn=0.0))[0]  # they'd be taken for a torn line's end
    rng = random.Random(name)
    lines: list[bytes] = []
    for line in log.splitlines(keepends=True):
        lines.append(line)
        if rng.random() < 0.2:
            lines.append(rng.choice(NOISE) + b"\n")
    clean, noisy = report(log), report(b"".join(lines))
    assert noisy["runs"] == clean["runs"]
    assert noisy["source"]["lines"] > clean["source"]["lines"]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda log: log,
    "front cut off": lambda log: logsim.cut_front(log, 0.4),
    "lines lost": lambda log: logsim.drop_lines(log, 0.01, 3),
    "lines twice": lambda log: logsim.double_lines(log, 9),
    "only stderr": lambda log: logsim.only_stream(log, "stderr"),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", LOGS)
def test_where_the_time_went_adds_up_to_all_of_it(name: str, damage: str) -> None:
    document: Json = report(DAMAGE[damage](log_of(name)))
    shares = [gpu["time_pct"] for run in document["runs"] for gpu in run["gpus"]]
    for one in shares:
        if one is not None and None not in one.values():
            assert sum(one.values()) == pytest.approx(100, abs=0.06)
            assert all(0 <= part <= 100 for part in one.values())
    assert damage != "nothing" or all(one is not None for one in shares)
