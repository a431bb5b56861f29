"""Do these subscriptions together take everything that this one takes? Their real boxes decide, not their cells.

mics.txt, sections 2 and 3.7: s is *subsumed* when it is inside the union of others. In general that is co-NP
complete, so the answer has a bound on work and three outcomes: yes, no (with an event that s alone takes), or
*undecided*.

    s minus others       1. does one of them contain s?                                  covered
                         2. clause by clause: which boxes meet it, and is anything
                            left of it when they are taken away?                         needed, subsumed or undecided

The caller names the others that can matter: all of them, or those that an index finds (`indexes/mics.py`). The verdict
is the same, since what shares no event with s takes nothing away from it.

**Elementary pieces.** On each attribute, the ends of all boxes that meet the clause cut its set into pieces which no
box cuts further; NULL is one more piece, the last. A set of pieces is a row of bits; of a box, the *runs* of pieces
that its intervals fill are enough:

    clause   x BETWEEN 0 AND 9                   pieces of x  [0, 3] [4, 5] [6, 9]     of y  [min, max] NULL
    a        x <= 5                              runs           0 .. 1                         (free)
    b        x >= 4 AND y IS NOT NULL                               1 .. 2                     0

    start    0            3       5              pieces of an attribute; their keys are in `low` and `high`
    word     0            1       2              words of bits of an attribute
    bits     x 111        y 11                   clause minus a    x 100  y 11     minus b    x 100  y 10:
                                                 x = 6 without y is taken by the clause alone

**Taking away.** What is left is a stack of disjoint boxes, each with the first part that was not taken from it yet.
From the box on top the next part that meets it is taken away, which leaves at most one smaller box per attribute; a box
that no part meets is a proof that the clause is needed. A few points at random are tried first: most clauses that are
needed show it at once. Parts that take most away come first.

Tables are canonical (`canonical.py`). Extended events follow: an interval that meets s meets some member where s is
inside their union.

Invariant: the boxes on the stack are disjoint, and with the parts taken away from them their union is the clause.
Complexity: O(others) comparisons of clauses; for each clause, O(i log i) for i intervals to find pieces; then at most
`work` *steps*: comparing a part with what is left is one, and so is every `A_STEP` words of bits that are looked at or
copied. The boxes can become exponentially many in the attributes: hence the bound. They take at most MOST_WORDS of
memory; more is as if the bound were reached.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from earmark.cover.canonical import slot_contains
from earmark.errors import check_whole
from earmark.flat.arrays import I32, I64, U8, U64
from earmark.flat.bisection import bisect_left
from earmark.flat.machine import at, ctz64
from earmark.jit import inlined, kernel
from earmark.keys.schema import INT64_MAX, INT64_MIN
from earmark.segment.arrays import SegmentArrays
from earmark.segment.ids import Id

WORK = 10_000_000
"""Steps after which a verdict is left open: 20 to 80 ns each, so about a second at most."""
MOST_WORK = 1 << 60
PROBES = 32
"""Points that are tried first."""
GONE, LEFT, BOUND = 0, 1, 2
"""What comes of it: nothing is left; something is; the bound on work was reached."""
FIRST_STACK = 64
A_STEP = 32
"""Words that take about as long as a comparison."""
MOST_WORDS = 1 << 25
"""Words that the stack may take: 256 MiB."""
NO_DOMAIN: I64 = np.empty(0, np.int64)
Domain = tuple[I64, I64] | None
Pick = Callable[[int, int, int], int]
"""(attribute, first, last) -> the key, from first to last, that a witness should have."""


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
    witness: dict[Any, Any] | None = None
    """When needed: an event that it takes and no other does, as `Matcher.match` takes it; from `decide`, keys by
    attribute number, None for NULL. What it does not name is NULL. (Days that Python has no date for, beyond the years
    1 to 9999, are strings, which `match` does not take.)"""
    work: int = 0
    """Steps taken, mostly comparisons of boxes."""


def decide(
    table: SegmentArrays, slot: int, others: I64, domain: Domain = None, work: int = WORK, pick: Pick | None = None
) -> Decision:
    """Decide about a slot of a canonical table, given other slots of it; the slot itself is not compared.

    `domain` has the least and the greatest key of each attribute; without it, all of int64 counts. `pick` chooses the
    keys of a witness; without it, they are the least.
    """
    check_whole(work, "work", 1, MOST_WORK)
    others = np.ascontiguousarray(others[others != slot], np.int64)
    cover = int(first_containing(table, slot, others))
    if cover >= 0:
        return Decision(Verdict.COVERED, (cover,))
    spent, used = 0, np.zeros(len(others), np.uint8)
    least, greatest = (NO_DOMAIN, NO_DOMAIN) if domain is None else domain
    for clause in range(int(table.clause_start[slot]), int(table.clause_start[slot + 1])):
        rest = Rest._make(subtracted(table, clause, others, least, greatest, work - spent, used))
        spent += rest.work
        if rest.outcome == BOUND:
            return Decision(Verdict.UNDECIDED, work=spent)
        if rest.outcome == LEFT:
            return Decision(Verdict.NEEDED, witness=_event(rest, pick or (lambda _, first, last: first)), work=spent)
    return Decision(Verdict.SUBSUMED, tuple(np.sort(others[used != 0]).tolist()), work=spent)


def _event(rest: Rest, pick: Pick) -> dict[int, int | None]:
    """An event in what is left, as keys by attribute."""
    columns = (column.tolist() for column in (rest.attribute, rest.low, rest.high, rest.null))
    return {attr: None if null else pick(attr, low, high) for attr, low, high, null in zip(*columns, strict=True)}


@kernel
def first_containing(table: SegmentArrays, slot: int, others: I64) -> int:
    """The first of the others that contains a slot, or -1."""
    for i in range(len(others)):
        if slot_contains(table, others[i], slot):
            return int(others[i])
    return -1


# --- a clause minus others --------------------------------------------------------------------------------------


class ElementaryPieces(NamedTuple):
    """The pieces of a clause. The module's docstring draws it."""

    attribute: I32
    start: I64
    low: I64
    high: I64
    null: U8
    word: I64


