"""From a table to rows: which attributes have buckets, where these are cut, and in which order entries go.

**Codes.** Each counted attribute has sorted *cuts*, taken from the ends of its ranges: the lower ends, and the keys
after the upper ends. The code of a key is how many cuts are at most that key:

    a BETWEEN 3 AND 9, a = 5      cuts 3 5 6 10      codes of 2, 3, 4, 5, 6, 9, 10:  0 1 1 2 3 3 4

With all ends as cuts, lo <= x iff code(lo) <= code(x), and x <= hi iff code(x) <= code(hi): codes decide. Where there
are more ends than codes, cuts are quantiles of the ends; then equal codes do not decide, and different ones do.
Neighbouring codes form a bucket.

**Attributes.** A row costs a bit for each entry. What is used most has most buckets, by the root of its use: so the sum
of use / buckets (how often a bucket leaves a constraint open) is least. There are MOST_BUCKETS in all: many attributes
have few each, and where even that is too many, the least used have none, and their constraints are verified.

**Order.** The best scores come first, in tiers (`arrays.py`). In a tier, the entries of a line should ask for the same:
then few of its buckets have an entry that passes. Entries are grouped by a set of two or three attributes that all of a
group constrain; each set is chosen to be shared by as many as possible of those that have no group yet. A group is put
in kd-order of the middles of its ranges: halved by one of the attributes, each half by the next, down to lines. (Sorted
attribute by attribute, half as many lines again are left.)

Invariant: a bit that is not set means that the constraint fails for every value of the bucket.
Complexity: O(n log n) for n constraints; O(entries x buckets / 64) words are written.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.flat.arrays import F64, I32, I64, U8, U64
from earmark.flat.bits import words_for
from earmark.flat.machine import aligned, at
from earmark.index.bitsets.arrays import (
    ALL,
    ALWAYS,
    HIGHEST,
    LINE,
    LINES,
    MOST_CODED,
    NONE,
    REGION,
    UNCOUNTED,
    WORDS,
    BitsetArrays,
    columns_of,
)
from earmark.index.bitsets.vectors import COLUMNS, U16
from earmark.index.blocks.dominance import kd_order
from earmark.jit import embedded, kernel
from earmark.segment.arrays import SegmentArrays, intervals_on
from earmark.segment.evaluate import static_score
from earmark.threads import RUNS, cores, in_parallel, runs_of

MOST_BUCKETS = 1024
"""Of all attributes together."""
MOST_CUTS = HIGHEST
"""Of one attribute."""
SAMPLE = 8192
"""Intervals of an attribute from which its cuts are taken, where they are not all taken."""
LINES_PER_SPLIT = 4
"""Entries are grouped by sets of as many attributes as there are so many doublings of a line: 3 for a million."""
LEFT_OVER = 0.02
"""The share of entries that need not be in a group."""
FIRST_TIER, TIER_RATIO = 16 * REGION, 4
"""Least number of entries in the best tier; each tier has TIER_RATIO times those of all better ones."""
GREATEST = np.iinfo(np.int64).max
MANY = 1 << 16
"""Clauses that several threads encode."""


class Axes(NamedTuple):
    """The counted attributes."""

    attr: I32
    number: I32
    exact: U8
    cut_start: I64
    cuts: I64
    bucket_start: I32
    worth: F64
    """The share of values that a constraint rules out, on average."""


def built(table: SegmentArrays, buckets: int) -> BitsetArrays:
    """The index of a table, with at most this many buckets for an attribute."""
    axes = learned(table, buckets)
    columns, entries = columns_of(len(axes.attr)), len(table.constraint_start) - 1
    codes = np.full(columns * entries + COLUMNS, ALWAYS, np.uint16)
    unsure = np.zeros(entries, np.uint8)
    threads = cores() if entries >= MANY else 1
    parts = runs_of(entries, RUNS * threads if threads > 1 else 1)
    encode(table, axes, codes, unsure, 0, 0)  # so that it is the caller who compiles, and says so
    in_parallel(lambda part: encode(table, axes, codes, unsure, *part), parts, threads)
    by_entry = codes[: columns * entries].reshape(entries, columns)
    slot_of = np.repeat(np.arange(len(table.sequence), dtype=np.int32), np.diff(table.clause_start))
    best, weight = own_scores(table)
    tiers = tiers_of(np.lexsort((table.sequence[slot_of], -best[slot_of])))
    order = np.concatenate([tier[similar_together(by_entry[tier], axes.worth)] for tier in tiers]).astype(np.int32)
    by_entry[:] = by_entry[order]
    unsure |= np.diff(table.clause_start)[slot_of] > 1
    regions, total = -(-entries // REGION), int(axes.bucket_start[-1])
    row, rows = np.empty(total * regions, np.int32), aligned(total * regions * WORDS, np.uint64)
    some = np.zeros((total, words_for(-(-entries // LINE))), np.uint64)
    used = fill_rows(table, axes, order, codes, row, rows, some)
    verify = np.zeros(64 * words_for(entries), np.uint8)
    verify[:entries] = unsure[order]
    inexact = np.zeros((-(-columns // COLUMNS), 64), np.uint8)
    column = np.arange(columns)
    first, slots = np.arange(0, entries, REGION), slot_of[order]
    static = table.score[slots] if len(table.score) else np.zeros(entries)
    inexact[column // COLUMNS, column % COLUMNS] = 1 - axes.exact[column // 2]
    return BitsetArrays(
        info=np.array([len(table.sequence), entries, buckets]),
        attr=axes.attr,
        number=axes.number,
        inexact=packed(inexact),
        cut_start=axes.cut_start,
        cuts=axes.cuts,
        bucket_start=axes.bucket_start,
        row=row,
        some=some.ravel(),
        rows=rows[: used * WORDS],
        entry_slot=slots,
        entry_clause=order,
        verify=packed(verify),
        codes=codes,
        region_best=np.maximum.reduceat(best[slots], first) if entries else np.empty(0),
        region_score=np.maximum.reduceat(static, first) if entries else np.empty(0),
        region_weight=np.maximum.reduceat(weight[slots], first) if entries else np.empty(0),
        region_sequence=np.minimum.reduceat(table.sequence[slots], first) if entries else np.empty(0, np.int64),
    )


def packed(flags: U8) -> U64:
    """Flags, a multiple of 64 in all, as bits of words."""
    return np.packbits(flags, bitorder="little").view(np.uint64)


# --- attributes and cuts -------------------------------------------------------------------------------------------


def learned(table: SegmentArrays, buckets: int) -> Axes:
    """Which attributes are counted, in the order of how much they rule out, with their cuts and buckets."""
    use = np.bincount(table.attr)
    chosen = np.argsort(-use, kind="stable")[: np.count_nonzero(use)]
    share, most = np.sqrt(use[chosen] / max(1, use.max(initial=0))), float(buckets)
    while np.maximum(2, most * share + 1).sum() > MOST_BUCKETS and most > 1:
        most *= 0.9
    wanted = np.maximum(1, most * share).astype(np.int64)
    chosen = chosen[np.cumsum(wanted + 1) <= MOST_BUCKETS]
    number = np.full(len(use), UNCOUNTED, np.int32)
    number[chosen] = np.arange(len(chosen))
    step = np.maximum(1, use[chosen] // SAMPLE)
    size = np.zeros(len(chosen), np.int64)
    lo, hi = np.empty((2, len(chosen), SAMPLE), np.int64)
    sample(table, number, step, size, lo, hi)
    cuts, exact, worth = [np.empty(0, np.int64)], np.ones(len(chosen), np.uint8), np.ones(len(chosen))
    for i, attribute in enumerate(chosen.tolist()):
        low, high = lo[i, : size[i]], hi[i, : size[i]]
        ends = ends_of(low, high)
        if len(ends) <= MOST_CUTS and (step[i] > 1 or size[i] == SAMPLE):
            positions = intervals_on(table, attribute)
            ends = ends_of(table.lo[positions], table.hi[positions])
        if len(ends) > MOST_CUTS:
            exact[i] = 0
            ends = distinct(both_ends(low, high), quantiles(2 * len(low)))
        cuts.append(ends)
        worth[i] = 1.0 - mean_width(ends, low, high) / (len(ends) + 1) if size[i] else 1.0
    first = np.argsort(-use[chosen] * worth, kind="stable")
    chosen, cuts = chosen[first], [cuts[i + 1] for i in first]
    number[chosen] = np.arange(len(chosen))
    made = np.array([len(one) for one in cuts], np.int64)
    return Axes(
        attr=chosen.astype(np.int32),
        number=number,
        exact=exact[first],
        cut_start=np.append(0, np.cumsum(made)),
        cuts=np.concatenate([np.empty(0, np.int64), *cuts]),
        bucket_start=np.append(0, np.cumsum(np.minimum(wanted[first], made + 1) + 1)).astype(np.int32),
        worth=worth[first],
    )


def both_ends(lo: I64, hi: I64) -> I64:
    """Lower ends, and keys after upper ends; where there is none, the greatest key, where nothing ends."""
    return np.concatenate([lo, hi + (hi < GREATEST)])


def ends_of(lo: I64, hi: I64) -> I64:
    """The cuts that tell all ends apart."""
    return distinct(np.concatenate([lo, hi[hi < GREATEST] + 1]))


def distinct(keys: I64, places: I64 | None = None) -> I64:
    """The keys, or those at these places of the sorted keys: ascending, each once.

    `np.unique` takes seven times as long, because it hashes the keys before it sorts them.
    """
    ordered = np.sort(keys) if places is None else np.sort(keys)[places]
    is_first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def mean_width(cuts: I64, lo: I64, hi: I64) -> float:
    """The buckets that an interval meets, on average. Only sums count, and sorted keys are looked up more quickly."""
    met = np.searchsorted(cuts, np.sort(hi), "right").sum() - np.searchsorted(cuts, np.sort(lo), "right").sum()
    return float((met + len(lo)) / len(lo))


def quantiles(count: int) -> I64:
    """MOST_CUTS places in a sorted list, evenly."""
    return np.linspace(0, count - 1, MOST_CUTS + 2)[1:-1].astype(np.int64)


@kernel
def sample(table: SegmentArrays, number: I32, step: I64, size: I64, lo: I64, hi: I64) -> None:
    """Copy the intervals of every step-th constraint on each counted attribute, as far as there is room."""
    seen = np.zeros(len(step), np.int64)
    for constraint in range(len(table.attr)):
        i = number[table.attr[constraint]]
        if i == UNCOUNTED:
            continue
        seen[i] += 1
        if seen[i] % step[i] == 0:
            for interval in range(table.interval_start[constraint], table.interval_start[constraint + 1]):
                if size[i] < lo.shape[1]:
                    lo[i, size[i]], hi[i, size[i]] = table.lo[interval], table.hi[interval]
                    size[i] += 1


# --- entries -------------------------------------------------------------------------------------------------------


@embedded
def code_of(cuts: I64, begin: int, end: int, key: int) -> int:
    """How many of cuts[begin:end] are at most the key."""
    first, size = begin, end - begin
    while size > 0:
        half = (size + 1) >> 1
        begin += half if at(cuts, begin + half - 1) <= key else 0
        size -= half
    return begin - first


@kernel
def encode(table: SegmentArrays, axes: Axes, codes: U16, unsure: U8, begin_clause: int, end_clause: int) -> None:
    """Write the codes of some clauses; and which have several intervals, or constrain what has no codes."""
    columns = columns_of(len(axes.attr))
    for clause in range(begin_clause, end_clause):
        for constraint in range(table.constraint_start[clause], table.constraint_start[clause + 1]):
            i = axes.number[table.attr[constraint]]
            begin, end = table.interval_start[constraint], table.interval_start[constraint + 1]
            if i == UNCOUNTED or i >= MOST_CODED or end - begin > 1:
                unsure[clause] = 1
            if i != UNCOUNTED and i < MOST_CODED and begin < end:
                first, last = axes.cut_start[i], axes.cut_start[i + 1]
                place = columns * clause + 2 * i
                codes[place] = HIGHEST - code_of(axes.cuts, first, last, table.lo[begin])
                codes[place + 1] = code_of(axes.cuts, first, last, table.hi[end - 1])


def tiers_of(best_first: I64) -> list[I64]:
    """The tiers, best first, of whole regions but for the last."""
    ends = [len(best_first)]
    while ends[-1] >= TIER_RATIO * FIRST_TIER:
        ends.append(ends[-1] // TIER_RATIO // REGION * REGION)
    return np.split(best_first, ends[:0:-1])


@kernel
def own_scores(table: SegmentArrays) -> tuple[F64, F64]:
    """By slot the greatest score of its clauses for an event without weights, and their greatest sum of weights.

    The score is summed as `clause_score` does, so no search finds a higher one.
    """
    slots = len(table.sequence)
    best, weight = np.full(slots, -np.inf), np.zeros(slots)
    for slot in range(slots):
        for clause in range(table.clause_start[slot], table.clause_start[slot + 1]):
            total, added = static_score(table, slot), 0.0
            for constraint in range(table.constraint_start[clause], table.constraint_start[clause + 1]):
                own = table.weight[constraint] if len(table.weight) else 1.0
                total += own
                added += own
            best[slot], weight[slot] = max(best[slot], total), max(weight[slot], added)
    return best, weight


def similar_together(codes: U16, worth: F64) -> I32:
    """The order of entries, whose codes are the rows: by set of attributes, then in kd-order of their middles."""
    entries, columns = codes.shape
    depth = max(1, round(np.log2(max(2, entries / LINE)) / LINES_PER_SPLIT))
    constrained = np.zeros(entries, np.int64)
    for i in range(columns // 2):
        constrained |= (codes[:, 2 * i] != ALWAYS).astype(np.int64) << i
    rest, order = np.arange(entries, dtype=np.int32), []
    for attributes in frequent_sets(constrained, worth[: columns // 2], depth):
        wanted = sum(1 << i for i in attributes)
        have = constrained[rest] & wanted == wanted
        own, rest = rest[have], rest[~have]
        whole = len(own) // LINE * LINE
        rest = np.append(rest, own[whole:])
        order.append(by_middles(codes, own[:whole], attributes))
    return np.concatenate([*order, by_middles(codes, rest, list(range(min(depth, columns // 2))))])


def by_middles(codes: U16, entries: I32, attributes: list[int]) -> I32:
    """These entries in kd-order: lines have ranges with near middles on all of the attributes."""
    columns = 2 * np.array(attributes, np.int64)
    lower, upper = codes[entries[:, None], columns], codes[entries[:, None], columns + 1]
    return entries[kd_order((upper.astype(np.int32) - lower).astype(np.int16))]


def frequent_sets(constrained: I64, worth: F64, depth: int) -> list[list[int]]:
    """Sets of `depth` attributes that most entries constrain one or another of; attributes of an entry are bits.

    One by one, for the entries of a sample that have none of the sets so far: the attribute that is worth most, then of
    those that constrain it the next, and so on. Sets that would not fill a line are left out.
    """
    few = constrained[:: max(1, len(constrained) // SAMPLE)]
    has = few[:, None] >> np.arange(len(worth)) & 1 == 1
    sets: list[list[int]] = []
    while len(has) > LEFT_OVER * len(few):
        chosen: list[int] = []
        left = has
        for _ in range(min(depth, len(worth))):
            gain = left.sum(axis=0) * worth
            gain[chosen] = -1.0
            chosen.append(int(gain.argmax()))
            left = left[left[:, chosen[-1]]]
        if len(left) * len(constrained) < LINE * len(few) or not chosen:
            break
        sets.append(chosen)
        has = has[~has[:, chosen].all(axis=1)]
    return sets


@kernel
def fill_rows(table: SegmentArrays, axes: Axes, order: I32, codes: U16, row: I32, rows: U64, some: U64) -> int:
    """Write the rows that are neither ALL nor NONE nor equal to their neighbour, and which is where; how many."""
    entries, regions = len(order), (len(order) + REGION - 1) // REGION
    flips = np.zeros((axes.bucket_start[-1], WORDS), np.uint64)
    bits, everyone = np.zeros(WORDS, np.uint64), np.zeros(WORDS, np.uint64)
    used = 0
    for region in range(regions):
        everyone[:] = 0
        for entry in range(region * REGION, min(entries, (region + 1) * REGION)):
            everyone[(entry >> 6) % WORDS] |= np.uint64(1) << np.uint64(entry & 63)
            flip(table, axes, order, codes, entry, flips)
        for i in range(len(axes.attr)):
            null = axes.bucket_start[i + 1] - 1
            bits[:] = everyone
            for bucket in range(axes.bucket_start[i], null + 1):
                if bucket == null:
                    bits[:] = everyone
                same = bucket > axes.bucket_start[i] and bucket < null
                none, every = True, True
                for word in range(WORDS):
                    same &= flips[bucket, word] == 0
                    bits[word] ^= flips[bucket, word]
                    flips[bucket, word] = 0
                    none &= bits[word] == 0
                    every &= bits[word] == everyone[word]
                    if bits[word]:
                        line = region * LINES + word // (LINE // 64)
                        some[bucket, line >> 6] |= np.uint64(1) << np.uint64(line & 63)
                place = bucket * regions + region
                if none or every:
                    row[place] = NONE if none else ALL
                elif same:
                    row[place] = row[place - regions]
                else:
                    row[place] = used
                    rows[used * WORDS : (used + 1) * WORDS] = bits
                    used += 1
    return used


@embedded
def flip(table: SegmentArrays, axes: Axes, order: I32, codes: U16, entry: int, flips: U64) -> None:
    """Change an entry's bit where it is not that of the bucket before: in the first bucket, that of every entry.

    In the bucket for NULL it changes where the constraint does not accept NULL.
    """
    clause, word, bit = order[entry], (entry >> 6) % WORDS, np.uint64(1) << np.uint64(entry & 63)
    for constraint in range(table.constraint_start[clause], table.constraint_start[clause + 1]):
        i = axes.number[table.attr[constraint]]
        if i == UNCOUNTED:
            continue
        first, null = axes.bucket_start[i], axes.bucket_start[i + 1] - 1
        begin, end = table.interval_start[constraint], table.interval_start[constraint + 1]
        if not table.accepts_null[constraint]:
            flips[null, word] ^= bit
        place = columns_of(len(axes.attr)) * entry + 2 * i
        cut, last_cut = axes.cut_start[i], axes.cut_start[i + 1]
        flips[first, word] ^= bit
        open_until = first
        for interval in range(begin, end):
            if end - begin == 1 and i < MOST_CODED:
                low, high = HIGHEST - int(codes[place]), int(codes[place + 1])
            else:
                low = code_of(axes.cuts, cut, last_cut, table.lo[interval])
                high = code_of(axes.cuts, cut, last_cut, table.hi[interval])
            low_bucket = first + low * (null - first) // (last_cut - cut + 1)
            high_bucket = first + high * (null - first) // (last_cut - cut + 1)
            if interval > begin and low_bucket <= open_until:
                low_bucket = open_until  # what was about to close stays open
            flips[low_bucket, word] ^= bit
            open_until = high_bucket + 1
            if open_until == null:
                break
            flips[open_until, word] ^= bit
