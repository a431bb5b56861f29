"""The changes that a user makes: a version and what is asked for -> the next version.

Everything that can be wrong is found before the next version is made, and nothing is changed in place, so a failure
half-way has changed nothing.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from earmark.engine.batch import Batch
from earmark.engine.compaction import Build
from earmark.engine.version import Place, Version, no_slots
from earmark.errors import AttributeTypeError, EarmarkError, SubscriptionError, refuse
from earmark.index.auto import planned
from earmark.index.contract import Adaptation
from earmark.keys.schema import LIFE, attribute_type
from earmark.keys.strings import StringKeys
from earmark.language.words import did_you_mean
from earmark.segment import builder
from earmark.segment.arrays import SegmentArrays, gather
from earmark.segment.builder import Prepared, Subscription
from earmark.segment.explain import condition_text
from earmark.segment.forms import score_at, subscription_at, weights_at
from earmark.segment.ids import Base, Id, checked_id
from earmark.segment.life import life_of, moments
from earmark.segment.segment import Row, Segment, no_arrays, uses_of

KEEP: Any = object()
"""In place of a field of a subscription that an update leaves as it is."""


def added_one(version: Version, given: Subscription) -> Version:
    """The version with one new subscription at the end of the order of insertion."""
    row = builder.row_of(version.schema, given, version.next_sequence)
    if version.id_type not in (None, type(row.id)) or version.find(row.id) is not None:
        refuse(builder.id_problems([row.id], [None], version))
    return version.appended(row)


def added(version: Version, prepared: Prepared, numbered: bool = True) -> Version:
    """The version with new subscriptions at the end of the order of insertion.

    Into a version without any, rows that bring sequence numbers keep them.
    """
    return version.appended(following(version, prepared, numbered))


def added_at(version: Version, prepared: Prepared, order: Mapping[Id, int]) -> Version:
    """The version with new subscriptions: those of `order` at their places in it, the others at its end."""
    if problems := builder.id_problems(prepared.ids, range(len(prepared.ids)), version):
        refuse(problems)
    following = itertools.count(version.next_sequence)
    ids = prepared.ids if isinstance(prepared.ids, list) else Base(prepared.ids).to_list()
    places = [order[id] if id in order else next(following) for id in ids]
    return version.appended(prepared.segment(np.array(places, np.int64)))


def following(version: Version, prepared: Prepared, numbered: bool = True) -> Segment:
    """New subscriptions as a segment that may be appended to a version: their ids are new, and so is their order."""
    rows = range(len(prepared.ids)) if numbered else [None] * len(prepared.ids)
    if problems := builder.id_problems(prepared.ids, rows, version):
        refuse(problems)
    first = version.next_sequence
    return prepared.segment(np.arange(first, first + len(prepared.ids)) if version.segments else first)


def place_of(version: Version, id: Id, purpose: str = "", row: int | None = None) -> Place:
    """Where a living subscription is; an error says that there is none (`purpose`: " to remove")."""
    place = version.find(checked_id(id))
    if place is None:
        raise SubscriptionError(f"there is no subscription {id!r}{purpose}", row=row)
    return place


def places_of(version: Version, ids: Sequence[Id]) -> list[Place]:
    """Where the living subscriptions that are to be removed are, each of which is given once."""
    places = [place_of(version, one, " to remove", row) for row, one in enumerate(ids)]
    if len(set(places)) < len(places):
        counts = Counter(places)
        twice = next(one for one, place in zip(ids, places, strict=True) if counts[place] > 1)
        raise SubscriptionError(f"the id {twice!r} is given twice")
    return places


def updated(version: Version, place: Place, given: Subscription) -> Version:
    """The version with the subscription at a place changed; fields that are `KEEP` stay as they were."""
    segment, slot = version.segments[place.number].segment, place.slot
    keeps_condition = given.condition is KEEP
    if given.params is not None and keeps_condition:
        raise SubscriptionError("params need a condition with parameters, got none")
    condition = given.condition if keeps_condition else builder.with_params(given.condition, given.params)
    weights = given.weights
    if weights is KEEP:
        weights = weights_at(segment, slot)
        weights = weights if keeps_condition or not weights else builder.still_used(weights, condition)
    score = score_at(segment, slot) if given.score is KEEP else given.score
    tags = dict(segment.tags(slot)) if given.tags is KEEP else given.tags
    starts, ends = _life(segment, slot, given)
    keeps_life = given.starts is KEEP and given.ends is KEEP
    if keeps_condition and not keeps_life:
        condition = condition_text(segment, slot)
    change = revalued if keeps_condition and keeps_life else replaced
    one = Subscription(segment.ids[slot], condition, weights, score, tags, starts=starts, ends=ends)
    return change(version, place, one)


def _life(segment: Segment, slot: int, given: Subscription) -> tuple[Any, Any]:
    """The life span after an update."""
    if LIFE not in segment.schema.by_name:
        return None if given.starts is KEEP else given.starts, None if given.ends is KEEP else given.ends
    starts, ends = moments(life_of(segment, slot))
    return starts if given.starts is KEEP else given.starts, ends if given.ends is KEEP else given.ends


def replaced(version: Version, place: Place, given: Subscription) -> Version:
    """The version with a subscription in the place of another, whose place in the order it takes."""
    rest = version.removed([place])
    sequence = int(version.segments[place.number].segment.arrays.sequence[place.slot])
    return rest.appended(builder.row_of(rest.schema, given, sequence))


def revalued(version: Version, place: Place, given: Subscription) -> Version:
    """The version with other weights, score and tags for a subscription, whose condition stays as it was bound."""
    old, slot = version.segments[place.number].segment, place.slot
    if old.schema.generation != version.schema.generation:  # its keys are older, so it is bound again
        return replaced(version, place, replace(given, condition=condition_text(old, slot)))
    columns: list[Any] = [column.tolist() for column in gather(old.arrays, np.array([slot]))]
    arrays, names = SegmentArrays._make(columns), version.schema.names
    try:
        weights = builder.weights_on(given.weights, {names[number] for number in arrays.attr})
        score, tags = builder.checked_score(given.score), builder.checked_tags(given.tags)
    except EarmarkError as problem:
        raise builder.named(problem, None, given) from None
    weight: Any = [weights.get(names[number], 1.0) for number in arrays.attr]
    weight = weight if any(one != 1.0 for one in weight) else []
    own_score: Any = [score] if score else []
    arrays = arrays._replace(weight=weight, score=own_score)
    row = Row(version.schema, arrays, given.id, old.text(slot), tags, uses_of(arrays, version.schema))
    # first the new, then away with the old: between them, no attribute is without a user
    return version.appended(row).removed([place])


def retyped(version: Version, name: str, type_name: str) -> Version:
    """The version as if an attribute had been declared with this type from the start; an error names who disagrees."""
    attribute = version.schema.by_name.get(name)
    if attribute is None or name == LIFE:
        raise EarmarkError(f"there is no attribute {name!r}{did_you_mean(str(name), version.schema.names)}")
    type_ = attribute_type(type_name)
    users = _users(version, attribute.number)
    rest = version.removed(users)
    changed = replace(attribute, type=type_, declared=True, origin="its declaration")
    # the other attributes keep their types, also where no other condition uses them: conditions mean what they meant
    kept = [a for a in version.schema if a != rest.schema.by_name[a.name] and a.number != attribute.number]
    keys = {a.number: version.schema.strings[a.number] for a in kept if a.number in version.schema.strings}
    keys |= {attribute.number: StringKeys()} if type_.keyed else {}
    rest = rest.with_schema(rest.schema.replaced([*kept, changed], keys))
    items = [subscription_at(version.segments[number].segment, slot) for number, slot in users]
    try:
        prepared = builder.prepare(rest.schema, items, numbered=False)
    except EarmarkError as problem:
        wrong = problem.problems or (problem,)
        reason = f"attribute {name!r} cannot become {type_}" + (f": {problem.reason}" if problem.problems else "")
        raise AttributeTypeError(reason, attribute=name, problems=wrong) from None
    sequence = [version.segments[number].segment.arrays.sequence[slot] for number, slot in users]
    return rest.appended(prepared.segment(np.array(sequence, np.int64)))


def _users(version: Version, attribute: int) -> list[Place]:
    """The living subscriptions that constrain an attribute, in order of insertion."""
    found: list[tuple[int, Place]] = []
    for number, indexed in enumerate(version.segments):
        arrays = indexed.segment.arrays
        clauses = np.searchsorted(arrays.constraint_start, np.flatnonzero(arrays.attr == attribute), "right") - 1
        slots = np.unique(np.searchsorted(arrays.clause_start, clauses, "right") - 1).tolist()
        found += [(int(arrays.sequence[slot]), Place(number, slot)) for slot in slots if indexed.is_live(slot)]
    return [place for _, place in sorted(found)]


def replanned(version: Version, batch: Batch, options: Mapping[str, Any]) -> Version:
    """The version with an index over each sealed segment that suits these events."""
    segments = []
    for one in version.segments:
        if one.index is not None:
            index = planned(one.segment.arrays, **options, recent=batch.for_segment(one.segment))
            one = replace(one, index=index, forgotten=no_slots(len(one)))
        segments.append(one)
    return version.with_segments(segments)


def adapted(version: Version, batch: Batch, build: Build | None) -> tuple[Version, Adaptation]:
    """The version after its indexes have learned from events, and what the last of them did."""
    segments, found = [], None
    for one in version.segments:
        if one.index is not None and one.index.is_adaptive:
            index = one.index.copy()
            found = index.adapt(batch.for_segment(one.segment))
            one = replace(one, index=index)
        segments.append(one)
    if found is None and build is not None:
        empty = build(no_arrays())  # nothing is indexed yet
        found = empty.adapt(batch.events) if empty.is_adaptive else None
    if found is None:
        raise EarmarkError("this index does not adapt to events; 'be_star_tree' and 'mics' do")
    return version.with_segments(segments), found
