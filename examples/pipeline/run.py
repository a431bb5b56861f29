"""Publish campaigns, then run the declarative pipeline in `transformations/` on them.

    pip install 'earmark[spark]' 'pyspark[pipelines]'
    python examples/pipeline/run.py

`spark-pipelines` needs a specification with a storage folder, and the pipeline needs a published snapshot: this makes
both in a temporary folder. With a snapshot and a specification of your own, `spark-pipelines run` is all you need.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SPECIFICATION = """\
name: campaigns
storage: file://{folder}/storage
libraries:
  - glob:
      include: transformations/**
configuration:
  spark.sql.session.timeZone: UTC
"""
PUBLISH = """
import sys
from session import make_session
from earmark.spark import Snapshot, workload

spark = make_session("earmark publish")
print("published", Snapshot.publish(workload(spark, "ads", "subscriptions", 2_000), sys.argv[1]))
spark.stop()
"""


def main() -> None:
    from earmark.spark import ensure_java

    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # In a separate process, since a pipeline has another kind of session.
        subprocess.run([sys.executable, "-c", PUBLISH, str(folder / "ads")], check=True)
        shutil.copytree(HERE / "transformations", folder / "transformations")
        (folder / "spark-pipeline.yml").write_text(SPECIFICATION.format(folder=folder))
        os.environ["EXAMPLE_SNAPSHOT"] = str(folder / "ads")
        # Settings that are fixed when a session starts cannot go into the specification.
        fixed = ["--conf", f"spark.sql.warehouse.dir={folder}/warehouse", "--conf", "spark.ui.enabled=false"]
        subprocess.run([_program(), "run", *fixed, "--spec", str(folder / "spark-pipeline.yml")], check=True)
        import pyarrow.parquet as pq

        print(pq.read_table(folder / "warehouse" / "by_city").sort_by("city").to_pylist())


def _program() -> str:
    beside = Path(sys.executable).with_name("spark-pipelines")
    found = str(beside) if beside.exists() else shutil.which("spark-pipelines")
    if found is None:
        raise SystemExit("there is no spark-pipelines: pip install 'pyspark[pipelines]'")
    return found


if __name__ == "__main__":
    main()
