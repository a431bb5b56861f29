"""What a user asks of a book, as something that can be done to a version: now, as part of a transaction, or again.

    edit = edits.add(Subscription("ad-17", "age > 3"))      what is asked
    made = edit(version)                                    the next version, and what became of which rows
    made.version, made.removed, made.added

A matcher makes an edit and publishes its version. A durable book also writes `removed` and `added` to its journal
(book/rows.py), and a transaction makes several edits one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from earmark.engine import updates
from earmark.engine.version import Place, Version
from earmark.errors import SubscriptionError
from earmark.keys.schema import Draft, Schema
from earmark.segment.builder import Prepared, Subscription, with_params
from earmark.segment.ids import Id, checked_id


class Edit(NamedTuple):
    """An edit that was made to a version."""

    version: Version
    """The next one. What was added is at the end of its last segment."""
    removed: Sequence[Place] = ()
    """Where the rows that went were, in the version before."""
    added: int = 0
    """How many rows came. An update removes a row and adds one of the same id."""
    types: tuple[str, Mapping[str, str]] | None = None
    """For an edit that gives types: `declare` or `retype`, and the types."""


Make: TypeAlias = Callable[[Version], Edit]


def add(given: Subscription) -> Make:
    """One new subscription."""
    return lambda version: Edit(updates.added_one(version, given), added=1)


def add_many(prepare_for: Callable[[Schema], Prepared]) -> Make:
    """A batch of new subscriptions."""

    def make(version: Version) -> Edit:
        prepared = prepare_for(version.schema)
        return Edit(updates.added(version, prepared), added=len(prepared.ids))

    return make


def remove(id: Id) -> Make:
    """One subscription goes."""

    def make(version: Version) -> Edit:
        place = updates.place_of(version, id, " to remove")
        return Edit(version.removed([place]), [place])

    return make


def remove_many(ids: Iterable[Id]) -> Make:
    """Several go, all or none."""
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise SubscriptionError(f"expected a sequence of ids, got {ids!r}")
    chosen = list(ids)

    def make(version: Version) -> Edit:
        places = updates.places_of(version, chosen)
        return Edit(version.removed(places), places)

    return make


def update(given: Subscription) -> Make:
    """A subscription changes; fields that are `KEEP` stay."""

    def make(version: Version) -> Edit:
        place = updates.place_of(version, given.id)
        return Edit(updates.updated(version, place, given), [place], 1)

    return make


def upsert(given: Subscription) -> Make:
    """A subscription is added, or takes the place of the one with its id."""
    checked_id(given.id)

    def make(version: Version) -> Edit:
        place = version.find(given.id)
        if place is None:
            return add(given)(version)
        new = replace(given, condition=with_params(given.condition, given.params), params=None)
        return Edit(updates.replaced(version, place, new), [place], 1)

    return make


def upsert_many(ids: Iterable[object], prepare_for: Callable[[Schema], Prepared]) -> Make:
    """A batch is added; those whose ids are there take the places of the old ones. `ids` are those of the batch."""
    batch: list[Id] = []
    for one in ids:
        with suppress(SubscriptionError):  # which is raised with its row when the batch is prepared
            batch.append(checked_id(one))

    def make(version: Version) -> Edit:
        places = {id: place for id in batch if (place := version.find(id)) is not None}
        order = {id: int(version.segments[one.number].segment.arrays.sequence[one.slot]) for id, one in places.items()}
        rest = version.removed(list(places.values())) if places else version
        prepared = prepare_for(rest.schema)
        return Edit(updates.added_at(rest, prepared, order), list(places.values()), len(prepared.ids))

    return make


def declare(attributes: Mapping[str, str]) -> Make:
    """Attributes get types for good."""

    def make(version: Version) -> Edit:
        draft = Draft(version.schema)
        draft.declare(attributes)
        return Edit(version.with_schema(draft.commit()), types=("declare", dict(attributes)))

    return make


def retype(name: str, type: str) -> Make:
    """An attribute gets another type."""
    return lambda version: Edit(updates.retyped(version, name, type), types=("retype", {name: type}))
