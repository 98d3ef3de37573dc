"""The document cuzktop.snapshot/1: the state right after the last complete line.

The contract's names come first, in its order; what the text and the screen show beyond them
follows under names of its own.
"""

from __future__ import annotations

from typing import Final

from cuzktop.analysis.reconcile import differences
from cuzktop.cards import whose
from cuzktop.columns import partition_json
from cuzktop.events import DaemonStatus, GpuSampled, StatusResident
from cuzktop.frame import Frame, Gpu, Holding, Host, JobRow, Lock, Nvml
from cuzktop.headless import parts

SCHEMA: Final = "cuzktop.snapshot/1"


def snapshot_document(frame: Frame) -> dict[str, object]:
    """What `json.dump` takes as `cuzktop snapshot --json`.

    `at_ms` and `since_ms` count from the run's TIMELINE zero.
    """
    return {
        "schema": SCHEMA,
        "at": frame.at,
        "at_ms": parts.number(frame.now_ms, parts.MS_DIGITS),
        "since_ms": parts.number(frame.since_ms, parts.MS_DIGITS),
        "run": frame.run,
        "syntheses": [
            {
                "job": parts.text(s.job),
                "partition": s.partition,
                "elapsed_ms": parts.ms(s.age_ms(frame.now_ms)),
                "expected_ms": parts.ms(s.expected_ms),
            }
            for s in frame.syntheses
        ],
        "gpu_queue": [
            {
                "job": parts.text(q.job),
                "partition": q.partition,
                "waiting_ms": parts.ms(q.age_ms(frame.now_ms)),
            }
            for q in frame.gpu_queue
        ],
        "gpus": [_gpu(gpu, frame) for gpu in frame.gpus],
        "jobs": [_job(job) for job in frame.jobs],
        "counters": parts.proofs(frame.proofs),
        "verdict": parts.verdict(frame.verdict),
        "alerts": parts.alerts(frame.alerts),
        "started": frame.started,
        "dialect": frame.dialect,
        "source": parts.source(frame.source)
        | {
            "note": parts.text(frame.source.note),
            "silent_ms": parts.ms(frame.source.silent_ms),
        },
        "stages": parts.stages(frame.stages),
        "partitions": [partition_json(row) for row in frame.recent],
        "host": None if frame.host is None else _host(frame.host),
        "status": None if frame.status is None else _status(frame.status),
        "status_note": parts.text(frame.status_note),
    }


def _gpu(gpu: Gpu, frame: Frame) -> dict[str, object]:
    window = gpu.window
    return {
        "gpu": gpu.gpu,
        "lock": _lock(gpu.lock, frame.now_ms),
        "window": {
            "seconds": parts.number(frame.window_s),
            **parts.ladder(window),
            "time_pct": None if window is None else parts.time_pct(window.time_pct),
            "span_ms": None if window is None else parts.ms(window.span_ms),
            "derived": ["lock_held_pct"] if window is not None and window.lock_derived else [],
        },
        "nvml": None if gpu.nvml is None else _nvml(gpu.nvml, frame.host),
        "nvml_note": parts.text(gpu.nvml_note if gpu.nvml is None else gpu.nvml.note),
        "workers": list(gpu.workers),
        "differences_pct": parts.points(
            differences(window, None if gpu.nvml is None else gpu.nvml.mean_util_pct)
        ),
        "suspects": [parts.text(text) for text in gpu.suspects],
    }


def _lock(lock: Lock, now_ms: float) -> dict[str, object]:
    """The lock; `candidates` is there only when there are any."""
    document: dict[str, object] = {
        "holder": None if lock.holder is None else _holder(lock.holder, now_ms),
        "waiting": [_holding(waiter, now_ms, "waiting_ms") for waiter in lock.waiting],
        "finishing": [_holding(finisher, now_ms, "since_ms") for finisher in lock.finishing],
        "confidence": lock.confidence,
    }
    if lock.candidates:
        document["candidates"] = [_holder(candidate, now_ms) for candidate in lock.candidates]
    return document


def _holder(holding: Holding, now_ms: float) -> dict[str, object]:
    return _holding(holding, now_ms, "held_ms") | {"stage": holding.stage}


def _holding(holding: Holding, now_ms: float, since: str) -> dict[str, object]:
    """A worker's call; `since` names the age of its state."""
    return {
        "worker": holding.worker,
        "job": parts.text(holding.job),
        "partition": holding.partition,
        since: parts.ms(holding.age_ms(now_ms)),
    }


