"""What limits the box, in a sentence; and the newest thing that went wrong."""

from __future__ import annotations

from collections.abc import Iterator

from cuzktop.frame import Frame, Verdict
from cuzktop.tui.messages import Opened
from cuzktop.tui.widgets.alerts import LEVELS, notice
from cuzktop.tui.widgets.cells import (
    Line,
    Span,
    beside,
    clean,
    clip,
    fit,
    line_width,
    width_of,
    wrap,
)
from cuzktop.tui.widgets.lines import Lines
from cuzktop.units import age, percent, size

# kind: glyph, word, style of the badge
BADGES = {
    "gpu": ("●", "GPU-BOUND", "badge-good"),
    "cpu-memory": ("▲", "CPU/MEMORY", "badge-warn"),
    "lock": ("▲", "LOCK", "badge-warn"),
    "synthesis": ("▲", "SYNTHESIS", "badge-warn"),
    "herding": ("▲", "HERDING", "badge-warn"),
    "idle": ("○", "IDLE", "badge-quiet"),
    "unknown": ("?", "CAN'T TELL", "badge-quiet"),
}


REASONS = (": ", "; ", ". ", " (", ", or ", " or, ", " or the ", ", so that ", ", while ", ", for ")
"""Where the words of an advice may end: what follows is why, or what else could be done."""
MORE = "press 6 for why"  # the view that has all of the verdict


def certainty(verdict: Verdict) -> str:
    """How sure the verdict is, in words a person uses."""
    return f"{percent(100 * verdict.confidence, digits=0)} % sure" if verdict.confidence > 0 else ""


def draw_verdict(frame: Frame, width: int, height: int) -> list[Line]:
    """Badge, certainty and sentence; below them, where there is room, advice and evidence."""
    verdict = frame.verdict
    glyph, word, style = BADGES.get(verdict.bottleneck, BADGES["unknown"])
    badge = f" {glyph} {word} " if width >= 40 else f"{glyph} "
    sure = f" {certainty(verdict)} " if width >= 40 and certainty(verdict) else " "
    head: list[Span] = [(badge, style), (sure, "muted")]
    used = width_of(badge) + width_of(sure)
    first = max(1, width - used)
    rest = max(1, width - 1)
    rows = height
    if verdict.advice and height >= 3:  # the last row is for what to try, if the rest is enough
        short = _that_fits(verdict.sentence, first, rest, height - 1)
        rows -= _fits(short, first, rest, height - 1)
    sentence = wrap(_that_fits(verdict.sentence, first, rest, rows), first, rest, rows)
    lines = [clip((*head, (sentence[0], "strong")), width)]
    lines += [clip(((" ", "text"), (text, "strong")), width) for text in sentence[1:]]
    room = height - len(lines)
    for glyph, texts in (("→", verdict.advice), ("·", verdict.evidence)):
        for text in texts:
            if room <= 0:
                return lines
            words = max(1, width - 3)
            shown = _in_short(text, words, min(room, 2)) if glyph == "→" else text
            wrapped = wrap(shown, words, words, min(room, 2))
            lines += [
                clip(((f" {glyph if y == 0 else ' '} ", "muted"), (part, "text")), width)
                for y, part in enumerate(wrapped)
            ]
            room = height - len(lines)
    return lines


def _fits(text: str, first: int, rest: int, rows: int) -> bool:
    return wrap(text, first, rest, rows) == wrap(text, first, rest, rows + 1)


def _that_fits(text: str, first: int, rest: int, rows: int) -> str:
    """`text` without the last sentences if it fits then; as it is if that doesn't help."""
    shorter = text
    while shorter and not _fits(shorter, first, rest, rows):
        shorter = shorter.rpartition(". ")[0]
    return text if shorter in {"", text} else f"{shorter}."


def _in_short(text: str, width: int, rows: int) -> str:
    """An advice: whole, or what to do with as many of its reasons as fit; view 6 has all."""
    if _fits(text, width, width, rows):
        return text
    ends = {
        at
        for mark in REASONS
        for at in _all(text, mark)
        if text.count("(", 0, at) == text.count(")", 0, at)
    }
    for more in (f" ({MORE}, and what would prove it wrong)", f" ({MORE})"):
        for at in sorted(ends, reverse=True):
            if _fits(text[:at] + more, width, width, rows):
                return text[:at] + more
    *above, last = wrap(text, width, width, rows)
    more = f" ({MORE})"
    if width_of(more) > width // 2:
        return text
    return " ".join((*above, fit(last, width - width_of(more)).rstrip() + more))


