"""Canned logs: their own time, how they are played, and the demos themselves."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzktop.errors import SourceUnreadableError, UsageError
from cuzktop.events import (
    Event,
    GpuSampled,
    HostSampled,
    LineUnparsed,
    LogEvent,
    PlayedAgain,
    PlayedFrom,
    SourceNote,
)
from cuzktop.settings import READ_BLOCK_BYTES
from cuzktop.sources import demos, recording_reader, recording_writer, reels, replay
from cuzktop.sources.demos import Demo, demo, demo_folder, demo_names
from cuzktop.sources.files import open_log, read_blocks
from cuzktop.sources.line_clock import LineClock, timed
from cuzktop.sources.recording import Piece
from cuzktop.sources.recording_writer import RecordingWriter
from cuzktop.sources.reels import RecordingReel, position_s
from cuzktop.sources.replay import LINGER_S, MOST_EVENTS, Replay
from tests.canned import record_log, recording_blocks

ZERO_S = 1_773_450_000  # 2026-03-14T01:00:00Z
ENGINE = b"2026-03-14T01:00:00.500000Z  INFO cuzk_core::engine: starting cuzk engine x=true\n"


def mark(offset_ms: int, name: str = "SYNTH_START") -> bytes:
    return b"TIMELINE,%d,%s,job,partition=0\n" % (offset_ms, name.encode())


def stamped(second: int, text: str = "x") -> bytes:
    return (
        f"2026-03-14T01:{second // 60:02d}:{second % 60:02d}.000000Z  INFO cuzk: {text}\n".encode()
    )


def seconds(lines: Sequence[bytes]) -> list[float | None]:
    """The lines' times, in seconds after the engine's start."""
    clock = LineClock()
    times = [clock.read(line) for line in lines]
    return [None if us is None else (us - ZERO_S * 10**6 - 500_000) / 1e6 for us in times]


# ---------------------------------------------------------------- a log's own time


def test_both_clocks_are_one() -> None:
    lines = [b"Caused by:\n", ENGINE, mark(2000), b"CUZK_TIMING: prep_msm_ms=1\n", stamped(4)]
    assert seconds([*lines, mark(5000), b"\n"]) == [None, 0.0, 2.0, 2.0, 3.5, 5.0, 5.0]


def test_a_torn_line_has_the_time_of_the_line_that_tore_it() -> None:
    lines = [
        ENGINE,
        mark(2000),
        b"TIMELINE,30CUZK_TIMING: prep_msm_ms=1\n",
        b"00,GPU_START,job,worker=0\n",
        b"TIMELINE,\x1b[2m2026-03-14T01:00:03.500000Z\x1b[0m \x1b[32m INFO\x1b[0m x\n",
        b"2900,GPU_START,job,worker=0\n",
    ]
    assert seconds(lines) == [0.0, 2.0, 2.0, 2.0, 3.0, 3.0]


def test_time_never_falls() -> None:
    assert seconds([ENGINE, mark(2000), mark(1990), mark(2010)]) == [0.0, 2.0, 2.0, 2.01]


def test_a_restart_counts_from_the_new_engine() -> None:
    again = b"2026-03-14T01:10:00.500000Z  INFO cuzk_core::engine: starting cuzk engine\n"
    assert seconds([ENGINE, mark(590_000), again, mark(10)]) == [0.0, 590.0, 600.0, 600.01]


def test_a_restart_without_its_start_up_lines_goes_on_from_there() -> None:
    lines = [ENGINE, mark(590_000), mark(2000), mark(2100), mark(5100)]
    assert seconds(lines) == [0.0, 590.0, 590.0, 590.0, 593.0]


def test_one_absurd_time_is_not_believed() -> None:
    lines = [ENGINE, mark(2000), mark(99_000_000), mark(2500), mark(3), mark(3000), stamped(3599)]
    assert seconds([*lines, mark(3500)])[-5:] == [2.5, 2.5, 3.0, 3.0, 3.5]


def test_a_long_silence_is_believed_at_the_second_line() -> None:
    assert seconds([ENGINE, mark(1000), mark(3_000_000), mark(3_000_500)])[-2:] == [1.0, 3000.5]


def test_without_time_stamps_the_log_begins_in_1970() -> None:
    clock = LineClock()
    assert [clock.read(mark(ms)) for ms in (7_000_000, 7_000_500)] == [0, 500_000]


def test_an_impossible_date_is_no_time() -> None:
    assert LineClock().read(b"2026-02-31T00:00:00.000000Z INFO x\n") is None


@given(st.lists(st.one_of(st.integers(0, 10**9).map(mark), st.integers(0, 3599).map(stamped))))
def test_time_rises_in_any_log(lines: list[bytes]) -> None:
    times = [time for time in seconds(lines) if time is not None]
    assert times == sorted(times)


# ---------------------------------------------------------------- playing


class Lines:
    """A parser that makes an event of every line."""

    def feed(self, data: bytes) -> list[LogEvent]:
        return [LineUnparsed(line, "") for line in data.decode().splitlines()]

    def finish(self) -> list[LogEvent]:
        return [LineUnparsed("", "finished")]

    def cut(self) -> list[LogEvent]:
        return [LineUnparsed("", "cut")]


class Stage:
    """Where a log is played: a clock that only waiting moves, and what was emitted when."""

    def __init__(self, stop_after_s: float = 1e9) -> None:
        self.now_ms = 50_000.0
        self.stop_at_ms = self.now_ms + stop_after_s * 1000
        self.emitted: list[tuple[float, Event]] = []
        self.times: list[float] = []
        self.now_in_log: Callable[[], float] = lambda: 0.0

    def clock(self) -> float:
        return self.now_ms

    def wait(self, seconds: float) -> bool:
        self.now_ms += seconds * 1000
        return self.now_ms >= self.stop_at_ms

    def emit(self, events: Sequence[Event]) -> None:
        self.emitted += [((self.now_ms - 50_000) / 1000, event) for event in events]

    def lines(self) -> list[tuple[float, str]]:
        """When each line came, in seconds after the beginning."""
        return [
            (round(at_s, 3), event.raw)
            for at_s, event in self.emitted
            if isinstance(event, LineUnparsed)
        ]

    def samples(self) -> list[tuple[float, float | None]]:
        return [
            (round(at_s, 3), event.power_w)
            for at_s, event in self.emitted
            if isinstance(event, GpuSampled)
        ]

    def rounds(self) -> int:
        return sum(isinstance(event, PlayedAgain) for _, event in self.emitted)

    def notes(self) -> list[str]:
        return [event.text for _, event in self.emitted if isinstance(event, SourceNote)]


def sample(second: float) -> GpuSampled:
    at_ms = (ZERO_S + 0.5 + second) * 1000
    return GpuSampled(at_ms, 0, 50.0, "utilization.gpu", 1000.0, power_w=second)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "daemon.log"
    path.write_bytes(ENGINE + b"".join(mark(ms) for ms in range(1000, 20_001, 1000)))
    return path


def play(log: Path, stage: Stage, **options: object) -> Replay:
    made = Replay(log, Lines(), stage.emit, clock=stage.clock, wait=stage.wait, **options)  # type: ignore[arg-type]
    stage.now_in_log = made.now_ms
    return made


def test_history_comes_at_once_and_the_rest_in_its_own_time(log: Path) -> None:
    stage = Stage()
    player = play(log, stage, start_s=10.0, again=False)
    assert player.now_ms() == (ZERO_S + 10.5) * 1000
    player.run()
    lines = stage.lines()[:-1]
    assert [raw for _, raw in lines] == log.read_text().splitlines()
    assert [at_s for at_s, _ in lines] == [0.0] * 11 + [float(s) for s in range(1, 11)]
    assert stage.emitted[-2][1] == LineUnparsed("", "finished")
    assert stage.notes() == ["the log has ended"]
    assert player.now_ms() == (ZERO_S + 20.5) * 1000


@pytest.mark.parametrize("speed", [0.5, 10.0])
def test_speed(log: Path, speed: float) -> None:
    stage = Stage()
    play(log, stage, start_s=10.0, speed=speed, again=False).run()
    assert stage.lines()[-1][0] == pytest.approx(10.0 / speed, abs=0.1)


def test_lines_that_are_close_come_together(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    path.write_bytes(ENGINE + b"".join(mark(ms) for ms in range(1000, 3000)))
    stage = Stage()
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return stage.wait(seconds)

    player = Replay(
        path, Lines(), stage.emit, clock=stage.clock, wait=wait, start_s=1.0, again=False
    )
    player.run()
    assert len(waits) == 8
    assert len(stage.lines()) == 2002
    assert all(
        at_s - int(raw.split(",")[1]) / 1000 + 1 < 0.251 for at_s, raw in stage.lines()[1:-1]
    )


def test_samples_come_in_step(log: Path) -> None:
    stage = Stage()
    at = [-5.0, 3.0, 9.9, 10.25, 15.0, 15.5, 99.0]
    play(
        log, stage, start_s=10.0, again=False, samples=lambda: [sample(second) for second in at]
    ).run()
    assert stage.samples() == [
        (0.0, -5.0),
        (0.0, 3.0),
        (0.0, 9.9),
        (0.25, 10.25),
        (5, 15),
        (5.5, 15.5),
    ]


def test_a_long_history_with_readings_in_it_comes_in_pieces(tmp_path: Path) -> None:
    """Otherwise hours of it are held as events before the first is shown."""
    path = tmp_path / "daemon.log"
    path.write_bytes(ENGINE + b"".join(mark(ms) for ms in range(1000, 9_000, 1)))
    stage, pieces = Stage(), list[int]()

    def emit(events: Sequence[Event]) -> None:
        pieces.append(len(events))
        stage.emit(events)

    samples = [sample(0.01 * n) for n in range(900)]
    player = Replay(
        path,
        Lines(),
        emit,
        clock=stage.clock,
        wait=stage.wait,
        start_s=9.0,
        again=False,
        samples=lambda: samples,
    )
    player.run()
    assert len(stage.lines()) == 8002
    assert len(stage.samples()) == 900
    assert max(pieces) <= MOST_EVENTS + 10  # of lines between two readings


def test_it_is_played_again_from_the_start(log: Path) -> None:
    stage = Stage(stop_after_s=2 * (10 + LINGER_S) + 1)
    rounds: list[int] = []

    def samples() -> list[GpuSampled]:
        rounds.append(player.round)
        return [sample(3.0)]

    player = play(log, stage, start_s=10.0, samples=samples)
    player.run()
    assert rounds == [0, 1, 2]
    assert stage.rounds() == 2
    raw = log.read_text().splitlines()
    lines = stage.lines()
    assert [line for _, line in lines] == [*raw, "", *raw, "", *raw[:11]]
    assert lines[21:23] == [(13.0, ""), (13.0, raw[0])]
    assert len(stage.samples()) == 3
    [note, _] = [event for _, event in stage.emitted if isinstance(event, PlayedAgain)]
    assert note.at_ms == (ZERO_S + 10.5) * 1000


def test_it_is_told_when_the_history_is_filled(log: Path) -> None:
    stage = Stage(stop_after_s=16.0)
    player = play(log, stage, start_s=10.0)
    player.run()
    told = [
        (at_s, event.raw if isinstance(event, LineUnparsed) else type(event).__name__)
        for at_s, event in stage.emitted
    ]
    raw = log.read_text().splitlines()
    filled = [*raw[:10], "PlayedFrom", raw[10]]  # the last is of the very start
    assert told[:12] == [(0.0, text) for text in filled]
    again = [text for _, text in told].index("PlayedAgain")
    assert [text for _, text in told[again + 1 : again + 13]] == filled


@pytest.mark.parametrize("start_s", [10.0, 100.0])
def test_a_history_up_to_the_end_or_after_it_is_filled_in_the_end(
    log: Path, start_s: float
) -> None:
    stage = Stage()
    play(log, stage, start_s=start_s, again=False).run()
    assert sum(isinstance(event, PlayedFrom) for _, event in stage.emitted) == 1


def test_without_a_start_it_is_played_from_where_the_gpu_works(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    path.write_bytes(ENGINE + mark(1000) + mark(40_000, "GPU_START") + mark(50_000))
    stage = Stage()
    player = play(path, stage, again=False)
    assert player.now_ms() == (ZERO_S + 40.5) * 1000
    player.run()
    assert [at_s for at_s, _ in stage.lines()] == [0, 0, 0, 10, 10]


@pytest.mark.parametrize("text", [b"", b"nothing to do with us\n", ENGINE, ENGINE.rstrip()])
@pytest.mark.parametrize("start_s", [None, 0.0, 1e6])
def test_a_log_without_a_clock_or_past_its_end_is_history(
    tmp_path: Path, text: bytes, start_s: float | None
) -> None:
    path = tmp_path / "daemon.log"
    path.write_bytes(text)
    stage = Stage()
    play(path, stage, start_s=start_s, again=False).run()
    assert [raw for _, raw in stage.lines()[:-1]] == text.decode().splitlines()
    assert stage.now_ms == 50_000.0


def test_a_log_in_1970_is_played_too(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    path.write_bytes(b"".join(mark(ms) for ms in range(5000, 9000, 1000)))
    stage = Stage()
    play(path, stage, start_s=1.0, again=False).run()
    assert [at_s for at_s, _ in stage.lines()] == [0, 0, 1, 2, 2]


def test_a_compressed_log_plays_alike(log: Path) -> None:
    packed = log.with_suffix(".gz")
    packed.write_bytes(gzip.compress(log.read_bytes()))
    plain, unpacked = Stage(), Stage()
    play(log, plain, start_s=5.0, again=False).run()
    play(packed, unpacked, start_s=5.0, again=False).run()
    assert plain.lines() == unpacked.lines()


def test_a_missing_log_and_a_speed_of_nothing_are_told_before_playing(
    log: Path, tmp_path: Path
) -> None:
    with pytest.raises(SourceUnreadableError, match="no such file"):
        play(tmp_path / "none.log", Stage())
    with pytest.raises(ValueError, match="speed must be above 0"):
        play(log, Stage(), speed=0)


def test_a_parser_that_breaks_ends_the_thread_with_a_word(log: Path) -> None:
    class Broken(Lines):
        def feed(self, data: bytes) -> list[LogEvent]:
            raise ZeroDivisionError(data)

    stage = Stage()
    Replay(log, Broken(), stage.emit, clock=stage.clock, wait=stage.wait).run()
    [text] = stage.notes()
    assert "stopped: ZeroDivisionError" in text


@pytest.mark.parametrize("after_s", [3.0, 10.5])
def test_waiting_is_where_it_stops(log: Path, after_s: float) -> None:
    stage = Stage(stop_after_s=after_s)
    play(log, stage, start_s=10.0).run()
    assert stage.notes() == []
    assert stage.now_ms == pytest.approx(50_000 + after_s * 1000, abs=LINGER_S * 1000)


def test_stop_ends_it(log: Path) -> None:
    stage = Stage()
    player = Replay(log, Lines(), stage.emit, clock=stage.clock, start_s=1.0)
    player.start()
    player.stop()
    player.join(timeout=60)
    assert not player.is_alive()


# ---------------------------------------------------------------- playing a recording


def at(second: float) -> float:
    """Wall-clock ms, so many seconds after the first line of `log`."""
    return (ZERO_S + 0.5 + second) * 1000


@pytest.fixture
def rec(log: Path, tmp_path: Path) -> Path:
    """A recording of `log` with a reading of GPU and host after every fifth second."""
    path = tmp_path / "run.rec"
    readings = [sample(second + 0.25) for second in range(0, 20, 5)]
    host = [
        HostSampled(at(second), 9.0, None, None, None, None, None, own_cpu_pct=5.0)
        for second in (3.0, 13.0)
    ]
    record_log(path, log.read_bytes(), [*readings, *host])
    return path


class Remote(Stage):
    """A stage with somebody who does something at certain times of its clock."""

    def __init__(self, stop_after_s: float = 1e9) -> None:
        super().__init__(stop_after_s)
        self.todo: list[tuple[float, Callable[[], object]]] = []

    def at(self, second: float, do: Callable[[], object]) -> None:
        self.todo.append((50_000 + second * 1000, do))

    def wait(self, seconds: float) -> bool:
        due_ms = min((at_ms for at_ms, _ in self.todo), default=1e18)
        if due_ms > self.now_ms + seconds * 1000:
            return super().wait(seconds)
        stopped = super().wait((due_ms - self.now_ms) / 1000)  # woken early
        for item in [item for item in self.todo if item[0] <= due_ms]:
            self.todo.remove(item)
            item[1]()
        return stopped

    def heard(self) -> list[tuple[float, str]]:
        """When what was emitted, in words."""
        said = []
        for at_s, event in self.emitted:
            if isinstance(event, LineUnparsed):
                raw = event.raw or event.reason
                text = raw.split(",")[1] if "TIMELINE" in raw else raw[:8]
            elif isinstance(event, GpuSampled):
                text = f"gpu {event.power_w}"
            elif isinstance(event, SourceNote):
                text = event.text
            elif isinstance(event, PlayedFrom):
                continue
            else:
                text = type(event).__name__
            said.append((round(at_s, 3), text))
        return said


def test_a_recording_is_played_by_the_times_at_which_things_came(rec: Path) -> None:
    stage = Remote()
    player = play(rec, stage, again=False)
    assert (player.first_ms, player.last_ms) == (at(0), at(20))
    assert player.now_ms() == at(0)
    player.run()
    assert stage.heard()[:8] == [
        (0.0, "2026-03-"),
        (0.25, "gpu 0.25"),
        (1.0, "1000"),
        (2.0, "2000"),
        (3.0, "3000"),
        (3.0, "HostSampled"),
        (4.0, "4000"),
        (5.0, "5000"),
    ]
    assert stage.heard()[-3:] == [(20.0, "20000"), (20.0, "finished"), (20.0, ENDED)]
    assert player.now_ms() == at(20)
    [host, _] = [event for _, event in stage.emitted if isinstance(event, HostSampled)]
    assert host.cpu_pct == 9.0
    assert host.own_cpu_pct is None  # that was the recorder's


ENDED = "the recording has ended"


@pytest.mark.parametrize(("start_s", "speed"), [(0.0, 1.0), (7.3, 3.0), (12.0, 0.5), (99.0, 1.0)])
def test_a_recording_plays_like_its_log(log: Path, rec: Path, start_s: float, speed: float) -> None:
    of_log, of_recording = Stage(), Stage()
    samples = [sample(second + 0.25) for second in range(0, 20, 5)]
    play(log, of_log, start_s=start_s, speed=speed, again=False, samples=lambda: samples).run()
    play(rec, of_recording, start_s=start_s, speed=speed, again=False).run()
    assert of_recording.lines() == of_log.lines()
    assert of_recording.samples() == of_log.samples()


def test_the_same_again_gives_the_same(rec: Path) -> None:
    heard = []
    for _ in range(2):
        stage = Remote()
        player = play(rec, stage, start_s=3.0, again=False, stay=True)
        stage.at(2.0, player.pause)
        stage.at(3.0, player.resume)
        stage.at(5.5, lambda player=player: player.set_speed(2.0))  # type: ignore[misc]
        stage.at(7.0, lambda player=player: player.seek(at(1.5)))  # type: ignore[misc]
        stage.at(30.0, player.stop)
        player.run()
        heard.append(stage.heard())
    assert heard[0] == heard[1]


def test_pausing_lets_the_time_stand(rec: Path) -> None:
    stage = Remote()
    player = play(rec, stage, start_s=10.0, again=False)
    clock: list[float] = []
    stage.at(2.5, player.pause)
    for second in (3.0, 60.0):
        stage.at(second, lambda: clock.append(player.now_ms()))
    stage.at(62.5, player.resume)
    player.run()
    assert clock == [at(12.5)] * 2
    live = [item for item in stage.heard() if item[0] > 0]
    assert live[:5] == [
        (0.25, "gpu 10.25"),
        (1.0, "11000"),
        (2.0, "12000"),
        (63.0, "13000"),
        (63.0, "HostSampled"),
    ]
    assert stage.heard()[-1] == (70.0, ENDED)
    assert not player.paused


def test_paused_from_the_start_it_shows_its_history(rec: Path) -> None:
    stage = Remote()
    player = play(rec, stage, start_s=2.0, again=False)
    player.pause()
    stage.at(100.0, player.stop)
    player.run()
    assert player.paused
    assert player.now_ms() == at(2)
    assert stage.heard() == [(0.0, "2026-03-"), (0.0, "gpu 0.25"), (0.0, "1000"), (0.0, "2000")]


def test_the_speed_changes_from_now_on(rec: Path) -> None:
    stage = Remote()
    player = play(rec, stage, start_s=10.0, again=False)
    stage.at(2.0, lambda: player.set_speed(4.0))
    stage.at(3.0, lambda: player.set_speed(0.5))
    player.run()
    assert player.speed == 0.5
    times = {text: at_s for at_s, text in stage.heard()}
    assert times["12000"] == 2.0
    assert times["13000"] == 2.25
    assert times["16000"] == 3.0
    assert times["17000"] == 5.0
    with pytest.raises(ValueError, match="speed must be above 0"):
        player.set_speed(0.0)


@pytest.mark.parametrize("source", ["log", "rec"])
def test_a_step_back_plays_anew_from_there(source: str, request: pytest.FixtureRequest) -> None:
    stage = Remote()
    player = play(request.getfixturevalue(source), stage, start_s=10.0, again=False)
    stage.at(3.5, lambda: player.seek(at(4.0)))
    clock: list[float] = []
    stage.at(4.0, lambda: clock.append(player.now_ms()))
    player.run()
    assert clock == [at(4.5)]
    lines = [item for item in stage.heard() if item[1].isdigit()]
    assert lines[9:18] == [
        (0.0, "10000"),
        (1.0, "11000"),
        (2.0, "12000"),
        (3.0, "13000"),
        (3.5, "1000"),
        (3.5, "2000"),
        (3.5, "3000"),
        (3.5, "4000"),
        (4.5, "5000"),
    ]
    assert (3.5, "cut") in stage.heard()
    [again] = [event for _, event in stage.emitted if isinstance(event, PlayedAgain)]
    assert again.at_ms == at(4)
    assert player.round == 0


def test_a_small_step_forward_is_played_through(rec: Path) -> None:
    stage = Remote()
    player = play(rec, stage, start_s=1.0, again=False)
    stage.at(1.5, lambda: player.seek(at(15.5)))
    player.run()
    assert stage.rounds() == 0
    lines = [item for item in stage.heard() if item[1].isdigit()]
    assert [text for _, text in lines] == [str(ms) for ms in range(1000, 20_001, 1000)]
    assert lines[1:3] == [(1.0, "2000"), (1.5, "3000")]
    assert lines[-6:-3] == [(1.5, "15000"), (2.0, "16000"), (3.0, "17000")]


def test_a_long_step_forward_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    record_log(path, ENGINE + b"".join(mark(ms) for ms in range(1000, 5_000_000, 300_000)))
    stage = Remote()
    player = play(path, stage, again=False)
    stage.at(1.5, lambda: player.seek(at(4000)))
    stage.at(2.0, player.stop)
    player.run()
    assert stage.rounds() == 1
    assert player.now_ms() == at(4000.5)


@pytest.mark.parametrize(("sought", "found"), [(-1e9, 0.0), (1e15, 20.0)])
def test_a_step_out_of_the_recording_goes_to_its_end(
    rec: Path, sought: float, found: float
) -> None:
    stage = Remote()
    player = play(rec, stage, start_s=10.0, again=False)
    clock: list[float] = []
    stage.at(0.5, lambda: player.seek(sought))
    stage.at(0.5, lambda: clock.append(player.now_ms()))
    player.run()
    assert clock == [at(found)]
    assert stage.heard()[-1] == (0.5 + 20 - found, ENDED)


def test_a_paused_replay_stays_paused_where_it_is_sent(rec: Path) -> None:
    stage = Remote()
    player = play(rec, stage, start_s=10.0, again=False)
    stage.at(0.5, player.pause)
    for second, place in ((10.0, 5.0), (20.0, 6.0)):
        stage.at(second, lambda place=place: player.seek(at(place)))  # type: ignore[misc]
    stage.at(30.0, player.stop)
    player.run()
    assert player.now_ms() == at(6)
    assert player.paused
    assert stage.heard()[-1] == (20.0, "6000")
    assert stage.rounds() == 1


def test_the_last_of_several_steps_counts(rec: Path) -> None:
    stage = Remote()
    player = play(rec, stage, start_s=10.0, again=False)
    for place in (3.0, 18.0, 2.0):
        stage.at(0.5, lambda place=place: player.seek(at(place)))  # type: ignore[misc]
    stage.at(1.0, player.stop)
    player.run()
    assert player.now_ms() == at(2.5)
    assert stage.rounds() == 1


def test_at_the_end_it_waits_for_a_step_back(rec: Path) -> None:
    stage = Remote()
    player = play(rec, stage, start_s=19.0, again=False, stay=True)
    stage.at(100.0, lambda: player.seek(at(18.0)))
    clock: list[float] = []
    stage.at(50.0, lambda: clock.append(player.now_ms()))
    stage.at(200.0, player.stop)
    player.run()
    assert clock == [at(20)]
    assert stage.notes() == [ENDED] * 2
    assert (102.0, "20000") in stage.heard()


@pytest.mark.parametrize("speed", [1.0, 100.0])
@pytest.mark.parametrize("options", [{}, {"again": False, "stay": True}])
def test_its_time_ends_with_it(log: Path, speed: float, options: dict[str, bool]) -> None:
    """The last picture stands: nobody knows that nothing happened afterwards."""
    stage = Remote()
    player = play(log, stage, start_s=18.0, speed=speed, **options)
    over_s = 2.0 / speed
    clock: list[float] = []
    for second in (0.5, 1.5, 2.5):
        stage.at(over_s + second, lambda: clock.append(player.now_ms()))
    stage.at(over_s + 2.6, lambda: player.seek(player.now_ms() - 1000.0))
    stage.at(over_s + 2.6, lambda: clock.append(player.now_ms()))
    stage.at(over_s + 2.7, player.stop)
    player.run()
    assert clock == [at(20.0)] * 3 + [at(19.0)]


def test_a_paused_demo_does_not_begin_again(log: Path) -> None:
    stage = Remote()
    player = play(log, stage, start_s=19.0)
    stage.at(2.0, player.pause)
    stage.at(60.0, player.resume)
    stage.at(60.5, player.stop)
    player.run()
    assert [at_s for at_s, event in stage.emitted if isinstance(event, PlayedAgain)] == [60.0]


def test_a_frame_has_what_is_due_brought(log: Path) -> None:
    """Lines that the thread would hand over up to a quarter of a second later, and does in time."""
    stage = Remote()
    player = play(log, stage, start_s=1.0, again=False)
    brought = 0

    def bring() -> None:
        nonlocal brought
        before = len(stage.emitted)
        player.bring()
        brought += len(stage.emitted) - before

    for second in range(2, 12):
        stage.at(second + 0.1, bring)
    player.run()
    lines = [item for item in stage.heard() if item[1].isdigit()]
    assert lines[:4] == [(0.0, "1000"), (1.0, "2000"), (2.0, "3000"), (3.1, "4000")]
    assert lines[9:11] == [(9.1, "10000"), (10.1, "11000")]
    assert brought == 9
    assert stage.heard()[-3:] == [(19.0, "20000"), (19.0, "finished"), (19.0, "the log has ended")]


def test_who_has_it_brought_never_waits_for_a_disk(
    rec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording may lie on a server that is gone: frames go on."""
    asked_by: list[str] = []

    class Slow(RecordingReel):
        def pieces(self, at_ms: float) -> Iterator[tuple[float, Piece]]:
            del at_ms
            for second in range(100):
                asked_by.append(who[0])
                yield at(0.1 * second), b"%d\n" % second

    who = ["thread"]

    def bring() -> None:
        who[0] = "frame"
        player.bring()
        who[0] = "thread"

    monkeypatch.setattr(reels, "RecordingReel", Slow)
    monkeypatch.setattr(replay, "PIECES_AHEAD", 10)
    stage = Remote()
    player = play(rec, stage, again=False)
    for second in range(1, 12):
        stage.at(second + 0.05, bring)
    player.run()
    assert [raw for _, raw in stage.lines()[:-1]] == [str(second) for second in range(100)]
    assert all(at_s - 0.1 * int(raw) < 1.01 for at_s, raw in stage.lines()[:-1])
    assert asked_by == ["thread"] * 100


