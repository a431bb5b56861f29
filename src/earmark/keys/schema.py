"""What attributes exist, what type each has, and who said so.

A type is declared by the user or learned from the first condition that compares the attribute with a value; events
teach nothing. Every type owns a contiguous *domain* of signed 64-bit keys (cuts.py, numbers.py), so `IS NOT NULL` is
the whole domain and the complement of a set of intervals is exact. While an attribute has no type, its values are
present or NULL, and all that are present have the key PRESENT, which is in the domain of every type.

A published `Schema` never changes, except that string constants get keys in the gaps (strings.py); a change makes
another one. `Draft` collects what a batch of subscriptions would add, so that a bad batch leaves no trace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from earmark.errors import AttributeTypeError, EarmarkError, SubscriptionError, require, shown
from earmark.flat.arrays import I64
from earmark.keys.strings import StringKeys
from earmark.language.literals import Value, zone_of
from earmark.language.predicate import MAX_NAME, MAX_PARTS
from earmark.language.words import nearest_name
from earmark.lazy import lazy_property


class Kind(StrEnum):
    """The kinds of types."""

    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    STRING = "string"
    DATE = "date"
    TIMESTAMP = "timestamp"
    DECIMAL = "decimal"
    NUMBER = "number"


NUMERIC = frozenset({Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL, Kind.NUMBER})

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
FLOAT_INF_KEY = 0x7FF0000000000000
FLOAT_NAN_KEY = FLOAT_INF_KEY + 1
PRESENT = 0
MAX_ATTRIBUTES = 1_000_000
LIFE = ".life"
"""The attribute that life spans constrain, a name that no condition can say. Its value is the time of the event."""

_ALIASES = dict.fromkeys(("int", "bigint", "long"), Kind.INTEGER)
_ALIASES |= {"double": Kind.FLOAT, "bool": Kind.BOOLEAN, "str": Kind.STRING}
_DECIMAL = re.compile(r"decimal\s*\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)\Z")


@dataclass(frozen=True, slots=True)
class AttributeType:
    """A kind of value and the closed interval of keys it can take."""

    kind: Kind
    low: int
    high: int
    precision: int = 0
    scale: int = 0
    keyed: bool = False
    """Keys come from a dictionary of the constants in use (strings.py): strings, and numbers that are wide."""

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.kind == Kind.DECIMAL else self.kind.value


_TYPES = {
    Kind.INTEGER: AttributeType(Kind.INTEGER, INT64_MIN, INT64_MAX),
    Kind.FLOAT: AttributeType(Kind.FLOAT, -FLOAT_INF_KEY, FLOAT_NAN_KEY),
    Kind.BOOLEAN: AttributeType(Kind.BOOLEAN, 0, 1),
    Kind.STRING: AttributeType(Kind.STRING, INT64_MIN, INT64_MAX, keyed=True),
    Kind.DATE: AttributeType(Kind.DATE, -(2**31), 2**31 - 1),
    Kind.TIMESTAMP: AttributeType(Kind.TIMESTAMP, INT64_MIN, INT64_MAX),
    Kind.NUMBER: AttributeType(Kind.NUMBER, -FLOAT_INF_KEY, FLOAT_NAN_KEY),
}
WIDE_NUMBER = AttributeType(Kind.NUMBER, INT64_MIN, INT64_MAX, keyed=True)
"""A number with bounds beyond 2^53 (numbers.py)."""


@lru_cache(maxsize=1024)
def attribute_type(name: str) -> AttributeType:
    """The type called `name`: number, integer, float, boolean, string, date, timestamp or decimal(p, s).

    >>> attribute_type("decimal(9, 2)").high
    999999999
    """
    if not isinstance(name, str):
        raise EarmarkError(f"expected the name of a type, such as 'integer', got {name!r}")
    text = name.strip().lower()
    text = _ALIASES.get(text, text)
    if text in _TYPES:
        return _TYPES[Kind(text)]
    if found := _DECIMAL.match(text):
        precision, scale = int(found[1]), int(found[2])
        if 1 <= precision <= 18 and scale <= precision:
            bound = 10**precision - 1
            return AttributeType(Kind.DECIMAL, -bound, bound, precision, scale)
        raise EarmarkError(f"{name!r} is out of range: decimal(p, s) takes 1 <= p <= 18 and 0 <= s <= p")
    known = ", ".join([*_TYPES, "decimal(p, s)"])
    raise EarmarkError(f"{name!r} is not a type; the types are {known}")


def type_of(value: Value) -> AttributeType:
    """The type an attribute learns from a literal."""
    if isinstance(value, bool):
        return attribute_type(Kind.BOOLEAN)
    if isinstance(value, int | float | Decimal):
        return attribute_type(Kind.NUMBER)
    if isinstance(value, str):
        return attribute_type(Kind.STRING)
    return attribute_type(Kind.TIMESTAMP if isinstance(value, datetime) else Kind.DATE)


_generations = count(1)


@dataclass(frozen=True, slots=True)
class Attribute:
    """A named dimension. `type` is None while no condition compares it with a value; `origin` says who fixed it."""

    number: int
    name: str
    type: AttributeType | None
    declared: bool
    origin: str

    @property
    def known_type(self) -> AttributeType:
        """The type, where there is one: without it, values are only present."""
        assert self.type is not None, f"attribute {self.name!r} has no type"
        return self.type

    def described(self) -> str:
        """For error messages: the type and who fixed it."""
        return f"{self.type} ({self._author()})"

    def expected(self) -> str:
        """For error messages: what its values are, and who fixed that."""
        return f"expected {article(str(self.type))} for {self.name!r} ({self._author()})"

    def _author(self) -> str:
        return "declared" if self.declared else f"first used so by {self.origin}"


def article(noun: str) -> str:
    """A noun with the article before it."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


