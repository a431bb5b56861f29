"""Tables of the workloads as DataFrames: what `earmark.workload` means by its options, and how rows are made.

Where Spark has data sources in Python (4.0), tables are read through `earmark.workload`; an older Spark makes them from
a range of numbers, and streams need 4.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from earmark.errors import EarmarkError
from earmark.spark import frames
from earmark.workload import blocks

FORMAT = "earmark.workload"
ROWS_PER_PARTITION = 50_000
ENDLESS = 2**62


def workload(spark: SparkSession, name: str, table: str, rows: int | None = None, **options: Any) -> DataFrame:
    """Return a table of a workload as a DataFrame; with `stream=True`, a streaming one. Options as described above."""
    stream = bool(options.pop("stream", False))
    options |= {"workload": name, "table": table, "rows": rows}
    strings = {key: str(value) for key, value in options.items() if value is not None}
    settings = Settings(strings)
    settings.check(stream)
    if stream:
        stream_source()
    try:
        from earmark.spark.sources import register_sources
    except ImportError:
        return _older(spark, settings, strings)
    register_sources(spark)
    reader: Any = spark.readStream if stream else spark.read
    frame: DataFrame = reader.format(FORMAT).options(**strings).load()
    return frame


def stream_source() -> ModuleType:
    """Return the module that reads workloads as streams, or raise where Spark is too old for it."""
    try:
        return import_module("earmark.spark.workload_stream")
    except ImportError:
        version = import_module("pyspark").__version__
        raise EarmarkError(f"a workload as a stream needs Spark 4.2 or newer, this is {version}") from None


def _older(spark: SparkSession, settings: Settings, options: dict[str, str]) -> DataFrame:
    """Return a table on an older Spark: a row for each piece, from which workers make its rows."""
    cut = settings.pieces()
    schema: StructType = from_arrow_schema(settings.table.schema)
    numbers = spark.range(0, len(cut), 1, max(len(cut), 1))
    return numbers.mapInArrow(partial(_made, options, cut, schema), schema)


def _made(
    options: dict[str, str], cut: list[tuple[int, int]], schema: StructType, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            first, last = cut[number]
            yield from rows_of(options, first, last, schema)


def rows_of(options: Mapping[str, str], start: int, end: int, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield some rows of a table, with exactly the types that Spark expects."""
    wanted = frames.arrow_schema(schema)
    for batch in Settings(options).table.rows(start, end):
        yield batch.cast(wanted)


class Settings:
    """The options of a source, checked."""

    NAMES = ("workload", "table", "rows", "seed", "form", "start", "partitions", "rowsPerBatch", "rowsPerSecond")

    def __init__(self, options: Mapping[str, str]) -> None:
        known = {name.lower(): name for name in self.NAMES}
        for key in options:
            if key.lower() not in known:
                raise EarmarkError(f"{FORMAT} has no option {key!r}: it has {', '.join(self.NAMES)}")
        given = {known[key.lower()]: value for key, value in options.items()}
        for name in ("workload", "table"):
            if name not in given:
                raise EarmarkError(f"{FORMAT} needs the option {name!r}")
        self.rows = _number(given, "rows", 0)
        self.start = _number(given, "start", 0) or 0
        self.partitions = _number(given, "partitions", 1)
        self.per_batch = _number(given, "rowsPerBatch", 1)
        self.per_second = _number(given, "rowsPerSecond", 1)
        self.table = blocks.find(given["workload"], given["table"], _number(given, "seed", 0), given.get("form"))

    def check(self, stream: bool) -> None:
        """Raise for options that only batches or only streams take."""
        if stream:
            return
        if self.rows is None:
            raise EarmarkError(f"{FORMAT} needs the option 'rows', except as a stream")
        for name, value in (("rowsPerBatch", self.per_batch), ("rowsPerSecond", self.per_second)):
            if value is not None:
                raise EarmarkError(f"the option {name!r} of {FORMAT} is for streams only")

    def pieces(self) -> list[tuple[int, int]]:
        """Return the pieces of a batch."""
        count = self.partitions or -(-(self.rows or 0) // ROWS_PER_PARTITION)
        return pieces(self.start, self.end, max(count, 1), self.table.size)

    @property
    def end(self) -> int:
        """The number of the row after the last."""
        return ENDLESS if self.rows is None else self.start + self.rows


def _number(options: Mapping[str, str], name: str, least: int) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not least <= int(text) < ENDLESS:
        raise EarmarkError(f"option {name!r} of {FORMAT}: expected an integer from {least} up, got {text!r}")
    return int(text)


def pieces(start: int, end: int, count: int, block: int) -> list[tuple[int, int]]:
    """Return the rows in at most `count` pieces of about one size, cut between blocks if pieces are larger."""
    if start >= end:
        return []
    step = -(-(end - start) // count)
    if step > block:
        step = -(-step // block) * block
    return [(first, min(first + step, end)) for first in range(start, end, step)]
