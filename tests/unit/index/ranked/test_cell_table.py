"""The cell table: look-ups, and what it leaves to the tree inside it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.index.ranked.scored_cases import (
    PAPER,
    naive_stabbed,
    point,
    random_intervals,
    scored_intervals,
)
from tests.unit.made import Made, event_arrays

from earmark.errors import EarmarkError
from earmark.flat import bits
from earmark.index.ranked.cell_table import CellTable


def looked_up(index: CellTable) -> int:
    """Events that the last call looked up: those leave no visit to a block."""
    return index.work.nodes


def test_a_point_is_looked_up() -> None:
    table = random_intervals(9, 300, 400, 40, 10**6)
    index = CellTable.build(table, best=5)
    keys = np.arange(-3, 450, dtype=np.int64)
    made = Made([], [point(int(key)) for key in keys])
    everything = bits.all_set(300)
    pointers, slots, scores = index.top_k_many(event_arrays(made, made.events), 4, everything)
    assert looked_up(index) == len(keys)
    assert index.visits.sum() == 0
    for e, key in enumerate(keys.tolist()):
        answer = slice(pointers[e], pointers[e + 1])
        assert (
            list(zip(slots[answer].tolist(), scores[answer].tolist(), strict=True))
            == naive_stabbed(table, key, key)[:4]
        )


def test_what_falls_out_is_searched_for() -> None:
    """Of the best K all but one are not eligible, so that the cell does not have k."""
    table = scored_intervals([(0, 10)] * 50)
    index = CellTable.build(table, best=5)
    made = Made([], [point(4), point(11)])
    some = bits.from_slots(np.arange(4, 50), 50)
    pointers, slots, _ = index.top_k_many(event_arrays(made, made.events), 3, some)
    assert pointers.tolist() == [0, 3, 3]
    assert slots.tolist() == [4, 5, 6]


def test_bad_options_get_a_sentence() -> None:
    with pytest.raises(EarmarkError, match="expected best from 1 to 256"):
        CellTable.build(scored_intervals(PAPER), best=0)


def test_check_sees_a_wrong_cell() -> None:
    index = CellTable.build(scored_intervals(PAPER), best=3)
    cell = index.arrays.cell.copy()
    cell[[0, 1]] = cell[[1, 0]]
    index._hold(index._table, index.arrays._replace(cell=cell))
    with pytest.raises(AssertionError, match="a cell does not hold"):
        index.check()
