"""What will a larger book and a busier stream cost? Costs are measured, a model is fitted, and it is asked.

    python benchmarks/scale_model.py [--quick] [--index NAME] [--subscriptions N] [--events-a-day N] [--json FILE]
                                     [--markdown docs/scale.md]

Measured on w2 (five ranges per subscription), in one process and in processor time: searches of sharded snapshots of
several sizes, for the 10 best and for all matches; then what Spark takes on top, per event and per match. The model:

    µs per event = event + route (where there are several shards) + cover x covers met + visit x shards met
                  + search x shards met x size ^ p + match x matches returned + Spark's share of events and matches

where size is the subscriptions of a shard, in millions. Routing is measured, and fitted, apart from the rest, since
covers and shards met grow together. Coefficients and p are fitted to the relative error, none below zero. The largest
snapshot is left out of the fit, and the error on it is printed beside that on the others. Shards met grow as a power of
the number of shards, and covers met as a product of powers of shards and subscriptions; both are fitted too. Then the
model is asked for 100M subscriptions and 10 billion events per day: cores, core-hours, memory.
With `--markdown` all of it goes into the marked place of a page.
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
from tables import filled, machine_line, number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TERMS = ("route", "cover", "event", "visit", "search", "match")
POWERS = (0.25, 0.5, 0.75, 1.0)
BEST, REPEATS = 10, 3
SHARDS = [1, 4, 16, 64]
SHARD_SIZE = 250_000
"""Subscriptions per shard in the prediction."""
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
    route: float
    """µs per event to find the shards that it meets; 0 where there is one."""
    matches: float
    """Returned per event."""
    cost: float
    """µs per event."""

    @property
    def route_terms(self) -> list[float]:
        """What the coefficients of routing are multiplied with."""
        return [float(self.shards > 1), self.covers]

    def terms(self, power: float) -> list[float]:
        """What the other coefficients are multiplied with."""
        size = self.subscriptions / self.shards / 1e6
        return [1.0, self.met, self.met * size**power, self.matches]


class Model(NamedTuple):
    """The costs by term, in µs, and p."""

    costs: F64
    """In the order of TERMS."""
    power: float

    def by_term(self, sample: Sample) -> F64:
        """What each term takes."""
        return self.costs * [*sample.route_terms, *sample.terms(self.power)]

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
            results = result_batches(ready.search, ready.columns, part, answers, None)
            matches += sum(made.num_rows for made in results)

    run()
    taken = [both_clocks(run, os.getpid(), children=False)[1] for _ in range(REPEATS)]
    cost = summary(taken).median * 1e6 / count
    covers, route = routed(ready, pa.Table.from_batches(batches).combine_chunks().to_batches()[0])
    return Sample(len(snapshot), snapshot.shards, k, met / count, covers, route, matches / count, cost)


def routed(ready: MatchPlan, batch: pa.RecordBatch) -> tuple[float, float]:
    """Covers met per event, and µs per event to route a batch."""
    version = ready.search.opened()
    router = version.router
    if router is None:
        return 0.0, 0.0
    events = ready.search.read(version, ready.columns, batch).keys.events
    covers = len(router.index.match_many(events, bits.all_set(len(router.segment_of)))[1])
    taken = [both_clocks(lambda: router.route(events), os.getpid(), children=False)[1] for _ in range(REPEATS)]
    return covers / batch.num_rows, summary(taken).median * 1e6 / batch.num_rows


def fitted(samples: list[Sample]) -> Model:
    """The model of least error."""
    sharded = [sample for sample in samples if sample.shards > 1]
    route = _costs([sample.route_terms for sample in sharded], [sample.route for sample in sharded])
    rest = [sample.cost - sample.route for sample in samples]
    costs = {power: _costs([sample.terms(power) for sample in samples], rest) for power in POWERS}
    models = [Model(np.concatenate([route, own]), power) for power, own in costs.items()]
    return min(models, key=lambda model: model.error(samples))


def _costs(terms: list[list[float]], micros: list[float]) -> F64:
    """Coefficients of least relative error, none below zero: the worst negative one is dropped until none is left."""
    rows, costs = np.array(terms), np.array(micros)
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
                f"{one.route:5.2f} of {one.cost:8.2f} µs per event to route",
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
    sample = Sample(subscriptions, shards, k, met, covers, 0.0, matches, 0.0)
    by_term = dict(zip(TERMS, model.by_term(sample).tolist(), strict=True))
    return {**by_term, "Spark, an event": share[0], "Spark, matches": share[1] * matches}


class Prediction(NamedTuple):
    """What a search costs per event."""

    what: str
    by_term: dict[str, float]
    """µs."""

    def rows(self, events_a_day: float) -> list[str]:
        """Return the cells of a row: what is searched for, µs, cores, core-hours, and the terms."""
        total = sum(self.by_term.values())
        cores, hours = events_a_day * total / 1e6 / DAY, events_a_day * total / 3.6e9
        terms = ", ".join(f"{name} {number(value)}" for name, value in self.by_term.items() if value > 0)
        return [self.what, number(total), f"{cores:,.0f}", f"{hours:,.0f}", terms]


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, ["---"] * len(header), *rows])


def page_of(
    result: Result, samples: list[Sample], said: list[str], predictions: list[Prediction], asked: str, day: float
) -> str:
    """Return what goes into docs/scale.md: the measurements, what was fitted (`said`), and the predictions."""
    measurements = [
        [
            f"{s.subscriptions:,}",
            str(s.shards),
            str(s.k or "all"),
            *map(number, (s.met, s.covers, s.route, s.matches, s.cost)),
        ]
        for s in samples
    ]
    header = ["subscriptions", "shards", "k", "shards met", "covers met", "µs to route", "matches", "µs per event"]
    predicted = ["", "µs per event", "cores always busy", "core-hours per day", "µs by term"]
    parts = [machine_line(result.machine), table(header, measurements), "\n".join(f"* {line}" for line in said), asked]
    return "\n\n".join([*parts, table(predicted, [one.rows(day) for one in predictions])])


def options_of() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="sizes up to 100k instead of 800k")
    parser.add_argument("--index", default="blocks", help="the snapshots' index (%(default)s)")
    parser.add_argument("--subscriptions", type=float, default=100e6, help="to predict for (%(default).0f)")
    parser.add_argument("--events-a-day", type=float, default=10e9, help="to predict for (%(default).0f)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="put the tables into the marked place of a page")
    options = parser.parse_args()
    if options.markdown:
        try:
            filled(options.markdown.read_text("utf-8"), "")
        except (OSError, ValueError) as problem:
            parser.error(str(problem))
    return options


def fitted_to(samples: list[Sample], largest: int) -> list[str]:
    """Return what the model is when the largest size is left out, and how well it predicts that."""
    known, held_back = ([s for s in samples if (s.subscriptions < largest) == yes] for yes in (True, False))
    model = fitted(known)
    costs = ", ".join(f"{name} {cost:.3g}" for name, cost in zip(TERMS, model.costs, strict=True))
    fit, other = f"{model.error(known):.0%}", f"{model.error(held_back):.0%}"
    return [
        f"the model, in µs: {costs}; p = {model.power}",
        f"mean error: {fit} on the {len(known)} rows that it was fitted to, {other} on the largest size, left out",
    ]


def main() -> int:
    options = options_of()
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
    shards_met = Growth.of(samples, lambda s: s.met, by_size=False)
    covers_met = Growth.of(samples, lambda s: s.covers, by_size=True)
    said = fitted_to(samples, sizes[-1])
    said += [f"Spark's share: {share[0]:.2f} µs per event, {share[1]:.3f} µs per match"]
    said += [f"shards met = {shards_met}", f"covers met = {covers_met}"]
    print("\n" + "\n".join(said))
    subscriptions, day = int(options.subscriptions), options.events_a_day
    model, largest = fitted(samples), next(s for s in reversed(samples) if s.k is None)
    each = largest.matches / largest.subscriptions
    predictions = [
        Prediction(what, predicted(model, share, shards_met, covers_met, k, subscriptions, each))
        for k, what in ((BEST, f"the {BEST} best"), (None, "all matches"))
    ]
    asked = (
        f"Predicted by the model, fitted to all rows, for {subscriptions:,} subscriptions in shards of {SHARD_SIZE:,} "
        f"and {day:,.0f} events per day. The files take {weight:,.0f} bytes per subscription: "
        f"{weight * subscriptions / 2**30:,.0f} GiB in all, {weight * SHARD_SIZE / 2**20:,.0f} MiB per shard."
    )
    print("\n" + asked)
    for one in predictions:
        what, total, cores, hours, terms = one.rows(day)
        print(f"  {what}: {total} µs per event, {cores} cores always busy, {hours} core-hours per day\n    µs: {terms}")
    figures = [
        Figure("w2", s.subscriptions, options.index, f"{s.shards} shards, {s.k or 'all'}", PER_EVENT, [s.cost])
        for s in samples
    ]
    result = Result("scale_model", {"index": options.index, "quick": options.quick}, figures)
    if options.json:
        result.write(options.json)
    if options.markdown:
        text = page_of(result, samples, said, predictions, asked, day)
        options.markdown.write_text(filled(options.markdown.read_text("utf-8"), text), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
