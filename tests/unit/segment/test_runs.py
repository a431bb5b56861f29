"""Conditions of one shape are bound together (keys/runs.py), and what comes out is what one by one gives."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from earmark import Matcher, Subscription
from earmark.errors import EarmarkError
from earmark.keys import runs
from earmark.keys.schema import Schema
from earmark.segment import builder
from earmark.segment.arrays import SegmentArrays
from earmark.segment.builder import Builder, named, prepare
from earmark.segment.segment import Segment

NUMBERS = [
    *("0", "1", "7", "8", "9", "0.5", "22.50", "1e3", "1E-3", "3.", ".25", "7L", "2D", "1.5BD", "3F", "100S"),
    *("4503599627370496", "9007199254740992", "9007199254740993", "99999999999999999999", "1e300", "1e-400", "1e400"),
    *("0.0000000000000000001", "0.00000000000000000000000000000000000000000001", "123456789012345678", "130Y"),
]
STRINGS = [
    *(
        "''",
        "'a'",
        "'b'",
        "'ab'",
        "'it''s'",
        "'a, b'",
        "'a'",
        '"a"',
        '"it\'s"',
        r"'a\tb'",
        r"'\''",
        "'é'",
        "'('",
        "'%'",
    ),
    *("'a%'", "'%b'", "'\ud800'", "'2024-02-29'", "'2024-02-30'", "'1970-01-01 00:00:00'", "'zzz'"),
]
DATES = ["DATE '2024-02-29'", "DATE '1970-01-01'", "DATE '1969-12-31'", "date'2024-02-30'", 'DATE "2000-1-1"']
MOMENTS = [*DATES, "TIMESTAMP '2024-02-29 12:30:00'", "TIMESTAMP '2024-02-29T12:30:00Z'", "TIMESTAMP 'x'"]
ATTRIBUTES = {
    "n": (None, NUMBERS),
    "i": ("integer", NUMBERS),
    "f": ("float", NUMBERS),
    "d": ("decimal(9, 2)", NUMBERS),
    "s": (None, STRINGS),
    "t": ("string", STRINGS),
    "day": (None, [*DATES, *MOMENTS]),
    "moment": ("timestamp", [*MOMENTS, "'2024-02-29'", "'x'"]),
    "flag": ("boolean", ["TRUE", "FALSE", "NULL"]),
    "`odd name`": (None, NUMBERS),
}
PREDICATES = [
    *("{a} = {}", "{a} < {}", "{a} <= {}", "{a} > {}", "{a} >= {}", "{a} != {}", "{a} <=> {}", "NOT {a} < {}"),
    *("{a} BETWEEN {} AND {}", "{a} NOT BETWEEN {} AND {}", "{a} IN ({}, {}, {})", "{a} IN ({},{})", "{a} IN ({})"),
    *(
        "{a} NOT IN ({}, {})",
        "{a} IS NULL",
        "{a} IS NOT NULL",
        "{a} LIKE {}",
        "{a} NOT LIKE {}",
        "{a} LIKE {} ESCAPE '!'",
    ),
    *("({a} < {} OR {a} > {})", "({a} >= {} AND {a} < {})", "({a} IS NULL OR {a} = {} OR {a} IN ({}, {}))"),
    *("({a} = {} OR {a} = {} OR {a} BETWEEN {} AND {})", "({a} > {} AND {a} != {})", "({a} = {}) IS NOT TRUE"),
    *("(({a} IS NULL OR {a} < {}) AND ({a} IS NULL OR {a} > {}))", "{a} = -{}", "{a} > - {}", "{a} IN (-{}, {})"),
]


def texts(rng: random.Random, count: int) -> list[str]:
    """Conditions of a few shapes: the predicates are drawn once for each shape, the literals for each text."""
    usual = rng.random()  # how often a literal is one of the first few, which all bind
    shapes = []
    for _ in range(rng.randint(1, 4)):
        parts = [(rng.choice(PREDICATES), rng.choice(list(ATTRIBUTES))) for _ in range(rng.randint(1, 3))]
        shapes.append((rng.choice([" AND ", " AND ", " OR "]), parts))
    made = []
    for _ in range(count):
        joint, parts = rng.choice(shapes)
        made.append(joint.join(filled(predicate, name, rng, usual) for predicate, name in parts))
    return made


def filled(predicate: str, name: str, rng: random.Random, usual: float) -> str:
    pool = ATTRIBUTES[name][1]
    literals = [rng.choice(pool[:4] if rng.random() < usual else pool) for _ in range(predicate.count("{}"))]
    return predicate.format(*literals, a=name)


def declared() -> Schema:
    schema = Schema()
    schema.declare({name: type_ for name, (type_, _) in ATTRIBUTES.items() if type_ is not None})
    return schema


def one_by_one(items: list[Any]) -> Segment | list[EarmarkError]:
    """What taking one after another gives: a segment, or the errors."""
    made = Builder(declared())
    wrong = []
    for row, item in enumerate(items):
        try:
            made.take(item)
        except EarmarkError as problem:
            wrong.append(named(problem, row, item))
    return wrong or made.prepared().segment(0)


def assert_same(items: list[Any]) -> None:
    expected = one_by_one(items)
    try:
        found = prepare(declared(), items).segment(0)
    except EarmarkError as problem:
        assert isinstance(expected, list)
        problems = problem.problems or (problem,)
        assert [(str(p), p.row, p.id) for p in problems] == [(str(p), p.row, p.id) for p in expected]
        return
    assert isinstance(expected, Segment), expected
    assert_same_segment(found, expected)


def assert_same_segment(found: Segment, expected: Segment) -> None:
    for name in SegmentArrays._fields:
        mine, theirs = getattr(found.arrays, name), getattr(expected.arrays, name)
        assert mine.dtype == theirs.dtype, name
        np.testing.assert_array_equal(mine, theirs, name)
    assert list(found.schema) == list(expected.schema)
    assert {n: keys.items()[0] for n, keys in found.schema.strings.items()} == {
        n: keys.items()[0] for n, keys in expected.schema.strings.items()
    }
    assert found.ids.objects == expected.ids.objects
    assert [found.text(slot) for slot in range(len(found))] == [expected.text(slot) for slot in range(len(expected))]
    assert [found.tags(slot) for slot in range(len(found))] == [expected.tags(slot) for slot in range(len(expected))]
    found.check()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of a few conditions."""
    monkeypatch.setattr(builder, "_FEW", 2)
    monkeypatch.setattr(builder, "_PART", 9)


