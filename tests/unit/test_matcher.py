"""The Matcher as a user meets it: what is easy to skip, and every sentence for bad input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import earmark
from earmark import AttributeTypeError, EarmarkError, EventError, Interval, Matcher, Predicate, SubscriptionError
from earmark.engine import compaction
from earmark.matcher import DEFAULT_INDEX


def matcher(*conditions: str, **options: Any) -> Matcher:
    """A Matcher whose subscriptions are numbered from 0."""
    made = Matcher(**options)
    made.add_many(enumerate(conditions))
    return made


class TestExtendedEvents:
    """A value that is an interval matches what some value inside matches."""

    @pytest.mark.parametrize(
        ("lo", "hi", "found"),
        [
            (2, 6, []),
            (2, 7, [0]),
            (1, 1, [0]),
            (3, 4, []),
            (None, 0, []),
            (None, 1, [0]),
            (7, None, [0]),
            (None, None, [0]),
        ],
    )
    def test_in(self, lo: int | None, hi: int | None, found: list[int]) -> None:
        assert matcher("a IN (1, 7)").match({"a": Interval(lo, hi)}) == found

    def test_not_equal(self) -> None:
        conditions = ("a != 3", "a NOT IN (3, 4)", "a > 3 AND a < 5 AND a != 4")
        m = matcher(*conditions, attributes={"a": "integer"})
        assert m.match({"a": Interval(3, 3)}) == []
        assert m.match({"a": Interval(3, 4)}) == [0]
        assert m.match({"a": Interval(2, 5)}) == [0, 1]
        m = matcher(*conditions)
        assert m.match({"a": Interval(3, 3)}) == []
        assert m.match({"a": Interval(3, 4)}) == [0, 1, 2]  # 3.5 is a number
        assert m.match({"a": Interval(4, 4)}) == [0]
        assert m.match({"a": Interval(4, 4.5)}) == [0, 1, 2]

    def test_strings(self) -> None:
        m = matcher("s = 'b'", "s != 'b'", "s IN ('a', 'd')", "s LIKE 'ba%'", "s NOT LIKE 'b%'", "s > 'bb' AND s < 'c'")
        assert m.match({"s": Interval("b", "b")}) == [0]
        assert m.match({"s": Interval("aa", "az")}) == [1, 4]
        assert m.match({"s": Interval("b", "bab")}) == [0, 1, 3]
        assert m.match({"s": Interval("bb", "bz")}) == [1, 5]
        assert m.match({"s": Interval("bc", "bd")}) == [1, 5]
        assert m.match({"s": Interval(None, "a")}) == [1, 2, 4]
        assert m.match({"s": Interval("c", None)}) == [1, 2, 4]
        assert m.match({"s": Interval(None, None)}) == [0, 1, 2, 3, 4, 5]

    def test_is_null_is_not_held_by_an_interval(self) -> None:
        m = matcher("a IS NULL", "a IS NOT NULL", "a > 3 OR a IS NULL")
        assert m.match({"a": Interval(1, 2)}) == [1]
        assert m.match({"a": Interval(1, 4)}) == [1, 2]
        assert m.match({}) == [0, 2]

    def test_each_subscription_once_with_its_best_clause(self) -> None:
        m = Matcher()
        m.add("x", "a < 3 AND b > 0 OR a > 5 OR a = 4 AND b > 9", weights={"a": 2, "b": 3})
        event = {"a": Interval(0, 9), "b": 1}
        assert m.match(event) == ["x"]
        assert m.top_k(event) == [("x", 5.0)]
        assert m.match_many([event]).to_pydict() == {"event": [0], "subscription": ["x"], "score": [5.0]}

    @pytest.mark.parametrize(
        ("attribute", "lo", "hi"),
        [("a", 5, 4), ("s", "b", "a"), ("s", "bz", "by"), ("f", 1.5, -1.5), ("b", True, False)],
    )
    def test_reversed(self, attribute: str, lo: Any, hi: Any) -> None:
        m = matcher("a > 3 OR s = 'c' OR f > 0.5D OR b")
        with pytest.raises(EventError, match=f"^the interval of '{attribute}' is empty"):
            m.match({attribute: Interval(lo, hi)})
        with pytest.raises(EventError, match=f"event 1: the interval of '{attribute}' is empty"):
            m.match_many(pa.table({attribute: [None, {"lo": lo, "hi": hi}]}))


class TestNearMisses:
    def test_over_or(self) -> None:
        """The nearest clause counts, and says which predicate failed."""
        m = Matcher()
        m.add("far", "a > 10 AND b > 10 AND c > 10")
        m.add("near", "a > 10 AND b > 10 OR c > 10 AND a < 5 OR b = 99 AND c = 99 AND a = 99")
        m.add("hit", "a = 1 OR b = 2")
        event = {"a": 1, "b": 2, "c": 3}
        (near,) = m.near_misses(event)
        assert near.id == "near"
        (failing,) = near.failing
        assert (failing.attribute, failing.asked, failing.got, failing.held) == ("c", "c > 10", 3, False)
        assert str(near) == "'near' misses by ✗ c > 10   (c = 3)"
        assert [n.id for n in m.near_misses(event, 3)] == ["near", "far"]

    def test_nearest_first_then_insertion(self) -> None:
        m = matcher("a > 9 AND b > 9", "a > 9", "c IS NULL AND b > 9 AND a > 9", "b > 9", "c = 1 AND b > 9 AND a > 9")
        event = {"a": 1, "b": 1}
        assert [n.id for n in m.near_misses(event)] == [1, 3]
        assert [n.id for n in m.near_misses(event, missing=2)] == [1, 3, 0, 2]
        assert [n.id for n in m.near_misses(event, missing=3)] == [1, 3, 0, 2, 4]
        assert [n.id for n in m.near_misses(event, missing=3, limit=2)] == [1, 3]
        assert m.near_misses(event, limit=0) == []
        assert [f.attribute for f in m.near_misses(event, 2)[2].failing] == ["a", "b"]

    def test_missing_attribute_and_never_matching(self) -> None:
        m = matcher("a > 3 AND b > 3", "a < 3 AND a > 5", "FALSE", "TRUE")
        found = m.near_misses({"a": 9})
        assert [(n.id, n.failing[0].asked, n.failing[0].got) for n in found] == [
            (0, "b > 3", None),
            (1, "a < 3 AND a > 5", 9),
        ]
        assert str(found[0].failing[0]) == "✗ b > 3   (b is missing)"

    def test_scope(self) -> None:
        m = Matcher()
        for one, tenant in (("x", "acme"), ("y", "other"), ("z", "acme")):
            m.add(one, "a > 3", tags={"tenant": tenant})
        assert [n.id for n in m.near_misses({"a": 1}, scope={"tenant": "acme"})] == ["x", "z"]

    def test_ready_made(self) -> None:
        m = Matcher()
        m.add_many(pa.table({"id": ["x"], "a_lo": [3], "a_hi": [5], "s_lo": ["b"], "s_hi": [None]}))
        (near,) = m.near_misses({"a": 9, "s": "c"})
        assert str(near) == "'x' misses by ✗ a BETWEEN 3 AND 5   (a = 9)"
        assert near.failing[0].weight == 1.0

    def test_in_order_after_update(self) -> None:
        m = matcher("a > 3", "a > 3", "a > 3")
        m.update(0, "a > 4")
        assert [n.id for n in m.near_misses({"a": 1})] == [0, 1, 2]

    @pytest.mark.parametrize("missing", [0, -1, True, 1.5, "1", None])
    def test_missing_is_a_number(self, missing: Any) -> None:
        with pytest.raises(EarmarkError, match="expected a number of missing constraints, 1 or more"):
            matcher("a > 3").near_misses({}, missing)

    @pytest.mark.parametrize("limit", [-1, 1.5, "1"])
    def test_limit_is_a_number(self, limit: Any) -> None:
        with pytest.raises(EarmarkError, match="expected a number of results as limit"):
            matcher("a > 3").near_misses({}, limit=limit)


def test_matches_without_their_scores() -> None:
    m = Matcher()
    m.add_many([(i, f"a > {i} AND (b = 1 OR b IS NULL)") for i in range(300)], progress=False)
    m.add(300, "a > 2")  # in a segment of its own
    events = [{"a": 3, "b": 1}, {"a": 5}, {"a": 0}]
    whole = m.match_many(events)
    assert m.match_many(events, scores=False).equals(whole.drop_columns("score"))
    assert m.match_reader(iter(events), scores=False).read_all().equals(whole.drop_columns("score"))


class TestScope:
    def test_is_applied_before_matching(self) -> None:
        """Only the tenant's subscriptions are looked at."""
        m = Matcher()
        n = 100_000
        tags = pa.array(
            [[("tenant", "acme" if i % 10_000 == 7 else "other")] for i in range(n)], pa.map_(pa.string(), pa.string())
        )
        m.add_many(pa.table({"id": range(n), "a_lo": range(n), "a_hi": [n] * n, "tags": tags}))
        (one,) = m._version.segments
        own = list(range(7, n, 10_000))
        assert m.match({"a": n}, scope={"tenant": "acme"}) == own
        assert one._scan.work.candidates <= 10
        assert one._scan.work.compared <= 10
        assert one._scan.work.matched == 10
        assert [x.id for x in m.top_k({"a": n}, 3, scope={"tenant": "acme"})] == own[:3]
        assert one._scan.work.candidates <= 10
        assert len(m.match({"a": n})) == n
        assert one.index is not None and one.index.work.matched == n

    def test_several_tags_and_unknown_ones(self) -> None:
        m = Matcher()
        m.add("x", "TRUE", tags={"tenant": "acme", "tier": "gold"})
        m.add("y", "TRUE", tags={"tenant": "acme"})
        m.add("z", "TRUE")
        assert m.match({}, scope={"tenant": "acme"}) == ["x", "y"]
        assert m.match({}, scope={"tier": "gold", "tenant": "acme"}) == ["x"]
        assert m.match({}, scope={"tier": "silver"}) == m.match({}, scope={"nobody": "x"}) == []
        assert m.match({}, scope={}) == m.match({}) == ["x", "y", "z"]

    def test_follows_updates(self) -> None:
        m = Matcher()
        m.add("x", "TRUE", tags={"tenant": "acme"})
        m.update("x", tags={"tenant": "other"})
        assert m.match({}, scope={"tenant": "acme"}) == []
        assert m.match({}, scope={"tenant": "other"}) == ["x"]
        m.update("x", score=1.0)
        m.compact()
        assert m.match({}, scope={"tenant": "other"}) == ["x"]
        m.update("x", tags=None)
        assert m.match({}, scope={"tenant": "other"}) == []

    @pytest.mark.parametrize("scope", [5, "tenant", ["tenant"], {"tenant": 5}, {5: "tenant"}, {"\ud800": "x"}])
    def test_bad(self, scope: Any) -> None:
        with pytest.raises(EarmarkError, match="scope"):
            matcher("TRUE").match({}, scope=scope)


