"""NVIDIA's own binding over a stand-in for the driver's library: which structs, which units."""

# ruff: noqa: ANN401, N802, N815 - the stand-in has the library's names and ctypes' arguments
from __future__ import annotations

import ctypes
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pynvml
import pytest

from cuzktop.events import GpuProcess, GpuSampled, GpuSamplerNote
from cuzktop.sources import nvml
from cuzktop.sources.gpu_reader import ErrorKind, GpuReadError, NvmlUnavailableError
from cuzktop.sources.gpu_sampling import SamplerState, read_once, sample
from cuzktop.sources.nvml import PynvmlReader

GIB = 1024**3
T0_MS = 1_796_029_645_000.0


class Clock:
    """Wall-clock ms that only the test moves."""

    def __init__(self) -> None:
        self.now_ms = T0_MS

    def __call__(self) -> float:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        self.now_ms += 1000.0 * seconds


def readings(events: Sequence[object]) -> list[GpuSampled]:
    return [event for event in events if isinstance(event, GpuSampled)]


def notes(events: Sequence[object]) -> list[str]:
    return [event.text for event in events if isinstance(event, GpuSamplerNote)]


class FakeLibrary:
    """libnvidia-ml.so as the binding calls it: ctypes arguments in, a status out.

    `status` overrides what a function returns; a name in `missing` isn't exported.
    """

    def __init__(self) -> None:
        self.status: dict[str, int] = {}
        self.missing: set[str] = set()
        self.calls: Counter[str] = Counter()
        self.samples = [(1_000_000 + 200_000 * n, n % 100) for n in range(71)]
        self.handle = ctypes.create_string_buffer(8)
        self.null_handles = False
        self.power_type = 1  # unsigned int
        self.processes: list[tuple[int, int]] = []
        self.faults: list[int] = []

    def __getattr__(self, name: str) -> Callable[..., int]:
        answer: Callable[..., None] | None = getattr(type(self), f"_{name}", None)
        if name in self.missing or answer is None:
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            self.calls[name] += 1
            if status := self.status.get(name, 0):
                return status
            if name == "nvmlEventSetWait_v2" and not self.faults:
                return 10  # timeout
            answer(self, *arguments)
            if "RunningProcesses" in name and arguments[2] is None and self.processes:
                return 7  # insufficient size
            return 0

        return call

    def _nvmlInitWithFlags(self, flags: int) -> None: ...

    def _nvmlSystemGetNVMLVersion(self, text: Any, _: Any) -> None:
        text.value = b"13.580.159.04"

    def _nvmlDeviceGetCount_v2(self, count: Any) -> None:
        count._obj.value = 1

    def _give_handle(self, _: Any, handle: Any) -> None:
        if self.null_handles:
            return
        pointer = ctypes.cast(self.handle, type(handle._obj))
        ctypes.memmove(ctypes.byref(handle._obj), ctypes.byref(pointer), ctypes.sizeof(pointer))

    _nvmlDeviceGetHandleByIndex_v2 = _give_handle
    _nvmlDeviceGetHandleByUUID = _give_handle

    def _nvmlDeviceGetUUID(self, _: Any, text: Any, __: Any) -> None:
        text.value = b"GPU-1234"

    def _nvmlDeviceGetName(self, _: Any, text: Any, __: Any) -> None:
        text.value = b"NVIDIA H200"

    def _nvmlDeviceGetMigMode(self, _: Any, now: Any, then: Any) -> None:
        now._obj.value, then._obj.value = 0, 1

    def _nvmlDeviceGetPersistenceMode(self, _: Any, mode: Any) -> None:
        mode._obj.value = 1

    def _nvmlDeviceGetEnforcedPowerLimit(self, _: Any, mw: Any) -> None:
        mw._obj.value = 700_000

    def _nvmlDeviceGetPowerUsage(self, _: Any, mw: Any) -> None:
        mw._obj.value = 250_500

    def _nvmlDeviceGetFieldValues(self, _: Any, n: Any, values: Any) -> None:
        assert n.value == 1
        (value,) = values._obj
        assert value.fieldId == 186
        value.nvmlReturn = self.status.get("field", 0)
        value.valueType = self.power_type
        if self.power_type == 3:
            value.value.ullVal = 312_250
        else:
            value.value.uiVal = 312_250

    def _nvmlDeviceGetClockInfo(self, _: Any, which: Any, mhz: Any) -> None:
        mhz._obj.value = {1: 1980, 2: 3201}[which.value]

    def _nvmlDeviceGetTemperature(self, _: Any, which: Any, c: Any) -> None:
        assert which.value == 0
        c._obj.value = 41

    def _give_reasons(self, _: Any, mask: Any) -> None:
        mask._obj.value = 0x4

    _nvmlDeviceGetCurrentClocksEventReasons = _give_reasons
    _nvmlDeviceGetCurrentClocksThrottleReasons = _give_reasons

    def _nvmlDeviceGetUtilizationRates(self, _: Any, rates: Any) -> None:
        rates._obj.gpu, rates._obj.memory = 46, 3

    def _nvmlDeviceGetMemoryInfo(self, _: Any, memory: Any) -> None:
        memory._obj.total, memory._obj.used = 141 * GIB, 41 * GIB

    def _nvmlDeviceGetMemoryInfo_v2(self, _: Any, memory: Any) -> None:
        memory._obj.total, memory._obj.used, memory._obj.reserved = 141 * GIB, 40 * GIB, GIB

    def _nvmlDeviceGetSamples(
        self,
        _: Any,
        kind: Any,
        since: Any,
        value_type: Any,
        count: Any,
        into: Any,
    ) -> None:
        assert kind.value == 1  # GPU utilisation
        fresh = [entry for entry in self.samples if entry[0] > since.value]
        value_type._obj.value = 1
        if into is None:
            count._obj.value = len(fresh) + 3  # room, as the driver asks for it
            return
        count._obj.value = len(fresh)
        for slot, (at_us, pct) in zip(into, fresh, strict=False):
            slot.timeStamp, slot.sampleValue.uiVal = at_us, pct

    def _nvmlGpmQueryDeviceSupport(self, _: Any, support: Any) -> None:
        support._obj.isSupportedDevice = 1

    def _nvmlGpmSampleAlloc(self, mark: Any) -> None:
        self._give_handle(None, mark)

    def _nvmlGpmSampleGet(self, device: Any, mark: Any) -> None:
        assert device
        assert mark

    def _nvmlGpmMetricsGet(self, request: Any) -> None:
        asked = request._obj
        assert asked.version == 1
        assert asked.sample1
        assert asked.sample2
        for metric in asked.metrics[: asked.numMetrics]:
            metric.nvmlReturn = self.status.get(f"metric {metric.metricId}", 0)
            metric.value = {1: 42.5, 2: 38.5, 20: 7.0, 21: 900.0}[metric.metricId]

    def _nvmlDeviceGetCurrPcieLinkGeneration(self, _: Any, generation: Any) -> None:
        generation._obj.value = 4

    def _nvmlDeviceGetCurrPcieLinkWidth(self, _: Any, lanes: Any) -> None:
        lanes._obj.value = 8

    def _nvmlDeviceGetMaxPcieLinkGeneration(self, _: Any, generation: Any) -> None:
        generation._obj.value = 5

    def _nvmlDeviceGetMaxPcieLinkWidth(self, _: Any, lanes: Any) -> None:
        lanes._obj.value = 16

    def _nvmlDeviceGetTotalEccErrors(self, _: Any, kind: Any, since: Any, count: Any) -> None:
        assert (kind.value, since.value) == (1, 0)  # uncorrected, since the driver was loaded
        count._obj.value = 2

    def _nvmlDeviceGetComputeRunningProcesses_v3(self, _: Any, count: Any, into: Any) -> None:
        if into is None:
            count._obj.value = len(self.processes)
            return
        count._obj.value = len(self.processes)
        for slot, (pid, used) in zip(into, self.processes, strict=False):
            slot.pid, slot.usedGpuMemory = pid, used

    def _nvmlSystemGetProcessName(self, pid: Any, text: Any, _: Any) -> None:
        text.value = {4711: b"/opt/cuzk/cuzk-daemon --config x"}[pid.value]

    def _nvmlEventSetCreate(self, watch: Any) -> None:
        self._give_handle(None, watch)

    def _nvmlDeviceRegisterEvents(self, _: Any, kinds: Any, watch: Any) -> None:
        assert kinds.value == 8  # critical errors alone
        assert watch

    def _nvmlEventSetWait_v2(self, _: Any, event: Any, timeout_ms: Any) -> None:
        assert timeout_ms.value == 0
        event._obj.eventType, event._obj.eventData = 8, self.faults.pop(0)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    fake = FakeLibrary()
    monkeypatch.setattr(pynvml, "nvmlLib", fake)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    return fake


