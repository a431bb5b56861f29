"""The searches of a k-index: by conjunction, by counting, and for the best.

A *term* is an attribute of the event with the posting lists of its value, at most one per level.

**Conjunction** (Whang et al., Algorithm 1). In partition K a clause matches when it is in K terms. Terms are kept in
the order of their current entries; the K-th of them is the *pivot*. No entry before the pivot's can be in K terms, so
the terms before it skip there; when the first is there too, all K are, and that is a match.

    K = 2     a: 3 7 9        currents 3, 4, 8: the pivot is 4, so a skips to 7;
              b: 4 9          currents 4, 7, 8: the pivot is 7, so b skips to 9;
              c: 8            currents 7, 8, 9: the pivot is 8, so a skips to 9;
                              currents 8, 9, 9: the pivot is 9, c ends; then a and b are both at 9: a match

**Counting.** Every posting of every term lowers the count of its entry by one; an entry whose count reaches zero
matches. It reads every posting once, without keeping any order. Interval values spread over many nodes, in which an
entry may be more than once: these are counted, and a stamp keeps an entry from counting twice for one term.

**The best k** (section 5 there). A list has one bound, the greatest weight in it, whatever the entry: this is flat, and
tells nothing about the entries still to come. It is used twice: the pivot moves on until the terms up to it could
together reach the k-th best score, and a partition is skipped when all its terms together cannot.

**Relaxed.** All entries that are in some term, those in most terms first, until the heaviest terms of the event
together cannot reach the k-th score with fewer; and every clause that may hold through what has no postings.

Invariant: a bound is never below the score it bounds (`raised` leaves room for the order of summation), and only what
is strictly below the k-th score is skipped, because equal scores go by sequence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat.arrays import F64, I32, I64, U8, U64
from earmark.flat.bisection import bisect_left, bisect_right
from earmark.flat.machine import at
from earmark.index.counters import CANDIDATES, COMPARED, MATCHED, NODES, PRUNED, SCORED, back_to, work_so_far
from earmark.index.k_index.arrays import BITS, KIndexArrays
from earmark.index.kernels import Asked, Matches, Searched, TopK, push_living
from earmark.index.marks import clear_marks, close_event, first_time, is_set, new_marks
from earmark.index.ranking import Heaps, raised, sort_heap
from earmark.jit import embedded, inlined
from earmark.segment.evaluate import clause_failures, slot_score, static_score

END = np.iinfo(np.int32).max
"""Current entry of a list that has ended."""

TERM_BITS = 24
"""The low bits of a place in the queue, which are the term."""


class PostingScratch(NamedTuple):
    """Working memory of one search: the posting lists of an event, grouped by term, and what is counted by entry.

    Every search leaves `left` equal to `required`.
    """

    place: I64
    """By list: where it is, and where it ends, in `posting`."""
    end: I64
    head: I32
    """By list: the entry it is at, or END."""
    first: I64
    """By term: its first list; the next term's is where it ends."""
    bound: F64
    """By term: no entry gains more from it."""
    queue: I64
    """The terms by the least entry that their lists are at: entry << TERM_BITS | term, so that one load compares."""
    extended: U8
    """By term: whether an entry may be in it more than once."""
    sums: F64
    """The greatest sum of the bounds of 0, 1, 2 … terms."""
    left: U8
    """By entry: predicates that have not been hit."""
    stamp: I64
    """By entry: the term, numbered over all searches, that counted last; only for interval values."""
    hits: I32
    """The entries that a search has found, before they are verified."""
    stamped: I64
    """One field: the last number given to a term."""
    marks: U64
    summary: U64
    """Slots that came up, and the words of `marks` that are not zero; zeros between events."""


class Postings(NamedTuple):
    """What kernels read: the arrays, how terms are merged, and the most that a clause scores besides its postings.

    That is its static score (at least 0), and the weights of constraints that are not posted.
    """

    lists: KIndexArrays
    conjunction: bool
    highest: float
    extra: float


