"""What `GET /status` says, what it is known to get wrong, and a daemon that doesn't answer."""

from __future__ import annotations

import json
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzktop.analysis import second_opinion
from cuzktop.analysis.second_opinion import LogPicture, disagreements
from cuzktop.errors import UsageError
from cuzktop.events import (
    DaemonStatus,
    Event,
    StatusJob,
    StatusNote,
    StatusPartition,
    StatusRead,
    StatusResident,
    StatusWorker,
)
from cuzktop.sources import status as source
from cuzktop.sources.status import (
    Address,
    StatusError,
    StatusPoller,
    address_of,
    fetch,
    parse_address,
    parse_status,
)

DOCUMENTED = """{"uptime_secs":1234.5,
 "memory":{"total_bytes":808907014144,"used_bytes":210453397504,"available_bytes":598453616640},
 "synthesis":{"max_concurrent":83,"active":7},
 "pipelines":[{"job_id":"porep-1000-42","proof_kind":"porep-c2","started_secs_ago":41.2,
   "total_partitions":10,"partitions_done":2,
   "partitions":[{"index":0,"state":"done","synth_ms":33120,"gpu_ms":4120},
    {"index":3,"state":"gpu","synth_ms":33540,"gpu_ms":1840},
    {"index":9,"state":"pending","synth_ms":null,"gpu_ms":null}]}],
 "gpu_workers":[{"worker_id":0,"gpu_ordinal":0,"state":"proving","current_job":"porep-1000-42",
   "current_partition":3,"busy_secs":1.84},
  {"worker_id":1,"gpu_ordinal":0,"state":"idle","current_job":null,"current_partition":null,
   "busy_secs":null}],
 "allocations":{"srs":[{"circuit_id":"porep-32g","bytes":48000000000,"last_used_secs_ago":0.0,
   "evictable":false}],"pce":[]},
 "counters":{"total_completed":12,"total_failed":0,"completed_by_kind":{"porep-c2":12},
   "failed_by_kind":{},"queue_depth":0},
 "buffers":{"synth_in_flight":7,"provers_in_flight":8,"aux_in_flight":131,"shells_in_flight":120,
   "pending_handles":1}}"""
STATUS = DaemonStatus(
    uptime_ms=1_234_500.0,
    memory_total_bytes=808907014144,
    memory_used_bytes=210453397504,
    memory_available_bytes=598453616640,
    synthesis_active=7,
    synthesis_max=83,
    jobs=(
        StatusJob(
            job="porep-1000-42",
            kind="porep",
            age_ms=41_200.0,
            total=10,
            done=2,
            partitions=(
                StatusPartition(0, "done", 33120, 4120),
                StatusPartition(3, "gpu", 33540, 1840),
                StatusPartition(9, "pending", None, None),
            ),
        ),
    ),
    workers=(
        StatusWorker(0, 0, "proving", "porep-1000-42", 3, 1840.0),
        StatusWorker(1, 0, "idle", None, None, None),
    ),
    srs=(StatusResident("porep-32g", 48000000000, 0.0, evictable=False),),
    pce=(),
    completed=12,
    failed=0,
    queue_depth=0,
    synth_in_flight=7,
    provers_in_flight=8,
    pending_handles=1,
)


def changed(**parts: object) -> bytes:
    """The documented answer with some of its parts replaced."""
    return json.dumps(json.loads(DOCUMENTED) | parts).encode()


# ---------------------------------------------------------------- one answer


def test_the_documented_answer() -> None:
    assert parse_status(DOCUMENTED.encode()) == STATUS


def test_jobs_and_partitions_come_in_one_order_whatever_the_answers() -> None:
    jobs = [
        {
            "job_id": job,
            "started_secs_ago": age,
            "partitions": [{"index": index, "state": "gpu"} for index in indexes],
        }
        for job, age, indexes in (("b", 5.0, (2, 0, 1)), ("a", 5.0, ()), ("c", 90.0, (1, 0)))
    ]
    one = parse_status(changed(pipelines=jobs))
    assert parse_status(changed(pipelines=jobs[::-1])) == one
    assert one.jobs is not None
    assert [job.job for job in one.jobs] == ["c", "a", "b"]
    assert [part.partition for part in one.jobs[2].partitions] == [0, 1, 2]


@pytest.mark.parametrize("wrapped", [2**64 - 1, 2**64 - 40, 2**63, -1, 1.5, True, "7", None])
def test_a_counter_below_zero_is_unknown_not_huge(wrapped: object) -> None:
    status = parse_status(changed(buffers={"synth_in_flight": wrapped, "provers_in_flight": 3}))
    assert (status.synth_in_flight, status.provers_in_flight) == (None, 3)
    assert status.pending_handles is None


