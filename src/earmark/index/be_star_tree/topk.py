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

Another score: `ranked(step)` makes the kernel for scores of the form step(... step(step(static, w1, e1), w2, e2) ...)
over the constraints of the matching clause that the event has, in ascending order of attributes. `step` must not
decrease in any argument, and step(t, w, e) >= t; the same function applied to a node's maxima then bounds the node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat.machine import at
from earmark.flat.types import I64
from earmark.index.be_star_tree.arrays import (
    BINS,
    COUNT,
    FIRST,
    LEFT,
    LINK,
    NEVER,
    NONE,
    PART,
    PDIR,
    PROOT,
    ROOT,
    TOP,
    WIDTH,
    TreeArrays,
)
from earmark.index.be_star_tree.nodes import whole
from earmark.index.be_star_tree.search import (
    TreeScratch,
    clear_event,
    entry_holds,
    meets_own,
    push_children,
    push_pnodes,
    spread_event,
)
from earmark.index.counters import COMPARED, LEAVES, MATCHED, NODES, PRUNED, PRUNED_LEAVES, SCORED
from earmark.index.kernels import Asked, Searched
from earmark.index.marks import clear_marks, first_time, is_set
from earmark.index.ranking import Heaps, push, raised, sort_heap
from earmark.jit import JIT, embedded, inlined, kernel
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import ABSENT, constraint_holds, find_attribute, slot_score, static_score


class Sought(NamedTuple):
    """What a search asks again and again of one event: its number, its signature, its greatest weight."""

    e: int
    sign: np.uint64
    heaviest: float


@embedded
def push_queue(scratch: TreeScratch, bound: float, bucket: int) -> None:
    """Add a p-node to the max-heap. O(log size)."""
    scratch.bucket[0] += 1
    i = whole(scratch.bucket[0])
    while i > 1 and at(scratch.bound, i >> 1) < bound:
        scratch.bound[i], scratch.bucket[i] = scratch.bound[i >> 1], scratch.bucket[i >> 1]
        i >>= 1
    scratch.bound[i], scratch.bucket[i] = bound, bucket


@embedded
def pop_queue(scratch: TreeScratch) -> None:
    """Take the best p-node out. O(log size)."""
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
    begin, end = at(events.start, e), at(events.start, e + 1)
    if not len(events.weight):
        return 1.0 if begin < end else 0.0
    heaviest = 0.0
    for i in range(begin, end):
        heaviest = max(heaviest, at(events.weight, i))
    return heaviest


@embedded
def sum_bound(searched: Searched[TreeArrays], events: EventArrays, sought: Sought, b: int, part: int) -> float:
    """No clause of a bucket (part 0) or of its l-node (part 1) scores higher."""
    tree, table, e, heaviest = searched.arrays, searched.table, sought.e, sought.heaviest
    static, most = float(at(tree.top, b * TOP + 2 * part)), float(at(tree.top, b * TOP + 2 * part + 1))
    most = most * heaviest if heaviest > 0.0 else 0.0
    if len(tree.peak):
        base = (2 * b + part) * BINS
        total = 0.0
        for i in range(at(events.start, e), at(events.start, e + 1)):
            weight = at(events.weight, i) if len(events.weight) else 1.0
            if weight > 0.0:
                total += weight * at(tree.peak, base + (at(events.attr, i) & (BINS - 1)))
        most = min(most, total)
    if len(table.weight) or len(table.score) or heaviest != 1.0:
        return raised(static, most)
    return static + most


@embedded
def sum_entry_bound(searched: Searched[TreeArrays], sought: Sought, entry: int, slot: int) -> float:
    """The clause of an entry scores no higher."""
    table, heaviest = searched.table, sought.heaviest
    static, most = static_score(table, slot), float(at(searched.arrays.most, entry))
    most = most * heaviest if heaviest > 0.0 else 0.0
    if len(table.weight) or len(table.score) or heaviest != 1.0:
        return raised(static, most)
    return static + most


