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


def test_lines_printed_far_from_when_they_were_due_are_listed_only_if_all_are_asked_for() -> None:
    """Another GPU's call states what this one does, 150 ms later."""
    tape = Tape()
    for entered in (1000.0, 1150.0):
        tape.add(C4, 0, 0, entered)
        tape.clocked(entered + 5.0)
    for done in (1400.0, 1550.0):
        tape.add(C6, 400, 0, done)
        tape.clocked(done + 5.0)
    tape.add(C7, 0, 0, 1400.0)
    tape.clocked(1570.0)
    for added in (1460.0, 1610.0):
        tape.add(C8, 60, 0, added)
        tape.clocked(added + 5.0)
    for ended in (1510.0, 1660.0):
        tape.add(C9, 50, 511, ended)
        tape.add(C10, 512, 512, ended)
        tape.clocked(ended + 5.0)
    call = Call(Partition(Job("job", 1, "porep", 0.0), 0, 0), 0, 0, 1000.0, 0)
    call.entry_lo, call.entry_hi = 1000.0, 1002.0
    call.end_seq = tape.end()
    usual, everything = (printed_chains(call, tape.pools, full=full) for full in (False, True))
    assert len(usual) == 1
    assert [line.lo for line in usual[0].lines if line] == [1000, 1400, 1400, 1460, 1510, 1510]
    assert everything[0] == usual[0]
    assert len(everything) > 1
