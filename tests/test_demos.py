"""What `report` and `snapshot` print of the demos: goldens, the contract, and a second reckoning.

`UPDATE_GOLDENS=1 pytest tests/test_demos.py` writes the goldens anew; read them before they are
committed.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import gzip
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzktop.cli import main
from cuzktop.frame import TIME_CLASSES, Source
from cuzktop.headless.snapshot import snapshot_document
from cuzktop.parse.scanner import LogScanner
from cuzktop.picture import Picture
from cuzktop.sources.demos import demo_names

ROOT = Path(__file__).resolve().parents[1]
GOLDENS = ROOT / "tests" / "goldens"
DEMOS = (
    "ninety-percent",
    "failures",
    "four-gpus",
    "h200-one-gpu",
    "h200-two-gpus",
    "herd",
)
WHOLE_LINES = ("ninety-percent", "four-gpus", "herd")  # no torn TIMELINE line and no failed call
GOLDEN_JSON = ("ninety-percent", "failures", "h200-two-gpus")
CUT_AT = {  # bytes: in the middle of a line, with work in every stage
    "ninety-percent": 300_007,
    "failures": 560_001,
    "four-gpus": 700_003,
    "h200-one-gpu": 200_009,
    "h200-two-gpus": 330_002,
    "herd": 250_004,
}


# ---------------------------------------------------------------- running


def raw_log(name: str) -> bytes:
    """A demo's log, unpacked."""
    return gzip.decompress((ROOT / "demo_logs" / name / "daemon.log.gz").read_bytes())


