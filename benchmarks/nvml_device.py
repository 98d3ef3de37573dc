"""On a machine with an NVIDIA GPU: is what the GPU sampler says true, and what does it cost?

    python3 benchmarks/nvml_device.py --out readings/        (five and a half minutes)

Runs the sampler as the program does, on an idle card and beside a second process that

- lets a kernel spin in square waves (30 % and 50 % of periods of 1 s and 0.2 s, in one block and on
  all SMs), with `cuzktop record` running along and `cuzktop report` asked for each wave's mean;
- copies to and from the card at rates that are known;
- pins host memory and ends, which is when NVML's calls hang.

Prints what each utilisation source measured beside the truth, PCIe rates beside what was copied,
the sampler thread's CPU time, what each call costs and which fields this card has; writes every
call and reading to `--out` as JSON lines. Needs nvidia-ml-py. The load is a few lines of PTX
through the driver's own library (`--load torch`: torch's, which can't fill all SMs and copies
nothing).
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cuzktop.events import Event, GpuProcess, GpuSampled, GpuSamplerNote
from cuzktop.sources.gpu_reader import (
    UTIL_SOURCES,
    GpmFigures,
    GpuReadError,
    NumberField,
    NvmlUnavailableError,
    TextField,
    UtilSource,
)
from cuzktop.sources.gpu_sampler import GpuSampler
from cuzktop.sources.gpu_sampling import read_once
from cuzktop.sources.nvml import PynvmlReader
from cuzktop.sources.ordinals import CudaChoice, read_choice

_T = TypeVar("_T")

ROOT = Path(__file__).resolve().parent.parent
CALLS_OF = {"util_samples": 2, "processes": 2, "watch_faults": 2}  # of the library, each
SAMPLERS: dict[str, tuple[UtilSource, ...]] = {
    "best": UTIL_SOURCES,
    "samples": ("samples",),
    "plain": ("utilization.gpu",),
}
LOAD_COMMAND = (sys.executable, str(Path(__file__).resolve()), "--as-load")
MIB = 1024 * 1024


class WaveShape(NamedTuple):
    """A kernel that runs for `duty` of each period, in one block or on all SMs."""

    period_s: float
    duty: float
    all_sms: bool

    def __str__(self) -> str:
        where = "all SMs" if self.all_sms else "one block"
        return f"{100 * self.duty:.0f} % of {1000 * self.period_s:.0f} ms, {where}"


class CopyShape(NamedTuple):
    """So many MiB to the card and back from it in each period."""

    to_device_mib: int
    to_host_mib: int
    period_s: float

    def __str__(self) -> str:
        period = f"{1000 * self.period_s:.0f} ms" if self.period_s else "one after the other"
        return f"copies of {self.to_device_mib} MiB in, {self.to_host_mib} MiB out, {period}"


WAVES = tuple(
    WaveShape(period_s, duty, all_sms)
    for all_sms in (False, True)
    for period_s in (1.0, 0.2)
    for duty in (0.3, 0.5)
)
COPIES = (CopyShape(256, 64, 0.05), CopyShape(32, 128, 0.05), CopyShape(1024, 0, 0.0))


def wall_ms() -> float:
    return time.time() * 1000.0


# ------------------------------------------------------------------------------- the load


class Load(Protocol):
    """What the second process does to the card."""

    def spin(self, seconds: float, *, all_sms: bool) -> float:
        """Keep the GPU busy; the kernel's true length in seconds."""

    def copy(self, to_device_mib: int, to_host_mib: int) -> None:
        """Copy to the card and back from it."""

    def pin(self, gib: float) -> None:
        """Pin host memory."""


