"""A process that stands in for the daemon: plays a recorded log and answers `GET /status`.

    python tests/stand_in.py --config cuzk.toml LOG >> cuzk.log 2>&1

It writes as the daemon does: tracing lines to standard output and `CUZK_*` lines to standard error
with one write each, a TIMELINE line to standard error in nine. With `--tear` the next line of
another thread lands between two of those at times. `daemon.status_listen` of the config is where it
answers, with the documented keys, made of the lines that it has written. It stays when the log has
ended, until it is told to end.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import socket
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cuzktop.sources.beginning import STAMP, stamp_ms
from cuzktop.sources.line_clock import LineClock

OUT, ERR = 1, 2
ANSI = re.compile(rb"\x1b\[[0-9;]*m")
ASSEMBLED = re.compile(rb"proof assembled.* job_id=(\S+)")
WORKER = re.compile(rb"GPU worker started.* worker_id=(\d+).* gpu(?:_ordinal)?=(\d+)")
TORN_EVERY = 40  # TIMELINE lines; one in twenty was seen at full speed
LISTED_S = 30.0  # a finished job stays in /status for so long
NEXT_STATE = {
    "SYNTH_START": "synthesizing",
    "SYNTH_END": "synth_done",
    "GPU_PICKUP": "gpu",
    "GPU_END": "done",
}


class Told:
    """What the lines so far say, as `/status` has it. Its own reading, not cuzktop's."""

    def __init__(self, history_s: float = 0.0) -> None:
        self._began = time.monotonic() - history_s
        self._lock = threading.Lock()
        self._jobs: dict[str, dict[int, str]] = {}
        self._since: dict[str, float] = {}
        self._ended: dict[str, float] = {}
        self._workers: dict[int, tuple[str, int] | None] = {}
        self._gpus: dict[int, int] = {}
        self._completed = 0

    def hear(self, line: bytes) -> None:
        """Take note of a line that was written."""
        with self._lock:
            if line.startswith(b"TIMELINE,"):
                self._step(line.decode("utf-8", "replace").split(",", 4))
            elif (found := ASSEMBLED.search(ANSI.sub(b"", line))) is not None:
                self._completed += 1
                self._ended.setdefault(found[1].decode(), time.monotonic())
            elif (found := WORKER.search(ANSI.sub(b"", line))) is not None:
                self._workers.setdefault(int(found[1]))
                self._gpus[int(found[1])] = int(found[2])

    def _step(self, words: list[str]) -> None:
        if len(words) < 5:  # the recorded daemon's line was torn
            return
        _, _, event, job, detail = words
        pairs = dict(item.split("=", 1) for item in detail.split(",") if "=" in item)
        state = NEXT_STATE.get(event)
        if state is None or not pairs.get("partition", "").isdigit():
            return
        partition = int(pairs["partition"])
        if job in self._ended and event == "SYNTH_START":  # its id comes again
            del self._ended[job], self._jobs[job]
        self._since.setdefault(job, time.monotonic())
        self._jobs.setdefault(job, {})[partition] = state
        if pairs.get("worker", "").isdigit():
            worker = int(pairs["worker"])
            if event == "GPU_PICKUP":
                self._workers[worker] = (job, partition)
            elif self._workers.get(worker) == (job, partition) and event == "GPU_END":
                self._workers[worker] = None

    def answer(self) -> bytes:
        """One compact JSON object; jobs come in no order."""
        with self._lock:
            now = time.monotonic()
            for job in [job for job, at in self._ended.items() if now - at > LISTED_S]:
                del self._ended[job], self._jobs[job]
            jobs = [self._pipeline(job, now) for job in self._jobs]
            random.shuffle(jobs)
            states = [state for job in self._jobs.values() for state in job.values()]
            flying = states.count("synthesizing")
            document = {
                "uptime_secs": now - self._began,
                "memory": {
                    "total_bytes": 400 << 30,
                    "used_bytes": 14 * flying << 30,
                    "available_bytes": (400 - 14 * flying) << 30,
                },
                "synthesis": {"max_concurrent": 44, "active": flying},
                "pipelines": jobs,
                "gpu_workers": [self._worker(number) for number in sorted(self._workers)],
                "allocations": {
                    "srs": [
                        {
                            "circuit_id": "porep-32g",
                            "bytes": 48_000_000_000,
                            "last_used_secs_ago": 0.0,
                            "evictable": False,
                        }
                    ],
                    "pce": [],
                },
                "counters": {
                    "total_completed": self._completed,
                    "total_failed": 0,
                    "completed_by_kind": {"porep-c2": self._completed},
                    "failed_by_kind": {},
                    "queue_depth": 0,
                },
                "buffers": {
                    "synth_in_flight": flying,
                    "provers_in_flight": len(states) - states.count("done"),
                    "aux_in_flight": 131,
                    "shells_in_flight": 120,
                    "pending_handles": 0,
                },
            }
        return json.dumps(document, separators=(",", ":")).encode()

    def _pipeline(self, job: str, now: float) -> dict[str, object]:
        states = self._jobs[job]
        total = max(10, len(states))
        return {
            "job_id": job,
            "proof_kind": "porep-c2",
            "started_secs_ago": now - self._since[job],
            "total_partitions": total,
            "partitions_done": list(states.values()).count("done"),
            "partitions": [
                {"index": n, "state": states.get(n, "pending"), "synth_ms": None, "gpu_ms": None}
                for n in range(total)
            ],
        }

    def _worker(self, number: int) -> dict[str, object]:
        work = self._workers[number]
        return {
            "worker_id": number,
            "gpu_ordinal": self._gpus.get(number, 0),
            "state": "idle" if work is None else "proving",
            "current_job": None if work is None else work[0],
            "current_partition": None if work is None else work[1],
            "busy_secs": None if work is None else 0.5,
        }


