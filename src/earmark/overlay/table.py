"""Conditions by number, matched through the engine: what neighbours want, and what local clients subscribe to.

    add 7, add 8, remove 7        noted
    matches(events)               the notes become one batch for the engine, then all events are searched at once

**Types.** A table learns the types of attributes from conditions, as a Matcher does. A condition that contradicts what
the table has learned, though it is well formed, is *wide*: it counts as matching every event, so that nothing is missed
and its owner, who knows better, decides. Networks in which this matters declare the types of attributes.

Invariant: `_version` with `_new` added and `_gone` removed holds the live numbers that are not wide.
Complexity: a change O(1) until the next search; then amortised O(log n) indexings of each condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from earmark import index as indexes
from earmark.cover.cover_index import MOST_UNUSED, size_of
from earmark.engine import updates
from earmark.engine.batch import read
from earmark.engine.compaction import compacted
from earmark.engine.searcher import Ask, Searcher
from earmark.engine.version import Version
from earmark.errors import EventError, SubscriptionError
from earmark.events.mappings import Reject
from earmark.flat.arrays import F64, I64, Flags
from earmark.keys.schema import Schema
from earmark.segment.builder import Subscription, prepare
from earmark.segment.forms import subscription_at
from earmark.segment.shared import prepare_shared

INDEX = "blocks"
LONGEST_TAIL = 256
"""Rows that are scanned rather than indexed, at least,"""
TAIL_SHARE = 1 / 8
"""and as a share of the indexed ones."""


_ANOTHER = "another subscription"
"""Who taught a type, as those are told whose conditions or events contradict it."""
MOST_OWNERS = 1 << 16
_OWNER = MOST_OWNERS - 1


def owned(number: int, owner: int) -> int:
    """A number that names its owner, who is below MOST_OWNERS, as well."""
    return number * MOST_OWNERS + owner


class Matches(NamedTuple):
    """Per event, the numbers that match it, in order of insertion, with their scores."""

    starts: I64
    numbers: I64
    scores: F64
    unread: frozenset[int]
    """Events with a value of another type than conditions compare it with; it was taken for NULL."""


class Table:
    """Conditions by number. Numbers are not used again."""

    def __init__(self, attributes: Mapping[str, str] | None = None, zone: str = "UTC", scores: bool = False) -> None:
        """Make an empty table; `attributes` declares types. Matches have scores where they are asked for."""
        self._declared, self._zone = attributes or {}, zone
        self._version = Version.empty(self._new_schema())
        self._most_known = MOST_UNUSED
        """Attributes and constants, beyond which those that nothing uses are forgotten."""
        self._build = indexes.builder(INDEX)
        self._ask = Ask(scores=scores)
        self._new: dict[int, str] = {}
        self._gone: list[int] = []
        self.wide: set[int] = set()

    def _new_schema(self) -> Schema:
        schema = Schema(self._zone)
        schema.declare(self._declared)
        return schema

    def __len__(self) -> int:
        return self._version.live + len(self._new) - len(self._gone) + len(self.wide)

    def add(self, number: int, condition: str) -> None:
        """Add a well-formed condition, at the next search."""
        self._new[number] = condition

    def add_now(self, number: int, condition: str, weights: Mapping[str, float], score: float) -> None:
        """Add a condition, or raise a SubscriptionError, which shows nothing of other conditions."""
        self._apply()
        before = self._version.schema
        try:
            self._version = updates.added_one(self._version, Subscription(number, condition, weights or None, score))
        except SubscriptionError as problem:
            problem.reason = problem.reason.replace(f"first used so by subscription {number}: ", "first used so by ")
            raise problem.at(id=None) from None
        if self._version.schema is not before:
            self._hide_origins()

    def _hide_origins(self) -> None:
        """Let nobody see whose condition taught a type."""
        schema = self._version.schema
        for attribute in [*schema]:
            if not attribute.declared and attribute.origin != _ANOTHER:
                schema.put(replace(attribute, origin=_ANOTHER))

    def remove(self, number: int) -> None:
        """Remove a condition."""
        if number in self._new:
            del self._new[number]
        elif number in self.wide:
            self.wide.remove(number)
        else:
            self._gone.append(number)

    def matches(
        self, events: Sequence[Mapping[str, Any]], weights: Sequence[Mapping[str, float]] | None = None
    ) -> Matches:
        """Which conditions the events match; the wide ones are not among them."""
        self._apply()
        self._compact()
        unread: list[Reject] = []
        batch = read(self._version, events, weights, "null", unread)
        found = Searcher(self._version, self._ask).answers(batch)
        numbers = np.asarray(found.subscriptions, np.int64) if len(found.subscriptions) else np.empty(0, np.int64)
        return Matches(found.starts, numbers, found.scores, frozenset(one.event for one in unread))

    def owners(self, events: Sequence[Mapping[str, Any]], count: int) -> tuple[Flags, frozenset[int]]:
        """Which of `count` owners have a condition that an event matches, as a row of flags per event; and the unread.

        The numbers of this table are those of `owned`. O(matches), in arrays.
        """
        self._apply()
        self._compact()
        unread: list[Reject] = []
        batch = read(self._version, events, None, "null", unread)
        searcher, flags = Searcher(self._version, self._ask), np.zeros((len(events), count), bool)
        for segment in range(len(self._version.segments)):
            part = searcher.found(segment, batch)
            flags[part.events, np.asarray(searcher.named(part), np.int64) & _OWNER] = True
        for number in self.wide:
            flags[:, number & _OWNER] = True
        return flags, frozenset(one.event for one in unread)

    def check_event(self, event: Mapping[str, Any], weights: Mapping[str, float]) -> None:
        """Raise an EventError where an event does not fit the types of this table."""
        self._apply()
        try:
            read(self._version, [event], [weights] if weights else None)
        except EventError as problem:
            raise problem.at(event=None) from None

    def _apply(self) -> None:
        if self._gone:
            self._version = self._version.removed(updates.places_of(self._version, self._gone))
            self._gone = []
        if self._new:
            rows, self._new = list(self._new.items()), {}
            try:
                self._version = updates.added(self._version, prepare_shared(self._version.schema, rows))
            except SubscriptionError:
                for number, condition in rows:
                    self._add_or_widen(number, condition)
        if size_of(self._version.schema) > self._most_known:
            self._forget_unused()

    def _forget_unused(self) -> None:
        """Bind what lives again, without the attributes and constants that only removed conditions had."""
        whole, schema = self._version.whole, self._new_schema()
        rows = [subscription_at(whole, slot) for slot in range(len(whole))]
        self._version = updates.added(Version.empty(schema), prepare(schema, rows, numbered=False))
        self._most_known = 2 * size_of(self._version.schema) + MOST_UNUSED
        self._hide_origins()

    def _add_or_widen(self, number: int, condition: str) -> None:
        try:
            self._version = updates.added_one(self._version, Subscription(number, condition))
        except SubscriptionError:
            self.wide.add(number)

    def _compact(self) -> None:
        """Index the rows that are scanned, and drop the removed, where there are many."""
        segments = self._version.segments
        tail = sum(len(one) for one in segments if not one.is_sealed)
        sealed = sum(len(one) for one in segments) - tail
        dead = sealed + tail - self._version.live
        if tail > max(LONGEST_TAIL, TAIL_SHARE * sealed) or dead > max(LONGEST_TAIL, self._version.live):
            self._version = compacted(self._version, self._build, fewer_constants=True)
