"""The README says what the program does: keys, options, the two lines at its top."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuzktop import __version__, arguments
from cuzktop.tui.keys import markdown_table

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
KEYS = re.compile(
    r"(?<=<!-- keys: made from cuzktop/tui/keys.py -->\n).*?(?=<!-- /keys -->)", re.DOTALL
)


def text() -> str:
    return README.read_text(encoding="utf-8")


def parsers() -> Iterator[argparse.ArgumentParser]:
    """Every command's parser."""
    for name, maker in vars(arguments).items():
        if name.endswith("_parser") and callable(maker):
            yield maker()


def test_the_table_of_keys_is_the_programs() -> None:
    if os.environ.get("UPDATE_GOLDENS") == "1":
        README.write_text(KEYS.sub(lambda _: markdown_table() + "\n", text()), encoding="utf-8")
    found = KEYS.search(text())
    assert found is not None
    assert found[0] == markdown_table() + "\n", "see UPDATE_GOLDENS in this test"


def test_every_option_is_in_the_readme_and_every_one_there_exists() -> None:
    options = {word for parser in parsers() for word in parser._option_string_actions}
    assert "--samples" in options
    commands = text().split("## Commands")[1].split("## Keys")[0]
    named = set(re.findall(r"`(--?[a-zA-Z1][\w-]*)", commands))
    assert named == options


@pytest.mark.parametrize("command", ["python3 -m venv .venv && .venv/bin/pip install"])
def test_two_lines_at_the_top_install_and_show_or_test(command: str) -> None:
    top = text().split("![", 1)[0]
    lines = re.findall(r"```sh\n(.*?)```", top, re.DOTALL)
    assert len(lines) == 2
    assert all(line.startswith(command) and line.count("\n") == 1 for line in lines)
    assert lines[0].rstrip().endswith(".venv/bin/cuzktop --demo")
    assert lines[1].rstrip().endswith("bash .ci/check")
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8").rstrip().splitlines()
    assert run[-1].startswith("bash .ci/check")  # the very same command


def test_every_dependency_has_its_reason() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^dependencies = \[(.*?)^\]", project, re.DOTALL | re.MULTILINE)
    assert listed is not None
    names = re.findall(r'"([\w-]+)[^"]*"', listed[1])
    table = text().split("## What it needs")[1].split("## ")[0]
    assert re.findall(r"^\| ([\w-]+) \|", table, re.MULTILINE)[1:] == names


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", text()):
        assert link.startswith("https://") or (ROOT / link).exists(), link
    headings = {
        re.sub(r"[^\w -]", "", line[3:]).strip().lower().replace(" ", "-")
        for line in text().splitlines()
        if line.startswith("## ")
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", text())) <= headings


def test_this_version_is_in_the_changelog() -> None:
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
