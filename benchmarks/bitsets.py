"""The bitsets index on the data that it is for, against blocks, the BE*-Tree and scan, as users of a Matcher see it.

    python benchmarks/bitsets.py [--quick] [--size 1m] [--json FILE]

Each subscription constrains 10 of 20 attributes, at random, to a range of 0.398 of the domain; an event has all 20, and
matches about one subscription in 10,000. That is HEM's setting (docs/bitsets.md). In turns, every answer compared with
the scan's: `match` of single dicts, `match_many` of a frame with and without scores, the 10 best. Loading is `add_many`
of a frame; that of the scan builds nothing. Times are those of the processor: other work on the machine then counts for
less. Bars at 1M: 250 µs for a single event, 150 µs in a batch, 250 MB beside the table. Exit code 1 when one is missed,
or an answer is wrong. `--quick` takes 10k subscriptions and judges no bar.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from blocks import by_processor
from contenders import Bars, median, race, ratio_with_spread
from contenders import figures as as_figures
from earmark import Matcher
from earmark.report.protocol import QUICK_REPEATS, REPEATS
from results import Figure, Result
from run import sizes
from tables import size_name, terminal

NAME = "10 of 20"
INDEXES = ("bitsets", "blocks", "be_star_tree", "scan")
ATTRIBUTES, CHOSEN, DOMAIN, WIDTH = 20, 10, 1_000_000, 0.398
EVENTS, ONE_BY_ONE, K, FULL = 1_000, 100, 10, 1_000_000
SINGLE, BATCH, SCORED, BEST = "single, match(dict)", "batch, scores=False", "batch, with scores", "batch, 10 best"
SINGLE_BAR, BATCH_BAR, MEGABYTES = 250.0, 150.0, 250.0

Run = Callable[[], Any]


def subscriptions(count: int, seed: int = 5) -> pa.Table:
    """Ready-made columns; NULL where an attribute is not constrained."""
    rng = np.random.default_rng(seed)
    chosen = np.argpartition(rng.random((count, ATTRIBUTES)), CHOSEN, axis=1)[:, :CHOSEN]
    free = np.ones((count, ATTRIBUTES), bool)
    np.put_along_axis(free, chosen, False, axis=1)
    width = int(DOMAIN * WIDTH)
    columns: dict[str, Any] = {"id": np.arange(count)}
    for attribute in range(ATTRIBUTES):
        low = rng.integers(0, DOMAIN - width, count, np.int32)
        columns[f"a{attribute}_lo"] = pa.array(low, mask=free[:, attribute])
        columns[f"a{attribute}_hi"] = pa.array(low + np.int32(width), mask=free[:, attribute])
    return pa.table(columns)


def frame_of_events(count: int, seed: int = 6) -> pa.Table:
    """Events with a value on each attribute."""
    rng = np.random.default_rng(seed)
    return pa.table({f"a{attribute}": rng.integers(0, DOMAIN, count) for attribute in range(ATTRIBUTES)})


def measure(count: int, repeats: int, limit: float) -> list[Figure]:
    """Load everything, ask everything in every way."""
    rows, events = subscriptions(count), frame_of_events(EVENTS)
    out, matchers = [], {}
    for name in INDEXES:
        Matcher(name).add_many(rows.slice(0, 2_000), progress=False)
        m = matchers[name] = Matcher(name)
        seconds, _ = by_processor(lambda m=m: m.add_many(rows, progress=False))  # type: ignore[misc]
        out.append(Figure(NAME, count, name, "build", "s", [seconds]))
        out.append(Figure(NAME, count, name, "memory", "MB", [m.stats()["index_bytes"] / 1e6]))
    for what, asked in ways(matchers, events).items():
        check = partial(differs, asked["scan"]())
        found = race(asked, repeats, limit, check, by_processor)
        out += as_figures(found, NAME, count, what, ONE_BY_ONE if what == SINGLE else EVENTS)
    out.sort(key=lambda one: INDEXES.index(one.engine))
    print(f"\n{NAME}, {size_name(count)} subscriptions; memory: that of the index, beside the table")
    print(terminal(out, "scan"), flush=True)
    return out


def ways(matchers: dict[str, Matcher], events: pa.Table) -> dict[str, dict[str, Run]]:
    """By way of asking, who is asked."""
    few = events.slice(0, ONE_BY_ONE).to_pylist()
    runs: dict[str, dict[str, Run]] = {SINGLE: {}, BATCH: {}, SCORED: {}, BEST: {}}
    for name, m in matchers.items():
        runs[SINGLE][name] = lambda m=m: [m.match(event) for event in few]  # type: ignore[misc]
        runs[BATCH][name] = lambda m=m: m.match_many(events, scores=False)  # type: ignore[misc]
        runs[SCORED][name] = lambda m=m: m.match_many(events)  # type: ignore[misc]
        runs[BEST][name] = lambda m=m: m.top_k_many(events, K)  # type: ignore[misc]
    return runs


def differs(wanted: Any, _: str, answer: Any) -> str:
    """How an answer is not the scan's."""
    same = answer.equals(wanted) if isinstance(wanted, pa.Table) else answer == wanted
    return "" if same else "answers differ from the scan's"


def judge(found: list[Figure], judged: bool) -> Bars:
    """Every bar, and how the others compare."""
    bars = Bars(judged)
    values = {(one.engine, one.what): one.values for one in found if one.values}
    for what in (SINGLE, BATCH, SCORED, BEST):
        own = values.get(("bitsets", what))
        if own is None:
            bars.missed.append(f"{what}: no figure")
            continue
        for name in INDEXES[1:]:
            if (name, what) in values:
                print(f"  {what}, against {name}: {ratio_with_spread(values[name, what], own)}")
        if what != BEST:
            bars.at_most(what, median(own), SINGLE_BAR if what == SINGLE else BATCH_BAR, "µs")
    bars.at_most("memory beside the table", values["bitsets", "memory"][0], MEGABYTES, "MB")
    return bars


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="10k subscriptions, three repeats")
    parser.add_argument("--size", type=sizes, help="number of subscriptions (default: 1m)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args(given)
    count = options.size[-1] if options.size else 10_000 if options.quick else FULL
    repeats, limit = (QUICK_REPEATS, 2.0) if options.quick else (REPEATS, 20.0)
    found = measure(count, repeats, limit)
    bars = judge(found, count == FULL)
    if options.json:
        Result("bitsets", {"size": count, "repeats": repeats}, found).write(options.json)
    wrong = [one for one in found if one.status == "wrong"]
    for figure in wrong:
        print(f"WRONG: {figure.engine}, {figure.what}: {figure.note}")
    return 1 if wrong or bars.missed else 0


if __name__ == "__main__":
    sys.exit(main())
