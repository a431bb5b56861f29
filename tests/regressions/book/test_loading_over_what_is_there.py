"""`earmark book load --replace` removed and added: what was replaced moved to the end, and counted twice."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import earmark
from earmark import EarmarkError
from earmark.book import care, rows
from earmark.cli.app import main


@pytest.fixture
def book(tmp_path: Path) -> Path:
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add_many([("a", "x > 1"), ("b", "x > 2"), ("c", "s = 'u'")])
    return tmp_path / "b"


def looked_at(book: Path) -> earmark.Book:
    assert care.check(book) == []
    return earmark.open(book, readonly=True, follow=False)


def test_it_keeps_its_place(book: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,condition\nnew,x > 9\nb,x > 7\na,x > 8\n")
    with pytest.raises(SystemExit) as ended:
        main(["book", "load", str(book), str(tmp_path / "rows.csv"), "--replace", "--author", "ana"])
    assert not ended.value.code
    m = looked_at(book)
    assert m.ids() == ["a", "b", "c", "new"] and m["b"].condition == "x > 7"
    *_, last = m.changes()
    assert (last.kind, last.rows, len(last.differences)) == ("upsert", 3, 3)
    assert m.history("a")[1].before.condition == "x > 1"  # type: ignore[union-attr]
    assert m.as_of(1).ids() == ["a", "b", "c"]
    assert m.match({"x": 10, "s": "u"}) == ["a", "b", "c", "new"]


@pytest.mark.parametrize("few", [0, 2, 1000])
def test_of_any_size(book: Path, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(rows, "FEW", few)
    with earmark.open(book) as m:
        with m.change() as change:
            table = pa.table({"id": ["c", "n1", "a", "n2"], "condition": ["s > 3", "x < 4", "x < 1", "s < 5"]})
            assert change.upsert_many(table) == 4  # `s` is free of its type, as when `c` is removed first
            assert change["a"].condition == "x < 1"
        assert m.ids() == ["a", "b", "c", "n1", "n2"]
        m.check()
        m.undo(2)
        assert m.ids() == ["a", "b", "c"] and m["c"].condition == "s = 'u'"
    assert looked_at(book).as_of(2).ids() == ["a", "b", "c", "n1", "n2"]


def test_ready_made_rows(book: Path) -> None:
    with earmark.open(book) as m, m.change() as change:
        table = pa.table({"id": ["n1", "b"], "x_lo": [1, 2], "x_hi": [3, 4]})
        assert change.upsert_many(table) == 2
        other = earmark.Matcher("scan")
        other.add_many([("n2", "x = 1"), ("a", "x = 2")])
        assert change.upsert_many(other.to_arrow()) == change.upsert_many(other.to_frame()) == 2
    assert looked_at(book).ids() == ["a", "b", "c", "n1", "n2"]


def test_all_or_nothing(book: Path) -> None:
    with earmark.open(book) as m:
        for wrong in ([("a", "x > 5"), ("a", "x > 6")], [("a", "x > 5"), (3, "TRUE")], [("a", "x > ")], [("a",)]):
            with pytest.raises(EarmarkError), m.change() as change:
                change.upsert_many(wrong)
        assert m.last_change == 1 and m["a"].condition == "x > 1"
