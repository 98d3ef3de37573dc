"""Four cards that aren't there: what the GPU sampler would be told by NVML.

Figures move as those of a busy card do, so that the screen has something to redraw.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from cuzktop.events import GpuProcess
from cuzktop.sources.gpu_reader import GpmFigures, GpuReader, NumberField, TextField

GPUS = 4
MEMORY_BYTES = 80 * 1024**3
STEADY: dict[str, float] = {
    "gpm_supported": 1,
    "mig_mode": 0,
    "persistence_mode": 1,
    "power_limit_w": 700,
    "memory_clock_mhz": 2619,
    "clock_reasons": 0,
    "pcie_gen": 5,
    "pcie_width": 16,
    "pcie_gen_max": 5,
    "pcie_width_max": 16,
    "ecc_errors": 0,
}


class FakeReader:
    """A `GpuReader` without a driver."""

    def __init__(self) -> None:
        self._random = random.Random(5)

    def start(self) -> None:
        return

    def gpu_count(self) -> int:
        return GPUS

    def find(self, gpu: int, uuid: str | None) -> object:
        del uuid
        return ("card", gpu)

    def text(self, handle: object, what: TextField) -> str:
        return f"GPU-{handle}" if what == "uuid" else "NVIDIA H200"

    def number(self, handle: object, what: NumberField) -> float:
        del handle
        if what in STEADY:
            return STEADY[what]
        if what == "temperature_c":
            return 61.0 + self._random.randrange(3)
        if what == "sm_clock_mhz":
            return 1980.0 - 15 * self._random.randrange(4)
        if what == "utilization_pct":
            return self._random.uniform(60, 100)
        return self._random.uniform(380, 690)  # power

    def memory_bytes(self, handle: object, *, v2: bool) -> tuple[int, int]:
        del handle, v2
        return MEMORY_BYTES // 2 + self._random.randrange(1 << 30), MEMORY_BYTES

    def util_samples(self, handle: object, since_us: int) -> Sequence[tuple[int, float]]:
        del handle
        now_us = int(time.time() * 1e6)
        return [(us, 90.0) for us in range(max(since_us, now_us - 1_000_000), now_us, 200_000)]

    def gpm_mark(self) -> object:
        return [0]

    def gpm_sample(self, handle: object, mark: object) -> None:
        del handle, mark

    def gpm(self, earlier: object, later: object) -> GpmFigures:
        del earlier, later
        util_pct = self._random.uniform(60, 100)
        return GpmFigures(util_pct, 0.9 * util_pct, self._random.uniform(1e9, 9e9), 2e8)

    def processes(self, handle: object) -> Sequence[GpuProcess]:
        del handle
        return (GpuProcess(pid=4711, memory_bytes=MEMORY_BYTES // 2, name="cuzk-daemon"),)

    def watch_faults(self, handle: object) -> object:
        return handle

    def next_fault(self, watch: object) -> int | None:
        del watch
        return None


def reader() -> GpuReader:
    """What takes the place of `PynvmlReader`."""
    return FakeReader()


def samples_csv(begin: datetime, seconds: int) -> Iterator[str]:
    """What nvidia-smi would have written: a row of each card a second, its times in UTC."""
    luck = random.Random(6)
    yield "timestamp, index, utilization.gpu [%], power.draw [W], power.limit [W]\n"
    for second in range(seconds):
        stamp = f"{begin + timedelta(seconds=second):%Y/%m/%d %H:%M:%S}"
        for gpu in range(GPUS):
            use, power = luck.randint(60, 100), luck.uniform(380, 690)
            yield f"{stamp}.{gpu:03}, {gpu}, {use} %, {power:.2f} W, 700.00 W\n"
