"""A whole log in one pass: rows of finished partitions to a file, sums to memory."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TextIO

from cuzktop.analysis.diagnosis import LEAST_COVERAGE, Measured
from cuzktop.analysis.intervals import Span
from cuzktop.analysis.reconcile import (
    OFFSET_MARGIN_MS,
    Grid,
    UseBins,
    clock_offset_ms,
    misplaced,
    zone_offset_ms,
)
from cuzktop.analysis.rows import partition_row
from cuzktop.analysis.summary import LongRun, summarize
from cuzktop.analysis.throughput import StageTable
from cuzktop.dataclass import dataclass, field
from cuzktop.events import GpuSampled, LogEvent
from cuzktop.frame import PartitionRow, RunReport
from cuzktop.model.reduce import Model
from cuzktop.model.state import Partition, Run
from cuzktop.units import duration

ROWS_IN_MEMORY_BYTES = 64 * 1024  # more go to a temporary file; large buffers litter the heap
ROWS_AT_A_TIME = 64
MOST_NAMED = 8

Measure = Callable[[Run], Mapping[int, Measured]]
"""NVML's means over each GPU's span of a run, by GPU; empty where there are none."""


class Parser(Protocol):
    """What turns bytes into events."""

    def feed(self, data: bytes) -> list[LogEvent]:
        """The events of the lines that end in `data`."""

    def finish(self) -> list[LogEvent]:
        """No more bytes will come."""


class Means(Protocol):
    """Time-weighted means of a GPU's readings over a span, and how much of it they reach."""

    @property
    def util_pct(self) -> float | None:
        """Utilisation, None where nothing was read."""

    @property
    def power_w(self) -> float | None:
        """Power, the same."""

    @property
    def samples(self) -> int:
        """How many readings of utilisation fell into the span."""

    @property
    def source(self) -> str | None:
        """Where they come from."""

    @property
    def copies_pct(self) -> float | None:
        """The least share of the time in which copies to the card ran."""

    @property
    def reach_ms(self) -> float:
        """How much of the span they go along with."""


MeansOf = Callable[[Iterable[GpuSampled], Mapping[int, tuple[float, float]]], Mapping[int, Means]]
"""Means of readings over a span (wall-clock ms) of each GPU."""


def measure(
    run: Run,
    readings: Iterable[GpuSampled],
    means_of: MeansOf,
    say: Callable[[str], object],
) -> Mapping[int, Measured]:
    """NVML's means over each GPU's span of `run`; what can't be used of them is said to `say`."""
    if run.epoch_us is None:
        return {}
    zero_ms = run.epoch_us / 1000.0
    spans = {
        number: (zero_ms + gpu.first_start, zero_ms + gpu.last_end)
        for number, gpu in run.gpus.items()
        if gpu.first_start is not None and gpu.last_end is not None
    }
    if not spans:
        return {}
    whole = (min(lo for lo, _ in spans.values()), max(hi for _, hi in spans.values()))
    grid = Grid(whole[0] - OFFSET_MARGIN_MS, whole[1] + OFFSET_MARGIN_MS)
    use = UseBins(grid)
    found = means_of(use.passing(readings), spans)
    if all(not means.samples for means in found.values()):
        say(_why_none(whole, use, found))
        return {}
    locks = {gpu: grid.held(_locks(run, gpu, zero_ms)) for gpu in spans}
    uses = use.uses()
    since_ms = max(grid.start_ms, _locks_from_ms(run, zero_ms))
    known = grid.part((max(whole[0], since_ms), whole[1]))
    ahead_ms = clock_offset_ms(
        locks,
        uses,
        grid.width_ms,
        known=known,
        around=grid.part((since_ms, math.inf)),
        warm={gpu: _warm_at(run, gpu, zero_ms, grid) for gpu in spans},
    )
    if ahead_ms is not None:
        way = "ahead of" if ahead_ms > 0 else "behind"
        say(
            f"the readings' clock seems to be about {duration(abs(ahead_ms))} {way} the log's:"
            " means over the same time are off"
        )
    fits = {}
    if ahead_ms is None:
        fits = misplaced(
            {gpu: held[known] for gpu, held in locks.items()},
            {gpu: one[known] for gpu, one in uses.items()},
        )
    measured = {}
    for gpu, means in found.items():
        if means.util_pct is None:
            say(_why_not(gpu, means, use))
            continue
        span_ms = spans[gpu][1] - spans[gpu][0]
        if means.reach_ms < LEAST_COVERAGE * span_ms:
            say(
                f"the readings cover {means.reach_ms / 1000:.0f} s of GPU {gpu}'s"
                f" {span_ms / 1000:.0f} s: not used"
            )
            continue
        measured[gpu] = Measured(
            util_pct=means.util_pct,
            power_w=means.power_w,
            source=means.source or "utilization.gpu",
            samples=means.samples,
            fits=fits.get(gpu),
            copies_pct=means.copies_pct,
        )
    return measured


