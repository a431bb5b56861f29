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
from earmark.index.kernels import Asked, Matches, Searched, TopK
from earmark.index.marks import clear_marks, close_event, first_time, is_set, new_marks
from earmark.index.ranking import Heaps, push, raised, sort_heap
from earmark.jit import inlined, kernel
from earmark.segment.evaluate import clause_failures, slot_score, static_score

END = np.iinfo(np.int32).max
"""Current entry of a list that has ended."""

TERM_BITS = 24
"""The low bits of a place in the queue, which are the term."""


class Terms(NamedTuple):
    """The posting lists of one event, grouped by term; working space of one search."""

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


class Counts(NamedTuple):
    """Working memory by entry; every search leaves `left` equal to `required`."""

    left: U8
    stamp: I64
    """The term, numbered over all searches, that counted last; only for interval values."""
    hits: I32
    """The entries that a search has found, before they are verified."""
    stamped: I64
    """One field: the last number given to a term."""
    marks: U64
    summary: U64
    """Slots that came up, and the words of `marks` that are not zero; zeros between events."""


class PostingScratch(NamedTuple):
    """Working memory of a search."""

    terms: Terms
    counts: Counts


class Postings(NamedTuple):
    """What kernels read: the arrays, how terms are merged, and the greatest static score (at least 0)."""

    lists: KIndexArrays
    conjunction: bool
    highest: float


def new_scratch(index: KIndexArrays, slots: int) -> PostingScratch:
    """Make working memory for events that have all attributes. Untouched parts cost nothing."""
    lists, attributes, entries = len(index.level_first) - 1, len(index.level_start) - 1, len(index.required)
    terms = Terms(
        place=np.empty(lists, np.int64),
        end=np.empty(lists, np.int64),
        head=np.empty(lists, np.int32),
        first=np.empty(attributes + 1, np.int64),
        bound=np.empty(attributes),
        queue=np.empty(attributes, np.int64),
        extended=np.empty(attributes, np.uint8),
        sums=np.empty(attributes + 2),
    )
    left, stamp, hits = index.required.copy(), np.zeros(entries, np.int64), np.empty(entries, np.int32)
    return PostingScratch(terms, Counts(left, stamp, hits, np.zeros(1, np.int64), *new_marks(slots)))


@inlined
def _cell(index: KIndexArrays, attr: int, key: int) -> int:
    """The cell of an attribute's line that contains a key."""
    begin, end = at(index.coordinate_start, attr), at(index.coordinate_start, attr + 1)
    return int(bisect_right(index.coordinate, begin, end, key) - begin)


