"""Logs side by side: made by hand, partition by partition, with a known difference."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from cuzktop.analysis import figures as figures_module
from cuzktop.analysis.compare import Comparison, compare, label
from cuzktop.analysis.figures import Collector, LogFigures
from cuzktop.analysis.findings import sentences
from cuzktop.dataclass import replace
from cuzktop.frame import GpuReport, PartitionRow, Proofs, RunReport, Shares, Verdict

SHARES = {
    "kernel": 40.0,
    "barrier": 44.0,
    "lock_overhead": 1.0,
    "handoff": 1.0,
    "starved": 14.0,
    "no_work": 0.0,
}
BALANCED = {**SHARES, "kernel": 74.0, "barrier": 10.0}


def row(job: str, partition: int | None, at_ms: int, **figures: object) -> PartitionRow:
    """A finished partition whose bracket ends at `at_ms`."""
    base = PartitionRow(
        job=job,
        attempt=1,
        partition=partition,
        kind="porep",
        state="done",
        worker=0,
        gpu=0,
        synth_start_ms=max(0, at_ms - 40_000),
        bracket_start_ms=at_ms - 3000,
        bracket_end_ms=at_ms,
        synth_ms=30_000,
    )
    return replace(base, **figures)  # type: ignore[arg-type]


def report(
    *,
    seconds: float | None,
    completed: int,
    span_ms: float,
    shares: Mapping[str, float] | None = None,
    settings: Mapping[str, str] | None = None,
    gpus: int = 1,
    failed: int = 0,
    bottleneck: str = "cpu-memory",
) -> RunReport:
    time_pct = dict(shares or SHARES)
    return RunReport(
        run=0,
        started="2026-03-14T01:00:00Z",
        dialect="S44-S45",
        span_ms=span_ms,
        proofs=Proofs(completed=completed, failed=failed, seconds_per_proof=seconds),
        gpus=tuple(
            GpuReport(
                gpu=number,
                workers=(number,),
                shares=Shares(
                    span_ms=span_ms,
                    bracket_union_pct=86.0,
                    bracket_sum_pct=150.0,
                    lock_held_pct=85.0,
                    gpu_section_pct=84.0,
                    kernel_pct=time_pct["kernel"],
                    time_pct=time_pct,
                ),
                gap_count=1,
                gap_mean_ms=1.0,
            )
            for number in range(gpus)
        ),
        stages={},
        verdict=Verdict(bottleneck=bottleneck, confidence=0.8, sentence=""),
        settings=dict(settings or {}),
    )


def made(
    name: str,
    *,
    pace_s: float = 40.0,
    proofs: int = 14,
    seed: int = 1,
    kind: str = "porep",
    barrier_ms: float = 1700.0,
    told_s: float | None = None,
    **of_report: object,
) -> LogFigures:
    """A log of proofs of ten partitions, one finished every tenth of `pace_s`."""
    rng = random.Random(seed)
    collector = Collector()
    at_ms = 45_000.0
    for proof in range(proofs):
        slow = rng.lognormvariate(0, 0.08)
        for partition in range(10):
            at_ms += 100.0 * pace_s * rng.lognormvariate(0, 0.1)
            collector.add(
                row(
                    f"{name}-{proof}",
                    partition,
                    round(at_ms),
                    kind=kind,
                    synth_ms=round(30_000 * slow * rng.lognormvariate(0, 0.05)),
                    barrier_wait_ms=round(barrier_ms * slow * rng.lognormvariate(0, 0.2)),
                    ntt_msm_h_ms=round(700 * rng.lognormvariate(0, 0.03)),
                )
            )
    made_report = report(
        seconds=pace_s * 1.05 if told_s is None else told_s,
        completed=proofs,
        span_ms=at_ms - 45_000.0,
        **of_report,  # type: ignore[arg-type]
    )
    return collector.figures(name, 1, made_report)


def said(*logs: LogFigures) -> str:
    return " ".join(sentences(compare(logs)))


def only_step(comparison: Comparison) -> dict[str, bool | None]:
    (step,) = comparison.steps
    return {name: change.p50_real for name, change in step.stages.items()}


# ---------------------------------------------------------------- what is taken from a log


def test_the_first_proof_and_every_gpus_first_call_are_left_out() -> None:
    collector = Collector()
    for proof in range(3):
        for partition in range(2):
            at_ms = 50_000 + 10_000 * (2 * proof + partition)
            collector.add(
                row(
                    f"j{proof}",
                    partition,
                    at_ms,
                    gpu=0 if proof < 2 else 1,
                    ntt_msm_h_ms=9000 if (proof, partition) in {(0, 0), (2, 0)} else 700,
                    synth_ms=77_000 if proof == 0 else 30_000,
                )
            )
    log = collector.figures("log", 1, report(seconds=20.0, completed=3, span_ms=60_000))
    stages = compare([log, log]).stages[0]
    assert stages["ntt_msm_h_ms"].max == 700, "the second card's cold call counts"
    assert stages["ntt_msm_h_ms"].count == 3
    assert stages["synth_ms"].max == 30_000
    assert stages["synth_ms"].count == 4, "a cold call's synthesis is as warm as any"


def test_of_a_long_run_the_same_whole_proofs_are_kept_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(figures_module, "KEEP_PROOFS", 20)
    logs = [made("long", proofs=200), made("long", proofs=200)]
    assert len(logs[0].proofs) in {19, 20}  # the first proof may be one of those drawn
    assert all(len(proof.rows) == 10 for proof in logs[0].proofs)
    assert [proof.rows for proof in logs[0].proofs] == [proof.rows for proof in logs[1].proofs]
    assert logs[0].proofs_seen == 200


def test_failed_partitions_count_for_nothing() -> None:
    collector = Collector()
    collector.add(row("j", 0, 50_000, state="failed"))
    assert collector.partitions == 0
    assert collector.figures("log", 1, None).proofs == ()


def test_proofs_and_syntheses_at_a_time_are_what_overlaps() -> None:
    collector = Collector()
    for job, start, end in (("a", 0, 50), ("b", 10, 60), ("c", 50, 90)):
        times = {"synth_start_ms": start, "bracket_start_ms": end - 5, "bracket_end_ms": end}
        collector.add(replace(row(job, None, 0), **times, synth_ms=30))  # type: ignore[arg-type]
    log = collector.figures("log", 1, None)
    assert (log.proofs_at_a_time, log.syntheses_at_a_time) == (2, 2)
    assert log.per_proof == 1


# ---------------------------------------------------------------- two logs


def test_the_pace_its_change_and_its_reason_come_first() -> None:
    before = made("before", pace_s=42.9, told_s=42.9)
    after = made(
        "after",
        pace_s=38.2,
        told_s=38.2,
        seed=2,
        barrier_ms=400.0,
        shares=BALANCED,
        bottleneck="synthesis",
    )
    told = sentences(compare([before, after]))
    assert told[0].startswith(
        "B is faster: 38.2 s a proof instead of 42.9 s (11 % less), because the barrier fell from"
        " 44.0 % to 10.0 % of the time, although kernels took"
    )
    assert "The limit was cpu-memory in A and is synthesis in B." in told
    stages = only_step(compare([before, after]))
    assert stages["barrier_wait_ms"]
    assert not stages["ntt_msm_h_ms"]


def test_the_other_way_round_it_is_slower() -> None:
    told = said(made("a", pace_s=38.2, shares=BALANCED), made("b", pace_s=42.9, seed=2))
    assert told.startswith("B is slower: 45.0 s a proof instead of 40.1 s (12 % more), because")


def test_a_log_against_itself_is_nothing_to_report() -> None:
    log = made("log")
    assert sentences(compare([log, log])) == ["Nothing to report: A and B say the same."]


def test_two_runs_of_the_same_thing_are_nothing_to_report() -> None:
    told = sentences(compare([made("a", seed=1), made("b", seed=2)]))
    assert told[0].startswith("Nothing to report: 42.0 s and 42.0 s a proof, within the runs' own")
    assert "would not have shown" in told[0]
    assert "No stage's median moved by more than the runs' own spread." in told


def test_few_proofs_are_said_to_be_few() -> None:
    told = sentences(compare([made("a", proofs=3), made("b", proofs=3, pace_s=20, seed=2)]))
    assert told[0] == (
        "Too few proofs to tell whether the pace differs: B took 21.0 s a proof, A 42.0 s"
        " (50 % less), over 2 proofs of A and 2 proofs of B after warm-up."
    )
    assert "There are too few proofs after warm-up to tell stages apart." in told


def test_large_differences_that_chance_can_make_are_not_called_nothing() -> None:
    def uneven(name: str, seed: int) -> LogFigures:
        rng = random.Random(seed)
        log = made(name, seed=seed)
        blocks = tuple(rng.choice((4000.0, 90_000.0)) for _ in range(12))
        return replace(log, pace_ms=blocks, warm_seconds_per_proof=sum(blocks) / 12_000)

    told = sentences(compare([uneven("a", 3), uneven("b", 8)]))[0]
    assert told.startswith("Too little to tell the pace of A and B apart")


def test_a_short_runs_start_is_told_from_its_pace() -> None:
    told = said(made("a", told_s=60.0), made("b", told_s=42.0, seed=2))
    assert "40." in told.split(";", maxsplit=1)[0], "the pace after warm-up comes first"
    assert "Over the whole runs B took 42.0 s a proof, A 60.0 s (30 % less)" in told
    assert "the rest is the runs' start" in told


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ({"c": "1"}, {"c": "2"}, "One setting differs: c 1 → 2."),
        ({"c": "1", "d": "x"}, {"d": "x"}, "One setting differs: c 1 → not stated."),
        ({"c": "1"}, {}, "B does not hold the daemon's start"),
        ({"c": "1", "d": "x"}, {"c": "2", "d": "y"}, "can't tell which of them did it"),
        ({"listen": "a"}, {"listen": "b"}, "No setting that the logs state differs"),
    ],
)
def test_settings_that_differ_are_named(
    a: dict[str, str], b: dict[str, str], expected: str
) -> None:
    slow, fast = made("a", settings=a), made("b", pace_s=30, seed=2, settings=b)
    assert expected in said(slow, fast)


def test_more_gpus_are_the_reason_if_there_are_more() -> None:
    told = said(made("a"), made("b", pace_s=21, seed=2, gpus=2))
    assert ", because 2 GPUs do the work of 1." in told


def test_kinds_that_differ_make_seconds_a_proof_mislead() -> None:
    told = said(made("a"), made("b", kind="snap", pace_s=20, seed=2))
    assert "The logs prove different kinds (A porep; B snap)" in told
    assert "their stages can't be compared" in told


def test_proofs_of_another_size_make_seconds_a_proof_mislead() -> None:
    small = replace(made("b", seed=2), per_proof=16)
    assert "different number of partitions (10 in A, 16 in B)" in said(made("a"), small)


def test_a_log_without_brackets_says_why_its_pace_is_not_tested() -> None:
    blind = replace(made("b", seed=2), timed=False, pace_ms=(), warm_seconds_per_proof=None)
    assert "B has no TIMELINE lines" in said(made("a"), blind)


def test_a_log_that_finished_nothing_is_said_to() -> None:
    told = sentences(compare([made("a"), LogFigures(name="b")]))
    assert told[0] == "Can't compare the pace: B finished no proof after warm-up."
    assert "B has no finished partition: there is nothing to compare." in told


def test_failures_are_told() -> None:
    assert "In B not every proof went well: 2 failed." in said(made("a"), made("b", failed=2))


# ---------------------------------------------------------------- a sweep


def sweep(*paces: float, settings: tuple[str, ...] = ()) -> Comparison:
    return compare(
        [
            made(
                f"log{n}",
                pace_s=pace,
                seed=n,
                settings={"synth_worker_count": settings[n]} if settings else None,
            )
            for n, pace in enumerate(paces)
        ]
    )


def test_the_knee_is_where_more_stops_helping() -> None:
    comparison = sweep(60, 45, 36, 36, 36)
    assert comparison.knee == 2
    told = sentences(comparison)
    assert told[0] == "The knee is at C: nothing after it is really faster."
    assert told[1].startswith("Seconds a proof after warm-up: A 6")
    assert [line[:11] for line in told[2:]] == ["B is faster", "C is faster"]


def test_past_the_knee_it_may_get_slower() -> None:
    told = sentences(sweep(60, 36, 36, 50))
    assert told[0] == "The knee is at B: nothing after it is really faster. D is really slower."


def test_a_pace_that_still_falls_has_no_knee_yet() -> None:
    assert sentences(sweep(60, 50, 40))[0].startswith("No knee yet: C, the last, is really")


def test_a_sweep_that_changes_nothing_says_so() -> None:
    assert sentences(sweep(40, 40, 40))[0] == "None is really faster than A, the first."


def test_too_short_runs_have_no_knee() -> None:
    short = compare([made(f"log{n}", proofs=2, seed=n, pace_s=40 - 9 * n) for n in range(3)])
    assert short.knee is None
    assert sentences(short)[0] == "Too few proofs to tell where it stops getting faster."


def test_the_setting_that_differs_orders_a_sweep() -> None:
    comparison = sweep(36, 60, 36, 45, settings=("12", "2", "16", "8"))
    assert comparison.order_by == "synth_worker_count"
    assert [log.name for log in comparison.logs] == ["log1", "log3", "log0", "log2"]
    assert sentences(comparison)[0].startswith("The knee is at C (synth_worker_count 12)")


def test_without_one_such_setting_the_order_given_stays() -> None:
    comparison = sweep(36, 60, 36, settings=("12", "2", "2"))
    assert comparison.order_by is None
    assert [log.name for log in comparison.logs] == ["log0", "log1", "log2"]


def test_a_crashed_log_in_a_sweep_is_no_knee() -> None:
    comparison = compare([made("a", pace_s=50), made("b", pace_s=40, seed=2), LogFigures(name="c")])
    assert comparison.knee == 1
    assert "C –" in sentences(comparison)[1]


def test_labels_go_on_after_z() -> None:
    assert [label(n) for n in (0, 25, 26, 27, 51, 52, 701, 702)] == [
        "A", "Z", "AA", "AB", "AZ", "BA", "ZZ", "AAA",
    ]  # fmt: skip
