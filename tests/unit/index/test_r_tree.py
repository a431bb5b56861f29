"""The scored R-tree, and the one by left ends."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.unit.index.scored_cases import (
    PAPER,
    PLAIN,
    SEEDS,
    assert_answers,
    naive_stabbed,
    random_intervals,
    random_made,
    scored_intervals,
)
from tests.unit.made import GREATEST, table_arrays

from earmark.errors import EarmarkError
from earmark.index.r_tree import RTree

OPTIONS: list[dict[str, Any]] = [{}, {"branching": 2}, {"scored": False, "branching": 4}, {"branching": 64}]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_answers_on_random_tables(options: dict[str, Any], seed: int) -> None:
    made = random_made(200 + seed)
    assert_answers(made, RTree.build(table_arrays(made), **options))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_getnext_gives_each_interval_once_and_best_first(options: dict[str, Any]) -> None:
    for seed, (domain, longest, levels) in enumerate(((1000, 60, 10**6), (40, 10, 3), (10**12, 10**11, 50), (5, 2, 1))):
        table = random_intervals(seed, 60 if PLAIN else 400, domain, longest, levels)
        index = RTree.build(table, **options)
        index.check()
        random = Random(seed)
        for _ in range(10):
            lo = random.choice([random.randrange(domain + longest), int(table.lo[3]), int(table.hi[5])])
            for hi in (lo, min(lo + random.randrange(domain), GREATEST), GREATEST):
                relaxed = options.get("modes") == "relaxed"
                assert list(index.stabbed(0, lo, hi, relaxed)) == naive_stabbed(table, lo, hi)


def test_getnext_resumes() -> None:
    iterator = RTree.build(scored_intervals(PAPER)).stabbed(0, 80)
    assert [iterator.getnext() for _ in range(7)] == [(1, 9.0), (3, 7.0), (6, 4.0), (7, 3.0), (9, 1.0), None, None]


def test_arrays_that_were_saved_are_taken_back() -> None:
    made = random_made(5)
    built = RTree.build(table_arrays(made))
    saved = {name: array.copy() for name, array in built.arrays._asdict().items()}
    assert_answers(made, RTree.restore(table_arrays(made), saved))


@pytest.mark.parametrize("options", [{"branching": 1}, {"branching": 65}])
def test_bad_options_get_a_sentence(options: dict[str, Any]) -> None:
    with pytest.raises(EarmarkError, match="branching is 2 to 64"):
        RTree.build(scored_intervals(PAPER), **options)


def test_space_is_that_of_the_theorem() -> None:
    for branching in (2, 4, 16):
        index = RTree.build(scored_intervals([(i, i) for i in range(1000)]), branching=branching)
        assert len(index.arrays.score) <= 1000 * (1 + 2 / (branching - 1))
