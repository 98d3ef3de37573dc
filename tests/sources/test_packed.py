"""A compressed log that is read once: what is in it, and why it ends."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest

from cuzktop.events import Event, LineUnparsed, LogEvent, SourceNote
from cuzktop.sources.packed import PackedReader
from cuzktop.units import size
from tests.sources.test_stdin import Lines

LOG = b"".join(b"line %d %d\n" % (n, n * n * n) for n in range(20_000))


class Ended:
    """What a reader emitted, and how often it said that it is done."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ends = 0

    def emit(self, events: Sequence[Event]) -> None:
        self.events += events

    def end(self) -> None:
        self.ends += 1

    @property
    def lines(self) -> list[str]:
        return [event.raw for event in self.events if isinstance(event, LineUnparsed)]

    @property
    def notes(self) -> list[SourceNote]:
        return [event for event in self.events if isinstance(event, SourceNote)]


def read(path: Path, parser: Lines | None = None) -> Ended:
    ended = Ended()
    reader = PackedReader(path, parser or Lines(), ended.emit, clock=lambda: 5.0, on_end=ended.end)
    reader.run()
    return ended


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    path = tmp_path / "daemon.log.gz"
    path.write_bytes(gzip.compress(LOG))
    return path


def test_all_that_is_in_it_comes_and_that_it_is_all(packed: Path) -> None:
    ended = read(packed)
    assert ended.lines == LOG.decode().splitlines()
    text = f"{packed} is read to its end: a compressed log doesn't grow"
    assert ended.notes == [SourceNote(5.0, "info", text)]
    assert ended.ends == 1


def test_a_last_line_without_an_end_counts(packed: Path) -> None:
    packed.write_bytes(gzip.compress(b"one\ntwo"))
    assert read(packed).lines == ["one", "two"]


def test_of_one_that_is_cut_off_comes_what_there_is(packed: Path) -> None:
    whole = packed.read_bytes()
    packed.write_bytes(whole[: len(whole) // 2])
    ended = read(packed)
    assert LOG.decode().startswith("\n".join(ended.lines))
    assert len(ended.lines) > 5_000
    [note] = ended.notes
    assert note.level == "error"
    before = f"the {size(len(chr(10).join(ended.lines)))} of text before that are shown"
    told = f"cannot read {packed}: the compressed file is cut off; {before}"
    assert note.text == f"{told}: fetch it again for the rest"
    assert ended.ends == 1


def test_one_that_is_gone_meanwhile_says_so(tmp_path: Path) -> None:
    ended = read(tmp_path / "daemon.log.gz")
    assert [note.level for note in ended.notes] == ["error"]
    assert "no such file" in ended.notes[0].text
    assert ended.ends == 1


def test_a_parser_that_breaks_says_so(packed: Path) -> None:
    """Also if it can't be asked any more for the half line that it holds."""

    class Broken(Lines):
        def feed(self, data: bytes) -> list[LogEvent]:
            raise ValueError(len(data))

        def finish(self) -> list[LogEvent]:
            raise ValueError

    ended = read(packed, Broken())
    [note] = ended.notes
    assert note.level == "error"
    assert note.text.startswith(f"reading {packed} stopped: ValueError: ")
    assert ended.ends == 1


def test_a_stopped_reader_reads_no_further(packed: Path) -> None:
    ended = Ended()
    reader = PackedReader(packed, Lines(), ended.emit, clock=lambda: 5.0)
    reader.stop()
    reader.run()
    assert 0 < len(ended.lines) < 20_000
    assert ended.notes == []
