"""GPU readings that somebody else recorded: the CSV of `nvidia-smi --query-gpu=… -lms 100`.

    nvidia-smi --query-gpu=timestamp,index,utilization.gpu,power.draw --format=csv -lms 100

Columns in any order, with or without units; a cell that isn't a figure (`[N/A]`, `[Not Supported]`,
`[GPU is lost]`) is unknown. And the means over a span that a report sets beside the log.
"""

from __future__ import annotations

import io
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import BinaryIO, Final, TextIO, cast

from cuzktop.dataclass import NamedTuple, dataclass, field
from cuzktop.errors import CuzktopError, SourceUnreadableError, UsageError
from cuzktop.events import GpuSampled
from cuzktop.settings import MAX_LINE_BYTES
from cuzktop.sources.files import GZIP_MAGIC, is_stream, reason_of
from cuzktop.sources.gpu_reader import CLOCK_REASONS, MAX_GPU, MAX_POWER_W, held_down

SOURCE: Final = "utilization.gpu"
FIRST_WINDOW_MS = 200.0  # the driver's own period, for a GPU's first row
MAX_WINDOW_MS = 10_000.0  # after a pause in the recording, a row doesn't speak for the pause
MAX_MEMORY_MIB = 1e9
MAX_CLOCK_MHZ = 100_000.0
MAX_TEMPERATURE_C = 200.0
HEADER_WITHIN_LINES = 100  # what a wrapper script printed first
RECORD_HINT = "record them with nvidia-smi --query-gpu=timestamp,index,utilization.gpu --format=csv"

_MIB = 1024 * 1024
_STAMP = re.compile(r"(\d{4})[/-](\d\d)[/-](\d\d)[ T](\d\d):(\d\d):([0-5]\d(?:\.\d+)?)(Z?)\Z")
_UNIT = re.compile(r"\s*\[[^]]*\]\Z")  # the header's: utilization.gpu [%]

_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "timestamp": ("timestamp",),
    "gpu": ("index", "gpu_index"),
    "identity": ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial"),
    "name": ("name", "gpu_name"),
    "util": ("utilization.gpu",),
    "power": ("power.draw.instant", "power.draw", "power.draw.average"),
    "limit": ("enforced.power.limit", "power.limit"),
    "sm_clock": ("clocks.current.sm", "clocks.sm"),
    "memory_clock": ("clocks.current.memory", "clocks.current.mem", "clocks.mem"),
    "temperature": ("temperature.gpu",),
    "memory_used": ("memory.used",),
    "memory_total": ("memory.total",),
    "reasons": ("clocks_event_reasons.active", "clocks_throttle_reasons.active"),
}
"""What we take from a row → nvidia-smi's names for it, the best first."""


def read_samples(path: Path, *, utc: bool) -> Iterator[GpuSampled]:
    """Read nvidia-smi's CSV row by row; memory doesn't grow with the file.

    Times are the machine's local time unless `utc`. A reading's `util_window_ms` is the time since
    the row before it of the same GPU. Rows that are torn or have no time are left out. Without an
    index, GPUs are numbered in the order in which their UUID or bus id first appears; without that
    either, all rows are GPU 0's. The file, which may be a gzip, is opened and its header read at
    once.

    Raises:
        SourceUnreadableError: it is missing, a directory, a stream, not ours to read, or fails on
            the way.
        UsageError: its header names no timestamp, or it has no header.
    """
    stream = _open(path)
    try:
        columns = _header(stream, path)
    except CuzktopError:
        stream.close()
        raise
    return _rows(stream, path, columns, None if not utc else UTC)


def _open(path: Path) -> TextIO:
    if is_stream(path):  # each run of a log looks through it again
        message = f"can't read the samples {path}"
        raise SourceUnreadableError(message, hint="it is a stream: save it to a file first")
    try:
        file = cast("BinaryIO", path.open("rb"))
        is_gzip = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        file.seek(0)
    except OSError as error:
        raise _unreadable(path, error) from None
    if is_gzip:
        import gzip  # noqa: PLC0415 - start-up: few are compressed

        file.close()
        file = cast("BinaryIO", gzip.GzipFile(path, "rb"))
    return io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="\n")