def printed(arguments: list[str], folder: Path) -> tuple[int, str, str]:
    """Exit status, standard output and error of the command, run where `folder/demo_logs` lies."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n")
    err = io.StringIO()
    with (
        contextlib.chdir(folder),
        patch("cuzktop.sources.demos.demos_root", lambda: Path("demo_logs")),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status = main(arguments)
    out.flush()
    buffer = out.buffer
    assert isinstance(buffer, io.BytesIO)
    return status, buffer.getvalue().decode("utf-8"), err.getvalue()


@functools.cache
def report(name: str) -> dict[str, Any]:
    """The report of a demo."""
    status, out, err = printed(["report", "--demo", name, "--json"], ROOT)
    assert (status, err) == (0, "")
    document: dict[str, Any] = strict_json(out)
    return document


def strict_json(text: str) -> Any:  # noqa: ANN401 - a JSON document
    """`text` as JSON; NaN and infinities, which JSON doesn't know, raise."""

    def refuse(word: str) -> None:
        message = f"{word} in the document"
        raise AssertionError(message)

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(scope="module")
def cut_demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `demo_logs` whose logs end in the middle of their work."""
    folder = tmp_path_factory.mktemp("cut")
    for name in DEMOS:
        ours = folder / "demo_logs" / name
        ours.mkdir(parents=True)
        (ours / "daemon.log").write_bytes(raw_log(name)[: CUT_AT[name]])
        for file in (ROOT / "demo_logs" / name).iterdir():
            if file.name != "daemon.log.gz":
                (ours / file.name).write_bytes(file.read_bytes())
    return folder


@functools.cache
def snapshot(name: str, folder: Path) -> dict[str, Any]:
    """The snapshot of a demo that was cut."""
    status, out, err = printed(["snapshot", "--demo", name, "--json"], folder)
    assert (status, err) == (0, "")
    document: dict[str, Any] = strict_json(out)
    return document


def test_all_demos_are_looked_at() -> None:
    assert set(DEMOS) == set(demo_names())


# ---------------------------------------------------------------- goldens


def assert_golden(name: str, text: str) -> None:
    """`text` is what was read in review; with UPDATE_GOLDENS=1 it becomes that."""
    path = GOLDENS / name
    if os.environ.get("UPDATE_GOLDENS") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path}: see UPDATE_GOLDENS in this test"


def condensed(document: dict[str, Any]) -> str:
    """A document with the first and last of its partitions, and the sums of all of them."""
    for run in document.get("runs", [document]):
        rows = run["partitions"]
        figures = [key for key in rows[0] if key.endswith("_ms")] if rows else []
        words = ("state", "attribution", "kind", "worker", "gpu", "attempt")
        run["partitions"] = {
            "count": len(rows),
            "first": rows[:1],
            "last": rows[-1:],
            "sums": {key: sum(row[key] or 0 for row in rows) for key in figures},
            "unknown": {key: sum(row[key] is None for row in rows) for key in figures},
            "of_each": {
                key: {
                    str(value): sum(row[key] == value for row in rows)
                    for value in sorted({row[key] for row in rows}, key=str)
                }
                for key in words
            },
        }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("name", DEMOS)
def test_the_report_reads_as_it_was_read(name: str) -> None:
    status, text, err = printed(["report", "--demo", name, "-w", "100"], ROOT)
    assert (status, err) == (0, "")
    assert_golden(f"report_{name}.txt", text)
    if name in GOLDEN_JSON:
        assert_golden(f"report_{name}.json", condensed(json.loads(json.dumps(report(name)))))


@pytest.mark.parametrize("name", DEMOS)
def test_the_snapshot_reads_as_it_was_read(name: str, cut_demos: Path) -> None:
    status, text, err = printed(["snapshot", "--demo", name, "-w", "100"], cut_demos)
    assert (status, err) == (0, "")
    assert_golden(f"snapshot_{name}.txt", text)
    if name in GOLDEN_JSON:
        document = json.loads(json.dumps(snapshot(name, cut_demos)))
        assert_golden(f"snapshot_{name}.json", condensed(document))


# ---------------------------------------------------------------- the contract, key by key

NUMBER = (int, float)
SURE = ("exact", "inferred", "none")
BOTTLENECKS = ("gpu", "cpu-memory", "lock", "synthesis", "herding", "idle", "unknown")
STATES = ("pending", "synthesizing", "queued", "gpu", "done", "failed", "skipped", "lost")
KINDS = ("porep", "snap", "window-post", "winning-post")
STAGES = ("ntt_msm_h", "barrier", "batch_add", "tail_msm", "releasing")


class Maybe:
    """What may be null."""

    def __init__(self, schema: object) -> None:
        self.schema = schema


class Optional(Maybe):
    """What may be missing."""


def check(value: Any, schema: Any, where: str = "") -> None:  # noqa: ANN401 - JSON
    """`value` is as `schema` says: a type, types, words, a list of one, a mapping, or Maybe."""
    if isinstance(schema, Maybe):
        if value is not None:
            check(value, schema.schema, where)
    elif isinstance(schema, dict):
        assert isinstance(value, dict), where
        for key, inner in schema.items():
            if key in value or not isinstance(inner, Optional):
                assert key in value, f"{where}.{key} is missing"
                check(value[key], inner, f"{where}.{key}")
    elif isinstance(schema, list):
        assert isinstance(value, list), where
        for index, item in enumerate(value):
            check(item, schema[0], f"{where}[{index}]")
    elif isinstance(schema, tuple) and isinstance(schema[0], str):
        assert value in schema, f"{where}: {value!r}"
    else:
        types = schema if isinstance(schema, tuple) else (schema,)
        assert type(value) in types, f"{where}: {value!r} is no {schema}"
        if where.endswith("_pct") and "nvml" not in where:
            assert value >= 0, where


VERDICT = {"bottleneck": BOTTLENECKS, "confidence": float, "evidence": [str], "advice": [str]}
TIME_PCT = dict.fromkeys(TIME_CLASSES, float)
NVML = {
    "util_pct": Maybe(float),
    "power_w": Maybe(float),
    "samples": int,
    "source": ("gpm", "samples", "utilization.gpu"),
}
MS = Maybe(int)
PARTITION = {
    "job": str,
    "attempt": int,
    "partition": Maybe(int),
    "kind": Maybe(KINDS),
    "state": STATES,
    "worker": Maybe(int),
    "gpu": Maybe(int),
    "attribution": SURE,
    "attribution_by": {"lock": SURE, "kernel": SURE, "cpu": SURE},
    "derived": [str],
    **dict.fromkeys(
        (
            *("synth_start_ms", "bracket_start_ms", "bracket_end_ms", "synth_ms", "queue_ms"),
            *("pre_lock_cpu_ms", "lock_wait_ms", "lock_held_ms", "ntt_msm_h_ms"),
            *("barrier_wait_ms", "batch_add_ms", "tail_msm_ms", "gpu_total_ms", "kernel_ms"),
            *("prep_msm_ms", "b_g2_msm_ms", "bracket_ms", "gpu_ms"),
        ),
        MS,
    ),
}
REPORT = {
    "schema": ("cuzktop.report/1",),
    "source": {
        "path": str,
        "bytes": int,
        "lines": int,
        "events": int,
        "torn": int,
        "unparsed": int,
    },
    "runs": [
        {
            "run": int,
            "started": Maybe(str),
            "dialect": Maybe(str),
            "span_ms": Maybe(float),
            "proofs": {
                "completed": int,
                "failed": int,
                "in_flight": int,
                "lost": int,
                "seconds_per_proof": Maybe(float),
            },
            "gpus": [
                {
                    "gpu": int,
                    "workers": [int],
                    "span_ms": float,
                    "bracket_union_pct": float,
                    "bracket_sum_pct": float,
                    "lock_held_pct": Maybe(float),
                    "gpu_section_pct": Maybe(float),
                    "kernel_pct": Maybe(float),
                    "gap_count": int,
                    "gap_mean_ms": Maybe(float),
                    "time_pct": Maybe(TIME_PCT),
                    "nvml": Maybe(NVML),
                }
            ],
            "partitions": [PARTITION],
            "verdict": VERDICT,
        }
    ],
}
STAGE = {"count": int, "p50": int, "p95": int, "max": int}
HELD = {"worker": Maybe(int), "job": str, "partition": Maybe(int)}
HOLDER = {**HELD, "held_ms": Maybe(NUMBER), "stage": Maybe(STAGES)}
SNAPSHOT = {
    "schema": ("cuzktop.snapshot/1",),
    "at": Maybe(str),
    "at_ms": float,
    "since_ms": float,
    "run": int,
    "syntheses": [
        {"job": str, "partition": Maybe(int), "elapsed_ms": NUMBER, "expected_ms": Maybe(NUMBER)}
    ],
    "gpu_queue": [{"job": str, "partition": Maybe(int), "waiting_ms": NUMBER}],
    "gpus": [
        {
            "gpu": int,
            "lock": {
                "holder": Maybe(HOLDER),
                "waiting": [{**HELD, "waiting_ms": Maybe(NUMBER)}],
                "finishing": [{**HELD, "since_ms": Maybe(NUMBER)}],
                "confidence": SURE,
                "candidates": Optional([HOLDER]),
            },
            "window": {
                "seconds": float,
                "bracket_union_pct": Maybe(float),
                "lock_held_pct": Maybe(float),
                "kernel_pct": Maybe(float),
                "time_pct": Maybe(TIME_PCT),
            },
            "nvml": Maybe(NVML),
        }
    ],
    "jobs": [
        {
            "job": str,
            "attempt": int,
            "kind": Maybe(KINDS),
            "age_ms": NUMBER,
            "total": Maybe(int),
            "done": int,
            "failed": bool,
            "states": [STATES],
        }
    ],
    "counters": {"completed": int, "failed": int},
    "verdict": VERDICT,
    "alerts": [{"level": ("error", "warning", "info"), "at_ms": Maybe(NUMBER), "text": str}],
}


def all_shares(document: object) -> Iterator[Mapping[str, float]]:
    """Every `time_pct` in a document."""
    if isinstance(document, dict):
        for key, value in document.items():
            if key == "time_pct" and value is not None:
                yield value
            else:
                yield from all_shares(value)
    elif isinstance(document, list):
        for item in document:
            yield from all_shares(item)


@pytest.mark.parametrize("name", DEMOS)
def test_a_report_keeps_the_contract(name: str) -> None:
    document = report(name)
    check(document, REPORT)
    assert document["source"]["path"] == f"demo_logs/{name}/daemon.log.gz"
    for run in document["runs"]:
        check(run["stages"], dict.fromkeys(run["stages"], STAGE))
        for row in run["partitions"]:
            weakest = max(row["attribution_by"].values(), key=SURE.index)
            assert row["attribution"] == weakest
            assert set(row["derived"]) <= set(row)
    shares = list(all_shares(document))
    assert shares
    for share in shares:
        assert sum(share.values()) == pytest.approx(100.0, abs=0.1)


@pytest.mark.parametrize("name", DEMOS)
def test_a_snapshot_keeps_the_contract(name: str, cut_demos: Path) -> None:
    document = snapshot(name, cut_demos)
    check(document, SNAPSHOT)
    shares = list(all_shares(document))
    assert len(shares) == len(document["gpus"])
    for share in shares:
        assert sum(share.values()) == pytest.approx(100.0, abs=0.1)
    assert document["verdict"]["bottleneck"] != "unknown"


@pytest.mark.parametrize("name", DEMOS)
def test_the_ladder_falls(name: str) -> None:
    for run in report(name)["runs"]:
        for gpu in run["gpus"]:
            steps = [
                gpu[f"{step}_pct"]
                for step in ("bracket_union", "lock_held", "gpu_section", "kernel")
            ]
            assert steps == sorted(steps, reverse=True)
            assert gpu["bracket_sum_pct"] >= gpu["bracket_union_pct"] - 0.01


# ---------------------------------------------------------------- a second reckoning
#
# The same figures from the raw text, by other means: regular expressions over the whole log, and
# a byte for every millisecond instead of unions of spans.

ANSI = re.compile(r"\x1b\[[\d;]*m")
MARK = re.compile(  # a whole line: torn ones are left out
    r"^TIMELINE,(\d+),([A-Z_]+),([\w-]+),((?:[a-z_]+=\d+,?)+)$", re.MULTILINE
)
STAMP = re.compile(r"^(\d{4}-\d\d-\d\dT[\d:.]+)Z ", re.MULTILINE)


class RawRun:
    """One life of the daemon, as regular expressions see it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts: dict[tuple[str, int], int] = {}  # GPU_START
        self.ends: dict[tuple[str, int], int] = {}
        self.synth: dict[tuple[str, int], list[int]] = {}
        self.synth_ms: list[int] = []
        self.gpu_ms: dict[tuple[str, int], int] = {}
        self.picked: set[tuple[str, int]] = set()
        self.worker: dict[tuple[str, int], int] = {}
        self.last_offset_ms = 0
        for offset, name, job, rest in MARK.findall(text):
            at = int(offset)
            detail = dict(pair.split("=") for pair in rest.split(","))
            key = (job, int(detail["partition"]))
            self.last_offset_ms = max(self.last_offset_ms, at)
            match name:
                case "SYNTH_START":
                    self.synth[key] = [at]
                case "SYNTH_END":
                    self.synth.setdefault(key, []).append(at)
                    self.synth_ms.append(int(detail["synth_ms"]))
                case "GPU_PICKUP":
                    self.picked.add(key)
                case "GPU_START":
                    self.starts[key] = at
                    self.worker[key] = int(detail["worker"])
                case "GPU_END":
                    self.ends[key] = at
                    self.gpu_ms[key] = int(detail["gpu_ms"])
        self.gpu_of_worker = {
            int(worker): int(gpu)
            for worker, gpu in re.findall(r"GPU worker started worker_id=(\d+) gpu=(\d+)", text)
        }
        epoch = re.search(r"^(\S+)Z .*starting cuzk engine", text, re.MULTILINE)
        assert epoch is not None
        self.epoch = datetime.fromisoformat(epoch[1]).replace(tzinfo=UTC)

    def offset_ms(self, stamp: str) -> float:
        """A tracing line's time on TIMELINE's clock."""
        at = datetime.fromisoformat(stamp).replace(tzinfo=UTC)
        return (at - self.epoch).total_seconds() * 1000.0

    def when(self, text: str) -> list[float]:
        """When lines with `text` in them were written."""
        return [
            self.offset_ms(stamp)
            for stamp in re.findall(rf"^(\S+)Z .*{text}", self.text, re.MULTILINE)
        ]

    def timing(self, key: str) -> list[int]:
        """Every value of `key` in CUZK_TIMING lines, in their order; some follow a torn line."""
        return [int(value) for value in re.findall(rf"CUZK_TIMING: .*\b{key}=(\d+)", self.text)]

    def of_gpu(self, gpu: int) -> list[tuple[str, int]]:
        """The calls of a GPU that ended, in the order of their starts."""
        return [key for key in self.starts if self.gpu_of_worker[self.worker[key]] == gpu]


