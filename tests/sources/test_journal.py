"""The journal is followed through a journalctl that ends, refuses, or is missing."""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from cuzktop.errors import SourceUnreadableError
from cuzktop.events import Event, LineUnparsed, LogEvent, SourceNote
from cuzktop.sources import journal
from cuzktop.sources.journal import JournalReader, journal_blocks, trouble, without_remarks

STAMP = "2026-03-14T01:02:03.{:06d}+0000 host cuzk[42]: "
DENIED = "No journal files were opened due to insufficient permissions."
NOT_ALL = (
    "Hint: You are currently not seeing messages from other users and the system.\n"
    "      Users in groups 'adm', 'systemd-journal' can see all messages.\n"
    "      Pass -q to turn off this notice."
)


def line(number: int, micros: int | None = None) -> str:
    return STAMP.format(number if micros is None else micros) + f"line {number}"


class Lines:
    """A parser that makes an event of every line."""

    def __init__(self) -> None:
        self.cuts = 0

    def feed(self, data: bytes) -> list[LogEvent]:
        assert data.endswith(b"\n")
        return [LineUnparsed(line.decode(), "") for line in data[:-1].split(b"\n")]

    def finish(self) -> list[LogEvent]:
        raise AssertionError

    def cut(self) -> list[LogEvent]:
        self.cuts += 1
        return []


class Emitted:
    """What was emitted; can be waited for."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.came = threading.Condition()

    def __call__(self, events: Sequence[Event]) -> None:
        with self.came:
            self.events.extend(events)
            self.came.notify_all()

    @property
    def lines(self) -> list[str]:
        return [event.raw for event in self.events if isinstance(event, LineUnparsed)]

    @property
    def notes(self) -> list[SourceNote]:
        return [event for event in self.events if isinstance(event, SourceNote)]

    def wait(self, enough: Callable[[], bool]) -> None:
        with self.came:
            assert self.came.wait_for(enough, timeout=20), self.events


class Fake:
    """A journalctl of which each start does what the test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls_file = folder / "calls"
        program = folder / "journalctl"
        program.write_text(
            f'#!/bin/sh\necho "$LC_ALL $*" >> {self.calls_file}\n'
            f"call=$(wc -l < {self.calls_file})\n"
            f'if [ -f {folder}/start"$call" ]; then . {folder}/start"$call"; fi\n'
            "exec sleep 60\n"
        )
        program.chmod(0o755)
        self._starts = 0

    def then(self, *lines: str, errors: str = "", status: int | None = None, raw: str = "") -> None:
        """The next start prints this, then ends with `status`; it stays without one."""
        self._starts += 1
        text = "".join(f"{one}\n" for one in lines) + raw
        script = f"printf %s {shlex.quote(text)}\n"
        if errors:
            script += f"printf '%s\\n' {shlex.quote(errors)} >&2\n"
        if status is not None:
            script += "kill -9 $$\n" if status < 0 else f"exit {status}\n"
        (self.folder / f"start{self._starts}").write_text(script)

    @property
    def calls(self) -> list[str]:
        return self.calls_file.read_text().splitlines() if self.calls_file.exists() else []


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(journal, "WAKE_S", 0.02)
    return Fake(folder)


class Clock:
    """Wall-clock ms that go on by themselves, as fast as a test wants."""

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate

    def __call__(self) -> float:
        return time.monotonic() * 1000.0 * self.rate


class Running:
    """A reader at work."""

    def __init__(
        self, *, rate: float = 1.0, user: bool = False, since_s: float | None = None
    ) -> None:
        self.parser = Lines()
        self.emitted = Emitted()
        self.thread = JournalReader(
            "cuzk.service",
            self.parser,
            self.emitted,
            clock=Clock(rate),
            user=user,
            lines=500,
            since_s=since_s,
            retry_s=0.01,
        )


@pytest.fixture
def running() -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(*, rate: float = 1.0, user: bool = False, since_s: float | None = None) -> Running:
        reader = Running(rate=rate, user=user, since_s=since_s)
        started.append(reader)
        reader.thread.start()
        return reader

    yield start
    for reader in started:
        reader.thread.stop()
        reader.thread.join(timeout=20)
        assert not reader.thread.is_alive()


