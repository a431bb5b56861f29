"""Perfect merges were missed: those that other merges make possible, and those on a ninth attribute; and a merge
condition that had come to accept everything did not take the others in."""

from __future__ import annotations

import random

import pytest

from earmark import Matcher
from earmark.cover import merge


def conditions(rows: list[tuple[str, str]]) -> list[str]:
    m = Matcher(index="scan", attributes=dict.fromkeys("xyb", "integer"))
    m.add_many(rows)
    made = merge(m, [], 0)
    assert sorted(one for _, _, ids in made.rows() for one in ids) == sorted(one for one, _ in rows)
    return [condition for _, condition, _ in made.rows()]


@pytest.mark.parametrize(("p", "q"), ["xy", "yx"])
def test_merges_that_make_others_possible(p: str, q: str) -> None:
    """B and C become one on q, and only then one with A on p."""
    rows = [("0", "x = -5 AND y = -7")]
    for z in range(0, 500, 10):
        rows += [
            (f"A{z}", f"{p} BETWEEN {z} AND {z + 1} AND {q} BETWEEN {z} AND {z + 1}"),
            (f"B{z}", f"{p} BETWEEN {z + 2} AND {z + 3} AND {q} = {z}"),
            (f"C{z}", f"{p} BETWEEN {z + 2} AND {z + 3} AND {q} = {z + 1}"),
        ]
    assert len(conditions(rows)) == 51


def test_a_ninth_attribute() -> None:
    rows = []
    for g in range(40):
        base = " AND ".join(f"a{i} = {g}" for i in range(8))
        rows += [(f"{g}-{z}", f"{base} AND z = {z * 100 + g}") for z in (1, 5)]
    random.Random(1).shuffle(rows)
    assert len(conditions(rows)) == 40


def test_everything_covers_the_rest() -> None:
    rows = [("1", "a IS NULL"), ("2", "a IS NOT NULL"), ("3", "b = 2"), ("4", "b = 3 OR c = 4")]
    assert conditions(rows) == ["TRUE"]


def test_an_attribute_that_drops_out() -> None:
    """Without a, both agree with the third but for b."""
    rows = [("1", "a IS NULL AND b = 1"), ("2", "a IS NOT NULL AND b = 1"), ("3", "b = 2"), ("4", "b = 1 AND c = 5")]
    assert conditions(rows) == ["b BETWEEN 1 AND 2"]
