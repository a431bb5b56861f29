"""The best k over several attributes: Fagin's Threshold Algorithm, or a merge of the lists, over any scored index.

An event opens one source (`scored/walk.py`) for each of its attributes that has a list. What the lists are sorted by
decides how they are combined (`scored/lists.py` says which there are):

*Merge.* Exact search without event weights: all lists are in the order of the whole score, so the best head of all is
the next candidate; it is verified, and the search ends after k. Section 1's intersection of the iterators is the same
merge where each list holds every clause: a candidate counts when all its lists have given it.

*Threshold.* Relaxed search, and exact search with event weights: round robin; each new candidate is scored in full by
random access to the table; unseen clauses stand at or after the head of each of their lists, so that

    T  =  static score + sum over the open lists of (head's weight x event's weight)

bounds them all, and the search ends when the k-th score is above T. With lists by static score + weight, T is the
greatest over the lists j of head j + what the other heads leave for a weight.

          a          b                     event weights 1, k = 1
      s1 .9      s3 .8      T = 1.7
      s2 .6      s1 .3      s1 scored 1.2, s3 scored .8      T = .6 + .3 = .9 < 1.2: done

*Ties.* The k-th equal to T is not yet the end, since an unseen clause of the same score may have an earlier sequence.
In a list equal scores go by sequence. So when reaching T takes a head's score in every open list (no lower score
there would be lost in rounding: `STEP`), whoever reaches it has no earlier sequence than any head.

*Loose* clauses (`lists.py`) are a further list by whole score.

Invariant: T and a merge's heads are never below the score of an unseen slot, in float64 as `clause_score` adds it.
Complexity: merge O((k + rejected) getnext); threshold instance optimal (Fagin, Lotem, Naor), at worst every interval
that the event meets.
"""

from __future__ import annotations

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat.machine import at
from earmark.flat.types import F64, I32, I64, U64
from earmark.index.counters import CANDIDATES, MATCHED, SCORED
from earmark.index.marks import is_set
from earmark.index.ranking import SLACK, Heaps, push, raised, sort_heap
from earmark.index.scored.arrays import (
    BOUND,
    BY_WEIGHT,
    DEPTH,
    EMPTY,
    ENDPOINTS,
    ENTRIES,
    EXACT,
    HEAVIEST,
    KINDS,
    LEAST,
    LIST,
    LOOSE,
    MOST_CONSTRAINTS,
    NEVER,
    NODES,
    ONE_CLAUSE,
    ORDER,
    REGIME,
    SHAPE,
    SHARED,
    SOLE,
    STATIC_LEAST,
    STATIC_MOST,
    STEP,
    WEIGHTS_MOST,
    Listing,
    Trees,
    int64,
)
from earmark.index.scored.walk import (
    BASE,
    COUNT,
    POSITION,
    SOURCE,
    WHICH,
    Scratch,
    pull,
    set_source,
)
from earmark.jit import inlined, kernel
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import slot_score

UNSETTLED = -(2**63)
"""Instead of a sequence: an unseen slot may have any."""


@inlined
def is_extended(lo: I64, hi: I64, begin: int, end: int) -> bool:
    """Whether one of the event values begin..end is an interval."""
    extended = False
    for position in range(begin, end):
        extended |= at(lo, position) != at(hi, position)
    return extended


@inlined
def heaviest_weight(weight: F64, begin: int, end: int) -> tuple[bool, float]:
    """Whether an event has weights other than 1, and the greatest of them, at least 1."""
    weighted, most = False, 1.0
    if len(weight):
        for position in range(begin, end):
            weighted |= at(weight, position) != 1.0
            most = max(most, at(weight, position))
    return weighted, most


@inlined
def weight_of(weight: F64, source: I64, s: int) -> float:
    """The event's weight of the value that a source is for; 1 in a batch without weights."""
    return float(at(weight, at(source, s + POSITION))) if len(weight) else 1.0


@inlined
def list_for(list_of: I32, attr: int, kind: int) -> int:
    """The list of an attribute for a kind of search, or EMPTY."""
    place = attr * KINDS + kind
    return int(at(list_of, place)) if place < len(list_of) else int(EMPTY)


@inlined
def head_score(scratch: Scratch, i: int) -> float:
    """Score of the entry at the head of the i-th open source."""
    return float(at(scratch.heap_score, at(scratch.source, at(scratch.active, i) + BASE)))


@inlined
def head_slot(scratch: Scratch, i: int) -> int:
    """Slot of the entry at the head of the i-th open source."""
    return int(at(scratch.heap_slot, at(scratch.source, at(scratch.active, i) + BASE)))


