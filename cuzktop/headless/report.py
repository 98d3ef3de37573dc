"""The document cuzktop.report/1: what happened, over the whole log.

A log of weeks has a million partitions, so the document is written while they pass by and never
stands in memory: one partition a line, between a head and a tail that are small.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache, partial
from operator import attrgetter
from typing import Final, TextIO

from cuzktop.analysis.reconcile import differences
from cuzktop.columns import PARTITION_COLUMNS, partition_json
from cuzktop.frame import GpuReport, Herd, Inflation, PartitionRow, RunReport, Source
from cuzktop.headless import parts

SCHEMA: Final = "cuzktop.report/1"

_encode: Final = json.JSONEncoder(allow_nan=False).encode


_FIGURES: Final = tuple(column.key for column in PARTITION_COLUMNS if column.unit)
_LINE: Final = '{"job": %s, "attempt": %s, "partition": %s, %s, ' + (
    ", ".join(f'"{key}": %s' for key in _FIGURES) + "}"
)
"""A partition's line, as the encoder would make it; a fifth of the time, for a million of them."""
_figures_of: Final = attrgetter(*_FIGURES)
_PLACE: Final = re.compile(r'(?<="worker": )(\d+), "gpu": \d+')  # in a job's id quotes are escaped
_WHOLE: Final = frozenset({int, type(None)})


def partition_line(row: PartitionRow) -> str:
    """One partition as JSON, without a newline: what `write_report` is fed with."""
    figures = _figures_of(row)
    try:
        whole = type(sum(figures)) is int
    except TypeError:  # some are unknown
        whole = _WHOLE.issuperset(map(type, figures))
        figures = tuple(["null" if figure is None else figure for figure in figures])
    if not whole:  # a figure that isn't finite is unknown
        return _encode({key: _finite(value) for key, value in partition_json(row).items()})
    by, partition = row.attribution_by, row.partition
    told = _told(
        row.kind,
        row.state,
        row.worker,
        row.gpu,
        row.attribution,
        (by.get("lock", "none"), by.get("kernel", "none"), by.get("cpu", "none")),
        row.derived,
    )
    where = "null" if partition is None else partition
    return _LINE % (_job(row.job), row.attempt, where, told, *figures)


@lru_cache(maxsize=256)  # more than are in flight at a time
def _job(job: str) -> str:
    """A job's id, which stands in a dozen lines that are near to each other."""
    return _encode(job)


@lru_cache(maxsize=256)  # a log has a few dozen
def _told(
    kind: str | None,
    state: str,
    worker: int | None,
    gpu: int | None,
    attribution: str,
    by: tuple[str, str, str],
    derived: tuple[str, ...],
) -> str:
    """What stands between a partition's number and its figures."""
    told = {
        "kind": kind,
        "state": state,
        "worker": worker,
        "gpu": gpu,
        "attribution": attribution,
        "attribution_by": dict(zip(("lock", "kernel", "cpu"), by, strict=True)),
        "derived": derived,
    }
    return _encode(told)[1:-1]


def _unplaced(line: str, workers: Collection[int]) -> str:
    """A partition's line, made before it was known that `workers` may use any of several GPUs."""

    def place(found: re.Match[str]) -> str:
        return f'{found[1]}, "gpu": null' if int(found[1]) in workers else found[0]

    return _PLACE.sub(place, line, count=1)


def write_report(
    out: TextIO, *, source: Source, runs: Iterable[tuple[RunReport, Iterable[str]]]
) -> None:
    """Write the document to `out`, a run after the other.

    The second item of each pair yields its partitions as `partition_line` makes them; it is read
    once, as the document is written. Key order is the contract's. Raises what `out` raises.
    """
    out.write(f'{{"schema": "{SCHEMA}",\n"source": {_encode(parts.source(source))},\n"runs": [')
    first = True
    for report, partitions in runs:
        out.write(f"{'' if first else ','}\n{_encode(_head(report))[:-1]},\n")
        out.write('"partitions": [')
        place = partial(_unplaced, workers=report.unplaced)
        out.writelines(_separated(map(place, partitions) if report.unplaced else partitions))
        out.write(f"],\n{_encode(_tail(report))[1:]}")
        first = False
    out.write("]}\n")


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _separated(lines: Iterable[str]) -> Iterator[str]:
    """Each on a line of its own, with commas between them."""
    lead = "\n"
    for line in lines:
        yield lead
        yield line
        lead = ",\n"


def _head(report: RunReport) -> dict[str, object]:
    """A run up to its partitions."""
    return {
        "run": report.run,
        "started": report.started,
        "dialect": report.dialect,
        "span_ms": parts.number(report.span_ms, parts.MS_DIGITS),
        "proofs": parts.proofs(report.proofs),
        "gpus": [_gpu(gpu) for gpu in report.gpus],
    }


def _tail(report: RunReport) -> dict[str, object]:
    """A run after its partitions."""
    return {
        "stages": parts.stages(report.stages),
        "verdict": parts.verdict(report.verdict),
        "alerts": parts.alerts(report.alerts),
        "settings": {parts.text(k): parts.text(v) for k, v in report.settings.items()},
        "herd": _herd(report.herd),
        "inflation": _inflation(report.inflation),
    }


def _herd(herd: Herd | None) -> dict[str, object] | None:
    """How bunched syntheses finish; shares and the gauge are 0–1."""
    if herd is None:
        return None
    return {
        "share": parts.number(herd.share),
        "wave_size": herd.wave_size,
        "gauge": parts.number(herd.gauge),
        "sentence": parts.text(herd.sentence),
    }


def _inflation(found: Inflation | None) -> dict[str, object] | None:
    """How CPU stages stretch with the number of syntheses in flight."""
    if found is None:
        return None
    return {
        "found": found.found,
        "sentence": parts.text(found.sentence),
        "stages": [
            {
                "stage": one.stage,
                "count": one.count,
                "factor": parts.number(one.factor),
                "follows": one.follows,
                "bands": [
                    {
                        "in_flight": [low, high],
                        "count": count,
                        "p50_ms": parts.ms(factor * one.quiet_ms),
                        "factor": parts.number(factor),
                    }
                    for low, high, count, factor in one.bands
                ],
            }
            for one in found.stages
        ],
    }


def _gpu(gpu: GpuReport) -> dict[str, object]:
    return {
        "gpu": gpu.gpu,
        "workers": list(gpu.workers),
        "span_ms": parts.number(gpu.shares.span_ms, parts.MS_DIGITS),
        **parts.ladder(gpu.shares),
        "gap_count": gpu.gap_count,
        "gap_mean_ms": parts.number(gpu.gap_mean_ms, parts.MS_DIGITS),
        "time_pct": parts.time_pct(gpu.shares.time_pct),
        "nvml": _nvml(gpu),
        "derived": ["lock_held_pct"] if gpu.shares.lock_derived else [],
        "differences_pct": parts.points(differences(gpu.shares, gpu.nvml_util_pct)),
        "suspects": [parts.text(text) for text in gpu.suspects],
    }


def _nvml(gpu: GpuReport) -> dict[str, object] | None:
    """Time-weighted means over the span; `None` unless measured."""
    if not gpu.nvml_samples or (gpu.nvml_util_pct is None and gpu.nvml_power_w is None):
        return None
    return {
        "util_pct": parts.number(gpu.nvml_util_pct),
        "power_w": parts.number(gpu.nvml_power_w),
        "samples": gpu.nvml_samples,
        "source": gpu.nvml_source,
    }
