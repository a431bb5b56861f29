"""The worked examples, lemmas and theorems of ranked publish/subscribe (ranked-pubsub), as golden values.

The figures are drawings; the ten intervals here are the one set that satisfies everything the text says of them
(smaller number = better score). Intervals are closed: two that touch in a point intersect.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.unit.index.ranked.scored_cases import (
    PAPER,
    PLAIN,
    STRUCTURES,
    naive_stabbed,
    point,
    random_intervals,
    scored_intervals,
)
from tests.unit.made import Constraint, Made, Subscription, Value, event_arrays, table_arrays

from earmark.flat import bits
from earmark.flat.arrays import I64, frozen
from earmark.index.ranked.arrays import BLOCKS, EMPTY, FIRST_BLOCK, LEFT, NODE, RIGHT, SIZE
from earmark.index.ranked.base import ScoredIndex
from earmark.index.ranked.ir_tree import IRTree
from earmark.index.ranked.sopt_r_tree import (
    EDGES_EACH,
    NOBODY,
    SoptRTree,
    arrangement,
    cells,
    constraint_graph,
    find_edges,
    no_blocks,
)
from earmark.index.ranked.trees import IntervalTree, RTree, SegmentTree
from earmark.segment.arrays import SegmentArrays

LO, HI = (np.array(column, np.int64) for column in zip(*PAPER, strict=True))
ENDPOINTS = [0, 10, 30, 45, 55, 65, 75, 90, 100]


def visible_blocks(lo: I64, hi: I64) -> list[tuple[int, int, int]]:
    """The visible blocks of intervals in score order that have an owner: (first key, last key, rank)."""
    cut, first, last = cells(lo, hi)
    bits, begin, owner = no_blocks(len(cut))
    edges = np.empty(EDGES_EACH * len(lo), np.int32)
    find_edges(first, last, bits, begin, owner, edges, edges.copy())
    seen = np.unpackbits(bits[: begin[1]].view(np.uint8), bitorder="little")[: len(cut)]
    starts = np.flatnonzero(seen)
    ends = np.append(starts[1:], len(cut))
    return [
        (int(cut[a]), int(cut[b]) - 1, int(owner[a]))
        for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
        if owner[a] != NOBODY and b < len(cut)
    ]


def numbers(slots: Any) -> list[int]:
    """Slots as the paper numbers its intervals."""
    return [int(slot) + 1 for slot in slots]


def run_of(index: ScoredIndex, node: int, copy: int = 0) -> list[int]:
    """The intervals of a node, in the order of its run."""
    arrays, row = index.arrays, node * NODE
    first = arrays.node[row + FIRST_BLOCK] + copy * arrays.node[row + BLOCKS]
    found: list[int] = []
    for block in range(first, first + arrays.node[row + BLOCKS]):
        start = arrays.block_start[block]
        found += numbers(arrays.ref[start : start + arrays.block_fill[block]])
    return found


def rank(index: ScoredIndex, key: int, k: int) -> list[int]:
    made = Made([], [point(key)])
    events = event_arrays(made, made.events)
    return numbers(index.top_k(events, k, bits.all_set(len(index._table.sequence)))[0])


def test_the_endpoints_are_the_nine_of_the_text() -> None:
    assert sorted({end for pair in PAPER for end in pair}) == ENDPOINTS


def test_example_1_interval_tree() -> None:
    """The sets are the paper's; its medians 50, 20 and 80 lie between the endpoints that are the medians here."""
    index = IntervalTree.build(scored_intervals(PAPER), leaf=0)
    assert len(index.arrays.node_key) == 3
    left, right = index.arrays.node[LEFT], index.arrays.node[RIGHT]
    assert [run_of(index, node) for node in (0, left, right)] == [[1, 3, 10], [5, 6, 9], [2, 4, 7, 8]]
    assert index.arrays.node_key[[0, left, right]].tolist() == [55, 30, 90]
    for key, stabbed in ((50, {1, 3, 10}), (20, {5, 6, 9, 10}), (80, {2, 4, 7, 8, 10})):
        assert {slot for slot, (lo, hi) in enumerate(PAPER, 1) if lo <= key <= hi} == stabbed


def test_example_1_endpoint_sorted_lists() -> None:
    index = IntervalTree.build(scored_intervals(PAPER), leaf=0, sort="endpoint")
    by_left, by_right = run_of(index, 0), run_of(index, 0, 1)
    assert by_left == [10, 1, 3]
    assert set(by_right[1:]) == {1, 3}  # both end at 55
    assert by_right[0] == 10


