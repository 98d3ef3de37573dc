"""The machine and the daemon's process: CPU, memory and its bus, pressure; alone imports psutil.

`HostReader` is what we ask of the system and `PsutilReader` asks it; `sample` is one step, whose
time and reader are arguments; `HostSampler` is the thread that takes a step a second.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeVar

from cuzktop.dataclass import NamedTuple, dataclass, field
from cuzktop.events import HostSampled, SourceNote
from cuzktop.sources.files import reason_of
from cuzktop.sources.sampler import Sampler, in_a_line
from cuzktop.sources.sink import EventSink

_T = TypeVar("_T")

DEFAULT_PERIOD_S = 1.0
MIN_PERIOD_S = 0.2
SEARCH_PERIOD_MS = 10_000.0  # a search reads a file of every process
RETRY_S = 30.0
REFUSALS = 3  # pressure isn't in every kernel: asked this often, then no more
COUNTER_PERIOD_MS = 5000.0  # /proc/interrupts has a cell an interrupt and CPU: a ms on a large box
DAEMON_NAMES: Final = ("cuzk-daemon", "cuzk")

Resource = Literal["cpu", "memory"]
Counter = Literal["TLB shootdowns", "memory bandwidth"]


class HostReadError(Exception):
    """The system doesn't give a figure; the text says why."""


class CpuTime(NamedTuple):
    """Seconds since the start of the machine, summed over its CPUs."""

    busy_s: float
    total_s: float


class Memory(NamedTuple):
    """Bytes of the machine; `used` is what no new process could have (total − available)."""

    used_bytes: int
    total_bytes: int


class Process(NamedTuple):
    """One process. `started_s`, since the machine's, tells it from a later one with the same id."""

    started_s: float
    cpu_s: float
    rss_bytes: int
    threads: int


class HostReader(Protocol):
    """What the sampler asks of the system; every method may raise `HostReadError`."""

    def cpu_time(self) -> CpuTime:
        """Read the machine's CPU time; waiting for a disk isn't busy."""

    def memory(self) -> Memory:
        """Read the machine's memory."""

    def load_1m(self) -> float:
        """Read the load average of the last minute."""

    def pressure_pct(self, resource: Resource) -> float:
        """Read the share of the last 10 s in which some task waited for `resource`."""

    def count(self, counter: Counter) -> int:
        """Read how many TLB shootdowns, or bytes to and from memory, there were so far."""

    def pids(self, names: Sequence[str]) -> list[int]:
        """Find the processes that bear one of `names`."""

    def process(self, pid: int | None) -> Process:
        """Read one process, our own without `pid`."""


@dataclass(slots=True)
class SamplerState:
    """What one step leaves for the next. `daemon_pid` is the process to watch, if it is known."""

    daemon_pid: int | None = None
    search_at_ms: float | None = None
    cpu: CpuTime | None = None
    seen: dict[int | None, tuple[float, Process]] = field(default_factory=dict)  # pid → when, what
    refusals: dict[str, int] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)  # what isn't given → why
    counted: dict[Counter, tuple[float, int]] = field(default_factory=dict)  # when, how many
    rates: dict[Counter, float | None] = field(default_factory=dict)


# ------------------------------------------------------------------------------- one step


def sample(reader: HostReader, clock: Callable[[], float], state: SamplerState) -> HostSampled:
    """Read the machine once; `clock` gives wall-clock ms.

    A rate needs two readings: the first is None, never 0. A figure that the system doesn't give is
    None, and so is everything of a daemon that doesn't run.
    """
    cpu = _ask(reader.cpu_time)
    at_ms = clock()
    cpu_pct = _machine_pct(state.cpu, cpu)
    state.cpu = cpu
    memory = _ask(reader.memory)
    daemon, daemon_cpu_pct = _daemon(reader, clock, state)
    own, own_cpu_pct = _process(reader, clock, state, None)
    return HostSampled(
        at_ms=at_ms,
        cpu_pct=cpu_pct,
        memory_used_bytes=None if memory is None else memory.used_bytes,
        memory_total_bytes=None if memory is None else memory.total_bytes,
        load_1m=_ask(reader.load_1m),
        psi_cpu_pct=_optional(state, "CPU pressure", lambda: reader.pressure_pct("cpu")),
        psi_memory_pct=_optional(state, "memory pressure", lambda: reader.pressure_pct("memory")),
        daemon_pid=None if daemon is None else state.daemon_pid,
        daemon_cpu_pct=daemon_cpu_pct,
        daemon_rss_bytes=None if daemon is None else daemon.rss_bytes,
        daemon_threads=None if daemon is None else daemon.threads,
        own_cpu_pct=own_cpu_pct,
        own_rss_bytes=None if own is None else own.rss_bytes,
        tlb_shootdowns_per_s=_rate(reader, clock, state, "TLB shootdowns"),
        memory_bandwidth_bytes_per_s=_rate(reader, clock, state, "memory bandwidth"),
        missing="; ".join(f"{what}: {why}" for what, why in state.missing.items()) or None,
    )


