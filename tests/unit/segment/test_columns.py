"""Ready-made subscriptions: columns of bounds and lists of ranges."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from earmark import Interval, Matcher

LATE = datetime(2024, 3, 1, 12, tzinfo=UTC)
EARLY = datetime(2024, 1, 1, tzinfo=UTC)


def filled(columns: Any, attributes: dict[str, str] | None = None, **options: Any) -> Matcher:
    m = Matcher(attributes=attributes)
    m.add_many(columns if hasattr(columns, "columns") else pa.table(columns), **options)
    m._version.check()
    return m


@pytest.mark.parametrize(
    ("kind", "lo", "hi", "inside", "outside", "text"),
    [
        (None, 3, 5, [3, 4, 5, 4.0], [2, 6], "a BETWEEN 3 AND 5"),
        (None, 3, 3, [3], [2, 4], "a = 3"),
        (None, None, 5, [-(2**63), 5], [6], "a <= 5"),
        (None, 3, None, [3, 2**63 - 1], [2], "a >= 3"),
        ("integer", -(2**63), 2**63 - 1, [0], [], "a IS NOT NULL"),
        (
            None,
            -(2**63),
            2**63 - 1,
            [0, 2**63 - 1],
            [2**63, float("inf"), -1e19],
            f"a BETWEEN {-(2**63)} AND {2**63 - 1}",
        ),
        (None, 2**53 + 1, 2**53 + 1, [2**53 + 1, Decimal(2**53 + 1)], [2**53, 2.0**53, 2**53 + 2], f"a = {2**53 + 1}"),
        (None, -0.0, 2.5, [0.0, -0.0, 2.5, 1], [-5e-324, 2.6, float("nan")], "a BETWEEN 0 AND 2.5D"),
        ("float", -0.0, 2.5, [0.0, -0.0, 2.5, 1], [-5e-324, 2.6, float("nan")], "a BETWEEN 0.0D AND 2.5D"),
        (None, 2.5, float("inf"), [2.5, float("inf")], [2.4, float("nan")], None),
        (None, float("nan"), None, [float("nan")], [float("inf")], None),
        (None, "b", "ba", ["b", "b\0", "ba"], ["a", "baa", "c"], "a BETWEEN 'b' AND 'ba'"),
        (None, "it's", None, ["it's", "z"], ["it"], "a >= 'it''s'"),
        (None, "", "", [""], ["\0"], None),
        (None, False, False, [False], [True], "a <= FALSE"),
        (
            None,
            date(2024, 1, 5),
            date(2024, 2, 1),
            [date(2024, 1, 5)],
            [date(2024, 2, 2)],
            "a BETWEEN DATE '2024-01-05' AND DATE '2024-02-01'",
        ),
        (None, EARLY, LATE, [EARLY, LATE], [datetime(2024, 3, 1, 12, 0, 0, 1, tzinfo=UTC)], None),
        (
            "decimal(9,2)",
            Decimal("1.50"),
            Decimal("2.25"),
            [Decimal("1.5"), 2, 2.25],
            [Decimal("1.49"), 3],
            "a BETWEEN 1.50 AND 2.25",
        ),
        ("decimal(9,2)", Decimal("1.505"), None, [Decimal("1.51")], [Decimal("1.50")], "a >= 1.51"),
        ("float", Decimal("1.5"), Decimal("2.5"), [1.5, 2.5], [1.4], "a BETWEEN 1.5D AND 2.5D"),
        ("integer", 2.5, 4.5, [3, 4], [2, 5], "a BETWEEN 3 AND 4"),
        ("integer", Decimal("2.5"), None, [3], [2], "a >= 3"),
        ("integer", 9.3e18, None, [], [2**63 - 1], None),
        ("float", 1, 2, [1.0, 1.5], [0.5], "a BETWEEN 1.0D AND 2.0D"),
        ("date", EARLY, None, [date(2024, 1, 1)], [date(2023, 12, 31)], "a >= DATE '2024-01-01'"),
        ("timestamp", date(2024, 1, 1), None, [EARLY], [datetime(2023, 12, 31)], None),
    ],
)
def test_bounds_of_every_type(
    kind: str | None, lo: Any, hi: Any, inside: list[Any], outside: list[Any], text: str | None
) -> None:
    attributes = {} if kind is None else {"a": kind}
    nothing = pa.array([None], pa.array([lo if hi is None else hi]).type)
    columns = {"id": ["x"], "a_lo": nothing if lo is None else [lo], "a_hi": nothing if hi is None else [hi]}
    entry = {"attribute": "a", "lo": lo, "hi": hi}
    for m in (filled(columns, attributes), filled({"id": ["x"], "ranges": [[entry]]}, attributes)):
        assert [m.match({"a": value}) for value in inside] == [["x"]] * len(inside)
        assert [m.match({"a": value}) for value in outside] == [[]] * len(outside)
        assert m.match({}) == []
        condition = m["x"].condition
        assert text is None or condition == text
        again = Matcher(attributes=m.stats()["attributes"])
        again.add("x", condition)
        assert [again.match({"a": value}) for value in inside + outside] == [["x"]] * len(inside) + [[]] * len(outside)
        m.update("x", score=1.0)
        assert [m.match({"a": value}) for value in inside] == [["x"]] * len(inside)


def test_null_leaves_open_or_unconstrained() -> None:
    m = filled(
        {
            "id": [0, 1, 2],
            "a_lo": [1, None, None],
            "a_hi": [None, 5, None],
            "b_lo": [None, None, 7],
            "b_hi": [None, None, 7],
        }
    )
    assert m.match({"a": 3}) == [0, 1]
    assert m.match({"a": 9, "b": 7}) == [0, 2]
    assert m.match({"b": 7}) == [2]
    assert m.stats()["constraints"] == 3


def test_a_row_that_asks_for_nothing_matches_all() -> None:
    for m in (
        filled({"id": [0], "a_lo": pa.array([None], pa.int64()), "a_hi": pa.array([None], pa.int64())}),
        filled({"id": [0], "a_lo": pa.nulls(1), "a_hi": pa.nulls(1)}),
        filled(
            {
                "id": [0],
                "ranges": pa.array(
                    [[]], pa.list_(pa.struct({"attribute": pa.string(), "lo": pa.int64(), "hi": pa.int64()}))
                ),
            }
        ),
        filled({"id": [0], "ranges": [[{"attribute": "a", "lo": None, "hi": None}]]}),
    ):
        assert m.match({}) == m.match({"a": 1}) == [0]
        assert m[0].condition == "TRUE"


def test_a_lower_bound_above_the_upper_never_matches() -> None:
    m = filled({"id": [0, 1], "a_lo": [5, 1], "a_hi": [3, 3], "b_lo": [1, 1], "b_hi": [2, 2]})
    assert m.never_matching() == [0]
    assert m.match({"a": Interval(0, 9), "b": 1}) == [1]
    assert m[0].condition == "(a IS NULL AND a IS NOT NULL) AND b BETWEEN 1 AND 2"
    assert m.top_k({"a": 4, "b": 1}, mode="relaxed") == [(0, 1.0), (1, 1.0)]


def test_named_bounds() -> None:
    frame = pa.table({"id": ["x"], "min_age": [22], "max_age": [36], "age_lo": [0], "age_hi": [1], "other": [5]})
    m = filled(frame, bounds={"age": ("min_age", "max_age"), "exact": ("other", "other")})
    assert m.match({"age": 30, "exact": 5}) == ["x"]
    assert m.stats()["attributes"] == {"age": "number", "exact": "number"}


class TestRanges:
    def test_several_on_one_attribute_intersect(self) -> None:
        m = filled(
            {
                "id": ["x", "y", "z"],
                "ranges": [
                    [
                        {"attribute": "a", "lo": 1, "hi": 9},
                        {"attribute": "b", "lo": 0, "hi": None},
                        {"attribute": "a", "lo": 3, "hi": 99},
                    ],
                    [{"attribute": "a", "lo": 1, "hi": 2}, {"attribute": "a", "lo": 3, "hi": 4}],
                    [{"attribute": "a", "lo": None, "hi": 5}, {"attribute": "a", "lo": 5, "hi": None}],
                ],
            }
        )
        assert m.match({"a": 3, "b": 0}) == ["x"]
        assert m.match({"a": 9, "b": 0}) == ["x"]
        assert m.match({"a": 2, "b": 0}) == m.match({"a": 10, "b": 0}) == []
        assert m.match({"a": 5}) == ["z"]
        assert m.never_matching() == ["y"]
        assert m["x"].condition == "a BETWEEN 3 AND 9 AND b >= 0"
        assert m.stats()["constraints"] == 4

    def test_weights(self) -> None:
        entries = [
            [{"attribute": "a", "lo": 1, "hi": 9, "weight": 0.25}, {"attribute": "b", "lo": 1, "hi": 9, "weight": None}]
        ]
        m = filled({"id": ["x"], "ranges": entries, "score": [0.5]})
        assert m.top_k({"a": 1, "b": 1}) == [("x", 1.75)]
        assert m.top_k({"a": 1, "b": 1}, weights={"a": 2.0}) == [("x", 2.0)]
        assert m["x"].weights == {"a": 0.25}

    def test_in_slices_chunks_and_other_libraries(self) -> None:
        entries = [[{"attribute": "a", "lo": i, "hi": i}] * (i % 3) for i in range(10)]
        table = pa.table({"id": range(10), "ranges": entries})
        wanted = [i for i in range(10) if i % 3 == 0 or i == 4]
        assert filled(table).match({"a": 4}) == wanted
        assert filled(table.slice(3, 5)).match({"a": 4}) == [i for i in wanted if 3 <= i < 8]
        assert filled(pa.concat_tables([table.slice(0, 4), table.slice(4)])).match({"a": 4}) == wanted
        assert filled(pl.from_arrow(table)).match({"a": 4}) == wanted
        assert filled(table.to_pandas()).match({"a": 4}) == wanted

    def test_attribute_names_as_categories(self) -> None:
        names = pa.array(["b", "a"]).dictionary_encode()
        flat = pa.StructArray.from_arrays([names, pa.array([1, 2]), pa.array([1, 2])], ["attribute", "lo", "hi"])
        m = filled({"id": ["x", "y"], "ranges": pa.ListArray.from_arrays([0, 1, 2], flat)})
        assert m.match({"a": 2, "b": 1}) == ["x", "y"]


def test_weights_scores_and_tags_beside_bounds() -> None:
    m = filled(
        {
            "id": ["x", "y", "z"],
            "a_lo": [1, 1, 1],
            "a_hi": [9, 9, 9],
            "b_lo": [None, 1, 1],
            "b_hi": [None, 9, 9],
            "score": [1.0, None, 3.0],
            "weights": [{"a": 2.0, "b": 5.0}, {"a": None, "b": 0.5}, None],
            "tags": pa.array([[("t", "1")], None, [("t", "2")]], pa.map_(pa.string(), pa.string())),
        }
    )
    assert m.top_k({"a": 1, "b": 1}) == [("z", 5.0), ("x", 3.0), ("y", 1.5)]
    assert m.match({"a": 1, "b": 1}, scope={"t": "2"}) == ["z"]


def test_types_are_learned_from_either_side() -> None:
    m = filled({"id": ["x"], "a_lo": [1], "a_hi": [2.5], "b_lo": pa.array([None], pa.int64()), "b_hi": [4]})
    assert m.stats()["attributes"] == {"a": "number", "b": "number"}
    assert m.match({"a": 2.5, "b": 4}) == ["x"]
    assert m["x"].condition == "a BETWEEN 1 AND 2.5D AND b <= 4"


def test_categories_and_unsigned() -> None:
    frame = pd.DataFrame(
        {
            "id": ["x", "y"],
            "s_lo": pd.Categorical(["b", "a"], categories=["a", "b", "unused"]),
            "s_hi": ["c", "c"],
            "u_lo": np.array([0, 2**64 - 1], np.uint64),
            "u_hi": np.array([2**64 - 1, 2**64 - 1], np.uint64),
        }
    )
    m = filled(frame)
    assert m.match({"s": "b", "u": 3}) == ["x"]
    assert m.match({"s": "b", "u": 2**64 - 1}) == ["x", "y"]
    assert m.match({"s": "b", "u": 2**64}) == []
    assert m.never_matching() == []
    m = filled(frame, attributes={"u": "integer"})
    assert m.match({"s": "b", "u": 3}) == ["x"]
    assert m.never_matching() == ["y"]


def test_nothing_to_add() -> None:
    m = filled({"id": pa.array([], pa.string()), "a_lo": pa.array([], pa.int64()), "a_hi": pa.array([], pa.int64())})
    assert len(m) == 0
    m.add(5, "a = 'x'")
    assert m.match({"a": "x"}) == [5]
