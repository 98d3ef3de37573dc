"""What carriers add to a line comes off, and the line's own time stamp stays."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone, tzinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzktop.parse.prefix import Unwrapped, split_prefix, unwrap

T_MS = datetime(2026, 3, 14, 1, 2, 3, tzinfo=UTC).timestamp() * 1000.0
CET = timezone(timedelta(hours=1))
TIMELINE = b"TIMELINE,5,GPU_START,j,worker=0,partition=3"
TIMING = b"CUZK_TIMING: prep_msm_ms=1909"
PLAIN = b"2026-03-14T01:02:03.456789Z  INFO cuzk_core::engine: starting cuzk engine"
ERROR = b"2026-03-14T01:02:03.456789Z ERROR cuzk_daemon: failed to bind status HTTP server"
COLOURED = (
    b"\x1b[2m2026-03-14T01:02:03.456789Z\x1b[0m \x1b[32m INFO\x1b[0m"
    b" \x1b[2mcuzk_core::engine\x1b[0m\x1b[2m:\x1b[0m starting cuzk engine"
)
PANIC = b"thread 'tokio-runtime-worker' panicked at src/engine.rs:1:2:"
RECORDS = [TIMELINE, TIMING, PLAIN, ERROR, COLOURED, PANIC, b""]


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize(
    ("prefix", "wall_ms", "pid"),
    [
        pytest.param(b"Mar 14 01:02:03 host cuzk[4242]: ", T_MS, 4242, id="short"),
        pytest.param(b"Mar 14 01:02:03.5 host cuzk[4242]: ", T_MS + 500, 4242, id="short-precise"),
        pytest.param(b"M\xc3\xa4r 14 01:02:03 host cuzk[4242]: ", None, 4242, id="short-in-german"),
        pytest.param(b"2026-03-14T01:02:03+0000 host cuzk[7]: ", T_MS, 7, id="short-iso"),
        pytest.param(b"2026-03-14T02:02:03+01:00 host cuzk[7]: ", T_MS, 7, id="short-iso-new"),
        pytest.param(
            b"2026-03-13T17:02:03.250000-0800 h-1.lan cuzk-daemon[7]: ",
            T_MS + 250,
            7,
            id="short-iso-precise",
        ),
        pytest.param(b"1773450123.250000 host cuzk[7]: ", T_MS + 250, 7, id="short-unix"),
        pytest.param(b"2026-03-14T01:02:03.250000000Z ", T_MS + 250, None, id="docker-logs-t"),
        pytest.param(b"2026-03-14T02:02:03.250000000+01:00 ", T_MS + 250, None, id="podman-logs-t"),
    ],
)
def test_a_prefix_comes_off(
    prefix: bytes, wall_ms: float | None, pid: int | None, record: bytes
) -> None:
    found = split_prefix(prefix + record, near_ms=T_MS)
    assert (found.pid, found.line) == (pid, record)
    assert found.wall_ms == (None if wall_ms is None else pytest.approx(wall_ms, abs=0.001))
    assert unwrap(prefix + record, near_ms=T_MS) == (found.wall_ms, record)


@pytest.mark.parametrize(
    "line",
    [
        *RECORDS,
        b"2026-03-14T01:02:03.456789Z  WARN gpu{worker_id=0}: cuzk_core::engine: text",
        b"2026-03-14T01:02:03.456789Z DEBUG h2: text",
        b"Caused by:",
        b"    0: address in use",
        b"cuzk: engine.cpp:12: f: Assertion 'x' failed.",
        b"14 01:02:03 host cuzk[1]: half a prefix",
        b"1773450123.250000",
        b"{",
        b'{"MESSAGE":"cut in the mid',
        b'{"MESSAGE":"x"} and more',
        b'["MESSAGE"]',
        b"{}",
    ],
)
def test_a_line_without_prefix_stays_as_it_is(line: bytes) -> None:
    assert split_prefix(line, near_ms=T_MS) == Unwrapped(None, None, line)


@pytest.mark.parametrize("record", [TIMELINE, TIMING, PLAIN, COLOURED])
@pytest.mark.parametrize(
    "prefix",
    [b"Mar 14 01:02:03 ", b"2026-03-14T01:02:03Z ", b"2026-03-14T01:02:03.456789Z "],
    ids=["ts", "whole-seconds", "six-digits"],
)
def test_a_bare_time_comes_off_before_one_of_our_lines(prefix: bytes, record: bytes) -> None:
    wall_ms, line = unwrap(prefix + record, near_ms=T_MS)
    assert line == record
    assert wall_ms is not None
    assert T_MS <= wall_ms < T_MS + 1000.0


def test_the_kernel_and_systemd_write_into_the_journal_too() -> None:
    assert split_prefix(b"2026-03-14T01:02:03+0000 host kernel: NVRM: Xid 79").line == (
        b"NVRM: Xid 79"
    )
    found = split_prefix(b"2026-03-14T01:02:03+0000 host systemd[1]: cuzk.service: Failed")
    assert (found.pid, found.line) == (1, b"cuzk.service: Failed")


@pytest.mark.parametrize(
    ("prefix", "tz", "near", "expected"),
    [
        pytest.param(b"Mar 14 02:02:03", CET, T_MS, T_MS, id="the-zone-given"),
        pytest.param(
            b"Dec 31 23:59:59",
            UTC,
            datetime(2027, 1, 1, 0, 5, tzinfo=UTC).timestamp() * 1000.0,
            datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp() * 1000.0,
            id="last-year",
        ),
        pytest.param(
            b"Jan  1 00:00:01",
            UTC,
            datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp() * 1000.0,
            datetime(2027, 1, 1, 0, 0, 1, tzinfo=UTC).timestamp() * 1000.0,
            id="clocks-apart-at-new-year",
        ),
        pytest.param(
            b"Feb 29 12:00:00",
            UTC,
            datetime(2029, 1, 5, tzinfo=UTC).timestamp() * 1000.0,
            datetime(2028, 2, 29, 12, tzinfo=UTC).timestamp() * 1000.0,
            id="leap-day",
        ),
        pytest.param(b"Feb 30 12:00:00", UTC, T_MS, None, id="no-such-day"),
        pytest.param(b"Mar 14 01:02:03", UTC, None, None, id="no-year-known"),
        pytest.param(b"Mar 14 01:02:03", UTC, 1e300, None, id="no-such-year"),
    ],
)
def test_a_short_prefix_is_dated_by_zone_and_year(
    prefix: bytes, tz: tzinfo, near: float | None, expected: float | None
) -> None:
    wall_ms, line = unwrap(prefix + b" host cuzk[1]: " + TIMELINE, tz=tz, near_ms=near)
    assert line == TIMELINE
    assert wall_ms == expected


@pytest.mark.parametrize("damaged", [b"2026-13-14T01:02:03+0000", b"2026-03-14T01:02:03+9900"])
def test_a_damaged_time_never_raises(damaged: bytes) -> None:
    assert unwrap(damaged + b" host cuzk[1]: " + TIMING)[1] == TIMING


# ---------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    ("message", "line"),
    [
        pytest.param("CUZK_TIMING: prep_msm_ms=1909", TIMING, id="string"),
        pytest.param(list(COLOURED), COLOURED, id="byte-values"),
        pytest.param("smörgås – x", "smörgås – x".encode(), id="not-ascii"),
        pytest.param(None, b"", id="too-long-to-print"),
        pytest.param(["one", "two"], b"one", id="sent-twice"),
        pytest.param([list(TIMING), "two"], TIMING, id="sent-twice-as-bytes"),
        pytest.param([300, -1], b"", id="no-bytes"),
        pytest.param([], b"", id="empty"),
        pytest.param("two\nlines\n", b"two lines", id="line-breaks"),
        pytest.param(5, b"", id="number"),
    ],
)
def test_a_json_entry_of_the_journal(message: object, line: bytes) -> None:
    entry = {
        "MESSAGE": message,
        "__REALTIME_TIMESTAMP": "1773450123250500",
        "_PID": "4242",
        "SYSLOG_IDENTIFIER": "cuzk",
    }
    assert split_prefix(json.dumps(entry).encode()) == Unwrapped(T_MS + 250.5, 4242, line)


def test_a_json_entry_without_its_time() -> None:
    assert split_prefix(b'{"MESSAGE":"x","_PID":"-"}') == Unwrapped(None, None, b"x")


def test_dockers_own_file() -> None:
    entry = {
        "log": COLOURED.decode() + "\n",
        "stream": "stdout",
        "time": "2026-03-14T01:02:03.25Z",
    }
    assert unwrap(json.dumps(entry).encode()) == (T_MS + 250, COLOURED)


@given(st.binary(max_size=80))
def test_nothing_makes_it_raise(line: bytes) -> None:
    wall_ms, bare = unwrap(line, near_ms=T_MS)
    assert wall_ms is not None or line.endswith(bare)


@given(
    st.sampled_from([b"Mar 14 01:02:03 ", b"2026-03-14T01:02:03+0000 ", b"1773450123.250000 "]),
    st.binary(max_size=40).filter(lambda text: b"\n" not in text),
)
def test_any_text_comes_out_as_it_went_in(stamp: bytes, text: bytes) -> None:
    assert unwrap(stamp + b"host cuzk[1]: " + text, near_ms=T_MS)[1] == text
