"""What do shards cost a worker? Without Spark, in one process and on one core.

    python benchmarks/shard_costs.py [--quick] [--parts router,shards]

router    w2-like boxes, 4M in 400 shards: processor time of routing an event. Bar: 15 µs. (Cutting 4M takes minutes.)
shards    200,000 of them in 16 and in 256 shards, published to a folder: what a worker takes for the 10 best of 40,000
          events that come in batches of 10,000. Bar: 1.5 x. And how often it looks at the segment file of each of the
          256 shards, from opening the version on: opens and stats. Bar: 2 per shard. The version's other files (its
          record, the router, keys) are a few whatever the number of shards, and are not counted.

What carried columns take is measured in a worker of Spark's: `spark_memory.py --parts carried`.

Exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from earmark import Matcher
from earmark import index as indexes
from earmark.book.folder import read_manifest, read_record
from earmark.book.publishing import publishing
from earmark.book.saving import Shelf, verify, write_version
from earmark.book.segments import write_whole
from earmark.book.sharding import sharded as in_shards
from earmark.engine import cutting
from earmark.engine.batch import read
from earmark.engine.covers import covers_of
from earmark.engine.router import Router
from earmark.engine.version import IndexedSegment, Version
from earmark.flat import bits
from earmark.segment.arrays import gather
from earmark.spark.frames import RESULTS, Columns
from earmark.spark.search import Search, match_batches
from earmark.workload.standard import HOT_SPOTS, w2_boxes, w2_points

ROUTER_BAR, SHARDS_BAR, LOOKS_BAR = 15.0, 1.5, 2
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


def routed(matcher: Matcher, shards: int) -> Version:
    """The same subscriptions in shards without indexes, of which only the router counts."""
    whole = matcher._version.whole
    sample = gather(whole.arrays, np.arange(0, len(whole), max(len(whole) // cutting.SAMPLE, 1)))
    like, own = cutting.proxies(sample), cutting.shards_of(whole.arrays, cutting.learned(sample, shards))
    segments, covers = [], []
    for number in range(shards):
        segment = whole.pick(np.flatnonzero(own == number))
        segments.append(IndexedSegment.of(segment, indexes.builder("scan")(segment.arrays)))
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


def routing(version: Version, table: pa.Table) -> float:
    """µs of processor time that routing an event takes, after a line about it (a row of the table in docs/scale.md)."""
    router, batch, events = version.router, read(version, table).events, table.num_rows
    assert router is not None
    micros = least(lambda: router.route(batch)) / events * 1e6
    covers, shards = len(router.segment_of), len(router.route(batch)[1]) / events
    met = len(router.index.match_many(batch, bits.all_set(covers))[1]) / events
    said = f"{version.live:,} in {router.segments} shards: {covers:,} covers ({router.name})"
    print(f"  {said}, {met:.0f} and {shards:.1f} shards met per event, {micros:.1f} µs to route it", flush=True)
    return micros


def router(count: int, shards: int, events: int) -> bool:
    """What routing an event takes."""
    matcher, table = drawn(count, events)
    micros = routing(routed(matcher, shards), table)
    return bar(f"router: {micros:.1f} µs per event (bar {ROUTER_BAR:.0f})", micros <= ROUTER_BAR)


def published(matcher: Matcher, root: Path, shards: int) -> Search:
    """The same subscriptions as a book of shards; how a worker is asked for the 10 best."""
    version = matcher._version
    with publishing(root) as site:
        write_whole(site.folder / "segment", version.whole)
        source = (site.folder / "segment", None, version.whole, version.whole.arrays.sequence)
        made = in_shards(site, [source], version.schema, shards, "blocks", version.live, True)
        (site.folder / "segment").unlink()
        record = write_version(site, made, "blocks", Shelf(read_manifest(root)["book"]))
        record = site.commit({**record, "base": None, "rejected": 0})
    verify(root, record)
    return Search(str(root), record["version"], record["checksum"], 10, False, (), None)


def looks(search: Search, columns: Columns, batches: list[pa.RecordBatch]) -> dict[str, int]:
    """How often a worker that opens a version and searches it looks at each file."""
    looked: Counter[str] = Counter()

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *more: Any, **named: Any) -> Any:
            if not isinstance(path, int):
                looked[Path(os.fspath(path)).name] += 1
            return real(path, *more, **named)

        return call

    with ExitStack() as stack:
        for name in ("open", "stat", "lstat"):
            stack.enter_context(patch.object(os, name, counted(getattr(os, name))))
        for _ in match_batches(search, columns, iter(batches)):
            pass
    record = read_record(Path(search.root), search.version)
    return {entry["file"]: looked[entry["file"]] for entry in record["segments"]}


def shards(count: int, few: int, many: int, events: int) -> bool:
    """What more shards take."""
    matcher, table = drawn(count, events)
    table = table.append_column("event", pa.array(np.arange(events)))
    columns = Columns([5], [(f"a{i}", i) for i in range(5)], None, None, ["event", *RESULTS])
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for number in (few, many):
            search = published(matcher, Path(folder) / str(number), number)
            batches = table.to_batches(max_chunksize=10_000)
            looked = looks(search, columns, batches)
            routing(search.opened(), table.drop_columns("event"))
            seconds.append(least(lambda s=search, b=batches: sum(1 for _ in match_batches(s, columns, iter(b)))))
    ratio = seconds[1] / seconds[0]
    took = f"{seconds[1]:.2f} s in {many} shards, {seconds[0]:.2f} s in {few}"
    said = f"top 10 of {events:,} events on {count:,}: {took}, {ratio:.2f} x (bar {SHARDS_BAR})"
    most = max(looked.values())
    held = bar(said, ratio <= SHARDS_BAR)
    return (
        bar(f"looks at the file of a shard, {many} shards: at most {most} (bar {LOOKS_BAR})", most <= LOOKS_BAR)
        and held
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="50,000 subscriptions instead of 200,000 and 4M")
    parser.add_argument("--parts", default="shards,router", help="which parts to run (%(default)s)")
    options = parser.parse_args()
    parts, held = options.parts.split(","), []
    if "shards" in parts:
        held.append(shards(*((50_000, 4, 64, 10_000) if options.quick else (200_000, 16, 256, 40_000))))
    if "router" in parts:
        held.append(router(*((50_000, 32, 5_000) if options.quick else (4_000_000, 400, 20_000))))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
