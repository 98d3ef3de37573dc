"""The first picture, made by another process of the log's end alone."""

from __future__ import annotations

import gzip
import threading
from pathlib import Path

import pytest

from cuzktop.frame import Frame
from cuzktop.glance import MOST_BYTES, Glance, glance
from cuzktop.parse.scanner import LogScanner
from cuzktop.picture import Picture
from cuzktop.sources.demos import demo
from tests.test_engine import START_MS, Scene, synth


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "daemon.log"
    path.write_bytes(gzip.decompress(demo("four-gpus").log.read_bytes()))
    return path


def holders(frame: Frame) -> list[tuple[str, int | None] | None]:
    held = [gpu.lock.holder for gpu in frame.gpus]
    return [None if one is None else (one.job, one.partition) for one in held]


def test_a_glance_tells_of_the_end_what_the_whole_log_tells(log: Path) -> None:
    seen = glance(log, "daemon.log", window_s=60.0, now_ms=START_MS)
    assert seen is not None
    assert seen.source.read_pct == 0.0
    picture = Picture()
    picture.feed(LogScanner().feed(log.read_bytes()))
    whole = picture.frame(source=seen.source, now_ms=seen.now_ms)
    assert holders(seen) == holders(whole)
    assert [one.partition for one in seen.syntheses] == [one.partition for one in whole.syntheses]
    for ours, theirs in zip(seen.gpus, whole.gpus, strict=True):
        assert ours.window is not None
        assert theirs.window is not None
        assert ours.window.span_ms == theirs.window.span_ms == 60_000.0
        assert ours.window.time_pct == pytest.approx(theirs.window.time_pct, abs=0.05)


def test_what_tells_nothing_or_is_too_long_has_no_glance(log: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    assert glance(empty, "x", window_s=60.0, now_ms=START_MS) is None
    packed = tmp_path / "daemon.log.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    assert glance(packed, "x", window_s=60.0, now_ms=START_MS) is None
    last = log.read_bytes().splitlines(keepends=True)[-1]
    long = tmp_path / "long.log"
    long.write_bytes(log.read_bytes() + last * (2 * MOST_BYTES // len(last)))
    assert glance(long, "x", window_s=60.0, now_ms=START_MS) is None


def test_another_process_sends_it(log: Path) -> None:
    came: list[Frame] = []
    there = threading.Event()

    def publish(frame: Frame) -> None:
        came.append(frame)
        there.set()

    other = Glance(log, "the log", window_s=60.0, wall_ms=lambda: START_MS)
    other.tell(publish)
    assert there.wait(60.0)
    assert came[0].source.path == "the log"
    assert other.frame is came[0]


def test_a_process_that_fails_sends_nothing(tmp_path: Path) -> None:
    came: list[Frame] = []
    other = Glance(tmp_path / "no.log", "x", window_s=60.0, wall_ms=lambda: START_MS)
    other._wait(came.append)
    assert came == []
    assert other.frame is None


def test_the_glance_is_shown_until_all_before_it_is_read(log: Path) -> None:
    scene = Scene(age_ms=0.0)
    seen = glance(log, "daemon.log", window_s=60.0, now_ms=START_MS)
    scene.engine._glance = lambda: seen
    scene.engine.progress(1_000_000, 4_000_000)
    scene.come((0.1, synth(0)))
    scene.engine.step()
    scene.engine.progress(4_000_000, 4_000_000)
    scene.engine.step()
    shown = [(frame.source.read_pct, len(frame.gpus)) for _, frame in scene.frames]
    assert shown == [(25.0, 4), (None, 0)]
