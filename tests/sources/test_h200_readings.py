"""Readings of a real H200 beside loads whose truth is known (benchmarks/nvml_device.py wrote them).

`waves.rec` is what `cuzktop record` wrote beside eight square waves, each of which is a run of its
log with a bracket a kernel; `two_cards.rec` the same beside one wave on a box of two cards, to
whose load CUDA showed the driver's second card alone; `samples.json` what the driver's own samples
gave at that time; `copies.json` what GPM gave beside copies of known rates.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cuzktop.cli import main
from cuzktop.events import GpuProcess, GpuSampled
from cuzktop.sources.recording_reader import recording_samples
from cuzktop.sources.samples import means_by_gpu

DATA = Path(__file__).parent.parent / "data" / "h200_sampler"
CLOSE_PTS = 3.0
DUTIES = [30.0, 50.0] * 4


def unpacked(name: str, folder: Path) -> Path:
    path = folder / name
    with gzip.open(DATA / f"{name}.gz") as packed, path.open("wb") as file:
        shutil.copyfileobj(packed, file)
    return path


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return unpacked("waves.rec", tmp_path)


def test_the_duty_of_square_waves_is_measured(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(recording), "--json"]) == 0
    runs: list[Mapping[str, Any]] = json.loads(capsys.readouterr().out)["runs"]
    found = [run["gpus"][0] for run in runs]
    assert [gpu["nvml"]["source"] for gpu in found] == ["gpm"] * 8
    # The brackets are the kernels themselves: what the log says is the truth here.
    assert [gpu["bracket_union_pct"] for gpu in found] == pytest.approx(DUTIES, abs=0.5)
    measured = [gpu["nvml"]["util_pct"] for gpu in found]
    assert measured == pytest.approx(DUTIES, abs=CLOSE_PTS)


def test_a_daemon_that_sees_the_second_card_alone_gets_that_ones_readings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was started with CUDA_VISIBLE_DEVICES=1: its GPU 0 is the one that worked."""
    path = unpacked("two_cards.rec", tmp_path)
    assert main(["report", str(path), "--json"]) == 0
    (gpu,) = json.loads(capsys.readouterr().out)["runs"][0]["gpus"]
    assert gpu["nvml"]["util_pct"] == pytest.approx(30.0, abs=CLOSE_PTS)
    readings = list(recording_samples(path))
    assert {(one.gpu, one.uuid) for one in readings if one.processes} == {
        (0, "GPU-9ec721bb-872e-2cef-7047-9e632aa7268c")  # nvidia-smi -L calls it GPU 1
    }
    assert {one.util_pct for one in readings if one.gpu == 1} == {None, 0.0}


def test_the_drivers_samples_measure_the_duty_too() -> None:
    for wave, duty in zip(json.loads((DATA / "samples.json").read_text()), DUTIES, strict=True):
        rows = (
            GpuSampled(at_ms, 0, util_pct, "samples", window_ms)
            for at_ms, util_pct, window_ms in wave["samples"]
        )
        span = {0: (wave["first_ms"] + 1000.0, wave["last_ms"] - 1000.0)}
        means = means_by_gpu(rows, span)[0]
        assert means.util_pct == pytest.approx(duty, abs=CLOSE_PTS), wave["phase"]


def test_the_load_is_in_the_cards_list_of_processes(recording: Path) -> None:
    last = list(recording_samples(recording))[-1]
    assert last.processes == (GpuProcess(445, 543162368, "cuzk-daemon"),)
    assert (last.pcie_gen, last.pcie_width, last.ecc_errors) == (5, 16, 0)


def test_copies_are_measured_in_their_direction_with_their_headers() -> None:
    for phase in json.loads((DATA / "copies.json").read_text()):
        whole = [row for row in phase["readings"][2:] if row[1] is not None]
        assert all(row[1] < 1.0 for row in whole)  # copies are no graphics utilisation
        to_device, to_host = (sum(row[at] for row in whole) / len(whole) for at in (2, 3))
        copied = (phase["copied_to_device_bytes_per_s"], phase["copied_to_host_bytes_per_s"])
        assert 1.04 * copied[0] < to_device < 1.04 * copied[0] + 0.1 * sum(copied), phase["phase"]
        assert copied[1] <= to_host < 1.04 * copied[1] + 0.1 * sum(copied), phase["phase"]


def test_copies_at_full_speed_take_nearly_all_of_the_time() -> None:
    phases = json.loads((DATA / "copies.json").read_text())
    shares = {}
    for phase in phases:
        whole = [row for row in phase["readings"][2:] if row[1] is not None]
        readings = [
            GpuSampled(
                1000.0 * at,
                0,
                row[1],
                "gpm",
                row[0],
                host_to_device_bytes_per_s=row[2],
                pcie_gen=5,
                pcie_width=16,
            )
            for at, row in enumerate(whole, 1)
        ]
        means = means_by_gpu(readings, {0: (0.0, 1000.0 * len(whole))})[0]
        assert means.copies_pct is not None
        shares[phase["copied_to_device_bytes_per_s"]] = means.copies_pct
    least, paced, full = (shares[rate] for rate in sorted(shares))
    assert full > 90.0  # one copy after the other
    assert paced == pytest.approx(100.0 * 256 / 1024 * 1024**3 / 0.05 / 58e9, abs=3.0)
    assert least < 2.0
