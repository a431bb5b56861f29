"""The best k over several attributes: Fagin's Threshold Algorithm, or a merge of the lists, over any scored index.

An event opens one source (`walk.py`) for each of its attributes that has a list. What the lists are sorted by
decides how they are combined (`lists.py` says which there are):

*Merge.* Exact search without event weights: all lists are in the order of the whole score, so the best head of all is
the next candidate; it is verified, and the search ends after k. Section 1's intersection of the iterators is the same
merge where each list holds every clause: a candidate counts when all its lists have given it.

*Threshold.* Relaxed search, and exact search with event weights: round robin; each new candidate is scored in full by
random access to the table; unseen clauses are at or after the head of each of their lists, so that

    T  =  static score + sum over the open lists of (head's weight x event's weight)

bounds them all, and the search ends when the k-th score is above T. With lists by static score + weight, T is the
greatest over the lists j of head j + what the other heads leave for a weight.

          a          b                     event weights 1, k = 1
      s1 .9      s3 .8      T = 1.7
      s2 .6      s1 .3      s1 scored 1.2, s3 scored .8      T = .6 + .3 = .9 < 1.2: done

*Ties.* The k-th equal to T is not yet the end, since an unseen clause of the same score may have an earlier sequence.
In a list equal scores go by sequence. So when reaching T takes a head's score in every open list (no lower score
there would be lost in rounding: `STEP`), whoever reaches it has no earlier sequence than any head.

*Pruned* is what waits in the sources when the search ends: subtrees, runs, blocks and entries, each of them once.

*Loose* clauses (`lists.py`) are a further list by whole score.

*Other scores* than the sum (`segment/combine.py`): relaxed search is by the threshold, with what the heads combine to
in T. Loose clauses are all looked at.

Invariant: T and a merge's heads are never below the score of an unseen slot, in float64 as `clause_score` adds it.
Complexity: merge O((k + rejected) getnext); threshold instance optimal (Fagin, Lotem, Naor), at worst every interval
that the event meets.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

import earmark.index.ranked.arrays as sc
import earmark.index.ranked.walk as walk
from earmark.flat.arrays import F64, I64
from earmark.flat.machine import at
from earmark.index.counters import CANDIDATES, MATCHED, PRUNED, PRUNED_LEAVES, SCORED
from earmark.index.kernels import Asked, Searched, TopK, lives_at
from earmark.index.marks import is_set
from earmark.index.ranked.arrays import Listing, ScoredParts, Trees, int64
from earmark.index.ranked.walk import WalkScratch
from earmark.index.ranking import SLACK, Heaps, push, raised, sort_heap
from earmark.jit import embedded, inlined
from earmark.segment.arrays import SegmentArrays
from earmark.segment.combine import GREATEST, Compiled, Scoring
from earmark.segment.evaluate import slot_score

UNSETTLED = -(2**63)
"""Instead of a sequence: an unseen slot may have any."""


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
    return float(at(weight, at(source, s + walk.POSITION))) if len(weight) else 1.0


@inlined
def head_score(scratch: WalkScratch, i: int) -> float:
    """Score of the entry at the head of the i-th open source."""
    return float(at(scratch.heap_score, at(scratch.source, at(scratch.active, i) + walk.BASE)))


@inlined
def head_slot(scratch: WalkScratch, i: int) -> int:
    """Slot of the entry at the head of the i-th open source."""
    return int(at(scratch.heap_slot, at(scratch.source, at(scratch.active, i) + walk.BASE)))


# --- what was found so far -------------------------------------------------------------------------------------


@inlined
def keep(heaps: Heaps, lane: int, k: int, in_order: bool, sequence: I64, score: float, slot: int) -> bool:
    """Keep an answer if it is among the k best. Answers are a list as long as they come in order, then a heap.

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
def worst_score(heaps: Heaps, lane: int, k: int, in_order: bool) -> float:
    """The k-th best score, of a full list or heap."""
    return float(at(heaps.score, lane * k + (k - 1 if in_order else 0)))


@inlined
def settled(heaps: Heaps, lane: int, k: int, in_order: bool, sequence: I64, bound: float, first: int) -> bool:
    """Whether k are kept and none can be displaced by a score up to `bound`, at `bound` from sequence `first` on."""
    if at(heaps.size, lane) < k:
        return False
    worst = worst_score(heaps, lane, k, in_order)
    if worst != bound:
        return bool(worst > bound)
    if in_order:
        return bool(at(sequence, at(heaps.slot, lane * k + k - 1)) <= first)
    return bool(at(heaps.sequence, lane * k) <= first)


# --- ranked search ---------------------------------------------------------------------------------------------


