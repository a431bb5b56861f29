"""Does earmark on this Spark answer as Spark SQL does? Prints the version and what was compared; exit code 1 if not.

    make spark-old                 on Spark 3.5, in an environment of its own
    make spark-old SPARK=4.0.1     on another one

Flights-like events against rules as text, and intervals against intervals, through every public call but
`ensure_java` and streams of `workload`. What this Spark does not have is listed as left out.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import earmark.spark as on_spark
from earmark import Matcher

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

    def left_out(self, what: str) -> None:
        """Say what this Spark does not have."""
        print(f"  left out: {what}", flush=True)


class Flights:
    """Rules as text, flights, and who matches whom, by Spark SQL."""

    def __init__(self, spark: Any, folder: Path) -> None:
        rng = random.Random("flights")
        self.given, rows = rules(rng), flights(rng)
        fields = "event int, carrier string, origin string, distance int, delay double"
        spark.createDataFrame(rows, fields).repartition(3).write.parquet(str(folder / "events"))
        self.events = spark.read.parquet(str(folder / "events"))
        self.wanted = said_by_sql(self.events, self.given)
        self.book = spark.createDataFrame(self.given, "id string, condition string")
        self.one = on_spark.Snapshot.publish(self.book, folder / "one")
        self.many = on_spark.Snapshot.publish(self.book, folder / "many", shards=4)
        best = on_spark.match(self.events, self.one, 3, columns=["event"])
        self.best = [tuple(row) for row in best.collect()]

    def best_pairs(self) -> set[tuple[int, str]]:
        """Pairs of event and one of its 3 best."""
        return {(row[0], row[1]) for row in self.best}


def check_flights(spark: Any, folder: Path, checks: Checks) -> None:
    """Rules as text against flights."""
    own = Flights(spark, folder)
    check_matches(own, checks)
    check_sql(spark, own, checks)
    check_hygiene(own, checks)
    check_streams(spark, folder, own, checks)
    check_changes(spark, own, checks)


def check_matches(own: Flights, checks: Checks) -> None:
    """Both routes, the shapes of a result, and counts."""
    from pyspark.sql import Observation

    events, one, many, wanted = own.events, own.one, own.many, own.wanted
    checks.equal("match", pairs(on_spark.match(events, one)), wanted)
    checks.equal("match, 4 shards", pairs(on_spark.match(events, many)), wanted)
    for replicas in (1, 3, "auto"):
        shuffled = on_spark.match(events, many, route="shuffle", replicas=replicas)
        checks.equal(f"match, shuffled, replicas={replicas}", pairs(shuffled), wanted)
    shuffled = on_spark.match(events, many, 3, columns=["event"], route="shuffle")
    checks.equal("the 3 best, shuffled", sorted(map(tuple, shuffled.collect())), sorted(own.best))
    ranked = on_spark.match(events, many, 3, columns=["event"], rank=True, prefix="m_").collect()
    places: dict[int, int] = {}
    ranks = []
    for row in own.best:
        places[row[0]] = places.get(row[0], 0) + 1
        ranks.append((row[0], row[1], places[row[0]]))
    checks.equal("rank, prefix", sorted((r["event"], r["m_subscription"], r["m_rank"]) for r in ranked), sorted(ranks))
    left = on_spark.match(events, many, columns=["event"], how="left")
    checks.equal("left", pairs(left.where("subscription IS NOT NULL")), wanted)
    unmatched = FLIGHTS - len({event for event, _ in wanted})
    checks.equal("left, without a match", left.where("subscription IS NULL").count(), unmatched)
    noted = Observation("counts")
    rows = on_spark.match(events, many, columns=["event"], metrics=noted).collect()
    checks.equal("metrics", (noted.get["events"], noted.get["matches"]), (FLIGHTS, len(rows)))
    checks.equal("count_matches", on_spark.count_matches(events, many).first()["matches"], len(wanted))
    counted = on_spark.shard_counts(events, many).collect()
    checks.equal("shard_counts", sum(row["matches"] for row in counted), len(wanted))


def check_sql(spark: Any, own: Flights, checks: Checks) -> None:
    """Functions, and the book as a data source."""
    on_spark.register(spark, own.one)
    struct = "named_struct('carrier', carrier, 'origin', origin, 'distance', distance, 'delay', delay)"
    called = own.events.limit(300).selectExpr("event", f"inline(top_matches({struct}, 3))")
    some = {row["event"] for row in own.events.limit(300).select("event").collect()}
    checks.equal("register", pairs(called), {pair for pair in own.best_pairs() if pair[0] in some})
    if not hasattr(spark, "dataSource"):
        checks.left_out("register_matches and earmark.book, which need Spark 4.0")
        return
    on_spark.register_matches(spark)
    own.events.createOrReplaceTempView("flights")
    found = spark.sql(f"SELECT * FROM matches(TABLE(flights), '{own.many.path}', k => 3)")
    checks.equal("register_matches", pairs(found), own.best_pairs())
    on_spark.register_sources(spark)
    listed = spark.read.format("earmark.book").load(str(own.many.path))
    again = on_spark.Snapshot.publish(listed, own.many.path.parent / "again", order_by="sequence")
    checks.equal("earmark.book, published again", pairs(on_spark.match(own.events, again)), own.wanted)


def check_hygiene(own: Flights, checks: Checks) -> None:
    """Backtests, audits, and fewer conditions."""
    rows = on_spark.backtest(own.book, own.events, sample=0).collect()
    by_rule = {name: sum(1 for _, rule in own.wanted if rule == name) for name, _ in own.given}
    checks.equal("backtest", {row["subscription"]: row["matches"] for row in rows}, by_rule)
    matcher = Matcher()
    matcher.add_many(own.given)
    kinds = [(row["finding"], row["subscription"]) for row in matcher.audit().to_arrow().to_pylist()]
    rows = on_spark.audit(own.book).collect()
    checks.equal("audit", sorted((row["finding"], row["subscription"]) for row in rows), sorted(kinds))
    fewer = on_spark.merge(own.book, 0.1, own.events)
    stands = {row["id"]: row["stands_for"] for row in fewer.conditions.collect()}
    snapshot = on_spark.Snapshot.publish(fewer.conditions, own.one.path.parent / "fewer")
    found = on_spark.match(own.events, snapshot, columns=["event"]).collect()
    kept = {(row["event"], rule) for row in found for rule in stands[row["subscription"]]}
    checks.equal("merge keeps all matches", own.wanted - kept, set())


def check_streams(spark: Any, folder: Path, own: Flights, checks: Checks) -> None:
    """A stream, and who listens to it."""
    figures: list[Any] = []
    listener = on_spark.MatchListener(figures.append)
    spark.streams.addListener(listener)
    arriving = spark.readStream.schema(own.events.schema).parquet(str(folder / "events"))
    now = {"availableNow": True}
    on_spark.stream(arriving, own.many, folder / "hits", folder / "notes", trigger=now).await_end(300)
    until = time.monotonic() + 60
    while not figures and time.monotonic() < until:
        time.sleep(0.1)
    spark.streams.removeListener(listener)
    checks.equal("stream", pairs(on_spark.read_matches(spark, folder / "hits")), own.wanted)
    checks.equal("MatchListener", [one.matches for one in figures if one.events], [len(own.wanted)])


def check_changes(spark: Any, own: Flights, checks: Checks) -> None:
    """A version after the first."""
    gone = own.given[0][0]
    changed = own.many.apply(spark.createDataFrame([(gone, None, "remove")], "id string, condition string, op string"))
    left = {pair for pair in own.wanted if pair[1] != gone}
    checks.equal("apply", pairs(on_spark.match(own.events, changed)), left)
    compacted = changed.compact()
    checks.equal("compact", pairs(on_spark.match(own.events, compacted)), left)
    checks.equal("retain", (compacted.retain(1), [v.number for v in compacted.versions()]), ([1, 2], [3]))


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
    bad = events.union(events.limit(1).selectExpr("-1", "chromosome", "named_struct('lo', 2, 'hi', 1)"))
    unread = [row["event"] for row in on_spark.rejected(bad, snapshot, columns=["event"]).collect()]
    checks.equal("rejected", unread, [-1])
    bad.write.parquet(str(folder / "reads"))
    arriving = spark.readStream.schema(bad.schema).parquet(str(folder / "reads"))
    options: Any = {"on_error": "reject", "columns": ["event"], "trigger": {"availableNow": True}}
    on_spark.stream(arriving, snapshot, folder / "hits", folder / "notes", **options).await_end(300)
    checks.equal("stream of events that cannot be read", pairs(on_spark.read_matches(spark, folder / "hits")), wanted)
    kept = [row["event"] for row in on_spark.read_rejected(spark, folder / "hits").collect()]
    checks.equal("read_rejected", kept, [-1])
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
