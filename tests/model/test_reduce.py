"""What becomes of jobs and partitions: attempts, failures, restarts and logs with holes."""

from __future__ import annotations

import pytest

from tests.corelog import ENGINE, Json, Log, by_key, only_run, report, stamp, states

JOB, OTHER = "porep-1000-40021", "porep-1000-40022"
POST = "wdpost-1000-0-[12 255 3 4 5 6 7 8]"
OOM = r'task 8 panicked with message "cudaMalloc@a.cu:182 failed: \"out of memory\""'


def span(job: str, index: int | None, worker: int = 0) -> str:
    where = "None" if index is None else f"Some({index})"
    return (
        f"gpu_worker{{worker_id={worker} gpu=0 job_id={job} proof_kind=porep-c2 batch_size=1"
        f" partition={where}}}:"
    )


def start_fails(log: Log, at_ms: float, job: str, index: int, worker: int = 0) -> Log:
    """A start call that panics: the job has failed, its other partitions go on."""
    text = f"GPU prove start task panicked error={OOM}"
    return log.say(at_ms, text, "ERROR", spans=span(job, index, worker))


def proving_fails(log: Log, at_ms: float, job: str, index: int) -> Log:
    """A finish call that fails: what is left of the job is skipped."""
    text = f"partition GPU proving failed error=e job_id={job} partition={index}"
    return log.say(at_ms, text, "ERROR")


def skips(log: Log, at_ms: float, job: str, index: int) -> Log:
    return log.say(at_ms, f"skipping synthesis for failed job job_id={job} partition={index}")


def proofs(run: Json) -> tuple[int, int, int, int]:
    """Completed, failed, in flight, lost."""
    counts = run["proofs"]
    return counts["completed"], counts["failed"], counts["in_flight"], counts["lost"]


def test_warnings_without_end_do_not_push_a_failure_out() -> None:
    log = Log().start().admitted(50, JOB, 1)
    start_fails(log, 100, JOB, 0)
    for at in range(300):
        log.say(200 + at, f"SRS evicted under memory pressure {at}", "WARN")
    alerts = only_run(report(log.data))["alerts"]
    assert len(alerts) == 200
    assert [alert["level"] for alert in alerts] == ["error", *["warning"] * 199]
    assert "pressure 299" in alerts[-1]["text"]


# ---------------------------------------------------------------- one partition's way


@pytest.mark.parametrize(
    ("lines", "state"),
    [(0, "pending"), (1, "synthesizing"), (2, "queued"), (3, "queued"), (4, "gpu"), (5, "gpu")],
)
def test_a_partition_is_where_its_last_line_says(lines: int, state: str) -> None:
    log = Log().start().admitted(50, JOB, 1)
    way = Log().synthesized(100, JOB, 0, 900).picked(1200, JOB, 0, worker=1)
    log.text += way.text[:lines]
    run = only_run(report(log.data))
    row = by_key(run)[JOB, 1, 0]
    assert row["state"] == state
    assert row["worker"] == (1 if state == "gpu" else None)
    assert row["gpu"] == (0 if state == "gpu" else None)
    assert row["kind"] == "porep"
    assert proofs(run) == (0, 0, 1, 0)


def test_a_finished_partition_knows_its_times() -> None:
    log = Log().start().admitted(50, JOB, 1).synthesized(100, JOB, 0, 900)
    log.proved(1250, JOB, 0, worker=1, gpu_ms=700).assembled(1990, JOB)
    run = only_run(report(log.data))
    row = by_key(run)[JOB, 1, 0]
    want = {
        "state": "done",
        "worker": 1,
        "gpu": 0,
        "synth_start_ms": 100,
        "synth_ms": 895,
        "queue_ms": 250,
        "bracket_start_ms": 1250,
        "bracket_end_ms": 1950,
        "bracket_ms": 700,
        "gpu_ms": 700,
        "lock_held_ms": None,
        "kernel_ms": None,
        "attribution": "none",
    }
    assert {name: row[name] for name in want} == want
    assert proofs(run) == (1, 0, 0, 0)
    assert run["proofs"]["seconds_per_proof"] == pytest.approx(1.89)


def test_a_call_s_lines_become_its_figures() -> None:
    log = Log().start().admitted(50, JOB, 2)
    log.synthesized(100, JOB, 0, 900).synthesized(101, JOB, 1, 900)
    log.called(5000, JOB, 0).called(9000, JOB, 1)
    run = only_run(report(log.data))
    row = by_key(run)[JOB, 1, 1]
    want = {
        "attribution": "exact",
        "pre_lock_cpu_ms": 5,
        "lock_wait_ms": 0,
        "lock_held_ms": 855,
        "barrier_wait_ms": 303,
        "kernel_ms": 550,
        "gpu_total_ms": 854,
        "prep_msm_ms": 700,
        "b_g2_msm_ms": 290,
    }
    assert {name: row[name] for name in want} == want
    (gpu,) = run["gpus"]
    assert gpu["span_ms"] == 5010
    assert gpu["bracket_sum_pct"] == pytest.approx(100 * 2020 / 5010, abs=0.01)
    assert gpu["kernel_pct"] == pytest.approx(100 * 1100 / 5010, abs=0.05)
    assert gpu["time_pct"]["barrier"] == pytest.approx(100 * 606 / 5010, abs=0.05)
    assert (gpu["gap_count"], gpu["gap_mean_ms"]) == (1, 2990)
    # The first call of a GPU is a cold one: it leaves percentiles.
    assert run["stages"]["kernel_ms"]["count"] == 1
    assert run["stages"]["synth_ms"]["count"] == 2