@inlined
def open_terms(
    index: KIndexArrays, events: EventArrays, e: int, least: int, terms: Terms, work: I64
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
        terms.first[count] = lists
        terms.extended[count] = low < high
        greatest, current = 0.0, int(END)
        for level in range(at(index.level_start, attr), at(index.level_start, attr + 1)):
            base = at(index.level_first, level)
            begin, end = at(index.posting_start, base + low), at(index.posting_start, base + high + 1)
            if len(index.bound):
                for node in range(base + low, base + high + 1):
                    greatest = max(greatest, float(at(index.bound, node)))
            low >>= at(index.header, BITS)
            high >>= at(index.header, BITS)
            if begin < end and not terms.extended[count] and least:
                begin = _seek(index.posting, begin, end, least)
            if begin < end:
                terms.place[lists], terms.end[lists] = begin, end
                terms.head[lists] = at(index.posting, begin)
                current = min(current, int(terms.head[lists]))
                lists += 1
        if lists == at(terms.first, count):
            continue
        weight = at(events.weight, position) if len(events.weight) else 1.0
        terms.bound[count] = weight * (greatest if len(index.bound) else 1.0)
        some |= terms.extended[count] != 0
        place, j = (current << TERM_BITS) | count, count
        while j and at(terms.queue, j - 1) > place:
            terms.queue[j] = at(terms.queue, j - 1)
            j -= 1
        terms.queue[j] = place
        count += 1
    terms.first[count] = lists
    work[NODES] += lists
    return count, some


@inlined
def _seek(posting: I32, place: int, end: int, entry: int) -> int:
    """The first place from `place` on with `entry` or a later one. Doubling steps, then a binary search."""
    if place >= end or at(posting, place) >= entry:
        return place
    step = 1
    while place + step < end and at(posting, place + step) < entry:
        place += step
        step += step
    return bisect_left(posting, place + 1, min(end, place + step), entry)


@inlined
def _skip(index: KIndexArrays, terms: Terms, term: int, entry: int, work: I64) -> int:
    """Move a term to its first entry that is not below `entry`; returns its place in the queue."""
    current = int(END)
    for i in range(at(terms.first, term), at(terms.first, term + 1)):
        head = int(at(terms.head, i))
        if head < entry:
            work[COMPARED] += 1
            place = _seek(index.posting, at(terms.place, i), at(terms.end, i), entry)
            terms.place[i] = place
            head = int(at(index.posting, place)) if place < at(terms.end, i) else int(END)
            terms.head[i] = head
        current = min(current, head)
    return (current << TERM_BITS) | term


@inlined
def _skip_first(index: KIndexArrays, terms: Terms, changed: int, count: int, entry: int, work: I64) -> None:
    """Move the first `changed` terms of the queue to `entry` or beyond, and sort the queue again."""
    for i in range(changed - 1, -1, -1):
        place = _skip(index, terms, _term(terms, i), entry, work)
        j = i
        while j + 1 < count and at(terms.queue, j + 1) < place:
            terms.queue[j] = at(terms.queue, j + 1)
            j += 1
        terms.queue[j] = place


@inlined
def _term(terms: Terms, i: int) -> int:
    """The i-th term of the queue."""
    return int(at(terms.queue, i) & ((1 << TERM_BITS) - 1))


@inlined
def _entry(terms: Terms, i: int) -> int:
    """The entry that the i-th term of the queue is at."""
    return int(at(terms.queue, i) >> TERM_BITS)


@inlined
def _first_possible(index: KIndexArrays, events: EventArrays, e: int) -> int:
    """The first partition whose size an event has values for."""
    partition, values = 0, at(events.start, e + 1) - at(events.start, e)
    while partition < len(index.partition_size) and at(index.partition_size, partition) > values:
        partition += 1
    return partition


@inlined
def _first_entry(index: KIndexArrays, partition: int) -> int:
    """The first entry of a partition, or the end of the last one."""
    return int(at(index.partition_first, partition))


@inlined
def _without_postings(index: KIndexArrays) -> int:
    """The number of entries without postings; they are the last ones that can match."""
    final = len(index.partition_size) - 1
    if final < 0 or at(index.partition_size, final):
        return 0
    return int(at(index.partition_first, final + 1) - at(index.partition_first, final))


@kernel
def match_events(
    searched: Searched[Postings], asked: Asked, scratch: PostingScratch, matches: Matches
) -> tuple[int, int]:
    """Find the slots that match each event, ascending (`kernels.py`)."""
    index, counts, work = searched.arrays.lists, scratch.counts, matches.work
    found = 0
    for e in range(asked.first, asked.last):
        before = work_so_far(work)
        hits = _find(searched, asked.events, e, scratch, work)
        end = _write_hits(searched, asked, e, hits, counts, matches, found)
        if end < 0:
            back_to(work, before)
            return found, e
        work[CANDIDATES] += hits + _without_postings(index)
        found = close_event(matches, e - asked.first, found, end, counts.marks, counts.summary)
    return found, asked.last


@inlined
def _write_hits(
    searched: Searched[Postings], asked: Asked, e: int, hits: int, counts: Counts, matches: Matches, found: int
) -> int:
    """Append the slots of entries that match, one per clause, in any order; returns their end, or -1 without room."""
    table, index = searched.table, searched.arrays.lists
    free = _without_postings(index)
    for i in range(hits + free):
        entry = at(counts.hits, i) if i < hits else index.partition_first[-1] - free + i - hits
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
    index, terms, counts = searched.arrays.lists, scratch.terms, scratch.counts
    partition = _first_possible(index, events, e)
    count, extended = open_terms(index, events, e, _first_entry(index, partition), terms, work)
    if not searched.arrays.conjunction or extended:
        found, _ = _count(index, terms, count, counts, False, work)
        _restore(index, terms, count, counts)
        return found
    found = 0
    for p in range(partition, len(index.partition_size)):
        size, begin, limit = at(index.partition_size, p), _first_entry(index, p), _first_entry(index, p + 1)
        if size > count or size == 0:
            continue
        while True:
            entry = _entry(terms, size - 1)
            if entry >= limit:
                break
            changed, target = size, begin
            if entry >= begin:
                changed, target = size - 1, entry
                if _entry(terms, 0) == entry:
                    counts.hits[found] = entry
                    found += 1
                    changed, target = size, entry + 1
            _skip_first(index, terms, changed, count, target, work)
    return found


@inlined
def _count(index: KIndexArrays, terms: Terms, count: int, counts: Counts, relaxed: bool, work: I64) -> tuple[int, int]:
    """Write the entries whose posted predicates all hold, or any (relaxed), into `hits`.

    Returns their number, and the most predicates that hold for one of them.
    """
    found, most = 0, 0
    for term in range(count):
        counts.stamped[0] += 1
        number = counts.stamped[0]
        extended = at(terms.extended, term)
        for i in range(at(terms.first, term), at(terms.first, term + 1)):
            work[COMPARED] += at(terms.end, i) - at(terms.place, i)
            for place in range(at(terms.place, i), at(terms.end, i)):
                entry = at(index.posting, place)
                if extended:
                    if at(counts.stamp, entry) == number:
                        continue
                    counts.stamp[entry] = number
                left = int(at(counts.left, entry)) - 1
                counts.left[entry] = left
                if relaxed:
                    held = int(at(index.required, entry)) - left
                    most = max(most, held)
                    if held == 1:
                        counts.hits[found] = entry
                        found += 1
                elif left == 0:
                    counts.hits[found] = entry
                    found += 1
                    most = max(most, int(at(index.required, entry)))
    return found, most


@inlined
def _restore(index: KIndexArrays, terms: Terms, count: int, counts: Counts) -> None:
    """Set `left` to `required` again."""
    for i in range(at(terms.first, count)):
        for place in range(at(terms.place, i), at(terms.end, i)):
            entry = at(index.posting, place)
            counts.left[entry] = at(index.required, entry)


@kernel
def rank_events(searched: Searched[Postings], asked: Asked, scratch: PostingScratch, heaps: Heaps, work: I64) -> None:
    """Leave in the heap of each event its k best, best first (`kernels.py`)."""
    index, terms, counts = searched.arrays.lists, scratch.terms, scratch.counts
    top = TopK(searched, asked, scratch, heaps, work)
    for e in range(asked.first, asked.last):
        partition = 0 if asked.relaxed else _first_possible(index, asked.events, e)
        least = 0 if asked.relaxed else _first_entry(index, partition)
        count, extended = open_terms(index, asked.events, e, least, terms, work)
        _heaviest_sums(terms, count)
        merging = searched.arrays.conjunction and not asked.relaxed and not extended
        if merging:
            _rank_merging(top, e, partition, count)
        _rank_counting(top, e, merging, count)
        clear_marks(counts.marks, counts.summary)
        lane = e - asked.first
        sort_heap(heaps, lane * asked.k, heaps.size[lane])


@inlined
def _heaviest_sums(terms: Terms, count: int) -> None:
    """Fill in `sums`."""
    sums = terms.sums
    sums[0] = 0.0
    for i in range(count):
        bound, j = at(terms.bound, i), i
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
    table, asked, counts, work = top.searched.table, top.asked, top.scratch.counts, top.work
    slot = int(at(top.searched.arrays.lists.slot_of, entry))
    if not is_set(asked.eligible, slot):
        return
    work[CANDIDATES] += 1
    if not first_time(table, slot, counts.marks, counts.summary):
        return
    qualifies, score = slot_score(table, slot, asked.events, e, asked.relaxed)
    work[SCORED] += 1
    if qualifies:
        work[MATCHED] += 1
        push(top.heaps, e - asked.first, asked.k, score, at(table.sequence, slot), slot)


@inlined
def _rank_merging(top: TopK, e: int, partition: int, count: int) -> None:
    """Search by conjunction; the pivot also has to reach the k-th score."""
    index, terms, asked = top.searched.arrays.lists, top.scratch.terms, top.asked
    heaps, work, lane, k = top.heaps, top.work, e - asked.first, asked.k
    for p in range(partition, len(index.partition_size)):
        size, begin, limit = at(index.partition_size, p), _first_entry(index, p), _first_entry(index, p + 1)
        if size > count or size == 0:
            continue
        base = at(index.partition_score, p) + at(index.partition_extra, p) * asked.heaviest
        if raised(base, terms.sums[size]) < _floor(heaps, lane, k):
            work[PRUNED] += 1
            continue
        while True:
            floor = _floor(heaps, lane, k)
            reach, pivot = 0.0, -1
            while pivot + 1 < count and (pivot + 1 < size or raised(base, reach) < floor):
                pivot += 1
                reach += at(terms.bound, _term(terms, pivot))
            entry = _entry(terms, pivot)
            if entry >= limit or raised(base, reach) < floor:
                break
            work[PRUNED] += pivot + 1 - size
            changed, target = pivot + 1, begin
            if entry >= begin:
                changed, target = pivot, entry
                if _entry(terms, 0) == entry:
                    _offer(top, e, entry)
                    changed, target = pivot + 1, entry + 1
            _skip_first(index, terms, changed, count, target, work)


@inlined
def _highest(searched: Searched[Postings], asked: Asked) -> float:
    """An upper bound on what a clause scores besides its postings."""
    extra = 0.0
    if not asked.relaxed:
        for p in range(len(searched.arrays.lists.partition_extra)):
            extra = max(extra, at(searched.arrays.lists.partition_extra, p))
    return searched.arrays.highest + asked.heaviest * extra


@inlined
def _rank_counting(top: TopK, e: int, merged: bool, count: int) -> None:
    """Rank clauses without postings, then those that postings find (unless merged before), most predicates first."""
    searched, asked, heaps, work, relaxed = top.searched, top.asked, top.heaps, top.work, top.asked.relaxed
    index, terms, counts = searched.arrays.lists, top.scratch.terms, top.scratch.counts
    lane, k, highest = e - asked.first, asked.k, _highest(searched, asked)
    found, most = 0, 0
    if not merged:
        found, most = _count(index, terms, count, counts, relaxed, work)
    free = _without_postings(index)
    for held in range(most + 1, 0, -1):
        unposted = held > most  # the first round: clauses to verify whatever the postings say
        if not unposted and raised(highest, terms.sums[held]) < _floor(heaps, lane, k):
            work[PRUNED] += 1
            break
        for i in range((len(index.always) if relaxed else free) if unposted else found):
            if unposted:
                entry = int(at(index.always, i)) if relaxed else index.partition_first[-1] - free + i
            else:
                entry = int(at(counts.hits, i))
                if int(at(index.required, entry)) - int(at(counts.left, entry)) != held:
                    continue
                if at(index.loose, entry):
                    if relaxed:
                        continue
                else:
                    static = static_score(searched.table, at(index.slot_of, entry))
                    if raised(static, terms.sums[held]) < _floor(heaps, lane, k):
                        work[PRUNED] += 1
                        continue
            _offer(top, e, entry)
    if not merged:
        _restore(index, terms, count, counts)
