"""Find the running daemon by /proc: where its two streams go, its config, and so its log.

`ProcReader` asks the system, `find_daemons` reads everything it tells about each daemon, `choose`
makes a decision of that without asking again. Nothing here raises for what a system hides or what
a process does meanwhile: what isn't known stays None, and `Choice.text` says why.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from cuzktop.dataclass import NamedTuple, dataclass, field, replace
from cuzktop.sources.host import DAEMON_NAMES

DEFAULT_CONFIG: Final = "/data/zk/cuzk.toml"
STDOUT, STDERR = 1, 2
MAX_CONFIG_BYTES = 1024 * 1024
MAX_PIPES = 3  # cuzk | ts | tee log: further it is no longer the daemon's log

START_SLACK_MS = 5000.0  # the kernel's boot time is in whole seconds, and moves with the clock
SUDO: Final = "sudo $(command -v cuzktop)"  # which sudo's own PATH may not have

_DELETED = " (deleted)"
_CONTAINER = re.compile(r"\b(docker|libpod|cri-containerd|crio|kubepods)\b.*\b([0-9a-f]{64})\b")
_LOGS_BY = {"docker": "docker", "libpod": "podman"}  # and crictl for the others
_CARRIERS = ("conmon", "containerd-shim", "dockerd")
"""Programs that read a container's streams; comm cuts their names at 15 characters."""

StreamKind = Literal["file", "pipe", "socket", "null", "tty", "closed", "hidden", "other"]


# ---------------------------------------------------------------- what is known of a daemon


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Where one of the daemon's streams goes. `target` is /proc's own word for it.

    `path` is where *we* can read it: the file itself, or the one that the pipe's `reader` writes.
    `hidden`: only its owner and root may know.
    """

    kind: StreamKind
    target: str = ""
    path: Path | None = None
    deleted: bool = False  # the name is gone, the daemon writes on
    appends: bool | None = None  # of a file: each write goes to its end
    offset: int | None = None
    reader: str = ""  # the program at the pipe's other end: "tee (pid 12)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the daemon's config file states; None is not stated (or of a wrong type).

    `note` is a sentence on a file that is missing, unreadable or no TOML. `total_budget_bytes` is
    what the daemon makes of `total_budget`: anything it can't read becomes 50 GiB.
    """

    path: Path
    note: str = ""
    on_defaults: bool = False  # there is no such file
    listen: str | None = None
    status_listen: str | None = None
    devices: tuple[int, ...] | None = None
    gpu_workers_per_device: int | None = None
    total_budget: str | None = None
    total_budget_bytes: int | None = None  # None also for `auto`
    log_level: str | None = None
    pipeline: Mapping[str, object] = field(default_factory=dict)
    changed_since_start: bool | None = None


class Container(NamedTuple):
    """The container that a process runs in; `tool` is the program that prints its log."""

    tool: str  # docker, podman, crictl
    ident: str  # as short as the tools print it


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """One running daemon. `started_ms` is wall-clock ms; None is what /proc doesn't tell us."""

    pid: int
    name: str
    command: tuple[str, ...] = ()
    cwd: str | None = None
    started_ms: float | None = None
    stdout: Stream
    stderr: Stream
    unit: str | None = None
    user_unit: bool = False  # of a user's own service manager
    container: Container | None = None
    same_network: bool | None = None  # its 127.0.0.1 is ours
    seen_by_root: bool = False  # what is hidden stays so: sudo tells no more
    config: Config
    no_color: bool | None = None
    rust_log: str | None = None  # "" when it isn't set, None when we may not know

    @property
    def hidden(self) -> bool:
        """Whether we may not see where it writes."""
        return "hidden" in (self.stdout.kind, self.stderr.kind)

    @property
    def title(self) -> str:
        """How messages name it."""
        return f"{self.name} (pid {self.pid})"

    @property
    def two_opens(self) -> bool:
        """Both streams were opened onto one file, each at its own place: they overwrite each other.

        (`> f 2> f` instead of `> f 2>&1`.)
        """
        out, err = self.stdout, self.stderr
        return (
            out.kind == err.kind == "file"
            and out.target == err.target
            and out.appends is False
            and err.appends is False
            and out.offset != err.offset
        )


