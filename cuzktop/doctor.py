"""What cuzktop finds on this machine, what is missing, and the command that mends it.

`run_checks` asks the outside through `Tools` and judges what comes back; each judgement is a
function of its own that asks nothing. A check never raises and never takes long.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol, TextIO, TypeVar

from cuzktop import __version__
from cuzktop.dataclass import NamedTuple, dataclass, field
from cuzktop.errors import CuzktopError, UsageError
from cuzktop.model.reduce import Model
from cuzktop.model.state import Run
from cuzktop.parse.scanner import Counts, LogScanner
from cuzktop.sources.discovery import (
    MISREAD_BUDGET_BYTES,
    Choice,
    Config,
    Daemon,
    ProcReader,
    choose,
    find_daemons,
    printable,
    read_cgroup,
    where,
)
from cuzktop.sources.files import is_stream, open_log, plain_size, read_blocks
from cuzktop.sources.gpu_reader import GpuReadError, NumberField, NvmlUnavailableError
from cuzktop.sources.gpu_reader import TextField as GpuTextField
from cuzktop.sources.journal import journal_blocks
from cuzktop.sources.nvml import PynvmlReader
from cuzktop.sources.status import (
    Address,
    StatusError,
    address_of,
    fetch,
    parse_address,
    parse_status,
)
from cuzktop.units import age, duration, size

Level = Literal["ok", "warning", "failed"]
_T = TypeVar("_T")

TAIL_BYTES = 1024 * 1024  # of the log's end: two minutes of one fast GPU
TAIL_LINES = 8000  # of the journal, as much
PATIENCE_S = 10.0  # a driver that is being loaded, or hangs
SAME_START_MS = 120_000.0  # the engine starts after its process: it reads its config first
LOCK_LINES_FROM = 41  # the first step that prints lock waits
COLUMNS, ROWS = 80, 24

ASK_DRIVER: Final = "nvidia-smi"
START_AGAIN: Final = "start cuzk with  >> cuzk.log 2>&1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing looked at: `text` is one line, `mend` the command or the change that helps."""

    name: str
    level: Level
    text: str
    mend: str = ""


def _ok(name: str, text: str) -> Check:
    return Check(name=name, level="ok", text=text)


def _warning(name: str, text: str, mend: str = "") -> Check:
    return Check(name=name, level="warning", text=text, mend=mend)


def _failed(name: str, text: str, mend: str) -> Check:
    return Check(name=name, level="failed", text=text, mend=mend)


def failed(checks: Iterable[Check]) -> bool:
    """Whether cuzktop can't do its work here: the command then ends with status 1."""
    return any(check.level == "failed" for check in checks)


# ---------------------------------------------------------------- what is asked, and through what


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line named; nothing named is looked for."""

    log: Path | None = None
    pid: int | None = None
    unit: str | None = None
    user_unit: bool = False
    status: str | None = None


class GpuInfo(Protocol):
    """The part of NVML that is asked; see `cuzktop.sources.gpu_reader` for what is raised."""

    def start(self) -> None:
        """Load the library."""

    def driver_version(self) -> str:
        """Read the driver's version."""

    def gpu_count(self) -> int:
        """Count the cards."""

    def find(self, gpu: int, uuid: str | None) -> object:
        """Give a card's handle."""

    def text(self, handle: object, what: GpuTextField) -> str:
        """Read a name of the card."""

    def number(self, handle: object, what: NumberField) -> float:
        """Read a mode of the card, 0 or 1."""


class Terminal(NamedTuple):
    """Where the output goes. `columns` and `rows` are None where it is no terminal."""

    columns: int | None
    rows: int | None
    term: str = ""
    colorterm: str = ""
    encoding: str = ""
    no_color: bool = False


def read_terminal(stream: TextIO, environ: Mapping[str, str]) -> Terminal:
    """The terminal that `stream` is, if it is one."""
    columns: int | None = None
    rows: int | None = None
    with contextlib.suppress(OSError, ValueError):
        if stream.isatty():
            columns, rows = os.get_terminal_size(stream.fileno())
    return Terminal(
        columns=columns,
        rows=rows,
        term=environ.get("TERM", ""),
        colorterm=environ.get("COLORTERM", ""),
        encoding=stream.encoding or "ascii",
        no_color=bool(environ.get("NO_COLOR")),
    )


