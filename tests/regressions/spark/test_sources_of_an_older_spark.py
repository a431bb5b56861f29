"""Spark 4.0 and 4.1 have data sources, but not all that a stream of a workload needs: nothing could be registered."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

import earmark
from earmark.spark import workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
LATER = "pyspark.sql.streaming.datasource"
MODULES = [f"earmark.spark.{name}" for name in ("sources", "book_source", "workload_stream")]


def test_all_but_the_stream(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in MODULES:
        if name in sys.modules:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, LATER, None)
    assert import_module("earmark.spark.sources").BookSource.name() == "earmark.book"
    with pytest.raises(earmark.EarmarkError, match="a workload as a stream needs Spark"):
        workload(spark, "ads", "events", stream=True, rowsPerSecond=5)
