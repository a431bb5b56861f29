"""Do these subscriptions together take everything that this one takes? Their real boxes decide, not their cells.

mics.txt, sections 2 and 3.7: s is *subsumed* when it is inside the union of others. In general that is co-NP
complete, so the answer has a bound on work and three outcomes: yes, no (with an event that s alone takes), or
*undecided*.

    s minus others       1. does one of them contain s?                                  covered
                         2. clause by clause: which boxes meet it, and is anything
                            left of it when they are taken away (`subtract.py`)?         needed, subsumed or undecided

The caller names the others that can matter: all of them, or those that an index finds (`mics.py`). The verdict is the
same, since what shares no event with s takes nothing away from it.

Complexity: O(others) comparisons of clauses, compiled; then that of `subtract.py`.

Tables are canonical (`canonical.py`). Extended events follow: an interval that meets s meets some member where s is
inside their union.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from earmark.cover.containment import slot_contains
from earmark.cover.given import check_whole
from earmark.cover.subtract import BOUND, LEFT, NO_DOMAIN, Rest, subtracted
from earmark.flat.arrays import I64
from earmark.jit import kernel
from earmark.segment.arrays import SegmentArrays
from earmark.segment.ids import Id

WORK = 10_000_000
"""Steps after which a verdict is left open (`subtract.py`): 20 to 80 ns each, so about a second at most."""
MOST_WORK = 1 << 60
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
    table: SegmentArrays,
    slot: int,
    others: I64,
    domain: tuple[I64, I64] | None = None,
    work: int = WORK,
    pick: Pick = lambda _, first, last: first,
) -> Decision:
    """Decide about a slot of a canonical table, given other slots of it; the slot itself is not compared.

    `domain` has the least and the greatest key of each attribute; without it, all of int64 counts.
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
            return Decision(Verdict.NEEDED, witness=_event(rest, pick), work=spent)
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
