"""`timestamp LEVEL [spans] target: message key=value …`: the daemon's tracing lines.

A line is looked up by the first characters after its level and of its message, so that a line of
no interest costs two dictionary look-ups; only a line of interest loses its colours and is matched
by its whole template. The templates are the daemon's own, by generation.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from functools import cache

from cuzktop.events import (
    DaemonStarted,
    DialectSeen,
    EngineStarted,
    GpuCount,
    JobAssembled,
    JobCompleted,
    JobDequeued,
    JobDispatched,
    JobEnqueued,
    LogEvent,
    Noticed,
    PartitionComplete,
    PartitionFailed,
    PartitionSkipped,
    PickupSeen,
    ProveStartReturned,
    ProveStartTimed,
    SelfCheck,
    SettingSeen,
    SynthesisSeen,
    WorkerStarted,
)
from cuzktop.parse.text import ANSI, ESC, KINDS, line_us, name, wall_us

LAST_STEP = 45
_LINE = re.compile(
    rb"(?P<spans>(?:[a-z_0-9]+(?:\{.*?\})?:)+ )?(?P<target>[a-z_]\w*(?:::\w+)*): (?P<message>.*)",
    re.DOTALL,
)
_WORKER_SPAN = re.compile(
    rb"(?:gpu|monolithic)_worker\{(?:worker_id=(?P<w>\d{1,13}) gpu=(?P<g>\d{1,13}) )?"
    rb"job_id=(?P<job>.*?) proof_kind=[a-z0-9-]+(?: batch_size=\d+)?"
    rb"(?: partition=(?:Some\((?P<p>\d{1,13})\)|None))?\}"
)

_PROOF_KIND = re.compile(rb" proof_kind=([a-z0-9-]+)")

Found = list[LogEvent]
Rule = Callable[[int, bytes, "re.Match[bytes]"], Found]
"""(wall_us, spans, match of the message) → events."""


def _opt(raw: bytes | None) -> int | None:
    return None if raw is None else int(raw)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _worker_span(spans: bytes) -> tuple[str, int | None, int, int] | None:
    """(job, partition, worker, gpu) of a worker's span; None if there is none."""
    match = _WORKER_SPAN.search(spans)
    if match is None or match["w"] is None:
        return None
    return name(match["job"]), _opt(match["p"]), int(match["w"]), int(match["g"])


# ---------------------------------------------------------------- rules, one a template


def _daemon_starting(at: int, _: bytes, __: re.Match[bytes]) -> Found:
    return [DaemonStarted(at)]


def _engine_starting(at: int, _: bytes, __: re.Match[bytes]) -> Found:
    return [EngineStarted(at)]


def _fingerprint(first: int, last: int) -> Rule:
    def rule(_: int, __: bytes, match: re.Match[bytes]) -> Found:
        settings = [
            SettingSeen(key, _text(value)) for key, value in match.groupdict().items() if value
        ]
        return [DialectSeen(first, last), *settings]

    return rule


def _setting(_: int, __: bytes, match: re.Match[bytes]) -> Found:
    return [SettingSeen(key, _text(value)) for key, value in match.groupdict().items() if value]


def _gpu_count(_: int, __: bytes, match: re.Match[bytes]) -> Found:
    gpus = tuple(int(gpu) for gpu in match["gpus"].split(b",") if gpu.strip())
    per_gpu = match["per"]
    found: Found = [GpuCount(gpus, 1 if per_gpu is None else int(per_gpu))]
    found.append(DialectSeen(3, 18) if per_gpu is None else DialectSeen(19, LAST_STEP))
    if per_gpu is not None:
        found.append(SettingSeen("gpu_workers_per_device", _text(per_gpu)))
    return found


def _worker_started(_: int, __: bytes, match: re.Match[bytes]) -> Found:
    return [WorkerStarted(int(match["w"]), int(match["g"]))]


def _dispatched(at: int, _: bytes, match: re.Match[bytes]) -> Found:
    snap = match["snap"] is not None
    found: Found = [
        JobDispatched(at, name(match["job"]), "snap" if snap else "porep", int(match["n"]))
    ]
    if match["gated"] is not None:
        found.append(DialectSeen(33, LAST_STEP))
    else:
        found.append(DialectSeen(29 if snap else 18, 32))
    return found