Start = Callable[..., Running]

# ---------------------------------------------------------------- following


def test_lines_come_with_their_prefix_as_they_are_written(fake: Fake, running: Start) -> None:
    fake.then(line(1), "-- Boot 0123 --", line(2), raw="2026-03-14T01:02:03.000003+0000 host half")
    reader = running()
    reader.emitted.wait(lambda: len(reader.emitted.lines) == 2)
    assert reader.emitted.lines == [line(1), line(2)]
    assert reader.emitted.notes == []
    assert fake.calls == [
        "C --no-pager --all --utc --output=short-iso-precise --unit=cuzk.service"
        " --follow --lines=500"
    ]


def test_a_users_own_unit(fake: Fake, running: Start) -> None:
    fake.then(line(1))
    reader = running(user=True)
    reader.emitted.wait(lambda: len(reader.emitted.lines) == 1)
    assert "--user-unit=cuzk.service" in fake.calls[0]


def test_it_begins_where_it_is_told_and_goes_on_where_it_was(fake: Fake, running: Start) -> None:
    fake.then(line(1, 5), status=1)
    fake.then(line(1, 5), line(2, 6))
    reader = running(since_s=1_773_400_000.0)
    reader.emitted.wait(lambda: len(reader.emitted.lines) == 2)
    assert fake.calls[0].endswith("--follow --since=@1773400000.000000")
    assert fake.calls[1].endswith("--follow --since=@1773450123.000005")


def test_stopping_ends_journalctl_too(fake: Fake, running: Start) -> None:
    fake.then(line(1))
    reader = running()
    reader.emitted.wait(lambda: len(reader.emitted.lines) == 1)
    process = reader.thread._journalctl
    assert process is not None
    reader.thread.stop()
    reader.thread.join(timeout=20)
    assert process._process.returncode is not None
    assert reader.emitted.notes == []


# ---------------------------------------------------------------- going on


@pytest.mark.parametrize("status", [0, 1, -9])
def test_after_a_journalctl_that_ends_no_line_is_lost_or_doubled(
    fake: Fake, running: Start, status: int
) -> None:
    fake.then(line(1), line(2, 5), line(3, 5), raw=line(4, 5)[:40], status=status)
    fake.then(line(2, 5), line(3, 5), line(4, 5), line(5, 6))
    reader = running()
    reader.emitted.wait(lambda: len(reader.emitted.lines) == 5)
    assert reader.emitted.lines == [line(1), line(2, 5), line(3, 5), line(4, 5), line(5, 6)]
    assert fake.calls[1].endswith("--follow --since=@1773450123.000005")
    levels = [note.level for note in reader.emitted.notes]
    assert levels == ["warning", "info"]
    assert "\n" not in reader.emitted.notes[0].text
    assert reader.parser.cuts == 0


def test_equal_lines_of_one_instant_are_counted(fake: Fake, running: Start) -> None:
    fake.then(line(1, 5), line(1, 5), status=0)
    fake.then(line(1, 5), line(1, 5), line(1, 5), line(2, 5))
    reader = running()
    reader.emitted.wait(lambda: line(2, 5) in reader.emitted.lines)
    assert reader.emitted.lines == [line(1, 5)] * 3 + [line(2, 5)]


def test_an_instant_may_come_in_two_reads(fake: Fake, running: Start) -> None:
    fake.then(line(1, 5), status=0)
    fake.then(line(1, 5), line(2, 5), status=0)
    fake.then(line(1, 5), line(2, 5), line(3, 5))
    reader = running()
    reader.emitted.wait(lambda: line(3, 5) in reader.emitted.lines)
    assert reader.emitted.lines == [line(1, 5), line(2, 5), line(3, 5)]


def test_a_daemon_that_is_silent_after_a_restart_is_no_trouble(fake: Fake, running: Start) -> None:
    fake.then(line(1), status=1)
    reader = running(rate=100.0)
    reader.emitted.wait(lambda: len(reader.emitted.notes) == 2)
    assert reader.emitted.notes[1].text == "reading the journal of cuzk.service"


