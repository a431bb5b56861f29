"""A score or a weight of text was cast: NULL, and so 0 or 1, without ANSI mode; with it, the end of a publication."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from earmark import EventError, SubscriptionError
from earmark.spark import Snapshot, match

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(params=["true", "false"])
def ansi(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield
    spark.conf.set("spark.sql.ansi.enabled", before or "true")


@pytest.mark.usefixtures("ansi")
@pytest.mark.parametrize("on_error", ["fail", "reject"])
@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("'abc' AS score", "expected numbers in the column 'score', got string"),
        ("true AS score", "expected numbers in the column 'score', got boolean"),
        ("map('x', 'abc') AS weights", "expected maps of strings to numbers in the column 'weights', got map<string,"),
        ("map(1, 0.5) AS weights", "expected maps of strings to numbers in the column 'weights', got map<int,"),
    ],
)
def test_refused_by_the_schema(spark: SparkSession, tmp_path: Path, column: str, said: str, on_error: str) -> None:
    frame = spark.sql(f"SELECT 'a' AS id, 'x > 1' AS condition, {column}")
    with pytest.raises(SubscriptionError, match=said):
        Snapshot.publish(frame, tmp_path / "book", on_error=on_error)
    assert not (tmp_path / "book").exists()
    good = Snapshot.publish(frame.select("id", "condition"), tmp_path / "good")
    with pytest.raises(SubscriptionError, match=said):
        good.apply(frame.selectExpr("*", "'upsert' AS op"), on_error=on_error)


@pytest.mark.usefixtures("ansi")
def test_numbers_of_every_type(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT 'a' AS id, 'x > 1' AS condition, 2 AS score, map('x', 0.5) AS weights")
    frame = frame.unionByName(spark.sql("SELECT 'b' AS id, 'x > 1' AS condition, NULL AS score, NULL AS weights"))
    snapshot = Snapshot.publish(frame.coalesce(1), tmp_path / "book")
    events = spark.sql("SELECT 2 AS x, map('x', 4.0BD) AS w, map('x', 'abc') AS wrong").coalesce(1)
    found = {row["subscription"]: row["score"] for row in match(events, snapshot).collect()}
    assert found == {"a": 2.5, "b": 1.0}
    found = {row["subscription"]: row["score"] for row in match(events, snapshot, weights="w").collect()}
    assert found == {"a": 4.0, "b": 4.0}
    with pytest.raises(EventError, match="expected numbers in the column of weights 'wrong', got map<string,string>"):
        match(events, snapshot, weights="wrong")
