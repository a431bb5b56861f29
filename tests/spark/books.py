"""Random books of subscriptions and events for the Spark pipeline, as a Matcher takes them and as DataFrames."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.oracle import generate
from tests.oracle.syntax import to_sql
from tests.spark.common import SPARK_TYPES

import earmark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TAGS = ({}, {"tenant": "acme"}, {"tenant": "acme", "tier": "gold"}, {"tier": "gold"})
Row = dict[str, Any]


def subscriptions(seed: str, count: int, integer_ids: bool = False) -> list[Row]:
    """Random subscriptions of every kind that a Matcher with the generator's schema accepts."""
    rng = random.Random(f"books {seed}")
    tried = earmark.Matcher(attributes=generate.SCHEMA)
    made: list[Row] = []
    while len(made) < count:
        one = len(made) * 7 % count if integer_ids else f"s{len(made) * 7 % count:04d}"
        row = {"id": one, "condition": to_sql(generate.condition(rng)), "score": rng.choice((0.0, 0.0, 0.5, 1.25))}
        row["tags"] = rng.choice(TAGS)
        try:
            tried.add(**row)
        except earmark.SubscriptionError:
            continue
        used = [name for name in generate.SCHEMA if f"`{name}`" in row["condition"] or name in row["condition"].split()]
        weights = generate.weights(rng, used)
        try:
            tried.update(one, weights=weights)
        except earmark.SubscriptionError:
            weights = {}
        made.append({**row, "weights": weights})
    return made


def events(seed: str, count: int) -> list[Row]:
    """Random rows of every type, with NULLs and NaN."""
    rng = random.Random(f"events {seed}")
    return [generate.row(rng) for _ in range(count)]


def in_order(rows: list[Row]) -> list[Row]:
    """The order of insertion that a snapshot gives rows without another."""
    return sorted(rows, key=lambda row: row["id"])


def matcher_of(rows: list[Row], **options: Any) -> earmark.Matcher:
    """The Matcher that a snapshot of these rows must agree with."""
    matcher = earmark.Matcher(**options)
    matcher.add_many(in_order(rows))
    return matcher


def book_frame(spark: SparkSession, rows: list[Row], partitions: int = 3) -> DataFrame:
    from pyspark.sql.types import DoubleType, LongType, MapType, StringType, StructType

    integers = bool(rows) and isinstance(rows[0]["id"], int)
    fields = StructType().add("id", LongType() if integers else StringType()).add("condition", StringType())
    fields.add("score", DoubleType()).add("weights", MapType(StringType(), DoubleType()))
    fields.add("tags", MapType(StringType(), StringType()))
    data = [(r["id"], r["condition"], r.get("score"), r.get("weights"), r.get("tags")) for r in rows]
    return spark.createDataFrame(data, fields).repartition(partitions)


def event_frame(spark: SparkSession, rows: list[Row], partitions: int = 2) -> DataFrame:
    """The events with their number in `row`; an absent attribute is NULL."""
    from pyspark.sql.types import StructType

    fields = StructType().add("row", "long")
    for name, kind in generate.SCHEMA.items():
        fields.add(name, SPARK_TYPES.get(kind, kind))
    data = [(number, *(row.get(name) for name in generate.SCHEMA)) for number, row in enumerate(rows)]
    return spark.createDataFrame(data, fields).repartition(partitions)


def answers(frame: DataFrame, event: str = "row") -> dict[int, list[tuple[Any, float]]]:
    """(subscription, score) by event, in the order of the result."""
    found: dict[int, list[tuple[Any, float]]] = {}
    for row in frame.select(event, "subscription", "score").collect():
        found.setdefault(row[0], []).append((row[1], row[2]))
    return found


def expected(table: Any) -> dict[int, list[tuple[Any, float]]]:
    """The same from a Matcher's Arrow table."""
    found: dict[int, list[tuple[Any, float]]] = {}
    for row in table.to_pylist():
        found.setdefault(row["event"], []).append((row["subscription"], row["score"]))
    return found


def salted_batches(salted: int, *given: Any) -> Iterator[Any]:
    """What `search_batches` yields on a worker where fewer answers of an event go to one partition."""
    from earmark.spark import shuffle

    before, shuffle.SALTED = shuffle.SALTED, salted
    try:
        yield from shuffle.search_batches(*given)
    finally:
        shuffle.SALTED = before