def test_an_older_journalctl_is_asked_in_a_form_that_it_knows(fake: Fake, running: Start) -> None:
    fake.then(errors="Unknown output format 'short-iso-precise'.", status=1)
    fake.then(line(1))
    reader = running()
    reader.emitted.wait(lambda: len(reader.emitted.lines) == 1)
    assert "--output=short-iso " in fake.calls[1]
    assert reader.emitted.notes == []


def test_without_times_only_new_lines_follow_and_the_parser_knows(
    fake: Fake, running: Start
) -> None:
    fake.then(errors="Unknown output format 'short-iso-precise'.", status=1)
    fake.then(errors="Unknown output 'short-iso'.", status=1)
    fake.then("line 1", status=0)
    fake.then("line 9")
    reader = running()
    reader.emitted.wait(lambda: len(reader.emitted.lines) == 2)
    assert reader.emitted.lines == ["line 1", "line 9"]
    assert "--output=cat" in fake.calls[2]
    assert fake.calls[3].endswith("--lines=0")
    assert reader.parser.cuts == 1


# ---------------------------------------------------------------- what it can't read


@pytest.mark.parametrize(
    ("errors", "status", "words"),
    [
        (DENIED, 1, "may not read the journal: use sudo, or join the group"),
        (NOT_ALL, None, "systemd-journal $USER"),
        ("No journal files were found.", None, "keeps no journal"),
        ("Failed to add match: Invalid argument", 1, "failed: Failed to add match"),
        ("", 3, "failed with status 3"),
        ("", -9, "ended by signal 9"),
        ("", 0, "has ended"),
    ],
)
def test_why_nothing_can_be_read_is_said_once(
    fake: Fake, running: Start, errors: str, status: int | None, words: str
) -> None:
    for _ in range(3):
        fake.then(errors=errors, status=status)
    reader = running(rate=5.0)
    reader.emitted.wait(lambda: bool(reader.emitted.notes))
    if status is not None:
        assert _reaches(lambda: len(fake.calls) >= 3)
    [note] = reader.emitted.notes
    assert note.level == "error"
    assert note.text.startswith("journal of cuzk.service: ")
    assert words in note.text
    assert "\n" not in note.text


