"""The kernels that match: from an event to the lists of its covering VCRs, and from lists to ascending slots.

vcr.txt, section 2.3.2: one multiplication an axis finds the pivot, and the distance table gives every covering VCR by
an addition. What comes out of their lists is marked (`marks.py`), since overlapped pieces, chains and grid points give
a slot more than once; what is only maybe is verified before it is read off.

Invariant: scratch is all zeros between events. Complexity: O(runs + entries + min(words, marks)) an event.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import earmark.index.vcr.arrays as vc
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import I64, U64
from earmark.flat.machine import at, ctz64
from earmark.index.counters import CANDIDATES, COMPARED, NODES, back_to, work_so_far
from earmark.index.kernels import Asked, Matches, Searched
from earmark.index.marks import AT_ONCE, MAYBE, SPARSE, mark, read_all, read_some, slot_holds, words_of
from earmark.index.vcr.arrays import END, VcrArrays
from earmark.index.vcr.build import find, rank
from earmark.jit import embedded, inlined
from earmark.segment.evaluate import ABSENT, eligible_word, find_attribute


class Box(NamedTuple):
    """An event's keys on the two attributes of the grid; a point has lo = hi.

    Or which VCRs meet it: on each axis, those that start at s with side w where lo - w <= s <= hi.
    """

    x_lo: int
    x_hi: int
    y_lo: int
    y_hi: int


@embedded
def match_events(searched: Searched[VcrArrays], asked: Asked, scratch: U64, matches: Matches) -> tuple[int, int]:
    """Slots that match each event, ascending (`kernels.py`); those of the residual are not among them."""
    index, work = searched.arrays, matches.work
    found = 0
    words = words_of(scratch)
    for e in range(asked.first, asked.last):
        before, marks, sparse, unsure = work_so_far(work), 0, True, False
        present, box = box_of(index.info, asked.events, e)
        if present:
            marks, sparse, unsure = gather(index, box, asked.eligible, scratch, words, work)
        if found + marks + AT_ONCE > len(matches.slots):
            scratch[:] = 0
            back_to(work, before)
            return found, e
        sparse = sparse and marks * SPARSE <= words
        if unsure:
            verify_marked(searched, asked, e, box, scratch, words, sparse, work)
        if sparse:
            count = read_some(scratch, words, asked.eligible, found, matches.slots)
        else:
            count = read_all(scratch, words, asked.eligible, found, marks > words, matches.slots)
        matches.counts[e - asked.first] = count
        found += count
    return found, asked.last


# --- lists -------------------------------------------------------------------------------------------------------


@inlined
def box_of(info: I64, events: EventArrays, e: int) -> tuple[bool, Box]:
    """Whether the event has what the grid asks for, and where it is in keys; without y, that is anywhere."""
    on_x, on_y, two = ABSENT, ABSENT, at(info, vc.ATTR_Y) != vc.NO_ATTRIBUTE
    if at(info, vc.ATTR_X) != vc.NO_ATTRIBUTE:
        on_x = find_attribute(events, e, at(info, vc.ATTR_X))
    if two and on_x != ABSENT:
        on_y = find_attribute(events, e, at(info, vc.ATTR_Y))
    if on_x == ABSENT or (two and on_y == ABSENT):
        return False, Box(0, 0, 0, 0)
    x_lo, x_hi, y_lo, y_hi = at(events.lo, on_x), at(events.hi, on_x), 0, 0
    if two:
        y_lo, y_hi = at(events.lo, on_y), at(events.hi, on_y)
    return True, Box(x_lo, x_hi, y_lo, y_hi)


@inlined
def gather(index: VcrArrays, box: Box, eligible: U64, scratch: U64, words: int, work: I64) -> tuple[int, bool, bool]:
    """Mark all entries of the lists of VCRs that cover the event.

    Returns how many there were, whether the summary was kept, and whether some may be maybe.
    """
    info = index.info
    first_x, last_x = position(index.cut_x, box.x_lo, box.x_hi, at(info, vc.MODE))
    first_y, last_y = 1, 0
    if at(info, vc.ATTR_Y) != vc.NO_ATTRIBUTE:
        first_y, last_y = position(index.cut_y, box.y_lo, box.y_hi, at(info, vc.MODE))
    lowest = 0 if at(info, vc.MODE) == vc.POINTS else 1
    if not (lowest <= first_x - last_x <= 1 and lowest <= first_y - last_y <= 1):
        reach = Box(first_x, last_x, first_y, last_y)
        return gather_box(index, reach, eligible, scratch, words, work), True, True
    kind = 2 * (first_x - last_x) + first_y - last_y
    pivot = at(info, vc.SHIFT) + (last_x - (1 << at(info, vc.KX))) * at(info, vc.STEP_X)
    pivot += (last_y - (1 << at(info, vc.KY))) * at(info, vc.STEP_Y)
    marks, sparse, hashed = 0, True, at(info, vc.STORE) == vc.HASHED
    if not hashed:
        marks, sparse = gather_runs(index, pivot, kind, scratch, words, work)
    if hashed or len(index.late_entry):
        marks += gather_each(index, pivot, kind, hashed, scratch, words, work)
    return marks, sparse, len(index.bounds) > 0 or len(index.late_entry) > 0


@inlined
def position(cuts: I64, lo: int, hi: int, mode: int) -> tuple[int, int]:
    """(first, last): a VCR that starts at s with side w meets the event when first - w <= s <= last.

    On grid points: the first point at or above lo, the last at or below hi. In cells, a VCR ends before s + w.
    """
    last = rank(cuts, hi)
    begin = last if lo == hi else rank(cuts, lo)
    if mode == vc.POINTS and begin >= 0 and at(cuts, begin) == lo:
        return begin, last
    return begin + 1, last


@inlined
def gather_runs(index: VcrArrays, pivot: int, kind: int, scratch: U64, words: int, work: I64) -> tuple[int, bool]:
    """From the array store: neighbouring lists are one behind the other, so a run is one list."""
    begin, end = at(index.run_start, kind), at(index.run_start, kind + 1)
    marks = 0
    for run in range(begin, end):
        low, high = pivot + at(index.run_first, run), pivot + at(index.run_last, run)
        work[NODES] += high - low + 1
        marks += at(index.start, high + 1) - at(index.start, low)
    sparse = marks * SPARSE <= words
    for run in range(begin, end):
        low = at(index.start, pivot + at(index.run_first, run))
        high = at(index.start, pivot + at(index.run_last, run) + 1)
        if sparse or len(index.bounds):
            for i in range(low, high):
                mark(scratch, words, at(index.entry, i), sparse)
        else:  # nothing is maybe
            for i in range(low, high):
                slot = at(index.entry, i)
                scratch[slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)
    return marks, sparse


@inlined
def gather_each(index: VcrArrays, pivot: int, kind: int, hashed: bool, scratch: U64, words: int, work: I64) -> int:
    """From the hashed store, if that is what it is, and from the delta: look every covering VCR up."""
    marks, late = 0, len(index.late_entry) > 0
    for run in range(at(index.run_start, kind), at(index.run_start, kind + 1)):
        low, high = pivot + at(index.run_first, run), pivot + at(index.run_last, run)
        work[NODES] += high - low + 1 if hashed else 0
        for vcr in range(low, high + 1):
            if hashed:
                marks += mark_hashed(index, vcr, scratch, words)
            link = at(index.late_head, find(index.late_key, vcr)) if late else END
            while link != END:
                mark(scratch, words, at(index.late_entry, link), True)
                link = at(index.late_next, link)
                marks += 1
    return marks


@inlined
def mark_hashed(index: VcrArrays, vcr: int, scratch: U64, words: int) -> int:
    """Mark the list of one VCR of the hashed store; a free place has an empty one."""
    place = find(index.key, vcr)
    begin, end = at(index.start, place), at(index.start, place + 1)
    for i in range(begin, end):
        mark(scratch, words, at(index.entry, i), True)
    return int(end - begin)


@inlined
def gather_box(index: VcrArrays, reach: Box, eligible: U64, scratch: U64, words: int, work: I64) -> int:
    """Mark what an event that is an interval may meet, on either axis or both; with too many look-ups, every slot."""
    info = index.info
    hashed = at(info, vc.STORE) == vc.HASHED
    whole_runs = not hashed and at(info, vc.STEP_X) == 1
    marks = 0
    for late in index.late_entry:
        mark(scratch, words, late | int(MAYBE), True)
        marks += 1
    rows = reach.y_hi - reach.y_lo + 1 + (2 << at(info, vc.KY))
    columns = 1 if whole_runs else reach.x_hi - reach.x_lo + 1 + (2 << at(info, vc.KX))
    if rows * columns * (at(info, vc.KX) + 1) * (at(info, vc.KY) + 1) > at(info, vc.SLOTS):
        limit = min(len(eligible), len(index.residual))
        for word in range(limit):
            scratch[words + word] |= eligible_word(eligible, word, 0, at(info, vc.SLOTS)) & ~index.residual[word]
            scratch[2 * words + (word >> 6)] |= np.uint64(1) << np.uint64(word & 63)
        return marks + (limit << 6)
    for tall in range(at(info, vc.KY) + 1):
        for y in range(max(0, reach.y_lo - (1 << tall)), reach.y_hi + 1):
            for broad in range(at(info, vc.KX) + 1):
                low = max(0, reach.x_lo - (1 << broad))
                if low > reach.x_hi:
                    continue
                vcr = at(info, vc.SHIFT) + low * at(info, vc.STEP_X) + y * at(info, vc.STEP_Y)
                vcr += broad * at(info, vc.STEP_I) + tall * at(info, vc.STEP_J)
                lists = reach.x_hi - low + 1
                work[NODES] += lists
                for _ in range(1 if whole_runs else lists):
                    if hashed:
                        marks += mark_hashed(index, vcr, scratch, words)
                    else:
                        end = at(index.start, vcr + (lists if whole_runs else 1))
                        for i in range(at(index.start, vcr), end):
                            mark(scratch, words, at(index.entry, i), True)
                        marks += end - at(index.start, vcr)
                    vcr += at(info, vc.STEP_X)
    return int(marks)


# --- answers -----------------------------------------------------------------------------------------------------


@inlined
def holds(searched: Searched[VcrArrays], events: EventArrays, e: int, box: Box, slot: int, work: I64) -> bool:
    """Whether the event matches the slot: by its bounds if those are all there is, or clause by clause."""
    bounds = searched.arrays.bounds
    work[CANDIDATES] += 1
    own = slot << 2
    if own < len(bounds) and at(bounds, own) <= at(bounds, own + 1):
        work[COMPARED] += 2
        meets_x = (at(bounds, own) <= box.x_hi) & (box.x_lo <= at(bounds, own + 1))
        return bool(meets_x & (at(bounds, own + 2) <= box.y_hi) & (box.y_lo <= at(bounds, own + 3)))
    return slot_holds(searched.table, events, e, slot, work)


@inlined
def verify_word(
    searched: Searched[VcrArrays], asked: Asked, e: int, box: Box, scratch: U64, words: int, word: int, work: I64
) -> None:
    """Move those of the word's maybe slots that match to sure."""
    left = at(scratch, words + word)
    if left == 0:
        return
    scratch[words + word] = 0
    if word >= len(asked.eligible):
        return
    left &= at(asked.eligible, word) & ~at(scratch, word)
    while left:
        if holds(searched, asked.events, e, box, (word << 6) + ctz64(left), work):
            scratch[word] |= left & (~left + np.uint64(1))
        left &= left - np.uint64(1)


@inlined
def verify_marked(
    searched: Searched[VcrArrays], asked: Asked, e: int, box: Box, scratch: U64, words: int, sparse: bool, work: I64
) -> None:
    """Move the maybe slots that match to sure, in the words that the summary names or, with many marks, in all."""
    if not sparse:
        for word in range(words):
            verify_word(searched, asked, e, box, scratch, words, word, work)
        return
    for group in range((words + 63) >> 6):
        used = at(scratch, 2 * words + group)
        while used:
            verify_word(searched, asked, e, box, scratch, words, (group << 6) + ctz64(used), work)
            used &= used - np.uint64(1)
