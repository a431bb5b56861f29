"""The BE*-Tree and its rivals on the standard workloads, in one process, in turns, every answer compared.

    python benchmarks/be_star_tree.py [--quick] [--sizes 10k,1m] [--workloads w1u] [--json FILE]

Bars, at 1M subscriptions and events in a batch: against the faster numpy scan 15 x on w1u, 5 x on w1 and w1z; faster
than BE-Tree and k-index on w1u and w1z; bulk build in 10 s; 100,000 inserts a second in one call; at most 2 x the
table's bytes. k-index merges as published; with counting instead, which is often faster, it stands beside. Exit code 1
when a bar is missed at 1M or an answer is wrong anywhere. `--quick` takes 10k subscriptions and judges no bar.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import engines
from contenders import (
    BULK,
    COUNTED,
    MERGED,
    RIGID,
    SCAN,
    Bars,
    all_eligible,
    median,
    on_workloads,
    race,
    ratio_with_spread,
    table_bytes,
)
from contenders import figures as as_figures
from earmark.report.protocol import clocked
from earmark.workload.standard import WORKLOADS, Workload
from engines.base import Answer, Pointed, difference, match_keys
from measure import reference
from results import Figure
from tables import baseline_of, number, size_name, terminal

AGAINST_NUMPY = {"w1u": 15.0, "w1": 5.0, "w1z": 5.0}
FASTER_THAN_RIVALS = ("w1u", "w1z")
BUILD_SECONDS, INSERTS, BYTES = 10.0, 100_000.0, 2.0
INDEXES = (BULK, RIGID, MERGED, COUNTED, SCAN)


def measure(name: str, workload: Workload, repeats: int, limit: float) -> list[Figure]:
    """Build everything, search with everything, insert one by one; the table of what was found."""
    subscriptions, events = len(workload.sub_attr), len(workload.event_attr)
    table = workload.table()
    out, built = [], {}
    for one in INDEXES:
        one.build(workload.head(100).table())
        seconds, built[one.label] = clocked(lambda one=one: one.build(table))  # type: ignore[misc]
        out.append(Figure(name, subscriptions, one.label, "build", "s", [seconds]))
        share = built[one.label].nbytes / table_bytes(table)
        out.append(Figure(name, subscriptions, one.label, "bytes", "x the table", [share]))
    out += inserted(name, workload)
    wanted = reference(workload)

    def check(_: str, answer: Answer) -> str:
        return difference(match_keys(answer, subscriptions), wanted, subscriptions)

    found = race(searches(workload, built), repeats, limit, check)
    out += as_figures(found, name, subscriptions, "batch", events)
    print(f"\n{name}, {size_name(subscriptions)} subscriptions, {len(wanted) / events:,.1f} matches an event")
    print(terminal(by_engine(out), "numpy"), flush=True)
    return out


def searches(workload: Workload, built: dict[str, Any]) -> dict[str, Callable[[], Answer]]:
    """All events in a batch, and the faster of the numpy scans an event at a time."""
    table, events = workload.table(), workload.events()
    eligible, count = all_eligible(table), len(workload.event_attr)
    runs: dict[str, Callable[[], Answer]] = {
        label: lambda one=one: Pointed(*one.match_many(events, eligible))  # type: ignore[misc]
        for label, one in built.items()
    }
    rival = engines.make("numpy")
    rival.prepare(workload)
    rival.build(workload)
    ways = rival.searches()
    few = min(20, count)
    fastest = min(ways.values(), key=lambda way: clocked(lambda: way(few))[0])
    return {"numpy": lambda: fastest(count), **runs}


def inserted(name: str, workload: Workload) -> list[Figure]:
    """Clauses one by one, in one call, into an empty tree, and the last tenth into a tree of the others."""
    table, subscriptions = workload.table(), len(workload.sub_attr)
    out = []
    for what, before in (("inserts from empty", 0), ("inserts into 90 %", subscriptions * 9 // 10)):
        slots = np.arange(before, subscriptions, dtype=np.int32)
        tree = BULK.build(workload.head(before).table())
        tree.copy().insert(workload.head(before + 1).table(), slots[:1])
        seconds, _ = clocked(lambda tree=tree, slots=slots: tree.insert(table, slots))  # type: ignore[misc]
        rate = len(slots) / seconds
        note = f"{rate:,.0f} a second"
        out.append(Figure(name, subscriptions, BULK.label, what, "µs/insert", [1e6 / rate], note=note))
        print(f"{name}, {size_name(subscriptions)}: {what}: {note}", file=sys.stderr, flush=True)
    return out


def by_engine(figures: list[Figure]) -> list[Figure]:
    """Figures of one engine side by side, numpy first."""
    order = ["numpy", *(one.label for one in INDEXES)]
    return sorted(figures, key=lambda one: order.index(one.engine))


def judge(figures: list[Figure], size: int, judged: bool) -> Bars:
    """Every bar, told."""
    bars = Bars(judged)
    print(f"\nAt {size_name(size)}:")
    ok = {(one.workload, one.engine, one.what): one for one in figures if one.subscriptions == size and one.values}
    for name in dict.fromkeys(one.workload for one in figures):
        tree = ok.get((name, BULK.label, "batch"))
        rival = baseline_of([one for one in ok.values() if one.workload == name], "numpy")
        if tree is None or rival is None:
            bars.missed.append(f"{name}: no figure")
            continue
        print(f"  {name}: BE*-B against numpy {ratio_with_spread(rival.values, tree.values)}")
        if name in AGAINST_NUMPY:
            bars.at_least(f"{name}, against numpy", median(rival.values) / median(tree.values), AGAINST_NUMPY[name])
        for other in (RIGID, MERGED, COUNTED, SCAN):
            found = ok.get((name, other.label, "batch"))
            if found is None:
                continue
            what, ratio = f"{name}, against {other.label}", median(found.values) / median(tree.values)
            if name in FASTER_THAN_RIVALS and other in (RIGID, MERGED):
                bars.at_least(what, ratio, 1.0)
            else:
                print(f"  {what}: {number(ratio)} x")
        bars.at_most(f"{name}, bulk build", ok[name, BULK.label, "build"].values[0], BUILD_SECONDS, "s")
        bars.at_most(f"{name}, bytes", ok[name, BULK.label, "bytes"].values[0], BYTES, "x the table")
        for what in ("inserts from empty", "inserts into 90 %"):
            bars.at_least(f"{name}, {what}", 1e6 / ok[name, BULK.label, what].values[0], INSERTS, "a second")
    return bars


def main(given: list[str] | None = None) -> int:
    return on_workloads("be_star_tree", __doc__, WORKLOADS, measure, judge, 60.0, given)


if __name__ == "__main__":
    sys.exit(main())
