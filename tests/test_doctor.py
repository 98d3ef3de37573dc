"""Each check's judgement, what is printed of it, and that nothing outside can break them."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzktop import doctor
from cuzktop.doctor import (
    PACKAGES,
    Asked,
    Check,
    DaemonRow,
    GpuFindings,
    Level,
    Terminal,
    Tools,
    check_colours_of,
    check_config,
    check_container,
    check_gpus,
    check_terminal,
    check_text,
    check_version,
    daemon_rows,
    failed,
    installed,
    read_gpus,
    read_terminal,
    run_checks,
    tail_of,
)
from cuzktop.errors import SourceUnreadableError
from cuzktop.headless.doctor import daemons_text, doctor_document, doctor_text
from cuzktop.sources.demos import demo
from cuzktop.sources.discovery import Choice, Config, Daemon, Stream, find_daemons
from cuzktop.sources.gpu_reader import ErrorKind, GpuReadError, NumberField, NvmlUnavailableError
from cuzktop.sources.gpu_reader import TextField as GpuTextField
from cuzktop.sources.status import Address, StatusError
from tests.sources.machine import STARTED_MS, SYSTEM_UNIT, WRITE, Machine

NOW_MS = STARTED_MS + 3_600_000.0
LOG = gzip.decompress(demo("h200-one-gpu").log.read_bytes())
WIDE = Terminal(120, 40, "xterm-256color", "truecolor", "utf-8")
VERSIONS = dict.fromkeys(PACKAGES, "1.0")
STATUS = b'{"uptime_secs":3599.0,"counters":{}}'
TRACING = b"2026-03-14T01:02:03.456789Z  INFO cuzk_daemon: cuzk-daemon starting\n"
TIMELINE = b"TIMELINE,5,GPU_START,j,worker=0,partition=3\n"
TIMING = b"CUZK_TIMING: prep_msm_ms=1909\n"


class Cards:
    """NVML with some cards; a `broken` question raises what it says."""

    def __init__(self, count: int = 2, **modes: tuple[float, ...]) -> None:
        self.count = count
        self.modes = {"persistence_mode": (1.0,) * count, "mig_mode": (0.0,) * count} | modes
        self.broken: dict[str, Exception] = {}
        self.hangs = threading.Event()
        self.hangs.set()

    def _ask(self, what: str) -> None:
        self.hangs.wait(20)
        if what in self.broken:
            raise self.broken[what]

    def start(self) -> None:
        self._ask("start")

    def driver_version(self) -> str:
        self._ask("driver_version")
        return "580.159.04"

    def gpu_count(self) -> int:
        return self.count

    def find(self, gpu: int, uuid: str | None) -> object:
        assert uuid is None
        self._ask(f"find {gpu}")
        return gpu

    def text(self, handle: object, what: GpuTextField) -> str:
        assert isinstance(handle, int)
        assert what == "name"
        return "NVIDIA H200"

    def number(self, handle: object, what: NumberField) -> float:
        assert isinstance(handle, int)
        self._ask(what)
        return self.modes[what][handle]


def broken(kind: ErrorKind = "failed") -> GpuReadError:
    return GpuReadError(kind=kind, text="no answer")


class Place:
    """A machine on which the doctor is called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.machine = Machine(folder)
        (self.machine.proc / "self" / "cgroup").write_text("0::/user.slice\n")
        self.log = folder / "cuzk.log"
        self.log.write_bytes(LOG)
        os.utime(self.log, (NOW_MS / 1000.0 - 3, NOW_MS / 1000.0 - 3))
        self.cards = Cards()
        self.answer: bytes | StatusError = STATUS
        self.asked: list[Address] = []
        self.journal: bytes | SourceUnreadableError = LOG
        self.terminal = WIDE

    def start(self, pid: int = 42, config: str = "", *, journal: bool = False) -> None:
        """Start a daemon that writes to the log, or to the journal."""
        path = self.folder / "cuzk.toml"
        path.write_text(config or '[daemon]\nstatus_listen = "0.0.0.0:9821"\n')
        os.utime(path, (1e9, 1e9))
        target = "socket:[7]" if journal else self.log
        self.machine.start(
            pid,
            fds={1: target, 2: target},
            command=("cuzk", "-c", str(path)),
            cgroup=SYSTEM_UNIT if journal else "/",
        )

    def _ask(self, address: Address, _clock: object) -> bytes:
        self.asked.append(address)
        if isinstance(self.answer, StatusError):
            raise self.answer
        return self.answer

    def _journal(self, unit: str, *, user: bool) -> bytes:
        assert (unit, user) == ("cuzk.service", False)
        if isinstance(self.journal, SourceUnreadableError):
            raise self.journal
        return self.journal

    def checks(self, asked: Asked | None = None) -> dict[str, Check]:
        """Every check by its name."""
        tools = Tools(
            wall_ms=lambda: NOW_MS,
            terminal=self.terminal,
            proc=self.machine.reader,
            root=self.folder,
            journal=self._journal,
            gpus=lambda: self.cards,
            ask=self._ask,
            packages=lambda: VERSIONS,
            patience_s=0.2,
        )
        found = run_checks(asked or Asked(), tools)
        assert len({check.name for check in found}) == len(found)
        for check in found:
            assert check.text
            assert check.text.isprintable()
            assert check.level == "ok" or check.mend or check.name == "streams"
        return {check.name: check for check in found}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def levels(checks: Mapping[str, Check]) -> dict[str, Level]:
    return {name: check.level for name, check in checks.items() if check.level != "ok"}