def _assembled(at: int, _: bytes, match: re.Match[bytes]) -> Found:
    return [JobAssembled(at, name(match["job"]), int(match["total"]))]


def _self_check(at: int, _: bytes, match: re.Match[bytes]) -> Found:
    passed = match["what"] == b"PASSED"
    return [SelfCheck(at, name(match["job"]), passed, _text(match.group()))]


def _completed(at: int, spans: bytes, _: re.Match[bytes]) -> Found:
    who = _worker_span(spans)
    return [JobCompleted(at, "" if who is None else who[0])]


def _sector_delivered(at: int, _: bytes, match: re.Match[bytes]) -> Found:
    return [JobCompleted(at, name(match["job"]))]


def _synthesis_seen(at: int, _: bytes, match: re.Match[bytes]) -> Found:
    return [SynthesisSeen(at, name(match["job"]), int(match["p"]), int(match["ms"]))]


def _partition_complete(at: int, _: bytes, match: re.Match[bytes]) -> Found:
    return [PartitionComplete(at, name(match["job"]), int(match["p"]), int(match["ms"]))]


def _picked_up(at: int, spans: bytes, _: re.Match[bytes]) -> Found:
    who = _worker_span(spans)
    if who is None:
        return []
    kind = _PROOF_KIND.search(spans)
    return [PickupSeen(at, *who, None if kind is None else KINDS.get(kind[1]))]


def _returned(at: int, spans: bytes, _: re.Match[bytes]) -> Found:
    who = _worker_span(spans)
    return [] if who is None else [ProveStartReturned(at, *who)]


def _prove_start(at: int, _: bytes, match: re.Match[bytes]) -> Found:
    return [
        ProveStartTimed(
            at, int(match["w"]), _opt(match["p"]), int(match["enter"]), int(match["ms"])
        )
    ]


def _start_failed(at: int, spans: bytes, match: re.Match[bytes]) -> Found:
    who = _worker_span(spans)
    job, partition, worker = ("", None, None) if who is None else who[:3]
    return [
        PartitionFailed(at, job, partition, worker, "gpu", _text(match.group()), fails_job=False)
    ]


def _monolithic_failed(at: int, spans: bytes, match: re.Match[bytes]) -> Found:
    who = _worker_span(spans)
    if who is None:
        return [Noticed(at, "error", _text(match.group()))]
    text = _text(match.group())
    return [PartitionFailed(at, who[0], None, who[2], "gpu", text, fails_job=True)]


def _proving_failed(at: int, spans: bytes, match: re.Match[bytes]) -> Found:
    job, partition, worker = "", None, None
    who = _worker_span(spans)
    if who is not None:
        job, partition, worker = who[:3]
    if match["job"] is not None:
        job, partition = name(match["job"]), int(match["p"])
    return [
        PartitionFailed(at, job, partition, worker, "gpu", _text(match.group()), fails_job=True)
    ]


def _synthesis_failed(at: int, _: bytes, match: re.Match[bytes]) -> Found:
    job = b"" if match["job"] is None else match["job"]
    return [
        PartitionFailed(
            at, name(job), _opt(match["p"]), None, "synthesis", _text(match.group()), fails_job=True
        )
    ]


def _load_failed(at: int, _: bytes, match: re.Match[bytes]) -> Found:
    return [PartitionFailed(at, "", None, None, "load", _text(match.group()), fails_job=True)]


def _skipped(at: int, _: bytes, match: re.Match[bytes]) -> Found:
    partition = match["p"] or match["q"]
    return [PartitionSkipped(at, name(match["job"]), _opt(partition), match["d"] is not None)]


def _enqueued(at: int, _: bytes, match: re.Match[bytes]) -> Found:
    return [JobEnqueued(at, name(match["job"]), KINDS.get(match["kind"], _text(match["kind"])))]


def _dequeued(at: int, _: bytes, match: re.Match[bytes]) -> Found:
    return [JobDequeued(at, name(match["job"]), KINDS.get(match["kind"], _text(match["kind"])))]


ENGINE, PIPELINE, SCHEDULER, DAEMON = (
    b"cuzk_core::engine",
    b"cuzk_core::pipeline",
    b"cuzk_core::scheduler",
    b"cuzk_daemon",
)
_MESSAGE_HEAD = 12  # enough to tell every message below from every other

