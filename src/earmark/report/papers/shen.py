"""Covering (shen-covering.txt): Tables I and II, Figures 8 to 12; beyond them, questions in batches, and an audit.

Streams of subscribes and unsubscribes go through the relation graph G_k over an index. What is forwarded at the end of
a stream is compared with what scans of all subscriptions find (`oracles.py`); it does not depend on the index, or on k.
The paper's *dimension* is twice the number of attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from earmark.cover import builder
from earmark.cover.audit import audit
from earmark.cover.indexes.blocks import CoverBlocks
from earmark.cover.relation_graph import RelationGraph
from earmark.lazy import lazy_property
from earmark.report import oracles
from earmark.report.bench import Bench
from earmark.report.experiment import Experiment, Panel, Printed
from earmark.report.protocol import clocked
from earmark.report.rivals.rows import Rows, Vectors
from earmark.segment.arrays import SegmentArrays
from earmark.workload.rectangles import Commands, boxes, commands, table_of

KD_TREE, Z_CURVE, NAIVE, VECTORISED = "kd-tree", "Z-curve", "naive", "vectorised scan"
INDEXES: dict[str, Callable[..., Any]] = {
    KD_TREE: builder("kd_tree"),
    Z_CURVE: builder("z_curve"),
    NAIVE: Rows.build,
    VECTORISED: Vectors.build,
}
BOTH = (KD_TREE, Z_CURVE)
NONE = np.empty(0, np.int32)
MODES = (1, 2, 3, 4, 5, 6)
LOADS = {"p = 5 %": 0.05, "p = 40 %": 0.4}
DIMENSION = 10
WARM_UP = 300
"""Commands of the stream that warms up: they compile and load everything that the stream that counts needs."""
STATISTICS = ("nv", "nv_s", "nv_u", "pc", "pc_s", "pc_u")
TABLE_1 = (
    (813, 782, 31, 6147, 5993, 154), (983, 974, 9, 9967, 9852, 115), (1140, 1131, 9, 13111, 12973, 138),
    (1275, 1266, 9, 15816, 15663, 153), (1400, 1390, 10, 18274, 18111, 163), (1508, 1498, 10, 20407, 20237, 170),
)  # fmt: skip
TABLE_2 = (
    (556, 415, 141, 6192, 4684, 1508), (634, 529, 105, 8952, 7376, 1576), (714, 615, 99, 11026, 9365, 1661),
    (780, 683, 97, 12661, 10936, 1725), (839, 740, 99, 14050, 12260, 1790), (889, 789, 100, 15233, 13389, 1844),
)  # fmt: skip


@dataclass(frozen=True)
class Stream:
    """Commands, and the rectangles that they are about."""

    commands: Commands
    table: SegmentArrays

    @classmethod
    def drawn(cls, count: int, dimension: int, p: float, seed: int) -> Stream:
        """Draw a stream."""
        made = commands(count, dimension, p, seed)
        return cls(made, made.table())

    def play(self, index: str, k: int) -> RelationGraph:
        """Send all commands through G_k."""
        graph = RelationGraph(INDEXES[index](self.table, NONE), k)
        for subscribes, slot in zip(self.commands.subscribes.tolist(), self.commands.slot.tolist(), strict=True):
            if subscribes:
                graph.subscribe(slot, self.table)
            else:
                graph.unsubscribe(slot)
        return graph

    @lazy_property
    def forwarded(self) -> frozenset[int]:
        """What must be forwarded at the end."""
        return oracles.forwarded(self.commands)

    def wrong(self, graph: RelationGraph) -> str:
        """Return how what a graph forwards at the end is wrong, or ""."""
        wrong = self.forwarded ^ graph.forwarded
        return f"{len(wrong)} are forwarded wrongly" if wrong else ""


class Race:
    """Whole streams through G_k, after a short one that warms up."""

    def __init__(self, bench: Bench, count: int, dimension: int, p: float) -> None:
        self._bench = bench
        self._stream = Stream.drawn(count, dimension, p, bench.seed)
        self._short = Stream.drawn(min(count, WARM_UP), dimension, p, bench.seed)

    def run(self, panel: str, x: float, indexes: tuple[str, ...], k: int = 1) -> None:
        """Time the stream with each index, in seconds; beside it, the operations of each."""
        counts: dict[str, dict[str, float]] = {name: {} for name in indexes}

        def way(name: str) -> Callable[[int], RelationGraph]:
            return lambda call: (self._stream if call else self._short).play(name, k)

        def check(name: str, call: int, graph: RelationGraph) -> str:
            if not call:
                return ""
            counts[name] = operations(graph)
            return self._stream.wrong(graph)

        ways = {name: way(name) for name in indexes}
        self._bench.race(panel, x, ways, factor=1, turns=self._bench["turns"], check=check, counts=counts)


def operations(graph: RelationGraph) -> dict[str, float]:
    """Return nodes visited and point comparisons, and calls of cov_k, of subscribes and of unsubscribes."""
    (nv_s, pc_s), (nv_u, pc_u) = graph.index.costs
    q_s, q_u = graph.calls
    return {"nv": nv_s + nv_u, "nv_s": nv_s, "nv_u": nv_u, "pc": pc_s + pc_u, "pc_s": pc_s, "pc_u": pc_u,
            "q_s": q_s, "q_u": q_u}  # fmt: skip


# --- tables and figures ---------------------------------------------------------------------------------------------


def statistics(load: str) -> Callable[[Bench], Iterator[None]]:
    """Return what runs Table I or II."""

    def table(bench: Bench) -> Iterator[None]:
        stream = Stream.drawn(bench["commands"], DIMENSION, LOADS[load], bench.seed)
        for k in MODES:
            for name in BOTH:
                graph = stream.play(name, k)
                found, wrong = operations(graph), stream.wrong(graph)
                for statistic in STATISTICS:
                    bench.record(name, statistic, k, [found[statistic] / 1000], {"q_u": found["q_u"]}, wrong=wrong)
                yield

    return table


def figure_8(bench: Bench) -> Iterator[None]:
    """Run time by reporting mode."""
    for load, p in LOADS.items():
        race = Race(bench, bench["commands"], DIMENSION, p)
        for k in MODES:
            race.run(load, k, BOTH, k)
            yield


def figure_9(bench: Bench) -> Iterator[None]:
    """Calls of cov_k that unsubscribes make, by reporting mode; Lemma 1 and Theorem 1."""
    for load, p in LOADS.items():
        stream = Stream.drawn(bench["commands"], DIMENSION, p, bench.seed)
        removed = int((~stream.commands.subscribes).sum())
        cost_1 = 0
        for k in MODES:
            graph = stream.play(KD_TREE, k)
            (q_s, q_u), wrong = graph.calls, stream.wrong(graph)
            cost_1 = cost_1 or q_s + q_u
            bench.record("calls", load, k, [q_u], {"q_s": q_s, "unsubscribes": removed}, wrong=wrong)
            bench.record("Lemma 1", load, k, [q_u / max(1, removed)], wrong=wrong)
            bench.record("Theorem 1", load, k, [cost_1 / (q_s + q_u)], wrong=wrong)
        yield


def run_time(dimension: int) -> Callable[[Bench], Iterator[None]]:
    """Return what runs Figure 10, 11 or 12."""

    def figure(bench: Bench) -> Iterator[None]:
        for count in bench["commands"]:
            Race(bench, count, dimension, 0.15).run("run time", count, tuple(INDEXES))
            yield
        for other in (6, 12, 16) if dimension == 16 else ():
            Race(bench, bench["by_dimension"], other, 0.15).run("by dimension", other, (KD_TREE, Z_CURVE, NAIVE))
            yield

    return figure


# --- beyond the paper -----------------------------------------------------------------------------------------------

WIDEST = {6: 0.5, 10: 0.6, 16: 0.7}
"""The greatest width of a rectangle by dimension, as a share of the domain: more of them where fewer cover."""
AUDITED, COPIES = 0.6, 0.05
BLOCKS = "blocks"
LOOKED_AT = 1_000
"""Subscriptions about which an audit is compared with a scan."""


def batches(bench: Bench) -> Iterator[None]:
    """Who covers each of many, in one call and one by one; then what an audit takes."""
    for dimension, widest in WIDEST.items():
        ask(bench, dimension, widest)
        yield
    audited(bench)
    yield


def ask(bench: Bench, dimension: int, widest: float) -> None:
    """Time the questions about one set of rectangles; all answers are compared with those of a scan."""
    members, queries = bench["members"], bench["queries"]
    lo, hi = boxes(members + queries, dimension // 2, widest, seed=bench.seed)
    table, scan = table_of(lo, hi), oracles.Scan(lo, hi)
    inside, asked = np.arange(members, dtype=np.int32), np.arange(members, members + queries, dtype=np.int32)
    whole = CoverBlocks.build(table, inside)
    single = {name: INDEXES[name](table, inside) for name in (KD_TREE, VECTORISED)}
    indexes = {BLOCKS: whole, **single}
    expected = [scan.covering(slot, of=members).tolist() for slot in asked.tolist()]
    counts: dict[str, dict[str, float]] = {}

    def check(name: str, call: int, answer: Any) -> str:
        index = indexes[name]
        nodes, compared = (spent / queries / (call + 1) for spent in index.costs[0])
        counts[name] = {"nodes per question": nodes, "point comparisons per question": compared}
        counts[name] |= {"answers per question": sum(map(len, expected)) / queries, "MiB": index.nbytes / 2**20}
        parts = [answer[1][begin:end] for begin, end in pairwise(answer[0])] if name == BLOCKS else answer
        got = [sorted(part.tolist()) for part in parts]
        return "" if got == expected else "answers differ from those of a scan"

    ways: dict[str, Callable[[int], Any]] = {
        BLOCKS: lambda call: whole.covering_batch(asked),
        **{name: partial(_one_by_one, index, asked.tolist()) for name, index in single.items()},
    }
    bench.race("who covers it", dimension, ways, per=queries, check=check, counts=counts)


def _one_by_one(index: Any, asked: list[int], call: int) -> list[Any]:
    """Ask about each slot; `call` plays no part."""
    return [index.covering(slot) for slot in asked]


def audited(bench: Bench) -> None:
    """Time an audit once; what it says about some of the subscriptions is compared with a scan."""
    import pyarrow as pa

    from earmark import Matcher

    count, random = bench["audited"], np.random.default_rng(bench.seed)
    lo, hi = boxes(count, 5, AUDITED, seed=bench.seed)
    copied = random.random(count) < COPIES
    lo[copied], hi[copied] = lo[np.flatnonzero(copied) // 2], hi[np.flatnonzero(copied) // 2]
    bounds = {f"a{j}_{end}": side[:, j] for j in range(5) for end, side in (("lo", lo), ("hi", hi))}
    matcher = Matcher(index="scan")
    matcher.add_many(pa.table({"id": np.arange(count), **bounds}), progress=False)
    view = matcher._version.whole
    audit(view, np.ones(1, np.uint64))
    seconds, found = clocked(partial(audit, view), "thread")
    scan, redundant = oracles.Scan(lo, hi), set(found.redundant)
    looked_at = np.linspace(0, count - 1, min(count, LOOKED_AT), dtype=np.int64).tolist()
    lost = sum((slot in redundant) != bool(len(scan.covering(slot))) for slot in looked_at)
    counts = {"duplicates": len(found.duplicates), "covered": len(found.covered), "looked at": len(looked_at)}
    bench.record("audit", "audit", count, [seconds], counts, wrong=f"{lost} verdicts are wrong" if lost else "")


# --- settings -------------------------------------------------------------------------------------------------------

ATTRIBUTE_RANGE = "The paper does not print the range of an attribute; ours is [0, 2^20 - 1]."
MODE_SCALES = {"tiny": {"commands": 400}, "quick": {"commands": 10_000}, "full": {"commands": 60_000}}


def mode_table(number: int, load: str, printed: tuple[tuple[int, ...], ...], differs: str) -> Experiment:
    """Return Table I or II."""
    rows = zip(MODES, printed, strict=True)
    return Experiment(
        paper="shen",
        name=f"table-{number}",
        title=f"The reporting mode and the work of the indexes, {load}",
        section="V-B",
        published=f"60,000 commands, dimension 10, {load}, kd-tree; counts in thousands",
        setting="{commands:,} commands, dimension 10, " + load,
        differs=f"{differs}{ATTRIBUTE_RANGE} Our buckets hold 64 points, compared at once; the paper does not print "
        "the size of its buckets, so absolute counts do not compare.",
        panels=[Panel(name, "k", "thousand", "table") for name in BOTH],
        scales=MODE_SCALES,
        seconds={"quick": 6, "full": 45},
        printed=[
            Printed(KD_TREE, statistic, k, value)
            for k, row in rows
            for statistic, value in zip(STATISTICS, row, strict=True)
        ],
        run=statistics(load),
    )


def time_figure(number: int, dimension: int, seconds: dict[str, float]) -> Experiment:
    """Return Figure 10, 11 or 12."""
    more = [Panel("by dimension", "dimension", "s")] if dimension == 16 else []
    return Experiment(
        paper="shen",
        name=f"figure-{number}",
        title=f"Total run time, dimension {dimension}",
        section="V-C",
        published=f"10,000 to 100,000 commands, dimension {dimension}, p = 15 %",
        setting="{commands} commands, p = 15 %, G_1, {turns} runs of each stream after a short one that warms up",
        differs=f"{ATTRIBUTE_RANGE} The naive rival is compiled; a vectorised scan, which the paper does not have, is "
        "beside it.",
        panels=[Panel("run time", "commands", "s"), *more],
        scales={
            "tiny": {"commands": (200, 400), "by_dimension": 300, "turns": 1},
            "quick": {"commands": (5_000, 10_000, 20_000), "by_dimension": 20_000, "turns": 2},
            "full": {"commands": (10_000, 25_000, 50_000, 75_000, 100_000), "by_dimension": 50_000, "turns": 3},
        },
        seconds=seconds,
        run=run_time(dimension),
    )


FIGURE_8 = Experiment(
    paper="shen",
    name="figure-8",
    title="Run time by reporting mode",
    section="V-B",
    published="60,000 commands, dimension 10, p = 5 % (heavy load) and 40 % (light load)",
    setting="{commands:,} commands, dimension 10, {turns} runs of each stream after a short one that warms up",
    differs=ATTRIBUTE_RANGE,
    panels=[Panel(load, "k", "s") for load in LOADS],
    scales={scale: parameters | {"turns": turns} for (scale, parameters), turns in
            zip(MODE_SCALES.items(), (1, 3, 5), strict=True)},
    seconds={"quick": 20, "full": 150},
    run=figure_8,
)  # fmt: skip

FIGURE_9 = Experiment(
    paper="shen",
    name="figure-9",
    title="Queries of unsubscribes by reporting mode",
    section="V-B",
    published="60,000 commands, dimension 10, p = 5 % and 40 %",
    setting="{commands:,} commands, dimension 10",
    differs=ATTRIBUTE_RANGE,
    panels=[Panel("calls", "k", "calls of cov_k"), Panel("Lemma 1", "k", "q_u / unsubscribes"),
            Panel("Theorem 1", "k", "cost_1 / cost_k")],
    scales=MODE_SCALES,
    seconds={"quick": 6, "full": 40},
    notes=["Lemma 1: E[q_u] <= n_u for G_1", "Theorem 1: E[cost_1] <= 2 cost_k for every k"],
    run=figure_9,
)  # fmt: skip

BATCHES = Experiment(
    paper="shen",
    name="batches",
    title="Covering in batches, and an audit",
    section="II",
    published="the paper asks one question at a time",
    setting="{queries:,} questions for all covering ones among {members:,} rectangles, in one call (blocks) or one by "
    "one; an audit of {audited:,} subscriptions of five attributes",
    differs="Rectangles are random, of widths up to 50 to 70 % of the domain. An audit finds duplicates and covered "
    "subscriptions; it is run once.",
    panels=[Panel("who covers it", "dimension", "µs per question", log_y=True),
            Panel("audit", "subscriptions", "s", "table")],
    scales={"tiny": {"members": 500, "queries": 20, "audited": 300},
            "quick": {"members": 16_384, "queries": 500, "audited": 20_000},
            "full": {"members": 131_072, "queries": 1_000, "audited": 100_000}},
    seconds={"quick": 10, "full": 40},
    run=batches,
)  # fmt: skip

EXPERIMENTS = [
    mode_table(1, "p = 5 %", TABLE_1, "Heavy load: the paper's caption says light by mistake. "),
    mode_table(2, "p = 40 %", TABLE_2, ""),
    FIGURE_8,
    FIGURE_9,
    time_figure(10, 6, {"quick": 8, "full": 60}),
    time_figure(11, 12, {"quick": 15, "full": 200}),
    time_figure(12, 16, {"quick": 25, "full": 350}),
    BATCHES,
]
