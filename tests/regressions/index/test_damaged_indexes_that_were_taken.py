"""Stored indexes that were taken though kernels could not rely on them: lost matches, crashes, memory by a number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from earmark import index
from earmark.segment.segment import no_arrays
from earmark.workload.standard import w2


@pytest.mark.parametrize(
    ("name", "array", "damage", "message"),
    [
        ("vcr", "bounds", lambda a: a[:0], "what may match cannot be verified"),
        ("blocks", "axis_attr", lambda a: np.where(np.arange(len(a)) == len(a) - 1, 100_000_000, a), "do not fit"),
        ("blocks", "axis_attr", lambda a: a - 1, "do not fit"),
        (
            "mics",
            "sieve_attr",
            lambda a: np.where(np.arange(len(a)) == len(a) - 1, 100_000_000, a),
            "no such attribute",
        ),
        ("mics", "code", lambda a: np.repeat(a, 2)[::2], "code is not a row of int64"),
    ],
)
def test_refused(name: str, array: str, damage: Any, message: str) -> None:
    table = w2(subscriptions=2_000).table()
    stored = dict(index.stored(index.builder(name)(table)))
    whole = stored[array]
    stored[array] = damage(whole) if "code" in array else damage(whole).astype(whole.dtype)
    with pytest.raises(AssertionError, match=message):
        index.restore(name, table, stored)


def test_cuts_that_an_empty_index_does_not_have() -> None:
    stored = dict(index.stored(index.builder("bitsets")(no_arrays())))
    more = {"attr": [0], "number": [0], "cut_start": [0, 4095], "bucket_start": [0, 2], "inexact": [0]}
    stored |= {name: np.array(values, stored[name].dtype) for name, values in more.items()}
    with pytest.raises(AssertionError, match="cut_start does not run to its end"):
        index.restore("bitsets", no_arrays(), stored)
