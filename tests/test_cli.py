"""The command line: what it answers to bad input, and how it ends."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cuzktop import __version__
from cuzktop.cli import main
from cuzktop.sources.demos import demo, demo_names
from tests.on_terminal import Terminal

COMMAND = [sys.executable, "-m", "cuzktop"]
ROOT = Path(__file__).resolve().parents[1]
FULL = Path("/dev/full")


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the caller's terminal says must not matter."""
    for name in ("COLUMNS", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded log, last written long ago: no card is asked about it."""
    path = tmp_path_factory.mktemp("log") / "daemon.log"
    path.write_bytes(gzip.decompress(demo("h200-one-gpu").log.read_bytes()))
    os.utime(path, (1.7e9, 1.7e9))
    return path


Written = pytest.CaptureFixture[str]


# ---------------------------------------------------------------- what can't be read, or is foreign


def make_directory(path: Path) -> None:
    path.mkdir()


def make_forbidden(path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read anything")
    path.write_bytes(b"x")
    path.chmod(0)


def make(content: bytes) -> Callable[[Path], None]:
    """A maker of a file with `content`."""

    def make_file(path: Path) -> None:
        path.write_bytes(content)

    return make_file


TRACING = b"2026-02-19T08:12:31.402318Z  INFO cuzk_daemon: cuzk-daemon starting\n"
MARK = b"TIMELINE,2330,SYNTH_START,porep-1000-1,partition=0\n"


@pytest.mark.parametrize("command", ["report", "snapshot"])
@pytest.mark.parametrize("as_json", [True, False], ids=["json", "text"])
@pytest.mark.parametrize(
    ("maker", "status", "said"),
    [
        pytest.param(lambda _: None, 2, "no such file", id="missing"),
        pytest.param(make_directory, 2, "is a directory", id="directory"),
        pytest.param(make_forbidden, 2, "permission denied", id="no-permission"),
        pytest.param(make(b""), 1, "is empty", id="empty"),
        pytest.param(make(bytes(5000)), 1, "begins with NUL bytes and holds no", id="nul"),
        pytest.param(make(bytes(300_000)), 1, "begins with NUL bytes", id="much-nul"),
        pytest.param(make(bytes(range(256)) * 400), 1, "is binary", id="binary"),
        pytest.param(make(b"\x7fELF" + bytes(5000)), 1, "is a program", id="program"),
        pytest.param(make(b"GET / HTTP/1.1\n" * 50), 1, "holds no cuzk line", id="foreign-text"),
        pytest.param(make(b"a" * 5_000_000), 1, "holds no cuzk line", id="one-line-of-5-MB"),
        pytest.param(make("träge\n".encode("latin-1") * 9), 1, "no cuzk line", id="not-utf-8"),
        pytest.param(make(MARK + b"x" * 5_000_000 + b"\n"), 0, "", id="ours-and-5-MB"),
        pytest.param(make(TRACING + b"\xff\xfe\xe9\n" + MARK), 0, "", id="ours-and-not-utf-8"),
        pytest.param(make(TRACING + MARK + MARK[:30]), 0, "", id="half-a-line"),
        pytest.param(make((TRACING + MARK).replace(b"\n", b"\r\n")), 0, "", id="crlf"),
        pytest.param(make(b"\0" * 4096 + TRACING + MARK), 0, "", id="hole-at-the-front"),
        pytest.param(make(gzip.compress(TRACING + MARK)), 0, "", id="gzip"),
        pytest.param(make(gzip.compress(TRACING * 99)[:90]), 2, "cut off", id="half-a-gzip"),
    ],
)
def test_any_file_gets_a_status_and_a_line(
    command: str,
    as_json: bool,  # noqa: FBT001 - a table's column
    maker: Callable[[Path], None],
    status: int,
    said: str,
    tmp_path: Path,
    capsys: Written,
) -> None:
    path = tmp_path / "daemon.log"
    maker(path)
    if path.is_file():
        os.utime(path, (1.7e9, 1.7e9))
    assert main([command, str(path), *(["--json"] if as_json else [])]) == status
    out, err = capsys.readouterr()
    assert said in err
    assert err.count("\n") == (1 if status else 0)
    if status == 2:
        assert out == ""
    elif as_json:
        document = json.loads(out)
        assert document["schema"] == f"cuzktop.{command}/1"
        assert document["source"]["path"] == str(path)
        if status == 1:
            assert (document.get("runs", []), document.get("gpus", [])) == ([], [])
    else:
        assert out.endswith("\n")
        assert all(len(line) <= 100 for line in out.splitlines())


def test_a_half_line_is_not_counted_as_a_line_of_ours(tmp_path: Path, capsys: Written) -> None:
    """A number may be cut in it: nothing in it can be believed."""
    path = tmp_path / "daemon.log"
    path.write_bytes(MARK + MARK.replace(b"partition=0", b"partition=1")[:-1])
    assert main(["report", str(path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["runs"][0]["partitions"]
    assert [row["partition"] for row in rows] == [0]


def test_a_snapshot_says_how_long_ago_its_log_ended(
    tmp_path: Path, log: Path, capsys: Written
) -> None:
    """By the file's time, or by the log's own clock where the file is a copy, however new.

    Not while it grows, though that clock is fast or slow by hours.
    """
    now = time.time()
    ended = "The log ended "
    hours_ago = f"{datetime.fromtimestamp(now - 7200.0, UTC):%Y-%m-%dT%H}".encode()
    for age_s, told, clock in (
        (1.0, True, b"2026-03-14T09"),
        (1.0, False, hours_ago),
        (3600.0, True, b"2026-03-14T09"),
    ):
        path = tmp_path / "copy.log"
        path.write_bytes(log.read_bytes().replace(b"2026-11-30T09", clock))
        os.utime(path, (now - age_s, now - age_s))
        assert main(["snapshot", str(path), "--fast"]) == 0
        assert (ended in capsys.readouterr().out) == told
        assert main(["snapshot", str(path), "--fast", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        at_s = datetime.fromisoformat(document["at"]).timestamp()
        silent_s = now - at_s if told else age_s
        assert document["source"]["silent_ms"] / 1000.0 == pytest.approx(silent_s, abs=60.0)
    with standard_input(log.read_bytes()):
        assert main(["snapshot", "-"]) == 0
    assert ended not in capsys.readouterr().out


@pytest.mark.parametrize("command", ["report", "snapshot"])
def test_a_daemon_without_work_is_not_told_that_its_standard_error_is_missing(
    command: str, tmp_path: Path, log: Path, capsys: Written
) -> None:
    """TIMELINE lines come from the first synthesis on; one that has ended shows they are due."""
    missing, none_yet = "the daemon's standard error is missing; start it with 2>&1", "so far"
    data = log.read_bytes()
    idle = data[: data.rindex(b"\n", 0, data.index(b"TIMELINE")) + 1]
    lines = data.splitlines(keepends=True)
    deaf = b"".join(line for line in lines if b"TIMELINE" not in line and b"CUZK_T" not in line)
    for text, told, not_told in ((idle, none_yet, missing), (deaf, missing, none_yet)):
        path = tmp_path / "daemon.log"
        path.write_bytes(text)
        os.utime(path, (1e9, 1e9))
        assert main([command, str(path)]) == 0
        words = " ".join(capsys.readouterr().out.split())
        assert told in words
        assert not_told not in words


def test_a_lock_is_free_only_where_the_log_would_tell_its_holder(
    tmp_path: Path, log: Path, capsys: Written
) -> None:
    """Who holds it is in the CUZK_TIMING lines; that nobody wants it, in the TIMELINE lines."""

    def lock_in(text: bytes) -> dict[str, object]:
        path = tmp_path / "daemon.log"
        path.write_bytes(text)
        os.utime(path, (1e9, 1e9))
        assert main(["snapshot", "--json", str(path)]) == 0
        (gpu,) = json.loads(capsys.readouterr().out)["gpus"]
        assert gpu["lock"]["holder"] is None
        return dict(gpu["lock"])

    lines = log.read_bytes().splitlines(keepends=True)
    untimed = b"".join(line for line in lines if b"CUZK_T" not in line)
    deaf = b"".join(line for line in lines if b"CUZK_T" not in line and b"TIMELINE" not in line)
    picked = untimed.index(b"GPU_START")
    begun = untimed[: untimed.index(b"\n", picked) + 1]
    before = untimed[: untimed.rindex(b"\n", 0, picked) + 1]
    assert lock_in(deaf)["confidence"] == "none"
    assert lock_in(begun)["confidence"] == "none"
    assert len(str(lock_in(begun)["waiting"])) > len("[]")
    assert lock_in(before)["confidence"] == "exact"


def test_line_ends_do_not_matter(tmp_path: Path, log: Path, capsys: Written) -> None:
    path = tmp_path / "crlf.log"
    path.write_bytes(log.read_bytes().replace(b"\n", b"\r\n"))
    documents = []
    for each in (log, path):
        assert main(["report", str(each), "--json"]) == 0
        documents.append(json.loads(capsys.readouterr().out)["runs"])
    assert documents[0] == documents[1]


# ---------------------------------------------------------------- usage


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report"], "no process named cuzk or cuzk-daemon runs here"),
        (["snapshot"], "no process named cuzk or cuzk-daemon runs here"),
        ([], "no process named cuzk or cuzk-daemon runs here"),
        (["report", "LOG", "--journal", "cuzk"], "a log and --journal at once"),
        (["diff", "LOG"], "one log can't be compared"),
        (["report", "--demo", "nope"], "there is no demo 'nope': choose one of ninety-percent"),
        (["report", "LOG", "--demo"], "a log and --demo at once"),
        (["snapshot", "LOG", "--demo", "herd"], "a log and --demo at once"),
        (["--demo", "herd", "LOG"], "a log and --demo at once"),
        (["report", "LOG", "--bogus"], "unrecognized arguments: --bogus"),
        (["report", "LOG", "LOG"], "unrecognized arguments"),
        (["snapshot", "LOG", "-n", "0"], "'0' is no whole number above 0"),
        (["snapshot", "LOG", "-n", "two"], "'two' is no whole number"),
        (["snapshot", "LOG", "-d", "0"], "'0' is no number of seconds"),
        (["snapshot", "LOG", "-d", "nan"], "'nan' is no number of seconds"),
        (["snapshot", "LOG", "--window", "inf"], "'inf' is no number of seconds"),
        (["report", "LOG", "-w", "-3"], "'-3' is no whole number above 0"),
        (["report", "LOG", "-w", "wide"], "'wide' is no whole number"),
        (["--demo", "--speed", "0"], "'0' is no speed"),
        (["--demo", "--at", "nan"], "'nan' is no number of seconds"),
        (["--demo", "--at=-1"], "'-1' is no number of seconds"),
        (["snapshot", "-", "-n", "2"], "standard input can be read once only"),
        (["report", "LOG", "--samples", "none.csv"], "none.csv"),
        (["report", "LOG", "--samples", "LOG"], "no timestamp column"),
        (["nothing-of-this-name"], "no such file"),
        (["report", ""], "LOG: it is empty (is a variable of the command not set?)"),
        (["snapshot", " "], "LOG: it is empty"),
        ([""], "LOG: it is empty"),
        (["diff", "LOG", ""], "LOG: it is empty"),
        (["record", ""], "FILE: it is empty"),
        (["record", "x.rec", "--log", ""], "--log: it is empty"),
        (["replay", ""], "FILE: it is empty"),
        (["trace", "LOG", "-o", ""], "--output: it is empty"),
        (["report", "LOG", "--samples", ""], "--samples: it is empty"),
        (["--journal", ""], "--journal: it is empty"),
        (["doctor", "--status", ""], "--status: it is empty"),
    ],
)
def test_a_bad_command_line_is_one_line_and_status_2(
    arguments: list[str], said: str, log: Path, capsys: Written
) -> None:
    assert main([str(log) if word == "LOG" else word for word in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("cuzktop: ")
    assert said in err
    assert err.count("\n") == 1


def test_a_files_name_can_not_write_to_the_terminal(capsys: Written) -> None:
    assert main(["report", "two\nlines\x1b[31m\udcff.log"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.rstrip("\n").isprintable()


def test_help_names_the_ways_in_and_the_exit_statuses(capsys: Written) -> None:
    for arguments in (["--help"], ["report", "-h"], ["snapshot", "-h"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
        out, err = capsys.readouterr()
        assert out.startswith("usage: cuzktop")
        assert out.isascii()
        assert err == ""


def test_an_error_of_our_own_is_one_line_and_status_70(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: Written
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by us")  # noqa: TRY003, EM101 - any error

    monkeypatch.setattr("cuzktop.headless.text.snapshot_text", fails)
    assert main(["snapshot", str(log)]) == 70
    _, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert "internal error: ZeroDivisionError: by us: please report it" in err
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "70 an error of cuzktop's own" in capsys.readouterr().out


def test_version(capsys: Written) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"cuzktop {__version__}\n"


def test_the_demos_are_listed_with_what_they_show(capsys: Written) -> None:
    assert main(["--list-demos"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(demo_names())
    assert all(len(line.split()) > 5 for line in lines)


# ---------------------------------------------------------------- standard input


@contextlib.contextmanager
def standard_input(content: bytes) -> Iterator[None]:
    """`content` comes through a pipe."""
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8")
    try:
        yield
    finally:
        sys.stdin = before


@pytest.mark.parametrize("command", ["report", "snapshot"])
def test_standard_input_tells_what_the_file_tells(command: str, log: Path, capsys: Written) -> None:
    assert main([command, str(log), "--json"]) == 0
    of_file = json.loads(capsys.readouterr().out)
    with standard_input(log.read_bytes()):
        assert main([command, "-", "--json"]) == 0
    of_pipe = json.loads(capsys.readouterr().out)
    assert of_pipe["source"].pop("path") == "-"
    of_file["source"].pop("path")
    if command == "snapshot":
        assert of_file["source"].pop("silent_ms") > 0
        assert of_pipe["source"].pop("silent_ms") is None
    for document in (of_file, of_pipe):  # the reason alone differs
        for gpu in document.get("gpus", []):
            assert gpu.pop("nvml_note") != ""
    assert of_pipe == of_file


def test_an_empty_pipe_is_an_empty_log(capsys: Written) -> None:
    with standard_input(b""):
        assert main(["report", "-", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["runs"] == []
    assert err.startswith("cuzktop: standard input is empty")


# ---------------------------------------------------------------- without a terminal


def test_without_a_terminal_text_is_printed_instead(log: Path, capsys: Written) -> None:
    assert main([str(log)]) == 0
    out, err = capsys.readouterr()
    assert "GPU 0" in out
    assert err == "cuzktop: standard output is no terminal: printed text instead\n"


@pytest.mark.parametrize("flag", ["-1", "--once", "-b"])
def test_once_and_batch_are_snapshot(
    flag: str, log: Path, capsys: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuzktop.cli.time.sleep", lambda _: None)
    assert main(["snapshot", str(log), "-w", "90"]) == 0
    expected = capsys.readouterr()
    assert main([flag, str(log), "-w", "90", "-n", "1"]) == 0
    assert capsys.readouterr() == expected


def test_a_snapshot_is_repeated_as_often_as_asked(
    log: Path, capsys: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("cuzktop.cli.time.sleep", slept.append)
    assert main(["snapshot", str(log), "--json", "-n", "3", "-d", "2.5"]) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(documents) == 3
    silences = [document["source"].pop("silent_ms") for document in documents]
    assert silences == sorted(silences)
    assert documents[0] == documents[1] == documents[2]
    assert slept == [2.5, 2.5]


def test_the_window_is_the_one_asked_for(log: Path, capsys: Written) -> None:
    assert main(["snapshot", str(log), "--json", "--window", "7.5"]) == 0
    window = json.loads(capsys.readouterr().out)["gpus"][0]["window"]
    assert (window["seconds"], window["span_ms"]) == (7.5, 7500)


@pytest.mark.parametrize("command", ["report", "snapshot"])
def test_ascii_and_width_are_kept_to(command: str, log: Path, capsys: Written) -> None:
    assert main([command, str(log), "-U", "-w", "64"]) == 0
    out = capsys.readouterr().out
    assert out.isascii()
    assert max(map(len, out.splitlines())) <= 64
    assert "\x1b" not in out


def test_a_terminal_that_tells_no_width_is_given_the_usual_one(
    monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

        def fileno(self) -> int:
            return 1

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(os, "get_terminal_size", lambda _fd: os.terminal_size((0, 0)))
    assert main(["report", str(log), "-C"]) == 0
    assert 70 < max(map(len, terminal.getvalue().splitlines())) <= 80


def test_columns_of_the_environment_count_in_a_pipe(
    log: Path, capsys: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    assert main(["report", str(log)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 60 < max(map(len, lines)) <= 70


# ---------------------------------------------------------------- recorded readings


def test_a_recording_stands_beside_the_log(log: Path, capsys: Written) -> None:
    readings = demo("h200-one-gpu").gpu_csv
    assert readings is not None
    arguments = ["report", str(log), "--json", "--samples", str(readings)]
    assert main([*arguments, "--samples-utc"]) == 0
    nvml = json.loads(capsys.readouterr().out)["runs"][0]["gpus"][0]["nvml"]
    assert nvml["samples"] > 400
    assert 40 < nvml["util_pct"] < 50


# ---------------------------------------------------------------- as a process of its own


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    """The command as a process, whose output is buffered as it is for its users."""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    options = {"env": buffered, **options}
    return subprocess.run(  # type: ignore[call-overload, no-any-return] # noqa: PLW1510
        [*COMMAND, *arguments], cwd=ROOT, timeout=30, stderr=subprocess.PIPE, **options
    )


def test_a_reader_that_leaves_is_no_failure() -> None:
    """`cuzktop report … | head -1`."""
    with subprocess.Popen(
        [*COMMAND, "report", "--demo", "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"schema"')
        process.stdout.close()  # 130 kB don't fit into a pipe: the writer notices
        assert process.wait(30) == 0
        assert process.stderr.read() == b""


INTERRUPTIBLE = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)  # who starts tests in the background ignores it
os.execv(sys.executable, [sys.executable, "-m", "cuzktop", *sys.argv[1:]])
"""


def test_ctrl_c_ends_quietly_with_130(log: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, "snapshot", str(log), "--json", "-d", "60"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"schema"')  # now it waits for the next one
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr.read() == b""


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    "words",
    [
        "report --json --demo",
        "snapshot --demo",
        "--list-demos",
        "doctor",
        "--help",
        "--version",
        "trace -h",
    ],
)
def test_a_full_disk_is_one_line(words: str) -> None:
    with FULL.open("wb") as full:
        ended = run(*words.split(), stdout=full)
    assert ended.returncode == 2
    assert ended.stderr == b"cuzktop: can't write the output: no space left on device\n"


@pytest.mark.parametrize(
    ("redirection", "status", "said"),
    [
        ("report --demo --json >&-", 2, b"standard output is closed"),
        ("report - --json <&-", 2, b"standard input is closed"),
        ("report /dev/null --json 2>&-", 1, b""),
    ],
)
def test_closed_streams_are_survived(redirection: str, status: int, said: bytes) -> None:
    ended = subprocess.run(
        ["sh", "-c", f'exec "{sys.executable}" -m cuzktop {redirection}'],
        cwd=ROOT,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == status
    assert said in ended.stderr
    assert ended.stderr.count(b"\n") == (1 if said else 0)
    if status == 1:  # the document is whole, the warning has not strayed into it
        assert json.loads(ended.stdout)["runs"] == []


def test_a_terminal_that_is_not_utf_8_gets_ascii(log: Path) -> None:
    ended = run(
        "report",
        str(log),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONIOENCODING": "iso-8859-1"},
    )
    assert ended.returncode == 0
    assert ended.stdout.isascii()


# ---------------------------------------------------------------- on a terminal


@pytest.mark.parametrize("keys", ["keys", "null"])
def test_the_screen_comes_up_and_q_leaves_it_as_it_was(keys: str) -> None:
    """Also where standard input is no terminal: the keys come from the terminal all the same."""
    terminal = Terminal("--demo", keys=keys)
    terminal.read_until(b" UTC")  # the log's time: a picture is there
    os.write(terminal.master, b"q")
    assert terminal.end() == 0
    for mode in (b"1049", b"1000", b"1003", b"1006", b"2004"):
        assert terminal.seen.rfind(b"\x1b[?%sl" % mode) > terminal.seen.rfind(b"\x1b[?%sh" % mode)
    assert terminal.seen.rfind(b"\x1b[?25h") > terminal.seen.rfind(b"\x1b[?25l")


def test_a_terminal_that_can_not_place_text_gets_text() -> None:
    terminal = Terminal("--demo", "herd", term="dumb")
    assert terminal.end() == 0
    assert b"can't place text (TERM=dumb): printed text instead" in terminal.seen
    assert b"\x1b" not in terminal.seen


def test_a_missing_log_is_told_before_anything_is_drawn() -> None:
    terminal = Terminal("no-such.log")
    assert terminal.end() == 2
    assert terminal.seen.startswith(b"cuzktop: cannot read no-such.log: no such file")
    assert terminal.seen.count(b"\n") == 1


# ---------------------------------------------------------------- how much of the log is read


def snapshot_bytes(log: Path, written: Written, *words: str) -> int:
    assert main(["snapshot", "--json", "--fast", *words, str(log)]) == 0
    size = json.loads(written.readouterr().out)["source"]["bytes"]
    assert isinstance(size, int)
    return size


def test_since_and_all_say_how_much_a_snapshot_reads(
    log: Path, tmp_path: Path, capsys: Written
) -> None:
    data = log.read_bytes()
    twice = tmp_path / "twice.log"  # two lives of the daemon
    twice.write_bytes(data + data.replace(b"2026-11-30T", b"2026-12-01T"))
    os.utime(twice, (1.7e9, 1.7e9))
    by_default = snapshot_bytes(twice, capsys)
    assert by_default <= len(data)
    assert snapshot_bytes(twice, capsys, "--all") == 2 * len(data)
    short = snapshot_bytes(twice, capsys, "--since", "20s")
    longer = snapshot_bytes(twice, capsys, "--since", "40s")
    assert 0 < short < longer < len(data)
    assert snapshot_bytes(twice, capsys, "--since", "2d") == 2 * len(data)


@pytest.mark.parametrize("command", ["snapshot", "--once"])
def test_a_time_that_is_none_is_refused(command: str, log: Path, capsys: Written) -> None:
    assert main([command, str(log), "--since", "yesterday"]) == 2
    assert "'yesterday' is no time: 10m, 90s" in capsys.readouterr().err


def test_a_report_of_a_part_and_the_rest_make_the_whole(log: Path, capsys: Written) -> None:
    def size(*words: str) -> int:
        assert main(["report", "--json", str(log), *words]) == 0
        number = json.loads(capsys.readouterr().out)["source"]["bytes"]
        assert isinstance(number, int)
        return number

    whole = size()
    assert size("--since", "20s") + size("--until", "20s") == whole
    between = size("--since", "30s", "--until", "20s")
    assert between == size("--since", "30s") - size("--since", "20s")
    assert 0 < between < whole


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--since", "2099-01-01"), "has no line in that time"),
        (("--since", "5s", "--until", "10s"), "has no line in that time"),
        (("--until", "10s", "--rotated"), "--until and --rotated at once"),
    ],
)
def test_a_part_that_can_t_be_reported_is_said(
    words: tuple[str, ...], said: str, log: Path, capsys: Written
) -> None:
    assert main(["report", str(log), *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_picture_of_what_comes_after_the_log_is_none(
    more: tuple[str, ...], log: Path, capsys: Written
) -> None:
    assert main(["snapshot", str(log), "--since", "2099-01-01", *more]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "has no line in that time" in err


def test_only_a_plain_file_can_be_reported_in_part(tmp_path: Path, capsys: Written) -> None:
    assert main(["report", "-", "--since", "5m"]) == 2
    assert "can only be reported whole" in capsys.readouterr().err
    packed = tmp_path / "d.log.gz"
    packed.write_bytes(gzip.compress(b"text"))
    assert main(["report", str(packed), "--since", "5m"]) == 2
    assert "can only be read whole" in capsys.readouterr().err
