"""View 6: the verdict with all its reasons, in sentences, and what is missing to be sure of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import ClassVar

from cuzktop.box import box_words, resident_words, status_words
from cuzktop.columns import CLASS_TITLES, LADDER
from cuzktop.frame import (
    BUNCHED,
    DISAGREE_PTS,
    EVEN,
    FEW_PROOFS,
    GPU_BOUND_PCT,
    HELD,
    TIME_CLASSES,
    UNFED,
    WAVE_SHARE,
    Frame,
    Gpu,
    Herd,
    Shares,
)
from cuzktop.tui.messages import TextOpened
from cuzktop.tui.views.base import View
from cuzktop.tui.widgets.alerts import LEVELS, merged, when
from cuzktop.tui.widgets.cards import card_lines
from cuzktop.tui.widgets.cells import (
    CLASS_GLYPHS,
    WIDE,
    Line,
    Span,
    bar,
    clean,
    clip,
    fit,
    right,
    stacked,
    title,
    width_of,
    wrap,
)
from cuzktop.tui.widgets.empty import no_shares, reason
from cuzktop.tui.widgets.gpus import (
    SOURCES,
    apart,
    draw_gpus,
    of_limit,
    old,
    power_of,
    util_of,
)
from cuzktop.tui.widgets.verdict import BADGES, certainty
from cuzktop.tui.widgets.windows import alert_lines
from cuzktop.units import duration, percent, shares_to_100, size, watts

GUTTER = 3
FED_BY = frozenset({"synthesis", "herding"})  # verdicts by which syntheses feed the GPU too little
WAVES = 0.85  # of the herding gauge: hardly a synthesis ends between two waves

LADDER_SAYS = {
    "bracket_union_pct": "a bracket (GPU_START to GPU_END) was open. It is what grep sums up, and"
    " it counts CPU work and waiting: a full bracket can be an idle GPU.",
    "lock_held_pct": "a worker held the GPU's lock. What the bracket has more is CPU work with the"
    " lock free.",
    "gpu_section_pct": "from a call's first kernel to its last. What the lock has more is staging,"
    " allocation and cleanup.",
    "kernel_pct": "NTT or MSM kernels ran: the GPU at work, by the host's clock. It is an upper"
    " bound, for it counts launches, copies and waits in them.",
}
LADDER_STYLES = ("bracket", "lock", "section", "kernel")
CLASS_SAYS = {
    "kernel": "Kernels run. The only share that is GPU work.",
    "barrier": "The lock is held, and kernels wait for the CPU's prep_msm. It grows when syntheses"
    " take CPU time and memory bandwidth from it.",
    "lock_overhead": "The lock is held, and neither runs: prestaging, allocation, cleanup. It grows"
    " when card memory is short or circuits change their size.",
    "handoff": "The lock is free while a worker is in its bracket: CPU work before the lock or"
    " after it. A second worker for each GPU hides it.",
    "starved": "No bracket is open, but partitions are in synthesis or on their way: they come too"
    " slowly, or all together.",
    "no_work": "Nothing was on its way to the GPU: no proof was asked for, or none had begun.",
}


def mean_shares(gpus: Sequence[Gpu]) -> Shares | None:
    """The ladder and the classes of all GPUs together: means weighted by their spans."""
    windows = [gpu.window for gpu in gpus if gpu.window is not None and gpu.window.span_ms > 0]
    if not windows:
        return None
    if len(windows) == 1:
        return windows[0]
    total = sum(window.span_ms for window in windows)

    def mean(field: str) -> float | None:
        weighted = 0.0
        for window in windows:
            share: float | None = getattr(window, field)
            if share is None:
                return None
            weighted += share * window.span_ms
        return weighted / total

    classes: dict[str, float] | None = None
    if all(window.time_pct is not None for window in windows):
        classes = {
            name: sum((w.time_pct or {}).get(name, 0.0) * w.span_ms for w in windows) / total
            for name in TIME_CLASSES
        }
    return Shares(
        span_ms=total / len(windows),
        bracket_union_pct=mean("bracket_union_pct"),
        bracket_sum_pct=mean("bracket_sum_pct"),
        lock_held_pct=mean("lock_held_pct"),
        gpu_section_pct=mean("gpu_section_pct"),
        kernel_pct=mean("kernel_pct"),
        time_pct=classes,
        lock_derived=any(window.lock_derived for window in windows),
    )


# ----------------------------------------------------------------------------------- the sections


def _paragraph(
    text: str, width: int, *, glyph: str = "", style: str = "text", mark: str = "muted"
) -> list[Line]:
    """`text` broken into lines behind `glyph`."""
    lead = width_of(glyph) + 2 if glyph else 1
    room = max(1, width - lead)
    return [
        clip(
            (
                (f" {glyph if at == 0 else ' ' * width_of(glyph)} " if glyph else " ", mark),
                (part, style),
            ),
            width,
        )
        for at, part in enumerate(wrap(text, room, room, 12))
    ]


def _figure(
    name: str, glyph: str, share: float | None, style: str, says: str, width: int, mark: str = ""
) -> list[Line]:
    """A share with its bar, and behind or under it what it means."""
    head: list[Span] = [
        (f" {glyph} " if glyph else " ", style),
        (fit(name, 14), "text"),
        (right(mark + percent(share), 6), "muted" if share is None else style),
        (" ", "text"),
    ]
    used = sum(width_of(text) for text, _style in head)
    gauge = max(0, min(26, (width - used) // 4)) if width >= 50 else 0
    head.append(bar(share, gauge, _bar_style(style)))
    used += gauge
    room = width - used - 1
    if room < 24:
        return [clip(head, width), *_paragraph(says, width, glyph="  ", style="muted")]
    lines: list[Line] = []
    for at, part in enumerate(wrap(says, room, room, 4)):
        lead = head if at == 0 else [(" " * used, "text")]
        lines.append(clip((*lead, (" ", "text"), (part, "muted")), width))
    return lines


def _bar_style(style: str) -> str:
    """A style whose bar is defined: classes of time have none of their own."""
    known = {"bracket", "lock", "section", "kernel", "nvml", "power", "synth", "late"}
    return style if style in known else "late" if style == "barrier" else "section"


def _verdict(frame: Frame, width: int) -> list[Line]:
    verdict = frame.verdict
    glyph, word, style = BADGES.get(verdict.bottleneck, BADGES["unknown"])
    sure = certainty(verdict)
    badge = f" {glyph} {word} "
    first = max(1, width - width_of(badge) - width_of(sure) - 2)
    parts = wrap(verdict.sentence, first, max(1, width - 1), 6)
    head: list[Span] = [(badge, style), (f" {sure} " if sure else " ", "muted")]
    lines = [clip((*head, (parts[0], "strong")), width)]
    lines += [clip(((" ", "text"), (part, "strong")), width) for part in parts[1:]]
    for heading, texts, sign, mark in (
        ("because", verdict.evidence, "·", "muted"),
        ("try this, and what would prove it wrong", verdict.advice, "→", "key"),
    ):
        if texts:
            lines.append(clip(((f" {heading}", "title"),), width))
        for text in texts:
            lines += _paragraph(text, width, glyph=sign, mark=mark)
    return lines


def _ladder(frame: Frame, width: int) -> list[Line]:
    shares = mean_shares(frame.gpus)
    several = len(frame.gpus) > 1
    span_s = frame.window_s if shares is None else shares.span_ms / 1000
    detail = f"last {span_s:.0f} s" + (f", mean of {len(frame.gpus)} GPUs" if several else "")
    lines = [title("IS THE GPU COMPUTING?", width, detail=detail)]
    if shares is None:
        why = reason(frame, "no bracket has opened yet", brief=False)
        return lines + _paragraph(why, width, style="muted")
    for step, style in zip(LADDER, LADDER_STYLES, strict=True):
        share = getattr(shares, step.key)
        mark = "~" if step.key == "lock_held_pct" and shares.lock_derived else ""
        if share is None:
            mark = ""
        says = LADDER_SAYS[step.key]
        if mark:
            says += " ~ derived: this daemon doesn't print it."
        lines += _figure(step.title, "", share, style, says, width, mark)
    lines += _measured(frame, width)
    if several:
        lines += draw_gpus(frame, width, len(frame.gpus) + 1, with_holder=False)
    lines += _between(frame, shares, width)
    return lines


def _measured(frame: Frame, width: int) -> list[Line]:
    """What the driver and the power meter saw, as means over the cards that were read."""
    read = [gpu.nvml for gpu in frame.gpus if gpu.nvml is not None]
    if not read:
        notes = [gpu.nvml_note for gpu in frame.gpus if gpu.nvml_note]
        why = clean(notes[0]) if notes else "NVML was not asked"
        return _figure("NVML", "", None, "nvml", f"{why}.", width)
    utils = [util for one in read if (util := util_of(one)) is not None]
    powers = [
        share for one in read if (share := of_limit(power_of(one), one.power_limit_w)) is not None
    ]
    first = read[0]
    source = SOURCES.get(first.util_source or "", first.util_source or "source unknown")
    says = f"the driver's own figure ({source})"
    stale = next((stale for one in read if (stale := old(one))), "")
    says += f", {stale}." if stale else "."
    if len(read) < len(frame.gpus):
        says += f" {len(read)} of {len(frame.gpus)} cards answered."
    util = sum(utils) / len(utils) if utils else None
    lines = _figure("NVML", "", util, "nvml", says, width)
    drawn = f"{watts(power_of(first))} of {watts(first.power_limit_w)}"
    if len(read) > 1:
        drawn = f"per cent of the limit, mean of {len(powers)} cards"
    down = sorted({clean(one.held_down) for one in read if one.held_down})
    if down:
        drawn += f"; held down: {', '.join(down)}"
    elif all(one.held_down is not None for one in read):
        drawn += "; clocks not held down"
    power = sum(powers) / len(powers) if powers else None
    return lines + _figure("power", "", power, "power", f"{drawn}.", width)


def _between(frame: Frame, shares: Shares, width: int) -> list[Line]:
    """Sentences on figures that are far apart: what lies between them."""
    texts: list[str] = []
    bracket, kernel = shares.bracket_union_pct, shares.kernel_pct
    if bracket is not None and kernel is not None and bracket - kernel > DISAGREE_PTS:
        between = ""
        if shares.time_pct is not None:
            named = sorted(HELD, key=lambda name: -(shares.time_pct or {}).get(name, 0.0))
            between = ": " + ", ".join(
                f"{CLASS_TITLES[name]} {percent(shares.time_pct.get(name, 0.0))}" for name in named
            )
        texts.append(
            f"{percent(bracket - kernel)} points lie between bracket and kernel{between}. Both are"
            " right; only the kernel step is the GPU's work."
        )
    points = {
        gpu.gpu: by for gpu in frame.gpus if not gpu.suspects and (by := apart(gpu)) is not None
    }
    less = {gpu: -by for gpu, by in points.items() if by < 0}
    more = {gpu: by for gpu, by in points.items() if by > 0}
    if less:
        texts.append(
            f"{_who(frame, less)}NVML saw {_range(less)} points less than the log's kernels. Both"
            " can be right: the GPU is idle inside its stages, in copies and waits that the host's"
            " clock counts."
        )
    if more:
        texts.append(
            f"{_who(frame, more)}NVML saw {_range(more)} points more than the log's kernels:"
            " another program uses the card, or lines of this log are missing."
        )
    for gpu in frame.gpus:
        texts += [f"{_who(frame, {gpu.gpu: 0.0})}{clean(text)}." for text in gpu.suspects]
    return [line for text in texts for line in _paragraph(text, width, glyph="≠", mark="warn")]


def _who(frame: Frame, points: Mapping[int, float]) -> str:
    """The GPUs that a sentence is about, where there are several."""
    if len(frame.gpus) < 2:
        return ""
    word = "GPU" if len(points) == 1 else "GPUs"
    return f"{word} {', '.join(map(str, points))}: "


def _range(points: Mapping[int, float]) -> str:
    low, high = percent(min(points.values())), percent(max(points.values()))
    return low if low == high else f"{low} to {high}"


def _classes(frame: Frame, width: int) -> list[Line]:
    lines = [title("WHERE THE TIME GOES", width, detail="of the GPU; adds up to 100 %")]
    shares = mean_shares(frame.gpus)
    if shares is None or shares.time_pct is None:
        why = no_shares(frame, brief=False)
        return lines + _paragraph(why, width, style="muted")
    lines.append(clip(((" ", "text"), *stacked(shares.time_pct, max(0, width - 2))), width))
    for name, share in shares_to_100(shares.time_pct).items():
        lines += _figure(
            CLASS_TITLES[name], CLASS_GLYPHS[name], share, name, CLASS_SAYS[name], width
        )
    return lines


def _jumpy(frame: Frame, width: int) -> list[Line]:
    """Why the GPU's use goes up and down: nothing to feed it, or something holds it up."""
    lines = [title("IDLE, BUT WHY?", width, detail="the jumpy GPU")]
    shares = mean_shares(frame.gpus)
    if shares is None or shares.time_pct is None:
        return lines + _paragraph(
            "can't be told without lock and kernel times", width, style="muted"
        )
    classes = shares_to_100(shares.time_pct)
    unfed = sum(classes[name] for name in UNFED)
    held = sum(classes[name] for name in HELD)
    lines += _figure(
        "queue empty", "╌", unfed, "starved", "idle with no bracket open: nothing fed it", width
    )
    lines += _figure(
        "held up", "▓", held, "barrier", "idle with work at hand: the lock held, or CPU work", width
    )
    lines += _paragraph(_why_idle(frame, classes), width, style="strong")
    if held >= 2 * unfed or classes["no_work"] > classes["starved"]:
        return lines
    settles = BY_VERDICT if frame.verdict.bottleneck in {"cpu-memory", "lock"} else BY_SYNTHESES
    return lines + _paragraph(settles, width, glyph="→", mark="key")


