"""Pictures made by hand: what the screen may be given, from nothing to sixteen GPUs."""

from __future__ import annotations

import math
from collections.abc import Callable

from cuzktop.dataclass import replace
from cuzktop.frame import (
    TIME_CLASSES,
    Alert,
    Frame,
    Gpu,
    Herd,
    Holding,
    Host,
    JobRow,
    Lock,
    Nvml,
    PartitionRow,
    Proofs,
    Queued,
    Shares,
    Source,
    StageStats,
    Synthesis,
    Verdict,
)
from cuzktop.logbook import LogBook

UUID = "81ffd99a-a654-41df-b65b-e5db81d9ec77"
WDPOST = "wdpost-1000-0-[12 255 3 4 5 6 7 8]"
MARKUP = "[/gpu0] 日本語のジョブ [bold]"
NOW_MS = 459_678.0
STARTED = "2026-02-19T08:12:31.442118Z"


def history(seconds: int, base: float, swing: float, *, gap: int = 0) -> tuple[float | None, ...]:
    """A curve of `seconds` bins; `gap` bins near its end were not read."""
    bins: list[float | None] = [
        max(0.0, min(100.0, base + swing * math.sin(at / 3.0) + 0.4 * swing * math.sin(at / 1.3)))
        for at in range(seconds)
    ]
    for at in range(max(0, seconds - 20), max(0, seconds - 20 + gap)):
        bins[at] = None
    return tuple(bins)


def job_id(number: int) -> str:
    """A PoRep's id as Curio makes it."""
    return f"porep-1000-{40000 + number}"


def shares(kernel: float = 45.1, barrier: float = 43.9, starved: float = 10.1) -> Shares:
    """Sixty seconds in which the rest is lock overhead and handoff."""
    rest = 100.0 - kernel - barrier - starved
    return Shares(
        span_ms=60_000.0,
        bracket_union_pct=100.0 - starved,
        bracket_sum_pct=178.2,
        lock_held_pct=100.0 - starved - rest / 3,
        gpu_section_pct=kernel + barrier,
        kernel_pct=kernel,
        time_pct=dict(
            zip(TIME_CLASSES, (kernel, barrier, rest * 2 / 3, rest / 3, starved, 0.0), strict=True)
        ),
    )


def nvml(util: float = 46.4, power: float = 312.0, *, source: str = "gpm") -> Nvml:
    """An H200's readings."""
    return Nvml(
        util_pct=util + 4.6,
        util_source=source,
        power_w=power + 21,
        power_limit_w=700.0,
        sm_clock_mhz=1980,
        temperature_c=61,
        memory_used_bytes=41_017_147_392,
        memory_total_bytes=150_754_820_096,
        held_down="",
        mean_util_pct=util,
        mean_power_w=power,
        samples=60,
        age_ms=400.0,
        util_history=history(300, util, 30.0, gap=6),
        power_history=history(300, power / 7, 14.0, gap=6),
        name="NVIDIA H200",
    )


def lock(gpu: int = 0) -> Lock:
    """A holder in its barrier, one waiter, one finishing."""
    first = 2 * gpu
    return Lock(
        holder=Holding(
            worker=first,
            job=job_id(21),
            partition=gpu % 10,
            since_ms=NOW_MS - 640.0,
            stage="barrier",
        ),
        waiting=(
            Holding(
                worker=first + 1, job=job_id(22), partition=(gpu + 4) % 10, since_ms=NOW_MS - 610.0
            ),
        ),
        finishing=(
            Holding(
                worker=first, job=job_id(21), partition=(gpu + 9) % 10, since_ms=NOW_MS - 300.0
            ),
        ),
    )


def gpu(ordinal: int = 0, kernel: float = 45.1) -> Gpu:
    """A GPU of a box that is short of memory bandwidth."""
    return Gpu(
        gpu=ordinal,
        workers=(2 * ordinal, 2 * ordinal + 1),
        lock=lock(ordinal),
        window=shares(kernel, 89.0 - kernel),
        kernel_history=history(300, kernel, 25.0),
        lock_history=history(300, 88.0, 9.0),
        nvml=nvml(kernel + 1.3, 250.0 + kernel + 17 * ordinal),
    )


