"""Is anything slower than at another revision? Both sides in one run, in turns.

    python benchmarks/compare.py REVISION [--size N] [--parts w1,w1u,w1z,w2,spark] [--indexes blocks,be_star_tree]

The other revision is checked out into a temporary folder. Each side is a process of its own (`compare_side.py`) that
is asked for one measurement at a time, now this one, now that one, so that a machine that is busier for a while is so
for both. A figure is the median of the ratios of neighbouring measurements; what a side answers must be equal.

    load, match, top_k, single match, single top_k, changes (add, update, remove one by one), save, open
    spark    publish of text conditions (bar: twice as fast), match

`slower` is said when the median ratio is above 1.10 and its whole interquartile range above 1. Exit code 1 when
anything is slower, or the bar of `publish` is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from earmark.workload import standard
from load import event_frame

HERE = Path(__file__).resolve().parent
MEASURES = ("match", "top_k", "single_match", "single_top_k", "changes", "save", "open")
FLOOR, PUBLISH_BAR, EVENTS = 1.10, 2.0, 20_000


class Worker:
    """A side: a process that answers one line with one line."""

    def __init__(self, tree: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "EARMARK_QUIET": "1", "PYTHONHASHSEED": "0"}
        environment["PYSPARK_PYTHON"] = sys.executable
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "compare_side.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def ask(self, what: str, **how: Any) -> dict[str, Any]:
        """The measurement: seconds, and a number that both sides must agree on."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": what, **how}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a side ended while it was asked for {what}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


class Comparison:
    """Two sides and what was found."""

    def __init__(self, old: Worker, new: Worker, repeats: int) -> None:
        self.old, self.new, self.repeats = old, new, repeats
        self.slower: list[str] = []

    def run(self, label: str, what: str, repeats: int | None = None, warm: bool = True, **how: Any) -> float:
        """Measure in turns; the median ratio of new to old."""
        ratios, before, after = [], [], []
        for turn in range((repeats or self.repeats) + warm):
            pair = (self.old, self.new) if turn % 2 else (self.new, self.old)
            answers = {id(side): side.ask(what, **how) for side in pair}
            old, new = answers[id(self.old)], answers[id(self.new)]
            if old["check"] != new["check"]:
                raise SystemExit(f"{label}: the sides disagree, {old['check']} and {new['check']}")
            if turn or not warm:
                before.append(old["seconds"])
                after.append(new["seconds"])
                ratios.append(new["seconds"] / max(old["seconds"], 1e-9))
        middle = statistics.median(ratios)
        low, high = (float(np.quantile(ratios, q)) for q in (0.25, 0.75))
        verdict = "slower" if middle > FLOOR and low > 1 else "faster" if middle < 1 / FLOOR and high < 1 else ""
        if verdict == "slower":
            self.slower.append(label)
        print(
            f"{label:34} {statistics.median(before):10.6f} s {statistics.median(after):10.6f} s   "
            f"{middle:5.2f} ({low:.2f}..{high:.2f}) {verdict}",
            flush=True,
        )
        return middle


def ranges_file(work: standard.Workload, path: Path) -> None:
    """The subscriptions of a workload as ready-made ranges."""
    slots, width = work.sub_attr.shape
    names = pa.array([f"a{n}" for n in range(work.attributes)])
    attribute = pa.DictionaryArray.from_arrays(pa.array(work.sub_attr.ravel()), names).cast(pa.string())
    entries = pa.StructArray.from_arrays(
        [attribute, pa.array(work.sub_lo.ravel()), pa.array(work.sub_hi.ravel())], ["attribute", "lo", "hi"]
    )
    ranges = pa.ListArray.from_arrays(pa.array(np.arange(0, slots * width + 1, width, dtype=np.int32)), entries)
    pq.write_table(pa.table({"id": np.arange(slots), "ranges": ranges}), path)


