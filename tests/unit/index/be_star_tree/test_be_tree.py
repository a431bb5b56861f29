"""What is BE-Tree's own: cells of a halved domain. Its answers are tested with the BE*-Tree's."""

from __future__ import annotations

import numpy as np
from tests.unit.made import GREATEST, LEAST, Constraint, Made, Subscription, Value, event_arrays, table_arrays

from earmark.flat import bits
from earmark.index.be_star_tree import BEStarTree
from earmark.index.be_star_tree.arrays import BOX, HI, LEFT, LEVEL, LINK, LO, MORE, NONE
from earmark.index.be_star_tree.be_tree import BETree
from earmark.index.be_star_tree.nodes import cell_around, middle_of


def on_one(boxes: list[tuple[int, int]]) -> Made:
    return Made([Subscription([{0: Constraint([box])}], sequence=i) for i, box in enumerate(boxes)], [])


def test_the_smallest_cell() -> None:
    for lo, hi, wanted in (
        (3, 12, (0, 15)),
        (5, 5, (5, 5)),
        (7, 8, (0, 15)),
        (-1, 0, (LEAST, GREATEST)),
        (-4, -1, (-4, -1)),
        (LEAST, GREATEST, (LEAST, GREATEST)),
        (GREATEST, GREATEST, (GREATEST, GREATEST)),
    ):
        assert cell_around(lo, hi) == wanted
    assert middle_of(0, 15) == 7
    assert middle_of(LEAST, GREATEST) == -1


def test_cells_are_halves_whatever_lies_in_them() -> None:
    made = on_one([(v, v) for v in (3, 3, 4, 4, 12, 12, 13)])
    tree = BETree.build(table_arrays(made), capacity=2)
    arrays = tree.arrays
    cells = set()
    for b in range(2, len(arrays.link) // LINK):
        low, high = int(arrays.box[b * BOX + LO]), int(arrays.box[b * BOX + HI])
        size = high - low + 1
        assert size & (size - 1) == 0
        assert low % size == 0
        cells.add((low, high))
        for side in range(2):
            child = int(arrays.link[b * LINK + LEFT + side])
            if child != NONE:
                assert low <= arrays.box[child * BOX + LO]
                assert arrays.box[child * BOX + HI] <= high
    assert (0, 15) in cells
    before = arrays.box.copy()
    tree.remove(np.array([0, 4], np.int32))
    live = [b for b in range(2, len(before) // BOX) if tree.arrays.more[b * MORE + LEVEL] > 0]
    assert all(tree.arrays.box[b * BOX + LO] == before[b * BOX + LO] for b in live)
    tree.check()


def test_a_domain_doubles() -> None:
    made = on_one([(v, v) for v in range(6)])
    tree = BETree.build(table_arrays(made), capacity=2, bulk=False)
    made.subscriptions += [
        Subscription([{0: Constraint([box])}], sequence=9) for box in ((900, 950), (-5, 3), (40, 41))
    ]
    tree.insert(table_arrays(made), np.arange(6, 9, dtype=np.int32))
    tree.check()
    events = event_arrays(made, [{0: Value(v, v)} for v in (910, 2, 40, -6)])
    pointers, slots = tree.match_many(events, bits.all_set(9))
    assert slots.tolist() == [6, 2, 7, 8]
    assert pointers.tolist() == [0, 1, 3, 4, 4]


def test_a_narrow_cluster_hangs_on_a_chain_of_cells() -> None:
    """What rigid clustering costs: the same clauses, two clusters far apart, take more nodes to reach."""
    made = on_one([(v, v + 2) for base in (0, 2**40) for v in range(base, base + 60)])
    events = event_arrays(made, [{0: Value(2**40 + 30, 2**40 + 30)}])
    nodes = {}
    for kind in (BEStarTree, BETree):
        tree = kind.build(table_arrays(made), capacity=8)
        assert tree.match(events, bits.all_set(120)).tolist() == [88, 89, 90]
        nodes[kind] = tree.work.nodes
    assert nodes[BETree] > 3 * nodes[BEStarTree]