def sample_own(reader: HostReader, clock: Callable[[], float], state: SamplerState) -> HostSampled:
    """Read what cuzktop itself costs, and nothing else: all else is None."""
    own, own_cpu_pct = _process(reader, clock, state, None)
    nothing = HostSampled(clock(), *[None] * (len(HostSampled._fields) - 1))
    return nothing._replace(
        own_cpu_pct=own_cpu_pct, own_rss_bytes=None if own is None else own.rss_bytes
    )


def _ask(read: Callable[[], _T]) -> _T | None:
    try:
        return read()
    except HostReadError:
        return None


def _machine_pct(before: CpuTime | None, now: CpuTime | None) -> float | None:
    if before is None or now is None or now.total_s <= before.total_s:
        return None
    share = (now.busy_s - before.busy_s) / (now.total_s - before.total_s)
    return min(100.0, max(0.0, 100.0 * share))


def _optional(state: SamplerState, what: str, read: Callable[[], _T]) -> _T | None:
    """Read what not every machine has: after some refusals it isn't asked for any more."""
    if state.refusals.get(what, 0) >= REFUSALS:
        return None
    try:
        value = read()
    except HostReadError as error:
        state.refusals[what] = state.refusals.get(what, 0) + 1
        state.missing[what] = str(error)
        return None
    state.missing.pop(what, None)
    return value


def _rate(
    reader: HostReader, clock: Callable[[], float], state: SamplerState, counter: Counter
) -> float | None:
    """How much a second a counter rose between its last two readings; None before the second."""
    before = state.counted.get(counter)
    now_ms = clock()
    if before is not None and before[0] <= now_ms < before[0] + COUNTER_PERIOD_MS:
        return state.rates.get(counter)
    value = _optional(state, counter, lambda: reader.count(counter))
    state.counted.pop(counter, None)
    state.rates[counter] = None
    if value is not None:
        state.counted[counter] = (now_ms, value)
        if before is not None and now_ms > before[0] and value >= before[1]:
            state.rates[counter] = 1000.0 * (value - before[1]) / (now_ms - before[0])
    return state.rates[counter]


def _daemon(
    reader: HostReader, clock: Callable[[], float], state: SamplerState
) -> tuple[Process | None, float | None]:
    """Read the daemon; look for it by name while there is none."""
    if state.daemon_pid is not None:
        daemon, cpu_pct = _process(reader, clock, state, state.daemon_pid)
        if daemon is not None:
            return daemon, cpu_pct
        state.daemon_pid = None
    now_ms = clock()
    due_ms = state.search_at_ms
    if due_ms is not None and now_ms < due_ms <= now_ms + SEARCH_PERIOD_MS:
        return None, None
    state.search_at_ms = now_ms + SEARCH_PERIOD_MS
    alive = {
        pid: process
        for pid in _ask(lambda: reader.pids(DAEMON_NAMES)) or ()
        if (process := _ask(partial(reader.process, pid))) is not None
    }
    if not alive:
        return None, None
    # The name is the command-line client's too: the daemon is the one that holds the parameters.
    state.daemon_pid = max(alive, key=lambda pid: alive[pid].rss_bytes)
    return _process(reader, clock, state, state.daemon_pid)


def _process(
    reader: HostReader, clock: Callable[[], float], state: SamplerState, pid: int | None
) -> tuple[Process | None, float | None]:
    """Read a process and its CPU time since the last reading, in per cent of one core."""
    now = _ask(lambda: reader.process(pid))
    now_ms = clock()
    before = state.seen.pop(pid, None)
    if now is None:
        return None, None
    state.seen[pid] = (now_ms, now)
    if before is None or before[1].started_s != now.started_s or now_ms <= before[0]:
        return now, None
    used_ms = 1000.0 * (now.cpu_s - before[1].cpu_s)
    return now, max(0.0, 100.0 * used_ms / (now_ms - before[0]))


# ------------------------------------------------------------------------------- thread


