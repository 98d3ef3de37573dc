"""Who holds each GPU's lock, at which stage and since when; who waits; who is past it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from cuzktop.frame import Frame, Gpu, Holding, Lock
from cuzktop.tui.messages import ViewWanted
from cuzktop.tui.widgets.cells import (
    Line,
    clean,
    clip,
    fit,
    label,
    line_width,
    right,
    title,
    width_of,
)
from cuzktop.tui.widgets.empty import reason, sentence
from cuzktop.tui.widgets.lines import Lines
from cuzktop.units import duration

# stage: what is shown, the style of the class of time that it counts as
STAGES = {
    "ntt_msm_h": ("ntt+H", "kernel"),
    "barrier": ("barrier", "barrier"),
    "batch_add": ("batch", "kernel"),
    "tail_msm": ("tail", "kernel"),
    "releasing": ("releases", "lock_overhead"),
    "": ("holds", "lock"),
}


def doubt(lock: Lock) -> str:
    """The mark of a holder that isn't certain."""
    return "" if lock.confidence == "exact" else "~"


def everyone(lock: Lock) -> tuple[Holding, ...]:
    """All that the lock concerns, the holder first."""
    holder = () if lock.holder is None else (lock.holder,)
    return (*holder, *lock.candidates, *lock.waiting, *lock.finishing)


def weakest(frame: Frame) -> str:
    """The least certain of all GPUs' locks, in words; empty when all are exact."""
    marks = {gpu.lock.confidence for gpu in frame.gpus}
    return "can't tell" if "none" in marks else "~ inferred" if "inferred" in marks else ""


def draw_lock(frame: Frame, width: int, height: int) -> list[Line]:
    """Title, then each GPU's holder over its waiters; finishing ones last."""
    if width <= 0 or height <= 0:
        return []
    end = weakest(frame)
    lines = [title("LOCK", width, end=end)]
    room = height - 1
    if not frame.gpus:
        return lines + sentence(reason(frame, "no worker seen yet"), width, room)
    several = len(frame.gpus) > 1
    longest = _longest(tuple([gpu.lock for gpu in frame.gpus]))
    blocks = [list(_rows(frame, gpu, width, longest, several=several)) for gpu in frame.gpus]
    if sum(map(len, blocks)) <= room:
        return lines + [line for block in blocks for line in block]
    if not several:
        kept = blocks[0][: max(min(1, room), room - 1)]
        left_out = len(blocks[0]) - len(kept)
        if room > 1:
            kept.append(clip(((f"   +{left_out} more in their brackets", "muted"),), width))
        return lines + kept
    # Every GPU keeps its first row before any gets a second one.
    shares = [1 if index < room else 0 for index in range(len(blocks))]
    spare = room - sum(shares)
    while spare > 0 and any(len(b) > s for b, s in zip(blocks, shares, strict=True)):
        for index, block in enumerate(blocks):
            if spare > 0 and len(block) > shares[index]:
                shares[index] += 1
                spare -= 1
    return lines + [line for b, s in zip(blocks, shares, strict=True) for line in b[:s]]


@lru_cache(maxsize=4)
def _longest(locks: tuple[Lock, ...]) -> int:
    """The width of the longest name; remembered, for locks stay the same between two lines."""
    names = [
        width_of(clean(one.job)) + (0 if one.partition is None else 1 + len(str(one.partition)))
        for lock in locks
        for one in everyone(lock)
    ]
    return max(names, default=0)


def _rows(frame: Frame, gpu: Gpu, width: int, longest: int, *, several: bool) -> Iterator[Line]:
    lock, now_ms = gpu.lock, frame.now_ms
    head = f"{gpu.gpu:>2}" if several else ""
    blank = " " * len(head)
    if lock.holder is not None:
        stage, style = STAGES.get(lock.holder.stage or "", (lock.holder.stage or "", "lock"))
        yield _row(head, "●", lock.holder, now_ms, stage, doubt(lock), style, width, longest)
    else:
        if lock.confidence == "none":
            why = reason(frame, "the log doesn't say who holds it", timing=True)
        elif lock.waiting or lock.finishing:
            why = "free"
        else:
            why = "free: no worker in its bracket"
        yield clip(((head, "strong"), (f"{' ' if head else ''}○ {why}", "muted")), width)
    for other in lock.candidates:
        yield _row(blank, "?", other, now_ms, "or this", "", "muted", width, longest)
    for waiter in lock.waiting:
        yield _row(blank, "○", waiter, now_ms, "waits", "", "text", width, longest)
    for done in lock.finishing:
        yield _row(blank, "✓", done, now_ms, "finishing", "", "muted", width, longest)


def _row(
    head: str,
    glyph: str,
    holding: Holding,
    now_ms: float,
    word: str,
    mark: str,
    style: str,
    width: int,
    longest: int,
) -> Line:
    who = _who(
        head, glyph, holding.worker, holding.job, holding.partition, word, style, width, longest
    )
    since = (right(mark + duration(holding.age_ms(now_ms)), 6), style if glyph == "●" else "text")
    left = width - line_width(who) - 6
    if left < 0:
        return clip((*who, since), width)
    return (*who, since, (" " * left, "text")) if left else (*who, since)


@lru_cache(maxsize=256)
def _who(
    head: str,
    glyph: str,
    number: int | None,
    job: str,
    partition: int | None,
    word: str,
    style: str,
    width: int,
    longest: int,
) -> Line:
    """All of a row but the time; remembered, for that alone changes from picture to picture."""
    worker = "w?" if number is None else f"w{number}"
    start = f"{' ' if head else ''}{glyph} {worker:<2} "
    word_width = 10 if width >= 38 else min(10, max(0, width - 26))
    room = width - width_of(head) - width_of(start) - word_width - 6
    spans = (
        (head, "strong"),
        (start, style),
        (label(job, partition, max(0, min(room, longest))), "text"),
        (" " + fit(word, word_width - 1) if word_width else "", style),
    )
    return tuple([span for span in spans if span[0]])


class LockPanel(Lines):
    """Question 3: who holds the lock, who waits for it, since when."""

    def on_click(self) -> None:
        """Show who held it when."""
        self.post_message(ViewWanted("timeline"))

    def draw(self, frame: Frame, width: int, height: int) -> list[Line]:
        """See `draw_lock`."""
        return draw_lock(frame, width, height)
