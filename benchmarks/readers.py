"""Does a reader wait for writers, or for compaction?

    python benchmarks/readers.py [--quick]

An event arrives every 20 ms, and one thread matches it, while another calls `add_many` 1,000 times with 1,000 rows
each, with all the compactions that this causes. The control is the same reader beside a thread that only keeps the
interpreter busy: Python's own lock costs a reader milliseconds whatever the other thread does. A latency counts from
the arrival to the answer, so that an event behind a slow one is slow too. (A reader that asks without a pause loses
the interpreter once in 5 ms, which is about one match in a hundred: its 99th percentile is now 0.1 ms, now 5.)
Bar: the 99th percentile is at most 1.5 times the control's, per index. In turns, several times, since other programs
disturb both. `--quick` takes a tenth.
"""

from __future__ import annotations

import argparse
import math
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from earmark import Matcher

CALLS, ROWS, BAR, PAUSE = 1_000, 1_000, 1.5, 0.02
INDEXES = ("be_star_tree", "blocks")


def rows(first: int, count: int) -> pa.Table:
    """Rules on two of three attributes."""
    rng = np.random.default_rng(first)
    low = rng.integers(0, 100_000, (count, 2))
    ids = np.arange(first, first + count)
    return pa.table(
        {"id": ids, "a_lo": low[:, 0], "a_hi": low[:, 0] + 40, "b_lo": low[:, 1], "b_hi": low[:, 1] + 9_000}
    )


def latencies(
    m: Matcher, beside: Callable[[threading.Event], None], seconds: float | None, events: Sequence[Mapping[str, int]]
) -> np.ndarray:
    """Seconds from arrivals to answers until the other thread ends, or for so long."""
    stop, spent = threading.Event(), []
    other = threading.Thread(target=beside, args=(stop,))
    other.start()
    arrives = time.perf_counter()
    until = math.inf if seconds is None else arrives + seconds
    while other.is_alive() and arrives < until:
        arrives += PAUSE
        time.sleep(max(0.0, arrives - time.perf_counter()))
        m.match(events[len(spent) % len(events)])
        spent.append(time.perf_counter() - arrives)
    stop.set()
    other.join()
    return np.array(spent)


def busy(stop: threading.Event) -> None:
    """A thread that computes in plain Python."""
    total = 0
    while not stop.is_set():
        for i in range(1_000):
            total += i * i


def measured(index: str, calls: int) -> tuple[float, float]:
    """The 99th percentiles, in seconds: beside writers, and beside a busy thread."""
    m = Matcher(index)
    m.add_many(rows(0, 100 * ROWS), progress=False)
    m.match({"a": 1, "b": 1})
    first = 100 * ROWS

    def writer(_: threading.Event) -> None:
        for call in range(calls):
            m.add_many(rows(first + call * ROWS, ROWS), progress=False)
        m._compactor.wait()

    values = np.random.default_rng(7).integers(0, 100_000, (10_000, 2)).tolist()
    events = [{"a": a, "b": b} for a, b in values]
    begun = time.perf_counter()
    beside_writer = latencies(m, writer, None, events)
    took = time.perf_counter() - begun
    assert len(m) == first + calls * ROWS
    compactions = m.stats()["compactions"]
    control = latencies(m, busy, min(took, 20.0), events)
    p99, own = (float(np.quantile(one, 0.99)) for one in (beside_writer, control))
    print(
        f"{index:14} {calls} x {ROWS} rows in {took:.1f} s, {compactions} compactions; p99 {p99 * 1e3:.2f} ms "
        f"({len(beside_writer):,} matches), control {own * 1e3:.2f} ms ({len(control):,}): ratio {p99 / own:.2f}",
        flush=True,
    )
    return p99, own


def main(arguments: list[str] | None = None) -> int:
    """Measure; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args(arguments)
    missed = False
    for index in INDEXES:
        turns = [measured(index, CALLS // 10 if given.quick else CALLS) for _ in range(1 if given.quick else 3)]
        ratio = float(np.median([p99 / own for p99, own in turns]))
        missed |= ratio > BAR
        print(f"{index}: {ratio:.2f} times the control, bar {BAR}: {'held' if ratio <= BAR else 'MISSED'}", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
