"""The command line: arguments → Settings, the source and the view, the exit status.

It alone reads the clock. Nothing is imported before it is needed: `snapshot` and `report` never
load Textual, and load neither NVML nor psutil unless they ask them.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypedDict

from cuzktop import __version__
from cuzktop.errors import (
    EXIT_NOTHING_FOUND,
    EXIT_OK,
    EXIT_UNREADABLE,
    CuzktopError,
    SourceUnreadableError,
    UsageError,
)
from cuzktop.settings import (
    DEFAULT_INTERVAL_S,
    DEFAULT_WINDOW_S,
    START_BACK_BYTES,
    START_BACK_MS,
    Settings,
)

if TYPE_CHECKING:
    from cuzktop.analysis.diagnosis import Measured
    from cuzktop.events import GpuSampled, SampleEvent
    from cuzktop.frame import Source
    from cuzktop.model.state import Run
    from cuzktop.parse.scanner import LogScanner
    from cuzktop.picture import Picture
    from cuzktop.sources.files import LogParser

    Readings = Callable[[], Iterable[GpuSampled]]

STDIN = Path("-")
SNIFF_BYTES = 4096  # tell a text from anything else
BEING_WRITTEN_MS = 10_000.0  # a snapshot asks NVML only about a log this young
SAMPLE_APART_S = 1.0
RECORDING = b"cuzktop-recording "  # how a recording begins
BESIDE_KEPT = 30_000  # of a recording's readings, for a snapshot: an hour of eight GPUs
INTERRUPTED = 130

EPILOG = """\
examples:
  cuzktop --demo                                a canned log, played live
  cuzktop /var/log/cuzk.log                     follow a file (start cuzk with  > log 2>&1)
  journalctl -u cuzk -f -o cat | cuzktop -      follow the journal
  cuzktop snapshot LOG --json                   one picture for a script
  cuzktop report LOG                            the whole log, summed up

