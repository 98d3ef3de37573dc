"""On a machine with an NVIDIA GPU: is what the GPU sampler says true, and what does it cost?

    python3 benchmarks/nvml_device.py --seconds 10 --out readings/

Runs the sampler as the program does, on an idle card and while a second process lets a kernel spin
in a square wave (30 % and 50 % of periods of 1 s and 0.2 s). Prints, for each utilisation source,
the duty measured beside the true one, the sampler thread's CPU time, and the NVML calls of a tick;
writes every call and reading to `--out` as JSON lines. Needs nvidia-ml-py; the load is torch's, or,
without torch, a few lines of PTX through the driver's own library.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import queue
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from cuzktop.events import Event, GpuSampled, GpuSamplerNote
from cuzktop.sources.nvml import (
    UTIL_SOURCES,
    GpuReadError,
    NumberField,
    NvmlSampler,
    NvmlUnavailableError,
    PynvmlReader,
    TextField,
    UtilSource,
    read_once,
)

_T = TypeVar("_T")

WAVES = ((1.0, 0.3), (1.0, 0.5), (0.2, 0.3), (0.2, 0.5))  # period in s, share of it that is busy
CALLS_OF = {"util_samples": 2}  # the binding asks for the size first
SAMPLERS: dict[str, tuple[UtilSource, ...]] = {
    "best": UTIL_SOURCES,
    "samples": ("samples",),
    "plain": ("utilization.gpu",),
}


def wall_ms() -> float:
    return time.time() * 1000.0


# ------------------------------------------------------------------------------- the load


class Load(Protocol):
    """A kernel that keeps the GPU busy for a set time; returns its true length in seconds."""

    def spin(self, seconds: float) -> float: ...

    def pin(self, gib: float) -> None: ...


class TorchLoad:
    """torch.cuda._sleep: one block that counts clock cycles."""

    def __init__(self, gpu: int) -> None:
        import torch  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415

        self._torch = torch
        self._pinned: list[Any] = []
        torch.cuda.set_device(gpu)
        self._cycles_s = 1e9
        for _ in range(5):  # the clock rises to its working rate first
            self._cycles_s *= 0.2 / self.spin(0.2)

    def spin(self, seconds: float) -> float:
        cuda = self._torch.cuda
        began, ended = (cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        cuda._sleep(int(seconds * self._cycles_s))  # noqa: SLF001
        ended.record()
        time.sleep(0.8 * seconds)  # synchronising would burn a core meanwhile
        ended.synchronize()
        return float(began.elapsed_time(ended)) / 1000.0

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


class DriverLoad:
    """The same by libcuda alone: one thread that watches the global timer."""

    def __init__(self, gpu: int) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        module, self._kernel = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), gpu)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self._call("cuModuleLoadData", ctypes.byref(module), SPIN_PTX)
        self._call("cuModuleGetFunction", ctypes.byref(self._kernel), module, b"spin")
        self.spin(0.2)

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status:
            message = f"{name}: CUDA error {status}"
            raise RuntimeError(message)

    def spin(self, seconds: float) -> float:
        length = ctypes.c_uint64(int(seconds * 1e9))
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(length))
        shape = (1, 1, 1, 1, 1, 1, 0)  # grid, block, shared memory
        self._call("cuLaunchKernel", self._kernel, *shape, None, parameters, None)
        time.sleep(0.8 * seconds)
        self._call("cuCtxSynchronize")
        return seconds

    def pin(self, gib: float) -> None:
        for _ in range(int(gib)):
            block = ctypes.c_void_p()
            size = ctypes.c_size_t(2**30)
            self._call("cuMemHostAlloc", ctypes.byref(block), size, 0)


def run_load(arguments: argparse.Namespace) -> None:
    """Be the second process: a line `ready`, the wave, then its true intervals as JSON."""
    kind = arguments.load
    if kind == "auto":
        kind = "torch" if importlib.util.find_spec("torch") else "driver"
    load: Load = TorchLoad(arguments.gpu) if kind == "torch" else DriverLoad(arguments.gpu)
    load.pin(arguments.pin_gib)
    period_s, duty = arguments.wave
    print("ready", kind, flush=True)
    began = time.monotonic() + 0.1
    intervals = []
    for turn in range(int(arguments.seconds / period_s)):
        time.sleep(max(0.0, began + turn * period_s - time.monotonic()))
        start_ms = wall_ms()
        intervals.append((start_ms, start_ms + 1000.0 * load.spin(duty * period_s)))
    print(json.dumps(intervals), flush=True)


class Wave:
    """The second process, from outside."""

    def __init__(self, arguments: argparse.Namespace, period_s: float, duty: float) -> None:
        command = [sys.executable, __file__, "--as-load", "--wave", str(period_s), str(duty)]
        # A process that pinned memory is to end while it is watched: that is when calls hang.
        seconds = arguments.seconds / 2.0 if arguments.pin_gib else arguments.seconds + 4.0
        command += ["--seconds", str(seconds), "--gpu", str(arguments.gpu)]
        command += ["--load", arguments.load, "--pin-gib", str(arguments.pin_gib)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        output = self._process.stdout
        self.kind = "" if output is None else output.readline()
        self.kind = self.kind.removeprefix("ready").strip()
        if not self.kind:
            self._process.wait()
            sys.exit("nvml_device: no load: neither torch nor libcuda.so.1 can use the GPU")

    def intervals(self) -> list[tuple[float, float]]:
        """Wait for the end; (start, end) of each kernel as wall-clock ms."""
        text, _ = self._process.communicate()
        return [(start_ms, end_ms) for start_ms, end_ms in json.loads(text)]


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

    def gpm_util_pct(self, earlier: object, later: object) -> float:
        return self._timed("gpm_util_pct", None, lambda: self._reader.gpm_util_pct(earlier, later))


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

    def __init__(self, name: str, recording: Recording | None) -> None:
        self.name = name
        self.reader = None if recording is None else RecordingReader(recording.log, name)
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._thread = NvmlSampler(
            self._events, wall_ms, self._stop, reader=self.reader, sources=SAMPLERS[name]
        )
        self._thread.start()

    def mark(self) -> tuple[float, float, int]:
        """Give the thread's CPU seconds, the wall clock in seconds, and the calls so far."""
        clock = time.pthread_getcpuclockid(self._thread.ident or 0)
        calls = 0 if self.reader is None else self.reader.calls
        return time.clock_gettime(clock), time.monotonic(), calls

    def stop(self) -> list[Event]:
        self._stop.set()
        self._thread.join(timeout=15)
        events = []
        while not self._events.empty():
            events.append(self._events.get())
        return events


