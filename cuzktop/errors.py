"""What can fail for a user. Each failure is one line: what, on what, and what to do next."""

from __future__ import annotations

EXIT_OK = 0
EXIT_NOTHING_FOUND = 1
EXIT_UNREADABLE = 2
EXIT_INTERNAL = 70  # sysexits' EX_SOFTWARE


class CuzktopError(Exception):
    """A failure that ends the program with one line on standard error.

    `exit_code` is the status of the process: 2 for a usage error or a source that can't be read.
    """

    exit_code = EXIT_UNREADABLE

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Keep `message` (what failed, on what) and `hint` (what to do next)."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """One line for standard error."""
        return f"{self.message}: {self.hint}" if self.hint else self.message


class UsageError(CuzktopError):
    """The command line asks for something that doesn't exist."""


class SourceUnreadableError(CuzktopError):
    """A file that is missing, a directory, or not ours to read."""
