"""One card: what is known of it, what of it is read and when, and what can't be.

The costs and periods in the comments were measured on an H200 with driver 580; other cards differ.
Never asked here, because each takes milliseconds: PCIe throughput (20 ms a counter), PCIe byte
counters (0.4 ms a pair, and they wrap in 85 ms), energy, BAR1, fans, greatest clocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Literal, TypeVar

from cuzktop.dataclass import dataclass, field
from cuzktop.events import GpuProcess, GpuSampled
from cuzktop.sources.gpu_reader import (
    MAX_BYTES_PER_S,
    MAX_POWER_W,
    UTIL_SOURCES,
    GpmFigures,
    GpuReader,
    GpuReadError,
    NumberField,
    UtilSource,
    held_down,
    xid_words,
)

_T = TypeVar("_T")

GPM_MIN_INTERVAL_MS = 100.0  # closer samples read a believable 0: the counters haven't moved
SAMPLE_PERIOD_MS = 200.0  # both the samples' and utilization.gpu's
FIRST_SAMPLES = 5  # of the driver's 14 s of history, the first reading takes the last second
LATE_SAMPLES_MS = 2000.0  # a longer hole before the samples isn't theirs to cover
SLOW_PERIOD_MS = 5000.0  # what changes slowly: temperature, memory clock, processes
RARE_PERIOD_MS = 60_000.0  # what only an operator changes, or an accident: power limit, MIG mode
LINK_BUSY_PCT = 10.0  # below this a card may have turned its PCIe link down, unless it copies:
LINK_BUSY_BYTES_PER_S = 1e8  # copies are no graphics utilisation
REFUSALS = 3  # a field that is refused this often isn't asked for again
BACKOFF_MS = 1000.0  # a lost card is looked for after 1 s, 2 s, 4 s …
MAX_BACKOFF_MS = 60_000.0
MAX_FAULTS = 4  # taken in one tick

SlowFigure = NumberField | Literal["link", "processes", "faults"]
Slow = SlowFigure | Literal["order"]
"""What is read slowly: of a card, or of how the daemon numbers them all."""


@dataclass(slots=True)
class Card:
    """One card as the sampler knows it. `handle` is None while the card is lost.

    `index` is NVML's number of it, by bus id; `gpu` the daemon's, as far as that is known: `doubt`
    says why it may be another.
    """

    index: int
    gpu: int
    sources: tuple[UtilSource, ...]
    doubt: str = ""
    handle: object | None = None
    uuid: str | None = None
    name: str | None = None
    mig: bool = False
    persistent: bool = True
    marks: list[object] = field(default_factory=list)  # two, used in turns
    marked_at_ms: float | None = None  # when marks[0] was filled
    gpm: GpmFigures | None = None  # of this tick
    processes: tuple[GpuProcess, ...] | None = None
    watch: object | None = None
    xid: int = 0  # the last critical event; the driver's codes begin at 1
    xid_unread: str | None = None  # why there is no watch
    seen_us: int = 0  # the newest utilisation sample, by the driver's clock
    slow: dict[NumberField, float | None] = field(default_factory=dict)
    slow_at_ms: dict[Slow, float] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)  # field → why it isn't asked for
    failure: str = ""  # what a call of this tick died of
    trouble: str = ""  # why there is no handle
    retry_at_ms: float = 0.0
    backoff_ms: float = BACKOFF_MS
    noted: str = ""

    def ask(self, what: str, read: Callable[[], _T]) -> _T | None:
        """Read one field, or None if the card doesn't give it (now, or any more).

        Raises:
            GpuReadError: the card or the library is gone, so that no other field is worth asking.
        """
        if what in self.refused:
            return None
        try:
            value = read()
        except GpuReadError as error:
            if error.kind in ("lost", "gone"):
                raise
            self.failure = str(error)
            if error.kind in ("unsupported", "absent"):
                self.refusals[what] = self.refusals.get(what, 0) + 1
                if error.kind == "absent" or self.refusals[what] >= REFUSALS:
                    self.refused[what] = str(error)
            return None
        self.refusals.pop(what, None)
        return value

    def number(self, reader: GpuReader, what: NumberField, *, most: float) -> float | None:
        """Read a figure; one that is no number between 0 and `most` is None."""
        value = self.ask(what, lambda: reader.number(self.handle, what))
        return value if value is not None and 0.0 <= value <= most else None

    def whole(self, what: NumberField) -> int | None:
        """A slow field's latest figure, as a whole number."""
        value = self.slow.get(what)
        return None if value is None else int(value)

    def lose(self, now_ms: float, why: str) -> None:
        """Retire the handle: it must not be used again. Look for the card later, by its UUID."""
        self.handle = self.watch = None
        self.marked_at_ms = None
        self.seen_us = 0
        self.trouble = why
        self.retry_at_ms = now_ms + self.backoff_ms
        self.backoff_ms = min(MAX_BACKOFF_MS, 2.0 * self.backoff_ms)

    def note(self) -> str:
        """Say in a sentence what this card doesn't give; empty if nothing is missing."""
        if self.handle is None:
            return f"GPU {self.gpu} can't be read ({self.trouble}); looking for it again"
        parts = []
        if self.mig:
            parts.append("utilisation n/a (MIG): the driver gives none for a card in MIG mode")
        for label, fields in NOTED_FIELDS.items():
            if all(name in self.refused for name in fields) and not (self.mig and label == "use"):
                parts.append(f"no {label} ({self.refused[fields[-1]]})")
        if not self.persistent:
            parts.append("persistence mode is off: readings can take seconds (nvidia-smi -pm 1)")
        if self.xid:
            parts.append(f"XID {self.xid}{xid_words(self.xid)}")
        if errors := self.whole("ecc_errors"):
            parts.append(f"{errors} uncorrected memory errors since the driver was loaded")
        if self.doubt:
            parts.append(self.doubt)
        return f"GPU {self.gpu}: {'; '.join(parts)}" if parts else ""


