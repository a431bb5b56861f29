"""The search as a SQL function, for people who write SQL and no Python.

    python examples/sql_job.py

The function is `top_matches(event, k)`; it returns an array of structs, which `inline` makes rows.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from session import make_session

from earmark.spark import Snapshot, register, workload

QUERY = """
    SELECT e.city, count(*) AS matches, round(avg(m.score), 2) AS score
    FROM visitors e, LATERAL (SELECT inline(top_matches(struct(e.*), 5))) m
    WHERE e.age < 40
    GROUP BY e.city
    ORDER BY e.city
"""


def main() -> None:
    spark = make_session("earmark SQL job")
    with tempfile.TemporaryDirectory() as folder:
        snapshot = Snapshot.publish(workload(spark, "ads", "subscriptions", 2_000), Path(folder) / "ads")
        workload(spark, "ads", "events", 1_000).createOrReplaceTempView("visitors")
        register(spark, snapshot, "top_matches")
        spark.sql(QUERY).show()
    spark.stop()


if __name__ == "__main__":
    main()