# --- what was found so far -------------------------------------------------------------------------------------


@inlined
def keep(heaps: Heaps, lane: int, k: int, in_order: bool, sequence: I64, score: float, slot: int) -> bool:
    """Keep an answer if it is among the k best. While answers come in order they are a list, then a heap.

    Returns whether they still are a list; the heap's sequences are filled in when it begins.
    """
    base, size = lane * k, at(heaps.size, lane)
    if in_order:
        late = size == 0
        if not late:
            last = at(heaps.score, base + size - 1)
            late = score < last or (
                score == last and at(sequence, slot) > at(sequence, at(heaps.slot, base + size - 1))
            )
        if late:
            if size < k:
                heaps.score[base + size], heaps.slot[base + size] = score, slot
                heaps.size[lane] = size + 1
            return True
        for i in range(size >> 1):  # the worst first is a heap
            j = size - 1 - i
            heaps.score[base + i], heaps.score[base + j] = heaps.score[base + j], heaps.score[base + i]
            heaps.slot[base + i], heaps.slot[base + j] = heaps.slot[base + j], heaps.slot[base + i]
        for i in range(size):
            heaps.sequence[base + i] = at(sequence, at(heaps.slot, base + i))
    push(heaps, lane, k, score, at(sequence, slot), slot)
    return False


@inlined
def settled(heaps: Heaps, lane: int, k: int, in_order: bool, sequence: I64, bound: float, first: int) -> bool:
    """Whether k are kept and none can be displaced by a score up to `bound`, at `bound` from sequence `first` on."""
    if at(heaps.size, lane) < k:
        return False
    worst = lane * k + (k - 1 if in_order else 0)
    if at(heaps.score, worst) != bound:
        return bool(at(heaps.score, worst) > bound)
    return bool(at(sequence, at(heaps.slot, worst)) <= first)


# --- ranked search ---------------------------------------------------------------------------------------------


@kernel
def rank_events(
    trees: Trees,
    listing: Listing,
    table: SegmentArrays,
    events: EventArrays,
    eligible: U64,
    k: int,
    relaxed: bool,
    first: int,
    last: int,
    scratch: Scratch,
    heaps: Heaps,
    work: I64,
) -> None:
    """Leave in heap e - first the k best eligible slots of event e, best first."""
    for e in range(first, last):
        heaps.size[e - first] = 0
        scratch.stamp[len(scratch.stamp) - 1] += 1
        if not rank_event(trees, listing, table, events, eligible, e, k, relaxed, scratch, heaps, e - first, work):
            sort_heap(heaps, (e - first) * k, heaps.size[e - first])