@pytest.mark.usefixtures("small")
@settings(max_examples=100)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_bit_equal_to_one_by_one(seed: int, count: int) -> None:
    assert_same(list(enumerate(texts(random.Random(seed), count))))


@pytest.mark.usefixtures("small")
@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([0.0, 0.05]))
def test_weights_are_bit_equal_too(seed: int, count: int, wrong: float) -> None:
    rng = random.Random(seed)
    items = []
    for row, text in enumerate(texts(rng, count)):
        used = [name for name in ("n", "i", "f", "d", "s", "t", "day") if f"{name} " in f" {text}"]
        names = rng.sample(used, rng.randint(0, len(used))) + ["other"] * (rng.random() < wrong)
        weights: dict[str, Any] = {name: rng.choice([0.0, 0.5, 1.0, 2]) for name in names}
        weights |= {"n": -1.0} if rng.random() < wrong else {}
        items.append({"id": row, "condition": text, "weights": weights, "score": rng.choice([0.0, 1.5])})
    assert_same(items)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("predicate", PREDICATES)
def test_each_predicate_on_each_type(predicate: str) -> None:
    for name in ATTRIBUTES:
        rng = random.Random(f"{predicate} {name}")
        texts = [filled(predicate, name, rng, 0.6) for _ in range(14)]
        good = [text for text in texts if not isinstance(one_by_one([(1, text)]), list)]
        assert_same(list(enumerate(texts)))
        assert_same(list(enumerate(good)))


