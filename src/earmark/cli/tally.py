"""The work behind `backtest`: search group by group, count, keep the first events of each subscription, write."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from earmark.cli.load import Loaded, load
from earmark.cli.output import sum_up, write_tables
from earmark.cli.reading import Reading
from earmark.cli.rejects import Rejects
from earmark.cli.search import EventSearch
from earmark.flat.types import I64
from earmark.matcher import DEFAULT_INDEX, Matcher
from earmark.tabular.write import check_target

ALONE = "condition"
"""The id of a subscription that is given as a condition alone."""


def run(
    subscriptions: str | None,
    condition: str | None,
    events: str,
    *,
    sample: int,
    event_id: str | None,
    output: str | None,
    as_json: bool,
    reading: Reading,
    rejects: Rejects,
) -> None:
    """Count the matches of all events, and write one row per subscription to a file or to stdout."""
    inputs = [events] if subscriptions is None else [subscriptions, events]
    reading.check(*inputs)
    source = reading.source(events)
    if output is not None:
        check_target(output, inputs)
    rejects.check(inputs, output)
    loaded = _of_condition(str(condition), reading) if subscriptions is None else load(subscriptions, reading)
    begun = time.perf_counter()
    searched = EventSearch(loaded.matcher, source, Matcher.match_many, event_id, rejects)
    tally = Tally(loaded.matcher, sample)
    with rejects:
        tally.take(searched.results(shown=output is not None or not sys.stdout.isatty()))
        write_tables(iter([tally.table(searched.events - rejects.events)]), output, as_json)
    took = time.perf_counter() - begun
    sum_up(searched.events, searched.found, len(loaded.matcher), (loaded.seconds, took), output, as_json, rejects)


def _of_condition(condition: str, reading: Reading) -> Loaded:
    begun = time.perf_counter()
    matcher = Matcher(reading.index or DEFAULT_INDEX, attributes=reading.attributes, zone=reading.zone or "UTC")
    matcher.add(ALONE, condition)
    return Loaded(matcher, time.perf_counter() - begun)


class Tally:
    """Counts of matches, and the first events that each subscription matches. O(subscriptions) of memory."""

    def __init__(self, matcher: Matcher, sample: int) -> None:
        self.ids = matcher.ids()
        self._place = {one: i for i, one in enumerate(self.ids)}
        self._counts: I64 = np.zeros(len(self.ids), np.int64)
        self._size = sample
        self._shown: list[list[Any]] = [[] for _ in self.ids]
        self._event_type: pa.DataType = pa.int64()

    def take(self, results: Iterable[pa.Table]) -> None:
        """Count (event, subscription) pairs that come in the order of events."""
        for table in results:
            self._event_type = table.schema.field("event").type
            coded = table["subscription"].combine_chunks().dictionary_encode()
            own = np.array([self._place[one] for one in coded.dictionary.to_pylist()], np.int64)
            codes = np.asarray(coded.indices).astype(np.int64)
            before = self._counts[own]
            self._counts[own] += np.bincount(codes, minlength=len(own))
            order = np.argsort(codes, kind="stable")
            starts = np.searchsorted(codes[order], np.arange(len(own)))
            rank = np.arange(len(order)) - starts[codes[order]] + before[codes[order]]
            first = order[rank < self._size]
            events = table["event"].take(pa.array(first)).to_pylist()
            for place, event in zip(own[codes[first]].tolist(), events, strict=True):
                self._shown[place].append(event)

    def table(self, events: int) -> pa.Table:
        """(subscription, matches, share, sample), in order of insertion."""
        kind = pa.int64() if self.ids and isinstance(self.ids[0], int) else pa.string()
        share = self._counts / events if events else np.full(len(self.ids), np.nan)
        columns = {
            "subscription": pa.array(self.ids, kind),
            "matches": pa.array(self._counts),
            "share": pa.array(share, mask=np.isnan(share)),
        }
        if self._size:
            columns["sample"] = pa.array(self._shown, pa.list_(self._event_type))
        return pa.table(columns)
