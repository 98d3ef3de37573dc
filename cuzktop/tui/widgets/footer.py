"""The last line: keys, where the log comes from, how far it was read, and our own cost."""

from __future__ import annotations

from functools import lru_cache

from textual.reactive import var

from cuzktop.frame import Frame
from cuzktop.tui.keys import KEYS, VIEWS
from cuzktop.tui.widgets.cells import Line, Span, beside, clean, count, fit, line_width, width_of
from cuzktop.tui.widgets.lines import Lines
from cuzktop.units import age, percent, size

NUMBERS = {name: str(number) for number, (name, _title, _says) in enumerate(VIEWS, 1)}
QUIET_MS = 2000.0  # where room is short, a log that has been quiet for less needs no word
# Where a view has keys of its own, these go first when there is no room.
LAST = {"next_slow": 1, "next_failure": 2, "next_stall": 3, "pause": 4, "command_palette": 5}
OWN = ("cuzktop ", "own ", "")  # whose CPU and memory it is, the shorter the narrower
FACTS = (
    (60, True, True),
    (24, True, True),
    (24, False, True),
    (12, False, True),
    (24, False, False),
    (12, False, False),
    (10, False, False),
)
"""How the source is shown as it gets narrow: cells of its path, long words, counts of lines."""

OTHERS: Line = ((f" 1-{len(VIEWS)}", "key"), (" views", "muted"))
TITLES = {name: title for name, title, _says in VIEWS}


def draw_footer(
    frame: Frame,
    width: int,
    *,
    interval_s: float = 1.0,
    behind: int | None = None,
    view: str = "overview",
    said: str = "",
    deck: str = "",
) -> list[Line]:
    """View and keys at the left, the source and our cost at the right; `behind` events if paused.

    `said` answers the latest key, in the place of the source and of what else has no room; `deck`
    is what is played or recorded.
    """
    if width <= 0:
        return []
    badge, left = _keys(view, behind, deck, wide=width >= 100, slim=width < 40)
    if said:
        words = f" {clean(said)} "
        while left and line_width((*badge, *left)) + width_of(words) > width:
            left = left[:-2]
        room = width - line_width((*badge, *left))
        return [beside((*badge, *left), [(fit(words, min(room, width_of(words))), "warn")], width)]
    # In the first view it is news that there are others; in the others their own keys are.
    left = (*badge, *OTHERS, *left) if view == "overview" else (*badge, *left, *OTHERS)
    used = line_width(left)
    for path_room, long_words, counts in FACTS:
        for own in OWN:
            facts = _facts(
                frame, path_room, interval_s, long_words=long_words, counts=counts, own=own
            )
            if used + line_width(facts) <= width:
                return [beside(left, facts, width)]
    least = len(badge) + 4
    while len(left) > least and line_width(left) + line_width(facts) > width:
        left = left[:-2]
    for own in OWN:  # what is left beside a key that had to go
        longer = _facts(frame, FACTS[-1][0], interval_s, long_words=False, counts=False, own=own)
        if line_width(left) + line_width(longer) <= width:
            return [beside(left, longer, width)]
    while facts and line_width(left) + line_width(facts) > width:
        facts = facts[1:]
    return [beside(left, facts, width)]


@lru_cache(maxsize=16)
def _keys(view: str, behind: int | None, deck: str, *, wide: bool, slim: bool) -> tuple[Line, Line]:
    """What stands at the left end, and the keys behind it."""
    number = NUMBERS[view]
    left: list[Span] = []
    shown = [
        key
        for key in KEYS
        if key.footer and (not key.views or (number in key.views and number != "1"))
    ]
    shown.sort(key=lambda key: LAST.get(key.action, 0))
    for key in shown:
        paused = behind is not None and key.action == "pause"
        spans: list[Span] = [
            (f" {key.shown.split()[0]}", "key"),
            (" go on" if paused else f" {key.footer}", "muted"),
        ]
        left = [*spans, *left] if paused else [*left, *spans]
    name = f"{number} {TITLES[view]}"
    badge: list[Span] = [(f" {name} " if wide else name, "badge-quiet")]
    if behind is not None:
        badge = [(f" PAUSED +{behind} events ", "badge-pause"), (f" {number}", "muted"), *badge[1:]]
    if deck:
        badge = [(f" {clean(deck)} ", "badge-pause"), (" ", "muted"), *badge]
    if slim:
        badge = badge[:1] if behind is not None or deck else [(f" {number} ", "badge-quiet")]
    return tuple(badge), tuple(left)


def _facts(
    frame: Frame, path_room: int, interval_s: float, *, long_words: bool, counts: bool, own: str
) -> list[Span]:
    source = frame.source
    facts: list[Span] = []
    if source.path:
        path = clean(source.path)
        if width_of(path) > path_room:
            path = path.rpartition("/")[2]
        facts.append((f" {fit(path, min(width_of(path), path_room))}", "text"))
    if counts:
        lines, events = (" lines", " events") if long_words else ("ln", "ev")
        facts.append((f" {count(source.lines)}{lines} {count(source.events)}{events}", "muted"))
    if source.unparsed:
        facts.append((f" {count(source.unparsed)} unparsed", "warn"))
    if source.silent_ms is not None and (long_words or source.silent_ms >= QUIET_MS):
        word = "silent" if long_words else "quiet"
        late = source.silent_ms >= 30_000
        facts.append((f" {word} {age(source.silent_ms)}", "warn" if late else "muted"))
    if long_words:
        facts.append((f" every {interval_s:g} s", "muted"))
    host = frame.host
    if host is not None and (host.own_cpu_pct is not None or host.own_rss_bytes is not None):
        facts.append((f" {own}{percent(host.own_cpu_pct)}% {size(host.own_rss_bytes)}", "muted"))
    return facts


class FooterPanel(Lines):
    """Keys, source and cost; when paused, how much has happened since."""

    interval_s: var[float] = var(1.0)
    behind: var[int | None] = var[int | None](None)
    view: var[str] = var("overview")
    said: var[str] = var("")
    deck = ""  # what is played or recorded: drawn with a frame, by which its time goes on

    def made_of(self, frame: Frame) -> object:
        """See `Lines`: of the silence, the seconds."""
        of = frame.source
        silent_s = None if of.silent_ms is None else of.silent_ms // 1000
        return of.path, of.lines, of.events, of.unparsed, silent_s, frame.host, self.deck

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:  # noqa: ARG002 - one line
        """See `draw_footer`."""
        return draw_footer(
            frame,
            width,
            interval_s=self.interval_s,
            behind=self.behind,
            view=self.view,
            said=self.said,
            deck=self.deck,
        )

    def watch_interval_s(self) -> None:
        """Show the new interval."""
        self.redraw()

    def watch_behind(self) -> None:
        """Show that the picture is frozen, or that it isn't any more."""
        self.redraw()

    def watch_view(self) -> None:
        """Name the view and its keys."""
        self.redraw()

    def watch_said(self) -> None:
        """Answer a key, or be done with it."""
        self.redraw()
