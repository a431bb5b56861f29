"""What Spark SQL says of one condition and one row: TRUE, FALSE or unknown (None). One value at a time, no keys.

The rules are Spark 4's own (ANSI mode), each checked against a session in tests/spark/test_semantics.py:

    integer against an exact literal   <, <=, >=, > compare exactly, and are constant TRUE or FALSE, *even for NULL*,
                                       when the literal is outside int64; =, !=, <=>, IN compare as decimals of at
                                       most 38 digits, so a fraction beyond 18 digits is rounded first
    decimal against an exact literal   as decimals of at most 38 digits, whole digits kept first
    anything against a double          both rounded to double; one double in an IN list makes the whole list doubles
    NaN, zeros                         NaN = NaN, above every number; -0.0 = 0.0
    date against timestamp             the date is its midnight, UTC
    string against date, timestamp     the string is cast (plain ISO text only, here)

"number" is a type of earmark's own, that of attributes whose type is learned from numbers:

    number against any number          a whole one counts as itself, any other as its nearest double; they compare
                                       exactly, with NaN above all
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

from .syntax import (
    INT64_MAX,
    INT64_MIN,
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
    Value,
    column_of,
    utc,
)

Truth: TypeAlias = "bool | None"
MAX_PRECISION = 38
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!=", "<=>": "<=>"}
SYNONYMS = {"==": "=", "<>": "!="}
HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">=": lambda a, b: a >= b,
    ">": lambda a, b: a > b,
}
ORDERED = ("<", "<=", ">=", ">")


def evaluate(node: Node, row: Mapping[str, Any]) -> Truth:
    """What Spark gives for the condition on this row; an attribute that is absent or None is NULL."""
    if isinstance(node, And):
        return all_of(evaluate(part, row) for part in node.parts)
    if isinstance(node, Or):
        return negate(all_of(negate(evaluate(part, row)) for part in node.parts))
    if isinstance(node, Not):
        return negate(evaluate(node.part, row))
    if isinstance(node, IsTruth):
        return (evaluate(node.part, row) is node.truth) is not node.negated
    if isinstance(node, Literal):
        assert node.kind in ("boolean", "null"), "only TRUE, FALSE and NULL are conditions"
        return None if node.value is None else bool(node.value)
    column = column_of(node)
    assert column is not None
    value = row.get(column.name)
    if isinstance(node, Column):
        return None if value is None else bool(value)
    if isinstance(node, Compare):
        flipped = isinstance(node.left, Literal)
        literal = node.left if flipped else node.right
        assert isinstance(literal, Literal), "a comparison has one literal"
        op = SYNONYMS.get(node.op, node.op)
        return compare(column, value, MIRRORED[op] if flipped else op, literal)
    if isinstance(node, IsNull):
        return (value is None) is not node.negated
    truth = membership(node, column, value)
    return negate(truth) if node.negated else truth


def membership(node: Between | In | Like, column: Column, value: Value) -> Truth:
    """The positive form of BETWEEN, IN and LIKE."""
    if isinstance(node, Between):
        return all_of((compare(column, value, ">=", node.low), compare(column, value, "<=", node.high)))
    if isinstance(node, Like):
        return None if value is None else str(value).encode().startswith(node.prefix.encode())
    if value is None:
        return None
    to_common = common_type(column, node.values, listed=True)
    one_of = [None if v.value is None else to_common(value) == to_common(v.value) for v in node.values]
    return True if True in one_of else None if None in one_of else False


def all_of(truths: Any) -> Truth:
    """Three-valued AND."""
    seen = list(truths)
    return False if False in seen else None if None in seen else True


def negate(truth: Truth) -> Truth:
    return None if truth is None else not truth


def compare(column: Column, value: Value, op: str, literal: Literal) -> Truth:
    """`value op literal` for a value of the column's type."""
    if op == "<=>":
        if value is None or literal.value is None:
            return value is literal.value
        return compare(column, value, "=", literal)
    if column.type == "integer" and op in ORDERED and literal.kind == "decimal":
        bound = exact(literal.value)
        if not INT64_MIN <= bound <= INT64_MAX:
            return HOLDS[op](0, bound)
        return None if value is None else HOLDS[op](exact(value), bound)
    if value is None or literal.value is None:
        return None
    to_common = common_type(column, (literal,))
    return HOLDS[op](to_common(value), to_common(literal.value))