exit status: 0 fine; 1 the log holds no cuzk line; 2 usage, or a source that can't be read
"""


def wall_ms() -> float:
    """Wall-clock milliseconds since 1970."""
    return time.time() * 1000.0


# ---------------------------------------------------------------- arguments


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(message, hint=f"see {self.prog} --help")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.1 <= value <= 86_400:
        message = f"{text!r} is no number of seconds between 0.1 and 86400"
        raise argparse.ArgumentTypeError(message)
    return value


def _speed(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.01 <= value <= 10_000:
        message = f"{text!r} is no speed between 0.01 and 10000"
        raise argparse.ArgumentTypeError(message)
    return value


def _position(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e9:
        message = f"{text!r} is no number of seconds from 0 on"
        raise argparse.ArgumentTypeError(message)
    return value


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


def _main_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="cuzktop",
        description="A top for cuzk: is the GPU computing, and if not, what does it wait for?",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="cuzktop [LOG | - | snapshot ... | report ...] [options]",
    )
    parser.add_argument("log", nargs="?", metavar="LOG", help="the daemon's log; - reads stdin")
    parser.add_argument("--version", action="version", version=f"cuzktop {__version__}")
    parser.add_argument("--list-demos", action="store_true", help="name the canned logs")
    parser.add_argument("--speed", type=_speed, default=1.0, metavar="X", help="a demo's speed (1)")
    parser.add_argument("--at", type=_position, metavar="SECS", help="where the demo begins")
    parser.add_argument(
        "-d",
        "--delay",
        type=_seconds,
        default=DEFAULT_INTERVAL_S,
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
    _add_window(parser)
    _add_common(parser, screen=True)
    return parser


def _snapshot_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="cuzktop snapshot",
        description="One picture, right after the last complete line of LOG, as text or JSON.",
    )
    parser.add_argument("log", nargs="?", metavar="LOG", help="the daemon's log; - reads stdin")
    parser.add_argument("-n", type=_whole, metavar="N", help="repeat it N times")
    parser.add_argument(
        "-d", "--delay", type=_seconds, metavar="SECS", help="repeat it every SECS seconds"
    )
    parser.add_argument("--fast", action="store_true", help="no second GPU reading, no rates")
    _add_window(parser)
    _add_common(parser, screen=False)
    return parser


def _report_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="cuzktop report", description="The whole of LOG, summed up, as text or JSON."
    )
    parser.add_argument("log", nargs="?", metavar="LOG", help="the daemon's log; - reads stdin")
    parser.add_argument(
        "--samples", type=Path, metavar="CSV", help="readings by nvidia-smi --format=csv -lms N"
    )
    parser.add_argument(
        "--samples-utc", action="store_true", help="their clock is UTC, not the local time"
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


def _age(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 10.0 <= value <= 1e9:
        message = f"{text!r} is no number of seconds from 10 on"
        raise argparse.ArgumentTypeError(message)
    return value


def _record_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="cuzktop record",
        description="Record the log's lines and the readings of GPUs and host, with their times."
        " Ctrl-C ends it.",
    )
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="a new file; FILE.1 comes beside it"
    )
    parser.add_argument("--log", type=Path, metavar="LOG", help="the daemon's log; - reads stdin")
    parser.add_argument(
        "--max-size", type=_bytes, metavar="SIZE", help="drop what is oldest beyond it (1G)"
    )
    parser.add_argument("--max-age", type=_age, metavar="SECS", help="drop what is older (nothing)")
    parser.add_argument("-q", "--quiet", action="store_true", help="say only what is wrong")
    return parser


def _replay_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="cuzktop replay", description="Play a recording on the screen, in its own time."
    )
    parser.add_argument("log", metavar="FILE", help="what cuzktop record wrote")
    parser.add_argument("--speed", type=_speed, default=1.0, metavar="X", help="times as fast (1)")
    parser.add_argument(
        "--at", metavar="TIME", help="seconds after its beginning, or a time (UTC): 14:30:05"
    )
    parser.add_argument(
        "-d",
        "--delay",
        type=_seconds,
        default=DEFAULT_INTERVAL_S,
        metavar="SECS",
        help="time between pictures (1)",
    )
    parser.add_argument("-M", "--no-mouse", action="store_true", help="leave the mouse alone")
    _add_window(parser)
    parser.add_argument("-C", "--no-color", action="store_true", help="no colours")
    parser.add_argument("-U", "--ascii", action="store_true", help="ASCII characters only")
    parser.set_defaults(demo=None, n=None, json=False, width=None)
    return parser


# ---------------------------------------------------------------- main


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if sys.stdout is None:
            message = "standard output is closed"
            raise UsageError(message, hint="send it to a terminal, a file or a pipe")
        return _run(arguments)
    except CuzktopError as error:
        _say(str(error))
        return error.exit_code
    except BrokenPipeError:
        _abandon_stdout()
        return EXIT_OK
    except OSError as error:  # sources make errors of their own of theirs: this is the output
        _abandon_stdout()
        _say(f"can't write the output: {(error.strerror or str(error)).lower()}")
        return EXIT_UNREADABLE
    except KeyboardInterrupt:
        return INTERRUPTED


def _say(text: str) -> None:
    """One line on standard error, whatever a file's name holds; none where there is none."""
    if sys.stderr is not None:
        line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
        print(f"cuzktop: {line}", file=sys.stderr)  # noqa: T201


def _abandon_stdout() -> None:
    """Nothing more can be written, not even at exit: the reader has gone, or the disk is full."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["report"]:
        return _report(_report_parser().parse_args(arguments[1:]))
    if arguments[:1] == ["snapshot"]:
        return _snapshot(_snapshot_parser().parse_args(arguments[1:]))
    if arguments[:1] == ["record"]:
        return _record(_record_parser().parse_args(arguments[1:]))
    if arguments[:1] == ["replay"]:
        return _replay(_replay_parser().parse_args(arguments[1:]))
    options = _main_parser().parse_args(arguments)
    if options.list_demos:
        return _list_demos()
    if options.once or options.batch:
        options.fast = False
        if options.once:
            options.n, options.delay = 1, None
        return _snapshot(options)
    return _screen(options)


def _list_demos() -> int:
    from cuzktop.sources.replay import demo, demo_names  # noqa: PLC0415

    names = demo_names()
    width = max((len(name) for name in names), default=0)
    for name in names:
        print(f"{name:{width}}  {demo(name).about}")  # noqa: T201
    return EXIT_OK


# ---------------------------------------------------------------- sources


def _log_path(options: argparse.Namespace) -> Path:
    """The log that was asked for; a demo's own."""
    if options.demo is not None:
        if options.log is not None:
            message = "a log and --demo at once"
            raise UsageError(message, hint="give one of them")
        from cuzktop.sources.replay import DEFAULT_DEMO, demo  # noqa: PLC0415

        return demo(options.demo or DEFAULT_DEMO).log
    if options.log is None:
        message = "no log given"
        raise UsageError(
            message,
            hint="name the daemon's log, pipe it to `cuzktop -`, or look at `cuzktop --demo`",
        )
    return Path(options.log)


