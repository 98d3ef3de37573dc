"""Where reading begins in a log, searched backwards from its end."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzktop.sources.beginning import find_start

MINUTE_MS = 60_000
MIB = 1024 * 1024
STARTING = b"2026-03-14T01:00:00.000000Z  INFO cuzk_daemon: cuzk-daemon starting\n"


def mark(offset_ms: int, job: str = "", partition: int = 0, name: str = "SYNTH_START") -> bytes:
    return b"TIMELINE,%d,%s,%s,partition=%d\n" % (
        offset_ms,
        name.encode(),
        (job or f"job-{offset_ms}").encode(),
        partition,
    )


def dispatched(job: str) -> bytes:
    return (
        "2026-03-14T01:02:03.456789Z  INFO cuzk_core::engine: dispatching per-partition synthesis "
        f"(budget-gated) job_id={job} num_partitions=10 budget_available_gib=100\n"
    ).encode()


def busy(begin_ms: int, end_ms: int, step_ms: int = 500) -> bytes:
    """A log of marks, each of a job of its own that is finished at once."""
    lines = []
    for offset_ms in range(begin_ms, end_ms, step_ms):
        job = f"job-{offset_ms}"
        lines += [dispatched(job), mark(offset_ms, job), b"CUZK_TIMING: prep_msm_ms=12\n"]
    return b"".join(lines)


class Counting(io.BytesIO):
    """A log that counts what is read of it."""

    read_bytes = 0

    def read(self, size: int | None = -1) -> bytes:
        got = super().read(size)
        self.read_bytes += len(got)
        return got


def begin(log: bytes | Iterable[bytes], back_ms: float, max_bytes: int = 64 * MIB) -> bytes:
    """What is read of `log`, after a check that it begins at a line's start."""
    text = log if isinstance(log, bytes) else b"".join(log)
    file = io.BytesIO(text)
    start = find_start(file, back_ms=back_ms, max_bytes=max_bytes)
    assert file.tell() == start
    assert start in {0, len(text)} or text[start - 1 : start] in {b"\n", b"\0"}
    assert len(text) - start <= max_bytes
    return text[start:]


def test_the_last_minutes_are_covered_and_not_much_more() -> None:
    rest = begin(busy(0, 3600_000), 10 * MINUTE_MS)
    first = int(rest.split(b"TIMELINE,", 1)[1].split(b",")[0])
    assert 3600_000 - 11 * MINUTE_MS < first <= 3600_000 - 10 * MINUTE_MS


@pytest.mark.parametrize("log", [b"", b"\n", b"TIMELINE,5,GPU_", mark(5), b"no newline at all"])
def test_a_tiny_log_is_read_whole(log: bytes) -> None:
    assert begin(log, 10 * MINUTE_MS) == log


