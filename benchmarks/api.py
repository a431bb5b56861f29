"""What a user gets: searches through `Matcher`, beside the kernel under it. One thread, in turns, answers compared.

    python benchmarks/api.py [--size 1m] [--quick] [--repeats N] [--json FILE]

batch      w1 and w2, 1,000 events in one call, all matches and the 10 best: `Matcher()` and `Matcher("blocks")`, with
           the events as an Arrow table and, for all matches, as a list of mappings; and `kernel of …`, which is the
           index of the same matcher on events that are encoded already
single     `match` of one mapping per call: w2 at 10k, w2 and w1u at the full size; on w2 also in a scope, the
           tenant of a tenth of the subscriptions
threads    the batch through `Matcher()` with two threads against one, by the clock on the wall

Bars, at 1M subscriptions and for `Matcher()`, are printed beside their figures. Exit code 1 when a bar is missed at 1M
or an answer is not the scan's. `--quick` takes 10k subscriptions and judges no bar. Except for threads, times are those
of the processor: other work on the machine then counts for less.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from blocks import by_processor
from contenders import Bars, Race, figures, median, race, ratio_with_spread, unequal
from earmark import Matcher
from earmark.engine.batch import read
from earmark.index.scan import Scan
from earmark.report.protocol import QUICK_REPEATS, REPEATS, clocked, machine
from earmark.workload.standard import SUBSCRIPTIONS, WORKLOADS, Workload
from engines.base import is_dense
from load import bounds, event_dicts, event_frame, ranges
from results import Figure, Result
from run import sizes
from tables import machine_line, size_name, terminal

DEFAULT, BLOCKS = "Matcher()", 'Matcher("blocks")'
SCOPED = "Matcher(), in a scope"
MAPPINGS = ", mappings"
ALL, BEST, SINGLE, THREADS = "all matches", "10 best", "single match", "with threads"
K, SMALL, LIMIT, TENANTS = 10, 10_000, 60.0, 10
MOST_OVER_KERNEL, LEAST_BY_THREADS = 1.5, 1.7
MOST_MICROSECONDS = {("w1", ALL): 90.0, ("w2", ALL): 16.0, ("w2", BEST): 11.0}
MOST_SINGLE = {("w2", SMALL): 15.0, ("w2", SUBSCRIPTIONS): 45.0, ("w1u", SUBSCRIPTIONS): 30.0}

Answer = tuple[Any, ...]
"""How many answers each event has, their slots and, for the best, their scores."""
Run = Callable[[], Any]


def kernel_of(label: str) -> str:
    """The name under which a matcher's index runs."""
    return f"kernel of {label}"


def loaded(workload: Workload) -> dict[str, Matcher]:
    """The matchers, with the number of a subscription as its id."""
    frame = bounds(workload) if is_dense(workload) else ranges(workload, weighted=False)
    matchers = {DEFAULT: Matcher(), BLOCKS: Matcher("blocks")}
    for matcher in matchers.values():
        matcher.add_many(frame, progress=False)
    return matchers


def has_threads() -> bool:
    """Whether a search can be given a number of threads."""
    return "threads" in inspect.signature(Matcher.match_many).parameters


def in_one_thread(search: Callable[..., Any]) -> Callable[..., Any]:
    """A search that is told to use one thread, where it can be."""
    return partial(search, threads=1) if "threads" in inspect.signature(search).parameters else search


def batch_runs(matchers: dict[str, Matcher], frame: pa.Table, dicts: list[dict[str, int]]) -> dict[str, dict[str, Run]]:
    """Who is asked, by what is asked."""
    runs: dict[str, dict[str, Run]] = {ALL: {}, BEST: {}}
    for label, matcher in matchers.items():
        index, events, eligible = searched(matcher, frame)
        runs[ALL][kernel_of(label)] = partial(in_one_thread(index.match_many), events, eligible)
        runs[ALL][label] = partial(in_one_thread(matcher.match_many), frame)
        runs[ALL][label + MAPPINGS] = partial(in_one_thread(matcher.match_many), dicts)
        runs[BEST][kernel_of(label)] = partial(in_one_thread(index.top_k_many), events, K, eligible)
        runs[BEST][label] = partial(in_one_thread(matcher.top_k_many), frame, K)
    return runs


