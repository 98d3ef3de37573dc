"""What is known of the machine and of the daemon's own status, in words for text and screen.

What isn't known is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuzktop.cards import rate
from cuzktop.frame import Host
from cuzktop.units import age, size

if TYPE_CHECKING:
    from cuzktop.events import DaemonStatus


def box_words(host: Host) -> list[str]:
    """The machine's CPUs and memory, the daemon's process, and what they do to each other."""
    words = []
    if host.cpu_pct is not None:
        words.append(f"CPU {host.cpu_pct:.0f} %")
    if host.load_1m is not None:
        words.append(f"load {host.load_1m:.1f}")
    if host.memory_used_bytes is not None:
        words.append(f"memory {size(host.memory_used_bytes)} of {size(host.memory_total_bytes)}")
    if host.psi_cpu_pct is not None:
        words.append(f"tasks wait for a CPU {host.psi_cpu_pct:.0f} % of the time")
    if host.psi_memory_pct is not None:
        words.append(f"tasks wait for memory {host.psi_memory_pct:.0f} % of the time")
    if host.daemon_pid is not None:
        words.append(f"daemon pid {host.daemon_pid}")
    if host.daemon_cpu_pct is not None:
        words.append(f"{host.daemon_cpu_pct / 100.0:.1f} cores busy")
    if host.daemon_rss_bytes is not None:
        words.append(f"{size(host.daemon_rss_bytes)} resident")
    if host.daemon_threads is not None:
        words.append(f"{host.daemon_threads} threads")
    if host.memory_bandwidth_bytes_per_s is not None:
        words.append(f"memory bandwidth {rate(host.memory_bandwidth_bytes_per_s)}")
    if host.tlb_shootdowns_per_s is not None:
        words.append(f"TLB shootdowns {host.tlb_shootdowns_per_s:.0f}/s")
    return words


def status_words(said: DaemonStatus) -> list[str]:
    """How long the daemon is up by its own status, and what it counts."""
    counts = (
        ("requests waiting", said.queue_depth),
        ("syntheses", said.synthesis_active),
        ("in the provers", said.provers_in_flight),
        ("completed", said.completed),
        ("failed", said.failed),
    )
    words = [] if said.uptime_ms is None else [f"up {age(said.uptime_ms)}"]
    return words + [f"{name} {count}" for name, count in counts if count is not None]


def resident_words(said: DaemonStatus) -> list[str]:
    """What it keeps in memory, each as `PCE porep-32g: 25.7G, idle 3m10, may go`."""
    words = []
    for name, residents in (("SRS", said.srs), ("PCE", said.pce)):
        for one in residents or ():
            kept = "" if one.idle_ms is None else f", idle {age(one.idle_ms)}"
            if one.evictable is not None:
                kept = f"{kept}, may go" if one.evictable else ", in use"
            words.append(f"{name} {one.circuit}: {size(one.bytes)}{kept}")
    return words