class TestNeverMatching:
    def test_is_kept_listed_and_explained(self) -> None:
        m = matcher(
            "a < 3 AND a > 5",
            "a > 3",
            "a = NULL",
            "FALSE",
            "a < 3 AND a > 5 OR b = 1",
            "s < ''",
            "b = 1 AND (a < 3 AND a > 5 OR a < -5 AND a > 9)",
            "a IS NULL AND a IS NOT NULL",
            "a NOT IN (1, NULL)",
        )
        assert m.never_matching() == [0, 2, 3, 5, 6, 7, 8]
        assert len(m) == 9
        assert m[0].condition == "a < 3 AND a > 5"
        text = str(m.explain(0, {"a": 4}))
        assert text == "0 does not match\n  ✗ a < 3 AND a > 5   (a = 4)"
        assert str(m.explain(3, {"a": 4})) == "3 does not match\n  ✗ always false"
        m.remove(0)
        m.update(2, "a IS NOT NULL")
        m.compact()
        assert m.never_matching() == [3, 5, 6, 7, 8]

    def test_ready_made(self) -> None:
        m = Matcher()
        m.add_many(pa.table({"id": [7, 8], "a_lo": [5, 1], "a_hi": [3, 3]}))
        assert m.never_matching() == [7]
        assert m.match({"a": 2}) == [8]
        assert Matcher().never_matching() == []


