"""A session's recording: log lines and readings with the times at which they came.

The format is described in docs/recording-format.md: lines of text, each of them a record of its
own, a letter and a time before what was recorded. So a file that a crash has torn loses its last
record and no more, `grep TIMELINE` finds in it what it finds in the log, and looking for a place
in it needs no index.
"""

from __future__ import annotations

import functools
import json
import math
import re
import typing
from pathlib import Path
from typing import Any, Final, TypeVar

from cuzktop import __version__
from cuzktop.dataclass import NamedTuple
from cuzktop.errors import SourceUnreadableError
from cuzktop.events import (
    GpuProcess,
    GpuSampled,
    GpuSamplerNote,
    HostSampled,
    SampleEvent,
    SourceNote,
)
from cuzktop.settings import MAX_LINE_BYTES
from cuzktop.sources.files import RECORDING
from cuzktop.sources.gpu_reader import MAX_BYTES_PER_S, MAX_GPU, MAX_POWER_W, UTIL_SOURCES

VERSION: Final = 1
MAX_RECORD_BYTES = 2 * MAX_LINE_BYTES  # none that we write is longer
MAX_NOTE_CHARS = 4096  # nor is a sentence, or a file's name
MAX_FIGURE = 2**62  # no count, rate or number of bytes is larger
MOST: Final[dict[str, float]] = {
    "at_ms": 1e13,
    "gpu": MAX_GPU,
    "util_pct": 100.0,
    "sm_util_pct": 100.0,
    "util_window_ms": 1e8,
    "power_w": MAX_POWER_W,
    "power_limit_w": MAX_POWER_W,
    "host_to_device_bytes_per_s": MAX_BYTES_PER_S,
    "device_to_host_bytes_per_s": MAX_BYTES_PER_S,
    "cpu_pct": 100.0,
    "psi_cpu_pct": 100.0,
    "psi_memory_pct": 100.0,
}
"""Field → the largest figure that a sound recording has of it; none is below 0."""

_HEADER = re.compile(rb"cuzktop-recording (\d{1,6})(?: (.*))?\Z", re.DOTALL)
_JSON: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_Reading = TypeVar("_Reading", GpuSampled, HostSampled)


class LogCut(NamedTuple):
    """The log's bytes after this don't continue those before it."""


Piece = bytes | LogCut | SampleEvent
"""What a record holds: bytes of the log, a cut in it, or something beside it."""


def older_part(path: Path) -> Path:
    """Where the older part of the recording `path` is, once there are two."""
    return path.with_name(f"{path.name}.1")


# ---------------------------------------------------------------- the header


class Header(NamedTuple):
    """A part's first line. Parts of one recording have the same `identity` and count from 1.

    `rest_of_line`: the part begins in the middle of a log line. `log` is the recorded file's name.
    """

    identity: str
    part: int
    rest_of_line: bool = False
    log: str = ""


def read_header(line: bytes, path: str) -> Header:
    """The header in a part's first line, or in what there is of it.

    Raises SourceUnreadableError for a version that we don't know; `path` is what it calls the file.
    """
    match = _HEADER.match(line.split(b"\n", 1)[0])
    if match is None:
        message = f"cannot read {path}: its first line is damaged"
        raise SourceUnreadableError(message, hint="it should begin cuzktop-recording 1")
    version = int(match[1])
    if version != VERSION:
        message = f"cannot read {path}: it is a recording of version {version}"
        raise SourceUnreadableError(message, hint="a newer cuzktop reads it")
    told = json_object(match[2] or b"{}") or {}
    part, identity, log = told.get("part"), told.get("id"), told.get("log")
    return Header(
        identity=identity if isinstance(identity, str) else "",
        part=part if isinstance(part, int) else 1,
        rest_of_line=told.get("rest_of_line") is True,
        log=log if isinstance(log, str) else "",
    )


