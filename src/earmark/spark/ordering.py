"""The order of insertion of more rows than the driver should hold, found by the executors.

    rows of all parts ──by id──► the first of each id ──by range of (order, id)──► sorted runs, written as Parquet
        ──► the number of each row ──by part──► part-1f…/places: for every slot its place, or NOT_TAKEN

The driver sees how many rows each run has, the names of files, and the rows that repeat an id, which are rejected; it
maps the places. The result is that of `intake.sequences`, which holds all ids in one process.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.feather import read_table
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, IntegerType, LongType, StringType

from earmark.book.segments import read_packed, write_packed
from earmark.book.sharding import NOT_TAKEN
from earmark.flat.arrays import I64
from earmark.spark import frames
from earmark.spark.sentences import collected

RUNS = "runs"
PLACES = "places"
RUN_ROWS = 500_000
"""Rows of a sorted run."""
PART, SLOT, SEQUENCE = "part", "slot", "sequence"
_RUN = {"run": IntegerType()}


def placed_by_executors(
    spark: SparkSession, parts: list[Path], rows: int, id_type: DataType, order: DataType | None
) -> tuple[list[I64], pa.Table]:
    """Return the places of each part's slots in the order of insertion, each id once; and the rows that repeat an id.

    `rows` is how many there are; `order` is the type of the column of the order, if there is one.
    """
    types = {PART: IntegerType(), "id": id_type, "op": StringType(), "order": order or LongType(), "tie": LongType()}
    types[SLOT] = IntegerType()
    files = [str(part) for part in parts]
    every = spark.range(0, len(files), 1, len(files))
    found = every.mapInArrow(partial(read_rows, files), frames.struct_of(types))
    by: list[Column] = [f.col("order"), f.col("id")] if order is not None else [f.col("id")]
    turn = f.row_number().over(Window.partitionBy("id").orderBy(*by, "op", "tie"))
    found = found.withColumn("turn", turn).drop("tie")
    folder = parts[0].parent / RUNS
    first = found.where("turn = 1").repartitionByRange(-(-rows // RUN_ROWS), *by).sortWithinPartitions(*by)
    first.select(PART, SLOT).write.parquet(frames.address(folder))
    repeats = collected(found.where("turn > 1").select("id", "op"))
    _number(spark, folder, files)
    places = [read_packed(part / PLACES, PLACES).array(SEQUENCE, np.int64) for part in parts]
    return places, pa.Table.from_pylist([row.asDict() for row in repeats], _repeated(id_type))


def _repeated(id_type: DataType) -> pa.Schema:
    return pa.schema({"id": frames.arrow_id_type(isinstance(id_type, LongType)), "op": pa.string()})


def _number(spark: SparkSession, folder: Path, parts: list[str]) -> None:
    """Number the rows of the sorted runs, and write the places of each part."""
    runs = sorted(folder.glob("part-*.parquet"))  # named by the number of their partition
    counts = [pq.read_metadata(run).num_rows for run in runs]
    starts = [0, *np.cumsum(counts).tolist()]
    numbers = spark.range(0, len(runs), 1, max(len(runs), 1))
    types = {PART: IntegerType(), SLOT: IntegerType(), SEQUENCE: LongType()}
    numbered = numbers.mapInArrow(partial(number_rows, [str(run) for run in runs], starts), frames.struct_of(types))
    every: DataFrame = spark.range(0, len(parts), 1, 1).select(f.col("id").cast("int").alias(PART))
    nothing = every.select(PART, f.lit(None).cast("int").alias(SLOT), f.lit(None).cast("long").alias(SEQUENCE))
    together = numbered.unionByName(nothing).repartition(min(len(parts), 200), PART)
    collected(together.mapInArrow(partial(write_places, parts), frames.struct_of({PART: IntegerType()})))


# --- on the executors ----------------------------------------------------------------------------------------


def read_rows(parts: list[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of parts, with the number of the part."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            rows = read_table(Path(parts[number]) / "rows.arrow", memory_map=True)
            named = rows.add_column(0, PART, pa.array(np.full(rows.num_rows, number, np.int32)))
            yield from named.to_batches(max_chunksize=10_000)


def number_rows(runs: list[str], starts: list[int], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of sorted runs with their places in the order of insertion."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            rows = pq.read_table(runs[number])
            place = pa.array(np.arange(starts[number], starts[number] + rows.num_rows))
            yield from rows.append_column(SEQUENCE, place).to_batches(max_chunksize=10_000)


def write_places(parts: list[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the places of the slots of some parts; yield the numbers of the parts."""
    columns: list[list[I64]] = [[], [], []]
    for batch in batches:
        for own, values in zip(columns, batch.columns, strict=True):
            own.append(values.fill_null(NOT_TAKEN).to_numpy().astype(np.int64))
    if not columns[0]:
        return
    part, slot, sequence = map(np.concatenate, columns)
    order = np.argsort(part, kind="stable")
    numbers, begins = np.unique(part[order], return_index=True)
    for number, rows in zip(numbers.tolist(), np.split(order, begins[1:]), strict=True):
        folder = Path(parts[number])
        slots = read_table(folder / "rows.arrow", columns=[SLOT], memory_map=True).num_rows
        places = np.full(slots, NOT_TAKEN, np.int64)
        there = rows[slot[rows] != NOT_TAKEN]
        places[slot[there]] = sequence[there]
        unfinished = folder / f"{PLACES}-{secrets.token_hex(8)}"  # the same task may run elsewhere at the same time
        write_packed(unfinished, PLACES, {}, {SEQUENCE: places})
        unfinished.replace(folder / PLACES)
    yield pa.record_batch({PART: pa.array(numbers.astype(np.int32))})
