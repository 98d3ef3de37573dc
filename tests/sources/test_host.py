from __future__ import annotations

import collections
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from cuzktop.events import Event, HostSampled, SourceNote
from cuzktop.sources.host import (
    Counter,
    CpuTime,
    HostReadError,
    HostSampler,
    Memory,
    Process,
    PsutilReader,
    Resource,
    SamplerState,
    sample,
    sample_own,
)

GIB = 1024**3
T0_MS = 1_796_029_645_000.0


class FakeHost:
    """A machine of 16 cores on which the test decides what ran; also its clock."""

    def __init__(self) -> None:
        self.now_ms = T0_MS
        self.cpu = CpuTime(busy_s=1000.0, total_s=16_000.0)
        self.processes: dict[int | None, Process] = {
            None: Process(started_s=1.0, cpu_s=2.0, rss_bytes=40 * 2**20, threads=5)
        }
        self.names: dict[int, str] = {}
        self.pressure: dict[Resource, float] = {"cpu": 12.5, "memory": 3.0}
        self.counters: dict[Counter, int] = {"TLB shootdowns": 10**9, "memory bandwidth": 10**12}
        self.broken: set[str] = set()
        self.calls: collections.Counter[str] = collections.Counter()

    def clock(self) -> float:
        return self.now_ms

    def run(self, seconds: float, *, cores: float, own: float = 0.0, daemon: float = 0.0) -> None:
        """Let time pass with so many cores busy, of them so many by us and by each daemon."""
        self.now_ms += 1000.0 * seconds
        self.cpu = CpuTime(self.cpu.busy_s + cores * seconds, self.cpu.total_s + 16.0 * seconds)
        for pid, process in self.processes.items():
            share = own if pid is None else daemon
            self.processes[pid] = process._replace(cpu_s=process.cpu_s + share * seconds)

    def start_daemon(self, pid: int, name: str = "cuzk-daemon", rss_gib: int = 100) -> None:
        self.names[pid] = name
        self.processes[pid] = Process(
            started_s=self.now_ms, cpu_s=0.0, rss_bytes=rss_gib * GIB, threads=64
        )

    def end(self, pid: int) -> None:
        del self.names[pid], self.processes[pid]

    def _ask(self, what: str) -> None:
        self.calls[what] += 1
        if what in self.broken:
            raise HostReadError(what)

    def cpu_time(self) -> CpuTime:
        self._ask("cpu_time")
        return self.cpu

    def memory(self) -> Memory:
        self._ask("memory")
        return Memory(used_bytes=200 * GIB, total_bytes=512 * GIB)

    def load_1m(self) -> float:
        self._ask("load_1m")
        return 9.5

    def pressure_pct(self, resource: Resource) -> float:
        self._ask(f"pressure_{resource}")
        return self.pressure[resource]

    def count(self, counter: Counter) -> int:
        self._ask(counter)
        return self.counters[counter]

    def pids(self, names: Sequence[str]) -> list[int]:
        self._ask("pids")
        return [pid for pid, name in self.names.items() if name in names]

    def process(self, pid: int | None) -> Process:
        self._ask("process")
        if pid not in self.processes:
            raise HostReadError(str(pid))
        return self.processes[pid]


def step(host: FakeHost, state: SamplerState) -> HostSampled:
    return sample(host, host.clock, state)


def test_rates_are_unknown_at_first_and_then_what_ran_in_between() -> None:
    host, state = FakeHost(), SamplerState()
    host.start_daemon(77)
    first = step(host, state)
    assert (first.cpu_pct, first.daemon_cpu_pct, first.own_cpu_pct) == (None, None, None)
    assert first.memory_used_bytes == 200 * GIB
    host.run(2.0, cores=12.0, daemon=11.5, own=0.004)
    second = step(host, state)
    assert second == HostSampled(
        at_ms=T0_MS + 2000.0,
        cpu_pct=75.0,
        memory_used_bytes=200 * GIB,
        memory_total_bytes=512 * GIB,
        load_1m=9.5,
        psi_cpu_pct=12.5,
        psi_memory_pct=3.0,
        daemon_pid=77,
        daemon_cpu_pct=1150.0,
        daemon_rss_bytes=100 * GIB,
        daemon_threads=64,
        own_cpu_pct=pytest.approx(0.4),  # type: ignore[arg-type]
        own_rss_bytes=40 * 2**20,
    )