class HostSampler(Sampler):
    """Puts a `HostSampled` on `events` every `period_s`.

    Without `daemon_pid`, or once that process is gone, the daemon is
    looked for by name. With `own_only` there is nothing but what cuzktop itself costs: a log that
    is played is of another box, of which this one's figures say nothing.
    """

    def __init__(
        self,
        events: EventSink,
        clock: Callable[[], float],
        stop: threading.Event,
        *,
        period_s: float = DEFAULT_PERIOD_S,
        daemon_pid: int | None = None,
        own_only: bool = False,
        reader: HostReader | None = None,
    ) -> None:
        """Take `period_s` in seconds; without a `reader`, ask psutil."""
        super().__init__("cuzktop-host", events, clock, stop)
        self._period_s = max(MIN_PERIOD_S, period_s)
        self._sample = sample_own if own_only else sample
        self._reader = reader
        self._state = SamplerState(daemon_pid=daemon_pid)
        self._noted = False

    @property
    def daemon_pid(self) -> int | None:
        """The daemon's process, as far as it is known; any thread may ask."""
        return self._state.daemon_pid

    def _step(self) -> float:
        if self._reader is None:
            self._reader = PsutilReader()
        self._events.put(self._sample(self._reader, self._clock, self._state))
        return self._period_s

    def _fail(self, error: Exception) -> float:
        """Say once why there are no readings."""
        if not self._noted:
            self._noted = True
            why = in_a_line(error)
            if isinstance(error, ImportError):
                why = "the Python package psutil is missing: pip install psutil"
            self._events.put(
                SourceNote(self._clock(), "warning", f"no readings of the host: {why}")
            )
        return RETRY_S


# ------------------------------------------------------------------------------- psutil

SHORT_BYTES = 4096  # more than any file of /proc that is read here in one piece
_STATE_AT = 3  # the first field after a process's name, as proc(5) counts them
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TLB = re.compile(rb"^ *TLB:((?: +\d+)+)", re.MULTILINE)
_MEMORY = re.compile(rb"MemTotal: +(\d+) kB\n(?:.*\n){0,2}?MemAvailable: +(\d+) kB\n")
_KERNEL = b"2"  # the parent of all threads of the kernel's own
_KERNEL_SEARCHES = 6  # so many searches later its process ids are looked at again
_ONE_CPU_BYTES = 8192  # /proc/cpuinfo's first CPU, with all of its flags


