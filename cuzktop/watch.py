"""What lasts and deserves an operator's eye, found by looking at one frame after the other.

An event of the log is an alert of its own; this is for states, which begin, end and come again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from cuzktop.dataclass import dataclass
from cuzktop.frame import Alert, Frame, Holding
from cuzktop.units import duration

CALM_MS = 60_000.0  # what comes again within a minute hasn't ended
SAME_MS = 1000.0  # two beginnings nearer than this are of the same hold
SILENT_MS = 60_000.0  # no synthesis or call of a working daemon passes without a line for so long
UNREAD_MS = 10_000.0  # a card that was read before and hasn't been for so long is lost
HELD_LONG = 2.0  # times the p95 of a lock's holding
HELD_LEAST_MS = 1000.0  # over it, too
ENOUGH = 10  # partitions from which a p95 says what is usual
HARMLESS = frozenset({"clock setting", "display clocks", "sync boost", "power cap"})
"""Why clocks are held down where nothing is wrong with the card: a limit that someone set."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that is so at the moment; `since_ms` is how long it has been already, if known.

    `past` is the text once it is so no more. Without one it comes and goes: within a minute it
    hasn't ended.
    """

    key: str
    level: str
    text: str
    since_ms: float = 0.0
    past: str = ""


@dataclass(slots=True)
class _Trouble:
    level: str
    text: str
    past: str
    first_ms: float
    began_ms: float
    seen_ms: float
    count: int = 1
    here: bool = True  # in the latest frame


class Watch:
    """Remembers since when something has been so, when it ended, and how often it came."""

    def __init__(self) -> None:
        """Nothing was seen."""
        self._troubles: dict[str, _Trouble] = {}
        self._wall_ms = 0.0

    def look(self, frame: Frame, wall_ms: float) -> tuple[Alert, ...]:
        """The states that `frame` shows and those that ended, the latest last.

        `wall_ms` is the frame's time on the clock of the readings, which goes on when the log's
        stands still.
        """
        if wall_ms < self._wall_ms - CALM_MS:
            self._troubles.clear()  # the clock was set back, or a recording began anew
        self._wall_ms = wall_ms
        found = {one.key: one for one in conditions(frame)}
        for key, trouble in self._troubles.items():
            if key not in found:
                trouble.here = False
        for key, one in found.items():
            self._seen(key, one, wall_ms)
        troubles = sorted(self._troubles.values(), key=lambda one: one.seen_ms)
        return tuple(_alert(one, frame.present_ms - wall_ms, wall_ms) for one in troubles)

    def _seen(self, key: str, one: Condition, wall_ms: float) -> None:
        began = wall_ms - one.since_ms
        trouble = self._troubles.get(key)
        if trouble is None:
            self._troubles[key] = _Trouble(one.level, one.text, one.past, began, began, wall_ms)
            return
        another = bool(one.past) and abs(began - trouble.began_ms) > SAME_MS
        if another or not trouble.here:
            trouble.count += 1
            trouble.text, trouble.past = one.text, one.past
            if trouble.past or wall_ms - trouble.seen_ms > CALM_MS:
                trouble.began_ms = began
        trouble.here = True
        trouble.seen_ms = wall_ms


def _alert(one: _Trouble, offset_ms: float, wall_ms: float) -> Alert:
    lasts = one.here or (not one.past and wall_ms - one.seen_ms <= CALM_MS)
    return Alert(
        level=one.level,
        at_ms=one.began_ms + offset_ms,
        text=one.text if lasts else one.past or one.text,
        lasts=lasts,
        until_ms=None if lasts else one.seen_ms + offset_ms,
        count=one.count,
        first_ms=one.first_ms + offset_ms,
    )


# ------------------------------------------------------------------------------------ what is wrong


def conditions(frame: Frame) -> list[Condition]:
    """All that is wrong in a frame and may last; it mostly costs a glance at each GPU."""
    source = frame.source
    if source.read_pct is not None:
        return []
    found: list[Condition] = []
    if source.lines and source.silent_ms is not None and source.silent_ms >= SILENT_MS:
        found += _silent(frame, source.silent_ms)
    usual = frame.stages.get("lock_held_ms")
    long_ms = math.inf
    if usual is not None and usual.count >= ENOUGH:
        long_ms = max(HELD_LONG * usual.p95, usual.p95 + HELD_LEAST_MS)
    for gpu in frame.gpus:
        nvml, holder = gpu.nvml, gpu.lock.holder
        if nvml is not None:
            age_ms = nvml.age_ms or 0.0
            if age_ms >= UNREAD_MS:
                found.append(_unread(gpu.gpu, nvml.note, age_ms))
            elif nvml.held_down:
                found += _held_down(gpu.gpu, nvml.held_down)
        if gpu.suspects:
            found += [_suspect(gpu.gpu, text) for text in gpu.suspects]
        if (
            usual is not None
            and holder is not None
            and (holder.age_ms(frame.now_ms) or 0.0) >= long_ms
        ):
            found.append(_held_long(gpu.gpu, holder, frame.now_ms, usual.p95))
    return found


def _silent(frame: Frame, silent_ms: float) -> Iterator[Condition]:
    flying = len(frame.in_flight)
    if flying:
        what = "a partition is" if flying == 1 else f"{flying} partitions are"
        text = f"the log is silent though {what} in flight: does the daemon still run?"
        yield Condition("silent", "warning", text, silent_ms)
    if frame.source.old:
        text = "the log has ended: what it tells is of then, readings of cards and box are of now"
        yield Condition("old", "info", text, silent_ms)


def _unread(gpu: int, note: str, age_ms: float) -> Condition:
    lost = f"GPU {gpu} can't be read"
    text = note if note.startswith(lost) else f"{lost} any more"
    return Condition(f"unread {gpu}", "error", text, age_ms)


def _held_down(gpu: int, held_down: str) -> Iterator[Condition]:
    causes = held_down.split(", ")
    bad = [cause for cause in causes if cause not in HARMLESS]
    if bad:
        text = f"GPU {gpu} is throttled: {', '.join(bad)}"
        yield Condition(f"throttled {gpu}", "warning", text)
    elif "power cap" in causes:
        yield Condition(f"capped {gpu}", "info", f"GPU {gpu} works at its power limit")


def _suspect(gpu: int, text: str) -> Condition:
    """What can't be true of log and readings together; its figures move, its first words don't."""
    key = " ".join(text.split()[:2])
    return Condition(f"{key} {gpu}", "warning", f"GPU {gpu}: {text}")


def _held_long(gpu: int, holder: Holding, now_ms: float, p95_ms: float) -> Condition:
    part = "" if holder.partition is None else f"/{holder.partition}"
    who, usually = f"GPU {gpu}: {holder.job}{part}", f"(p95 {duration(p95_ms)})"
    return Condition(
        f"lock {gpu}",
        "warning",
        f"{who} holds the lock longer than usual {usually}",
        holder.age_ms(now_ms) or 0.0,
        f"{who} held the lock longer than usual {usually}",
    )
