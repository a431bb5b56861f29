"""The work behind `match`, `top-k` and `backtest`: load, search, write, sum up."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

from earmark.cli.load import load
from earmark.cli.output import sum_up, write_tables
from earmark.cli.reading import Reading
from earmark.cli.rejects import Rejects
from earmark.cli.search import EventSearch, Search, kinds_of
from earmark.cli.tally import Tally
from earmark.errors import EarmarkError


def run(
    search: Search,
    *,
    subscriptions: str | None,
    events: str,
    output: str | None,
    event_id: str | None,
    as_json: bool,
    reading: Reading,
    rejects: Rejects,
    weights: Iterable[str] = (),
    condition: str = "",
    sample: int | None = None,
) -> None:
    """Search all events, and write the results to a file or to stdout.

    `weights` names attributes that must exist. Without `subscriptions`, `condition` is the only one. With `sample`, the
    results are one row per subscription: how often it matches, and that many of the events.
    """
    inputs = [events] if subscriptions is None else [subscriptions, events]
    reading.check(*inputs, output=output)
    rejects.check(inputs, output)
    source = reading.source(events)
    loaded = load(subscriptions, reading, condition)
    for name in weights:
        if name not in kinds_of(loaded.matcher):
            raise EarmarkError(f"--weight names {name!r}, which no subscription uses")
    begun = time.perf_counter()
    searched = EventSearch(loaded.matcher, source, search, event_id, rejects)
    results = searched.results(shown=output is not None or not sys.stdout.isatty())
    with rejects:
        if sample is not None:
            tally = Tally(loaded.matcher, sample)
            tally.take(results)
            results = iter([tally.table(searched.events - rejects.events)])
        write_tables(results, output, as_json)
    seconds = (loaded.seconds, time.perf_counter() - begun)
    counts = {"events": searched.events, "results": searched.found, "subscriptions": len(loaded.matcher)}
    sum_up(counts, seconds, output, as_json, rejects)
