"""`a IS NOT NULL`, added before anything told the type of `a`, made a table that could be saved but not opened."""

from __future__ import annotations

from pathlib import Path

from earmark import Matcher


def test_it_opens(tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.add("any", "a IS NOT NULL")
    matcher.add("some", "a > 1.5e0")
    matcher.save(tmp_path / "t")
    assert Matcher.load(tmp_path / "t").match({"a": 2.0}) == ["any", "some"]
    other = Matcher()
    other.add_many(matcher.to_arrow())
    assert other.match({"a": 1.0}) == ["any"]
