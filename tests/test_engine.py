"""The thread between sources and views, on a clock that the test turns."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cuzktop import engine as engine_module
from cuzktop.engine import FIRST_S, LEAST_INTERVAL_S, Engine, Inbox
from cuzktop.events import (
    EngineStarted,
    Event,
    GpuSampled,
    LogEvent,
    PlayedAgain,
    PlayedFrom,
    SourceNote,
    SynthStarted,
    WorkerStarted,
)
from cuzktop.frame import Frame
from cuzktop.parse.scanner import Counts, LogScanner
from cuzktop.picture import Picture
from cuzktop.sources.log_tail import LogTail
from cuzktop.sources.sink import Singles

START_MS = 1_771_488_751_442.0  # a wall clock


class Stage(Inbox):
    """An inbox whose batches come at given seconds of a clock that stands still between them."""

    def __init__(self, picture: Picture) -> None:
        super().__init__(picture)
        self.now_s = 0.0
        self.coming: deque[tuple[float, Sequence[Event]]] = deque()
        self.woken = False

    def wait(self, timeout_s: float) -> None:
        """Fold what comes within `timeout_s`; time passes until then."""
        until_s = self.now_s + timeout_s
        while self.coming and self.coming[0][0] <= until_s and not self.woken:
            at_s, batch = self.coming.popleft()
            self.now_s = max(self.now_s, at_s)
            self.emit(batch)
        if not self.woken:
            self.now_s = until_s
        self.woken = False

    def wake(self) -> None:
        self.woken = True

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> float:
        return START_MS + self.now_s * 1000.0


def synth(number: int) -> list[Event]:
    """A batch: one synthesis begins."""
    return [SynthStarted(1000 + number, "porep-1000-1", number, "porep")]


class Scene:
    """An engine, what comes to it, and the frames that it published with their times."""

    def __init__(
        self,
        *,
        interval_s: float = 1.0,
        age_ms: float | None = None,
        picture: Picture | None = None,
    ) -> None:
        self.picture = picture or Picture()
        self.inbox = Stage(self.picture)
        self.counts = Counts()
        self.frames: list[tuple[float, Frame]] = []
        self.on_frame: Callable[[Frame], None] = lambda _: None
        self.engine = Engine(
            self.picture,
            self.inbox,
            self.publish,
            clock=self.inbox.wall_ms,
            monotonic_s=self.inbox.monotonic_s,
            counts=self.counts,
            path="daemon.log",
            interval_s=interval_s,
            age_ms=age_ms,
        )

    def publish(self, frame: Frame) -> None:
        self.frames.append((self.inbox.now_s, frame))
        self.on_frame(frame)

    def come(self, *batches: tuple[float, Sequence[Event]]) -> None:
        self.inbox.coming.extend(batches)

    @property
    def times(self) -> list[float]:
        return [round(at, 3) for at, _ in self.frames]


def test_the_first_frame_comes_early_and_the_others_at_the_interval() -> None:
    scene = Scene(interval_s=2.0)
    for _ in range(3):
        scene.engine.step()
    assert scene.times == [FIRST_S, FIRST_S + 2.0, FIRST_S + 4.0]


def test_batches_between_two_frames_are_folded_into_the_next() -> None:
    scene = Scene()
    scene.engine.step()
    scene.come((0.4, synth(0)), (0.5, synth(1)), (0.9, synth(2)), (1.3, synth(3)))
    scene.engine.step()
    scene.engine.step()
    assert [len(frame.syntheses) for _, frame in scene.frames] == [0, 3, 4]
    assert scene.times == [0.2, 1.2, 2.2]


def test_a_frame_has_its_source_bring_what_has_come() -> None:
    scene, numbers = Scene(), itertools.count()
    scene.engine._bring = lambda: scene.inbox.emit(synth(next(numbers)))
    for _ in range(3):
        scene.engine.step()
    assert [len(frame.syntheses) for _, frame in scene.frames] == [1, 2, 3]
    scene.engine.set_interval(0.1)
    for _ in range(10):
        scene.engine.step()
    assert len(scene.frames[-1][1].syntheses) == 8  # five times a second is often enough


def test_many_batches_do_not_make_more_frames_than_asked_for() -> None:
    scene = Scene(interval_s=10.0)
    scene.engine.step()
    scene.come(*((0.2 + 0.02 * n, [SourceNote(0.0, "info", "")]) for n in range(490)))
    scene.engine.step()
    assert scene.times == [0.2, pytest.approx(10.2, abs=0.03)]


def test_a_large_log_is_shown_while_it_is_read() -> None:
    scene = Scene(interval_s=60.0, age_ms=0.0)
    scene.engine.progress(0, 64_000_000)
    scene.come(*((0.0015 + 0.002 * n, synth(n)) for n in range(300)))
    for n in range(1, 4):
        scene.engine.progress(n * 16_000_000, 64_000_000)
        scene.engine.step()
    assert scene.times == [0.2, 0.4, 0.6]
    assert [frame.source.read_pct for _, frame in scene.frames] == [25.0, 50.0, 75.0]
    shown = [len(frame.syntheses) for _, frame in scene.frames]
    assert shown == [100, 200, 300]
    scene.engine.progress(64_000_000, 64_000_000)
    assert scene.engine.frame().source.read_pct is None


def test_what_stood_in_the_log_is_shown_as_soon_as_it_is_read() -> None:
    scene = Scene(interval_s=10.0, age_ms=0.0)
    scene.engine.progress(1_000_000, 3_000_000)
    scene.engine.step()
    scene.engine.step()
    scene.engine.progress(3_000_000, 3_000_000)
    scene.come((2 * FIRST_S + 0.1, synth(0)))
    scene.engine.step()
    assert scene.times == [FIRST_S, 2 * FIRST_S, 2 * FIRST_S + 10.0]
    scene = Scene(interval_s=10.0, age_ms=0.0)
    scene.engine.progress(1_000_000, 3_000_000)
    scene.engine.step()
    scene.come((FIRST_S + 0.1, synth(0)))
    scene.on_frame = lambda _: scene.engine.progress(3_000_000, 3_000_000)
    scene.engine.step()
    assert scene.times == [FIRST_S, 2 * FIRST_S]
    assert len(scene.frames[-1][1].syntheses) == 1


def test_what_is_played_again_is_not_shown_half_filled() -> None:
    scene = Scene()
    scene.come((0.1, [*synth(0), *synth(1), *synth(2)]))
    scene.engine.step()
    again: list[Event] = [PlayedAgain(START_MS)]
    scene.come((1.15, again), (1.18, synth(0)))
    scene.come((1.25, synth(1)), (1.25, synth(2)), (1.25, [PlayedFrom(START_MS)]))
    for _ in range(3):
        scene.engine.step()
    assert [len(frame.syntheses) for _, frame in scene.frames] == [3, 3, 3, 3]
    assert scene.times == [0.2, 1.2, 1.4, 2.4]  # it is looked at again soon


def test_a_long_history_that_is_filled_anew_is_shown_while_it_grows() -> None:
    scene = Scene()
    scene.come((0.1, synth(0)))
    scene.engine.step()
    scene.come((0.3, [PlayedAgain(START_MS)]))
    scene.come(*((0.3 + 0.1 * n, synth(n)) for n in range(100)))
    for _ in range(8):
        scene.engine.step()
    shown = [len(frame.syntheses) for _, frame in scene.frames]
    assert shown[:6] == [1] * 6
    assert shown[6:] == [pytest.approx(count, abs=1) for count in (20, 30, 40)]
    assert scene.times == [0.2, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 3.2, 4.2]


def test_an_empty_log_has_no_progress() -> None:
    scene = Scene(age_ms=0.0)
    scene.engine.progress(0, 0)
    assert scene.engine.frame().source.read_pct is None


@pytest.mark.parametrize(("asked", "given"), [(0.5, 0.5), (30.0, 30.0), (0.001, LEAST_INTERVAL_S)])
def test_a_new_interval_counts_from_the_next_frame_on(asked: float, given: float) -> None:
    scene = Scene()
    scene.engine.step()
    scene.engine.set_interval(asked)
    scene.engine.step()
    scene.engine.step()
    assert scene.times == [FIRST_S, *(pytest.approx(FIRST_S + n * given) for n in (1, 2))]


def test_a_shorter_interval_does_not_wait_for_the_longer_one_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(interval_s=60.0)
    scene.engine.step()
    monkeypatch.setattr(scene.picture, "feed", lambda _: scene.engine.set_interval(0.5))
    scene.come((5.0, ()))
    scene.engine.step()
    assert scene.times == [FIRST_S, 5.0]


# ---------------------------------------------------------------- what is known of the log


def test_a_frame_says_what_was_read() -> None:
    scene = Scene()
    scene.counts.bytes, scene.counts.lines, scene.counts.events = 4000, 30, 20
    scene.counts.torn, scene.counts.unparsed = 2, 1
    source = scene.engine.frame().source
    assert (source.path, source.bytes, source.lines, source.events) == ("daemon.log", 4000, 30, 20)
    assert (source.torn, source.unparsed) == (2, 1)


def test_silence_is_counted_from_the_last_growth() -> None:
    scene = Scene()
    silences = []
    for grown in (100, 100, 100, 150, 150):
        scene.counts.bytes = grown
        scene.engine.step()
        silences.append(scene.frames[-1][1].source.silent_ms)
    assert silences == [0.0, 1000.0, 2000.0, 0.0, 1000.0]


def test_what_was_in_the_log_before_us_is_no_growth() -> None:
    """A log that ended three hours ago is silent since then, not since we began to read it."""
    hours_ms = 3 * 3600_000.0
    scene = Scene(age_ms=hours_ms)
    scene.counts.bytes = 1_000_000
    scene.engine.step()
    scene.engine.progress(1_000_000, 1_000_000)
    scene.engine.step()
    silences = [frame.source.silent_ms for _, frame in scene.frames]
    assert silences == [hours_ms + 200.0, hours_ms + 1200.0]
    scene.counts.bytes += 80  # it is being written again
    scene.engine.step()
    assert scene.frames[-1][1].source.silent_ms == 0.0


def test_a_copy_of_an_old_log_ended_when_the_log_did() -> None:
    """The file is minutes or seconds old, what it tells is of last month; until it grows."""
    month_ms = 31 * 86_400_000.0
    began_ms = START_MS - month_ms - 5000.0
    started: list[Event] = [EngineStarted(round(began_ms * 1000.0))]
    for age_ms in (300_000.0, 5000.0):
        scene = Scene(age_ms=age_ms)
        scene.come((0.0, [*started, *synth(0)]))
        scene.engine.step()
        assert scene.frames[-1][1].source.silent_ms == pytest.approx(month_ms, rel=0.001)
        scene.engine.progress(1000, 1000)
        scene.counts.bytes += 80  # it is being written, whatever its clock says
        scene.engine.step()
        assert scene.frames[-1][1].source.silent_ms == 0.0


def test_ages_stand_still_when_the_log_is_not_written_any_more() -> None:
    old, live = Scene(age_ms=3600_000.0), Scene(age_ms=0.0)
    for scene in (old, live):
        scene.come((0.0, synth(0)))
        scene.engine.progress(0, 0)
        for _ in range(3):
            scene.engine.step()
    ages = [
        [frame.syntheses[0].age_ms(frame.now_ms) for _, frame in scene.frames]
        for scene in (old, live)
    ]
    assert ages == [[0.0, 0.0, 0.0], [200.0, 1200.0, 2200.0]]


# ---------------------------------------------------------------- errors of our own, and the end


class Broken(Picture):
    """A picture that breaks where it is told to."""

    def __init__(self, *, feed: int = 0, frame: int = 0) -> None:
        super().__init__()
        self.left = SimpleNamespace(feed=feed, frame=frame)

    def _break(self, where: str) -> None:
        left = getattr(self.left, where)
        if left > 0:
            setattr(self.left, where, left - 1)
            message = f"no {where} today"
            raise ZeroDivisionError(message)

    def feed(self, events: Iterable[Event]) -> None:
        batch = list(events)
        if any(type(event) is not SourceNote for event in batch):
            self._break("feed")
        super().feed(batch)

    def frame(self, **which: Any) -> Frame:  # noqa: ANN401
        self._break("frame")
        return super().frame(**which)


def run_frames(scene: Scene, count: int) -> None:
    """Run the thread's body here until it has published `count` frames."""

    def leave(_: Frame) -> None:
        if len(scene.frames) >= count:
            scene.engine.stop()

    scene.on_frame = leave
    scene.engine.run()


