"""The k best for an event: p-nodes in the order of what they could give, l-nodes and p-nodes left out (section VI).

    k-min-heap          the k best answers so far, the worst on top
    p-node max-heap     p-nodes still to visit, the one with the highest bound on top

A c-node's p-nodes go into the max-heap unless their bound cannot enter the k best; the best p-node is taken out, its
c-directory walked, l-nodes scanned unless their bound cannot enter. The search ends when the max-heap is empty or its
best is below the k-th score. A bound that equals the k-th score may enter only with a smaller sequence inside.

The bound of a node, for the weighted sum, is the smaller of

    greatest static score + greatest sum of weights x heaviest weight of the event
    greatest static score + sum over the event's attributes of (greatest weight of its bin x event weight)   (uscore)

Where we differ: the shared max-heap is popped before the p-node is searched, and lines 2 and 11 of Algorithm 6 prune
only when k answers are held; bounds of buckets prune inside a c-directory as well; and a clause whose own sum of
weights cannot enter is not verified. The first of the two bounds is ours: a clause of 8 attributes never collects the
maxima of an event's 15.

Relaxed search visits everything that bounds do not exclude, since no box can.

Another score than the sum (`segment/combine.py`): `rank_events_by` makes the kernel for it. What the maxima of a node
combine to, at most, bounds the node. A clause is bounded by its sum where that is no less, by "max" and "min".
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

import earmark.index.be_star_tree.arrays as be
import earmark.index.be_star_tree.search as search
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import I64
from earmark.flat.machine import at
from earmark.index.be_star_tree.arrays import TreeArrays
from earmark.index.be_star_tree.nodes import whole
from earmark.index.be_star_tree.search import TreeScratch
from earmark.index.counters import COMPARED, LEAVES, MATCHED, NODES, PRUNED, PRUNED_LEAVES, SCORED
from earmark.index.kernels import Asked, Searched, TopK, push_living
from earmark.index.marks import clear_marks, first_time, is_set
from earmark.index.ranking import Heaps, raised, sort_heap
from earmark.jit import embedded
from earmark.segment.arrays import SegmentArrays
from earmark.segment.combine import GREATEST, MAX, MIN, Compiled, Scoring
from earmark.segment.evaluate import slot_score, static_score


class Sought(NamedTuple):
    """What a search needs again and again of one event: its number, its signature, its greatest weight."""

    e: int
    sign: np.uint64
    heaviest: float


@embedded
def push_queue(scratch: TreeScratch, bound: float, bucket: int) -> None:
    """Add the root bucket of a p-node to the max-heap. O(log size)."""
    scratch.bucket[0] += 1
    i = whole(scratch.bucket[0])
    while i > 1 and at(scratch.bound, i >> 1) < bound:
        scratch.bound[i], scratch.bucket[i] = scratch.bound[i >> 1], scratch.bucket[i >> 1]
        i >>= 1
    scratch.bound[i], scratch.bucket[i] = bound, bucket


@embedded
def pop_queue(scratch: TreeScratch) -> None:
    """Remove the best p-node from the max-heap. O(log size)."""
    last = whole(scratch.bucket[0])
    scratch.bucket[0] -= 1
    bound, bucket = scratch.bound[last], scratch.bucket[last]
    i = 1
    while True:
        j = 2 * i
        if j >= last:
            break
        if j + 1 < last and at(scratch.bound, j + 1) > at(scratch.bound, j):
            j += 1
        if at(scratch.bound, j) <= bound:
            break
        scratch.bound[i], scratch.bucket[i] = scratch.bound[j], scratch.bucket[j]
        i = j
    scratch.bound[i], scratch.bucket[i] = bound, bucket


@embedded
def heaviest_weight(events: EventArrays, e: int) -> float:
    """The greatest weight of an event; 0 when it has no attributes."""
    heaviest = 0.0
    for i in range(at(events.start, e), at(events.start, e + 1)):
        heaviest = max(heaviest, at(events.weight, i) if len(events.weight) else 1.0)
    return heaviest


@embedded
def sum_bound(searched: Searched[TreeArrays], asked: Asked, sought: Sought, b: int, part: int) -> float:
    """No clause of a bucket (part 0) or of its l-node (part 1) scores higher."""
    tree, events, e, heaviest = searched.arrays, asked.events, sought.e, sought.heaviest
    static, most = float(at(tree.top, b * be.TOP + 2 * part)), float(at(tree.top, b * be.TOP + 2 * part + 1))
    most = most * heaviest if heaviest > 0.0 else 0.0
    if len(tree.peak):
        base = (2 * b + part) * be.BINS
        total = 0.0
        for i in range(at(events.start, e), at(events.start, e + 1)):
            weight = at(events.weight, i) if len(events.weight) else 1.0
            if weight > 0.0:
                total += weight * at(tree.peak, base + (at(events.attr, i) & (be.BINS - 1)))
        most = min(most, total)
    return total_bound(searched.table, heaviest, static, most)


@embedded
def sum_entry_bound(searched: Searched[TreeArrays], asked: Asked, sought: Sought, entry: int, slot: int) -> float:
    """The clause of an entry scores no higher."""
    heaviest, most = sought.heaviest, float(at(searched.arrays.most, entry))
    most = most * heaviest if heaviest > 0.0 else 0.0
    return total_bound(searched.table, heaviest, static_score(searched.table, slot), most)


@embedded
def total_bound(table: SegmentArrays, heaviest: float, static: float, most: float) -> float:
    """The sum of both bounds, raised unless all weights are 1 and there are no scores, so that the sum is exact."""
    if len(table.weight) or len(table.score) or heaviest != 1.0:
        return raised(static, most)
    return static + most


@embedded
def may_enter(top: TopK, sought: Sought, bound: float, first: int) -> bool:
    """Whether something with this bound on its score, and no sequence below `first`, may be among the k best."""
    heaps, lane, k = top.heaps, sought.e - top.asked.first, top.asked.k
    worst = at(heaps.score, lane * k)
    if at(heaps.size, lane) < k or bound > worst:
        return True
    return bool(bound == worst and first < at(heaps.sequence, lane * k))


@embedded
def next_pnode(top: TopK, sought: Sought) -> int:
    """Take the best p-node that may enter out of the max-heap; its root bucket, or NONE at the end."""
    scratch, heaps, lane, k = top.scratch, top.heaps, sought.e - top.asked.first, top.asked.k
    while scratch.bucket[0]:
        bound, b = scratch.bound[1], whole(scratch.bucket[1])
        if at(heaps.size, lane) == k and bound < at(heaps.score, lane * k):
            top.work[int(PRUNED)] += scratch.bucket[0]
            scratch.bucket[0] = 0
            break
        pop_queue(scratch)
        if may_enter(top, sought, bound, at(top.searched.arrays.first, 2 * b)):
            return b
        top.work[int(PRUNED)] += 1
    return be.NONE


class Bounds(NamedTuple):
    """A score and its bounds, as kernels use them, and how the kernels made from these functions are compiled.

    bound_of(searched, asked, sought, b, part)              no clause of a bucket, or of its l-node, scores higher
    entry_bound_of(searched, asked, sought, entry, slot)    the clause of an entry scores no higher
    score_of(table, asked, slot, e)                         whether a slot qualifies, and its score
    """

    bound_of: Any
    entry_bound_of: Any
    score_of: Any
    compiled: Compiled


def _lnode_scan(bounds: Bounds) -> Any:
    """The search of an l-node under a score."""
    entry_bound_of, score_of = bounds.entry_bound_of, bounds.score_of

    @bounds.compiled(embedded)
    def scan_lnode(top: TopK, sought: Sought, b: int) -> None:
        """Score the clauses of an l-node that may enter and that hold."""
        searched, asked, scratch, work, relaxed = top.searched, top.asked, top.scratch, top.work, top.asked.relaxed
        tree, table = searched.arrays, searched.table
        first = at(tree.link, b * be.LINK + be.FIRST)
        for entry in range(first, first + at(tree.link, b * be.LINK + be.COUNT)):
            sign = at(tree.sign, entry)
            if relaxed:
                if sign and not (sign & sought.sign) and at(tree.record, entry) != be.NONE:
                    continue
            elif sign & ~sought.sign:
                continue
            slot = at(tree.slot, at(tree.clause, entry))
            if not is_set(asked.eligible, slot):
                continue
            bound = entry_bound_of(searched, asked, sought, entry, slot)
            if not may_enter(top, sought, bound, at(table.sequence, slot)):
                work[int(PRUNED)] += 1
                continue
            if not relaxed and not search.entry_holds(searched, asked.events, sought.e, entry, scratch, work):
                continue
            if first_time(table, slot, scratch.marks, scratch.summary):
                work[int(SCORED)] += 1
                if relaxed:
                    clause = at(tree.clause, entry)
                    work[int(COMPARED)] += at(table.constraint_start, clause + 1) - at(table.constraint_start, clause)
                qualifies, score = score_of(table, asked, slot, sought.e)
                if qualifies:
                    work[int(MATCHED)] += 1
                    push_living(top.heaps, table, asked, sought.e, score, at(table.sequence, slot), slot)

    return scan_lnode


def _event_search(bounds: Bounds) -> Any:
    """The search for one event under a score."""
    bound_of, scan_lnode = bounds.bound_of, _lnode_scan(bounds)

    @bounds.compiled(embedded)
    def admit(top: TopK, sought: Sought, height: int, end: int, queued: bool) -> int:
        """Of the buckets height..end of the stack, keep those that may enter, or move them to the max-heap (`queued`).

        Returns the new height of the stack.
        """
        tree, scratch = top.searched.arrays, top.scratch
        for i in range(height, end):
            b = whole(at(scratch.stack, i))
            bound = bound_of(top.searched, top.asked, sought, b, 0)
            if not may_enter(top, sought, bound, at(tree.first, 2 * b)):
                top.work[int(PRUNED)] += 1
            elif queued:
                push_queue(scratch, bound, b)
            else:
                scratch.stack[height] = b
                height += 1
        return height

    @bounds.compiled(embedded)
    def rank_event(top: TopK, sought: Sought) -> None:
        """Search for one event, whose values are spread."""
        tree, asked, scratch, work = top.searched.arrays, top.asked, top.scratch, top.work
        scratch.stack[0], height = be.ROOT, 1
        if asked.relaxed:
            scratch.stack[1], height = be.NEVER, 2
        while True:
            if height:
                height -= 1
                b = whole(at(scratch.stack, height))
            else:
                b = next_pnode(top, sought)
                if b == be.NONE:
                    break
            work[int(NODES)] += 1
            end = search.push_children(tree, b, scratch, height, asked.relaxed)
            height = admit(top, sought, height, end, False)
            if not asked.relaxed and not search.meets_own(tree, b, scratch):
                continue
            if at(tree.link, b * be.LINK + be.COUNT):
                bound = bound_of(top.searched, asked, sought, b, 1)
                if may_enter(top, sought, bound, at(tree.first, 2 * b + 1)):
                    work[int(LEAVES)] += 1
                    scan_lnode(top, sought, b)
                else:
                    work[int(PRUNED)] += 1
                    work[int(PRUNED_LEAVES)] += 1
            end = search.push_pnodes(tree, asked.events, sought.e, b, scratch, height, asked.relaxed)
            admit(top, sought, height, end, True)

    return rank_event


def _ranked(bounds: Bounds) -> Any:
    """The search for the k best under a score."""
    rank_event = _event_search(bounds)

    @bounds.compiled(embedded)
    def rank_events(
        searched: Searched[TreeArrays], asked: Asked, scratch: TreeScratch, heaps: Heaps, work: I64
    ) -> None:
        """Leave the k best of each event in its heap, best first (`kernels.py`)."""
        top = TopK(searched, asked, scratch, heaps, work)
        for e in range(asked.first, asked.last):
            sign = search.spread_event(asked.events, e, scratch)
            rank_event(top, Sought(e, sign, heaviest_weight(asked.events, e)))
            search.clear_event(asked.events, e, scratch)
            clear_marks(scratch.marks, scratch.summary)
            lane = e - asked.first
            sort_heap(heaps, lane * asked.k, heaps.size[lane])

    return rank_events


@embedded
def sum_score(table: SegmentArrays, asked: Asked, slot: int, e: int) -> tuple[bool, float]:
    """Whether a slot qualifies for event e, and its score."""
    return slot_score(table, slot, asked.events, e, asked.relaxed)


rank_events = _ranked(Bounds(sum_bound, sum_entry_bound, sum_score, lambda how: how))
"""The search under the weighted sum."""


@cache
def rank_events_by(scoring: Scoring) -> Any:
    """The search under another score."""
    slot_score_by, most_of = scoring.slot_score, scoring.most_of

    @scoring.compiled(embedded)
    def bound_of(searched: Searched[TreeArrays], asked: Asked, sought: Sought, b: int, part: int) -> float:
        tree, events = searched.arrays, asked.events
        base, most = (2 * b + part) * be.BINS, -1.0
        for i in range(at(events.start, sought.e), at(events.start, sought.e + 1)):
            peak = float(at(tree.peak, base + (at(events.attr, i) & (be.BINS - 1)))) if len(tree.peak) else 1.0
            term = peak * (at(events.weight, i) if len(events.weight) else 1.0)
            most = most_of(most, min(term, GREATEST), asked.code)
        return raised(float(at(tree.top, b * be.TOP + 2 * part)), max(most, 0.0))

    @scoring.compiled(embedded)
    def entry_bound_of(searched: Searched[TreeArrays], asked: Asked, sought: Sought, entry: int, slot: int) -> float:
        if asked.code == MAX or asked.code == MIN:
            return sum_entry_bound(searched, asked, sought, entry, slot)
        return np.inf

    @scoring.compiled(embedded)
    def score_of(table: SegmentArrays, asked: Asked, slot: int, e: int) -> tuple[bool, float]:
        return slot_score_by(table, slot, asked.events, e, asked.relaxed, asked.code)  # type: ignore[no-any-return]

    return _ranked(Bounds(bound_of, entry_bound_of, score_of, scoring.compiled))