# ---------------------------------------------------------------- /proc


class _Status(NamedTuple):
    state: str
    started_ticks: int


class ProcReader:
    """/proc of Linux. `root` is another folder in tests. Methods raise OSError where it does."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        """Ask nothing yet."""
        self.root = root
        self.as_root = os.geteuid() == 0  # may look at every process, as far as the system lets it

    def pids(self) -> list[int]:
        """Every process that we may see."""
        return self._numbers(self.root)

    def comm(self, pid: int) -> str:
        """Its name as the kernel keeps it: 15 bytes."""
        return self._text(pid, "comm").rstrip("\n")

    def command(self, pid: int) -> tuple[str, ...]:
        """Its arguments, the program's name first."""
        return tuple(self._text(pid, "cmdline").rstrip("\0").split("\0"))

    def environ(self, pid: int) -> dict[str, str]:
        """The environment that it was started with."""
        pairs = (item.split("=", 1) for item in self._text(pid, "environ").split("\0"))
        return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}

    def status(self, pid: int) -> _Status:
        """Its state (`Z` is a zombie) and its start in clock ticks (proc(5), stat fields 3, 22).

        Raises ValueError if the kernel's line is no such line.
        """
        fields = self._text(pid, "stat").rpartition(")")[2].split()
        if len(fields) < 20:
            message = "stat has too few fields"
            raise ValueError(message)
        return _Status(fields[0], int(fields[19]))

    def started_ms(self, pid: int) -> float | None:
        """When it started, in wall-clock ms; None if that can't be worked out."""
        try:
            ticks = self.status(pid).started_ticks
            text = (self.root / "stat").read_text("ascii", "replace")
            boot_s = int(text.split("\nbtime ", 1)[1].split(None, 1)[0])
        except (OSError, ValueError, IndexError):
            return None
        return 1000.0 * (boot_s + ticks / os.sysconf("SC_CLK_TCK"))

    def cgroup(self, pid: int | str) -> str:
        """Its control group's path; everybody may read it."""
        lines = [line.split(":", 2) for line in self._text(pid, "cgroup").splitlines()]
        paths = {line[1]: line[2] for line in lines if len(line) == 3}
        found = [paths.get("", ""), paths.get("name=systemd", ""), *paths.values()]
        return next((path for path in found if path not in ("", "/")), "")

    def link(self, pid: int | str, name: str) -> str:
        """What `/proc/PID/name` points to."""
        return os.readlink(f"{self.root}/{pid}/{name}")  # noqa: PTH115  # pipe:[1] is no path

    def fds(self, pid: int) -> list[int]:
        """Its open descriptors."""
        return self._numbers(self.root / str(pid) / "fd")

    def fd_info(self, pid: int, fd: int) -> tuple[int, int]:
        """A descriptor's offset and open(2) flags. Raises ValueError if they aren't there."""
        lines = self._text(pid, f"fdinfo/{fd}").splitlines()
        pairs = dict(line.split(":", 1) for line in lines if ":" in line)
        try:
            return int(pairs["pos"]), int(pairs["flags"], 8)
        except KeyError as error:
            message = f"fdinfo has no {error}"
            raise ValueError(message) from None

    def reach(self, pid: int, fd: int, target: str) -> Path:
        """Where we can open the file that is a process's `fd`, which it knows as `target`.

        The name itself; the same below its root (a container); at worst the descriptor, which
        reads on although the name is gone.
        """
        own = self.root / str(pid) / "fd" / str(fd)
        try:
            wanted = own.stat()
            for path in (Path(target), self.inside(pid, target)):
                if _is_same(path, wanted):
                    return path
        except OSError:
            return Path(target)
        return own

    def inside(self, pid: int, path: str) -> Path:
        """A process's own `path`, seen from here."""
        return Path(f"{self.root}/{pid}/root{path}")

    @staticmethod
    def _numbers(folder: Path) -> list[int]:
        with os.scandir(folder) as entries:
            return sorted(int(entry.name) for entry in entries if entry.name.isdigit())

    def _text(self, pid: int | str, name: str) -> str:
        with open(f"{self.root}/{pid}/{name}", "rb") as file:  # noqa: PTH123  # many a search
            return file.read().decode("utf-8", "surrogateescape")


