"""Ranked publish/subscribe (ranked-pubsub.txt): Table 2, Figures 6 to 9; building, and the conventional trees.

All five structures answer the same questions on the same data, drawn with the parameters of Table 1. The three with
R-trees in them have one branching factor in each comparison: the paper's 50, and 16, which is ours. The interval tree
and the segment tree have none, and take part in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.flat.arrays import U64
from earmark.index.ranked.base import ScoredIndex
from earmark.index.ranked.ir_tree import IRTree
from earmark.index.ranked.sopt_r_tree import SoptRTree
from earmark.index.ranked.trees import IntervalTree, RTree, SegmentTree
from earmark.index.scan import Scan
from earmark.report.answers import some_events
from earmark.report.bench import Bench
from earmark.report.experiment import Experiment, Panel, Printed
from earmark.report.protocol import clocked
from earmark.segment.arrays import SegmentArrays
from earmark.workload.standard import Workload
from earmark.workload.zipf import zipf

INTERVAL, SEGMENT, R_TREE, IR_TREE, SOPT = "interval tree", "segment tree", "R-tree", "IR-tree", "SOPT-R-tree"
BRANCHING: dict[str, type[RTree | IRTree | SoptRTree]] = {R_TREE: RTree, IR_TREE: IRTree, SOPT: SoptRTree}
FACTORS = (50, 16)
"""Branching factors: the paper's, and ours."""
UNSCORED: dict[str, Callable[[SegmentArrays], ScoredIndex]] = {
    f"{INTERVAL}, unscored": partial(IntervalTree.build, sort="endpoint", modes="exact"),
    f"{R_TREE}, unscored": partial(RTree.build, scored=False, branching=FACTORS[0], modes="exact"),
}
"""The conventional trees, which find all intervals that a query stabs, and no scores."""
COUNTED = ("nodes", "leaves", "compared", "candidates", "pruned")
K = 20
WARM_UP = 100
"""Intervals of the structure that is built first: it compiles and loads everything."""
MB = 1e6

Ranked = tuple[Any, Any, Any]
"""Of a batch: where the answers to each event begin, their slots, best first, and their scores."""


def structures(workload: Workload, factor: int, modes: str) -> dict[str, ScoredIndex]:
    """Build all five on the same table, those with R-trees with the same branching factor."""
    table = workload.table()
    return {name: build(table) for name, build in builders(factor, modes).items()}


def builders(factor: int, modes: str) -> dict[str, Callable[[SegmentArrays], ScoredIndex]]:
    """Return what builds each of the five."""
    plain: dict[str, Callable[[SegmentArrays], ScoredIndex]] = {
        INTERVAL: partial(IntervalTree.build, modes=modes),
        SEGMENT: partial(SegmentTree.build, modes=modes),
    }
    return plain | {name: partial(kind.build, branching=factor, modes=modes) for name, kind in BRANCHING.items()}


class Asked(NamedTuple):
    """Queries in batches, one for each turn, and what the scan answers."""

    batches: list[EventArrays]
    expected: list[Ranked]
    eligible: U64
    k: int
    relaxed: bool


def ask(bench: Bench, workload: Workload, k: int, relaxed: bool) -> Asked:
    """Cut the queries of a workload into batches, one for each turn, and let the scan answer them."""
    queries = len(workload.event_value) // (bench["turns"] + 1)
    batches = [some_events(workload, first, first + queries) for first in range(0, len(workload.event_value), queries)]
    eligible, scan = bits.all_set(len(workload.sub_attr)), Scan.build(workload.table())
    expected = [scan.top_k_many(batch, k, eligible, relaxed) for batch in batches]
    return Asked(batches, expected, eligible, k, relaxed)


def race(bench: Bench, panel: str, x: float, asked: Asked, built: dict[str, ScoredIndex]) -> None:
    """Time the best k of all structures, every answer compared with the scan's; count their operations.

    The counts are those of the last turn.
    """
    queries = len(asked.batches[0].start) - 1
    counts: dict[str, dict[str, float]] = {name: {} for name in built}

    def way(index: ScoredIndex) -> Callable[[int], Ranked]:
        return lambda call: index.top_k_many(asked.batches[call], asked.k, asked.eligible, asked.relaxed)

    def check(name: str, call: int, answer: Ranked) -> str:
        work = built[name].work
        counts[name] = {f"{what} per query": getattr(work, what) / queries for what in COUNTED}
        return difference(answer, asked.expected[call])

    ways = {name: way(index) for name, index in built.items()}
    bench.race(panel, x, ways, per=queries, turns=bench["turns"], check=check, counts=counts)