def row(number: int, **changes: object) -> PartitionRow:
    """A finished partition; `number` counts back from the newest."""
    stretch = 1 + (number % 5) / 10
    start = 452_000 - 4300 * number
    lock_at = start + 6 + int(1412 * stretch)
    made = PartitionRow(
        job=job_id(21 - number // 10),
        attempt=1,
        partition=9 - number % 10,
        kind="porep",
        state="done",
        worker=number % 2,
        gpu=0,
        attribution="exact",
        attribution_by={"lock": "exact", "kernel": "exact", "cpu": "exact"},
        synth_start_ms=start - int(33_990 * stretch),
        bracket_start_ms=start,
        bracket_end_ms=start + int(4678 * stretch),
        synth_ms=int(33_120 * stretch),
        queue_ms=int(870 * stretch),
        pre_lock_cpu_ms=6,
        lock_wait_ms=int(1412 * stretch),
        lock_held_ms=int(2830 * stretch),
        ntt_msm_h_ms=int(690 * stretch),
        barrier_wait_ms=int(1402 * stretch),
        batch_add_ms=int(650 * stretch),
        tail_msm_ms=83,
        gpu_total_ms=int(2825 * stretch),
        kernel_ms=int(1423 * stretch),
        prep_msm_ms=int(2309 * stretch),
        b_g2_msm_ms=int(484 * stretch),
        bracket_ms=int(4678 * stretch),
        gpu_ms=int(4676 * stretch),
        lock_at_ms=float(lock_at),
        pickup_ms=start,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def rows(count: int = 40) -> tuple[PartitionRow, ...]:
    """A table with each kind of row in it."""
    made = [row(number) for number in range(count)]
    made[1] = replace(
        made[1],
        attribution="inferred",
        attribution_by={"lock": "exact", "kernel": "inferred", "cpu": "inferred"},
    )
    made[3] = replace(
        row(3),
        attribution="none",
        attribution_by={},
        lock_at_ms=None,
        pre_lock_cpu_ms=None,
        lock_wait_ms=None,
        lock_held_ms=None,
        ntt_msm_h_ms=None,
        barrier_wait_ms=None,
        batch_add_ms=None,
        tail_msm_ms=None,
        gpu_total_ms=None,
        kernel_ms=None,
        prep_msm_ms=None,
        b_g2_msm_ms=None,
    )
    made[4] = replace(made[4], derived=("barrier_wait_ms", "lock_held_ms"), lock_wait_ms=None)
    return tuple(made)


def job(number: int, states: str, **changes: object) -> JobRow:
    """A job from its cells: `dGqs.F-?`."""
    names = {
        "d": "done",
        "G": "gpu",
        "q": "queued",
        "s": "synthesizing",
        ".": "pending",
        "F": "failed",
        "-": "skipped",
        "?": "lost",
    }
    made = JobRow(
        job=job_id(number),
        attempt=1,
        kind="porep",
        age_ms=41_200.0 + 900 * (22 - number) * 10,
        total=len(states),
        done=states.count("d"),
        failed="F" in states,
        states=tuple(names[state] for state in states),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def syntheses(count: int = 10, oldest_ms: float = 31_000.0) -> tuple[Synthesis, ...]:
    """Syntheses in flight, oldest first; the oldest is late."""
    return tuple(
        Synthesis(
            job=job_id(22 + at // 8),
            partition=(at + 3) % 10,
            since_ms=NOW_MS - (46_000.0 if at == 0 else max(900.0, oldest_ms - 2900.0 * at)),
            expected_ms=33_100.0,
        )
        for at in range(count)
    )


def flying(frame: Frame) -> tuple[PartitionRow, ...]:
    """The partitions on their way, as lock, queue and syntheses of `frame` have them."""
    now = int(frame.now_ms)
    found: list[PartitionRow] = []

    def add(job: str, partition: int | None, state: str, **known: object) -> None:
        made = PartitionRow(job=job, attempt=1, partition=partition, kind="porep", state=state)
        found.append(replace(made, **known))  # type: ignore[arg-type]

    for gpu in frame.gpus:
        calls: list[tuple[Holding, int, float | None, int | None]] = []
        if gpu.lock.holder is not None:
            calls.append((gpu.lock.holder, 2200, now - 640.0, None))
        calls += [(one, 610, None, None) for one in gpu.lock.waiting]
        calls += [(one, 4500, now - 3130.0, 2830) for one in gpu.lock.finishing]
        for one, opened, lock_at, held in calls:
            add(
                one.job,
                one.partition,
                "gpu",
                worker=one.worker,
                gpu=gpu.gpu,
                synth_start_ms=now - opened - 33_990,
                synth_ms=33_120,
                queue_ms=870,
                pickup_ms=now - opened,
                bracket_start_ms=now - opened,
                lock_at_ms=lock_at,
                lock_held_ms=held,
                ntt_msm_h_ms=None if lock_at is None else 420,
            )
    for item in frame.gpu_queue:
        waited = int(item.age_ms(frame.now_ms))
        start = now - waited - 33_120
        add(item.job, item.partition, "queued", synth_start_ms=start, synth_ms=33_120)
    for running in frame.syntheses:
        start = now - int(running.age_ms(frame.now_ms))
        add(running.job, running.partition, "synthesizing", synth_start_ms=start)
    return tuple(found)


def book(lines: int = 120) -> LogBook:
    """The daemon's lines as it colours them, and what nobody should print."""
    kept = LogBook()
    job = job_id(21)

    def tracing(second: int, level: str, colour: int, text: str) -> bytes:
        return (
            f"\x1b[2m2026-02-19T08:{12 + second // 60:02d}:{second % 60:02d}.442118Z\x1b[0m"
            f" \x1b[{colour}m{level:>5}\x1b[0m"
            f" \x1b[2mcuzk_core::engine\x1b[0m\x1b[2m:\x1b[0m {text}"
        ).encode()

    made: list[bytes] = []
    for at in range(lines // 6):
        part = at % 10
        made += [
            f"TIMELINE,{2000 * at},SYNTH_START,{job},partition={part}".encode(),
            tracing(
                2 * at,
                "INFO",
                32,
                f"partition synthesis complete \x1b[3mjob_id\x1b[0m\x1b[2m=\x1b[0m{job}"
                f" \x1b[3mpartition\x1b[0m\x1b[2m=\x1b[0m{part} synth_ms=33120",
            ),
            b"CUZK_TIMING: gpu_tid=0 ntt_msm_h_ms=690",
            tracing(2 * at, "DEBUG", 34, "budget 41 of 150 GiB in use"),
        ]
        if at % 7 == 3:
            made.append(tracing(2 * at, "WARN", 33, "SRS evicted under memory pressure"))
        if at % 9 == 4:
            made.append(
                tracing(2 * at, "ERROR", 31, f"GPU prove failed job_id={job_id(18)} partition=2")
            )
    made += [
        b"\x1b]0;title\x07\x1b[2J\x1b[10;10Hno bell \x07, no jump, \xff no \x9b31m byte",
        f"[/gpu0] {MARKUP} \x1b[38;5;208morange\x1b[0m \x1b[38;2;90;90;250mblue\x1b[m".encode(),
        b"x" * 5000,
        b"",
        b"thread 'tokio-runtime-worker' panicked at src/engine.rs:99: no permit",
    ]
    kept.extend(made)
    return kept


def stages() -> dict[str, StageStats]:
    """Percentiles as the model gives them."""
    return {
        "synth_ms": StageStats(count=150, p50=33_120, p95=36_810, max=39_911),
        "lock_wait_ms": StageStats(count=150, p50=1412, p95=1912, max=2210),
        "queue_ms": StageStats(count=150, p50=870, p95=1910, max=3020),
        "ntt_msm_h_ms": StageStats(count=148, p50=690, p95=702, max=731),
        "batch_add_ms": StageStats(count=148, p50=650, p95=671, max=690),
        "tail_msm_ms": StageStats(count=148, p50=83, p95=85, max=88),
        "b_g2_msm_ms": StageStats(count=148, p50=484, p95=702, max=911),
        "barrier_wait_ms": StageStats(count=150, p50=1402, p95=2210, max=4350),
        "bracket_ms": StageStats(count=150, p50=4678, p95=5910, max=8957),
    }


def busy() -> Frame:
    """One GPU whose brackets are full and whose kernels run half the time."""
    made = Frame(
        now_ms=NOW_MS,
        at="2026-02-19T08:20:11.120Z",
        started=STARTED,
        dialect="S44-S45",
        source=Source(
            path="/var/log/cuzk/daemon.log",
            bytes=476_354,
            lines=3120,
            events=2100,
            torn=2,
            silent_ms=400.0,
        ),
        gpus=(gpu(),),
        syntheses=syntheses(),
        gpu_queue=(
            Queued(job=job_id(22), partition=1, since_ms=NOW_MS - 830.0),
            Queued(job=job_id(22), partition=2, since_ms=NOW_MS - 300.0),
        ),
        jobs=(
            job(19, "dddddddddd"),
            job(20, "dddddddddd"),
            job(21, "ddddddddGG"),
            job(22, "Gqqsssssss"),
            job(23, "sss......."),
        ),
        recent=rows(),
        stages=stages(),
        proofs=Proofs(completed=12, in_flight=3, seconds_per_proof=42.6),
        verdict=Verdict(
            bottleneck="cpu-memory",
            confidence=0.8,
            sentence="Kernels run 45 % of the time though brackets are 90 % full: with the lock"
            " held the GPU waits for a CPU short of memory bandwidth.",
            evidence=(
                "barrier 43.9 % of the last 60 s; prep_msm 2.3 s, 1.2 times what it was alone",
                "NVML saw 46.4 %, which agrees with the log's kernels (45.1 %)",
            ),
            advice=(
                "synthesize 6 partitions at a time instead of 10; if barrier stays above 30 %, it"
                " isn't memory bandwidth",
            ),
        ),
        host=Host(
            cpu_pct=97.0,
            memory_used_bytes=412 * 2**30,
            memory_total_bytes=503 * 2**30,
            load_1m=96.2,
            psi_cpu_pct=41.0,
            psi_memory_pct=3.2,
            daemon_pid=4711,
            daemon_cpu_pct=3080.0,
            daemon_rss_bytes=212 * 2**30,
            own_cpu_pct=0.4,
            own_rss_bytes=36 * 2**20,
        ),
        has_timeline=True,
        has_timing=True,
        herd=Herd(share=0.4, wave_size=5, gauge=0.62),
        settings={
            "listen": "0.0.0.0:9820",
            "rayon_threads": "192",
            "gpu_workers_per_device": "2",
            "max_parallel_synthesis": "10",
        },
    )
    return replace(made, in_flight=flying(made), book=book())


def many(count: int) -> Frame:
    """`count` GPUs, each a little different."""
    base = busy()
    gpus = tuple(gpu(ordinal, 30.0 + (17 * ordinal) % 53) for ordinal in range(count))
    made = replace(
        base,
        gpus=gpus,
        syntheses=syntheses(min(3 * count, 30)),
        jobs=tuple(job(10 + at, "dddddddddd") for at in range(count))
        + tuple(job(30 + at, "ddGqssss..") for at in range(count)),
        recent=tuple(
            replace(made, gpu=at % max(1, count), worker=at % max(1, 2 * count))
            for at, made in enumerate(base.recent)
        ),
        proofs=Proofs(completed=12 * count, in_flight=count, seconds_per_proof=42.6 / count),
    )
    return replace(made, in_flight=flying(made))


def four() -> Frame:
    """Four GPUs."""
    return many(4)


def eight() -> Frame:
    """Eight GPUs; one gave its last reading a while ago, one has no NVML, one lock is free."""
    base = many(8)
    gpus = list(base.gpus)
    measured = gpus[3].nvml
    assert measured is not None
    gpus[3] = replace(gpus[3], nvml=replace(measured, age_ms=42_000.0))
    gpus[5] = replace(gpus[5], nvml=None, nvml_note="GPU is lost; asking again in 30 s")
    gpus[6] = replace(gpus[6], lock=Lock(holder=None, waiting=(), finishing=()))
    return replace(base, gpus=tuple(gpus))


def nothing() -> Frame:
    """Before the first byte was read."""
    return Frame(source=Source(path="/var/log/cuzk/daemon.log"))


def reading() -> Frame:
    """While the history is read."""
    return Frame(source=Source(path="/var/log/cuzk/daemon.log", lines=4200, read_pct=43.0))


def no_timing() -> Frame:
    """TIMELINE is there, CUZK_TIMING isn't."""
    base = busy()
    bare = replace(
        gpu(),
        lock=Lock(holder=None, waiting=(), finishing=(), confidence="none"),
        window=Shares(span_ms=60_000.0, bracket_union_pct=89.9, bracket_sum_pct=178.2),
        kernel_history=(),
        lock_history=(),
        nvml=None,
        nvml_note="NVML not available: no driver library on this machine",
    )
    made = replace(
        base,
        gpus=(bare,),
        recent=tuple(
            PartitionRow(
                job=made.job,
                attempt=1,
                partition=made.partition,
                kind="porep",
                state="done",
                worker=made.worker,
                gpu=0,
                synth_start_ms=made.synth_start_ms,
                bracket_start_ms=made.bracket_start_ms,
                bracket_end_ms=made.bracket_end_ms,
                pickup_ms=made.pickup_ms,
                synth_ms=made.synth_ms,
                queue_ms=made.queue_ms,
                bracket_ms=made.bracket_ms,
                gpu_ms=made.gpu_ms,
            )
            for made in base.recent
        ),
        verdict=Verdict(
            bottleneck="unknown",
            confidence=0.0,
            sentence="Can't tell what the GPU does inside its brackets: the log has no CUZK_TIMING"
            " lines.",
            advice=("start the daemon with 2>&1, so that standard error reaches the log",),
        ),
        host=None,
        host_note="the daemon's process was not found",
        has_timing=False,
    )
    return replace(made, in_flight=flying(made))


def no_nvml() -> Frame:
    """A good log on a machine without a driver; an older daemon, whose lock is derived."""
    base = busy()
    window = replace(shares(), lock_derived=True)
    guessed = replace(
        lock(),
        confidence="inferred",
        candidates=(Holding(worker=1, job=job_id(22), partition=4, since_ms=NOW_MS - 640.0),),
    )
    bare = replace(
        gpu(), window=window, lock=guessed, nvml=None, nvml_note="NVML not available: no driver"
    )
    return replace(base, gpus=(bare,))


def failures() -> Frame:
    """A partition failed on the GPU, its job's others were skipped, an earlier job was lost."""
    base = busy()
    text = 'GPU prove failed: cudaMalloc(&cache.ptr, sz_bytes) failed: "out of memory"'
    failed = PartitionRow(
        job=job_id(21),
        attempt=1,
        partition=7,
        kind="porep",
        state="failed",
        worker=1,
        gpu=0,
        attribution="inferred",
        attribution_by={"lock": "none", "kernel": "none", "cpu": "inferred"},
        synth_start_ms=401_000,
        bracket_start_ms=446_188,
        bracket_end_ms=447_000,
        pickup_ms=446_188,
        lock_at_ms=446_400.0,
        message=text,
        synth_ms=33_410,
        queue_ms=910,
        prep_msm_ms=801,
        bracket_ms=812,
    )
    skipped = PartitionRow(
        job=job_id(21), attempt=1, partition=8, kind="porep", state="skipped", synth_ms=34_000
    )
    return replace(
        base,
        jobs=(
            job(18, "ddd???????", age_ms=512_000.0),
            job(20, "dddddddddd"),
            job(21, "dddddddF--", message=text),
            replace(job(22, "Gqqsssssss"), attempt=2),
        ),
        recent=(failed, skipped, *base.recent),
        proofs=Proofs(completed=11, failed=1, lost=1, in_flight=1, seconds_per_proof=44.1),
        alerts=(
            Alert(level="warning", at_ms=300_000.0, text="SRS evicted under memory pressure"),
            Alert(level="error", at_ms=400_000.0, text=f"{job_id(18)}/2: {text}"),
            Alert(level="error", at_ms=447_000.0, text=f"{job_id(21)}/7: {text}"),
        ),
    )


def herd() -> Frame:
    """Syntheses that start and end together: the GPU runs dry between two waves."""
    base = busy()
    window = shares(52.0, 3.0, 43.0)
    waves: tuple[float | None, ...] = tuple(
        96.0 if at % 36 < 18 else 2.0 if at % 36 > 19 else 40.0 for at in range(300)
    )
    measured = replace(nvml(53.0, 410.0), util_history=waves)
    waving = replace(
        gpu(),
        window=window,
        kernel_history=waves,
        lock_history=waves,
        nvml=measured,
        lock=Lock(holder=None, waiting=(), finishing=()),
    )
    made = replace(
        base,
        gpus=(waving,),
        gpu_queue=(),
        syntheses=tuple(
            Synthesis(
                job=job_id(22 + at // 10),
                partition=at % 10,
                since_ms=NOW_MS - (24_000.0 - 55 * at),
                expected_ms=33_100.0,
            )
            for at in range(20)
        ),
        jobs=(job(22, "ssssssssss"), job(23, "ssssssssss")),
        verdict=Verdict(
            bottleneck="herding",
            confidence=0.7,
            sentence="The GPU starves 43 % of the time because syntheses start and end together"
            " and come in waves, not because anything holds it up.",
            advice=("let the pipeline spread: raise max_parallel_synthesis from 20 to 24",),
        ),
    )
    return replace(made, in_flight=flying(made))


def ids() -> Frame:
    """Job ids of every shape that is hard on a screen."""
    base = busy()
    names = (UUID, WDPOST, MARKUP, "x" * 120, "a\x1b[31m\tb\nc\u202e\ud800")
    made = replace(
        base,
        gpus=(
            replace(
                gpu(),
                lock=Lock(
                    holder=Holding(
                        worker=0, job=UUID, partition=11, since_ms=NOW_MS - 640.0, stage="batch_add"
                    ),
                    waiting=(
                        Holding(worker=1, job=WDPOST, partition=None, since_ms=NOW_MS - 99_000.0),
                    ),
                    finishing=(
                        Holding(worker=0, job=MARKUP, partition=2, since_ms=NOW_MS - 300.0),
                    ),
                ),
            ),
        ),
        syntheses=tuple(
            Synthesis(job=name, partition=3, since_ms=NOW_MS - 12_000.0, expected_ms=None)
            for name in names
        ),
        gpu_queue=tuple(
            Queued(job=name, partition=None, since_ms=NOW_MS - 830.0) for name in names
        ),
        jobs=tuple(
            replace(job(21 + at, "dddGqsss........"), job=name, message=MARKUP if at == 2 else "")
            for at, name in enumerate(names)
        ),
        recent=tuple(
            replace(row(at), job=names[at % len(names)], partition=None if at % 5 == 1 else at)
            for at in range(20)
        ),
        alerts=(Alert(level="error", at_ms=None, text=f"{MARKUP} failed: [/red] \x1b[2J"),),
        source=replace(base.source, path="/srv/日本/[/b]/daemon.log", note=MARKUP),
    )
    return replace(made, in_flight=flying(made))


FRAMES: dict[str, Callable[[], Frame]] = {
    "busy": busy,
    "four": four,
    "eight": eight,
    "nothing": nothing,
    "reading": reading,
    "no_timing": no_timing,
    "no_nvml": no_nvml,
    "failures": failures,
    "herd": herd,
    "ids": ids,
}


def shape_of_box(gpus: int) -> Frame:
    """A box with `gpus` GPUs; none at all is a log that has just begun."""
    return many(gpus) if gpus else replace(busy(), gpus=(), recent=())
