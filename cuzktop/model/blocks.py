"""S19–S40: what one call's GPU thread prints under the lock (C6, C8, C9) is a block.

The figures count from the thread's start, so a block's lines find each other by their times, and
`ntt_msm_h + batch_add + tail_msm` exceeds `gpu_total` by nothing: what is left over is the wait for
prep_msm.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy

from cuzktop.dataclass import NamedTuple
from cuzktop.model.chains import LIMIT, MISSING, SLACK_COST, SLACK_MAX_MS
from cuzktop.model.effort import Effort
from cuzktop.model.joint import Contest, Verdict, alone
from cuzktop.model.kinds import C6, C8, C9
from cuzktop.model.lateness import GRACE_MS, Window, misfit, print_cost
from cuzktop.model.options import Entry, Option, by_cost
from cuzktop.model.state import Line
from cuzktop.model.tape import Pools

ALWAYS: Window = (-math.inf, math.inf)

KEEP_PARTS = 16  # sets of lines that one block's end could close
CERTAIN = 4.0  # lines of a block with a smaller margin don't say when it began
BARRIER = 3.5  # the cost of kernels that had to wait, whatever the time
LONG, WARM_LONG = 1.5, 1.0  # so much longer an ntt_msm_h is a cold GPU's rather than a warm one's
LATE_LINE_MS = 40.0  # a block's first line stands above a clock at most so much too old
PASSING_MS = 10.0  # from a block's end to the next one's beginning, as a rule: three threads wake

BlockLines = tuple[Line | None, Line | None, Line]  # C6, C8, C9


class Block(NamedTuple):
    """What one call's GPU thread printed."""

    lines: BlockLines
    certain: BlockLines  # without those that may be another's
    begun: Window
    ended: Window
    opened: Window | None  # when prep_msm was there at the latest; None: not known
    soon: float | None  # and by when, as a rule
    waited: bool  # the kernels had to wait for it
    first_seq: int
    sure: float  # the margin of these lines belonging together

    @property
    def end(self) -> Line:
        """C9, which closes the block."""
        return self.lines[2]