def difference(answer: Ranked, expected: Ranked) -> str:
    """Return how the ranked answers to a batch are wrong, or ""."""
    if all(np.array_equal(got, wanted) for got, wanted in zip(answer, expected, strict=True)):
        return ""
    for event, (begin, end) in enumerate(zip(expected[0], expected[0][1:], strict=False)):
        first, last = answer[0][event : event + 2]
        if not all(np.array_equal(answer[i][first:last], expected[i][begin:end]) for i in (1, 2)):
            return f"event {event} has {last - first} answers that are not the {end - begin} of the scan"
    return "there are more answers than events"


def drawn(bench: Bench, dimensions: int = 1, skew: float = 0.75, queries: int = 0) -> Workload:
    """Draw subscriptions with the parameters of Table 1 except for those given, and queries for all turns.

    `queries` is how many in each turn, by default those of the scale.
    """
    total = (bench["turns"] + 1) * (queries or bench["queries"])
    return zipf(bench.seed, intervals=bench["n"], queries=total, dimensions=dimensions, skew_length=skew)


# --- table and figures ----------------------------------------------------------------------------------------------


def table_2(bench: Bench) -> Iterator[None]:
    """Memory by the number of intervals."""
    for n in bench["sizes"]:
        built = structures(zipf(bench.seed, intervals=n, queries=1), FACTORS[0], "exact")
        for name, index in built.items():
            counts = {"references per interval": index.references / n, "bytes per interval": index.nbytes / n}
            bench.record("memory", name, n, [index.nbytes / MB], counts)
        yield


def figure_6(bench: Bench) -> Iterator[None]:
    """Time by the number of getnext() calls."""
    workload = drawn(bench)
    built = {factor: structures(workload, factor, "exact") for factor in FACTORS}
    for k in bench["answers"]:
        asked = ask(bench, workload, k, relaxed=False)
        for factor in FACTORS:
            race(bench, f"time, b = {factor}", k, asked, built[factor])
            yield


def figure_7(bench: Bench) -> Iterator[None]:
    """Time, and memory, by the number of dimensions."""
    for dimensions in bench["dimensions"]:
        workload = drawn(bench, dimensions, queries=bench["in_one"] if dimensions == 1 else 0)
        asked = ask(bench, workload, K, relaxed=True)
        for factor in FACTORS:
            built = structures(workload, factor, "relaxed")
            race(bench, f"time, b = {factor}", dimensions, asked, built)
            if factor == FACTORS[0]:
                for name, index in built.items():
                    bench.record("memory, b = 50", name, dimensions, [index.nbytes / MB])
            yield


def figure_8(bench: Bench) -> Iterator[None]:
    """Time relative to the SOPT-R-tree by the number of dimensions: of each turn, the ratio."""
    for dimensions in bench["dimensions"]:
        workload = drawn(bench, dimensions, queries=bench["in_one"] if dimensions == 1 else 0)
        asked = ask(bench, workload, K, relaxed=True)
        race(bench, "time", dimensions, asked, structures(workload, FACTORS[0], "relaxed"))
        timed = [series for series in bench.series if series.panel == "time"]
        points = {series.name: point for series in timed if (point := series.at(dimensions))}
        for name, point in points.items():
            ratios = [own / base for own, base in zip(point.samples, points[SOPT].samples, strict=False)]
            if ratios:
                bench.record("relative time", name, dimensions, ratios, point.counts)
            else:
                bench.skip("relative time", name, dimensions, point.note or points[SOPT].note)
        yield


def figure_9(bench: Bench) -> Iterator[None]:
    """Time by the skew of lengths: the greater, the shorter the intervals."""
    for skew in bench["skews"]:
        workload = drawn(bench, 4, skew)
        asked = ask(bench, workload, K, relaxed=True)
        for factor in FACTORS:
            race(bench, f"time, b = {factor}", skew, asked, structures(workload, factor, "relaxed"))
            yield


