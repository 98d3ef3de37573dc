"""The command line's words: one parser for each command.

Nothing here reads a file or a clock; what an argument means is up to `cuzktop.cli`.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cuzktop import __version__
from cuzktop.errors import UsageError
from cuzktop.settings import DEFAULT_WINDOW_S, EVERYTHING, Since

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_SPAN_MS = {"s": 1e3, "m": 60e3, "h": 3600e3, "d": 86_400e3}
_OF_DAY = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?")

EPILOG = """\
examples:
  cuzktop --demo                                a canned log, played live
  cuzktop /var/log/cuzk.log                     follow a file (start cuzk with  > log 2>&1)
  journalctl -u cuzk -f -o cat | cuzktop -      follow the journal
  cuzktop snapshot LOG --json                   one picture for a script
  cuzktop                                       find the running daemon and its log
  cuzktop report LOG                            the whole log, summed up
  cuzktop diff OLD NEW                          did my change help?
  cuzktop trace LOG -o t.json                   for ui.perfetto.dev
  cuzktop doctor                                what is missing here, and what mends it
  cuzktop record FILE --log LOG                 keep lines and readings; cuzktop replay FILE

exit status: 0 fine; 1 the log holds no cuzk line, or nothing was found; 2 usage, or a source
that can't be read; 70 an error of cuzktop's own; 130 after Ctrl-C
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(message, hint=f"see {self.prog} --help")

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Write all of it: argparse passes over a full disk."""
        (sys.stderr if file is None else file).write(message)
        sys.stdout.flush()

    def _get_formatter(self) -> argparse.HelpFormatter:
        """A formatter that is told its width: on its own it would load `shutil` to ask for it."""
        return self.formatter_class(prog=self.prog, width=_columns() - 2)  # type: ignore[call-arg]


def _columns() -> int:
    """The terminal's width, as the environment or the terminal gives it; 80 where there is none."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 80


def _number(least: float, most: float, what: str) -> Callable[[str], float]:
    """A number from `least` to `most`; `what` ends the sentence about any other."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            message = f"{text!r} is no {what}"
            raise argparse.ArgumentTypeError(message)
        return value

    return parse


_seconds = _number(0.1, 86_400, "number of seconds between 0.1 and 86400")
_speed = _number(0.01, 10_000, "speed between 0.01 and 10000")
_position = _number(0, 1e9, "number of seconds from 0 on")
_age = _number(10, 1e9, "number of seconds from 10 on")


def _name(text: str) -> str:
    """The name of a file, a unit, an address: an empty one is a script's variable, not set."""
    if not text.strip():
        message = "it is empty (is a variable of the command not set?)"
        raise argparse.ArgumentTypeError(message)
    return text


def _path(text: str) -> Path:
    return Path(_name(text))


def _since(text: str) -> Since:
    """`10m`, `08:20`, `2026-03-14T08:20:30+01:00`, each time with ` local` behind it if it is."""
    words = text.strip()
    span = _SPAN.fullmatch(words)
    if span is not None:
        return Since(back_ms=float(span[1]) * _SPAN_MS[span[2]])
    local = words.endswith("local")
    words = words.removesuffix("local").rstrip()
    of_day = _OF_DAY.fullmatch(words)
    if of_day is not None:
        seconds = int(of_day[1]) * 3600 + int(of_day[2]) * 60 + float(of_day[3] or 0.0)
        return Since(of_day_ms=seconds * 1000.0, local=local)
    try:
        moment = datetime.fromisoformat(words)
    except ValueError:
        message = f"{text!r} is no time: 10m, 90s, 2h, 1d, 08:20[:30], 2026-03-14T08:20"
        raise argparse.ArgumentTypeError(message) from None
    if moment.tzinfo is None:
        moment = moment.astimezone() if local else moment.replace(tzinfo=UTC)
    return Since(at_ms=moment.timestamp() * 1000.0)


def _add_since(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--since",
        type=_since,
        metavar="TIME",
        help="begin at 10m (90s, 2h, 1d) before the log's end, at 08:20[:30] or at a date and"
        " time; UTC, or '08:20 local'",
    )
    where.add_argument(
        "--all",
        dest="since",
        action="store_const",
        const=EVERYTHING,
        help="begin at the log's first line",
    )


def _add_rotated(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rotated",
        action="store_true",
        help="read LOG.1, LOG.2.gz, LOG-20260314.gz and so on before LOG",
    )


def _add_daemon(parser: argparse.ArgumentParser) -> None:
    """Where the log is, when it isn't named: a process, a unit of the journal."""
    parser.add_argument("--pid", type=_whole, metavar="PID", help="the daemon, if several run")
    parser.add_argument(
        "--journal",
        type=_name,
        metavar="UNIT",
        help="read the journal of this systemd unit (cuzk)",
    )


