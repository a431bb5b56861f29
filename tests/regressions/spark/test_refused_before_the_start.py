"""Options that cannot be were noticed late, by errors of Python's, or left folders behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from earmark import EarmarkError, SubscriptionError
from earmark.spark import Snapshot, audit, backtest, match, merge, stream
from earmark.spark.hygiene.backtesting import _frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.mark.parametrize("route", ["local", "shuffle"])
@pytest.mark.parametrize("replicas", [0, True, 1_001, 1.5, "nonsense"])
def test_replicas(route: str, replicas: Any) -> None:
    nobody: Any = None  # the check comes before all else
    with pytest.raises(EarmarkError, match="replicas: expected a number"):
        match(nobody, nobody, route=route, replicas=replicas)


@pytest.mark.parametrize("candidates", [None, 5, b"a > 1", {"a > 1"}])
def test_candidates(candidates: Any) -> None:
    session: Any = None
    with pytest.raises(SubscriptionError, match="candidates: expected a DataFrame"):
        _frame(session, candidates)


@pytest.fixture
def book(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a", "x > 1")], "id string, condition string").coalesce(1)


@pytest.mark.spark
def test_a_stream_with_no_replicas(spark: SparkSession, book: DataFrame, tmp_path: Path) -> None:
    Snapshot.publish(book, tmp_path / "s")
    arriving = spark.readStream.schema("x int").parquet(str(tmp_path))
    with pytest.raises(EarmarkError, match="replicas: expected a number"):
        stream(arriving, tmp_path / "s", tmp_path / "hits", tmp_path / "notes", route="shuffle", replicas=0)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["s"]


@pytest.mark.spark
def test_nothing_is_left_behind(spark: SparkSession, book: DataFrame, tmp_path: Path) -> None:
    events = spark.createDataFrame([(1.5,)], "x double")
    with pytest.raises(EarmarkError, match="expected a number for 'x'"):
        merge(book, 0.1, spark.createDataFrame([("text",)], "x string"), working=tmp_path)
    with pytest.raises(EarmarkError, match="streaming"):
        merge(book, 0.1, spark.readStream.format("rate").load(), working=tmp_path)
    with pytest.raises(EarmarkError, match="homes: expected a number"):
        merge(book, 0.1, events, homes=0, working=tmp_path)
    with pytest.raises(EarmarkError, match="a sample needs columns"):
        backtest("x > 1", events, columns=[], working=tmp_path)
    with pytest.raises(SubscriptionError, match="nothing was backtested"):
        backtest("x >", events, working=tmp_path)
    with pytest.raises(ZeroDivisionError):
        audit(book, on_plan=lambda _: 1 / 0, working=tmp_path)
    assert not list(tmp_path.iterdir())
