"""Which daemons run, where their log goes, and what is said when it can't be found."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzktop.sources import discovery
from cuzktop.sources.discovery import (
    DEFAULT_CONFIG,
    Choice,
    Container,
    Daemon,
    ProcReader,
    budget_bytes,
    choose,
    config_path,
    find_daemons,
    read_cgroup,
    read_config,
    where,
)
from tests.sources.machine import APPEND, READ, SHELL, STARTED_MS, SYSTEM_UNIT, WRITE, Machine

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "cuzk.log"
    path.touch()
    return path


def refuse(*refused: str) -> Callable[[ProcReader, int | str, str], str]:
    """A `link` that may not read a process's `refused` entries."""
    plain = ProcReader.link

    def link(reader: ProcReader, pid: int | str, name: str) -> str:
        if pid != "self" and name.startswith(refused):
            raise PermissionError(13, "Permission denied")
        return plain(reader, pid, name)

    return link


def found(machine: Machine, pid: int | None = None) -> Choice:
    return choose(find_daemons(machine.reader, pid), pid)


# ---------------------------------------------------------------- which processes


def test_daemons_are_found_by_name_and_others_are_not(machine: Machine, log: Path) -> None:
    machine.start(30, "cuzk-daemon", fds={1: log, 2: log})
    machine.start(20, "cuzk", fds={1: log, 2: log})
    machine.start(10, "cuzk-bench", fds={1: log})
    machine.start(40, "cuzktop", fds={1: log})
    machine.start(50, "cuzk", fds={}, state="Z")
    assert [(daemon.pid, daemon.name) for daemon in find_daemons(machine.reader)] == [
        (20, "cuzk"),
        (30, "cuzk-daemon"),
    ]


def test_what_a_daemon_is(machine: Machine, tmp_path: Path, log: Path) -> None:
    machine.start(
        42,
        fds={1: log, 2: log},
        command=("cuzk", "-c", "own.toml"),
        cgroup=SYSTEM_UNIT,
        environ={"NO_COLOR": "1", "RUST_LOG": "warn", "PATH": "/bin"},
        cwd=tmp_path,
    )
    (tmp_path / "own.toml").write_text('[daemon]\nstatus_listen = "0.0.0.0:9821"\n')
    [daemon] = find_daemons(machine.reader)
    assert daemon.command == ("cuzk", "-c", "own.toml")
    assert daemon.cwd == str(tmp_path)
    assert daemon.started_ms == STARTED_MS
    assert (daemon.unit, daemon.user_unit, daemon.container) == ("cuzk.service", False, None)
    assert (daemon.no_color, daemon.rust_log) == (True, "warn")
    assert daemon.same_network is True
    assert daemon.config.status_listen == "0.0.0.0:9821"
    assert daemon.config.path == tmp_path / "own.toml"


def test_an_empty_no_color_colours(machine: Machine, log: Path) -> None:
    machine.start(42, fds={1: log}, environ={"NO_COLOR": ""})
    [daemon] = find_daemons(machine.reader)
    assert (daemon.no_color, daemon.rust_log) == (False, "")


def test_a_process_that_ends_meanwhile_is_left_out(machine: Machine, log: Path) -> None:
    machine.start(42, fds={1: log, 2: log})
    machine.start(43, fds={1: log, 2: log})
    (machine.proc / "42" / "stat").unlink()
    (machine.proc / "43" / "stat").write_text("43 (cuzk) S")
    assert find_daemons(machine.reader) == ()


def test_a_process_of_any_name_can_be_asked_for(machine: Machine, log: Path) -> None:
    machine.start(42, "prover", fds={1: log, 2: log})
    assert not found(machine).found
    assert found(machine, pid=42).path == log


def test_without_proc_nothing_is_found(tmp_path: Path) -> None:
    assert find_daemons(ProcReader(tmp_path / "none")) == ()


# ---------------------------------------------------------------- which log


@pytest.mark.parametrize("flags", [WRITE, APPEND])
def test_both_streams_in_one_file(machine: Machine, log: Path, flags: int) -> None:
    machine.start(42, fds={1: (log, flags, 700), 2: (log, flags, 700)})
    choice = found(machine)
    assert choice == Choice(text=f"cuzk (pid 42) writes to {log}", daemon=choice.daemon, path=log)


