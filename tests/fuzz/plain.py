"""Conditions as plain sqlglot reads them, without stand-ins, templates or anything else of the package.

`plain(text)` and `plain_condition(earmark.parse(text))` give the same nested tuples for the same condition.
"""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from earmark.language.predicate import And, Condition, Constant, Is, Not, Or, Predicate


class DoubledQuotes(Spark):
    """Spark's dialect with `''` for a quote inside quotes."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ("\\", "'")


OPERATORS: dict[type, tuple[str, str]] = {
    exp.EQ: ("=", "="),
    exp.NEQ: ("!=", "!="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
    exp.NullSafeEQ: ("<=>", "<=>"),
}
LITERALS = (exp.Literal, exp.Neg, exp.Boolean, exp.Null, exp.Cast)


class UnknownError(Exception):
    """Beyond this reader: it knows the spellings of the generator and most of the list."""


def plain(text: str) -> Any:
    return read(DoubledQuotes().parse(text)[0])


def read(node: Any) -> Any:
    if isinstance(node, exp.Paren):
        return read(node.this)
    if isinstance(node, exp.And | exp.Or):
        return joined(type(node).__name__.lower(), (read(node.this), read(node.expression)))
    if isinstance(node, exp.Not):
        return ("not", read(node.this))
    if isinstance(node, exp.Boolean):
        return ("constant", bool(node.this))
    if isinstance(node, exp.Null):
        return ("constant", None)
    if isinstance(node, exp.Column):
        return (name(node), "=", (shown(True),))
    if isinstance(node, exp.Is):
        if isinstance(node.expression, exp.Null):
            return (name(node.this), "IS NULL", ())
        return ("is", read(node.this), bool(node.expression.this))
    if isinstance(node, exp.Between):
        return (name(node.this), "BETWEEN", (value(node.args["low"]), value(node.args["high"])))
    if isinstance(node, exp.In):
        return (name(node.this), "IN", tuple(value(v) for v in node.expressions))
    if isinstance(node, exp.Like):
        made = (name(node.this), "LIKE", (value(node.expression),))
        return ("not", made) if node.args.get("negate") else made
    if type(node) in OPERATORS:
        plain_operator, flipped = OPERATORS[type(node)]
        if isinstance(node.this, LITERALS):
            return (name(node.expression), flipped, (value(node.this),))
        return (name(node.this), plain_operator, (value(node.expression),))
    raise UnknownError(repr(node))


def joined(kind: str, parts: Any) -> Any:
    flat: list[Any] = []
    for part in parts:
        flat.extend(part[1] if part[0] == kind else [part])
    return (kind, tuple(flat))


def name(node: Any) -> str:
    while isinstance(node, exp.Paren):
        node = node.this
    if not isinstance(node, exp.Column):
        raise UnknownError(repr(node))
    return str(node.name)


def value(node: Any) -> str:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg):
        found = literal(node.this)
        return shown(found.copy_negate() if isinstance(found, Decimal) else -found)
    return shown(literal(node))


def literal(node: Any) -> Any:
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Cast):
        kind = node.to.this.value
        if kind == "DATE":
            return date.fromisoformat(node.this.this)
        if kind.startswith("TIMESTAMP"):
            return datetime.fromisoformat(node.this.this)
        if kind == "BIGINT":
            return int(node.this.this)
        if kind == "DOUBLE":
            return float(node.this.this)
    if isinstance(node, exp.Literal) and node.is_string:
        return node.this
    if isinstance(node, exp.Literal):
        if "e" in node.this.lower():
            return float(node.this)
        return int(node.this) if node.this.isdigit() else Decimal(node.this)
    raise UnknownError(repr(node))


def shown(found: Any) -> str:
    """A value so that 1, 1.0, True and 1.00 differ, and NaN is itself."""
    return "NaN" if isinstance(found, float) and math.isnan(found) else repr(found)


def plain_condition(condition: Condition) -> Any:
    """What the package made of a text, in the same form."""
    match condition:
        case And(parts):
            return joined("and", tuple(plain_condition(p) for p in parts))
        case Or(parts):
            return joined("or", tuple(plain_condition(p) for p in parts))
        case Not(part):
            return ("not", plain_condition(part))
        case Is(part, truth):
            return ("is", plain_condition(part), truth)
        case Constant(truth):
            return ("constant", truth)
        case Predicate(attribute, operator, values):
            return (attribute, operator, tuple(shown(v) for v in values))
    raise AssertionError(condition)