def header_line(header: Header, now_ms: float) -> bytes:
    """A part's first line, which begins to be written at `now_ms`."""
    told: dict[str, object] = {
        "id": header.identity,
        "part": header.part,
        "began_ms": int(now_ms),
        "log": header.log[:MAX_NOTE_CHARS],
        "by": f"cuzktop {__version__}",
    }
    if header.rest_of_line:
        told["rest_of_line"] = True
    return b"%s%d %s\n" % (RECORDING, VERSION, _JSON.encode(told).encode("ascii"))


# ---------------------------------------------------------------- readings as JSON


def json_object(text: bytes) -> dict[str, Any] | None:
    """What a record says behind its prefix; None where that is no JSON object."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError, too
        return None
    return told if isinstance(told, dict) else None


@functools.cache
def _fields(kind: str) -> dict[str, tuple[type, ...]]:
    """The fields of a reading and what their values may be; `NoneType` where one may lack."""
    hints = typing.get_type_hints({"G": GpuSampled, "H": HostSampled}[kind])
    return {name: typing.get_args(hint) or (hint,) for name, hint in hints.items()}


def reading_json(event: GpuSampled | HostSampled) -> str:
    """A reading's fields that are known; JSON has no word for a figure that isn't finite."""
    told = {
        name: value
        for name, value in zip(event._fields, event, strict=True)
        if value is not None and not (isinstance(value, float) and not math.isfinite(value))
    }
    return _JSON.encode(told)


def _from_json(kind: type[_Reading], told: dict[str, Any]) -> _Reading | None:
    """A reading; None if what it can't be without is missing. Unknown fields are left out."""
    values: dict[str, Any] = {}
    for name, types in _fields("G" if kind is GpuSampled else "H").items():
        value = told.get(name)
        if name == "processes":
            values[name] = _processes(value)
            continue
        if isinstance(value, int | float) and not 0 <= value <= MOST.get(name, MAX_FIGURE):
            value = None  # nor is NaN
        if float in types and type(value) is int:
            value = float(value)
        if type(value) not in types:
            value = None
        if value is not None or type(None) in types:
            values[name] = value
        elif name not in kind._field_defaults:
            return None
    return kind(**values)


def _processes(told: object) -> tuple[GpuProcess, ...] | None:
    """A card's processes, each [pid, bytes, name, here]; None unless all of them are in order."""
    if not isinstance(told, list):
        return None
    found = []
    for one in told:
        match one:
            case [int(pid), int() | None as used, str() | None as name, bool(here)]:
                if not (0 <= pid <= MAX_FIGURE and 0 <= (used or 0) <= MAX_FIGURE):
                    return None
                found.append(GpuProcess(pid, used, name, here))
            case _:
                return None
    return tuple(found)


def gpu_reading(told: dict[str, Any]) -> GpuSampled | None:
    """A card's reading that was written so; None where it can't be one."""
    reading = _from_json(GpuSampled, told)
    return None if reading is None or reading.util_source not in UTIL_SOURCES else reading


def host_reading(told: dict[str, Any]) -> HostSampled | None:
    """The machine's reading that was written so; None where it can't be one."""
    return _from_json(HostSampled, told)


def note_json(event: GpuSamplerNote | SourceNote) -> str:
    """A note about the log or the cards; a text that is too long is cut."""
    text = event.text[:MAX_NOTE_CHARS]
    if isinstance(event, SourceNote):
        return _JSON.encode({"of": "log", "level": event.level, "text": text})
    return _JSON.encode({"of": "gpu", "gpu": event.gpu, "text": text})


def note_of(at_ms: float, told: dict[str, Any]) -> GpuSamplerNote | SourceNote | None:
    """The note that was written so; None where it can't be one."""
    text, level, gpu = told.get("text"), told.get("level"), told.get("gpu")
    if not isinstance(text, str):
        return None
    if told.get("of") == "log" and level in ("info", "warning", "error"):
        return SourceNote(at_ms, level, text)
    if told.get("of") == "gpu" and (gpu is None or type(gpu) is int):
        return GpuSamplerNote(at_ms, gpu, text)
    return None
