"""What the cards' driver measures, through NVML; the only module that imports pynvml.

Three parts: `GpuReader` is what we ask of NVML and `PynvmlReader` asks it; `sample` is one step,
whose time and reader are arguments; `NvmlSampler` is the thread that takes a step a second.

The costs and periods in the comments were measured on an H200 with driver 580; other cards differ.
Never asked here, because each takes milliseconds: PCIe throughput (20 ms a counter), PCIe byte
counters (0.4 ms a pair, and they wrap in 85 ms), energy, BAR1, fans, greatest clocks.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeVar

from cuzktop.dataclass import NamedTuple, dataclass, field
from cuzktop.events import GpuProcess, GpuSampled, GpuSamplerNote
from cuzktop.sources.ordinals import Card as Identity
from cuzktop.sources.ordinals import CudaChoice, number_cards
from cuzktop.sources.sink import EventSink

_T = TypeVar("_T")

UtilSource = Literal["gpm", "samples", "utilization.gpu"]
UTIL_SOURCES: Final[tuple[UtilSource, ...]] = ("gpm", "samples", "utilization.gpu")
"""Best first: GPM equals the time in which kernels run; the samples are gapless; the plain figure
looks at half of the time only and misreads work with a rhythm near 200 ms."""

DEFAULT_PERIOD_S = 1.0
MIN_PERIOD_S = 0.5  # nothing changes faster than 200 ms, and each call takes the driver's locks
RELIEF_PERIOD_S = 1.5  # between two looks if a card holds up the others
STUCK_S = 0.5  # a card's turn takes a millisecond, ten when the driver is busy
GPM_MIN_INTERVAL_MS = 100.0  # closer samples read a believable 0: the counters haven't moved
SAMPLE_PERIOD_MS = 200.0  # both the samples' and utilization.gpu's
FIRST_SAMPLES = 5  # of the driver's 14 s of history, the first reading takes the last second
LATE_SAMPLES_MS = 2000.0  # a longer hole before the samples isn't theirs to cover
SLOW_PERIOD_MS = 5000.0  # what changes slowly: temperature, memory clock, processes
RARE_PERIOD_MS = 60_000.0  # what only an operator changes, or an accident: power limit, MIG mode
LINK_BUSY_PCT = 10.0  # below this a card may have turned its PCIe link down, unless it copies:
LINK_BUSY_BYTES_PER_S = 1e8  # copies are no graphics utilisation
REFUSALS = 3  # a field that is refused this often isn't asked for again
RETRY_MS = 30_000.0  # no library, no driver, no card
BACKOFF_MS = 1000.0  # a lost card is looked for after 1 s, 2 s, 4 s …
MAX_BACKOFF_MS = 60_000.0
MAX_POWER_W = 20_000.0  # beyond this it isn't a power reading
MAX_BYTES_PER_S = 1e12  # nor this a PCIe rate: generation 7 with 16 lanes has 242 GB/s
MAX_GPU = 999  # no box has a thousand cards
MAX_FAULTS = 4  # taken in one tick

ErrorKind = Literal["unsupported", "absent", "empty", "lost", "gone", "failed"]
TextField = Literal["uuid", "name"]
NumberField = Literal[
    "gpm_supported",
    "mig_mode",
    "persistence_mode",
    "power_limit_w",
    "power_instant_w",
    "power_average_w",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "temperature_c",
    "clock_reasons",
    "utilization_pct",
    "pcie_gen",
    "pcie_width",
    "pcie_gen_max",
    "pcie_width_max",
    "ecc_errors",
]
SlowFigure = NumberField | Literal["link", "processes", "faults"]
Slow = SlowFigure | Literal["order"]
"""What is read slowly: of a card, or of how the daemon numbers them all."""


class NvmlUnavailableError(Exception):
    """NVML can't be used at all; its text says why and what to do, in one line."""


class GpuReadError(Exception):
    """One call failed; `kind` says what that means, the text is NVML's own.

    unsupported: not on this card. absent: not in this driver or binding, for good. empty: nothing
    to report. lost: this card is gone. gone: the library is. failed: anything else.
    """

    def __init__(self, *, kind: ErrorKind, text: str) -> None:
        """Keep the kind beside the text."""
        super().__init__(text)
        self.kind = kind


