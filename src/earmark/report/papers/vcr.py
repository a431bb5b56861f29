"""VCR indexing (vcr.txt): Figures 6 to 9.

The paper's index keeps closed grid points, numbers VCRs by Eq. (1), has an array of pointers to lists, and puts new IDs
at the heads of linked lists. "as printed" has all of that but arrays for lists; "linked lists" has linked lists, but
finds them by hashing; "ours" is what `Matcher(index="vcr")` builds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from multiprocessing import get_context
from typing import Any

import numpy as np

from earmark.flat.arrays import I64
from earmark.index.scan import Scan
from earmark.index.vcr import VcrIndex, build
from earmark.index.vcr.arrays import VCRS
from earmark.report.answers import Answer, Exact, search
from earmark.report.bench import Bench
from earmark.report.experiment import Experiment, Panel, Printed
from earmark.report.protocol import release_free_memory, resident_bytes
from earmark.workload.skew import skew
from earmark.workload.standard import Workload

LINKED, PRINTED, OURS = "VCR, linked lists", "VCR, as printed", "VCR, ours"
R_TREE, SCAN = "R-tree", "scan"
SIDES = (16, 8)
"""The paper's Lx and Ly, for W = 40 and 20."""
AS_PRINTED: dict[str, Any] = {"mode": "points", "numbering": "corner", "decomposition": "simple", "store": "array"}
HASH_FIGURE_9 = 1_800_017
BULK = 1 / 32
"""Share of the rectangles that the linked form builds in bulk: an index needs some to choose its grid from."""
MIB = 2**20
SAMPLED = 100
"""Searches of which the leaves are counted."""

Way = Callable[[int], Answer]


def linked(workload: Workload, **options: Any) -> VcrIndex:
    """Build the paper's linked lists: all but the first few rectangles stay in the delta, which is never merged."""
    count = len(workload.sub_attr)
    bulk = max(1, int(count * BULK))
    fewest, build.FEWEST_LATE = build.FEWEST_LATE, 1 << 40
    try:
        index = VcrIndex.build(workload.head(bulk).table(), **options)
        index.insert(workload.table(), np.arange(bulk, count, dtype=np.int32))
    finally:
        build.FEWEST_LATE = fewest
    return index


def linked_bytes(index: VcrIndex) -> int:
    """Return the storage of an array of pointers to linked lists, computed as in section 3.1: 4 bytes per number."""
    return 4 * int(index.arrays.info[VCRS]) + 8 * int(index.describe()["entries"])


def drawn(bench: Bench, rule: str, n: int, grid: str = "moderate", widest: tuple[int, int] = (40, 20)) -> Workload:
    """Return rectangles, and events for all turns."""
    return skew(rule, n, grid, widest, events=bench["turns"] * bench["calls"] * bench["batch"], seed=bench.seed)