class Parts(NamedTuple):
    """Boxes in pieces. Part i has the entries start[i] .. start[i + 1], one for each attribute that it constrains.

    place[e] is the place of the attribute of entry e, and its runs [first, last) are at run[e] .. run[e + 1].
    """

    start: I64
    place: I64
    run: I64
    first: I64
    last: I64
    order: I64
    """Parts, those that take most away first."""


class Rest(NamedTuple):
    """What is left of a clause: GONE, LEFT or BOUND, and the steps taken; where something is left, a piece of each
    attribute: from key low to high, or NULL.
    """

    outcome: int
    work: int
    attribute: I32
    low: I64
    high: I64
    null: U8


@kernel
def subtracted(table: SegmentArrays, clause: int, others: I64, least: I64, greatest: I64, work: int, used: U8) -> Rest:
    """A clause of a canonical table minus other slots of it; used[i] is set where others[i] was taken away.

    `least` and `greatest` have the domain of each attribute; where they are empty, all of int64 counts.
    """
    part, owner = clauses_that_meet(table, clause, others)
    pieces = pieces_of(table, clause, part, least, greatest)
    parts = parts_of(table, part, pieces)
    box, taken = np.zeros(pieces.word[-1], np.uint64), np.zeros(len(part), np.uint8)
    probes = min(int(PROBES), work // (4 * len(part) + 1))
    outcome, spent = int(LEFT), probes * len(part)
    if not probe(pieces, parts, probes, box):
        outcome, spent = take_away(pieces, parts, spent, work, box, taken)
    for i in range(len(part)):
        used[owner[i]] |= taken[i]
    count = len(pieces.attribute) if outcome == int(LEFT) else 0
    low, high, null = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.uint8)
    for j in range(count):
        piece = first_piece(pieces, box, j)
        null[j] = pieces.null[j] != 0 and piece == pieces.start[j + 1] - 1
        low[j], high[j] = pieces.low[piece], pieces.high[piece]
    return Rest(outcome, spent, pieces.attribute[:count], low, high, null)


# --- who meets whom ----------------------------------------------------------------------------------------------


