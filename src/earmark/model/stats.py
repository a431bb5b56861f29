"""What `Matcher.stats` reports."""

from __future__ import annotations

from typing import Any, TypedDict


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
    """Subscriptions that the index has not taken in yet."""
    table_bytes: int
    index_bytes: int
    index_about: dict[str, Any]
    """What the index chose; its names depend on the index."""
    asked_bytes: int
    """Size of the conditions' text."""
    generation: int