@embedded
def may_enter(heaps: Heaps, lane: int, k: int, bound: float, first: int) -> bool:
    """Whether something with this bound on its score, and no sequence below `first`, may be among the k best."""
    worst = at(heaps.score, lane * k)
    if at(heaps.size, lane) < k or bound > worst:
        return True
    return bool(bound == worst and first < at(heaps.sequence, lane * k))


@embedded
def push_all_children(tree: TreeArrays, b: int, scratch: TreeScratch, height: int) -> int:
    """Put both children of a bucket on the stack; its new height."""
    for side in range(2):
        child = at(tree.link, b * LINK + LEFT + side)
        if child != int(NONE):
            scratch.stack[height] = child
            height += 1
    return height


@embedded
def push_all_pnodes(tree: TreeArrays, b: int, scratch: TreeScratch, height: int) -> int:
    """Put the root buckets of all p-nodes of a bucket on the stack; its new height."""
    begin = at(tree.link, b * LINK + PDIR)
    for d in range(begin, begin + at(tree.link, b * LINK + WIDTH)):
        scratch.stack[height] = at(tree.pnode, at(tree.pdir_node, d) * PART + PROOT)
        height += 1
    return height


def _uncached(function: Any) -> Any:
    """The same compiled function, kept out of the cache on disk, which cannot tell closures apart."""
    if JIT:
        function._cache.disable()
    return function


@embedded
def next_pnode(
    searched: Searched[TreeArrays], asked: Asked, sought: Sought, scratch: TreeScratch, heaps: Heaps, work: I64
) -> int:
    """Take the best p-node that may enter out of the max-heap; its root bucket, or NONE at the end."""
    lane = sought.e - asked.first
    while scratch.bucket[0]:
        bound, b = scratch.bound[1], whole(scratch.bucket[1])
        if at(heaps.size, lane) == asked.k and bound < at(heaps.score, lane * asked.k):
            work[int(PRUNED)] += scratch.bucket[0]
            scratch.bucket[0] = 0
            break
        pop_queue(scratch)
        if may_enter(heaps, lane, asked.k, bound, at(searched.arrays.first, 2 * b)):
            return b
        work[int(PRUNED)] += 1
    return int(NONE)


class Scoring(NamedTuple):
    """A score, as kernels ask for it, and how what is made from these functions is compiled (`embedded`, or uncached).

    bound_of(searched, events, sought, b, part)        no clause of a bucket, or of its l-node, scores higher
    entry_bound_of(searched, sought, entry, slot)      the clause of an entry scores no higher
    score_of(table, slot, events, e, relaxed)          whether a slot qualifies, and its score
    """

    bound_of: Any
    entry_bound_of: Any
    score_of: Any
    is_cached: bool

    def embedded(self, function: Any) -> Any:
        """Compile a part of the kernel."""
        return embedded(function) if self.is_cached else _uncached(embedded(function))


def _lnode_scan(scoring: Scoring) -> Any:
    """The search of an l-node under a score."""
    entry_bound_of, score_of = scoring.entry_bound_of, scoring.score_of

    @scoring.embedded
    def scan_lnode(
        searched: Searched[TreeArrays],
        asked: Asked,
        sought: Sought,
        b: int,
        scratch: TreeScratch,
        heaps: Heaps,
        work: I64,
    ) -> None:
        """Score the clauses of an l-node that may enter and that hold."""
        tree, table, relaxed, lane = searched.arrays, searched.table, asked.relaxed, sought.e - asked.first
        first = at(tree.link, b * LINK + FIRST)
        for entry in range(first, first + at(tree.link, b * LINK + COUNT)):
            own = at(tree.sign, entry)
            if relaxed:
                if own and not (own & sought.sign) and at(tree.record, entry) != int(NONE):
                    continue
            elif own & ~sought.sign:
                continue
            slot = at(tree.slot, at(tree.clause, entry))
            if not is_set(asked.eligible, slot):
                continue
            bound = entry_bound_of(searched, sought, entry, slot)
            if not may_enter(heaps, lane, asked.k, bound, at(table.sequence, slot)):
                work[int(PRUNED)] += 1
                continue
            if not relaxed and not entry_holds(searched, asked.events, sought.e, entry, scratch, work):
                continue
            if first_time(table, slot, scratch.marks, scratch.summary):
                work[int(SCORED)] += 1
                if relaxed:
                    clause = at(tree.clause, entry)
                    work[int(COMPARED)] += at(table.constraint_start, clause + 1) - at(table.constraint_start, clause)
                qualifies, score = score_of(table, slot, asked.events, sought.e, relaxed)
                if qualifies:
                    work[int(MATCHED)] += 1
                    push(heaps, lane, asked.k, score, at(table.sequence, slot), slot)

    return scan_lnode


