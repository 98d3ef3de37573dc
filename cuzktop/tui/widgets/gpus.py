"""Is the GPU computing? The ladder of each GPU, what its driver measured, and where time goes.

Three shapes, by the room there is: one line a GPU (with its lock's holder), two lines a GPU in two
tables, and a block a GPU in which all bars stand under each other on one scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from cuzktop.cards import rate
from cuzktop.cards import title as card_title
from cuzktop.frame import DISAGREE_PTS, TIME_CLASSES, Frame, Gpu, Nvml, Shares
from cuzktop.tui.messages import Opened
from cuzktop.tui.widgets.cells import (
    CLASS_GLYPHS,
    CLASS_TITLES,
    GAP,
    Line,
    Span,
    bar,
    clean,
    clip,
    fit,
    label,
    line_width,
    right,
    stacked,
    width_of,
    wrap,
)
from cuzktop.tui.widgets.empty import no_shares, reason, sentence
from cuzktop.tui.widgets.lines import Lines
from cuzktop.tui.widgets.lock import STAGES, doubt
from cuzktop.units import age, duration, percent, shares_to_100, size, watts

BLOCK_ROWS = 9  # title, four steps, NVML, power, time and its legend
BLOCKS = 60  # cells that a block needs
TABLES = 72  # cells that the two tables need
FULL_STEPS = 16  # cells that a step's column needs for its whole name
UNITS = 13  # and for its short name with a unit
OLD_MS = 1500.0  # a reading older than this shows its age: they come every second

# step: title, short title, style, the class that lies between it and the step above, in words
LADDER = (
    ("bracket", "bracket", "bracket", "", ""),
    ("lock held", "lock", "lock", "handoff", "handoff: CPU work, lock free"),
    ("GPU section", "section", "section", "lock_overhead", "lock overhead"),
    ("kernel", "kernel", "kernel", "barrier", "barrier: waits for the CPU"),
)
STEP_STYLES = tuple(style for _name, _short, style, *_words in LADDER)
BLANK, BLANKS = (" ", "text"), ("  ", "text")
SOURCES = {"utilization.gpu": "util.gpu"}
SHORT_CLASSES = dict(
    zip(
        TIME_CLASSES,
        ("kernel", "barrier", "overhead", "handoff", "starved", "no work"),
        strict=True,
    )
)
SHORTEST_CLASSES = dict(
    zip(TIME_CLASSES, ("kernel", "barrier", "lock", "hand", "starve", "none"), strict=True)
)


def steps(window: Shares | None) -> tuple[float | None, float | None, float | None, float | None]:
    """The ladder's four shares, widest first."""
    if window is None:
        return (None, None, None, None)
    return (
        window.bracket_union_pct,
        window.lock_held_pct,
        window.gpu_section_pct,
        window.kernel_pct,
    )


def util_of(nvml: Nvml) -> float | None:
    """Utilisation over the window, or the latest where no mean is known."""
    return nvml.util_pct if nvml.mean_util_pct is None else nvml.mean_util_pct


def power_of(nvml: Nvml) -> float | None:
    """Power over the window, or the latest where no mean is known."""
    return nvml.power_w if nvml.mean_power_w is None else nvml.mean_power_w


def of_limit(power_w: float | None, limit_w: float | None) -> float | None:
    """Power in per cent of the limit."""
    return None if power_w is None or not limit_w else 100.0 * power_w / limit_w


def old(nvml: Nvml) -> str:
    """What would mislead: the age of a newest reading that is old, or that the log is older."""
    if nvml.age_ms is not None and nvml.age_ms > OLD_MS:
        return f"{age(nvml.age_ms)} old"
    return "of now" if nvml.of_now else ""


