"""Does earmark on this Spark answer as Spark SQL does? Prints the version and what was compared; exit code 1 if not.

    make spark-old                 on Spark 3.5, in an environment of its own
    make spark-old SPARK=4.0.1     on another one

Flights-like events against rules as text, and intervals against intervals, through every call that works on all
versions from 3.5 on: publish, shards, match by both routes, apply, stream, backtest, register, workload.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import earmark.spark as on_spark

CARRIERS, PORTS = ("AA", "DL", "WN", "UA", "B6"), ("JFK", "LAX", "SFO", "ORD", "ATL", "SEA", "DEN")
FLIGHTS, RULES, INTERVALS = 3_000, 120, 1_500


def flights(rng: random.Random) -> list[tuple[Any, ...]]:
    """Events with strings, numbers, NULL and NaN."""
    rows = []
    for number in range(FLIGHTS):
        delay = rng.choice([None, float("nan"), round(rng.gauss(10, 40), 1), round(rng.gauss(0, 5), 1)])
        rows.append((number, rng.choice(CARRIERS), rng.choice((*PORTS, None)), rng.randint(100, 3_000), delay))
    return rows


def rules(rng: random.Random) -> list[tuple[str, str]]:
    """Conditions that Spark SQL and earmark read alike, ANSI mode or not."""
    forms: list[Callable[[], str]] = [
        lambda: f"carrier = '{rng.choice(CARRIERS)}' AND delay > {rng.randint(-10, 90)}",
        lambda: f"distance BETWEEN {rng.randint(100, 900)} AND {rng.randint(800, 3_000)} AND origin <> 'JFK'",
        lambda: f"origin IN ('{rng.choice(PORTS)}', '{rng.choice(PORTS)}') AND NOT (delay <= {rng.randint(0, 20)}.5)",
        lambda: f"delay IS NULL AND distance >= {rng.randint(500, 2_500)}",
        lambda: f"origin LIKE '{rng.choice('JLSOA')}%' OR (carrier < 'B' AND distance < {rng.randint(100, 700)})",
    ]
    return [(f"r{number:03d}", rng.choice(forms)()) for number in range(RULES)]


def said_by_sql(events: Any, given: list[tuple[str, str]]) -> set[tuple[int, str]]:
    """Pairs of event and rule, by Spark SQL."""
    from pyspark.sql.functions import expr

    columns = [expr(condition).alias(name) for name, condition in given]
    rows = events.select("event", *columns).collect()
    return {(row["event"], name) for row in rows for name, _ in given if row[name] is True}


def pairs(frame: Any) -> set[tuple[int, str]]:
    """Pairs of event and subscription."""
    return {(row["event"], row["subscription"]) for row in frame.select("event", "subscription").collect()}


class Checks:
    """What was compared."""

    def __init__(self) -> None:
        self.failed = 0

    def equal(self, what: str, found: Any, wanted: Any) -> None:
        """Say whether two things are equal."""
        size = f"{len(wanted):,}" if hasattr(wanted, "__len__") else str(wanted)
        print(f"  {what}: {size} {'equal' if found == wanted else 'DIFFERENT'}", flush=True)
        self.failed += found != wanted


def check_flights(spark: Any, folder: Path, checks: Checks) -> None:
    """Rules as text against flights."""
    rng = random.Random("flights")
    given, rows = rules(rng), flights(rng)
    fields = "event int, carrier string, origin string, distance int, delay double"
    spark.createDataFrame(rows, fields).repartition(3).write.parquet(str(folder / "events"))
    events = spark.read.parquet(str(folder / "events"))
    wanted = said_by_sql(events, given)
    book = spark.createDataFrame(given, "id string, condition string")
    one = on_spark.Snapshot.publish(book, folder / "one")
    many = on_spark.Snapshot.publish(book, folder / "many", shards=4)
    checks.equal("match", pairs(on_spark.match(events, one)), wanted)
    checks.equal("match, 4 shards", pairs(on_spark.match(events, many)), wanted)
    checks.equal("match, shuffled", pairs(on_spark.match(events, many, route="shuffle")), wanted)
    checks.equal("count", on_spark.count_matches(events, many).first()["matches"], len(wanted))
    best = [tuple(row) for row in on_spark.match(events, one, 3, columns=["event"]).collect()]
    shuffled = [tuple(row) for row in on_spark.match(events, many, 3, columns=["event"], route="shuffle").collect()]
    checks.equal("the 3 best, shuffled", sorted(shuffled), sorted(best))
    on_spark.register(spark, one)
    struct = "named_struct('carrier', carrier, 'origin', origin, 'distance', distance, 'delay', delay)"
    called = events.limit(300).selectExpr("event", f"inline(top_matches({struct}, 3))")
    some = {row["event"] for row in events.limit(300).select("event").collect()}
    wanted_best = {(row[0], row[1]) for row in best if row[0] in some}
    checks.equal("register", pairs(called), wanted_best)
    counted = {row["subscription"]: row["matches"] for row in on_spark.backtest(book, events, sample=0).collect()}
    by_rule = {name: sum(1 for _, own in wanted if own == name) for name, _ in given}
    checks.equal("backtest", counted, by_rule)
    arriving = spark.readStream.schema(events.schema).parquet(str(folder / "events"))
    now = {"availableNow": True}
    on_spark.stream(arriving, one, folder / "hits", folder / "notes", on_error="reject", trigger=now).await_end(300)
    checks.equal("stream", pairs(on_spark.read_matches(spark, folder / "hits")), wanted)
    changed = spark.createDataFrame([(given[0][0], None, "remove")], "id string, condition string, op string")
    left = {pair for pair in wanted if pair[1] != given[0][0]}
    checks.equal("apply", pairs(on_spark.match(events, one.apply(changed))), left)


def check_intervals(spark: Any, folder: Path, checks: Checks) -> None:
    """Intervals that meet intervals, as genes meet reads."""
    rng = random.Random("intervals")

    def made(count: int) -> list[tuple[int, str, int, int]]:
        starts = [rng.randint(1, 200_000) for _ in range(count)]
        return [(n, rng.choice(("chr1", "chr2", "chrX")), at, at + rng.randint(0, 900)) for n, at in enumerate(starts)]

    fields = "id int, chromosome string, first int, last int"
    genes, reads = (spark.createDataFrame(made(INTERVALS), fields) for _ in range(2))
    text = "concat(\"chromosome = '\", chromosome, \"' AND place BETWEEN \", first, ' AND ', last)"
    book = genes.selectExpr("id", f"{text} AS condition", "named_struct('first', first, 'last', last) AS span")
    snapshot = on_spark.Snapshot.publish(book, folder / "genes", payload=["span"])
    events = reads.selectExpr("id AS event", "chromosome", "named_struct('lo', first, 'hi', last) AS place")
    join = "SELECT r.id AS event, g.id AS subscription FROM reads r JOIN genes g ON r.chromosome = g.chromosome AND "
    genes.createOrReplaceTempView("genes")
    reads.createOrReplaceTempView("reads")
    wanted = pairs(spark.sql(join + "g.first <= r.last AND r.first <= g.last"))
    checks.equal("intervals", pairs(on_spark.match(events, snapshot)), wanted)
    found = on_spark.match(events, snapshot, columns=["event"], with_columns=["span"])
    apart = found.where("event IS NULL OR span.last < span.first OR span IS NULL").count()
    checks.equal("payload", (found.count(), apart), (len(wanted), 0))
    checks.equal("workload", on_spark.workload(spark, "ads", "events", 5_000).count(), 5_000)


def main() -> int:
    """Compare, and say so."""
    from pyspark.sql import SparkSession

    on_spark.ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.shuffle.partitions", "2")
    with tempfile.TemporaryDirectory() as folder:
        builder = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        ansi = spark.conf.get("spark.sql.ansi.enabled")
        print(f"Spark {spark.version}, ANSI mode {ansi}", flush=True)
        checks = Checks()
        for check, name in ((check_flights, "flights"), (check_intervals, "intervals")):
            (Path(folder) / name).mkdir()
            check(spark, Path(folder) / name, checks)
        spark.stop()
    print("all equal" if not checks.failed else f"{checks.failed} DIFFERENT")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