@functools.cache
def raw_runs(name: str) -> list[RawRun]:
    """A demo's runs."""
    text = ANSI.sub("", raw_log(name).decode())
    starts = [m.start() for m in re.finditer(r"^.*cuzk-daemon starting", text, re.MULTILINE)]
    return [RawRun(text[lo:hi]) for lo, hi in zip(starts, [*starts[1:], len(text)], strict=True)]


def percentile(figures: list[int], rank: float) -> int:
    """Nearest rank, by counting how many are no larger."""
    return next(
        one
        for one in sorted(set(figures))
        if 100 * sum(other <= one for other in figures) >= rank * len(figures)
    )


def test_the_story_that_started_it() -> None:
    """90 % by the brackets, 45 % by the kernels, and the log says why."""
    run = report("ninety-percent")["runs"][0]
    gpu = run["gpus"][0]
    assert 88 < gpu["bracket_union_pct"] < 92
    assert 43 < gpu["kernel_pct"] < 47
    assert 41 < gpu["time_pct"]["barrier"] < 46
    assert run["verdict"]["bottleneck"] == "cpu-memory"
    assert run["proofs"]["seconds_per_proof"] == pytest.approx(42.9, abs=1.0)


@pytest.mark.parametrize("name", WHOLE_LINES)
def test_brackets_gaps_and_starving_by_the_millisecond(name: str) -> None:
    raw = raw_runs(name)[0]
    size = raw.last_offset_ms + 1
    waiting = bytearray(size)
    for key, (begun, *_) in raw.synth.items():
        until = raw.starts.get(key, size)
        waiting[begun:until] = b"\1" * (until - begun)
    gpus = report(name)["runs"][0]["gpus"]
    assert [gpu["gpu"] for gpu in gpus] == sorted(set(raw.gpu_of_worker.values()))
    for gpu in gpus:
        calls = raw.of_gpu(gpu["gpu"])
        assert gpu["workers"] == sorted({raw.worker[key] for key in calls})
        open_ms = bytearray(size)
        for key in calls:
            open_ms[raw.starts[key] : raw.ends[key]] = b"\1" * (raw.ends[key] - raw.starts[key])
        first, last = open_ms.index(1), open_ms.rindex(1) + 1
        span = last - first
        assert gpu["span_ms"] == span
        assert gpu["bracket_union_pct"] == pytest.approx(100 * sum(open_ms) / span, abs=0.006)
        total = sum(raw.ends[key] - raw.starts[key] for key in calls)
        assert gpu["bracket_sum_pct"] == pytest.approx(100 * total / span, abs=0.006)
        gaps = [len(gap) for gap in re.findall(rb"\0+", bytes(open_ms[first:last]))]
        assert gpu["gap_count"] == len(gaps)
        if gaps:
            assert gpu["gap_mean_ms"] == pytest.approx(sum(gaps) / len(gaps), abs=0.001)
        closed = bytes(open_ms[first:last])
        starved = sum(
            not bracket and busy for bracket, busy in zip(closed, waiting[first:last], strict=True)
        )
        # Hamilton's rounding moves a share by less than two units of its last digit.
        assert gpu["time_pct"]["starved"] == pytest.approx(100 * starved / span, abs=0.02)
        nothing = span - sum(closed) - starved
        assert gpu["time_pct"]["no_work"] == pytest.approx(100 * nothing / span, abs=0.02)


