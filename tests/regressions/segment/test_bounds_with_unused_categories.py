"""A category that no row uses got no key, and looking it up failed."""

from __future__ import annotations

import pandas as pd

from earmark import Matcher


def test_categories_that_no_row_uses() -> None:
    m = Matcher()
    low = pd.Categorical(["a", "b"], categories=["a", "b", "zz"])
    m.add_many(pd.DataFrame({"id": ["x", "y"], "s_lo": low, "s_hi": ["b", "c"]}))
    assert m.match({"s": "b"}) == ["x", "y"]
