"""Every workload as a DataFrame, at any scale: the data source `earmark.workload`.

    register_sources(spark)
    spark.read.format("earmark.workload").options(workload="ads", table="events", rows=1_000_000).load()
    spark.readStream.format("earmark.workload").options(workload="ads", table="events", rowsPerSecond=500).load()

| option        | meaning                                                                                             |
|---------------|-----------------------------------------------------------------------------------------------------|
| workload      | a name in `earmark.workload.blocks.TABLES`                                                          |
| table         | subscriptions or events                                                                             |
| rows          | number of rows; needed in batch, and for a stream that is to end                                    |
| seed, form    | the table's own by default                                                                          |
| start         | the first row, 0 by default: other parts of one endless table                                       |
| partitions    | number of partitions; one per 50,000 rows by default (streams: 2)                                   |
| rowsPerBatch  | streams: most rows per micro-batch                                                                  |
| rowsPerSecond | streams: rate at which rows become available; the clock starts with the query, also on a restart    |

Rows depend on workload, table, seed and form alone, not on partitions, batches, rate or restarts (see
`earmark.workload.blocks`). A stream's offset is the number of the next row. With the trigger `availableNow` all rows
are available, whatever the rate.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from earmark.errors import EarmarkError
from earmark.spark.book_source import BookSource
from earmark.spark.workloads import FORMAT, Settings, pieces, rows_of

STREAM_PARTITIONS = 2
Offset = dict[str, int]


def register_sources(spark: SparkSession) -> None:
    """Make `format("earmark.workload")` and `format("earmark.book")` known to a session."""
    spark.dataSource.register(WorkloadSource)
    spark.dataSource.register(BookSource)


class WorkloadSource(DataSource):
    """The data source. Spark pickles it, to plan and to read elsewhere."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `format` takes."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the table's columns."""
        schema: StructType = from_arrow_schema(Settings(self.options).table.schema)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        return BatchReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a stream."""
        return StreamReader(self.options, schema)


@dataclass
class Rows(InputPartition):
    """Rows start … end - 1."""

    start: int
    end: int


class _Reading:
    """What both readers share: reading the rows of a piece."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = dict(options)
        self.schema = schema

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Return the rows of a piece."""
        return rows_of(self.options, partition.start, partition.end, self.schema)


class BatchReader(_Reading, DataSourceReader):
    """All rows at once."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return the pieces of the table."""
        settings = Settings(self.options)
        settings.check(stream=False)
        return [Rows(*piece) for piece in settings.pieces() or [(0, 0)]]


class StreamReader(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Rows as they become available."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self.settings = Settings(options)
        self.clock: tuple[int, float] | None = None
        self.all_now = False

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent to the readers: not the table, whose functions cannot be pickled."""
        return {"options": self.options, "schema": self.schema}

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's names from here on
        """Return where a new query begins."""
        return {"row": self.settings.start}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the size of a micro-batch."""
        return ReadAllAvailable() if self.settings.per_batch is None else ReadMaxRows(self.settings.per_batch)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Return where the next micro-batch ends."""
        row = start["row"]
        end = max(self._available(row), row)
        if isinstance(limit, ReadMaxRows):
            end = min(end, row + limit.max_rows)
        return {"row": end}

    def _available(self, row: int) -> int:
        settings = self.settings
        if settings.per_second is None or self.all_now:
            if settings.rows is None and settings.per_batch is None:
                raise EarmarkError("an endless stream needs the option 'rowsPerSecond' or 'rowsPerBatch'")
            return settings.end
        self.clock = self.clock or (row, time.monotonic())
        begun, since = self.clock
        return min(begun + int((time.monotonic() - since) * settings.per_second), settings.end)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Return the rows that are available now."""
        if self.settings.rows is None and self.clock is None:
            return None
        return {"row": self._available(self.clock[0] if self.clock else self.settings.start)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Make all rows available from now on."""
        if self.settings.rows is None:
            raise EarmarkError("a stream with the trigger availableNow needs the option 'rows', its number of rows")
        self.all_now = True

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the pieces of a micro-batch."""
        count = self.settings.partitions or STREAM_PARTITIONS
        return [Rows(*piece) for piece in pieces(start["row"], end["row"], count, self.settings.table.size)]
