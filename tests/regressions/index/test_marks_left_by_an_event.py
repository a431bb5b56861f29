"""As many clauses as slots, yet slots of two clauses (and of none): what one event marked hid them from the next."""

from __future__ import annotations

import numpy as np
from tests.unit.made import Constraint, Made, Subscription, Value, event_arrays, table_arrays

from earmark.flat import bits
from earmark.index.be_star_tree import BEStarTree


def test_marks_left_by_an_event() -> None:
    two = Subscription([{0: Constraint([(0, 9)])}, {1: Constraint([(0, 9)])}], sequence=0)
    none = Subscription([], sequence=1)
    made = Made([two, none], [{0: Value(5, 5)}] * 3)
    tree = BEStarTree.build(table_arrays(made))
    pointers, slots, _ = tree.top_k_many(event_arrays(made, made.events), 1, bits.all_set(2))
    assert pointers.tolist() == [0, 1, 2, 3]
    assert slots.tolist() == [0, 0, 0]
    assert tree.match(event_arrays(made, made.events), np.array([3], np.uint64)).tolist() == [0]
