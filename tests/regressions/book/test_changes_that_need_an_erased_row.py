"""A reader, and an opening after a kill, could not repeat changes that came between a checkpoint and an erasure.

The erased subscription was the only user of a type, and gave it up in a row that the erasure has taken out.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import earmark
from earmark.book import care
from earmark.durable import Book


def begin(folder: Path) -> Book:
    m = earmark.open(folder, index="scan")
    m.add("a", "x > 3")
    m.add("kept", "y = 1")
    m.checkpoint()
    return m


def goes_on(m: Book) -> None:
    m.update("a", "y > 3")
    m.declare({"x": "string"})
    m.add("b", "x = 'k'")


def test_a_reader_goes_on(tmp_path: Path) -> None:
    with begin(tmp_path / "b") as m:
        reader = earmark.open(tmp_path / "b", readonly=True, follow=False)
        goes_on(m)
        m.erase("a")
        assert reader.refresh() == m.last_change
        assert reader.ids() == m.ids() == ["kept", "b"]
        assert reader.match({"x": "k"}) == ["b"]
        reader.close()


@pytest.mark.parametrize("readonly", [True, False])
def test_opening_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readonly: bool) -> None:
    left = tmp_path / "left"
    with begin(tmp_path / "b") as m:
        goes_on(m)
        with monkeypatch.context() as patch:
            patch.setattr(Book, "_finish_erasing", lambda self: shutil.copytree(self.path, left))
            m.erase("a")
        ids = m.ids()
    assert care.check(left) == []
    with earmark.open(left, readonly=readonly) as again:
        assert again.ids() == ids
        assert [again.as_of(number).ids() for number in (1, 2, 3, 5)] == [[], ["kept"], ["kept"], ids]
    assert care.check(left) == []