class GpmFigures(NamedTuple):
    """What GPM gives for the time between two marks; a metric that the card lacks is None.

    `util_pct` is graphics utilisation: the share of time in which kernels ran. The PCIe rates count
    packets with their headers and requests: 6 to 7 % above what is copied, and some 6 % of one
    direction's rate in the other (an H200 with generation 5 × 16).
    """

    util_pct: float | None
    sm_util_pct: float | None = None
    host_to_device_bytes_per_s: float | None = None
    device_to_host_bytes_per_s: float | None = None


class GpuReader(Protocol):
    """What the sampler asks of NVML; handles, marks and watches are opaque to it.

    `start` raises `NvmlUnavailableError`, every other method `GpuReadError`.
    """

    def start(self) -> None:
        """Load and initialise the library, once for the process's life."""

    def gpu_count(self) -> int:
        """How many cards there are."""

    def find(self, gpu: int, uuid: str | None) -> object:
        """Give a card's handle, by UUID where it is known, else by index. Never a null handle."""

    def text(self, handle: object, what: TextField) -> str:
        """Read a name of the card."""

    def number(self, handle: object, what: NumberField) -> float:
        """Read one figure, in the unit that its name ends in; a mode or support flag is 0 or 1."""

    def memory_bytes(self, handle: object, *, v2: bool) -> tuple[int, int]:
        """Read (used, total); `v2` leaves out what the driver reserves for itself."""

    def util_samples(self, handle: object, since_us: int) -> Sequence[tuple[int, float]]:
        """Read the driver's utilisation samples after `since_us`: (time in µs, per cent)."""

    def gpm_mark(self) -> object:
        """Make room for one GPM sample."""

    def gpm_sample(self, handle: object, mark: object) -> None:
        """Fill `mark` with the counters of this instant."""

    def gpm(self, earlier: object, later: object) -> GpmFigures:
        """Read the figures for the time between two marks."""

    def processes(self, handle: object) -> Sequence[GpuProcess]:
        """Read who has a context on the card."""

    def watch_faults(self, handle: object) -> object:
        """Have the card's critical events kept for `next_fault`."""

    def next_fault(self, watch: object) -> int | None:
        """Take the oldest event (XID) that is kept, without waiting; None where there is none."""


# ------------------------------------------------------------------------------- what is known


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


@dataclass(slots=True)
class SamplerState:
    """What one step leaves for the next. `sources` are the utilisation sources to use, in order."""

    sources: tuple[UtilSource, ...] = UTIL_SOURCES
    cards: list[Card] = field(default_factory=list)
    retry_at_ms: float = -math.inf
    noted: str = ""
    choice: Callable[[], CudaChoice | None] = lambda: None  # how the daemon counts its GPUs
    identities: tuple[Identity, ...] = ()  # of all cards, in NVML's order
    only: frozenset[int] | None = None  # NVML's numbers of the cards to read; None: all of them
    turns: int = 0  # how many a card has had
    reading: Card | None = None  # whose turn it is
    turn_lock: threading.Lock = field(default_factory=threading.Lock)  # over these and `cards`

    def give_turn(self, card: Card | None, cards: list[Card]) -> bool:
        """Go over to the next of `cards`, or to none; False if others read them by now."""
        with self.turn_lock:
            self.turns += 1
            mine = self.cards is cards
            self.reading = card if mine else None
            return mine

    def leave_alone(self, turn: int) -> SamplerState | None:
        """Take the other cards from a step in which `turn` still lasts; None where it doesn't."""
        with self.turn_lock:
            stuck = self.reading
            if stuck is None or self.turns != turn or len(self.cards) <= 1:
                return None
            others = [card for card in self.cards if card is not stuck]
            self.cards = [stuck]
            self.only = frozenset({stuck.index})
            only = frozenset(card.index for card in others)
            return SamplerState(
                sources=self.sources,
                cards=others,
                choice=self.choice,
                identities=self.identities,
                only=only,
            )


# ------------------------------------------------------------------------------- one step