def race(
    bench: Bench,
    panel: str,
    x: float,
    workload: Workload,
    ways: Mapping[str, tuple[Way, int]],
    counts: Mapping[str, Mapping[str, float]],
) -> dict[str, float]:
    """Time ways of searching, each with the number of events in one of its calls; every answer is compared."""
    exact = Exact(workload)
    calls = bench["calls"]

    def check(name: str, call: int, answer: Answer) -> str:
        size = ways[name][1]
        return exact.difference(answer, call % (len(workload.event_value) // size) * size)

    matches = {"matches per event": exact.matches()}
    return bench.race(
        panel,
        x,
        {name: way for name, (way, _) in ways.items()},
        per={name: calls * size for name, (_, size) in ways.items()},
        calls=calls,
        turns=bench["turns"],
        check=check,
        counts={name: matches | dict(counts.get(name, {})) for name in ways},
    )


def counted(index: VcrIndex, rectangles: int) -> dict[str, float]:
    """Return what decides about time and storage: list entries, VCRs in use, VCRs that a search looks at."""
    described = index.describe()
    lx, ly = described["longest"]
    kx, ky = lx.bit_length() - 1, ly.bit_length() - 1
    points = described["mode"] == "points"
    covering = (2 * lx + kx) * (2 * ly + ky) if points else (2 * lx - 1) * (2 * ly - 1)
    return {
        "entries per rectangle": described["entries"] / rectangles,
        "VCRs in use": described["activated"],
        "VCRs of a covering set": covering,
    }


# --- figures --------------------------------------------------------------------------------------------------------


def figure_6(bench: Bench) -> Iterator[None]:
    """Search time and storage by the longest side."""
    n, batch = bench["n"], bench["batch"]
    for widest in (20, 40):
        workload = drawn(bench, "90-10", n, widest=(widest, widest))
        for side in bench["sides"]:
            longest = (side, side)
            indexes = {
                LINKED: linked(workload, longest=longest, **AS_PRINTED),
                PRINTED: VcrIndex.build(workload.table(), longest=longest, **AS_PRINTED),
                OURS: VcrIndex.build(workload.table(), longest=longest),
            }
            slower = {LINKED: bench["linked_batch"]}
            ways = {
                name: (search(index, workload, size := slower.get(name, batch)), size)
                for name, index in indexes.items()
            }
            counts = {name: counted(index, n) for name, index in indexes.items()}
            race(bench, f"search time, W = {widest}", side, workload, ways, counts)
            storage = {name: index.nbytes for name, index in indexes.items()} | {LINKED: linked_bytes(indexes[PRINTED])}
            for name, size in storage.items():
                bench.record(f"storage, W = {widest}", name, side, [size / MIB], counts[name])
            yield


CELLS = (
    "Both forms run on our cells, closed below and open above, where 465 VCRs cover a point; on the paper's closed "
    "grid points it is 684. Lists are arrays."
)
SEARCHES = "{turns} × {calls} × {batch} searches"

FIGURE_6 = Experiment(
    paper="vcr",
    name="figure-6",
    title="The impact of the longest side of a VCR",
    section="3.2",
    published="n up to 256,000 rectangles by the 90–10 rule, widths and heights up to W = 20 and 40, a range of 60,000 "
    "points, 100,000 searches",
    setting="{n:,} rectangles by the 90–10 rule on 300 × 200 points, " + SEARCHES,
    differs="The paper does not say which n and which rule Figure 6 has. Linked lists are found by hashing, not "
    "through an array of pointers, and get fewer searches, since they are slower; their storage is computed as the "
    "paper does, with such an array. The claims are judged by the linked lists, which are the paper's: short "
    "sides make many entries, and following links to them takes time that reading arrays does not.",
    panels=[
        Panel(f"{what}, W = {widest}", "longest side L", unit)
        for widest in (20, 40)
        for what, unit in (("search time", "µs per search"), ("storage", "MiB"))
    ],
    scales={
        "tiny": {"n": 600, "sides": (2, 8, 16), "turns": 2, "calls": 1, "batch": 20, "linked_batch": 20},
        "quick": {"n": 64_000, "sides": (2, 4, 8, 16, 32), "turns": 3, "calls": 1, "batch": 500, "linked_batch": 100},
        "full": {
            "n": 256_000, "sides": (2, 4, 8, 16, 32), "turns": 5, "calls": 20, "batch": 1_000, "linked_batch": 50,
        },
    },
    seconds={"quick": 20, "full": 240},
    notes=["for W = 20 the best L is 8 by storage and 16 by time; for W = 40 it is 16 by both"],
    run=figure_6,
)  # fmt: skip


def figure_7(bench: Bench) -> Iterator[None]:
    """Search time of an R-tree and VCR by size and overlap, and their storage."""
    few, batch = bench["rival_batch"], bench["batch"]
    for n in bench["sizes"]:
        for rule in ("uniform", "90-10", "90-1"):
            workload = drawn(bench, rule, n)
            indexes = {
                PRINTED: VcrIndex.build(workload.table(), longest=SIDES, **AS_PRINTED),
                OURS: VcrIndex.build(workload.table()),
            }
            ways = {name: (search(index, workload, batch), batch) for name, index in indexes.items()}
            tree = packed(workload)
            ways[R_TREE] = r_tree(tree, workload, few), few
            ways[SCAN] = search(Scan.build(workload.table()), workload, few), few
            counts = {name: counted(index, n) for name, index in indexes.items()}
            counts[R_TREE] = {"leaves per search": leaves_met(tree, workload.event_value)}
            medians = race(bench, f"search time, {rule}", n, workload, ways, counts)
            if n == bench["sizes"][-1] and all(value == value for value in medians.values()):
                for name in (PRINTED, OURS):
                    bench.record("saved by overlap", name, rule, [medians[R_TREE] - medians[name]])
            if rule != "90-1":
                name = f"{PRINTED}, {rule}"
                bench.record("storage", name, n, [indexes[PRINTED].nbytes / MIB], counts[PRINTED])
            if rule == "90-10":
                bench.record("storage", OURS, n, [indexes[OURS].nbytes / MIB], counts[OURS])
                with get_context("spawn").Pool(1) as fresh:
                    bench.record("storage", R_TREE, n, [fresh.apply(r_tree_bytes, (rule, n)) / MIB])
            yield


def packed(workload: Workload) -> Any:
    """Return libspatialindex's R-tree, loaded in bulk."""
    from rtree import index

    boxes = np.arange(len(workload.sub_lo)), workload.sub_lo.astype(float), workload.sub_hi.astype(float)
    return index.Index(boxes, properties=index.Property(dimension=workload.sub_lo.shape[1]))


def leaves_met(tree: Any, points: I64) -> float:
    """Return how many leaves a search of an R-tree looks into on average: those whose boxes contain the point."""
    every = np.array([bounds for _, _, bounds in tree.leaves()])
    low, high = every[:, : points.shape[1]], every[:, points.shape[1] :]
    some = points[:SAMPLED, None]
    return float(((low <= some) & (some <= high)).all(axis=2).sum(axis=1).mean())


def r_tree(tree: Any, workload: Workload, size: int) -> Way:
    """Return a search of an R-tree through its batch interface."""
    points = workload.event_value.astype(float)
    batches = len(points) // size

    def one_batch(call: int) -> Answer:
        first = call % batches * size
        slots, counts = tree.intersection_v(points[first : first + size], points[first : first + size])
        return Answer(np.concatenate([[0], np.cumsum(counts.astype(np.int64))]), slots)

    return one_batch


def r_tree_bytes(rule: str, n: int) -> int:
    """Return how much more a process holds with the R-tree in it; run this in a fresh one."""
    workload = skew(rule, n, events=1)
    packed(workload.head(100))
    release_free_memory()  # else the tree takes the place of what drawing the rectangles has left
    before = resident_bytes()
    tree = packed(workload)
    held = resident_bytes() - before
    r_tree(tree, workload, 1)(0)
    return max(held, 1)


RULED = [Panel(f"search time, {rule}", "n", "µs per search", log_x=True, log_y=True)
         for rule in ("uniform", "90-10", "90-1")]  # fmt: skip

FIGURE_7 = Experiment(
    paper="vcr",
    name="figure-7",
    title="R-tree and VCR",
    section="3.3",
    published="n from 32,000 to 256,000, uniform and by the 90–10 rule, W = 40 and 20, L = 16 and 8, a range of 60,000 "
    "points, simple decomposition, 100,000 searches; an R-tree by Y. Theodoridis",
    setting="300 × 200 points, n = {sizes}, " + SEARCHES,
    differs="The R-tree is libspatialindex, loaded in bulk. It and scan get "
    "fewer searches, of the same events: the R-tree alone would take an hour. The 90–1 rule is ours. "
    "The claims are judged by the form as printed, with arrays for lists, which is the paper's index but for them. "
    "Linked lists were not measured here, since they take so long: Figure 6 has both.",
    panels=[
        *RULED,
        Panel("saved by overlap", "rule", "µs per search less than the R-tree", "bars"),
        Panel("storage", "n", "MiB", log_x=True),
    ],
    scales={
        "tiny": {"sizes": (300, 600), "turns": 2, "calls": 1, "batch": 20, "rival_batch": 10},
        "quick": {"sizes": (32_000, 64_000), "turns": 3, "calls": 1, "batch": 600, "rival_batch": 60},
        "full": {
            "sizes": (32_000, 64_000, 128_000, 256_000), "turns": 5, "calls": 20, "batch": 1_000, "rival_batch": 50,
        },
    },
    seconds={"quick": 25, "full": 240},
    printed=[
        Printed("search time, uniform", R_TREE, 32_000, 304.0),
        Printed("search time, uniform", PRINTED, 32_000, 60.0),
        Printed("search time, 90-10", R_TREE, 32_000, 1_300.0),
        Printed("search time, 90-10", PRINTED, 32_000, 280.0),
    ],
    run=figure_7,
)  # fmt: skip


def prime_at_least(number: int) -> int:
    """Return the least prime that is not smaller: the paper's hash tables have prime sizes."""
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number += 1
    return number


def figure_8(bench: Bench) -> Iterator[None]:
    """An array of all VCRs against a hash table of about 10 n places."""
    batch = bench["batch"]
    for n in bench["sizes"]:
        workload = drawn(bench, "90-1", n, "large")
        places = prime_at_least(10 * n)
        fixed: dict[str, Any] = {"longest": SIDES, "decomposition": "overlapped", "numbering": "corner"}
        indexes = {
            "array": VcrIndex.build(workload.table(), store="array", **fixed),
            "hashed": VcrIndex.build(workload.table(), store="hashed", hash_size=places, **fixed),
        }
        counts = {name: counted(index, n) for name, index in indexes.items()}
        counts["hashed"]["places"] = places
        ways = {name: (search(index, workload, batch), batch) for name, index in indexes.items()}
        race(bench, "search time", n, workload, ways, counts)
        for name, index in indexes.items():
            bench.record("storage", name, n, [index.nbytes / MIB], counts[name])
        yield


FIGURE_8 = Experiment(
    paper="vcr",
    name="figure-8",
    title="The impact of hashing VCRs",
    section="3.4",
    published="n from 32,000 to 256,000 by the 90–1 rule, a range of 3,000,000 points, overlapped decomposition, a "
    "hash table of about 10 n places, 100,000 searches",
    setting="2,000 × 1,500 points, n = {sizes}, hash tables of the least prime from 10 n on, " + SEARCHES,
    differs=CELLS,
    panels=[Panel("search time", "n", "µs per search", log_x=True), Panel("storage", "n", "MiB", log_x=True)],
    scales={
        "tiny": {"sizes": (300, 600), "turns": 2, "calls": 1, "batch": 20},
        "quick": {"sizes": (32_000, 256_000), "turns": 3, "calls": 2, "batch": 1_000},
        "full": {"sizes": (32_000, 64_000, 128_000, 256_000), "turns": 5, "calls": 20, "batch": 1_000},
    },
    seconds={"quick": 15, "full": 100},
    printed=[
        Printed("search time", "array", 32_000, 80.0),
        Printed("search time", "hashed", 32_000, 400.0),
        Printed("search time", "array", 256_000, 860.0),
        Printed("search time", "hashed", 256_000, 1_300.0),
    ],
    run=figure_8,
)


def figure_9(bench: Bench) -> Iterator[None]:
    """Simple against overlapped decomposition, hashed at the paper's table size."""
    batch = bench["batch"]
    for n in bench["sizes"]:
        workload = drawn(bench, "90-10", n, "large")
        fixed: dict[str, Any] = {"longest": SIDES, "store": "hashed", "hash_size": HASH_FIGURE_9}
        indexes = {
            way: VcrIndex.build(workload.table(), decomposition=way, **fixed) for way in ("simple", "overlapped")
        }
        counts = {name: counted(index, n) for name, index in indexes.items()}
        ways = {name: (search(index, workload, batch), batch) for name, index in indexes.items()}
        race(bench, "search time", n, workload, ways, counts)
        for name in indexes:
            bench.record("load factor", name, n, [counts[name]["VCRs in use"] / HASH_FIGURE_9], counts[name])
        yield


FIGURE_9 = Experiment(
    paper="vcr",
    name="figure-9",
    title="The impact of overlapped decomposition",
    section="3.5",
    published="n up to 256,000 by the 90–10 rule, a range of 3,000,000 points, a hash table of 1,800,017 places, "
    "100,000 searches",
    setting="2,000 × 1,500 points, n = {sizes}, a hash table of 1,800,017 places, " + SEARCHES,
    differs=CELLS,
    panels=[
        Panel("search time", "n", "µs per search", log_x=True),
        Panel("load factor", "n", "share of places", log_x=True),
    ],
    scales={
        "tiny": {"sizes": (300, 600), "turns": 2, "calls": 1, "batch": 20},
        "quick": {"sizes": (32_000, 256_000), "turns": 3, "calls": 2, "batch": 1_000},
        "full": {"sizes": (32_000, 64_000, 128_000, 256_000), "turns": 5, "calls": 20, "batch": 1_000},
    },
    seconds={"quick": 15, "full": 100},
    run=figure_9,
)

EXPERIMENTS = [FIGURE_6, FIGURE_7, FIGURE_8, FIGURE_9]
