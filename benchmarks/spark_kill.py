"""Does a stream lose or double anything when it is killed? Kill it, again and again, and look.

    python benchmarks/spark_kill.py                 ten kills of the driver, ten of workers (some minutes)
    python benchmarks/spark_kill.py --quick         two and two

A driver (a process of its own) matches a stream of visitors while a thread of it changes the subscriptions, compacts
and removes old versions. From outside it is killed with SIGKILL at random moments, driver and JVM together, and started
again; in between Python workers are killed. In the end every batch in the sink is compared, row by row, with what the
in-process matcher says of that batch's events and of the version the batch claims.

(Scores to nine decimals: a snapshot may number attributes differently, and so add weights in another order.)

A version's content follows from its parent's number alone, so any chain of versions can be computed again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CAMPAIGNS, BATCH, COMPACT_EVERY, KEEP = 2_000, 400, 5, 2
PATIENCE = 300.0
RETRIES = 8  # how often a task may fail, so that a killed worker does not end the query


# --- what a version holds ------------------------------------------------------------------------------------


def changes_after(parent: int) -> list[dict[str, Any]]:
    """What the version after this one changes; nothing where it is a compaction."""
    from earmark.workload.ads import Campaigns

    if parent % COMPACT_EVERY == 0:
        return []
    made = list(Campaigns(11, 1_000 + parent))
    draw = random.Random(parent)
    for row, number in zip(made[:10], draw.sample(range(0, CAMPAIGNS, 2), 10), strict=True):
        row |= {"id": f"ad-{number}", "op": "upsert"}
    made[10] |= {"id": f"new-{parent}", "op": "add"}
    return [*made, {"id": f"ad-{2 * parent + 1}", "op": "remove"}]


def content_of(version: int, parents: dict[int, int | None]) -> dict[str, dict[str, Any]]:
    """All subscriptions of a version, by the chain of its parents."""
    from earmark.workload.ads import Campaigns

    chain = []
    while (parent := parents[version]) is not None:
        chain.append(parent)
        version = parent
    book = {row["id"]: row for row in Campaigns(CAMPAIGNS)}
    for parent in reversed(chain):
        for change in changes_after(parent):
            if change["op"] == "remove":
                del book[change["id"]]
            else:
                book[change["id"]] = {name: value for name, value in change.items() if name != "op"}
    return book


def write_events(folder: Path, rows: int) -> None:
    """A file a batch, in order of age."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from earmark.workload.blocks import find

    (folder / "events").mkdir()
    table = find("ads", "events")
    for batch in range(-(-rows // BATCH)):
        part = table.rows(batch * BATCH, min((batch + 1) * BATCH, rows))
        path = folder / "events" / f"{batch:06d}.parquet"
        pq.write_table(pa.Table.from_batches(part, table.schema), path)
        os.utime(path, (1.7e9 + batch, 1.7e9 + batch))


# --- the driver ----------------------------------------------------------------------------------------------


def drive(folder: Path) -> None:
    """Publish if nothing is there yet, and stream to the end while subscriptions change."""
    from earmark.spark import Snapshot, stream, workload
    from spark_runner import session

    small = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    spark = session(folder, f"local[2,{RETRIES}]", small)
    if not (folder / "ads" / "CURRENT").exists():
        Snapshot.publish(workload(spark, "ads", "subscriptions", CAMPAIGNS), folder / "ads")
    arriving = spark.readStream.schema(spark.read.parquet(f"file://{folder}/events").schema)
    running = stream(
        arriving.option("maxFilesPerTrigger", 1).parquet(f"file://{folder}/events"),
        folder / "ads",
        folder / "matches",
        folder / "checkpoint",
        columns=["event"],
        trigger={"availableNow": True},
        on_progress=lambda report: print(report, flush=True),
    )
    over = threading.Event()
    changing = threading.Thread(target=_change, args=(spark, folder / "ads", over))
    changing.start()
    try:
        running.await_end()
    finally:
        over.set()
        changing.join()
        spark.stop()
    print("END", flush=True)


def _change(spark: Any, path: Path, over: threading.Event) -> None:
    from earmark.spark import Snapshot

    types = "id string, condition string, weights map<string,double>, score double, tags map<string,string>, op string"
    names = [part.split()[0] for part in types.split(", ")]
    while not over.wait(0.3):
        snapshot = Snapshot.open(path)
        if changes := changes_after(snapshot.version):
            rows = [tuple(change.get(name) for name in names) for change in changes]
            made = snapshot.apply(spark.createDataFrame(rows, types))
        else:
            made = snapshot.compact()
        made.retain(KEEP)


# --- the killer ----------------------------------------------------------------------------------------------


class Watch:
    """The parents of all versions that ever were: versions go, and are needed in the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parents: dict[int, int | None] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self._look()

    def _look(self) -> None:
        for file in self.path.glob("versions/*/version.json"):
            number = int(file.parent.name)
            if number not in self.parents:
                with contextlib.suppress(OSError, ValueError):
                    self.parents[number] = json.loads(file.read_text())["parent"]


def _children(process: int) -> Iterator[int]:
    """All descendants of a process."""
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child)
                yield from _children(int(child))


def _workers(driver: int) -> list[int]:
    found = []
    for child in _children(driver):
        with contextlib.suppress(OSError):
            if b"pyspark.daemon" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


class Driver:
    """A driver in a process group of its own."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, __file__, "--drive", str(folder)]
        self.log = (folder / "driver.log").open("a")
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment, start_new_session=True
        )
        self.lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())

    def wait_for(self, count: int) -> bool:
        """Wait until this many batches are reported; return False when it ended before."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if sum(line.startswith("batch") for line in self.lines) >= count:
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.01)
        raise TimeoutError("the driver reports nothing")

    def kill(self) -> None:
        """Driver and JVM at once; workers end when they notice."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_a_worker(self, draw: random.Random) -> bool:
        """One of the Python workers, or the daemon that makes them."""
        found = _workers(self.process.pid)
        if not found:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(draw.choice(found), signal.SIGKILL)
        return True