def sample(
    reader: GpuReader, clock: Callable[[], float], state: SamplerState
) -> Iterator[GpuSampled | GpuSamplerNote]:
    """Read every card once; `clock` gives wall-clock ms.

    A card's reading comes as soon as it is complete, so that one that hangs holds up only those
    after it. A note comes when what it says changes. Nothing is raised: without a library, a
    driver or a card there is one note and another try after `RETRY_MS`.
    """
    yield from find_cards(reader, clock, state)
    cards = state.cards
    for card in cards:
        if not state.give_turn(card, cards):
            return
        try:
            yield from _sample_card(reader, clock, state, card)
        except GpuReadError as error:  # the library itself is gone: a reloaded driver, say
            yield from _forget_cards(state, clock())
            yield from _unavailable(state, clock(), f"NVML stopped answering: {error}")
            return


def find_cards(
    reader: GpuReader, clock: Callable[[], float], state: SamplerState
) -> Iterator[GpuSampled | GpuSamplerNote]:
    """Do the step's first part: look for cards while none are known, at most every `RETRY_MS`."""
    now_ms = clock()
    if not state.cards and not _waits(state.retry_at_ms, now_ms, RETRY_MS):
        yield from _start(reader, now_ms, state)


def _start(
    reader: GpuReader, now_ms: float, state: SamplerState
) -> Iterator[GpuSampled | GpuSamplerNote]:
    try:
        reader.start()
        count = reader.gpu_count()
    except (NvmlUnavailableError, GpuReadError) as error:
        yield from _unavailable(state, now_ms, f"NVML not available: {error}")
        return
    if count == 0:
        hint = "does nvidia-smi list one? A container needs --gpus all"
        yield from _unavailable(state, now_ms, f"NVML sees no GPU: {hint}")
        return
    cards = [
        Card(index=index, gpu=index, sources=state.sources)
        for index in range(count)
        if state.only is None or index in state.only
    ]
    for card in cards:
        try:
            _open_card(reader, now_ms, card)
        except GpuReadError as error:
            if error.kind == "gone":
                yield from _unavailable(state, now_ms, f"NVML not available: {error}")
                return
            card.lose(now_ms, str(error))
    state.cards = cards
    state.retry_at_ms = now_ms + RETRY_MS  # where the one card isn't there any more
    if state.only is None:
        state.identities = tuple(Identity(card.uuid, card.name) for card in cards)
    _number_cards(state)
    if state.noted:
        state.noted = ""
        yield GpuSamplerNote(at_ms=now_ms, gpu=None, text="")


def _number_cards(state: SamplerState) -> None:
    """Give each card the number that it has for the daemon."""
    numbers, doubt = number_cards(state.identities, state.choice())
    for card in state.cards:
        if card.index < len(numbers):
            card.gpu, card.doubt = numbers[card.index], doubt


def _unavailable(state: SamplerState, now_ms: float, why: str) -> Iterator[GpuSamplerNote]:
    state.retry_at_ms = now_ms + RETRY_MS
    text = f"{why} (trying again every {RETRY_MS / 1000:.0f} s)"
    if text != state.noted:
        state.noted = text
        yield GpuSamplerNote(at_ms=now_ms, gpu=None, text=text)


def _forget_cards(state: SamplerState, now_ms: float) -> Iterator[GpuSamplerNote]:
    """Take back what was said of single cards: from here on it is said of all of them."""
    for card in state.cards:
        if card.noted:
            yield GpuSamplerNote(at_ms=now_ms, gpu=card.gpu, text="")
    state.cards = []


def _waits(due_at_ms: float, now_ms: float, longest_ms: float) -> bool:
    """Whether `due_at_ms` is still to come; a clock that was set back doesn't make it later."""
    return now_ms < due_at_ms <= now_ms + longest_ms


def _sample_card(
    reader: GpuReader, clock: Callable[[], float], state: SamplerState, card: Card
) -> Iterator[GpuSampled | GpuSamplerNote]:
    now_ms = clock()
    if card.handle is None and card.noted and _waits(card.retry_at_ms, now_ms, MAX_BACKOFF_MS):
        return
    try:
        if card.handle is None and card.noted:
            _open_card(reader, now_ms, card)
        if card.handle is not None:
            yield _read_card(reader, clock, state, card)
            card.backoff_ms = BACKOFF_MS
    except GpuReadError as error:
        if error.kind == "gone":
            raise
        card.lose(clock(), str(error))
    if (text := card.note()) != card.noted:
        card.noted = text
        yield GpuSamplerNote(at_ms=clock(), gpu=card.gpu, text=text)


