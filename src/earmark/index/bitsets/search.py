"""Which entries an event matches: the AND of one row for each attribute, then the codes of what is left.

    bucket   of each counted attribute of the event: which one its value is in, or the last, for NULL
    regions  the AND of `some` over these buckets: where no row is NONE
    rows     in each of these regions, 512 entries at a time, the rows that are not ALL are and-ed until nothing is left
    codes    of the entries that are left, compared with the event's; the table decides where they do not

An event value that is an interval may be in several buckets: their rows are or-ed first.

A batch is asked region by region, all events at each: its rows then are in the cache, where they are read from by one
event after another. Answers come in the order of regions, so they name their event, and are sorted.

A slot of several clauses is found once: by the first of its clauses that holds.

Invariant: `start` is all ones between regions.
Complexity: an event O(attributes x regions / 64 + rows of the regions that are left + entries that pass).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import earmark.index.bitsets.arrays as ba
import earmark.index.counters as counters
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import I32, I64, U8, U64
from earmark.flat.machine import VECTOR, at, ctz64
from earmark.index.bitsets.arrays import BitsetArrays
from earmark.index.bitsets.build import code_of
from earmark.index.bitsets.vectors import COLUMNS, and_rows, below64, equal64
from earmark.index.counters import back_to, work_so_far
from earmark.index.kernels import SLOT_BITS, Asked, Matches, Searched
from earmark.index.marks import close_event, is_set
from earmark.jit import embedded
from earmark.segment.evaluate import clause_failures

LANES = 2048
"""Events of a batch that are asked together."""


class BitsetScratch(NamedTuple):
    """What a search writes to. By lane, which is one of the events that are asked together:"""

    first: I32
    """… the bucket of each attribute, and the last one where the value is an interval,"""
    last: I32
    point: U8
    """… the codes that an entry must not be below,"""
    regions: U64
    """… and a bit for each region where it may have matches."""
    start: U64
    """The entries of a region that are asked about: all, but for values that are intervals."""
    wide: I64
    """Whether these are not all."""
    left: U64
    offsets: I64
    hits: I32
    marks: U64
    summary: U64


def new_scratch(index: BitsetArrays, marks: tuple[U64, U64]) -> BitsetScratch:
    """Room for a search."""
    count, words = len(index.attr), int(index.info[ba.WORDS])
    return BitsetScratch(
        first=np.empty(LANES * count, np.int32),
        last=np.empty(LANES * count, np.int32),
        point=np.zeros(LANES * COLUMNS * len(index.inexact), np.uint8),
        regions=np.empty(LANES * ((int(index.info[ba.REGIONS]) + 63) >> 6), np.uint64),
        start=np.full(words, ~np.uint64(0)),
        wide=np.zeros(1, np.int64),
        left=np.empty(words, np.uint64),
        offsets=np.empty(count + 1, np.int64),
        hits=np.empty(64 * words, np.int32),
        marks=marks[0],
        summary=marks[1],
    )


@embedded
def match_events(
    searched: Searched[BitsetArrays], asked: Asked, scratch: BitsetScratch, matches: Matches
) -> tuple[int, int]:
    """Slots that match the events from asked.first on, ascending for each (`kernels.py`)."""
    index = searched.arrays
    words = (at(index.info, ba.REGIONS) + 63) >> 6
    found = 0
    for e in range(asked.first, asked.last):
        before, begin = work_so_far(matches.work), found
        ask(index, asked.events, e, 0, scratch)
        for word in range(words):
            regions = at(scratch.regions, word)
            while regions != np.uint64(0):
                region = (word << 6) + ctz64(regions)
                regions &= regions - np.uint64(1)
                hit = search_region(searched, asked, e, 0, region, scratch, matches.work)
                if found + hit > len(matches.slots):
                    back_to(matches.work, before)
                    return begin, e
                for i in range(hit):
                    matches.slots[found + i] = at(scratch.hits, i)
                found += hit
        found = close_event(matches, e - asked.first, begin, found, scratch.marks, scratch.summary)
    return found, asked.last


@embedded
def match_group(
    searched: Searched[BitsetArrays], asked: Asked, scratch: BitsetScratch, matches: Matches
) -> tuple[int, int]:
    """(lane << SLOT_BITS) | slot of every match of the events from asked.first on; region by region.

    Begins at the step `asked.slot`, each of which is a region and a lane, and returns the one to resume at, the number
    of steps when done.
    """
    index = searched.arrays
    lanes, regions = asked.last - asked.first, at(index.info, ba.REGIONS)
    words = (regions + 63) >> 6
    if asked.slot == 0:
        for lane in range(lanes):
            ask(index, asked.events, asked.first + lane, lane, scratch)
    found = 0
    for region in range(asked.slot // lanes, regions):
        bit = np.uint64(1) << np.uint64(region & 63)
        for lane in range(asked.slot % lanes if region == asked.slot // lanes else 0, lanes):
            if at(scratch.regions, lane * words + (region >> 6)) & bit:
                before = work_so_far(matches.work)
                hit = search_region(searched, asked, asked.first + lane, lane, region, scratch, matches.work)
                if found + hit > len(matches.slots):
                    back_to(matches.work, before)
                    return found, region * lanes + lane
                for i in range(hit):
                    matches.slots[found + i] = (lane << SLOT_BITS) | at(scratch.hits, i)
                matches.counts[lane] += hit
                found += hit
    return found, regions * lanes


# --- an event ------------------------------------------------------------------------------------------------------


@embedded
def ask(index: BitsetArrays, events: EventArrays, e: int, lane: int, scratch: BitsetScratch) -> None:
    """Take in an event: its buckets and codes, and the regions where it may have matches."""
    count, regions = len(index.attr), at(index.info, ba.REGIONS)
    width, words, row = COLUMNS * len(index.inexact), (regions + 63) >> 6, lane * count
    for i in range(count):
        null = at(index.bucket_start, i + 1) - 1
        scratch.first[row + i], scratch.last[row + i] = null, null
        scratch.point[lane * width + 2 * i], scratch.point[lane * width + 2 * i + 1] = 0, 0
    for position in range(at(events.start, e), at(events.start, e + 1)):
        attr = at(events.attr, position)
        if attr >= len(index.number):
            break
        i = at(index.number, attr)
        if i == int(ba.UNCOUNTED):
            continue
        begin, end = at(index.cut_start, i), at(index.cut_start, i + 1)
        low = code_of(index.cuts, begin, end, at(events.lo, position))
        high = code_of(index.cuts, begin, end, at(events.hi, position))
        bucket = at(index.bucket_start, i)
        buckets, codes = at(index.bucket_start, i + 1) - 1 - bucket, end - begin + 1
        scratch.first[row + i] = bucket + low * buckets // codes
        scratch.last[row + i] = bucket + high * buckets // codes
        scratch.point[lane * width + 2 * i] = int(ba.HIGHEST) - high
        scratch.point[lane * width + 2 * i + 1] = low
    for word in range(words):
        left = ~np.uint64(0)
        if word == words - 1 and regions & 63:
            left >>= np.uint64(64 - (regions & 63))
        for i in range(count):
            some = np.uint64(0)
            for bucket in range(at(scratch.first, row + i), at(scratch.last, row + i) + 1):
                some |= at(index.some, bucket * words + word)
            left &= some
        scratch.regions[lane * words + word] = left


# --- a region ------------------------------------------------------------------------------------------------------


@embedded
def search_region(
    searched: Searched[BitsetArrays], asked: Asked, e: int, lane: int, region: int, scratch: BitsetScratch, work: I64
) -> int:
    """Put the slots of a region that match into `hits`; how many."""
    index, left, hits = searched.arrays, scratch.left, scratch.hits
    words, first_entry = at(index.info, ba.WORDS), region * at(index.info, ba.WORDS) << 6
    count, hit, candidates, compared = find_rows(index, lane, region, scratch), 0, 0, 0
    for place in range(0, words, int(VECTOR)):
        for word in range(place, place + int(VECTOR)):
            left[word] = at(scratch.start, word)
        compared += count
        if not and_rows(index.rows, scratch.offsets, count, place, left):
            continue
        for word in range(place, place + int(VECTOR)):
            bits = at(left, word)
            while bits != np.uint64(0):
                entry = first_entry + (word << 6) + ctz64(bits)
                bits &= bits - np.uint64(1)
                if entry >= at(index.info, ba.ENTRIES):
                    break
                candidates += 1
                slot = at(index.entry_slot, entry)
                if is_set(asked.eligible, slot) and entry_matches(searched, asked.events, e, lane, entry, scratch):
                    hits[hit] = slot
                    hit += 1
    if at(scratch.wide, 0) != 0:
        scratch.wide[0] = 0
        for word in range(words):
            scratch.start[word] = ~np.uint64(0)
    work[counters.NODES] += 1
    work[counters.COMPARED] += compared
    work[counters.CANDIDATES] += candidates
    return hit


@embedded
def find_rows(index: BitsetArrays, lane: int, region: int, scratch: BitsetScratch) -> int:
    """Put where the rows of a region begin that the event must pass into `offsets`; how many."""
    regions, words = at(index.info, ba.REGIONS), at(index.info, ba.WORDS)
    count, begin = 0, lane * len(index.attr)
    for i in range(begin, begin + len(index.attr)):
        first, last = at(scratch.first, i), at(scratch.last, i)
        if first == last:
            row = at(index.row, first * regions + region)
            scratch.offsets[count] = row * words
            count += row >= 0
        else:
            join_rows(index, first, last, region, scratch)
    return count


@embedded
def join_rows(index: BitsetArrays, first: int, last: int, region: int, scratch: BitsetScratch) -> None:
    """Leave in `start` the entries that may pass in one of the buckets first .. last."""
    regions, words = at(index.info, ba.REGIONS), at(index.info, ba.WORDS)
    for bucket in range(first, last + 1):
        if at(index.row, bucket * regions + region) == int(ba.ALL):
            return
    scratch.wide[0] = 1
    for word in range(words):
        joined = np.uint64(0)
        for bucket in range(first, last + 1):
            row = at(index.row, bucket * regions + region)
            if row != int(ba.NONE):
                joined |= at(index.rows, row * words + word)
        scratch.start[word] &= joined


@embedded
def entry_matches(
    searched: Searched[BitsetArrays], events: EventArrays, e: int, lane: int, entry: int, scratch: BitsetScratch
) -> bool:
    """Whether an entry matches, and no earlier clause of its slot does."""
    table, index = searched.table, searched.arrays
    place, vectors, doubtful = 2 * len(index.attr) * entry, len(index.inexact), np.uint64(0)
    for vector in range(vectors):
        codes, asked = place + vector * int(COLUMNS), (lane * vectors + vector) * int(COLUMNS)
        if below64(index.codes, codes, scratch.point, asked) != np.uint64(0):
            return False
        doubtful |= equal64(index.codes, codes, scratch.point, asked) & at(index.inexact, vector)
    clause = at(index.entry_clause, entry)
    if doubtful != np.uint64(0) or is_set(index.verify, entry):
        if clause_failures(table, clause, events, e, 0) > 0:
            return False
    if at(index.info, ba.SHARED) != 0:
        for earlier in range(at(table.clause_start, at(index.entry_slot, entry)), clause):
            if clause_failures(table, earlier, events, e, 0) == 0:
                return False
    return True