_TEMPLATES: tuple[tuple[bytes, tuple[bytes, ...], bytes, Rule], ...] = (
    # target, how the message can begin, the whole message, what it means
    (DAEMON, (b"cuzk-daemon starting",), rb"cuzk-daemon starting", _daemon_starting),
    (
        DAEMON,
        (b"rayon global",),
        rb"rayon global thread pool configured rayon_threads=(?P<rayon_threads>\d{1,13})",
        _fingerprint(17, LAST_STEP),
    ),
    (
        DAEMON,
        (b"set CUZK_GPU_THREADS",),
        rb"set CUZK_GPU_THREADS for .*gpu_threads=(?P<gpu_threads>\d{1,13})",
        _setting,
    ),
    (DAEMON, (b"configuration",), rb"configuration loaded listen=(?P<listen>.*)", _setting),
    (
        DAEMON,
        (b"status HTTP server",),
        rb"status HTTP server listening addr=(?P<status_listen>.*)",
        _setting,
    ),
    (ENGINE, (b"starting cuzk engine",), rb"starting cuzk engine.*", _engine_starting),
    (
        ENGINE,
        (b"initializing GPU",),
        rb"initializing GPU workers (?:num_workers=\d+|num_gpus=\d+"
        rb" gpu_workers_per_device=(?P<per>\d{1,13}) total_workers=\d+) gpus=\[(?P<gpus>[\d, ]*)\]",
        _gpu_count,
    ),
    (
        ENGINE,
        (b"starting pipeline",),
        rb"starting pipeline: synthesis task \+ GPU workers lookahead=\d+ .*",
        _fingerprint(8, 24),
    ),
    (
        ENGINE,
        (b"starting pipeline",),
        rb"starting pipeline: .* configured_lookahead=\d+"
        rb" partition_workers=(?P<partition_workers>\d{1,13}) .*",
        _fingerprint(25, 32),
    ),
    (
        ENGINE,
        (b"starting pipeline",),
        rb"starting pipeline: .*\(budget-gated\) .*"
        rb"synth_worker_count=(?P<synth_worker_count>\d{1,13}) .*",
        _fingerprint(37, LAST_STEP),
    ),
    (
        ENGINE,
        (b"starting pipeline",),
        rb"starting pipeline: .*\(budget-gated\) .*",
        _fingerprint(33, 36),
    ),
    (
        ENGINE,
        (b"synthesis dispatcher",),
        rb"synthesis dispatcher started \(budget-gated\).*",
        _fingerprint(33, LAST_STEP),
    ),
    (
        ENGINE,
        (b"synthesis dispatcher",),
        rb"synthesis dispatcher started .*synthesis_concurrency=\d+"
        rb" partition_workers=(?P<partition_workers>\d{1,13})",
        _fingerprint(18, 32),
    ),
    (
        ENGINE,
        (b"synthesis dispatcher",),
        rb"synthesis dispatcher started .*synthesis_concurrency=\d+",
        _fingerprint(16, 17),
    ),
    (
        ENGINE,
        (b"spawning GPU workers",),
        rb"spawning GPU workers with Phase 8.*",
        _fingerprint(19, LAST_STEP),
    ),
    (
        ENGINE,
        (b"synthesis priority",),
        rb"synthesis priority dispatcher started \(PI pacer\)",
        _fingerprint(42, LAST_STEP),
    ),
    (
        ENGINE,
        (b"synthesis priority",),
        rb"synthesis priority dispatcher started",
        _fingerprint(39, 41),
    ),
    (
        ENGINE,
        (b"CUDA pinned memory",),
        rb"CUDA pinned memory pool initialized",
        _fingerprint(41, LAST_STEP),
    ),
    (
        ENGINE,
        (b"memory budget",),
        rb"memory budget initialized total_budget_gib=(?P<total_budget_gib>\d{1,13})",
        _fingerprint(33, LAST_STEP),
    ),
    (
        ENGINE,
        (b"pacer: status",),
        rb"pacer: status total=\d+ in_flight=.*",
        _fingerprint(44, LAST_STEP),
    ),
    (ENGINE, (b"pacer: status",), rb"pacer: status .*gpu_proc_ms=.*", _fingerprint(43, 43)),
    (ENGINE, (b"pacer: status",), rb"pacer: status .*ema_gpu_ms=.*", _fingerprint(42, 42)),
    (
        ENGINE,
        (b"GPU queue target",),
        rb"GPU queue target dispatch pacer enabled"
        rb" gpu_queue_target=(?P<max_gpu_queue_depth>\d{1,13})",
        _fingerprint(42, LAST_STEP),
    ),
    (
        ENGINE,
        (b"pipeline GPU worker",),
        rb"pipeline GPU worker started worker_id=(?P<w>\d{1,13}) gpu=(?P<g>\d{1,13})"
        rb"(?: sub_id=\d+)?",
        _worker_started,
    ),
    (
        ENGINE,
        (b"dispatching per-partition", b"Phase 7: dispatching"),
        rb"(?:Phase 7: )?dispatching per-partition (?P<snap>SnapDeals )?synthesis"
        rb"(?P<gated> \(budget-gated\))? job_id=(?P<job>.*) num_partitions=(?P<n>\d{1,13}) .*",
        _dispatched,
    ),
    (
        ENGINE,
        (b"Phase 7: all partitions",),
        rb"Phase 7: all partitions complete, proof assembled job_id=(?P<job>.*) proof_len=\d+"
        rb" total_ms=(?P<total>\d{1,13}) .*",
        _assembled,
    ),
    (
        ENGINE,
        (b"Phase 7: PoRep", b"Phase 6: PoRep", b"Batched PoRep", b"Pipeline single-sector"),
        rb"(?:Phase 7:|Phase 6:|Batched|Pipeline single-sector) PoRep proof self-check"
        rb" (?P<what>PASSED|FAILED|error).*? job_id=(?P<job>.*?)"
        rb"(?: (?:sector_idx|proof_len|error)=.*)?",
        _self_check,
    ),
    (ENGINE, (b"proof completed",), rb"proof completed successfully \(.*", _completed),
    (
        ENGINE,
        (b"sector proof delivered",),
        rb"sector proof delivered from batch sector_idx=\d+ job_id=(?P<job>.*) proof_len=\d+ .*",
        _sector_delivered,
    ),
    (
        ENGINE,
        (b"partition synthesis", b"SnapDeals partition"),
        rb"(?:SnapDeals )?partition synthesis complete, .*? job_id=(?P<job>.*)"
        rb" partition=(?P<p>\d{1,13}) synth_ms=(?P<ms>\d{1,13})",
        _synthesis_seen,
    ),
    (
        ENGINE,
        (b"partition GPU prove",),
        rb"partition GPU prove complete job_id=(?P<job>.*) partition=(?P<p>\d{1,13})"
        rb" gpu_ms=(?P<ms>\d{1,13}) .*",
        _partition_complete,
    ),
    (ENGINE, (b"GPU worker picked up",), rb"GPU worker picked up synthesized.*", _picked_up),
    (ENGINE, (b"GPU_TIMING hot_path",), rb"GPU_TIMING hot_path .*", _picked_up),
    (
        ENGINE,
        (b"GPU_TIMING spawn_blocking",),
        rb"GPU_TIMING spawn_blocking prove_start worker_id=(?P<w>\d{1,13})"
        rb" partition=(?:Some\((?P<p>\d{1,13})\)|None) spawn_to_enter_ms=(?P<enter>\d{1,13})"
        rb" prove_start_ms=(?P<ms>\d{1,13})",
        _prove_start,
    ),
    (ENGINE, (b"GPU_TIMING prove_start",), rb"GPU_TIMING prove_start returned .*", _returned),
    (
        ENGINE,
        (b"GPU prove start",),
        rb"GPU prove start (?:task panicked|failed) error=.*",
        _start_failed,
    ),
    (
        ENGINE,
        (b"partition GPU proving", b"GPU proving failed", b"GPU proving task"),
        rb"(?:partition )?GPU proving (?:task panicked|failed) error=.*?"
        rb"(?: job_id=(?P<job>.*) partition=(?P<p>\d{1,13}))?",
        _proving_failed,
    ),
    (
        ENGINE,
        (b"processing job (monolithic)",),
        rb"processing job \(monolithic\)",
        _picked_up,
    ),
    (
        ENGINE,
        (b"proof failed", b"proof task panicked"),
        rb"proof (?:failed|task panicked) error=.*",
        _monolithic_failed,
    ),
    (
        ENGINE,
        (b"synthesis failed", b"synthesis task", b"partition synthesis", b"SnapDeals partition"),
        rb"(?:(?:SnapDeals )?partition )?synthesis (?:task panicked|failed) error=.*?"
        rb"(?: job_id=(?P<job>.*) partition=(?P<p>\d{1,13}))?",
        _synthesis_failed,
    ),
    (
        ENGINE,
        (b"Phase 7: C1 parse", b"SnapDeals parse"),
        rb"(?:Phase 7: C1|SnapDeals) parse(?:/SRS load failed| task panicked) error=.*",
        _load_failed,
    ),
    (
        ENGINE,
        (b"skipping GPU", b"skipping synthesis", b"discarding GPU"),
        rb"(?:skipping GPU prove for failed partitioned job|skipping synthesis for failed"
        rb"(?: SnapDeals)? job|(?P<d>discarding) GPU result for failed job) job_id=(?P<job>.*)"
        rb" partition=(?:Some\((?P<p>\d{1,13})\)|(?P<q>\d{1,13})|None)",
        _skipped,
    ),
    (
        PIPELINE,
        (b"GPU prove complete",),
        rb"GPU prove complete \(split\) .*",
        _fingerprint(24, LAST_STEP),
    ),
    (
        SCHEDULER,
        (b"job enqueued",),
        rb"job enqueued job_id=(?P<job>.*) proof_kind=(?P<kind>[a-z0-9-]+) priority=.*",
        _enqueued,
    ),
    (
        SCHEDULER,
        (b"job dequeued",),
        rb"job dequeued for proving job_id=(?P<job>.*) proof_kind=(?P<kind>[a-z0-9-]+)",
        _dequeued,
    ),
)

