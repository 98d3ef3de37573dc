"""CPU stages against their own quiet time, by the number of syntheses in flight."""

from __future__ import annotations

import sys

import pytest

from cuzktop.analysis.inflation import FEW, KEEP, CpuTable, Flights, inflation, pairs, pressure
from cuzktop.frame import Host, Inflation, PartitionRow

Times = tuple[list[float], list[float]]


def ramp(most: int, every_ms: int = 1000, rounds: int = 3) -> Times:
    """Syntheses in flight that rise one by one to `most` and fall to none, again and again."""
    starts, ends = [], []
    for turn in range(rounds):
        at = turn * 2 * most * every_ms
        starts += [float(at + n * every_ms) for n in range(most)]
        ends += [float(at + (most + n) * every_ms) for n in range(most)]
    return starts, ends


def rows(
    times: Times, *, prep: float = 0, b_g2: float = 0, kind: str = "porep", count: int = 120
) -> CpuTable:
    """Partitions spread over the time; a stage takes so much more, in ms, for each synthesis."""
    table = CpuTable()
    flights = Flights(*times)
    last = max(times[1])
    for number in range(count):
        at = int(last * number / count)
        flying = flights.at(at)
        table.add(
            PartitionRow(
                job="a",
                attempt=1,
                partition=number,
                kind=kind,
                state="done",
                bracket_start_ms=at,
                prep_msm_ms=int(1000 + prep * flying + number % 7),
                b_g2_msm_ms=int(400 + b_g2 * flying + number % 5),
            ),
            cold=False,
        )
    return table


def found(prep: float, b_g2: float) -> Inflation:
    times = ramp(20)
    return inflation(rows(times, prep=prep, b_g2=b_g2), *times)


@pytest.mark.parametrize(
    ("prep", "b_g2", "word"),
    [(0, 0, "none"), (100, 0, "one"), (0, 40, "one"), (100, 40, "contention")],
)
def test_several_that_stretch_together_are_contention(prep: float, b_g2: float, word: str) -> None:
    judged = found(prep, b_g2)
    assert judged.found == word
    stretched = {"prep_msm_ms": prep > 0, "b_g2_msm_ms": b_g2 > 0}
    assert {one.stage: one.follows for one in judged.stages} == stretched


def test_the_factor_is_of_its_own_quiet_time() -> None:
    (prep, _) = found(100, 40).stages
    assert prep.quiet_ms == pytest.approx(1300, abs=200)
    assert prep.busy_ms == pytest.approx(2800, abs=200)
    assert prep.factor == pytest.approx(prep.busy_ms / prep.quiet_ms)
    assert prep.quiet[1] < prep.busy[0]
    factors = [factor for _, _, _, factor in prep.bands]
    assert factors == sorted(factors)
    assert factors[0] == 1
    assert sum(count for _, _, count, _ in prep.bands) == prep.count == 120


def test_a_number_that_hardly_changes_tells_nothing() -> None:
    """Ten all the time, and nine for a moment: no stretch is seen because none could be."""
    starts = [0.0] * 10 + [1000.0 * n for n in range(1, 100)]
    ends = [1000.0 * n - (1 if n % 5 == 0 else 0) for n in range(1, 100)]
    judged = inflation(rows((starts, ends), prep=100, b_g2=40), starts, ends)
    assert judged.found == "unknown"
    assert "can't be told" in judged.sentence


def test_nothing_is_known_of_nothing() -> None:
    assert inflation(CpuTable(), [], []).found == "unknown"


def test_kinds_are_not_mixed() -> None:
    """A few snap partitions, slow and late, don't make the many porep ones look stretched."""
    times = ramp(20)
    table = rows(times)
    flights = Flights(*times)
    busy = next(at for at in range(0, 100_000, 500) if flights.at(at) == 20)
    for number in range(60):
        slow = PartitionRow(
            job="s",
            attempt=1,
            partition=number,
            kind="snap",
            state="done",
            bracket_start_ms=busy,
            prep_msm_ms=9000,
            b_g2_msm_ms=5000,
        )
        table.add(slow, cold=False)
    assert inflation(table, *times).found == "none"


