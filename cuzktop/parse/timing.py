"""`CUZK_TIMING: name=value …`: what the prove calls measured, without saying whose it is.

Templates C1–C20 of the daemon's C++ side. A line with a known beginning and values that don't fit
is an error of its own (`ValueError`); an unknown one is counted by the caller.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cuzktop.events import (
    BarrierWaited,
    BatchAdded,
    BG2Msm,
    CardSeen,
    Deallocated,
    Epilogue,
    LockAcquired,
    LockReleased,
    LogEvent,
    NttMsmH,
    PrepMsm,
    PrestageSeen,
    SplitVectors,
    TailMsm,
    TimingLine,
    timing_event,
)
from cuzktop.parse.text import MAX_DIGITS

HEAD = b"CUZK_TIMING: "

Words = list[bytes]


def _value(word: bytes, key: bytes) -> int:
    """The figure of `key=<digits>`; ValueError if the word is another."""
    figure = word.removeprefix(key)
    if len(word) != len(key) + len(figure) or len(figure) > MAX_DIGITS or not figure.isdigit():
        raise ValueError(word)
    return int(figure)


def _by_wall_clock(word: bytes, key: bytes) -> int:
    """The same of a figure that is below zero where the daemon's wall clock was set back."""
    if word.startswith(key + b"-"):
        return -_value(word, key + b"-")
    return _value(word, key)


def _split_vectors(words: Words) -> LogEvent:
    _, split, setup = words
    return SplitVectors(
        _by_wall_clock(split, b"split_vectors_ms="), _by_wall_clock(setup, b"setup_to_split_ms=")
    )


def _prep_msm(words: Words) -> LogEvent:
    _, prep = words
    return PrepMsm(_value(prep, b"prep_msm_ms="))


def _b_g2(words: Words) -> LogEvent:
    _, b_g2, circuits = words
    return BG2Msm(_value(b_g2, b"b_g2_msm_ms="), _value(circuits, b"num_circuits="))


def _acquired(words: Words) -> LogEvent:
    _, pre_lock, wait = words
    return LockAcquired(_value(pre_lock, b"pre_lock_cpu_ms="), _value(wait, b"mutex_wait_ms="))


def _gpu_thread(words: Words) -> LogEvent:
    if len(words) == 3:
        _, where, what = words
        tid = _value(where, b"gpu_tid=")
        if what.startswith(b"ntt_msm_h_ms="):
            return NttMsmH(tid, _value(what, b"ntt_msm_h_ms="))
        if what.startswith(b"barrier_wait_ms="):
            return BarrierWaited(tid, _value(what, b"barrier_wait_ms="))
        return BatchAdded(tid, _value(what, b"batch_add_ms="))
    _, where, tail, total = words
    return TailMsm(
        _value(where, b"gpu_tid="), _value(tail, b"tail_msm_ms="), _value(total, b"gpu_total_ms=")
    )


def _released(words: Words) -> LogEvent:
    _, held, total = words
    return LockReleased(_value(held, b"mutex_held_ms="), _value(total, b"total_start_fn_ms="))


def _epilogue(words: Words) -> LogEvent:
    _, epilogue, entry = words
    return Epilogue(
        _by_wall_clock(epilogue, b"epilogue_ms="), _by_wall_clock(entry, b"pre_destructor_ms=")
    )


def _dealloc(words: Words) -> LogEvent:
    _, freed = words
    return Deallocated(_by_wall_clock(freed, b"async_dealloc_ms="))


_PRESTAGE = re.compile(
    rb"(?:prestage_setup=(?P<outcome>ok|skip_vram|fallback)|(?P<vram>prestage_vram) free_mib=\d+"
    rb"|(?P<host>host_register)=fallback)"
    rb"(?:.*? err=(?P<err>-?\d{1,13}))?(?:.*? total_ps_ms=(?P<total>\d{1,13}))?"
)


def _prestage(words: Words) -> LogEvent:
    match = _PRESTAGE.match(b" ".join(words[1:]))
    if match is None:
        raise ValueError(words)
    outcome = match["outcome"] or (b"vram" if match["vram"] else b"host_register_fallback")
    return PrestageSeen(
        outcome.decode("ascii"),
        None if match["err"] is None else int(match["err"]),
        None if match["total"] is None else int(match["total"]),
    )


def _card(words: Words) -> LogEvent:
    if words[-3:-1] != [b"on", b"gpu"]:
        raise ValueError(words)
    return CardSeen(_value(words[-1], b""))


RULES: dict[bytes, Callable[[Words], LogEvent]] = {
    b"split_v": _split_vectors,
    b"prep_ms": _prep_msm,
    b"b_g2_ms": _b_g2,
    b"pre_loc": _acquired,
    b"gpu_tid": _gpu_thread,
    b"mutex_h": _released,
    b"epilogu": _epilogue,
    b"async_d": _dealloc,
    b"prestag": _prestage,
    b"host_re": _prestage,
    b"set poo": _card,
    b"d_a_cac": _card,
}


_USUAL = re.compile(
    rb"CUZK_TIMING: (?:gpu_tid=(\d{1,13}) )?([a-z0-9_]+)=(\d{1,13})(?: ([a-z0-9_]+)=(\d{1,13}))?"
)
_match = _USUAL.fullmatch
_FORMS: dict[bytes, tuple[int, bool, bytes | None]] = {
    b"split_vectors_ms": (1, False, b"setup_to_split_ms"),
    b"prep_msm_ms": (2, False, None),
    b"b_g2_msm_ms": (3, False, b"num_circuits"),
    b"pre_lock_cpu_ms": (4, False, b"mutex_wait_ms"),
    b"ntt_msm_h_ms": (6, True, None),
    b"barrier_wait_ms": (7, True, None),
    b"batch_add_ms": (8, True, None),
    b"tail_msm_ms": (9, True, b"gpu_total_ms"),
    b"mutex_held_ms": (10, False, b"total_start_fn_ms"),
    b"epilogue_ms": (11, False, b"pre_destructor_ms"),
    b"async_dealloc_ms": (12, False, None),
}
"""By the first figure: the line's number, whether it names its thread, and the second figure."""
_NO_FORM = (0, False, b"")


def usual_timing(line: bytes) -> TimingLine | None:
    """A CUZK_TIMING line of nothing but known figures; None if it is another."""
    match = _match(line)
    if match is None:
        return None
    tid, key, figure, second_key, second = match.groups()
    number, threaded, wanted = _FORMS.get(key, _NO_FORM)
    if second_key != wanted or threaded is (tid is None):
        return None
    if not threaded:
        return number, int(figure), 0 if second is None else int(second), 0
    thread = int(tid)
    return number, int(figure), thread if second is None else int(second), thread


def parse_timing(line: bytes) -> LogEvent:
    """The event of one CUZK_TIMING line without its line end.

    Nine of ten lines fit one pattern of figures; the others are read word by word.

    Raises:
        ValueError: the line begins like ours and can't be used.
    """
    usual = usual_timing(line)
    if usual is not None:
        return timing_event(usual)
    rule = RULES.get(line[13:20])
    if rule is None:
        raise ValueError(line)
    return rule(line.split(b" "))
