"""What a matcher reports of itself: `Matcher.stats` and `Matcher.attributes`."""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict


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
