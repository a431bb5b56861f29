"""A listener gets the figures of every micro-batch, of `match` and of `stream`."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from earmark.spark import MatchListener, Snapshot, match, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from earmark.spark.listener import Figures

pytestmark = pytest.mark.spark


def test_figures(spark: SparkSession, tmp_path: Path) -> None:
    rules = [("a", "x > 1"), ("b", "x > 2"), ("c", "x > 99")]
    book = spark.createDataFrame(rules, "id string, condition string").coalesce(1)
    snapshot = Snapshot.publish(book, tmp_path / "book", shards=2)
    rows = [(n, n, datetime(2026, 1, 1)) for n in range(4)]
    spark.createDataFrame(rows, "event int, x int, time timestamp").coalesce(1).write.parquet(str(tmp_path / "in"))
    arriving = spark.readStream.schema("event int, x int, time timestamp").parquet(str(tmp_path / "in"))
    figures: list[Figures] = []
    listener = MatchListener(figures.append, metrics="ads")
    spark.streams.addListener(listener)
    try:
        now = {"availableNow": True}
        found = match(arriving.withWatermark("time", "1 day"), snapshot, 1, metrics="ads")
        query = found.writeStream.format("noop").queryName("plain").option("checkpointLocation", str(tmp_path / "c"))
        query.trigger(**now).start().awaitTermination(120)
        running = stream(
            arriving, snapshot, tmp_path / "hits", tmp_path / "notes", k=1, event_time="time", name="own", trigger=now
        )
        running.await_end(120)
        until = time.monotonic() + 30
        while {one.query for one in figures} != {"plain", "own"} and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        spark.streams.removeListener(listener)
    by_query = {one.query: one for one in figures if one.events}
    assert set(by_query) == {"plain", "own"}
    for one in by_query.values():
        assert (one.batch, one.events, one.rejected, one.matches) == (0, 4, 0, 2)
        assert one.candidates is not None and one.candidates >= 2
        assert one.shards_met is not None and 0.5 <= one.shards_met <= 2
        assert one.lag is not None and one.lag > 24 * 3600
