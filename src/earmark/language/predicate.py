"""Conditions as Python objects, and as the SQL text that Spark reads the same way.

    Predicate("age", "BETWEEN", 22, 36) & ~Predicate("city", "IN", "x", "y")

The parser (parse.py) makes the same objects from text. `to_sql` is their text; it is what the table keeps as
"what was asked", so parsing it again gives the same condition.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import IntEnum
from itertools import chain
from typing import Any, TypeAlias

from earmark.errors import SubscriptionError, shortened, shown
from earmark.language.literals import Value, decimal_size

COMPARISONS = frozenset({"<", "<=", "=", "!=", ">=", ">", "<=>"})
_NEGATIVE = {"NOT IN": "IN", "NOT LIKE": "LIKE", "NOT BETWEEN": "BETWEEN", "IS NOT NULL": "IS NULL"}
_ARITY = {**dict.fromkeys(COMPARISONS, 1), "LIKE": 1, "BETWEEN": 2, "IS NULL": 0, "IN": None}
MAX_TEXT = 1 << 20  # characters of a condition
MAX_NAME = 1_000  # characters of an attribute's name
MAX_PARTS = 40  # of a name with dots
_MAX_DIGITS = 38
_MAX_DEPTH = 160  # of objects; what the parser makes stays far below
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Condition:
    """A Boolean condition on an event; combine with `&`, `|` and `~`."""

    __slots__ = ()

    def __and__(self, other: Condition) -> Condition:
        return joined(And, (self, _condition(other)))

    def __or__(self, other: Condition) -> Condition:
        return joined(Or, (self, _condition(other)))

    def __invert__(self) -> Condition:
        return Not(self)

    def __bool__(self) -> bool:
        raise SubscriptionError(
            "a condition has no truth of its own: combine conditions with &, | and ~, not and/or/not"
        )

    def __str__(self) -> str:
        return to_sql(self)

    def __repr__(self) -> str:
        return f"parse({to_sql(self)!r})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Predicate(Condition):
    """One test of one attribute.

    >>> print(Predicate("age", ">=", 22) & ~Predicate("city", "IN", "x", "it's"))
    age >= 22 AND NOT city IN ('x', 'it''s')
    """

    attribute: str
    operator: str
    values: tuple[Any, ...]

    def __init__(self, attribute: str, operator: str, *values: Value | None) -> None:
        if not isinstance(attribute, str) or not all(attribute.split(".")):
            raise SubscriptionError(f"expected an attribute's name in a predicate, got {shown(attribute)}")
        if not isinstance(operator, str):
            raise SubscriptionError(f"expected an operator such as '<=' in a predicate, got {shown(operator)}")
        name = " ".join(operator.upper().split())
        name = {"==": "=", "<>": "!="}.get(name, name)
        if len(values) == 1 and name in ("IN", "NOT IN"):
            values = listed(values[0])
        _check_arity(attribute, operator, name, values)
        object.__setattr__(self, "attribute", attribute)
        object.__setattr__(self, "operator", name)
        object.__setattr__(self, "values", tuple(checked_value(v, f"on {attribute!r}") for v in values))

    def __repr__(self) -> str:
        return f"Predicate({', '.join(map(repr, (self.attribute, self.operator, *self.values)))})"

    def positive(self) -> Condition:
        """The same condition with NOT outside: `a NOT IN (1)` is NOT `a IN (1)`."""
        if self.operator in _NEGATIVE:
            return Not(test(self.attribute, _NEGATIVE[self.operator], self.values))
        return self


_set_attribute, _set_operator, _set_values = (Predicate.__dict__[name].__set__ for name in Predicate.__slots__)


def test(attribute: str, operator: str, values: tuple[Any, ...]) -> Predicate:
    """A Predicate whose parts are known to be right (or are still to be filled in by the parser)."""
    made = object.__new__(Predicate)
    _set_attribute(made, attribute)
    _set_operator(made, operator)
    _set_values(made, values)
    return made


@dataclass(frozen=True, slots=True, repr=False)
class And(Condition):
    """All of the parts."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Or(Condition):
    """Any of the parts."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Not(Condition):
    """Three-valued NOT: unknown stays unknown."""

    part: Condition


@dataclass(frozen=True, slots=True, repr=False)
class Is(Condition):
    """`part IS TRUE` or `part IS FALSE`: never unknown."""

    part: Condition
    truth: bool


@dataclass(frozen=True, slots=True, repr=False)
class Constant(Condition):
    """TRUE, FALSE, or unknown (NULL)."""

    truth: bool | None


Node: TypeAlias = Predicate | And | Or | Not | Is | Constant


# --- atoms: what clauses are made of (normal.py) -----------------------------------------------------------------


class Mode(IntEnum):
    """What a part of a condition is wanted to be."""

    TRUE = 0
    FALSE = 1
    NOT_TRUE = 2
    NOT_FALSE = 3


@dataclass(frozen=True, slots=True)
class Leaf:
    """A predicate and what it is wanted to be."""

    predicate: Predicate
    mode: Mode


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Some part holds; all parts are on one attribute."""

    parts: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds; all parts are on one attribute."""

    parts: tuple[Atom, ...]


Atom: TypeAlias = Leaf | AnyOf | AllOf


def joined(kind: type[And] | type[Or], parts: Iterable[Condition]) -> Condition:
    """The And (or Or) of the parts; parts that are such themselves dissolve in it, as they do in text."""
    return kind(tuple(chain.from_iterable(p.parts if isinstance(p, kind) else (p,) for p in parts)))


def _condition(value: object) -> Condition:
    if not isinstance(value, Condition):
        raise SubscriptionError(f"a condition combines with conditions only, got {shown(value)}")
    return value


def listed(value: Any) -> tuple[Any, ...]:
    """The values of an IN, given one by one or as a list; a set is sorted, so that its text is always the same."""
    if isinstance(value, set | frozenset):
        return tuple(sorted(value, key=repr))
    return tuple(value) if is_list(value) else (value,)


def is_list(value: Any) -> bool:
    """Whether a value is several: a list, a tuple, a set or an array of one dimension."""
    return isinstance(value, list | tuple | set | frozenset) or getattr(value, "ndim", 0) == 1


def _check_arity(attribute: str, operator: str, name: str, values: tuple[object, ...]) -> None:
    base = _NEGATIVE.get(name, name)
    if base not in _ARITY:
        known = ", ".join([*sorted(COMPARISONS), "BETWEEN", "IN", "NOT IN", "LIKE", "IS NULL", "IS NOT NULL"])
        raise SubscriptionError(
            f"{operator!r} on {attribute!r} is not an operator; the operators are {known}", attribute=attribute
        )
    wanted = _ARITY[base]
    if (wanted is None and not values) or (wanted is not None and len(values) != wanted):
        number = "at least one value" if wanted is None else f"{wanted} value{'s' * (wanted != 1)}"
        raise SubscriptionError(f"{name} on {attribute!r} takes {number}, got {len(values)}", attribute=attribute)


def checked_value(value: Any, where: str) -> Value | None:
    """The value as one of ours (scalars of numpy and pandas become Python's), or an error that says where it is."""
    if type(value).__module__ == "numpy" and getattr(value, "ndim", -1) == 0:
        value = _python_scalar(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if abs(value) >= 10**_MAX_DIGITS:
            raise SubscriptionError(f"an integer of more than {_MAX_DIGITS} digits {where} cannot be compared")
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Decimal):
        if not value.is_finite() or decimal_size(value)[0] > _MAX_DIGITS:
            raise SubscriptionError(f"{value} {where} is not a decimal of at most {_MAX_DIGITS} digits")
        return Decimal(f"{value:f}")  # as its text is read: 1E+3 is 1000
    if isinstance(value, str):
        check_text(value, f"the string {shortened(value, 60)!r} {where}")
        return str.__str__(value)
    if isinstance(value, datetime):
        return _checked_datetime(value, where)
    if isinstance(value, date):
        return date(value.year, value.month, value.day)
    raise SubscriptionError(
        f"{shortened(repr(value), 60)} {where} is of no type a condition can hold"
        " (number, string, boolean, date, datetime, Decimal or None)"
    )


def _python_scalar(value: Any) -> Any:
    """A numpy scalar as Python's where that holds it exactly; otherwise as it is, for the checks to refuse."""
    if value.dtype.kind == "M" and isinstance(value.item(), int):  # finer than microseconds, or beyond the calendar
        whole = value.astype("datetime64[us]")
        return whole.item() if whole == value and isinstance(whole.item(), datetime) else value
    if value.dtype.kind == "f" and not isinstance(value.item(), float):  # wider than double
        return float(value) if float(value) == value or value != value else value
    return value.item()


def _checked_datetime(value: datetime, where: str) -> datetime:
    if getattr(value, "nanosecond", 0):
        raise SubscriptionError(f"{value} {where} has nanoseconds, which do not fit microseconds")
    try:
        if value != value:
            raise ValueError("pandas.NaT is not a moment")
        if value.tzinfo is not None:
            value = value.astimezone(timezone.utc)  # noqa: UP017
        parts = (value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond)
        return datetime(*parts, tzinfo=value.tzinfo)
    except (ValueError, OverflowError):
        raise SubscriptionError(f"{value!r} {where} is not a moment of the years 1 to 9999 in UTC") from None


def check_text(text: str, what: str) -> None:
    """UTF-8 must be able to carry it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SubscriptionError(f"{what} holds a lone surrogate, which UTF-8 cannot carry") from None


def filled(node: Condition, fill: Callable[[Any], Any]) -> Condition:
    """The same condition with every value replaced; a single value that becomes a tuple is spread."""
    match node:
        case Predicate(attribute, operator, values):
            values = tuple(fill(v) for v in values)
            spread = len(values) == 1 and isinstance(values[0], tuple)
            return test(attribute, operator, values[0] if spread else values)
        case And(parts) | Or(parts):
            return type(node)(tuple(filled(p, fill) for p in parts))
        case Not(part):
            return Not(filled(part, fill))
        case Is(part, truth):
            return Is(filled(part, fill), truth)
    return node


# --- as text -------------------------------------------------------------------------------------------------


def to_sql(condition: Condition) -> str:
    """The condition as Spark SQL text."""
    return _sql(condition, 0)


def _sql(condition: Condition, depth: int) -> str:
    if depth > _MAX_DEPTH:
        raise SubscriptionError(f"a condition nests deeper than {_MAX_DEPTH} levels")
    match condition:
        case Predicate():
            return _predicate_sql(condition)
        case And(parts):
            return " AND ".join(_inner(p, Or, depth) for p in parts) if parts else "TRUE"
        case Or(parts):
            return " OR ".join(_inner(p, (), depth) for p in parts) if parts else "FALSE"
        case Not(part):
            return f"NOT {_inner(part, (And, Or, Is), depth)}"
        case Is(part, truth):
            return f"({_sql(part, depth + 1)}) IS {'TRUE' if truth else 'FALSE'}"
        case Constant(truth):
            return {True: "TRUE", False: "FALSE", None: "NULL"}[truth]
    raise SubscriptionError(f"{shortened(repr(condition), 60)} is not a condition")


def _inner(part: Condition, wrap: type | tuple[type, ...], depth: int) -> str:
    text = _sql(part, depth + 1)
    return f"({text})" if isinstance(part, wrap) else text


def _predicate_sql(predicate: Predicate) -> str:
    name, operator = name_sql(predicate.attribute), predicate.operator
    literals = [literal_sql(v) for v in predicate.values]
    match operator:
        case "IS NULL" | "IS NOT NULL":
            return f"{name} {operator}"
        case "BETWEEN" | "NOT BETWEEN":
            return f"{name} {operator} {literals[0]} AND {literals[1]}"
        case "IN" | "NOT IN":
            return f"{name} {operator} ({', '.join(literals)})"
    return f"{name} {operator} {literals[0]}"


def name_sql(name: str) -> str:
    """An attribute's name, in backticks where it needs them; a dot separates the parts of a nested name."""
    return ".".join(
        part if _PLAIN_NAME.match(part) and part.upper() not in _KEYWORDS else "`" + part.replace("`", "``") + "`"
        for part in name.split(".")
    )


_KEYWORDS = frozenset(
    "AND OR NOT IN IS NULL TRUE FALSE BETWEEN LIKE ESCAPE DATE TIMESTAMP CAST AS DISTINCT FROM DOUBLE INTERVAL"
    " CASE SELECT WHERE EXISTS ILIKE RLIKE REGEXP COLLATE DIV ANY ALL SOME UNKNOWN".split()
)


def literal_sql(value: Any) -> str:
    """A literal that Spark reads as exactly this value."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _double_sql(value)
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text if "." in text else text + "BD"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{_timestamp_text(value)}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    return repr(value)


def _timestamp_text(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(" ")
    return value.astimezone(timezone.utc).replace(tzinfo=None).isoformat(" ") + "Z"  # noqa: UP017


def _double_sql(value: float) -> str:
    if math.isnan(value):
        return "CAST('NaN' AS DOUBLE)"
    if math.isinf(value):
        return "CAST('Infinity' AS DOUBLE)" if value > 0 else "CAST('-Infinity' AS DOUBLE)"
    return f"{value!r}D" if "e" not in repr(value) else repr(value)


_OPPOSITE = {"<": ">=", "<=": ">", "=": "!=", "!=": "=", ">=": "<", ">": "<="}
_OPPOSITE |= {positive: negative for negative, positive in _NEGATIVE.items()}
_WRAP = {Mode.NOT_TRUE: "({}) IS NOT TRUE", Mode.NOT_FALSE: "({}) IS NOT FALSE"}


def atom_sql(atom: Atom) -> str:
    """An atom as text, for explanations."""
    if isinstance(atom, Leaf):
        predicate, mode = atom.predicate, atom.mode
        if mode == Mode.TRUE:
            return to_sql(predicate)
        if mode == Mode.FALSE and predicate.operator in _OPPOSITE:
            return to_sql(test(predicate.attribute, _OPPOSITE[predicate.operator], predicate.values))
        return _WRAP.get(mode, "NOT ({})").format(to_sql(predicate))
    word = " OR " if isinstance(atom, AnyOf) else " AND "
    return "(" + word.join(atom_sql(p) for p in atom.parts) + ")"
