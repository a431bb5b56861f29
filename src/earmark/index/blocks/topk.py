"""The k best of an event: tiers from the best on, until no later one can have a better answer.

A clause scores its slot's static score and, for each of its constraints whose attribute the event has, weight times
event weight (`segment/evaluate.py`). A tree's bound is that sum for its greatest static score and greatest weight on
each axis, added in the same order: float64 addition and multiplication never fall as an operand rises, so no clause of
the tree scores more, to the last bit. A tree is left out when its bound is below the worst kept score, or equals it and
all of its sequences are later. That is why a table without scores and weights stops after a few tiers, too: all clauses
of a tree score the same, and the earliest win.

In a table without weights the score of an entry is its static score and the event's weights of its axes, added in
ascending order as `clause_score` does; it is not computed from the table again. Otherwise `clause_score` is asked.
A slot of several clauses counts once: for the clause that scores most, the first of these.
"""

from __future__ import annotations

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat.arrays import I64
from earmark.flat.machine import at
from earmark.index.blocks.arrays import ALWAYS, ANY, BLOCKS, LOOSE, BlockArrays
from earmark.index.blocks.axes import EventQuery, ask, forget
from earmark.index.blocks.dominance import LANES
from earmark.index.blocks.search import BlockScratch, search_loose, search_tree
from earmark.index.counters import MATCHED, PRUNED, SCORED
from earmark.index.kernels import Asked, Searched
from earmark.index.marks import is_set
from earmark.index.ranking import Heaps, push, raised, sort_heap
from earmark.jit import embedded, kernel
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import clause_score, static_score

LOOSE_ENTRIES = -1
"""In place of a tree."""


@kernel
def rank_events(searched: Searched[BlockArrays], asked: Asked, scratch: BlockScratch, heaps: Heaps, work: I64) -> None:
    """Leave the k best of each event in its heap, best first (`kernels.py`)."""
    index, events, query, trees, k = searched.arrays, asked.events, scratch.query, scratch.trees, asked.k
    for e in range(asked.first, asked.last):
        lane = e - asked.first
        count, required, signature = ask(index, events, e, query)
        if at(index.info, LOOSE) > 0:
            hit = search_loose(searched, events, e, scratch, required, signature, work)
            offer(searched, asked, e, LOOSE_ENTRIES, scratch, hit, heaps, work)
        chosen, tiers = 0, 0
        for list_number in range(required + 1):
            axis = at(query.required, list_number) if list_number < required else len(index.axis_attr)
            for j in range(at(index.route_start, axis), at(index.route_start, axis + 1)):
                tree = at(index.route, j)
                if at(index.tree_signature, tree) & ~signature == np.uint64(0):
                    trees[chosen] = tree
                    chosen += 1
                    tiers = max(tiers, at(index.tree_tier, tree) + 1)
        for tier in range(tiers):
            for j in range(chosen):
                tree = at(trees, j)
                if at(index.tree_tier, tree) != tier:
                    continue
                floor = at(heaps.score, lane * k) if at(heaps.size, lane) == k else -np.inf
                bound = tree_bound(index, tree, query, asked.heaviest)
                late = at(index.tree_sequence, tree) > at(heaps.sequence, lane * k)
                if floor > -np.inf and (bound < floor or (bound == floor and late)):
                    work[PRUNED] += 1
                    continue
                hit = search_tree(searched, asked, e, tree, scratch, floor, work)
                offer(searched, asked, e, tree, scratch, hit, heaps, work)
        forget(index, query, count)
        sort_heap(heaps, lane * k, heaps.size[lane])


@embedded
def tree_bound(index: BlockArrays, tree: int, query: EventQuery, heaviest: float) -> float:
    """No clause of the tree scores more for this event."""
    total = float(at(index.tree_score, tree))
    for i in range(at(index.tree_axis_start, tree), at(index.tree_axis_start, tree + 1)):
        axis = at(index.tree_axis, i)
        weight = at(index.tree_axis_weight, i) if len(index.tree_axis_weight) else 1.0
        total += weight * at(query.weight, axis)
    extra = at(index.tree_extra, tree)
    if extra > 0.0:
        total = raised(total, extra * heaviest)
    return min(total, raised(at(index.tree_score, tree), at(index.tree_weight, tree) * heaviest))


@embedded
def offer(
    searched: Searched[BlockArrays],
    asked: Asked,
    e: int,
    tree: int,
    scratch: BlockScratch,
    hit: int,
    heaps: Heaps,
    work: I64,
) -> None:
    """Score entries that match, and keep those that are among the best."""
    table, index, events = searched.table, searched.arrays, asked.events
    for i in range(hit):
        entry = at(scratch.hits, i)
        slot = at(index.entry_slot, entry)
        if not is_set(asked.eligible, slot):
            continue
        work[SCORED] += 1
        if is_set(index.shared, entry):
            first, score = best_clause(table, slot, events, e)
            if first != at(index.entry_clause, entry):
                continue
        elif len(table.weight) or is_set(index.verify, entry):
            static = static_score(table, slot)
            score = clause_score(table, at(index.entry_clause, entry), events, e, False, static)[1]
        else:
            score = entry_score(index, tree, entry, scratch.query)
        work[MATCHED] += 1
        push(heaps, e - asked.first, asked.k, score, at(index.entry_sequence, entry), slot)


@embedded
def best_clause(table: SegmentArrays, slot: int, events: EventArrays, e: int) -> tuple[int, float]:
    """The first of the clauses of a slot that score most, and its score."""
    static = static_score(table, slot)
    first, best = -1, 0.0
    for clause in range(at(table.clause_start, slot), at(table.clause_start, slot + 1)):
        qualifies, score = clause_score(table, clause, events, e, False, static)
        if qualifies and (first < 0 or score > best):
            first, best = clause, score
    return first, best


@embedded
def entry_score(index: BlockArrays, tree: int, entry: int, query: EventQuery) -> float:
    """The score of a matching entry of a table without weights: the terms of `clause_score`, in its order."""
    total = float(at(index.entry_score, entry)) if len(index.entry_score) else 0.0
    if tree == LOOSE_ENTRIES:
        i = entry - at(index.info, BLOCKS) * int(LANES)
        for j in range(at(index.record_start, i), at(index.record_start, i + 1)):
            axis = int(np.uint16(at(index.record, 3 * j)))
            if at(query.code, 2 * axis) != int(ANY):
                total += at(query.weight, axis)
        return total
    first, last = at(index.tree_axis_start, tree), at(index.tree_axis_start, tree + 1)
    block = (entry >> 6) - at(index.tree_block, tree)
    place = at(index.tree_code, tree) + block * 2 * (last - first) * int(LANES) + (entry & 63)
    for i in range(first, last):
        axis = at(index.tree_axis, i)
        constrained = at(index.codes, place + 2 * (i - first) * int(LANES)) != int(ALWAYS)
        if constrained and at(query.code, 2 * axis) != int(ANY):
            total += at(query.weight, axis)
    return total
