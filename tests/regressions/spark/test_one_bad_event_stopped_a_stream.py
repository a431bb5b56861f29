"""An interval upside down, bytes that are not UTF-8, a third decimal, a date that is none: one such event made a query
fail, and a stream fail for good; and the message called it "event 0"."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from earmark import EarmarkError
from earmark.spark import Snapshot, count_matches, match, read_matches, read_rejected, rejected, stream
from earmark.spark.sentences import sentence_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "id int, x struct<lo:int, hi:int>, s string, d decimal(9,3), day string, w map<string,double>"
EVENTS = """
SELECT 1 AS id, named_struct('lo', 1, 'hi', 5) AS x, 'a' AS s, 1.00BD AS d, '2024-01-01' AS day, map('s', 2D) AS w
UNION ALL SELECT 2, named_struct('lo', 5, 'hi', 1), 'a', 1.00BD, '2024-01-01', NULL
UNION ALL SELECT 3, named_struct('lo', 1, 'hi', 5), CAST(X'61ff' AS STRING), 1.00BD, '2024-01-01', NULL
UNION ALL SELECT 4, named_struct('lo', 1, 'hi', 5), 'a', 1.005BD, '2024-01-01', NULL
UNION ALL SELECT 5, named_struct('lo', 1, 'hi', 5), 'a', 1.00BD, '2024-13-01', NULL
UNION ALL SELECT 6, named_struct('lo', 1, 'hi', 5), 'a', 1.00BD, '2024-01-01', map('s', -1D)
"""
REASONS = {
    2: ("x", "the interval of 'x' is empty: 5 is above 1"),
    3: ("s", "a value for 's' cannot be read: 'utf-8' codec can't decode byte 0xff"),
    4: ("d", "expected a decimal(9,2) for 'd', got Decimal('1.005'), which does not fit without rounding"),
    5: ("day", "expected a date such as '2024-02-29' for 'day', got '2024-13-01'"),
    6: (None, "the weight of 's' must be finite and not negative, got -1.0"),
}


@pytest.fixture(scope="module")
def snapshot(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    rows = [("x", "x > 2"), ("s", "s = 'a'"), ("d", "d = 1.00"), ("day", "day = DATE '2024-01-01'"), ("n", "s IS NULL")]
    attributes = {"d": "decimal(9,2)", "day": "date"}
    folder = tmp_path_factory.mktemp("bad") / "book"
    return Snapshot.publish(spark.createDataFrame(rows, "id string, condition string"), folder, attributes=attributes)


@pytest.fixture(scope="module")
def events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    folder = str(tmp_path_factory.mktemp("bad") / "events")
    spark.sql(EVENTS).coalesce(1).write.parquet(folder)
    return spark.read.schema(SCHEMA).parquet(folder)


def found(frame: DataFrame) -> dict[int, set[str]]:
    by_event: dict[int, set[str]] = {}
    for row in frame.select("id", "subscription").collect():
        by_event.setdefault(row[0], set()).add(row[1])
    return by_event


def reasons(frame: DataFrame) -> dict[int, tuple[Any, str]]:
    return {row["id"]: (row["attribute"], row["reason"]) for row in frame.collect()}


def check_reasons(frame: DataFrame) -> None:
    said = reasons(frame)
    assert said.keys() == REASONS.keys()
    for event, (attribute, reason) in REASONS.items():
        assert said[event][0] == attribute
        assert said[event][1].startswith(reason)


WHOLE = {"x", "s", "d", "day"}
AS_NULL = {1: WHOLE, 2: WHOLE - {"x"}, 3: WHOLE - {"s"} | {"n"}, 4: WHOLE - {"d"}, 5: WHOLE - {"day"}}


def test_each_way(events: DataFrame, snapshot: Snapshot) -> None:
    options: dict[str, Any] = {"columns": ["id"], "weights": "w"}
    assert found(match(events, snapshot, on_error="reject", **options)) == {1: WHOLE}
    assert found(match(events, snapshot, 9, on_error="null", **options)) == AS_NULL
    assert found(match(events, snapshot, on_error="null", route="shuffle", **options)) == AS_NULL
    check_reasons(rejected(events, snapshot, **options))
    assert count_matches(events, snapshot, on_error="reject").collect()[0].asDict() == {
        "events": 6,
        "rejected": 4,
        "matches": 8,
    }
    with pytest.raises(EarmarkError, match="expected 'raise', 'null' or 'reject' for on_error, got 'drop'"):
        match(events, snapshot, on_error="drop")  # type: ignore[arg-type]


def test_the_event_is_named(events: DataFrame, snapshot: Snapshot) -> None:
    with pytest.raises(Exception) as caught:
        match(events.where("id = 5"), snapshot, columns=["id", "day"]).collect()
    assert str(sentence_of(caught.value)) == (
        "event (id=5, day='2024-13-01'): expected a date such as '2024-02-29' for 'day', got '2024-13-01'"
    )


def test_a_stream_goes_on(spark: SparkSession, events: DataFrame, snapshot: Snapshot, tmp_path: Path) -> None:
    files = events.inputFiles()[0].rsplit("/", 1)[0]
    arriving = spark.readStream.schema(SCHEMA).parquet(files)
    options: dict[str, Any] = {"columns": ["id"], "weights": "w", "trigger": {"availableNow": True}}
    sink = tmp_path / "sink"
    running = stream(arriving, snapshot.path, sink, tmp_path / "checkpoint", on_error="reject", **options)
    assert running.await_end(60)
    assert found(read_matches(spark, sink)) == {1: WHOLE}
    check_reasons(read_rejected(spark, sink))
    (report,) = running.reports()
    assert (report.rows, report.matches, report.rejected) == (6, 4, 5)
    assert "5 rejected" in str(report)

    seen: list[Any] = []
    running = stream(
        arriving,
        snapshot,
        lambda matches, batch: seen.extend([found(matches), reasons(batch.rejected).keys()]),
        tmp_path / "other",
        on_error="null",
        **options,
    )
    assert running.await_end(60)
    assert seen == [AS_NULL, REASONS.keys()]
    running = stream(arriving, snapshot.path, tmp_path / "third", tmp_path / "c3", **options)
    with pytest.raises(EarmarkError, match=r"^event \(id=\d\): "):
        running.await_end(60)
    with pytest.raises(EarmarkError, match="keeps no rejected events: on_error was 'raise'"):
        read_rejected(spark, tmp_path / "third")
