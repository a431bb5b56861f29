"""One event that could not be read failed a whole batch, and one bad row hid the others of add_many."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from earmark import EventError, Matcher, Reject, SubscriptionError

BAD = [{"a": 1, "s": "x"}, {"a": "one", "s": "x"}, {"a": 3, "s": 5}, "no mapping", {"a": 4, "s": "x", "n": {"b": "?"}}]


@pytest.fixture
def m() -> Matcher:
    m = Matcher("scan")
    m.add_many([("number", "a > 0"), ("text", "s = 'x'"), ("null", "a IS NULL"), ("inner", "n.b > 1")])
    return m


def pairs(table: pa.Table) -> list[tuple[int, str]]:
    return list(zip(table["event"].to_pylist(), table["subscription"].to_pylist(), strict=True))


def test_rejected(m: Matcher) -> None:
    rejects: list[Reject] = []
    found = m.match_many(BAD, on_error="reject", rejects=rejects)
    assert pairs(found) == [(0, "number"), (0, "text")]
    assert [one[:2] for one in rejects] == [(1, "a"), (2, "s"), (3, None), (4, "n.b")]
    assert "expected a number for 'a'" in rejects[0].reason and "event" not in rejects[0].reason.split(",")[0]


def test_null(m: Matcher) -> None:
    rejects: list[Reject] = []
    found = m.top_k_many(BAD, 5, on_error="null", rejects=rejects)
    assert pairs(found) == [
        (0, "number"), (0, "text"), (1, "text"), (1, "null"), (2, "number"), (4, "number"), (4, "text"),
    ]  # fmt: skip
    assert len(rejects) == 4


@pytest.mark.parametrize("on_error", ["reject", "null"])
def test_frames(m: Matcher, on_error: Any) -> None:
    intervals = pa.array([{"lo": 1, "hi": 2}, {"lo": 5, "hi": 2}, None])
    frame = pa.table({"a": intervals, "s": pa.array(["x", "x", "x"])})
    rejects: list[Reject] = []
    found = pairs(m.match_many(frame, on_error=on_error, rejects=rejects))
    assert [one[:2] for one in rejects] == [(1, "a")]
    first = [(0, "number"), (0, "text")]
    assert found == first + ([(1, "text"), (1, "null")] if on_error == "null" else []) + [(2, "text"), (2, "null")]
    with pytest.raises(EventError, match=r"^event 1: the interval of 'a' is empty") as caught:
        m.match_many(frame)
    assert (caught.value.event, caught.value.attribute) == (1, "a")


def test_a_wrong_word(m: Matcher) -> None:
    with pytest.raises(Exception, match=r"expected 'raise', 'null' or 'reject' for on_error, got 'drop'"):
        m.match_many([], on_error="drop")  # type: ignore[arg-type]


def test_all_bad_rows_of_a_batch_are_named() -> None:
    m = Matcher()
    rows = [(i, "a >" if i % 2 else "a > 1") for i in range(100)]
    with pytest.raises(
        SubscriptionError, match=r"^50 subscriptions were refused: row 1, subscription 1: .*; row 3, "
    ) as caught:
        m.add_many(rows)
    assert str(caught.value).endswith("; and 30 more")
    assert m.ids() == [] and m.attributes == {}
    with pytest.raises(SubscriptionError, match=r"^row 1, subscription 1: "):
        m.add_many(rows[:2])
