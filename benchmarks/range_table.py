"""The table of ranges (`cover/ranges/table.py`): what do look-ups, insertion and unsubscription cost as it grows?

    python benchmarks/range_table.py [--quick] [--sizes 1000,1000000] [--json FILE]

A table of 1,000 to 1,000,000 ranges that stand apart. `one by one` are calls of one range each, as a broker makes them;
`batch` is one call for CHANGED ranges, or for NUMBERS numbers to look up. Beside the look-up stands a *binary search*,
`np.searchsorted` of the same numbers in the ranges' sorted ends: O(log n), and it meets the same caches.

Bars:
    a change     from the least to the most ranges takes at most GROWTH times as long, one by one and in a batch
    a look-up    takes at most SLACK times as long as the binary search, at every size

Exit code 1 when a bar is missed or an answer is wrong: after each size, the table is compared with the ranges that
must be left, and every look-up with the binary search. Times are processor time of one thread, the least of REPEATS.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from earmark.cover.ranges.table import Ranges, RangeTable
from earmark.flat.arrays import I64
from earmark.report.protocol import clocked
from results import Figure, Result

SIZES, QUICK = [1_000, 10_000, 100_000, 1_000_000], [1_000, 10_000, 100_000]
CHANGED, NUMBERS = 300, 50_000
GROWTH, SLACK = 4.0, 1.5
REPEATS = 7
STRIDE = 64
"""Numbers from one range to the next; a range has fewer, so that none touch."""
SEARCH = "binary search"
LOOK_UP = "look-up"
SINGLE, BATCH = ("subscribe", "unsubscribe"), ("subscribe, batch", "unsubscribe, batch")


def told(text: str, held: bool) -> bool:
    """Say whether a bar is held."""
    print(f"  {text} -> {'held' if held else 'MISSED'}", flush=True)
    return held


def drawn(size: int, seed: int = 1) -> tuple[I64, I64]:
    """Ranges that stand apart, in any order."""
    random = np.random.default_rng(seed)
    first = random.permutation(size).astype(np.int64) * STRIDE
    return first, first + random.integers(0, STRIDE - 2, size)


def filled(first: I64, last: I64) -> RangeTable:
    """A table of these."""
    table = RangeTable()
    for begin in range(0, len(first), 1 << 12):
        table.take_in(Ranges(first[begin : begin + (1 << 12)], last[begin : begin + (1 << 12)]))
    return table


def measured(size: int) -> tuple[dict[str, list[float]], bool]:
    """Microseconds of everything at one size, a value a repeat; and whether answers were right."""
    first, last = drawn(size)
    table = filled(first, last)
    some = [Ranges(first[i : i + 1], last[i : i + 1]) for i in range(min(CHANGED, size // 2))]
    batch = Ranges(first[: len(some)], last[: len(some)])
    numbers = np.random.default_rng(2).integers(0, size * STRIDE, NUMBERS)
    low, high = np.sort(first), np.sort(last)
    right = True
    times: dict[str, list[float]] = {}

    def note(what: str, count: int, run: Callable[[], object]) -> object:
        seconds, found = clocked(run, "process")
        times.setdefault(what, []).append(seconds / count * 1e6)
        return found

    for _ in range(REPEATS):
        place = note(SEARCH, NUMBERS, lambda: np.searchsorted(low, numbers, "right"))
        wanted = (place > 0) & (high[np.asarray(place) - 1] >= numbers)  # type: ignore[operator]
        right &= bool((np.asarray(note(LOOK_UP, NUMBERS, lambda: table.holds(numbers))) == wanted).all())
        note("unsubscribe", len(some), lambda: [table.unsubscribe(one) for one in some])
        right &= len(table) == size - len(some)
        note("subscribe", len(some), lambda: [table.subscribe(one) for one in some])
        note("unsubscribe, batch", len(some), lambda: table.release(batch))
        right &= len(table) == size - len(some)
        note("subscribe, batch", len(some), lambda: table.take_in(batch))
    table.check()
    found = table.ranges()
    return times, right and bool((found.first == low).all() and (found.last == high).all())


def judged(least: dict[int, dict[str, float]]) -> bool:
    """Whether the bars are held: least times by size."""
    small, large = min(least), max(least)
    grown = {what: least[large][what] / least[small][what] for what in (SEARCH, LOOK_UP, *BATCH, *SINGLE)}
    print(f"\nfrom {small:,} to {large:,} ranges")
    print(f"  a binary search: {grown[SEARCH]:.1f} x; a look-up: {grown[LOOK_UP]:.1f} x, for the caches")
    good = True
    for what in (*SINGLE, *BATCH):
        good &= told(f"{what}: {grown[what]:.1f} x (at most {GROWTH:g})", grown[what] <= GROWTH)
    slowest = max(times[LOOK_UP] / times[SEARCH] for times in least.values())
    return good & told(f"a look-up: {slowest:.2f} of a binary search (at most {SLACK:g})", slowest <= SLACK)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="up to 100,000 ranges")
    parser.add_argument("--sizes", help="numbers of ranges, comma-separated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args(arguments)
    sizes = [int(size) for size in options.sizes.split(",")] if options.sizes else QUICK if options.quick else SIZES
    begun, figures, good = time.perf_counter(), [], True
    names = (SEARCH, LOOK_UP, *BATCH, *SINGLE)
    measured(100)  # kernels are compiled here
    print("µs each\n   ranges  " + "  ".join(f"{name:>18}" for name in names))
    least: dict[int, dict[str, float]] = {}
    for size in sizes:
        times, right = measured(size)
        least[size] = {name: min(times[name]) for name in names}
        print(f"{size:9,}  " + "  ".join(f"{least[size][name]:18.3f}" for name in names), flush=True)
        good &= right or told("an answer is wrong", False)
        for name in names:
            engine = "numpy" if name == SEARCH else "range table"
            kept = {"values": times[name]} if right else {"status": "wrong", "note": "a table or a look-up differs"}
            figures.append(Figure("ranges apart", size, engine, name, "µs", **kept))  # type: ignore[arg-type]
    good &= judged(least)
    print(f"\n{time.perf_counter() - begun:.0f} s; {'all bars held' if good else 'A BAR WAS MISSED'}")
    if options.json:
        Result("range_table", {"quick": options.quick, "sizes": sizes}, figures).write(options.json)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