@pytest.mark.parametrize(
    ("broken", "unknown"),
    [
        ("cpu_time", {"cpu_pct"}),
        ("memory", {"memory_used_bytes", "memory_total_bytes"}),
        ("load_1m", {"load_1m"}),
        ("pressure_cpu", {"psi_cpu_pct"}),
        ("pressure_memory", {"psi_memory_pct"}),
        ("TLB shootdowns", {"tlb_shootdowns_per_s"}),
        ("memory bandwidth", {"memory_bandwidth_bytes_per_s"}),
    ],
)
def test_a_figure_that_fails_takes_no_other_with_it(broken: str, unknown: set[str]) -> None:
    host, state = FakeHost(), SamplerState()
    host.start_daemon(77)
    host.broken = {broken}
    step(host, state)
    host.run(1.0, cores=1.0)
    host.run(9.0, cores=1.0)
    fields = step(host, state)._asdict()
    fields.pop("missing")
    assert {name for name, value in fields.items() if value is None} == unknown


def test_a_kernel_without_pressure_is_asked_three_times() -> None:
    host, state = FakeHost(), SamplerState()
    host.broken = {"pressure_cpu", "pressure_memory"}
    for _ in range(10):
        step(host, state)
    assert host.calls["pressure_cpu"] == host.calls["pressure_memory"] == 3


# ------------------------------------------------------------------------------- the daemon


def test_the_daemon_is_looked_for_every_ten_seconds_until_it_is_there() -> None:
    host, state = FakeHost(), SamplerState()
    for _ in range(25):
        assert step(host, state).daemon_pid is None
        host.run(1.0, cores=0.0)
    assert host.calls["pids"] == 3
    host.start_daemon(77)
    for _ in range(10):
        reading = step(host, state)
        host.run(1.0, cores=0.0)
    assert reading.daemon_pid == 77
    assert host.calls["pids"] == 4


def test_no_search_runs_while_the_daemon_is_known() -> None:
    host, state = FakeHost(), SamplerState(daemon_pid=77)
    host.start_daemon(77, name="prover-under-another-name")
    for _ in range(60):
        assert step(host, state).daemon_pid == 77
        host.run(1.0, cores=0.0)
    assert host.calls["pids"] == 0


def test_of_several_the_daemon_is_the_one_that_holds_the_memory() -> None:
    host, state = FakeHost(), SamplerState()
    host.start_daemon(70, name="cuzk", rss_gib=1)
    host.start_daemon(71, name="cuzk", rss_gib=180)
    host.start_daemon(72, name="cuzk-daemon", rss_gib=2)
    assert step(host, state).daemon_pid == 71


def test_a_daemon_that_restarts_is_found_again_and_its_first_rate_is_unknown() -> None:
    host, state = FakeHost(), SamplerState()
    host.start_daemon(77)
    for _ in range(15):
        step(host, state)
        host.run(1.0, cores=8.0, daemon=8.0)
    host.end(77)
    gone = step(host, state)
    assert (gone.daemon_pid, gone.daemon_rss_bytes, gone.daemon_cpu_pct) == (None, None, None)
    host.start_daemon(99)
    host.run(10.0, cores=8.0, daemon=8.0)
    back = step(host, state)
    assert (back.daemon_pid, back.daemon_cpu_pct) == (99, None)
    host.run(1.0, cores=8.0, daemon=8.0)
    assert step(host, state).daemon_cpu_pct == pytest.approx(800.0)


def test_another_process_under_the_same_id_has_no_rate_yet() -> None:
    host, state = FakeHost(), SamplerState()
    host.start_daemon(77)
    host.run(50.0, cores=16.0, daemon=16.0)
    step(host, state)
    host.start_daemon(77)
    host.run(1.0, cores=1.0, daemon=1.0)
    assert step(host, state).daemon_cpu_pct is None


def test_a_clock_set_back_gives_an_unknown_rate_and_then_goes_on() -> None:
    host, state = FakeHost(), SamplerState()
    step(host, state)
    host.run(1.0, cores=4.0, own=0.1)
    host.now_ms -= 3_600_000.0
    reading = step(host, state)
    assert reading.own_cpu_pct is None
    assert reading.cpu_pct == 25.0
    host.start_daemon(77)
    host.run(11.0, cores=4.0, own=0.1)
    reading = step(host, state)
    assert reading.own_cpu_pct == pytest.approx(10.0)
    assert reading.daemon_pid == 77  # the search isn't an hour away either


# ------------------------------------------------------------------------------- thread


def test_the_thread_puts_readings_on_the_queue_until_told_to_stop() -> None:
    host = FakeHost()
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    stop = threading.Event()
    sampler = HostSampler(events, host.clock, stop, reader=host)
    assert sampler.daemon
    sampler.start()
    assert isinstance(events.get(timeout=10), HostSampled)
    stop.set()
    sampler.join(timeout=10)
    assert not sampler.is_alive()


def test_without_psutil_there_is_one_note_with_the_command_that_mends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    stop = threading.Event()
    sampler = HostSampler(events, FakeHost().clock, stop)
    sampler.start()
    note = events.get(timeout=10)
    stop.set()
    sampler.join(timeout=10)
    assert isinstance(note, SourceNote)
    assert "pip install psutil" in note.text
    assert events.empty()


