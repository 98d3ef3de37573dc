"""The command line: arguments → Settings, the source and the view, the exit status.

It alone reads the clock. Nothing is imported before it is needed: `snapshot` and `report` never
load Textual, and load neither NVML nor psutil unless they ask them.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO, TypedDict

from cuzktop import arguments
from cuzktop.dataclass import replace
from cuzktop.errors import (
    EXIT_INTERNAL,
    EXIT_NOTHING_FOUND,
    EXIT_OK,
    EXIT_UNREADABLE,
    CuzktopError,
    SourceUnreadableError,
    UsageError,
)
from cuzktop.settings import (
    DEFAULT_INTERVAL_S,
    EVERYTHING,
    START_BACK_BYTES,
    START_BACK_MS,
    STDIN_FD,
    Settings,
    Since,
)
from cuzktop.where import STDIN, Log, locate

if TYPE_CHECKING:
    from cuzktop.analysis.diagnosis import Measured
    from cuzktop.events import GpuSampled, SampleEvent
    from cuzktop.frame import Source
    from cuzktop.model.state import Run
    from cuzktop.parse.scanner import LogScanner
    from cuzktop.picture import Picture
    from cuzktop.sources.files import LogParser

    Readings = Callable[[], Iterable[GpuSampled]]

SNIFF_BYTES = 4096  # tell a text from anything else
BEING_WRITTEN_MS = 10_000.0  # a snapshot asks NVML only about a log this young
BESIDE_KEPT = 30_000  # of a recording's readings, for a snapshot: an hour of eight GPUs
YOUNG_OBJECTS = 20_000  # between two looks for garbage: importing makes none, reading little
INTERRUPTED = 130
UNTOLD_COLUMNS = 80  # where a terminal doesn't say how wide it is, as in a container or `script`
JOURNAL_LINES = 100_000  # of a unit's journal, for a picture: a few hours of a fast GPU


def wall_ms() -> float:
    """Wall-clock milliseconds since 1970."""
    return time.time() * 1000.0


# ---------------------------------------------------------------- main


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status. Without `argv` the whole process is ours."""
    if argv is not None:
        return _guarded(list(argv))
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)
    try:
        return _guarded(sys.argv[1:])
    finally:
        gc.freeze()  # nobody needs what dies with the process to be looked through once more


def _guarded(words: list[str]) -> int:
    """Run the command; what goes wrong becomes a line on standard error and an exit status."""
    try:
        if sys.stdout is None:
            message = "standard output is closed"
            raise UsageError(message, hint="send it to a terminal, a file or a pipe")  # noqa: TRY301
        return _written(_run(words))
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
    except Exception as error:
        if os.environ.get("CUZKTOP_DEBUG"):
            raise
        _say(
            f"internal error: {type(error).__name__}: {error}: please report it with the log;"
            " CUZKTOP_DEBUG=1 shows where"
        )
        return EXIT_INTERNAL


def _written(status: int) -> int:
    """The same, when all output is out: what can't be written shows here, not at the very end."""
    sys.stdout.flush()
    return status


def _print_json(document: dict[str, object]) -> None:
    import json  # noqa: PLC0415

    json.dump(document, sys.stdout, allow_nan=False)
    sys.stdout.write("\n")


def _say(text: str) -> None:
    """One line on standard error, whatever a file's name holds; none where there is none."""
    if sys.stderr is not None:
        line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
        print(f"cuzktop: {line}", file=sys.stderr)  # noqa: T201