def new_scratch(index: KIndexArrays, slots: int) -> PostingScratch:
    """Make working memory for events that have all attributes. Untouched parts cost nothing."""
    lists, attributes, entries = len(index.level_first) - 1, len(index.level_start) - 1, len(index.required)
    marks, summary = new_marks(slots)
    return PostingScratch(
        place=np.empty(lists, np.int64),
        end=np.empty(lists, np.int64),
        head=np.empty(lists, np.int32),
        first=np.empty(attributes + 1, np.int64),
        bound=np.empty(attributes),
        queue=np.empty(attributes, np.int64),
        extended=np.empty(attributes, np.uint8),
        sums=np.empty(attributes + 2),
        left=index.required.copy(),
        stamp=np.zeros(entries, np.int64),
        hits=np.empty(entries, np.int32),
        stamped=np.zeros(1, np.int64),
        marks=marks,
        summary=summary,
    )


@inlined
def _cell(index: KIndexArrays, attr: int, key: int) -> int:
    """The cell of an attribute's line that contains a key."""
    begin, end = at(index.coordinate_start, attr), at(index.coordinate_start, attr + 1)
    return int(bisect_right(index.coordinate, begin, end, key) - begin)


@inlined
def open_terms(
    index: KIndexArrays, events: EventArrays, e: int, least: int, scratch: PostingScratch, work: I64
) -> tuple[int, bool]:
    """Find the lists of the event; returns the number of its terms, and whether one of them is extended.

    Entries below `least` are skipped.
    """
    count, lists, some = 0, 0, False
    attributes = len(index.level_start) - 1
    for position in range(at(events.start, e), at(events.start, e + 1)):
        attr = at(events.attr, position)
        if attr >= attributes or at(index.level_start, attr) == at(index.level_start, attr + 1):
            continue
        low = high = _cell(index, attr, at(events.lo, position))
        if at(events.lo, position) != at(events.hi, position):
            high = _cell(index, attr, at(events.hi, position))
        scratch.first[count] = lists
        scratch.extended[count] = low < high
        greatest, current = 0.0, int(END)
        for level in range(at(index.level_start, attr), at(index.level_start, attr + 1)):
            base = at(index.level_first, level)
            begin, end = at(index.posting_start, base + low), at(index.posting_start, base + high + 1)
            if len(index.bound):
                for node in range(base + low, base + high + 1):
                    greatest = max(greatest, float(at(index.bound, node)))
            low >>= at(index.header, BITS)
            high >>= at(index.header, BITS)
            if begin < end and not scratch.extended[count] and least:
                begin = _seek(index.posting, begin, end, least, work)
            if begin < end:
                scratch.place[lists], scratch.end[lists] = begin, end
                scratch.head[lists] = at(index.posting, begin)
                current = min(current, int(scratch.head[lists]))
                lists += 1
        if lists == at(scratch.first, count):
            continue
        weight = at(events.weight, position) if len(events.weight) else 1.0
        scratch.bound[count] = weight * (greatest if len(index.bound) else 1.0)
        some |= scratch.extended[count] != 0
        place, j = (current << TERM_BITS) | count, count
        while j and at(scratch.queue, j - 1) > place:
            scratch.queue[j] = at(scratch.queue, j - 1)
            j -= 1
        scratch.queue[j] = place
        count += 1
    scratch.first[count] = lists
    work[NODES] += lists
    return count, some


@inlined
def _seek(posting: I32, place: int, end: int, entry: int, work: I64) -> int:
    """The first place from `place` on with `entry` or a later one. Doubling steps, then a binary search.

    Every posting that it looks at is a comparison.
    """
    if place >= end:
        return place
    work[COMPARED] += 1
    if at(posting, place) >= entry:
        return place
    step = 1
    while place + step < end:
        work[COMPARED] += 1
        if at(posting, place + step) >= entry:
            break
        place += step
        step += step
    high = min(end, place + step)
    width = high - place - 1
    while width > 0:  # the steps of the binary search
        work[COMPARED] += 1
        width >>= 1
    return bisect_left(posting, place + 1, high, entry)


