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
from earmark.flat.arrays import Flags
from earmark.report import oracles
from earmark.report.bench import Bench
from earmark.report.experiment import Experiment, Panel
from earmark.report.papers.mics.data import BITS, DIMENSIONS, DISTRIBUTIONS, ZIPF, Boxes, filled
from earmark.report.rivals.linear_boxes import LinearBoxes
from earmark.workload.mics import CELLS

NONE, COVERING, SUBSUMPTION, MERGING = "without", "covering", "subsumption", "merging"
CONVERSION = "conversion"
NO_ROW = -1


def figure_7(bench: Bench) -> Iterator[None]:
    """Subscriptions forwarded to a neighbour."""
    for dimensions in DIMENSIONS:
        boxes = Boxes.drawn("zipf", max(bench["sizes"]), dimensions, 4, bench.seed)
        ranges, table, rows = boxes.ranges(), RangeTable(), LinearBoxes(dimensions)
        count = len(boxes.low)
        forwards = {name: np.ones(count, bool) for name in (NONE, COVERING, SUBSUMPTION)}
        expected = {NONE: np.ones(count, bool), COVERING: np.zeros(count, bool)}
        expected[COVERING][np.unique(np.hstack(boxes), axis=0, return_index=True)[1]] = True  # of one size: or equal
        expected[SUBSUMPTION] = oracles.first_asked(*boxes, CELLS)
        for i in range(count):
            low, high = boxes.part(i, i + 1)
            forwards[COVERING][i] = not rows.covered(low, high)[0]
            if forwards[COVERING][i]:
                rows.add(low, high)
            forwards[SUBSUMPTION][i] = bool(table.subscribe(ranges.of(i)))
            if i + 1 in bench["sizes"]:
                sums = {name: int(flags[: i + 1].sum()) for name, flags in forwards.items()}
                wrong = {name: _different(forwards[name][: i + 1], flags) for name, flags in expected.items()}
                for name, forwarded in sums.items():
                    bench.record(f"{dimensions}-d", name, i + 1, [forwarded], wrong=wrong[name])
                saved = [sums[COVERING] / max(1, sums[SUBSUMPTION])]
                either = wrong[COVERING] or wrong[SUBSUMPTION]
                bench.record("saved by subsumption", f"{dimensions}-d", i + 1, saved, wrong=either)
                yield


def _different(flags: Flags, expected: Flags) -> str:
    """Return how many of the decisions are wrong, as a sentence, or ""."""
    wrong = int((flags != expected[: len(flags)]).sum())
    return f"{wrong} are decided wrongly" if wrong else ""


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
                kept = old.uncovered()
                rows = kept.rows()
                linear = {COVERING: rows.covered, SUBSUMPTION: rows.subsumed, MERGING: rows.mergeable}
                ways: dict[str, Callable[[int], Any]] = {
                    f"MICS, {dimensions}-d": partial(_insert, tables, asked),
                    f"linear, {dimensions}-d": partial(_all_three, list(linear.values()), new),
                }
                expected = exact(old, kept, new)
                expected["linear"] = [expected[name] for name in linear]
                expected["MICS"] = oracles.first_asked(*old.and_then(new), CELLS)[size:]
                check, counts = partial(_difference, expected), {f"MICS, {dimensions}-d": _stored(tables[0], asked)}
                medians = bench.race(distribution, size, ways, per=queries, check=check, counts=counts)
                bench.record(f"{distribution}, gain", f"{dimensions}-d", size, [_ratio(medians)])
                parts: dict[str, Callable[[int], Any]] = {
                    f"{name}, {dimensions}-d": partial(_one, way, new) for name, way in linear.items()
                }
                parts[f"{CONVERSION}, {dimensions}-d"] = partial(_converted, new)
                stored_rows = {"rows kept": float(len(rows)), "ranges stored": float(len(tables[0]))}
                counts = {name: stored_rows for name in parts}
                bench.race(f"{distribution}, parts", size, parts, per=queries, check=check, counts=counts)
                yield


