from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from cuzktop.events import Event, GpuProcess, GpuSampled, GpuSamplerNote
from cuzktop.sources.gpu_reader import (
    GpmFigures,
    GpuReadError,
    NumberField,
    NvmlUnavailableError,
    TextField,
    held_down,
)
from cuzktop.sources.gpu_sampler import GpuSampler
from cuzktop.sources.gpu_sampling import SamplerState, read_once, sample
from cuzktop.sources.ordinals import CudaChoice

_T = TypeVar("_T")

GIB = 1024**3
HERE = Path(__file__).parent
T0_MS = 1_796_029_645_000.0


class Clock:
    """Wall-clock ms that only the test moves."""

    def __init__(self) -> None:
        self.now_ms = T0_MS

    def __call__(self) -> float:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        self.now_ms += 1000.0 * seconds


def unsupported() -> GpuReadError:
    return GpuReadError(kind="unsupported", text="Not Supported")


def lost() -> GpuReadError:
    return GpuReadError(kind="lost", text="GPU is lost")


@dataclass
class FakeCard:
    """Every answer is a value, or an error to raise."""

    numbers: dict[NumberField, float | GpuReadError] = field(
        default_factory=lambda: {
            "gpm_supported": 1.0,
            "mig_mode": 0.0,
            "persistence_mode": 1.0,
            "power_limit_w": 700.0,
            "power_instant_w": 312.0,
            "power_average_w": 250.0,
            "sm_clock_mhz": 1980.0,
            "memory_clock_mhz": 3201.0,
            "temperature_c": 41.0,
            "clock_reasons": 0.0,
            "utilization_pct": 90.0,
            "pcie_gen": 5.0,
            "pcie_width": 16.0,
            "pcie_gen_max": 5.0,
            "pcie_width_max": 16.0,
            "ecc_errors": 0.0,
        }
    )
    memory_v2: tuple[int, int] | GpuReadError = (40 * GIB, 141 * GIB)
    memory_v1: tuple[int, int] | GpuReadError = (41 * GIB, 141 * GIB)
    samples: list[tuple[int, float]] | GpuReadError = field(default_factory=list)
    gpm_pct: float | GpuReadError = 45.0
    rates: tuple[float | None, float | None] = (9e9, 1e9)  # host to device, device to host
    find: GpuReadError | None = None
    name: str = "NVIDIA H200"
    processes: list[GpuProcess] | GpuReadError = field(default_factory=list)
    faults: list[int] | GpuReadError = field(default_factory=list)


@dataclass(frozen=True)
class Handle:
    gpu: int
    serial: int


class FakeReader:
    """NVML as far as the sampler knows it; counts calls as the library would see them."""

    def __init__(self, *cards: FakeCard, clock: Clock) -> None:
        self.cards = list(cards)
        self.clock = clock
        self.calls: Counter[str] = Counter()
        self.calls_of_gpu: Counter[int] = Counter()
        self.unavailable = ""
        self.found_by: list[str | None] = []
        self.gpm_intervals_ms: list[float] = []
        self.after_call: Callable[[str], None] = lambda _: None
        self._retired: set[Handle] = set()
        self._handles: dict[int, Handle] = {}

    def start(self) -> None:
        self.calls["start"] += 1
        if self.unavailable:
            raise NvmlUnavailableError(self.unavailable)

    def gpu_count(self) -> int:
        return len(self.cards)

    def find(self, gpu: int, uuid: str | None) -> object:
        self.found_by.append(uuid)
        if (error := self.cards[gpu].find) is not None:
            raise error
        if gpu in self._handles:
            self._retired.add(self._handles[gpu])
        self._handles[gpu] = Handle(gpu, len(self.found_by))
        return self._handles[gpu]

    def _card(self, handle: object, what: str, calls: int = 1) -> FakeCard:
        assert isinstance(handle, Handle), "a call with a handle that no good call gave"
        assert handle not in self._retired, "a call with a retired handle"
        self.calls[what] += calls
        self.calls_of_gpu[handle.gpu] += calls
        self.after_call(what)
        return self.cards[handle.gpu]

    def _give(self, answer: _T | GpuReadError) -> _T:
        if isinstance(answer, GpuReadError):
            raise answer
        return answer

    def text(self, handle: object, what: TextField) -> str:
        self._card(handle, what)
        assert isinstance(handle, Handle)
        return {"uuid": f"GPU-{handle.gpu}", "name": self.cards[handle.gpu].name}[what]

    def number(self, handle: object, what: NumberField) -> float:
        return self._give(self._card(handle, what).numbers[what])

    def memory_bytes(self, handle: object, *, v2: bool) -> tuple[int, int]:
        card = self._card(handle, "memory")
        return self._give(card.memory_v2 if v2 else card.memory_v1)

    def util_samples(self, handle: object, since_us: int) -> Sequence[tuple[int, float]]:
        entries = self._give(self._card(handle, "samples", calls=2).samples)
        return [entry for entry in entries if entry[0] > since_us]

    def gpm_mark(self) -> object:
        return {}

    def gpm_sample(self, handle: object, mark: object) -> None:
        card = self._card(handle, "gpm_sample")
        assert isinstance(mark, dict)
        mark.update(card=card, at_ms=self.clock.now_ms)
        assert isinstance(handle, Handle)
        mark["gpu"] = handle.gpu

    def gpm(self, earlier: object, later: object) -> GpmFigures:
        assert isinstance(earlier, dict)
        assert isinstance(later, dict)
        self.calls["gpm_metrics"] += 1
        self.calls_of_gpu[later["gpu"]] += 1
        self.gpm_intervals_ms.append(later["at_ms"] - earlier["at_ms"])
        card: FakeCard = later["card"]
        return GpmFigures(self._give(card.gpm_pct), 38.0, *card.rates)

    def processes(self, handle: object) -> Sequence[GpuProcess]:
        return self._give(self._card(handle, "processes", calls=2).processes)

    def watch_faults(self, handle: object) -> object:
        self._give(self._card(handle, "watch", calls=2).faults)
        return handle

    def next_fault(self, watch: object) -> int | None:
        faults = self._give(self._card(watch, "faults").faults)
        return faults.pop(0) if faults else None


