"""A clause that accepts NULL on an attribute is never found by it: events that lack the attribute would miss it.

p-nodes are visited only for the attributes of the event. However popular the attribute, such clauses stay above.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tests.unit.made import Constraint, Made, Subscription, Value, event_arrays, table_arrays

from earmark.flat import bits
from earmark.index.be_star_tree import BEStarTree
from earmark.index.be_star_tree.arrays import PART, PATTR, PNODES, ROOT
from earmark.index.be_star_tree.be_tree import BETree


@pytest.mark.parametrize("kind", [BEStarTree, BETree])
@pytest.mark.parametrize("bulk", [True, False])
def test_null_accepting_keys(kind: type[BEStarTree], bulk: bool) -> None:
    either = {0: Constraint([(3, 3)], accepts_null=True), 1: Constraint([(1, 2)])}
    only_null = {0: Constraint([], accepts_null=True)}
    made = Made([Subscription([either if i % 2 else only_null], sequence=i) for i in range(40)], [])
    tree = kind.build(table_arrays(made), capacity=2, bulk=bulk)
    keyed = tree.arrays.pnode[: tree.arrays.head[PNODES] * PART].reshape(-1, PART)[:, PATTR]
    assert set(keyed.tolist()) == {1}
    assert (tree.arrays.where[0:40:2] == ROOT).all()
    events = event_arrays(made, [{1: Value(1, 1)}, {0: Value(3, 3), 1: Value(1, 1)}, {0: Value(4, 4)}, {}])
    pointers, slots = tree.match_many(events, bits.all_set(40))
    evens, odds = list(range(0, 40, 2)), list(range(1, 40, 2))
    answers = [slots[a:b].tolist() for a, b in pairwise(pointers)]
    assert answers == [sorted(evens + odds), odds, [], evens]
    tree.remove(np.arange(40, dtype=np.int32))
    tree.check()
