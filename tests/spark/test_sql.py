"""The SQL function: the same best as `match`, from structs and maps, and where k differs from row to row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.oracle import generate
from tests.spark.books import answers, book_frame, event_frame, events, expected, matcher_of, subscriptions

import earmark
from earmark.spark import Snapshot, match, register
from earmark.spark.frames import struct_of
from earmark.spark.matching import search_of
from earmark.spark.older import Asked, older_function

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from earmark import Matcher

pytestmark = pytest.mark.spark

Book = tuple[Snapshot, "Matcher", list[dict[str, object]]]


@pytest.fixture(scope="module")
def book(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Book:
    rows, given = subscriptions("sql", 60), events("sql", 30)
    folder = tmp_path_factory.mktemp("sql") / "s"
    snapshot = Snapshot.publish(book_frame(spark, rows), folder, attributes=generate.SCHEMA)
    event_frame(spark, given).createOrReplaceTempView("sql_events")
    return snapshot, matcher_of(rows, attributes=generate.SCHEMA), given


@pytest.mark.parametrize(
    "query",
    [
        "SELECT e.row, m.* FROM sql_events e, LATERAL (SELECT inline(top_matches(struct(e.*), 5))) m",
        "SELECT row, inline(top_matches(struct(e.*), 5)) FROM sql_events e",
        "SELECT e.row, m.* FROM (SELECT row, struct(*) AS event FROM sql_events) e, "
        "LATERAL inline(top_matches(e.event, 5)) m",
    ],
)
def test_best_are_the_matchers(spark: SparkSession, book: Book, query: str) -> None:
    snapshot, matcher, given = book
    register(spark, snapshot)
    assert answers(spark.sql(query)) == expected(matcher.top_k_many(given, 5))


def test_options(spark: SparkSession, book: Book) -> None:
    snapshot, matcher, given = book
    scope, weights = {"tier": "gold"}, {"i0": 0.25}
    best = register(spark, snapshot, "golden", mode="relaxed", scope=scope, weights=weights)
    query = "SELECT row, inline(golden(struct(e.*))) FROM sql_events e"
    wanted = expected(matcher.top_k_many(given, 10, mode="relaxed", scope=scope, weights=weights))
    assert answers(spark.sql(query)) == wanted
    from pyspark.sql.functions import col, inline, lit, struct

    frame = spark.table("sql_events")
    fields = [col(f"`{name}`") for name in generate.SCHEMA]
    assert answers(frame.select("row", inline(best(struct(*fields), lit(10))))) == wanted


def test_k_by_row_maps_and_nesting(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"id": f"s{i}", "condition": "a >= 0 AND u.b IS NOT NULL"} for i in range(5)]
    register(spark, Snapshot.publish(book_frame(spark, rows), tmp_path / "s"), "few")
    event = "named_struct('A', 1, 'u', named_struct('b', 'x'))"
    found = spark.sql(
        f"SELECT k, size(few({event}, k)), size(few(map('a', 1, 'u.b', 2), k)), size(few(given, 9)) FROM "
        f"(SELECT k, IF(k = 1, NULL, {event}) AS given FROM VALUES (1), (3), (7) AS t(k))"
    )
    assert {tuple(row) for row in found.collect()} == {(1, 1, 1, 0), (3, 3, 3, 5), (7, 5, 5, 5)}


def test_doubles_for_whole_bounds(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = Snapshot.publish(book_frame(spark, [{"id": "x", "condition": "a > 3"}]), tmp_path / "s")
    frame = spark.createDataFrame([(3.5,), (3.0,)], "a double")
    frame.createOrReplaceTempView("halves")
    query = "SELECT a, inline(best(struct(a), 1)) FROM halves"
    for known in (frame, None):
        register(spark, snapshot, "best", events=known)
        assert [tuple(row) for row in spark.sql(query).collect()] == [(3.5, "x", 1.0)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("wrong(1, 2)", "expected an event as a struct or a map"),
        ("wrong(struct(1 AS z), 2)", "no field of the event is an attribute of the snapshot, such as 'a'"),
        ("wrong(struct(1 AS a), 0)", "k: expected a number of results"),
        ("wrong(struct('x' AS a), 1)", "expected a number for 'a'"),
    ],
)
def test_what_cannot_be_asked(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, call: str, message: str
) -> None:
    folder = tmp_path_factory.getbasetemp() / "sql-asked"
    rows = [{"id": "x", "condition": "a > 3"}]
    snapshot = Snapshot.open(folder) if folder.exists() else Snapshot.publish(book_frame(spark, rows), folder)
    register(spark, snapshot, "wrong")
    with pytest.raises(Exception, match=message):
        spark.sql(f"SELECT {call}").collect()


def test_the_same_as_match(spark: SparkSession, book: Book) -> None:
    snapshot, _, _ = book
    register(spark, snapshot)
    frame = spark.table("sql_events")
    asked = spark.sql("SELECT row, inline(top_matches(struct(e.*), 3)) FROM sql_events e")
    assert answers(asked) == answers(match(frame, snapshot, 3))
    with pytest.raises(earmark.EarmarkError, match="expected 'exact' or 'relaxed' for mode"):
        register(spark, snapshot, mode="loose")


def test_the_older_way(spark: SparkSession, book: Book) -> None:
    """Of a Spark without functions over Arrow arrays: one row at a time."""
    from pyspark.sql.types import ArrayType, DoubleType, StringType

    snapshot, matcher, given = book
    frame = spark.table("sql_events")
    search = search_of(spark, snapshot, 10, "exact", None, None)
    result = ArrayType(struct_of({"subscription": StringType(), "score": DoubleType()}))
    spark.udf.register("older_matches", older_function(search, Asked(False, None), snapshot.schema, frame, result))
    query = "SELECT row, inline(older_matches(struct(e.*), 5)) FROM sql_events e"
    assert answers(spark.sql(query)) == expected(matcher.top_k_many(given, 5))
    with pytest.raises(earmark.EarmarkError, match="give the events, as in register"):
        older_function(search, Asked(False, None), snapshot.schema, None, result)
