"""A condition that can never match holds no type; once the attribute had another one, even its score was stuck."""

from __future__ import annotations

import pyarrow as pa
import pytest

from earmark import Matcher, SubscriptionError


def test_only_what_is_given_changes() -> None:
    m = Matcher()
    m.add("never", "a < 3 AND a > 5", tags={"t": "1"})
    m.add("text", "a = 'x'")
    m.update("never", score=2.0)
    m.update("never", weights={"a": 3.0}, tags=None)
    assert m["never"].score == 2.0 and m["never"].weights == {"a": 3.0} and m["never"].tags is None
    m.update("text", score=1.0, tags={"t": "2"})
    assert m.ids() == ["never", "text"]
    assert m.match({"a": "x"}) == m.match({"a": "x"}, scope={"t": "2"}) == ["text"]
    assert m.top_k({"a": "x"})[0].score == 2.0
    with pytest.raises(SubscriptionError, match=r"^subscription 'text': weights refer to 'b', which"):
        m.update("text", weights={"b": 1.0})
    m.check()


def test_ready_made_ones_stay_ready_made() -> None:
    m = Matcher()
    m.add_many(pa.table({"id": [1, 2], "a_lo": [1, 2], "a_hi": [3, None]}))
    m.update(1, score=5.0, weights={"a": 2.0})
    assert m[1].condition == "a BETWEEN 1 AND 3" and m._version.whole.text(m._version.whole.find(1)) == ""
    assert [(one.id, one.score) for one in m.top_k({"a": 2})] == [(1, 7.0), (2, 1.0)]
    assert m.ids() == [1, 2]
    m.check()