@pytest.mark.parametrize("name", DEMOS)
def test_kernels_locks_and_sections_are_the_sums_of_their_lines(name: str) -> None:
    """Whoever a line belongs to, together the GPUs did what all lines say."""
    for run, raw in zip(report(name)["runs"], raw_runs(name), strict=True):
        assert all(row["attribution_by"]["kernel"] != "none" for row in done(run))
        spans = [gpu["span_ms"] for gpu in run["gpus"]]

        def all_gpus(step: str, run: dict[str, Any] = run, spans: list[float] = spans) -> float:
            shares = [float(gpu[step]) for gpu in run["gpus"]]
            return sum(share * span / 100 for share, span in zip(shares, spans, strict=True))

        half_a_digit = 0.00006 * sum(spans)
        calls = len(raw.ends)
        kernel = sum(
            sum(raw.timing(key)) for key in ("ntt_msm_h_ms", "batch_add_ms", "tail_msm_ms")
        )
        # What a failed call computed is thrown away: it counts as lock held for nothing.
        thrown_away = [row for row in run["partitions"] if row["state"] == "failed"]
        kernel -= sum(row["ntt_msm_h_ms"] for row in thrown_away)
        assert all_gpus("kernel_pct") == pytest.approx(kernel, abs=half_a_digit)
        section = sum(raw.timing("gpu_total_ms"))
        assert all_gpus("gpu_section_pct") == pytest.approx(section, abs=half_a_digit)
        held = raw.timing("mutex_held_ms")
        if held:  # S41 and newer; each is cut to whole milliseconds
            last_ms = max(raw.ends.values())  # where the span ends, on one GPU
            after = [row for row in thrown_away if row["bracket_start_ms"] > last_ms]
            assert all_gpus("lock_held_pct") == pytest.approx(
                sum(held) - sum(row["lock_held_ms"] for row in after), abs=half_a_digit + calls
            )
        barrier = sum(raw.timing("barrier_wait_ms")) if held else section - kernel
        barrier -= sum(row["barrier_wait_ms"] for row in thrown_away)
        shares = sum(
            gpu["time_pct"]["barrier"] * span / 100
            for gpu, span in zip(run["gpus"], spans, strict=True)
        )
        assert shares == pytest.approx(barrier, abs=3 * half_a_digit + calls)


