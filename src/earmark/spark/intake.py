"""How do the rows of a DataFrame, of subscriptions or of changes, become parts in one order of insertion?

    DataFrame ──source_of──► the columns that count ──mapInArrow──► parts, made by the executors
              ──agree──► numbers and types of attributes ──in_order──► each id once; the others are rejected

The executors parse, validate and encode, which is nearly all of the work; the driver handles whole columns.

    rows ──► sorted by (order, id) ──► parsed and bound, one by one ──► a part's folder
                                            └─ what cannot be taken ──► its rejects

A part is a small segment with attribute numbers and string keys of its own, which learns types from its own rows;
`agree` settles what holds for all, and `join` (segment/join.py) makes them one. What a task gives back is only the name
of the part's folder, so a task that is run twice does no harm.

    part-1f…/segment          a whole segment (book/segments.py), slots in (order, id) order; and as facts, which slot
                              was the first to use, and to give a type to, each attribute
    part-1f…/rows.arrow       id, op, order, tie, slot (-1 for a removal)
    part-1f…/payload.arrow    the columns of `payload`, by slot, where there are any
    part-1f…/rejects.arrow    id, op, condition, reason

**Invariant.** Whatever the partitioning, the same rows give the same result. The order of insertion is that of the
column `order_by`, then of `id`. Of the rows with one id the first in that order counts and the others are rejected;
where they have one place in it too, the first by `op`, then by a hash of the row.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.feather import read_table, write_feather
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, DoubleType, MapType, StringType, StructType

from earmark.book.segments import read_whole, write_whole
from earmark.book.sharding import NOT_TAKEN
from earmark.errors import EarmarkError, SubscriptionError
from earmark.flat.arrays import I64
from earmark.keys.schema import Attribute, Schema, attribute_type, schema_of, schema_record
from earmark.language.words import counted
from earmark.segment.builder import Builder, collector_held, rows_of_frame
from earmark.segment.columns import named_bounds
from earmark.segment.forms import reader_of
from earmark.segment.ids import Id
from earmark.segment.join import join, with_all_constants
from earmark.segment.segment import Segment, no_segment
from earmark.spark import frames
from earmark.spark.ordering import placed_by_executors
from earmark.spark.sentences import collected
from earmark.spark.types import is_numeric

FAIL, REJECT = "fail", "reject"
PART_ROWS, PART_BYTES = 100_000, 256 << 20
TAKEN = frozenset({*frames.RESULTS, frames.RANK, "sequence", "change"})
"""Columns of results and of data sources, which no payload is called as."""
DRIVER_ROWS = 5_000_000
"""The most rows whose ids the driver holds; of more, the executors find the order (ordering.py)."""
RUN_ROWS = 16_384
"""Rows of a part whose conditions are bound together."""
GIVEN_TWICE = "the id {!r} is given twice; the first in the order counts"
ADD, UPDATE, UPSERT, REMOVE = OPS = ("add", "update", "upsert", "remove")
FIELDS = ("id", "condition", "weights", "score", "tags", "starts", "ends")
PAYLOAD = "payload.arrow"
ORDER, OP, TIE = "__order", "op", "__tie"
"""Columns: the place in the order; what a change does; a hash of the row, which decides between equal places."""
REJECTS = pa.schema({"id": pa.string(), "op": pa.string(), "condition": pa.string(), "reason": pa.string()})
_ROWS = {"op": (OP, pa.string()), "order": (ORDER, pa.int64()), "tie": (TIE, pa.int64())}
_SHOWN = 3


class ReadOptions(NamedTuple):
    """How to read a DataFrame of subscriptions: the options of `Snapshot.publish` that are about rows."""

    attributes: Mapping[str, str] | None = None
    zone: str | None = None
    bounds: Mapping[str, tuple[str, str]] | None = None
    order_by: str | None = None
    on_error: str = FAIL
    time: str | None = None
    payload: tuple[str, ...] = ()


class RowPlan(NamedTuple):
    """What executors need to know. It travels with the task."""

    bounds: dict[str, tuple[str, str]] | None
    ready: bool
    """Ready-made bounds instead of conditions."""
    changes: bool
    """Rows have an `op`."""
    folder: str = ""
    record: Mapping[str, Any] = {}
    """The attributes that are known already, without the keys of string constants."""
    payload: tuple[str, ...] = ()
    """Columns that are kept beside the subscriptions."""


class RowSource(NamedTuple):
    """A DataFrame of subscriptions or changes, checked, with only the columns that count."""

    spark: SparkSession
    frame: DataFrame
    integer_ids: bool
    plan: RowPlan


class Taken(NamedTuple):
    """The rows of a DataFrame as the executors parsed them, part by part."""

    schema: Schema
    segments: list[Segment]
    rows: list[pa.Table]
    """id, op, order, tie and slot of the rows of each part."""
    rejects: pa.Table
    files: list[Path]
    """Of the segments."""
    integer_ids: bool

    @property
    def total(self) -> int:
        """Number of rows in all parts."""
        return sum(own.num_rows for own in self.rows)

    def payload(self) -> Iterator[pa.Table]:
        """Yield the columns of `payload` of each part, by slot."""
        for file in self.files:
            yield read_table(file.parent / PAYLOAD, memory_map=True)


# --- the columns that count ----------------------------------------------------------------------------------


def subscriptions_of(frame: DataFrame, options: ReadOptions) -> tuple[RowSource, Schema]:
    """Check a DataFrame of subscriptions; return it with the attributes that are known before any row is read."""
    check_on_error(options.on_error)
    seed = Schema(options.zone or frames.session_zone(frame.sparkSession), time=options.time)
    declared = options.attributes
    if declared is not None and not isinstance(declared, Mapping):
        raise EarmarkError(f"attributes: expected a mapping such as {{'age': 'integer'}}, got {declared!r}")
    seed.declare(declared or {})
    source = source_of(frame, options.bounds, options.order_by, changes=False, payload=options.payload)
    for name in source.plan.bounds or ():
        if name not in seed.by_name:
            seed.put(Attribute(len(seed), name, None, False, ""))
    return source, seed


def renamed(frame: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Return a DataFrame whose columns of these names, given by field, are called as their fields."""
    for field, name in names.items():
        if name == field:
            continue
        if name not in frame.columns:
            raise SubscriptionError(f"the DataFrame has no column {name!r} for {field!r}")
        frame = frame.drop(field) if field in frame.columns else frame
        frame = frame.withColumnRenamed(name, field)
    return frame