def _is_same(path: Path, wanted: os.stat_result) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    return os.path.samestat(found, wanted)


# ---------------------------------------------------------------- finding


def find_daemons(reader: ProcReader, pid: int | None = None) -> tuple[Daemon, ...]:
    """Every running process that is named as the daemon is, by pid; with `pid` that one alone.

    A process that is asked for by `pid` may have any name.
    """
    try:
        pids = reader.pids() if pid is None else [pid]
    except OSError:
        return ()
    names = {name[:15] for name in DAEMON_NAMES}
    found = []
    for one in pids:
        try:
            name = reader.comm(one)
            if pid is None and name not in names:
                continue
            if reader.status(one).state in ("Z", "X"):
                continue
            found.append(_read_daemon(reader, one, name))
        except (OSError, ValueError):  # it ended meanwhile
            continue
    return tuple(found)


def _read_daemon(reader: ProcReader, pid: int, name: str) -> Daemon:
    command = reader.command(pid)
    started_ms = reader.started_ms(pid)
    unit, user_unit, container = read_cgroup(_try_text(reader.cgroup, pid))
    environ = _environ(reader, pid)
    cwd = _link(reader, pid, "cwd")
    return Daemon(
        pid=pid,
        name=printable(name),
        command=command,
        cwd=cwd,
        started_ms=started_ms,
        stdout=_read_stream(reader, pid, STDOUT),
        stderr=_read_stream(reader, pid, STDERR),
        unit=unit,
        user_unit=user_unit,
        container=container,
        same_network=_same_namespace(reader, pid, "ns/net"),
        seen_by_root=reader.as_root,
        config=_config_of(reader, pid, command, cwd, started_ms),
        no_color=None if environ is None else bool(environ.get("NO_COLOR")),
        rust_log=None if environ is None else environ.get("RUST_LOG", ""),
    )


def _try_text(read: Callable[[int], str], pid: int) -> str:
    try:
        return read(pid)
    except OSError:
        return ""


def _environ(reader: ProcReader, pid: int) -> dict[str, str] | None:
    try:
        return reader.environ(pid)
    except OSError:
        return None


def _link(reader: ProcReader, pid: int | str, name: str) -> str | None:
    try:
        return reader.link(pid, name)
    except OSError:
        return None


def _same_namespace(reader: ProcReader, pid: int, name: str) -> bool | None:
    ours, its = _link(reader, "self", name), _link(reader, pid, name)
    return None if ours is None or its is None else ours == its


def read_cgroup(path: str) -> tuple[str | None, bool, Container | None]:
    """(systemd unit, whether a user's manager has it, container) that a cgroup's path names."""
    container = _CONTAINER.search(path)
    if container is not None:
        return None, False, Container(_LOGS_BY.get(container[1], "crictl"), container[2][:12])
    unit, user = None, False
    for part in path.split("/"):
        if re.fullmatch(r"user@\d+\.service", part):
            user, unit = True, None
        elif part.endswith(".service"):
            unit = part
    return unit, user and unit is not None, None


