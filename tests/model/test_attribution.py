"""Whose line is it: simulated logs of every generation, whose truth is known, whole and damaged.

What is `exact` must be right, whatever is missing from the log; and of what the log tells, nearly
all must be found.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

import pytest

from cuzktop.model import reduce
from cuzktop.model.attribution import Attributor
from cuzktop.model.effort import A_LINE, SAVED, Effort
from cuzktop.model.kinds import C1, C2, C3, C6, C9
from cuzktop.model.state import Call
from cuzktop.model.tape import DROP_AT_LEAST, KEEP_LINES
from tests import logsim
from tests.corelog import Json, Log, by_key, only_run, report
from tests.logsim import Knobs

SMALL = Knobs(jobs=4, synth=1500, srs=300, cuts=0, torn=0.03)
GENERATIONS = {
    "s16": replace(SMALL, version=16),
    "s19": replace(SMALL, version=19),
    "s19-2x2": replace(SMALL, version=19, gpus=2),
    "s21": replace(SMALL, version=21, kind="porep+snap"),
    "s23-2x2": replace(SMALL, version=23, gpus=2),
    "s24": replace(SMALL, version=24),
    "s24-fail": replace(SMALL, version=24, fail_gpu=0.05, fail_finish=0.05, retry=True),
    "s27-2x2": replace(SMALL, version=27, gpus=2),
    "s30-2x2": replace(SMALL, version=30, gpus=2),
    "s31-2x2": replace(SMALL, version=31, gpus=2),
    "s36": replace(SMALL, version=36, torn=0.5),
    "s38-1x3": replace(SMALL, version=38, workers=3),
    "s40-3x2": replace(SMALL, version=40, gpus=3),
    "s41": replace(SMALL, version=41, kind="snap"),
    "s45": SMALL,
    "s45-1x3": replace(SMALL, workers=3, prep=800),
    "s45-2x2": replace(SMALL, gpus=2, jitter=2.0),
    "s45-4x2": replace(SMALL, gpus=4, concurrency=5),
    "s45-fail": replace(SMALL, fail_gpu=0.05, fail_finish=0.05, fail_synth=0.03, retry=True),
}
RARE = {  # damaged, they leave more open
    "s18-3x1": replace(SMALL, version=18, gpus=3, concurrency=4),
}
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda log: log,
    "front cut off": lambda log: logsim.cut_front(log, 0.35),
    "begins late": lambda log: logsim.cut_front(log, 0.7),
    "some lines lost": lambda log: logsim.drop_lines(log, 0.01, 5),
    "many lines lost": lambda log: logsim.drop_lines(log, 0.04, 6),
    "lines twice": lambda log: logsim.double_lines(log, 5),
    "only stderr": lambda log: logsim.only_stream(log, "stderr"),
    "only stdout": lambda log: logsim.only_stream(log, "stdout"),
}

KERNEL = ("ntt_msm_h_ms", "batch_add_ms", "tail_msm_ms", "gpu_total_ms")
LOCK = ("pre_lock_cpu_ms", "lock_wait_ms", "lock_held_ms", "barrier_wait_ms")
CPU = ("prep_msm_ms", "b_g2_msm_ms")


@cache
def simulated(name: str) -> tuple[bytes, Json]:
    return logsim.simulate((GENERATIONS | RARE)[name])


@dataclass
class Score:
    """How the figures of finished partitions compare with the truth, by what they belong to."""

    right: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    wrong_though_exact: list[str] = field(default_factory=list)
    exact: int = 0
    partitions: int = 0
    every: int = 0  # figures

    def share(self, group: str) -> float:
        """The right ones of a group."""
        bad = sum(text.startswith(group) for text in self.wrong)
        return self.right[group] / max(1, self.right[group] + self.missing[group] + bad)


def scored(document: Json, truth: Json) -> Score:
    """A partition is found by its job and its GPU time: attempts before a cut aren't counted."""
    known: dict[tuple[str, int, int], Json] = {}
    for run in truth["runs"]:
        for part in run["partitions"]:
            if part["state"] == "done":
                known[part["job"], part["partition"], part["gpu_ms"]] = part
    prints_lock = truth["scenario"]["version"] == "head"
    groups = {"kernel": KERNEL, "cpu": CPU, "lock": LOCK if prints_lock else ()}
    score = Score()
    for run in document["runs"]:
        for row in run["partitions"]:
            want = known.get((row["job"], row["partition"], row["gpu_ms"]))
            if want is None or row["state"] != "done":
                continue
            score.partitions += 1
            score.exact += row["attribution"] == "exact"
            for group, names in groups.items():
                for name in names:
                    score.every += 1
                    got = row[name]
                    if got is None:
                        score.missing[group] += 1
                    elif abs(got - want[name]) <= 1:
                        score.right[group] += 1
                    else:
                        where = f"{group} {row['job']}/{row['partition']}"
                        text = f"{where} {name}: {got} for {want[name]}"
                        score.wrong.append(text)
                        if row["attribution_by"][group] == "exact":
                            score.wrong_though_exact.append(text)
    return score


