"""Declaring, retyping, strictness, NaN, and what events and rules do not share."""

from __future__ import annotations

import pickle
import warnings
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import earmark
from earmark import AttributeTypeError, EarmarkError, EventError, Interval, Matcher, SubscriptionError
from earmark.engine import stats

KINDS = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 longdouble".split()


class TestAttributes:
    def test_they_say_who_fixed_the_type(self) -> None:
        m = Matcher(attributes={"price": "decimal(9,2)"})
        m.add("first", "age > 30 AND city IS NULL")
        m.add("second", "age < 90 AND price > 1")
        assert m.attributes["age"] == ("number", False, "subscription 'first': age > 30", 2)
        assert m.attributes["city"] == (None, False, None, 0)
        assert m.attributes["price"] == ("decimal(9,2)", True, "its declaration", 1)

    def test_declare(self, tmp_path: Path) -> None:
        m = Matcher()
        m.add("x", "age > 30 AND born IS NOT NULL")
        m.declare({"age": "number", "born": "date", "new": "integer"})
        assert {name: one.declared for name, one in m.attributes.items()} == {"age": True, "born": True, "new": True}
        with pytest.raises(
            AttributeTypeError, match=r"attribute 'age' is number \(declared\), it cannot become string"
        ):
            m.declare({"other": "date", "age": "string"})
        assert "other" not in m.attributes
        m.remove("x")
        m.save(tmp_path / "book")
        assert {n: a.type for n, a in Matcher.load(tmp_path / "book").attributes.items()} == {
            "age": "number", "born": "date", "new": "integer",
        }  # fmt: skip
        with pytest.raises(EarmarkError, match="expected a mapping of names to types"):
            m.declare([("a", "integer")])  # type: ignore[arg-type]

    def test_retype(self) -> None:
        m = Matcher()
        m.add_many([(1, "age >= 18 AND s = 'k'"), (2, "age > 17"), (3, "born > '2024-01-01'"), (4, "age IS NULL")])
        m.add_many(pa.table({"id": [5], "age_lo": [3], "age_hi": [None]}))
        before = [m.match({"age": v, "s": "k"}) for v in (18, 17, 3)]
        m.retype("age", "integer")
        assert [m.match({"age": v, "s": "k"}) for v in (18, 17, 3)] == before == [[1, 2, 5], [5], [5]]
        assert m.ids() == [1, 2, 3, 4, 5]
        with pytest.raises(EventError):
            m.match({"age": 17.5})
        m.retype("born", "date")
        assert m.match({"born": date(2024, 2, 1)}) == [3, 4]
        state = m._version
        with pytest.raises(
            AttributeTypeError, match=r"'age' cannot become string: 3 subscriptions were refused: subscr"
        ):
            m.retype("age", "string")
        with pytest.raises(EarmarkError, match=r"there is no attribute 'agee': did you mean 'age'\?"):
            m.retype("agee", "string")
        with pytest.raises(EarmarkError, match="'whole' is not a type"):
            m.retype("age", "whole")
        assert m._version is state
        m.check()

    def test_strict(self, tmp_path: Path) -> None:
        m = Matcher(attributes={"city": "string", "age": "integer"}, strict=True)
        m.add("x", "city = 'Oslo' AND age > 3")
        with pytest.raises(SubscriptionError, match=r"attribute 'ctiy' is not declared; did you mean 'city'\?"):
            m.add("y", "ctiy = 'Oslo'")
        with pytest.raises(SubscriptionError, match="attribute 'zzzz' is not declared; declared are city, age"):
            m.add_many(pa.table({"id": ["z"], "zzzz_lo": [1], "zzzz_hi": [2]}))
        m.save(tmp_path / "book")
        for other in (Matcher.load(tmp_path / "book"), pickle.loads(pickle.dumps(m))):
            with pytest.raises(SubscriptionError, match="not declared"):
                other.add("y", "ctiy IS NULL")
            assert other.match({"city": "Oslo", "age": 4, "ctiy": 1}) == ["x"]
        assert m.ids() == ["x"] and list(m.attributes) == ["city", "age"]


