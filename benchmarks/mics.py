"""MICS, matching: the paper's tables and the matching side of its figures, every answer compared.

    python benchmarks/mics.py [--quick] [--only 1,2,3,10,cells] [--json FILE]

1       Table 1: boxes as ranges, 256 cells an axis. Bars: 16^4 cells under 1 ms, 8^3 under 20 µs
2       Table 2: Content Space Projection, 3 of 7 attributes: what is sent of 10,000 publications, and in vain
3       Table 3: Subscription Indexing, 3 of 7 attributes: candidates of a new subscription and of a publication
10      Figure 10, and the same for 7 attributes: matching time by the number of subscriptions, conversion apart.
        Bars: at 100k, finding all matches is at least 50 x as fast as by the linear algorithm; from the smallest table
        to the largest, Algorithm 2 with its conversion grows at most a third as much as the linear algorithm
cells   variable against equal cells (section 6.3): sent in vain on Zipf publications, as many cells each.
        Bar: fewer in vain on the paper's 256 cells an axis

The linear algorithm is a compiled loop over rows of bounds, one publication at a time, that leaves a row at the first
bound that fails. What the paper printed stands beside what was measured; its machine was of 2006, so only shapes and
ratios compare. The clock is processor time of the thread. Exit code 1 when a bar is missed or an answer is wrong.

The covering side (Figures 7 to 9, 11 and 12) is benchmarks/mics_cover.py.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from earmark.cover.ranges.projection import Projection
from earmark.cover.ranges.subsumption import ranges_of_slots
from earmark.curves import hilbert
from earmark.curves.hilbert import mean_ranges
from earmark.curves.space import Space, boxes_of_events, space_of
from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.flat.arrays import I32, I64, frozen
from earmark.index.mics import MicsIndex
from earmark.index.scan import Scan
from earmark.jit import kernel
from earmark.workload.mics import CELLS, SIZE, mics
from earmark.workload.mics import table_2 as table_2_data
from earmark.workload.standard import Workload
from protocol import QUICK_REPEATS, REPEATS, summary
from results import PER_EVENT, Figure, Result
from tables import number, size_name

T = TypeVar("T")
BAR_LINEAR, BAR_GROWTH = 50.0, 1 / 3
BAR_LARGE, BAR_CUBE = 1000.0, 20.0
"""µs for boxes of 16^4 and of 8^3 cells."""
PAPER_1 = {2: (100, 100, 300, 1000), 3: (100, 300, 1900, 12800), 4: (100, 1100, 10200, 124100)}
"""µs by dimension, for 2, 4, 8 and 16 cells an axis."""
PAPER_2 = {
    "zipf": {20: (5217, 5.54), 60: (6472, 3.71), 100: (7040, 3.15), 150: (7502, 2.57)},
    "uniform": {20: (209, 42.11), 60: (583, 42.37), 100: (858, 36.95), 150: (1325, 38.19)},
}
"""Publications sent of PAPER_PUBLICATIONS and per cent in vain, by thousands of subscriptions."""
PAPER_PUBLICATIONS = 10_000
BAR_TRAFFIC = 0.1
"""How far the traffic of data that are fitted to Table 2 may be from the printed one."""
PAPER_3 = {"zipf": {20: 64, 60: 232, 100: 414, 150: 600}, "uniform": {20: 1, 60: 1, 100: 1, 150: 1}}
INDEXED = (0, 1, 2)
EXACT_BITS = 9
"""256 cells of one value each, and one for NULL."""
FINE = 8
"""Bits of the paper's grid: learned cells must win there, and may not lose on a coarser one."""
CHECKED = 200
"""Publications whose answers are compared with a scan."""


@kernel
def linear(bounds: I64, values: I64, counts: I64, out: I32) -> int:
    """All matches of each publication: rows of lo, hi, lo, hi …; a row is left at the first bound that fails."""
    found = 0
    for e in range(len(values)):
        before = found
        for row in range(len(bounds)):
            inside = True
            for j in range(values.shape[1]):
                if values[e, j] < bounds[row, 2 * j] or values[e, j] > bounds[row, 2 * j + 1]:
                    inside = False
                    break
            if inside:
                out[found % len(out)] = row
                found += 1
        counts[e] = found - before
    return found


