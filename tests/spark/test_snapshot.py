"""Publishing, changing, keeping and opening snapshots."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.oracle import generate
from tests.spark.books import answers, book_frame, event_frame, events, expected, in_order, matcher_of, subscriptions

import earmark
from earmark import TableError
from earmark.spark import Conflict, Snapshot, intake, match
from earmark.spark.snapshot import DEFAULT_INDEX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

OWN = ["CURRENT", "LOCK", "book.json", "keys", "segments", "versions"]


def book(spark: SparkSession, *conditions: str, partitions: int = 2) -> DataFrame:
    return book_frame(spark, [{"id": f"s{i}", "condition": c} for i, c in enumerate(conditions)], partitions)


def changes_frame(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), "op string, id string, condition string")


def found(spark: SparkSession, snapshot: Snapshot, **event: Any) -> list[Any]:
    frame = spark.createDataFrame([tuple(event.values())], list(event))
    return [row["subscription"] for row in match(frame, snapshot, columns=[]).collect()]


# --- publishing ------------------------------------------------------------------------------------------------------


def test_a_version_says_what_it_is(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = Snapshot.publish(book(spark, "a > 1", "b = 'x' OR c IS NULL"), tmp_path / "s", attributes={"d": "date"})
    assert (snapshot.version, len(snapshot), snapshot.zone) == (1, 2, "UTC")
    assert snapshot.attributes == {"d": "date", "a": "number", "b": "string", "c": None}
    info = snapshot.info
    assert (info.parent, info.kind, info.base, info.subscriptions, info.rejected) == (None, "full", 1, 2, 0)
    assert info.index == DEFAULT_INDEX
    assert snapshot.rejects.count() == 0
    again = Snapshot.publish(book(spark, "a > 5"), tmp_path / "s")
    assert (again.version, again.info.parent, len(again)) == (2, 1, 1)
    assert [v.number for v in again.versions()] == [1, 2]
    assert Snapshot.open(str(tmp_path / "s")).version == 2
    assert len(Snapshot.open(tmp_path / "s", 1)) == 2
    assert snapshot.latest().version == 2
    assert found(spark, snapshot, a=2) == ["s0", "s1"] and found(spark, again, a=6) == ["s0"]


BAD = [
    ("a1", "a > 1"),
    ("bad syntax", "a >"),
    ("bad type", "a = 'x'"),
    ("bad function", "upper(b) = 'X'"),
    ("bad null", None),
    (None, "a = 3"),
    ("a2", "a < 9"),
    ("a2", "a < 10"),
    ("", "a < 1"),
]


def test_bad_rows_fail_the_whole(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(BAD, "id string, condition string")
    with pytest.raises(earmark.SubscriptionError) as problem:
        Snapshot.publish(frame, tmp_path / "s")
    text = str(problem.value)
    assert text.startswith("nothing was published, since 7 rows cannot be used: ")
    assert "and 4 more" in text
    assert not (tmp_path / "s" / "CURRENT").exists()
    assert not [one for one in (tmp_path / "s").iterdir() if one.name.startswith(".")]
    with pytest.raises(TableError, match="nothing was published to it yet"):
        Snapshot.open(tmp_path / "s")


def test_bad_rows_are_rejects(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(BAD, "id string, condition string").repartition(3)
    snapshot = Snapshot.publish(frame, tmp_path / "s", on_error="reject")
    rejects = {row["id"]: row["reason"] for row in snapshot.rejects.collect()}
    assert len(snapshot) == 2 and snapshot.info.rejected == 7 == snapshot.rejects.count()
    assert rejects.keys() == {"bad syntax", "bad type", "bad function", "bad null", None, "a2", ""}
    assert "expected a number for 'a' (first used so by subscription 'a1'" in rejects["bad type"]
    assert "given twice" in rejects["a2"] and "the id is NULL" in rejects[None] and "1 to 10,000" in rejects[""]
    assert len(found(spark, snapshot, a=2)) == 2 and "a1" in found(spark, snapshot, a=11)


def test_the_first_in_the_order_says_the_type(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever the partitions learn by themselves: a second pass settles it."""
    rows = [(i, "x = 1" if i in (0, 7, 9) else f"x = 'v{i}'") for i in range(12)]
    frame = spark.createDataFrame(rows, "id long, condition string")
    for partitions in (1, 4):
        snapshot = Snapshot.publish(frame.repartition(partitions), tmp_path / f"s{partitions}", on_error="reject")
        assert snapshot.attributes == {"x": "number"} and len(snapshot) == 3
    late = frame.selectExpr("id", "condition", "-id AS rank")
    snapshot = Snapshot.publish(late, tmp_path / "late", order_by="rank", on_error="reject")
    assert snapshot.attributes == {"x": "string"} and len(snapshot) == 9