def step(reader: FakeReader, state: SamplerState) -> list[GpuSampled | GpuSamplerNote]:
    return list(sample(reader, reader.clock, state))


def ticks(
    reader: FakeReader, state: SamplerState, count: int
) -> Iterator[list[GpuSampled | GpuSamplerNote]]:
    for _ in range(count):
        yield step(reader, state)
        reader.clock.now_ms += 1000.0


def readings(events: Sequence[object]) -> list[GpuSampled]:
    return [event for event in events if isinstance(event, GpuSampled)]


def notes(events: Sequence[object]) -> list[str]:
    return [event.text for event in events if isinstance(event, GpuSamplerNote)]


# ------------------------------------------------------------------------------- a healthy card


def test_the_second_reading_has_everything() -> None:
    clock = Clock()
    reader = FakeReader(FakeCard(), clock=clock)
    first, second = ticks(reader, SamplerState(), 2)
    assert readings(first)[0].util_pct is None  # GPM needs two samples: unknown, never 0
    assert second == [
        GpuSampled(
            at_ms=T0_MS + 1000.0,
            gpu=0,
            util_pct=45.0,
            util_source="gpm",
            util_window_ms=1000.0,
            power_w=312.0,
            power_limit_w=700.0,
            sm_clock_mhz=1980,
            memory_clock_mhz=3201,
            temperature_c=41,
            memory_used_bytes=40 * GIB,
            memory_total_bytes=141 * GIB,
            held_down="",
            name="NVIDIA H200",
            uuid="GPU-0",
            sm_util_pct=38.0,
            host_to_device_bytes_per_s=9e9,
            device_to_host_bytes_per_s=1e9,
            pcie_gen=5,
            pcie_width=16,
            pcie_gen_max=5,
            pcie_width_max=16,
            ecc_errors=0,
            xid=0,
            processes=(),
        )
    ]


@pytest.mark.parametrize(
    "card",
    [
        pytest.param(FakeCard(), id="gpm"),
        pytest.param(
            FakeCard(
                numbers=FakeCard().numbers | {"gpm_supported": 0.0},
                samples=[(200_000, 40.0)],
            ),
            id="samples",
        ),
        pytest.param(
            FakeCard(numbers=FakeCard().numbers | {"gpm_supported": 0.0}), id="no-samples-idle"
        ),
        pytest.param(
            FakeCard(numbers=FakeCard().numbers | {"gpm_supported": 0.0}, samples=unsupported()),
            id="plain-call-only",
        ),
        pytest.param(
            FakeCard(
                numbers=FakeCard().numbers
                | {"gpm_supported": 0.0, "power_instant_w": unsupported(), "clock_reasons": lost()}
            ),
            id="lost",
        ),
    ],
)
def test_a_tick_takes_at_most_nine_calls_a_card_and_no_slow_ones(card: FakeCard) -> None:
    clock = Clock()
    reader = FakeReader(card, FakeCard(), clock=clock)
    state = SamplerState()
    step(reader, state)
    for _ in range(130):
        clock.now_ms += 1000.0
        reader.calls_of_gpu.clear()
        reader.calls.clear()
        if isinstance(card.samples, list) and card.samples:
            card.samples += [(card.samples[-1][0] + 200_000 * n, 40.0) for n in range(1, 6)]
        step(reader, state)
        if reader.calls["uuid"]:
            continue  # a card that was looked for again
        assert max(reader.calls_of_gpu.values()) <= 9, reader.calls
        assert reader.calls["start"] == reader.calls["name"] == 0


