"""Beyond the paper's figures: what adaptation gains (section V-B), and what growing clause by clause costs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from earmark.index.be_star_tree import BEStarTree
from earmark.report.bench import Bench
from earmark.report.experiment import Experiment, Panel
from earmark.report.papers.be_star.contenders import (
    BE,
    BE_BULK,
    BE_STAR,
    BE_STAR_BULK,
    DATA,
    DISTRIBUTIONS,
    Race,
    Way,
    built,
    drawn,
    drawn_strings,
    events_of,
)
from earmark.report.protocol import clocked
from earmark.workload.shifting import SHIFTS
from earmark.workload.standard import Workload

UNADAPTED, ADAPTED, REBUILT = "unadapted", "adapted", "rebuilt"
MATCHING, ADAPTING = "matching", "adapting"


def _events(workload: Workload, first: int, last: int | None) -> Workload:
    """Return the workload with some of its events."""
    return workload._replace(event_attr=workload.event_attr[first:last], event_value=workload.event_value[first:last])


def adaptation(bench: Bench) -> Iterator[None]:
    """A tree that follows the events of a first phase meets those of a second: as it is, adapted, and rebuilt."""
    window = bench["window"]
    for name, draw in SHIFTS.items():
        before, after = draw(bench["n"], window + events_of(bench), bench.seed)
        table, seen = after.table(), _events(after, 0, window).events()
        tree = BEStarTree.build(table)
        tree.adapt(before.events(), window)
        adapted, outlook = tree.copy(), tree.outlook(seen)
        seconds, found = clocked(partial(adapted.adapt, seen), "thread")
        counts = {
            "share inserted again": found.recycled / bench["n"],
            "clauses clustered again": found.clustered,
            "share in lossy leaves": outlook.lossy / bench["n"],
            "events that visit their leaf, %": 100 * outlook.here,
            "events that would elsewhere, %": 100 * outlook.elsewhere,
            "share with a better place": outlook.better / bench["n"],
        }
        bench.record(ADAPTING, ADAPTED, name, [seconds], counts)
        seconds, rebuilt = clocked(partial(tree.build_learned, table, adapted), "thread")
        bench.record(ADAPTING, REBUILT, name, [seconds])
        ways = {UNADAPTED: Way(tree), ADAPTED: Way(adapted), REBUILT: Way(rebuilt)}
        Race(bench, _events(after, window, None), table).run(MATCHING, name, ways)
        yield


def dynamic(bench: Bench) -> Iterator[None]:
    """Trees that grew clause by clause, and the same clauses in bulk."""
    for data in DATA:
        size = bench["sizes"][data]
        workload = drawn(bench, data, subscriptions=size) if data in DISTRIBUTIONS else drawn_strings(bench, data, size)
        table = workload.table()
        trees = built((BE_STAR, BE_STAR_BULK, BE, BE_BULK), table)
        Race(bench, workload, table).run(MATCHING, data, {name: Way(tree) for name, tree in trees.items()})
        yield


ADAPTATION = Experiment(
    paper="be-star",
    name="adaptation",
    title="Adapting to events whose distribution shifts",
    section="V-B",
    published="the paper describes adaptation and does not measure it",
    setting="{n:,} subscriptions; the tree has adapted to {window:,} events of a first phase, then to {window:,} of a "
    "second, and is measured with {turns} × {events} further events of the second",
    differs="Rebuilt is a bulk build with what the adapted tree had learned. src/earmark/workload/shifting.py says how "
    "events shift.",
    panels=[
        Panel(MATCHING, "what shifts", "µs per event", "bars", log_y=True),
        Panel(ADAPTING, "what shifts", "seconds", "bars"),
    ],
    scales={
        "tiny": {"n": 400, "window": 30, "turns": 2, "events": 10, "scan_events": 5},
        "quick": {"n": 50_000, "window": 1_000, "turns": 5, "events": 1_000, "scan_events": 50},
        "full": {"n": 500_000, "window": 1_000, "turns": 7, "events": 1_000, "scan_events": 50},
    },
    seconds={"quick": 40, "full": 300},
    run=adaptation,
)

DYNAMIC = Experiment(
    paper="be-star",
    name="dynamic",
    title="Trees that grew clause by clause against bulk builds",
    section="VII-A",
    published="the paper has both forms, BE* and BE*-B, and prints no ratio",
    setting="{described}; {turns} × {events} events",
    differs="The paper's data sets, as in Table II(b).",
    panels=[Panel(MATCHING, "data set", "µs per event", "bars", log_y=True)],
    scales={
        "tiny": {
            "turns": 2, "events": 10, "scan_events": 5, "described": "a few hundred subscriptions",
            "sizes": dict.fromkeys(DATA, 300),
        },
        "quick": {
            "turns": 5, "events": 1_000, "scan_events": 50, "described": "100,000 subscriptions, 25,000 titles",
            "sizes": dict.fromkeys(DATA, 100_000) | {"title": 25_000},
        },
        "full": {
            "turns": 7, "events": 1_000, "scan_events": 50, "described": "1,000,000 subscriptions, 760,000 authors and "
            "250,000 titles",
            "sizes": dict.fromkeys(DATA, 1_000_000) | {"author": 760_000, "title": 250_000},
        },
    },
    seconds={"quick": 40, "full": 400},
    run=dynamic,
)  # fmt: skip

EXPERIMENTS = [ADAPTATION, DYNAMIC]
