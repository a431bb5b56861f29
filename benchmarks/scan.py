"""Scan against numpy on w2 and w1, in one process, every answer compared: all that match, one by one, the 10 best.

    python benchmarks/scan.py [--quick] [--json FILE]

The rival is the faster of the two numpy scans of `engines/numpy_scan.py`. Bar: a batch on w2, at the largest size, at
least 3 x as fast as the rival. Exit code 1 when it is missed or an answer is wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import engines
from earmark.report.protocol import QUICK_REPEATS, REPEATS
from earmark.workload.standard import WORKLOADS, Workload
from engines.base import Answer, Numbers, Pointed
from engines.earmark_index import EarmarkIndex
from measure import reference, search_series
from results import PER_EVENT, Figure, Result
from tables import baseline_of, size_name, terminal

BAR, BEST = 3.0, 10


class Ranked(EarmarkIndex):
    """The scan, and its search for the best."""

    def best(self, count: int) -> Answer:
        """The best of each of the first events, in one call."""
        start, slots, _ = self.index.top_k_many(self.first(count), BEST, self.eligible)  # type: ignore[attr-defined]
        return Pointed(start, slots)


def first_of_each(wanted: Numbers, subscriptions: int) -> Numbers:
    """Of the matches only the first 10 an event: with equal scores, these are the best."""
    events = wanted // subscriptions
    rank = np.arange(len(wanted)) - events.searchsorted(events)
    return wanted[rank < BEST]


def measure_size(name: str, workload: Workload, repeats: int, limit: float) -> list[Figure]:
    """Every way of searching, on one workload and size."""
    scan, threaded, rival = Ranked("scan"), Ranked("scan", threads=2), engines.make("numpy")
    for engine in (scan, threaded, rival):
        engine.prepare(workload)
        engine.build(workload)
    wanted = reference(workload)
    best = first_of_each(wanted, len(workload.sub_attr))
    ways = [
        ("scan", "batch", scan.batch, wanted),
        ("scan", "batch, 2 threads", threaded.batch, wanted),
        ("scan", "single", scan.single, wanted),
        ("scan", f"best {BEST}", scan.best, best),
        *(("numpy", what, search, wanted) for what, search in rival.searches().items()),
    ]
    figures = []
    for engine_name, what, search, answers in ways:
        search(1)
        status, values, note = search_series(search, workload, answers, repeats, limit)
        events = len(workload.event_attr)
        figures.append(Figure(name, len(workload.sub_attr), engine_name, what, PER_EVENT, values, status, events, note))
    print(f"\n{name}, {size_name(len(workload.sub_attr))} subscriptions, {len(wanted) / events:,.1f} matches an event")
    print(terminal(figures, "numpy"), flush=True)
    return figures


def bar_holds(figures: list[Figure]) -> bool:
    """Whether the batch is as far ahead of numpy as it should be; says so."""
    size = max(one.subscriptions for one in figures)
    own = [one for one in figures if one.workload == "w2" and one.subscriptions == size]
    rival, batch = baseline_of(own, "numpy"), next(one for one in own if one.what == "batch")
    if rival is None or batch.status != "ok":
        return False
    ratio = rival.summary.median / batch.summary.median
    told = f"{ratio:.1f} x as fast as numpy, {rival.what} (bar {BAR:.0f})"
    print(f"\nw2, {size_name(size)}: the batch is {told} -> {'held' if ratio >= BAR else 'MISSED'}")
    return ratio >= BAR


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="10k and 100k subscriptions only, three repeats")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args()
    sizes = [10_000, 100_000] if options.quick else [10_000, 100_000, 1_000_000]
    repeats, limit = (QUICK_REPEATS, 4.0) if options.quick else (REPEATS, 60.0)
    figures = []
    for name in ("w2", "w1"):
        whole = WORKLOADS[name](subscriptions=sizes[-1])
        for size in sizes:
            figures += measure_size(name, whole.head(size), repeats, limit)
    held = bar_holds(figures)
    if options.json:
        Result("scan", {"sizes": sizes, "repeats": repeats}, figures).write(options.json)
    return 0 if held and not any(one.status == "wrong" for one in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
