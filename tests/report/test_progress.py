"""A message is not printed onto the line of a progress bar."""

from __future__ import annotations

import io

import pytest

from earmark import progress
from earmark.report.run import Step


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_messages_have_lines_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    monkeypatch.setattr(progress, "_DELAY", -1.0)
    monkeypatch.delenv("EARMARK_QUIET", raising=False)
    for step in progress.shares([Step(0.1), Step(0.4), Step(0.8), Step(1.0)], "experiments"):
        if step.share == 0.8:
            progress.clear_line()
            terminal.write("a message\n")
    assert "\r\x1b[Ka message\n" in terminal.getvalue()
    assert "40%" in terminal.getvalue()
