"""Canned logs, played in their own time: the demos, again and again.

A demo is a folder `demo_logs/NAME/` with `daemon.log` (or `daemon.log.gz`), `about.txt`, whose
first line says what it shows and whose others are `start=SECONDS` (where live playing begins)
and `utc=1`, and perhaps `gpu.csv`, what nvidia-smi saw at the time.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cuzktop.errors import UsageError
from cuzktop.events import Event, GpuSampled, PlayedAgain, SourceNote
from cuzktop.settings import READ_BLOCK_BYTES
from cuzktop.sources.files import LogParser, open_log, read_blocks

DEFAULT_DEMO = "ninety-percent"
LINGER_S = 3.0  # the last picture stands this long before the next round
LEAST_WAIT_S = 0.05  # lines closer together than this come together: a log is polled no faster
MOST_WAIT_S = 1.0  # samples and the stop button are looked after at least this often

STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6})Z")
MARK = re.compile(rb"TIMELINE,(\d{1,15}),[A-Z_]+,")
ENGINE_STARTS = b"starting cuzk engine"  # TIMELINE counts from its time stamp
GPU_WORKS = b",GPU_START,"
FELL_US = 5_000_000  # TIMELINE steps back by milliseconds on its own; by this much at a restart
LEAPT_US = 600_000_000  # a longer silence must be confirmed by a second line
AGREE_US = 60_000_000


# ---------------------------------------------------------------- the demos


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """A demo's files. `start_s` counts from the log's first line that has a time."""

    name: str
    about: str
    log: Path
    gpu_csv: Path | None
    start_s: float | None
    utc: bool  # the clock of gpu.csv


def demos_root() -> Path:
    """Where the demos lie: inside the package when installed, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "demo_logs"
    return installed if installed.is_dir() else package.parent / "demo_logs"


def demo_names() -> tuple[str, ...]:
    """The demos there are, the default one first."""
    try:
        names = sorted(about.parent.name for about in demos_root().glob("*/about.txt"))
    except OSError:
        return ()
    return tuple(sorted(names, key=lambda name: name != DEFAULT_DEMO))


def demo_folder(name: str) -> Path:
    """The folder of demo `name`. Raises UsageError that lists the names if there is none."""
    names = demo_names()
    if name not in names:
        message = f"there is no demo {name!r}"
        hint = f"choose one of {', '.join(names)}" if names else "no demos are installed"
        raise UsageError(message, hint=hint)
    return demos_root() / name


def demo(name: str = DEFAULT_DEMO) -> Demo:
    """Demo `name`. Raises UsageError if there is none."""
    folder = demo_folder(name)
    about, *rest = (folder / "about.txt").read_text("utf-8").splitlines() or [""]
    options = dict(line.split("=", 1) for line in rest if "=" in line)
    start = options.get("start")
    return Demo(
        name=name,
        about=about,
        log=_first_of(folder, "daemon.log", "daemon.log.gz") or folder / "daemon.log",
        gpu_csv=_first_of(folder, "gpu.csv", "gpu.csv.gz"),
        start_s=None if start is None else float(start),
        utc=options.get("utc") == "1",
    )


def _first_of(folder: Path, *names: str) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


# ---------------------------------------------------------------- a log's own time


class LineClock:
    """When a log's lines were written, by the clocks in them: time stamps and TIMELINE offsets.

    The time never falls: where a log was damaged, a clock was set back or another run follows,
    it stands until the lines have caught up, or counts on from there.
    """

    def __init__(self) -> None:
        """Begin before the first line."""
        self._now_us: int | None = None
        self._epoch_us: int | None = None  # of TIMELINE's zero
        self._leapt_us: int | None = None  # an unlikely time that a second line must confirm
        self._fallen_us: int | None = None  # the same for an offset

    def read(self, line: bytes) -> int | None:
        """The time of `line` in microseconds since 1970; a line without one has its forerunner's.

        None before the first line with a time. Without any time stamp the log begins in 1970.
        """
        stamp = STAMP.search(line)
        if stamp is not None:
            wall_us = _stamp_us(stamp[1])
            if wall_us is not None:
                if ENGINE_STARTS in line:
                    self._epoch_us, self._fallen_us = wall_us, None
                self._advance(wall_us)
            return self._now_us
        mark = MARK.search(line)
        if mark is not None:
            self._read_offset(int(mark[1]) * 1000)
        return self._now_us

    def _read_offset(self, offset_us: int) -> None:
        if self._now_us is None:
            self._now_us = 0
        if self._epoch_us is None:
            self._epoch_us = self._now_us - offset_us
        if self._epoch_us + offset_us < self._now_us - FELL_US:
            confirmed = self._fallen_us is not None and abs(offset_us - self._fallen_us) < AGREE_US
            self._fallen_us = offset_us
            if not confirmed:
                return
            self._epoch_us = self._now_us - offset_us  # a run whose start-up lines are missing
        self._fallen_us = None
        self._advance(self._epoch_us + offset_us)

    def _advance(self, wall_us: int) -> None:
        if self._now_us is not None and wall_us > self._now_us + LEAPT_US:
            confirmed = self._leapt_us is not None and abs(wall_us - self._leapt_us) < AGREE_US
            self._leapt_us = wall_us
            if not confirmed:
                return
        self._leapt_us = None
        self._now_us = wall_us if self._now_us is None else max(self._now_us, wall_us)