class Schema:
    """Attributes by name and by number, the zone of naive timestamps, and the keys of constants."""

    def __init__(
        self, zone: str = "UTC", *, strict: bool = False, nan_is_null: bool = False, time: str | None = None
    ) -> None:
        self.zone_name = zone
        self.zone: tzinfo = zone_of(zone)
        self.strict = strict
        """Conditions may use declared attributes only."""
        self.nan_is_null = nan_is_null
        """An event's NaN counts as NULL."""
        if time is not None:
            check_name(time)
        self.time = time
        """The attribute that tells when an event happened, for subscriptions that have a life span."""
        self.by_name: dict[str, Attribute] = {}
        self.names: list[str] = []
        self.strings: dict[int, StringKeys] = {}
        self.shapes: dict[Any, Any] = {}
        """By template of a condition, what `bind.number_shape` knows of it."""
        self.generation = next(_generations)
        """Under schemas of one generation, a key that is in use means the same, and so does an attribute's number."""

    def __len__(self) -> int:
        return len(self.names)

    def __bool__(self) -> bool:
        """Always: a schema without attributes still has its zone, and must not be taken for none."""
        return True

    def __iter__(self) -> Iterator[Attribute]:
        return (self.by_name[name] for name in self.names)

    def declare(self, types: Mapping[str, str]) -> None:
        """Fix the types of attributes before anyone else sees the schema, and that of the time of events. O(1) each."""
        draft = Draft(self)
        draft.declare(types)
        if self.time is not None:
            if self.time not in draft.new and self.time not in self.by_name:
                draft.declare({self.time: "timestamp"})
            type_ = (draft.new.get(self.time) or self.by_name[self.time]).type
            if type_ is None or type_.kind not in (Kind.TIMESTAMP, Kind.DATE):
                raise EarmarkError(f"the time of events, {self.time!r}, is a timestamp or a date, got the type {type_}")
        for attribute in draft.new.values():
            self.put(attribute)

    def put(self, attribute: Attribute) -> None:
        """Add an attribute or replace its entry, before anyone else sees the schema."""
        keyed = attribute.type is not None and attribute.type.keyed
        if not keyed:
            self.strings.pop(attribute.number, None)
        elif attribute.number not in self.strings:
            self.strings[attribute.number] = StringKeys()
        self.by_name[attribute.name] = attribute
        if attribute.number == len(self.names):
            self.names.append(attribute.name)

    def replaced(self, attributes: Iterable[Attribute], strings: Mapping[int, StringKeys] | None = None) -> Schema:
        """Another schema, in which these attributes are added or have other types, and some other keys of constants.

        It is of the same generation, so no key that is in use may change by it; `rekeyed` is for those that do.
        """
        other = Schema(self.zone_name, strict=self.strict, nan_is_null=self.nan_is_null, time=self.time)
        other.generation = self.generation
        other.names = list(self.names)
        other.by_name = dict(self.by_name)
        other.strings = dict(self.strings)
        for attribute in attributes:
            other.put(attribute)
        other.strings.update(strings or {})
        return other

    def rekeyed(self, attributes: Iterable[Attribute], strings: Mapping[int, StringKeys]) -> Schema:
        """Another schema, of the next generation, in which the keys of some attributes mean something else."""
        other = self.replaced(attributes, strings)
        other.generation = next(_generations)
        return other

    def with_constants(self, wanted: Mapping[int, Iterable[bytes]]) -> Schema:
        """The schema after constants, by attribute, have keys; a number attribute that is named here becomes wide.

        Where the gaps between keys run out, or a number becomes wide, it is a schema of the next generation.
        """
        attributes: list[Attribute] = []
        changed: dict[int, StringKeys] = {}
        for number, constants in wanted.items():
            attribute = self.by_name[self.names[number]]
            if not attribute.known_type.keyed:
                attributes.append(replace(attribute, type=WIDE_NUMBER))
                changed[number] = StringKeys().relabelled(constants)
            elif not self.strings[number].insert(constants):
                changed[number] = self.strings[number].relabelled(constants)
        return self.rekeyed(attributes, changed) if changed else self

    def under(self, older: Schema) -> Schema:
        """This schema with the keys of an older generation: how events are encoded for segments that have those.

        An attribute whose type has changed since keeps the present one: it changes only when nothing living uses it.
        """
        same = [a for a in older if a.type is not None and _is_same_type(self.by_name[a.name].type, a.type)]
        attributes = [replace(self.by_name[a.name], type=a.type) for a in same]
        other = self.replaced(
            attributes, {a.number: older.strings[a.number] for a in same if a.number in older.strings}
        )
        other.generation = older.generation
        return other

    def copied(self) -> Schema:
        """A schema of its own generation, with keys of its own that are the same."""
        items = {number: strings.items() for number, strings in self.strings.items()}
        return self.rekeyed((), {n: StringKeys.from_items(own, keys.tolist()) for n, (own, keys) in items.items()})

    @lazy_property
    def domains(self) -> tuple[I64, I64]:
        """The least and greatest key of each attribute; all of int64 while its type is unknown."""
        types = [attribute.type for attribute in self]
        low = np.array([INT64_MIN if t is None else t.low for t in types], np.int64)
        return low, np.array([INT64_MAX if t is None else t.high for t in types], np.int64)

    @lazy_property
    def typed(self) -> NDArray[np.bool_]:
        """Which attributes have a type."""
        return np.array([attribute.type is not None for attribute in self], bool)