def test_slow_fields_are_read_in_turns_and_stay_in_between() -> None:
    clock = Clock()
    reader = FakeReader(FakeCard(), clock=clock)
    state = SamplerState()
    seen = []
    for tick in ticks(reader, state, 12):
        reader.cards[0].numbers["temperature_c"] = 60.0
        seen.append(readings(tick)[0].temperature_c)
    assert seen[:2] == [41, 41]
    assert seen[-1] == 60
    assert reader.calls["temperature_c"] <= 4
    assert reader.calls["memory_clock_mhz"] <= 4


def test_slow_fields_all_come_round_when_ticks_are_rare() -> None:
    clock = Clock()
    reader = FakeReader(FakeCard(), clock=clock)
    state = SamplerState()
    for _ in range(18):
        step(reader, state)
        clock.now_ms += 70_000.0
    assert min(reader.calls[name] for name in ("temperature_c", "memory_clock_mhz")) >= 2
    assert min(reader.calls[name] for name in ("mig_mode", "power_limit_w", "ecc_errors")) >= 2
    assert min(reader.calls[name] for name in ("pcie_gen", "pcie_width", "faults")) >= 2
    assert reader.calls["processes"] >= 4


# ------------------------------------------------------------------------------- beside it


def test_the_link_is_read_while_the_card_is_busy_and_stays_known_after() -> None:
    card = FakeCard(gpm_pct=2.0, rates=(1e6, 1e6))
    card.numbers |= {"pcie_gen": 1.0, "pcie_width": 4.0}  # an idle link is turned down
    reader = FakeReader(card, clock=Clock())
    state = SamplerState()
    idle = [readings(tick)[0] for tick in ticks(reader, state, 20)][-1]
    assert (idle.pcie_gen, idle.pcie_width) == (None, None)
    assert (idle.pcie_gen_max, idle.pcie_width_max) == (5, 16)
    card.gpm_pct = 60.0
    card.numbers |= {"pcie_gen": 5.0, "pcie_width": 8.0}
    busy = [readings(tick)[0] for tick in ticks(reader, state, 20)][-1]
    assert (busy.pcie_gen, busy.pcie_width) == (5, 8)
    card.gpm_pct = 0.0
    card.numbers |= {"pcie_gen": 1.0, "pcie_width": 4.0}
    after = [readings(tick)[0] for tick in ticks(reader, state, 90)][-1]
    assert (after.pcie_gen, after.pcie_width) == (5, 8)


def test_a_card_that_only_copies_has_a_busy_link() -> None:
    reader = FakeReader(FakeCard(gpm_pct=0.0, rates=(6e9, 1e9)), clock=Clock())
    last = [readings(tick)[0] for tick in ticks(reader, SamplerState(), 20)][-1]
    assert (last.pcie_gen, last.pcie_width) == (5, 16)


def test_pcie_rates_are_not_mixed_up_and_need_gpm() -> None:
    card = FakeCard(rates=(1.0, 9.0))
    last = [readings(t)[0] for t in ticks(FakeReader(card, clock=Clock()), SamplerState(), 2)][-1]
    assert (last.host_to_device_bytes_per_s, last.device_to_host_bytes_per_s) == (1.0, 9.0)
    card.numbers["gpm_supported"] = 0.0
    last = [readings(t)[0] for t in ticks(FakeReader(card, clock=Clock()), SamplerState(), 2)][-1]
    assert last.host_to_device_bytes_per_s is last.device_to_host_bytes_per_s is None
    assert last.sm_util_pct is None


@pytest.mark.parametrize("rate", [-1.0, float("nan"), 1e15])
def test_a_rate_that_cannot_be_is_unknown(rate: float) -> None:
    card = FakeCard(rates=(rate, 2.0))
    last = [readings(t)[0] for t in ticks(FakeReader(card, clock=Clock()), SamplerState(), 2)][-1]
    assert (last.host_to_device_bytes_per_s, last.device_to_host_bytes_per_s) == (None, 2.0)


def test_processes_are_listed_and_one_that_came_later_too() -> None:
    card = FakeCard(processes=[GpuProcess(7, GIB, "cuzk-daemon")])
    reader = FakeReader(card, clock=Clock())
    state = SamplerState()
    assert readings(step(reader, state))[0].processes == (GpuProcess(7, GIB, "cuzk-daemon"),)
    card.processes = [GpuProcess(7, GIB), GpuProcess(8, None, here=False)]
    later = [readings(tick)[0] for tick in ticks(reader, state, 12)][-1]
    assert later.processes == (GpuProcess(7, GIB), GpuProcess(8, None, here=False))


def test_a_list_of_processes_that_is_refused_is_unknown_and_said() -> None:
    reader = FakeReader(FakeCard(processes=unsupported()), clock=Clock())
    said = [event for tick in ticks(reader, SamplerState(), 30) for event in tick]
    assert readings(said)[-1].processes is None
    assert notes(said) == ["GPU 0: no processes (Not Supported)"]


