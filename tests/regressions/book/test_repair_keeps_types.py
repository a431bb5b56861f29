"""What a repair took from a checkpoint had no types: attributes whose declaration was lost became strings again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

import earmark
from earmark.book import care
from earmark.book.journal import JOURNAL, digest_of_part
from earmark.book.rows import part_of_types


def damage(folder: Path, change: int) -> None:
    connection = sqlite3.connect(folder / JOURNAL)
    connection.execute("UPDATE changes SET checksum = x'00' WHERE number = ?", (change,))
    connection.commit()
    connection.close()


def declared(m: earmark.Book) -> None:
    m.declare({"x": "date"})
    m.add("b", "x > '2024-01-01'")


def retyped(m: earmark.Book) -> None:
    m.add("b", "x > '2024-01-01'")
    m.retype("x", "date")


def retyped_beside_what_went(m: earmark.Book) -> None:
    m.add("b", "x > '2024-01-01'")
    m.remove("odd")
    m.retype("x", "date")


def learned(m: earmark.Book) -> None:
    m.remove("odd")
    m.add("b", "x > DATE '2024-01-01'")


def learned_by_one_that_went(m: earmark.Book) -> None:
    m.remove_many(["odd", "same"])
    m.add("b", "x > DATE '2024-01-01'")
    m.add("same", "x > '2024-01-01'")
    m.remove("b")


@pytest.mark.parametrize(
    ("work", "odd"),
    [
        (declared, None),
        (retyped, None),
        (retyped_beside_what_went, "x = 'no date'"),
        (learned, "x = 'no date'"),
        (learned_by_one_that_went, "x = 'no date'"),
    ],
)
@pytest.mark.parametrize("change", [3, 4])
def test_types_come_from_the_checkpoint(
    tmp_path: Path, work: Callable[[earmark.Book], None], odd: str | None, change: int
) -> None:
    folder = tmp_path / "b"
    with earmark.open(folder, index="scan") as m:
        m.add("a", "age > 3")
        if odd is None:
            m.add("a2", "age > 4")
        else:
            m.add_many([("odd", odd), ("same", "x > '2024-01-01'")] if "went" in work.__name__ else [("odd", odd)])
        work(m)
        expected = {id: m[id] for id in m.ids()}, m.attributes, m.match({"x": date(2024, 5, 5)})
    damage(folder, change)
    assert any(f"change {change}" in one for one in care.check(folder))
    assert any("a checkpoint has" in one for one in care.repair(folder))
    assert care.check(folder) == []
    with earmark.open(folder) as m:
        found = {id: m[id] for id in m.ids()}, m.attributes, m.match({"x": date(2024, 5, 5)})
        assert found[0] == expected[0] and found[2] == expected[2]
        assert {n: (a.type, a.declared) for n, a in found[1].items()} == {
            n: (a.type, a.declared) for n, a in expected[1].items()
        }
        assert [one.kind for one in m.history("a")] == ["add"]
        for id in m.ids():
            m.history(id)


def test_a_checkpoint_with_other_types_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    with earmark.open(folder, index="scan") as m:
        m.declare({"x": "date"})
        m.add("a", "age > 3")
    part = part_of_types("declare", {"x": "timestamp"})
    connection = sqlite3.connect(folder / JOURNAL)
    connection.execute("UPDATE parts SET body = ?, checksum = ?", (part.body, digest_of_part(1, 0, part)))
    connection.commit()
    connection.close()
    assert any("its attribute 'x' has another type than in the journal" in one for one in care.check(folder))
