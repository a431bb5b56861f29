"""Audit, backtest and compaction on a Spark Connect session, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = """
from earmark.spark import audit, backtest, compact, ensure_java

ensure_java()
from pyspark.sql import SparkSession
from tests.oracle import generate
from tests.spark.books import book_frame, event_frame, events, matcher_of, subscriptions

spark = (
    SparkSession.builder.remote("local[2]")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()
)
assert "connect" in type(spark).__module__, type(spark)
rows, given = subscriptions("connect", 60), events("connect", 30)
matcher = matcher_of(rows, attributes=generate.SCHEMA)
frame, past = book_frame(spark, rows), event_frame(spark, given)
types = {"attributes": generate.SCHEMA}

found, wanted = audit(frame, homes=3, **types), matcher.audit()
covered = [row["subscription"] for row in found.collect() if row["finding"] == "covered"]
assert sorted(covered) == sorted(one.id for one in wanted.covered)
assert found.count() == wanted.to_arrow().num_rows

counts = {row["subscription"]: row["matches"] for row in backtest(frame, past, columns=["row"], **types).collect()}
matched = matcher.match_batch(given)["subscription"].to_pylist()
assert counts == {row["id"]: matched.count(row["id"]) for row in rows}

made = compact(frame, 0.1, past, homes=2, **types)
assert sum(len(row["stands_for"]) for row in made.conditions.collect()) == len(rows) - len(wanted.never)
print("all equal")
spark.stop()
"""


def test_the_same_findings() -> None:
    for module in ("grpc", "grpc_status", "google.rpc"):
        pytest.importorskip(module)  # what pyspark[connect] brings
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK")}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-1] == "all equal"