class TestIds:
    def test_one_kind(self) -> None:
        m = matcher("a > 1")
        with pytest.raises(
            SubscriptionError, match="subscription 'x': expected an integer as id, as the other ids are"
        ):
            m.add("x", "a > 1")
        other = Matcher()
        other.add("x", "a > 1")
        with pytest.raises(SubscriptionError, match="row 1, subscription 5: expected a string as id"):
            other.add_many([("y", "a > 1"), (5, "a > 1")])
        assert other.ids() == ["x"]

    def test_the_kind_is_free_again_when_nothing_is_left(self) -> None:
        m = matcher("a > 1")
        m.remove(0)
        m.add("x", "a > 1")
        assert m.match_many([{"a": 2}])["subscription"].to_pylist() == ["x"]

    @pytest.mark.parametrize("one", [None, True, 1.5, b"x", ("x",), "", "x" * 10_001, 2**63, -(2**63) - 1, "\ud800"])
    def test_bad(self, one: Any) -> None:
        m = Matcher()
        with pytest.raises(SubscriptionError, match="id"):
            m.add(one, "a > 1")
        with pytest.raises(SubscriptionError):
            m.remove(one)
        assert len(m) == 0

    def test_extremes(self) -> None:
        import numpy as np

        m = Matcher()
        m.add(2**63 - 1, "TRUE")
        m.add(-(2**63), "TRUE")
        m.add(np.int64(5), "TRUE")
        assert m.match({}) == [2**63 - 1, -(2**63), 5]
        assert [type(one) for one in m.ids()] == [int] * 3
        assert np.int64(5) in m
        m.remove(np.int64(5))
        assert 5 not in m

    def test_live_and_duplicate(self) -> None:
        m = matcher("a > 1")
        with pytest.raises(
            SubscriptionError, match=r"^subscription 0: the id is already in use; use update\(\) to change it$"
        ):
            m.add(0, "a > 2")
        with pytest.raises(SubscriptionError, match="row 2, subscription 5: the id is given twice"):
            m.add_many([(5, "a > 1"), (6, "a > 1"), (5, "a > 1")])
        with pytest.raises(SubscriptionError, match="row 1, subscription 0: the id is already in use"):
            m.add_many([(5, "a > 1"), (0, "a > 1")])
        assert m.ids() == [0]
        m.remove(0)
        m.add(0, "a > 3")
        assert m[0].condition == "a > 3"

    def test_unknown(self) -> None:
        m = matcher("a > 1")
        for call in (m.remove, m.__getitem__, m.update, lambda one: m.explain(one, {})):
            with pytest.raises(SubscriptionError, match="there is no subscription 7"):
                call(7)
        with pytest.raises(SubscriptionError, match="row 1: there is no subscription 7 to remove"):
            m.remove_many([0, 7])
        with pytest.raises(SubscriptionError, match="given twice"):
            m.remove_many([0, 0])
        for bad in (None, 5, "xy"):
            with pytest.raises(SubscriptionError, match="expected a sequence of ids"):
                m.remove_many(bad)
        assert m.ids() == [0]
        assert m.remove_many([]) == 0