def done(run: dict[str, Any]) -> list[dict[str, Any]]:
    """The finished partitions of a run."""
    return [row for row in run["partitions"] if row["state"] == "done"]


@pytest.mark.parametrize("name", DEMOS)
def test_a_partitions_own_figures_are_its_lines(name: str) -> None:
    """Figures that the log gives together with the partition's name."""
    torn = report(name)["source"]["torn"]
    for run, raw in zip(report(name)["runs"], raw_runs(name), strict=True):
        retried = {row["job"] for row in run["partitions"] if row["attempt"] > 1}
        rows = {(row["job"], row["partition"]): row for row in done(run)}
        assert rows
        missing = 0
        for key, row in rows.items():
            if key not in raw.ends or key not in raw.starts:
                missing += 1  # torn lines, which a plain expression doesn't put together
            elif key[0] not in retried:
                assert row["gpu_ms"] == raw.gpu_ms[key]
                assert row["bracket_start_ms"] == raw.starts[key]
                assert row["bracket_ms"] == raw.ends[key] - raw.starts[key]
                assert row["worker"] == raw.worker[key]
                assert row["gpu"] == raw.gpu_of_worker[raw.worker[key]]
        assert missing <= torn


@pytest.mark.parametrize("name", WHOLE_LINES)
def test_percentiles_by_counting(name: str) -> None:
    raw = raw_runs(name)[0]
    stages = report(name)["runs"][0]["stages"]
    expected = {
        "count": len(raw.synth_ms),
        "p50": percentile(raw.synth_ms, 50),
        "p95": percentile(raw.synth_ms, 95),
        "max": max(raw.synth_ms),
    }
    assert stages["synth_ms"] == expected
    cold = {raw.of_gpu(gpu)[0] for gpu in set(raw.gpu_of_worker.values())}
    warm = [figure for key, figure in raw.gpu_ms.items() if key not in cold]
    assert stages["gpu_ms"] == {
        "count": len(warm),
        "p50": percentile(warm, 50),
        "p95": percentile(warm, 95),
        "max": max(warm),
    }


