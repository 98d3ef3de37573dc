"""`TIMELINE,<offset_ms>,<EVENT>,<job>,<detail>`: the clocked skeleton of every partition.

A line is first read by its commas, which is right for every id without one; a line that doesn't
come out even is matched whole, with the job id as what lies before the longest detail.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cuzktop.events import (
    GpuEnded,
    GpuPickedUp,
    GpuQueued,
    GpuStarted,
    SynthEnded,
    SynthStarted,
)
from cuzktop.parse.text import KINDS, MAX_DIGITS, name

HEAD = b"TIMELINE,"
MAX_PLAIN_BYTES = 300  # the longest id known has 60; beyond it figures might overflow a float

_WHOLE = re.compile(
    rb"TIMELINE,(?P<at>\d{1,13}),"
    rb"(?:(?P<ss>SYNTH_START),(?P<j1>.*?),(?:kind=(?P<k>[a-z0-9-]+)|(?P<n1>snap_)?partition=(?P<p1>\d{1,13}))"
    rb"|(?P<se>SYNTH_END),(?P<j2>.*?),(?:(?P<n2>snap_)?partition=(?P<p2>\d{1,13}),)?synth_ms=(?P<s>\d{1,13})"
    rb"|(?P<cs>CHAN_SEND),(?P<j3>.*?),(?:(?P<n3>snap_)?partition=(?P<p3>\d{1,13}))?"
    rb"|(?P<gq>GPU_QUEUE),(?P<j4>.*?),(?:partition=(?P<p4>\d{1,13})|monolithic)"
    rb"|(?P<gp>GPU_PICKUP|GPU_START),(?P<j5>.*?),worker=(?P<w5>\d{1,13})(?:,partition=(?P<p5>\d{1,13}))?"
    rb"|(?P<ge>GPU_END),(?P<j6>.*?),worker=(?P<w6>\d{1,13})(?:,partition=(?P<p6>\d{1,13}))?,gpu_ms=(?P<g>\d{1,13}))",
    re.DOTALL,
)


TimelineEvent = SynthStarted | SynthEnded | GpuQueued | GpuPickedUp | GpuStarted | GpuEnded


def parse_whole(line: bytes) -> TimelineEvent | None:
    """The event of a complete TIMELINE line whose id may hold commas; None if it isn't one."""
    match = _WHOLE.fullmatch(line)
    if match is None:
        return None
    group = match.group
    at_ms = int(group("at"))

    def number(key: str) -> int | None:
        text = group(key)
        return None if text is None else int(text)

    if group("ss"):
        kind = group("k")
        kind_name = KINDS.get(kind) if kind is not None else ("snap" if group("n1") else None)
        return SynthStarted(at_ms, name(group("j1")), number("p1"), kind_name)
    if group("se"):
        return SynthEnded(at_ms, name(group("j2")), number("p2"), int(group("s")))
    if group("cs"):
        return GpuQueued(at_ms, name(group("j3")), number("p3"))
    if group("gq"):
        return GpuQueued(at_ms, name(group("j4")), number("p4"))
    if group("ge"):
        return GpuEnded(at_ms, name(group("j6")), number("p6"), int(group("w6")), int(group("g")))
    made = GpuStarted if group("gp") == b"GPU_START" else GpuPickedUp
    return made(at_ms, name(group("j5")), number("p5"), int(group("w5")))


Parts = list[bytes]
Rule = Callable[[Parts], TimelineEvent]


def _number(figure: bytes) -> int:
    """Digits and nothing else: a sign or a blank is damage, and more than these is no figure."""
    if len(figure) > MAX_DIGITS or not figure.isdigit():
        raise ValueError(figure)
    return int(figure)


def _synth_start(parts: Parts) -> TimelineEvent:
    _, at, _, job, detail = parts
    if detail.startswith(b"partition="):
        return SynthStarted(_number(at), name(job), _number(detail[10:]), None)
    if detail.startswith(b"kind="):
        return SynthStarted(_number(at), name(job), None, KINDS[detail[5:]])
    if detail.startswith(b"snap_partition="):
        return SynthStarted(_number(at), name(job), _number(detail[15:]), "snap")
    raise ValueError


def _synth_end(parts: Parts) -> TimelineEvent:
    if len(parts) == 6:
        _, at, _, job, where, synth = parts
        if where.startswith(b"partition=") and synth.startswith(b"synth_ms="):
            return SynthEnded(_number(at), name(job), _number(where[10:]), _number(synth[9:]))
        if where.startswith(b"snap_partition=") and synth.startswith(b"synth_ms="):
            return SynthEnded(_number(at), name(job), _number(where[15:]), _number(synth[9:]))
    _, at, _, job, synth = parts
    if synth.startswith(b"synth_ms="):
        return SynthEnded(_number(at), name(job), None, _number(synth[9:]))
    raise ValueError


def _queue(parts: Parts) -> TimelineEvent:
    _, at, _, job, detail = parts
    if detail.startswith(b"partition="):
        return GpuQueued(_number(at), name(job), _number(detail[10:]))
    if detail.startswith(b"snap_partition="):
        return GpuQueued(_number(at), name(job), _number(detail[15:]))
    if detail in (b"", b"monolithic"):
        return GpuQueued(_number(at), name(job), None)
    raise ValueError


def _pickup(parts: Parts) -> TimelineEvent:
    if len(parts) == 6:
        _, at, _, job, worker, where = parts
        if worker.startswith(b"worker=") and where.startswith(b"partition="):
            return GpuPickedUp(_number(at), name(job), _number(where[10:]), _number(worker[7:]))
    _, at, _, job, worker = parts
    if worker.startswith(b"worker="):
        return GpuPickedUp(_number(at), name(job), None, _number(worker[7:]))
    raise ValueError


def _start(parts: Parts) -> TimelineEvent:
    if len(parts) == 6:
        _, at, _, job, worker, where = parts
        if worker.startswith(b"worker=") and where.startswith(b"partition="):
            return GpuStarted(_number(at), name(job), _number(where[10:]), _number(worker[7:]))
    _, at, _, job, worker = parts
    if worker.startswith(b"worker="):
        return GpuStarted(_number(at), name(job), None, _number(worker[7:]))
    raise ValueError


def _end(parts: Parts) -> TimelineEvent:
    if len(parts) == 7:
        _, at, _, job, worker, where, gpu = parts
        if (
            worker.startswith(b"worker=")
            and where.startswith(b"partition=")
            and gpu.startswith(b"gpu_ms=")
        ):
            return GpuEnded(
                _number(at), name(job), _number(where[10:]), _number(worker[7:]), _number(gpu[7:])
            )
    _, at, _, job, worker, gpu = parts
    if worker.startswith(b"worker=") and gpu.startswith(b"gpu_ms="):
        return GpuEnded(_number(at), name(job), None, _number(worker[7:]), _number(gpu[7:]))
    raise ValueError


RULES: dict[bytes, Rule] = {
    b"SYNTH_START": _synth_start,
    b"SYNTH_END": _synth_end,
    b"CHAN_SEND": _queue,
    b"GPU_QUEUE": _queue,
    b"GPU_PICKUP": _pickup,
    b"GPU_START": _start,
    b"GPU_END": _end,
}


def parse_timeline(line: bytes) -> TimelineEvent | None:
    """The event of one TIMELINE line without its line end; None if it is torn or foreign."""
    if len(line) > MAX_PLAIN_BYTES:
        return parse_whole(line)
    parts = line.split(b",")
    try:
        return RULES[parts[2]](parts)
    except (ValueError, KeyError, IndexError):
        return parse_whole(line)
