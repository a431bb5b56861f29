"""Random conditions, rows and extended rows that disagree easily: small pools, edges of every type, near misses.

Everything takes a `random.Random`, so a seed gives the same case again. The hypothesis strategies at the end are
thin: they hand over a generator that hypothesis controls, which is what lets it shrink.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from hypothesis import strategies as st

from .ranking import Interval, TooManyClausesError, clauses, neighbours, order_key
from .syntax import (
    FALSE,
    INT64_MAX,
    INT64_MIN,
    NULL,
    TRUE,
    And,
    Between,
    Column,
    Compare,
    In,
    IsNull,
    IsTruth,
    Like,
    Literal,
    Node,
    Not,
    Or,
    column_of,
    day,
    decimal,
    double,
    instant,
    integer,
    leaves,
    literals_of,
    string,
)

SCHEMA: dict[str, str] = {
    "i0": "integer",
    "i1": "integer",
    "f0": "float",
    "f1": "float",
    "b0": "boolean",
    "b1": "boolean",
    "s0": "string",
    "s 1": "string",
    "d0": "date",
    "d1": "date",
    "t0": "timestamp",
    "t1": "timestamp",
    "m0": "decimal(9,2)",
    "m1": "decimal(9,2)",
}
WITH_NUMBERS = {**SCHEMA, "u0": "number", "u1": "number"}
"""With attributes of a type that Spark does not have."""

NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)
DIGITS_BEYOND_18 = "0000000000000000000000001"
COMPARISONS = ("<", "<=", "=", "!=", ">=", ">", "<=>", "==", "<>")

# What is common enough that conditions and rows meet, by type of attribute.
POOLS: dict[str, tuple[Any, ...]] = {
    "integer": (-1, 0, 1, 2, 3, 5),
    "float": (-1.5, 0.0, -0.0, 0.1, 1.0, 2.5),
    "boolean": (False, True),
    "number": (-1, 0, 1, 2, 0.0, 1.0, 0.1, 2.5, Decimal("0.1"), Decimal("2")),
    "string": ("", "a", "ab", "abc", "b", "é"),
    "date": (date(2024, 1, 5), date(2024, 2, 29), date(2024, 3, 1), date(1969, 12, 31)),
    "timestamp": (NOON, NOON + TICK, NOON.replace(hour=0), datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    "decimal(9,2)": tuple(map(Decimal, ("-0.01", "0.00", "0.01", "1.50", "2.00", "2.50"))),
}
# Edges that a row may hold, beside the pool.
EDGES: dict[str, tuple[Any, ...]] = {
    "integer": (
        *(INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MAX),
        *(sign * 2**53 + step for sign in (-1, 1) for step in (-1, 0, 1)),
    ),
    "float": (
        *(math.nan, math.inf, -math.inf, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308),
        *(2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), math.nextafter(0.1, 1), math.nextafter(1.0, 0)),
    ),
    "boolean": (),
    "number": (
        *(-0.0, math.inf, -math.inf, math.nan, 5e-324, 1e300, 2.0**53, 2.0**63, Decimal("NaN")),
        *(
            2**53,
            2**53 + 1,
            2**53 + 2,
            -(2**53) - 1,
            INT64_MAX,
            INT64_MIN,
            INT64_MAX + 1,
            2**64 - 1,
            10**38 - 1,
            10**400,
        ),
        Decimal("9007199254740993"),
    ),
    "string": (
        *("it's", "''", "\\", "a\\b", "a%", "a%b", "a_b", "%", "_", '"', "a\nb", "\t", "A", " a", "a "),
        *("--", "/*", ";"),
        *("\U0001f600", "\uffff", "\ue000", "\ud7ff", "\U0010ffff", "a\U0010ffff", "ab\0", "zz" * 40, "\\%", "\\'"),
    ),
    "date": (date.min, date.max, date(1582, 10, 10), date(1970, 1, 1)),
    "timestamp": (
        datetime(1, 1, 1, tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        datetime(1582, 10, 10, 1, 2, 3, tzinfo=UTC),
        datetime(2024, 3, 31, 1, 30, tzinfo=UTC),
    ),
    "decimal(9,2)": (Decimal("9999999.99"), Decimal("-9999999.99"), Decimal("1.49"), Decimal("1.51")),
}


def literal(rng: Random, column: Column, nulls: float = 0.04) -> Literal:
    """A literal to compare the column with: usually from its pool, sometimes another type, an edge, or NULL."""
    if rng.random() < nulls:
        return NULL
    edge = bool(EDGES[column.type]) and rng.random() < 0.2
    value = rng.choice(EDGES[column.type] if edge else POOLS[column.type])
    if column.type == "integer":
        return integer_column_literal(rng, value)
    if column.type == "float":
        return float_column_literal(rng, value)
    if column.type == "number":
        return number_column_literal(rng, value)
    if column.type.startswith("decimal"):
        return decimal_column_literal(rng, value)
    if column.type == "boolean":
        return TRUE if value else FALSE
    if column.type == "string":
        return string(value.replace("\0", "!"))
    return moment_literal(rng, column, value)


def integer_column_literal(rng: Random, value: int) -> Literal:
    style = rng.random()
    if style < 0.5:
        return integer(value, rng.choice((None, f"{value}L")))
    if style < 0.65:
        return decimal(f"{value}.{rng.choice(('5', '0', '00', '25', '9'))}")
    if style < 0.7:
        return decimal(f"{value % 100}.{DIGITS_BEYOND_18}")
    if style < 0.8:
        return double(float(value), f"{value}D")
    if style < 0.85:
        return double(value + 0.5)
    if style < 0.9:
        return double(float(f"{value}e1"), f"{value}e1")
    return rng.choice(
        (
            integer(INT64_MAX + 1),
            integer(INT64_MIN - 1),
            integer(10**38 - 1),
            decimal("9223372036854775807.5"),
            decimal("-9223372036854775808.5"),
            decimal("9223372036854775807.0"),
            double(9.3e18),
            double(-9.3e18),
            double(5e-324),
        )
    )


def float_column_literal(rng: Random, value: float) -> Literal:
    style = rng.random()
    if not math.isfinite(value):
        value = 2.5
    if style < 0.35:
        return double(value)
    if style < 0.5:
        return integer(int(value)) if abs(value) < 2**63 else double(value)
    if style < 0.75 and 1e-5 < abs(value) < 1e15:
        return decimal(format(Decimal(repr(value)), "f"))
    return rng.choice(
        (
            decimal("0.10000000000000000555111512312578270212"),
            decimal("0.1000000000000000055"),
            integer(2**53 + 1),
            integer(INT64_MAX),
            integer(10**38 - 1),
            double(0.0, "1e-400"),
            double(-0.0, "-0D"),
            double(100.0, "1e2"),
            decimal("-0.0"),
        )
    )


def number_column_literal(rng: Random, value: Any) -> Literal:
    """Bounds beyond 2^53 among them, so seldom that many tables have none."""
    if value != value or not -(10**38) <= value <= 10**38:
        value = 2.5
    style = rng.random()
    if style < 0.04:
        return rng.choice(
            (
                integer(2**53),
                integer(2**53 + 1),
                integer(-(2**53) - 1),
                integer(INT64_MAX),
                integer(INT64_MIN - 1),
                integer(10**38 - 1),
                double(2.0**53),
                double(2.0**63),
                double(1e300),
                decimal("9007199254740993.0"),
                decimal("9007199254740993.5"),
            )
        )
    if isinstance(value, int) and abs(value) < 2**53:
        return (
            integer(value)
            if style < 0.6
            else double(float(value))
            if style < 0.7
            else decimal(f"{value}.{rng.choice('059')}")
        )
    if 1e-5 < abs(value) < 1e15 and style < 0.5:
        return decimal(format(Decimal(repr(float(value))), "f"))
    return double(float(value)) if abs(value) < 2**53 or style < 0.1 else double(0.1)


def decimal_column_literal(rng: Random, value: Decimal) -> Literal:
    style = rng.random()
    if style < 0.4:
        return decimal(str(value))
    if style < 0.55:
        return decimal(f"{value}{rng.choice(('0', '5', '01', '99'))}")
    if style < 0.7:
        return integer(int(value))
    if style < 0.85:
        return double(float(value))
    return rng.choice(
        (
            decimal("0.50000000000000000000000000000000000001"),
            decimal("1.4999999999999999999999999999999999999"),
            integer(10**9),
            integer(INT64_MIN),
            integer(10**38 - 1),
            integer(1 - 10**38),
            double(1e300),
            double(math.nextafter(1.5, 2)),
        )
    )


def moment_literal(rng: Random, column: Column, value: Any) -> Literal:
    """A date or a timestamp, sometimes the other of the two, sometimes as plain text."""
    style = rng.random()
    if isinstance(value, datetime):
        if style < 0.15:
            return day(value.date())
        return string(value.replace(tzinfo=None).isoformat(sep=" ")) if style < 0.3 else instant(value)
    if style < 0.15:
        return instant(datetime(value.year, value.month, value.day, rng.choice((0, 0, 12)), tzinfo=UTC))
    return string(value.isoformat()) if style < 0.3 else day(value)


def leaf(rng: Random, column: Column) -> Node:
    """One predicate on the column."""
    style = rng.random()
    if style < 0.08:
        return IsNull(column, rng.random() < 0.5)
    if column.type == "boolean" and style < 0.4:
        return column if style < 0.24 else IsTruth(column, rng.random() < 0.5, rng.random() < 0.5)
    if column.type == "string" and style < 0.3:
        prefix = rng.choice(POOLS["string"] + EDGES["string"]).replace("\0", "")
        return Like(column, prefix, rng.random() < 0.4)
    if style < 0.45:
        return Between(column, literal(rng, column), literal(rng, column), rng.random() < 0.4)
    if style < 0.62:
        several = rng.choice((1, 2, 3, 4, 14))
        return In(column, tuple(literal(rng, column) for _ in range(several)), rng.random() < 0.4)
    op, value = rng.choice(COMPARISONS), literal(rng, column)
    return Compare(value, op, column) if rng.random() < 0.25 else Compare(column, op, value)


def condition(
    rng: Random,
    schema: Mapping[str, str] = SCHEMA,
    depth: int = 4,
    max_clauses: int | None = 64,
) -> Node:
    """A condition over the schema, nested up to `depth`, with at most `max_clauses` clauses."""
    while True:
        # A handful of attributes, so that several predicates meet on one.
        columns = [Column(name, schema[name]) for name in rng.sample(sorted(schema), min(4, len(schema)))]
        node = nested(rng, columns, rng.randint(0, depth))
        if node == NULL:
            continue  # WHERE NULL, alone, is no boolean to Spark
        try:
            if max_clauses is None or len(clauses(node, max_clauses)) <= max_clauses:
                return node
        except TooManyClausesError:
            continue


def nested(rng: Random, columns: Sequence[Column], depth: int) -> Node:
    if depth == 0 or rng.random() < 0.1:
        return rng.choice((TRUE, FALSE, NULL)) if rng.random() < 0.04 else leaf(rng, rng.choice(columns))
    style = rng.random()
    if style < 0.18:
        return Not(nested(rng, columns, depth - 1))
    if style < 0.28:
        return IsTruth(nested(rng, columns, depth - 1), rng.random() < 0.5, rng.random() < 0.5)
    if style < 0.36:
        # Several predicates on one attribute: one constraint, however they are joined.
        columns = [rng.choice(columns)]
    parts = tuple(nested(rng, columns, depth - 1) for _ in range(rng.choice((2, 2, 3))))
    return And(parts) if style < 0.66 else Or(parts)


def row(
    rng: Random,
    schema: Mapping[str, str] = SCHEMA,
    near: Node | None = None,
    missing: float = 0.15,
) -> dict[str, Any]:
    """A row; with `near`, its values sit on that condition's literals or right beside them."""
    values = {}
    for name, kind in schema.items():
        if rng.random() >= missing:
            values[name] = value_near(rng, Column(name, kind), near)
    return values


