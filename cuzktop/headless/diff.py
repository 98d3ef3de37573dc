"""`cuzktop diff`: two logs, or a sweep of more, as text and as the document cuzktop.diff/1."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Final

from cuzktop import units
from cuzktop.analysis.compare import Comparison, Pace, StageChange, Step
from cuzktop.analysis.figures import DAEMON, LADDER, Collector, LogFigures
from cuzktop.analysis.findings import sentences, step_sentences
from cuzktop.analysis.stats import ALPHA, MAX_UNITS, RESAMPLES
from cuzktop.columns import CLASS_TITLES, NOT_PRINTED, PARTITION, STAGE_KEYS
from cuzktop.columns import LADDER as LADDER_COLUMNS
from cuzktop.frame import TIME_CLASSES, GpuReport, PartitionRow, StageStats
from cuzktop.headless import blocks, parts
from cuzktop.headless.layout import Field, Page
from cuzktop.model.state import Run
from cuzktop.reading import LogSummary, Measure, Parser

SCHEMA: Final = "cuzktop.diff/1"

REAL: Final = "real"
FEW: Final = "few"
MOVED: Final = "*"  # in a sweep: really moved from the column before
DERIVED_STAGES: Final = frozenset({"barrier_wait_ms", "lock_held_ms"})
DERIVED_CLASSES: Final = frozenset({"barrier", "lock_overhead", "handoff"})
NOT_ASKED: Final = frozenset({"bracket_sum_pct"})  # told in JSON; it is no share of anything
LEAST_COLUMN: Final = 9  # columns of a log in a sweep, gap included
TITLES: Final = 22  # columns of a row's title in a sweep


# ---------------------------------------------------------------- reading


def summarise_for_diff(
    log: Iterable[bytes], parser: Parser, name: str, measure: Measure = lambda _run: {}
) -> LogFigures:
    """Read a whole log and keep what a comparison needs of its longest run that finished anything.

    `measure` gives NVML's means over a run's GPUs, where measurements of it are at hand.
    """
    collectors: dict[int, Collector] = {}

    def add(run: Run, row: PartitionRow) -> None:
        collectors.setdefault(run.index, Collector()).add(row)

    with closing(LogSummary(lambda _: "", measure)) as summary:
        summary.on_row = add
        summary.read(log, parser)
        reports = [report for report, _ in summary.runs if report.run in collectors]
    finished = [report for report in reports if collectors[report.run].partitions]
    if not finished:
        return LogFigures(name=name, runs=len(reports))
    longest = max(
        finished, key=lambda report: (report.span_ms or 0.0, collectors[report.run].partitions)
    )
    return collectors[longest.run].figures(name, len(reports), longest)


# ---------------------------------------------------------------- the document


def diff_document(comparison: Comparison) -> dict[str, object]:
    """The document cuzktop.diff/1; names are json-contract's, what isn't known is null."""
    return {
        "schema": SCHEMA,
        "logs": [
            _log_json(label, log, stages)
            for label, log, stages in zip(
                comparison.labels, comparison.logs, comparison.stages, strict=True
            )
        ],
        "settings": {
            "differ": {
                parts.text(name): [None if value is None else parts.text(value) for value in values]
                for name, values in comparison.differ.items()
            },
            "same": {parts.text(k): parts.text(v) for k, v in comparison.same.items()},
        },
        "steps": [_step_json(comparison, step) for step in comparison.steps],
        "sweep": {
            "order_by": comparison.order_by,
            "knee": None if comparison.knee is None else comparison.labels[comparison.knee],
        }
        if comparison.sweep
        else None,
        "sentences": [parts.text(sentence) for sentence in sentences(comparison)],
        "test": {
            "kind": comparison.kind,
            "alpha": ALPHA,
            "resamples": RESAMPLES,
            "proofs_max": MAX_UNITS,
            "method": _METHOD,
        },
    }


_METHOD: Final = (
    "whole proofs are shuffled between the two logs; p-values of stages are corrected for the"
    " number of stages and percentiles (max-T), those of a sweep's pace for the number of pairs"
    " (Holm)"
)


def _log_json(label: str, log: LogFigures, stages: Mapping[str, StageStats]) -> dict[str, object]:
    report, counts = log.report, log.counts
    pace = log.seconds_per_proof
    per_proof = log.gpu_ms_per_proof
    return {
        "label": label,
        "path": parts.text(log.name),
        "run": None if report is None else report.run,
        "runs": log.runs,
        "started": None if report is None else report.started,
        "dialect": None if report is None else report.dialect,
        "span_ms": None if report is None else parts.number(report.span_ms, parts.MS_DIGITS),
        "settings": {
            parts.text(k): parts.text(v) for k, v in (report.settings if report else {}).items()
        },
        "proofs": {
            "completed": counts.completed,
            "failed": counts.failed,
            "in_flight": counts.in_flight,
            "lost": counts.lost,
            "seconds_per_proof": parts.number(pace),
            "per_hour": parts.number(3600.0 / pace) if pace else None,
            "at_a_time": log.proofs_at_a_time,
        },
        "partitions": {
            "done": log.partitions,
            "per_proof": log.per_proof,
            "kinds": dict(log.kinds),
            "syntheses_at_a_time": log.syntheses_at_a_time,
        },
        "warm": {
            "proofs": len(log.proofs),
            "seconds_per_proof": parts.number(log.warm_seconds_per_proof),
        },
        "gpu": {
            "span_ms": parts.number(log.span_ms, parts.MS_DIGITS),
            **{step: parts.number(log.share_pct(step)) for step in LADDER},
            "time_pct": parts.time_pct(log.time_pct),
            "ms_per_proof": None
            if per_proof is None
            else {name: parts.number(value, parts.MS_DIGITS) for name, value in per_proof.items()},
            "nvml_util_pct": parts.number(log.nvml_util_pct),
            "nvml_power_w": parts.number(log.nvml_power_w),
            "derived": ["lock_held_pct"] if log.lock_derived else [],
        },
        "gpus": [] if report is None else [_gpu_json(gpu) for gpu in report.gpus],
        "stages": parts.stages(stages),
        "bottleneck": None if report is None else report.verdict.bottleneck,
        "confidence": None if report is None else parts.number(report.verdict.confidence),
    }


def _gpu_json(gpu: GpuReport) -> dict[str, object]:
    return {
        "gpu": gpu.gpu,
        "workers": list(gpu.workers),
        "span_ms": parts.number(gpu.shares.span_ms, parts.MS_DIGITS),
        **parts.ladder(gpu.shares),
        "time_pct": parts.time_pct(gpu.shares.time_pct),
    }


def _step_json(comparison: Comparison, step: Step) -> dict[str, object]:
    a, b = comparison.logs[step.a], comparison.logs[step.b]
    shares_a, shares_b = a.time_pct, b.time_pct
    return {
        "a": comparison.labels[step.a],
        "b": comparison.labels[step.b],
        "pace": None if step.pace is None else _pace_json(step.pace),
        "gpu": {
            **{
                f"{name[:-4]}_diff_pct": _less(a.share_pct(name), b.share_pct(name))
                for name in LADDER
            },
            "time_diff_pct": None
            if shares_a is None or shares_b is None
            else {name: _less(shares_a.get(name), shares_b.get(name)) for name in TIME_CLASSES},
        },
        "stages": {name: _stage_json(change) for name, change in step.stages.items()},
        "sentences": [parts.text(sentence) for sentence in step_sentences(comparison, step)],
    }


def _less(a: float | None, b: float | None) -> float | None:
    """By how much the second is larger, in points."""
    return None if a is None or b is None else parts.number(b - a)


def _pace_json(pace: Pace) -> dict[str, object]:
    return {
        "seconds_per_proof": [parts.number(pace.a_s), parts.number(pace.b_s)],
        "change_pct": parts.number(pace.change_pct),
        "warm_seconds_per_proof": [parts.number(pace.warm_a_s), parts.number(pace.warm_b_s)],
        "warm_change_pct": parts.number(pace.warm_change_pct),
        "p": parts.number(pace.p, 4),
        "real": pace.real,
        "detectable_pct": parts.number(pace.detectable_pct),
    }


def _stage_json(change: StageChange) -> dict[str, object]:
    def ms(figures: StageStats | None, name: str) -> int | float | None:
        return None if figures is None else parts.ms(getattr(figures, name))

    return {
        "count": [0 if side is None else side.count for side in (change.a, change.b)],
        "p50_ms": [ms(change.a, "p50"), ms(change.b, "p50")],
        "p50_diff_ms": parts.ms(change.p50_diff_ms),
        "p50_p": parts.number(change.p50_p, 4),
        "p50_real": change.p50_real,
        "p95_ms": [ms(change.a, "p95"), ms(change.b, "p95")],
        "p95_diff_ms": parts.ms(change.p95_diff_ms),
        "p95_p": parts.number(change.p95_p, 4),
        "p95_real": change.p95_real,
    }


# ---------------------------------------------------------------- text


def diff_text(comparison: Comparison, *, width: int, colour: bool, ascii_only: bool) -> str:
    """The comparison as text of at most `width` columns, with a newline at its end."""
    page = Page(width=width, colour=colour, ascii_only=ascii_only)
    for number, sentence in enumerate(sentences(comparison)):
        if number:
            page.paragraph(sentence, indent=2)
        else:
            page.paragraph(sentence, style=_verdict_style(comparison))
    _put_logs(page, comparison)
    _put_settings(page, comparison)
    if len(comparison.logs) == 2:
        _put_pair(page, comparison)
    else:
        _put_sweep(page, comparison)
    _put_notes(page, comparison)
    return page.text()


def _verdict_style(comparison: Comparison) -> str:
    """Good where the last is really faster, a warning where it is slower."""
    step = comparison.steps[-1]
    if len(comparison.logs) > 2 or step.pace is None or not step.pace.real:
        return "strong"
    change = step.pace.warm_change_pct
    return "good" if change is not None and change < 0 else "warn"


def _put_logs(page: Page, comparison: Comparison) -> None:
    page.heading("Logs")
    logs = comparison.logs
    reports = [log.report for log in logs]
    several = any(log.runs > 1 for log in logs)
    page.table(
        (
            Field(texts=list(comparison.labels), styles=["strong"] * len(logs)),
            Field(texts=_short_names([log.name for log in logs]), flexible=True, least=20),
            Field(
                texts=[
                    "" if report is None or not several else f"run {report.run}"
                    for report in reports
                ],
                rank=1,
            ),
            Field(
                texts=[
                    "no finished partition"
                    if report is None
                    else blocks.wall_time(report.started) or "start not in log"
                    for report in reports
                ],
                rank=3,
            ),
            Field(
                texts=[
                    "" if report is None else f"{units.duration(report.span_ms)} long"
                    for report in reports
                ],
                right=True,
                rank=2,
            ),
        )
    )


def _short_names(names: Sequence[str]) -> list[str]:
    """Paths without the folders that all of them have in common."""
    split = [name.split("/") for name in names]
    common = 0
    while all(len(one) > common + 1 for one in split) and len({one[common] for one in split}) == 1:
        common += 1
    return ["/".join(one[common:]) for one in split]


def _put_settings(page: Page, comparison: Comparison) -> None:
    page.heading("Settings", "as the logs state them")
    rows = [
        _Row(name, [units.UNKNOWN if value is None else value for value in values])
        for name, values in comparison.differ.items()
    ]
    for title, values in (
        ("proofs at a time, seen", [log.proofs_at_a_time for log in comparison.logs]),
        ("syntheses, seen", [log.syntheses_at_a_time for log in comparison.logs]),
    ):
        if any(value is not None for value in values):
            rows.append(_Row(title, [units.count(value) for value in values]))
    _put_rows(page, comparison, rows)
    if comparison.same:
        said = page.dot.join(
            f"{'daemon' if name == DAEMON else name} {value}"
            for name, value in comparison.same.items()
        )
        page.paragraph(said, label="the same  ", indent=2, limit=4)


class _Row:
    """A figure: a text a log and, between two logs, the change and what it is worth."""

    __slots__ = ("change", "mark", "style", "texts", "title")

    def __init__(
        self, title: str, texts: list[str], change: str = "", mark: str = "", style: str = ""
    ) -> None:
        """`style` is the change's."""
        self.title = title
        self.texts = texts
        self.change = change
        self.mark = mark
        self.style = style


