"""A batch of fractional bounds that failed on a later column had already widened the attribute."""

from __future__ import annotations

import pyarrow as pa
import pytest

from earmark import Matcher, SubscriptionError


def test_a_failing_batch_changes_no_type() -> None:
    m = Matcher()
    m.add(1, "x > 1")
    frame = pa.table({"id": [2, 3], "x_lo": [0.5, 1], "x_hi": [2, 3], "score": [1.0, float("nan")]})
    with pytest.raises(SubscriptionError, match="row 1: a score is finite"):
        m.add_many(frame)
    assert m.stats()["attributes"] == {"x": "integer"}
