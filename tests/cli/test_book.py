"""`earmark book …`, `check`, `repair` and `backup`, and commands that take a book where they take a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import earmark as library

from .conftest import Earmark, Result

Ask = Callable[..., Result]


@pytest.fixture
def ask(earmark: Earmark) -> Ask:
    """Runs a command that must end with this exit code."""

    def run(*given: Any, code: int = 0) -> Result:
        found = earmark(*given)
        assert found.code == code, found
        return found

    return run


@pytest.fixture
def ads(tmp_path: Path) -> Path:
    """A book of three changes."""
    with library.open(tmp_path / "ads", index="scan", author="ana") as m:
        m.add_many([("ad-1", "age BETWEEN 22 AND 36"), ("ad-2", "visits > 10")])
        m.update("ad-1", score=2.5, tags={"tenant": "acme"})
        with m.change(message="too many") as change:
            change.remove("ad-2")
    return tmp_path / "ads"


@pytest.fixture
def visitors(tmp_path: Path) -> Path:
    file = tmp_path / "visitors.jsonl"
    file.write_text('{"age": 27, "visits": 12}\n{"age": 61}\n')
    return file


def test_a_book_from_its_beginning(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "b"
    assert (
        ask("book", "create", path, "--attribute", "age=integer", "--zone", "Europe/Oslo").out
        == f"made {str(path)!r}\n"
    )
    assert "is a book already" in ask("book", "create", path, code=2).err
    ask("book", "add", path, "ad-1", "age > 3", "--score", "2", "--tag", "t=x", "--author", "bob", "--message", "why")
    assert "the id is already in use" in ask("book", "add", path, "ad-1", "TRUE", code=2).err
    ask("book", "add", path, "ad-1", "age > 4", "--replace", "--weight", "age=0.5", "--ends", "2030-01-01")
    assert "removed 1 subscription; 0 left" in ask("book", "remove", path, "ad-1").out
    assert "there is no subscription 'ad-1' to remove" in ask("book", "remove", path, "ad-1", code=2).err
    lines = ask("book", "history", path, "ad-1").out.splitlines()
    assert "add by bob (why): age > 3; score 2.0; tags t=x" in lines[0] and "condition age > 3 → age > 4" in lines[1]
    assert "was age > 4" in lines[2]
    (first, *_) = [json.loads(line) for line in ask("book", "history", path, "--json", "--since", "1").out.splitlines()]
    assert first["kind"] == "add" and first["author"] == "bob" and first["subscriptions"] == 1
    assert "there was none" in ask("book", "history", path, "none", code=2).err


def test_looking(ask: Ask, ads: Path) -> None:
    assert ask("book", "list", ads).out == (
        '"id","condition","weights","score","tags"\n"ad-1","age BETWEEN 22 AND 36",,2.5,"{""tenant"": ""acme""}"\n'
    )
    rows = [json.loads(line) for line in ask("book", "as-of", ads, "1", "--json").out.splitlines()]
    assert [row["id"] for row in rows] == ["ad-1", "ad-2"] and rows[0]["score"] == 0.0
    assert ask("book", "list", ads, "--as-of", "2000-01-01").out.count("\n") == 1
    assert json.loads(ask("book", "show", ads, "ad-1", "--json").out)["tags"] == {"tenant": "acme"}
    assert "score" not in ask("book", "show", ads, "ad-1", "--as-of", "1").out
    about = json.loads(ask("book", "show", ads, "--json").out)
    assert about["subscriptions"] == 1 and about["last_change"] == 3 and about["disk"]["segments"] > 0
    assert ask("book", "diff", ads, "1", "3").out == (
        "~ ad-1: score 0.0 → 2.5; tags none → tenant=acme\n- ad-2: visits > 10\n"
    )
    assert "expected the number of a change or a time" in ask("book", "as-of", ads, "lately", code=2).err
    assert "there is no change 9" in ask("book", "as-of", ads, "9", code=2).err


def test_undo(ask: Ask, ads: Path) -> None:
    assert ask("book", "undo", ads, "3", "--author", "eve").out == "change 3 is undone by change 4\n"
    assert "undo by eve (undo of change 3)" in ask("book", "history", ads).out
    assert "change 3 is already undone" in ask("book", "undo", ads, "3", code=2).err
    ask("book", "add", ads, "ad-2", "TRUE", "--replace")
    assert "'ad-2' changed since" in ask("book", "undo", ads, "3", code=2).err


def test_commands_take_a_book(ask: Ask, ads: Path, visitors: Path) -> None:
    def found(*given: Any) -> list[str]:
        return [json.loads(line)["subscription"] for line in ask(*given, "--json").out.splitlines()]

    assert found("match", ads, visitors) == ["ad-1"]
    assert found("match", ads, visitors, "--as-of", "1") == ["ad-1", "ad-2"]
    assert found("top-k", ads, visitors, "-k", "1", "--as-of", "1") == ["ad-1"]
    assert found("backtest", ads, visitors, "--as-of", "1") == ["ad-1", "ad-2"]
    assert "'ad-2' matches" in ask("explain", ads, "ad-2", '{"visits": 11}', "--as-of", "1").out
    assert "there is no subscription 'ad-2'" in ask("explain", ads, "ad-2", '{"visits": 11}', code=2).err
    assert "1 subscription" in ask("audit", ads).out and "2 subscriptions" in ask("audit", ads, "--as-of", "2").out
    assert "--as-of is for a book, and no input is one" in ask("match", visitors, visitors, "--as-of", "1", code=2).err


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl", "tsv"])
def test_export_and_load(ask: Ask, tmp_path: Path, suffix: str) -> None:
    with library.open(tmp_path / "b", index="scan") as m:
        m.add("a", "age > 3 AND city = 'it''s, \"quoted\"'", weights={"age": 0.5}, score=1.5, tags={"t": "é,\n"})
        m.add("b", "TRUE", starts="2024-01-01", ends="2030-01-01T12:30:00.000001")
        m.add("c", "price < 1.5")
    file = tmp_path / f"x.{suffix}"
    ask("book", "export", tmp_path / "b", file)
    ask("book", "create", tmp_path / "c")
    assert "3 more, 3 in all" in ask("book", "load", tmp_path / "c", file, "--message", "all").out
    again = library.open(tmp_path / "c", readonly=True, follow=False)
    assert [again[id] for id in again] == [m[id] for id in m]
    assert "the id is already in use" in ask("book", "load", tmp_path / "c", file, code=2).err
    assert "0 more, 3 in all" in ask("book", "load", tmp_path / "c", file, "--replace").out


def test_no_option_is_ignored(ask: Ask, ads: Path, tmp_path: Path) -> None:
    assert "there is no change 77" in ask("book", "show", ads, "--as-of", "77", code=2).err
    then = json.loads(ask("book", "show", ads, "--as-of", "1", "--json").out)
    assert then["subscriptions"] == 2 and "disk" not in then
    for option in (["--as-of", "5"], ["--format", "csv"], ["--delimiter", ";"]):
        assert "No such option" in ask("book", "create", tmp_path / "new", *option, code=2).err
    assert not (tmp_path / "new").exists()
    rows = tmp_path / "rows.csv"
    rows.write_text("id,condition\nx,age > 1\n")
    assert "--as-of is for a book" in ask("book", "load", ads, rows, "--as-of", "1", code=2).err


def test_loading_declares_types(ask: Ask, tmp_path: Path) -> None:
    book, rows = tmp_path / "b", tmp_path / "rows.csv"
    ask("book", "create", book)
    rows.write_text("id,condition\nx,age > 1\n")
    ask("book", "load", book, rows, "--attribute", "age=integer", "--message", "first")
    assert json.loads(ask("book", "show", book, "--json").out)["attributes"] == {"age": "integer"}
    assert library.open(book, readonly=True, follow=False).attributes["age"].declared
    ask("book", "load", book, rows, "--attribute", "age=integer", "--replace")
    kinds = [line.split()[2].strip(":") for line in ask("book", "history", book).out.splitlines()]
    assert kinds == ["change", "upsert"]
    refused = ask("book", "load", book, rows, "--attribute", "age=string", "--replace", code=2).err
    assert "'age'" in refused and "integer" in refused


def test_check_of_what_is_no_book(ask: Ask, ads: Path, tmp_path: Path) -> None:
    for what in (tmp_path / "nosuch", tmp_path, ads / "CURRENT"):
        assert "there is no book" in ask("check", what, code=2).err
    (ads / "book.json").write_text("{")
    assert "book.json" in ask("check", ads, code=1).out


def test_care(ask: Ask, ads: Path, tmp_path: Path) -> None:
    assert ask("check", ads).out == f"{str(ads)!r} is whole\n"
    ask("backup", ads, tmp_path / "copy")
    assert "exists; a backup goes to a new folder" in ask("backup", ads, tmp_path / "copy", code=2).err
    for file in ads.glob("segments/*"):
        file.write_bytes(b"nothing")
    outcome = json.loads(ask("check", ads, "--json", code=1).out)
    assert "instead of the recorded ones" in outcome["problems"][0]
    assert "instead of the recorded ones" in ask("book", "list", ads, code=2).err
    assert "the segments were made from the journal: 1 subscription" in ask("repair", ads).out
    assert ask("check", ads).out == f"{str(ads)!r} is whole\n"
    assert ask("book", "list", ads).out == ask("book", "list", tmp_path / "copy").out


def test_a_book_that_cannot_be_read_is_not_made_again(ask: Ask, ads: Path, tmp_path: Path) -> None:
    (ads / "book.json").unlink()
    for given in (("add", ads, "x", "TRUE"), ("create", ads), ("list", ads), ("migrate", ads)):
        assert "has no book.json; `earmark repair` writes it again" in ask("book", *given, code=2).err
    assert "has no book.json" in ask("check", ads, code=1).out
    ask("repair", ads)
    assert ask("check", ads).out == f"{str(ads)!r} is whole\n"
    old = tmp_path / "old"
    old.mkdir()
    (old / "manifest.json").write_text('{"format": "earmark-table", "version": 1}')
    for command in ("migrate", "create", "list"):
        assert "from before earmark 0.1.0, which is not read any more" in ask("book", command, old, code=2).err


def test_forgetting(ask: Ask, ads: Path) -> None:
    assert "there is no change 999" in ask("book", "history", ads, "ad-1", "--since", "999", code=2).err
    assert "there is no change 999" in ask("book", "history", ads, "--since", "999", code=2).err
    assert ask("book", "checkpoint", ads).out == "the newest checkpoint goes up to change 3\n"
    assert ask("book", "retain", ads, "3").out == "the history begins at change 2\n"
    assert "was forgotten" in ask("book", "as-of", ads, "1", code=2).err
    assert ask("book", "erase", ads, "ad-2", "--author", "eve", "--message", "asked").out == (
        "erased 'ad-2'; 1 subscription left\n"
    )
    assert "erase by eve (asked): nothing of it is kept" in ask("book", "history", ads, "ad-2").out
    assert not any(b"visits" in file.read_bytes() for file in ads.rglob("*") if file.is_file())
    assert "and there was none" in ask("book", "erase", ads, "none", code=2).err
    empty = ads.with_name("empty")
    ask("book", "create", empty)
    assert ask("book", "retain", empty, "2026-01-01").out == "there is no history yet\n"


def test_an_erased_integer_id(ask: Ask, tmp_path: Path) -> None:
    with library.open(tmp_path / "b", index="scan") as m:
        m.add(17, "age > 3")
        m.remove(17)
    assert ask("book", "erase", tmp_path / "b", "17").out == "erased '17'; 0 subscriptions left\n"


def test_a_saved_folder_is_migrated(ask: Ask, tmp_path: Path) -> None:
    m = library.Matcher("scan")
    m.add("a", "TRUE")
    m.save(tmp_path / "b")
    problem = "--as-of is for a book with a journal"
    assert problem in ask("audit", tmp_path / "b", "--as-of", "1", code=2).err
    migrate = ("book", "migrate", tmp_path / "b", "--author", "ana", "--message", "goes on")
    assert "has a journal: 1 subscription, 1 change" in ask(*migrate).out
    assert "has a journal: 1 subscription, 1 change" in ask(*migrate).out
    assert "import by ana (goes on)" in ask("book", "history", tmp_path / "b").out
    assert "there is no book" in ask("book", "migrate", tmp_path / "none", code=2).err