def test_example_2_segment_tree() -> None:
    """Interval 9 is in two nodes, [10, 30) and [30, 45]; 75 < q < 90 stabs {10, 2, 7, 4, 8}."""
    index = SegmentTree.build(scored_intervals(PAPER))
    arrays = index.arrays
    size = int(arrays.lists[SIZE])
    entry = numbers(arrays.ref).index(9)
    nodes = [
        node
        for node in range(1, 2 * size)
        if entry in arrays.part[arrays.part_start[node] : arrays.part_start[node + 1]]
    ]
    pieces = []
    for node in nodes:
        level = node.bit_length() - 1
        width = size >> level
        first = node * width - size
        pieces.append((int(arrays.cut[first]), int(arrays.cut[first + width]) - 1))
    assert sorted(pieces)[0][0] == 10
    assert sorted(pieces)[-1][1] == 45
    assert all(b == c - 1 for (_, b), (c, _) in pairwise(sorted(pieces)))
    for key in (76, 80, 89):
        assert set(numbers(index.match(*_asked(key)))) == {10, 2, 7, 4, 8}


def _asked(key: int) -> tuple[Any, Any]:
    made = Made([], [point(key)])
    return event_arrays(made, made.events), bits.all_set(10)


def test_example_3_unscored_r_tree() -> None:
    """The grouping of Figure 3 is not printed; by left ends, 35 visits a leaf in which one of four is stabbed."""
    index = RTree.build(scored_intervals(PAPER), branching=4, scored=False)
    assert sorted(numbers(index.match(*_asked(35)))) == [1, 9, 10]
    assert index.visits[:2].tolist() == [2, 1]
    assert sorted(numbers(index.arrays.ref[4:8])) == [1, 3, 4, 8]


def test_figure_4_the_scored_r_tree_visits_every_node_for_90() -> None:
    index = RTree.build(scored_intervals(PAPER), branching=4)
    assert rank(index, 90, 10) == [2, 4, 7, 8, 10]
    assert index.visits[:2].tolist() == [3, 1]
    extents = [(int(index.arrays.lo[i]), int(index.arrays.hi[i])) for i in range(10, 13)]
    assert extents == [(30, 90), (0, 100), (0, 100)]


def test_example_4_constraint_graph() -> None:
    """With closed intervals there are 14 edges; (1, 5) and (3, 9) are those of intervals that only touch."""
    above, below = constraint_graph(LO, HI)
    edges = set(zip(numbers(above), numbers(below), strict=True))
    assert edges == {
        (1, 3), (1, 5), (1, 9), (2, 4), (3, 9), (3, 10), (4, 7), (4, 8), (5, 6), (6, 9), (6, 10), (7, 8), (8, 10),
        (9, 10),
    }  # fmt: skip
    assert (1, 10) not in edges
    half_open = constraint_graph(LO, HI - 1)
    assert set(zip(*map(numbers, half_open), strict=True)) == edges - {(1, 5), (3, 9)}


def test_example_5_visible_blocks() -> None:
    """Of {1..7}: 6 is seen in [0, 30], 1 in what is left up to 45, 3 up to 55, 4 from 65 to 75, 7 to 100."""
    blocks = visible_blocks(LO[:7], HI[:7])
    assert [(lo, hi, owner + 1) for lo, hi, owner in blocks] == [
        (0, 30, 6), (31, 44, 1), (45, 55, 3), (65, 74, 4), (75, 100, 7),
    ]  # fmt: skip
    seen_8 = {end for lo, hi, _ in visible_blocks(LO[:8], HI[:8]) for end in (lo, hi)}
    seen_10 = {end for lo, hi, _ in visible_blocks(LO, HI) for end in (lo, hi)}
    assert 30 in seen_8
    assert 30 not in seen_10


def test_figure_5_arrangement() -> None:
    assert numbers(arrangement(LO, HI)) == [1, 5, 6, 3, 9, 2, 4, 7, 8, 10]
    index = SoptRTree.build(scored_intervals(PAPER), branching=4)
    assert numbers(index.arrays.ref[:10]) == [1, 5, 6, 3, 9, 2, 4, 7, 8, 10]
    assert rank(index, 90, 3) == [2, 4, 7]
    assert rank(index, 30, 10) == [1, 5, 6, 9, 10]


@pytest.mark.parametrize("name", sorted(STRUCTURES))
def test_all_give_the_same_order(name: str) -> None:
    table = scored_intervals(PAPER)
    index = STRUCTURES[name].build(table)
    for key in range(-1, 102):
        assert list(index.stabbed(0, key)) == naive_stabbed(table, key, key)


# --- lemmas and theorems ---------------------------------------------------------------------------------------


