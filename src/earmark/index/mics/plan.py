"""What the data decides: which attributes, how many cells, where they are cut.

**Attributes** (mics.txt, section 5: greedily, by selectivity). On a sample of clauses, an attribute's *share* is how
much of the bounds on it a constraint spans. A clause costs the product of its shares over the chosen attributes, 1 for
one that it does not constrain or where it accepts NULL. The attribute that lowers the sum of costs most is taken, then
the next one given the first, while each is worth it, `most` (4) at the most. The paper takes the k most selective ones;
two attributes that the same few clauses use would be two of them.

The sieve (`arrays.py`) goes on in the same way, up to eight attributes.

**Bits.** The greatest number for which a clause has few ranges on average (MEAN_RANGES, more in a large table), by
Equation (3): the mean number of ranges of a box is the sum of the products of all its sides but one, divided by d.

**Cuts.** Every bound, where there are as few as that. Otherwise `variable` cells: quantiles of the events' values if
there are any, else of the bounds; or `equal` ones, between the least and the greatest.

Complexity: O(constraints on the chosen attributes), sorted; the rest on a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from earmark.curves.hilbert import mean_ranges
from earmark.curves.space import MOST_BITS, Space, boxes_of_clauses, equal_cuts, space_of, variable_cuts
from earmark.errors import EarmarkError
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import I32, I64
from earmark.index.mics.arrays import EQUAL, FREE, KINDS, MOST_NUMBER_BITS, SIEVE_AXES, VARIABLE, field_width
from earmark.index.vcr.plan import shares
from earmark.keys.schema import INT64_MAX, INT64_MIN
from earmark.segment.arrays import SegmentArrays, gather, intervals_on

SAMPLE = 4_096
"""Slots that a decision looks at."""
MOST_AXES = 4
LARGEST_MOST = 12
"""More axes than this would make 2^axes parts of every cube."""
WORTH = 0.7
"""An attribute is worth its axis when it lowers the cost to this share."""
SIEVE_WORTH = 0.98
"""The same for its place in the sieve."""
MEAN_RANGES, MOST_MEAN_RANGES = 6, 24
"""Ranges of a clause on average, and in a large table, where lists are long and finer cells shorten them."""
LARGE = 1 << 18
"""Number of slots from which on the number of ranges grows with the table."""
MOST_PIECES = 64
"""Blocks of a clause at the most; one that would have more gets larger cells."""
LARGEST_PIECES = 1 << 20
LEARNT_BITS = 12
"""Bits of an axis at the most, unless more are asked for."""
MOST_VALUES = 1 << 16
"""So many values are enough to learn cuts from."""


class MicsPlan(NamedTuple):
    """The space of the lists and that of the sieve."""

    space: Space
    sieve: Space


_NONE: I32 = np.empty(0, np.int32)
_NO_SPACE = Space(_NONE, _NONE, np.zeros(1, np.int32), np.empty(0, np.int64), np.ones(1, np.int32))
NO_PLAN = MicsPlan(_NO_SPACE, _NO_SPACE)
"""No axes at all: every slot is scanned."""


class MicsOptions(NamedTuple):
    """What the user gave, FREE where the data decides."""

    attributes: tuple[int, ...] = ()
    bits: int = FREE
    kind: int = VARIABLE
    most: int = MOST_AXES
    pieces: int = MOST_PIECES


def checked_options(
    attributes: tuple[int, ...] | None, bits: int | None, cells: str, most: int, pieces: int
) -> MicsOptions:
    """The options as numbers; EarmarkError says which makes no sense."""
    chosen = tuple(attributes) if isinstance(attributes, list | tuple | range | set | frozenset) else ()
    given = all(_is_whole(one, 0, 2**31 - 2) for one in chosen) and 1 <= len(set(chosen)) == len(chosen) <= LARGEST_MOST
    axes = max(1, len(chosen))
    deepest = min(MOST_BITS, MOST_NUMBER_BITS // axes)
    for fits, wanted, got in (
        (attributes is None or given, f"1 to {LARGEST_MOST} different attribute numbers", attributes),
        (_is_whole(most, 1, LARGEST_MOST), f"a number of attributes from 1 to {LARGEST_MOST} for most", most),
        (bits is None or _is_whole(bits, 1, deepest), f"bits from 1 to {deepest} for {axes} attributes", bits),
        (isinstance(cells, str) and cells in KINDS, f"{' or '.join(KINDS)} for cells", cells),
        (_is_whole(pieces, 1, LARGEST_PIECES), f"a number of blocks from 1 to {LARGEST_PIECES:,} for pieces", pieces),
    ):
        if not fits:
            raise EarmarkError(f"expected {wanted}, got {got!r}")
    numbers = tuple(map(int, chosen))
    return MicsOptions(numbers, FREE if bits is None else int(bits), KINDS.index(cells), int(most), int(pieces))


def _is_whole(given: object, least: int, most: int) -> bool:
    return isinstance(given, int | np.integer) and not isinstance(given, bool) and least <= int(given) <= most


def planned(table: SegmentArrays, slots: I32, options: MicsOptions, events: EventArrays | None = None) -> MicsPlan:
    """The spaces to index these slots in; without axes where no attribute is worth it."""
    if len(slots) < len(table.clause_start) - 1:
        table = gather(table, slots.astype(np.int64))  # what is not in the index teaches it nothing
        slots = np.arange(len(slots), dtype=np.int32)
    sample = gather(table, slots[:: max(1, len(slots) // SAMPLE)].astype(np.int64))
    attributes = list(options.attributes) or chosen_attributes(sample, options.most)
    if not attributes:
        return NO_PLAN
    more = chosen_attributes(sample, SIEVE_AXES - len(attributes), attributes, SIEVE_WORTH)
    sieved = sorted([*attributes, *more])[:SIEVE_AXES]
    learned = {attribute: _learned(table, attribute, events) for attribute in {*attributes, *sieved}}
    sieve = _space(sieved, learned, field_width(len(sieved)) - 1, VARIABLE)
    allowed = min(MOST_MEAN_RANGES, MEAN_RANGES * max(1.0, len(slots) / LARGE))
    return MicsPlan(_list_space(sample, attributes, learned, options, allowed), sieve)


def _list_space(
    sample: SegmentArrays, attributes: list[int], learned: dict[int, Learned], options: MicsOptions, allowed: float
) -> Space:
    """The space of the lists: as fine as the wanted number of ranges per clause allows."""
    most = min(MOST_BITS, MOST_NUMBER_BITS // len(attributes))
    if options.bits != FREE:
        return _space(attributes, learned, min(options.bits, most), options.kind)
    clauses = np.arange(len(sample.constraint_start) - 1)
    useful = max(len(learned[attribute].bounds) + 1 for attribute in attributes).bit_length()
    for bits in range(min(LEARNT_BITS, most, useful), 1, -1):
        space = _space(attributes, learned, bits, options.kind)
        low, high = boxes_of_clauses(space, sample, clauses)
        some = (low <= high).all(axis=1)
        if some.any() and float(mean_ranges(low[some], high[some]).mean()) <= allowed:
            return space
    return _space(attributes, learned, 1, options.kind)


def chosen_attributes(sample: SegmentArrays, most: int, taken: Sequence[int] = (), worth: float = WORTH) -> list[int]:
    """The attributes of the axes, each the best after those before it and those that are taken already."""
    attributes, share = shares(sample)
    share = np.where(np.isnan(share), 1.0, share)
    chosen: list[int] = []
    cost = np.ones(len(share))
    for column in np.flatnonzero(np.isin(attributes, taken)):
        cost = cost * share[:, column]
        share[:, column] = 1.0
    for _ in range(min(most, len(attributes))):
        sums = (cost[:, None] * share).sum(axis=0)
        best = int(sums.argmin())
        if not sums[best] < worth * cost.sum():
            break
        chosen.append(int(attributes[best]))
        cost = cost * share[:, best]
        share[:, best] = 1.0
    return sorted(chosen)


def possible_cuts(table: SegmentArrays, attribute: int) -> I64:
    """Where intervals on an attribute begin, and where what is beyond them begins; a sample when there are many."""
    on = intervals_on(table, attribute)
    on = on[:: max(1, len(on) // MOST_VALUES)]
    lo, hi = table.lo[on], table.hi[on]
    bounds: I64 = np.concatenate([lo[lo > INT64_MIN], hi[hi < INT64_MAX] + 1])
    return bounds


def values_of(events: EventArrays, attribute: int) -> I64:
    """The values of an attribute in a batch of events, both ends of an interval."""
    on = np.flatnonzero(events.attr == attribute)
    on = on[:: max(1, len(on) // MOST_VALUES)]
    values: I64 = np.concatenate([events.lo[on], events.hi[on]])
    return values


class Learned(NamedTuple):
    """What the cuts of an attribute are learned from: its distinct bounds, and the values to take quantiles of."""

    bounds: I64
    values: I64


def _learned(table: SegmentArrays, attribute: int, events: EventArrays | None) -> Learned:
    """Events that never have the attribute teach nothing: then its bounds do."""
    bounds = possible_cuts(table, attribute)
    values = bounds if events is None else values_of(events, attribute)
    return Learned(np.unique(bounds), np.sort(values if len(values) else bounds))


def _space(attributes: list[int], learned: dict[int, Learned], bits: int, kind: int) -> Space:
    """The space of these attributes, cut into 2^bits cells: at every bound, where there are as few as that."""
    cuts = []
    for bounds, values in (learned[attribute] for attribute in attributes):
        if kind == EQUAL:
            cuts.append(equal_cuts(bounds, bits))
        else:
            cuts.append(bounds if len(bounds) <= (1 << bits) - 2 else variable_cuts(values, bits))
    return space_of(np.array(attributes, np.int32), cuts, bits)