# ------------------------------------------------------------------------------- psutil itself


def test_this_machine_has_every_figure() -> None:
    reader = PsutilReader()
    cpu = reader.cpu_time()
    assert 0.0 < cpu.busy_s <= cpu.total_s
    memory = reader.memory()
    assert 0 < memory.used_bytes < memory.total_bytes
    assert reader.load_1m() >= 0.0
    own = reader.process(None)
    assert own == reader.process(os.getpid())._replace(cpu_s=own.cpu_s, rss_bytes=own.rss_bytes)
    assert own.rss_bytes > 2**20


def test_a_process_is_what_psutil_says_it_is() -> None:
    code = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()  # it stands still now
        read, known = PsutilReader().process(child.pid), psutil.Process(child.pid)
        times = known.cpu_times()
        assert read.cpu_s == pytest.approx(times.user + times.system, abs=0.05)
        assert read.rss_bytes == pytest.approx(known.memory_info().rss, rel=0.05)
        assert read.threads == known.num_threads()
        begun_s = psutil.boot_time() + read.started_s
        assert begun_s == pytest.approx(known.create_time(), abs=1.5)


def test_a_process_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "12").mkdir()
    stat = tmp_path / "12" / "stat"
    fields = " ".join(str(number) for number in range(4, 53))
    stat.write_text(f"12 (cuzk) R (x) S {fields}\n")
    ticks, page_bytes = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    assert PsutilReader(tmp_path).process(12) == Process(
        started_s=22 / ticks, cpu_s=(14 + 15) / ticks, rss_bytes=24 * page_bytes, threads=20
    )
    for torn in ("", "12 (cuzk", "12 (cuzk) S 4 5 6\n"):
        stat.write_text(torn)
        with pytest.raises(HostReadError):
            PsutilReader(tmp_path).process(12)


def test_a_process_that_is_not_there_is_said_so() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(HostReadError):
        PsutilReader().process(process.pid)


def test_pressure_and_names_come_from_proc(tmp_path: Path) -> None:
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "cpu").write_text(
        "some avg10=37.42 avg60=20.01 avg300=5.66 total=3402588\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    )
    (tmp_path / "pressure" / "memory").write_text("")
    for pid, name in {
        "12": "cuzk-daemon",
        "13": "cuzk",
        "14": "cuzk-bench",
        "self": "cuzk",
    }.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "comm").write_text(f"{name}\n")
    (tmp_path / "15").mkdir()  # went away while we looked
    reader = PsutilReader(tmp_path)
    assert reader.pressure_pct("cpu") == 37.42
    with pytest.raises(HostReadError):
        reader.pressure_pct("memory")
    assert sorted(reader.pids(("cuzk", "cuzk-daemon"))) == [12, 13]
    with pytest.raises(HostReadError):
        PsutilReader(tmp_path / "none").pids(("cuzk",))


def test_cpu_time_and_memory_are_the_systems_own_or_psutils(tmp_path: Path) -> None:
    reader = PsutilReader(tmp_path)
    known, memory = psutil.cpu_times(), psutil.virtual_memory()
    assert reader.cpu_time().total_s == pytest.approx(sum(known), rel=0.01)  # nothing is there
    assert reader.memory().total_bytes == memory.total
    ticks = os.sysconf("SC_CLK_TCK")
    (tmp_path / "stat").write_text("cpu  10 20 30 400 50 6 7 8 9 1\ncpu0 1 2 3 4 5 6 7 8 9 1\n")
    assert reader.cpu_time() == CpuTime(busy_s=81 / ticks, total_s=531 / ticks)
    (tmp_path / "meminfo").write_text(
        "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    700 kB\n"
    )
    assert reader.memory() == Memory(used_bytes=300 * 1024, total_bytes=1000 * 1024)
    (tmp_path / "meminfo").write_text(
        "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    7000 kB\n"
    )
    assert reader.memory().total_bytes == memory.total


def test_this_machine_is_read_as_psutil_reads_it() -> None:
    read, known = PsutilReader().cpu_time(), psutil.cpu_times()
    guests_s = known.guest + known.guest_nice
    assert read.total_s == pytest.approx(sum(known) - guests_s, rel=0.001)
    assert read.busy_s == pytest.approx(sum(known) - guests_s - known.idle - known.iowait, rel=0.01)
    memory = psutil.virtual_memory()
    assert PsutilReader().memory().total_bytes == memory.total
    assert PsutilReader().memory().used_bytes == pytest.approx(
        memory.total - memory.available, abs=0.05 * memory.total
    )


