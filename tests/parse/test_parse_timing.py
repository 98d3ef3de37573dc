"""C1 to C20: what the prove calls measured."""

from __future__ import annotations

import pytest

from cuzktop.events import (
    BarrierWaited,
    BatchAdded,
    BG2Msm,
    CardSeen,
    Deallocated,
    DialectSeen,
    Epilogue,
    LockAcquired,
    LockReleased,
    LogEvent,
    NttMsmH,
    PrepMsm,
    PrestageSeen,
    SplitVectors,
    TailMsm,
)
from tests.corelog import said, scan

LONG_SETUP = "sync_ms=3 trim_ms=1 alloc_ms=9 upload_ms=4 total_ps_ms=18"
TEMPLATES: list[tuple[str, str, LogEvent]] = [
    ("C1", "split_vectors_ms=1 setup_to_split_ms=18239", SplitVectors(1, 18239)),
    ("C2", "prep_msm_ms=1909", PrepMsm(1909)),
    ("C3", "b_g2_msm_ms=484 num_circuits=10", BG2Msm(484, 10)),
    ("C4", "pre_lock_cpu_ms=5 mutex_wait_ms=2317", LockAcquired(5, 2317)),
    ("C6", "gpu_tid=0 ntt_msm_h_ms=412", NttMsmH(0, 412)),
    ("C7", "gpu_tid=1 barrier_wait_ms=1494", BarrierWaited(1, 1494)),
    ("C8", "gpu_tid=0 batch_add_ms=553", BatchAdded(0, 553)),
    ("C9", "gpu_tid=0 tail_msm_ms=86 gpu_total_ms=2547", TailMsm(0, 86, 2547)),
    ("C10", "mutex_held_ms=2548 total_start_fn_ms=2553", LockReleased(2548, 2553)),
    ("C11", "epilogue_ms=2 pre_destructor_ms=2659", Epilogue(2, 2659)),
    ("C12", "async_dealloc_ms=305", Deallocated(305)),
    ("C13", "host_register=fallback err=712", PrestageSeen("host_register_fallback", 712, None)),
    (
        "C14",
        "prestage_vram free_mib=13890 usable_mib=13378 need_da_mib=4096 need_dbc_mib=8192"
        " total_mib=12288",
        PrestageSeen("vram", None, None),
    ),
    ("C15", "prestage_setup=skip_vram", PrestageSeen("skip_vram", None, None)),
    (
        "C16",
        "prestage_setup=ok domain=134217728 lot_of_memory=1",
        PrestageSeen("ok", None, None),
    ),
    (
        "C17",
        f"prestage_setup=ok domain=134217728 lot_of_memory=0 {LONG_SETUP}",
        PrestageSeen("ok", None, 18),
    ),
    ("C18", "prestage_setup=fallback err=2", PrestageSeen("fallback", 2, None)),
    ("C19", "set pool release threshold to MAX on gpu 0", CardSeen(0)),
    ("C20", "d_a_cache allocated 4096 MiB on gpu 1", CardSeen(1)),
    # Wall clocks step, so what is measured by them can be negative.
    (
        "C1 back in time",
        "split_vectors_ms=-7 setup_to_split_ms=-3600001",
        SplitVectors(-7, -3600001),
    ),
    ("C11 back in time", "epilogue_ms=-2 pre_destructor_ms=-341", Epilogue(-2, -341)),
    ("C12 back in time", "async_dealloc_ms=-5", Deallocated(-5)),
]


@pytest.mark.parametrize(("text", "event"), [pytest.param(t, e, id=n) for n, t, e in TEMPLATES])
def test_a_line_becomes_an_event(text: str, event: LogEvent) -> None:
    assert said(f"CUZK_TIMING: {text}\n".encode()) == [event]


NTT = (
    "CUZK_NTT_H: d_b_alloc=3ms ntt_kernels=0ms coset_intt_sync=60ms msm_init=22ms"
    " msm_invoke=323ms msm_dtor=4ms total=411ms"
)


