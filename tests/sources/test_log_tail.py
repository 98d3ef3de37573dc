"""Following a log through everything that happens to log files: no line lost, none twice."""

from __future__ import annotations

import errno
import itertools
import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from cuzktop.events import Event, GpuStarted, LineUnparsed, LogEvent, SourceNote
from cuzktop.parse.scanner import LogScanner
from cuzktop.sources import log_tail
from cuzktop.sources.log_tail import (
    PATH_CHECK_MS,
    POLL_BYTES,
    Cut,
    Follower,
    LogTail,
    Piece,
    Say,
)


class Writer:
    """A daemon writing its log: appending, or with an offset of its own as after `2> log`."""

    _firsts = itertools.count(0, 1_000_000)  # no two write the same line

    def __init__(self, path: Path, *, append: bool = True) -> None:
        self.path = path
        self.append = append
        self.lines: list[bytes] = []
        self._count = itertools.count(next(self._firsts))
        self._fd = -1
        self.reopen()

    def reopen(self) -> None:
        self.close()
        flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if self.append else 0)
        self._fd = os.open(self.path, flags, 0o644)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def text(self, text: bytes) -> None:
        os.write(self._fd, text)

    def write(self, count: int) -> list[bytes]:
        """Write `count` lines, no two of them alike."""
        lines = [b"TIMELINE,%d,SYNTH_START,j,partition=0" % next(self._count) for _ in range(count)]
        self.text(b"".join(line + b"\n" for line in lines))
        self.lines += lines
        return lines