@kernel
def clauses_that_meet(table: SegmentArrays, clause: int, others: I64) -> tuple[I64, I64]:
    """Clauses of other slots that match an event of this one, and the places of their slots among the others."""
    room = 0
    for i in range(len(others)):
        room += at(table.clause_start, others[i] + 1) - at(table.clause_start, others[i])
    part, owner = np.empty(room, np.int64), np.empty(room, np.int64)
    found = 0
    for i in range(len(others)):
        for other in range(at(table.clause_start, others[i]), at(table.clause_start, others[i] + 1)):
            if clauses_meet(table, clause, other):
                part[found], owner[found] = other, i
                found += 1
    return part[:found], owner[:found]


@inlined
def constraints_meet(table: SegmentArrays, a: int, b: int) -> bool:
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
def clauses_meet(table: SegmentArrays, a: int, b: int) -> bool:
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


# --- pieces ------------------------------------------------------------------------------------------------------


@kernel
def pieces_of(table: SegmentArrays, clause: int, others: I64, least: I64, greatest: I64) -> ElementaryPieces:
    """The elementary pieces of a clause, given the clauses that meet it.

    What the clause leaves free and no other asks about cuts nothing, so it is left out.
    """
    attributes = attributes_of(table, clause, others)
    end_start, ends = ends_on(table, others, attributes)
    count = len(attributes)
    own_first, own_last = at(table.constraint_start, clause), at(table.constraint_start, clause + 1)
    own_intervals = at(table.interval_start, own_last) - at(table.interval_start, own_first)
    room = len(ends) + own_intervals + 2 * count  # an end begins a piece; so do an interval, an attribute, and NULL
    low, high = np.empty(room, np.int64), np.empty(room, np.int64)
    start, word, null = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64), np.zeros(count, np.uint8)
    own, made = own_first, 0
    for j in range(count):
        cuts = np.sort(ends[end_start[j] : end_start[j + 1]])
        null[j] = 1
        if own < own_last and at(table.attr, own) == attributes[j]:
            null[j] = at(table.accepts_null, own)
            cut = 0
            for k in range(at(table.interval_start, own), at(table.interval_start, own + 1)):
                made, cut = cut_interval(at(table.lo, k), at(table.hi, k), cuts, cut, low, high, made)
            own += 1
        elif len(least):
            made, _ = cut_interval(least[attributes[j]], greatest[attributes[j]], cuts, 0, low, high, made)
        else:
            made, _ = cut_interval(INT64_MIN, INT64_MAX, cuts, 0, low, high, made)
        if null[j]:
            low[made], high[made] = 0, 0  # NULL has no key
            made += 1
        start[j + 1] = made
        word[j + 1] = word[j] + ((made - start[j] + 63) >> 6)
    return ElementaryPieces(attributes, start, low, high, null, word)


@kernel
def attributes_of(table: SegmentArrays, clause: int, others: I64) -> I32:
    """The attributes of a clause and of others, ascending."""
    used = np.zeros(64, np.bool_)
    for i in range(-1, len(others)):
        which = clause if i < 0 else others[i]
        for constraint in range(at(table.constraint_start, which), at(table.constraint_start, which + 1)):
            attr = at(table.attr, constraint)
            if attr >= len(used):
                used = np.concatenate((used, np.zeros(attr + 1, np.bool_)))
            used[attr] = True
    return np.flatnonzero(used).astype(np.int32)


@kernel
def ends_on(table: SegmentArrays, clauses: I64, attributes: I32) -> tuple[I64, I64]:
    """Where intervals of clauses begin, and where what is beyond them begins: (start, ends), by attribute."""
    start = np.zeros(len(attributes) + 2, np.int64)
    ends = np.empty(0, np.int64)
    for fill in range(2):  # count, then write
        for i in range(len(clauses)):
            for c in range(at(table.constraint_start, clauses[i]), at(table.constraint_start, clauses[i] + 1)):
                j = bisect_left(attributes, 0, len(attributes), at(table.attr, c)) + 1
                for k in range(at(table.interval_start, c), at(table.interval_start, c + 1)):
                    ended = int(at(table.hi, k) < INT64_MAX)
                    if not fill:
                        start[j + 1] += 1 + ended
                        continue
                    ends[start[j]] = at(table.lo, k)
                    if ended:
                        ends[start[j] + 1] = at(table.hi, k) + 1
                    start[j] += 1 + ended
        if not fill:
            # start[j + 1] is where attribute j is written next: its begin now, its end when all is written
            for j in range(1, len(start)):
                start[j] += start[j - 1]
            ends = np.empty(start[-1], np.int64)
    return start[:-1], ends


