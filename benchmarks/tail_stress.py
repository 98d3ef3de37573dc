"""Tail a log through rotations, truncations and restarts at full speed, and account for each line.

    python benchmarks/tail_stress.py [--changes 200] [--rate 50000] [--seed 1]

A process of its own writes numbered lines and changes the file under itself. Every line that wasn't
read must have been out of reach: truncated away before the next look at the file, or in a file that
came and went between two looks at the path. None may be read twice. Exit status: 0 if so, 1 if not.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cuzktop.events import LogEvent, SourceNote
from cuzktop.sources.log_tail import Follower, LogTail, Piece

BATCH_S = 0.001  # between two writes
KINDS = ("rename", "late", "truncate", "restart", "replace")
LINE = b"TIMELINE,%d,SYNTH_START,porep-1000-42,partition=3\n"


# ---------------------------------------------------------------- the writer's process


def write(path: Path, journal: Path, changes: int, rate: int, seed: int) -> None:
    """Write and change; the journal gets `w time file first count` and `end time file kind`.

    Kinds: `rename` (logrotate, the writer reopens), `late` (the same, but an empty file comes first
    and the writer goes on in the old one for a while), `truncate` (copytruncate), `restart`
    (`> log`), `replace` (unlinked, made anew).
    """
    dice = random.Random(seed)
    number = 0
    file = 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with journal.open("w") as notes:

        def note(*words: object) -> None:
            notes.write(" ".join(map(str, words)) + "\n")

        def batches(seconds: float) -> None:
            nonlocal number
            until = due = time.monotonic()
            until += seconds
            while (now := time.monotonic()) < until:
                count = round((now - due) * rate) or 1
                due = now
                lines = b"".join([LINE % n for n in range(number, number + count)])
                note("w", now, file, number, count)
                os.write(log, lines)
                number += count
                time.sleep(BATCH_S)

        log = os.open(path, flags, 0o644)
        note("new", time.monotonic(), file)
        batches(1.0)
        for change in range(changes):
            kind = dice.choice(KINDS)
            aside = path.with_name(f"{path.name}.{change}")
            if kind in ("truncate", "restart"):
                note("end", time.monotonic(), file, kind)
                if kind == "restart":
                    os.close(log)
                    log = os.open(path, flags | os.O_TRUNC, 0o644)
                else:
                    os.ftruncate(log, 0)
            else:
                if kind == "replace":
                    path.unlink()
                else:
                    path.rename(aside)
                note("end", time.monotonic(), file, kind)
                fresh = os.open(path, flags, 0o644)
                if kind == "late":
                    batches(dice.uniform(0.0, 1.5))
                os.close(log)
                log = fresh
                aside.unlink(missing_ok=True)
            file += 1
            note("new", time.monotonic(), file)
            batches(dice.choice((0.01, 0.1, 0.4, 1.2)) * dice.uniform(0.5, 1.5))
        note("end", time.monotonic(), file, "end")


# ---------------------------------------------------------------- the reader


class Numbers:
    """A parser that keeps the lines' numbers, in the order in which they come."""

    def __init__(self) -> None:
        self.got: list[int] = []
        self.damaged = 0
        self._half = b""

    def feed(self, data: bytes) -> list[LogEvent]:
        *lines, self._half = (self._half + data).split(b"\n")
        for line in lines:
            fields = line.split(b",")
            if len(fields) == 5 and fields[4] == b"partition=3" and fields[1].isdigit():
                self.got.append(int(fields[1]))
            else:
                self.damaged += 1
        return []

    def finish(self) -> list[LogEvent]:
        return []

    def cut(self) -> list[LogEvent]:
        self._half = b""
        return []


