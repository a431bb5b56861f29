"""Which subscriptions cover which, by id: what users, relation graphs and `Subsumption` ask.

    index = CoverIndex("kd_tree")             empty; or CoverIndex.of(matcher), or of (id, condition) pairs
    index.add("adults", "age >= 18")
    index.add("teens", "age BETWEEN 18 AND 19")
    index.covering("teens")                   ['adults']

Underneath, an index over slots (`indexes/`) reads one canonical table:

    version   the subscriptions as they were given, with their types (engine/version.py)
    rows      the same in canonical form, by slot; removed slots stay for a while
    members   the index over those slots of `rows` that are live

**Following changes.** A new subscription is one more row. When a change gives older conditions other keys or another
meaning (the keys of a new generation; an attribute that gets or loses its type), or when most rows are removed ones,
the rows and the index are made again. Keys of older rows otherwise stay, so a string constant that comes later and
happens to touch one of theirs (`'a'`, then `'a\\0'`) is not seen as adjacent: a covering can then be missed, never
invented.

Invariant (`check`): `rows` hold the canonical form of every live subscription of `version`, and exactly these are
members.
Complexity: adding O(its size + constants of its string attributes), beside the index; removing amortised O(1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np

from earmark.cover import builder
from earmark.cover.canonical import canonized, domains
from earmark.cover.exact import WORK, Decision, decide
from earmark.cover.indexes.members import SUBSCRIBE, Cost, Members
from earmark.cover.written import EventWriter
from earmark.engine import updates
from earmark.engine.version import IndexedSegment, Version
from earmark.errors import SubscriptionError, require
from earmark.flat.arrays import I32
from earmark.keys.schema import LIFE, Schema
from earmark.language.predicate import Condition
from earmark.language.words import counted
from earmark.segment.arrays import SegmentArrays
from earmark.segment.builder import Prepared, prepare
from earmark.segment.forms import reader_of, subscription_at
from earmark.segment.ids import Id, Ids, Lookups, checked_id
from earmark.segment.segment import Segment
from earmark.segment.shared import prepare_shared

_TOP = 2**63
FEW = 64
"""Removed rows that do not cause the rows to be made again."""
MOST_UNUSED = 1 << 12
"""Attributes and constants that may be left over from removed subscriptions, beside as many as were in use."""


def version_of(source: Any, attributes: Mapping[str, str] | None = None, zone: str = "UTC") -> Version:
    """The subscriptions of a Matcher or CoverIndex, or of a batch as `Matcher.add_many` takes it."""
    version = getattr(source, "_version", None)
    if isinstance(version, Version):
        return version
    schema = Schema(zone)
    schema.declare(attributes or {})
    return updates.added(Version.empty(schema), reader_of(source, progress=False)(schema))


class CoverIndex:
    """Which subscriptions cover which, by id. The order of insertion decides between equal conditions."""

    def __init__(
        self, index: str = "auto", attributes: Mapping[str, str] | None = None, zone: str = "UTC", **options: Any
    ) -> None:
        """Make an empty index.

        `index` names the structure: 'auto' (a scan until an index pays), 'linear', 'kd_tree', 'z_curve', 'blocks',
        'layers' (blocks, for members that come in batches) or 'mics'; `options` are its own. `attributes` declares
        types, and `zone` is where timestamps without a zone are read, as for a Matcher.
        """
        self.index = index
        self.keep_keys = False
        """Whether to refuse conditions that would change the keys of others, for those who have derived from them."""
        self.renewals = 0
        """How often slots were numbered again."""
        self._size_in_use = 0
        """How many attributes and constants the schema had when those that nothing used were left out."""
        self._build = partial(builder(index), **options)
        self._renew(version_of((), attributes, zone))

    @classmethod
    def of(cls, source: Any, index: str = "auto", **options: Any) -> Self:
        """Index the subscriptions of a Matcher, or a batch as `Matcher.add_many` takes it.

        Later changes of the matcher are not followed.
        """
        made = cls(index, **options)
        made._renew(version_of(source))
        return made

    def _renew(self, version: Version) -> None:
        """Make the rows and the index again, from a version."""
        self.renewals += 1
        whole = version.whole
        table = canonized(whole.arrays, whole.schema).table
        self._version, self._is_shared = version, True
        self._rows: Segment = replace(whole, arrays=table, room=None)
        self.members: Members = self._build(table)

    def _own(self) -> None:
        """Make the version one segment that shares nothing that changes with a matcher, so that it can grow."""
        if not self._is_shared:
            return
        whole = self._version.whole
        schema, ids = whole.schema.copied(), whole.ids.objects[: len(whole)]
        whole = replace(whole, schema=schema, ids=Ids.of(list(ids)), lookups=Lookups(), room=None)
        version = Version.of(schema, [IndexedSegment.of(whole)] if len(whole) else [], self._version.next_sequence)
        self._version = replace(version, integer_ids=self._version.integer_ids)
        self._rows = replace(self._rows, schema=schema, ids=Ids.of(list(ids)), lookups=Lookups())
        self._is_shared = False

    def _keeps_meaning(self, version: Version, removed: Sequence[int]) -> bool:
        """Whether all members but the removed slots mean the same to a later version, by their keys and types."""
        before, after, table = self._version.schema, version.schema, self.table
        if before.generation != after.generation:
            return False
        changed = [] if before is after else [a.number for a in before if after.by_name[a.name].type != a.type]
        if not changed:
            return True
        constraints = np.flatnonzero(np.isin(table.attr, changed))
        clauses = np.searchsorted(table.constraint_start, constraints, "right") - 1
        owners, gone = np.searchsorted(table.clause_start, clauses, "right") - 1, set(removed)
        return not any(owner in self.members for owner in owners.tolist() if owner not in gone)

    # --- changes ---------------------------------------------------------------------------------------------

    def add(self, id: Id, condition: str | Condition) -> None:
        """Add one subscription; its id must be new."""
        self.add_many([(id, condition)])

    def add_many(self, subscriptions: Sequence[tuple[Id, str | Condition]]) -> None:
        """Add (id, condition) pairs, all or none; the ids must be new."""
        if not subscriptions:
            return
        self._own()
        schema, count = self._version.schema, len(subscriptions)
        added = updates.following(self._version, self._prepared(subscriptions), numbered=False)
        version = self._version.appended(added)
        if self.keep_keys and schema.generation != version.schema.generation:
            id = subscriptions[0][0]
            raise SubscriptionError("the condition needs other keys than the grid was made for; make it again", id=id)
        if not self._keeps_meaning(version, []):
            self._renew(version)
            return
        self._rows = self._rows.appended(replace(added, arrays=canonized(added.arrays, version.schema).table))
        self._version = version
        self.members.insert(self.table, [*range(len(self._rows) - count, len(self._rows))])

    def _prepared(self, subscriptions: Sequence[tuple[Id, str | Condition]]) -> Prepared:
        schema = self._version.schema
        shared = [(id, text) for id, text in subscriptions if type(id) is int and type(text) is str]
        if len(shared) == len(subscriptions) and all(-_TOP <= id < _TOP for id, _ in shared):
            return prepare_shared(schema, shared, numbered=False)
        return prepare(schema, [*subscriptions], numbered=False)

    def remove(self, id: Id) -> None:
        """Remove one subscription by id."""
        self.remove_many([id])

    def remove_many(self, ids: Sequence[Id]) -> None:
        """Remove subscriptions by id, all or none."""
        slots = [self.slot(id) for id in ids]
        self._own()
        version = self._version.removed(updates.places_of(self._version, ids))
        if len(self._rows) > 2 * len(self) + FEW or not self._keeps_meaning(version, slots):
            self._renew(self._without_unused(version))
        else:
            self._version = version
            self.members.remove(slots)

    def _without_unused(self, version: Version) -> Version:
        """The version without attributes and constants that only removed subscriptions had, where these may be many."""
        schema = version.schema
        if self.keep_keys or LIFE in schema.by_name or size_of(schema) <= 2 * self._size_in_use + MOST_UNUSED:
            return version
        fresh, whole = Schema(schema.zone_name, strict=schema.strict), version.whole
        fresh.declare({one.name: str(one.type) for one in schema if one.declared})
        items = [subscription_at(whole, slot) for slot in range(len(whole))]
        made = updates.added(Version.empty(fresh), prepare(fresh, items, numbered=False))
        self._size_in_use = size_of(made.schema)
        return replace(made, integer_ids=version.integer_ids)

    # --- looking ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return len(self.members)

    def __iter__(self) -> Iterator[Id]:
        """The ids in order of insertion."""
        return iter(self.named(self.members.members()))

    def __contains__(self, id: object) -> bool:
        try:
            slot = self._rows.find(checked_id(id))
        except SubscriptionError:
            return False
        return slot is not None and slot in self.members

    def __repr__(self) -> str:
        return f"<CoverIndex {self.index!r}: {counted(len(self), 'subscription')}>"

    @property
    def schema(self) -> Schema:
        """The types of the attributes, and the keys of the table."""
        return self._rows.schema

    @property
    def table(self) -> SegmentArrays:
        """The canonical table, for those who work with slots."""
        return self._rows.arrays

    @property
    def costs(self) -> tuple[Cost, Cost]:
        """Work of all queries since the index was last made again: of subscribes, and of unsubscribes."""
        return self.members.costs

    def slot(self, id: Id) -> int:
        """The slot of a subscription; raise where there is none."""
        slot = self._rows.find(checked_id(id))
        if slot is None or slot not in self.members:
            raise SubscriptionError(f"there is no subscription {id!r}")
        return slot

    # --- questions -------------------------------------------------------------------------------------------

    def covering(self, id: Id, k: int | None = None, phase: int = SUBSCRIBE) -> list[Id]:
        """Up to k subscriptions (all without k) that every event of this one matches too, in order of insertion."""
        return self.named(self.members.covering(self.slot(id), k, phase))

    def covering_many(self, ids: Sequence[Id], k: int | None = None) -> list[list[Id]]:
        """`covering` of each of these, in no particular order; at once, where the index answers batches."""
        find, members = self._rows.find, self.members
        slots = [slot if (slot := find(id)) is not None and slot in members else self.slot(id) for id in ids]
        batch, names = getattr(self.members, "covering_batch", None), self._rows.ids
        if batch is None:
            return [[names[slot] for slot in self.members.covering(slot, k).tolist()] for slot in slots]
        pointers, found = batch(np.array(slots, np.int32), k)
        starts, others = pointers.tolist(), [names[slot] for slot in found.tolist()]
        return [others[first:last] for first, last in pairwise(starts)]

    def covered(self, id: Id, k: int | None = None) -> list[Id]:
        """Up to k subscriptions (all without k) all of whose events match this one, in order of insertion."""
        return self.named(self.members.covered(self.slot(id), k))

    def meeting(self, id: Id) -> list[Id]:
        """Others that may share an event with this one, in order of insertion: all that do are among them."""
        return [other for other in self.named(self.members.meeting(self.slot(id))) if other != id]

    def mergeable(self, id: Id) -> list[Id]:
        """Others that make one condition with this one that takes what the two take and no more, by insertion.

        Either one covers the other, or they differ on one attribute alone (`merge` writes the condition).
        """
        return self.named(self.members.mergeable(self.slot(id)))

    def covers(self, above: Id, below: Id) -> bool:
        """Whether every event that matches `below` matches `above` too; of equal conditions, the older one covers."""
        return self.members.covers(self.slot(above), self.slot(below))

    def verdict(self, id: Id, work: int = WORK) -> Decision:
        """Whether the others together take everything that this one takes; `work` bounds the search (`subsumed`)."""
        slot, writer = self.slot(id), EventWriter(self.schema)
        others = self._by_age(self.members.meeting(slot))
        found = decide(self.table, slot, others.astype(np.int64), domains(self.schema), work, writer.pick)
        event = None if found.witness is None else writer.event(found.witness)
        return found._replace(by=tuple(self._rows.ids[int(other)] for other in found.by), witness=event)

    def _by_age(self, slots: I32) -> I32:
        return slots[np.argsort(self.table.sequence[slots], kind="stable")]

    def named(self, slots: I32) -> list[Id]:
        """The ids of slots, in order of insertion."""
        return [self._rows.ids[slot] for slot in self._by_age(slots).tolist()]

    def check(self) -> None:
        """Raise AssertionError unless the invariant holds. O(size)."""
        self._version.check()
        self.members.check()
        whole = self._version.whole
        require(list(self) == whole.ids.objects[: len(whole)], "members and subscriptions disagree")


def size_of(schema: Schema) -> int:
    """How many attributes and constants a schema has."""
    return len(schema) + sum(map(len, schema.strings.values()))


def subsumed(source: Any, id: Id, work: int = WORK) -> Decision:
    """Whether the other subscriptions of a matcher together take everything that this one takes.

    Removing a covered or subsumed subscription changes nothing about which events are wanted; but the verdict is about
    it alone: of two that cover each other, only one can go. `work` bounds the steps of the search.
    """
    kept = getattr(source, "_cover_index", None)  # a matcher keeps its index
    index = source if isinstance(source, CoverIndex) else CoverIndex.of(source) if kept is None else kept()
    return index.verdict(id, work)