class Former:
    """Makes blocks of lines. Two calls' lines can stand among each other under different locks."""

    def __init__(
        self, *, one_lock: bool = True, reached: int = -1, effort: Effort | None = None
    ) -> None:
        """No block after the place `reached` has been made."""
        self._effort = effort or Effort()
        self.one_lock = one_lock  # blocks follow one another, so that none wants another's lines
        self.reached = reached  # the place of the newest block that was taken
        self._parts: dict[Line, list[Option]] = {}  # what each C9 could close
        self._used: set[Line | None] = set()  # lines of blocks that were taken
        # How sure older verdicts leave a block's lines: when it was made, and when it was settled.
        self._doubts: dict[Line, float] = {}
        self._final_doubts: dict[Line, float] = {}

    def twin(self) -> Former:
        """The same, to go on apart from this one."""
        twin = copy(self)
        twin.__dict__.update(
            _effort=Effort(),
            _parts=dict(self._parts),
            _used=set(self._used),
            _doubts=dict(self._doubts),
        )
        return twin

    def form(self, pools: Pools, frontier: int) -> list[Block]:
        """The blocks that ended before `frontier` and have not been taken, in order."""
        ends = [line for line in pools[C9] if line.seq > self.reached and not line.owned]
        if not ends or ends[0].seq >= frontier:
            return []
        some: dict[Line, list[Option]] = {}
        before = self.reached
        for end in ends:
            some[end] = self._possible(pools, end, before if self.one_lock else -1)
            if self.one_lock:
                before = end.seq
        contest = Contest({} if self.one_lock else some, figures, effort=self._effort)
        blocks: list[Block] = []
        for end in ends:
            if end.seq >= frontier:
                break
            if self.one_lock:
                blocks.append(block_of(end, alone(some[end], figures)))
                continue
            verdict, doubts = contest.verdict(end)
            contest.give(end, verdict.option)
            blocks.append(block_of(end, _doubted(self._doubts, end, verdict, doubts)))
        return blocks

    def interleaved(self, pools: Pools, blocks: Sequence[Block]) -> bool:
        """Whether two of these blocks were under way at a time, though made as under one lock."""
        if any(
            later.begun[1] < earlier.ended[0] - PASSING_MS
            for earlier, later in itertools.pairwise(blocks)
        ):
            return True
        broken = [block.end for block in blocks if None in block.lines]
        if not broken:
            return False
        used = self._used.union(line for block in blocks for line in block.lines)
        used.difference_update(broken)
        # Are the missing lines lost, or do they stand above the end of the block before?
        return any(None not in parts(pools, end, -1, used)[0].lines for end in broken)

    def left_over(self, pools: Pools, before: int) -> list[int]:
        """The places above `before` of kernels' lines that are in no block: its end is lost."""
        return [
            line.seq
            for kind in (C6, C8)
            for line in pools[kind]
            if line.seq < before and not line.owned and line not in self._used
        ]

    def take(self, block: Block) -> None:
        """The block counts as some call's from now on."""
        self._used.update(line for line in block.lines if line is not None)
        self.reached = block.end.seq

    def form_again(
        self,
        pools: Pools,
        taken: Mapping[Line, Block],
        begun: Mapping[Line, Window],
        wanted: AbstractSet[Line],
        cold: AbstractSet[Line] = frozenset(),
    ) -> dict[Line, Block]:
        """The blocks closed by `wanted`, made anew: it is known better now when each began.

        `taken` are all blocks that aren't settled, in order, by their ends; `begun` is when they
        began; `cold` are those of a GPU's first call.
        """
        # The others matter as far as their lines stand among those of blocks that are asked for.
        spans = {end: self._span(end) for end in taken}
        first = min((spans[end][0] for end in wanted), default=0)
        last = max((spans[end][1] for end in wanted), default=0)
        near = [span for span in spans.values() if span[1] >= first and span[0] <= last]
        first = min((span[0] for span in near), default=first)
        last = max((span[1] for span in near), default=last)
        ends = [end for end in taken if spans[end][1] >= first and spans[end][0] <= last]
        mine = {line for end in ends for line in taken[end].lines}
        used = self._used - mine
        some = {end: parts(pools, end, -1, used, begun[end], cold=end in cold) for end in ends}
        for end in pools[C9]:  # those not taken yet want lines, too
            if end.seq > self.reached:
                some[end] = self._possible(pools, end, free=mine)
        contest = Contest(some, figures, effort=self._effort)
        blocks: dict[Line, Block] = {}
        given: set[Line | None] = set()
        for end in ends:
            if end not in wanted:
                continue
            verdict, doubts = contest.verdict(end)
            contest.give(end, verdict.option)
            block = block_of(end, _doubted(self._final_doubts, end, verdict, doubts), begun[end])
            if None in block.lines and _whole_and_free(taken[end], given):
                block = taken[end]._replace(sure=0.0)  # what is known better doesn't fit it
            given.update(block.lines)
            blocks[end] = block
        self._used.difference_update(*(taken[end].lines for end in blocks))
        self._used.update(given)
        return blocks

    def forget(self, oldest: int) -> None:
        """What stands before `oldest` in the log is past."""
        self._used = {line for line in self._used if line is not None and line.seq >= oldest}
        self._parts = {end: some for end, some in self._parts.items() if end.seq >= oldest}
        for doubts in (self._doubts, self._final_doubts):
            for line in [line for line in doubts if line.seq < oldest]:
                del doubts[line]

    def _span(self, end: Line) -> tuple[int, int]:
        """The places of the log between which a block's lines stand, whichever they are."""
        some = self._parts.get(end, ())
        return (
            min((line.seq for option in some for line in option.lines if line), default=end.seq),
            end.seq,
        )

    def _possible(
        self, pools: Pools, end: Line, after: int = -1, free: AbstractSet[Line | None] = frozenset()
    ) -> list[Option]:
        """The sets (C6, C8, C9) that `end` could close, by cost.

        Only lines that no block has, or that are `free` again.
        """
        known = self._parts.get(end)
        if known is None:
            known = self._parts[end] = parts(pools, end, after)
        used = self._used - free if free else self._used
        return [
            option
            for option in known
            if used.isdisjoint(option.lines)
            and all(line is None or not line.owned for line in option.lines)
        ]