def _abandon_stdout() -> None:
    """Nothing more can be written, not even at exit: the reader has gone, or the disk is full."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _run(words: list[str]) -> int:
    command = COMMANDS.get(words[0]) if words else None
    if command is not None:
        parser, run = command
        return run(parser().parse_args(words[1:]))
    options = arguments.main_parser().parse_args(words)
    if options.list_demos:
        return _list_demos()
    if options.list:
        return _list_daemons(options)
    if options.once or options.batch:
        options.fast = False
        if options.once:
            options.n, options.delay = 1, None
        elif options.delay is None:
            options.delay = DEFAULT_INTERVAL_S
        return _snapshot(options)
    return _screen(options)


def _list_demos() -> int:
    from cuzktop.sources.demos import demo, demo_names  # noqa: PLC0415

    names = demo_names()
    width = max((len(name) for name in names), default=0)
    for name in names:
        print(f"{name:{width}}  {demo(name).about}")  # noqa: T201
    return EXIT_OK


def _list_daemons(options: argparse.Namespace) -> int:
    from cuzktop.doctor import daemon_rows  # noqa: PLC0415
    from cuzktop.headless.doctor import daemons_text  # noqa: PLC0415
    from cuzktop.sources.discovery import ProcReader, choose, find_daemons  # noqa: PLC0415

    daemons = find_daemons(ProcReader())
    if not daemons:
        choice = choose(())
        _say(f"{choice.text}: {choice.hint}")
        return EXIT_NOTHING_FOUND
    sys.stdout.write(daemons_text(daemon_rows(daemons, wall_ms()), **_look(options, sys.stdout)))
    return EXIT_OK


# ---------------------------------------------------------------- sources


def _start_at(options: argparse.Namespace) -> float | None:
    """Where a demo begins to be played, in seconds after its log's first line."""
    if options.at is not None or options.demo is None:
        return None if options.at is None else float(options.at)
    from cuzktop.sources.demos import DEFAULT_DEMO, demo  # noqa: PLC0415

    return demo(options.demo or DEFAULT_DEMO).start_s


def _open(
    log: Log, journal_lines: int | None = None, since: Since | None = None
) -> Iterator[bytes]:
    """The log's blocks, from its beginning; of a journal at most its last `journal_lines`.

    Or of the journal all from `since` on.
    """
    if log.unit is not None:
        from cuzktop.sources.journal import journal_blocks  # noqa: PLC0415

        since_s = None if since is None else _journal_since_s(since)
        lines = journal_lines if since is None else None
        yield from journal_blocks(log.unit, user=log.user_unit, lines=lines, since_s=since_s)
        return
    path = log.path
    from cuzktop.sources.files import open_log, read_blocks  # noqa: PLC0415

    if path == STDIN:
        if sys.stdin is None:
            message = "standard input is closed"
            raise SourceUnreadableError(message, hint="pipe the log in, or name a file")
        yield from read_blocks(sys.stdin.buffer)
        return
    with open_log(path) as file:  # before what was rotated away: that is the longer read
        if log.rotated:
            from cuzktop.sources.rotated import rotated_blocks  # noqa: PLC0415

            yield from rotated_blocks(path, lambda _, text: _say(text), log.since)
        if log.since is None and log.until is None:
            yield from read_blocks(file)
        else:
            yield from _part(log, file)


def _part(log: Log, file: BinaryIO) -> Iterator[bytes]:
    """What was written into a log between its `since` and its `until`."""
    from cuzktop.sources.files import plain_size, read_blocks  # noqa: PLC0415
    from cuzktop.sources.since import find_since  # noqa: PLC0415

    size = plain_size(file)
    if size is None:
        message = f"{log.name} can only be read whole"
        raise UsageError(message, hint="--since and --until need a plain file: unpack it")
    end = size if log.until is None else find_since(file, log.until)
    begin = 0 if log.since is None else find_since(file, log.since)
    if begin >= end and not log.rotated:
        raise _no_line_then(log)
    if begin > 0 or end < size:
        _say(f"{log.name}: bytes {begin} to {end} of {size}; what is cut there is known in part")
    file.seek(begin)
    left = end - begin
    for block in read_blocks(file):
        yield block[:left]
        left -= len(block)
        if left <= 0 and log.until is not None:
            return


def _no_line_then(log: Log) -> UsageError:
    message = f"{log.name} has no line in that time"
    return UsageError(message, hint="times are UTC, as in the log, unless they end in local")


def _journal_since_s(since: Since) -> float:
    """A journal's lines are asked for by their time: it ends now. Seconds since 1970."""
    from cuzktop.sources.since import instant_ms  # noqa: PLC0415

    return max(0.0, instant_ms(since, wall_ms()) / 1000.0)