def _locks_from_ms(run: Run, zero_ms: float) -> float:
    """Since when it is known who held a lock: of a long run the oldest calls are forgotten."""
    since_ms = -math.inf
    for gpu in run.gpus.values():
        oldest = min(gpu.history.start, default=math.nan)
        if gpu.first_start is not None and oldest > gpu.first_start:
            since_ms = max(since_ms, zero_ms + oldest)
    return since_ms


def _warm_at(run: Run, gpu: int, zero_ms: float, grid: Grid) -> int:
    """The bin after the one in which the GPU's first lock was given back."""
    return next((grid.index(end_ms) + 1 for _, end_ms in _locks(run, gpu, zero_ms)), 0)


def _locks(run: Run, gpu: int, zero_ms: float) -> Iterator[tuple[float, float]]:
    """When the GPU's lock was held, on the wall clock."""
    history = run.gpus[gpu].history
    for taken, released in zip(history.acquired, history.released, strict=True):
        if taken <= released:  # neither is unknown (NaN)
            yield zero_ms + taken, zero_ms + released


def _why_none(whole: Span, use: UseBins, found: Mapping[int, Means]) -> str:
    """Why no reading of use is at hand for a run that took the time `whole`."""
    if not use.gpus:
        return "there are no GPU readings for this run of the log"
    if any(means.reach_ms > 0 for means in found.values()):
        return _no_use(sorted(found))
    if not use.gpus & found.keys():
        return _no_card(min(found), use)
    if use.first_ms < whole[1] and use.last_ms > whole[0]:
        return (
            "the readings given have none in order of time for this run of the log: not used"
            " (sort them by their time stamps, if they are not)"
        )
    return _elsewhere(whole, use)


def _why_not(gpu: int, means: Means, use: UseBins) -> str:
    """Why no reading of use is at hand for one GPU of several."""
    if means.reach_ms > 0:
        return _no_use([gpu])
    if gpu not in use.gpus:
        return _no_card(gpu, use)
    return f"the readings of GPU {gpu} lie at another time than its work in this run: not used"


def _no_use(gpus: Sequence[int]) -> str:
    return (
        f"the readings of {_cards(gpus)} say nothing of its use (no utilization.gpu column, [N/A]"
        " or MIG): not used"
    )


def _no_card(gpu: int, use: UseBins) -> str:
    return f"the readings given are of {_cards(sorted(use.gpus))}, none of GPU {gpu} in this run"


def _cards(gpus: Sequence[int]) -> str:
    """GPU 0, 1 and 3 more; a damaged file can name many."""
    shown = ", ".join(map(str, gpus[:MOST_NAMED]))
    more = len(gpus) - MOST_NAMED
    return f"GPU {shown}" + (f" and {more} more" if more > 0 else "")


