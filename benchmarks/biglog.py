"""Makes daemon logs of any size, and one that grows as if a daemon were writing it.

    python benchmarks/biglog.py 1G                     the path of a log of 1 GB, made if need be
    python benchmarks/biglog.py 100M --gpus 4
    python benchmarks/biglog.py --grow FILE --gpus 4   history up to now, then line by line

A run of 200 proofs is simulated once (tests/logsim.py: newest generation, two workers a GPU, ANSI
colours, one TIMELINE line in 2000 torn). A large log is that run again and again: start-up lines
once, then the jobs, with TIMELINE offsets and time stamps moved on and with job ids of their own,
so that it reads as one run of the daemon, of which every line can be given its owner. At 4.3 s a
partition and GPU a gigabyte is a week of one GPU.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

CACHE = Path("/tmp/cuzktop-bench")  # noqa: S108 - only logs lie there, and an option moves it
LOGSIM = Path(__file__).resolve().parents[1] / "tests" / "logsim.py"
UNITS = {"K": 10**3, "M": 10**6, "G": 10**9}

FORMAT = 1  # another number makes all logs anew

COMMON = (
    "--version=45 --workers=2 --jobs=200 --ansi --cuts=0 --torn=0.0012 --sync=0.3"
    " --batch=500 --tail=450 --prep=2400 --prep-cv=0.4 --b-g2=1700"
)
KNOBS = {  # by GPUs: about 8 and 30 lines a second, some barrier, some starvation
    1: f"{COMMON} --gpus=1 --seed=7 --concurrency=3 --ntt=3100 --synth=30000 --slots=7",
    4: f"{COMMON} --gpus=4 --seed=9 --concurrency=8 --ntt=3600 --synth=33000 --slots=27",
}

UUID = rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
STAMP = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?=\.\d{6}Z)"
# What changes from one repetition to the next. An offset stands at a line's start where its line
# was torn right before it.
MOVING = re.compile(rb"((?<=TIMELINE,)\d+|(?<=\n)\d+(?=,[A-Z_]+,)|" + STAMP + rb"|" + UUID + rb")")
STAMP_AT_ALL = re.compile(rb"(" + STAMP + rb")\.(\d{6})Z")
OFFSET = re.compile(rb"TIMELINE,(\d+),")
ONCE = (b"loading SRS from disk", b"SRS loaded successfully")  # parameters are loaded once a run
ZERO = b"starting cuzk engine"  # TIMELINE counts from this line's time stamp
FIRST_JOB = b" Prove "


def seconds_of(stamp: bytes) -> int:
    """Seconds since 1970 of a time stamp without its fraction."""
    moment = datetime.fromisoformat(stamp.decode("ascii")).replace(tzinfo=UTC)
    return int(moment.timestamp())


class Base:
    """The simulated run, ready to be repeated."""

    def __init__(self, log: bytes) -> None:
        lines = log.splitlines(keepends=True)
        first = next(i for i, line in enumerate(lines) if FIRST_JOB in line)
        self.zero_s = 0.0
        times = self._times(lines)
        self._times_first = times
        again = [i for i in range(first, len(lines)) if not any(w in lines[i] for w in ONCE)]
        self._times_again = [times[i] for i in again]
        self.period_s = math.ceil((times[-1] - times[first]) / 1000 + 0.5)
        self._first = MOVING.split(log)
        self._again = MOVING.split(b"".join(lines[i] for i in again))
        self._seconds = {
            token: seconds_of(token)
            for token in set(self._first[1::2])
            if len(token) == 19 and token[10:11] == b"T"
        }
        jobs = sorted(token for token in set(self._first[1::2]) if len(token) == 36)
        self._jobs = {job: index for index, job in enumerate(jobs)}

    def _times(self, lines: list[bytes]) -> list[float]:
        """Each line's time in ms since TIMELINE's zero; it never falls."""
        zero = next(line for line in lines if ZERO in line)
        stamp = STAMP_AT_ALL.search(zero)
        assert stamp is not None  # noqa: S101 - the simulator prints one
        self.zero_s = seconds_of(stamp[1]) + int(stamp[2]) / 1e6
        seconds: dict[bytes, int] = {}
        times, now = [], -1000.0
        for line in lines:
            stamp = STAMP_AT_ALL.search(line)
            offset = None if stamp else OFFSET.match(line)
            if stamp is not None:
                if stamp[1] not in seconds:
                    seconds[stamp[1]] = seconds_of(stamp[1])
                at = (seconds[stamp[1]] - self.zero_s) * 1000 + int(stamp[2]) / 1e3
                now = max(now, at)
            elif offset is not None:
                now = max(now, float(offset[1]))
            times.append(now)
        return times

    def render(self, index: int, shift_s: int = 0) -> bytes:
        """Repetition `index`; `shift_s` moves its time stamps, and so the run's start."""
        pieces = list(self._first if index == 0 else self._again)
        on_s = index * self.period_s
        moved: dict[bytes, bytes] = {}
        for token in set(pieces[1::2]):
            if token in self._jobs:
                number = self._jobs[token] + index * len(self._jobs)
                moved[token] = b"%08x" % number + token[8:]
            elif token in self._seconds:
                at = time.gmtime(self._seconds[token] + on_s + shift_s)
                moved[token] = time.strftime("%Y-%m-%dT%H:%M:%S", at).encode()
            else:
                moved[token] = b"%d" % (int(token) + on_s * 1000)
        pieces[1::2] = [moved[token] for token in pieces[1::2]]
        return b"".join(pieces)

    def lines(self, shift_s: int = 0) -> Iterator[tuple[float, bytes]]:
        """Every line for ever, each with its time in ms since TIMELINE's zero."""
        index = 0
        while True:
            times = self._times_again if index else self._times_first
            on_ms = index * self.period_s * 1000.0
            lines = self.render(index, shift_s).splitlines(keepends=True)
            for at_ms, line in zip(times, lines, strict=True):
                yield at_ms + on_ms, line
            index += 1