def _source(log: Log, scanner: LogScanner, parser: LogParser) -> Source:
    from cuzktop.frame import Source as SourceFigures  # noqa: PLC0415

    note = _damage(log, scanner, parser)
    return SourceFigures.of(scanner.counts, path=str(log.path), note=note)


def _damage(log: Log, scanner: LogScanner, parser: LogParser) -> str:
    """What of a recording could not be used, said on standard error too; empty for a log."""
    if parser is scanner:
        return ""
    from cuzktop.sources.recording_reader import RecordingParser  # noqa: PLC0415

    text = parser.damage.text() if isinstance(parser, RecordingParser) else ""
    if text:
        _say(f"{log.name}: {text}")
    return text


def _ours(scanner: LogScanner) -> bool:
    counts = scanner.counts
    return bool(counts.timeline or counts.timing or counts.tracing)


def _warn_foreign(log: Log, scanner: LogScanner) -> int:
    """Say on standard error why nothing was found; the exit status."""
    what = _why_foreign(log, scanner)
    _say(
        f"{log.name} {what}: is it the daemon's log, with standard output and error"
        " (cuzk > log 2>&1)?"
    )
    return EXIT_NOTHING_FOUND


def _why_foreign(log: Log, scanner: LogScanner) -> str:
    if _is_stream(log):
        return "holds no cuzk line" if scanner.counts.bytes else "is empty"
    from cuzktop.sources.files import open_log, sniff  # noqa: PLC0415

    with open_log(log.path) as file:
        first = file.read(SNIFF_BYTES)
    if not first:
        return "is empty"
    if not first.strip(b"\0"):  # what a truncation leaves under a writer that goes on at its place
        return "begins with NUL bytes and holds no cuzk line"
    return sniff(first) or "holds no cuzk line"


def _samples_of(options: argparse.Namespace) -> tuple[Path, bool] | None:
    """The CSV of readings that belongs to the log: asked for, or a demo's own."""
    samples = getattr(options, "samples", None)
    if samples is not None:
        return samples, options.samples_utc
    if options.demo is not None:
        from cuzktop.sources.demos import DEFAULT_DEMO, demo  # noqa: PLC0415

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
    from cuzktop.headless.markdown import report_markdown  # noqa: PLC0415
    from cuzktop.headless.report import partition_line, write_report  # noqa: PLC0415
    from cuzktop.headless.text import RowsTally, report_text  # noqa: PLC0415
    from cuzktop.parse.scanner import LogScanner  # noqa: PLC0415
    from cuzktop.reading import LogSummary  # noqa: PLC0415

    if options.json and options.markdown:
        message = "--json and --markdown are two formats"
        raise UsageError(message, hint="give one of them")
    log = replace(locate(options), since=options.since, until=options.until)
    if log.since or log.until:
        _check_part(log)
    samples = _samples_of(options)
    next(_read_samples(samples), None)  # a CSV that can't be read is said before the log is
    scanner = LogScanner()
    tallies: dict[int, RowsTally] = {}
    blocks, parser, readings = _recorded(log, scanner, samples)

    def measure(run: Run) -> Mapping[int, Measured]:
        return _measured(run, readings)

    with closing(LogSummary(partition_line, measure)) as summary:
        if not options.json:
            summary.on_row = lambda run, row: tallies.setdefault(run.index, RowsTally()).add(row)
        summary.read(blocks, parser)
        source = _source(log, scanner, parser)
        if options.json:
            write_report(
                sys.stdout,
                source=source,
                runs=((report, rows.lines()) for report, rows in summary.runs),
            )
        else:
            reports = [report for report, _ in summary.runs]
            for report in reports:
                if report.unplaced and report.run in tallies:
                    tallies[report.run].unplace(report.unplaced)
            if options.markdown:
                text = report_markdown(reports, source, tallies)
            else:
                text = report_text(reports, source, tallies, **_look(options, sys.stdout))
            sys.stdout.write(text)
    sys.stdout.flush()
    return EXIT_OK if _ours(scanner) else _warn_foreign(log, scanner)