def run_phase(
    names: Sequence[str], seconds: float, recording: Recording | None
) -> list[dict[str, Any]]:
    """Run samplers side by side for `seconds`, not counting the look-ups at the start."""
    watched = [Watched(name, recording) for name in names]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="of each phase (there are 8)")
    parser.add_argument("--out", type=Path, default=None, help="folder for the raw readings")
    parser.add_argument("--load", choices=("auto", "torch", "driver"), default="auto")
    parser.add_argument("--gpu", type=int, default=0, help="the card that gets the load")
    parser.add_argument("--pin-gib", type=float, default=0.0, help="host memory the load pins")
    parser.add_argument("--as-load", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--wave", type=float, nargs=2, default=(1.0, 0.5), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.as_load:
        run_load(arguments)
        return

    reader = PynvmlReader()
    try:
        reader.start()
    except NvmlUnavailableError as error:
        sys.exit(f"nvml_device: NVML not available: {error}")
    recording = Recording()
    summary: list[dict[str, object]] = []

    def report(phase: str, result: dict[str, Any], **more: object) -> None:
        kept = {name: value for name, value in result.items() if name != "readings"}
        summary.append({"phase": phase, **kept, **more})
        print(json.dumps(summary[-1]), flush=True)

    began = time.monotonic()
    once = read_once(reader, time.sleep, wall_ms)
    took_s = time.monotonic() - began
    summary.append({"phase": "read_once", "seconds": took_s, "events": [e._asdict() for e in once]})
    print(json.dumps(summary[-1]), flush=True)

    for result in run_phase(["best"], arguments.seconds, None):
        report("idle, as the program runs it", result)
    recording.phase = "idle"
    for result in run_phase(list(SAMPLERS), arguments.seconds, recording):
        report(
            "idle, recorded",
            result,
            last=[reading._asdict() for reading in result["readings"][-1:]],
        )

    for period_s, duty in WAVES:
        recording.phase = f"{100 * duty:.0f} % of {1000 * period_s:.0f} ms"
        wave = Wave(arguments, period_s, duty)
        results = run_phase(list(SAMPLERS), arguments.seconds, recording)
        truth = wave.intervals()
        recording.truth.append({"phase": recording.phase, "intervals_ms": truth})
        for result in results:
            compared = compare(result["readings"], arguments.gpu, truth)
            report(recording.phase, result, load=wave.kind, **compared)

    wave = Wave(arguments, 1.0, 0.5)
    (result,) = run_phase(["best"], arguments.seconds, None)
    compared = compare(result["readings"], arguments.gpu, wave.intervals())
    report("50 % of 1000 ms, as the program runs it", result, load=wave.kind, **compared)

    costs: dict[str, list[float]] = {}
    for record in recording.calls:
        costs.setdefault(record["call"], []).append(record["cost_us"])
    for call, values in sorted(costs.items()):
        line = {"call": call, "n": len(values), "median_us": statistics.median(values)}
        summary.append({**line, "max_us": max(values)})
        print(json.dumps(summary[-1]))
    if arguments.out is not None:
        recording.write(arguments.out, summary)


if __name__ == "__main__":
    main()
