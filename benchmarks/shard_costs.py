"""What do shards cost a worker? Without Spark, in one process and on one core.

    python benchmarks/shard_costs.py [--quick] [--parts router,shards,memory]

router    w2-like boxes, 4M in 400 shards: processor time of routing an event. Bar: 15 µs. (Cutting 4M takes minutes.)
shards    200,000 of them: the 10 best of 40,000 events in 16 and in 256 shards, batches of 20,000. Bar: 1.5 x.
memory    2,000 events that carry 2 KB each and match 1,000 subscriptions: the greatest resident size. Bar: 600 MB.

Exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from earmark import Matcher
from earmark import index as indexes
from earmark.book.folder import newest
from earmark.engine import cutting
from earmark.engine.batch import read
from earmark.engine.covers import covers_of
from earmark.engine.router import Router
from earmark.engine.searcher import Ask, Searcher
from earmark.engine.version import IndexedSegment, Version
from earmark.segment.arrays import gather
from earmark.spark.frames import RESULTS, Columns
from earmark.spark.search import Search, match_batches
from earmark.workload.standard import HOT_SPOTS, w2_boxes, w2_points

ROUTER_BAR, SHARDS_BAR, MEMORY_BAR = 15.0, 1.5, 600.0
REPEATS = 5


def drawn(count: int, events: int) -> tuple[Matcher, pa.Table]:
    """Boxes like those of w2, in a Matcher that scans them, and points."""
    random = np.random.default_rng(20240602)
    hot = random.uniform(150, 850, size=(HOT_SPOTS, 5))
    points, (low, high) = w2_points(random, hot, events), w2_boxes(random, hot, count)
    columns: dict[str, Any] = {"id": np.arange(count)}
    for i in range(5):
        columns[f"a{i}_lo"], columns[f"a{i}_hi"] = low[:, i], high[:, i]
    matcher = Matcher(index="scan")
    matcher.add_many(pa.table(columns))
    return matcher, pa.table({f"a{i}": points[:, i] for i in range(5)})


def sharded(matcher: Matcher, shards: int, indexed: bool) -> Version:
    """The same subscriptions in shards; without their indexes where only the router counts."""
    whole = matcher._version.whole
    sample = gather(whole.arrays, np.arange(0, len(whole), max(len(whole) // cutting.SAMPLE, 1)))
    like, own = cutting.proxies(sample), cutting.shards_of(whole.arrays, cutting.learned(sample, shards))
    segments, covers = [], []
    for number in range(shards):
        segment = whole.pick(np.flatnonzero(own == number))
        index = indexes.builder("blocks" if indexed else "scan")(segment.arrays)
        segments.append(IndexedSegment.of(segment, index))
        covers.append(covers_of(segment.arrays, like))
    version = matcher._version
    return Version(version.schema, tuple(segments), len(whole), version.uses, Router.of(covers), True)


def least(call: Callable[[], Any]) -> float:
    """The least processor time of some runs, after one that does not count."""
    call()
    times = []
    for _ in range(REPEATS):
        begun = time.process_time()
        call()
        times.append(time.process_time() - begun)
    return min(times)


def bar(said: str, holds: bool) -> bool:
    """Say of a bar whether it holds."""
    print(f"  {said} -> {'held' if holds else 'MISSED'}", flush=True)
    return holds


def router(count: int, shards: int, events: int) -> bool:
    """What routing an event takes."""
    matcher, table = drawn(count, events)
    version = sharded(matcher, shards, indexed=False)
    batch = read(version, table).events
    assert version.router is not None
    route = version.router.route
    micros = least(lambda: route(batch)) / events * 1e6
    met = route(batch).sum() / events
    covers = len(version.router.segment_of)
    said = f"router, {count:,} in {shards} shards: {micros:.1f} µs per event (bar {ROUTER_BAR:.0f})"
    return bar(f"{said}; {covers:,} covers, {met:.1f} shards per event", micros <= ROUTER_BAR)


def shards(count: int, few: int, many: int, events: int) -> bool:
    """What more shards take."""
    matcher, table = drawn(count, events)
    seconds = []
    for number in (few, many):
        searcher = Searcher(sharded(matcher, number, indexed=True), Ask(10))
        batches = [read(searcher.version, table.slice(at, 20_000)) for at in range(0, events, 20_000)]
        seconds.append(least(lambda s=searcher, b=batches: [s.answers(one) for one in b]))
    ratio = seconds[1] / seconds[0]
    took = f"{seconds[1]:.2f} s in {many} shards, {seconds[0]:.2f} s in {few}"
    return bar(
        f"top 10 of {events:,} events on {count:,}: {took}, {ratio:.2f} x (bar {SHARDS_BAR})", ratio <= SHARDS_BAR
    )


def memory(events: int) -> bool:
    """What carried columns take."""
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder) / "book"
        matcher = Matcher()
        matcher.add_many([{"id": f"subscription {i}", "condition": f"a > {i % 50}"} for i in range(1_000)])
        matcher.save(book)
        record = newest(book, None, dict)
        search = Search(str(book), 1, record["checksum"], None, False, (), None)
        batch = pa.record_batch({"text": ["x" * 2_048] * events, "a": pa.array([99] * events, pa.int64())})
        columns = Columns([0], [("a", 1)], None, None, ["text", *RESULTS])
        rows = sum(made.num_rows for made in match_batches(search, columns, iter([batch])))
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000
    return bar(f"memory: {rows:,} rows of 2 KB, at most {most:,.0f} MB (bar {MEMORY_BAR:.0f})", most <= MEMORY_BAR)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="50,000 subscriptions instead of 200,000 and 4M")
    parser.add_argument("--parts", default="memory,shards,router", help="which parts to run (%(default)s)")
    options = parser.parse_args()
    parts, held = options.parts.split(","), []
    if "memory" in parts:  # first: the greatest size is that of the process
        held.append(memory(500 if options.quick else 2_000))
    if "shards" in parts:
        held.append(shards(*((50_000, 4, 64, 10_000) if options.quick else (200_000, 16, 256, 40_000))))
    if "router" in parts:
        held.append(router(*((50_000, 32, 5_000) if options.quick else (4_000_000, 400, 20_000))))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
