"""One side of `compare.py`: a revision of earmark in a process of its own, asked for one measurement at a time.

Reads a JSON line `{"do": name, …}` and answers with `{"seconds": …, "check": …}`. It must run under old and new
revisions alike, so it uses what both have, under whichever name.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from earmark import Matcher


def alone(search: Callable[..., Any]) -> Callable[..., Any]:
    """The search on one thread, where it could use several."""
    return partial(search, threads=1) if "threads" in inspect.signature(search).parameters else search


class Side:
    """What is measured, and what it is measured on."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="earmark-compare-"))
        self.matcher: Any = None
        self.events: Any = None
        self.singles: list[dict[str, Any]] = []
        self.spark: Any = None
        self.next_id = 1 << 40

    # --- one machine -----------------------------------------------------------------------------------------

    def load(self, subscriptions: str, events: str, index: str) -> Any:
        """Take a file of ranges into a new matcher."""
        table, self.events = pq.read_table(subscriptions), pq.read_table(events)
        self.singles = self.events.slice(0, 200).to_pylist()
        self.singles = [{k: v for k, v in one.items() if v is not None} for one in self.singles]
        self.matcher = None
        gc.collect()
        self.matcher, seconds = Matcher(index), 0.0
        seconds, _ = clocked(lambda: self.matcher.add_many(table, progress=False))
        return seconds, len(self.matcher)

    def match(self) -> Any:
        """All matches of a batch."""
        call = alone(getattr(self.matcher, "match_many", None) or self.matcher.match_batch)
        seconds, found = clocked(lambda: call(self.events))
        return seconds, found.num_rows

    def top_k(self) -> Any:
        """The ten best of each event of a batch."""
        call = alone(getattr(self.matcher, "top_k_many", None) or self.matcher.top_k_batch)
        seconds, found = clocked(lambda: call(self.events, 10))
        return seconds, found.num_rows

    def single_match(self) -> Any:
        """One event after another."""
        seconds, found = clocked(lambda: [len(self.matcher.match(one)) for one in self.singles])
        return seconds / len(self.singles), sum(found)

    def single_top_k(self) -> Any:
        """The ten best, one event after another."""
        seconds, found = clocked(lambda: [len(self.matcher.top_k(one, 10)) for one in self.singles])
        return seconds / len(self.singles), sum(found)

    def changes(self) -> Any:
        """Add, update and remove subscriptions one by one."""
        first, count = self.next_id, 300
        self.next_id += count
        name = next(iter(self.singles[0]))

        def run() -> None:
            for i in range(first, first + count):
                self.matcher.add(i, f"{name} BETWEEN {i % 100} AND {i % 100 + 7}")
            for i in range(first, first + count):
                self.matcher.update(i, f"{name} > {i % 50}")
            for i in range(first, first + count):
                self.matcher.remove(i)

        seconds, _ = clocked(run)
        self._settle()
        return seconds / (3 * count), len(self.matcher)

    def _settle(self) -> None:
        """Let work in the background end, so that the next measurement does not pay for it."""
        compactor = getattr(self.matcher, "_compactor", None)
        if compactor is not None:
            compactor.wait()

    def save(self) -> Any:
        """Write all to a new folder."""
        shutil.rmtree(self.folder / "book", ignore_errors=True)
        seconds, _ = clocked(lambda: self.matcher.save(self.folder / "book"))
        return seconds, len(self.matcher)

    def open(self) -> Any:
        """Open that folder, and match an event."""

        def run() -> int:
            return len(Matcher.load(self.folder / "book").match(self.singles[0]))

        return clocked(run)

    # --- Spark -----------------------------------------------------------------------------------------------

    def start_spark(self) -> Any:
        """A session that takes part in no measurement."""
        from earmark.spark import ensure_java

        ensure_java()
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        self.spark = (
            builder.config("spark.driver.memory", "3g").config("spark.sql.shuffle.partitions", "2").getOrCreate()
        )
        self.spark.sparkContext.setLogLevel("ERROR")
        return 0.0, 0

    def publish(self, subscriptions: str) -> Any:
        """Publish a file of conditions."""
        from earmark.spark import Snapshot

        shutil.rmtree(self.folder / "snapshot", ignore_errors=True)
        frame = self.spark.read.parquet(subscriptions)
        seconds, made = clocked(lambda: Snapshot.publish(frame, self.folder / "snapshot"))
        return seconds, len(made)

    def spark_match(self, events: str) -> Any:
        """Match a file of events, and count."""
        from earmark.spark import Snapshot, match

        snapshot = Snapshot.open(self.folder / "snapshot")
        frame = self.spark.read.parquet(events)
        return clocked(lambda: match(frame, snapshot, columns=[]).count())


def clocked(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of a run, and its result; the garbage collector is held back."""
    gc.collect()
    gc.disable()
    try:
        begun = time.perf_counter()
        result = run()
        return time.perf_counter() - begun, result
    finally:
        gc.enable()


def main() -> None:
    """Answer until the input ends."""
    side, answers = Side(), sys.stdout
    sys.stdout = sys.stderr
    try:
        for line in sys.stdin:
            asked = json.loads(line)
            with contextlib.suppress(BrokenPipeError):
                seconds, check = getattr(side, asked.pop("do"))(**asked)
                print(json.dumps({"seconds": seconds, "check": check}), file=answers, flush=True)
    finally:
        shutil.rmtree(side.folder, ignore_errors=True)


if __name__ == "__main__":
    pa.set_cpu_count(1)
    main()
