"""The last line: keys, where the log comes from, how far it was read, and our own cost."""

from __future__ import annotations

from textual.reactive import var

from cuzktop.frame import Frame
from cuzktop.tui.keys import KEYS
from cuzktop.tui.widgets.cells import Line, Span, beside, clean, count, fit, line_width, width_of
from cuzktop.tui.widgets.lines import Lines
from cuzktop.units import age, percent, size


def draw_footer(
    frame: Frame, width: int, *, interval_s: float = 1.0, behind: int | None = None
) -> list[Line]:
    """Keys at the left, the source and our cost at the right; `behind` events if paused."""
    if width <= 0:
        return []
    left: list[Span] = []
    for key in KEYS:
        if not key.footer:
            continue
        paused = behind is not None and key.action == "pause"
        spans: list[Span] = [
            (f" {key.shown.split()[0]}", "key"),
            (" go on" if paused else f" {key.footer}", "muted"),
        ]
        left = [*spans, *left] if paused else [*left, *spans]
    if behind is not None:
        left.insert(0, (f" PAUSED +{behind} events ", "badge-pause"))
    else:
        left[0] = (left[0][0].lstrip(), left[0][1])
    for path_room, long_words in ((60, True), (24, True), (24, False), (12, False), (10, False)):
        facts = _facts(frame, path_room, interval_s, long_words=long_words)
        if line_width(tuple(left)) + line_width(tuple(facts)) <= width:
            return [beside(left, facts, width)]
    facts = _facts(frame, 10, interval_s, long_words=False)
    while len(left) > 4 and line_width(tuple(left)) + line_width(tuple(facts)) > width:
        left = left[:-2]
    while facts and line_width(tuple(left)) + line_width(tuple(facts)) > width:
        facts = facts[1:]
    return [beside(left, facts, width)]


def _facts(frame: Frame, path_room: int, interval_s: float, *, long_words: bool) -> list[Span]:
    source = frame.source
    facts: list[Span] = []
    if source.path:
        path = clean(source.path)
        if width_of(path) > path_room:
            path = path.rpartition("/")[2]
        facts.append((f" {fit(path, min(width_of(path), path_room))}", "text"))
    lines, events = (" lines", " events") if long_words else ("ln", "ev")
    facts.append((f" {count(source.lines)}{lines} {count(source.events)}{events}", "muted"))
    if source.unparsed:
        facts.append((f" {count(source.unparsed)} unparsed", "warn"))
    if source.silent_ms is not None:
        word = "silent" if long_words else "quiet"
        late = source.silent_ms >= 30_000
        facts.append((f" {word} {age(source.silent_ms)}", "warn" if late else "muted"))
    if long_words:
        facts.append((f" every {interval_s:g} s", "muted"))
    host = frame.host
    if host is not None and (host.own_cpu_pct is not None or host.own_rss_bytes is not None):
        word = "cuzktop " if long_words else ""
        facts.append((f" {word}{percent(host.own_cpu_pct)}% {size(host.own_rss_bytes)}", "muted"))
    return facts


class FooterPanel(Lines):
    """Keys, source and cost; when paused, how much has happened since."""

    interval_s: var[float] = var(1.0)
    behind: var[int | None] = var[int | None](None)

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:  # noqa: ARG002 - one line
        """See `draw_footer`."""
        return draw_footer(frame, width, interval_s=self.interval_s, behind=self.behind)

    def watch_interval_s(self) -> None:
        """Show the new interval."""
        self.redraw()

    def watch_behind(self) -> None:
        """Show that the picture is frozen, or that it isn't any more."""
        self.redraw()
