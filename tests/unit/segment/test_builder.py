"""How subscriptions enter: all is checked before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from earmark import EarmarkError, Matcher, Predicate, Subscription
from earmark.keys.schema import Schema
from earmark.segment.builder import prepare, rows_of_frame


def test_prepare_leaves_no_trace() -> None:
    schema = Schema()
    prepared = prepare(schema, [("x", "a > 3 AND s = 'k'"), {"id": "y", "condition": "b"}, Subscription("z", "TRUE")])
    assert len(schema) == 0
    assert prepared.ids == ["x", "y", "z"]
    made = prepared.segment(0)
    assert len(schema) == 0
    assert made.schema.names == ["a", "s", "b"]
    assert b"k" in made.schema.strings[1]
    made.check()
    assert made.ids.objects == ["x", "y", "z"]


def test_a_row_is_named_by_number_and_id() -> None:
    for bad, reason in (
        (("x", "a >"), "row 2, subscription 'x': condition 'a >'"),
        ({"id": "x", "condition": "a >"}, "row 2, subscription 'x': condition 'a >'"),
        (Subscription("x", "a >"), "row 2, subscription 'x': condition 'a >'"),
        ("nonsense", r"row 2: expected an \(id, condition\) pair"),
        ({"condition": "a > 1"}, "row 2: a subscription has id, condition"),
    ):
        with pytest.raises(EarmarkError, match=f"^{reason}"):
            prepare(Schema(), [("p", "a > 1"), ("q", "b > 1"), bad])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pa.array([[("a", 2.0)], None], pa.map_(pa.string(), pa.float64())), [{"a": 2.0}, None]),
        (pa.array([{"a": 2.0, "b": None}, None]), [{"a": 2.0}, None]),
        (pa.array([[], None], pa.map_(pa.string(), pa.float64())), [{}, None]),
    ],
)
def test_weights_and_tags_of_frames(given: Any, expected: list[Any]) -> None:
    frame = pa.table({"id": [1, 2], "condition": ["a > 1", "b > 1"], "weights": given, "ignored": [0, 0]})
    assert [row["weights"] for row in rows_of_frame(frame)] == expected
    m = Matcher()
    m.add_many(frame)
    assert m[1].weights == (expected[0] or None)


def test_a_long_frame_keeps_its_order() -> None:
    frame = pa.table(
        {"id": range(25_000), "condition": ["TRUE"] * 25_000, "score": [float(i % 7) for i in range(25_000)]}
    )
    m = Matcher()
    assert m.add_many(frame) == 25_000
    assert m.ids() == list(range(25_000))
    assert m.top_k({}, 2) == [(6, 6.0), (13, 6.0)]


def test_progress(capsys: pytest.CaptureFixture[str]) -> None:
    m = Matcher()
    m.add_many([(i, "a > 1") for i in range(600)], progress=True)
    m.add_many([(i, "a > 1") for i in range(600, 700)], progress=False)
    assert len(m) == 700
    assert capsys.readouterr().out == ""


def test_iterators_are_read_once() -> None:
    """Also when the batch is checked again because it teaches something."""
    m = Matcher()
    assert m.add_many((f"s{i}", f"a > {i}") for i in range(3)) == 3
    assert m.add_many(iter([])) == 0
    assert m.ids() == ["s0", "s1", "s2"]


class TestBatchesAreAtomic:
    """One bad row, named; nothing else changes, whatever the form of the batch."""

    good = pa.table({"id": ["p", "q"], "condition": ["a > 1", "s = 'k'"]})

    def assert_refused(self, give: Callable[[Matcher], Any], reason: str) -> None:
        m = Matcher()
        m.add("old", "a > 1 AND s = 'm'")
        before, arrow = m.stats(), m.to_arrow()
        with pytest.raises(EarmarkError, match=reason):
            give(m)
        assert m.stats() == before
        assert m.to_arrow().equals(arrow, check_metadata=True)
        assert m.match({"a": 2, "s": "m"}) == ["old"]

    @pytest.mark.parametrize(
        ("bad", "reason"),
        [
            (("x", "new > 1 AND"), "row 1, subscription 'x': "),
            (("x", "other > 1 AND a = 'x'"), "row 1, subscription 'x': a = 'x': expected a number for 'a'"),
            (("x", "s > 5"), "row 1, subscription 'x': s > 5: expected a string for 's'"),
            (("old", "a > 5"), "row 1, subscription 'old': the id is already in use"),
            (("p", "a > 5"), "row 1, subscription 'p': the id is given twice"),
            ((5, "a > 5"), "row 1, subscription 5: expected a string as id, as the other ids are"),
            (("", "a > 5"), "row 1"),
            (5, r"row 1: expected an \(id, condition\) pair or a mapping as a subscription, got 5"),
            ({"id": "x", "condition": "a > 1", "weights": {"b": 1}}, "row 1, subscription 'x': weights refer to 'b'"),
            (
                {"id": "x", "condition": "a > 1", "score": "high"},
                "row 1, subscription 'x': score must be a number, got 'high'",
            ),
            ({"id": "x", "condition": "a > 1", "tags": [1]}, "row 1, subscription 'x': tags"),
            ({"id": "x", "condition": "a > 1", "colour": "red"}, "row 1, subscription 'x': a subscription has id"),
            (Subscription("x", "a LIKE 'x%'"), "row 1, subscription 'x': a LIKE 'x%': .* attribute 'a' is number"),
            (Subscription("x", Predicate("a", "=", "x")), "row 1, subscription 'x': a = 'x': expected a number"),
        ],
    )
    def test_rows(self, bad: Any, reason: str) -> None:
        self.assert_refused(lambda m: m.add_many([("p", "new = 'fresh' AND s = 'z'"), bad, ("q", "a > 1")]), reason)

    @pytest.mark.parametrize("frame", [lambda t: t, lambda t: t.to_pandas(), lambda t: pl.from_arrow(t)])
    def test_frame_of_conditions(self, frame: Callable[[pa.Table], Any]) -> None:
        table = pa.table({"id": ["p", "x", "q"], "condition": ["new = 'z'", "a = 'x'", "a > 1"]})
        self.assert_refused(lambda m: m.add_many(frame(table)), "row 1, subscription 'x': a = 'x': expected a number")
        table = pa.table({"id": ["p", "x"], "condition": ["new = 'z'", None]})
        self.assert_refused(lambda m: m.add_many(frame(table)), "row 1, subscription 'x': ")
        table = pa.table({"id": ["p", "x"], "condition": ["new = 'z'", "a > 1"], "weights": [None, [1, 2]]})
        self.assert_refused(lambda m: m.add_many(frame(table)), "row 1, subscription 'x': weights")

    @pytest.mark.parametrize(
        ("columns", "reason"),
        [
            ({"a_lo": [1, 2], "a_hi": [None, "x"]}, "row 1, subscription 'q': expected a number for 'a'"),
            (
                {"s_lo": ["z", None], "s_hi": [None, None], "score": [0.0, float("inf")]},
                "row 1, subscription 'q': score must be finite",
            ),
            (
                {"a_lo": [0.5, 1.5], "a_hi": [2.0, 3.0], "score": [0.0, float("nan")]},
                "row 1, subscription 'q': score must be finite",
            ),
            (
                {"a_lo": [0.5, 1.5], "a_hi": [2.0, 3.0], "score": ["x", "y"]},
                "expected numbers in the column 'score', got the type string",
            ),
            (
                {"new_lo": [1, 2], "new_hi": [3, 4], "tags": [None, [1]]},
                "row 1, subscription 'q': tags must map strings to strings",
            ),
            (
                {"new_lo": [1, 2], "new_hi": [3, 4], "weights": [None, {"b": 1.0}]},
                "row 1, subscription 'q': weights refer to 'b'",
            ),
            (
                {"new_lo": [1, 2], "new_hi": [3, 4], "weights": [None, {"new": -1.0}]},
                "row 1, subscription 'q': the weight of 'new' must be",
            ),
            (
                {"new_lo": [1, 2], "new_hi": ["a", "b"]},
                "row 0, subscription 'p': expected a number for 'new' .*; row 1, subscription 'q': ",
            ),
            ({"new_lo": [1, 2], "high": [3, 4]}, "neither a column 'condition', nor 'ranges', nor a pair"),
        ],
    )
    def test_frame_of_bounds(self, columns: dict[str, Any], reason: str) -> None:
        self.assert_refused(lambda m: m.add_many(pa.table({"id": ["p", "q"], **columns})), reason)

    @pytest.mark.parametrize(
        ("ids", "reason"),
        [
            (["p", "old"], "row 1, subscription 'old': the id is already in use"),
            (["p", "p"], "row 1, subscription 'p': the id is given twice"),
            (["p", None], "row 1"),
            ([1, 2], "row 0, subscription 1: expected a string as id"),
            ([1.5, 2.5], "row 0, subscription 1.5: expected a string or an integer as id"),
        ],
    )
    def test_ids_of_frames(self, ids: list[Any], reason: str) -> None:
        self.assert_refused(lambda m: m.add_many(pa.table({"id": ids, "new_lo": [1, 2], "new_hi": [3, 4]})), reason)
        self.assert_refused(
            lambda m: m.add_many(pa.table({"id": ids, "condition": ["new > 1", "new > 2"]})), reason.split(":")[0]
        )

    def test_frames_without_ids(self) -> None:
        self.assert_refused(lambda m: m.add_many(pa.table({"condition": ["a > 1"]})), "no column 'id'")
        self.assert_refused(lambda m: m.add_many(pa.table({"a_lo": [1], "a_hi": [2]})), "no column 'id'")

    @pytest.mark.parametrize(
        ("entry", "reason"),
        [
            ({"attribute": "a", "lo": "x", "hi": "y"}, "row 1, subscription 'q': expected a number for 'a'"),
            ({"attribute": "", "lo": "x", "hi": "y"}, "row 1, subscription 'q': expected an attribute's name"),
            (
                {"attribute": None, "lo": "x", "hi": "y"},
                "row 1, subscription 'q': an entry of 'ranges' has no attribute",
            ),
            (
                {"attribute": "s", "lo": "x", "hi": "y", "weight": -1.0},
                "row 1, subscription 'q': the weight of 's' must be finite and not negative, got -1.0",
            ),
        ],
    )
    def test_frame_of_ranges(self, entry: dict[str, Any], reason: str) -> None:
        first = {"attribute": "new", "lo": "a", "hi": "b"}
        self.assert_refused(lambda m: m.add_many(pa.table({"id": ["p", "q"], "ranges": [[first], [entry]]})), reason)

    def test_ranges_that_are_none(self) -> None:
        for ranges in ([None], [3], [[3]], [[{"attribute": "a", "lo": 1}]]):
            self.assert_refused(
                lambda m, ranges=ranges: m.add_many(pa.table({"id": ["p"], "ranges": ranges})), "ranges"
            )

    def test_native_arrow(self) -> None:
        other = Matcher()
        other.add_many([("p", "new = 'z'"), ("old", "a > 5")])
        self.assert_refused(
            lambda m: m.add_many(other.to_arrow()), "row 1, subscription 'old': the id is already in use"
        )
        other = Matcher()
        other.add_many([("p", "new = 'z'"), ("q", "a = 'x'")])
        self.assert_refused(lambda m: m.add_many(other.to_arrow()), "attribute 'a' is number .* here, but string")
        self.assert_refused(lambda m: m.add_many(other.to_arrow().drop_columns("clauses")), "lacks the columns clauses")

    def test_bounds_that_name_no_columns(self) -> None:
        frame = pa.table({"id": ["p"], "low": [1], "high": [2]})
        for bounds, reason in (
            ({"a": ("low", "nope")}, "a column 'nope', which is not there"),
            ({"a": "low"}, "a pair of columns"),
            ({"a": ("low",)}, "a pair of columns"),
        ):
            self.assert_refused(lambda m, bounds=bounds: m.add_many(frame, bounds=bounds), reason)
