"""Figures 6 to 9 and Table II(b) of the BE*-Tree paper, on data of our BEGen, beside what the paper printed.

    python benchmarks/be_star_figures.py [--quick] [--only cardinality,clusters] [--json FILE]

    Fig. 6   dimension cardinality, subscription and event size, number of dimensions     match all
    Fig. 7   number of clusters, cluster size                                             match all
    Fig. 8   workload size                                                                match all, top 1, top 5
    Fig. 9   matching probability                                                         match all, top 1, top 5
    II(b)    construction of 1M subscriptions, inserted one by one

Each on uniform attributes and on Zipf's (exponent 1), with weights N(0.8 inv, 0.05 inv) clipped to inv. BE* inserts
one by one, BE*-B builds in bulk; k-index is merged as published, and by counting beside it. Contenders take turns, and
every answer is the scan's, scores to the last bit. The columns of Table III are taken as they are printed, but for
fewer events (and, with `--quick`, fewer subscriptions and points); what was run stands above each table.

Bars (full size only): top 1 evaluates at least 20 % fewer predicates than match all on uniform attributes, 50 % fewer
on Zipf's, at matching probabilities of 0.1 to 9 %; BE* faster than BE-Tree and k-index on average over Figures 6 and 7.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from contenders import BULK, COUNTED, DYNAMIC, MERGED, RIGID, SCAN, Bars, Contender, all_eligible, median, race, unequal
from contenders import figures as as_figures
from earmark.report.protocol import QUICK_REPEATS, REPEATS, clocked
from earmark.workload.begen import Setting, generate
from results import Figure, Result
from run import listed
from tables import number, size_name

ZIPF = 1.0
DISTRIBUTIONS = {"uniform": 0.0, "Zipf": ZIPF}
MATCHERS = (DYNAMIC, BULK, RIGID, MERGED, COUNTED, SCAN)
RANKERS = (DYNAMIC, BULK, MERGED)
BEST = (1, 5)
PAPER_SAVING = {"k-index": {"uniform": 60, "Zipf": 90}, "BE": {"uniform": 35, "Zipf": 65}}
"""Per cent of the matching time that BE* saves on average (VII-C, Workload Distribution)."""
PAPER_CARDINALITY = {"uniform": 1.29, "Zipf": 1.36}
PAPER_CLUSTERS = {"clusters": 20.84, "cluster size": 17.44}
PAPER_TOP_1 = {"BE*": {"uniform": 23, "Zipf": 77}, "k-index": {"uniform": 1.3, "Zipf": 6.2}}
PAPER_SECONDS = {"uniform": 2.30, "Zipf": 2.45}
LEAST_SAVING = {"uniform": 20.0, "Zipf": 50.0}
JUDGED = (0.001, 0.09)


class Sweep(NamedTuple):
    """One column of Table III: a parameter, its values, and the figure."""

    name: str
    figure: str
    points: list[tuple[str, dict[str, Any]]]
    ranked: bool = False


def sweeps(size: int, quick: bool) -> list[Sweep]:
    """The columns; `size` stands for the 100K of the paper, and ten times that for its 1M."""

    def points(field: str, values: list[Any], **fixed: Any) -> list[tuple[str, dict[str, Any]]]:
        chosen = [values[0], values[-1]] if quick else values
        return [("N/A" if value is None else f"{value:,}", {field: value, **fixed}) for value in chosen]

    sizes = [(5, 13), (20, 34), (66, 81)]
    largest = size if quick else 10 * size
    return [
        Sweep("cardinality", "6a,b", points("cardinality", [2_500, 25_000, 2_500_000, 250_000_000])),
        Sweep("dimensions", "6", points("dimensions", [50, 400, 1_400], subscriptions=largest)),
        Sweep(
            "sizes",
            "6",
            [(f"{s}/{e}", {"subscription_size": s, "event_size": e}) for s, e in (sizes[:2] if quick else sizes)],
        ),
        Sweep("clusters", "7a,b", points("clusters", [2, 4, 10, 26, None])),
        Sweep("cluster size", "7c,d", points("cluster_size", [25, 100, 400, 800])),
        Sweep("workload size", "8", points("subscriptions", [size, 4 * size, 7 * size, 10 * size]), ranked=True),
        Sweep(
            "match probability",
            "9",
            [
                (f"{100 * p:g} %", {"match_probability": p, "subscriptions": largest})
                for p in ([0.001, 0.09] if quick else [0.0001, 0.001, 0.01, 0.03, 0.05, 0.09])
            ],
            ranked=True,
        ),
    ]


class Measured(NamedTuple):
    """One point of a sweep: µs per event by (contender, what), predicates evaluated an event by the same."""

    label: str
    changes: dict[str, Any]
    micros: dict[tuple[str, str], float]
    compared: dict[tuple[str, str], float]


def measure(name: str, label: str, setting: Setting, ranked: bool, repeats: int, limit: float) -> Iterator[Any]:
    """The figures of one point, and at last the point."""
    data = generate(setting)
    table, events = data.table(), data.events()
    eligible, count = all_eligible(table), setting.events
    built = {one.label: one.build(table) for one in MATCHERS}
    micros, compared = {}, {}
    ways: list[tuple[str, int, tuple[Contender, ...]]] = [("match all", 0, MATCHERS)]
    ways += [(f"top {k}", k, (*RANKERS, SCAN)) for k in BEST] if ranked else []
    for what, k, contenders in ways:

        def search(index: Any, k: int = k) -> tuple[Any, ...]:
            if k:
                return tuple(index.top_k_many(events, k, eligible))
            return tuple(index.match_many(events, eligible))

        wanted = search(built[SCAN.label])
        work: dict[str, float] = {}

        def check(who: str, result: tuple[Any, ...], wanted: Any = wanted, work: Any = work) -> str:
            work[who] = built[who].work.compared / count
            return unequal(result, wanted)

        runs = {one.label: lambda one=one: search(built[one.label]) for one in contenders}  # type: ignore[misc]
        found = race(runs, repeats, limit, check)
        yield from as_figures(found, name, setting.subscriptions, f"{what}, {label}", count)
        for who, seconds in found.seconds.items():
            if who not in found.wrong:
                micros[who, what] = median(seconds) * 1e6 / count
                compared[who, what] = work[who]
    yield Measured(label, {}, micros, compared)


def show(sweep: Sweep, distribution: str, base: Setting, points: list[Measured]) -> None:
    """The table of one sweep on one distribution."""
    fixed = f"{size_name(base.subscriptions)} subscriptions unless varied, {base.events} events"
    print(f"\nFig. {sweep.figure}: {sweep.name}, {distribution}; {fixed}; µs per event, match all")
    names = [one.label for one in MATCHERS]
    print("  " + f"{'':12}" + "".join(f"{name:>19}" for name in names))
    for point in points:
        cells = "".join(f"{_cell(point.micros.get((name, 'match all'))):>19}" for name in names)
        print(f"  {point.label:12}{cells}", flush=True)
    if sweep.ranked:
        print("  saved by searching for the best only: predicates evaluated (time)")
        for point in points:
            parts = []
            for one in RANKERS:
                for k in BEST:
                    told = saving(point.compared, one.label, k), saving(point.micros, one.label, k)
                    parts.append(f"{one.label} top {k}: {_percent(told[0])} ({_percent(told[1])})")
            print(f"  {point.label:12}" + "; ".join(parts))


def saving(values: dict[tuple[str, str], float], who: str, k: int) -> float | None:
    """Per cent of match all that the search for the best k does not need."""
    whole, part = values.get((who, "match all")), values.get((who, f"top {k}"))
    return None if whole is None or part is None or not whole else 100 * (1 - part / whole)


def _cell(value: float | None) -> str:
    return "WRONG" if value is None else number(value)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f} %"


Found = dict[tuple[str, str], list[Measured]]


def beside_the_paper(found: Found, bars: Bars) -> None:
    """Every ratio that the paper printed, with ours."""
    print("\nBeside the paper:")
    for distribution in DISTRIBUTIONS:
        for rival in (MERGED, RIGID, COUNTED):
            average_saving(found, rival, distribution, bars)
        growth(found, "cardinality", distribution, last_over_first=True)
        growth(found, "clusters", distribution, last_over_first=False)
        growth(found, "cluster size", distribution, last_over_first=False)
        for (name, which), points in found.items():
            if which == distribution and name == "workload size":
                best_saving(points, distribution)
    for (name, distribution), points in found.items():
        if name == "match probability":
            judge_saving(points, distribution, bars)


def average_saving(found: Found, rival: Contender, distribution: str, bars: Bars) -> None:
    """How much of a rival's time BE* saves over all points of Figures 6 and 7; the mean is that of the ratios."""
    ratios = [
        point.micros[DYNAMIC.label, "match all"] / point.micros[rival.label, "match all"]
        for (name, which), points in found.items()
        for point in points
        if which == distribution and name not in ("workload size", "match probability")
        if {(DYNAMIC.label, "match all"), (rival.label, "match all")} <= point.micros.keys()
    ]
    if not ratios:
        return
    saved, least, most = (100 * (1 - one) for one in (statistics.geometric_mean(ratios), max(ratios), min(ratios)))
    paper = PAPER_SAVING.get(rival.label, {}).get(distribution)
    printed = "not in the paper" if paper is None else f"paper: {paper} %"
    spread = f"{least:.0f} to {most:.0f} % over {len(ratios)} points"
    print(f"  BE* saves {saved:.0f} % over {rival.label}, {distribution} ({spread}; {printed})")
    if paper is not None:
        bars.at_least(f"BE* over {rival.label}, {distribution}", saved, 0.0, "%")


