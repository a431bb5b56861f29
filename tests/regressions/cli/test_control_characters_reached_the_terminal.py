"""Ids, tags, authors and messages of a book were printed as they are: colours, a moved cursor, a line of their own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import earmark
from earmark.cli.app import main
from earmark.cli.files import write_tables
from earmark.cli.shown import printable, printable_json

NASTY = "a\x1b[31m\r\nb\x9b\u202e"
AS_TEXT = r"a\x1b[31m\r\nb\x9b\u202e"


@pytest.fixture
def book(tmp_path: Path) -> str:
    path = tmp_path / "b"
    with earmark.open(path, index="scan", author=NASTY) as m:
        with m.change(message=NASTY) as change:
            change.add(NASTY, f"city = '{NASTY}'", tags={NASTY: NASTY})
        m.update(NASTY, score=2.0, tags={NASTY: "x"})
    return str(path)


def said(*arguments: str) -> str:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code in (0, 1, 2), done.output
    return done.output


COMMANDS = {
    "history": ("book", "history", "BOOK"),
    "history of one": ("book", "history", "BOOK", NASTY),
    "show": ("book", "show", "BOOK", NASTY),
    "diff": ("book", "diff", "BOOK", "1", "2"),
    "diff of an addition": ("book", "diff", "BOOK", "0", "1"),
    "explain": ("explain", "BOOK", NASTY, json.dumps({"city": NASTY})),
    "an error": ("book", "show", "BOOK", NASTY + "?"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_text(book: str, command: str) -> None:
    text = said(*(book if one == "BOOK" else one for one in COMMANDS[command]))
    assert r"\x1b" in text and printable(text, keep="\n") == text
    lines = {"history": 2, "history of one": 2, "show": 4, "explain": 3}
    assert len(text.splitlines()) == lines.get(command, 1)


@pytest.mark.parametrize("command", ["history", "history of one", "show", "diff"])
def test_json(book: str, command: str) -> None:
    text = said(*(book if one == "BOOK" else one for one in COMMANDS[command]), "--json")
    assert printable(text, keep="\n") == text
    assert json.dumps(NASTY) in text and all(json.loads(line) for line in text.splitlines())


@pytest.mark.parametrize("as_json", [False, True])
def test_rows_on_a_terminal(
    book: str, as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = earmark.open(book, readonly=True, follow=False).to_frame()
    write_tables(iter([frame]), None, as_json)
    assert "\x9b" in capsys.readouterr().out  # a pipe gets the data as it is
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    write_tables(iter([frame]), None, as_json)
    text = capsys.readouterr().out
    assert printable(text, keep="\n") == text and len(text.splitlines()) == (1 if as_json else 2)
    assert not as_json or json.loads(text)["id"] == NASTY


def test_characters() -> None:
    assert printable(NASTY) == AS_TEXT
    assert printable("Zoë 'x' \\ 🙂") == "Zoë 'x' \\ 🙂"
    assert json.loads(printable_json(json.dumps([NASTY, "\U000e0001"], ensure_ascii=False))) == [NASTY, "\U000e0001"]


def test_one_style_for_tags_and_times(book: str) -> None:
    with earmark.open(book) as m:
        m.add("y", "a > 1", tags={"tenant": "acme"}, ends="2030-01-01 12:00:00")
    assert "tags: tenant=acme\nends: 2030-01-01T12:00:00Z\n" in said("book", "show", book, "y")
    assert "+ y: a > 1; tags tenant=acme; ends 2030-01-01T12:00:00Z\n" in said("book", "diff", book, "2", "3")
    lines = said("book", "history", book).splitlines()
    time = lines[1].split()[1]
    assert time.endswith("Z") and len(said("book", "history", book, "--since", time).splitlines()) == 1
    assert json.loads(said("book", "history", book, "--json").splitlines()[1])["time"] == time