_RULES: dict[bytes, list[tuple[bytes, Rule]]] = {}
"""Target, a blank and the message's first characters → the templates that may fit."""

for _target, _heads, _pattern, _rule in _TEMPLATES:
    for _head in _heads:
        _RULES.setdefault(_target + b" " + _head[:_MESSAGE_HEAD], []).append((_pattern, _rule))


@cache
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    """Compiled when a line first needs it: a log shows few of the forty templates."""
    return re.compile(pattern, re.DOTALL)


ONCE = frozenset({PIPELINE + b" GPU prove co", ENGINE + b" pacer: statu"})
"""Messages whose only use is a fingerprint: one of each is enough for a run."""

_ENGINE_KEYS = {key[len(ENGINE) + 1 :]: key for key in _RULES if key.startswith(ENGINE + b" ")}
"""A message of the engine without a span → its key."""

_SPAN_NAMES = (
    b"gpu_worker",
    b"monolithic_worker",
    b"synth_single",
    b"synth_batch_full",
    b"synth_timeout_flush",
    b"synth_preempt_flush",
    b"synth_shutdown_flush",
    b"synthesis",
)
_OURS_HEAD = 9
_OURS = frozenset(word[:_OURS_HEAD] for word in (ENGINE, DAEMON, *_SPAN_NAMES))
"""How lines without colours that may matter begin after their level, target or span."""
NOISE_AT = slice(41, 69)  # of a coloured line: its level, and the same of its target
_WANTED_AT = slice(55, 69)  # of a coloured line: long enough to tell the pipeline from pinned_pool


