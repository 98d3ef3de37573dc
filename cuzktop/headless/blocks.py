"""The blocks that the snapshot's and the report's text are built of.

Each puts its lines on a `Page` and has no other effect, but for `Notes`: what a mark or a dash
means is said once, at the end of the page.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Final

from cuzktop import units
from cuzktop.columns import (
    CLASS_MEANINGS,
    CLASS_TITLES,
    LADDER,
    NOT_PRINTED,
    PARTITION,
    SHOWN_STAGES,
    partition_text,
)
from cuzktop.dataclass import dataclass, field
from cuzktop.frame import Alert, PartitionRow, Proofs, Shares, Source, Verdict
from cuzktop.headless.layout import Field, Page, Span, cells

APART_PCT: Final = 15.0  # two steps further apart than this get a sentence
SLACK_PCT: Final = 2.0  # rounding and edge effects; beyond it a step is larger than what holds it

CONFIDENCE_WORDS: Final = ((0.85, "high"), (0.6, "fair"), (0.3, "low"), (0.001, "very low"))
ALERT_STYLES: Final = {"error": "bad", "warning": "warn", "info": "faint"}
MAX_ALERTS: Final = 10  # a ticket needs the latest; the JSON has them all

NO_STDERR: Final = (
    "the log has no TIMELINE and no CUZK_TIMING lines: the daemon's standard error is missing; "
    "start it with 2>&1"
)
NO_TIMING: Final = "the log has no CUZK_TIMING lines, so lock and kernel times are unknown"
NO_TIMELINE: Final = "the log has no TIMELINE lines, so brackets are unknown"
NOT_IN_THIS_GENERATION: Final = (
    "this generation of the daemon does not print them (S41 and newer do)"
)
PRINTED_FROM_S41: Final = ("pre_lock_cpu_ms", "lock_wait_ms")


@dataclass(slots=True)
class Notes:
    """What the end of the page has to explain."""

    derived: bool = False
    reasons: dict[str, list[str]] = field(default_factory=dict)

    def mark(self, text: str) -> str:
        """`text` as it is; remembers that it carries the mark of a figure that isn't printed."""
        self.derived = self.derived or text.startswith(NOT_PRINTED)
        return text

    def unknown(self, what: str, reason: str) -> None:
        """`what` is shown as – or left out, for `reason`."""
        told = self.reasons.setdefault(reason, [])
        if what not in told:
            told.append(what)

    def put(self, page: Page) -> None:
        """Write the notes, if there are any."""
        if not self.derived and not self.reasons:
            return
        page.blank()
        if self.derived:
            page.paragraph(
                "derived from other lines, or on a line whose owner is inferred",
                label=f"{NOT_PRINTED} ",
                style="faint",
            )
        for reason, told in self.reasons.items():
            page.paragraph(f"{', '.join(told)}: {reason}", label="– ", style="faint")


# ---------------------------------------------------------------- names


def place(job: str, partition: int | None) -> str:
    """A partition and its job, the partition last: cutting in the middle keeps it."""
    return f"{job} {WHOLE_PROOF}" if partition is None else f"{job} p{partition}"


WHOLE_PROOF: Final = partition_text(None)


def wall_time(iso: str | None) -> str:
    """`2026-02-19T08:20:11.120Z` as people read it: no fraction, UTC said in words."""
    if not iso:
        return ""
    day, _, clock = iso.partition("T")
    clock, _, _ = clock.removesuffix("Z").partition(".")
    return f"{day} {clock} UTC" if clock else day


