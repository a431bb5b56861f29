"""Conditions as a small tree, and the text of each that Spark SQL reads. Shares nothing with the package.

    Or((Compare(Column("age", "integer"), ">", integer(21)), IsNull(Column("city", "string"))))
    to_sql(…) == "age > 21 OR city IS NULL"

A column carries its type ("integer", "float", "boolean", "string", "date", "timestamp", "decimal(9,2)"; "number" where
it is learned), because
what a comparison means depends on it even when the row has no value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TypeAlias

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
Value: TypeAlias = "int | float | bool | str | date | datetime | Decimal | None"


@dataclass(frozen=True)
class Column:
    """An attribute; alone, where a condition is expected, it is a bare boolean."""

    name: str
    type: str


@dataclass(frozen=True)
class Literal:
    """A constant of kind integer, decimal, double, string, boolean, date, timestamp or null.

    `text`, when given, is how it is spelled in SQL (`5L` for 5); otherwise the plainest spelling is used.
    """

    kind: str
    value: Value
    text: str | None = None


@dataclass(frozen=True)
class Compare:
    """`left op right`, one side a column and the other a literal; op is one of < <= = != >= > <=> (also == <>)."""

    left: Column | Literal
    op: str
    right: Column | Literal


@dataclass(frozen=True)
class Between:
    column: Column
    low: Literal
    high: Literal
    negated: bool = False


@dataclass(frozen=True)
class In:
    column: Column
    values: tuple[Literal, ...]
    negated: bool = False


@dataclass(frozen=True)
class Like:
    """`column LIKE '<prefix>%'`, the prefix taken literally."""

    column: Column
    prefix: str
    negated: bool = False


@dataclass(frozen=True)
class IsNull:
    column: Column
    negated: bool = False


@dataclass(frozen=True)
class IsTruth:
    """`(part) IS [NOT] TRUE` or `IS [NOT] FALSE`."""

    part: Node
    truth: bool
    negated: bool = False


@dataclass(frozen=True)
class Not:
    part: Node


@dataclass(frozen=True)
class And:
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Or:
    parts: tuple[Node, ...]


Node: TypeAlias = "Column | Literal | Compare | Between | In | Like | IsNull | IsTruth | Not | And | Or"
Leaf: TypeAlias = "Column | Literal | Compare | Between | In | Like | IsNull"

TRUE, FALSE, NULL = Literal("boolean", True), Literal("boolean", False), Literal("null", None)


def integer(value: int, text: str | None = None) -> Literal:
    """An integer literal; outside int64 Spark makes it a decimal, and so does this."""
    if INT64_MIN <= value <= INT64_MAX:
        return Literal("integer", value, text)
    return Literal("decimal", Decimal(value), text)


def decimal(digits: str) -> Literal:
    """A decimal literal as spelled: `1.50` has scale 2."""
    return Literal("decimal", Decimal(digits), digits)


def double(value: float, text: str | None = None) -> Literal:
    return Literal("double", value, text)


def string(value: str) -> Literal:
    return Literal("string", value)


def day(value: date) -> Literal:
    return Literal("date", value)


def instant(value: datetime) -> Literal:
    """A timestamp literal; a naive value is UTC."""
    return Literal("timestamp", value)


def to_sql(node: Node) -> str:
    """The condition's text, with no more parentheses than Spark's precedence needs."""
    if isinstance(node, Column):
        return name_sql(node.name)
    if isinstance(node, Literal):
        return literal_sql(node)
    if isinstance(node, Or):
        return " OR ".join(to_sql(p) if not isinstance(p, Or) else f"({to_sql(p)})" for p in node.parts)
    if isinstance(node, And):
        return " AND ".join(to_sql(p) if not isinstance(p, (And, Or)) else f"({to_sql(p)})" for p in node.parts)
    if isinstance(node, Not):
        return f"NOT ({to_sql(node.part)})" if isinstance(node.part, (And, Or)) else f"NOT {to_sql(node.part)}"
    return predicate_sql(node)


def predicate_sql(node: Compare | Between | In | Like | IsNull | IsTruth) -> str:
    negation = "" if isinstance(node, Compare) or not node.negated else "NOT "
    if isinstance(node, Compare):
        return f"{to_sql(node.left)} {node.op} {to_sql(node.right)}"
    if isinstance(node, IsTruth):
        part = to_sql(node.part) if isinstance(node.part, (Column, Literal)) else f"({to_sql(node.part)})"
        return f"{part} IS {negation}{'TRUE' if node.truth else 'FALSE'}"
    column = to_sql(node.column)
    if isinstance(node, IsNull):
        return f"{column} IS {negation}NULL"
    if isinstance(node, Between):
        return f"{column} {negation}BETWEEN {to_sql(node.low)} AND {to_sql(node.high)}"
    if isinstance(node, In):
        return f"{column} {negation}IN ({', '.join(map(to_sql, node.values))})"
    pattern = re.sub(r"([\\%_])", r"\\\1", node.prefix) + "%"
    return f"{column} {negation}LIKE {string_sql(pattern)}"


def name_sql(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


def string_sql(value: str) -> str:
    """A string literal: quotes doubled, backslashes escaped, everything else as it is."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def literal_sql(literal: Literal) -> str:
    value = literal.value
    if literal.text is not None:
        return literal.text
    if literal.kind == "null":
        return "NULL"
    if literal.kind == "boolean":
        return "TRUE" if value else "FALSE"
    if literal.kind == "double":
        return f"{value!r}D"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, str):
        return string_sql(value)
    if isinstance(value, datetime):
        # strftime drops the zeros that early years need; isoformat keeps them.
        return f"TIMESTAMP '{utc(value).replace(tzinfo=None).isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    return str(value)


def utc(value: datetime) -> datetime:
    """The same instant with UTC attached; a naive value is read as UTC."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def column_of(leaf: Leaf) -> Column | None:
    """The column that a leaf is about, None for a constant."""
    if isinstance(leaf, Column):
        return leaf
    if isinstance(leaf, Literal):
        return None
    if isinstance(leaf, Compare):
        side = leaf.left if isinstance(leaf.left, Column) else leaf.right
        assert isinstance(side, Column), "a comparison has one column"
        return side
    return leaf.column


def literals_of(leaf: Leaf) -> tuple[Literal, ...]:
    """The literals that a leaf compares its column with."""
    if isinstance(leaf, Compare):
        return tuple(side for side in (leaf.left, leaf.right) if isinstance(side, Literal))
    if isinstance(leaf, Between):
        return (leaf.low, leaf.high)
    if isinstance(leaf, In):
        return leaf.values
    if isinstance(leaf, Like):
        return (string(leaf.prefix),)
    if isinstance(leaf, Column):
        return (TRUE,)
    return ()


def leaves(node: Node) -> Iterator[Leaf]:
    """Every leaf, left to right."""
    if isinstance(node, (And, Or)):
        for part in node.parts:
            yield from leaves(part)
    elif isinstance(node, (Not, IsTruth)):
        yield from leaves(node.part)
    else:
        yield node
