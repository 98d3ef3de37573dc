"""What cuzktop costs, each figure beside a program that costs something itself, run at that time.

    python benchmarks/table.py [ROW …] [--quick] [--soak]

Without a ROW all of them; README.md says what each means. A row whose yardstick varies by more than
15 % is marked unsteady and counts neither way. Exit status: 0 all bars met, 1 one was missed, 2 a
row could not be measured.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from biglog import CACHE
from measure import (
    HERE,
    ROOT,
    Cost,
    Pairs,
    Surroundings,
    Tmux,
    cost,
    cpu_s,
    in_turn,
    in_venv,
    memory_mb,
    paint,
    spread,
    tasks,
)

MET, MISSED, UNSTEADY, NONE = "met", "MISSED", "unsteady", "not run"


class CannotMeasureError(Exception):
    """A row's yardstick is missing; its text says which."""


# ---------------------------------------------------------------- results


@dataclass(slots=True)
class Result:
    """One line of the table, and what stands under it."""

    work: str
    against: str
    figure: str = "–"
    bar: str = ""
    verdict: str = ""
    notes: list[str] = field(default_factory=list)


def judged(
    work: str, against: str, pairs: Pairs, most: float, *, unit: str, scale: float = 1.0
) -> Result:
    """A ratio held against its bar."""
    low, high = min(pairs.ratios), max(pairs.ratios)
    result = Result(work, against, f"{pairs.ratio:.2f} ×", f"{most:g} ×")
    result.verdict = MET if pairs.ratio <= most else MISSED
    if not pairs.steady:
        result.verdict = UNSTEADY
    result.notes.append(
        f"{statistics.median(pairs.ours) * scale:.4g} {unit} ±{spread(pairs.ours):.0%}"
        f" / {statistics.median(pairs.yards) * scale:.4g} {unit} ±{spread(pairs.yards):.0%},"
        f" {len(pairs.ours)} pairs, ratios {low:.2f}–{high:.2f}"
    )
    return result


def absolute(work: str, figure: float, most: float, unit: str) -> Result:
    """A figure held against a bar of its own."""
    shown = f"{figure:.3g} {unit}"
    return Result(work, "–", shown, f"{most:g} {unit}", MET if figure <= most else MISSED)


# ---------------------------------------------------------------- what rows share


@dataclass(slots=True)
class Bench:
    """What was asked for, and where."""

    quick: bool
    soak: bool
    pairs: int | None
    cache: Path
    around: Surroundings

    def count(self, full: int, quick: int) -> int:
        """How many pairs."""
        return self.pairs or (quick if self.quick else full)

    def log(self, size: str, gpus: int = 1) -> Path:
        """A log of that size. It is made by a process of its own, so that we stay small."""
        return self._made(size, gpus)[0]

    def log_and_end(self, size: str, end: str) -> tuple[Path, Path]:
        """A log, and its last part as a file of its own."""
        log, cut = self._made(size, 1, "--end", end)
        return log, cut

    def _made(self, size: str, gpus: int, *more: str) -> list[Path]:
        arguments = (size, "--gpus", str(gpus), "--cache", str(self.cache), *more)
        done = subprocess.run(
            self.around.script("biglog.py", *arguments),
            env=self.around.env,
            check=True,
            capture_output=True,
            text=True,
        )
        return [Path(line) for line in done.stdout.splitlines()]

    def run(self, *words: str | Path, output: Path | None = None) -> Cost:
        """Our program, from start to end."""
        return cost([*self.around.cuzktop, *words], self.around.env, output=output)

    def python(self, *words: str | Path) -> Cost:
        """The interpreter."""
        return cost([self.around.python, *words], self.around.env)


def tool(name: str) -> str:
    """The path of a yardstick."""
    path = shutil.which(name)
    if path is None:
        message = f"{name} is not installed"
        raise CannotMeasureError(message)
    return path


