"""A snapshot of integer ids, emptied and compacted into one table, said that its ids are texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from earmark.spark import Snapshot, match

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("kind", "shards", "after"), [("long", 1, 1), ("long", 2, 1), ("long", 1, 2), ("string", 1, 1)]
)
def test_the_kind_stays(spark: SparkSession, tmp_path: Path, kind: str, shards: int, after: int) -> None:
    ids = [1, 2] if kind == "long" else ["1", "2"]
    book = spark.createDataFrame([(one, f"a > {one}") for one in ids], f"id {kind}, condition string").coalesce(1)
    snapshot = Snapshot.publish(book, tmp_path / "s", shards=shards)
    gone = spark.createDataFrame([(one, None, "remove") for one in ids], f"id {kind}, condition string, op string")
    emptied = snapshot.apply(gone.coalesce(1))
    compacted = emptied.compact(after)
    events = spark.createDataFrame([(5,)], "a int")
    for one in (snapshot, emptied, compacted, Snapshot.open(compacted.path)):
        assert match(events, one).schema["subscription"].dataType.simpleString().replace("bigint", "long") == kind
    wide = spark.createDataFrame([(5.5,)], "a double")  # a form of the version derived for these events
    assert match(wide, compacted).schema["subscription"].dataType.simpleString().replace("bigint", "long") == kind
    assert match(wide, compacted).count() == 0
