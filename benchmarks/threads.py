"""What does a second thread gain? The same batches through `Matcher()`, on one thread and on two, in turns.

    python benchmarks/threads.py [--quick] [--sizes 1m] [--workloads w2] [--json FILE]

All matches and the 10 best of a thousand events, on w1, on w2 and where each subscription has ten of twenty attributes;
events come as an Arrow table, but those of w1, which have 15 of 400 attributes, as dicts. Reading dicts takes one
thread whatever `threads` is, and counts. Bar, at 1M subscriptions: all matches on two threads at least 1.7 x as fast as
on one. Beside it, processor time of two threads over that of one: what
the second thread costs. Exit code 1 when the bar is missed at 1M, or an answer of two threads is another than that of
one. `--quick` takes 10k subscriptions and judges no bar. It needs two cores without other work.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from auto import ten_of_twenty
from contenders import Bars, figures, on_workloads, race, ratio_with_spread
from earmark import Matcher
from earmark.workload.standard import Workload, w1, w2
from engines.base import is_dense
from load import bounds, ranges
from results import Figure
from tables import number, size_name

ONE, TWO = "1 thread", "2 threads"
ALL, BEST = "all", "10 best"
BAR, LIMIT = 1.7, 30.0


def asked(workload: Workload) -> Any:
    """The events as a user has them."""
    if workload.event_attr.shape[1] == workload.attributes:
        return pa.table({f"a{a}": workload.event_value[:, a].copy() for a in range(workload.attributes)})
    rows = zip(workload.event_attr.tolist(), workload.event_value.tolist(), strict=True)
    return [{f"a{a}": value for a, value in zip(*row, strict=True)} for row in rows]


def processor_time(run: Callable[[], Any], repeats: int) -> float:
    """Seconds of the processor that a run takes, on all threads together."""
    spent = []
    for _ in range(repeats):
        begun = time.process_time()
        run()
        spent.append(time.process_time() - begun)
    return min(spent)


def measure(name: str, workload: Workload, repeats: int, limit: float) -> list[Figure]:
    """All matches and the 10 best, on one thread and on two."""
    matcher, events, size = Matcher(), asked(workload), len(workload.sub_attr)
    matcher.add_many(bounds(workload) if is_dense(workload) else ranges(workload, weighted=False), progress=False)
    found: list[Figure] = []
    print(f"\n{name}, {size_name(size)} subscriptions")
    for what, search in ((ALL, matcher.match_many), (BEST, partial(matcher.top_k_many, k=10))):
        wanted = search(events, threads=1)
        runs = {label: partial(search, events, threads=n) for label, n in ((ONE, 1), (TWO, 2))}
        both = race(
            runs,
            repeats,
            limit,
            lambda _, got, wanted=wanted: "" if got.equals(wanted) else "not the answers of one thread",  # type: ignore[misc]
        )
        rows = figures(both, name, size, what, len(workload.event_attr))
        found += rows
        if both.wrong:
            continue
        for row in rows:
            took = row.summary
            print(f"  {what:8}{row.engine:>11}: {took.median:8.2f} µs per event (±{50 * took.spread:.0f} %)")
        one, two = (processor_time(run, repeats) for run in runs.values())
        print(
            f"  {what:8}{ratio_with_spread(*both.seconds.values())}; {number(two / one)} x the processor time",
            flush=True,
        )
    return found


def judge(found: list[Figure], size: int, judged: bool) -> Bars:
    """The bar, on every workload."""
    bars = Bars(judged)
    print()
    own = [one for one in found if one.what == ALL and one.subscriptions == size]
    for one, two in zip(own[::2], own[1::2], strict=True):
        if one.values and two.values:
            bars.at_least(f"{one.workload}: two threads", one.summary.median / two.summary.median, BAR)
    return bars


if __name__ == "__main__":
    workloads = {"w1": w1, "w2": w2, "10-of-20": ten_of_twenty}
    sys.exit(on_workloads("threads", __doc__, workloads, measure, judge, LIMIT))