BY_VERDICT = (
    "The verdict's first step settles it: if 'held up' falls and kernels rise, it was the CPU's"
    " side of the lock; if 'queue empty' grows instead, it is feeding."
)
BY_SYNTHESES = (
    "To settle it, raise the syntheses at a time and wait until the pipeline has spread: if 'queue"
    " empty' falls and kernels rise, it was feeding; if 'held up' rises, it is the CPU's side of"
    " the lock."
)


def _why_idle(frame: Frame, classes: Mapping[str, float]) -> str:
    """Whether the GPU's idle time comes from feeding or from being held up, in a sentence."""
    idle = 100.0 - classes["kernel"]
    unfed = sum(classes[name] for name in UNFED)
    held = sum(classes[name] for name in HELD)
    inside = [-by for gpu in frame.gpus if (by := apart(gpu)) is not None and by < 0]
    if inside and max(inside) > max(unfed, held):
        return (
            f"By the log it is idle {percent(idle)} % of the time, but NVML saw up to"
            f" {percent(max(inside))} points more of it: the GPU waits inside the stages that the"
            " log calls kernel, for the CPU or for copies. It is held up there."
        )
    if idle < 100.0 - GPU_BOUND_PCT:
        return "By the log it is hardly ever idle; short jumps are the gaps between two calls."
    if unfed >= 2 * held:
        if classes["no_work"] > classes["starved"]:
            return "Nothing holds the GPU up: most of its idle time there was nothing for it to do."
        return (
            "The GPU is simply fast: it is idle because syntheses don't feed it evenly, not because"
            " anything holds it up."
        )
    if held >= 2 * unfed:
        more = " More syntheses would not help, and may make it worse."
        if frame.verdict.bottleneck in FED_BY:
            more = " Yet of the single parts starved is the largest: that is what the verdict says."
        return (
            "Something holds the GPU up: most of its idle time there is a partition at hand, in the"
            f" lock or on its way to it.{more}"
        )
    return "Both: part of the time it is held up, part of the time nothing feeds it."


