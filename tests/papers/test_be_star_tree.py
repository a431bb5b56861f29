"""be-star-tree.txt: its definitions, algorithms and tables as worked examples."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from tests.unit.made import GREATEST, LEAST, Constraint, Made, Subscription, Value, event_arrays, table_arrays

import earmark
from earmark.flat import bits
from earmark.index.be_star_tree import CAPACITIES, LEAF_FACTOR, BEStarTree
from earmark.index.be_star_tree.arrays import (
    BOX,
    BUCKETS,
    COUNT,
    HI,
    LEFT,
    LEVEL,
    LINK,
    LO,
    MORE,
    NONE,
    OWN_HI,
    OWN_LO,
    PART,
    PATTR,
    PROOT,
    RIGHT,
    RIM,
    TreeArrays,
)
from earmark.index.be_star_tree.be_tree import BETree
from earmark.index.be_star_tree.settle import find_split

Boxes = list[tuple[int, int]]


def on(attr: int, boxes: Boxes) -> Made:
    return Made([Subscription([{attr: Constraint([box])}], sequence=i) for i, box in enumerate(boxes)], [])


def root_of(tree: TreeArrays, attr: int) -> int:
    """The root bucket of the first p-node on an attribute."""
    rows = tree.pnode.reshape(-1, PART)
    return int(next(row[PROOT] for row in rows if row[PATTR] == attr))


def box(tree: TreeArrays, b: int) -> tuple[int, int]:
    return int(tree.box[b * BOX + LO]), int(tree.box[b * BOX + HI])


def child(tree: TreeArrays, b: int, side: int) -> int:
    return int(tree.link[b * LINK + side])


# --- section III ------------------------------------------------------------------------------------------------


def test_the_advertisement_of_section_1() -> None:
    """0.4 * 0.2 + 0.2 * 0.2 + 0.4 * 0.6."""
    matcher = earmark.Matcher("be_star_tree")
    weights = {"credit_score": 0.4, "num_visits": 0.2, "age": 0.4}
    matcher.add("ad", "credit_score > 650 AND num_visits > 10 AND age BETWEEN 22 AND 36", weights=weights)
    matcher.add("other", "credit_score > 700 AND age BETWEEN 20 AND 30", weights={"credit_score": 0.1, "age": 0.1})
    profile = {"credit_score": 732, "num_visits": 17, "age": 27}
    best = matcher.top_k(profile, 2, weights={"credit_score": 0.2, "num_visits": 0.2, "age": 0.6})
    assert [match.id for match in best] == ["ad", "other"]
    assert best[0].score == pytest.approx(0.36)


@pytest.mark.parametrize(
    ("constraint", "wanted"),
    [
        (Constraint([(LEAST, 6)]), (LEAST, 6)),  # < 7
        (Constraint([(7, 7)]), (7, 7)),
        (Constraint([(LEAST, 6), (8, GREATEST)]), (LEAST, GREATEST)),  # != 7, NOT IN (7)
        (Constraint([(8, GREATEST)]), (8, GREATEST)),
        (Constraint([(2, 2), (5, 5), (9, 9)]), (2, 9)),  # IN (2, 5, 9)
        (Constraint([(3, 5)]), (3, 5)),
    ],
)
def test_table_1(constraint: Constraint, wanted: tuple[int, int]) -> None:
    """A predicate's box places it; what is inside the box and not accepted is verified at the l-node."""
    made = Made([Subscription([{0: constraint}], sequence=i) for i in range(3)], [])
    tree = BEStarTree.build(table_arrays(made), capacity=2)
    assert box(tree.arrays, root_of(tree.arrays, 0)) == wanted
    for value in (-9, 2, 3, 6, 7, 8, 9):
        found = tree.match(event_arrays(made, [{0: Value(value, value)}]), bits.all_set(3))
        assert len(found) == (3 if constraint.holds(Value(value, value)) else 0)


# --- section V-A: splitting ------------------------------------------------------------------------------------


def naive_splits(boxes: Boxes, least: int) -> list[tuple[float, float]]:
    """(overlap, coverage) of every split of the exhaustive algorithm, as printed, that leaves enough on either side."""
    found = []
    for direction in (1, -1):
        turned = boxes if direction == 1 else [(-hi, -lo) for lo, hi in boxes]
        order = sorted(turned, key=lambda b: b[1])
        for count in range(1, len(order)):
            left, rest = order[:count], order[count:]
            end = left[-1][1]
            right, spanning = [b for b in rest if b[0] > end], [b for b in rest if b[0] <= end]
            if min(len(left), len(right)) >= least:
                covered: set[int] = set()
                for part in (left, spanning, right):
                    if part:
                        covered |= set(range(min(b[0] for b in part), max(b[1] for b in part) + 1))
                overlap = max(b[1] for b in spanning) - min(b[0] for b in spanning) + 1 if spanning else 0
                found.append((float(overlap), float(len(covered))))
    return found