# ---------------------------------------------------------------- restarts


def test_a_banner_begins_a_new_run_and_what_was_in_flight_is_lost() -> None:
    log = Log().start().admitted(50, JOB, 3).admitted(60, OTHER, 1)
    log.synthesized(100, JOB, 0).clocked(110, "SYNTH_START", JOB, "partition=1")
    log.synthesized(100, OTHER, 0).proved(1200, OTHER, 0).assembled(1800, OTHER)
    log.picked(1900, JOB, 0)
    again = Log().start().admitted(50, JOB, 3).synthesized(100, JOB, 0)
    again.proved(1200, JOB, 0)
    first, second = report(log.data + again.data)["runs"]
    assert states(first) == {
        (OTHER, 1, 0): "done",
        (JOB, 1, 0): "lost",
        (JOB, 1, 1): "lost",
        (JOB, 1, 2): "lost",
    }
    assert proofs(first) == (1, 0, 0, 1)
    # Another life: its attempts count from 1, its offsets from its own zero.
    assert states(second) == {(JOB, 1, 0): "done", (JOB, 1, 1): "pending", (JOB, 1, 2): "pending"}
    assert proofs(second) == (0, 0, 1, 0)
    assert [run["run"] for run in (first, second)] == [0, 1]
    assert by_key(second)[JOB, 1, 0]["bracket_start_ms"] == 1200
    assert (first["span_ms"], second["span_ms"]) == (1900, 1700)


def test_a_bracket_open_at_the_end_lasts_until_then() -> None:
    log = Log().start().synthesized(100, JOB, 0).synthesized(100, JOB, 1)
    log.picked(2000, JOB, 0).proved(3000, JOB, 1, worker=1, gpu_ms=1000)
    (gpu,) = report(log.data + Log().start().data)["runs"][0]["gpus"]
    assert gpu["bracket_union_pct"] == 100
    assert gpu["bracket_sum_pct"] == 50


@pytest.mark.parametrize("lines", [1, 2, 5])
def test_a_start_that_brought_no_job_is_a_run_with_empty_lists(lines: int) -> None:
    start = Log().start(workers=(0, 0, 1))
    start.text = start.text[:lines]
    work = Log().start().admitted(50, JOB, 1)
    empty, full = report(start.data + work.data)["runs"]
    assert (empty["partitions"], empty["gpus"]) == ([], [])
    assert proofs(empty) == (0, 0, 0, 0)
    assert proofs(full) == (0, 0, 1, 0)
    assert empty["started"] == stamp(-40 if lines == 1 else 0)
    assert len(report(start.data * 3)["runs"]) == 3


def timeline_life(offset: int = 0) -> Log:
    log = Log()
    for index in range(3):
        log.synthesized(offset + 4000 + index, JOB, index)
    for index in range(3):
        log.proved(offset + 300_000 + 1000 * index, JOB, index)
    return log


def test_offsets_that_fall_back_begin_a_new_run() -> None:
    """A log of standard error alone has no banner."""
    first, second = report(timeline_life().data + timeline_life().data)["runs"]
    assert states(first) == states(second) == {(JOB, 1, n): "done" for n in range(3)}
    # What tells the generation is seen anew in each.
    assert first["dialect"] == second["dialect"] == "S38-S45"


def test_they_need_not_fall_back_to_the_beginning() -> None:
    runs = report(timeline_life().data + timeline_life(290_000).data)["runs"]
    assert len(runs) == 2


@pytest.mark.parametrize("fall_ms", [1, 40, 4900])
def test_lines_a_little_out_of_order_are_one_run(fall_ms: int) -> None:
    log = Log().synthesized(60_000, JOB, 0).synthesized(61_000 - fall_ms, JOB, 1, fall_ms + 40)
    run = only_run(report(log.data))
    assert len(by_key(run)) == 2


@pytest.mark.parametrize("step_s", [-7200, -6, 6, 3600, 86_400])
def test_a_machine_s_clock_may_be_set(step_s: int) -> None:
    """It is no restart, and lines find their calls by the clock as it is now."""
    log = Log().start().admitted(50, JOB, 5)
    for index in range(5):
        log.synthesized(100 + index, JOB, index)
    log.called(20_000, JOB, 0)
    log.skew_ms = 1000.0 * step_s
    log.enqueued(21_500, OTHER)
    for index in range(1, 5):
        log.called(22_000 + 1500 * index, JOB, index)
    log.assembled(30_000, JOB)
    run = only_run(report(log.data))
    rows = by_key(run)
    for index in range(5):
        assert rows[JOB, 1, index]["state"] == "done"
    for index in range(5):
        assert rows[JOB, 1, index]["attribution"] == "exact"
        assert rows[JOB, 1, index]["kernel_ms"] == 550
    assert run["started"] == stamp(0)
    assert run["span_ms"] == pytest.approx(30_000, abs=50)
    assert run["proofs"]["seconds_per_proof"] == pytest.approx(29.9, abs=0.1)


# ---------------------------------------------------------------- failures


def test_a_failed_start_call_fails_the_job_once_and_the_others_go_on() -> None:
    log = Log().start().admitted(50, JOB, 4)
    for index in range(4):
        log.synthesized(100, JOB, index)
    log.picked(1200, JOB, 0)
    start_fails(log, 1300, JOB, 0)
    log.proved(1400, JOB, 1).picked(2000, JOB, 2)
    start_fails(log, 2100, JOB, 2)
    log.picked(2200, JOB, 3)
    run = only_run(report(log.data))
    assert [by_key(run)[JOB, 1, n]["state"] for n in range(4)] == [
        "failed",
        "done",
        "failed",
        "gpu",
    ]
    assert proofs(run) == (0, 1, 0, 0)
    assert by_key(run)[JOB, 1, 0]["bracket_end_ms"] is None
    assert len([alert for alert in run["alerts"] if "out of memory" in alert["text"]]) == 2


