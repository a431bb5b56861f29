"""A dictionary column whose NULL stood in the dictionary, not in the indices, gave the key 0 instead of NULL."""

from __future__ import annotations

import pyarrow as pa

from earmark import Matcher


def test_it_is_null() -> None:
    m = Matcher()
    m.add("null", "a IS NULL")
    m.add("zero", "a = 0")
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([0, None]))
    found = m.match_many(pa.table({"a": column}))
    assert found.select(["event", "subscription"]).to_pylist() == [
        {"event": 0, "subscription": "zero"},
        {"event": 1, "subscription": "null"},
    ]
