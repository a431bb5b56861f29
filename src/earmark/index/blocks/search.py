"""Which entries an event matches: trees from their corners down, and the buckets of every pair of the event's axes.

An event's keys become codes by axis once (`axes.ask`). A tree is visited if its signature is part of the event's; its
corners say which blocks may have a match, and a block is a few vector comparisons. Of a bucket the signatures say which
clauses ask for no axis that the event lacks; those are compared constraint by constraint.

    marks     a bit for each slot that matches
    summary   a bit for each word of these that is not zero

Matches come in the order of blocks, not of slots, and a slot of several clauses may come more than once: marking them
in a bitmap and reading that puts them in order, once each, and leaves out what is not eligible.

**The k best.** Tiers from the best on, until no later one can have a better answer. A clause scores its slot's static
score and, for each of its constraints whose attribute the event has, weight times event weight (`segment/evaluate.py`).
A tree's bound is that sum for its greatest static score and greatest weight on each axis, added in the same order:
float64 addition and multiplication never fall as an operand rises, so no clause of the tree scores more, to the last
bit. A tree is left out when its bound is below the worst kept score, or equals it and all of its sequences are later.
That is why a table without scores and weights stops after a few tiers, too: all clauses of a tree score the same, and
the earliest win.

In a table without weights the score of an entry is its static score and the event's weights of its axes, added in
ascending order as `clause_score` does; it is not computed from the table again. Otherwise `clause_score` is asked.
A slot of several clauses counts once: for the clause that scores most, the first of these.

Invariant: both are all zeros between events, and the query is as if no event had been asked.
Complexity: an event O(trees of its axes + blocks not ruled out + pairs of its axes + loose clauses of those + matches).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import earmark.index.blocks.arrays as ba
import earmark.index.counters as counters
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import I32, I64, U64
from earmark.flat.machine import VECTOR, at, ctz64
from earmark.index.blocks.arrays import BlockArrays
from earmark.index.blocks.axes import EventQuery, ask, forget, settle
from earmark.index.blocks.dominance import I16, LANES, dominating, lanes_below, without8
from earmark.index.counters import back_to, work_so_far
from earmark.index.kernels import Asked, Matches, Searched, push_living
from earmark.index.marks import clear_marks, is_set
from earmark.index.ranking import Heaps, raised, sort_heap
from earmark.jit import embedded
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import clause_failures, clause_score, static_score


class BlockScratch(NamedTuple):
    """What a search writes to: an event's query, entries that match, the bitmap that sorts them, trees to visit."""

    query: EventQuery
    hits: I32
    marks: U64
    summary: U64
    trees: I32


LOOSE_ENTRIES = -1
"""In place of a tree."""
DIRECT = 8
"""So many loose clauses an event are compared in the table before its values are given codes: a code is a search."""


@embedded
def match_events(
    searched: Searched[BlockArrays], asked: Asked, scratch: BlockScratch, matches: Matches
) -> tuple[int, int]:
    """Slots that match the events from asked.first on, ascending for each (`kernels.py`)."""
    index, events, query, marks, summary = searched.arrays, asked.events, scratch.query, scratch.marks, scratch.summary
    found = int(np.int64(0))  # not a literal: what is called with one is compiled once more
    for e in range(asked.first, asked.last):
        before, marked = work_so_far(matches.work), 0
        count, required, signature = ask(index, events, e, query)
        for list_number in range(required + 1):
            axis = at(query.required, list_number) if list_number < required else len(index.axis_attr)
            for j in range(at(index.route_start, axis), at(index.route_start, axis + 1)):
                tree = at(index.route, j)
                if at(index.tree_signature, tree) & ~signature == np.uint64(0):
                    hit = search_tree(searched, asked, e, tree, scratch, -np.inf, matches.work)
                    marked += mark(index, scratch.hits, hit, marks, summary)
        if at(index.info, ba.LOOSE) > 0:
            hit = search_loose(searched, events, e, scratch, required, signature, matches.work)
            marked += mark(index, scratch.hits, hit, marks, summary)
        forget(index, query, count)
        if found + marked > len(matches.slots):
            clear_marks(marks, summary)
            back_to(matches.work, before)
            return found, e
        matches.counts[e - asked.first] = read(marks, summary, asked.eligible, matches.slots, found)
        found += matches.counts[e - asked.first]
    return found, asked.last


# --- trees ---------------------------------------------------------------------------------------------------------


