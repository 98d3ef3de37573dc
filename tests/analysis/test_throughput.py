"""Percentiles of stages."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzktop.analysis.throughput import STAGES, FewStages, StageTable, median, percentile, stats
from cuzktop.dataclass import replace
from cuzktop.frame import PartitionRow

figures = st.lists(st.integers(0, 100_000), min_size=1, max_size=60)


@given(figures, st.sampled_from([1, 25, 50, 90, 95, 99, 100]))
def test_a_percentile_is_the_least_figure_that_enough_others_do_not_exceed(
    some: list[int], rank: int
) -> None:
    ordered = sorted(some)
    found = percentile(ordered, rank)
    enough = [f for f in ordered if 100 * sum(g <= f for g in ordered) >= rank * len(ordered)]
    assert found == min(enough)


@given(figures)
def test_stats_are_of_figures_that_occurred(some: list[int]) -> None:
    one = stats(some)
    assert one.count == len(some)
    assert {one.p50, one.p95, one.max} <= set(some)
    assert min(some) <= one.p50 <= one.p95 <= one.max == max(some)
    assert one.p50 == median(some)
    assert sorted(some)[math.ceil(len(some) / 2) - 1] == one.p50


@pytest.mark.parametrize(
    ("some", "p50", "p95"),
    [([7], 7, 7), ([1, 2], 1, 2), ([1, 2, 3], 2, 3), (list(range(1, 101)), 50, 95)],
)
def test_by_nearest_rank(some: list[int], p50: int, p95: int) -> None:
    one = stats(some)
    assert (one.p50, one.p95) == (p50, p95)


def test_nothing_has_no_median() -> None:
    assert median([]) is None


ROW = PartitionRow(
    job="j",
    attempt=1,
    partition=0,
    kind="porep",
    state="done",
    gpu=0,
    synth_ms=33_000,
    queue_ms=10,
    kernel_ms=1400,
    bracket_ms=3600,
)


def test_a_gpu_s_first_call_is_cold_and_left_out() -> None:
    table = StageTable()
    table.add(replace(ROW, kernel_ms=20_000))  # the first of GPU 0
    table.add(replace(ROW, kernel_ms=1400))
    table.add(replace(ROW, gpu=1, kernel_ms=20_000))  # the first of GPU 1
    table.add(replace(ROW, gpu=1, kernel_ms=1500))
    shown = table.stats()
    assert (shown["kernel_ms"].count, shown["kernel_ms"].max) == (2, 1500)
    # What came before the GPU is as warm as any.
    assert (shown["synth_ms"].count, shown["queue_ms"].count) == (4, 4)


known = st.one_of(st.none(), st.integers(0, 40))
rows = st.builds(
    PartitionRow,
    job=st.just("j"),
    attempt=st.just(1),
    partition=st.just(0),
    kind=st.sampled_from(["porep", "snap"]),
    state=st.sampled_from(["done", "done", "failed"]),
    gpu=st.sampled_from([None, 0, 1]),
    synth_start_ms=known,
    bracket_start_ms=known,
    synth_ms=known,
    prep_msm_ms=known,
    kernel_ms=known,
)


@given(st.lists(rows, max_size=30))
def test_few_partitions_are_told_as_all_of_a_log(some: list[PartitionRow]) -> None:
    table, few = StageTable(), FewStages(some)
    for row in some:
        if row.state == "done":
            table.add(row)
    stages, means = few.figures()
    assert {name: (one.count, one.p50, one.p95, one.max) for name, one in stages.items()} == {
        name: (one.count, one.p50, one.p95, one.max) for name, one in table.stats().items()
    }
    assert means == table.means()
    for stage in ("synth_ms", "prep_msm_ms"):
        assert few.times(stage) == table.cpu.times(stage)


def test_a_stage_without_figures_is_not_there() -> None:
    table = StageTable()
    for _ in range(3):
        table.add(ROW)
    assert set(table.stats()) == {"synth_ms", "queue_ms", "kernel_ms", "bracket_ms"}
    assert set(table.stats()) < set(STAGES)
    assert StageTable().stats() == {}


@given(figures)
def test_figures_that_are_counted_tell_the_same_as_figures_that_are_kept(some: list[int]) -> None:
    table = StageTable()
    for figure in some:
        table.add(replace(ROW, synth_ms=figure))
    one, other = table.stats()["synth_ms"], stats(some)
    assert (one.count, one.p50, one.p95, one.max) == (
        other.count,
        other.p50,
        other.p95,
        other.max,
    )
    assert table.means()["synth_ms"] == sum(some) / len(some)
