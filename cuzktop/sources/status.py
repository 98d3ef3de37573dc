"""The daemon's `GET /status` (daemon.status_listen): a second opinion on the log.

`fetch` asks and `parse_status` reads one answer; `StatusPoller` is the thread that does both again
and again. Plain HTTP/1.1, one request a connection, one compact JSON object.
"""

from __future__ import annotations

import json
import math
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from cuzktop.dataclass import NamedTuple
from cuzktop.errors import UsageError
from cuzktop.events import (
    DaemonStatus,
    StatusJob,
    StatusNote,
    StatusPartition,
    StatusRead,
    StatusResident,
    StatusWorker,
)
from cuzktop.settings import READ_BLOCK_BYTES
from cuzktop.sources.sampler import Sampler, in_a_line
from cuzktop.sources.sink import EventSink

DEFAULT_PORT: Final = 9821
PATH: Final = "/status"
OK, NOT_FOUND = 200, 404
TIMEOUT_S = 2.0
PERIOD_S = 1.5  # what /status was made for
RETRY_S = 5.0  # after a failure
MAX_BYTES = 16 * 1024 * 1024  # failed jobs stay listed for ever, 100 bytes a partition
SMALLEST_WRAPPED = 1 << 63  # a 64-bit counter that went below zero reads beyond this
OUR_KEYS: Final = ("uptime_secs", "memory", "synthesis", "pipelines", "gpu_workers", "counters")
KINDS: Final = {"porep-c2": "porep", "snap-update": "snap"}


class StatusError(Exception):
    """`/status` gives nothing; the text says why and what to do, in one line."""