def test_nothing_is_brought_while_it_is_paused_or_over(rec: Path) -> None:
    stage = Remote()
    player = play(rec, stage, start_s=10.0, again=False, stay=True)
    stage.at(2.5, player.pause)
    stage.at(20.0, player.bring)
    stage.at(30.0, player.resume)
    stage.at(100.0, player.bring)
    stage.at(200.0, player.stop)
    player.run()
    assert not [item for item in stage.heard() if 2.5 < item[0] <= 30.0]
    assert stage.heard()[-1] == (37.5, ENDED)


def test_a_step_back_goes_before_what_is_brought(rec: Path) -> None:
    stage = Remote()
    player = play(rec, stage, start_s=10.0, again=False)
    stage.at(3.5, player.bring)
    stage.at(3.6, lambda: player.seek(at(4.0)))
    stage.at(3.6, player.bring)
    stage.at(4.7, player.bring)
    stage.at(5.0, player.stop)
    player.run()
    assert [item for item in stage.heard() if item[1].isdigit()][-5:] == [
        (3.6, "1000"),
        (3.6, "2000"),
        (3.6, "3000"),
        (3.6, "4000"),
        (4.7, "5000"),
    ]


def test_what_breaks_while_it_is_brought_ends_the_thread_with_a_word(log: Path) -> None:
    class Breaks(Lines):
        def feed(self, data: bytes) -> list[LogEvent]:
            if b",12000," in data:
                raise ZeroDivisionError(data)
            return super().feed(data)

    stage = Remote()
    player = Replay(
        log, Breaks(), stage.emit, clock=stage.clock, wait=stage.wait, start_s=11.0, again=False
    )
    stage.at(1.05, player.bring)
    player.run()
    [text] = stage.notes()
    assert "stopped: ZeroDivisionError" in text