def test_order_of_insertion(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(
        [(f"s{i}", "a = 1", i * 7 % 10) for i in range(10)], "id string, condition string, n int"
    )
    by_id = Snapshot.publish(frame.repartition(3), tmp_path / "s")
    assert found(spark, by_id, a=1) == [f"s{i}" for i in range(10)]
    by_n = Snapshot.publish(frame.repartition(3), tmp_path / "s", order_by="n")
    assert found(spark, by_n, a=1) == [f"s{i * 3 % 10}" for i in range(10)]


def test_parts_of_a_partition(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small parts, made here and not by a worker: the same version as from one part."""
    rows = subscriptions("parts", 60)
    whole = Snapshot.publish(book_frame(spark, rows, 1), tmp_path / "whole", attributes=generate.SCHEMA)
    frame = book_frame(spark, rows, 4).toArrow()
    monkeypatch.setattr(intake, "PART_ROWS", 10)

    class Local:
        """As much of a DataFrame as `take_rows` uses."""

        def mapInArrow(self, function: Any, schema: Any) -> Any:
            self.made = [b.to_pydict()["part"] for b in function(iter(frame.to_batches(max_chunksize=7)))]
            return self

        def collect(self) -> list[tuple[str]]:
            return [(name,) for names in self.made for name in names]

    source = intake.source_of(book_frame(spark, rows), None, None, changes=False)._replace(frame=Local())  # type: ignore[arg-type]
    monkeypatch.setattr(intake, "source_of", lambda *given, **named: source)
    split = Snapshot.publish(book_frame(spark, rows), tmp_path / "split", attributes=generate.SCHEMA)
    assert split.record["attributes"] == whole.record["attributes"]
    given = event_frame(spark, events("parts", 30))
    assert answers(match(given, split)) == answers(match(given, whole))


def test_ready_made_bounds(spark: SparkSession, tmp_path: Path) -> None:
    pairs = spark.createDataFrame(
        [(1, 5, 9, "a", 0.5), (2, None, 7, "b", 0.0), (3, 6, None, None, 0.0), (4, None, None, "a", 2.0)],
        "id long, age_lo int, age_hi int, city string, score double",
    ).selectExpr("id", "age_lo", "age_hi", "city AS c1", "city AS c2", "score")
    options = {"age": ("age_lo", "age_hi"), "city": ("c1", "c2")}
    snapshot = Snapshot.publish(pairs, tmp_path / "s", bounds=options)
    matcher = earmark.Matcher()
    matcher.add_many(pairs.toArrow(), bounds=options)
    given = [{"age": a, "city": c} for a in (4, 5, 7, 8, None) for c in ("a", "b", None)]
    frame = spark.createDataFrame(
        [(i, e["age"], e["city"]) for i, e in enumerate(given)], "row int, age int, city string"
    )
    assert answers(match(frame, snapshot, 9)) == expected(matcher.top_k_many(given, 9))
    named = Snapshot.publish(pairs.drop("c1", "c2"), tmp_path / "named")
    assert named.attributes == {"age": "number"}


def test_ready_made_ranges_with_bad_rows(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(i, [("x", i / 2, i / 2 + 1, 1.0), (f"y{i % 3}", 0.0, 5.0, 0.5)]) for i in range(20)]
    rows[7] = (7, [("x", 0.0, 1.0, -3.0)])
    rows[11] = (11, None)
    shape = "id long, ranges array<struct<attribute:string, lo:double, hi:double, weight:double>>"
    frame = spark.createDataFrame(rows, shape).repartition(3)
    snapshot = Snapshot.publish(frame, tmp_path / "s", on_error="reject")
    assert {row["id"]: row["reason"] for row in snapshot.rejects.collect()} == {
        "7": "the weight of 'x' must be finite and not negative, got -3.0",
        "11": "'ranges' is NULL",
    }
    matcher = earmark.Matcher()
    matcher.add_many(frame.where("id not in (7, 11)").orderBy("id").toArrow())
    assert snapshot.attributes == matcher.stats()["attributes"]
    given = [{"x": i / 3, "y0": 1.0, "y1": i - 3.0, "y2": 9.0} for i in range(30)]
    frame = spark.createDataFrame([(i, *e.values()) for i, e in enumerate(given)], ["row", *given[0]])
    assert answers(match(frame, snapshot)) == expected(matcher.match_many(given))


def test_nothing_is_a_book_too(spark: SparkSession, tmp_path: Path) -> None:
    empty = Snapshot.publish(book(spark, "a = 1").where("false"), tmp_path / "s")
    assert len(empty) == 0 and empty
    assert match(spark.createDataFrame([(1,)], ["a"]), empty).count() == 0
    filled = empty.apply(changes_frame(spark, ("add", "x", "a = 1")))
    assert found(spark, filled, a=1) == ["x"]
    assert filled.apply(changes_frame(spark, ("add", "x", "a = 1")).where("false")).version == filled.version
    assert len(filled.apply(changes_frame(spark, ("remove", "x", None))).compact()) == 0


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("'a = 1' AS condition", {}, "no column 'id'"),
        ("1 AS id", {}, "neither a column 'condition', nor 'ranges'"),
        ("1.5D AS id, 'a = 1' AS condition", {}, "expected strings or integers in the column 'id', got double"),
        ("1 AS id, 2 AS condition", {}, "expected strings in the column 'condition', got int"),
        ("1 AS id, 'a = 1' AS condition", {"order_by": "n"}, "no column 'n' to order by"),
        ("1 AS id, 'a = 1' AS condition", {"on_error": "ignore"}, "on_error: expected 'fail' or 'reject'"),
        ("1 AS id, 'a = 1' AS condition", {"index": "magic"}, "there is no index called 'magic'"),
        ("1 AS id, 'a = 1' AS condition", {"zone": "Mars/Base"}, "not a time zone"),
        ("1 AS id, 'a = 1' AS condition", {"attributes": {"a": "whole"}}, "'whole' is not a type"),
        ("1 AS id, 2 AS lo", {"bounds": {"a": ("lo", "hi")}}, "a pair of the DataFrame's columns"),
    ],
)
def test_what_cannot_be_published(
    spark: SparkSession, tmp_path: Path, columns: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(earmark.EarmarkError, match=message):
        Snapshot.publish(spark.sql(f"SELECT {columns}"), tmp_path / "s", **options)
    assert not (tmp_path / "s" / "CURRENT").exists()


# --- changes ---------------------------------------------------------------------------------------------------------


def test_changes_are_those_of_a_matcher(spark: SparkSession, tmp_path: Path) -> None:
    """Random adds, updates, upserts and removals, in a few rounds, and a compaction between: always the Matcher's."""
    rng = random.Random("changes")
    spare = subscriptions("changes", 120)
    rows, spare = spare[:50], spare[50:]
    matcher = matcher_of(rows, attributes=generate.SCHEMA)
    snapshot = Snapshot.publish(book_frame(spark, rows), tmp_path / "s", attributes=generate.SCHEMA)
    given = events("changes", 25)
    frame = event_frame(spark, given).cache()
    for turn in range(4):
        live = matcher.ids()
        touched = rng.sample(live, 9)
        new = in_order([spare.pop() for _ in range(4)])
        made: list[tuple[str, dict[str, Any]]] = [("add", row) for row in new[:2]] + [
            ("upsert", row) for row in new[2:]
        ]
        made += [
            (op, {**spare.pop(), "id": one}) for op, one in zip(["update"] * 3 + ["upsert"] * 3, touched, strict=False)
        ]
        made += [("remove", {"id": one, "condition": None}) for one in touched[6:]]
        for op, row in sorted(made, key=lambda change: change[1]["id"]):
            if op == "remove":
                matcher.remove(row["id"])
            elif row["id"] in matcher:
                matcher.update(row["id"], **{name: row[name] for name in ("condition", "weights", "score", "tags")})
            else:
                matcher.add(**row)
        ops = spark.createDataFrame([(row["id"], op) for op, row in made], "id string, op string")
        changes = book_frame(spark, [row for _, row in made]).join(ops, "id")
        snapshot = snapshot.apply(changes)
        assert snapshot.info.kind == "delta" and snapshot.info.base == (1 if turn < 3 else 5)
        assert len(snapshot) == len(matcher)
        assert answers(match(frame, snapshot)) == expected(matcher.match_many(given))
        if turn == 2:
            snapshot = snapshot.compact()
            assert (snapshot.version, snapshot.info.kind) == (5, "full")
    assert answers(match(frame, snapshot, 4)) == expected(matcher.top_k_many(given, 4))
    scope = {"tier": "gold"}
    assert answers(match(frame, snapshot, scope=scope)) == expected(matcher.match_many(given, scope=scope))
    compacted = snapshot.compact()
    assert answers(match(frame, compacted, 4)) == expected(matcher.top_k_many(given, 4))


def test_changes_that_cannot_be_done(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = Snapshot.publish(book(spark, "a = 1", "a = 2"), tmp_path / "s")
    bad = changes_frame(
        spark,
        ("add", "s0", "a = 3"),
        ("update", "s9", "a = 3"),
        ("remove", "s8", None),
        ("replace", "s1", "a = 3"),
        ("add", "new", "a = 'x'"),
        ("add", "two", "a = 5"),
        ("remove", "two", None),
        ("update", "s1", "a = 4"),
    )
    with pytest.raises(earmark.SubscriptionError, match="nothing was changed, since 6 rows cannot be used"):
        snapshot.apply(bad)
    assert snapshot.latest().version == 1
    changed = snapshot.apply(bad, on_error="reject")
    reasons = {row["id"]: (row["op"], row["reason"]) for row in changed.rejects.collect()}
    assert reasons["s0"] == ("add", "the id 's0' is already in use; 'update' or 'upsert' replaces it")
    assert reasons["s9"] == ("update", "there is no subscription 's9' to update")
    assert reasons["s8"] == ("remove", "there is no subscription 's8' to remove")
    assert "expected add, update, upsert or remove for op, got 'replace'" in reasons["s1"][1]
    assert "given twice" in reasons["two"][1]
    assert "expected a number" in reasons["new"][1]
    assert found(spark, changed, a=4) == ["s1"] and found(spark, changed, a=1) == ["s0"]
    with pytest.raises(Conflict, match=r"version 2 .* was published while this one, begun on version 1"):
        snapshot.apply(changes_frame(spark, ("add", "n", "a = 1")))
    with pytest.raises(earmark.SubscriptionError, match="expected strings as the ids of changes"):
        changed.apply(spark.sql("SELECT 'add' AS op, 1 AS id, 'a = 1' AS condition"))


def test_new_constants_between_old_ones(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = Snapshot.publish(book(spark, "s < 'm'", "s >= 'ma'", "s LIKE 'q%'", "t IS NOT NULL"), tmp_path / "s")
    changed = snapshot.apply(changes_frame(spark, ("add", "n1", "s = 'm'"), ("add", "n2", "s > 'lz' AND t = 'é'")))
    assert changed.info.kind == "delta"
    matcher = matcher_of(
        [
            {"id": f"s{i}", "condition": c}
            for i, c in enumerate(["s < 'm'", "s >= 'ma'", "s LIKE 'q%'", "t IS NOT NULL"])
        ]
    )
    matcher.add_many([("n1", "s = 'm'"), ("n2", "s > 'lz' AND t = 'é'")])
    given = [{"s": s, "t": t} for s in ("l", "lz", "lzz", "m", "m!", "ma", "q", "qz", "z") for t in ("é", "x", None)]
    frame = spark.createDataFrame([(i, e["s"], e["t"]) for i, e in enumerate(given)], "row int, s string, t string")
    wanted = expected(matcher.match_many(given))
    assert answers(match(frame, changed)) == wanted
    assert answers(match(frame, changed.compact())) == wanted


def test_constants_without_room_between(spark: SparkSession, tmp_path: Path) -> None:
    """A change whose strings need other keys makes a full version, with the same answers."""
    from earmark.keys.strings import StringKeys

    snapshot = Snapshot.publish(book(spark, "s = 'a'", "s = 'c'"), tmp_path / "s")
    refused = StringKeys.insert
    try:
        StringKeys.insert = lambda self, constants: False  # type: ignore[method-assign, assignment]
        changed = snapshot.apply(changes_frame(spark, ("add", "n", "s = 'b'")))
    finally:
        StringKeys.insert = refused  # type: ignore[method-assign]
    assert changed.info.kind == "full"
    assert [found(spark, changed, s=s) for s in "abcd"] == [["s0"], ["n"], ["s1"], []]


def test_fractional_bounds_after_whole_ones(spark: SparkSession, tmp_path: Path) -> None:
    first = spark.createDataFrame([("a", 1, 5)], "id string, x_lo int, x_hi int")
    snapshot = Snapshot.publish(first, tmp_path / "s")
    assert snapshot.attributes == {"x": "number"}
    more = spark.createDataFrame([("add", "b", 4.5, 7.0)], "op string, id string, x_lo double, x_hi double")
    changed = snapshot.apply(more)
    assert changed.attributes == {"x": "number"} and changed.info.kind == "delta"
    assert [found(spark, changed, x=x) for x in (4.25, 4.75, 6.0)] == [["a"], ["a", "b"], ["b"]]


@pytest.mark.parametrize("shards", [1, 3])
def test_a_type_is_free_again_after_compaction(spark: SparkSession, tmp_path: Path, shards: int) -> None:
    conditions = ["age > '30' AND b IS NULL", "age IS NOT NULL", "c = 1", "c = 2 AND age IS NULL"]
    snapshot = Snapshot.publish(book(spark, *conditions), tmp_path / "s", shards=shards)
    assert snapshot.attributes["age"] == "string"
    compacted = snapshot.apply(changes_frame(spark, ("remove", "s0", None))).compact()
    assert compacted.attributes == {"age": None, "b": None, "c": "number"}
    changed = compacted.apply(changes_frame(spark, ("add", "n", "age > 30")))
    assert changed.attributes["age"] == "number"
    assert [found(spark, changed, age=v, c=2) for v in (31, 30)] == [["s1", "n"], ["s1"]]


def test_bounds_beyond_what_a_double_holds(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = Snapshot.publish(book(spark, "x > 5", "x = 0.5 OR x IS NULL"), tmp_path / "s")
    changed = snapshot.apply(changes_frame(spark, ("add", "n", f"x = {2**53 + 1}")))
    assert changed.info.kind == "full"
    assert [found(spark, changed, x=x) for x in (2**53 + 1, 2**53, 5)] == [["s0", "n"], ["s0"], []]
    assert [found(spark, changed, x=x) for x in (0.5, 5.5)] == [["s1"], ["s0"]]
    more = changed.apply(changes_frame(spark, ("add", "m", f"x < {-(2**60) - 1} OR x = 7"), ("remove", "n", None)))
    assert more.info.kind == "delta"
    assert [found(spark, more, x=x) for x in (-(2**60) - 2, -(2**60) - 1, 7)] == [["m"], [], ["s0", "m"]]


# --- keeping and removing --------------------------------------------------------------------------------------------


def test_retention(spark: SparkSession, tmp_path: Path) -> None:
    one = Snapshot.publish(book(spark, "a = 1"), tmp_path / "s")
    two = one.apply(changes_frame(spark, ("add", "n", "a = 1")))
    three = two.compact()
    four = three.apply(changes_frame(spark, ("add", "m", "a = 1")))
    five = four.compact()
    two.pin("query-7")
    assert five.retain(timedelta(hours=1)) == []
    assert five.retain(2) == [1, 3]  # what the others share with them stays
    assert found(spark, four, a=1) == ["s0", "n", "m"]
    assert five.retain(1) == [4]
    assert [v.number for v in five.versions()] == [2, 5]
    assert found(spark, two, a=1) == ["s0", "n"]
    two.unpin("query-7")
    assert five.retain(timedelta(0)) == [2]
    record = five.record
    listed = {entry["file"] for entry in (*record["segments"], *record["keys"])}
    assert {one.name for place in ("segments", "keys") for one in (tmp_path / "s" / place).iterdir()} == listed
    assert sorted(one.name for one in (tmp_path / "s" / "versions").iterdir()) == ["00000005"]
    with pytest.raises(TableError, match=r"has no version 2 any more: it was removed, .* there are 5"):
        Snapshot.open(tmp_path / "s", 2)
    with pytest.raises(TableError, match="no longer there"):
        _ = two.rejects
    for wrong in (0, True, "all"):
        with pytest.raises(earmark.EarmarkError, match="keep: expected a number of versions"):
            five.retain(wrong)  # type: ignore[arg-type]
    with pytest.raises(TableError, match="expected a pin's owner of letters"):
        five.pin("../x")


def test_two_publishers(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One wins, the other is told, whichever way they overlap; nothing of the second remains."""
    from earmark.spark import snapshot as making

    snapshot = Snapshot.publish(book(spark, "a = 1"), tmp_path / "s")
    write = making.write_version

    def overtaken(*given: Any) -> Any:
        monkeypatch.setattr(making, "write_version", write)
        Snapshot.publish(book(spark, "a = 2"), tmp_path / "s")
        return write(*given)

    for slow in (lambda: Snapshot.publish(book(spark, "a = 3"), tmp_path / "s"), lambda: snapshot.latest().compact()):
        monkeypatch.setattr(making, "write_version", overtaken)
        before = snapshot.latest().version
        with pytest.raises(Conflict, match=f"version {before + 1} .* was published while this one, begun on version"):
            slow()
        assert snapshot.latest().version == before + 1
        assert found(spark, snapshot.latest(), a=2) == ["s0"]
    assert sorted(one.name for one in (tmp_path / "s").iterdir()) == OWN
    assert len(list((tmp_path / "s" / "versions").iterdir())) == 3


def test_many_publishers_at_once(spark: SparkSession, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    base = Snapshot.publish(book(spark, "a = 1"), tmp_path / "s")

    def attempt(i: int) -> str:
        try:
            base.apply(changes_frame(spark, ("add", f"n{i}", "a = 1")))
            return "won"
        except Conflict:
            return "told"

    with ThreadPoolExecutor(4) as pool:
        outcomes = sorted(pool.map(attempt, range(4)))
    assert outcomes == ["told", "told", "told", "won"]
    assert len(Snapshot.open(tmp_path / "s")) == 2 and Snapshot.open(tmp_path / "s").version == 2


def test_a_killed_publisher_leaves_nothing_that_counts(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = Snapshot.publish(book(spark, "a = 1"), tmp_path / "s")
    root = tmp_path / "s"
    shutil.copytree(root / "versions" / "00000001", root / ".building-0123456789abcdef")  # killed before the rename
    shutil.copytree(root / "versions" / "00000001", root / "versions" / "00000002")  # killed before CURRENT
    assert Snapshot.open(root).version == 1 and [v.number for v in snapshot.versions()] == [1]
    following = snapshot.apply(changes_frame(spark, ("add", "n", "a = 1")))
    assert following.version == 3
    assert not list(root.glob(".building-*"))
    assert Snapshot.open(root).version == 3


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A full version and a delta on it."""
    folder = tmp_path_factory.mktemp("whole") / "s"
    rows = subscriptions("damage", 40)
    snapshot = Snapshot.publish(book_frame(spark, rows), folder, attributes=generate.SCHEMA)
    snapshot.apply(changes_frame(spark, ("remove", rows[0]["id"], None), ("add", "new", "i0 = 1 AND s0 = 'zz'")))
    return folder


def files_of(folder: Path) -> list[Path]:
    return sorted(
        p.relative_to(folder) for p in folder.rglob("*") if p.is_file() and p.suffix != ".parquet" and p.name != "LOCK"
    )


def refused(folder: Path) -> str:
    with pytest.raises(earmark.TableError) as problem:
        Snapshot.open(folder)
    assert "\n" not in str(problem.value)
    return str(problem.value)


def test_every_damage_is_refused(whole: Path, tmp_path: Path) -> None:
    damages: dict[str, Callable[[bytes], bytes | None]] = {
        "truncated": lambda data: data[: len(data) // 2],
        "empty": lambda data: b"",
        "flipped": lambda data: data[:-1] + bytes([data[-1] ^ 1]) if data else b"x",
        "longer": lambda data: data + b"\0",
        "missing": lambda data: None,
    }
    kept = 0
    ways = list(damages.items())
    for name in files_of(whole):
        for what, damage in ways:
            if name.parts[:2] == ("versions", "00000001"):
                continue  # of the parent nothing but the segments and keys is shared
            folder = tmp_path / f"copy{kept}"
            shutil.copytree(whole, folder)
            changed = damage((folder / name).read_bytes())
            if changed is None:
                (folder / name).unlink()
            else:
                (folder / name).write_bytes(changed)
            if changed == (whole / name).read_bytes():
                continue
            assert refused(folder), (name, what)
            shutil.rmtree(folder)
            kept += 1
    assert kept >= 15


def test_foreign_and_newer(spark: SparkSession, whole: Path, tmp_path: Path) -> None:
    assert "is not an earmark book" in refused(tmp_path / "nowhere")
    (tmp_path / "file").write_text("hello")
    with pytest.raises(TableError, match="exists and is not an earmark book; it is not overwritten"):
        Snapshot.publish(book(spark, "a = 1"), tmp_path / "file")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letters.txt").write_text("dear")
    with pytest.raises(TableError, match=r"is not an earmark book; it is not overwritten \(it holds 'letters\.txt'\)"):
        Snapshot.publish(book(spark, "a = 1"), tmp_path / "other")
    assert [one.name for one in (tmp_path / "other").iterdir()] == ["letters.txt"]
    for text, message in (
        ('{"format": "earmark-book", "layout": 2}', "has layout 2; this earmark reads layout 1"),
        ('{"format": "delta-lake"}', "has the format 'delta-lake'; this earmark reads 'earmark-book' of layout 1"),
        ("[1, 2", "is damaged: it is not JSON"),
    ):
        folder = tmp_path / "copy"
        shutil.copytree(whole, folder)
        (folder / "CURRENT").write_text(text)
        assert message in refused(folder)
        shutil.rmtree(folder)
    for wrong in (0, -1, "1", True):
        with pytest.raises(TableError, match="expected the number of a version"):
            Snapshot.open(whole, wrong)  # type: ignore[arg-type]
    with pytest.raises(TableError, match="expected the path of a folder for the book"):
        Snapshot.open(5)  # type: ignore[arg-type]


def test_a_segment_that_is_another(spark: SparkSession, whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(whole, folder)
    other = Snapshot.publish(book(spark, "i0 = 1"), tmp_path / "other")
    theirs = other.path / "segments" / other.record["segments"][0]["file"]
    mine = folder / "segments" / Snapshot.open(folder).record["segments"][0]["file"]
    mine.write_bytes(theirs.read_bytes())
    assert "instead of the recorded ones" in refused(folder)


def test_verified_once_a_host(
    spark: SparkSession, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who opens it first reads every byte; the others look at sizes and headers, until a file changes."""
    from earmark.book import segments
    from earmark.book.saving import open_for_search

    folder = tmp_path / "copy"
    shutil.copytree(whole, folder)
    read: list[str] = []
    verify = segments._verify
    monkeypatch.setattr(segments, "_verify", lambda file, *more: read.append(file) or verify(file, *more))
    monkeypatch.setenv("EARMARK_CACHE_DIR", str(tmp_path / "cache"))
    Snapshot.open(folder, 1)
    assert len(read) == 2
    read.clear()
    snapshot = Snapshot.open(folder)
    assert snapshot.record["segments"][0]["file"] not in read and len(read) == 4  # keys, bitmaps, what changed
    read.clear()
    Snapshot.open(folder)
    open_for_search(folder, 2)
    assert not read
    file = folder / "segments" / snapshot.record["segments"][0]["file"]
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert file.name in refused(folder) and "checksum" in refused(folder)
    with pytest.raises(earmark.TableError, match="checksum"):
        open_for_search(folder, 2)