class Lines:
    """A parser that only takes note of the lines it is given."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.cuts = 0
        self.held = b""

    def feed(self, data: bytes) -> list[LogEvent]:
        *lines, self.held = (self.held + data).split(b"\n")
        self.lines += lines
        return [LineUnparsed(line.decode("utf-8", "replace"), "") for line in lines]

    def finish(self) -> list[LogEvent]:
        self.held = b""
        return []

    def cut(self) -> list[LogEvent]:
        self.cuts += 1
        self.held = b""
        return []


class Scene:
    """A follower, what it read, and a clock that only this moves."""

    def __init__(self, path: Path) -> None:
        self.follower = Follower(path)
        self.now_ms = 0.0
        self.parser = Lines()
        self.notes: list[str] = []

    def poll(self, times: int = 1, *, after_ms: float = 250.0) -> None:
        for _ in range(times):
            self.now_ms += after_ms
            while True:
                for piece in self.follower.poll(self.now_ms):
                    if isinstance(piece, bytes):
                        self.parser.feed(piece)
                        continue
                    self.notes.append(piece.text)
                    if isinstance(piece, Cut):
                        self.parser.cut()
                if not self.follower.more:
                    break

    @property
    def lines(self) -> list[bytes]:
        return self.parser.lines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "daemon.log"


@pytest.fixture
def writers() -> Iterator[Callable[..., Writer]]:
    made: list[Writer] = []

    def make(path: Path, *, append: bool = True) -> Writer:
        made.append(Writer(path, append=append))
        return made[-1]

    yield make
    for writer in made:
        writer.close()


@pytest.fixture
def scenes() -> Iterator[Callable[[Path], Scene]]:
    made: list[Scene] = []

    def make(path: Path) -> Scene:
        made.append(Scene(path))
        return made[-1]

    yield make
    for scene in made:
        scene.follower.close()


Writers = Callable[..., Writer]
Scenes = Callable[[Path], Scene]


# ---------------------------------------------------------------- growing


def test_lines_come_as_they_are_written(path: Path, writers: Writers, scenes: Scenes) -> None:
    writer, scene = writers(path), scenes(path)
    writer.write(3)
    scene.poll()
    assert len(scene.lines) == 3
    writer.write(2)
    scene.poll()
    scene.poll()
    assert scene.lines == writer.lines
    assert scene.notes == []


def test_a_half_line_is_one_line_in_the_end(path: Path, writers: Writers, scenes: Scenes) -> None:
    writer, scene = writers(path), scenes(path)
    writer.text(b"TIMELINE,5,GPU_")
    scene.poll(8)
    assert scene.lines == []
    writer.text(b"START,j,worker=0\n")
    scene.poll()
    assert scene.lines == [b"TIMELINE,5,GPU_START,j,worker=0"]


def test_bytes_that_are_no_utf8_come_through(path: Path, scenes: Scenes) -> None:
    path.write_bytes(b"TIMELINE,1,SYNTH_START,j\xff,partition=0\n")
    scene = scenes(path)
    scene.poll()
    assert scene.lines == [b"TIMELINE,1,SYNTH_START,j\xff,partition=0"]


def test_a_huge_line_comes_in_blocks(path: Path, writers: Writers) -> None:
    writer = writers(path)
    writer.write(1)
    with path.open("ab") as file:
        file.write(b"x" * 3_000_000)
    writer.text(b"\n")
    writer.write(1)
    follower = Follower(path)
    blocks = []
    while True:
        pieces = follower.poll(0.0)
        blocks += [piece for piece in pieces if isinstance(piece, bytes)]
        assert sum(len(piece) for piece in pieces if isinstance(piece, bytes)) <= POLL_BYTES
        if not follower.more:
            break
    follower.close()
    assert max(map(len, blocks)) <= 64 * 1024
    assert b"".join(blocks) == path.read_bytes()


def test_a_long_log_is_read_from_near_its_end(path: Path, scenes: Scenes) -> None:
    marks = [
        b"TIMELINE,%d,SYNTH_START,j%d,partition=0\n" % (ms, ms) for ms in range(0, 10**8, 1000)
    ]
    path.write_bytes(b"".join(marks))
    scene = scenes(path)
    scene.poll()
    assert 600 <= len(scene.lines) <= 602
    assert scene.follower.read_bytes == scene.follower.total_bytes == len(b"".join(marks[-601:]))


# ---------------------------------------------------------------- rotation, case by case


def test_renamed_and_the_writer_reopens(path: Path, writers: Writers, scenes: Scenes) -> None:
    writer, scene = writers(path), scenes(path)
    writer.write(35)
    scene.poll()
    path.rename(path.with_suffix(".1"))
    writer.write(3)  # between the renaming and the reopening
    writer.reopen()
    writer.write(37)
    scene.poll(5)
    assert scene.lines == writer.lines
    assert scene.parser.cuts == 1
    assert "is another file now" in scene.notes[-1]


def test_renamed_after_the_clock_was_set_back(path: Path, writers: Writers, scenes: Scenes) -> None:
    """By an hour, for one of which nobody would look at the path."""
    writer = writers(path)
    scene = scenes(path)
    writer.write(3)
    scene.poll(2)
    scene.now_ms -= 3_600_000.0
    scene.poll()
    path.rename(path.with_suffix(".1"))
    writer.reopen()
    writer.write(2)
    scene.poll(after_ms=PATH_CHECK_MS)
    assert scene.lines == writer.lines


def test_renamed_with_much_unread(path: Path, writers: Writers, scenes: Scenes) -> None:
    writer, scene = writers(path), scenes(path)
    scene.poll()
    path.rename(path.with_suffix(".1"))
    path.touch()
    scene.poll(5)
    writer.write(30_000)
    writer.reopen()
    writer.write(5)
    scene.poll(9)
    assert scene.lines == writer.lines


def test_written_while_the_path_is_looked_at(
    path: Path, writers: Writers, scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, scene = writers(path), scenes(path)
    scene.poll()
    look = Follower._look_at_path

    def look_late(follower: Follower, pieces: list[Piece]) -> None:
        if not writer.lines:
            writer.write(30_000)
            path.rename(path.with_suffix(".1"))
            writer.reopen()
            writer.write(5)
        look(follower, pieces)

    monkeypatch.setattr(Follower, "_look_at_path", look_late)
    scene.poll(9)
    assert scene.lines == writer.lines
    assert scene.parser.cuts == 1


def test_renamed_and_the_writer_keeps_its_file(
    path: Path, writers: Writers, scenes: Scenes
) -> None:
    writer, scene = writers(path), scenes(path)
    writer.write(35)
    scene.poll()
    path.rename(path.with_suffix(".1"))
    for _ in range(8):
        writer.write(5)
        scene.poll()
    assert scene.lines == writer.lines
    assert scene.parser.cuts == 0
    assert len(scene.notes) == 1
    assert "is gone; the open file is still read" in scene.notes[0]


def test_rotated_with_a_new_file_that_the_writer_never_opens(
    path: Path, writers: Writers, scenes: Scenes
) -> None:
    writer, scene = writers(path), scenes(path)
    writer.write(35)
    scene.poll()
    path.rename(path.with_suffix(".1"))
    path.touch()
    for _ in range(8):
        writer.write(5)
        scene.poll()
    assert scene.lines == writer.lines
    assert scene.notes == [f"{path} is a new, empty file; the old one is still read"]
    writer.reopen()
    writer.write(4)
    scene.poll(5)
    assert scene.lines == writer.lines


def test_copied_and_truncated_under_an_appending_writer(
    path: Path, writers: Writers, scenes: Scenes
) -> None:
    writer, scene = writers(path), scenes(path)
    writer.write(35)
    scene.poll()
    os.truncate(path, 0)
    writer.write(20)
    scene.poll()
    writer.write(20)
    scene.poll()
    assert scene.lines == writer.lines
    assert scene.notes == [f"{path} was truncated; reading it from its start"]
    assert scene.parser.cuts == 1


@pytest.mark.parametrize("seen_empty", [False, True])
@pytest.mark.parametrize("lines_before", [35, 20_000])
def test_truncated_under_a_writer_that_does_not_append(
    path: Path, writers: Writers, scenes: Scenes, lines_before: int, *, seen_empty: bool
) -> None:
    writer, scene = writers(path, append=False), scenes(path)
    writer.write(lines_before)
    scene.poll()
    os.truncate(path, 0)
    if seen_empty:
        scene.poll()
    writer.write(20)
    assert path.read_bytes().startswith(b"\0" * 100)
    scene.poll()
    writer.write(20)
    scene.poll(5)
    assert scene.lines == writer.lines
    assert scene.parser.cuts == 1


def test_a_hole_of_gigabytes_is_skipped_at_once(path: Path, scenes: Scenes) -> None:
    with path.open("wb") as file:
        file.truncate(3 * 1024**3)
        file.seek(3 * 1024**3)
        file.write(b"after the hole\n")
    scene = scenes(path)
    polls = 0
    pieces: list[object] = []
    while not pieces or scene.follower.more:
        pieces += scene.follower.poll(0.0)
        polls += 1
        assert polls < 100
    assert pieces == [b"after the hole\n"]


def test_a_hole_that_was_written_out_is_skipped_too(path: Path, scenes: Scenes) -> None:
    path.write_bytes(b"old\n")
    scene = scenes(path)
    scene.poll()
    path.write_bytes(b"\0" * 700_000 + b"new\n")
    scene.poll()
    assert scene.lines == [b"old", b"new"]


def test_truncated_and_filled_past_the_old_size(
    path: Path, writers: Writers, scenes: Scenes
) -> None:
    writer, scene = writers(path), scenes(path)
    writer.write(35)
    scene.poll()
    os.truncate(path, 0)
    writer.write(80)
    scene.poll(5)
    assert scene.lines == writer.lines
    assert scene.notes == [f"{path} was rewritten; reading it from its start"]


def test_deleted_and_made_anew(path: Path, writers: Writers, scenes: Scenes) -> None:
    writer, scene = writers(path), scenes(path)
    writer.write(35)
    scene.poll()
    path.unlink()
    writer.write(2)
    scene.poll(5)
    writer.reopen()
    writer.write(38)
    scene.poll(5)
    assert scene.lines == writer.lines


@pytest.mark.parametrize("folder", [".", "elsewhere"])
def test_a_link_is_switched(path: Path, writers: Writers, scenes: Scenes, folder: str) -> None:
    place = path.parent / folder
    place.mkdir(exist_ok=True)
    old, new = writers(path.parent / "run-1.log"), place / "run-2.log"
    path.symlink_to(old.path)
    scene = scenes(path)
    old.write(35)
    scene.poll()
    old.write(1)
    fresh = writers(new)
    link = path.with_name("link")
    link.symlink_to(new)
    link.replace(path)
    scene.poll(5)
    fresh.write(39)
    scene.poll(5)
    assert scene.lines == old.lines + fresh.lines


def test_a_switched_link_to_a_long_log_begins_near_its_end(path: Path) -> None:
    old, new = path.with_name("old"), path.with_name("new")
    old.write_bytes(b"old\n")
    new.write_bytes(b"".join(b"TIMELINE,%d,SYNTH_START,j,partition=0\n" % ms for ms in range(5000)))
    path.symlink_to(old)
    follower = Follower(path, max_bytes=10_000)
    follower.poll(0.0)
    path.unlink()
    path.symlink_to(new)
    pieces = follower.poll(PATH_CHECK_MS)
    follower.close()
    text = b"".join(piece for piece in pieces if isinstance(piece, bytes))
    assert 9_900 < len(text) <= 10_000
    assert text.endswith(b"TIMELINE,4999,SYNTH_START,j,partition=0\n")


def test_renamed_away_and_back(path: Path, writers: Writers, scenes: Scenes) -> None:
    writer, scene = writers(path), scenes(path)
    writer.write(3)
    scene.poll()
    path.rename(path.with_suffix(".1"))
    scene.poll(5)
    path.with_suffix(".1").rename(path)
    writer.write(3)
    scene.poll(5)
    assert scene.lines == writer.lines
    assert scene.notes[1:] == [f"{path} is back"]


def test_replaced_by_a_copy_of_itself(path: Path, writers: Writers, scenes: Scenes) -> None:
    writer, scene = writers(path), scenes(path)
    writer.write(500)
    writer.text(b"TIMELINE,")
    scene.poll()
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)
    writer.reopen()
    writer.text(b"77,END\n")
    writer.write(5)
    scene.poll(5)
    assert scene.lines == [*writer.lines[:500], b"TIMELINE,77,END", *writer.lines[500:]]
    assert scene.notes == [f"{path} was replaced by a copy of itself"]


def test_replaced_twice_between_two_looks_at_the_path(
    path: Path, writers: Writers, scenes: Scenes
) -> None:
    writer, scene = writers(path), scenes(path)
    writer.write(5)
    scene.poll(5)
    seen = list(writer.lines)
    for _ in range(2):
        path.unlink()
        writer.reopen()
        last = writer.write(5)
    scene.poll(5)
    assert scene.lines == seen + last  # nobody could have read what lay between


def test_a_number_given_to_another_file_is_no_identity(path: Path, scenes: Scenes) -> None:
    """A file system hands out a freed inode number at once, so two files may share it."""
    path.write_bytes(b"first\n" * 300)
    scene = scenes(path)
    scene.poll()
    scene.follower.close()  # as after a failed read
    inode = path.stat().st_ino
    path.unlink()
    for _ in range(50):
        path.write_bytes(b"second\n" * 300)
        if path.stat().st_ino == inode:
            break
        path.rename(path.with_name(f"other-{path.stat().st_ino}"))
    scene.poll()
    assert scene.lines == [b"first"] * 300 + [b"second"] * 300
    assert scene.parser.cuts == 1


# ---------------------------------------------------------------- missing, unreadable


def test_a_log_that_is_not_there_yet_is_waited_for(
    path: Path, writers: Writers, scenes: Scenes
) -> None:
    scene = scenes(path)
    scene.poll(5)
    assert scene.notes == [f"{path} is not there; waiting for it"]
    writer = writers(path)
    writer.write(3)
    scene.poll()
    assert scene.lines == writer.lines
    assert scene.notes[1:] == [f"{path} is there; reading it"]


def test_a_directory_or_a_pipe_is_told_once(tmp_path: Path, scenes: Scenes) -> None:
    scene = scenes(tmp_path)
    scene.poll(3)
    assert len(scene.notes) == 1
    assert "is a directory" in scene.notes[0]
    os.mkfifo(tmp_path / "fifo")
    scene = scenes(tmp_path / "fifo")
    scene.poll(3)
    assert scene.notes == [f"{tmp_path}/fifo is not a plain file; use cuzktop - < {tmp_path}/fifo"]


def test_a_failing_disk_is_told_and_tried_again(
    path: Path, writers: Writers, scenes: Scenes, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, scene = writers(path), scenes(path)
    writer.write(5)
    scene.poll()
    with monkeypatch.context() as patch:

        def fail(*_args: int) -> bytes:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

        patch.setattr(os, "pread", fail)
        writer.write(5)
        scene.poll(3)
    scene.poll()
    assert scene.lines == writer.lines
    assert scene.parser.cuts == 0
    assert [note.removeprefix(f"cannot read {path}: ") for note in scene.notes] == [
        "stale file handle; trying again",
        f"{path} can be read again",
    ]


def test_the_path_is_looked_at_once_a_second(path: Path, writers: Writers) -> None:
    writer = writers(path)
    writer.write(1)
    follower = Follower(path)
    follower.poll(0.0)
    path.unlink()
    assert follower.poll(PATH_CHECK_MS - 1) == []
    assert follower.poll(PATH_CHECK_MS) == [
        Say(f"{path} is gone; the open file is still read", "warning")
    ]
    follower.close()


# ---------------------------------------------------------------- everything, at random


class Stress:
    """Random life of a log, with an account of the lines that a reader could have read."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.random = random.Random(seed)
        self.scene = Scene(path)
        self.writer = Writer(path, append=self.random.random() < 0.6)
        self.unseen = 0  # lines at the end of writer.lines that no poll has come after
        self.lost: set[bytes] = set()  # nobody could have read them
        self.generation = 0
        self.polls_since_switch = 9

    def step(self) -> None:
        chance = self.random.random()
        if chance < 0.45:
            self.unseen += len(self.writer.write(self.random.choice([1, 1, 3, 40, 900])))
        elif chance < 0.80:
            self.poll()
        elif chance < 0.90:
            self.truncate()
        else:
            self.switch()

    def poll(self) -> None:
        self.scene.poll(after_ms=self.random.choice([250.0, PATH_CHECK_MS]))
        if self.polls_since_switch >= 5:
            self.unseen = 0
        self.polls_since_switch += 1

    def settle(self) -> None:
        self.scene.poll(6)
        self.polls_since_switch = 9
        self.unseen = 0

    def truncate(self) -> None:
        if self.random.random() < 0.5:
            self.settle()
        self.lost |= set(self.writer.lines[len(self.writer.lines) - self.unseen :])
        self.unseen = 0
        # Not the file that the reader holds, where the path was switched and it doesn't know yet.
        os.truncate(self.path, 0)

    def switch(self) -> None:
        # A second switch before the reader has looked at the path hides a file from everybody.
        self.settle()
        self.generation += 1
        old = self.path.with_name(f"daemon.log.{self.generation}")
        how = self.random.choice(["rename", "rename, late", "delete", "create", "link"])
        if how == "delete":
            self.path.unlink()
        elif how == "link":
            target = self.path.with_name(f"target.{self.generation}")
            target.touch()
            link = self.path.with_name("link")
            link.symlink_to(target)
            link.replace(self.path)
        else:
            self.path.rename(old)
        if how in {"rename, late", "create", "delete"}:
            if how == "create":
                self.path.touch()
            for _ in range(self.random.randrange(3)):
                self.writer.write(self.random.choice([1, 30]))
                self.scene.poll()
        self.writer.append = self.random.random() < 0.6
        self.writer.reopen()
        self.unseen = len(self.writer.write(2))
        self.polls_since_switch = 0