def _nvml(nvml: Nvml, host: Host | None) -> dict[str, object] | None:
    """Means over the window, then the newest reading under names of its own.

    Without a mean the newest reading stands in for it; without any reading there is no object.
    """
    util_pct = nvml.util_pct if nvml.mean_util_pct is None else nvml.mean_util_pct
    power_w = nvml.power_w if nvml.mean_power_w is None else nvml.mean_power_w
    if util_pct is None and power_w is None and nvml.memory_used_bytes is None:
        return None
    return {
        "util_pct": parts.number(util_pct),
        "power_w": parts.number(power_w),
        "samples": nvml.samples,
        "source": nvml.util_source,
        "age_ms": parts.ms(nvml.age_ms),
        "now_util_pct": parts.number(nvml.util_pct),
        "now_power_w": parts.number(nvml.power_w),
        "power_limit_w": parts.number(nvml.power_limit_w),
        "sm_clock_mhz": nvml.sm_clock_mhz,
        "temperature_c": nvml.temperature_c,
        "memory_used_bytes": nvml.memory_used_bytes,
        "memory_total_bytes": nvml.memory_total_bytes,
        "held_down": nvml.held_down,
        "name": nvml.name,
        **({} if nvml.reading is None else _card(nvml.reading, host)),
    }


def _card(reading: GpuSampled, host: Host | None) -> dict[str, object]:
    """What else the newest reading has; `whose` is daemon, other, or null where nothing tells.

    `xid` is 0 where the driver would have told of a critical event; `xid_unread` why it wouldn't.
    """
    processes = reading.processes
    return {
        "uuid": reading.uuid,
        "memory_clock_mhz": reading.memory_clock_mhz,
        "now_sm_util_pct": parts.number(reading.sm_util_pct),
        "now_host_to_device_bytes_per_s": parts.number(reading.host_to_device_bytes_per_s),
        "now_device_to_host_bytes_per_s": parts.number(reading.device_to_host_bytes_per_s),
        "pcie_gen": reading.pcie_gen,
        "pcie_width": reading.pcie_width,
        "pcie_gen_max": reading.pcie_gen_max,
        "pcie_width_max": reading.pcie_width_max,
        "ecc_errors": reading.ecc_errors,
        "xid": reading.xid,
        "xid_unread": None if reading.xid_unread is None else parts.text(reading.xid_unread),
        "processes": None
        if processes is None
        else [
            {
                "pid": one.pid,
                "name": None if one.name is None else parts.text(one.name),
                "memory_bytes": one.memory_bytes,
                "whose": whose(one, processes, host) or None,
            }
            for one in processes
        ],
    }


def _job(job: JobRow) -> dict[str, object]:
    document: dict[str, object] = {
        "job": parts.text(job.job),
        "attempt": job.attempt,
        "kind": job.kind,
        "age_ms": parts.ms(job.age_ms),
        "total": job.total,
        "done": job.done,
        "failed": job.failed,
        "states": list(job.states),
    }
    if job.message:
        document["message"] = parts.text(job.message)
    return document


def _host(host: Host) -> dict[str, object]:
    """The machine and the daemon's process; cuzktop's own cost is the screen's affair."""
    return {
        "cpu_pct": parts.number(host.cpu_pct),
        "memory_used_bytes": host.memory_used_bytes,
        "memory_total_bytes": host.memory_total_bytes,
        "load_1m": parts.number(host.load_1m),
        "psi_cpu_pct": parts.number(host.psi_cpu_pct),
        "psi_memory_pct": parts.number(host.psi_memory_pct),
        "daemon_pid": host.daemon_pid,
        "daemon_cpu_pct": parts.number(host.daemon_cpu_pct),
        "daemon_rss_bytes": host.daemon_rss_bytes,
        "daemon_threads": host.daemon_threads,
        "tlb_shootdowns_per_s": parts.number(host.tlb_shootdowns_per_s),
        "memory_bandwidth_bytes_per_s": parts.number(host.memory_bandwidth_bytes_per_s),
        "missing": parts.text(host.missing),
    }


def _status(said: DaemonStatus) -> dict[str, object]:
    """The daemon's own words, from its `/status`: beside the log, never in its place."""
    return {
        "uptime_ms": parts.ms(said.uptime_ms),
        "memory_total_bytes": said.memory_total_bytes,
        "memory_used_bytes": said.memory_used_bytes,
        "memory_available_bytes": said.memory_available_bytes,
        "queue_depth": said.queue_depth,
        "syntheses": said.synthesis_active,
        "provers": said.provers_in_flight,
        "completed": said.completed,
        "failed": said.failed,
        "workers": [
            {
                "worker": one.worker,
                "gpu": one.gpu,
                "state": parts.text(one.state or ""),
                "job": None if one.job is None else parts.text(one.job),
                "partition": one.partition,
                "busy_ms": parts.ms(one.busy_ms),
            }
            for one in said.workers or ()
        ],
        "srs": None if said.srs is None else [_resident(one) for one in said.srs],
        "pce": None if said.pce is None else [_resident(one) for one in said.pce],
    }


def _resident(one: StatusResident) -> dict[str, object]:
    return {
        "circuit": parts.text(one.circuit),
        "bytes": one.bytes,
        "idle_ms": parts.ms(one.idle_ms),
        "evictable": one.evictable,
    }
