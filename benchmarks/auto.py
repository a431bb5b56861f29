"""`auto` against the indexes that could be named instead: is the default the fastest?

    python benchmarks/auto.py [--quick] [--sizes 10k,1m] [--workloads w1,w2] [--data FOLDER] [--json FILE]

Each workload is searched by the index that `auto` chose and by those that it considers, and `mics`, in turns, every
answer compared with the first's: all matches (for scored intervals the 10 best), events in a batch and one at a time.
`be_tree`, `k_index`, `r_tree` and `ir_tree` do not race: each is a variant of one that does, or slower by its design.
Bars: in a batch and one at a time `auto` costs at most 1.3 x the best named index or 2 µs more (the ratio is printed
with its spread, and the bar is whichever is more); planning takes at most a tenth of the build. Kernels are compiled
before the clock starts. FOLDER has packet rules in ClassBench's form (acl1_10k.gz, ipc1_10k.gz); without it they are
left out. Times are those of the processor. Exit code 1 when a bar is missed or an answer is wrong.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from blocks import by_processor
from contenders import Bars, all_eligible, figures, first_events, median, race, ratio_with_spread, unequal
from earmark import index as indexes
from earmark.events.arrays import EventArrays
from earmark.events.frames import encode_many
from earmark.index.auto import KINDS
from earmark.index.one import OneEvent
from earmark.keys.schema import Schema
from earmark.report.protocol import QUICK_REPEATS, REPEATS
from earmark.segment.arrays import SegmentArrays
from earmark.segment.builder import prepare
from earmark.warming import warm_index
from earmark.workload import begen, mics, skew, standard
from earmark.workload.ads import Campaigns, visitors
from earmark.workload.standard import Workload, dense
from results import Figure, Result
from run import listed, sizes
from tables import number, size_name

NAMED = {name: kind.most_attributes for name, kind in KINDS.items()} | {"mics": 8, "interval_tree": 2, "cell_table": 2}
"""The indexes that are compared, and up to how many attributes."""
TIMES, MORE, PLANNING = 1.3, 2.0, 0.1
K, SINGLES, ADS = 10, 50, 100_000
WHILE = timedelta(days=90)
BATCH, SINGLE = "in a batch", "one at a time"


class Book(NamedTuple):
    """Subscriptions, events, and how many best are asked for; 0: all matches."""

    table: SegmentArrays
    events: EventArrays
    k: int = 0


def of(data: Workload) -> Book:
    """The book of a workload."""
    return Book(data.table(), data.events())


def ten_of_twenty(subscriptions: int) -> Workload:
    """Ten of twenty attributes each, ranges of 0.4 of the domain: wide, and hardly two sets of attributes the same."""
    random, attributes, domain, count = np.random.default_rng(5), 20, 1_000_000, subscriptions
    width = int(0.398 * domain)
    lo = random.integers(0, domain - width, (count, attributes))
    attr = np.argpartition(random.random((count, attributes)), 10, axis=1)[:, :10]
    attr = np.sort(attr, axis=1).astype(np.int32)
    lo = np.take_along_axis(lo, attr, 1)
    value = random.integers(0, domain, (standard.EVENTS, attributes))
    event_attr = np.tile(np.arange(attributes, dtype=np.int32), (standard.EVENTS, 1))
    return Workload(attr, lo, lo + width, event_attr, value, attributes, domain)


def intervals(count: int) -> Book:
    """Scored intervals of one attribute, each value in about a hundred, and the best of them."""
    random, domain = np.random.default_rng(9), 1 << 30
    lo = random.integers(0, domain, (count, 1))
    hi = lo + random.integers(1, max(2, 200 * domain // count), (count, 1))
    book = of(dense(lo, hi, random.integers(0, domain, (standard.EVENTS, 1)), domain))
    return Book(book.table._replace(score=random.random(count)), book.events, K)


def addresses(count: int) -> Workload:
    """Networks of one IP-like attribute: prefixes of 8 to 32 bits, most of them long."""
    random = np.random.default_rng(10)
    odds = np.repeat([1.0, 6.0], [16, 9])
    size = np.int64(1) << (32 - random.choice(np.arange(8, 33), count, p=odds / odds.sum()))
    lo = random.integers(0, 1 << 32, count) // size * size
    return dense(lo[:, None], (lo + size - 1)[:, None], random.integers(0, 1 << 32, (standard.EVENTS, 1)), 1 << 32)


def packets(file: Path) -> Workload:
    """Rules over source, destination, both ports and protocol; packets drawn inside rules."""
    with gzip.open(file, "rt") as lines:
        boxes = np.array([list(_rule(line[1:].split("\t"))) for line in lines if line.startswith("@")], np.int64)
    lo, hi = (np.ascontiguousarray(boxes[:, :, side]) for side in (0, 1))
    random = np.random.default_rng(3)
    rule = random.integers(0, len(boxes), standard.EVENTS)
    inside = random.random((standard.EVENTS, lo.shape[1])) * (hi[rule] - lo[rule] + 1)
    return dense(lo, hi, lo[rule] + inside.astype(np.int64), 1 << 32)


def _rule(fields: list[str]) -> Iterator[tuple[int, int]]:
    for field in fields[:2]:
        address, bits = field.split("/")
        size = 1 << (32 - int(bits))
        first = int.from_bytes(bytes(map(int, address.split(".")))) // size * size
        yield first, first + size - 1
    for field in fields[2:4]:
        low, high = field.split(":")
        yield int(low), int(high)
    value, mask = (int(part, 16) for part in fields[4].split("/"))
    yield (value, value) if mask == 255 else (0, 255)


def ads(count: int) -> Book:
    """The campaigns and visitors of the demo."""
    segment = prepare(Schema(), Campaigns(min(count, ADS))).segment(0)
    return Book(segment.arrays, encode_many(segment.schema, list(visitors(standard.EVENTS))))


def texts(count: int) -> Book:
    """Conditions on strings and dates: a city, the beginning of a name, and when it was."""
    random = Random(12)
    count = min(count, ADS)

    def name(letters: int) -> str:
        return "".join(random.choice("abcdefgh") for _ in range(letters))

    def day() -> date:
        return date(2020, 1, 1) + timedelta(days=random.randrange(2_000))

    def condition() -> str:
        first = day()
        text = f"city = 'city {random.randrange(300)}' AND since BETWEEN DATE '{first}' AND DATE '{first + WHILE}'"
        return text if random.random() < 0.5 else f"name LIKE '{name(3)}%' AND since >= DATE '{first}'"

    segment = prepare(Schema(), [(i, condition()) for i in range(count)]).segment(0)
    events = [
        {"city": f"city {random.randrange(300)}", "name": name(8), "since": day()} for _ in range(standard.EVENTS)
    ]
    return Book(segment.arrays, encode_many(segment.schema, events))


def books(data: Path | None) -> dict[str, Callable[[int], Book]]:
    """By name, what makes a book of so many subscriptions."""
    made: dict[str, Callable[[int], Book]] = {
        name: lambda count, make=make: of(make(subscriptions=count))  # type: ignore[misc]
        for name, make in standard.WORKLOADS.items()
    }
    made |= {
        "10-of-20": lambda count: of(ten_of_twenty(count)),
        "begen": lambda count: of(begen.generate(begen.Setting(subscriptions=count))),
        "begen-zipf": lambda count: of(begen.generate(begen.Setting(subscriptions=count, exponent=1.0))),
        "mics-uniform": lambda count: of(mics.mics("uniform", count, standard.EVENTS)),
        "mics-zipf": lambda count: of(mics.mics("zipf", count, standard.EVENTS)),
        "vcr-90-10": lambda count: of(skew.skew(subscriptions=count)),
        "intervals": intervals,
        "addresses": lambda count: of(addresses(count)),
        "ads": ads,
        "texts": texts,
    }
    for name in ("acl1", "ipc1"):
        if data is not None:
            made[name] = lambda count, name=name: of(packets(data / f"{name}_10k.gz"))  # type: ignore[misc]
    return made


def searches(index: Any, book: Book) -> dict[str, Callable[[], tuple[Any, ...]]]:
    """Both ways to search."""
    eligible, one = all_eligible(book.table), OneEvent()
    events, few = book.events, first_events(book.events, SINGLES)
    ends = few.start.tolist()
    columns = (few.attr.tolist(), few.lo.tolist(), few.hi.tolist())
    entries = [(*entry, "") for entry in zip(*columns, strict=True)]

    def single() -> tuple[Any, ...]:
        found: list[int] = []
        for begin, end in itertools.pairwise(ends):
            one.take(entries[begin:end])
            found += index.best_of_one(one, book.k, eligible, False)[0] if book.k else index.match_one(one, eligible)
        return (found,)

    def batch() -> tuple[Any, ...]:
        found = index.top_k_many(events, book.k, eligible)[:2] if book.k else index.match_many(events, eligible)
        return tuple(found)

    return {BATCH: batch, SINGLE: single}


def measured(name: str, book: Book, repeats: int, limit: float) -> tuple[list[Figure], Any, float]:
    """The figures of a book, the plan, and the share of the build that planning took."""
    size = len(book.table.sequence)
    auto = indexes.builder("auto", {"k": book.k})
    auto(book.table)  # compiles
    begun = time.perf_counter()  # by the clock of the plan
    built = {"auto": auto(book.table)}
    took = time.perf_counter() - begun
    plan = built["auto"].plan
    attributes = len(np.unique(book.table.attr))
    built |= {one: indexes.builder(one)(book.table) for one, most in NAMED.items() if attributes <= most}
    found: list[Figure] = []
    for way in (BATCH, SINGLE):
        runs = {label: searches(index, book)[way] for label, index in built.items()}
        wanted = runs["auto"]()
        done = race(runs, repeats, limit, lambda _, got, wanted=wanted: unequal(got, wanted), by_processor)  # type: ignore[misc]
        found += figures(done, name, size, way, standard.EVENTS if way == BATCH else SINGLES)
    return found, plan, plan.seconds / max(took, 1e-9)


def report(name: str, found: list[Figure], plan: Any, share: float, bars: Bars) -> None:
    """Print one book and judge it."""
    size = found[0].subscriptions
    print(f"{name}, {size_name(size)}: '{plan.index}'")
    for way in (BATCH, SINGLE):
        values = {one.engine: one.values for one in found if one.what == way and one.values}
        costs = {engine: median(took) for engine, took in values.items()}
        own = costs.pop("auto")
        best = min(costs, key=lambda one: costs[one])
        others = ", ".join(f"{one} {number(cost)}" for one, cost in sorted(costs.items(), key=lambda item: item[1])[:4])
        print(f"  {way}: {number(own)} µs; {others}")
        print(f"  {way}: {ratio_with_spread(values['auto'], values[best])} the time of {best}")
        bar = max(TIMES, 1 + MORE / costs[best])
        bars.at_most(f"{name}, {size_name(size)}, {way}, to {best}", own / costs[best], bar)
    if size >= standard.SUBSCRIPTIONS:
        bars.at_most(f"{name}, {size_name(size)}, planning beside the build", share, PLANNING)


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2k subscriptions, three repeats")
    parser.add_argument("--sizes", type=sizes, help="default: 10k,1m")
    parser.add_argument("--workloads", type=listed, help="default: all")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="of packet rules")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args(given)
    known = books(options.data)
    chosen = options.sizes or ([2_000] if options.quick else [10_000, standard.SUBSCRIPTIONS])
    unknown = [one for one in options.workloads or () if one not in known]
    if unknown:
        parser.error(f"there is no workload called {unknown[0]!r}; there are {', '.join(known)}")
    for name in () if options.quick else KINDS:  # what is not compiled does not race
        warm_index(name)
    bars, every = Bars(not options.quick), []
    for name in options.workloads or known:
        done = set()
        for size in chosen:
            book = known[name](size)
            if len(book.table.sequence) in done:
                continue  # its natural size is smaller
            done.add(len(book.table.sequence))
            repeats, limit = (QUICK_REPEATS, 0.5) if options.quick else (REPEATS, 4.0)
            found, plan, share = measured(name, book, repeats, limit)
            report(name, found, plan, share, bars)
            every += found
    wrong = [one for one in every if one.status == "wrong"]
    for figure in wrong:
        print(f"WRONG: {figure.engine} on {figure.workload} at {figure.subscriptions:,}: {figure.note}")
    if options.json:
        Result("auto", {"sizes": chosen}, every).write(options.json)
    print(f"{len(bars.missed)} missed" + "".join(f"\n  {one}" for one in bars.missed))
    return 1 if wrong or bars.missed else 0


if __name__ == "__main__":
    sys.exit(main())