def _start_at(options: argparse.Namespace) -> float | None:
    """Where a demo begins to be played, in seconds after its log's first line."""
    if options.at is not None or options.demo is None:
        return None if options.at is None else float(options.at)
    from cuzktop.sources.replay import DEFAULT_DEMO, demo  # noqa: PLC0415

    return demo(options.demo or DEFAULT_DEMO).start_s


def _open(path: Path) -> Iterator[bytes]:
    """The log's blocks, from its beginning."""
    from cuzktop.sources.files import open_log, read_blocks  # noqa: PLC0415

    if path == STDIN:
        if sys.stdin is None:
            message = "standard input is closed"
            raise SourceUnreadableError(message, hint="pipe the log in, or name a file")
        yield from read_blocks(sys.stdin.buffer)
        return
    with open_log(path) as file:
        yield from read_blocks(file)


def _source(path: Path, scanner: LogScanner) -> Source:
    from cuzktop.frame import Source as SourceFigures  # noqa: PLC0415

    counts = scanner.counts
    return SourceFigures(
        path=str(path),
        bytes=counts.bytes,
        lines=counts.lines,
        events=counts.events,
        torn=counts.torn,
        unparsed=counts.unparsed,
    )


def _ours(scanner: LogScanner) -> bool:
    counts = scanner.counts
    return bool(counts.timeline or counts.timing or counts.tracing)


def _warn_foreign(path: Path, scanner: LogScanner) -> int:
    """Say on standard error why nothing was found; the exit status."""
    what = "holds no cuzk line" if scanner.counts.bytes else "is empty"
    name = "standard input" if path == STDIN else str(path)
    if path != STDIN and scanner.counts.bytes:
        from cuzktop.sources.files import is_stream, open_log, sniff  # noqa: PLC0415

        if not is_stream(path):
            with open_log(path) as file:
                what = sniff(file.read(SNIFF_BYTES)) or what
    _say(
        f"{name} {what}: is it the daemon's log, with standard output and error (cuzk > log 2>&1)?"
    )
    return EXIT_NOTHING_FOUND


def _samples_of(options: argparse.Namespace) -> tuple[Path, bool] | None:
    """The CSV of readings that belongs to the log: asked for, or a demo's own."""
    samples = getattr(options, "samples", None)
    if samples is not None:
        return samples, options.samples_utc
    if options.demo is not None:
        from cuzktop.sources.replay import DEFAULT_DEMO, demo  # noqa: PLC0415

        chosen = demo(options.demo or DEFAULT_DEMO)
        if chosen.gpu_csv is not None:
            return chosen.gpu_csv, chosen.utc
    return None


def _read_samples(samples: tuple[Path, bool] | None) -> Iterator[GpuSampled]:
    if samples is None:
        return iter(())
    from cuzktop.sources.samples import read_samples  # noqa: PLC0415

    return read_samples(samples[0], utc=samples[1])


# ---------------------------------------------------------------- report


