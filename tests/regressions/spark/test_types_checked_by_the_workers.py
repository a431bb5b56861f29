"""A column of the wrong type failed in a worker, with two thousand characters around the reason; a misspelt column was
NULL without a word; the zone of the session was checked although no column held a time."""

from __future__ import annotations

import warnings
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import DecimalType, StructType

from earmark import EarmarkError
from earmark.spark import Snapshot, match

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def snapshot(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    rows = [("a", "number > 1"), ("b", "city = 'Oslo'"), ("c", "yes"), ("d", "day > DATE '2024-01-01'")]
    rows += [
        ("e", "whole = 1"),
        ("f", "real > 0.5"),
        ("t", "t > TIMESTAMP '2024-01-01 00:00:00'"),
        ("n", "any IS NULL"),
    ]
    frame = spark.createDataFrame(rows, "id string, condition string")
    types = {"whole": "integer", "real": "float"}
    return Snapshot.publish(frame, tmp_path_factory.mktemp("types") / "book", attributes=types, zone="Europe/Oslo")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("'1' AS number", "expected a number for 'number' (first used so by subscription 'a': number > 1), got a "
                          "column of type string: cast it to a numeric type"),
        ("array(1) AS number", "got a column of type array<int>"),
        ("named_struct('lo', 1, 'hi', '2') AS number", "got a column of type struct<lo:int,hi:string>"),
        ("1 AS city", "expected a string for 'city'"),
        ("X'00' AS city", "got a column of type binary: cast it to STRING"),
        ("1 AS yes", "expected a boolean for 'yes'"),
        ("TIMESTAMP '2024-01-01' AS day", "expected a date for 'day'"),
        ("1.5BD AS real", "expected a float for 'real' (declared), got a column of type decimal(2,1): declare it as "
                          "number or decimal(p, s)"),
        ("map('number', array(1)) AS e", "got a column of type array<int>"),
    ],
)  # fmt: skip
def test_said_when_the_plan_is_made(spark: SparkSession, snapshot: Snapshot, column: str, message: str) -> None:
    with pytest.raises(EarmarkError) as caught:
        match(spark.sql(f"SELECT {column}"), snapshot, missing="null")
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


def test_void_goes_with_everything(spark: SparkSession, snapshot: Snapshot) -> None:
    found = match(spark.sql("SELECT NULL AS number, NULL AS city, NULL AS any"), snapshot, missing="null").collect()
    assert [row["subscription"] for row in found] == ["n"]


def test_misspelt_columns(spark: SparkSession, snapshot: Snapshot) -> None:
    frame = spark.sql("SELECT 1 AS number, 'Oslo' AS ctiy, true AS yes, 1 AS whole, 1D AS real, 1 AS any")
    said = "the events have no column for the attributes 'city', 'day', 't', so their conditions see NULL"
    with pytest.warns(UserWarning, match=f"{said}: did you mean 'ctiy'"):
        match(frame, snapshot)
    with pytest.raises(EarmarkError, match="allows it"):
        match(frame, snapshot, missing="error")
    with pytest.raises(EarmarkError, match="missing: expected 'null', 'warn' or 'error', got 'ignore'"):
        match(frame, snapshot, missing="ignore")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        match(frame, snapshot, missing="null")


def test_zones_only_where_a_time_is_read(spark: SparkSession, snapshot: Snapshot) -> None:
    assert match(spark.sql("SELECT 2 AS number"), snapshot, missing="null").count() == 2
    with pytest.raises(EarmarkError, match="time zone is 'UTC', but the snapshot reads times such as 't'"):
        match(spark.sql("SELECT 2 AS number, TIMESTAMP '2024-01-01' AS t"), snapshot, missing="null")


def test_decimals_of_every_size(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("a", "n > 1.5"), ("b", "n = 0.1"), ("c", f"n < -{10**20}")]
    snapshot = Snapshot.publish(spark.createDataFrame(rows, "id string, condition string"), tmp_path / "book")
    for precision, scale in ((3, 2), (19, 18), (38, 0), (38, 38)):
        digits = precision - scale
        values = [Decimal(f"{sign}{'9' * digits or '0'}.{'9' * scale}") for sign in ("", "-")]
        values += [Decimal("0.1")] if scale else []
        frame = spark.createDataFrame([(v,) for v in values], StructType().add("n", DecimalType(precision, scale)))
        found = {(row["n"], row["subscription"]) for row in match(frame, snapshot).collect()}
        wanted = {(v, "a") for v in values if v > Decimal("1.5")} | {(v, "b") for v in values if v == Decimal("0.1")}
        wanted |= {(v, "c") for v in values if v < -(10**20)}
        assert found == wanted, (precision, scale)