def test_a_failed_call_s_bracket_ends_at_its_failure() -> None:
    log = Log().start().synthesized(100, JOB, 0).synthesized(100, JOB, 1)
    log.picked(2000, JOB, 0)
    start_fails(log, 2250, JOB, 0)
    log.proved(3000, JOB, 1, gpu_ms=1000)
    (gpu,) = only_run(report(log.data))["gpus"]
    assert gpu["span_ms"] == 2000
    assert gpu["bracket_union_pct"] == pytest.approx(62.5)
    assert gpu["bracket_sum_pct"] == pytest.approx(50)  # of the finished ones


def test_what_is_left_of_a_failed_job_is_skipped() -> None:
    log = Log().start().admitted(50, JOB, 5)
    for index in range(3):
        log.synthesized(100 + index, JOB, index)
    log.picked(1200, JOB, 0).picked(1201, JOB, 1, worker=1)
    proving_fails(log, 1500, JOB, 0)
    log.say(1510, f"skipping synthesis for failed job job_id={JOB} partition=3")
    log.clocked(1520, "GPU_PICKUP", JOB, "worker=0,partition=2")
    text = f"skipping GPU prove for failed partitioned job job_id={JOB} partition=Some(2)"
    log.say(1521, text, spans=span(JOB, 2))
    log.ended(1800, JOB, 1, worker=1)
    log.say(1801, f"discarding GPU result for failed job job_id={JOB} partition=1")
    run = only_run(report(log.data))
    kept = [by_key(run)[JOB, 1, n]["state"] for n in range(5)]
    assert kept == ["failed", "done", "skipped", "skipped", "pending"]
    assert by_key(run)[JOB, 1, 2]["worker"] == 0
    assert proofs(run) == (0, 1, 0, 0)


@pytest.mark.parametrize(
    "text",
    ["partition synthesis failed error=e", "SnapDeals partition synthesis task panicked error=e"],
)
def test_a_failed_synthesis_is_its_partition_s(text: str) -> None:
    log = Log().start().admitted(50, JOB, 2)
    log.clocked(100, "SYNTH_START", JOB, "partition=0")
    log.clocked(100, "SYNTH_START", JOB, "partition=1")
    log.say(900, f"{text} job_id={JOB} partition=1", "ERROR")
    run = only_run(report(log.data))
    assert states(run) == {(JOB, 1, 1): "failed", (JOB, 1, 0): "synthesizing"}
    assert proofs(run) == (0, 1, 0, 0)


def test_a_failed_proof_in_one_piece_may_be_nameless() -> None:
    log = Log().start().enqueued(50, POST, "window-post")
    log.clocked(100, "SYNTH_START", POST, "kind=window-post")
    failing = "synth_single{proof_kind=window-post}:"
    log.say(900, "synthesis failed error=no sectors", "ERROR", spans=failing)
    run = only_run(report(log.data))
    assert states(run) == {(POST, 1, None): "failed"}
    assert proofs(run) == (0, 1, 0, 0)


POSTS = [f"wnpost-1000-{number}-[12 255 3 4 5 6 7 8]" for number in range(3)]


def proving_posts(count: int) -> Log:
    """So many proofs in one piece, each with a worker and a card of its own."""
    log = Log().start(workers=tuple(range(count)))
    for worker, job in enumerate(POSTS[:count]):
        at = 100 + 10 * worker
        log.enqueued(at, job, "winning-post").clocked(at, "SYNTH_START", job, "kind=winning-post")
        log.clocked(at + 5, "SYNTH_END", job, "synth_ms=5")
    for worker, job in enumerate(POSTS[:count]):
        for event in ("GPU_PICKUP", "GPU_START"):
            log.clocked(1000 + worker, event, job, f"worker={worker}")
    return log


def nameless_failure(log: Log, at_ms: float) -> Log:
    return log.say(at_ms, "GPU proving failed error=MalformedProof", "ERROR")


@pytest.mark.parametrize("failed", [0, 1, 2])
def test_a_nameless_failure_is_that_of_the_proof_which_does_not_end(failed: int) -> None:
    """Nothing else tells which of several proofs in one piece it was."""
    log = nameless_failure(proving_posts(3), 3000)
    for worker, job in enumerate(POSTS):
        if worker != failed:
            end = 4000 + 10 * worker
            log.clocked(end, "GPU_END", job, f"worker={worker},gpu_ms={end - 1001 - worker}")
    rows = by_key(only_run(report(log.data)))
    for worker, job in enumerate(POSTS):
        row = rows[job, 1, None]
        assert row["state"] == ("failed" if worker == failed else "done")
        assert row["bracket_end_ms"] == (None if worker == failed else 4000 + 10 * worker)
    assert only_run(report(log.data))["proofs"]["failed"] == 1


def test_as_many_nameless_failures_as_proofs_under_way_are_all_of_theirs() -> None:
    log = nameless_failure(nameless_failure(proving_posts(2), 3000), 3100)
    assert set(states(only_run(report(log.data))).values()) == {"failed"}


def test_a_nameless_failure_at_the_log_s_end_counts_as_one() -> None:
    """Which of those still under way it was can't be told: the one longest at it is taken."""
    run = only_run(report(nameless_failure(proving_posts(2), 3000).data))
    assert states(run) == {(POSTS[0], 1, None): "failed", (POSTS[1], 1, None): "gpu"}
    assert proofs(run)[1:] == (1, 1, 0)


