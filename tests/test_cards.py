"""What is said of a card: every figure, or a dash with its reason."""

from __future__ import annotations

import pytest

from cuzktop.cards import card_facts, card_words, strangers, whose
from cuzktop.dataclass import replace
from cuzktop.events import GpuProcess, GpuSampled
from cuzktop.frame import Frame, Gpu, Host, Lock, Nvml

GIB = 1024**3
DAEMON = GpuProcess(4711, 40 * GIB, "cuzk-daemon")
NEIGHBOUR = GpuProcess(12, 2 * GIB, "python3")
READING = GpuSampled(
    at_ms=1.0,
    gpu=0,
    util_pct=46.4,
    util_source="gpm",
    util_window_ms=1000.0,
    power_w=350.0,
    power_limit_w=700.0,
    sm_clock_mhz=1980,
    memory_clock_mhz=3201,
    temperature_c=41,
    memory_used_bytes=41 * GIB,
    memory_total_bytes=141 * GIB,
    uuid="GPU-1234",
    sm_util_pct=38.0,
    host_to_device_bytes_per_s=9.06e9,
    device_to_host_bytes_per_s=0.2e9,
    pcie_gen=5,
    pcie_width=16,
    pcie_gen_max=5,
    pcie_width_max=16,
    ecc_errors=0,
    held_down="",
    xid=0,
    processes=(DAEMON, NEIGHBOUR),
)
LOCK = Lock(holder=None, waiting=(), finishing=())
BARE = GpuSampled(1.0, 0, None, "utilization.gpu", 200.0)


def nvml(reading: GpuSampled | None) -> Nvml:
    now = reading or BARE
    return Nvml(
        util_pct=now.util_pct,
        util_source=now.util_source,
        power_w=now.power_w,
        power_limit_w=now.power_limit_w,
        sm_clock_mhz=now.sm_clock_mhz,
        temperature_c=now.temperature_c,
        memory_used_bytes=now.memory_used_bytes,
        memory_total_bytes=now.memory_total_bytes,
        held_down=now.held_down,
        mean_util_pct=None,
        mean_power_w=None,
        samples=1,
        age_ms=100.0,
        reading=reading,
    )


def facts(reading: GpuSampled | None, host: Host | None = None) -> dict[str, str]:
    gpu = Gpu(gpu=0, workers=(), lock=LOCK, window=None, nvml=nvml(reading))
    return {fact.name: fact.text for fact in card_facts(gpu, Frame(host=host))}


def test_a_card_that_gives_everything() -> None:
    assert facts(READING, Host(daemon_pid=4711)) == {
        "use": "46.4 % by gpm, of its SMs 38.0 %",
        "power": "350W of 700W (50 %)",
        "clocks": "SM 1980 MHz, memory 3201 MHz",
        "held down": "no",
        "temperature": "41 °C",
        "memory": "41.0G of 141G",
        "PCIe": "host to device 9.1 GB/s, device to host 0.2 GB/s",
        "link": "generation 5 × 16",
        "ECC": "no uncorrected error since the driver was loaded",
        "XID": "none since the readings began",
        "processes": "cuzk-daemon 4711 (the daemon) 40.0G",
        "": "python3 12 (not the daemon) 2.0G",
        "UUID": "GPU-1234",
    }


def test_what_a_card_does_not_give_has_a_reason() -> None:
    told = facts(BARE)
    assert told["PCIe"] == "– (only GPM gives rates, and this card has none)"
    assert told["link"].startswith("– (only read while the card is busy")
    assert told["ECC"].startswith("– (")
    assert told["processes"] == "– (the driver gives no list)"
    assert told["held down"] == "– (the driver doesn't give it)"
    assert told["XID"] == "– (the driver doesn't tell: not asked)"
    refused = BARE._replace(xid_unread="Insufficient Permissions")
    assert facts(refused)["XID"] == "– (the driver doesn't tell: Insufficient Permissions)"
    assert facts(None) == {"readings": "– (of this moment there are none)"}


def test_a_link_below_what_it_could_be_is_odd() -> None:
    gpu = Gpu(gpu=0, workers=(), lock=LOCK, window=None, nvml=nvml(READING._replace(pcie_width=8)))
    (link,) = (fact for fact in card_facts(gpu, Frame()) if fact.name == "link")
    assert link.text == "generation 5 × 8 of 5 × 16"
    assert link.odd


def test_words_leave_out_what_is_unknown() -> None:
    gpu = Gpu(gpu=0, workers=(), lock=LOCK, window=None, nvml=nvml(BARE))
    assert card_words(gpu, Frame()) == []
    gpu = replace(gpu, nvml=nvml(READING._replace(processes=(), ecc_errors=2, xid=79)))
    assert card_words(gpu, Frame()) == [
        "host to device 9.1 GB/s, back 0.2 GB/s",
        "PCIe generation 5 × 16",
        "2 uncorrected memory errors",
        "XID 79",
    ]


@pytest.mark.parametrize(
    ("processes", "host", "owners"),
    [
        pytest.param((DAEMON, NEIGHBOUR), Host(daemon_pid=4711), ["daemon", "other"], id="by pid"),
        pytest.param((DAEMON, NEIGHBOUR), None, ["", ""], id="no daemon known"),
        pytest.param(
            (DAEMON._replace(here=False), NEIGHBOUR._replace(here=False)),
            Host(daemon_pid=7),
            ["daemon", "other"],
            id="in a container by name, for pid 7 is the host's 4711",
        ),
        pytest.param(
            (DAEMON._replace(here=False), DAEMON._replace(here=False, pid=4712)),
            Host(daemon_pid=7),
            ["", ""],
            id="two of that name",
        ),
        pytest.param((GpuProcess(7, None, None, here=False),), Host(daemon_pid=7), [""], id="none"),
    ],
)
def test_the_daemons_own_process_is_told_where_that_is_possible(
    processes: tuple[GpuProcess, ...], host: Host | None, owners: list[str]
) -> None:
    assert [whose(one, processes, host) for one in processes] == owners
    found = strangers(nvml(READING._replace(processes=processes)), host)
    assert [one.pid for one in found] == [
        one.pid for one, owner in zip(processes, owners, strict=True) if owner == "other"
    ]
