"""The structures that the experiments compare, their data, and how they are raced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.index.be_star_tree import CAPACITIES, LEAF_FACTOR, BEStarTree
from earmark.index.be_star_tree.be_tree import BETree
from earmark.index.k_index import KIndex
from earmark.index.scan import Scan
from earmark.report.answers import some_events
from earmark.report.bench import Bench
from earmark.segment.arrays import SegmentArrays
from earmark.workload.begen import Setting, generate
from earmark.workload.standard import Workload
from earmark.workload.text import CARDINALITY, DIMENSIONS, Text, from_strings, standard_library, with_probability

BE_STAR, BE, BE_STAR_BULK, BE_BULK = "BE*", "BE", "BE*, bulk", "BE, bulk"
K_INDEX, CONJUNCTION, SCAN = "k-index", "k-index, conjunction", "SCAN"
UNIFORM, ZIPF, AUTHOR, TITLE = "uniform", "Zipf", "author", "title"
DISTRIBUTIONS = {UNIFORM: 0.0, ZIPF: 1.0}
"""Exponents: attribute i is drawn with odds (i + 1) ** -exponent."""
DATA = (UNIFORM, ZIPF, AUTHOR, TITLE)
COUNTED = ("nodes", "leaves", "candidates", "compared", "pruned")
TEXT_SIZES = {AUTHOR: (8, 16), TITLE: (30, 43)}
"""Average sizes of subscriptions and events in the columns "Match Prob" of author and title."""

BUILDERS: dict[str, Callable[..., Any]] = {
    BE_STAR: lambda table, **options: BEStarTree.build(table, bulk=False, **options),
    BE: lambda table, **options: BETree.build(table, bulk=False, **options),
    BE_STAR_BULK: BEStarTree.build,
    BE_BULK: BETree.build,
    K_INDEX: lambda table: KIndex.build(table, merge="counting"),
    CONJUNCTION: lambda table: KIndex.build(table, merge="conjunction"),
    SCAN: Scan.build,
}


def built(names: tuple[str, ...], table: SegmentArrays, **options: Any) -> dict[str, Any]:
    """Build structures by name; options are those of the trees."""
    trees = (BE_STAR, BE, BE_STAR_BULK, BE_BULK)
    return {name: BUILDERS[name](table, **(options if name in trees else {})) for name in names}


def capacity_of(probability: float, factor: int = LEAF_FACTOR) -> int:
    """Return the leaf capacity of Table II(a) for a matching probability, times ours; factor 1 is as printed."""
    return factor * next(size for bound, size in CAPACITIES if probability < bound)


# --- data -----------------------------------------------------------------------------------------------------------


def events_of(bench: Bench) -> int:
    """Return the number of events for the warm-up and all turns."""
    return int((bench["turns"] + 1) * bench["events"])


def drawn(bench: Bench, distribution: str, **changes: Any) -> Workload:
    """Draw from BEGen: the default parameters of Table III but for `changes`."""
    size = changes.pop("subscriptions", 0) or bench["n"]
    setting = Setting(size, events_of(bench), exponent=DISTRIBUTIONS[distribution], seed=bench.seed)
    return generate(replace(setting, **changes))


def text_of(bench: Bench) -> Text:
    """Return the text of author and title data; at tiny scale only a part of it."""
    text = standard_library(20 if bench.scale == "tiny" else None)
    bench.drawn_from["text"] = f"the standard library of this Python: {text.describe()}"
    return text


def drawn_strings(bench: Bench, kind: str, subscriptions: int) -> Workload:
    """Draw the author or title data without a matching probability."""
    return from_strings(text_of(bench), kind, subscriptions, events_of(bench), seed=bench.seed)


def drawn_with(bench: Bench, data: str, subscriptions: int, probability: float) -> Workload:
    """Draw any of the four data sets with a matching probability."""
    if data in DISTRIBUTIONS:
        return drawn(bench, data, subscriptions=subscriptions, match_probability=probability)
    size, event_size = TEXT_SIZES[data]
    setting = Setting(
        subscriptions=subscriptions, events=events_of(bench), dimensions=DIMENSIONS, cardinality=CARDINALITY,
        subscription_size=size, event_size=event_size, match_probability=probability, seed=bench.seed,
    )  # fmt: skip
    return with_probability(text_of(bench), data, setting)


# --- races ----------------------------------------------------------------------------------------------------------


class Way(NamedTuple):
    """A search: for all matches (k = 0), or for the k best."""

    index: Any
    k: int = 0


Found = tuple[Any, ...]
"""Of a batch: where the answers to each event begin, their slots and, of the best, their scores."""


class Race:
    """Events in batches, one for each turn, and what the scan answers to them."""

    def __init__(self, bench: Bench, workload: Workload, table: SegmentArrays) -> None:
        size = bench["events"]
        self.bench = bench
        self.batches = [some_events(workload, i, i + size) for i in range(0, len(workload.event_attr), size)]
        few = min(size, bench["scan_events"])
        self.few = [some_events(workload, i, i + few) for i in range(0, len(workload.event_attr), size)]
        self.eligible = bits.all_set(len(workload.sub_attr))
        self.scan = Scan.build(table)
        self._expected: dict[tuple[int, int], Found] = {}

    def search(self, way: Way, events: EventArrays) -> Found:
        """Answer a batch."""
        if way.k:
            return tuple(way.index.top_k_many(events, way.k, self.eligible))
        return tuple(way.index.match_many(events, self.eligible))

    def expected(self, call: int, k: int) -> Found:
        """Return what the scan answers to a batch."""
        if (call, k) not in self._expected:
            self._expected[call, k] = self.search(Way(self.scan, k), self.batches[call])
        return self._expected[call, k]

    def run(self, panel: str, x: Any, ways: Mapping[str, Way]) -> dict[str, float]:
        """Time all ways and the scan, which gets fewer events; every answer is compared with the scan's.

        Counts are those of the last turn, per event.
        """
        bench, size = self.bench, self.bench["events"]
        few = min(size, bench["scan_events"])
        counts: dict[str, dict[str, float]] = {}

        def check(name: str, call: int, answer: Found) -> str:
            if name == SCAN:
                counts[name] = per_event(self.scan, few)
                return ""
            way = ways[name]
            counts[name] = per_event(way.index, size)
            expected = self.expected(call, way.k)
            counts[name]["results per event"] = len(expected[1]) / size
            return difference(answer, expected)

        runs: dict[str, Callable[[int], Found]] = {
            name: lambda call, way=way: self.search(way, self.batches[call])  # type: ignore[misc]
            for name, way in ways.items()
        }
        runs[SCAN] = lambda call: self.search(Way(self.scan), self.few[call])
        per = dict.fromkeys(ways, float(size)) | {SCAN: float(few)}
        return bench.race(panel, x, runs, per=per, turns=bench["turns"], check=check, counts=counts)


def per_event(index: Any, events: int) -> dict[str, float]:
    """Return what the last call of an index did, for each of its events."""
    return {f"{what} per event": getattr(index.work, what) / events for what in COUNTED}


def difference(answer: Found, expected: Found) -> str:
    """Return how the answers to a batch differ from the scan's, or ""."""
    if len(answer) != len(expected):
        return "there are no scores, or too many arrays"
    for name, got, wanted in zip(("numbers of answers", "slots", "scores"), answer, expected, strict=False):
        if not np.array_equal(got, wanted):
            return f"the {name} differ from the scan's"
    return ""


def saved(less: float, more: float) -> float:
    """Return by how many per cent one time is below another."""
    return 100 * (1 - less / more)