@inlined
def _skip(index: KIndexArrays, scratch: PostingScratch, term: int, entry: int, work: I64) -> int:
    """Move a term to its first entry that is not below `entry`; returns its place in the queue."""
    current = int(END)
    for i in range(at(scratch.first, term), at(scratch.first, term + 1)):
        head = int(at(scratch.head, i))
        if head < entry:
            place = _seek(index.posting, at(scratch.place, i), at(scratch.end, i), entry, work)
            scratch.place[i] = place
            head = int(at(index.posting, place)) if place < at(scratch.end, i) else int(END)
            scratch.head[i] = head
        current = min(current, head)
    return (current << TERM_BITS) | term


@inlined
def _have_met(index: KIndexArrays, scratch: PostingScratch, size: int, count: int, begin: int, work: I64) -> bool:
    """Whether the first `size` terms of the queue are all at one entry, not before `begin`; moves them on.

    That is past the entry if they are, to that of the last of them if not, and at least to `begin`; then the queue is
    in order again.
    """
    target, changed = _entry(scratch, size - 1), size
    met = target >= begin and _entry(scratch, 0) == target
    if met:
        target += 1
    elif target >= begin:
        changed -= 1
    else:
        target = begin
    for i in range(changed - 1, -1, -1):
        place = _skip(index, scratch, _term(scratch, i), target, work)
        j = i
        while j + 1 < count and at(scratch.queue, j + 1) < place:
            scratch.queue[j] = at(scratch.queue, j + 1)
            j += 1
        scratch.queue[j] = place
    return met


@inlined
def _term(scratch: PostingScratch, i: int) -> int:
    """The i-th term of the queue."""
    return int(at(scratch.queue, i) & ((1 << TERM_BITS) - 1))


@inlined
def _entry(scratch: PostingScratch, i: int) -> int:
    """The entry that the i-th term of the queue is at."""
    return int(at(scratch.queue, i) >> TERM_BITS)


@inlined
def _first_possible(index: KIndexArrays, events: EventArrays, e: int) -> int:
    """The first partition whose size an event has values for."""
    partition, values = 0, at(events.start, e + 1) - at(events.start, e)
    while partition < len(index.partition_size) and at(index.partition_size, partition) > values:
        partition += 1
    return partition


@inlined
def _without_postings(index: KIndexArrays) -> int:
    """The number of entries without postings; they are the last ones that can match."""
    final = len(index.partition_size) - 1
    if final < 0 or at(index.partition_size, final):
        return 0
    return int(at(index.partition_first, final + 1) - at(index.partition_first, final))


@embedded
def match_events(
    searched: Searched[Postings], asked: Asked, scratch: PostingScratch, matches: Matches
) -> tuple[int, int]:
    """Find the slots that match each event, ascending (`kernels.py`)."""
    index, work = searched.arrays.lists, matches.work
    found = 0
    for e in range(asked.first, asked.last):
        before = work_so_far(work)
        hits = _find(searched, asked.events, e, scratch, work)
        end = _write_hits(searched, asked, e, hits, scratch, matches, found)
        if end < 0:
            back_to(work, before)
            return found, e
        work[CANDIDATES] += hits + _without_postings(index)
        found = close_event(matches, e - asked.first, found, end, scratch.marks, scratch.summary)
    return found, asked.last


@inlined
def _write_hits(
    searched: Searched[Postings], asked: Asked, e: int, hits: int, scratch: PostingScratch, matches: Matches, found: int
) -> int:
    """Append the slots of entries that match, one per clause, in any order; returns their end, or -1 without room."""
    table, index = searched.table, searched.arrays.lists
    free = _without_postings(index)
    for i in range(hits + free):
        entry = at(scratch.hits, i) if i < hits else index.partition_first[-1] - free + i - hits
        slot = at(index.slot_of, entry)
        if not is_set(asked.eligible, slot):
            continue
        if at(index.loose, entry):
            clause = at(index.clause_of, entry)
            matches.work[COMPARED] += at(table.constraint_start, clause + 1) - at(table.constraint_start, clause)
            if clause_failures(table, clause, asked.events, e, 0):
                continue
        if found == len(matches.slots):
            return -1
        matches.slots[found] = slot
        found += 1
    return found


