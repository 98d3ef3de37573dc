"""TIMELINE lines of every generation, with every id that a client may choose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzktop.events import (
    GpuEnded,
    GpuPickedUp,
    GpuQueued,
    GpuStarted,
    SynthEnded,
    SynthStarted,
)
from cuzktop.parse.timeline import TimelineEvent, parse_timeline

POST = "wdpost-1000-0-[12 255 3 4 5 6 7 8]"
IDS = [
    "porep-1000-42",
    "0f5cb8be-9a1c-4f3e-8e47-3d2a9c1b7e55",
    POST,
    "a,partition=3,b",
    "a,worker=9",
    "p,7,worker=9",
    "a,kind=porep-c2",
    "my job, no. 3",
    "x,synth_ms=4",
    "x,worker=1,partition=2,gpu_ms=3",
    "größer №1",
    ",",
    ",,",
    " ",
    "",
    "x" * 400,
]


def variants(job: str) -> list[tuple[str, TimelineEvent]]:
    """Every form that a line can have: what follows `TIMELINE,5,`, and what it says."""
    return [
        (f"SYNTH_START,{job},kind=porep-c2", SynthStarted(5, job, None, "porep")),
        (f"SYNTH_START,{job},kind=snap-update", SynthStarted(5, job, None, "snap")),
        (f"SYNTH_START,{job},kind=window-post", SynthStarted(5, job, None, "window-post")),
        (f"SYNTH_START,{job},kind=winning-post", SynthStarted(5, job, None, "winning-post")),
        (f"SYNTH_START,{job},partition=7", SynthStarted(5, job, 7, None)),
        (f"SYNTH_START,{job},snap_partition=15", SynthStarted(5, job, 15, "snap")),
        (f"SYNTH_END,{job},synth_ms=26397", SynthEnded(5, job, None, 26397)),
        (f"SYNTH_END,{job},partition=0,synth_ms=31", SynthEnded(5, job, 0, 31)),
        (f"SYNTH_END,{job},snap_partition=4,synth_ms=31", SynthEnded(5, job, 4, 31)),
        (f"CHAN_SEND,{job},", GpuQueued(5, job, None)),
        (f"CHAN_SEND,{job},partition=3", GpuQueued(5, job, 3)),
        (f"CHAN_SEND,{job},snap_partition=3", GpuQueued(5, job, 3)),
        (f"GPU_QUEUE,{job},partition=3", GpuQueued(5, job, 3)),
        (f"GPU_QUEUE,{job},monolithic", GpuQueued(5, job, None)),
        (f"GPU_PICKUP,{job},worker=1", GpuPickedUp(5, job, None, 1)),
        (f"GPU_PICKUP,{job},worker=1,partition=9", GpuPickedUp(5, job, 9, 1)),
        (f"GPU_START,{job},worker=12", GpuStarted(5, job, None, 12)),
        (f"GPU_START,{job},worker=12,partition=9", GpuStarted(5, job, 9, 12)),
        (f"GPU_END,{job},worker=1,gpu_ms=2560", GpuEnded(5, job, None, 1, 2560)),
        (f"GPU_END,{job},worker=1,partition=0,gpu_ms=22638", GpuEnded(5, job, 0, 1, 22638)),
    ]


@pytest.mark.parametrize("job", IDS, ids=[f"id{n}" for n in range(len(IDS))])
def test_a_line_becomes_an_event_whatever_its_id(job: str) -> None:
    for text, event in variants(job):
        assert parse_timeline(f"TIMELINE,5,{text}".encode()) == event


@given(job=st.text(max_size=40).filter(lambda text: "\n" not in text), form=st.integers(0, 19))
def test_any_text_may_be_an_id(job: str, form: int) -> None:
    text, event = variants(job)[form]
    read = parse_timeline(f"TIMELINE,5,{text}".encode())
    assert read == event or ends_like_a_detail(job)


def ends_like_a_detail(job: str) -> bool:
    """Such an id can't be told from an id without its end and a longer detail."""
    return "partition=" in job or "worker=" in job


@pytest.mark.parametrize(
    ("line", "event"),
    [
        # The longest detail that fits is split off; what is left is the id.
        ("SYNTH_END,a,partition=1,synth_ms=5", SynthEnded(5, "a", 1, 5)),
        ("SYNTH_END,a,partition=1,partition=2,synth_ms=5", SynthEnded(5, "a,partition=1", 2, 5)),
        ("GPU_PICKUP,a,worker=1,worker=2", GpuPickedUp(5, "a,worker=1", None, 2)),
        ("CHAN_SEND,a,partition=3,", GpuQueued(5, "a,partition=3", None)),
        ("GPU_QUEUE,monolithic,monolithic", GpuQueued(5, "monolithic", None)),
    ],
)
def test_the_longest_detail_is_split_off(line: str, event: TimelineEvent) -> None:
    assert parse_timeline(f"TIMELINE,5,{line}".encode()) == event


@pytest.mark.parametrize(
    "line",
    [
        "TIMELINE,",
        "TIMELINE,5",
        "TIMELINE,5,",
        "TIMELINE,5,GPU_START",
        "TIMELINE,5,GPU_START,",
        "TIMELINE,5,GPU_START,job",
        "TIMELINE,5,GPU_START,job,",
        "TIMELINE,5,GPU_START,job,worker=",
        "TIMELINE,5,GPU_START,job,worker=0,partition=",
        "TIMELINE,5,GPU_START,job,worker=x,partition=1",
        "TIMELINE,5,GPU_START,job,partition=1",
        "TIMELINE,5,GPU_END,job,worker=0,partition=1",
        "TIMELINE,5,GPU_END,job,worker=0,partition=1,gpu_ms=",
        "TIMELINE,5,SYNTH_END,job,partition=1",
        "TIMELINE,5,GPU_STOP,job,worker=0",
        "TIMELINE,five,GPU_START,job,worker=0",
        "TIMELINE,,GPU_START,job,worker=0",
        "TIMELINE," + "9" * 5000 + ",GPU_START,job,worker=0",
        "TIMELINE," + "9" * 200 + ",GPU_START,job,worker=0",
        "TIMELINE,5,GPU_START,job,worker=" + "9" * 5000,
        "TIMELINE,5,GPU_END,job,worker=0,gpu_ms=" + "9" * 400,
        "TIMELINE,-5,GPU_START,job,worker=0,partition=1",
        "TIMELINE,5,GPU_START,job,worker=-1,partition=1",
        "TIMELINE,5,GPU_PICKUP,job,worker=0,partition=-1",
        "TIMELINE,5,GPU_END,job,worker=0,partition=1,gpu_ms=-4",
        "TIMELINE,5,SYNTH_START,job,snap_partition=-1",
        "TIMELINE,5,SYNTH_END,job,partition=1,synth_ms=-4",
        "TIMELINE,5,GPU_QUEUE,job,partition=-1",
        "TIMELINE,+5,GPU_START,job,worker=0,partition=1",
        "TIMELINE,5,GPU_START,job,worker=0,partition= 1",
        "TIMELINE,5,GPU_END,job,worker=0,partition=1,gpu_ms=1_000",
    ],
)
def test_what_is_no_whole_line_is_no_event(line: str) -> None:
    assert parse_timeline(line.encode()) is None


def test_an_id_that_is_not_utf8_is_shown_as_well_as_can_be() -> None:
    event = parse_timeline(b"TIMELINE,5,GPU_START,caf\xe9-\xff,worker=0,partition=1")
    assert event == GpuStarted(5, "caf\N{REPLACEMENT CHARACTER}-\N{REPLACEMENT CHARACTER}", 1, 0)