class Way(NamedTuple):
    """How one event is searched."""

    merged: bool
    """By a merge of the exact lists, not by the threshold."""
    kind: int
    """Which lists: exact (0) or relaxed (1)."""
    wide: bool
    """Sources need room for all nodes, not for a path."""
    weighted: bool
    """The event has weights other than 1."""
    extra: float
    """The most that these weights can add to the score of a list."""
    counting: bool
    """A candidate counts when all its lists have given it."""
    once: bool
    """No slot is reached twice."""
    loose: int
    loose_end: int
    """Where the loose slots for this search begin and end."""


@inlined
def way_of(searched: Searched[ScoredParts], asked: Asked, e: int) -> Way:
    """Decide how to search for an event."""
    info, listing, events = searched.arrays.trees.info, searched.arrays.listing, asked.events
    begin, end = at(events.start, e), at(events.start, e + 1)
    extended = walk.is_extended(events.lo, events.hi, begin, end)
    weighted, most = heaviest_weight(events.weight, begin, end)
    regime, single = at(info, sc.REGIME), at(info, sc.ONE_CLAUSE) != 0
    exact = (not asked.relaxed or regime == sc.SHARED) and at(info, sc.EXACT) != 0
    merged = exact and not (weighted and regime <= sc.SHARED)
    return Way(
        merged,
        1 if not merged and regime != sc.SHARED else 0,
        at(info, sc.ORDER) == sc.NEVER or at(info, sc.SHAPE) == sc.ENDPOINTS or extended,
        weighted,
        (most - 1.0) * at(listing.bounds, len(listing.bounds) - sc.BOUND + sc.WEIGHTS_MOST),
        merged and len(listing.needed) > 0 and single,
        merged and len(listing.needed) == 0 and single and not extended,
        int64(0) if merged else at(info, sc.LOOSE),
        at(info, sc.LOOSE) if merged else int64(len(listing.loose)),
    )


@inlined
def is_entry(scratch: WalkScratch, pick: int) -> bool:
    """Whether the head of a source is an entry by itself, not a run with more behind it."""
    if pick < 0:
        return False
    head = at(scratch.heap_ref, at(scratch.source, at(scratch.active, pick) + walk.BASE))
    return bool((head & walk.KIND_MASK) == walk.ENTRY)


@inlined
def put_aside(scratch: WalkScratch, opened: int, others: int, work: I64) -> None:
    """Count what the bound makes unnecessary: all that waits in the open sources, and others that need no look."""
    work[PRUNED] += others
    for i in range(opened):
        s = at(scratch.active, i)
        base, count = at(scratch.source, s + walk.BASE), at(scratch.source, s + walk.COUNT)
        work[PRUNED] += count
        if at(scratch.source, s + walk.BY_BLOCKS):
            for element in range(base, base + count):
                waiting = at(scratch.heap_ref, element)
                leaf = ((waiting >> walk.KIND_BITS) & walk.HEIGHT_MASK) == 0
                work[PRUNED_LEAVES] += leaf and (waiting & walk.KIND_MASK) == walk.BLOCK


@inlined
def next_source(top: TopK, position: int, kind: int, opened: int, base: int, runs: int) -> int:
    """Prepare a source for the event value at `position`; returns its place, or EMPTY when there is no list for it."""
    arrays, source, events = top.searched.arrays, top.scratch.source, top.asked.events
    which = walk.list_for(arrays.listing.list_of, at(events.attr, position), kind)
    if which == sc.EMPTY:
        return sc.EMPTY
    s = opened * walk.SOURCE
    walk.set_source(arrays.trees.info, source, s, which, at(events.lo, position), at(events.hi, position), base, runs)
    source[s + walk.POSITION] = position
    return s


@inlined
def loose_head(listing: Listing, place: int, end: int) -> tuple[int, float]:
    """The loose slot at a place, and its score; EMPTY at the end."""
    if place < end:
        return int(at(listing.loose, place)), float(at(listing.loose_score, place))
    return sc.EMPTY, -np.inf


@inlined
def reach_of(way: Way, score: float, sequence: int) -> tuple[float, int]:
    """The bound on what a list at this score and sequence can still give, and from which sequence on."""
    if way.weighted:
        return raised(score, way.extra), int(UNSETTLED)
    return score, int(sequence)


@inlined
def is_sure(trees: Trees, way: Way, which: int) -> bool:
    """Whether what a list gives needs no verification, and has the score of the list."""
    if not way.merged or way.weighted or which < 0:
        return False
    return bool(at(trees.lists, which * sc.LIST + sc.SOLE) != 0)