def _check_part(log: Log) -> None:
    """Raise UsageError where a report can't be confined to a time."""
    if log.rotated and log.until is not None:
        message = "--until and --rotated at once"
        raise UsageError(message, hint="name the file that holds the time")
    from cuzktop.sources.files import holds_recording  # noqa: PLC0415

    if _is_stream(log) or holds_recording(log.path):
        message = f"{log.name} can only be reported whole"
        raise UsageError(message, hint="--since and --until need a log file")


def _recorded(
    log: Log, scanner: LogScanner, samples: tuple[Path, bool] | None
) -> tuple[Iterable[bytes], LogParser, Readings | None]:
    """What to read, with which parser, and what gives the GPU readings of that time.

    A recording has its own; a CSV that was asked for goes before them.
    """
    stream = _is_stream(log)
    from cuzktop.sources.files import holds_recording  # noqa: PLC0415

    if log.is_journal or (not stream and not holds_recording(log.path)):
        csv = None if samples is None else lambda: _read_samples(samples)
        return _open(log), scanner, csv
    from cuzktop.sources.recording_reader import (  # noqa: PLC0415
        KeptReadings,
        RecordingParser,
        as_log,
        recording_samples,
    )

    kept = KeptReadings()  # a stream can't be read again for them
    blocks, parser = as_log(
        _open(log),
        scanner,
        path=None if stream else log.path,
        on_event=kept.add if stream else None,
    )
    if samples is not None:
        return blocks, parser, lambda: _read_samples(samples)
    if not isinstance(parser, RecordingParser):
        return blocks, parser, None
    return blocks, parser, (lambda: kept) if stream else (lambda: recording_samples(log.path))


def _is_stream(log: Log) -> bool:
    """Whether it can be read only once, from its beginning."""
    from cuzktop.sources.files import is_stream  # noqa: PLC0415

    return log.is_journal or log.path == STDIN or is_stream(log.path)


def _measured(run: Run, readings: Readings | None) -> Mapping[int, Measured]:
    """NVML's means over each GPU's span of a run."""
    if readings is None:
        return {}
    from cuzktop.reading import measure  # noqa: PLC0415
    from cuzktop.sources.samples import means_by_gpu  # noqa: PLC0415

    return measure(run, readings(), means_by_gpu, _say)


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
                width = os.get_terminal_size(out.fileno()).columns or UNTOLD_COLUMNS
            except OSError:
                width = UNTOLD_COLUMNS
        elif os.environ.get("COLUMNS", "").isdigit():
            width = int(os.environ["COLUMNS"])
    dumb = os.environ.get("TERM") == "dumb"
    colour = tty and not options.no_color and not os.environ.get("NO_COLOR") and not dumb
    return {"width": width, "colour": colour, "ascii_only": _ascii(options, out)}


def _ascii(options: argparse.Namespace, out: TextIO) -> bool:
    """Whether only ASCII can be shown."""
    if options.ascii:
        return True
    import locale  # noqa: PLC0415 - start-up: JSON is always ASCII

    # Python's UTF-8 mode writes UTF-8 whatever the terminal understands: ask the locale, too.
    encodings = (out.encoding or "ascii", locale.getencoding())
    return not all(name.lower().replace("-", "").startswith("utf") for name in encodings)


# ---------------------------------------------------------------- snapshot


def _snapshot(options: argparse.Namespace) -> int:
    log = locate(options)
    times = options.n or (1 if options.delay is None else sys.maxsize)
    if log.path == STDIN and times > 1:
        message = "standard input can be read once only"
        raise UsageError(message, hint="name the log's file to repeat the picture")
    status = EXIT_OK
    for index in range(times):
        if index:
            time.sleep(options.delay or DEFAULT_INTERVAL_S)
        status = _one_snapshot(options, log, first=index == 0)
    return status