@contextlib.contextmanager
def growing(bench: Bench, history_s: float = 900.0) -> Iterator[Path]:
    """A log of four GPUs that grows by about 30 lines a second in its own rhythm."""
    log = bench.around.scratch / f"growing-{time.monotonic_ns()}.log"
    arguments = ("--grow", str(log), "--gpus", "4", "--history", str(history_s))
    feeder = subprocess.Popen(
        bench.around.script("biglog.py", *arguments, "--cache", str(bench.cache)),
        env=bench.around.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert feeder.stdout is not None  # noqa: S101 - a pipe was asked for
        if not feeder.stdout.readline().startswith("filled"):
            message = "the growing log could not be made"
            raise RuntimeError(message)
        yield log
    finally:
        feeder.kill()
        feeder.wait()
        log.unlink(missing_ok=True)


@contextlib.contextmanager
def tmux(bench: Bench) -> Iterator[Tmux]:
    tool("tmux")
    terminal = Tmux(bench.around)
    try:
        yield terminal
    finally:
        terminal.end()


# ---------------------------------------------------------------- report


def row_report(bench: Bench) -> list[Result]:
    """A whole log, against one mawk pass that sums the stages."""
    mawk = tool("mawk")
    size = "100M" if bench.quick else "1G"
    small_size = "20M" if bench.quick else "100M"
    log, small = bench.log(size), bench.log(small_size)
    told = bench.around.scratch / "report.json"
    summed = bench.around.scratch / "p2.txt"
    awk: list[str | Path] = [mawk, "-f", HERE / "p2.awk"]

    figures = in_turn(
        bench.count(5, 3),
        lambda: bench.run("report", "--json", log),
        lambda: cost([*awk, log], bench.around.env),
        warm_up=0,
    )
    less = bench.run("report", "--json", small, output=told)
    cost([*awk, small], bench.around.env, output=summed)
    pairs = Pairs([a.cpu_s for a, _ in figures], [b.cpu_s for _, b in figures])
    result = judged(f"report --json of {size}B", "mawk, P2", pairs, 5.0, unit="s of CPU")
    lines = 5280 * log.stat().st_size / 1e6
    result.notes.append(
        f"{1e6 * statistics.median(pairs.ours) / lines:.2f} µs a line;"
        f" wall {statistics.median(a.wall_s for a, _ in figures):.1f} s;"
        f" over 1 GB {statistics.median(pairs.ours) * 1e9 / log.stat().st_size:.1f} s of CPU"
    )
    result.notes += compared(told, summed)

    peak = max(a.peak_mb for a, _ in figures)
    memory = absolute(f"  its peak memory, {size}B", peak, 120.0, "MB")
    more = peak / less.peak_mb
    memory.notes.append(f"{small_size}B: {less.peak_mb:.0f} MB; {size}B has {more:.2f} × of that")
    if more > 1.1 and not bench.quick:  # below 100 MB some of what is kept isn't full yet
        memory.verdict = MISSED
    return [result, memory]


def compared(told: Path, summed: Path) -> list[str]:
    """Whether the report says what mawk says, and how much of the log it gave an owner."""
    command = [sys.executable, str(HERE / "compare_report.py"), str(told), str(summed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() or [f"not compared: {done.stderr.strip()[-200:]}"]


# ---------------------------------------------------------------- snapshot, start


def row_snapshot(bench: Bench) -> list[Result]:
    """The end of a large log, against the same end alone."""
    size = "100M" if bench.quick else "1G"
    log, end = bench.log_and_end(size, "10M")
    figures = in_turn(
        bench.count(11, 7), lambda: bench.run("snapshot", log), lambda: bench.run("snapshot", end)
    )
    pairs = Pairs([a.wall_s for a, _ in figures], [b.wall_s for _, b in figures])
    work = f"snapshot of {size}B"
    result = judged(work, "its last 10 MB", pairs, 1.1, unit="ms of wall", scale=1e3)
    used = Pairs([a.cpu_s for a, _ in figures], [b.cpu_s for _, b in figures])
    result.notes.append(f"by CPU {used.ratio:.2f} ×")
    return [result]


def row_start(bench: Bench) -> list[Result]:
    """A small log from start to end, against the interpreter alone."""
    log = bench.log("100K")
    figures = in_turn(
        bench.count(21, 11),
        lambda: bench.run("snapshot", "--json", log),
        lambda: bench.python("-c", "pass"),
        warm_up=2,
    )
    pairs = Pairs([a.cpu_s for a, _ in figures], [b.cpu_s for _, b in figures])
    work = "snapshot --json of 100 kB"
    result = judged(work, "python -c pass", pairs, 6.0, unit="ms of CPU", scale=1e3)
    walls = Pairs([a.wall_s for a, _ in figures], [b.wall_s for _, b in figures])
    result.notes.append(f"by wall {walls.ratio:.2f} ×")
    return [result]


# ---------------------------------------------------------------- first paint


def holders(bench: Bench, log: Path) -> list[bytes]:
    """What the screen shows only of a log read to its end: who holds each GPU's lock."""
    told = bench.around.scratch / "snapshot.json"
    bench.run("snapshot", "--json", log, output=told)
    document = json.loads(told.read_text())
    found = [
        f"{gpu['lock']['holder']['job'][-11:]}/{gpu['lock']['holder']['partition']}".encode()
        for gpu in document["gpus"]
        if gpu["lock"] and gpu["lock"]["holder"]
    ]
    if not found:
        message = "no GPU's lock is held at the log's end"
        raise CannotMeasureError(message)
    return found


def row_paint(bench: Bench) -> list[Result]:
    """The screen with the log's last ten minutes in it, against an empty Textual app."""
    env = bench.around.env
    empty = bench.around.script("empty_app.py")
    count = bench.count(9, 5)
    results = []
    for size in ("10M", "100M" if bench.quick else "1G"):
        log = bench.log(size, 4)
        words = holders(bench, log)
        ours = [*bench.around.cuzktop, str(log)]
        panels = [b"PARTITIONS"]
        for _ in range(2):  # byte code and page cache
            paint(ours, env, words)
            paint(empty, env, [b"nothing-in-here"])
        pairs, used, frames = Pairs(), Pairs(), Pairs()
        for _ in range(count):
            a, b = paint(ours, env, words), paint(empty, env, [b"nothing-in-here"])
            pairs.add(a.wall_s, b.wall_s)
            used.add(a.cpu_s, b.cpu_s)
            c, d = paint(ours, env, panels), paint(empty, env, [b"nothing-in-here"])
            frames.add(c.wall_s, d.wall_s)
        work = f"first paint, data in it, {size}B"
        result = judged(work, "an empty Textual app", pairs, 1.2, unit="ms of wall", scale=1e3)
        result.notes.append(
            f"by CPU {used.ratio:.2f} ×; panels without the log's data {frames.ratio:.2f} ×"
            f" ({1e3 * statistics.median(frames.ours):.0f} ms)"
        )
        results.append(result)
    return results


# ---------------------------------------------------------------- live

PROCESSES = 95  # that htop looks at, at least: its cost grows with them, and machines differ


@contextlib.contextmanager
def crowd(count: int) -> Iterator[None]:
    """So many processes on this machine, with sleeping ones where there are fewer."""
    missing = max(0, count - tasks()[0])
    sleepers = [subprocess.Popen([tool("sleep"), "infinity"]) for _ in range(missing)]
    try:
        yield
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()


def start_warm(terminal: Tmux, command: list[str], longest_s: float) -> tuple[str, int]:
    """Start it a second time, when its byte code is cached: compiling leaves 10 MB behind."""
    for again in (True, False):
        session, pid = terminal.start(command)
        terminal.wait_for(session, ["PARTITIONS", "power", "LOCK"], longest_s)
        if again:
            time.sleep(2.0)
            terminal.stop(session)
    return session, pid


@dataclass(slots=True)
class Beside:
    """The whole program beside htop, over the same seconds: shares of a core, ours and its."""

    pairs: Pairs
    lines_per_s: float
    notes: list[str]
    shown: str


def beside_htop(bench: Bench, command: list[str], delay_s: float, log: Path | None) -> Beside:
    """Both at the same rate, in one tmux; `log` is what the program follows, if any."""
    htop = tool("htop")
    windows, length_s = bench.count(5, 3), 30.0
    with tmux(bench) as terminal, contextlib.ExitStack() as around:
        session, ours = start_warm(terminal, command, 30.0)
        _, theirs = terminal.start([htop, "-d", str(round(10 * delay_s))])
        around.enter_context(crowd(PROCESSES))
        time.sleep(12.0)  # imports, history and htop's first look at all processes are over
        pairs = Pairs()
        lines = count_lines(log)
        begun = time.monotonic()
        for _ in range(windows):
            before = cpu_s(ours), cpu_s(theirs), time.monotonic()
            time.sleep(length_s)
            after = cpu_s(ours), cpu_s(theirs), time.monotonic()
            span = after[2] - before[2]
            pairs.add((after[0] - before[0]) / span, (after[1] - before[1]) / span)
        rate = (count_lines(log) - lines) / (time.monotonic() - begun)
        now_mb, most_mb = memory_mb(ours)
        processes, threads = tasks()
        notes = [
            f"memory {now_mb:.0f} MB, at most {most_mb:.0f} MB",
            f"htop looks at {processes} processes, {threads} threads",
        ]
        return Beside(pairs, rate, notes, terminal.text(session))


def count_lines(log: Path | None) -> int:
    """How many there are by now."""
    return 0 if log is None else log.read_bytes().count(b"\n")


def live(bench: Bench, delay_s: float, most: float) -> list[Result]:
    """A log that grows, and four cards."""
    with growing(bench) as log:
        command = bench.around.script("live_app.py", "follow", log, "-d", str(delay_s))
        seen = beside_htop(bench, command, delay_s, log)
    work = f"live at {1 / delay_s:g} Hz, 200×50, 4 GPUs"
    against = f"htop at {1 / delay_s:g} Hz"
    result = judged(work, against, seen.pairs, most, unit="% of a core", scale=100.0)
    result.notes.append("; ".join([f"{seen.lines_per_s:.0f} lines/s", *seen.notes]))
    if "NVML" not in seen.shown or re.search(r"internal error|not available", seen.shown):
        result.verdict = NONE
        result.notes.append("the screen doesn't show the four cards: the figure is for nothing")
    return [result]


def row_live1(bench: Bench) -> list[Result]:
    """Live once a second, against htop."""
    return live(bench, 1.0, 1.25)


def row_live10(bench: Bench) -> list[Result]:
    """Live ten times a second, against htop."""
    return live(bench, 0.1, 0.6)


def row_demo1(bench: Bench) -> list[Result]:
    """A canned log of four GPUs, played once a second, against htop."""
    command = [*bench.around.cuzktop, "--demo", "four-gpus", "-d", "1"]
    seen = beside_htop(bench, command, 1.0, None)
    work = "demo of 4 GPUs at 1 Hz, 200×50"
    result = judged(work, "htop at 1 Hz", seen.pairs, 1.25, unit="% of a core", scale=100.0)
    result.notes.append("; ".join(seen.notes))
    return [result]


# ---------------------------------------------------------------- memory over a day


def row_memory(bench: Bench) -> list[Result]:
    """Resident memory after hours of log, against after its first hour."""
    hours, speed = (24, 100.0) if bench.soak else (5, 400.0 if bench.quick else 200.0)
    log = bench.log("520M" if bench.soak else "120M", 4)
    first: list[float] = []
    last: list[float] = []
    with tmux(bench) as terminal:
        command = bench.around.script(
            "live_app.py", "play", log, "--at", "60", "--speed", str(speed)
        )
        _, pid = start_warm(terminal, command, 120.0)
        begun = time.monotonic()
        hour_s = 3600.0 / speed
        used = cpu_s(pid)
        while (spent := time.monotonic() - begun) < hours * hour_s:
            now_mb, most_mb = memory_mb(pid)
            if 0.8 * hour_s < spent < hour_s:
                first.append(now_mb)
            if spent > (hours - 0.5) * hour_s:
                last.append(now_mb)
            time.sleep(min(0.5, hour_s / 20))
        used = cpu_s(pid) - used
    after_hour, after_all = statistics.median(first), statistics.median(last)
    work = f"memory after {hours} h of log, live"
    result = Result(work, "after its first hour", f"{after_all / after_hour:.3f} ×", "1.05 ×")
    result.verdict = MET if after_all <= 1.05 * after_hour else MISSED
    lines_a_second = 29.6 * speed
    result.notes.append(
        f"{after_hour:.1f} MB → {after_all:.1f} MB at {speed:g} × speed;"
        f" {1e6 * used / (hours * hour_s * lines_a_second):.0f} µs of CPU a line, screen included"
    )
    peak = absolute("  at most", most_mb, 60.0, "MB")
    return [result, peak]


# ---------------------------------------------------------------- the tail


def row_tail(bench: Bench) -> list[Result]:
    """How late a line is in the model, and what waiting for lines costs."""
    seconds = 20.0 if bench.quick else 60.0
    late = lateness_ms(bench, seconds)
    late.sort()
    p95 = late[int(0.95 * len(late))]
    result = absolute("a line written to the model, p95", p95, 260.0, "ms")
    result.notes.append(
        f"{len(late)} lines, 30 a second: p50 {statistics.median(late):.0f} ms,"
        f" most {late[-1]:.0f} ms; no picture brings it: one has all that was written by its moment"
    )
    log = bench.log("1M", 4)
    with probe(bench, log) as process:
        time.sleep(3.0)
        before = cpu_s(process.pid)
        time.sleep(30.0)
        share = (cpu_s(process.pid) - before) / 30.0
    idle = absolute("  idle cost of the tail", 100 * share, 0.15, "% of a core")
    return [result, idle]


@contextlib.contextmanager
def probe(bench: Bench, log: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        bench.around.script("follow_probe.py", log, *more),
        env=bench.around.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        if process.stdout.readline().strip() != "ready":
            message = "the log's reader did not start"
            raise RuntimeError(message)
        yield process
    finally:
        process.kill()
        process.wait()


def lateness_ms(bench: Bench, seconds: float) -> list[float]:
    """From each line's write to its place in the model."""
    log = bench.around.scratch / "late.log"
    log.write_bytes(b"TIMELINE,1,SYNTH_START,job,partition=0\n")
    written: dict[int, float] = {}
    luck = random.Random(3)
    with probe(bench, log, "--model") as process, log.open("ab", buffering=0) as file:
        offset = 1000
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(luck.expovariate(30.0))
            offset += 10
            written[offset] = time.monotonic()
            file.write(b"TIMELINE,%d,SYNTH_START,job-%d,partition=0\n" % (offset, offset))
        time.sleep(1.0)
        told, _ = process.communicate(timeout=10)
    seen = json.loads(told)
    lost = [key for key in written if str(key) not in seen]
    if lost:
        message = f"{len(lost)} of {len(written)} lines never came"
        raise RuntimeError(message)
    return [1000 * (seen[str(key)] - at) for key, at in written.items()]


# ---------------------------------------------------------------- what start-up is made of

IMPORT = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \| ( *)([\w.]+)")


def row_imports(bench: Bench) -> list[Result]:
    """`python -X importtime`: what start-up is made of."""
    log = bench.log("100K")
    words = [bench.around.python, "-X", "importtime", *bench.around.cuzktop[1:]]
    bench.run("snapshot", "--json", log)  # byte code is made before
    paint([*bench.around.cuzktop, str(log)], bench.around.env, [b"PARTITIONS"])
    heard, seen = [], []
    for _ in range(5):
        done = subprocess.run(
            [*words, "snapshot", "--json", str(log)],
            env=bench.around.env,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        heard.append(done.stderr)
        screen = paint([*words, str(log)], bench.around.env, [b"PARTITIONS"])
        seen.append(screen.output.decode("utf-8", "replace"))
    return [
        imported("snapshot", min(heard, key=import_ms)),
        imported("the screen until its first paint", min(seen, key=import_ms)),
    ]


def import_ms(told: str) -> float:
    """All modules together."""
    return sum(int(own) for own, _, _, _ in IMPORT.findall(told)) / 1000


def imported(what: str, told: str) -> Result:
    """The dearest modules: alone, and with what only they bring."""
    found = [(int(own), int(all_), name) for own, all_, _, name in IMPORT.findall(told)]
    result = Result(f"imports of {what}", "–", f"{import_ms(told):.0f} ms")
    result.notes.append(f"{len(found)} modules, best of 5 runs; importtime itself slows them down")
    alone = sorted(found, reverse=True)[:12]
    result.notes.append(
        "alone: " + ", ".join(f"{name} {own / 1000:.1f}" for own, _, name in alone) + " ms"
    )
    whole = sorted(((all_, name) for _, all_, name in found), reverse=True)
    shown = [(all_, name) for all_, name in whole if not name.startswith("site")][:16]
    result.notes.append(
        "with what they import: "
        + ", ".join(f"{name} {all_ / 1000:.1f}" for all_, name in shown)
        + " ms"
    )
    return result


def row_line(bench: Bench) -> list[Result]:
    """Microseconds a line, step by step."""
    results = []
    for gpus in (1, 4):
        log = bench.log("20M", gpus)
        done = subprocess.run(
            bench.around.script("per_line.py", log),
            env=bench.around.env,
            check=True,
            capture_output=True,
            text=True,
        )
        figures = json.loads(done.stdout)
        result = Result(f"a line, {gpus} GPU{'s' * (gpus > 1)}", "–", bar="", verdict="")
        result.figure = f"{figures['report in all']:.2f} µs"
        result.notes.append(
            ", ".join(f"{k} {v:.2f}" for k, v in figures.items() if isinstance(v, float))
            + f" µs; {figures['events'] / figures['lines']:.2f} events a line"
        )
        results.append(result)
    return results


# ---------------------------------------------------------------- the table

ROWS: dict[str, Callable[[Bench], list[Result]]] = {
    "report": row_report,
    "snapshot": row_snapshot,
    "start": row_start,
    "paint": row_paint,
    "live1": row_live1,
    "live10": row_live10,
    "demo1": row_demo1,
    "memory": row_memory,
    "tail": row_tail,
    "imports": row_imports,
    "line": row_line,
}
HEAD = Result("work", "against", "figure", "at most", "verdict")


def print_result(result: Result) -> None:
    print(
        f"{result.work:38} {result.against:22} {result.figure:>12} {result.bar:>16}"
        f"  {result.verdict}",
        flush=True,
    )
    for note in result.notes:
        print(f"    {note}", flush=True)


def machine() -> str:
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    processes, threads = tasks()
    load = ", ".join(f"{one:.2f}" for one in os.getloadavg())
    return (
        f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} CPUs"
        f" ({model[1] if model else platform.machine()}), load {load},"
        f" {processes} processes, {threads} threads"
    )


def measured(name: str, bench: Bench) -> list[Result]:
    """A row's results; what keeps it from being measured is one of them."""
    try:
        return ROWS[name](bench)
    except (CannotMeasureError, RuntimeError, OSError, subprocess.SubprocessError) as error:
        result = Result(name, "–", verdict=NONE)
        result.notes.append(str(error) or type(error).__name__)
        return [result]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What cuzktop costs beside its yardsticks.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}")
    parser.add_argument("--quick", action="store_true", help="smaller logs, fewer pairs")
    parser.add_argument("--soak", action="store_true", help="memory over a day of log, 15 minutes")
    parser.add_argument("--pairs", type=int, help="so many pairs in every row")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"where logs are kept ({CACHE})")
    options = parser.parse_args(argv)
    unknown = [name for name in options.rows if name not in ROWS]
    if unknown:
        parser.error(f"no row {unknown[0]!r}: choose from {', '.join(ROWS)}")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(f"begun  {machine()}")
    if not in_venv():
        print("       not a virtual environment's own python: start-up figures may be a shim's")
    print_result(HEAD)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="cuzktop-bench-") as scratch:
        bench = Bench(
            quick=options.quick,
            soak=options.soak,
            pairs=options.pairs,
            cache=options.cache,
            around=Surroundings(Path(scratch)),
        )
        for name in options.rows or ROWS:
            for result in measured(name, bench):
                print_result(result)
                results.append(result)
    print(f"ended  {machine()}")
    verdicts = {result.verdict for result in results}
    if MISSED in verdicts:
        return 1
    return 2 if verdicts & {UNSTEADY, NONE} else 0


if __name__ == "__main__":
    sys.exit(main())