def common_type(column: Column, literals: Sequence[Literal], listed: bool = False) -> Callable[[Any], Any]:
    """How Spark brings a column's value and these literals to one type, as a key that Python orders alike."""
    kinds = {literal.kind for literal in literals if literal.kind != "null"}
    if column.type == "string":
        return lambda v: v.encode("utf-8")
    if column.type == "boolean":
        return bool
    if column.type in ("date", "timestamp"):
        return microseconds
    if column.type == "number":
        return number_key
    if column.type == "float" or "double" in kinds:
        return double_key
    if column.type == "integer" and kinds <= {"integer"}:
        return exact
    scale = common_scale(column, literals, listed)
    return lambda v: round_half_up(exact(v), scale)


def exact(value: Any) -> Fraction:
    return Fraction(value)


def double_key(value: Any) -> tuple[bool, float]:
    """Rounded to double; NaN above all, equal to itself. Zeros are equal already."""
    rounded = float(value)
    return (True, 0.0) if math.isnan(rounded) else (False, rounded)


def number_key(value: Any) -> tuple[int, Fraction]:
    """A whole number is itself, any other its nearest double; -inf, the finite, inf, NaN."""
    if value != value:
        return 2, Fraction(0)
    if isinstance(value, (float, Decimal)) and math.isinf(value):
        return (1 if value > 0 else -1), Fraction(0)
    given = Fraction(value)
    return 0, given if given.denominator == 1 else Fraction(float(given))


def microseconds(value: Any) -> int:
    """Microseconds since 1970 in UTC of a timestamp, of a date's midnight, or of the ISO text of either."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return (utc(value) - EPOCH) // timedelta(microseconds=1)


def common_scale(column: Column, literals: Sequence[Literal], listed: bool) -> int:
    """The scale of the decimal that an integer or decimal column and exact literals meet in.

    Whole digits come first: where both do not fit in 38 digits, the fraction loses.
    """
    whole, scale = decimal_type(column)
    for literal in literals:
        if literal.kind == "null":
            continue
        more_whole, more_scale = literal_type(literal, listed)
        whole, scale = max(whole, more_whole), max(scale, more_scale)
        scale = max(0, scale - max(0, whole + scale - MAX_PRECISION))
    return scale


def decimal_type(column: Column) -> tuple[int, int]:
    """(whole digits, scale) of the decimal that holds the column."""
    declared = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", column.type)
    if declared is None:
        return (20, 0)
    precision, scale = map(int, declared.groups())
    return (precision - scale, scale)


def literal_type(literal: Literal, listed: bool) -> tuple[int, int]:
    """(whole digits, scale) of an exact literal; in an IN list an integer counts as wide as its type."""
    if isinstance(literal.value, Decimal):
        _, digits, exponent = literal.value.as_tuple()
        scale = max(0, -int(exponent))
        precision = max(len(digits) + max(0, int(exponent)), scale)
        assert precision <= MAX_PRECISION, "Spark refuses a decimal literal of more than 38 digits"
        return (precision - scale, scale)
    assert isinstance(literal.value, int)
    if listed:
        return (10 if -(2**31) <= literal.value < 2**31 else 20, 0)
    return (len(str(abs(literal.value))), 0)


def round_half_up(value: Fraction, scale: int) -> Fraction:
    """Rounded to `scale` fractional digits, halves away from zero."""
    magnitude = abs(value) * 10**scale
    rounded = Fraction(math.floor(magnitude + Fraction(1, 2)), 10**scale)
    return -rounded if value < 0 else rounded
