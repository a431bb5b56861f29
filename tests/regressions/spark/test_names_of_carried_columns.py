"""Columns named as a shuffle named its own were overwritten, or raised an error of Spark's, as did a backtick."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from earmark import EarmarkError
from earmark.spark import Snapshot, match

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NAMES = ["__place", "__event", "__sequence", "event", "Place", "rank", "sequence", "we`ird", "c1", "a.b"]


@pytest.fixture(scope="module")
def snapshot(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    frame = spark.createDataFrame([("x", "a > 0"), ("y", "a > 2")], "id string, condition string")
    return Snapshot.publish(frame, Path(tmp_path_factory.mktemp("names")) / "s", shards=2)


@pytest.mark.parametrize("k", [None, 2])
def test_any_name_is_carried(spark: SparkSession, snapshot: Snapshot, k: int | None) -> None:
    rows = [(1, *range(700, 700 + len(NAMES))), (5, *range(800, 800 + len(NAMES)))]
    events = spark.createDataFrame(rows, ["a", *NAMES])
    local, shuffled = (match(events, snapshot, k, columns=NAMES, route=route) for route in ("local", "shuffle"))
    assert shuffled.schema == local.schema
    found = sorted(map(tuple, shuffled.collect()))
    assert found == sorted(map(tuple, local.collect()))
    assert {row[: len(NAMES)] for row in found} == {row[1:] for row in rows}


@pytest.mark.parametrize("route", ["local", "shuffle"])
def test_a_name_twice(spark: SparkSession, snapshot: Snapshot, route: str) -> None:
    events = spark.createDataFrame([(0, 1)], "row int, a int")
    with pytest.raises(EarmarkError, match="columns name 'row' twice"):
        match(events, snapshot, columns=["row", "row"], route=route)
