"""From lists of slots to ascending answers: bitmaps that entries are marked in, and that are read off and left zero.

A first stage that finds slots in lists finds them in any order, and perhaps more than once. Marked in a bitmap,
duplicates vanish, and the answer is read off in ascending order. An entry whose slot must still be verified (`MAYBE`)
is marked in a second one:

    scratch    sure words | maybe words | summary: a bit for each pair of words that may be set

With few marks the summary says which words to look at; with many all words are read, and no summary is kept.

Invariant: scratch is all zeros between events. Complexity: O(marks) to mark, O(min(words, marks) + answer) to read.
"""

from __future__ import annotations

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat.arrays import I32, I64, U64
from earmark.flat.machine import at, ctz64, popcount64
from earmark.index.counters import COMPARED
from earmark.index.kernels import Asked, Matches
from earmark.index.ranking import Heaps, push, sort_heap
from earmark.jit import inlined, kernel
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import clause_failures, slot_score

MAYBE = 1 << 31
"""Bit of an entry whose slot must be verified: it is in the list for more than it asks, or it asks for more."""
SLOT = MAYBE - 1
"""The other bits."""

SPARSE = 16
"""With fewer marks than one for this many words, the summary is worth its upkeep."""

FEW = 24
"""Up to this many slots of an event are sorted by insertion."""

AT_ONCE = 4
"""Slots that are read off a word at a time where most words have several."""


def new_marks(slots: int) -> tuple[U64, U64]:
    """A bitmap over slots, and one over its words; both zeros."""
    words = (slots + 63) >> 6
    return np.zeros(words, np.uint64), np.zeros((words >> 6) + 1, np.uint64)


def scratch_words(slots: int) -> int:
    """Words of scratch for this many slots."""
    words = max(1, (slots + 63) >> 6)
    return 2 * words + ((words + 63) >> 6)


@inlined
def is_set(bitmap: U64, slot: int) -> bool:
    """Whether a bitmap has a slot; past its end it has none."""
    word = slot >> 6
    return word < len(bitmap) and (at(bitmap, word) >> np.uint64(slot & 63)) & np.uint64(1) != 0


@inlined
def words_of(scratch: U64) -> int:
    """The words of each of its two bitmaps: the n of n + n + ceil(n / 64)."""
    words = len(scratch) * 64 // 129
    while 2 * words + ((words + 63) >> 6) < len(scratch):
        words += 1
    return words


@inlined
def mark(scratch: U64, words: int, entry: int, sparse: bool) -> None:
    """Mark the slot of an entry as sure or maybe."""
    slot = entry & int(SLOT)
    word = slot >> 6
    scratch[word + (words if entry >= int(MAYBE) else 0)] |= np.uint64(1) << np.uint64(slot & 63)
    if sparse:
        scratch[2 * words + (word >> 6)] |= np.uint64(1) << np.uint64(word & 63)


@inlined
def slot_holds(table: SegmentArrays, events: EventArrays, e: int, slot: int, work: I64) -> bool:
    """Whether the event matches the slot, clause by clause; a clause that is verified counts all its constraints."""
    for clause in range(at(table.clause_start, slot), at(table.clause_start, slot + 1)):
        work[COMPARED] += at(table.constraint_start, clause + 1) - at(table.constraint_start, clause)
        if clause_failures(table, clause, events, e, 0) == 0:
            return True
    return False


@inlined
def read_word(scratch: U64, eligible: U64, word: int, found: int, many: bool, out: I32) -> int:
    """Write the word's sure and eligible slots from out[found] on; returns where they end. The word becomes 0.

    Whether there is another slot cannot be predicted, so some are written in any case, past the end if need be:
    several where most words have `many`, one where most have none.
    """
    left = at(scratch, word) & at(eligible, word)
    scratch[word] = 0
    end = found + popcount64(left)
    if many:
        while found < end:
            for step in range(AT_ONCE):
                out[found + step] = (word << 6) + ctz64(left)
                left &= left - np.uint64(left != 0)
            found += AT_ONCE
        return end
    out[found] = (word << 6) + ctz64(left)
    while found + 1 < end:
        left &= left - np.uint64(1)
        found += 1
        out[found] = (word << 6) + ctz64(left)
    return end


