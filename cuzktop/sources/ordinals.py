"""Which of NVML's cards is the daemon's GPU 0, 1, …: NVML counts by bus id, CUDA as it is told.

CUDA counts the fastest card first unless `CUDA_DEVICE_ORDER=PCI_BUS_ID` is set, which moves nothing
where all cards are of one model, and `CUDA_VISIBLE_DEVICES` picks some of them, in its own order
(CUDA C++ programming guide, environment variables).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cuzktop.dataclass import NamedTuple

MAX_ENVIRON_BYTES = 2 * 1024 * 1024


class Card(NamedTuple):
    """What tells a card from others; None is not known."""

    uuid: str | None = None
    name: str | None = None


class CudaChoice(NamedTuple):
    """What the daemon's environment says of its GPUs; `known` is False where we may not read it."""

    visible: str | None = None
    order: str | None = None
    known: bool = True


class Numbering(NamedTuple):
    """The daemon's number of each card, in NVML's order; `doubt` says why it may be wrong.

    Cards that the daemon doesn't see come after those that it does.
    """

    numbers: tuple[int, ...]
    doubt: str = ""


def read_choice(pid: int | None, proc: Path = Path("/proc")) -> CudaChoice | None:
    """What the process `pid` was started with; None without one."""
    if pid is None:
        return None
    try:
        with (proc / str(pid) / "environ").open("rb") as file:
            text = file.read(MAX_ENVIRON_BYTES)
    except FileNotFoundError:
        return None
    except OSError:
        return CudaChoice(known=False)
    pairs = dict(
        item.split("=", 1) for item in text.decode(errors="replace").split("\0") if "=" in item
    )
    return CudaChoice(pairs.get("CUDA_VISIBLE_DEVICES"), pairs.get("CUDA_DEVICE_ORDER"))


def number_cards(cards: Sequence[Card], choice: CudaChoice | None) -> Numbering:
    """Number the cards as the daemon does, as far as `choice` (None: no daemon is known) tells."""
    visible, doubt = list(range(len(cards))), ""
    if choice is not None and choice.visible is not None:
        visible, doubt = _visible(cards, choice.visible)
    elif len(cards) > 1 and choice is not None and not choice.known:
        doubt = (
            "whether this is the daemon's GPU of that number is not sure: its environment, where"
            " CUDA_VISIBLE_DEVICES may be set, is readable by its user and root only"
        )
    if len(cards) > 1 and not doubt and _order_matters(cards, choice):
        doubt = (
            "whether this is the daemon's GPU of that number is not sure: the cards differ, and"
            " CUDA counts the fastest first unless CUDA_DEVICE_ORDER=PCI_BUS_ID is set for it"
        )
    unseen = [index for index in range(len(cards)) if index not in visible]
    numbers = {index: number for number, index in enumerate([*visible, *unseen])}
    return Numbering(tuple(numbers[index] for index in range(len(cards))), doubt)


def _order_matters(cards: Sequence[Card], choice: CudaChoice | None) -> bool:
    """Whether CUDA may count otherwise than by bus id."""
    if choice is not None:
        if choice.order == "PCI_BUS_ID":
            return False
        if choice.visible is not None and not any(
            token.strip().isdigit() for token in choice.visible.split(",")
        ):
            return False  # by UUID
    return len({card.name for card in cards if card.name is not None}) > 1


def _visible(cards: Sequence[Card], text: str) -> tuple[list[int], str]:
    """The cards that CUDA_VISIBLE_DEVICES names, in its order; it ends at the first wrong one."""
    found: list[int] = []
    for token in (part.strip() for part in text.split(",")):
        if token.startswith("MIG"):
            return found, "the daemon's GPUs are parts of cards (MIG), which are not measured apart"
        fits = _named(cards, token)
        if len(fits) != 1 or fits[0] in found:
            break
        found += fits
    if not found:
        shown = text.strip()[:80] or "empty"
        return found, f"the daemon's CUDA_VISIBLE_DEVICES ({shown}) names none of these cards"
    return found, ""


def _named(cards: Sequence[Card], token: str) -> list[int]:
    if token.isascii() and token.isdigit():
        return [index for index in range(len(cards)) if index == int(token)]
    if not token.startswith("GPU-"):
        return []
    return [index for index, card in enumerate(cards) if (card.uuid or "").startswith(token)]
