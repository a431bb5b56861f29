"""What is inside a version, and is it right?

A full version is a table and an index over it, or several: shards, and a router that says which of them an event may
match (shards.py). A delta is searched together with its base:

    base      slots 0 1 2 3 4 5          removed  . x . . x .       (slot 1 was replaced, slot 4 removed)
    delta     slots 0 1                  the new form of slot 1, with its sequence number; and an added one

The delta of a sharded base is one table, which every event is searched in, and a bitmap for each shard.

All tables of a version agree on attribute numbers, types and string keys: an event is encoded once. The schema of the
version, which its record holds, is the delta's; the base knows a beginning of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from earmark import index as indexes
from earmark.errors import EarmarkError, TableError, require
from earmark.flat import bits
from earmark.flat.packed import PackedStrings
from earmark.flat.types import I64, U64
from earmark.index.contract import Index
from earmark.keys.schema import Schema
from earmark.keys.strings import StringKeys
from earmark.segment.files import (
    DAMAGE,
    check_file,
    manifest_checksum,
    open_stored,
    read_array,
    save_stored,
    schema_of,
    schema_record,
    write_file,
)
from earmark.segment.stored import Stored
from earmark.spark.descriptors import allow_open_files
from earmark.spark.merge import join, of_kind, pick, united
from earmark.spark.versions import DELTA, FULL, SnapshotError, is_marked, read_record, set_mark, version_folder

SHARDS, ROUTER = "shards", "router"
SHARD = f"{SHARDS}/0000"
MOST_SHARDS = 9_999
SHARD_OF = "shard_of"
"""Beside the table of a router: the shard of each of its covers."""
SCANNED = 20_000
"""A delta of at most so many subscriptions is scanned: an index would not pay for its making."""


class Loaded(NamedTuple):
    """A version on the driver: verified, with string keys that can take more."""

    record: Mapping[str, Any]
    schema: Schema
    bases: list[Stored]
    """The shards of the base; one where it is not sharded."""
    removed: list[U64]
    delta: Stored | None

    @property
    def pieces(self) -> list[Stored]:
        """The tables of the version."""
        return self.bases if self.delta is None else [*self.bases, self.delta]

    @property
    def integer_ids(self) -> bool:
        """Whether ids are integers, also where none live."""
        return not isinstance(self.pieces[-1].ids, PackedStrings) if self.pieces else bool(self.record["integer_ids"])


# --- writing -------------------------------------------------------------------------------------------------


def write_full(folder: Path, stored: Stored, index: str) -> dict[str, Any]:
    """Write a table and its index; returns what the record of the version says about them."""
    write_table(folder / SHARD, stored, index)
    return told(folder, stored, index, FULL, stored.slots, [SHARD])


def write_delta(
    folder: Path, delta: Stored, removed: Sequence[U64], base: Mapping[str, Any], live: int
) -> dict[str, Any]:
    """Write what a delta has on top of its base; the same."""
    write_table(folder / SHARD, delta, "scan" if delta.slots <= SCANNED else base["index"])
    names = [removed_file(number) for number in range(len(removed))]
    return {
        **told(folder, delta, base["index"], DELTA, live, [SHARD]),
        "base": base["version"],
        "base_record": base["blake2b"],
        "files": {name: write_file(folder / name, own) for name, own in zip(names, removed, strict=True)},
    }


def shard_name(number: int) -> str:
    """The folder of a shard inside its version."""
    return f"{SHARDS}/{number:04d}"


def removed_file(number: int) -> str:
    """The file of the bitmap of a shard's slots that a delta takes away."""
    return f"removed_{number:04d}.npy"


def write_table(target: Path, stored: Stored, index: str) -> None:
    """A table and its index."""
    made = indexes.builder(index)(stored.arrays)
    target.parent.mkdir(exist_ok=True)
    save_stored(stored._replace(options={"index": index}, extras=indexes.stored(made)), target)