def test_a_critical_event_is_said_with_what_it_means() -> None:
    card = FakeCard()
    reader = FakeReader(card, clock=Clock())
    state = SamplerState()
    list(ticks(reader, state, 3))
    assert isinstance(card.faults, list)
    card.faults += [13, 79]
    later = [event for tick in ticks(reader, state, 10) for event in tick]
    assert readings(later)[-1].xid == 79
    assert notes(later) == ["GPU 0: XID 79 (the card has fallen off the bus)"]


@pytest.mark.parametrize("why", ["Not Supported", "Insufficient Permissions"])
def test_a_driver_that_lets_nobody_watch_for_critical_events_isn_t_one_without_any(
    why: str,
) -> None:
    card = FakeCard(faults=GpuReadError(kind="unsupported", text=why))
    reader = FakeReader(card, clock=Clock())
    found = readings([event for tick in ticks(reader, SamplerState(), 40) for event in tick])
    assert {(one.xid, one.xid_unread) for one in found} == {(None, why)}
    assert reader.calls["faults"] == 0  # there is nothing to ask it of
    card.faults = []
    later = readings([event for tick in ticks(reader, SamplerState(), 2) for event in tick])
    assert {(one.xid, one.xid_unread) for one in later} == {(0, None)}


def test_a_watch_that_is_given_later_finds_events() -> None:
    card = FakeCard(faults=GpuReadError(kind="failed", text="Unknown Error"))
    state = SamplerState()
    reader = FakeReader(card, clock=Clock())
    assert readings(step(reader, state))[0].xid is None
    card.faults = [79]
    later = [event for tick in ticks(reader, state, 20) for event in tick]
    assert [one.xid for one in readings(later)][-1] == 79


def test_uncorrected_memory_errors_are_said() -> None:
    card = FakeCard()
    card.numbers["ecc_errors"] = 3.0
    first = step(FakeReader(card, clock=Clock()), SamplerState())
    assert readings(first)[0].ecc_errors == 3
    assert notes(first) == ["GPU 0: 3 uncorrected memory errors since the driver was loaded"]


def test_cards_bear_the_daemons_numbers_and_follow_a_daemon_that_starts_anew() -> None:
    choice = [CudaChoice("1,0")]
    reader = FakeReader(FakeCard(gpm_pct=10.0), FakeCard(gpm_pct=90.0), clock=Clock())
    state = SamplerState(choice=lambda: choice[-1])
    found = {one.gpu: one for one in readings([e for t in ticks(reader, state, 2) for e in t])}
    assert {gpu: one.util_pct for gpu, one in found.items()} == {1: 10.0, 0: 90.0}
    assert found[0].uuid == "GPU-1"
    choice.append(CudaChoice())
    found = {one.gpu: one for one in readings([e for t in ticks(reader, state, 12) for e in t])}
    assert {gpu: one.util_pct for gpu, one in found.items()} == {0: 10.0, 1: 90.0}


def test_a_number_that_is_not_sure_is_said() -> None:
    reader = FakeReader(FakeCard(), FakeCard(name="NVIDIA L4"), clock=Clock())
    said = notes([event for tick in ticks(reader, SamplerState(), 3) for event in tick])
    assert len(said) == 2
    assert all("CUDA_DEVICE_ORDER=PCI_BUS_ID" in text for text in said)


# ------------------------------------------------------------------------------- utilisation


def test_gpm_samples_stay_apart_however_often_the_step_runs() -> None:
    clock = Clock()
    reader = FakeReader(FakeCard(), clock=clock)
    state = SamplerState()
    for _ in range(200):
        for reading in readings(step(reader, state)):
            assert reading.util_pct in (None, 45.0)
        clock.now_ms += 30.0
    assert min(reader.gpm_intervals_ms) >= 100.0
    assert len(reader.gpm_intervals_ms) > 40


def test_a_gpm_reading_says_how_long_it_covers_after_a_tick_that_hung() -> None:
    clock = Clock()
    reader = FakeReader(FakeCard(), clock=clock)
    state = SamplerState()
    step(reader, state)
    reader.after_call = lambda what: clock.sleep(3.0) if what == "memory" else None
    clock.now_ms += 1000.0
    (held_up,) = readings(step(reader, state))
    assert held_up.at_ms == T0_MS + 1000.0  # the utilisation's own time, not the memory call's
    (next_one,) = readings(step(reader, state))
    assert next_one.util_window_ms == 3000.0


