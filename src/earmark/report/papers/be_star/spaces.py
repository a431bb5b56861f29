"""Figures 6 and 7: what the space is like. All matches, on uniform and on Zipf's attributes."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from earmark.flat import bits
from earmark.report.bench import Bench
from earmark.report.experiment import Experiment, Panel, Printed
from earmark.report.papers.be_star.contenders import (
    BE,
    BE_BULK,
    BE_STAR,
    BE_STAR_BULK,
    BUILDERS,
    CONJUNCTION,
    DISTRIBUTIONS,
    K_INDEX,
    SCAN,
    UNIFORM,
    ZIPF,
    Race,
    Way,
    built,
    drawn,
    saved,
)
from earmark.report.rivals.enumerated import POSTING_BYTES, Enumerated, postings_of
from earmark.workload.begen import Setting, generate
from earmark.workload.standard import Workload

MATCHERS = (BE_STAR, BE, BE_STAR_BULK, BE_BULK, K_INDEX, CONJUNCTION)
ENUMERATING = "k-index, enumerating"
AVERAGE, NEXT_BEST, OVER_BE = "saved on average", "most saved over the next best", "most saved over BE"
BY_CARDINALITY, BY_SIZE = "memory by cardinality", "memory by subscription size"
CARDINALITIES = (2_500, 25_000, 250_000, 2_500_000, 25_000_000, 250_000_000)
SHARE = 12 / 2_500
"""A range's greatest length as a share of its domain, where that is kept constant."""
MIB = 2**20

Medians = dict[str, float]


def point(bench: Bench, panel: str, x: Any, workload: Workload) -> Medians:
    """Race all structures for all matches on one workload."""
    table = workload.table()
    ways = {name: Way(index) for name, index in built(MATCHERS, table).items()}
    return Race(bench, workload, table).run(panel, x, ways)


def right(medians: Medians) -> bool:
    """Whether every answer was right."""
    return all(value == value for value in medians.values())


def average(bench: Bench, distribution: str, points: list[Medians]) -> None:
    """Record how much of each rival's time BE* saves: the geometric mean of the ratios over all points."""
    points = [medians for medians in points if right(medians)]
    for name, rival in ((BE_STAR, K_INDEX), (BE_STAR, CONJUNCTION), (BE_STAR, BE), (BE_STAR_BULK, BE_BULK)):
        if points:
            ratio = statistics.geometric_mean([medians[name] / medians[rival] for medians in points])
            bench.record(AVERAGE, distribution, f"{name} over {rival}", [saved(ratio, 1)], {"points": len(points)})


# --- Figure 6 -------------------------------------------------------------------------------------------------------


def figure_6(bench: Bench) -> Iterator[None]:
    """Cardinality, dimensions and sizes of subscriptions; then memory."""
    for distribution in DISTRIBUTIONS:
        by_cardinality, others = [], []
        for cardinality in bench["cardinalities"]:
            workload = drawn(bench, distribution, cardinality=cardinality)
            by_cardinality.append(point(bench, f"cardinality, {distribution}", cardinality, workload))
            yield
        for dimensions in bench["dimensions"]:
            workload = drawn(bench, distribution, dimensions=dimensions, subscriptions=bench["large"])
            others.append(point(bench, f"dimensions, {distribution}", dimensions, workload))
            yield
        for size, event_size in bench["predicates"]:
            workload = drawn(bench, distribution, subscription_size=size, event_size=event_size)
            others.append(point(bench, f"subscription size, {distribution}", size, workload))
            yield
        average(bench, distribution, [*by_cardinality, *others])
        rivals = (K_INDEX, BE, SCAN)
        most = [saved(one[BE_STAR], min(one[rival] for rival in rivals)) for one in by_cardinality if right(one)]
        if most:
            bench.record(NEXT_BEST, BE_STAR, distribution, [max(most)])
    yield from memory(bench)


def memory(bench: Bench) -> Iterator[None]:
    """Memory of structures when ranges are a constant share of a growing domain, and by subscription size."""
    n = bench["enumerated"]
    for cardinality in bench["memory_cardinalities"]:
        longest = round(SHARE * cardinality)
        setting = Setting(
            subscriptions=n, events=8, cardinality=cardinality, range_size=longest, clusters=None,
            match_probability=0.0, seed=bench.seed,
        )  # fmt: skip
        held(bench, BY_CARDINALITY, cardinality, generate(setting))
        yield
    for size, event_size in bench["predicates"]:
        setting = Setting(
            subscriptions=n, events=8, subscription_size=size, event_size=event_size, match_probability=0.01,
            seed=bench.seed,
        )  # fmt: skip
        held(bench, BY_SIZE, size, generate(setting))
        yield


