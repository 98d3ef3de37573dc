"""Frames and reports made by hand, with figures of a kind that a real daemon gives.

`BUSY` is a daemon of today with two workers on one GPU; `OLD` one that prints no lock lines; `DEAF`
a log without the daemon's standard error; `EIGHT` a box of eight cards with everything in excess.
"""

from __future__ import annotations

from cuzktop.dataclass import replace
from cuzktop.frame import (
    Alert,
    Frame,
    Gpu,
    GpuReport,
    Holding,
    Host,
    JobRow,
    Lock,
    Nvml,
    PartitionRow,
    Proofs,
    Queued,
    RunReport,
    Shares,
    Source,
    StageStats,
    Synthesis,
    Verdict,
)

ROW = PartitionRow(
    job="porep-1000-40021",
    attempt=1,
    partition=3,
    kind="porep",
    state="done",
    worker=1,
    gpu=0,
    attribution="exact",
    attribution_by={"lock": "exact", "kernel": "exact", "cpu": "exact"},
    synth_start_ms=2330,
    bracket_start_ms=37712,
    bracket_end_ms=41390,
    synth_ms=33120,
    queue_ms=2170,
    pre_lock_cpu_ms=6,
    lock_wait_ms=1412,
    lock_held_ms=1830,
    ntt_msm_h_ms=690,
    barrier_wait_ms=402,
    batch_add_ms=650,
    tail_msm_ms=83,
    gpu_total_ms=1825,
    kernel_ms=1423,
    prep_msm_ms=1909,
    b_g2_msm_ms=484,
    bracket_ms=3678,
    gpu_ms=3676,
)

INFERRED_ROW = replace(
    ROW,
    partition=4,
    worker=0,
    attribution="inferred",
    attribution_by={"lock": "exact", "kernel": "exact", "cpu": "inferred"},
    bracket_ms=3702,
)

OLD_ROW = replace(
    ROW,
    derived=("barrier_wait_ms", "lock_held_ms"),
    pre_lock_cpu_ms=None,
    lock_wait_ms=None,
)

FAILED_ROW = PartitionRow(
    job="porep-1000-40022", attempt=2, partition=7, kind="porep", state="failed", worker=0, gpu=0
)

WHOLE_ROW = PartitionRow(
    job="wdpost-1000-0-[12 255 3 4 5 6 7 8]",
    attempt=1,
    partition=None,
    kind="window-post",
    state="done",
    worker=0,
    gpu=0,
    bracket_start_ms=50000,
    bracket_end_ms=62000,
    bracket_ms=12000,
    gpu_ms=11900,
)

VERDICT = Verdict(
    bottleneck="cpu-memory",
    confidence=0.8,
    sentence=(
        "The CPU holds the GPU back: the lock is held 90 % of the last minute, "
        "kernels run 47.7 % of it."
    ),
    evidence=(
        "barrier 42.1 % of the window: kernels wait for prep_msm, 1.91s where 0.9s would do",
        "ten syntheses share the memory's bandwidth with prep_msm",
    ),
    advice=("Run fewer syntheses at a time (10 → 6); if seconds per proof rise, this is wrong.",),
)

SHARES = Shares(
    span_ms=60000.0,
    bracket_union_pct=91.04,
    bracket_sum_pct=178.2,
    lock_held_pct=90.2,
    gpu_section_pct=89.6,
    kernel_pct=47.7,
    time_pct={
        "kernel": 47.7,
        "barrier": 42.1333,
        "lock_overhead": 0.3667,
        "handoff": 0.84,
        "starved": 8.96,
        "no_work": 0.0,
    },
)

NVML = Nvml(
    util_pct=51.0,
    util_source="gpm",
    power_w=398.4,
    power_limit_w=700.0,
    sm_clock_mhz=1980,
    temperature_c=54,
    memory_used_bytes=41_000_000_000,
    memory_total_bytes=150_754_820_096,
    held_down="",
    mean_util_pct=29.6,
    mean_power_w=311.7,
    samples=120,
    age_ms=340.0,
    name="NVIDIA H200",
)

NOW_MS = 459678.0

LOCK = Lock(
    holder=Holding(
        worker=0, job="porep-1000-40021", partition=3, since_ms=NOW_MS - 640.0, stage="ntt_msm_h"
    ),
    waiting=(Holding(worker=1, job="porep-1000-40021", partition=7, since_ms=NOW_MS - 610.0),),
    finishing=(Holding(worker=0, job="porep-1000-40021", partition=2, since_ms=NOW_MS - 300.4),),
)

SOURCE = Source(path="daemon.log", bytes=476354, lines=3120, events=2100, torn=2, unparsed=0)