def tail_of(path: Path, most: int = TAIL_BYTES) -> tuple[bytes, float | None]:
    """The last `most` bytes of a log, from a line's start, and when it was written (wall ms).

    Raises SourceUnreadableError.
    """
    with open_log(path) as file:
        size_bytes = plain_size(file)
        if size_bytes is not None:
            file.seek(max(0, size_bytes - most))
            tail = b"".join(read_blocks(file))
            written_ms: float | None = os.fstat(file.fileno()).st_mtime * 1000.0
        else:  # compressed
            size_bytes, tail, written_ms = 0, b"", None
            for block in read_blocks(file):
                size_bytes += len(block)
                tail = (tail + block)[-most:]
    return (tail.partition(b"\n")[2] if size_bytes > most else tail), written_ms


def journal_tail(unit: str, *, user: bool) -> bytes:
    """The last lines of a unit's journal. Raises SourceUnreadableError."""
    return b"".join(journal_blocks(unit, user=user, lines=TAIL_LINES))


PACKAGES: Final = ("textual", "rich", "nvidia-ml-py", "psutil")


def installed() -> dict[str, str | None]:
    """The versions of the packages that we need, None where one is missing."""
    from importlib import metadata  # noqa: PLC0415  # 20 ms

    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Everything outside that the checks ask; tests put their own in place.

    `wall_ms` gives wall-clock milliseconds, `root` is where /.dockerenv would be.
    """

    wall_ms: Callable[[], float]
    terminal: Terminal
    proc: ProcReader = field(default_factory=ProcReader)
    root: Path = Path("/")
    tail: Callable[[Path], tuple[bytes, float | None]] = tail_of
    journal: Callable[..., bytes] = journal_tail
    gpus: Callable[[], GpuInfo] = PynvmlReader
    ask: Callable[[Address, Callable[[], float]], bytes] = fetch
    packages: Callable[[], Mapping[str, str | None]] = installed
    patience_s: float = PATIENCE_S


# ---------------------------------------------------------------- all checks


def run_checks(asked: Asked, tools: Tools) -> list[Check]:
    """Look at everything, in the order in which a log becomes a picture."""
    now_ms = tools.wall_ms()
    daemons = find_daemons(tools.proc, asked.pid)
    choice = choose(daemons, asked.pid)
    daemon = choice.daemon
    named = asked.log is not None or asked.unit is not None
    checks = [check_daemon(choice, now_ms, named=named)]
    if daemon is not None:
        checks.append(check_config(daemon.config))
    checks += _log_checks(asked, choice, tools, now_ms)
    checks += check_gpus(_within(tools.patience_s, lambda: read_gpus(tools.gpus())))
    checks.append(check_container(tools.root, tools.proc, daemon))
    checks.append(_status_check(asked, daemon, tools, now_ms))
    checks += check_terminal(tools.terminal)
    checks.append(check_version(tools.packages(), sys.version_info[:3]))
    return checks


def _within(seconds: float, work: Callable[[], _T]) -> _T | None:
    """What `work` gives, None if it takes longer: a driver's call can't be called off."""
    answers: list[_T] = []
    thread = threading.Thread(target=lambda: answers.append(work()), daemon=True)
    thread.start()
    thread.join(timeout=seconds)
    return answers[0] if answers else None


# ---------------------------------------------------------------- the daemon


def check_daemon(choice: Choice, now_ms: float, *, named: bool) -> Check:
    """Whether one runs; `named`: the log was named, so that none need run."""
    daemon = choice.daemon
    if daemon is None:
        level: Level = "warning" if named else "failed"
        return Check(name="daemon", level=level, text=choice.text, mend=choice.hint)
    up = "" if daemon.started_ms is None else f", up {age(now_ms - daemon.started_ms)}"
    parts = [f"{daemon.title}{up}"]
    if daemon.unit is not None:
        parts.append(daemon.unit)
    if daemon.config.gpu_workers_per_device is not None:
        parts.append(f"{daemon.config.gpu_workers_per_device} workers a GPU")
    return _ok("daemon", ", ".join(parts))


def check_config(config: Config) -> Check:
    """What in the daemon's config makes its log, or our reading of it, differ."""
    shown = printable(str(config.path))
    if config.note:
        return (_ok if config.on_defaults else _warning)("config", config.note)
    if config.total_budget_bytes == MISREAD_BUDGET_BYTES and config.total_budget:
        budget = printable(config.total_budget)
        if budget.replace(" ", "") not in ("50GiB", "53687091200"):  # else 50 GiB are meant
            return _warning(
                "config",
                f"the daemon can't read total_budget = {budget!r} and takes 50 GiB",
                f'in {shown} write it as a whole number of GiB: "400GiB"',
            )
    if config.pipeline.get("enabled") is False:
        return _warning(
            "config",
            f"pipeline.enabled is false in {shown}: the log has no TIMELINE lines",
            "set pipeline.enabled = true and restart the daemon",
        )
    if config.changed_since_start:
        return _warning(
            "config",
            f"{shown} was changed after the daemon started: it may run on other values",
            "restart the daemon when it has no proof in flight",
        )
    return _ok("config", shown)