SENTENCE = "internal error, figures may be missing: ZeroDivisionError: no {} today"


def alerts(frame: Frame) -> list[str]:
    return [alert.text for alert in frame.alerts if alert.level == "error"]


@pytest.fixture
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "ERROR_PAUSE_S", 0.0)


@pytest.mark.usefixtures("_no_pause")
def test_an_error_in_the_picture_becomes_a_sentence_and_work_goes_on() -> None:
    scene = Scene(picture=Broken(feed=1))
    scene.come((0.1, synth(0)), (0.3, synth(1)))
    run_frames(scene, 3)
    first, _, last = (frame for _, frame in scene.frames)
    assert alerts(first) == [SENTENCE.format("feed")]
    assert [one.partition for one in last.syntheses] == [1]
    assert last.source.note == SENTENCE.format("feed")


@pytest.mark.usefixtures("_no_pause")
def test_an_error_in_drawing_is_shown_over_the_last_picture() -> None:
    broken = Broken()
    scene = Scene(picture=broken)
    scene.come((0.1, synth(0)))
    scene.engine.step()
    broken.left.frame = 4
    run_frames(scene, 3)
    for _, frame in scene.frames[1:]:
        assert alerts(frame) == [SENTENCE.format("frame")]
        assert frame.source.note == SENTENCE.format("frame")
        assert len(frame.syntheses) == 1


