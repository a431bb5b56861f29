"""The standard workloads are what they always were."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from earmark.workload.standard import WORKLOADS

CHECKSUMS = {
    "w1": "2dff9f7899fef02f5cd3934bbd043f967a416de1fd6a031da811df266736a6c3",
    "w2": "088454af56c335f20f23e4ca3cef27db279f5f78ac93eb79aef76f2f90447ebb",
}
ORIGINAL = Path(__file__).parents[4] / "shared/workloads/standard.py"


@pytest.mark.parametrize("name", ["w2", pytest.param("w1", marks=pytest.mark.slow)])
def test_checksums(name: str) -> None:
    made = WORKLOADS[name]()
    digest = hashlib.sha256()
    for column in made[:5]:
        digest.update(np.ascontiguousarray(column).tobytes())
    assert digest.hexdigest() == CHECKSUMS[name]
    table, events = made.head(1000).table(), made.events()
    assert table.clause_start[-1] == 1000
    assert (table.lo.reshape(1000, -1) == made.sub_lo[:1000]).all()
    assert (events.lo.reshape(made.event_value.shape) == made.event_value).all()


@pytest.mark.slow
@pytest.mark.skipif(not ORIGINAL.exists(), reason="the original generators are not here")
@pytest.mark.parametrize("name", ["w1", "w2"])
def test_equal_to_the_original(name: str) -> None:
    spec = importlib.util.spec_from_file_location("original", ORIGINAL)
    assert spec is not None
    assert spec.loader is not None
    original = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(original)
    for theirs, ours in zip(original.MAKE[name](), WORKLOADS[name](), strict=True):
        assert np.array_equal(theirs, ours)
        assert np.asarray(theirs).dtype == np.asarray(ours).dtype