@pytest.mark.parametrize("name", DEMOS)
def test_proofs_are_counted_by_their_last_lines(name: str) -> None:
    for run, raw in zip(report(name)["runs"], raw_runs(name), strict=True):
        proofs = run["proofs"]
        assembled = raw.when("all partitions complete, proof assembled")
        assert proofs["completed"] == len(assembled)
        first_ms = min(begun for begun, *_ in raw.synth.values())
        assert proofs["seconds_per_proof"] == pytest.approx(
            (max(assembled) - first_ms) / 1000 / len(assembled), abs=0.006
        )
        failed_jobs = set(re.findall(r"partition GPU proving failed .* job_id=(\S+)", raw.text))
        assert proofs["failed"] == len(failed_jobs)
        failures = re.findall("partition GPU proving failed", raw.text)
        assert sum(row["state"] == "failed" for row in run["partitions"]) == len(failures)
        dispatched = re.findall(r"num_partitions=(\d+)", raw.text)
        assert len(run["partitions"]) == sum(map(int, dispatched))


RECORDED = ("h200-one-gpu", "h200-two-gpus")


def assert_plain_means(name: str, gpu: dict[str, Any], first_ms: float, last_ms: float) -> None:
    """A GPU's `nvml` is the mean of the rows of its CSV between two instants of the run."""
    with (ROOT / "demo_logs" / name / "gpu.csv").open(encoding="utf-8") as file:
        head, *rows = csv.reader(file, skipinitialspace=True)
    util, power = head.index("utilization.gpu [%]"), head.index("power.draw [W]")
    inside = [
        row
        for row in rows
        if row[head.index("index")] == str(gpu["gpu"])
        and first_ms <= raw_runs(name)[0].offset_ms(row[0].replace("/", "-")) <= last_ms
    ]
    for column, key, slack in ((util, "util_pct", 0.5), (power, "power_w", 2.0)):
        mean = sum(float(row[column].split()[0]) for row in inside) / len(inside)
        assert gpu["nvml"][key] == pytest.approx(mean, abs=slack)
    assert abs(gpu["nvml"]["samples"] - len(inside)) <= 2
    assert gpu["nvml"]["source"] == "utilization.gpu"