def _whole_and_free(block: Block, given: AbstractSet[Line | None]) -> bool:
    """Whether no line of a block is lost, or another's by now."""
    return all(line is not None and not line.owned and line not in given for line in block.lines)


def _doubted(
    doubts: dict[Line, float], end: Line, verdict: Verdict, more: Mapping[Line, float]
) -> Verdict:
    """The verdict on `end` with what verdicts before left in doubt; notes what it leaves so."""
    for other, sure in more.items():
        doubts[other] = min(sure, doubts.get(other, sure))
    return verdict._replace(margin=min(verdict.margin, doubts.get(end, verdict.margin)))


def block_of(end: Line, verdict: Verdict, begun: Window = ALWAYS) -> Block:
    """The block that `end` closes; a line that may be another says nothing of its time.

    `begun` is when its thread began, if that is known.
    """
    ntt = batch = None
    if verdict.option.lines:
        ntt, batch, _ = verdict.option.lines
    told_ntt, told_batch = ntt, batch
    if verdict.margin < CERTAIN:
        other_ntt = other_batch = None
        if verdict.rival is not None and verdict.rival.lines:
            other_ntt, other_batch, _ = verdict.rival.lines
        told_ntt = ntt if ntt is other_ntt else None
        told_batch = batch if batch is other_batch else None
    total, tail = end.b, end.a
    lo, hi = max(begun[0], end.lo - total - 1), min(begun[1], end.hi - total)
    if told_batch is not None:
        since = total - tail
        lo, hi = max(lo, told_batch.lo - since - 1), min(hi, told_batch.hi - since + 1)
    if told_ntt is not None:
        lo, hi = max(lo, told_ntt.lo - told_ntt.a - 1), min(hi, told_ntt.hi - told_ntt.a)
    if lo > hi:
        lo, hi = hi, lo
    waited = False
    if told_ntt is not None and told_batch is not None:
        waited = since_start((ntt, batch, end)) - told_ntt.a > SLACK_MAX_MS
    first = next(line for line in (told_ntt, told_batch, end) if line is not None)
    return Block(
        lines=(ntt, batch, end),
        certain=(told_ntt, told_batch, end),
        begun=(lo, hi),
        ended=(lo + total, hi + total + 1 + GRACE_MS),
        opened=None if told_batch is None else opening((ntt, batch, end), (lo, hi)),
        soon=None,
        waited=waited,
        first_seq=first.seq,
        sure=0.0 if ntt is None or batch is None else verdict.margin,
    )


def since_start(lines: BlockLines) -> int:
    """From the beginning of the thread to the opening of its barrier, in ms."""
    _, batch, end = lines
    return end.b - end.a - (0 if batch is None else batch.a)


def opening(lines: BlockLines, begun: Window) -> Window | None:
    """When prep_msm was there at the latest, for a thread that began in `begun`."""
    if lines[1] is None:
        return None
    since = since_start(lines)
    return begun[0] + since - 4, begun[1] + since


def tie(block: Block) -> None:
    """Note when the block's lines were due, which is certain now."""
    ntt, batch, end = block.lines
    lo, hi = block.begun
    if ntt is not None:
        ntt.tied = (lo + ntt.a, hi + ntt.a + 1)
    if batch is not None:
        since = end.b - end.a
        batch.tied = (lo + since - 1, hi + since + 1)
    end.tied = (lo + end.b, hi + end.b + 1)


