"""What tests of the core share: canned logs, a small log writer, and ways to read them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cuzktop.events import DialectSeen, HeadSeen, LogEvent, Tick, TimingStretch
from cuzktop.frame import Source
from cuzktop.headless.report import partition_line, write_report
from cuzktop.parse.scanner import Counts, LogScanner
from cuzktop.reading import LogSummary

DATA = Path(__file__).parent / "data"
ZERO = datetime(2026, 3, 14, 1, 0, 0, tzinfo=UTC)  # TIMELINE zero of logs made here
ZERO_US = int(ZERO.timestamp()) * 1_000_000

Key = tuple[str, int, int | None]  # job, attempt, partition
Json = dict[str, Any]


def golden(name: str) -> bytes:
    """A log of the format's description, as the daemon of some step would have written it."""
    return (DATA / "golden" / f"{name}.log").read_bytes()


# ---------------------------------------------------------------- reading


def blocks(data: bytes, size: int) -> Iterator[bytes]:
    """`data` in pieces of `size` bytes."""
    for at in range(0, len(data), size):
        yield data[at : at + size]


def scan(data: bytes, size: int = 65536) -> tuple[list[LogEvent], Counts]:
    """All events of a log, those of a stretch apart, and what was counted."""
    scanner = LogScanner()
    events: list[LogEvent] = []
    for block in blocks(data, size):
        events += apart(scanner.feed(block))
    events += scanner.finish()
    return events, scanner.counts


def apart(events: Iterable[LogEvent]) -> Iterator[LogEvent]:
    """The same with each timing line, and each tick, as an event of its own."""
    for event in events:
        if isinstance(event, TimingStretch):
            yield from event.events()
        else:
            yield event


def said(data: bytes) -> list[LogEvent]:
    """A log's events without bounds in time, fingerprints and heads of torn lines."""
    return [
        event for event in scan(data)[0] if not isinstance(event, Tick | DialectSeen | HeadSeen)
    ]


def read(pieces: Iterator[bytes]) -> Json:
    """The report of a log that comes in pieces."""
    scanner = LogScanner()
    summary = LogSummary(partition_line)
    with closing(summary):
        summary.read(pieces, scanner)
        return _document(scanner.counts, summary)


def _document(counts: Counts, summary: LogSummary) -> Json:
    out = io.StringIO()
    source = Source(
        path="daemon.log",
        bytes=counts.bytes,
        lines=counts.lines,
        events=counts.events,
        torn=counts.torn,
        unparsed=counts.unparsed,
    )
    write_report(out, source=source, runs=((run, rows.lines()) for run, rows in summary.runs))
    document: Json = json.loads(out.getvalue())
    return document


def report(data: bytes, size: int = 65536) -> Json:
    """The report of a whole log."""
    return read(blocks(data, size))


def only_run(document: Json) -> Json:
    """The run of a report that has one."""
    (run,) = document["runs"]
    found: Json = run
    return found


def by_key(run: Json) -> dict[Key, Json]:
    """A run's partitions; fails when one is listed twice."""
    rows = {(row["job"], row["attempt"], row["partition"]): row for row in run["partitions"]}
    assert len(rows) == len(run["partitions"]), "a partition is listed twice"
    return rows


def states(run: Json) -> dict[Key, str]:
    """What became of a run's partitions."""
    return {key: row["state"] for key, row in by_key(run).items()}


# ---------------------------------------------------------------- writing


def stamp(at_ms: float) -> str:
    """A tracing line's time stamp, `at_ms` after TIMELINE zero."""
    return f"{ZERO + timedelta(milliseconds=at_ms):%Y-%m-%dT%H:%M:%S.%f}Z"


def wall(at_ms: float) -> int:
    """The same as events carry it."""
    return ZERO_US + round(at_ms * 1000)


ENGINE = "cuzk_core::engine"