def _reaches(condition: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return condition()


def test_a_unit_without_lines_is_asked_about(fake: Fake, running: Start) -> None:
    fake.then()
    reader = running(rate=100.0)
    reader.emitted.wait(lambda: bool(reader.emitted.notes))
    [note] = reader.emitted.notes
    assert "no line of cuzk.service: is that its name" in note.text
    assert "systemctl list-units" in note.text


def test_without_the_program_the_note_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: Start
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    reader = running()
    reader.emitted.wait(lambda: bool(reader.emitted.notes))
    assert "journalctl is not installed here" in reader.emitted.notes[0].text


def test_a_program_that_cannot_be_run(
    fake: Fake, running: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(fake.folder))
    (fake.folder / "journalctl").write_text("no program")
    reader = running()
    reader.emitted.wait(lambda: bool(reader.emitted.notes))
    assert "can't be started" in reader.emitted.notes[0].text


def test_a_parser_that_breaks_ends_the_thread_with_a_note(fake: Fake) -> None:
    class Broken(Lines):
        def feed(self, data: bytes) -> list[LogEvent]:
            raise ValueError(data)

    fake.then(line(1))
    emitted = Emitted()
    thread = JournalReader("cuzk", Broken(), emitted, clock=lambda: 5.0)
    thread.run()
    [note] = emitted.notes
    assert note.text.startswith("reading the journal stopped: ValueError")


def test_a_stopped_reader_starts_nothing(fake: Fake) -> None:
    thread = JournalReader("cuzk", Lines(), Emitted(), clock=lambda: 5.0)
    thread.stop()
    thread.run()
    assert fake.calls == []


# ---------------------------------------------------------------- once


def test_the_journal_is_read_once(fake: Fake) -> None:
    fake.then(line(1), line(2), status=0)
    assert b"".join(journal_blocks("cuzk", lines=9)).decode() == f"{line(1)}\n{line(2)}\n"
    assert fake.calls[0].endswith("--unit=cuzk --lines=9")


def test_the_whole_journal_has_no_limit(fake: Fake) -> None:
    fake.then(line(1), status=0)
    assert list(journal_blocks("cuzk", user=True)) == [f"{line(1)}\n".encode()]
    assert fake.calls[0].endswith("--user-unit=cuzk")


def test_the_journal_from_a_time_on(fake: Fake) -> None:
    fake.then(line(1), status=0)
    assert list(journal_blocks("cuzk", since_s=12.5)) == [f"{line(1)}\n".encode()]
    assert fake.calls[0].endswith("--unit=cuzk --since=@12.500000")


def test_a_time_without_a_line_is_no_wrong_name(fake: Fake, running: Start) -> None:
    fake.then("-- No entries --", status=0)
    with pytest.raises(SourceUnreadableError) as raised:
        list(journal_blocks("cuzk", since_s=12.5))
    assert "no line of cuzk since then: try an earlier --since" in str(raised.value)
    fake.then()
    reader = running(rate=100.0, since_s=12.5)
    reader.emitted.wait(lambda: bool(reader.emitted.notes))
    assert "no line of cuzk.service since then" in reader.emitted.notes[0].text


def test_an_older_journalctl_is_read_once_too(fake: Fake) -> None:
    fake.then(errors="Unknown output format 'short-iso-precise'.", status=1)
    fake.then(line(1), status=0)
    assert list(journal_blocks("cuzk")) == [f"{line(1)}\n".encode()]


@pytest.mark.parametrize(
    ("errors", "status", "words"),
    [
        (DENIED, 1, "cannot read the journal: may not read the journal: use sudo"),
        (f"{NOT_ALL}", 0, "use sudo"),
        ("", 0, "no line of cuzk"),
        ("Failed", 1, "journalctl failed: Failed"),
        ("", None, "gives no answer"),
    ],
)
def test_what_cannot_be_read_once_is_one_line(
    fake: Fake, errors: str, status: int | None, words: str
) -> None:
    fake.then("-- No entries --", errors=errors, status=status)
    with pytest.raises(SourceUnreadableError) as raised:
        list(journal_blocks("cuzk", patience_s=0.2))
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_without_the_program_nothing_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceUnreadableError, match="not installed"):
        list(journal_blocks("cuzk"))


def test_a_reader_that_stops_early_leaves_no_process(fake: Fake) -> None:
    fake.then(line(1))
    blocks = journal_blocks("cuzk")
    assert next(iter(blocks)) == f"{line(1)}\n".encode()
    del blocks  # the generator's end ends journalctl
    assert _reaches(lambda: not _children())


def _children() -> list[str]:
    own = f"/proc/self/task/{os.getpid()}/children"
    return Path(own).read_text().split()


# ---------------------------------------------------------------- pure


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        (b"a\n-- Boot 1 --\nb\n", b"a\nb\n"),
        (b"-- Logs begin at Mon --\na\n", b"a\n"),
        (b"-- No entries --\n", b""),
        (b"a -- b\n", b"a -- b\n"),
        (b"--\n", b"--\n"),
    ],
)
def test_journalctls_own_remarks_are_no_log(lines: bytes, left: bytes) -> None:
    assert without_remarks(lines) == left


def test_nothing_is_wrong_while_it_runs_or_once_it_ended_well() -> None:
    assert trouble("", None) is None
    assert trouble("", 0) is None
    assert trouble("some remark", None) is None


def test_the_real_one_knows_our_arguments() -> None:
    try:
        found = subprocess.run(
            ["journalctl", "--version"], capture_output=True, check=False, timeout=20
        )
    except OSError:
        pytest.skip("no journalctl here")
    if found.returncode:
        pytest.skip("no journalctl that runs here")
    with pytest.raises(SourceUnreadableError) as raised:
        list(journal_blocks("no-such-unit-of-cuzktop", lines=1))
    assert "failed" not in str(raised.value)
