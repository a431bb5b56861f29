"""W3: a million scored intervals of one attribute, the 20 best; every answer compared.

    python benchmarks/stabbing.py [--quick] [--json FILE]

Intervals are short (~100 stabbed by a query), mid (~10,000) or long (~250,000). Bars: SOPT-R-tree and IR-tree below
10 µs a query, the cell table below 0.3 µs, every build below 10 s. The experiments of the paper on ranked
publish/subscribe are `earmark paper ranked`.

Times are of the processor, not of the clock: all searches here run in one thread, and other work on the machine then
counts less. The reference is the scan. Exit code 1 when a bar is missed or an answer is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.flat.arrays import frozen
from earmark.index.ranked import cell_table, ir_tree, sopt_r_tree, trees
from earmark.index.scan import Scan
from earmark.report.protocol import clocked
from earmark.segment.arrays import SegmentArrays
from results import PER_EVENT, Figure, Result
from tables import number, size_name

K = 20
TOP = 1 << 30
CHECKED = 200
"""Events of each set whose answers are compared with the scan's; among each other all are."""

STRUCTURES: dict[str, Callable[..., Any]] = {
    "interval_tree": trees.IntervalTree.build,
    "segment_tree": trees.SegmentTree.build,
    "r_tree": trees.RTree.build,
    "ir_tree": ir_tree.IRTree.build,
    "sopt_r_tree": sopt_r_tree.SoptRTree.build,
}
VARIANTS: dict[str, Callable[..., Any]] = {
    "cell_table": cell_table.CellTable.build,
    "interval_tree by endpoint": lambda table, **options: trees.IntervalTree.build(table, sort="endpoint", **options),
    "r_tree by left end": lambda table, **options: trees.RTree.build(table, scored=False, **options),
}


class Run:
    """The figures and bars of a run."""

    def __init__(self, quick: bool) -> None:
        self.quick = quick
        self.repeats = 3 if quick else 5
        self.figures: list[Figure] = []
        self.missed: list[str] = []

    def note(
        self, workload: str, n: int, engine: str, what: str, unit: str, values: list[float], events: int = 0
    ) -> float:
        """Keep a series; its median."""
        self.figures.append(Figure(workload, n, engine, what, unit, values, "ok", events, ""))
        return float(np.median(values))

    def bar(self, told: str, held: bool) -> None:
        """Say whether a bar was held."""
        print(f"  {'held  ' if held else 'MISSED'} {told}", flush=True)
        if not held:
            self.missed.append(told)

    def wrong(self, workload: str, n: int, engine: str, what: str) -> None:
        """An answer that is not the reference's."""
        self.figures.append(Figure(workload, n, engine, what, PER_EVENT, [], "wrong", 0, "differs from the scan"))
        self.bar(f"{workload}: the answers of {engine} ({what}) are those of the scan", False)