def test_the_binding_gives_every_field(library: FakeLibrary) -> None:
    clock = Clock()
    (reading,) = readings(read_once(PynvmlReader(), clock.sleep, clock))
    assert reading == GpuSampled(
        at_ms=T0_MS + 1000.0,
        gpu=0,
        util_pct=42.5,
        util_source="gpm",
        util_window_ms=1000.0,
        power_w=312.25,
        power_limit_w=700.0,
        sm_clock_mhz=1980,
        memory_clock_mhz=3201,
        temperature_c=41,
        memory_used_bytes=40 * GIB,
        memory_total_bytes=141 * GIB,
        held_down="power cap",
        name="NVIDIA H200",
        uuid="GPU-1234",
        sm_util_pct=38.5,
        host_to_device_bytes_per_s=900.0 * 2**20,
        device_to_host_bytes_per_s=7.0 * 2**20,
        pcie_gen=4,
        pcie_width=8,
        pcie_gen_max=5,
        pcie_width_max=16,
        ecc_errors=2,
        xid=0,
        processes=(),
    )
    assert library.calls["nvmlInitWithFlags"] == 1


def test_processes_have_their_names_where_pids_are_the_hosts(
    library: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "_is_first_namespace", lambda: True)
    library.processes = [(os.getpid(), 3 * GIB), (2**22 + 1, 2**64 - 1)]
    reader = PynvmlReader()
    reader.start()
    name = Path("/proc/self/comm").read_text().strip()
    assert reader.processes(reader.find(0, None)) == [
        GpuProcess(os.getpid(), 3 * GIB, name),
        GpuProcess(2**22 + 1, None, None),  # gone, and the driver doesn't say what it used
    ]