NOTED_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "use": UTIL_SOURCES,
    "power": ("power_instant_w", "power_average_w"),
    "power limit": ("power_limit_w",),
    "SM clock": ("sm_clock_mhz",),
    "memory clock": ("memory_clock_mhz",),
    "reason for held-down clocks": ("clock_reasons",),
    "temperature": ("temperature_c",),
    "memory use": ("memory_v2", "memory_v1"),
    "processes": ("processes",),
}
"""What an operator calls a field, and the ways to read it in the order in which they are tried."""

SLOW_FIELDS: Final[dict[NumberField, tuple[float, float]]] = {
    "temperature_c": (SLOW_PERIOD_MS, 200.0),
    "memory_clock_mhz": (SLOW_PERIOD_MS, 100_000.0),
    "power_limit_w": (RARE_PERIOD_MS, MAX_POWER_W),
    "mig_mode": (RARE_PERIOD_MS, 1.0),
    "ecc_errors": (RARE_PERIOD_MS, 1e9),
}
"""Field → (its period, the largest credible figure)."""

LINK_FIELDS: Final[dict[NumberField, float]] = {"pcie_gen": 20.0, "pcie_width": 64.0}
LINK_MOST_FIELDS: Final[dict[NumberField, float]] = {"pcie_gen_max": 20.0, "pcie_width_max": 64.0}
SLOW_PERIODS: Final[dict[Slow, float]] = {
    **{what: period_ms for what, (period_ms, _) in SLOW_FIELDS.items()},
    "link": RARE_PERIOD_MS,
    "processes": SLOW_PERIOD_MS,
    "faults": SLOW_PERIOD_MS,
    "order": SLOW_PERIOD_MS,
}
"""What is read slowly, one of it a tick at most, and how often."""


# ------------------------------------------------------------------------------- reading it


def waits(due_at_ms: float, now_ms: float, longest_ms: float) -> bool:
    """Whether `due_at_ms` is still to come; a clock that was set back doesn't make it later."""
    return now_ms < due_at_ms <= now_ms + longest_ms


def open_card(reader: GpuReader, now_ms: float, card: Card) -> None:
    """Look the card up and read what doesn't change."""
    card.handle = handle = reader.find(card.index, card.uuid)
    card.uuid = card.ask("uuid", lambda: reader.text(handle, "uuid")) or card.uuid
    card.name = card.ask("name", lambda: reader.text(handle, "name")) or card.name
    card.persistent = card.number(reader, "persistence_mode", most=1) != 0
    if "gpm" in card.sources and not card.number(reader, "gpm_supported", most=1):
        card.refused["gpm"] = "this card has no GPM"
    for what, most in LINK_MOST_FIELDS.items():
        card.slow[what] = card.number(reader, what, most=most)
    _watch_faults(reader, card)
    card.slow_at_ms.update(dict.fromkeys(SLOW_PERIODS, now_ms))
    at_once: tuple[SlowFigure, ...] = (*SLOW_FIELDS, "processes")
    for slow in at_once:
        _read_slow(reader, now_ms, card, slow)


def _read_slow(reader: GpuReader, now_ms: float, card: Card, what: SlowFigure) -> None:
    """Read one of SLOW_PERIODS."""
    card.slow_at_ms[what] = now_ms + SLOW_PERIODS[what]
    match what:
        case "processes":
            found = card.ask(what, lambda: reader.processes(card.handle))
            card.processes = None if found is None else tuple(found)
        case "faults":
            _read_faults(reader, card)
        case "link":
            for one, most in LINK_FIELDS.items():
                card.slow[one] = card.number(reader, one, most=most)
        case _:
            card.slow[what] = card.number(reader, what, most=SLOW_FIELDS[what][1])
            card.mig = card.slow.get("mig_mode") == 1


