"""A new attribute with whole lower and fractional upper bounds changed its type before it had one."""

from __future__ import annotations

import pyarrow as pa

from earmark import Matcher


def test_an_attribute_that_is_new() -> None:
    m = Matcher()
    m.add_many(pa.table({"id": [1], "x_lo": [1], "x_hi": [2.5]}))
    assert m.stats()["attributes"] == {"x": "number"}
    assert m.match({"x": 2.5}) == [1]
    assert m.match({"x": 2.6}) == []
