"""Which entries an event matches: trees from their corners down, and the buckets of every pair of the event's axes.

An event's keys become codes by axis once (`axes.ask`). A tree is visited if its signature is part of the event's; its
corners say which blocks may have a match, and a block is a few vector comparisons. Of a bucket the signatures say which
clauses ask for no axis that the event lacks; those are compared constraint by constraint.

    scratch   a bit for each slot that matches | a bit for each word of these that is not zero

Matches come in the order of blocks, not of slots, and a slot of several clauses may come more than once: marking them
in a bitmap and reading that puts them in order, once each, and leaves out what is not eligible.

Invariant: scratch is all zeros between events, and the query as if no event had been asked.
Complexity: an event O(trees of its axes + blocks not ruled out + pairs of its axes + loose clauses of those + matches).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat.arrays import I32, I64, U64
from earmark.flat.machine import VECTOR, at, ctz64
from earmark.index.blocks.arrays import (
    ANY,
    BEGIN,
    BLOCKS,
    END,
    LOOSE,
    NOWHERE,
    PAIR,
    SECOND_AXIS,
    VACANT,
    BlockArrays,
    pair_bit,
    pair_hash,
    pair_place,
)
from earmark.index.blocks.axes import EventQuery, ask, forget, settle
from earmark.index.blocks.dominance import I16, LANES, dominating, lanes_below
from earmark.index.blocks.wide import without8
from earmark.index.counters import (
    CANDIDATES,
    COMPARED,
    LEAVES,
    NODES,
    PRUNED,
    PRUNED_LEAVES,
    back_to,
    work_so_far,
)
from earmark.index.kernels import Asked, Matches, Searched
from earmark.index.ranking import raised
from earmark.jit import embedded, kernel
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import clause_failures


class BlockScratch(NamedTuple):
    """What a search writes to: an event's query, entries that match, the bitmap that sorts them, trees to visit."""

    query: EventQuery
    hits: I32
    marks: U64
    trees: I32


DIRECT = 8
"""So many loose clauses an event are compared in the table before its values are given codes: a code is a search."""


@kernel
def match_events(
    searched: Searched[BlockArrays], asked: Asked, scratch: BlockScratch, matches: Matches
) -> tuple[int, int]:
    """Slots that match the events from asked.first on, ascending for each (`kernels.py`)."""
    index, events, query, marks = searched.arrays, asked.events, scratch.query, scratch.marks
    found = 0
    words = words_of(marks)
    for e in range(asked.first, asked.last):
        before, marked = work_so_far(matches.work), 0
        count, required, signature = ask(index, events, e, query)
        for list_number in range(required + 1):
            axis = at(query.required, list_number) if list_number < required else len(index.axis_attr)
            for j in range(at(index.route_start, axis), at(index.route_start, axis + 1)):
                tree = at(index.route, j)
                if at(index.tree_signature, tree) & ~signature == np.uint64(0):
                    hit = search_tree(searched, asked, e, tree, scratch, -np.inf, matches.work)
                    marked += mark(index, scratch.hits, hit, marks, words)
        if at(index.info, LOOSE) > 0:
            hit = search_loose(searched, events, e, scratch, required, signature, matches.work)
            marked += mark(index, scratch.hits, hit, marks, words)
        forget(index, query, count)
        if found + marked > len(matches.slots):
            wipe(marks)
            back_to(matches.work, before)
            return found, e
        matches.counts[e - asked.first] = read(marks, words, asked.eligible, matches.slots, found)
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
    work[NODES] += nodes + leaves
    work[LEAVES] += leaves
    work[COMPARED] += (nodes + leaves) * columns
    work[PRUNED] += pruned
    work[PRUNED_LEAVES] += pruned
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
            if at(codes, place + column * int(LANES) + lane) == code and code != int(ANY):
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
        work[CANDIDATES] += 1
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
    base = at(index.info, BLOCKS) * int(LANES)
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
    work[NODES] += buckets
    work[CANDIDATES] += looked
    work[COMPARED] += compared
    return hit


@embedded
def find_buckets(index: BlockArrays, query: EventQuery, required: int) -> int:
    """Put into `ranges` where the loose entries are that need no pair of axes but those of the event; how many ranges.

    It looks up every pair, or goes through all places if these are fewer.
    """
    places = len(index.pairs) // int(PAIR)
    found = 0
    if required * (required + 1) // 2 + 1 < places:
        found = look_up(index, query, int(NOWHERE), int(NOWHERE), places, 0)
        for i in range(required):
            first = at(query.required, i)
            for j in range(i, required):
                found = look_up(index, query, first, at(query.required, j), places, found)
    else:
        for place in range(places):
            if at(index.pairs, place * int(PAIR)) != int(VACANT):
                found = note(index, query, place * int(PAIR), found)
    return found


