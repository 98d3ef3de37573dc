"""Opening logs, and telling text from the rest."""

from __future__ import annotations

import gzip
import io
import os
import socket
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzktop.errors import SourceUnreadableError
from cuzktop.sources.beginning import find_start
from cuzktop.sources.files import (
    is_stream,
    look_at,
    open_log,
    open_stream,
    plain_size,
    read_blocks,
    sniff,
)


def read_all(path: Path) -> bytes:
    with open_log(path) as file:
        return b"".join(read_blocks(file))


# ---------------------------------------------------------------- opening


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadableError, match="no such file: cuzktop doctor") as raised:
        open_log(tmp_path / "none.log")
    assert "none.log" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_path_through_a_file_is_missing_too(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SourceUnreadableError, match="no such file"):
        open_log(tmp_path / "file" / "daemon.log")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadableError, match="is a directory: name the log file inside"):
        open_log(tmp_path)


def test_no_permission_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "daemon.log"
    path.touch()

    def refuse(*_args: object) -> io.FileIO:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(io, "FileIO", refuse)
    with pytest.raises(SourceUnreadableError, match="permission denied: run as the daemon's user"):
        open_log(path)


def test_a_device_and_a_socket_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadableError, match="/dev/zero: is a device"):
        open_log(Path("/dev/zero"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises(SourceUnreadableError, match="is a socket"):
            open_log(tmp_path / "socket")


def test_a_stream_is_opened_by_the_same_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SourceUnreadableError, match="/dev/zero: is a device: name a log file"):
        open_stream(Path("/dev/zero"), wait=False)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    os.close(open_stream(fifo, wait=False))  # nobody writes into it

    def refuse(*_args: object) -> int:
        raise PermissionError(13, "Permission denied", str(fifo))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SourceUnreadableError, match="permission denied: run as the daemon's user"):
        open_stream(fifo, wait=False)


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        pytest.param(b"TIMELINE,5,SYNTH_START,j,partition=0\n", "plain", id="log"),
        pytest.param(b"", "plain", id="empty"),
        pytest.param(gzip.compress(b"TIMELINE\n"), "packed", id="gzip"),
        pytest.param(b"cuzktop-recording 1 {}\n", "recording", id="recording"),
        pytest.param(
            gzip.compress(b"cuzktop-recording 1 {}\n"), "recording", id="packed recording"
        ),
    ],
)
def test_one_look_tells_how_a_file_is_read_and_its_age(
    tmp_path: Path, written: bytes, kind: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(written)
    os.utime(path, (1.7e9, 1.7e9))
    assert look_at(path) == (kind, 1.7e12)


def test_a_look_takes_nothing_out_of_a_stream(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = open_stream(fifo, wait=False)
    with fifo.open("wb") as writer:
        writer.write(b"one\n")
        writer.flush()
        assert look_at(fifo)[0] == "stream"
        assert os.read(reader, 99) == b"one\n"
    os.close(reader)


def test_the_null_device_is_an_empty_log() -> None:
    assert read_all(Path(os.devnull)) == b""


def test_a_fifo_is_read_as_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(b"one\ntwo\n"))
    writer.start()
    with open_log(path) as file:
        assert plain_size(file) is None
        assert find_start(file, back_ms=1000, max_bytes=10) == 0
        assert b"".join(read_blocks(file)) == b"one\ntwo\n"
    writer.join()
    assert is_stream(path)
    assert not is_stream(tmp_path / "none")
    assert not is_stream(tmp_path)


def test_gzip_is_told_by_its_first_bytes_not_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    path.write_bytes(gzip.compress(b"line\n" * 50_000))
    assert read_all(path) == b"line\n" * 50_000
    with open_log(path) as file:
        assert find_start(file, back_ms=1, max_bytes=1) == 0


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        pytest.param(lambda data: data[:-20], "is cut off", id="cut"),
        pytest.param(lambda data: data[:40] + b"\xff" * 40 + data[80:], "is damaged", id="broken"),
        pytest.param(
            lambda data: data[:-8] + b"none" + data[-4:], "is damaged .CRC check", id="sum"
        ),
        pytest.param(lambda data: data + b"more", "is damaged .Not a gzipped file", id="more"),
    ],
)
def test_a_damaged_gzip_is_one_line(tmp_path: Path, damage: object, reason: str) -> None:
    assert callable(damage)
    path = tmp_path / "daemon.log.gz"
    path.write_bytes(damage(gzip.compress(os.urandom(5000))))
    with pytest.raises(SourceUnreadableError, match=reason) as raised:
        read_all(path)
    hint = f"fetch it again, or use what is left: zcat {path} | cuzktop report -"
    assert str(raised.value).startswith(f"cannot read {path}: the compressed file is ")
    assert str(raised.value).endswith(f": {hint}")


def test_zstd_without_its_module_names_the_way_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "daemon.log.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + b"x" * 20)
    for module in ("compression.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SourceUnreadableError, match=r"zstd -dc .*daemon\.log\.zst"):
        open_log(path)


def test_a_disk_fault_in_the_middle_is_one_line() -> None:
    class Faulty(io.BytesIO):
        name = "daemon.log"

        def read(self, _size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(SourceUnreadableError, match=r"cannot read daemon\.log: input/output"):
        list(read_blocks(Faulty()))


def test_blocks_are_bounded() -> None:
    blocks = list(read_blocks(io.BytesIO(b"x" * 1000), 300))
    assert [len(block) for block in blocks] == [300, 300, 300, 100]


# ---------------------------------------------------------------- text or not


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\0" * 65536,
        b"\0" * 5000 + b"TIMELINE,1,SYNTH_START,j,partition=0\n",
        b"TIMELINE,1,SYNTH_START,j\xff,partition=0\n",
        b"CUZK_TIMING: prep_msm_ms=1\n" + b"\0" * 4096,
        "2026 \x1b[32m INFO\x1b[0m nichts für ungut — ok\n".encode(),
        b"any other text\r\n\tlike this\n",
        b"INFO noise\n" * 200 + b"\x01",
    ],
)
def test_a_log_is_no_binary(first: bytes) -> None:
    assert sniff(first) is None


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"\x7fELF\x02\x01\x01" + b"\0" * 100, "is a program"),
        (gzip.compress(b"x"), "is compressed"),
        ("TIMELINE,1".encode("utf-16"), "is UTF-16 text"),
        (bytes(range(256)) * 20, "is binary"),
        (b"text and then\n" + b"\0" * 100, "is binary"),
    ],
)
def test_what_is_no_text_is_told(first: bytes, reason: str) -> None:
    assert sniff(first) == reason


@given(st.binary(max_size=300))
def test_sniffing_never_raises(first: bytes) -> None:
    assert sniff(first) is None or str(sniff(first)).startswith("is ")
