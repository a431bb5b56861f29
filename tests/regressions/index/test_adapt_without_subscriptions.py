"""A matcher without an indexed subscription said that its index does not adapt."""

from __future__ import annotations

import pytest

from earmark import EarmarkError, Matcher


@pytest.mark.parametrize("index", ["be_star_tree", "mics"])
def test_an_empty_matcher_adapts(index: str) -> None:
    m = Matcher(index)
    m.adapt([{"a": 1}])
    m.add(1, "a > 0")
    m.adapt([{"a": 1}])
    assert m.match({"a": 1}) == [1]


@pytest.mark.parametrize("index", ["scan", "blocks"])
def test_others_say_so(index: str) -> None:
    with pytest.raises(EarmarkError, match="does not adapt"):
        Matcher(index).adapt([{"a": 1}])