# ---------------------------------------------------------------- the log


def _log_checks(asked: Asked, found: Choice, tools: Tools, now_ms: float) -> Iterator[Check]:
    choice = _named(asked, found)
    if not choice.found:
        if choice.daemon is not None:  # else the first check has said it
            yield _failed("log", choice.text, choice.hint)
        return
    name = "journal" if choice.path is None else "log"
    written_ms: float | None = None
    try:
        if choice.path is None:
            tail = tools.journal(choice.unit, user=choice.user_unit)
        elif choice.path == Path("-") or is_stream(choice.path):
            yield _ok(name, "a stream: read once, so not looked into")
            return
        else:
            tail, written_ms = tools.tail(choice.path)
    except CuzktopError as error:
        yield _failed(name, error.message, error.hint)
        return
    yield check_log(choice, now_ms, written_ms)
    yield from check_text(tail, choice)


def _named(asked: Asked, found: Choice) -> Choice:
    """The log that was asked for; what is known of its daemon, if that is the one that runs."""
    if asked.log is not None and not _is_one_file(asked.log, found.path):
        return Choice(text=f"{printable(str(asked.log))} can be read", path=asked.log)
    if asked.log is None and asked.unit is not None and asked.unit != found.unit:
        return Choice(
            text=f"the journal of {asked.unit} can be read",
            unit=asked.unit,
            user_unit=asked.user_unit,
        )
    return found


def _is_one_file(path: Path, other: Path | None) -> bool:
    try:
        return other is not None and path.samefile(other)
    except OSError:
        return False


def check_log(choice: Choice, now_ms: float, written_ms: float | None) -> Check:
    """The log that was chosen, and when it was last written."""
    text = choice.text
    if written_ms is not None:
        text += f", written {age(now_ms - written_ms)} ago"
    return Check(
        name="journal" if choice.path is None else "log",
        level="warning" if choice.hint else "ok",
        text=text,
        mend=choice.hint,
    )


class Reading(NamedTuple):
    """The log's end, parsed."""

    counts: Counts
    run: Run
    coloured: bool


def read_text(tail: bytes) -> Reading:
    """Parse the log's end as every other command does."""
    scanner, model = LogScanner(), Model()
    model.feed(scanner.feed(tail))
    return Reading(scanner.counts, model.run, b"\x1b[" in tail)


def check_text(tail: bytes, choice: Choice) -> Iterator[Check]:
    """Streams, damage, generation, colours and clock of the log's end."""
    if not tail:
        yield _warning(
            "streams",
            "the log is empty: nothing to look at yet",
            "send the daemon a proof, then try again",
        )
        return
    reading = read_text(tail)
    yield check_streams(reading.counts, choice)
    if not _is_ours(reading.counts):
        return
    yield check_damage(reading.counts, choice.daemon)
    yield check_generation(reading.run)
    yield check_colours_of(coloured=reading.coloured)
    yield check_clock(reading)


def _is_ours(counts: Counts) -> bool:
    return bool(counts.timeline or counts.timing or counts.tracing)


def check_streams(counts: Counts, choice: Choice) -> Check:
    """Whether standard output (tracing) and standard error (TIMELINE, CUZK_TIMING) are there."""
    daemon = choice.daemon
    whole = daemon is not None and choice.sure and not choice.missing  # by where they go
    last = f"in the last {size(counts.bytes)}"
    seen = (
        f"{counts.timeline} TIMELINE, {counts.timing} CUZK_TIMING, {counts.tracing} tracing lines"
        f" {last}"
    )

    if not _is_ours(counts):
        return _failed("streams", f"none of cuzk's lines {last}", START_AGAIN)
    if not counts.timeline and not counts.timing:
        if daemon is not None and daemon.config.pipeline.get("enabled") is False:
            return _failed("streams", f"{seen}: the pipeline is off", "set pipeline.enabled = true")
        if whole:
            return _warning("streams", f"{seen}: no proof has run since it began")
        return _failed(
            "streams", f"{seen}: standard error is missing, or no proof ran", START_AGAIN
        )
    if not counts.tracing:
        quiet = None if daemon is None else _quiet_level(daemon)
        if quiet is not None:
            return _warning("streams", f"{seen}: {quiet} leaves them out", "set it to info")
        return _warning("streams", f"{seen}: standard output is missing", START_AGAIN)
    if not counts.timing:
        return _warning("streams", f"{seen}: no lock and kernel times until a GPU has proved")
    if not counts.timeline:
        return _warning("streams", f"{seen}: the daemon is older than S16, or its pipeline is off")
    return _ok("streams", f"both: {seen}")


