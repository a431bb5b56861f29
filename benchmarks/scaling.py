"""How does the cost of an event grow: with subscriptions, matches, attributes, predicates? And which index is quickest?

    python benchmarks/scaling.py [--quick] [--sweeps matches,attributes] [--limit 900] [--docs FOLDER] [--png FOLDER]
                                 [--json FILE]

A sweep changes one number and keeps the others. Ranges are as wide as the wanted number of matches needs; events have
every attribute, unless the sweep says otherwise. Each point races the indexes that `auto` considers (`auto.py` says
how), in a batch of 1,000 events and one event at a time, on one thread, below the API; every answer is compared. Times
are those of the processor. An index that was far behind at the point before is left out, and so is one whose build
would take too long. `--docs FOLDER` writes scaling.md and its pictures there, `--png FOLDER` writes PNGs, `--json FILE`
every figure. No point begins after `--limit` seconds, of which each sweep has its share; the page names the points that
are missing. Exit code 1 when an answer is wrong.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np

from auto import BATCH, NAMED, SINGLE, SINGLES, Book, of, searches
from blocks import by_processor
from contenders import median, race, unequal
from earmark import index as indexes
from earmark.index.auto import KINDS
from earmark.report.experiment import Measurement, Panel, Point, Series
from earmark.report.plots import draw
from earmark.report.protocol import QUICK_REPEATS, machine
from earmark.warming import warm_index
from earmark.workload.standard import EVENTS, Workload
from results import PER_EVENT, Figure, Result
from run import listed
from tables import number, size_name

DOMAIN, SEED, CHUNK = 1 << 30, 23, 100_000
CONSIDERED = [name for name in NAMED if name != "mics"]
LONGEST_BUILD, TURNS, LIMIT = 60.0, 0.4, 900.0
"""Seconds: a build that would take longer, by the one before it, is left out; how long one contender is asked; and how
long all of it may take."""
BEHIND = 30.0
"""Who took so many times longer than the quickest is not asked at the next point of the sweep."""
SLOW = 100.0
"""Microseconds: a point where even the quickest index takes longer is listed as slow."""
WAYS = (BATCH, SINGLE)


class Shape(NamedTuple):
    """What a book and its events look like."""

    count: int
    attributes: int = 5
    predicates: int = 5
    matches: float = 10.0
    """Wanted matches per event, where events have every attribute."""
    width: float = 0.0
    """Of a range, as a share of the domain; 0: what the matches need."""
    carried: int = 0
    """Attributes of an event, which is built around a subscription; 0: all."""
    k: int = 0


class Sweep(NamedTuple):
    """One number that changes."""

    name: str
    title: str
    x: str
    shapes: dict[int | float, Shape]


def sweeps(quick: bool) -> list[Sweep]:
    """All of them."""
    grown = (1_000, 4_000) if quick else (1_000, 10_000, 100_000, 1_000_000, 4_000_000)
    some = 2_000 if quick else 200_000
    amounts = (1, 100) if quick else (0.1, 1, 10, 100, 1_000, 10_000)
    return [
        Sweep("subscriptions-dense", "Subscriptions: 5 ranges on the same 5 attributes, 10 matches", "subscriptions",
              {n: Shape(n) for n in grown}),
        Sweep("subscriptions-sparse", "Subscriptions: 8 of 400 attributes, events with 15, 1 match", "subscriptions",
              {n: Shape(n, 400, 8, width=0.1, carried=15) for n in grown}),
        Sweep("subscriptions-wide", "Subscriptions: 10 of 20 attributes, ranges of 0.4 of the domain", "subscriptions",
              {n: Shape(n, 20, 10, width=0.4) for n in grown}),
        Sweep("subscriptions-one", "Subscriptions: one attribute, 10 matches", "subscriptions",
              {n: Shape(n, 1, 1) for n in grown}),
        Sweep("matches", f"Matches: {size_name(some)} subscriptions, 5 ranges on the same 5 attributes",
              "matches wanted", {m: Shape(some, matches=m) for m in amounts}),
        Sweep("ranking", f"The 10 best, by matches: {size_name(some)} scored subscriptions, 5 attributes",
              "matches wanted", {m: Shape(some, matches=m, k=10) for m in amounts}),
        Sweep("attributes", f"Attributes: {size_name(some)} subscriptions, 5 ranges each, events have all attributes",
              "attributes", {a: Shape(some, a) for a in ((5, 20) if quick else (5, 10, 20, 50, 100, 400))}),
        Sweep("predicates", f"Predicates: {size_name(some)} subscriptions on some of 20 attributes, 10 matches",
              "predicates", {p: Shape(some, 20, p) for p in ((1, 10) if quick else (1, 2, 3, 5, 8, 12, 20))}),
    ]  # fmt: skip


def made(shape: Shape) -> Book:
    """Draw a book and its events."""
    random = np.random.default_rng(SEED)
    share = shape.width or min(1.0, (shape.matches / shape.count) ** (1 / shape.predicates))
    width = max(1, round(share * DOMAIN))
    attr = np.concatenate([_chosen(random, shape, rows) for rows in _chunks(shape.count)])
    lo = random.integers(0, DOMAIN - width + 1, attr.shape)
    carried = shape.carried or shape.attributes
    event_attr = np.tile(np.arange(shape.attributes, dtype=np.int32), (EVENTS, 1))
    if shape.carried:
        event_attr = np.sort(np.argsort(random.random(event_attr.shape), axis=1)[:, :carried], axis=1).astype(np.int32)
    value = random.integers(0, DOMAIN, event_attr.shape)
    if shape.carried:
        _around(random, attr, lo, event_attr, value)
    book = of(Workload(attr, lo, lo + width - 1, event_attr, value, shape.attributes, DOMAIN))
    if shape.k:
        book = book._replace(table=book.table._replace(score=random.random(shape.count)), k=shape.k)
    return book


def _chunks(count: int) -> Iterator[int]:
    for begin in range(0, count, CHUNK):
        yield min(CHUNK, count - begin)


def _chosen(random: np.random.Generator, shape: Shape, rows: int) -> Any:
    """Draw the attributes of some subscriptions, ascending."""
    if shape.predicates == shape.attributes:
        return np.tile(np.arange(shape.attributes, dtype=np.int32), (rows, 1))
    if shape.predicates**2 > shape.attributes:
        drawn = np.argsort(random.random((rows, shape.attributes)), axis=1)[:, : shape.predicates]
        return np.sort(drawn, axis=1).astype(np.int32)
    drawn = np.sort(random.integers(0, shape.attributes, (rows, shape.predicates)), axis=1)
    while len(twice := np.flatnonzero((np.diff(drawn, axis=1) == 0).any(axis=1))):
        drawn[twice] = np.sort(random.integers(0, shape.attributes, (len(twice), shape.predicates)), axis=1)
    return drawn.astype(np.int32)


def _around(random: np.random.Generator, attr: Any, lo: Any, event_attr: Any, value: Any) -> None:
    """Make each event satisfy one subscription, in place."""
    for event, slot in enumerate(random.integers(0, len(attr), len(event_attr)).tolist()):
        others = np.setdiff1d(event_attr[event], attr[slot])[: event_attr.shape[1] - attr.shape[1]]
        names = np.concatenate([attr[slot], others])
        keys = np.concatenate([lo[slot], random.integers(0, DOMAIN, len(others))])
        order = np.argsort(names)
        event_attr[event], value[event] = names[order], keys[order]


class Row(NamedTuple):
    """One point of a sweep: matches per event, what `auto` takes, and µs per event by way and index."""

    x: int | float
    matches: float
    taken: str
    costs: dict[str, dict[str, list[float]]]
    skipped: dict[str, str]

    def best(self, way: str) -> str:
        """The quickest index."""
        costs = self.costs[way]
        return min(costs, key=lambda name: median(costs[name]))

    def cost(self, way: str, name: str) -> float:
        """The median of one index."""
        return median(self.costs[way][name])

    def behind(self, way: str) -> set[str]:
        """The indexes that were far behind the quickest."""
        limit = BEHIND * self.cost(way, self.best(way))
        return {name for name in self.costs[way] if self.cost(way, name) > limit}


def measured(sweep: Sweep, repeats: int, deadline: float = math.inf) -> Iterator[Row]:
    """Race the points of a sweep; none begins after a deadline, by `time.perf_counter`."""
    builds: dict[str, tuple[int, float]] = {}
    behind: dict[str, set[str]] = {way: set() for way in WAYS}
    for x, shape in sweep.shapes.items():
        if time.perf_counter() > deadline:
            return
        book = made(shape)
        built, skipped = _built(book, shape, builds, set.intersection(*behind.values()))
        taken = next(iter(built))
        costs: dict[str, dict[str, list[float]]] = {}
        for way in WAYS:
            asked = [name for name in built if name == taken or name not in behind[way]]
            runs = {name: searches(built[name], book)[way] for name in asked}
            wanted = runs[taken]()
            done = race(runs, repeats, TURNS, lambda _, got, wanted=wanted: unequal(got, wanted), by_processor)  # type: ignore[misc]
            if done.wrong:
                raise SystemExit(f"WRONG: {sweep.name} at {x}, {way}: {done.wrong}")
            events = EVENTS if way == BATCH else SINGLES
            costs[way] = {name: [one * 1e6 / events for one in seconds] for name, seconds in done.seconds.items()}
        matches = len(searches(built[taken], book._replace(k=0))[BATCH]()[1]) / EVENTS
        row = Row(x, matches, taken, costs, skipped)
        for way in WAYS:
            behind[way] |= row.behind(way)
        yield row


def _built(
    book: Book, shape: Shape, builds: dict[str, tuple[int, float]], behind: set[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The indexes of a book, the one that `auto` takes first; and why others were left out.

    `builds` has the last build of each: of how many subscriptions, and its seconds.
    """
    plan = partial(indexes.builder("auto", {"k": shape.k}), book.table)
    took, auto = by_processor(plan)
    taken = auto.plan.index
    builds[taken], built, skipped = (shape.count, took), {taken: auto}, {}
    for name in CONSIDERED:
        if name == taken or shape.attributes > NAMED[name]:
            continue
        count, seconds = builds.get(name, (shape.count, 0.0))
        if name in behind:
            skipped[name] = f"it was more than {BEHIND:g} times slower than the quickest before"
        elif seconds * shape.count / count > LONGEST_BUILD:
            skipped[name] = f"its build would take more than {LONGEST_BUILD:g} s"
        else:
            took, built[name] = by_processor(partial(indexes.builder(name), book.table))
            builds[name] = shape.count, took
    return built, skipped