def w3_table(kind: str, n: int) -> SegmentArrays:
    """Scored intervals of one attribute: begins uniform, scores uniform, lengths by kind."""
    random = np.random.default_rng(5)
    lo = random.integers(0, TOP, n)
    if kind == "long":
        length = random.integers(0, TOP // 2, n)
    else:
        length = random.exponential(TOP * (1e-4 if kind == "short" else 1e-2), n).astype(np.int64)
    row = np.arange(n + 1, dtype=np.int32)
    nothing, one = np.empty(0), np.zeros(n, np.int32)
    hi = np.minimum(lo + length, TOP - 1)
    columns = (row, row, one, one.astype(np.uint8), row, lo, hi, nothing, random.random(n), np.arange(n))
    return SegmentArrays(*(frozen(column.view()) for column in columns))


def points(count: int) -> EventArrays:
    """Events of one attribute, uniform."""
    key = np.random.default_rng(6).integers(0, TOP, count)
    columns = (np.arange(count + 1), np.zeros(count, np.int32), key, key, np.empty(0))
    return EventArrays._make(frozen(column.view()) for column in columns)


def head(events: EventArrays, count: int) -> EventArrays:
    """The first events of a batch."""
    end = int(events.start[min(count, len(events.start) - 1)])
    columns = (events.start[: count + 1], events.attr[:end], events.lo[:end], events.hi[:end], events.weight)
    return EventArrays._make(frozen(np.ascontiguousarray(column)) for column in columns)


def search(
    run: Run, name: str, index: Any, table: SegmentArrays, events: EventArrays, k: int, relaxed: bool, wanted: Any,
    workload: str, what: str,
) -> tuple[float, Any]:  # fmt: skip
    """µs per event of a ranked search, compared with what is wanted (the scan's answers to the first events)."""
    n, count = len(table.sequence), len(events.start) - 1
    everything = bits.all_set(n)
    index.top_k_many(head(events, 2), k, everything, relaxed)
    values = []
    for _ in range(run.repeats):
        seconds, answer = clocked(lambda: index.top_k_many(events, k, everything, relaxed), "process")
        values.append(seconds * 1e6 / count)
    checked = len(wanted[0]) - 1
    end = answer[0][checked]
    same = np.array_equal(answer[0][: checked + 1], wanted[0])
    if not same or not np.array_equal(answer[1][:end], wanted[1]) or not np.array_equal(answer[2][:end], wanted[2]):
        run.wrong(workload, n, name, what)
    return run.note(workload, n, name, what, PER_EVENT, values, count), answer


def reference(table: SegmentArrays, events: EventArrays, k: int, relaxed: bool, count: int = CHECKED) -> Any:
    """The scan's answers to the first events."""
    return Scan.build(table).top_k_many(head(events, count), k, bits.all_set(len(table.sequence)), relaxed)


def w3(run: Run) -> None:
    """A million intervals, the 20 best."""
    n = 100_000 if run.quick else 1_000_000
    for kind in ("short", "mid", "long"):
        table, events = w3_table(kind, n), points(20_000)
        wanted = reference(table, events, K, False)
        name_of_set = f"w3 {kind}"
        print(f"\n{name_of_set}, {size_name(n)} intervals, top {K}")
        times, builds = {}, {}
        few = head(events, CHECKED)
        for name, build in {**STRUCTURES, **VARIANTS}.items():
            build(w3_table(kind, 100))
            seconds, index = clocked(lambda build=build, table=table: build(table), "process")
            builds[name] = run.note(name_of_set, n, name, "build", "s", [seconds])
            slow = name in ("interval_tree by endpoint", "r_tree by left end")
            times[name], _ = search(
                run, name, index, table, few if slow else events, K, False, wanted, name_of_set, "top 20"
            )
            run.note(name_of_set, n, name, "memory", "MiB", [index.nbytes / 2**20])
            print(
                f"  {name:26} {number(times[name]):>9} µs a query, build {number(seconds):>6} s, "
                f"{index.nbytes / 2**20:7,.0f} MiB, {index.references / n:5.1f} references an interval",
                flush=True,
            )
            del index
        for name in ("sopt_r_tree", "ir_tree"):
            run.bar(f"{name_of_set}: {name} takes {number(times[name])} µs a query (bar 10, aim 3)", times[name] < 10)
        taken = times["cell_table"]
        run.bar(f"{name_of_set}: the cell table takes {number(taken)} µs a query (bar 0.3)", taken < 0.3)
        for name in (*STRUCTURES, "cell_table"):
            run.bar(f"{name_of_set}: {name} is built in {number(builds[name])} s (bar 10)", builds[name] < 10)


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the intervals, three repeats")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args(None if arguments is None else list(arguments))
    run = Run(options.quick)
    w3(run)
    if options.json:
        Result("stabbing", {"quick": options.quick}, run.figures).write(options.json)
    print(f"\n{len(run.missed)} bars missed" + "".join(f"\n  {told}" for told in run.missed))
    return 1 if run.missed else 0


if __name__ == "__main__":
    sys.exit(main())