def held(bench: Bench, panel: str, x: int, workload: Workload) -> None:
    """Record the memory of each structure; an enumerating index beyond a number of postings is only counted."""
    table = workload.table()
    for name in (BE_STAR, BE, K_INDEX):
        bench.record(panel, name, x, [BUILDERS[name](table).nbytes / MIB], {"predicates": len(table.attr)})
    postings = postings_of(workload)
    counts = {"predicates": len(table.attr), "postings": postings, "postings per predicate": postings / len(table.attr)}
    if postings > bench["most_postings"]:
        note = "not built: 4 bytes for each posting that it would have"
        bench.record(panel, ENUMERATING, x, [POSTING_BYTES * postings / MIB], counts, note=note)
        return
    index = Enumerated.build(workload)
    if wrong := disagreements(index, workload):
        bench.record(panel, ENUMERATING, x, [], counts, "wrong", f"{wrong} events have other matches than the scan's")
        return
    bench.record(panel, ENUMERATING, x, [index.nbytes / MIB], counts)


def disagreements(index: Enumerated, workload: Workload) -> int:
    """Return how many events the enumerating index answers unlike the scan."""
    eligible = bits.all_set(len(workload.sub_attr))
    start, slots = BUILDERS[SCAN](workload.table()).match_many(workload.events(), eligible)
    events = zip(workload.event_attr, workload.event_value, strict=True)
    return sum(
        index.match(attr, value).tolist() != slots[start[e] : start[e + 1]].tolist()
        for e, (attr, value) in enumerate(events)
    )


def lines(name: str, x: str, log_x: bool = False) -> list[Panel]:
    """Return the panels of a parameter on both distributions."""
    return [Panel(f"{name}, {which}", x, "µs per event", log_x=log_x, log_y=True) for which in DISTRIBUTIONS]


DEFAULTS = (
    "400 dimensions, cardinality 250M, 4 clusters of size 100, 8 predicates, 15 values, matching probability 0.1 %"
)
TURNS = "{turns} × {events} events after a warm-up of {events}; SCAN {scan_events}"
LIKE = (
    "BE* and BE grow clause by clause, and their bulk forms are compared with each other. k-index counts; beside it is "
    "the conjunction algorithm, which is what the paper measured."
)

FIGURE_6 = Experiment(
    paper="be-star",
    name="figure-6",
    title="Dimension cardinality, dimensions, sizes, and memory",
    section="VII-C",
    published=f"BEGen, 100,000 subscriptions (1,000,000 for dimensions) unless varied: {DEFAULTS}; uniform and Zipf",
    setting="BEGen, {n:,} subscriptions ({large:,} for dimensions), the same parameters; " + TURNS + "; memory with "
    "{enumerated:,} subscriptions, where an enumerating k-index beyond {most_postings:,} postings is not built",
    differs=f"{LIKE} BEGen is ours, and the exponent of Zipf is 1; the paper does not print its own.",
    panels=[
        *lines("cardinality", "values of a dimension", log_x=True),
        *lines("dimensions", "dimensions"),
        *lines("subscription size", "predicates of a subscription"),
        Panel(AVERAGE, "comparison", "% of the time", "bars"),
        Panel(NEXT_BEST, "attributes", "% of the time", "bars"),
        Panel(BY_CARDINALITY, "values of a dimension", "MiB", log_x=True, log_y=True),
        Panel(BY_SIZE, "predicates of a subscription", "MiB", log_y=True),
    ],
    scales={
        "tiny": {
            "n": 300, "large": 300, "turns": 2, "events": 10, "scan_events": 5, "cardinalities": (2_500, 250_000_000),
            "dimensions": (50,), "predicates": ((5, 13),), "enumerated": 60, "memory_cardinalities": (2_500, 25_000),
            "most_postings": 20_000,
        },
        "quick": {
            "n": 20_000, "large": 50_000, "turns": 3, "events": 1_000, "scan_events": 100,
            "cardinalities": (2_500, 250_000, 250_000_000), "dimensions": (50, 400, 1_400),
            "predicates": ((5, 13), (20, 34), (66, 81)), "enumerated": 1_000, "memory_cardinalities": CARDINALITIES,
            "most_postings": 5_000_000,
        },
        "full": {
            "n": 100_000, "large": 1_000_000, "turns": 7, "events": 1_000, "scan_events": 100,
            "cardinalities": CARDINALITIES[::2] + CARDINALITIES[-1:], "dimensions": (50, 400, 1_400),
            "predicates": ((5, 13), (20, 34), (40, 54), (66, 81)), "enumerated": 4_000,
            "memory_cardinalities": CARDINALITIES, "most_postings": 20_000_000,
        },
    },
    seconds={"quick": 50, "full": 420},
    printed=[
        *(Printed(AVERAGE, UNIFORM, f"{BE_STAR} over {name}", 60.0) for name in (K_INDEX, CONJUNCTION)),
        *(Printed(AVERAGE, ZIPF, f"{BE_STAR} over {name}", 90.0) for name in (K_INDEX, CONJUNCTION)),
        Printed(AVERAGE, UNIFORM, f"{BE_STAR} over {BE}", 35.0),
        Printed(AVERAGE, ZIPF, f"{BE_STAR} over {BE}", 65.0),
        Printed(NEXT_BEST, BE_STAR, ZIPF, 65.0),
    ],
    notes=["with the cardinality BE takes 1.29 (uniform) and 1.36 times (Zipf) as long, BE* remains almost unaffected"],
    run=figure_6,
)  # fmt: skip


