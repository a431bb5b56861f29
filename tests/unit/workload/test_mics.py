"""The workload of MICS: distributions, sizes, borders, and the same numbers every time."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from earmark.errors import EarmarkError
from earmark.segment.arrays import check_arrays
from earmark.workload.mics import CELLS, TABLE_2_ASKED, mics, table_2
from earmark.workload.standard import Workload

SIZES = (4, 4, 4, 223, 223, 223, 223)
PINNED = {"uniform": "c5d5fc93043be624", "zipf": "5c5e98618df31ebe"}


def checksum(workload: Workload) -> str:
    digest = hashlib.sha256()
    for column in workload[:5]:
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()[:16]


@pytest.mark.parametrize("distribution", PINNED)
def test_the_same_numbers_every_time(distribution: str) -> None:
    assert checksum(mics(distribution, 1_000, 100)) == PINNED[distribution]


@pytest.mark.parametrize("distribution", PINNED)
@pytest.mark.parametrize("grain", [1, 1000])
def test_ranges_have_the_size_asked_for(distribution: str, grain: int) -> None:
    made = mics(distribution, 3_000, 200, sizes=SIZES, grain=grain)
    check_arrays(made.table(), 7)
    assert made.domain == CELLS * grain
    assert (made.sub_lo >= 0).all() and (made.sub_hi < made.domain).all()
    assert (made.event_value >= 0).all() and (made.event_value < made.domain).all()
    span = made.sub_hi - made.sub_lo + 1
    assert (span == np.array(SIZES) * grain).all()


def test_distributions_are_what_they_say() -> None:
    flat, busy = (mics(name, 20_000, 20_000, attributes=1) for name in ("uniform", "zipf"))
    for values in (flat.sub_lo, flat.event_value):
        counts = np.bincount(values[:, 0], minlength=CELLS)[: CELLS - 4]
        assert abs(counts - 20_000 / CELLS).max() < 60
    harmonic = (1 / np.arange(1, CELLS + 1)).sum()
    for values in (busy.sub_lo, busy.event_value):
        counts = np.bincount(values[:, 0], minlength=CELLS)
        for cell in (0, 1, 7):
            assert abs(counts[cell] / 20_000 - 1 / (cell + 1) / harmonic) < 0.01


def test_publications_may_have_another_distribution() -> None:
    mixed, flat, busy = mics(published="uniform"), mics("uniform"), mics("zipf")
    assert (mixed.sub_lo == busy.sub_lo).all()
    assert (mixed.event_value == flat.event_value).all()


def test_fewer_are_a_prefix_of_more() -> None:
    few, many = mics(subscriptions=500, publications=50), mics(subscriptions=1_000, publications=100)
    assert (many.sub_lo[:500] == few.sub_lo).all()
    assert (many.sub_hi[:500] == few.sub_hi).all()
    assert (many.event_value[:50] == few.event_value).all()
    assert not (mics(subscriptions=500, seed=1).sub_lo == few.sub_lo).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"distribution": "normal"}, "expected a distribution, uniform or zipf, got 'normal'"),
        ({"published": "normal"}, "expected a distribution, .*, got 'normal'"),
        ({"subscriptions": 0}, "at least one subscription"),
        ({"attributes": 0}, "at least one subscription, publication and attribute"),
        ({"sizes": (4, 4)}, "one for each of 7 attributes"),
        ({"sizes": 257}, "expected sizes from 1 to 256 cells"),
        ({"exponent": -1.0}, "exponent of Zipf's law"),
        ({"exponent": float("nan")}, "exponent of Zipf's law"),
        ({"grain": 0}, "expected 1 to .* values per cell"),
    ],
)
def test_what_makes_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(EarmarkError, match=message):
        mics(**options)


def test_table_2_has_drawn_sizes_and_attributes_that_few_ask_about() -> None:
    made = table_2("zipf", 20_000, 10)
    span = made.sub_hi - made.sub_lo + 1
    assert set(np.unique(span[:, :3])) == {1, 2, 3, 4}
    assert np.allclose((span < CELLS).mean(axis=0), TABLE_2_ASKED, atol=0.01)
    fewer = table_2("zipf", 1_000, 10)
    assert (fewer.sub_lo == made.sub_lo[:1_000]).all() and (fewer.sub_hi == made.sub_hi[:1_000]).all()


@pytest.mark.parametrize("asked", [(1.0, 1.0), (1.0, 0.5, 2.0), (1.0, float("nan"), 1.0)])
def test_shares_that_cannot_be_are_refused(asked: tuple[float, ...]) -> None:
    with pytest.raises(EarmarkError, match="a share from 0 to 1, one for each of 3"):
        mics(subscriptions=10, publications=1, attributes=3, asked=asked)