def _one_snapshot(options: argparse.Namespace, log: Log, *, first: bool) -> int:
    from cuzktop.headless.snapshot import snapshot_document  # noqa: PLC0415
    from cuzktop.parse.scanner import LogScanner  # noqa: PLC0415
    from cuzktop.picture import Picture  # noqa: PLC0415

    scanner = LogScanner()
    picture = Picture(window_s=options.window)
    beside: deque[SampleEvent] = deque(maxlen=BESIDE_KEPT)
    blocks, parser = _tail(log, scanner, beside.append, options.since)
    for block in blocks:
        picture.feed(parser.feed(block))
    # A half line at the end is not complete yet: it is left alone.
    silent_ms = _silent_ms(log, picture) if parser is scanner and options.demo is None else None
    if parser is scanner or _samples_of(options) is not None:
        _add_samples(options, log, picture, silent_ms)
    else:  # a recording has its own; what came after the last line is not true right after it
        run = picture.model.run
        until = math.inf if run.epoch_us is None else run.epoch_us / 1000.0 + run.clock
        picture.feed(event for event in beside if event.at_ms <= until)
    _add_status(log, picture)
    source = replace(_source(log, scanner, parser), silent_ms=silent_ms)
    frame = picture.frame(source=source, now_ms=_now_ms(scanner, picture))
    if options.json:
        _print_json(snapshot_document(frame))
    else:
        from cuzktop.headless.text import snapshot_text  # noqa: PLC0415

        if not first:
            sys.stdout.write("\n")
        sys.stdout.write(snapshot_text(frame, **_look(options, sys.stdout)))
    sys.stdout.flush()
    return EXIT_OK if _ours(scanner) else _warn_foreign(log, scanner)


def _now_ms(scanner: LogScanner, picture: Picture) -> float | None:
    """The run's time at the last complete line, where no event of it tells."""
    newest_us, epoch_us = scanner.newest_us(), picture.model.run.epoch_us
    return None if newest_us is None or epoch_us is None else (newest_us - epoch_us) / 1000.0


def _tail(
    log: Log,
    scanner: LogScanner,
    take: Callable[[SampleEvent], object],
    since: Since | None,
) -> tuple[Iterable[bytes], LogParser]:
    """The end of a log or recording, or what it has from `since` on, and the parser for it."""
    if log.is_journal:
        return _open(log, JOURNAL_LINES, since), scanner
    stream = _is_stream(log)
    path = log.path
    from cuzktop.sources.files import holds_recording  # noqa: PLC0415

    if not stream and not holds_recording(path):
        return _tail_blocks(log, since), scanner
    from cuzktop.sources.recording_reader import (  # noqa: PLC0415
        RecordingParser,
        as_log,
        recording_since,
        recording_tail,
    )

    if stream or since == EVERYTHING:
        return as_log(_open(log), scanner, path=None if stream else path, on_event=take)
    if since is not None:
        tail = recording_since(path, since)
    else:
        tail = recording_tail(path, back_ms=START_BACK_MS, max_bytes=START_BACK_BYTES)
    return tail, RecordingParser(scanner, take, name=str(path))


def _tail_blocks(log: Log, since: Since | None) -> Iterable[bytes]:
    """The log's end: what is in flight, at least ten minutes, at most 64 MB; or from `since` on."""
    from cuzktop.sources.beginning import find_start  # noqa: PLC0415
    from cuzktop.sources.files import open_log, read_blocks  # noqa: PLC0415

    with open_log(log.path) as file:
        if since is not None:
            from cuzktop.sources.since import find_since  # noqa: PLC0415

            size = os.fstat(file.fileno()).st_size
            if find_since(file, since) >= size > 0:
                raise _no_line_then(log)
        elif file.seekable():
            start = find_start(file, back_ms=START_BACK_MS, max_bytes=START_BACK_BYTES)
            file.seek(start)
        yield from read_blocks(file)


def _silent_ms(log: Log, picture: Picture) -> float | None:
    """How long ago a log file, of which this is the picture, ended; None for anything else."""
    if log.is_journal or _is_stream(log):
        return None
    now = wall_ms()
    try:
        unwritten_ms = max(0.0, now - log.path.stat().st_mtime * 1000.0)
    except OSError:  # it is gone meanwhile
        return None
    return picture.ended_ms(now, unwritten_ms, grows=False)


