"""Which entries an event matches: the AND of one row for each attribute, then the codes of what is left.

    buckets      of each counted attribute of the event: which one its value is in, or the last, for NULL
    lines        the AND of `some` over these buckets: where an entry may pass each of them
    rows         of these lines, 512 entries at a time, the AND of the rows that are not ALL
    candidates   the entries that are left: their codes are compared with the event's, and where these do not decide,
                 the table is asked

An event value that is an interval may be in several buckets: their rows are or-ed first.

A batch is asked region by region, all events at each: one event after another then finds the rows in the cache. Answers
come in the order of regions, so they name their event, and are sorted.

Candidates are collected and compared some hundreds at a time, without a branch that depends on what is read: the
processor then fetches the codes of many at once.

A ranked search leaves out regions that cannot have a better answer than the k it has. The best tiers come first, so
most regions are left out where there are more than k matches.

A slot of several clauses is found once: by the first of its clauses that holds.

Invariant: `start` is all ones between regions.
Complexity: an event O(attributes x lines / 64 + rows of the lines that are left + candidates).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import earmark.index.bitsets.arrays as ba
import earmark.index.counters as counters
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import I32, I64, U8, U64
from earmark.flat.bits import words_for
from earmark.flat.machine import VECTOR, at, ctz64
from earmark.index.bitsets.arrays import BitsetArrays, columns_of, regions_of
from earmark.index.bitsets.build import code_of
from earmark.index.bitsets.vectors import COLUMNS, U16, and_rows, below32, equal32, prefetch
from earmark.index.counters import back_to, work_so_far
from earmark.index.kernels import SLOT_BITS, Asked, Matches, Searched, push_living
from earmark.index.marks import close_event, is_set
from earmark.index.ranking import Heaps, raised, sort_heap
from earmark.jit import embedded
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import clause_failures, slot_score

LANES = 2048
"""Events of a batch that are asked together."""
TOGETHER = 1024
"""Candidates that are compared together; a region may add as many more as it has entries."""
AT_FIRST = 64
"""The same for a ranked search that has not its k answers yet, without which nothing can be left out."""
ENTRY = (1 << SLOT_BITS) - 1
"""Bits of a candidate that are its entry; those above are its lane."""
ALL_LINES = (1 << ba.LINES) - 1


class BitsetScratch(NamedTuple):
    """What a search writes to. A lane is one of the events that are asked together."""

    first: I32
    """By lane the bucket of each attribute; and the last one, where the value is an interval."""
    last: I32
    wide: U8
    """By lane whether some value is in several buckets."""
    point: U16
    """By lane the codes that an entry must not be below."""
    lines: U64
    """A bit for each line where the lane may have matches: word by word, the lanes' words together."""
    place: I64
    """By bucket where its row of the region at hand begins, or NONE or ALL."""
    offsets: I64
    """The same for the rows that the lane at hand must pass."""
    start: U64
    """The entries of the region that are asked about: all, but for values that are intervals."""
    left: U64
    candidates: I64
    marks: U64
    summary: U64