def searched(matcher: Matcher, frame: pa.Table) -> tuple[Any, Any, Any]:
    """The index of a matcher's only segment, the events as keys, and the bitmap of all its slots."""
    version = matcher._version
    (only,) = version.segments
    eligible = only.eligible()
    return only.searched_by(eligible), read(version, frame).for_segment(only.segment), eligible


def answer(found: Any, events: int) -> Answer:
    """What a matcher or an index found, in one form."""
    if not isinstance(found, pa.Table):
        return np.diff(found[0]), *found[1:]
    counts = np.bincount(found["event"].to_numpy(), minlength=events)
    return counts, found["subscription"].to_numpy(), found["score"].to_numpy()


def wanted(matcher: Matcher, frame: pa.Table, what: str) -> Answer:
    """The scan's answer."""
    _, events, eligible = searched(matcher, frame)
    scan = Scan(matcher._version.segments[0].segment.arrays)
    found = scan.match_many(events, eligible) if what == ALL else scan.top_k_many(events, K, eligible)
    return answer(found, frame.num_rows)


def batch(name: str, workload: Workload, matchers: dict[str, Matcher], repeats: int) -> list[Figure]:
    """All events in one call: the kernels and what is around them."""
    frame, size, out = event_frame(workload), len(workload.sub_attr), []
    for what, runs in batch_runs(matchers, frame, event_dicts(workload)).items():
        right = wanted(matchers[DEFAULT], frame, what)

        def check(_: str, found: Any, right: Answer = right) -> str:
            return unequal(answer(found, frame.num_rows)[: len(right)], right)

        own = figures(race(runs, repeats, LIMIT, check, by_processor), name, size, what, frame.num_rows)
        for label in matchers:
            parts = [one for one in own if one.engine in (label, label + MAPPINGS, kernel_of(label))]
            show(f"{name}, {size_name(size)}, {what}, one thread: {label}", parts, kernel_of(label))
        out += own
    return out


def single(name: str, workload: Workload, matchers: dict[str, Matcher], repeats: int) -> list[Figure]:
    """One event per call."""
    dicts, size = event_dicts(workload), len(workload.sub_attr)
    counts, slots = wanted(matchers[DEFAULT], event_frame(workload), ALL)
    ends = np.cumsum(counts)[:-1]
    right = [part.tolist() for part in np.split(slots, ends)]
    runs = {label: lambda m=m: [m.match(event) for event in dicts] for label, m in matchers.items()}

    def check(_: str, found: Any) -> str:
        return "" if found == right else "ids differ from the scan's"

    own = figures(race(runs, repeats, LIMIT, check, by_processor), name, size, SINGLE, len(dicts))
    show(f"{name}, {size_name(size)}, {SINGLE}", own, DEFAULT)
    return own


def scoped(name: str, workload: Workload, repeats: int) -> list[Figure]:
    """One event per call, among the subscriptions of one tenant and among all."""
    matcher, size, dicts = Matcher(), len(workload.sub_attr), event_dicts(workload)
    tenants = pa.array([str(i) for i in range(TENANTS)]).take(pa.array(np.arange(size) % TENANTS))
    tags = pa.MapArray.from_arrays(pa.array(np.arange(size + 1, dtype=np.int32)), pa.repeat("tenant", size), tenants)
    matcher.add_many(bounds(workload).append_column("tags", tags), progress=False)
    one = {"tenant": "0"}
    right = {DEFAULT: [matcher.match(event) for event in dicts]}
    right[SCOPED] = [[found for found in every if found % TENANTS == 0] for every in right[DEFAULT]]
    runs = {
        DEFAULT: lambda: [matcher.match(event) for event in dicts],
        SCOPED: lambda: [matcher.match(event, scope=one) for event in dicts],
    }

    def check(label: str, found: Any) -> str:
        return "" if found == right[label] else "ids differ from those of all matches"

    own = figures(race(runs, repeats, LIMIT, check, by_processor), name, size, f"{SINGLE}, tagged", len(dicts))
    show(f"{name}, {size_name(size)}, {SINGLE}, subscriptions of {TENANTS} tenants", own, DEFAULT)
    return own