def test_a_file_opened_twice_is_no_reliable_log(machine: Machine, log: Path) -> None:
    machine.start(42, fds={1: (log, WRITE, 700), 2: (log, WRITE, 90)})
    choice = found(machine)
    assert choice.path == log
    assert "overwrite each other" in choice.text
    assert "2>&1" in choice.hint


@pytest.mark.parametrize(
    ("fd", "missing", "lost"),
    [(1, "standard error", "no brackets"), (2, "standard output", "no job")],
)
def test_one_stream_in_a_file_says_which_half_is_missing(
    machine: Machine, log: Path, fd: int, missing: str, lost: str
) -> None:
    machine.start(42, fds={fd: log, 3 - fd: "/dev/pts/0"})
    choice = found(machine)
    assert (choice.path, choice.missing) == (log, missing)
    assert f"its {missing} to the terminal /dev/pts/0: {lost}" in choice.text
    assert "2>&1" in choice.hint


def test_of_two_files_standard_error_says_more(machine: Machine, log: Path, tmp_path: Path) -> None:
    other = tmp_path / "err.log"
    other.touch()
    machine.start(42, fds={1: log, 2: other})
    choice = found(machine)
    assert (choice.path, choice.missing) == (other, "standard output")
    assert str(log) in choice.text


def test_the_journal_of_its_unit(machine: Machine) -> None:
    machine.start(42, fds={1: "socket:[77]", 2: "socket:[77]"}, cgroup=SYSTEM_UNIT)
    choice = found(machine)
    assert (choice.unit, choice.user_unit, choice.path) == ("cuzk.service", False, None)
    assert choice.text == "cuzk (pid 42) writes to the journal of cuzk.service"
    assert choice.sure
    assert choice.missing == ""


def test_a_unit_that_keeps_standard_error_elsewhere(machine: Machine, log: Path) -> None:
    machine.start(42, fds={1: "socket:[77]", 2: log}, cgroup=SYSTEM_UNIT)
    machine.start(43, fds={1: log, 2: "socket:[77]"}, cgroup=SYSTEM_UNIT)
    machine.start(44, fds={1: "socket:[7]", 2: "/dev/null"}, cgroup=SYSTEM_UNIT)
    split, other, lost = (found(machine, pid) for pid in (42, 43, 44))
    assert (split.path, split.missing) == (log, "standard output")
    assert "the journal of cuzk.service" in split.text
    assert (other.unit, other.missing) == ("cuzk.service", "standard output")
    assert (lost.unit, lost.missing) == ("cuzk.service", "standard error")
    assert "/dev/null: no brackets" in lost.text


def test_a_socket_outside_a_unit_is_no_journal_that_we_know(machine: Machine) -> None:
    machine.start(42, fds={1: "socket:[77]", 2: "socket:[77]"}, cgroup=SHELL)
    choice = found(machine)
    assert not choice.found
    assert "_PID=42" in choice.hint


@pytest.mark.parametrize(
    ("target", "words"),
    [("/dev/null", "/dev/null"), ("/dev/pts/3", "the terminal /dev/pts/3"), ("pipe:[9]", "a pipe")],
)
def test_a_log_that_goes_where_nobody_can_read_it(
    machine: Machine, target: str, words: str
) -> None:
    machine.start(42, fds={1: target, 2: target})
    choice = found(machine)
    assert not choice.found
    assert choice.text == f"cuzk (pid 42) writes its log to {words}, from where it can't be read"
    assert "2>&1" in choice.hint


def test_closed_streams(machine: Machine) -> None:
    machine.start(42, fds={2: "/dev/null"})
    choice = found(machine)
    assert "its standard output to nowhere (it is closed)" in choice.text
    assert "/dev/null" in choice.text


# ---------------------------------------------------------------- pipes


def test_a_pipe_to_tee_is_followed_to_its_file(machine: Machine, log: Path) -> None:
    machine.start(42, fds={1: "pipe:[9]", 2: "pipe:[9]"})
    machine.start(
        43, "tee", fds={0: "pipe:[9]", 1: ("/dev/pts/0", WRITE), 2: "/dev/pts/0", 3: (log, WRITE)}
    )
    choice = found(machine)
    assert (choice.path, choice.missing) == (log, "")
    assert choice.text == f"cuzk (pid 42) writes to {log}, through tee (pid 43)"