def _coloured(word: bytes) -> bytes:
    """How a coloured line of this target or span begins at `_WANTED_AT`."""
    return (word + b"\x1b[0m\x1b")[: _WANTED_AT.stop - _WANTED_AT.start]


_ENGINE_HEAD = _coloured(ENGINE)
_ENGINE_MESSAGE_AT = slice(86, 98)  # of a coloured line of the engine outside of any span
_PIPELINE_HEAD = _coloured(PIPELINE)
_WANTED = frozenset(map(_coloured, (ENGINE, PIPELINE, SCHEDULER, DAEMON, *_SPAN_NAMES)))


def _coloured_key(line: bytes) -> bytes | None:
    """Target, blank and first characters of the message, from a coloured line."""
    target = line.find(b"\x1b[2mcuzk_", 51)
    if target < 0:
        return None
    if line.startswith(_ENGINE_ANSI, target):
        at = target + len(_ENGINE_ANSI)
        return _ENGINE_KEYS.get(line[at : at + _MESSAGE_HEAD])
    end = line.find(b"\x1b", target + 4)
    return line[target + 4 : end] + line[end + 13 : end + 14 + _MESSAGE_HEAD]


def _plain_key(rest: bytes) -> bytes | None:
    """The same from a line without colours."""
    target = 0
    if not rest.startswith(b"cuzk_"):
        target = rest.find(b"}: cuzk_") + 3
        if target < 3:
            return None
    end = rest.find(b": ", target)
    return rest[target:end] + rest[end + 1 : end + 2 + _MESSAGE_HEAD]