def test_a_known_line_of_no_use_is_no_error() -> None:
    assert said(f"{NTT}\n".encode()) == []
    counts = scan(f"{NTT}\n".encode())[1]
    assert (counts.unparsed, counts.unknown_timing) == (0, 0)


@pytest.mark.parametrize(
    ("line", "steps"),
    [
        ("CUZK_TIMING: pre_lock_cpu_ms=5 mutex_wait_ms=0", (41, 45)),
        ("CUZK_TIMING: gpu_tid=0 barrier_wait_ms=0", (41, 45)),
        ("CUZK_TIMING: epilogue_ms=2 pre_destructor_ms=2659", (10, 23)),
        (f"CUZK_TIMING: prestage_setup=ok domain=1 lot_of_memory=1 {LONG_SETUP}", (21, 21)),
        ("CUZK_TIMING: prestage_setup=skip_vram", (20, 27)),
        (NTT, (28, 45)),
        ("TIMELINE,5,CHAN_SEND,j,", (16, 37)),
        ("TIMELINE,5,GPU_QUEUE,j,monolithic", (38, 45)),
        ("TIMELINE,5,SYNTH_START,j,snap_partition=0", (29, 36)),
    ],
)
def test_a_line_tells_which_steps_print_it_once(line: str, steps: tuple[int, int]) -> None:
    events = scan(f"{line}\n{line}\n{line}\n".encode())[0]
    assert [event for event in events if isinstance(event, DialectSeen)] == [DialectSeen(*steps)]


@pytest.mark.parametrize(
    "text",
    [
        "gpu_tid=0",
        "gpu_tid=0 ",
        "gpu_tid=0 barrier_wait_ms=",
        "gpu_tid=0 tail_msm_ms=86",
        "gpu_tid=0 tail_msm_ms=86 gpu_total_ms=25 47",
        "gpu_tid=x ntt_msm_h_ms=412",
        "split_vectors_ms=1",
        "prep_msm_ms=19O9",
        "prep_msm_ms=",
        "prep_msm_ms=1909 more=1",
        "b_g2_msm_ms=484",
        "pre_lock_cpu_ms=5 mutex_held_ms=5",
        "mutex_held_ms=2548",
        "epilogue_ms=2",
        "async_dealloc_ms=3.5",
        "prestage_setup=maybe",
        "d_a_cache allocated 4096 MiB on gpu",
        "set pool release threshold to MAX on gpu x",
        "prep_msm_ms=" + "9" * 5000,
        "prep_msm_ms=" + "9" * 350,
        # Their clocks only rise, so what is below zero is damage.
        "prep_msm_ms=-1",
        "b_g2_msm_ms=484 num_circuits=-1",
        "pre_lock_cpu_ms=5 mutex_wait_ms=-3",
        "gpu_tid=-1 ntt_msm_h_ms=412",
        "gpu_tid=0 barrier_wait_ms=-9",
        "gpu_tid=0 tail_msm_ms=-86 gpu_total_ms=2547",
        "mutex_held_ms=-2548 total_start_fn_ms=2553",
        "split_vectors_ms=--7 setup_to_split_ms=1",
        "prep_msm_ms=+1909",
        "prep_msm_ms=1_909",
    ],
)
def test_a_known_line_with_figures_that_make_no_sense_is_counted(text: str) -> None:
    events, counts = scan(f"CUZK_TIMING: {text}\n".encode())
    assert counts.unparsed == 1
    assert counts.timing == 0
    assert len(events) == 1


@pytest.mark.parametrize(
    "line",
    [
        "CUZK_TIMING: mem_mtx_wait_ms=5",
        "CUZK_TIMING: something new=5",
        "CUZK_TIMING: ",
        "CUZK_MEMBW: gbs=5",
        "CUZK_TIMING:prep_msm_ms=1909",
    ],
)
def test_an_unknown_line_is_counted_and_not_dropped(line: str) -> None:
    events, counts = scan(f"{line}\n".encode())
    assert events == []
    assert (counts.unparsed, counts.unknown_timing) == (0, 1)
