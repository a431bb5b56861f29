"""Does the order of inserts matter to a BE*-Tree, and does adaptation mend it?

    python benchmarks/be_star_orders.py [--quick] [--size N] [--json FILE]

Subscriptions of several shapes are inserted one by one in several orders, matched, adapted to the events (nodes whose
rank has fallen are recycled), and matched again. Every answer is the scan's. Printed: how many times slower than the
best order of the same shape, raw and adapted, and the same for the work that was counted (nodes visited and predicates
evaluated), on which a busy machine has no bearing. BE-Tree, whose cells do not depend on the order, stands beside.

    shapes   random; clustered (around the events); skewed (a few attributes in nearly everything); nested (each range
             inside the next); duplicates (1 % distinct); constant (all the same); single attribute; don't care (no
             constraint can be missed by anything)
    orders   random; sorted (by the least bound of the first attribute); reverse; inside out and outside in (by width)

Bar: after adaptation no order is more than 3 x slower than the best. `--quick` takes 3,000 subscriptions and judges
nothing. Exit code 1 when the bar is missed or an answer is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contenders import BULK, RIGID, SCAN, Bars, all_eligible, median, race, unequal
from contenders import figures as as_figures
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import frozen
from earmark.report.protocol import QUICK_REPEATS, REPEATS
from earmark.segment.arrays import SegmentArrays
from earmark.workload.begen import Setting, generate
from results import Figure, Result
from tables import number, size_name

BAR = 3.0
EVENTS = 200
Numbers = NDArray[np.int64]
Shape = tuple[SegmentArrays, EventArrays]


def expressions(size: int, exponent: float = 0.0, probability: float = 0.001) -> Shape:
    """Of BEGen."""
    made = generate(Setting(subscriptions=size, events=EVENTS, exponent=exponent, match_probability=probability))
    return made.table(), made.events()


def made(attr: Numbers, lo: Numbers, hi: Numbers, event_attr: Numbers, value: Numbers) -> Shape:
    """Tables and events from rectangles."""
    slots, width = attr.shape
    table = (
        np.arange(slots + 1, dtype=np.int32),
        np.arange(0, slots * width + 1, width, dtype=np.int32) if width else np.zeros(slots + 1, np.int32),
        attr.ravel().astype(np.int32),
        np.zeros(slots * width, np.uint8),
        np.arange(slots * width + 1, dtype=np.int32),
        lo.ravel().astype(np.int64),
        hi.ravel().astype(np.int64),
        np.empty(0),
        np.empty(0),
        np.arange(slots, dtype=np.int64),
    )
    keys = value.ravel().astype(np.int64)
    start = np.arange(0, keys.size + 1, value.shape[1], dtype=np.int64)
    events = (start, event_attr.ravel().astype(np.int32), keys, keys, np.empty(0))
    return SegmentArrays(*map(frozen, table)), EventArrays._make(map(frozen, map(np.copy, events)))


def dense_events(random: np.random.Generator, width: int, domain: int) -> tuple[Numbers, Numbers]:
    """Events that have every attribute."""
    return np.tile(np.arange(width), (EVENTS, 1)), random.integers(0, domain, size=(EVENTS, width))


def nested(size: int) -> Shape:
    """On each of two attributes, range i is inside range i + 1; few events reach the inner ones."""
    random = np.random.default_rng(1)
    width = np.arange(size)
    attr = np.tile(np.arange(2), (size, 1))
    middle = 4 * size
    lo = middle - width[:, None] - np.array([0, 5])
    event_attr, value = dense_events(random, 2, 2 * middle)
    return made(attr, lo, lo + 2 * width[:, None] + 10, event_attr, value)


def duplicates(size: int) -> Shape:
    """1 % distinct."""
    table, events = expressions(max(1, size // 100))
    distinct = len(table.sequence)
    again = np.random.default_rng(2).integers(0, distinct, size=size)
    counts = np.diff(table.constraint_start)[again]
    start = np.zeros(size + 1, np.int32)
    np.cumsum(counts, out=start[1:])
    place = np.repeat(table.constraint_start[again] - start[:-1], counts) + np.arange(start[-1])
    repeated = SegmentArrays(
        np.arange(size + 1, dtype=np.int32),
        start,
        table.attr[place],
        table.accepts_null[place],
        np.arange(start[-1] + 1, dtype=np.int32),
        table.lo[place],
        table.hi[place],
        table.weight[place],
        np.empty(0),
        np.arange(size, dtype=np.int64),
    )
    return SegmentArrays._make(map(frozen, repeated)), events


def constant(size: int) -> Shape:
    """All the same, which a few events match."""
    attr = np.tile(np.arange(4), (size, 1))
    event_attr, value = dense_events(np.random.default_rng(3), 4, 40)
    return made(attr, np.zeros_like(attr), np.full_like(attr, 9), event_attr, value)


def single_attribute(size: int) -> Shape:
    """Ranges of all widths on one attribute."""
    random = np.random.default_rng(4)
    domain = 20 * size
    lo = random.integers(0, domain, size=(size, 1))
    width = (random.pareto(1.0, size=(size, 1)) * 10).astype(np.int64).clip(0, domain)
    event_attr, value = dense_events(random, 1, domain)
    return made(np.zeros_like(lo), lo, lo + width, event_attr, value)


def no_care(size: int) -> Shape:
    """Every other one without a constraint, the rest with one that every value meets; few, because all match."""
    slots = max(2, size // 50)
    every = np.zeros((slots // 2, 1), np.int64)
    table, events = made(every, every - 2**62, every + 2**62, *dense_events(np.random.default_rng(5), 1, 100))
    start = np.arange(1, slots + 2, dtype=np.int32) // 2  # 0 1 1 2 2 3 ...
    changed = table._replace(
        clause_start=np.arange(slots + 1, dtype=np.int32),
        constraint_start=np.minimum(start, slots // 2),
        sequence=np.arange(slots, dtype=np.int64),
    )
    return SegmentArrays._make(map(frozen, changed)), events


SHAPES: dict[str, Callable[[int], Shape]] = {
    "random": lambda size: expressions(size, probability=0.0),
    "clustered": expressions,
    "skewed": lambda size: expressions(size, exponent=1.0),
    "nested": nested,
    "duplicates": duplicates,
    "constant": constant,
    "single attribute": single_attribute,
    "don't care": no_care,
}


def orders(table: SegmentArrays) -> dict[str, Numbers]:
    """Slots in each order. A slot is known by its first attribute, the least bound there, and the sum of its widths."""
    first, slots = table.constraint_start[:-1], len(table.sequence)
    attr, lo = np.append(table.attr, 0)[first], np.append(table.lo, 0)[first]
    slot = np.repeat(np.arange(slots), np.diff(table.constraint_start))
    width = np.bincount(slot, weights=table.hi.astype(np.float64) - table.lo, minlength=slots)
    ascending = np.lexsort((lo, attr))
    by_width = np.argsort(width, kind="stable")
    return {
        "random": np.random.default_rng(7).permutation(slots),
        "sorted": ascending,
        "reverse": ascending[::-1],
        "inside out": by_width,
        "outside in": by_width[::-1],
    }


def empty(table: SegmentArrays) -> SegmentArrays:
    """The table with no slots, of the same kind."""
    none = np.zeros(1, np.int32)
    columns = (none, none, *(column[:0] for column in table[2:4]), none, *(column[:0] for column in table[5:]))
    return SegmentArrays._make(frozen(column.copy()) for column in columns)


def grown(contender: Any, table: SegmentArrays, order: Numbers) -> Any:
    """A tree into which the slots came in this order."""
    tree = contender.build(empty(table))
    tree.insert(table, order.astype(np.int32))
    return tree


def measure(shape: str, size: int, repeats: int, limit: float) -> tuple[list[Figure], dict[str, dict[str, float]]]:
    """The figures of one shape; µs per event by order, raw and adapted, and nodes and predicates an event."""
    table, events = SHAPES[shape](size)
    eligible = all_eligible(table)
    wanted = SCAN.build(table).match_many(events, eligible)
    trees = {name: grown(BULK, table, order) for name, order in orders(table).items()}
    trees["BE-Tree"] = grown(RIGID, table, orders(table)["random"])
    micros: dict[str, dict[str, float]] = {}
    out = []
    for what in ("raw", "adapted"):
        if what == "adapted":
            trees = {name: adapted(tree, events) for name, tree in trees.items()}
        runs = {name: lambda one=one: one.match_many(events, eligible) for name, one in trees.items()}  # type: ignore[misc]
        found = race(runs, repeats, limit, lambda _, answer: unequal(answer, wanted))
        out += as_figures(found, shape, len(table.sequence), what, EVENTS)
        micros[what] = {name: median(one) * 1e6 / EVENTS for name, one in found.seconds.items() if one}
        micros[f"{what}, work"] = {name: _work(tree) for name, tree in trees.items()}
    return out, micros


def _work(tree: Any) -> float:
    """Nodes visited and predicates evaluated an event, in the last search; never nothing, so that ratios exist."""
    return max(1.0, tree.work.nodes + tree.work.compared) / EVENTS


def adapted(tree: Any, events: EventArrays) -> Any:
    """A copy that has seen the events."""
    copy = tree.copy()
    copy.adapt(events)
    return copy


def show(shape: str, slots: int, micros: dict[str, dict[str, float]], bars: Bars) -> None:
    """µs and work by order, how much more than the best, and the bar."""
    names = [name for name in micros["raw"] if name != "BE-Tree"]
    best = min(micros["adapted"][name] for name in names)
    print(f"\n{shape}, {size_name(slots)} subscriptions: µs, and work, an event (against the best order of the same)")
    for what in ("raw", "adapted", "raw, work", "adapted, work"):
        own = min(micros[what][name] for name in names)
        cells = [f"{name} {number(micros[what][name])} ({micros[what][name] / own:.2f} x)" for name in names]
        print(f"  {what + ':':14} {'; '.join(cells)}; BE-Tree {number(micros[what]['BE-Tree'])}", flush=True)
    worst = max(micros["adapted"][name] for name in names) / best
    bars.at_most(f"{shape}, worst order after adaptation", worst, BAR)


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3,000 subscriptions, three repeats")
    parser.add_argument("--size", type=int, help="subscriptions (100,000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args(given)
    size = options.size or (3_000 if options.quick else 100_000)
    repeats, limit = (QUICK_REPEATS, 0.3) if options.quick else (REPEATS, 10.0)
    bars, found = Bars(judged=not options.quick), []
    for shape in SHAPES:
        figures, micros = measure(shape, size, repeats, limit)
        found += figures
        if all(one.status == "ok" for one in figures):
            show(shape, figures[0].subscriptions, micros, bars)
    if options.json:
        Result("be_star_orders", {"size": size, "repeats": repeats}, found).write(options.json)
    wrong = [one for one in found if one.status == "wrong"]
    for one in wrong:
        print(f"WRONG: {one.engine} on {one.workload}, {one.what}: {one.note}")
    return 1 if wrong or bars.missed else 0


if __name__ == "__main__":
    sys.exit(main())