def unscored(bench: Bench) -> Iterator[None]:
    """Seconds to build each structure, and the best k by the conventional trees as well."""
    ways = builders(FACTORS[0], "exact") | UNSCORED
    for n in bench["sizes"]:
        workload = zipf(bench.seed, intervals=n, queries=(bench["turns"] + 1) * bench["queries"])
        table, small = workload.table(), workload.head(WARM_UP).table()
        built: dict[str, ScoredIndex] = {}
        for name, build in ways.items():
            build(small)
            seconds, built[name] = clocked(partial(build, table), "thread")
            bench.record("build", name, n, [seconds], {"references per interval": built[name].references / n})
            yield
        race(bench, "time", n, ask(bench, workload, K, relaxed=False), built)
        yield


TABLE_1 = "the Zipfian data of Table 1 (skew of lengths 0.75, 10 regions, scores 1 − length)"
QUERIES = "{turns} × {queries:,} queries after a warm-up of {queries:,}"
BOTH = "Each comparison is made twice: with the paper's branching factor, 50, and with ours, 16."


def times(x: str, log_x: bool = False) -> list[Panel]:
    """Return the panels of both comparisons."""
    return [Panel(f"time, b = {factor}", x, "µs per query", log_x=log_x, log_y=True) for factor in FACTORS]


SIZES = (100_000, 200_000, 500_000, 1_000_000)
MEMORY = {
    INTERVAL: (0.92, 1.7, 4.2, 8.3),
    R_TREE: (1.2, 2.4, 6, 12),
    SEGMENT: (40, 89, 214, 429),
    IR_TREE: (1.76, 3.43, 8.35, 16.5),
}

TABLE_2 = Experiment(
    paper="ranked",
    name="table-2",
    title="Memory of the structures",
    section="4, experiment 1",
    published="100,000 to 1,000,000 intervals of one dimension, " + TABLE_1 + ", b = 50; heap of a Java program, in MB",
    setting="{span} intervals of one dimension, " + TABLE_1 + ", b = 50; all arrays of an index, in MB",
    differs="Ours are arrays with everything that a search reads, 28 bytes for an entry and 4 for a reference to it. "
    "The paper prints 8.3 bytes for an interval of the interval tree, which cannot hold its ends and score.",
    panels=[Panel("memory", "intervals", "MB", "table")],
    scales={
        "tiny": {"sizes": (400,), "span": "400"},
        "quick": {"sizes": SIZES[:2], "span": "100,000 and 200,000"},
        "full": {"sizes": SIZES, "span": "100,000 to 1,000,000"},
    },
    seconds={"quick": 3, "full": 20},
    printed=[
        Printed("memory", name, n, value)
        for name, row in MEMORY.items()
        for n, value in zip(SIZES, row, strict=True)
    ],
    run=table_2,
)  # fmt: skip

FIGURE_6 = Experiment(
    paper="ranked",
    name="figure-6",
    title="Varying the number of getnext() calls",
    section="4, experiment 2",
    published="1,000,000 intervals of one dimension, " + TABLE_1 + ", b = 50; 100 queries of warm-up, then 1,000",
    setting="{n:,} intervals of one dimension, " + TABLE_1 + "; " + QUERIES,
    differs=BOTH + " The curves of the paper are drawings; it prints no number.",
    panels=times("getnext() calls", log_x=True),
    scales={
        "tiny": {"n": 400, "queries": 10, "turns": 2, "answers": (1, 20, 100)},
        "quick": {"n": 100_000, "queries": 1_000, "turns": 5, "answers": (1, 5, 20, 100, 1_000)},
        "full": {"n": 1_000_000, "queries": 1_000, "turns": 7, "answers": (1, 5, 20, 100, 1_000, 10_000)},
    },
    seconds={"quick": 15, "full": 180},
    notes=["the SOPT-R-tree gives up to a factor of 2 over the other approaches"],
    run=figure_6,
)

