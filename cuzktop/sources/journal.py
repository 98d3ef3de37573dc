"""The daemon's log from systemd's journal, through the program journalctl.

It is asked for `-o short-iso-precise --utc -a`. `cat` would save 1.5 µs a line but gives the
CUZK_TIMING lines no time, and neither says whose a line is; `json` takes seven times as long and
six times as many bytes, escape sequences as lists of numbers. `-a` keeps those sequences, and
bytes that are no text, which make `[123B blob data]` of a line otherwise.
(Measured on systemd 252: 4 µs a line, 25 µs with `json`.)
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from cuzktop.dataclass import NamedTuple
from cuzktop.errors import SourceUnreadableError
from cuzktop.parse.prefix import unwrap
from cuzktop.settings import READ_BLOCK_BYTES
from cuzktop.sources.files import LogParser
from cuzktop.sources.log_reader import Emit, LogReader

PROGRAM: Final = "journalctl"
FORMATS: Final = ("short-iso-precise", "short-iso", "cat")
"""The first that this journalctl knows is used (the first is of systemd 234, 2017)."""

START_LINES = 100_000  # ten minutes of four fast GPUs; 0.4 s of journalctl, 20 MB
FIRST_RETRY_S = 1.0  # doubled while it keeps ending, up to
LAST_RETRY_S = 30.0
SILENT_MS = 3000.0  # a unit that has written anything has by then shown it
WAKE_S = 0.5  # how long stopping may take
KEEP_ERROR_BYTES = 4096
END_S = 1.0  # after which a journalctl that was told to end is killed
PATIENCE_S = 30.0  # a journal on a slow disk takes seconds to be searched
KEEP_SAME = 4096  # lines of one instant, to be left out when reading goes on there

GROUP_HINT: Final = "use sudo, or join the group: sudo usermod -aG systemd-journal $USER"
UNITS_HINT: Final = "see systemctl list-units '*cuzk*'"


class Trouble(NamedTuple):
    """Why the journal gives nothing, and what to do about it."""

    text: str
    hint: str = ""

    def __str__(self) -> str:
        """Both in one line."""
        return f"{self.text}: {self.hint}" if self.hint else self.text


def arguments(
    unit: str, *, user: bool, form: str, lines: int | None, follow: bool, since_s: float | None
) -> list[str]:
    """The command that prints a unit's log, from the last `lines` or from `since_s` (1970 UTC)."""
    words = [PROGRAM, "--no-pager", "--all", "--utc", f"--output={form}"]
    words.append(f"--user-unit={unit}" if user else f"--unit={unit}")
    if follow:
        words.append("--follow")
    if since_s is not None:
        words.append(f"--since=@{since_s:.6f}")
    elif lines is not None:
        words.append(f"--lines={lines}")
    return words


