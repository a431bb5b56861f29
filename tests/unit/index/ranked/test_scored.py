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
    random_intervals,
    random_made,
    scored_intervals,
)
from tests.unit.made import GREATEST, table_arrays

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
                relaxed = options.get("modes") == "relaxed"
                assert list(index.stabbed(0, lo, hi, relaxed)) == naive_stabbed(table, lo, hi)


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