def _add_samples(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--samples", type=_path, metavar="CSV", help="readings by nvidia-smi --format=csv -lms N"
    )
    parser.add_argument(
        "--samples-utc", action="store_true", help="their clock is UTC, not the local time"
    )


def _whole(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        message = f"{text!r} is no whole number above 0"
        raise argparse.ArgumentTypeError(message)
    return value


def _add_common(parser: argparse.ArgumentParser, *, screen: bool) -> None:
    parser.add_argument(
        "--demo", nargs="?", const="", metavar="NAME", help="a canned log (see --list-demos)"
    )
    parser.add_argument("-C", "--no-color", action="store_true", help="no colours")
    parser.add_argument("-U", "--ascii", action="store_true", help="ASCII characters only")
    if not screen:
        parser.add_argument("--json", action="store_true", help="the JSON document")
        parser.add_argument("-w", "--width", type=_whole, metavar="COLS", help="columns of text")


def _add_window(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--window",
        type=_seconds,
        default=DEFAULT_WINDOW_S,
        metavar="SECS",
        help="what shares cover: the last SECS seconds (60)",
    )


def main_parser() -> argparse.ArgumentParser:
    """`cuzktop`: the screen, or text with `-b`."""
    parser = _Parser(
        prog="cuzktop",
        description="A top for cuzk: is the GPU computing, and if not, what does it wait for?",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="cuzktop [LOG | -] [options]\n"
        "       cuzktop {snapshot,report,diff,trace,record,replay,doctor} ...",
    )
    parser.add_argument(
        "log", nargs="?", type=_name, metavar="LOG", help="the daemon's log; - reads stdin"
    )
    parser.add_argument("--version", action="version", version=f"cuzktop {__version__}")
    parser.add_argument("--list", action="store_true", help="name the daemons that run here")
    parser.add_argument("--list-demos", action="store_true", help="name the canned logs")
    _add_daemon(parser)
    parser.add_argument(
        "--status",
        type=_name,
        metavar="URL",
        help="the daemon's status address (from its config if it has one)",
    )
    parser.add_argument("--speed", type=_speed, default=1.0, metavar="X", help="a demo's speed (1)")
    parser.add_argument("--at", type=_position, metavar="SECS", help="where the demo begins")
    parser.add_argument(
        "-d",
        "--delay",
        type=_seconds,
        metavar="SECS",
        help="time between pictures (1)",
    )
    parser.add_argument("-n", type=_whole, metavar="N", help="so many pictures, with -b")
    parser.add_argument("-b", "--batch", action="store_true", help="print pictures as text")
    parser.add_argument(
        "-1", "--once", action="store_true", help="print one picture and exit, like snapshot"
    )
    parser.add_argument("-M", "--no-mouse", action="store_true", help="leave the mouse alone")
    parser.add_argument("--json", action="store_true", help="with --once: the JSON document")
    parser.add_argument("-w", "--width", type=_whole, metavar="COLS", help="with -b: columns")
    _add_since(parser)
    _add_rotated(parser)
    _add_window(parser)
    _add_common(parser, screen=True)
    return parser


def snapshot_parser() -> argparse.ArgumentParser:
    """`cuzktop snapshot`."""
    parser = _Parser(
        prog="cuzktop snapshot",
        description="One picture, right after the last complete line of LOG, as text or JSON.",
    )
    parser.add_argument(
        "log", nargs="?", type=_name, metavar="LOG", help="the daemon's log; - reads stdin"
    )
    parser.add_argument("-n", type=_whole, metavar="N", help="repeat it N times")
    parser.add_argument(
        "-d", "--delay", type=_seconds, metavar="SECS", help="repeat it every SECS seconds"
    )
    parser.add_argument("--fast", action="store_true", help="no second GPU reading, no rates")
    _add_daemon(parser)
    _add_since(parser)
    _add_window(parser)
    _add_common(parser, screen=False)
    return parser


def report_parser() -> argparse.ArgumentParser:
    """`cuzktop report`."""
    parser = _Parser(
        prog="cuzktop report", description="The whole of LOG, summed up, as text, Markdown or JSON."
    )
    parser.add_argument(
        "log", nargs="?", type=_name, metavar="LOG", help="the daemon's log; - reads stdin"
    )
    _add_daemon(parser)
    _add_rotated(parser)
    parser.add_argument(
        "--since", type=_since, metavar="TIME", help="only from then on: 10m, 2h, 08:20 (UTC)"
    )
    parser.add_argument("--until", type=_since, metavar="TIME", help="only what was before that")
    _add_samples(parser)
    parser.add_argument(
        "--markdown", action="store_true", help="the text as Markdown, for a ticket"
    )
    _add_common(parser, screen=False)
    return parser


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgt]?)i?b?", text.strip().lower())
    value = 0 if match is None else float(match[1]) * 1024.0 ** " kmgt".index(match[2] or " ")
    if not 1024 * 1024 <= value <= 2**50:
        message = f"{text!r} is no size from 1M on (500M, 2G)"
        raise argparse.ArgumentTypeError(message)
    return int(value)


