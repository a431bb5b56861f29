"""An event's fraction turned all integer bounds of a book into floats, inside a read; verdicts had called equal what a
fraction tells apart, and everything that was derived from the keys went stale without a word."""

from __future__ import annotations

import numpy as np
import pytest

from earmark import Matcher
from earmark.cover import builder, subsumed
from earmark.cover.canonical import canonical


def test_nothing_changes_by_reading() -> None:
    m = Matcher()
    m.add_many([(i, f"price BETWEEN {i} AND {i + 5}") for i in range(200)])
    version, arrays = m._version, m._version.whole.arrays
    assert m.match({"price": 5.5}) == [1, 2, 3, 4, 5]
    assert m._version is version and m._version.whole.arrays is arrays


def test_neighbouring_integers_are_no_duplicates() -> None:
    m = Matcher()
    m.add("a", "age >= 18")
    m.add("b", "age > 17")
    assert m.audit().duplicates == ()
    assert m.covered_by("a") == ["b"] and m.covered_by("b") == []
    kept = [one for one in m.ids() if one not in m.audit().redundant]
    assert any(m.explain(one, {"age": 17.5}).matched for one in kept)
    assert subsumed(m, "b").verdict.value != "subsumed"
    declared = Matcher(attributes={"age": "integer"})
    declared.add("a", "age >= 18")
    declared.add("b", "age > 17")
    assert declared.audit().duplicates == (("a", "b"),)


@pytest.mark.parametrize("name", ["kd_tree", "z_curve", "mics", "blocks"])
def test_a_covering_index_refuses_other_keys(name: str) -> None:
    """A write that gives an attribute other keys; an index made before then cannot take more of that table."""
    m = Matcher()
    m.add_many([(i, f"a BETWEEN {i} AND {i + 10}" if i else "a > -5") for i in range(60)])
    before = canonical(m._version.whole)
    index = builder(name)(before)
    m.add(60, "a = 9007199254740993")
    after = canonical(m._version.whole)
    with pytest.raises(Exception, match="changed their keys"):
        index.insert(after, np.array([60], np.int32))
    again = builder(name)(after)
    assert again.covering(5).tolist() == [0]
