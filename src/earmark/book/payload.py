"""Columns of the subscriptions that no condition reads, such as a URL: stored by sequence, brought along with matches.

    segments/5c01…     Arrow, uncompressed: sequence (ascending) and the columns; mapped, so that workers share it

A version lists such files, the newest first: what the newest says of a subscription counts. A subscription keeps its
sequence when it is replaced, shards are built again or segments are joined, so none of this touches the files. A change
writes one small file in the place of that of the changes before; `settled` leaves out what is gone.

    record["payload"]  schema: Spark's type of the columns, as JSON; files: {file, bytes, checksum, rows, changes} each

Complexity: a lookup takes O(files x log rows) for each subscription.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from earmark.book import folder as folders
from earmark.book.folder import SEGMENTS, Building
from earmark.book.segments import Record, count_of, digest, missing
from earmark.errors import TableError, require
from earmark.flat.arrays import I64

SEQUENCE = "sequence"
FILE_ROWS = 1 << 20
"""Files with fewer rows are joined."""

Entry = dict[str, Any]


def write_payload(site: Building, tables: Iterable[pa.Table], changes: bool = False) -> Iterator[Entry]:
    """Write tables of sequences and columns, several to a file; yield what a record says of each file."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(own.num_rows for own in waiting) >= FILE_ROWS:
            yield _write(site.new_file(SEGMENTS), pa.concat_tables(waiting), changes)
            waiting = []
    if waiting:
        yield _write(site.new_file(SEGMENTS), pa.concat_tables(waiting), changes)


def _write(file: Path, table: pa.Table, changes: bool) -> Entry:
    ordered = table.sort_by(SEQUENCE).combine_chunks()
    with file.open("xb") as opened:
        with pa.ipc.new_file(opened, ordered.schema) as writer:
            writer.write_table(ordered)
        opened.flush()
        os.fsync(opened.fileno())
        size = opened.tell()
    facts = {"rows": ordered.num_rows, "changes": changes}
    return {"file": file.name, "bytes": size, "checksum": _checksum(file), **facts}


def _checksum(file: Path) -> str:
    return digest(memoryview(pa.memory_map(str(file)).read_buffer())) if file.stat().st_size else ""


def read_payload(root: Path, entry: Mapping[str, Any], *, verify: bool = False) -> pa.Table:
    """Open a file of payload: mapped, and checked as far as that takes no time, or wholly."""
    file = root / SEGMENTS / folders.file_name(entry["file"])
    if file.is_symlink() or not file.is_file():
        raise missing(file)
    require(file.stat().st_size == count_of(entry["bytes"]), f"{file.name} has another size than was recorded")
    require(not verify or _checksum(file) == entry["checksum"], f"the checksum of {file.name} is wrong")
    try:
        table = pa.ipc.open_file(pa.memory_map(str(file))).read_all()
        table.validate(full=verify)
    except (pa.ArrowException, OSError) as problem:
        raise AssertionError(f"{file.name} is not a file of payload: {problem}") from None
    known = SEQUENCE in table.column_names and table.schema.field(SEQUENCE).type == pa.int64()
    require(known and table.num_rows == entry["rows"], f"{file.name} does not have the recorded rows")
    if verify:
        places = table[SEQUENCE].to_numpy()
        require(bool((places[:-1] < places[1:]).all()), f"{file.name} is not in order")
    return table


def verify_payload(root: Path, record: Record) -> None:
    """Raise unless all files of payload of a version are as they were written."""
    for entry in files_of(record):
        read_payload(root, entry, verify=True)


def files_of(record: Record) -> list[Entry]:
    """What a record says of the files of payload."""
    payload = record.get("payload")
    return [] if payload is None else list(payload["files"])


# --- changes -------------------------------------------------------------------------------------------------


def with_changes(site: Building, files: Sequence[Entry], table: pa.Table) -> list[Entry]:
    """Return the files after a change: these rows, and those of the changes before that it leaves, are one file."""
    before = [read_payload(site.root, entry) for entry in files if entry["changes"]]
    base = [entry for entry in files if not entry["changes"]]
    kept = [_without(own, table[SEQUENCE].to_numpy()) for own in before]
    joined = pa.concat_tables([table, *kept])
    return [_write(site.new_file(SEGMENTS), joined, True), *base]


def settled(site: Building, files: Sequence[Entry], live: I64) -> list[Entry]:
    """Return files without what is replaced or removed; `live` are the sequences of the subscriptions there are."""
    replaced = np.empty(0, np.int64)
    kept: list[Entry] = []
    loose: list[pa.Table] = []
    for entry in files:
        table = read_payload(site.root, entry)
        left = _without(table, replaced, live)
        if entry["changes"]:
            replaced = table[SEQUENCE].to_numpy()
        if left.num_rows == table.num_rows and left.num_rows >= FILE_ROWS and not entry["changes"]:
            kept.append(entry)
        else:
            loose.append(left)
    return [*write_payload(site, loose), *kept]


def _without(table: pa.Table, gone: I64, live: I64 | None = None) -> pa.Table:
    own = table[SEQUENCE].to_numpy()
    keep = ~np.isin(own, gone)
    if live is not None:
        keep &= np.isin(own, live)
    return table if keep.all() else table.filter(pa.array(keep))


# --- reading -------------------------------------------------------------------------------------------------


class Payload:
    """The payload of a version, open."""

    def __init__(self, root: Path, record: Record) -> None:
        self._tables = [read_payload(root, entry) for entry in files_of(record)]
        self._places: list[I64] = [table[SEQUENCE].to_numpy() for table in self._tables]
        self._joined = pa.concat_tables(self._tables) if self._tables else None

    def type_of(self, name: str) -> pa.DataType:
        """Return the Arrow type of a column."""
        assert self._joined is not None
        return self._joined.schema.field(name).type

    def column(self, name: str, sequences: I64) -> pa.Array:
        """Return a column's values for the subscriptions with these sequences; NULL where there is none."""
        assert self._joined is not None
        rows = np.full(len(sequences), -1, np.int64)
        first = 0
        for places in self._places:  # the newest first
            at = np.minimum(np.searchsorted(places, sequences), max(len(places) - 1, 0))
            if len(places):
                found = (rows < 0) & (places[at] == sequences)
                rows[found] = first + at[found]
            first += len(places)
        return self._joined[name].take(pa.array(rows, mask=rows < 0)).combine_chunks()


@lru_cache(4)
def opened_payload(root: str, version: int, checksum: str) -> Payload:
    """Open the payload of a version, once per process."""
    record = folders.read_record(Path(root), version)
    if record["checksum"] != checksum:
        raise TableError(f"version {version} of the book {root!r} is another than was opened; open the book again")
    with folders.guarded(Path(root), version):
        return Payload(Path(root), record)