def _open_card(reader: GpuReader, now_ms: float, card: Card) -> None:
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
        if what not in card.refused and not _waits(card.slow_at_ms[what], now_ms, period_ms)
    ]
    if "link" in due and not _link_is_busy(card, util_pct):
        due.remove("link")
    return min(due, key=card.slow_at_ms.__getitem__, default=None)


def _read_card(
    reader: GpuReader, clock: Callable[[], float], state: SamplerState, card: Card
) -> GpuSampled:
    """Read one card; memory last, for it is what hangs (seconds) while a prover exits.

    Nine calls at most: two for utilisation, power, SM clock, reasons, memory, two for something
    slow, and one to spare for the plain figure when the driver has no samples.
    """
    card.failure = ""
    card.gpm = None
    at_ms, util_pct, util_source, util_window_ms = _utilisation(reader, clock, card)
    power_w = card.number(reader, "power_instant_w", most=MAX_POWER_W)
    if power_w is None:
        power_w = card.number(reader, "power_average_w", most=MAX_POWER_W)
    sm_clock_mhz = card.number(reader, "sm_clock_mhz", most=100_000.0)
    reasons = card.number(reader, "clock_reasons", most=math.inf)
    due = _slow_due(card, at_ms, util_pct)
    if due == "order":
        card.slow_at_ms[due] = at_ms + SLOW_PERIODS[due]
        _number_cards(state)
    elif due is not None:
        _read_slow(reader, at_ms, card, due)
    memory = card.ask("memory_v2", lambda: reader.memory_bytes(card.handle, v2=True))
    if memory is None:
        memory = card.ask("memory_v1", lambda: reader.memory_bytes(card.handle, v2=False))
    if memory is not None and not 0 <= memory[0] <= memory[1]:
        memory = None  # a driver whose struct has other fields than the binding knows
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


# ------------------------------------------------------------------------------- clock reasons

_IDLE = 0x1
_HW_SLOWDOWN = 0x8
_HW_CAUSES = 0x40 | 0x80  # either of them sets _HW_SLOWDOWN too
CLOCK_REASONS: Final[dict[int, str]] = {
    0x2: "clock setting",
    0x4: "power cap",
    _HW_SLOWDOWN: "hardware slowdown",
    0x10: "sync boost",
    0x20: "heat",
    0x40: "heat (hardware)",
    0x80: "power brake",
    0x100: "display clocks",
    0x200: "board limit",
    0x400: "reliability limit",
}
"""NVML's clocks event reasons (nvml.h, nvmlClocksEventReason…) in an operator's words."""


def held_down(reasons: int) -> str:
    """Say why clocks are held down, by NVML's bit mask; empty if they are not or the card idles."""
    reasons &= ~_IDLE
    if reasons & _HW_CAUSES:
        reasons &= ~_HW_SLOWDOWN
    words = [word for bit, word in CLOCK_REASONS.items() if reasons & bit]
    if rest := reasons & ~sum(CLOCK_REASONS):
        words.append(f"reason {rest:#x}")
    return ", ".join(words)


XID_WORDS: Final[dict[int, str]] = {
    13: "a program's kernel failed",
    31: "a program used memory that it doesn't have",
    43: "a program's work was stopped",
    45: "a program's work was cleaned up",
    48: "uncorrected memory error",
    63: "a memory row was replaced",
    64: "a memory row could not be replaced",
    74: "NVLink error",
    79: "the card has fallen off the bus",
    92: "many corrected memory errors",
    94: "contained memory error",
    95: "uncontained memory error: reset the card",
    119: "the card's own processor doesn't answer",
    120: "the card's own processor failed",
}
"""What the driver's commoner error codes mean (its XID catalogue), as short as can be."""


def xid_words(xid: int) -> str:
    """Say behind a code what it means; empty for one that isn't common."""
    words = XID_WORDS.get(xid)
    return "" if words is None else f" ({words})"


# ------------------------------------------------------------------------------- thread, one shot