def test_in_a_container_the_driver_names_processes_that_it_counts_as_the_host_does(
    library: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "_is_first_namespace", lambda: False)
    library.processes = [(4711, 3 * GIB)]
    reader = PynvmlReader()
    reader.start()
    assert reader.processes(reader.find(0, None)) == [
        GpuProcess(4711, 3 * GIB, "cuzk-daemon", here=False)
    ]


def test_critical_events_are_taken_without_waiting(library: FakeLibrary) -> None:
    clock = Clock()
    state = SamplerState()
    reader = PynvmlReader()
    library.faults = [48]
    found: list[GpuSampled | GpuSamplerNote] = []
    for _ in range(8):
        found += sample(reader, clock, state)
        clock.now_ms += 1000.0
    assert readings(found)[-1].xid == 48
    assert any("XID 48 (uncorrected memory error)" in text for text in notes(found))


def test_the_binding_reads_the_sample_buffer_from_where_it_left_off(library: FakeLibrary) -> None:
    clock = Clock()
    state = SamplerState(sources=("samples", "utilization.gpu"))
    reader = PynvmlReader()
    (first,) = readings(list(sample(reader, clock, state)))
    assert first.util_pct == 68.0  # the newest five: 66 … 70
    library.samples += [
        (library.samples[-1][0] + 200_000, 90),
        (library.samples[-1][0] + 400_000, 92),
    ]
    (second,) = readings(list(sample(reader, clock, state)))
    assert (second.util_pct, second.util_window_ms) == (91.0, 400.0)
    library.status["nvmlDeviceGetSamples"] = 6  # not found: nothing new
    (third,) = readings(list(sample(reader, clock, state)))
    assert (third.util_pct, third.util_source) == (46.0, "utilization.gpu")


