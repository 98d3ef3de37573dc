"""The daemon's lines: which are shown, in which colours, and that nothing else gets through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzktop.logbook import LogBook
from cuzktop.tui.details import wrapped
from cuzktop.tui.sgr import LOG_STYLES, coloured, plain, severity, styled
from cuzktop.tui.views.log import Index, Wanted, from_cell, line_ms, marked, read_lines
from cuzktop.tui.widgets.cells import STYLES, clean, clip, line_width
from tests.tui.frames import book

CLOCK_MS = 29_551_442.0  # 08:12:31.442, the run's zero


@pytest.mark.parametrize(
    ("raw", "ms"),
    [
        (b"TIMELINE,330687,GPU_PICKUP,porep-1,worker=0,partition=3", 330_687.0),
        (b"Feb 19 08:20:00 box cuzk[1]: TIMELINE,7,SYNTH_START,j,partition=1", 7.0),
        (b"\x1b[2m2026-02-19T08:12:32.442118Z\x1b[0m \x1b[32m INFO\x1b[0m x", 1000.118),
        (b"2026-02-19T08:12:31Z INFO x", -442.0),
        (b"2026-02-20T00:00:01Z INFO after midnight", 56_849_558.0),
        (b"CUZK_TIMING: gpu_tid=0 ntt_msm_h_ms=690", None),
        (b"TIMELINE,x", None),
    ],
)
def test_a_line_has_its_time_on_the_runs_clock(raw: bytes, ms: float | None) -> None:
    found = line_ms(raw, CLOCK_MS, 56_000_000.0 if ms and ms > 1e7 else 400_000.0)
    assert found == (ms if ms is None else pytest.approx(ms))
    if b"TIMELINE" not in raw:
        assert line_ms(raw, None, 0.0) is None


JOURNAL = b"Feb 19 08:12:31 box cuzk[4711]: "


@pytest.mark.parametrize(
    ("raw", "spans"),
    [
        pytest.param(b"plain", (("plain", "text"),), id="plain"),
        pytest.param(b"", (), id="empty"),
        pytest.param(
            b"\x1b[32m INFO\x1b[0m x", ((" INFO", "log-green"), (" x", "text")), id="info"
        ),
        pytest.param(b"\x1b[2mtime\x1b[0m", (("time", "log-dim"),), id="dim"),
        pytest.param(
            b"\x1b[1mbold\x1b[22mnot", (("bold", "text+bold"), ("not", "text")), id="bold"
        ),
        pytest.param(
            b"\x1b[3;4;91mall\x1b[m", (("all", "log-red+italic+underline"),), id="several"
        ),
        pytest.param(b"\x1b[38;5;2mgreen", (("green", "log-green"),), id="256"),
        pytest.param(b"\x1b[38;5;208morange", (("orange", "log-red"),), id="cube"),
        pytest.param(b"\x1b[38;5;244mgrey", (("grey", "text"),), id="grey"),
        pytest.param(b"\x1b[38;2;10;20;250mblue", (("blue", "log-blue"),), id="rgb"),
        pytest.param(b"\x1b[38:2::10:20:250mblue", (("blue", "log-blue"),), id="rgb-colons"),
        pytest.param(b"\x1b[48;5;9;33mon", (("on", "log-yellow"),), id="no-ground"),
        pytest.param(b"\x1b[31mred\x1b[39mnot", (("red", "log-red"), ("not", "text")), id="39"),
        pytest.param(b"a\x1b[2J\x1b[10;10Hb", (("a", "text"), ("b", "text")), id="csi"),
        pytest.param(b"a\x1b]0;title\x07b\x1b]8;;x\x1b\\c", None, id="osc"),
        pytest.param(b"\x1b[38;5mhalf", (("half", "log-black"),), id="half"),
        pytest.param(b"cut \x1b[3", (("cut ", "text"),), id="cut"),
        pytest.param(b"tab\there\xff", (("tab here\ufffd", "text"),), id="tab"),
    ],
)
def test_colours_become_styles(raw: bytes, spans: tuple[tuple[str, str], ...] | None) -> None:
    if spans is not None:
        assert styled(raw) == spans
    shown = "".join(text for text, _style in styled(raw))
    assert shown.replace("\n", "") == plain(raw)
    assert "title" not in shown


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=8),
            st.sampled_from(
                [b"\x1b[", b"\x1b[31m", b"\x1b]0;", b"\x07", b"\x9b", b"\x1bP", b"\x1b", b"m"]
            ),
        ),
        max_size=12,
    ).map(b"".join)
)
def test_nothing_but_text_gets_through(raw: bytes) -> None:
    for text, style in coloured(raw):
        assert clean(text) == text
        assert style.split("+")[0] in (*STYLES, *LOG_STYLES)
    assert clean(plain(raw)) == plain(raw)
    line = styled(raw)
    for width in (5, 11, 40):
        assert all(line_width(part) == width for part in wrapped(line, width))
        assert line_width(clip(from_cell(line, 3), width)) == width


@pytest.mark.parametrize(
    ("raw", "level"),
    [
        (b"\x1b[2m2026-02-19T08:12:31.4Z\x1b[0m \x1b[31mERROR\x1b[0m cuzk: x", 4),
        (b"2026-02-19T08:12:31.4Z  WARN cuzk: x", 3),
        (JOURNAL + b"2026-02-19T08:12:31.4Z  INFO cuzk: ERROR is a word here", 2),
        (b"\x1b[34mDEBUG\x1b[0m x", 1),
        (b"TIMELINE,2296,SYNTH_START,j,partition=3", 0),
        (JOURNAL + b"CUZK_TIMING: prep_msm_ms=1", 0),
        (b"CUZK_NTT_H: d_b_alloc=1ms", 0),
        (b"thread 'main' panicked at src/main.rs:1", 4),
        (b"terminate called after throwing", 4),
        (b"something else", 2),
    ],
)
def test_lines_have_levels(raw: bytes, level: int) -> None:
    assert severity(raw) == level


@pytest.mark.parametrize(
    ("raw", "style"),
    [
        (b"TIMELINE,1,GPU_END,j,worker=0", "log-dim"),
        (b"2026 ERROR x", "log-red"),
        (b"2026 WARN x", "log-yellow"),
        (b"2026 INFO x", "text"),
    ],
)
def test_lines_without_colours_get_those_of_their_level(raw: bytes, style: str) -> None:
    assert [one for _text, one in coloured(raw)] == [style]


def lines(kept: LogBook, wanted: Wanted, index: Index | None = None) -> list[str]:
    index = Index() if index is None else index
    numbers = index.numbers(kept, kept.span[1], wanted)
    return [plain(raw) for _number, raw in read_lines(kept, numbers)]


def test_levels_noise_and_jobs_choose_lines() -> None:
    kept = book()
    every = lines(kept, Wanted())
    quiet = lines(kept, Wanted(no_timing=True))
    assert len(every) == kept.span[1]
    assert any(line.startswith("TIMELINE") for line in every)
    assert not any(line.startswith(("TIMELINE", "CUZK")) for line in quiet)
    assert any("DEBUG" in line for line in quiet)
    info = lines(kept, Wanted(least=2))
    assert not any("DEBUG" in line or "TIMELINE" in line for line in info)
    assert {line.split()[1] for line in lines(kept, Wanted(least=3)) if line[0] == "2"} == {
        *("WARN", "ERROR")
    }
    assert all("ERROR" in line or "panicked" in line for line in lines(kept, Wanted(least=4)))
    mine = lines(kept, Wanted(job="porep-1000-40018"))
    assert mine
    assert all("porep-1000-40018" in line for line in mine)


def test_each_line_is_looked_at_once_and_forgotten_with_the_book() -> None:
    kept = LogBook()
    index = Index()
    wanted = Wanted(least=4)
    kept.extend([b"2026 ERROR one", b"2026 INFO two"])
    assert lines(kept, wanted, index) == ["2026 ERROR one"]
    kept.extend([b"2026 ERROR three"])
    assert lines(kept, wanted, index) == ["2026 ERROR one", "2026 ERROR three"]
    kept.clear()
    kept.extend([b"2026 ERROR four"])
    assert lines(kept, wanted, index) == ["2026 ERROR four"]
    assert lines(kept, Wanted(least=2), index) == ["2026 ERROR four"]


def test_lines_that_are_no_longer_kept_are_left_out() -> None:
    kept = LogBook()
    kept.extend([b"x"] * 7000)
    first, end = kept.span
    assert read_lines(kept, range(first - 10, first + 2)) == [(first, b"x"), (first + 1, b"x")]
    assert read_lines(kept, [first - 10, end - 1]) == [(end - 1, b"x")]


def test_what_was_found_is_marked_across_colours() -> None:
    line = styled(b"job\x1b[2m=\x1b[0mporep-1 and JOB=2")
    spans = marked(line, "job=")
    assert "".join(text for text, _style in spans) == "job=porep-1 and JOB=2"
    assert [text for text, style in spans if style == "find"] == ["job", "=", "JOB="]
    assert marked(line, "nothing") == list(line)


def test_a_long_line_moves_sideways() -> None:
    assert from_cell((("abc", "text"), ("def", "muted")), 4) == [("ef", "muted")]
    assert from_cell((("日本", "text"),), 1) == [(" 本", "text")]