def torment(folder: Path, drivers: int, workers: int, seed: int) -> tuple[dict[int, int | None], Counter[str]]:
    """Kill this many drivers and workers, then let it come to its end.

    Gives the parents of all versions, and counts of what happened. A driver that fails by itself (a worker that could
    not be started again, on a machine that is too busy) is one more crash to recover from, and is counted as such.
    """
    draw = random.Random(seed)
    happened: Counter[str] = Counter()
    with Watch(folder / "ads") as watch:
        while True:
            driver = Driver(folder)
            try:
                more = happened["drivers killed"] < drivers
                each = -(-(workers - happened["workers killed"]) // (drivers - happened["drivers killed"] + 1))
                for number in range(each):
                    if driver.wait_for(1 + number):
                        time.sleep(draw.uniform(0.0, 1.0))
                        happened["workers killed"] += driver.kill_a_worker(draw)
                if more and driver.wait_for(1 + happened["drivers killed"] % 3):
                    time.sleep(draw.uniform(0.0, 1.0))
                    if driver.process.poll() is None:
                        driver.kill()
                        happened["drivers killed"] += 1
                        print(f"{dict(happened)}; last was {driver.lines[-1]}", flush=True)
                        continue
                driver.process.wait(PATIENCE)
                if driver.lines[-1:] == ["END"]:
                    return watch.parents, happened
                happened["drivers failed"] += 1
                if happened["drivers failed"] > drivers + workers:
                    raise RuntimeError("drivers fail by themselves; see driver.log")
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(driver.process.pid, signal.SIGKILL)
                driver.log.close()


# --- the judge -----------------------------------------------------------------------------------------------


def judge(folder: Path, rows: int, parents: dict[int, int | None]) -> dict[str, Any]:
    """Compare every batch with the in-process matcher; what was found wrong, and some counts.

    Batches follow each other in the order of the files. A file each, as a rule; after a kill between two notes of its
    own, Spark's file source gives the next batch two.
    """
    import pyarrow.parquet as pq

    from earmark import Matcher
    from earmark.workload.ads import visitors

    crowd = _visitors(rows)
    assert crowd[:5] == list(visitors(5))
    wrong: list[str] = []
    seen: Counter[int] = Counter()
    done = (folder / "matches").glob("batch=*/_earmark.json")
    marks = sorted(int(path.parent.name.removeprefix("batch=")) for path in done)
    if marks != list(range(len(marks))):
        wrong.append(f"batches {marks}")
    matchers: dict[int, Matcher] = {}
    total = first = 0
    for batch in marks:
        report = json.loads((folder / "matches" / f"batch={batch}" / "_earmark.json").read_text())
        version, end = report["version"], first + report["rows"]
        if version not in matchers:
            matchers[version] = Matcher()
            matchers[version].add_many(list(content_of(version, parents).values()))
        found = matchers[version].match_many(crowd[first:end]).to_pylist()
        wanted = Counter((row["event"] + first, row["subscription"], round(row["score"], 9)) for row in found)
        parts = sorted((folder / "matches" / f"batch={batch}").glob("*.parquet"))
        got = [row for part in parts for row in pq.ParquetFile(part).read().to_pylist()]
        total += len(got)
        if Counter((row["event"], row["subscription"], round(row["score"], 9)) for row in got) != wanted:
            wrong.append(f"the matches of batch {batch}, events {first} to {end}, are not those of version {version}")
        if {row["snapshot_version"] for row in got} - {version} or report["matches"] != len(got):
            wrong.append(f"batch {batch} differs from its report")
        seen[version] += 1
        first = end
    if first != rows:
        wrong.append(f"{first} events of {rows}")
    return {"batches": len(marks), "matches": total, "versions": len(seen), "last": max(seen), "wrong": wrong}


def _visitors(rows: int) -> list[dict[str, Any]]:
    from earmark.workload.blocks import find

    made = [row for batch in find("ads", "events").rows(0, rows) for row in batch.to_pylist()]
    return [{k: v for k, v in row.items() if v is not None and k != "event"} for row in made]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two kills of the driver, two of workers")
    parser.add_argument("--drivers", type=int, default=10, help="how many drivers to kill")
    parser.add_argument("--workers", type=int, default=10, help="how many workers to kill")
    parser.add_argument("--rows", type=int, help="how many events")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--drive", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.drive:
        drive(arguments.drive)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and take the driver along
    drivers, workers = (2, 2) if arguments.quick else (arguments.drivers, arguments.workers)
    rows = arguments.rows or BATCH * 6 * (drivers + 1)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="earmark-kill-") as name:
        folder = Path(name)
        try:
            write_events(folder, rows)
            parents, happened = torment(folder, drivers, workers, arguments.seed)
            outcome = judge(folder, rows, parents)
        except Exception:
            print((folder / "driver.log").read_text()[-3_000:], file=sys.stderr)
            raise
    print(json.dumps(outcome | dict(happened) | {"seconds": round(time.perf_counter() - begun, 1)}))
    if outcome["wrong"] or happened["drivers killed"] < drivers:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