def source_of(
    frame: DataFrame,
    bounds: Mapping[str, tuple[str, str]] | None,
    order_by: str | None,
    changes: bool,
    payload: tuple[str, ...] = (),
) -> RowSource:
    """Check the columns of a DataFrame of subscriptions or changes, and leave out those that do not count."""
    schema = {field.name: field.dataType for field in frame.schema.fields}
    names = list(schema)
    for name in ("id", *((OP,) if changes else ())):
        if name not in schema:
            raise SubscriptionError(f"the DataFrame has no column {name!r}; its columns are {', '.join(names)}")
    ready = bounds is not None or "condition" not in schema
    pairs = _pairs(names, bounds) if ready else None
    integer_ids = schema["id"].typeName() in ("byte", "short", "integer", "long")
    if not integer_ids and schema["id"] != StringType():
        raise SubscriptionError(f"expected strings or integers in the column 'id', got {schema['id'].simpleString()}")
    if not ready and schema["condition"] != StringType():
        type_ = schema["condition"].simpleString()
        raise SubscriptionError(f"expected strings in the column 'condition', got {type_}")
    _check_numbers(schema)
    if order_by is not None and order_by not in schema:
        raise SubscriptionError(f"the DataFrame has no column {order_by!r} to order by")
    used = {name for name in FIELDS if not (ready and name == "condition")}
    used |= {"ranges"} if ready and pairs is None else {c for pair in (pairs or {}).values() for c in pair}
    used |= {OP} if changes else set()
    _check_payload(payload, names, used)
    used |= set(payload)
    selected = _selected(frame, [name for name in names if name in used], order_by, frames.id_type(integer_ids))
    return RowSource(frame.sparkSession, selected, integer_ids, RowPlan(pairs, ready, changes, payload=payload))


