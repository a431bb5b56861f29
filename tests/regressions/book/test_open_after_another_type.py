"""What accepts every value was stored as the domain of the type of the moment: after another type, books could not be
loaded, imports gave wrong answers, and equal rules were no duplicates."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from earmark import Matcher
from earmark.cover import subsumed

TYPES = {
    "number": ("a = 5", 5),
    "date": ("a = DATE'2020-01-01'", "2020-01-01"),
    "boolean": ("a = TRUE", True),
    "string": ("a = 'k'", "k"),
    "timestamp": ("a = TIMESTAMP'2020-01-01 00:00:00'", "2020-01-01 00:00:00"),
}


@pytest.mark.parametrize("second", TYPES)
@pytest.mark.parametrize("first", TYPES)
def test_books_come_back(first: str, second: str, tmp_path: Path) -> None:
    m = Matcher("scan")
    m.add("t", TYPES[first][0])
    m.add("p", "a IS NOT NULL")
    m.remove("t")
    other = Matcher("scan")
    other.add("d", TYPES[second][0])
    other.add_many(m.to_arrow())
    m.add("d", TYPES[second][0])
    m.save(tmp_path / "book")
    imported = Matcher("scan")
    imported.add_many(m.to_arrow())
    for one in (m, Matcher.load(tmp_path / "book"), pickle.loads(pickle.dumps(m)), imported):
        assert one.match({"a": TYPES[second][1]}) == ["p", "d"]
        one.check()
    assert other.match({"a": TYPES[second][1]}) == ["d", "p"]


def test_verdicts_do_not_depend_on_the_past() -> None:
    m = Matcher("scan")
    m.add("p", "a <= 5 OR a > 5")
    m.add("q", "a IS NOT NULL")
    assert m.audit().duplicates == (("p", "q"),)
    assert subsumed(m, "q").verdict.value == "covered"
    m = Matcher("scan")
    m.add("t", "a = TRUE")
    m.add("p", "a IS NOT NULL")
    m.remove("t")
    m.add("q", "a IS NOT NULL")
    assert m.covered_by("q") == ["p"]


def test_dead_bounds_of_another_type_are_left_alone(tmp_path: Path) -> None:
    """Relabelling strings translated the bounds of a removed rule on numbers, too."""
    m = Matcher("scan")
    m.add("keep", "z = 1")
    m.add("d2", "s > 7")
    m.remove("d2")
    m.add("k", "s = 'k'")
    low, high = 0, 2**64 - 1
    for i in range(45):
        middle = (low + high) // 2
        m.add(f"i{i}", "s = '{}'".format("".join(chr(97 + (middle >> 4 * k & 15)) for k in range(15, -1, -1))))
        low, high = (middle, high) if i % 2 else (low, middle)
    m.check()
    m.save(tmp_path / "book")
    assert m.match({"s": "k"}) == ["k"]
