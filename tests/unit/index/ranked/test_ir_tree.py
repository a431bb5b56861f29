"""The IR-tree: as the others, and while intervals come, go and change their scores."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.unit.index.asked import PLAIN, assert_answers, output_without_jit
from tests.unit.index.ranked.scored_cases import (
    PAPER,
    SEEDS,
    SLOTS,
    naive_stabbed,
    random_intervals,
    random_made,
    scored_intervals,
)
from tests.unit.made import Made, table_arrays

from earmark.flat.arrays import frozen
from earmark.index.ranked.arrays import DEPTH
from earmark.index.ranked.ir_tree import IRTree

OPTIONS: list[dict[str, Any]] = [{}, {"branching": 2, "leaf": 0}, {"branching": 4, "leaf": 2}]


def part_of(made: Made, count: int) -> Made:
    return Made(
        made.subscriptions[:count], made.events, made.weighted, made.scored, made.event_weighted, made.eligible[:count]
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_insertions_and_removals(options: dict[str, Any], seed: int) -> None:
    made, random = random_made(500 + seed), Random(seed)
    known = random.choice((0, 1, SLOTS // 3))
    index = IRTree.build(table_arrays(part_of(made, known)), **options)
    made.eligible = [True] * SLOTS
    while known < SLOTS:
        gone = np.array(random.sample(range(known), known // 4), np.int32)
        more = min(SLOTS, known + random.choice((1, 10, SLOTS // 3)))
        index = index.copy()
        index.remove(gone)
        for slot in gone.tolist():
            made.eligible[slot] = False
        index.insert(table_arrays(part_of(made, more)), np.arange(known, more, dtype=np.int32))
        known = more
        assert_answers(part_of(made, known), index)
    index.remove(np.arange(SLOTS, dtype=np.int32))
    index.check()
    assert index.references == 0


def test_scores_change_without_a_rebuild() -> None:
    table = random_intervals(3, 60 if PLAIN else 600, 500, 80, 40)
    index = IRTree.build(table, branching=4, leaf=2)
    nodes = len(index.arrays.node_key)
    score = table.score.copy()
    chosen = np.arange(0, len(score), 7, dtype=np.int32)
    score[chosen] = np.random.default_rng(1).integers(-5, 90, len(chosen))
    changed = table._replace(score=frozen(score))
    index.remove(chosen)
    index.insert(changed, chosen)
    index.check()
    assert len(index.arrays.node_key) == nodes
    for key in range(0, 600, 37):
        assert list(index.stabbed(0, key)) == naive_stabbed(changed, key, key)


def test_a_copy_is_another_index() -> None:
    table = random_intervals(4, 50, 100, 20, 9)
    index = IRTree.build(table)
    before = list(index.stabbed(0, 50))
    other = index.copy()
    other.remove(np.array([slot for slot, _ in before], np.int32))
    third = other.copy()
    third.insert(table, np.array([before[0][0]], np.int32))
    assert list(index.stabbed(0, 50)) == before
    assert list(other.stabbed(0, 50)) == []
    assert list(third.stabbed(0, 50)) == before[:1]
    for one in (index, other, third):
        one.check()


@pytest.mark.parametrize("order", ["ascending", "descending", "nested"])
def test_paths_stay_short_whatever_the_order(order: str) -> None:
    n = 120 if PLAIN else 3000
    pairs = [(10 * i, 10 * i + 3) for i in range(n)]
    if order == "descending":
        pairs.reverse()
    if order == "nested":
        pairs = [(i, 10 * n - i) for i in range(n)]
    table = scored_intervals(pairs)
    index = IRTree.build(scored_intervals(pairs[:1], [float(n - 1)]), leaf=1, branching=4)
    index.insert(table, np.arange(1, n, dtype=np.int32))
    index.check()
    assert index.arrays.info[DEPTH] <= 8 + 2 * n.bit_length() + 2
    for lo, _ in pairs[::97]:
        assert list(index.stabbed(0, lo)) == naive_stabbed(table, lo, lo)


def test_what_is_not_there_can_be_removed() -> None:
    index = IRTree.build(scored_intervals(PAPER))
    index.remove(np.array([3, 3, 99], np.int32))
    index.remove(np.array([3], np.int32))
    index.check()
    assert index.references == 9


@pytest.mark.skipif(PLAIN, reason="this is the run without the JIT")
@pytest.mark.slow
def test_the_same_without_the_jit() -> None:
    names = ("scored", "ir_tree", "cell_table", "segment_tree")
    output_without_jit(*(Path(__file__).with_name(f"test_{name}.py") for name in names))
