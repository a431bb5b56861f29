"""State: a moment of a matcher, which is all that a search looks at: a table and an index over it.

    state   table   which never changes      index     the matcher's own, which follows the table (`live.py`)
                                             others    by name: another index for ranked search, built over this
                                                       table when first asked for, gone with the state

A writer publishes another state by one store, its only commit point: a reader sees all of a change or nothing of it,
and a change that fails before it has not happened.

Invariant: every index here answers for exactly the slots of the table; one in `others` is whole before anyone sees it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from earmark.engine.live import Live
from earmark.events.arrays import EventArrays
from earmark.flat.types import I32, I64, U64, frozen
from earmark.index import builder
from earmark.locks import remade_lock
from earmark.segment.subscription import checked_tags
from earmark.segment.table import Table


class State:
    """What readers see."""

    __slots__ = ("_building", "_others", "index", "name", "table")

    def __init__(self, table: Table, index: Live, name: str) -> None:
        self.table = table
        self.index = index
        self.name = name
        self._others: dict[str, Live] = {}
        self._building = remade_lock()

    def eligible(self, scope: Mapping[str, str] | None = None) -> U64:
        """The bitmap of living slots that carry the tags of a scope; without one, made when first asked for."""
        return self.table.eligible(checked_tags(scope, "a scope") if scope is not None else ())

    def ranked_by(self, name: str | None) -> Live:
        """The index of this name; None is the matcher's own. Whoever asks first builds it, and others wait for that."""
        if name is None or name == self.name:
            return self.index
        build = builder(name)
        if name not in self._others:
            with self._building:
                if name not in self._others:
                    self._others[name] = Live.built(build, self.table.arrays)
        return self._others[name]

    def match(self, events: EventArrays, eligible: U64) -> I32:
        """The eligible slots that the first event matches, in order of insertion."""
        slots, table = self.index.match(events, eligible), self.table
        return slots if table.ordered else slots[np.argsort(table.arrays.sequence[slots], kind="stable")]

    def match_many(self, events: EventArrays, eligible: U64) -> tuple[I64, I32]:
        """Per event the eligible slots that match, in order of insertion: (event_ptr, slots)."""
        starts, slots = self.index.match_many(events, eligible)
        if not self.table.ordered:
            numbers = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
            slots = frozen(slots[np.lexsort((self.table.arrays.sequence[slots], numbers))])
        return starts, slots