def _children_visit(scoring: Scoring) -> Any:
    """The step from a bucket to its children."""
    bound_of = scoring.bound_of

    @scoring.embedded
    def visit_children(
        searched: Searched[TreeArrays],
        asked: Asked,
        sought: Sought,
        b: int,
        scratch: TreeScratch,
        height: int,
        heaps: Heaps,
        work: I64,
    ) -> int:
        """Put the children of a bucket that the event meets, and that may enter, on the stack; its new height."""
        tree = searched.arrays
        if asked.relaxed:
            end = push_all_children(tree, b, scratch, height)
        else:
            end = push_children(tree, b, scratch, height)
        for i in range(height, end):
            child = whole(at(scratch.stack, i))
            bound = bound_of(searched, asked.events, sought, child, 0)
            if may_enter(heaps, sought.e - asked.first, asked.k, bound, at(tree.first, 2 * child)):
                scratch.stack[height] = child
                height += 1
            else:
                work[int(PRUNED)] += 1
        return height

    return visit_children


def _pnode_queue(scoring: Scoring) -> Any:
    """The step from a bucket to its p-nodes."""
    bound_of = scoring.bound_of

    @scoring.embedded
    def queue_pnodes(
        searched: Searched[TreeArrays],
        asked: Asked,
        sought: Sought,
        b: int,
        scratch: TreeScratch,
        height: int,
        heaps: Heaps,
        work: I64,
    ) -> None:
        """Put the p-nodes of a bucket that the event meets, and that may enter, into the max-heap."""
        tree = searched.arrays
        if asked.relaxed:
            end = push_all_pnodes(tree, b, scratch, height)
        else:
            end = push_pnodes(tree, asked.events, sought.e, b, scratch, height)
        for i in range(height, end):
            root = whole(at(scratch.stack, i))
            bound = bound_of(searched, asked.events, sought, root, 0)
            if may_enter(heaps, sought.e - asked.first, asked.k, bound, at(tree.first, 2 * root)):
                push_queue(scratch, bound, root)
            else:
                work[int(PRUNED)] += 1

    return queue_pnodes


def _event_search(scoring: Scoring) -> Any:
    """The search for one event under a score."""
    bound_of, scan_lnode = scoring.bound_of, _lnode_scan(scoring)
    visit_children, queue_pnodes = _children_visit(scoring), _pnode_queue(scoring)

    @scoring.embedded
    def rank_event(
        searched: Searched[TreeArrays], asked: Asked, sought: Sought, scratch: TreeScratch, heaps: Heaps, work: I64
    ) -> None:
        """The search for one event, whose values are spread."""
        tree, lane = searched.arrays, sought.e - asked.first
        scratch.stack[0], height = int(ROOT), 1
        if asked.relaxed:
            scratch.stack[1], height = int(NEVER), 2
        while True:
            if height:
                height -= 1
                b = whole(at(scratch.stack, height))
            else:
                b = next_pnode(searched, asked, sought, scratch, heaps, work)
                if b == int(NONE):
                    break
            work[int(NODES)] += 1
            height = visit_children(searched, asked, sought, b, scratch, height, heaps, work)
            if not asked.relaxed and not meets_own(tree, b, scratch):
                continue
            if at(tree.link, b * LINK + COUNT):
                bound = bound_of(searched, asked.events, sought, b, 1)
                if may_enter(heaps, lane, asked.k, bound, at(tree.first, 2 * b + 1)):
                    work[int(LEAVES)] += 1
                    scan_lnode(searched, asked, sought, b, scratch, heaps, work)
                else:
                    work[int(PRUNED)] += 1
                    work[int(PRUNED_LEAVES)] += 1
            queue_pnodes(searched, asked, sought, b, scratch, height, heaps, work)

    return rank_event


