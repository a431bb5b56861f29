"""`describe` counted only the VCRs of the bulk-built lists: an index that grew seemed to use few of them."""

from __future__ import annotations

import numpy as np
import pytest

from earmark.index.vcr import VcrIndex, build
from earmark.workload.skew import skew


@pytest.mark.parametrize("store", ["array", "hashed"])
def test_vcrs_of_late_slots_are_counted_once(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "FEWEST_LATE", 1 << 40)
    workload = skew("90-10", 400, events=1)
    options = {"longest": (4, 4), "mode": "points", "cells": (60, 60), "store": store, "numbering": "corner"}
    grown = VcrIndex.build(workload.head(300).table(), **options)
    before = grown.describe()["activated"]
    grown.insert(workload.table(), np.arange(300, 400, dtype=np.int32))
    arrays = grown.arrays
    lists = np.flatnonzero(np.diff(arrays.start))
    ids = arrays.key[lists] if store == "hashed" else lists
    late = arrays.late_key[arrays.late_key >= 0]
    assert set(ids.tolist()) & set(late.tolist())
    assert grown.describe()["activated"] == len(set(ids.tolist()) | set(late.tolist())) > before