@dataclass
class Log:
    """Lines of a daemon, each written where its call stands."""

    text: list[str] = field(default_factory=list)
    gpu_of: tuple[int, ...] = (0, 0, 0, 0)  # by worker
    skew_ms: float = 0.0  # how far the machine's clock is off TIMELINE

    def line(self, text: str) -> Log:
        """Any line."""
        self.text.append(text)
        return self

    def say(
        self,
        at_ms: float,
        message: str,
        level: str = "INFO",
        target: str = ENGINE,
        spans: str = "",
    ) -> Log:
        """A tracing line; `spans` ends in its colon."""
        lead = f"{spans} " if spans else ""
        return self.line(f"{stamp(at_ms + self.skew_ms)} {level:>5} {lead}{target}: {message}")

    def clocked(self, at_ms: int, event: str, job: str, detail: str = "") -> Log:
        """A TIMELINE line."""
        return self.line(f"TIMELINE,{at_ms},{event},{job},{detail}")

    def timing(self, text: str) -> Log:
        """A CUZK_TIMING line."""
        return self.line(f"CUZK_TIMING: {text}")

    def start(self, *, workers: tuple[int, ...] = (0, 0)) -> Log:
        """A daemon's first lines; `workers` are their GPUs."""
        self.gpu_of = workers
        self.say(-40, "cuzk-daemon starting", target="cuzk_daemon")
        self.say(0, "starting cuzk engine pipeline_enabled=true")
        for worker, gpu in enumerate(workers):
            self.say(1, f"pipeline GPU worker started worker_id={worker} gpu={gpu} sub_id={worker}")
        return self

    def enqueued(self, at_ms: float, job: str, kind: str = "porep-c2") -> Log:
        """The scheduler took a job."""
        return self.say(
            at_ms,
            f"job enqueued job_id={job} proof_kind={kind} priority=Normal queue_position=0",
            target="cuzk_core::scheduler",
        )

    def dequeued(self, at_ms: float, job: str, kind: str = "porep-c2") -> Log:
        """The dispatcher took a job."""
        return self.say(
            at_ms,
            f"job dequeued for proving job_id={job} proof_kind={kind}",
            target="cuzk_core::scheduler",
        )

    def dispatched(self, at_ms: float, job: str, partitions: int, what: str = "") -> Log:
        """Its partitions are known."""
        return self.say(
            at_ms,
            f"dispatching per-partition {what}synthesis (budget-gated) job_id={job}"
            f" num_partitions={partitions} budget_available_gib=705",
            spans="synth_single{proof_kind=porep-c2}:",
        )

    def admitted(self, at_ms: float, job: str, partitions: int) -> Log:
        """All three."""
        self.enqueued(at_ms, job).dequeued(at_ms, job)
        return self.dispatched(at_ms, job, partitions)

    def synthesized(self, at_ms: int, job: str, index: int, synth_ms: int = 1000) -> Log:
        """One partition's synthesis from `at_ms` on."""
        self.clocked(at_ms, "SYNTH_START", job, f"partition={index}")
        end = at_ms + synth_ms
        self.clocked(end, "SYNTH_END", job, f"partition={index},synth_ms={synth_ms - 5}")
        return self.clocked(end, "GPU_QUEUE", job, f"partition={index}")

    def picked(self, at_ms: int, job: str, index: int, worker: int = 0) -> Log:
        """A worker takes it and opens its bracket."""
        self.clocked(at_ms, "GPU_PICKUP", job, f"worker={worker},partition={index}")
        return self.clocked(at_ms, "GPU_START", job, f"worker={worker},partition={index}")

    def ended(self, at_ms: int, job: str, index: int, worker: int = 0, gpu_ms: int = 500) -> Log:
        """Its bracket closes."""
        detail = f"worker={worker},partition={index},gpu_ms={gpu_ms}"
        return self.clocked(at_ms, "GPU_END", job, detail)

    def proved(self, at_ms: int, job: str, index: int, worker: int = 0, gpu_ms: int = 500) -> Log:
        """A bracket without lines in it."""
        self.picked(at_ms, job, index, worker)
        return self.ended(at_ms + gpu_ms, job, index, worker, gpu_ms)

    def called(self, at_ms: int, job: str, index: int, worker: int = 0) -> Log:
        """A whole prove call of 1010 ms from `at_ms` on; its kernels take 550 ms."""
        self.clocked(at_ms, "GPU_PICKUP", job, f"worker={worker},partition={index}")
        self.say(
            at_ms + 0.4,
            f"GPU_TIMING hot_path pre-prove overhead worker_id={worker} partition=Some({index})"
            " status_ms=0 fail_check_ms=0 mark_busy_ms=0 total_overhead_ms=0",
            spans=f"gpu_worker{{worker_id={worker} gpu={self.gpu_of[worker]} job_id={job}"
            f" proof_kind=porep-c2 batch_size=1 partition=Some({index})}}:",
        )
        self.clocked(at_ms, "GPU_START", job, f"worker={worker},partition={index}")
        for text in (
            "split_vectors_ms=1 setup_to_split_ms=3",
            "pre_lock_cpu_ms=5 mutex_wait_ms=0",
            "gpu_tid=0 ntt_msm_h_ms=400",
            "prep_msm_ms=700",
            "gpu_tid=0 barrier_wait_ms=303",
            "gpu_tid=0 batch_add_ms=100",
            "gpu_tid=0 tail_msm_ms=50 gpu_total_ms=854",
            "mutex_held_ms=855 total_start_fn_ms=861",
        ):
            self.timing(text)
        self.say(
            at_ms + 862,
            f"GPU_TIMING spawn_blocking prove_start worker_id={worker} partition=Some({index})"
            " spawn_to_enter_ms=0 prove_start_ms=862",
        )
        self.timing("b_g2_msm_ms=290 num_circuits=1")
        return self.ended(at_ms + 1010, job, index, worker, 1009)

    def assembled(self, at_ms: float, job: str) -> Log:
        """The proof is put together."""
        return self.say(
            at_ms,
            f"Phase 7: all partitions complete, proof assembled job_id={job} proof_len=1920"
            " total_ms=37860 synth_ms=325104 gpu_ms=28412",
        )

    @property
    def data(self) -> bytes:
        """The file."""
        return "".join(f"{line}\n" for line in self.text).encode()


