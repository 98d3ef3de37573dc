"""When a log's lines were written, for playing them in their own time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache

from cuzktop.sources.beginning import MARK, STAMP

ENGINE_STARTS = b"starting cuzk engine"  # TIMELINE counts from its time stamp
FELL_US = 5_000_000  # TIMELINE steps back by milliseconds on its own; by this much at a restart
LEAPT_US = 600_000_000  # a longer silence must be confirmed by a second line
AGREE_US = 60_000_000


class LineClock:
    """When a log's lines were written, by the clocks in them: time stamps and TIMELINE offsets.

    The time never falls: where a log was damaged, a clock was set back or another run follows,
    it stands until the lines have caught up, or counts on from there.
    """

    def __init__(self) -> None:
        """Begin before the first line."""
        self._now_us: int | None = None
        self._epoch_us: int | None = None  # of TIMELINE's zero
        self._leapt_us: int | None = None  # an unlikely time that a second line must confirm
        self._fallen_us: int | None = None  # the same for an offset

    def read(self, line: bytes) -> int | None:
        """The time of `line` in microseconds since 1970; a line without one has its forerunner's.

        None before the first line with a time. Without any time stamp the log begins in 1970.
        """
        self.reads(line)
        return self._now_us

    def reads(self, line: bytes) -> bool:
        """Read the time of `line`, if it has one; whether it has."""
        stamp = STAMP.search(line)
        if stamp is not None:
            wall_us = _stamp_us(stamp[0])
            if wall_us is not None:
                if ENGINE_STARTS in line:
                    self._epoch_us, self._fallen_us = wall_us, None
                self._advance(wall_us)
            return True
        mark = MARK.search(line)
        if mark is not None:
            self._read_offset(int(mark[1]) * 1000)
        return mark is not None

    @property
    def now_us(self) -> int | None:
        """The time of the last line that was read."""
        return self._now_us

    def _read_offset(self, offset_us: int) -> None:
        if self._now_us is None:
            self._now_us = 0
        if self._epoch_us is None:
            self._epoch_us = self._now_us - offset_us
        if self._epoch_us + offset_us < self._now_us - FELL_US:
            confirmed = self._fallen_us is not None and abs(offset_us - self._fallen_us) < AGREE_US
            self._fallen_us = offset_us
            if not confirmed:
                return
            self._epoch_us = self._now_us - offset_us  # a run whose start-up lines are missing
        self._fallen_us = None
        self._advance(self._epoch_us + offset_us)

    def _advance(self, wall_us: int) -> None:
        if self._now_us is not None and wall_us > self._now_us + LEAPT_US:
            confirmed = self._leapt_us is not None and abs(wall_us - self._leapt_us) < AGREE_US
            self._leapt_us = wall_us
            if not confirmed:
                return
        self._leapt_us = None
        self._now_us = wall_us if self._now_us is None else max(self._now_us, wall_us)


STAGE = re.compile(rb"(tail_msm|batch_add|barrier_wait|ntt_msm_h)_ms=(\d{1,9})")
FIRST_STAGES = (b"ntt_msm_h", b"barrier_wait")
LAST_STAGES = (b"batch_add", b"tail_msm")
LONGEST_GROUP = 256  # lines without a time that are held back until one with a time comes


def timed(lines: Iterable[bytes], clock: LineClock | None = None) -> Iterator[tuple[int, bytes]]:
    """Each line with its time (µs since 1970); those without one are placed by what they print.

    The library's lines have no clock, and a whole call of them may stand between two that have.
    `clock` reads those that have; it is begun here unless one is given.
    """
    clock = LineClock() if clock is None else clock
    now_us = 0
    group: list[bytes] = []
    for line in lines:
        if not clock.reads(line):
            group.append(line)
            if len(group) < LONGEST_GROUP:
                continue
            yield from ((now_us, held) for held in group)
            group.clear()
            continue
        before_us, now_us = now_us, clock.now_us or now_us
        if group:
            yield from zip(_placed(group, before_us, now_us), group, strict=True)
            group.clear()
        yield now_us, line
    yield from ((now_us, held) for held in group)


def _placed(group: Sequence[bytes], from_us: int, until_us: int) -> list[int]:
    """Times in [from_us, until_us] for lines of one stretch, in order.

    A call's first stages count from the stretch's beginning, its last ones from its end: what
    lies between them is the wait of the kernels for the CPU.
    """
    stages = [STAGE.search(line) for line in group]
    late: list[int] = []
    at_us = until_us
    for stage in reversed(stages):
        late.append(at_us)
        if stage is not None and stage[1] in LAST_STAGES:
            at_us -= int(stage[2]) * 1000  # the line before it was printed when this stage began
    late.reverse()
    last_early = max(
        (at for at, stage in enumerate(stages) if stage is not None and stage[1] in FIRST_STAGES),
        default=-1,
    )
    times: list[int] = []
    at_us = newest_us = from_us
    for index, stage in enumerate(stages):
        if stage is not None and stage[1] in FIRST_STAGES:
            at_us += int(stage[2]) * 1000
        due_us = min(at_us, late[index]) if index <= last_early else late[index]
        newest_us = max(newest_us, due_us)
        times.append(newest_us)
    return times


def _stamp_us(stamp: bytes) -> int | None:
    second_us = _second_us(stamp[:-7])
    return None if second_us is None else second_us + int(stamp[-6:])


@lru_cache(maxsize=4)  # most lines are of the second of the one before
def _second_us(second: bytes) -> int | None:
    try:
        moment = datetime.fromisoformat(second.decode("ascii")).replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp()) * 1_000_000