@pytest.mark.parametrize("answer", [float("nan"), -1.0, 4711.0])
def test_a_figure_that_cannot_be_is_not_shown(answer: float) -> None:
    card = FakeCard(gpm_pct=answer)
    card.numbers |= {"utilization_pct": answer, "power_instant_w": -5.0, "power_average_w": 1e9}
    card.memory_v2 = (142 * GIB, 141 * GIB)
    card.memory_v1 = (142 * GIB, 141 * GIB)
    _, second = ticks(FakeReader(card, clock=Clock()), SamplerState(), 2)
    (reading,) = readings(second)
    assert reading.util_pct is None
    assert reading.power_w is None
    assert reading.memory_used_bytes is None
    assert reading.sm_clock_mhz == 1980


def recorded_waves() -> list[dict[str, Any]]:
    path = HERE.parent / "data" / "h200_square_wave.json"
    waves: list[dict[str, Any]] = json.loads(path.read_text())["waves"]
    return waves


class RecordedReader(FakeReader):
    """Answers as a real H200 did during a square wave of kernels."""

    def __init__(self, wave: dict[str, Any], clock: Clock) -> None:
        super().__init__(FakeCard(), clock=clock)
        self.cards[0].numbers["gpm_supported"] = 0.0
        self.wave = wave

    def util_samples(self, handle: object, since_us: int) -> Sequence[tuple[int, float]]:
        self._card(handle, "samples", calls=2)
        now_ms = self.clock.now_ms - T0_MS
        entries = [(int((ms + 1e7) * 1000), pct) for ms, pct in self.wave["samples"] if ms < now_ms]
        return [entry for entry in entries if entry[0] > since_us]

    def number(self, handle: object, what: NumberField) -> float:
        value = super().number(handle, what)
        if what != "utilization_pct":
            return value
        now_ms = self.clock.now_ms - T0_MS
        said: list[float] = [pct for ms, pct in self.wave["utilization_gpu"] if ms <= now_ms]
        return said[-1]


@pytest.mark.parametrize("wave", recorded_waves(), ids=["300-of-1000-ms", "100-of-200-ms"])
def test_a_rhythm_that_fools_the_plain_figure_does_not_fool_the_samples(
    wave: dict[str, Any],
) -> None:
    true_pct = 100.0 * wave["on_ms"] / (wave["on_ms"] + wave["off_ms"])
    clock = Clock()
    reader = RecordedReader(wave, clock)
    state = SamplerState()
    step(reader, state)
    area = covered_ms = 0.0
    while clock.now_ms < T0_MS + wave["span_ms"]:
        clock.now_ms += 1000.0
        (reading,) = readings(step(reader, state))
        assert reading.util_source == "samples"
        assert reading.util_pct is not None
        area += reading.util_pct * reading.util_window_ms
        covered_ms += reading.util_window_ms
    assert covered_ms == pytest.approx(wave["span_ms"], abs=210)
    assert area / covered_ms == pytest.approx(true_pct, abs=2.0)


def test_an_idle_card_whose_sample_buffer_is_empty_reads_zero_not_unknown() -> None:
    card = FakeCard(samples=[])
    card.numbers |= {"gpm_supported": 0.0, "utilization_pct": 0.0}
    for tick in ticks(FakeReader(card, clock=Clock()), SamplerState(), 10):
        (reading,) = readings(tick)
        assert (reading.util_pct, reading.util_source) == (0.0, "utilization.gpu")


def test_samples_after_a_dark_time_cover_themselves_only() -> None:
    card = FakeCard(samples=[(us, 10.0) for us in (200_000, 400_000, 600_000)])
    card.numbers["gpm_supported"] = 0.0
    clock = Clock()
    reader = FakeReader(card, clock=clock)
    state = SamplerState()
    step(reader, state)
    clock.sleep(30.0)
    card.samples = [(30_000_000, 80.0), (30_200_000, 90.0)]
    (reading,) = readings(step(reader, state))
    assert (reading.util_pct, reading.util_window_ms) == (85.0, 400.0)


def test_the_first_reading_takes_the_last_second_of_the_buffer_not_all_of_it() -> None:
    card = FakeCard(samples=[(us * 200_000, 100.0 if us < 60 else 20.0) for us in range(1, 71)])
    card.numbers["gpm_supported"] = 0.0
    (reading,) = readings(step(FakeReader(card, clock=Clock()), SamplerState()))
    assert (reading.util_pct, reading.util_window_ms) == (20.0, 1000.0)


@pytest.mark.parametrize(
    ("gpm", "samples", "source"),
    [
        (unsupported(), [(200_000, 33.0)], "samples"),
        (unsupported(), unsupported(), "utilization.gpu"),
        (GpuReadError(kind="failed", text="Unknown Error"), unsupported(), "utilization.gpu"),
    ],
)
def test_a_source_that_refuses_gives_way_to_the_next_at_once(
    gpm: GpuReadError, samples: list[tuple[int, float]] | GpuReadError, source: str
) -> None:
    reader = FakeReader(FakeCard(gpm_pct=gpm, samples=samples), clock=Clock())
    _, second = ticks(reader, SamplerState(), 2)
    (reading,) = readings(second)
    assert reading.util_source == source
    assert reading.util_pct is not None