def adversarial(kind: str, n: int) -> SegmentArrays:
    """Sets that make trouble: stairs, combs under a roof, nested ones, disjoint ones in shuffled score order."""
    at = np.arange(n)
    random = np.random.default_rng(1)
    if kind == "stairs":
        pairs = [(int(i), int(i) + n // 2) for i in at]
    elif kind == "comb":
        pairs = [(0, 10 * n) if i % 16 == 15 else (10 * int(i), 10 * int(i) + 4) for i in at]
    elif kind == "nested":
        pairs = [(int(i), 2 * n - int(i)) for i in at]
    elif kind == "shuffled":
        pairs = [(10 * int(i), 10 * int(i) + 4) for i in random.permutation(n)]
    else:
        lo = random.integers(0, 4 * n, n)
        pairs = list(zip(lo.tolist(), (lo + random.zipf(1.3, n).clip(1, n)).tolist(), strict=True))
    return scored_intervals(pairs)


KINDS = ("stairs", "comb", "nested", "shuffled", "zipf")
N = 200 if PLAIN else 3000


@pytest.mark.parametrize("kind", KINDS)
def test_lemma_3_4_at_most_three_edges_an_interval(kind: str) -> None:
    table = adversarial(kind, N)
    above, _ = constraint_graph(table.lo, table.hi)
    assert len(above) <= 3 * N


@pytest.mark.parametrize("branching", [2, 4, 16])
@pytest.mark.parametrize("kind", KINDS)
def test_theorem_3_2_at_most_2k_nodes_a_level(kind: str, branching: int) -> None:
    table = adversarial(kind, N)
    index = SoptRTree.build(table, branching=branching)
    top = int(table.hi.max())
    for k in (1, 3, 20):
        for key in np.linspace(0, top, 12 if PLAIN else 60).astype(int).tolist():
            answer = rank(index, key, k)
            assert len(answer) == min(k, len(naive_stabbed(table, key, key)))
            assert index.visits.max() <= 2 * k


def test_theorem_3_2_on_random_sets() -> None:
    for seed in range(2 if PLAIN else 8):
        table = random_intervals(seed, N, 10 ** (2 + seed), 10 ** (1 + seed), 10**6)
        index = SoptRTree.build(table, branching=4)
        for key in np.random.default_rng(seed).integers(0, 10 ** (2 + seed), 30).tolist():
            for k in (1, 5):
                rank(index, key, k)
                assert index.visits.max() <= 2 * k


@pytest.mark.parametrize("kind", KINDS)
def test_lemma_3_1_no_holes(kind: str) -> None:
    """A block of an IR-tree that a search enters, below a key, holds an interval that is stabbed."""
    index = IRTree.build(adversarial(kind, N), branching=4, leaf=0)
    arrays = index.arrays
    for node in range(len(arrays.node_key)):
        row = node * NODE
        if arrays.node[row + FIRST_BLOCK] == EMPTY:
            continue
        start = arrays.block_start[arrays.node[row + FIRST_BLOCK]]
        fill = arrays.block_fill[arrays.node[row + FIRST_BLOCK]]
        assert (arrays.lo[start : start + fill] <= arrays.node_key[node]).all()
        assert (arrays.node_key[node] <= arrays.hi[start : start + fill]).all()
    index.check()


@pytest.mark.parametrize("branching", [2, 8, 32])
def test_theorem_3_1_space(branching: int) -> None:
    """In entries: at most 1 + 2 / (b - 1) times those of the score-sorted interval tree."""
    table = random_intervals(0, N, 100, 50, 1000)
    plain = IntervalTree.build(table, leaf=0)
    index = IRTree.build(table, branching=branching, leaf=0)
    assert len(index.arrays.score) <= (1 + 2 / (branching - 1)) * len(plain.arrays.score)


def test_table_2_a_segment_tree_stores_ten_times_the_references() -> None:
    n = 300 if PLAIN else 20_000
    random = np.random.default_rng(2)
    lo = random.integers(0, 1 << 30, n)
    table = scored_intervals([(0, 0)] * n)
    table = table._replace(lo=frozen(lo), hi=frozen(lo + random.integers(0, 1 << 29, n)))
    segment, others = SegmentTree.build(table), [IntervalTree.build(table), IRTree.build(table), SoptRTree.build(table)]
    assert all(one.references == n for one in others)
    assert segment.references >= (5 if PLAIN else 10) * n


# --- section 1 -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(STRUCTURES))
def test_relaxed_means_at_least_one_dimension(name: str) -> None:
    """Section 1's definition, not the sentence of section 4 that asks for each dimension."""
    made = Made([], [{0: Value(5, 5), 1: Value(50, 50)}, {0: Value(5, 5)}], weighted=True)
    made.subscriptions = [
        Subscription([{0: Constraint([(0, 9)], weight=0.4), 1: Constraint([(0, 9)], weight=0.9)}], sequence=0),
        Subscription([{0: Constraint([(0, 9)], weight=0.1), 1: Constraint([(40, 60)], weight=0.5)}], sequence=1),
        Subscription([{0: Constraint([(7, 9)], weight=9.0), 1: Constraint([(0, 9)], weight=9.0)}], sequence=2),
    ]
    index = STRUCTURES[name].build(table_arrays(made))
    pointers, slots, scores = index.top_k_many(event_arrays(made, made.events), 5, bits.all_set(3), True)
    assert pointers.tolist() == [0, 2, 4]
    assert slots.tolist() == [1, 0, 0, 1]
    assert scores.tolist() == [0.6, 0.4, 0.4, 0.1]


def in_dimensions(d: int, n: int) -> tuple[SegmentArrays, Any]:
    random = np.random.default_rng(d)
    subscriptions = []
    for sequence in range(n):
        clause = {}
        for attr in range(d):
            lo = int(random.integers(0, 100))
            clause[attr] = Constraint([(lo, lo + int(random.integers(0, 40)))], weight=float(random.random()))
        subscriptions.append(Subscription([clause], 0.0, sequence))
    events = [{attr: Value(int(v), int(v)) for attr, v in enumerate(row)} for row in random.integers(0, 120, (15, d))]
    made = Made(subscriptions, events, weighted=True)
    return table_arrays(made), event_arrays(made, events)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("name", sorted(STRUCTURES))
def test_every_index_agrees_with_the_scan_in_d_dimensions(name: str, d: int) -> None:
    from earmark.index.scan import Scan

    n = 40 if PLAIN else 800
    table, events = in_dimensions(d, n)
    index, scan, all_of_them = STRUCTURES[name].build(table), Scan.build(table), bits.all_set(n)
    for relaxed in (False, True):
        for got, wanted in zip(
            index.top_k_many(events, 7, all_of_them, relaxed),
            scan.top_k_many(events, 7, all_of_them, relaxed),
            strict=True,
        ):
            assert np.array_equal(got, wanted)
    for got, wanted in zip(index.match_many(events, all_of_them), scan.match_many(events, all_of_them), strict=True):
        assert np.array_equal(got, wanted)


@pytest.mark.skipif(PLAIN, reason="needs many intervals")
def test_the_threshold_algorithm_stops_early() -> None:
    table, events = in_dimensions(2, 20_000)
    index = SoptRTree.build(table)
    index.top_k_many(events, 5, bits.all_set(20_000), True)
    stabbed = 0
    for e in range(15):
        for i in range(events.start[e], events.start[e + 1]):
            mine = table.attr == events.attr[i]
            stabbed += int(((table.lo <= events.lo[i]) & (events.lo[i] <= table.hi))[mine].sum())
    assert index.work.candidates < stabbed / 4


def test_exact_matching_by_intersection_needs_no_more_than_k_matches() -> None:
    """The iterators of both dimensions in the order of the whole score; a slot counts when both have given it."""
    table, events = in_dimensions(2, 60 if PLAIN else 2000)
    n = len(table.sequence)
    routed, intersected = SoptRTree.build(table), SoptRTree.build(table, intersect=True)
    for k in (1, 10):
        for a, b in zip(
            routed.top_k_many(events, k, bits.all_set(n)),
            intersected.top_k_many(events, k, bits.all_set(n)),
            strict=True,
        ):
            assert np.array_equal(a, b)
        assert intersected.work.matched <= k * 15
        assert routed.work.matched <= k * 15


def test_arrays_are_those_of_the_drawing() -> None:
    """`ranked/arrays.py` draws the example with branching 2; scores there are 11 - number."""
    arrays = IRTree.build(scored_intervals(PAPER), branching=2, leaf=0).arrays
    assert arrays.node_key.tolist() == [55, 90, 30]
    assert arrays.node[: 2 * NODE].tolist() == [2, 1, 2, 1, 1, -1, -1, 5, 1, 1]
    assert arrays.node_score[:4].tolist() == [10, 10, 9, 9]
    assert arrays.block_start[:6].tolist() == [0, 2, 3, 5, 7, 9]
    assert arrays.block_fill.tolist() == [2, 1, 2, 2, 2, 2, 2, 1, 2]
    leaves = [numbers(arrays.ref[arrays.block_start[b] :][: arrays.block_fill[b]]) for b in (0, 1, 3, 4, 6, 7)]
    assert leaves == [[1, 3], [10], [2, 4], [7, 8], [5, 6], [9]]
    inner = [int(arrays.block_start[b]) + i for b in (2, 5, 8) for i in (0, 1)]
    drawn = [(int(arrays.lo[i]), int(arrays.hi[i]), int(arrays.score[i])) for i in inner]
    assert drawn == [(30, 55, 10), (0, 100, 1), (65, 90, 9), (65, 100, 4), (0, 30, 6), (10, 45, 2)]
