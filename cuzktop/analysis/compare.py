"""Logs side by side: what differs, by how much, and whether it exceeds the runs' own spread.

What is tested are the pace (the time that every so many finished partitions took) and each stage's
p50 and p95, over whole proofs (`cuzktop.analysis.stats`). Shares of GPU time are not tested: they
are sums, and told as they are. `cuzktop.analysis.findings` puts it all into sentences.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Final

from cuzktop.analysis.figures import DAEMON, UNKNOWN_KIND, LogFigures
from cuzktop.analysis.stats import ALPHA, MAX_UNITS, Unit, mean_test, quantile_tests
from cuzktop.analysis.throughput import STAGES, stats
from cuzktop.dataclass import dataclass, field
from cuzktop.frame import StageStats

LEAST_MS: Final = 2.0  # the daemon prints whole milliseconds, truncated
LEAST_PCT: Final = 1.0  # a pace that differs by less is the same to whoever pays for it
ADDRESSES: Final = frozenset({"listen", "status_listen"})  # settings that change no figure

Pair = tuple[int, int]  # indices of two logs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pace:
    """Seconds a proof in two logs.

    `p` is None where there is too little to tell; `detectable_pct` is the smallest change that
    would have shown, in per cent of the first's pace.
    """

    a_s: float
    b_s: float
    warm_a_s: float | None
    warm_b_s: float | None
    p: float | None
    detectable_pct: float | None

    @property
    def real(self) -> bool | None:
        """Whether it differs by more than the runs' own spread; None where that can't be told."""
        change = self.warm_change_pct
        if self.p is None or change is None:
            return None
        return self.p <= ALPHA and abs(change) >= LEAST_PCT

    @property
    def change_pct(self) -> float:
        """By how much the second's differs; below 0 it is faster."""
        return 100.0 * (self.b_s - self.a_s) / self.a_s

    @property
    def warm_change_pct(self) -> float | None:
        """The same after warm-up, which is what the test compares."""
        if self.warm_a_s is None or self.warm_b_s is None or self.warm_a_s <= 0:
            return None
        return 100.0 * (self.warm_b_s - self.warm_a_s) / self.warm_a_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageChange:
    """One stage in two logs; p-values are corrected for the number of stages. None: can't tell."""

    stage: str
    a: StageStats | None
    b: StageStats | None
    p50_p: float | None = None
    p95_p: float | None = None

    @property
    def p50_diff_ms(self) -> float | None:
        """By how much the second's p50 is larger."""
        return None if self.a is None or self.b is None else self.b.p50 - self.a.p50

    @property
    def p95_diff_ms(self) -> float | None:
        """By how much the second's p95 is larger."""
        return None if self.a is None or self.b is None else self.b.p95 - self.a.p95

    @property
    def p50_real(self) -> bool | None:
        """Whether p50 differs by more than the runs' own spread."""
        return _real(self.p50_p, self.p50_diff_ms)

    @property
    def p95_real(self) -> bool | None:
        """Whether p95 does."""
        return _real(self.p95_p, self.p95_diff_ms)


def _real(p: float | None, diff_ms: float | None) -> bool | None:
    if diff_ms is None or p is None:
        return None
    return p <= ALPHA and abs(diff_ms) >= LEAST_MS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """From one log to another: indices into `Comparison.logs`."""

    a: int
    b: int
    pace: Pace | None
    stages: Mapping[str, StageChange]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """Two or more logs in the order of comparison.

    `steps` lead from each log to the next. `differ` and `same` are settings, with a value a log or
    None where it states none. Of a sweep, `order_by` is the setting that orders it, None for the
    order given; `best` is the fastest log, `against_best` the pace of the others beside it, and
    `knee` the log after which nothing is really faster, None if that can't be told.
    """

    logs: tuple[LogFigures, ...]
    labels: tuple[str, ...]
    kind: str | None  # of the partitions whose stages are compared
    stages: tuple[Mapping[str, StageStats], ...]  # a log each, warm
    differ: Mapping[str, tuple[str | None, ...]]
    same: Mapping[str, str]
    steps: tuple[Step, ...]
    order_by: str | None = None
    best: int | None = None
    knee: int | None = None
    against_best: Mapping[int, Pace] = field(default_factory=dict)

    @property
    def sweep(self) -> bool:
        """Whether there are more than two logs."""
        return len(self.logs) > 2


