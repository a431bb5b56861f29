"""Learned and declared numbers against Spark SQL, for INT, BIGINT, DOUBLE and DECIMAL columns.

Under learned types the answers are Spark's for INT, BIGINT and DOUBLE columns while whole bounds are below 2^53; under
declared ones for each column's own type. Beyond, learned numbers compare exactly, which fractions tell.
"""

from __future__ import annotations

import math
import random
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.common import frame, kept, matched

import earmark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CONDITIONS, ROWS = 60, 40
COLUMNS = {"i": "integer", "l": "long", "d": "double"}
DECLARED = {"i": "integer", "l": "integer", "d": "float", "m": "decimal(12,3)"}
OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "<=>")
SMALL = (0, 1, -1, 2, 3, 100, -100, 2**31 - 1, -(2**31), 2**53 - 1, 1 - 2**53)
FRACTIONS = ("0.5", "-0.5", "2.25", "1.0", "2.5e0", "1e2", "0.1", "99.999", "1e300", "-1e-300")


def literal(rng: random.Random) -> str:
    return str(rng.choice(SMALL)) if rng.random() < 0.6 else rng.choice(FRACTIONS)


def leaf(rng: random.Random, names: list[str]) -> str:
    name, kind = rng.choice(names), rng.random()
    if kind < 0.5:
        return f"{name} {rng.choice(OPERATORS)} {literal(rng)}"
    if kind < 0.7:
        return f"{name} BETWEEN {literal(rng)} AND {literal(rng)}"
    if kind < 0.9:
        return f"{name} {rng.choice(('IN', 'NOT IN'))} ({', '.join(str(rng.choice(SMALL)) for _ in range(3))})"
    return f"{name} IS {rng.choice(('', 'NOT '))}NULL"


def condition(rng: random.Random, names: list[str]) -> str:
    parts = [leaf(rng, names) for _ in range(rng.choice((1, 1, 2, 3)))]
    return rng.choice(("", "NOT ")) + "(" + rng.choice((" AND ", " OR ")).join(parts) + ")"


def value(rng: random.Random, kind: str) -> Any:
    if rng.random() < 0.1:
        return None
    whole = rng.choice(SMALL) + rng.choice((-1, 0, 0, 1))
    if kind == "integer":
        return max(-(2**31), min(2**31 - 1, whole))
    if kind == "long":
        return whole
    if kind.startswith("decimal"):
        return Decimal(rng.choice((whole % 10**8, -(whole % 10**8)))) + Decimal(rng.randrange(1000)) / 1000
    return rng.choice((float(whole), whole / 4, 0.1, -0.0, math.nan, math.inf, -math.inf, 1e300, 99.999))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("declared", [False, True])
def test_numbers_are_sparks(spark: SparkSession, declared: bool, seed: int) -> None:
    rng = random.Random(f"numbers {declared} {seed}")
    columns = {**COLUMNS, "m": "decimal(12,3)"} if declared else COLUMNS
    conditions = [condition(rng, list(columns)) for _ in range(CONDITIONS)]
    rows = [{name: value(rng, kind) for name, kind in columns.items()} for _ in range(ROWS)]
    wanted = kept(frame(spark, columns, rows), conditions)
    found = matched(DECLARED if declared else {}, conditions, rows)
    for sql, own, right in zip(conditions, found, wanted, strict=True):
        assert own is None or own == right, (sql, [rows[row] for row in own ^ right])


def test_whole_bounds_beyond_compare_exactly() -> None:
    """0 differences from comparing rational numbers, for bounds and values on both sides of 2^53."""
    rng = random.Random("beyond")
    around = [2**53, 2**60, 2**62 + 1, 2**63 - 1, 2**63, 10**25, 0, 5]
    m = earmark.Matcher("scan")
    asked: dict[int, tuple[str, int]] = {}
    for number in range(200):
        bound = rng.choice((-1, 1)) * rng.choice(around) + rng.randrange(-3, 4)
        asked[number] = (rng.choice(OPERATORS[:-1]), bound)
        m.add(number, "x {} {}".format(*asked[number]))
    compare = {
        "=": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    }  # fmt: skip
    for _ in range(300):
        whole = rng.choice((-1, 1)) * rng.choice(around) + rng.randrange(-3, 4)
        given = rng.choice((whole, float(whole), Decimal(whole), whole / 4))
        exact = Fraction(given)
        right = [number for number, (operator, bound) in asked.items() if compare[operator](exact, bound)]
        assert m.match({"x": given}) == right, given