@inlined
def best_head(scratch: WalkScratch, sequence: I64, opened: int, loose_slot: int, loose_score: float) -> tuple[int, int]:
    """Choose the next of the open sources and the loose slots (EMPTY), and its slot, which is EMPTY at the end."""
    pick, score, slot = sc.EMPTY, loose_score, loose_slot
    for i in range(opened):
        head, of = head_score(scratch, i), head_slot(scratch, i)
        if slot < 0 or head > score or (head == score and at(sequence, of) < at(sequence, slot)):
            pick, score, slot = i, head, of
    return pick, slot


@inlined
def unseen_bound(top: TopK, opened: int, worst: float) -> tuple[float, int]:
    """The threshold T, and the sequence from which on an unseen slot may reach it (or UNSETTLED).

    The sequence is needed only when T is `worst`, the k-th score.
    """
    searched, weight, scratch = top.searched, top.asked.events.weight, top.scratch
    info, bounds, sequence = searched.arrays.trees.info, searched.arrays.listing.bounds, searched.table.sequence
    few = at(info, sc.MOST_CONSTRAINTS)
    if at(info, sc.REGIME) == sc.BY_WEIGHT:
        if opened > few:
            return bound_of_few(bounds, weight, scratch, opened, few), int(UNSETTLED)
        total = bound_by_weight(bounds, weight, scratch, opened, sc.EMPTY)
        if total != worst:
            return total, int(UNSETTLED)
        latest = int64(UNSETTLED)
        for lowered in range(opened):
            latest = max(latest, at(sequence, head_slot(scratch, lowered)))
            if bound_by_weight(bounds, weight, scratch, opened, lowered) == total:
                return total, int(UNSETTLED)
        return total, int(latest)
    if opened == 1 and weight_of(weight, scratch.source, at(scratch.active, 0)) == 1.0:
        return head_score(scratch, 0), int(at(sequence, head_slot(scratch, 0)))
    return bound_by_sum(bounds, weight, scratch, opened, few), int(UNSETTLED)


@inlined
def bound_by_weight(bounds: F64, weight: F64, scratch: WalkScratch, opened: int, lowered: int) -> float:
    """T where every static score is the same: added in the order of `clause_score`, hence never below a score.

    With `lowered`, what T would be if that head were the next lower score of its list, or not there.
    """
    total = at(bounds, len(bounds) - sc.BOUND + sc.STATIC_MOST)
    for i in range(opened):
        s, head = at(scratch.active, i), head_score(scratch, i)
        if i == lowered:
            row = at(scratch.source, s + walk.WHICH) * sc.BOUND
            lower = max(head - 0.5 * at(bounds, row + sc.STEP), 0.0)
            head = lower if head > at(bounds, row + sc.LEAST) else 0.0
        total += head * weight_of(weight, scratch.source, s)
    return float(total)


@inlined
def bound_of_few(bounds: F64, weight: F64, scratch: WalkScratch, opened: int, few: int) -> float:
    """T where a clause has fewer constraints (`few`) than lists are open: only the greatest terms count."""
    terms = scratch.bound
    for i in range(opened):
        term = head_score(scratch, i) * weight_of(weight, scratch.source, at(scratch.active, i))
        j = i
        while j and at(terms, j - 1) < term:
            terms[j] = terms[j - 1]
            j -= 1
        terms[j] = term
    added = 0.0
    for i in range(min(few, opened)):
        added += at(terms, i)
    return raised(at(bounds, len(bounds) - sc.BOUND + sc.STATIC_MOST), added)


@inlined
def bound_by_sum(bounds: F64, weight: F64, scratch: WalkScratch, opened: int, few: int) -> float:
    """T where lists are by static score + weight: the head of one list, and what can be weight of the others."""
    most = at(bounds, len(bounds) - sc.BOUND + sc.STATIC_MOST)
    least = at(bounds, len(bounds) - sc.BOUND + sc.STATIC_LEAST)
    terms, total, greatest = scratch.bound, 0.0, 0.0
    for i in range(opened):
        s = at(scratch.active, i)
        left = max(head_score(scratch, i) - least, 0.0)
        heaviest = at(bounds, at(scratch.source, s + walk.WHICH) * sc.BOUND + sc.HEAVIEST)
        terms[i] = min(left, heaviest) * weight_of(weight, scratch.source, s)
        total += terms[i]
        greatest = max(greatest, terms[i])
    best = -np.inf
    for i in range(opened):
        head, scale = head_score(scratch, i), weight_of(weight, scratch.source, at(scratch.active, i))
        if scale <= 1.0:
            whole = scale * head + (1.0 - scale) * min(most, head)
        else:
            whole = head + at(terms, i) * (scale - 1.0) / scale
        best = max(best, whole + max(min(total - at(terms, i), greatest * (few - 1)), 0.0))
    return float(best + (abs(best) + abs(most) + abs(least) + total) * SLACK)