def compare(logs: Sequence[LogFigures]) -> Comparison:
    """Compare at least two logs: two as before and after, more as a sweep."""
    sweep = len(logs) > 2
    order_by = _ordering(logs) if sweep else None
    if order_by is not None:
        logs = sorted(logs, key=lambda log: float(log.settings[order_by]))
    differ, same = _settings(logs)
    kind = _shared_kind(logs)
    stages = tuple(_stages(log, kind) for log in logs)
    best = _best(logs) if sweep else None
    pairs = list(itertools.pairwise(range(len(logs))))
    paces = _paces(logs, pairs, best)
    against_best = {a: pace for (a, b), pace in paces.items() if b == best}
    return Comparison(
        logs=tuple(logs),
        labels=tuple(label(index) for index in range(len(logs))),
        kind=kind,
        stages=stages,
        differ=differ,
        same=same,
        steps=tuple(
            Step(
                a=a,
                b=b,
                pace=paces.get((a, b)),
                stages=_stage_changes(logs[a], logs[b], kind, (stages[a], stages[b])),
            )
            for a, b in pairs
        ),
        order_by=order_by,
        best=best,
        knee=_knee(len(logs), best, against_best),
        against_best=against_best,
    )


def label(index: int) -> str:
    """The name of a log in a comparison: A to Z, then AA, AB and so on."""
    letters = ""
    index += 1
    while index:
        index, letter = divmod(index - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return letters


# ---------------------------------------------------------------- settings and kinds


def _settings(
    logs: Sequence[LogFigures],
) -> tuple[dict[str, tuple[str | None, ...]], dict[str, str]]:
    """Settings that differ (a value a log), and those that don't."""
    every = [log.settings for log in logs]
    differ: dict[str, tuple[str | None, ...]] = {}
    same: dict[str, str] = {}
    for name in dict.fromkeys(itertools.chain.from_iterable(every)):
        values = tuple(settings.get(name) for settings in every)
        common = _common_versions(values) if name == DAEMON else None
        if common is not None:
            same[name] = common
        elif len(set(values)) > 1:
            differ[name] = values
        else:
            same[name] = str(values[0])
    return differ, same


def _common_versions(ranges: Sequence[str | None]) -> str | None:
    """The daemon's versions that all logs could come from (S42-S45); None if they can't be one."""
    bounds = [
        [int(step.removeprefix("S")) for step in one.split("-")]
        for one in ranges
        if one is not None
    ]
    if len(bounds) < len(ranges):
        return None
    first, last = max(low for low, *_ in bounds), min(high for *_, high in bounds)
    if first > last:
        return None
    return f"S{first}" if first == last else f"S{first}-S{last}"


def _ordering(logs: Sequence[LogFigures]) -> str | None:
    """The one setting in which all logs differ, if it is a number."""
    differ = [name for name in _settings(logs)[0] if name not in ADDRESSES]
    if len(differ) != 1:
        return None
    values = [log.settings.get(differ[0], "") for log in logs]
    try:
        numbers = {float(value) for value in values}
    except ValueError:
        return None
    return differ[0] if len(numbers) == len(logs) else None


def _shared_kind(logs: Sequence[LogFigures]) -> str | None:
    """The kind of proof that all logs have most of in common; None if they share none."""
    shares = [
        {kind: count / max(1, log.partitions) for kind, count in log.kinds.items()}
        for log in logs
        if log.partitions
    ]
    if not shares:
        return None
    for share in shares:
        unknown = share.pop(UNKNOWN_KIND, 0.0)  # could be any
        for kind in {one for others in shares for one in others} if unknown else ():
            share[kind] = share.get(kind, 0.0) + unknown
    common = [kind for kind in shares[0] if all(kind in share for share in shares)]
    best = max(common, key=lambda kind: min(share[kind] for share in shares), default=None)
    return UNKNOWN_KIND if best is None and not any(shares) else best


# ---------------------------------------------------------------- stages


def _units(log: LogFigures, kind: str | None, stage: int) -> list[Unit]:
    return [proof.figures(stage) for proof in log.proofs if proof.kind in (kind, UNKNOWN_KIND)]


def _stages(log: LogFigures, kind: str | None) -> dict[str, StageStats]:
    """Percentiles over the log's warm proofs."""
    found = {}
    for index, stage in enumerate(STAGES):
        figures = list(itertools.chain.from_iterable(_units(log, kind, index)))
        if figures:
            found[stage] = stats(figures)
    return found


def _stage_changes(
    a: LogFigures,
    b: LogFigures,
    kind: str | None,
    figures: tuple[Mapping[str, StageStats], Mapping[str, StageStats]],
) -> dict[str, StageChange]:
    tests = quantile_tests(
        {
            stage: (_units(a, kind, index), _units(b, kind, index))
            for index, stage in enumerate(STAGES)
            if stage in figures[0] and stage in figures[1]
        }
    )
    return {
        stage: StageChange(
            stage=stage,
            a=figures[0].get(stage),
            b=figures[1].get(stage),
            p50_p=tests.get(stage, {}).get(50),
            p95_p=tests.get(stage, {}).get(95),
        )
        for stage in STAGES
        if stage in figures[0] or stage in figures[1]
    }


# ---------------------------------------------------------------- pace


def _told_pace(log: LogFigures) -> float | None:
    """Seconds a proof: the contract's, or after warm-up where the log tells no completed proof."""
    told = log.seconds_per_proof
    return log.warm_seconds_per_proof if told is None else told


def tested_pace(log: LogFigures) -> float | None:
    """What logs are ranked by: the pace after warm-up, where there is one."""
    warm = log.warm_seconds_per_proof
    return log.seconds_per_proof if warm is None else warm


def _best(logs: Sequence[LogFigures]) -> int | None:
    """The fastest log."""
    known = [(pace, i) for i, log in enumerate(logs) if (pace := tested_pace(log)) is not None]
    return min(known)[1] if known else None


def _paces(logs: Sequence[LogFigures], pairs: Sequence[Pair], best: int | None) -> dict[Pair, Pace]:
    """The pace of every pair, and of the best against all others; Holm's correction over them."""
    wanted = list(pairs)
    if best is not None:
        wanted += [(i, best) for i in range(len(logs)) if i != best and (i, best) not in wanted]
    raw: dict[Pair, tuple[float, float, float | None, float | None]] = {}
    for a, b in wanted:
        told_a, told_b = _told_pace(logs[a]), _told_pace(logs[b])
        if (logs[a].seconds_per_proof is None) != (logs[b].seconds_per_proof is None):
            told_a, told_b = logs[a].warm_seconds_per_proof, logs[b].warm_seconds_per_proof
        if not told_a or not told_b:
            continue
        test = mean_test(_stretches(logs[a]), _stretches(logs[b]))
        raw[a, b] = (told_a, told_b, test.p, test.detectable)
    corrected = _holm({pair: p for pair, (_, _, p, _) in raw.items() if p is not None})
    found = {}
    for (a, b), (told_a, told_b, _, detectable) in raw.items():
        warm_a, warm_b = logs[a].warm_seconds_per_proof, logs[b].warm_seconds_per_proof
        found[a, b] = Pace(
            a_s=told_a,
            b_s=told_b,
            warm_a_s=warm_a,
            warm_b_s=warm_b,
            p=corrected.get((a, b)),
            detectable_pct=100.0 * detectable / warm_a if detectable and warm_a else None,
        )
    return found


def _stretches(log: LogFigures) -> list[float]:
    """Seconds a proof of each stretch of the run."""
    if not log.per_proof or not log.pace_partitions:
        return []
    scale = log.per_proof / log.pace_partitions / 1000.0
    return [stretch * scale for stretch in log.pace_ms][:MAX_UNITS]


def _holm(ps: Mapping[Pair, float]) -> dict[Pair, float]:
    """p-values corrected for how many there are (Holm's step-down)."""
    found: dict[Pair, float] = {}
    floor = 0.0
    for rank, pair in enumerate(sorted(ps, key=ps.__getitem__)):
        floor = max(floor, min(1.0, ps[pair] * (len(ps) - rank)))
        found[pair] = floor
    return found


def _knee(count: int, best: int | None, against_best: Mapping[int, Pace]) -> int | None:
    """The first log that the best one doesn't really beat; None if that can't be told."""
    for index in range(count):
        if index == best:
            return best
        pace = against_best.get(index)
        if pace is None:
            continue  # it has no pace: it can't be the knee
        if pace.real is None:
            return None
        if not pace.real:
            return index
    return None