def test_the_readers_own_complaints_are_no_log(machine: Machine, log: Path, tmp_path: Path) -> None:
    complaints = tmp_path / "nohup.out"
    complaints.touch()
    machine.start(42, fds={1: "pipe:[9]", 2: "pipe:[9]"})
    machine.start(43, "tee", fds={0: "pipe:[9]", 1: complaints, 2: complaints, 3: (log, WRITE)})
    machine.start(44, fds={1: "pipe:[10]", 2: "pipe:[10]"})
    machine.start(45, "grep", fds={0: "pipe:[10]", 1: "/dev/pts/0", 2: complaints})
    assert found(machine, 42).path == log
    assert not found(machine, 44).found


def test_a_pipe_to_cat_with_standard_error_elsewhere(machine: Machine, log: Path) -> None:
    machine.start(42, fds={1: "pipe:[9]", 2: "/dev/pts/0"})
    machine.start(43, "cat", fds={0: "pipe:[9]", 1: (log, WRITE), 2: "/dev/pts/0"})
    choice = found(machine)
    assert (choice.path, choice.missing) == (log, "standard error")


def test_a_pipe_through_a_filter(machine: Machine, log: Path) -> None:
    machine.start(42, fds={1: "pipe:[9]", 2: "pipe:[9]"})
    machine.start(43, "ts", fds={0: "pipe:[9]", 1: ("pipe:[10]", WRITE), 2: "/dev/pts/0"})
    machine.start(44, "tee", fds={0: "pipe:[10]", 1: "/dev/pts/0", 3: (log, WRITE)})
    assert found(machine).path == log


def test_pipes_in_a_ring_end(machine: Machine) -> None:
    machine.start(42, fds={1: "pipe:[9]", 2: "pipe:[9]"})
    machine.start(43, "a", fds={0: "pipe:[9]", 1: ("pipe:[10]", WRITE)})
    machine.start(44, "b", fds={0: "pipe:[10]", 1: ("pipe:[9]", WRITE)})
    choice = found(machine)
    assert not choice.found
    assert "a pipe to b (pid 44)" in choice.text


def test_a_file_that_the_reader_only_reads_is_no_log(machine: Machine, log: Path) -> None:
    machine.start(42, fds={1: "pipe:[9]", 2: "pipe:[9]"})
    machine.start(43, "svlogd", fds={0: "/dev/null", 1: "/dev/null", 5: ("pipe:[9]", READ)})
    machine.point(43, 6, log)
    (machine.proc / "43/fdinfo/6").write_text("pos:\t0\nflags:\t0100000\n")
    choice = found(machine)
    assert not choice.found
    assert "a pipe to svlogd (pid 43)" in choice.text


def test_the_pipe_of_a_container_is_its_engines(machine: Machine) -> None:
    ident = "0123456789ab" + "c" * 52
    machine.start(
        42, fds={1: "pipe:[9]", 2: "pipe:[10]"}, cgroup=f"/system.slice/docker-{ident}.scope"
    )
    machine.start(43, "containerd-shim", fds={5: ("pipe:[9]", READ), 6: ("pipe:[10]", READ)})
    choice = found(machine)
    assert not choice.found
    assert choice.hint == "docker logs -f --tail 20000 0123456789ab 2>&1 | cuzktop -"


# ---------------------------------------------------------------- names that don't fit


def test_a_deleted_file_is_read_on_by_its_descriptor(tmp_path: Path) -> None:
    log = tmp_path / "cuzk.log"
    with log.open("wb") as file, subprocess.Popen(["sleep", "60"], stdout=file, stderr=file) as run:
        try:
            file.write(b"TIMELINE")
            file.flush()
            log.unlink()
            choice = choose(find_daemons(ProcReader(), run.pid))
            assert choice.path is not None
            assert choice.path.read_bytes() == b"TIMELINE"
        finally:
            run.kill()
    assert "cuzk.log, whose name is gone" in choice.text
    assert "copytruncate" in choice.hint


