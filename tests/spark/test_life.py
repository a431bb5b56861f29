"""Life spans on Spark: the same matches as a Matcher gives, from columns, structs, maps and one moment for all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import earmark
from earmark.spark import Snapshot, count_matches, match, register, stream

DAY = timedelta(days=1)
FIRST = datetime(2026, 3, 1, tzinfo=UTC)
SUBSCRIPTIONS = "id bigint, condition string, starts timestamp, ends timestamp"


def book() -> list[tuple[int, str, datetime | None, datetime | None]]:
    rng = Random(7)
    made = []
    for one in range(60):
        starts, ends = sorted(rng.sample(range(9), 2))
        life = rng.choice([(None, None), (starts, None), (None, ends), (starts, ends)])
        moments = [None if day is None else FIRST + day * DAY for day in life]
        made.append((one, f"x > {one % 5}", *moments))
    return made


def expected(rows: list[dict[str, Any]], at: Any = None) -> list[tuple[int, int]]:
    m = earmark.Matcher("scan", time="t")
    m.add_many([dict(zip(("id", "condition", "starts", "ends"), row, strict=True)) for row in book()])
    found = m.match_many(rows, at=at).to_pydict()
    return sorted(zip(found["event"], found["subscription"], strict=True))


def events() -> list[dict[str, Any]]:
    times = [FIRST + (n // 2) * DAY - (n % 2) * timedelta(microseconds=1) for n in range(20)]
    return [{"x": n % 6, "t": time} for n, time in enumerate(times)] + [{"x": 9, "t": None}]


def frame(spark: SparkSession) -> DataFrame:
    rows = [(n, one["x"], one["t"]) for n, one in enumerate(events())]
    return spark.createDataFrame(rows, "n bigint, x bigint, t timestamp")


def pairs(found: DataFrame) -> list[tuple[int, int]]:
    return sorted((row["n"], row["subscription"]) for row in found.select("n", "subscription").collect())


@pytest.fixture(scope="module")
def snapshot(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    frame = spark.createDataFrame(book(), SUBSCRIPTIONS)
    return Snapshot.publish(frame, tmp_path_factory.mktemp("life") / "book", time="t", shards=2)


def test_the_same_matches_as_a_matcher(spark: SparkSession, snapshot: Snapshot) -> None:
    assert pairs(match(frame(spark), snapshot)) == expected(events())
    assert pairs(match(frame(spark), snapshot, 1000)) == expected(events())
    at = FIRST + 3 * DAY
    assert pairs(match(frame(spark), snapshot, at=at)) == expected(events(), at)
    assert count_matches(frame(spark), snapshot, at="2026-03-04").collect()[0].matches == len(expected(events(), at))


CONDITIONS = ("x > {}", "x <= {} OR x IS NULL", "NOT (x = {})", "x IN ({}, 3)", "TRUE", "x IS NOT NULL AND x < {}")


@pytest.mark.parametrize("seed", range(3))
def test_the_same_matches_as_the_condition_written_by_hand(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Spark SQL itself says what `(…) AND t >= starts AND t < ends` is true for."""
    rng = Random(seed)
    moments = [FIRST + timedelta(microseconds=one) for one in (0, 1, *rng.sample(range(2, 10**12), 7))]
    rows, by_hand = [], []
    for one in range(40):
        starts, ends = sorted(rng.sample(moments, 2)) if rng.random() < 0.6 else (None, None)
        starts, ends = rng.choice([(starts, ends), (starts, None), (None, ends)])
        condition = rng.choice(CONDITIONS).format(rng.randrange(6))
        bounds = [(">=", starts), ("<", ends)]
        tests = [f"t {sign} TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S.%f}Z'" for sign, moment in bounds if moment]
        rows.append((one, condition, starts, ends))
        by_hand.append(" AND ".join([f"({condition})", *tests]) + f" AS s{one}")
    steps = [timedelta(0), timedelta(microseconds=1), -timedelta(microseconds=1)]
    times = [*(rng.choice(moments) + rng.choice(steps) for _ in range(60)), None]
    happened = [(n, rng.choice([None, *range(7)]), time) for n, time in enumerate(times)]
    frame = spark.createDataFrame(happened, "n bigint, x bigint, t timestamp")
    answers = frame.selectExpr("n", *by_hand).collect()
    wanted = sorted((row["n"], one) for row in answers for one in range(len(rows)) if row[f"s{one}"])
    book = spark.createDataFrame(rows, SUBSCRIPTIONS)
    snapshot = Snapshot.publish(book, tmp_path / "book", time="t", shards=1 + seed % 2)
    assert pairs(match(frame, snapshot)) == wanted and len(wanted) > 100


def test_inside_a_struct_and_a_map(spark: SparkSession, snapshot: Snapshot) -> None:
    inside = frame(spark).selectExpr("n", "struct(x, t) AS event")
    assert pairs(match(inside, snapshot, event="event")) == expected(events())
    mapped = frame(spark).selectExpr("n", "map('x', cast(x AS double)) AS event")
    at = FIRST + 3 * DAY
    assert pairs(match(mapped, snapshot, at=at)) == expected(events(), at)


def test_in_sql(spark: SparkSession, snapshot: Snapshot) -> None:
    register(spark, snapshot, "alive")
    frame(spark).createOrReplaceTempView("life_events")
    best = spark.sql("SELECT n, explode(alive(struct(x, t), 1000)) AS one FROM life_events")
    assert sorted((row.n, row.one.subscription) for row in best.collect()) == expected(events())


def test_a_stream_must_say_when(spark: SparkSession, tmp_path: Path) -> None:
    book = spark.createDataFrame([(1, "x > 1", None, FIRST)], SUBSCRIPTIONS)
    timeless = Snapshot.publish(book, tmp_path / "book")
    coming = spark.readStream.format("rate").load().selectExpr("value AS x")
    with pytest.raises(earmark.EarmarkError, match="a stream must say when its events happened"):
        match(coming, timeless)
    with pytest.raises(earmark.EarmarkError, match="a stream must say when its events happened"):
        stream(coming, timeless, tmp_path / "sink", checkpoint=tmp_path / "checkpoint")
    match(coming, timeless, at="2026-01-01")
    assert match(spark.range(5).selectExpr("id AS x"), timeless).count() == 0  # it is over