def _bunched(gauge: float | None) -> str:
    """What the herding gauge means, in a clause."""
    if gauge is None:
        return "fewer than eight syntheses have ended: too few for a gauge."
    if gauge < EVEN:
        return "spread evenly: they feed the GPU one by one."
    if gauge < BUNCHED:
        return "as often together as ends at random would be (50)."
    if gauge < WAVES:
        return "bunched: more often together than ends at random would be."
    return "in waves: they start together and finish together."


def _herding(frame: Frame, width: int) -> list[Line]:
    lines = [title("HERDING", width, detail="do syntheses finish together?")]
    herd = frame.herd
    if herd is None:
        return lines + _paragraph("not known yet", width, style="muted")
    gauge = herd.gauge
    share = None if gauge is None else 100 * gauge
    lines += _figure("gauge, 0–100", "", share, "synth", _bunched(gauge), width)
    starved = 0.0
    shares = mean_shares(frame.gpus)
    if shares is not None and shares.time_pct is not None:
        starved = shares_to_100(shares.time_pct)["starved"]
    return lines + _paragraph(_starving(frame, herd, starved), width)


def _starving(frame: Frame, herd: Herd, starved: float) -> str:
    """What the starved time, in per cent, has to do with waves."""
    if starved < 0.05:
        return "No time was starved in this window, so waves cost nothing."
    if herd.stall:
        return f"{herd.stall[0].upper()}{herd.stall[1:]}."
    text = (
        f"{percent(100 * herd.share, digits=0)} % of the starved time ends in a wave of"
        f" {herd.wave_size} or more syntheses: "
    )
    if herd.share >= WAVE_SHARE:
        return f"{text}the GPU starves between waves."
    if herd.share > WAVE_SHARE / 2:
        return f"{text}waves are part of it."
    if frame.verdict.bottleneck in FED_BY:
        return f"{text}waves don't explain it; there are too few syntheses."
    return f"{text}waves don't explain it. {_smaller_part(frame, starved)}"