@cache
def outcome(name: str, damage: str) -> Score:
    log, truth = simulated(name)
    return scored(report(DAMAGE[damage](log)), truth)


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", GENERATIONS | RARE)
def test_what_is_exact_is_right_whatever_is_missing(name: str, damage: str) -> None:
    assert outcome(name, damage).wrong_though_exact == []


@pytest.mark.parametrize(("seed", "calls"), [(7, range(40, 50)), (14, range(150, 160))])
def test_what_is_exact_is_right_though_calls_are_under_way_at_the_log_s_end(
    seed: int, calls: range
) -> None:
    """Lines near the end can be those of calls that haven't ended."""
    log, truth = logsim.simulate(replace(logsim.SCENARIOS["s45-jitter"], seed=seed))
    ends = [found.end() for found in re.finditer(rb",GPU_END,.*\n", log)]
    for number in calls:
        assert scored(report(log[: ends[number]]), truth).wrong_though_exact == []


@pytest.mark.parametrize("name", GENERATIONS | RARE)
def test_a_whole_log_tells_nearly_everything(name: str) -> None:
    log, truth = simulated(name)
    score = outcome(name, "nothing")
    done = [part for run in truth["runs"] for part in run["partitions"] if part["state"] == "done"]
    assert score.partitions == len(done)
    assert score.share("kernel") >= 0.94  # up to S40 two calls of two GPUs can be alike
    assert not score.right["lock"] or score.share("lock") >= 0.99
    assert score.share("cpu") >= 0.70  # more workers, more that happens at a time
    gpus = {gpu["gpu"]: gpu for gpu in only_run(report(log))["gpus"]}
    for want in truth["runs"][0]["gpus"]:
        assert gpus[want["gpu"]]["kernel_pct"] == pytest.approx(want["kernel_pct"], abs=0.7)


@pytest.mark.parametrize(
    ("damage", "right", "exact"),
    [
        ("nothing", 0.97, 0.85),
        ("front cut off", 0.86, 0.60),
        ("begins late", 0.74, 0.30),
        ("some lines lost", 0.94, 0.70),
        ("many lines lost", 0.84, 0.38),
        ("lines twice", 0.80, 0.40),
        ("only stderr", 0.95, 0.65),
    ],
)
def test_of_what_a_log_tells_nearly_all_is_found(damage: str, right: float, exact: float) -> None:
    scores = [outcome(name, damage) for name in GENERATIONS]
    every = sum(score.every for score in scores)
    assert sum(score.right.total() for score in scores) >= right * every
    assert sum(len(score.wrong) for score in scores) <= 0.02 * every  # rather none than a wrong one
    partitions = sum(score.partitions for score in scores)
    assert sum(score.exact for score in scores) >= exact * partitions


def test_without_stderr_nothing_is_found() -> None:
    assert not any(outcome(name, "only stdout").right for name in GENERATIONS)