@inlined
def rank_event(
    trees: Trees,
    listing: Listing,
    table: SegmentArrays,
    events: EventArrays,
    eligible: U64,
    e: int,
    k: int,
    relaxed: bool,
    scratch: Scratch,
    heaps: Heaps,
    lane: int,
    work: I64,
) -> bool:
    """The search for one event. Returns whether the answers are a list already (see `keep`).

    One loop opens the sources, and then goes from candidate to candidate: there is one place where a source is
    pulled and one where a slot is scored, because both are merged into this function wherever they stand.
    """
    info, source, sequence = trees.info, scratch.source, table.sequence
    position, end = at(events.start, e), at(events.start, e + 1)
    extended = is_extended(events.lo, events.hi, position, end)
    weighted, most = heaviest_weight(events.weight, position, end)
    regime, single = at(info, REGIME), at(info, ONE_CLAUSE) != 0
    merged = (not relaxed or regime == SHARED) and at(info, EXACT) != 0 and not (weighted and regime <= SHARED)
    kind = 1 if not merged and regime != SHARED else 0
    wide = at(info, ORDER) == NEVER or at(info, SHAPE) == ENDPOINTS or extended
    extra = (most - 1.0) * at(listing.bounds, len(listing.bounds) - BOUND + WEIGHTS_MOST)
    plain = merged and not weighted
    counting = merged and len(listing.needed) > 0 and single
    once = merged and len(listing.needed) == 0 and single and not extended
    next_loose = 0 if merged else at(info, LOOSE)
    loose_end = at(info, LOOSE) if merged else int64(len(listing.loose))
    opened, base, runs, pick = 0, int64(0), int64(0), int(EMPTY)
    in_order, previous, given, giver = True, int(EMPTY), 0, int64(EMPTY)
    while True:
        begin = position < end
        s = int64(EMPTY)
        if begin:
            which = list_for(listing.list_of, at(events.attr, position), kind)
            position += 1
            if which == EMPTY:
                continue
            s = int64(opened * SOURCE)
            set_source(info, source, s, which, at(events.lo, position - 1), at(events.hi, position - 1), base, runs)
            source[s + POSITION] = position - 1
        elif pick >= 0:
            s = at(scratch.active, pick)
        if s >= 0:
            pull(trees, scratch, sequence, s, begin, work)
            left = at(source, s + COUNT) > 0
            if begin:
                if left:
                    scratch.active[opened] = s
                    opened += 1
                    row = at(source, s + WHICH) * LIST
                    if wide:
                        base += 2 * at(trees.lists, row + NODES) + at(trees.lists, row + ENTRIES) + 8
                        runs += at(trees.lists, row + NODES) + 1
                    else:
                        base += 2 * at(info, DEPTH) + 8
                        runs += 2 * at(info, DEPTH) + 8
                continue
            if not left:
                opened -= 1
                for i in range(pick, opened):
                    scratch.active[i] = scratch.active[i + 1]
                pick -= 1
        loose_score = at(listing.loose_score, next_loose) if next_loose < loose_end else -np.inf
        loose_slot = int(at(listing.loose, next_loose)) if next_loose < loose_end else int(EMPTY)
        if merged:
            pick, slot = best_head(scratch, sequence, opened, loose_slot, loose_score)
        else:
            lists_done, loose_done = opened == 0, loose_slot < 0
            if at(heaps.size, lane) == k:
                if not lists_done:
                    bound, since = unseen_bound(
                        info, listing.bounds, sequence, events.weight, scratch.source, scratch.active,
                        scratch.heap_score, scratch.heap_slot, scratch.bound, opened,
                        at(heaps.score, lane * k + (k - 1 if in_order else 0)),
                    )  # fmt: skip
                    lists_done = settled(heaps, lane, k, in_order, sequence, bound, since)
                if not loose_done:
                    bound, since = loose_score, int(at(sequence, loose_slot))
                    if weighted:
                        bound, since = raised(bound, extra), int(UNSETTLED)
                    loose_done = settled(heaps, lane, k, in_order, sequence, bound, since)
            pick, slot = in_turn(scratch, opened, pick, loose_slot, lists_done, loose_done)
        if slot < 0:
            return in_order
        score = head_score(scratch, pick) if pick >= 0 else loose_score
        which = int(at(source, at(scratch.active, pick) + WHICH)) if pick >= 0 else int(EMPTY)
        next_loose += pick < 0
        work[CANDIDATES] += 1
        if counting and pick >= 0:  # the intersection: the last of its lists makes it a candidate
            if slot != previous:
                previous, given, giver = slot, 0, int64(EMPTY)
            if which != giver:
                giver = int64(which)
                given += 1
            known = given != at(listing.needed, slot)
            given += not known
        elif once:
            known = False
        else:
            known = at(scratch.stamp, slot) == at(scratch.stamp, len(scratch.stamp) - 1)
            scratch.stamp[slot] = at(scratch.stamp, len(scratch.stamp) - 1)
        if not known and is_set(eligible, slot):
            qualifies, value = True, score
            if not plain or pick < 0 or at(trees.lists, which * LIST + SOLE) == 0:
                qualifies, value = slot_score(table, slot, events, e, relaxed)
                work[SCORED] += 1
            if qualifies:
                work[MATCHED] += 1
                in_order = keep(heaps, lane, k, in_order, sequence, value, slot)
        if merged and at(heaps.size, lane) == k:
            bound, since = score, int(at(sequence, slot))
            if weighted:
                bound, since = raised(bound, extra), int(UNSETTLED)
            if settled(heaps, lane, k, in_order, sequence, bound, since):
                return in_order


@inlined
def best_head(scratch: Scratch, sequence: I64, opened: int, loose_slot: int, loose_score: float) -> tuple[int, int]:
    """Of all open sources and the loose slots the one to go on with, and its slot; EMPTY: loose, no slot: the end."""
    pick, score, slot = int(EMPTY), loose_score, loose_slot
    for i in range(opened):
        head, of = head_score(scratch, i), head_slot(scratch, i)
        if slot < 0 or head > score or (head == score and at(sequence, of) < at(sequence, slot)):
            pick, score, slot = i, head, of
    return pick, slot


@inlined
def in_turn(
    scratch: Scratch, opened: int, pick: int, loose_slot: int, lists_done: bool, loose_done: bool
) -> tuple[int, int]:
    """Round robin over the open sources and the loose slots, without those that cannot matter any more."""
    if lists_done and loose_done:
        return int(EMPTY), int(EMPTY)
    pick += 1
    if lists_done or (pick >= opened and not loose_done):
        return int(EMPTY), loose_slot
    if pick >= opened:
        pick = 0
    return pick, head_slot(scratch, pick)


