"""How are many conditions of one shape bound at once? Literals column by column, sets of keys as arrays.

A *shape* is a condition's text without its literals (language/parse.py). A `Run` holds conditions of one shape:

    texts      age >= 20 AND city IN ('x', 'y')      age >= 30 AND city IN ('z')
    columns    20.0  30.0      number literals as doubles
               0  1 | 2        others as codes, with counts where they are lists; a table has the cut of each code
    sets       age: [key(20), MAX]  [key(30), MAX]      city: two intervals, one interval

The columns are read batch by batch; sets are made of them at the end, when string constants have keys, with numpy and
without a Python object for each constraint. A run takes what is usual. A shape for which there is no plan, and a
literal that is refused, of another kind or just rare (with a suffix, beyond 2^52) is left to bind.py, row by row.

**Invariant**: the arrays are those that binding row by row gives. Taking conditions into a run teaches the schema
nothing but constants, so it does not matter when it is done: a plan is made only where all types are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from earmark.errors import EarmarkError
from earmark.flat.arrays import I64
from earmark.keys.bind import Binder, string_cuts
from earmark.keys.numbers import float_keys, narrow_constants, wide_bounds
from earmark.keys.schema import INT64_MAX, INT64_MIN, NUMERIC, Attribute, Kind, Schema, attribute_type
from earmark.language.literals import LiteralError, negated, number_value
from earmark.language.parse import Template, leaf_of
from earmark.language.predicate import AnyOf, Mode
from earmark.language.tokens import KINDS, Hole, item_value
from earmark.lazy import lazy_property

_LONGEST = 18  # characters of a number that is read as a double; what has more digits than SQL takes is longer
_WHOLE = 2.0**52  # doubles below have keys with neighbours, whatever becomes of the attribute (numbers.py)
_MOST_LEAVES = 64
_MANY = 3  # more intervals than a column has: those of a list
_SMALL = 10**18

Cuts: TypeAlias = tuple[I64, I64]
"""The first and the last of the keys that equal each literal; the last is below the first where there are none."""


class _Unusual(Exception):
    """Bind it row by row."""


class _Doubles:
    """Reads number literals, for attributes whose keys are those of doubles."""

    def __init__(self, sign: float) -> None:
        self._sign = sign

    def read(self, tokens: Sequence[str]) -> NDArray[Any]:
        """The values of literals; NaN for the unusual ones."""
        try:
            values = np.fromiter(map(float, tokens), np.float64, len(tokens))
        except ValueError:
            values = np.array([_double(token) for token in tokens])
        values[~(np.abs(values) < _WHOLE)] = np.nan
        if max(map(len, tokens), default=0) > _LONGEST:
            values[[len(token) > _LONGEST for token in tokens]] = np.nan
        return values * self._sign

    def cuts(self, values: NDArray[Any], schema: Schema) -> Cuts:
        """The cuts of what was read."""
        keys = float_keys(values)
        return keys, keys


def _double(token: str) -> float:
    try:
        return float(token)
    except ValueError:
        return np.nan


class _Codes(dict[str, int]):
    """Reads literals as codes: a literal that comes again is a look-up. bind.py gives each its cut."""

    def __init__(
        self, binder: Binder, attribute: Attribute, operator: str, read: Callable[[str], Any], exact: bool
    ) -> None:
        super().__init__()
        self._binder = binder
        self._attribute = attribute
        self._operator = operator
        self._read = read
        self._exact = exact
        self._cuts: list[Any] = []
        self._table: tuple[Schema | None, I64] = None, np.empty((0, 2), np.int64)

    def __missing__(self, token: str) -> int:
        try:
            self._cuts.append(self._cut(self._read(token)))
        except (LiteralError, EarmarkError):
            raise _Unusual from None
        self[token] = code = len(self._cuts) - 1
        return code

    def _cut(self, value: Any) -> Any:
        """The first and the last key of a value; for strings, whose keys are still to come, what gives them."""
        type_ = self._attribute.known_type
        leaf = leaf_of(self._attribute.name, self._operator, (value,), Mode.TRUE)
        if value is None:
            raise _Unusual
        if type_.kind == Kind.STRING:
            self._binder.note_constants(leaf, self._attribute)
            return leaf if self._operator == "LIKE" else value.encode()
        small = type(value) is int and abs(value) < _SMALL
        if type_.kind in NUMERIC and not small and not self._exact:
            raise _Unusual  # what it means depends on the other literals of the predicate
        found = self._binder.cuts(leaf, self._attribute)[0]
        assert found is not None
        first, last, beyond = found[0] + 1, found[1], found[2]
        inside = type_.low <= first <= min(type_.high + 1, INT64_MAX) and max(type_.low - 1, INT64_MIN) <= last
        if beyond or not inside or last > type_.high:
            raise _Unusual
        return first, last

    def read(self, tokens: Sequence[str]) -> NDArray[Any]:
        """The codes of literals; -1 for the unusual ones."""
        try:
            return np.fromiter(map(self.__getitem__, tokens), np.int32, len(tokens))
        except _Unusual:
            return np.array([self._code(token) for token in tokens], np.int32)

    def _code(self, token: str) -> int:
        try:
            return self[token]
        except _Unusual:
            return -1

    def cuts(self, values: NDArray[Any], schema: Schema) -> Cuts:
        """The cuts of what was read."""
        if self._table[0] is not schema:
            self._table = schema, np.array(self._listed(schema), np.int64).reshape(-1, 2)
        found = self._table[1][values]
        return found[:, 0], found[:, 1]

    def _listed(self, schema: Schema) -> list[tuple[int, int]]:
        if self._attribute.known_type.kind != Kind.STRING:
            return self._cuts
        strings = schema.strings[self._attribute.number]
        if self._operator == "LIKE":
            cuts = [cut for leaf in self._cuts for cut in string_cuts(leaf, strings) if cut is not None]
            return [(below + 1, last) for below, last, _ in cuts]
        keys = map(strings.of_constant, self._cuts)
        return [(key, key) for key in keys]


class _Place(NamedTuple):
    """Where the literals of a predicate come from: a slot of the texts, or (-1) a constant with the code 0."""

    slot: int
    reader: _Doubles | _Codes
    is_list: bool


class _Node(NamedTuple):
    """A predicate (`operator` and `places`), or an AND or OR of `parts`; `width`, how many intervals it has."""

    operator: str
    places: tuple[int, ...]
    parts: tuple[_Node, ...]
    width: int


class _Sets(NamedTuple):
    """Sets of keys, one for each condition: intervals as columns, and others as (condition, first, last)."""

    columns: list[Cuts]
    lists: list[tuple[I64, I64, I64]]


_WIDTHS = dict.fromkeys(("=", "<", "<=", ">", ">=", "<=>", "LIKE", "BETWEEN", "IS NOT NULL"), 1)
_WIDTHS |= {"!=": 2, "NOT LIKE": 2, "NOT BETWEEN": 2, "IN": _MANY, "IS NULL": 0}
_FALSE = {"<": ">=", "<=": ">", "=": "!=", "!=": "=", ">=": "<", ">": "<="}
_FALSE |= {"LIKE": "NOT LIKE", "BETWEEN": "NOT BETWEEN", "IS NULL": "IS NOT NULL"}


class Planner:
    """Makes runs for the shapes of one batch. Shapes share the tables of codes."""

    def __init__(self, binder: Binder) -> None:
        self._binder = binder
        self._readers: dict[Any, _Codes] = {}

    def run_for(self, template: Template) -> Run | None:
        """A run for conditions of this shape, one of which was bound; None when they must be bound row by row."""
        if sum(template.repeats) > _MOST_LEAVES:
            return None
        places: list[_Place] = []
        try:
            leaves = [self._leaf(template, leaf, places) for leaf in template.leaves]
            clauses = [
                sorted(((self._attribute(name), _joined("AND", atoms, leaves)) for name, atoms in clause), key=_number)
                for clause in template.clauses
            ]
        except _Unusual:
            return None
        return Run(places, clauses)

    def _attribute(self, name: str) -> Attribute:
        return self._binder.draft.get(name)

    def _leaf(self, template: Template, leaf: tuple[str, str, tuple[int, ...], Mode], places: list[_Place]) -> _Node:
        name, written, numbers, mode = leaf
        operator = written if mode == Mode.TRUE else _FALSE.get(written, "") if mode == Mode.FALSE else ""
        if operator not in _WIDTHS:
            raise _Unusual
        attribute = self._attribute(name)
        if numbers and attribute.type is None:
            raise _Unusual
        first = len(places)
        for number in numbers:
            places.append(self._place(template, attribute, written, number, len(numbers) == 1))
        return _Node(operator, tuple(range(first, len(places))), (), _WIDTHS[operator])

    def _place(self, template: Template, attribute: Attribute, operator: str, number: int, alone: bool) -> _Place:
        slots = len(template.kinds)
        value = Hole(number) if number < slots else template.derived[number - slots]
        if not isinstance(value, Hole):
            if attribute.known_type.kind == Kind.NUMBER:
                raise _Unusual
            constant = _Codes(self._binder, attribute, operator, lambda _: value, alone)
            if constant.read([""])[0] < 0:
                raise _Unusual
            return _Place(-1, constant, False)
        openings, read = template.kinds[value.index]
        is_list = openings == "("
        minus = value.form == "negative"
        if value.form == "escaped" or (is_list and operator != "IN"):
            raise _Unusual
        if attribute.known_type.kind in (Kind.NUMBER, Kind.FLOAT):
            if not is_list and openings != KINDS["number"].openings:
                raise _Unusual
            return _Place(value.index, _Doubles(-1.0 if minus else 1.0), is_list)
        key = (attribute.number, operator == "LIKE", read, is_list, minus, alone)
        if key not in self._readers:
            self._readers[key] = _Codes(
                self._binder,
                attribute,
                operator,
                item_value if is_list else _negative if minus else _reading(openings, read),
                alone and not is_list,
            )
        return _Place(value.index, self._readers[key], is_list)


def _reading(openings: str, read: Callable[[str], Any]) -> Callable[[str], Any]:
    def checked(token: str) -> Any:
        if token[0] not in openings:
            raise _Unusual
        return read(token)

    return checked


def _negative(token: str) -> Any:
    if token[0] not in KINDS["minus"].openings:
        raise _Unusual
    return negated(number_value(token, after_minus=True))


def _number(constraint: tuple[Attribute, _Node]) -> int:
    return constraint[0].number


def _joined(kind: str, atoms: Sequence[Any], leaves: list[_Node]) -> _Node:
    """The atoms of a constraint, as a template has them."""
    parts = [leaves[a] if type(a) is int else _joined("OR" if a[0] is AnyOf else "AND", a[1], leaves) for a in atoms]
    if len(parts) == 1:
        return parts[0]
    if kind == "OR":
        return _Node("OR", (), tuple(parts), sum(part.width for part in parts))
    if any(part.width != 1 for part in parts):
        raise _Unusual
    return _Node("AND", (), tuple(parts), 1)


# --- runs ------------------------------------------------------------------------------------------------------


class RunArrays(NamedTuple):
    """The sets of a run: as in `SegmentArrays`, in the order of its conditions, all of which have these clauses."""

    clauses: list[int]
    attr: list[int]
    accepts_null: list[bool]
    counts: I64
    lo: I64
    hi: I64


class Run:
    """Conditions of one shape, as columns of literals."""

    def __init__(self, places: list[_Place], clauses: list[list[tuple[Attribute, _Node]]]) -> None:
        self._places = places
        self._clauses = clauses
        self.waiting: list[tuple[int, list[str]]] = []
        """Rows that are to be taken, and their literals."""
        self._rows: list[I64] = []
        self._read: list[list[NDArray[Any]]] = [[] for _ in places]
        self._counts: list[list[I64]] = [[] for _ in places]

    @lazy_property
    def names(self) -> set[str]:
        """The attributes of the conditions."""
        return {attribute.name for clause in self._clauses for attribute, _ in clause}

    @property
    def rows(self) -> I64:
        """The rows that were taken, in this order."""
        return np.concatenate(self._rows) if self._rows else np.empty(0, np.int64)

    def take_waiting(self, few: int = 0) -> list[int]:
        """Take the conditions that wait; returns the rows that must be bound one by one, all where there are few."""
        rows, literals = zip(*self.waiting, strict=True)
        self.waiting = []
        return self._take(rows, literals) if len(rows) >= few else list(rows)

    def _take(self, rows: Sequence[int], literals: Sequence[list[str]]) -> list[int]:
        every, good = np.array(rows), np.ones(len(rows), bool)
        slots = list(zip(*literals, strict=True))
        columns: list[tuple[NDArray[Any], I64]] = []
        for slot, reader, is_list in self._places:
            tokens: Sequence[str] = slots[slot] if slot >= 0 else ()
            counts = np.ones(len(tokens), np.int64)
            if is_list:
                lists = list(map(_items, tokens))
                counts = np.fromiter(map(len, lists), np.int64, len(lists))
                tokens = list(chain.from_iterable(lists))
            read = reader.read(tokens)
            unusual = np.isnan(read) if read.dtype.kind == "f" else read < 0
            if unusual.any():
                good[np.repeat(np.arange(len(counts)), counts)[unusual]] = False
            columns.append((read, counts))
        self._rows.append(every[good])
        for at, (read, counts) in enumerate(columns):
            if len(counts) and not good.all():
                read, counts = read[np.repeat(good, counts)], counts[good]
            self._read[at].append(read)
            self._counts[at].append(counts)
        left: list[int] = every[~good].tolist()
        return left

    def constants_of(self, wide: set[int], schema: Schema) -> dict[int, set[bytes]]:
        """The constants that bounds on these number attributes need, by attribute."""
        found: dict[int, set[bytes]] = {}
        for attribute, node in chain.from_iterable(self._clauses):
            if attribute.number in wide:
                _, lo, hi = self._intervals(attribute, node, schema)
                found.setdefault(attribute.number, set()).update(narrow_constants(lo, hi))
        return found

    def arrays(self, schema: Schema) -> RunArrays:
        """The sets of all conditions, under a schema that has keys for their constants."""
        flat = list(chain.from_iterable(self._clauses))
        size, width = len(self.rows), len(flat)
        made = []
        for attribute, node in flat:
            counts, lo, hi = self._intervals(attribute, node, schema)
            type_ = schema.by_name[attribute.name].type
            if type_ is not None and type_.kind == Kind.NUMBER and type_.keyed:
                lo, hi = wide_bounds(lo, hi, schema.strings[attribute.number])
            made.append((counts, lo, hi))
        start = np.zeros(size * width + 1, np.int64)
        for at, (counts, _, _) in enumerate(made):
            start[1 + at :: width] = counts
        every = start[1:].copy()
        np.cumsum(start, out=start)
        first, last = np.empty(start[-1], np.int64), np.empty(start[-1], np.int64)
        for at, (counts, lo, hi) in enumerate(made):
            to = start[at:-1:width]
            if len(lo) != size or (counts != 1).any():
                to = np.arange(len(lo)) + np.repeat(to - (np.cumsum(counts) - counts), counts)
            first[to], last[to] = lo, hi
        return RunArrays(
            [len(clause) for clause in self._clauses],
            [attribute.number for attribute, _ in flat],
            [_null(node) for _, node in flat],
            every,
            first,
            last,
        )

    def _intervals(self, attribute: Attribute, node: _Node, schema: Schema) -> tuple[I64, I64, I64]:
        """How many intervals the set of each condition has, and all of them."""
        type_ = attribute.type
        if type_ is not None and type_.kind == Kind.NUMBER:
            type_ = attribute_type(Kind.NUMBER)  # as keys of doubles, also where it is wide
        low, high = (INT64_MIN, INT64_MAX) if type_ is None else (type_.low, type_.high)
        sets = self._sets(node, schema, low, high)
        counts, lo, hi = _normal(sets, len(self.rows))
        if (low, high) != (INT64_MIN, INT64_MAX):
            whole = (lo == low) & (hi == high)  # open to every value: in one form, as in bind.py
            lo[whole], hi[whole] = INT64_MIN, INT64_MAX
        return counts, lo, hi

    def _sets(self, node: _Node, schema: Schema, low: int, high: int) -> _Sets:
        if node.parts:
            parts = [self._sets(part, schema, low, high) for part in node.parts]
            if node.operator == "OR":
                return _Sets([c for p in parts for c in p.columns], [e for p in parts for e in p.lists])
            lo, hi = parts[0].columns[0]
            for part in parts[1:]:
                lo, hi = np.maximum(lo, part.columns[0][0]), np.minimum(hi, part.columns[0][1])
            return _Sets([(lo, hi)], [])
        if node.operator == "IN":
            listed = [at for at in node.places if self._places[at].is_list]
            single = [self._cuts(at, schema) for at in node.places if at not in listed]
            return _Sets(single, [(self._owners(at), *self._cuts(at, schema)) for at in listed])
        cuts = [self._cuts(at, schema) for at in node.places]
        return _Sets(_columns(node.operator, cuts, low, high), [])

    def _cuts(self, at: int, schema: Schema) -> Cuts:
        place = self._places[at]
        values = np.zeros(1, np.int32) if place.slot < 0 else np.concatenate(self._read[at])
        return place.reader.cuts(values, schema)

    def _owners(self, at: int) -> I64:
        counts = np.concatenate(self._counts[at])
        return np.repeat(np.arange(len(counts)), counts)


def _items(token: str) -> list[str]:
    """The items of a list, where it is written as usual; else something that is no item."""
    if token[0] != "(":
        return [""]
    inner = token[1:-1]
    return inner.split(", ") if ", " in inner else inner.split(",")


def _null(node: _Node) -> bool:
    """Whether NULL belongs to the sets."""
    if node.parts:
        return (any if node.operator == "OR" else all)(map(_null, node.parts))
    return node.operator == "IS NULL"


def _columns(operator: str, cuts: list[Cuts], low: int, high: int) -> list[Cuts]:
    """The intervals for which a comparison is TRUE; the first is above the last where there are none."""

    def below(first: I64) -> Cuts:
        none = first == low  # and one below it may not be an int64
        return np.where(none, high, low), np.where(none, low, first - 1)

    def above(last: I64) -> Cuts:
        none = last == high
        return np.where(none, high, last + 1), np.where(none, low, high)

    def full(key: int) -> I64:
        return np.full(1, key, np.int64)

    match operator:
        case "IS NULL":
            return []
        case "IS NOT NULL":
            return [(full(low), full(high))]
        case "=" | "<=>" | "LIKE":
            return [cuts[0]]
        case "<":
            return [below(cuts[0][0])]
        case "<=":
            return [(full(low), cuts[0][1])]
        case ">":
            return [above(cuts[0][1])]
        case ">=":
            return [(cuts[0][0], full(high))]
        case "BETWEEN":
            return [(cuts[0][0], cuts[1][1])]
    return [below(cuts[0][0]), above(cuts[-1][1])]  # != and the NOTs


def _normal(sets: _Sets, size: int) -> tuple[I64, I64, I64]:
    """Sets as sorted, disjoint intervals that do not touch: how many each has, and all of them."""
    columns = [(np.broadcast_to(lo, size), np.broadcast_to(hi, size)) for lo, hi in sets.columns]
    if len(columns) == 1 and not sets.lists:
        lo, hi = columns[0]
        inside = lo <= hi
        return inside.astype(np.int64), lo[inside], hi[inside]
    every = [(np.arange(size), lo, hi) for lo, hi in columns] + sets.lists
    if not every:
        return np.zeros(size, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
    of, lo, hi = (np.concatenate(parts) for parts in zip(*every, strict=True))
    some = np.flatnonzero(lo <= hi)
    order = some[np.lexsort((lo[some], of[some]))]
    of, lo, hi = _merged(of[order], lo[order], hi[order])
    return np.bincount(of, minlength=size), lo, hi


def _merged(of: I64, lo: I64, hi: I64) -> tuple[I64, I64, I64]:
    """Sorted intervals, of which those of one set that overlap or touch become one. O(n log(intervals of a set))."""
    if not _touching(of, lo, hi).any():
        return of, lo, hi
    step = 1
    while step < len(of) and (of[step:] == of[:-step]).any():  # `hi` becomes the greatest so far of its set
        same = of[step:] == of[:-step]
        hi = np.concatenate([hi[:step], np.where(same, np.maximum(hi[step:], hi[:-step]), hi[step:])])
        step *= 2
    first = np.flatnonzero(np.concatenate([[True], ~_touching(of, lo, hi)]))
    return of[first], lo[first], hi[np.append(first[1:], len(hi)) - 1]


def _touching(of: I64, lo: I64, hi: I64) -> NDArray[np.bool_]:
    """Whether an interval overlaps or touches the one before it."""
    touching: NDArray[np.bool_] = (of[1:] == of[:-1]) & ((lo[1:] <= hi[:-1]) | (lo[1:] - 1 == hi[:-1]))
    return touching