def _quiet_level(daemon: Daemon) -> str | None:
    """The setting that leaves tracing lines out, if one does."""
    rust_log = daemon.rust_log or ""
    if rust_log:
        quiet = rust_log.split(",")[0] in ("warn", "error", "off")
        return f"RUST_LOG={printable(rust_log)}" if quiet else None
    level = daemon.config.log_level
    return f"the log level {level}" if level in ("warn", "error") else None


def check_damage(counts: Counts, daemon: Daemon | None) -> Check:
    """Lines that could not be used."""
    torn = f"{counts.torn} torn lines put together again" if counts.torn else "no torn line"
    if not counts.unparsed:
        return _ok("lines", f"{torn}, none lost")
    text = f"{counts.unparsed} of {counts.lines} lines can't be used, {torn}"
    twice = daemon is not None and daemon.two_opens
    mend = START_AGAIN if twice else "cuzktop report LOG names the first of them"
    return _warning("lines", text, mend)


def check_generation(run: Run) -> Check:
    """Which builds of the daemon print such lines, and what theirs lack."""
    if run.dialect is None:
        return _warning(
            "generation",
            "nothing in the log's end tells which build of the daemon wrote it",
            "look again when a partition has been proved",
        )
    if run.step_lo >= LOCK_LINES_FROM:
        return _ok("generation", f"{run.dialect}: lock times are printed")
    if run.step_hi >= LOCK_LINES_FROM:
        return _ok(
            "generation", f"{run.dialect}: whether lock times are printed shows once a GPU proves"
        )
    return _warning(
        "generation",
        f"{run.dialect}: lock waits aren't printed, lock and barrier times are worked out",
        "Curio 1.28.2 and newer have a daemon that prints them",
    )


def check_colours_of(*, coloured: bool) -> Check:
    """Whether the daemon colours its log: harmless, but longer."""
    if not coloured:
        return _ok("ansi", "lines carry no colour codes")
    return _ok(
        "ansi", "lines carry colour codes, which are taken out (NO_COLOR=1 makes the log smaller)"
    )


def check_clock(reading: Reading) -> Check:
    """Whether TIMELINE offsets can be put on the wall clock, where GPU readings are."""
    run = reading.run
    if run.epoch_us is not None and run.epoch_known:
        return _ok("clock", "the run's start line is there: times are exact")
    if run.epoch_us is not None:
        return _ok(
            "clock", "the run's start is worked out from pairs of lines: a few ms off at most"
        )
    if not reading.counts.timeline:
        return _ok("clock", "no TIMELINE lines: tracing lines have their own time")
    return _warning(
        "clock",
        "nothing ties TIMELINE to the wall clock: GPU readings can't be laid over it",
        f"keep standard output in the same log: {START_AGAIN}",
    )


# ---------------------------------------------------------------- GPUs


class GpuFindings(NamedTuple):
    """What NVML says of itself and of each card; `problem` if it can't be used.

    A mode is True, False, or None where the card has no such thing.
    """

    problem: str = ""
    mend: str = ""
    driver: str = ""
    names: tuple[str, ...] = ()
    persistence: tuple[bool | None, ...] = ()
    mig: tuple[bool | None, ...] = ()


