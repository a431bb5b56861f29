"""What a matcher reports of itself: `Matcher.stats` and `Matcher.attributes`."""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict

from earmark.engine.compaction import Compactor
from earmark.engine.version import Version


class Stats(TypedDict):
    """Counts, types and sizes of a matcher. Sizes are in bytes."""

    subscriptions: int
    removed: int
    """Slots of removed subscriptions whose room has not been given back."""
    clauses: int
    constraints: int
    intervals: int
    attributes: dict[str, str | None]
    """The type of each attribute; None where it is not known yet."""
    index: str
    index_tail: int
    """Subscriptions that no index has taken in yet, and that are scanned."""
    segments: int
    merges: int
    """Merges of segments that were done in the background."""
    merge_problem: str | None
    """What made the last one fail, if it did; `compact` tries again."""
    table_bytes: int
    index_bytes: int
    index_about: dict[str, Any]
    """What the index chose; its names depend on the index."""
    asked_bytes: int
    """Size of the conditions' text."""


class AttributeInfo(NamedTuple):
    """What is known of an attribute."""

    type: str | None
    """None while no condition compares it with a value."""
    declared: bool
    """Declared by a user, or learned from a condition."""
    origin: str | None
    """Who fixed the type: the first condition that used the attribute so, for a learned one."""
    uses: int
    """Constraints that compare it with a value."""


def attributes_of(version: Version) -> dict[str, AttributeInfo]:
    """The attributes by name: type, declared or learned, and who was first to use it so."""
    return {
        a.name: AttributeInfo(str(a.type) if a.type else None, a.declared, a.origin or None, int(version.uses[n]))
        for n, a in enumerate(version.schema)
    }


def stats_of(version: Version, index: str, compactor: Compactor) -> Stats:
    """Counts, types and sizes of a version, whose index has this name."""
    segments = [one.segment for one in version.segments]
    sealed = [one for one in version.segments if one.index is not None]
    largest = max(sealed, key=len, default=None)
    described = largest.index if largest is not None else None
    problem = compactor.problem
    return {
        "subscriptions": version.live,
        "removed": version.slots - version.live,
        "clauses": sum(len(one.arrays.constraint_start) - 1 for one in segments),
        "constraints": sum(len(one.arrays.attr) for one in segments),
        "intervals": sum(len(one.arrays.lo) for one in segments),
        "attributes": {a.name: str(a.type) if a.type else None for a in version.schema},
        "index": index,
        "index_tail": sum(len(one) for one in version.segments if one.index is None),
        "segments": len(segments),
        "merges": compactor.merges,
        "merge_problem": None if problem is None else repr(problem),
        "table_bytes": sum(one.segment.nbytes + one.removed.nbytes for one in version.segments),
        "index_bytes": sum(one.index.nbytes for one in sealed if one.index is not None),
        "index_about": described.describe() if described is not None else {},
        "asked_bytes": sum(one.asked.nbytes for one in segments),
    }