BUSY = Frame(
    now_ms=NOW_MS,
    at="2026-02-19T08:20:11.120Z",
    run=0,
    started="2026-02-19T08:12:31.442118Z",
    dialect="S44-S45",
    source=SOURCE,
    gpus=(Gpu(gpu=0, workers=(0, 1), lock=LOCK, window=SHARES, nvml=NVML),),
    syntheses=(
        Synthesis(
            job="porep-1000-40022", partition=0, since_ms=NOW_MS - 62010.0, expected_ms=33100.0
        ),
        Synthesis(
            job="porep-1000-40022", partition=4, since_ms=NOW_MS - 12010.0, expected_ms=33100.0
        ),
        Synthesis(job="snap-1000-7", partition=15, since_ms=NOW_MS - 900.0, expected_ms=None),
    ),
    gpu_queue=(Queued(job="porep-1000-40021", partition=1, since_ms=NOW_MS - 830.0),),
    jobs=(
        JobRow(
            job="porep-1000-40020",
            attempt=2,
            kind="porep",
            age_ms=52000.0,
            total=10,
            done=6,
            failed=True,
            states=("done",) * 6 + ("failed", "skipped", "skipped", "skipped"),
            message='task 812 panicked with message "cudaMalloc failed: out of memory"',
        ),
        JobRow(
            job="porep-1000-40021",
            attempt=1,
            kind="porep",
            age_ms=41200.0,
            total=10,
            done=4,
            failed=False,
            states=(
                *("done", "queued", "gpu", "gpu", "done", "done", "done", "gpu"),
                *("synthesizing", "pending"),
            ),
        ),
    ),
    recent=(INFERRED_ROW, ROW),
    stages={"synth_ms": StageStats(count=24, p50=33120.0, p95=36810.0, max=39911.0)},
    proofs=Proofs(completed=12, failed=1, in_flight=2, lost=0, seconds_per_proof=42.6),
    verdict=VERDICT,
    alerts=(
        Alert(
            level="error",
            at_ms=401000.0,
            text="porep-1000-40020 partition 6 failed on worker 0: cudaMalloc: out of memory",
        ),
        Alert(level="warning", at_ms=None, text="pinned pool checkout FAILED"),
    ),
    host=Host(
        cpu_pct=96.2,
        memory_used_bytes=412_000_000_000,
        memory_total_bytes=790_000_000_000,
        load_1m=188.4,
        psi_cpu_pct=43.1,
        psi_memory_pct=2.2,
        daemon_pid=4242,
        daemon_cpu_pct=17230.0,
        daemon_rss_bytes=370_000_000_000,
    ),
    has_timeline=True,
    has_timing=True,
)

OLD = replace(
    BUSY,
    dialect="S19-S23",
    since_ms=200000.0,
    gpus=(
        Gpu(
            gpu=0,
            workers=(0, 1),
            lock=Lock(
                holder=Holding(
                    worker=1, job="porep-1000-40021", partition=3, since_ms=None, stage=None
                ),
                waiting=(),
                finishing=(),
                candidates=(Holding(worker=0, job="porep-1000-40021", partition=7, since_ms=None),),
                confidence="inferred",
            ),
            window=replace(SHARES, lock_derived=True),
            nvml_note="NVML not available: libnvidia-ml.so.1 not found",
        ),
    ),
    recent=(OLD_ROW,),
    host=None,
    host_note="psutil is not installed",
)

DEAF = Frame(
    now_ms=91000.0,
    source=replace(SOURCE, path="out.log", events=40),
    gpus=(
        Gpu(
            gpu=0,
            workers=(),
            lock=Lock(holder=None, waiting=(), finishing=(), confidence="none"),
            window=None,
        ),
    ),
    proofs=Proofs(completed=2),
    verdict=Verdict(
        bottleneck="unknown",
        confidence=0.0,
        sentence="Can't tell: the log says nothing about the GPU.",
    ),
)

LONG_JOB = "ps-porep-1000-40021-987-a-client-with-long-ids-0f5cb8be-9a1c-4f3e-8e47-3d2a9c1b7e55"
WILD_JOB = "job\x1b[31m\N{REPLACEMENT CHARACTER}\t证明\u0301\u202e-[/gpu0]"

