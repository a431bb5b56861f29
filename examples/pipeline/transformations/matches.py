"""A declarative pipeline: visitors, their best campaigns, and a summary.

`spark-pipelines` provides `spark`. Query functions only describe a query: they may not register functions or look at
the columns of a DataFrame, so the search is a function applied to a column.
"""

from __future__ import annotations

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from earmark.spark import Snapshot
from earmark.spark.sql import matching_function

best_campaigns = matching_function(spark, Snapshot.open(os.environ["EXAMPLE_SNAPSHOT"]))  # type: ignore[name-defined]  # noqa: F821


@dp.materialized_view
def visitors() -> DataFrame:
    return spark.range(1_000).select(  # type: ignore[name-defined]  # noqa: F821
        f.col("id").alias("event"),
        (18 + f.col("id") * 7 % 60).alias("age"),
        (400 + f.col("id") * 13 % 450).alias("credit_score"),
        f.element_at(f.array(*map(f.lit, ["Oslo", "Lima", "Paris"])), (1 + f.col("id") % 3).cast("int")).alias("city"),
    )


@dp.materialized_view
def matches() -> DataFrame:
    crowd = spark.read.table("visitors")  # type: ignore[name-defined]  # noqa: F821
    event = f.struct("age", "credit_score", "city")
    return crowd.select("event", "city", f.inline(best_campaigns(event, f.lit(3))))


@dp.materialized_view
def by_city() -> DataFrame:
    found = spark.read.table("matches")  # type: ignore[name-defined]  # noqa: F821
    return found.groupBy("city").agg(f.count("*").alias("matches"), f.max("score").alias("best"))