@embedded
def look_up(index: BlockArrays, query: EventQuery, first: int, second: int, places: int, found: int) -> int:
    """Add the range of a pair of axes, if it has one; how many there are now."""
    mixed = pair_hash(first, second)
    bit = pair_bit(mixed, len(index.pair_bits))
    if (at(index.pair_bits, bit >> 6) >> np.uint64(bit & 63)) & np.uint64(1) == np.uint64(0):
        return found
    place = pair_place(mixed, places)
    while True:
        start = place * int(PAIR)
        axis = at(index.pairs, start)
        if axis == int(VACANT):
            return found
        if axis == first and at(index.pairs, start + int(SECOND_AXIS)) == second:
            return note(index, query, start, found)
        place = (place + 1) & (places - 1)


@embedded
def note(index: BlockArrays, query: EventQuery, start: int, found: int) -> int:
    """Add the range of a place; how many there are now."""
    query.ranges[2 * found] = at(index.pairs, start + int(BEGIN))
    query.ranges[2 * found + 1] = at(index.pairs, start + int(END))
    return found + 1


@embedded
def loose_matches(
    table: SegmentArrays, index: BlockArrays, events: EventArrays, e: int, i: int, entry: int, query: EventQuery
) -> bool:
    """Whether a loose entry matches: all its constraints, by code, and in the table where codes do not say it."""
    doubtful = False
    for j in range(at(index.record_start, i), at(index.record_start, i + 1)):
        axis = int(np.uint16(at(index.record, 3 * j)))
        settle(index, events, query, axis)
        asked_lower, asked_upper = at(query.code, 2 * axis), at(query.code, 2 * axis + 1)
        lower, upper = at(index.record, 3 * j + 1), at(index.record, 3 * j + 2)
        if not ((lower >= asked_lower) & (upper >= asked_upper)):
            return False
        if at(index.axis_exact, axis) == 0:
            doubtful |= ((lower == asked_lower) | (upper == asked_upper)) & (asked_lower != int(ANY))
    doubtful |= (at(index.verify, entry >> 6) >> np.uint64(entry & 63)) & np.uint64(1) != np.uint64(0)
    return not doubtful or clause_failures(table, at(index.entry_clause, entry), events, e, 0) == 0


# --- marking and reading -------------------------------------------------------------------------------------------


def scratch_words(slots: int) -> int:
    """Words of scratch for this many slots."""
    words = max(1, (slots + 63) >> 6)
    return words + ((words + 63) >> 6)


@embedded
def words_of(scratch: U64) -> int:
    """The words of its bitmap: the n of n + ceil(n / 64)."""
    words = len(scratch) * 64 // 65
    while words + ((words + 63) >> 6) < len(scratch):
        words += 1
    return words


@embedded
def mark(index: BlockArrays, hits: I32, hit: int, scratch: U64, words: int) -> int:
    """Mark the slots of entries; how many entries."""
    for i in range(hit):
        slot = at(index.entry_slot, at(hits, i))
        word = slot >> 6
        scratch[word] |= np.uint64(1) << np.uint64(slot & 63)
        scratch[words + (word >> 6)] |= np.uint64(1) << np.uint64(word & 63)
    return hit


@embedded
def read(scratch: U64, words: int, eligible: U64, out: I32, found: int) -> int:
    """Append the marked slots that are eligible, ascending, and wipe the marks; how many."""
    before = found
    for group in range(words, len(scratch)):
        used = at(scratch, group)
        scratch[group] = 0
        while used != np.uint64(0):
            word = ((group - words) << 6) + ctz64(used)
            used &= used - np.uint64(1)
            marked = at(scratch, word)
            scratch[word] = 0
            if word >= len(eligible):
                continue
            marked &= at(eligible, word)
            while marked != np.uint64(0):
                out[found] = (word << 6) + ctz64(marked)
                found += 1
                marked &= marked - np.uint64(1)
    return found - before


@embedded
def wipe(scratch: U64) -> None:
    """Forget all marks."""
    for i in range(len(scratch)):
        scratch[i] = 0