def _stamp_us(stamp: bytes) -> int | None:
    try:
        moment = datetime.fromisoformat(stamp.decode("ascii")).replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a log, each with its line end; the last may lack one."""
    with open_log(path) as file:
        held = b""
        for block in read_blocks(file):
            *whole, held = (held + block).split(b"\n")
            for line in whole:
                yield line + b"\n"
        if held:
            yield held


def _times(path: Path) -> tuple[int | None, int | None]:
    """When the log begins, and when a GPU first works in it, in microseconds since 1970."""
    clock = LineClock()
    first_us = None
    for line in _lines(path):
        now_us = clock.read(line)
        first_us = now_us if first_us is None else first_us
        if GPU_WORKS in line:
            return first_us, now_us
    return first_us, None


# ---------------------------------------------------------------- playing


class Replay(threading.Thread):
    """A daemon thread that plays a log as if it were being written now.

    What lies before the start point comes at once, to fill the history; the rest in its own
    time, `speed` times as fast; then the same again, after a PlayedAgain event
    (time falls back there).
    """

    def __init__(
        self,
        log: Path,
        parser: LogParser,
        emit: Callable[[Sequence[Event]], object],
        *,
        clock: Callable[[], float],
        speed: float = 1.0,
        start_s: float | None = None,
        samples: Callable[[], Iterable[GpuSampled]] | None = None,
        wait: Callable[[float], bool] | None = None,
        again: bool = True,
    ) -> None:
        """Prepare to play `log` from `start_s` seconds after its first line.

        Without `start_s` it is played from where a GPU works. `clock` gives milliseconds from
        any zero; `wait` sleeps so many seconds and says whether to stop. `samples` gives a
        round's GPU readings in the order of their times. `again=False` plays one round. Raises
        SourceUnreadableError if the log can't be read, ValueError if `speed` isn't above 0.
        """
        super().__init__(name="replay", daemon=True)
        if not speed > 0:
            message = f"speed must be above 0, not {speed}"
            raise ValueError(message)
        self.round = 0  # how often the log was played to its end
        self._log = log
        self._parser = parser
        self._emit = emit
        self._clock = clock
        self._speed = speed
        self._samples = samples
        self._again = again
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        first_us, works_us = _times(log)
        first_us = first_us or 0
        if start_s is not None:
            self._start_us = first_us + int(start_s * 1e6)
        else:
            self._start_us = first_us if works_us is None else works_us
        # The log's time at an instant of the clock; None while the history is filled.
        self._anchor_ms: tuple[float, float] | None = None
        self._pending: Iterator[GpuSampled] = iter(())
        self._sample: GpuSampled | None = None

    def now_ms(self) -> float:
        """What time it is in the log, in wall-clock milliseconds since 1970. Any thread may ask."""
        anchor = self._anchor_ms
        if anchor is None:
            return self._start_us / 1000.0
        log_ms, clock_ms = anchor
        return log_ms + (self._clock() - clock_ms) * self._speed

    def stop(self) -> None:
        """End the thread soon."""
        self._stopped.set()

    def run(self) -> None:
        """Play until told to stop."""
        try:
            while self._play() and self._again:
                if self._sleep(LINGER_S):
                    break
                self.round += 1
                self._anchor_ms = None
                self._emit([*self._parser.cut(), PlayedAgain(self.now_ms())])
        except Exception as error:  # noqa: BLE001 - the thread ends here; the screen goes on
            text = f"playing {self._log} stopped: {type(error).__name__}: {error}"
            self._emit([SourceNote(self.now_ms(), "error", text)])

    def _play(self) -> bool:
        """One round; False if it was stopped before its end."""
        self._pending = iter(self._samples() if self._samples is not None else ())
        self._sample = next(self._pending, None)
        clock = LineClock()
        lines: list[bytes] = []
        held_bytes = 0
        now_us = 0
        for line in _lines(self._log):
            now_us = clock.read(line) or now_us
            if self._anchor_ms is None:
                if now_us >= self._start_us:
                    self._hand_over(lines, self._start_us)
                    self._anchor_ms = (self._start_us / 1000.0, self._clock())
                elif held_bytes >= READ_BLOCK_BYTES:
                    self._hand_over(lines, now_us)
                    held_bytes = 0
                held_bytes += len(line)
            if self._anchor_ms is not None and now_us / 1000.0 > self.now_ms():
                self._hand_over(lines, int(self.now_ms() * 1000))
                if self._sleep_until(now_us):
                    return False
            lines.append(line)
        self._hand_over(lines, now_us)
        if self._anchor_ms is None:  # the start point lies beyond the log's end
            self._anchor_ms = (max(now_us, self._start_us) / 1000.0, self._clock())
        if not self._again:
            events = self._parser.finish()
            self._emit([*events, SourceNote(self.now_ms(), "info", "the log has ended")])
        return True

    def _hand_over(self, lines: list[bytes], until_us: int) -> None:
        """Emit what `lines` say, and the samples up to then; empties `lines`."""
        events: list[Event] = []
        if lines:
            events += self._parser.feed(b"".join(lines))
            lines.clear()
        while self._sample is not None and self._sample.at_ms * 1000.0 <= until_us:
            events.append(self._sample)
            self._sample = next(self._pending, None)
        if events:
            self._emit(events)

    def _sleep_until(self, log_us: int) -> bool:
        """Sleep until the log's time is `log_us`, with samples in step; whether to stop."""
        while (left_ms := log_us / 1000.0 - self.now_ms()) > 0:
            if self._sample is not None:
                left_ms = min(left_ms, self._sample.at_ms - self.now_ms())
            seconds = left_ms / 1000.0 / self._speed
            if self._sleep(min(max(seconds, LEAST_WAIT_S), MOST_WAIT_S)):
                return True
            self._hand_over([], int(self.now_ms() * 1000))
        return False

    def _sleep(self, seconds: float) -> bool:
        return self._wait(seconds) or self._stopped.is_set()
