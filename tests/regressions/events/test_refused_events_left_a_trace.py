"""A batch of events that was refused had taught an attribute its type; later conditions were keyed by it, and lost."""

from __future__ import annotations

from pathlib import Path

from earmark import Matcher


def test_a_condition_outlives_strange_events(tmp_path: Path) -> None:
    m = Matcher()
    m.add("n", "a IS NULL")
    m.match_many([{"a": "x"}, {"a": 5}])
    m.add("eq", "a = 7")
    assert m.match({"a": 100}) == []
    m.save(tmp_path / "book")
    for other in (m, Matcher.load(tmp_path / "book")):
        other.compact()
        other.check()
        assert [other.match({"a": value}) for value in (100, 7, None)] == [[], ["eq"], ["n"]]