def apart(gpu: Gpu) -> float | None:
    """NVML's utilisation less the log's kernel share, in points, where that needs a word."""
    if gpu.nvml is None or gpu.window is None or gpu.window.kernel_pct is None:
        return None
    if gpu.nvml.of_now:
        return None
    util = util_of(gpu.nvml)
    if util is None or abs(util - gpu.window.kernel_pct) <= DISAGREE_PTS:
        return None
    return util - gpu.window.kernel_pct


def draw_gpus(frame: Frame, width: int, height: int, *, with_holder: bool = True) -> list[Line]:
    """All GPUs in the fullest shape that fits; `with_holder` adds the lock to one-line rows."""
    gpus = frame.gpus
    if height <= 0 or width <= 0:
        return []
    if not gpus:
        why = reason(frame, "no GPU seen yet: waiting for the daemon's first GPU line", brief=False)
        return [_heading(frame, width), *sentence(why, width, height - 1)]
    if height >= BLOCK_ROWS * len(gpus) and width >= BLOCKS:
        return [line for gpu in gpus for line in _block(frame, gpu, width)]
    if height >= 2 * len(gpus) + 2 and width >= TABLES:
        return _two_tables(frame, width)
    return _one_line_each(frame, width, height, with_holder=with_holder)


def _heading(frame: Frame, width: int) -> Line:
    return clip((("GPU", "title"), (f"  last {frame.window_s:.0f} s", "muted")), width)


# ------------------------------------------------------------------------------- one line a GPU


