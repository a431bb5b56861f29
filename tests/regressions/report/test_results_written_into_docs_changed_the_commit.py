"""`earmark paper all --out docs/results` marked every result but the first as measured with uncommitted changes.

The results of the first experiment were changes to files that git knows, so --resume measured everything again.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from earmark.report import protocol


def test_results_are_no_changes_to_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", *arguments], cwd=tmp_path, check=True)

    code, result = tmp_path / "src" / "protocol.py", tmp_path / "docs" / "results" / "figure-6.json"
    for file in (code, result):
        file.parent.mkdir(parents=True)
        file.write_text("before")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    monkeypatch.setattr(protocol, "__file__", str(code))
    clean = protocol.machine()["commit"]
    assert clean and not clean.endswith("+")
    result.write_text("after")
    assert protocol.machine()["commit"] == clean
    code.write_text("after")
    assert protocol.machine()["commit"] == clean + "+"
