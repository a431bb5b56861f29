"""The order of insertion is the same whether the driver or the executors find it; so is everything that follows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from earmark.spark import Snapshot, intake, match, ordering

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def told(events: DataFrame, snapshot: Snapshot) -> tuple[Any, ...]:
    """What can be seen of a version: its matches in order, and its rejects."""
    found = [tuple(row)[1:3] for row in match(events, snapshot, with_columns=["note"]).collect()]
    best = [tuple(row)[1:3] for row in match(events, snapshot, 4, columns=["x"]).collect()]
    return found, best, sorted(map(tuple, snapshot.rejects.collect()), key=repr), len(snapshot)


@pytest.mark.parametrize(("shards", "order_by"), [(1, None), (3, "turn")])
def test_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: int, order_by: str | None
) -> None:
    rows = [(n % 37, f"x >= {n % 5}" if n % 11 else "x >=", (7 * n) % 41 / 4, f"note {n}") for n in range(60)]
    frame = spark.createDataFrame(rows, "id int, condition string, turn double, note string").repartition(3)
    options: Any = {"shards": shards, "order_by": order_by, "on_error": "reject", "payload": ["note"]}
    events = spark.createDataFrame([(3,)], "x int").coalesce(1).cache()
    by_driver = Snapshot.publish(frame, tmp_path / "driver", **options)
    wanted = told(events, by_driver)
    assert len(by_driver) == 36
    monkeypatch.setattr(intake, "DRIVER_ROWS", 10)
    monkeypatch.setattr(ordering, "RUN_ROWS", 8)
    monkeypatch.setattr(intake, "in_order", lambda *_: pytest.fail("the driver sorts ids"))
    by_executors = Snapshot.publish(frame, tmp_path / "executors", **options)
    assert told(events, by_executors) == wanted
    assert by_executors.shards == shards
    whole = by_executors.compact(1)
    assert told(events, whole)[:2] == wanted[:2]
    assert whole.shards == 1