def test_what_cannot_be_read_is_told_after_all_that_can(
    rec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces are read ahead; those before the damage are played in their time all the same."""

    class Broken(RecordingReel):
        def pieces(self, at_ms: float) -> Iterator[tuple[float, Piece]]:
            yield at(0), b"one\n"
            yield at(5), b"two\n"
            raise UsageError(str(at_ms), hint="")

    monkeypatch.setattr(reels, "RecordingReel", Broken)
    stage = Stage()
    play(rec, stage, again=False).run()
    assert stage.lines() == [(0.0, "one"), (5.0, "two")]
    assert stage.notes()[0].startswith("playing stopped: ")


def test_a_real_thread_is_woken(rec: Path) -> None:
    came = threading.Event()

    def emit(events: Sequence[Event]) -> None:
        if any(isinstance(event, HostSampled) and event.at_ms == at(3) for event in events):
            came.set()  # whether it was played up to or begun anew: had the first piece come?

    player = Replay(rec, Lines(), emit, clock=lambda: 0.0, again=False, stay=True)
    player.start()
    player.pause()
    player.seek(at(5))
    assert came.wait(60)
    player.stop()
    player.join(timeout=60)
    assert not player.is_alive()
    assert player.now_ms() == at(5)


def long_recording(path: Path) -> bytes:
    text = ENGINE + b"".join(mark(ms) for ms in range(0, 4_000_000, 500))
    record_log(path, text, max_bytes=recording_writer.LEAST_MAX_BYTES * 2)
    return text


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.8, 1.0])
def test_a_recording_in_parts_is_found_at_any_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    path = tmp_path / "run.rec"
    long_recording(path)
    whole = [line for line in recorded_lines(path) if b"TIMELINE" in line]
    monkeypatch.setattr(reels, "SEEK_BACK_BYTES", 200_000)
    stage = Remote(stop_after_s=0.3)
    player = play(path, stage, again=False)
    to_ms = player.first_ms + (player.last_ms - player.first_ms) * share
    player.seek(to_ms)
    player.run()
    raw = [line.encode() for _, line in stage.lines() if "TIMELINE" in line]
    assert raw[-1] in whole
    at_s = whole.index(raw[-1])
    assert raw == whole[at_s + 1 - len(raw) : at_s + 1]
    assert at_s / len(whole) == pytest.approx(share, abs=0.01)
    assert min(at_s, 2000) < len(raw) < 3500  # 200 kB, give or take a block


def recorded_lines(path: Path) -> list[bytes]:
    with recording_reader.opened_parts(path) as parts:
        whole = [block for file in parts for block in read_blocks(file)]
    return b"".join(recording_blocks(whole)).splitlines()


def test_a_compressed_recording_plays_alike(rec: Path, tmp_path: Path) -> None:
    packed = tmp_path / "run.rec.gz"
    packed.write_bytes(gzip.compress(rec.read_bytes()))
    plain, unpacked = Stage(), Stage()
    play(rec, plain, start_s=5.0, again=False).run()
    player = play(packed, unpacked, start_s=5.0, again=False)
    assert player.last_ms == at(20)
    player.run()
    assert plain.emitted == unpacked.emitted


def test_where_another_version_follows_playing_stops_with_a_plain_sentence(rec: Path) -> None:
    much = b"L 1796029645000 x\n" * (READ_BLOCK_BYTES // 10)  # the ends are looked at before
    rec.write_bytes(rec.read_bytes() + much + b"cuzktop-recording 2 {}\n" + much)
    stage = Stage()
    play(rec, stage, start_s=30.0, again=False).run()
    [text] = stage.notes()
    assert text.startswith(f"playing stopped: cannot read {rec}: it is a recording of version 2")


def test_a_damaged_recording_plays_on_and_says_so(rec: Path) -> None:
    head, *records = rec.read_bytes().splitlines(keepends=True)
    records.insert(5, b"garbage\n")
    rec.write_bytes(head + b"".join(records) + b"L 17731")
    stage = Stage()
    play(rec, stage, start_s=19.0, again=False).run()
    assert len(stage.lines()) == 22
    assert stage.notes() == [f"{rec}: 1 damaged line was left out", ENDED]


def test_a_cut_in_the_log_is_played_too(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    writer = RecordingWriter(path, now_ms=at(0))
    writer.log(b"one\nha", at(0))
    writer.cut(at(1))
    writer.log(b"new\n", at(2))
    writer.close(at(2))
    stage = Remote()
    play(path, stage, again=False).run()
    assert stage.lines() == [(0, "one"), (1, "ha"), (1, ""), (2, "new"), (2, "")]


def test_a_clock_that_was_set_back_while_recording_does_not_stop_it(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    writer = RecordingWriter(path, now_ms=at(100))
    for second in (100, 101, 50, 51, 103):
        writer.log(b"%d\n" % second, at(second))
    writer.close(at(103))
    stage = Stage()
    play(path, stage, again=False).run()
    assert stage.lines()[:-1] == [(0, "100"), (1, "101"), (1, "50"), (1, "51"), (3, "103")]


@pytest.mark.parametrize("text", [b"cuzktop-recording 1 {}\n", b"cuzktop-recording 1 {}\nL 17"])
def test_an_empty_recording_cannot_be_played(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "run.rec"
    path.write_bytes(text)
    with pytest.raises(SourceUnreadableError, match="nothing is recorded in it"):
        play(path, Stage())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("90.5", 90.5),
        ("14:30:05", 5.0),
        ("14:30:05.5", 5.5),
        ("14:31", 60.0),
        ("9:00", 18.5 * 3600),
        ("2026-03-14T14:30:30Z", 30.0),
        ("2026-03-14 14:30:30", 30.0),
        ("2026-03-14T16:30:30+02:00", 30.0),
        ("2026-03-13T00:00:00Z", 0.0),
    ],
)
def test_a_place_is_a_number_of_seconds_or_a_time(text: str, seconds: float) -> None:
    first_ms = 1_773_498_600_000.0  # 2026-03-14T14:30:00Z
    assert position_s(text, first_ms) == seconds


@pytest.mark.parametrize("text", ["", "x", "-1", "nan", "inf", "25:00", "14:61", "1e99"])
def test_anything_else_is_no_place(text: str) -> None:
    with pytest.raises(UsageError, match="is no time in a recording: give seconds"):
        position_s(text, 0.0)


# ---------------------------------------------------------------- the demos


def test_the_default_demo_is_the_story_that_started_it() -> None:
    assert demo_names()[0] == "ninety-percent"
    assert demo().name == "ninety-percent"


def test_an_unknown_demo_lists_the_others() -> None:
    with pytest.raises(UsageError, match="choose one of ninety-percent, failures"):
        demo_folder("../tests")


def test_no_demos_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demos, "demos_root", lambda: tmp_path / "none")
    assert demo_names() == ()
    with pytest.raises(UsageError, match="no demos are installed"):
        demo("herd")


def test_an_about_with_nothing_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demos, "demos_root", lambda: tmp_path)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "about.txt").touch()
    (tmp_path / "x" / "gpu.csv").touch()
    log, csv = tmp_path / "x" / "daemon.log", tmp_path / "x" / "gpu.csv"
    assert demo("x") == Demo(name="x", about="", log=log, gpu_csv=csv, start_s=None, utc=False)


def test_a_demo_may_be_a_recording(
    rec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demos, "demos_root", lambda: tmp_path)
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "about.txt").write_text("A recording\nstart=5\n")
    (folder / "recording").write_bytes(rec.read_bytes())
    chosen, stage = demo("x"), Stage(stop_after_s=20)
    assert chosen.log == folder / "recording"
    play(chosen.log, stage, start_s=chosen.start_s).run()
    assert stage.rounds() == 1
    assert [raw for _, raw in stage.lines()].count("") == 1
    assert len(stage.lines()) == 21 + 1 + 7
    assert len(stage.samples()) > 4


@pytest.mark.parametrize("name", demo_names())
def test_every_demo_has_history_before_and_work_after_its_start(name: str) -> None:
    chosen = demo(name)
    assert 20 < len(chosen.about) < 100
    assert chosen.start_s is not None
    with open_log(chosen.log) as file:
        lines = b"".join(read_blocks(file)).splitlines()
    clock = LineClock()
    times = [clock.read(line) for line in lines]
    known = [time for time in times if time is not None]
    live_s = (known[-1] - known[0]) / 1e6 - chosen.start_s
    works = [line for line in lines if b",GPU_START," in line]
    first = known[lines.index(works[0])] - known[0]
    assert first / 1e6 < chosen.start_s
    assert live_s > 25


@pytest.mark.parametrize("name", ["failures", "h200-one-gpu"])
def test_a_demo_is_played_whole(name: str) -> None:
    chosen, stage = demo(name), Stage()
    play(chosen.log, stage, start_s=chosen.start_s, speed=10, again=False).run()
    with open_log(chosen.log) as file:
        lines = b"".join(read_blocks(file)).decode().splitlines()
    assert [raw for _, raw in stage.lines()[:-1]] == lines
    assert stage.lines()[-1][0] > 2


def test_the_recorded_demos_have_their_samples() -> None:
    with_samples = {name for name in demo_names() if demo(name).gpu_csv is not None}
    assert with_samples == {"h200-one-gpu", "h200-two-gpus"}
    for name in with_samples:
        chosen = demo(name)
        assert chosen.utc
        assert chosen.gpu_csv is not None
        header, first, *_ = chosen.gpu_csv.read_text().splitlines()
        assert len(header.split(", ")) == len(first.split(", "))
        assert {
            "timestamp",
            "index",
            "utilization.gpu [%]",
            "power.draw [W]",
            "power.limit [W]",
        } <= {*header.split(", ")}


def test_the_failures_demo_fails_and_restarts_while_it_is_played() -> None:
    chosen = demo("failures")
    with open_log(chosen.log) as file:
        text = b"".join(read_blocks(file))
    clock = LineClock()
    first = None
    live: list[bytes] = []
    for line in text.splitlines():
        now = clock.read(line)
        first = now if first is None else first
        if now and first and chosen.start_s and (now - first) / 1e6 > chosen.start_s:
            live.append(line)
    assert sum(b"cuzk-daemon starting" in line for line in live) == 1
    assert sum(b"ERROR" in line for line in live) >= 2


def test_lines_without_a_time_are_placed_by_what_they_print() -> None:
    """A call's lines stand between two clocks: the GPU's stages are played in their own time."""
    lines = [
        mark(1000, "GPU_START"),
        b"CUZK_TIMING: split_vectors_ms=1 setup_to_split_ms=3\n",
        b"CUZK_TIMING: gpu_tid=0 ntt_msm_h_ms=900\n",
        b"CUZK_TIMING: prep_msm_ms=2800\n",
        b"CUZK_TIMING: gpu_tid=0 batch_add_ms=700\n",
        b"CUZK_TIMING: gpu_tid=0 tail_msm_ms=100 gpu_total_ms=3600\n",
        mark(4600, "GPU_END"),
    ]
    times = [at_us // 1000 for at_us, _ in timed(lines)]
    begun = times[0]
    assert [at - begun for at in times] == [0, 0, 900, 2800, 3500, 3600, 3600]