def parts(boxes: Boxes, split: tuple[int, int, int, int]) -> tuple[Boxes, Boxes, Boxes]:
    left_end, right_begin, left, right = split
    sides: tuple[Boxes, Boxes, Boxes] = ([], [], [])
    for one in boxes:
        sides[0 if left and one[1] <= left_end else 2 if right and one[0] >= right_begin else 1].append(one)
    return sides


@pytest.mark.parametrize("approximate", [False, True])
def test_splits_repel_and_do_not_overlap(approximate: bool) -> None:
    rng = Random(7)
    for _ in range(120):
        boxes = sorted((lo, lo + rng.randrange(12)) for lo in (rng.randrange(60) for _ in range(rng.randrange(2, 14))))
        lo, hi = (np.array(side, np.int64) for side in zip(*boxes, strict=True))
        split = find_split(lo, hi, 0.1, 0.0, approximate, False, int(lo.min()), int(hi.max()))
        left, spanning, right = parts(boxes, split)
        assert (len(left), len(right)) == split[2:]
        if left and right:
            assert max(b[1] for b in left) < min(b[0] for b in right)
        options = naive_splits(boxes, max(1, -(-len(boxes) // 10)))
        if not approximate and options:
            overlap = max(b[1] for b in spanning) - min(b[0] for b in spanning) + 1 if spanning else 0
            assert overlap == min(options)[0]


def test_data_clustering_finds_the_gap_where_halving_does_not() -> None:
    """Two clusters far apart: the boxes are theirs, and the empty space between them is in neither."""
    made = on(0, [(i, i + 2) for i in range(6)] + [(1000 + i, 1002 + i) for i in range(6)])
    tree = BEStarTree.build(table_arrays(made), capacity=6).arrays
    root = root_of(tree, 0)
    assert box(tree, root) == (0, 1007)
    assert [box(tree, child(tree, root, side)) for side in (LEFT, RIGHT)] == [(0, 7), (1000, 1007)]
    assert tree.link[root * LINK + COUNT] == 0
    rigid = BETree.build(table_arrays(made), capacity=6).arrays
    assert box(rigid, root_of(rigid, 0)) == (0, 1023)


def test_space_clustering_where_data_clustering_fails() -> None:
    """No split leaves alpha on both sides, so the bucket is cut in half: below goes left, above goes right."""
    boxes = [(0, 90), (0, 100)] + [(40 + i, 60 - i) for i in range(8)] + [(96, 99)]
    lo, hi = (np.array(side, np.int64) for side in zip(*boxes, strict=True))
    left_end, right_begin, left, right = find_split(lo, hi, 0.4, 0.0, False, False, 0, 100)
    assert (left_end, right_begin, left, right) == (50, 96, 0, 1)


def test_a_point_event_cuts_through_one_child_at_most() -> None:
    made = on(0, [(v, v + 7) for v in range(0, 600, 2)])
    tree = BEStarTree.build(table_arrays(made), capacity=4).arrays
    for b in range(2, int(tree.head[BUCKETS])):
        left, right = child(tree, b, LEFT), child(tree, b, RIGHT)
        if tree.more[b * MORE + LEVEL] > 0 and NONE not in (left, right):
            assert box(tree, left)[1] < box(tree, right)[0]


def test_nested_boxes_are_at_home_in_the_overlapping_bucket() -> None:
    """All span the middle: the bucket is home to all, and is partitioned by another attribute."""
    made = on(0, [(-i - 1, i + 1) for i in range(12)])
    for i, one in enumerate(made.subscriptions):
        one.clauses[0][1] = Constraint([(i % 2, i % 2)])
    tree = BEStarTree.build(table_arrays(made), capacity=4).arrays
    root = root_of(tree, 0)
    assert child(tree, root, LEFT) == child(tree, root, RIGHT) == NONE
    below = root_of(tree, 1)
    assert tree.more[below * MORE + LEVEL] == 2
    assert {box(tree, child(tree, below, side)) for side in (LEFT, RIGHT)} == {(0, 0), (1, 1)}


# --- bottom-up expansion, inactive dimensions ------------------------------------------------------------------


def test_bottom_up_expansion() -> None:
    """A clause that makes the c-directory more than beta times as long is hosted by a new root above it."""
    made = on(0, [(i, i) for i in range(8)])
    tree = BEStarTree.build(table_arrays(made), capacity=4, beta=4.0)
    old = root_of(tree.arrays, 0)
    assert box(tree.arrays, old) == (0, 7)
    made.subscriptions += [Subscription([{0: Constraint([(9, 30)])}], sequence=90)]  # 31 keys <= 4 x 8
    tree.insert(table_arrays(made), np.array([8], np.int32))
    assert root_of(tree.arrays, 0) == old
    made.subscriptions += [Subscription([{0: Constraint([(500, 900)])}], sequence=91)]
    tree.insert(table_arrays(made), np.array([9], np.int32))
    arrays = tree.arrays
    new = root_of(arrays, 0)
    assert new != old
    assert child(arrays, new, LEFT) == old
    assert box(arrays, new) == (0, 900)
    assert box(arrays, old) == (0, 30)
    assert (arrays.box[new * BOX + OWN_LO], arrays.box[new * BOX + OWN_HI]) == (500, 900)
    tree.check()


def test_a_removal_repairs_the_boundary_on_one_path() -> None:
    """IV-B: a wide expression comes and goes, and no bucket keeps its width, on inactive dimensions either."""
    two = [{0: Constraint([(i % 3, i % 3)]), 1: Constraint([(i, i)])} for i in range(30)]
    made = Made([Subscription([clause], sequence=i) for i, clause in enumerate(two)], [])
    table = table_arrays(made)
    tree = BEStarTree.build(table, capacity=4)
    made.subscriptions += [Subscription([{0: Constraint([(1, 1)]), 1: Constraint([(-900, 900)])}], sequence=99)]
    tree.insert(table_arrays(made), np.array([30], np.int32))
    deep = [b for b in range(2, int(tree.arrays.head[BUCKETS])) if tree.arrays.more[b * MORE + LEVEL] == 2]
    assert deep
    widest = min(box(tree.arrays, b) for b in deep)
    assert all(tree.arrays.rim[tree.arrays.more[b * MORE + RIM]] >= 0 for b in deep)
    tree.remove(np.array([30], np.int32))
    tree.check()
    live = [b for b in range(2, int(tree.arrays.head[BUCKETS])) if tree.arrays.more[b * MORE + LEVEL] > 0]
    assert all(-1 < box(tree.arrays, b)[0] <= box(tree.arrays, b)[1] < 30 for b in live)
    assert widest == (-900, 900)


# --- tables and top-k ------------------------------------------------------------------------------------------


def test_table_2a() -> None:
    assert [size for _, size in CAPACITIES] == [5, 20, 160]
    assert [bound for bound, _ in CAPACITIES[:2]] == [0.01, 0.1]
    made = on(0, [(0, 9)] * 10)
    assert BEStarTree.build(table_arrays(made)).capacity == 5 * LEAF_FACTOR


def test_top_k_visits_the_better_p_node_first_and_prunes_the_other() -> None:
    """Two p-nodes: the bound of the heavy one is reached, so the light one is never entered (Algorithm 6)."""
    heavy = [Subscription([{0: Constraint([(0, 99)], weight=5.0)}], sequence=i) for i in range(40)]
    light = [Subscription([{1: Constraint([(0, 99)], weight=1.0)}], sequence=100 + i) for i in range(40)]
    made = Made(heavy + light, [], weighted=True)
    tree = BEStarTree.build(table_arrays(made), capacity=8)
    events, everyone = event_arrays(made, [{0: Value(5, 5), 1: Value(5, 5)}]), bits.all_set(80)
    slots, scores = tree.top_k(events, 2, everyone)
    assert slots.tolist() == [0, 1]
    assert scores.tolist() == [5.0, 5.0]
    ranked = tree.work
    tree.match(events, everyone)
    assert ranked.compared <= tree.work.compared // 2
    assert ranked.pruned >= 1


def test_event_weights_turn_the_order_round() -> None:
    made = Made(
        [Subscription([{a: Constraint([(0, 9)], weight=float(3 - a))}], sequence=a) for a in (0, 1)],
        [],
        weighted=True,
        event_weighted=True,
    )
    tree = BEStarTree.build(table_arrays(made))
    event = {0: Value(1, 1, 0.1), 1: Value(1, 1, 2.0)}
    slots, scores = tree.top_k(event_arrays(made, [event]), 1, bits.all_set(2))
    assert (slots.tolist(), scores.tolist()) == ([1], [4.0])


def test_a_match_visits_few_buckets() -> None:
    """The shape of Figure 2 at work: far fewer nodes than l-nodes, for every event."""
    rng = Random(3)
    made = on(0, [(v, v + 3) for v in (rng.randrange(10_000) for _ in range(1500))])
    tree = BEStarTree.build(table_arrays(made), capacity=8)
    events = event_arrays(made, [{0: Value(v, v)} for v in range(0, 10_000, 500)])
    pointers, slots = tree.match_many(events, bits.all_set(1500))
    for (a, b), value in zip(pairwise(pointers), range(0, 10_000, 500), strict=True):
        wanted = [i for i, s in enumerate(made.subscriptions) if s.clauses[0][0].holds(Value(value, value))]
        assert slots[a:b].tolist() == wanted
    assert tree.work.nodes / 20 < 30
    assert tree.work.leaves <= tree.work.nodes