def value_near(rng: Random, column: Column, near: Node | None) -> Any:
    if near is not None and rng.random() < 0.8:
        found = [
            value
            for part in leaves(near)
            if column_of(part) == column
            for lit in literals_of(part)
            for value in neighbours(column, lit)
            if fits(column, value)
        ]
        if found:
            return rng.choice(found)
    return rng.choice(POOLS[column.type] + (EDGES[column.type] if rng.random() < 0.4 else ()))


def fits(column: Column, value: Any) -> bool:
    """Whether a value that is one step off a literal is still a value of the column's type."""
    return not column.type.startswith("decimal") or abs(value) <= Decimal("9999999.99")


def extended(
    rng: Random,
    schema: Mapping[str, str] = SCHEMA,
    near: Node | None = None,
    missing: float = 0.15,
    boxed: float = 0.5,
) -> dict[str, Any]:
    """A row some of whose values are closed intervals."""
    lows, highs = row(rng, schema, near, missing), row(rng, schema, near, missing=0.0)
    values: dict[str, Any] = {}
    for name, low in lows.items():
        column = Column(name, schema[name])
        ends = sorted((low, highs[name]), key=lambda v, column=column: order_key(column, v))  # type: ignore[misc]
        values[name] = Interval(*ends) if rng.random() < boxed else low
    return values


def weights(rng: Random, names: Sequence[str]) -> dict[str, float]:
    """Weights for some of the attributes, zero and awkward fractions among them."""
    return {name: rng.choice((0.0, 0.1, 0.2, 0.5, 1.0, 1 / 3, 2.5)) for name in names if rng.random() < 0.7}


def conditions(schema: Mapping[str, str] = SCHEMA, depth: int = 4) -> st.SearchStrategy[Node]:
    return st.randoms(use_true_random=False).map(lambda rng: condition(rng, schema, depth))


def rows(schema: Mapping[str, str] = SCHEMA) -> st.SearchStrategy[dict[str, Any]]:
    return st.randoms(use_true_random=False).map(lambda rng: row(rng, schema))


@st.composite
def conditions_and_rows(draw: st.DrawFn, boxes: bool = False) -> tuple[Node, dict[str, Any]]:
    """A condition and a row (with `boxes`, an extended one) that hugs its literals."""
    rng = draw(st.randoms(use_true_random=False))
    node = condition(rng)
    return node, (extended if boxes else row)(rng, near=node)