def record_parser() -> argparse.ArgumentParser:
    """`cuzktop record`."""
    parser = _Parser(
        prog="cuzktop record",
        description="Record the log's lines and the readings of GPUs and host, with their times."
        " Ctrl-C ends it.",
    )
    parser.add_argument(
        "file", metavar="FILE", type=_path, help="a new file; FILE.1 comes beside it"
    )
    parser.add_argument("--log", type=_name, metavar="LOG", help="the daemon's log; - reads stdin")
    _add_daemon(parser)
    parser.add_argument(
        "--max-size", type=_bytes, metavar="SIZE", help="drop what is oldest beyond it (1G)"
    )
    parser.add_argument("--max-age", type=_age, metavar="SECS", help="drop what is older (nothing)")
    parser.add_argument("-q", "--quiet", action="store_true", help="say only what is wrong")
    return parser


def replay_parser() -> argparse.ArgumentParser:
    """`cuzktop replay`."""
    parser = _Parser(
        prog="cuzktop replay",
        description="Play a recording on the screen, in its own time. Text of one comes from"
        " cuzktop snapshot FILE and cuzktop report FILE.",
    )
    parser.add_argument("log", type=_name, metavar="FILE", help="what cuzktop record wrote")
    parser.add_argument("--speed", type=_speed, default=1.0, metavar="X", help="times as fast (1)")
    parser.add_argument(
        "--at", metavar="TIME", help="seconds after its beginning, or a time (UTC): 14:30:05"
    )
    parser.add_argument(
        "-d",
        "--delay",
        type=_seconds,
        metavar="SECS",
        help="time between pictures (1)",
    )
    parser.add_argument("-M", "--no-mouse", action="store_true", help="leave the mouse alone")
    _add_window(parser)
    parser.add_argument("-C", "--no-color", action="store_true", help="no colours")
    parser.add_argument("-U", "--ascii", action="store_true", help="ASCII characters only")
    parser.set_defaults(demo=None, n=None, json=False, width=None, since=None)
    return parser


def diff_parser() -> argparse.ArgumentParser:
    """`cuzktop diff`."""
    parser = _Parser(
        prog="cuzktop diff",
        description="Compare logs or recordings: two side by side, more as a sweep.",
    )
    parser.add_argument("logs", nargs="+", type=_name, metavar="LOG", help="two logs or more")
    _add_rotated(parser)
    parser.add_argument("-C", "--no-color", action="store_true", help="no colours")
    parser.add_argument("-U", "--ascii", action="store_true", help="ASCII characters only")
    parser.add_argument("--json", action="store_true", help="the JSON document")
    parser.add_argument("-w", "--width", type=_whole, metavar="COLS", help="columns of text")
    return parser


def trace_parser() -> argparse.ArgumentParser:
    """`cuzktop trace`."""
    parser = _Parser(
        prog="cuzktop trace",
        description="Write LOG as a trace that Perfetto (ui.perfetto.dev) and Chrome open.",
    )
    parser.add_argument(
        "log", nargs="?", type=_name, metavar="LOG", help="the daemon's log; - reads stdin"
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=_name,
        metavar="FILE",
        help="the trace; - is standard output",
    )
    parser.add_argument(
        "--demo", nargs="?", const="", metavar="NAME", help="a canned log (see --list-demos)"
    )
    _add_daemon(parser)
    _add_rotated(parser)
    _add_samples(parser)
    return parser


def doctor_parser() -> argparse.ArgumentParser:
    """`cuzktop doctor`."""
    parser = _Parser(
        prog="cuzktop doctor",
        description="What cuzktop finds here, what is missing, and the command that mends it.",
        epilog="exit status: 1 when a check failed",
    )
    parser.add_argument("log", nargs="?", type=_name, metavar="LOG", help="the daemon's log")
    _add_daemon(parser)
    parser.add_argument("--status", type=_name, metavar="URL", help="the daemon's status address")
    parser.add_argument("-C", "--no-color", action="store_true", help="no colours")
    parser.add_argument("-U", "--ascii", action="store_true", help="ASCII characters only")
    parser.add_argument("--json", action="store_true", help="the JSON document")
    parser.add_argument("-w", "--width", type=_whole, metavar="COLS", help="columns of text")
    return parser