def _report(options: argparse.Namespace) -> int:
    from cuzktop.headless.report import partition_line, write_report  # noqa: PLC0415
    from cuzktop.headless.text import RowsTally, report_text  # noqa: PLC0415
    from cuzktop.parse.scanner import LogScanner  # noqa: PLC0415
    from cuzktop.reading import LogSummary  # noqa: PLC0415

    path = _log_path(options)
    samples = _samples_of(options)
    next(_read_samples(samples), None)  # a CSV that can't be read is said before the log is
    scanner = LogScanner()
    tallies: dict[int, RowsTally] = {}
    blocks, parser, readings = _recorded(path, scanner, samples)

    def measure(run: Run) -> Mapping[int, Measured]:
        return _measured(run, readings)

    with closing(LogSummary(partition_line, measure)) as summary:
        if not options.json:
            summary.on_row = lambda run, row: tallies.setdefault(run.index, RowsTally()).add(row)
        summary.read(blocks, parser)
        _warn_damaged(path, parser, scanner)
        source = _source(path, scanner)
        if options.json:
            write_report(
                sys.stdout,
                source=source,
                runs=((report, rows.lines()) for report, rows in summary.runs),
            )
        else:
            look = _look(options, sys.stdout)
            reports = [report for report, _ in summary.runs]
            sys.stdout.write(report_text(reports, source, tallies, **look))
    sys.stdout.flush()
    return EXIT_OK if _ours(scanner) else _warn_foreign(path, scanner)


def _recorded(
    path: Path, scanner: LogScanner, samples: tuple[Path, bool] | None
) -> tuple[Iterable[bytes], LogParser, Readings | None]:
    """What to read, with which parser, and what gives the GPU readings of that time.

    A recording has its own; a CSV that was asked for goes before them.
    """
    stream = _is_stream(path)
    if not stream and not _is_recording(path):
        csv = None if samples is None else lambda: _read_samples(samples)
        return _open(path), scanner, csv
    from cuzktop.sources.recording import (  # noqa: PLC0415
        KeptReadings,
        RecordingParser,
        as_log,
        recording_samples,
    )

    kept = KeptReadings()  # a stream can't be read again for them
    blocks, parser = as_log(
        _open(path),
        scanner,
        path=None if stream else path,
        on_event=kept.add if stream else None,
    )
    if samples is not None:
        return blocks, parser, lambda: _read_samples(samples)
    if not isinstance(parser, RecordingParser):
        return blocks, parser, None
    return blocks, parser, (lambda: kept) if stream else (lambda: recording_samples(path))


def _is_stream(path: Path) -> bool:
    from cuzktop.sources.files import is_stream  # noqa: PLC0415

    return path == STDIN or is_stream(path)


def _is_recording(path: Path) -> bool:
    """Whether a file is a recording; a log is told without loading what reads recordings."""
    from cuzktop.sources.files import open_log, read_blocks  # noqa: PLC0415

    with open_log(path) as file:
        return next(read_blocks(file, len(RECORDING)), b"") == RECORDING


def _warn_damaged(path: Path, parser: LogParser, scanner: LogScanner) -> None:
    if parser is scanner:
        return
    from cuzktop.sources.recording import RecordingParser  # noqa: PLC0415

    if isinstance(parser, RecordingParser) and (text := parser.damage.text()):
        _say(f"{path}: {text}")


def _measured(run: Run, readings: Readings | None) -> Mapping[int, Measured]:
    """NVML's means over each GPU's span of a run."""
    if readings is None or run.epoch_us is None:
        return {}
    from cuzktop.analysis.diagnosis import Measured as Means  # noqa: PLC0415
    from cuzktop.sources.samples import means_by_gpu  # noqa: PLC0415

    zero_ms = run.epoch_us / 1000.0
    spans = {
        number: (zero_ms + gpu.first_start, zero_ms + gpu.last_end)
        for number, gpu in run.gpus.items()
        if gpu.first_start is not None and gpu.last_end is not None
    }
    return {
        gpu: Means(
            util_pct=means.util_pct,
            power_w=means.power_w,
            source=means.source or "utilization.gpu",
            samples=means.samples,
        )
        for gpu, means in means_by_gpu(readings(), spans).items()
        if means.util_pct is not None
    }


class _Look(TypedDict):
    width: int
    colour: bool
    ascii_only: bool


def _look(options: argparse.Namespace, out: TextIO) -> _Look:
    """Width and colour of text, as the terminal, the environment and the flags say."""
    tty = out.isatty()
    width = options.width
    if width is None:
        width = 100
        if tty:
            try:
                width = os.get_terminal_size(out.fileno()).columns
            except OSError:
                width = 80
        elif os.environ.get("COLUMNS", "").isdigit():
            width = int(os.environ["COLUMNS"])
    dumb = os.environ.get("TERM") == "dumb"
    colour = tty and not options.no_color and not os.environ.get("NO_COLOR") and not dumb
    return {"width": width, "colour": colour, "ascii_only": _ascii(options, out)}