class TestEvents:
    def test_nan(self, tmp_path: Path) -> None:
        frame = pd.DataFrame({"a": [1.0, np.nan], "s": ["x", np.nan]})
        m = Matcher(nan="null")
        m.add_many([("above", "a > 5"), ("null", "a IS NULL"), ("text", "s IS NULL")])
        m.add("s", "s = 'x'")
        m.save(tmp_path / "book")
        for one in (m, Matcher.load(tmp_path / "book"), pickle.loads(pickle.dumps(m))):
            assert one.match_many(frame.to_dict("records")).equals(one.match_many(frame))
            assert one.match({"a": float("nan"), "s": np.float32("nan")}) == ["null", "text"]
            assert one.match_many(pa.table({"a": [float("nan")], "s": ["x"]}))["subscription"].to_pylist() == [
                "null",
                "s",
            ]
        plain = Matcher()
        plain.add("above", "a > 5")
        assert plain.match({"a": float("nan")}) == ["above"]
        with pytest.raises(EarmarkError, match="expected 'value' or 'null' for nan, got 'skip'"):
            Matcher(nan="skip")  # type: ignore[arg-type]

    def test_untyped_values_are_present_whatever_they_are(self) -> None:
        m = Matcher("scan")
        m.add_many([("null", "a IS NULL"), ("some", "a IS NOT NULL"), ("inner", "a.b = 5")])
        for value in (5, "x", [1], object(), {"lo": 1}, Decimal(3), Interval(1, 2)):
            assert m.match({"a": value}) == ["some"]
        assert m.match({"a": {"b": 5}}) == ["some", "inner"]
        frame = pa.table({"a": [{"b": 5}, None, {"b": None}]})
        assert m.match_many(frame)["subscription"].to_pylist() == ["some", "inner", "null", "some"]

    def test_intervals_as_mappings(self) -> None:
        m = Matcher()
        m.add("x", "a BETWEEN 10 AND 20")
        assert m.match({"a": {"lo": 1, "hi": 10}}) == m.match({"a": Interval(1, 10)}) == ["x"]
        assert m.match({"a": {"lo": 21}}) == [] and m.match({"a": {"hi": None, "lo": 3}}) == ["x"]
        with pytest.raises(EventError, match=r"an interval is earmark.Interval\(lo, hi\) or"):
            m.match({"a": {"from": 1, "to": 10}})
        with pytest.raises(EventError, match=r"^the interval of 'a' is empty: 5 is above 1$"):
            m.match({"a": {"lo": 5, "hi": 1}})

    @pytest.mark.parametrize(
        "kind", "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 longdouble".split()
    )
    def test_numpy_scalars(self, kind: str) -> None:
        m = Matcher()
        m.add_many([("n", "a = 100"), ("b", "b"), ("s", "s = 'x'"), ("d", "d = DATE '2024-02-01'")])
        m.add("t", "t = TIMESTAMP '2024-02-01 10:00:00'")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            event = {
                "a": np.dtype(kind).type(100), "b": np.bool_(True), "s": np.str_("x"),
                "d": np.datetime64("2024-02-01"), "t": np.datetime64("2024-02-01T10:00", "ns"),
            }  # fmt: skip
            assert m.match(event) == ["n", "b", "s", "d", "t"]
            assert m.match({"a": np.array(100, kind)}) == ["n"]
            assert m.top_k(event, 1, weights={"a": np.dtype(kind).type(3)})[0].score == 3.0
            m.add("w", "a = 100", weights={"a": np.dtype(kind).type(2)}, score=np.dtype(kind).type(1))
            assert m["w"].weights == {"a": 2.0} and m["w"].score == 1.0

    @pytest.mark.parametrize("declared", [False, True])
    def test_dates_as_text(self, declared: bool) -> None:
        types = {"d": "date", "t": "timestamp"} if declared else None
        m = Matcher(attributes=types)
        m.add("d", "d >= DATE '2024-02-01'")
        m.add("text", "d < '2024-03-01'")
        m.add("t", "t = TIMESTAMP '2024-02-01 10:00:00'")
        m.add("text t", "t < '2024-02-01T11:00:00Z'")
        assert m.match({"d": "2024-02-01", "t": "2024-02-01T10:00:00"}) == ["d", "text", "t", "text t"]
        assert m.match({"d": date(2024, 2, 1), "t": datetime(2024, 2, 1, 10)}) == ["d", "text", "t", "text t"]
        with pytest.raises(EventError, match="expected a date such as '2024-02-29' for 'd', got 'soon'"):
            m.match({"d": "soon"})

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda m: m.match([{"a": 1}]), "^expected a mapping of attribute names to values, got a list"),
            (lambda m: m.match_many({"a": 1}), "got one mapping; for a single event use match$"),
            (lambda m: m.match({"a": "x"}), "^expected a number for 'a'"),
            (lambda m: m.explain("x", {"a": "x"}), "^expected a number for 'a'"),
            (lambda m: m.top_k({"a": "x"}), "^expected a number for 'a'"),
            (lambda m: m.near_misses({"a": "x"}), "^expected a number for 'a'"),
            (lambda m: m.match_many([{"a": 1}, {"a": "x"}]), "^event 1: expected a number for 'a'"),
            (lambda m: m.add("x", "a > 3"), "^subscription 'x': the id is already in use"),
            (lambda m: m.add("y", "a > 'b'"), "^subscription 'y': a > 'b': expected a number for 'a'"),
            (lambda m: m.remove("y"), "^there is no subscription 'y' to remove"),
        ],
    )
    def test_single_calls_do_not_number(self, call: Any, message: str) -> None:
        m = Matcher("scan")
        m.add("x", "a > 3")
        with pytest.raises(EarmarkError, match=message):
            call(m)


class TestUnseen:
    def test_names_that_rules_and_events_do_not_share(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(stats, "WINDOW", 10)
        m = Matcher("scan")
        m.add_many([("x", "ctiy = 'Oslo' AND user.age > 3"), ("y", "city IS NOT NULL")])
        for _ in range(3):
            m.match({"city": "Oslo", "user": {"age": 3}, "colour": "red"})
        assert m.unseen_attributes() == earmark.Unseen(["ctiy"], ["colour"], 3)
        m.match_many(pa.table({"ctiy": ["Oslo"] * 9}))
        assert m.unseen_attributes().in_rules == []
        for _ in range(25):
            m.match({"city": "Rome"})
        assert m.unseen_attributes().in_rules == ["ctiy", "user.age"]
        assert m.unseen_attributes().in_events == []


def test_pickles() -> None:
    m = Matcher("blocks", {"p": "decimal(9,2)"}, "Europe/Paris", index_options={})
    m.add_many([(1, "a > 3 AND s = 'x'"), (2, "p = 3.50"), (3, "t > TIMESTAMP '2024-01-01 00:00:00'")])
    m.update(1, weights={"a": 2.0}, tags={"k": "v"})
    other = pickle.loads(pickle.dumps(m))
    assert (other.index, other.ids(), other.attributes) == (m.index, m.ids(), m.attributes)
    assert [other[one] for one in other.ids()] == [m[one] for one in m.ids()]
    other.add(4, "a > 3")
    assert m.ids() == [1, 2, 3]
