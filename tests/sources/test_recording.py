"""Recordings: what is written can be read again, whatever was written and whatever became of it."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzktop.analysis.diagnosis import Measured
from cuzktop.cli import main
from cuzktop.dataclass import replace
from cuzktop.errors import CuzktopError, SourceUnreadableError, UsageError
from cuzktop.events import (
    Event,
    GpuProcess,
    GpuSampled,
    GpuSamplerNote,
    HostSampled,
    LineUnparsed,
    LogEvent,
    PlayedAgain,
    SampleEvent,
    SourceNote,
)
from cuzktop.frame import Source
from cuzktop.headless.report import partition_line, write_report
from cuzktop.headless.snapshot import snapshot_document
from cuzktop.model.state import Run
from cuzktop.parse.scanner import LogScanner
from cuzktop.picture import Picture
from cuzktop.reading import LogSummary
from cuzktop.settings import MAX_LINE_BYTES, START_BACK_BYTES, START_BACK_MS, Since
from cuzktop.sources import recording, recording_reader, recording_writer
from cuzktop.sources.beginning import find_start
from cuzktop.sources.demos import demo
from cuzktop.sources.files import LogParser, holds_recording, open_log, read_blocks
from cuzktop.sources.gpu_reader import UTIL_SOURCES
from cuzktop.sources.recording import LogCut, Piece, older_part
from cuzktop.sources.recording_reader import (
    Damage,
    KeptReadings,
    RecordingParser,
    RecordReader,
    as_log,
    opened_parts,
    recording_samples,
    recording_since,
    recording_tail,
)
from cuzktop.sources.recording_writer import LEAST_MAX_BYTES, RecordingWriter
from cuzktop.sources.samples import means_by_gpu, read_samples
from cuzktop.sources.since import find_since
from tests.canned import log_bytes, record_log, recording_blocks

T0_MS = 1_796_029_645_000.0
GPU = GpuSampled(T0_MS + 0.25, 1, 45.5, "gpm", 1000.0, power_w=312.5, name="NVIDIA H200")
HOST = HostSampled(T0_MS + 0.75, 50.0, 1 << 36, 1 << 38, 12.5, None, None, own_cpu_pct=0.5)
NOTE = GpuSamplerNote(T0_MS, 0, "GPU 0: no power (Not Supported)")
SAID = SourceNote(T0_MS, "warning", "daemon.log is gone\nor so")


@pytest.fixture(autouse=True, scope="module")
def _no_waiting_for_the_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _fd: None)
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.rec"


def pieces(data: bytes, size: int = 65536) -> tuple[list[tuple[int, Piece]], Damage]:
    reader = RecordReader()
    found: list[tuple[int, Piece]] = []
    for at in range(0, len(data), size):
        found += reader.feed(data[at : at + size])
    reader.finish()
    return found, reader.damage


def untimed(data: bytes, size: int = 65536) -> tuple[list[Piece], Damage]:
    reader = RecordReader()
    found: list[Piece] = []
    for at in range(0, len(data), size):
        found += reader.feed_untimed(data[at : at + size])
    reader.finish()
    return found, reader.damage


def blocks_of(path: Path) -> Iterator[bytes]:
    with open_log(path) as file:
        yield from read_blocks(file)


def log_in(found: Sequence[Piece]) -> bytes:
    return b"".join(piece for piece in found if isinstance(piece, bytes))


def write(path: Path, *written: bytes | Event, step_ms: float = 250.0) -> bytes:
    """A closed recording of bytes of the log and events, one after the other."""
    writer = RecordingWriter(path, now_ms=T0_MS, log="daemon.log")
    now_ms = T0_MS
    for one in written:
        if isinstance(one, bytes):
            writer.log(one, now_ms)
        else:
            writer.event(one, now_ms)
        now_ms += step_ms
    writer.close(now_ms)
    assert not writer.failure
    return path.read_bytes()


class Lines:
    """A parser that takes note of the lines that it is given."""

    def __init__(self) -> None:
        self.held = b""

    def feed(self, data: bytes) -> list[LogEvent]:
        *lines, self.held = (self.held + data).split(b"\n")
        return [LineUnparsed(line.decode("latin-1"), "") for line in lines]

    def finish(self) -> list[LogEvent]:
        held, self.held = self.held, b""
        return [LineUnparsed(held.decode("latin-1"), "half")] if held else []

    def cut(self) -> list[LogEvent]:
        self.held = b""
        return [LineUnparsed("", "cut")]


def read_log(blocks: Sequence[bytes]) -> list[str]:
    """The lines that a RecordingParser makes of a recording, and how the others ended."""
    parser = RecordingParser(Lines())
    events = [event for block in blocks for event in parser.feed(block)] + parser.finish()
    return [
        event.raw + (f"[{event.reason}]" if event.reason else "")
        for event in events
        if isinstance(event, LineUnparsed)
    ]


# ---------------------------------------------------------------- the format


def test_readings_kept_for_means_keep_what_copies_took() -> None:
    kept = KeptReadings()
    reading = GPU._replace(host_to_device_bytes_per_s=31.5e9, pcie_gen=5, pcie_width=16)
    kept.add(reading)
    kept.add(GPU._replace(at_ms=T0_MS + 1000.0))
    first, second = kept
    assert first.copies_pct == reading.copies_pct == pytest.approx(50.0, abs=0.1)
    assert second.copies_pct is None
    assert second.power_w == 312.5


def test_processes_of_a_card_come_back_as_they_were() -> None:
    processes = (
        GpuProcess(4711, 40 << 30, "cuzk-daemon"),
        GpuProcess(12, None, None, here=False),
    )
    for reading in (GPU._replace(processes=processes), GPU._replace(processes=())):
        text = recording.reading_json(reading)
        assert recording.gpu_reading(json.loads(text)) == reading


@pytest.mark.parametrize(
    "told",
    [5, [7], [[1, 2, "x"]], [["1", 2, "x", True]], [[1, 2, 3, True]], [[1, 10**300, "x", True]]],
)
def test_processes_that_are_none_are_unknown(told: object) -> None:
    text = {**json.loads(recording.reading_json(GPU)), "processes": told}
    assert recording.gpu_reading(text) == GPU


def test_a_recording_is_lines_of_text(path: Path) -> None:
    text = write(path, b"one\ntwo\nthr", GPU, b"ee\n", HOST, NOTE, SAID, b"half")
    lines = text.decode("ascii").splitlines()
    head = json.loads(lines[0].removeprefix("cuzktop-recording 1 "))
    assert head["log"] == "daemon.log"
    assert head["part"] == 1
    assert head["began_ms"] == T0_MS
    assert [line[:16] for line in lines[1:]] == [
        "L 1796029645000 ",
        "L 1796029645000 ",
        "G 1796029645250 ",
        "L 1796029645500 ",
        "H 1796029645750 ",
        "N 1796029646000 ",
        "N 1796029646250 ",
        "P 1796029646750 ",
    ]
    assert [line[16:] for line in lines if line[0] in "LP"] == ["one", "two", "three", "half"]
    assert json.loads(lines[3][16:]) == {
        "at_ms": 1796029645000.25,
        "gpu": 1,
        "util_pct": 45.5,
        "util_source": "gpm",
        "util_window_ms": 1000.0,
        "power_w": 312.5,
        "name": "NVIDIA H200",
    }
    assert holds_recording(path)
    path.write_bytes(b"TIMELINE,1,GPU_START,j,worker=0\n")
    assert not holds_recording(path)


def test_what_was_written_is_read_with_its_times(path: Path) -> None:
    text = write(path, b"one\ntwo\nthr", GPU, b"ee\n", HOST, NOTE, SAID, b"half")
    found, damage = pieces(text)
    assert damage == Damage()
    assert found == [
        (1796029645000, b"one\ntwo\n"),
        (1796029645250, GPU),
        (1796029645500, b"three\n"),
        (1796029645750, HOST),
        (1796029646000, NOTE._replace(at_ms=1796029646000)),
        (1796029646250, SAID._replace(at_ms=1796029646250)),
        (1796029646750, b"half"),
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.binary(max_size=40)
        | st.sampled_from([GPU, HOST, NOTE, SAID])
        | st.sampled_from([b"\n", b"\r\n", b"\0\0", b"\x1b[2m\n", b"L 1796029645000 x\n", b"\n\n"]),
        max_size=30,
    ),
    st.integers(1, 200),
    st.integers(0, 3000),
)
def test_any_bytes_come_back_as_they_were(
    written: list[bytes | SampleEvent], size: int, step_ms: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = write(Path(folder) / "x", *written, step_ms=step_ms)
    log = b"".join(one for one in written if isinstance(one, bytes))
    beside = [one for one in written if not isinstance(one, bytes)]
    found, damage = pieces(text, size)
    assert damage == Damage()
    assert log_in([piece for _, piece in found]) == log
    times = [at_ms for at_ms, _ in found]
    assert times == sorted(times)
    others = [piece for _, piece in found if not isinstance(piece, bytes)]
    assert [type(one) for one in others] == [type(one) for one in beside]
    plain, damage = untimed(text, size)
    assert damage == Damage()
    assert log_in(plain) == log
    assert [piece for piece in plain if isinstance(piece, GpuSampled | HostSampled)] == [
        one for one in beside if isinstance(one, GpuSampled | HostSampled)
    ]
    assert b"".join(recording_blocks([text])) == log


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_readings_come_back_as_they_were(data: st.DataObject) -> None:
    finite = st.none() | st.floats(0, 100)
    whole = st.none() | st.integers(0, 2**62)
    gpu = GpuSampled(
        data.draw(st.floats(0, 4e12)),
        data.draw(st.integers(0, 15)),
        data.draw(finite),
        data.draw(st.sampled_from(["gpm", "samples", "utilization.gpu"])),
        data.draw(st.floats(0, 1e6)),
        data.draw(finite),
        sm_clock_mhz=data.draw(whole),
        held_down=data.draw(st.none() | st.text()),
    )
    host = HostSampled(1.0, data.draw(finite), data.draw(whole), None, None, None, None)
    with tempfile.TemporaryDirectory() as folder:
        text = write(Path(folder) / "x", gpu, host)
        assert list(recording_samples(Path(folder) / "x")) == [gpu]
    assert [piece for _, piece in pieces(text)[0]] == [gpu, host]


def test_a_figure_that_is_no_number_is_unknown(path: Path) -> None:
    text = write(path, GPU._replace(util_pct=math.nan, power_w=math.inf), PlayedAgain(1.0))
    assert [piece for _, piece in pieces(text)[0]] == [GPU._replace(util_pct=None, power_w=None)]


@pytest.mark.parametrize(
    "told",
    [
        "{}",
        "[]",
        "{",
        '{"at_ms": 1, "gpu": "0", "util_source": "gpm", "util_window_ms": 1}',
        '{"at_ms": 1, "gpu": -1, "util_source": "gpm", "util_window_ms": 1}',
        '{"at_ms": 1, "gpu": true, "util_source": "gpm", "util_window_ms": 1}',
        '{"at_ms": 1, "gpu": 0, "util_source": "guess", "util_window_ms": 1}',
        '{"at_ms": NaN, "gpu": 0, "util_source": "gpm", "util_window_ms": 1}',
        f'{{"at_ms": 1, "gpu": {10**30}, "util_source": "gpm", "util_window_ms": 1}}',
        '{"at_ms": 1, "gpu": 5000, "util_source": "gpm", "util_window_ms": 1}',
        '{"at_ms": 1e300, "gpu": 0, "util_source": "gpm", "util_window_ms": 1}',
        '{"at_ms": -1, "gpu": 0, "util_source": "gpm", "util_window_ms": 1}',
        '{"at_ms": 1, "gpu": 0, "util_source": "gpm", "util_window_ms": 1e300}',
        "[" * 100_000,
        "\xff",
    ],
)
def test_a_damaged_reading_is_counted(path: Path, told: str) -> None:
    text = write(path, b"x\n") + b"G 1796029645000 %s\n" % told.encode("latin-1")
    path.write_bytes(text)
    assert pieces(text)[1] == Damage(bad=1)
    assert list(recording_samples(path)) == []
    assert pieces(text)[1].text() == "1 damaged line was left out"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("util_pct", 101.0),
        ("util_pct", -1.0),
        ("power_w", 1e300),
        ("power_limit_w", -5.0),
        ("host_to_device_bytes_per_s", 1e300),
        ("memory_used_bytes", -1),
        ("memory_total_bytes", 10**300),
        ("temperature_c", -300),
        ("ecc_errors", -1),
    ],
)
def test_a_figure_that_no_card_has_is_unknown(name: str, value: float) -> None:
    told = {**json.loads(recording.reading_json(GPU)), name: value}
    reading = recording.gpu_reading(told)
    assert reading is not None
    assert getattr(reading, name) is None
    assert reading.gpu == GPU.gpu


def test_a_damaged_recording_never_makes_a_trace_fail(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = '{"at_ms":1e300,"gpu":0,"util_pct":5,"util_source":"gpm","util_window_ms":1e308}'
    path.write_bytes(
        write(path, log_bytes(demo("failures").log)) + b"G 1796029645000 %s\n" % told.encode()
    )
    assert main(["trace", str(path), "-o", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["traceEvents"]


def test_a_reading_with_fields_of_a_newer_version_is_read(path: Path) -> None:
    told = (
        '{"at_ms":1,"gpu":0,"util_pct":"?","util_source":"gpm","util_window_ms":1,"fan":3,'
        '"memory_used_bytes":12,"temperature_c":1e9,"power_w":1e999,"sm_clock_mhz":true}'
    )
    text = write(path) + b"G 1796029645000 %s\n" % told.encode()
    expected = GpuSampled(1.0, 0, None, "gpm", 1.0, memory_used_bytes=12)
    assert pieces(text)[0] == [(1796029645000, expected)]


@pytest.mark.parametrize(
    "told",
    [
        '{"of":"log","level":"loud","text":"x"}',
        '{"of":"gpu","gpu":"x","text":"x"}',
        '{"of":"log","level":"info"}',
        '{"of":"else","text":"x"}',
    ],
)
def test_a_damaged_note_is_counted(path: Path, told: str) -> None:
    text = write(path) + b"N 1796029645000 %s\n" % told.encode()
    assert pieces(text)[1] == Damage(bad=1)


@pytest.mark.parametrize("source", UTIL_SOURCES)
def test_every_source_of_utilisation_can_be_recorded(path: Path, source: str) -> None:
    reading = GPU._replace(util_source=source)
    [(_, read)] = pieces(write(path, reading))[0]
    assert read == reading
    kept = KeptReadings()
    kept.add(reading)
    assert [one.util_source for one in kept] == [source]


def test_a_long_sentence_is_shortened(path: Path) -> None:
    text = write(path, SourceNote(1.0, "info", "ä" * 10_000))
    [(_, note)] = pieces(text)[0]
    assert isinstance(note, SourceNote)
    assert len(note.text) == recording.MAX_NOTE_CHARS


# ---------------------------------------------------------------- damage


def test_a_torn_tail_costs_the_last_record_alone(path: Path) -> None:
    log = b"TIMELINE,1,GPU_START,j,worker=0\n\xff\0\n\x1b[2mx\nlast line\n"
    text = write(path, log[:40], GPU, log[40:], HOST)
    whole = [len(line) for line in log.splitlines(keepends=True)]
    starts = {sum(whole[:n]) for n in range(len(whole) + 1)}
    before = -1
    for cut in range(len(text) + 1):
        torn = text[:cut]
        found, damage = pieces(torn)
        got = log_in([piece for _, piece in found])
        assert log.startswith(got)
        assert len(got) in starts
        assert len(got) >= before
        assert damage == Damage(torn=cut > 0 and not torn.endswith(b"\n"))
        before = len(got)
        if cut > len(b"cuzktop-recording 1") and (cut % 8 == 0 or cut > len(text) - 20):
            path.write_bytes(torn)
            assert len(list(recording_samples(path))) == torn.count(b'H200"}\n')
    assert before == len(log)


def test_garbage_in_the_middle_is_left_out_and_counted(path: Path) -> None:
    head, *records = write(path, b"one\n", b"two\n", GPU, b"three\n").splitlines(keepends=True)
    mixed = [
        records[0],
        b"\0" * 300 + records[1],
        b"\n",
        b"garbage\n",
        b"L 17 x\n",
        b"l 1796029645000 x\n",
        records[2],
        b"\xff" * 500_000 + b"\n",
        b"Z 1796029645000 from the future\n",
        b"Z 1796029645000 again\n",
        records[3],
    ]
    text = head + b"".join(mixed)
    for size in (100, 65536):
        found, damage = pieces(text, size)
        assert [piece for _, piece in found] == [b"one\n", GPU, b"three\n"]
        assert damage == Damage(bad=6, unknown=2)
        assert untimed(text, size)[1] == damage
        assert log_in(untimed(text, size)[0]) == b"one\nthree\n"
    assert damage.text() == (
        "6 damaged lines were left out, 2 records of a newer kind were left out"
    )


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=400), st.integers(1, 100), st.booleans())
def test_anything_can_be_read(text: bytes, size: int, head: bool) -> None:  # noqa: FBT001
    if head:
        text = b"cuzktop-recording 1 {}\nL 1796029645000 x\n" + text
    try:
        pieces(text, size)
        untimed(text, size)
        list(recording_blocks([text]))
    except SourceUnreadableError as error:
        assert "version" in str(error)  # noqa: PT017 (it may be raised, and only so)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"cuzktop-recording 2 {}\nL 1796029645000 x\n", "of version 2: a newer cuzktop reads it"),
        (b"cuzktop-recording x\n", "its first line is damaged"),
        (b"cuzktop-recording \n", "its first line is damaged"),
    ],
)
def test_another_version_is_one_clear_line(path: Path, text: bytes, why: str) -> None:
    path.write_bytes(text)

    def as_a_log(place: Path | None) -> None:
        blocks, parser = as_log([text], Lines(), path=place)
        for block in blocks:
            parser.feed(block)

    for read in (
        lambda: list(recording_samples(path)),
        lambda: list(recording_tail(path, back_ms=1, max_bytes=1)),
        lambda: as_a_log(path),
        lambda: as_a_log(None),
    ):
        with pytest.raises(SourceUnreadableError, match=why) as raised:
            read()
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("head", [b"", b" {", b" []", b' {"part":"x","id":7,"log":[]}'])
def test_a_header_without_its_details_is_enough(path: Path, head: bytes) -> None:
    path.write_bytes(b"cuzktop-recording 1%s\nL 1796029645000 x\n" % head)
    with opened_parts(path) as [file]:
        assert b"".join(recording_blocks(read_blocks(file))) == b"x\n"


def test_a_stream_is_no_recording(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(SourceUnreadableError, match="is a stream: save it to a file first"):
        next(recording_samples(tmp_path / "fifo"))


# ---------------------------------------------------------------- halves and cuts


def test_a_line_that_comes_in_pieces_is_one_record(path: Path) -> None:
    text = write(path, b"TIMELINE,5,GPU_", b"START,j,", b"worker=0\n")
    assert text.splitlines()[1:] == [b"L 1796029645500 TIMELINE,5,GPU_START,j,worker=0"]


def test_a_half_line_is_written_when_its_rest_does_not_come(path: Path) -> None:
    writer = RecordingWriter(path, now_ms=T0_MS)
    writer.log(b"one\nha", T0_MS)
    writer.flush(T0_MS + 1999)
    assert path.read_bytes().endswith(b" one\n")
    writer.flush(T0_MS + 2000)
    assert path.read_bytes().endswith(b"P 1796029647000 ha\n")
    writer.log(b"lf\n", T0_MS + 5000)
    writer.close(T0_MS + 5000)
    text = path.read_bytes()
    assert read_log([text]) == ["one", "half"]
    assert b"".join(recording_blocks([text])) == b"one\nhalf\n"


def test_a_cut_ends_the_half_line_before_it(path: Path) -> None:
    writer = RecordingWriter(path, now_ms=T0_MS)
    writer.log(b"one\nha", T0_MS)
    writer.cut(T0_MS + 10)
    writer.log(b"new\n", T0_MS + 20)
    writer.cut(T0_MS + 30)
    writer.close(T0_MS + 40)
    text = path.read_bytes()
    assert [piece for _, piece in pieces(text)[0]] == [
        b"one\n",
        b"ha",
        LogCut(),
        b"new\n",
        LogCut(),
    ]
    assert read_log([text]) == ["one", "[cut]", "new", "[cut]"]
    assert b"".join(recording_blocks([text])) == b"one\nha\nnew\n"


def test_endless_lines_come_in_bounded_records(path: Path) -> None:
    log = b"x" * 300_000 + b"\n" + b"short\n" + b"y" * 70_000 + b"\n" + b"z" * 65_536
    writer = RecordingWriter(path, now_ms=T0_MS)
    for at in range(0, len(log), 100_000):
        writer.log(log[at : at + 100_000], T0_MS)
    writer.close(T0_MS)
    text = path.read_bytes()
    assert max(map(len, text.splitlines())) <= MAX_LINE_BYTES + recording_reader.PREFIX_BYTES
    assert log_in(untimed(text)[0]) == log
    assert writer.recorded.lines == 3


# ---------------------------------------------------------------- its size


def numbered(first: int, count: int) -> bytes:
    return b"".join(
        b"TIMELINE,%d,SYNTH_START,porep-1000,partition=0\n" % n for n in range(first, first + count)
    )


def kept(path: Path) -> bytes:
    """All of the log that a recording in parts still has, read as a report reads it."""
    blocks, parser = as_log(blocks_of(path), Kept(), path=path)
    for block in blocks:
        parser.feed(block)
    assert isinstance(parser, RecordingParser)
    assert parser.damage == Damage()
    return Kept.last


class Kept(Lines):
    """A parser that keeps all bytes."""

    last = b""

    def __init__(self) -> None:
        super().__init__()
        Kept.last = b""

    def feed(self, data: bytes) -> list[LogEvent]:
        Kept.last += data
        return []


@pytest.mark.parametrize("chunk", [4, 3000])
def test_it_never_takes_more_room_than_it_may(path: Path, chunk: int) -> None:
    writer = RecordingWriter(path, now_ms=T0_MS, max_bytes=LEAST_MAX_BYTES)
    log = b""
    for first in range(0, 12_000, chunk):
        text = numbered(first, chunk)
        log += text
        writer.log(text, T0_MS + first)
        writer.event(GPU, T0_MS + first)
        writer.flush(T0_MS + first)
        used = sum(part.stat().st_size for part in (path, writer.older) if part.exists())
        assert used <= LEAST_MAX_BYTES
        assert used == writer.recorded.kept_bytes
    writer.close(T0_MS)
    assert writer.recorded.parts > 3
    assert not writer.failure
    left = kept(path)
    assert log.endswith(left)
    assert left.startswith(b"TIMELINE,")
    # With nothing but the log in it, half of the room at least holds what came last.
    assert len(left) > (LEAST_MAX_BYTES // 8 if chunk == 4 else LEAST_MAX_BYTES // 3)
    assert log_in(untimed(path.read_bytes())[0]) != left  # FILE alone is the newer part


def test_a_block_larger_than_a_part_is_split(path: Path) -> None:
    writer = RecordingWriter(path, now_ms=T0_MS, max_bytes=LEAST_MAX_BYTES)
    log = b"\n" * 100_000 + numbered(0, 5000)
    writer.log(log, T0_MS)
    writer.close(T0_MS)
    assert path.stat().st_size <= LEAST_MAX_BYTES // 2
    assert log.endswith(kept(path))


def test_an_endless_line_is_dropped_from_its_front(path: Path) -> None:
    writer = RecordingWriter(path, now_ms=T0_MS, max_bytes=LEAST_MAX_BYTES)
    for _ in range(20):
        writer.log(b"x" * 50_000, T0_MS)
    writer.log(b"\nwhole\nhalf", T0_MS)
    writer.close(T0_MS)
    assert path.stat().st_size + writer.older.stat().st_size <= LEAST_MAX_BYTES
    # Its beginning is gone: what is left of it is not taken for a line.
    assert kept(path) == b"whole\nhalf"


def test_the_oldest_goes_when_its_time_is_over(path: Path) -> None:
    writer = RecordingWriter(path, now_ms=T0_MS, max_age_s=60.0)
    log = b""
    for second in range(200):
        text = b"line %d\n" % second
        log += text
        writer.log(text, T0_MS + second * 1000)
        if second >= 60:
            writer.flush(T0_MS + second * 1000)
            times = re.findall(rb"\nL (\d{13})", writer.older.read_bytes())
            assert T0_MS + (second - 61) * 1000 <= int(times[0])
            assert int(times[-1]) >= T0_MS + (second - 32) * 1000
    writer.close(T0_MS + 200_000)
    left = kept(path)
    assert log.endswith(left)
    assert 30 <= left.count(b"\n") <= 62


def test_silence_ages_too_and_a_clock_that_is_set_back_does_no_harm(path: Path) -> None:
    writer = RecordingWriter(path, now_ms=T0_MS, max_age_s=60.0)
    writer.log(b"old\n", T0_MS)
    writer.flush(T0_MS + 31_000)
    writer.flush(T0_MS + 62_000)
    writer.flush(T0_MS + 93_000)
    writer.log(b"new\n", T0_MS - 5_000_000)
    writer.close(T0_MS - 5_000_000)
    assert kept(path) == b"new\n"
    assert writer.recorded.parts == 4


def test_parts_follow_each_other_also_as_one_stream(path: Path) -> None:
    writer = RecordingWriter(path, now_ms=T0_MS, max_bytes=LEAST_MAX_BYTES)
    log = numbered(0, 3500)
    for at in range(0, len(log), 1000):
        writer.log(log[at : at + 1000], T0_MS + at)
        if at % 5000 == 0:
            writer.flush(T0_MS + at + HALF)  # halves are written, too
    writer.close(T0_MS + len(log) + HALF)
    assert writer.recorded.parts == 2
    both = writer.older.read_bytes() + path.read_bytes()
    assert log_in(untimed(both)[0]) == log
    assert b"[cut]" not in "".join(read_log([both])).encode()
    assert kept(path) == log


HALF = recording_writer.HALF_WAITS_MS


def test_another_recording_behind_it_is_another_log(path: Path, tmp_path: Path) -> None:
    one = write(path, b"one\nha")
    two = write(tmp_path / "two", b"two\n")
    assert read_log([one + two]) == ["one", "[cut]", "two"]
    assert read_log([one, one]) == ["one", "[cut]", "one", "ha[half]"]


def test_the_other_file_is_read_only_if_it_is_the_part_before(path: Path, tmp_path: Path) -> None:
    writer = RecordingWriter(path, now_ms=T0_MS, max_bytes=LEAST_MAX_BYTES)
    writer.log(numbered(0, 3500), T0_MS)
    writer.close(T0_MS)
    both, newest = kept(path), log_in(untimed(path.read_bytes())[0])
    assert len(both) > len(newest) > 0
    first = writer.older.read_bytes()
    for text in (b"", b"a log\n", write(tmp_path / "other", b"one\n"), path.read_bytes()):
        writer.older.write_bytes(text)
        assert kept(path) == newest
    writer.older.unlink()
    assert kept(path) == newest
    writer.older.write_bytes(first[:-10])  # its last record was lost with the machine's power
    assert kept(path) + b"" == both.replace(both[: -len(newest)].splitlines(keepends=True)[-1], b"")


def test_a_part_that_began_inside_a_line_begins_with_the_next_one(path: Path) -> None:
    path.write_bytes(
        b'cuzktop-recording 1 {"id":"a","part":2,"rest_of_line":true}\n'
        b"P 1796029645000 st of\nL 1796029645000  a line\nL 1796029645000 whole\n"
    )
    assert kept(path) == b"whole\n"
    assert [piece for _, piece in pieces(path.read_bytes())[0]] == [b"whole\n"]


# ---------------------------------------------------------------- what can fail


def test_nothing_is_written_over(path: Path) -> None:
    path.write_bytes(b"mine")
    with pytest.raises(UsageError, match=r"run\.rec exists: record to another file"):
        RecordingWriter(path, now_ms=T0_MS)
    path.unlink()
    older_part(path).symlink_to("nowhere")
    with pytest.raises(UsageError, match=r"run\.rec\.1 exists"):
        RecordingWriter(path, now_ms=T0_MS)
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("none/run.rec", "no such file or directory: make its folder first"),
        ("file/run.rec", "not a directory: make its folder first"),
        ("x" * 300, "file name too long"),
        ("/", "is a directory: name a new file in it"),
    ],
)
def test_a_file_that_cannot_be_made_is_one_line(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SourceUnreadableError, match=why):
        RecordingWriter(tmp_path / name, now_ms=T0_MS)


def test_no_permission_says_what_to_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SourceUnreadableError, match="denied: record to a folder that you may"):
        RecordingWriter(path, now_ms=T0_MS)


def test_too_small_a_room_is_refused(path: Path) -> None:
    with pytest.raises(UsageError, match="too small"):
        RecordingWriter(path, now_ms=T0_MS, max_bytes=1000)


class Disk:
    """A disk with so much room."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.write = os.write

    def __call__(self, fd: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = self.write(fd, bytes(data[: min(self.room, 1000)]))
        self.room -= count
        return count


def test_a_full_disk_ends_the_recording_with_a_sentence(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "write", Disk(room=2500))
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        writer.event(SourceNote(T0_MS, "error", text), T0_MS)  # as the screen does

    writer = RecordingWriter(path, now_ms=T0_MS, on_failure=tell)
    log = numbered(0, 100)
    for n, line in enumerate(log.splitlines(keepends=True)):
        writer.log(line, T0_MS + n * 1000)
        writer.event(GPU, T0_MS)
        writer.flush(T0_MS + n * 1000)
    writer.cut(T0_MS)
    writer.close(T0_MS)
    assert told == [f"recording to {path} stopped: no space left on device"]
    assert writer.failure == told[0]
    assert not writer.going
    assert path.stat().st_size == 2500
    got = log_in(untimed(path.read_bytes())[0])
    assert log.startswith(got)
    assert len(got) > 500


def test_a_disk_that_fails_at_the_end_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    writer = RecordingWriter(path, now_ms=T0_MS)
    monkeypatch.setattr(os, "fsync", fail)
    writer.log(b"x\n", T0_MS)
    writer.close(T0_MS)
    writer.close(T0_MS)
    assert writer.failure.endswith("stopped: input/output error")
    assert log_in(untimed(path.read_bytes())[0]) == b"x\n"


@pytest.mark.parametrize("replaced", [True, False])
def test_a_file_that_was_taken_away_is_left_alone(path: Path, *, replaced: bool) -> None:
    writer = RecordingWriter(path, now_ms=T0_MS, max_bytes=LEAST_MAX_BYTES)
    path.unlink()
    if replaced:
        path.write_bytes(b"mine")
    writer.log(numbered(0, 10_000), T0_MS)
    writer.close(T0_MS)
    assert "another file has taken its place" in writer.failure or not replaced
    assert "no such file" in writer.failure or replaced
    assert not writer.older.exists()
    assert not replaced or path.read_bytes() == b"mine"


# ---------------------------------------------------------------- in place of a log


def report(blocks: object, parser: LogParser, scanner: LogScanner, measure: object) -> Any:  # noqa: ANN401 (JSON)
    summary = LogSummary(partition_line, measure)  # type: ignore[arg-type]
    summary.read(blocks, parser)  # type: ignore[arg-type]
    counts = scanner.counts
    source = Source(
        path="x",
        bytes=counts.bytes,
        lines=counts.lines,
        events=counts.events,
        torn=counts.torn,
        unparsed=counts.unparsed,
    )
    out = io.StringIO()
    write_report(out, source=source, runs=((run, rows.lines()) for run, rows in summary.runs))
    for rows in (*(rows for _, rows in summary.runs), summary._current):
        rows.rows.close()
    return json.loads(out.getvalue())


def spans_of(run: Run) -> dict[int, tuple[float, float]]:
    assert run.epoch_us is not None
    zero_ms = run.epoch_us / 1000.0
    return {
        number: (zero_ms + gpu.first_start, zero_ms + gpu.last_end)
        for number, gpu in run.gpus.items()
        if gpu.first_start is not None and gpu.last_end is not None
    }


def naive_means(readings: list[GpuSampled], start_ms: float, end_ms: float) -> tuple[float, float]:
    """Use and power over a span, each reading standing for the time before it."""
    use = power = held = 0.0
    for one in readings:
        share = min(one.at_ms, end_ms) - max(one.at_ms - one.util_window_ms, start_ms)
        if share > 0 and one.util_pct is not None and one.power_w is not None:
            use += one.util_pct * share
            power += one.power_w * share
            held += share
    return use / held, power / held


@pytest.mark.parametrize("name", ["h200-one-gpu", "h200-two-gpus"])
@pytest.mark.parametrize("way", ["file", "stream"])
def test_a_report_of_a_recording_is_the_report_of_its_log(path: Path, name: str, way: str) -> None:
    chosen = demo(name)
    assert chosen.gpu_csv is not None
    log = log_bytes(chosen.log)
    readings = list(read_samples(chosen.gpu_csv, utc=True))
    record_log(path, log, readings)
    naive: dict[int, tuple[float, float]] = {}

    def of_csv(run: Run) -> dict[int, Measured]:
        for gpu, (start_ms, end_ms) in spans_of(run).items():
            own = [one for one in readings if one.gpu == gpu]
            naive[gpu] = naive_means(own, start_ms, end_ms)
        return measured(run, readings)

    def measured(run: Run, known: object) -> dict[int, Measured]:
        means = means_by_gpu(known, spans_of(run))  # type: ignore[arg-type]
        return {
            gpu: Measured(
                util_pct=one.util_pct or 0.0,
                power_w=one.power_w,
                source=one.source or "",
                samples=one.samples,
            )
            for gpu, one in means.items()
        }

    scanner = LogScanner()
    of_log = report([log], scanner, scanner, of_csv)
    scanner, beside = LogScanner(), KeptReadings()
    if way == "file":
        blocks, parser = as_log(blocks_of(path), scanner, path=path)
        again = report(blocks, parser, scanner, lambda run: measured(run, recording_samples(path)))
    else:
        text = path.read_bytes()
        parts = [text[at : at + 777] for at in range(0, len(text), 777)]
        blocks, parser = as_log(parts, scanner, on_event=beside.add)
        again = report(blocks, parser, scanner, lambda run: measured(run, beside))
    assert isinstance(parser, RecordingParser)
    assert not parser.damage.text()
    assert again == of_log
    gpus = again["runs"][0]["gpus"]
    assert len(gpus) == len(naive) > 0
    for gpu in gpus:
        assert gpu["nvml"]["source"] == "utilization.gpu"
        assert gpu["nvml"]["samples"] > 100
        figures = (gpu["nvml"]["util_pct"], gpu["nvml"]["power_w"])
        assert figures == pytest.approx(naive[gpu["gpu"]], abs=0.1)


def test_a_log_stays_a_log() -> None:
    parser = Lines()
    for blocks in ([], [b""], [b"cuzktop"], [b"TIMELINE,1,X,j\n", b"two\n"]):
        rest, same = as_log(blocks, parser)
        assert same is parser
        assert b"".join(rest) == b"".join(blocks)


def test_a_recording_is_told_by_its_first_bytes_however_they_come(path: Path) -> None:
    text = write(path, b"one\n")
    blocks, parser = as_log([text[:3], text[3:7], text[7:]], Lines())
    assert isinstance(parser, RecordingParser)
    assert b"".join(blocks) == text


def frame(blocks: object, parser: LogParser, picture: Picture, scanner: LogScanner) -> object:
    for block in blocks:  # type: ignore[attr-defined]
        picture.feed(parser.feed(block))
    source = Source(path="x", lines=0)
    del scanner
    return snapshot_document(replace(picture.frame(source=source), alerts=()))


@pytest.mark.parametrize("name", ["h200-one-gpu", "failures", "ninety-percent"])
@pytest.mark.parametrize("share", [0.4, 0.7, 1.0])
def test_a_snapshot_of_a_recording_is_the_snapshot_of_its_log(
    path: Path, tmp_path: Path, name: str, share: float
) -> None:
    log = log_bytes(demo(name).log)
    log = log[: int(len(log) * share)]
    (tmp_path / "daemon.log").write_bytes(log)
    record_log(path, log, [GPU])
    scanner = LogScanner()
    with open_log(tmp_path / "daemon.log") as file:
        find_start(file, back_ms=60_000.0, max_bytes=START_BACK_BYTES)
        of_log = frame(read_blocks(file), scanner, Picture(), scanner)
    scanner, picture = LogScanner(), Picture()
    beside: list[SampleEvent] = []
    parser = RecordingParser(scanner, beside.append)
    tail = recording_tail(path, back_ms=60_000.0, max_bytes=START_BACK_BYTES)
    assert frame(tail, parser, picture, scanner) == of_log


def test_the_tail_of_a_recording_in_parts_reaches_into_the_older_one(path: Path) -> None:
    log = log_bytes(demo("four-gpus").log)
    writer = record_log(path, log, max_bytes=1_000_000)
    assert writer.recorded.parts > 1
    whole, tail = kept(path), Kept()
    parser = RecordingParser(tail)
    for block in recording_tail(path, back_ms=START_BACK_MS, max_bytes=START_BACK_BYTES):
        parser.feed(block)
    assert whole.endswith(Kept.last)
    assert len(Kept.last) > len(log_in(untimed(path.read_bytes())[0]))
    parser = RecordingParser(Kept())
    for block in recording_tail(path, back_ms=START_BACK_MS, max_bytes=50_000):
        parser.feed(block)
    assert 20_000 < len(Kept.last) < 50_000


@pytest.mark.parametrize("since", ["2m", "08:20", "2026-02-19T08:15:30", "09:00"])
def test_a_recording_begins_at_a_time_as_its_log_does(
    path: Path, tmp_path: Path, since: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log = log_bytes(demo("ninety-percent").log)
    (tmp_path / "daemon.log").write_bytes(log)
    record_log(path, log)
    found = []
    for file in (tmp_path / "daemon.log", path):
        os.utime(file, (1.7e9, 1.7e9))
        assert main(["snapshot", str(file), "--since", since, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        document["source"].pop("path")
        document["source"].pop("silent_ms")  # of a log that may still be written
        for gpu in document["gpus"]:
            gpu.pop("nvml_note")  # why nothing was measured differs
        found.append(document)
    assert found[0] == found[1]


@pytest.mark.parametrize("back_s", [5.0, 120.0, 300.0])
def test_a_time_in_the_older_part_of_a_recording(path: Path, back_s: float) -> None:
    log = log_bytes(demo("four-gpus").log)
    assert record_log(path, log, max_bytes=1_000_000).recorded.parts > 1
    whole = kept(path)
    since = Since(back_ms=1000.0 * back_s)
    parser = RecordingParser(Kept())
    for block in recording_since(path, since):
        parser.feed(block)
    assert Kept.last == whole[find_since(io.BytesIO(whole), since) :]


def test_damage_stands_at_the_end_of_what_is_printed(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line of standard error has long scrolled away when a report ends."""
    record_log(path, log_bytes(demo("h200-one-gpu").log))
    path.write_bytes(path.read_bytes() + b"not a record\n")
    os.utime(path, (1.7e9, 1.7e9))
    for command in ("report", "snapshot"):
        assert main([command, str(path)]) == 0
        out, err = capsys.readouterr()
        assert "1 damaged line was left out" in out.splitlines()[-1]
        assert "1 damaged line was left out" in err


def test_errors_of_recordings_end_the_program_with_status_2() -> None:
    assert issubclass(recording_writer.RecordingStoppedError, CuzktopError)
    assert recording_writer.RecordingStoppedError("x").exit_code == 2
