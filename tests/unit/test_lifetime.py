"""A matcher as a collection of subscriptions that is opened, changed and closed."""

from __future__ import annotations

import pytest

import earmark
from earmark.errors import EarmarkError, SubscriptionError
from earmark.matcher import Matcher


def test_it_iterates_over_ids_and_gives_subscriptions_by_id() -> None:
    m = Matcher()
    m.add_many([("b", "x > 1"), ("a", "x > 2")])
    assert list(m) == m.ids() == ["b", "a"]
    assert [m[one].condition for one in m] == ["x > 1", "x > 2"]
    with pytest.raises(SubscriptionError, match="there is no subscription 'c'"):
        m["c"]


@pytest.mark.parametrize("index", ["be_star_tree", "blocks", "scan"])
class TestUpsert:
    def test_a_new_one_is_added(self, index: str) -> None:
        m = Matcher(index)
        assert m.upsert("a", "x > 1", weights={"x": 2.0}, score=1.5, tags={"tenant": "acme"})
        assert m["a"] == earmark.Subscription("a", "x > 1", {"x": 2.0}, 1.5, {"tenant": "acme"})

    def test_nothing_of_the_old_one_stays_but_its_place(self, index: str) -> None:
        m = Matcher(index)
        m.add("a", "x > 1", weights={"x": 2.0}, score=1.5, tags={"tenant": "acme"})
        m.add("b", "x > 0")
        assert not m.upsert("a", "x > :least", params={"least": 3})
        assert m["a"] == earmark.Subscription("a", "x > 3")
        assert m.match({"x": 4}) == ["a", "b"] and m.match({"x": 2}) == ["b"]

    def test_a_wrong_one_changes_nothing(self, index: str) -> None:
        m = Matcher(index)
        m.add_many([earmark.Subscription("a", "x > 1", score=1.5), ("z", "x > 100")])
        for id, condition in (("a", "x >"), ("a", "x = 'text'"), ("b", "x >"), (1, "x > 2")):
            with pytest.raises(EarmarkError):
                m.upsert(id, condition)
        assert list(m) == ["a", "z"] and m["a"].score == 1.5 and m.match({"x": 2}) == ["a"]


class TestClosed:
    def test_it_takes_no_change_and_still_answers(self) -> None:
        with Matcher() as m:
            m.add_many([(i, f"x > {i}") for i in range(400)])
            m.add(400, "x > 0")
        refused = (
            lambda: m.add(1, "x > 3"),
            lambda: m.add_many([(401, "x > 3")]),
            lambda: m.update(1, score=2.0),
            lambda: m.upsert(1, "x > 3"),
            lambda: m.remove(1),
            lambda: m.remove_many([1]),
            lambda: m.declare({"y": "integer"}),
            lambda: m.retype("x", "float"),
            lambda: m.adapt([{"x": 1}]),
            m.compact,
        )
        for change in refused:
            with pytest.raises(EarmarkError, match="the matcher is closed"):
                change()
        assert len(m) == 401 and m.match({"x": 1}) == [0, 400]

    def test_background_work_has_ended(self) -> None:
        m = Matcher("blocks")
        m.add_many([(i, f"x BETWEEN {i} AND {i + 3}") for i in range(5_000)])
        for i in range(5_000, 5_400):
            m.add(i, f"x > {i}")
        m.close()
        assert not m._compactor.is_running
        m.close()  # twice is once