@inlined
def cut_interval(begin: int, last: int, cuts: I64, cut: int, low: I64, high: I64, made: int) -> tuple[int, int]:
    """Append an interval, cut before each of the cuts from number `cut` on; returns pieces made, cuts passed."""
    while cut < len(cuts) and cuts[cut] <= begin:
        cut += 1
    while cut < len(cuts) and cuts[cut] <= last:
        if cuts[cut] > begin:
            low[made], high[made] = begin, cuts[cut] - 1
            made += 1
            begin = cuts[cut]
        cut += 1
    low[made], high[made] = begin, last
    return made + 1, cut


@kernel
def parts_of(table: SegmentArrays, clauses: I64, pieces: ElementaryPieces) -> Parts:
    """Clauses in these pieces."""
    start = np.zeros(len(clauses) + 1, np.int64)
    room = 0
    for i in range(len(clauses)):
        first, last = at(table.constraint_start, clauses[i]), at(table.constraint_start, clauses[i] + 1)
        start[i + 1] = start[i] + last - first
        room += at(table.interval_start, last) - at(table.interval_start, first)
    entries = start[-1]
    place, run, volume = np.empty(entries, np.int64), np.zeros(entries + 1, np.int64), np.ones(len(clauses))
    runs = np.empty((2, room + entries), np.int64)  # a run an interval, and one for NULL
    made = 0
    for i in range(len(clauses)):
        first = at(table.constraint_start, clauses[i])
        for entry in range(start[i], start[i + 1]):
            constraint = first + entry - start[i]
            j = bisect_left(pieces.attribute, 0, len(pieces.attribute), at(table.attr, constraint))
            place[entry] = j
            made = append_runs(table, constraint, pieces, j, runs, made)
            run[entry + 1] = made
            share = 0
            for r in range(run[entry], made):
                share += runs[1, r] - runs[0, r]
            volume[i] *= share / (pieces.start[j + 1] - pieces.start[j])
    return Parts(start, place, run, runs[0], runs[1], np.argsort(-volume, kind="mergesort"))


@inlined
def append_runs(table: SegmentArrays, constraint: int, pieces: ElementaryPieces, j: int, runs: I64, made: int) -> int:
    """The runs of a constraint on attribute j of these pieces, behind those that are made; returns where they end."""
    begin, end = pieces.start[j], pieces.start[j + 1]
    keyed = end - 1 if pieces.null[j] else end
    for k in range(at(table.interval_start, constraint), at(table.interval_start, constraint + 1)):
        first, last = bisect_left(pieces.low, begin, keyed, at(table.lo, k)), keyed
        if at(table.hi, k) < INT64_MAX:
            last = bisect_left(pieces.low, begin, keyed, at(table.hi, k) + 1)
        if first < last:
            runs[0, made], runs[1, made] = first - begin, last - begin
            made += 1
    if pieces.null[j] and at(table.accepts_null, constraint):
        runs[0, made], runs[1, made] = keyed - begin, end - begin
        made += 1
    return made


# --- taking away -------------------------------------------------------------------------------------------------


@inlined
def first_piece(pieces: ElementaryPieces, box: U64, j: int) -> int:
    """The first piece of a box on attribute j, by its place in `low` and `high`."""
    word = pieces.word[j]
    while box[word] == 0:
        word += 1
    return int(pieces.start[j] + ((word - pieces.word[j]) << 6) + ctz64(box[word]))


@kernel
def probe(pieces: ElementaryPieces, parts: Parts, probes: int, box: U64) -> bool:
    """Whether one of a few points is in no part; then it becomes the box."""
    attributes = len(pieces.attribute)
    point = np.empty(attributes, np.int64)
    state = 1
    for _ in range(probes):
        for j in range(attributes):
            state = (state * 1103515245 + 12345) & 0x7FFFFFFF
            point[j] = (state >> 8) % (pieces.start[j + 1] - pieces.start[j])
        free = True
        for i in range(len(parts.order)):
            if holds_point(parts, parts.order[i], point):
                free = False
                break
        if free:
            for j in range(attributes):
                box[pieces.word[j] + (point[j] >> 6)] = np.uint64(1) << np.uint64(point[j] & 63)
            return True
    return False


