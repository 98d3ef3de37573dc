"""Where a log is begun when the user says it."""

from __future__ import annotations

import argparse
import io
import random
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cuzktop import arguments
from cuzktop.settings import EVERYTHING, Since
from cuzktop.sources.log_tail import Follower
from cuzktop.sources.since import find_since, instant_ms, settle

END_MS = datetime(2026, 3, 14, 8, 30, tzinfo=UTC).timestamp() * 1000.0
MINUTE_MS = 60_000.0


def parsed(*words: str) -> Since | None:
    since = arguments.snapshot_parser().parse_args(["LOG", *words]).since
    assert since is None or isinstance(since, Since)
    return since


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", END_MS - 90_000),
        ("10m", END_MS - 10 * MINUTE_MS),
        ("1.5h", END_MS - 90 * MINUTE_MS),
        ("2d", END_MS - 2 * 1440 * MINUTE_MS),
        ("08:20", END_MS - 10 * MINUTE_MS),
        ("8:20:30", END_MS - 9.5 * MINUTE_MS),
        ("08:40", END_MS - 1430 * MINUTE_MS),  # yesterday's
        ("2026-03-14T08:20", END_MS - 10 * MINUTE_MS),
        ("2026-03-14 08:20:00Z", END_MS - 10 * MINUTE_MS),
        ("2026-03-14T09:20+01:00", END_MS - 10 * MINUTE_MS),
        ("2026-03-13", END_MS - (1440 + 510) * MINUTE_MS),
    ],
)
def test_a_time_means_what_it_says(text: str, expected: float) -> None:
    since = parsed("--since", text)
    assert since is not None
    assert instant_ms(since, END_MS) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["09:20 local", "2026-03-14T09:20 local", "09:20local"])
def test_local_times_are_local(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Vienna")
    time.tzset()
    try:
        since = parsed("--since", text)
        assert since is not None
        assert instant_ms(since, END_MS) == pytest.approx(END_MS - 10 * MINUTE_MS)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "25:00", "10x", "-5m", "2026-13-01"])
def test_what_is_no_time_is_said(text: str) -> None:
    with pytest.raises(Exception, match="is no time: 10m, 90s"):
        parsed(f"--since={text}")


def test_since_and_all_exclude_each_other() -> None:
    assert parsed() is None
    assert parsed("--all") == EVERYTHING
    with pytest.raises(Exception, match="not allowed with"):
        parsed("--all", "--since", "10m")
    assert isinstance(arguments.snapshot_parser(), argparse.ArgumentParser)


def a_log(seconds: int, *, seed: int = 1, restarts: bool = True) -> list[tuple[float, bytes]]:
    """Lines with their times (ms): a tracing line each second, others in between."""
    dice = random.Random(seed)
    lines: list[tuple[float, bytes]] = []
    offset = 0
    for second in range(seconds):
        at_ms = END_MS - (seconds - 1 - second) * 1000.0
        stamp = datetime.fromtimestamp(at_ms / 1000.0, UTC)
        text = "cuzk_daemon: cuzk-daemon starting" if restarts and second % 700 == 0 else "noise"
        offset = 0 if text != "noise" else offset + 1000
        lines.append((at_ms, f"{stamp:%Y-%m-%dT%H:%M:%S}.000000Z  INFO {text}\n".encode()))
        for _ in range(dice.randrange(6)):
            lines.append((at_ms, b"TIMELINE,%d,SYNTH_START,j,partition=0\n" % offset))
            lines.append((at_ms, b"CUZK_TIMING: prep_msm_ms=1871" + b" " * 90 + b"\n"))
    return lines


@pytest.mark.parametrize("back_s", [0, 1, 30, 699, 700, 1500, 2998, 2999, 3000, 90_000])
def test_the_search_finds_the_second_across_starts_of_the_daemon(back_s: int) -> None:
    lines = a_log(3000)
    file = io.BytesIO(b"".join(line for _, line in lines))
    start = find_since(file, Since(back_ms=back_s * 1000.0))
    wanted_ms = END_MS - back_s * 1000.0
    # What belongs to the second before, but has no time of its own, comes along.
    wanted = b"".join(line for at_ms, line in lines if at_ms >= wanted_ms)
    text = file.getvalue()[start:]
    assert text.endswith(wanted)
    assert b"INFO" not in text[: -len(wanted)]
    assert file.tell() == start


