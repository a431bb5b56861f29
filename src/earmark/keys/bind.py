"""From clauses to sets of keys: attributes get numbers and types, literals become cuts.

Two steps, so that a bad batch leaves no trace. `Binder` checks every literal against the attribute's type
(learning types into a Draft) and works out every set that does not depend on the keys of constants. When the whole
batch is good and the constants have keys, `resolved` finishes the sets on strings and on wide numbers (numbers.py).
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from operator import gt, itemgetter
from typing import Any, NamedTuple, TypeAlias

from earmark.errors import AttributeTypeError, EarmarkError, SubscriptionError, shortened
from earmark.keys.cuts import Cut, cut, decimal_room
from earmark.keys.numbers import HIGHEST, LOWEST, bounds_of, float_key, narrowed, position_of, wide_intervals, widened
from earmark.keys.schema import (
    FLOAT_INF_KEY,
    FLOAT_NAN_KEY,
    INT64_MAX,
    INT64_MIN,
    NUMERIC,
    Attribute,
    AttributeType,
    Draft,
    Kind,
    Schema,
    type_of,
)
from earmark.keys.sets import Intervals, KeySet, complement, union
from earmark.keys.strings import StringKeys, successor
from earmark.language.literals import LiteralError, cast_text, like_prefix
from earmark.language.normal import Clauses
from earmark.language.parse import Template
from earmark.language.predicate import AnyOf, Atom, Leaf, Mode, atom_sql, literal_sql

_SMALL = 10**18
_MAX_KNOWN = 1 << 16
_PLAIN = frozenset((int, float, str, bool))
_SURE = 2**52
"""The keys of smaller numbers, and those beside them, are keys of doubles."""
_FORMS: dict[str, Callable[..., tuple[int, int]]] = {
    "=": lambda key: (key, key),
    "<": lambda key: (-FLOAT_INF_KEY, key - 1),
    "<=": lambda key: (-FLOAT_INF_KEY, key),
    ">": lambda key: (key + 1, FLOAT_NAN_KEY),
    ">=": lambda key: (key, FLOAT_NAN_KEY),
    "BETWEEN": lambda low, high: (low, high),
}
"""By operator, the keys of doubles for which a comparison with the key of a number is TRUE."""
OPEN: Intervals = ((INT64_MIN, INT64_MAX),)
_NOTHING = KeySet((), False)
_ONLY_NULL = KeySet((), True)


@dataclass(frozen=True, slots=True)
class Deferred:
    """A constraint on a string attribute, waiting for the keys of its constants."""

    attribute: int
    atoms: tuple[Atom, ...]

    def resolve(self, strings: StringKeys) -> KeySet:
        """The set of keys, once every constant has one."""
        return _combined(
            self.atoms, lambda leaf: _leaf_set(leaf, string_cuts(leaf, strings), INT64_MIN, INT64_MAX), all
        )


@dataclass(frozen=True, slots=True)
class Positions:
    """A constraint on a number attribute, as positions, of which some have no key among the doubles."""

    numbers: KeySet


Bound: TypeAlias = KeySet | Deferred | Positions
Constraint: TypeAlias = tuple[int, Bound]
BoundClauses: TypeAlias = list[list[Constraint]]


class Binder:
    """Checks conditions against a Draft of the schema."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._zone = draft.schema.zone
        self._known: dict[tuple[Any, ...], Constraint] = {}

    def bind(self, clauses: Clauses, subscription: object = None) -> BoundClauses:
        """Each clause as (attribute number, set), ascending by attribute. What cannot be bound teaches nothing.

        `subscription` is the id that errors name.
        """
        mark = len(self.draft.log)
        try:
            bound: BoundClauses = []
            for clause in clauses:
                constraints = [self._remembered(name, atoms, subscription) for name, atoms in clause]
                constraints.sort(key=itemgetter(0))
                bound.append(constraints)
            return bound
        except EarmarkError as problem:
            if self.draft.undo(mark):
                self._known.clear()
            raise problem.at(id=subscription) from None

    def note_wide(self, rows: Iterable[BoundClauses]) -> set[int]:
        """Note the constants that bounds on wide numbers need, once all is bound; returns which attributes are wide."""
        schema = self.draft.schema
        types = {number: schema.by_name[schema.names[number]].type for number in schema.strings}
        wide = self.draft.wide | {n for n, type_ in types.items() if type_ is not None and type_.kind == Kind.NUMBER}
        if not wide:
            return wide
        for clause in chain.from_iterable(rows):
            for number, one in clause:
                if number in wide:
                    for constant in bounds_of(_positions(one)):
                        self.draft.constants.setdefault(number, set()).add(constant)
        for number in wide:
            self.draft.constants.setdefault(number, set())
        return wide

    def _remembered(self, name: str, atoms: tuple[Atom, ...], subscription: object) -> Constraint:
        """The same, looked up where this batch has asked it before: many subscriptions share constraints.

        A draft never changes a type that it has fixed, and a literal fixes it, so what was bound stays right. Types are
        part of the key, for in Python 1 = 1.0 = TRUE; of other types, values that are equal may still differ.
        """
        leaf = atoms[0]
        if len(atoms) > 1 or type(leaf) is not Leaf or not leaf.predicate.values:
            return self._constraint(name, atoms, subscription)
        values = leaf.predicate.values
        types = tuple(map(type, values))
        key = (name, leaf.predicate.operator, leaf.mode, values, types)
        found = self._known.get(key)
        if found is None:
            found = self._compared(name, leaf.predicate.operator, values) if leaf.mode is Mode.TRUE else None
            found = found or self._constraint(name, atoms, subscription)
            if len(self._known) < _MAX_KNOWN and _PLAIN.issuperset(types):
                self._known[key] = found
        return found

    def _compared(self, name: str, operator: str, values: Iterable[Any]) -> Constraint | None:
        form = _FORMS.get(operator)
        attribute = self.draft.get(name)
        if form is None or attribute.type is None or attribute.type.kind is not Kind.NUMBER:
            return None
        keys = []
        for value in values:
            if (type(value) is not int and type(value) is not float) or not -_SURE < value < _SURE:
                return None
            keys.append(float_key(float(value)))
        low, high = form(*keys)
        return attribute.number, KeySet(((low, high),) if low <= high else (), False)

    def _constraint(self, name: str, atoms: tuple[Atom, ...], subscription: object) -> Constraint:
        attribute = self.draft.get(name)
        if attribute.type is None:
            attribute = self._learn(attribute, atoms, subscription)
        type_ = attribute.type
        if type_ is not None and type_.kind == Kind.STRING:
            for atom in atoms:
                self.note_constants(atom, attribute)
            return attribute.number, Deferred(attribute.number, atoms)
        if type_ is not None and type_.kind == Kind.NUMBER:
            return attribute.number, self._numbers(attribute, atoms)
        low, high = (INT64_MIN, INT64_MAX) if type_ is None else (type_.low, type_.high)
        found = _combined(atoms, lambda leaf: _leaf_set(leaf, self.cuts(leaf, attribute), low, high), all)
        if found.intervals == ((low, high),):  # open to every value: in one form, whatever the type is or becomes
            found = KeySet(OPEN, found.null)
        return attribute.number, found

    def _numbers(self, attribute: Attribute, atoms: tuple[Atom, ...]) -> KeySet | Positions:
        found = _combined(atoms, lambda leaf: _leaf_set(leaf, self.cuts(leaf, attribute), LOWEST, HIGHEST), all)
        narrow = narrowed(found)
        if narrow is not None:
            return narrow
        self.draft.wide.add(attribute.number)
        return Positions(found)

    def _learn(self, attribute: Attribute, atoms: tuple[Atom, ...], subscription: object) -> Attribute:
        """Take the type from the first literal that has one."""
        for leaf in chain.from_iterable(map(leaves, atoms)):
            for value in leaf.predicate.values:
                if value is not None:
                    origin = f"subscription {subscription!r}: " if subscription is not None else ""
                    return self.draft.set_type(attribute, type_of(value), f"{origin}{atom_sql(leaf)}"[:300])
        return attribute

    def note_constants(self, atom: Atom, attribute: Attribute) -> None:
        """Note the strings of an atom, which need keys; raises where a value is not a string."""
        for leaf in leaves(atom):
            for value in leaf.predicate.values:
                if value is not None and not isinstance(value, str):
                    raise _clash(attribute, leaf, value)
            for constant in _string_constants(leaf):
                self.draft.constant(attribute, constant)

    def cuts(self, leaf: Leaf, attribute: Attribute) -> list[Cut | None]:
        """The cuts of a leaf's literals, on an attribute that is not a string; raises where one is of another type."""
        type_, values = attribute.type, leaf.predicate.values
        if type_ is None:
            return [None] * len(values)
        if leaf.predicate.operator == "LIKE" and values[0] is not None:
            raise AttributeTypeError(
                f"LIKE is for strings, but attribute {attribute.name!r} is {attribute.described()}",
                attribute=attribute.name,
                text=atom_sql(leaf),
            )
        if type_.kind in NUMERIC and type_.kind != Kind.NUMBER:
            values = _common_numbers(type_, leaf)
        cuts: list[Cut | None] = []
        for value in values:
            if value is None:
                cuts.append(None)
                continue
            if isinstance(value, str) and type_.kind in (Kind.DATE, Kind.TIMESTAMP):
                value = _read(leaf, cast_text, type_.kind, value)
            if type_.kind == Kind.NUMBER and _is_number(value):
                position = position_of(value)
                cuts.append((position - 1, position, False))
                continue
            found = cut(type_, value, self._zone)
            if found is None:
                raise _clash(attribute, leaf, value)
            cuts.append(found)
        return cuts