@pytest.mark.usefixtures("_no_pause")
def test_an_error_that_comes_again_and_again_is_told_once() -> None:
    scene = Scene(picture=Broken(feed=5))
    scene.come(*((0.1 * n, synth(n)) for n in range(6)))
    run_frames(scene, 7)
    assert alerts(scene.frames[-1][1]) == [SENTENCE.format("feed")]
    assert [one.partition for one in scene.frames[-1][1].syntheses] == [5]


def test_stop_ends_it() -> None:
    scene = Scene()
    run_frames(scene, 2)
    assert len(scene.frames) == 2


def test_stop_wakes_a_thread_that_waits() -> None:
    """The true inbox and a long interval: ending must not take that long."""
    frames = list[Frame]()
    engine = real_engine(Picture(), frames.append, interval_s=3600.0)
    engine._latest = Frame()  # the first frame is out
    engine.start()
    engine.stop()
    engine.join(10.0)
    assert not engine.is_alive()
    assert frames == []


def test_readings_wait_for_the_next_frame_and_wake_nobody() -> None:
    scene = Scene()
    Singles(scene.inbox.lay_beside).put(SourceNote(0.0, "warning", "no readings"))
    scene.engine.step()
    assert scene.times == [FIRST_S]
    assert scene.frames[0][1].source.note == "no readings"