@pytest.mark.parametrize("seed", range(12))
def test_a_random_life_loses_and_doubles_nothing(path: Path, seed: int) -> None:
    stress = Stress(path, seed)
    for _ in range(150):
        stress.step()
    stress.settle()
    stress.scene.follower.close()
    stress.writer.close()
    got = stress.scene.lines
    expected = [line for line in stress.writer.lines if line not in stress.lost]
    assert [line for line in got if line not in stress.lost] == expected
    assert len(set(got)) == len(got)
    assert set(got) <= set(stress.writer.lines)


# ---------------------------------------------------------------- the thread


class Clock:
    """Milliseconds that pass while somebody waits; stops the waiting after a while."""

    def __init__(self, stop_after: int) -> None:
        self.now_ms = 1_000_000.0
        self.waits = 0
        self.stop_after = stop_after
        self.meanwhile: Callable[[int], object] = lambda _waits: None

    def __call__(self) -> float:
        return self.now_ms

    def wait(self, seconds: float) -> bool:
        self.now_ms += seconds * 1000
        self.waits += 1
        self.meanwhile(self.waits)
        return self.waits >= self.stop_after


def texts(events: Sequence[Event]) -> list[str]:
    return [event.raw for event in events if isinstance(event, LineUnparsed)]


def notes(events: Sequence[Event]) -> list[SourceNote]:
    return [event for event in events if isinstance(event, SourceNote)]


