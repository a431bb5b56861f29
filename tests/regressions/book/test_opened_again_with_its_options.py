"""A program that opens its book with `attributes=`, `time=` or `zone=` was refused the second time, though it gave what
the book has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import earmark
from earmark import EarmarkError, Matcher

OPTIONS: dict[str, Any] = {
    "attributes": {"age": "int", "price": "decimal(9, 2)", "size": "number"},
    "zone": "Europe/Oslo",
    "strict": True,
    "nan": "null",
    "time": "ts",
}
NONE: dict[str, Any] = dict.fromkeys(OPTIONS)


def made(folder: Path) -> None:
    with earmark.open(folder, index="scan", **OPTIONS) as m:
        m.add("a", "age > 3 AND size > 12345678901234567890")


def made_without_checkpoint(folder: Path) -> None:
    m = earmark.open(folder, index="scan", **OPTIONS)
    m.add("a", "age > 3")
    m._checkpoints.shelf.change = 2
    m.close()


def saved(folder: Path) -> None:
    m = Matcher("scan", **OPTIONS)
    m.add("a", "age > 3")
    m.save(folder)


@pytest.fixture(params=[made, made_without_checkpoint, saved])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    make: Callable[[Path], None] = request.param
    make(tmp_path / "b")
    return tmp_path / "b"


@pytest.mark.parametrize("readonly", [True, False])
def test_equal_ones(folder: Path, readonly: bool) -> None:
    with earmark.open(folder, readonly=readonly, **OPTIONS) as m:
        assert m.ids() == ["a"]
    for name, value in OPTIONS.items():
        earmark.open(folder, readonly=readonly, **{**NONE, name: value}).close()
    with earmark.open(folder) as m:
        m.declare({"later": "string"})
    with earmark.open(folder, readonly=readonly, **OPTIONS) as m:
        assert m.attributes["later"].declared


def files(folder: Path) -> list[Path]:
    """All but those that SQLite has while a journal is open, which a connection for reading leaves there."""
    return sorted(file for file in folder.rglob("*") if not file.name.startswith("journal.db-"))


@pytest.mark.parametrize("readonly", [True, False])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"zone": "UTC"}, "has zone='Europe/Oslo', which stays as it is, got zone='UTC'"),
        ({"strict": False}, "has strict=True, which stays as it is, got strict=False"),
        ({"nan": "value"}, "has nan='null', which stays as it is, got nan='value'"),
        ({"time": "at"}, "has time='ts', which stays as it is, got time='at'"),
        ({"attributes": {"age": "string"}}, r"'age' was given as string, but .* has it as integer: retype\(\)"),
        ({"attributes": {"x": "int"}}, r"'x' was given as integer, but .* has no such attribute: declare\(\)"),
        ({"attributes": {"age": "nope"}}, "'nope' is not a type"),
        ({"attributes": ["age"]}, "expected a mapping of names to types"),
        ({"zone": "Mars/Base"}, "Mars/Base"),
    ],
)
def test_other_ones(folder: Path, readonly: bool, options: dict[str, Any], said: str) -> None:
    before = files(folder)
    with pytest.raises(EarmarkError, match=said):
        earmark.open(folder, readonly=readonly, **options)
    assert files(folder) == before
    earmark.open(folder).close()


def test_a_type_that_was_learned(tmp_path: Path) -> None:
    with earmark.open(tmp_path / "b") as m:
        m.add("a", "age > 3")
    with pytest.raises(EarmarkError, match=r"has it as number, not declared: declare\(\) fixes it"):
        earmark.open(tmp_path / "b", attributes={"age": "number"})