def test_a_file_of_another_file_system_is_reached_through_its_root(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "container" / "var" / "cuzk.log"
    inner.parent.mkdir(parents=True)
    inner.touch()
    machine.start(42, fds={1: inner, 2: inner}, root=tmp_path / "container")
    plain = ProcReader.link

    def as_its_process_knows_it(reader: ProcReader, pid: int | str, name: str) -> str:
        return "/var/cuzk.log" if name.startswith("fd/") else plain(reader, pid, name)

    monkeypatch.setattr(ProcReader, "link", as_its_process_knows_it)
    assert found(machine).path == machine.proc / "42/root/var/cuzk.log"


def test_control_characters_of_a_name_reach_no_terminal(machine: Machine, tmp_path: Path) -> None:
    evil = tmp_path / "a\x1b[2Jb.log"
    evil.touch()
    machine.start(42, "cuzk", fds={1: evil, 2: evil})
    choice = found(machine)
    assert choice.path == evil
    assert choice.text.isprintable()


# ---------------------------------------------------------------- permissions


def test_a_hidden_daemon_without_unit_asks_for_sudo(
    machine: Machine, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.start(42, fds={1: log, 2: log})
    monkeypatch.setattr(ProcReader, "link", refuse("fd/", "cwd", "ns/"))
    choice = found(machine)
    assert not choice.found
    assert choice.hint == "sudo $(command -v cuzktop)"
    assert "only root and its owner" in choice.text


@pytest.mark.parametrize("cgroup", [SHELL, SYSTEM_UNIT])
def test_root_is_not_sent_to_sudo(
    machine: Machine, log: Path, monkeypatch: pytest.MonkeyPatch, cgroup: str
) -> None:
    machine.start(42, fds={1: log, 2: log}, cgroup=cgroup)
    machine.reader.as_root = True
    monkeypatch.setattr(ProcReader, "link", refuse("fd/", "cwd", "ns/"))
    choice = found(machine)
    assert choice.unit == (None if cgroup == SHELL else "cuzk.service")
    assert "cuzktop LOG" in choice.hint
    assert "sudo" not in choice.text + choice.hint
    assert choice.daemon is not None
    assert "sudo" not in where(choice.daemon)


def test_a_hidden_daemon_with_a_unit_is_guessed_to_use_the_journal(
    machine: Machine, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.start(42, fds={1: log, 2: log}, cgroup=SYSTEM_UNIT, command=("cuzk", "-c", "a.toml"))
    monkeypatch.setattr(ProcReader, "link", refuse("fd/", "cwd", "ns/"))

    def no_environ(_reader: ProcReader, _pid: int) -> dict[str, str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(ProcReader, "environ", no_environ)
    choice = found(machine)
    assert (choice.unit, choice.sure) == ("cuzk.service", False)
    assert "sudo" in choice.hint
    assert choice.daemon is not None
    assert (choice.daemon.no_color, choice.daemon.rust_log) == (None, None)
    assert choice.daemon.same_network is None
    assert "sudo" in choice.daemon.config.note


# ---------------------------------------------------------------- none, several, one of them


def test_nothing_found_names_what_was_looked_for_and_what_would_work() -> None:
    choice = choose(())
    assert "cuzk or cuzk-daemon" in choice.text
    for command in ("cuzktop LOG", "| cuzktop -", "cuzktop --demo", "sudo"):
        assert command in choice.hint


def test_several_daemons_ask_for_a_pid(machine: Machine, log: Path) -> None:
    machine.start(20, fds={1: log, 2: log})
    machine.start(30, fds={1: "socket:[7]", 2: "socket:[7]"}, cgroup=SYSTEM_UNIT)
    choice = found(machine)
    assert not choice.found
    assert choice.text == (f"2 daemons run: pid 20 → {log}; pid 30 → journal of cuzk.service")
    assert choice.hint == "choose one, like cuzktop --pid 20"
    assert choose(find_daemons(machine.reader), 30).unit == "cuzk.service"


def test_a_pid_that_is_no_process(machine: Machine) -> None:
    choice = found(machine, pid=99)
    assert not choice.found
    assert "99" in choice.text
    assert "--list" in choice.hint


@pytest.mark.parametrize(
    ("target", "words"), [("/dev/null", "/dev/null"), ("pipe:[9]", "a pipe"), (None, "nowhere")]
)
def test_where_a_log_goes_in_a_few_words(machine: Machine, target: str | None, words: str) -> None:
    machine.start(42, fds={} if target is None else {1: target, 2: target})
    [daemon] = find_daemons(machine.reader)
    assert where(daemon).startswith(words)


# ---------------------------------------------------------------- cgroups


@pytest.mark.parametrize(
    ("path", "unit", "user", "container"),
    [
        (SYSTEM_UNIT, "cuzk.service", False, None),
        ("/system.slice/system-cuzk.slice/cuzk@gpu0.service", "cuzk@gpu0.service", False, None),
        ("/system.slice/cuzk.service/inner", "cuzk.service", False, None),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/cuzk.service",
            "cuzk.service",
            True,
            None,
        ),
        ("/user.slice/user-1000.slice/user@1000.service/init.scope", None, False, None),
        (SHELL, None, False, None),
        ("/", None, False, None),
        ("", None, False, None),
        ("/docker/" + "0" * 64, None, False, Container("docker", "0" * 12)),
        (
            f"/system.slice/docker-{'a' * 64}.scope/init",
            None,
            False,
            Container("docker", "a" * 12),
        ),
        (f"/machine.slice/libpod-{'b' * 64}.scope", None, False, Container("podman", "b" * 12)),
        (
            f"/kubepods.slice/kubepods-pod1.slice/cri-containerd-{'c' * 64}.scope",
            None,
            False,
            Container("crictl", "c" * 12),
        ),
    ],
)
def test_a_cgroup_names_unit_and_container(
    path: str, unit: str | None, *, user: bool, container: Container | None
) -> None:
    assert read_cgroup(path) == (unit, user, container)


# ---------------------------------------------------------------- config


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (("cuzk",), DEFAULT_CONFIG),
        ((), DEFAULT_CONFIG),
        (("cuzk", "-c", "/a.toml"), "/a.toml"),
        (("cuzk", "-c/a.toml"), "/a.toml"),
        (("cuzk", "-c=/a.toml"), "/a.toml"),
        (("cuzk", "--config", "/a.toml", "-l", "unix:///x"), "/a.toml"),
        (("cuzk", "--config=/a.toml"), "/a.toml"),
        (("cuzk", "-c"), DEFAULT_CONFIG),
        (("-c", "x"), DEFAULT_CONFIG),
    ],
)
def test_the_config_that_the_arguments_name(command: tuple[str, ...], path: str) -> None:
    assert config_path(command) == path


FULL = """
[daemon]
listen = "0.0.0.0:9820"
status_listen = "127.0.0.1:9821"
[gpus]
devices = [0, 1]
gpu_threads = 32
gpu_workers_per_device = 2
[pipeline]
enabled = true
max_parallel_synthesis = 18
[memory]
total_budget = "400GiB"
[logging]
level = "debug"
[unknown]
key = 1
"""


def test_a_whole_config(tmp_path: Path) -> None:
    path = tmp_path / "cuzk.toml"
    path.write_text(FULL)
    config = read_config(path)
    assert config.note == ""
    assert (config.listen, config.status_listen) == ("0.0.0.0:9820", "127.0.0.1:9821")
    assert (config.devices, config.gpu_workers_per_device) == ((0, 1), 2)
    assert config.pipeline == {"enabled": True, "max_parallel_synthesis": 18}
    assert (config.total_budget, config.total_budget_bytes) == ("400GiB", 400 * GIB)
    assert config.log_level == "debug"


def test_a_config_with_wrong_types_tells_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "cuzk.toml"
    path.write_text(
        "daemon = 5\npipeline = []\n[gpus]\ndevices = ['x']\ngpu_workers_per_device = true\n"
        "[memory]\ntotal_budget = 1000\n"
    )
    config = read_config(path)
    assert (config.listen, config.devices, config.gpu_workers_per_device) == (None, None, None)
    assert config.pipeline == {}
    assert config.total_budget_bytes == 1000


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[daemon\n", "is no TOML"),
        (b"x = '\xff'", "is no TOML"),
        (b"a = " + b"[" * 5000, "is no TOML"),
        (None, "no config"),
    ],
    ids=["cut", "not-utf8", "deep", "missing"],
)
def test_a_config_that_cannot_be_used_says_why(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "cuzk.toml"
    if content is not None:
        path.write_bytes(content)
    config = read_config(path)
    assert words in config.note
    assert "\n" not in config.note
    assert str(path) in config.note


def test_a_config_that_is_a_folder_or_forbidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "can't read the config" in read_config(tmp_path).note

    def refuse_open(_path: Path, _mode: str) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse_open)
    assert "sudo" in read_config(tmp_path / "cuzk.toml").note