def _check_numbers(schema: Mapping[str, DataType]) -> None:
    """Raise for scores and weights that are not numbers: a cast would make NULL of them, or fail, as ANSI mode says."""
    if "score" in schema and not is_numeric(schema["score"]):
        raise SubscriptionError(f"expected numbers in the column 'score', got {schema['score'].simpleString()}")
    weights = schema.get("weights")
    if isinstance(weights, MapType) and not (weights.keyType == StringType() and is_numeric(weights.valueType)):
        raise SubscriptionError(
            f"expected maps of strings to numbers in the column 'weights', got {weights.simpleString()}"
        )


def _check_payload(payload: tuple[str, ...], names: list[str], used: set[str]) -> None:
    """Raise for columns that cannot be kept beside the subscriptions, or not be told from those of a result."""
    for name in payload:
        if name not in names:
            raise SubscriptionError(f"the DataFrame has no column {name!r} for the payload")
        if name.lower() in TAKEN:
            raise SubscriptionError(f"payload: a result of match has a column {name!r} of its own; rename this one")
        if name in used or name in (*FIELDS, ORDER, OP, TIE) or payload.count(name) > 1:
            raise SubscriptionError(f"payload: expected columns that have no other use, each once, got {name!r}")


def _selected(frame: DataFrame, names: list[str], order_by: str | None, id_type: DataType) -> DataFrame:
    """Return these columns with the types that they must have, and the columns ORDER and TIE."""
    alike = frames.alike(frame.columns, frames.is_case_sensitive(frame.sparkSession))
    for name in (*names, *((order_by,) if order_by is not None else ())):
        if name in alike:
            same = " and ".join(map(repr, alike[name]))
            raise SubscriptionError(f"the DataFrame has two columns of one name: {same}")
    casts = {"id": id_type, "score": DoubleType(), OP: StringType()}
    if "weights" in names and isinstance(frame.schema["weights"].dataType, MapType):
        casts["weights"] = MapType(StringType(), DoubleType())
    types = {name: casts.get(name, frame.schema[name].dataType) for name in names}
    columns = {name: f.col(frames.quoted(name)) for name in names}
    columns |= {name: columns[name].cast(casts[name]) for name in names if name in casts}
    selected = [column.alias(name) for name, column in columns.items()]
    selected.append(_tie([(columns[name], types[name]) for name in names]).alias(TIE))
    if order_by is not None:
        selected.append(f.col(frames.quoted(order_by)).alias(ORDER))
    return frame.select(*selected)


def _pairs(names: list[str], bounds: Mapping[str, tuple[str, str]] | None) -> dict[str, tuple[str, str]] | None:
    """Return pairs of columns by attribute; None where a column `ranges` has them."""
    if bounds is None and "ranges" in names:
        return None
    if bounds is None:
        return dict(named_bounds(names))
    if not isinstance(bounds, Mapping):
        raise SubscriptionError(f"bounds: expected a mapping such as {{'age': ('min_age', 'max_age')}}, got {bounds!r}")
    for name, pair in bounds.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not set(pair) <= set(names):
            raise SubscriptionError(f"bounds of {name!r}: expected a pair of the DataFrame's columns, got {pair!r}")
    return {name: (pair[0], pair[1]) for name, pair in bounds.items()}