def count(number: int, one: str, many: str = "") -> str:
    """`3 lines`, `1 line`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def confidence_word(confidence: float) -> str:
    """A confidence of 0–1 in words."""
    return next((word for least, word in CONFIDENCE_WORDS if confidence >= least), "none")


# ---------------------------------------------------------------- the verdict


def put_verdict(page: Page, verdict: Verdict) -> None:
    """The one sentence, how sure it is, why, and what to try."""
    style = {"gpu": "good", "unknown": ""}.get(verdict.bottleneck, "warn")
    page.paragraph(verdict.sentence or "No verdict.", style=style or "strong")
    sure = f"confidence {confidence_word(verdict.confidence)} ({verdict.confidence:.2f})"
    page.paragraph(f"{verdict.bottleneck}, {sure}", label="limit ", indent=2)
    for line in verdict.evidence:
        page.paragraph(line, label="why   ", indent=2)
    for line in verdict.advice:
        page.paragraph(line, label="try   ", indent=2)


# ---------------------------------------------------------------- a GPU's shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What the card's driver measured over the same time; `None` is not measured."""

    util_pct: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None

    @property
    def power_pct(self) -> float | None:
        """Power in per cent of its limit."""
        if self.power_w is None or not self.power_limit_w:
            return None
        return 100.0 * self.power_w / self.power_limit_w


@dataclass(frozen=True, slots=True)
class _Bar:
    title: str
    text: str
    share_pct: float | None
    style: str = ""
    meaning: str = ""


LADDER_STYLES: Final = {"kernel_pct": "good", "lock_held_pct": "warn"}


def put_shares(page: Page, notes: Notes, shares: Shares | None, measured: Measured | None) -> None:
    """The ladder and, beside or under it, where the time goes."""
    ladder = [
        _Bar(
            step.title,
            units.UNKNOWN if share is None or shares is None else notes.mark(step.text(shares)),
            share,
            LADDER_STYLES.get(step.key, ""),
        )
        for step in LADDER
        for share in (None if shares is None else _finite(step.value(shares)),)
    ]
    measured = measured or Measured()
    ladder.append(_Bar("NVML", units.percent(measured.util_pct), measured.util_pct, "good"))
    power_pct = measured.power_pct
    if power_pct is None:
        ladder.append(_Bar("power", units.watts(measured.power_w), None))
    else:
        ladder.append(_Bar("power / limit", units.percent(power_pct), power_pct))
    _put_side_by_side(page, ladder, _classes(notes, shares))


NEEDS_LOCK: Final = frozenset({"barrier", "lock_overhead", "handoff"})


def _classes(notes: Notes, shares: Shares | None) -> list[_Bar]:
    """The exclusive classes, rounded so that what is printed adds up to 100."""
    known = None if shares is None else shares.time_pct
    if known is not None and not all(map(math.isfinite, known.values())):
        known = None
    shown = None if known is None else units.shares_to_100(known, digits=1)
    styles = {"kernel": "good", "barrier": "warn", "handoff": "warn"}
    derived = NEEDS_LOCK if shares is not None and shares.lock_derived else frozenset()
    return [
        _Bar(
            title,
            units.UNKNOWN
            if shown is None
            else notes.mark(
                (NOT_PRINTED if name in derived else "") + units.percent(shown.get(name, 0.0))
            ),
            None if shown is None else shown.get(name, 0.0),
            styles.get(name, ""),
            CLASS_MEANINGS[name],
        )
        for name, title in CLASS_TITLES.items()
    ]