def test_arguments_win_over_the_config(machine: Machine, tmp_path: Path, log: Path) -> None:
    (tmp_path / "cuzk.toml").write_text(FULL)
    machine.start(
        42,
        fds={1: log, 2: log},
        command=("cuzk", "-c", "cuzk.toml", "-l", "unix:///s", "--log-level=warn"),
        cwd=tmp_path,
    )
    [daemon] = find_daemons(machine.reader)
    assert (daemon.config.listen, daemon.config.log_level) == ("unix:///s", "warn")


def test_a_config_newer_than_the_daemon(machine: Machine, tmp_path: Path, log: Path) -> None:
    config = tmp_path / "cuzk.toml"
    config.write_text(FULL)
    machine.start(42, fds={1: log}, command=("cuzk", "-c", str(config)))
    for after_s, changed in ((-60.0, False), (1.0, False), (60.0, True)):
        mtime_s = STARTED_MS / 1000.0 + after_s
        os.utime(config, (mtime_s, mtime_s))
        [daemon] = find_daemons(machine.reader)
        assert daemon.config.changed_since_start is changed


def test_the_config_of_another_file_system_is_read_there(
    machine: Machine, tmp_path: Path, log: Path
) -> None:
    inner = tmp_path / "inner"
    (inner / "etc").mkdir(parents=True)
    (inner / "etc" / "cuzk.toml").write_text(FULL)
    machine.start(
        42,
        fds={1: log},
        command=("cuzk", "-c", "/etc/cuzk.toml"),
        root=inner,
        namespaces={"mnt": "mnt:[5]", "net": "net:[6]"},
    )
    [daemon] = find_daemons(machine.reader)
    assert daemon.config.devices == (0, 1)
    assert daemon.same_network is False


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("auto", None),
        ("400GiB", 400 * GIB),
        ("400 GiB", 400 * GIB),
        ("512MiB", 512 << 20),
        ("5GB", 5 * 10**9),
        ("7MB", 7 * 10**6),
        ("1000", 1000),
        ("1TiB", 50 * GIB),
        ("1.5GiB", 50 * GIB),
        ("", 50 * GIB),
    ],
)
def test_a_budget_is_read_as_the_daemon_reads_it(text: str, size_bytes: int | None) -> None:
    assert budget_bytes(text) == size_bytes