def entries(lines: BlockLines, begun: Window, member: int) -> list[Entry]:
    """When the lines of a block that began in a window were due."""
    ntt, batch, end = lines
    lo, hi = begun
    found = [Entry(end.seq, lo + end.b, hi + end.b + 1, end.lo, end.hi, member)]
    if ntt is not None:
        found.append(Entry(ntt.seq, lo + ntt.a, hi + ntt.a + 1, ntt.lo, ntt.hi, member))
    if batch is not None:
        since = end.b - end.a
        due = (lo + since - 1, hi + since + 1)
        found.append(Entry(batch.seq, *due, batch.lo, batch.hi, member))
    return found


def parts(
    pools: Pools,
    end: Line,
    after: int,
    used: AbstractSet[Line | None] = frozenset(),
    begun: Window = ALWAYS,
    *,
    cold: bool = True,
) -> list[Option]:
    """The sets (C6, C8, C9) that `end` could close, by cost.

    Only lines after place `after` and not in `used`; `begun` is when the thread began, if known.
    If it was `cold`, its first kernels took long as a rule; then it costs nothing that they did.
    """
    total, tail = end.b, end.a
    before_tail = total - tail
    ntts, batches = (_candidates(pools[kind], end, after, used) for kind in (C6, C8))
    options: list[Option] = []
    long_ms = math.inf if cold else LONG * min((ntt.a for ntt in ntts), default=0)
    for batch in batches:
        lo = max(begun[0], end.lo - total - 1, batch.lo - before_tail - 1)
        hi = min(begun[1], end.hi - total, batch.hi - before_tail + 1)
        cost = _apart(lo, hi)
        if cost > LIMIT:
            continue
        for ntt in ntts:
            if ntt.seq > batch.seq:
                break
            slack = before_tail - batch.a - ntt.a
            if slack < 0:
                continue
            begun_lo, begun_hi = max(lo, ntt.lo - ntt.a - 1), min(hi, ntt.hi - ntt.a)
            fit = _apart(begun_lo, begun_hi)
            if fit > LIMIT:
                continue
            fit += SLACK_COST[slack] if slack < len(SLACK_COST) else BARRIER
            if ntt.a > long_ms:
                fit += WARM_LONG
            if begun_lo > begun_hi:
                begun_lo, begun_hi = begun_hi, begun_lo
            due = (
                (begun_lo + ntt.a, begun_hi + ntt.a + 1),
                (begun_lo + before_tail - 1, begun_hi + before_tail + 1),
                (begun_lo + total, begun_hi + total + 1),
            )
            options.append(Option(fit, (ntt, batch, end), due))
        options.append(Option(cost + BARRIER + MISSING, (None, batch, end), (None,) * 3))
    for ntt in ntts:
        if ntt.a <= before_tail:
            cost = misfit(end.lo - total + ntt.a - 1, end.hi - total + ntt.a + 1, ntt)
            if cost <= LIMIT:
                options.append(Option(cost + BARRIER + MISSING, (ntt, None, end), (None,) * 3))
    options.append(Option(BARRIER + 2 * MISSING, (None, None, end), (None,) * 3))
    options.sort(key=by_cost)
    return options[:KEEP_PARTS]


def _candidates(
    pool: Sequence[Line], end: Line, after: int, used: AbstractSet[Line | None]
) -> list[Line]:
    """The lines that stand where those of a block closed by `end` can stand."""
    oldest = end.lo - end.b - LATE_LINE_MS
    return [
        line
        for line in pool
        if after < line.seq < end.seq and line.hi >= oldest and not line.owned and line not in used
    ]


def figures(lines: Sequence[Line | None]) -> tuple[int | None, ...]:
    """What is shown of a block."""
    return tuple(None if line is None else line.a for line in lines)


def _apart(lo: float, hi: float) -> float:
    """The cost of bounds that don't meet: some line came late, or a clock was old."""
    return print_cost(lo - hi) if lo > hi else 0.0
