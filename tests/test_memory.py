"""What is kept of a log that goes on for days: as much as of one that has just begun."""

from __future__ import annotations

import gc
import tracemalloc
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzktop.analysis import summary
from cuzktop.headless.report import partition_line
from cuzktop.model import reduce, series, state
from cuzktop.model.reduce import Model, join
from cuzktop.model.state import Attempts, Call, Line
from cuzktop.parse.scanner import LogScanner
from cuzktop.reading import LogSummary
from tests import logsim
from tests.corelog import Log, blocks, report, scan
from tests.logsim import Knobs


def proofs(count: int) -> bytes:
    """So many proofs of ten partitions, one after another on one GPU."""
    log = Log().start()
    for proof in range(count):
        job, at_ms = f"porep-1000-{proof}", 100 + 11_500 * proof
        log.admitted(at_ms, job, 10)
        for index in range(10):
            log.synthesized(at_ms, job, index)
        for index in range(10):
            log.called(at_ms + 1000 + 1020 * index, job, index)
        log.assembled(at_ms + 11_300, job)
    return log.data


def test_calls_and_their_lines_go_with_their_partitions() -> None:
    """At once: nobody waits for Python to look for cycles among them."""
    events, _ = scan(proofs(60))
    gc.collect()
    gc.disable()
    try:
        model = Model()
        model.feed(events)
        kept = Counter(type(one) for one in gc.get_objects())
    finally:
        gc.enable()
    assert model.run.jobs  # it is here, with all that it keeps
    assert kept[Call] < 20
    assert kept[Line] < 200


def traced(keep: Callable[[Iterator[bytes]], object], count: int) -> int:
    """Bytes that Python holds for what is kept of so many proofs."""
    data = proofs(count)
    gc.collect()
    tracemalloc.start()
    try:
        kept = keep(blocks(data, 65536))
        return tracemalloc.get_traced_memory()[0] if kept else 0
    finally:
        tracemalloc.stop()


def reported(pieces: Iterator[bytes]) -> LogSummary:
    with closing(LogSummary(partition_line)) as read:
        read.read(pieces, LogScanner())
        return read


def followed(pieces: Iterator[bytes]) -> Model:
    scanner, model = LogScanner(), Model(keep_ms=60_000.0)
    for piece in pieces:
        model.feed(scanner.feed(piece))
    return model


@pytest.mark.parametrize(("keep", "most_bytes"), [(reported, 150), (followed, 40)])
def test_a_finished_partition_costs_a_few_bytes(
    monkeypatch: pytest.MonkeyPatch,
    keep: Callable[[Iterator[bytes]], object],
    most_bytes: int,
) -> None:
    monkeypatch.setattr(summary, "FOLD_CALLS", 200)
    monkeypatch.setattr(reduce, "KEEP_SYNTH_TIMES", 100)
    monkeypatch.setattr(reduce, "SPARE_JOBS", 5)
    monkeypatch.setattr(series, "KEEP_BINS", 50)
    for module in (state, reduce):  # what is kept is full sooner
        monkeypatch.setattr(module, "KEEP_JOBS", 10)
    traced(keep, 15)  # what is made once, is made
    few, many = traced(keep, 30), traced(keep, 90)
    assert many - few < 10 * (90 - 30) * most_bytes


@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize("version", [21, 38, 45])
def test_calls_that_were_counted_and_forgotten_tell_the_same(
    monkeypatch: pytest.MonkeyPatch, version: int, gpus: int
) -> None:
    knobs = Knobs(version=version, jobs=12, gpus=gpus, synth=700, srs=300, cuts=0, seed=5)
    data, _ = logsim.simulate(knobs)
    whole = report(data, 4096)
    monkeypatch.setattr(summary, "FOLD_CALLS", 16)
    monkeypatch.setattr(summary, "KEEP_CALLS", 8)
    assert report(data, 4096) == whole


def test_an_id_that_comes_again_is_counted() -> None:
    attempts = Attempts()
    assert [attempts.count(job) for job in "abacaba"] == [1, 1, 2, 1, 3, 2, 4]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=40))
def test_spans_that_are_joined_are_those_that_are_united(pairs: list[tuple[int, int]]) -> None:
    spans = sorted((min(pair), max(pair)) for pair in pairs)
    joined = array("d")
    for lo, hi in sorted(spans, key=lambda span: span[1] + span[0] % 7):  # a little out of order
        join(joined, lo, hi)
    assert list(zip(joined[::2], joined[1::2], strict=True)) == closed(spans)


def closed(spans: list[tuple[int, int]]) -> list[tuple[float, float]]:
    """`united`, where spans that touch are one."""
    result: list[tuple[float, float]] = []
    for lo, hi in sorted(spans):
        if lo == hi:
            continue
        if result and lo <= result[-1][1]:
            result[-1] = (result[-1][0], max(hi, result[-1][1]))
        else:
            result.append((lo, hi))
    return result