def _ascii(options: argparse.Namespace, out: TextIO) -> bool:
    """Whether only ASCII can be shown."""
    if options.ascii:
        return True
    encoding = (out.encoding or "ascii").lower().replace("-", "")
    return not encoding.startswith("utf")


# ---------------------------------------------------------------- snapshot


def _snapshot(options: argparse.Namespace) -> int:
    path = _log_path(options)
    times = options.n or (1 if options.delay is None else sys.maxsize)
    if path == STDIN and times > 1:
        message = "standard input can be read once only"
        raise UsageError(message, hint="name the log's file to repeat the picture")
    status = EXIT_OK
    for index in range(times):
        if index:
            time.sleep(options.delay or DEFAULT_INTERVAL_S)
        status = _one_snapshot(options, path, first=index == 0)
    return status


def _one_snapshot(options: argparse.Namespace, path: Path, *, first: bool) -> int:
    from cuzktop.headless.snapshot import snapshot_document  # noqa: PLC0415
    from cuzktop.parse.scanner import LogScanner  # noqa: PLC0415
    from cuzktop.picture import Picture  # noqa: PLC0415

    scanner = LogScanner()
    picture = Picture(window_s=options.window)
    beside: deque[SampleEvent] = deque(maxlen=BESIDE_KEPT)
    blocks, parser = _tail(path, scanner, beside.append)
    for block in blocks:
        picture.feed(parser.feed(block))
    # A half line at the end is not complete yet: it is left alone.
    if parser is scanner or _samples_of(options) is not None:
        _add_samples(options, path, picture)
    else:  # a recording has its own; what came after the last line is not true right after it
        run = picture.model.run
        until = math.inf if run.epoch_us is None else run.epoch_us / 1000.0 + run.clock
        picture.feed(event for event in beside if event.at_ms <= until)
    frame = picture.frame(source=_source(path, scanner), now_ms=_now_ms(scanner, picture))
    if options.json:
        import json  # noqa: PLC0415

        json.dump(snapshot_document(frame), sys.stdout, allow_nan=False)
        sys.stdout.write("\n")
    else:
        from cuzktop.headless.text import snapshot_text  # noqa: PLC0415

        if not first:
            sys.stdout.write("\n")
        sys.stdout.write(snapshot_text(frame, **_look(options, sys.stdout)))
    sys.stdout.flush()
    return EXIT_OK if _ours(scanner) else _warn_foreign(path, scanner)


def _now_ms(scanner: LogScanner, picture: Picture) -> float | None:
    """The run's time at the last complete line, where no event of it tells."""
    newest_us, epoch_us = scanner.newest_us(), picture.model.run.epoch_us
    return None if newest_us is None or epoch_us is None else (newest_us - epoch_us) / 1000.0


def _tail(
    path: Path, scanner: LogScanner, take: Callable[[SampleEvent], object]
) -> tuple[Iterable[bytes], LogParser]:
    """The end of a log or recording, and the parser for it."""
    stream = _is_stream(path)
    if not stream and not _is_recording(path):
        return _tail_blocks(path), scanner
    from cuzktop.sources.recording import RecordingParser, as_log, recording_tail  # noqa: PLC0415

    if stream:
        return as_log(_open(path), scanner, on_event=take)
    tail = recording_tail(path, back_ms=START_BACK_MS, max_bytes=START_BACK_BYTES)
    return tail, RecordingParser(scanner, take, name=str(path))


def _tail_blocks(path: Path) -> Iterable[bytes]:
    """The log's end: what is in flight, at least ten minutes, at most 64 MB."""
    from cuzktop.sources.files import find_start, is_stream, open_log, read_blocks  # noqa: PLC0415

    if path == STDIN or is_stream(path):
        yield from _open(path)
        return
    with open_log(path) as file:
        if file.seekable():
            start = find_start(file, back_ms=START_BACK_MS, max_bytes=START_BACK_BYTES)
            file.seek(start)
        yield from read_blocks(file)