def test_under_mig_utilisation_is_not_available_rather_than_zero() -> None:
    card = FakeCard(gpm_pct=0.0, samples=[(200_000, 0.0)])
    card.numbers |= {"mig_mode": 1.0, "utilization_pct": 0.0}
    first, second = ticks(FakeReader(card, clock=Clock()), SamplerState(), 2)
    (note,) = notes(first)
    assert "n/a (MIG)" in note
    (reading,) = readings(second)
    assert reading.util_pct is None
    assert reading.power_w == 312.0


def test_mig_switched_on_later_is_noticed() -> None:
    card = FakeCard()
    said = []
    for tick in ticks(FakeReader(card, clock=Clock()), SamplerState(), 70):
        card.numbers["mig_mode"] = 1.0
        said += notes(tick)
    assert len(said) == 1
    assert "MIG" in said[0]


# ------------------------------------------------------------------------------- what breaks


def test_a_field_is_not_asked_for_after_three_refusals_and_the_note_names_it() -> None:
    card = FakeCard()
    card.numbers |= {"sm_clock_mhz": unsupported(), "temperature_c": unsupported()}
    reader = FakeReader(card, clock=Clock())
    said: list[str] = []
    for tick in ticks(reader, SamplerState(), 30):
        (reading,) = readings(tick)
        assert reading.sm_clock_mhz is None
        assert reading.power_w == 312.0
        said += notes(tick)
    assert reader.calls["sm_clock_mhz"] == 3
    assert reader.calls["temperature_c"] == 3
    assert said[-1] == "GPU 0: no SM clock (Not Supported); no temperature (Not Supported)"


def test_a_function_that_the_driver_lacks_is_asked_for_once() -> None:
    card = FakeCard(memory_v2=GpuReadError(kind="absent", text="Function Not Found"))
    reader = FakeReader(card, clock=Clock())
    for tick in ticks(reader, SamplerState(), 5):
        assert readings(tick)[0].memory_used_bytes == 41 * GIB
        assert notes(tick) == []
    assert reader.calls["memory"] == 6


def test_average_power_stands_in_for_instant_power() -> None:
    card = FakeCard()
    card.numbers["power_instant_w"] = unsupported()
    reader = FakeReader(card, clock=Clock())
    for tick in ticks(reader, SamplerState(), 5):
        assert readings(tick)[0].power_w == 250.0
    assert reader.calls["power_instant_w"] == 3


def test_a_refusal_now_and_then_does_not_silence_a_field() -> None:
    card = FakeCard()
    reader = FakeReader(card, clock=Clock())
    state = SamplerState()
    for turn, _ in enumerate(ticks(reader, state, 20)):
        card.numbers["sm_clock_mhz"] = unsupported() if turn % 3 else 1980.0
    card.numbers["sm_clock_mhz"] = 1500.0
    assert readings(step(reader, state))[0].sm_clock_mhz == 1500


def test_a_lost_card_blanks_no_other_and_comes_back_by_its_uuid() -> None:
    clock = Clock()
    cards = [FakeCard(), FakeCard(), FakeCard()]
    reader = FakeReader(*cards, clock=clock)
    state = SamplerState()
    list(ticks(reader, state, 3))
    cards[1].numbers["power_instant_w"] = lost()
    cards[1].find = lost()
    said: list[str] = []
    found = len(reader.found_by)
    for tick in ticks(reader, state, 120):
        assert [reading.gpu for reading in readings(tick)] == [0, 2]
        assert all(reading.util_pct == 45.0 for reading in readings(tick))
        said += notes(tick)
    assert said == ["GPU 1 can't be read (GPU is lost); looking for it again"]
    assert set(reader.found_by[found:]) == {"GPU-1"}
    assert 5 <= len(reader.found_by) - found <= 8  # backing off: after 1, 2, 4, 8, … 60 s
    cards[1] = FakeCard()
    reader.cards = cards
    back = [event for tick in ticks(reader, state, 62) for event in tick]
    assert [reading.gpu for reading in readings(back)][-3:] == [0, 1, 2]
    assert notes(back) == [""]


def test_a_card_that_is_broken_from_the_start_does_not_hide_the_others() -> None:
    clock = Clock()
    reader = FakeReader(FakeCard(), FakeCard(find=lost()), FakeCard(), clock=clock)
    state = SamplerState()
    events = step(reader, state)
    assert [reading.gpu for reading in readings(events)] == [0, 2]
    assert notes(events) == ["GPU 1 can't be read (GPU is lost); looking for it again"]