def test_a_self_check_takes_a_completed_proof_back() -> None:
    log = Log().start()
    for job, at_ms in ((JOB, 50), (OTHER, 60)):
        log.admitted(at_ms, job, 1).synthesized(at_ms + 50, job, 0)
        log.proved(at_ms + 1200, job, 0).assembled(10_000 + 100 * at_ms, job)
    good = only_run(report(log.data))
    assert proofs(good) == (2, 0, 0, 0)
    assert good["proofs"]["seconds_per_proof"] == pytest.approx((16.0 - 0.1) / 2)
    text = "Phase 7: PoRep proof self-check FAILED — proof will NOT be returned to caller"
    log.say(17_000, f"{text} job_id={OTHER} proof_len=1920 sector=62 miner=1000", "ERROR")
    run = only_run(report(log.data))
    assert proofs(run) == (1, 1, 0, 0)
    assert states(run) == {(JOB, 1, 0): "done", (OTHER, 1, 0): "done"}
    assert run["proofs"]["seconds_per_proof"] == pytest.approx(15.0 - 0.1)
    assert any("self-check failed" in alert["text"] for alert in run["alerts"])


def test_a_passed_self_check_changes_nothing() -> None:
    log = Log().start().admitted(50, JOB, 1).synthesized(100, JOB, 0)
    log.proved(1200, JOB, 0).assembled(1800, JOB)
    log.say(1900, f"Phase 7: PoRep proof self-check PASSED job_id={JOB}")
    assert proofs(only_run(report(log.data))) == (1, 0, 0, 0)


# ---------------------------------------------------------------- loading


@pytest.mark.parametrize("text", ["C1 parse/SRS load failed", "C1 parse task panicked"])
def test_what_cannot_be_loaded_is_the_job_that_was_dequeued_last(text: str) -> None:
    log = Log().start().enqueued(10, JOB).enqueued(20, OTHER).dequeued(30, JOB)
    log.enqueued(40, "snap-1000-7", "snap-update").dequeued(41, "snap-1000-7", "snap-update")
    failing = "synth_single{proof_kind=porep-c2}:"
    log.say(90, f"Phase 7: {text} error=SRS param file not found", "ERROR", spans=failing)
    log.dequeued(100, OTHER).dispatched(110, OTHER, 1).dispatched(
        120, "snap-1000-7", 1, "SnapDeals "
    )
    log.synthesized(200, OTHER, 0).proved(1300, OTHER, 0).assembled(1900, OTHER)
    run = only_run(report(log.data))
    assert proofs(run) == (1, 1, 1, 0)
    assert states(run) == {(OTHER, 1, 0): "done", ("snap-1000-7", 1, 0): "pending"}


def test_a_snap_deal_that_cannot_be_loaded_fails_no_porep() -> None:
    log = Log().start().enqueued(5, "snap-1000-7", "snap-update")
    log.dequeued(6, "snap-1000-7", "snap-update").enqueued(10, JOB).dequeued(30, JOB)
    log.say(90, "SnapDeals parse/SRS load failed error=e", "ERROR")
    log.dispatched(110, JOB, 1).synthesized(200, JOB, 0).proved(1300, JOB, 0).assembled(1900, JOB)
    assert proofs(only_run(report(log.data))) == (1, 1, 0, 0)


def test_a_job_sent_again_after_it_could_not_be_loaded_is_another_attempt() -> None:
    log = Log().start().enqueued(10, JOB).dequeued(20, JOB)
    log.say(30, "Phase 7: C1 parse/SRS load failed error=e", "ERROR")
    log.admitted(100, JOB, 1).synthesized(200, JOB, 0).proved(1300, JOB, 0).assembled(1900, JOB)
    assert proofs(only_run(report(log.data))) == (1, 1, 0, 0)


# ---------------------------------------------------------------- attempts


def first_attempt(log: Log, partitions: int = 3) -> Log:
    """Its partition 0 fails to start at 1300; the others are synthesized or still at it."""
    log.admitted(50, JOB, partitions)
    log.synthesized(100, JOB, 0).synthesized(101, JOB, 1)
    log.clocked(102, "SYNTH_START", JOB, "partition=2")
    log.picked(1200, JOB, 0)
    return start_fails(log, 1300, JOB, 0)


def test_a_retry_is_another_attempt_while_the_older_one_s_partitions_still_run() -> None:
    log = first_attempt(Log().start()).admitted(2000, JOB, 3)
    log.picked(2100, JOB, 1, worker=1)  # the older one's: the newer one has synthesized nothing
    log.synthesized(2150, JOB, 0, 500)
    log.clocked(2200, "SYNTH_START", JOB, "partition=2")
    log.clocked(2300, "SYNTH_END", JOB, "partition=2,synth_ms=2190")  # the older one's
    log.ended(2600, JOB, 1, worker=1)
    log.proved(2700, JOB, 0).proved(3300, JOB, 2)
    log.synthesized(3310, JOB, 1, 100).proved(3500, JOB, 1)
    log.clocked(4100, "SYNTH_END", JOB, "partition=2,synth_ms=1890").proved(4200, JOB, 2)
    log.assembled(4800, JOB)
    run = only_run(report(log.data))
    assert states(run) == {
        (JOB, 1, 0): "failed",
        (JOB, 1, 1): "done",
        (JOB, 1, 2): "done",
        (JOB, 2, 0): "done",
        (JOB, 2, 1): "done",
        (JOB, 2, 2): "done",
    }
    rows = by_key(run)
    assert rows[JOB, 1, 1]["bracket_start_ms"] == 2100
    assert rows[JOB, 1, 2]["synth_ms"] == 2190
    assert rows[JOB, 2, 2]["synth_ms"] == 1890
    assert rows[JOB, 2, 2]["bracket_start_ms"] == 4200
    assert proofs(run) == (1, 1, 0, 0)


