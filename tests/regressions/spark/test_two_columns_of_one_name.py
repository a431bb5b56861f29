"""Two columns of one name raised an error of Spark's own, AMBIGUOUS_REFERENCE."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from earmark import EventError, SubscriptionError
from earmark.spark import Snapshot, backtest, match

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def snapshot(spark: SparkSession, tmp_path: Path) -> Snapshot:
    book = spark.createDataFrame([("one", "a > 1")], "id string, condition string")
    return Snapshot.publish(book, tmp_path / "s")


@pytest.mark.parametrize("other", ["a", "A"])
def test_an_attribute_twice(spark: SparkSession, snapshot: Snapshot, other: str) -> None:
    events = spark.sql(f"SELECT 5 AS a, 6 AS {other}, 7 AS event")
    message = f"the events have (two columns for attribute 'a'|the columns 'a' and '{other}', which Spark cannot tell)"
    with pytest.raises(EventError, match=message):
        match(events, snapshot, columns=["event"])
    with pytest.raises(EventError, match=message):
        backtest("a > 1", events)


@pytest.mark.parametrize("other", ["note", "NOTE"])
def test_another_column_twice(spark: SparkSession, snapshot: Snapshot, other: str) -> None:
    events = spark.sql(f"SELECT 5 AS a, 'x' AS note, 'y' AS {other}")
    with pytest.raises(EventError, match=f"the events have the columns 'note' and '{other}', .*; rename one"):
        match(events, snapshot)
    with pytest.raises(EventError, match="rename one"):
        match(events, snapshot, columns=["a", other])
    assert [row["a"] for row in match(events, snapshot, columns=["a"]).collect()] == [5]


def test_a_column_of_events_or_weights_twice(spark: SparkSession, snapshot: Snapshot) -> None:
    events = spark.sql("SELECT map('a', 5) AS payload, map('a', 6) AS payload, 1 AS event")
    with pytest.raises(EventError, match="rename one"):
        match(events, snapshot, event="payload", columns=["event"])
    events = spark.sql("SELECT 5 AS a, map('a', 5D) AS w, map('a', 6D) AS w")
    with pytest.raises(EventError, match="rename one"):
        match(events, snapshot, weights="w", columns=["a"])


def test_names_that_differ_by_case_are_two_where_case_counts(spark: SparkSession, snapshot: Snapshot) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        events = spark.sql("SELECT 5 AS a, 0 AS A, 'x' AS note, 'y' AS NOTE")
        row = match(events, snapshot).first()
        assert row is not None and tuple(row)[:5] == (5, 0, "x", "y", "one")
    finally:
        spark.conf.set("spark.sql.caseSensitive", "false")


@pytest.mark.parametrize(
    "columns", ["1 AS id, 2 AS id, 'a = 1' AS condition", "1 AS id, 2 AS ID, 'a = 1' AS condition"]
)
def test_subscriptions(spark: SparkSession, tmp_path: Path, columns: str) -> None:
    with pytest.raises(SubscriptionError, match="the DataFrame has two columns of one name"):
        Snapshot.publish(spark.sql(f"SELECT {columns}"), tmp_path / "t")
