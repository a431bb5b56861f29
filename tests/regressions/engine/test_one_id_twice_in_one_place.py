"""Of two rows with one id and one place in the order, the one that counted hung on the random names of parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from earmark.spark import Snapshot, match

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

TIMES = 3
IDS = 8
CONDITIONS = ("concat('a > ', n) AS condition", "map('a', 1D + n) AS weights")
RANGES = ("array(named_struct('attribute', 'a', 'lo', IF(n = 1, 5, NULL), 'hi', IF(n = 1, NULL, 5))) AS ranges",)


def spread(frame: DataFrame, time: int) -> DataFrame:
    """The same rows: those of an id in one partition, in this order or in the other, or each in another one."""
    return frame.orderBy("n", ascending=time == 0).coalesce(1) if time < 2 else frame.repartition(3, "n")


@pytest.mark.parametrize("columns", [CONDITIONS, RANGES])
def test_the_same_rows_give_the_same_version(spark: SparkSession, tmp_path: Path, columns: tuple[str, ...]) -> None:
    frame = spark.range(2 * IDS).selectExpr("id div 2 AS id", "id % 2 AS n").selectExpr("*", *columns)
    events = spark.createDataFrame([(1,), (9,)], "a int").coalesce(1)
    found = set()
    for time in range(TIMES):
        snapshot = Snapshot.publish(spread(frame, time), tmp_path / f"s{time}", on_error="reject")
        assert len(snapshot) == snapshot.info.rejected == IDS
        found.add(tuple(tuple(row) for row in match(events, snapshot).collect()))
    assert len(found) == 1


def test_the_same_changes_give_the_same_version(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(f"s{i}", f"a > {n}", op, n) for i in range(IDS) for n, op in enumerate(("upsert", "upsert", "remove"))]
    frame = spark.createDataFrame(rows, "id string, condition string, op string, n int")
    first = spark.createDataFrame([(f"s{i}", "a > 20") for i in range(0, IDS, 2)], "id string, condition string")
    events = spark.createDataFrame([(n,) for n in range(3)], "a int").coalesce(1)
    found = set()
    for time in range(TIMES):
        snapshot = Snapshot.publish(first.coalesce(1), tmp_path / f"s{time}")
        snapshot = snapshot.apply(spread(frame, time), on_error="reject")
        found.add(tuple(tuple(row) for row in match(events, snapshot).collect()))
    assert len(found) == 1