@inlined
def _find(searched: Searched[Postings], events: EventArrays, e: int, scratch: PostingScratch, work: I64) -> int:
    """Write the entries whose posted predicates all hold into `hits`; returns their number."""
    index = searched.arrays.lists
    partition = _first_possible(index, events, e)
    count, extended = open_terms(index, events, e, int(at(index.partition_first, partition)), scratch, work)
    if not searched.arrays.conjunction or extended:
        found, _ = _count(index, scratch, count, False, work)
        _restore(index, scratch, count)
        return found
    found = 0
    for p in range(partition, len(index.partition_size)):
        size = at(index.partition_size, p)
        begin, limit = int(at(index.partition_first, p)), int(at(index.partition_first, p + 1))
        if size > count or size == 0:
            continue
        while True:
            entry = _entry(scratch, size - 1)
            if entry >= limit:
                break
            if _have_met(index, scratch, size, count, begin, work):
                scratch.hits[found] = entry
                found += 1
    return found


@inlined
def _count(index: KIndexArrays, scratch: PostingScratch, count: int, relaxed: bool, work: I64) -> tuple[int, int]:
    """Write the entries whose posted predicates all hold, or any (relaxed), into `hits`.

    Returns their number, and the most predicates that hold for one of them.
    """
    found, most = 0, 0
    for term in range(count):
        scratch.stamped[0] += 1
        number = scratch.stamped[0]
        extended = at(scratch.extended, term)
        for i in range(at(scratch.first, term), at(scratch.first, term + 1)):
            work[COMPARED] += at(scratch.end, i) - at(scratch.place, i)
            for place in range(at(scratch.place, i), at(scratch.end, i)):
                entry = at(index.posting, place)
                if extended:
                    if at(scratch.stamp, entry) == number:
                        continue
                    scratch.stamp[entry] = number
                left = int(at(scratch.left, entry)) - 1
                scratch.left[entry] = left
                if relaxed:
                    held = int(at(index.required, entry)) - left
                    most = max(most, held)
                    if held == 1:
                        scratch.hits[found] = entry
                        found += 1
                elif left == 0:
                    scratch.hits[found] = entry
                    found += 1
                    most = max(most, int(at(index.required, entry)))
    return found, most


@inlined
def _restore(index: KIndexArrays, scratch: PostingScratch, count: int) -> None:
    """Set `left` to `required` again."""
    for i in range(at(scratch.first, count)):
        for place in range(at(scratch.place, i), at(scratch.end, i)):
            entry = at(index.posting, place)
            scratch.left[entry] = at(index.required, entry)


@embedded
def rank_events(searched: Searched[Postings], asked: Asked, scratch: PostingScratch, heaps: Heaps, work: I64) -> None:
    """Leave in the heap of each event its k best, best first (`kernels.py`)."""
    index = searched.arrays.lists
    top = TopK(searched, asked, scratch, heaps, work)
    for e in range(asked.first, asked.last):
        partition = 0 if asked.relaxed else _first_possible(index, asked.events, e)
        least = 0 if asked.relaxed else int(at(index.partition_first, partition))
        count, extended = open_terms(index, asked.events, e, least, scratch, work)
        _heaviest_sums(scratch, count)
        merging = searched.arrays.conjunction and not asked.relaxed and not extended
        if merging:
            _rank_merging(top, e, partition, count)
        _rank_counting(top, e, merging, count)
        clear_marks(scratch.marks, scratch.summary)
        lane = e - asked.first
        sort_heap(heaps, lane * asked.k, heaps.size[lane])


@inlined
def _heaviest_sums(scratch: PostingScratch, count: int) -> None:
    """Fill in `sums`."""
    sums = scratch.sums
    sums[0] = 0.0
    for i in range(count):
        bound, j = at(scratch.bound, i), i
        while j and at(sums, j) < bound:
            sums[j + 1] = at(sums, j)
            j -= 1
        sums[j + 1] = bound
    for j in range(1, count + 1):
        sums[j] += sums[j - 1]


