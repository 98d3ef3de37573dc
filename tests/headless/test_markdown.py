"""A report for a ticket: it reads as Markdown, and nothing foreign formats it."""

from __future__ import annotations

import re

import pytest

from cuzktop import cli
from cuzktop.dataclass import replace
from cuzktop.frame import Alert, CpuStage, Inflation, RunReport
from cuzktop.headless.markdown import code, plain, report_markdown
from cuzktop.headless.text import RowsTally
from tests.headless.fixtures import (
    FAILED_ROW,
    IDLE_RUN,
    INFERRED_ROW,
    OLD_ROW,
    OLD_RUN,
    ROW,
    RUN,
    SOURCE,
)


def tally(*rows: object) -> RowsTally:
    counted = RowsTally()
    for row in rows:
        counted.add(row)  # type: ignore[arg-type]
    return counted


def written(*reports: RunReport) -> str:
    tallies = {0: tally(ROW, INFERRED_ROW), 1: tally(OLD_ROW, FAILED_ROW)}
    return report_markdown(reports, SOURCE, tallies)


def tables(text: str) -> list[list[str]]:
    found: list[list[str]] = []
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        if lines:
            assert len(lines) == len(block.strip().splitlines()), "a table stands alone"
            found.append(lines)
    return found


def columns(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line)) - 1


@pytest.mark.parametrize("reports", [(RUN,), (OLD_RUN,), (IDLE_RUN,), (RUN, OLD_RUN, IDLE_RUN), ()])
def test_every_table_has_as_many_cells_in_each_line(reports: tuple[RunReport, ...]) -> None:
    text = written(*reports)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    for lines in tables(text):
        assert len({columns(line) for line in lines}) == 1
        assert set(lines[1]) <= set("|-: ")


def test_the_sentence_comes_first_and_the_answer_is_complete() -> None:
    text = written(RUN)
    assert text.startswith(f"**{plain(RUN.verdict.sentence)}**\n\nLimit: {RUN.verdict.bottleneck}")
    for line in (*RUN.verdict.evidence, *RUN.verdict.advice):
        assert f"- {plain(line)}\n" in text
    assert f"`{ROW.job}`" in text
    assert "42.6 s a proof" in text
    assert "| Lock held | " in text


def test_derived_figures_keep_their_mark() -> None:
    text = written(OLD_RUN)
    assert "| \\~" in text
    assert text.rstrip().splitlines()[-1].startswith("\\~ derived")
    assert "~" not in re.sub(r"\\~", "", text)  # two of them would strike text out


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "`plain`"),
        ("a|b", "`a|b`"),
        ("a`b", "``a`b``"),
        ("`a`", "`` `a` ``"),
        ("a\nb\x1b[31m", "`a b\N{REPLACEMENT CHARACTER}[31m`"),
        ("", "` `"),
        ("<img src=x> @everyone", "`<img src=x> @everyone`"),
    ],
)
def test_foreign_words_are_code(raw: str, shown: str) -> None:
    assert code(raw) == shown


def test_an_alert_cannot_format_the_ticket() -> None:
    alert = Alert(level="error", at_ms=1, text="# <b>@all</b> | **x**\n- y `z`")
    text = written(replace(RUN, alerts=(alert,)))
    (line,) = [line for line in text.splitlines() if "@all" in line]
    assert line == "- error at 1ms: `` # <b>@all</b> | **x** - y `z` ``"


def test_a_job_cannot_break_a_table() -> None:
    odd = replace(ROW, job="a|b`c")
    text = report_markdown((RUN,), SOURCE, {RUN.run: tally(odd)})
    assert "| ``a\\|b`c`` |" in text
    for lines in tables(text):
        assert len({columns(line) for line in lines}) == 1


def test_stages_by_syntheses_in_flight() -> None:
    stage = CpuStage(
        stage="prep_msm_ms",
        count=30,
        quiet=(0, 2),
        quiet_ms=1000,
        busy=(9, 9),
        busy_ms=2500,
        bands=((0, 2, 10, 1.0), (9, 9, 20, 2.5)),
        follows=True,
    )
    text = written(replace(RUN, inflation=Inflation(found="one", sentence="s", stages=(stage,))))
    assert "| Prep MSM | 0–2 | 10 | 1.00s | 1.00 |\n| Prep MSM | 9 | 20 | 2.50s | 2.50 |" in text


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "--demo", "herd", "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("**Syntheses finish in waves")
    assert cli.main(["report", "--demo", "herd", "--markdown", "--json"]) == 2
    assert "one of them" in capsys.readouterr().err