def _ranked(scoring: Scoring) -> Any:
    """The search for the k best under a score."""
    rank_event = _event_search(scoring)

    @kernel
    def rank_events(
        searched: Searched[TreeArrays], asked: Asked, scratch: TreeScratch, heaps: Heaps, work: I64
    ) -> None:
        """Leave the k best of each event in its heap, best first (`kernels.py`)."""
        for e in range(asked.first, asked.last):
            sign = spread_event(asked.events, e, scratch)
            sought = Sought(e, sign, heaviest_weight(asked.events, e))
            rank_event(searched, asked, sought, scratch, heaps, work)
            clear_event(asked.events, e, scratch)
            clear_marks(scratch.marks, scratch.summary)
            lane = e - asked.first
            sort_heap(heaps, lane * asked.k, heaps.size[lane])

    return rank_events if scoring.is_cached else _uncached(rank_events)


rank_events = _ranked(Scoring(sum_bound, sum_entry_bound, slot_score, is_cached=True))
"""The search under the weighted sum."""


def ranked(step: Callable[[float, float, float], float]) -> Any:
    """The search under another monotone score, folded by `step` (see the module's docstring). Compiled, not cached."""
    fold = _uncached(inlined(getattr(step, "py_func", step)))

    @embedded
    def bound_of(searched: Searched[TreeArrays], events: EventArrays, sought: Sought, b: int, part: int) -> float:
        tree = searched.arrays
        total = float(at(tree.top, b * TOP + 2 * part))
        base = (2 * b + part) * BINS
        for i in range(at(events.start, sought.e), at(events.start, sought.e + 1)):
            peak = 1.0
            if len(tree.peak):
                peak = float(at(tree.peak, base + (at(events.attr, i) & (BINS - 1))))
            total = fold(total, peak, at(events.weight, i) if len(events.weight) else 1.0)
        return raised(total, 0.0)

    @embedded
    def entry_bound_of(searched: Searched[TreeArrays], sought: Sought, entry: int, slot: int) -> float:
        return np.inf

    @embedded
    def clause_score_of(
        table: SegmentArrays, clause: int, events: EventArrays, e: int, relaxed: bool, static: float
    ) -> tuple[bool, float]:
        total = static
        begin, end = at(table.constraint_start, clause), at(table.constraint_start, clause + 1)
        qualifies = begin == end or not relaxed
        for c in range(begin, end):
            position = find_attribute(events, e, at(table.attr, c))
            if not constraint_holds(table, c, events, position):
                if not relaxed:
                    return False, 0.0
                continue
            qualifies = True
            if position != ABSENT:
                weight = at(table.weight, c) if len(table.weight) else 1.0
                total = fold(total, weight, at(events.weight, position) if len(events.weight) else 1.0)
        return qualifies, total

    _uncached(clause_score_of)

    @embedded
    def score_of(table: SegmentArrays, slot: int, events: EventArrays, e: int, relaxed: bool) -> tuple[bool, float]:
        found, best = False, 0.0
        for clause in range(at(table.clause_start, slot), at(table.clause_start, slot + 1)):
            qualifies, score = clause_score_of(table, clause, events, e, relaxed, static_score(table, slot))
            if qualifies and (not found or score > best):
                found, best = True, score
        return found, best

    parts = (_uncached(bound_of), _uncached(entry_bound_of), _uncached(score_of))
    return _ranked(Scoring(*parts, is_cached=False))