def growth(found: Found, name: str, distribution: str, last_over_first: bool) -> None:
    """How many times slower one end of a sweep is than the other."""
    points = found.get((name, distribution), [])
    if len(points) < 2:
        return
    slow, fast = (points[-1], points[0]) if last_over_first else (points[0], points[-1])
    told = []
    for one in MATCHERS:
        key = (one.label, "match all")
        if key in slow.micros and key in fast.micros:
            told.append(f"{one.label} {slow.micros[key] / fast.micros[key]:.2f} x")
    if name == "cardinality":
        printed = f"BE {PAPER_CARDINALITY[distribution]} x, BE* almost 1"
    else:
        printed = f"k-index {PAPER_CLUSTERS[name]} x" if distribution == "Zipf" else "not printed"
    print(f"  {name} {slow.label} against {fast.label}, {distribution}: {', '.join(told)} (paper: {printed})")


def best_saving(points: list[Measured], distribution: str) -> None:
    """The most that top 1 saves of the time in Fig. 8."""
    for label, paper in PAPER_TOP_1.items():
        saved = [one for one in (saving(point.micros, label, 1) for point in points) if one is not None]
        if saved:
            printed = f"paper: up to {paper[distribution]} %"
            print(f"  {label}: top 1 saves up to {max(saved):.0f} % of the time, {distribution} ({printed})")


