"""What does it cost that changes last? Adding, opening, history: the promises of docs/books.md, measured.

    python benchmarks/books.py                    1M subscriptions, 10M changes of history: ten minutes, 5 GB of disk
    python benchmarks/books.py --quick            a hundredth of that
    python benchmarks/books.py --parts history    the last two bars alone; --parts adds,batches the others

| bar | measured as |
|---|---|
| a durable `add` takes one flush and at most 150 µs more | single adds, and between them a flush of as many bytes |
| `add_many` of 1M ready-made rows at most 2 × the time in memory | both in turn, by new processes |
| a book of 1M opens in at most 1 s, the first answer in 0.2 s more | a new process that has searched something else |
| one with 10M changes of history opens as fast | the same book with a long history, in at most 1.25 × the time |
| `history(id)` there in at most 5 ms | ids at random |

Bars are judged at the full size alone, and the exit code is 1 when one is missed.

A flush is what the disk takes to write as much as a commit does; it is measured between the adds, in the same folder,
since it varies with what else the disk does.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import earmark
from contenders import Bars
from earmark.book import saving
from earmark.book.journal import Journal, entry
from earmark.book.rows import ROWS, Part, hash_of, part_of_rows

BATCH = 100_000
AS_FAST = 1.25
"""How much longer the same may take: less is noise."""
COMMIT_BYTES = 3 * 4120
"""What SQLite appends to its WAL for a single row: three pages and their headers."""


def ready_made(count: int, seed: int = 1) -> pa.Table:
    """Subscriptions with five ranges each, as w2 has them."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {"id": pa.array(np.arange(count))}
    for name in "abcde":
        low = rng.integers(0, 900_000, count)
        columns[f"{name}_lo"], columns[f"{name}_hi"] = low, low + rng.integers(1, 100_000, count)
    return pa.table(columns)


def event(rng: np.random.Generator) -> dict[str, int]:
    return {name: int(rng.integers(0, 1_000_000)) for name in "abcde"}


