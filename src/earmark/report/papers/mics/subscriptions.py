"""MICS, subscriptions: Figures 7 to 9. What is forwarded, how long an insertion takes, how long covering takes.

The linear rivals search the rows that Algorithm 1 keeps, those that no other covers; they are compiled, leave a row at
the first bound that fails, and stop as soon as the answer is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from earmark.cover.ranges.subsumption import RangeBatch, take_in_many
from earmark.cover.ranges.table import RangeTable
from earmark.report.bench import Bench
from earmark.report.experiment import Experiment, Panel
from earmark.report.papers.mics.data import DIMENSIONS, DISTRIBUTIONS, ZIPF, Boxes, filled
from earmark.report.rivals.linear_boxes import LinearBoxes

NONE, COVERING, SUBSUMPTION = "without", "covering", "subsumption"


def figure_7(bench: Bench) -> Iterator[None]:
    """Subscriptions forwarded to a neighbour."""
    for dimensions in DIMENSIONS:
        boxes = Boxes.drawn("zipf", max(bench["sizes"]), dimensions, 4, bench.seed)
        ranges, table, rows = boxes.ranges(), RangeTable(), LinearBoxes(dimensions)
        covering = subsumption = 0
        for i in range(len(boxes.low)):
            low, high = boxes.part(i, i + 1)
            if not rows.covered(low, high)[0]:
                rows.add(low, high)
                covering += 1
            subsumption += bool(table.subscribe(ranges.of(i)))
            if i + 1 in bench["sizes"]:
                for name, forwarded in ((NONE, i + 1), (COVERING, covering), (SUBSUMPTION, subsumption)):
                    bench.record(f"{dimensions}-d", name, i + 1, [forwarded])
                bench.record("saved by subsumption", f"{dimensions}-d", i + 1, [covering / subsumption])
                yield


def figure_8(bench: Bench) -> Iterator[None]:
    """Insertion: covering, subsumption and merging of a new subscription."""
    queries = bench["queries"]
    for distribution in DISTRIBUTIONS:
        for dimensions in DIMENSIONS:
            every = Boxes.drawn(distribution, max(bench["sizes"]) + queries, dimensions, 2, bench.seed)
            for size in bench["sizes"]:
                old, new = every.part(0, size), every.part(size, size + queries)
                stored, asked = old.ranges(), new.ranges()
                tables = [filled(stored) for _ in range(bench.turns + 1)]  # an insertion changes a table
                rows = old.uncovered().rows()
                linear = {
                    "covering": rows.covered,
                    "subsumption": rows.subsumed,
                    "merging": rows.mergeable,
                }
                ways: dict[str, Callable[[int], Any]] = {
                    f"MICS, {dimensions}-d": partial(_insert, tables, asked),
                    f"linear, {dimensions}-d": partial(_all_three, list(linear.values()), new),
                }
                single = filled(stored)
                one_by_one = [bool(single.take_in(asked.of(i))[0]) for i in range(queries)]
                expected = {"MICS": one_by_one, "linear": [way(*new).tolist() for way in linear.values()]}
                medians = bench.race(distribution, size, ways, per=queries, check=partial(_difference, expected))
                bench.record(f"{distribution}, gain", f"{dimensions}-d", size, [_ratio(medians)])
                parts: dict[str, Callable[[int], Any]] = {
                    f"{name}, {dimensions}-d": partial(_one, way, new) for name, way in linear.items()
                }
                parts[f"conversion, {dimensions}-d"] = partial(_converted, new)
                kept = {"rows kept": float(len(rows)), "ranges stored": float(len(tables[0]))}
                counts = dict.fromkeys(parts, kept)
                bench.race(f"{distribution}, parts", size, parts, per=queries, counts=counts)
                yield


def figure_9(bench: Bench) -> Iterator[None]:
    """Covering alone, by the table of ranges and by the linear algorithm."""
    queries = bench["queries"]
    for distribution in DISTRIBUTIONS:
        for dimensions in DIMENSIONS:
            every = Boxes.drawn(distribution, max(bench["sizes"]) + queries, dimensions, 2, bench.seed)
            for size in bench["sizes"]:
                old, new = every.part(0, size), every.part(size, size + queries)
                table, rows, asked = filled(old.ranges()), old.uncovered().rows(), new.ranges()
                expected = {name: way(*new).tolist() for name, way in
                            (("MICS", old.rows().subsumed), ("linear", old.rows().covered))}  # fmt: skip
                ways: dict[str, Callable[[int], Any]] = {
                    f"MICS, {dimensions}-d": partial(_look_up, table, asked),
                    f"linear, {dimensions}-d": partial(_one, rows.covered, new),
                }
                counts = {f"linear, {dimensions}-d": {"rows kept": float(len(rows))}}
                check = partial(_difference, expected)
                medians = bench.race(distribution, size, ways, per=queries, check=check, counts=counts)
                bench.record(f"{distribution}, gain", f"{dimensions}-d", size, [_ratio(medians)])
                yield


def _insert(tables: list[RangeTable], asked: RangeBatch, call: int) -> Any:
    """Insert subscriptions into the table of this call, by Algorithm 1."""
    return take_in_many(tables[call], asked)


def _look_up(table: RangeTable, asked: RangeBatch, call: int) -> Any:
    """Look up which subscriptions are covered or subsumed; `call` plays no part."""
    return table.covered_batch(*asked)


def _converted(boxes: Boxes, call: int) -> RangeBatch:
    """Convert boxes to ranges; `call` plays no part."""
    return boxes.ranges()


def _one(way: Callable[..., Any], boxes: Boxes, call: int) -> Any:
    """Answer one linear question for all boxes; `call` plays no part."""
    return way(*boxes)


def _all_three(ways: list[Callable[..., Any]], boxes: Boxes, call: int) -> list[Any]:
    """Answer all linear questions for all boxes."""
    return [way(*boxes) for way in ways]


def _difference(expected: dict[str, Any], name: str, call: int, answer: Any) -> str:
    """Return how an answer differs from the expected one of "MICS" or "linear"."""
    right = np.asarray(expected[name.split(",")[0]])
    wrong = int((np.asarray(answer) != right).sum())
    return f"{wrong} verdicts are wrong" if wrong else ""


def _ratio(medians: dict[str, float]) -> float:
    """Return how many times as long the second takes as the first."""
    first, second = medians.values()
    return second / first


SIZES = {
    "tiny": {"sizes": (200, 400), "queries": 50},
    "quick": {"sizes": (20_000, 60_000), "queries": 50},
    "full": {"sizes": (20_000, 60_000, 100_000, 150_000), "queries": 500},
}

FIGURE_7 = Experiment(
    paper="mics",
    name="figure-7",
    title="Subscriptions forwarded, with covering and with subsumption",
    section="7.2",
    published="subscription size 4, Zipf, 2 to 4 dimensions, 256 cells per axis",
    setting="{sizes} subscriptions of size 4, Zipf",
    differs=ZIPF,
    panels=[*(Panel(f"{d}-d", "subscriptions", "forwarded") for d in DIMENSIONS),
            Panel("saved by subsumption", "subscriptions", "covering / subsumption")],
    scales={"tiny": {"sizes": (100, 300)}, "quick": {"sizes": (5_000, 10_000, 20_000)},
            "full": {"sizes": (20_000, 60_000, 100_000)}},
    seconds={"quick": 8, "full": 150},
    run=figure_7,
)  # fmt: skip

FIGURE_8 = Experiment(
    paper="mics",
    name="figure-8",
    title="Insertion time with covering, subsumption and merging",
    section="7.2",
    published="subscription size 2, uniform and Zipf, 2 to 4 dimensions; in the order of 0.1 ms",
    setting="{queries} insertions into tables of {sizes} subscriptions of size 2, in one call",
    differs=f"{ZIPF} The paper shows no linear rival here; ours finds covering, subsumption and perfect merging one "
    "after the other, over the rows that no other covers. Conversion to ranges is done by clients (section 6.1), and "
    "is shown separately: in the panels of parts, covering, subsumption and merging are those of the linear rival, and "
    "conversion is that of MICS.",
    panels=[*(Panel(d, "subscriptions", "µs per subscription", log_y=True) for d in DISTRIBUTIONS),
            *(Panel(f"{d}, gain", "subscriptions", "linear / MICS", log_y=True) for d in DISTRIBUTIONS),
            *(Panel(f"{d}, parts", "subscriptions", "µs per subscription", log_y=True) for d in DISTRIBUTIONS)],
    scales=SIZES,
    seconds={"quick": 25, "full": 400},
    run=figure_8,
)  # fmt: skip

FIGURE_9 = Experiment(
    paper="mics",
    name="figure-9",
    title="Covering time",
    section="7.2",
    published="subscription size 2, uniform and Zipf, 2 to 4 dimensions",
    setting="{queries} subscriptions against tables of {sizes}, size 2, in one call",
    differs=f"{ZIPF} Both drop covered rows. The table of ranges says *covered or subsumed*, and is compared with "
    "linear subsumption cell by cell; the linear rival says *covered*.",
    panels=[*(Panel(d, "subscriptions", "µs per subscription", log_y=True) for d in DISTRIBUTIONS),
            *(Panel(f"{d}, gain", "subscriptions", "linear / MICS", log_y=True) for d in DISTRIBUTIONS)],
    scales=SIZES,
    seconds={"quick": 10, "full": 200},
    run=figure_9,
)  # fmt: skip