def conditions_file(rows: int, path: Path) -> None:
    """Rules as people write them: a few shapes, many values."""
    rng = np.random.default_rng(3)
    low, city, flag = rng.integers(0, 10_000, rows), rng.integers(0, 300, rows), rng.integers(0, 5, rows)
    texts = [
        f"age BETWEEN {a % 60} AND {a % 60 + 12} AND city = 'c{c}' AND price <= {a}"
        if f < 3
        else f"city IN ('c{c}', 'c{(c + 7) % 300}') AND (price > {a} OR vip)"
        for a, c, f in zip(low.tolist(), city.tolist(), flag.tolist(), strict=True)
    ]
    pq.write_table(pa.table({"id": np.arange(rows), "condition": texts}), path, row_group_size=max(1, rows // 8))


def visits_file(rows: int, path: Path) -> None:
    """Events for those rules."""
    rng = np.random.default_rng(4)
    columns = {"age": rng.integers(0, 80, rows), "price": rng.integers(0, 100, rows)}
    cities = [f"c{c}" for c in rng.integers(0, 300, rows).tolist()]
    pq.write_table(pa.table({**columns, "city": cities, "vip": rng.random(rows) < 0.01}), path)


def main(arguments: list[str] | None = None) -> int:
    """Compare; 1 when something is slower."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="the other revision, such as 168b8a6")
    parser.add_argument("--size", type=int, default=1_000_000, help="subscriptions of each workload")
    parser.add_argument("--parts", default="w1,w1u,w1z,w2,spark")
    parser.add_argument("--indexes", default="blocks,be_star_tree")
    parser.add_argument(
        "--repeats", type=int, default=7, help="of each measurement (%(default)s); load, save, open, spark: always 3"
    )
    given = parser.parse_args(arguments)
    root = HERE.parent
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="earmark-compare-")))
        tree = folder / "old"
        subprocess.run(
            ["git", "-C", str(root), "worktree", "add", "-q", "--detach", str(tree), given.revision], check=True
        )
        stack.callback(
            subprocess.run, ["git", "-C", str(root), "worktree", "remove", "--force", str(tree)], check=False
        )
        sides = [Worker(tree), Worker(root)]
        for side in sides:
            stack.callback(side.close)
        comparison = Comparison(sides[0], sides[1], given.repeats)
        print(f"{'':34} {given.revision:>10}   {'this':>10}     ratio (quartiles)")
        missed = _run(comparison, given.parts.split(","), given.indexes.split(","), given.size, folder)
    return int(missed or bool(comparison.slower))


def _run(comparison: Comparison, parts: list[str], indexes: list[str], size: int, folder: Path) -> bool:
    """Every part; whether a bar is missed."""
    missed = False
    for part in parts:
        if part == "spark":
            conditions_file(size, folder / "conditions.parquet")
            visits_file(EVENTS, folder / "visits.parquet")
            for side in (comparison.old, comparison.new):
                side.ask("start_spark")
            ratio = comparison.run(
                f"spark publish {size:,}", "publish", 3, subscriptions=str(folder / "conditions.parquet")
            )
            missed |= ratio > 1 / PUBLISH_BAR
            print(
                f"  publish is {1 / ratio:.2f} times as fast; bar {PUBLISH_BAR}: {'held' if not missed else 'MISSED'}"
            )
            comparison.run(f"spark match {EVENTS:,}", "spark_match", 3, events=str(folder / "visits.parquet"))
            continue
        work = getattr(standard, part)(subscriptions=size)
        files = {"subscriptions": folder / f"{part}.parquet", "events": folder / f"{part}-events.parquet"}
        ranges_file(work, files["subscriptions"])
        pq.write_table(event_frame(work), files["events"])
        given = {name: str(path) for name, path in files.items()}
        for index in indexes:
            comparison.run(f"{part} {index} load", "load", 3, warm=size < 200_000, index=index, **given)
            for what in MEASURES:
                few = 3 if what in ("save", "open") else None
                comparison.run(f"{part} {index} {what.replace('_', ' ')}", what, few)
    return missed


if __name__ == "__main__":
    sys.exit(main())
