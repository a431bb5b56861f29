"""The interval tree: both ways of sorting its runs, and what a node is."""

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
from earmark.index.interval_tree import IntervalTree
from earmark.index.scored.arrays import DEPTH

OPTIONS: list[dict[str, Any]] = [{}, {"leaf": 0}, {"sort": "endpoint", "leaf": 2}, {"intersect": True}]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_answers_on_random_tables(options: dict[str, Any], seed: int) -> None:
    made = random_made(0 + seed)
    assert_answers(made, IntervalTree.build(table_arrays(made), **options))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_getnext_gives_each_interval_once_and_best_first(options: dict[str, Any]) -> None:
    for seed, (domain, longest, levels) in enumerate(((1000, 60, 10**6), (40, 10, 3), (10**12, 10**11, 50), (5, 2, 1))):
        table = random_intervals(seed, 60 if PLAIN else 400, domain, longest, levels)
        index = IntervalTree.build(table, **options)
        index.check()
        random = Random(seed)
        for _ in range(10):
            lo = random.choice([random.randrange(domain + longest), int(table.lo[3]), int(table.hi[5])])
            for hi in (lo, min(lo + random.randrange(domain), GREATEST), GREATEST):
                relaxed = options.get("modes") == "relaxed"
                assert list(index.stabbed(0, lo, hi, relaxed)) == naive_stabbed(table, lo, hi)


def test_getnext_resumes() -> None:
    iterator = IntervalTree.build(scored_intervals(PAPER)).stabbed(0, 80)
    assert [iterator.getnext() for _ in range(7)] == [(1, 9.0), (3, 7.0), (6, 4.0), (7, 3.0), (9, 1.0), None, None]


def test_arrays_that_were_saved_are_taken_back() -> None:
    made = random_made(5)
    built = IntervalTree.build(table_arrays(made))
    saved = {name: array.copy() for name, array in built.arrays._asdict().items()}
    assert_answers(made, IntervalTree.restore(table_arrays(made), saved))


def test_an_unknown_sort_gets_a_sentence() -> None:
    with pytest.raises(EarmarkError, match="sort is 'score' or 'endpoint'"):
        IntervalTree.build(scored_intervals(PAPER), sort="left")


def test_equal_endpoints_all_over() -> None:
    table = scored_intervals([(5, 5)] * 500)
    index = IntervalTree.build(table, leaf=0)
    index.check()
    assert [slot for slot, _ in index.stabbed(0, 5)] == list(range(500))
    assert list(index.stabbed(0, 4)) == []


@pytest.mark.parametrize("sort", ["score", "endpoint"])
def test_check_names_what_is_broken(sort: str) -> None:
    index = IntervalTree.build(scored_intervals([(i, i + 40) for i in range(200)]), sort=sort, leaf=2)
    arrays = index.arrays

    def broken(name: str, change: Any) -> None:
        array = getattr(arrays, name).copy()
        change(array)
        index._set(arrays._replace(**{name: array}))

    for name, change, message in (
        ("node_key", lambda a: a.__setitem__(0, 10**6), "stab|wrong side"),
        ("node_score", lambda a: a.__setitem__(0, 10**6), "best score"),
        ("lo", lambda a: a.__setitem__(0, -7), "does not hold|stab|wrong side"),
        ("node", lambda a: a.__setitem__(0, 10**6), "a node is out of range"),
        ("ref", lambda a: a.__setitem__(0, 10**6), "names a slot"),
        ("block_fill", lambda a: a.__setitem__(0, 200), "a block is out of range"),
        ("info", lambda a: a.__setitem__(DEPTH, 1), "deeper than it says"),
    ):
        broken(name, change)
        with pytest.raises(AssertionError, match=message):
            index.check()
    index._set(arrays)
    index.check()
