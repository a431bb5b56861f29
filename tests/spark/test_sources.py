"""The data source `earmark.workload`: the rows of the generators, however Spark cuts them, in batch and as a stream."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import earmark
from earmark.spark import register_sources, workload
from earmark.spark.workload_stream import StreamReader
from earmark.spark.workloads import ENDLESS, Settings, _older, pieces
from earmark.workload.blocks import find

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def expected(name: str, table: str, start: int, end: int, **options: Any) -> list[dict[str, Any]]:
    blocks = find(name, table, **options)
    rows = pa.Table.from_batches(list(blocks.rows(start, end)), blocks.schema)
    return rows.to_pylist(maps_as_pydicts="strict")  # type: ignore[no-any-return]


def plain(rows: list[Any], key: str) -> list[dict[str, Any]]:
    return sorted((row.asDict(recursive=True) for row in rows), key=lambda row: int(str(row[key]).removeprefix("ad-")))


@pytest.mark.parametrize(
    ("name", "table", "form", "key"),
    [
        ("ads", "subscriptions", "condition", "id"),
        ("ads", "events", "columns", "event"),
        ("skew-90-10", "subscriptions", "ranges", "id"),
        ("w2", "events", "map", "event"),
    ],
)
def test_rows_whatever_the_partitions(spark: SparkSession, name: str, table: str, form: str, key: str) -> None:
    wanted = expected(name, table, 950, 1_075, seed=3, form=form)
    frame = workload(spark, name, table, 125, start=950, seed=3, form=form, partitions=7)
    assert plain(frame.collect(), key) == wanted


def test_by_its_format(spark: SparkSession) -> None:
    register_sources(spark)
    frame = spark.read.format("earmark.workload").options(workload="ads", table="events", ROWS=30).load()
    assert plain(frame.collect(), "event") == expected("ads", "events", 0, 30)
    assert spark.read.format("earmark.workload").options(workload="ads", table="events", rows=0).load().count() == 0


def test_a_bounded_stream(spark: SparkSession, tmp_path: Path) -> None:
    """Batches of the size asked for; it ends, and goes on nowhere when started again."""
    seen: list[list[int]] = []

    def note(batch: Any, number: int) -> None:
        seen.append(sorted(row.event for row in batch.select("event").collect()))

    for _ in range(2):
        frame = workload(spark, "ads", "events", 70, stream=True, rowsPerBatch=30, partitions=2)
        query = (
            frame.writeStream.foreachBatch(note)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    assert seen == [list(range(30)), list(range(30, 60)), list(range(60, 70))]


def test_an_endless_stream_of_some_rate(spark: SparkSession) -> None:
    frame = workload(spark, "ads", "events", stream=True, rowsPerSecond=200)
    query = frame.writeStream.format("memory").queryName("visitors").start()
    begun = time.monotonic()
    while spark.table("visitors").count() < 100 and time.monotonic() - begun < 60:
        time.sleep(0.2)
    query.stop()
    events = sorted(row.event for row in spark.table("visitors").select("event").collect())
    assert len(events) >= 100
    assert events == list(range(len(events)))


# --- without a session ---------------------------------------------------------------------------------------


def reader(**options: Any) -> StreamReader:
    texts = {"workload": "ads", "table": "events", **{name: str(value) for name, value in options.items()}}
    return StreamReader(texts, None)  # type: ignore[arg-type]


def test_offsets() -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    bounded = reader(rows=100, start=50, rowsPerBatch=60)
    assert bounded.initialOffset() == {"row": 50}
    assert bounded.getDefaultReadLimit() == ReadMaxRows(60)
    assert bounded.latestOffset({"row": 50}, ReadMaxRows(60)) == {"row": 110}
    assert bounded.latestOffset({"row": 110}, ReadMaxRows(60)) == {"row": 150}
    assert bounded.latestOffset({"row": 150}, ReadMaxRows(60)) == {"row": 150}
    assert bounded.latestOffset({"row": 50}, ReadAllAvailable()) == {"row": 150}
    slow = reader(rows=100, rowsPerSecond=1)
    assert slow.latestOffset({"row": 0}, ReadAllAvailable()) == {"row": 0}
    slow.prepareForTriggerAvailableNow()
    assert slow.latestOffset({"row": 0}, ReadAllAvailable()) == {"row": 100}
    assert reader(rowsPerBatch=10).latestOffset({"row": 7}, ReadMaxRows(10)) == {"row": 17}
    with pytest.raises(earmark.EarmarkError, match="needs the option 'rows', "):
        reader(rowsPerBatch=10).prepareForTriggerAvailableNow()
    with pytest.raises(earmark.EarmarkError, match="needs the option 'rowsPerSecond' or 'rowsPerBatch'"):
        reader().latestOffset({"row": 0}, ReadAllAvailable())


@pytest.mark.parametrize(("start", "end", "count"), [(0, 0, 3), (0, 7, 3), (5, 100, 4), (3, 1_000, 1), (90, 5_000, 9)])
def test_pieces_are_all_the_rows_once(start: int, end: int, count: int) -> None:
    cut = pieces(start, end, count, 100)
    assert len(cut) <= count
    assert [n for piece in cut for n in range(*piece)] == list(range(start, end))


def test_the_older_way(spark: SparkSession) -> None:
    """Of a Spark without these data sources."""
    options = {"workload": "ads", "table": "events", "rows": "120", "start": "7", "partitions": "3"}
    older = _older(spark, Settings(options), options)
    assert older.collect() == workload(spark, "ads", "events", 120, start=7, partitions=3).collect()


EVENTS = {"workload": "ads", "table": "events"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"table": "events"}, "earmark.workload needs the option 'workload'"),
        ({**EVENTS, "row": "5"}, "has no option 'row': it has workload, table, rows"),
        (
            {"workload": "ads", "table": "events", "rows": "-5"},
            "'rows' of earmark.workload: expected an integer from 0 up",
        ),
        (
            {"workload": "ads", "table": "events", "rows": str(ENDLESS)},
            "'rows' of earmark.workload: expected an integer",
        ),
        (
            {"workload": "ads", "table": "events", "partitions": "0"},
            "'partitions' .* expected an integer from 1 up, got '0'",
        ),
        ({"workload": "ads", "table": "events"}, "needs the option 'rows', except as a stream"),
        (
            {"workload": "ads", "table": "events", "rows": "1", "rowsPerBatch": "5"},
            "for streams only",
        ),
        ({"workload": "ad", "table": "events", "rows": "1"}, "expected a workload, .*, got 'ad'"),
    ],
)
def test_sentences(options: dict[str, str], told: str) -> None:
    with pytest.raises(earmark.EarmarkError, match=told):
        Settings(options).check(stream=False)


def test_the_sentence_passes_through_spark(spark: SparkSession) -> None:
    from earmark.spark.sentences import sentence_of

    register_sources(spark)
    frame = spark.read.format("earmark.workload").options(workload="ads", table="events")
    with pytest.raises(Exception, match="earmark") as problem:
        frame.load().count()
    assert "needs the option 'rows'" in str(sentence_of(problem.value))