class NvmlSampler(threading.Thread):
    """Puts a `GpuSampled` of each card on `events` every `period_s`, and notes on what is missing.

    A daemon thread: a call that hangs in the driver must hold up neither the screen nor the exit.
    Nor the other cards: a `_Relief` looks after it, and has them read by another such thread. One
    thread reads all of them until then, for what is woken once costs less than what is woken four
    times. `clock` gives wall-clock ms. Nothing is raised out of it.
    """

    def __init__(
        self,
        events: EventSink,
        clock: Callable[[], float],
        stop: threading.Event,
        *,
        period_s: float = DEFAULT_PERIOD_S,
        reader: GpuReader | None = None,
        sources: tuple[UtilSource, ...] = UTIL_SOURCES,
        choice: Callable[[], CudaChoice | None] = lambda: None,
    ) -> None:
        """Take `period_s` in seconds, half a second at least; without a `reader`, ask pynvml.

        `choice` gives what the daemon's environment says of its GPUs.
        """
        super().__init__(name="cuzktop-nvml", daemon=True)
        self._events = events
        self._clock = clock
        self._stop_event = stop
        self._period_s = max(MIN_PERIOD_S, period_s)
        self._reader = reader
        self._state = SamplerState(sources=sources, choice=choice)

    def run(self) -> None:
        """Take a step a period until told to stop."""
        reader = self._reader = self._reader or PynvmlReader()
        state = self._state
        relief: _Relief | None = None
        while not self._stop_event.is_set():
            began_ms = self._clock()
            try:
                for event in find_cards(reader, self._clock, state):
                    self._events.put(event)
                if relief is None and len(state.cards) > 1:
                    relief = _Relief(self._stop_event, state, self._go_on)
                    relief.start()
                for event in sample(reader, self._clock, state):
                    self._events.put(event)
            except Exception as error:  # noqa: BLE001  # a fault here must not end the readings
                self._break_off(" ".join(f"{type(error).__name__}: {error}".split()))
            state.give_turn(None, state.cards)
            spent_s = max(0.0, (self._clock() - began_ms) / 1000.0)
            self._stop_event.wait(max(0.0, self._period_s - spent_s))

    def _go_on(self, state: SamplerState) -> None:
        """Have another thread read the cards of `state`."""
        other = NvmlSampler(
            self._events,
            self._clock,
            self._stop_event,
            period_s=self._period_s,
            reader=self._reader,
        )
        other._state = state
        other.start()

    def _break_off(self, why: str) -> None:
        now_ms = self._clock()
        for taken_back in _forget_cards(self._state, now_ms):
            self._events.put(taken_back)
        for note in _unavailable(self._state, now_ms, f"GPU readings broke off: {why}"):
            self._events.put(note)


class _Relief(threading.Thread):
    """Looks now and then if a card keeps its turn, and has the others read elsewhere if so."""

    def __init__(
        self,
        stop: threading.Event,
        state: SamplerState,
        go_on: Callable[[SamplerState], None],
    ) -> None:
        """Look after the step that `state` belongs to."""
        super().__init__(name="cuzktop-nvml-relief", daemon=True)
        self._stop_event = stop
        self._state = state
        self._go_on = go_on

    def run(self) -> None:
        """Look until there is nothing left to do."""
        state = self._state
        while not self._stop_event.wait(RELIEF_PERIOD_S):
            turn = state.turns
            if state.reading is None or self._stop_event.wait(STUCK_S):
                continue
            others = state.leave_alone(turn)
            if others is not None:
                self._go_on(others)
                return


def read_once(
    reader: GpuReader,
    sleep: Callable[[float], object],
    clock: Callable[[], float],
    *,
    fast: bool = False,
    choice: Callable[[], CudaChoice | None] = lambda: None,
) -> list[GpuSampled | GpuSamplerNote]:
    """Read each card for a single picture: two samples a second apart, of which the second counts.

    `sleep` takes seconds. `fast` reads once and doesn't wait; GPM, which needs two samples, then
    gives way to the driver's own last second. Notes say what is missing, and why nothing came.
    `choice` gives what the daemon's environment says of its GPUs.
    """
    state = SamplerState(sources=UTIL_SOURCES[1:] if fast else UTIL_SOURCES, choice=choice)
    first = list(sample(reader, clock, state))
    if fast or not any(isinstance(event, GpuSampled) for event in first):
        return first
    notes = [event for event in first if isinstance(event, GpuSamplerNote)]
    sleep(DEFAULT_PERIOD_S)
    return [*notes, *sample(reader, clock, state)]


# ------------------------------------------------------------------------------- pynvml