def test_two_attempts_brackets_are_told_apart_by_their_workers() -> None:
    log = first_attempt(Log().start()).admitted(2000, JOB, 3)
    log.picked(2100, JOB, 1, worker=0)
    log.synthesized(2150, JOB, 1, 100).picked(2300, JOB, 1, worker=1)
    log.ended(2700, JOB, 1, worker=1, gpu_ms=398).ended(3000, JOB, 1, worker=0, gpu_ms=898)
    rows = by_key(only_run(report(log.data)))
    assert (rows[JOB, 1, 1]["gpu_ms"], rows[JOB, 2, 1]["gpu_ms"]) == (898, 398)


def test_an_older_attempt_s_partitions_are_in_the_report_to_the_end() -> None:
    log = first_attempt(Log().start()).admitted(2000, JOB, 3)
    log.picked(2100, JOB, 1)
    run = only_run(report(log.data))
    assert states(run) == {
        (JOB, 1, 0): "failed",
        (JOB, 1, 1): "gpu",
        (JOB, 1, 2): "synthesizing",
        (JOB, 2, 0): "pending",
        (JOB, 2, 1): "pending",
        (JOB, 2, 2): "pending",
    }
    assert proofs(run) == (0, 1, 1, 0)
    lost = report(log.data + Log().start().data)["runs"][0]
    assert (states(lost)[JOB, 1, 1], states(lost)[JOB, 1, 2]) == ("lost", "lost")


def test_a_late_failure_of_the_older_attempt_is_not_the_newer_one_s() -> None:
    log = first_attempt(Log().start()).admitted(2000, JOB, 3).picked(2100, JOB, 1)
    start_fails(log, 2200, JOB, 1)
    for index in range(3):
        log.synthesized(2300 + index, JOB, index, 500)
    run = only_run(report(log.data))
    assert states(run)[JOB, 1, 1] == "failed"
    assert proofs(run) == (0, 1, 1, 0)


def test_what_the_daemon_skips_of_the_older_attempt_is_not_the_newer_one_s() -> None:
    log = Log().start().admitted(50, JOB, 3).synthesized(100, JOB, 0).picked(1200, JOB, 0)
    proving_fails(log, 1500, JOB, 0)
    log.admitted(1600, JOB, 3)
    skips(log, 1700, JOB, 1)
    skips(log, 1700, JOB, 2)
    for index in range(3):
        log.synthesized(1800, JOB, index, 500)
        log.proved(2400 + 600 * index, JOB, index)
    log.assembled(4800, JOB)
    run = only_run(report(log.data))
    assert {key: state for key, state in states(run).items() if key[1] == 2} == {
        (JOB, 2, n): "done" for n in range(3)
    }
    assert proofs(run) == (1, 1, 0, 0)


def test_a_completed_job_sent_again_is_another_attempt() -> None:
    log = Log().start()
    for at_ms in (0, 5000, 10_000):
        log.admitted(at_ms + 50, JOB, 1).synthesized(at_ms + 100, JOB, 0)
        log.proved(at_ms + 1200, JOB, 0).assembled(at_ms + 1800, JOB)
    run = only_run(report(log.data))
    assert states(run) == {(JOB, n, 0): "done" for n in (1, 2, 3)}
    assert proofs(run) == (3, 0, 0, 0)


def test_a_synthesis_after_an_end_is_another_attempt() -> None:
    """A log that began after the first attempt's lines, or lost them, mixes no two attempts."""
    lines = [
        f"TIMELINE,25072,GPU_END,{JOB},worker=1,partition=1,gpu_ms=1416",
        f"TIMELINE,53645,SYNTH_START,{JOB},partition=1",
        f"TIMELINE,54503,SYNTH_END,{JOB},partition=1,synth_ms=856",
        f"TIMELINE,58509,GPU_START,{JOB},worker=1,partition=1",
    ]
    rows = by_key(only_run(report("\n".join([*lines, ""]).encode())))
    assert rows[JOB, 1, 1]["bracket_ms"] is None
    assert rows[JOB, 2, 1]["bracket_start_ms"] == 58509
    assert rows[JOB, 2, 1]["bracket_end_ms"] is None


def test_without_tracing_lines_a_second_synthesis_tells_that_it_was_sent_again() -> None:
    log = Log()
    for at_ms in (0, 5000):
        for index in range(2):
            log.synthesized(at_ms + 100, JOB, index).proved(at_ms + 1200 + index, JOB, index)
    run = only_run(report(log.data))
    assert states(run) == {(JOB, a, p): "done" for a in (1, 2) for p in (0, 1)}
    # Nothing says what became of the first: it was not seen to fail.
    assert proofs(run)[1] is None


# ---------------------------------------------------------------- proofs in one piece

DONE = "proof completed successfully (pipeline) proof_len=192 total_ms=9 queue_ms=0 synth_ms=1"


