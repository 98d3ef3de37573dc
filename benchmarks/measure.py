"""Running programs and weighing what they cost.

CPU is user and system time of the whole process, all of its threads, dead ones too. A pair is the
program and its yardstick, one right after the other (A B A B …) or, for what lives on, both over
the same seconds; ratios are taken pair by pair, and their median counts.
"""

from __future__ import annotations

import fcntl
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "benchmarks"
UNSTEADY = 0.15  # a yardstick that varies by more than this is none
FEW = 8  # with fewer figures the spread is over all of them, else over the middle 80 %

Command = Sequence[str | Path]


# ---------------------------------------------------------------- the programs' surroundings


class Surroundings:
    """What all measured programs share: an interpreter, cached byte code, an environment."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.python = sys.executable
        script = Path(sys.executable).with_name("cuzktop")
        self.cuzktop: list[str] = (
            [self.python, str(script)] if script.exists() else [self.python, "-m", "cuzktop"]
        )
        kept = ("PATH", "HOME", "LANG", "LC_ALL", "VIRTUAL_ENV", "TMPDIR")
        self.env = {name: os.environ[name] for name in kept if name in os.environ}
        self.env |= {
            "PYTHONPYCACHEPREFIX": str(scratch / "pycache"),  # nothing is compiled anew
            "PYTHONPATH": str(ROOT),
            "LANG": self.env.get("LANG", "C.UTF-8"),
            "TERM": "tmux-256color",
            "COLORTERM": "truecolor",
            "HTOPRC": str(scratch / "htoprc"),  # there is none: htop's own settings
        }

    def script(self, name: str, *arguments: str | Path) -> list[str]:
        """One of the scripts of this folder."""
        return [self.python, str(HERE / name), *map(str, arguments)]


def in_venv() -> bool:
    """Whether the interpreter is a virtual environment's own binary, not a shim."""
    return sys.prefix != sys.base_prefix and Path(sys.executable).parent.parent == Path(sys.prefix)


# ---------------------------------------------------------------- one program from start to end


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process cost from its start to its end."""

    cpu_s: float
    wall_s: float
    peak_mb: float


def cost(
    command: Command,
    env: Mapping[str, str],
    *,
    output: Path | None = None,
    ok: Sequence[int] = (0,),
) -> Cost:
    """Run it to its end. Raises RuntimeError if it fails. What it prints goes to `output`."""
    with Path(output or os.devnull).open("wb") as out, tempfile.TemporaryFile() as err:
        begun = time.perf_counter()
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=dict(env),
            cwd=ROOT,
        )
        _, status, used = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in ok:
            err.seek(0)
            said = err.read().decode("utf-8", "replace").strip().splitlines()[-1:]
            message = f"{' '.join(map(str, command))}: exit {process.returncode} {said}"
            raise RuntimeError(message)
    return Cost(used.ru_utime + used.ru_stime, wall_s, used.ru_maxrss * 1024 / 1e6)


@dataclass(slots=True)
class Pairs:
    """Figures of the program and of its yardstick, pair by pair, in one unit."""

    ours: list[float] = field(default_factory=list)
    yards: list[float] = field(default_factory=list)

    def add(self, ours: float, yard: float) -> None:
        self.ours.append(ours)
        self.yards.append(yard)

    @property
    def ratios(self) -> list[float]:
        return [a / b for a, b in zip(self.ours, self.yards, strict=True)]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def steady(self) -> bool:
        return spread(self.yards) <= UNSTEADY


def spread(figures: Sequence[float]) -> float:
    """Half of the range around the median, as a share of it; of the middle 80 % if there are many.

    Any process may be hit by another one's burst: with many figures a few such don't count.
    """
    if len(figures) < 2:
        return 0.0
    ordered = sorted(figures)
    aside = 0 if len(ordered) < FEW else max(1, len(ordered) // 10)
    kept = ordered[aside : len(ordered) - aside]
    return (kept[-1] - kept[0]) / 2 / statistics.median(ordered)


def in_turn(
    count: int,
    ours: Callable[[], Cost],
    yard: Callable[[], Cost],
    warm_up: int = 1,
) -> list[tuple[Cost, Cost]]:
    """So many pairs A B A B …, after runs that fill the caches and don't count."""
    for _ in range(warm_up):
        ours()
        yard()
    return [(ours(), yard()) for _ in range(count)]