def told(folder: Path, stored: Stored, index: str, kind: str, live: int, tables: Sequence[str]) -> dict[str, Any]:
    """What a record says of a version whose last table this is."""
    return {
        "kind": kind,
        "index": index,
        "subscriptions": live,
        "next_sequence": stored.next_sequence,
        "integer_ids": not isinstance(stored.ids, PackedStrings),
        **schema_record(stored.schema),
        "tables": {name: manifest_checksum(folder / name) for name in tables},
        "files": {},
    }


# --- reading -------------------------------------------------------------------------------------------------


def base_of(root: Path, record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record of the full version that a version goes with."""
    if record["kind"] == FULL:
        return record
    base = read_record(root, record["base"])
    if base["blake2b"] != record["base_record"]:
        raise SnapshotError(f"version {record['version']} goes with another version {record['base']} than is there")
    return base


def shards_of(record: Mapping[str, Any]) -> list[str]:
    """The names of a version's own tables of subscriptions."""
    return sorted(name for name in record["tables"] if name != ROUTER)


def is_sharded(record: Mapping[str, Any]) -> bool:
    """Whether events are routed to the tables of this full version."""
    return ROUTER in record["tables"]


def table_folder(folder: Path, record: Mapping[str, Any], name: str = SHARD) -> Path:
    """The folder of a table that a record speaks of; it must be the one that was published."""
    if manifest_checksum(folder / name) != record["tables"][name]:
        raise SnapshotError(f"the table in {str(folder / name)!r} is not the one that was published with its version")
    return folder / name


def restored_index(stored: Stored) -> Index:
    """The index that lies beside a table."""
    own = {name: array for name, array in stored.extras.items() if name != SHARD_OF}
    return indexes.restore(str(stored.options["index"]), stored.arrays, own)


def read_removed(folder: Path, record: Mapping[str, Any], number: int, slots: int, verify: bool) -> U64:
    """The bitmap of the slots of a base's shard that a delta takes away."""
    name = removed_file(number)
    check_file(folder, name, record["files"][name], verify)
    removed = read_array(folder / name, np.dtype(np.uint64), mmap=False)
    require(len(removed) == bits.words_for(slots), "the bitmap of removed subscriptions has the wrong size")
    return removed


def load(root: Path, record: Mapping[str, Any]) -> Loaded:
    """All of a version, verified unless this host has seen it, for whoever makes the next one."""
    allow_open_files()
    loaded: Loaded = guarded(root, record, lambda: _load(root, record))
    return loaded


def guarded(root: Path, record: Mapping[str, Any], read: Any) -> Any:
    """Run a reader; what is wrong with the files is one sentence."""
    try:
        return read()
    except TableError:
        raise
    except OSError as problem:
        reason = problem.strerror or problem
        raise SnapshotError(f"version {record['version']} of {str(root)!r} cannot be read: {reason}") from None
    except (EarmarkError, *DAMAGE) as problem:
        reason = str(problem) or type(problem).__name__
        raise SnapshotError(f"version {record['version']} of {str(root)!r} is damaged: {reason}") from None


def _load(root: Path, record: Mapping[str, Any]) -> Loaded:
    bases, removed, delta = [], [], None
    base, folder = base_of(root, record), version_folder(root, record["version"])
    schema, names = version_schema(root, record, base), len(shards_of(base))
    if base is not record:
        delta = open_stored(table_folder(folder, record), verify=not is_marked(folder))
        check_piece(delta, schema)
    below = version_folder(root, base["version"])
    unseen = not is_marked(below)
    for number in range(names):
        table = open_stored(table_folder(below, base, shard_name(number)), verify=unseen)
        check_piece(table, schema)
        bases.append(table)
        removed.append(_removed(root, record, base, number, table.slots))
    live = sum(table.slots for table in bases) - sum(map(bits.count, removed)) + (delta.slots if delta else 0)
    require(live == record["subscriptions"], "the number of subscriptions is not the record's")
    return Loaded(record, schema, bases, removed, delta)


def _removed(root: Path, record: Mapping[str, Any], base: Mapping[str, Any], number: int, slots: int) -> U64:
    if base is record:
        return np.zeros(bits.words_for(slots), np.uint64)
    return read_removed(version_folder(root, record["version"]), record, number, slots, verify=True)


def version_schema(root: Path, record: Mapping[str, Any], base: Mapping[str, Any]) -> Schema:
    """The schema of a version, with all its string keys. Of a sharded base the router has them."""
    schema = schema_of(dict(record), lambda number: StringKeys())
    folder = version_folder(root, base["version"])
    sharded = is_sharded(base)
    verified = sharded and not is_marked(folder)  # who asks for the schema opens the other tables too, and verifies
    pieces = [open_stored(table_folder(folder, base, ROUTER if sharded else SHARD), verify=verified)]
    if base is not record:
        folder = version_folder(root, record["version"])
        pieces.append(open_stored(table_folder(folder, record), verify=False))
    united(schema, pieces)
    check_schema(pieces[0].schema, schema)
    return schema


def check_piece(piece: Stored, schema: Schema) -> None:
    """What must hold of every table of a version."""
    check_schema(piece.schema, schema)
    sequence = piece.arrays.sequence
    require(bool((sequence[:-1] < sequence[1:]).all()), "the subscriptions are not in the order of insertion")


def living_of(slots: int, removed: U64) -> I64:
    """The slots that are not removed."""
    return bits.to_slots(bits.all_set(slots) & ~removed).astype(np.int64)


def living(loaded: Loaded) -> Iterator[Stored]:
    """The living subscriptions of a version, table by table."""
    for base, removed in zip(loaded.bases, loaded.removed, strict=True):
        yield pick(base, living_of(base.slots, removed))
    if loaded.delta is not None:
        yield loaded.delta


def fold(loaded: Loaded) -> Stored:
    """All living subscriptions of a version as one table."""
    return of_kind(by_sequence(join(list(living(loaded)), loaded.schema)), loaded.integer_ids)


def by_sequence(stored: Stored) -> Stored:
    """The same subscriptions in the order of insertion."""
    sequence = stored.arrays.sequence
    if (sequence[:-1] < sequence[1:]).all():
        return stored
    return pick(stored, np.argsort(sequence, kind="stable"))


def check_schema(own: Schema, version: Schema) -> None:
    """A table's attributes must be the version's first ones, with their types or still without."""
    require(own.names == version.names[: len(own)], "a table has other attributes than its version")
    for attribute in own:
        wanted = version.by_name[attribute.name].type
        require(attribute.type in (None, wanted), f"the type of {attribute.name!r} differs between its tables")


def verify(root: Path, record: Mapping[str, Any]) -> None:
    """Checksums and invariants of a version, unless this host has seen it."""
    folders = [version_folder(root, record["version"])]
    if record["kind"] == DELTA:
        folders.insert(0, version_folder(root, record["base"]))
    unseen = [one for one in folders if not is_marked(one)]
    if not unseen:
        return
    guarded(root, record, lambda: _check(root, record))
    for one in unseen:
        set_mark(one)


def _check(root: Path, record: Mapping[str, Any]) -> None:
    """All of a version, one table after another, so that no more than one is in memory."""
    base, folder = base_of(root, record), version_folder(root, record["version"])
    schema = version_schema(root, record, base)
    sizes = _check_tables(version_folder(root, base["version"]), base, schema)
    live = sum(sizes)
    if base is not record:
        (own,) = _check_tables(folder, record, schema)
        live += own
        for number, slots in enumerate(sizes):
            live -= bits.count(read_removed(folder, record, number, slots, verify=True))
    require(live == record["subscriptions"], "the number of subscriptions is not the record's")


def _check_tables(folder: Path, record: Mapping[str, Any], schema: Schema) -> list[int]:
    """The tables in a folder and their indexes; returns their sizes."""
    new, sizes = not is_marked(folder), []
    if is_sharded(record) and new:
        router = open_stored(table_folder(folder, record, ROUTER))
        routed = router.extras[SHARD_OF]
        require(len(routed) == router.slots, "the router has covers of no shard")
        require(not len(routed) or 0 <= routed.min() <= routed.max() < len(shards_of(record)), "a shard is unknown")
        restored_index(router)
    for name in shards_of(record):
        piece = open_stored(table_folder(folder, record, name), verify=new)
        check_piece(piece, schema)
        if new:
            restored_index(piece)
        sizes.append(piece.slots)
    return sizes
