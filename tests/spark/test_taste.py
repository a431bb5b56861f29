"""How answers can look: rank, unmatched events, columns of the subscriptions, a prefix; how many there are; counts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Observation

import earmark
from earmark.spark import Snapshot, count_matches, match, register_matches, register_sources, shard_counts
from earmark.spark.book_source import BookOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS = [
    ("a", "x > 1", 0.5, {"tenant": "acme"}),
    ("b", "x > 2", 0.0, None),
    ("c", "x > 2 AND y = 'u'", 0.0, {"tenant": "acme", "tier": "gold"}),
    ("d", "x BETWEEN 3 AND 4", 2.0, None),
]
SCHEMA = "ad string, rule string, score double, tags map<string,string>"


@pytest.fixture(scope="module")
def snapshot(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    frame = spark.createDataFrame(ROWS, SCHEMA).coalesce(1)
    return Snapshot.publish(frame, tmp_path_factory.mktemp("taste") / "book", id="ad", condition="rule", shards=2)


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(
        [(1, 3, "u"), (2, 0, "u"), (3, 5, None), (4, 4, "v")], "event int, x int, y string"
    ).cache()


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.mark.parametrize("route", ["local", "shuffle"])
def test_rank_and_details(events: DataFrame, snapshot: Snapshot, route: str) -> None:
    options: dict[str, Any] = {
        "columns": ["event"],
        "rank": True,
        "with_columns": ["tags", "condition"],
        "route": route,
    }
    found = match(events, snapshot, 2, **options)
    assert found.columns == ["event", "subscription", "score", "snapshot_version", "rank", "tags", "condition"]
    texts, tags = {row[0]: row[1] for row in ROWS}, {row[0]: row[3] or {} for row in ROWS}
    by_event: dict[int, list[Any]] = {}
    for row in found.collect():
        assert row["condition"] == texts[row["subscription"]]
        assert row["tags"] == tags[row["subscription"]]
        by_event.setdefault(row["event"], []).append((row["rank"], row["subscription"], row["score"]))
    assert {event: sorted(own) for event, own in by_event.items()} == {
        1: [(1, "d", 3.0), (2, "c", 2.0)],
        3: [(1, "a", 1.5), (2, "b", 1.0)],
        4: [(1, "d", 3.0), (2, "a", 1.5)],
    }
    every = match(events, str(snapshot.path), columns=["event"], rank=True, route=route)
    assert rows(every.where("event = 1").select("rank", "subscription")) == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


def test_unmatched_events_stay(events: DataFrame, snapshot: Snapshot) -> None:
    found = match(events, snapshot, 1, how="left", rank=True, with_columns=["tags"], columns=["event"])
    assert rows(found.select("event", "subscription", "rank", "tags")) == [
        (1, "d", 1, {}),
        (2, None, None, None),
        (3, "a", 1, {"tenant": "acme"}),
        (4, "d", 1, {}),
    ]
    assert match(events.where("event = 2"), snapshot, how="left").count() == 1
    with pytest.raises(earmark.EarmarkError, match="how='left' needs the route 'local'"):
        match(events, snapshot, how="left", route="shuffle")
    with pytest.raises(earmark.EarmarkError, match="how: expected 'inner' or 'left', got 'outer'"):
        match(events, snapshot, how="outer")


def test_a_prefix_where_names_collide(events: DataFrame, snapshot: Snapshot) -> None:
    scored = events.withColumnRenamed("event", "score")
    with pytest.raises(earmark.EarmarkError, match="or give the others a prefix such as prefix='match_'"):
        match(scored, snapshot)
    found = match(scored, snapshot, prefix="m_", columns=["score"], rank=True)
    assert found.columns == ["score", "m_subscription", "m_score", "m_snapshot_version", "m_rank"]
    assert found.count() == 9
    with pytest.raises(earmark.EarmarkError, match="with_columns: expected each of 'condition' and 'tags'"):
        match(events, snapshot, with_columns=["payload"])


def test_counts_without_pairs(spark: SparkSession, events: DataFrame, snapshot: Snapshot) -> None:
    assert rows(count_matches(events, snapshot.path)) == [(4, 0, 9)]
    assert rows(count_matches(events, snapshot, scope={"tenant": "acme"})) == [(4, 0, 4)]
    assert rows(count_matches(events.limit(0), snapshot)) == [(0, 0, 0)]
    noted = Observation("earmark")
    assert match(events, snapshot, 2, metrics=noted, columns=["event"]).count() == 6
    searched = sum(row["events"] for row in shard_counts(events, snapshot, 2).collect())
    candidates = sum(row["matches"] for row in shard_counts(events, snapshot, 2).collect())
    wanted = {"events": 4, "rejected": 0, "searched": searched, "candidates": candidates, "matches": 6}
    assert noted.get == wanted


def test_the_table_function(spark: SparkSession, events: DataFrame, snapshot: Snapshot) -> None:
    register_matches(spark)
    events.createOrReplaceTempView("taste_events")
    book = str(snapshot.path)
    every = spark.sql(f"SELECT * FROM matches(TABLE(taste_events), '{book}')")
    assert every.columns == ["event", "x", "y", "subscription", "score", "snapshot_version"]
    assert rows(every) == rows(match(events, snapshot))
    best = spark.sql(f"SELECT * FROM matches(TABLE(SELECT event, x FROM taste_events), '{book}', k => 2, rank => true)")
    assert rows(best) == rows(match(events.drop("y"), snapshot, 2, rank=True, missing="null"))
    with pytest.raises(Exception, match="there is no option 'size'"):
        spark.sql(f"SELECT * FROM matches(TABLE(taste_events), '{book}', size => 1)")
    with pytest.raises(Exception, match="expected a number for 'x'"):
        spark.sql(f"SELECT * FROM matches(TABLE(SELECT 'a' AS x), '{book}')")


def test_the_book_as_a_source(spark: SparkSession, snapshot: Snapshot, tmp_path: Path) -> None:
    register_sources(spark)
    frame = spark.createDataFrame([(row[0], row[1], row[2], row[3]) for row in ROWS], SCHEMA)
    first = Snapshot.publish(frame.coalesce(1), tmp_path / "book", id="ad", condition="rule")
    changes = [("a", "x > 9", "update"), ("b", None, "remove"), ("e", "x = 1", "add")]
    second = first.apply(spark.createDataFrame(changes, "ad string, condition string, op string"), id="ad")
    second.compact()

    def read(**options: Any) -> DataFrame:
        return spark.read.format("earmark.book").options(**options).load(str(tmp_path / "book"))

    listed = read(version=1).orderBy("sequence").collect()
    assert [(row["id"], row["condition"], row["score"], row["tags"] or None) for row in listed] == ROWS
    assert rows(read().select("id", "condition", "sequence")) == [
        ("a", "x > 9", 0), ("c", "x > 2 AND y = 'u'", 2), ("d", "x BETWEEN 3 AND 4", 3), ("e", "x = 1", 4)
    ]  # fmt: skip
    versions = read(table="versions").orderBy("version")
    assert rows(versions.select("version", "parent", "kind", "subscriptions")) == [
        (1, None, "full", 4), (2, 1, "delta", 4), (3, 2, "full", 4)
    ]  # fmt: skip
    changed = [("added", "e", "x = 1"), ("changed", "a", "x > 9"), ("removed", "b", "x > 2")]
    assert rows(read(table="differences", version=2).select("change", "id", "condition")) == changed
    assert rows(read(table="differences", since=1).select("change", "id", "condition")) == changed
    assert read(table="differences").count() == 0
    assert read(table="differences", version=1).count() == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": "/x", "table": "rows"}, "expected one of subscriptions, versions, differences, got 'rows'"),
        ({"path": "/x", "version": "x"}, "expected the number of a version, got 'x'"),
        ({"path": "/x", "since": "1"}, "the option 'since' of earmark.book is for the table 'differences'"),
        ({"path": "/x", "colour": "1"}, "earmark.book has no option 'colour'"),
        ({"path": "s3://x"}, "is not a path"),
        ({}, "earmark.book needs the path of a book"),
    ],
)
def test_options_of_the_source(options: dict[str, str], said: str) -> None:
    with pytest.raises(earmark.EarmarkError, match=said):
        BookOptions(options)