def test_all_begins_at_the_first_line_and_a_stream_too() -> None:
    data = b"".join(line for _, line in a_log(2000))
    assert find_since(io.BytesIO(data), EVERYTHING) == 0
    assert find_since(io.BytesIO(b""), Since(back_ms=1.0)) == 0


def test_a_time_after_the_end_leaves_nothing() -> None:
    data = b"".join(line for _, line in a_log(10))
    start = find_since(io.BytesIO(data), Since(at_ms=END_MS + 1.0))
    assert b"INFO" not in data[start:]


STAMPED = b"2026-03-14T08:30:00.000000Z  INFO noise\n"
LATER = b"\x1b[2m2026-03-14T12:00:00.000000Z\x1b[0m \x1b[32m INFO\x1b[0m noise\n"
UNSTAMPED = b"CUZK_TIMING: async_dealloc_ms=437\n"


def clocked(first_min: int, last_min: int) -> bytes:
    """Lines without a stamp, one a minute of TIMELINE."""
    return b"".join(
        b"TIMELINE,%d,GPU_QUEUE,j,partition=0\n" % (minute * 60_000)
        for minute in range(first_min, last_min + 1)
    )


@pytest.mark.parametrize(
    ("log", "minutes", "rest"),
    [
        # Written right after the last stamp: older than what is asked for.
        (STAMPED + UNSTAMPED, 60, b""),
        (STAMPED + UNSTAMPED + LATER, 60, LATER),
        (STAMPED + clocked(5, 20) + LATER, 60, LATER),
        # They may have been written by then: they come along.
        (STAMPED + UNSTAMPED + LATER, 0.5, UNSTAMPED + LATER),
        (STAMPED + UNSTAMPED, 0.5, UNSTAMPED),
        # The clock of TIMELINE goes on although no stamp tells: a daemon that logs warnings alone.
        (STAMPED + clocked(5, 90), 60, clocked(5, 90)),
        (STAMPED + clocked(5, 90) + LATER, 60, clocked(5, 90) + LATER),
    ],
)
def test_lines_without_a_stamp_are_not_taken_for_hours_later(
    log: bytes, minutes: float, rest: bytes
) -> None:
    file = io.BytesIO(log)
    start = find_since(file, Since(at_ms=END_MS + minutes * MINUTE_MS))
    assert log[start:] == rest
    assert file.tell() == start


def test_a_time_counts_from_the_end_of_the_log_that_it_is_settled_by() -> None:
    log = io.BytesIO(STAMPED + UNSTAMPED)
    assert settle(log, Since(back_ms=MINUTE_MS)) == Since(at_ms=END_MS - MINUTE_MS)
    assert settle(log, Since(of_day_ms=MINUTE_MS)) == Since(at_ms=END_MS - 509 * MINUTE_MS)
    assert settle(io.BytesIO(UNSTAMPED), Since(back_ms=MINUTE_MS)) == Since(back_ms=MINUTE_MS)


def test_a_log_without_stamps_goes_by_its_timeline() -> None:
    lines = [b"TIMELINE,%d,SYNTH_START,j%d,partition=0\n" % (n * 1000, n) for n in range(5000)]
    file = io.BytesIO(b"".join(lines))
    start = find_since(file, Since(back_ms=100_000.0))
    assert file.getvalue()[start:].count(b"\n") == pytest.approx(100, abs=2)


def test_the_screen_begins_there_and_follows(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = a_log(3000)
    path.write_bytes(b"".join(line for _, line in lines))
    follower = Follower(path, since=Since(back_ms=5000.0))
    read = b""
    for now in range(3):
        read += b"".join(piece for piece in follower.poll(now * 1e3) if isinstance(piece, bytes))
    with path.open("ab") as file:
        file.write(b"more\n")
    read += b"".join(piece for piece in follower.poll(9e3) if isinstance(piece, bytes))
    follower.close()
    assert read.count(b"INFO") == 6
    assert read.endswith(b"more\n")