def _put_rows(page: Page, comparison: Comparison, rows: Sequence[_Row]) -> None:
    """A column a log; a sweep of many logs takes several tables, one under the other."""
    if not rows:
        return
    if len(comparison.logs) == 2:
        _put_columns(page, comparison, rows, range(2), changes=True)
        return
    widest = max(len(page.clean(text)) for row in rows for text in row.texts)
    room = page.width - 2 - max(TITLES, *(len(page.clean(row.title)) for row in rows))
    at_once = max(1, room // max(LEAST_COLUMN, widest + 2))
    for first in range(0, len(comparison.logs), at_once):
        shown = range(first, min(len(comparison.logs), first + at_once))
        _put_columns(page, comparison, rows, shown, changes=False)


def _put_columns(
    page: Page, comparison: Comparison, rows: Sequence[_Row], shown: range, *, changes: bool
) -> None:
    titles = [f"{row.title:{TITLES}}" for row in rows]
    fields = [Field(title=" ", texts=titles, flexible=True, least=14)]
    fields += [
        Field(title=comparison.labels[index], texts=[row.texts[index] for row in rows], right=True)
        for index in shown
    ]
    if changes and any(row.change for row in rows):
        styles = [row.style for row in rows]
        fields.append(
            Field(title="change", texts=[row.change for row in rows], right=True, styles=styles)
        )
        fields.append(Field(texts=[row.mark for row in rows], rank=1, styles=styles))
    page.table(fields)


def _signed(text: str, value: float) -> str:
    """A difference with its sign; what is rounded to nothing has none."""
    if not any(digit in text for digit in "123456789"):
        return text.removeprefix("-")
    return f"+{text}" if value > 0 else text


def _more_ms(diff_ms: float | None) -> str:
    """A difference of durations; nothing where it is unknown."""
    if diff_ms is None:
        return ""
    return "0ms" if abs(diff_ms) < 0.5 else _signed(units.duration(diff_ms), diff_ms)


def _relative(a: float | None, b: float | None) -> str:
    """The change in per cent of the first."""
    if a is None or b is None or a == 0:
        return ""
    change = 100.0 * (b - a) / a
    return _signed(f"{change:.0f} %" if abs(change) >= 9.95 else f"{change:.1f} %", change)


def _mark(*, real: bool | None, tested: bool = True) -> str:
    """What a difference is worth, in a word; nothing where it lies within the spread."""
    if not tested:
        return ""
    return FEW if real is None else REAL if real else ""


def _moved_style(diff: float | None, *, real: bool | None, less_is_good: bool = True) -> str:
    if not real or not diff:
        return "faint"
    return "good" if (diff < 0) == less_is_good else "warn"


# ---------------------------------------------------------------- figures of all logs


def _proof_rows(comparison: Comparison) -> list[_Row]:
    logs = comparison.logs
    told = [log.seconds_per_proof for log in logs]
    warm = [log.warm_seconds_per_proof for log in logs]
    rows = [
        _Row("completed", [units.count(log.counts.completed) for log in logs]),
        *(
            _Row(what, [str(count) for count in counts])
            for what, counts in (
                ("failed", [log.counts.failed for log in logs]),
                ("lost", [log.counts.lost for log in logs]),
            )
            if any(counts)
        ),
        _Row("seconds a proof", [_one_digit(pace) for pace in told]),
        _Row("after warm-up", [_one_digit(pace) for pace in warm]),
        _Row("proofs an hour", [_one_digit(3600.0 / pace if pace else None) for pace in told]),
    ]
    step = comparison.steps[0]
    if len(logs) == 2:
        pace = step.pace
        real = None if pace is None else pace.real
        for row, (a, b), good in (
            (rows[-3], told, True),
            (rows[-2], warm, True),
            (rows[-1], [3600.0 / pace if pace else None for pace in told], False),
        ):
            row.change = _relative(a, b)
            if a is not None and b is not None:
                row.style = _moved_style(b - a, real=real, less_is_good=good)
                if row is rows[-2]:
                    row.mark = _mark(real=real)
    else:
        for following in comparison.steps:
            if following.pace is not None and following.pace.real:
                rows[-2].texts[following.b] += MOVED
            elif following.pace is not None:
                rows[-2].texts[following.b] += " "
        rows[-2].texts[0] += " "
    rows.append(
        _Row(
            "limit",
            [
                units.UNKNOWN if log.report is None else log.report.verdict.bottleneck
                for log in logs
            ],
        )
    )
    return rows


def _one_digit(value: float | None) -> str:
    return units.UNKNOWN if value is None or not math.isfinite(value) else f"{value:.1f}"


def _share_rows(comparison: Comparison) -> list[_Row]:
    """The ladder, all GPUs together, and what NVML saw."""
    logs = comparison.logs
    rows = [
        _share_row(
            f"{column.title} %",
            [log.share_pct(column.key) for log in logs],
            [log.lock_derived and column.key == "lock_held_pct" for log in logs],
        )
        for column in LADDER_COLUMNS
        if column.key not in NOT_ASKED
    ]
    if any(len(log.report.gpus) > 1 for log in logs if log.report is not None):
        numbers = sorted({g.gpu for log in logs if log.report is not None for g in log.report.gpus})
        for number in numbers:
            found = [_of_gpu(log, number) for log in logs]
            rows.append(_share_row(f"  kernel, GPU {number} %", found, [False] * len(logs)))
    measured = [log.nvml_util_pct for log in logs]
    if any(value is not None for value in measured):
        rows.append(_share_row("NVML %", measured, [False] * len(logs)))
    return rows


def _of_gpu(log: LogFigures, number: int) -> float | None:
    gpus = () if log.report is None else log.report.gpus
    return next((gpu.shares.kernel_pct for gpu in gpus if gpu.gpu == number), None)


def _share_row(title: str, shares: Sequence[float | None], derived: Sequence[bool]) -> _Row:
    texts = [
        (NOT_PRINTED if mark and share is not None else "") + units.percent(share)
        for share, mark in zip(shares, derived, strict=True)
    ]
    return _Row(title, texts, _points(shares[0], shares[-1]))


def _points(a: float | None, b: float | None) -> str:
    return "" if a is None or b is None else _signed(f"{b - a:.1f}", b - a)


def _class_shares(log: LogFigures) -> Mapping[str, float] | None:
    """The classes, rounded so that what is printed adds up to 100."""
    shares = log.time_pct
    return None if shares is None else units.shares_to_100(dict(shares), digits=1)


def _class_rows(comparison: Comparison) -> list[_Row]:
    shown = [_class_shares(log) for log in comparison.logs]
    return [
        _share_row(
            f"{title} %",
            [None if shares is None else shares.get(name, 0.0) for shares in shown],
            [log.lock_derived and name in DERIVED_CLASSES for log in comparison.logs],
        )
        for name, title in CLASS_TITLES.items()
    ]


def _cost_rows(comparison: Comparison) -> list[_Row]:
    """GPU time that a proof took, by class."""
    costs = [log.gpu_ms_per_proof for log in comparison.logs]
    rows = []
    for name, title in CLASS_TITLES.items():
        values = [None if cost is None else cost.get(name, 0.0) for cost in costs]
        rows.append(_cost_row(title, values))
    rows.append(
        _cost_row("together", [None if cost is None else sum(cost.values()) for cost in costs])
    )
    return rows


def _cost_row(title: str, values: Sequence[float | None]) -> _Row:
    a, b = values[0], values[-1]
    change = _more_ms(None if a is None or b is None else b - a)
    return _Row(title, [units.duration(value) for value in values], change)


# ---------------------------------------------------------------- two logs


def _put_pair(page: Page, comparison: Comparison) -> None:
    page.heading("Proofs")
    _put_rows(page, comparison, _proof_rows(comparison))
    page.heading("Share of the GPUs' time", "all GPUs together, weighted by their spans")
    _put_rows(page, comparison, _share_rows(comparison))
    _put_classes(page, comparison)
    _put_stages(page, comparison)


def _put_classes(page: Page, comparison: Comparison) -> None:
    """Where the time goes: shares, and what that makes of a proof's GPU time."""
    if all(log.time_pct is None for log in comparison.logs):
        return
    page.heading("Where it goes", "shares add up to 100 %; GPU time a proof by class")
    shares, costs = _class_rows(comparison), _cost_rows(comparison)
    shares.append(_Row("together", ["" for _ in comparison.logs]))
    names = [f"{title:{TITLES}}" for title in [*CLASS_TITLES.values(), "together"]]
    a, b = comparison.labels
    page.table(
        (
            Field(title=" ", texts=names, flexible=True, least=14),
            Field(title=f"{a} %", texts=[row.texts[0] for row in shares], right=True),
            Field(title=f"{b} %", texts=[row.texts[1] for row in shares], right=True),
            Field(title="points", texts=[row.change for row in shares], right=True, rank=2),
            Field(title=f"{a} time", texts=[row.texts[0] for row in costs], right=True, rank=1),
            Field(title=f"{b} time", texts=[row.texts[1] for row in costs], right=True, rank=1),
            Field(title="change", texts=[row.change for row in costs], right=True, rank=1),
        )
    )


def _put_stages(page: Page, comparison: Comparison) -> None:
    """p50 and p95 of each stage, and which differences are real."""
    (step,) = comparison.steps
    changes = [step.stages[key] for key in STAGE_KEYS if key in step.stages]
    if not changes:
        return
    page.heading("Stages of a partition", _stages_cover(comparison))
    logs = (comparison.logs[0], comparison.logs[1])

    def figures(rank: str, side: int) -> list[str]:
        stats = [(change.a, change.b)[side] for change in changes]
        return [
            _stage_text(logs[side], change.stage, None if s is None else getattr(s, rank))
            for change, s in zip(changes, stats, strict=True)
        ]

    def of(rank: str, column: int) -> list[Field]:
        diffs: list[float | None] = [getattr(change, f"{rank}_diff_ms") for change in changes]
        reals: list[bool | None] = [getattr(change, f"{rank}_real") for change in changes]
        styles = [_moved_style(diff, real=real) for real, diff in zip(reals, diffs, strict=True)]
        relative = [
            ""
            if change.a is None or change.b is None
            else _relative(getattr(change.a, rank), getattr(change.b, rank))
            for change in changes
        ]
        texts = [_more_ms(diff) for diff in diffs]
        marks = [
            _mark(real=real, tested=diff is not None)
            for real, diff in zip(reals, diffs, strict=True)
        ]
        return [
            Field(title=f"{rank} {label}", texts=figures(rank, side), right=True, rank=column)
            for side, label in enumerate(comparison.labels)
        ] + [
            Field(title="change", texts=texts, right=True, styles=styles, rank=column),
            Field(
                title="%",
                texts=[t.removesuffix(" %") for t in relative],
                right=True,
                styles=styles,
                rank=column + 2,
            ),
            Field(title=" ", texts=marks, styles=styles, rank=column),
        ]

    counts = [[0 if s is None else s.count for s in (c.a, c.b)] for c in changes]
    page.table(
        (
            Field(title="Stage", texts=[PARTITION[change.stage].title for change in changes]),
            *(
                Field(
                    title=f"Count {label}", texts=[str(c[side]) for c in counts], right=True, rank=9
                )
                for side, label in enumerate(comparison.labels)
            ),
            *of("p50", 1),
            *of("p95", 2),
        )
    )


def _stages_cover(comparison: Comparison) -> str:
    kind = "" if comparison.kind is None else f"{comparison.kind}, "
    return f"{kind}first proof and cold first calls left out"


def _stage_text(log: LogFigures, stage: str, value_ms: float | None) -> str:
    if value_ms is None:
        return units.UNKNOWN
    mark = NOT_PRINTED if log.lock_derived and stage in DERIVED_STAGES else ""
    return mark + units.duration(value_ms)


# ---------------------------------------------------------------- a sweep


def _put_sweep(page: Page, comparison: Comparison) -> None:
    by = "in the order given" if comparison.order_by is None else f"by {comparison.order_by}"
    page.heading("Proofs", by)
    _put_rows(page, comparison, _proof_rows(comparison))
    page.heading("Share of the GPUs' time", "all GPUs together, weighted by their spans")
    _put_rows(page, comparison, _share_rows(comparison))
    if any(log.time_pct is not None for log in comparison.logs):
        page.heading("Where it goes", "adds up to 100 %")
        _put_rows(page, comparison, _class_rows(comparison))
        page.heading("GPU time a proof")
        _put_rows(page, comparison, _cost_rows(comparison))
    keys = [key for key in STAGE_KEYS if any(key in stages for stages in comparison.stages)]
    if keys:
        page.heading("p50 of a partition's stages", _stages_cover(comparison))
        _put_rows(page, comparison, [_swept_stage(comparison, key) for key in keys])


def _swept_stage(comparison: Comparison, key: str) -> _Row:
    texts = []
    for log, stages in zip(comparison.logs, comparison.stages, strict=True):
        figures = stages.get(key)
        texts.append(_stage_text(log, key, None if figures is None else figures.p50))
    for step in comparison.steps:
        change = step.stages.get(key)
        texts[step.b] += MOVED if change is not None and change.p50_real else " "
    texts[0] += " "
    return _Row(PARTITION[key].title, texts)


# ---------------------------------------------------------------- what the marks mean


def _put_notes(page: Page, comparison: Comparison) -> None:
    page.blank()
    put: Callable[[str, str], None] = lambda mark, text: page.paragraph(  # noqa: E731
        text, label=f"{mark} ", style="faint"
    )
    measures = sum(len(step.stages) for step in comparison.steps) / max(1, len(comparison.steps))
    if measures:
        put(
            MOVED if comparison.sweep else REAL,
            f"{'really moved from the column before: ' if comparison.sweep else ''}in less than"
            f" {100 * ALPHA:.0f} % of {RESAMPLES} shuffles of whole proofs between the two logs any"
            " of the stages stands apart this far, so it isn't chance, nor one finding picked out"
            f" of {2 * measures:.0f}; unmarked differences lie within the runs' own spread"
            + ("; p95 is in --json" if comparison.sweep else ""),
        )
    reals = [
        real
        for step in comparison.steps
        for change in step.stages.values()
        for real, diff in (
            (change.p50_real, change.p50_diff_ms),
            (change.p95_real, change.p95_diff_ms),
        )
        if diff is not None
    ]
    if not comparison.sweep and any(real is None for real in reals):
        put(FEW, "too few proofs, or too few figures for that percentile, to tell")
    if any(log.lock_derived for log in comparison.logs):
        put(NOT_PRINTED, "derived from other lines (before S41 the daemon doesn't print it)")
