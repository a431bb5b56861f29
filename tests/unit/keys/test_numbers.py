"""Learned numbers: positions and keys against exact rational comparison, and types that are learned, clash or are free.

The model is naive: a whole number is itself, any other its nearest double, as a `Fraction`; NaN is above all.
"""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from earmark import AttributeTypeError, EarmarkError, EventError, Interval, Matcher
from earmark.keys.numbers import (
    EDGE,
    FAR,
    HIGHEST,
    LOWEST,
    constant_of,
    float_key,
    float_of_key,
    narrow_key,
    narrowed,
    number_at,
    position_at,
    position_of,
    wide_keys,
    widened,
)
from earmark.keys.schema import INT64_MAX, INT64_MIN
from earmark.keys.sets import KeySet
from earmark.keys.strings import StringKeys

EXACT = 2**53


def exact(value: Any) -> tuple[int, Fraction]:
    """A key that orders numbers as they should be."""
    if value != value:
        return 2, Fraction(0)
    if not isinstance(value, int) and math.isinf(value):
        return (1 if value > 0 else -1), Fraction(0)
    whole = Fraction(value).denominator == 1
    return 0, Fraction(value) if whole else Fraction(float(value))


def matcher(*conditions: str, **attributes: str) -> Matcher:
    made = Matcher(attributes=attributes)
    made.add_many(enumerate(conditions))
    return made


near_the_edge = st.integers(-3, 3).flatmap(
    lambda step: st.sampled_from([s * e + step for e in (0, EXACT, 2**54, 2**63, 2**64, 10**38) for s in (1, -1)])
)
decimals = st.decimals(-(10**20), 10**20, places=3) | st.decimals(-2, 2, places=25)
numbers = near_the_edge | st.integers(-(2**70), 2**70) | st.floats() | near_the_edge.map(float) | decimals
small = st.integers(-9, 9) | st.integers(-18, 18).map(lambda n: n / 2) | st.sampled_from([0.1, -0.0, Decimal("0.1")])
"""Numbers that meet each other."""


# --- positions -------------------------------------------------------------------------------------------------------


@given(numbers | small, numbers | small)
@example(EXACT, float(EXACT))
@example(EXACT + 1, float(EXACT + 2))
@example(10**400, math.inf)
@example(-(10**400), -math.inf)
@example(1e308, 10**309)
@example(Decimal("0.1"), 0.1)
@example(Decimal("9007199254740993.5"), EXACT + 2)
def test_positions_keep_order(a: Any, b: Any) -> None:
    assert (position_of(a) < position_of(b)) == (exact(a) < exact(b))
    assert (position_of(a) == position_of(b)) == (exact(a) == exact(b))


@given(numbers | small)
def test_a_position_gives_its_number_back(value: Any) -> None:
    again = number_at(position_of(value))
    assert exact(again) == exact(value)
    assert isinstance(again, int) == (exact(value)[0] == 0 and exact(value)[1].denominator == 1)


@given(st.integers(-EDGE - 10, EDGE + 10) | st.integers(LOWEST + 10, HIGHEST - 10))
def test_neighbours_have_nothing_between_them(position: int) -> None:
    """A number is at every position up to what bounds can be, and its neighbour is the next there is."""
    if abs(position) < FAR - 2**1000:
        below, above = number_at(position), number_at(position + 1)
        assert exact(below) < exact(above)
        assert position_of(below) == position and position_of(above) == position + 1
        if abs(position) < EDGE:
            assert float((Fraction(below) + Fraction(above)) / 2) in (below, above)
        else:
            assert isinstance(below, int) and above == below + 1


@given(numbers, numbers)
def test_constants_keep_order(a: Any, b: Any) -> None:
    a, b = position_of(a), position_of(b)
    assert (constant_of(a) < constant_of(b)) == (a < b)
    assert position_at(constant_of(a)) == a


@pytest.mark.parametrize("constant", [b"", b"x", b"\x80", b"\x80" + b"\0" * 8, b"\x81" + b"\xff" * 140, b"\x90" * 10])
def test_what_is_no_constant(constant: bytes) -> None:
    with pytest.raises(AssertionError):
        position_at(constant)