def _read_line(stream: TextIO, path: Path) -> str:
    """The next line, or its beginning if it is longer than any of ours; empty at the end.

    Raises:
        SourceUnreadableError: a disk fault, a broken gzip.
    """
    try:
        return stream.readline(MAX_LINE_BYTES)
    except OSError as error:
        raise _unreadable(path, error) from None
    except (EOFError, zlib.error):
        message = f"can't read the samples {path}"
        hint = "the compressed file is damaged or cut off; unpack what is left of it with zcat"
        raise SourceUnreadableError(message, hint=hint) from None


def _unreadable(path: Path, error: OSError) -> SourceUnreadableError:
    why = reason_of(error)
    hint = ""
    if isinstance(error, FileNotFoundError):
        hint = f"; {RECORD_HINT}"
    elif isinstance(error, IsADirectoryError):
        hint = "; name the CSV file in it"
    elif isinstance(error, PermissionError):
        hint = "; run as a user who may read it"
    return SourceUnreadableError(f"can't read the samples {path}", hint=f"{why}{hint}")


# ------------------------------------------------------------------------------- header


@dataclass(slots=True)
class _Columns:
    """Where in a row each thing stands; `width` is the number of cells of a whole row."""

    width: int
    at: dict[str, tuple[int, ...]]
    reasons_at: tuple[tuple[int, str], ...]  # cells that say Active or Not Active, and what then


def _header(stream: TextIO, path: Path) -> _Columns:
    """Find the line that names the columns.

    Raises:
        UsageError: there is none.
    """
    empty = True
    for _ in range(HEADER_WITHIN_LINES):
        line = _read_line(stream, path)
        if not line:
            break
        cells = _cells(line)
        if (columns := _columns(cells)) is not None:
            return columns
        if _STAMP.match(cells[0]):
            what = f"the samples {path} have no line that names the columns"
            raise UsageError(what, hint="record them again without noheader")
        empty = empty and not line.strip()
    what = f"the samples {path} {'are empty' if empty else 'have no timestamp column'}"
    raise UsageError(what, hint=RECORD_HINT)


def _columns(cells: Sequence[str]) -> _Columns | None:
    names = [_UNIT.sub("", cell).lower() for cell in cells]
    if "timestamp" not in names:
        return None
    at = {
        what: tuple(names.index(name) for name in known if name in names)
        for what, known in _COLUMNS.items()
    }
    words = {f"{prefix}.{word}": text for prefix in _REASON_PREFIXES for word, text in _REASONS}
    reasons_at = tuple((n, words[name]) for n, name in enumerate(names) if name in words)
    return _Columns(width=len(names), at=at, reasons_at=reasons_at)


_REASON_PREFIXES: Final = ("clocks_event_reasons", "clocks_throttle_reasons")
_REASONS: Final = (
    ("applications_clocks_setting", CLOCK_REASONS[0x2]),
    ("sw_power_cap", CLOCK_REASONS[0x4]),
    ("hw_slowdown", CLOCK_REASONS[0x8]),
    ("sync_boost", CLOCK_REASONS[0x10]),
    ("sw_thermal_slowdown", CLOCK_REASONS[0x20]),
    ("hw_thermal_slowdown", CLOCK_REASONS[0x40]),
    ("hw_power_brake_slowdown", CLOCK_REASONS[0x80]),
)


# ------------------------------------------------------------------------------- rows


def _rows(
    stream: TextIO, path: Path, columns: _Columns, zone: tzinfo | None
) -> Iterator[GpuSampled]:
    clock = _RowClock(zone)
    numbering: dict[str, int] = {}
    last_ms: dict[int, float] = {}
    with stream:
        while True:
            line = _read_line(stream, path)
            if not line:
                return
            cells = _cells(line)
            if len(cells) != columns.width or "timestamp" in cells:
                columns = _columns(cells) or columns  # a header again, perhaps another one; or torn
                continue
            if not line.endswith("\n"):
                cells[-1] = ""  # the file may end inside this cell: 9 of 98
            at_ms = clock.wall_ms(_cell(cells, columns, "timestamp"))
            gpu = _gpu(cells, columns, numbering)
            if at_ms is None or gpu is None:
                continue
            window_ms = min(at_ms - last_ms.get(gpu, at_ms - FIRST_WINDOW_MS), MAX_WINDOW_MS)
            last_ms[gpu] = at_ms
            yield _reading(cells, columns, at_ms, gpu, max(0.0, window_ms))


