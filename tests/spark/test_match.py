"""A DataFrame of events against a snapshot: the answers are those of Spark SQL and of the Matcher, to the last bit."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.oracle import generate
from tests.spark.books import answers, book_frame, event_frame, events, expected, matcher_of, subscriptions
from tests.spark.common import truths

import earmark
from earmark.spark import Snapshot, match

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

BOOK, EVENTS = 90, 50


class Case:
    """A random book, published, and the Matcher that has the same."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.rows = subscriptions("match", BOOK)
        self.matcher = matcher_of(self.rows, attributes=generate.SCHEMA)
        self.snapshot = Snapshot.publish(book_frame(spark, self.rows), folder, attributes=generate.SCHEMA)
        self.events = events("match", EVENTS)
        self.frame = event_frame(spark, self.events).cache()


@pytest.fixture(scope="module")
def case(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(spark, tmp_path_factory.mktemp("snapshots") / "book")


def small(spark: SparkSession, folder: Path, conditions: list[str], **options: Any) -> Snapshot:
    rows = [{"id": f"s{i}", "condition": text} for i, text in enumerate(conditions)]
    return Snapshot.publish(book_frame(spark, rows, 2), folder, **options)


def pairs(frame: DataFrame) -> set[tuple[Any, Any]]:
    return {(row[0], row["subscription"]) for row in frame.collect()}


# --- the same answers ------------------------------------------------------------------------------------------------


def test_all_matches_are_spark_sqls(case: Case) -> None:
    found = answers(match(case.frame, case.snapshot, columns=["row"]))
    said = truths(case.frame, [row["condition"] for row in case.rows])
    for subscription, verdicts in zip(case.rows, said, strict=True):
        kept = {row for row, verdict in enumerate(verdicts) if verdict is True}
        assert {row for row, own in found.items() if subscription["id"] in dict(own)} == kept, subscription["condition"]


def test_all_matches_are_the_matchers(case: Case) -> None:
    assert answers(match(case.frame, case.snapshot)) == expected(case.matcher.match_many(case.events))


@pytest.mark.parametrize("mode", ["exact", "relaxed"])
@pytest.mark.parametrize("k", [1, 7])
def test_best_are_the_matchers(case: Case, mode: str, k: int) -> None:
    found = answers(match(case.frame, case.snapshot, k, mode=mode, columns=["row"]))
    assert found == expected(case.matcher.top_k_many(case.events, k, mode=mode))


def test_scope_and_weights(case: Case) -> None:
    scope, weights = {"tenant": "acme"}, {"i0": 0.3, "s 1": 0.0, "nowhere": 2.0}
    found = answers(match(case.frame, case.snapshot, 5, scope=scope, weights=weights))
    assert found == expected(case.matcher.top_k_many(case.events, 5, scope=scope, weights=weights))
    assert not answers(match(case.frame, case.snapshot, scope={"tenant": "nobody"}))


def test_weights_of_each_event(spark: SparkSession, case: Case) -> None:
    own = [{"i0": i / 7, "f0": 2.0} if i % 3 else None for i in range(EVENTS)]
    column = spark.createDataFrame([(i, w) for i, w in enumerate(own)], "row long, weights map<string,double>")
    found = answers(match(case.frame.join(column, "row"), case.snapshot, 4, weights="weights", columns=["row"]))
    assert found == expected(case.matcher.top_k_many(case.events, 4, weights=own))


def test_other_scores_are_the_matchers(case: Case) -> None:
    matcher = matcher_of(case.rows, attributes=generate.SCHEMA, combine="product")
    found = answers(match(case.frame, case.snapshot, 4, combine="product", columns=["row"]))
    assert found == expected(matcher.top_k_many(case.events, 4))
    found = answers(match(case.frame, case.snapshot, combine="product", columns=["row"]))
    assert found == expected(matcher.match_many(case.events))


def test_intervals(spark: SparkSession, case: Case) -> None:
    from pyspark.sql.functions import col, struct, when

    boxed = case.frame.where("i0 is null or i0 < 1000000").select(
        "row",
        when(col("i0").isNotNull(), struct(col("i0").alias("lo"), (col("i0") + 2).alias("hi"))).alias("i0"),
        struct(col("d0").alias("lo"), col("d0").alias("hi")).alias("d0"),
        "s 1",
    )
    rows = {row["row"]: row for row in boxed.collect()}
    given = [
        {
            "i0": earmark.Interval(row["i0"]["lo"], row["i0"]["hi"]) if row["i0"] else None,
            "d0": earmark.Interval(row["d0"]["lo"], row["d0"]["hi"]),
            "s 1": row["s 1"],
        }
        for row in rows.values()
    ]
    wanted = expected(case.matcher.match_many(given))
    numbers = list(rows)
    assert answers(match(boxed, case.snapshot, columns=["row"])) == {numbers[i]: own for i, own in wanted.items()}


def test_a_stream(spark: SparkSession, case: Case, tmp_path: Path) -> None:
    case.frame.write.parquet(str(tmp_path / "events"))
    stream = spark.readStream.schema(case.frame.schema).parquet(str(tmp_path / "events"))
    query = (
        match(stream, case.snapshot, 3, columns=["row"])
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination(60)
    written = spark.read.parquet(str(tmp_path / "out"))
    wanted = expected(case.matcher.top_k_many(case.events, 3))
    assert {k: sorted(v) for k, v in answers(written).items()} == {k: sorted(v) for k, v in wanted.items()}
    assert {row[0] for row in written.select("snapshot_version").distinct().collect()} == {case.snapshot.version}


@pytest.mark.parametrize("partitions", [1, 5])
def test_learned_types_and_scores_whatever_the_partitioning(
    spark: SparkSession, tmp_path: Path, partitions: int
) -> None:
    """Types and the order in which scores are summed follow the order of insertion, as one Matcher has them."""
    names = ["x", "a", "m", "c", "z"]
    rows = [
        {
            "id": i,
            "condition": " AND ".join(f"{n} {'>' if i % 2 else '<='} {i % 5 + j * (0.5 if i < 2 else 1)}"
                                      for j, n in enumerate(names[i % 3 :] + names[: i % 3])),
            "weights": {n: 0.1 * (i % 7) + j / 3 for j, n in enumerate(names)},
        }
        for i in range(40)
    ]  # fmt: skip
    matcher = matcher_of(rows)
    snapshot = Snapshot.publish(book_frame(spark, rows, partitions), tmp_path / "s")
    assert snapshot.attributes == matcher.stats()["attributes"]
    given = [{n: (i * 3 + j) % 7 for j, n in enumerate(names)} for i in range(30)]
    frame = spark.createDataFrame([(i, *e.values()) for i, e in enumerate(given)], ["row", *names])
    assert answers(match(frame, snapshot, 10, mode="relaxed")) == expected(
        matcher.top_k_many(given, 10, mode="relaxed")
    )


def test_integer_ids(spark: SparkSession, tmp_path: Path) -> None:
    rows = subscriptions("integers", 30, integer_ids=True)
    snapshot = Snapshot.publish(book_frame(spark, rows), tmp_path / "s", attributes=generate.SCHEMA)
    given = events("integers", 20)
    result = match(event_frame(spark, given), snapshot)
    assert result.schema["subscription"].dataType.typeName() == "long"
    matcher = matcher_of(rows, attributes=generate.SCHEMA)
    assert answers(result) == expected(matcher.match_many(given))


# --- what an event looks like ----------------------------------------------------------------------------------------


def test_nested_structs_and_maps_by_dotted_name(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = small(
        spark, tmp_path / "s", ["user.age > 30", "user.home.city = 'Oslo'", "tags.colour = 'red'", "a = 1"]
    )
    frame = spark.createDataFrame(
        [(1, (35, ("Oslo",)), {"colour": "red"}, 1), (2, (25, ("Rome",)), {"size": "red"}, None), (3, None, None, 1)],
        "id int, user struct<age:int, home:struct<city:string>>, tags map<string,string>, a int",
    )
    found = pairs(match(frame, snapshot))
    assert found == {(1, "s0"), (1, "s1"), (1, "s2"), (1, "s3"), (3, "s3")}


@pytest.mark.parametrize("event", [None, "attrs"])
def test_a_map_is_the_event(spark: SparkSession, tmp_path: Path, event: str | None) -> None:
    conditions = ["a > 2", "b IS NULL", "a < 2.5 AND b >= 1", "c IS NOT NULL"]
    snapshot = small(spark, tmp_path / "s", conditions)
    given: list[dict[str, Any] | None] = [
        {"a": 2.5},
        {"b": 1.0, "a": 1.0},
        {},
        None,
        {"c": 0.0, "other": 3.0},
        {"a": None},
    ]
    frame = spark.createDataFrame(list(enumerate(given)), "row int, attrs map<string,double>").coalesce(1)
    wanted = matcher_of([{"id": f"s{i}", "condition": c} for i, c in enumerate(conditions)])
    assert answers(match(frame, snapshot, event=event)) == expected(wanted.match_many([e or {} for e in given]))


def test_a_struct_is_the_event(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = small(spark, tmp_path / "s", ["a = 1", "b.c = 2"])
    frame = spark.createDataFrame([(7, (1, (2,)))], "a int, e struct<a:int, b:struct<c:int>>")
    assert pairs(match(frame, snapshot, event="e")) == {(7, "s0"), (7, "s1")}


def test_doubles_for_whole_bounds(spark: SparkSession, tmp_path: Path) -> None:
    """They need no other form of the version: it holds what it was published with."""
    conditions = ["a > 3", "a >= 3", "a BETWEEN 1 AND 2", "b = 2 AND a < 4", "a IS NULL"]
    snapshot = small(spark, tmp_path / "s", conditions)
    given = [{"a": v, "b": 2} for v in (3.5, 3.0, float("nan"), 1.25, None, 2.0000001)]
    frame = spark.createDataFrame([(i, e["a"], e["b"]) for i, e in enumerate(given)], "row int, a double, b int")
    wanted = matcher_of([{"id": f"s{i}", "condition": c} for i, c in enumerate(conditions)])
    assert answers(match(frame, snapshot)) == expected(wanted.match_many(given))
    assert answers(match(frame, snapshot, 3)) == expected(wanted.top_k_many(given, 3))
    assert not (tmp_path / "s" / "derived").exists()
    changed = snapshot.apply(spark.createDataFrame([("add", "new", "a > 3")], ["op", "id", "condition"]))
    assert ("new", 1.0) in answers(match(frame, changed))[0]


def test_doubles_beyond_what_a_float_holds(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = small(spark, tmp_path / "s", [f"a = {2**60}"])
    frame = spark.createDataFrame([(float(2**60),), (1.0,)], "a double")
    assert match(frame, snapshot).count() == 1
    conditions = [f"a = {2**60 + 1}", "a > 0.5", f"a <= {2**60}"]
    snapshot = small(spark, tmp_path / "t", conditions)
    wanted = matcher_of([{"id": f"s{i}", "condition": c} for i, c in enumerate(conditions)])
    for type_, values in (
        ("double", [1.5, 0.5, float(2**60), float("nan"), None]),
        ("long", [2**60, 2**60 + 1, 2**60 - 1, 0, 1]),
        ("decimal(38,1)", [Decimal(2**60), Decimal(2**60 + 1), Decimal("0.5"), Decimal("0.6"), None]),
    ):
        frame = spark.createDataFrame(list(enumerate(values)), f"row int, a {type_}")
        assert answers(match(frame, snapshot)) == expected(wanted.match_many([{"a": v} for v in values])), type_


def test_attributes_of_which_only_null_was_asked(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = small(spark, tmp_path / "s", ["a IS NULL", "a IS NOT NULL", "b IS NOT NULL OR c = 1"])
    assert snapshot.attributes == {"a": None, "b": None, "c": "number"}
    frame = spark.createDataFrame([(1, "text", [1]), (2, None, None)], "row int, a string, b array<int>")
    assert pairs(match(frame, snapshot, columns=["row"])) == {(1, "s1"), (1, "s2"), (2, "s0")}


def test_times_in_the_sessions_zone(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = small(spark, tmp_path / "s", ["t >= TIMESTAMP '2024-05-01 12:00:00'"], zone="Europe/Oslo")
    frame = spark.sql("SELECT TIMESTAMP_NTZ '2024-05-01 12:00:00' AS t")
    with pytest.raises(
        earmark.EarmarkError, match="time zone is 'UTC', but the snapshot reads times such as 't' in 'Eu"
    ):
        match(frame, snapshot)
    try:
        spark.conf.set("spark.sql.session.timeZone", "Europe/Oslo")
        assert match(frame, snapshot).count() == 1
        assert match(spark.sql("SELECT TIMESTAMP '2024-05-01 11:59:59' AS t"), snapshot).count() == 0
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_case_of_names_follows_the_session(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = small(spark, tmp_path / "s", ["Age > 3"])
    frame = spark.createDataFrame([(4,)], "age int")
    assert match(frame, snapshot).count() == 1
    with pytest.raises(earmark.EarmarkError, match="'Age' and 'age' differ only by case"):
        small(spark, tmp_path / "t", ["Age > 3", "age < 3"])
    try:
        spark.conf.set("spark.sql.caseSensitive", "true")
        both = small(spark, tmp_path / "t", ["Age > 3", "age < 3"])
        assert pairs(match(spark.createDataFrame([(1, 5, 5), (2, 1, 1)], "row int, Age int, age int"), both)) == {
            (1, "s0"),
            (2, "s1"),
        }
        with pytest.raises(earmark.EarmarkError, match="no column of the DataFrame is an attribute"):
            match(frame, snapshot)
    finally:
        spark.conf.set("spark.sql.caseSensitive", "false")
    with pytest.raises(earmark.EarmarkError, match="differ only by case"):
        match(frame, both)


# --- carried columns, and errors -------------------------------------------------------------------------------------


def test_carried_columns_keep_their_types(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = small(spark, tmp_path / "s", ["a > 0"])
    frame = spark.sql(
        "SELECT id AS a, named_struct('x', array(1, 2), 'y', map('k', 1.5D)) AS nested, TIMESTAMP '2024-01-01' AS t, "
        "CAST(1.25 AS DECIMAL(20, 3)) AS d, X'00ff' AS b, CAST(NULL AS STRING) AS nothing, DATE '2024-01-01' AS day, "
        "CAST(1 AS TINYINT) AS tiny FROM range(3)"
    )
    result = match(frame, snapshot)
    assert [f.dataType for f in result.schema.fields[:-3]] == [f.dataType for f in frame.schema.fields]
    assert result.columns[-3:] == ["subscription", "score", "snapshot_version"]
    assert result.drop("subscription", "score", "snapshot_version").collect() == frame.where("a > 0").collect()
    assert match(frame, snapshot, columns=[]).columns == ["subscription", "score", "snapshot_version"]


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        ("SELECT 1 AS a", {"k": 0}, "expected a number of results k"),
        ("SELECT 1 AS a", {"mode": "loose"}, "expected 'exact' or 'relaxed' for mode"),
        ("SELECT 1 AS a", {"mode": "relaxed"}, "needs k"),
        ("SELECT 1 AS a", {"columns": ["b"]}, "no column 'b'; its columns are a"),
        ("SELECT 1 AS a", {"columns": "a"}, "expected a list of strings for columns"),
        ("SELECT 1 AS a, 2 AS score", {}, "'score', which is also a column of the result"),
        ("SELECT 1 AS b", {}, "no column of the DataFrame is an attribute of the snapshot, such as 'a'"),
        ("SELECT 1 AS a", {"event": "a"}, "a map of strings in the column 'a', got int"),
        ("SELECT struct(1 AS b) AS e", {"event": "e"}, "no field of 'e' is an attribute"),
        ("SELECT struct(1 AS b) AS a", {}, "expected a struct with the fields lo and hi"),
        ("SELECT 1 AS a", {"weights": "w"}, "the name of a map column, got 'w'"),
        ("SELECT 1 AS a", {"weights": {"a": -1.0}}, "not negative"),
        ("SELECT 1 AS a", {"combine": max}, "expected one of 'sum', 'max', 'min', 'product' on Spark, got <built-in"),
        ("SELECT 1 AS a", {"scope": {"a": 1}}, "a scope must map strings to strings"),
    ],
)
def test_what_cannot_be_asked(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, frame: str, options: dict[str, Any], message: str
) -> None:
    folder = tmp_path_factory.getbasetemp() / "asked"
    snapshot = Snapshot.open(folder) if folder.exists() else small(spark, folder, ["a = 1"])
    with pytest.raises(earmark.EarmarkError, match=message):
        match(spark.sql(frame), snapshot, **options)
