"""Backtests on Spark: counts and shares are those of a Matcher, and samples do not depend on how the events lie."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.oracle import generate
from tests.spark.books import Row, book_frame, event_frame, events, matcher_of, subscriptions
from tests.spark.common import kept

import earmark
from earmark.spark import backtest
from earmark.spark.hygiene.backtesting import LeastKeys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

BOOK, EVENTS = 60, 300


def told(frame: DataFrame) -> dict[Any, tuple[Any, ...]]:
    rows = [tuple(row) for row in frame.collect()]
    assert len({row[0] for row in rows}) == len(rows)
    return {row[0]: row[1:] for row in rows}


def matched(rows: list[Row], given: list[Row]) -> dict[str, set[int]]:
    """The events that each subscription matches, by a Matcher."""
    found: dict[str, set[int]] = {row["id"]: set() for row in rows}
    for row in matcher_of(rows, attributes=generate.SCHEMA).match_many(given).to_pylist():
        found[row["subscription"]].add(row["event"])
    return found


def test_counts_of_a_book_of_every_kind(spark: SparkSession, tmp_path: Path) -> None:
    rows, given = subscriptions("backtest", BOOK), events("backtest", EVENTS)
    wanted = matched(rows, given)
    samples = []
    for partitions in (1, 4):
        frame = event_frame(spark, given, partitions)
        options = {"attributes": generate.SCHEMA, "working": tmp_path, "columns": ["row", "i0"]}
        found = told(backtest(book_frame(spark, rows), frame, sample=4, **options))
        assert found.keys() == wanted.keys()
        for one, (matches, share, sample) in found.items():
            assert (matches, share) == (len(wanted[one]), len(wanted[one]) / EVENTS)
            assert len(sample) == min(4, matches) == len({event["row"] for event in sample})
            assert {event["row"] for event in sample} <= wanted[one]
            assert all(event["i0"] == given[event["row"]].get("i0") for event in sample)
        samples.append({one: sample for one, (_, _, sample) in found.items()})
    assert samples[0] == samples[1]


def test_without_a_sample(spark: SparkSession) -> None:
    rows, given = subscriptions("backtest", BOOK), events("backtest", EVENTS)
    found = backtest(book_frame(spark, rows), event_frame(spark, given), sample=0, attributes=generate.SCHEMA)
    assert found.columns == ["subscription", "matches", "share"]
    assert {one: row[0] for one, row in told(found).items()} == {o: len(e) for o, e in matched(rows, given).items()}


def test_one_condition_counts_what_spark_keeps(spark: SparkSession) -> None:
    frame = event_frame(spark, events("backtest", EVENTS))
    condition = "i0 > 2 OR s0 IS NULL"
    found = told(backtest(condition, frame, columns=["row"]))
    (wanted,) = kept(frame, [condition])
    assert found.keys() == {"condition"}
    assert found["condition"][0] == len(wanted)


@pytest.mark.parametrize(
    ("candidates", "ids"),
    [
        (["x > 1", "x > 2"], {0: 2, 1: 1}),
        ([("a", "x > 1"), ("b", "x > 7")], {"a": 2, "b": 0}),
        ({5: "x = 1", 6: "TRUE"}, {5: 1, 6: 3}),
    ],
)
def test_candidates_come_in_several_forms(spark: SparkSession, candidates: Any, ids: dict[Any, int]) -> None:
    frame = spark.createDataFrame([(1,), (2,), (3,)], "x int")
    assert {one: row[0] for one, row in told(backtest(candidates, frame)).items()} == ids


def test_no_events(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "x int")
    assert told(backtest(["x > 1", "x > 2"], frame)) == {0: (0, None, []), 1: (0, None, [])}


def test_nested_columns_are_shown(spark: SparkSession) -> None:
    schema = "user struct<age: int, name: string>, tags map<string, string>, seen array<int>"
    rows = [((30, "a"), {"k": "v"}, [1, None]), ((10, None), {}, None), ((40, "b"), None, [])]
    found = told(backtest("`user.age` > 20", spark.createDataFrame(rows, schema)))
    matches, _, sample = found["condition"]
    assert matches == 2
    assert sorted(tuple(map(str, event)) for event in sample) == [
        ("Row(age=30, name='a')", "{'k': 'v'}", "[1, None]"),
        ("Row(age=40, name='b')", "None", "[]"),
    ]


@pytest.mark.parametrize("options", [{"sample": -1}, {"sample": True}, {"columns": []}, {"columns": ["nowhere"]}])
def test_what_cannot_be(spark: SparkSession, options: dict[str, Any]) -> None:
    with pytest.raises(earmark.EarmarkError):
        backtest("x > 1", spark.createDataFrame([(1,)], "x int"), **options)


@pytest.mark.parametrize("candidates", [[("a", 3)], [("a", "x > 1"), (2, "x > 1")], [7], ["x >"]])
def test_candidates_that_cannot_be(spark: SparkSession, candidates: Any) -> None:
    with pytest.raises(earmark.SubscriptionError):
        backtest(candidates, spark.createDataFrame([(1,)], "x int"))


def test_streams_are_refused(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(earmark.EventError, match="past events"):
        backtest("value > 1", stream)


@pytest.mark.parametrize("size", [1, 3])
def test_the_least_keys_are_kept(size: int) -> None:
    """Batch by batch, against sorting everything."""
    random = np.random.default_rng(size)
    mine, seen = LeastKeys(5, size), []
    for _ in range(6):
        keys = random.integers(-50, 50, 20)
        table = pa.table({"key": keys})
        pairs = np.argwhere(random.random((20, 5)) < 0.2)
        mine.offer(table, pairs[:, 0], pairs[:, 1], keys)
        seen += [(c, int(keys[e])) for e, c in pairs.tolist()]
        least = [key for c in range(5) for key in sorted(k for d, k in seen if d == c)[:size]]
        assert mine.key.tolist() == least
        assert mine.rows["key"].to_pylist() == least
