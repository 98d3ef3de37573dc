"""What it costs that a line stands where it stands in the log.

A figure tells when its line was due. The line itself was written between the clocks before and
after it: not before it was due, and as a rule at once. A cost is roughly the negative logarithm of
how likely such a delay is; the constants are read off captures of the real prover on busy CPUs.
"""

from __future__ import annotations

import math

from cuzktop.model.state import Line

GRACE_MS = 0.8  # two clocks are compared, each known to about a millisecond
TICK_MS = 5.0  # a thread that was just started often waits for a scheduler tick: 13 % of them
LATE_MAX_MS = 700.0  # a line is printed at most so late; 401 was the worst seen
EARLY_MAX_MS = 60.0  # a later line's clock can be older than this line by so much; 23 was the worst

FORBIDDEN = math.inf

Window = tuple[float, float]
"""From when to when something can have happened, in ms on the run's clock."""


def print_cost(late_ms: float) -> float:
    """The cost of a line written `late_ms` after it was due: 99 % come at once, the worst 62."""
    if late_ms <= GRACE_MS:
        return 0.0
    if late_ms > LATE_MAX_MS:
        return FORBIDDEN
    return min(2.5, 5.0 * (late_ms - GRACE_MS)) + 1.6 * math.log(late_ms / GRACE_MS)


def start_cost(late_ms: float) -> float:
    """The cost of a thread that begins `late_ms` after it was started: 98 % within `TICK_MS`."""
    if late_ms <= GRACE_MS:
        return 0.0
    if late_ms <= TICK_MS:
        return min(2.0, 1.0 + 0.25 * late_ms)
    if late_ms > LATE_MAX_MS:
        return FORBIDDEN
    return min(4.5, 2.0 + 4.0 * (late_ms - TICK_MS)) + 1.5 * math.log(late_ms / TICK_MS)


def early_cost(early_ms: float) -> float:
    """The cost of a later line's clock being `early_ms` older than this line can be."""
    if early_ms <= GRACE_MS:
        return 0.0
    if early_ms > EARLY_MAX_MS:
        return FORBIDDEN
    return min(3.0, 3.0 * (early_ms - GRACE_MS)) + 0.12 * early_ms


def misfit(earliest: float, latest: float, line: Line) -> float:
    """The cost of `line` having been due between `earliest` and `latest`."""
    late = line.lo - latest
    if late > 0.0:
        return print_cost(late)
    early = earliest - line.hi
    return early_cost(early) if early > 0.0 else 0.0


def gap_cost(gap_ms: float, usual_ms: float, weight: float) -> float:
    """The cost of a gap that is usually at most `usual_ms`."""
    return 0.0 if gap_ms <= usual_ms else weight * math.log(gap_ms / usual_ms)
