"""MICS, beyond the paper's figures: exact decisions, other covering indexes, merging on a budget, cells, matchers.

Every answer is compared with that of a scan of all subscriptions. Merging has none: its cost on events that were held
back is what is measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from earmark.cover import builder
from earmark.cover.exact import Verdict, clauses_that_meet, decide
from earmark.cover.indexes.mics import Mics
from earmark.cover.merging.merge import merge_segment
from earmark.cover.ranges.projection import Projection
from earmark.flat import bits
from earmark.flat.arrays import I64
from earmark.index.be_star_tree import BEStarTree
from earmark.index.mics import MicsIndex
from earmark.index.scan import Scan
from earmark.index.vcr import VcrIndex
from earmark.report.answers import Answer, some_events
from earmark.report.bench import Bench
from earmark.report.experiment import Experiment, Panel
from earmark.report.papers.mics.data import DIMENSIONS, DISTRIBUTIONS, ZIPF, Boxes
from earmark.report.papers.mics.tables import INDEXED, wanted
from earmark.report.protocol import clocked
from earmark.segment.arrays import SegmentArrays
from earmark.workload.mics import CELLS, mics
from earmark.workload.rectangles import table_of
from earmark.workload.standard import WORKLOADS, Workload

SCAN, INDEX = "scan", "index"
COUNTED = ("nodes", "candidates", "compared")
COVERING = ("linear", "kd_tree", "z_curve", "blocks", "mics")
COVERED = ("linear", "mics")
WIDEST = 32
GRAIN, FINE_GRAIN = 16, 64
"""Values of a cell, where the ends of subscriptions are inside cells."""
MATCHERS: dict[str, Any] = {"scan": Scan, "BE*-Tree": BEStarTree, "VCR": VcrIndex, "MICS": MicsIndex}
MIB = 2**20


def data_of(distribution: str, dimensions: int) -> str:
    """Return the name of a row."""
    return f"{distribution}, {dimensions}-d"


def spread_out(count: int, asked: int) -> list[int]:
    """Return the slots that are asked about."""
    return np.linspace(0, count - 1, asked, dtype=np.int64).tolist()  # type: ignore[no-any-return]


# --- exact subsumption ----------------------------------------------------------------------------------------------


def exact_subsumption(bench: Bench) -> Iterator[None]:
    """Verdicts on conditions instead of cells, with candidates from a scan and from Subscription Indexing."""
    for size in bench["sizes"]:
        for distribution in DISTRIBUTIONS:
            for dimensions in DIMENSIONS:
                workload = mics(
                    distribution, size, 1, attributes=dimensions, sizes=4, grain=GRAIN, seed=bench.seed
                )  # fmt: skip
                _decided(bench, f"{size:,} {data_of(distribution, dimensions)}", workload.table())
                yield


def _decided(bench: Bench, place: str, table: SegmentArrays) -> None:
    """Record candidates, verdicts, and the time of both."""
    slots = spread_out(len(table.sequence), bench["asked"])
    everyone = np.arange(len(table.sequence), dtype=np.int64)
    seconds, index = clocked(partial(Mics.build, table), "thread")

    def scanned(slot: int) -> I64:
        return clauses_that_meet(table, int(table.clause_start[slot]), everyone)[0]

    def found(slot: int) -> I64:
        return index.meeting(slot).astype(np.int64)

    meeting = [scanned(slot).tolist() for slot in slots]
    expected = [decide(table, slot, everyone) for slot in slots]
    candidates = sum(len(found(slot)) for slot in slots) / len(slots)

    def missing(name: str, call: int, answer: list[I64]) -> str:
        lost = sum(len(set(met) - set(got.tolist())) for met, got in zip(meeting, answer, strict=True))
        return f"{lost} that meet are not among the candidates" if lost else ""

    def differing(name: str, call: int, answer: list[Any]) -> str:
        return "" if answer == expected else "the verdicts are not those of the scan"

    finding: dict[str, Callable[[int], Any]] = {
        SCAN: lambda call: [scanned(slot) for slot in slots],
        INDEX: lambda call: [found(slot) for slot in slots],
    }
    deciding: dict[str, Callable[[int], Any]] = {
        SCAN: lambda call: [decide(table, slot, everyone) for slot in slots],
        INDEX: lambda call: [decide(table, slot, found(slot)) for slot in slots],
    }
    counts: dict[str, dict[str, float]] = {
        INDEX: {"candidates": candidates, "seconds to build": seconds},
        SCAN: {"candidates": len(everyone)},
    }
    bench.race("finding candidates", place, finding, per=len(slots), check=missing, counts=counts)
    bench.race("deciding", place, deciding, per=len(slots), check=differing, counts=counts)
    bench.record("candidates", INDEX, place, [candidates])
    bench.record("candidates", "that meet", place, [sum(map(len, meeting)) / len(slots)])
    verdicts = Counter(one.verdict for one in expected)
    for verdict in (Verdict.COVERED, Verdict.SUBSUMED, Verdict.NEEDED, Verdict.UNDECIDED):
        bench.record("verdicts", str(verdict), place, [100 * verdicts[verdict] / len(slots)])


EXACT = Experiment(
    paper="mics",
    name="exact-subsumption",
    title="Exact decisions with Subscription Indexing",
    section="3.7",
    published="the paper decides by cells; section 5 says that Subscription Indexing serves subsumption, too",
    setting="{asked} questions, one by one, among {sizes} subscriptions of size 4, whose ends are inside cells",
    differs=f"{ZIPF} *scan*: all subscriptions are candidates. *index*: those that Subscription Indexing finds, of "
    "which the ones that meet the subscription are decisive.",
    panels=[
        Panel("candidates", "subscriptions", "subscriptions", "table"),
        Panel("finding candidates", "subscriptions", "µs per question", "table"),
        Panel("deciding", "subscriptions", "µs per question", "table"),
        Panel("verdicts", "subscriptions", "% of the questions", "table"),
    ],
    scales={
        "tiny": {"sizes": (300,), "asked": 10},
        "quick": {"sizes": (5_000,), "asked": 50},
        "full": {"sizes": (20_000, 100_000), "asked": 200},
    },
    seconds={"quick": 5, "full": 60},
    run=exact_subsumption,
)


# --- who covers it, and whom it covers ------------------------------------------------------------------------------


def covering_index(bench: Bench) -> Iterator[None]:
    """Subscription Indexing beside the indexes that were made for covering."""
    count, random = bench["n"], np.random.default_rng(bench.seed)
    for distribution in DISTRIBUTIONS:
        for dimensions in DIMENSIONS:
            low = Boxes.drawn(distribution, count, dimensions, 1, bench.seed).low
            high = np.minimum(low + random.integers(1, WIDEST, low.shape), CELLS - 1)
            _questions(bench, data_of(distribution, dimensions), Boxes(low, high))
            yield


def _questions(bench: Bench, place: str, boxes: Boxes) -> None:
    """Time both questions about some of these boxes."""
    table, scan, slots = table_of(*boxes), boxes.scan(), spread_out(len(boxes.low), bench["asked"])
    indexes = {name: builder(name)(table) for name in COVERING}
    above, below = ([ask(slot).tolist() for slot in slots] for ask in (scan.covering, scan.covered))
    counts: dict[str, dict[str, float]] = {}

    def covering(name: str, call: int, answer: Any) -> str:
        spent = [one / len(slots) / (call + 1) for one in indexes[name].costs[0]]
        counts[name] = dict(zip(("nodes per question", "point comparisons per question"), spent, strict=True))
        return _differing(above, answer)

    asking = {name: partial(_each, indexes[name].covering, slots) for name in COVERING}
    bench.race("who covers it", place, asking, per=len(slots), check=covering, counts=counts)
    met = {name: sum(len(indexes[name].meeting(slot)) for slot in slots) / len(slots) for name in COVERED}
    bench.race(
        "whom it covers",
        place,
        {name: partial(_each, indexes[name].covered, slots) for name in COVERED},
        per=len(slots),
        check=lambda name, call, answer: _differing(below, answer),
        counts={name: {"candidates per question": candidates} for name, candidates in met.items()},
    )


def _differing(expected: list[list[int]], answer: list[Any]) -> str:
    return "" if expected == [sorted(one.tolist()) for one in answer] else "answers differ from those of a scan"


def _each(ask: Callable[[int], Any], slots: list[int], call: int) -> list[Any]:
    """Ask about each slot; `call` plays no part."""
    return [ask(slot) for slot in slots]


COVER_INDEX = Experiment(
    paper="mics",
    name="covering-index",
    title="Subscription Indexing as a covering index",
    section="5",
    published="the paper does not compare its index with others that answer who covers a subscription",
    setting="{asked} questions, one by one, among {n:,} subscriptions of sizes 2 to 32",
    differs=f"{ZIPF} kd_tree, z_curve and blocks are those of Shen, Tirthapura and Aluru's page; linear looks at all.",
    panels=[
        Panel("who covers it", "data", "µs per question", "bars", log_y=True),
        Panel("whom it covers", "data", "µs per question", "bars", log_y=True),
    ],
    scales={
        "tiny": {"n": 300, "asked": 10},
        "quick": {"n": 5_000, "asked": 50},
        "full": {"n": 100_000, "asked": 200},
    },
    seconds={"quick": 5, "full": 60},
    run=covering_index,
)


# --- merging on a budget --------------------------------------------------------------------------------------------


def merging(bench: Bench) -> Iterator[None]:
    """Conditions left, and extra traffic, by the budget for extra traffic."""
    import pyarrow as pa

    from earmark import Matcher
    from earmark.events.frames import encode_many

    for distribution in DISTRIBUTIONS:
        made = mics(distribution, bench["n"], bench["events"], attributes=3, sizes=4, grain=GRAIN, seed=bench.seed)
        bounds = {
            f"a{j}_{end}": side[:, j] for j in range(3) for end, side in (("lo", made.sub_lo), ("hi", made.sub_hi))
        }
        matcher = Matcher(index="scan")
        matcher.add_many(pa.table({"id": np.arange(bench["n"]), **bounds}), progress=False)
        view = matcher._version.whole
        events = encode_many(view.schema, pa.table({f"a{j}": made.event_value[:, j] for j in range(3)}))
        for budget in bench["budgets"]:
            seconds, merged = clocked(partial(merge_segment, view, events, budget / 100), "thread")
            bench.record("conditions", distribution, budget, [len(merged)], {"seconds": seconds})
            for half, traffic in (("deciding", merged.decided), ("held back", merged.held_back)):
                bench.record("extra traffic", f"{distribution}, {half}", budget, [100 * traffic.share])
            yield


MERGING = Experiment(
    paper="mics",
    name="merging",
    title="Merging on a budget",
    section="3.6",
    published="the paper has a threshold on the length of a gap, and does not measure merging",
    setting="{n:,} subscriptions of size 4 in three dimensions, whose ends are inside cells; {events:,} events, of "
    "which half are held back",
    differs=f"{ZIPF} The budget is a share of extra traffic; what is merged is decided on one half of the events and "
    "measured on the other.",
    panels=[
        Panel("conditions", "budget, %", "conditions", "table"),
        Panel("extra traffic", "budget, %", "% of what is wanted", "table"),
    ],
    scales={
        "tiny": {"n": 300, "events": 600, "budgets": (0, 20)},
        "quick": {"n": 5_000, "events": 12_000, "budgets": (0, 2, 20)},
        "full": {"n": 100_000, "events": 60_000, "budgets": (0, 2, 20)},
    },
    seconds={"quick": 5, "full": 30},
    run=merging,
)


# --- variable cells -------------------------------------------------------------------------------------------------


def variable_cells(bench: Bench) -> Iterator[None]:
    """Cells learned from past publications against as many of equal width."""
    publications = bench["publications"]
    for size in bench["sizes"]:
        both = mics("zipf", size, 2 * publications, attributes=3, grain=FINE_GRAIN, seed=bench.seed)
        past = some_events(both, 0, publications)
        workload = both._replace(event_attr=both.event_attr[publications:], event_value=both.event_value[publications:])
        table, events, every, right = workload.table(), workload.events(), bits.all_set(size), wanted(workload)
        for depth in bench["bits"]:
            place = f"{size:,}, {1 << depth} cells"
            for kind, learn in (("equal", None), ("learned", past)):
                sent = Projection.build(table, attributes=INDEXED, bits=depth, events=learn).sends(events)
                missed, vain = int((right & ~sent).sum()), int((sent & ~right).sum())
                wrong = f"{missed} wanted publications were not sent" if missed else ""
                share = [100 * vain / max(1, int(sent.sum()))]
                bench.record("in vain", kind, place, share, {"publications in vain": vain}, wrong=wrong)
                cells = "equal" if learn is None else "variable"
                index = MicsIndex.build(table, attributes=INDEXED, bits=depth, cells=cells, events=learn)
                matched = np.diff(index.match_many(events, every)[0]) > 0
                per_publication, lost = index.work.candidates / publications, int((matched != right).sum())
                wrong = f"{lost} publications are matched wrongly" if lost else ""
                bench.record("candidates", kind, place, [per_publication], wrong=wrong)
            yield


VARIABLE_CELLS = Experiment(
    paper="mics",
    name="variable-cells",
    title="Variable cells",
    section="6.3",
    published="the paper describes variable cells and does not measure them",
    setting="{publications:,} Zipf publications, as many past ones to learn from, {sizes} subscriptions of three "
    "attributes, 64 values per cell of 256",
    differs=f"{ZIPF} In vain: publications that are sent, of all that are. Candidates: of Subscription Indexing, for "
    "each publication.",
    panels=[
        Panel("in vain", "subscriptions, cells per axis", "% of what is sent", "table"),
        Panel("candidates", "subscriptions, cells per axis", "subscriptions per publication", "table"),
    ],
    scales={
        "tiny": {"sizes": (300,), "publications": 100, "bits": (4, 8)},
        "quick": {"sizes": (2_000,), "publications": 2_000, "bits": (4, 5, 6, 7, 8)},
        "full": {"sizes": (2_000, 20_000), "publications": 10_000, "bits": (4, 5, 6, 7, 8)},
    },
    seconds={"quick": 5, "full": 30},
    run=variable_cells,
)


# --- matchers -------------------------------------------------------------------------------------------------------


def matchers(bench: Bench) -> Iterator[None]:
    """Matching by four indexes, in a batch and one event at a time, and the memory of MICS."""
    count, batch, few = bench["n"], bench["events"], bench["single"]
    drawn: dict[str, Callable[[], Workload]] = {
        f"mics-{name}, 7 attributes": partial(mics, name, count, batch, seed=bench.seed) for name in DISTRIBUTIONS
    }
    drawn |= {
        "w2, 5 attributes": partial(WORKLOADS["w2"], subscriptions=count),
        "w1, 8 of 400 attributes": partial(WORKLOADS["w1"], subscriptions=count),
    }
    for name, draw in drawn.items():
        workload = draw()
        table, every = workload.table(), bits.all_set(count)
        events = some_events(workload, 0, batch)
        ones = [some_events(workload, i, i + 1) for i in range(few)]
        indexes = {what: kind.build(table) for what, kind in MATCHERS.items()}
        expected = Answer(*indexes["scan"].match_many(events, every))

        counts: dict[str, dict[str, float]] = {}

        def many(
            what: str, call: int, answer: Any, expected: Answer = expected, counts: Any = counts, indexes: Any = indexes
        ) -> str:
            counts[what] = per_event(indexes[what], batch)
            same = all(np.array_equal(got, right) for got, right in zip(answer, expected, strict=True))
            return "" if same else "matches differ from the scan's"

        def singly(what: str, call: int, answer: Any, expected: Answer = expected) -> str:
            right = expected.slots[: expected.start[few]]
            return "" if np.array_equal(np.concatenate(answer), right) else "matches differ from the scan's"

        in_batch = {what: partial(_matched, index, events, every) for what, index in indexes.items()}
        alone = {what: partial(_one_by_one, index, ones, every) for what, index in indexes.items()}
        bench.race("in a batch", name, in_batch, per=batch, check=many, counts=counts)
        bench.race("one event at a time", name, alone, per=few, check=singly)
        bench.record("memory", "MICS", name, [indexes["MICS"].nbytes / MIB])
        yield


def per_event(index: Any, events: int) -> dict[str, float]:
    """Return what the last call of an index did, for each of its events."""
    return {f"{what} per event": getattr(index.work, what) / events for what in COUNTED}


def _matched(index: Any, events: Any, eligible: Any, call: int) -> Any:
    """Match all events; `call` plays no part."""
    return index.match_many(events, eligible)


def _one_by_one(index: Any, ones: list[Any], eligible: Any, call: int) -> list[Any]:
    """Match each event in a call of its own; `call` plays no part."""
    return [index.match_many(one, eligible)[1] for one in ones]


MATCH = Experiment(
    paper="mics",
    name="matchers",
    title="MICS beside other indexes",
    section="5",
    published="the paper compares its index with a linear search only",
    setting="{n:,} subscriptions; {events:,} events in a call, or {single} in calls of their own",
    differs=f"{ZIPF} w1 and w2 are the workloads of the benchmarks.",
    panels=[
        Panel("in a batch", "data", "µs per event", "bars", log_y=True),
        Panel("one event at a time", "data", "µs per event", "bars", log_y=True),
        Panel("memory", "data", "MiB", "table"),
    ],
    scales={
        "tiny": {"n": 300, "events": 50, "single": 10},
        "quick": {"n": 20_000, "events": 1_000, "single": 100},
        "full": {"n": 100_000, "events": 1_000, "single": 100},
    },
    seconds={"quick": 20, "full": 60},
    run=matchers,
)

EXPERIMENTS = [EXACT, COVER_INDEX, MERGING, VARIABLE_CELLS, MATCH]
