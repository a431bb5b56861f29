"""What attributes exist, what type each has, and who said so.

A type is declared by the user or learned from the first subscription or event that uses the attribute.
Every type owns a contiguous *domain* of signed 64-bit keys (see keys.py), so `IS NOT NULL` is the whole
domain and the complement of a set of intervals is exact.

`Schema` is shared by readers and the writer: attributes are only ever added to it, or given the type they
lacked. A change that would give an old key a new meaning (widening, relabelling of strings) makes a new
Schema. `Draft` collects what a batch of subscriptions would add, so that a bad batch leaves no trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import lru_cache

from earmark.errors import AttributeTypeError, EarmarkError
from earmark.model.strings import StringKeys
from earmark.model.zones import zone_of

INTEGER, FLOAT, BOOLEAN, STRING = "integer", "float", "boolean", "string"
DATE, TIMESTAMP, DECIMAL = "date", "timestamp", "decimal"
NUMERIC = frozenset({INTEGER, FLOAT, DECIMAL})

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
FLOAT_INF_KEY = 0x7FF0000000000000
FLOAT_NAN_KEY = FLOAT_INF_KEY + 1
MAX_NAME = 1_000  # characters of an attribute's name
MAX_ATTRIBUTES = 1_000_000

_ALIASES = {
    "int": INTEGER,
    "bigint": INTEGER,
    "long": INTEGER,
    "double": FLOAT,
    "bool": BOOLEAN,
    "str": STRING,
}
_DECIMAL = re.compile(r"decimal\s*\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)\Z")


@dataclass(frozen=True, slots=True)
class AttributeType:
    """A kind of value and the closed interval of keys it can take."""

    kind: str
    low: int
    high: int
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.kind == DECIMAL else self.kind


_TYPES = {
    INTEGER: AttributeType(INTEGER, INT64_MIN, INT64_MAX),
    FLOAT: AttributeType(FLOAT, -FLOAT_INF_KEY, FLOAT_NAN_KEY),
    BOOLEAN: AttributeType(BOOLEAN, 0, 1),
    STRING: AttributeType(STRING, INT64_MIN, INT64_MAX),
    DATE: AttributeType(DATE, -(2**31), 2**31 - 1),
    TIMESTAMP: AttributeType(TIMESTAMP, INT64_MIN, INT64_MAX),
}


@lru_cache(maxsize=1024)
def attribute_type(name: str) -> AttributeType:
    """The type called `name`: integer, float, boolean, string, date, timestamp or decimal(p, s).

    >>> attribute_type("decimal(9, 2)").high
    999999999
    """
    if not isinstance(name, str):
        raise EarmarkError(f"an attribute's type is given by name, such as 'integer'; got {name!r}")
    text = name.strip().lower()
    text = _ALIASES.get(text, text)
    if text in _TYPES:
        return _TYPES[text]
    if found := _DECIMAL.match(text):
        precision, scale = int(found[1]), int(found[2])
        if 1 <= precision <= 18 and scale <= precision:
            bound = 10**precision - 1
            return AttributeType(DECIMAL, -bound, bound, precision, scale)
        raise EarmarkError(f"{name!r} is out of range: decimal(p, s) takes 1 <= p <= 18 and 0 <= s <= p")
    known = ", ".join([*_TYPES, "decimal(p, s)"])
    raise EarmarkError(f"{name!r} is not a type; the types are {known}")


@dataclass(frozen=True, slots=True)
class Attribute:
    """A named dimension. `type` is None until a value is seen; `origin` says who fixed the type."""

    number: int
    name: str
    type: AttributeType | None
    declared: bool
    origin: str

    def described(self) -> str:
        """For error messages: the type and who fixed it."""
        return f"{self.type} ({'declared' if self.declared else 'first used so by ' + self.origin})"


class Schema:
    """Attributes by name and by number, the zone of naive timestamps, and the keys of string constants."""

    def __init__(self, zone: str = "UTC") -> None:
        self.zone_name = zone
        self.zone: tzinfo = zone_of(zone)
        self.by_name: dict[str, Attribute] = {}
        self.names: list[str] = []
        self.strings: dict[int, StringKeys] = {}

    def __len__(self) -> int:
        return len(self.names)

    def __bool__(self) -> bool:
        """Always: a schema without attributes still has its zone, and must not be taken for none."""
        return True

    def __iter__(self) -> Iterator[Attribute]:
        return (self.by_name[name] for name in self.names)

    def declare(self, types: Mapping[str, str]) -> None:
        """Fix the types of attributes before use. O(1) each."""
        draft = Draft(self)
        for name, type_name in types.items():
            if not isinstance(type_name, str):
                raise EarmarkError(f"the type of {name!r} is given by name, such as 'integer'; got {type_name!r}")
            draft.set_type(draft.get(name), attribute_type(type_name), "its declaration", declared=True)
        draft.commit()

    def put(self, attribute: Attribute) -> None:
        """Add an attribute or replace the entry of one that had no type."""
        if attribute.type is not None and attribute.type.kind == STRING and attribute.number not in self.strings:
            self.strings[attribute.number] = StringKeys()
        self.by_name[attribute.name] = attribute
        if attribute.number == len(self.names):  # last: a reader may be looking up the names
            self.names.append(attribute.name)

    def replaced(self, attribute: Attribute, strings: StringKeys | None = None) -> Schema:
        """A new schema in which one attribute has another type or other string keys."""
        other = Schema(self.zone_name)
        other.names = list(self.names)
        other.by_name = {**self.by_name, attribute.name: attribute}
        other.strings = dict(self.strings)
        if strings is not None:
            other.strings[attribute.number] = strings
        return other


class Draft:
    """What a batch of subscriptions would teach the schema; `commit` makes it so."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._new: dict[str, Attribute] = {}
        self._added = 0
        self.constants: dict[int, set[bytes]] = {}

    def get(self, name: str) -> Attribute:
        """The attribute called `name`, added when it is new."""
        found = self._new.get(name) or self.schema.by_name.get(name)
        if found is None:
            check_name(name)
            found = Attribute(len(self.schema) + self._added, name, None, False, "")
            if found.number >= MAX_ATTRIBUTES:
                raise EarmarkError(f"there are {MAX_ATTRIBUTES:,} attributes already; {name!r} would be one too many")
            self._added += 1
            self._new[name] = found
        return found

    def set_type(self, attribute: Attribute, type_: AttributeType, origin: str, declared: bool = False) -> Attribute:
        """Fix the type of an attribute that has none yet."""
        if attribute.type is not None and attribute.type != type_:
            raise AttributeTypeError(
                f"attribute {attribute.name!r} is {attribute.described()}, it cannot become {type_}"
            )
        attribute = replace(attribute, type=type_, origin=origin, declared=declared)
        self._new[attribute.name] = attribute
        return attribute

    def constant(self, attribute: Attribute, value: bytes) -> None:
        """Note a string constant that needs a key."""
        self.constants.setdefault(attribute.number, set()).add(value)

    def commit(self) -> None:
        """Write the attributes into the schema. String constants are the table's to insert (it may relabel)."""
        for attribute in self._new.values():
            self.schema.put(attribute)


def check_name(name: object) -> None:
    """Raise when this cannot be the name of an attribute."""
    if not isinstance(name, str) or not name or len(name) > MAX_NAME:
        raise EarmarkError(f"an attribute's name is a text of 1 to {MAX_NAME} characters; got {str(name)[:50]!r}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise EarmarkError(f"the attribute name {name!r} holds a lone surrogate, which UTF-8 cannot carry") from None
