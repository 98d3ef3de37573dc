"""Keys of a player and a recorder: what they do, and what they answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from cuzktop.cli import main
from cuzktop.deck import PLAYED, Deck, Junction, Tape
from cuzktop.events import Event, GpuSampled, LineUnparsed, LogEvent
from cuzktop.sources.recording_reader import recording_samples
from cuzktop.sources.replay import Replay
from tests.canned import record_log, recording_blocks

T0_MS = 1_796_029_645_000.0
GPU = GpuSampled(T0_MS, 0, 45.0, "gpm", 1000.0)
LOG = b"".join(
    b"2026-11-30T09:07:%02d.000000Z  INFO cuzk_core::engine: line %d\n" % (second, second)
    for second in range(60)
)


class Lines:
    """A parser that makes an event of every piece."""

    def feed(self, data: bytes) -> list[LogEvent]:
        return [LineUnparsed(data.decode(), "")]

    def finish(self) -> list[LogEvent]:
        return []

    def cut(self) -> list[LogEvent]:
        return []


class Screen:
    """A junction with a tape, and what came through."""

    def __init__(self) -> None:
        self.now_ms = T0_MS
        self.failures: list[str] = []
        self.came: list[Event] = []
        self.junction = Junction(Lines())
        self.tape = Tape(
            self.junction,
            log="daemon.log",
            wall_ms=lambda: self.now_ms,
            on_failure=self.failures.append,
        )
        self.deck = Deck(tape=self.tape)
        self.emit = self.tape.emitting(self.take)

    def take(self, events: Sequence[Event]) -> None:
        self.came += events


def log_of(path: Path) -> bytes:
    return b"".join(recording_blocks([path.read_bytes()]))


# ------------------------------------------------------------------------------- recording


def test_a_recording_begins_with_the_next_whole_line_and_ends_by_the_same_key(
    tmp_path: Path,
) -> None:
    screen, path = Screen(), tmp_path / "run.rec"
    screen.junction.feed(b"before\nhalf a ")
    assert screen.deck.badge() == ""
    assert screen.deck.record(str(path)) == f"recording to {path}; R ends it"
    assert screen.deck.records
    screen.junction.feed(b"line\nwhole\n")
    screen.emit([GPU])
    screen.junction.feed(b"two\nrest")
    assert screen.deck.badge().startswith("● REC ")
    assert screen.deck.end_recording().startswith("recorded 2 log lines, 1 GPU readings")
    assert not screen.deck.records
    screen.junction.feed(b" of it\nafter\n")
    screen.emit([GPU])
    assert log_of(path) == b"whole\ntwo\nrest"
    assert list(recording_samples(path)) == [GPU]
    assert len(screen.came) == 2  # the screen has everything, recorded or not
    assert screen.failures == []


def test_a_second_recording_is_another_file(tmp_path: Path) -> None:
    screen = Screen()
    for name in ("one", "two"):
        screen.deck.record(str(tmp_path / name))
        screen.junction.feed(name.encode() + b"\n")
        screen.deck.end_recording()
    assert log_of(tmp_path / "one") == b"one\n"
    assert log_of(tmp_path / "two") == b"two\n"


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    screen, path = Screen(), tmp_path / "run.rec"
    path.write_text("mine")
    said = screen.deck.record(str(path))
    assert "exists" in said
    assert "another file" in said
    assert not screen.deck.records
    assert path.read_text() == "mine"
    assert screen.deck.record("") == ""  # the question was called off
    assert screen.deck.end_recording() == ""


@pytest.mark.parametrize("name", [".", "/", "..", "~", "~nobody-of-this-name/x", "x" * 300])
def test_a_name_that_cannot_be_recorded_to_is_answered_not_raised(name: str) -> None:
    screen = Screen()
    assert "cannot record to" in screen.deck.record(name)
    assert not screen.deck.records


def test_a_name_is_offered_with_the_time_in_it() -> None:
    assert Screen().deck.new_name() == "cuzktop-20261130-090725.rec"


# ------------------------------------------------------------------------------- playing


@pytest.fixture
def deck(tmp_path: Path) -> Deck:
    path = tmp_path / "run.rec"
    record_log(path, LOG)
    return Deck(Replay(path, Lines(), lambda _events: None, clock=lambda: 0.0, again=False))


def test_what_is_played_stands_goes_on_and_is_moved(deck: Deck) -> None:
    assert deck.plays
    assert deck.badge() == "▶ 1× 09:07:00"
    assert deck.go_to("30") == "at 09:07:30 UTC"
    assert deck.step(1) == "at 09:07:40 UTC"
    assert deck.step(-1) == "at 09:07:30 UTC"
    assert deck.go_to("09:07:50") == "at 09:07:50 UTC"
    assert deck.step(1) == "at 09:07:59 UTC"  # it ends there
    assert deck.pause() == "stands at 09:07:59 UTC; , and . step"
    assert deck.badge() == "‖ 09:07:59"
    assert deck.pause() == "playing"


def test_speed_goes_by_steps_and_says_where_it_ends(deck: Deck) -> None:
    said = [deck.change_speed(1) for _ in range(7)]
    assert said[0] == "2 times as fast"
    assert said[-1] == "100 times as fast: there is no step further"
    assert deck.badge().startswith("▶ 100×")
    said = [deck.change_speed(-1) for _ in range(9)]
    assert said[-1] == "0.1 times as fast: there is no step further"


def test_a_time_that_is_none_is_answered_not_raised(deck: Deck) -> None:
    assert "is no time in a recording" in deck.go_to("yesterday")
    assert deck.go_to("") == ""
    assert deck.badge() == "▶ 1× 09:07:00"


def test_each_key_says_why_it_does_nothing(deck: Deck) -> None:
    live = Screen().deck
    for said in (live.pause(), live.step(1), live.change_speed(1), live.go_to("5")):
        assert said == "nothing is played here: cuzktop replay FILE plays a recording"
    assert deck.new_name() == ""
    assert deck.record("x") == PLAYED


def test_what_the_screen_recorded_is_reported_like_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    screen, path = Screen(), tmp_path / "run.rec"
    screen.deck.record(str(path))
    screen.junction.feed(
        b"2026-11-30T09:07:25.000000Z  INFO cuzk_core::engine: starting cuzk engine\n"
        b"TIMELINE,1000,GPU_START,j,worker=0,partition=0\n"
        b"TIMELINE,2000,GPU_END,j,worker=0,partition=0,gpu_ms=1000\n"
    )
    screen.deck.end_recording()
    assert main(["report", str(path), "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["partitions"][0]["bracket_ms"] == 1000
