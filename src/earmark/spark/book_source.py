"""A book as a data source: its subscriptions, its versions, and what changed between two of them.

    register_sources(spark)
    spark.read.format("earmark.book").load("/shared/ads")
    spark.read.format("earmark.book").options(table="versions").load("/shared/ads")
    spark.read.format("earmark.book").options(table="differences", since=3).load("/shared/ads")

| option  | meaning                                                                                                    |
|---------|------------------------------------------------------------------------------------------------------------|
| path    | the folder of the book, as `load` gives it                                                                 |
| table   | subscriptions (the default), versions, or differences                                                      |
| version | subscriptions: which version; differences: the later one; the newest by default                            |
| since   | differences: the earlier version; by default the parent of the later one                                   |

| table         | columns                                                                                              |
|---------------|------------------------------------------------------------------------------------------------------|
| subscriptions | id, condition, score, weights, tags, starts, ends, sequence; those of the payload                    |
| versions      | version, parent, kind, base, created, subscriptions, rejected, index                                 |
| differences   | change (added, removed, changed), id, condition, score, weights, tags, starts, ends; those of the    |
|               | payload of the later version; removed ones as they were                                              |

The version is chosen when the source is planned, and all tasks read it. Subscriptions are read segment by segment,
PIECE slots per task. Versions that share a segment share its slots too, so differences look only at segments that one
of the two versions has, and at slots whose removal one of them records. This is done in one task, which holds the ids
of the subscriptions that are looked at: few after `apply`, all of them after `compact`. Conditions, tags and payload
are read and returned some OUTPUT_BYTES at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from earmark.book.folder import VersionInfo, described, read_record, root_of
from earmark.book.payload import Payload, opened_payload
from earmark.book.saving import opened
from earmark.engine.version import Version
from earmark.errors import EarmarkError
from earmark.flat.arrays import I64
from earmark.lazy import lazy_property
from earmark.segment.builder import Subscription
from earmark.segment.forms import subscription_at
from earmark.segment.segment import Segment
from earmark.spark.frames import arrow_id_type, arrow_schema, struct_of
from earmark.spark.search import OUTPUT_BYTES, cuts
from earmark.spark.snapshot import Snapshot

FORMAT = "earmark.book"
SUBSCRIPTIONS, VERSIONS, DIFFERENCES = TABLES = ("subscriptions", "versions", "differences")
ADDED, REMOVED, CHANGED = "added", "removed", "changed"
PIECE = 100_000
"""Slots per task."""
_AT_ONCE = 10_000
_OPTIONS = ("path", "table", "version", "since")
_DESCRIBED = {
    "condition": pa.string(),
    "score": pa.float64(),
    "weights": pa.map_(pa.string(), pa.float64()),
    "tags": pa.map_(pa.string(), pa.string()),
    "starts": pa.timestamp("us", "UTC"),
    "ends": pa.timestamp("us", "UTC"),
}


class BookOptions:
    """The options of a source, checked, and the version that they name."""

    def __init__(self, options: Mapping[str, str]) -> None:
        known = {name: value for name, value in options.items() if value is not None}
        for name in known:
            if name.lower() not in _OPTIONS:
                raise EarmarkError(f"{FORMAT} has no option {name!r}: it has {', '.join(_OPTIONS)}")
        given = {name.lower(): value for name, value in known.items()}
        if "path" not in given:
            raise EarmarkError(f"{FORMAT} needs the path of a book, as in load('/shared/ads')")
        self.root = root_of(given["path"])
        self.table = given.get("table", SUBSCRIPTIONS)
        if self.table not in TABLES:
            raise EarmarkError(f"option 'table' of {FORMAT}: expected one of {', '.join(TABLES)}, got {self.table!r}")
        self.version = _number(given, "version")
        self.since = _number(given, "since")
        if self.since is not None and self.table != DIFFERENCES:
            raise EarmarkError(f"the option 'since' of {FORMAT} is for the table {DIFFERENCES!r}")

    @lazy_property
    def snapshot(self) -> Snapshot:
        """The version that is read; the later one of two."""
        return Snapshot.open(self.root, self.version)

    @property
    def earlier(self) -> dict[str, Any] | None:
        """The record of the earlier of two versions; None where the later one was the first."""
        number = self.since if self.since is not None else self.snapshot.info.parent
        return None if number is None else read_record(self.root, number)

    @property
    def schema(self) -> StructType:
        """The columns of the table."""
        if self.table == VERSIONS:
            known: StructType = from_arrow_schema(_versions_schema())
            return known
        fields = {"id": arrow_id_type(self.snapshot.integer_ids), **_DESCRIBED}
        if self.table == SUBSCRIPTIONS:
            fields |= {"sequence": pa.int64()}
        else:
            fields = {"change": pa.string(), **fields}
        made = from_arrow_schema(pa.schema(fields))
        return StructType([*made.fields, *struct_of(self.snapshot.payload).fields])


def _versions_schema() -> pa.Schema:
    numbers = dict.fromkeys(("version", "parent", "base", "subscriptions", "rejected"), pa.int64())
    kinds = {**numbers, "kind": pa.string(), "index": pa.string(), "created": pa.timestamp("us", "UTC")}
    order = ("version", "parent", "kind", "base", "created", "subscriptions", "rejected", "index")
    return pa.schema({name: kinds[name] for name in order})


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 10**8:
        raise EarmarkError(f"option {name!r} of {FORMAT}: expected the number of a version, got {text!r}")
    return int(text)


class BookSource(DataSource):
    """The data source. Spark pickles it, to plan and to read elsewhere."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `format` takes."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the table's columns."""
        return BookOptions(self.options).schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader."""
        return BookReader(self.options, schema)


@dataclass
class Piece(InputPartition):
    """Some slots of a segment of a version, or the rows that the driver has already."""

    root: str
    version: tuple[int, str]
    """Number and checksum."""
    earlier: tuple[int, str] | None = None
    segment: int = 0
    first: int = 0
    last: int = 0
    rows: Sequence[dict[str, Any]] = ()


class BookReader(DataSourceReader):
    """Reads a table of a book."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = dict(options)
        self.schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return the pieces of the table."""
        options = BookOptions(self.options)
        snapshot = options.snapshot
        _check_planned(self.schema, options)
        this = (snapshot.version, snapshot.record["checksum"])
        if options.table == VERSIONS:
            return [Piece(str(options.root), this, rows=[_as_row(info) for info in snapshot.versions()])]
        if options.table == DIFFERENCES:
            earlier = options.earlier
            _check_ids(earlier, snapshot)
            before = None if earlier is None else (described(earlier).number, str(earlier["checksum"]))
            return [Piece(str(options.root), this, before)]
        pieces = [
            Piece(str(options.root), this, None, number, first, min(first + PIECE, entry["slots"]))
            for number, entry in enumerate(snapshot.record["segments"])
            for first in range(0, entry["slots"], PIECE)
        ]
        return pieces or [Piece(str(options.root), this, segment=-1)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a piece, with exactly the types that Spark expects."""
        wanted = arrow_schema(self.schema)
        table = BookOptions(self.options).table
        rows = iter(partition.rows)
        if table != VERSIONS:
            rows = subscriptions_in(partition) if table == SUBSCRIPTIONS else differences(partition)
        for some in _some(rows):
            if table == VERSIONS:
                yield pa.RecordBatch.from_pylist(some, wanted)
            else:
                yield from _with_payload(partition, some, wanted)
        yield pa.RecordBatch.from_pylist([], wanted)


