"""Recycling: what the events show to be badly placed is inserted again, and only that; what was learned is kept."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.index.asked import PLAIN
from tests.unit.made import Constraint, Made, Subscription, Value, event_arrays, table_arrays

from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.flat import bits
from earmark.index.be_star_tree import BEStarTree, adapt
from earmark.index.be_star_tree.arrays import (
    CLAUSES,
    COUNT,
    ENTRIES,
    LEARNED,
    LINK,
    LIVE_PNODES,
    PDIR,
    ROOT,
    UNPACKED,
    WIDTH,
    TreeArrays,
    copied,
)
from earmark.index.be_star_tree.be_tree import BETree
from earmark.index.be_star_tree.change import TreeChange
from earmark.index.scan import Scan
from earmark.workload.shifting import SHIFTS

SIZE, EVENTS = (150, 20) if PLAIN else (8_000, 150)


def work_of(tree: BEStarTree, events: EventArrays) -> int:
    """Nodes visited and clauses verified."""
    tree.match_many(events, bits.all_set(SIZE))
    return tree.work.nodes + tree.work.candidates


@pytest.mark.parametrize("shift", list(SHIFTS))
@pytest.mark.parametrize("kind", [BEStarTree, BETree])
def test_a_shift_of_the_events_is_followed_without_building_again(shift: str, kind: type[BEStarTree]) -> None:
    first, second = SHIFTS[shift](SIZE, 2 * EVENTS, 5)
    table, everyone = first.table(), bits.all_set(SIZE)
    seen, later = (some_events(second.events(), np.arange(i * EVENTS, (i + 1) * EVENTS)) for i in (0, 1))
    before = kind.build(table)
    before.adapt(first.events(), EVENTS)
    after = before.copy()
    adapted = after.adapt(seen)
    after.check()
    assert adapted.clustered == 0
    for got, wanted in zip(
        after.match_many(later, everyone), Scan.build(table).match_many(later, everyone), strict=True
    ):
        assert np.array_equal(got, wanted)
    if PLAIN:
        return
    assert 0 < adapted.recycled < SIZE / 2
    gain = work_of(before, later) / work_of(after, later)
    assert gain > {"carried": 1.3, "hot values": 1.5}.get(shift, 0.97)
    again = after.adapt(seen).recycled
    assert again < max(adapted.recycled / 2, SIZE / 20)  # what gains nothing stays where it is


@pytest.mark.skipif(PLAIN, reason="too few subscriptions for a second pass")
def test_a_second_pass_moves_what_the_first_has_left_badly_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = SHIFTS["carried"](SIZE, 2 * EVENTS, 5)
    seen, later = (some_events(second.events(), np.arange(i * EVENTS, (i + 1) * EVENTS)) for i in (0, 1))
    before = BEStarTree.build(first.table())
    before.adapt(first.events(), EVENTS)
    work, moved = [], []
    for passes in (1, 2):
        monkeypatch.setattr(adapt, "PASSES", passes)
        after = before.copy()
        moved.append(after.adapt(seen).recycled)
        after.check()
        work.append(work_of(after, later))
    assert moved[0] < moved[1] < 1.5 * moved[0]
    assert work[1] < work[0]


def test_an_outlook_says_what_moving_gains_and_changes_nothing() -> None:
    outlooks = {}
    for shift in ("hot values", "profiles"):
        first, second = SHIFTS[shift](SIZE, EVENTS, 5)
        tree = BEStarTree.build(first.table())
        tree.adapt(first.events(), EVENTS)
        same = tree.copy()
        outlooks[shift] = tree.outlook(second.events())
        assert all(np.array_equal(one, other) for one, other in zip(tree._tree, same._tree, strict=True))
        assert 0 <= outlooks[shift].better <= outlooks[shift].lossy <= SIZE
    if not PLAIN:
        hot, profiles = outlooks["hot values"], outlooks["profiles"]
        assert hot.better > 4 * profiles.better
        assert hot.elsewhere < hot.here


def cold_and_hot(slots: int) -> Made:
    """Every event meets attribute 0 of all clauses, and attribute 1 of few."""
    subscriptions = [
        Subscription([{0: Constraint([(0, 100 + i)]), 1: Constraint([(i, i)])}], sequence=i) for i in range(slots)
    ]
    return Made(subscriptions, [{0: Value(5, 5), 1: Value(e, e)} for e in range(16)])


def test_a_new_p_node_takes_what_waited_in_the_root() -> None:
    """Clauses too few for a p-node of their own are in the root's l-node until others make one."""
    made = cold_and_hot(60)
    tree = BEStarTree.build(table_arrays(made), capacity=8)
    made.subscriptions += [Subscription([{1: Constraint([(90 + i, 90 + i)])}], sequence=60 + i) for i in range(7)]
    tree.insert(table_arrays(made), np.arange(60, 67, dtype=np.int32))
    assert tree.arrays.link[ROOT * LINK + COUNT] == 7
    change = TreeChange(copied(tree.arrays), table_arrays(made))
    clauses = np.arange(50, dtype=np.int32)
    assert change.recycle(np.empty(0, np.int64), clauses, np.full(50, 1, np.int32)) == 50
    change.tidy()
    assert change.tree.link[ROOT * LINK + COUNT] == 0
    assert pdir(change.tree) == [0, 1]
    moved = BEStarTree(table_arrays(made), change.tree)
    moved.check()
    events = event_arrays(made, made.events)
    assert moved.match_many(events, bits.all_set(67))[1].tolist() == list(range(16))