def _reading(
    cells: Sequence[str], columns: _Columns, at_ms: float, gpu: int, window_ms: float
) -> GpuSampled:
    def figure(what: str, *, most: float) -> float | None:
        for n in columns.at[what]:
            value = _number(cells[n])
            if value is not None and 0.0 <= value <= most:
                return value
        return None

    used = figure("memory_used", most=MAX_MEMORY_MIB)
    total = figure("memory_total", most=MAX_MEMORY_MIB)
    if used is not None and total is not None and used > total:
        used = total = None
    return GpuSampled(
        at_ms=at_ms,
        gpu=gpu,
        util_pct=figure("util", most=100.0),
        util_source=SOURCE,
        util_window_ms=window_ms,
        power_w=figure("power", most=MAX_POWER_W),
        power_limit_w=figure("limit", most=MAX_POWER_W),
        sm_clock_mhz=_whole(figure("sm_clock", most=MAX_CLOCK_MHZ)),
        memory_clock_mhz=_whole(figure("memory_clock", most=MAX_CLOCK_MHZ)),
        temperature_c=_whole(figure("temperature", most=MAX_TEMPERATURE_C)),
        memory_used_bytes=None if used is None else round(used * _MIB),
        memory_total_bytes=None if total is None else round(total * _MIB),
        held_down=_held_down(cells, columns),
        name=_cell(cells, columns, "name") or None,
    )


def _held_down(cells: Sequence[str], columns: _Columns) -> str | None:
    """What holds clocks down; None where that isn't told, as by columns of single reasons alone."""
    try:
        mask = int(_cell(cells, columns, "reasons"), 16)
    except ValueError:
        active = [word for n, word in columns.reasons_at if cells[n].lower() == "active"]
        return ", ".join(active) or None
    return held_down(mask)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split(",")]


def _cell(cells: Sequence[str], columns: _Columns, what: str) -> str:
    at = columns.at[what]
    return cells[at[0]] if at else ""


def _gpu(cells: Sequence[str], columns: _Columns, numbering: dict[str, int]) -> int | None:
    if columns.at["gpu"]:
        text = _cell(cells, columns, "gpu")
        is_index = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_GPU))
        return int(text) if is_index else None
    if columns.at["identity"]:
        identity = _cell(cells, columns, "identity")
        if not identity or identity.startswith("["):
            return None
        return numbering.setdefault(identity, len(numbering))
    return 0


def _number(cell: str) -> float | None:
    """Read `80.08 W`, `45 %` or `45`; None for anything else."""
    try:
        value = float(cell.split(None, 1)[0])
    except (ValueError, IndexError):
        return None
    return value if math.isfinite(value) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


class _RowClock:
    """`2026/11/30 09:08:20.156` → wall-clock ms; a minute's start is worked out once."""

    def __init__(self, zone: tzinfo | None) -> None:
        self._zone = zone  # None: the machine's local time
        self._minute = ""
        self._minute_ms = -math.inf

    def wall_ms(self, stamp: str) -> float | None:
        """Give ms since 1970 UTC, or None if `stamp` is no time."""
        match = _STAMP.match(stamp)
        if match is None:
            return None
        zone = UTC if match.group(7) else self._zone
        minute = stamp[:16] + match.group(7)
        if minute != self._minute:
            year, month, day, hour, minutes = (int(match.group(n)) for n in range(1, 6))
            try:
                start = datetime(year, month, day, hour, minutes, tzinfo=zone)
                start_ms = start.timestamp() * 1000.0
                if start_ms < self._minute_ms:
                    # Local clocks are set back in autumn: the hour comes a second time.
                    start_ms = max(start_ms, start.replace(fold=1).timestamp() * 1000.0)
            except (ValueError, OverflowError, OSError):
                return None
            self._minute, self._minute_ms = minute, start_ms
        return self._minute_ms + float(match.group(6)) * 1000.0