def threads(name: str, workload: Workload, matcher: Matcher, repeats: int) -> list[Figure]:
    """Two threads against one, by the clock on the wall."""
    if not has_threads():
        print(f"\n{name}: two threads against one: skipped, since match_many has no argument `threads`")
        return []
    frame, out = event_frame(workload), []
    searches: dict[str, Callable[..., Any]] = {ALL: matcher.match_many, BEST: partial(matcher.top_k_many, k=K)}
    for what, search in searches.items():
        runs = {f"threads={n}": partial(search, frame, threads=n) for n in (1, 2)}
        right = answer(runs["threads=1"](), frame.num_rows)

        def check(_: str, found: Any, right: Answer = right) -> str:
            return unequal(answer(found, frame.num_rows), right)

        found: Race = race(runs, repeats, LIMIT, check, clocked)
        own = figures(found, name, len(workload.sub_attr), f"{what} {THREADS}", frame.num_rows)
        show(f"{name}, {size_name(len(workload.sub_attr))}, {what}, {DEFAULT}", own, "threads=1")
        out += own
    return out


def show(title: str, own: list[Figure], baseline: str) -> None:
    """A table of contenders."""
    print(f"\n{title}")
    print(terminal(own, baseline), flush=True)


def measured(size: int, repeats: int) -> list[Figure]:
    """Everything, one workload in memory at a time."""
    out = []
    for name in ("w1", "w2", "w1u"):
        whole = WORKLOADS[name](subscriptions=size)
        matchers = loaded(whole)
        if name != "w1u":
            out += batch(name, whole, matchers, repeats)
            out += threads(name, whole, matchers[DEFAULT], repeats)
        if name != "w1":
            out += single(name, whole, matchers, repeats)
        if name == "w2":
            del matchers
            out += scoped(name, whole, repeats)
        if name == "w2" and size != SMALL:
            few = whole.head(SMALL)
            out += single(name, few, loaded(few), repeats)
    return out


def judge(found: list[Figure], size: int) -> Bars:
    """Every bar beside its figure."""
    bars = Bars(size == SUBSCRIPTIONS)
    by_key = {one.key: one.values for one in found if one.values}
    print(f"\nBars, {DEFAULT} at {size_name(size)}, one thread:")
    for (name, what), bar in MOST_MICROSECONDS.items():
        bars.at_most(f"{name}, {what}", median(by_key[name, size, DEFAULT, what]), bar, "µs")
    for name in ("w1", "w2"):
        through, alone = by_key[name, size, DEFAULT, ALL], by_key[name, size, kernel_of(DEFAULT), ALL]
        bars.at_most(f"{name}, {ALL}, over its own kernel", median(through) / median(alone), MOST_OVER_KERNEL)
    for (name, subscriptions), bar in MOST_SINGLE.items():
        own = SMALL if subscriptions == SMALL else size
        bars.at_most(f"{name}, {SINGLE} at {size_name(own)}", median(by_key[name, own, DEFAULT, SINGLE]), bar, "µs")
    for name in ("w1", "w2"):
        for what in (ALL, BEST):
            one, two = (by_key.get((name, size, f"threads={n}", f"{what} {THREADS}")) for n in (1, 2))
            if one and two:
                print(f"  {name}, {what}, two threads against one: {ratio_with_spread(one, two)}")
                bars.at_least(f"{name}, {what}, two threads", median(one) / median(two), LEAST_BY_THREADS)
    return bars


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=sizes, default=[SUBSCRIPTIONS], help="subscriptions, such as 100k (1m)")
    parser.add_argument("--quick", action="store_true", help="10k subscriptions, three repeats")
    parser.add_argument("--repeats", type=int, help=f"turns that count (default: {REPEATS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args(given)
    size = SMALL if options.quick else options.size[-1]
    repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    pa.set_cpu_count(1)
    facts = machine()
    print(machine_line(facts))
    found = measured(size, repeats)
    wrong = [one for one in found if one.status == "wrong"]
    for one in wrong:
        print(f"WRONG: {one.engine} on {one.workload} at {one.subscriptions:,}: {one.note}")
    if options.json:
        Result("api", {"size": size, "repeats": repeats}, found, facts).write(options.json)
    return int(bool(wrong or judge(found, size).missed))


if __name__ == "__main__":
    sys.exit(main())
