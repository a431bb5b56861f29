"""A batch of bounds that failed on a later column had already changed the attribute they are on."""

from __future__ import annotations

import pyarrow as pa
import pytest

from earmark import Matcher, SubscriptionError


def test_a_failing_batch_changes_no_type() -> None:
    m = Matcher()
    m.add(1, "x > 1")
    before, version = m.stats(), m._version
    frame = pa.table({"id": [2, 3], "x_lo": [0.5, 1], "x_hi": [2**60, 3], "score": [1.0, float("nan")]})
    with pytest.raises(SubscriptionError, match="row 1, subscription 3: score must be finite, got nan"):
        m.add_many(frame)
    assert m.stats() == before
    assert m._version is version
    assert not version.schema.strings