def environment() -> dict[str, str]:
    """Ours, with messages in English and no colours of journalctl's own."""
    return {**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0", "SYSTEMD_URLIFY": "0"}


# ---------------------------------------------------------------- what it complains of

_COMPLAINTS: Final[Sequence[tuple[str, Trouble]]] = (
    ("insufficient permissions", Trouble("may not read the journal", GROUP_HINT)),
    ("not seeing messages from other users", Trouble("may not read the journal", GROUP_HINT)),
    ("No journal files were found", Trouble("this machine keeps no journal", "name a log file")),
    ("Permission denied", Trouble("may not read the journal", GROUP_HINT)),
)
"""Part of what it says on standard error → what that means here."""

_UNKNOWN_FORMAT = re.compile(r"[Uu]nknown output")


def trouble(errors: str, status: int | None) -> Trouble | None:
    """What journalctl's standard error and exit status say; None if nothing is wrong.

    `status` is negative for a signal, None while it runs.
    """
    for part, meaning in _COMPLAINTS:
        if part in errors:
            return meaning
    first = next((line for line in errors.splitlines() if line.strip()), "")
    if first and status:
        return Trouble(f"{PROGRAM} failed: {' '.join(first.split())[:200]}")
    if status is not None and status < 0:
        return Trouble(f"{PROGRAM} was ended by signal {-status}")
    return Trouble(f"{PROGRAM} failed with status {status}") if status else None


def cannot_start(error: OSError) -> Trouble:
    """Why the program itself can't be started."""
    if isinstance(error, FileNotFoundError):
        return Trouble(f"{PROGRAM} is not installed here", "name a log file, or pipe the log in")
    return Trouble(f"{PROGRAM} can't be started ({error.strerror})")


def no_lines(unit: str, *, since: bool = False) -> Trouble:
    """What a unit without any entry means, or one without any `since` some time."""
    if since:
        return Trouble(f"the journal has no line of {unit} since then", "try an earlier --since")
    return Trouble(f"the journal has no line of {unit}: is that its name", UNITS_HINT)


# ---------------------------------------------------------------- one journalctl


class _Journalctl:
    """One journalctl at work. Raises OSError if it can't be started."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(  # noqa: S603  # no shell, a fixed program
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            start_new_session=True,  # Ctrl-C is for us
        )
        self._errors = bytearray()

    @property
    def errors(self) -> str:
        """What it has complained of so far."""
        return self._errors.decode("utf-8", "replace")

    def blocks(self, wake_s: float) -> Iterator[bytes]:
        """Whole lines as they come, until it ends; nothing each `wake_s` without any."""
        out, err = self._process.stdout, self._process.stderr
        if out is None or err is None:
            return
        half = b""
        with selectors.DefaultSelector() as both:
            both.register(out, selectors.EVENT_READ)
            both.register(err, selectors.EVENT_READ)
            while both.get_map():
                ready = both.select(wake_s)
                for key, _ in ready:
                    data = os.read(key.fd, READ_BLOCK_BYTES)
                    if not data:
                        both.unregister(key.fileobj)
                    elif key.fileobj is err:
                        self._errors += data[: KEEP_ERROR_BYTES - len(self._errors)]
                    else:
                        end = data.rfind(b"\n") + 1
                        if end and (lines := without_remarks(half + data[:end])):
                            yield lines
                        half = data[end:] if end else half + data
                if not ready:
                    yield b""

    def stop(self) -> None:
        """Make it end soon; safe from any thread."""
        self._process.terminate()

    def end(self) -> int:
        """End it if it still runs; its exit status, negative for a signal."""
        process = self._process
        try:
            status = process.wait(timeout=0.0)
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                status = process.wait(timeout=END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        return status


_REMARK = re.compile(rb"^-- .*\n", re.MULTILINE)
"""journalctl's own lines: `-- Boot … --`, `-- No entries --`, `-- Logs begin at …`."""


def without_remarks(lines: bytes) -> bytes:
    """Whole lines without those that journalctl itself says."""
    if lines.startswith(b"-- ") or b"\n-- " in lines:
        return _REMARK.sub(b"", lines)
    return lines


# ---------------------------------------------------------------- once


def journal_blocks(
    unit: str,
    *,
    user: bool = False,
    lines: int | None = None,
    since_s: float | None = None,
    patience_s: float = PATIENCE_S,
) -> Iterator[bytes]:
    """A unit's log as it is now, or its last `lines`, in blocks of whole lines as they come.

    Or what it has from `since_s` on (seconds since 1970).

    Raises SourceUnreadableError: no journalctl, no permission, no such unit, nothing more within
    `patience_s`.
    """
    for form in FORMATS:
        command = arguments(unit, user=user, form=form, lines=lines, follow=False, since_s=since_s)
        try:
            journalctl = _Journalctl(command)
        except OSError as error:
            raise _unreadable(cannot_start(error)) from None
        some = False
        try:
            for block in journalctl.blocks(patience_s):
                if not block:
                    raise _unreadable(Trouble(f"{PROGRAM} gives no answer"))
                some = True
                yield block
        finally:
            status = journalctl.end()
        if _UNKNOWN_FORMAT.search(journalctl.errors):
            continue
        if not some:
            nothing = no_lines(unit, since=since_s is not None)
            raise _unreadable(trouble(journalctl.errors, status) or nothing)
        return


def _unreadable(why: Trouble) -> SourceUnreadableError:
    return SourceUnreadableError(f"cannot read the journal: {why.text}", hint=why.hint)


# ---------------------------------------------------------------- thread


class JournalReader(LogReader):
    """Follows a unit's journal and gives its lines to `parser`.

    It begins with the last `lines`. A journalctl that ends is started again where it stopped, so
    that no line is lost or comes twice. `clock` gives wall-clock ms; notes say what is wrong and
    when it is over.
    """

    def __init__(
        self,
        unit: str,
        parser: LogParser,
        emit: Emit,
        *,
        clock: Callable[[], float],
        user: bool = False,
        lines: int = START_LINES,
        since_s: float | None = None,
        retry_s: float = FIRST_RETRY_S,
    ) -> None:
        """Start nothing yet; `user` is for a unit of the user's own service manager."""
        super().__init__("journal", "the journal", parser, emit, clock)
        self._unit = unit
        self._user = user
        self._lines = lines
        self._since_s = since_s
        self._first_retry_s = retry_s
        self._form = 0
        self._some = False  # a line has come
        self._place = _Place()
        self._noted = ""
        self._journalctl: _Journalctl | None = None

    def stop(self) -> None:
        """End the thread, and journalctl, soon."""
        super().stop()
        running = self._journalctl
        if running is not None:
            running.stop()

    def _read_all(self) -> None:
        retry_s = self._first_retry_s
        while not self._stopped.is_set():
            form, some = self._form, self._some
            self._some = False
            why = self._follow()
            if self._stopped.is_set():
                return
            if self._form != form:
                continue  # this journalctl is older: at once with a form that it knows
            retry_s = self._first_retry_s if self._some else retry_s
            self._some = self._some or some
            self._note("error" if not self._some else "warning", why)
            if self._stopped.wait(retry_s):
                return
            retry_s = min(2.0 * retry_s, LAST_RETRY_S)

    def _command(self) -> list[str]:
        place, form = self._place, FORMATS[self._form]
        since_s = place.since_s
        if since_s is None and not place.lost:
            since_s = self._since_s
        return arguments(
            self._unit,
            user=self._user,
            form=form,
            lines=0 if place.lost else self._lines,
            follow=True,
            since_s=since_s,
        )

    def _follow(self) -> Trouble:
        """Run one journalctl until it ends; why it did."""
        try:
            journalctl = _Journalctl(self._command())
        except OSError as error:
            return cannot_start(error)
        self._journalctl = journalctl
        if self._stopped.is_set():  # meanwhile
            journalctl.stop()
        began_ms = self._clock()
        self._place.resume()
        try:
            for block in journalctl.blocks(WAKE_S):
                if block:
                    self._feed(self._place.new_part(block))
                elif not self._stopped.is_set():
                    self._look(journalctl, began_ms)
        finally:
            self._journalctl = None
            status = journalctl.end()
        errors = journalctl.errors
        if _UNKNOWN_FORMAT.search(errors) and self._form + 1 < len(FORMATS):
            self._form += 1
            self._place = _Place(stamped=FORMATS[self._form] != "cat")
        return trouble(errors, status) or Trouble(f"{PROGRAM} has ended")

    def _feed(self, lines: bytes) -> None:
        if not lines:
            return
        if self._place.begin_anew():
            self._pass_on(self._parser.cut())
        self._some = True
        self._place.remember(lines)
        self._pass_on(self._parser.feed(lines))
        self._take_back_note()

    def _take_back_note(self) -> None:
        if self._noted:
            self._noted = ""
            self._say("info", f"reading the journal of {self._unit}")

    def _look(self, journalctl: _Journalctl, began_ms: float) -> None:
        """Nothing came for a while: is something wrong?"""
        complaint = trouble(journalctl.errors, None)
        if self._some or (complaint is None and self._clock() - began_ms < SILENT_MS):
            return
        if complaint is None and not self._place.known:
            complaint = no_lines(self._unit, since=self._since_s is not None)
        if complaint is None:
            self._take_back_note()  # it was started again, and the daemon has nothing to say
        else:
            self._note("error", complaint)

    def _note(self, level: str, why: Trouble) -> None:
        """Say it, once."""
        text = f"journal of {self._unit}: {why}"
        if text != self._noted:
            self._noted = text
            self._say(level, text)


class _Place:
    """Where in the journal we are: the time of the last line, and every line of that instant.

    A read of the daemon's stream gives all its lines one time, so the time alone is no place.
    """

    def __init__(self, *, stamped: bool = True) -> None:
        self._stamped = stamped
        self._stamp = b""
        self._same: list[bytes] = []
        self._leave_out: Counter[bytes] = Counter()
        self._cut = False
        self.known = False

    @property
    def since_s(self) -> float | None:
        """The last line's time in seconds since 1970, None if it isn't known."""
        wall_ms = unwrap(self._same[-1])[0] if self._same else None
        return None if wall_ms is None else wall_ms / 1000.0

    @property
    def lost(self) -> bool:
        """Lines were read, and where they ended can't be said: only new ones can follow."""
        return self.known and self.since_s is None

    def resume(self) -> None:
        """Another journalctl begins at this place."""
        self._leave_out = Counter(self._same)
        self._cut = self.lost

    def begin_anew(self) -> bool:
        """Whether the next lines don't continue the ones before; true once."""
        cut, self._cut = self._cut, False
        return cut

    def new_part(self, lines: bytes) -> bytes:
        """`lines` without those that were read before."""
        at = 0
        while self._leave_out:
            end = lines.find(b"\n", at)
            line = lines[at:end]
            if end < 0:
                break
            if not self._leave_out[line]:
                self._leave_out.clear()
                break
            self._leave_out[line] -= 1
            at = end + 1
        return lines[at:]

    def remember(self, lines: bytes) -> None:
        """These whole lines were read."""
        self.known = True
        if not self._stamped:
            return
        end = len(lines) - 1  # of the last line, without its line break
        stamp = b""
        same: list[bytes] = []
        while end >= 0 and len(same) < KEEP_SAME:
            start = lines.rfind(b"\n", 0, end) + 1
            line = lines[start:end]
            head = line.partition(b" ")[0]
            if stamp not in (b"", head):
                break
            stamp = head
            same.append(line)
            end = start - 1
        same.reverse()
        if end < 0 and stamp == self._stamp:
            same = [*self._same, *same][-KEEP_SAME:]
        self._stamp, self._same = stamp, same
