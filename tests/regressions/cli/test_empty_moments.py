"""`match --at ""` and `top-k --at ""` searched as of now; `book add --starts ""` and `--ends ""` gave no life span."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import earmark
from earmark.cli.app import main

EXPECTED = "expected a moment such as '2026-03-01 12:00:00' or a datetime for"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ads.csv").write_text("id,condition,ends\nx,age > 3,2020-01-01\ny,age > 3,\n")
    Path("events.jsonl").write_text('{"age": 5}\n')
    earmark.open("b", index="scan").close()


def sentence(*arguments: str) -> str:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2 and done.output.startswith("earmark: "), done.output
    return done.output.removeprefix("earmark: ").rstrip("\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("match", "ads.csv", "events.jsonl"),
        ("top-k", "ads.csv", "events.jsonl"),
        ("backtest", "ads.csv", "events.jsonl"),
        ("explain", "ads.csv", "x", '{"age": 5}'),
    ],
)
def test_at(arguments: tuple[str, ...]) -> None:
    assert sentence(*arguments, "--at", "").endswith(f"{EXPECTED} `at`, got ''")


@pytest.mark.parametrize("side", ["starts", "ends"])
@pytest.mark.parametrize("more", [(), ("--replace",)])
@pytest.mark.parametrize("given", ["", "x"])
def test_life_span(side: str, more: tuple[str, ...], given: str) -> None:
    said = sentence("book", "add", "b", "x", "age > 3", f"--{side}", given, *more)
    assert said == f"subscription 'x': {EXPECTED} {side}, got {given!r}"
    assert earmark.open("b", readonly=True, follow=False).ids() == []
