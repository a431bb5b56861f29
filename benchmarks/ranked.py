"""The scored interval indexes of ranked publish/subscribe: W3, Table 2 and Figures 6 to 9, every answer compared.

    python benchmarks/ranked.py [--quick] [--only PART ...] [--json FILE]

    w3        a million scored intervals of one attribute, the 20 best: short (~100 stabbed), mid (~10,000), long
              (~250,000). Bars: SOPT-R-tree and IR-tree below 10 µs a query, the cell table below 0.3 µs, every build
              below 10 s
    space     Table 2: bytes and references on the paper's data. Bars: the segment tree has at least 10 times the
              references of the others; the IR-tree at most twice the bytes of the interval tree
    getnext   Figure 6: the time for 1 to 1,000 answers in one dimension. Bar: at 20, the SOPT-R-tree is the fastest or
              within 10 % of it
    dimensions  Figures 7 and 8: relaxed search in 1 to 8 dimensions. Bar: the slowest is closer to the SOPT-R-tree in
              8 dimensions than in 1
    overlap   Figure 9: relaxed search in 4 dimensions, intervals from long to short. Bars: the scored R-tree's loss
              against the SOPT-R-tree, in time and in nodes visited, is greater for short intervals than for long
              ones; all others are faster with short ones

Times are of the processor, not of the clock: all searches here run in one thread, and other work on the machine then
counts less. The reference is the scan. Exit code 1 when a bar is missed or an answer is wrong.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.flat.arrays import frozen
from earmark.index.ranked import cell_table, ir_tree, sopt_r_tree, trees
from earmark.index.scan import Scan
from earmark.segment.arrays import SegmentArrays
from earmark.workload.zipf import zipf
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
        self.nodes: dict[str, float] = {}

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


def processor_seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the processor for one run, and what it returned."""
    gc.collect()
    gc.disable()
    try:
        begun = time.process_time()
        result = run()
        return time.process_time() - begun, result
    finally:
        gc.enable()


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
    return SegmentArrays._make(frozen(column.view()) for column in columns)


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
        seconds, answer = processor_seconds(lambda: index.top_k_many(events, k, everything, relaxed))
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
            seconds, index = processor_seconds(lambda build=build, table=table: build(table))
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


def space(run: Run) -> None:
    """Table 2."""
    sizes = (100_000,) if run.quick else (100_000, 200_000, 500_000, 1_000_000)
    for n in sizes:
        table = zipf(intervals=n, queries=1).table()
        print(f"\nTable 2, {size_name(n)} intervals of the paper's data: MiB, references an interval")
        taken, references = {}, {}
        for name, build in STRUCTURES.items():
            index = build(table)
            taken[name], references[name] = index.nbytes / 2**20, index.references / n
            run.note("table 2", n, name, "memory", "MiB", [taken[name]])
            run.note("table 2", n, name, "references", "an interval", [references[name]])
            print(f"  {name:26} {taken[name]:8,.1f} {references[name]:6.1f}", flush=True)
        most = max(value for name, value in references.items() if name != "segment_tree")
        ratio = references["segment_tree"] / most
        run.bar(f"the segment tree stores {ratio:.1f} x the references of the others (bar 10)", ratio >= 10)
        ratio = taken["ir_tree"] / taken["interval_tree"]
        run.bar(f"the IR-tree takes {ratio:.2f} x the bytes of the interval tree (bar 2)", ratio <= 2)


def compared(run: Run, title: str, label: str, table: SegmentArrays, events: EventArrays, k: int, relaxed: bool,
             options: dict[str, Any]) -> dict[str, float]:  # fmt: skip
    """µs per event of each structure on one set; a line each."""
    wanted = reference(table, events, k, relaxed, 50)
    taken, answers = {}, None
    run.nodes = {}
    for name, build in STRUCTURES.items():
        index = build(table, **options)
        taken[name], answer = search(run, name, index, table, events, k, relaxed, wanted, title, label)
        if answers is not None and not all(np.array_equal(a, b) for a, b in zip(answer, answers, strict=True)):
            run.wrong(title, len(table.sequence), name, label)
        answers = answer
        run.nodes[name] = index.work.nodes / (len(events.start) - 1)
        del index
    told = "  ".join(f"{name} {number(value)}" for name, value in taken.items())
    print(f"  {label:22} {told}", flush=True)
    return taken


