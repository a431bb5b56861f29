"""The segment tree: its answers, its parts, and what it costs."""

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

from earmark.index.segment_tree import SegmentTree

OPTIONS: list[dict[str, Any]] = [{}, {"modes": "relaxed"}, {"intersect": True}]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_answers_on_random_tables(options: dict[str, Any], seed: int) -> None:
    made = random_made(100 + seed)
    assert_answers(made, SegmentTree.build(table_arrays(made), **options))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_getnext_gives_each_interval_once_and_best_first(options: dict[str, Any]) -> None:
    for seed, (domain, longest, levels) in enumerate(((1000, 60, 10**6), (40, 10, 3), (10**12, 10**11, 50), (5, 2, 1))):
        table = random_intervals(seed, 60 if PLAIN else 400, domain, longest, levels)
        index = SegmentTree.build(table, **options)
        index.check()
        random = Random(seed)
        for _ in range(10):
            lo = random.choice([random.randrange(domain + longest), int(table.lo[3]), int(table.hi[5])])
            for hi in (lo, min(lo + random.randrange(domain), GREATEST), GREATEST):
                relaxed = options.get("modes") == "relaxed"
                assert list(index.stabbed(0, lo, hi, relaxed)) == naive_stabbed(table, lo, hi)


def test_getnext_resumes() -> None:
    iterator = SegmentTree.build(scored_intervals(PAPER)).stabbed(0, 80)
    assert [iterator.getnext() for _ in range(7)] == [(1, 9.0), (3, 7.0), (6, 4.0), (7, 3.0), (9, 1.0), None, None]


def test_arrays_that_were_saved_are_taken_back() -> None:
    made = random_made(5)
    built = SegmentTree.build(table_arrays(made))
    saved = {name: array.copy() for name, array in built.arrays._asdict().items()}
    assert_answers(made, SegmentTree.restore(table_arrays(made), saved))


def test_an_interval_is_stored_at_few_nodes() -> None:
    index = SegmentTree.build(scored_intervals([(i, i + 100) for i in range(0, 1000, 3)]))
    assert 334 < index.references <= 334 * 2 * 10
    index.check()


def test_check_names_what_is_broken() -> None:
    index = SegmentTree.build(scored_intervals(PAPER))
    arrays = index.arrays
    for name, place, value, message in (
        ("part", 0, 99, "names an entry that is not there"),
        ("part_start", 1, 10**6, "descend|another length"),
        ("cut", 3, -(10**6), "inside its interval|make it up"),
        ("part_best", 1, 99, "the best of a node is not there"),
    ):
        array = getattr(arrays, name).copy()
        array[place] = value
        index._set(arrays._replace(**{name: array}))
        with pytest.raises(AssertionError, match=message):
            index.check()
