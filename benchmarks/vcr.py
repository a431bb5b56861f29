"""VCR indexing by its paper's figures: against scan and libspatialindex's R-tree, every answer compared.

    python benchmarks/vcr.py [--quick] [--figures 6,7,8,9] [--json FILE]

figure 6   the longest side: search time and storage
figure 7   R-tree against VCR as overlap grows. It carries the bars, at the largest size: at 90-10 at least 10 x as
           fast as the R-tree through its batch interface and 1.5 x as fast as scan; on uniform rectangles 3 x as
           fast as scan; and the saving an event against the R-tree grows with overlap
figure 8   hashing trades time for memory
figure 9   overlapped decomposition activates fewer VCRs

What the paper printed stands beside what was measured; its machine was of 2003, so only shapes and ratios compare.
"Printed" is the paper's index as it stands there: closed grid points, the IDs of Eq. (1); "linked" has its linked
lists too. The clock is processor time of the thread (everyone here has one), which work of others on the machine
disturbs less. Exit code 1 when a bar is missed or an answer is wrong.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import engines
from earmark.flat import bits
from earmark.index.vcr import VcrIndex, build
from earmark.workload.skew import MODERATE, RULES, skew
from earmark.workload.standard import Workload
from engines.base import Answer, Engine, Numbers, Pointed, difference, match_keys
from engines.earmark_index import EarmarkIndex
from protocol import QUICK_REPEATS, REPEATS, resident_bytes, summary
from results import PER_EVENT, Figure, Result
from tables import number, size_name

BAR_RTREE, BAR_SCAN, BAR_SCAN_UNIFORM = 10.0, 1.5, 3.0
SIDES = (16, 8)
"""The paper's Lx and Ly, for W = 40 and 20."""
AS_PRINTED: dict[str, Any] = {"mode": "points", "numbering": "corner", "decomposition": "simple", "store": "array"}
"""The paper's own index: closed grid points, the IDs of Eq. (1)."""
PAPER_32K = {"uniform": (304.0, 60.0), "90-10": (1300.0, 280.0)}
"""µs a search at n = 32,000: R-tree, VCR (section 3.3)."""
HASH_FIGURE_9 = 1_800_017

Search = Callable[[], Answer]


class Vcr(EarmarkIndex):
    """The index with options of its own."""

    def __init__(self, name: str = "vcr", **options: Any) -> None:
        super().__init__(name)
        self.options = options

    def build(self, workload: Workload) -> None:
        self.index = VcrIndex.build(workload.table(), **self.options)
        self.eligible = bits.all_set(len(workload.sub_attr))

    def told(self) -> dict[str, Any]:
        """What the index says it did."""
        assert isinstance(self.index, VcrIndex)
        return self.index.describe()


