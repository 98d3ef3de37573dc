"""Tracing lines that become events, with and without colours, in every generation's wording."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from cuzktop.events import (
    DaemonStarted,
    DialectSeen,
    EngineStarted,
    GpuCount,
    JobAssembled,
    JobCompleted,
    JobDequeued,
    JobDispatched,
    JobEnqueued,
    LogEvent,
    Noticed,
    PartitionComplete,
    PartitionFailed,
    PartitionSkipped,
    PickupSeen,
    ProveStartReturned,
    ProveStartTimed,
    SelfCheck,
    SettingSeen,
    SynthesisSeen,
    Tick,
    WorkerStarted,
)
from tests.corelog import ENGINE, Log, coloured, golden, said, scan, wall

POST = "wdpost-1000-0-[12 255 3 4 5 6 7 8]"
AT = wall(1234.567)
SINGLE = "synth_single{proof_kind=porep-c2}:"
DAEMON, SCHEDULER = "cuzk_daemon", "cuzk_core::scheduler"
OOM = r'task 812 panicked with message "cudaMalloc(&p, n)@a.cu:182 failed: \"out of memory\""'


def in_worker(job: str = "j", partition: str = " partition=Some(4)", kind: str = "porep-c2") -> str:
    return (
        f"gpu_worker{{worker_id=0 gpu=1 job_id={job} proof_kind={kind} batch_size=1{partition}}}:"
    )


OLD_SPAN = "gpu_worker{worker_id=3 gpu=0 job_id=j proof_kind=window-post batch_size=1}:"
DISABLED = "monolithic_worker{worker_id=2 gpu=1 job_id=j proof_kind=porep-c2}:"


class Case(NamedTuple):
    """A line without its time, and the events that it becomes."""

    message: str
    events: list[LogEvent]
    level: str
    spans: str
    target: str


def case(
    message: str,
    *events: LogEvent,
    level: str = "INFO",
    spans: str = "",
    target: str = ENGINE,
) -> Case:
    return Case(message, list(events), level, spans, target)


def failed(
    text: str,
    job: str = "",
    partition: int | None = None,
    worker: int | None = None,
    stage: str = "gpu",
    *,
    fails_job: bool = True,
    spans: str = "",
) -> Case:
    event = PartitionFailed(AT, job, partition, worker, stage, text, fails_job)
    return case(text, event, level="ERROR", spans=spans)


def checked(text: str, *, passed: bool, level: str) -> Case:
    events: list[LogEvent] = [SelfCheck(AT, "a b", passed, text)]
    if level == "WARN":
        events.append(Noticed(AT, "warning", text))
    return case(text, *events, level=level)


def setting(name: str, value: str) -> SettingSeen:
    return SettingSeen(name, value)


DONE = "proof_len=192 total_ms=54509 queue_ms=0 synth_ms=26397 gpu_ms=22638"
JOBS = [
    case(
        f"job enqueued job_id={POST} proof_kind=window-post priority=High queue_position=0",
        JobEnqueued(AT, POST, "window-post"),
        target=SCHEDULER,
    ),
    case(
        "job enqueued job_id=x proof_kind=y proof_kind=snap-update priority=Low queue_position=12",
        JobEnqueued(AT, "x proof_kind=y", "snap"),
        target=SCHEDULER,
    ),
    case(
        f"job dequeued for proving job_id={POST} proof_kind=winning-post",
        JobDequeued(AT, POST, "winning-post"),
        target=SCHEDULER,
    ),
    case(
        "Phase 7: dispatching per-partition synthesis job_id=j num_partitions=10"
        " partition_workers=20",
        JobDispatched(AT, "j", "porep", 10),
        DialectSeen(18, 32),
        spans=SINGLE,
    ),
    case(
        "dispatching per-partition SnapDeals synthesis job_id=j num_partitions=16"
        " partition_workers=20",
        JobDispatched(AT, "j", "snap", 16),
        DialectSeen(29, 32),
        spans="synth_batch_full{batch_size=1 proof_kind=snap-update}:",
    ),
    case(
        "dispatching per-partition synthesis (budget-gated) job_id=a b=c num_partitions=10"
        " budget_available_gib=705",
        JobDispatched(AT, "a b=c", "porep", 10),
        DialectSeen(33, 45),
        spans="synth_timeout_flush{batch_size=1}:",
    ),
    case(
        "dispatching per-partition SnapDeals synthesis (budget-gated) job_id=j num_partitions=16"
        " budget_available_gib=0",
        JobDispatched(AT, "j", "snap", 16),
        DialectSeen(33, 45),
        spans="synth_preempt_flush{batch_size=1 proof_kind=snap-update}:",
    ),
    case(
        "Phase 7: all partitions complete, proof assembled job_id=a b proof_len=1920"
        " total_ms=37860 synth_ms=325104 gpu_ms=28412",
        JobAssembled(AT, "a b", 37860),
    ),
    case(f"proof completed successfully (pipeline) {DONE}", JobCompleted(AT, "")),
    case(f"proof completed successfully (pipeline) {DONE}", JobCompleted(AT, "j"), spans=OLD_SPAN),
    case(
        "sector proof delivered from batch sector_idx=1 job_id=a b proof_len=1920 total_ms=9",
        JobCompleted(AT, "a b"),
    ),
    case("processing job (monolithic)", PickupSeen(AT, "j", None, 2, 1, "porep"), spans=DISABLED),
    case(
        "proof completed successfully (monolithic) proof_len=192 total_ms=9 queue_ms=0 deser_ms=1"
        " prove_ms=8",
        JobCompleted(AT, "j"),
        spans=DISABLED,
    ),
    *[
        case(
            f"{message} job_id={POST} partition=8 synth_ms=32415",
            SynthesisSeen(AT, POST, 8, 32415),
        )
        for message in (
            "partition synthesis complete, sending to GPU",
            "SnapDeals partition synthesis complete, sending to GPU",
            "partition synthesis complete, pushing to GPU queue",
        )
    ],
    *[
        case(
            "partition GPU prove complete job_id=j partition=3 gpu_ms=2663 filled=0",
            PartitionComplete(AT, "j", 3, 2663),
            spans=spans,
        )
        for spans in ("", in_worker())
    ],
]

CALLS = [
    case(
        "GPU worker picked up synthesized proof batched=false",
        PickupSeen(AT, "j", None, 3, 0, "window-post"),
        spans=OLD_SPAN,
    ),
    case(
        "GPU worker picked up synthesized proof batched=false partitioned=true partition=Some(4)",
        PickupSeen(AT, "j", 4, 0, 1, "porep"),
        spans=in_worker(),
    ),
    case(
        "GPU_TIMING hot_path pre-prove overhead worker_id=0 partition=None status_ms=0"
        " fail_check_ms=0 mark_busy_ms=0 total_overhead_ms=0",
        PickupSeen(AT, POST, None, 0, 1, "window-post"),
        spans=in_worker(POST, " partition=None", "window-post"),
    ),
    case(
        "GPU_TIMING spawn_blocking prove_start worker_id=11 partition=Some(8) spawn_to_enter_ms=7"
        " prove_start_ms=2554",
        ProveStartTimed(AT, 11, 8, 7, 2554),
    ),
    case(
        "GPU_TIMING spawn_blocking prove_start worker_id=1 partition=None spawn_to_enter_ms=0"
        " prove_start_ms=22633",
        ProveStartTimed(AT, 1, None, 0, 22633),
    ),
    case(
        "GPU_TIMING prove_start returned worker_id=0 partition=Some(4) total_pre_prove_ms=2554"
        " spawn_blocking_wall_ms=2554",
        ProveStartReturned(AT, "a proof_kind=b", 4, 0, 1),
        spans=in_worker("a proof_kind=b"),
    ),
]

NOT_RETURNED = "proof will NOT be returned to caller"
FAILURES = [
    failed(
        f"GPU prove start task panicked error={OOM}", "j", 4, 0, fails_job=False, spans=in_worker()
    ),
    failed(
        "GPU prove start failed error=GPU prove start failed: MalformedSrs",
        "j",
        4,
        0,
        fails_job=False,
        spans=in_worker(),
    ),
    *[
        failed(
            f"partition GPU proving {how} error={OOM} job_id=a b partition=2",
            "a b",
            2,
            worker,
            spans=spans,
        )
        for how in ("failed", "task panicked")
        for spans, worker in (("", None), (in_worker(), 0))
    ],
    failed("GPU proving failed error=b_g2_msm caught exception"),
    failed("GPU proving task panicked error=e", "j", None, 3, spans=OLD_SPAN),
    failed("proof failed error=no such file", "j", None, 2, spans=DISABLED),
    failed("proof task panicked error=e", "j", None, 2, spans=DISABLED),
    *[
        failed(
            f"{what} error=e: f job_id=a b partition=2",
            "a b",
            2,
            stage="synthesis",
        )
        for what in (
            "partition synthesis failed",
            "partition synthesis task panicked",
            "SnapDeals partition synthesis failed",
            "SnapDeals partition synthesis task panicked",
        )
    ],
    failed("synthesis failed error=e", stage="synthesis", spans=SINGLE),
    failed("synthesis task panicked error=e", stage="synthesis", spans=SINGLE),
    *[
        failed(text, stage="load", spans=SINGLE)
        for text in (
            "Phase 7: C1 parse/SRS load failed error=SRS param file not found for Porep32G: /x",
            "Phase 7: C1 parse task panicked error=e",
            "SnapDeals parse/SRS load failed error=e",
            "SnapDeals parse task panicked error=e",
        )
    ],
    case(
        "skipping GPU prove for failed partitioned job job_id=a b partition=Some(0)",
        PartitionSkipped(AT, "a b", 0, discarded=False),
        spans=in_worker(),
    ),
    case(
        "skipping synthesis for failed job job_id=j partition=7",
        PartitionSkipped(AT, "j", 7, discarded=False),
    ),
    case(
        "skipping synthesis for failed SnapDeals job job_id=j partition=15",
        PartitionSkipped(AT, "j", 15, discarded=False),
    ),
    case(
        "discarding GPU result for failed job job_id=j partition=1",
        PartitionSkipped(AT, "j", 1, discarded=True),
    ),
    *[
        checked(text, passed=True, level="INFO")
        for text in (
            "Phase 7: PoRep proof self-check PASSED job_id=a b",
            "Batched PoRep proof self-check PASSED job_id=a b sector_idx=1",
            "Pipeline single-sector PoRep proof self-check PASSED job_id=a b",
        )
    ],
    *[
        checked(text, passed=False, level="ERROR")
        for text in (
            f"Phase 7: PoRep proof self-check FAILED — {NOT_RETURNED}"
            " job_id=a b proof_len=1920 sector=62 miner=1000",
            f"Phase 7: PoRep proof self-check error — {NOT_RETURNED} job_id=a b error=no key",
            f"Batched PoRep proof self-check FAILED — {NOT_RETURNED}"
            " job_id=a b sector_idx=1 proof_len=1920 sector=62 miner=1000",
            f"Pipeline single-sector PoRep proof self-check error — {NOT_RETURNED}"
            " job_id=a b error=e",
        )
    ],
    *[
        checked(text, passed=False, level="WARN")
        for text in (
            "Phase 7: PoRep proof self-check FAILED — running per-partition verification..."
            " job_id=a b proof_len=1920 sector=62 miner=1000",
            "Batched PoRep proof self-check FAILED — proof is invalid! job_id=a b sector_idx=0"
            " proof_len=1920 sector=62 miner=1000",
        )
    ],
    *[
        case(text, Noticed(AT, noticed, text), level=level, target=target)
        for level, noticed, target, text in (
            ("WARN", "warning", "cuzk_core::pinned_pool", "cudaHostAlloc failed size_gib=3.8 n=2"),
            ("WARN", "warning", "cuzk_core::memory", "acquire request exceeds total budget — will"),
            ("ERROR", "error", "cuzk_server::service", "prove failed error=channel closed"),
            ("ERROR", "error", DAEMON, "failed to bind status HTTP server addr=:1 error=in use"),
            (
                "WARN",
                "warning",
                ENGINE,
                "assembler not found, discarding partition result job_id=j",
            ),
            ("ERROR", "error", ENGINE, "Phase 7: per-partition verification results (invalid) x=1"),
            ("WARN", "warning", "cuzk_core::prover", "partition 3 proof INVALID partition=3"),
        )
    ],
]

PIPELINE = "starting pipeline: synthesis task + GPU workers"
BUDGET = "configured_lookahead=1 max_partitions_in_budget=53 effective_lookahead=32"
BATCHES = "max_batch_size=1 max_batch_wait_ms=10000 slot_size=0 synthesis_concurrency=1"
PACER = 'waiting=1 ema_waiting="7.8"'
PACED = 'ema_synth_ms="0" interval_ms=9 integral="0" bootstrap=true rebootstraps=0'
START = [
    case("cuzk-daemon starting", DaemonStarted(AT), target=DAEMON),
    case(
        "configuration loaded listen=0.0.0.0:9820",
        setting("listen", "0.0.0.0:9820"),
        target=DAEMON,
    ),
    case(
        "set CUZK_GPU_THREADS for C++ groth16_pool gpu_threads=32",
        setting("gpu_threads", "32"),
        target=DAEMON,
    ),
    case(
        "rayon global thread pool configured rayon_threads=192",
        DialectSeen(17, 45),
        setting("rayon_threads", "192"),
        target=DAEMON,
    ),
    case(
        "status HTTP server listening addr=0.0.0.0:9821",
        setting("status_listen", "0.0.0.0:9821"),
        target=DAEMON,
    ),
    case("starting cuzk engine pipeline_enabled=true", EngineStarted(AT)),
    case(
        "memory budget initialized total_budget_gib=750",
        DialectSeen(33, 45),
        setting("total_budget_gib", "750"),
    ),
    case("CUDA pinned memory pool initialized", DialectSeen(41, 45)),
    case(
        "initializing GPU workers num_gpus=2 gpu_workers_per_device=3 total_workers=6 gpus=[0, 1]",
        GpuCount((0, 1), 3),
        DialectSeen(19, 45),
        setting("gpu_workers_per_device", "3"),
    ),
    case(
        "initializing GPU workers num_workers=1 gpus=[0]",
        GpuCount((0,), 1),
        DialectSeen(3, 18),
    ),
    case(f"{PIPELINE} lookahead=1 num_gpus=1", DialectSeen(8, 24)),
    case(
        f"{PIPELINE} configured_lookahead=1 partition_workers=20 effective_lookahead=20 num_gpus=2",
        DialectSeen(25, 32),
        setting("partition_workers", "20"),
    ),
    case(f"{PIPELINE} (budget-gated) {BUDGET} num_gpus=2", DialectSeen(33, 36)),
    case(
        f"{PIPELINE} (budget-gated) {BUDGET} synth_worker_count=18 num_gpus=2",
        DialectSeen(37, 45),
        setting("synth_worker_count", "18"),
    ),
    case(f"synthesis dispatcher started {BATCHES}", DialectSeen(16, 17)),
    case(
        f"synthesis dispatcher started {BATCHES} partition_workers=20",
        DialectSeen(18, 32),
        setting("partition_workers", "20"),
    ),
    case(f"synthesis dispatcher started (budget-gated) {BATCHES}", DialectSeen(33, 45)),
    case("synthesis priority dispatcher started", DialectSeen(39, 41)),
    case("synthesis priority dispatcher started (PI pacer)", DialectSeen(42, 45)),
    case(
        "spawning GPU workers with Phase 8 dual-worker interlock gpu_workers_per_device=2",
        DialectSeen(19, 45),
    ),
    case(
        "GPU queue target dispatch pacer enabled gpu_queue_target=8",
        DialectSeen(42, 45),
        setting("max_gpu_queue_depth", "8"),
    ),
    case("pipeline GPU worker started worker_id=3 gpu=1 sub_id=1", WorkerStarted(3, 1)),
    case("pipeline GPU worker started worker_id=0 gpu=0", WorkerStarted(0, 0)),
    case(
        f'pacer: status total=5 {PACER} ema_gpu_ms="1823" interval_ms=9 integral="0"'
        " bootstrap=true",
        DialectSeen(42, 42),
    ),
    case(
        f'pacer: status total=5 {PACER} gpu_proc_ms="1823" gpu_eff_ms="911" {PACED}',
        DialectSeen(43, 43),
    ),
    case(
        f'pacer: status total=5 in_flight=5 {PACER} gpu_proc_ms="1823" gpu_eff_ms="911" {PACED}',
        DialectSeen(44, 45),
    ),
    case(
        "GPU prove complete (split) proof_count=1 proof_bytes=192 gpu_ms=2560",
        DialectSeen(24, 45),
        target="cuzk_core::pipeline",
    ),
]

# Lines whose text is near that of the ones above, or that only other people's tools read.
QUIET = [
    case(
        "partition synthesis complete partition=8 synth_ms=32415 is_pinned=true",
        spans='synthesize_partition{job_id="j" partition=8}:',
        target="cuzk_core::pipeline",
    ),
    case(
        "GPU prove complete proof_count=1 proof_bytes=192 gpu_ms=2663",
        spans="gpu_prove{circuit_id=porep-32g partition=Some(3)}:",
        target="cuzk_core::pipeline",
    ),
    case(
        'PoRep proof self-check PASSED job_id="j"',
        spans='verify_porep_proof{job_id="j"}:',
        target="cuzk_core::prover",
    ),
    case("processing batch batch_size=1 proof_kind=porep-c2 slot_size=0", spans=SINGLE),
    case("FIN_TIMING malloc_trim (success path) job_id=j partition=8 malloc_trim_ms=184"),
    case("pinned pool: checkin size_gib=3.882613718509674", target="cuzk_core::pinned_pool"),
    case("verify_seal:start: SectorId(57)", target="filecoin_proofs::api::seal"),
    case("received frame=Data { stream_id: 1 }", level="DEBUG", target="h2::codec::framed_read"),
    case("anything", level="TRACE"),
    case("somebody else's trouble", level="WARN", target="hyper::proto"),
]


def line(one: Case) -> bytes:
    return Log().say(1234.567, one.message, one.level, one.target, one.spans).data


CASES = [*JOBS, *CALLS, *FAILURES, *START]


@pytest.mark.parametrize("one", [pytest.param(one, id=one.message[:50]) for one in CASES])
def test_a_line_becomes_events_coloured_or_not(one: Case) -> None:
    assert scan(line(one))[0] == one.events
    assert scan(coloured(line(one)))[0] == one.events


@pytest.mark.parametrize("one", [pytest.param(one, id=one.message[:50]) for one in QUIET])
def test_a_line_of_no_interest_tells_nothing_but_its_time(one: Case) -> None:
    timing = b"CUZK_TIMING: prep_msm_ms=5\n"
    for quiet in (line(one), coloured(line(one))):
        assert said(quiet) == []
        assert scan(quiet)[1].unparsed == 0
        assert Tick(AT) in scan(timing + quiet)[0]
        assert scan(quiet + timing)[0][0] == Tick(AT)


def test_a_fingerprint_counts_once_a_run() -> None:
    split = line(START[-1])
    pacer = line(START[-2])
    banner = line(START[0])
    assert scan(3 * split + 3 * pacer)[0] == [DialectSeen(24, 45), DialectSeen(44, 45)]
    seen = scan(2 * split + banner + 2 * split)[0]
    assert seen == [DialectSeen(24, 45), DaemonStarted(AT), DialectSeen(24, 45)]


@pytest.mark.parametrize(
    "text",
    [
        "2026-13-14T01:02:03.456789Z  INFO cuzk_daemon: cuzk-daemon starting",
        "2026-03-14T01:02:03.456789Z  INFO no target here",
        "2026-03-14T01:02:03.456789Z ERROR ",
        "2026-03-14T01:02:03.456789Z ",
        "2026-03-14T01:02:03.456789Z ERROR cuzk_core::engine:",
        "2026-03-14T01:xx:03.456789Z ERROR cuzk_core::engine: synthesis failed error=e",
        "0001-01-01T00:00:00.000000Z ERROR cuzk_core::engine: synthesis failed error=e",
        "\x1b[2m2026-03-14T01:02:03.456789Z\x1b[0m \x1b[32m INFO\x1b[0m \x1b[2mcuzk_core::engine",
        "\x1b[2m2",
        "\x1b[2m2026-03-14T01:02:03.45",
    ],
)
def test_a_damaged_line_says_nothing(text: str) -> None:
    assert said(f"{text}\n".encode()) == []


PLAIN = b"""\
2026-03-14T01:02:03.456799Z  INFO cuzk_core::engine: starting cuzk engine pipeline_enabled=true
2026-03-14T01:42:03.573489Z ERROR gpu_worker{worker_id=0 gpu=0 job_id=porep-1000-60 \
proof_kind=porep-c2 batch_size=1 partition=Some(4)}: cuzk_core::engine: GPU prove start failed \
error=GPU prove start failed: MalformedSrs
"""


def test_the_colours_of_these_tests_are_the_loggers_own() -> None:
    assert coloured(PLAIN) == golden("c10_ansi")
    assert said(PLAIN) == said(golden("c10_ansi"))


@pytest.mark.parametrize("name", ["c1_s45_start_up", "c2_s45_two_workers", "c7_s45_window_post"])
def test_a_coloured_log_says_the_same(name: str) -> None:
    assert b"\x1b" in coloured(golden(name))
    assert scan(coloured(golden(name)))[0] == scan(golden(name))[0]
