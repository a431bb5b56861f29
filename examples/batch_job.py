"""Ad campaigns against visitors, in batch: publish, then match a DataFrame in three ways.

Run it with Python, or submit it to Spark:

    python examples/batch_job.py
    spark-submit --master 'local[2]' examples/batch_job.py --rows 100000
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from pyspark.sql import functions as f
from session import make_session

from earmark.spark import Snapshot, match, workload


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=5_000)
    parser.add_argument("--rows", type=int, default=2_000)
    arguments = parser.parse_args()
    spark = make_session("earmark batch job")

    with tempfile.TemporaryDirectory() as folder:
        # On a cluster this folder is a mount that every worker sees under the same path.
        campaigns = workload(spark, "ads", "subscriptions", arguments.subscriptions)
        snapshot = Snapshot.publish(campaigns, Path(folder) / "ads")
        print(f"published {len(snapshot):,} campaigns as version {snapshot.version}")

        visitors = workload(spark, "ads", "events", arguments.rows)

        # All matches, with only the visitor's id: every column that is carried along costs time.
        everything = match(visitors, snapshot, columns=["event"])
        print(f"all matches of {arguments.rows:,} visitors: {everything.count():,}")

        # The three best for each visitor; a score is the bid plus the weights of the constraints that hold.
        best = match(visitors, snapshot, k=3, columns=["event", "city"])
        best.filter("event < 3").orderBy("event", f.desc("score")).show(truncate=False)

        # One customer's campaigns only.
        mine = match(visitors, snapshot, k=1, columns=["event"], scope={"tenant": "acme"})
        print(f"visitors for whom acme has a campaign: {mine.count():,}")
    spark.stop()


if __name__ == "__main__":
    main()
