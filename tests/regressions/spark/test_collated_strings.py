"""A column with a collation that ignores case was compared by bytes: a silent miss."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from earmark import EarmarkError
from earmark.spark import Snapshot, match

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 'OSLO' COLLATE UTF8_LCASE AS city",
        "SELECT named_struct('city', 'OSLO' COLLATE UTF8_LCASE) AS e",
        "SELECT map('city', 'OSLO' COLLATE UTF8_LCASE) AS e",
    ],
)
def test_they_are_refused_when_the_plan_is_made(spark: SparkSession, tmp_path: Path, query: str) -> None:
    rows = spark.createDataFrame([("x", "city = 'Oslo'")], "id string, condition string")
    snapshot = Snapshot.publish(rows, tmp_path / "s")
    frame = spark.sql(query)
    event = "e" if "e" in frame.columns else None
    with pytest.raises(EarmarkError, match="have the collation UTF8_LCASE, but conditions compare"):
        match(frame, snapshot, event=event)
    plain = spark.sql("SELECT 'Oslo' COLLATE UTF8_BINARY AS city, 'x' COLLATE UTF8_LCASE AS other")
    assert match(plain, snapshot).count() == 1
