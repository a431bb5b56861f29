"""What the data decides: which pair of attributes, where the grid is cut, how long the longest VCR is, which store.

**Pair.** On a sample of clauses, an attribute's *share* is how much of that attribute's bounds a constraint spans: an
estimate of how many events satisfy it. Over a pair, a clause that can be keyed on both costs the product of its two
shares (how much it overlaps the others), one that cannot costs 1, since it is scanned. The pair, or single
attribute, with the lowest sum wins; where nothing is won, there is no grid and everything is scanned.

**Cuts.** As long as they are few enough, all bounds on the attribute: then cells say exactly what was asked. Beyond
that, as many quantiles of the bounds as make a constraint span SPAN cells on average.

**Longest sides.** All pairs of powers of two are tried, by what a sample of rectangles would cost: bytes of lists and
headers, and look-ups an event. See `longest_sides`.

**Store.** An array with a header for every VCR while that is no more than ARRAY_HEADERS or a few for each entry;
beyond that a hash table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.flat.arrays import F64, I32, I64
from earmark.index.vcr.arrays import (
    ARRAY,
    CELLS,
    FREE,
    HASHED,
    INFO,
    IS_OVERLAPPED,
    KX,
    KY,
    MODE,
    NO_ATTRIBUTE,
    NUMBERING,
    NUMBERINGS,
    POINTS,
    STORE,
    VcrGrid,
    VcrOptions,
    count_vcrs,
    numbered,
)
from earmark.index.vcr.arrays import ATTR_X as X
from earmark.index.vcr.arrays import ATTR_Y as Y
from earmark.index.vcr.rectangles import CORNER, SHAPE, count_pieces, exponent
from earmark.segment.arrays import SegmentArrays, gather, intervals_on

SAMPLE = 4_096
"""Slots that a decision looks at."""
SHORTLIST = 12
"""Attributes, the most selective, of which all pairs are tried."""
MOST_CELLS = 1 << 14
"""Cells of an axis at the most."""
WIDEST_SPAN = 64
"""Cells that a constraint may span on average before the grid is made coarser."""
SPAN = 32
"""Cells that it spans on a coarser grid."""
LONGEST = 8
"""The greatest exponent of a side."""
ARRAY_HEADERS = 1 << 22
"""An array of at most this many headers is moderate, whatever it holds."""
HEADERS_PER_ENTRY = 4
HASHED_BYTES = 8
"""Bytes of hash table that go with an entry: entries share VCRs, and so places of 12 bytes, which are half free."""
OTHER_LOOKUPS = 64
PAIR_WORTH = 0.8
"""A second attribute must lower the cost to this share."""

LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Shares(NamedTuple):
    """Per clause of a sample and attribute of a shortlist: the share it spans, NaN where it is no key."""

    attributes: I64
    share: F64


class Extents(NamedTuple):
    """On one axis: how many cells the inner parts of a sample have, and how often; cells of border on average."""

    inner: tuple[I64, I64]
    border: float


def grid_for(table: SegmentArrays, slots: I32, options: VcrOptions) -> VcrGrid:
    """The grid for these slots of a table."""
    chosen = np.linspace(0, len(slots) - 1, min(len(slots), SAMPLE)).astype(np.int64)
    sample = gather(table, slots[chosen].astype(np.int64))
    x, y = options.attr_x, options.attr_y
    if x == FREE:
        x, y = best_pair(sample)
    mode = options.mode
    info = np.zeros(INFO, np.int64)
    info[[X, Y, MODE]] = x, y, mode
    cuts = [cuts_for(table, attribute, most, mode) for attribute, most in ((x, options.cells_x), (y, options.cells_y))]
    extents = [extents_on(sample, attribute, cut, mode) for attribute, cut in zip((x, y), cuts, strict=True)]
    info[STORE], info[KX], info[KY], info[IS_OVERLAPPED] = longest_sides(extents, cuts, len(slots), options)
    info[NUMBERING] = options.numbering
    if options.numbering == FREE:
        info[NUMBERING] = NUMBERINGS.index(CORNER if info[STORE] == HASHED else SHAPE)
    return VcrGrid(numbered(info, len(cuts[0]), len(cuts[1])), *cuts)


# --- the pair ----------------------------------------------------------------------------------------------------


def best_pair(sample: SegmentArrays) -> tuple[int, int]:
    """The attributes that leave the fewest candidates; NO_ATTRIBUTE for one or both that would not help."""
    attributes, share = shares(sample)
    clauses = len(sample.constraint_start) - 1
    if not len(attributes):
        return NO_ATTRIBUTE, NO_ATTRIBUTE
    single = np.where(np.isnan(share), 1.0, share).sum(axis=0)
    best = int(single.argmin())
    cost, pair = float(single[best]), (int(attributes[best]), NO_ATTRIBUTE)
    if cost >= clauses:
        return NO_ATTRIBUTE, NO_ATTRIBUTE
    worth = cost * PAIR_WORTH
    for p in range(len(attributes)):
        for q in range(p + 1, len(attributes)):
            both = share[:, p] * share[:, q]
            cost = float(np.where(np.isnan(both), 1.0, both).sum())
            if cost < worth:
                worth, pair = cost, (int(attributes[p]), int(attributes[q]))
    return min(pair) if NO_ATTRIBUTE not in pair else pair[0], max(pair) if NO_ATTRIBUTE not in pair else pair[1]


def shares(sample: SegmentArrays) -> Shares:
    """The most selective attributes of a sample, and what each clause spans of them."""
    clauses = len(sample.constraint_start) - 1
    clause_of = np.repeat(np.arange(clauses), np.diff(sample.constraint_start))
    usable = sample.accepts_null == 0
    spanned = np.zeros(len(sample.attr))
    counts = np.diff(sample.interval_start)
    owner = np.repeat(np.arange(len(sample.attr)), counts)
    for attribute in np.unique(sample.attr[usable]):
        on = intervals_on(sample, int(attribute))
        if len(on):
            bounds = np.sort(np.concatenate([sample.lo[on], sample.hi[on]]))
            covered = bounds.searchsorted(sample.hi[on], "right") - bounds.searchsorted(sample.lo[on])
            np.add.at(spanned, owner[on], covered / (len(bounds) + 2))  # and something is beyond them
    gain = np.zeros(int(sample.attr.max(initial=-1)) + 1)
    np.add.at(gain, sample.attr[usable], 1.0 - np.minimum(spanned[usable], 1.0))
    best = np.argsort(-gain, kind="stable")[:SHORTLIST]
    best = best[gain[best] > 0]
    share = np.full((clauses, len(best)), np.nan)
    for column, attribute in enumerate(best):
        on = np.flatnonzero((sample.attr == attribute) & usable)
        share[clause_of[on], column] = np.minimum(spanned[on], 1.0)
    return Shares(best.astype(np.int64), share)


# --- the cuts ----------------------------------------------------------------------------------------------------


def cuts_for(table: SegmentArrays, attribute: int, most: int, mode: int) -> I64:
    """Where the axis of an attribute is cut: begins of cells, or grid points."""
    if attribute == NO_ATTRIBUTE:
        return np.array([LEAST] if mode == CELLS else [0, 1], np.int64)
    on = intervals_on(table, attribute)
    lo, hi = table.lo[on], table.hi[on]
    if mode == POINTS:
        bounds = np.sort(np.concatenate([lo, hi]))
    else:
        bounds = np.sort(np.concatenate([lo, hi[hi < GREATEST] + 1]))
    cuts = bounds[np.concatenate([[True], bounds[1:] != bounds[:-1]])] if len(bounds) else bounds
    limit = most if most != FREE else _cells_for(cuts, lo, hi)
    if len(cuts) > limit:
        cuts = np.unique(bounds[np.linspace(0, len(bounds) - 1, limit).astype(np.int64)])
    if mode == CELLS:
        return cuts if len(cuts) and cuts[0] == LEAST else np.concatenate([np.array([LEAST]), cuts])
    if len(cuts) < 2:  # a zero-width rectangle needs a second point to be widened to
        only = int(cuts[0]) if len(cuts) else 0
        cuts = np.array([only - 1, only] if only == GREATEST else [only, only + 1], np.int64)
    return cuts


def _cells_for(cuts: I64, lo: I64, hi: I64) -> int:
    """How many cells the axis may have, by how many of them a constraint would span on average."""
    if len(cuts) == 0:
        return 2
    spans = cuts.searchsorted(hi, "right") - cuts.searchsorted(lo, "right") + 1
    average = float(spans.mean())
    if average <= WIDEST_SPAN:
        return MOST_CELLS
    return int(min(MOST_CELLS, max(2.0, len(cuts) * SPAN / average)))


def extents_on(sample: SegmentArrays, attribute: int, cuts: I64, mode: int) -> Extents:
    """How many cells the intervals of a sample span on one axis."""
    on = intervals_on(sample, attribute)
    if not len(on):
        return Extents((np.ones(1, np.int64), np.ones(1, np.int64)), 0.0)
    lo, hi = sample.lo[on], sample.hi[on]
    begin, end = cuts.searchsorted(lo, "right") - 1, cuts.searchsorted(hi, "right") - 1
    cell = int(mode == CELLS)
    after = np.append(cuts, GREATEST)[end + cell] if cell else cuts[end]
    border = (cuts[begin] != lo).astype(np.int64) + (after - cell != hi)
    inner = np.maximum(end - begin + cell - border, 1)
    return Extents(np.unique(inner, return_counts=True), float(border.mean()))


# --- the longest sides and the store -----------------------------------------------------------------------------


def longest_sides(
    extents: list[Extents], cuts: list[I64], slots: int, options: VcrOptions
) -> tuple[int, int, int, int]:
    """(store, kx, ky, overlapped) of least cost.

    The cost of a pair of sides is bytes × time, both estimated: an entry and a header take 4 bytes each, a place of a
    hash table 12; an event looks at its runs (array) or VCRs (hashed), and besides does what takes as long as
    OTHER_LOOKUPS of them. A product, since neither is worth much by itself: a side of 1 has one list an event, and
    an entry for every cell of every rectangle.
    """
    sides = [
        range(min(LONGEST, exponent(int(extent.inner[0][-1]))) + 1) if given == FREE else [given]
        for extent, given in zip(extents, (options.kx, options.ky), strict=True)
    ]
    pieces = [
        {(k, over): _pieces(extent, k, over) for k in tried for over in (False, True)}
        for extent, tried in zip(extents, sides, strict=True)
    ]
    best, least = (0, 0, 0, 0), np.inf
    for kx in sides[0]:
        for ky in sides[1]:
            headers = count_vcrs(len(cuts[0]), len(cuts[1]), kx, ky)
            entries = [slots * pieces[0][kx, over] * pieces[1][ky, over] for over in (False, True)]
            store, over = _kinds(options, headers, entries)
            lookups = (2 << kx) * (2 << ky) if store == HASHED else (kx + 1) * (2 << ky)
            size = (4 + HASHED_BYTES * (store == HASHED)) * entries[over] + 4 * headers * (store == ARRAY)
            if size * (OTHER_LOOKUPS + lookups) < least:
                best, least = (store, kx, ky, over), size * (OTHER_LOOKUPS + lookups)
    return best


def _kinds(options: VcrOptions, headers: int, entries: list[float]) -> tuple[int, int]:
    """Store and decomposition. Overlapped pieces share VCRs, of which a hash table should have few."""
    store, over = options.store, options.decomposition
    if store == FREE:
        store = ARRAY if headers <= max(ARRAY_HEADERS, HEADERS_PER_ENTRY * entries[max(over, 0)]) else HASHED
    return store, int(store == HASHED) if over == FREE else over


def _pieces(extent: Extents, k: int, overlapped: bool) -> float:
    """How many pieces a span has on average."""
    pieces = sum(
        count_pieces(int(value), k, overlapped) * int(count) for value, count in zip(*extent.inner, strict=True)
    )
    return float(pieces / extent.inner[1].sum() + extent.border)
