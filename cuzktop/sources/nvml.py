"""NVML itself, what the cards' driver tells of them: the only module that imports pynvml."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cuzktop.events import GpuProcess
from cuzktop.sources.gpu_reader import (
    ErrorKind,
    GpmFigures,
    GpuReadError,
    NumberField,
    NvmlUnavailableError,
    TextField,
)

_ERROR_KINDS: Final[dict[int, ErrorKind]] = {
    1: "gone",  # uninitialised: the library was shut down under us
    2: "unsupported",  # invalid argument: a field that this driver doesn't know
    3: "unsupported",
    4: "unsupported",  # no permission
    6: "empty",  # not found
    9: "gone",  # driver not loaded
    10: "empty",  # timeout: no event is waiting
    12: "gone",  # library not found
    13: "absent",  # function not found: an older library
    15: "lost",
    16: "lost",  # reset required
    18: "gone",  # library and kernel module differ
    21: "empty",  # no data
    25: "absent",  # argument version: an older library
    26: "absent",  # deprecated
    28: "lost",  # GPU not found
}
"""nvmlReturn_t (nvml.h) → what it means to us; anything else failed this once."""

_LIBRARY_RM_MISMATCH = 18
_START_HINTS: Final[dict[int, str]] = {
    4: "no permission to open /dev/nvidiactl: run as a user who may",
    9: "the NVIDIA kernel driver isn't loaded: modprobe nvidia, or reboot",
    12: "libnvidia-ml.so.1 not found: install the NVIDIA driver; a container needs --gpus all",
}
_KERNEL_VERSION_FILE = "/sys/module/nvidia/version"
_FIRST_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO in the kernel's proc_ns.h
_MIB = 1024 * 1024
_FIELD_POWER_INSTANT = 186  # NVML_FI_DEV_POWER_INSTANT
_XID_EVENTS = 8  # nvmlEventTypeXidCriticalError
_GPM_METRICS = (1, 2, 21, 20)  # graphics and SM utilisation; PCIe to the card and from it, MiB/s
_VALUE_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""The member of nvmlValue_t that each nvmlValueType_t names."""

_PLAIN_CALLS: Final[dict[str, tuple[str, tuple[int, ...], float]]] = {
    "persistence_mode": ("nvmlDeviceGetPersistenceMode", (), 1.0),
    "power_limit_w": ("nvmlDeviceGetEnforcedPowerLimit", (), 1000.0),
    "power_average_w": ("nvmlDeviceGetPowerUsage", (), 1000.0),
    "sm_clock_mhz": ("nvmlDeviceGetClockInfo", (1,), 1.0),  # NVML_CLOCK_SM
    "memory_clock_mhz": ("nvmlDeviceGetClockInfo", (2,), 1.0),  # NVML_CLOCK_MEM
    "temperature_c": ("nvmlDeviceGetTemperature", (0,), 1.0),  # NVML_TEMPERATURE_GPU
    "pcie_gen": ("nvmlDeviceGetCurrPcieLinkGeneration", (), 1.0),
    "pcie_width": ("nvmlDeviceGetCurrPcieLinkWidth", (), 1.0),
    "pcie_gen_max": ("nvmlDeviceGetMaxPcieLinkGeneration", (), 1.0),
    "pcie_width_max": ("nvmlDeviceGetMaxPcieLinkWidth", (), 1.0),
    "ecc_errors": ("nvmlDeviceGetTotalEccErrors", (1, 0), 1.0),  # uncorrected, volatile
}
"""Field → (function, its further arguments, what divides its answer)."""