def test_threads_of_the_kernel_are_not_searched_again_and_again(tmp_path: Path) -> None:
    def process(pid: int, name: str, parent: int) -> None:
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        (tmp_path / str(pid) / "comm").write_text(f"{name}\n")
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) S {parent} 0 0\n")

    process(7, "kworker/0:1", 2)
    process(8, "bash", 1)
    reader = PsutilReader(tmp_path)
    assert reader.pids(("cuzk",)) == []
    process(7, "cuzk", 1)  # its id was given to another process
    process(8, "cuzk", 1)  # exec
    process(9, "cuzk", 1)
    assert sorted(reader.pids(("cuzk",))) == [8, 9]
    for _ in range(4):
        found = reader.pids(("cuzk",))
    assert sorted(found) == [7, 8, 9]


def test_counters_become_rates_over_five_seconds_and_say_why_they_are_missing() -> None:
    host, state = FakeHost(), SamplerState()
    host.broken = {"memory bandwidth"}
    first = step(host, state)
    assert first.tlb_shootdowns_per_s is None
    assert first.missing == "memory bandwidth: memory bandwidth"
    found = []
    for _ in range(20):
        host.run(1.0, cores=1.0)
        host.counters["TLB shootdowns"] += 120_000
        found.append(step(host, state).tlb_shootdowns_per_s)
    assert found[:4] == [None] * 4
    assert found[5:] == [120_000.0] * 15
    assert host.calls["TLB shootdowns"] <= 6
    assert host.calls["memory bandwidth"] == 3
    host.counters["TLB shootdowns"] = 7  # a CPU was taken away
    host.run(5.0, cores=1.0)
    assert step(host, state).tlb_shootdowns_per_s is None


def test_shootdowns_of_all_cpus_are_added_up(tmp_path: Path) -> None:
    (tmp_path / "interrupts").write_text(
        "            CPU0       CPU1\n"
        "   8:          0          0  IR-IO-APIC    8-edge      rtc0\n"
        " NMI:          3          4   Non-maskable interrupts\n"
        " TLB:  123456789        211   TLB shootdowns\n"
    )
    assert PsutilReader(tmp_path).count("TLB shootdowns") == 123_457_000
    (tmp_path / "interrupts").write_text("           CPU0\nIPI0:    12   Rescheduling interrupts\n")
    with pytest.raises(HostReadError, match="doesn't count them"):
        PsutilReader(tmp_path).count("TLB shootdowns")


def test_memory_bandwidth_is_that_of_all_caches_and_groups(tmp_path: Path) -> None:
    resctrl = tmp_path / "resctrl"
    for place, text in {
        "mon_data/mon_L3_00": "1000\n",
        "mon_data/mon_L3_01": "200\n",
        "provers/mon_data/mon_L3_00": "30\n",
        "mon_groups/one/mon_data/mon_L3_00": "7\n",  # counted in the first already
    }.items():
        (resctrl / place).mkdir(parents=True)
        (resctrl / place / "mbm_total_bytes").write_text(text)
    reader = PsutilReader(tmp_path, resctrl)
    assert reader.count("memory bandwidth") == 1230
    (resctrl / "mon_data/mon_L3_01/mbm_total_bytes").write_text("Unavailable\n")
    with pytest.raises(HostReadError, match="no figure"):
        reader.count("memory bandwidth")


def test_without_resctrl_the_reason_is_the_cpu_or_the_mount(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("flags : fpu cqm_mbm_total cqm_mbm_local\n")
    with pytest.raises(HostReadError, match="mount -t resctrl"):
        PsutilReader(tmp_path, tmp_path / "none").count("memory bandwidth")
    (tmp_path / "cpuinfo").write_text("flags : fpu\n")
    with pytest.raises(HostReadError, match="doesn't count it"):
        PsutilReader(tmp_path, tmp_path / "none").count("memory bandwidth")


def test_the_module_itself_needs_no_psutil() -> None:
    code = "import sys, cuzktop.sources.host; print('psutil' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_beside_a_log_that_is_played_only_our_own_cost_is_read() -> None:
    """The log is of another box: this one's CPU and memory say nothing of it."""
    host, state = FakeHost(), SamplerState()
    host.start_daemon(4711)
    assert sample_own(host, host.clock, state).own_cpu_pct is None  # a rate needs two readings
    host.run(2.0, cores=8.0, own=0.004, daemon=7.0)
    read = sample_own(host, host.clock, state)
    assert read.own_cpu_pct == pytest.approx(0.4)
    assert (read.at_ms, read.own_rss_bytes) == (T0_MS + 2000.0, 40 * 2**20)
    others = {**read._asdict(), "at_ms": None, "own_cpu_pct": None, "own_rss_bytes": None}
    assert set(others.values()) == {None}
    assert set(host.calls) == {"process"}
