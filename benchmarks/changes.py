"""What does a change of a large book cost, and what does it leave behind?

    python benchmarks/changes.py [--size 1m] [--indexes be_star_tree,blocks] [--parts one,sustained,aged]
                                 [--changes 20000] [--seconds 60] [--limit 900] [--json FILE] [--quick]

w2, with conditions as text. Three parts, each bounded by `--limit` seconds:

one         `add`, `remove` and `update` of one subscription, one after another, with the compactions that this causes:
            median and 99th percentile, of all but the first twentieth, in which caches fill. Bars: 40, 15 and 60 µs,
            and for the 99th percentile five times these bars, not five times the median that was measured
sustained   20,000 changes a second in batches of 1,000 (`add_many` and `remove_many` in turns) for `--seconds`, and a
            thread that matches an event every 20 ms beside them. Bars: at least 95 % of that rate is reached, and the
            99th percentile of the match is at most 1.5 times what it is beside a thread that only keeps the
            interpreter busy (`readers.py` says why)
aged        as many random changes as the book has subscriptions, one by one, against the same subscriptions built at
            once: µs per event, in a batch and one by one, and memory, each in a process of its own. Bars: 1.3 times,
            and 2 times the memory of the book built at once for the peak of its compaction

`--quick` takes 20k subscriptions, 1,000 changes and 3 seconds. Bars are judged at 1M alone. Exit code 1 when one is
missed, or the aged book answers otherwise than the one built at once.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather

from blocks import by_processor
from contenders import Bars, race
from earmark import Matcher
from earmark.matcher import DEFAULT_INDEX
from earmark.report.protocol import QUICK_REPEATS, REPEATS, Peak, resident_bytes
from earmark.workload.standard import SUBSCRIPTIONS, WORKLOADS, Workload
from load import bounds
from readers import BAR as READERS_BAR
from readers import busy, latencies
from results import PER_EVENT, Figure, Result
from run import listed, sizes
from tables import size_name

PARTS = ("one", "sustained", "aged")
ONE_BARS = {"add": 40.0, "remove": 15.0, "update": 60.0}
TAIL, AGED_BAR, PEAK_BAR = 5.0, 1.3, 2.0
RATE, ROWS, ONE_BY_ONE = 20_000, 1_000, 300
REACHED, EACH = 0.95, "time per change at the rate reached"
CHANGE, MEMORY = "µs a change", "MiB"


class Book:
    """A matcher with w2 in it, the ids that are living, and more subscriptions like those it has."""

    def __init__(self, workload: Workload, index: str, seed: int = 7) -> None:
        self.workload = workload
        self.m = Matcher(index)
        self.ids = list(range(len(workload.sub_lo)))
        self.following = len(self.ids)
        self.random = random.Random(seed)

    def load(self) -> None:
        """Add the workload's subscriptions."""
        self.m.add_many(bounds(self.workload), progress=False)
        self.m.match(self.event(0))

    def event(self, number: int) -> dict[str, int]:
        """One of the workload's events."""
        values = self.workload.event_value[number % len(self.workload.event_value)].tolist()
        return {f"a{a}": value for a, value in enumerate(values)}

    def condition(self) -> str:
        """The condition of one of the workload's subscriptions, as text."""
        row = self.random.randrange(len(self.workload.sub_lo))
        pairs = zip(self.workload.sub_lo[row].tolist(), self.workload.sub_hi[row].tolist(), strict=True)
        return " AND ".join(f"a{a} BETWEEN {lo} AND {hi}" for a, (lo, hi) in enumerate(pairs))

    def rows(self, count: int) -> pa.Table:
        """New subscriptions as columns; they count as living."""
        at = self.random.randrange(max(1, len(self.workload.sub_lo) - count))
        table = bounds(self.workload.part(at, at + count))
        ids = range(self.following, self.following + table.num_rows)
        self.ids += ids
        self.following += table.num_rows
        return table.set_column(0, "id", pa.array(ids))

    def taken(self) -> int:
        """The id of a living subscription, which counts as removed."""
        at = self.random.randrange(len(self.ids))
        self.ids[at], self.ids[-1] = self.ids[-1], self.ids[at]
        return self.ids.pop()

    def change(self, kind: str) -> Callable[[], None]:
        """A random change of one subscription, ready to be made."""
        if kind == "remove":
            return partial(self.m.remove, self.taken())
        if kind == "update":
            return partial(self.m.update, self.random.choice(self.ids), self.condition())
        self.ids.append(self.following)
        self.following += 1
        return partial(self.m.add, self.ids[-1], self.condition())


