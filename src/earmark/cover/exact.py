"""Do these subscriptions together take everything that this one takes? The real boxes decide, not their cells.

mics.txt, sections 2 and 3.7: s is *subsumed* when it lies inside the union of others. In general that is co-NP
complete, so the answer has a bound on work and three outcomes: yes, no (with an event that s alone takes), or
*undecided*.

**Elementary pieces.** On each attribute, the ends of all boxes that meet s cut the set of s into pieces which no box
cuts further; NULL is one more piece. A set of pieces is an integer, a bit a piece, and a box one integer an attribute:

    s   x BETWEEN 0 AND 9             pieces of x  [0, 3] [4, 5] [6, 9]   s  111    of y  [min, max] NULL   11
    a   x <= 5                                                            a  011                            11
    b   x >= 4 AND y IS NOT NULL                                          b  110                            01
    s minus a   x 100, y 11           minus b   x 100, y 10               x = 6 without y: s alone takes it

**Box minus union of boxes.** What is left of s is a stack of boxes. From each, the next box that meets it is taken
away, which leaves at most one smaller box an attribute; a box that nothing meets is a proof that s is needed.

Invariant: the boxes on the stack are disjoint, and with the boxes taken away their union is s.
Complexity: candidates O(members), compiled; then at most `work` comparisons of a box with what is left, O(pieces / 64)
machine words each. The number of boxes on the stack can grow exponentially with the attributes: hence the bound.

Tables are canonical (`canonical.py`). Extended events follow: an interval that meets s meets some member where s is
inside their union.
"""

from __future__ import annotations

from bisect import bisect_left
from enum import StrEnum
from random import Random
from typing import Any, NamedTuple

import numpy as np

from earmark.cover.audit import Relations
from earmark.cover.canonical import domains
from earmark.cover.containment import slot_contains
from earmark.errors import EarmarkError
from earmark.jit import inlined, kernel
from earmark.model.arrays import I64, TableArrays
from earmark.model.attribute import INT64_MAX, INT64_MIN
from earmark.model.machine import at
from earmark.model.table import Id

WORK = 100_000
"""Comparisons of boxes before a verdict is left open; about a second where thousands of boxes meet a subscription."""
PROBES = 32
"""Random points that are tried first: most subscriptions that are needed show it at once."""


class Verdict(StrEnum):
    """What can be said of a subscription, given others."""

    COVERED = "covered"
    """One of the others takes everything that it takes."""
    SUBSUMED = "subsumed"
    """All of the others together do. (Decided from cells: all of them together, or one.)"""
    PARTLY = "partly"
    """Decided from cells: some of its ranges are inside the table, others are not."""
    NEEDED = "needed"
    """It takes events that no other takes; from cells: none of its ranges is inside the table."""
    UNDECIDED = "undecided"
    """The bound on work was reached."""


class Decision(NamedTuple):
    """A verdict with its reasons."""

    verdict: Verdict
    by: tuple[Id, ...] = ()
    """Others that take all of it: one when covered; when subsumed, enough of them."""
    witness: dict[int, int | None] | None = None
    """When needed: an event, keys by attribute (None is NULL), that it takes and no other does."""
    work: int = 0
    """Comparisons of boxes that were made."""


def subsumed(matcher: Any, id: Id, work: int = WORK) -> Decision:
    """Whether the other subscriptions of a matcher take everything that this one takes.

    Of a covered or subsumed one, removing it changes no event's being wanted or not; that is said of it alone: two that
    cover each other cannot both go.
    """

    def ask(relations: Relations, slot: int) -> Decision:
        view = relations.view
        found = decide(relations.table, slot, relations.slots, domains(view.schema), work)
        return found._replace(by=tuple(view.ids[int(one)] for one in found.by))

    decision: Decision = matcher._relations(id, ask)  # which keeps the canonical table for the next question
    return decision


