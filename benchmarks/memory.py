"""How much memory does a book keep, and how much does loading it take?

    python benchmarks/memory.py [--size 1000000] [--index NAME] [--json FILE]

Loads w2 from an Arrow table of bounds into `Matcher()`, with integer ids and with string ids of 20 bytes, each in a
process of its own. Kept: resident memory afterwards, over that with an empty Matcher and the table, after the allocator
has given back what it can; an id is looked up and an event matched first, so that everything lazy is there. Peak: the
most that was resident while loading, over the same. Bars, per subscription: 250 bytes kept with integer ids, 290 with
strings; the peak is judged against 2.5 times these bars (625 and 725 bytes), not against 2.5 times what was kept. Exit
code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from earmark import Matcher
from earmark.workload.standard import w2

os.environ["EARMARK_NO_WARMING"] = "1"  # also for the processes that measure
BARS = {"integer": 250.0, "string": 290.0}
PEAK = 2.5


def resident() -> int:
    """Bytes of this process in memory, after the allocators have given back what they can."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    return _pages()


def _pages() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class Watch(threading.Thread):
    """Notes the most memory that is resident, a thousand times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = 0
        self.is_done = False

    def run(self) -> None:
        while not self.is_done:
            self.most = max(self.most, _pages())
            time.sleep(0.001)


def table(size: int, ids: str) -> pa.Table:
    """The subscriptions as pairs of columns."""
    workload = w2(subscriptions=size)
    columns = {"id": pa.array(np.arange(size))}
    if ids == "string":
        columns["id"] = pa.array([f"subscription-{i:07}" for i in range(size)])
    for a in range(workload.attributes):
        columns[f"a{a}_lo"], columns[f"a{a}_hi"] = pa.array(workload.sub_lo[:, a]), pa.array(workload.sub_hi[:, a])
    return pa.table(columns)


def measured(size: int, ids: str, index: str | None) -> dict[str, float]:
    """Bytes per subscription: of the table, kept, and at the peak; and seconds."""
    options = {} if index is None else {"index": index}
    warm = Matcher(**options)
    warm.add_many(table(5_000, ids), progress=False)
    warm.match({f"a{i}": 0 for i in range(5)})
    del warm
    frame = table(size, ids)
    with Matcher(**options) as matcher:
        before = resident()
        watch = Watch()
        watch.start()
        begun = time.perf_counter()
        matcher.add_many(frame, progress=False)
        seconds = time.perf_counter() - begun
        watch.is_done = True
        watch.join()
        assert (7 if ids == "integer" else "subscription-0000007") in matcher
        matcher.match({f"a{i}": 0 for i in range(5)})
        kept = resident() - before
    return {
        "table": frame.nbytes / size,
        "kept": kept / size,
        "peak": (watch.most - before) / size,
        "seconds": seconds,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1_000_000, help="number of subscriptions")
    parser.add_argument("--index", help="the index; without it, that of Matcher()")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    figures, held = {}, True
    print(f"{options.size:,} subscriptions of w2; bytes per subscription")
    print(f"{'ids':10}{'input':>8}{'kept':>8}{'bar':>8}{'peak':>8}{'bar':>8}{'seconds':>9}")
    for ids, bar in BARS.items():
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            made = figures[ids] = pool.apply(measured, (options.size, ids, options.index))
        held &= made["kept"] <= bar and made["peak"] <= PEAK * bar
        columns = (made["table"], made["kept"], bar, made["peak"], PEAK * bar)
        print(f"{ids:10}" + "".join(f"{value:8.0f}" for value in columns) + f"{made['seconds']:9.1f}")
    print(f"The bars: {'held' if held else 'NOT held'}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
