"""What all scored indexes answer alike, with every option: random tables, the running example, arrays taken back."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.unit.index.asked import PLAIN, assert_answers
from tests.unit.index.ranked.scored_cases import (
    PAPER,
    STRUCTURES,
    naive_stabbed,
    point,
    random_intervals,
    random_made,
    scored_intervals,
)
from tests.unit.made import GREATEST, Constraint, Made, Subscription, event_arrays, table_arrays

from earmark.errors import EarmarkError
from earmark.flat import bits
from earmark.index.ranked.trees import RTree

OPTIONS: list[tuple[str, int, list[dict[str, Any]]]] = [
    ("interval_tree", 0, [{}, {"leaf": 0}, {"sort": "endpoint", "leaf": 2}, {"intersect": True}]),
    ("segment_tree", 100, [{}, {"modes": "relaxed"}, {"intersect": True}]),
    ("r_tree", 200, [{}, {"branching": 2}, {"scored": False, "branching": 4}, {"branching": 64}]),
    ("sopt_r_tree", 300, [{}, {"branching": 2}, {"branching": 64}]),
    ("ir_tree", 400, [{}, {"branching": 2, "leaf": 0}, {"branching": 4, "leaf": 2}]),
    ("cell_table", 600, [{}, {"best": 1}, {"best": 3, "branching": 4}]),
]
"""Structure, where its random tables begin, and the options to try."""

every_structure = pytest.mark.parametrize("name", STRUCTURES)
every_option = pytest.mark.parametrize(
    ("name", "base", "options"),
    [pytest.param(name, base, one, id=f"{name}-{one}") for name, base, options in OPTIONS for one in options],
)


def test_every_structure_is_tried() -> None:
    assert {name for name, _, _ in OPTIONS} == set(STRUCTURES)


@every_option
def test_getnext_gives_each_interval_once_and_best_first(name: str, base: int, options: dict[str, Any]) -> None:
    for seed, (domain, longest, levels) in enumerate(((1000, 60, 10**6), (40, 10, 3), (10**12, 10**11, 50), (5, 2, 1))):
        table = random_intervals(seed, 60 if PLAIN else 400, domain, longest, levels)
        index = STRUCTURES[name].build(table, **options)
        index.check()
        random = Random(seed)
        for _ in range(10):
            lo = random.choice([random.randrange(domain + longest), int(table.lo[3]), int(table.hi[5])])
            for hi in (lo, min(lo + random.randrange(domain), GREATEST), GREATEST):
                assert list(index.stabbed(0, lo, hi)) == naive_stabbed(table, lo, hi)


@every_structure
def test_getnext_gives_every_interval_of_an_attribute_whatever_else_a_clause_asks(name: str) -> None:
    """Exact lists have a clause once, so that they alone cannot answer; they say so."""
    made = Made([Subscription([{0: Constraint([(i, 9)]), 1: Constraint([(0, i)])}], 0.0, i) for i in range(9)], [])
    table, wanted = table_arrays(made), list(range(6))
    for options in ({}, {"modes": "relaxed"}, {"modes": "exact", "intersect": True}):
        index = STRUCTURES[name].build(table, **options)
        assert [slot for slot, _ in index.stabbed(0, 5)] == wanted
        assert [slot for slot, _ in index.stabbed(1, 3)] == list(range(3, 9))
    with pytest.raises(EarmarkError, match="intersect=True"):
        STRUCTURES[name].build(table, modes="exact").stabbed(0, 5)


@every_structure
def test_work_counts_leaves_and_what_is_put_aside(name: str) -> None:
    """More answers open more leaves and put less aside; the whole answer puts nothing aside."""
    n = 60 if PLAIN else 2000
    table = random_intervals(7, n, 1000, 400, 10**6)
    index = STRUCTURES[name].build(table, **({"best": 1} if name == "cell_table" else {}))
    events = event_arrays(Made([], []), [point(500)])
    found = len(index.match_many(events, bits.all_set(n))[1])
    assert found > 5
    assert 0 < index.work.leaves <= index.work.nodes
    counted = []
    for k in (2, 5, n):
        index.top_k_many(events, k, bits.all_set(n))
        counted.append(index.work)
    assert 0 < counted[0].leaves <= counted[1].leaves <= counted[2].leaves
    assert counted[0].pruned > 0
    assert counted[1].pruned > 0
    assert counted[2].pruned == 0
    assert counted[2].matched == found


def test_leaves_put_aside_are_counted_where_blocks_wait_by_score() -> None:
    n = 60 if PLAIN else 2000
    index = RTree.build(random_intervals(7, n, 1000, 400, 10**6), branching=4, scored=False)
    index.top_k_many(event_arrays(Made([], []), [point(500)]), 1, bits.all_set(n))
    assert 0 < index.work.pruned_leaves < index.work.pruned


@every_structure
def test_getnext_resumes(name: str) -> None:
    iterator = STRUCTURES[name].build(scored_intervals(PAPER)).stabbed(0, 80)
    assert [iterator.getnext() for _ in range(7)] == [(1, 9.0), (3, 7.0), (6, 4.0), (7, 3.0), (9, 1.0), None, None]


@every_structure
def test_arrays_that_were_saved_are_taken_back(name: str) -> None:
    made = random_made(5)
    built = STRUCTURES[name].build(table_arrays(made))
    saved = {field: array.copy() for field, array in built.arrays._asdict().items()}
    assert_answers(made, STRUCTURES[name].restore(table_arrays(made), saved))