@pytest.mark.parametrize(
    "shape",
    [
        "n > {n} AND n <= {n}.5 AND s = 'x{n}'",
        "(n < {n} OR n > {n} OR n IS NULL) AND day >= DATE '2024-02-{n}'",
        "s IN ('a{n}', 'b', 'it''s') AND n IN ({n}, 7, -8) AND i IN (1,2,{n})",
        "d BETWEEN 1 AND {n} OR (s LIKE 'x{n}%' AND flag = TRUE AND `odd name` != -{n})",
        "d <= {n}.25 AND f > -{n} AND moment < '2024-02-{n}' AND t NOT LIKE 'a{n}'",
        "n IS NULL AND TRUE",
    ],
)
def test_usual_conditions_are_taken_together(shape: str) -> None:
    items = [(row, shape.format(n=10 + row % 7)) for row in range(100)]
    made = Builder(declared())
    assert made.take_many(items, 0) == []
    assert [run is not None and len(run.rows) for run in made._runs.values()] == [99]
    assert_same(items)


@pytest.mark.usefixtures("small")
def test_weights_scores_tags_and_forms() -> None:
    items: list[Any] = []
    for row in range(60):
        text = f"a > {row} AND b = 'x{row % 7}'"
        items.append(
            [
                (row, text),
                [row, text],
                {"id": row, "condition": text, "tags": {"t": str(row % 3)}},
                {"id": row, "condition": "a > :low AND b = :b", "params": {"low": row, "b": "x"}},
                Subscription(row, text, {"a": 0.5} if row % 2 else None, row / 2, {"u": "v"}),
                {"id": row, "condition": text, "score": None},
            ][row % 6]
        )
    assert_same(items)
    items[31] = {"id": 31, "condition": "a > 1", "weights": {"b": 1.0}}
    items[50], items[52] = (50, "a > 'x'"), (52.0, "a > 3")
    assert_same(items)


@pytest.mark.usefixtures("small")
def test_a_bound_that_makes_a_number_wide_comes_late_or_early() -> None:
    items = [(row, f"a > {row} AND a < {row}.5 AND (b = {row} OR b != {row + 1})") for row in range(30)]
    for big in ("9007199254740993", "-9007199254740993", "1e30", "99999999999999999999"):
        for at in (0, 15, 30):
            assert_same([*items[:at], (99, f"a > {big} AND b < {big}"), *items[at:]])
    m = Matcher(index="scan")
    m.add_many([(99, "a > 9007199254740993"), (98, "b > 9007199254740993")])
    m.add_many(items)
    assert m.match({"a": 4.25, "b": 4}) == [4]


def test_rows_of_an_unready_shape_learn_in_order() -> None:
    """`x IN (NULL)` says nothing about the type of x, and the next row does."""
    items = [(row, f"x IN ({'NULL' if row < 20 else row}) AND y = 1") for row in range(60)]
    assert_same(items)


def test_an_error_late_in_a_batch_is_named_by_its_row() -> None:
    items = [(row, f"a > {row}") for row in range(40_000)]
    items[17_000], items[33_000] = (17_000, "a > 'x'"), (33_000, "a >")
    items[17_005] = (17_005, "a > 9L AND")
    with pytest.raises(EarmarkError) as caught:
        prepare(Schema(), items)
    assert [(p.row, p.id) for p in caught.value.problems] == [(17_000, 17_000), (17_005, 17_005), (33_000, 33_000)]


def test_merged_intervals() -> None:
    of = np.array([0, 0, 0, 0, 1, 1, 2])
    lo = np.array([1, 2, 5, 20, 3, 4, -(2**63)])
    hi = np.array([10, 3, 11, 30, 3, 2**63 - 1, 5])
    merged = runs._merged(of, lo, hi)
    assert [column.tolist() for column in merged] == [[0, 0, 1, 2], [1, 20, 3, -(2**63)], [11, 30, 2**63 - 1, 5]]
