"""Whether a reader follows the journal was decided when it opened: one of a saved book never saw another change."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import earmark
from earmark import EarmarkError


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    m = earmark.Matcher("scan")
    m.add("a", "x > 1")
    m.save(tmp_path / "b")
    return tmp_path / "b"


def test_it_follows_the_journal(saved: Path) -> None:
    reader = earmark.open(saved, readonly=True, follow=False)
    with pytest.raises(EarmarkError, match="has no journal"):
        reader.history("a")
    with earmark.open(saved) as m:
        assert reader.refresh() == 1
        m.add("b", "x > 2")
        assert reader.refresh() == reader.last_change == 2
        assert reader.ids() == ["a", "b"] and reader["b"].condition == "x > 2"
        assert [one.kind for one in reader.history("a")] == ["import"]
        m.remove("a")
        assert reader.refresh() == 3
    assert reader.ids() == ["b"]
    reader.check()
    reader.close()


def test_by_itself(saved: Path) -> None:
    with earmark.open(saved, readonly=True) as reader, earmark.open(saved) as m:
        m.add("b", "x > 2")
        until = time.monotonic() + 20
        while "b" not in reader and time.monotonic() < until:
            time.sleep(0.02)
        assert reader.ids() == ["a", "b"]


def test_a_saved_book_is_followed_by_its_versions(saved: Path) -> None:
    reader = earmark.open(saved, readonly=True, follow=False)
    m = earmark.Matcher.load(saved)
    m.add("b", "x > 2")
    m.save(saved)
    assert reader.refresh() == 2 and reader.ids() == ["a", "b"]
