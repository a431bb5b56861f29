"""A bucket of one value cannot be split: halving it gave a left half as large as the whole, again and again."""

from __future__ import annotations

import pytest
from tests.unit.made import GREATEST, LEAST, Constraint, Made, Subscription, Value, event_arrays, table_arrays

from earmark.flat import bits
from earmark.index.be_star_tree import BEStarTree
from earmark.index.be_star_tree.be_tree import BETree


@pytest.mark.parametrize("kind", [BEStarTree, BETree])
@pytest.mark.parametrize("key", [5, LEAST, GREATEST])
@pytest.mark.parametrize("bulk", [True, False])
def test_equal_points(kind: type[BEStarTree], key: int, bulk: bool) -> None:
    made = Made([Subscription([{0: Constraint([(key, key)])}], sequence=i) for i in range(30)], [{0: Value(key, key)}])
    tree = kind.build(table_arrays(made), capacity=2, bulk=bulk)
    tree.check()
    assert len(tree.match(event_arrays(made, made.events), bits.all_set(30))) == 30
