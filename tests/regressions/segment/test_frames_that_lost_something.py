"""Subscriptions that went through polars or pandas came back without weights, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from earmark import Match, Matcher, SubscriptionError


@pytest.fixture
def book() -> Matcher:
    m = Matcher()
    m.add("a", "x > 3 AND y = 'k'", weights={"x": 0.5}, score=1.0, tags={"tenant": "acme"})
    m.add("b", "x > 3", tags={"tenant": "other", "kind": "1"})
    return m


def way(name: str, frame: Any) -> Any:
    if name == "polars":
        import polars as pl

        return pl.from_arrow(frame)
    return frame.to_pandas() if name == "pandas" else frame


@pytest.mark.parametrize("name", ["arrow", "polars", "pandas"])
def test_a_plain_frame_comes_back_whole(book: Matcher, name: str) -> None:
    m = Matcher()
    m.add_many(way(name, book.to_frame()))
    event = {"x": 4, "y": "k"}
    assert m.top_k(event) == book.top_k(event) == [Match("a", 2.5), Match("b", 1.0)]
    assert [m[one] for one in m.ids()] == [book[one] for one in book.ids()]


@pytest.mark.parametrize("name", ["polars", "pandas"])
def test_what_lost_its_metadata_is_refused(book: Matcher, name: str) -> None:
    frame = book.to_arrow().replace_schema_metadata(None)
    m = Matcher()
    with pytest.raises(SubscriptionError, match=r"to_arrow\(\) and has lost its metadata.*to_frame"):
        m.add_many(way(name, frame))
    assert m.ids() == []