def _check_planned(planned: StructType, options: BookOptions) -> None:
    """Raise unless the version has the columns that the query was planned with: it was chosen apart from them."""
    there = {field.name: field.dataType.simpleString() for field in options.schema.fields}
    for field in planned.fields:
        type_ = field.dataType.simpleString()
        if there.get(field.name) != type_:
            raise EarmarkError(
                f"version {options.snapshot.version} of {str(options.root)!r} has no column {field.name!r} of type "
                f"{type_}, which this query was planned with: if the book was published again meanwhile, run the query "
                "again, or give the option 'version'"
            )


def _check_ids(earlier: dict[str, Any] | None, later: Snapshot) -> None:
    """Raise if one column cannot hold the ids of both versions: a book that was emptied may get others."""
    if earlier is None or not earlier["subscriptions"] or bool(earlier["integer_ids"]) == later.integer_ids:
        return
    kinds = ("strings", "integers") if later.integer_ids else ("integers", "strings")
    raise EarmarkError(
        f"the ids of version {earlier['version']} are {kinds[0]}, and those of version {later.version} {kinds[1]}: "
        "one column cannot hold both"
    )


def _some(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield rows, _AT_ONCE at a time, or as many as have OUTPUT_BYTES of text."""
    some: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        some.append(row)
        size += len(row.get("condition") or "") + sum(len(one) for tag in row.get("tags") or () for one in tag)
        if len(some) >= _AT_ONCE or size >= OUTPUT_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _with_payload(piece: Piece, rows: list[dict[str, Any]], wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows with the payload of their subscriptions, in batches of bounded size."""
    later, earlier = _payloads(piece)
    own = [name for name in later.names if name in wanted.names]
    sequences = np.array([row["sequence"] for row in rows], np.int64)
    removed = np.array([row.get("change") == REMOVED for row in rows])
    sizes = _sizes(later, own, sequences)
    if earlier is not None and removed.any():
        sizes = np.maximum(sizes, _sizes(earlier, earlier.names, sequences))
    for begin, end in cuts(sizes, np.arange(len(rows))):
        batch = pa.RecordBatch.from_pylist(rows[begin:end], wanted)
        for name in own:
            values, at = later.column(name, sequences[begin:end]), wanted.get_field_index(name)
            if removed[begin:end].any():
                before = _column(earlier, name, sequences[begin:end], values.type)
                values = pc.if_else(pa.array(removed[begin:end]), before, values)
            batch = batch.set_column(at, wanted.field(at), values)
        yield batch


def _sizes(payload: Payload, names: Sequence[str], sequences: I64) -> I64:
    """Return the bytes that the payload of each of these subscriptions takes."""
    return sum((payload.sizes(name, sequences) for name in names), np.zeros(len(sequences), np.int64))


def _payloads(piece: Piece) -> tuple[Payload, Payload | None]:
    """Return the payload of the later version and of the earlier one."""
    return (
        opened_payload(piece.root, *piece.version),
        None if piece.earlier is None else opened_payload(piece.root, *piece.earlier),
    )


def _column(payload: Payload | None, name: str, sequences: I64, type_: pa.DataType) -> pa.Array:
    """Return a column as it was; NULL where there was none of this type."""
    if payload is None or name not in payload.names or payload.type_of(name) != type_:
        return pa.nulls(len(sequences), type_)
    return payload.column(name, sequences)


def _as_row(info: VersionInfo) -> dict[str, Any]:
    return {name: getattr(info, "number" if name == "version" else name) for name in _versions_schema().names}


def _described(found: Subscription) -> dict[str, Any]:
    return {
        "id": found.id,
        "condition": found.condition,
        "score": found.score,
        "weights": None if found.weights is None else list(found.weights.items()),
        "tags": list((found.tags or {}).items()),  # as `match` has them
        "starts": found.starts,
        "ends": found.ends,
    }


def subscriptions_in(piece: Piece) -> Iterator[dict[str, Any]]:
    """Yield the live subscriptions of a piece, in the order of its slots."""
    if piece.segment < 0:
        return
    indexed = opened(piece.root, *piece.version).segments[piece.segment]
    segment, living = indexed.segment, indexed.living()
    for slot in living[(living >= piece.first) & (living < piece.last)].tolist():
        yield {**_described(subscription_at(segment, slot)), "sequence": _sequence(segment, slot)}


def differences(piece: Piece) -> Iterator[dict[str, Any]]:
    """Yield what changed from one version to another, by id."""
    later = opened(piece.root, *piece.version)
    earlier = None if piece.earlier is None else opened(piece.root, *piece.earlier)
    before = _only_in(earlier, later)
    after = _only_in(later, earlier)
    all_ids = sorted(before.keys() | after.keys())
    for first in range(0, len(all_ids), _AT_ONCE):
        ids = all_ids[first : first + _AT_ONCE]
        for id, other_payload in zip(ids, _payload_differs(piece, ids, before, after), strict=True):
            was, now = (None if id not in own else subscription_at(*own[id]) for own in (before, after))
            if now is None:
                assert was is not None
                yield {"change": REMOVED, **_described(was), "sequence": _sequence(*before[id])}
                continue
            changed = was is not None and (other_payload or _described(was) != _described(now))
            if was is None or changed:
                change = ADDED if was is None else CHANGED
                yield {"change": change, **_described(now), "sequence": _sequence(*after[id])}


def _payload_differs(
    piece: Piece, ids: Sequence[Any], before: dict[Any, tuple[Segment, int]], after: dict[Any, tuple[Segment, int]]
) -> list[bool]:
    """Return for each id whether it has another payload in the later version."""
    later, earlier = _payloads(piece)
    differ = dict.fromkeys(ids, False)
    both = [id for id in ids if id in before and id in after]
    if not both:
        return list(differ.values())
    now_at, was_at = (np.array([_sequence(*own[id]) for id in both]) for own in (after, before))
    sizes = _sizes(later, later.names, now_at)
    sizes += 0 if earlier is None else _sizes(earlier, earlier.names, was_at)
    for begin, end in cuts(sizes, np.arange(len(both))):
        for name in later.names:
            now = later.column(name, now_at[begin:end])
            was = _column(earlier, name, was_at[begin:end], now.type)
            for at, id in enumerate(both[begin:end]):
                differ[id] |= not now[at].equals(was[at])
    return list(differ.values())


def _sequence(segment: Segment, slot: int) -> int:
    return int(segment.arrays.sequence[slot])


def _only_in(version: Version | None, other: Version | None) -> dict[Any, tuple[Segment, int]]:
    """Return by id the live slots of a version that are not live in the same segment of another."""
    listed: Sequence[Any] = () if version is None else version.segments
    others: Sequence[Any] = () if other is None else other.segments
    known = {own.entry["file"]: own for own in others}
    found: dict[Any, tuple[Segment, int]] = {}
    for indexed in listed:
        slots = indexed.living()
        same = known.get(indexed.entry["file"])
        if same is not None:
            slots = np.setdiff1d(slots, same.living())
        if len(slots):
            ids = indexed.segment.ids.named(slots.tolist())
            found |= {id: (indexed.segment, slot) for id, slot in zip(ids, slots.tolist(), strict=True)}
    return found
