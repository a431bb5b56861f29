"""The arrays of the bitsets index, drawn; and what kernels rely on of arrays that come from a file.

Every clause is one *entry*. Entries are in an order that puts similar ones together (`build.py`); 512 of them are a
*line*, a bit each of one vector, and 8 lines are a *region*. Each counted attribute has *buckets* of values, and a last
one for NULL:

    buckets of a     0: below 30     1: 30 to 59     2: 60 and more     3: NULL
    a row            a bit for each entry of one region: its constraint on a may hold for a value of this bucket;
                     set as well where an entry does not constrain a

    row              by bucket and region: which of the rows it is
                        region 0   1   2   3 …
      bucket 0 of a          17   ALL  NONE 80        ALL: every entry may pass, NONE: none does
      bucket 1 of a          17   ALL  81   82        neighbours that are equal share one row
    some             by bucket a bit for each line in which an entry may pass
    rows             row 0: 64 words, row 1: 64 words, …

    codes            2 of 16 bits for each attribute of an entry: its lower end, from above, and its upper end, as
                     numbers of cuts (`build.py`); an entry passes if none is below the event's
    verify           a bit for each entry of which codes do not say everything, or whose slot has other clauses

Entries are in *tiers*: those of the best scores first, then three times as many, and so on, whole regions each. Inside
a tier similar ones are together. A ranked search that has its k answers leaves out regions that have no better one:

    region_best      the greatest score of a slot of the region for an event without weights; with weights it is at most
    region_score     the greatest static score, and
    region_weight    the greatest sum of weights, times the heaviest weight of an event
    region_sequence  the slot that was added first: of equal scores it wins
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.errors import require
from earmark.flat.arrays import F64, I32, I64, U64
from earmark.flat.bits import words_for
from earmark.index.bitsets.vectors import COLUMNS, U16
from earmark.jit import inlined
from earmark.segment.arrays import SegmentArrays

NONE, ALL = -1, -2
"""In place of a row: no entry of the region may pass, or every one."""
UNCOUNTED = -1
"""In place of the number of an attribute without rows."""
HIGHEST, ALWAYS = 4095, 65535
"""The greatest code of a key; and the code of an end that is not there, which passes always."""

MOST_CODED = 32
"""Entries have codes for the first of the attributes, up to this many; what they ask of the others is verified."""
WORDS = 64
"""Of a row."""
LINES, LINE = 8, 512
"""Lines of a region, and entries of a line."""
REGION = LINES * LINE

# Fields of `info`: slots, entries, and the option `buckets`.
SLOTS, ENTRIES, BUCKETS = 0, 1, 2
FIELDS = 3


class BitsetArrays(NamedTuple):
    """The index."""

    info: I64
    attr: I32
    """The counted attributes, those that rule out most first."""
    number: I32
    """By attribute its place in `attr`, or UNCOUNTED."""
    inexact: U64
    """A bit for each code of an entry that does not decide where it equals the event's."""
    cut_start: I64
    cuts: I64
    bucket_start: I32
    """The buckets of attribute i: bucket_start[i] .. bucket_start[i + 1], the last for NULL."""
    row: I32
    some: U64
    rows: U64
    entry_slot: I32
    entry_clause: I32
    verify: U64
    codes: U16
    """By entry; and COLUMNS more, since they are read COLUMNS at a time."""
    region_best: F64
    region_score: F64
    region_weight: F64
    region_sequence: I64


@inlined
def columns_of(attributes: int) -> int:
    """How many codes an entry has."""
    return 2 * min(attributes, MOST_CODED)


@inlined
def regions_of(arrays: BitsetArrays) -> int:
    """How many regions there are."""
    return int(arrays.info[ENTRIES] + REGION - 1) // REGION


def check_arrays(arrays: BitsetArrays, table: SegmentArrays) -> None:
    """AssertionError unless kernels can read these arrays without leaving them. O(size)."""
    require(len(arrays.info) == FIELDS and (arrays.info >= 0).all(), "info is damaged")
    slots, entries = map(int, arrays.info[:BUCKETS])
    regions, lines = -(-entries // REGION), words_for(-(-entries // LINE))
    require(slots == len(table.sequence), "the index is of a table with another number of slots")
    require(entries == len(table.constraint_start) - 1, "the entries are not the clauses of the table")
    count = len(arrays.attr)
    for name, end in (("cut_start", len(arrays.cuts)), ("bucket_start", len(arrays.row) // max(1, regions))):
        start = getattr(arrays, name)
        require(len(start) == count + 1 and start[0] == 0, f"{name} does not fit the attributes")
        is_free = name == "bucket_start" and not regions  # there are no rows to count
        require(is_free or start[-1] == end, f"{name} does not run to its end")
    buckets, cuts = np.diff(arrays.bucket_start), np.diff(arrays.cut_start)
    require((buckets >= 2).all() and (cuts >= 0).all() and (cuts <= HIGHEST).all(), "buckets or cuts are odd")
    require((buckets <= cuts + 2).all(), "there are more buckets than cuts make")
    total = int(arrays.bucket_start[-1])
    for name, length in (
        ("inexact", -(-columns_of(count) // COLUMNS)),
        ("row", total * regions),
        ("some", total * lines),
        ("entry_slot", entries),
        ("entry_clause", entries),
        ("verify", words_for(entries)),
        ("codes", columns_of(count) * entries + COLUMNS),
        ("region_best", regions),
        ("region_score", regions),
        ("region_weight", regions),
        ("region_sequence", regions),
    ):
        require(len(getattr(arrays, name)) == length, f"{name} has {len(getattr(arrays, name))} elements, not {length}")
    numbers = np.flatnonzero(arrays.number != UNCOUNTED)
    require(len(numbers) == count and (np.sort(arrays.attr) == numbers).all(), "number does not fit the attributes")
    require((arrays.number[arrays.attr] == np.arange(count)).all(), "number does not fit the attributes")
    require(len(arrays.rows) % WORDS == 0, "rows are not whole")
    row = arrays.row
    require(
        not len(row) or ALL <= row.min() <= row.max() < len(arrays.rows) // WORDS, "row names one that is not there"
    )
    none = np.repeat(row.reshape(total, regions) == NONE, LINES, axis=1)
    some = np.unpackbits(arrays.some.view(np.uint8), bitorder="little").reshape(total, 64 * lines)
    used = -(-entries // LINE)
    require(not (some[:, :used] & none[:, :used]).any() and not some[:, used:].any(), "some names empty lines")
    slot, clause = arrays.entry_slot, arrays.entry_clause
    require(not entries or (slot.min() >= 0 and slot.max() < slots), "entry_slot names a slot that is not there")
    own = (table.clause_start[slot] <= clause) & (clause < table.clause_start[slot + 1])
    require(own.all(), "an entry is of a clause that is not of its slot")