def spent(run: Callable[[], T]) -> tuple[float, T]:
    """Processor seconds of this thread in one run, and what it returned. The garbage collector waits."""
    gc.collect()
    gc.disable()
    try:
        begun = time.thread_time()
        result = run()
        return time.thread_time() - begun, result
    finally:
        gc.enable()


def in_turn(ways: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each way, all in turn, so that a busy moment hits them alike; the first round does not count."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(repeats + 1):
        for way, run in ways.items():
            took, _ = spent(run)
            if turn:
                seconds[way].append(took)
    return seconds


def line(*cells: object) -> None:
    """One row of a table."""
    print(
        "  " + "".join(f"{cell if isinstance(cell, str) else number(float(str(cell))):>14}" for cell in cells),
        flush=True,
    )


def bar(told: str, holds: bool) -> bool:
    """Say whether a bar held."""
    print(f"    {told} -> {'held' if holds else 'MISSED'}", flush=True)
    return holds


def whole_cells(axes: int) -> Space:
    """The paper's grid: each of 256 values is a cell."""
    return space_of(np.arange(axes, dtype=np.int32), [np.arange(1, CELLS, dtype=np.int64)] * axes, EXACT_BITS)


def wanted(workload: Workload) -> np.ndarray:
    """Which publications some subscription matches; the index that says so is compared with a scan."""
    table, events, every = workload.table(), workload.events(), bits.all_set(len(workload.sub_attr))
    pointers, slots = MicsIndex.build(table).match_many(events, every)
    few = head_of(events, CHECKED)
    start, right = Scan(table).match_many(few, every)
    if not (np.array_equal(start, pointers[: CHECKED + 1]) and np.array_equal(right, slots[: start[-1]])):
        raise AssertionError("the index and the scan disagree")
    return np.diff(pointers) > 0


def head_of(events: EventArrays, count: int) -> EventArrays:
    """The first so many events."""
    end = int(events.start[min(count, len(events.start) - 1)])
    columns = (events.start[: count + 1], events.attr[:end], events.lo[:end], events.hi[:end], events.weight)
    return EventArrays._make(frozen(column.copy()) for column in columns)


# --- the tables --------------------------------------------------------------------------------------------------


def table_1(boxes: int, repeats: int) -> tuple[list[Figure], bool]:
    """Boxes of 2, 4, 8 and 16 cells an axis, anywhere, in batches."""
    figures, held = [], True
    print("\ntable 1: µs for a box as ranges (the paper's beside it), 256 cells an axis; ranges, and by Equation (3)")
    line("", *(f"{side}" for side in (2, 4, 8, 16)))
    for dimensions, paper in PAPER_1.items():
        cells = []
        for side, theirs in zip((2, 4, 8, 16), paper, strict=True):
            count = max(20, min(boxes, 400_000 // side ** (dimensions - 1)))
            low = np.random.default_rng(1).integers(0, 257 - side, (count, dimensions))
            high = low + side - 1
            seconds = in_turn({"ranges": lambda low=low, high=high: hilbert.ranges(low, high, 8)}, repeats)["ranges"]
            start, _, _ = hilbert.ranges(low, high, 8)
            values = [one * 1e6 / count for one in seconds]
            figures.append(Figure(f"table 1, {dimensions}-d", 0, str(side), "ranges", "µs/box", values))
            mine = summary(values).median
            cells.append((mine, theirs, start[-1] / count, float(mean_ranges(low, high).mean())))
            if (dimensions, side) == (4, 16):
                held &= bar(f"16^4 cells: {number(mine)} µs (bar {BAR_LARGE:g})", mine < BAR_LARGE)
            if (dimensions, side) == (3, 8):
                held &= bar(f"8^3 cells: {number(mine)} µs (bar {BAR_CUBE:g})", mine < BAR_CUBE)
        line(f"{dimensions}-d µs", *(f"{number(a)} ({b:,})" for a, b, _, _ in cells))
        line("ranges", *(f"{number(c)} ({number(d)})" for _, _, c, d in cells))
    return figures, held


def table_2(sizes: Sequence[int], publications: int) -> bool:
    """Content Space Projection: three of seven attributes."""
    print(f"\ntable 2: sent of {publications:,} publications, and per cent in vain; 3 of 7 attributes")
    print("  literal: all ranges 4 cells wide, so that three attributes say little about the other four")
    print("  fitted: 1 to 4 cells; one subscription in eight asks about each of the others (see workload/mics.py)")
    line("", "n", "paper sent", "in vain", "literal sent", "in vain", "fitted sent", "in vain", "ranges")
    vain: dict[str, list[float]] = {}
    held = True
    for distribution, paper in PAPER_2.items():
        shares = vain.setdefault(distribution, [])
        mine = printed = 0.0
        for size in sizes:
            cells: list[object] = []
            for make in (mics, table_2_data):
                workload = make(distribution, size, publications)
                projection = Projection.build(workload.table(), space=whole_cells(3))
                sent, right = projection.sends(workload.events()), wanted(workload)
                if (right & ~sent).any():
                    raise AssertionError("a publication that is wanted was not sent")
                share = 100 * float((sent & ~right).sum()) / max(1, int(sent.sum()))
                cells += [f"{sent.sum():,}", f"{share:.2f} %"]
            shares.append(share)
            theirs = paper[size // 1000]
            mine, printed = mine + sent.mean(), printed + theirs[0] / PAPER_PUBLICATIONS
            theirs_told = f"{theirs[0]:,}", f"{theirs[1]:.2f} %"
            line(distribution, size_name(size), *theirs_told, *cells, f"{len(projection):,}")
        off = mine / printed - 1
        told = f"{distribution}: sent, fitted, {off:+.1%} against the paper (bar {BAR_TRAFFIC:.0%})"
        held &= bar(told, abs(off) <= BAR_TRAFFIC)
    told = "in vain, fitted: Zipf falls with n, and is under half of uniform's"
    falls = all(b < a for a, b in pairwise(vain["zipf"]))
    return held & bar(told, falls and all(2 * a < b for a, b in zip(vain["zipf"], vain["uniform"], strict=True)))


def table_3(sizes: Sequence[int], publications: int) -> None:
    """Subscription Indexing: how many subscriptions are left to evaluate."""
    print("\ntable 3: subscriptions to evaluate after the look-up, 3 of 7 attributes, size 4")
    line("", "n", "paper", "subscription", "publication", "with our cells", "entries each", "bytes each")
    for distribution, paper in PAPER_3.items():
        for size in sizes:
            workload = mics(distribution, size, publications)
            table, events, every = workload.table(), workload.events(), bits.all_set(size)
            index = MicsIndex.build(table, attributes=INDEXED, bits=EXACT_BITS, cells="equal")
            own = MicsIndex.build(table)
            asked = mics(distribution, 300, 1, seed=1).table()
            met = len(index.meeting(asked, np.arange(300, dtype=np.int32))[1]) / 300
            index.match_many(events, every)
            own.match_many(events, every)
            each = index.work.candidates / publications, own.work.candidates / publications
            line(distribution, size_name(size), str(paper.get(size // 1000, "")), met, *each,
                 own.describe()["entries_each"], own.nbytes / size)  # fmt: skip


# --- matching time -----------------------------------------------------------------------------------------------


def unsieved(index: MicsIndex, workload: Workload) -> MicsIndex:
    """The same without its sieve: candidates go straight to the exact comparison."""
    arrays = index.arrays._asdict()
    none: I32 = np.empty(0, np.int32)
    nothing = {"sieve": arrays["sieve"] * np.uint64(0), "sure": arrays["sure"] * np.uint64(0)}
    changed = {"sieve_attr": none, "sieve_cut_start": np.zeros(1, np.int32), "sieve_cuts": np.empty(0, np.int64)}
    return MicsIndex.restore(workload.table(), {**arrays, **changed, **nothing})


def figure_10(sizes: Sequence[int], publications: int, repeats: int) -> tuple[list[Figure], bool]:
    """Matching time by size: the linear algorithm, Subscription Indexing, and the look-up of Algorithm 2."""
    figures: list[Figure] = []
    held = True
    print(
        "\nfigure 10: µs a publication; subscriptions of size two, publications uniform (7 attributes: size 4, alike)"
    )
    print("  indexing: all matches, exact. without sieve: the same, every candidate compared with the table.")
    print("  look-up: Algorithm 2 alone, does any match. conversion apart: of a publication, of a subscription")
    head = ("linear", "indexing", "ratio", "without sieve", "look-up", "of a public.", "of a subscr.", "matches")
    line("", "n", *head)
    for name, distribution, axes in [
        *((f"{d}-d {kind}", kind, d) for d in (2, 3, 4) for kind in ("uniform", "zipf")),
        ("7-d uniform", "uniform", 7),
        ("7-d zipf", "zipf", 7),
    ]:
        growth: dict[str, list[float]] = {"linear": [], "indexing": [], "algorithm 2": []}
        for size in sizes:
            width, published = (SIZE, None) if axes == 7 else (2, "uniform")
            workload = mics(distribution, size, publications, attributes=axes, sizes=width, published=published)
            own = matching_times(name, workload, repeats)
            figures += own
            middle = {one.what: one.summary.median if one.status == "ok" else float("nan") for one in own}
            middle["algorithm 2"] = middle["to number"] + middle["look-up"]
            ratio = middle["linear"] / middle["indexing"]
            line(name, size_name(size), middle["linear"], middle["indexing"], f"{ratio:.0f} x", middle["unsieved"],
                 middle["look-up"], middle["to number"], middle["to ranges"], own[0].note)  # fmt: skip
            for way in growth:
                growth[way].append(middle[way])
            if size == 100_000:
                held &= bar(f"{name}, 100k: {ratio:.0f} x as fast as linear (bar {BAR_LINEAR:g})", ratio >= BAR_LINEAR)
        more = {way: times[-1] / times[0] for way, times in growth.items()}
        told = f"{name}, {sizes[-1] / sizes[0]:.1f} x the subscriptions: linear takes {more['linear']:.1f} x as long"
        told += f", indexing {more['indexing']:.1f} x, Algorithm 2 {more['algorithm 2']:.1f} x (bar a third of linear)"
        held &= bar(told, more["algorithm 2"] <= BAR_GROWTH * more["linear"])
    return figures, held


def matching_times(name: str, workload: Workload, repeats: int) -> list[Figure]:
    """All ways on one workload, in turn; the answers compared."""
    size, publications = workload.sub_attr.shape[0], len(workload.event_attr)
    table, events, every = workload.table(), workload.events(), bits.all_set(size)
    few = max(20, min(publications, 4_000_000 // size))
    bounds = np.stack([workload.sub_lo, workload.sub_hi], axis=2).reshape(size, -1)
    counts, out = np.zeros(few, np.int64), np.empty(1 << 22, np.int32)
    index = MicsIndex.build(table)
    plain = unsieved(index, workload)
    space = whole_cells(3 if workload.attributes == 7 else workload.attributes)
    some = np.arange(min(size, 4_000), dtype=np.int32)
    ranges = Projection.build(table, space=space).wanted
    numbers = hilbert.numbers(boxes_of_events(space, events)[0], EXACT_BITS)
    ways: dict[str, Callable[[], Any]] = {
        "linear": lambda: linear(bounds, workload.event_value[:few], counts, out),
        "indexing": lambda: index.match_many(events, every),
        "unsieved": lambda: plain.match_many(events, every),
        "look-up": lambda: ranges.holds(numbers),
        "to number": lambda: hilbert.numbers(boxes_of_events(space, events)[0], EXACT_BITS),
        "to ranges": lambda: ranges_of_slots(space, table, some),
    }
    each = {"linear": few, "to ranges": len(some)}
    seconds = in_turn(ways, repeats)
    pointers, slots = index.match_many(events, every)
    again = plain.match_many(events, every)[1]
    right = np.array_equal(np.diff(pointers)[:few], counts) and np.array_equal(slots, again)
    right &= np.array_equal(slots[: pointers[few]], out[: pointers[few]])
    note = f"{len(slots) / publications:.2f}" if right else "wrong"
    return [
        Figure(name, size, "mics", way, PER_EVENT,
               [one * 1e6 / each.get(way, publications) for one in values] if right else [],
               "ok" if right else "wrong", publications, note)
        for way, values in seconds.items()
    ]  # fmt: skip


# --- variable cells ----------------------------------------------------------------------------------------------


def variable_cells(sizes: Sequence[int], publications: int) -> bool:
    """Cells learned from past publications against as many of equal width."""
    print(f"\ncells: sent in vain of {publications:,} Zipf publications, 3 attributes of 256 x 64 values")
    print("  learned: from other publications, those nobody wants. candidates: of Subscription Indexing, a publication")
    line("n", "cells an axis", "equal: sent", "in vain", "learned: sent", "in vain", "candidates", "learned")
    held = True
    for size in sizes:
        both = mics("zipf", size, 2 * publications, attributes=3, grain=64)
        past, workload = (
            both._replace(event_attr=both.event_attr[part], event_value=both.event_value[part])
            for part in (slice(publications), slice(publications, None))
        )
        table, events, every = workload.table(), workload.events(), bits.all_set(size)
        right = wanted(workload)
        for depth in (4, 5, 6, 7, FINE):
            cells: list[object] = []
            vain, candidates = [], []
            for learn in (None, past.events()):
                sent = Projection.build(table, attributes=INDEXED, bits=depth, events=learn).sends(events)
                if (right & ~sent).any():
                    raise AssertionError("a publication that is wanted was not sent")
                vain.append(int((sent & ~right).sum()))
                cells += [f"{sent.sum():,}", f"{100 * vain[-1] / max(1, sent.sum()):.2f} %"]
                kind = "equal" if learn is None else "variable"
                index = MicsIndex.build(table, attributes=INDEXED, bits=depth, cells=kind, events=learn)
                index.match_many(events, every)
                candidates.append(index.work.candidates / publications)
            line(size_name(size), str(1 << depth), *cells, *candidates)
            told = f"{vain[1]:,} in vain with learned cells, {vain[0]:,} with equal ones"
            held &= bar(told, vain[1] < vain[0] if depth == FINE else vain[1] <= vain[0])
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20k and 100k subscriptions, three repeats, fewer events")
    parser.add_argument("--only", default="1,2,3,10,cells", help="which parts (1,2,3,10,cells)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args()
    sizes = [20_000, 100_000] if options.quick else [20_000, 60_000, 100_000, 150_000]
    repeats, publications = (QUICK_REPEATS, 2_000) if options.quick else (REPEATS, 10_000)
    chosen = set(options.only.split(","))
    figures: list[Figure] = []
    held = True
    if "1" in chosen:
        more, fine = table_1(2_000, repeats)
        figures, held = figures + more, held and fine
    if "2" in chosen:
        held &= table_2(sizes, publications)
    if "3" in chosen:
        table_3(sizes, publications)
    if "10" in chosen:
        more, fine = figure_10(sizes, publications, repeats)
        figures, held = figures + more, held and fine
    if "cells" in chosen:
        held &= variable_cells([2_000, 20_000], publications)
    if figures:
        spreads = [one.summary.spread for one in figures if one.status == "ok"]
        told = f"{np.median(spreads):.0%} in the middle, {max(spreads):.0%} at worst"
        print(f"\nspread (greatest less least, as a share of the median): {told}")
    if options.json:
        Result("mics", {"sizes": sizes, "repeats": repeats, "events": publications}, figures).write(options.json)
    return 0 if held and not any(one.status == "wrong" for one in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