def figures(found: dict[str, tuple[Sweep, list[Row]]]) -> list[Figure]:
    """All costs, in the form of every result."""
    return [
        Figure(f"{sweep.name} {_x(row.x)}", sweep.shapes[row.x].count, name, way, PER_EVENT, values, events=asked)
        for sweep, rows in found.values() for row in rows for way, asked in zip(WAYS, (EVENTS, SINGLES), strict=True)
        for name, values in row.costs[way].items()
    ]  # fmt: skip


# --- the page -------------------------------------------------------------------------------------------------


def pictured(sweep: Sweep, rows: Sequence[Row], seconds: float, about: dict[str, Any]) -> Measurement:
    """A sweep as something that can be drawn: both ways side by side."""
    panels = [Panel(way, sweep.x, "µs per event", log_x=True, log_y=True) for way in WAYS]
    series = [
        Series(way, name, [Point(row.x, row.costs[way][name]) for row in rows if name in row.costs[way]])
        for way in WAYS
        for name in CONSIDERED
        if any(name in row.costs[way] for row in rows)
    ]
    date = datetime.now(UTC).date().isoformat()
    return Measurement("scaling", sweep.name, "full", sweep.title, "", "", "", "", {}, SEED, panels, [], [], series,
                       seconds, about, date)  # fmt: skip