def test_a_card_of_which_nothing_can_be_read_is_looked_up_anew() -> None:
    clock = Clock()
    card = FakeCard()
    reader = FakeReader(card, FakeCard(), clock=clock)
    state = SamplerState()
    list(ticks(reader, state, 2))
    fallen_off_the_bus = GpuReadError(kind="failed", text="Unknown Error")
    card.numbers = dict.fromkeys(card.numbers, fallen_off_the_bus)
    card.memory_v1 = card.memory_v2 = card.gpm_pct = card.samples = fallen_off_the_bus
    events = step(reader, state)
    assert notes(events) == ["GPU 0 can't be read (Unknown Error); looking for it again"]
    assert [reading.gpu for reading in readings(events)] == [1]
    assert [reading.gpu for reading in readings(step(reader, state))] == [1]


def test_persistence_mode_off_is_said_once() -> None:
    card = FakeCard()
    card.numbers["persistence_mode"] = 0.0
    said = [
        text
        for tick in ticks(FakeReader(card, clock=Clock()), SamplerState(), 5)
        for text in notes(tick)
    ]
    assert len(said) == 1
    assert "nvidia-smi -pm 1" in said[0]


def test_without_a_library_there_is_one_note_and_a_try_every_half_minute() -> None:
    reader = FakeReader(FakeCard(), clock=Clock())
    reader.unavailable = "libnvidia-ml.so.1 not found"
    said = [event for tick in ticks(reader, SamplerState(), 91) for event in tick]
    assert notes(said) == [
        "NVML not available: libnvidia-ml.so.1 not found (trying again every 30 s)"
    ]
    assert reader.calls["start"] == 4


def test_a_driver_that_comes_later_is_picked_up_and_the_note_taken_back() -> None:
    reader = FakeReader(FakeCard(), clock=Clock())
    reader.unavailable = "the driver isn't loaded"
    state = SamplerState()
    list(ticks(reader, state, 10))
    reader.unavailable = ""
    events = [event for tick in ticks(reader, state, 30) for event in tick]
    assert notes(events) == [""]
    assert readings(events)[-1].util_pct == 45.0


def test_no_card_at_all_is_said() -> None:
    (event,) = step(FakeReader(clock=Clock()), SamplerState())
    assert isinstance(event, GpuSamplerNote)
    assert event.gpu is None
    assert "sees no GPU" in event.text


def test_a_driver_reloaded_under_us_ends_in_a_note_and_a_new_start() -> None:
    cards = [FakeCard(), FakeCard()]
    reader = FakeReader(*cards, clock=Clock())
    state = SamplerState()
    cards[0].numbers["sm_clock_mhz"] = unsupported()
    list(ticks(reader, state, 3))
    cards[1].numbers["power_instant_w"] = GpuReadError(kind="gone", text="Driver Not Loaded")
    events = step(reader, state)
    assert [(e.gpu, bool(e.text)) for e in events if isinstance(e, GpuSamplerNote)] == [
        (0, False),
        (None, True),
    ]
    cards[1].numbers["power_instant_w"] = 300.0
    events = [event for tick in ticks(reader, state, 40) for event in tick]
    assert {reading.gpu for reading in readings(events)} == {0, 1}


def test_a_clock_set_back_by_an_hour_stops_nothing() -> None:
    clock = Clock()
    reader = FakeReader(FakeCard(), clock=clock)
    state = SamplerState()
    list(ticks(reader, state, 3))
    clock.now_ms -= 3_600_000.0
    temperatures = reader.calls["temperature_c"]
    utils = [readings(tick)[0].util_pct for tick in ticks(reader, state, 8)]
    assert utils == [None] + [45.0] * 7
    assert reader.calls["temperature_c"] > temperatures


# ------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        (0x0, ""),
        (0x1, ""),
        (0x4, "power cap"),
        (0x1 | 0x2, "clock setting"),
        (0x8, "hardware slowdown"),
        (0x8 | 0x40, "heat (hardware)"),
        (0x4 | 0x20, "power cap, heat"),
        (0x4 | 0x1000, "power cap, reason 0x1000"),
    ],
)
def test_clock_reasons_are_words(reasons: int, words: str) -> None:
    assert held_down(reasons) == words


# ------------------------------------------------------------------------------- one shot, thread


def test_one_picture_takes_two_samples_a_second_apart() -> None:
    clock = Clock()
    reader = FakeReader(FakeCard(), FakeCard(), clock=clock)
    events = read_once(reader, clock.sleep, clock)
    assert [(r.gpu, r.util_pct, r.util_window_ms) for r in readings(events)] == [
        (0, 45.0, 1000.0),
        (1, 45.0, 1000.0),
    ]
    assert len(events) == 2


def test_a_fast_picture_does_not_wait_and_still_has_a_figure() -> None:
    clock = Clock()
    reader = FakeReader(FakeCard(samples=[(200_000, 30.0), (400_000, 50.0)]), clock=clock)
    (reading,) = readings(read_once(reader, clock.sleep, clock, fast=True))
    assert clock.now_ms == T0_MS
    assert (reading.util_pct, reading.util_source) == (40.0, "samples")