# --- Figure 7 -------------------------------------------------------------------------------------------------------


def figure_7(bench: Bench) -> Iterator[None]:
    """The number of clusters, and their size."""
    for distribution in DISTRIBUTIONS:
        by_clusters: dict[str, Medians] = {}
        others = []
        for clusters in bench["clusters"]:
            label = "N/A" if clusters is None else f"{clusters}"
            workload = drawn(bench, distribution, clusters=clusters)
            by_clusters[label] = point(bench, f"clusters, {distribution}", label, workload)
            yield
        for size in bench["cluster_sizes"]:
            workload = drawn(bench, distribution, cluster_size=size)
            others.append(point(bench, f"cluster size, {distribution}", size, workload))
            yield
        average(bench, distribution, [*by_clusters.values(), *others])
        for what, points in (
            ("clustered", [*(one for label, one in by_clusters.items() if label != "N/A"), *others]),
            ("not clustered", [by_clusters["N/A"]]),
        ):
            most = [saved(one[BE_STAR], one[BE]) for one in points if right(one)]
            if most:
                bench.record(OVER_BE, distribution, what, [max(most)])


FIGURE_7 = Experiment(
    paper="be-star",
    name="figure-7",
    title="Number and size of clusters",
    section="VII-C",
    published=f"BEGen, 100,000 subscriptions, unless varied: {DEFAULTS}; uniform and Zipf",
    setting="BEGen, {n:,} subscriptions, the same parameters; " + TURNS,
    differs=LIKE,
    panels=[
        *[Panel(f"clusters, {name}", "clusters", "µs per event", "bars", log_y=True) for name in DISTRIBUTIONS],
        *lines("cluster size", "cluster size", log_x=True),
        Panel(AVERAGE, "comparison", "% of the time", "bars"),
        Panel(OVER_BE, "values", "% of the time", "bars"),
    ],
    scales={
        "tiny": {
            "n": 300, "turns": 2, "events": 10, "scan_events": 5, "clusters": (2, None), "cluster_sizes": (25,),
        },
        "quick": {
            "n": 20_000, "turns": 3, "events": 1_000, "scan_events": 100, "clusters": (2, 10, None),
            "cluster_sizes": (25, 100, 800),
        },
        "full": {
            "n": 100_000, "turns": 7, "events": 1_000, "scan_events": 100, "clusters": (2, 4, 10, 18, 26, None),
            "cluster_sizes": (25, 50, 100, 200, 400, 800),
        },
    },
    seconds={"quick": 25, "full": 180},
    printed=[Printed(OVER_BE, ZIPF, "clustered", 77.0), Printed(OVER_BE, ZIPF, "not clustered", 65.0)],
    notes=[
        "Zipf: k-index takes 20.84 times as long with two clusters as with none, and 17.44 times as long with clusters "
        "of size 25 as with 800"
    ],
    run=figure_7,
)  # fmt: skip

EXPERIMENTS = [FIGURE_6, FIGURE_7]
