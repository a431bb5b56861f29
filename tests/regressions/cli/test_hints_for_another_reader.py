"""Errors of `earmark book` named calls of Python, rows of no file, and a file that a missing book lacked."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import earmark
from earmark import EarmarkError
from earmark.cli.app import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with earmark.open("b", index="scan") as m:
        m.add_many([("x", "age > 3"), ("y", "age > 4")])
    Path("more.csv").write_text("id,condition\nz,age > 1\nx,age > 4\ny,age > 5\n")
    Path("bad.csv").write_text("id,condition\nz,age > 1\nw,age >\n")
    return tmp_path


def sentence(*arguments: str) -> str:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2 and done.output.startswith("earmark: "), done.output
    return done.output.removeprefix("earmark: ").rstrip("\n")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("add", "b", "x", "TRUE"), "subscription 'x': the id is already in use; --replace replaces it"),
        (
            ("load", "b", "more.csv"),
            "'more.csv': 2 subscriptions were refused: line 3, subscription 'x': the id is already in use; --replace "
            "replaces it; line 4, subscription 'y': the id is already in use; --replace replaces it",
        ),
        (("remove", "b", "x", "nope"), "there is no subscription 'nope' to remove"),
        (("remove", "b", "x", "y", "x"), "the id 'x' is given twice"),
    ],
)
def test_changes(arguments: tuple[str, ...], expected: str) -> None:
    assert sentence("book", *arguments) == expected
    assert earmark.open("b", readonly=True, follow=False).ids() == ["x", "y"]


def test_saving_over_a_durable_book() -> None:
    assert sentence("save", "more.csv", "b").endswith(
        "change it through earmark.open or `earmark book load`, or choose another folder"
    )


def test_a_call_is_still_named_to_programs() -> None:
    with earmark.open("b") as m, pytest.raises(EarmarkError, match=r"already in use; use update\(\) to change it$"):
        m.add("x", "TRUE")


@pytest.mark.parametrize(
    "arguments",
    [
        *[("book", name, "TYPO") for name in ("list", "show", "history", "checkpoint", "migrate")],
        ("book", "as-of", "TYPO", "1"),
        ("book", "diff", "TYPO", "1", "2"),
        ("book", "export", "TYPO", "file.csv"),
        ("book", "remove", "TYPO", "x"),
        ("book", "load", "TYPO", "more.csv"),
        ("check", "TYPO"),
        ("repair", "TYPO"),
        ("backup", "TYPO", "copy"),
    ],
)
def test_no_book(folder: Path, arguments: tuple[str, ...]) -> None:
    before = sorted(folder.iterdir())
    assert sentence(*arguments).startswith("there is no book 'TYPO'")
    assert sorted(folder.iterdir()) == before
