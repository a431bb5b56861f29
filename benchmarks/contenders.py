"""What the benchmarks of the BE*-Tree and the blocks share: who runs, in turns, with every answer compared; how a bar
is reported; and a program over the standard workloads.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from earmark import index
from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.report.protocol import QUICK_REPEATS, REPEATS, clocked, summary
from earmark.segment.arrays import SegmentArrays
from earmark.workload.standard import SUBSCRIPTIONS, Workload
from results import PER_EVENT, Figure, Result
from run import listed, sizes
from tables import number

os.environ["EARMARK_NO_WARMING"] = "1"  # nothing is compiled beside what is measured

R = TypeVar("R")

SHORT, MOST_CALLS = 0.02, 50
"""A turn of less than so many seconds repeats its run, up to so often, and the figure is the mean."""


class Contender(NamedTuple):
    """An index under a name of its own, with options."""

    label: str
    index: str
    options: Mapping[str, Any] = {}

    def build(self, table: SegmentArrays) -> Any:
        """The index of a table."""
        return index.builder(self.index)(table, **self.options)


BULK = Contender("BE*-B", "be_star_tree")
"""All subscriptions known in advance, which is how a Matcher builds it."""
RIGID = Contender("BE", "be_tree")
MERGED = Contender("k-index", "k_index")
COUNTED = Contender("k-index, counting", "k_index", {"merge": "counting"})
SCAN = Contender("scan", "scan")


class Race(NamedTuple):
    """Seconds of the runs that count by name, and what was wrong by name."""

    seconds: dict[str, list[float]]
    wrong: dict[str, str]


def race(
    runs: Mapping[str, Callable[[], R]],
    repeats: int,
    limit: float,
    check: Callable[[str, R], str] | None = None,
    clock: Callable[[Callable[[], Any]], tuple[float, Any]] = clocked,
) -> Race:
    """Run everything once, uncounted, then in turns, so that a machine that drifts drifts for all.

    `check` says what is wrong with a result, if anything: then there are no figures. A run that would take longer than
    `limit` seconds altogether has fewer turns, but one at least; a short one is repeated within its turn. `clock` says
    how long a run took, and what it returned.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    wrong: dict[str, str] = {}
    turns, calls = {}, {}
    for name, run in runs.items():
        took, result = clock(run)
        if took * repeats > limit:  # perhaps it compiled
            took, result = clock(run)
        calls[name] = max(1, min(MOST_CALLS, round(SHORT / max(took, 1e-9))))
        turns[name] = max(1, min(repeats, int(limit / max(took * calls[name], 1e-9))))
        problem = check(name, result) if check else ""
        if problem:
            wrong[name] = problem
    for turn in range(repeats):
        for name, run in runs.items():
            if turn >= turns[name] or name in wrong:
                continue
            took, result = clock(lambda run=run, name=name: [run() for _ in range(calls[name])][-1])  # type: ignore[misc]
            problem = check(name, result) if check else ""
            if problem:
                wrong[name] = problem
            seconds[name].append(took / calls[name])
    return Race(seconds, wrong)


def figures(found: Race, workload: str, subscriptions: int, what: str, events: int) -> list[Figure]:
    """The race as figures, µs per event."""
    out = []
    for name, seconds in found.seconds.items():
        status = "wrong" if name in found.wrong else "ok"
        values = [] if status == "wrong" else [one * 1e6 / events for one in seconds]
        note = found.wrong.get(name, "")
        out.append(Figure(workload, subscriptions, name, what, PER_EVENT, values, status, events, note))
    return out


def unequal(found: Sequence[Any], wanted: Sequence[Any]) -> str:
    """How arrays that should be equal, to the last bit, are not."""
    for part, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if not np.array_equal(one, other):
            return f"{('event pointers', 'slots', 'scores')[part]} differ from the scan's"
    return ""


def first_events(events: EventArrays, count: int) -> EventArrays:
    """The first so many events of a batch."""
    start, attr, lo, hi, weight = events
    last = start[count]
    return EventArrays(start[: count + 1], attr[:last], lo[:last], hi[:last], weight[:last])


def all_eligible(table: SegmentArrays) -> Any:
    """The bitmap of every slot."""
    return bits.all_set(len(table.sequence))


def table_bytes(table: SegmentArrays) -> int:
    """Bytes of the table's arrays."""
    return sum(column.nbytes for column in table)


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return summary(values).median


def ratio_with_spread(slow: Sequence[float], fast: Sequence[float]) -> str:
    """How many times, with how far the repeats could push it."""
    middle = median(slow) / median(fast)
    return f"{number(middle)} x ({number(min(slow) / max(fast))} to {number(max(slow) / min(fast))})"


class Bars:
    """Collects which bars held, and says so."""

    def __init__(self, judged: bool) -> None:
        self.judged = judged
        self.missed: list[str] = []

    def at_least(self, what: str, value: float, bar: float, unit: str = "x") -> None:
        """A bar to reach."""
        self._say(what, value, bar, unit, value >= bar, "at least")

    def at_most(self, what: str, value: float, bar: float, unit: str = "x") -> None:
        """A bar to stay under."""
        self._say(what, value, bar, unit, value <= bar, "at most")

    def _say(self, what: str, value: float, bar: float, unit: str, held: bool, which: str) -> None:
        verdict = ("held" if held else "MISSED") if self.judged else "not judged at this size"
        print(f"  {what}: {number(value)} {unit} (bar: {which} {number(bar)}) -> {verdict}")
        if self.judged and not held:
            self.missed.append(what)


def on_workloads(
    name: str,
    about: str | None,
    workloads: Mapping[str, Callable[..., Workload]],
    measure: Callable[[str, Workload, int, float], list[Figure]],
    judge: Callable[[list[Figure], int, bool], Bars],
    limit: float,
    given: Sequence[str] | None = None,
) -> int:
    """A program that measures workloads at growing sizes and judges the largest; its exit code.

    `measure(workload's name, workload, repeats, seconds a run)`, `judge(figures, size, judged)`; bars are judged at the
    full size alone. Any wrong answer and any missed bar makes the exit code 1.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="10k subscriptions, three repeats")
    parser.add_argument("--sizes", type=sizes, help="default: 10k,100k,1m")
    parser.add_argument("--workloads", type=listed, default=list(workloads), help="default: all four")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args(given)
    chosen = options.sizes or ([10_000] if options.quick else [10_000, 100_000, SUBSCRIPTIONS])
    repeats, limit = (QUICK_REPEATS, 2.0) if options.quick else (REPEATS, limit)
    unknown = [one for one in options.workloads if one not in workloads]
    if unknown:
        parser.error(f"there is no workload called {unknown[0]!r}; there are {', '.join(workloads)}")
    found: list[Figure] = []
    for one in options.workloads:
        whole = workloads[one](subscriptions=chosen[-1])
        for size in chosen:
            found += measure(one, whole.head(size), repeats, limit)
    bars = judge(found, chosen[-1], chosen[-1] == SUBSCRIPTIONS)
    if options.json:
        Result(name, {"sizes": chosen, "repeats": repeats}, found).write(options.json)
    wrong = [one for one in found if one.status == "wrong"]
    for figure in wrong:
        print(f"WRONG: {figure.engine} on {figure.workload} at {figure.subscriptions:,}: {figure.note}")
    return 1 if wrong or bars.missed else 0
