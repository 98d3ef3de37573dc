"""Framing: blocks, line ends, prefixes and damage, on the way from bytes to lines."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzktop.events import (
    DaemonStarted,
    DialectSeen,
    LineUnparsed,
    LogEvent,
    Noticed,
    PrepMsm,
    SynthStarted,
    Tick,
)
from cuzktop.parse.scanner import LogScanner
from tests import logsim
from tests.corelog import apart, blocks, coloured, golden, report, said, scan
from tests.logsim import Knobs

TWO_WORKERS = golden("c2_s45_two_workers")
NAMES = [
    "c1_s45_start_up",
    "c2_s45_two_workers",
    "c3_s45_two_gpus",
    "c4_s20_one_partition",
    "c5_s19_gpu_part",
    "c6_s28_gpu_part",
    "c7_s45_window_post",
    "c8_s41_out_of_memory",
    "c9_s38_failures",
]
START = b"2026-03-14T01:02:03.415589Z  INFO cuzk_daemon: cuzk-daemon starting\n"


@cache
def torn_log() -> bytes:
    """Two runs with torn lines and failures; ids with blanks, commas and brackets."""
    knobs = Knobs(
        jobs=3,
        synth=700,
        srs=300,
        cuts=0,
        torn=0.2,
        runs=2,
        kill=3000.0,
        ids="weird",
        kind="porep+wdpost",
        fail_gpu=0.05,
        ansi=True,
        seed=5,
    )
    return logsim.simulate(knobs)[0]


@pytest.mark.parametrize("name", [*NAMES, "torn"])
def test_half_lines_are_held_back_until_their_end_comes(name: str) -> None:
    data = torn_log() if name == "torn" else golden(name)
    events, counts = scan(data)
    assert counts.unparsed == 0
    for size in (1, 7, 4096):
        assert scan(data, size) == (events, counts)


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=60))
@settings(max_examples=25, deadline=None)
def test_where_blocks_end_makes_no_difference(sizes: list[int]) -> None:
    data = coloured(TWO_WORKERS)
    scanner = LogScanner()
    events: list[LogEvent] = []
    at = 0
    for size in sizes:
        events += apart(scanner.feed(data[at : at + size]))
        at += size
    events += apart(scanner.feed(data[at:]))
    assert (events + scanner.finish(), scanner.counts) == scan(data)


@pytest.mark.parametrize("name", NAMES)
def test_a_terminal_s_line_ends_are_stripped(name: str) -> None:
    data = coloured(golden(name))
    assert scan(data.replace(b"\n", b"\r\n"))[0] == scan(data)[0]
    assert scan(data.replace(b"\n", b"\r\n"), 1)[0] == scan(data)[0]


def test_torn_lines_mend_with_a_terminal_s_line_ends_too() -> None:
    data = torn_log().replace(b"\n", b"\r\n")
    assert scan(data)[0] == scan(torn_log())[0]
    assert scan(data)[1].torn == scan(torn_log())[1].torn > 0


@pytest.mark.parametrize("size", [100, 4096, 65536])
def test_the_hole_of_a_truncated_file_is_skipped(size: int) -> None:
    at = TWO_WORKERS.index(b"TIMELINE,939310,SYNTH_END")
    holed = b"\0" * 70_000 + TWO_WORKERS[:at] + b"\0" * 9000 + TWO_WORKERS[at:]
    events, counts = scan(holed, size)
    assert events == scan(TWO_WORKERS)[0]
    assert counts.bytes == len(holed)


def test_text_that_is_not_utf8_is_no_obstacle() -> None:
    line = b"TIMELINE,5,GPU_START,\xff\xfe,worker=0,partition=1\n"
    noise = b"\xc3\x28 \xa0\xa1\n\xed\xa0\x80\n"
    wrong = b"2026-03-14T01:02:03.456789Z ERROR cuzk_core::engine: synthesis failed error=\xff\n"
    (opened,) = said(noise + line + noise)
    assert opened.job == "\N{REPLACEMENT CHARACTER}" * 2  # type: ignore[union-attr]
    assert len(said(noise + wrong)) == 1
    assert report(noise + line + wrong)["source"]["unparsed"] == 0


@pytest.mark.parametrize("size", [1000, 65536, 1 << 20, 1 << 23])
def test_a_line_of_megabytes_is_one_line(size: int) -> None:
    endless = b"x" * 100_000 + b"TIMELINE,7,GPU_QUEUE,j,monolithic" + b"y" * 5_000_000
    data = START + endless + b"\nCUZK_TIMING: prep_msm_ms=5\n"
    events, counts = scan(data, size)
    assert (counts.lines, counts.unparsed) == (3, 0)
    assert [event for event in events if not isinstance(event, DialectSeen)] == [
        DaemonStarted(1773450123415589),
        PrepMsm(5),
    ]


@pytest.mark.parametrize("begin", ["TIMELINE,7,GPU_QUEUE,", "CUZK_TIMING: prep_msm_ms=", "2026-"])
def test_a_line_of_megabytes_reads_the_same_in_any_blocks(begin: str) -> None:
    data = begin.encode() + b"5" * 3_000_000 + b"\n" + TWO_WORKERS
    events, counts = scan(data, 1 << 23)
    for size in (50_000, 65_536, 65_537, 1 << 20):
        assert scan(data, size) == (events, counts)


# ---------------------------------------------------------------- prefixes

PREFIXES = [
    pytest.param(b"Mar 14 01:02:03 prover-7.example cuzk[4242]: ", id="short"),
    pytest.param(b"Mar  4 01:02:03.123456 host cuzk-daemon[1]: ", id="short-precise"),
    pytest.param(b"2026-03-14T01:02:03+0000 host cuzk[4242]: ", id="short-iso"),
    pytest.param(b"2026-03-14T01:02:03+01:00 host cuzk[4242]: ", id="short-iso-newer"),
    pytest.param(b"2026-03-14T01:02:03.123456+0000 host cuzk[4242]: ", id="short-iso-precise"),
    pytest.param(b"2026-03-14T01:02:03.123456Z host cuzk[4242]: ", id="iso-utc"),
    pytest.param(b"2026-03-14T01:02:03.123456789Z ", id="docker"),
    pytest.param(b"2026-03-14T01:02:03.123456Z ", id="six-digits"),
]


def prefixed(data: bytes, prefix: bytes) -> bytes:
    return b"".join(prefix + line for line in data.splitlines(keepends=True))


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("dress", [coloured, bytes], ids=["coloured", "plain"])
def test_what_the_journal_and_docker_put_before_a_line_is_stripped(
    prefix: bytes, dress: type[bytes]
) -> None:
    for name in NAMES:
        data = dress(golden(name))
        events, counts = scan(prefixed(data, prefix))
        assert events == scan(data)[0]
        assert counts.unparsed == 0


@pytest.mark.parametrize("prefix", PREFIXES)
def test_torn_lines_mend_although_each_piece_has_a_prefix(prefix: bytes) -> None:
    events, counts = scan(prefixed(torn_log(), prefix))
    assert events == scan(torn_log())[0]
    assert counts.torn == scan(torn_log())[1].torn > 0
    assert counts.unparsed == 0


def test_the_journal_drops_empty_lines() -> None:
    torn = golden("c10_torn_3")
    kept = prefixed(torn.replace(b"\n\n", b"\n"), b"Mar 14 01:02:03 host cuzk[4242]: ")
    assert scan(kept)[0] == scan(torn)[0]


def test_other_programs_in_the_journal_are_noise() -> None:
    data = prefixed(TWO_WORKERS, b"Mar 14 01:02:03 host cuzk[4242]: ")
    lines = data.splitlines(keepends=True)
    lines.insert(40, b"Mar 14 01:02:03 host kernel: [12.3] usb 1-1: new device\n")
    lines.insert(60, b"Mar 14 01:02:03 host sshd[77]: Accepted publickey for root\n")
    lines.insert(70, b"-- Boot 5c1f --\n")
    assert scan(b"".join(lines))[0] == scan(TWO_WORKERS)[0]


# ---------------------------------------------------------------- noise and damage

NOISE = [
    b"\n",
    b"   \n",
    b"Caused by:\n",
    b"    0: No such file or directory (os error 2)\n",
    b"note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
    b"stack backtrace:\n",
    b"NVRM: Xid (PCI:0000:01:00): 31\n",
    b"2026-03-14\n",
    b"TIMELIN\n",
    b"CUZK\n",
    b"\x1b[2m\n",
    b"\x1b\n",
    b"2\n",
    b"T\n",
    b"C\n",
]


@given(st.lists(st.tuples(st.integers(0, 85), st.sampled_from(NOISE)), max_size=20))
@settings(max_examples=40, deadline=None)
def test_noise_changes_nothing_but_the_size(noise: list[tuple[int, bytes]]) -> None:
    lines = TWO_WORKERS.splitlines(keepends=True)
    for at, text in noise:
        lines.insert(at, text)
    events, counts = scan(b"".join(lines))
    plain = scan(TWO_WORKERS)[1]
    assert events == scan(TWO_WORKERS)[0]
    assert counts.bytes == plain.bytes + sum(len(text) for _, text in noise)
    assert counts.lines == plain.lines + len(noise)
    plain.bytes, plain.lines = counts.bytes, counts.lines
    assert counts == plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "thread 'tokio-runtime-worker' panicked at src/lib.rs:316:9:\nout of memory",
            "out of memory",
        ),
        ("thread '<unnamed>' (4711) panicked at a.rs:1:1:\nboom", "boom"),
        ("terminate called after throwing an instance of 'sppark_error'", None),
        ("fatal runtime error: thread local panicked on drop", None),
        ("Error: invalid listen address: x", None),
        ("cuzk: groth16.cu:12: void f(): Assertion `n > 0' failed.", None),
    ],
)
def test_what_a_dying_daemon_says_is_noticed(text: str, shown: str | None) -> None:
    expected = [Noticed(None, "error", shown or text)]
    assert scan(f"{text}\nmore\n".encode())[0] == expected
    journal = prefixed(f"{text}\n".encode(), b"Mar 14 01:02:03 host cuzk[4242]: ")
    assert scan(journal)[0] == expected


def test_the_service_manager_says_that_it_was_killed() -> None:
    line = (
        b"Mar 14 01:02:03 h systemd[1]: cuzk.service: Main process exited, code=killed, status=9\n"
    )
    (event,) = scan(line)[0]
    assert isinstance(event, Noticed)
    assert "code=killed" in event.text


def test_a_half_line_at_the_end_is_no_record() -> None:
    whole = b"TIMELINE,5,GPU_QUEUE,j,monolithic\n"
    for half in (b"TIMELINE,6,GPU_END,j,worker=0,gpu_ms=12", b"CUZK_TIMING: prep_msm_ms=19"):
        events, counts = scan(whole + half)
        assert counts.unparsed == 1
        assert isinstance(events[-1], LineUnparsed)
        assert counts.timeline + counts.timing == 1
    for other in (b"2026-03-14T01:02:03.4", b"Caused", b"\x1b["):
        assert scan(whole + other)[1].unparsed == 0


def test_a_line_may_not_go_on_after_a_cut() -> None:
    scanner = LogScanner()
    scanner.feed(b"TIMELINE,5,GPU_QUEUE,")
    scanner.cut()
    assert scanner.feed(b"j,monolithic\n") == []
    scanner.feed(b"TIMELINE,5,GPU_QUEUE,CUZK_TIMING: prep_msm_ms=5\n")
    (lost,) = scanner.cut()
    assert isinstance(lost, LineUnparsed)
    assert scanner.feed(b"j,monolithic\n") == []
    assert scanner.counts.unparsed == 1


@pytest.mark.parametrize("size", [64, 65536])
def test_an_empty_or_foreign_file_has_no_events(size: int) -> None:
    chance = random.Random(3)
    for data in (b"", b"\n", b"\0" * 5000, chance.randbytes(200_000), b"a,b\n1,2\n" * 500):
        document = report(data, size)
        assert document["runs"] == []
        assert document["source"]["events"] == 0
        assert document["source"]["bytes"] == len(data)


PIECES = re.compile(rb"\d+|[A-Za-z_]+|.|\n", re.DOTALL)
ODD = [
    *(b"", b"-1", b"0", b"99999999999", b"9" * 30, b"9" * 400, b",", b"=", b" ", b"\n", b"\0"),
    *(b"\xff", b"TIMELINE,", b"CUZK_TIMING: ", b"gpu_tid=0", b"}: ", b"None", b"[", b"\x1b[2m"),
]


@given(
    name=st.sampled_from(NAMES),
    edits=st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from(ODD), st.booleans()), min_size=1, max_size=25
    ),
    dress=st.sampled_from([coloured, bytes]),
)
@settings(max_examples=150, deadline=None)
def test_no_damage_breaks_the_reader(
    name: str, edits: list[tuple[float, bytes, bool]], dress: type[bytes]
) -> None:
    pieces = PIECES.findall(dress(golden(name)))
    for where, text, keep in edits:
        at = int(where * (len(pieces) - 1))
        pieces[at] = text + (pieces[at] if keep else b"")
    data = b"".join(pieces)
    document = report(data)
    text = data.replace(b"\0", b"")
    assert document["source"]["lines"] == text.count(b"\n") + (not text.endswith(b"\n"))
    for run in document["runs"]:
        for gpu in run["gpus"]:
            if gpu["time_pct"] is not None:
                assert sum(gpu["time_pct"].values()) == pytest.approx(100, abs=0.1)


def test_blocks_are_what_they_say() -> None:
    assert b"".join(blocks(TWO_WORKERS, 100)) == TWO_WORKERS


# ---------------------------------------------------------------- carriers' clocks and processes

EPOCH_US = 1_773_450_000_000_000  # 2026-03-14T01:00:00Z


def iso(at_us: int) -> str:
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + (
        f".{at_us % 1_000_000:06d}"
    )


def journal_json(at_us: int, text: bytes, pid: int) -> bytes:
    """As `journalctl -o json` prints it: bytes as numbers where there is an escape sequence."""
    message: str | list[int] = list(text) if b"\x1b" in text else text.decode()
    entry = {"__REALTIME_TIMESTAMP": str(at_us), "_PID": str(pid), "MESSAGE": message}
    return json.dumps(entry).encode() + b"\n"


def journal_iso(at_us: int, text: bytes, pid: int) -> bytes:
    return f"{iso(at_us)}+0000 host cuzk[{pid}]: ".encode() + text + b"\n"


def journal_short(at_us: int, text: bytes, pid: int) -> bytes:
    when = datetime.fromtimestamp(at_us // 1_000_000, UTC)
    clock = f"{when:%b %d %H:%M:%S}.{at_us % 1_000_000:06d}"
    return f"{clock} host cuzk[{pid}]: ".encode() + text + b"\n"


def docker_t(at_us: int, text: bytes, _pid: int) -> bytes:
    return f"{iso(at_us)}000Z ".encode() + text + b"\n"


CARRIERS = [journal_json, journal_iso, journal_short, docker_t]
PREP = b"CUZK_TIMING: prep_msm_ms=1871"


def tracing(at_us: int, text: str = "noise") -> bytes:
    return f"\x1b[2m{iso(at_us)}Z\x1b[0m \x1b[32m INFO\x1b[0m cuzk_core::engine: {text}".encode()


@pytest.mark.parametrize("skew_us", [0, 3_600_000_000, -90_000_000], ids=["same", "zone", "behind"])
@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_steady_carrier_dates_the_lines_without_a_time(
    carrier: Callable[[int, bytes, int], bytes], skew_us: int
) -> None:
    delays = (300, 900, 2400, 700, 1100)
    data = b"".join(
        carrier(EPOCH_US + i * 1_000_000 + delay + skew_us, tracing(EPOCH_US + i * 1_000_000), 7)
        for i, delay in enumerate(delays)
    )
    written = EPOCH_US + 7_250_000
    data += carrier(written + 800 + skew_us, PREP, 7)
    events, counts = scan(data)
    assert counts.timing == 1
    tick, line = events[-2:]
    assert isinstance(tick, Tick)
    assert isinstance(line, PrepMsm)
    assert written - 3000 <= tick.wall_us <= written  # a bound that is never too late


@pytest.mark.parametrize(
    "late_us", [[0, 400_000, 10, 900_000, 20], [0, 100, 200]], ids=["unsteady", "too few"]
)
def test_a_carrier_that_is_not_steady_dates_nothing(late_us: list[int]) -> None:
    data = b"".join(
        journal_iso(EPOCH_US + i * 1_000_000 + late, tracing(EPOCH_US + i * 1_000_000), 7)
        for i, late in enumerate(late_us)
    )
    plain = b"".join(tracing(EPOCH_US + i * 1_000_000) + b"\n" for i in range(len(late_us)))
    assert (
        scan(data + journal_iso(EPOCH_US + 9_000_000, PREP, 7))[0] == scan(plain + PREP + b"\n")[0]
    )


@pytest.mark.parametrize("dress", [coloured, bytes], ids=["coloured", "plain"])
def test_the_journal_s_json_reads_like_the_log_itself(dress: type[bytes]) -> None:
    for name in NAMES:
        data = dress(golden(name))
        wrapped = b"".join(journal_json(EPOCH_US, line, 7) for line in data.splitlines())
        events, counts = scan(wrapped)
        assert events == scan(data)[0]
        assert counts.unparsed == 0


def start_line(offset_ms: int) -> bytes:
    return b"TIMELINE,%d,SYNTH_START,job-%d,partition=0" % (offset_ms, offset_ms)


def by_pid(*pids: int) -> bytes:
    """One TIMELINE line of each process in turn."""
    return b"".join(journal_iso(EPOCH_US, start_line(i + 1), pid) for i, pid in enumerate(pids))


def test_two_daemons_in_one_log_are_told_once_and_the_newer_one_counts() -> None:
    events, _ = scan(by_pid(1, 1, 1, *[2, 1] * 20))
    alerts = [event for event in events if isinstance(event, Noticed)]
    assert len(alerts) == 1
    assert alerts[0].level == "error"
    assert "two daemons write into this log, processes 1 and 2" in alerts[0].text
    assert len([event for event in events if isinstance(event, SynthStarted)]) == 3 + 20


@pytest.mark.parametrize(
    "pids", [(1, 1, 2, 2, 3, 3), (1, 1, 2, 1, 2, 2), (5,)], ids=["restarts", "last words", "one"]
)
def test_a_daemon_that_was_started_anew_is_no_second_one(pids: tuple[int, ...]) -> None:
    assert not [event for event in scan(by_pid(*pids))[0] if isinstance(event, Noticed)]


def test_a_daemon_that_is_left_alone_counts_again() -> None:
    events, _ = scan(by_pid(1, 2, *[1] * 3000))
    assert len([event for event in events if isinstance(event, SynthStarted)]) > 1900


def test_other_programs_are_no_second_daemon() -> None:
    lines = by_pid(1, 1) + journal_iso(
        EPOCH_US, b"cuzk.service: Main process exited, code=killed", 9
    )
    events, _ = scan((lines + by_pid(1)) * 5)
    assert [event.text for event in events if isinstance(event, Noticed)] == [
        "cuzk.service: Main process exited, code=killed"
    ] * 5