def _watch_faults(reader: GpuReader, card: Card) -> None:
    """Have the card's critical events kept, or know why they aren't."""
    card.watch = card.ask("faults", lambda: reader.watch_faults(card.handle))
    refused = card.refused.get("faults", card.failure)
    card.xid_unread = refused if card.watch is None else None


def _read_faults(reader: GpuReader, card: Card) -> None:
    """Take the newest of the critical events that have come."""
    if card.watch is None:
        _watch_faults(reader, card)
    if card.watch is None:
        return
    for _ in range(MAX_FAULTS):
        xid = card.ask("faults", lambda: reader.next_fault(card.watch))
        if xid is None:
            break
        card.xid = xid
    card.xid_unread = card.refused.get("faults")


def _link_is_busy(card: Card, util_pct: float | None) -> bool:
    gpm = card.gpm or GpmFigures(None)
    rates = (gpm.host_to_device_bytes_per_s or 0.0, gpm.device_to_host_bytes_per_s or 0.0)
    return (util_pct or 0.0) >= LINK_BUSY_PCT or max(rates) >= LINK_BUSY_BYTES_PER_S


def _slow_due(card: Card, now_ms: float, util_pct: float | None) -> Slow | None:
    """What is longest due of SLOW_PERIODS; the link only of a busy card."""
    due = [
        what
        for what, period_ms in SLOW_PERIODS.items()
        if what not in card.refused and not waits(card.slow_at_ms[what], now_ms, period_ms)
    ]
    if "link" in due and not _link_is_busy(card, util_pct):
        due.remove("link")
    return min(due, key=card.slow_at_ms.__getitem__, default=None)


def read_card(
    reader: GpuReader, clock: Callable[[], float], card: Card, renumber: Callable[[], object]
) -> GpuSampled:
    """Read one card; memory last, for it is what hangs (seconds) while a prover exits.

    `renumber` looks anew at how the daemon numbers the cards.

    Nine calls at most: two for utilisation, power, SM clock, reasons, memory, two for something
    slow, and one to spare for the plain figure when the driver has no samples.
    """
    card.failure = ""
    card.gpm = None
    at_ms, util_pct, util_source, util_window_ms = _utilisation(reader, clock, card)
    power_w = _power_w(reader, card)
    sm_clock_mhz = card.number(reader, "sm_clock_mhz", most=100_000.0)
    reasons = card.number(reader, "clock_reasons", most=math.inf)
    due = _slow_due(card, at_ms, util_pct)
    if due == "order":
        card.slow_at_ms[due] = at_ms + SLOW_PERIODS[due]
        renumber()
    elif due is not None:
        _read_slow(reader, at_ms, card, due)
    memory = _memory(reader, card)
    if card.failure and all(
        value is None for value in (util_pct, power_w, sm_clock_mhz, reasons, memory)
    ):
        raise GpuReadError(kind="lost", text=card.failure)
    gpm = card.gpm or GpmFigures(None)
    return GpuSampled(
        at_ms=at_ms,
        gpu=card.gpu,
        util_pct=util_pct,
        util_source=util_source,
        util_window_ms=util_window_ms,
        power_w=power_w,
        power_limit_w=card.slow["power_limit_w"],
        sm_clock_mhz=None if sm_clock_mhz is None else int(sm_clock_mhz),
        memory_clock_mhz=card.whole("memory_clock_mhz"),
        temperature_c=card.whole("temperature_c"),
        memory_used_bytes=None if memory is None else memory[0],
        memory_total_bytes=None if memory is None else memory[1],
        held_down=None if reasons is None else held_down(int(reasons)),
        name=card.name,
        uuid=card.uuid,
        sm_util_pct=gpm.sm_util_pct,
        host_to_device_bytes_per_s=gpm.host_to_device_bytes_per_s,
        device_to_host_bytes_per_s=gpm.device_to_host_bytes_per_s,
        pcie_gen=card.whole("pcie_gen"),
        pcie_width=card.whole("pcie_width"),
        pcie_gen_max=card.whole("pcie_gen_max"),
        pcie_width_max=card.whole("pcie_width_max"),
        ecc_errors=card.whole("ecc_errors"),
        xid=card.xid if card.xid or card.xid_unread is None else None,
        processes=card.processes,
        xid_unread=None if card.xid else card.xid_unread,
    )


def _power_w(reader: GpuReader, card: Card) -> float | None:
    """Of this instant, or of the last second where the card doesn't tell that."""
    power_w = card.number(reader, "power_instant_w", most=MAX_POWER_W)
    if power_w is None:
        power_w = card.number(reader, "power_average_w", most=MAX_POWER_W)
    return power_w


