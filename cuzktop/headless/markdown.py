"""What `cuzktop report --markdown` prints: the report for a ticket, as GitHub reads Markdown.

The sentence comes first, then its reasons, then the figures as tables. A ticket is read by people
who were not there, so nothing is cut to a width; jobs' names and the daemon's words stand as code,
where they can neither format the page nor call for anyone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from cuzktop import cards, units
from cuzktop.analysis.summary import UNPLACED
from cuzktop.columns import (
    CLASS_MEANINGS,
    CLASS_TITLES,
    LADDER,
    NOT_PRINTED,
    PARTITION,
    SHOWN_STAGES,
    STAGE_KEYS,
    STATE_CELLS,
)
from cuzktop.frame import GpuReport, Inflation, PartitionRow, RunReport, Source, StageStats
from cuzktop.headless import blocks
from cuzktop.headless.text import DERIVED_BEFORE_S41, RowsTally

SPECIAL: Final = re.compile(r"([\\`*_\[\]<>|~#@&$])")
MARK: Final = "\\" + NOT_PRINTED  # two of them would strike out what lies between
STAGE_NAMES: Final[Mapping[str, str]] = {key: PARTITION[key].title for key in STAGE_KEYS}


def report_markdown(
    reports: Sequence[RunReport], source: Source, tallies: Mapping[int, RowsTally]
) -> str:
    """The whole log as Markdown, with a newline at its end.

    `tallies` has a run's partitions by `RunReport.run`, as `report_text` takes them.
    """
    parts: list[str] = []
    if not reports:
        parts.append("**No cuzk event in this log.**")
    if len(reports) > 1:
        parts.append(_runs(reports))
    for report in reports:
        tally = tallies.get(report.run, RowsTally())
        if len(reports) == 1 or report.gpus or report.alerts or tally.states:
            parts += _run(report, tally, alone=len(reports) == 1)
    parts.append(_source(source))
    text = "\n\n".join(part for part in parts if part) + "\n"
    if f"| {MARK}" in text:
        text += f"\n{MARK} derived from other lines, or on a line whose owner is inferred\n"
    return text


# ---------------------------------------------------------------- Markdown


def plain(text: str) -> str:
    """Our own words on one line, with nothing in them that Markdown would take for its own."""
    return SPECIAL.sub(r"\\\1", _one_line(text))


def code(text: str) -> str:
    """Foreign words, as code on one line."""
    text = _one_line(text).strip() or " "
    runs = [len(run) for run in re.findall(r"`+", text)]
    fence = "`" * (max(runs, default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def cell(text: str) -> str:
    """The same in a table, which knows a bar for its own even in code."""
    return code(text).replace("|", "\\|")


def _one_line(text: str) -> str:
    return "".join(
        c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int]) -> str:
    """A table; the columns numbered in `right` hold figures. Cells are Markdown already."""
    figures = set(right)
    lines = [
        titles,
        ["--:" if index in figures else "---" for index in range(len(titles))],
        *rows,
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# ---------------------------------------------------------------- a run


def _runs(reports: Sequence[RunReport]) -> str:
    rows = [
        [
            str(r.run),
            blocks.wall_time(r.started) or units.UNKNOWN,
            units.duration(r.span_ms),
            units.count(r.proofs.completed),
            units.count(r.proofs.failed),
            units.count(r.proofs.lost),
            _pace(r.proofs.seconds_per_proof),
            r.verdict.bottleneck,
            r.dialect or units.UNKNOWN,
        ]
        for r in reports
    ]
    titles = ["Run", "Started", "Long", "Completed", "Failed", "Lost", "s/proof", "Limit", "Daemon"]
    head = f"**{len(reports)} runs of the daemon, newest last**"
    return f"{head}\n\n{table(titles, rows, right=(0, 2, 3, 4, 5, 6))}"


def _pace(seconds: float | None) -> str:
    return units.UNKNOWN if seconds is None else f"{seconds:.1f}"


def _run(report: RunReport, tally: RowsTally, *, alone: bool) -> list[str]:
    verdict = report.verdict
    parts = [] if alone else [f"## Run {report.run}"]
    parts.append(f"**{plain(verdict.sentence or 'No verdict.')}**")
    sure = f"{blocks.confidence_word(verdict.confidence)} ({verdict.confidence:.2f})"
    parts.append(f"Limit: {verdict.bottleneck}, confidence {sure}")
    if verdict.evidence:
        parts.append("Why:\n\n" + _items(verdict.evidence))
    if verdict.advice:
        parts.append("Try:\n\n" + _items(verdict.advice))
    parts.append(_facts(report, tally))
    for gpu in report.gpus:
        parts += _gpu(gpu)
    derived = any(gpu.shares.lock_derived for gpu in report.gpus)
    parts += _stages(report.stages, derived=derived)
    parts += _stretching(report.inflation)
    if tally.slowest:
        parts += ["### Longest brackets", _partitions(tally.slowest, SHOWN_STAGES)]
    if tally.failed:
        parts += ["### Failed and lost partitions", _partitions(tally.failed, ("state", "attempt"))]
    if report.alerts:
        parts.append("### Alerts")
        left_out = len(report.alerts) - blocks.MAX_ALERTS
        if left_out > 0:
            parts.append(f"{left_out} earlier ones are in `--json`.")
        parts.append(
            "\n".join(
                f"- {alert.level}"
                f"{'' if alert.at_ms is None else f' at {units.duration(alert.at_ms)}'}:"
                f" {code(alert.text)}"
                for alert in report.alerts[-blocks.MAX_ALERTS :]
            )
        )
    if report.settings:
        rows = [[cell(name), cell(value)] for name, value in report.settings.items()]
        parts += ["### Settings", table(["Setting", "Value"], rows, right=())]
    return parts


def _items(lines: Iterable[str]) -> str:
    return "\n".join(f"- {plain(line)}" for line in lines)


def _facts(report: RunReport, tally: RowsTally) -> str:
    """What ran, for how long, and how many proofs came of it."""
    proofs = report.proofs
    told = [
        f"Run {report.run}",
        f"started {blocks.wall_time(report.started)}" if report.started else "start not in log",
        "" if report.span_ms is None else f"{units.duration(report.span_ms)} long",
        f"daemon {report.dialect}" if report.dialect else "daemon of unknown version",
    ]
    rows = [["Run", " · ".join(part for part in told if part)]]
    if proofs.completed is None:
        counts = "– only the daemon's standard output says that a proof is done"
    else:
        counts = (
            f"{proofs.completed} completed · {proofs.failed} failed ·"
            f" {proofs.in_flight} in flight · {proofs.lost} lost"
        )
    rows.append(["Proofs", counts])
    if proofs.seconds_per_proof:
        an_hour = 3600.0 / proofs.seconds_per_proof
        rows.append(["Pace", f"{proofs.seconds_per_proof:.1f} s a proof · {an_hour:.1f} an hour"])
    if tally.states:
        states = [f"{tally.states[state]} {state}" for state in STATE_CELLS if tally.states[state]]
        rows.append(["Partitions", ", ".join(states)])
    return table(["", ""], rows, right=())


def _gpu(gpu: GpuReport) -> list[str]:
    shares = gpu.shares
    workers = ", ".join(map(str, gpu.workers)) or units.UNKNOWN
    over = f"{units.duration(shares.span_ms)} from first GPU\\_START to last GPU\\_END"
    ladder = [
        [step.title, f"{plain(step.text(shares))}{_unit(step.value(shares))}"] for step in LADDER
    ]
    measured = gpu.nvml_source or "unknown source"
    nvml = f"NVML ({measured}, {blocks.count(gpu.nvml_samples, 'sample')})"
    if gpu.nvml_util_pct is None and gpu.nvml_power_w is None:
        nvml = "NVML"
    ladder.append([nvml, f"{units.percent(gpu.nvml_util_pct)}{_unit(gpu.nvml_util_pct)}"])
    ladder.append(["power", units.watts(gpu.nvml_power_w)])
    known = shares.time_pct
    shown = None if known is None else units.shares_to_100(known)
    mark = dict.fromkeys(blocks.NEEDS_LOCK, MARK) if shares.lock_derived else {}
    classes = [
        [
            title,
            units.UNKNOWN if shown is None else f"{mark.get(name, '')}{shown[name]:.1f} %",
            CLASS_MEANINGS[name],
        ]
        for name, title in CLASS_TITLES.items()
    ]
    measured_by_card = (
        None
        if gpu.nvml_util_pct is None
        else blocks.Measured(util_pct=gpu.nvml_util_pct, power_w=gpu.nvml_power_w)
    )
    notes = blocks.between_steps(shares, measured_by_card, gpu.suspects)
    if shares.mixed:
        notes.append(f"shares of each GPU are unknown: {UNPLACED}")
    if gpu.gap_count is not None:
        notes.append(blocks.gaps(gpu.gap_count, gpu.gap_mean_ms))
    if shares.bracket_sum_pct is not None:
        notes.append(
            f"brackets add up to {units.percent(shares.bracket_sum_pct)} %: what grep | awk gives;"
            " they overlap, and none of them is kernel time"
        )
    return [
        f"### {cards.title(gpu.gpu, shares)}",
        f"{over}, workers {workers}",
        table(["Share of that time", "%"], ladder, right=(1,)),
        table(["Where it goes", "adds up to 100 %", ""], classes, right=(1,)),
        _items(notes),
    ]


def _unit(share: object) -> str:
    return "" if share is None else " %"


def _stages(stages: Mapping[str, StageStats], *, derived: bool) -> list[str]:
    rows = []
    for key in STAGE_KEYS:
        if key in stages:
            mark = MARK if derived and key in DERIVED_BEFORE_S41 else ""
            one = stages[key]
            times = [mark + units.duration(ms) for ms in (one.p50, one.p95, one.max)]
            about = plain(PARTITION[key].about)
            rows.append([plain(STAGE_NAMES[key]), str(one.count), *times, about])
    if not rows:
        return []
    return [
        "### Stages of a partition",
        "Finished ones, cold first calls left out.",
        table(["Stage", "Count", "p50", "p95", "max", ""], rows, right=(1, 2, 3, 4)),
    ]


def _stretching(found: Inflation | None) -> list[str]:
    """CPU stages by the number of syntheses in flight."""
    if found is None or not found.stages:
        return []
    rows = []
    for one in found.stages:
        for low, high, count, factor in one.bands:
            rows.append(
                [
                    plain(STAGE_NAMES[one.stage]),
                    str(low) if low == high else f"{low}–{high}",
                    str(count),
                    units.duration(factor * one.quiet_ms),
                    f"{factor:.2f}",
                ]
            )
    return [
        "### CPU stages by syntheses in flight",
        table(["Stage", "In flight", "Count", "p50", "times quiet"], rows, right=(1, 2, 3, 4)),
    ]


def _partitions(rows: Sequence[PartitionRow], figures: Sequence[str]) -> str:
    keys = ["job", "partition", "worker", "gpu"]
    keys += [key for key in figures if any(PARTITION[key].value(row) is not None for row in rows)]
    body = [
        [cell(row.job) if key == "job" else plain(PARTITION[key].text(row)) for key in keys]
        for row in rows
    ]
    titles = [plain(PARTITION[key].title) for key in keys]
    right = [index for index, key in enumerate(keys) if PARTITION[key].right]
    return table(titles, body, right=right)


def _source(source: Source) -> str:
    counts = [
        units.size(source.bytes),
        blocks.count(source.lines, "line"),
        blocks.count(source.events, "event"),
        f"{source.torn} torn, mended",
        f"{source.unparsed} unparsed",
    ]
    note = f" · {plain(source.note)}" if source.note else ""
    return f"Source: {code(source.path or 'no log')} · {' · '.join(counts)}{note}"