def _one_line_each(frame: Frame, width: int, height: int, *, with_holder: bool) -> list[Line]:
    gpus = frame.gpus
    holder = with_holder and width >= 64
    room = width - 3 - 6 * 4
    nvml = 12 if room >= 64 else 7 if room >= 8 else 0
    power = 6 if room >= 30 else 0
    room -= nvml + power
    holder_width = 32 if holder and room >= 40 else room - 1 if holder else 0
    if holder and room > 60:
        holder_width = min(46, room // 2)
    time_width = max(0, room - holder_width - (2 if holder else 1))
    if time_width < 4:
        time_width = 0
    ladder = [(0, " brack"), (1, "≥ lock"), (2, "≥ sect"), (3, "≥ kern")]
    if width < 27:
        ladder = ladder[::3]  # what looks busy and what is
    head: list[Span] = [("GPU", "title"), *((words, "muted") for _at, words in ladder)]
    shown = gpus if len(gpus) < height else gpus[: max(0, height - 2)]
    unread = _unread(shown, nvml + power - 2) if nvml and power else ()
    if "…" in "".join(unread):
        unread = ()
    if unread:
        head.append((fit("  " + unread[0], nvml + power), "muted"))
    else:
        head.append((fit("  NVML", nvml), "muted"))
        head.append((right("power", power), "muted"))
    if time_width:
        words = f" last {frame.window_s:.0f} s" if time_width >= 10 else f" {frame.window_s:.0f} s"
        head.append((fit(words, min(11, time_width + 1)), "muted"))
        if time_width >= 56:
            for name in TIME_CLASSES[:-1]:
                head += [(CLASS_GLYPHS[name], name), (SHORT_CLASSES[name] + " ", "muted")]
        used = line_width(tuple(head))
        head.append((" " * (3 + 24 + nvml + power + time_width + 1 - used), "muted"))
    if holder_width:
        head.append((fit(" lock holder", holder_width + 1), "muted"))
    lines = [clip(head, width)]
    for at, gpu in enumerate(shown, 1):
        spans: list[Span] = [(f"{gpu.gpu:>2} ", "strong")]
        figures = _figures(gpu, 6)
        spans += [figures[at] for at, _words in ladder]
        if unread:
            why = unread[at] if at < len(unread) else ""
            spans.append((fit("  " + why, nvml + power), "muted"))
        elif nvml:
            spans += _nvml_cell(gpu, nvml)
        if power and not unread:
            nvml_now = gpu.nvml
            text = watts(power_of(nvml_now)) if nvml_now else watts(None)
            style = "muted" if nvml_now is None else "warn" if old(nvml_now) else "power"
            spans.append((right(text, power), style))
        if time_width:
            spans.append((" ", "text"))
            spans += _time_bar(gpu, time_width)
        if holder_width:
            spans.append((" ", "text"))
            spans += _holder(gpu, frame.now_ms, holder_width)
        lines.append(clip(spans, width))
    if len(shown) < len(gpus) and height > 1:
        rest = gpus[len(shown) :]
        kernels = [gpu.window.kernel_pct for gpu in rest if gpu.window is not None]
        known = [share for share in kernels if share is not None]
        least = f", least kernel {percent(min(known))}" if known else ""
        lines.append(clip(((f"   +{len(rest)} more GPUs{least}", "muted"),), width))
    return lines[:height]


def _figures(gpu: Gpu, width: int) -> list[Span]:
    """The ladder's shares as text; the kernel's stands out, for it alone is the GPU at work."""
    window = gpu.window
    derived = window is not None and window.lock_derived
    spans: list[Span] = []
    for style, share in zip(STEP_STYLES, steps(window), strict=True):
        mark = "~" if derived and style == "lock" and share is not None else ""
        tone = "muted" if share is None else "kernel" if style == "kernel" else "text"
        spans.append((right(mark + percent(share), width), tone))
    return spans


def _time_bar(gpu: Gpu, width: int) -> Line:
    shares = None if gpu.window is None else gpu.window.time_pct
    return ((GAP * width, "track"),) if shares is None else stacked(shares, width)


def _nvml_cell(gpu: Gpu, width: int) -> list[Span]:
    if gpu.nvml is None:
        return [(right("–", 6), "muted"), (fit("", width - 6), "muted")]
    stale = old(gpu.nvml)
    source = gpu.nvml.util_source or ""
    style = "warn" if stale else "nvml"
    note = f" {stale}" if stale else f" {SOURCES.get(source, source)}"
    odd = apart(gpu) is not None
    if width <= 7:
        note = "!" if stale else "≠" if odd else ""
    elif odd:
        note = "≠" + note[1:]
    return [(right(percent(util_of(gpu.nvml)), 6), style), (fit(note, width - 6), style)]


def _holder(gpu: Gpu, now_ms: float, width: int) -> list[Span]:
    """Who has the lock, at what, and how many wait: one GPU's lock in one cell."""
    lock = gpu.lock
    waiting = f" +{len(lock.waiting)}○" if lock.waiting else ""
    if lock.holder is None:
        text = "○ can't tell" if lock.confidence == "none" else "○ free"
        if lock.finishing:
            text += f", {len(lock.finishing)} finishing"
        return [(fit(f"{text}{waiting}", width), "muted")]
    holder = lock.holder
    stage, style = STAGES.get(holder.stage or "", STAGES[""])
    who = "" if holder.worker is None else f"w{holder.worker} "
    end = f" {stage} {doubt(lock)}{duration(holder.age_ms(now_ms))}{waiting}"
    room = width - 2 - width_of(who) - width_of(end)
    spans: list[Span] = [("● ", style), (who, "text")]
    if room >= 4:
        spans.append((label(holder.job, holder.partition, min(room, 24)), "text"))
    spans.append((end, style))
    return list(clip(spans, width))


# ------------------------------------------------------------------------------- two lines a GPU


@lru_cache(maxsize=8)
def _ladder_head(column: int) -> Line:
    """The ladder's steps over their columns."""
    head: list[Span] = [("GPU ", "title")]
    unit = " %" if column >= UNITS else ""
    for index, (name, short, *_rest) in enumerate(LADDER):
        text = name if column >= FULL_STEPS else short
        # Without "in" the number's column and this one read like one name: how busy the GPU is.
        mark = "≥" if index else "in"
        head.append((fit(f"{mark} {text}{unit}", column), "muted"))
    return tuple(head)


@lru_cache(maxsize=8)
def _classes_head(width: int, window_s: float) -> tuple[Line, Mapping[str, int], int]:
    """The classes' names over their figures, the columns of these, and the width of the bar.

    They stand there so that the second table needs no legend.
    """
    names = SHORT_CLASSES if width < 110 else CLASS_TITLES
    gap = 1 if width < 110 else 2
    columns = {name: width_of(names[name]) + 1 + gap for name in TIME_CLASSES}
    bar_width = width - 4 - sum(columns.values())
    words = f"where the last {window_s:.0f} s went, %"
    if width_of(words) > bar_width:
        words = f"% of the last {window_s:.0f} s"
    head: list[Span] = [(fit("    " + words, 4 + bar_width), "muted")]
    for name in TIME_CLASSES:
        head.append((" " * gap + CLASS_GLYPHS[name], name))
        head.append((names[name], "muted"))
    return clip(head, width), columns, bar_width


def _two_tables(frame: Frame, width: int) -> list[Line]:
    gpus = frame.gpus
    wide = width >= 110
    nvml_width, power_width = (20, 22) if wide else (14, 10)
    column = (width - 4 - nvml_width - power_width) // 4
    head = list(_ladder_head(column))
    measured = width - 4 - 4 * column
    unread = _unread(gpus, measured)
    if unread:
        head.append((fit(unread[0], measured), "muted"))
    else:
        head.append((fit("NVML", nvml_width), "muted"))
        head.append((fit("power", measured - nvml_width), "muted"))
    lines: list[Line] = [tuple(head)]
    for at, gpu in enumerate(gpus, 1):
        spans: list[Span] = [(f"{gpu.gpu:>2}  ", "strong")]
        for style, figure, share in zip(
            STEP_STYLES, _figures(gpu, 5), steps(gpu.window), strict=True
        ):
            spans += (figure, BLANK, bar(share, column - 8, style), BLANKS)
        if unread:
            spans.append((fit(unread[at] if at < len(unread) else "", measured), "muted"))
        elif gpu.nvml is None:
            spans.append((fit(_why_unread(gpu), measured), "muted"))
        else:
            odd = apart(gpu) is not None
            spans += _nvml_words(gpu.nvml, nvml_width, mark="≠" if odd else " ")
            spans += _power_words(gpu.nvml, measured - nvml_width)
        lines.append(clip(spans, width))
    if all(gpu.window is None or gpu.window.time_pct is None for gpu in gpus):
        why = no_shares(frame, brief=False)
        return lines + sentence(why, width, len(gpus) + 1)
    classes, columns, bar_width = _classes_head(width, frame.window_s)
    lines.append(classes)
    for gpu in gpus:
        spans = [(f"{gpu.gpu:>2}  ", "strong")]
        shares = None if gpu.window is None else gpu.window.time_pct
        if shares is None:
            why = no_shares(frame)
            spans.append((fit(why, width - 4), "muted"))
        else:
            spans += stacked(shares, bar_width)
            for name, share in shares_to_100(shares).items():
                spans.append((right(percent(share), columns[name]), name))
        lines.append(clip(spans, width))
    return lines


def _why_unread(gpu: Gpu) -> str:
    """Why a card isn't measured, where a column's head names NVML already."""
    return clean(gpu.nvml_note).removeprefix("NVML ") or "not asked"


def _unread(gpus: Sequence[Gpu], width: int) -> tuple[str, ...]:
    """Why no card is measured, in lines for the columns' head and rows; empty if one is.

    One reason for all needs no columns, and with them it would hardly fit.
    """
    why = {_why_unread(gpu) if gpu.nvml is None else "" for gpu in gpus}
    if len(why) != 1 or "" in why:
        return ()
    text = f"NVML, power: – {why.pop().partition(' (trying again')[0]}"
    return wrap(text, width, width, len(gpus) + 1)


def _nvml_words(nvml: Nvml, width: int, *, mark: str) -> list[Span]:
    util = percent(util_of(nvml))
    stale = old(nvml)
    source = nvml.util_source or ""
    words = stale or SOURCES.get(source, source)
    return [
        (f"{right(util, 4)}{mark}", "warn" if stale or mark != " " else "nvml"),
        (fit(words, width - 6) + " ", "warn" if stale else "muted"),
    ]


def _power_words(nvml: Nvml, width: int) -> list[Span]:
    power_w = power_of(nvml)
    share = of_limit(power_w, nvml.power_limit_w)
    text = f"{watts(power_w)} {percent(share, digits=0)}%" if share is not None else watts(power_w)
    if width >= 20 and share is not None:
        text = f"{watts(power_w)}, {percent(share, digits=0)} % of limit"
    return [(fit(text, width), "warn" if old(nvml) else "power")]


# --------------------------------------------------------------------------------- a block a GPU


def _block(frame: Frame, gpu: Gpu, width: int) -> list[Line]:
    note_width = 46 if width >= 116 else 36 if width >= 90 else 0
    bar_width = max(4, width - 20 - note_width)
    lines = [_block_title(frame, gpu, width)]
    above: float | None = None
    shares = None if gpu.window is None else gpu.window.time_pct
    for (name, _short, style, between, words), figure, share in zip(
        LADDER, _figures(gpu, 6), steps(gpu.window), strict=True
    ):
        note: list[Span] = []
        if above is not None and share is not None and note_width:
            drop = above - share
            loud = drop > DISAGREE_PTS
            if drop >= 0.05:
                note = [
                    (f"  −{percent(drop)}".ljust(8), between if loud else "muted"),
                    (fit(words, note_width - 8), "strong" if loud else "muted"),
                ]
        above = share if share is not None else above
        spans = [
            (fit(f" {name}", 12), "text" if style != "kernel" else "strong"),
            figure,
            (" ", "text"),
        ]
        lines.append(clip((*spans, bar(share, bar_width, style), *note), width))
    lines += _measured(gpu, width, bar_width, note_width)
    if shares is None:
        why = no_shares(frame, brief=False)
        lines += sentence(why, width, 2)
    else:
        legend = _legend(shares_to_100(shares), width)
        lines.append(clip(((fit(" time", 19), "text"), *stacked(shares, bar_width)), width))
        lines.append(clip(legend, width))
    lines += [((" " * width, "text"),)] * (BLOCK_ROWS - len(lines))
    return lines[:BLOCK_ROWS]


def _legend(shares: Mapping[str, float], width: int) -> list[Span]:
    """The classes with their figures, in the longest words that fit into `width` cells."""
    legend: list[Span] = []
    for names, gap in ((CLASS_TITLES, 3), (SHORT_CLASSES, 1), (SHORTEST_CLASSES, 1)):
        legend = [(" " * (12 if width >= 116 else 1), "text")]
        for name, share in shares.items():
            legend.append((CLASS_GLYPHS[name], name))
            legend.append((f"{names[name]} ", "muted"))
            legend += [(percent(share), name), (" " * gap, "text")]
        legend.pop()
        if line_width(tuple(legend)) <= width:
            break
    return legend


def _block_title(frame: Frame, gpu: Gpu, width: int) -> Line:
    name = "" if gpu.nvml is None or not gpu.nvml.name else f" {clean(gpu.nvml.name)}"
    workers = " ".join(f"w{worker}" for worker in gpu.workers)
    detail = f"{name}  {workers}" if workers else name
    span_s = frame.window_s if gpu.window is None else gpu.window.span_ms / 1000
    end = f" % of the last {span_s:.0f} s"
    text = fit(detail, min(width_of(detail), max(0, width - 8 - width_of(end))))
    title = card_title(gpu.gpu, gpu.window)
    rule = width - 1 - len(title) - width_of(text) - width_of(end)
    return clip(
        (
            (title, "title"),
            (text, "muted"),
            (" " + "─" * max(0, rule), "rule"),
            (end, "muted"),
        ),
        width,
    )


def _measured(gpu: Gpu, width: int, bar_width: int, note_width: int) -> list[Line]:
    """NVML's utilisation and the power meter, on the same scale as the ladder."""
    nvml = gpu.nvml
    if nvml is None:
        why = gpu.nvml_note or "NVML was not asked"
        return [
            clip(
                (
                    (fit(" NVML util", 12), "text"),
                    (right("–", 6), "muted"),
                    (" ", "text"),
                    (clean(why), "muted"),
                ),
                width,
            ),
            clip(((fit(" power", 12), "text"), (right("–", 6), "muted")), width),
        ]
    util, power_w = util_of(nvml), power_of(nvml)
    stale = old(nvml)
    said = [SOURCES.get(nvml.util_source or "", nvml.util_source or "source unknown")]
    between = apart(gpu)
    if between is not None:
        why = "idle in its stages" if between < 0 else "not in this log"
        said[0] += f" {'−' if between < 0 else '+'}{percent(abs(between))}: {why}"
    said.append(stale or f"now {percent(nvml.util_pct, digits=0)}")
    if nvml.memory_used_bytes is not None:
        said.append(f"{size(nvml.memory_used_bytes)}/{size(nvml.memory_total_bytes)}")
    share = of_limit(power_w, nvml.power_limit_w)
    drawn = [f"{watts(power_w)} of {watts(nvml.power_limit_w)}"]
    if nvml.sm_clock_mhz is not None:
        drawn.append(f"{nvml.sm_clock_mhz} MHz")
    if nvml.temperature_c is not None:
        drawn.append(f"{nvml.temperature_c} °C")
    reading = nvml.reading
    if reading is not None and reading.host_to_device_bytes_per_s is not None:
        drawn.append(f"host to device {rate(reading.host_to_device_bytes_per_s)}")
    if nvml.held_down:
        drawn.append(f"held down: {clean(nvml.held_down)}")
    if nvml.note:
        said.append(clean(nvml.note))
    lines = []
    for name, figure, style, words in (
        ("NVML util", util, "nvml", said),
        ("power", share, "power", drawn),
    ):
        loud = "warn" if stale else "strong" if between is not None and words is said else "muted"
        while len(words) > 1 and width_of(" · ".join(words)) > note_width - 2:
            words.pop()
        # Without room for notes the bar makes some for what would mislead.
        room = note_width or (width_of(stale) + 2 if stale else 0)
        note = [("  " + fit(" · ".join(words) if note_width else stale, room - 2), loud)]
        lines.append(
            clip(
                (
                    (fit(f" {name}", 12), "text"),
                    (right(percent(figure), 6), style),
                    (" ", "text"),
                    bar(figure, bar_width if note_width else max(0, bar_width - room), style),
                    *(note if room else []),
                ),
                width,
            )
        )
    return lines


class GpusPanel(Lines, can_focus=True):
    """Questions 1 and 2: is the GPU computing, and where does the rest go."""

    with_holder = True

    def name_holders(self, *, wanted: bool) -> None:
        """Whether one-line rows name the lock's holder: they do where no other panel does."""
        if wanted != self.with_holder:
            self.with_holder = wanted
            self.draw_anew()

    def made_of(self, frame: Frame) -> object:
        """See `Lines`; a lock's holder has an age that is never the same."""
        if self.with_holder or not frame.gpus:
            return frame
        measured = [(gpu.window, gpu.nvml, gpu.nvml_note, gpu.workers) for gpu in frame.gpus]
        return measured, frame.has_timeline, frame.has_timing

    def on_click(self) -> None:
        """Show all that is known of the cards."""
        self.post_message(Opened(self))

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        """See `draw_gpus`."""
        return draw_gpus(frame, width, height, with_holder=self.with_holder)