def read_gpus(info: GpuInfo) -> GpuFindings:
    """Ask NVML; a card that doesn't answer is named so, and the others go on."""
    try:
        info.start()
        driver, count = info.driver_version(), info.gpu_count()
    except NvmlUnavailableError as error:
        problem, _, mend = str(error).rpartition(": ")  # it says what to do after the last colon
        return GpuFindings(problem=problem or mend, mend=mend if problem else ASK_DRIVER)
    except GpuReadError as error:
        return GpuFindings(problem=str(error), mend=ASK_DRIVER)
    except Exception as error:  # noqa: BLE001  # a broken library must not end the other checks
        return GpuFindings(problem=f"{type(error).__name__}: {error}", mend=ASK_DRIVER)
    names: list[str] = []
    modes: dict[NumberField, list[bool | None]] = {"persistence_mode": [], "mig_mode": []}
    for gpu in range(count):
        try:
            handle = info.find(gpu, None)
            names.append(printable(info.text(handle, "name")))
        except GpuReadError as error:
            names.append(f"no answer ({error})")
            for values in modes.values():
                values.append(None)
            continue
        for what, values in modes.items():
            try:
                values.append(info.number(handle, what) > 0)
            except GpuReadError:
                values.append(None)
    return GpuFindings(
        driver=driver,
        names=tuple(names),
        persistence=tuple(modes["persistence_mode"]),
        mig=tuple(modes["mig_mode"]),
    )


def check_gpus(found: GpuFindings | None) -> Iterator[Check]:
    """NVML and the driver, persistence mode, MIG. None: no answer in time."""
    if found is None:
        yield _warning("nvml", "the driver doesn't answer", ASK_DRIVER)
        return
    if found.problem:
        yield _warning("nvml", f"NVML can't be used: {found.problem}", found.mend)
        return
    if not found.names:
        yield _warning("nvml", f"driver {printable(found.driver)} lists no GPU", "nvidia-smi -L")
        return
    lost = any(name.startswith("no answer") for name in found.names)
    yield Check(
        name="nvml",
        level="warning" if lost else "ok",
        text=f"driver {printable(found.driver)}, {_counted(found.names)}",
        mend="nvidia-smi -q, and look for Xid in dmesg" if lost else "",
    )
    yield _persistence(found.persistence)
    yield _mig(found.mig)


def _counted(names: Sequence[str]) -> str:
    """`2 × NVIDIA H200`."""
    counts = {name: names.count(name) for name in names}
    return ", ".join(f"{count} × {name}" for name, count in counts.items())


def _gpus(modes: Sequence[bool | None], wanted: object) -> str:
    """`GPU 0 and GPU 2`: those whose mode is `wanted`."""
    return " and ".join(f"GPU {gpu}" for gpu, mode in enumerate(modes) if mode is wanted)


def _persistence(modes: Sequence[bool | None]) -> Check:
    off = _gpus(modes, wanted=False)
    if off:
        return _warning(
            "persistence",
            f"off on {off}: without a client the driver unloads, and each query wakes it",
            "sudo nvidia-smi -pm 1",
        )
    known = any(mode is not None for mode in modes)
    return _ok("persistence", "on" if known else "not told by this driver")


def _mig(modes: Sequence[bool | None]) -> Check:
    on = _gpus(modes, wanted=True)
    if on:
        return _warning(
            "mig",
            f"{on} run in slices: the driver gives no utilisation for them",
            "nvidia-smi -mig 0 when the card is idle, if nothing needs it",
        )
    known = any(mode is not None for mode in modes)
    return _ok("mig", "off" if known else "not on these cards")


# ---------------------------------------------------------------- surroundings


def check_container(root: Path, proc: ProcReader, daemon: Daemon | None) -> Check:
    """Whether we, or the daemon, are in a container: processes and paths then differ."""
    try:
        cgroup = proc.cgroup("self")
    except OSError:
        cgroup = ""
    marks = [name for name in (".dockerenv", "run/.containerenv") if _exists(root / name)]
    if marks or read_cgroup(cgroup)[2] is not None:
        level: Level = "warning" if daemon is None else "ok"
        return Check(
            name="container",
            level=level,
            text="cuzktop runs in a container and sees the processes in it alone",
            mend="run it on the machine itself, or with --pid host" if daemon is None else "",
        )
    if daemon is not None and daemon.container is not None:
        text = f"the daemon runs in container {daemon.container.ident}, cuzktop beside it"
        return _ok("container", text)
    return _ok("container", "none")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _status_check(asked: Asked, daemon: Daemon | None, tools: Tools, now_ms: float) -> Check:
    name = "status"
    if asked.status is not None:
        try:
            address: Address | None = parse_address(asked.status)
        except UsageError as error:
            return _failed(name, error.message, error.hint)
    else:
        address = None if daemon is None else address_of(daemon.config.status_listen)
    if address is None:
        return check_no_status(daemon)
    try:
        asked_ms = tools.wall_ms()
        body = tools.ask(address, tools.wall_ms)
        took_ms = max(0.0, tools.wall_ms() - asked_ms)
        status = parse_status(body)
    except StatusError as error:
        text, _, mend = str(error).partition(": ")
        if daemon is not None and daemon.same_network is False:
            mend = "the daemon is in a network of its own: ask its address with --status"
        return _warning(name, text, mend)
    return check_status(address, status.uptime_ms, took_ms, daemon, now_ms)