def test_an_older_driver_is_read_by_its_older_functions(library: FakeLibrary) -> None:
    library.missing = {
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlGpmQueryDeviceSupport",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetTotalEccErrors",
        "nvmlEventSetCreate",
    }
    library.status["field"] = 3
    library.power_type = 3
    clock = Clock()
    events = read_once(PynvmlReader(), clock.sleep, clock)
    (reading,) = readings(events)
    assert reading.memory_used_bytes == 41 * GIB
    assert reading.power_w == 250.5
    assert reading.util_source in {"samples", "utilization.gpu"}
    assert notes(events) == []


def test_an_older_binding_without_event_reasons_asks_for_throttle_reasons(
    library: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.missing = {"nvmlDeviceGetCurrentClocksEventReasons"}
    monkeypatch.delattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons")
    clock = Clock()
    (reading,) = readings(read_once(PynvmlReader(), clock.sleep, clock))
    assert reading.held_down == "power cap"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(3, "unsupported"), (15, "lost"), (9, "gone"), (13, "absent"), (999, "failed")],
)
def test_statuses_mean_what_the_sampler_expects(
    library: FakeLibrary, status: int, kind: ErrorKind
) -> None:
    reader = PynvmlReader()
    reader.start()
    handle = reader.find(0, None)
    library.status["nvmlDeviceGetTemperature"] = status
    with pytest.raises(GpuReadError) as caught:
        reader.number(handle, "temperature_c")
    assert caught.value.kind == kind


def test_a_metric_that_failed_on_its_own_is_no_figure(library: FakeLibrary) -> None:
    library.status["metric 1"] = 3
    clock = Clock()
    (reading,) = readings(read_once(PynvmlReader(), clock.sleep, clock))
    assert reading.util_source == "samples"


def test_a_null_handle_is_never_passed_on(library: FakeLibrary) -> None:
    library.null_handles = True
    reader = PynvmlReader()
    reader.start()
    with pytest.raises(GpuReadError) as caught:
        reader.find(0, None)
    assert caught.value.kind == "lost"


def test_a_missing_package_is_named_with_the_command_that_mends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(NvmlUnavailableError, match="pip install nvidia-ml-py"):
        PynvmlReader().start()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (12, "install the NVIDIA driver"),
        (9, "modprobe nvidia, or reboot"),
        (4, "no permission"),
        (999, "see what nvidia-smi says"),
    ],
)
def test_why_nvml_cannot_be_used_is_a_sentence(
    library: FakeLibrary, status: int, words: str
) -> None:
    library.status["nvmlInitWithFlags"] = status
    with pytest.raises(NvmlUnavailableError, match=words) as caught:
        PynvmlReader().start()
    assert "\n" not in str(caught.value)


def test_two_driver_versions_are_both_named(library: FakeLibrary, tmp_path: Path) -> None:
    loaded = tmp_path / "version"
    loaded.write_text("570.86.15\n")
    library.status["nvmlInitWithFlags"] = 18
    with pytest.raises(NvmlUnavailableError) as caught:
        PynvmlReader(kernel_version_file=str(loaded)).start()
    assert str(caught.value) == (
        "its library is version 580.159.04 and the loaded kernel module 570.86.15: "
        "reboot or reload the driver"
    )
