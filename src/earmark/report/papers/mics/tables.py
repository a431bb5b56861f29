"""MICS, what is counted: Tables 1 to 3 and Figures 11 and 12. Conversion, ranges, false positives, candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from earmark.cover.indexes.mics import Mics
from earmark.cover.ranges.projection import Projection
from earmark.cover.ranges.subsets import SubsetProjections
from earmark.cover.ranges.subsumption import RangeBatch
from earmark.cover.ranges.table import Ranges, as_ranges
from earmark.curves import hilbert
from earmark.curves.hilbert import mean_ranges
from earmark.flat import bits
from earmark.flat.arrays import I64, Flags
from earmark.index.mics import MicsIndex
from earmark.index.scan import Scan
from earmark.report import oracles
from earmark.report.bench import Bench
from earmark.report.experiment import Experiment, Panel, Printed
from earmark.report.papers.mics.data import (
    BITS,
    DIMENSIONS,
    DISTRIBUTIONS,
    EXACT_BITS,
    ZIPF,
    Boxes,
    whole_cells,
    whole_cells_of,
)
from earmark.workload.mics import CELLS, mics, table_2
from earmark.workload.standard import Workload

SIDES = (2, 4, 8, 16)
INDEXED = (0, 1, 2)
SUBSETS = (INDEXED, (3, 4), (5, 6))
"""Seven attributes in three subsets, for section 8."""
SIZE_4, MEAN_4, FITTED = "size 4", "mean 4", "fitted"
DATA: Mapping[str, Callable[..., Workload]] = {
    SIZE_4: mics,
    MEAN_4: partial(mics, sizes=7, drawn=True),
    FITTED: table_2,
}
MICROSECONDS_1 = {2: (100, 100, 300, 1000), 3: (100, 300, 1900, 12800), 4: (100, 1100, 10200, 124100)}
PRINTED_2 = {
    "zipf": {20_000: (5217, 5.54), 60_000: (6472, 3.71), 100_000: (7040, 3.15), 150_000: (7502, 2.57)},
    "uniform": {20_000: (209, 42.11), 60_000: (583, 42.37), 100_000: (858, 36.95), 150_000: (1325, 38.19)},
}
PRINTED_3 = {
    "zipf": {20_000: 64, 60_000: 232, 100_000: 414, 150_000: 600},
    "uniform": {20_000: 1, 60_000: 1, 100_000: 1, 150_000: 1},
}
ASKED = 300
"""New subscriptions of Table 3."""


def run_table_1(bench: Bench) -> Iterator[None]:
    """Boxes as ranges of the curve."""
    for dimensions in DIMENSIONS:
        for side in SIDES:
            count = max(20, min(bench["boxes"], bench["cells"] // side ** (dimensions - 1)))
            low = np.random.default_rng(bench.seed).integers(0, CELLS + 1 - side, (count, dimensions))
            boxes = Boxes(low, low + side - 1)
            right = oracles.runs_of_each(*boxes, BITS)
            ranges, expected = len(right[1]) / count, float(mean_ranges(*boxes).mean())
            name, counts = f"{dimensions}-d", {"cells per box": side**dimensions, "ranges per box": ranges}
            bench.race(
                "conversion", side, {name: partial(converted, boxes)}, per=count, check=partial(differing, right),
                counts={name: counts},
            )  # fmt: skip
            bench.record("ranges", f"{dimensions}-d", side, [ranges])
            bench.record("ranges", f"{dimensions}-d, Equation (3)", side, [expected])
            yield


def converted(boxes: Boxes, call: int) -> RangeBatch:
    """Convert boxes to ranges; `call` plays no part."""
    return boxes.ranges()


def differing(right: tuple[I64, I64, I64], name: str, call: int, answer: RangeBatch) -> str:
    """Return how the ranges of boxes are wrong, or ""."""
    return "" if all(map(np.array_equal, answer, right)) else "the ranges are not those of the cells"


def run_table_2(bench: Bench) -> Iterator[None]:
    """Content Space Projection: sent, and in vain; three of seven attributes, and all of them in three subsets."""
    for distribution in DISTRIBUTIONS:
        for size in bench["sizes"]:
            for name, drawn in DATA.items():
                workload = drawn(distribution, size, bench["publications"], seed=bench.seed)
                table, events = workload.table(), workload.events()
                right = wanted(workload)
                projection = Projection.build(table, space=whole_cells(len(INDEXED)))
                parts = SubsetProjections([Projection.build(table, space=whole_cells_of(one)) for one in SUBSETS])
                for series, sender in ((name, projection), (f"{name}, subsets", parts)):
                    sent = sender.sends(events)
                    missed = int((right & ~sent).sum())
                    wrong = f"{missed} wanted publications were not sent" if missed else ""
                    vain = 100 * float((sent & ~right).sum()) / max(1, int(sent.sum()))
                    counts = {"wanted": float(right.sum()), "ranges": float(len(sender))}
                    for panel, value in (("sent", float(sent.sum())), ("in vain", vain)):
                        bench.record(f"{panel}, {distribution}", series, size, [value], counts, wrong=wrong)
                yield


def wanted(workload: Workload) -> Flags:
    """Return which publications some subscription matches: what the scan says."""
    every = bits.all_set(len(workload.sub_attr))
    pointers, _ = Scan.build(workload.table()).match_many(workload.events(), every)
    return np.diff(pointers) > 0


def run_table_3(bench: Bench) -> Iterator[None]:
    """Subscription Indexing: how many subscriptions are left to evaluate."""
    for distribution in DISTRIBUTIONS:
        for size in bench["sizes"]:
            drawn, new = (
                mics(distribution, n, 1, seed=seed) for n, seed in ((size, bench.seed), (ASKED, bench.seed + 1))
            )
            table, scan = drawn.table(), oracles.Scan(drawn.sub_lo, drawn.sub_hi)
            index = MicsIndex.build(table, attributes=INDEXED, bits=EXACT_BITS, cells="equal")
            every = np.arange(ASKED, dtype=np.int32)
            needed = [scan.meeting(low, high) for low, high in zip(new.sub_lo, new.sub_hi, strict=True)]
            for series, sifted in (("lists", False), ("with the sieve", True)):
                pointers, slots = index.meeting(new.table(), every, sifted=sifted)
                left_over(bench, distribution, series, size, np.split(slots, pointers[1:-1]), needed)
            covers, own = Mics.build(table), np.linspace(0, size - 1, ASKED, dtype=np.int64).tolist()
            candidates = [np.setdiff1d(covers.aligned(slot), [slot]) for slot in own]
            left_over(bench, distribution, "for merging", size, candidates, [scan.partners(slot) for slot in own])
            yield


def left_over(
    bench: Bench, distribution: str, series: str, size: int, candidates: Sequence[Any], needed: Sequence[I64]
) -> None:
    """Record how many candidates there are for each question; those that are needed must be among them."""
    lost = sum(len(np.setdiff1d(right, found)) for right, found in zip(needed, candidates, strict=True))
    wrong = f"{lost} that are needed are not among the candidates" if lost else ""
    left = sum(map(len, candidates)) / ASKED
    counts = {"needed": sum(map(len, needed)) / ASKED}
    bench.record(distribution, series, size, [left], counts, wrong=wrong)
    bench.record(f"{distribution}, share", series, size, [100 * left / size], counts, wrong=wrong)


def stored(bench: Bench, cases: list[tuple[int, int, str]]) -> Iterator[None]:
    """Count the ranges that are stored after covering, subsumption and merging."""
    for distribution in DISTRIBUTIONS:
        for dimensions, width, name in cases:
            every = Boxes.drawn(distribution, max(bench["sizes"]), dimensions, width, bench.seed)
            for size in bench["sizes"]:
                _, first, last = hilbert.ranges(*every.part(0, size), BITS)
                kept = as_ranges(Ranges(first, last))
                share = float((kept.last - kept.first + 1).sum()) / CELLS**dimensions
                counts = {"share of all cells": share, "ranges before": float(len(first))}
                right = all(map(np.array_equal, kept, oracles.runs(*every.part(0, size), BITS)))
                wrong, asked_for = "" if right else "the ranges are not those of the cells", dimensions * size
                bench.record(distribution, name, size, [len(kept.first)], counts, wrong=wrong)
                per = f"{distribution}, per range asked for"
                bench.record(per, name, size, [len(kept.first) / asked_for], wrong=wrong)
            yield


# --- settings -------------------------------------------------------------------------------------------------------

SIZES = {
    "tiny": {"sizes": (200, 400), "publications": 100},
    "quick": {"sizes": (20_000, 60_000), "publications": 10_000},
    "full": {"sizes": (20_000, 60_000, 100_000, 150_000), "publications": 10_000},
}

TABLE_1 = Experiment(
    paper="mics",
    name="table-1",
    title="Boxes as ranges of Hilbert's curve",
    section="6.1",
    published="256 cells per axis, boxes of 2 to 16 cells per axis; a laptop of 2007",
    setting="up to {boxes:,} boxes in one call, 256 cells per axis",
    panels=[Panel("conversion", "cells per axis", "µs per box", log_y=True),
            Panel("ranges", "cells per axis", "ranges")],
    scales={"tiny": {"boxes": 20, "cells": 2_000}, "quick": {"boxes": 1_000, "cells": 200_000},
            "full": {"boxes": 4_000, "cells": 800_000}},
    seconds={"quick": 5, "full": 25},
    printed=[Printed("conversion", f"{d}-d", side, value) for d, row in MICROSECONDS_1.items()
             for side, value in zip(SIDES, row, strict=True)],
    run=run_table_1,
)  # fmt: skip

TABLE_2 = Experiment(
    paper="mics",
    name="table-2",
    title="Content Space Projection: publications sent, and in vain",
    section="7.2",
    published="10,000 publications, 3 of 7 attributes, average subscription size 4",
    setting="{publications:,} publications, {sizes} subscriptions, 3 of 7 attributes",
    differs=f"{ZIPF} *size 4*: every range has 4 cells, on all seven attributes, as section 7 says. *mean 4*: 1 to 7 "
    "cells, 4 on average. *fitted*: 1 to 4 cells, and one subscription in eight asks about each of the four attributes "
    "that are left out; sizes and shares were chosen to reproduce the printed traffic, so its agreement is no evidence "
    "for the paper. *subsets* is section 8: all seven attributes, as three tables of ranges.",
    panels=[Panel(f"{what}, {d}", "subscriptions", unit) for d in DISTRIBUTIONS
            for what, unit in (("sent", "publications"), ("in vain", "%"))],
    scales=SIZES,
    seconds={"quick": 40, "full": 150},
    printed=[Printed(f"{what}, {d}", name, size, row[i]) for d, rows in PRINTED_2.items() for size, row in rows.items()
             for i, what in enumerate(("sent", "in vain")) for name in DATA],
    run=run_table_2,
)  # fmt: skip

TABLE_3 = Experiment(
    paper="mics",
    name="table-3",
    title="Subscription Indexing: subscriptions left to evaluate",
    section="7.2",
    published="3 of 7 attributes, subscription size 4",
    setting="300 new subscriptions against {sizes}, 3 of 7 attributes, size 4",
    differs=f"{ZIPF} *lists* is the paper's index. *with the sieve*: two words beside each entry rule out more. *for "
    "merging*: candidates that touch the subscription, or equal it on all attributes but one, with our choice of "
    "attributes.",
    panels=[panel for d in DISTRIBUTIONS for panel in (Panel(d, "subscriptions", "candidates"),
            Panel(f"{d}, share", "subscriptions", "% of all"))],
    scales=SIZES,
    seconds={"quick": 15, "full": 60},
    printed=[Printed(d, "lists", size, value) for d, rows in PRINTED_3.items() for size, value in rows.items()],
    run=run_table_3,
)  # fmt: skip

STORED = [panel for d in DISTRIBUTIONS for panel in (
    Panel(d, "subscriptions", "ranges"), Panel(f"{d}, per range asked for", "subscriptions", "stored / asked for"))
]  # fmt: skip
FULL_SPACE = "In a space that is nearly full, ranges merge into few; the share of all cells is among the counts."

FIGURE_11 = Experiment(
    paper="mics",
    name="figure-11",
    title="Stored ranges by dimensionality",
    section="7.2",
    published="subscription size 2, 2 to 4 dimensions, after covering, subsumption and merging",
    setting="{sizes} subscriptions of size 2",
    differs=f"{ZIPF} {FULL_SPACE}",
    panels=STORED,
    scales=SIZES,
    seconds={"quick": 5, "full": 30},
    run=lambda bench: stored(bench, [(d, 2, f"{d}-d") for d in DIMENSIONS]),
)

FIGURE_12 = Experiment(
    paper="mics",
    name="figure-12",
    title="Stored ranges by subscription size",
    section="7.2",
    published="3 dimensions, sizes 2 to 8, after covering, subsumption and merging",
    setting="{sizes} subscriptions in 3 dimensions",
    differs=f"{ZIPF} {FULL_SPACE}",
    panels=STORED,
    scales=SIZES,
    seconds={"quick": 10, "full": 60},
    run=lambda bench: stored(bench, [(3, size, f"size {size}") for size in (2, 4, 8)]),
)