class Linked(Vcr):
    """The paper's linked lists: all but the first few rectangles stay in the delta, which is never merged."""

    def build(self, workload: Workload) -> None:
        count = len(workload.sub_attr)
        merging, build.FEWEST_LATE = build.FEWEST_LATE, 1 << 40
        self.index = VcrIndex.build(workload.head(count // 32).table(), **self.options)
        self.index.insert(workload.table(), np.arange(count // 32, count, dtype=np.int32))
        build.FEWEST_LATE = merging
        self.eligible = bits.all_set(count)


def made(engine: Engine, workload: Workload) -> Search:
    """The engine with the subscriptions in it, as a search for all events."""
    engine.prepare(workload)
    engine.build(workload)
    events = len(workload.event_attr)
    return lambda: engine.searches()["batch"](events)


def right(answer: Answer, wanted: Numbers, subscriptions: int) -> str:
    """How the answer differs from the reference; ascending answers need no sorting to be compared."""
    if isinstance(answer, Pointed):
        events = np.repeat(np.arange(len(answer.start) - 1), np.diff(answer.start))
        if np.array_equal(events * subscriptions + answer.slots, wanted):
            return ""
    return difference(match_keys(answer, subscriptions), wanted, subscriptions)


def reference(workload: Workload) -> Numbers:
    """Event by event with numpy."""
    parts = []
    for e, value in enumerate(workload.event_value):
        inside = ((workload.sub_lo <= value) & (value <= workload.sub_hi)).all(axis=1)
        parts.append(np.flatnonzero(inside) + e * len(inside))
    return np.concatenate(parts)


def spent(run: Search) -> tuple[float, Answer]:
    """Processor seconds of this thread in one run, and what it returned. The garbage collector waits."""
    gc.collect()
    gc.disable()
    try:
        begun = time.thread_time()
        answer = run()
        return time.thread_time() - begun, answer
    finally:
        gc.enable()


def measured(name: str, workload: Workload, ways: dict[str, Search], repeats: int) -> list[Figure]:
    """Time all ways in turn, so that a busy moment hits them alike; compare every answer."""
    wanted = reference(workload)
    slots, events = len(workload.sub_attr), len(workload.event_attr)
    values: dict[str, list[float]] = {way: [] for way in ways}
    wrong: dict[str, str] = {}
    for turn in range(repeats + 1):
        for way, search in ways.items():
            seconds, answer = spent(search)
            wrong[way] = wrong.get(way) or right(answer, wanted, slots)
            if turn:
                values[way].append(seconds * 1e6 / events)
    return [
        Figure(name, slots, way, "batch", PER_EVENT, [] if wrong[way] else values[way],
               "wrong" if wrong[way] else "ok", events, wrong[way])
        for way in ways
    ]  # fmt: skip


def medians(figures: Sequence[Figure]) -> list[float]:
    """µs per event; NaN for a wrong answer."""
    return [one.summary.median if one.status == "ok" else float("nan") for one in figures]


def line(*cells: object) -> None:
    """One row of a table."""
    print(
        "  " + "".join(f"{cell if isinstance(cell, str) else number(float(str(cell))):>15}" for cell in cells),
        flush=True,
    )


def mib(count: float) -> str:
    return f"{count / 2**20:.1f} MiB"


# --- the figures -------------------------------------------------------------------------------------------------


def figure_6(size: int, repeats: int, events: int) -> list[Figure]:
    """Search time and storage by the longest side, for rectangles up to 20 and 40."""
    figures = []
    for widest in (20, 40):
        name = f"figure 6, W={widest}"
        workload = skew("90-10", size, widest=(widest, widest), events=events)
        paper = "8 by storage, 16 by time" if widest == 20 else "16 by both"
        print(f"\n{name}, {size_name(size)} rectangles, 90-10; the paper's best L: {paper}")
        line("L", "linked µs", "storage", "printed µs", "storage", "ours µs", "storage", "entries each")
        sides = [2, 4, 8, 16, 32]
        found: list[list[float]] = []
        for side in sides:
            three = [
                Linked("vcr", longest=(side, side), **AS_PRINTED),
                Vcr("vcr", longest=(side, side), **AS_PRINTED),
                Vcr("vcr", longest=(side, side)),
            ]
            names = [f"{what} L={side}" for what in ("linked", "printed", "ours")]
            ways = {way: made(index, workload) for way, index in zip(names, three, strict=True)}
            figures += (own := measured(name, workload, ways, repeats))
            sizes = [one.index.nbytes for one in three]
            found.append([*medians(own), *map(float, sizes)])
            cells = [cell for pair in zip(medians(own), map(mib, sizes), strict=True) for cell in pair]
            line(str(side), *cells, three[2].told()["entries"] / size)
        best = [sides[int(np.argmin(column))] for column in zip(*found, strict=True)]
        chosen = Vcr("vcr")
        made(chosen, workload)
        for what, time_, storage in zip(("linked", "printed", "ours"), best[:3], best[3:], strict=True):
            print(f"  best L, {what}: {time_} by time, {storage} by storage")
        print(f"  chosen by itself: {chosen.told()['longest']}, {mib(chosen.index.nbytes)}")
    return figures


def figure_7(sizes: Sequence[int], repeats: int, events: int) -> tuple[list[Figure], bool]:
    """R-tree, scan and VCR by size and overlap; the bars."""
    figures, savings, held = [], {}, True
    print(f"\nfigure 7, {MODERATE.width} x {MODERATE.height}: µs per event")
    line(
        "rule",
        "n",
        "matches",
        "R-tree",
        "scan",
        "VCR",
        "VCR printed",
        "R-tree/VCR",
        "scan/VCR",
        "saved µs",
        "VCR storage",
    )
    for size in sizes:
        for rule in RULES:
            name = f"figure 7, {rule}"
            few = events // 4 if rule == "90-1" else events  # tens of thousands of matches each
            workload = skew(rule, size, events=few)
            rtree = made(engines.make("rtree"), workload)
            vcr = Vcr("vcr")
            ways = {
                "rtree": rtree,
                "scan": made(EarmarkIndex("scan"), workload),
                "vcr": made(vcr, workload),
                "vcr printed": made(Vcr("vcr", longest=SIDES, **AS_PRINTED), workload),
            }
            figures += (own := measured(name, workload, ways, repeats))
            tree, scan, ours, printed = medians(own)
            savings[rule] = tree - ours
            matches = len(reference(workload)) / few
            storage = vcr.index.nbytes
            figures.append(
                Figure(name, size, "vcr", "memory", "MiB", [storage / 2**20], note=str(vcr.told()["longest"]))
            )
            line(
                rule,
                size_name(size),
                matches,
                tree,
                scan,
                ours,
                printed,
                tree / ours,
                scan / ours,
                tree - ours,
                mib(storage),
            )
            if size == 32_000 and rule in PAPER_32K:
                theirs, own_ratio = PAPER_32K[rule], f"{tree / ours:.1f} x, and {tree / printed:.1f} x as printed"
                told = f"{theirs[0]:,.0f} / {theirs[1]:.0f} µs = {theirs[0] / theirs[1]:.1f} x"
                print(f"    the paper at 32k: {told}, {theirs[0] - theirs[1]:,.0f} µs saved; here {own_ratio}")
            if size == sizes[-1]:
                with get_context("spawn").Pool(1) as fresh:
                    tree_memory = mib(fresh.apply(tree_bytes, (rule, size)))
                print(f"    the R-tree takes {tree_memory}, measured in a fresh process")
                held &= bars(rule, size, tree / ours, scan / ours)
    order = list(savings.values())
    growing = order == sorted(order)
    told = ", ".join(number(saved) for saved in order)
    print(f"  the saving an event grows with overlap: {told} µs -> {'held' if growing else 'MISSED'}")
    return figures, held and growing


def tree_bytes(rule: str, size: int) -> int:
    """How much more a process holds with the R-tree in it."""
    workload = skew(rule, size, events=1)
    made(engines.make("rtree"), workload.head(100))
    before = resident_bytes()
    search = made(engines.make("rtree"), workload)
    held = resident_bytes() - before
    search()
    return held


def bars(rule: str, size: int, tree: float, scan: float) -> bool:
    """Whether the ratios at the largest size are what they should be; says so."""
    wanted = {
        "90-10": ((tree, BAR_RTREE, "R-tree"), (scan, BAR_SCAN, "scan")),
        "uniform": ((scan, BAR_SCAN_UNIFORM, "scan"),),
    }
    held = True
    for ratio, bar, rival in wanted.get(rule, ()):
        held &= ratio >= bar
        told = f"{ratio:.1f} x as fast as {rival} (bar {bar:g}) -> {'held' if ratio >= bar else 'MISSED'}"
        print(f"    {rule}, {size_name(size)}: {told}")
    return held


def figure_8(sizes: Sequence[int], repeats: int, events: int) -> list[Figure]:
    """The large grid, overlapped, 90-1: an array of all VCRs against a hash table of 10 n places."""
    figures = []
    print("\nfigure 8, 2000 x 1500, 90-1, overlapped: hashing trades time for memory")
    print("  the paper, 32k to 256k: 80 to 860 µs with an array, 400 to 1,300 µs hashed")
    line("n", "array µs", "hashed µs", "hashed/array", "array storage", "hashed storage", "load", "chosen")
    for size in sizes:
        workload = skew("90-1", size, "large", events=events)
        fixed: dict[str, Any] = {"longest": SIDES, "decomposition": "overlapped", "numbering": "corner"}
        two = [Vcr("vcr", store="array", **fixed), Vcr("vcr", store="hashed", hash_size=10 * size + 1, **fixed)]
        ways = {name: made(index, workload) for name, index in zip(("array", "hashed"), two, strict=True)}
        figures += (own := measured("figure 8", workload, ways, repeats))
        array, hashed = medians(own)
        chosen = Vcr("vcr")
        made(chosen, workload)
        load = two[1].told()["activated"] / (10 * size + 1)
        line(
            size_name(size),
            array,
            hashed,
            hashed / array,
            *(mib(one.index.nbytes) for one in two),
            f"{load:.3f}",
            chosen.told()["store"],
        )
        del ways, two
    return figures


def figure_9(sizes: Sequence[int], repeats: int, events: int) -> list[Figure]:
    """Simple against overlapped, hashed at the paper's table size."""
    figures = []
    print(f"\nfigure 9, 2000 x 1500, 90-10, hash table of {HASH_FIGURE_9:,}: overlapped activates fewer VCRs")
    line("n", "simple µs", "overlapped µs", "simple/over.", "activated", "overlapped", "load simple", "load overlap.")
    for size in sizes:
        workload = skew("90-10", size, "large", events=events)
        fixed: dict[str, Any] = {"longest": SIDES, "store": "hashed", "hash_size": HASH_FIGURE_9}
        two = [Vcr("vcr", decomposition=way, **fixed) for way in ("simple", "overlapped")]
        ways = {way: made(index, workload) for way, index in zip(("simple", "overlapped"), two, strict=True)}
        figures += (own := measured("figure 9", workload, ways, repeats))
        simple, over = medians(own)
        activated = [one.told()["activated"] for one in two]
        loads = [f"{count / HASH_FIGURE_9:.2f}" for count in activated]
        line(size_name(size), simple, over, simple / over, *(f"{count:,}" for count in activated), *loads)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="32k and 64k rectangles only, three repeats, fewer events")
    parser.add_argument("--figures", default="6,7,8,9", help="which of the paper's figures (6,7,8,9)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args()
    sizes = [32_000, 64_000] if options.quick else [32_000, 64_000, 128_000, 256_000]
    repeats, events = (QUICK_REPEATS, 200) if options.quick else (REPEATS, 400)
    chosen = {int(figure) for figure in options.figures.split(",")}
    figures, held = [], True
    if 6 in chosen:
        figures += figure_6(sizes[-1], repeats, events)
    if 7 in chosen:
        more, held = figure_7(sizes, repeats, events)
        figures += more
    if 8 in chosen:
        figures += figure_8(sizes, repeats, events)
    if 9 in chosen:
        figures += figure_9(sizes, repeats, events)
    spreads = [summary(one.values).spread for one in figures if len(one.values) > 1]
    told = f"{np.median(spreads):.0%} in the middle, {max(spreads):.0%} at worst"
    print(f"\nspread (greatest less least, as a share of the median): {told}")
    if options.json:
        Result("vcr", {"sizes": sizes, "repeats": repeats, "events": events}, figures).write(options.json)
    return 0 if held and not any(one.status == "wrong" for one in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
