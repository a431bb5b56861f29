"""Unconstrained, IS NOT NULL and IS NULL have the same or no bounds, and are three different things in covering."""

from __future__ import annotations

import numpy as np
import pytest

from earmark import Matcher
from earmark.cover import INDEXES, builder
from earmark.cover.canonical import canonical

CONDITIONS = ["b = 1", "b = 1 AND a IS NOT NULL", "b = 1 AND a IS NULL", "b = 1 AND (a > 3 OR a IS NULL)"]


@pytest.mark.parametrize("name", sorted(INDEXES))
def test_three_different_things(name: str) -> None:
    matcher = Matcher()
    matcher.add_many(list(enumerate(CONDITIONS)))
    index = builder(name)(canonical(matcher._version.whole))
    assert index.covering(0).tolist() == []
    assert index.covering(1).tolist() == [0]
    assert sorted(index.covering(2).tolist()) == [0, 3]
    assert index.covering(3).tolist() == [0]
    assert index.covered(0).tolist() == [1, 2, 3]
    assert index.covered(1).tolist() == []


@pytest.mark.parametrize("name", sorted(INDEXES))
def test_never_is_covered_by_everything_and_covers_nothing(name: str) -> None:
    matcher = Matcher()
    matcher.add_many([(0, "a > 3 AND a < 3"), (1, "b = 1"), (2, "FALSE"), (3, "TRUE")])
    index = builder(name)(canonical(matcher._version.whole))
    assert index.covering(0).tolist() == [1, 3]  # not the younger of two that never match
    assert index.covering(2).tolist() == [0, 1, 3]
    assert index.covering(1).tolist() == [3]
    assert index.covering(3).tolist() == []
    assert index.covered(0).tolist() == [2]
    assert len(index.covering(2, 2)) == 2
    assert np.array_equal(index.covered(3), [0, 1, 2])