def test_the_thread_emits_what_the_parser_makes_of_it(path: Path, writers: Writers) -> None:
    writer = writers(path)
    writer.write(2)
    clock, parser = Clock(stop_after=8), Lines()
    emitted: list[Event] = []

    def meanwhile(waits: int) -> None:
        if waits == 1:
            writer.write(3)
        if waits == 2:
            os.truncate(path, 0)
            writer.write(1)

    clock.meanwhile = meanwhile
    tail = LogTail(path, parser, emitted.extend, clock=clock, wait=clock.wait)
    tail.run()
    assert texts(emitted) == [line.decode() for line in writer.lines]
    assert parser.cuts == 1
    [note] = notes(emitted)
    assert (note.level, note.at_ms) == ("info", 1_000_500.0)
    assert "was truncated" in note.text
    assert tail.caught_up


def test_a_frame_has_what_was_written_by_then(path: Path, writers: Writers) -> None:
    """It is had from memory; meanwhile the thread sees to no more than the path."""
    writer = writers(path)
    writer.write(2)
    clock, came = Clock(stop_after=30), list[tuple[float, int]]()
    frames = itertools.count(1_001_000, 1000)
    next_ms = next(frames)

    def wait(seconds: float) -> bool:
        nonlocal next_ms
        until_ms = clock.now_ms + 1000 * seconds
        while next_ms <= until_ms:
            clock.now_ms = next_ms
            writer.write(200)
            tail.bring()
            next_ms = next(frames)
        clock.now_ms = until_ms
        return clock.wait(0.0)

    def emit(events: Sequence[Event]) -> None:
        came.append((clock.now_ms, len(texts(events))))

    tail = LogTail(path, Lines(), emit, clock=clock, wait=wait)
    tail.run()
    assert came[0] == (1_000_000, 2)
    assert came[1:] == [(at_ms, 200) for at_ms in range(1_001_000, int(clock.now_ms) + 1, 1000)]
    assert 26 <= len(came) <= 30  # frames; four polls before the first, about one a frame then