def _elsewhere(whole: Span, use: UseBins) -> str:
    """What to do about readings that lie at another time than the run."""
    said = "the readings given lie at another time than this run of the log: not used"
    ahead_ms = zone_offset_ms(whole, use.first_ms, use.last_ms)
    if ahead_ms is None:
        return said
    way = "ahead of" if ahead_ms > 0 else "behind"
    return (
        f"{said} (their clock is {duration(abs(ahead_ms))} {way} the log's, which is UTC: a time"
        " zone? --samples-utc says that theirs is UTC, too, TZ=… which zone it is)"
    )


@dataclass(slots=True)
class RunRows:
    """One run's rows, serialised, and its stages' figures."""

    rows: TextIO
    stages: StageTable = field(default_factory=StageTable)
    count: int = 0
    _unwritten: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        """A row has been serialised; a file takes many at a time for the price of one."""
        self._unwritten.append(line)
        if len(self._unwritten) >= ROWS_AT_A_TIME:
            self._write()

    def _write(self) -> None:
        self._unwritten.append("")  # the last line ends, too
        self.rows.write("\n".join(self._unwritten))
        self._unwritten.clear()

    def lines(self) -> Iterator[str]:
        """The serialised rows, in the order in which they were finished."""
        self._write()
        self.rows.seek(0)
        for line in self.rows:
            yield line.rstrip("\n")

    def close(self) -> None:
        """Give back the file behind the rows, if they needed one."""
        self.rows.close()


def _rows_file() -> TextIO:
    return tempfile.SpooledTemporaryFile(  # type: ignore[return-value]
        max_size=ROWS_IN_MEMORY_BYTES, mode="w+", encoding="utf-8", newline="\n"
    )


class LogSummary:
    """Reads a log to its end and sums up each run; memory does not grow with the file."""

    def __init__(
        self,
        serialise: Callable[[PartitionRow], str],
        measure: Measure = lambda _run: {},
    ) -> None:
        """`serialise` makes one line of text, without a line break, of a row."""
        self._serialise = serialise
        self._measure = measure
        self.runs: list[tuple[RunReport, RunRows]] = []
        self.on_row: Callable[[Run, PartitionRow], None] | None = None
        self._current = RunRows(_rows_file())
        self._older: dict[int, LongRun] = {}  # of the run that is being read, by GPU
        self.model = Model(self._finished, self._run_ended, keep_ms=math.inf)

    def read(self, blocks: Iterable[bytes], parser: Parser) -> None:
        """Read all of a log."""
        feed = self.model.feed
        for block in blocks:
            feed(parser.feed(block))
            self._fold()
        feed(parser.finish())
        self.model.finish()
        self._write_unfinished(self.model.run)
        self._run_ended(self.model.run)

    def _fold(self) -> None:
        until = min((call.start for call in self.model.attributor.waiting), default=math.inf)
        for number, gpu in self.model.run.gpus.items():
            older = self._older.get(number)
            if older is None:
                older = self._older[number] = LongRun()
            older.fold(gpu, until)

    def close(self) -> None:
        """Give back the files behind the rows of all runs."""
        self._current.close()
        for _, rows in self.runs:
            rows.close()

    def _finished(self, run: Run, partition: Partition) -> None:
        row = partition_row(partition, lock_lines=run.lock_lines)
        current = self._current
        if self.on_row is None:
            current.add(self._serialise(row))
        else:
            self.on_row(run, row)
        current.count += 1
        if row.state == "done":
            current.stages.add(row)

    def _write_unfinished(self, run: Run) -> None:
        """What is in flight at the log's end is part of the report, too."""
        for partition in run.unfinished():
            self._finished(run, partition)

    def _run_ended(self, run: Run) -> None:
        current, self._current = self._current, RunRows(_rows_file())
        older, self._older = self._older, {}
        heard = run.timeline_seen or run.timing_seen or run.first_wall_us is not None
        if not heard and not run.jobs and not current.count:
            current.close()
            return
        self.runs.append((summarize(run, current.stages, self._measure(run), older), current))
