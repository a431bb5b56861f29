"""Merging on Spark: nothing is lost, everybody is stood for once, and the budget is kept on events held back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.oracle import generate
from tests.spark.books import book_frame, event_frame, events, matcher_of, subscriptions

import earmark
from earmark.spark import Snapshot, match, merge
from earmark.spark.hygiene.merging import MergedFrame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BOXES, EVENTS = 1_500, 9_000


def matched(matcher: earmark.Matcher, given: Any) -> set[tuple[int, Any]]:
    table = matcher.match_many(given)
    return set(zip(table["event"].to_pylist(), table["subscription"].to_pylist(), strict=True))


def check(made: MergedFrame, before: earmark.Matcher, given: Any, **options: Any) -> tuple[int, int]:
    """Everybody is stood for by a condition that takes all it takes; (events wanted, events taken) of those given."""
    rows = [row.asDict() for row in made.conditions.collect()]
    never = set(before.audit().never)
    standing = [one for row in rows for one in row["stands_for"]]
    assert sorted(standing) == sorted(set(before.ids()) - never)
    assert (made.before, made.after, made.never) == (len(before), len(rows), len(never))
    stand_in = {one: row["id"] for row in rows for one in row["stands_for"]}
    assert all(row["id"] in row["stands_for"] for row in rows)
    after = earmark.Matcher(**options)
    after.add_many([(row["id"], row["condition"]) for row in rows], progress=False)
    wanted, found = matched(before, given), matched(after, given)
    assert {(event, stand_in[one]) for event, one in wanted} <= found
    return len({event for event, _ in wanted}), len({event for event, _ in found})


def columns(count: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table({"x": random.integers(0, 1_000, count), "y": random.integers(0, 1_000, count)})


def boxes(count: int) -> pa.Table:
    """Small boxes that leave half of the plane to nobody, some of them repeated or inside others."""
    random = np.random.default_rng(3)
    low = random.integers(0, 970, (count, 2)) // [1, 2]
    high = low + random.integers(2, 30, (count, 2))
    low[::9], high[::9] = low[: len(low[::9])], high[: len(high[::9])] - 1
    return pa.table(
        {"id": np.arange(count), "x_lo": low[:, 0], "x_hi": high[:, 0], "y_lo": low[:, 1], "y_hi": high[:, 1]}
    )


@pytest.fixture(scope="module")
def before() -> earmark.Matcher:
    matcher = earmark.Matcher()
    matcher.add_many(boxes(BOXES), progress=False)
    return matcher


@pytest.mark.parametrize(("budget", "homes"), [(0.1, 3), (0.0, 2)])
def test_the_budget_is_kept(
    spark: SparkSession, before: earmark.Matcher, tmp_path: Path, budget: float, homes: int
) -> None:
    frame = spark.createDataFrame(boxes(BOXES)).repartition(2)
    sample = spark.createDataFrame(columns(EVENTS, 1)).repartition(2)
    made = merge(frame, budget, sample, homes=homes, working=tmp_path)
    assert made.held_back.events == EVENTS // 3
    assert made.held_back.share <= budget
    wanted, taken = check(made, before, columns(EVENTS, 2))
    assert taken - wanted <= budget * wanted
    assert "budget" in str(made)
    if budget:
        assert made.after < 0.75 * made.before
        assert made.held_back.extra > 0


def test_what_is_held_back_is_measured_right(spark: SparkSession, before: earmark.Matcher) -> None:
    """What a Matcher counts in all of the sample, a third of it held back."""
    frame, given = spark.createDataFrame(boxes(BOXES)), columns(EVENTS, 1)
    made = merge(frame, 0.3, spark.createDataFrame(given), homes=4)
    wanted, taken = check(made, before, given)
    assert abs(made.held_back.wanted / made.held_back.events - wanted / EVENTS) < 0.05
    assert 0 < made.held_back.extra < taken - wanted


def test_a_book_of_every_kind(spark: SparkSession) -> None:
    rows, given = subscriptions("merge", 80), events("merge", 400)
    before = matcher_of(rows, attributes=generate.SCHEMA)
    made = merge(book_frame(spark, rows), 0.2, event_frame(spark, given), attributes=generate.SCHEMA, homes=3)
    check(made, before, given, attributes=generate.SCHEMA)


def test_conditions_can_be_published(spark: SparkSession, before: earmark.Matcher, tmp_path: Path) -> None:
    made = merge(spark.createDataFrame(boxes(200)), 0.1, spark.createDataFrame(columns(2_000, 1)), homes=2)
    snapshot = Snapshot.publish(made.conditions, tmp_path / "s")
    assert len(snapshot) == made.after
    assert match(spark.createDataFrame(columns(100, 5)), snapshot).count() > 0


@pytest.mark.parametrize("budget", [-0.1, float("nan"), float("inf")])
def test_budgets_that_cannot_be(spark: SparkSession, budget: float) -> None:
    frame = spark.createDataFrame([("a", "x > 1")], "id string, condition string")
    with pytest.raises(earmark.EarmarkError, match="expected a share of extra traffic as budget"):
        merge(frame, budget, spark.createDataFrame([(1,)], "x int"))


def test_samples_that_cannot_be(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.createDataFrame([("a", "x > 1")], "id string, condition string")
    assert merge(frame, 0.1, spark.createDataFrame([(1.5,)], "x double")).after == 1
    with pytest.raises(earmark.EarmarkError, match="expected a number for 'x'"):
        merge(frame, 0.1, spark.createDataFrame([("x",)], "x string"))
    with pytest.raises(earmark.EarmarkError, match="streaming"):
        merge(frame, 0.1, spark.readStream.format("rate").load())
    monkeypatch.setattr("earmark.spark.hygiene.merging.MOST_SAMPLE", 2)
    with pytest.raises(earmark.EarmarkError, match="at most 2 events"):
        merge(frame, 0.1, spark.createDataFrame([(1,)] * 3, "x int"))


def test_no_sample_and_nobody(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [("a", "x > 1"), ("b", "x > 2"), ("c", "x > 3 AND x < 2")], "id string, condition string"
    )
    nothing = spark.createDataFrame([], "x int")
    made = merge(frame, 0.1, nothing)
    assert [tuple(row) for row in made.conditions.collect()] == [("a", "x > 1", ["a", "b"])]
    empty = merge(frame.limit(0), 0.1, nothing)
    assert (empty.before, empty.after) == (0, 0)