@pytest.mark.parametrize("name", ["s24", "s31-2x2", "s45-2x2"])
def test_after_a_cut_what_follows_is_found(name: str) -> None:
    log, truth = simulated(name)
    part = DAMAGE["front cut off"](log)
    whole = {(row["job"], row["partition"]): row for row in only_run(report(log))["partitions"]}
    later = only_run(report(part))["partitions"]
    begun = [row for row in later if row["bracket_start_ms"] is not None]
    begun.sort(key=lambda row: row["bracket_start_ms"])
    tail = [row for row in begun[len(begun) // 3 :] if row["state"] == "done"]
    assert len(tail) > 10
    names = (*KERNEL, *CPU)
    same = [
        all(row[name] == whole[row["job"], row["partition"]][name] for name in names)
        for row in tail
    ]
    assert sum(same) >= 0.9 * len(same)
    assert scored(report(part), truth).exact > 0


@pytest.mark.parametrize("kind", ["ntt_msm_h", "tail_msm", "mutex_wait", "b_g2_msm", "prep_msm"])
def test_a_lost_line_spoils_no_neighbour(kind: str) -> None:
    log, truth = simulated("s45")
    lines = log.splitlines(keepends=True)
    places = [at for at, line in enumerate(lines) if f" {kind}_ms=".encode() in line]
    lost = places[len(places) // 2]
    score = scored(report(b"".join([*lines[:lost], *lines[lost + 1 :]])), truth)
    assert score.wrong_though_exact == []
    assert len(score.wrong) <= 2
    assert score.missing.total() <= 10
    assert score.exact >= 0.7 * score.partitions


def test_the_same_log_gives_the_same_rows() -> None:
    log, _ = simulated("s40-3x2")
    assert report(log)["runs"] == report(log, 777)["runs"]


# ---------------------------------------------------------------- what can't be told

TWINS = (("porep-1000-1", 0), ("porep-1000-2", 1))


def twins(ntt_ms: tuple[int, int], b_g2_ms: tuple[int, int]) -> dict[str, Json]:
    """Two calls that two GPUs begin and end in the same milliseconds: their lines are mixed."""
    log = Log().start(workers=(0, 1))
    log.clocked(10, "SYNTH_START", "porep-1000-0", "partition=0")
    for job, worker in TWINS:
        log.synthesized(100, job, 0)
        log.picked(1100, job, 0, worker)
    for _ in TWINS:
        log.timing("split_vectors_ms=1 setup_to_split_ms=3")
        log.timing("pre_lock_cpu_ms=5 mutex_wait_ms=0")
    for ntt in ntt_ms:
        log.timing(f"gpu_tid=0 ntt_msm_h_ms={ntt}")
    log.clocked(1650, "SYNTH_START", "porep-1000-0", "partition=1")
    for b_g2 in b_g2_ms:
        log.timing(f"prep_msm_ms={990 - b_g2}")
    for ntt, b_g2 in zip(ntt_ms, b_g2_ms, strict=True):
        log.timing(f"gpu_tid=0 barrier_wait_ms={993 - b_g2 - ntt}")
    for text in ("batch_add_ms=100", "tail_msm_ms=50 gpu_total_ms=845", "held"):
        for b_g2 in b_g2_ms:
            total = 1144 - b_g2
            line = f"gpu_tid=0 {text}".replace("=845", f"={total}")
            if text == "held":
                line = f"mutex_held_ms={total + 1} total_start_fn_ms={total + 7}"
            log.timing(line)
    for b_g2 in b_g2_ms:
        log.timing(f"b_g2_msm_ms={b_g2} num_circuits=1")
    for job, worker in TWINS:
        log.ended(2110, job, 0, worker, 1009)
    log.clocked(2500, "SYNTH_END", "porep-1000-0", "partition=0,synth_ms=2485")
    rows = by_key(only_run(report(log.data)))
    return {job: rows[job, 1, 0] for job, _ in TWINS}


def test_calls_that_are_alike_are_told_though_not_apart() -> None:
    for row in twins((400, 401), (290, 290)).values():
        assert row["attribution"] == "exact"  # the figures are the same, whoever has which lines
        assert row["ntt_msm_h_ms"] in (400, 401)
        assert row["b_g2_msm_ms"] == 290


def test_what_cannot_be_told_apart_is_never_exact() -> None:
    rows = twins((400, 430), (290, 320))
    for row in rows.values():
        assert row["attribution_by"]["kernel"] == "inferred"
        assert row["attribution_by"]["cpu"] != "exact"
    # A line has one owner, and what one call is given belongs together.
    given = {(row["ntt_msm_h_ms"], row["b_g2_msm_ms"]) for row in rows.values()}
    assert given == {(400, 290), (430, 320)}


@pytest.mark.parametrize("more_ms", [1, 400, 460, 5000])
def test_a_lock_may_be_held_long_after_the_kernels(more_ms: int) -> None:
    """The calling thread got no CPU between the GPU thread's end and giving the lock back."""
    log = Log().start(workers=(0,))
    log.synthesized(100, TWINS[0][0], 0).picked(1100, TWINS[0][0], 0, 0)
    log.timing("split_vectors_ms=1 setup_to_split_ms=3")
    log.timing("pre_lock_cpu_ms=5 mutex_wait_ms=0")
    log.timing("gpu_tid=0 ntt_msm_h_ms=400")
    log.timing("prep_msm_ms=500")
    log.timing("gpu_tid=0 barrier_wait_ms=100")
    log.timing("gpu_tid=0 batch_add_ms=60")
    log.timing("gpu_tid=0 tail_msm_ms=50 gpu_total_ms=611")
    held = 611 + more_ms
    log.timing("b_g2_msm_ms=300 num_circuits=1")
    log.timing(f"mutex_held_ms={held} total_start_fn_ms={held + 5}")
    log.ended(1110 + held, TWINS[0][0], 0, 0, held + 9)
    row = by_key(only_run(report(log.data)))[TWINS[0][0], 1, 0]
    assert (row["lock_held_ms"], row["gpu_total_ms"]) == (held, 611)
    assert row["ntt_msm_h_ms"] == 400
    assert row["attribution_by"]["kernel"] == "exact"


def test_kernels_that_waited_for_a_cpu_and_not_for_prep_msm_keep_their_call() -> None:
    """In this log a GPU thread gets no CPU for 47 ms after an NTT that prep_msm was done before."""
    slow = Knobs(version=31, jobs=8, seed=31, synth=40_000, parse=400, prep=1900, b_g2=600)
    knobs = replace(slow, ntt=1000, batch=620, tail=100, dealloc=200, trim=50)
    log, truth = logsim.simulate(knobs)
    score = scored(report(log), truth)
    assert (score.missing, score.wrong) == (Counter(), [])


LATE_THREADS = {
    103: "a GPU thread gets no CPU for 400 ms after the lock has passed to its call",
    188: "the same",
    433: "a CPU thread begins late, so that the kernels wait longer than prep_msm took",
    535: "the same",
}


@pytest.mark.parametrize("seed", LATE_THREADS)
def test_kernels_of_a_call_whose_threads_began_late_are_its_own(seed: int) -> None:
    slow = Knobs(version=36, jobs=3, seed=seed, synth=40_000, parse=400, prep=1900, b_g2=600)
    knobs = replace(slow, ntt=1000, batch=620, tail=100, dealloc=200, trim=50, stall=0.01, cuts=0)
    log, truth = logsim.simulate(knobs)
    score = scored(report(log), truth)
    assert (score.missing["kernel"], score.share("kernel")) == (0, 1.0)


def test_the_long_kernels_are_a_cold_gpu_s_first_call_s() -> None:
    """Beside the second GPU's first call the first GPU's second one begins, and both wait."""
    slow = Knobs(version=33, gpus=2, jobs=10, seed=20133, concurrency=4, synth=40_000, parse=400)
    knobs = replace(slow, prep=1900, b_g2=600, ntt=1000, batch=620, tail=100, dealloc=200, trim=50)
    log, truth = logsim.simulate(replace(knobs, stall=0.01, cuts=0))
    run = only_run(report(log))
    rows = by_key(run)
    for want in truth["runs"][0]["partitions"]:
        if want["ntt_msm_h_ms"] > 2000:
            row = rows[want["job"], want["attempt"], want["partition"]]
            assert row["ntt_msm_h_ms"] == want["ntt_msm_h_ms"]
    shares = {gpu["gpu"]: gpu["kernel_pct"] for gpu in run["gpus"]}
    for want in truth["runs"][0]["gpus"]:
        assert shares[want["gpu"]] == pytest.approx(want["kernel_pct"], abs=0.5)


PRINTED = re.compile(rb"(ntt_msm_h_ms|batch_add_ms|tail_msm_ms|prep_msm_ms|b_g2_msm_ms)=(\d+)")


@pytest.mark.parametrize("seed", [9, 50])
def test_no_figure_is_shown_more_often_than_it_was_printed(seed: int) -> None:
    """A line that one call got when its block was made anew was still another's."""
    slow = Knobs(version=33, gpus=2, jobs=6, seed=seed, synth=40_000, parse=400, prep=1900)
    log, _ = logsim.simulate(
        replace(slow, b_g2=600, ntt=1000, batch=620, tail=100, dealloc=200, trim=50, cuts=0)
    )
    printed = Counter((name.decode(), int(figure)) for name, figure in PRINTED.findall(log))
    names = {name for name, _ in printed}
    rows = only_run(report(log))["partitions"]
    shown = Counter((name, row[name]) for row in rows for name in names if row[name] is not None)
    assert shown - printed == Counter()


# ---------------------------------------------------------------- bounds


def weighed(monkeypatch: pytest.MonkeyPatch, log: bytes) -> tuple[Effort, int]:
    """What it took to attribute a log, and its lines."""
    made: list[Attributor] = []

    class Watched(Attributor):
        def __init__(self, on_settled: Callable[[Call], None]) -> None:
            super().__init__(on_settled)
            made.append(self)

    monkeypatch.setattr(reduce, "Attributor", Watched)
    report(log)
    return made[-1].effort, made[-1].sequence()


@pytest.mark.parametrize("name", ["s28", "s37-4x2", "s45-4x3"])
@pytest.mark.parametrize("kind", ["GPU_START", "tail_msm", "b_g2_msm", "mutex_held"])
def test_a_line_that_stands_there_a_thousand_times_costs_little(
    monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    knobs = {
        "s28": replace(SMALL, version=28),
        "s37-4x2": replace(SMALL, version=37, gpus=4, concurrency=5),
        "s45-4x3": replace(SMALL, gpus=4, workers=3, concurrency=5),
    }[name]
    lines = logsim.simulate(knobs)[0].splitlines(keepends=True)
    places = [at for at, line in enumerate(lines) if kind.encode() in line]
    if not places:
        return
    at = places[len(places) // 2]
    whole, _ = weighed(monkeypatch, b"".join(lines))
    effort, count = weighed(monkeypatch, b"".join([*lines[:at], *[lines[at]] * 1000, *lines[at:]]))
    assert effort.taken <= SAVED + A_LINE * count
    if kind == "GPU_START":  # it is the same call
        assert effort.taken <= 1.2 * whole.taken + 1000


@pytest.mark.parametrize("every", [2, 3, 10])
def test_a_log_with_lines_twice_costs_as_much_a_line(
    monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    taken = []
    for jobs in (5, 10, 20):
        knobs = replace(SMALL, version=37, gpus=2, concurrency=4, jobs=jobs)
        log = logsim.double_lines(logsim.simulate(knobs)[0], every)
        effort, count = weighed(monkeypatch, log)
        taken.append(effort.taken / count)
    assert max(taken) <= A_LINE


def test_a_line_that_stands_there_twice_happened_once() -> None:
    log, truth = simulated("s45-2x2")
    once, twice = scored(report(log), truth), scored(report(logsim.double_lines(log, 1)), truth)
    assert twice.partitions == once.partitions
    assert twice.right["kernel"] >= 0.98 * once.right["kernel"]
    assert twice.exact >= 0.9 * once.exact


def test_lines_without_calls_are_forgotten() -> None:
    attributor = Attributor(lambda _: None)
    for number in range(4 * KEEP_LINES):
        attributor.add((C1, C2, C3, C6, C9)[number % 5], 10, 20, float(number))
        attributor.clocked(number + 1.0)
    kept = sum(len(pool) for pool in attributor.pools.values())
    assert kept <= 2 * KEEP_LINES
    assert attributor.sequence() == 4 * KEEP_LINES


def test_a_long_run_keeps_little(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[int] = []
    calls: list[int] = []

    class Watched(Attributor):
        def settle(self, *, force: bool = False) -> None:
            super().settle(force=force)
            lines.append(sum(len(pool) for pool in self.pools.values()))
            calls.append(len(self.waiting))

    monkeypatch.setattr(reduce, "Attributor", Watched)
    report(logsim.simulate(replace(SMALL, jobs=20))[0])
    assert len(calls) > 200
    assert max(calls) <= 8
    assert max(lines) <= DROP_AT_LEAST + 8 * 10


def test_kernels_whose_blocks_end_is_lost_leave_doubt_who_had_the_lock() -> None:
    """Eight workers wait for one lock; of one block the end is missing, which another call gets."""
    knobs = Knobs(version=30, gpus=4, workers=2, jobs=10, seed=7032, concurrency=9, cuts=0)
    knobs = replace(knobs, jitter=2.0, stall=0.01, prep=700)
    log, truth = logsim.simulate(knobs)
    score = scored(report(logsim.drop_lines(log, 0.01, 31)), truth)
    assert score.wrong_though_exact == []
    assert score.exact > 0.3 * score.partitions


def test_who_may_have_another_s_block_is_as_unsure_when_that_one_is_settled() -> None:
    """Of two calls of two GPUs one is settled before it could be told whose blocks are whose."""
    knobs = replace(SMALL, version=40, gpus=3, jobs=7, seed=656068679, torn=0.1)
    log, truth = logsim.simulate(replace(knobs, pin_fallback=0.2, prestage_fallback=0.2))
    assert scored(report(log), truth).wrong_though_exact == []


UNLUCKY = {
    "the order of two locks' blocks": replace(
        SMALL,
        version=38,
        gpus=2,
        workers=4,
        concurrency=2,
        kind="porep+snap+wdpost",
        ids="weird",
        synth=3500,
        stall=0,
        torn=0.01,
        seed=482790578,
    ),
    "two choices of prep_msm": replace(
        SMALL, version=35, gpus=2, workers=3, jobs=5, ids="weird", torn=0.1, seed=346179623
    ),
    "what another pays for it": replace(
        SMALL,
        version=31,
        gpus=5,
        workers=3,
        jobs=8,
        concurrency=11,
        ids="curio",
        stall=0.03,
        torn=0.1,
        seed=778016493,
    ),
    "lines of two blocks": replace(
        SMALL,
        version=28,
        gpus=4,
        workers=3,
        jobs=8,
        concurrency=2,
        synth=3500,
        status=True,
        torn=0.1,
        seed=817957418,
    ),
}


@pytest.mark.parametrize("told_by", UNLUCKY)
def test_what_hardly_ever_happens_is_not_exact(told_by: str) -> None:
    """In these logs the likeliest of several accounts is not what happened."""
    log, truth = logsim.simulate(UNLUCKY[told_by])
    score = scored(report(log), truth)
    assert score.wrong_though_exact == []
    assert score.exact > 0


def test_kernels_bound_the_cpu_s_lines_above_them_whoever_has_them() -> None:
    """Two GPUs, and one call is settled before it is known whose the kernels of the next are."""
    log, truth = logsim.simulate(
        Knobs(
            version=36,
            gpus=2,
            jobs=10,
            seed=1360,
            concurrency=4,
            synth=40_000,
            parse=400,
            prep=1900,
            b_g2=600,
            ntt=1000,
            batch=620,
            tail=100,
            dealloc=200,
            trim=50,
            cuts=0,
        )
    )
    told = by_key(only_run(report(log)))
    for want in truth["runs"][0]["partitions"]:
        if want["call"] in {63, 69}:
            got = told[want["job"], want["attempt"], want["partition"]]
            assert got["prep_msm_ms"] == want["prep_msm_ms"]
            assert got["b_g2_msm_ms"] == want["b_g2_msm_ms"]