# --- one search for every score --------------------------------------------------------------------------------


class Ways(NamedTuple):
    """A score, as the search uses it, and how the kernels made from these functions are compiled.

    score_of(table, asked, slot, e)               whether a slot qualifies, and its score
    unseen_bound_of(top, opened, worst)           the threshold T, and from which sequence on it may be reached
    loose_reach_of(way, loose_score, sequence)    the same for loose slots, from one with this score of its list on
    """

    score_of: Any
    unseen_bound_of: Any
    loose_reach_of: Any
    compiled: Compiled


def _turns(ways: Ways) -> Any:
    """The round robin under a score."""
    unseen_bound_of, loose_reach_of = ways.unseen_bound_of, ways.loose_reach_of

    @ways.compiled(inlined)
    def in_turn(
        top: TopK, lane: int, in_order: bool, way: Way, opened: int, pick: int, loose_slot: int, loose_score: float
    ) -> tuple[int, int]:
        """Choose the next of the open sources and the loose slots in turn, without what can give nothing better."""
        heaps, k, sequence = top.heaps, top.asked.k, top.searched.table.sequence
        lists_done, loose_done = opened == 0, loose_slot < 0
        if at(heaps.size, lane) == k:
            if not lists_done:
                bound, since = unseen_bound_of(top, opened, worst_score(heaps, lane, k, in_order))
                lists_done = settled(heaps, lane, k, in_order, sequence, bound, since)
            if not loose_done:
                bound, since = loose_reach_of(way, loose_score, at(sequence, loose_slot))
                loose_done = settled(heaps, lane, k, in_order, sequence, bound, since)
        if lists_done and loose_done:
            return sc.EMPTY, sc.EMPTY
        pick += 1
        if lists_done or (pick >= opened and not loose_done):
            return sc.EMPTY, loose_slot
        if pick >= opened:
            pick = 0
        return pick, head_slot(top.scratch, pick)

    return in_turn


def _event_search(ways: Ways) -> Any:
    """The search for one event under a score."""
    score_of, in_turn = ways.score_of, _turns(ways)

    @ways.compiled(inlined)
    def rank_event(top: TopK, e: int, way: Way) -> bool:
        """Search for one event. Returns whether the answers are a list already (see `keep`).

        One loop opens the sources, and then goes from candidate to candidate: there is one place where a source is
        pulled and one where a slot is scored, because both are merged into this function wherever they are called.
        """
        searched, asked, scratch, heaps, work = top.searched, top.asked, top.scratch, top.heaps, top.work
        trees, listing, table, events = searched.arrays.trees, searched.arrays.listing, searched.table, asked.events
        position, end = at(events.start, e), at(events.start, e + 1)
        lane, k, next_loose = e - asked.first, asked.k, way.loose
        opened, base, runs = 0, int64(0), int64(0)  # open sources; where heap and runs of the next one begin
        given, times, giver = sc.EMPTY, 0, sc.EMPTY  # the slot that lists gave last, how many did, the last of them
        pick, in_order = sc.EMPTY, bool(at(heaps.size, lane) == 0)
        while True:
            begin, s = position < end, int64(sc.EMPTY)
            if begin:
                s = int64(next_source(top, position, way.kind, opened, base, runs))
                position += 1
                if s == sc.EMPTY:
                    continue
            elif pick >= 0:
                s = at(scratch.active, pick)
            if s >= 0:
                walk.pull(trees, scratch, table.sequence, s, begin, work)
                if begin:
                    if at(scratch.source, s + walk.COUNT) > 0:
                        scratch.active[opened] = s
                        which = int(at(scratch.source, s + walk.WHICH))
                        base, runs = walk.after_source(trees, which, way.wide, base, runs)
                        opened += 1
                    continue
                if at(scratch.source, s + walk.COUNT) == 0:
                    opened -= 1
                    for i in range(pick, opened):
                        scratch.active[i] = scratch.active[i + 1]
                    pick -= 1
            loose_slot, loose_score = loose_head(listing, next_loose, way.loose_end)
            if way.merged:
                pick, slot = best_head(scratch, table.sequence, opened, loose_slot, loose_score)
            else:
                pick, slot = in_turn(top, lane, in_order, way, opened, pick, loose_slot, loose_score)
            if slot < 0:
                put_aside(scratch, opened, way.loose_end - next_loose, work)
                return in_order
            score = head_score(scratch, pick) if pick >= 0 else loose_score
            which = int(at(scratch.source, at(scratch.active, pick) + walk.WHICH)) if pick >= 0 else sc.EMPTY
            next_loose += pick < 0
            work[CANDIDATES] += 1
            if way.counting and pick >= 0:  # an intersection: the last of its lists makes a slot a candidate
                times = 1 if slot != given else times + (which != giver)
                given, giver = slot, which
                known = times != at(listing.needed, slot)
                times += not known
            else:
                known = not way.once and walk.seen_before(scratch, slot)
            if not known and is_set(asked.eligible, slot):
                qualifies, value = True, score
                if not is_sure(trees, way, which):
                    qualifies, value = score_of(table, asked, slot, e)
                    work[SCORED] += 1
                if qualifies and lives_at(table, asked, e, slot):
                    work[MATCHED] += 1
                    in_order = keep(heaps, lane, k, in_order, table.sequence, value, slot)
            if way.merged and at(heaps.size, lane) == k:
                bound, since = reach_of(way, score, at(table.sequence, slot))
                if settled(heaps, lane, k, in_order, table.sequence, bound, since):
                    put_aside(scratch, opened, way.loose_end - next_loose - is_entry(scratch, pick), work)
                    return in_order

    return rank_event


