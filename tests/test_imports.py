"""Who imports whom, and what the headless commands never load."""

from __future__ import annotations

import ast
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "cuzktop"
HEAVY = {"textual", "rich", "psutil", "pynvml", "asyncio"}
SLOW = {"dataclasses", "inspect", "shutil", "_strptime"}  # 10 ms that a snapshot hasn't got

# Each part of the package and the parts that it may import.
MAY_IMPORT = {
    "__init__": set[str](),
    "__main__": {"cli"},
    "arguments": {"__init__", "errors", "settings"},
    "where": {"errors", "settings", "sources"},
    "tui": {"box", "cards", "columns", "events", "frame", "logbook", "settings", "units"},
    "headless": {
        "analysis",
        "box",
        "cards",
        "columns",
        "doctor",
        "events",
        "frame",
        "model",
        "reading",
        "units",
    },
    "deck": {"errors", "events", "sources", "units"},
    "doctor": {"__init__", "errors", "model", "parse", "sources", "units"},
    "engine": {"bell", "events", "frame", "picture", "watch"},
    "watch": {"frame", "units"},
    "picture": {"analysis", "cards", "events", "frame", "logbook", "model", "parse"},
    "reading": {"analysis", "events", "frame", "model", "units"},
    "columns": {"frame", "units"},
    "box": {"cards", "events", "frame", "units"},
    "cards": {"events", "frame", "units"},
    "analysis": {"events", "frame", "model", "parse", "units"},
    "frame": {"events", "logbook"},
    "model": {"events"},
    "parse": {"events", "logbook", "settings"},
    "sources": {"__init__", "bell", "errors", "events", "settings", "units"},
    "bell": set[str](),
    "dataclass": set[str](),
    "events": set[str](),
    "errors": set[str](),
    "logbook": set[str](),
    "settings": set[str](),
    "units": set[str](),
}
SHARED = {
    "cuzktop.dataclass",
    "cuzktop.parse.prefix",  # what journalctl puts before a line: both sides take it off
}
PUTS_TOGETHER = {"cli", "live", "feeding", "glance"}  # they know every part

# Libraries that one module alone knows, or one folder.
ONLY_IN = {
    "textual": "tui/",
    "rich": "tui/",
    "asyncio": "tui/",
    "pynvml": "sources/nvml.py",
    "psutil": "sources/host.py",
}
CLOCKS = {
    ("time", "time"),
    ("time", "time_ns"),
    ("time", "monotonic"),
    ("time", "monotonic_ns"),
    ("time", "perf_counter"),
    ("time", "sleep"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("date", "today"),
}


@functools.cache
def modules() -> list[tuple[str, ast.Module]]:
    """Every module of the package by its path, with its syntax tree."""
    return [
        (str(path.relative_to(PACKAGE)), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(PACKAGE.rglob("*.py"))
    ]


def imported(tree: ast.Module) -> Iterator[str]:
    """The full names of what a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            yield node.module
            if node.module == "cuzktop":
                yield from (f"cuzktop.{alias.name}" for alias in node.names)


def part_of(name: str) -> str:
    """The part of the package that a full module name belongs to."""
    return [*name.split("."), "__init__"][1].replace("__version__", "__init__")


def test_each_part_imports_only_what_lies_below_it() -> None:
    wrong = []
    for path, tree in modules():
        part = path.split("/")[0].removesuffix(".py")
        if part in PUTS_TOGETHER:
            continue
        assert part in MAY_IMPORT, f"say in MAY_IMPORT what {part} may import"
        for name in imported(tree):
            if name.startswith("cuzktop.") and name not in SHARED:
                other = part_of(name)
                if other not in MAY_IMPORT[part] | {part}:
                    wrong.append(f"{path} imports {name}")
    assert wrong == []


def test_a_library_is_known_in_one_place_only() -> None:
    wrong = [
        f"{path} imports {name}"
        for path, tree in modules()
        for name in imported(tree)
        if not may_know(path, name.split(".")[0])
    ]
    assert wrong == []


def may_know(path: str, library: str) -> bool:
    """Whether the module `path` may import `library`."""
    place = ONLY_IN.get(library, "")
    return path.startswith(place) if place.endswith("/") or not place else path == place


def test_only_the_command_line_reads_a_clock() -> None:
    wrong = [
        f"{path}:{node.lineno} {node.value.id}.{node.attr}"
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in CLOCKS
        and path != "cli.py"
    ]
    wrong += [
        f"{path} imports from time"
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "time"
    ]
    assert wrong == []


def loaded_by(*commands: list[str]) -> set[str]:
    """All modules that a process has loaded once it has run `commands` one after the other."""
    script = (
        "import io, json, sys\n"
        "before = set(sys.modules)\n"
        "from cuzktop.cli import main\n"
        "out, sys.stdout = sys.stdout, io.StringIO()\n"
        "for command in json.loads(sys.argv[1]):\n"
        "    try:\n"
        "        status = main(command)\n"
        "    except SystemExit as ended:\n"
        "        status = ended.code\n"
        "    assert status == 0, (command, status)\n"
        "json.dump(sorted(set(sys.modules) - before), out)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, json.dumps(commands)],
        cwd=PACKAGE.parent,
        stdout=subprocess.PIPE,
        check=True,
        timeout=30,
    )
    return set(json.loads(ended.stdout))


@pytest.mark.parametrize(
    "commands",
    [
        pytest.param([["report"], ["report", "--json"]], id="report"),
        pytest.param([["snapshot"], ["snapshot", "--json"], ["--once"]], id="snapshot"),
        pytest.param([["--help"], ["--version"], ["--list-demos"]], id="help"),
    ],
)
def test_text_and_json_load_nothing_heavy(commands: list[list[str]], tmp_path: Path) -> None:
    log = tmp_path / "daemon.log"
    log.write_bytes(b"TIMELINE,2330,SYNTH_START,porep-1000-1,partition=0\n")
    os.utime(log, (1.7e9, 1.7e9))  # no card is asked about a log of long ago
    takes_a_log = {"report", "snapshot", "--once"}
    lines = [[*words, str(log)] if words[0] in takes_a_log else words for words in commands]
    lines += [[*words, "--demo", "h200-one-gpu"] for words in commands if words[0] in takes_a_log]
    loaded = loaded_by(*lines)
    assert "cuzktop.cli" in loaded
    assert {name.split(".")[0] for name in loaded} & HEAVY == set()
    assert [name for name in loaded if name.startswith("cuzktop.tui")] == []


def test_a_snapshot_for_a_script_loads_nothing_slow(tmp_path: Path) -> None:
    log = tmp_path / "daemon.log"
    log.write_bytes(
        b"2026-03-14T01:02:03.456789Z  INFO cuzk_core::engine: cuzk engine starting\n"
        b"TIMELINE,2330,SYNTH_START,porep-1000-1,partition=0\n"
    )
    os.utime(log, (1.7e9, 1.7e9))
    assert loaded_by(["snapshot", "--json", str(log)]) & SLOW == set()


def test_the_package_itself_imports_nothing() -> None:
    script = "import sys; was = set(sys.modules); import cuzktop; print(set(sys.modules) - was)"
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=PACKAGE.parent, capture_output=True, check=True
    )
    assert ended.stdout.strip() == b"{'cuzktop'}"
