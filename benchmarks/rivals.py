"""earmark, through its public API, against what else there is: one thread each, every answer compared.

    python benchmarks/rivals.py [--size 1m] [--rounds 1] [--events 1000] [--quick] [--json FILE]

    w2    SQLite's R*Tree, libspatialindex, DuckDB, polars, numpy
    w1    DuckDB, numpy; the others cannot do it

Every engine has a fresh process for each round, at most two minutes for it, and a batch of 1,000 events as in all other
programs; with several rounds the engines take turns. At 1M one round takes about five minutes, most of it for building
the rivals' indexes. What counts is the best of each: its batch, or one event per call. Bars, at 1M subscriptions:
`Matcher()` answers w2 at least 75 times as fast as the best rival, and w1 at least 30 times. A bar is missed as well
where the rivals that were the best so far have no figure: SQLite on w2, numpy and DuckDB on w1. Exit code 1 when a bar
is missed at 1M or an engine is wrong or fails. `--quick` takes 10k subscriptions and judges no bar. `run.py` measures
any engines on any workloads.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import engines
from contenders import Bars, median, ratio_with_spread
from earmark.workload.standard import SUBSCRIPTIONS
from results import Figure, Result
from run import arguments, measure_all, sizes
from tables import baseline_of, size_name

OURS = "engines.through_matcher:ThroughMatcher"
BARS = {"w2": 75.0, "w1": 30.0}
NEEDED = {"w2": ("sqlite",), "w1": ("numpy", "duckdb")}
"""Without these a ratio to the best rival says little."""
LIMIT = "120"
"""Seconds for each engine, workload and round."""


def judge(found: list[Figure], size: int) -> Bars:
    """The best rival of each workload, and how many times as long it takes."""
    bars = Bars(size == SUBSCRIPTIONS)
    print(f"\nAt {size_name(size)}, one thread each:")
    for name, bar in BARS.items():
        own = [one for one in found if one.workload == name]
        ours = baseline_of(own, "earmark")
        rivals = [best for rival in engines.RIVALS if (best := baseline_of(own, rival))]
        if ours is None or not rivals:
            bars.missed.append(f"{name}: no figure")
            continue
        for rival in sorted(rivals, key=lambda one: one.summary.median):
            ratio = ratio_with_spread(rival.values, ours.values)
            print(f"  {name}, {rival.engine} ({rival.what}): {ratio} earmark's time")
        absent = set(NEEDED[name]) - {rival.engine for rival in rivals}
        if bars.judged and absent:
            bars.missed.append(f"{name}: no figure of {', '.join(sorted(absent))}")
        best = min(median(rival.values) for rival in rivals)
        bars.at_least(f"{name}, against the best of them", best / median(ours.values), bar)
    return bars


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=sizes, default=[SUBSCRIPTIONS], help="subscriptions, such as 100k (1m)")
    parser.add_argument("--rounds", type=int, default=1, help="times the engines take turns (%(default)s)")
    parser.add_argument("--events", type=int, default=1_000, help="events of each workload (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="10k subscriptions, one round")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args(given)
    size, rounds = (10_000, 1) if options.quick else (options.size[-1], options.rounds)
    asked = ["--workloads", ",".join(BARS), "--sizes", str(size), "--engines", ",".join([OURS, *engines.RIVALS])]
    asked += ["--baseline", "earmark", "--rounds", str(rounds), "--repeats", "3", "--time-limit", LIMIT]
    asked += ["--events", str(options.events)]
    result = measure_all(arguments(asked))
    bars = judge(result.figures, size)
    if options.json:
        settings = {"size": size, "rounds": rounds, "events": options.events}
        Result("rivals", settings, result.figures, result.machine).write(options.json)
    bad = [one for one in result.figures if one.status in ("wrong", "failed")]
    for one in bad:
        print(f"{one.status.upper()}: {one.engine} on {one.workload}: {one.note}")
    return int(bool(bad or bars.missed))


if __name__ == "__main__":
    sys.exit(main())