@pytest.mark.parametrize("name", RECORDED)
def test_a_reports_measurement_covers_each_gpus_span(name: str) -> None:
    run = report(name)["runs"][0]
    for gpu in run["gpus"]:
        calls = [one for one in run["partitions"] if one["gpu"] == gpu["gpu"] and one["bracket_ms"]]
        first_ms = min(one["bracket_start_ms"] for one in calls)
        assert_plain_means(name, gpu, first_ms, max(one["bracket_end_ms"] for one in calls))


@pytest.mark.parametrize("name", RECORDED)
def test_a_snapshots_measurement_covers_what_its_shares_cover(name: str, cut_demos: Path) -> None:
    document = snapshot(name, cut_demos)
    for gpu in document["gpus"]:
        first_ms = document["at_ms"] - gpu["window"]["span_ms"]
        assert_plain_means(name, gpu, first_ms, document["at_ms"])


@pytest.mark.parametrize("name", WHOLE_LINES)
def test_what_is_in_flight_by_the_lines_so_far(name: str, cut_demos: Path) -> None:
    text = ANSI.sub("", raw_log(name)[: CUT_AT[name]].decode(errors="replace"))
    raw = RawRun(text[: text.rindex("\n") + 1])
    document = snapshot(name, cut_demos)
    at = max(raw.last_offset_ms, raw.offset_ms(STAMP.findall(raw.text)[-1]))
    assert document["at_ms"] == pytest.approx(at, abs=0.001)

    def keys(items: list[dict[str, Any]]) -> set[tuple[str, int]]:
        return {(item["job"], item["partition"]) for item in items}

    synthesizing = {key for key, ends in raw.synth.items() if len(ends) == 1}
    assert keys(document["syntheses"]) == synthesizing
    for item in document["syntheses"]:
        begun = raw.synth[item["job"], item["partition"]][0]
        assert item["elapsed_ms"] == pytest.approx(at - begun, abs=0.001)
        assert item["expected_ms"] == percentile(raw.synth_ms, 50)
    queued = {key for key, ends in raw.synth.items() if len(ends) == 2} - raw.picked
    assert keys(document["gpu_queue"]) == queued
    for item in document["gpu_queue"]:
        made = raw.synth[item["job"], item["partition"]][1]
        assert item["waiting_ms"] == pytest.approx(at - made, abs=0.001)
    for gpu in document["gpus"]:
        lock = gpu["lock"]
        shown = [*([lock["holder"]] if lock["holder"] else []), *lock["waiting"]]
        calls = raw.of_gpu(gpu["gpu"])
        assert keys(shown + lock["finishing"]) == {key for key in calls if key not in raw.ends}
        span = 60_000
        first = at - span
        open_ms = bytearray(span)
        for key in calls:
            lo = max(0, round(raw.starts[key] - first))
            hi = min(span, round(raw.ends.get(key, at) - first))
            if lo < hi:
                open_ms[lo:hi] = b"\1" * (hi - lo)
        assert gpu["window"]["bracket_union_pct"] == pytest.approx(
            100 * sum(open_ms) / span, abs=0.1
        )
    assert document["counters"]["completed"] == len(raw.when("proof assembled"))


# ---------------------------------------------------------------- cut anywhere


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 311_429))
def test_a_log_cut_anywhere_has_a_snapshot(cut: int) -> None:
    """A recorded log with torn lines; what it shows is valid JSON with whole shares."""
    scanner, picture = LogScanner(), Picture()
    picture.feed(scanner.feed(whole_h200()[:cut]))
    document = snapshot_document(picture.frame(source=Source(path="x")))
    strict_json(json.dumps(document, allow_nan=False))
    check(document, SNAPSHOT)
    for share in all_shares(document):
        assert sum(share.values()) == pytest.approx(100.0, abs=0.1)


@functools.cache
def whole_h200() -> bytes:
    return raw_log("h200-one-gpu")