def printable(text: str) -> str:
    """Text of a process or a file that may go to a terminal."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )


# ---------------------------------------------------------------- streams


def _read_stream(reader: ProcReader, pid: int, fd: int) -> Stream:
    try:
        target = reader.link(pid, f"fd/{fd}")
    except FileNotFoundError:
        return Stream(kind="closed")
    except OSError:
        return Stream(kind="hidden")
    kind = _kind(reader, pid, fd, target)
    if kind == "file":
        return _file_stream(reader, pid, fd, target)
    if kind == "pipe":
        return _pipe_stream(reader, pid, target)
    return Stream(kind=kind, target=target)


def _kind(reader: ProcReader, pid: int, fd: int, target: str) -> StreamKind:
    if target.startswith("pipe:["):
        return "pipe"
    if target.startswith("socket:["):
        return "socket"
    if target == "/dev/null":
        return "null"
    if target.startswith(("/dev/pts/", "/dev/tty", "/dev/console")):
        return "tty"
    try:
        mode = (reader.root / str(pid) / "fd" / str(fd)).stat().st_mode
    except OSError:
        return "file" if target.startswith("/") else "other"
    if stat.S_ISFIFO(mode):
        return "pipe"
    return "file" if stat.S_ISREG(mode) else "other"


def _file_stream(reader: ProcReader, pid: int, fd: int, target: str) -> Stream:
    try:
        offset, flags = reader.fd_info(pid, fd)
    except (OSError, ValueError):
        offset, flags = None, None
    deleted = target.endswith(_DELETED)
    name = target.removesuffix(_DELETED)
    return Stream(
        kind="file",
        target=name,
        path=reader.reach(pid, fd, target),
        deleted=deleted,
        appends=None if flags is None else bool(flags & os.O_APPEND),
        offset=offset,
    )


def _pipe_stream(reader: ProcReader, pid: int, target: str) -> Stream:
    """A pipe, and the file that the program at its other end writes, if both can be found."""
    found = Stream(kind="pipe", target=target)
    seen = {pid}
    for _ in range(MAX_PIPES):
        other = _pipe_reader(reader, target, seen)
        if other is None:
            return found
        seen.add(other)
        name = printable(_try_text(reader.comm, other))
        found = Stream(kind="pipe", target=found.target, reader=f"{name} (pid {other})")
        if name.startswith(_CARRIERS):
            return found
        further = ""
        for fd, where in _written(reader, other):
            if _kind(reader, other, fd, where) == "file":
                return Stream(
                    kind="pipe",
                    target=found.target,
                    path=reader.reach(other, fd, where),
                    deleted=where.endswith(_DELETED),
                    reader=found.reader,
                )
            if fd == STDOUT and where.startswith("pipe:["):
                further = where
        if not further:
            return found
        target = further
    return found


def _pipe_reader(reader: ProcReader, target: str, seen: set[int]) -> int | None:
    """The process that reads the pipe; it mostly has it as standard input."""
    try:
        pids = [pid for pid in reader.pids() if pid not in seen]
    except OSError:
        return None
    for pid in pids:
        if _link(reader, pid, "fd/0") == target:
            return pid
    for pid in pids:
        for fd in _fds(reader, pid):
            if fd > STDERR and _link(reader, pid, f"fd/{fd}") == target:
                access = _access(reader, pid, fd)
                if access is not None and access != os.O_WRONLY:
                    return pid
    return None


def _written(reader: ProcReader, pid: int) -> Iterator[tuple[int, str]]:
    """What a process writes: the files it opened itself, then its standard output.

    What it complains of on standard error is no log.
    """
    fds = _fds(reader, pid)
    for fd in [*(fd for fd in fds if fd > STDERR), *(fd for fd in fds if fd == STDOUT)]:
        where = _link(reader, pid, f"fd/{fd}")
        access = _access(reader, pid, fd)
        if where and access is not None and access != os.O_RDONLY:
            yield fd, where


def _fds(reader: ProcReader, pid: int) -> Sequence[int]:
    try:
        return reader.fds(pid)
    except (OSError, ValueError):
        return ()


def _access(reader: ProcReader, pid: int, fd: int) -> int | None:
    try:
        return reader.fd_info(pid, fd)[1] & os.O_ACCMODE
    except (OSError, ValueError):
        return None


# ---------------------------------------------------------------- config


def config_path(command: Sequence[str]) -> str:
    """The config file that the daemon's arguments name, as they name it."""
    return _option(command, "--config", "-c") or DEFAULT_CONFIG


def _option(command: Sequence[str], long: str, short: str | None = None) -> str | None:
    """An option's value, in whichever way it is written; the last one counts."""
    value = None
    arguments = iter(command[1:])
    for word in arguments:
        if word in (long, short):
            value = next(arguments, None)
        elif word.startswith(f"{long}="):
            value = word[len(long) + 1 :]
        elif short is not None and word.startswith(short):
            value = word[len(short) :].removeprefix("=")
    return value


