"""What is known of a card beside its use, in words: one home for the text and the screen.

An unknown figure is a dash with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cuzktop.dataclass import NamedTuple
from cuzktop.frame import Frame, Gpu, Host, Nvml, Shares
from cuzktop.units import UNKNOWN, percent, size, watts

if TYPE_CHECKING:
    from cuzktop.events import GpuProcess, GpuSampled

MIXED = "Several GPUs, mixed"
DAEMON_NAMES = ("cuzk-daemon", "cuzk")


class Fact(NamedTuple):
    """One thing about a card; `odd` if an operator should look at it."""

    name: str
    text: str
    odd: bool = False


def unknown(why: str) -> str:
    """A dash with its reason."""
    return f"{UNKNOWN} ({why})"


def title(gpu: int, shares: Shares | None) -> str:
    """What a GPU is called over its figures; they may be of several that can't be told apart."""
    return MIXED if shares is not None and shares.mixed else f"GPU {gpu}"


def whose(process: GpuProcess, processes: Sequence[GpuProcess], host: Host | None) -> str:
    """`daemon`, `other`, or an empty text where it can't be told.

    In another pid namespace the driver's number says nothing here; there the daemon is told by its
    name, if no other process on the card has one like it.
    """
    daemon = None if host is None else host.daemon_pid
    if process.here:
        return "" if daemon is None else "daemon" if process.pid == daemon else "other"
    named = [one for one in processes if one.name in DAEMON_NAMES]
    if len(named) != 1:
        return ""
    return "daemon" if process is named[0] else "other"


def process_text(process: GpuProcess, owner: str = "") -> str:
    """`cuzk-daemon 4711 (the daemon) 40.0G`."""
    pid = f"{process.pid}" if process.here else f"host pid {process.pid}"
    who = {"daemon": " (the daemon)", "other": " (not the daemon)"}.get(owner, "")
    used = UNKNOWN if process.memory_bytes is None else size(process.memory_bytes)
    return f"{process.name or 'pid'} {pid}{who} {used}"


def strangers(nvml: Nvml | None, host: Host | None) -> list[GpuProcess]:
    """Processes on a card that aren't the daemon's, as far as that is known."""
    processes = () if nvml is None or nvml.reading is None else nvml.reading.processes or ()
    return [one for one in processes if whose(one, processes, host) == "other"]


def link_text(reading: GpuSampled) -> str:
    """`generation 5 × 16`, and what it could be where that is more."""
    if reading.pcie_gen is None or reading.pcie_width is None:
        return UNKNOWN
    text = f"generation {reading.pcie_gen} × {reading.pcie_width}"
    most = (reading.pcie_gen_max, reading.pcie_width_max)
    if _is_narrow(reading):
        text += f" of {most[0] or '?'} × {most[1] or '?'}"
    return text


def _is_narrow(reading: GpuSampled) -> bool:
    return any(
        now is not None and most is not None and now < most
        for now, most in (
            (reading.pcie_gen, reading.pcie_gen_max),
            (reading.pcie_width, reading.pcie_width_max),
        )
    )


def rate(bytes_per_s: float | None) -> str:
    """`9.1 GB/s`: decimal, as links are measured."""
    return UNKNOWN if bytes_per_s is None else f"{bytes_per_s / 1e9:.1f} GB/s"


# ------------------------------------------------------------------------------- all of a card


def card_facts(gpu: Gpu, frame: Frame) -> list[Fact]:
    """All that the driver tells of a card now, each figure that it doesn't with the reason."""
    nvml = gpu.nvml
    if nvml is None:
        return [Fact("readings", unknown(gpu.nvml_note or "NVML was not asked"))]
    reading = nvml.reading
    if reading is None:
        return [Fact("readings", unknown("of this moment there are none"))]
    facts = [
        *_work(nvml, reading),
        *_pcie(reading),
        _memory_errors(reading),
        _critical_events(reading),
        *_processes(reading, frame.host),
        Fact("UUID", reading.uuid or unknown("not given")),
    ]
    if nvml.note:
        facts.append(Fact("note", nvml.note, odd=True))
    return facts