def test_the_cost_does_not_grow_with_the_file() -> None:
    cost = []
    end = busy(20_000_000, 22_000_000)
    for filler in (5 * MIB, 50 * MIB):
        line = b"2026-03-14T01:02:03.456789Z DEBUG cuzk_core::engine: nothing\n"
        file = Counting(line * (filler // len(line)) + end)
        find_start(file, back_ms=10 * MINUTE_MS, max_bytes=64 * MIB)
        cost.append(file.read_bytes)
    assert cost[0] == cost[1] < 4 * len(end)


def test_no_more_than_the_limit_is_read() -> None:
    log = busy(0, 3600_000)
    rest = begin(log, 30 * MINUTE_MS, max_bytes=20_000)
    assert 19_000 < len(rest) <= 20_000


def test_a_foreign_text_is_read_up_to_the_limit() -> None:
    assert 99_900 < len(begin(b"some other program's line\n" * 20_000, 1000, 100_000)) <= 100_000


def test_one_endless_line_is_no_trouble() -> None:
    assert begin(b"x" * 3 * MIB, 1000, 2 * MIB) == b""
    log = mark(1) + b"x" * 3 * MIB + b"\n" + mark(100_000) + mark(200_000)
    assert begin(log, 50_000) == mark(100_000) + mark(200_000)


def test_reading_begins_at_the_newest_run() -> None:
    newest = STARTING + mark(10) + mark(30_000)
    assert begin(busy(0, 900_000) + newest, 10 * MINUTE_MS) == newest


def test_an_older_run_does_not_matter_when_the_newest_is_long() -> None:
    log = busy(0, 9_000) + STARTING + busy(0, 1800_000)
    assert len(begin(log, MINUTE_MS)) < len(log) // 10


def test_a_restart_without_its_start_up_lines_is_told_by_the_offset() -> None:
    old = b"".join(mark(ms) for ms in range(0, 900_000, 1000))
    new = b"".join(mark(ms) for ms in range(2000, 90_000, 1000))
    assert begin(old + new, 10 * MINUTE_MS) == new


def test_a_small_step_back_is_no_restart() -> None:
    log = [mark(ms) for ms in range(0, 90_000, 1000)]
    log[50], log[54] = log[54], log[50]
    assert begin(log, 10 * MINUTE_MS) == b"".join(log)


@pytest.mark.parametrize("damaged_ms", [3, 80, 77_000_000])
@pytest.mark.parametrize("place", [1, 40, 88, 89])
def test_a_damaged_offset_is_no_restart(damaged_ms: int, place: int) -> None:
    log = [mark(ms) for ms in range(100_000, 190_000, 1000)]
    log[place] = mark(damaged_ms)
    if place == 89 and damaged_ms > 190_000:
        return  # the newest offset of all can't be doubted
    assert begin(log, 10 * MINUTE_MS) == b"".join(log)


@pytest.mark.parametrize(
    "torn",
    [
        b"TIMELINE,1234567CUZK_TIMING: tail_msm_ms=83 gpu_total_ms=1824\n,GPU_START,j,worker=0\n",
        b"TIMELINE,2026-03-14T01:02:03.456789Z  INFO cuzk_core::engine: x\n150,SYNTH_START,j,\n",
        b"TIMELINE,\x1b[2m2026-03-14T01:02:03.456789Z\x1b[0m INFO x\n12,GPU_START,j,worker=0\n",
        b"TIMELINE,15CUZK_TIMING: prep_msm_ms=1909\n0000,GPU_START,j,worker=0\n",
    ],
)
def test_a_torn_line_is_no_clock(torn: bytes) -> None:
    log = [mark(ms) for ms in range(100_000, 190_000, 1000)]
    log.insert(40, torn)
    assert begin(log, 10 * MINUTE_MS) == b"".join(log)
    assert torn not in begin(log, 10_000)


def test_a_job_at_work_is_there_from_its_first_line() -> None:
    job = dispatched("early") + mark(10_000, "early")
    log = busy(0, 10_000) + job + busy(11_000, 900_000) + mark(900_000, "early", 9, "GPU_START")
    rest = begin(log, MINUTE_MS)
    assert rest.startswith(job)
    other = log.replace(b"early", b"later", 2)
    assert begin(other, MINUTE_MS) == log[log.index(dispatched("job-840000")) :]


def test_a_job_of_an_older_run_is_not_looked_for() -> None:
    old = busy(0, 9_000) + dispatched("again") + mark(10_000, "again")
    new = STARTING + busy(1000, 700_000) + mark(700_000, "again", 9, "GPU_START")
    assert begin(old + new, MINUTE_MS) == new[new.index(dispatched("job-640000")) :]


def test_a_finished_job_is_not_looked_for() -> None:
    log = dispatched("done") + mark(10, "done") + busy(1000, 900_000)
    log += mark(900_000, "done", 9, "GPU_END") + b"all partitions complete, proof assembled "
    log += b"job_id=done total_ms=5\n"
    assert not begin(log, MINUTE_MS).startswith(dispatched("done"))


def stamped(second: int, text: str = "job_id=j") -> bytes:
    clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    line = f"\x1b[2m2026-03-14T{clock}.000000Z\x1b[0m \x1b[32m INFO\x1b[0m cuzk_core: {text}\n"
    return line.encode()


def test_standard_output_alone_is_measured_by_its_time_stamps() -> None:
    log = [stamped(second) for second in range(7200)]
    assert begin(log, 10 * MINUTE_MS) == b"".join(log[6599:])


def test_an_idle_daemons_last_work_is_found() -> None:
    work = [mark(ms) for ms in range(0, 900_000, 1000)]
    idle = [stamped(second, "evictor: nothing to do") for second in range(3600)]
    assert begin(work + idle, MINUTE_MS) == b"".join(work[839:] + idle)


def test_a_daemon_that_never_worked_is_measured_by_its_time_stamps() -> None:
    idle = [stamped(second, "evictor: nothing to do") for second in range(3600)]
    assert begin(idle, MINUTE_MS) == b"".join(idle[3539:])


def test_a_hole_at_the_front_is_no_line() -> None:
    log = [mark(ms) for ms in range(0, 90_000, 1000)]
    assert begin(b"\0" * 3 * MIB + b"".join(log), 10 * MINUTE_MS) == b"".join(log)


def test_an_impossible_date_is_survived() -> None:
    assert begin(b"2026-02-31T01:02:03.456789Z job_id=j\n" * 3, 1000)


@given(
    st.lists(
        st.sampled_from(
            [
                *(mark(5), mark(900_000), mark(7, "x,y"), STARTING, stamped(9), stamped(4000)),
                *(b"\n", b"TIMELINE,", b"\0" * 70, b"x" * 700, b"CUZK_TIMING: prep_msm_ms=1\n"),
            ]
        ),
        max_size=60,
    ),
    st.integers(1, 3000),
)
def test_any_log_has_a_beginning(pieces: list[bytes], max_bytes: int) -> None:
    log = b"".join(pieces)
    file = io.BytesIO(log)
    start = find_start(file, back_ms=60_000, max_bytes=max_bytes)
    assert max(0, len(log) - max_bytes) <= start <= len(log)


def test_however_far_back_a_log_is_read_its_pieces_are_small(tmp_path: Path) -> None:
    """What large ones took would stay with the program for its life."""

    class Counting(io.FileIO):
        largest = 0

        def read(self, size: int | None = -1, /) -> bytes:
            text = super().read(size) or b""
            self.largest = max(self.largest, len(text))
            return text

    path = tmp_path / "d.log"
    lines = [
        b"TIMELINE,%d,SYNTH_START,job-%d,partition=0\n" % (10 * n, n // 1000) for n in range(60_000)
    ]
    path.write_bytes(b"".join(lines))
    with Counting(path) as file:
        start = find_start(file, back_ms=400_000.0, max_bytes=64 * 1024 * 1024)
        assert start == path.read_bytes().index(b"job-19,") - len(b"TIMELINE,190000,SYNTH_START,")
        assert file.largest <= 64 * 1024