def _config_of(
    reader: ProcReader, pid: int, command: Sequence[str], cwd: str | None, started_ms: float | None
) -> Config:
    name = config_path(command)
    if not name.startswith("/"):
        if cwd is None:
            note = f"the config {printable(name)} lies in a folder that we may not know: use sudo"
            return Config(path=Path(name), note=note)
        name = f"{cwd}/{name}"
    path = Path(name)
    if _same_namespace(reader, pid, "ns/mnt") is False:
        inside = reader.inside(pid, name)
        try:
            if not _is_same(path, inside.stat()):
                path = inside  # the daemon's file system isn't ours
        except OSError:
            pass
    config = read_config(path)
    return replace(
        config,
        listen=_option(command, "--listen", "-l") or config.listen,
        log_level=_option(command, "--log-level") or config.log_level,
        changed_since_start=_changed(path, started_ms),
    )


def _changed(path: Path, started_ms: float | None) -> bool | None:
    try:
        if started_ms is None:
            return None
        return path.stat().st_mtime * 1000.0 > started_ms + START_SLACK_MS
    except OSError:
        return None


def read_config(path: Path) -> Config:
    """What the file at `path` states; a file that can't be used says why in `note`."""
    shown = printable(str(path))
    try:
        with path.open("rb") as file:
            text = file.read(MAX_CONFIG_BYTES)
    except FileNotFoundError:
        note = f"no config {shown}: the daemon runs on its defaults"
        return Config(path=path, note=note, on_defaults=True)
    except PermissionError:
        return Config(path=path, note=f"may not read the config {shown}: use sudo")
    except OSError as error:
        return Config(path=path, note=f"can't read the config {shown}: {error.strerror}")
    try:
        return parse_config(path, tomllib.loads(text.decode("utf-8")))
    except (ValueError, RecursionError) as error:  # no UTF-8, no TOML
        why = printable(" ".join(str(error).split()))
        return Config(path=path, note=f"the config {shown} is no TOML: {why}")


def parse_config(path: Path, table: Mapping[str, object]) -> Config:
    """The keys that we know, of whatever types the file has them in."""
    daemon, gpus, memory = (_table(table, name) for name in ("daemon", "gpus", "memory"))
    budget = memory.get("total_budget")
    if isinstance(budget, int) and not isinstance(budget, bool):
        budget = str(budget)
    devices = gpus.get("devices")
    return Config(
        path=path,
        listen=_text(daemon, "listen"),
        status_listen=_text(daemon, "status_listen"),
        devices=(
            tuple(devices)
            if isinstance(devices, list) and all(type(device) is int for device in devices)
            else None
        ),
        gpu_workers_per_device=_whole(gpus, "gpu_workers_per_device"),
        total_budget=budget if isinstance(budget, str) else None,
        total_budget_bytes=budget_bytes(budget) if isinstance(budget, str) else None,
        log_level=_text(_table(table, "logging"), "level"),
        pipeline=dict(_table(table, "pipeline")),
    )


