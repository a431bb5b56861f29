"""Scripts on a Spark Connect session, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

START = """
import sys
from pathlib import Path

from earmark.spark import ensure_java

ensure_java()
from pyspark.sql import SparkSession
from tests.oracle import generate
from tests.spark.books import answers, book_frame, event_frame, events, expected, matcher_of, subscriptions

folder = Path(sys.argv[1])
spark = (
    SparkSession.builder.remote("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()
)
assert "connect" in type(spark).__module__, type(spark)
rows, given = subscriptions("connect", 60), events("connect", 30)
matcher = matcher_of(rows, attributes=generate.SCHEMA)
"""
END = """
print("all equal")
spark.stop()
"""


def run_on_connect(script: str, folder: Path) -> None:
    """Run a script that has a session, a book with its matcher, events and a folder; its assertions must hold."""
    for module in ("grpc", "grpc_status", "google.rpc"):
        pytest.importorskip(module)  # what pyspark[connect] brings
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK")}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-c", START + script + END, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-1] == "all equal"
