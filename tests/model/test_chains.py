"""S41 and newer: which lines can be a call's from taking the lock to giving it back."""

from __future__ import annotations

from cuzktop.model.chains import printed_chains
from cuzktop.model.kinds import C4, C6, C7, C8, C9, C10
from cuzktop.model.state import Call, Job, Partition
from cuzktop.model.tape import Tape


def test_lines_of_no_wait_do_not_crowd_out_other_kernels() -> None:
    """Nine calls' kernels wait for nothing: of nine lines that say so any could be the call's.

    Its NTT took 400 or 404 ms, its batch additions 63 or 58: by its total both could be.
    """
    tape = Tape()
    tape.add(C4, 0, 0, 1000.0)
    tape.add(C6, 400, 0, 1000.0)
    tape.add(C6, 404, 0, 1000.0)
    for _ in range(9):
        tape.add(C7, 0, 0, 1000.0)
    tape.add(C8, 63, 0, 1000.0)
    tape.add(C8, 58, 0, 1000.0)
    tape.add(C9, 46, 509, 1000.0)
    tape.add(C10, 509, 510, 1000.0)
    tape.clocked(1520.0)
    call = Call(Partition(Job("job", 1, "porep", 0.0), 0, 0), 0, 0, 1000.0, 0)
    call.entry_lo, call.entry_hi = 1000.0, 1002.0
    call.end_seq = tape.end()
    found = set()
    for option in printed_chains(call, tape.pools):
        _, ntt, _, batch, _, _ = option.lines
        assert ntt is not None
        assert batch is not None
        found.add((ntt.a, batch.a))
    assert found >= {(400, 63), (404, 58), (400, 58)}
