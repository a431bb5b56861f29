"""Sharded snapshots: the answers are those of one table, whatever the number of shards and the way through them."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.oracle import generate
from tests.spark.books import (
    answers,
    book_frame,
    event_frame,
    events,
    expected,
    matcher_of,
    salted_batches,
    subscriptions,
)

import earmark
from earmark.book.saving import open_for_search
from earmark.engine import lazy
from earmark.engine.batch import Batch
from earmark.events.frames import encode_columns
from earmark.spark import Snapshot, match, read_matches, register, shard_counts, shuffle, stream
from earmark.spark.matching import prepared, search_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BOOK, EVENTS = 150, 60
CHANGES: list[tuple[Any, ...]] = [
    ("remove", "s0003", None),
    ("remove", "s0077", None),
    ("update", "s0050", "i0 IS NULL OR f0 >= 0"),
    ("upsert", "everything", "TRUE"),
    ("add", "new", "i0 IS NOT NULL OR `s 1` = 'between the others'"),
]


class Book:
    """Random subscriptions of every kind, and events."""

    def __init__(self, spark: SparkSession) -> None:
        self.rows = subscriptions("shards", BOOK)
        self.subscriptions = book_frame(spark, self.rows).cache()
        self.given = events("shards", EVENTS)
        self.events = event_frame(spark, self.given).cache()

    def matcher(self, changed: bool = False) -> earmark.Matcher:
        made = matcher_of(self.rows, attributes=generate.SCHEMA)
        for op, one, condition in CHANGES if changed else ():
            if op == "remove":
                made.remove(one)
            elif one in made:
                made.update(one, condition, weights=None, score=0.0, tags=None)
            else:
                made.add(one, condition)
        return made

    def check(self, snapshot: Snapshot, matcher: earmark.Matcher, **options: Any) -> None:
        """All matches, and the best: the same rows in the same order, ties included."""
        found = answers(match(self.events, snapshot, columns=["row"], **options))
        assert found == expected(matcher.match_many(self.given))
        found = answers(match(self.events, snapshot, 4, columns=["row"], **options))
        assert found == expected(matcher.top_k_many(self.given, 4))


@pytest.fixture(scope="module")
def book(spark: SparkSession) -> Book:
    return Book(spark)


@pytest.fixture(scope="module")
def whole(spark: SparkSession, book: Book, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven shards."""
    path = tmp_path_factory.mktemp("shards") / "s"
    Snapshot.publish(book.subscriptions, path, attributes=generate.SCHEMA, shards=7)
    return path


@pytest.mark.parametrize("shards", [1, 64])
def test_the_same_answers(spark: SparkSession, book: Book, tmp_path: Path, shards: int) -> None:
    """Through publish, apply and compaction."""
    options: dict[str, Any] = {"attributes": generate.SCHEMA, "index": "scan"}
    snapshot = Snapshot.publish(book.subscriptions, tmp_path / "s", shards=shards, **options)
    assert (snapshot.shards, len(snapshot)) == (shards, BOOK)
    book.check(snapshot, book.matcher())
    changes = spark.createDataFrame(CHANGES, "op string, id string, condition string")
    changed, matcher = snapshot.apply(changes), book.matcher(changed=True)
    assert (changed.info.kind, changed.shards, len(changed)) == ("delta", shards, len(matcher))
    book.check(changed, matcher)
    compacted = changed.compact()
    assert (compacted.info.kind, compacted.shards, len(compacted)) == ("full", shards, len(matcher))
    book.check(compacted, matcher)


def test_every_way_to_ask(spark: SparkSession, book: Book, whole: Path, tmp_path: Path) -> None:
    """Seven shards and changes: shuffled, with replicas, relaxed, with a scope, in SQL, as a plain stream."""
    snapshot = Snapshot.open(shutil.copytree(whole, tmp_path / "s"))
    book.check(snapshot, book.matcher())
    book.check(snapshot, book.matcher(), route="shuffle", replicas="auto")
    snapshot = snapshot.apply(spark.createDataFrame(CHANGES, "op string, id string, condition string"))
    matcher = book.matcher(changed=True)
    book.check(snapshot, matcher)
    book.check(snapshot, matcher, route="shuffle", replicas=3)
    best = expected(matcher.top_k_many(book.given, 5, mode="relaxed"))
    for route in ("local", "shuffle"):
        assert answers(match(book.events, snapshot, 5, mode="relaxed", columns=["row"], route=route)) == best
    scope = {"tenant": "acme"}
    found = answers(match(book.events, snapshot, 3, scope=scope, weights={"i0": 0.3}, columns=["row"]))
    assert found == expected(matcher.top_k_many(book.given, 3, scope=scope, weights={"i0": 0.3}))
    register(spark, snapshot, "best_of_shards")
    book.events.createOrReplaceTempView("shard_events")
    query = "SELECT e.row, m.* FROM shard_events e, LATERAL (SELECT inline(best_of_shards(struct(e.*), 3))) m"
    assert answers(spark.sql(query)) == expected(matcher.top_k_many(book.given, 3))
    book.events.write.parquet(str(tmp_path / "events"))
    arriving = spark.readStream.schema(book.events.schema).parquet(str(tmp_path / "events"))
    with pytest.raises(earmark.EarmarkError, match="route 'shuffle' is for batches"):
        match(arriving, snapshot, route="shuffle")
    written = match(arriving, snapshot, columns=["row"]).writeStream.format("parquet").trigger(availableNow=True)
    query = written.option("checkpointLocation", str(tmp_path / "c")).start(str(tmp_path / "out"))
    query.awaitTermination(100)
    assert spark.read.parquet(str(tmp_path / "out")).count() == matcher.match_many(book.given).num_rows
    compacted = snapshot.compact()
    assert (compacted.info.kind, compacted.shards) == ("full", 7)
    book.check(compacted, matcher)


