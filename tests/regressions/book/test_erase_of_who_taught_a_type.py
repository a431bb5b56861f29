"""A type says which subscription it was learned from, with its id and text, and travels with segments and batches, also
with those that the subscription is not in. None of them may keep that after `erase`."""

from __future__ import annotations

from pathlib import Path

import pytest

import earmark
from earmark.book import care
from earmark.book.journal import Journal
from earmark.book.rows import ADDED, FEW, REMOVED, table_in

TEXT = "city = 'Gertrude' AND secret > 777123"
TRACES = (b"Gertrude", b"777123", b"tag-Value-77")


def rows(start: int) -> list[tuple[str, str]]:
    return [(f"s{i}", f"city = 'x{i}' AND secret > {i}") for i in range(start, start + FEW + 1)]


def found_in(folder: Path) -> set[tuple[str, bytes]]:
    content = {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    journal = Journal.open(folder, readonly=True)
    for change in journal.changes(journal.first - 1):
        for form, body in journal.parts(change):
            if form in (ADDED, REMOVED):  # compressed
                table = table_in(body)
                content[f"change {change.number}"] = f"{table.to_pylist()} {table.schema.metadata}".encode()
    journal.close()
    return {(name, one) for name, held in content.items() for one in TRACES if one in held}


@pytest.mark.parametrize("is_in_a_batch", [False, True])
@pytest.mark.parametrize("is_removed", [False, True])
def test_nothing_stays(tmp_path: Path, is_in_a_batch: bool, is_removed: bool) -> None:
    folder = tmp_path / "b"
    with earmark.open(folder, index="scan") as m:
        if is_in_a_batch:
            m.add_many([("gone", TEXT), *rows(0)])
        else:
            m.add("gone", TEXT, tags={"who": "tag-Value-77"})
            m.add_many(rows(0))
        m.checkpoint()
        m.add_many(rows(10_000))
        assert "Gertrude" in str(m.attributes["city"].origin) and found_in(folder)
        m.remove_many([one for one, _ in rows(0)])
        if is_removed:
            m.remove("gone")
        m.erase("gone")
        assert found_in(folder) == set()
        m.add_many(rows(20_000))
        assert "gone" not in str(m.attributes["city"].origin)
    assert found_in(folder) == set() and care.check(folder) == []
    with earmark.open(folder) as again:
        assert again.match({"city": "x10001", "secret": 10_002}) == ["s10001"]
        assert again.as_of(2)["s1"].condition == "city = 'x1' AND secret > 1"