# --- narrow and wide -------------------------------------------------------------------------------------------------


@given(small | st.floats(-(2.0**52), 2.0**52) | st.sampled_from([math.inf, -math.inf, math.nan]), numbers | small)
def test_narrow_keys_are_on_the_right_side_of_narrow_bounds(bound: Any, value: Any) -> None:
    position = position_of(bound)
    below, upto = KeySet(((LOWEST, position - 1),), False), KeySet(((LOWEST, position),), False)
    if position == LOWEST:
        below = KeySet((), False)
    for numbers_, holds in ((below, exact(value) < exact(bound)), (upto, exact(value) <= exact(bound))):
        narrow = narrowed(numbers_)
        assert narrow is not None
        assert widened(narrow) == numbers_
        key = narrow_key(value)
        assert any(lo <= key <= hi for lo, hi in narrow.intervals) == holds


@pytest.mark.parametrize("bound", [EXACT, EXACT + 1, -EXACT, 2**63, 10**38, 1e300, -1e300])
def test_bounds_that_are_not_narrow(bound: Any) -> None:
    position = position_of(bound)
    assert narrowed(KeySet(((position, position),), False)) is None


COLUMNS = [
    *(
        (pa.from_numpy_dtype(t), st.integers(int(np.iinfo(t).min), int(np.iinfo(t).max)))
        for t in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
    ),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.decimal128(38, 3), decimals.map(lambda d: d.quantize(Decimal("0.001")))),
]


@given(
    st.lists(numbers | small, min_size=1, max_size=9),
    st.lists(near_the_edge | st.integers(INT64_MIN, 2**64 - 1) | st.floats(), max_size=9),
)
def test_wide_keys_of_arrays(bounds: list[Any], values: list[Any]) -> None:
    strings = StringKeys()
    assert strings.insert({constant_of(position_of(bound)) for bound in bounds} - {constant_of(LOWEST)})
    arrays = [
        np.array([v for v in values if isinstance(v, int) and INT64_MIN <= v <= INT64_MAX], np.int64),
        np.array([v for v in values if isinstance(v, int) and 0 <= v < 2**64], np.uint64),
        np.array([v for v in values if isinstance(v, int) and abs(v) < 2**31], np.int32),
        np.array([v for v in values if isinstance(v, float)], np.float64),
    ]
    for array in arrays:
        wanted = [strings.of_value(constant_of(position_of(value))) for value in array.tolist()]
        assert wide_keys(strings, array).tolist() == wanted


OPERATORS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">=": lambda a, b: a >= b,
    ">": lambda a, b: a > b,
}


def literal(value: Any) -> str:
    return (
        f"{value!r}D" if isinstance(value, float) else format(value, "f") if isinstance(value, Decimal) else str(value)
    )


bounds_narrow = small.filter(lambda v: v == v)
bounds_wide = near_the_edge.filter(lambda v: abs(v) < 10**38) | near_the_edge.map(float)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("type_", "values"), COLUMNS, ids=[str(t) for t, _ in COLUMNS])
@given(data=st.data())
@settings(max_examples=20)
def test_answers_are_exact(wide: bool, type_: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject) -> None:
    """Conditions of every kind of literal; events one by one and as a column of every type of number."""
    bounds = data.draw(st.lists(bounds_narrow | bounds_wide if wide else bounds_narrow, min_size=1, max_size=4))
    asked = [(op, bound) for bound in bounds for op in OPERATORS]
    m = matcher(*(f"a {op} {literal(bound)}" for op, bound in asked))
    column = pa.array(data.draw(st.lists(values, min_size=1, max_size=6)), type_)
    given_ = column.to_pylist()
    wanted = [
        [i for i, (op, bound) in enumerate(asked) if OPERATORS[op](exact(value), exact(bound))] for value in given_
    ]
    assert [m.match({"a": value}) for value in given_] == wanted
    found = m.match_many(pa.table({"a": column}))
    pairs = list(zip(found["event"].to_pylist(), found["subscription"].to_pylist(), strict=True))
    assert pairs == [(e, i) for e, ids in enumerate(wanted) for i in ids]
    assert m.attributes["a"].type == "number"
    m._version.check()


