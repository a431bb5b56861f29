"""The blocks index against the BE*-Tree and scan on the standard workloads: in turns, every answer compared.

    python benchmarks/blocks.py [--quick] [--sizes 10k,1m] [--workloads w2] [--json FILE]

All matches and the 10 best, events in a batch and one at a time (one by one only the first ONE_BY_ONE of them).
Bars, at 1M subscriptions and events in a batch: on w2 all matches in 60 µs and the 10 best in 35 µs per event; on w1,
w1u and w1z no slower than the BE*-Tree; a build in 10 s; at most 1.5 x the table's bytes. Exit code 1 when a bar is
missed at 1M or an answer is wrong anywhere. `--quick` takes 10k subscriptions and judges no bar. Times are those of the
processor, since all of these search in one thread: other work on the machine then counts for less.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np

from contenders import (
    BULK,
    SCAN,
    Bars,
    Contender,
    all_eligible,
    first_events,
    median,
    on_workloads,
    race,
    ratio_with_spread,
    table_bytes,
    unequal,
)
from contenders import figures as as_figures
from earmark.events.arrays import EventArrays
from earmark.segment.arrays import SegmentArrays
from earmark.workload.standard import WORKLOADS, Workload
from results import Figure
from tables import size_name, terminal

BLOCKS = Contender("blocks", "blocks")
INDEXES = (BLOCKS, BULK, SCAN)
K, ONE_BY_ONE = 10, 50
ALL, BEST, SINGLE = "all, in a batch", "10 best, in a batch", "all, one by one"
DENSE_ALL, DENSE_BEST = 60.0, 35.0
BUILD_SECONDS, BYTES = 10.0, 1.5

Run = Callable[[], tuple[Any, ...]]
T = TypeVar("T")


def by_processor(run: Callable[[], T]) -> tuple[float, T]:
    """Seconds of the processor that a run took, and what it returned."""
    begun = time.process_time()
    result = run()
    return time.process_time() - begun, result


def measure(name: str, workload: Workload, repeats: int, limit: float) -> list[Figure]:
    """Build everything, ask everything in every way; the table of what was found."""
    subscriptions, table = len(workload.sub_attr), workload.table()
    out, built = [], {}
    for one in INDEXES:
        one.build(workload.head(100).table())
        seconds, built[one.label] = by_processor(lambda one=one: one.build(table))  # type: ignore[misc]
        out.append(Figure(name, subscriptions, one.label, "build", "s", [seconds]))
        share = built[one.label].nbytes / table_bytes(table)
        out.append(Figure(name, subscriptions, one.label, "bytes", "x the table", [share]))
    for what, (events, runs) in asked(table, workload.events(), built).items():
        wanted = runs[SCAN.label]()
        check = partial(differs, wanted)
        found = race(runs, repeats, limit, check, by_processor)
        out += as_figures(found, name, subscriptions, what, events)
    print(f"\n{name}, {size_name(subscriptions)} subscriptions")
    print(terminal(by_engine(out), SCAN.label), flush=True)
    return out


def differs(wanted: tuple[Any, ...], _: str, answer: tuple[Any, ...]) -> str:
    """How an answer is not the scan's."""
    return unequal(answer, wanted)


def asked(table: SegmentArrays, events: EventArrays, built: dict[str, Any]) -> dict[str, tuple[int, dict[str, Run]]]:
    """By way of asking: how many events, and who is asked."""
    eligible, count = all_eligible(table), len(events.start) - 1
    few = first_events(events, min(ONE_BY_ONE, count))
    runs: dict[str, dict[str, Run]] = {ALL: {}, BEST: {}, SINGLE: {}}
    for label, one in built.items():
        runs[ALL][label] = lambda one=one: one.match_many(events, eligible)  # type: ignore[misc]
        runs[BEST][label] = lambda one=one: one.top_k_many(events, K, eligible)  # type: ignore[misc]
        runs[SINGLE][label] = lambda one=one: one_by_one(one, few, eligible)  # type: ignore[misc]
    return {what: (len(few.start) - 1 if what == SINGLE else count, own) for what, own in runs.items()}


def one_by_one(index: Any, events: EventArrays, eligible: Any) -> tuple[Any, ...]:
    """Pointers and slots of events that come alone."""
    slots = [index.match(events, eligible, e) for e in range(len(events.start) - 1)]
    return np.cumsum([0, *map(len, slots)]), np.concatenate(slots)


def by_engine(figures: list[Figure]) -> list[Figure]:
    """Figures of one engine side by side."""
    order = [one.label for one in INDEXES]
    return sorted(figures, key=lambda one: order.index(one.engine))


def judge(figures: list[Figure], size: int, judged: bool) -> Bars:
    """Every bar, told; and what no bar is about."""
    bars = Bars(judged)
    print(f"\nAt {size_name(size)}:")
    ok = {(one.workload, one.engine, one.what): one for one in figures if one.subscriptions == size and one.values}
    for name in dict.fromkeys(one.workload for one in figures):
        for what in (ALL, BEST, SINGLE):
            own, tree, scan = (ok.get((name, one.label, what)) for one in INDEXES)
            if own is None or tree is None or scan is None:
                bars.missed.append(f"{name}, {what}: no figure")
                continue
            print(f"  {name}, {what}, against {BULK.label}: {ratio_with_spread(tree.values, own.values)}")
            print(f"  {name}, {what}, against {SCAN.label}: {ratio_with_spread(scan.values, own.values)}")
            if name == "w2" and what != SINGLE:
                bars.at_most(f"{name}, {what}", median(own.values), DENSE_ALL if what == ALL else DENSE_BEST, "µs")
            elif what == ALL:
                ratio = median(tree.values) / median(own.values)
                bars.at_least(f"{name}, {what}, against {BULK.label}", ratio, 1.0)
        bars.at_most(f"{name}, build", ok[name, BLOCKS.label, "build"].values[0], BUILD_SECONDS, "s")
        bars.at_most(f"{name}, bytes", ok[name, BLOCKS.label, "bytes"].values[0], BYTES, "x the table")
    return bars


def main(given: list[str] | None = None) -> int:
    return on_workloads("blocks", __doc__, WORKLOADS, measure, judge, 20.0, given)


if __name__ == "__main__":
    sys.exit(main())
