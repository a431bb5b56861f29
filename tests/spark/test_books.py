"""One folder for Matcher and Spark: what either wrote the other opens, changes and writes again, with equal answers."""

from __future__ import annotations

import random
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.oracle import generate
from tests.spark.books import answers, book_frame, event_frame, events, expected, matcher_of, subscriptions

from earmark import Matcher
from earmark.spark import Snapshot, match

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

BOOK, EVENTS = 90, 40
SCOPE = {"tenant": "acme"}


class Given:
    """Random events of every type, as both sides take them."""

    def __init__(self, spark: SparkSession) -> None:
        self.rows = events("one folder", EVENTS)
        self.frame = event_frame(spark, self.rows).cache()

    def check(self, path: Path, matcher: Matcher, **options: Any) -> Snapshot:
        """Spark and a matcher that opens the folder answer as this one does: all, the best, relaxed, with a scope."""
        loaded, snapshot = Matcher.load(path), Snapshot.open(path)
        assert loaded.ids() == matcher.ids() and len(snapshot) == len(matcher)
        assert [loaded[one] for one in loaded.ids()[:20]] == [matcher[one] for one in matcher.ids()[:20]]
        loaded.check()
        weights = {"i0": 0.25, "s0": 3.0}
        for k, mode, scope in ((None, "exact", None), (4, "exact", None), (3, "relaxed", None), (None, "exact", SCOPE)):
            if k is None:
                wanted = expected(matcher.match_many(self.rows, scope=scope))
                assert expected(loaded.match_many(self.rows, scope=scope)) == wanted
                found = match(self.frame, snapshot, scope=scope, columns=["row"], **options)
            else:
                wanted = expected(matcher.top_k_many(self.rows, k, mode=mode, weights=weights))  # type: ignore[arg-type]
                assert expected(loaded.top_k_many(self.rows, k, mode=mode, weights=weights)) == wanted  # type: ignore[arg-type]
                found = match(self.frame, snapshot, k, mode=mode, weights=weights, columns=["row"], **options)  # type: ignore[arg-type]
            assert answers(found) == wanted, (k, mode, scope)
        return snapshot


@pytest.fixture(scope="module")
def given(spark: SparkSession) -> Given:
    return Given(spark)


def changed(matcher: Matcher, rng: random.Random, spare: list[dict[str, Any]], count: int = 6) -> None:
    """Some subscriptions more, some fewer, some others."""
    for row in [spare.pop() for _ in range(count)]:
        matcher.add(**row)
    for one in rng.sample(matcher.ids(), count):
        matcher.remove(one)
    for one in rng.sample(matcher.ids(), count):
        row = spare.pop()
        matcher.update(one, row["condition"], weights=row["weights"], score=row["score"], tags=row["tags"])


def changes_of(before: Matcher, after: Matcher) -> list[dict[str, Any]]:
    """The changes from one to the other, as rows."""
    made: list[dict[str, Any]] = [{"op": "remove", "id": one} for one in before.ids() if one not in after]
    for one in after.ids():
        row = after[one]
        if one not in before or before[one] != row:
            own = {"condition": row.condition, "weights": row.weights, "score": row.score, "tags": row.tags}
            made.append({"op": "upsert", "id": one, **own})
    return made


def changes_frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    from pyspark.sql.types import IntegerType, StringType, StructType

    fields = StructType().add("id", StringType()).add("op", StringType()).add("n", IntegerType())
    ops = spark.createDataFrame([(row["id"], row["op"], n) for n, row in enumerate(rows)], fields)
    return book_frame(spark, [{"condition": None, **row} for row in rows]).join(ops, "id")


@pytest.mark.parametrize("index", ["be_star_tree", "scan"])
def test_what_a_matcher_saved(spark: SparkSession, given: Given, tmp_path: Path, index: str) -> None:
    """A tail, removed slots, updates; then changes by Spark, and by a matcher again."""
    rng, path = random.Random(index), tmp_path / "book"
    spare = subscriptions(f"saved {index}", 3 * BOOK)
    matcher = matcher_of([spare.pop() for _ in range(BOOK)], attributes=generate.SCHEMA, index=index)
    matcher.save(path)
    given.check(path, matcher)
    changed(matcher, rng, spare)
    matcher.save(path)
    snapshot = given.check(path, matcher)
    before = Matcher.load(path)
    changed(matcher, rng, spare)
    snapshot = snapshot.apply(changes_frame(spark, changes_of(before, matcher)), order_by="n")
    snapshot = given.check(path, matcher)
    assert snapshot.info.kind == ("delta" if index != "scan" else "full")
    matcher = Matcher.load(path)
    changed(matcher, rng, spare)
    matcher.save(path)
    snapshot = given.check(path, matcher)
    assert snapshot.compact(shards=4).shards == 4
    snapshot = given.check(path, matcher)
    assert [one.number for one in snapshot.versions()][-1] == 5
    given.check(path, matcher, route="shuffle")


