"""The data source `earmark.workload` as a stream: how far a micro-batch reaches, and how its rows are cut.

Apart from sources.py, since Spark has readers of streams with limits and the trigger `availableNow` from 4.2 on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from earmark.errors import EarmarkError
from earmark.spark.sources import Reading, Rows
from earmark.spark.workloads import Settings, pieces

STREAM_PARTITIONS = 2
Offset = dict[str, int]


class StreamReader(Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
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