def serve(listen: str, told: Told) -> None:
    """Answer one request a connection, looking at its first bytes alone; never returns."""
    host, _, port = listen.rpartition(":")
    with socket.create_server((host, int(port))) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                if connection.recv(4096).startswith(b"GET /status"):
                    status, body = b"200 OK", told.answer()
                else:
                    status, body = b"404 Not Found", b"not found"
                head = b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
                connection.sendall(head % (status, len(body)) + body)


# ---------------------------------------------------------------- the log


def pieces(line: bytes) -> list[bytes]:
    """The writes that print a TIMELINE line, its line break the last of them."""
    words = line.rstrip(b"\n").split(b",", 4)
    parts = [b"TIMELINE,", words[1]]
    for word in words[2:]:
        parts += [b",", word]
    return [part for part in parts if part] + [b"\n"]


def writes(lines: list[bytes], *, tear: bool) -> Iterator[tuple[int, list[tuple[int, bytes]]]]:
    """How many lines, and the writes (descriptor, bytes) that print them."""
    dice = random.Random(1)
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line.startswith(b"TIMELINE,") or line.count(b",") < 4:
            yield 1, [(ERR if line.startswith(b"CUZK_") else OUT, line)]
            continue
        parts = [(ERR, part) for part in pieces(line)]
        other = lines[at] if at < len(lines) else b"TIMELINE,"
        if tear and dice.randrange(TORN_EVERY) == 0 and not other.startswith(b"TIMELINE,"):
            cut = dice.randrange(1, len(parts))
            parts.insert(cut, (ERR if other.startswith(b"CUZK_") else OUT, other))
            at += 1
            yield 2, parts
        else:
            yield 1, parts


def dated(lines: list[bytes], first_ms: float) -> list[bytes]:
    """The lines as if the first time stamp among them were `first_ms`."""
    stamps = (STAMP.search(line) for line in lines)
    shift_ms = first_ms - next(stamp_ms(stamp[0]) for stamp in stamps if stamp)

    def moved(stamp: re.Match[bytes]) -> bytes:
        at = datetime.fromtimestamp((stamp_ms(stamp[0]) + shift_ms) / 1000.0, UTC)
        return at.strftime("%Y-%m-%dT%H:%M:%S.%f").encode()

    return [STAMP.sub(moved, line) for line in lines]


def play(lines: list[bytes], told: Told, *, speed: float, history_s: float, tear: bool) -> None:
    """Write the log, its first `history_s` seconds at once; `speed` 0 is as fast as it goes."""
    clock = LineClock()
    times = [(clock.read(line) or 0) / 1e6 for line in lines]
    zero = next((at for at in times if at), 0.0) + history_s
    began = time.monotonic()
    done = 0
    for count, parts in writes(lines, tear=tear):
        if speed and times[done] > zero:
            time.sleep(max(0.0, (times[done] - zero) / speed - (time.monotonic() - began)))
        for descriptor, part in parts:
            os.write(descriptor, part)
        for line in lines[done : done + count]:
            told.hear(line)
        done += count


def main() -> None:
    """Play, and stay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--name", default="cuzk", help="what the process is called")
    parser.add_argument("--speed", type=float, default=1.0, help="0 is as fast as it goes")
    parser.add_argument("--history", type=float, default=0.0, help="seconds that come at once")
    parser.add_argument("--now", action="store_true", help="with time stamps of now")
    parser.add_argument("--tear", action="store_true", help="tear TIMELINE lines at times")
    parser.add_argument("log", type=Path)
    options = parser.parse_args()
    Path("/proc/self/comm").write_text(options.name)
    told = Told(options.history)
    listen = tomllib.loads(options.config.read_text())["daemon"].get("status_listen", "")
    if listen:
        threading.Thread(target=serve, args=(listen, told), daemon=True).start()
    raw = options.log.read_bytes()
    text = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
    lines = text.splitlines(keepends=True)
    if options.now:
        lines = dated(lines, 1000.0 * (time.time() - options.history))
    play(lines, told, speed=options.speed, history_s=options.history, tear=options.tear)
    threading.Event().wait()


if __name__ == "__main__":
    main()
