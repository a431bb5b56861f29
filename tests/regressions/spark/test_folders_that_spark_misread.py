"""The rejects of a book were not found under a folder with a blank, an equals sign or a letter that is not ASCII."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from earmark import EarmarkError
from earmark.spark import Snapshot, audit, match, read_matches, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", ["my ads=1", "100% für alle", "a%20b+c"])
def test_every_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    rules = spark.createDataFrame([("a", "x > 1"), ("b", "x >")], "id string, condition string").coalesce(1)
    snapshot = Snapshot.publish(rules, tmp_path / name, on_error="reject")
    assert [row["id"] for row in snapshot.rejects.collect()] == ["b"]
    events = spark.createDataFrame([(2,)], "x int").coalesce(1)
    assert match(events, snapshot).count() == 1
    events.write.parquet(str(tmp_path / "in"))
    arriving = spark.readStream.schema("x int").parquet(str(tmp_path / "in"))
    places = snapshot.path, tmp_path / f"{name} hits", tmp_path / f"{name} notes"
    stream(arriving, *places, trigger={"availableNow": True}).await_end(120)
    assert read_matches(spark, tmp_path / f"{name} hits").count() == 1


def test_patterns_are_refused_at_the_start(spark: SparkSession, tmp_path: Path) -> None:
    rules = spark.createDataFrame([("a", "x > 1")], "id string, condition string").coalesce(1)
    with pytest.raises(EarmarkError, match=r"has '\[' in it, which Spark would take for a pattern"):
        Snapshot.publish(rules, tmp_path / "ads[1]")
    assert not list(tmp_path.iterdir())
    (tmp_path / "w*").mkdir()
    with pytest.raises(EarmarkError, match=r"has '\*' in it, which Spark would take for a pattern"):
        audit(rules, working=tmp_path / "w*")
    assert not list((tmp_path / "w*").iterdir())