_ERROR_KINDS: Final[dict[int, ErrorKind]] = {
    1: "gone",  # uninitialised: the library was shut down under us
    2: "unsupported",  # invalid argument: a field that this driver doesn't know
    3: "unsupported",
    4: "unsupported",  # no permission
    6: "empty",  # not found
    9: "gone",  # driver not loaded
    10: "empty",  # timeout: no event is waiting
    12: "gone",  # library not found
    13: "absent",  # function not found: an older library
    15: "lost",
    16: "lost",  # reset required
    18: "gone",  # library and kernel module differ
    21: "empty",  # no data
    25: "absent",  # argument version: an older library
    26: "absent",  # deprecated
    28: "lost",  # GPU not found
}
"""nvmlReturn_t (nvml.h) → what it means to us; anything else failed this once."""

_LIBRARY_RM_MISMATCH = 18
_START_HINTS: Final[dict[int, str]] = {
    4: "no permission to open /dev/nvidiactl: run as a user who may",
    9: "the NVIDIA kernel driver isn't loaded: modprobe nvidia, or reboot",
    12: "libnvidia-ml.so.1 not found: install the NVIDIA driver; a container needs --gpus all",
}
_KERNEL_VERSION_FILE = "/sys/module/nvidia/version"
_FIELD_POWER_INSTANT = 186  # NVML_FI_DEV_POWER_INSTANT
_VALUE_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The member of nvmlValue_t that each nvmlValueType_t names."""

_PLAIN_CALLS: Final[dict[str, tuple[str, tuple[int, ...], float]]] = {
    "persistence_mode": ("nvmlDeviceGetPersistenceMode", (), 1.0),
    "power_limit_w": ("nvmlDeviceGetEnforcedPowerLimit", (), 1000.0),
    "power_average_w": ("nvmlDeviceGetPowerUsage", (), 1000.0),
    "sm_clock_mhz": ("nvmlDeviceGetClockInfo", (1,), 1.0),  # NVML_CLOCK_SM
    "memory_clock_mhz": ("nvmlDeviceGetClockInfo", (2,), 1.0),  # NVML_CLOCK_MEM
    "temperature_c": ("nvmlDeviceGetTemperature", (0,), 1.0),  # NVML_TEMPERATURE_GPU
    "pcie_gen": ("nvmlDeviceGetCurrPcieLinkGeneration", (), 1.0),
    "pcie_width": ("nvmlDeviceGetCurrPcieLinkWidth", (), 1.0),
    "pcie_gen_max": ("nvmlDeviceGetMaxPcieLinkGeneration", (), 1.0),
    "pcie_width_max": ("nvmlDeviceGetMaxPcieLinkWidth", (), 1.0),
    "ecc_errors": ("nvmlDeviceGetTotalEccErrors", (1, 0), 1.0),  # uncorrected, volatile
}
"""Field → (function, its further arguments, what divides its answer)."""


class PynvmlReader:
    """NVML itself, by NVIDIA's own binding (`pynvml` of the package nvidia-ml-py)."""

    def __init__(self, kernel_version_file: str = _KERNEL_VERSION_FILE) -> None:
        """Do nothing yet: the binding is imported by `start`."""
        self._kernel_version_file = kernel_version_file
        self._nvml: Any = None
        self._reasons_call = "nvmlDeviceGetCurrentClocksEventReasons"

    def start(self) -> None:
        """Import the binding and initialise the library.

        Raises:
            NvmlUnavailableError: why it can't be used and what to do about it.
        """
        try:
            import pynvml  # noqa: PLC0415  # 30 ms that only this thread should pay
        except ImportError:
            missing = "the Python package nvidia-ml-py is missing: pip install nvidia-ml-py"
            raise NvmlUnavailableError(missing) from None
        self._nvml = pynvml
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NvmlUnavailableError(self._why_not(error)) from None
        except (AttributeError, OSError) as error:
            unusable = f"its library can't be used ({error})"
            raise NvmlUnavailableError(unusable) from None
        if not hasattr(pynvml, self._reasons_call):
            self._reasons_call = "nvmlDeviceGetCurrentClocksThrottleReasons"

    def _why_not(self, error: Any) -> str:  # noqa: ANN401  # pynvml has no types
        if error.value == _LIBRARY_RM_MISMATCH:
            return (
                f"its library is version {self._library_version()} and the loaded kernel module "
                f"{self._kernel_version()}: reboot or reload the driver"
            )
        return _START_HINTS.get(error.value, f"{error}: see what nvidia-smi says")

    def _library_version(self) -> str:
        try:
            text = str(self._nvml.nvmlSystemGetNVMLVersion())  # 13.580.159.04: CUDA's, the driver's
        except (self._nvml.NVMLError, AttributeError, UnicodeDecodeError):
            return "unknown"
        return text.split(".", 1)[-1]

    def _kernel_version(self) -> str:
        try:
            with open(self._kernel_version_file, encoding="ascii", errors="replace") as file:  # noqa: PTH123
                return file.read(64).strip() or "unknown"
        except OSError:
            return "unknown"

    def _call(self, name: str, *arguments: object) -> Any:  # noqa: ANN401  # pynvml has no types
        nvml = self._nvml
        try:
            return getattr(nvml, name)(*arguments)
        except nvml.NVMLError as error:
            kind = _ERROR_KINDS.get(error.value, "failed")
            raise GpuReadError(kind=kind, text=str(error)) from None
        except AttributeError:
            raise GpuReadError(kind="absent", text=f"{name} isn't in this pynvml") from None
        except UnicodeDecodeError:
            raise GpuReadError(kind="failed", text=f"{name} gave no text") from None

    def driver_version(self) -> str:
        """The driver's version: 580.159.04."""
        return str(self._call("nvmlSystemGetDriverVersion"))

    def gpu_count(self) -> int:
        """How many cards the driver lists."""
        return int(self._call("nvmlDeviceGetCount"))

    def find(self, gpu: int, uuid: str | None) -> object:
        """Give a card's handle; NVML's order is by PCI bus id."""
        if uuid is not None:
            handle = self._call("nvmlDeviceGetHandleByUUID", uuid)
        else:
            handle = self._call("nvmlDeviceGetHandleByIndex", gpu)
        if not handle:  # passed on to the library, a null handle ends the whole process
            raise GpuReadError(kind="lost", text="the driver gave no handle")
        return handle

    def text(self, handle: object, what: TextField) -> str:
        """Read a name of the card."""
        return str(
            self._call({"uuid": "nvmlDeviceGetUUID", "name": "nvmlDeviceGetName"}[what], handle)
        )

    def number(self, handle: object, what: NumberField) -> float:
        """Read one figure in the unit that its name ends in."""
        match what:
            case "utilization_pct":
                return float(self._call("nvmlDeviceGetUtilizationRates", handle).gpu)
            case "power_instant_w":
                return self._power_instant_w(handle)
            case "clock_reasons":
                return float(self._call(self._reasons_call, handle))
            case "gpm_supported":
                return float(self._call("nvmlGpmQueryDeviceSupport", handle).isSupportedDevice)
            case "mig_mode":
                return float(self._call("nvmlDeviceGetMigMode", handle)[0])
            case _:
                name, arguments, divisor = _PLAIN_CALLS[what]
                return float(self._call(name, handle, *arguments)) / divisor

    def _power_instant_w(self, handle: object) -> float:
        value = self._call("nvmlDeviceGetFieldValues", handle, [_FIELD_POWER_INSTANT])[0]
        if value.nvmlReturn:
            kind = _ERROR_KINDS.get(value.nvmlReturn, "failed")
            raise GpuReadError(kind=kind, text=str(self._nvml.NVMLError(value.nvmlReturn)))
        return _value(value.valueType, value.value) / 1000.0

    def memory_bytes(self, handle: object, *, v2: bool) -> tuple[int, int]:
        """Read (used, total) bytes; version 1 counts the driver's own 615 MiB as used."""
        if v2:
            version = getattr(self._nvml, "nvmlMemory_v2", None)
            if version is None:
                raise GpuReadError(kind="absent", text="nvmlMemory_v2 isn't in this pynvml")
            memory = self._call("nvmlDeviceGetMemoryInfo", handle, version)
        else:
            memory = self._call("nvmlDeviceGetMemoryInfo", handle)
        return int(memory.used), int(memory.total)

    def util_samples(self, handle: object, since_us: int) -> Sequence[tuple[int, float]]:
        """Read the samples after `since_us`; the binding asks the library twice."""
        try:
            kind, entries = self._call("nvmlDeviceGetSamples", handle, 1, since_us)
        except GpuReadError as error:
            if error.kind == "empty":
                return ()
            raise
        return [(int(entry.timeStamp), _value(kind, entry.sampleValue)) for entry in entries]

    def gpm_mark(self) -> object:
        """Allocate one GPM sample."""
        mark: object = self._call("nvmlGpmSampleAlloc")
        return mark

    def gpm_sample(self, handle: object, mark: object) -> None:
        """Fill `mark` with the card's counters."""
        self._call("nvmlGpmSampleGet", handle, mark)

    def gpm(self, earlier: object, later: object) -> GpmFigures:
        """Work out utilisation and PCIe rates between two marks."""
        nvml = self._nvml
        request = nvml.c_nvmlGpmMetricsGet_t()
        request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(_GPM_METRICS)
        request.sample1, request.sample2 = earlier, later
        for slot, metric in enumerate(_GPM_METRICS):
            request.metrics[slot].metricId = metric
        self._call("nvmlGpmMetricsGet", request)
        util = request.metrics[0]
        if util.nvmlReturn:
            kind = _ERROR_KINDS.get(util.nvmlReturn, "failed")
            raise GpuReadError(kind=kind, text=str(nvml.NVMLError(util.nvmlReturn)))
        others = [request.metrics[slot] for slot in range(1, len(_GPM_METRICS))]
        sm, to_device, to_host = (
            None if metric.nvmlReturn else float(metric.value) for metric in others
        )
        return GpmFigures(
            util_pct=float(util.value),
            sm_util_pct=sm,
            host_to_device_bytes_per_s=None if to_device is None else to_device * _MIB,
            device_to_host_bytes_per_s=None if to_host is None else to_host * _MIB,
        )

    def processes(self, handle: object) -> Sequence[GpuProcess]:
        """Read who has a compute context; the binding asks the library twice."""
        here = _is_first_namespace()
        return [
            GpuProcess(
                pid=int(one.pid),
                memory_bytes=None if one.usedGpuMemory is None else int(one.usedGpuMemory),
                name=_comm(int(one.pid)) if here else self._process_name(int(one.pid)),
                here=here,
            )
            for one in self._call("nvmlDeviceGetComputeRunningProcesses", handle)
        ]

    def _process_name(self, pid: int) -> str | None:
        """The driver's word for a process that /proc doesn't show us, without its folder."""
        try:
            path = str(self._call("nvmlSystemGetProcessName", pid))
        except GpuReadError:
            return None
        return path.split(" ", 1)[0].rsplit("/", 1)[-1] or None

    def watch_faults(self, handle: object) -> object:
        """Make a set of events for this card alone, so that each has its card."""
        watch: object = self._call("nvmlEventSetCreate")
        try:
            self._call("nvmlDeviceRegisterEvents", handle, _XID_EVENTS, watch)
        except GpuReadError:
            with contextlib.suppress(GpuReadError):
                self._call("nvmlEventSetFree", watch)
            raise
        return watch

    def next_fault(self, watch: object) -> int | None:
        """Take an event that is waiting; the library says timeout where there is none."""
        try:
            event = self._call("nvmlEventSetWait_v2", watch, 0)
        except GpuReadError as error:
            if error.kind == "empty":
                return None
            raise
        return int(event.eventData)


_MIB = 1024 * 1024
_XID_EVENTS = 8  # nvmlEventTypeXidCriticalError
_GPM_METRICS = (1, 2, 21, 20)  # graphics and SM utilisation; PCIe to the card and from it, MiB/s
_FIRST_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO in the kernel's proc_ns.h


def _is_first_namespace() -> bool:
    """Whether our pids are the host's, which the driver reports."""
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == _FIRST_NAMESPACE
    except OSError:
        return False


def _comm(pid: int) -> str | None:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:  # noqa: PTH123
            return file.read(64).decode(errors="replace").strip() or None
    except OSError:
        return None


def _value(kind: int, union: Any) -> float:  # noqa: ANN401  # pynvml has no types
    """Read the member of an nvmlValue_t that its type names."""
    if not 0 <= kind < len(_VALUE_MEMBERS):
        raise GpuReadError(kind="unsupported", text=f"value type {kind} is unknown")
    return float(getattr(union, _VALUE_MEMBERS[kind]))
