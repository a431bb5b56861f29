"""A range with neither end, on an attribute without a type, made arrays of different lengths."""

from __future__ import annotations

import pyarrow as pa

from earmark import Matcher


def test_a_range_that_is_open_on_both_sides() -> None:
    m = Matcher()
    m.add_many(pa.table({"id": [1], "ranges": [[{"attribute": "x", "lo": None, "hi": None}]]}))
    assert m.match({}) == [1]
    m._version.check()