def test_a_stream_counts_by_shard(spark: SparkSession, book: Book, whole: Path, tmp_path: Path) -> None:
    book.events.coalesce(1).write.parquet(str(tmp_path / "events"))
    arriving = spark.readStream.schema(book.events.schema).parquet(str(tmp_path / "events"))
    once, matcher = {"availableNow": True}, book.matcher()
    counted = {
        row["shard"]: (row["events"], row["matches"])
        for row in shard_counts(book.events, Snapshot.open(whole)).collect()
    }
    for route in ("local", "shuffle"):
        out = tmp_path / route
        running = stream(arriving, whole, out / "hits", out / "checkpoint", columns=["row"], trigger=once, route=route)
        running.await_end(100)
        (report,) = running.reports()
        wanted = matcher.match_many(book.given)
        assert (report.rows, report.matches) == (EVENTS, wanted.num_rows)
        found = answers(read_matches(spark, out / "hits").orderBy("row"))
        assert {row: sorted(own) for row, own in found.items()} == {
            row: sorted(own) for row, own in expected(wanted).items()
        }
        if route == "shuffle":
            assert report.shards is None
            continue
        assert report.shards is not None and len(report.shards) == 7
        assert {i: tuple(pair) for i, pair in enumerate(report.shards) if pair[0]} == counted
        assert sum(matches for _, matches in report.shards) == wanted.num_rows
        assert "of 7 shards per event" in str(report)


def test_types_that_change(spark: SparkSession, tmp_path: Path) -> None:
    """Doubles for whole bounds; then fractional bounds; then constants without room between; then big numbers."""
    rows = [{"id": f"s{i:03d}", "condition": f"a > {i} AND b = 'v{i % 5}'"} for i in range(40)]
    snapshot = Snapshot.publish(book_frame(spark, rows), tmp_path / "s", shards=3)
    matcher = matcher_of(rows)
    given = [{"a": i / 2, "b": f"v{i % 7}"} for i in range(50)]
    frame = spark.createDataFrame([(i, e["a"], e["b"]) for i, e in enumerate(given)], "row long, a double, b string")
    for _ in range(2):
        assert answers(match(frame, snapshot, 5, columns=["row"])) == expected(matcher.top_k_many(given, 5))
        change = [("add", "half", "a > 2.5 AND b > 'v1' AND b < 'v1zzz'"), ("remove", "s007", None)]
        changes = spark.createDataFrame(change, "op string, id string, condition string")
        if "half" not in matcher:
            snapshot = snapshot.apply(changes, on_error="reject")
            if not snapshot.info.rejected:
                matcher.add("half", change[0][2])
            matcher.remove("s007")
    deep = [("add", f"deep{i}", f"b > 'v1{'a' * i}' AND b < 'v1{'a' * i}b'") for i in range(70)]
    snapshot = snapshot.apply(spark.createDataFrame(deep, "op string, id string, condition string"))
    for _, one, condition in deep:
        matcher.add(one, condition)
    assert answers(match(frame, snapshot, columns=["row"])) == expected(matcher.match_many(given))
    assert snapshot.compact(shards=1).shards == 1
    assert answers(match(frame, snapshot.latest(), columns=["row"])) == expected(matcher.match_many(given))
    again = snapshot.latest().compact(shards=4)
    assert again.shards == 4
    assert answers(match(frame, again, columns=["row"])) == expected(matcher.match_many(given))
    big = [("add", f"big{i}", f"a >= {2**53 + i} OR a = {i}") for i in range(3)]
    wide = again.apply(spark.createDataFrame(big, "op string, id string, condition string"))
    assert wide.info.kind == "full" and wide.shards == 4
    for _, one, condition in big:
        matcher.add(one, condition)
    whole = [{"a": 2**53 + i, "b": "v1"} for i in range(-2, 4)] + [{"a": i, "b": "v2"} for i in range(4)]
    longs = spark.createDataFrame([(i, e["a"], e["b"]) for i, e in enumerate(whole)], "row long, a long, b string")
    for asked, rows in ((frame, given), (longs, whole)):
        assert answers(match(asked, wide, columns=["row"])) == expected(matcher.match_many(rows))


