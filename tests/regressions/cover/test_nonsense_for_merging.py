"""Seeds below 0, budgets that are texts and grids without axes escaped as errors of NumPy, or went through."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from earmark import Matcher
from earmark.cover import merge, summarize
from earmark.errors import EarmarkError


@pytest.fixture
def matcher() -> Matcher:
    m = Matcher(index="scan")
    m.add_many([(1, "x > 3"), (2, "x < 1 AND y = 2")])
    return m


@pytest.mark.parametrize("make", [merge, summarize])
@pytest.mark.parametrize("budget", ["2%", None, True, [0.1], -1, float("nan"), float("inf"), 1j])
def test_budgets(matcher: Matcher, make: Any, budget: Any) -> None:
    with pytest.raises(EarmarkError, match="expected a share of extra traffic as budget"):
        make(matcher, [], budget)


@pytest.mark.parametrize("make", [merge, summarize])
@pytest.mark.parametrize("seed", [-1, "one", 1.5, None, True])
def test_seeds(matcher: Matcher, make: Any, seed: Any) -> None:
    with pytest.raises(EarmarkError, match="an integer of at least 0 for seed"):
        make(matcher, [], 0.1, seed=seed)


@pytest.mark.parametrize("wrong", [0, -1, "3", None, 2.0])
def test_counts(matcher: Matcher, wrong: Any) -> None:
    with pytest.raises(EarmarkError, match="an integer of at least 1 for axes"):
        summarize(matcher, [], 0, axes=wrong)
    with pytest.raises(EarmarkError, match="an integer from 1 to 16 for cell_bits"):
        summarize(matcher, [], 0, cell_bits=wrong)
    with pytest.raises(EarmarkError, match="an integer of at least 1 for pieces"):
        merge(matcher, [], 0, pieces=wrong)


def test_numbers_of_numpy_are_numbers(matcher: Matcher) -> None:
    assert len(merge(matcher, [], np.float32(0.1), seed=np.int64(3))) == 2
    assert len(summarize(matcher, [], np.int64(0), axes=np.int32(1))) > 0