@given(
    st.lists(bounds_narrow, min_size=1, max_size=3),
    st.lists(bounds_wide, min_size=1, max_size=3),
    st.lists(numbers | small, min_size=1, max_size=6),
)
@settings(max_examples=50)
def test_a_write_makes_it_wide(narrow: list[Any], wide: list[Any], values: list[Any]) -> None:
    """What was asked before means the same then, and after what made it wide has gone; a free type leaves nothing."""
    asked = [(op, bound) for bound in (*narrow, *wide) for op in OPERATORS]
    first = len(narrow) * len(OPERATORS)
    texts = [f"a {op} {literal(bound)}" for op, bound in asked]

    def wanted(value: Any, ids: range) -> list[int]:
        return [i for i in ids if OPERATORS[asked[i][0]](exact(value), exact(asked[i][1]))]

    m = matcher(*texts[:first])
    assert not m._version.schema.strings
    m.add(-1, "a IS NOT NULL")
    for value in values:
        assert m.match({"a": value}) == [*wanted(value, range(first)), -1]
    m.add_many([(i, texts[i]) for i in range(first, len(texts))])
    for value in values:
        assert m.match({"a": value}) == [*wanted(value, range(first)), -1, *wanted(value, range(first, len(texts)))]
    m._version.check()
    m.remove_many(range(first, len(texts)))
    for value in values:
        assert m.match({"a": value}) == [*wanted(value, range(first)), -1]
    m.remove_many(range(first))
    assert m.attributes["a"].type is None
    assert not m._version.schema.strings
    assert m.match({"a": "text"}) == [-1]
    m.add(0, "a = 'text'")
    assert m.match({"a": "text"}) == [-1, 0]
    m._version.check()


@given(
    st.lists(numbers.filter(lambda v: v == v), min_size=2, max_size=2),
    st.lists(bounds_wide | bounds_narrow, max_size=4),
)
@settings(max_examples=50)
def test_extended_events(ends: list[Any], bounds: list[Any]) -> None:
    """An interval matches `=` a bound inside it, and `<` a bound above its lower end."""
    lo, hi = sorted(ends, key=exact)
    m = matcher("a IS NOT NULL", *(f"a = {literal(b)}" for b in bounds), *(f"a < {literal(b)}" for b in bounds))
    inside = [i for i, b in enumerate(bounds, 1) if exact(lo) <= exact(b) <= exact(hi)]
    below = [i for i, b in enumerate(bounds, 1 + len(bounds)) if exact(lo) < exact(b)]
    assert m.match({"a": Interval(lo, hi)}) == [0, *inside, *below]
    if exact(lo) < exact(hi) and bounds:
        with pytest.raises(EventError, match="the interval of 'a' is empty"):
            m.match({"a": Interval(hi, lo)})


# --- whatever the way in ---------------------------------------------------------------------------------------------


