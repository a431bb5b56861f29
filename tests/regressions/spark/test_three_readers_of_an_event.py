"""Subscriptions with life spans were found by `match`, and by no query of the table function.

Events were read by three pieces of code, which differed in times, maps, missing columns and what cannot be read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import earmark
from earmark.spark import (
    Snapshot,
    backtest,
    count_matches,
    match,
    register,
    register_matches,
    register_sources,
    rejected,
    shard_counts,
    table_function,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

BOOK = "id string, condition string, starts timestamp, ends timestamp"
FIRST, LAST = datetime(2020, 1, 1, tzinfo=UTC), datetime(2990, 1, 1, tzinfo=UTC)
ROWS = [
    ("active", "age > 1", FIRST, LAST),
    ("ended", "age > 1", None, FIRST),
    ("always", "age > 1", None, None),
    ("city", "user.city = 'Oslo' OR age BETWEEN 90 AND 99", None, LAST),
]
Pairs = set[tuple[int, str]]


@pytest.fixture(scope="module")
def books(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str | None, Snapshot]:
    """The book, once without a time of events and once with one."""
    root, frame = tmp_path_factory.mktemp("readers"), spark.createDataFrame(ROWS, BOOK).coalesce(1)
    types = {"age": "number", "user.city": "string"}
    return {
        time: Snapshot.publish(frame, root / str(time), time=time, attributes=types, shards=2) for time in (None, "t")
    }


def pairs(found: DataFrame) -> Pairs:
    return {tuple(row) for row in found.select("event", "subscription").collect()}  # type: ignore[misc]


def by_function(events: DataFrame, book: Snapshot, **options: Any) -> Pairs:
    register(events.sparkSession, book, "read_best", **options)
    whole = "payload" if "payload" in events.columns and "t" not in events.columns else "struct(*)"
    return pairs(events.selectExpr("event", f"inline(read_best({whole}, 100))"))


def by_table(events: DataFrame, book: Snapshot, **options: Any) -> Pairs:
    register_matches(events.sparkSession)
    events.createOrReplaceTempView("read_events")
    given = "".join(f", {name} => '{value}'" for name, value in options.items())
    query = f"SELECT * FROM matches(TABLE(read_events), '{book.path}'{given})"
    return pairs(events.sparkSession.sql(query))


FORMS = {
    "columns": "SELECT event, age, t, named_struct('city', city) AS user, {more} FROM {rows}",
    "integers": "SELECT event, CAST(age AS INT) AS age, t, named_struct('City', city) AS USER, {more} FROM {rows}",
    "map": "SELECT event, map('age', CAST(age AS STRING), 'user.city', city, 't', CAST(t AS STRING)) AS payload "
    "FROM {rows}",
    "struct": "SELECT event, named_struct('age', age, 't', t, 'user', named_struct('city', city)) AS payload "
    "FROM {rows}",
    "interval": "SELECT event, named_struct('lo', age, 'hi', age + 1) AS age, t, "
    "IF(event = 2, NULL, named_struct('city', city)) AS user FROM {rows}",
    "map and time": "SELECT event, map('user.city', city) AS payload, t FROM {rows}",
    "no time": "SELECT event, age FROM {rows}",
}
TIMES = """(VALUES
    (1, 50.0D, 'Oslo', TIMESTAMP '2019-05-01'), (2, 0.5D, NULL, TIMESTAMP '2026-01-01'),
    (3, 95.0D, 'Lima', NULL), (4, CAST(NULL AS DOUBLE), 'Oslo', TIMESTAMP '2991-01-01')) AS e(event, age, city, t)"""
MORE = "array(1, 2) AS kept, map('k', struct(event)) AS deep, CAST(X'ff' AS STRING) AS note"


@pytest.mark.filterwarnings("ignore:the events have no column")
@pytest.mark.parametrize("form", FORMS)
def test_awkward_events(spark: SparkSession, books: dict[str | None, Snapshot], form: str) -> None:
    events = spark.sql(FORMS[form].format(rows=TIMES, more=MORE)).coalesce(1)
    if form == "map":  # of strings, which no number can be read from
        events = spark.sql(
            f"SELECT event, map('user.city', city, 't', CAST(t AS STRING), 'x', '1') AS payload FROM {TIMES}"
        ).coalesce(1)
    event = {"event": "payload"} if form == "struct" else {}
    book = books["t"]
    wanted = pairs(match(events, book, columns=["event"], **event))
    if form != "map and time":  # a struct with a map inside is not a map
        assert by_function(events, book) == wanted
    if form != "struct":
        assert by_table(events, book) == wanted
    if form not in ("columns", "map"):
        return
    assert count_matches(events, book).collect()[0].matches == len(wanted)
    assert sum(row.matches for row in shard_counts(events, book).collect()) == len(wanted)
    at = datetime(2019, 1, 1, tzinfo=UTC)
    before = pairs(match(events, book, columns=["event"], at=at))
    assert by_function(events, book, at=at) == by_table(events, book, at="2019-01-01") == before
    assert sum(row.matches for row in shard_counts(events, book, at=at).collect()) == len(before)
    now = pairs(match(events, books[None], columns=["event"]))
    assert by_function(events, books[None]) == by_table(events, books[None]) == now
    if form == "columns":
        assert wanted == {
            (1, "ended"), (1, "always"), (1, "city"), (3, "always")
        }  # fmt: skip
        assert (1, "active") in now


def test_what_cannot_be_read(spark: SparkSession, books: dict[str | None, Snapshot]) -> None:
    events = spark.sql(
        "SELECT event, named_struct('lo', 9, 'hi', hi) AS age, CAST(city AS STRING) AS `user.city`, t FROM VALUES "
        "(1, 9, X'ff', '2026-01-01'), (2, 8, X'61', '2026-01-01'), (3, 10, X'61', '2026-99-01'), "
        "(4, 10, X'61', '2026-01-01') AS e(event, hi, city, t)"
    ).coalesce(1)
    book = books["t"]
    for on_error in ("null", "reject"):
        wanted = pairs(match(events, book, columns=["event"], on_error=on_error))
        assert by_function(events, book, on_error=on_error) == by_table(events, book, on_error=on_error) == wanted
    assert wanted == {(4, "active"), (4, "always")}
    said = {(row.event, row.attribute) for row in rejected(events, book, columns=["event"]).collect()}
    assert said == {(1, "user.city"), (2, "age"), (3, "t")}
    bad = events.where("event <> 2")
    for ask in (lambda: match(bad, book).count(), lambda: by_function(bad, book), lambda: by_table(bad, book)):
        with pytest.raises(Exception, match=r"event \((event=1|age=).*user.city"):
            ask()
    with pytest.raises(Exception, match=r"event \(age=.*expected a timestamp .* for 't'"):
        count_matches(events.where("event = 3"), book).collect()


def test_row_by_row(spark: SparkSession, books: dict[str | None, Snapshot], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_function, "FIRST_OVER_ARROW", (99, 0))
    for form in ("columns", "map"):
        events = spark.sql(FORMS[form].format(rows=TIMES, more="1 AS kept")).coalesce(1)
        events = events.where("event > 0") if form != "map" else events.selectExpr(
            "event", "map('user.city', payload['user.city'], 't', payload['t']) AS payload"
        )  # fmt: skip
        assert by_table(events, books["t"]) == pairs(match(events, books["t"], columns=["event"]))


def test_options_of_the_table_function(spark: SparkSession, books: dict[str | None, Snapshot]) -> None:
    register_matches(spark)
    path = books[None].path
    events = "TABLE(SELECT 1 event, 50 age, CAST(X'ff' AS STRING) note)"
    query = f"SELECT subscription FROM matches({events}, '{path}', missing => 'null', "
    found = spark.sql(f"{query} on_error => 'reject', at => '2026-01-01')").collect()
    assert {row.subscription for row in found} == {"active", "always"}
    assert spark.sql(f"{query} scope => map('tenant', 'acme'))").collect() == []
    for wrong, said in (
        ("rank => 'false'", "rank: expected True or False, got 'false'"),
        ("version => '1'", "option 'version': expected the number of a version, got '1'"),
        ("prefix => 3", "prefix: expected a string, got 3"),
        ("k => 2.5", "expected a whole number|expected .* k"),
        ("at => 'then'", "expected a moment"),
        ("missing => 'error'", None),
    ):
        with pytest.raises(Exception, match=said):
            spark.sql(f"{query} {wrong})".replace("missing => 'null', ", "")).collect()


def test_backtests_and_the_book_as_a_source(spark: SparkSession, books: dict[str | None, Snapshot]) -> None:
    events = spark.sql(f"SELECT event, age, t FROM {TIMES}").coalesce(1)
    frame = spark.createDataFrame(ROWS[:3], BOOK).coalesce(1)
    counted = backtest(frame, events, time="t", sample=0).collect()
    assert {row.subscription: row.matches for row in counted} == {"active": 0, "ended": 1, "always": 2}
    counted = backtest(frame, events, at="2026-01-01", sample=0).collect()
    assert {row.subscription: row.matches for row in counted} == {"active": 2, "ended": 0, "always": 2}
    register_sources(spark)
    assert spark.read.format("earmark.book").load(str(books["t"].path)).count() == len(ROWS)


def test_streams_say_when(spark: SparkSession, books: dict[str | None, Snapshot]) -> None:
    arriving = spark.readStream.format("rate").load().selectExpr("value AS age")
    with pytest.raises(earmark.EarmarkError, match="a stream must say when its events happened"):
        rejected(arriving, books[None])
    assert rejected(arriving, books[None], at="2026-01-01").isStreaming


def test_a_path_is_enough(spark: SparkSession, books: dict[str | None, Snapshot], tmp_path: Path) -> None:
    register(spark, books[None].path, "by_path")
    assert spark.sql("SELECT inline(by_path(struct(5 AS age)))").count() == 2
    with pytest.raises(earmark.EarmarkError, match=r"no book\.json"):
        register(spark, tmp_path, "by_path")
