"""How do the parts that executors made, or the pieces of a version, become one table?

`agree` settles attribute numbers and types. Both follow from the order of insertion, whatever the partitioning: an
attribute's number is its place in the order of first use, and its type is what its first typed use says, as if one
Matcher had taken the rows one by one. A part that learned something else has to be made again under the agreed
types. `join` then translates every piece to the agreed numbers and string keys and puts them one after another, and
`pick` chooses and orders slots. Everything is whole columns: no Python object for each subscription.

Complexity: O(size of the pieces); O(n log n) for the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from earmark.errors import EarmarkError
from earmark.flat.packed import NO_STRINGS, PackedStrings, from_arrow, joined_strings
from earmark.flat.types import I32, I64
from earmark.keys.schema import WIDE_NUMBER, Attribute, Schema, attribute_type
from earmark.keys.strings import StringKeys
from earmark.segment.files import open_stored
from earmark.segment.join import concat_all, constants_in, translated
from earmark.segment.rows import gather, intervals_on
from earmark.segment.segment import NO_TAGS, Tags
from earmark.segment.stored import Stored
from earmark.spark.descriptors import allow_open_files
from earmark.spark.parts import read_arrow


class Part(NamedTuple):
    """What an executor made (parts.py)."""

    stored: Stored
    rows: pa.Table
    rejects: pa.Table

    def place(self, slot: int) -> tuple[Any, ...]:
        """Where a slot stands in the order of insertion (intake.py)."""
        return tuple(self.rows[name][slot].as_py() for name in ("order", "id", "op", "tie"))


def read_part(folder: Path) -> Part:
    """A part from its folder."""
    allow_open_files()
    return Part(open_stored(folder / "table"), *(read_arrow(folder / name) for name in ("rows.arrow", "rejects.arrow")))


# --- attributes ----------------------------------------------------------------------------------------------


class Agreed(NamedTuple):
    """The attributes of all parts, and whether every part already has these types."""

    schema: Schema
    settled: bool


def agree(parts: Sequence[Part], seed: Schema) -> Agreed:
    """Numbers and types for the attributes of all parts, after those of `seed`, which stay."""
    first: dict[str, Any] = {}
    typed: dict[str, list[tuple[Any, Attribute]]] = {}
    for part in parts:
        schema, told = part.stored.schema, part.stored.options
        for name, slot in told["first"].items():
            place = (part.place(slot) if part.stored.slots else (), schema.by_name[name].number)
            first[name] = min(first.get(name, place), place)
        for name, slot in told["typed"].items():
            if part.stored.slots and schema.by_name[name].type is not None:
                typed.setdefault(name, []).append((part.place(slot), schema.by_name[name]))
    made = extended(seed, ())
    for name in sorted(first, key=first.__getitem__):
        made.put(Attribute(len(made), name, None, False, ""))
    for name, uses in typed.items():
        known = made.by_name[name]
        if known.type is None:
            chosen = min(uses, key=lambda use: use[0])[1]
            assert chosen.type is not None
            made.put(Attribute(known.number, name, attribute_type(str(chosen.type)), False, chosen.origin))
    types = {a.name: str(a.type) for a in made}
    own = [a for part in parts for a in part.stored.schema if a.type is not None and a.name in types]
    settled = all(str(a.type) == types[a.name] for a in own)
    for attribute in own if settled else ():
        if attribute.type == WIDE_NUMBER:
            made.put(replace(made.by_name[attribute.name], type=WIDE_NUMBER))
    return Agreed(made, settled)


def extended(schema: Schema, more: Iterable[Attribute]) -> Schema:
    """A copy of a schema, string keys included, with some more attributes."""
    made = Schema(schema.zone_name, strict=schema.strict, nan_is_null=schema.nan_is_null)
    for attribute in (*schema, *more):
        made.put(attribute)
    for number, strings in schema.strings.items():
        made.strings[number] = StringKeys.from_items(*_items(strings))
    return made


def _items(strings: StringKeys) -> tuple[list[bytes], list[int]]:
    constants, keys = strings.items()
    return constants, keys.tolist()


def take_constants(schema: Schema, pieces: Iterable[Stored]) -> bool:
    """See that the constants of the pieces have keys; False when the keys of older constants had to change."""
    wanted: dict[int, set[bytes]] = {}
    for piece in pieces:
        for theirs in piece.schema:
            own = schema.by_name[theirs.name]
            if theirs.type is not None and own.number in schema.strings:
                wanted.setdefault(own.number, set()).update(constants_in(piece.arrays, piece.schema, theirs))
    steady = True
    for number, constants in wanted.items():
        strings = schema.strings[number]
        if len(strings) == 1:  # nothing yet but the empty string, whose key is always the same
            schema.strings[number] = strings.relabelled(constants)
        elif not strings.insert(constants):
            schema.strings[number] = strings.relabelled(constants)
            steady = False
    return steady


def united(schema: Schema, pieces: Sequence[Stored]) -> None:
    """Give a schema the string keys of pieces of one version, which agree where they meet."""
    for attribute in schema:
        if attribute.type is None or not attribute.type.keyed:
            continue
        keys: dict[bytes, int] = {}
        for piece in pieces:
            if attribute.number in piece.schema.strings:
                for constant, key in zip(*_items(piece.schema.strings[attribute.number]), strict=True):
                    if keys.setdefault(constant, key) != key:
                        raise AssertionError(f"the keys of {attribute.name!r} differ between its tables")
        if keys:
            ordered = sorted(keys)
            strings = StringKeys.from_items(ordered, [keys[c] for c in ordered])
            strings.check()
            schema.strings[attribute.number] = strings


def with_used_constants(stored: Stored) -> Stored:
    """The same, under a schema that has only those string constants on which some bound lies."""
    schema = extended(stored.schema, ())
    for number, strings in schema.strings.items():
        positions = intervals_on(stored.arrays, number)
        bounds = np.concatenate([stored.arrays.lo[positions], stored.arrays.hi[positions]])
        used = sorted({b"", *strings.used_by(bounds)})
        schema.strings[number] = StringKeys.from_items(used, [strings.of_constant(c) for c in used])
    return stored._replace(schema=schema)


# --- columns -------------------------------------------------------------------------------------------------


def join(pieces: Sequence[Stored], schema: Schema) -> Stored:
    """The slots of all pieces, one after another, under a schema that has their attributes and constants."""
    tagsets: dict[Tags, int] = {NO_TAGS: 0}
    arrays = concat_all([translated(piece.arrays, piece.schema, schema) for piece in pieces])
    if len(arrays.lo) > np.iinfo(np.int32).max:
        raise EarmarkError("a table holds at most 2,147,483,647 intervals; split the subscriptions over several")
    return Stored(
        schema=schema,
        arrays=arrays,
        ids=_joined_ids([piece.ids for piece in pieces]),
        asked=joined_strings([piece.asked for piece in pieces]),
        tagset=_joined_tags(pieces, tagsets),
        tagsets=list(tagsets),
        next_sequence=max((piece.next_sequence for piece in pieces), default=0),
    )


def _joined_ids(columns: Sequence[I64 | PackedStrings]) -> I64 | PackedStrings:
    some = [ids for ids in columns if len(ids)]  # the kind of no ids is unknown
    if some and not isinstance(some[0], PackedStrings):
        return np.concatenate(some)  # type: ignore[arg-type]
    return joined_strings([ids for ids in some if isinstance(ids, PackedStrings)])


def _joined_tags(pieces: Sequence[Stored], tagsets: dict[Tags, int]) -> I32:
    if not any(len(piece.tagset) for piece in pieces):
        return np.empty(0, np.int32)
    columns = []
    for piece in pieces:
        numbers = np.array([tagsets.setdefault(tags, len(tagsets)) for tags in piece.tagsets], np.int32)
        columns.append(numbers[piece.tagset] if len(piece.tagset) else np.zeros(piece.slots, np.int32))
    return np.concatenate(columns)


def pick(stored: Stored, slots: I64) -> Stored:
    """These slots, in this order."""
    chosen = pa.array(slots)
    ids = stored.ids
    return stored._replace(
        arrays=gather(stored.arrays, slots),
        ids=from_arrow(ids.to_arrow().take(chosen)) if isinstance(ids, PackedStrings) else ids[slots],
        asked=from_arrow(stored.asked.to_arrow().take(chosen)),
        tagset=stored.tagset[slots] if len(stored.tagset) else stored.tagset,
        extras={},
    )


def of_kind(stored: Stored, integer_ids: bool) -> Stored:
    """The same; without slots, with no ids of this kind: a version has a kind of ids also when nothing is in it."""
    if stored.slots:
        return stored
    return stored._replace(ids=np.empty(0, np.int64) if integer_ids else NO_STRINGS)


def id_array(ids: I64 | PackedStrings) -> pa.Array:
    """Ids as an Arrow column, without a copy."""
    return ids.to_arrow() if isinstance(ids, PackedStrings) else pa.array(ids)
