"""One engine on one workload, in this process: build, search, compare every answer, and the memory it took."""

from __future__ import annotations

import time
from collections.abc import Callable

import engines
from earmark.report.protocol import Peak, clocked, resident_bytes, timed
from earmark.workload.standard import Workload
from engines.base import Answer, Engine, Numbers, difference, match_keys
from results import PER_EVENT, Figure

SLICE = 10
"""Events tried first, to see how long more would take; then ten times as many, and so on."""

Report = Callable[[Figure], None]


class Wrong(Exception):
    """An answer that is not the reference's."""


def reference(workload: Workload) -> Numbers:
    """The answers everyone is held to, those of the plain numpy scan, as `match_keys`."""
    scan = engines.make(engines.BASELINE)
    scan.prepare(workload)
    scan.build(workload)
    search = next(iter(scan.searches().values()))
    return match_keys(search(len(workload.event_attr)), len(workload.sub_attr))


def measure(
    engine: Engine, name: str, workload: Workload, wanted: Numbers, repeats: int, limit: float, report: Report
) -> None:
    """Report a figure for the build, for each way of searching, and for memory; or why there is none.

    `wanted` is the reference. `limit` is in seconds, for building and searching together; a search that would not end
    within it, by what a slice of the events took, is skipped.
    """
    subscriptions = len(workload.sub_attr)

    def figure(what: str, unit: str, values: list[float], status: str = "ok", events: int = 0, note: str = "") -> None:
        report(Figure(name, subscriptions, engine.name, what, unit, values, status, events, note))

    reason = engine.cannot(workload)
    if reason:
        figure("build", "s", [], "skipped", note=reason)
        return
    _first_steps(engine, workload)
    engine.prepare(workload)
    begun = time.perf_counter()
    before, peak = resident_bytes(), Peak()
    with peak.watched():
        seconds, _ = clocked(lambda: engine.build(workload))
    figure("build", "s", [seconds])
    held = resident_bytes() - before
    searches = engine.searches()
    for done, (what, search) in enumerate(searches.items()):
        left = (limit - (time.perf_counter() - begun)) / (len(searches) - done)
        status, values, note = search_series(search, workload, wanted, repeats, left, peak)
        figure(what, PER_EVENT, values, status, len(workload.event_attr), note)
    figure("memory", "MiB", [(peak.bytes - before) / 2**20], note=f"{held / 2**20:.1f} MiB after building")


def _first_steps(engine: Engine, workload: Workload) -> None:
    """Everything once on a few subscriptions: imports, compilers and first allocations are nobody's figure."""
    few = workload.head(100)
    engine.prepare(few)
    engine.build(few)
    for search in engine.searches().values():
        search(SLICE)


def search_series(
    search: Callable[[int], Answer],
    workload: Workload,
    wanted: Numbers,
    repeats: int,
    left: float,
    peak: Peak | None = None,
) -> tuple[str, list[float], str]:
    """Status, µs per event of each repeat, and a note.

    `left` is how many seconds it may take altogether; `peak` watches the memory of the runs that do not count.
    """
    peak = peak or Peak()
    subscriptions, events = len(workload.sub_attr), len(workload.event_attr)

    def check(answer: Answer, count: int = events) -> None:
        found = match_keys(answer, subscriptions)
        problem = difference(found, wanted[: wanted.searchsorted(count * subscriptions)], subscriptions)
        if problem:
            raise Wrong(problem)

    deadline = time.perf_counter() + left
    count, seconds = 0, 0.0
    try:
        while count < events:
            following = min(max(SLICE, count * 10), events)
            if count and seconds * following / count > deadline - time.perf_counter():
                whole = seconds * events / count
                told = f"up to {whole:,.1f} s a run, by the first {count} events; {left:,.1f} s were left for it"
                return "skipped", [], told
            count = following
            with peak.watched():
                seconds, answer = clocked(lambda count=count: search(count))  # type: ignore[misc]
            check(answer, count)
        fitting = min(repeats, int((deadline - time.perf_counter()) / seconds))
        if fitting < 1:
            return "ok", [seconds * 1e6 / events], "one run, for want of time"
        timing = timed(lambda: search(events), fitting, warm_ups=0, check=check)
    except Wrong as problem:
        return "wrong", [], str(problem)
    note = "" if fitting == repeats else f"repeats: {fitting}, for want of time"
    return "ok", [seconds * 1e6 / events for seconds in timing.seconds], note
