"""What must hold of subscriptions that come from outside, beyond what kernels rely on (`rows.check_arrays`)."""

from __future__ import annotations

import numpy as np

from earmark.errors import require
from earmark.flat.packed import PackedStrings
from earmark.keys.schema import INT64_MAX, INT64_MIN, Schema
from earmark.segment.arrays import SegmentArrays
from earmark.segment.ids import distinct
from earmark.segment.rows import check_arrays
from earmark.segment.segment import Segment
from earmark.segment.subscription import checked_id

MAX_SEQUENCE = 2**62
DAMAGE = (AssertionError, ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError)
"""What reading hostile data may raise on the way to one of our errors."""


def check_form(segment: Segment) -> None:
    """Raise AssertionError or ValueError unless arrays, ids, conditions and tags can be what they say they are."""
    check_arrays(segment.arrays, len(segment.schema))
    segment.asked.check("conditions")
    numbers = segment.tagset
    require(not len(numbers) or 0 <= numbers.min() <= numbers.max() < len(segment.tagsets), "a set of tags is unknown")
    ids = segment.ids.column
    if isinstance(ids, PackedStrings):
        ids.check("ids")
        lengths = np.diff(ids.start)
        for slot in {int(lengths.argmin()), int(lengths.argmax())} if len(ids) else ():
            checked_id(ids[slot])


def check_living(segment: Segment, with_ids: bool = True) -> None:
    """Raise AssertionError unless the bounds are of their types, and no id or place in the order is used twice.

    All slots count as living: what was removed may have had another type, and an id that is now another's.
    """
    check_content(segment.arrays, segment.schema)
    sequence = segment.arrays.sequence if segment.is_ordered else np.sort(segment.arrays.sequence)
    require(bool((sequence[:-1] < sequence[1:]).all()), "a sequence number is used twice")
    if with_ids:
        require(distinct([segment.ids], [np.arange(len(segment))]) == len(segment), "an id is used twice")


def check_content(arrays: SegmentArrays, schema: Schema) -> None:
    """What `check_arrays` cannot see: bounds lie in the domain of their type, and on or beside a string constant."""
    sequence = arrays.sequence
    require(
        not len(sequence) or 0 <= sequence.min() <= sequence.max() < MAX_SEQUENCE, "a sequence number is impossible"
    )
    low, high = schema.domains
    of = np.repeat(arrays.attr, np.diff(arrays.interval_start))
    inside = (arrays.lo >= low[of]) & (arrays.hi <= high[of])
    untyped = (arrays.lo == INT64_MIN) & (arrays.hi == INT64_MAX)  # IS NOT NULL, asked before the type was known
    require((inside | untyped).all(), "a bound lies outside its type")
    for number, strings in schema.strings.items():
        mine = np.flatnonzero(of == number)
        require(strings.has_bounds(arrays.lo[mine], arrays.hi[mine]), "a bound on strings is at no constant")