def _is_same_type(type_: AttributeType | None, other: AttributeType) -> bool:
    """Whether two types are one, or both numbers, of which one is wide."""
    return type_ == other or (type_ is not None and type_.kind == other.kind == Kind.NUMBER)


class Draft:
    """What a batch of subscriptions would teach the schema; `commit` gives the schema that has learned it."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.new: dict[str, Attribute] = {}
        self._added = 0
        self.constants: dict[int, set[bytes]] = {}
        self.wide: set[int] = set()
        """Attributes of numbers, by number, that have a bound beyond 2^53."""
        self.log: list[tuple[str, Attribute | None]] = []
        """What was put into `new`, in order, and what was there before."""

    def _put(self, attribute: Attribute) -> None:
        self.log.append((attribute.name, self.new.get(attribute.name)))
        self.new[attribute.name] = attribute

    def undo(self, mark: int) -> bool:
        """Take back what was logged from `mark` on; whether there was anything.

        Constants of an attribute that keeps its type stay, and do no harm; those of one that loses it go with it.
        """
        undone = len(self.log) > mark
        while len(self.log) > mark:
            name, before = self.log.pop()
            taken = self.new[name]
            if before is not None:
                self.new[name] = before  # in its place: `commit` takes new attributes by their numbers
            else:
                del self.new[name]
                self._added -= taken.number >= len(self.schema)
            known = before or self.schema.by_name.get(name)
            if known is None or known.type is None:
                self.wide.discard(taken.number)
                self.constants.pop(taken.number, None)
        return undone

    def get(self, name: str) -> Attribute:
        """The attribute called `name`, added when it is new."""
        found = self.new.get(name) or self.schema.by_name.get(name)
        if self.schema.strict and not (found is not None and found.declared) and name != LIFE:
            raise _undeclared(name, self.schema)
        return found or self._add(name)

    def _add(self, name: str) -> Attribute:
        if name != LIFE:
            check_name(name)
        added = Attribute(len(self.schema) + self._added, name, None, False, "")
        if added.number >= MAX_ATTRIBUTES:
            raise EarmarkError(f"expected at most {MAX_ATTRIBUTES:,} attributes, got another, {name!r}")
        self._added += 1
        self._put(added)
        return added

    def declare(self, types: Mapping[str, str]) -> None:
        """Fix types as the user says."""
        if not isinstance(types, Mapping):
            raise EarmarkError(f"expected a mapping of names to types, such as {{'age': 'integer'}}, got {types!r}")
        for name, type_name in types.items():
            if not isinstance(type_name, str):
                raise EarmarkError(f"expected the name of a type for {name!r}, such as 'integer', got {type_name!r}")
            known = self.new.get(name) or self.schema.by_name.get(name) or self._add(name)
            self.set_type(known, attribute_type(type_name), "its declaration", declared=True)

    def set_type(self, attribute: Attribute, type_: AttributeType, origin: str, declared: bool = False) -> Attribute:
        """Fix the type of an attribute that has none yet, or declare the one that it has."""
        if attribute.type is not None and attribute.type.kind == type_.kind == Kind.NUMBER:
            type_ = attribute.type  # it may be wide
        if attribute.type is not None and attribute.type != type_:
            raise AttributeTypeError(
                f"attribute {attribute.name!r} is {attribute.described()}, it cannot become {type_}",
                attribute=attribute.name,
            )
        attribute = replace(attribute, type=type_, origin=origin, declared=declared)
        self._put(attribute)
        return attribute

    def constant(self, attribute: Attribute, value: bytes) -> None:
        """Note a constant that needs a key."""
        self.constants.setdefault(attribute.number, set()).add(value)

    def commit(self) -> Schema:
        """The schema with the attributes in it. Keys of constants are the table's to give (it may relabel)."""
        return self.schema.replaced(self.new.values()) if self.new else self.schema


