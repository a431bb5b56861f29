"""Workers kept readers by folder and version, so a folder that was deleted and published again was answered from the
old book."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from earmark import TableError
from earmark.book.saving import open_for_search
from earmark.spark import Snapshot, match

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_new_book_answers(spark: SparkSession, tmp_path: Path) -> None:
    events = spark.createDataFrame([(1,), (2,)], "a int").coalesce(1)

    def published(condition: str) -> Snapshot:
        return Snapshot.publish(
            spark.createDataFrame([("x", condition)], "id string, condition string"), tmp_path / "s"
        )

    old = published("a = 1")
    assert [row["a"] for row in match(events, old).collect()] == [1]
    shutil.rmtree(tmp_path / "s")
    new = published("a = 2")
    assert new.version == old.version
    assert [row["a"] for row in match(events, new).collect()] == [2]
    with pytest.raises(TableError, match="the folder has been published again; open the book again"):
        open_for_search(old.path, old.version, old.record["checksum"])