class TestFractionalEvents:
    conditions = ("a > 3", "a < 4", "a >= 3 AND a != 4", "a = 3", "a IN (3, 4)", "a NOT IN (3)", "a BETWEEN 3 AND 4")

    @pytest.mark.parametrize(
        "give",
        [
            lambda m: m.match({"a": 3.5}),
            lambda m: [x.id for x in m.top_k({"a": 3.5})],
            lambda m: m.match({"a": np.float32(3.5)}),
            lambda m: m.match({"a": Decimal("3.5")}),
            lambda m: m.match_many([{"a": 3.5}])["subscription"].to_pylist(),
            lambda m: m.match_many(pa.table({"a": [3.5]}))["subscription"].to_pylist(),
            lambda m: m.match_many(pa.table({"a": [Decimal("3.5")]}))["subscription"].to_pylist(),
            lambda m: m.match_many(pd.DataFrame({"a": [3.5]}))["subscription"].to_pylist(),
            lambda m: m.match({"a": Interval(3.5, 3.5)}),
            lambda m: m.match_many(pa.table({"a": [{"lo": 3.5, "hi": 3.5}]}))["subscription"].to_pylist(),
            lambda m: [i for i in m.ids() if m.explain(i, {"a": 3.5}).matched],
        ],
    )
    @pytest.mark.parametrize("wide", [False, True])
    def test_among_whole_bounds(self, give: Any, wide: bool) -> None:
        m = matcher(*self.conditions)
        if wide:
            m.add(99, f"a = {2**60}")
            assert give(m) == [0, 1, 2, 5, 6]  # with keys of two generations, unless they are merged already
            m._compactor.wait()
        state = m._version
        assert m.match({"a": 3}) == [1, 2, 3, 4, 6]
        assert give(m) == [0, 1, 2, 5, 6]
        assert m.match({"a": 3}) == [1, 2, 3, 4, 6]
        assert m.match({"a": 4}) == [0, 4, 5, 6]
        assert m.match({"a": float("nan")}) == [0, 2, 5]
        assert m.stats()["attributes"] == {"a": "number"}
        assert m._version is state  # a search changes nothing
        m._version.check()

    def test_open_and_never_matching_bounds(self) -> None:
        m = Matcher()
        m.add_many(pa.table({"id": [0, 1, 2, 3], "a_lo": [None, 2, 5, -EXACT], "a_hi": [2, None, 3, EXACT]}))
        m.add(4, "a IS NOT NULL")
        m.add(5, "a IS NULL")
        m.add(6, "a < 3 AND a > 3")
        m.add(7, "a < 4 AND a > 3")
        assert m.match({"a": 2.0}) == [0, 1, 3, 4]
        assert m.never_matching() == [2, 6]
        assert m.match({"a": 3.5}) == [1, 3, 4, 7]
        assert m.match({"a": float("inf")}) == [1, 4]
        assert m.match({"a": float("-inf")}) == [0, 4]
        assert m.match({"a": EXACT + 1}) == [1, 4]
        assert m.match({}) == [5]

    @pytest.mark.parametrize("bound", [EXACT + 1, -EXACT - 1, 2**63 - 1, -(2**63) + 1, 2**62])
    def test_bounds_beyond_what_a_float_holds(self, bound: int) -> None:
        made = [matcher(f"a = {bound}"), matcher(f"a != {bound}"), Matcher()]
        made[2].add_many(pa.table({"id": [0], "a_lo": [bound], "a_hi": [bound]}))
        for m, equal in zip(made, (True, False, True), strict=True):
            for value in (22.5, bound - 1, bound + 1, float("nan")):
                assert m.match({"a": value}) == ([] if equal else [0])
            assert m.match({"a": bound}) == m.match({"a": Decimal(bound)}) == ([0] if equal else [])
            assert m.explain(0, {"a": bound}).matched is equal
            assert m.stats()["attributes"] == {"a": "number"}

    def test_everything_else_stays(self) -> None:
        """When a bound beyond 2^53 gives every other bound another key."""
        m = Matcher()
        m.add("x", "a > 3 AND s = 'k' OR b", weights={"a": 2.0, "s": 5.0}, score=0.5, tags={"tenant": "acme"})
        m.add("y", "b OR s LIKE 'k%'")
        m.add_many(pa.table({"id": ["r"], "a_lo": [3], "a_hi": [4], "weights": [{"a": 7.0}]}))
        m.add("gone", "a > 9")
        m.remove("gone")
        m.update("x", score=1.5)
        before = [m[one] for one in m.ids()]
        m.add("far", f"a > {2**60}")
        assert [tuple(r) for r in m.top_k({"a": 3.5, "s": "k"})] == [("x", 8.5), ("r", 7.0), ("y", 1.0)]
        assert [m[one] for one in m.ids()][:3] == before
        assert m["r"].condition == "a BETWEEN 3 AND 4"
        assert m.ids() == ["x", "y", "r", "far"]
        m._version.check()
        m.add("z", "a > 3.25")
        assert m.match({"a": 3.5}) == ["r", "z"]

    def test_declared_integers_take_no_fractions(self) -> None:
        m = matcher("a > 3", a="integer")
        for event in ({"a": 22.5}, {"a": Interval(1, 22.5)}, {"a": float("nan")}):
            with pytest.raises(
                AttributeTypeError, match=r"expected an integer for 'a' \(declared\), got (\d+\.\d|nan|inf)"
            ):
                m.match(event)
        with pytest.raises(AttributeTypeError, match="event 1: expected an integer for 'a'"):
            m.match_many(pa.table({"a": [1.0, 22.5]}))
        assert m.match({"a": 22.0}) == [0]
        m.add_many(pa.table({"id": [1], "a_lo": [3.5], "a_hi": [4.5]}))
        assert m.match({"a": 4}) == [0, 1]
        assert m.stats()["attributes"] == {"a": "integer"}

    def test_a_constant_that_no_bound_lies_on(self) -> None:
        """Compaction forgets such constants; the condition still asks for them."""
        m = matcher("a > 3 AND s = 'a' AND s < 'zzz'", *(f"s = 'c{i}'" for i in range(9)))
        m.remove_many(range(1, 10))
        m.compact()
        assert m.match({"a": 3.5, "s": "a"}) == [0]
        m._version.check()

    @pytest.mark.parametrize("more", [[], [f"a < {2**60}"]])
    def test_survives_files_and_arrow(self, tmp_path: Any, more: list[str]) -> None:
        m = matcher("a > 3", *more)
        m.save(tmp_path / "t")
        other = Matcher()
        other.add_many(m.to_arrow())
        for again in (Matcher.load(tmp_path / "t"), other):
            assert again.match({"a": 3.5}) == m.match({"a": 3.5})
            assert again.match({"a": 2**60}) == [0]
            again.add(9, f"a = {2**61 + 1}")
            assert again.match({"a": 2**61 + 1}) == [0, 9]
            again._version.check()