def check_no_status(daemon: Daemon | None) -> Check:
    """Nothing to ask: no daemon, or one whose status is off."""
    if daemon is None:
        return _ok("status", "no daemon to ask (name one with --status)")
    return _warning(
        "status",
        "off: memory budget, SRS and the scheduler's queue stay unknown",
        'set daemon.status_listen = "127.0.0.1:9821" at the next restart',
    )


def check_status(
    address: Address,
    uptime_ms: float | None,
    took_ms: float,
    daemon: Daemon | None,
    now_ms: float,
) -> Check:
    """An answer: whether it is this daemon's."""
    text = f"{address} answers in {duration(took_ms)}"
    started_ms = None if daemon is None else daemon.started_ms
    if uptime_ms is not None and started_ms is not None:
        differ_ms = abs(uptime_ms - (now_ms - started_ms))
        if differ_ms > SAME_START_MS:
            return _warning(
                "status",
                f"{text}, up {age(uptime_ms)}: that is another daemon's",
                "name the right one with --status",
            )
    return _ok("status", text)


# ---------------------------------------------------------------- terminal and program


def check_terminal(terminal: Terminal) -> Iterator[Check]:
    """Size, colours and encoding of the terminal."""
    columns, rows, term = terminal.columns, terminal.rows, terminal.term
    if columns is None or rows is None:
        yield _ok("terminal", "none: text only, as in a script")
        return
    if term in ("", "dumb"):
        yield _warning(
            "terminal",
            f"TERM={term or '(not set)'} can't place text: text is printed, no screen",
            "export TERM=xterm-256color",
        )
    elif columns < COLUMNS or rows < ROWS:
        yield _warning(
            "terminal",
            f"{columns} × {rows} is small: the overview wants {COLUMNS} × {ROWS}",
            "make the window larger, or its letters smaller",
        )
    else:
        yield _ok("terminal", f"{columns} × {rows}, TERM={printable(term)}")
    yield _ok("colours", _colours(terminal))
    if terminal.encoding.lower().replace("-", "").startswith("utf"):
        yield _ok("encoding", terminal.encoding)
    else:
        yield _warning(
            "encoding",
            f"{terminal.encoding} has no line characters: ASCII is drawn instead",
            "export LC_ALL=C.UTF-8",
        )


def _colours(terminal: Terminal) -> str:
    if terminal.no_color:
        return "none (NO_COLOR is set)"
    if terminal.colorterm in ("truecolor", "24bit"):
        return "16 million"
    if "256" in terminal.term:
        return "256"
    return "8 or 16: glyphs tell states apart"


def check_version(packages: Mapping[str, str | None], python: Sequence[int]) -> Check:
    """Ours, Python's, and the packages that we need."""
    running = ".".join(str(part) for part in python)
    missing = [name for name, version in packages.items() if version is None]
    text = f"cuzktop {__version__}, Python {running}"
    if missing:
        return _warning(
            "version",
            f"{text}, missing: {', '.join(missing)}",
            f"{Path(sys.executable).name} -m pip install {' '.join(missing)}",
        )
    others = ", ".join(f"{name} {version}" for name, version in packages.items())
    return _ok("version", f"{text}, {others}" if others else text)


# ---------------------------------------------------------------- --list


class DaemonRow(NamedTuple):
    """One running daemon, as `cuzktop --list` shows it. `up_ms` is None if it isn't known."""

    pid: int
    name: str
    up_ms: float | None
    log: str
    config: str
    status: str


def daemon_rows(daemons: Iterable[Daemon], now_ms: float) -> list[DaemonRow]:
    """The daemons that run, for a table."""
    rows = []
    for daemon in daemons:
        address = address_of(daemon.config.status_listen)
        rows.append(
            DaemonRow(
                pid=daemon.pid,
                name=daemon.name,
                up_ms=None if daemon.started_ms is None else now_ms - daemon.started_ms,
                log=where(daemon),
                config=printable(str(daemon.config.path)),
                status="off" if address is None else str(address),
            )
        )
    return rows
