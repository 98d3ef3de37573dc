"""View 3: what held when: locks, brackets, syntheses and what was measured, on one axis of time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

from textual import events

from cuzktop.frame import Frame, PartitionRow
from cuzktop.tui.axis import STALL_MS, Axis, begun_at, mixed_gpu, stalls
from cuzktop.tui.messages import PartitionOpened, Selected
from cuzktop.tui.rows import PartitionKey, key_of, row_of, row_text
from cuzktop.tui.views.base import Jumping, View
from cuzktop.tui.views.scene import (
    ZOOMS_MS,
    Memory,
    Scene,
    Scroll,
    Track,
    axis_of,
    draw_timeline,
    foot_rows,
    gutter_of,
    rows_in,
    tracks_for,
)
from cuzktop.tui.widgets.cells import Line
from cuzktop.units import duration


class TimelineView(View, Jumping):
    """What held when. Follows the present until the cursor is moved."""

    number: ClassVar[int] = 3
    view: ClassVar[str] = "timeline"

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:  # noqa: A002 - Textual's word
        """Live, without a cursor."""
        super().__init__(ascii_only=ascii_only, id=id)
        self.scroll_state = Scroll()
        self.memory = Memory()
        self._goal: PartitionKey | None = None  # to go to with the next picture

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        """See `draw_timeline`."""
        if self._goal is not None:
            self._reach()
        return draw_timeline(
            frame,
            width,
            height,
            scroll=self.scroll_state,
            memory=self.memory,
            focused=self.has_focus,
        )

    # ------------------------------------------------------------ where one is

    def _axis(self) -> Axis:
        return axis_of(self.frame, self.size.width, self.scroll_state)

    def _room(self) -> int:
        height = self.size.height
        head = (1 if height >= 3 else 0) + (1 if height >= 4 else 0)
        return max(1, height - head - foot_rows(height))

    def _tracks(self) -> tuple[list[Track], Scene]:
        """All tracks that can be reached, and what they are drawn from."""
        axis = self._axis()
        rows = rows_in(self.frame, axis)
        lanes = self.memory.lanes.assign([*self.frame.in_flight, *self.frame.recent])
        scene = Scene(self.frame, axis, rows, lanes, self.memory)
        return tracks_for(self.frame, self._room(), scene.lane_count), scene

    def _hold(self) -> Axis:
        """Stop following, and stay with the window as it is."""
        axis = self._axis()
        self.scroll_state.last = axis.first + axis.columns
        return axis

    def _choose(self) -> None:
        """Select the partition under the cursor, for the other views, too."""
        state = self.scroll_state
        tracks, scene = self._tracks()
        if state.at_ms is not None and tracks:
            state.track = max(0, min(len(tracks) - 1, state.track))
            row = scene.at(tracks[state.track], state.at_ms)
            if row is not None:
                state.selected = key_of(row)
            self.post_message(Selected(state.selected, state.at_ms))
        self.redraw()

    def follow(self, key: PartitionKey | None) -> None:
        """Mark what was selected elsewhere, and go there if it lies outside of what is seen."""
        if key != self.scroll_state.selected:
            self.scroll_state.selected = self._goal = key
        self.redraw()

    def _reach(self) -> None:
        """Go to what was selected elsewhere, now that it is known how much is seen."""
        row, self._goal = self._row(self._goal), None
        if row is None:
            return
        at_ms, axis = begun_at(row), self._axis()
        if not axis.start_ms <= at_ms < axis.end_ms:
            self.scroll_state.at_ms = at_ms
            self._shift(axis.column(at_ms) - axis.columns // 2)

    # ------------------------------------------------------------ moving

    def _go(self, columns: int) -> None:
        """Move the cursor; at an edge the window goes with it."""
        state = self.scroll_state
        axis = self._hold()
        if state.at_ms is None:
            state.at_ms = min(self.frame.now_ms, axis.end_ms - axis.step_ms / 2)
        else:
            state.at_ms += columns * axis.step_ms
        newest = self.frame.now_ms
        state.at_ms = max(self._earliest(), min(newest, state.at_ms))
        column = axis.column(state.at_ms)
        if column < 0:
            self._shift(min(column, -max(1, axis.columns // 4)))
        elif column >= axis.columns:
            self._shift(max(column - axis.columns + 1, axis.columns // 4))
        self._choose()

    def _shift(self, columns: int) -> None:
        """Move the window, not beyond now and not before what is kept."""
        state = self.scroll_state
        axis = self._hold()
        newest = math.floor(self.frame.now_ms / axis.step_ms) + 1
        oldest = math.floor(self._earliest() / axis.step_ms) + axis.columns
        last = axis.first + axis.columns + columns
        state.last = max(min(oldest, newest), min(newest, last))

    def _earliest(self) -> float:
        """The first instant that anything is known of."""
        starts = [
            float(row.synth_start_ms)
            for row in (*self.frame.recent[-40:], *self.frame.in_flight)
            if row.synth_start_ms is not None
        ]
        return min(starts, default=self.frame.now_ms)

    def do_left(self) -> None:
        """Earlier."""
        self._go(-1)

    def do_right(self) -> None:
        """Later."""
        self._go(1)

    def do_page_up(self) -> None:
        """A window earlier."""
        axis = self._axis()
        self._shift(-max(1, axis.columns * 3 // 4))
        self._keep_cursor()

    def do_page_down(self) -> None:
        """A window later."""
        axis = self._axis()
        self._shift(max(1, axis.columns * 3 // 4))
        self._keep_cursor()

    def _keep_cursor(self) -> None:
        """Take the cursor along into the window."""
        state = self.scroll_state
        axis = self._axis()
        if state.at_ms is not None:
            half = axis.step_ms / 2
            state.at_ms = max(axis.start_ms + half, min(axis.end_ms - half, state.at_ms))
            self._choose()
        self.redraw()

    def do_row_first(self) -> None:
        """The earliest that is kept."""
        self._hold()
        self.scroll_state.at_ms = self._earliest()
        self._shift(-(10**9))
        self._choose()

    def do_row_last(self) -> None:
        """Follow again."""
        self.scroll_state.last = self.scroll_state.at_ms = None
        self.post_message(Selected(self.scroll_state.selected))
        self.redraw()

    def do_let_go(self) -> None:
        """Follow again, and let go of the partition."""
        state = self.scroll_state
        if state.last is None and state.at_ms is None:
            state.selected = None
        state.last = state.at_ms = None
        self.post_message(Selected(state.selected))
        self.redraw()

    def move(self, by: int) -> None:
        """Go to another track."""
        state = self.scroll_state
        if state.at_ms is None:
            self._go(0)
            return
        tracks, _scene = self._tracks()
        state.track = max(0, min(len(tracks) - 1, state.track + by))
        self._choose()

    def _zoom(self, by: int) -> None:
        state = self.scroll_state
        axis = self._axis()
        zoom = max(0, min(len(ZOOMS_MS) - 1, state.zoom + by))
        if zoom == state.zoom:
            self.say("no further")
            return
        anchor = state.at_ms
        if state.last is not None and anchor is None:
            anchor = (axis.start_ms + axis.end_ms) / 2
        state.zoom = zoom
        if anchor is not None and state.last is not None:
            # What is under the cursor stays where it is.
            column = axis.column(anchor)
            state.last = math.floor(anchor / state.step_ms) - column + axis.columns
            self._shift(0)
        self._keep_cursor()

    def do_zoom_in(self) -> None:
        """Less time."""
        self._zoom(-1)

    def do_zoom_out(self) -> None:
        """More time."""
        self._zoom(1)

    # ------------------------------------------------------------ jumping

    def jump(self, fits: Callable[[PartitionRow], bool], by: int, nothing: str) -> None:
        """See `Jumping`."""
        state = self.scroll_state
        rows = [row for row in self.frame.recent if fits(row)]
        if not rows:
            self.say(nothing)
            return
        rows.sort(key=begun_at)
        places = [key_of(row) for row in rows]
        if state.selected in places:
            index = (places.index(state.selected) + by) % len(rows)
        elif state.at_ms is None:
            index = -1  # the newest
        else:
            later = [at for at, row in enumerate(rows) if begun_at(row) > state.at_ms]
            index = (later[0] if by > 0 else later[0] - 1) if later else (0 if by > 0 else -1)
        row = rows[index]
        state.selected = key_of(row)
        state.at_ms = begun_at(row)
        axis = self._hold()
        self._shift(axis.column(state.at_ms) - axis.columns // 2)
        tracks, scene = self._tracks()
        state.track = next(
            (at for at, track in enumerate(tracks) if scene.at(track, state.at_ms) is row),
            state.track,
        )
        self.post_message(Selected(state.selected, state.at_ms))
        self.redraw()

    def _next_stall(self, by: int) -> None:
        state = self.scroll_state
        found = stalls((*self.frame.in_flight, *self.frame.recent))
        if not found:
            if mixed_gpu(self.frame) is None:
                self.say(f"no lock here was free for {duration(STALL_MS)}")
            else:
                self.say("whose lock was free isn't known: several GPUs, mixed")
            return
        middles = [(one.start_ms + one.end_ms) / 2 for one in found]
        index = -1  # the newest
        if state.at_ms is not None:
            beyond = [at for at, ms in enumerate(middles) if by * (ms - state.at_ms) > 0]
            ends = 0 if by > 0 else -1
            index = beyond[ends] if beyond else ends
        one = found[index]
        state.at_ms = middles[index]
        axis = self._hold()
        self._shift(axis.column(state.at_ms) - axis.columns // 2)
        tracks, _scene = self._tracks()
        locks = [
            at for at, track in enumerate(tracks) if (track.kind, track.gpu) == ("lock", one.gpu)
        ]
        state.track = locks[0] if locks else state.track
        self.post_message(Selected(state.selected, state.at_ms))
        self.say(f"GPU {one.gpu}: nobody held the lock for {duration(one.end_ms - one.start_ms)}")
        self.redraw()

    def do_next_stall(self) -> None:
        """The next time that a lock was free for long."""
        self._next_stall(1)

    def do_previous_stall(self) -> None:
        """The one before."""
        self._next_stall(-1)

    # ------------------------------------------------------------ the rest

    def _row(self, key: PartitionKey | None) -> PartitionRow | None:
        return row_of((*self.frame.in_flight, *self.frame.recent), key)

    def _selected_row(self) -> PartitionRow | None:
        return self._row(self.scroll_state.selected)

    def do_details(self) -> None:
        """Open the partition that is marked."""
        row = self._selected_row()
        if row is None:
            self.say("no partition is marked: ← sets a cursor")
        else:
            self.post_message(PartitionOpened(row))

    def copy_text(self) -> str:
        """The partition that is marked."""
        row = self._selected_row()
        return "" if row is None else row_text(row)

    def on_click(self, event: events.Click) -> None:
        """Set the cursor, and select what is there; a second click opens it."""
        height = self.size.height
        head = (1 if height >= 3 else 0) + (1 if height >= 4 else 0)
        gutter = gutter_of(self.size.width)
        if (
            not gutter <= event.x < gutter + self._axis().columns
            or not head <= event.y < head + self._room()
        ):
            return
        axis = self._hold()
        state = self.scroll_state
        tracks, _scene = self._tracks()
        first = max(0, min(state.track - self._room() + 1, len(tracks) - self._room()))
        state.track = first + event.y - head
        half = axis.step_ms / 2
        state.at_ms = min(
            self.frame.now_ms, axis.start_ms + (event.x - gutter) * axis.step_ms + half
        )
        self._choose()
        if event.chain == 2:
            self.do_details()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Later."""
        event.stop()
        self._shift(4)
        self._keep_cursor()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Earlier."""
        event.stop()
        self._shift(-4)
        self._keep_cursor()
