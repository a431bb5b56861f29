"""How do the subscriptions of several segments become one segment?

`join` puts segments one after another, each translated to the attribute numbers and keys of one schema where it has
others. The schema must know the constants that their bounds are on: `take_constants` sees to that. Everything is whole
columns: no Python object for each subscription.

Complexity: O(size of the segments).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from earmark.flat.arrays import I32, I64, Listed, frozen, joined_strings
from earmark.keys.numbers import narrow_constants, wide_bounds
from earmark.keys.schema import WIDE_NUMBER, Attribute, Kind, Schema
from earmark.keys.strings import StringKeys
from earmark.segment.arrays import SegmentArrays, concat, intervals_on, with_constraints
from earmark.segment.ids import joined_ids
from earmark.segment.segment import NO_TAGS, Segment, Tags, check_room, no_arrays


def join(segments: Sequence[Segment], schema: Schema) -> Segment:
    """The slots of all segments, one after another, under a schema that has their attributes and constants."""
    if len(segments) == 1 and segments[0].schema.generation == schema.generation:
        return segments[0]
    arrays = [translated(one.arrays, one.schema, schema) for one in segments]
    check_room(*(sum(len(getattr(part, name)) for part in arrays) for name in ("sequence", "attr", "lo")))
    tagset, tagsets = _joined_tags(segments)
    return Segment(
        schema,
        SegmentArrays._make(map(frozen, concat_all(arrays))),
        joined_ids([one.ids for one in segments]),
        joined_strings([one.asked for one in segments]),
        tagset,
        tagsets,
    )


def concat_all(parts: Sequence[SegmentArrays]) -> SegmentArrays:
    """The slots of all parts, one after another. In pairs, so that every array is copied log(parts) times."""
    left = list(parts) or [no_arrays()]
    while len(left) > 1:
        pairs = zip(left[::2], left[1::2], strict=False)
        left = [concat(a, b) for a, b in pairs] + left[len(left) & ~1 :]
    return left[0]


def _joined_tags(segments: Sequence[Segment]) -> tuple[I32, Listed[Tags]]:
    if not any(len(one.tagset) for one in segments):
        return frozen(np.empty(0, np.int32)), Listed([NO_TAGS])
    known: dict[Tags, int] = {NO_TAGS: 0}
    columns = []
    for one in segments:
        sets = one.tagsets.items[: one.tagsets.size]
        numbers = np.array([known.setdefault(tags, len(known)) for tags in sets], np.int32)
        columns.append(numbers[one.tagset] if len(one.tagset) else np.zeros(len(one), np.int32))
    return frozen(np.concatenate(columns)), Listed(list(known))


# --- keys ----------------------------------------------------------------------------------------------------


def with_constants_of(schema: Schema, segments: Iterable[Segment]) -> Schema:
    """The schema with keys for the constants that bounds of these segments are on (as `with_constants`)."""
    wanted: dict[int, set[bytes]] = {}
    for segment in segments:
        if segment.schema.generation == schema.generation:
            continue
        for theirs in segment.schema:
            own = schema.by_name[theirs.name]
            if theirs.type is None or own.type is None:
                continue
            if own.number in schema.strings or (
                theirs.type.kind == Kind.NUMBER and WIDE_NUMBER in (theirs.type, own.type)
            ):
                wanted.setdefault(own.number, set()).update(constants_in(segment.arrays, segment.schema, theirs))
    return schema.with_constants({number: constants for number, constants in wanted.items() if constants})


def with_all_constants(schema: Schema, segments: Sequence[Segment]) -> Schema:
    """As `with_constants_of`, also where one of the segments makes a number wide, which the others must then be too."""
    made = with_constants_of(schema, segments)
    return made if made.generation == schema.generation else with_constants_of(made, segments)


def without_unused_constants(schema: Schema, segments: Sequence[Segment]) -> Schema:
    """A schema of the next generation without the constants that no bound uses, where they are most; else the same."""
    changed: dict[int, StringKeys] = {}
    for number, strings in schema.strings.items():
        used: set[bytes] = set()
        for segment in segments:
            theirs = segment.schema.by_name.get(schema.names[number])  # it may have come after the segment
            if theirs is not None and theirs.type is not None:
                used.update(constants_in(segment.arrays, segment.schema, theirs))
        if len(used) * 2 < len(strings):
            changed[number] = StringKeys().relabelled(used)
    return schema.rekeyed((), changed) if changed else schema


def constants_in(arrays: SegmentArrays, source: Schema, attribute: Attribute) -> list[bytes]:
    """The constants that bounds on an attribute of the source are on: strings, or positions of numbers."""
    positions = intervals_on(arrays, attribute.number)
    lo, hi = arrays.lo[positions], arrays.hi[positions]
    if attribute.known_type.keyed:
        return source.strings[attribute.number].used_by(np.concatenate([lo, hi]))
    return list(narrow_constants(lo, hi))


def translated(arrays: SegmentArrays, source: Schema, schema: Schema) -> SegmentArrays:
    """Arrays under one schema, in the attribute numbers and keys of another that has all it needs."""
    if source.generation == schema.generation:
        return arrays
    numbers = np.array([schema.by_name[name].number for name in source.names], np.int64)
    return _renumbered(_rekeyed(arrays, source, schema, numbers), numbers)


def _rekeyed(arrays: SegmentArrays, source: Schema, schema: Schema, numbers: I64) -> SegmentArrays:
    lo, hi = arrays.lo.copy(), arrays.hi.copy()
    for number, ours in schema.strings.items():
        for theirs in np.flatnonzero(numbers == number).tolist():
            positions = intervals_on(arrays, theirs)
            if theirs in source.strings:
                lo[positions] = source.strings[theirs].translated(lo[positions], ours, 1)
                hi[positions] = source.strings[theirs].translated(hi[positions], ours, -1)
            else:
                lo[positions], hi[positions] = wide_bounds(lo[positions], hi[positions], ours)
    return arrays._replace(lo=lo, hi=hi)


def _renumbered(arrays: SegmentArrays, numbers: I64) -> SegmentArrays:
    """New attribute numbers, and the constraints of each clause in their order again."""
    if np.array_equal(numbers, np.arange(len(numbers))):
        return arrays
    attr = numbers[arrays.attr].astype(np.int32)
    clause_of = np.repeat(np.arange(len(arrays.constraint_start) - 1), np.diff(arrays.constraint_start))
    order = np.lexsort((attr, clause_of))
    return with_constraints(arrays._replace(attr=attr), arrays.constraint_start, order)


def on_its_own(segment: Segment) -> Segment:
    """The segment under a schema that has the attributes, constants and tags that its slots use, and no others.

    Who taught a type is left out: it may be a subscription that is not here.
    """
    arrays, source = segment.arrays, segment.schema
    used = np.unique(np.append(arrays.attr, segment.life) if len(arrays.first_moment) else arrays.attr)
    own = Schema(source.zone_name, nan_is_null=source.nan_is_null, time=source.time)
    lo, hi = arrays.lo.copy(), arrays.hi.copy()
    for number, old in enumerate(used.tolist()):
        attribute = source.by_name[source.names[old]]
        own.put(replace(attribute, number=number, origin=attribute.origin if attribute.declared else _FORGOTTEN))
        if old in source.strings:
            keys = StringKeys().relabelled(constants_in(arrays, source, attribute))
            at = intervals_on(arrays, old)
            lo[at] = source.strings[old].translated(lo[at], keys, 1)
            hi[at] = source.strings[old].translated(hi[at], keys, -1)
            own.strings[number] = keys
    attr = np.searchsorted(used, arrays.attr).astype(np.int32)
    tagset, tagsets = _joined_tags([segment])
    if len(tagset):
        kinds = np.union1d([0], tagset)
        tagset = frozen(np.searchsorted(kinds, tagset).astype(np.int32))
        tagsets = Listed([tagsets.items[kind] for kind in kinds.tolist()])
    made = SegmentArrays._make(map(frozen, arrays._replace(attr=attr, lo=lo, hi=hi)))
    return Segment(own, made, segment.ids, segment.asked, tagset, tagsets)


_FORGOTTEN = "an earlier subscription"
