"""What every search is given, checked once and made ready for kernels, which compile for read-only arrays."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from earmark.errors import EarmarkError, shown
from earmark.events.arrays import EventArrays
from earmark.flat.bits import read_only
from earmark.segment.arrays import SegmentArrays

Mode = Literal["exact", "relaxed"]
"""What a ranked search ranks: subscriptions that match, or those of which at least one constraint holds."""


def read_only_table(table: SegmentArrays) -> SegmentArrays:
    """Read-only views of a table's columns."""
    return SegmentArrays._make(read_only(column) for column in table)


def read_only_events(events: EventArrays) -> EventArrays:
    """Read-only views of a batch's columns."""
    return EventArrays._make(read_only(column) for column in events)


def check_event(events: EventArrays, e: int) -> None:
    """Raise unless the batch has an event with this number."""
    if not 0 <= e < len(events.start) - 1:
        raise EarmarkError(f"there is no event {e} in a batch of {len(events.start) - 1}")


def checked_k(k: int, table: SegmentArrays) -> int:
    """How many answers to make room for: k, and no more than there are slots."""
    if k < 1:
        raise EarmarkError(f"k must be at least 1, got {k}")
    return min(k, max(1, len(table.sequence)))


def asked_k(k: Any) -> int:
    """The number of results that a user asks for."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise EarmarkError(f"expected a number of results k, 1 or more, got {shown(k)}")
    return int(k)


def asked_relaxed(mode: Any) -> bool:
    """Whether the mode that a user asks for is "relaxed"."""
    if mode not in get_args(Mode):
        raise EarmarkError(f"expected 'exact' or 'relaxed' for mode, got {mode!r}")
    return bool(mode == "relaxed")
