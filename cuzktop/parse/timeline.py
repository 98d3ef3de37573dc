"""`TIMELINE,<offset_ms>,<EVENT>,<job>,<detail>`: the clocked skeleton of every partition.

Nearly all lines name a partition of a job without a comma in its id, and are read by one pattern
of their figures; any other is matched whole, with the id as what lies before the longest detail.
"""

from __future__ import annotations

import re

from cuzktop.events import (
    GpuEnded,
    GpuPickedUp,
    GpuQueued,
    GpuStarted,
    SynthEnded,
    SynthStarted,
)
from cuzktop.parse.text import KINDS, name

HEAD = b"TIMELINE,"

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


_USUAL = re.compile(
    rb"TIMELINE,(\d{1,13}),([A-Z_]+),([^,]*),(?:worker=(\d{1,13}),)?partition=(\d{1,13})"
    rb"(?:,(synth|gpu)_ms=(\d{1,13}))?"
)
_match = _USUAL.fullmatch
_FORMS: dict[bytes, tuple[type[TimelineEvent], bool, bytes | None]] = {
    b"SYNTH_START": (SynthStarted, False, None),
    b"SYNTH_END": (SynthEnded, False, b"synth"),
    b"GPU_QUEUE": (GpuQueued, False, None),
    b"CHAN_SEND": (GpuQueued, False, None),
    b"GPU_PICKUP": (GpuPickedUp, True, None),
    b"GPU_START": (GpuStarted, True, None),
    b"GPU_END": (GpuEnded, True, b"gpu"),
}
"""The event, whether its line names a worker, and which of the two durations it tells."""
_NO_FORM = (GpuQueued, False, b"")
_make = tuple.__new__
"""What a NamedTuple's own constructor calls, at half its price: a log has millions of these."""


def parse_timeline(line: bytes) -> TimelineEvent | None:
    """The event of one TIMELINE line without its line end; None if it is torn or foreign."""
    match = _match(line)
    if match is None:
        return parse_whole(line)
    at, event, job, worker, partition, what, took = match.groups()
    made, at_worker, told = _FORMS.get(event, _NO_FORM)
    if what != told or at_worker is (worker is None):
        return parse_whole(line)
    if worker is None:
        if took is not None:
            return _make(made, (int(at), name(job), int(partition), int(took)))
        if made is SynthStarted:
            return _make(made, (int(at), name(job), int(partition), None))
        return _make(made, (int(at), name(job), int(partition)))
    if took is not None:
        return _make(made, (int(at), name(job), int(partition), int(worker), int(took)))
    return _make(made, (int(at), name(job), int(partition), int(worker)))
