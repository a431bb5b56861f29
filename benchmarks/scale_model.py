"""What will a larger book and a busier stream cost? Costs are measured, a model is fitted, and it is asked.

    python benchmarks/scale_model.py [--quick] [--index NAME] [--subscriptions N] [--events-a-day N] [--json FILE]

Measured on w2 (five ranges a subscription), in one process and in processor time: searches of sharded snapshots of
several sizes, for the 10 best and for all matches; then what Spark takes on top, an event and a match. The model:

    µs per event = event + route (where there are several shards) + cover x covers met + visit x shards met
                  + search x shards met x size ^ p + match x matches given back + Spark's share of events and matches

where size is in millions a shard. Coefficients and p are fitted to the relative error, none below zero. The largest
snapshot is left out of the fit, and the error on it is printed beside that on the others. Shards met grow as a power of
the number of shards, and covers met as a product of powers of shards and subscriptions; both are fitted too. Then the
model is asked for 100M subscriptions and 10 billion events a day: cores, core-hours, memory.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from earmark.engine.covers import SMALL
from earmark.flat import bits
from earmark.flat.arrays import F64
from earmark.report.protocol import clocked, summary
from earmark.spark import Snapshot, ensure_java, match, workload
from earmark.spark.matching import MatchPlan, prepared
from earmark.spark.search import result_batches, searched
from results import PER_EVENT, Figure, Result
from spark_runner import both_clocks, session, taken_by
from tables import number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TERMS = ("event", "route", "cover", "visit", "search", "match")
POWERS = (0.25, 0.5, 0.75, 1.0)
BEST, REPEATS = 10, 3
SHARDS = [1, 4, 16, 64]
SHARD_SIZE = 250_000
"""Subscriptions a shard in the prediction."""
DAY = 86_400


class Sample(NamedTuple):
    """One measurement: what it was of, and what it took."""

    subscriptions: int
    shards: int
    k: int | None
    met: float
    """Shards per event."""
    covers: float
    """Covers met per event."""
    matches: float
    """Given back an event."""
    cost: float
    """µs per event."""

    def terms(self, power: float) -> list[float]:
        """What each coefficient is multiplied with."""
        size = self.subscriptions / self.shards / 1e6
        return [1.0, float(self.shards > 1), self.covers, self.met, self.met * size**power, self.matches]


class Model(NamedTuple):
    """The costs by term, in µs, and p."""

    costs: F64
    power: float

    def by_term(self, sample: Sample) -> F64:
        """What each term takes."""
        return self.costs * sample.terms(self.power)

    def error(self, samples: list[Sample]) -> float:
        """The mean relative error."""
        return float(np.mean([abs(self.by_term(s).sum() / s.cost - 1) for s in samples]))


def measured(events: DataFrame, snapshot: Snapshot, k: int | None, count: int) -> Sample:
    """The search of all events in this process: encoded, routed, searched, turned into Arrow."""
    ready = prepared(events, snapshot, k, columns=["event"])
    batches = ready.frame.toArrow().to_batches(max_chunksize=10_000)
    met = matches = 0

    def run() -> None:
        nonlocal met, matches
        met = matches = 0
        for part, answers, *_ in searched(ready.search, ready.columns, iter(batches)):
            met += int(answers.counts[:, 0].sum())
            matches += sum(made.num_rows for made in result_batches(ready.search, ready.columns, part, answers))

    run()
    taken = [both_clocks(run, os.getpid(), children=False)[1] for _ in range(REPEATS)]
    cost = summary(taken).median * 1e6 / count
    covers = sum(covers_met(ready, batch) for batch in batches) / count
    return Sample(len(snapshot), snapshot.shards, k, met / count, covers, matches / count, cost)


def covers_met(ready: MatchPlan, batch: pa.RecordBatch) -> int:
    """Covers that the events of a batch meet, each as often as it is met."""
    version = ready.search.opened()
    if version.router is None:
        return 0
    events = ready.search.read(version, ready.columns, batch).keys.events
    return len(version.router.index.match_many(events, bits.all_set(len(version.router.segment_of)))[1])


def fitted(samples: list[Sample]) -> Model:
    """The model of least error."""
    return min((Model(_costs(samples, power), power) for power in POWERS), key=lambda model: model.error(samples))


def _costs(samples: list[Sample], power: float) -> F64:
    """Coefficients of least relative error, none below zero: the worst negative one is dropped until none is left."""
    rows = np.array([sample.terms(power) for sample in samples])
    costs = np.array([sample.cost for sample in samples])
    used = list(range(rows.shape[1]))
    while True:
        found = np.linalg.lstsq(rows[:, used] / costs[:, None], np.ones(len(costs)), rcond=None)[0]
        if (found >= 0).all():
            break
        used.pop(int(found.argmin()))
    whole = np.zeros(rows.shape[1])
    whole[used] = found
    return whole


class Growth(NamedTuple):
    """What an event meets = factor x shards ** by_shards x subscriptions ** by_subscriptions."""

    factor: float
    by_shards: float
    by_subscriptions: float

    @classmethod
    def of(cls, samples: list[Sample], met: Callable[[Sample], float], by_size: bool) -> Growth:
        """The least squares fit to the samples with several shards, in logarithms."""
        points = [s for s in samples if s.shards > 1 and met(s) > 0]
        rows = [[1.0, math.log(s.shards), math.log(s.subscriptions) * by_size] for s in points]
        found = np.linalg.lstsq(np.array(rows), np.log([met(s) for s in points]), rcond=None)[0]
        return cls(math.exp(found[0]), float(found[1]), float(found[2]))

    def at(self, shards: int, subscriptions: int) -> float:
        """What an event meets in a book of this size."""
        return self.factor * shards**self.by_shards * subscriptions**self.by_subscriptions

    def __str__(self) -> str:
        size = f" x subscriptions ^ {self.by_subscriptions:.2f}" if self.by_subscriptions else ""
        return f"{self.factor:.3g} x shards ^ {self.by_shards:.2f}{size}"


def spark_share(events: DataFrame, snapshot: Snapshot, count: int) -> tuple[float, float]:
    """µs that Spark takes an event, and a match given back, above the same in one process."""
    above, matches = [], []
    for k in (1, BEST):
        alone = measured(events, snapshot, k, count)
        query = match(events, snapshot, k, columns=["event"])
        above.append(summary(taken_by(query, REPEATS, 2).processor).median * 1e6 / count - alone.cost)
        matches.append(alone.matches)
    a_match = max(0.0, (above[1] - above[0]) / (matches[1] - matches[0]))
    return max(0.0, above[0] - a_match * matches[0]), a_match


def samples_of(
    spark: SparkSession, folder: Path, index: str, sizes: list[int], counts: list[int], events: int
) -> tuple[list[Sample], float]:
    """Every size in every number of shards, the 10 best and all; and the bytes a subscription of the largest."""
    frame = workload(spark, "w2", "events", events).cache()
    found, weight = [], 0.0
    for size, shards in product(sizes, counts):
        if shards > 1 and size // shards <= SMALL:  # whose covers are of another kind
            continue
        path = folder / f"{size}-{shards}"
        publish = partial(Snapshot.publish, workload(spark, "w2", "subscriptions", size), path)
        seconds, snapshot = clocked(partial(publish, index=index, shards=shards))
        weight = sum(int(entry["bytes"]) for entry in snapshot.record["segments"]) / size
        for k in (BEST, None):
            found.append(measured(frame, snapshot, k, events))
            one = found[-1]
            print(
                f"  {size:>9,} in {shards:>2} shards (published in {seconds:5.1f} s), {k or 'all':>3}: "
                f"{one.met:5.2f} shards and {one.covers:5.1f} covers met, {one.matches:6.1f} matches, "
                f"{one.cost:8.2f} µs per event",
                flush=True,
            )
    return found, weight


def predicted(
    model: Model, share: tuple[float, float], shards_met: Growth, covers_met: Growth, k: int | None,
    subscriptions: int, matches_each: float,
) -> dict[str, float]:  # fmt: skip
    """µs per event by term, for a book of this size in shards of SHARD_SIZE."""
    shards = max(1, -(-subscriptions // SHARD_SIZE))
    met = min(shards, shards_met.at(shards, subscriptions)) if shards > 1 else 1.0
    covers = covers_met.at(shards, subscriptions) if shards > 1 else 0.0
    matches = matches_each * subscriptions if k is None else min(float(k), matches_each * subscriptions)
    sample = Sample(subscriptions, shards, k, met, covers, matches, 0.0)
    by_term = dict(zip(TERMS, model.by_term(sample).tolist(), strict=True))
    return {**by_term, "Spark, an event": share[0], "Spark, matches": share[1] * matches}


def tell(by_term: dict[str, float], what: str, events_a_day: float) -> None:
    """Cores and core-hours, and which term weighs most."""
    total = sum(by_term.values())
    print(f"  {what}: {total:,.1f} µs per event -> {events_a_day * total / 1e6 / DAY:,.0f} cores always busy, "
          f"{events_a_day * total / 3.6e9:,.0f} core-hours a day")  # fmt: skip
    told = ", ".join(f"{name} {value:,.1f}" for name, value in by_term.items() if value > 0)
    print(f"    µs by term: {told}; most: {max(by_term, key=lambda name: by_term[name])}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="sizes up to 100k instead of 800k")
    parser.add_argument("--index", default="blocks", help="the snapshots' index (%(default)s)")
    parser.add_argument("--subscriptions", type=float, default=100e6, help="to predict for (%(default).0f)")
    parser.add_argument("--events-a-day", type=float, default=10e9, help="to predict for (%(default).0f)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args()
    ensure_java()
    sizes = [10_000, 30_000, 100_000] if options.quick else [50_000, 200_000, 800_000]
    events = 5_000 if options.quick else 20_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = session(folder)
        print(f"w2, {events:,} events, index {options.index}, processor time of one process", flush=True)
        samples, weight = samples_of(spark, folder, options.index, sizes, SHARDS, events)
        crowd = workload(spark, "w2", "events", 5 * events).repartition(4).cache()
        share = spark_share(crowd, Snapshot.open(folder / f"{sizes[-2]}-1"), 5 * events)
        spark.stop()
    known, held_back = ([s for s in samples if (s.subscriptions < sizes[-1]) == yes] for yes in (True, False))
    model = fitted(known)
    print("\nmodel, µs: " + ", ".join(f"{n} {number(c)}" for n, c in zip(TERMS, model.costs, strict=True))
          + f", p {model.power}; Spark {share[0]:.2f} an event, {share[1]:.3f} a match")  # fmt: skip
    print(f"mean error {model.error(known):.0%} on the {len(known)} it was fitted to, "
          f"{model.error(held_back):.0%} on the largest size, which it had not seen")  # fmt: skip
    shards_met = Growth.of(samples, lambda s: s.met, by_size=False)
    growth = Growth.of(samples, lambda s: s.covers, by_size=True)
    print(f"shards met = {shards_met}; covers met = {growth}; {weight:,.0f} bytes of files per subscription")
    model = fitted(samples)
    subscriptions = int(options.subscriptions)
    largest = next(s for s in reversed(samples) if s.k is None)
    print(f"\n{subscriptions:,} subscriptions in shards of {SHARD_SIZE:,}, {options.events_a_day:,.0f} events a day")
    for k, what in ((BEST, f"the {BEST} best"), (None, "all matches")):
        each = largest.matches / largest.subscriptions
        tell(predicted(model, share, shards_met, growth, k, subscriptions, each), what, options.events_a_day)
    print(f"  memory: {weight * subscriptions / 2**30:,.0f} GiB of mapped files in all, "
          f"{weight * SHARD_SIZE / 2**20:,.0f} MiB a shard")  # fmt: skip
    if options.json:
        figures = [
            Figure("w2", s.subscriptions, options.index, f"{s.shards} shards, {s.k or 'all'}", PER_EVENT, [s.cost])
            for s in samples
        ]
        Result("scale_model", {"index": options.index, "quick": options.quick}, figures).write(options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
