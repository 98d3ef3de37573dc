"""All cards read once: `sample` is a step, and `read_once` takes two of them for one picture.

A step's time and reader are arguments.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator

from cuzktop.dataclass import dataclass, field
from cuzktop.events import GpuSampled, GpuSamplerNote
from cuzktop.sources.gpu_card import BACKOFF_MS, MAX_BACKOFF_MS, Card, open_card, read_card, waits
from cuzktop.sources.gpu_reader import (
    UTIL_SOURCES,
    GpuReader,
    GpuReadError,
    NvmlUnavailableError,
    UtilSource,
)
from cuzktop.sources.ordinals import Card as Identity
from cuzktop.sources.ordinals import CudaChoice, number_cards

DEFAULT_PERIOD_S = 1.0
RETRY_MS = 30_000.0  # no library, no driver, no card


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
            yield from forget_cards(state, clock())
            yield from unavailable(state, clock(), f"NVML stopped answering: {error}")
            return


def find_cards(
    reader: GpuReader, clock: Callable[[], float], state: SamplerState
) -> Iterator[GpuSampled | GpuSamplerNote]:
    """Do the step's first part: look for cards while none are known, at most every `RETRY_MS`."""
    now_ms = clock()
    if not state.cards and not waits(state.retry_at_ms, now_ms, RETRY_MS):
        yield from _start(reader, now_ms, state)


def _start(
    reader: GpuReader, now_ms: float, state: SamplerState
) -> Iterator[GpuSampled | GpuSamplerNote]:
    try:
        reader.start()
        count = reader.gpu_count()
    except (NvmlUnavailableError, GpuReadError) as error:
        yield from unavailable(state, now_ms, f"NVML not available: {error}")
        return
    if count == 0:
        hint = "does nvidia-smi list one? A container needs --gpus all"
        yield from unavailable(state, now_ms, f"NVML sees no GPU: {hint}")
        return
    cards = [
        Card(index=index, gpu=index, sources=state.sources)
        for index in range(count)
        if state.only is None or index in state.only
    ]
    for card in cards:
        try:
            open_card(reader, now_ms, card)
        except GpuReadError as error:
            if error.kind == "gone":
                yield from unavailable(state, now_ms, f"NVML not available: {error}")
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


def unavailable(state: SamplerState, now_ms: float, why: str) -> Iterator[GpuSamplerNote]:
    """Say why there is nothing to read, unless it was said last, and try again after `RETRY_MS`."""
    state.retry_at_ms = now_ms + RETRY_MS
    text = f"{why} (trying again every {RETRY_MS / 1000:.0f} s)"
    if text != state.noted:
        state.noted = text
        yield GpuSamplerNote(at_ms=now_ms, gpu=None, text=text)


def forget_cards(state: SamplerState, now_ms: float) -> Iterator[GpuSamplerNote]:
    """Take back what was said of single cards: from here on it is said of all of them."""
    for card in state.cards:
        if card.noted:
            yield GpuSamplerNote(at_ms=now_ms, gpu=card.gpu, text="")
    state.cards = []


def _sample_card(
    reader: GpuReader, clock: Callable[[], float], state: SamplerState, card: Card
) -> Iterator[GpuSampled | GpuSamplerNote]:
    now_ms = clock()
    if card.handle is None and card.noted and waits(card.retry_at_ms, now_ms, MAX_BACKOFF_MS):
        return
    try:
        if card.handle is None and card.noted:
            open_card(reader, now_ms, card)
        if card.handle is not None:
            yield read_card(reader, clock, card, lambda: _number_cards(state))
            card.backoff_ms = BACKOFF_MS
    except GpuReadError as error:
        if error.kind == "gone":
            raise
        card.lose(clock(), str(error))
    if (text := card.note()) != card.noted:
        card.noted = text
        yield GpuSamplerNote(at_ms=clock(), gpu=card.gpu, text=text)


# ------------------------------------------------------------------------------- for a picture


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
