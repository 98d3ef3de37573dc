"""Faults that tools like this one have had, each from the file or the bytes to what a user sees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cuzktop.cli import main
from cuzktop.engine import Engine, Inbox
from cuzktop.events import GpuStarted, LockReleased
from cuzktop.frame import Frame
from cuzktop.logbook import KEEP_LINES, LogBook
from cuzktop.parse.scanner import LogScanner
from cuzktop.picture import Picture
from cuzktop.sources.demos import demo
from cuzktop.sources.log_tail import LogTail
from tests.canned import log_bytes
from tests.corelog import apart

ROOT = Path(__file__).resolve().parents[1]
CAPTURE = log_bytes(demo("h200-one-gpu").log)
SYNTHESIS = b"TIMELINE,1,SYNTH_START,j,partition=0\n"
Written = pytest.CaptureFixture[str]


class Box:
    """A log that is followed, and the screen's picture of it; time goes on by itself."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now_s = 0.0
        self.scanner, self.picture = LogScanner(), Picture()
        self.picture.book = self.scanner.book = LogBook()
        inbox = Patient(self)
        self.tail = LogTail(
            path, self.scanner, inbox.emit, clock=self.wall_ms, on_idle=self.scanner.half_line
        )
        self.frames: list[Frame] = []
        self.engine = Engine(
            self.picture,
            inbox,
            self.frames.append,
            clock=self.wall_ms,
            monotonic_s=self.seconds,
            counts=self.scanner.counts,
            path=str(path),
            interval_s=1.0,
        )

    def wall_ms(self) -> float:
        return 1.79e12 + 1000.0 * self.seconds()

    def seconds(self) -> float:
        self.now_s += 0.01
        return self.now_s

    def look(self) -> Frame:
        """Two seconds go by, in which the log and its path are looked at; the picture then."""
        for _ in range(8):
            self.now_s += 0.25
            while self.tail.step():
                pass
        self.engine.step()
        return self.frames[-1]


class Patient(Inbox):
    """Waits by moving the box's clock on."""

    def __init__(self, box: Box) -> None:
        super().__init__(box.picture)
        self._box = box

    def wait(self, timeout_s: float) -> None:
        self._box.now_s += timeout_s


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    path = tmp_path / "d.log"
    path.write_bytes(CAPTURE)
    box = Box(path)
    yield box
    box.tail.stop()
    box.tail.run()  # gives its file back


def report(log: Path, capsys: Written) -> dict[str, Any]:
    assert main(["report", str(log), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


# ---------------------------------------------------------------- the file


def test_a_log_emptied_under_us_is_read_from_its_start(box: Box) -> None:
    """`: > d.log; echo TIMELINE,1,SYNTH_START,j,partition=0 >> d.log`."""
    before = box.look()
    assert before.proofs.completed
    os.truncate(box.path, 0)
    with box.path.open("ab") as file:
        file.write(SYNTHESIS)
    after = box.look()
    assert [one.job for one in after.syntheses] == ["j"]
    assert any("started anew" in alert.text for alert in after.alerts)


def test_a_log_rotated_by_copying_keeps_what_was_counted(box: Box) -> None:
    """The daemon goes on in the emptied file: its proofs and jobs are still the same life's."""
    before = box.look()
    os.truncate(box.path, 0)
    last_ms = round(before.now_ms)
    with box.path.open("ab") as file:
        file.write(b"TIMELINE,%d,SYNTH_START,j,partition=0\n" % (last_ms + 500))
    after = box.look()
    assert after.run == before.run
    assert after.proofs.completed == before.proofs.completed
    assert "j" in [one.job for one in after.syntheses]


def test_lines_written_by_another_host_are_seen(box: Box) -> None:
    """inotify is silent about what another NFS client does; polls ask the file itself."""
    box.look()
    with box.path.open("ab") as file:
        file.write(b"TIMELINE,99000000,SYNTH_START,late,partition=0\n")
    assert "late" in [one.job for one in box.look().syntheses]
    box.path.rename(box.path.with_suffix(".1"))
    box.path.write_bytes(SYNTHESIS)
    assert [one.job for one in box.look().syntheses] == ["j"]


# ---------------------------------------------------------------- the text


def test_a_timing_line_inside_a_timeline_line_costs_neither() -> None:
    scanner = LogScanner()
    events = scanner.feed(
        b"TIMELINE,1,GPU_START,jCUZK_TIMING: mutex_held_ms=9 total_start_fn_ms=10\n,worker=0\n\n"
    )
    assert GpuStarted(1, "j", None, 0) in events
    assert LockReleased(9, 10) in list(apart(events))
    assert (scanner.counts.torn, scanner.counts.unparsed) == (1, 0)


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "POSIX"])
def test_a_byte_that_is_no_text_ends_nothing_in_any_locale(locale: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "cuzktop", "report", "-"],
        cwd=ROOT,
        input=b"TIMELINE,1,SYNTH_START,j\xff,partition=0\n",
        env={**os.environ, "LC_ALL": locale},
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"1 synthesizing" in ended.stdout
    if locale != "C.UTF-8":
        assert ended.stdout.isascii()