def _ranked(ways: Ways) -> Any:
    """The search for the k best under a score."""
    rank_event = _event_search(ways)

    @ways.compiled(embedded)
    def rank_events(
        searched: Searched[ScoredParts], asked: Asked, scratch: WalkScratch, heaps: Heaps, work: I64
    ) -> None:
        """Leave the k best of each event in its heap, best first (`kernels.py`)."""
        top = TopK(searched, asked, scratch, heaps, work)
        for e in range(asked.first, asked.last):
            walk.next_stamp(scratch)
            if not rank_event(top, e, way_of(searched, asked, e)):
                sort_heap(heaps, (e - asked.first) * asked.k, heaps.size[e - asked.first])

    return rank_events


# --- under the sum ---------------------------------------------------------------------------------------------


@inlined
def sum_score(table: SegmentArrays, asked: Asked, slot: int, e: int) -> tuple[bool, float]:
    """Whether a slot qualifies for event e, and its score."""
    return slot_score(table, slot, asked.events, e, asked.relaxed)


rank_events = _ranked(Ways(sum_score, unseen_bound, reach_of, lambda how: how))
"""The search under the weighted sum."""


# --- under another score ---------------------------------------------------------------------------------------


@inlined
def no_reach(way: Way, score: float, sequence: int) -> tuple[float, int]:
    """No bound at all: loose slots go by their sums, which say nothing about another score."""
    return np.inf, int(UNSETTLED)


@cache
def rank_events_by(scoring: Scoring) -> Any:
    """Relaxed search under another score (`segment/combine.py`), in lists by weight or by static score + weight.

    An unseen clause has terms in some of the open lists, none above the head of its list: `most_of` these heads bounds
    what they combine to.
    """
    slot_score_by, most_of = scoring.slot_score, scoring.most_of

    @scoring.compiled(inlined)
    def combined_score(table: SegmentArrays, asked: Asked, slot: int, e: int) -> tuple[bool, float]:
        return slot_score_by(table, slot, asked.events, e, asked.relaxed, asked.code)  # type: ignore[no-any-return]

    @scoring.compiled(inlined)
    def combined_bound(top: TopK, opened: int, worst: float) -> tuple[float, int]:
        """T: the greatest static score that is left, and the most that the heads combine to."""
        weight, scratch = top.asked.events.weight, top.scratch
        bounds, by_sum = top.searched.arrays.listing.bounds, at(top.searched.arrays.trees.info, sc.REGIME) == sc.BY_SUM
        static = at(bounds, len(bounds) - sc.BOUND + sc.STATIC_MOST)
        least = at(bounds, len(bounds) - sc.BOUND + sc.STATIC_LEAST)
        most, highest = -1.0, -np.inf
        for i in range(opened):
            s, head = at(scratch.active, i), head_score(scratch, i)
            highest = max(highest, head)
            if by_sum:
                heaviest = at(bounds, at(scratch.source, s + walk.WHICH) * sc.BOUND + sc.HEAVIEST)
                head = min(max(head - least, 0.0) + (abs(head) + abs(least)) * SLACK, heaviest)
            most = most_of(most, min(head * weight_of(weight, scratch.source, s), GREATEST), top.asked.code)
        if by_sum:
            static = min(static, highest)
        return float(raised(static, max(most, 0.0))), int(UNSETTLED)

    return _ranked(Ways(combined_score, combined_bound, no_reach, scoring.compiled))
