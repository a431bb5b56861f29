"""The pipeline on Spark Connect sessions, in processes of their own: publish, change, match, stream, SQL, figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.connect import run_on_connect

pytestmark = [pytest.mark.spark, pytest.mark.apart]

SCRIPT = """
from earmark.spark import Snapshot, match, register, register_matches, shard_counts

snapshot = Snapshot.publish(book_frame(spark, rows), folder / "s", attributes=generate.SCHEMA)
frame = event_frame(spark, given)
assert answers(match(frame, snapshot)) == expected(matcher.match_many(given))
assert answers(match(frame, snapshot, 4, mode="relaxed")) == expected(matcher.top_k_many(given, 4, mode="relaxed"))
made = [("remove", rows[0]["id"], None), ("add", "new", "i0 IS NOT NULL")]
change = spark.createDataFrame(made, "op string, id string, condition string")
changed = snapshot.apply(change)
matcher.remove(rows[0]["id"])
matcher.add("new", "i0 IS NOT NULL")
assert answers(match(frame, changed)) == expected(matcher.match_many(given))
register(spark, changed)
frame.createOrReplaceTempView("events")
found = spark.sql("SELECT e.row, m.* FROM events e, LATERAL (SELECT inline(top_matches(struct(e.*), 3))) m")
assert answers(found) == expected(matcher.top_k_many(given, 3))
register_matches(spark)
found = spark.sql(f"SELECT * FROM matches(TABLE(events), '{folder / 's'}', k => 3)")
assert answers(found) == expected(matcher.top_k_many(given, 3))
frame.write.parquet(str(folder / "events"))
stream = spark.readStream.schema(frame.schema).parquet(str(folder / "events"))
query = (
    match(stream, changed, 3, columns=["row"]).writeStream.format("parquet")
    .option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start(str(folder / "out"))
)
query.awaitTermination(100)
assert spark.read.parquet(str(folder / "out")).count() == matcher.top_k_many(given, 3).num_rows
assert changed.rejects.count() == 0
sharded = Snapshot.publish(book_frame(spark, rows), folder / "sharded", attributes=generate.SCHEMA, shards=2)
sharded = sharded.apply(change)
for one in (sharded, sharded.compact()):
    assert one.shards == 2
    for route in ("local", "shuffle"):
        assert answers(match(frame, one, 4, route=route)) == expected(matcher.top_k_many(given, 4)), route
counted = shard_counts(frame, sharded).collect()
assert sum(row["matches"] for row in counted) == matcher.match_many(given).num_rows
"""

REST = """
import time
from pyspark.sql import Observation
from earmark.spark import MatchListener, Snapshot, match, read_matches, read_rejected, rejected, register_sources
from earmark.spark import stream

matches = matcher.match_many(given).num_rows
book = book_frame(spark, rows).selectExpr("*", "concat('/', id) AS url")
snapshot = Snapshot.publish(book, folder / "s", attributes=generate.SCHEMA, payload=["url"], shards=2)
frame = event_frame(spark, given)
found = match(frame, snapshot, columns=["row"], with_columns=["url"]).collect()
assert len(found) == matches and all(row["url"] == "/" + row["subscription"] for row in found)

noted = Observation("counts")
assert match(frame, snapshot, columns=["row"], metrics=noted).count() == matches
assert (noted.get["events"], noted.get["matches"]) == (len(given), matches)

register_sources(spark)
listed = spark.read.format("earmark.book").load(str(folder / "s"))
assert {row["id"]: row["url"] for row in listed.collect()} == {row["id"]: "/" + row["id"] for row in rows}
assert spark.read.format("earmark.book").options(table="versions").load(str(folder / "s")).count() == 1

rule = spark.createDataFrame([("a", "day > DATE '2024-01-01'")], "id string, condition string")
plain = Snapshot.publish(rule, folder / "days")
days = spark.createDataFrame([(1, "2024-02-01"), (2, "2024-13-01"), (3, "2023-01-01")], "event int, day string")
assert [row["event"] for row in match(days, plain, on_error="null").collect()] == [1]
assert [row["event"] for row in rejected(days, plain, columns=["event"]).collect()] == [2]
days.write.parquet(str(folder / "days in"))
figures = []
listener = MatchListener(figures.append)
spark.streams.addListener(listener)
try:
    arriving = spark.readStream.schema(days.schema).parquet(str(folder / "days in"))
    now = {"availableNow": True}
    running = stream(arriving, plain, folder / "hits", folder / "notes", on_error="reject", trigger=now)
    running.await_end(100)
    assert [row["event"] for row in read_matches(spark, folder / "hits").collect()] == [1]
    assert [row["event"] for row in read_rejected(spark, folder / "hits").collect()] == [2]
    assert [(one.matches, one.rejected) for one in running.reports()] == [(1, 1)]
    until = time.monotonic() + 30
    while not figures and time.monotonic() < until:
        time.sleep(0.1)
finally:
    spark.streams.removeListener(listener)  # its thread would keep the process alive
assert [(one.events, one.matches) for one in figures if one.events] == [(3, 1)], figures
"""

SHARDED = """
from earmark.spark import Snapshot, match, read_matches, stream

frame = event_frame(spark, given)
frame.write.parquet(str(folder / "events"))
change = spark.createDataFrame(
    [("remove", rows[0]["id"], None), ("add", "new", "i0 IS NOT NULL")], "op string, id string, condition string"
)
before = {k: expected(matcher.match_many(given) if k is None else matcher.top_k_many(given, k)) for k in (None, 3)}
matcher.remove(rows[0]["id"])
matcher.add("new", "i0 IS NOT NULL")
after = {k: expected(matcher.match_many(given) if k is None else matcher.top_k_many(given, k)) for k in (None, 3)}
for shards in (1, 2, 7, 64):
    path = folder / f"in {shards}"
    published = Snapshot.publish(book_frame(spark, rows), path, attributes=generate.SCHEMA, shards=shards)
    applied = published.apply(change)
    for one, wanted in ((published, before), (applied, after), (applied.compact(), after)):
        for k in (None, 3):
            assert answers(match(frame, one, k)) == wanted[k], (shards, one, k)
    arriving = spark.readStream.schema(frame.schema).parquet(str(folder / "events"))
    running = stream(
        arriving, path, sink=path / "out", checkpoint=path / "checkpoint", k=3, columns=["row"],
        trigger={"availableNow": True},
    )
    running.await_end()
    assert answers(read_matches(spark, path / "out")) == after[3], shards
    print(shards, "shards equal", flush=True)
"""


@pytest.mark.parametrize(
    "script", [SCRIPT, REST, pytest.param(SHARDED, marks=pytest.mark.slow)], ids=["pipeline", "rest", "sharded"]
)
def test_the_same_answers(script: str, tmp_path: Path) -> None:
    run_on_connect(script, tmp_path)


def test_without_pyspark_a_sentence() -> None:
    """The package imports; the first use of a name that needs pyspark says what to install."""
    script = """
import sys
sys.modules["pyspark"] = None
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "pyspark" else find(name, *rest)
import earmark
import earmark.spark
try:
    from earmark.spark import Snapshot
except earmark.EarmarkError as problem:
    print(problem)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    told = "earmark on Spark needs pyspark, which is not installed; run: pip install 'earmark[spark]'"
    assert done.stdout.strip() == told
