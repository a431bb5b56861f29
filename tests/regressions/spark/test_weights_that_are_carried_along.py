"""A column of weights other than doubles that was also carried along came back with another type than its own."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from earmark.spark import Snapshot, match

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_weights_of_every_type(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("a", "x > 1")], "id string, condition string").coalesce(1)
    snapshot = Snapshot.publish(frame, tmp_path / "book")
    events = spark.sql("SELECT 2 AS x, map('x', 4.5BD) AS exact, map('x', 3) AS whole").coalesce(1)
    for name, value in (("exact", Decimal("4.5")), ("whole", 3)):
        (row,) = match(events, snapshot, columns=[name], weights=name).collect()
        assert (row[name], row["score"]) == ({"x": value}, float(value))