QUIET = frozenset({b" INFO", b"DEBUG", b"TRACE"})
"""Levels, as they are printed, of lines that matter only if a template knows them."""


_SEP = rb"(?:\x1b\[0m\x1b\[2m)?=(?:\x1b\[0m)?"
_NEXT = rb" (?:\x1b\[3m)?"
_PROVE_START = re.compile(
    rb"worker_id"
    + _SEP
    + rb"(\d+)"
    + _NEXT
    + rb"partition"
    + _SEP
    + rb"(?:Some\((\d+)\)|None)"
    + _NEXT
    + rb"spawn_to_enter_ms"
    + _SEP
    + rb"(\d{1,13})"
    + _NEXT
    + rb"prove_start_ms"
    + _SEP
    + rb"(\d{1,13})\Z"
)
"""R3 as it stands in the log: the one tracing line that every call needs."""

_ENGINE_ANSI = b"\x1b[2m" + ENGINE + b"\x1b[0m\x1b[2m:\x1b[0m "
_ENGINE_PLAIN = ENGINE + b": "
_WORKER_ANSI = b"\x1b[1mgpu_worker"
_WORKER_PLAIN = b"gpu_worker{"
_TOLD_BY_TIMELINE = frozenset({b"partition sy", b"SnapDeals pa", b"partition GP"})
"""Y17 and R8 say what SYNTH_END and GPU_END have said."""
_PICKUPS = frozenset({b"GPU_TIMING h", b"GPU worker p"})
_PROVE_STARTED = b"GPU_TIMING s"
_RETURNED = b"GPU_TIMING p"
_KEEP_RETURNED = 8
_KEEP_NOISE = 256  # more than the dependencies that log anything
_make = tuple.__new__  # a named tuple, at half its constructor's price
_USUAL_COLOURS = (b"\x1b[0m", b"\x1b[2m", b"\x1b[3m", b"\x1b[32m", b"\x1b[1m")
ANCHOR_LINES = 64  # of a run are read whatever they tell: enough to bound TIMELINE's zero
ANCHOR_EVERY = 16  # and then one of so many: a clock that is set is noticed within five partitions


