"""What do life spans cost? The same book without and with them, in turns, by the index that `Matcher()` chooses for it.

    python benchmarks/life.py [--quick] [--sizes 1m] [--workloads w2] [--json FILE]

Every subscription starts some day in a past year and ends some day in a coming one, and events happen in between, so
both books give the same answers. Where all of a segment live, searches leave out the test of life spans; a third book
has one subscription in a hundred more, which has ended, so that every match is tested. All matches and the 10 best of a
thousand events, and single events; one thread, by its processor time.
Bar, at 1M subscriptions: with life spans at most 1.1 x the time. Exit code 1 when it is missed at 1M, or an answer is
another. `--quick` takes 10k subscriptions and judges no bar.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from contenders import Bars, figures, on_workloads, race, ratio_with_spread
from earmark import Matcher
from earmark.report.protocol import clocked
from earmark.workload.standard import Workload, w1, w2
from engines.base import is_dense
from load import bounds, ranges
from results import Figure
from tables import size_name
from threads import asked

PLAIN, LIVED, ENDED = "without", "with life spans", "and 1 % ended"
ALL, BEST, ONE = "all", "10 best", "single"
BAR, LIMIT, SINGLES = 1.1, 30.0, 200
NOW = "2026-06-15 12:00:00"


def with_lives(book: pa.Table) -> pa.Table:
    """The book with a start in 2025 and an end in 2027 for each subscription."""
    random = np.random.default_rng(7)
    for name, year in (("starts", "2025-01-01"), ("ends", "2027-01-01")):
        days = np.datetime64(year, "us") + random.integers(0, 365, book.num_rows) * np.timedelta64(86_400_000_000, "us")
        book = book.append_column(name, pa.array(days).cast(pa.timestamp("us", "UTC")))
    return book


def with_ended(book: pa.Table) -> pa.Table:
    """The book with life spans, and the first subscriptions once more, which ended long ago."""
    few = len(book) // 100
    ids = pa.array(np.arange(len(book), len(book) + few))
    ended = book.slice(0, few).set_column(book.column_names.index("id"), "id", ids)
    moment = pa.array(np.full(few, np.datetime64("2020-01-01", "us"))).cast(pa.timestamp("us", "UTC"))
    ended = ended.append_column("starts", pa.nulls(few, moment.type)).append_column("ends", moment)
    return pa.concat_tables([with_lives(book), ended])


def difference(wanted: Any, _: str, got: Any) -> str:
    """How answers are other than wanted; empty if they are not."""
    return "" if got == wanted else "other answers"


def one_by_one(matcher: Matcher, events: list[Any]) -> list[Any]:
    """The matches of events, one call each."""
    return [matcher.match(event, at=NOW) for event in events]


def measure(name: str, workload: Workload, repeats: int, limit: float) -> list[Figure]:
    """All matches, the 10 best and single events, without and with life spans."""
    book = bounds(workload) if is_dense(workload) else ranges(workload, weighted=False)
    plain = Matcher()
    plain.add_many(book, progress=False)
    (index,) = plain.stats()["indexes"]
    lived, ended = Matcher(index), Matcher(index)
    lived.add_many(with_lives(book), progress=False)
    ended.add_many(with_ended(book), progress=False)
    events, size = asked(workload), len(workload.sub_attr)
    few = events.slice(0, SINGLES).to_pylist() if isinstance(events, pa.Table) else events[:SINGLES]
    kinds: list[tuple[str, Callable[[Matcher], Any], int]] = [
        (ALL, lambda m: m.match_many(events, threads=1, at=NOW), len(workload.event_attr)),
        (BEST, lambda m: m.top_k_many(events, 10, threads=1, at=NOW), len(workload.event_attr)),
        (ONE, lambda m: one_by_one(m, few), len(few)),
    ]
    found: list[Figure] = []
    print(f"\n{name}, {size_name(size)} subscriptions ({index})")
    for what, search, count in kinds:
        wanted = search(plain)
        runs = {label: partial(search, m) for label, m in ((PLAIN, plain), (LIVED, lived), (ENDED, ended))}
        differs = partial(difference, wanted)
        both = race(runs, repeats, limit, differs, partial(clocked, clock="thread"))
        rows = figures(both, name, size, what, count)
        found += rows
        if both.wrong:
            continue
        for row in rows:
            print(
                f"  {what:8}{row.engine:>16}: {row.summary.median:8.2f} µs per event (±{50 * row.summary.spread:.0f} %)"
            )
        for label in (LIVED, ENDED):
            print(f"  {what:8}{label:>16}: {ratio_with_spread(both.seconds[label], both.seconds[PLAIN])}", flush=True)
    return found


def judge(found: list[Figure], size: int, judged: bool) -> Bars:
    """The bar, on every workload and kind of search."""
    bars = Bars(judged)
    print()
    own = [one for one in found if one.subscriptions == size]
    for plain, *others in zip(own[::3], own[1::3], own[2::3], strict=True):
        for one in others:
            if plain.values and one.values:
                what = f"{plain.workload}, {plain.what}, {one.engine}"
                bars.at_most(what, one.summary.median / plain.summary.median, BAR)
    return bars


if __name__ == "__main__":
    sys.exit(on_workloads("life", __doc__, {"w1": w1, "w2": w2}, measure, judge, LIMIT))