def _add_samples(options: argparse.Namespace, path: Path, picture: Picture) -> None:
    """Readings for the snapshot: a demo's own, or two of the cards if the log is being written."""
    samples = _samples_of(options)
    run = picture.model.run
    if samples is not None:
        if run.epoch_us is not None:
            until = run.epoch_us / 1000.0 + run.clock
            picture.feed(one for one in _read_samples(samples) if one.at_ms <= until)
        return
    if options.demo is not None:
        picture.sampler_note = "this demo has no GPU readings"
        return
    if path == STDIN:
        picture.sampler_note = "not measured: the log came through a pipe"
        return
    try:
        age_ms = wall_ms() - path.stat().st_mtime * 1000.0
    except OSError:
        return
    if age_ms > BEING_WRITTEN_MS:
        picture.sampler_note = "not measured: the log isn't being written"
        return
    from cuzktop.sources.nvml import PynvmlReader, read_once  # noqa: PLC0415

    picture.feed(read_once(PynvmlReader(), time.sleep, wall_ms, fast=options.fast))


# ---------------------------------------------------------------- recordings


def _record(options: argparse.Namespace) -> int:
    from cuzktop.sources.recorder import record  # noqa: PLC0415
    from cuzktop.sources.recording import DEFAULT_MAX_BYTES  # noqa: PLC0415

    if options.log is None:
        message = "no log given"
        raise UsageError(message, hint="name the daemon's log with --log, or pipe it to --log -")
    record(
        options.file,
        options.log,
        wall_ms=wall_ms,
        monotonic_s=time.monotonic,
        say=_say,
        max_bytes=options.max_size or DEFAULT_MAX_BYTES,
        max_age_s=options.max_age,
        quiet=options.quiet,
    )
    return EXIT_OK


def _replay(options: argparse.Namespace) -> int:
    from cuzktop.sources.recording import is_recording_file  # noqa: PLC0415
    from cuzktop.sources.replay import position_s, reel  # noqa: PLC0415

    path = Path(options.log)
    if not is_recording_file(path):
        message = f"{path} is no recording"
        raise UsageError(message, hint=f"cuzktop {path} shows a log")
    first_ms = reel(path).first_ms
    options.at = None if options.at is None else position_s(options.at, first_ms)
    return _screen(options)


# ---------------------------------------------------------------- screen


def _screen(options: argparse.Namespace) -> int:
    path = _log_path(options)
    reason = _no_screen(path)
    if reason:
        options.fast = False
        options.delay = None if options.n is None else options.delay
        status = _snapshot(options)
        if status == EXIT_OK:
            _say(f"{reason}: printed text instead")
        return status
    from cuzktop.live import run_live  # noqa: PLC0415

    settings = Settings(
        log=path,
        interval_s=options.delay,
        window_s=options.window,
        colour=not (options.no_color or os.environ.get("NO_COLOR")),
        ascii_only=_ascii(options, sys.stdout),
        mouse=not options.no_mouse,
        demo=options.demo,
        speed=options.speed,
        start_at_s=_start_at(options),
    )
    samples = _samples_of(options)
    make_samples: Callable[[], Iterable[GpuSampled]] | None = None
    if samples is not None:
        make_samples = lambda: _read_samples(samples)  # noqa: E731
    return run_live(settings, wall_ms=wall_ms, monotonic_s=time.monotonic, samples=make_samples)


def _no_screen(path: Path) -> str:
    """Why there can be no screen; empty if there can, with keys to come from the terminal."""
    if not sys.stdout.isatty():
        return "standard output is no terminal"
    if os.environ.get("TERM", "") in ("", "dumb"):
        return f"the terminal can't place text (TERM={os.environ.get('TERM', '')})"
    if sys.stdin is None:
        return "standard input is closed, so there are no keys"
    if path != STDIN and not sys.stdin.isatty():
        from cuzktop.sources.stdin import reopen_tty  # noqa: PLC0415

        was_input = reopen_tty()
        if was_input is None:
            return "there is no terminal to read keys from"
        os.close(was_input)
    return ""
