"""polars lists are Arrow's large lists, which were refused."""

from __future__ import annotations

import polars as pl

from earmark import Matcher


def test_lists_of_polars() -> None:
    m = Matcher()
    m.add_many(pl.DataFrame({"id": ["a", "b"], "ranges": [[{"attribute": "x", "lo": 1, "hi": 2}], []]}))
    assert m.match({"x": 2}) == ["a", "b"]
