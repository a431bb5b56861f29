"""Types that are learned, clash, or widen from integer to float."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from earmark import AttributeTypeError, EarmarkError, EventError, Interval, Matcher

EXACT = 2**53


def matcher(*conditions: str, **attributes: str) -> Matcher:
    made = Matcher(attributes=attributes)
    made.add_many(enumerate(conditions))
    return made


class TestWidening:
    conditions = ("a > 3", "a < 4", "a >= 3 AND a != 4", "a = 3", "a IN (3, 4)", "a NOT IN (3)", "a BETWEEN 3 AND 4")

    @pytest.mark.parametrize(
        "give",
        [
            lambda m: m.match({"a": 3.5}),
            lambda m: [x.id for x in m.top_k({"a": 3.5})],
            lambda m: m.match({"a": np.float32(3.5)}),
            lambda m: m.match_many([{"a": 3.5}])["subscription"].to_pylist(),
            lambda m: m.match_many(pa.table({"a": [3.5]}))["subscription"].to_pylist(),
            lambda m: m.match_many(pd.DataFrame({"a": [3.5]}))["subscription"].to_pylist(),
            lambda m: m.match({"a": Interval(3.5, 3.5)}),
            lambda m: m.match_many(pa.table({"a": [{"lo": 3.5, "hi": 3.5}]}))["subscription"].to_pylist(),
            lambda m: [i for i in m.ids() if m.explain(i, {"a": 3.5}).matched],
        ],
    )
    def test_at_the_first_fractional_value(self, give: Any) -> None:
        m = matcher(*self.conditions)
        assert m.match({"a": 3}) == [1, 2, 3, 4, 6]
        assert give(m) == [0, 1, 2, 5, 6]
        assert m.stats()["attributes"] == {"a": "float"}
        assert m.match({"a": 3}) == [1, 2, 3, 4, 6]
        assert m.match({"a": 4}) == [0, 4, 5, 6]
        assert m.match({"a": float("nan")}) == [0, 2, 5]
        m._table.check()

    def test_everything_else_stays(self) -> None:
        m = Matcher()
        m.add("x", "a > 3 AND s = 'k' OR b", weights={"a": 2.0, "s": 5.0}, score=0.5, tags={"tenant": "acme"})
        m.add("y", "b OR s LIKE 'k%'")
        m.add_many(pa.table({"id": ["r"], "a_lo": [3], "a_hi": [4], "weights": [{"a": 7.0}]}))
        m.add("gone", "a > 9")
        m.remove("gone")
        m.update("x", score=1.5)
        before = [m.get(one) for one in m.ids()]
        assert [tuple(r) for r in m.top_k({"a": 3.5, "s": "k"})] == [("x", 8.5), ("r", 7.0), ("y", 1.0)]
        assert [m.get(one) for one in m.ids()] == [*before[:2], m.get("r")]
        assert m.get("r").condition == "a BETWEEN 3.0D AND 4.0D"
        assert m.ids() == ["x", "y", "r"]
        m._table.check()
        m.add("z", "a > 3.25")
        assert m.match({"a": 3.5}) == ["r", "z"]

    def test_open_and_never_matching_bounds(self) -> None:
        m = Matcher()
        m.add_many(pa.table({"id": [0, 1, 2, 3], "a_lo": [None, 2, 5, -EXACT], "a_hi": [2, None, 3, EXACT]}))
        m.add(4, "a IS NOT NULL")
        m.add(5, "a IS NULL")
        m.add(6, "a < 3 AND a > 3")
        m.add(7, "a < 4 AND a > 3")
        assert m.match({"a": 2.0}) == [0, 1, 3, 4]
        assert m.never_matching() == [2, 6, 7]
        assert m.match({"a": 3.5}) == [1, 3, 4, 7]
        assert m.never_matching() == [2, 6]
        assert m.match({"a": float("inf")}) == [1, 4]
        assert m.match({"a": float("-inf")}) == [0, 4]
        assert m.match({}) == [5]

    @pytest.mark.parametrize("bound", [EXACT + 1, -EXACT - 1, 2**63 - 1, -(2**63) + 1, 2**62])
    def test_refused_beyond_what_a_float_holds(self, bound: int) -> None:
        made = [matcher(f"a = {bound}"), matcher(f"a != {bound}"), Matcher()]
        made[2].add_many(pa.table({"id": [0], "a_lo": [bound], "a_hi": [bound]}))
        for m in made:
            with pytest.raises(
                AttributeTypeError, match=r"'a' is integer .*beyond 2\^53.*value 22.5; declare it as float"
            ):
                m.match({"a": 22.5})
            assert m.stats()["attributes"] == {"a": "integer"}
            assert m.explain(0, {"a": bound}).matched is (m.match({"a": bound}) == [0])

    def test_the_removed_do_not_stand_in_the_way(self) -> None:
        m = matcher("a > 3", f"a != {2**62}", "s = 'x'")
        m.remove(1)
        assert m.match({"a": 3.5}) == [0]
        assert m.get(2).condition == "s = 'x'"
        m._table.check()

    def test_declared_never_widens(self) -> None:
        m = matcher("a > 3", a="integer")
        for event in ({"a": 22.5}, {"a": Interval(1, 22.5)}, {"a": float("nan")}):
            with pytest.raises(
                AttributeTypeError, match=r"attribute 'a' is integer \(declared\), but the event gives the float"
            ):
                m.match(event)
        with pytest.raises(AttributeTypeError, match="event 1: attribute 'a' is integer"):
            m.match_many(pa.table({"a": [1.0, 22.5]}))
        assert m.match({"a": 22.0}) == [0]
        m.add_many(pa.table({"id": [1], "a_lo": [3.5], "a_hi": [4.5]}))
        assert m.match({"a": 4}) == [0, 1]
        assert m.stats()["attributes"] == {"a": "integer"}

    def test_by_a_column_of_bounds(self) -> None:
        m = matcher("a > 3")
        m.add_many(pa.table({"id": [1], "a_lo": [3.25], "a_hi": [3.75]}))
        assert m.match({"a": 3.5}) == [0, 1]
        assert m.stats()["attributes"] == {"a": "float"}

    def test_a_constant_that_no_bound_lies_on(self) -> None:
        """Compaction forgets such constants; the condition still asks for them."""
        m = matcher("a > 3 AND s = 'a' AND s < 'zzz'", *(f"s = 'c{i}'" for i in range(9)))
        m.remove_many(range(1, 10))
        m.compact()
        assert m.match({"a": 3.5, "s": "a"}) == [0]
        m._table.check()

    def test_whole_floats_do_not_widen(self) -> None:
        m = matcher("a > 3")
        assert m.match({"a": 4.0}) == [0]
        assert m.match_many(pa.table({"a": [4.0, None, 2.0]}))["event"].to_pylist() == [0]
        assert m.match({"a": Decimal("4")}) == [0]
        assert m.stats()["attributes"] == {"a": "integer"}

    def test_survives_files_and_arrow(self, tmp_path: Any) -> None:
        m = matcher("a > 3")
        m.match({"a": 0.5})
        m.save(tmp_path / "t")
        other = Matcher()
        other.add_many(m.to_arrow())
        for again in (Matcher.load(tmp_path / "t"), other):
            assert again.match({"a": 3.5}) == [0]


class TestLearning:
    @pytest.mark.parametrize(
        ("literal", "kind"),
        [
            ("3", "integer"),
            ("3.5", "float"),
            ("3D", "float"),
            ("'x'", "string"),
            ("TRUE", "boolean"),
            ("DATE '2024-01-05'", "date"),
            ("TIMESTAMP '2024-01-05 08:00:00'", "timestamp"),
        ],
    )
    def test_from_a_condition(self, literal: str, kind: str) -> None:
        m = matcher(f"a IS NULL AND NOT (a = NULL) OR a <= {literal}")
        assert m.stats()["attributes"] == {"a": kind}

    @pytest.mark.parametrize(
        ("value", "kind"),
        [
            (3, "integer"),
            (3.5, "float"),
            (np.int32(3), "integer"),
            ("x", "string"),
            (True, "boolean"),
            (date(2024, 1, 5), "date"),
            (datetime(2024, 1, 5), "timestamp"),
            (Interval(3, 4), "integer"),
            (Interval(None, "x"), "string"),
        ],
    )
    def test_from_an_event(self, value: Any, kind: str) -> None:
        m = matcher("a IS NULL", "a IS NOT NULL", "a <=> NULL")
        assert m.match({}) == [0, 2]
        assert m.stats()["attributes"] == {"a": None}
        assert m.match({"a": value}) == [1]
        assert m.stats()["attributes"] == {"a": kind}
        assert m.match({}) == [0, 2]
        m._table.check()

    @pytest.mark.parametrize(
        ("column", "kind"),
        [
            (pa.array([None, 3]), "integer"),
            (pa.array([None, 3], pa.uint8()), "integer"),
            (pa.array([None, 3.5]), "float"),
            (pa.array([None, "x"]).dictionary_encode(), "string"),
            (pa.array([None, "x"], pa.large_string()), "string"),
            (pa.array([None, date(2024, 1, 5)]), "date"),
            (pa.array([None, datetime(2024, 1, 5)]), "timestamp"),
            (pa.array([None, None]), None),
            (pa.array([None, {"lo": 1.5, "hi": None}]), "float"),
        ],
    )
    def test_from_a_column(self, column: Any, kind: str | None) -> None:
        m = matcher("a IS NULL", "a IS NOT NULL")
        found = m.match_many(pa.table({"a": column}))["subscription"].to_pylist()
        assert found == ([0, 0] if kind is None else [0, 1])
        assert m.stats()["attributes"] == {"a": kind}

    def test_what_an_event_taught_binds_later_subscriptions(self) -> None:
        m = matcher("a IS NULL")
        m.match({"a": "text"})
        with pytest.raises(AttributeTypeError, match=r"'a' is string \(first used so by an event's value 'text'\)"):
            m.add(1, "a > 5")

    @pytest.mark.parametrize("value", [Decimal("1.5"), b"x", [1], object(), {"b": 1}])
    def test_what_teaches_nothing(self, value: Any) -> None:
        m = matcher("a IS NULL")
        with pytest.raises(EventError, match="event 0: attribute 'a'"):
            m.match({"a": value})
        assert m.stats()["attributes"] == {"a": None}


class TestClashes:
    """The sentence names both uses."""

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ("a > 3", "a = 'x'"),
            ("a = 'x'", "a > 3"),
            ("a > 3", "a"),
            ("a", "a = 1"),
            ("a = DATE '2024-01-05'", "a = '2024-01-05'"),
            ("a = 'x'", "a = DATE '2024-01-05'"),
            ("a > 3", "a LIKE 'x%'"),
            ("a > 3", "a IN (1, DATE '2024-01-05')"),
            ("a > 3.5", "a BETWEEN 'x' AND 'y'"),
            ("a = TIMESTAMP '2024-01-05 08:00:00'", "a = 5"),
        ],
    )
    def test_between_conditions(self, first: str, second: str) -> None:
        m = matcher(first)
        with pytest.raises(AttributeTypeError) as problem:
            m.add(1, second)
        text = str(problem.value)
        assert text.startswith("subscription 1: attribute 'a' is ")
        assert "(first used so by subscription 0: " in text
        assert "which does not go with " in text
        assert m.ids() == [0]

    def test_inside_one_condition_and_one_batch(self) -> None:
        with pytest.raises(
            AttributeTypeError, match=r"first used so by subscription 'x': a > 3.*does not go with a = 'y'"
        ):
            Matcher().add("x", "a > 3 AND b = 1 OR a = 'y'")
        m = Matcher()
        with pytest.raises(
            AttributeTypeError, match=r"row 1, subscription 'y': attribute 'a' is integer .*subscription 'x'"
        ):
            m.add_many([("x", "a > 3"), ("y", "a = 'y'")])
        m.add("y", "a = 'y'")
        assert m.stats()["attributes"] == {"a": "string"}

    @pytest.mark.parametrize(
        ("condition", "value"),
        [
            ("a > 3", "x"),
            ("a > 3", True),
            ("a = 'x'", 3),
            ("a", 1),
            ("a > 3.5", "x"),
            ("a > 3.5", False),
            ("a > 3", date(2024, 1, 5)),
            ("a = DATE '2024-01-05'", "2024-01-05"),
            ("a = DATE '2024-01-05'", datetime(2024, 1, 5)),
            ("a > 3", Decimal("1.5")),
        ],
    )
    def test_with_an_event(self, condition: str, value: Any) -> None:
        m = matcher(condition)
        with pytest.raises(
            EarmarkError, match=r"event 0: attribute 'a' is .*\(first used so by subscription 0: .*but the event gives"
        ):
            m.match({"a": value})
        with pytest.raises(
            EarmarkError, match=r"event 1: attribute 'a' is .*\(first used so by subscription 0: .*but the event gives"
        ):
            m.match_many([{}, {"a": value}])

    def test_declared(self) -> None:
        m = Matcher(attributes={"a": "integer", "d": "date", "t": "timestamp", "m": "decimal(9,2)"})
        with pytest.raises(AttributeTypeError, match=r"'a' is integer \(declared\), which does not go with a = 'x'"):
            m.add(1, "a = 'x'")
        m.add(1, "d = '2024-01-05' AND t > '2024-01-05 08:00:00' AND m = 1.50")
        assert m.match({"d": "2024-01-05", "t": "2024-01-05 08:00:00.000001", "m": Decimal("1.5")}) == [1]
        with pytest.raises(EarmarkError, match="'d'"):
            m.match({"d": "yesterday"})
        with pytest.raises(EventError, match=r"'m': .*1.505.* is not a decimal\(9,2\) without rounding"):
            m.match({"m": Decimal("1.505")})