class NumberShape(NamedTuple):
    """What all conditions of one template are as arrays, where they only compare attributes with whole numbers.

    The arrays are those of a segment with one slot; `lo` and `hi` come from the literals (`intervals`).
    """

    clause_ends: list[int]
    attr: list[int]
    accepts_null: list[int]
    interval_start: list[int]
    uses: dict[int, int]
    low: list[tuple[int, int]]
    """By constraint: the place of the literal that is its lower bound, and what is added to the key."""
    high: list[tuple[int, int]]
    doubles: struct.Struct
    integers: struct.Struct

    @classmethod
    def of(cls, template: Template, schema: Schema) -> NumberShape | None:
        """The shape under a schema; None unless it knows all the attributes, and as plain numbers."""
        literals = len(template.kinds)
        ends, attr, low, high = [0], [], [], []
        for clause in template.comparisons or ():
            constraints = []
            for name, operator, places in clause:
                attribute = schema.by_name.get(name)
                type_ = None if attribute is None else attribute.type
                if attribute is None or type_ is None or type_.kind is not Kind.NUMBER or type_.keyed:
                    return None
                constraints.append((attribute.number, *_ENDS[operator](literals, *places)))
            for number, lower, upper in sorted(constraints):
                attr.append(number)
                low.append(lower)
                high.append(upper)
            ends.append(len(attr))
        starts, doubles, integers = list(range(len(attr) + 1)), f"<{literals}d", f"<{literals}q"
        uses = dict(Counter(attr))
        return cls(
            ends, attr, [0] * len(attr), starts, uses, low, high, struct.Struct(doubles), struct.Struct(integers)
        )

    def intervals(self, literals: list[int]) -> tuple[list[int], list[int]] | None:
        """First and last keys of each constraint; None where one is empty. The literals are doubles, not negative."""
        keys = self.integers.unpack(self.doubles.pack(*literals)) + _OPEN_KEYS
        lo = [keys[place] + more for place, more in self.low]
        hi = [keys[place] + more for place, more in self.high]
        return None if any(map(gt, lo, hi)) else (lo, hi)