class TestRetyping:
    def test_another_type_asks_again(self) -> None:
        m = matcher("a >= 18", "a > 17", "a = 17.5", "b = 1")
        assert m.audit().duplicates == ()
        assert m.match({"a": 17.5}) == [1, 2]
        m.retype("a", "integer")
        assert m.audit().duplicates == ((0, 1),)
        assert m.never_matching() == [2]
        with pytest.raises(AttributeTypeError):
            m.match({"a": 17.5})
        assert m.match({"a": 18}) == [0, 1]
        m.retype("a", "number")
        assert m.match({"a": 17.5}) == [1, 2]
        assert m.attributes["a"].declared
        m._version.check()

    def test_what_does_not_fit_is_named_and_nothing_changes(self) -> None:
        m = matcher("a > 3", "a IN (1, 2)")
        before = m._version
        with pytest.raises(AttributeTypeError, match=r"attribute 'a' cannot become string: .*subscription 0: .*a > 3"):
            m.retype("a", "string")
        with pytest.raises(EarmarkError, match="there is no attribute 'aa': did you mean 'a'"):
            m.retype("aa", "integer")
        with pytest.raises(EarmarkError, match="is not a type"):
            m.retype("a", "text")
        assert m._version is before

    def test_a_wide_number_becomes_float(self) -> None:
        m = matcher(f"a >= {EXACT + 1}")
        assert m.match({"a": EXACT}) == []
        m.retype("a", "float")
        assert m.match({"a": EXACT}) == [0]  # both are 2^53 as doubles, as Spark has it
        assert not m._version.schema.strings

    def test_order_and_the_rest_stay(self) -> None:
        m = Matcher()
        m.add("x", "a > 3", weights={"a": 2.0}, score=1.0, tags={"t": "1"})
        m.add("y", "b > 3")
        before = [m[one] for one in m.ids()]
        m.retype("a", "float")
        assert [m[one] for one in m.ids()] == before
        assert m.match({"a": 4, "b": 4}) == ["x", "y"]

    def test_declaring(self) -> None:
        m = matcher("a > 3")
        m.declare({"a": "number", "n": "date"})
        m.remove(0)
        assert {name: (info.type, info.declared) for name, info in m.attributes.items()} == {
            "a": ("number", True),
            "n": ("date", True),
        }
        with pytest.raises(AttributeTypeError, match="cannot become integer"):
            m.declare({"z": "string", "a": "integer"})
        assert "z" not in m.attributes