def test_few_shards_in_memory(book: Book, spark: SparkSession, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, with room for no shard at all: pages leave and come back."""
    monkeypatch.setattr(lazy, "RESIDENT", 0)
    left: list[Any] = []
    leave = lazy.LazySegment.leave
    monkeypatch.setattr(lazy.LazySegment, "leave", lambda self: left.append(self) or leave(self))
    snapshot = Snapshot.open(whole)
    opened = open_for_search(snapshot.path, snapshot.version)
    assert not any("_opened" in one.__dict__ for one in opened.segments)
    searcher = search_of(spark, snapshot, None, "exact", None, None).searcher(opened)
    column = [row.get("i0") for row in book.given]
    given = Batch(encode_columns(opened.schema, [("i0", pa.array(column, pa.int64()))], len(column)), {}, None)
    first, second = searcher.answers(given), searcher.answers(given)
    assert len(left) > 3
    assert first.subscriptions.equals(second.subscriptions) and len(first.scores)
    assert first.counts[:, 0].max() <= EVENTS


def test_what_cannot_be(spark: SparkSession, book: Book, whole: Path, tmp_path: Path) -> None:
    for shards in (0, 10_000, True, "4"):
        with pytest.raises(earmark.EarmarkError, match="expected a number of shards from 1 to 9,999"):
            Snapshot.publish(book.subscriptions, tmp_path / "s", shards=shards)  # type: ignore[arg-type]
    snapshot = Snapshot.open(whole)
    with pytest.raises(earmark.EarmarkError, match="route: expected 'local' or 'shuffle'"):
        match(book.events, snapshot, route="far")
    with pytest.raises(earmark.EarmarkError, match="replicas: expected a number"):
        match(book.events, snapshot, route="shuffle", replicas=0)
    for place, entry in (("shard", snapshot.record["segments"][3]), ("router", snapshot.record["router"])):
        broken = Path(shutil.copytree(whole, tmp_path / place))
        file = broken / "segments" / entry["file"]
        content = bytearray(file.read_bytes())
        content[-1] ^= 1
        file.write_bytes(content)
        with pytest.raises(earmark.TableError, match="damaged"):
            Snapshot.open(broken)


def test_no_subscriptions(spark: SparkSession, book: Book, tmp_path: Path) -> None:
    nothing = Snapshot.publish(
        book.subscriptions.where("id = ''"), tmp_path / "s", attributes=generate.SCHEMA, shards=3
    )
    assert (len(nothing), nothing.shards) == (0, 3)
    assert match(book.events, nothing, columns=["row"]).count() == 0


def test_many_answers_of_an_event_are_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers come event by event; after every SALTED of one event the next partition is meant."""
    monkeypatch.setattr(shuffle, "SALTED", 2)
    salts = shuffle._salts(np.array([0, 0, 0, 0, 0, 3, 7, 7, 7]))
    assert salts.tolist() == [0, 0, 1, 1, 2, 0, 0, 0, 1]


def test_spread_answers_are_the_same(
    spark: SparkSession, book: Book, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an event's answers from one shard are in several partitions."""
    snapshot, matcher = Snapshot.open(whole), book.matcher()
    monkeypatch.setattr(shuffle, "search_batches", partial(salted_batches, 3))
    steps = shuffle.steps(prepared(book.events, snapshot, columns=["row"]), snapshot.record, 1)
    assert steps.found.agg({shuffle.SALT: "max"}).collect()[0][0] > 1
    wanted = expected(matcher.match_many(book.given))
    found = {row: sorted(own) for row, own in answers(steps.result).items()}
    assert found == {row: sorted(own) for row, own in wanted.items()}
    best = match(book.events, snapshot, 4, columns=["row"], route="shuffle")
    assert answers(best) == expected(matcher.top_k_many(book.given, 4))


def test_a_hot_shard_has_several_places(spark: SparkSession, tmp_path: Path) -> None:
    """With replicas="auto", by a sample of the events."""
    rows = [{"id": f"s{n:03d}", "condition": f"a BETWEEN {n} AND {n + 1}"} for n in range(64)]
    snapshot = Snapshot.publish(book_frame(spark, rows), tmp_path / "s", shards=4)
    events = spark.range(2_000).selectExpr("id AS row", "CAST(IF(id % 50 = 0, id % 64, 7) AS INT) AS a").repartition(2)
    ready = prepared(events, snapshot, columns=["row"])
    first = shuffle._places(ready, snapshot.segments, "auto")
    places = np.diff(first)
    hot = max(shard_counts(events, snapshot).collect(), key=lambda row: row["events"])["shard"]
    assert places[hot] > 1
    assert (np.delete(places, hot) == 1).all()
    found = match(events, snapshot, columns=["row"], route="shuffle", replicas="auto")
    assert sorted(map(tuple, found.collect())) == sorted(map(tuple, match(events, snapshot, columns=["row"]).collect()))
