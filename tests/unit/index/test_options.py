"""Every option of MICS and of bitsets does something: other arrays, or other work. Blocks have none.

`ranked/test_options.py` has those of the scored trees, `tests/papers/test_vcr.py` those of VCR.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from earmark.flat import bits
from earmark.index.bitsets import BitsetIndex
from earmark.index.blocks import BlockIndex
from earmark.index.mics import MicsIndex
from earmark.workload.mics import mics

DATA = mics("zipf", 200, 20, attributes=3, sizes=4)
CHANGES: dict[Any, dict[str, Any]] = {
    MicsIndex: {"attributes": (1,), "bits": 3, "cells": "equal", "most": 1, "pieces": 1, "events": DATA.events()},
    BitsetIndex: {"buckets": 4},
    BlockIndex: {},
}


@pytest.mark.parametrize("kind", CHANGES, ids=lambda kind: kind.__name__)
def test_no_option_is_left_out(kind: Any) -> None:
    assert set(inspect.signature(kind.build).parameters) - {"table"} == set(CHANGES[kind])


def seen(kind: Any, options: dict[str, Any]) -> list[Any]:
    """The arrays of an index, and the work of matching."""
    index = kind.build(DATA.table(), **options)
    index.match_many(DATA.events(), bits.all_set(200))
    return [*map(np.asarray, index.arrays), np.asarray(index.work)]


@pytest.mark.parametrize(
    ("kind", "option"),
    [(kind, option) for kind, options in CHANGES.items() for option in options],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_an_option_makes_a_difference(kind: Any, option: str) -> None:
    plain, changed = seen(kind, {}), seen(kind, {option: CHANGES[kind][option]})
    assert any(not np.array_equal(one, other) for one, other in zip(plain, changed, strict=True))
