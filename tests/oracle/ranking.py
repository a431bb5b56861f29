"""Clauses, constraints and scores of a condition, straight from their definitions; slow on purpose.

A condition becomes an OR of clauses. NOT is pushed down to the leaves by asking each part one of four questions:

    true        it is TRUE            false       it is FALSE
    not true    FALSE or unknown      not false   TRUE or unknown

so that `(x) IS NOT TRUE` needs no special case. A clause groups what it asks by attribute; one group is one
**constraint**, which holds iff everything asked of that attribute holds at once. Constants add no constraint: one
that fails drops its clause. An OR over one attribute is one constraint, not several clauses.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

from .naive import EPOCH, Truth, decimal_type, double_key, evaluate, exact, microseconds, number_key
from .syntax import (
    INT64_MAX,
    INT64_MIN,
    And,
    Column,
    IsTruth,
    Leaf,
    Literal,
    Node,
    Not,
    Or,
    column_of,
    literals_of,
)

OPPOSITE = {"true": "false", "false": "true", "not true": "not false", "not false": "not true"}
ANSWERS: dict[str, tuple[Truth, ...]] = {
    "true": (True,),
    "false": (False,),
    "not true": (False, None),
    "not false": (True, None),
}
FLOAT_SPECIALS = (-math.inf, math.inf, math.nan)


class TooManyClausesError(Exception):
    """The condition has more clauses than was asked for."""


@dataclass(frozen=True)
class Interval:
    """The value of an extended event: every value from lo to hi, both included."""

    lo: Any
    hi: Any


@dataclass(frozen=True)
class Asked:
    """One leaf and the question asked of it."""

    leaf: Leaf
    question: str


@dataclass(frozen=True)
class AnyOf:
    """An OR of conjunctions that are all about one attribute."""

    alternatives: tuple[tuple[Part, ...], ...]


Part: TypeAlias = "Asked | AnyOf"
Constraint: TypeAlias = "tuple[Part, ...]"
Clause: TypeAlias = "dict[str, Constraint]"


@lru_cache(maxsize=4096)
def clauses(node: Node, limit: int = 1024) -> list[Clause]:
    """The condition as clauses, each a dict attribute -> constraint; more than `limit` is TooManyClausesError."""
    return [grouped(parts) for parts in normal_form(node, "true", limit)]


def normal_form(node: Node, question: str, limit: int) -> list[tuple[Part, ...]]:
    """An OR of ANDs of parts that answers the question; no alternatives is never, an empty one is always."""
    if isinstance(node, Not):
        return normal_form(node.part, OPPOSITE[question], limit)
    if isinstance(node, IsTruth):
        return normal_form(node.part, truth_question(node, question), limit)
    if isinstance(node, Literal):
        return [()] if evaluate(node, {}) in ANSWERS[question] else []
    if not isinstance(node, (And, Or)):
        return [(Asked(node, question),)]
    of_parts = [normal_form(part, question, limit) for part in node.parts]
    if isinstance(node, And) == (question in ("true", "not false")):
        return conjunction(of_parts, limit)
    return disjunction(of_parts, limit)


def truth_question(node: IsTruth, question: str) -> str:
    """What to ask of x, given what is asked of `x IS [NOT] TRUE/FALSE`, which itself is never unknown."""
    wanted = (question in ("true", "not false")) is not node.negated
    name = "true" if node.truth else "false"
    return name if wanted else f"not {name}"


def conjunction(of_parts: list[list[tuple[Part, ...]]], limit: int) -> list[tuple[Part, ...]]:
    product: list[tuple[Part, ...]] = [()]
    for alternatives in of_parts:
        if len(product) * len(alternatives) > limit:
            raise TooManyClausesError
        product = [left + right for left, right in itertools.product(product, alternatives)]
    return product


def disjunction(of_parts: list[list[tuple[Part, ...]]], limit: int) -> list[tuple[Part, ...]]:
    alternatives = [alternative for part in of_parts for alternative in part]
    names = {attribute(part) for alternative in alternatives for part in alternative}
    if len(alternatives) > 1 and len(names) == 1 and all(alternatives):
        return [(AnyOf(tuple(alternatives)),)]
    if len(alternatives) > limit:
        raise TooManyClausesError
    return alternatives


def attribute(part: Part) -> str:
    while isinstance(part, AnyOf):
        part = part.alternatives[0][0]
    column = column_of(part.leaf)
    assert column is not None, "constants are not parts"
    return column.name


def grouped(parts: Sequence[Part]) -> Clause:
    clause: Clause = {}
    for part in parts:
        clause[attribute(part)] = (*clause.get(attribute(part), ()), part)
    return clause


def holds(constraint: Constraint, row: Mapping[str, Any]) -> bool:
    """Whether the constraint holds for the row, or for some row in the box of an extended one."""
    name = attribute(constraint[0])
    value = row.get(name)
    candidates = points(constraint, value) if isinstance(value, Interval) else [value]
    return any(all(part_holds(part, {name: candidate}) for part in constraint) for candidate in candidates)


def part_holds(part: Part, row: Mapping[str, Any]) -> bool:
    if isinstance(part, AnyOf):
        return any(all(part_holds(p, row) for p in alternative) for alternative in part.alternatives)
    return evaluate(part.leaf, row) in ANSWERS[part.question]


def matches(node: Node, row: Mapping[str, Any]) -> bool:
    """Whether the condition keeps the row, or some row in the box of an extended one."""
    return exact_score(node, row, {}, {}, 0.0, ()) is not None


def exact_score(
    node: Node,
    row: Mapping[str, Any],
    weights: Mapping[str, float],
    event_weights: Mapping[str, float],
    static: float,
    order: Sequence[str],
) -> float | None:
    """The best score of a clause all of whose constraints hold; None when there is none.

    Weights are 1 unless given. Terms are added in the order of `order` (attributes that are not listed come last).
    """
    scores = [
        clause_sum(clause, row, weights, event_weights, static, order)
        for clause in clauses(node)
        if all(holds(constraint, row) for constraint in clause.values())
    ]
    return max(scores, default=None)


def relaxed_score(
    node: Node,
    row: Mapping[str, Any],
    weights: Mapping[str, float],
    event_weights: Mapping[str, float],
    static: float,
    order: Sequence[str],
) -> float | None:
    """As exact_score, where one constraint that holds is enough and only those that hold are summed."""
    scores = []
    for clause in clauses(node):
        held = {name: constraint for name, constraint in clause.items() if holds(constraint, row)}
        if held or not clause:
            scores.append(clause_sum(held, row, weights, event_weights, static, order))
    return max(scores, default=None)


def clause_sum(
    clause: Clause,
    row: Mapping[str, Any],
    weights: Mapping[str, float],
    event_weights: Mapping[str, float],
    static: float,
    order: Sequence[str],
) -> float:
    place = {name: position for position, name in enumerate(order)}
    total = static
    for name in sorted(clause, key=lambda n: place.get(n, len(place))):
        if row.get(name) is not None:
            total += weights.get(name, 1.0) * event_weights.get(name, 1.0)
    return total


def clause_combined(
    clause: Clause,
    row: Mapping[str, Any],
    weights: Mapping[str, float],
    event_weights: Mapping[str, float],
    static: float,
    order: Sequence[str],
    combine: Callable[[float, float], float],
) -> float:
    """The score of a clause whose terms are combined two by two; an attribute that the row lacks gives no term."""
    place = {name: position for position, name in enumerate(order)}
    names = sorted(clause, key=lambda n: place.get(n, len(place)))
    terms = [weights.get(n, 1.0) * event_weights.get(n, 1.0) for n in names if row.get(n) is not None]
    return static + (functools.reduce(combine, terms) if terms else 0.0)


def points(constraint: Constraint, box: Interval) -> list[Any]:
    """Values inside the box such that the constraint holds for one of them iff it holds for any in the box.

    Between two neighbouring literals every value answers alike, so the ends of the box, each literal and its
    neighbours in the type's domain are enough.
    """
    columns = {column_of(asked.leaf) for part in constraint for asked in asked_in(part)}
    (column,) = columns
    assert column is not None
    literals = [lit for part in constraint for asked in asked_in(part) for lit in literals_of(asked.leaf)]
    found = [box.lo, box.hi, *itertools.chain.from_iterable(neighbours(column, lit) for lit in literals)]
    low, high = order_key(column, box.lo), order_key(column, box.hi)
    return [value for value in found if low <= order_key(column, value) <= high]


def asked_in(part: Part) -> list[Asked]:
    if isinstance(part, Asked):
        return [part]
    return [asked for alternative in part.alternatives for p in alternative for asked in asked_in(p)]


def order_key(column: Column, value: Any) -> Any:
    """A key that orders the column's own values."""
    if column.type == "number":
        return number_key(value)
    if column.type == "float":
        return double_key(value)
    if column.type == "string":
        return value.encode("utf-8")
    if column.type in ("date", "timestamp"):
        return microseconds(value)
    return exact(value)