class TestLearning:
    @pytest.mark.parametrize(
        ("literal", "kind"),
        [
            ("3", "number"),
            ("3.5", "number"),
            ("3D", "number"),
            ("9223372036854775808", "number"),
            ("'x'", "string"),
            ("TRUE", "boolean"),
            ("DATE '2024-01-05'", "date"),
            ("TIMESTAMP '2024-01-05 08:00:00'", "timestamp"),
        ],
    )
    def test_from_a_condition(self, literal: str, kind: str) -> None:
        m = matcher(f"a IS NULL AND NOT (a = NULL) OR a < {literal}")
        assert m.stats()["attributes"] == {"a": kind}
        assert m.attributes["a"].uses == 1
        m.remove(0)
        assert m.stats()["attributes"] == {"a": None}

    @pytest.mark.parametrize(
        "value",
        [
            *(3, 3.5, np.int32(3), Decimal("1.5"), True, "x", b"x", date(2024, 1, 5), datetime(2024, 1, 5)),
            *(Interval(3, 4), Interval(None, "x"), [1], object(), {"b": 1}),
        ],
    )
    def test_not_from_an_event(self, value: Any) -> None:
        m = matcher("a IS NULL", "a IS NOT NULL", "a <=> NULL")
        assert m.match({}) == [0, 2]
        assert m.match({"a": value}) == [1]
        assert m.stats()["attributes"] == {"a": None}
        assert m.match({}) == [0, 2]
        m.add(3, "a = 'x'")
        m.remove(3)
        m.add(3, "a > 5")
        m._version.check()

    @pytest.mark.parametrize(
        "column",
        [
            pa.array([None, 3]),
            pa.array([None, 3], pa.uint8()),
            pa.array([None, 3.5]),
            pa.array([None, "x"]).dictionary_encode(),
            pa.array([None, date(2024, 1, 5)]),
            pa.array([None, {"lo": 1.5, "hi": None}]),
            pa.array([None, [1]]),
            pa.array([None, Decimal("1.5")]),
            pa.array([None, None]),
        ],
        ids=lambda column: str(column.type),
    )
    def test_not_from_a_column(self, column: Any) -> None:
        m = matcher("a IS NULL", "a IS NOT NULL")
        found = m.match_many(pa.table({"a": column}))["subscription"].to_pylist()
        assert found == ([0, 0] if column.null_count == 2 else [0, 1])
        assert m.stats()["attributes"] == {"a": None}

    @pytest.mark.parametrize(
        "condition", ["a < 3 AND a > 5", "a <= 3 OR a > 3", "a = 3 OR a != 3", "a = NULL", "a NOT IN (3, NULL)"]
    )
    def test_what_never_matches_or_takes_everything_holds_no_type(self, condition: str) -> None:
        m = matcher(condition)
        assert m.attributes["a"].type is None
        assert m.match({"a": "text"}) == m.match({"a": [1]})
        m.add(1, "a = 'text'")
        wanted = [0, 1] if m.match({"a": "other"}) else [1]
        assert m.match({"a": "text"}) == wanted
        assert m.attributes["a"].type == "string"
        m._version.check()

    def test_an_update_may_change_the_type(self) -> None:
        m = matcher("a > 3")
        m.update(0, "a = 'x'")
        assert m.match({"a": "x"}) == [0]
        m.add(1, "a = 'y'")
        with pytest.raises(AttributeTypeError, match="expected a string for 'a'"):
            m.update(0, "a > 3")
        assert m.match({"a": "x"}) == [0]


