"""A terminal with colours and a user without settings, whatever the tests are run from."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _many_colours(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    # No test writes there: those that write settings name a file.
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "nowhere"))