class TorchLoad:
    """torch.cuda._sleep: one block that counts clock cycles."""

    def __init__(self, gpu: int) -> None:
        import torch  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415

        self._torch = torch
        self._pinned: list[Any] = []
        torch.cuda.set_device(gpu)
        self._cycles_s = 1e9
        for _ in range(5):  # the clock rises to its working rate first
            self._cycles_s *= 0.2 / self.spin(0.2, all_sms=False)

    def spin(self, seconds: float, *, all_sms: bool) -> float:
        del all_sms
        cuda = self._torch.cuda
        began, ended = (cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        cuda._sleep(int(seconds * self._cycles_s))  # noqa: SLF001
        ended.record()
        time.sleep(0.8 * seconds)  # synchronising would burn a core meanwhile
        ended.synchronize()
        return float(began.elapsed_time(ended)) / 1000.0

    def copy(self, to_device_mib: int, to_host_mib: int) -> None:
        del to_device_mib, to_host_mib

    def pin(self, gib: float) -> None:
        for _ in range(int(gib)):
            block = self._torch.zeros(2**30, dtype=self._torch.uint8)
            self._pinned.append(block.pin_memory())


SPIN_PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 length_ns)
{
    .reg .u64 %rd<5>;
    .reg .pred %p1;
    ld.param.u64 %rd1, [length_ns];
    mov.u64 %rd2, %globaltimer;
again:
    mov.u64 %rd3, %globaltimer;
    sub.u64 %rd4, %rd3, %rd2;
    setp.lt.u64 %p1, %rd4, %rd1;
    @%p1 bra again;
    ret;
}
\0"""
SM_COUNT = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT


class DriverLoad:
    """The same by libcuda alone: threads that watch the global timer, one block an SM."""

    def __init__(self, gpu: int) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        module, self._kernel = ctypes.c_void_p(), ctypes.c_void_p()
        self._host, self._device = ctypes.c_void_p(), ctypes.c_uint64()
        sms = ctypes.c_int()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), gpu)
        self._call("cuDeviceGetAttribute", ctypes.byref(sms), SM_COUNT, device)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._call("cuModuleLoadData", ctypes.byref(module), SPIN_PTX)
        self._call("cuModuleGetFunction", ctypes.byref(self._kernel), module, b"spin")
        self._sms = sms.value
        self.spin(0.2, all_sms=False)

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status:
            message = f"{name}: CUDA error {status}"
            raise RuntimeError(message)

    def spin(self, seconds: float, *, all_sms: bool) -> float:
        length = ctypes.c_uint64(int(seconds * 1e9))
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(length))
        blocks, threads = (self._sms, 256) if all_sms else (1, 1)
        shape = (blocks, 1, 1, threads, 1, 1, 0)  # grid, block, shared memory
        self._call("cuLaunchKernel", self._kernel, *shape, None, parameters, None)
        time.sleep(0.8 * seconds)
        self._call("cuCtxSynchronize")
        return seconds

    def copy(self, to_device_mib: int, to_host_mib: int) -> None:
        if not self._host:
            size = ctypes.c_size_t(1024 * MIB)
            self._call("cuMemHostAlloc", ctypes.byref(self._host), size, 0)
            self._call("cuMemAlloc_v2", ctypes.byref(self._device), size)
        for name, where, mib in (
            ("cuMemcpyHtoD_v2", (self._device, self._host), to_device_mib),
            ("cuMemcpyDtoH_v2", (self._host, self._device), to_host_mib),
        ):
            if mib:
                self._call(name, *where, ctypes.c_size_t(mib * MIB))

    def pin(self, gib: float) -> None:
        for _ in range(int(gib)):
            block = ctypes.c_void_p()
            size = ctypes.c_size_t(2**30)
            self._call("cuMemHostAlloc", ctypes.byref(block), size, 0)


def wave(load: Load, shape: WaveShape, seconds: float) -> list[tuple[float, float]]:
    """(start, end) of each kernel as wall-clock ms."""
    began = time.monotonic() + 0.1
    intervals = []
    for turn in range(int(seconds / shape.period_s)):
        time.sleep(max(0.0, began + turn * shape.period_s - time.monotonic()))
        start_ms = wall_ms()
        length_s = load.spin(shape.duty * shape.period_s, all_sms=shape.all_sms)
        intervals.append((start_ms, start_ms + 1000.0 * length_s))
    return intervals


def copies(load: Load, shape: CopyShape, seconds: float) -> list[float]:
    """When each turn of the copies ended, wall-clock ms; the first is when the first began."""
    load.copy(1, 1)  # memory is taken before the clock runs
    began = time.monotonic()
    ended = [wall_ms()]
    while time.monotonic() - began < seconds:
        load.copy(shape.to_device_mib, shape.to_host_mib)
        ended.append(wall_ms())
        time.sleep(max(0.0, began + (len(ended) - 1) * shape.period_s - time.monotonic()))
    return ended


def run_load(kind: str, gpu: int) -> None:
    """Be the second process: do what standard input asks for, a line of JSON an answer."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text("cuzk-daemon")  # so that it is taken for the daemon
    load: Load = TorchLoad(gpu) if kind == "torch" else DriverLoad(gpu)
    print(json.dumps({"ready": kind, "pid": os.getpid()}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        answer: object = None
        if asked["do"] == "wave":
            answer = wave(load, WaveShape(*asked["shape"]), asked["seconds"])
        elif asked["do"] == "copies":
            answer = copies(load, CopyShape(*asked["shape"]), asked["seconds"])
        elif asked["do"] == "pin":
            load.pin(asked["gib"])
        print(json.dumps(answer), flush=True)


class SecondProcess:
    """The load, from outside."""

    def __init__(self, kind: str, gpu: int, visible: str | None) -> None:
        chosen = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        self._process = subprocess.Popen(
            [*LOAD_COMMAND, "--load", kind, "--gpu", str(gpu)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | chosen,
        )
        if not _pipe(self._process.stdout).readline():
            self._process.wait()
            sys.exit("nvml_device: no load: libcuda.so.1 can't use the GPU (or --load torch)")
        self.pid = self._process.pid

    def ask(self, what: str, **more: object) -> None:
        """Have it do something."""
        pipe = _pipe(self._process.stdin)
        pipe.write(json.dumps({"do": what, **more}) + "\n")
        pipe.flush()

    def answer(self) -> Any:  # noqa: ANN401 - as the question was
        """Wait until it is done."""
        return json.loads(_pipe(self._process.stdout).readline())

    def end(self) -> None:
        """Let it end."""
        _pipe(self._process.stdin).close()
        self._process.wait()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None  # noqa: S101 - for the type checker
    return pipe


# ------------------------------------------------------------------------------- the recording


class RecordingReader:
    """Passes every call on and writes down its answer and cost."""

    def __init__(self, log: Callable[[dict[str, object]], None], sampler: str) -> None:
        self._reader = PynvmlReader()
        self._log = log
        self._sampler = sampler
        self._gpu_of: dict[int, int] = {}
        self.calls = 0

    def _timed(self, what: str, handle: object, read: Callable[[], _T]) -> _T:
        self.calls += CALLS_OF.get(what, 1)
        record: dict[str, object] = {"sampler": self._sampler, "call": what}
        record["gpu"] = self._gpu_of.get(id(handle))
        began_ns = time.perf_counter_ns()
        try:
            value = read()
        except (GpuReadError, NvmlUnavailableError) as error:
            record["error"] = str(error)
            raise
        else:
            plain = isinstance(value, int | float | str | tuple | list)
            record["value"] = value if plain else None
            return value
        finally:
            record["cost_us"] = round((time.perf_counter_ns() - began_ns) / 1000.0, 1)
            record["at_ms"] = wall_ms()
            self._log(record)

    def start(self) -> None:
        self._timed("start", None, self._reader.start)

    def gpu_count(self) -> int:
        return self._timed("gpu_count", None, self._reader.gpu_count)

    def find(self, gpu: int, uuid: str | None) -> object:
        handle = self._timed("find", None, lambda: self._reader.find(gpu, uuid))
        self._gpu_of[id(handle)] = gpu
        return handle

    def text(self, handle: object, what: TextField) -> str:
        return self._timed(what, handle, lambda: self._reader.text(handle, what))

    def number(self, handle: object, what: NumberField) -> float:
        return self._timed(what, handle, lambda: self._reader.number(handle, what))

    def memory_bytes(self, handle: object, *, v2: bool) -> tuple[int, int]:
        what = "memory_v2" if v2 else "memory_v1"
        return self._timed(what, handle, lambda: self._reader.memory_bytes(handle, v2=v2))

    def util_samples(self, handle: object, since_us: int) -> Sequence[tuple[int, float]]:
        return self._timed(
            "util_samples", handle, lambda: self._reader.util_samples(handle, since_us)
        )

    def gpm_mark(self) -> object:
        return self._timed("gpm_mark", None, self._reader.gpm_mark)

    def gpm_sample(self, handle: object, mark: object) -> None:
        self._timed("gpm_sample", handle, lambda: self._reader.gpm_sample(handle, mark))

    def gpm(self, earlier: object, later: object) -> GpmFigures:
        return self._timed("gpm", None, lambda: self._reader.gpm(earlier, later))

    def processes(self, handle: object) -> Sequence[GpuProcess]:
        return self._timed("processes", handle, lambda: self._reader.processes(handle))

    def watch_faults(self, handle: object) -> object:
        return self._timed("watch_faults", handle, lambda: self._reader.watch_faults(handle))

    def next_fault(self, watch: object) -> int | None:
        return self._timed("next_fault", None, lambda: self._reader.next_fault(watch))


class Recording:
    """Lines of JSON for `--out`; kept in memory until the end, so that writing costs nothing."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.readings: list[dict[str, object]] = []
        self.truth: list[dict[str, object]] = []
        self.phase = ""

    def log(self, record: dict[str, object]) -> None:
        self.calls.append({"phase": self.phase, **record})

    def write(self, folder: Path, summary: list[dict[str, object]]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("calls", "readings", "truth"):
            records: list[dict[str, object]] = getattr(self, name)
            text = "".join(json.dumps(record) + "\n" for record in records)
            (folder / f"{name}.jsonl").write_text(text)
        (folder / "summary.jsonl").write_text("".join(json.dumps(r) + "\n" for r in summary))


# ------------------------------------------------------------------------------- phases


class Watched:
    """One sampler for one phase, with its thread's CPU time."""

    def __init__(
        self,
        name: str,
        recording: Recording | None,
        choice: Callable[[], CudaChoice | None],
    ) -> None:
        self.name = name
        self._counting = None if recording is None else RecordingReader(recording.log, name)
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._thread = GpuSampler(
            self._events,
            wall_ms,
            self._stop,
            reader=self._counting or PynvmlReader(),
            sources=SAMPLERS[name],
            choice=choice,
        )
        self._thread.start()

    def mark(self) -> tuple[float, float, int]:
        """Give the thread's CPU seconds, the wall clock in seconds, and the calls so far."""
        clock = time.pthread_getcpuclockid(self._thread.ident or 0)
        calls = 0 if self._counting is None else self._counting.calls
        return time.clock_gettime(clock), time.monotonic(), calls

    def stop(self) -> list[Event]:
        self._stop.set()
        self._thread.join(timeout=15)
        events = []
        while not self._events.empty():
            events.append(self._events.get())
        return events


def run_phase(
    names: Sequence[str],
    seconds: float,
    recording: Recording | None,
    choice: Callable[[], CudaChoice | None],
) -> list[dict[str, Any]]:
    """Run samplers side by side for `seconds`, not counting the look-ups at the start."""
    watched = [Watched(name, recording, choice) for name in names]
    time.sleep(1.5)
    before = [sampler.mark() for sampler in watched]
    time.sleep(seconds)
    after = [sampler.mark() for sampler in watched]
    results = []
    for sampler, began, ended in zip(watched, before, after, strict=True):
        events = sampler.stop()
        readings = [event for event in events if isinstance(event, GpuSampled)]
        notes = [event.text for event in events if isinstance(event, GpuSamplerNote)]
        if recording is not None:
            recording.readings += [
                {"phase": recording.phase, "sampler": sampler.name, **event._asdict()}
                for event in events
                if isinstance(event, GpuSampled | GpuSamplerNote)
            ]
        cards = max(1, len({reading.gpu for reading in readings}))
        elapsed_s = ended[1] - began[1]
        results.append(
            {
                "sampler": sampler.name,
                "cpu_pct_of_a_core": round(100.0 * (ended[0] - began[0]) / elapsed_s, 4),
                "calls_a_tick_and_card": round((ended[2] - began[2]) / elapsed_s / cards, 2),
                "cards": cards,
                "notes": notes,
                "readings": readings,
            }
        )
    return results


# ------------------------------------------------------------------------------- the program itself


class Program:
    """`cuzktop record` beside it all, fed with a log in which each wave is a run of the daemon."""

    def __init__(self, folder: Path) -> None:
        self.recording = folder / "session.rec"
        self._log = (folder / "load.log").open("w", encoding="ascii")
        for stale in folder.glob("session.rec*"):
            stale.unlink()
        self._process = subprocess.Popen(
            [*PROGRAM, "record", str(self.recording), "--log", self._log.name, "--quiet"], cwd=ROOT
        )
        self._runs: list[str] = []

    def mark(self) -> tuple[float, float]:
        """Its CPU seconds so far, and the clock."""
        fields = (
            Path(f"/proc/{self._process.pid}/stat").read_text("ascii").rsplit(")", 1)[1].split()
        )
        ticks = int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK"), time.monotonic()

    def write_run(self, name: str, intervals: Sequence[tuple[float, float]]) -> None:
        """Log a wave: brackets are its kernels, the last one a moment before the last kernel."""
        zero_ms = intervals[0][0] - 1000.0
        stamp = datetime.fromtimestamp(zero_ms / 1000.0, UTC).isoformat(timespec="microseconds")
        lines = [
            f"{stamp.removesuffix('+00:00')}Z  INFO cuzk_core::engine: starting cuzk engine",
            "TIMELINE,0,DISPATCH,wave,partitions=1",
        ]
        ends = [*intervals[:-1], (intervals[-1][0] - 2.0, intervals[-1][0])]
        for turn, (start_ms, end_ms) in enumerate(ends):
            at = f"wave,worker=0,partition={turn}"
            length_ms = end_ms - start_ms
            lines.append(f"TIMELINE,{start_ms - zero_ms:.0f},GPU_START,{at}")
            lines.append(f"TIMELINE,{end_ms - zero_ms:.0f},GPU_END,{at},gpu_ms={length_ms:.0f}")
        self._log.write("\n".join(lines) + "\n")
        self._log.flush()
        self._runs.append(name)

    def stop(self) -> Iterator[dict[str, object]]:
        """End the recording; what `report --json` reads in it of each wave."""
        time.sleep(1.0)  # the log is polled
        self._process.terminate()
        self._process.wait(timeout=20)
        self._log.close()
        done = subprocess.run(
            [*PROGRAM, "report", str(self.recording), "--json"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            yield {"report": "failed", "said": done.stderr}
            return
        for name, run in zip(self._runs, json.loads(done.stdout)["runs"], strict=False):
            yield {"report": name, **{f"gpu {gpu['gpu']}": gpu["nvml"] for gpu in run["gpus"]}}


PROGRAM = (sys.executable, "-m", "cuzktop")


# ------------------------------------------------------------------------------- what there is

PROBES: tuple[tuple[str, tuple[object, ...]], ...] = (
    ("nvmlDeviceGetCurrPcieLinkGeneration", ()),
    ("nvmlDeviceGetCurrPcieLinkWidth", ()),
    ("nvmlDeviceGetMaxPcieLinkGeneration", ()),
    ("nvmlDeviceGetMaxPcieLinkWidth", ()),
    ("nvmlDeviceGetGpuMaxPcieLinkGeneration", ()),
    ("nvmlDeviceGetTotalEccErrors", (1, 0)),
    ("nvmlDeviceGetTotalEccErrors", (0, 0)),
    ("nvmlDeviceGetSupportedEventTypes", ()),
    ("nvmlDeviceGetComputeRunningProcesses", ()),
    ("nvmlDeviceGetGraphicsRunningProcesses", ()),
    ("nvmlDeviceGetRemappedRows", ()),
    ("nvmlDeviceGetPcieReplayCounter", ()),
    ("nvmlDeviceGetCurrentClocksEventReasons", ()),
    ("nvmlDeviceGetPersistenceMode", ()),
    ("nvmlDeviceGetMigMode", ()),
    ("nvmlDeviceGetMinorNumber", ()),
)
TRIES = 15


def probe(gpu: int) -> Iterator[dict[str, object]]:
    """Calls that the sampler makes or might make: their answer, and what they cost in µs."""
    import pynvml  # noqa: PLC0415

    handle = pynvml.nvmlDeviceGetHandleByIndex(gpu)
    for name, arguments in PROBES:
        costs, answer = [], ""
        for _ in range(TRIES):
            began = time.perf_counter_ns()
            try:
                answer = str(getattr(pynvml, name)(handle, *arguments))
            except (pynvml.NVMLError, AttributeError) as error:
                answer = f"{type(error).__name__}: {error}"
            costs.append((time.perf_counter_ns() - began) / 1000.0)
        yield {
            "probe": name,
            "arguments": arguments,
            "answer": " ".join(answer.split())[:200],
            "median_us": round(statistics.median(costs), 1),
            "max_us": round(max(costs), 1),
        }


def probe_gpm(gpu: int) -> dict[str, object]:
    """Each of GPM's metrics over half a second: its figure, or the status that it came with."""
    import pynvml  # noqa: PLC0415

    handle = pynvml.nvmlDeviceGetHandleByIndex(gpu)
    marks = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]
    pynvml.nvmlGpmSampleGet(handle, marks[0])
    time.sleep(0.5)
    pynvml.nvmlGpmSampleGet(handle, marks[1])
    found: dict[str, object] = {}
    costs: dict[str, float] = {}
    for count in (1, 4, 24):
        request = pynvml.c_nvmlGpmMetricsGet_t()
        request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        request.sample1, request.sample2 = marks
        request.numMetrics = count
        for slot in range(count):
            request.metrics[slot].metricId = slot + 1
        took = []
        for _ in range(TRIES):
            began = time.perf_counter_ns()
            pynvml.nvmlGpmMetricsGet(request)
            took.append((time.perf_counter_ns() - began) / 1000.0)
        costs[f"{count} metrics"] = round(statistics.median(took), 1)
        for metric in request.metrics[:count]:
            found[str(metric.metricId)] = (
                round(metric.value, 3) if not metric.nvmlReturn else f"status {metric.nvmlReturn}"
            )
    return {"probe": "GPM", "median_us": costs, "metrics": found}


# ------------------------------------------------------------------------------- what comes of it


def compare(
    readings: Sequence[GpuSampled], gpu: int, truth: Sequence[tuple[float, float]]
) -> dict[str, object]:
    """Duty as measured and as it was, over the time that each reading covers inside the wave."""
    measured_ms = busy_ms = covered_ms = 0.0
    errors, sources = [], set()
    for reading in readings:
        begin_ms = reading.at_ms - reading.util_window_ms
        inside = truth and truth[0][0] <= begin_ms and reading.at_ms <= truth[-1][1]
        if reading.gpu != gpu or reading.util_pct is None or not inside:
            continue
        busy = sum(max(0.0, min(b, reading.at_ms) - max(a, begin_ms)) for a, b in truth)
        measured_ms += reading.util_pct / 100.0 * reading.util_window_ms
        busy_ms += busy
        covered_ms += reading.util_window_ms
        errors.append(abs(reading.util_pct - 100.0 * busy / reading.util_window_ms))
        sources.add(reading.util_source)
    if not errors:
        return {"sources": [], "readings": 0}
    span_ms = truth[-1][0] - truth[0][0]  # whole periods
    return {
        "sources": sorted(sources),
        "readings": len(errors),
        "measured_pct": round(100.0 * measured_ms / covered_ms, 2),
        "true_pct_of_covered_time": round(100.0 * busy_ms / covered_ms, 2),
        "true_pct_of_wave": round(100.0 * sum(b - a for a, b in truth[:-1]) / span_ms, 2),
        "covered_pct_of_wave": round(100.0 * covered_ms / span_ms, 1),
        "mean_error_of_a_reading_points": round(statistics.fmean(errors), 2),
    }


def compare_copies(
    readings: Sequence[GpuSampled], gpu: int, shape: CopyShape, ended_ms: Sequence[float]
) -> dict[str, object]:
    """Rates as measured and as copied, over the readings that lie inside the copying."""
    inside = [
        one
        for one in readings
        if one.gpu == gpu
        and one.host_to_device_bytes_per_s is not None
        and one.device_to_host_bytes_per_s is not None
        and ended_ms[0] <= one.at_ms - one.util_window_ms
        and one.at_ms <= ended_ms[-1]
    ]
    if not inside:
        return {"readings": 0}
    turns_per_s = 1000.0 * (len(ended_ms) - 1) / (ended_ms[-1] - ended_ms[0])
    return {
        "readings": len(inside),
        "to_device_gb_s": _gb(one.host_to_device_bytes_per_s for one in inside),
        "copied_to_device_gb_s": round(turns_per_s * shape.to_device_mib * MIB / 1e9, 3),
        "to_host_gb_s": _gb(one.device_to_host_bytes_per_s for one in inside),
        "copied_to_host_gb_s": round(turns_per_s * shape.to_host_mib * MIB / 1e9, 3),
        "link": [(one.pcie_gen, one.pcie_width) for one in inside[-1:]],
    }


def _gb(rates: Iterator[float | None]) -> float:
    return round(statistics.fmean(rate or 0.0 for rate in rates) / 1e9, 3)


class Session:
    """One measurement from its beginning to its end."""

    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self._gpu: int = arguments.gpu
        self._seconds: float = arguments.seconds
        self._arguments = arguments
        self._folder = folder
        self._choice: Callable[[], CudaChoice | None] = lambda: None
        self._recording = Recording()
        self._summary: list[dict[str, object]] = []

    def say(self, found: dict[str, object]) -> None:
        """Print a line of the summary, and keep it."""
        self._summary.append(found)
        print(json.dumps(found), flush=True)

    def report(self, phase: str, result: dict[str, Any], **more: object) -> None:
        """The same of a phase, without its readings."""
        kept = {name: value for name, value in result.items() if name != "readings"}
        last = [reading._asdict() for reading in result["readings"][-1:]]
        self.say({"phase": phase, **kept, **more, "last": last})

    def run(self, reader: PynvmlReader) -> None:
        """All phases."""
        began = time.monotonic()
        once = read_once(reader, time.sleep, wall_ms)
        took_s = time.monotonic() - began
        self.say({"phase": "read_once", "seconds": took_s, "events": [e._asdict() for e in once]})
        self._probe("idle")
        self._as_it_runs("idle, as the program runs it")
        second = SecondProcess(self._arguments.load, self._gpu, self._arguments.visible)
        self._choice = lambda: read_choice(second.pid)
        self.say({"load": self._arguments.load, "pid": second.pid})
        program = Program(self._folder)
        for shape in WAVES[: self._arguments.waves]:
            self._wave(second, program, shape)
        for found in program.stop():
            self.say(found)
        second.ask("wave", shape=WAVES[-3], seconds=self._seconds + 4.0)
        self._as_it_runs(f"{WAVES[-3]}, as the program runs it")
        second.answer()
        second.ask("wave", shape=WAVES[-3], seconds=4.0)
        self._probe("busy")
        second.answer()
        copied = self._arguments.load == "driver" and self._arguments.waves == len(WAVES)
        for copy in COPIES if copied else ():
            self._copies(second, copy)
        self._ending(second)
        self._costs()
        self._recording.write(self._folder, self._summary)

    def _probe(self, when: str) -> None:
        with suppress(ImportError):
            for found in probe(self._gpu):
                self.say({"when": when, **found})
            try:
                self.say({"when": when, **probe_gpm(self._gpu)})
            except Exception as error:  # noqa: BLE001 - a card without GPM
                self.say({"when": when, "probe": "GPM", "answer": str(error)})

    def _as_it_runs(self, phase: str) -> None:
        for result in run_phase(["best"], self._seconds, None, self._choice):
            self.report(phase, result)

    def _wave(self, second: SecondProcess, program: Program, shape: WaveShape) -> None:
        self._recording.phase = str(shape)
        second.ask("wave", shape=shape, seconds=self._seconds + 3.0)
        before = program.mark()
        results = run_phase(list(SAMPLERS), self._seconds, self._recording, self._choice)
        after = program.mark()
        truth = [(start_ms, end_ms) for start_ms, end_ms in second.answer()]
        program.write_run(str(shape), truth)
        self._recording.truth.append({"phase": str(shape), "intervals_ms": truth})
        cpu_pct = round(100.0 * (after[0] - before[0]) / (after[1] - before[1]), 3)
        for result in results:
            compared = compare(result["readings"], self._gpu, truth)
            seen = result["readings"][-1].processes if result["readings"] else None
            listed = [one for one in seen or () if one.pid == second.pid]
            self.report(
                str(shape), result, **compared, load_listed=listed, record_cpu_pct_of_a_core=cpu_pct
            )

    def _copies(self, second: SecondProcess, shape: CopyShape) -> None:
        self._recording.phase = str(shape)
        second.ask("copies", shape=shape, seconds=self._seconds / 2.0 + 2.0)
        (result,) = run_phase(["best"], self._seconds / 2.0, self._recording, self._choice)
        compared = compare_copies(result["readings"], self._gpu, shape, second.answer())
        self.report(str(shape), result, **compared)

    def _ending(self, second: SecondProcess) -> None:
        """How long readings stay away while a process with pinned memory ends."""
        second.ask("pin", gib=self._arguments.pin_gib)
        second.answer()
        self._recording.phase = "the load ends"
        ending = threading.Timer(4.0, second.end)
        ending.start()
        (result,) = run_phase(["best"], 8.0, self._recording, self._choice)
        ending.join()
        at_ms = [reading.at_ms for reading in result["readings"]]
        gaps = [later - earlier for earlier, later in itertools.pairwise(at_ms)]
        slowest = sorted(
            (call for call in self._recording.calls if call["phase"] == "the load ends"),
            key=lambda call: -call["cost_us"],
        )
        self.report(
            "the load ends",
            result,
            pinned_gib=self._arguments.pin_gib,
            longest_gap_ms=round(max(gaps, default=0.0), 1),
            slowest_calls=[(call["call"], call["cost_us"]) for call in slowest[:5]],
        )

    def _costs(self) -> None:
        costs: dict[str, list[float]] = {}
        for record in self._recording.calls:
            costs.setdefault(record["call"], []).append(record["cost_us"])
        for call, values in sorted(costs.items()):
            line = {"call": call, "n": len(values), "median_us": statistics.median(values)}
            self.say({**line, "max_us": max(values)})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each phase (there are 13)")
    parser.add_argument("--out", type=Path, default=None, help="folder for what was read")
    parser.add_argument("--load", choices=("driver", "torch"), default="driver")
    parser.add_argument("--gpu", type=int, default=0, help="the card that gets the load")
    parser.add_argument("--visible", metavar="CARDS", help="the load's CUDA_VISIBLE_DEVICES")
    parser.add_argument(
        "--waves",
        type=int,
        default=len(WAVES),
        help="how many of the eight; with fewer nothing is copied",
    )
    parser.add_argument("--pin-gib", type=float, default=8.0, help="host memory the load pins")
    parser.add_argument("--as-load", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.as_load:
        run_load(arguments.load, arguments.gpu)
        return
    reader = PynvmlReader()
    try:
        reader.start()
    except NvmlUnavailableError as error:
        sys.exit(f"nvml_device: NVML not available: {error}")
    if arguments.out is None:
        with tempfile.TemporaryDirectory() as folder:
            Session(arguments, Path(folder)).run(reader)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    Session(arguments, arguments.out).run(reader)


if __name__ == "__main__":
    main()