def new_scratch(index: BitsetArrays, marks: tuple[U64, U64]) -> BitsetScratch:
    """Room for a search."""
    count = len(index.attr)
    return BitsetScratch(
        first=np.empty(LANES * count, np.int32),
        last=np.empty(LANES * count, np.int32),
        wide=np.empty(LANES, np.uint8),
        point=np.zeros(LANES * COLUMNS * len(index.inexact), np.uint16),
        lines=np.empty(LANES * words_for(-(-int(index.info[ba.ENTRIES]) // ba.LINE)), np.uint64),
        place=np.empty(int(index.bucket_start[-1]), np.int64),
        offsets=np.empty(count + 1, np.int64),
        start=np.full(ba.WORDS, ~np.uint64(0)),
        left=np.empty(ba.WORDS, np.uint64),
        candidates=np.empty(TOGETHER + ba.REGION, np.int64),
        marks=marks[0],
        summary=marks[1],
    )


@embedded
def match_events(
    searched: Searched[BitsetArrays], asked: Asked, scratch: BitsetScratch, matches: Matches
) -> tuple[int, int]:
    """Slots that match the events from asked.first on, ascending for each (`kernels.py`)."""
    index, regions, found = searched.arrays, regions_of(searched.arrays), 0
    for e in range(asked.first, asked.last):
        before, begin, count = work_so_far(matches.work), found, 0
        ask(index, asked.events, e, 0, 1, scratch)
        for region in range(regions):
            count = ask_region(index, region, scratch, count, matches.work)
            if count > int(TOGETHER) or region == regions - 1:
                if found + count > len(matches.slots):
                    back_to(matches.work, before)
                    return begin, e
                found = settle(searched, asked, e, scratch, count, matches, found)
                count = 0
        found = close_event(matches, e - asked.first, begin, found, scratch.marks, scratch.summary)
    return found, asked.last


@embedded
def rank_events(
    searched: Searched[BitsetArrays], asked: Asked, scratch: BitsetScratch, heaps: Heaps, work: I64
) -> None:
    """Leave in the heap of each event its k best, best first (`kernels.py`). Exact only."""
    index, regions = searched.arrays, regions_of(searched.arrays)
    for e in range(asked.first, asked.last):
        lane, count = e - asked.first, 0
        ask(index, asked.events, e, 0, 1, scratch)
        for region in range(regions):
            if cannot_win(index, region, asked, heaps, lane):
                work[counters.PRUNED] += 1
            else:
                count = ask_region(index, region, scratch, count, work)
            if count > int(AT_FIRST if heaps.size[lane] < asked.k else TOGETHER) or region == regions - 1:
                offer(searched, asked, e, scratch, count, heaps, work)
                count = 0
        sort_heap(heaps, lane * asked.k, heaps.size[lane])


@embedded
def rank_group(searched: Searched[BitsetArrays], asked: Asked, scratch: BitsetScratch, heaps: Heaps, work: I64) -> None:
    """The same for many events: region by region, all events at each.

    What a region has is offered before the next one begins. So the regions that an event leaves out do not depend on
    the events beside it, and several threads that share a batch do the work of one.
    """
    index, regions, lanes = searched.arrays, regions_of(searched.arrays), asked.last - asked.first
    for lane in range(lanes):
        ask(index, asked.events, asked.first + lane, lane, lanes, scratch)
    for region in range(regions):
        is_open, count = False, 0
        for lane in range(lanes):
            if cannot_win(index, region, asked, heaps, lane):
                work[counters.PRUNED] += 1
                continue
            lines = lines_of(scratch, region, lane, lanes)
            if lines == 0:
                continue
            if not is_open:
                open_region(index, region, scratch)
                is_open = True
            count = search_region(index, lane, region, lines, scratch, count, work)
            if count > int(TOGETHER):
                offer(searched, asked, asked.first, scratch, count, heaps, work)
                count = 0
        offer(searched, asked, asked.first, scratch, count, heaps, work)
    for lane in range(lanes):
        sort_heap(heaps, lane * asked.k, heaps.size[lane])


@embedded
def cannot_win(index: BitsetArrays, region: int, asked: Asked, heaps: Heaps, lane: int) -> bool:
    """Whether the lane has its k answers, and none of the region is better."""
    if heaps.size[lane] < asked.k:
        return False
    floor = at(heaps.score, lane * asked.k)
    bound = at(index.region_best, region)
    if len(asked.events.weight) > 0:
        bound = raised(at(index.region_score, region), at(index.region_weight, region) * asked.heaviest)
    return bool(
        bound < floor or (bound == floor and at(index.region_sequence, region) > at(heaps.sequence, lane * asked.k))
    )


@embedded
def offer(
    searched: Searched[BitsetArrays],
    asked: Asked,
    event: int,
    scratch: BitsetScratch,
    count: int,
    heaps: Heaps,
    work: I64,
) -> None:
    """Score the candidates that match, lane 0 being `event`, and keep those that are among the best."""
    table, index = searched.table, searched.arrays
    for i in range(compare(index, asked.eligible, scratch, count)):
        lane, entry, sure = at(scratch.candidates, i) >> SLOT_BITS, at(scratch.candidates, i) & int(ENTRY), True
        if lane < 0:
            lane, sure = ~lane, False
        e, slot = event + lane, at(index.entry_slot, entry)
        if sure or slot_is_found(table, asked.events, e, slot, at(index.entry_clause, entry)):
            _, score = slot_score(table, slot, asked.events, e, False)
            push_living(heaps, table, asked, e, score, at(table.sequence, slot), slot)
            work[counters.MATCHED] += 1
            work[counters.SCORED] += 1


@embedded
def match_group(
    searched: Searched[BitsetArrays], asked: Asked, scratch: BitsetScratch, matches: Matches
) -> tuple[int, int]:
    """(lane << SLOT_BITS) | slot of every match of the events from asked.first on, region by region.

    Begins at the step `asked.slot`, each of which is a region and a lane, and returns the one to resume at, the number
    of steps when done.
    """
    index, regions, lanes = searched.arrays, regions_of(searched.arrays), asked.last - asked.first
    if asked.slot == 0:
        for lane in range(lanes):
            ask(index, asked.events, asked.first + lane, lane, lanes, scratch)
    found, count, step, before = 0, 0, asked.slot, work_so_far(matches.work)
    for region in range(asked.slot // lanes, regions):
        open_region(index, region, scratch)
        for lane in range(asked.slot % lanes if region == asked.slot // lanes else 0, lanes):
            lines = lines_of(scratch, region, lane, lanes)
            if lines != 0:
                count = search_region(index, lane, region, lines, scratch, count, matches.work)
            if count > int(TOGETHER) or (region == regions - 1 and lane == lanes - 1):
                if found + count > len(matches.slots):
                    back_to(matches.work, before)
                    return found, step
                begin, found = found, settle(searched, asked, asked.first, scratch, count, matches, found)
                for i in range(begin, found):
                    matches.counts[at(matches.slots, i) >> SLOT_BITS] += 1
                count, step, before = 0, region * lanes + lane + 1, work_so_far(matches.work)
    return found, regions * lanes


# --- an event ------------------------------------------------------------------------------------------------------


@embedded
def ask(index: BitsetArrays, events: EventArrays, e: int, lane: int, lanes: int, scratch: BitsetScratch) -> None:
    """Take in an event, as one of `lanes`: its buckets and codes, and the lines where it may have matches."""
    count, lines = len(index.attr), (at(index.info, ba.ENTRIES) + int(ba.LINE) - 1) // int(ba.LINE)
    words, own, point = (lines + 63) >> 6, lane * count, lane * int(COLUMNS) * len(index.inexact)
    scratch.wide[lane] = 0
    scratch.point[point : point + int(COLUMNS) * len(index.inexact)] = 0
    for i in range(count):
        null = at(index.bucket_start, i + 1) - 1
        scratch.first[own + i], scratch.last[own + i] = null, null
    for position in range(at(events.start, e), at(events.start, e + 1)):
        attr = at(events.attr, position)
        if attr >= len(index.number):
            break
        i = at(index.number, attr)
        if i == int(ba.UNCOUNTED):
            continue
        begin, end = at(index.cut_start, i), at(index.cut_start, i + 1)
        low = code_of(index.cuts, begin, end, at(events.lo, position))
        high = (
            low
            if at(events.hi, position) == at(events.lo, position)
            else code_of(index.cuts, begin, end, at(events.hi, position))
        )
        bucket = at(index.bucket_start, i)
        buckets, codes = at(index.bucket_start, i + 1) - 1 - bucket, end - begin + 1
        scratch.first[own + i] = bucket + low * buckets // codes
        scratch.last[own + i] = bucket + high * buckets // codes
        scratch.wide[lane] |= at(scratch.first, own + i) != at(scratch.last, own + i)
        if i < int(ba.MOST_CODED):
            scratch.point[point + 2 * i] = int(ba.HIGHEST) - high
            scratch.point[point + 2 * i + 1] = low
    for word in range(words):
        left = ~np.uint64(0)
        if word == words - 1 and lines & 63:
            left >>= np.uint64(64 - (lines & 63))
        for i in range(own, own + count):
            some = np.uint64(0)
            for bucket in range(at(scratch.first, i), at(scratch.last, i) + 1):
                some |= at(index.some, bucket * words + word)
            left &= some
        scratch.lines[word * lanes + lane] = left


@embedded
def lines_of(scratch: BitsetScratch, region: int, lane: int, lanes: int) -> int:
    """The lines of a region where the lane may have matches, a bit each."""
    first = region * int(ba.LINES)
    return int(at(scratch.lines, (first >> 6) * lanes + lane) >> np.uint64(first & 63)) & int(ALL_LINES)


# --- a region ------------------------------------------------------------------------------------------------------


@embedded
def open_region(index: BitsetArrays, region: int, scratch: BitsetScratch) -> None:
    """Look up the rows of all buckets."""
    regions = regions_of(index)
    for bucket in range(at(index.bucket_start, len(index.attr))):
        scratch.place[bucket] = at(index.row, bucket * regions + region) * int(ba.WORDS)


@embedded
def ask_region(index: BitsetArrays, region: int, scratch: BitsetScratch, count: int, work: I64) -> int:
    """`search_region` for the only event, in lane 0, where it may have matches."""
    lines, regions = lines_of(scratch, region, 0, 1), regions_of(index)
    if lines == 0:
        return count
    fetch_next(index, region, scratch)
    for i in range(len(index.attr)):
        for bucket in range(at(scratch.first, i), at(scratch.last, i) + 1):
            scratch.place[bucket] = at(index.row, bucket * regions + region) * int(ba.WORDS)
    return search_region(index, 0, region, lines, scratch, count, work)


@embedded
def fetch_next(index: BitsetArrays, region: int, scratch: BitsetScratch) -> None:
    """Have the rows of the next region that lane 0, the only one, looks at fetched meanwhile."""
    regions = regions_of(index)
    region += 1
    while region < regions and lines_of(scratch, region, 0, 1) == 0:
        region += 1
    if region == regions:
        return
    for i in range(len(index.attr)):
        row = at(index.row, at(scratch.first, i) * regions + region)
        remaining = np.uint64(lines_of(scratch, region, 0, 1) if row >= 0 else 0)
        while remaining != np.uint64(0):
            prefetch(index.rows, row * int(ba.WORDS) + ctz64(remaining) * int(VECTOR))
            remaining &= remaining - np.uint64(1)


@embedded
def search_region(
    index: BitsetArrays, lane: int, region: int, lines: int, scratch: BitsetScratch, count: int, work: I64
) -> int:
    """Append the entries in these lines of a region that pass all rows to the candidates; how many there are then."""
    rows, own, left = 0, lane * len(index.attr), scratch.left
    for i in range(own, own + len(index.attr)):
        place = at(scratch.place, at(scratch.first, i))
        scratch.offsets[rows] = place
        rows += (place >= 0) & (at(scratch.first, i) == at(scratch.last, i))
    if at(scratch.wide, lane):
        join_rows(index, own, scratch)
    open_words = np.uint64(0)
    remaining = np.uint64(lines)
    while remaining != np.uint64(0):
        line = ctz64(remaining)
        remaining &= remaining - np.uint64(1)
        for word in range(line * int(VECTOR), (line + 1) * int(VECTOR)):
            left[word] = at(scratch.start, word)
        some = and_rows(index.rows, scratch.offsets, rows, line * int(VECTOR), left)
        open_words |= some << np.uint64(line * int(VECTOR))
        work[counters.COMPARED] += rows
    before = count
    while open_words != np.uint64(0):
        word = ctz64(open_words)
        open_words &= open_words - np.uint64(1)
        bits = at(left, word)
        entry = (lane << SLOT_BITS) + region * int(ba.REGION) + (word << 6)
        while bits != np.uint64(0):
            candidate = entry + ctz64(bits)
            scratch.candidates[count] = candidate
            count += 1
            prefetch(index.entry_slot, candidate & int(ENTRY))
            codes = columns_of(len(index.attr)) * (candidate & int(ENTRY))
            prefetch(index.codes, codes)
            prefetch(index.codes, codes + int(COLUMNS))
            bits &= bits - np.uint64(1)
    if at(scratch.wide, lane):
        for word in range(int(ba.WORDS)):
            scratch.start[word] = ~np.uint64(0)
    work[counters.NODES] += 1
    work[counters.CANDIDATES] += count - before
    return count


@embedded
def join_rows(index: BitsetArrays, own: int, scratch: BitsetScratch) -> None:
    """Leave in `start` the entries that may pass in one of the buckets of each value that has several."""
    for i in range(own, own + len(index.attr)):
        first, last = at(scratch.first, i), at(scratch.last, i)
        for word in range(int(ba.WORDS) if first < last else 0):
            joined = np.uint64(0)
            for bucket in range(first, last + 1):
                place = at(scratch.place, bucket)
                if place >= 0:
                    joined |= at(index.rows, place + word)
                elif place == int(ba.ALL) * int(ba.WORDS):
                    joined = ~np.uint64(0)
            scratch.start[word] &= joined


# --- candidates ----------------------------------------------------------------------------------------------------


@embedded
def settle(
    searched: Searched[BitsetArrays],
    asked: Asked,
    event: int,
    scratch: BitsetScratch,
    count: int,
    matches: Matches,
    found: int,
) -> int:
    """Write the candidates that match from matches.slots[found] on, lane 0 being `event`; where they end."""
    table, index, candidates = searched.table, searched.arrays, scratch.candidates
    for i in range(compare(index, asked.eligible, scratch, count)):
        lane, entry, sure = at(candidates, i) >> SLOT_BITS, at(candidates, i) & int(ENTRY), True
        if lane < 0:
            lane, sure = ~lane, False
        slot = at(index.entry_slot, entry)
        if sure or slot_is_found(table, asked.events, event + lane, slot, at(index.entry_clause, entry)):
            matches.slots[found] = (lane << SLOT_BITS) | slot
            found += 1
    return found


@embedded
def compare(index: BitsetArrays, eligible: U64, scratch: BitsetScratch, count: int) -> int:
    """Keep the eligible candidates whose codes pass; how many. The lane of one that is not sure is inverted."""
    candidates, vectors, kept = scratch.candidates, len(index.inexact), 0
    for i in range(count):
        lane, entry = at(candidates, i) >> SLOT_BITS, at(candidates, i) & int(ENTRY)
        if entry >= at(index.info, ba.ENTRIES):
            continue
        failed, doubtful = np.uint64(0), np.uint64(0)
        for vector in range(vectors):
            codes = columns_of(len(index.attr)) * entry + vector * int(COLUMNS)
            point = (lane * vectors + vector) * int(COLUMNS)
            failed |= below32(index.codes, codes, scratch.point, point)
            doubtful |= equal32(index.codes, codes, scratch.point, point) & at(index.inexact, vector)
        unsure = (doubtful != np.uint64(0)) | is_set(index.verify, entry)
        candidates[kept] = ((~lane if unsure else lane) << SLOT_BITS) | entry
        kept += (failed == np.uint64(0)) & is_set(eligible, at(index.entry_slot, entry))
    return kept


@embedded
def slot_is_found(table: SegmentArrays, events: EventArrays, e: int, slot: int, clause: int) -> bool:
    """Whether a clause holds, and none of its slot before it does."""
    if clause_failures(table, clause, events, e, 0) > 0:
        return False
    for earlier in range(at(table.clause_start, slot), clause):
        if clause_failures(table, earlier, events, e, 0) == 0:
            return False
    return True
