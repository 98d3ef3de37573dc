"""How much is weighed in all: so much for each line, whatever the log holds.

A log with lines missing, doubled or in wrong order can leave so much open that to weigh it all
would take longer the more of it there is. What is beyond the means is decided by the next best
guess, which then isn't sure.
"""

from __future__ import annotations

A_LINE = 300  # steps that a line of the log is worth; a busy log of eight GPUs takes sixty
SAVED = 800_000


class Effort:
    """Steps that may still be taken, and how often there were too few of them."""

    __slots__ = ("_paid_until", "refused", "spare", "taken")

    def __init__(self) -> None:
        """Begin with what is saved at most."""
        self.spare = SAVED
        self._paid_until = 0
        self.taken = 0
        self.refused = 0

    def earn(self, place: int) -> None:
        """The lines above `place` of the log have been read."""
        self.spare = min(SAVED, self.spare + A_LINE * (place - self._paid_until))
        self._paid_until = place

    def take(self, steps: int) -> None:
        """So many steps were taken; a few too many do no harm."""
        self.taken += steps
        self.spare -= steps

    def refuses(self) -> bool:
        """Whether there are none left; counts how often."""
        if self.spare > 0:
            return False
        self.refused += 1
        return True
