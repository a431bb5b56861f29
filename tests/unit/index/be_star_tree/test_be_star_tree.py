"""BE*-Tree and BE-Tree against a plain Python loop; options, growth, counters, stored arrays."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.index.asked import (
    PLAIN,
    assert_alone,
    assert_answers,
    assert_refuses,
    eligible,
    output_without_jit,
)
from tests.unit.made import (
    Constraint,
    Event,
    Made,
    Maker,
    Subscription,
    Value,
    event_arrays,
    matching,
    table_arrays,
)

from earmark import index
from earmark.errors import EarmarkError
from earmark.flat import bits
from earmark.index.be_star_tree import BEStarTree
from earmark.index.be_star_tree.arrays import (
    CLAUSES,
    LIVE_BUCKETS,
    LIVE_PNODES,
    TreeArrays,
)
from earmark.index.be_star_tree.be_tree import BETree
from earmark.index.scan import Scan
from earmark.segment.combine import combination

SEEDS = range(2) if PLAIN else range(12)
SLOTS = 30 if PLAIN else 150
kinds = pytest.mark.parametrize("kind", [BEStarTree, BETree])


def options(kind: type[BEStarTree], seed: int) -> dict[str, object]:
    """Every option of a kind in turn."""
    both = {
        "capacity": (2, 5, 20, None)[seed % 4],
        "ranking": ("popularity", "histogram")[seed // 2 % 2],
        "bulk": seed % 3 != 1,
    }
    boxes = {
        "split": ("exhaustive", "approximate")[seed % 2],
        "alpha": (0.1, 0.0, 0.5)[seed % 3],
        "beta": (4.0, 1.0)[seed % 2],
        "extension": (0.0, 3.0)[seed // 3 % 2],
    }
    return both if kind.rigid else both | boxes


@kinds
@pytest.mark.parametrize("seed", SEEDS)
def test_answers(kind: type[BEStarTree], seed: int) -> None:
    made = Maker(seed).made(SLOTS, 12)
    tree = kind.build(table_arrays(made), **options(kind, seed))  # type: ignore[arg-type]
    tree.check()
    assert_answers(made, tree, ((1, False), (7, False), (3, True), (10**6, True)))
    for k in (1, 7, 10**6):
        assert_alone(made, tree, 12, k)


@kinds
def test_is_an_index(kind: type[BEStarTree]) -> None:
    made = Maker(1).made(10, 1)
    tree = kind.build(table_arrays(made))
    assert tree.is_updatable
    assert tree.is_adaptive
    assert tree.nbytes > 0
    assert {"be_star_tree", "be_tree"} <= set(index.names())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"alpha": 0.6}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"beta": 0.5}, "beta"),
        ({"beta": float("inf")}, "beta"),
        ({"capacity": 0}, "capacity"),
        ({"capacity": 1.5}, "capacity"),
        ({"capacity": True}, "capacity"),
        ({"split": "best"}, "split to be 'exhaustive' or 'approximate'"),
        ({"ranking": 3}, "ranking"),
        ({"extension": -1}, "extension"),
    ],
)
def test_bad_options_get_a_sentence(given: dict[str, object], message: str) -> None:
    with pytest.raises(EarmarkError, match=message):
        BEStarTree.build(table_arrays(Made([], [])), **given)  # type: ignore[arg-type]


def test_bad_arguments_get_a_sentence() -> None:
    made = Maker(1).made(3, 1)
    tree, events = BEStarTree.build(table_arrays(made)), event_arrays(made, made.events)
    assert_refuses(tree, made)
    with pytest.raises(EarmarkError, match="expected slots from 0 to 2"):
        tree.insert(table_arrays(made), np.array([3], np.int32))
    with pytest.raises(EarmarkError, match="expected a window of at least 1 event"):
        tree.adapt(events, 0)


def ranges(boxes: list[tuple[int, int]], attr: int = 0) -> Made:
    return Made([Subscription([{attr: Constraint([box])}], sequence=i) for i, box in enumerate(boxes)], [])


ORDERS = {
    "ascending": [(i, i + 2) for i in range(300)],
    "descending": [(-i, 2 - i) for i in range(300)],
    "nested": [(-i, i) for i in range(300)],
    "from without": [(i - 300, 300 - i) for i in range(300)],
    "equal": [(3, 5)] * 300,
    "point and line": [(-(2**63), 2**63 - 1) if i % 2 else (i, i) for i in range(300)],
}


@kinds
@pytest.mark.parametrize("order", ORDERS)
def test_hard_orders(kind: type[BEStarTree], order: str) -> None:
    """One attribute, inserted in the order that unbalances trees, then taken out from either end."""
    boxes = ORDERS[order][: 60 if PLAIN else 300]
    made = ranges(boxes)
    table = table_arrays(made)
    tree = kind.build(table, capacity=4, bulk=False)
    events: list[Event] = [{0: Value(v, v)} for v in (-299, -7, 0, 4, 150, 301)] + [{0: Value(2, 9)}, {}]
    alive = np.ones(len(boxes), bool)
    for gone in ([], [0, 1, 2], range(10, len(boxes), 2), range(len(boxes) - 9, len(boxes)), range(len(boxes))):
        tree.remove(np.array(gone, np.int32))
        alive[list(gone)] = False
        tree.check()
        for e, event in enumerate(events):
            found = tree.match(event_arrays(made, events), bits.all_set(len(boxes)), e).tolist()
            assert found == [i for i, s in enumerate(made.subscriptions) if alive[i] and _holds(s, event)]
    assert tree.arrays.head[LIVE_BUCKETS] == 2


def _holds(subscription: Subscription, event: Event) -> bool:
    return all(constraint.holds(event.get(0)) for constraint in subscription.clauses[0].values())


def test_a_sorted_order_does_not_make_a_list() -> None:
    made = ranges([(10 * i, 10 * i + 3) for i in range(200 if PLAIN else 3000)])
    tree = BEStarTree.build(table_arrays(made), capacity=4, bulk=False)
    events = event_arrays(made, [{0: Value(5, 5)}])
    tree.match(events, bits.all_set(len(made.subscriptions)))
    assert tree.work.nodes < 90


@kinds
def test_an_index_that_was_copied_stays_as_it_was(kind: type[BEStarTree]) -> None:
    made = Maker(4).made(60, 6)
    table, events = table_arrays(made), event_arrays(made, made.events)
    tree = kind.build(table, capacity=3)
    before = [array.copy() for array in tree.arrays]
    other = tree.copy()
    other.remove(np.arange(50, dtype=np.int32))
    other.adapt(events)
    assert all(np.array_equal(a, b) for a, b in zip(tree.arrays, before, strict=True))
    assert tree.match(events, eligible(made)).tolist() == matching(made, made.events[0])


@kinds
def test_nothing_leaks(kind: type[BEStarTree]) -> None:
    """Rounds of removing and inserting the same: arrays stop growing, and an emptied tree is empty."""
    rounds = 3 if PLAIN else 40
    made = Maker(8).made(20 if PLAIN else 200, 0)
    table = table_arrays(made)
    slots = np.arange(len(made.subscriptions), dtype=np.int32)
    tree = kind.build(table, capacity=4)
    rng = np.random.default_rng(2)
    sizes = []
    for _ in range(rounds):
        chosen = rng.permutation(slots)[: len(slots) // 2]
        tree.remove(chosen)
        tree.insert(table, chosen)
        sizes.append(tree.nbytes)
    tree.check()
    assert sizes[-1] <= 1.5 * sizes[len(sizes) // 2]
    tree.remove(slots)
    head = tree.arrays.head
    assert (head[CLAUSES], head[LIVE_BUCKETS], head[LIVE_PNODES]) == (0, 2, 0)
    tree.check()
    tree.insert(table, slots)
    tree.check()


@pytest.mark.slow
def test_a_million_inserts_and_removes() -> None:
    random = np.random.default_rng(5)
    made = ranges([(int(v), int(v) + 9) for v in random.integers(0, 10**6, 2000)])
    table = table_arrays(made)
    tree = BEStarTree.build(table)
    most = 0
    for i in range(500):
        chosen = random.permutation(2000).astype(np.int32)[:1000]
        tree.remove(chosen)
        tree.insert(table, chosen)
        if i == 100:
            most = tree.nbytes
    tree.check()
    assert tree.nbytes <= 1.5 * most
    tree.remove(np.arange(2000, dtype=np.int32))
    assert tree.arrays.head[LIVE_BUCKETS] == 2


def test_inserting_twice_is_inserting_once() -> None:
    made = Maker(3).made(30, 3)
    table = table_arrays(made)
    tree = BEStarTree.build(table, capacity=3)
    tree.insert(table, np.arange(30, dtype=np.int32))
    tree.check()
    tree.remove(np.array([1, 1, 2], np.int32))
    tree.remove(np.array([1], np.int32))
    tree.check()


def test_counters() -> None:
    made = ranges([(i, i + 5) for i in range(100)])
    made.subscriptions += [Subscription([{1: Constraint([(0, 0)])}], sequence=100 + i) for i in range(50)]
    tree = BEStarTree.build(table_arrays(made), capacity=4)
    events, everyone = event_arrays(made, [{0: Value(50, 50)}]), bits.all_set(150)
    assert len(tree.match(events, everyone)) == 6
    work = tree.work
    assert work.matched == 6
    assert 6 <= work.candidates < 30
    assert work.compared >= work.candidates
    assert 1 < work.nodes < 40
    tree.top_k(events, 1, everyone)
    assert tree.work.pruned > 0
    assert tree.work.scored < 6


def test_equal_scores_are_left_out_by_sequence() -> None:
    """All scores are 1: the best is the first, and the others need not be looked at."""
    made = ranges([(0, i) for i in range(400)])
    tree = BEStarTree.build(table_arrays(made), capacity=8)
    events, everyone = event_arrays(made, [{0: Value(0, 0)}]), bits.all_set(400)
    assert tree.top_k(events, 3, everyone)[0].tolist() == [0, 1, 2]
    assert tree.work.scored < 200


# --- adapting --------------------------------------------------------------------------------------------------


@kinds
def test_adapting_changes_no_answer(kind: type[BEStarTree]) -> None:
    for seed in SEEDS:
        made = Maker(seed).made(SLOTS, 12)
        table, events = table_arrays(made), event_arrays(made, made.events)
        tree = kind.build(table, capacity=3, bulk=seed % 2 == 0)
        adapted = tree.adapt(events)
        tree.check()
        assert adapted.events == 12
        assert 0 <= adapted.probability <= 1
        pointers, slots = tree.match_many(events, bits.all_set(SLOTS))
        wanted = Scan.build(table).match_many(events, bits.all_set(SLOTS))
        assert (pointers.tolist(), slots.tolist()) == (wanted[0].tolist(), wanted[1].tolist())


def test_a_p_node_whose_rank_falls_is_recycled() -> None:
    """All clauses ask for `0 >= 0`, which every event meets: evaluated in vain for all of them, it gains nothing."""
    made = Made(
        [Subscription([{0: Constraint([(0, 2**62)]), i + 1: Constraint([(7, 7)])}], sequence=i) for i in range(40)],
        [{0: Value(5, 5), **{i + 1: Value(6 + (i == e), 6 + (i == e)) for i in range(40)}} for e in range(40)],
    )
    tree = BEStarTree.build(table_arrays(made), capacity=8)
    events, everyone = event_arrays(made, made.events), bits.all_set(40)
    assert tree.arrays.head[LIVE_PNODES] == 1
    assert tree.adapt(events).recycled == 40
    tree.check()
    assert tree.arrays.head[LIVE_PNODES] == 0
    assert tree.arrays.rate[0] == 1.0
    assert tree.match_many(events, everyone)[1].tolist() == list(range(40))


def test_what_grew_in_a_bad_order_is_clustered_anew() -> None:
    made = ranges([(10 * i, 10 * i + 3) for i in range(100 if PLAIN else 2000)])
    table, everyone = table_arrays(made), bits.all_set(len(made.subscriptions))
    made.events = [{0: Value(v, v)} for v in range(0, 1000, 10)]
    events = event_arrays(made, made.events)
    grown, built = BEStarTree.build(table, capacity=4, bulk=False), BEStarTree.build(table, capacity=4)
    assert PLAIN or grown.adapt(events).clustered == len(made.subscriptions)  # a short one was, while it grew
    grown.check()
    for tree in (grown, built):
        tree.match_many(events, everyone)
    assert grown.work.nodes <= (2.0 if PLAIN else 1.1) * built.work.nodes


def test_capacity_follows_the_matching_probability() -> None:
    made = ranges([(0, 99 if i < 40 else 0) for i in range(100)])
    table = table_arrays(made)
    tree, fixed = BEStarTree.build(table), BEStarTree.build(table, capacity=5)
    assert tree.capacity == 16 * 5
    few, some, many = ([{0: Value(v, v)}] * 10 for v in (200, 99, 0))
    assert tree.adapt(event_arrays(made, few)).capacity == 16 * 5
    assert tree.adapt(event_arrays(made, many)).probability == 1.0
    assert tree.capacity == 16 * 160
    assert tree.adapt(event_arrays(made, some)).capacity == 16 * 160
    mixed = few * 9 + some
    assert tree.adapt(event_arrays(made, mixed), window=100).capacity == 16 * 20
    assert fixed.adapt(event_arrays(made, many)).capacity == 5
    tree.check()
    assert tree.adapt(event_arrays(made, [])).events == 0


def test_siblings_stay_apart_by_the_extension_of_events() -> None:
    """Footnote 4: a box nearer to both siblings than events are long lies above them."""
    made = ranges([(v, v + 1) for v in range(0, 400, 4)])
    tree = BEStarTree.build(table_arrays(made), capacity=4)
    events = event_arrays(made, [{0: Value(v, v + 10)} for v in range(0, 380, 5)])
    tree.adapt(events)
    assert tree.arrays.apart[0] == 10
    fresh = BEStarTree.build(table_arrays(made), capacity=4, extension=10)
    fresh.check()
    everyone = bits.all_set(100)
    wanted = Scan.build(table_arrays(made)).match_many(events, everyone)
    for one in (tree, fresh):
        assert [a.tolist() for a in one.match_many(events, everyone)] == [a.tolist() for a in wanted]


# --- scores other than the sum ---------------------------------------------------------------------------------


def test_another_score() -> None:
    """The k best by the greatest single term, bounded by the greatest terms of nodes."""
    by_max = combination("max")
    for seed in range(1 if PLAIN else 6):
        made = Maker(seed).made(SLOTS, 6)
        made.weighted = made.event_weighted = True
        made.scored = False
        tree = BEStarTree.build(table_arrays(made), capacity=4)
        events = event_arrays(made, made.events)
        pointers, slots, scores = tree.top_k_many(events, 5, eligible(made), combination=by_max)
        for e, event in enumerate(made.events):
            wanted = []
            for slot, s in enumerate(made.subscriptions):
                terms = [
                    max([0.0] + [c.weight * event[a].weight for a, c in clause.items() if a in event])
                    for clause in s.clauses
                    if all(c.holds(event.get(a)) for a, c in clause.items())
                ]
                if made.eligible[slot] and terms:
                    wanted.append((-max(terms), s.sequence, slot))
            got = zip(slots[pointers[e] : pointers[e + 1]].tolist(), scores[pointers[e] : pointers[e + 1]], strict=True)
            assert list(got) == [(slot, -negative) for negative, _, slot in sorted(wanted)[:5]]


# --- stored arrays ---------------------------------------------------------------------------------------------


@kinds
def test_restoring(kind: type[BEStarTree]) -> None:
    made = Maker(5).made(80, 8)
    table, events = table_arrays(made), event_arrays(made, made.events)
    tree = kind.build(table, capacity=4)
    stored = index.stored(tree)
    again = kind.restore(table, stored)
    assert [a.tolist() for a in again.match_many(events, eligible(made))] == [
        a.tolist() for a in tree.match_many(events, eligible(made))
    ]
    again.remove(np.arange(40, dtype=np.int32))
    again.check()
    tree.check()
    with pytest.raises(AssertionError, match="another kind of tree"):
        (BEStarTree if kind is BETree else BETree).restore(table, stored)
    with pytest.raises(AssertionError, match="expected the arrays"):
        kind.restore(table, {})


def test_damaged_arrays_are_refused() -> None:
    """Whatever number is changed: an AssertionError, or a tree that answers; never a crash."""
    made = Maker(6).made(40, 6)
    table, events = table_arrays(made), event_arrays(made, made.events)
    stored = index.stored(BEStarTree.build(table, capacity=3))
    random = np.random.default_rng(1)
    refused = 0
    for _ in range(20 if PLAIN else 400):
        name = random.choice([n for n in TreeArrays._fields if len(stored[n])])
        broken = {n: array.copy() for n, array in stored.items()}
        if random.random() < 0.1:
            broken[name] = broken[name][: random.integers(len(broken[name]))]
        else:
            place = random.integers(len(broken[name]))
            with np.errstate(over="ignore", invalid="ignore"):
                number = random.choice([-2, -1, 0, 1, 3, 77, 2**30])
                broken[name][place] = np.array(number).astype(broken[name].dtype)
        try:
            tree = BEStarTree.restore(table, broken)
        except AssertionError:
            refused += 1
            continue
        tree.match_many(events, eligible(made))
        tree.top_k_many(events, 3, eligible(made), True)
        tree.insert(table, np.arange(40, dtype=np.int32))
        tree.remove(np.arange(40, dtype=np.int32))
    assert refused > 5


def test_check_names_what_is_broken() -> None:
    made = ranges([(i, i + 3) for i in range(60)])
    table = table_arrays(made)
    stored = index.stored(BEStarTree.build(table, capacity=4))
    for name, place, value, message in (
        ("box", 4 * 2, -5, "bounding box"),
        ("sign", 0, 0, "signature"),
        ("where", 0, -1, "recorded"),
        ("top", 4 * 2 + 1, 9.0, "bound on scores"),
        ("word", 1, 10**6, "record"),
        ("link", 8 * 2 + 1, 10**6, "leads nowhere"),
    ):
        broken = {n: array.copy() for n, array in stored.items()}
        broken[name][place] = value
        with pytest.raises(AssertionError, match=message):
            BEStarTree.restore(table, broken)


def test_weights_that_come_late() -> None:
    """A table without weights has no maxima to keep; they are made when the first weight comes."""
    made = ranges([(0, 9)] * 30)
    tree = BEStarTree.build(table_arrays(made), capacity=4)
    assert len(tree.arrays.peak) == 0
    made.subscriptions += [Subscription([{1: Constraint([(0, 9)], weight=3.5)}], sequence=99)]
    made.weighted = True
    tree.insert(table_arrays(made), np.array([30], np.int32))
    tree.check()
    events = event_arrays(made, [{0: Value(1, 1), 1: Value(1, 1)}])
    assert tree.top_k(events, 2, bits.all_set(31))[0].tolist() == [30, 0]


@pytest.mark.skipif(PLAIN, reason="this is the run without the JIT")
@pytest.mark.slow
def test_the_same_without_the_jit() -> None:
    output_without_jit(__file__, only="not slow")