@inlined
def unseen_bound(
    info: I64,
    bounds: F64,
    sequence: I64,
    weight: F64,
    source: I64,
    active: I64,
    heap_score: F64,
    heap_slot: I32,
    terms: F64,
    opened: int,
    worst: float,
) -> tuple[float, int]:
    """The threshold T, and the sequence from which on an unseen slot may reach it (or UNSETTLED).

    The sequence is asked for only when T is `worst`, the k-th score.
    """
    whole = len(bounds) - BOUND
    few = at(info, MOST_CONSTRAINTS)
    latest = int64(UNSETTLED)
    if at(info, REGIME) == BY_WEIGHT:
        if opened > few:
            return bound_of_few(bounds, weight, source, active, heap_score, terms, opened, few), int(UNSETTLED)
        total = bound_by_weight(bounds, weight, source, active, heap_score, opened, int(EMPTY))
        if total != worst:
            return total, int(UNSETTLED)
        for lowered in range(opened):
            s = at(active, lowered)
            latest = max(latest, at(sequence, at(heap_slot, at(source, s + BASE))))
            if bound_by_weight(bounds, weight, source, active, heap_score, opened, lowered) == total:
                return total, int(UNSETTLED)
        return total, int(latest)
    s = at(active, 0)
    top = at(source, s + BASE)
    if opened == 1 and weight_of(weight, source, s) == 1.0:
        return float(at(heap_score, top)), int(at(sequence, at(heap_slot, top)))
    most, least = at(bounds, whole + STATIC_MOST), at(bounds, whole + STATIC_LEAST)
    return bound_by_sum(bounds, weight, source, active, heap_score, terms, opened, few, most, least), int(UNSETTLED)


@inlined
def bound_by_weight(
    bounds: F64, weight: F64, source: I64, active: I64, heap_score: F64, opened: int, lowered: int
) -> float:
    """T where every static score is the same: added in the order of `clause_score`, hence never below a score.

    With `lowered`, what T would be if that head were the next lower score of its list, or not there.
    """
    total = at(bounds, len(bounds) - BOUND + STATIC_MOST)
    for i in range(opened):
        s = at(active, i)
        head = at(heap_score, at(source, s + BASE))
        if i == lowered:
            row = at(source, s + WHICH) * BOUND
            lower = max(head - 0.5 * at(bounds, row + STEP), 0.0)
            head = lower if head > at(bounds, row + LEAST) else 0.0
        total += head * weight_of(weight, source, s)
    return float(total)


@inlined
def bound_of_few(
    bounds: F64, weight: F64, source: I64, active: I64, heap_score: F64, terms: F64, opened: int, few: int
) -> float:
    """T where a clause has fewer constraints than lists are open: only the greatest terms, so many, can meet."""
    for i in range(opened):
        s = at(active, i)
        term = at(heap_score, at(source, s + BASE)) * weight_of(weight, source, s)
        j = i
        while j and at(terms, j - 1) < term:
            terms[j] = terms[j - 1]
            j -= 1
        terms[j] = term
    added = 0.0
    for i in range(min(few, opened)):
        added += at(terms, i)
    return raised(at(bounds, len(bounds) - BOUND + STATIC_MOST), added)


@inlined
def bound_by_sum(
    bounds: F64,
    weight: F64,
    source: I64,
    active: I64,
    heap_score: F64,
    terms: F64,
    opened: int,
    few: int,
    most: float,
    least: float,
) -> float:
    """T where lists are by static score + weight: one list's head, and from the others what can be weight."""
    total, greatest = 0.0, 0.0
    for i in range(opened):
        s = at(active, i)
        left = max(at(heap_score, at(source, s + BASE)) - least, 0.0)
        terms[i] = min(left, at(bounds, at(source, s + WHICH) * BOUND + HEAVIEST)) * weight_of(weight, source, s)
        total += terms[i]
        greatest = max(greatest, terms[i])
    best = -np.inf
    for i in range(opened):
        s = at(active, i)
        head, scale = at(heap_score, at(source, s + BASE)), weight_of(weight, source, s)
        if scale <= 1.0:
            whole = scale * head + (1.0 - scale) * min(most, head)
        else:
            whole = head + at(terms, i) * (scale - 1.0) / scale
        best = max(best, whole + max(min(total - at(terms, i), greatest * (few - 1)), 0.0))
    return best + (abs(best) + abs(most) + abs(least) + total) * SLACK