def _smaller_part(frame: Frame, starved: float) -> str:
    """What is to be said of starved time where something else is the limit."""
    gaps = "" if frame.herd is None else frame.herd.gaps
    what = f"{gaps[0].upper()}{gaps[1:]}. " if gaps else ""
    return (
        f"{what}Starved time is {percent(starved)} % of all here, and isn't what limits the box:"
        " see the verdict."
    )


def missing(frame: Frame) -> list[str]:
    """What would make the verdict surer, most telling first."""
    found: list[str] = []
    source = frame.source
    if source.read_pct is not None:
        found.append(f"the rest of the log: {percent(source.read_pct, digits=0)} % is read")
    if source.lines and frame.no_work_yet:
        found.append("a synthesis: it brings TIMELINE lines")
    elif source.lines and not frame.has_timeline:
        found.append("TIMELINE lines: the daemon's standard error; start it with 2>&1")
    if source.lines and not frame.no_work_yet and not frame.has_timing:
        found.append("CUZK_TIMING lines: the daemon's standard error; start it with 2>&1")
    if source.note:
        found.append(source.note)
    completed = frame.proofs.completed
    if completed is None and source.lines:
        found.append("tracing lines, which alone tell a proof's end: standard output is missing")
    elif completed is not None and completed < FEW_PROOFS:
        found.append(f"proofs: {completed} so far, sure from {FEW_PROOFS} on")
    short = [
        gpu.window.span_ms
        for gpu in frame.gpus
        if gpu.window is not None and gpu.window.span_ms < 950 * frame.window_s
    ]
    if short:
        found.append(
            f"time: the window covers {duration(min(short))} of {frame.window_s:.0f} s so far"
        )
    unread = [gpu for gpu in frame.gpus if gpu.nvml is None]
    if unread:
        which = "" if len(unread) == len(frame.gpus) else f" of GPU {unread[0].gpu}"
        why = f" ({clean(unread[0].nvml_note)})" if unread[0].nvml_note else ""
        found.append(f"NVML's readings{which}{why}: the log's kernel times are an upper bound")
    stale = next((old(gpu.nvml) for gpu in frame.gpus if gpu.nvml and old(gpu.nvml)), "")
    if stale:
        found.append(f"fresh NVML readings: the newest is {stale}")
    ended = [row for row in frame.recent if row.state == "done"]
    unsure = sum(row.attribution != "exact" for row in ended)
    if unsure and frame.has_timing:
        found.append(
            f"certain owners: the lines of {unsure} of {len(ended)} partitions are inferred or"
            " given to none (2, attr:inferred)"
        )
    if any(gpu.window is not None and gpu.window.lock_derived for gpu in frame.gpus):
        found.append("the lock's own lines: this daemon is older than S41, so it is derived")
    if frame.herd is not None and frame.herd.gauge is None and frame.has_timeline:
        found.append("syntheses: eight must have ended for the herding gauge")
    if source.lines and frame.dialect is None:
        found.append("the daemon's version: nothing in this log tells")
    if source.unparsed:
        found.append(f"{source.unparsed} records that began like ours and could not be used")
    host = frame.host
    if host is None or (host.cpu_pct is None and host.memory_used_bytes is None):
        why = f" ({clean(frame.host_note)})" if frame.host_note else ""
        found.append(f"the machine's CPU and memory pressure{why}")
    elif host.psi_memory_pct is None:
        found.append("memory pressure: this kernel gives no stall information (PSI)")
    return found