# ------------------------------------------------------------------------------- means


class GpuMeans(NamedTuple):
    """Time-weighted means over a span; None where nothing was read in it.

    `samples` counts the utilisation readings that fell into the span, `source` says where they come
    from: gpm, samples or utilization.gpu. `reach_ms` is how much of the span readings go along
    with: pauses of more than ten seconds between two of them don't count. `copies_pct` is the least
    share of the time in which copies to the card ran.
    """

    util_pct: float | None
    power_w: float | None
    samples: int
    source: str | None
    reach_ms: float = 0.0
    copies_pct: float | None = None


@dataclass(slots=True)
class _Sum:
    area: float = 0.0
    covered_ms: float = 0.0
    count: int = 0

    def add(self, value: float, held_ms: float) -> None:
        self.area += value * held_ms
        self.covered_ms += held_ms
        self.count += 1

    def mean(self) -> float | None:
        return self.area / self.covered_ms if self.covered_ms > 0.0 else None


@dataclass(slots=True)
class _Span:
    start_ms: float
    end_ms: float
    last_ms: float = -math.inf
    reach_ms: float = 0.0
    util: dict[str, _Sum] = field(default_factory=dict)
    power: _Sum = field(default_factory=_Sum)
    copies: _Sum = field(default_factory=_Sum)

    def take(self, reading: GpuSampled) -> None:
        """Let `reading` stand for the time that it covers: up to its own time, never twice."""
        window_ms = reading.util_window_ms
        if window_ms <= 0.0:  # power without utilisation: GPM's first reading, or MIG
            first = self.last_ms == -math.inf
            window_ms = 0.0 if first else min(reading.at_ms - self.last_ms, MAX_WINDOW_MS)
        begin_ms = max(reading.at_ms - window_ms, self.last_ms, self.start_ms)
        held_ms = min(reading.at_ms, self.end_ms) - begin_ms
        since_ms = max(self.last_ms, reading.at_ms - MAX_WINDOW_MS, self.start_ms)
        if self.last_ms == -math.inf:
            since_ms = begin_ms
        self.reach_ms += max(0.0, min(reading.at_ms, self.end_ms) - since_ms)
        self.last_ms = max(self.last_ms, reading.at_ms)
        if held_ms <= 0.0:
            return
        if reading.util_pct is not None:
            self.util.setdefault(reading.util_source, _Sum()).add(reading.util_pct, held_ms)
        if reading.power_w is not None:
            self.power.add(reading.power_w, held_ms)
        if (copies_pct := reading.copies_pct) is not None:
            self.copies.add(copies_pct, held_ms)

    def means(self) -> GpuMeans:
        """Mean of the source that covers most of the span: two kinds of figure don't mix."""
        source = max(self.util, key=lambda name: self.util[name].covered_ms, default=None)
        util = _Sum() if source is None else self.util[source]
        copies_pct = self.copies.mean()
        return GpuMeans(
            util.mean(), self.power.mean(), util.count, source, self.reach_ms, copies_pct
        )


def means_by_gpu(
    samples: Iterable[GpuSampled], spans_ms: Mapping[int, tuple[float, float]]
) -> dict[int, GpuMeans]:
    """Mean utilisation and power of each GPU over its own span, in one pass over `samples`.

    `spans_ms` gives (start, end) as wall-clock ms for each GPU that is wanted. A reading stands for
    the `util_window_ms` before its own time: what GPM and the driver's samples measured, and for a
    recorded utilization.gpu the time since the row before. Where no reading covers the time (a
    pause, a hung driver), that time counts for nothing. Each GPU's readings come in order of time.
    """
    spans = {gpu: _Span(start_ms, end_ms) for gpu, (start_ms, end_ms) in spans_ms.items()}
    for reading in samples:
        if (span := spans.get(reading.gpu)) is not None:
            span.take(reading)
    return {gpu: span.means() for gpu, span in spans.items()}