def getnext(run: Run) -> None:
    """Figure 6."""
    n = 100_000 if run.quick else 1_000_000
    data = zipf(intervals=n, queries=1_000)
    table, events = data.table(), data.events()
    print(f"\nFigure 6, {size_name(n)} intervals of the paper's data, µs for so many getnext()")
    for k in (1, 5, 20, 100, 1_000):
        taken = compared(run, "figure 6", f"{k} answers", table, events, k, False, {})
        if k == K:
            ratio = taken["sopt_r_tree"] / min(taken.values())
            run.bar(f"at 20 the SOPT-R-tree takes {ratio:.2f} x the fastest (bar 1.1)", ratio <= 1.1)


def dimensions(run: Run) -> None:
    """Figures 7 and 8."""
    n = 20_000 if run.quick else 100_000
    print(f"\nFigures 7 and 8, {size_name(n)} subscriptions of the paper's data, relaxed, top {K}, µs a query")
    spread = {}
    for d in (1, 2, 3, 4, 8):
        data = zipf(intervals=n, queries=100, dimensions=d)
        taken = compared(run, "figure 7", f"{d} dimensions", data.table(), data.events(), K, True, {"modes": "relaxed"})
        spread[d] = max(taken.values()) / taken["sopt_r_tree"]
    told = ", ".join(f"{value:.1f} in {d}" for d, value in spread.items())
    run.bar(f"slowest against SOPT-R-tree: {told} dimensions (bar: less in 8 than in 1)", spread[8] < spread[1])


def overlap(run: Run) -> None:
    """Figure 9."""
    n = 20_000 if run.quick else 100_000
    print(f"\nFigure 9, {size_name(n)} subscriptions in 4 dimensions, relaxed, top {K}, µs a query by skew of lengths")
    taken, loss = {}, []
    skews = (0.0, 0.75, 1.5, 2.5)
    for skew in skews:
        data = zipf(intervals=n, queries=100, dimensions=4, skew_length=skew)
        label = f"skew {skew}"
        taken[skew] = compared(run, "figure 9", label, data.table(), data.events(), K, True, {"modes": "relaxed"})
        loss.append(run.nodes["r_tree"] / run.nodes["sopt_r_tree"])
    in_time = [taken[skew]["r_tree"] / taken[skew]["sopt_r_tree"] for skew in skews]
    told = ", ".join(f"{value:.2f} at {skew}" for skew, value in zip(skews, in_time, strict=True))
    run.bar(
        f"time of the scored R-tree against the SOPT-R-tree: {told} (bar: more for the shortest)",
        in_time[-1] > in_time[0],
    )
    told = ", ".join(f"{value:.2f} at {skew}" for skew, value in zip(skews, loss, strict=True))
    run.bar(
        f"nodes of the scored R-tree against the SOPT-R-tree: {told} (bar: more for the shortest)", loss[-1] > loss[0]
    )
    improved = [name for name in STRUCTURES if name != "r_tree" and taken[skews[-1]][name] < taken[skews[0]][name]]
    run.bar(f"faster with short intervals than with long ones: {', '.join(improved)} (bar: all but the R-tree)",
            len(improved) == len(STRUCTURES) - 1)  # fmt: skip


PARTS = {"w3": w3, "space": space, "getnext": getnext, "dimensions": dimensions, "overlap": overlap}


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the intervals, three repeats")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help="not all parts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args(None if arguments is None else list(arguments))
    run = Run(options.quick)
    for part in options.only:
        PARTS[part](run)
    if options.json:
        Result("ranked", {"quick": options.quick, "parts": options.only}, run.figures).write(options.json)
    print(f"\n{len(run.missed)} bars missed" + "".join(f"\n  {told}" for told in run.missed))
    return 1 if run.missed else 0


if __name__ == "__main__":
    sys.exit(main())