def judge_saving(points: list[Measured], distribution: str, bars: Bars) -> None:
    """The bar on predicates evaluated, at every matching probability that it is set for."""
    for point in points:
        if JUDGED[0] <= point.changes["match_probability"] <= JUDGED[1]:
            for one in (DYNAMIC, BULK):
                saved = saving(point.compared, one.label, 1)
                beside = _percent(saving(point.compared, MERGED.label, 1))
                what = f"{distribution}, {point.label}: predicates that top 1 of {one.label} saves (k-index: {beside})"
                bars.at_least(what, -100.0 if saved is None else saved, LEAST_SAVING[distribution], "%")


def construct(size: int, seed_events: int) -> list[Figure]:
    """Table II(b): subscriptions inserted one by one, and in bulk."""
    out = []
    for distribution, exponent in DISTRIBUTIONS.items():
        table = generate(Setting(subscriptions=size, events=seed_events, exponent=exponent)).table()
        told = []
        for one in (DYNAMIC, BULK, RIGID, MERGED):
            seconds, _ = clocked(lambda one=one, table=table: one.build(table))  # type: ignore[misc]
            out.append(Figure(f"begen {distribution}", size, one.label, "build", "s", [seconds]))
            told.append(f"{one.label} {number(seconds)} s")
        paper = f"paper, BE* at 1M: {PAPER_SECONDS[distribution]:.2f} s"
        print(f"\nTable II(b), {distribution}, {size_name(size)}: {', '.join(told)} ({paper})", flush=True)
    return out


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="1,000 subscriptions for 100k, the ends of each sweep")
    parser.add_argument("--size", type=int, help="subscriptions for the 100k of the paper (ten times that for its 1M)")
    parser.add_argument("--events", type=int, help="events of each point (200)")
    parser.add_argument("--only", type=listed, help="some of the sweeps, or construction")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args(given)
    size = options.size or (1_000 if options.quick else 100_000)
    events = options.events or (60 if options.quick else 200)
    repeats, limit = (QUICK_REPEATS, 0.5) if options.quick else (REPEATS, 20.0)
    chosen = sweeps(size, options.quick)
    known = [*(one.name for one in chosen), "construction"]
    for name in options.only or []:
        if name not in known:
            parser.error(f"there is no sweep {name!r}; there are {', '.join(known)}")
    for one in MATCHERS:  # compiled before anything is timed
        tiny = generate(Setting(subscriptions=100, events=20, match_probability=0.05))
        index = one.build(tiny.table())
        index.match_many(tiny.events(), all_eligible(tiny.table()))
        index.top_k_many(tiny.events(), 1, all_eligible(tiny.table()))
    figures, found = [], {}
    for sweep in chosen:
        for distribution, exponent in DISTRIBUTIONS.items():
            if options.only and sweep.name not in options.only:
                continue
            base = Setting(subscriptions=size, events=events, exponent=exponent)
            points = []
            for label, changes in sweep.points:
                setting = replace(base, **changes)
                name = f"begen {distribution}, {sweep.name}"
                for one in measure(name, label, setting, sweep.ranked, repeats, limit):
                    if isinstance(one, Measured):
                        points.append(one._replace(changes=changes))
                    else:
                        figures.append(one)
            show(sweep, distribution, base, points)
            found[sweep.name, distribution] = points
    if not options.only or "construction" in options.only:
        figures += construct(size if options.quick else 10 * size, events)
    bars = Bars(judged=size >= 100_000)
    beside_the_paper(found, bars)
    if options.json:
        Result("be_star_figures", {"size": size, "events": events, "repeats": repeats}, figures).write(options.json)
    wrong = [one for one in figures if one.status == "wrong"]
    for one in wrong:
        print(f"WRONG: {one.engine} on {one.workload}, {one.what}: {one.note}")
    return 1 if wrong or bars.missed else 0


if __name__ == "__main__":
    sys.exit(main())