_OPEN_KEYS = (-FLOAT_INF_KEY, FLOAT_NAN_KEY)
"""Behind the keys of literals: the ends of what compares with numbers."""
_ENDS: dict[str, Callable[..., tuple[tuple[int, int], tuple[int, int]]]] = {
    "=": lambda literals, at: ((at, 0), (at, 0)),
    "<": lambda literals, at: ((literals, 0), (at, -1)),
    "<=": lambda literals, at: ((literals, 0), (at, 0)),
    ">": lambda literals, at: ((at, 1), (literals + 1, 0)),
    ">=": lambda literals, at: ((at, 0), (literals + 1, 0)),
    "BETWEEN": lambda literals, first, last: ((first, 0), (last, 0)),
}
"""`_FORMS` by the places of literals, behind which are `_OPEN_KEYS`."""
_MAX_SHAPES = 4096


def number_shape(schema: Schema, template: Template) -> NumberShape | None:
    """The shape of a template under a schema, remembered."""
    shapes: dict[Template, NumberShape | None] = schema.shapes
    try:
        return shapes[template]
    except KeyError:
        if len(shapes) >= _MAX_SHAPES:
            shapes.clear()
        shape = shapes[template] = NumberShape.of(template, schema)
        return shape


def keys_of(operator: str, values: Iterable[Any]) -> tuple[int, int] | None:
    """The first and the last key of numbers for which a comparison is TRUE; None unless it is of plain numbers."""
    form = _FORMS.get(operator)
    if form is None:
        return None
    keys = []
    for value in values:
        if (type(value) is not int and type(value) is not float) or not -_SURE < value < _SURE:
            return None
        keys.append(float_key(value))
    return form(*keys)


