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
from earmark.flat.machine import at, ctz64
from earmark.flat.types import F64, I32, I64, U64
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
    Tree,
)
from earmark.index.be_star_tree.nodes import whole
from earmark.index.be_star_tree.search import (
    Room,
    clear_event,
    entry_holds,
    meets_own,
    push_children,
    push_pnodes,
    spread_event,
)
from earmark.index.counters import COMPARED, LEAVES, MATCHED, NODES, PRUNED, PRUNED_LEAVES, SCORED
from earmark.index.marks import is_set
from earmark.index.ranking import Heaps, push, raised, sort_heap
from earmark.jit import JIT, embedded, inlined, kernel
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import ABSENT, constraint_holds, find_attribute, slot_score, static_score


class Queue(NamedTuple):
    """The p-node max-heap: bounds, and the root buckets of the p-nodes."""

    bound: F64
    bucket: I32


def new_queue(pnodes: int) -> Queue:
    """Room for so many p-nodes."""
    return Queue(np.empty(pnodes + 3), np.empty(pnodes + 3, np.int32))


@embedded
def push_queue(queue: Queue, size: int, bound: float, bucket: int) -> None:
    """Add a p-node. O(log size)."""
    i = size
    while i and at(queue.bound, (i - 1) >> 1) < bound:
        j = (i - 1) >> 1
        queue.bound[i], queue.bucket[i] = queue.bound[j], queue.bucket[j]
        i = j
    queue.bound[i], queue.bucket[i] = bound, bucket


@embedded
def pop_queue(queue: Queue, size: int) -> None:
    """Take out the best of `size` p-nodes. O(log size)."""
    bound, bucket = queue.bound[size - 1], queue.bucket[size - 1]
    i, last = 0, size - 1
    while True:
        j = 2 * i + 1
        if j >= last:
            break
        if j + 1 < last and at(queue.bound, j + 1) > at(queue.bound, j):
            j += 1
        if at(queue.bound, j) <= bound:
            break
        queue.bound[i], queue.bucket[i] = queue.bound[j], queue.bucket[j]
        i = j
    queue.bound[i], queue.bucket[i] = bound, bucket


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
def sum_bound(
    tree: Tree, table: SegmentArrays, events: EventArrays, e: int, b: int, part: int, heaviest: float
) -> float:
    """No clause of a bucket (part 0) or of its l-node (part 1) scores higher."""
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
def sum_entry_bound(tree: Tree, table: SegmentArrays, entry: int, slot: int, heaviest: float) -> float:
    """The clause of an entry scores no higher."""
    static, most = static_score(table, slot), float(at(tree.most, entry))
    most = most * heaviest if heaviest > 0.0 else 0.0
    if len(table.weight) or len(table.score) or heaviest != 1.0:
        return raised(static, most)
    return static + most


@embedded
def may_enter(heaps: Heaps, k: int, bound: float, first: int) -> bool:
    """Whether something with this bound on its score, and no sequence below `first`, may be among the k best."""
    if heaps.size[0] < k or bound > heaps.score[0]:
        return True
    return bool(bound == heaps.score[0] and first < heaps.sequence[0])


@embedded
def push_everything(tree: Tree, b: int, room: Room, height: int) -> int:
    """Put the root buckets of all p-nodes of a bucket on the stack; its new height."""
    begin = at(tree.link, b * LINK + PDIR)
    for d in range(begin, begin + at(tree.link, b * LINK + WIDTH)):
        room.stack[height] = at(tree.pnode, at(tree.pdir_node, d) * PART + PROOT)
        height += 1
    return height


@embedded
def mark_once(table: SegmentArrays, slot: int, room: Room) -> bool:
    """Whether the slot comes up for the first time in this event; slots of one clause always do."""
    if at(table.clause_start, slot + 1) - at(table.clause_start, slot) == 1:
        return True
    word, bit = slot >> 6, np.uint64(1) << np.uint64(slot & 63)
    if room.marks[word] & bit:
        return False
    room.marks[word] |= bit
    room.summary[word >> 6] |= np.uint64(1) << np.uint64(word & 63)
    return True


@embedded
def clear_marks(room: Room) -> None:
    """Forget which slots came up."""
    for block in range(len(room.summary)):
        words = at(room.summary, block)
        room.summary[block] = 0
        while words:
            room.marks[(block << 6) + ctz64(words)] = 0
            words &= words - np.uint64(1)


def _uncached(function: Any) -> Any:
    """The same compiled function, kept out of the cache on disk, which cannot tell closures apart."""
    if JIT:
        function._cache.disable()
    return function