class TracingReader:
    """Events of tracing lines; remembers what a run has told already.

    With TIMELINE lines in the log, some tracing lines say nothing new; most of them are passed
    over, for reading them all would cost a third of the whole. `has_timeline` is set by whoever
    sees the first TIMELINE line of a run. Of the coloured lines most are of no interest: of whoever
    has many of them, those are asked about (`wants`) that don't have a piece of `noise` at
    `NOISE_AT`.
    """

    __slots__ = ("_placed", "_returned", "_seen", "_told", "_wanted", "has_timeline", "noise")

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._seen: set[bytes] = set()
        self._placed: set[bytes] = set()  # spans of workers whose GPU is known
        self._returned: deque[bytes] = deque(maxlen=_KEEP_RETURNED)
        self._told = 0
        self.has_timeline = False
        self._wanted = set(_WANTED)  # beginnings of coloured lines, at `_WANTED_AT`
        self.noise: set[bytes] = set()

    def forget(self) -> None:
        """A new run: its fingerprints count again."""
        self._seen.clear()
        self._placed.clear()
        self._returned.clear()
        self._told = 0
        self.has_timeline = False
        self._wanted |= _WANTED
        self.noise.clear()

    def wants(self, line: bytes) -> bool:
        """Whether a coloured line may be of interest."""
        if line[41:46] not in QUIET:
            return True
        target = line[_WANTED_AT]
        if target == _ENGINE_HEAD:
            return line[_ENGINE_MESSAGE_AT] in _ENGINE_KEYS
        if target in self._wanted:
            return True
        if len(self.noise) < _KEEP_NOISE:
            self.noise.add(line[NOISE_AT])
        return False

    def read(self, line: bytes) -> Found | None:
        """The events of one tracing line without its line end; None if it is of no interest.

        `line` begins with a time stamp, coloured or not.

        Raises:
            ValueError: its time stamp can't be read.
        """
        coloured = line[0] == ESC
        level = line[41:46] if coloured else line[28:33]
        if level in QUIET:
            if coloured:
                if line.startswith(_ENGINE_ANSI, 51):
                    head = line[_ENGINE_MESSAGE_AT]
                    key = _ENGINE_KEYS.get(head)
                elif line[_WANTED_AT] not in self._wanted:
                    return None
                else:
                    key = _coloured_key(line)
                    head = b"" if key is None else key[-_MESSAGE_HEAD:]
            else:
                if line[34 : 34 + _OURS_HEAD] not in _OURS:
                    return None
                if line.startswith(_ENGINE_PLAIN, 34):
                    head = line[53:65]
                    key = _ENGINE_KEYS.get(head)
                else:
                    key = _plain_key(line[34:])
                    head = b"" if key is None else key[-_MESSAGE_HEAD:]
            if key is None or key not in _RULES:
                return None
            if head == _PROVE_STARTED:
                match = _PROVE_START.search(line, 60)
                if match is not None:
                    worker, partition, enter, prove = match.groups()
                    figures = (
                        line_us(line),
                        int(worker),
                        None if partition is None else int(partition),
                        int(enter),
                        int(prove),
                    )
                    return [_make(ProveStartTimed, figures)]
            elif self.has_timeline and self._is_told(line, head):
                return None
            elif key in ONCE:
                if key in self._seen:
                    return None
                self._seen.add(key)
                if key.startswith(PIPELINE):  # it has no other message of interest
                    self._wanted.discard(_PIPELINE_HEAD)
        return self._whole(line)

    def _is_told(self, line: bytes, head: bytes) -> bool:
        """Whether the line says nothing that other lines have not said."""
        if head in _TOLD_BY_TIMELINE:
            # Some are read all the same: beside TIMELINE lines they show how the clocks stand.
            self._told += 1
            return self._told > ANCHOR_LINES and self._told % ANCHOR_EVERY != 0
        if self._told <= ANCHOR_LINES:
            return False
        if head == _RETURNED:
            self._returned.append(line)
            return True
        if head in _PICKUPS:
            who = line[: line.find(b"job_id")][34:]
            if who in self._placed:
                return True
            self._placed.add(who)
        return False

    def _whole(self, line: bytes) -> Found | None:
        stamp, level, spans, target, message = split_line(line)
        at = wall_us(stamp)
        for pattern, rule in _RULES.get(target + b" " + message[:_MESSAGE_HEAD], ()):
            match = _compiled(pattern).fullmatch(message)
            if match is not None:
                found = rule(at, spans, match)
                if rule is _start_failed:
                    found = [*self._return_of(spans), *found]
                if level == b"WARN" and found:  # a self-check that failed and was returned
                    return [*found, Noticed(at, "warning", _text(message))]
                return found
        if level in (b"WARN", b"ERROR") and target.startswith(b"cuzk"):
            return [Noticed(at, "warning" if level == b"WARN" else "error", _text(message))]
        return None

    def _return_of(self, spans: bytes) -> Found:
        """R4 of the call that failed to start: it was passed over, as of no interest."""
        for line in reversed(self._returned):
            stamp, _, its_spans, _, _ = split_line(line)
            if its_spans == spans:
                who = _worker_span(spans)
                return [] if who is None else [ProveStartReturned(wall_us(stamp), *who)]
        return []


def _uncoloured(line: bytes) -> bytes:
    """The line without control sequences: those of the daemon's logger go at a third of a price."""
    if b"\x1b" in line:
        for usual in _USUAL_COLOURS:
            line = line.replace(usual, b"")
        if b"\x1b" in line:
            return ANSI.sub(b"", line)
    return line


def split_line(line: bytes) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    """(stamp, level, spans, target, message) of a tracing line, colours removed.

    Raises:
        ValueError: the line has no such shape.
    """
    plain = _uncoloured(line)
    match = _LINE.fullmatch(plain, 34)
    if match is None:
        raise ValueError(line)
    return (
        plain[:27],
        plain[28:33].strip(),
        match["spans"] or b"",
        match["target"],
        match["message"],
    )