def _tie(columns: Iterable[tuple[Column, DataType]]) -> Column:
    """Return a hash of a row. NULL leaves a hash as it was, so where there are NULLs is hashed as well."""
    parts: list[Column] = []
    for column, type_ in columns:
        if "map<" in type_.simpleString().removeprefix("map<"):  # a map has no hash of its own
            column = f.to_json(column)
        elif isinstance(type_, MapType):
            column = f.map_entries(column)
        elif isinstance(type_, ArrayType) and isinstance(type_.elementType, StructType):
            parts.append(f.transform(column, partial(_nulls, type_.elementType.names)))
        elif isinstance(type_, StructType):
            parts.append(_nulls(type_.names, column))
        parts += [column, column.isNull()]
    return f.xxhash64(*parts)


def _nulls(names: list[str], value: Column) -> Column:
    """Return which of these fields of a struct are NULL."""
    return f.struct(*(value[name].isNull() for name in names))


# --- parts, on the executors ---------------------------------------------------------------------------------


def build_parts(plan: RowPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn a partition into parts; yield their names."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in chain(batches, [None]):  # None: what is left becomes a part
        if batch is not None:
            waiting.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= (1 if batch is None or size >= PART_BYTES else PART_ROWS):
            yield pa.record_batch({"part": [build_part(plan, pa.Table.from_batches(waiting))]})
            waiting, rows, size = [], 0, 0


def build_part(plan: RowPlan, frame: pa.Table) -> str:
    """Make a part of its rows; return its name."""
    keys = [(name, "ascending") for name in (ORDER, "id", OP, TIE) if name in frame.column_names]
    frame, rejects = _usable(plan, frame.take(pc.sort_indices(frame, keys)).combine_chunks())
    added = frame.filter(pc.not_equal(frame[OP], REMOVE)) if plan.changes else frame
    rest = added.drop_columns(list(plan.payload))
    segment, taken, refused, facts = (_ready_made if plan.ready else _parsed)(plan, rest)
    folder = Path(plan.folder) / f"part-{secrets.token_hex(8)}"
    folder.mkdir(parents=True)
    write_whole(folder / "segment", segment, facts)
    if plan.payload:
        kept = added.select(list(plan.payload)).take(pa.array(taken, pa.int64()))
        write_feather(kept, folder / PAYLOAD, compression="uncompressed")
    rows = _rows(added.take(pa.array(taken, pa.int64())), np.arange(len(taken)))
    if plan.changes:
        removed = frame.filter(pc.equal(frame[OP], REMOVE))
        rows = pa.concat_tables([rows, _rows(removed, np.full(removed.num_rows, -1))])
    write_feather(rows, folder / "rows.arrow", compression="uncompressed")
    listed = [{**one, "id": None if one["id"] is None else str(one["id"])} for one in rejects + refused]
    write_feather(pa.Table.from_pylist(listed, REJECTS), folder / "rejects.arrow")
    return folder.name


def _rows(frame: pa.Table, slots: Any) -> pa.Table:
    columns = {
        name: frame[column] if column in frame.column_names else pa.nulls(frame.num_rows, type_)
        for name, (column, type_) in _ROWS.items()
    }
    return pa.table({"id": frame["id"], **columns, "slot": pa.array(slots, pa.int32())})


def _usable(plan: RowPlan, frame: pa.Table) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Put aside rows without an id, a place in the order, or a known op."""
    problems: dict[int, str] = {}
    if plan.changes:
        for row, op in enumerate(frame[OP].to_pylist()):
            if op not in OPS:
                problems[row] = f"expected {', '.join(OPS[:-1])} or {OPS[-1]} for op, got {op!r}"
    for name, problem in ((ORDER, "the column of the order is NULL"), ("id", "the id is NULL")):
        if name in frame.column_names:
            problems |= dict.fromkeys(pc.indices_nonzero(frame[name].is_null()).to_pylist(), problem)
    if not problems:
        return frame, []
    rejects = [_rejected(frame, row, reason) for row, reason in sorted(problems.items())]
    keep = [row for row in range(frame.num_rows) if row not in problems]
    return frame.take(pa.array(keep, pa.int64())), rejects


def _rejected(frame: pa.Table, row: int, reason: str) -> dict[str, Any]:
    values = {name: frame[name][row].as_py() for name in ("id", OP, "condition") if name in frame.column_names}
    return {**values, "reason": reason}


Read = tuple[Segment, list[int], list[dict[str, Any]], dict[str, Any]]
"""The segment of a part; which rows of the frame are in it; what was refused; and the facts about its attributes:
`first`, the slot that first used each one that the plan does not know, `typed`, the slot that first gave it a type."""


def _parsed(plan: RowPlan, frame: pa.Table) -> Read:
    """Conditions, in runs of one shape; one by one where a row is wrong, and the others are taken without it."""
    taken = list(range(frame.num_rows))
    rejects: list[dict[str, Any]] = []
    with collector_held():
        builder = _in_runs(plan, _items(frame)) if len(pc.unique(frame["id"])) == frame.num_rows else None
        if builder is None:
            builder, taken, rejects = _one_by_one(plan, frame, list(rows_of_frame(frame)))
    return builder.prepared().segment(0), taken, rejects, {"first": builder.first, "typed": builder.typed}


def _items(frame: pa.Table) -> list[Any]:
    """Return the rows: pairs of id and condition where there is nothing else, which are quicker to take."""
    if not {*FIELDS[2:]}.isdisjoint(frame.column_names):
        return list(rows_of_frame(frame))
    return list(zip(frame["id"].to_pylist(), frame["condition"].to_pylist(), strict=True))


def _in_runs(plan: RowPlan, items: list[Any]) -> Builder | None:
    """Return a builder that has taken all rows; None if one is wrong."""
    builder = Builder(schema_of(plan.record))
    for begin in range(0, len(items), RUN_ROWS):
        if builder.take_many(items[begin : begin + RUN_ROWS], begin):
            return None
    return builder


def _one_by_one(
    plan: RowPlan, frame: pa.Table, items: list[dict[str, Any]]
) -> tuple[Builder, list[int], list[dict[str, Any]]]:
    """Return a builder that has taken the rows that are right, which those are, and what is wrong with the others."""
    builder, taken, rejects = Builder(schema_of(plan.record)), [], []
    seen: set[Id] = set()
    for row, item in enumerate(items):
        try:
            if item["id"] in seen:
                raise SubscriptionError(GIVEN_TWICE.format(item["id"]))
            builder.take(item)
        except EarmarkError as problem:
            rejects.append(_rejected(frame, row, str(problem.at(id=None))))
            continue
        seen.add(item["id"])
        taken.append(row)
    return builder, taken, rejects


def _ready_made(plan: RowPlan, frame: pa.Table) -> Read:
    """Whole columns at once; an error has all the rows at fault, and the others are taken without them."""
    columns = frame.select([name for name in frame.column_names if name not in (OP, ORDER, TIE)])
    schema = schema_of(plan.record)
    known = set(schema.names)
    segment = no_segment(schema)
    taken = list(range(columns.num_rows))
    wrong: dict[int, EarmarkError] = {}
    while taken:
        some = columns.take(pa.array(taken, pa.int64())) if wrong else columns
        try:
            prepared = reader_of(some, plan.bounds, progress=False)(schema)
        except EarmarkError as problem:
            for one in problem.problems or (problem,):
                wrong |= dict.fromkeys(taken if one.row is None else [taken[one.row]], one)  # of a column: all rows
            taken = [row for row in taken if row not in wrong]
        else:
            segment = prepared.segment(0)
            break
    rejects = [_rejected(frame, row, str(one.at(row=None, id=None))) for row, one in sorted(wrong.items())]
    used = first_slots(segment)
    new = {name: used.get(name, 0) for name in segment.schema.names if name not in known}
    typed = {a.name: used.get(a.name, 0) for a in segment.schema if a.type}
    return segment, taken, rejects, {"first": new, "typed": typed}


def first_slots(segment: Segment) -> dict[str, int]:
    """Return attribute -> the first slot that has a constraint on it."""
    arrays = segment.arrays
    numbers, constraints = np.unique(arrays.attr, return_index=True)
    clauses = np.searchsorted(arrays.constraint_start, constraints, "right") - 1
    slots = np.searchsorted(arrays.clause_start, clauses, "right") - 1
    return {segment.schema.names[n]: slot for n, slot in zip(numbers.tolist(), slots.tolist(), strict=True)}


# --- all parts, on the driver --------------------------------------------------------------------------------


def take_rows(source: RowSource, folder: Path, seed: Schema) -> Taken:
    """Run the executors until all parts agree on the types of attributes: once, and rarely twice."""
    while True:
        folder.mkdir()
        plan = source.plan._replace(folder=str(folder), record=schema_record(seed))
        reports = source.frame.mapInArrow(partial(build_parts, plan), frames.struct_of({"part": StringType()}))
        parts = [folder / name for name in sorted(row[0] for row in collected(reports))]
        segments, facts = [], []
        for part in parts:
            segment, known, _ = read_whole(part / "segment")
            segments.append(segment)
            facts.append(known)
        rows = [read_table(part / "rows.arrow", memory_map=True) for part in parts]
        schema, settled = agree(segments, rows, facts, seed)
        if settled:
            frames.refuse_case_variants(source.spark, schema.names)
            rejects = pa.concat_tables([REJECTS.empty_table(), *(read_table(part / "rejects.arrow") for part in parts)])
            return Taken(schema, segments, rows, rejects, [part / "segment" for part in parts], source.integer_ids)
        seed = schema
        shutil.rmtree(folder)


def agree(
    segments: Sequence[Segment], rows: Sequence[pa.Table], facts: Sequence[dict[str, Any]], seed: Schema
) -> tuple[Schema, bool]:
    """Numbers and types for the attributes of all parts, after those of `seed`, which stay; and whether all have these.

    Both follow from the order of insertion, whatever the partitioning: an attribute's number is its place in the order
    of first use, and its type is what its first typed use says, as if one Matcher had taken the rows one by one. A part
    that learned something else has to be made again under the agreed types.
    """
    first: dict[str, Any] = {}
    typed: dict[str, list[tuple[Any, Attribute]]] = {}
    for segment, own, said in zip(segments, rows, facts, strict=True):
        schema, place = segment.schema, _places(own, len(segment))
        for name, slot in said["first"].items():
            used = (place(slot), schema.by_name[name].number)
            first[name] = min(first.get(name, used), used)
        for name, slot in said["typed"].items():
            if len(segment) and schema.by_name[name].type is not None:
                typed.setdefault(name, []).append((place(slot), schema.by_name[name]))
    names = sorted(first, key=first.__getitem__)
    made = {name: Attribute(len(seed) + i, name, None, False, "") for i, name in enumerate(names)}
    for name, uses in typed.items():
        known = made.get(name) or seed.by_name[name]
        if known.type is None:
            chosen = min(uses, key=lambda use: use[0])[1]
            assert chosen.type is not None
            type_ = attribute_type(str(chosen.type))
            made[name] = Attribute(known.number, name, type_, False, chosen.origin)
    agreed = seed.replaced(made.values())
    own_types = [a for segment in segments for a in segment.schema if a.type is not None and a.name in agreed.by_name]
    return agreed, all(str(a.type) == str(agreed.by_name[a.name].type) for a in own_types)


def _places(rows: pa.Table, slots: int) -> Callable[[int], tuple[Any, ...]]:
    """What gives the place of a slot in the order of insertion."""
    return lambda slot: tuple(rows[name][slot].as_py() for name in ("order", "id", "op", "tie")) if slots else ()


# --- the order of insertion ----------------------------------------------------------------------------------


def in_order(rows: pa.Table) -> tuple[I64, I64]:
    """Return the first row of each id, in the order of insertion, and the rows that repeat an id. O(n log n)."""
    keys = ["order", "id"] if rows["order"].null_count < rows.num_rows else ["id"]
    codes = rows["id"].combine_chunks().dictionary_encode().indices.to_numpy()
    for by in (keys, [*keys, "op", "tie"]):
        order = pc.sort_indices(rows, [(key, "ascending") for key in by]).to_numpy().astype(np.int64)
        first = np.zeros(len(order), bool)
        first[np.unique(codes[order], return_index=True)[1]] = True
        if first.all():
            break
    return order[first], order[~first]


def sequences(taken: Taken, source: RowSource) -> tuple[list[I64], pa.Table]:
    """Return the places of each part's slots in the order of insertion, each id once, and all rejects."""
    if not taken.segments:
        return [], taken.rejects
    if taken.total > DRIVER_ROWS:
        order_type = source.frame.schema[ORDER].dataType if ORDER in source.frame.columns else None
        parts, id_type = [file.parent for file in taken.files], frames.id_type(source.integer_ids)
        by_part, repeated = placed_by_executors(source.spark, parts, taken.total, id_type, order_type)
        twice = rejected(repeated, np.arange(repeated.num_rows), GIVEN_TWICE.format)
        return by_part, pa.concat_tables([taken.rejects, twice])
    rows = pa.concat_tables(taken.rows)
    order, repeats = in_order(rows)
    sequence = np.full(rows.num_rows, NOT_TAKEN, np.int64)
    sequence[order] = np.arange(len(order))
    borders = np.cumsum([len(segment) for segment in taken.segments])[:-1]
    rejects = pa.concat_tables([taken.rejects, rejected(rows, repeats, GIVEN_TWICE.format)])
    return np.split(sequence, borders), rejects


def ordered(taken: Taken, by_part: Sequence[I64]) -> Segment:
    """Return one segment of all parts, in the order of insertion, each id once; `by_part` are the places of slots."""
    schema = with_all_constants(taken.schema, taken.segments)
    sequence = np.concatenate([*by_part, np.empty(0, np.int64)])
    kept = np.flatnonzero(sequence != NOT_TAKEN)
    if not len(kept):
        return no_segment(schema, taken.integer_ids)
    segment = join(taken.segments, schema)
    return segment.with_sequence(sequence).pick(kept[np.argsort(sequence[kept])])


# --- rejected rows -------------------------------------------------------------------------------------------


def rejected(rows: pa.Table, which: I64, reason: Callable[[Any], str]) -> pa.Table:
    """Return rejects for rows that were fine by themselves."""
    chosen = rows.take(pa.array(which, pa.int64())).select(["id", "op"]).to_pylist()
    listed = [{"id": str(row["id"]), "op": row["op"], "reason": reason(row["id"])} for row in chosen]
    return pa.Table.from_pylist(listed, REJECTS)


def check_on_error(on_error: str) -> None:
    """Raise for a wrong value of `on_error`."""
    if on_error not in (FAIL, REJECT):
        raise EarmarkError(f"on_error: expected {FAIL!r} or {REJECT!r}, got {on_error!r}")


def refuse(rejects: pa.Table, on_error: str, done: str) -> None:
    """Raise for rejected rows, naming the first few, unless they may be rejected; `done` is what did not happen."""
    if on_error == REJECT or not rejects.num_rows:
        return
    first = rejects.sort_by("id").slice(0, _SHOWN).to_pylist()
    reasons = [f"subscription {row['id']!r}: {row['reason']}" for row in first]
    if rejects.num_rows > _SHOWN:
        reasons.append(f"and {rejects.num_rows - _SHOWN:,} more")
    rows = counted(rejects.num_rows, "row")
    raise SubscriptionError(f"nothing was {done}, since {rows} cannot be used: " + "; ".join(reasons))