def _read_short(path: str) -> bytes:
    """A short file, without what `open` builds around a descriptor: a search reads thousands."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, SHORT_BYTES)
    finally:
        os.close(descriptor)


class PsutilReader:
    """The machine by psutil, and by /proc (Linux) what psutil has no call for, or a dear one."""

    def __init__(self, proc: Path = Path("/proc"), resctrl: Path = Path("/sys/fs/resctrl")) -> None:
        """Import psutil. Raises ImportError without it."""
        import psutil  # noqa: PLC0415  # 20 ms that only the sampler's thread should pay

        self._psutil: Any = psutil
        self._proc = proc
        self._resctrl = resctrl
        self._kernel: set[str] = set()  # processes that are the kernel's, and stay so
        self._known: set[str] = set()  # and those of which it is known whether they are
        self._searches = 0

    def cpu_time(self) -> CpuTime:
        """Read the machine's CPU time; a guest's is in its host's already."""
        try:
            line = _read_short(f"{self._proc}/stat").split(b"\n", 1)[0]
            name, *fields = line.split()
            # user, nice, system, idle, iowait, irq, softirq, steal; then guests, which user counts
            ticks = list(map(int, fields[:8]))
            if name == b"cpu" and len(ticks) == 8:
                total = sum(ticks)
                busy = total - ticks[3] - ticks[4]
                return CpuTime(busy_s=busy / _TICKS_PER_S, total_s=total / _TICKS_PER_S)
        except (OSError, ValueError):
            pass
        times = self._psutil.cpu_times()
        guest_s = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
        total_s = sum(times) - guest_s
        return CpuTime(busy_s=total_s - times.idle - getattr(times, "iowait", 0.0), total_s=total_s)

    def memory(self) -> Memory:
        """Read MemTotal − MemAvailable and MemTotal."""
        try:
            found = _MEMORY.match(_read_short(f"{self._proc}/meminfo"))
        except OSError:
            found = None
        if found is not None:
            total, available = int(found[1]), int(found[2])
            if available <= total:  # some containers tell their own total and the box's rest
                return Memory(used_bytes=1024 * (total - available), total_bytes=1024 * total)
        memory = self._psutil.virtual_memory()
        return Memory(used_bytes=memory.total - memory.available, total_bytes=memory.total)

    def load_1m(self) -> float:
        """Read the load average of the last minute."""
        try:
            return os.getloadavg()[0]
        except OSError as error:
            raise HostReadError(str(error)) from None

    def pressure_pct(self, resource: Resource) -> float:
        """Read avg10 of the line `some avg10=1.23 avg60=… total=…` (kernel docs, psi.rst)."""
        try:
            text = _read_short(f"{self._proc}/pressure/{resource}")
            return float(text.split(b"some avg10=", 1)[1].split(None, 1)[0])
        except (OSError, ValueError, IndexError):
            why = "this kernel doesn't measure it (PSI; boot it with psi=1)"
            raise HostReadError(why) from None

    def count(self, counter: Counter) -> int:
        """Read one of the counters."""
        return self._tlb_shootdowns() if counter == "TLB shootdowns" else self._memory_bytes()

    def _tlb_shootdowns(self) -> int:
        """Add up the line `TLB: 12 34 … TLB shootdowns` of /proc/interrupts (x86 has it)."""
        try:
            text = (self._proc / "interrupts").read_bytes()
        except OSError as error:
            raise HostReadError(reason_of(error)) from None
        found = _TLB.search(text)
        if found is None:
            why = "this kernel doesn't count them in /proc/interrupts"
            raise HostReadError(why)
        return sum(map(int, found[1].split()))

    def _memory_bytes(self) -> int:
        """Add up the L3 caches' traffic with memory, of all groups (kernel docs, resctrl.rst).

        A control group's own mon_data covers the groups that only monitor in it.
        """
        found = [
            *self._resctrl.glob("mon_data/*/mbm_total_bytes"),
            *self._resctrl.glob("*/mon_data/*/mbm_total_bytes"),
        ]
        if not found:
            raise HostReadError(self._why_no_bandwidth())
        try:
            return sum(int(path.read_text("ascii")) for path in found)
        except OSError as error:
            raise HostReadError(reason_of(error)) from None
        except ValueError:  # Error or Unavailable
            why = "resctrl has no figure"
            raise HostReadError(why) from None

    def _why_no_bandwidth(self) -> str:
        try:
            with (self._proc / "cpuinfo").open("rb") as file:
                counts = b" cqm_mbm_total" in file.read(_ONE_CPU_BYTES)
        except OSError:
            counts = False
        if not counts:
            return "this CPU, or virtual machine, doesn't count it"
        return "resctrl isn't mounted (mount -t resctrl resctrl /sys/fs/resctrl)"

    def pids(self, names: Sequence[str]) -> list[int]:
        """Find processes by the name that the kernel keeps (15 characters, /proc/PID/comm)."""
        wanted = {name[:15] for name in names}
        try:
            with os.scandir(self._proc) as entries:
                pids = {entry.name for entry in entries if entry.name.isdigit()}
        except OSError as error:
            raise HostReadError(str(error)) from None
        self._searches += 1
        if self._searches % _KERNEL_SEARCHES == 0:
            self._known.clear()
            self._kernel.clear()
        found = [int(pid) for pid in pids - self._kernel if self._comm(pid) in wanted]
        self._kernel |= {pid for pid in pids - self._known if self._is_kernel(pid)}
        self._known |= pids
        return found

    def _is_kernel(self, pid: str) -> bool:
        """Whether it is a thread of the kernel's: they are many, and none becomes a daemon."""
        try:
            line = _read_short(f"{self._proc}/{pid}/stat")
            return line[line.rindex(b")") + 2 :].split(None, 2)[1] == _KERNEL
        except (OSError, ValueError, IndexError):
            return False

    def _comm(self, pid: str) -> str:
        try:
            return _read_short(f"{self._proc}/{pid}/comm").decode(errors="replace").rstrip("\n")
        except OSError:
            return ""

    def process(self, pid: int | None) -> Process:
        """Read the one line of /proc/PID/stat (proc(5)); a name in it may hold spaces and ")"."""
        try:
            line = _read_short(f"{self._proc}/{'self' if pid is None else pid}/stat")
            fields = line[line.rindex(b")") + 2 :].split()
            user, system, threads, started, pages = (
                int(fields[number - _STATE_AT]) for number in (14, 15, 20, 22, 24)
            )
        except OSError as error:
            raise HostReadError(reason_of(error)) from None
        except (ValueError, IndexError):
            why = "/proc tells nothing of it"
            raise HostReadError(why) from None
        return Process(
            started_s=started / _TICKS_PER_S,
            cpu_s=(user + system) / _TICKS_PER_S,
            rss_bytes=pages * _PAGE_BYTES,
            threads=threads,
        )
