"""A watermark that was set before `match` was gone after it: a window in append mode was refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as f

from earmark.spark import Snapshot, match

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_metadata_of_columns_stays(spark: SparkSession, tmp_path: Path) -> None:
    book = spark.createDataFrame([("s", "a > 1")], "id string, condition string")
    snapshot = Snapshot.publish(book, tmp_path / "book")
    rows = "SELECT CAST(id AS INT) AS a, TIMESTAMP '2024-01-01' + make_dt_interval(0, CAST(id AS INT)) AS at FROM "
    spark.sql(f"{rows} range(10)").coalesce(1).write.parquet(str(tmp_path / "events"))
    spark.sql(f"{rows} range(90, 91)").coalesce(1).write.mode("append").parquet(str(tmp_path / "events"))
    events = spark.readStream.schema("a int, at timestamp").option("maxFilesPerTrigger", 1)
    late = events.parquet(str(tmp_path / "events")).withWatermark("at", "1 hour")
    hits = match(late, snapshot, columns=["at"])
    assert hits.schema["at"].metadata == late.schema["at"].metadata != {}
    counted = hits.groupBy(f.window("at", "5 hours")).count().select("window.start", "count")
    query = (
        counted.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination(60)
    closed = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sum(row[1] for row in closed) == 8  # the window of the last event is open
    shuffled = match(
        spark.read.schema("a int").parquet(str(tmp_path / "events")).select(f.col("a").alias("a", metadata={"x": 1})),
        snapshot,
        route="shuffle",
    )
    assert shuffled.schema["a"].metadata == {"x": 1}