def test_what_was_read_waits_for_a_frame_and_outlives_its_file(
    path: Path, writers: Writers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that can't be had from memory, as a server's, is read as often as without frames."""

    def never(_descriptor: int, _count: int, _offset: int) -> bytes:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(log_tail, "_at_hand", never)
    writer = writers(path)
    writer.write(2)
    clock, came = Clock(stop_after=16), list[int]()

    def meanwhile(waits: int) -> None:
        if waits < 14:
            writer.write(3)
        if waits == 6:
            os.truncate(path, 0)
            writer.write(1)
        if waits % 4 == 0:
            tail.bring()

    clock.meanwhile = meanwhile
    emitted: list[Event] = []

    def emit(events: Sequence[Event]) -> None:
        came.append(clock.waits)
        emitted.extend(events)

    tail = LogTail(path, Lines(), emit, clock=clock, wait=clock.wait)
    tail.run()
    lost = 3  # written just before the file was truncated
    assert len(texts(emitted)) == len(writer.lines) - lost
    assert came == [0, 1, 2, 3, 8, 12, 16]
    assert [note.level for note in notes(emitted)] == ["info"]


def test_a_log_that_was_truncated_once_is_read_often_again(path: Path, writers: Writers) -> None:
    """What is written between a read and a truncation is lost: there will be others."""
    writer = writers(path)
    writer.write(20)
    clock, waited = Clock(stop_after=20), list[float]()

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        tail.bring()
        if len(waited) == 8:
            os.truncate(path, 0)
        writer.write(2)
        return clock.wait(seconds)

    emitted: list[Event] = []
    tail = LogTail(path, Lines(), emitted.extend, clock=clock, wait=wait)
    tail.run()
    assert waited[:8] == [0.25, *[1.05] * 7]
    assert waited[8:] == [0.25] * 12
    assert texts(emitted)[-2:] == [line.decode() for line in writer.lines[-4:-2]]


def test_what_is_recorded_is_handed_on_when_it_is_read(path: Path, writers: Writers) -> None:
    """A recording tells when each line came, to a quarter of a second."""
    writer = writers(path)
    writer.write(1)
    clock, came = Clock(stop_after=9), list[int]()

    def meanwhile(waits: int) -> None:
        writer.write(1)
        if waits % 4 == 0:
            tail.bring()

    clock.meanwhile = meanwhile
    tail = LogTail(
        path,
        Lines(),
        lambda _events: came.append(clock.waits),
        clock=clock,
        wait=clock.wait,
        at_once=lambda: True,
    )
    tail.run()
    assert came == list(range(9))
    assert clock() == 1_002_250.0


def test_what_breaks_in_a_frame_ends_the_thread_with_a_word(path: Path, writers: Writers) -> None:
    class Breaks(Lines):
        def feed(self, data: bytes) -> list[LogEvent]:
            if clock.waits > 3:
                raise ZeroDivisionError(data)
            return super().feed(data)

    writer = writers(path)
    writer.write(1)
    clock = Clock(stop_after=20)

    def meanwhile(_waits: int) -> None:
        writer.write(1)
        tail.bring()

    clock.meanwhile = meanwhile
    emitted: list[Event] = []
    tail = LogTail(
        path, Breaks(), emitted.extend, clock=clock, wait=clock.wait, on_idle=lambda: "silent"
    )
    tail.run()
    clock.now_ms += 60_000
    tail.bring()  # it is over
    [note] = notes(emitted)
    assert "reading the log stopped: ZeroDivisionError" in note.text
    assert clock.waits < 10


def test_progress_ends_where_the_log_ended(path: Path) -> None:
    path.write_bytes(b"x" * 99 + b"\n")
    with path.open("ab") as file:
        file.write((b"y" * 99 + b"\n") * 9_999)
    clock = Clock(stop_after=2)
    told: list[tuple[int, int]] = []
    tail = LogTail(
        path,
        Lines(),
        lambda _events: None,
        clock=clock,
        wait=clock.wait,
        on_progress=lambda read, total: told.append((read, total)),
    )
    tail.run()
    assert [total for _, total in told] == [1_000_000] * 4
    assert told[0][0] == POLL_BYTES
    assert told[-1][0] == 1_000_000
    assert clock.waits == 2  # none before the end


def test_a_half_line_is_told_once_a_silence_and_taken_back(path: Path, writers: Writers) -> None:
    writer = writers(path)
    writer.text(b"TIMELINE,5,GPU_")
    clock = Clock(stop_after=40)
    scanner = LogScanner()
    clock.meanwhile = lambda waits: writer.text(b"START,j,worker=0\n") if waits == 20 else None
    emitted: list[Event] = []
    tail = LogTail(
        path,
        scanner,
        emitted.extend,
        clock=clock,
        wait=clock.wait,
        on_idle=scanner.half_line,
    )
    tail.run()
    assert [(note.at_ms, note.text) for note in emitted if isinstance(note, SourceNote)] == [
        (1_002_000.0, "the log ends in the middle of a line: TIMELINE,5,GPU_"),
        (1_005_000.0, ""),
    ]
    [started] = [event for event in emitted if isinstance(event, GpuStarted)]
    assert started == GpuStarted(5, "j", None, 0)


def test_a_parser_that_breaks_ends_the_thread_with_a_word(path: Path) -> None:
    class Broken(Lines):
        def feed(self, data: bytes) -> list[LogEvent]:
            raise ZeroDivisionError(data)

    path.write_bytes(b"x\n")
    clock = Clock(stop_after=9)
    emitted: list[Event] = []
    LogTail(path, Broken(), emitted.extend, clock=clock, wait=clock.wait).run()
    [note] = notes(emitted)
    assert note.level == "error"
    assert "reading the log stopped: ZeroDivisionError" in note.text


def test_stop_ends_the_sleep(path: Path) -> None:
    path.write_bytes(b"x\n")
    emitted: list[Event] = []
    tail = LogTail(path, Lines(), emitted.extend, clock=lambda: 0.0, poll_s=600)
    tail.start()
    tail.stop()
    tail.join(timeout=60)
    assert not tail.is_alive()