def resolved(one: Bound, strings: StringKeys) -> KeySet:
    """A constraint on an attribute whose constants have keys now, as a set of them."""
    if isinstance(one, Deferred):
        return one.resolve(strings)
    return KeySet(wide_intervals(_positions(one), strings.of_constant), _positions(one).null)


def _positions(one: Bound) -> KeySet:
    if isinstance(one, Positions):
        return one.numbers
    assert isinstance(one, KeySet)
    return widened(one)


def leaves(atom: Atom) -> list[Leaf]:
    """The leaves of an atom."""
    if isinstance(atom, Leaf):
        return [atom]
    return [leaf for part in atom.parts for leaf in leaves(part)]


def _clash(attribute: Attribute, leaf: Leaf, value: Any) -> AttributeTypeError:
    return AttributeTypeError(
        f"{attribute.expected()}, got {shortened(literal_sql(value), 100)}",
        attribute=attribute.name,
        text=atom_sql(leaf),
    )


def _read(leaf: Leaf, read: Callable[..., Any], *given: Any) -> Any:
    """What reads a literal of a leaf gives; where it refuses it, the error names the leaf."""
    try:
        return read(*given)
    except LiteralError as problem:
        raise SubscriptionError(problem.reason, attribute=leaf.predicate.attribute, text=atom_sql(leaf)) from None


def _common_numbers(type_: AttributeType, leaf: Leaf) -> tuple[Any, ...]:
    """Values under Spark's common type: one double in an IN list makes all of it compare as doubles."""
    values = leaf.predicate.values
    if leaf.predicate.operator == "IN" and any(isinstance(v, float) for v in values):
        return tuple(float(v) if _is_number(v) else v for v in values)
    if type_.kind == Kind.FLOAT or all(type(v) is int and -_SMALL < v < _SMALL for v in values):
        return values
    if not decimal_room(type_, [v for v in values if v is not None]):
        raise SubscriptionError(
            f"{type_} and this literal together need more than 38 digits, where Spark rounds",
            attribute=leaf.predicate.attribute,
            text=atom_sql(leaf),
        )
    return values


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


# --- sets ---------------------------------------------------------------------------------------------------


def _combined(atoms: tuple[Atom, ...], leaf_set: Any, how: Any) -> KeySet:
    sets = [
        leaf_set(a) if isinstance(a, Leaf) else _combined(a.parts, leaf_set, any if isinstance(a, AnyOf) else all)
        for a in atoms
    ]
    if how is any:
        return KeySet(union(i for s in sets for i in s.intervals), any(s.null for s in sets))
    while len(sets) > 1:  # in pairs: O(n log n) for a thousand `a != …`, where one by one would be O(n^2)
        pairs = zip(sets[::2], sets[1::2], strict=False)
        sets = [a.intersect(b) for a, b in pairs] + sets[len(sets) & ~1 :]
    return sets[0]


