"""Which log a command is about: named, a demo's, a unit's journal, or the running daemon's own."""

from __future__ import annotations

import argparse
from pathlib import Path

from cuzktop.dataclass import dataclass, replace
from cuzktop.errors import SourceUnreadableError, UsageError
from cuzktop.settings import Since

STDIN = Path("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A log and what is known of the daemon that writes it.

    `path` is STDIN for standard input; for a journal it only names it. `status` is the address of
    the daemon's status server; `note` is what the user should know about how the log was found,
    with `unsure` when something about it is missing. `rotated`: the files that were rotated away
    from it are read before it; `since` and `until`: only what was written between them is read.
    """

    path: Path
    unit: str | None = None
    user_unit: bool = False
    pid: int | None = None
    status: str | None = None
    note: str = ""
    unsure: bool = False
    rotated: bool = False
    since: Since | None = None
    until: Since | None = None

    @property
    def is_journal(self) -> bool:
        """Whether it is read by journalctl."""
        return self.unit is not None

    @property
    def name(self) -> str:
        """What the log is called in a sentence."""
        if self.unit is not None:
            return f"the journal of {self.unit}"
        return "standard input" if self.path == STDIN else str(self.path)


def locate(options: argparse.Namespace) -> Log:
    """The log that the options ask for; without any, that of the daemon that runs here.

    With `--rotated`, its predecessors belong to it.

    Raises:
        UsageError: options contradict each other, or a demo doesn't exist.
        SourceUnreadableError: no daemon was found, or several.
    """
    log = _locate(options)
    if not getattr(options, "rotated", False):
        return log
    if log.is_journal or log.path == STDIN:
        message = f"{log.name} has no rotated predecessors"
        raise UsageError(message, hint="--rotated needs a log file")
    return replace(log, rotated=True)


def _locate(options: argparse.Namespace) -> Log:
    """The log that the options ask for, by itself.

    Raises:
        UsageError: options contradict each other, or a demo doesn't exist.
        SourceUnreadableError: no daemon was found, or several.
    """
    named = options.log
    demo_name = getattr(options, "demo", None)
    journal = getattr(options, "journal", None)
    pid = getattr(options, "pid", None)
    asked = [
        text
        for text, given in (
            ("a log", named is not None),
            ("--demo", demo_name is not None),
            ("--journal", journal is not None),
            ("--pid", pid is not None),
        )
        if given
    ]
    if len(asked) > 1:
        message = f"{' and '.join(asked)} at once"
        raise UsageError(message, hint="give one of them")
    if demo_name is not None:
        from cuzktop.sources.demos import DEFAULT_DEMO, demo  # noqa: PLC0415

        return Log(path=demo(demo_name or DEFAULT_DEMO).log)
    if named is not None:
        return Log(path=Path(named))
    if journal is not None:
        return Log(path=Path(f"journal of {journal}"), unit=journal)
    return _discovered(pid)


def _discovered(pid: int | None) -> Log:
    from cuzktop.sources.discovery import ProcReader, choose, find_daemons  # noqa: PLC0415

    choice = choose(find_daemons(ProcReader(), pid), pid)
    if not choice.found or (choice.path is None and choice.unit is None):
        raise SourceUnreadableError(choice.text, hint=choice.hint)
    daemon = choice.daemon
    note = f"{choice.text}: {choice.hint}" if choice.hint else choice.text
    path = choice.path
    return Log(
        path=Path(f"journal of {choice.unit}") if path is None else path,
        unit=choice.unit if path is None else None,
        user_unit=choice.user_unit,
        pid=None if daemon is None else daemon.pid,
        status=None if daemon is None else daemon.config.status_listen,
        note=note,
        unsure=bool(choice.hint),
    )
