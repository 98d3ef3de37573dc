"""All that the driver tells of the cards, a fact a line."""

from __future__ import annotations

from cuzktop.cards import card_facts
from cuzktop.frame import Frame
from cuzktop.tui.widgets.cells import Line, clean, clip, fit, wrap

NAMES = 13  # cells of a fact's name


def card_lines(frame: Frame, width: int) -> list[Line]:
    """Each card with its facts, `width` cells wide."""
    lines: list[Line] = []
    room = max(1, width - NAMES - 1)
    for gpu in frame.gpus:
        name = "" if gpu.nvml is None or not gpu.nvml.name else f" {clean(gpu.nvml.name)}"
        lines.append(clip(((f" GPU {gpu.gpu}{name}", "strong"),), width))
        for fact in card_facts(gpu, frame):
            style = "warn" if fact.odd else "muted" if fact.text.startswith("–") else "text"
            for at, part in enumerate(wrap(clean(fact.text), room, room, 4)):
                head = fit(f" {fact.name}" if at == 0 else "", NAMES)
                lines.append(clip(((head, "muted"), (part, style)), width))
    return lines
