"""One form for each condition: the table in which subscriptions are compared for covering.

The table of a matcher holds conditions as they were written, key by key. The same set of events can be written in
several ways, and parts of it can be void; here each clause takes its one form (the arrays are `SegmentArrays`):

    written                                       canonical
    b IS NOT NULL, before b was a boolean         [min, max] → [0, 1]: clipped to what the type can hold
    a <= 4 OR a >= 5 OR a IS NULL                 no constraint: it takes everything
    a < 3 AND a > 5 [AND …]                       no clause: it takes nothing
    a = 1 OR (a = 1 AND b = 2)                    a = 1: a clause inside another of the same subscription goes
    s > 'a' AND s < 'a\\0'                         no clause: there is no string between the two
    s LIKE 'п%' (up to the bytes D0 C0)           the same as s >= 'п' AND s < 'р': there is no string between

The last two are about *cells* of an attribute with a dictionary of constants: a point for each constant, and a gap
between neighbours. Cells that no UTF-8 string, or no number, can fall into are cut off, so that bounds that mean the
same have the same key.

**Does one contain another**: the exact tests under every covering index. A clause is a product of sets, one per
attribute, and no canonical clause is empty; so clause a contains clause b iff it does on every attribute. An attribute
that a clause does not constrain takes everything and NULL:

    a: x [0, 9]                      b: x [2, 3] ∪ [5, 5], y [1, 1]       a ⊇ b: each interval of b is in one of a
    a: x [min, max] (IS NOT NULL)    b: y [1, 1]                          a ⊉ b: b takes events without x

Subscription A contains B when each clause of B is inside some clause of A. `stands_above` makes a strict order of it:
of equal subscriptions the older is above.

Invariant of a canonical table: intervals that touch are one, no constraint takes everything, none takes nothing, no
clause of a slot contains another of the same slot. Two clauses take the same events iff their arrays are equal; clause
a takes all that b takes iff `clause_contains`. Slots keep their numbers.

Complexity: O(table), plus O(c²) for a subscription of c clauses, plus O(constants) for each attribute of strings. A
test of clauses O(constraints + Σ m_b log m_a) for m_a and m_b intervals; mostly O(1), at the first difference.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from earmark.errors import EarmarkError
from earmark.flat.arrays import I32, I64, Flags, frozen, pointers_of, read_only
from earmark.flat.bisection import bisect_left
from earmark.flat.machine import at
from earmark.jit import inlined, kernel
from earmark.keys.numbers import HIGHEST, LOWEST, position_at
from earmark.keys.schema import INT64_MAX, Kind, Schema
from earmark.keys.strings import StringKeys
from earmark.segment.arrays import NO_MOMENTS, SegmentArrays, offsets, spread, with_constraints
from earmark.segment.life import with_life_constraints
from earmark.segment.segment import Segment

Cells = Callable[[list[bytes]], tuple[list[bool], list[bool]]]
_NONE = np.empty(0, np.float64)
_CHARACTERS = 0x110000 - 0x800
ABOVE_ALL = b"\xff"
"""Bytes that come after every string."""


class Canonized(NamedTuple):
    """A canonical table, and which clauses of the original can never match."""

    table: SegmentArrays
    never: Flags


def canonical(view: Segment) -> SegmentArrays:
    """The canonical form of a segment, slot by slot."""
    return canonized(view.arrays, view.schema).table


def canonized(arrays: SegmentArrays, schema: Schema) -> Canonized:
    """The canonical form of these subscriptions, whose keys are those of the schema; life spans become constraints."""
    arrays = with_life_constraints(arrays, schema)._replace(first_moment=NO_MOMENTS, last_moment=NO_MOMENTS)
    low, high = domains(schema)
    attr_of = np.repeat(arrays.attr, np.diff(arrays.interval_start))
    lo, hi = np.maximum(arrays.lo, low[attr_of]), np.minimum(arrays.hi, high[attr_of])
    for number, starts in _snaps(schema).items():
        of_it = attr_of == number
        lo[of_it], hi[of_it] = _snapped(lo[of_it], hi[of_it], starts)
    counts, lo, hi = _joined(arrays.interval_start, lo, hi)
    null = arrays.accepts_null != 0
    void = (counts == 0) & ~null
    never = np.zeros(len(arrays.constraint_start) - 1, bool)
    never[np.searchsorted(arrays.constraint_start, np.flatnonzero(void), "right") - 1] = True
    table = arrays._replace(interval_start=offsets(counts), lo=lo, hi=hi, weight=_NONE, score=_NONE)
    table = _read_only(without_full(table, low, high))
    return Canonized(_read_only(_without_clauses(table, never | _inside(table, never))), never)


def domains(schema: Schema) -> tuple[I64, I64]:
    """The least and the greatest key that a value of each attribute has; all of int64 while its type is unknown."""
    low, high = schema.domains
    for number, starts in _snaps(schema).items():
        if _is_number(schema, number):
            low = np.where(np.arange(len(low)) == number, starts[0], low)  # the first constant, '', is not a number
    return low, high


def _is_number(schema: Schema, number: int) -> bool:
    type_ = schema.by_name[schema.names[number]].type
    return type_ is not None and type_.kind == Kind.NUMBER


def continues(table: SegmentArrays, before: SegmentArrays) -> bool:
    """Whether a table has all slots of another one, unchanged, perhaps with more behind them. O(its size), or O(1)."""
    return table is before or all(map(_begins_with, table, before))


def _begins_with(new: Any, old: Any) -> bool:
    start = new.__array_interface__["data"][0] == old.__array_interface__["data"][0]
    return len(new) >= len(old) and (start or np.array_equal(new[: len(old)], old))


def check_continues(table: SegmentArrays, before: SegmentArrays) -> None:
    """Raise unless a table continues another, from whose keys something was derived."""
    if not continues(table, before):
        raise EarmarkError("older subscriptions have changed their keys since this was made; make it again")


# --- intervals and constraints -----------------------------------------------------------------------------------


def _joined(start: I32, lo: I64, hi: I64) -> tuple[I64, I64, I64]:
    """Intervals without the void ones, those that touch joined: (count per constraint, lo, hi)."""
    constraint = np.repeat(np.arange(len(start) - 1), np.diff(start))
    good = lo <= hi
    constraint, lo, hi = constraint[good], lo[good], hi[good]
    begins = np.ones(len(lo), bool)
    # lo - 1 cannot wrap where there is an interval of the same constraint below
    begins[1:] = (constraint[1:] != constraint[:-1]) | (hi[:-1] < lo[1:] - 1)
    ends = np.ones(len(lo), bool)
    ends[:-1] = begins[1:]
    return np.bincount(constraint[begins], minlength=len(start) - 1), lo[begins], hi[ends]


def without_full(table: SegmentArrays, low: I64, high: I64) -> SegmentArrays:
    """Drop constraints that accept everything, NULL included, given the domains. Intervals must not touch."""
    full = (table.accepts_null != 0) & (np.diff(table.interval_start) == 1)
    first, attr = table.interval_start[:-1][full], table.attr[full]
    full[full] = (table.lo[first] == low[attr]) & (table.hi[first] == high[attr])
    if not full.any():
        return table
    return with_constraints(table, offsets(~full)[table.constraint_start], np.flatnonzero(~full))


def _without_clauses(table: SegmentArrays, drop: Flags) -> SegmentArrays:
    if not drop.any():
        return table
    kept = with_constraints(table, *spread(table.constraint_start, np.flatnonzero(~drop)))
    return kept._replace(clause_start=pointers_of(~drop)[table.clause_start].astype(np.int32))


@kernel
def _inside(table: SegmentArrays, never: Flags) -> Flags:
    """Which clauses are inside another clause of their slot; of equal ones the first stays."""
    inside = np.zeros(len(never), np.bool_)
    for slot in range(len(table.clause_start) - 1):
        first, last = at(table.clause_start, slot), at(table.clause_start, slot + 1)
        if last - first < 2:
            continue
        for b in range(first, last):
            for a in range(first, last):
                if a == b or never[a] or never[b] or inside[a]:
                    continue
                if clause_contains(table, a, b) and (a < b or not clause_contains(table, b, a)):
                    inside[b] = True
                    break
    return inside


# --- strings -----------------------------------------------------------------------------------------------------


def _snaps(schema: Schema) -> dict[int, I64]:
    """By attribute with a dictionary that has cells without values: the first keys of the other cells."""
    cells = {number: _number_cells if _is_number(schema, number) else _text_cells for number in schema.strings}
    found = {number: _cell_starts(keys, cells[number]) for number, keys in schema.strings.items()}
    return {number: starts for number, starts in found.items() if starts is not None}


_known_starts: WeakKeyDictionary[StringKeys, tuple[int, I64 | None]] = WeakKeyDictionary()
"""By dictionary: how many constants it had when its cells were last looked at, and what came of it."""


def _cell_starts(strings: StringKeys, cells: Cells) -> I64 | None:
    """The first key of every cell that some value falls into; None when that is every cell.

    A dictionary only grows. Where each cell had values, only those around new constants are looked at.
    """
    count = len(strings)
    before, starts = _known_starts.get(strings, (0, None))
    if before == count:
        return starts
    if not before or starts is not None or cells is not _text_cells or not _have_values(strings, before):
        constants, keys = strings.items()
        points, gaps = cells(constants)
        pairs = np.stack([keys, keys + 1], axis=1)
        starts = None if all(points) and all(gaps) else pairs[np.stack([points, gaps], axis=1)]
    _known_starts[strings] = count, starts
    return starts


def _have_values(strings: StringKeys, before: int) -> bool:
    """Whether some string falls into each cell that is at a constant, or next to one, beyond the first `before`."""
    new, _ = strings.since(before)
    constants = strings.constants()
    for constant in new:
        place = bisect_right(constants, constant) - 1
        points, gaps = _text_cells(constants[max(place - 1, 0) : place + 2])
        if place + 2 < len(constants):
            gaps.pop()  # above the last of these three, of which more is known
        if not (all(points) and all(gaps)):
            return False
    return True


def _text_cells(constants: list[bytes]) -> tuple[list[bool], list[bool]]:
    """For each constant, whether it is a valid string, and whether there is one in the gap above it."""
    valid = [is_valid_text(constant) for constant in constants]
    gaps = [
        after != before + b"\0" if good else first_text_after(before) < after
        for good, (before, after) in zip(valid, pairwise(constants), strict=False)
    ]
    gaps.append(valid[-1] or first_text_after(constants[-1]) != ABOVE_ALL)
    return valid, gaps


def _number_cells(constants: list[bytes]) -> tuple[list[bool], list[bool]]:
    """The same for numbers: neighbouring positions have nothing between them; the first constant is not a number."""
    positions = [LOWEST - 1, *map(position_at, constants[1:]), HIGHEST + 1]
    gaps = [after - before > 1 for before, after in pairwise(positions)]
    return [False] + [True] * (len(constants) - 1), gaps


def _snapped(lo: I64, hi: I64, starts: I64) -> tuple[I64, I64]:
    """Move bounds over cells without values: lo up to the next good cell, hi up to just below the next good one."""
    at_lo, at_hi = np.searchsorted(starts, lo), np.searchsorted(starts, hi, side="right")
    last = len(starts) - 1
    new_lo = np.where(at_lo > last, INT64_MAX, starts[np.minimum(at_lo, last)])
    new_hi = np.where(at_hi > last, INT64_MAX, starts[np.minimum(at_hi, last)] - 1)
    gone = (at_lo > last) | (new_lo > new_hi)
    return np.where(gone, 1, new_lo), np.where(gone, 0, new_hi)


def is_valid_text(constant: bytes) -> bool:
    """Whether bytes are UTF-8."""
    return constant.decode(errors="ignore").encode() == constant


def first_text_after(constant: bytes) -> bytes:
    """The least UTF-8 string above bytes that are not valid UTF-8; bytes above every string where there is none.

    Strings order as their code points do, so it is the valid characters at the beginning, and the next character above
    the invalid bytes.
    """
    good = len(constant)
    while not is_valid_text(constant[:good]):
        good -= 1
    head, wrong = constant[:good], constant[good:]
    above = bisect_right(range(_CHARACTERS), wrong, key=lambda rank: _character(rank).encode())
    return _text_above(head) if above == _CHARACTERS else head + _character(above).encode()


def _character(rank: int) -> str:
    """The characters in order, without the surrogates, which UTF-8 does not have."""
    return chr(rank if rank < 0xD800 else rank + 0x800)


def _text_above(head: bytes) -> bytes:
    """The least string above all that start with `head`, a valid one; bytes above every string where there is none."""
    characters = head.decode().rstrip("\U0010ffff")
    if not characters:
        return ABOVE_ALL
    code = ord(characters[-1]) + 1
    return (characters[:-1] + chr(0xE000 if code == 0xD800 else code)).encode()


def _read_only(table: SegmentArrays) -> SegmentArrays:
    made = table._replace(weight=_NONE, score=_NONE)
    return SegmentArrays._make(frozen(np.ascontiguousarray(c)) if c.flags.owndata else read_only(c) for c in made)


# --- does one contain another ------------------------------------------------------------------------------------


@inlined
def constraint_contains(table: SegmentArrays, a: int, b: int) -> bool:
    """Whether constraint a takes everything that constraint b takes."""
    if at(table.accepts_null, b) > at(table.accepts_null, a):
        return False
    begin, end = at(table.interval_start, a), at(table.interval_start, a + 1)
    first, last = at(table.interval_start, b), at(table.interval_start, b + 1)
    if end - begin == 1:
        return first == last or bool(
            (at(table.lo, begin) <= at(table.lo, first)) & (at(table.hi, last - 1) <= at(table.hi, begin))
        )
    for i in range(first, last):
        begin = bisect_left(table.hi, begin, end, at(table.hi, i))  # the first interval of a that reaches as far
        if begin == end or at(table.lo, begin) > at(table.lo, i):
            return False
    return True


@inlined
def clause_contains(table: SegmentArrays, a: int, b: int) -> bool:
    """Whether every event that clause b takes is taken by clause a."""
    position, end = at(table.constraint_start, b), at(table.constraint_start, b + 1)
    first, last = at(table.constraint_start, a), at(table.constraint_start, a + 1)
    if last - first > end - position:
        return False
    for constraint in range(first, last):
        attr = at(table.attr, constraint)
        while position < end and at(table.attr, position) < attr:
            position += 1
        if position == end or at(table.attr, position) != attr:
            return False  # b does not constrain it, a does
        if not constraint_contains(table, constraint, position):
            return False
    return True


@inlined
def some_clause_contains(table: SegmentArrays, first: int, last: int, b: int) -> bool:
    """Whether one of the clauses first..last contains clause b."""
    for a in range(first, last):  # noqa: SIM110 - kernels have no generators
        if clause_contains(table, a, b):
            return True
    return False


@inlined
def slot_contains(table: SegmentArrays, above: int, below: int) -> bool:
    """Whether each clause of `below` is inside some clause of `above`."""
    first, last = at(table.clause_start, above), at(table.clause_start, above + 1)
    for b in range(at(table.clause_start, below), at(table.clause_start, below + 1)):
        if not some_clause_contains(table, first, last, b):
            return False
    return True


@inlined
def outranks(table: SegmentArrays, above: int, below: int) -> bool:
    """Whether `above`, which contains `below`, is above it in the order: it is older, or the two are not equal."""
    if at(table.sequence, above) < at(table.sequence, below):
        return True
    return not slot_contains(table, below, above)


@inlined
def stands_above(table: SegmentArrays, above: int, below: int) -> bool:
    """The strict order: `above` covers `below`."""
    return above != below and slot_contains(table, above, below) and outranks(table, above, below)


@inlined
def reports(table: SegmentArrays, above: int, clause: int, below: int) -> bool:
    """Whether a search by the first clause of `below`, having come upon this clause of `above`, reports `above`.

    It does when the clause contains the one searched for, no earlier clause of `above` does (that one reports it),
    and `above` is above `below` as a whole.
    """
    if above == below:
        return False
    sought, end = at(table.clause_start, below), at(table.clause_start, below + 1)
    if not clause_contains(table, clause, sought):
        return False
    first, last = at(table.clause_start, above), at(table.clause_start, above + 1)
    if some_clause_contains(table, first, clause, sought):
        return False
    for b in range(sought + 1, end):
        if not some_clause_contains(table, first, last, b):
            return False
    return outranks(table, above, below)


@inlined
def same_constraint(table: SegmentArrays, a: int, b: int) -> bool:
    """Whether two constraints take the same on the same attribute."""
    begin, first = at(table.interval_start, a), at(table.interval_start, b)
    count = at(table.interval_start, a + 1) - begin
    if at(table.attr, a) != at(table.attr, b) or at(table.accepts_null, a) != at(table.accepts_null, b):
        return False
    if at(table.interval_start, b + 1) - first != count:
        return False
    for i in range(count):
        if at(table.lo, begin + i) != at(table.lo, first + i) or at(table.hi, begin + i) != at(table.hi, first + i):
            return False
    return True


@inlined
def differ_once(table: SegmentArrays, a: int, b: int) -> bool:
    """Whether two clauses with as many constraints differ in at most one of them, on the same attribute.

    Their union is then one clause. (Where only one has a constraint on some attribute, it must be inside the other.)
    """
    begin, first = at(table.constraint_start, a), at(table.constraint_start, b)
    count, different = at(table.constraint_start, a + 1) - begin, 0
    if at(table.constraint_start, b + 1) - first != count:
        return False
    for i in range(count):
        if not same_constraint(table, begin + i, first + i):
            different += 1
            if different > 1 or at(table.attr, begin + i) != at(table.attr, first + i):
                return False
    return True


@kernel
def covers(table: SegmentArrays, above: int, below: int) -> bool:
    """`stands_above`, for callers outside kernels."""
    return stands_above(table, above, below)