@pytest.mark.parametrize("shards", [1, 5])
def test_what_spark_published(spark: SparkSession, given: Given, tmp_path: Path, shards: int) -> None:
    """Shards and changes; opened by a matcher, changed, saved, matched by Spark; and changed there again."""
    rng, path = random.Random(shards), tmp_path / "book"
    spare = subscriptions(f"published {shards}", 3 * BOOK)
    rows = [spare.pop() for _ in range(BOOK)]
    matcher = matcher_of(rows, attributes=generate.SCHEMA)
    snapshot = Snapshot.publish(book_frame(spark, rows), path, attributes=generate.SCHEMA, shards=shards)
    given.check(path, matcher)
    before = Matcher.load(path)
    changed(matcher, rng, spare)
    snapshot = snapshot.apply(changes_frame(spark, changes_of(before, matcher)), order_by="n")
    assert (snapshot.info.kind, snapshot.shards) == ("delta", shards)
    given.check(path, matcher)
    opened = Matcher.load(path)
    assert opened.index == "auto"
    changed(opened, rng, spare)
    opened.save(path)
    snapshot = given.check(path, opened)
    assert snapshot.info.kind == "delta" and snapshot.info.base == 1
    older = Matcher.load(path, version=2)
    assert older.ids() == matcher.ids()
    before = Matcher.load(path)
    changed(opened, rng, spare)
    snapshot.apply(changes_frame(spark, changes_of(before, opened)), order_by="n")
    given.check(path, opened)
    given.check(path, opened, route="shuffle")


NUMBERS = [
    "x > 5 AND x < 9.5",
    f"x = {2**53 + 1}",
    "x <= 0.1",
    "x IN (1, 2.5, 1e300)",
    f"x > {-(2**60) - 1} AND x < {-(2**60) + 1}",
    "i >= 9223372036854775807",
    "f = 0.1D OR f > 1e308",
    "m = 12.34 OR m < -99999.99",
    "d >= '2024-02-29' AND d < '2024-03-01'",
    "t > TIMESTAMP '2024-02-29 11:59:59.999999'",
    "b OR NOT c",
    "s LIKE 'é%' OR s > 'x'",
    "x IS NULL AND s IS NOT NULL",
    f"y != {2**62} AND y >= 0.5",
]
TYPES = {"i": "integer", "f": "float", "m": "decimal(9,2)", "d": "date", "t": "timestamp", "b": "boolean"}
VALUES: list[dict[str, Any]] = [
    {"x": 6, "i": 2**63 - 1, "f": 0.1, "m": Decimal("12.34"), "d": date(2024, 2, 29), "b": True, "s": "é!"},
    {"x": 2**53 + 1, "i": 2**63 - 2, "f": float("inf"), "m": Decimal("-100000.00"), "d": date(2024, 3, 1), "c": False},
    {"x": 2**53, "f": float("nan"), "t": datetime(2024, 2, 29, 12), "s": "xa", "y": 2**62},
    {"x": -(2**60), "t": datetime(2024, 2, 29, 11, 59, 59, 999_999), "s": "x", "y": 2**62 + 1},
    {"x": 0, "b": False, "c": True, "y": 1},
    {"s": "", "y": 0},
    {},
]


@pytest.mark.parametrize("shards", [1, 3])
def test_numbers_of_every_kind(spark: SparkSession, tmp_path: Path, shards: int) -> None:
    """Declared and learned ones, and such as are beyond what a double holds: first by Spark, then by a matcher."""
    fields = "row long, x long, i long, f double, m decimal(9,2), d date, t timestamp, b boolean, c boolean, s string"
    names = ["x", "i", "f", "m", "d", "t", "b", "c", "s", "y"]
    data = [(row, *(event.get(name) for name in names)) for row, event in enumerate(VALUES)]
    frame = spark.createDataFrame(data, f"{fields}, y long").coalesce(1)
    rows = [{"id": f"n{i:02}", "condition": text} for i, text in enumerate(NUMBERS)]
    path = tmp_path / "book"

    def check(matcher: Matcher) -> None:
        wanted = expected(matcher.match_many(VALUES))
        assert wanted
        assert answers(match(frame, Snapshot.open(path), columns=["row"])) == wanted
        loaded = Matcher.load(path)
        assert expected(loaded.match_many(VALUES)) == wanted
        loaded.check()

    few = [row for row in rows if str(2**53 + 1) not in row["condition"]]
    matcher = matcher_of(few, attributes=TYPES)
    snapshot = Snapshot.publish(book_frame(spark, few), path, attributes=TYPES, shards=shards)
    check(matcher)
    wide = spark.createDataFrame([("add", "n01", NUMBERS[1])], "op string, id string, condition string")
    snapshot.apply(wide)
    matcher.add("n01", NUMBERS[1])
    check(matcher)
    matcher = Matcher.load(path)
    matcher.add("late", f"y = {2**62 + 1} OR i < {-(2**63) + 1} OR s = 'between'")
    matcher.remove("n03")
    matcher.save(path)
    check(matcher)
