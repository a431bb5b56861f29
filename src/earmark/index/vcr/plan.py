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

from itertools import combinations, product
from typing import NamedTuple

import numpy as np

import earmark.index.vcr.arrays as vc
from earmark.flat.arrays import F64, I32, I64
from earmark.index.vcr.arrays import FREE, NO_ATTRIBUTE, VcrGrid, VcrOptions
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


class Extents(NamedTuple):
    """On one axis: how many cells the inner parts of a sample have, and how often; cells of border on average."""

    inner: I64
    counts: I64
    border: float


def grid_for(table: SegmentArrays, slots: I32, options: VcrOptions) -> VcrGrid:
    """The grid for these slots of a table."""
    chosen = np.linspace(0, len(slots) - 1, min(len(slots), SAMPLE)).astype(np.int64)
    sample = gather(table, slots[chosen].astype(np.int64))
    pair = (options.attr_x, options.attr_y) if options.attr_x != FREE else best_pair(sample)
    mode, most = options.mode, (options.cells_x, options.cells_y)
    info = np.zeros(vc.INFO, np.int64)
    info[[vc.ATTR_X, vc.ATTR_Y, vc.MODE]] = *pair, mode
    cuts = [cuts_for(table, attribute, limit, mode) for attribute, limit in zip(pair, most, strict=True)]
    extents = [extents_on(sample, attribute, cut, mode) for attribute, cut in zip(pair, cuts, strict=True)]
    store, *sides = longest_sides(extents, cuts, len(slots), options)
    numbering = options.numbering
    if numbering == FREE:
        numbering = vc.NUMBERINGS.index(CORNER if store == vc.HASHED else SHAPE)
    info[[vc.STORE, vc.KX, vc.KY, vc.IS_OVERLAPPED, vc.NUMBERING]] = store, *sides, numbering
    return VcrGrid(vc.numbered(info, len(cuts[0]), len(cuts[1])), *cuts)


# --- the pair ----------------------------------------------------------------------------------------------------


def best_pair(sample: SegmentArrays) -> tuple[int, int]:
    """The attributes that leave the fewest candidates; NO_ATTRIBUTE for one or both that would not help."""
    attributes, share = shares(sample)
    single = np.nan_to_num(share, nan=1.0).sum(axis=0)
    cost = float(single.min(initial=np.inf))
    if cost >= len(share):
        return NO_ATTRIBUTE, NO_ATTRIBUTE
    first, second, worth = int(attributes[single.argmin()]), NO_ATTRIBUTE, cost * PAIR_WORTH
    for p, q in combinations(range(len(attributes)), 2):
        cost = float(np.nan_to_num(share[:, p] * share[:, q], nan=1.0).sum())
        if cost < worth:
            worth, (first, second) = cost, sorted(attributes[[p, q]].tolist())
    return first, second


def shares(sample: SegmentArrays) -> tuple[I64, F64]:
    """The most selective attributes of a sample, and what share of them each clause spans, NaN where it is no key."""
    clauses = len(sample.constraint_start) - 1
    clause_of = np.repeat(np.arange(clauses), np.diff(sample.constraint_start))
    usable = sample.accepts_null == 0
    spanned = np.zeros(len(sample.attr))
    owner = np.repeat(np.arange(len(sample.attr)), np.diff(sample.interval_start))
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
    return best.astype(np.int64), share


# --- the cuts ----------------------------------------------------------------------------------------------------


def cuts_for(table: SegmentArrays, attribute: int, most: int, mode: int) -> I64:
    """Where the axis of an attribute is cut: begins of cells, or grid points."""
    if attribute == NO_ATTRIBUTE:
        return np.array([LEAST] if mode == vc.CELLS else [0, 1], np.int64)
    on = intervals_on(table, attribute)
    lo, hi = table.lo[on], table.hi[on]
    bounds = np.concatenate([lo, hi if mode == vc.POINTS else hi[hi < GREATEST] + 1])
    cuts = np.unique(bounds)
    limit = most if most != FREE else _cells_for(cuts, lo, hi)
    if len(cuts) > limit:
        cuts = np.unique(np.sort(bounds)[np.linspace(0, len(bounds) - 1, limit).astype(np.int64)])
    if mode == vc.CELLS:
        return np.union1d(LEAST, cuts)
    if len(cuts) < 2:  # a zero-width rectangle needs a second point to be widened to
        only = int(cuts[0]) if len(cuts) else 0
        cuts = np.array([only - 1, only] if only == GREATEST else [only, only + 1], np.int64)
    return cuts


def _cells_for(cuts: I64, lo: I64, hi: I64) -> int:
    """How many cells the axis may have, by how many of them a constraint would span on average."""
    if len(cuts) == 0:
        return 2
    average = float((cuts.searchsorted(hi, "right") - cuts.searchsorted(lo, "right") + 1).mean())
    return MOST_CELLS if average <= WIDEST_SPAN else int(min(MOST_CELLS, max(2.0, len(cuts) * SPAN / average)))


def extents_on(sample: SegmentArrays, attribute: int, cuts: I64, mode: int) -> Extents:
    """How many cells the intervals of a sample span on one axis."""
    on = intervals_on(sample, attribute)
    if not len(on):
        return Extents(np.ones(1, np.int64), np.ones(1, np.int64), 0.0)
    lo, hi = sample.lo[on], sample.hi[on]
    begin, end = cuts.searchsorted(lo, "right") - 1, cuts.searchsorted(hi, "right") - 1
    cell = int(mode == vc.CELLS)
    border = (cuts[begin] != lo).astype(np.int64) + (np.append(cuts, GREATEST)[end + cell] - cell != hi)
    inner = np.maximum(end - begin + cell - border, 1)
    return Extents(*np.unique(inner, return_counts=True), float(border.mean()))


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
    sides, pieces = [], []
    for extent, given in zip(extents, (options.kx, options.ky), strict=True):
        tried = [given] if given != FREE else range(min(LONGEST, exponent(int(extent.inner[-1]))) + 1)
        sides.append(tried)
        pieces.append({(k, over): _pieces(extent, k, over) for k in tried for over in (False, True)})
    best, least = (0, 0, 0, 0), np.inf
    for kx, ky in product(*sides):
        headers = vc.count_vcrs(len(cuts[0]), len(cuts[1]), kx, ky)
        entries = [slots * pieces[0][kx, over] * pieces[1][ky, over] for over in (False, True)]
        store, over = _kinds(options, headers, entries)
        lookups = (2 << kx) * (2 << ky) if store == vc.HASHED else (kx + 1) * (2 << ky)
        size = 4 * (entries[over] + headers) if store == vc.ARRAY else (4 + HASHED_BYTES) * entries[over]
        if size * (OTHER_LOOKUPS + lookups) < least:
            best, least = (store, kx, ky, over), size * (OTHER_LOOKUPS + lookups)
    return best


def _kinds(options: VcrOptions, headers: int, entries: list[float]) -> tuple[int, int]:
    """Store and decomposition. Overlapped pieces share VCRs, of which a hash table should have few."""
    store, over = options.store, options.decomposition
    if store == FREE:
        few = headers <= max(ARRAY_HEADERS, HEADERS_PER_ENTRY * entries[max(over, 0)])
        store = vc.ARRAY if few else vc.HASHED
    return store, int(store == vc.HASHED) if over == FREE else over


def _pieces(extent: Extents, k: int, overlapped: bool) -> float:
    """How many pieces a span has on average."""
    pieces = [count_pieces(inner, k, overlapped) for inner in extent.inner.tolist()]
    return float(np.average(pieces, weights=extent.counts) + extent.border)