def in_one_piece(log: Log, at_ms: int, job: str, worker: int = 0) -> Log:
    """A WindowPoSt up to its pick-up's bracket."""
    log.enqueued(at_ms, job, "window-post")
    log.clocked(at_ms, "SYNTH_START", job, "kind=window-post")
    log.clocked(at_ms + 500, "SYNTH_END", job, "synth_ms=400")
    log.clocked(at_ms + 500, "GPU_QUEUE", job, "monolithic")
    log.clocked(at_ms + 600, "GPU_PICKUP", job, f"worker={worker}")
    return log.clocked(at_ms + 600, "GPU_START", job, f"worker={worker}")


def test_a_nameless_completion_is_the_bracket_s_that_just_closed() -> None:
    log = in_one_piece(Log().start(), 100, POST)
    log.clocked(1500, "GPU_END", POST, "worker=0,partition=3,gpu_ms=900")
    log.say(1501, DONE)
    run = only_run(report(log.data))
    assert states(run) == {(POST, 1, None): "done"}
    assert proofs(run) == (1, 0, 0, 0)
    assert run["proofs"]["seconds_per_proof"] == pytest.approx(1.401, abs=0.005)


def test_two_finalizers_may_print_at_a_time() -> None:
    other = POST.replace("12", "13")
    log = in_one_piece(in_one_piece(Log().start(), 100, POST), 110, other, worker=1)
    log.clocked(1500, "GPU_END", POST, "worker=0,partition=0,gpu_ms=900")
    log.clocked(1500, "GPU_END", other, "worker=1,partition=0,gpu_ms=890")
    log.say(1501, DONE).say(1501, DONE)
    run = only_run(report(log.data))
    assert proofs(run) == (2, 0, 0, 0)


def test_a_completion_may_be_named_in_its_span() -> None:
    log = in_one_piece(Log().start(), 100, POST)
    log.clocked(1500, "GPU_END", POST, "worker=0,gpu_ms=900")
    log.say(1501, DONE, spans=span(POST, None))
    assert proofs(only_run(report(log.data))) == (1, 0, 0, 0)


def test_a_batch_is_proved_as_its_first_sector() -> None:
    log = Log().start().enqueued(10, JOB).enqueued(11, OTHER)
    log.clocked(100, "SYNTH_START", JOB, "kind=porep-c2")
    log.clocked(900, "SYNTH_END", JOB, "synth_ms=700")
    log.clocked(1000, "GPU_PICKUP", JOB, "worker=0").clocked(1000, "GPU_START", JOB, "worker=0")
    log.clocked(2000, "GPU_END", JOB, "worker=0,gpu_ms=1000")
    for sector, job in enumerate((JOB, OTHER)):
        text = f"sector proof delivered from batch sector_idx={sector} job_id={job}"
        log.say(2001, f"{text} proof_len=1920 total_ms=1900")
    run = only_run(report(log.data))
    assert states(run) == {(JOB, 1, None): "done"}
    assert proofs(run) == (2, 0, 0, 0)


# ---------------------------------------------------------------- half a log


def test_a_log_cut_at_the_front_begins_in_the_middle() -> None:
    log = Log()
    log.ended(500_000, JOB, 0, worker=1, gpu_ms=800)
    log.clocked(500_010, "GPU_START", JOB, "worker=0,partition=1")
    log.clocked(500_020, "SYNTH_END", JOB, "partition=2,synth_ms=33000")
    log.clocked(500_030, "GPU_PICKUP", JOB, "worker=1,partition=3")
    log.ended(501_000, JOB, 1)
    run = only_run(report(log.data))
    assert states(run) == {
        (JOB, 1, 0): "done",
        (JOB, 1, 1): "done",
        (JOB, 1, 2): "queued",
        (JOB, 1, 3): "gpu",
    }
    first = by_key(run)[JOB, 1, 0]
    assert (first["bracket_end_ms"], first["gpu_ms"], first["worker"]) == (500_000, 800, 1)
    assert (first["bracket_start_ms"], first["bracket_ms"], first["queue_ms"]) == (None, None, None)
    (gpu,) = run["gpus"]
    assert gpu["span_ms"] == 990
    assert run["started"] is None
    assert run["proofs"]["seconds_per_proof"] is None


def test_a_window_post_cut_at_the_front_has_no_partition() -> None:
    log = Log().clocked(1_854_509, "GPU_END", POST, "worker=1,partition=3,gpu_ms=22638")
    assert states(only_run(report(log.data))) == {(POST, 1, None): "done"}


def test_a_job_that_had_failed_before_the_log_begins_has_failed() -> None:
    log = Log().clocked(500_000, "GPU_PICKUP", JOB, "worker=0,partition=2")
    text = f"skipping GPU prove for failed partitioned job job_id={JOB} partition=Some(2)"
    log.say(500_000, text, spans=span(JOB, 2))
    skips(log, 500_001, JOB, 3)
    run = only_run(report(log.data))
    assert states(run) == {(JOB, 1, 2): "skipped", (JOB, 1, 3): "skipped"}
    assert proofs(run) == (0, 1, 0, 0)


def whole_log() -> Log:
    log = Log().start().admitted(50, JOB, 2).synthesized(100, JOB, 0).synthesized(101, JOB, 1)
    for index, at_ms in ((0, 1200), (1, 2300)):
        log.called(at_ms, JOB, index)
        text = f"partition GPU prove complete job_id={JOB} partition={index} gpu_ms=1009 filled=0"
        log.say(at_ms + 1011, text)
    return log.assembled(3400, JOB)


def test_standard_error_alone_gives_brackets_and_kernels() -> None:
    log = whole_log()
    log.text = [line for line in log.text if not line.startswith("2026")]
    run = only_run(report(log.data))
    assert states(run) == {(JOB, 1, 0): "done", (JOB, 1, 1): "done"}
    assert by_key(run)[JOB, 1, 1]["kernel_ms"] == 550
    assert run["started"] is None
    (gpu,) = run["gpus"]
    assert gpu["kernel_pct"] == pytest.approx(100 * 1100 / 2110, abs=0.1)
    assert run["verdict"]["bottleneck"] != "unknown"