def one_by_one(book: Book, changes: int, limit: float) -> list[Figure]:
    """Medians and 99th percentiles of single changes."""
    found = []
    for kind in ONE_BARS:
        made, deadline = book.m._compactor.compactions, time.perf_counter() + limit / len(ONE_BARS)
        spent: list[float] = []
        while len(spent) < changes and time.perf_counter() < deadline:
            change = book.change(kind)
            begun = time.perf_counter()
            change()
            spent.append((time.perf_counter() - begun) * 1e6)
        book.m._compactor.wait()
        counted, size = spent[len(spent) // 20 :], len(book.workload.sub_lo)
        note = f"{len(counted):,} changes, {book.m._compactor.compactions - made} compactions"
        for what, value in ((kind, np.median(counted)), (f"{kind}, p99", np.quantile(counted, 0.99))):
            found.append(Figure("w2", size, book.m.index, what, CHANGE, [float(value)], note=note))
        print(f"  {kind}: median {found[-2].values[0]:.1f} µs, p99 {found[-1].values[0]:.1f} µs; {note}", flush=True)
    return found


def sustained(book: Book, seconds: float) -> list[Figure]:
    """The 99th percentiles of a match: beside changes, and beside a busy thread."""
    batches, most = [0], round(seconds * RATE / ROWS)
    book.m.add_many(book.rows(ROWS), progress=False)
    book.m.match(book.event(0))  # what scans the newest rows is compiled before the clock starts

    def writer(stop: threading.Event) -> None:
        due = time.perf_counter()
        while batches[0] < most and not stop.is_set():
            if batches[0] % 2:
                book.m.remove_many([book.taken() for _ in range(ROWS)])
            else:
                book.m.add_many(book.rows(ROWS), progress=False)
            batches[0] += 1
            due += ROWS / RATE
            time.sleep(max(0.0, due - time.perf_counter()))

    events = [book.event(number) for number in range(len(book.workload.event_value))]
    begun = time.perf_counter()
    beside = latencies(book.m, writer, seconds, events)
    rate = batches[0] * ROWS / (time.perf_counter() - begun)
    book.m._compactor.wait()
    control = latencies(book.m, busy, min(seconds, 20.0), events)
    found, size = [], len(book.workload.sub_lo)
    for what, spent in (("match beside changes, p99", beside), ("match beside a busy thread, p99", control)):
        note = f"{len(spent):,} matches; {rate:,.0f} changes a second"
        values = [float(np.quantile(spent, 0.99)) * 1e6]
        found.append(Figure("w2", size, book.m.index, what, PER_EVENT, values, events=1, note=note))
        print(f"  {what}: {values[0]:,.0f} µs ({note})", flush=True)
    found.append(Figure("w2", size, book.m.index, EACH, CHANGE, [1e6 / max(rate, 1e-9)]))
    return found


# --- the aged book, in processes of their own ------------------------------------------------------------------


def settled_bytes() -> int:
    """What the process holds, when the allocator has given back what it can."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    return resident_bytes()


def warm(index: str) -> None:
    """Everything once on a small book: compiled kernels and libraries are nobody's memory."""
    book = Book(WORKLOADS["w2"](subscriptions=3_000), index)
    book.load()
    for _ in range(300):
        for kind in ONE_BARS:
            book.change(kind)()
    book.m._compactor.wait()
    book.m.compact()
    book.m.match_many([book.event(0)])


def age(job: dict[str, Any]) -> dict[str, Any]:
    """Change a book at random, write it to a file, and compare it with one built of that file."""
    warm(job["index"])
    workload = WORKLOADS["w2"](subscriptions=job["size"])
    book = Book(workload, job["index"])
    before = settled_bytes()
    book.load()
    changes, deadline = 0, time.perf_counter() + job["limit"]
    while changes < job["size"] and time.perf_counter() < deadline:
        book.change(book.random.choice(tuple(ONE_BARS)))()
        changes += 1
    book.m._compactor.wait()
    memory = settled_bytes() - before
    feather.write_feather(book.m.to_arrow(), job["file"], "uncompressed")
    built = Matcher(job["index"])
    built.add_many(feather.read_table(job["file"]), progress=False)
    events = [book.event(number) for number in range(len(workload.event_value))]
    wrong = book.m.match_many(events).equals(built.match_many(events)) is False
    found: dict[str, Any] = {"changes": changes, "memory": memory, "wrong": wrong}
    found["segments"] = [[len(one), one.live] for one in book.m._version.segments]
    few, both = events[:ONE_BY_ONE], {"aged": book.m, "built": built}
    clock, repeats = by_processor, job["repeats"]
    batch = race({name: (lambda m=m: m.match_many(events)) for name, m in both.items()}, repeats, 60, None, clock)
    single = race({name: (lambda m=m: [m.match(e) for e in few]) for name, m in both.items()}, repeats, 60, None, clock)
    for what, seconds, count in (("batch", batch.seconds, len(events)), ("single", single.seconds, len(few))):
        found[what] = {name: [one * 1e6 / count for one in values] for name, values in seconds.items()}
    del built, both
    peak, held = Peak(), settled_bytes()
    with peak.watched():
        book.m.compact()
    return found | {"peak": peak.bytes - held}


def build(job: dict[str, Any]) -> dict[str, Any]:
    """What a book takes that is built at once."""
    warm(job["index"])
    table = feather.read_table(job["file"], memory_map=False)
    before = settled_bytes()
    m = Matcher(job["index"])
    m.add_many(table, progress=False)
    m.remove(int(table["id"][0].as_py()))  # which makes what finds ids; the aged book has it as well
    return {"memory": settled_bytes() - before}


def in_process(what: str, job: dict[str, Any], limit: float) -> dict[str, Any]:
    """What `age` or `build` returns, from a process of its own."""
    command = [sys.executable, __file__, "--job", json.dumps([what, job])]
    done = subprocess.run(command, timeout=limit, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{what} failed: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def aged(size: int, index: str, limit: float, repeats: int) -> list[Figure]:
    """A book after many changes beside the same one built at once."""
    with tempfile.TemporaryDirectory() as folder:
        job = {"index": index, "size": size, "limit": limit, "repeats": repeats, "file": f"{folder}/book.arrow"}
        old = in_process("age", job, 2 * limit + 600)
        new = in_process("build", job, 600)
    status, note = ("wrong", "answers differ") if old["wrong"] else ("ok", f"{old['changes']:,} changes")
    found = []
    for what in ("batch", "single"):
        for who, values in old[what].items():
            label = f"{who}, {what}"
            found.append(Figure("w2", size, index, label, PER_EVENT, [] if old["wrong"] else values, status, 1, note))
    for what, bytes_ in (("aged", old["memory"]), ("built", new["memory"]), ("compaction's peak", old["peak"])):
        found.append(Figure("w2", size, index, f"{what}, memory", MEMORY, [bytes_ / 2**20], note=note))
    print(f"  after {old['changes']:,} changes, segments as (slots, living): {old['segments']}")
    return found


def judge(figures: list[Figure], judged: bool) -> Bars:
    """Say which bars held."""
    bars = Bars(judged)
    for index in dict.fromkeys(one.engine for one in figures):
        median = {one.what: one.summary.median for one in figures if one.engine == index and one.status == "ok"}
        for kind, bar in ONE_BARS.items():
            if kind in median:
                bars.at_most(f"{index}, {kind}", median[kind], bar, "µs")
                bars.at_most(f"{index}, {kind}, p99", median[f"{kind}, p99"], TAIL * bar, "µs")
        if EACH in median:
            bars.at_least(f"{index}, sustained", 1e6 / median[EACH], REACHED * RATE, "changes per second")
        for what, own, other, bar in (
            ("match beside changes", "match beside changes, p99", "match beside a busy thread, p99", READERS_BAR),
            ("aged, batch", "aged, batch", "built, batch", AGED_BAR),
            ("aged, single", "aged, single", "built, single", AGED_BAR),
            ("aged, memory", "aged, memory", "built, memory", AGED_BAR),
            ("compaction's peak", "compaction's peak, memory", "built, memory", PEAK_BAR),
        ):
            if own in median and other in median:
                bars.at_most(f"{index}, {what}", median[own] / median[other], bar)
    return bars


def main(arguments: list[str] | None = None) -> int:
    """Measure; 1 when a bar is missed or an answer is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=sizes, default=[SUBSCRIPTIONS], help="subscriptions (default: 1m)")
    parser.add_argument("--indexes", type=listed, default=[DEFAULT_INDEX, "blocks"], help="default: %(default)s")
    parser.add_argument("--parts", type=listed, default=list(PARTS), help="default: all")
    parser.add_argument("--changes", type=int, default=20_000, help="single changes of each kind (%(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of sustained changes (%(default)s)")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds a part (%(default)s)")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    parser.add_argument("--job", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.job:
        what, job = given.job
        print(json.dumps({"age": age, "build": build}[what](job)))
        return 0
    size = 20_000 if given.quick else given.size[-1]
    changes, seconds = (1_000, 3.0) if given.quick else (given.changes, given.seconds)
    found: list[Figure] = []
    for index in dict.fromkeys(given.indexes):
        print(f"{index}, {size_name(size)} subscriptions", flush=True)
        if {"one", "sustained"} & set(given.parts):
            book = Book(WORKLOADS["w2"](subscriptions=size), index)
            book.load()
            found += one_by_one(book, changes, given.limit) if "one" in given.parts else []
            found += sustained(book, min(seconds, given.limit)) if "sustained" in given.parts else []
            del book
        if "aged" in given.parts:
            found += aged(size, index, given.limit, QUICK_REPEATS if given.quick else REPEATS)
    bars = judge(found, size == SUBSCRIPTIONS)
    if given.json:
        Result("changes", {"size": size, "changes": changes, "seconds": seconds}, found).write(given.json)
    wrong = any(one.status == "wrong" for one in found)
    if wrong:
        print("WRONG: an aged book does not answer as the one built at once")
    return int(wrong or bool(bars.missed))


if __name__ == "__main__":
    sys.exit(main())
