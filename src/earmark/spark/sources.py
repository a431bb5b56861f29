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
are available, whatever the rate. Streams need Spark 4.2 (workload_stream.py), all else needs 4.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from earmark.spark.book_source import BookSource
from earmark.spark.workloads import FORMAT, Settings, rows_of, stream_source


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
        reader: DataSourceStreamReader = stream_source().StreamReader(self.options, schema)
        return reader


@dataclass
class Rows(InputPartition):
    """Rows start … end - 1."""

    start: int
    end: int


class Reading:
    """What the readers of batches and of streams share: reading the rows of a piece."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = dict(options)
        self.schema = schema

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Return the rows of a piece."""
        return rows_of(self.options, partition.start, partition.end, self.schema)


class BatchReader(Reading, DataSourceReader):
    """All rows at once."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return the pieces of the table."""
        settings = Settings(self.options)
        settings.check(stream=False)
        return [Rows(*piece) for piece in settings.pieces() or [(0, 0)]]
