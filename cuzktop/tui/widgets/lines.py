"""A widget that draws its own lines and refreshes those that changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from cuzktop.frame import Frame
from cuzktop.tui.palette import look
from cuzktop.tui.widgets.brush import PLAIN, Brush, Inks
from cuzktop.tui.widgets.cells import Line, differences, line_width, moved_down, to_ascii

EMPTY = Frame()


class Lines(Widget):
    """A panel that is given frames and draws lines.

    Subclasses make the lines as plain data (`draw`). They are compared with the lines before, and
    only the rows that differ become strips and are refreshed: that is what keeps the cost of a
    tick near that of a plain program (a `DataTable` costs ten times as much).
    """

    DEFAULT_CSS = """
    Lines { width: 1fr; height: 1fr; }
    """

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002 - Textual's word
        """Draw with ASCII alone if `ascii_only`."""
        super().__init__(id=id)
        self.ascii_only = ascii_only
        self.placed = True  # the overview leaves out what has no room
        self.frame = EMPTY  # what is shown
        self._lines: list[Line] = []
        self._shape: tuple[int, int] | None = None  # that the lines were made for; None: not yet
        self._made_of: object = None
        self._rich_styles: dict[str, Style] = {}
        self._inks = Inks(self._ink)

    def draw(self, frame: Frame, width: int, height: int) -> Sequence[Line]:
        """At most `height` lines, each exactly `width` cells wide; missing ones stay blank."""
        raise NotImplementedError

    def allow_focus(self) -> bool:
        """A panel without room can't take the focus, and Tab passes it over."""
        return self.placed and super().allow_focus()

    def made_of(self, frame: Frame) -> object:
        """What of a frame the lines are made of: as long as it is equal, they are as well."""
        return frame

    def show(self, frame: Frame, brush: Brush | None = None) -> None:
        """Draw a new frame if it can be seen and tells this panel something new."""
        self.frame = frame
        made_of = self.made_of(frame)
        told_something = made_of != self._made_of
        self._made_of = made_of
        if told_something or self._shape is None:
            self.redraw(brush)

    def redraw(self, brush: Brush | None = None) -> None:
        """Make the lines again, and write those that differ with the brush, or refresh them."""
        left, top, width, height = self.region if brush is None else brush.place(self)
        if not self.placed or width <= 0 or height <= 0:
            self._shape = None
            return
        if self._shape != (width, height):
            self._draw_all(width, height)
            self.refresh()
            return
        before = self._lines
        self._draw_all(width, height)
        if brush is not None and brush.width == width:
            before = self._push_down(before, brush, top)
        changed = [
            (y, differences(old, new))
            for y, (old, new) in enumerate(zip(before, self._lines, strict=True))
            if old is not new and old != new
        ]
        if not changed:
            return
        if brush is None:
            self.refresh(
                *[Region(at, y, line_width(it), 1) for y, pieces in changed for at, it in pieces]
            )
            return
        # For the next time that Textual draws all.
        first, last = changed[0][0], changed[-1][0]
        self._styles_cache.set_dirty(Region(0, first, width, last - first + 1))
        brush.write(left, top, changed, self._inks, to_ascii if self.ascii_only else None)

    def _push_down(self, before: list[Line], brush: Brush, top: int) -> list[Line]:
        """Move what only moves down, such as finished rows under new ones; what then stands."""
        moved = moved_down(before, self._lines)
        if moved is None:
            return before
        first, by = moved
        rows = len(before)
        brush.push_down(top + first, top + rows - 1, by)
        self._styles_cache.set_dirty(Region(0, first, brush.width, rows - first))
        return [*before[:first], *[()] * by, *before[first : rows - by]]

    def watch_has_focus(self, has_focus: bool) -> None:  # noqa: FBT001 - Textual's signature
        """Show that keys come here, or that they don't any more."""
        super().watch_has_focus(has_focus)
        self.redraw()

    def draw_anew(self) -> None:
        """Make and refresh all lines, whatever was shown."""
        self._shape = None
        self.redraw()

    def on_show(self) -> None:
        """Catch up with the frames that came while there was no room."""
        self.draw_anew()

    def _draw_all(self, width: int, height: int) -> None:
        lines = list(self.draw(self.frame, width, height)[:height])
        lines.extend([((" " * width, "text"),)] * (height - len(lines)))
        self._lines = lines
        self._shape = width, height

    def render_line(self, y: int) -> Strip:
        """One row as a strip, in the colours of the style sheet."""
        width, height = self.size
        if self._shape != (width, height):
            self._draw_all(width, height)
        if y >= len(self._lines):
            return Strip.blank(width)
        runs = self._runs(self._lines[y])
        return Strip([Segment(text, self._style(name)) for name, text in runs], width)

    def _runs(self, line: Line) -> Iterator[tuple[str, str]]:
        """Each style and its text; neighbours of one style are one segment."""
        for name, spans in groupby(line, key=itemgetter(1)):
            text = "".join([text for text, _ in spans])
            yield name, to_ascii(text) if self.ascii_only else text

    def notify_style_update(self) -> None:
        """Forget the colours when the style sheet or the theme changes."""
        self._rich_styles = {}
        self._inks.clear()
        super().notify_style_update()

    def _ink(self, name: str) -> str:
        """What the terminal is sent before a text of style `name`, whatever came before."""
        strip = Strip([Segment("x", self._style(name))])
        background = self.background_colors[1]
        for line_filter in self.get_line_filters():
            strip = strip.apply_filter(line_filter, background)
        colours = strip.render(self.app.console).partition("x")[0]
        return colours.replace("\x1b[", "\x1b[0;", 1) or PLAIN

    def _style(self, name: str) -> Style:
        """The look `name` on this panel's ground."""
        style = self._rich_styles.get(name)
        if style is None:
            app = self.app
            style = Style(bgcolor=self.background_colors[1].rich_color)
            style += look(name, app.theme_variables, colour=not app.no_color)
            self._rich_styles[name] = style
        return style

    @property
    def lines(self) -> tuple[str, ...]:
        """What is shown, as text without colours."""
        width, height = self.size
        if self._shape != (width, height):
            self._draw_all(width, height)
        to_text = to_ascii if self.ascii_only else str
        return tuple("".join(to_text(text) for text, _ in line) for line in self._lines)