def _memory(reader: GpuReader, card: Card) -> tuple[int, int] | None:
    """Used and total bytes."""
    memory = card.ask("memory_v2", lambda: reader.memory_bytes(card.handle, v2=True))
    if memory is None:
        memory = card.ask("memory_v1", lambda: reader.memory_bytes(card.handle, v2=False))
    if memory is not None and not 0 <= memory[0] <= memory[1]:
        return None  # a driver whose struct has other fields than the binding knows
    return memory


# ------------------------------------------------------------------------------- utilisation


_Utilisation = tuple[float, float | None, UtilSource, float]
"""When the reading returned, per cent, where from, and how many ms before that time it covers."""


def _utilisation(reader: GpuReader, clock: Callable[[], float], card: Card) -> _Utilisation:
    """Read the best figure that the card gives; GPM's first reading has none yet."""
    if not card.mig:
        for source in card.sources:
            reading = _UTILISATION[source](reader, clock, card)
            if reading is not None:
                return reading
    return clock(), None, card.sources[-1], 0.0


def _by_gpm(reader: GpuReader, clock: Callable[[], float], card: Card) -> _Utilisation | None:
    reading = card.ask("gpm", lambda: _between_marks(reader, clock, card))
    if reading is None or (reading[1] is None and reading[3] > 0.0):
        return None
    return reading


def _between_marks(reader: GpuReader, clock: Callable[[], float], card: Card) -> _Utilisation:
    """Fill the older of the two marks anew and compare; None within `GPM_MIN_INTERVAL_MS`.

    Raises:
        GpuReadError: one of the calls failed; the next reading starts afresh.
    """
    now_ms = clock()
    since_ms = card.marked_at_ms
    if since_ms is not None and 0.0 <= now_ms - since_ms < GPM_MIN_INTERVAL_MS:
        return now_ms, None, "gpm", 0.0
    if not card.marks:
        card.marks = [reader.gpm_mark(), reader.gpm_mark()]
    earlier, later = card.marks
    card.marked_at_ms = None
    reader.gpm_sample(card.handle, later)
    at_ms = clock()
    card.marks, card.marked_at_ms = [later, earlier], at_ms
    if since_ms is None or at_ms - since_ms < GPM_MIN_INTERVAL_MS:
        return at_ms, None, "gpm", 0.0
    card.gpm = _credible_gpm(reader.gpm(earlier, later))
    return at_ms, card.gpm.util_pct, "gpm", at_ms - since_ms


def _credible_gpm(read: GpmFigures) -> GpmFigures:
    rates = (read.host_to_device_bytes_per_s, read.device_to_host_bytes_per_s)
    to_device, to_host = (
        rate if rate is not None and 0.0 <= rate <= MAX_BYTES_PER_S else None for rate in rates
    )
    return GpmFigures(_credible(read.util_pct), _credible(read.sm_util_pct), to_device, to_host)


def _by_samples(reader: GpuReader, clock: Callable[[], float], card: Card) -> _Utilisation | None:
    """Mean of the driver's samples since the last reading; None when it has none to give.

    The buffer runs dry on an idle card, and its clock isn't ours: only differences are used.
    """
    seen_us = card.seen_us
    entries = card.ask("samples", lambda: reader.util_samples(card.handle, seen_us))
    at_ms = clock()
    fresh = [(us, pct) for us, pct in entries or () if us > seen_us and 0.0 <= pct <= 100.0]
    if not fresh:
        return None
    if not seen_us:
        fresh = fresh[-FIRST_SAMPLES:]
    card.seen_us = fresh[-1][0]
    window_ms = (card.seen_us - seen_us) / 1000.0
    if not seen_us or (fresh[0][0] - seen_us) / 1000.0 > LATE_SAMPLES_MS:
        window_ms = (card.seen_us - fresh[0][0]) / 1000.0 + SAMPLE_PERIOD_MS
    return at_ms, sum(pct for _, pct in fresh) / len(fresh), "samples", window_ms


def _by_plain_call(
    reader: GpuReader, clock: Callable[[], float], card: Card
) -> _Utilisation | None:
    util_pct = _credible(
        card.ask("utilization.gpu", lambda: reader.number(card.handle, "utilization_pct"))
    )
    return None if util_pct is None else (clock(), util_pct, "utilization.gpu", SAMPLE_PERIOD_MS)


def _credible(util_pct: float | None) -> float | None:
    """Give per cent of time, or None for what can't be; GPM overshoots 100 by a hair."""
    if util_pct is None or not 0.0 <= util_pct <= 101.0:
        return None
    return min(util_pct, 100.0)


_UTILISATION: Final[
    dict[UtilSource, Callable[[GpuReader, Callable[[], float], Card], _Utilisation | None]]
] = {"gpm": _by_gpm, "samples": _by_samples, "utilization.gpu": _by_plain_call}
