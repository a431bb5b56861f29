"""Far ends of the key line: two lengths were rounded to the same number, and a clause went to the wrong sibling."""

from __future__ import annotations

import pytest
from tests.unit.made import GREATEST, LEAST, Constraint, Made, Subscription, table_arrays

from earmark.index.be_star_tree import BEStarTree


@pytest.mark.parametrize("capacity", [1, 2])
def test_siblings_at_the_ends_of_the_key_line(capacity: int) -> None:
    keys = [GREATEST - 5, GREATEST - 4, GREATEST - 1, GREATEST, LEAST, LEAST + 1, 0, LEAST]
    made = Made([Subscription([{0: Constraint([(key, key)])}], sequence=i) for i, key in enumerate(keys)], [])
    BEStarTree.build(table_arrays(made), capacity=capacity, beta=1e30, bulk=False).check()