def test_a_cold_call_is_no_base() -> None:
    table = CpuTable()
    row = PartitionRow(
        job="a",
        attempt=1,
        partition=0,
        kind="porep",
        state="done",
        synth_start_ms=0,
        synth_ms=10,
        bracket_start_ms=20,
        prep_msm_ms=9000,
    )
    table.add(row, cold=True)
    assert pairs(table, "prep_msm_ms", Flights([0.0], [10.0])) == []
    assert pairs(table, "synth_ms", Flights([0.0], [10.0])) == [(1, 10.0)]


def test_memory_is_bounded() -> None:
    times = ramp(20)
    table = rows(times, prep=100, b_g2=40, count=5 * KEEP)
    kept = pairs(table, "prep_msm_ms", Flights(*times))
    assert KEEP / 2 <= len(kept) < 2 * KEEP
    columns = next(iter(table._kinds.values()))
    held = sum(sys.getsizeof(getattr(columns, name)) for name in ("made", "prep", "b_g2"))
    assert held < 3 * 8 * 2 * KEEP * 1.2
    assert inflation(table, *times).found == "contention"


@pytest.mark.parametrize("kept", [1, 7, 20, 33])
def test_the_latest_starts_and_ends_count_as_all_do(kept: int) -> None:
    starts = [100.0 * n for n in range(60)]
    ends = [100.0 * n + 950 for n in range(50)]  # ten are in flight at the end
    every, late = Flights(starts, ends), Flights(starts[-kept:], ends[-kept:], 10)
    for at in (max(starts[-kept], ends[-kept]), 5900.0, 7000.0):
        assert late.at(at) == every.at(at)


def test_many_times_are_summed_up_as_few_are() -> None:
    starts = [float(n) for n in range(FEW + 100)]
    ends = [n + 950.0 for n in starts[:FEW]]
    many, few = Flights(starts, ends), Flights(starts[-2000:], ends[-1900:], 100)
    for lo, hi in ((FEW - 800.0, FEW + 200.0), (FEW + 0.0, FEW + 1.0), (FEW - 900.0, FEW + 99.5)):
        assert few.mean(lo, hi) == pytest.approx(many.mean(lo, hi))


def test_flights_at_and_over_a_time() -> None:
    flights = Flights([0.0, 0.0, 10.0], [10.0, 20.0, 30.0])
    assert [flights.at(at) for at in (-1, 0, 9, 10, 20, 29, 30)] == [0, 2, 2, 2, 1, 1, 0]
    assert flights.mean(0, 20) == pytest.approx(2)
    assert flights.mean(10, 30) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("cpu", "words"), [(45.0, "cores are short"), (2.0, "memory bandwidth"), (None, "")]
)
def test_pressure_says_whether_cores_are_short(cpu: float | None, words: str) -> None:
    text = pressure(Host(psi_cpu_pct=cpu, psi_memory_pct=1.0))
    assert words in text
    assert bool(text) == bool(words)
    assert pressure(None) == ""


def test_the_bus_and_shootdowns_are_told_where_they_were_read() -> None:
    busy = Host(psi_cpu_pct=5.0, memory_bandwidth_bytes_per_s=287.4e9, tlb_shootdowns_per_s=2.5e6)
    said = pressure(busy)
    assert "memory carries 287 GB/s" in said
    assert "2500000 TLB shootdowns a second interrupt every core" in said
    calm = pressure(Host(psi_cpu_pct=5.0, tlb_shootdowns_per_s=20_000.0))
    assert "TLB" not in calm


def test_what_is_usually_in_flight_is_a_median_over_time() -> None:
    """Eight for nine seconds, then they end one after another within one: eight are usual."""
    flights = Flights([0.0] * 8, [9000.0 + 125 * n for n in range(1, 9)])
    assert flights.usual() == 8
    # Two go on for half a minute.
    longer = Flights([0.0] * 10, [9000.0 + 125 * n for n in range(1, 9)] + [40_000.0] * 2)
    assert longer.usual() == 2
    assert Flights([], []).usual() is None
    assert Flights([5000.0], [9000.0, 10_000.0], flying=1).usual() == 3