# ---------------------------------------------------------------- a whole visit


def test_a_machine_on_which_nothing_is_missing(place: Place) -> None:
    place.start()
    checks = place.checks()
    assert levels(checks) == {}
    assert list(checks) == [
        "daemon",
        "config",
        "log",
        "streams",
        "lines",
        "generation",
        "ansi",
        "clock",
        "nvml",
        "persistence",
        "mig",
        "container",
        "status",
        "terminal",
        "colours",
        "encoding",
        "version",
    ]
    assert checks["daemon"].text == "cuzk (pid 42), up 1h00"
    assert checks["log"].text == f"cuzk (pid 42) writes to {place.log}, written 3s ago"
    assert checks["nvml"].text == "driver 580.159.04, 2 × NVIDIA H200"
    assert "http://127.0.0.1:9821/status answers" in checks["status"].text
    assert [address.port for address in place.asked] == [9821]


def test_nothing_at_all_fails_and_says_what_would_work(place: Place) -> None:
    checks = place.checks()
    assert levels(checks) == {"daemon": "failed"}
    assert "cuzktop --demo" in checks["daemon"].mend
    assert "log" not in checks
    assert failed(checks.values())


def test_a_log_alone_needs_no_daemon(place: Place) -> None:
    checks = place.checks(Asked(log=place.log))
    assert levels(checks) == {"daemon": "warning"}
    assert checks["streams"].level == "ok"
    assert not failed(checks.values())


def test_the_daemons_own_log_may_be_named(place: Place) -> None:
    place.start()
    checks = place.checks(Asked(log=place.folder / "." / "cuzk.log"))
    assert "cuzk (pid 42) writes to" in checks["log"].text


def test_another_log_than_the_daemons(place: Place) -> None:
    place.start()
    other = place.folder / "other.log"
    other.write_bytes(TRACING)
    checks = place.checks(Asked(log=other))
    assert checks["log"].text.startswith(f"{other} can be read")
    assert checks["streams"].level == "failed"


@pytest.mark.parametrize("name", ["none.log", "."])
def test_a_log_that_cannot_be_read(place: Place, name: str) -> None:
    checks = place.checks(Asked(log=place.folder / name))
    assert checks["log"].level == "failed"
    assert "cannot read" in checks["log"].text
    assert "streams" not in checks