def _ranked(bound_of: Any, entry_bound_of: Any, score_of: Any, cached: bool) -> Any:
    """The search for the k best under a score, given by its bounds and the score of a slot."""

    @embedded
    def scan_lnode(
        tree: Tree,
        table: SegmentArrays,
        events: EventArrays,
        e: int,
        b: int,
        eligible: U64,
        k: int,
        relaxed: bool,
        sign: np.uint64,
        heaviest: float,
        room: Room,
        heaps: Heaps,
        work: I64,
    ) -> None:
        first = at(tree.link, b * LINK + FIRST)
        for entry in range(first, first + at(tree.link, b * LINK + COUNT)):
            own = at(tree.sign, entry)
            if relaxed:
                if own and not (own & sign) and at(tree.record, entry) != int(NONE):
                    continue
            elif own & ~sign:
                continue
            slot = at(tree.slot, at(tree.clause, entry))
            if not is_set(eligible, slot):
                continue
            bound = entry_bound_of(tree, table, entry, slot, heaviest)
            if not may_enter(heaps, k, bound, at(table.sequence, slot)):
                work[int(PRUNED)] += 1
                continue
            if not relaxed and not entry_holds(tree, table, events, e, entry, room, work):
                continue
            if mark_once(table, slot, room):
                work[int(SCORED)] += 1
                if relaxed:
                    clause = at(tree.clause, entry)
                    work[int(COMPARED)] += at(table.constraint_start, clause + 1) - at(table.constraint_start, clause)
                qualifies, score = score_of(table, slot, events, e, relaxed)
                if qualifies:
                    work[int(MATCHED)] += 1
                    push(heaps, 0, k, score, at(table.sequence, slot), slot)

    if not cached:
        _uncached(scan_lnode)

    @kernel
    def rank_events(
        tree: Tree,
        table: SegmentArrays,
        events: EventArrays,
        eligible: U64,
        e: int,
        last: int,
        k: int,
        relaxed: bool,
        room: Room,
        queue: Queue,
        heaps: Heaps,
        out: I32,
        out_score: F64,
        ends: I64,
        work: I64,
    ) -> tuple[int, int]:
        """The k best of the events e..last, best first, up to ends[e] for e; the event to resume at, and how many."""
        found = 0
        while e < last and found + k <= len(out):
            sign = spread_event(events, e, room)
            heaviest = heaviest_weight(events, e)
            heaps.size[0] = 0
            room.stack[0], height, waiting = int(ROOT), 1, 0
            if relaxed:
                room.stack[1], height = int(NEVER), 2
            while height or waiting:
                if not height:
                    bound, b = queue.bound[0], whole(queue.bucket[0])
                    if heaps.size[0] == k and bound < heaps.score[0]:
                        work[int(PRUNED)] += waiting
                        break
                    pop_queue(queue, waiting)
                    waiting -= 1
                    if not may_enter(heaps, k, bound, at(tree.first, 2 * b)):
                        work[int(PRUNED)] += 1
                        continue
                else:
                    height -= 1
                    b = whole(at(room.stack, height))
                work[int(NODES)] += 1
                begin = height
                if relaxed:
                    for side in range(2):
                        if at(tree.link, b * LINK + LEFT + side) != int(NONE):
                            room.stack[height] = at(tree.link, b * LINK + LEFT + side)
                            height += 1
                else:
                    height = push_children(tree, b, room, height)
                for i in range(begin, height):
                    child = whole(at(room.stack, i))
                    bound = bound_of(tree, table, events, e, child, 0, heaviest)
                    if may_enter(heaps, k, bound, at(tree.first, 2 * child)):
                        room.stack[begin] = child
                        begin += 1
                    else:
                        work[int(PRUNED)] += 1
                height = begin
                if not relaxed and not meets_own(tree, b, room):
                    continue
                if at(tree.link, b * LINK + COUNT):
                    bound = bound_of(tree, table, events, e, b, 1, heaviest)
                    if may_enter(heaps, k, bound, at(tree.first, 2 * b + 1)):
                        work[int(LEAVES)] += 1
                        scan_lnode(tree, table, events, e, b, eligible, k, relaxed, sign, heaviest, room, heaps, work)
                    else:
                        work[int(PRUNED)] += 1
                        work[int(PRUNED_LEAVES)] += 1
                end = (
                    push_everything(tree, b, room, height) if relaxed else push_pnodes(tree, events, e, b, room, height)
                )
                for i in range(height, end):
                    root = whole(at(room.stack, i))
                    bound = bound_of(tree, table, events, e, root, 0, heaviest)
                    if may_enter(heaps, k, bound, at(tree.first, 2 * root)):
                        push_queue(queue, waiting, bound, root)
                        waiting += 1
                    else:
                        work[int(PRUNED)] += 1
            clear_event(events, e, room)
            clear_marks(room)
            sort_heap(heaps, 0, heaps.size[0])
            for i in range(heaps.size[0]):
                out[found], out_score[found] = heaps.slot[i], heaps.score[i]
                found += 1
            ends[e] = found
            e += 1
        return e, found

    return rank_events if cached else _uncached(rank_events)


rank_events = _ranked(sum_bound, sum_entry_bound, slot_score, cached=True)
"""The search under the weighted sum."""


def ranked(step: Callable[[float, float, float], float]) -> Any:
    """The search under another monotone score, folded by `step` (see the module's docstring). Compiled, not cached."""
    fold = _uncached(inlined(getattr(step, "py_func", step)))

    @embedded
    def bound_of(
        tree: Tree, table: SegmentArrays, events: EventArrays, e: int, b: int, part: int, heaviest: float
    ) -> float:
        total = float(at(tree.top, b * TOP + 2 * part))
        base = (2 * b + part) * BINS
        for i in range(at(events.start, e), at(events.start, e + 1)):
            peak = 1.0
            if len(tree.peak):
                peak = float(at(tree.peak, base + (at(events.attr, i) & (BINS - 1))))
            total = fold(total, peak, at(events.weight, i) if len(events.weight) else 1.0)
        return raised(total, 0.0)

    @embedded
    def entry_bound_of(tree: Tree, table: SegmentArrays, entry: int, slot: int, heaviest: float) -> float:
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

    return _ranked(_uncached(bound_of), _uncached(entry_bound_of), _uncached(score_of), cached=False)