@inlined
def read_all(scratch: U64, words: int, eligible: U64, found: int, many: bool, out: I32) -> int:
    """Read every word; returns how many slots there were."""
    begin = found
    limit = min(words, len(eligible))
    for word in range(limit):
        found = read_word(scratch, eligible, word, found, many, out)
    for word in range(limit, words):
        scratch[word] = 0
    for group in range(2 * words, len(scratch)):
        scratch[group] = 0
    return found - begin


@inlined
def read_some(scratch: U64, words: int, eligible: U64, found: int, out: I32) -> int:
    """Read the words that the summary names; returns how many slots there were."""
    begin = found
    for group in range((words + 63) >> 6):
        used = at(scratch, 2 * words + group)
        scratch[2 * words + group] = 0
        while used:
            word = (group << 6) + ctz64(used)
            used &= used - np.uint64(1)
            if word < len(eligible):
                found = read_word(scratch, eligible, word, found, False, out)
            else:
                scratch[word] = 0
    return found - begin


@inlined
def first_time(table: SegmentArrays, slot: int, marks: U64, summary: U64) -> bool:
    """Whether a slot comes up for the first time since `clear_marks`; slots of one clause always do."""
    if at(table.clause_start, slot + 1) - at(table.clause_start, slot) == 1:
        return True
    word, bit = slot >> 6, np.uint64(1) << np.uint64(slot & 63)
    if at(marks, word) & bit:
        return False
    marks[word] |= bit
    summary[word >> 6] |= np.uint64(1) << np.uint64(word & 63)
    return True


@inlined
def clear_marks(marks: U64, summary: U64) -> None:
    """Forget which slots came up."""
    for block in range(len(summary)):
        words = at(summary, block)
        summary[block] = 0
        while words:
            marks[(block << 6) + ctz64(words)] = 0
            words &= words - np.uint64(1)


@inlined
def sort_slots(out: I32, begin: int, count: int, marks: U64, summary: U64) -> int:
    """Sort the slots out[begin:] of one event and drop doubles; returns how many are left.

    Few are sorted by insertion, many through a bitmap over slots, `marks`, with a second one over its words; both are
    zeros before and after.
    """
    if count <= FEW:
        return _sort_few(out, begin, count)
    ascending = 1
    while ascending < count and at(out, begin + ascending - 1) < at(out, begin + ascending):
        ascending += 1
    if ascending == count:
        return count
    low, high = len(summary), 0
    for i in range(begin, begin + count):
        word = at(out, i) >> 6
        marks[word] |= np.uint64(1) << np.uint64(at(out, i) & 63)
        summary[word >> 6] |= np.uint64(1) << np.uint64(word & 63)
        low, high = min(low, word >> 6), max(high, word >> 6)
    left = begin
    for block in range(low, high + 1):
        words = at(summary, block)
        summary[block] = 0
        while words:
            word = (block << 6) + ctz64(words)
            words &= words - np.uint64(1)
            bits = at(marks, word)
            marks[word] = 0
            while bits:
                out[left] = (word << 6) + ctz64(bits)
                left += 1
                bits &= bits - np.uint64(1)
    return left - begin


@inlined
def _sort_few(out: I32, begin: int, count: int) -> int:
    left = 0
    for i in range(count):
        slot = out[begin + i]
        j = left
        while j and out[begin + j - 1] > slot:
            j -= 1
        if j and out[begin + j - 1] == slot:
            continue
        for k in range(left, j, -1):
            out[begin + k] = out[begin + k - 1]
        out[begin + j] = slot
        left += 1
    return left


@kernel
def rank_matches(table: SegmentArrays, asked: Asked, counts: I64, slots: I32, heaps: Heaps) -> None:
    """Leave in heap e - asked.first the k best of the matches of event e, best first."""
    i = 0
    for lane in range(len(counts)):
        for _ in range(counts[lane]):
            slot = slots[i]
            _, score = slot_score(table, slot, asked.events, asked.first + lane, False)
            push(heaps, lane, asked.k, score, table.sequence[slot], slot)
            i += 1
        sort_heap(heaps, lane * asked.k, heaps.size[lane])


@inlined
def close_event(matches: Matches, lane: int, begin: int, end: int, marks: U64, summary: U64) -> int:
    """Sort the slots begin..end of one event, drop duplicates and count them; returns where the next event begins."""
    count = sort_slots(matches.slots, begin, end - begin, marks, summary)
    matches.counts[lane] = count
    return begin + count