def test_a_stream_is_left_to_its_reader(place: Place) -> None:
    fifo = place.folder / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, Path("-")):
        assert "a stream" in place.checks(Asked(log=path))["log"].text


def test_an_empty_log(place: Place) -> None:
    place.log.write_bytes(b"")
    place.start()
    checks = place.checks()
    assert checks["streams"].level == "warning"
    assert "empty" in checks["streams"].text


def test_a_daemon_whose_log_goes_nowhere(place: Place) -> None:
    place.machine.start(42, fds={1: "/dev/null", 2: "/dev/null"})
    checks = place.checks()
    assert checks["daemon"].level == "ok"
    assert checks["log"].level == "failed"
    assert "2>&1" in checks["log"].mend


def test_several_daemons(place: Place) -> None:
    place.start(42)
    place.start(43)
    checks = place.checks()
    assert checks["daemon"].level == "failed"
    assert "--pid 42" in checks["daemon"].mend
    assert place.checks(Asked(pid=43))["log"].level == "ok"


def test_a_file_that_is_opened_twice(place: Place) -> None:
    place.machine.start(42, fds={1: (place.log, WRITE, 9), 2: (place.log, WRITE, 700)})
    check = place.checks()["log"]
    assert check.level == "warning"
    assert "overwrite each other" in check.text


# ---------------------------------------------------------------- the journal


def test_the_journal_is_looked_into(place: Place) -> None:
    place.start(journal=True)
    checks = place.checks()
    assert levels(checks) == {}
    assert checks["journal"].text == "cuzk (pid 42) writes to the journal of cuzk.service"


def test_a_unit_may_be_named(place: Place) -> None:
    checks = place.checks(Asked(unit="cuzk.service"))
    assert levels(checks) == {"daemon": "warning"}
    assert checks["journal"].text == "the journal of cuzk.service can be read"


def test_a_journal_that_may_not_be_read(place: Place) -> None:
    place.start(journal=True)
    place.journal = SourceUnreadableError("cannot read the journal: may not", hint="use sudo")
    check = place.checks()["journal"]
    assert (check.level, check.mend) == ("failed", "use sudo")


# ---------------------------------------------------------------- the log's text

WHOLE = Choice(
    text="",
    path=Path("log"),
    daemon=Daemon(
        pid=1,
        name="cuzk",
        stdout=Stream(kind="file"),
        stderr=Stream(kind="file"),
        config=Config(path=Path("c")),
    ),
)
UNKNOWN = Choice(text="", path=Path("log"))


def quiet(rust_log: str | None = None, level: str | None = None, **pipeline: object) -> Choice:
    assert WHOLE.daemon is not None
    return Choice(
        text="",
        path=Path("log"),
        daemon=Daemon(
            pid=1,
            name="cuzk",
            stdout=Stream(kind="file"),
            stderr=Stream(kind="file"),
            config=Config(path=Path("c"), log_level=level, pipeline=pipeline),
            rust_log=rust_log,
        ),
    )


def text_checks(tail: bytes, choice: Choice = UNKNOWN) -> dict[str, Check]:
    return {check.name: check for check in check_text(tail, choice)}


@pytest.mark.parametrize(
    ("tail", "choice", "level", "words"),
    [
        (TRACING + TIMELINE + TIMING, UNKNOWN, "ok", "both: 1 TIMELINE, 1 CUZK_TIMING, 1 tracing"),
        (TRACING, UNKNOWN, "failed", "standard error is missing, or no proof ran"),
        (TRACING, WHOLE, "warning", "no proof has run"),
        (TRACING, quiet(enabled=False), "failed", "the pipeline is off"),
        (TIMELINE + TIMING, UNKNOWN, "warning", "standard output is missing"),
        (TIMELINE + TIMING, quiet(rust_log="warn,cuzk_core=info"), "warning", "RUST_LOG=warn"),
        (TIMELINE + TIMING, quiet(level="error"), "warning", "the log level error"),
        (TIMELINE, quiet(rust_log="debug", level="error"), "warning", "output is missing"),
        (TRACING + TIMELINE, UNKNOWN, "warning", "until a GPU has proved"),
        (TRACING + TIMING, UNKNOWN, "warning", "older than S16"),
        (b"some other text\n" * 9, UNKNOWN, "failed", "none of cuzk's lines in the last 144B"),
        (b"\x00\xff\n", UNKNOWN, "failed", "none of cuzk's lines"),
    ],
)
def test_which_streams_are_there(tail: bytes, choice: Choice, level: Level, words: str) -> None:
    check = text_checks(tail, choice)["streams"]
    assert check.level == level
    assert words in check.text