class TestUpdate:
    def test_keeps_place_and_what_is_not_given(self) -> None:
        m = Matcher()
        m.add("x", "a > 1 AND b > 1", weights={"a": 2.0, "b": 3.0}, score=0.5, tags={"tenant": "acme"})
        m.add("y", "a > 1")
        m.update("x", "a > 2 AND c IS NULL")
        assert m.match({"a": 3}) == ["x", "y"]
        assert m["x"] == earmark.Subscription("x", "a > 2 AND c IS NULL", {"a": 2.0}, 0.5, {"tenant": "acme"})
        m.update("x", score=1.5)
        m.update("x", weights={"c": 4.0})
        m.update("x", tags={})
        assert m["x"] == earmark.Subscription("x", "a > 2 AND c IS NULL", {"c": 4.0}, 1.5, None)
        m.update("x", weights=None)
        assert m["x"].weights is None
        m.update("x", Predicate("a", ">", 5))
        assert m["x"].condition == "a > 5"
        assert m.ids() == ["x", "y"]

    def test_ready_made_becomes_text(self) -> None:
        m = Matcher()
        m.add_many(pa.table({"id": ["x", "y"], "a_lo": [1, 5], "a_hi": [3, None]}))
        m.update("x", score=2.0)
        assert m["x"] == earmark.Subscription("x", "a BETWEEN 1 AND 3", None, 2.0, None)
        assert m.top_k({"a": 2}) == [("x", 3.0)]

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"condition": "a >"}, "subscription 0: condition 'a >'"),
            ({"condition": "a = 'x'"}, "subscription 0: a = 'x': expected a number for 'a'"),
            ({"weights": {"zz": 1}}, "subscription 0: weights refer to 'zz', which the condition does not use"),
            ({"weights": {"a": -1}}, "subscription 0: the weight of 'a' must be finite and not negative, got -1"),
            ({"score": float("nan")}, "subscription 0: score must be finite, got nan"),
            ({"score": None}, "subscription 0: score must be a number, got None"),
            ({"tags": {"a": 1}}, "subscription 0: tags must map strings to strings, got 1"),
            ({"condition": None}, "subscription 0: "),
        ],
    )
    def test_bad_changes_nothing(self, changes: dict[str, Any], reason: str) -> None:
        m = matcher("a > 1", "a > 2")
        before = m.stats()
        with pytest.raises(EarmarkError, match=f"^{reason}"):
            m.update(0, **changes)
        assert m.stats() == before
        assert m.match({"a": 2}) == [0]