def test_a_picture_without_nvml_says_why_and_does_not_wait() -> None:
    clock = Clock()
    reader = FakeReader(clock=clock)
    reader.unavailable = "no driver"
    assert notes(read_once(reader, clock.sleep, clock)) == [
        "NVML not available: no driver (trying again every 30 s)"
    ]
    assert clock.now_ms == T0_MS


def test_the_thread_puts_readings_on_the_queue_until_told_to_stop() -> None:
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    stop = threading.Event()
    sampler = GpuSampler(events, Clock(), stop, reader=FakeReader(FakeCard(), clock=Clock()))
    assert sampler.daemon
    sampler.start()
    assert isinstance(events.get(timeout=10), GpuSampled)
    stop.set()
    sampler.join(timeout=10)
    assert not sampler.is_alive()


def test_a_fault_in_the_reader_becomes_a_note_and_not_the_end() -> None:
    class Broken(FakeReader):
        def gpu_count(self) -> int:
            message = "struct has\nanother shape"
            raise TypeError(message)

    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    stop = threading.Event()
    sampler = GpuSampler(events, Clock(), stop, reader=Broken(clock=Clock()))
    sampler.start()
    note = events.get(timeout=10)
    alive = sampler.is_alive()
    stop.set()
    sampler.join(timeout=10)
    assert isinstance(note, GpuSamplerNote)
    assert "TypeError: struct has another shape" in note.text
    assert alive


def test_a_call_that_hangs_does_not_keep_the_program_from_ending() -> None:
    released = threading.Event()

    class Hanging(FakeReader):
        def gpu_count(self) -> int:
            released.wait(60)
            return 0

    sampler = GpuSampler(
        queue.SimpleQueue(), Clock(), threading.Event(), reader=Hanging(clock=Clock())
    )
    sampler.start()
    assert sampler.daemon  # the interpreter's exit doesn't wait for it
    released.set()
    sampler._stop_event.set()
    sampler.join(timeout=10)


@pytest.mark.parametrize("hanging", [0, 1, 2])
def test_a_card_that_hangs_holds_up_no_other(hanging: int) -> None:
    released = threading.Event()
    cards = [FakeCard(), FakeCard(), FakeCard()]
    clock = Clock()

    class Hanging(FakeReader):
        def memory_bytes(self, handle: object, *, v2: bool) -> tuple[int, int]:
            assert isinstance(handle, Handle)
            if handle.gpu == hanging and self.calls["memory"] > 3:
                released.wait(60)
            return super().memory_bytes(handle, v2=v2)

    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    stop = threading.Event()
    sampler = GpuSampler(events, clock, stop, reader=Hanging(*cards, clock=clock), period_s=0.5)
    sampler.start()
    counts: Counter[int] = Counter()

    def until(enough: Callable[[], bool]) -> None:
        while not enough():
            event = events.get(timeout=30)
            if isinstance(event, GpuSampled):
                counts[event.gpu] += 1

    until(lambda: min(counts[gpu] for gpu in range(3) if gpu != hanging) >= 4)
    assert counts[hanging] <= 2
    released.set()
    until(lambda: counts[hanging] >= 4)
    stop.set()
    sampler.join(timeout=10)


def test_the_step_that_a_card_holds_up_reads_no_card_that_others_read_by_then() -> None:
    reader = FakeReader(FakeCard(), FakeCard(), FakeCard(), clock=Clock())
    state = SamplerState()
    step(reader, state)
    elsewhere: list[SamplerState | None] = []

    def hang(what: str) -> None:
        if what == "memory" and state.reading is not None and state.reading.gpu == 1:
            elsewhere.append(state.leave_alone(state.turns))

    reader.after_call = hang
    assert [one.gpu for one in readings(step(reader, state))] == [0, 1]
    reader.after_call = lambda _: None
    assert [one.gpu for one in readings(step(reader, state))] == [1]
    (others,) = elsewhere
    assert others is not None
    assert [one.gpu for one in readings(step(reader, others))] == [0, 2]


def test_a_card_has_the_turn_to_itself_only_if_it_has_not_ended() -> None:
    state = SamplerState()
    step(FakeReader(FakeCard(), FakeCard(), clock=Clock()), state)
    turn = state.turns
    assert state.give_turn(state.cards[0], state.cards)
    assert state.leave_alone(turn) is None  # another turn has begun since that was looked at
    state.give_turn(None, state.cards)
    assert state.leave_alone(state.turns) is None  # nobody has it: the step is over


def test_pynvml_is_loaded_only_by_who_asks_it() -> None:
    imports = "import sys, cuzktop.sources.gpu_sampler, cuzktop.sources.nvml"
    code = f"{imports}; print('pynvml' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
