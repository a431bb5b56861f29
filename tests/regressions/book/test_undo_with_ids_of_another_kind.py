"""Undoing a removal brought back a string id into a book whose ids were integers by then."""

from __future__ import annotations

from pathlib import Path

import pytest

import earmark
from earmark import SubscriptionError
from earmark.book import care


@pytest.mark.parametrize("count", [1, 2000])
def test_it_is_refused(tmp_path: Path, count: int) -> None:
    folder = tmp_path / "b"
    with earmark.open(folder, index="scan") as m:
        m.add_many([(f"s{i}", f"age > {i}") for i in range(count)])
        m.remove_many(m.ids())
        m.add(7, "age > 3")
        with pytest.raises(SubscriptionError, match="expected an integer as id, as the other ids are"):
            m.undo(2)
        assert m.ids() == [7] and m.last_change == 3
        m.remove(7)
        m.undo(2)
        assert m.ids() == [f"s{i}" for i in range(count)]
    assert care.check(folder) == []


def test_one_change_from_strings_to_integers_is_undone(tmp_path: Path) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "age > 3")
        with m.change() as change:
            change.remove("a")
            change.add(7, "age > 3")
        m.undo(2)
        assert m.ids() == ["a"]
    assert earmark.open(tmp_path / "b", readonly=True, follow=False).ids() == ["a"]