def _all(text: str, mark: str) -> Iterator[int]:
    """Where `mark` stands in `text`."""
    at = text.find(mark)
    while at >= 0:
        yield at
        at = text.find(mark, at + 1)


def draw_notice(frame: Frame, width: int, height: int) -> list[Line]:
    """The newest error or warning, or what the source lacks."""
    found = notice(frame)
    if found is None:
        return []
    level, old, text = found
    glyph, style = LEVELS.get(level, LEVELS["info"])
    head = f" {glyph} {old} " if old else f" {glyph} "
    body = wrap(text, max(1, width - width_of(head)), max(1, width - 3), height)
    return [
        clip(((head if y == 0 else "   ", style), (part, style)), width)
        for y, part in enumerate(body)
    ]


def draw_header(frame: Frame, width: int, name: str) -> list[Line]:
    """One line: what this is, the machine and the daemon, the run and the time."""
    left: list[Span] = [(" cuzktop ", "strong"), (clean(name), "muted")]
    host = frame.host
    now = " now" if frame.source.old else ""  # the rest is of the log's end
    facts: list[tuple[int, str]] = []  # rank, words: a high rank goes first where it is narrow
    if host is not None:
        if host.daemon_cpu_pct is not None or host.daemon_rss_bytes is not None:
            cpu = percent(host.daemon_cpu_pct, digits=0)
            facts.append((1, f"daemon{now} {cpu} % of a core, {size(host.daemon_rss_bytes)}"))
        if host.cpu_pct is not None:
            facts.append((2, f"box CPU{now} {percent(host.cpu_pct, digits=0)} %"))
        if host.memory_used_bytes is not None:
            used, total = size(host.memory_used_bytes), size(host.memory_total_bytes)
            facts.append((4, f"memory{now} {used}/{total}"))
        if host.psi_memory_pct is not None:
            facts.append((3, f"stalled{now} on memory {percent(host.psi_memory_pct)} %"))
        if host.psi_cpu_pct is not None:
            facts.append((6, f"stalled{now} on CPU {percent(host.psi_cpu_pct)} %"))
    elif frame.host_note:
        facts.append((2, clean(frame.host_note)))
    if frame.dialect is not None:
        facts.append((7, frame.dialect))
    if frame.run:
        facts.append((5, f"run {frame.run}"))
    if frame.at is not None:
        at = clean(frame.at[11:19]) + " UTC"
        if frame.source.old:
            at = f"log ended {at}, {age(frame.source.silent_ms)} ago"
        facts.append((0, at))
    room = width - line_width(tuple(left)) - 2
    while facts and width_of(" · ".join(words for _rank, words in facts)) > room:
        facts.remove(max(facts))
    text = " · ".join(words for _rank, words in facts)
    return [beside(left, [(f" {text} ", "muted")] if text else [], width)]


class VerdictPanel(Lines, can_focus=True):
    """Question 6, first: what limits the box, how sure that is, and what to try."""

    def on_click(self) -> None:
        """Show the evidence."""
        self.post_message(Opened(self))

    def made_of(self, frame: Frame) -> object:
        """See `Lines`: its words, which often stay while their figures are taken anew."""
        verdict = frame.verdict
        words = verdict.sentence, verdict.evidence, verdict.advice
        return verdict.bottleneck, verdict.confidence, words

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        """See `draw_verdict`."""
        return draw_verdict(frame, width, height)


class NoticePanel(Lines, can_focus=True):
    """What went wrong last; takes no room while nothing has."""

    def on_click(self) -> None:
        """Show all that went wrong."""
        self.post_message(Opened(self))

    def made_of(self, frame: Frame) -> object:
        """See `Lines`."""
        return notice(frame)

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        """See `draw_notice`."""
        return draw_notice(frame, width, height)


class HeaderPanel(Lines):
    """The machine, the daemon and the time, where there is room for them."""

    def made_of(self, frame: Frame) -> object:
        """See `Lines`: of the time, the seconds."""
        at = None if frame.at is None else frame.at[:19]
        return frame.host, frame.host_note, frame.dialect, frame.run, at

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:  # noqa: ARG002 - one line
        """See `draw_header`."""
        return draw_header(frame, width, self.app.title)