def figure_9(bench: Bench) -> Iterator[None]:
    """Covering alone, by the table of ranges and by the linear algorithm, which is slower and gets fewer questions."""
    queries, looked_up = bench["queries"], bench["looked up"]
    for distribution in DISTRIBUTIONS:
        for dimensions in DIMENSIONS:
            every = Boxes.drawn(distribution, max(bench["sizes"]) + looked_up, dimensions, 2, bench.seed)
            for size in bench["sizes"]:
                old, new = every.part(0, size), every.part(size, size + looked_up)
                few = new.part(0, queries)
                table, rows, asked = filled(old.ranges()), old.uncovered().rows(), new.ranges()
                expected = {"MICS": oracles.taken(*old, new, CELLS), "linear": _covered(old, few)}
                mine, linear = f"MICS, {dimensions}-d", f"linear, {dimensions}-d"
                ways: dict[str, Callable[[int], Any]] = {
                    mine: partial(_look_up, table, asked),
                    linear: partial(_one, rows.covered, few),
                }
                counts = {mine: _stored(table, asked), linear: {"rows kept": float(len(rows))}}
                check, per = partial(_difference, expected), {mine: float(looked_up), linear: float(queries)}
                medians = bench.race(distribution, size, ways, per=per, check=check, counts=counts)
                bench.record(f"{distribution}, gain", f"{dimensions}-d", size, [_ratio(medians)])
                yield


def exact(old: Boxes, kept: Boxes, new: Boxes) -> dict[str, Any]:
    """Return the exact answers about new subscriptions: covered, subsumed, the first kept row that merges, ranges."""
    rows, rest = len(kept.low), kept.and_then(new).scan()
    merging = [rest.partners(rows + i) for i in range(len(new.low))]
    return {
        COVERING: _covered(old, new),
        SUBSUMPTION: oracles.taken(*old, new, CELLS),
        MERGING: [min((row for row in found.tolist() if row < rows), default=NO_ROW) for found in merging],
        CONVERSION: oracles.runs_of_each(*new, BITS),
    }


def _covered(old: Boxes, new: Boxes) -> list[bool]:
    """Return which new subscriptions an old one covers."""
    count, every = len(old.low), old.and_then(new).scan()
    return [len(every.covering(count + i, of=count)) > 0 for i in range(len(new.low))]


def _stored(table: RangeTable, asked: RangeBatch) -> dict[str, float]:
    """Return how many ranges a table has, and a subscription that is looked up."""
    return {"ranges stored": float(len(table)), "ranges per subscription": len(asked.first) / (len(asked.start) - 1)}


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
    """Return how an answer differs from the expected one of "MICS", "linear" or a part."""
    what = name.split(",")[0]
    if what == CONVERSION:
        return "" if all(map(np.array_equal, answer, expected[what])) else "the ranges are not those of the cells"
    wrong = int((np.asarray(answer) != np.asarray(expected[what])).sum())
    return f"{wrong} verdicts are wrong" if wrong else ""


def _ratio(medians: dict[str, float]) -> float:
    """Return how many times as long the second takes as the first."""
    first, second = medians.values()
    return second / first


SIZES = {
    "tiny": {"sizes": (200, 400), "queries": 50, "looked up": 100},
    "quick": {"sizes": (20_000, 60_000), "queries": 50, "looked up": 20_000},
    "full": {"sizes": (20_000, 60_000, 100_000, 150_000), "queries": 500, "looked up": 20_000},
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
    setting="{looked up:,} subscriptions against tables of {sizes}, size 2, in one call; {queries} of them with the "
    "linear algorithm",
    differs=f"{ZIPF} Both drop covered rows. The table of ranges says *covered or subsumed*, and is compared with "
    "linear subsumption cell by cell; the linear rival says *covered*.",
    panels=[*(Panel(d, "subscriptions", "µs per subscription", log_y=True) for d in DISTRIBUTIONS),
            *(Panel(f"{d}, gain", "subscriptions", "linear / MICS", log_y=True) for d in DISTRIBUTIONS)],
    scales=SIZES,
    seconds={"quick": 10, "full": 200},
    run=figure_9,
)  # fmt: skip
