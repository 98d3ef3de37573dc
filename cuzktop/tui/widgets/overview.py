"""The overview: which panel gets how many rows, at every size of the terminal.

`plan` is a function of the size and of a few counts, so that it can be tested at every size. Panels
grow in a fixed order of worth (`_grow`), and what has no room is left out whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

from cuzktop.dataclass import dataclass, replace
from cuzktop.frame import Frame, PartitionRow
from cuzktop.tui.messages import Opened, Said
from cuzktop.tui.rows import PartitionKey, row_text
from cuzktop.tui.views.base import Acting, Jumping
from cuzktop.tui.widgets.activity import ActivityPanel
from cuzktop.tui.widgets.alerts import notice
from cuzktop.tui.widgets.brush import Brush
from cuzktop.tui.widgets.cells import WIDE
from cuzktop.tui.widgets.gpus import BLOCK_ROWS, BLOCKS, TABLES, GpusPanel
from cuzktop.tui.widgets.jobs import JobsPanel
from cuzktop.tui.widgets.lines import EMPTY, Lines
from cuzktop.tui.widgets.lock import LockPanel
from cuzktop.tui.widgets.partitions import PartitionsPanel
from cuzktop.tui.widgets.stages import STAGES, StagesPanel
from cuzktop.tui.widgets.syntheses import SynthesesPanel
from cuzktop.tui.widgets.verdict import HeaderPanel, NoticePanel, VerdictPanel

BESIDE = 76  # cells from which the lock stands beside the syntheses
GUTTER = 2  # cells between two columns

Step = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Wants:
    """How much there is to show. The counts only grow, so that panels don't jump about."""

    gpus: int = 0
    lock_rows: int = 1
    syntheses: int = 0
    jobs: int = 0
    notice: bool = False

    def with_frame(self, frame: Frame) -> Wants:
        """These wants and what `frame` adds to them."""
        locks = sum(
            max(1, len(gpu.workers), 1 + len(gpu.lock.waiting) + len(gpu.lock.finishing))
            + len(gpu.lock.candidates)
            for gpu in frame.gpus
        )
        wants = Wants(
            gpus=max(self.gpus, len(frame.gpus)),
            lock_rows=max(self.lock_rows, locks),
            syntheses=max(self.syntheses, len(frame.syntheses)),
            jobs=max(self.jobs, len(frame.jobs)),
            notice=notice(frame) is not None,
        )
        return self if wants == self else replace(wants)


def _grow(rows: int, steps: Iterable[Step]) -> dict[str, int]:
    """Give out `rows` in the order of `steps`: each names a panel and the height it grows to.

    A step that no longer fits is passed over, so that a smaller one behind it still can.
    """
    heights: dict[str, int] = {}
    left = rows
    for name, height in steps:
        more = height - heights.get(name, 0)
        if 0 < more <= left:
            heights[name] = height
            left -= more
    return heights


def _stack_down(
    names: Sequence[str], heights: Mapping[str, int], x: int, y: int, width: int
) -> dict[str, Region]:
    regions: dict[str, Region] = {}
    for name in names:
        height = heights.get(name, 0)
        if height > 0:
            regions[name] = Region(x, y, width, height)
            y += height
    return regions


def plan(width: int, height: int, wants: Wants) -> dict[str, Region]:
    """Where each panel stands, by its id; regions don't overlap and lie within the size."""
    if width <= 0 or height <= 0:
        return {}
    if width >= WIDE and height >= max(16, wants.gpus + 7):
        return _wide(width, height, wants)
    return _narrow(width, height, wants)