def _missing(frame: Frame, width: int) -> list[Line]:
    lines = [title("MISSING TO BE SURE", width)]
    found = missing(frame)
    if not found:
        return lines + _paragraph("nothing", width, style="muted")
    return lines + [
        line for text in found for line in _paragraph(text, width, glyph="?", mark="warn")
    ]


def _box(frame: Frame, width: int) -> list[Line]:
    host = frame.host
    if host is None:
        return []
    words = box_words(host)
    if not words:
        return []
    detail = "now, not when the log ended" if frame.source.old else ""
    lines = [title("THE BOX", width, detail=detail), *_paragraph(" · ".join(words), width)]
    if host.missing:
        lines += _paragraph(f"not given here: {clean(host.missing)}", width, style="muted")
    return lines


def _cards(frame: Frame, width: int) -> list[Line]:
    """All that the driver tells of each card; nothing where no card was read."""
    if not any(gpu.nvml is not None and gpu.nvml.reading is not None for gpu in frame.gpus):
        return []
    return [title("THE CARDS", width, detail="as they are now"), *card_lines(frame, width)]


def _status(frame: Frame, width: int) -> list[Line]:
    """What the daemon itself says: a second opinion, and what the log doesn't tell at all."""
    said = frame.status
    if said is None and not frame.status_note:
        return []
    lines = [title("THE DAEMON'S STATUS", width, detail="a second opinion on the log")]
    if said is None:
        return lines + _paragraph(f"not read: {frame.status_note}", width, style="muted")
    if frame.status_note:
        lines += _paragraph(frame.status_note, width, glyph="!", mark="warn", style="warn")
    if words := status_words(said):
        lines += _paragraph(" · ".join(words), width)
    if said.memory_used_bytes is not None:
        used, total = size(said.memory_used_bytes), size(said.memory_total_bytes)
        share = None
        if said.memory_total_bytes:
            share = 100.0 * said.memory_used_bytes / said.memory_total_bytes
        lines += _figure("memory budget", "", share, "section", f"{used} of {total} in use", width)
    for text in resident_words(said):
        lines += _paragraph(clean(text), width, glyph="·")
    return lines


