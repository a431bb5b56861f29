"""`audit`, `merge -o`, `broker status` and `simulate` sent characters to a terminal raw, with --json.

Those that JSON does not need to escape: C1 controls, marks that turn the direction of text, separators of lines.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import earmark.overlay
from earmark.cli.app import main
from earmark.cli.shown import printable

NASTY = "a\x9b31mb\u202ec\u2028d"
LINKS = f"{NASTY}.txt"


async def status(*_: Any, **__: Any) -> dict[str, Any]:
    return {"name": NASTY}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"id": NASTY, "condition": "age > 3"}, {"id": "y", "condition": "age > 3"}]
    Path("ads.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path(LINKS).write_text("one two\n")
    Path("token").write_text("secret" * 8)
    Path("token").chmod(0o600)
    monkeypatch.setattr(earmark.overlay, "ask_status", status)


SIMULATE = ("simulate", "--topology", LINKS, "--policies", "flood", "--subscriptions", "9", "--publications", "9")
COMMANDS = {
    "audit": ("audit", "ads.jsonl", "--json"),
    "merge": ("merge", "ads.jsonl", "--budget", "0", "--json", "-o", f"{NASTY}.csv"),
    "broker status": ("broker", "status", "127.0.0.1:7000", "--token-file", "token", "--json"),
    "simulate": (*SIMULATE, "--json"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("is_terminal", [True, False])
def test_characters(
    command: str, is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
    with pytest.raises(SystemExit) as ended:
        main(COMMANDS[command])
    text = capsys.readouterr().out
    assert ended.value.code == 0
    assert NASTY in json.dumps(json.loads(text), ensure_ascii=False)  # it means the same
    if is_terminal:
        assert printable(text, keep="\n") == text and json.dumps(NASTY)[1:-1] in text
    else:
        assert NASTY in text