@embedded
def search_tree(
    searched: Searched[BlockArrays], asked: Asked, e: int, tree: int, scratch: BlockScratch, floor: float, work: I64
) -> int:
    """Put the entries of a tree that match into `hits`; how many. Blocks that cannot score `floor` are left out."""
    index, events, query, hits = searched.arrays, asked.events, scratch.query, scratch.hits
    first_axis, last_axis = at(index.tree_axis_start, tree), at(index.tree_axis_start, tree + 1)
    columns = 2 * (last_axis - first_axis)
    for i in range(first_axis, last_axis):
        axis = at(index.tree_axis, i)
        settle(index, events, query, axis)
        query.point[2 * (i - first_axis)] = at(query.code, 2 * axis)
        query.point[2 * (i - first_axis) + 1] = at(query.code, 2 * axis + 1)
    first_block = at(index.tree_block, tree)
    blocks = at(index.tree_block, tree + 1) - first_block
    size, base, step = at(index.tree_size, tree), at(index.tree_code, tree), columns * int(LANES)
    uppers = (blocks + int(LANES) - 1) // int(LANES)
    corners = base + blocks * step
    tops = corners + uppers * step
    everything, hit = ~np.uint64(0), 0
    nodes, leaves, pruned = 0, 0, 0
    for top in range((uppers + int(LANES) - 1) // int(LANES)):
        open_uppers = lanes_below(min(uppers - top * int(LANES), int(LANES)))
        if uppers > 1:
            nodes += 1
            open_uppers = dominating(index.codes, tops + top * step, columns, query.point, open_uppers)
        while open_uppers != np.uint64(0):
            upper = top * int(LANES) + ctz64(open_uppers)
            open_uppers &= open_uppers - np.uint64(1)
            open_blocks = lanes_below(min(blocks - upper * int(LANES), int(LANES)))
            if blocks > 1:
                nodes += 1
                open_blocks = dominating(index.codes, corners + upper * step, columns, query.point, open_blocks)
            while open_blocks != np.uint64(0):
                block = upper * int(LANES) + ctz64(open_blocks)
                open_blocks &= open_blocks - np.uint64(1)
                if floor > -np.inf and block_bound(index, first_block + block, asked.heaviest) < floor:
                    pruned += 1
                    continue
                leaves += 1
                lanes = everything if block < blocks - 1 else lanes_below(size - block * int(LANES))
                place = base + block * step
                mask = dominating(index.codes, place, columns, query.point, lanes)
                if mask != np.uint64(0):
                    entry = (first_block + block) * int(LANES)
                    unsure = at(index.verify, first_block + block)
                    if unsure != np.uint64(0) or at(index.tree_exact, tree) == 0:
                        if at(index.tree_exact, tree) == 0:
                            unsure |= inexact(index.codes, place, columns, query.point, mask)
                        mask = verified(searched, events, e, entry, mask, unsure, work)
                    while mask != np.uint64(0):
                        hits[hit] = entry + ctz64(mask)
                        hit += 1
                        mask &= mask - np.uint64(1)
    work[counters.NODES] += nodes + leaves
    work[counters.LEAVES] += leaves
    work[counters.COMPARED] += (nodes + leaves) * columns
    work[counters.PRUNED] += pruned
    work[counters.PRUNED_LEAVES] += pruned
    return hit


@embedded
def block_bound(index: BlockArrays, block: int, heaviest: float) -> float:
    """No entry of the block can have a higher score, in whatever order it is summed."""
    if len(index.block_score) == 0:
        return np.inf
    return raised(at(index.block_score, block), at(index.block_weight, block) * heaviest)


@embedded
def inexact(codes: I16, place: int, columns: int, point: I16, mask: np.uint64) -> np.uint64:
    """Of these lanes of a block those with a code that equals the event's, where equal codes do not decide."""
    doubtful, left = np.uint64(0), mask
    while left != np.uint64(0):
        lane = ctz64(left)
        left &= left - np.uint64(1)
        for column in range(columns):
            code = at(point, column)
            if at(codes, place + column * int(LANES) + lane) == code and code != int(ba.ANY):
                doubtful |= np.uint64(1) << np.uint64(lane)
    return doubtful


@embedded
def verified(
    searched: Searched[BlockArrays],
    events: EventArrays,
    e: int,
    entry: int,
    mask: np.uint64,
    unsure: np.uint64,
    work: I64,
) -> np.uint64:
    """Of these lanes of a block those that match; what is unsure is compared in the table."""
    left = mask & unsure
    while left != np.uint64(0):
        lane = ctz64(left)
        left &= left - np.uint64(1)
        work[counters.CANDIDATES] += 1
        if clause_failures(searched.table, at(searched.arrays.entry_clause, entry + lane), events, e, 0) > 0:
            mask &= ~(np.uint64(1) << np.uint64(lane))
    return mask


# --- loose clauses -------------------------------------------------------------------------------------------------


@embedded
def search_loose(
    searched: Searched[BlockArrays],
    events: EventArrays,
    e: int,
    scratch: BlockScratch,
    required: int,
    signature: np.uint64,
    work: I64,
) -> int:
    """Put the loose entries that match into `hits`; how many."""
    table, index, query, hits = searched.table, searched.arrays, scratch.query, scratch.hits
    hit, buckets = 0, find_buckets(index, query, required)
    missing = ~signature
    base = at(index.info, ba.BLOCKS) * int(LANES)
    compared, looked = 0, 0
    for bucket in range(buckets):
        begin, end = at(query.ranges, 2 * bucket), at(query.ranges, 2 * bucket + 1)
        for eight in range(begin, end, int(VECTOR)):
            left = without8(index.loose_signature, eight, missing)
            if end - eight < int(VECTOR):
                left &= (np.uint64(1) << np.uint64(end - eight)) - np.uint64(1)
            while left != np.uint64(0):
                i = eight + ctz64(left)
                left &= left - np.uint64(1)
                looked += 1
                if looked <= int(DIRECT):
                    matches = clause_failures(table, at(index.entry_clause, base + i), events, e, 0) == 0
                else:
                    compared += at(index.record_start, i + 1) - at(index.record_start, i)
                    matches = loose_matches(table, index, events, e, i, base + i, query)
                if matches:
                    hits[hit] = base + i
                    hit += 1
    work[counters.NODES] += buckets
    work[counters.CANDIDATES] += looked
    work[counters.COMPARED] += compared
    return hit


@embedded
def find_buckets(index: BlockArrays, query: EventQuery, required: int) -> int:
    """Put into `ranges` where the loose entries are that need no pair of axes but those of the event; how many ranges.

    It looks up every pair, or goes through all places if these are fewer.
    """
    places = len(index.pairs) // int(ba.PAIR)
    found = int(np.int64(0))
    if required * (required + 1) // 2 + 1 < places:
        found = look_up(index, query, int(np.int32(ba.NOWHERE)), int(np.int32(ba.NOWHERE)), places, found)
        for i in range(required):
            first = at(query.required, i)
            for j in range(i, required):
                found = look_up(index, query, first, at(query.required, j), places, found)
    else:
        for place in range(places):
            if at(index.pairs, place * int(ba.PAIR)) != int(ba.VACANT):
                found = note(index, query, place * int(ba.PAIR), found)
    return found


@embedded
def look_up(index: BlockArrays, query: EventQuery, first: int, second: int, places: int, found: int) -> int:
    """Add the range of a pair of axes, if it has one; how many there are now."""
    mixed = ba.pair_hash(first, second)
    bit = ba.pair_bit(mixed, len(index.pair_bits))
    if (at(index.pair_bits, bit >> 6) >> np.uint64(bit & 63)) & np.uint64(1) == np.uint64(0):
        return found
    place = ba.pair_place(mixed, places)
    while True:
        start = place * int(ba.PAIR)
        axis = at(index.pairs, start)
        if axis == int(ba.VACANT):
            return found
        if axis == first and at(index.pairs, start + int(ba.SECOND_AXIS)) == second:
            return note(index, query, start, found)
        place = (place + 1) & (places - 1)


@embedded
def note(index: BlockArrays, query: EventQuery, start: int, found: int) -> int:
    """Add the range of a place; how many there are now."""
    query.ranges[2 * found] = at(index.pairs, start + int(ba.BEGIN))
    query.ranges[2 * found + 1] = at(index.pairs, start + int(ba.END))
    return found + 1


@embedded
def loose_matches(
    table: SegmentArrays, index: BlockArrays, events: EventArrays, e: int, i: int, entry: int, query: EventQuery
) -> bool:
    """Whether a loose entry matches: all its constraints, by code, and in the table where codes do not say it."""
    doubtful = False
    for j in range(at(index.record_start, i), at(index.record_start, i + 1)):
        axis = int(np.int32(np.uint16(at(index.record, 3 * j))))
        settle(index, events, query, axis)
        asked_lower, asked_upper = at(query.code, 2 * axis), at(query.code, 2 * axis + 1)
        lower, upper = at(index.record, 3 * j + 1), at(index.record, 3 * j + 2)
        if not ((lower >= asked_lower) & (upper >= asked_upper)):
            return False
        if at(index.axis_exact, axis) == 0:
            doubtful |= ((lower == asked_lower) | (upper == asked_upper)) & (asked_lower != int(ba.ANY))
    doubtful |= (at(index.verify, entry >> 6) >> np.uint64(entry & 63)) & np.uint64(1) != np.uint64(0)
    return not doubtful or clause_failures(table, at(index.entry_clause, entry), events, e, 0) == 0


# --- marking and reading -------------------------------------------------------------------------------------------


@embedded
def mark(index: BlockArrays, hits: I32, hit: int, marks: U64, summary: U64) -> int:
    """Mark the slots of entries; how many entries."""
    for i in range(hit):
        slot = at(index.entry_slot, at(hits, i))
        word = slot >> 6
        marks[word] |= np.uint64(1) << np.uint64(slot & 63)
        summary[word >> 6] |= np.uint64(1) << np.uint64(word & 63)
    return hit


@embedded
def read(marks: U64, summary: U64, eligible: U64, out: I32, found: int) -> int:
    """Append the marked slots that are eligible, ascending, and wipe the marks; how many."""
    before = found
    for group in range(len(summary)):
        used = at(summary, group)
        summary[group] = 0
        while used != np.uint64(0):
            word = (group << 6) + ctz64(used)
            used &= used - np.uint64(1)
            marked = at(marks, word)
            marks[word] = 0
            if word >= len(eligible):
                continue
            marked &= at(eligible, word)
            while marked != np.uint64(0):
                out[found] = (word << 6) + ctz64(marked)
                found += 1
                marked &= marked - np.uint64(1)
    return found - before


# --- the k best ------------------------------------------------------------------------------------------------------


@embedded
def rank_events(searched: Searched[BlockArrays], asked: Asked, scratch: BlockScratch, heaps: Heaps, work: I64) -> None:
    """Leave the k best of each event in its heap, best first (`kernels.py`)."""
    index, events, query, trees, k = searched.arrays, asked.events, scratch.query, scratch.trees, asked.k
    for e in range(asked.first, asked.last):
        lane = e - asked.first
        count, required, signature = ask(index, events, e, query)
        if at(index.info, ba.LOOSE) > 0:
            hit = search_loose(searched, events, e, scratch, required, signature, work)
            offer(searched, asked, e, int(np.int32(LOOSE_ENTRIES)), scratch, hit, heaps, work)
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
                    work[counters.PRUNED] += 1
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
        work[counters.SCORED] += 1
        if is_set(index.shared, entry):
            first, score = best_clause(table, slot, events, e)
            if first != at(index.entry_clause, entry):
                continue
        elif len(table.weight) or is_set(index.verify, entry):
            static = static_score(table, slot)
            score = clause_score(table, at(index.entry_clause, entry), events, e, False, static)[1]
        else:
            score = entry_score(index, tree, entry, scratch.query)
        work[counters.MATCHED] += 1
        push_living(heaps, table, asked, e, score, at(index.entry_sequence, entry), slot)


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
        i = entry - at(index.info, ba.BLOCKS) * int(LANES)
        for j in range(at(index.record_start, i), at(index.record_start, i + 1)):
            axis = int(np.int32(np.uint16(at(index.record, 3 * j))))
            if at(query.code, 2 * axis) != int(ba.ANY):
                total += at(query.weight, axis)
        return total
    first, last = at(index.tree_axis_start, tree), at(index.tree_axis_start, tree + 1)
    block = (entry >> 6) - at(index.tree_block, tree)
    place = at(index.tree_code, tree) + block * 2 * (last - first) * int(LANES) + (entry & 63)
    for i in range(first, last):
        axis = at(index.tree_axis, i)
        constrained = at(index.codes, place + 2 * (i - first) * int(LANES)) != int(ba.ALWAYS)
        if constrained and at(query.code, 2 * axis) != int(ba.ANY):
            total += at(query.weight, axis)
    return total