def pdir(tree: TreeArrays) -> list[int]:
    """The attributes of the root's p-nodes."""
    first, width = tree.link[ROOT * LINK + PDIR], tree.link[ROOT * LINK + WIDTH]
    return [int(attr) for attr in tree.pdir_attr[first : first + width]]


def test_few_events_move_nothing() -> None:
    data = SHIFTS["hot values"](500, 30, 1)[0]
    tree = BEStarTree.build(data.table(), capacity=8)
    assert tree.adapt(data.events(), 7).recycled == 0
    assert PLAIN or tree.adapt(data.events(), 30).recycled > 0


# --- what was learned outlasts growth --------------------------------------------------------------------------------


def test_a_build_takes_over_what_was_learned() -> None:
    made = cold_and_hot(200)
    table, events = table_arrays(made), event_arrays(made, made.events)
    plain = BEStarTree.build(table)
    assert plain.build_learned(table, plain) is None
    old = plain.copy()
    old.adapt(events)
    new = BEStarTree.build(table_arrays(Made([], [])), extension=3.0).build_learned(table, old)
    assert new is not None
    new.check()
    assert new.arrays.head[LEARNED] == 16
    assert new.arrays.rate.tolist() == old.arrays.rate.tolist()
    assert new.arrays.apart.tolist() == [3.0, 3.0]
    assert BETree.build(table).build_learned(table, old) is None


# --- ranking and packing ---------------------------------------------------------------------------------------------


def test_a_tree_grown_from_empty_ranks_by_histogram() -> None:
    """Attribute 0 is more popular, but says nothing: all its ranges overlap."""
    count = 100 if PLAIN else 400
    made = Made(
        [
            Subscription([{0: Constraint([(0, 900)])} | ({1: Constraint([(i, i)])} if i % 10 else {})], sequence=i)
            for i in range(count)
        ],
        [{0: Value(5, 5), 1: Value(e, e)} for e in range(10)],
    )
    table, nobody = table_arrays(made), table_arrays(Made([], []))
    for ranking, first in (("popularity", 0), ("histogram", 1)):
        tree = BEStarTree.build(nobody, capacity=8, ranking=ranking)
        tree.insert(table, np.arange(count, dtype=np.int32))
        tree.check()
        assert pdir(tree.arrays)[0] == first
        assert len(tree.match_many(event_arrays(made, made.events), bits.all_set(count))[1]) > 0


def test_leaves_are_packed_once_an_eighth_was_inserted() -> None:
    made = Made([Subscription([{0: Constraint([(i, i + 3)])}], sequence=i) for i in range(300)], [])
    table, slots = table_arrays(made), np.arange(300, dtype=np.int32)
    tree = BEStarTree.build(table, capacity=8, bulk=False)
    assert tree.arrays.head[ENTRIES] == tree.arrays.head[CLAUSES] == 300
    tree.remove(slots[:40])
    for slot in slots[:30]:
        tree.insert(table, slots[slot : slot + 1])
    assert tree.arrays.head[UNPACKED] == 30
    tree.insert(table, slots[30:40])
    assert tree.arrays.head[UNPACKED] == 0
    assert tree.arrays.head[ENTRIES] == 300
    assert tree.arrays.head[LIVE_PNODES] == 1
    tree.check()