DIMENSIONS = (1, 2, 3, 4, 8)
RELAXED = "1,000,000 subscriptions in 1 to 8 dimensions, relaxed, k = 20, " + TABLE_1 + ", b = 50; 1,000 queries"
SCALES_7 = {
    "tiny": {"n": 300, "queries": 4, "in_one": 8, "turns": 2, "dimensions": (1, 2, 8)},
    "quick": {"n": 20_000, "queries": 20, "in_one": 1_000, "turns": 3, "dimensions": DIMENSIONS},
    "full": {"n": 1_000_000, "queries": 20, "in_one": 1_000, "turns": 5, "dimensions": DIMENSIONS},
}
FEWER = "Fewer queries, since one takes up to a tenth of a second and more."
IN_ONE = " ({in_one:,} in one dimension, where they are so quick that the call itself would count)"

FIGURE_7 = Experiment(
    paper="ranked",
    name="figure-7",
    title="Varying the number of dimensions",
    section="4, experiment 3",
    published=RELAXED,
    setting="{n:,} subscriptions, relaxed, k = 20, " + TABLE_1 + "; " + QUERIES + IN_ONE,
    differs=f"{BOTH} {FEWER}",
    panels=[*times("dimensions"), Panel("memory, b = 50", "dimensions", "MB", "table")],
    scales=SCALES_7,
    seconds={"quick": 20, "full": 800},
    notes=["the segment tree ran out of memory at 8 dimensions, on a machine with 4 GB"],
    run=figure_7,
)

FIGURE_8 = Experiment(
    paper="ranked",
    name="figure-8",
    title="Varying the number of dimensions, relative to the SOPT-R-tree",
    section="4, experiment 3",
    published=RELAXED,
    setting="{n:,} subscriptions, relaxed, k = 20, " + TABLE_1 + ", b = 50; " + QUERIES + IN_ONE,
    differs=FEWER,
    panels=[
        Panel("relative time", "dimensions", "times the SOPT-R-tree", log_y=True),
        Panel("time", "dimensions", "µs per query", "table"),
    ],
    scales=SCALES_7,
    seconds={"quick": 12, "full": 400},
    notes=["for 1 to 4 dimensions the SOPT-R-tree gives 16x to 1.5x over other approaches"],
    run=figure_8,
)

FIGURE_9 = Experiment(
    paper="ranked",
    name="figure-9",
    title="Varying subscription overlap",
    section="4, experiment 4",
    published="1,000,000 subscriptions in 4 dimensions, relaxed, k = 20, the Zipfian data of Table 1 with several "
    "skews of lengths, b = 50; 1,000 queries",
    setting="{n:,} subscriptions in 4 dimensions, relaxed, k = 20, the Zipfian data of Table 1; " + QUERIES,
    differs=f"{BOTH} {FEWER} The text does not say which skews the figure has.",
    panels=times("skew of lengths"),
    scales={
        "tiny": {"n": 300, "queries": 4, "turns": 2, "skews": (0.0, 2.5)},
        "quick": {"n": 20_000, "queries": 20, "turns": 3, "skews": (0.0, 0.75, 1.5, 2.5)},
        "full": {"n": 1_000_000, "queries": 20, "turns": 5, "skews": (0.0, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5)},
    },
    seconds={"quick": 15, "full": 700},
    run=figure_9,
)

UNSCORED_TREES = Experiment(
    paper="ranked",
    name="unscored",
    title="Building, and the conventional trees",
    section="4",
    published="1,000,000 subscriptions; in Java, on two cores",
    setting="{span} intervals of one dimension, " + TABLE_1 + ", b = 50, k = 20; " + QUERIES,
    differs="The paper says that building took under a minute and that the conventional trees were orders of "
    "magnitude slower; it prints no number. Each structure is built once, after a small one. The conventional trees "
    "find all that is stabbed, from which the best are chosen.",
    panels=[Panel("build", "intervals", "s", "table"), Panel("time", "intervals", "µs per query", "table")],
    scales={
        "tiny": {"sizes": (400,), "span": "400", "queries": 10, "turns": 2},
        "quick": {"sizes": SIZES[:1], "span": "100,000", "queries": 100, "turns": 3},
        "full": {"sizes": SIZES[::3], "span": "100,000 and 1,000,000", "queries": 1_000, "turns": 5},
    },
    seconds={"quick": 5, "full": 200},
    run=unscored,
)

EXPERIMENTS = [TABLE_2, FIGURE_6, FIGURE_7, FIGURE_8, FIGURE_9, UNSCORED_TREES]
