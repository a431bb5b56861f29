"""MICS, publications: Figure 10. Does any subscription match (Algorithm 2), and which ones (Subscription Indexing)?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from earmark.cover.ranges.projection import Projection
from earmark.curves import hilbert
from earmark.curves.space import boxes_of_events
from earmark.flat import bits
from earmark.flat.arrays import I32, I64
from earmark.index.mics import MicsIndex
from earmark.index.scan import Scan
from earmark.jit import kernel
from earmark.report.answers import Answer, some_events
from earmark.report.bench import Bench
from earmark.report.experiment import Experiment, Panel
from earmark.report.papers.mics.data import DIMENSIONS, DISTRIBUTIONS, EXACT_BITS, ZIPF, Boxes, whole_cells
from earmark.workload.mics import mics
from earmark.workload.standard import Workload

COUNTED = ("nodes", "candidates", "compared")
LOOKED_AT = 2_000_000
"""Rows that the linear algorithm looks at in one call, about."""


@kernel
def linear_all(low: I64, high: I64, values: I64, counts: I64, out: I32) -> int:
    """Write all matches of each publication, row by row; a row is left at the first bound that fails."""
    found = 0
    for e in range(len(values)):
        before = found
        for row in range(len(low)):
            inside = True
            for j in range(values.shape[1]):
                if values[e, j] < low[row, j] or values[e, j] > high[row, j]:
                    inside = False
                    break
            if inside:
                out[found % len(out)] = row
                found += 1
        counts[e] = found - before
    return found


def figure_10(bench: Bench) -> Iterator[None]:
    """Matching time by the number of subscriptions."""
    for distribution in DISTRIBUTIONS:
        for dimensions in DIMENSIONS:
            for size in bench["sizes"]:
                workload = mics(
                    distribution,
                    size,
                    bench["publications"],
                    attributes=dimensions,
                    sizes=2,
                    published="uniform",
                    seed=bench.seed,
                )
                _any(bench, distribution, size, workload)
                _all(bench, distribution, size, workload)
                yield


def _scanned(workload: Workload, few: int) -> Answer:
    """Return what a scan of all subscriptions answers to the first publications."""
    scan, every = Scan.build(workload.table()), bits.all_set(len(workload.sub_lo))
    return Answer(*scan.match_many(some_events(workload, 0, few), every))


def _few(workload: Workload) -> int:
    """Return how many publications the linear algorithms get."""
    return min(len(workload.event_value), max(20, LOOKED_AT // len(workload.sub_lo)))


def _any(bench: Bench, distribution: str, size: int, workload: Workload) -> None:
    """Time Algorithm 2 with its conversion, the look-up alone, and the linear algorithm, which stops at a match."""
    events, few, dimensions = workload.events(), _few(workload), workload.attributes
    space, values = whole_cells(dimensions), np.ascontiguousarray(workload.event_value[: _few(workload)])
    ranges = Projection.build(workload.table(), space=space).wanted
    numbers = hilbert.numbers(boxes_of_events(space, events)[0], EXACT_BITS)
    kept = Boxes(workload.sub_lo, workload.sub_hi).uncovered().rows()
    expected = np.diff(_scanned(workload, few).start) > 0
    mine, alone, linear = (f"{name}, {dimensions}-d" for name in ("MICS", "look-up alone", "linear"))
    ways: dict[str, Callable[[int], Any]] = {
        mine: lambda call: ranges.holds(hilbert.numbers(boxes_of_events(space, events)[0], EXACT_BITS)),
        alone: lambda call: ranges.holds(numbers),
        linear: lambda call: kept.holding(values),
    }

    def check(name: str, call: int, answer: Any) -> str:
        wrong = int((np.asarray(answer)[:few] != expected).sum())
        return f"{wrong} answers are wrong" if wrong else ""

    counts = {linear: {"rows kept": float(len(kept))}}
    counts |= {name: {"ranges": float(len(ranges))} for name in (mine, alone)}
    per = {mine: len(numbers), alone: len(numbers), linear: few}
    found = bench.race(f"any, {distribution}", size, ways, per=per, check=check, counts=counts)
    bench.record(f"any, {distribution}, gain", f"{dimensions}-d", size, [found[linear] / found[mine]])


def _all(bench: Bench, distribution: str, size: int, workload: Workload) -> None:
    """Time Subscription Indexing and the linear algorithm, both of which find all matches."""
    table, events, few = workload.table(), workload.events(), _few(workload)
    index, every = MicsIndex.build(table), bits.all_set(size)
    low, high = workload.sub_lo, workload.sub_hi
    values, counts, out = workload.event_value[:few].copy(), np.zeros(few, np.int64), np.empty(1 << 20, np.int32)
    right = _scanned(workload, few)
    found = len(right.slots)
    done: dict[str, dict[str, float]] = {}
    mine, linear = (f"{name}, {workload.attributes}-d" for name in ("MICS", "linear"))

    def check(name: str, call: int, answer: Any) -> str:
        if name == linear:
            done[name] = {"rows looked at per publication": float(size)}
            pointers, slots = np.append(0, np.cumsum(counts)), out[:answer]
        else:
            each = len(workload.event_value)
            done[name] = {f"{what} per publication": getattr(index.work, what) / each for what in COUNTED}
            pointers, slots = answer
        same = np.array_equal(pointers[: few + 1], right.start) and np.array_equal(slots[:found], right.slots)
        return "" if same else "matches differ from those of the scan"

    ways: dict[str, Callable[[int], Any]] = {
        mine: lambda call: index.match_many(events, every),
        linear: lambda call: linear_all(low, high, values, counts, out),
    }
    per = {mine: len(workload.event_value), linear: few}
    medians = bench.race(f"all, {distribution}", size, ways, per=per, check=check, counts=done)
    bench.record(f"all, {distribution}, gain", f"{workload.attributes}-d", size, [medians[linear] / medians[mine]])


FIGURE_10 = Experiment(
    paper="mics",
    name="figure-10",
    title="Publication matching time",
    section="7.2",
    published="subscription size 2, uniform and Zipf, 2 to 4 dimensions; publications uniform",
    setting="{publications:,} publications against {sizes} subscriptions of size 2",
    differs=f"{ZIPF} *any* is Algorithm 2, conversion of the publication included, against a linear search over the "
    "rows that no other covers, which stops at the first match. *all* finds all matches, exactly, and so does its "
    "linear rival, which needs all rows. The linear algorithms get fewer publications, since they are slower.",
    panels=[
        panel
        for what in ("any", "all")
        for d in DISTRIBUTIONS
        for panel in (
            Panel(f"{what}, {d}", "subscriptions", "µs per publication", log_y=True),
            Panel(f"{what}, {d}, gain", "subscriptions", "linear / MICS", log_y=True),
        )
    ],
    scales={
        "tiny": {"sizes": (200, 400), "publications": 100},
        "quick": {"sizes": (20_000, 60_000), "publications": 2_000},
        "full": {"sizes": (20_000, 60_000, 100_000, 150_000), "publications": 10_000},
    },
    seconds={"quick": 30, "full": 120},
    run=figure_10,
)