def _work(nvml: Nvml, reading: GpuSampled) -> list[Fact]:
    use = UNKNOWN if reading.util_pct is None else f"{percent(reading.util_pct)} %"
    sms = "" if reading.sm_util_pct is None else f", of its SMs {percent(reading.sm_util_pct)} %"
    power = watts(reading.power_w)
    if reading.power_w is not None and reading.power_limit_w:
        share = 100.0 * reading.power_w / reading.power_limit_w
        power += f" of {watts(reading.power_limit_w)} ({percent(share, digits=0)} %)"
    clocks = [
        f"{name} {mhz} MHz"
        for name, mhz in (("SM", reading.sm_clock_mhz), ("memory", reading.memory_clock_mhz))
        if mhz is not None
    ]
    held = reading.held_down
    celsius = reading.temperature_c
    refused = "the driver doesn't give it"
    return [
        Fact("use", f"{use} by {nvml.util_source or 'nothing'}{sms}"),
        Fact("power", power if reading.power_w is not None else unknown(refused)),
        Fact("clocks", ", ".join(clocks) or unknown(refused)),
        Fact("held down", unknown(refused) if held is None else held or "no", odd=bool(held)),
        Fact("temperature", unknown(refused) if celsius is None else f"{celsius} °C"),
        Fact("memory", f"{size(reading.memory_used_bytes)} of {size(reading.memory_total_bytes)}"),
    ]


def _pcie(reading: GpuSampled) -> list[Fact]:
    to_device, to_host = (
        reading.host_to_device_bytes_per_s,
        reading.device_to_host_bytes_per_s,
    )
    why = "only GPM gives rates, and this card has none"
    if reading.util_source == "gpm":
        why = "GPM has no rates yet" if reading.util_pct is None else "this card's GPM has none"
    known = to_device is not None or to_host is not None
    rates = f"host to device {rate(to_device)}, device to host {rate(to_host)}"
    idle = "only read while the card is busy: an idle link is turned down"
    link = link_text(reading)
    return [
        Fact("PCIe", rates if known else unknown(why)),
        Fact("link", unknown(idle) if link == UNKNOWN else link, odd=_is_narrow(reading)),
    ]


def _memory_errors(reading: GpuSampled) -> Fact:
    if reading.ecc_errors is None:
        return Fact("ECC", unknown("this card doesn't count memory errors"))
    if not reading.ecc_errors:
        return Fact("ECC", "no uncorrected error since the driver was loaded")
    return Fact("ECC", f"{reading.ecc_errors} uncorrected errors", odd=True)


def _critical_events(reading: GpuSampled) -> Fact:
    if reading.xid is None:
        return Fact("XID", unknown(f"the driver doesn't tell: {reading.xid_unread or 'not asked'}"))
    if not reading.xid:
        return Fact("XID", "none since the readings began")
    return Fact("XID", str(reading.xid), odd=True)


def _processes(reading: GpuSampled, host: Host | None) -> list[Fact]:
    processes = reading.processes
    if processes is None:
        return [Fact("processes", unknown("the driver gives no list"))]
    if not processes:
        return [Fact("processes", "none")]
    owners = [whose(one, processes, host) for one in processes]
    return [
        Fact("" if at else "processes", process_text(one, owner), odd=owner == "other")
        for at, (one, owner) in enumerate(zip(processes, owners, strict=True))
    ]


# ------------------------------------------------------------------------------- in a line


def card_words(gpu: Gpu, frame: Frame) -> list[str]:
    """What is known of PCIe, errors and processes, in a few words each; unknown is left out."""
    reading = None if gpu.nvml is None else gpu.nvml.reading
    if reading is None:
        return []
    words = []
    rates = (reading.host_to_device_bytes_per_s, reading.device_to_host_bytes_per_s)
    if rates != (None, None):
        words.append(f"host to device {rate(rates[0])}, back {rate(rates[1])}")
    if (link := link_text(reading)) != UNKNOWN:
        words.append(f"PCIe {link}")
    if reading.ecc_errors:
        words.append(f"{reading.ecc_errors} uncorrected memory errors")
    if reading.xid:
        words.append(f"XID {reading.xid}")
    processes = reading.processes or ()
    words += [process_text(one, whose(one, processes, frame.host)) for one in processes]
    return words