def test_standard_output_alone_gives_jobs_and_workers() -> None:
    log = whole_log()
    log.text = [line for line in log.text if line.startswith("2026")]
    run = only_run(report(log.data))
    assert states(run) == {(JOB, 1, 0): "done", (JOB, 1, 1): "done"}
    row = by_key(run)[JOB, 1, 1]
    assert (row["worker"], row["gpu"], row["gpu_ms"]) == (0, 0, 1009)
    assert (row["bracket_ms"], row["kernel_ms"], row["attribution"]) == (None, None, "none")
    assert proofs(run) == (1, 0, 0, 0)
    assert run["gpus"] == []
    assert run["verdict"]["bottleneck"] == "unknown"
    assert "2>&1" in run["verdict"]["sentence"]


def test_standard_output_alone_tells_that_a_proof_in_one_piece_is_done() -> None:
    log = Log().start().enqueued(10, POST, "window-post")
    log.say(1000, "GPU_TIMING hot_path pre-prove overhead x=0", spans=span(POST, None, 1))
    assert states(only_run(report(log.data))) == {(POST, 1, None): "gpu"}
    log.say(2000, DONE)
    run = only_run(report(log.data))
    assert states(run) == {(POST, 1, None): "done"}
    assert proofs(run) == (1, 0, 0, 0)


def test_a_daemon_without_its_pipeline_tells_when_a_proof_is_done() -> None:
    worker = f"monolithic_worker{{worker_id=0 gpu=0 job_id={JOB} proof_kind=porep-c2}}:"
    log = Log().start().enqueued(10, JOB).say(20, "processing job (monolithic)", spans=worker)
    assert states(only_run(report(log.data))) == {(JOB, 1, None): "gpu"}
    good = Log(
        log.text + Log().say(9000, DONE.replace("pipeline", "monolithic"), spans=worker).text
    )
    assert proofs(only_run(report(good.data))) == (1, 0, 0, 0)
    bad = Log(log.text + Log().say(9000, "proof failed error=e", "ERROR", spans=worker).text)
    run = only_run(report(bad.data))
    assert states(run) == {(JOB, 1, None): "failed"}
    assert proofs(run) == (0, 1, 0, 0)


def test_noise_alone_is_no_run() -> None:
    assert report(b"hello\nworld\n")["runs"] == []


# ---------------------------------------------------------------- workers and GPUs


def test_a_worker_s_gpu_is_what_its_start_line_says() -> None:
    log = Log().start(workers=(0, 0, 1, 1)).synthesized(100, JOB, 0).synthesized(100, JOB, 1)
    log.proved(1200, JOB, 0, worker=1).proved(1200, JOB, 1, worker=2)
    run = only_run(report(log.data))
    assert [by_key(run)[JOB, 1, n]["gpu"] for n in (0, 1)] == [0, 1]
    assert [(gpu["gpu"], gpu["workers"]) for gpu in run["gpus"]] == [(0, [0, 1]), (1, [2, 3])]


def test_a_pick_up_names_the_gpu_where_the_start_is_missing() -> None:
    log = Log().clocked(1000, "GPU_PICKUP", JOB, "worker=5,partition=0")
    spans = span(JOB, 0, 5).replace("gpu=0", "gpu=2")
    log.say(1000, "GPU_TIMING hot_path pre-prove overhead x=0", target=ENGINE, spans=spans)
    log.clocked(1000, "GPU_START", JOB, "worker=5,partition=0").ended(1900, JOB, 0, worker=5)
    run = only_run(report(log.data))
    assert by_key(run)[JOB, 1, 0]["gpu"] == 2
    assert [gpu["gpu"] for gpu in run["gpus"]] == [2]


OLDER = "configured_lookahead=1 partition_workers=20 effective_lookahead=20 num_gpus=2"


@pytest.mark.parametrize(
    ("started", "first_use", "gpu"),
    [
        pytest.param("lookahead=1 num_gpus=2", None, 0, id="S24"),
        pytest.param(OLDER, 0, 0, id="S28"),
        pytest.param(OLDER, 1, 1, id="S31"),
        pytest.param("(budget-gated) configured_lookahead=1 x=2", None, 1, id="S33"),
    ],
)
def test_up_to_s30_everything_runs_on_the_first_card(
    started: str, first_use: int | None, gpu: int
) -> None:
    log = Log().say(0, "starting cuzk engine pipeline_enabled=true")
    log.say(1, f"starting pipeline: synthesis task + GPU workers {started}")
    for worker in (0, 1):
        log.say(1, f"pipeline GPU worker started worker_id={worker} gpu={worker} sub_id=0")
    log.clocked(100, "SYNTH_START", JOB, "partition=0")
    log.clocked(900, "SYNTH_END", JOB, "partition=0,synth_ms=790")
    log.clocked(900, "CHAN_SEND", JOB, "partition=0").picked(1000, JOB, 0, worker=1)
    if first_use is not None:
        log.timing(f"set pool release threshold to MAX on gpu {first_use}")
        log.timing(f"d_a_cache allocated 4096 MiB on gpu {first_use}")
    log.ended(1500, JOB, 0, worker=1)
    run = only_run(report(log.data))
    workers = [1] if gpu else [0, 1]
    assert by_key(run)[JOB, 1, 0]["gpu"] == gpu
    assert [(one["gpu"], one["workers"]) for one in run["gpus"]] == [(gpu, workers)]
    assert run["gpus"][0]["span_ms"] == 500