def _leaf_set(leaf: Leaf, cuts: list[Cut | None], low: int, high: int) -> KeySet:
    """The keys for which a leaf is what its mode wants."""
    if leaf.mode == Mode.TRUE and len(cuts) == 1 and cuts[0] is not None and not cuts[0][2]:  # by far the most
        return KeySet(
            _intervals("=" if leaf.predicate.operator == "IN" else leaf.predicate.operator, cuts[0], low, high), False
        )
    true, false = _true_and_false(leaf.predicate.operator, cuts, low, high)
    match leaf.mode:
        case Mode.TRUE:
            return true
        case Mode.FALSE:
            return false
        case Mode.NOT_TRUE:
            return true.complement(low, high)
    return false.complement(low, high)


def _true_and_false(operator: str, cuts: list[Cut | None], low: int, high: int) -> tuple[KeySet, KeySet]:
    """Where a predicate is TRUE and where FALSE; in neither, it is unknown."""
    if operator == "IS NULL" or (operator == "<=>" and cuts[0] is None):
        return _ONLY_NULL, _ONLY_NULL.complement(low, high)
    if operator == "IN":
        true = KeySet(union((max(c[0] + 1, low), min(c[1], high)) for c in cuts if c is not None), False)
        return true, _NOTHING if None in cuts else KeySet(complement(true.intervals, low, high), False)
    if operator == "BETWEEN":
        above, upto = (_true_and_false(op, [c], low, high) for op, c in zip((">=", "<="), cuts, strict=True))
        return above[0].intersect(upto[0]), above[1].union(upto[1])
    if cuts[0] is None:
        return _NOTHING, _NOTHING
    intervals = _intervals(operator, cuts[0], low, high)
    others = complement(intervals, low, high)
    if operator == "<=>":
        return KeySet(intervals, False), KeySet(others, True)
    if cuts[0][2] and operator not in ("=", "!="):  # constant, for NULL too
        return KeySet(intervals, bool(intervals)), KeySet(others, not intervals)
    return KeySet(intervals, False), KeySet(others, False)


def _intervals(operator: str, cut_: Cut, low: int, high: int) -> tuple[tuple[int, int], ...]:
    below, upto, _ = cut_
    match operator:
        case "=" | "<=>" | "LIKE":
            first, last = below + 1, upto
        case "<":
            first, last = low, below
        case "<=":
            first, last = low, upto
        case ">":
            first, last = upto + 1, high
        case ">=":
            first, last = below + 1, high
        case _:
            assert operator == "!=", operator
            return complement(_intervals("=", cut_, low, high), low, high)
    first, last = max(first, low), min(last, high)
    return ((first, last),) if first <= last else ()


# --- strings ------------------------------------------------------------------------------------------------


def _string_constants(leaf: Leaf) -> list[bytes]:
    """The constants whose keys the cuts of a leaf need."""
    values = [v.encode() for v in leaf.predicate.values if v is not None]
    if leaf.predicate.operator != "LIKE" or not values:
        return values
    prefix, open_ended = _prefix(leaf)
    end = successor(prefix) if open_ended else None
    return [prefix] if end is None else [prefix, end]


def string_cuts(leaf: Leaf, strings: StringKeys) -> list[Cut | None]:
    """The cuts of a leaf on strings, once its constants have keys."""
    values = leaf.predicate.values
    if leaf.predicate.operator == "LIKE" and values[0] is not None:
        prefix, open_ended = _prefix(leaf)
        key = strings.of_constant(prefix)
        if not open_ended:
            return [(key - 1, key, False)]
        end = successor(prefix)
        return [(key - 1, INT64_MAX if end is None else strings.of_constant(end) - 1, False)]
    keys = [None if value is None else strings.of_constant(value.encode()) for value in values]
    return [None if key is None else (key - 1, key, False) for key in keys]


def _prefix(leaf: Leaf) -> tuple[bytes, bool]:
    prefix, open_ended = _read(leaf, like_prefix, leaf.predicate.values[0])
    return prefix.encode(), open_ended