def test_a_foreign_text_is_not_judged_further() -> None:
    assert list(text_checks(b"hello\n")) == ["streams"]


@pytest.mark.parametrize(
    ("lines", "level", "words"),
    [
        (b"CUZK_TIMING: pre_lock_cpu_ms=5 mutex_wait_ms=9\n", "ok", "S41-S45: lock times are"),
        (b"TIMELINE,5,GPU_QUEUE,j,partition=0\n", "ok", "S38-S45: whether"),
        (b"CUZK_TIMING: prestage_setup=ok\n", "warning", "lock waits aren't printed"),
        (b"CUZK_TIMING: prep_msm_ms=5\n", "warning", "nothing in the log's end"),
    ],
)
def test_which_build_wrote_it(lines: bytes, level: Level, words: str) -> None:
    check = text_checks(lines)["generation"]
    assert check.level == level
    assert words in check.text


def test_lines_that_are_lost_are_counted() -> None:
    check = text_checks(LOG + b"CUZK_TIMING: prep_msm_ms=x\n")["lines"]
    assert check.level == "warning"
    assert check.text.startswith("1 of ")
    assert "report LOG" in check.mend


@pytest.mark.parametrize(("coloured", "words"), [(True, "taken out"), (False, "no colour codes")])
def test_colour_codes_are_no_fault(*, coloured: bool, words: str) -> None:
    check = check_colours_of(coloured=coloured)
    assert check.level == "ok"
    assert words in check.text