def _table(table: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = table.get(name)
    return value if isinstance(value, dict) else {}


def _text(table: Mapping[str, object], name: str) -> str | None:
    value = table.get(name)
    return value if isinstance(value, str) else None


def _whole(table: Mapping[str, object], name: str) -> int | None:
    value = table.get(name)
    return value if type(value) is int else None


_UNITS: Final = {"GiB": 1 << 30, "MiB": 1 << 20, "GB": 10**9, "MB": 10**6, "": 1}
_SIZE = re.compile(r"\s*(\d+)\s*(GiB|MiB|GB|MB|)\s*")
MISREAD_BUDGET_BYTES: Final = 50 << 30  # what the daemon makes of a size that it can't read


def budget_bytes(text: str) -> int | None:
    """`memory.total_budget` in bytes as the daemon reads it; None for `auto`."""
    if text.strip() == "auto":
        return None
    found = _SIZE.fullmatch(text)
    return MISREAD_BUDGET_BYTES if found is None else int(found[1]) * _UNITS[found[2]]


# ---------------------------------------------------------------- choosing


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which log to read: a file, or a unit's journal; neither, and `text` says why.

    `missing` is the half of the log that goes elsewhere ("" for none), `hint` what to do about
    whatever is wrong, a command where there is one. `sure` is False where it is a guess.
    """

    text: str
    hint: str = ""
    daemon: Daemon | None = None
    path: Path | None = None
    unit: str | None = None
    user_unit: bool = False
    missing: str = ""
    sure: bool = True

    @property
    def found(self) -> bool:
        """Whether there is something to read."""
        return self.path is not None or self.unit is not None


NO_DAEMON_HINT: Final = (
    "cuzktop LOG, or journalctl -u cuzk -f -o cat | cuzktop -, or cuzktop --demo;"
    f" if another user's daemon runs: {SUDO}"
)
BOTH_STREAMS: Final = "start it with  >> cuzk.log 2>&1"
_NAMES: Final = ("standard output", "standard error")
_LOST: Final = (
    "no job and no synthesis lines",
    "no brackets, no lock and no kernel times",
)
"""What the log lacks without its standard output, without its standard error."""


def choose(daemons: Sequence[Daemon], pid: int | None = None) -> Choice:
    """The log of the daemon that runs, or of process `pid`, from what `find_daemons` found."""
    if pid is not None:
        daemons = [daemon for daemon in daemons if daemon.pid == pid]
        if not daemons:
            return Choice(
                text=f"no process {pid} that we may look at",
                hint="cuzktop --list shows the daemons that run, sudo those of other users",
            )
    if not daemons:
        names = " or ".join(reversed(DAEMON_NAMES))
        return Choice(text=f"no process named {names} runs here", hint=NO_DAEMON_HINT)
    if len(daemons) > 1:
        listed = "; ".join(f"pid {daemon.pid} → {where(daemon)}" for daemon in daemons)
        return Choice(
            text=f"{len(daemons)} daemons run: {listed}",
            hint=f"choose one, like cuzktop --pid {daemons[0].pid}",
        )
    return _log_of(daemons[0])


def where(daemon: Daemon) -> str:
    """Where its log goes, in a few words."""
    choice = _log_of(daemon)
    if choice.path is not None:
        return printable(str(choice.path))
    if choice.unit is not None:
        return f"journal of {choice.unit}"
    if daemon.hidden:
        return "unknown" if daemon.seen_by_root else "unknown (sudo)"
    return _goes(daemon.stderr)


def _goes(stream: Stream) -> str:
    """Where a stream goes, in words."""
    match stream.kind:
        case "closed":
            return "nowhere (it is closed)"
        case "hidden":
            return "where only root and its owner may see"
        case "tty":
            return f"the terminal {printable(stream.target)}"
        case "pipe":
            return f"a pipe to {stream.reader}" if stream.reader else "a pipe"
        case "socket":
            return "a socket"
        case _:
            return printable(stream.target) or "an unknown place"


def _log_of(daemon: Daemon) -> Choice:
    out, err = daemon.stdout, daemon.stderr
    if daemon.hidden:
        return _hidden(daemon)
    if daemon.container is not None and "pipe" in (out.kind, err.kind):
        return _in_container(daemon, daemon.container)
    for stream in (err, out):  # what standard error has says more about the GPU
        if stream.path is not None:
            return _files(daemon)
        if stream.kind == "socket":
            return _journal(daemon)
    return _nowhere(daemon)


def _hidden(daemon: Daemon) -> Choice:
    """Only root may see the descriptors, if anybody; that it is a unit everybody may."""
    sudo = "run it with sudo to see where the daemon writes"
    if daemon.seen_by_root:
        sudo = "if it is empty, name the log: cuzktop LOG"
        if daemon.unit is None:
            return Choice(
                text=f"{daemon.title} runs, and the system tells not even root where it writes",
                hint="name its log: cuzktop LOG",
                daemon=daemon,
            )
    if daemon.unit is None:
        return Choice(
            text=f"{daemon.title} runs, and only root and its owner may see where it writes",
            hint=SUDO,
            daemon=daemon,
        )
    return Choice(
        text=f"{daemon.title} is {daemon.unit}: its journal, unless that unit writes to a file",
        hint=sudo,
        daemon=daemon,
        unit=daemon.unit,
        user_unit=daemon.user_unit,
        sure=False,
    )


def _in_container(daemon: Daemon, container: Container) -> Choice:
    return Choice(
        text=f"{daemon.title} runs in container {container.ident}, which keeps its log",
        hint=f"{container.tool} logs -f --tail 20000 {container.ident} 2>&1 | cuzktop -",
        daemon=daemon,
    )


def _files(daemon: Daemon) -> Choice:
    """One of its streams, or both, end in a file."""
    out, err = daemon.stdout, daemon.stderr
    main = err if err.path is not None else out
    path = printable(main.target if main.deleted and main.kind == "file" else str(main.path))
    notes, hint = [], ""
    if main.deleted:
        notes.append("whose name is gone: it was deleted or rotated, and the daemon writes on")
        hint = "rotate it with copytruncate, or restart the daemon"
    if main.reader:
        notes.append(f"through {main.reader}")
    tail = "".join(f", {note}" for note in notes)
    if _is_one_place(out, err):
        text = f"{daemon.title} writes to {path}{tail}"
        if daemon.two_opens:
            text += ", opened twice: its two streams overwrite each other"
            hint = f"{BOTH_STREAMS}, not with  > cuzk.log 2> cuzk.log"
        return Choice(text=text, hint=hint, daemon=daemon, path=main.path)
    lost = 0 if main is err else 1
    other = (out, err)[lost]
    return Choice(
        text=(
            f"{daemon.title} writes its {_NAMES[1 - lost]} to {path}{tail}, its {_NAMES[lost]} to"
            f" {_other_place(daemon, other)}: {_LOST[lost]}"
        ),
        hint=BOTH_STREAMS,
        daemon=daemon,
        path=main.path,
        missing=_NAMES[lost],
    )


def _is_one_place(out: Stream, err: Stream) -> bool:
    """Whether both streams end in the same place."""
    if out.path is not None and out.path == err.path:
        return True
    return out.kind == err.kind and out.target == err.target


def _other_place(daemon: Daemon, stream: Stream) -> str:
    if stream.path is not None:
        return printable(str(stream.path))
    if stream.kind == "socket" and daemon.unit is not None:
        return f"the journal of {daemon.unit}"
    return _goes(stream)


def _journal(daemon: Daemon) -> Choice:
    out, err = daemon.stdout, daemon.stderr
    if daemon.unit is None:
        return Choice(
            text=f"{daemon.title} writes to a socket and is no systemd unit",
            hint=f"if that is the journal: journalctl -f -a -o cat _PID={daemon.pid} | cuzktop -",
            daemon=daemon,
        )
    missing, text, hint = "", f"{daemon.title} writes to the journal of {daemon.unit}", ""
    if out.kind != err.kind:
        lost = 0 if err.kind == "socket" else 1
        missing, hint = _NAMES[lost], "set StandardOutput=journal and StandardError=inherit"
        text += f", its {missing} to {_goes((out, err)[lost])}: {_LOST[lost]}"
    return Choice(
        text=text,
        hint=hint,
        daemon=daemon,
        unit=daemon.unit,
        user_unit=daemon.user_unit,
        missing=missing,
    )


def _nowhere(daemon: Daemon) -> Choice:
    out, err = daemon.stdout, daemon.stderr
    if _is_one_place(out, err):
        text = f"{daemon.title} writes its log to {_goes(err)}, from where it can't be read"
    else:
        text = (
            f"{daemon.title} writes its standard output to {_goes(out)} and its standard error to"
            f" {_goes(err)}, from where they can't be read"
        )
    return Choice(text=text, hint=BOTH_STREAMS, daemon=daemon)
