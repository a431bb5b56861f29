"""The generator of ranked publish/subscribe: Table 1's parameters, and what they do."""

from __future__ import annotations

import numpy as np
import pytest

from earmark.errors import EarmarkError
from earmark.segment.arrays import check_arrays
from earmark.workload.zipf import DOMAIN, Parameters, zipf


def test_the_defaults_are_those_of_table_1() -> None:
    given = Parameters()
    assert given == Parameters(1_000_000, 1_000, 1, 0.75, 10, 100, 1 / 20, 1 / 20, 0.0, 1.0)


def test_the_same_seed_gives_the_same_numbers() -> None:
    a, b, c = (zipf(seed, intervals=50, queries=7, dimensions=3) for seed in (1, 1, 2))
    assert all(np.array_equal(x, y) for x, y in zip(a.table(), b.table(), strict=True))
    assert not np.array_equal(a.sub_weight, c.sub_weight)


@pytest.mark.parametrize("dimensions", [1, 2, 8])
def test_shape(dimensions: int) -> None:
    data = zipf(intervals=300, queries=20, dimensions=dimensions)
    table, events = data.table(), data.events()
    check_arrays(table, dimensions)
    assert len(table.sequence) == 300
    assert len(events.start) == 21
    assert 0 <= table.lo.min() <= table.hi.max() < DOMAIN
    assert 0 <= table.weight.min() <= table.weight.max() < 1
    middle = (table.lo + table.hi) / 2
    inside = (table.lo > 0) & (table.hi < DOMAIN - 1)
    assert np.allclose(1 - (table.hi - table.lo)[inside] / 2 / DOMAIN, table.weight[inside], atol=1e-8)
    assert np.isfinite(middle).all()


def test_skews_do_what_they_say() -> None:
    long, short = (zipf(intervals=3000, skew_length=skew).sub_weight.mean() for skew in (0.0, 2.5))
    assert long < 0.6 < 0.95 < short
    even, uneven = (
        zipf(intervals=3000, skew_across=skew, skew_within=0.0, skew_length=9.0).sub_lo for skew in (0.0, 4.0)
    )
    assert np.std(uneven) < np.std(even)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dimensions": 0}, "dimensions: expected a whole number"),
        ({"parts": 2.5}, "parts: expected a whole number"),
        ({"v_min": 0.5}, "v_min <= v_max"),
        ({"skew_length": -1.0}, "skew_length: expected a number of at least 0"),
    ],
)
def test_bad_parameters_get_a_sentence(change: dict[str, float], message: str) -> None:
    with pytest.raises(EarmarkError, match=message):
        zipf(intervals=10, queries=1) if not change else zipf(**change)
