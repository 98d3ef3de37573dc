"""Why a panel has nothing to show, in a sentence that says what to do."""

from __future__ import annotations

from cuzktop.frame import NO_WORK, Frame
from cuzktop.tui.widgets.cells import Line, clip, wrap

NOTHING = "nothing read yet: waiting for the log's first line"
NO_TIMELINE = (
    "this log has no TIMELINE lines: the daemon's standard error is missing; start it with 2>&1"
)
NO_TIMING = (
    "this log has no CUZK_TIMING lines: the daemon's standard error is missing; start it with 2>&1"
)
MIXED = "several GPUs that this log doesn't tell apart: see the verdict"
NO_CALL_YET = "no partition has finished on a GPU yet"


def reason(frame: Frame, otherwise: str, *, timing: bool = False, brief: bool = True) -> str:
    """Why there is nothing: not read yet, lines missing, or `otherwise`.

    `timing` says that the panel lives on CUZK_TIMING lines and not on TIMELINE alone. One panel
    says it at length, with what to do; the others are `brief`.
    """
    source = frame.source
    if source.read_pct is not None:
        return "reading" if brief else f"reading the log: {source.read_pct:.0f} %"
    if not source.lines:
        return "nothing read yet" if brief else source.note or NOTHING
    if frame.no_work_yet:
        return "no TIMELINE lines yet" if brief else source.note or NO_WORK
    if not frame.has_timeline:
        return "no TIMELINE lines in this log" if brief else source.note or NO_TIMELINE
    if timing and not frame.has_timing and not frame.recent:
        return NO_CALL_YET
    if timing and not frame.has_timing:
        return "no CUZK_TIMING lines in this log" if brief else source.note or NO_TIMING
    return otherwise


def no_shares(
    frame: Frame, otherwise: str = "no bracket in this window yet", *, brief: bool = True
) -> str:
    """Why a GPU has no shares of time; calls of several GPUs may not be told apart."""
    mixed = any(gpu.window is not None and gpu.window.mixed for gpu in frame.gpus)
    return reason(frame, MIXED if mixed else otherwise, timing=True, brief=brief)


def blind(frame: Frame) -> bool:
    """Whether nothing is known of what is in flight: then a count would be a guess, even 0."""
    return not frame.has_timeline


def sentence(text: str, width: int, height: int) -> list[Line]:
    """`text` wrapped into a panel's body, muted."""
    if width <= 2 or height <= 0:
        return []
    return [clip(((part, "muted"),), width) for part in wrap(text, width, width, height)]