# ---------------------------------------------------------------- colours

_SHAPE = re.compile(
    r"(?P<stamp>\S{27}) (?P<level>.{5}) "
    r"(?P<spans>(?:[a-z_0-9]+(?:\{.*?\})?:)+ )?(?P<target>[a-z_]\w*(?:::\w+)*): (?P<rest>.*)",
    re.DOTALL,
)
_LEVELS = {" INFO": 32, " WARN": 33, "ERROR": 31, "DEBUG": 34, "TRACE": 35}
_SPAN = re.compile(r"([a-z_0-9]+)(?:\{(.*?)\})?:")
_DIM, _BOLD, _ITALIC, _OFF = "\x1b[2m", "\x1b[1m", "\x1b[3m", "\x1b[0m"


def _fields(text: str) -> str:
    return re.sub(
        r"(^| )([a-z]\w*)=", rf"\1{_ITALIC}\2{_OFF}{_DIM}={_OFF}".replace("\x1b", "\x1b"), text
    )


def coloured(data: bytes) -> bytes:
    """The same log as the daemon writes it without NO_COLOR: its tracing lines coloured."""
    return b"\n".join(_coloured(line.decode()).encode() for line in data.split(b"\n"))


def _coloured(line: str) -> str:
    shape = _SHAPE.fullmatch(line)
    if shape is None or shape["level"] not in _LEVELS:
        return line
    spans = ""
    for name, inside in _SPAN.findall(shape["spans"] or ""):
        braces = ""
        if inside:
            braces = f"{_BOLD}{{{_OFF}{_fields(inside)}{_BOLD}}}{_OFF}"
        spans += f"{_BOLD}{name}{_OFF}{braces}{_DIM}:{_OFF}"
    if spans:
        spans += " "
    return (
        f"{_DIM}{shape['stamp']}{_OFF} \x1b[{_LEVELS[shape['level']]}m{shape['level']}{_OFF} "
        f"{spans}{_DIM}{shape['target']}{_OFF}{_DIM}:{_OFF} {_fields(shape['rest'])}"
    )