@pytest.mark.parametrize(
    ("used_bytes", "srs"), [(5, None), (0, ()), (None, None)], ids=["loading", "none", "untold"]
)
def test_an_empty_srs_list_is_unknown_unless_no_memory_is_used(
    used_bytes: int | None, srs: tuple[()] | None
) -> None:
    body = changed(allocations={"srs": [], "pce": []}, memory={"used_bytes": used_bytes})
    assert parse_status(body).srs == srs


@pytest.mark.parametrize("key", list(json.loads(DOCUMENTED)))
@pytest.mark.parametrize("value", [None, 5, "x", [], {}, [1, None, "x", []], [{}]])
def test_a_part_of_another_type_takes_only_itself_away(key: str, value: object) -> None:
    status = parse_status(changed(**{key: value}))
    known = STATUS if key != "uptime_secs" else STATUS._replace(uptime_ms=status.uptime_ms)
    differing = {
        name for name, now, then in zip(status._fields, status, known, strict=True) if now != then
    }
    parts = {
        "memory": {"memory_total_bytes", "memory_used_bytes", "memory_available_bytes"},
        "synthesis": {"synthesis_active", "synthesis_max"},
        "pipelines": {"jobs"},
        "gpu_workers": {"workers"},
        "allocations": {"srs", "pce"},
        "counters": {"completed", "failed", "queue_depth"},
        "buffers": {"synth_in_flight", "provers_in_flight", "pending_handles"},
        "uptime_secs": set(),
    }
    assert differing <= parts[key]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "nothing"),
        (b"<html>not found</html>", "no JSON object"),
        (b"[1, 2]", "no JSON object"),
        (DOCUMENTED[:300].encode(), "no JSON object"),
        (b"\xff\xfe\x00", "no JSON object"),
        (b'{"a":' + b"[" * 100_000, "no JSON object"),
        (b'{"a":' + b"9" * 10_000 + b"}", "no JSON object"),
        (b"{}", "isn't cuzk's"),
        (b'{"status":"success","data":{}}', "isn't cuzk's"),
    ],
)
def test_another_programs_answer_is_said_to_be_one(body: bytes, words: str) -> None:
    with pytest.raises(StatusError, match=words) as raised:
        parse_status(body)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-1", "1e400", '"5"', "true", "9" * 400])
def test_an_uptime_that_cannot_be_is_unknown(value: str) -> None:
    body = DOCUMENTED.replace("1234.5", value).encode()
    assert parse_status(body) == STATUS._replace(uptime_ms=None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["index", "state", "srs", "partitions", "total_bytes", "bytes", "job_id"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(source.OUR_KEYS), JSON, min_size=1))
def test_any_json_gives_a_status(found: dict[str, object]) -> None:
    assert isinstance(parse_status(json.dumps(found).encode()), DaemonStatus)


# ---------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("9821", "http://127.0.0.1:9821/status"),
        ("box:9900", "http://box:9900/status"),
        ("box", "http://box:9821/status"),
        ("http://box:9900", "http://box:9900/status"),
        ("http://box:9900/status", "http://box:9900/status"),
        ("http://box:9900/status/", "http://box:9900/status/"),
        ("http://box:9900/other", "http://box:9900/status"),
        ("[::1]:9821", "http://[::1]:9821/status"),
    ],
)
def test_an_address_may_be_short(text: str, url: str) -> None:
    assert str(parse_address(text)) == url


@pytest.mark.parametrize("text", ["", "http://", "box:port", "box:0", "box:70000", "a b", "[::1"])
def test_what_is_no_address_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="no address of /status"):
        parse_address(text)


@pytest.mark.parametrize("text", ["https://box:9821", "unix:///run/cuzk.sock"])
def test_only_plain_http_is_spoken(text: str) -> None:
    with pytest.raises(UsageError):
        parse_address(text)


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("0.0.0.0:9821", "http://127.0.0.1:9821/status"),
        ("[::]:9821", "http://[::1]:9821/status"),
        ("127.0.0.1:9000", "http://127.0.0.1:9000/status"),
        ("10.0.0.7:9821", "http://10.0.0.7:9821/status"),
    ],
)
def test_a_listening_daemon_is_asked_at(listen: str, url: str) -> None:
    assert str(address_of(listen)) == url


@pytest.mark.parametrize("listen", ["", None, "nonsense:port"])
def test_a_daemon_without_status_is_not_asked(listen: str | None) -> None:
    assert address_of(listen) is None


# ---------------------------------------------------------------- over the network


