"""`merge` used `DataFrame.toArrow`, which Spark 3.5 does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame

from earmark.spark import merge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_without_it(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(DataFrame, "toArrow")
    monkeypatch.delattr(type(spark.range(1)), "toArrow", raising=False)
    rules = spark.createDataFrame([("a", "x > 1"), ("b", "x > 2")], "id string, condition string").coalesce(1)
    sample = spark.sql("SELECT id AS x, map('k', 'v') AS more, TIMESTAMP '2026-01-01' AS t FROM range(50)")
    fewer = merge(rules, 0.1, sample)
    assert (fewer.before, fewer.after) == (2, 1)
    assert fewer.held_back.wanted > 0
    assert merge(rules, 0.1, sample.limit(0)).after == 1