def test_a_flood_of_noise_takes_no_memory_and_hides_nothing(box: Box) -> None:
    """`yes 'INFO noise' | head -2000000 >> d.log`, a tenth of it."""
    before = box.look()
    noise = b"INFO noise\n" * 200_000
    with box.path.open("ab") as file:
        file.write(noise + b"TIMELINE,99000000,SYNTH_START,after,partition=0\n")
    frames = len(box.frames)
    after = box.look()
    assert after.source.lines == before.source.lines + 200_001
    assert "after" in [one.job for one in after.syntheses]
    assert len(box.frames) == frames + 1  # drawn at its rate, not line by line
    assert box.picture.book is not None
    first, end = box.picture.book.span
    assert end - first <= KEEP_LINES * 5 // 4


def test_a_line_of_20_mb_costs_that_line_alone(box: Box) -> None:
    """`head -c 20M /dev/zero | tr '\\0' x >> d.log`."""
    before = box.look()
    with box.path.open("ab") as file:
        file.write(b"x" * 20_000_000)
    box.look()
    held = box.look()
    assert held.source.lines == before.source.lines
    assert held.source.note.startswith("the log ends in the middle of a line: xxx")
    assert len(held.source.note) < 500
    with box.path.open("ab") as file:
        file.write(b"\nTIMELINE,99000000,SYNTH_START,after,partition=0\n")
    after = box.look()
    assert after.source.lines == before.source.lines + 2
    assert "after" in [one.job for one in after.syntheses]


def negative(value: object, name: str = "") -> list[str]:
    """Where a document has a figure below zero."""
    if isinstance(value, dict):
        return [one for key, part in value.items() for one in negative(part, f"{name}.{key}")]
    if isinstance(value, list):
        return [one for part in value for one in negative(part, name)]
    return [name] if isinstance(value, (int, float)) and value < 0 else []


@pytest.mark.parametrize("skip", [0, 12, 400])
def test_two_runs_in_one_file_have_no_negative_durations(
    skip: int, tmp_path: Path, capsys: Written
) -> None:
    """Also where the second one's start-up lines are missing."""
    second = b"".join(CAPTURE.splitlines(keepends=True)[skip:])
    path = tmp_path / "two.log"
    path.write_bytes(CAPTURE + second)
    document = report(path, capsys)
    assert len(document["runs"]) == 2
    assert negative(document) == []
    path.write_bytes(CAPTURE)
    once = report(path, capsys)
    assert document["runs"][0]["proofs"]["completed"] == once["runs"][0]["proofs"]["completed"]
    done = [
        [row for row in runs[0]["partitions"] if row["state"] == "done"]
        for runs in (once["runs"], document["runs"])
    ]
    assert done[0] == done[1]


# ---------------------------------------------------------------- the machine


def test_without_a_driver_the_rest_is_there_and_all_is_well(
    box: Box, capsys: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert main(["snapshot", str(box.path)]) == 0  # written just now: the cards are asked
    out, err = capsys.readouterr()
    assert "NVML not available: " in " ".join(out.split())
    assert "kernel " in out
    assert err == ""


def test_ascii_alone_where_the_locale_has_no_more() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "cuzktop", "--demo"],
        cwd=ROOT,
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 0
    assert ended.stdout.isascii()
    assert b"kernel" in ended.stdout