class Server:
    """Answers each connection with the next of `answers`; the last one stays."""

    def __init__(self) -> None:
        self.answers: list[bytes | None] = []
        self.requests: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._socket.getsockname()[1])
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.requests.append(connection.recv(4096))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if answer is None:  # never: until the other gives up
                    connection.recv(1)
                else:
                    connection.sendall(answer)

    def close(self) -> None:
        if self._closing.is_set():
            return
        self._closing.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(timeout=20)


def ok(body: bytes | str, status: str = "200 OK") -> bytes:
    body = body.encode() if isinstance(body, str) else body
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


def clock() -> float:
    return time.monotonic() * 1000.0


def test_one_request_is_all_that_the_daemon_looks_at(server: Server) -> None:
    server.answers = [ok(DOCUMENTED)]
    assert parse_status(fetch(server.address, clock)) == STATUS
    [request] = server.requests
    assert request.startswith(b"GET /status HTTP/1.1\r\n")
    assert b"Connection: close" in request
    assert request.endswith(b"\r\n\r\n")


def test_an_answer_without_a_length_ends_with_the_connection(server: Server) -> None:
    server.answers = [b"HTTP/1.1 200 OK\r\n\r\n" + DOCUMENTED.encode()]
    assert parse_status(fetch(server.address, clock)) == STATUS


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(ok("nope", "404 Not Found"), "is not found: is", id="404"),
        pytest.param(ok("", "500 Oops"), "HTTP status 500", id="500"),
        pytest.param(b"\x00\x00\x12\x04\x00\r\n\r\n", "speaks no HTTP", id="grpc"),
        pytest.param(b"", "without an answer", id="closed"),
        pytest.param(None, "no answer within 0.2 s", id="slow"),
    ],
)
def test_why_there_is_no_answer(server: Server, answer: bytes | None, words: str) -> None:
    server.answers = [answer]
    with pytest.raises(StatusError) as raised:
        fetch(server.address, clock, timeout_s=0.2)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_answer_that_drips_is_too_slow(server: Server) -> None:
    now = iter([0.0, 5000.0, 5000.0])
    server.answers = [ok(DOCUMENTED)]
    with pytest.raises(StatusError, match="no answer within"):
        fetch(server.address, lambda: next(now))


def test_an_answer_without_end_is_cut(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_BYTES", 100)
    server.answers = [ok(DOCUMENTED)]
    with pytest.raises(StatusError, match="is that cuzk"):
        fetch(server.address, clock)


def test_a_refused_connection_names_the_setting(server: Server) -> None:
    server.close()
    with pytest.raises(StatusError, match=r"nothing listens on 127\.0\.0\.1:\d+: set daemon"):
        fetch(server.address, clock)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (socket.gaierror(-2, "unknown"), "no host box"),
        (OSError(113, "No route to host"), "can't be reached: No route to host"),
    ],
)
def test_a_host_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, error: OSError, words: str
) -> None:
    def refuse(*_arguments: Any, **_named: Any) -> None:  # noqa: ANN401
        raise error

    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(StatusError, match=words):
        fetch(Address("box", 9821), clock)


# ---------------------------------------------------------------- the thread

Poll = Callable[[Server], "queue.SimpleQueue[Event]"]


@pytest.fixture
def poll() -> Iterator[Poll]:
    stop = threading.Event()
    threads: list[StatusPoller] = []

    def start(server: Server) -> queue.SimpleQueue[Event]:
        events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        thread = StatusPoller(
            server.address, events, clock, stop, period_s=0.01, retry_s=0.01, timeout_s=0.2
        )
        threads.append(thread)
        thread.start()
        return events

    yield start
    stop.set()
    for thread in threads:
        thread.join(timeout=20)
        assert not thread.is_alive()


def test_answers_come_again_and_again_with_what_they_took(server: Server, poll: Poll) -> None:
    server.answers = [ok(DOCUMENTED)]
    events = poll(server)
    for _ in range(3):
        event = events.get(timeout=20)
        assert isinstance(event, StatusRead)
        assert event.status == STATUS
        assert 0.0 <= event.took_ms < 20_000.0


def test_a_failure_is_noted_once_and_taken_back(server: Server, poll: Poll) -> None:
    bad, good = ok("", "500 Oops"), ok(DOCUMENTED)
    server.answers = [good, bad, bad, None, ok("junk"), good]
    events = poll(server)
    seen = [events.get(timeout=20) for _ in range(6)]
    texts = [event.text if isinstance(event, StatusNote) else None for event in seen]
    assert texts[0] is None
    assert texts[4:] == ["", None]
    failed, slow, junk = texts[1:4]
    assert "HTTP status 500" in str(failed)
    assert "no answer within" in str(slow)
    assert "no JSON object" in str(junk)


