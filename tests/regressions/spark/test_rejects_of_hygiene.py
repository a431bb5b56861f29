"""With `on_error="reject"` an audit and a merge lost rows without a word."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from earmark.spark import audit, merge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_an_audit_tells_of_them(spark: SparkSession) -> None:
    data = [(1, "x > 1", 1), (2, "x >", 2), (3, "x > 2", 3), (1, "x > 9", 4), (None, "x > 5", 5)]
    frame = spark.createDataFrame(data, "id long, condition string, rank int")
    found = audit(frame, order_by="rank", on_error="reject")
    rows = [tuple(row) for row in found.collect()]
    assert [row[:4] for row in rows if row[0] != "rejected"] == [("covered", 3, 1, None)]
    rejected = {row[1]: row[4] for row in rows if row[0] == "rejected"}
    assert rejected.keys() == {1, 2, None}
    assert "given twice" in rejected[1]
    assert "the id is NULL" in rejected[None]
    assert all(row[2] is None and row[3] is None for row in rows if row[0] == "rejected")


def test_an_audit_of_nothing_but_rejects(spark: SparkSession) -> None:
    found = audit(spark.createDataFrame([("a", "x >")], "id string, condition string"), on_error="reject")
    assert [row[:2] for row in found.collect()] == [("rejected", "a")]


def test_a_merge_tells_of_them(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("a", "x > 1"), ("b", "x >"), ("c", "y > 2")], "id string, condition string")
    sample = spark.createDataFrame([(1, 2), (3, 4)], "x int, y int")
    made = merge(frame, 0.1, sample, on_error="reject", working=tmp_path)
    ((one, condition, reason),) = made.rejects.select("id", "condition", "reason").collect()
    assert (one, condition) == ("b", "x >")
    assert reason
    assert (made.before, made.rejected) == (2, 1)
    assert "1 rejected row, which" in str(made)
    good = merge(frame.where("id <> 'b'"), 0.1, sample, working=tmp_path)
    assert good.rejects.count() == good.rejected == 0
    assert "reject" not in str(good)
