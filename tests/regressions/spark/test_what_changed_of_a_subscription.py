"""The data source did not show life spans and payload: publishing again lost them, and changes of them were unseen."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from earmark import EarmarkError, SubscriptionError
from earmark.spark import Snapshot, match, register_sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FIELDS = "id string, condition string, ends timestamp, url string, parts array<int>"
END = datetime(2990, 1, 1, tzinfo=UTC)
ROWS: list[Any] = [(f"s{n}", "age > 1", END if n < 2 else None, f"u{n}", [n] if n else None) for n in range(5)]


@pytest.fixture(scope="module")
def first(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    register_sources(spark)
    frame = spark.createDataFrame(ROWS, FIELDS).coalesce(1)
    return Snapshot.publish(frame, tmp_path_factory.mktemp("source") / "book", payload=["url", "parts"], time="t")


def read(book: Snapshot, **options: Any) -> DataFrame:
    return reader().options(**options).load(str(book.path))


def reader() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.active().read.format("earmark.book")


def test_published_again(spark: SparkSession, first: Snapshot, tmp_path: Path) -> None:
    listed = read(first, version=1)
    assert listed.columns == [
        *("id", "condition", "score", "weights", "tags", "starts", "ends", "sequence", "url", "parts")
    ]  # fmt: skip
    events = spark.sql("SELECT 5 AS age, TIMESTAMP '2026-01-01' AS t").coalesce(1)
    wanted = [(row["id"], row["tags"]) for row in listed.orderBy("id").select("id", "tags").collect()]
    found = match(events, first, with_columns=["tags", "url"])
    assert sorted((row.subscription, row.tags) for row in found.collect()) == wanted
    again = Snapshot.publish(listed, tmp_path / "again", payload=["url", "parts"], order_by="sequence", time="t")
    ends = again.latest()
    assert {tuple(map(str, row)) for row in read(ends).collect()} == {tuple(map(str, row)) for row in listed.collect()}
    later = events.selectExpr("age", "TIMESTAMP '2991-01-01' AS t")
    assert {row.subscription for row in match(later, again).collect()} == {"s2", "s3", "s4"}


def test_differences(spark: SparkSession, first: Snapshot) -> None:
    changes: list[Any] = [
        ("s0", "age > 1", None, "u0", None, "update"),
        ("s1", "age > 1", END, "another", [1], "update"),
        ("s2", "age > 1", None, "u2", [2], "update"),
        ("s3", None, None, None, None, "remove"),
        ("s9", "age > 1", END, "u9", None, "add"),
    ]
    second = first.apply(spark.createDataFrame(changes, FIELDS + ", op string").coalesce(1))
    rows = read(second, table="differences", version=2).collect()
    assert [(row.change, row.id, row.url, row.parts, row.ends is None) for row in sorted(rows, key=lambda r: r.id)] == [
        ("changed", "s0", "u0", None, True),
        ("changed", "s1", "another", [1], False),
        ("removed", "s3", "u3", [3], True),
        ("added", "s9", "u9", None, False),
    ]
    third = second.compact()
    assert read(third, table="differences").count() == 0
    # a removal needs no payload; anything else does
    fields = "id string, condition string, op string"
    with pytest.raises(SubscriptionError, match="no column 'url', which is in the payload"):
        third.apply(spark.createDataFrame([("s1", None, "remove"), ("s2", "x > 1", "upsert")], fields))
    fourth = third.apply(spark.createDataFrame([("s1", None, "remove")], fields))
    assert {row.id for row in read(fourth).collect()} == {"s0", "s2", "s4", "s9"}


def test_names_that_a_result_has(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("rank", "Subscription", "sequence"):
        frame = spark.createDataFrame([("a", "x > 1", 1)], f"id string, condition string, {name} int").coalesce(1)
        with pytest.raises(SubscriptionError, match=f"payload: a result of match has a column '{name}' of its own"):
            Snapshot.publish(frame, tmp_path / "book", payload=[name])
    with pytest.raises(EarmarkError, match="expected a list of strings for payload, got 'url'"):
        Snapshot.publish(frame, tmp_path / "book", payload="url")


def test_a_killed_worker_in_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.functions import udf

    kill = udf(lambda _: __import__("os")._exit(1), "string")
    frame = spark.range(1).select("id", kill("id").alias("condition"))
    with pytest.raises(EarmarkError, match="a Python worker was killed in the middle of a task"):
        Snapshot.publish(frame, tmp_path / "book")
