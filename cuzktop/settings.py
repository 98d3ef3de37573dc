"""What the user asked for, and how much is kept. Frozen: made once by `cli`, then read."""

from __future__ import annotations

from pathlib import Path

from cuzktop.dataclass import dataclass

DEFAULT_INTERVAL_S = 1.0
DEFAULT_WINDOW_S = 60.0

READ_BLOCK_BYTES = 64 * 1024  # fits the L2 cache; larger blocks are mapped and unmapped each time
MAX_LINE_BYTES = 64 * 1024  # the longest known line is 550 bytes; beyond this it isn't a log line
START_BACK_MS = 10 * 60 * 1000  # a snapshot reads at least this much
START_BACK_BYTES = 64 * 1024 * 1024  # and at most this much
LOG_POLL_S = 0.25  # 4 Hz, whatever the screen's rate
STDIN_FD = 0


@dataclass(frozen=True, slots=True)
class Since:
    """Where in a log to begin: `back_ms` before its end, at a time of day, or at an instant.

    One of the three is given. `of_day_ms` counts from midnight, of the local day if `local`;
    `at_ms` since 1970 UTC, -inf for the log's first line.
    """

    back_ms: float | None = None
    of_day_ms: float | None = None
    at_ms: float | None = None
    local: bool = False


EVERYTHING = Since(at_ms=float("-inf"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One invocation's choices.

    `interval_s` is the screen's, None where the user names none; `window_s` is the length of every
    "last N seconds" share; `width` is in columns, None for the terminal's.
    """

    log: Path | None = None
    interval_s: float | None = None
    window_s: float = DEFAULT_WINDOW_S
    repeat: int | None = None
    width: int | None = None
    colour: bool = True
    ascii_only: bool = False
    mouse: bool = True
    demo: str | None = None
    speed: float = 1.0
    start_at_s: float | None = None
    samples: Path | None = None
    samples_utc: bool = False
    fast: bool = False
    since: Since | None = None
