"""What is kept of a log that goes on for days: as much as of one that has just begun."""

from __future__ import annotations

import gc
from collections import Counter

from cuzktop.model.reduce import Model
from cuzktop.model.state import Call, Line
from tests.corelog import Log, scan


def proofs(count: int) -> bytes:
    """So many proofs of ten partitions, one after another on one GPU."""
    log = Log().start()
    for proof in range(count):
        job, at_ms = f"porep-1000-{proof}", 100 + 11_000 * proof
        log.admitted(at_ms, job, 10)
        for index in range(10):
            log.synthesized(at_ms, job, index)
            log.called(at_ms + 1000 + 1020 * index, job, index)
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
    assert model.run.attempts  # it is here, with all that it keeps
    assert kept[Call] < 20
    assert kept[Line] < 200
