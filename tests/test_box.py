"""What is said of the machine and of the daemon's own status."""

from __future__ import annotations

from cuzktop.box import box_words
from cuzktop.dataclass import replace
from cuzktop.events import DaemonStatus, StatusResident
from cuzktop.frame import Host
from cuzktop.headless.text import snapshot_text
from cuzktop.tui.views.diagnosis import content
from tests.tui.frames import busy

STATUS = DaemonStatus(
    uptime_ms=180_000.0,
    memory_total_bytes=400 << 30,
    memory_used_bytes=100 << 30,
    synthesis_active=3,
    completed=12,
    synth_in_flight=7,
    srs=(
        StatusResident(circuit="porep\x1b[2J-32g", bytes=45 << 30, idle_ms=None, evictable=False),
    ),
)


def test_screen_and_text_say_what_this_machine_doesn_t_give() -> None:
    why = "memory stalls: this kernel has no PSI"
    frame = replace(busy(), host=Host(cpu_pct=12.0, missing=why))
    text = snapshot_text(frame, width=160, colour=False, ascii_only=False)
    screen = "\n".join("".join(part for part, _ in line) for line in content(frame, 100))
    for shown in (text, screen):
        assert f"not given here: {why}" in shown


def test_screen_and_text_say_the_same_of_the_box() -> None:
    host = Host(cpu_pct=96.4, psi_memory_pct=2.0, daemon_pid=4242, daemon_cpu_pct=17_230.0)
    frame = replace(busy(), host=host)
    text = snapshot_text(frame, width=160, colour=False, ascii_only=False)
    screen = "\n".join("".join(part for part, _ in line) for line in content(frame, 149))
    words = "CPU 96 % · tasks wait for memory 2 % of the time · daemon pid 4242 · 172.3 cores busy"
    assert words in text
    assert words in screen


def test_words_are_of_what_is_known() -> None:
    host = Host(memory_bandwidth_bytes_per_s=312.4e9, tlb_shootdowns_per_s=120_345.6)
    assert box_words(host) == ["memory bandwidth 312.4 GB/s", "TLB shootdowns 120346/s"]
    assert box_words(Host()) == []


def test_screen_and_text_say_the_same_of_the_daemons_status() -> None:
    frame = replace(busy(), status=STATUS)
    text = snapshot_text(frame, width=160, colour=False, ascii_only=False)
    screen = "\n".join("".join(part for part, _ in line) for line in content(frame, 100))
    for shown in (text, screen):
        assert "up 3m00 · syntheses 3" in shown
        assert "completed 12" in shown
        assert "\x1b" not in shown
        assert "-32g: 45.0G, in use" in shown