def test_a_clock_by_the_start_line_by_pairs_and_by_nothing() -> None:
    assert "exact" in text_checks(LOG)["clock"].text
    cut = LOG[LOG.index(b"TIMELINE") :]
    assert "worked out" in text_checks(cut[len(cut) // 4 :].partition(b"\n")[2])["clock"].text
    nothing = text_checks(TIMELINE + TIMING)["clock"]
    assert nothing.level == "warning"
    assert "standard output" in nothing.mend
    assert text_checks(TRACING)["clock"].level == "ok"


# ---------------------------------------------------------------- config


def config_checks(text: str, folder: Path) -> Check:
    from cuzktop.sources.discovery import read_config  # noqa: PLC0415

    path = folder / "cuzk.toml"
    path.write_text(text)
    return check_config(read_config(path))


@pytest.mark.parametrize(
    ("text", "level", "words"),
    [
        ("", "ok", "cuzk.toml"),
        ('[memory]\ntotal_budget = "400GiB"', "ok", "cuzk.toml"),
        ('[memory]\ntotal_budget = "50GiB"', "ok", "cuzk.toml"),
        ('[memory]\ntotal_budget = "1TiB"', "warning", "can't read total_budget = '1TiB'"),
        ("[pipeline]\nenabled = false", "warning", "no TIMELINE"),
        ("[pipeline", "warning", "is no TOML"),
    ],
)
def test_the_daemons_config(tmp_path: Path, text: str, level: Level, words: str) -> None:
    check = config_checks(text, tmp_path)
    assert check.level == level
    assert words in check.text


def test_a_missing_config_is_the_defaults(tmp_path: Path) -> None:
    from cuzktop.sources.discovery import read_config  # noqa: PLC0415

    check = check_config(read_config(tmp_path / "none.toml"))
    assert check.level == "ok"
    assert "defaults" in check.text


def test_a_config_that_was_changed_after_the_start(place: Place) -> None:
    place.start()
    os.utime(place.folder / "cuzk.toml", (NOW_MS / 1000.0, NOW_MS / 1000.0))
    assert "changed after" in place.checks()["config"].text


# ---------------------------------------------------------------- GPUs


def gpu_checks(cards: Cards) -> dict[str, Check]:
    return {check.name: check for check in check_gpus(read_gpus(cards))}


@pytest.mark.parametrize(
    ("error", "text", "mend"),
    [
        (
            NvmlUnavailableError("the NVIDIA kernel driver isn't loaded: modprobe nvidia"),
            "NVML can't be used: the NVIDIA kernel driver isn't loaded",
            "modprobe nvidia",
        ),
        (NvmlUnavailableError("broken"), "NVML can't be used: broken", "nvidia-smi"),
        (broken(), "NVML can't be used: no answer", "nvidia-smi"),
        (ZeroDivisionError("x"), "NVML can't be used: ZeroDivisionError: x", "nvidia-smi"),
    ],
)
def test_without_nvml_it_says_why(error: Exception, text: str, mend: str) -> None:
    cards = Cards()
    cards.broken["start"] = error
    [check] = gpu_checks(cards).values()
    assert check == Check(name="nvml", level="warning", text=text, mend=mend)


def test_a_driver_that_hangs_holds_nothing_up(place: Place) -> None:
    place.cards.hangs.clear()
    try:
        checks = place.checks(Asked(log=place.log))
    finally:
        place.cards.hangs.set()
    assert checks["nvml"].text == "the driver doesn't answer"
    assert "version" in checks


def test_no_card() -> None:
    assert "lists no GPU" in gpu_checks(Cards(0))["nvml"].text


def test_one_lost_card_hides_no_other() -> None:
    cards = Cards(3)
    cards.broken["find 1"] = broken("lost")
    checks = gpu_checks(cards)
    assert checks["nvml"].level == "warning"
    assert "2 × NVIDIA H200, 1 × no answer" in checks["nvml"].text
    assert checks["persistence"].level == "ok"


def test_persistence_and_mig_name_their_cards() -> None:
    checks = gpu_checks(Cards(3, persistence_mode=(0.0, 1.0, 0.0), mig_mode=(0.0, 1.0, 0.0)))
    assert "off on GPU 0 and GPU 2" in checks["persistence"].text
    assert checks["persistence"].mend == "sudo nvidia-smi -pm 1"
    assert "GPU 1 run in slices" in checks["mig"].text


def test_modes_that_a_card_does_not_have() -> None:
    cards = Cards()
    cards.broken |= {"mig_mode": broken("unsupported"), "persistence_mode": broken("unsupported")}
    checks = gpu_checks(cards)
    assert checks["mig"] == Check(name="mig", level="ok", text="not on these cards")
    assert checks["persistence"].level == "ok"


@given(
    st.builds(
        GpuFindings,
        names=st.lists(st.text(max_size=3), max_size=9).map(tuple),
        persistence=st.lists(st.none() | st.booleans(), max_size=9).map(tuple),
        mig=st.lists(st.none() | st.booleans(), max_size=9).map(tuple),
    )
)
def test_any_number_of_cards_is_judged(found: GpuFindings) -> None:
    assert len(list(check_gpus(found))) in (1, 3)


# ---------------------------------------------------------------- surroundings


@pytest.mark.parametrize("mark", [".dockerenv", "run/.containerenv", ""])
def test_in_a_container(place: Place, mark: str) -> None:
    if mark:
        (place.folder / mark).parent.mkdir(exist_ok=True)
        (place.folder / mark).touch()
    else:
        cgroup = f"0::/docker/{'a' * 64}\n"
        (place.machine.proc / "self" / "cgroup").write_text(cgroup)
    alone = check_container(place.folder, place.machine.reader, None)
    assert (alone.level, "--pid host" in alone.mend) == ("warning", True)
    place.start()
    [daemon] = find_daemons(place.machine.reader)
    assert check_container(place.folder, place.machine.reader, daemon).level == "ok"


def test_a_daemon_in_a_container(place: Place) -> None:
    place.machine.start(42, fds={1: "pipe:[1]"}, cgroup=f"/docker/{'b' * 64}")
    checks = place.checks()
    assert (
        checks["container"].text == "the daemon runs in container bbbbbbbbbbbb, cuzktop beside it"
    )
    assert "docker logs" in checks["log"].mend


def test_status_that_is_off(place: Place) -> None:
    place.start(config="[daemon]\n")
    check = place.checks()["status"]
    assert check.level == "warning"
    assert "status_listen" in check.mend
    assert place.asked == []


def test_status_that_is_named(place: Place) -> None:
    assert place.checks(Asked(status="box:9900"))["status"].level == "ok"
    assert str(place.asked[0]) == "http://box:9900/status"
    wrong = place.checks(Asked(status="box:x"))["status"]
    assert wrong.level == "failed"


def test_status_that_does_not_answer(place: Place) -> None:
    place.start()
    place.answer = StatusError("nothing listens on 127.0.0.1:9821: set it")
    check = place.checks()["status"]
    assert (check.level, check.mend) == ("warning", "set it")
    place.answer = b"<html>"
    assert "no JSON object" in place.checks()["status"].text


def test_status_of_a_daemon_in_a_network_of_its_own(place: Place) -> None:
    place.start()
    net = place.machine.proc / "42" / "ns" / "net"
    net.unlink()
    net.symlink_to("net:[9]")
    place.answer = StatusError("nothing listens on 127.0.0.1:9821: set it")
    assert "network of its own" in place.checks()["status"].mend


def test_status_of_another_daemon(place: Place) -> None:
    place.start()
    place.answer = b'{"uptime_secs":60.0,"counters":{}}'
    check = place.checks()["status"]
    assert check.level == "warning"
    assert "up 60s: that is another daemon's" in check.text


# ---------------------------------------------------------------- terminal and program


@pytest.mark.parametrize(
    ("terminal", "level", "words"),
    [
        (WIDE, {}, "120 × 40"),
        (WIDE._replace(columns=79), {"terminal": "warning"}, "79 × 40 is small"),
        (WIDE._replace(rows=23), {"terminal": "warning"}, "120 × 23 is small"),
        (WIDE._replace(term="dumb"), {"terminal": "warning"}, "TERM=dumb"),
        (WIDE._replace(term=""), {"terminal": "warning"}, "(not set)"),
        (WIDE._replace(encoding="ANSI_X3.4-1968"), {"encoding": "warning"}, "120 × 40"),
        (WIDE._replace(columns=None), {}, "text only"),
    ],
)
def test_terminals(terminal: Terminal, level: dict[str, Level], words: str) -> None:
    checks = {check.name: check for check in check_terminal(terminal)}
    assert levels(checks) == level
    assert words in checks["terminal"].text


@pytest.mark.parametrize(
    ("terminal", "words"),
    [
        (WIDE, "16 million"),
        (WIDE._replace(colorterm=""), "256"),
        (WIDE._replace(colorterm="", term="linux"), "8 or 16"),
        (WIDE._replace(no_color=True), "NO_COLOR"),
    ],
)
def test_colours(terminal: Terminal, words: str) -> None:
    checks = {check.name: check for check in check_terminal(terminal)}
    assert words in checks["colours"].text


def test_what_is_no_terminal_has_no_size() -> None:
    found = read_terminal(io.StringIO(), {"TERM": "linux", "NO_COLOR": ""})
    assert (found.columns, found.rows, found.term, found.no_color) == (None, None, "linux", False)


def test_a_missing_package_names_the_command() -> None:
    check = check_version(VERSIONS | {"psutil": None}, (3, 11, 7))
    assert check.level == "warning"
    assert check.mend.endswith("-m pip install psutil")
    assert "Python 3.11.7" in check.text


def test_the_packages_that_are_installed_here() -> None:
    assert set(installed()) == set(PACKAGES)


# ---------------------------------------------------------------- reading the end


def test_the_end_of_a_long_log_begins_at_a_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"0123456789\n" * 10)
    tail, written_ms = tail_of(path, 25)
    assert tail == b"0123456789\n" * 2
    assert written_ms is not None
    assert tail_of(path, 1000)[0] == path.read_bytes()
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert tail_of(packed, 25) == (b"0123456789\n" * 2, None)


# ---------------------------------------------------------------- what is printed

SOME = [
    Check(name="log", level="ok", text="found", mend="never shown"),
    Check(name="streams", level="warning", text="one × half", mend="start it with 2>&1"),
    Check(name="nvml", level="failed", text="gone"),
]


def test_the_text_is_aligned() -> None:
    assert doctor_text(SOME, width=80, colour=False, ascii_only=False).splitlines() == [
        "✓ log      found",
        "! streams  one × half",
        "           → start it with 2>&1",
        "✗ nvml     gone",
        "",
        "1 failed, 1 warning",
    ]


def test_the_text_in_ascii_and_in_colour() -> None:
    text = doctor_text(SOME, width=80, colour=False, ascii_only=True)
    assert text.isascii()
    assert text.splitlines()[2].strip() == "-> start it with 2>&1"
    assert "\x1b[36m✓ log" in doctor_text(SOME, width=80, colour=True, ascii_only=False)


def test_a_narrow_terminal_wraps_and_loses_nothing() -> None:
    words = " ".join(f"word{number}" for number in range(30))
    text = doctor_text(
        [Check(name="log", level="warning", text=words, mend=words)],
        width=40,
        colour=False,
        ascii_only=False,
    )
    assert all(len(line) <= 40 for line in text.splitlines())
    assert all(text.split().count(word) == 2 for word in words.split())


def test_nothing_is_missing_is_said_too() -> None:
    assert doctor_text(SOME[:1], width=80, colour=False, ascii_only=False).endswith(
        "\n\nNothing is missing.\n"
    )


def test_the_document_is_json_with_null_for_nothing_to_mend() -> None:
    document = json.loads(json.dumps(doctor_document(SOME)))
    assert document["schema"] == "cuzktop.doctor/1"
    assert (document["failed"], document["warnings"]) == (1, 1)
    assert document["checks"][2] == {
        "name": "nvml",
        "level": "failed",
        "text": "gone",
        "mend": None,
    }


def test_the_list_of_daemons(place: Place) -> None:
    place.start(42)
    place.start(43, config="[daemon]\n", journal=True)
    rows = daemon_rows(find_daemons(place.machine.reader), NOW_MS)
    assert rows == [
        DaemonRow(42, "cuzk", 3_600_000.0, str(place.log), str(place.folder / "cuzk.toml"), "off"),
        DaemonRow(
            43,
            "cuzk",
            3_600_000.0,
            "journal of cuzk.service",
            str(place.folder / "cuzk.toml"),
            "off",
        ),
    ]
    lines = daemons_text(rows, width=200, colour=False, ascii_only=False).splitlines()
    assert lines[0].split() == ["PID", "Name", "Up", "Log", "Config", "Status"]
    assert lines[2].split()[:3] == ["43", "cuzk", "1h00"]
    narrow = daemons_text(rows, width=60, colour=False, ascii_only=True).splitlines()
    assert all(len(line) <= 60 for line in narrow)


def test_the_default_tools_work_here() -> None:
    tools = Tools(
        wall_ms=lambda: NOW_MS, terminal=read_terminal(sys.stdout, os.environ), patience_s=5.0
    )
    checks = run_checks(Asked(log=demo("h200-one-gpu").log), tools)
    assert {check.name for check in checks} >= {"streams", "nvml", "version"}
    assert len(LOG) < doctor.TAIL_BYTES