def _x(x: float) -> str:
    return size_name(int(x)) if x >= 1_000 else f"{x:g}"


def section(sweep: Sweep, rows: Sequence[Row]) -> list[str]:
    """A sweep as text: picture, table, and who wins where."""
    lines = [f"## {sweep.title}", "", f"![{sweep.title}](scaling-{sweep.name}.svg)", ""]
    lines += [f"| {sweep.x} | matches | quickest, {BATCH} | µs | quickest, {SINGLE} | µs | `auto` takes | batch, µs |"
              " single, µs |",
              "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for row in rows:
        best = [f"{row.best(way)} | {number(row.cost(way, row.best(way)))}" for way in WAYS]
        own = " | ".join(number(row.cost(way, row.taken)) for way in WAYS)
        lines.append(f"| {_x(row.x)} | {number(row.matches)} | {' | '.join(best)} | {row.taken} | {own} |")
    lines += [""]
    for way in WAYS:
        lines.append(
            f"- Quickest {way}, of those that ran: {_winners(rows, way)}. {_growth(sweep, rows, way)}".rstrip()
        )
    left_out = {name: (_x(row.x), why) for row in reversed(rows) for name, why in row.skipped.items()}
    lines += [f"- Left out from {x} on: {name}, because {why}." for name, (x, why) in left_out.items()]
    if missing := [_x(x) for x in list(sweep.shapes)[len(rows) :]]:
        lines.append(f"- Not measured, because the time was up: {', '.join(missing)}.")
    return [*lines, ""]


def _winners(rows: Sequence[Row], way: str) -> str:
    """Say which index is quickest over which part of a sweep."""
    runs: list[list[Any]] = []
    for row in rows:
        if runs and runs[-1][0] == row.best(way):
            runs[-1][2] = row.x
        else:
            runs.append([row.best(way), row.x, row.x])
    return "; ".join(f"{name} at {_x(a)}" if a == b else f"{name} from {_x(a)} to {_x(b)}" for name, a, b in runs)


def _growth(sweep: Sweep, rows: Sequence[Row], way: str) -> str:
    """Say how the best cost grows over the last step."""
    if len(rows) < 2:
        return ""
    before, last = rows[-2], rows[-1]
    times = last.cost(way, last.best(way)) / before.cost(way, before.best(way))
    return f"From {_x(before.x)} to {_x(last.x)} {sweep.x} its cost grows {number(times)} times."


def slow(found: dict[str, tuple[Sweep, list[Row]]]) -> list[str]:
    """List where even the quickest index is slow, slowest first."""
    points = [
        (row.cost(way, row.best(way)), f"{sweep.title}; at {_x(row.x)}, {way}", row.best(way), row.matches)
        for sweep, rows in found.values() for row in rows for way in WAYS
    ]  # fmt: skip
    points = sorted((one for one in points if one[0] > SLOW), reverse=True)
    lines = ["## Where everything degrades", "",
             f"Every point where even the quickest index takes more than {SLOW:g} µs per event:", "",
             "| where | quickest | µs per event | matches | ns per match |",
             "|---|---|---|---|---|"]  # fmt: skip
    lines += [f"| {where} | {name} | {number(cost)} | {number(matches)} | {number(1e3 * cost / max(matches, 1e-9))} |"
              for cost, where, name, matches in points]  # fmt: skip
    return lines


def page(found: dict[str, tuple[Sweep, list[Row]]], about: dict[str, Any], loads: Sequence[float]) -> str:
    """The whole page."""
    cores = os.cpu_count() or 1
    state = "quiet" if max(loads) <= 1.3 else f"busy with other work, on {cores} cores"
    lines = [
        "# How costs grow", "",
        "Cost per event against the number of subscriptions, matches, attributes and predicates, for every index that"
        " [`auto`](auto.md) considers. Written by `python benchmarks/scaling.py --docs docs`; do not edit.", "",
        f"- **The machine was {state}**: load {loads[0]:.1f} at the start, {loads[1]:.1f} at the end."
        f" {about.get('processor', '')}; commit {about.get('commit', '?')}, {datetime.now(UTC).date().isoformat()}."
        f" Times are those of the processor, one thread, medians of {QUICK_REPEATS} turns; the bands in the pictures"
        " are the spread.",
        f"- A batch is {EVENTS:,} events; single events are the first {SINGLES} of them. Keys in, slots out: what"
        " `Matcher` adds (reading events, naming ids) is in `benchmarks/api.py`.",
        "- `auto` plans here without recent events, by events that it makes from the subscriptions. A matcher that has"
        " been asked plans by what it was asked, and can do better.",
        "- Subscriptions, ranges and events are uniform, and sets of attributes are random. Real books repeat"
        " themselves, which helps; `benchmarks/auto.py` has more kinds of data.",
        "- Both axes are logarithmic. A line that ends early belongs to an index that was left out from there on: its"
        f" build would take more than {LONGEST_BUILD:g} s, or it was more than {BEHIND:g} times slower than the best"
        " at the point before.", "",
    ]  # fmt: skip
    for sweep, rows in found.values():
        lines += section(sweep, rows)
    wrapped = (fill(line, 120, subsequent_indent="  " * line.startswith("- ")) if line[:1] not in "|!" else line
               for line in [*lines, *slow(found)])  # fmt: skip
    return "\n".join(wrapped) + "\n"


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="up to 4k subscriptions, two points per sweep")
    parser.add_argument("--sweeps", type=listed, help="default: all")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for all of it (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure here")
    parser.add_argument("--docs", type=Path, metavar="FOLDER", help="write scaling.md and pictures here")
    parser.add_argument("--png", type=Path, metavar="FOLDER", help="write pictures here, as PNG too")
    options = parser.parse_args(given)
    known = {sweep.name: sweep for sweep in sweeps(options.quick)}
    unknown = [name for name in options.sweeps or () if name not in known]
    if unknown:
        parser.error(f"there is no sweep called {unknown[0]!r}; there are {', '.join(known)}")
    for name in () if options.quick else KINDS:  # what is not compiled does not race
        warm_index(name)
    about, first, started = machine(), os.getloadavg()[0], time.perf_counter()
    chosen = options.sweeps or list(known)
    found: dict[str, tuple[Sweep, list[Row]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for nth, name in enumerate(chosen, 1):
            begun, sweep, rows = time.perf_counter(), known[name], []
            for row in measured(sweep, QUICK_REPEATS, started + options.limit * nth / len(chosen)):
                rows.append(row)
                best = ", ".join(f"{way} {row.best(way)} {number(row.cost(way, row.best(way)))} µs" for way in WAYS)
                print(f"{name} {_x(row.x)}: {best}; auto takes {row.taken}; {number(row.matches)} matches", flush=True)
            if not rows:
                print(f"{name}: not measured, because the time was up", flush=True)
                continue
            found[name] = sweep, rows
            pictures = options.png or Path(folder)
            draw(pictured(sweep, rows, time.perf_counter() - begun, about), pictures)
            if options.docs:
                shutil.copyfile(pictures / "scaling" / f"{name}.svg", options.docs / f"scaling-{name}.svg")
    if options.json:
        Result("scaling", {"sweeps": chosen, "repeats": QUICK_REPEATS}, figures(found)).write(options.json)
    if options.docs:
        text = page(found, about, (first, os.getloadavg()[0]))
        (options.docs / "scaling.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
