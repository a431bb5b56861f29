"""Columns of the subscriptions that no condition reads, such as a URL: stored by sequence, brought along with matches.

    segments/5c01…     Arrow, uncompressed: sequence (ascending) and the columns; mapped, so that workers share it

A version lists such files, the newest first: what the newest says of a subscription counts. A subscription keeps its
sequence when it is replaced, shards are built again or segments are joined, so none of this touches the files. A change
writes one small file in the place of that of the changes before; `settled` leaves out what is gone.

    record["payload"]  schema: Spark's type of the columns, as JSON; files: {file, bytes, checksum, rows, changes} each

Files are written one after another, each of about FILE_ROWS rows or FILE_BYTES, and only these are held meanwhile.

Complexity: a lookup takes O(files x log rows) for each subscription. Where a column is brought along, each process
holds the size of its values, 4 bytes per row.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from earmark.book import folder as folders
from earmark.book.folder import SEGMENTS
from earmark.book.publishing import Building
from earmark.book.segments import Record, count_of, digest, missing
from earmark.errors import TableError, require
from earmark.flat.arrays import I64

SEQUENCE = "sequence"
FILE_ROWS, FILE_BYTES = 1 << 20, 256 << 20
"""Files with fewer rows and bytes are joined."""
BATCH_ROWS, BATCH_BYTES = 1 << 16, 64 << 20
"""Most rows and bytes of a batch of a file: Arrow's strings have at most 2 GiB per batch."""
_MOST_BYTES = (1 << 31) - 1

Entry = dict[str, Any]


def write_payload(site: Building, tables: Iterable[pa.Table], changes: bool = False) -> Iterator[Entry]:
    """Write tables of sequences and columns, several to a file; yield what a record says of each file."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if _is_large(sum(own.num_rows for own in waiting), sum(own.nbytes for own in waiting)):
            yield _write(site.new_file(SEGMENTS), pa.concat_tables(waiting), changes)
            waiting = []
    if waiting:
        yield _write(site.new_file(SEGMENTS), pa.concat_tables(waiting), changes)


def _is_large(rows: int, size: int) -> bool:
    return rows >= FILE_ROWS or size >= FILE_BYTES


def _write(file: Path, table: pa.Table, changes: bool) -> Entry:
    order = np.argsort(table[SEQUENCE].to_numpy(), kind="stable")
    step = max(1, min(BATCH_ROWS, len(order) * BATCH_BYTES // max(table.nbytes, 1)))
    with file.open("xb") as opened:
        with pa.ipc.new_file(opened, table.schema) as writer:
            for first in range(0, len(order), step):
                writer.write_table(take_rows(table, order[first : first + step]))
        opened.flush()
        os.fsync(opened.fileno())
        size = opened.tell()
    facts = {"rows": table.num_rows, "changes": changes}
    return {"file": file.name, "bytes": size, "checksum": _checksum(file), **facts}


def take_rows(table: pa.Table, rows: I64) -> pa.Table:
    """Return some rows of a table, which may have more bytes than one array can: piece by piece."""
    pieces, places, first = [], [np.empty(0, np.int64)], 0
    for batch in table.to_batches():
        mine = np.flatnonzero((rows >= first) & (rows < first + batch.num_rows))
        if len(mine):
            pieces.append(batch.take(pa.array(rows[mine] - first)))
            places.append(mine)
        first += batch.num_rows
    back = np.full(len(rows), -1)
    at = np.concatenate(places)
    back[at] = np.arange(len(at))
    joined = pa.Table.from_batches(pieces, table.schema).combine_chunks()
    return joined.take(pa.array(back, mask=back < 0))


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
    kept: list[Entry] = []

    def loose() -> Iterator[pa.Table]:
        replaced = np.empty(0, np.int64)
        for entry in files:
            table = read_payload(site.root, entry)
            left = _without(table, replaced, live)
            if entry["changes"]:
                replaced = table[SEQUENCE].to_numpy()
            if left is table and _is_large(table.num_rows, table.nbytes) and not entry["changes"]:
                kept.append(entry)
            else:
                yield left

    return [*write_payload(site, loose()), *kept]


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
        tables = [read_payload(root, entry) for entry in files_of(record)]
        self._places: list[I64] = [table[SEQUENCE].to_numpy() for table in tables]
        self._joined = pa.concat_tables(tables) if tables else None
        self._sizes: dict[str, I64] = {}

    @property
    def names(self) -> list[str]:
        """The columns that there are."""
        return [] if self._joined is None else [name for name in self._joined.column_names if name != SEQUENCE]

    def type_of(self, name: str) -> pa.DataType:
        """Return the Arrow type of a column."""
        assert self._joined is not None
        return self._joined.schema.field(name).type

    def column(self, name: str, sequences: I64) -> pa.Array:
        """Return a column's values for the subscriptions with these sequences; NULL where there is none."""
        assert self._joined is not None
        found = take_rows(self._joined.select([name]), self._rows(sequences))[name]
        return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()

    def sizes(self, name: str, sequences: I64) -> I64:
        """Return the bytes that these values of a column take. O(rows) for the first call."""
        assert self._joined is not None
        if name not in self._sizes:
            chunks = [np.minimum(bytes_of(chunk), _MOST_BYTES) for chunk in self._joined[name].chunks]
            self._sizes[name] = np.concatenate([*chunks, np.zeros(1)]).astype(np.int32)
        return self._sizes[name][self._rows(sequences)].astype(np.int64)  # the last is 0: of -1, where there is none

    def _rows(self, sequences: I64) -> I64:
        """Return the rows of the subscriptions with these sequences; -1 where there is none."""
        rows, first = np.full(len(sequences), -1, np.int64), 0
        for places in self._places:  # the newest first
            at = np.minimum(np.searchsorted(places, sequences), max(len(places) - 1, 0))
            if len(places):
                found = (rows < 0) & (places[at] == sequences)
                rows[found] = first + at[found]
            first += len(places)
        return rows


def bytes_of(column: pa.Array) -> I64:
    """Return the bytes of each value; O(values, those inside of lists and maps included)."""
    type_ = column.type
    if pa.types.is_struct(type_):
        return sum((bytes_of(column.field(i)) for i in range(type_.num_fields)), np.zeros(len(column), np.int64))
    if pa.types.is_map(type_) or pa.types.is_list(type_) or pa.types.is_large_list(type_):
        inner = [column.keys, column.items] if pa.types.is_map(type_) else [column.values]
        offsets = np.asarray(column.offsets).astype(np.int64)
        ends = np.zeros(int(offsets[-1]) + 1, np.int64)
        for values in inner:
            ends[1:] += np.cumsum(bytes_of(values)[: offsets[-1]])
        made: I64 = np.diff(ends[offsets])
        return made
    if pa.types.is_null(type_):
        return np.zeros(len(column), np.int64)
    try:
        return np.full(len(column), max(type_.bit_width // 8, 1), np.int64)
    except ValueError:  # not of one width: strings and bytes
        return np.asarray(pc.binary_length(column).fill_null(0)).astype(np.int64)


@lru_cache(4)
def opened_payload(root: str, version: int, checksum: str) -> Payload:
    """Open the payload of a version, once per process."""
    record = folders.read_record(Path(root), version)
    if record["checksum"] != checksum:
        raise TableError(f"version {version} of the book {root!r} is another than was opened; open the book again")
    with folders.guarded(Path(root), version):
        return Payload(Path(root), record)