EIGHT = replace(
    BUSY,
    gpus=tuple(
        Gpu(
            gpu=gpu,
            workers=tuple(range(4 * gpu, 4 * gpu + 4)),
            lock=replace(
                LOCK,
                holder=Holding(
                    worker=4 * gpu,
                    job=LONG_JOB,
                    partition=gpu,
                    since_ms=NOW_MS - 9e6,
                    stage="barrier",
                ),
                waiting=tuple(
                    Holding(
                        worker=4 * gpu + n, job=WILD_JOB, partition=None, since_ms=NOW_MS - 1e3 * n
                    )
                    for n in range(1, 4)
                ),
            ),
            window=SHARES if gpu % 2 else None,
            nvml=replace(NVML, held_down="power cap", age_ms=45000.0, note="util: MIG is on"),
        )
        for gpu in range(8)
    ),
    syntheses=tuple(
        Synthesis(job=LONG_JOB, partition=n, since_ms=NOW_MS - (4e4 - 1e3 * n), expected_ms=3e4)
        for n in range(30)
    ),
    gpu_queue=tuple(
        Queued(job=WILD_JOB, partition=n, since_ms=NOW_MS - (9e5 - n)) for n in range(20)
    ),
    jobs=tuple(
        JobRow(
            job=LONG_JOB if n % 2 else WILD_JOB,
            attempt=1 + n % 3,
            kind=None if n % 4 else "snap",
            age_ms=None if n % 5 == 0 else 1e5 * n,
            total=None if n % 3 == 0 else 200,
            done=n,
            failed=n % 7 == 0,
            states=("lost", "done", "unheard-of") * (2 * n),
            message="the prover gave up: " + "x" * 300 + " and said no more" * 20,
        )
        for n in range(20)
    ),
    recent=(
        replace(FAILED_ROW, job=WILD_JOB),
        WHOLE_ROW,
        replace(ROW, job=LONG_JOB, gpu=7, worker=31),
        INFERRED_ROW,
    ),
    alerts=tuple(
        Alert(level=("error", "warning", "info", "loud")[n % 4], at_ms=1e4 * n, text="odd " * n)
        for n in range(40)
    ),
    source=replace(
        SOURCE,
        path="/var/log/" + "deep/" * 60 + "daemon.log",
        silent_ms=41000.0,
        read_pct=12.5,
        note="the file was rotated 12s ago",
    ),
)

GPU_REPORT = GpuReport(
    gpu=0,
    workers=(0, 1),
    shares=Shares(
        span_ms=605310.2,
        bracket_union_pct=89.9,
        bracket_sum_pct=178.2,
        lock_held_pct=89.6,
        gpu_section_pct=89.0,
        kernel_pct=45.1,
        time_pct={
            "kernel": 45.1,
            "barrier": 43.9,
            "lock_overhead": 0.6,
            "handoff": 0.3,
            "starved": 10.1,
            "no_work": 0.0,
        },
    ),
    gap_count=139,
    gap_mean_ms=409.7,
    nvml_util_pct=46.4,
    nvml_power_w=312.0,
    nvml_samples=488,
    nvml_source="utilization.gpu",
)

STAGES = {
    "synth_ms": StageStats(count=150, p50=33120.0, p95=36810.0, max=39911.0),
    "queue_ms": StageStats(count=150, p50=2170.0, p95=4100.0, max=6020.0),
    "pre_lock_cpu_ms": StageStats(count=149, p50=6.0, p95=11.0, max=30.0),
    "lock_wait_ms": StageStats(count=149, p50=1412.0, p95=1800.0, max=2500.0),
    "lock_held_ms": StageStats(count=149, p50=1830.0, p95=1990.0, max=2210.0),
    "ntt_msm_h_ms": StageStats(count=149, p50=690.0, p95=730.0, max=811.0),
    "barrier_wait_ms": StageStats(count=149, p50=402.0, p95=660.0, max=900.0),
    "bracket_ms": StageStats(count=150, p50=3678.0, p95=4210.0, max=5003.0),
}

RUN = RunReport(
    run=0,
    started="2026-02-19T08:12:31.442118Z",
    dialect="S44-S45",
    span_ms=611400.0,
    proofs=Proofs(completed=15, failed=0, in_flight=0, lost=0, seconds_per_proof=42.6),
    gpus=(GPU_REPORT,),
    stages=STAGES,
    verdict=VERDICT,
    settings={"partition_workers": "10", "gpu_workers_per_device": "2"},
)

OLD_RUN = replace(
    RUN,
    run=1,
    dialect="S19-S23",
    gpus=(
        replace(
            GPU_REPORT,
            shares=replace(GPU_REPORT.shares, lock_derived=True),
            nvml_util_pct=None,
            nvml_power_w=None,
            nvml_samples=0,
            nvml_source=None,
            gap_count=1,
            gap_mean_ms=None,
        ),
    ),
    stages={k: s for k, s in STAGES.items() if k not in {"pre_lock_cpu_ms", "lock_wait_ms"}},
    proofs=Proofs(completed=3, failed=1, in_flight=1, lost=2),
    alerts=(Alert(level="error", at_ms=612000.0, text="GPU prove start failed"),),
)

IDLE_RUN = RunReport(
    run=2,
    started=None,
    dialect=None,
    span_ms=None,
    proofs=Proofs(),
    gpus=(),
    stages={},
    verdict=Verdict(bottleneck="unknown", confidence=0.0, sentence="Can't tell: no job came."),
)