def test_a_fault_of_our_own_is_noted_too(
    server: Server, poll: Poll, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_body: bytes) -> DaemonStatus:
        raise ZeroDivisionError

    monkeypatch.setattr(source, "parse_status", broken)
    server.answers = [ok(DOCUMENTED)]
    note = poll(server).get(timeout=20)
    assert isinstance(note, StatusNote)
    assert "ZeroDivisionError" in note.text


# ---------------------------------------------------------------- against the log

JOB = "porep-1000-42"
LOG = LogPicture(run_age_ms=1_234_000.0, completed=12, brackets={(JOB, 3): 30_000.0})


def state_of_3(state: str, gpu_ms: int | None = 1840) -> DaemonStatus:
    [job] = STATUS.jobs or ()
    return STATUS._replace(
        jobs=(job._replace(partitions=(StatusPartition(3, state, 33540, gpu_ms),)),)
    )


@pytest.mark.parametrize(
    ("status", "log"),
    [
        pytest.param(STATUS, LOG, id="both-the-same"),
        pytest.param(DaemonStatus(), LOG, id="an-empty-answer"),
        pytest.param(STATUS, LogPicture(), id="a-log-that-tells-nothing"),
        pytest.param(
            STATUS._replace(synthesis_active=999, synthesis_max=2), LOG, id="drifted-syntheses"
        ),
        pytest.param(STATUS._replace(workers=()), LOG, id="workers-on-a-post"),
        pytest.param(STATUS, LOG._replace(completed=11), id="one-proof-just-came"),
        pytest.param(STATUS, LOG._replace(completed=15), id="batches-count-in-the-log-alone"),
        pytest.param(STATUS, LOG._replace(completed=None), id="a-log-from-the-middle"),
        pytest.param(
            state_of_3("synthesizing"), LOG._replace(brackets={(JOB, 3): 2000.0}), id="only-late"
        ),
        pytest.param(STATUS, LOG._replace(brackets={(JOB, 7): 30_000.0}), id="partition-unlisted"),
        pytest.param(state_of_3("gpu", 90_000), LOG, id="start-call-failed"),
        pytest.param(
            state_of_3("gpu", 5000),
            LOG._replace(brackets={}, done=frozenset({(JOB, 3)})),
            id="waits-for-its-finalizer",
        ),
        pytest.param(
            STATUS._replace(uptime_ms=30 * 86_400_000.0),
            LOG._replace(run_age_ms=30 * 86_400_000.0 + 60_000.0),
            id="clock-set-in-a-month",
        ),
    ],
)
def test_what_is_known_to_differ_is_no_disagreement(status: DaemonStatus, log: LogPicture) -> None:
    assert disagreements(status, log) == []


@pytest.mark.parametrize(
    ("status", "log", "words"),
    [
        pytest.param(
            STATUS._replace(uptime_ms=60_000.0),
            LOG,
            "was started 60s ago by /status, the log's newest run is 20m34 old",
            id="restarted-elsewhere",
        ),
        pytest.param(
            STATUS, LOG._replace(run_age_ms=60_000.0), "they are two daemons", id="two-daemons"
        ),
        pytest.param(
            state_of_3("synthesizing"), LOG, "in its bracket for 30s by the log, synth", id="state"
        ),
        pytest.param(state_of_3("done"), LOG, "may have lost its end", id="end-lost"),
        pytest.param(STATUS._replace(jobs=()), LOG, "doesn't know the job", id="job-unknown"),
        pytest.param(
            state_of_3("gpu", 75_000),
            LOG._replace(brackets={}, done=frozenset({(JOB, 3)})),
            "finalizer may be stuck",
            id="finalizer",
        ),
        pytest.param(
            STATUS, LOG._replace(completed=9), "12 proofs, the log 9: lines", id="lines-missing"
        ),
    ],
)
def test_what_cannot_both_be_right_is_said(
    status: DaemonStatus, log: LogPicture, words: str
) -> None:
    [text] = disagreements(status, log)
    assert words in text


def test_another_life_of_the_daemon_leaves_nothing_else_to_compare() -> None:
    status = state_of_3("done")._replace(uptime_ms=1000.0, completed=99)
    assert len(disagreements(status, LOG)) == 1


def test_many_disagreements_are_cut() -> None:
    brackets = {(f"job-{number}", 0): 30_000.0 for number in range(50)}
    found = disagreements(STATUS, LOG._replace(brackets=brackets))
    assert len(found) == second_opinion.MAX_DISAGREEMENTS