@inlined
def holds_point(parts: Parts, part: int, point: I64) -> bool:
    """Whether a part holds a point, given by its piece on each attribute."""
    for entry in range(at(parts.start, part), at(parts.start, part + 1)):
        piece, inside = point[at(parts.place, entry)], False
        for r in range(at(parts.run, entry), at(parts.run, entry + 1)):
            if at(parts.first, r) <= piece < at(parts.last, r):
                inside = True
                break
        if not inside:
            return False
    return True


@kernel
def take_away(pieces: ElementaryPieces, parts: Parts, spent: int, work: int, box: U64, used: U8) -> tuple[int, int]:
    """Take all parts away: what comes of it, and the work. What is left is in the box; parts needed are `used`."""
    attributes, words = len(pieces.attribute), len(box)
    stack, place = np.zeros((int(FIRST_STACK), words), np.uint64), np.zeros(int(FIRST_STACK), np.int64)
    for j in range(attributes):
        for word in range(pieces.word[j], pieces.word[j + 1]):
            stack[0, word] = bits_of(word - pieces.word[j], 0, pieces.start[j + 1] - pieces.start[j])
    top = 1
    while top:
        top -= 1
        box[:] = stack[top]
        spent += words // int(A_STEP)
        at_part = place[top]
        while at_part < len(parts.order) and spent <= work:
            met, looked = meets(pieces, parts, parts.order[at_part], box)
            spent += 1 + looked // int(A_STEP)
            if met:
                break
            at_part += 1
        if spent > work:
            return int(BOUND), spent
        if at_part == len(parts.order):
            return int(LEFT), spent
        part = parts.order[at_part]
        used[part] = 1
        entries = parts.start[part + 1] - parts.start[part]
        spent += entries * (words // int(A_STEP))
        while top + entries > len(stack):
            if 2 * len(stack) * words > int(MOST_WORDS):
                return int(BOUND), spent
            stack = np.concatenate((stack, np.zeros_like(stack)))
            place = np.concatenate((place, np.zeros_like(place)))
        for entry in range(parts.start[part], parts.start[part + 1]):
            # outside on this attribute, inside on those before it: the box is cut down as we go on
            outside, j = stack[top], parts.place[entry]
            outside[:] = box
            begin, end = pieces.word[j], pieces.word[j + 1]
            for r in range(at(parts.run, entry), at(parts.run, entry + 1)):
                first, last = at(parts.first, r), at(parts.last, r)
                for word in range(first >> 6, ((last - 1) >> 6) + 1):
                    outside[begin + word] &= ~bits_of(word, first, last)
            some = False
            for word in range(begin, end):
                if outside[word] != 0:
                    some = True
                box[word] &= ~outside[word]
            if some:
                place[top] = at_part + 1
                top += 1
    return int(GONE), spent


@inlined
def meets(pieces: ElementaryPieces, parts: Parts, part: int, box: U64) -> tuple[bool, int]:
    """Whether a part and a box share a piece on every attribute, and how many words were looked at."""
    looked = 0
    for entry in range(at(parts.start, part), at(parts.start, part + 1)):
        begin, some = at(pieces.word, at(parts.place, entry)), False
        for r in range(at(parts.run, entry), at(parts.run, entry + 1)):
            first, last = at(parts.first, r), at(parts.last, r)
            word, end = first >> 6, (last - 1) >> 6
            while word <= end and not at(box, begin + word) & bits_of(word, first, last):
                word += 1
            looked += word - (first >> 6) + 1
            if word <= end:
                some = True
                break
        if not some:
            return False, looked
    return True, looked


@inlined
def bits_of(word: int, first: int, last: int) -> np.uint64:
    """The bits of a word, by its number, that are for pieces first .. last - 1."""
    mask = ~np.uint64(0)
    if first > word << 6:
        mask &= ~np.uint64(0) << np.uint64(first & 63)
    if last < (word + 1) << 6:
        mask &= ~(~np.uint64(0) << np.uint64(last & 63))
    return mask