@lru_cache(maxsize=4096)
def neighbours(column: Column, literal: Literal) -> list[Any]:
    """Values of the column's type at the literal and next to it on both sides."""
    value = literal.value
    if column.type == "boolean":
        return [False, True]
    if value is None:
        return []
    if column.type == "number":
        return numbers_around(value)
    if column.type == "float":
        near = float(value)  # type: ignore[arg-type]
        return [near, math.nextafter(near, -math.inf), math.nextafter(near, math.inf), *FLOAT_SPECIALS]
    if column.type == "string":
        return string_neighbours(str(value))
    if column.type == "timestamp":
        ticks = microseconds(value)
        return [EPOCH + timedelta(microseconds=t) for t in (ticks - 1, ticks, ticks + 1) if in_calendar(t)]
    if column.type == "date":
        number = microseconds(value) // (86_400 * 1_000_000) + EPOCH.toordinal()
        last = date.max.toordinal()
        return [date.fromordinal(n) for n in range(number - 1, number + 3) if 1 <= n <= last]
    return number_neighbours(column, value)


def numbers_around(value: Any) -> list[Any]:
    """Integers and doubles at the number and next to it on both sides."""
    whole = math.floor(value)
    near = float(value)
    doubles = [near, math.nextafter(near, -math.inf), math.nextafter(near, math.inf)]
    return [whole - 1, whole, whole + 1, whole + 2, *doubles, *FLOAT_SPECIALS]