# ---------------------------------------------------------------- several threads


def real_engine(
    picture: Picture,
    publish: Callable[[Frame], None],
    *,
    inbox: Inbox | None = None,
    interval_s: float = LEAST_INTERVAL_S,
) -> Engine:
    """An engine on the true clock."""
    return Engine(
        picture,
        inbox or Inbox(picture),
        publish,
        clock=lambda: START_MS,
        monotonic_s=time.monotonic,
        counts=Counts(),
        path="daemon.log",
        interval_s=interval_s,
    )


def test_a_source_that_never_pauses_holds_up_no_frame_and_no_end() -> None:
    """A log of gigabytes is being read: batch follows batch."""
    picture, frames, several = Picture(), list[Frame](), threading.Event()
    inbox, numbers = Inbox(picture), itertools.count()

    def publish(frame: Frame) -> None:
        frames.append(frame)
        if len(frames) == 4:
            several.set()

    def bring() -> None:
        while not several.is_set():
            inbox.emit(synth(next(numbers)))

    engine = real_engine(picture, publish, inbox=inbox)
    source = threading.Thread(target=bring, daemon=True)
    source.start()
    engine.start()
    assert several.wait(60.0)
    engine.stop()
    engine.join(60.0)
    source.join(60.0)
    assert not engine.is_alive()
    assert not source.is_alive()


def test_nothing_is_folded_in_while_a_frame_is_made() -> None:
    """A frame is of one moment: what comes meanwhile is in the next one."""
    picture = Picture()
    inbox = Inbox(picture)
    source = threading.Thread(target=lambda: inbox.emit(synth(1)))
    seen = []

    def make() -> Frame:
        source.start()
        source.join(0.05)
        seen.append(len(picture.model.run.jobs))
        return Frame()

    inbox.look(make)
    source.join(60.0)
    assert seen == [0]
    assert len(picture.model.run.jobs) == 1


def test_a_log_on_a_dead_server_holds_up_no_frame(tmp_path: Path) -> None:
    """A read that never comes back, as from NFS: readings and keys go on."""
    dead, released = threading.Event(), threading.Event()

    class Dead(LogScanner):
        def feed(self, data: bytes) -> list[LogEvent]:
            dead.set()
            released.wait(60.0)
            return super().feed(data)

    (tmp_path / "d.log").write_bytes(b"TIMELINE,1,SYNTH_START,j,partition=0\n")
    picture, frames, several = Picture(), list[Frame](), threading.Event()
    inbox = Inbox(picture)
    tail = LogTail(tmp_path / "d.log", Dead(), inbox.emit, clock=lambda: START_MS)

    def publish(frame: Frame) -> None:
        frames.append(frame)
        if dead.is_set() and len(frames) >= 3:
            several.set()

    engine = real_engine(picture, publish, inbox=inbox)
    tail.start()
    engine.start()
    try:
        assert several.wait(60.0)
    finally:
        released.set()
        tail.stop()
        engine.stop()
        tail.join(60.0)
        engine.join(60.0)


def test_what_is_still_being_read_is_not_taken_for_the_present() -> None:
    """A card that was last read a minute ago, in a log that comes in pieces a minute behind."""
    scene = Scene()
    scene.picture.feed(
        [
            EngineStarted(wall_us=int(START_MS * 1000) - 600_000_000),
            WorkerStarted(worker=0, gpu=0),
            GpuSampled(START_MS - 60_000.0, 0, 9.0, "gpm", 1000.0),
            SynthStarted(540_000, "porep-1000-1", 0, "porep"),
        ]
    )
    scene.counts.bytes = 10
    assert scene.engine.frame().alerts == ()
    texts = [alert.text for alert in scene.engine.frame().alerts]
    assert texts == ["GPU 0 can't be read any more"]
