"""What a BE*-Tree had learned from events was lost when a large batch, or compaction, built it again."""

from __future__ import annotations

import pytest

from earmark import Matcher
from earmark.index.be_star_tree.arrays import CAPACITY, CLAUSES, LEARNED


@pytest.mark.parametrize("capacity", [None, 40])
def test_a_matcher_that_doubles_keeps_what_its_tree_learned(capacity: int | None) -> None:
    m = Matcher("be_star_tree", index_options={} if capacity is None else {"capacity": capacity})
    m.add_many([(i, f"a < {200 + i} AND b = {i % 50}") for i in range(400)])
    m.adapt([{"a": 5, "b": i} for i in range(50)] * 2)
    (before,) = (one.index for one in m._version.segments)
    assert before is not None
    assert before.arrays.head[CAPACITY] == (capacity or 16 * 20)
    m.add_many([(400 + i, f"a < {200 + i} AND b = {i % 50}") for i in range(800)])  # more than half: built from scratch
    (after,) = (one.index for one in m._version.segments)
    assert after is not None and after is not before
    assert after.arrays.head[CLAUSES] == 1200
    assert after.arrays.head[CAPACITY] == before.arrays.head[CAPACITY]
    assert after.arrays.rate.tolist() == before.arrays.rate.tolist()
    assert len(m.match({"a": 5, "b": 7})) == 24
    m.compact()
    (compacted,) = (one.index for one in m._version.segments)
    assert compacted is not None
    assert compacted.arrays.head[LEARNED] == 100
    m.check()
