"""The Spark session of an example: the one of spark-submit if it was started that way, otherwise a local one."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from earmark.spark import ensure_java


def make_session(name: str) -> SparkSession:
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run the same Python
    builder = SparkSession.builder.appName(name)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit has set the master
        builder = builder.master(os.environ.get("EXAMPLE_MASTER", "local[2]"))
    session = (
        builder.config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session
