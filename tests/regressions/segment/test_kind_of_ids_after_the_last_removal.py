"""Removed integer ids kept texts out, although nothing was left."""

from __future__ import annotations

from earmark import Matcher


def test_texts_after_integers() -> None:
    m = Matcher()
    m.add(1, "a > 0")
    m.remove(1)
    m.add("x", "a > 0")
    assert m.match_many([{"a": 1}])["subscription"].to_pylist() == ["x"]