def in_calendar(ticks: int) -> bool:
    return microseconds(datetime.min) <= ticks <= microseconds(datetime.max)


def string_neighbours(value: str) -> list[str]:
    """The string, the one right after it, and the first that no longer begins with it."""
    successors = []
    for end in range(len(value), 0, -1):
        code = ord(value[end - 1])
        if code < 0x10FFFF:
            # The code points after U+D7FF are surrogates, which no string holds.
            successors.append(value[: end - 1] + chr(0xE000 if code == 0xD7FF else code + 1))
            break
    return [value, value + "\0", *successors]


def number_neighbours(column: Column, value: Any) -> list[Any]:
    """Integers (of the last decimal place) around the literal, taken exactly and after rounding to double."""
    scale = decimal_type(column)[1]
    least, most = (INT64_MIN, INT64_MAX) if column.type == "integer" else (1 - 10**18, 10**18 - 1)
    sides: list[Callable[[Fraction], bool]] = [
        lambda x: x < exact(value),
        lambda x: x <= exact(value),
        lambda x: float(x) < float(value),
        lambda x: float(x) <= float(value),
    ]
    units = {first_beyond(side, scale, least, most) for side in sides}
    around = sorted({u + step for u in units for step in (-1, 0, 1) if least <= u + step <= most})
    return [u if column.type == "integer" else Decimal(u).scaleb(-scale) for u in around]


def first_beyond(below: Callable[[Fraction], bool], scale: int, least: int, most: int) -> int:
    """The first unit from `least` on whose value is no longer `below`; most + 1 when all are."""
    while least <= most:
        middle = (least + most) // 2
        if below(Fraction(middle, 10**scale)):
            least = middle + 1
        else:
            most = middle - 1
    return least