def _add_status(log: Log, picture: Picture) -> None:
    """What the daemon that was found says of itself, if its configuration says where to ask."""
    if log.status:
        from cuzktop.sources.status import address_of, read_once  # noqa: PLC0415

        address = address_of(log.status)
        if address is not None:
            picture.feed([read_once(address, wall_ms)])


def _add_samples(
    options: argparse.Namespace, log: Log, picture: Picture, silent_ms: float | None
) -> None:
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
    if log.path == STDIN:
        picture.sampler_note = "not measured: the log came through a pipe"
        return
    if silent_ms is not None and silent_ms > BEING_WRITTEN_MS:
        picture.sampler_note = "not measured: the log isn't being written"
        return
    from cuzktop.sources.gpu_sampling import read_once  # noqa: PLC0415
    from cuzktop.sources.nvml import PynvmlReader  # noqa: PLC0415
    from cuzktop.sources.ordinals import read_choice  # noqa: PLC0415

    choice = lambda: read_choice(log.pid)  # noqa: E731
    picture.feed(read_once(PynvmlReader(), time.sleep, wall_ms, fast=options.fast, choice=choice))


# ---------------------------------------------------------------- recordings


def _record(options: argparse.Namespace) -> int:
    from cuzktop.sources.recorder import record  # noqa: PLC0415
    from cuzktop.sources.recording_writer import DEFAULT_MAX_BYTES  # noqa: PLC0415

    log = locate(options)
    source = None
    if log.unit is not None:
        from cuzktop.sources.journal import JournalReader  # noqa: PLC0415

        unit, user = log.unit, log.user_unit
        source = lambda parser, emit: JournalReader(  # noqa: E731
            unit, parser, emit, clock=wall_ms, user=user
        )
    record(
        options.file,
        log.path,
        wall_ms=wall_ms,
        monotonic_s=time.monotonic,
        say=_say,
        max_bytes=options.max_size or DEFAULT_MAX_BYTES,
        max_age_s=options.max_age,
        quiet=options.quiet,
        pid=log.pid,
        source=source,
    )
    return EXIT_OK


def _replay(options: argparse.Namespace) -> int:
    from cuzktop.sources.files import holds_recording  # noqa: PLC0415
    from cuzktop.sources.reels import position_s, reel  # noqa: PLC0415

    path = Path(options.log)
    if not holds_recording(path):
        message = f"{path} is no recording"
        raise UsageError(message, hint=f"cuzktop {path} shows a log")
    first_ms = reel(path).first_ms
    options.at = None if options.at is None else position_s(options.at, first_ms)
    return _screen(options)


# ---------------------------------------------------------------- comparison, trace, doctor


def _diff(options: argparse.Namespace) -> int:
    from cuzktop.analysis.compare import compare  # noqa: PLC0415
    from cuzktop.headless.diff import (  # noqa: PLC0415
        diff_document,
        diff_text,
        summarise_for_diff,
    )
    from cuzktop.parse.scanner import LogScanner  # noqa: PLC0415

    if len(options.logs) < 2:
        message = "one log can't be compared"
        raise UsageError(message, hint="name two, or more for a sweep")
    figures = []
    status = EXIT_OK
    for name in options.logs:
        log = Log(path=Path(name), rotated=options.rotated)
        scanner = LogScanner()
        blocks, parser, readings = _recorded(log, scanner, None)
        measure = _measure_by(readings)
        figures.append(summarise_for_diff(blocks, parser, name, measure))
        _damage(log, scanner, parser)
        if not _ours(scanner):
            status = _warn_foreign(log, scanner)
    comparison = compare(figures)
    if options.json:
        _print_json(diff_document(comparison))
    else:
        sys.stdout.write(diff_text(comparison, **_look(options, sys.stdout)))
    return status


def _measure_by(readings: Readings | None) -> Callable[[Run], Mapping[int, Measured]]:
    return lambda run: _measured(run, readings)


