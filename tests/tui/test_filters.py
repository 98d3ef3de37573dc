"""What a typed filter lets through, and what it says when it is wrong."""

from __future__ import annotations

import pytest

from cuzktop.frame import PartitionRow
from cuzktop.tui.filters import parse_filter

ROWS = (
    PartitionRow(job="porep-1000-1", attempt=1, partition=0, kind="porep", state="done", worker=0),
    PartitionRow(
        job="porep-1000-2",
        attempt=2,
        partition=11,
        kind="porep",
        state="failed",
        worker=1,
        gpu=0,
        attribution="inferred",
    ),
    PartitionRow(job="SNAP-abc", attempt=1, partition=1, kind="snap", state="synthesizing"),
    PartitionRow(
        job="wd [1 2]", attempt=1, partition=None, kind="window-post", state="lost", gpu=1
    ),
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", [0, 1, 2, 3]),
        ("kind:porep", [0, 1]),
        ("kind:snap", [2]),
        ("kind:window", [3]),
        ("state:failed", [1]),
        ("state:failed,lost", [1, 3]),
        ("state:fail", [1]),
        ("job:ABC", [2]),
        ("porep 1000", [0, 1]),
        ("porep worker:1", [1]),
        ("gpu:0", [1]),
        ("gpu:-", [0, 2]),
        ("attr:inferred", [1]),
        ("attempt:2", [1]),
        ("part:11", [1]),
        ("part:1", [2]),
        ("part:-", [3]),
        ("kind:", [0, 1, 2, 3]),
        ("kind:snap state:done", []),
        ("KIND:Snap", [2]),
    ],
)
def test_a_filter_shows_what_fits(text: str, shown: list[int]) -> None:
    wanted, problem = parse_filter(text)
    assert [at for at, row in enumerate(ROWS) if wanted.fits(row)] == shown
    assert problem == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [("colour:red", "no colour: in the filter"), ("worker:one", "worker: wants a number, not one")],
)
def test_a_filter_that_is_wrong_says_so(text: str, words: str) -> None:
    assert words in parse_filter(text)[1]