# ---------------------------------------------------------------- what lives on


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, by its CPU clock: all threads, to the nanosecond."""
    return time.clock_gettime((~pid << 3) | 2)  # MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED)


def memory_mb(pid: int) -> tuple[float, float]:
    """Resident memory of a process now, and its most so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = dict(re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB", status, re.MULTILINE))
    return int(found["VmRSS"]) * 1024 / 1e6, int(found["VmHWM"]) * 1024 / 1e6


def tasks() -> tuple[int, int]:
    """Processes and threads on this machine: what htop looks at."""
    processes = threads = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                threads += sum(1 for _ in (entry / "task").iterdir())
            except OSError:
                continue
            processes += 1
    return processes, threads


class Tmux:
    """A tmux server of our own; each program gets a session of the same size."""

    def __init__(self, around: Surroundings, columns: int = 200, rows: int = 50) -> None:
        self._name = f"cuzktop-bench-{os.getpid()}"
        self._around = around
        self._size = ("-x", str(columns), "-y", str(rows))
        self._count = 0

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-f", os.devnull, "-L", self._name, *words]
        done = subprocess.run(
            command, env=self._around.env, capture_output=True, text=True, check=False, cwd=ROOT
        )
        return done.stdout

    def start(self, command: Command) -> tuple[str, int]:
        """Run `command` in a session; the session's name and the program's process."""
        self._count += 1
        session = f"s{self._count}"
        env = self._around.env
        words = ["env", *(f"{k}={v}" for k, v in env.items()), *map(str, command)]
        line = "exec " + " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
        self._tmux("new-session", "-d", "-s", session, *self._size, line)
        pid = self._tmux("display-message", "-p", "-t", session, "#{pane_pid}").strip()
        if not pid:
            message = f"tmux could not start {words[-1]}"
            raise RuntimeError(message)
        return session, int(pid)

    def stop(self, session: str) -> None:
        """End a session and the program in it."""
        self._tmux("kill-session", "-t", session)
        time.sleep(0.5)  # the last session takes the server with it

    def text(self, session: str) -> str:
        """What the session shows now."""
        return self._tmux("capture-pane", "-p", "-t", session)

    def wait_for(self, session: str, words: Sequence[str], seconds: float) -> None:
        """Until the session shows all `words`. Raises RuntimeError if that takes longer."""
        until = time.monotonic() + seconds
        while not all(word in self.text(session) for word in words):
            if time.monotonic() > until:
                last = self.text(session).strip().splitlines()[:3]
                message = f"nothing of {words} on the screen after {seconds:.0f} s, but {last}"
                raise RuntimeError(message)
            time.sleep(0.2)

    def end(self) -> None:
        self._tmux("kill-server")


# ---------------------------------------------------------------- first paint

ESCAPES = re.compile(rb"\x1b(?:\[[0-9;?<>=$]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")


@dataclass(frozen=True, slots=True)
class Paint:
    """How long until a screen stood. CPU is the program's until then."""

    wall_s: float
    cpu_s: float
    first_byte_s: float
    output: bytes


def paint(
    command: Command,
    env: Mapping[str, str],
    words: Sequence[bytes],
    *,
    columns: int = 200,
    rows: int = 50,
    longest_s: float = 20.0,
) -> Paint:
    """Start a program in a pseudo-terminal and wait until it has drawn all `words`; then end it.

    Raises RuntimeError if it ends, or takes longer.
    """
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    begun = time.perf_counter()
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=dict(env),
        cwd=ROOT,
        start_new_session=True,
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    drawn, first = bytearray(), None
    wall_s = used_s = None
    try:
        while time.perf_counter() - begun < longest_s and process.poll() is None:
            try:
                drawn += os.read(ours, 65536)
            except BlockingIOError:
                time.sleep(0.0005)
                continue
            except OSError:
                break
            now = time.perf_counter()
            first = first or now
            text = ESCAPES.sub(b"", bytes(drawn))
            if all(word in text for word in words):
                wall_s, used_s = now - begun, cpu_s(process.pid)
                break
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    if wall_s is None or used_s is None or first is None:
        shown = ESCAPES.sub(b"", bytes(drawn))[-200:].decode("utf-8", "replace")
        message = f"{command[-1]} never drew {[word.decode() for word in words]}: …{shown!r}"
        raise RuntimeError(message)
    return Paint(wall_s, used_s, first - begun, bytes(drawn))