def _trace(options: argparse.Namespace) -> int:
    from cuzktop.headless.trace import write_trace  # noqa: PLC0415
    from cuzktop.parse.scanner import LogScanner  # noqa: PLC0415

    log = locate(options)
    samples = _samples_of(options)
    next(_read_samples(samples), None)
    scanner = LogScanner()
    blocks, parser, readings = _recorded(log, scanner, samples)
    given: Iterable[GpuSampled] = () if readings is None else _Late(readings)
    if options.output == "-":
        write_trace(sys.stdout, blocks, parser, given, name=str(log.path))
        sys.stdout.flush()
    else:
        try:
            with open(options.output, "w", encoding="utf-8") as out:  # noqa: PTH123
                counts = write_trace(out, blocks, parser, given, name=str(log.path))
        except OSError as error:
            message = f"cannot write {options.output}: {(error.strerror or str(error)).lower()}"
            raise UsageError(message, hint="name another file with -o") from None
        _say(
            f"{options.output}: {counts.events} events of {counts.partitions} partitions;"
            " open it in ui.perfetto.dev"
        )
    _damage(log, scanner, parser)
    return EXIT_OK if _ours(scanner) else _warn_foreign(log, scanner)


class _Late:
    """Readings that are read when they are asked for: a stream's come with its log."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def __iter__(self) -> Iterator[GpuSampled]:
        return iter(self._readings())


def _doctor(options: argparse.Namespace) -> int:
    from cuzktop.doctor import Asked, Tools, failed, read_terminal, run_checks  # noqa: PLC0415
    from cuzktop.headless.doctor import doctor_document, doctor_text  # noqa: PLC0415

    asked = Asked(
        log=None if options.log is None else Path(options.log),
        pid=options.pid,
        unit=options.journal,
        status=options.status,
    )
    terminal = read_terminal(sys.stdout, os.environ)
    checks = run_checks(asked, Tools(wall_ms=wall_ms, terminal=terminal))
    if options.json:
        _print_json(doctor_document(checks))
    else:
        sys.stdout.write(doctor_text(checks, **_look(options, sys.stdout)))
    return int(failed(checks))


# ---------------------------------------------------------------- screen


def _screen(options: argparse.Namespace) -> int:
    log = _by_lasting_name(locate(options))
    reason = _no_screen(log.path)
    if reason:
        options.fast = False
        options.delay = None if options.n is None else options.delay
        status = _snapshot(options)
        if status == EXIT_OK:
            _say(f"{reason}: printed text instead")
        return status
    from cuzktop.live import run_live  # noqa: PLC0415

    settings = Settings(
        log=log.path,
        interval_s=options.delay,
        window_s=options.window,
        colour=not (options.no_color or os.environ.get("NO_COLOR")),
        ascii_only=_ascii(options, sys.stdout),
        mouse=not options.no_mouse,
        demo=options.demo,
        speed=options.speed,
        start_at_s=_start_at(options),
        since=options.since,
    )
    samples = _samples_of(options)
    make_samples: Callable[[], Iterable[GpuSampled]] | None = None
    if samples is not None:
        make_samples = lambda: _read_samples(samples)  # noqa: E731
    return run_live(
        settings,
        log,
        status=getattr(options, "status", None) or log.status,
        wall_ms=wall_ms,
        monotonic_s=time.monotonic,
        samples=make_samples,
    )


def _by_lasting_name(log: Log) -> Log:
    """A log that is our standard input, as `-` if it is a stream, as the file that it is if not.

    `/dev/stdin` names whatever standard input is when it is opened: by then that is the terminal.
    """
    try:
        status = os.fstat(STDIN_FD)
        if not os.path.samestat(log.path.stat(), status):
            return log
    except OSError:  # no file, or standard input is closed
        return log
    return replace(log, path=log.path.resolve() if stat.S_ISREG(status.st_mode) else STDIN)


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


COMMANDS: Mapping[
    str,
    tuple[Callable[[], argparse.ArgumentParser], Callable[[argparse.Namespace], int]],
] = {
    "report": (arguments.report_parser, _report),
    "snapshot": (arguments.snapshot_parser, _snapshot),
    "diff": (arguments.diff_parser, _diff),
    "trace": (arguments.trace_parser, _trace),
    "record": (arguments.record_parser, _record),
    "replay": (arguments.replay_parser, _replay),
    "doctor": (arguments.doctor_parser, _doctor),
}