def decide(
    table: TableArrays, slot: int, others: I64, domain: tuple[I64, I64] | None = None, work: int = WORK
) -> Decision:
    """The verdict on a slot of a canonical table, given other slots of it (a slot among the others is no other).

    `domain` has the least and the greatest key of each attribute; without it, all of int64 counts.
    """
    if work < 1:
        raise EarmarkError(f"a bound on work is a count of comparisons, 1 or more; got {work}")
    others = np.ascontiguousarray(others[others != slot], np.int64)
    one = int(first_containing(table, slot, others))
    if one >= 0:
        return Decision(Verdict.COVERED, (one,))
    spent, by = 0, set[int]()
    for clause in range(int(table.clause_start[slot]), int(table.clause_start[slot + 1])):
        owners, clauses = _meeting(table, clause, others)
        boxes = _Boxes(table, clause, clauses, domain)
        found = _subtracted(boxes, owners, work - spent)
        spent += found.work
        if found.verdict is not Verdict.SUBSUMED:
            return found._replace(by=(), work=spent)
        by.update(found.by)  # type: ignore[arg-type]
    return Decision(Verdict.SUBSUMED, tuple(sorted(by)), work=spent)


def _subtracted(boxes: _Boxes, owners: I64, work: int) -> Decision:
    """Box minus union of boxes."""
    whole, parts = boxes.whole, boxes.parts
    probes = min(PROBES, work // (4 * len(parts) + 1))
    probe = _probed(boxes, probes)
    spent = probes * len(parts)
    if probe is not None:
        return Decision(Verdict.NEEDED, witness=boxes.event(probe), work=spent)
    by: set[int] = set()
    stack = [(whole, 0)]
    while stack:
        left, place = stack.pop()
        while place < len(parts) and spent <= work:
            spent += 1
            part = parts[place]
            if all(a & b for a, b in zip(left, part, strict=True)):
                break
            place += 1
        if spent > work:
            return Decision(Verdict.UNDECIDED, work=spent)
        if place == len(parts):
            return Decision(Verdict.NEEDED, witness=boxes.event(left), work=spent)
        by.add(int(owners[boxes.order[place]]))
        for axis, (a, b) in enumerate(zip(left, part, strict=True)):
            outside = a & ~b
            if outside:
                inner = [x & y for x, y in zip(left[:axis], part[:axis], strict=True)]
                stack.append(((*inner, outside, *left[axis + 1 :]), place + 1))
    return Decision(Verdict.SUBSUMED, tuple(by), work=spent)


def _probed(boxes: _Boxes, probes: int) -> tuple[int, ...] | None:
    """A random point of the whole that no part holds, if one of a few is such a point."""
    random = Random(0)
    choices = [[1 << bit for bit in range(mask.bit_length()) if mask >> bit & 1] for mask in boxes.whole]
    for _ in range(probes):
        point = tuple(random.choice(pieces) for pieces in choices)
        if not any(all(a & b for a, b in zip(point, part, strict=True)) for part in boxes.parts):
            return point
    return None


class _Boxes:
    """A clause and those that meet it, in elementary pieces: integers with a bit a piece, one an attribute."""

    def __init__(self, table: TableArrays, clause: int, others: I64, domain: tuple[I64, I64] | None) -> None:
        own = _sets(table, clause)
        sets = [_sets(table, other) for other in others.tolist()]
        # what the clause leaves free and no other asks about cuts nothing
        self.attributes = sorted({attr for one in sets for attr in one} | own.keys())
        self.pieces: list[list[tuple[int, int] | None]] = []
        whole, columns = [], []
        for attr in self.attributes:
            low, high = (INT64_MIN, INT64_MAX) if domain is None else (int(domain[0][attr]), int(domain[1][attr]))
            intervals, null = own.get(attr, ([(low, high)], True))
            ends = sorted({end for one in sets for lo, hi in one.get(attr, ((), False))[0] for end in (lo, hi + 1)})
            pieces = _cut(intervals, ends)
            self.pieces.append([*pieces, None] if null else list(pieces))
            whole.append((1 << len(self.pieces[-1])) - 1)
            starts = [lo for lo, _ in pieces]
            columns.append([_mask(one.get(attr), starts, null, whole[-1]) for one in sets])
        self.whole = tuple(whole)
        parts = list(zip(*columns, strict=True)) if columns else [() for _ in sets]
        shares = [[mask.bit_count() for mask in part] for part in parts]
        # the boxes that take most away come first
        self.order = sorted(range(len(parts)), key=lambda i: -float(np.prod(np.array(shares[i], float))))
        self.parts = [parts[i] for i in self.order]

    def event(self, left: tuple[int, ...]) -> dict[int, int | None]:
        """An event in what is left."""
        made: dict[int, int | None] = {}
        for attr, mask, pieces in zip(self.attributes, left, self.pieces, strict=True):
            piece = pieces[(mask & -mask).bit_length() - 1]
            made[attr] = None if piece is None else piece[0]
        return made


Set = tuple[list[tuple[int, int]], bool]


def _sets(table: TableArrays, clause: int) -> dict[int, Set]:
    """The constraints of a clause: intervals, and whether NULL is accepted, by attribute."""
    found: dict[int, Set] = {}
    for c in range(int(table.constraint_start[clause]), int(table.constraint_start[clause + 1])):
        first, last = int(table.interval_start[c]), int(table.interval_start[c + 1])
        pairs = list(zip(table.lo[first:last].tolist(), table.hi[first:last].tolist(), strict=True))
        found[int(table.attr[c])] = pairs, bool(table.accepts_null[c])
    return found


def _cut(intervals: list[tuple[int, int]], ends: list[int]) -> list[tuple[int, int]]:
    """The intervals, cut before each of the ends."""
    pieces = []
    for low, high in intervals:
        begin = low
        for end in ends[bisect_left(ends, low + 1) : bisect_left(ends, high + 1)]:
            pieces.append((begin, end - 1))
            begin = end
        pieces.append((begin, high))
    return pieces


def _mask(one: Set | None, starts: list[int], null: bool, whole: int) -> int:
    """Which pieces a constraint holds; without a constraint, all."""
    if one is None:
        return whole
    mask = 0
    for lo, hi in one[0]:
        first, last = bisect_left(starts, lo), bisect_left(starts, hi + 1)
        mask |= (1 << last) - (1 << first)
    return mask | (1 << len(starts)) if null and one[1] else mask


# --- who meets whom ----------------------------------------------------------------------------------------------


def _meeting(table: TableArrays, clause: int, others: I64) -> tuple[I64, I64]:
    """Clauses of other slots that some event of a clause can match: (slots, clauses)."""
    room = int((table.clause_start[others + 1] - table.clause_start[others]).sum())
    owners, clauses = np.empty(room, np.int64), np.empty(room, np.int64)
    found = find_meeting(table, clause, others, owners, clauses)
    return owners[:found], clauses[:found]


@inlined
def constraints_meet(table: TableArrays, a: int, b: int) -> bool:
    """Whether two constraints on one attribute accept a value, or NULL, together."""
    if at(table.accepts_null, a) and at(table.accepts_null, b):
        return True
    i, end_a = at(table.interval_start, a), at(table.interval_start, a + 1)
    j, end_b = at(table.interval_start, b), at(table.interval_start, b + 1)
    while i < end_a and j < end_b:
        if at(table.hi, i) < at(table.lo, j):
            i += 1
        elif at(table.hi, j) < at(table.lo, i):
            j += 1
        else:
            return True
    return False


@inlined
def clauses_meet(table: TableArrays, a: int, b: int) -> bool:
    """Whether some event matches both clauses."""
    i, end_a = at(table.constraint_start, a), at(table.constraint_start, a + 1)
    j, end_b = at(table.constraint_start, b), at(table.constraint_start, b + 1)
    while i < end_a and j < end_b:
        if at(table.attr, i) < at(table.attr, j):
            i += 1
        elif at(table.attr, j) < at(table.attr, i):
            j += 1
        else:
            if not constraints_meet(table, i, j):
                return False
            i += 1
            j += 1
    return True


@kernel
def find_meeting(table: TableArrays, clause: int, others: I64, owners: I64, clauses: I64) -> int:
    """The clauses of other slots that meet a clause. Returns how many."""
    found = 0
    for i in range(len(others)):
        for other in range(at(table.clause_start, others[i]), at(table.clause_start, others[i] + 1)):
            if clauses_meet(table, clause, other):
                owners[found], clauses[found] = others[i], other
                found += 1
    return found


@kernel
def first_containing(table: TableArrays, slot: int, others: I64) -> int:
    """The first of other slots that contains a slot, or -1."""
    for i in range(len(others)):
        if slot_contains(table, others[i], slot):
            return int(others[i])
    return -1