def test_a_call_that_ended_before_the_second_card_was_used_stays_in_the_first_one_s_span() -> None:
    log = Log().say(0, "starting cuzk engine pipeline_enabled=true")
    log.say(1, f"starting pipeline: synthesis task + GPU workers {OLDER}")
    for worker in (0, 1, 2):
        gpu = worker // 2
        log.say(1, f"pipeline GPU worker started worker_id={worker} gpu={gpu} sub_id=0")
    for partition, worker, at_ms in ((0, 0, 1000), (1, 1, 3000), (2, 2, 3100)):
        log.clocked(at_ms - 900, "SYNTH_START", JOB, f"partition={partition}")
        log.clocked(at_ms, "SYNTH_END", JOB, f"partition={partition},synth_ms=895")
        log.clocked(at_ms, "CHAN_SEND", JOB, f"partition={partition}")
        log.picked(at_ms, JOB, partition, worker)
        if partition != 1:
            log.timing(f"set pool release threshold to MAX on gpu {worker // 2}")
        if partition == 0:
            log.timing("split_vectors_ms=0 setup_to_split_ms=0")
            log.timing("gpu_tid=0 ntt_msm_h_ms=400").timing("prep_msm_ms=420")
            log.timing("gpu_tid=0 batch_add_ms=50")
            log.timing("gpu_tid=0 tail_msm_ms=40 gpu_total_ms=512")
            log.timing("b_g2_msm_ms=80 num_circuits=1").ended(1515, JOB, 0, worker, 514)
    log.ended(3500, JOB, 1, 1).ended(3600, JOB, 2, 2)
    spans = {gpu["gpu"]: gpu["span_ms"] for gpu in only_run(report(log.data))["gpus"]}
    assert spans == {0: 2500, 1: 500}


# ---------------------------------------------------------------- calls of which little was seen


def test_a_call_without_its_start_is_on_its_worker_s_card() -> None:
    lines = b"""\
TIMELINE,28422,GPU_PICKUP,jobA,worker=1,partition=7
2026-11-30T09:16:36.079418Z  INFO gpu_worker{worker_id=1 gpu=1 job_id=jobA \
proof_kind=snap-update batch_size=1 partition=Some(7)}: cuzk_core::engine: \
GPU worker picked up synthesized proof batched=false partitioned=true partition=Some(7)
TIMELINE,29383,GPU_PICKUP,jobA,worker=1,partition=12
"""
    run = only_run(report(lines + b"CUZK_TIMING: d_a_cache allocated 4096 MiB on gpu 2\n"))
    assert {row["gpu"] for row in run["partitions"] if row["worker"] == 1} <= {None, 1}
    for gpu in run["gpus"]:
        assert 1 not in gpu["workers"] or gpu["gpu"] == 1


def test_a_queued_partition_that_lost_its_number_is_no_proof_in_one_piece() -> None:
    lines = b"""\
TIMELINE,11500,SYNTH_START,porep-1000-1,partition=4
TIMELINE,11502,SYNTH_START,porep-1000-1,partition=5
TIMELINE,13099,SYNTH_END,porep-1000-1,partition=5,synth_ms=1597
TIMELINE,13099,CHAN_SEND,porep-1000-1,CUZK_TIMING: async_dealloc_ms=18

TIMELINE,13110,GPU_PICKUP,porep-1000-1,worker=0,partition=5
"""
    assert states(only_run(report(lines))) == {
        ("porep-1000-1", 1, 4): "synthesizing",
        ("porep-1000-1", 1, 5): "gpu",
    }


def test_a_call_that_began_before_the_log_is_on_no_card_that_its_worker_is_not_on() -> None:
    log = Log().clocked(100, "GPU_END", JOB, "worker=3,partition=7,gpu_ms=1383")
    log.clocked(110, "GPU_PICKUP", JOB, "worker=3,partition=8")
    log.say(
        110,
        "GPU worker picked up synthesized proof batched=false partitioned=true partition=Some(8)",
        spans=span(JOB, 8, 3).replace("gpu=0", "gpu=1"),
    )
    log.clocked(111, "GPU_START", JOB, "worker=3,partition=8")
    log.clocked(900, "GPU_END", JOB, "worker=3,partition=8,gpu_ms=789")
    run = only_run(report(log.data))
    assert {row["partition"]: row["gpu"] for row in run["partitions"]} == {7: None, 8: 1}
    assert {gpu["gpu"]: gpu["workers"] for gpu in run["gpus"] if gpu["workers"]} == {1: [3]}


def test_a_block_without_bounds_teaches_nothing() -> None:
    lines = b"""\
TIMELINE,55893,CHAN_SEND,job-1,partition=5
TIMELINE,60387,GPU_START,job-1,worker=0,partition=3
CUZK_TIMING: prep_msm_ms=360
CUZK_TIMING: gpu_tid=0 ntt_msm_h_ms=395
CUZK_TIMING: gpu_tid=0 batch_add_ms=57
CUZK_TIMING: gpu_tid=0 tail_msm_ms=62 gpu_total_ms=516
TIMELINE,CUZK_TIMING: async_dealloc_ms=18
61262,GPU_END,job-1,worker=0,partition=3,gpu_ms=874
TIMELINE,61287,GPU_PICKUP,job-1,worker=0,partition=5
"""
    row = by_key(only_run(report(lines)))["job-1", 1, 3]
    assert row["state"] == "done"
    assert row["gpu_ms"] == 874