class PynvmlReader:
    """NVML itself, by NVIDIA's own binding (`pynvml` of the package nvidia-ml-py)."""

    def __init__(self, kernel_version_file: str = _KERNEL_VERSION_FILE) -> None:
        """Do nothing yet: the binding is imported by `start`."""
        self._kernel_version_file = kernel_version_file
        self._nvml: Any = None
        self._reasons_call = "nvmlDeviceGetCurrentClocksEventReasons"

    def start(self) -> None:
        """Import the binding and initialise the library.

        Raises:
            NvmlUnavailableError: why it can't be used and what to do about it.
        """
        try:
            import pynvml  # noqa: PLC0415  # 30 ms that only this thread should pay
        except ImportError:
            missing = "the Python package nvidia-ml-py is missing: pip install nvidia-ml-py"
            raise NvmlUnavailableError(missing) from None
        self._nvml = pynvml
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NvmlUnavailableError(self._why_not(error)) from None
        except (AttributeError, OSError) as error:
            unusable = f"its library can't be used ({error})"
            raise NvmlUnavailableError(unusable) from None
        if not hasattr(pynvml, self._reasons_call):
            self._reasons_call = "nvmlDeviceGetCurrentClocksThrottleReasons"

    def _why_not(self, error: Any) -> str:  # noqa: ANN401  # pynvml has no types
        if error.value == _LIBRARY_RM_MISMATCH:
            return (
                f"its library is version {self._library_version()} and the loaded kernel module "
                f"{self._kernel_version()}: reboot or reload the driver"
            )
        return _START_HINTS.get(error.value, f"{error}: see what nvidia-smi says")

    def _library_version(self) -> str:
        try:
            text = str(self._nvml.nvmlSystemGetNVMLVersion())  # 13.580.159.04: CUDA's, the driver's
        except (self._nvml.NVMLError, AttributeError, UnicodeDecodeError):
            return "unknown"
        return text.split(".", 1)[-1]

    def _kernel_version(self) -> str:
        try:
            with open(self._kernel_version_file, encoding="ascii", errors="replace") as file:  # noqa: PTH123
                return file.read(64).strip() or "unknown"
        except OSError:
            return "unknown"

    def _call(self, name: str, *arguments: object) -> Any:  # noqa: ANN401  # pynvml has no types
        nvml = self._nvml
        try:
            return getattr(nvml, name)(*arguments)
        except nvml.NVMLError as error:
            kind = _ERROR_KINDS.get(error.value, "failed")
            raise GpuReadError(kind=kind, text=str(error)) from None
        except AttributeError:
            raise GpuReadError(kind="absent", text=f"{name} isn't in this pynvml") from None
        except UnicodeDecodeError:
            raise GpuReadError(kind="failed", text=f"{name} gave no text") from None

    def driver_version(self) -> str:
        """The driver's version: 580.159.04."""
        return str(self._call("nvmlSystemGetDriverVersion"))

    def gpu_count(self) -> int:
        """How many cards the driver lists."""
        return int(self._call("nvmlDeviceGetCount"))

    def find(self, gpu: int, uuid: str | None) -> object:
        """Give a card's handle; NVML's order is by PCI bus id."""
        if uuid is not None:
            handle = self._call("nvmlDeviceGetHandleByUUID", uuid)
        else:
            handle = self._call("nvmlDeviceGetHandleByIndex", gpu)
        if not handle:  # passed on to the library, a null handle ends the whole process
            raise GpuReadError(kind="lost", text="the driver gave no handle")
        return handle

    def text(self, handle: object, what: TextField) -> str:
        """Read a name of the card."""
        return str(
            self._call({"uuid": "nvmlDeviceGetUUID", "name": "nvmlDeviceGetName"}[what], handle)
        )

    def number(self, handle: object, what: NumberField) -> float:
        """Read one figure in the unit that its name ends in."""
        match what:
            case "utilization_pct":
                return float(self._call("nvmlDeviceGetUtilizationRates", handle).gpu)
            case "power_instant_w":
                return self._power_instant_w(handle)
            case "clock_reasons":
                return float(self._call(self._reasons_call, handle))
            case "gpm_supported":
                return float(self._call("nvmlGpmQueryDeviceSupport", handle).isSupportedDevice)
            case "mig_mode":
                return float(self._call("nvmlDeviceGetMigMode", handle)[0])
            case _:
                name, arguments, divisor = _PLAIN_CALLS[what]
                return float(self._call(name, handle, *arguments)) / divisor

    def _power_instant_w(self, handle: object) -> float:
        value = self._call("nvmlDeviceGetFieldValues", handle, [_FIELD_POWER_INSTANT])[0]
        if value.nvmlReturn:
            kind = _ERROR_KINDS.get(value.nvmlReturn, "failed")
            raise GpuReadError(kind=kind, text=str(self._nvml.NVMLError(value.nvmlReturn)))
        return _value(value.valueType, value.value) / 1000.0

    def memory_bytes(self, handle: object, *, v2: bool) -> tuple[int, int]:
        """Read (used, total) bytes; version 1 counts the driver's own 615 MiB as used."""
        if v2:
            version = getattr(self._nvml, "nvmlMemory_v2", None)
            if version is None:
                raise GpuReadError(kind="absent", text="nvmlMemory_v2 isn't in this pynvml")
            memory = self._call("nvmlDeviceGetMemoryInfo", handle, version)
        else:
            memory = self._call("nvmlDeviceGetMemoryInfo", handle)
        return int(memory.used), int(memory.total)

    def util_samples(self, handle: object, since_us: int) -> Sequence[tuple[int, float]]:
        """Read the samples after `since_us`; the binding asks the library twice."""
        try:
            kind, entries = self._call("nvmlDeviceGetSamples", handle, 1, since_us)
        except GpuReadError as error:
            if error.kind == "empty":
                return ()
            raise
        return [(int(entry.timeStamp), _value(kind, entry.sampleValue)) for entry in entries]

    def gpm_mark(self) -> object:
        """Allocate one GPM sample."""
        mark: object = self._call("nvmlGpmSampleAlloc")
        return mark

    def gpm_sample(self, handle: object, mark: object) -> None:
        """Fill `mark` with the card's counters."""
        self._call("nvmlGpmSampleGet", handle, mark)

    def gpm(self, earlier: object, later: object) -> GpmFigures:
        """Work out utilisation and PCIe rates between two marks."""
        nvml = self._nvml
        request = nvml.c_nvmlGpmMetricsGet_t()
        request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(_GPM_METRICS)
        request.sample1, request.sample2 = earlier, later
        for slot, metric in enumerate(_GPM_METRICS):
            request.metrics[slot].metricId = metric
        self._call("nvmlGpmMetricsGet", request)
        util = request.metrics[0]
        if util.nvmlReturn:
            kind = _ERROR_KINDS.get(util.nvmlReturn, "failed")
            raise GpuReadError(kind=kind, text=str(nvml.NVMLError(util.nvmlReturn)))
        others = [request.metrics[slot] for slot in range(1, len(_GPM_METRICS))]
        sm, to_device, to_host = (
            None if metric.nvmlReturn else float(metric.value) for metric in others
        )
        return GpmFigures(
            util_pct=float(util.value),
            sm_util_pct=sm,
            host_to_device_bytes_per_s=None if to_device is None else to_device * _MIB,
            device_to_host_bytes_per_s=None if to_host is None else to_host * _MIB,
        )

    def processes(self, handle: object) -> Sequence[GpuProcess]:
        """Read who has a compute context; the binding asks the library twice."""
        here = _is_first_namespace()
        return [
            GpuProcess(
                pid=int(one.pid),
                memory_bytes=None if one.usedGpuMemory is None else int(one.usedGpuMemory),
                name=_comm(int(one.pid)) if here else self._process_name(int(one.pid)),
                here=here,
            )
            for one in self._call("nvmlDeviceGetComputeRunningProcesses", handle)
        ]

    def _process_name(self, pid: int) -> str | None:
        """The driver's word for a process that /proc doesn't show us, without its folder."""
        try:
            path = str(self._call("nvmlSystemGetProcessName", pid))
        except GpuReadError:
            return None
        return path.split(" ", 1)[0].rsplit("/", 1)[-1] or None

    def watch_faults(self, handle: object) -> object:
        """Make a set of events for this card alone, so that each has its card."""
        watch: object = self._call("nvmlEventSetCreate")
        try:
            self._call("nvmlDeviceRegisterEvents", handle, _XID_EVENTS, watch)
        except GpuReadError:
            with contextlib.suppress(GpuReadError):
                self._call("nvmlEventSetFree", watch)
            raise
        return watch

    def next_fault(self, watch: object) -> int | None:
        """Take an event that is waiting; the library says timeout where there is none."""
        try:
            event = self._call("nvmlEventSetWait_v2", watch, 0)
        except GpuReadError as error:
            if error.kind == "empty":
                return None
            raise
        return int(event.eventData)


def _is_first_namespace() -> bool:
    """Whether our pids are the host's, which the driver reports."""
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == _FIRST_NAMESPACE
    except OSError:
        return False


def _comm(pid: int) -> str | None:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:  # noqa: PTH123
            return file.read(64).decode(errors="replace").strip() or None
    except OSError:
        return None


def _value(kind: int, union: Any) -> float:  # noqa: ANN401  # pynvml has no types
    """Read the member of an nvmlValue_t that its type names."""
    if not 0 <= kind < len(_VALUE_MEMBERS):
        raise GpuReadError(kind="unsupported", text=f"value type {kind} is unknown")
    return float(getattr(union, _VALUE_MEMBERS[kind]))