def timed(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def apart(task: str, *given: object) -> dict[str, float]:
    """Run a task of this program in a new process."""
    command = [sys.executable, __file__, "--task", task, *map(str, given)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


# --- the tasks -------------------------------------------------------------------------------------------------


def add_in_memory(count: str) -> dict[str, float]:
    frame = ready_made(int(count))
    m = earmark.Matcher()
    m.add_many(ready_made(1000), progress=False)  # compiled
    m = earmark.Matcher()
    return {"seconds": timed(lambda: m.add_many(frame, progress=False))}


def add_to_book(count: str, folder: str) -> dict[str, float]:
    frame = ready_made(int(count))
    m = earmark.Matcher()
    m.add_many(ready_made(1000), progress=False)
    book = earmark.open(folder)
    seconds = timed(lambda: book.add_many(frame, progress=False))
    book.close()
    return {"seconds": seconds}


def open_book(folder: str, searched: str) -> dict[str, float]:
    """Open a book in a process that has searched before, and so has its kernels loaded, or that has not."""
    from earmark.durable import open as opened

    if searched == "yes":
        m = earmark.Matcher("blocks")
        m.add_many(ready_made(1000), progress=False)
        m.match(event(np.random.default_rng(1)))
    begun = time.perf_counter()
    m = opened(folder)
    middle = time.perf_counter()
    m.match(event(np.random.default_rng(1)))
    end = time.perf_counter()
    m.close()
    return {"open": middle - begun, "first": end - middle}


def history_of(folder: str, ids: str) -> dict[str, float]:
    m = earmark.open(folder, readonly=True, follow=False)
    rng = np.random.default_rng(2)
    m.history(0)
    times = [timed(partial(m.history, int(id))) for id in rng.integers(0, int(ids), 200)]
    return {"median": statistics.median(times), "p99": sorted(times)[-3]}


TASKS: dict[str, Callable[..., dict[str, float]]] = {
    "memory": add_in_memory,
    "book": add_to_book,
    "open": open_book,
    "history": history_of,
}


# --- what is printed -------------------------------------------------------------------------------------------


def single_adds(folder: Path, count: int, bars: Bars) -> None:
    """Durable adds, each beside a flush of as many bytes and an add in memory."""
    book, memory = earmark.open(folder / "single"), earmark.Matcher()
    for m in (book, memory):
        m.add_many([(f"s{i}", f"age > {i} AND price < {i}") for i in range(10_000)], progress=False)
    file = os.open(folder / "flush", os.O_WRONLY | os.O_CREAT)
    content, adds, flushes, beside = bytes(COMMIT_BYTES), [], [], []

    def flush() -> None:
        os.write(file, content)
        os.fdatasync(file)

    for i in range(count):
        condition = f"age > {i} AND price < {i}"
        beside.append(timed(lambda i=i, condition=condition: memory.add(f"n{i}", condition)))
        adds.append(timed(lambda i=i, condition=condition: book.add(f"n{i}", condition)))
        flushes.append(timed(flush))
    os.close(file)
    book.close()
    quick = earmark.open(folder / "single", durability="normal")
    bare = [timed(lambda i=i: quick.add(f"q{i}", f"age > {i} AND price < {i}")) for i in range(count)]
    quick.close()
    add, flush_time = 1e6 * statistics.median(adds), 1e6 * statistics.median(flushes)
    print(
        f"single add: {add:.0f} µs durable, {flush_time:.0f} µs for a flush;"
        f" {1e6 * statistics.median(bare):.0f} µs with durability='normal',"
        f" {1e6 * statistics.median(beside):.0f} µs in memory"
    )
    bars.at_most("a durable add beyond its flush", add - flush_time, 150, "µs")


def batches(folder: Path, count: int, rounds: int, bars: Bars) -> None:
    memory, book = [], []
    for number in range(rounds):
        memory.append(apart("memory", count)["seconds"])
        path = folder / f"batch-{number}"
        book.append(apart("book", count, path)["seconds"])
    print(
        f"add_many of {count:,} ready-made rows: {statistics.median(book):.2f} s,"
        f" {statistics.median(memory):.2f} s in memory"
    )
    bars.at_most("add_many against memory", statistics.median(book) / statistics.median(memory), 2)


def openings(folder: Path, what: str, rounds: int, bars: Bars) -> float:
    """Open a book in new processes; returns the seconds that it takes."""
    found = [apart("open", folder, "yes") for _ in range(rounds)]
    opens, firsts = (statistics.median(one[name] for one in found) for name in ("open", "first"))
    fresh = statistics.median(apart("open", folder, "no")["first"] for _ in range(rounds))
    print(f"opening {what}; the first search of a process takes {fresh:.2f} s, most of it to load compiled code")
    bars.at_most("opening", opens, 1, "s")
    bars.at_most("the first answer after it", firsts, 0.2, "s")
    return opens


def lengthen(folder: Path, changes: int) -> int:
    """Add many changes to the history of a book: the score of each subscription, again and again, and back to 0.

    As if each had been committed by itself, only quicker: the places of ids are written at the end, in order. Since
    scores end where they began, the newest checkpoint is one of the last change too, once it says so. Returns how many.
    """
    with earmark.open(folder) as m:
        frame, first, index, version = m.to_frame(), m.last_change, m.index, m._version
    ids, conditions = frame.column("id").to_pylist(), frame.column("condition").to_pylist()
    states = [f'{{"place":{place},"condition":{json.dumps(text)}' for place, text in enumerate(conditions)]
    assert row_of(ids[0], states[0], 0.0, 1.0) == a_row(ids[0], conditions[0]), "rows have another form now"
    rounds, number, now = max(2, changes // len(ids)), first, time.time_ns() // 1000
    journal = Journal.open(folder, durability="normal")
    for turn in range(rounds):
        old, new = float(turn), float((turn + 1) % rounds)
        for start in range(0, len(ids), BATCH):
            made = []
            for place in range(start, min(start + BATCH, len(ids))):
                number += 1
                part = Part(ROWS, row_of(ids[place], states[place], old, new), (0,))
                made.append(entry(number, now, None, None, "update", [part])[0])
            with journal.writing("written") as connection:
                connection.executemany("INSERT INTO changes VALUES (?,?,?,?,?,?,?,?,?)", made)
    hashes = np.array([hash_of(id) for id in ids])
    order = np.argsort(hashes, kind="stable")
    for some in np.array_split(order, max(1, len(order) // (BATCH // rounds))):
        turns = first + 1 + some[:, None] + np.arange(rounds) * len(ids)
        rows = zip(np.repeat(hashes[some], rounds).tolist(), turns.ravel().tolist(), itertools.repeat(0), strict=False)
        with journal.writing("written") as connection:
            connection.executemany("INSERT INTO touched VALUES (?,?,?)", rows)
    journal.fold("TRUNCATE")
    journal.close()
    saving.save(folder, version, index, saving.Shelf(), number)
    return number - first


def row_of(id: int, state: str, old: float, new: float) -> bytes:
    """The row of a change from one score to another, as `part_of_rows` writes it."""
    before, after = (f'{state},"score":{score}}}' if score else state + "}" for score in (old, new))
    return f"[[{id},{before},{after}]]".encode()


def a_row(id: int, condition: str) -> bytes:
    state = {"place": 0, "condition": condition}
    return part_of_rows([(id, state, {**state, "score": 1.0})]).body


def long_history(folder: Path, count: int, changes: int, rounds: int, before: float, bars: Bars) -> None:
    """Opening and `history` of a book with a long history; `before` it took this long to open."""
    begun = time.perf_counter()
    made = lengthen(folder, changes)
    print(f"{made:,} changes of history were made in {time.perf_counter() - begun:.0f} s", flush=True)
    opens = openings(folder, f"with {made:,} changes of history", rounds, bars)
    bars.at_most("opening against the short history", opens / before, AS_FAST)
    found = apart("history", folder, count)
    size = (folder / "journal.db").stat().st_size / 2**30
    print(f"history of an id among them, {size:.1f} GB: 99 in 100 within {1e3 * found['p99']:.2f} ms")
    bars.at_most("history of an id", 1e3 * found["median"], 5, "ms")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--task", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="where books are made, on the disk to measure")
    parser.add_argument("--changes", type=int, help="length of the long history, instead of ten changes of each")
    parser.add_argument("--parts", default="adds,batches,history", help="which parts to run (default: %(default)s)")
    asked = parser.parse_args()
    if asked.task:
        name, *given = asked.task
        print(json.dumps(TASKS[name](*given)))
        return 0
    bars = Bars(judged=not asked.quick)
    count, rounds = (10_000, 1) if asked.quick else (1_000_000, 3)
    folder = Path(tempfile.mkdtemp(prefix="books-", dir=asked.folder))
    parts, book = asked.parts.split(","), folder / "batch-0"
    try:
        if "adds" in parts:
            single_adds(folder, 100 if asked.quick else 500, bars)
        if "batches" in parts:
            batches(folder, count, rounds, bars)
        elif "history" in parts:
            apart("book", count, book)
        before = openings(book, f"{count:,} subscriptions", rounds, bars) if book.exists() else 0.0
        if "history" in parts:
            long_history(book, count, asked.changes or 10 * count, rounds, before, bars)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if bars.missed else 0


if __name__ == "__main__":
    sys.exit(main())
