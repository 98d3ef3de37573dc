"""What the screen asks of what plays or records behind it."""

from __future__ import annotations

from typing import Protocol


class Deck(Protocol):
    """Answers each key with a few words for the footer."""

    @property
    def plays(self) -> bool:
        """Whether something is played, which pauses by itself."""

    @property
    def records(self) -> bool:
        """Whether something is being recorded."""

    def badge(self) -> str:
        """Speed and time of what is played, or what was recorded; empty if neither."""

    def pause(self) -> str:
        """Let what is played stand, or go on."""

    def change_speed(self, by: int) -> str:
        """Play at the next higher speed, or the one before."""

    def step(self, by: int) -> str:
        """Go ten seconds on, or back."""

    def go_to(self, text: str) -> str:
        """Go to a time."""

    def new_name(self) -> str:
        """A name for a recording that begins now; empty where nothing can be recorded."""

    def record(self, text: str) -> str:
        """Record to the new file that `text` names."""

    def end_recording(self) -> str:
        """End what is being recorded."""