class TestArguments:
    @pytest.mark.parametrize("k", [0, -1, True, 1.5, "3", None])
    def test_k(self, k: Any) -> None:
        for call in (lambda: matcher("TRUE").top_k({}, k), lambda: matcher("TRUE").top_k_many([{}], k)):
            with pytest.raises(EarmarkError, match="expected a number of results k, 1 or more"):
                call()

    @pytest.mark.parametrize("mode", ["EXACT", "", None, 3, ["exact"]])
    def test_mode(self, mode: Any) -> None:
        for call in (matcher("TRUE").top_k, lambda e, mode: matcher("TRUE").top_k_many([e], mode=mode)):
            with pytest.raises(EarmarkError, match="expected 'exact' or 'relaxed' for mode"):
                call({}, mode=mode)

    @pytest.mark.parametrize("weight", [-1, -0.001, float("nan"), float("inf"), 10**400, True, "1", None])
    def test_weights(self, weight: Any) -> None:
        with pytest.raises(SubscriptionError, match=r"^subscription 'x': the weight of 'a' must be"):
            Matcher().add("x", "a > 1", weights={"a": weight})
        with pytest.raises(EventError, match=r"^the weight of 'a' must be"):
            matcher("a > 1").top_k({"a": 3}, weights={"a": weight})
        with pytest.raises(EventError, match="event 1: the weight of 'a' must be"):
            matcher("a > 1").top_k_many(pa.table({"a": [1, 2]}), weights=[None, {"a": weight}])

    def test_weights_of_an_unused_attribute(self) -> None:
        with pytest.raises(
            SubscriptionError, match=r"weights refer to 'b', which the condition does not use \(it uses a\)"
        ):
            Matcher().add("x", "a > 1", weights={"a": 1, "b": 1})
        with pytest.raises(SubscriptionError, match="it uses no attribute"):
            Matcher().add("x", "TRUE", weights={"b": 1})
        assert matcher("a > 1").top_k({"a": 3}, weights={"unknown": 3}) == [(0, 1.0)]

    @pytest.mark.parametrize("weights", [3, "a", [None], [None, None, None], [3, 3]])
    def test_event_weights(self, weights: Any) -> None:
        with pytest.raises(EventError, match="weights"):
            matcher("a > 1").top_k_many([{"a": 1}, {"a": 2}], weights=weights)

    @pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf"), 10**400, "1", None, True, [1]])
    def test_score(self, score: Any) -> None:
        with pytest.raises(SubscriptionError, match=r"^subscription 'x': score must be (finite|a number), got "):
            Matcher().add("x", "a > 1", score=score)

    @pytest.mark.parametrize("tags", [5, "tenant", {"a": 5}, {5: "a"}, {"a": None}, {"a": "\ud800"}])
    def test_tags(self, tags: Any) -> None:
        with pytest.raises(SubscriptionError, match=r"^subscription 'x': tags"):
            Matcher().add("x", "a > 1", tags=tags)

    @pytest.mark.parametrize(
        "subscriptions", [None, 5, "a > 1", {"x": "a > 1"}, [5], [("x",)], [("x", "a > 1", 3)], [{"id": "x"}], [{}]]
    )
    def test_not_subscriptions(self, subscriptions: Any) -> None:
        with pytest.raises(SubscriptionError):
            Matcher().add_many(subscriptions)

    @pytest.mark.parametrize("event", [None, 5, "a", [("a", 1)], [{"a": 1}]])
    def test_not_an_event(self, event: Any) -> None:
        m = matcher("a > 1")
        for call in (m.match, m.top_k, m.near_misses, lambda e: m.explain(0, e), lambda e: m.match_many([e])):
            with pytest.raises(EventError, match="expected a mapping of attribute names to values"):
                call(event)

    @pytest.mark.parametrize("events", [None, 5, {"a": 1}])
    def test_not_a_batch(self, events: Any) -> None:
        with pytest.raises(EventError, match="expected a sequence of events or a frame"):
            matcher("a > 1").match_many(events)

    def test_constructor(self) -> None:
        with pytest.raises(EarmarkError, match=r"there is no index called 'nope'; there are .*scan"):
            Matcher("nope")
        with pytest.raises(EarmarkError, match="expected a mapping of names to types"):
            Matcher(attributes=["a"])  # type: ignore[arg-type]
        with pytest.raises(EarmarkError, match=r"'text' is not a type; the types are .*number"):
            Matcher(attributes={"a": "text"})
        with pytest.raises(EarmarkError, match="expected 'value' or 'null' for nan"):
            Matcher(nan="none")  # type: ignore[arg-type]
        with pytest.raises(EarmarkError, match="time zone"):
            Matcher(zone="Mars")

    def test_more_clauses_than_there_may_be(self) -> None:
        pairs = " AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(11))
        with pytest.raises(SubscriptionError, match=r"^subscription 'x'.*1,024 clauses; split it"):
            Matcher().add("x", pairs)
        m = Matcher()
        m.add("x", " AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(10)))
        assert m.stats()["clauses"] == 1024
        assert m.match({f"{'ab'[i % 2]}{i}": 1 for i in range(10)}) == ["x"]


class TestLookingAtThem:
    def test_stats_get_ids(self) -> None:
        m = matcher("a > 1 AND s = 'x'", "b IS NULL", "a > 1 OR b IS NULL")
        m.remove(1)
        stats = m.stats()
        assert stats["subscriptions"] == len(m) == 2
        assert (stats["removed"], stats["clauses"], stats["constraints"], stats["index"]) == (1, 4, 5, DEFAULT_INDEX)
        assert stats["attributes"] == {"a": "number", "s": "string", "b": None}
        assert 0 in m
        assert 1 not in m
        assert "x" not in m
        assert m.ids() == [0, 2]

    def test_ids_after_a_look_at_the_empty_matcher(self) -> None:
        m = Matcher()
        assert m.match_many([{"a": 1}]).num_rows == 0
        m.add(7, "a = 1")
        assert m.match_many([{"a": 1}])["subscription"].to_pylist() == [7]
        m.compact()
        m.add(8, "a = 1")
        assert m.match_many([{"a": 1}])["subscription"].to_pylist() == [7, 8]

    def test_compaction_happens_by_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(compaction, "SMALLEST_SHRINK", 15)
        m = matcher(*["a > 1"] * 30)
        m.remove_many(range(15))
        assert m.stats()["removed"] == 15
        m.remove(15)
        m._compactor.wait()
        assert m.stats()["removed"] == 0
        assert m.ids() == list(range(16, 30))
        for _ in range(40):
            m.update(20, score=1.0)
        m._compactor.wait()
        assert m.stats()["removed"] <= 15
        assert m.match({"a": 2}) == list(range(16, 30))

    def test_verify_finds_a_broken_index(self) -> None:
        class Broken:
            def match_many(self, events: Any, eligible: Any, threads: int, life: int) -> Any:
                import numpy as np

                return np.array([0, 1, 2]), np.array([1, 0], np.int32)

        m = matcher("a > 1", "a > 5")
        (one,) = m._version.segments
        m._version = m._version.with_segments([replace(one, index=Broken())])  # type: ignore[arg-type]
        found = m.verify([{"a": 3}, {"a": 0}])
        assert not found.ok
        assert {(d.event, d.id, d.kind) for d in found.differences} == {
            (0, 0, "missing"),
            (0, 1, "extra"),
            (1, 0, "extra"),
        }


def test_errors_are_of_one_family() -> None:
    assert issubclass(SubscriptionError, EarmarkError)
    assert issubclass(EventError, EarmarkError)
    assert issubclass(AttributeTypeError, EarmarkError)


def test_adapting_changes_speed_and_nothing_else() -> None:
    m = Matcher("be_star_tree")
    m.add_many([(i, f"a BETWEEN {i} AND {i + 5} AND b > {i % 7}") for i in range(400)])
    events = [{"a": i, "b": i % 9} for i in range(200)]
    before = m.match_many(events)
    found = m.adapt(events)
    assert found.events == 200
    assert 0 < found.probability < 1
    assert m.match_many(events).equals(before)
    m.add(1000, "a > 0")
    m.remove(3)
    assert 1000 in m.match({"a": 5, "b": 9})
    assert m.verify(events).ok


def test_an_index_that_does_not_adapt() -> None:
    with pytest.raises(EarmarkError, match="does not adapt to events; 'be_star_tree' and 'mics' do"):
        Matcher("scan").adapt([{"a": 1}])


def test_an_index_says_what_it_chose() -> None:
    m = Matcher("vcr")
    m.add_many([(i, f"a BETWEEN {i} AND {i + 5} AND b BETWEEN 0 AND {i}") for i in range(50)])
    assert m.stats()["index_about"]["share_on_grid"] == 1.0
    assert Matcher("scan").stats()["index_about"] == {}


def test_hygiene() -> None:
    m = Matcher()
    m.add_many([("wide", "a > 1"), ("narrow", "a > 5"), ("same", "a > 1")])
    assert m.audit().redundant == ("same", "narrow")
    assert m.covered_by("narrow") == ["wide", "same"]
    assert m.covered("wide") == ["narrow", "same"]
    m.add("wider", "TRUE")
    assert m.covered_by("wide") == ["wider"]
    assert m.covers("wide", "narrow") and not m.covers("narrow", "wide")
    assert m.covers("wide", "same") and not m.covers("same", "wide")  # of equals the older covers the younger
    assert not m.covers("wide", "wide")
    with pytest.raises(SubscriptionError, match="no subscription 'nobody'"):
        m.covers("wide", "nobody")
    with pytest.raises(SubscriptionError, match="no subscription"):
        m.covered("nobody")


class TestProfile:
    @pytest.mark.parametrize("index", ["be_star_tree", "blocks", "scan", "ir_tree"])
    def test_counts_the_work_of_all_segments(self, index: str) -> None:
        m = Matcher(index)
        m.add_many([(i, f"a > {i}") for i in range(300)])
        m.add_many([(i, f"a > {i - 300}") for i in range(300, 310)])
        events = [{"a": 4.5}, {"a": 0}]
        work = m.profile(events)
        assert work.matched == m.match_many(events).num_rows == 10
        assert work.candidates + work.compared + work.nodes > 0
        best = m.profile(events, 2)
        assert best.scored >= 2 or best.matched >= 2
        assert Matcher(index).profile(events) == type(work)()

    def test_what_cannot_be_asked(self) -> None:
        with pytest.raises(EarmarkError, match="expected a number of results k"):
            Matcher().profile([{}], 0)

    def test_stats_tell_of_segments(self) -> None:
        m = Matcher("blocks")
        assert m.stats()["segments"] == 0
        m.add_many([(i, f"a > {i}") for i in range(300)])
        m.add(300, "a > 5")
        stats = m.stats()
        assert (stats["segments"], stats["index_tail"], stats["compaction_problem"]) == (2, 1, None)
        m.compact()
        stats = m.stats()
        assert (stats["segments"], stats["index_tail"], stats["subscriptions"]) == (1, 0, 301)
