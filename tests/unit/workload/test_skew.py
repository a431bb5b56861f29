"""The α–β rule: shares, sizes, borders, and the same numbers every time."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from earmark.errors import EarmarkError
from earmark.workload.skew import GRIDS, LARGE, MODERATE, RULES, Grid, Rule, skew
from earmark.workload.standard import Workload

PINNED = {
    ("90-10", "moderate"): "cdc9be1f68ba7bbd7a30406d791253348524486fcc40aeb0a73fea20eca183e9",
    ("90-1", "large"): "6dcb89b4d39467c6ebf22d47f7185db8a86a2544bf16590b5d963fe9f80dc178",
}


def checksum(workload: Workload) -> str:
    digest = hashlib.sha256()
    for column in workload[:5]:
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize(("rule", "grid"), PINNED)
def test_the_same_numbers_every_time(rule: str, grid: str) -> None:
    assert checksum(skew(rule, 1_000, grid, events=100)) == PINNED[rule, grid]


def test_the_areas_are_the_paper_s() -> None:
    assert MODERATE.width * MODERATE.height == 60_000
    assert LARGE.width * LARGE.height == 3_000_000
    assert set(GRIDS) == {"moderate", "large"}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("grid", GRIDS)
def test_shares_and_sizes(name: str, grid: str) -> None:
    rule, side = RULES[name], np.array(GRIDS[grid])
    made = skew(name, 20_000, grid, events=20_000)
    for corner in (made.sub_lo, made.event_value):
        assert (corner >= 0).all()
        assert (corner < side).all()
        away = np.abs(corner + 0.5 - side / 2)
        hot = (away <= side * np.sqrt(rule.beta) / 2 + 1).all(axis=1).mean()
        assert abs(hot - (rule.alpha + (1 - rule.alpha) * rule.beta)) < 0.02
    cut = made.sub_hi == side - 1
    span = made.sub_hi - made.sub_lo
    for axis, widest in enumerate((40, 20)):
        inner = span[~cut[:, axis], axis]
        assert inner.min() == 1
        assert inner.max() == widest
        assert abs(inner.mean() - (widest + 1) / 2) < 0.5
    assert (made.sub_hi < side).all()


def test_fewer_are_a_prefix_of_more() -> None:
    few, many = skew("90-10", 500), skew("90-10", 1_000)
    assert (many.head(500).sub_lo == few.sub_lo).all()
    assert (many.head(500).sub_hi == few.sub_hi).all()
    assert (many.event_value == few.event_value).all()
    assert not (skew("90-10", 500, seed=1).sub_lo == few.sub_lo).all()


def test_rules_and_grids_of_one_s_own() -> None:
    made = skew(Rule(1.0, 0.25), 300, Grid(8, 4), widest=(2, 1), events=300)
    assert made.event_value.min(axis=0).tolist() == [2, 1]
    assert made.event_value.max(axis=0).tolist() == [5, 2]
    assert (made.sub_hi - made.sub_lo).max(axis=0).tolist() == [2, 1]
    assert made.domain == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "80-20"}, "name of a rule, one of uniform, 90-10, 90-1, got '80-20'"),
        ({"grid": "huge"}, "name of a grid, .*, got 'huge'"),
        ({"rule": Rule(2, 0.5)}, "expected α from 0 to 1"),
        ({"rule": Rule(0.5, 0)}, "β above 0"),
        ({"subscriptions": 0}, "at least 1"),
        ({"widest": (0, 3)}, "at least 1"),
    ],
)
def test_what_makes_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EarmarkError, match=message):
        skew(**options)