def _now_rows(wants: Wants, *, beside: bool) -> int:
    syntheses = 2 + -(-wants.syntheses // 1)
    return 1 + max(wants.lock_rows, syntheses) if beside else 2 + wants.lock_rows + syntheses


def _narrow(width: int, height: int, wants: Wants) -> dict[str, Region]:
    gpus = max(1, wants.gpus)
    beside = width >= BESIDE
    one = gpus + 1
    two = 2 * gpus + 2 if width >= TABLES else one
    block = BLOCK_ROWS * gpus if width >= BLOCKS else one
    few = gpus <= 2
    charts = (3, 4, 5, 7, 12) if gpus == 1 else (gpus + 1, gpus + 2, *(2 * gpus + 2,) * 3)
    now_most = max(3, _now_rows(wants, beside=beside))
    jobs_most = 1 + max(1, wants.jobs)
    # From here on the lock needs a panel of its own; below, one-line rows name the holder.
    lock_least = 1 + gpus

    steps: list[Step] = [("verdict", 1)]
    steps += [("gpus", rows) for rows in range(1, one + 1)]
    steps += [("now", 2)]
    if wants.notice:
        steps += [("notice", 1)]
    steps += [
        ("verdict", 2 if width >= TABLES else 3),
        ("verdict", 2),
        ("jobs", 2),
        ("now", 3),
        ("recent", 2),
    ]
    if few:
        steps += [("gpus", two)]
    steps += [("verdict", 3)] if width >= TABLES else []  # what to try
    steps += [("chart", charts[0]), ("now", 4), ("recent", 3), ("jobs", 3), ("recent", 4)]
    steps += [("chart", charts[1]), ("jobs", 4), ("now", min(5, now_most))]
    if not few:
        steps += [("gpus", two)]
    steps += [("recent", 6), ("header", 1), ("now", min(now_most, lock_least + 1))]
    steps += [("verdict", 3), ("now", min(now_most, 7)), ("chart", charts[2])]
    if few:
        steps += [("gpus", block)]
    steps += [("recent", 8), ("jobs", min(6, jobs_most)), ("chart", charts[3])]
    steps += [("now", min(now_most, max(9, lock_least + 2))), ("recent", 11), ("verdict", 4)]
    if not few:
        steps += [("gpus", block)]
    steps += [("jobs", min(10, jobs_most)), ("chart", charts[4]), ("now", min(now_most, 14))]
    steps += [("recent", rows) for rows in range(12, height + 1)]
    heights = _grow(height, steps)
    if not few and heights.get("now", 0) < lock_least and heights.get("gpus", 0) > one:
        # Two tables don't name the holders, so they are worth it only with a lock panel for all.
        heights = _grow(height, [step for step in steps if step[0] != "gpus" or step[1] <= one])

    order = ("header", "verdict", "notice", "gpus", "now", "jobs", "chart", "recent")
    regions = _stack_down(order, heights, 0, 0, width)
    now = regions.pop("now", None)
    if now is not None:
        regions |= _split_now(now, wants, gpus, beside=beside, rows=heights.get("gpus", 0))
    return regions


def _split_now(
    now: Region, wants: Wants, gpus: int, *, beside: bool, rows: int
) -> dict[str, Region]:
    """The lock beside the syntheses, above them, or left to the one-line rows of the GPUs."""
    x, y, width, height = now
    named_above = gpus > 2 and (rows < 2 * gpus + 2 or width < TABLES)
    if height < 1 + gpus and named_above:
        return {"syntheses": now}
    if beside:
        left = (width - GUTTER) // 2
        return {
            "lock": Region(x, y, left, height),
            "syntheses": Region(x + left + GUTTER, y, width - left - GUTTER, height),
        }
    if height < 4:
        return {"syntheses": now}
    lock = min(height - 2, 1 + wants.lock_rows, max(2, height // 2))
    return {
        "lock": Region(x, y, width, lock),
        "syntheses": Region(x, y + lock, width, height - lock),
    }


def _wide(width: int, height: int, wants: Wants) -> dict[str, Region]:
    gpus = max(1, wants.gpus)
    few = gpus <= 2
    steps: list[Step] = [("verdict", 1)]
    if wants.notice:
        steps += [("notice", 1)]
    steps += [("verdict", 2)]
    body_least = max(9, gpus + 1)
    top_room = height - body_least
    if height >= 24:
        steps += [("header", 1), ("verdict", 3)]
    if height >= 40:
        steps += [("verdict", 5)]
    top = _grow(top_room, steps)
    used = sum(top.values())
    # The table gets a third of what is left; the columns above it the rest.
    recent = max(0, min((height - used) // 3, height - used - body_least))
    columns = max(1, ((width - GUTTER) * 9 // 20) // 38)
    syntheses_most = 3 + -(-max(1, wants.syntheses) // columns)
    jobs_most = 1 + max(3, wants.jobs)
    stages_most = 1 + len(STAGES)
    right_most = 1 + wants.lock_rows + syntheses_most + jobs_most + stages_most
    left_most = BLOCK_ROWS * gpus + 1 + (24 if gpus == 1 else 12 * gpus)
    body = min(height - used - recent, max(left_most, right_most))
    recent = height - used - body if recent else 0

    left_width = (width - GUTTER) * 11 // 20
    right_width = width - GUTTER - left_width
    one, two, block = gpus + 1, 2 * gpus + 2, BLOCK_ROWS * gpus
    chart = 3 if gpus == 1 else gpus + 1
    left_steps: list[Step] = [("gpus", rows) for rows in range(1, one + 1)]
    # One-line rows name the holders, so without a lock panel it stays with them.
    locks = few or body >= gpus + 12
    left_steps += [("gpus", two)] if locks else []
    left_steps += [("chart", chart)]
    left_steps += [("gpus", block)] if few else []
    left_steps += [("chart", 2 * gpus + 2), ("chart", 3 * gpus + 2)]
    left_steps += [("gpus", block)] if locks else []
    left_steps += [("chart", rows) for rows in range(chart, body + 1)]
    left = _grow(body, left_steps)

    right_steps: list[Step] = [("lock", 1 + gpus)] if locks else []
    right_steps += [("syntheses", 3), ("jobs", 4)]
    right_steps += [("lock", 1 + wants.lock_rows)] if locks else []
    right_steps += [("syntheses", min(6, syntheses_most))]
    right_steps += [("jobs", jobs_most), ("syntheses", syntheses_most)]
    right_steps += [("stages", rows) for rows in range(4, stages_most + 1)]
    right_steps += [("jobs", rows) for rows in range(4, jobs_most + 1)]
    right = _grow(body, right_steps)

    regions = _stack_down(("header", "verdict", "notice"), top, 0, 0, width)
    regions |= _stack_down(("gpus", "chart"), left, 0, used, left_width)
    regions |= _stack_down(
        ("lock", "syntheses", "jobs", "stages"), right, left_width + GUTTER, used, right_width
    )
    if recent:
        regions["recent"] = Region(0, used + body, width, recent)
    return regions


class OverviewLayout(Layout):
    """Places the overview's panels by `plan`; what has no region isn't shown."""

    name = "overview"

    def arrange(
        self,
        parent: Widget,
        children: list[Widget],
        size: Size,
        greedy: bool = True,  # noqa: ARG002, FBT001, FBT002 - Textual's signature
    ) -> ArrangeResult:
        """One placement for each panel that has room."""
        parent.pre_layout(self)
        wants = parent.wants if isinstance(parent, Overview) else Wants()
        regions = plan(size.width, size.height, wants)
        placements: list[WidgetPlacement] = []
        for child in children:
            region = regions.get(child.id or "")
            if isinstance(child, Lines):
                child.placed = region is not None
            if isinstance(child, GpusPanel):
                child.name_holders(wanted="lock" not in regions)
            if region is not None:
                placements.append(WidgetPlacement(region, NULL_OFFSET, NULL_SPACING, child))
        return placements


class Overview(Jumping, Acting):
    """View 1: answers questions 1 to 4 on 80 × 24 and uses the room of larger terminals."""

    number: ClassVar[int] = 1
    view: ClassVar[str] = "overview"

    DEFAULT_CSS = """
    Overview { width: 1fr; height: 1fr; }
    """

    def __init__(self, *, ascii_only: bool = False) -> None:
        """Draw with ASCII alone if `ascii_only`."""
        super().__init__(id="overview")
        self.ascii_only = ascii_only
        self.frame = EMPTY
        self.wants = Wants()
        self._panels: list[Lines] = []
        self._rows_layout = OverviewLayout()

    @property
    def layout(self) -> Layout:
        """Ours: the style sheet can only name layouts that Textual has."""
        return self._rows_layout

    def compose(self) -> ComposeResult:
        """All panels; `plan` says which are seen."""
        for panel, name in (
            (HeaderPanel, "header"),
            (VerdictPanel, "verdict"),
            (NoticePanel, "notice"),
            (GpusPanel, "gpus"),
            (LockPanel, "lock"),
            (SynthesesPanel, "syntheses"),
            (JobsPanel, "jobs"),
            (StagesPanel, "stages"),
            (ActivityPanel, "chart"),
            (PartitionsPanel, "recent"),
        ):
            self._panels.append(panel(ascii_only=self.ascii_only, id=name))
        yield from self._panels

    def show(self, frame: Frame, brush: Brush | None = None) -> None:
        """Make room for what is new, and show it."""
        self.frame = frame
        for panel in self._panels:
            panel.show(frame, brush)
        wants = self.wants.with_frame(frame)
        if wants != self.wants:
            self.wants = wants
            # A widget's own arrangement is thrown away when one of its children asks for it.
            for child in self.children[:1]:
                child.refresh(layout=True)

    # ------------------------------------------------------------ keys: the table has them

    @property
    def table(self) -> PartitionsPanel:
        """The partitions that ended."""
        return self.query_one(PartitionsPanel)

    def take_focus(self) -> None:
        """Keys move over the partitions."""
        self.table.focus()

    def follow(self, key: PartitionKey | None) -> None:
        """Select what was selected elsewhere."""
        self.table.selected = key
        self.table.draw_anew()

    def copy_text(self) -> str:
        """The selected partition."""
        selected = self.table.selected_row()
        return "" if selected is None else row_text(selected)

    def do_let_go(self) -> None:
        """Let go of the selected row."""
        self.table.let_go()

    def do_row_down(self) -> None:
        """Select the next partition."""
        self._move(1)

    def do_row_up(self) -> None:
        """Select the partition before."""
        self._move(-1)

    def do_page_down(self) -> None:
        """Go a page of the table down."""
        self._move(max(1, self.table.size.height - 2))

    def do_page_up(self) -> None:
        """Go a page of the table up."""
        self._move(-max(1, self.table.size.height - 2))

    def _move(self, by: int) -> None:
        self.table.focus()
        self.table.move(by)

    def do_row_first(self) -> None:
        """Select the newest partition."""
        self.table.focus()
        self.table.select(0)

    def do_row_last(self) -> None:
        """Select the oldest partition."""
        self.table.focus()
        self.table.select(len(self.frame.recent) - 1)

    def do_details(self) -> None:
        """Open the selected partition, or what has the focus."""
        focused = self.screen.focused
        if isinstance(focused, VerdictPanel | NoticePanel | GpusPanel):
            self.post_message(Opened(focused))
        else:
            self.table.open_selected()

    def jump(self, fits: Callable[[PartitionRow], bool], by: int, nothing: str) -> None:
        """See `Jumping`."""
        if not self.table.jump(fits, by):
            self.post_message(Said(nothing))
