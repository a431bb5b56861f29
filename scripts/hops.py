"""Which of our files does a call enter? Counted by tracing, for the paths that ARCHITECTURE.md lists.

    python scripts/hops.py [add|match|publish|spark-match ...]

Every path runs once before it is traced, so imports, compilation and caches do not count. Compiled kernels are not
entered by Python and do not count either. On Spark, driver and executors are traced together: what `mapInArrow` would
run on an executor runs in this process.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import earmark

ROOT = Path(earmark.__file__).parent
MOST = {"add": 14, "match": 12, "publish": 20, "spark-match": 18}
"""The most files that a path may enter."""


def entered(run: Callable[[], Any]) -> list[str]:
    """The files of ours that a call enters, in order."""
    seen: dict[str, None] = {}

    def note(frame: Any, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(ROOT)) and frame.f_code.co_name != "<module>":
            file = Path(name).relative_to(ROOT)
            module = sys.modules[".".join(("earmark", *file.with_suffix("").parts)).removesuffix(".__init__")]
            if not hasattr(
                getattr(module, frame.f_code.co_name, None), "py_func"
            ):  # else Numba only says it was called
                seen.setdefault(str(file))
        return None

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(seen)


def add_path(_: Path) -> Callable[[], Any]:
    """One subscription, into a matcher that has some."""
    m = some_subscriptions()
    m.add(300, "age > 30 AND city = 'Oslo'")
    return lambda: m.add(301, "age > 31 AND city = 'Oslo'")


def match_path(_: Path) -> Callable[[], Any]:
    """One event, against the same."""
    m = some_subscriptions()
    m.match({"age": 40, "city": "Oslo"})
    return lambda: m.match({"age": 41, "city": "Oslo"})


def some_subscriptions() -> earmark.Matcher:
    """A matcher of 300."""
    m = earmark.Matcher()
    m.add_many([(i, f"age > {i} AND city = 'Oslo'") for i in range(300)])
    return m


def publish_path(folder: Path) -> Callable[[], Any]:
    """A DataFrame of subscriptions, to a new folder."""
    from earmark.spark import Snapshot

    rows = [(i, f"age > {i} AND city = 'Oslo'") for i in range(300)]
    frame = session().createDataFrame(rows, "id long, condition string")
    Snapshot.publish(frame, folder / "warm")
    return lambda: Snapshot.publish(frame, folder / "traced")


def spark_match_path(folder: Path) -> Callable[[], Any]:
    """A DataFrame of events, against a published snapshot."""
    from earmark.spark import Snapshot, match

    publish_path(folder)
    snapshot = Snapshot.open(folder / "warm")
    events = session().createDataFrame([(1, 40, "Oslo")], "event long, age long, city string")
    match(events, snapshot, columns=["event"]).collect()
    return lambda: match(events, snapshot, columns=["event"]).collect()


def session() -> Any:
    """A Spark session whose `mapInArrow` runs here, so that the work of executors is traced too."""
    from earmark.spark import ensure_java

    ensure_java()
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.classic.dataframe import DataFrame
    from pyspark.sql.pandas.types import to_arrow_schema

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    def here(frame: Any, function: Any, schema: Any) -> Any:
        batches = list(function(iter(frame.toArrow().to_batches())))
        return spark.createDataFrame(pa.Table.from_batches(batches, to_arrow_schema(schema)), schema)

    DataFrame.mapInArrow = here  # type: ignore[method-assign, assignment]
    return spark


PATHS = {"add": add_path, "match": match_path, "publish": publish_path, "spark-match": spark_match_path}


def main(names: list[str]) -> int:
    """Print the files of each path; 1 when one enters too many."""
    too_many = False
    for name in names or list(PATHS):
        with tempfile.TemporaryDirectory() as folder:
            files = entered(PATHS[name](Path(folder)))
        too_many |= len(files) > MOST[name]
        print(f"{name}: {len(files)} files, at most {MOST[name]}: {'held' if len(files) <= MOST[name] else 'MISSED'}")
        for file in files:
            print(f"    {file}")
    return int(too_many)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
