"""What is inside a version, and is it right?

A full version is a table and an index over it. A delta is searched together with its base:

    base      slots 0 1 2 3 4 5          removed  . x . . x .       (slot 1 was replaced, slot 4 removed)
    delta     slots 0 1                  the new form of slot 1, with its sequence number; and an added one

All tables of a version agree on attribute numbers, types and string keys: an event is encoded once. The schema of the
version, which its record holds, is the delta's; the base knows a beginning of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from earmark import index as indexes
from earmark.errors import EarmarkError, TableError, require
from earmark.index.contract import MatchIndex
from earmark.model import bits
from earmark.model.arrays import U64
from earmark.model.attribute import Schema
from earmark.model.files import (
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
from earmark.model.stored import Stored, Texts
from earmark.model.strings import StringKeys
from earmark.spark.merge import join, pick, united
from earmark.spark.versions import DELTA, FULL, SnapshotError, is_marked, read_record, set_mark, version_folder

SHARD, REMOVED = "shards/0000", "removed_0000.npy"
SCANNED = 20_000
"""A delta of at most so many subscriptions is scanned: an index would not pay for its making."""


class Loaded(NamedTuple):
    """A version on the driver: verified, with string keys that can take more."""

    record: Mapping[str, Any]
    schema: Schema
    base: Stored
    removed: U64
    delta: Stored | None

    @property
    def pieces(self) -> list[Stored]:
        """The tables of the version."""
        return [self.base] if self.delta is None else [self.base, self.delta]


# --- writing -------------------------------------------------------------------------------------------------


def write_full(folder: Path, stored: Stored, index: str) -> dict[str, Any]:
    """Write a table and its index; returns what the record of the version says about them."""
    _write_table(folder, stored, index)
    return _told(folder, stored, index, FULL, stored.slots)


def write_delta(folder: Path, delta: Stored, removed: U64, base: Mapping[str, Any], live: int) -> dict[str, Any]:
    """Write what a delta has on top of its base; the same."""
    _write_table(folder, delta, "scan" if delta.slots <= SCANNED else base["index"])
    return {
        **_told(folder, delta, base["index"], DELTA, live),
        "base": base["version"],
        "base_record": base["blake2b"],
        "files": {REMOVED: write_file(folder / REMOVED, removed)},
    }


def _write_table(folder: Path, stored: Stored, index: str) -> None:
    made = indexes.builder(index)(stored.arrays)
    (folder / SHARD).parent.mkdir(exist_ok=True)
    save_stored(stored._replace(options={"index": index}, extras=indexes.stored(made)), folder / SHARD)


def _told(folder: Path, stored: Stored, index: str, kind: str, live: int) -> dict[str, Any]:
    return {
        "kind": kind,
        "index": index,
        "subscriptions": live,
        "next_sequence": stored.next_sequence,
        "integer_ids": not isinstance(stored.ids, Texts),
        **schema_record(stored.schema),
        "tables": {SHARD: manifest_checksum(folder / SHARD)},
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


def table_folder(folder: Path, record: Mapping[str, Any]) -> Path:
    """The folder of the table that a record speaks of; it must be the one that was published."""
    if manifest_checksum(folder / SHARD) != record["tables"][SHARD]:
        raise SnapshotError(f"the table in {str(folder / SHARD)!r} is not the one that was published with its version")
    return folder / SHARD


def restored_index(stored: Stored) -> MatchIndex:
    """The index that lies beside a table."""
    return indexes.restore(str(stored.options["index"]), stored.arrays, stored.extras)


def read_removed(folder: Path, record: Mapping[str, Any], slots: int, verify: bool) -> U64:
    """The bitmap of a base's slots that a delta takes away."""
    check_file(folder, REMOVED, record["files"][REMOVED], verify)
    removed = read_array(folder / REMOVED, np.dtype(np.uint64), mmap=False)
    require(len(removed) == bits.words_for(slots), "the bitmap of removed subscriptions has the wrong size")
    return removed


def load(root: Path, record: Mapping[str, Any]) -> Loaded:
    """All of a version, verified unless this host has seen it, for whoever makes the next one."""
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
    base, folder = base_of(root, record), version_folder(root, record["version"])
    below = version_folder(root, base["version"])
    table = open_stored(table_folder(below, base), verify=not is_marked(below))
    delta, removed = None, np.zeros(bits.words_for(table.slots), np.uint64)
    if base is not record:
        delta = open_stored(table_folder(folder, record), verify=not is_marked(folder))
        removed = read_removed(folder, record, table.slots, verify=True)
    schema = schema_of(dict(record), lambda number: StringKeys())
    pieces = [table] if delta is None else [table, delta]
    united(schema, pieces)
    for piece in pieces:
        check_schema(piece.schema, schema)
    for piece in pieces:
        sequence = piece.arrays.sequence
        require(bool((sequence[:-1] < sequence[1:]).all()), "the subscriptions are not in the order of insertion")
    live = table.slots - bits.count(removed) + (delta.slots if delta else 0)
    require(live == record["subscriptions"], "the number of subscriptions is not the record's")
    return Loaded(record, schema, table, removed, delta)


def fold(loaded: Loaded) -> Stored:
    """All living subscriptions of a version as one table."""
    living = bits.to_slots(bits.all_set(loaded.base.slots) & ~loaded.removed).astype(np.int64)
    pieces = [pick(loaded.base, living), *loaded.pieces[1:]]
    return by_sequence(join(pieces, loaded.schema))


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


def verify(root: Path, record: Mapping[str, Any], folder: Path | None = None) -> None:
    """Checksums and invariants of a version (or of what was derived from it), unless this host has seen it."""
    folders = [folder or version_folder(root, record["version"])]
    if folder is None and record["kind"] == DELTA:
        folders.insert(0, version_folder(root, record["base"]))
    unseen = [not is_marked(one) for one in folders]
    if not any(unseen):
        return

    def check() -> None:
        pieces = _load(root, record).pieces if folder is None else [open_stored(table_folder(folder, record))]
        for piece, new in zip(pieces, unseen, strict=True):
            if new:
                restored_index(piece)

    guarded(root, record, check)
    for one in folders:
        set_mark(one)
