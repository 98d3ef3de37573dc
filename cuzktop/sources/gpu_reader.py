"""What a card's driver is asked, and what its answers mean; `nvml` asks it, or a stand-in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol

from cuzktop.dataclass import NamedTuple
from cuzktop.events import GpuProcess

UtilSource = Literal["gpm", "samples", "utilization.gpu"]
UTIL_SOURCES: Final[tuple[UtilSource, ...]] = ("gpm", "samples", "utilization.gpu")
"""Best first: GPM equals the time in which kernels run; the samples are gapless; the plain figure
looks at half of the time only and misreads work with a rhythm near 200 ms."""

MAX_POWER_W = 20_000.0  # beyond this it isn't a power reading
MAX_BYTES_PER_S = 1e12  # nor this a PCIe rate: generation 7 with 16 lanes has 242 GB/s
MAX_GPU = 999  # no box has a thousand cards

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


# ------------------------------------------------------------------------------- codes in words

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