# ---------------------------------------------------------------- properties, the real /proc

KINDS = st.sampled_from(["socket:[1]", "pipe:[9]", "/dev/null", "/dev/pts/0", "LOG", "OTHER", ""])


@given(out=KINDS, err=KINDS, cgroup=st.sampled_from([SYSTEM_UNIT, SHELL]))
def test_every_daemon_gets_one_printable_sentence(out: str, err: str, cgroup: str) -> None:
    def stream(target: str) -> discovery.Stream:
        if target in ("LOG", "OTHER"):
            return discovery.Stream(kind="file", target=target, path=Path(target))
        kinds: dict[str, discovery.StreamKind] = {
            "socket:[1]": "socket",
            "pipe:[9]": "pipe",
            "/dev/null": "null",
            "/dev/pts/0": "tty",
            "": "closed",
        }
        return discovery.Stream(kind=kinds[target], target=target)

    unit, user, container = read_cgroup(cgroup)
    daemon = Daemon(
        pid=1,
        name="cuzk",
        stdout=stream(out),
        stderr=stream(err),
        unit=unit,
        user_unit=user,
        container=container,
        config=discovery.Config(path=Path("c")),
    )
    choice = choose([daemon])
    assert choice.text.startswith("cuzk (pid 1) ")
    assert choice.text.isprintable()
    assert choice.found or choice.hint
    assert bool(choice.missing) == (choice.found and out != err)


def test_a_real_process_is_found_through_tee(tmp_path: Path) -> None:
    log = tmp_path / "out.log"
    with subprocess.Popen(
        [
            "sh",
            "-c",
            'exec "$0" -c "import time; print(1, flush=True); time.sleep(60)" 2>&1 | tee "$1"',
            sys.executable,
            str(log),
        ],
        stdout=subprocess.PIPE,
        text=True,
    ) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == "1\n"
        reader = ProcReader()
        children = [pid for pid in reader.pids() if _parent(reader, pid) == shell.pid]
        pythons = [pid for pid in children if reader.comm(pid).startswith("python")]
        try:
            choices = [choose(find_daemons(reader, pid), pid) for pid in pythons]
        finally:
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
    assert [choice.path for choice in choices] == [log]


def _parent(reader: ProcReader, pid: int) -> int:
    try:
        return int((reader.root / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1
