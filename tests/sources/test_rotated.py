"""What was rotated away from a log is read before it, in order, and gaps are told."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuzktop.cli import main
from cuzktop.events import Event, LogEvent, SourceNote
from cuzktop.settings import EVERYTHING, Since
from cuzktop.sources.log_tail import LogTail
from cuzktop.sources.rotated import Tell, predecessors, rotated_blocks


def line(minute: int) -> bytes:
    return b"2026-03-14T01:%02d:00.000000Z  INFO noise\n" % minute


def put(path: Path, data: bytes) -> None:
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def read(path: Path, since: Since | None = None) -> tuple[bytes, list[str]]:
    told: list[str] = []
    blocks = rotated_blocks(path, lambda _, text: told.append(text), since)
    return b"".join(blocks), told


@pytest.mark.parametrize(
    "names",
    [
        ["cuzk.log.3.gz", "cuzk.log.2", "cuzk.log.1"],
        [f"cuzk.log.{n}" for n in range(12, 0, -1)],
        ["cuzk.log-20251231.gz", "cuzk.log-20260313.gz", "cuzk.log-20260314"],
        ["cuzk.log.2026-03-13", "cuzk.log.2026-03-14.gz"],
        ["cuzk.log-20260314-1773450000.gz", "cuzk.log-20260314-1773453600"],
    ],
)
def test_they_are_read_the_oldest_first(names: list[str], tmp_path: Path) -> None:
    for n, name in enumerate(names):
        put(tmp_path / name, line(n))
    for other in ("cuzk.log", "cuzk.log.bak", "cuzk.log.1.tmp", "other.log.1", "cuzk.log.txt.1"):
        put(tmp_path / other, line(len(names)))
    (tmp_path / "cuzk.log.99").mkdir()
    text, told = read(tmp_path / "cuzk.log")
    assert text == b"".join(line(n) for n in range(len(names)))
    assert len(told) == 1
    assert told[0].endswith(": " + ", ".join(names))


def test_a_file_that_is_being_packed_is_read_once(tmp_path: Path) -> None:
    put(tmp_path / "d.log.1", line(1))
    put(tmp_path / "d.log.1.gz", line(1))
    assert [one.path.name for one in predecessors(tmp_path / "d.log")] == ["d.log.1"]


def test_a_line_goes_on_in_the_next_file(tmp_path: Path) -> None:
    put(tmp_path / "d.log.2", line(0)[:20])
    put(tmp_path / "d.log.1", line(0)[20:])
    assert read(tmp_path / "d.log")[0] == line(0)


@pytest.mark.parametrize(
    ("names", "gap"),
    [
        (["d.log.3", "d.log.1"], "a gap: d.log.2 is not there"),
        (["d.log.6", "d.log.1"], "a gap: d.log.2 to .5 is not there"),
        (["d.log.2"], "a gap: d.log.1 is not there"),
    ],
)
def test_a_missing_file_is_told_and_ends_the_line(
    names: list[str], gap: str, tmp_path: Path
) -> None:
    for name in names:
        put(tmp_path / name, b"half")
    text, told = read(tmp_path / "d.log")
    assert told[1:] == [gap]
    assert b"halfhalf" not in text
    assert b"half\n" in text


def test_a_broken_file_is_a_gap(tmp_path: Path) -> None:
    put(tmp_path / "d.log.2", line(0))
    (tmp_path / "d.log.1.gz").write_bytes(gzip.compress(line(1) * 9)[:-12])
    text, told = read(tmp_path / "d.log")
    assert text.startswith(line(0))
    assert any(said.startswith("a gap: cannot read") for said in told)


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        ((0, 30), "no line for 30 min between d.log.1 and d.log"),
        ((30, 0), "d.log begins before d.log.1 ends"),
        ((0, 5), ""),
    ],
)
def test_the_times_at_the_seam_are_compared(
    minutes: tuple[int, int], said: str, tmp_path: Path
) -> None:
    put(tmp_path / "d.log.1", line(minutes[0]))
    put(tmp_path / "d.log", line(minutes[1]))
    told = read(tmp_path / "d.log")[1][1:]
    assert said in " ".join(told)
    assert bool(told) == bool(said)


def test_none_is_said(tmp_path: Path) -> None:
    assert read(tmp_path / "d.log")[1] == [
        f"{tmp_path / 'd.log'} has no rotated predecessors beside it"
    ]


def test_since_holds_for_them_too(tmp_path: Path) -> None:
    put(tmp_path / "d.log.1", b"".join(line(n) for n in range(10)))
    since = Since(at_ms=1_773_450_000_000.0 + 8 * 60_000.0)  # 01:08
    assert read(tmp_path / "d.log", since)[0] == line(8) + line(9)


@pytest.mark.parametrize("name", ["d.log.1", "d.log.1.gz"])
def test_ten_minutes_back_are_counted_from_the_end_of_the_log(tmp_path: Path, name: str) -> None:
    """Not from the end of each file that was rotated away from it."""
    put(tmp_path / "d.log.2", b"".join(line(n) for n in range(15)))
    put(tmp_path / name, b"".join(line(n) for n in range(15, 30)))
    put(tmp_path / "d.log", b"".join(line(n) for n in range(30, 35)))
    text, _ = read(tmp_path / "d.log", Since(back_ms=10 * 60_000.0))
    assert text == b"".join(line(n) for n in range(24, 30))
    text, _ = read(tmp_path / "d.log", Since(of_day_ms=72 * 60_000.0))
    assert text == b"".join(line(n) for n in range(12, 30))
    text, _ = read(tmp_path / "d.log", EVERYTHING)
    assert text == b"".join(line(n) for n in range(30))


class Parser:
    """Keeps what it was fed."""

    def __init__(self) -> None:
        self.text = b""

    def feed(self, data: bytes) -> list[LogEvent]:
        self.text += data
        return []

    def finish(self) -> list[LogEvent]:
        return []

    def cut(self) -> list[LogEvent]:
        self.text += b"<cut>"
        return []


def test_the_screen_reads_them_first(tmp_path: Path) -> None:
    path = tmp_path / "d.log"
    put(tmp_path / "d.log.1", line(0) + line(1)[:9])
    put(path, line(1)[9:])
    parser = Parser()
    events: list[Event] = []
    waits = iter([False, True])
    tail = LogTail(
        path,
        parser,
        events.extend,
        clock=lambda: 0.0,
        wait=lambda _: next(waits),
        since=EVERYTHING,
        before=lambda tell: rotated_blocks(path, tell),
    )
    tail.run()
    assert parser.text == line(0) + line(1)
    assert [event.text for event in events if isinstance(event, SourceNote)] == [
        f"{path}: reading what was rotated away before it: d.log.1"
    ]


def test_a_rotation_while_they_are_read_loses_and_doubles_nothing(tmp_path: Path) -> None:
    path = tmp_path / "d.log"
    put(tmp_path / "d.log.2", line(0))
    put(tmp_path / "d.log.1", line(1))
    put(path, line(2))

    def before(tell: Tell) -> Iterator[bytes]:
        for number, block in enumerate(rotated_blocks(path, tell)):
            if number == 0:
                for n in (2, 1):
                    (tmp_path / f"d.log.{n}").rename(tmp_path / f"d.log.{n + 1}")
                path.rename(tmp_path / "d.log.1")
                put(path, line(3))
            yield block

    parser = Parser()
    waits = iter([False, False, True])
    times = iter(range(0, 100_000, 2000))
    tail = LogTail(
        path,
        parser,
        lambda _: None,
        clock=lambda: float(next(times)),
        wait=lambda _: next(waits),
        since=EVERYTHING,
        before=before,
    )
    tail.run()
    assert parser.text.replace(b"<cut>", b"") == b"".join(line(n) for n in range(4))


def test_a_report_of_the_parts_is_that_of_the_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from cuzktop.sources.demos import demo  # noqa: PLC0415 (only this test plays one)

    data = gzip.decompress(demo("h200-one-gpu").log.read_bytes())
    third = len(data) // 3
    put(tmp_path / "whole.log", data)
    put(tmp_path / "d.log.2.gz", data[:third])
    put(tmp_path / "d.log.1", data[third : 2 * third])
    put(tmp_path / "d.log", data[2 * third :])
    assert main(["report", "--rotated", str(tmp_path / "d.log")]) == 0
    written = capsys.readouterr()
    assert "d.log.2.gz, d.log.1" in written.err
    assert main(["report", str(tmp_path / "whole.log")]) == 0
    whole = capsys.readouterr().out.replace("whole.log", "d.log").splitlines()
    assert written.out.splitlines()[1:] == whole[1:]


def test_standard_input_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--rotated", "-"]) == 2
    assert "standard input has no rotated predecessors" in capsys.readouterr().err