class TestClashes:
    """The sentence names both uses."""

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ("a > 3", "a = 'x'"),
            ("a = 'x'", "a > 3"),
            ("a > 3", "a"),
            ("a", "a = 1"),
            ("a = 'x'", "a = DATE '2024-01-05'"),
            ("a > 3", "a LIKE 'x%'"),
            ("a > 3", "a IN (DATE '2024-01-04', DATE '2024-01-05')"),
            ("a > 3.5", "a BETWEEN 'x' AND 'y'"),
            ("a = TIMESTAMP '2024-01-05 08:00:00'", "a = 5"),
        ],
    )
    def test_between_conditions(self, first: str, second: str) -> None:
        m = matcher(first)
        with pytest.raises(AttributeTypeError) as problem:
            m.add(1, second)
        text = str(problem.value)
        assert text.startswith(f"subscription 1: {problem.value.text}: ")
        assert problem.value.text and problem.value.text[0] == problem.value.attribute == "a"
        assert "(first used so by subscription 0: " in text
        assert "for 'a' " in text or "attribute 'a' is " in text
        assert m.ids() == [0]

    @pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP"])
    def test_strings_are_read_as_moments(self, kind: str) -> None:
        m = matcher(f"a >= {kind} '2024-01-05'")
        m.add(1, "a = '2024-01-05'")
        assert m.match({"a": "2024-01-05"}) == [0, 1]
        assert m.match({"a": date(2024, 1, 5)}) == [0, 1]
        assert m.match({"a": "2024-01-04"}) == []
        with pytest.raises(EarmarkError, match="yesterday"):
            m.add(2, "a = 'yesterday'")

    def test_inside_one_condition_and_one_batch(self) -> None:
        with pytest.raises(
            AttributeTypeError,
            match=r"a = 'y': expected a number for 'a' \(first used so by subscription 'x': a > 3\), got 'y'",
        ):
            Matcher().add("x", "a > 3 AND b = 1 OR a = 'y'")
        m = Matcher()
        with pytest.raises(
            AttributeTypeError, match=r"row 1, subscription 'y': a = 'y': expected a number for 'a' .*subscription 'x'"
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
            ("a = DATE '2024-01-05'", datetime(2024, 1, 5)),
            (f"a > {2**60}", "x"),
        ],
    )
    def test_with_an_event(self, condition: str, value: Any) -> None:
        m = matcher(condition)
        sentence = r"expected an? \w+ for 'a' \(first used so by subscription 0: .*\), got "
        with pytest.raises(EarmarkError, match=f"^{sentence}"):
            m.match({"a": value})
        with pytest.raises(EarmarkError, match=f"^event 1: {sentence}"):
            m.match_many([{}, {"a": value}])

    def test_declared(self) -> None:
        m = Matcher(attributes={"a": "integer", "d": "date", "t": "timestamp", "m": "decimal(9,2)"})
        with pytest.raises(AttributeTypeError, match=r"a = 'x': expected an integer for 'a' \(declared\), got 'x'"):
            m.add(1, "a = 'x'")
        m.add(1, "d = '2024-01-05' AND t > '2024-01-05 08:00:00' AND m = 1.50")
        assert m.match({"d": "2024-01-05", "t": "2024-01-05 08:00:00.000001", "m": Decimal("1.5")}) == [1]
        with pytest.raises(EarmarkError, match="'d'"):
            m.match({"d": "yesterday"})
        with pytest.raises(
            EventError, match=r"expected a decimal\(9,2\) for 'm', got .*1.505.*, which does not fit without rounding"
        ):
            m.match({"m": Decimal("1.505")})


def test_narrow_keys_of_doubles_are_those_of_floats() -> None:
    for value in (0.0, -0.0, 1.5, -1.5, 5e-324, 1.7976931348623157e308, math.inf, -math.inf):
        assert narrow_key(value) == float_key(value)
        assert float_of_key(narrow_key(value)) == value
