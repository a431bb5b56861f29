"""Who lives where in an audit that is spread over homes: nobody who covers a resident is missing, whatever the tree."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cover.worlds import FULL, World, world

from earmark.cover.homes import CONSTRAINED, HomeTree, learned, replicated, residents
from earmark.engine.covers import LOWER, UPPER
from earmark.flat.arrays import I64, frozen
from earmark.segment.arrays import SegmentArrays
from earmark.spark.hygiene.auditing import COVERED, DUPLICATE, EVERYTHING, NEVER, audit_home
from earmark.workload.rectangles import boxes, table_of

ATTRIBUTES = 3


def findings(table: SegmentArrays, tree: HomeTree) -> dict[str, dict[int, int]]:
    """All findings of all homes: kind -> slot -> other."""
    made: dict[str, dict[int, int]] = {}
    for home in range(tree.homes):
        for found in audit_home(table, residents(table, tree, home), ATTRIBUTES):
            mine = made.setdefault(found.finding, {})
            assert not mine.keys() & set(found.slots.tolist())
            mine.update(zip(found.slots.tolist(), found.others.tolist(), strict=True))
    return made


def any_tree(random: Random, homes: int) -> HomeTree:
    """A tree that nobody learned from anything."""
    children, leaves = [[-1, -1] for _ in range(homes - 1)], [(-1, 0)]
    for node in range(homes - 1):
        parent, hand = leaves.pop(random.randrange(len(leaves)))
        if parent >= 0:
            children[parent][hand] = node
        leaves += [(node, 0), (node, 1)]
    for home, (parent, hand) in enumerate(leaves):
        if parent >= 0:
            children[parent][hand] = ~home
    rows = range(homes - 1)
    pairs = np.array(children, np.int32).reshape(-1, 2)
    return HomeTree(
        frozen(np.array([random.randrange(ATTRIBUTES) for _ in rows], np.int32)),
        frozen(np.array([random.choice((LOWER, UPPER, CONSTRAINED)) for _ in rows], np.int32)),
        frozen(np.array([random.randint(-9, 9) for _ in rows], np.int64)),
        frozen(pairs[:, 0].copy()),
        frozen(pairs[:, 1].copy()),
    )


def check(made: World, tree: HomeTree) -> None:
    """Everything an audit says, from the definition of covering and all events of the world."""
    slots = range(len(made.clauses))
    found = findings(made.table(), tree)
    age = sorted(slots, key=made.sequence.__getitem__)
    assert found[NEVER].keys() == {slot for slot in slots if not any(made.bits[slot])}
    rest = [slot for slot in age if any(made.bits[slot])]
    leader = {
        slot: next(other for other in rest if made.contains(other, slot) and made.contains(slot, other))
        for slot in rest
    }
    assert found[DUPLICATE] == {slot: first for slot, first in leader.items() if first != slot}
    kept = {slot for slot in rest if leader[slot] == slot}
    covered = {slot for slot in kept if made.covering(slot, kept)}
    assert found[COVERED].keys() == covered
    for slot, other in found[COVERED].items():
        assert made.covers(other, slot)
        assert other in kept - covered
    assert found[EVERYTHING].keys() == {slot for slot in rest if FULL in made.bits[slot]}


@given(st.integers(0, 10**6), st.integers(1, 9))
def test_any_tree_against_every_event(seed: int, homes: int) -> None:
    made = world(seed, 40)
    check(made, any_tree(Random(seed), homes))


@pytest.mark.parametrize("homes", [1, 2, 7, 40])
def test_a_learned_tree_against_every_event(homes: int) -> None:
    made = world(homes, 90)
    tree = learned(made.table(), homes)
    assert tree.homes <= homes
    check(made, tree)


def everyone(table: SegmentArrays, tree: HomeTree) -> list[I64]:
    return [residents(table, tree, home) for home in range(tree.homes)]


def test_homes_are_even_and_have_few_guests() -> None:
    table = table_of(*boxes(6_000, 3, 0.2))
    tree = learned(table, 16)
    own = everyone(table, tree)
    assert sorted(np.concatenate(own).tolist()) == list(range(6_000))
    assert len(own) == 16
    assert max(map(len, own)) < 5 * min(map(len, own))
    present = sum(len(replicated(table, members, 3)) for members in own)
    assert present < 8 * 6_000


def test_what_cannot_be_split_stays_in_one_home() -> None:
    same = np.tile(np.array([[3, 4, 5]]), (500, 1))
    tree = learned(table_of(same, same + 2), 8)
    assert tree.homes == 1
    assert learned(table_of(same[:0], same[:0]), 8).homes == 1


def test_the_same_table_gives_the_same_tree() -> None:
    table = table_of(*boxes(3_000, 3, 0.5))
    for one, other in zip(learned(table, 9), learned(table, 9), strict=True):
        np.testing.assert_array_equal(one, other)