def _finite(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


TITLE: Final = 13  # columns of a bar's title: "lock overhead"
FIXED: Final = TITLE + 1 + 5 + 2 + 2  # title, figure, " %", gap: all of a bar but the bar
GAP: Final = 3


HEAD: Final = "share of that time"
CLASSES_HEAD: Final = "where it goes: adds up to 100 %"


def _put_side_by_side(page: Page, left: Sequence[_Bar], right: Sequence[_Bar]) -> None:
    room = page.width - 2
    meanings = max(len(bar.meaning) for bar in right)
    together = 2 * FIXED + GAP
    if room < together + 2 * 10:
        length = min(30, max(5, room - FIXED))
        for head, bars in ((HEAD, left), (CLASSES_HEAD, right)):
            page.put(("  " + head, "faint"))
            for bar in bars:
                page.put("  ", *_bar(page, bar, length))
        return
    told = room >= together + 2 * 12 + 2 + meanings
    length = min(24, (room - together - ((2 + meanings) if told else 0)) // 2)
    page.put((f"  {HEAD:{FIXED + length + GAP}}{CLASSES_HEAD}", "faint"))
    for one, other in zip(left, right, strict=True):
        meaning: Span = (f"  {other.meaning}" if told else "", "faint")
        page.put("  ", *_bar(page, one, length), " " * GAP, *_bar(page, other, length), meaning)


def _bar(page: Page, bar: _Bar, length: int) -> list[Span]:
    """One bar in `FIXED + length` columns."""
    unit = "  " if bar.text == units.UNKNOWN or bar.text.endswith("W") else " %"
    drawn = page.bar(bar.share_pct, length)
    return [
        (f"{bar.title:{TITLE}} ", ""),
        (f"{bar.text:>5}{unit}  ", ""),
        (drawn, bar.style),
        (" " * (length - cells(drawn)), ""),
    ]


def gaps(number: int, mean_ms: float | None) -> str:
    """How often no bracket was open between two, and for how long."""
    mean = "" if mean_ms is None else f", {units.duration(mean_ms)} on average"
    return f"{count(number, 'gap')} with no bracket open{mean}"


def between_steps(
    shares: Shares | None, measured: Measured | None, suspects: Sequence[str] = ()
) -> list[str]:
    """What lies between two steps that are far apart, and what can't be true, in sentences."""
    if shares is None:
        return []
    known = [
        (step.title, share) for step in LADDER if (share := _finite(step.value(shares))) is not None
    ]
    said = []
    for (title, share), (inner, inner_share) in itertools.pairwise(known):
        apart = share - inner_share
        if apart > APART_PCT:
            what = _BETWEEN.get((title, inner), "this log can't tell what")
            if inner == "lock held" and shares.before_lock_pct is not None:
                before = units.percent(shares.before_lock_pct)
                after = units.percent(shares.after_lock_pct)
                what = f"CPU work, {before} before the lock and {after} after it"
            said.append(f"{apart:.1f} points between {title} and {inner}: {what}")
        elif apart < -SLACK_PCT:
            said.append(
                f"suspect: {inner} {inner_share:.1f} % is more than {title} {share:.1f} %, "
                "which holds it; lines are missing"
            )
    util_pct = None if measured is None else measured.util_pct
    if suspects:
        return [*said, *(f"suspect: {text}" for text in suspects)]
    if util_pct is None or shares.kernel_pct is None:
        return said
    apart = shares.kernel_pct - util_pct
    if apart > APART_PCT:
        said.append(
            f"{apart:.1f} points between kernel and NVML: the GPU idle inside the stages (copies, "
            "launches and waits, which the log counts as kernel time)"
        )
    elif apart < -APART_PCT:
        said.append(
            f"suspect: NVML saw {-apart:.1f} points more than the log's kernel time, an upper "
            "bound; another process uses the card, or lines are missing"
        )
    return said


_BETWEEN: Final = {
    ("bracket", "lock held"): "CPU work before and after the lock",
    ("lock held", "GPU section"): "staging, allocation and release under the lock",
    ("GPU section", "kernel"): "the barrier, where kernels wait for the CPU's prep_msm",
}


# ---------------------------------------------------------------- tables


def _assigned(row: PartitionRow) -> bool:
    """Whether any timing line was called this partition's own."""
    return any(sure != "none" for sure in row.attribution_by.values())


def put_partitions(
    page: Page,
    notes: Notes,
    rows: Sequence[PartitionRow],
    why_unknown: Callable[[str], str],
) -> None:
    """A table of partitions; columns that say nothing are left out, unknown ones with a reason.

    `why_unknown` tells for a column's key why no row has it.
    """
    keys = ["job", "partition"]
    keys += ["attempt"] if any(row.attempt > 1 for row in rows) else []
    keys += ["state"] if any(row.state != "done" for row in rows) else []
    keys += ["worker"]
    keys += ["gpu"] if len({row.gpu for row in rows}) > 1 else []
    for key in SHOWN_STAGES:
        if any(PARTITION[key].value(row) is not None for row in rows):
            keys.append(key)
        else:
            notes.unknown(PARTITION[key].title, why_unknown(key))
    if any(row.state == "done" and not _assigned(row) for row in rows):
        notes.unknown("a finished partition's figures", "no timing line could be called its own")
    keys += ["attribution"] if any(row.attribution != "exact" for row in rows) else []
    jobs = [page.clean(row.job) for row in rows]
    kept = page.table(
        Field(
            title=(column := PARTITION[key]).title,
            texts=jobs if key == "job" else [column.text(row) for row in rows],
            right=column.right,
            rank=column.rank,
            flexible=key == "job",
            least=LEAST_JOB,
            styles=[_state_style(row) for row in rows] if key == "state" else (),
        )
        for key in keys
    )
    notes.derived = notes.derived or any(
        text.startswith(NOT_PRINTED)
        for field_shown in kept
        if field_shown.texts is not jobs
        for text in field_shown.texts
    )


LEAST_JOB: Final = 18  # a sector's id of a usual length; longer ones are cut in the middle


def _state_style(row: PartitionRow) -> str:
    return "bad" if row.state in {"failed", "lost"} else ""


def put_alerts(page: Page, alerts: Sequence[Alert], when: Callable[[float], str]) -> None:
    """The latest alerts, oldest of them first; `when` words an alert's time."""
    if not alerts:
        return
    left_out = max(0, len(alerts) - MAX_ALERTS)
    page.heading("Alerts", f"{left_out} earlier ones are in --json" if left_out else "")
    for alert in alerts[-MAX_ALERTS:]:
        style = ALERT_STYLES.get(alert.level, "")
        at = "" if alert.at_ms is None else f"{when(alert.at_ms)}: "
        page.paragraph(at + alert.text, label=f"{alert.level:7}  ", indent=2, style=style, limit=4)


def put_proofs(page: Page, proofs: Proofs, since: str = "") -> None:
    """Counts of proofs, and the pace."""
    pace = ""
    if proofs.seconds_per_proof:
        an_hour = 3600.0 / proofs.seconds_per_proof
        pace = f"{proofs.seconds_per_proof:.1f} s a proof{page.dot}{an_hour:.1f} an hour"
    page.blank()
    if proofs.completed is None:
        counts = "– only the daemon's standard output says that a proof is done"
    else:
        counts = page.dot.join(
            (
                f"{proofs.completed} completed",
                f"{proofs.failed} failed",
                f"{proofs.in_flight} in flight",
                f"{proofs.lost} lost",
            )
        )
    page.paragraph(counts, label="Proofs  ", label_style="strong")
    for more in (pace, since):
        if more:
            page.paragraph(more, indent=len("Proofs  "), style="faint" if more is since else "")


def put_source(page: Page, source: Source) -> None:
    """Where all of this comes from and what could not be used of it."""
    page.blank()
    known = [
        units.size(source.bytes),
        count(source.lines, "line"),
        count(source.events, "event"),
        f"{source.torn} torn, mended",
        f"{source.unparsed} unparsed",
    ]
    if source.silent_ms is not None and source.silent_ms >= SILENT_MS:
        known.append(f"silent for {units.age(source.silent_ms)}")
    if source.read_pct is not None:
        known.append(f"{source.read_pct:.0f} % read so far")
    counts = page.dot.join(known)
    path = source.path or "no log"
    if len("Source  ") + cells(path) + len(page.dot) + len(counts) <= page.width:
        page.put(("Source  ", "faint"), path + page.dot + counts)
    else:
        page.put(("Source  ", "faint"), page.middle(path, page.width - len("Source  ")))
        page.paragraph(counts, indent=len("Source  "))
    if source.note:
        page.paragraph(source.note, indent=len("Source  "), style="warn")


SILENT_MS: Final = 10_000.0
