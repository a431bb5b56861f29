"""`columns=5` and `with_columns=None` were answered with a bare TypeError; a wrong `at` passed, as in a Matcher."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f

from earmark import EarmarkError
from earmark.spark import Snapshot, backtest, count_matches, match, register, rejected, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a", "x > 1")], "id string, condition string").coalesce(1)


@pytest.fixture
def snapshot(frame: DataFrame, tmp_path: Path) -> Snapshot:
    return Snapshot.publish(frame, tmp_path / "s")


def test_lists_of_names(spark: SparkSession, frame: DataFrame, snapshot: Snapshot, tmp_path: Path) -> None:
    events = spark.range(3).selectExpr("id AS x")
    arriving = spark.readStream.schema("x bigint").parquet(str(tmp_path))
    places = (arriving, snapshot, tmp_path / "hits", tmp_path / "notes")
    wrong: list[Any] = [5, "x", b"x", [5], [None], f.col("x")]
    for names in wrong:
        with pytest.raises(EarmarkError, match="expected a list of strings for columns, got"):
            match(events, snapshot, columns=names)
        with pytest.raises(EarmarkError, match="expected a list of strings for columns, got"):
            stream(*places, columns=names)
    for names in [None, *wrong]:
        with pytest.raises(EarmarkError, match="expected a list of strings for with_columns, got"):
            match(events, snapshot, with_columns=names)
        with pytest.raises(EarmarkError, match="expected a list of strings for with_columns, got"):
            stream(*places, with_columns=names)
        with pytest.raises(EarmarkError, match="expected a list of strings for payload, got"):
            Snapshot.publish(frame, tmp_path / "other", payload=names)
    with pytest.raises(EarmarkError, match="expected a list of strings for columns, got 5"):
        backtest("x > 1", events, columns=wrong[0])
    assert sorted(one.name for one in tmp_path.iterdir()) == ["s"]


def test_times(spark: SparkSession, snapshot: Snapshot) -> None:
    events = spark.range(3).selectExpr("id AS x")
    searches: list[Any] = [match, count_matches, rejected, lambda events, _, at: backtest("x > 1", events, at=at)]
    for at in ("soon", float("nan"), 5, ["2026-03-01"]):
        for search in searches:
            with pytest.raises(EarmarkError, match=r"expected a moment such as .* for `at`, got"):
                search(events, snapshot, at=at)
        with pytest.raises(EarmarkError, match=r"expected a moment such as .* for `at`, got"):
            register(spark, snapshot, at=at)  # type: ignore[arg-type]
