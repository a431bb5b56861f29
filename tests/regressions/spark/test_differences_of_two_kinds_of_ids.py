"""Differences of two versions whose ids are strings and integers ended in a TypeError of a worker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from earmark import EarmarkError
from earmark.spark import Snapshot
from earmark.spark.book_source import BookReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_they_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    book = spark.createDataFrame([("a", "x > 1", "remove")], "id string, condition string, op string")
    snapshot = Snapshot.publish(book.drop("op"), tmp_path / "book").apply(book)
    snapshot.apply(spark.createDataFrame([(1, "x > 2", "add")], "id int, condition string, op string"))
    options = {"path": str(tmp_path / "book"), "table": "differences"}
    columns = spark.createDataFrame([(1,)], "id long").schema
    assert len(BookReader(options, columns).partitions()) == 1
    with pytest.raises(EarmarkError, match="ids of version 1 are strings, and those of version 3 integers"):
        BookReader({**options, "since": "1"}, columns).partitions()