class Address(NamedTuple):
    """Where to ask."""

    host: str
    port: int
    path: str = PATH

    def __str__(self) -> str:
        """As a URL."""
        return f"http://{self.place}{self.path}"

    @property
    def place(self) -> str:
        """Host and port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


# ---------------------------------------------------------------- addresses


def parse_address(text: str) -> Address:
    """What `--status` names: a URL, `host:port`, a host, or a port.

    Raises UsageError if it is none of them.
    """
    hint = f"give it as http://127.0.0.1:{DEFAULT_PORT}{PATH}, or just host:port"
    if text.isascii() and text.isdigit():
        text = f"127.0.0.1:{text}"
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = parts = None
    if parts is None or not host or port == 0 or any(map(str.isspace, text)):
        message = f"{text!r} is no address of /status"
        raise UsageError(message, hint=hint)
    if parts.scheme != "http":
        message = f"{text!r} can't be asked: the daemon speaks plain http only"
        raise UsageError(message, hint=hint)
    path = parts.path if parts.path.startswith(PATH) else PATH
    return Address(host, DEFAULT_PORT if port is None else port, path)


def address_of(listen: str | None) -> Address | None:
    """Where a daemon on this machine answers that listens on `daemon.status_listen`.

    None where it is off (empty or not set) or no address.
    """
    if not listen:
        return None
    try:
        address = parse_address(listen)
    except UsageError:
        return None
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address.host, address.host)  # noqa: S104
    return address._replace(host=host, path=PATH)


# ---------------------------------------------------------------- one answer


def fetch(address: Address, clock: Callable[[], float], *, timeout_s: float = TIMEOUT_S) -> bytes:
    """The body of one answer, which may take `timeout_s` (twice that at the very worst).

    `clock` gives ms. Raises StatusError: refused, too slow, no HTTP, not found, too long.
    """
    from http import client  # noqa: PLC0415  # 25 ms, for those alone that have a /status

    due_ms = clock() + 1000.0 * timeout_s
    connection = client.HTTPConnection(address.host, address.port, timeout=timeout_s)
    try:
        connection.request("GET", address.path, headers={"Connection": "close"})
        body = bytearray()
        with connection.getresponse() as answer:  # has the socket for itself from here
            if answer.status != OK:
                raise StatusError(_refusal(address, answer.status))
            while block := answer.read1(READ_BLOCK_BYTES):
                body += block
                if len(body) > MAX_BYTES:
                    message = f"{address} gives more than {MAX_BYTES >> 20} MB: is that cuzk?"
                    raise StatusError(message)
                if clock() > due_ms:
                    raise TimeoutError
    except (OSError, client.HTTPException, ValueError) as error:
        raise StatusError(_why(address, error, timeout_s)) from None
    finally:
        connection.close()
    return bytes(body)


def _refusal(address: Address, status: int) -> str:
    if status == NOT_FOUND:
        return f"{address} is not found: is {address.place} the daemon's status_listen?"
    return f"{address} answers with HTTP status {status}"


def _why(address: Address, error: Exception, timeout_s: float) -> str:
    """The one line for a failed request."""
    match error:
        case ConnectionRefusedError():
            return f"nothing listens on {address.place}: set daemon.status_listen in its config"
        case ConnectionResetError() | BrokenPipeError():
            return f"{address.place} closes the connection without an answer"
        case TimeoutError():
            return f"{address} gave no answer within {timeout_s:g} s"
        case socket.gaierror():
            return f"no host {address.host}: see --status"
        case OSError():
            return f"{address} can't be reached: {error.strerror or error}"
        case _:
            return f"{address.place} speaks no HTTP: status_listen has a port of its own"


def parse_status(body: bytes) -> DaemonStatus:
    """One answer. A key that it lacks, or that can't be right, is None.

    Raises StatusError if it isn't the daemon's at all.
    """
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        what = "nothing" if not body.strip() else "no JSON object"
        message = f"/status answers with {what}: is that the daemon's status_listen?"
        raise StatusError(message)
    if not any(key in found for key in OUR_KEYS):
        message = "/status answers with JSON that isn't cuzk's"
        raise StatusError(message)
    memory, synthesis, counters, buffers, allocations = (
        _object(found, key) for key in ("memory", "synthesis", "counters", "buffers", "allocations")
    )
    used_bytes = _count(memory, "used_bytes")
    return DaemonStatus(
        uptime_ms=_ms(found, "uptime_secs"),
        memory_total_bytes=_count(memory, "total_bytes"),
        memory_used_bytes=used_bytes,
        memory_available_bytes=_count(memory, "available_bytes"),
        synthesis_active=_count(synthesis, "active"),
        synthesis_max=_count(synthesis, "max_concurrent"),
        jobs=_jobs(found),
        workers=_workers(found),
        srs=_srs(_residents(allocations, "srs"), used_bytes),
        pce=_residents(allocations, "pce"),
        completed=_count(counters, "total_completed"),
        failed=_count(counters, "total_failed"),
        queue_depth=_count(counters, "queue_depth"),
        synth_in_flight=_count(buffers, "synth_in_flight"),
        provers_in_flight=_count(buffers, "provers_in_flight"),
        pending_handles=_count(buffers, "pending_handles"),
    )


def _srs(
    listed: tuple[StatusResident, ...] | None, used_bytes: int | None
) -> tuple[StatusResident, ...] | None:
    """The list is empty while an SRS is being loaded: only an empty budget says there is none."""
    return listed if listed or used_bytes == 0 else None


def _jobs(found: Mapping[str, object]) -> tuple[StatusJob, ...] | None:
    """Oldest first: the daemon gives them in random order."""
    entries = _objects(found, "pipelines")
    if entries is None:
        return None
    jobs = []
    for entry in entries:
        partitions = [
            StatusPartition(
                partition=index,
                state=_string(one, "state"),
                synth_ms=_count(one, "synth_ms"),
                gpu_ms=_count(one, "gpu_ms"),
            )
            for one in _objects(entry, "partitions") or ()
            if (index := _count(one, "index")) is not None
        ]
        kind = _string(entry, "proof_kind")
        jobs.append(
            StatusJob(
                job=_string(entry, "job_id") or "",
                kind=None if kind is None else KINDS.get(kind, kind),
                age_ms=_ms(entry, "started_secs_ago"),
                total=_count(entry, "total_partitions"),
                done=_count(entry, "partitions_done"),
                partitions=tuple(sorted(partitions, key=lambda one: one.partition)),
            )
        )
    return tuple(sorted(jobs, key=lambda one: (-(one.age_ms or 0.0), one.job)))


def _workers(found: Mapping[str, object]) -> tuple[StatusWorker, ...] | None:
    entries = _objects(found, "gpu_workers")
    if entries is None:
        return None
    return tuple(
        StatusWorker(
            worker=_count(entry, "worker_id"),
            gpu=_count(entry, "gpu_ordinal"),
            state=_string(entry, "state"),
            job=_string(entry, "current_job"),
            partition=_count(entry, "current_partition"),
            busy_ms=_ms(entry, "busy_secs"),
        )
        for entry in entries
    )


def _residents(allocations: Mapping[str, object], name: str) -> tuple[StatusResident, ...] | None:
    entries = _objects(allocations, name)
    if entries is None:
        return None
    residents = []
    for entry in entries:
        evictable = entry.get("evictable")
        residents.append(
            StatusResident(
                circuit=_string(entry, "circuit_id") or "",
                bytes=_count(entry, "bytes"),
                idle_ms=_ms(entry, "last_used_secs_ago"),
                evictable=evictable if isinstance(evictable, bool) else None,
            )
        )
    return tuple(sorted(residents, key=lambda one: one.circuit))


# A JSON value of the type that is expected, or None.


def _object(found: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = found.get(key)
    return value if isinstance(value, dict) else {}


def _objects(found: Mapping[str, object], key: str) -> list[Mapping[str, object]] | None:
    value = found.get(key)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else None


def _string(found: Mapping[str, object], key: str) -> str | None:
    value = found.get(key)
    return value if isinstance(value, str) else None


def _count(found: Mapping[str, object], key: str) -> int | None:
    """A counter; one that went below zero and wrapped is unknown."""
    value = found.get(key)
    return value if type(value) is int and 0 <= value < SMALLEST_WRAPPED else None


def _ms(found: Mapping[str, object], key: str) -> float | None:
    """Seconds as milliseconds."""
    value = found.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        value_ms = 1000.0 * value
    except OverflowError:
        return None
    return value_ms if math.isfinite(value_ms) and value_ms >= 0 else None


def read_once(address: Address, clock: Callable[[], float]) -> StatusRead | StatusNote:
    """One answer, or why there is none; `clock` gives wall-clock ms."""
    try:
        return _ask(address, clock, TIMEOUT_S)
    except StatusError as error:
        return StatusNote(clock(), str(error))


def _ask(address: Address, clock: Callable[[], float], timeout_s: float) -> StatusRead:
    """One answer, and how long it took. Raises StatusError."""
    began_ms = clock()
    body = fetch(address, clock, timeout_s=timeout_s)
    now_ms = clock()
    return StatusRead(now_ms, parse_status(body), max(0.0, now_ms - began_ms))


# ---------------------------------------------------------------- thread


class StatusPoller(Sampler):
    """Puts a `StatusRead` on `events` every `period_s`, or a `StatusNote` that says why not."""

    def __init__(
        self,
        address: Address,
        events: EventSink,
        clock: Callable[[], float],
        stop: threading.Event,
        *,
        period_s: float = PERIOD_S,
        retry_s: float = RETRY_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Ask nothing yet."""
        super().__init__("daemon-status", events, clock, stop)
        self._address = address
        self._period_s = period_s
        self._retry_s = retry_s
        self._timeout_s = timeout_s
        self._noted = ""

    def _step(self) -> float:
        answer = _ask(self._address, self._clock, self._timeout_s)
        self._note("")
        self._events.put(answer)
        return self._period_s

    def _fail(self, error: Exception) -> float:
        expected = isinstance(error, StatusError)
        self._note(str(error) if expected else f"reading /status failed: {in_a_line(error)}")
        return self._retry_s

    def _note(self, text: str) -> None:
        if text != self._noted:
            self._noted = text
            self._events.put(StatusNote(self._clock(), text))