def _settings(frame: Frame, width: int) -> list[Line]:
    lines = [title("THE DAEMON'S SETTINGS", width, detail="as its start-up lines state them")]
    if not frame.settings:
        why = "none seen: the log begins after the start, or standard output is missing"
        return lines + _paragraph(why, width, style="muted") + _not_stated(frame, width)
    longest = max(width_of(clean(name)) for name in frame.settings)
    pairs = [(clean(name), clean(value)) for name, value in sorted(frame.settings.items())]
    column = min(longest, 30) + 2 + max(width_of(value) for _name, value in pairs) + 2
    columns = max(1, (width - 1) // max(1, column)) if column < width else 1
    column = (width - 1) // columns
    rows = -(-len(pairs) // columns)
    for y in range(rows):
        spans: list[Span] = [(" ", "text")]
        for name, value in pairs[y::rows]:
            head = fit(name, min(longest, 30, max(1, column - 8))) + "  "
            spans += [(head, "muted"), (fit(value, max(0, column - width_of(head))), "text")]
        lines.append(clip(spans, width))
    return lines + _not_stated(frame, width)


KNOBS = (
    "synthesis_concurrency",
    "partition_workers",
    "max_parallel_synthesis",
    "total_budget",
    "gpu_workers_per_device",
    "gpu_threads",
)


def _not_stated(frame: Frame, width: int) -> list[Line]:
    """The knobs that the advice names and this log doesn't state."""
    advice = " ".join(frame.verdict.advice)
    named = [knob for knob in KNOBS if knob in advice and knob not in frame.settings]
    return [
        line
        for knob in named
        for line in _paragraph(f"{knob}: not stated in this log", width, style="muted")
    ]


def _alerts(frame: Frame, width: int) -> list[Line]:
    told = merged(frame.alerts)
    detail = f"{sum(one.count for one in told)}, the newest first" if told else ""
    lines = [title("ALERTS", width, detail=detail)]
    if not told:
        return lines + _paragraph("no alert", width, style="muted")
    for one in told:
        glyph, style = LEVELS.get(one.level, LEVELS["info"])
        words = when(one, frame.present_ms)
        text = f"{words}: {one.text}" if words else one.text
        lines += _paragraph(text, width, glyph=glyph, mark=style, style=style)
    return lines


# --------------------------------------------------------------------------------------- the view


LEFT = (_classes, _ladder)
RIGHT = (_jumpy, _herding, _missing, _alerts, _cards, _box, _status, _settings)
NARROW = (
    *(_verdict, _classes, _ladder, _jumpy, _herding, _missing),
    *(_cards, _box, _alerts, _status, _settings),
)
"""The sections, from top to bottom; where there is room they stand in two columns."""


def content(frame: Frame, width: int) -> list[Line]:
    """All sections, `width` cells wide, however many lines they take."""
    if width <= 0:
        return []
    if width < WIDE:
        return _stacked(frame, width, NARROW)
    left_width = (width - GUTTER) * 11 // 20
    right_width = width - GUTTER - left_width
    columns = zip_longest(
        _stacked(frame, left_width, LEFT),
        _stacked(frame, right_width, RIGHT),
    )
    blank_left, blank_right = clip((), left_width), clip((), right_width)
    lines = [*_verdict(frame, width), clip((), width)]
    for left, right_line in columns:
        lines.append((*(left or blank_left), (" " * GUTTER, "text"), *(right_line or blank_right)))
    return lines


def _stacked(
    frame: Frame, width: int, sections: Iterable[Callable[[Frame, int], list[Line]]]
) -> list[Line]:
    """Sections under each other, a blank line between them."""
    lines: list[Line] = []
    for section in sections:
        drawn = section(frame, width)
        if drawn and lines:
            lines.append(clip((), width))
        lines += drawn
    return lines


def draw_diagnosis(frame: Frame, width: int, height: int, *, top: int = 0) -> list[Line]:
    """The sections from line `top` on; the last row says if there is more."""
    return _part(content(frame, width), width, height, top)


def _part(lines: list[Line], width: int, height: int, top: int) -> list[Line]:
    """See `draw_diagnosis`."""
    if width <= 0 or height <= 0:
        return []
    shown = lines[top : top + height]
    left = len(lines) - top - height
    if left > 0 and height >= 3:
        shown[-1] = clip(((f" ↓ {left + 1} more lines", "key"),), width)
    return shown


class DiagnosisView(View):
    """Question 6, in full."""

    number: ClassVar[int] = 6
    view: ClassVar[str] = "diagnosis"

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002 - Textual's word
        """Begin at the verdict."""
        super().__init__(ascii_only=ascii_only, id=id)
        self.top = 0
        self._count = 0

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        """See `draw_diagnosis`."""
        lines = content(frame, width)
        self._count = len(lines)
        self.top = max(0, min(self.top, self._count - height))
        return _part(lines, width, height, self.top)

    def move(self, by: int) -> None:
        """Scroll."""
        self.top = max(0, min(self.top + by, self._count - self.size.height))
        self.redraw()

    def do_row_first(self) -> None:
        """The verdict."""
        self.move(-self._count)

    def do_row_last(self) -> None:
        """The end."""
        self.move(self._count)

    def do_let_go(self) -> None:
        """Back to the verdict."""
        self.move(-self._count)

    def do_details(self) -> None:
        """All alerts in full."""
        self.post_message(TextOpened("Alerts", alert_lines(self.frame)))

    def copy_text(self) -> str:
        """The verdict with its reasons."""
        verdict = self.frame.verdict
        texts = (verdict.sentence, *verdict.evidence, *verdict.advice)
        return "\n".join(clean(text) for text in texts)
