"""The interval tree: both ways of sorting its runs, and what a node is."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.index.ranked.scored_cases import (
    PAPER,
    scored_intervals,
)

from earmark.errors import EarmarkError
from earmark.index.ranked.arrays import DEPTH
from earmark.index.ranked.trees import IntervalTree


def test_an_unknown_sort_gets_a_sentence() -> None:
    with pytest.raises(EarmarkError, match="expected sort to be"):
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
        index._hold(index._table, arrays._replace(**{name: array}))

    for name, change, message in (
        ("node_key", lambda a: a.__setitem__(0, 10**6), "stab|wrong side"),
        ("node_score", lambda a: a.__setitem__(0, 10**6), "best score"),
        ("lo", lambda a: a.__setitem__(0, -7), "does not hold|stab|wrong side"),
        ("node", lambda a: a.__setitem__(0, 10**6), "a node is out of range"),
        ("ref", lambda a: a.__setitem__(0, 10**6), "refers to a slot"),
        ("block_fill", lambda a: a.__setitem__(0, 200), "a block is out of range"),
        ("info", lambda a: a.__setitem__(DEPTH, 1), "deeper than recorded"),
    ):
        broken(name, change)
        with pytest.raises(AssertionError, match=message):
            index.check()
    index._hold(index._table, arrays)
    index.check()