def _undeclared(name: str, schema: Schema) -> EarmarkError:
    known = [a.name for a in schema if a.declared]
    near = nearest_name(name, known)
    hint = f"did you mean {near!r}?" if near else f"declared are {', '.join(known[:20]) or 'none'}"
    return SubscriptionError(f"attribute {name!r} is not declared; {hint}", attribute=name)


def check_name(name: object) -> None:
    """Raise when this cannot be the name of an attribute."""
    if not isinstance(name, str) or not name or len(name) > MAX_NAME:
        raise EarmarkError(f"expected an attribute's name of 1 to {MAX_NAME} characters, got {shown(name)}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise EarmarkError(f"the attribute name {name!r} holds a lone surrogate, which UTF-8 cannot carry") from None
    parts = name.split(".")
    if not all(parts) or len(parts) > MAX_PARTS:  # no condition could say it
        raise EarmarkError(
            f"expected a name of 1 to {MAX_PARTS} parts with dots between them, none of them empty, got {name[:100]!r}"
        )


# --- as a record, without the keys of constants ----------------------------------------------------------------


def schema_record(schema: Schema) -> dict[str, Any]:
    """Attributes and zone as JSON."""
    return {
        "zone": schema.zone_name,
        "strict": schema.strict,
        "nan_is_null": schema.nan_is_null,
        "time": schema.time,
        "attributes": [
            {
                "name": a.name,
                "type": str(a.type) if a.type else None,
                "keyed": bool(a.type and a.type.keyed),
                "declared": a.declared,
                "origin": a.origin,
            }
            for a in schema
        ],
    }


def schema_of(record: Mapping[str, Any], strings: Callable[[int], Any] | None = None) -> Schema:
    """The inverse of `schema_record`; `strings(number)` gives the keys of an attribute's constants, if they matter."""
    schema = Schema(
        record["zone"], strict=bool(record["strict"]), nan_is_null=bool(record["nan_is_null"]), time=record["time"]
    )
    for number, entry in enumerate(record["attributes"]):
        name, type_ = entry["name"], entry["type"]
        if name != LIFE:
            check_name(name)
        require(name not in schema.by_name, f"the attribute {name!r} is listed twice")
        known = attribute_type(type_) if type_ is not None else None
        if known is not None and known.kind == Kind.NUMBER and entry["keyed"]:
            known = WIDE_NUMBER
        schema.put(Attribute(number, name, known, bool(entry["declared"]), str(entry["origin"])[:1000]))
        if known is not None and known.keyed and strings is not None:
            keys = strings(number)
            if known.kind == Kind.NUMBER and isinstance(keys, StringKeys):
                from earmark.keys.numbers import check_numbers  # which builds on this module

                check_numbers(keys.constants())
            schema.strings[number] = keys
    return schema