@inlined
def _floor(heaps: Heaps, lane: int, k: int) -> float:
    """The score that the next answer must reach: the k-th best, once there are k."""
    return heaps.score[lane * k] if at(heaps.size, lane) == k else -np.inf


@inlined
def _offer(top: TopK, e: int, entry: int) -> None:
    """Score an entry's slot, unless that has been done, and keep it if it is among the k best."""
    table, asked, scratch, work = top.searched.table, top.asked, top.scratch, top.work
    slot = int(at(top.searched.arrays.lists.slot_of, entry))
    if not is_set(asked.eligible, slot):
        return
    work[CANDIDATES] += 1
    if not first_time(table, slot, scratch.marks, scratch.summary):
        return
    if asked.relaxed or at(top.searched.arrays.lists.loose, entry):  # what postings have not shown is verified
        first, last = at(table.clause_start, slot), at(table.clause_start, slot + 1)
        work[COMPARED] += at(table.constraint_start, last) - at(table.constraint_start, first)
    qualifies, score = slot_score(table, slot, asked.events, e, asked.relaxed)
    work[SCORED] += 1
    if qualifies:
        work[MATCHED] += 1
        push_living(top.heaps, table, asked, e, score, at(table.sequence, slot), slot)


@inlined
def _rank_merging(top: TopK, e: int, partition: int, count: int) -> None:
    """Search by conjunction; the pivot also has to reach the k-th score."""
    index, scratch, asked = top.searched.arrays.lists, top.scratch, top.asked
    heaps, work, lane, k = top.heaps, top.work, e - asked.first, asked.k
    for p in range(partition, len(index.partition_size)):
        size = at(index.partition_size, p)
        begin, limit = int(at(index.partition_first, p)), int(at(index.partition_first, p + 1))
        if size > count or size == 0:
            continue
        base = at(index.partition_score, p) + at(index.partition_extra, p) * asked.heaviest
        if raised(base, scratch.sums[size]) < _floor(heaps, lane, k):
            work[PRUNED] += 1
            continue
        while True:
            floor = _floor(heaps, lane, k)
            reach, pivot = 0.0, -1
            while pivot + 1 < count and (pivot + 1 < size or raised(base, reach) < floor):
                pivot += 1
                reach += at(scratch.bound, _term(scratch, pivot))
            entry = _entry(scratch, pivot)
            if entry >= limit or raised(base, reach) < floor:
                break
            work[PRUNED] += pivot + 1 - size
            if _have_met(index, scratch, pivot + 1, count, begin, work):
                _offer(top, e, entry)


@inlined
def _rank_counting(top: TopK, e: int, merged: bool, count: int) -> None:
    """Rank clauses without postings, then those that postings find (unless merged before), most predicates first."""
    searched, asked, heaps, work, relaxed = top.searched, top.asked, top.heaps, top.work, top.asked.relaxed
    index, scratch = searched.arrays.lists, top.scratch
    lane, k = e - asked.first, asked.k
    highest = searched.arrays.highest + (0.0 if relaxed else asked.heaviest * searched.arrays.extra)
    found, most = 0, 0
    if not merged:
        found, most = _count(index, scratch, count, relaxed, work)
    free = _without_postings(index)
    for held in range(most + 1, 0, -1):
        unposted = held > most  # the first round: clauses to verify whatever the postings say
        if not unposted and raised(highest, scratch.sums[held]) < _floor(heaps, lane, k):
            work[PRUNED] += 1
            break
        for i in range((len(index.always) if relaxed else free) if unposted else found):
            if unposted:
                entry = int(at(index.always, i)) if relaxed else index.partition_first[-1] - free + i
            else:
                entry = int(at(scratch.hits, i))
                if int(at(index.required, entry)) - int(at(scratch.left, entry)) != held:
                    continue
                if at(index.loose, entry):
                    if relaxed:
                        continue
                else:
                    static = static_score(searched.table, at(index.slot_of, entry))
                    if raised(static, scratch.sums[held]) < _floor(heaps, lane, k):
                        work[PRUNED] += 1
                        continue
            _offer(top, e, entry)
    if not merged:
        _restore(index, scratch, count)