def base(gpus: int, cache: Path) -> Base:
    """The simulated run with so many GPUs, from the cache or made now."""
    folder = cache / f"sim-{gpus}x2-{_fingerprint(gpus)}"
    log = folder / "daemon.log"
    if not log.exists():
        cache.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, str(LOGSIM), str(folder), *KNOBS[gpus].split()]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return Base(log.read_bytes())


def _fingerprint(gpus: int) -> str:
    """Changes with what would change the log."""
    text = LOGSIM.read_bytes() + f"{KNOBS[gpus]} {FORMAT}".encode()
    return hashlib.sha256(text).hexdigest()[:8]


def size_of(text: str) -> int:
    """Bytes from 100M, 1G, 5000."""
    unit = UNITS.get(text[-1:].upper())
    return int(text) if unit is None else int(float(text[:-1]) * unit)


def make(size: int, gpus: int = 1, cache: Path = CACHE) -> Path:
    """A log of at most `size` bytes that ends with a line's end; its path."""
    path = cache / f"{gpus}x2-{size}-{_fingerprint(gpus)}.log"
    if path.exists():
        return path
    run = base(gpus, cache)
    for older in cache.glob(f"{gpus}x2-{size}-*.log"):
        older.unlink()
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        left, index = size, 0
        while left > 0:
            block = run.render(index)
            if len(block) > left:
                block = block[: block.rfind(b"\n", 0, left) + 1]
                left = 0
            file.write(block)
            left -= len(block)
            index += 1
    yesterday = time.time() - 86_400  # nobody writes it: a snapshot needn't ask for GPU readings
    os.utime(partial, (yesterday, yesterday))
    partial.rename(path)
    return path


def cut_end(log: Path, size: int) -> Path:
    """The last `size` bytes of `log`, from a line's start, as a file beside it; its path."""
    path = log.with_name(f"{log.stem}-end{size}.log")
    if not path.exists():
        with log.open("rb") as file:
            file.seek(-min(size, log.stat().st_size), os.SEEK_END)
            text = file.read()
        path.write_bytes(text[text.find(b"\n") + 1 :])
        os.utime(path, (log.stat().st_mtime,) * 2)
    return path


def grow(path: Path, run: Base, history_s: float, seconds: float) -> None:
    """Write `history_s` of log up to now at once, then for `seconds` each line at its time.

    The run begins at a whole second of difference from the simulated one, so its start is known
    to the microsecond.
    """
    shift_s = int(time.time() - history_s - run.zero_s)
    zero_s = run.zero_s + shift_s
    until = time.time() + seconds
    with path.open("wb", buffering=1 << 20) as file:
        filled = False
        for at_ms, line in run.lines(shift_s):
            due = zero_s + at_ms / 1000.0
            left = due - time.time()
            if left > 0:
                if not filled:
                    filled = True
                    file.flush()
                    print(f"filled {path}", flush=True)
                if due > until:
                    return
                time.sleep(left)
            file.write(line)
            if filled:
                file.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description="Daemon logs to measure with.")
    parser.add_argument("size", nargs="?", type=size_of, help="bytes: 10M, 1G")
    parser.add_argument("--gpus", type=int, choices=sorted(KNOBS), default=1)
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"where they are kept ({CACHE})")
    parser.add_argument("--end", type=size_of, help="also cut its last so many bytes")
    parser.add_argument("--grow", type=Path, metavar="FILE", help="write FILE, at its own pace")
    parser.add_argument("--history", type=float, default=900.0, help="seconds of log before now")
    parser.add_argument("--seconds", type=float, default=1e9, help="end after so many")
    options = parser.parse_args()
    if options.grow is not None:
        run = base(options.gpus, options.cache)
        grow(options.grow, run, options.history, options.seconds)
        return 0
    if options.size is None:
        parser.error("name a size, or --grow FILE")
    log = make(options.size, options.gpus, options.cache)
    print(log)
    if options.end is not None:
        print(cut_end(log, options.end))
    return 0


if __name__ == "__main__":
    sys.exit(main())
