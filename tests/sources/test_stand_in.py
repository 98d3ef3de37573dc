"""The whole way to a running daemon: found, its log read, asked for its status."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cuzktop.cli import main
from cuzktop.doctor import daemon_rows
from cuzktop.events import StatusRead
from cuzktop.frame import Source
from cuzktop.parse.scanner import LogScanner
from cuzktop.picture import Picture
from cuzktop.sources.demos import demo
from cuzktop.sources.discovery import ProcReader, find_daemons
from cuzktop.sources.status import address_of, fetch, parse_status
from tests.canned import log_bytes

ROOT = Path(__file__).resolve().parents[2]
CAPTURE = demo("h200-two-gpus").log
PATIENCE_S = 30.0
Start = Callable[..., int]

pytestmark = pytest.mark.skipif(not Path("/proc/self/comm").exists(), reason="needs Linux")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a stand-in that writes a capture at once into cuzk.log; its pid."""
    (tmp_path / "cuzk.toml").write_text(
        f'[daemon]\nstatus_listen = "127.0.0.1:{free_port()}"\n[gpus]\ngpu_workers_per_device = 2\n'
    )
    started: list[subprocess.Popen[bytes]] = []

    def run(*words: str, redirect: str = ">> cuzk.log 2>&1") -> int:
        command = [sys.executable, str(ROOT / "tests" / "stand_in.py"), "--config", "cuzk.toml"]
        command += ["--name", "cuzk-stand-in", "--speed", "0", *words, str(CAPTURE)]
        process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" {redirect}', "sh", *command], cwd=tmp_path
        )
        started.append(process)
        size = len(log_bytes(CAPTURE))
        written = [tmp_path / name for name in ("cuzk.log", "out.log")]
        end = time.monotonic() + PATIENCE_S
        while sum(one.stat().st_size for one in written if one.exists()) < size:
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
        for one in written:
            if one.exists():
                os.utime(one, (1.7e9, 1.7e9))  # so that no card is asked
        return process.pid

    yield run
    for process in started:
        process.terminate()
        process.wait(PATIENCE_S)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    for name in ("path", "silent_ms"):
        document["source"].pop(name, None)
    for name in ("status", "alerts"):  # the daemon alone has them
        document.pop(name, None)
    return document


@pytest.mark.parametrize("command", ["snapshot", "report"])
def test_the_daemon_that_runs_tells_what_its_log_tells(
    command: str, start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pid = start()
    capture = tmp_path / "capture.log"
    capture.write_bytes(log_bytes(CAPTURE))
    os.utime(capture, (1.7e9, 1.7e9))
    assert printed(capsys, command, "--pid", str(pid)) == printed(capsys, command, str(capture))


def test_lines_that_the_daemons_threads_tore_change_no_figure(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pid = start("--tear")
    capture = tmp_path / "capture.log"
    capture.write_bytes(log_bytes(CAPTURE))
    torn = printed(capsys, "report", "--pid", str(pid))
    whole = printed(capsys, "report", str(capture))
    assert torn["source"]["torn"] > whole["source"]["torn"] + 5
    assert torn["source"]["unparsed"] == 0
    for row in (*torn["runs"][0]["partitions"], *whole["runs"][0]["partitions"]):
        del row["attribution"], row["attribution_by"]  # a torn place is a little less certain
    assert torn["runs"] == whole["runs"]


def test_log_config_and_status_are_found(start: Start, tmp_path: Path) -> None:
    pid = start()
    daemons = find_daemons(ProcReader(), pid)
    [row] = daemon_rows(daemons, 1000.0 * time.time())
    address = address_of(daemons[0].config.status_listen)
    assert address is not None
    assert row.name == "cuzk-stand-in"
    assert row.log == str(tmp_path / "cuzk.log")
    assert row.config == str(tmp_path / "cuzk.toml")
    assert row.status == str(address)
    assert row.up_ms is not None
    assert -2000.0 < row.up_ms < 1000.0 * PATIENCE_S
    assert daemons[0].config.gpu_workers_per_device == 2


def test_status_and_log_agree_about_the_same_daemon(start: Start) -> None:
    pid = start("--now")
    [daemon] = find_daemons(ProcReader(), pid)
    address = address_of(daemon.config.status_listen)
    assert address is not None
    status = parse_status(fetch(address, lambda: 1000.0 * time.monotonic()))
    assert [worker.gpu for worker in status.workers or ()] == [0, 0, 1, 1]
    scanner, picture = LogScanner(), Picture()
    assert daemon.stdout.path is not None
    picture.feed(scanner.feed(daemon.stdout.path.read_bytes()))
    picture.feed([StatusRead(1000.0 * time.time(), status, 5.0)])
    frame = picture.frame(source=Source(path="cuzk.log"))
    assert frame.status == status
    assert status.completed == frame.proofs.completed == 12
    assert [alert.text for alert in frame.alerts if "/status" in alert.text] == []


def test_a_snapshot_has_the_daemons_own_words_beside_the_log(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    pid = start("--now")
    assert main(["snapshot", "--pid", str(pid), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    status = document["status"]
    assert status["completed"] == document["counters"]["completed"]
    assert [worker["gpu"] for worker in status["workers"]] == [0, 0, 1, 1]
    assert status["srs"][0]["bytes"] == 48_000_000_000
    assert document["status_note"] == ""
    assert main(["snapshot", "--pid", str(pid)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "The daemon's status" in text
    assert "memory budget 0B of 400G in use" in text
    assert "SRS porep-32g: 44.7G, in use" in text


def test_a_status_that_does_not_answer_is_said_and_the_log_is_shown(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pid = start()
    config = tmp_path / "cuzk.toml"
    config.write_text(f'[daemon]\nstatus_listen = "127.0.0.1:{free_port()}"\n')
    assert main(["snapshot", "--pid", str(pid), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["status"] is None
    assert "nothing listens on 127.0.0.1:" in document["status_note"]
    assert len(document["gpus"]) == 2


def test_one_half_of_the_log_elsewhere_is_said(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    pid = start(redirect="> out.log 2>> cuzk.log")
    assert main(["snapshot", "--pid", str(pid), "--json"]) == 0  # standard error has the GPUs
    document = json.loads(capsys.readouterr().out)
    assert document["source"]["path"].endswith("cuzk.log")
    assert sorted(worker for gpu in document["gpus"] for worker in gpu["workers"]) == [0, 1, 2, 3]
    main(["doctor", "--pid", str(pid), "--json"])
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert "its standard output to" in checks["log"]["text"]
    assert "2>&1" in checks["log"]["mend"]