class WatchedTail(LogTail):
    """A LogTail that keeps when it had read all there was, and when it looked at the path."""

    def __init__(self, path: Path, numbers: Numbers) -> None:
        self.notes: list[str] = []
        super().__init__(path, numbers, self._keep, clock=lambda: time.monotonic() * 1000.0)
        self.caught_up_at: list[float] = []  # when a step began that left nothing unread
        self.looked_at: list[float] = []
        follower: Follower = self._follower
        look: Callable[[list[Piece]], None] = follower._look_at_path  # noqa: SLF001

        def noted(pieces: list[Piece]) -> None:
            self.looked_at.append(time.monotonic())
            look(pieces)

        follower._look_at_path = noted  # type: ignore[method-assign]  # noqa: SLF001

    def _keep(self, events: object) -> None:
        for event in events if isinstance(events, list) else ():
            if isinstance(event, SourceNote):
                self.notes.append(event.text)

    def step(self) -> bool:
        began = time.monotonic()
        more = super().step()
        if not more:
            self.caught_up_at.append(began)
        return more


# ---------------------------------------------------------------- the account


@dataclass
class Generation:
    """What was written between two changes."""

    begun: float
    ended: float = float("inf")
    kind: str = "end"
    lines: list[tuple[float, int, int]] = field(default_factory=list)  # time, first, count


def generations(journal: Path) -> list[Generation]:
    """What the writer says that it did."""
    made: list[Generation] = []
    for text in journal.read_text().splitlines():
        what, at, file, *rest = text.split()
        if what == "new":
            made.append(Generation(float(at)))
        elif what == "w":
            made[int(file)].lines.append((float(at), int(rest[0]), int(rest[1])))
        else:
            made[int(file)].ended, made[int(file)].kind = float(at), rest[0]
    return made


def account(made: list[Generation], tail: WatchedTail, got: list[int]) -> dict[str, int]:
    """How many lines were written, read, and missed for which reason."""
    seen = sorted(set(got))
    sums = {"written": 0, "read": len(seen), "twice": len(got) - len(seen), "out of order": 0}
    sums["out of order"] = sum(a > b for a, b in pairwise(got))
    sums |= {"truncated before a look": 0, "in a file never seen": 0, "unexplained": 0}
    for one in made:
        truncated = one.kind in ("truncate", "restart")
        # A look just before the change may have begun before it and opened what came after.
        looks = bisect_right(tail.looked_at, one.ended) - bisect_left(tail.looked_at, one.begun)
        at = bisect_left(tail.caught_up_at, one.ended) - 1
        caught_up = tail.caught_up_at[max(0, at - 1)]  # the last may not have been over by then
        for when, first, count in one.lines:
            read = bisect_left(seen, first + count) - bisect_left(seen, first)
            sums["written"] += count
            if read == count:
                continue
            if truncated and when >= caught_up:
                sums["truncated before a look"] += count - read
            elif looks == 0 and one.begun > made[0].begun:
                sums["in a file never seen"] += count - read
            else:
                sums["unexplained"] += count - read
    return sums


def main() -> int:
    """Run it; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--rate", type=int, default=50_000, help="lines a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        path, journal = options.write
        write(path, journal, options.changes, options.rate, options.seed)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path, journal = Path(folder, "d.log"), Path(folder, "journal")
        numbers = Numbers()
        tail = WatchedTail(path, numbers)
        tail.start()
        words = ("--changes", options.changes, "--rate", options.rate, "--seed", options.seed)
        begun = time.monotonic()
        subprocess.run(
            [sys.executable, __file__, "--write", str(path), str(journal), *map(str, words)],
            check=True,
        )
        took = time.monotonic() - begun
        time.sleep(3.0)  # the path is looked at each second
        tail.stop()
        tail.join()
        made = generations(journal)
        sums = account(made, tail, numbers.got)
    kinds = [one.kind for one in made[:-1]]
    print(
        f"{options.changes} changes in {took:.0f} s, {sums['written'] / took:.0f} lines/s:", end=""
    )
    print(", ".join(f" {kinds.count(kind)} {kind}" for kind in KINDS))
    for name, count in sums.items():
        print(f"{count:>10}  {name}")
    print(f"{numbers.damaged:>10}  damaged")
    bad = sums["unexplained"] + sums["twice"] + sums["out of order"] + numbers.damaged
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
