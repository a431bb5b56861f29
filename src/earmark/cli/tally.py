"""The work behind `backtest`: search group by group, count, keep the first events of each subscription, write."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from typing import Any

import click
import numpy as np
import pyarrow as pa

from earmark.cli.run import Searched, _counted, _csv, opened
from earmark.matcher import Matcher
from earmark.model.arrays import I64
from earmark.tabular.read import check_source, format_of
from earmark.tabular.write import Writer, check_target, json_lines

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
    attributes: dict[str, str],
    zone: str | None,
) -> None:
    """Count the matches of all events, and write a row a subscription to a file or to stdout."""
    check_source(events)
    if output is not None:
        check_target(output, [events, *([subscriptions] if subscriptions else [])])
    if subscriptions is not None:
        matcher = opened(subscriptions, attributes, zone)
    else:
        matcher = Matcher(attributes=attributes, zone=zone or "UTC")
        matcher.add(ALONE, str(condition))
    begun = time.perf_counter()
    searched = Searched(matcher, events, lambda m, rows: m.match_batch(rows), event_id)
    tally = Tally(matcher, sample)
    tally.take(searched.results(shown=output is not None or not sys.stdout.isatty()))
    _write(tally.table(searched.events), output, as_json)
    _sum_up(searched, time.perf_counter() - begun, output, as_json)


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


def _write(table: pa.Table, output: str | None, as_json: bool) -> None:
    if output is None:
        click.echo("".join(json_lines(table)) if as_json else _csv(_flat(table), header=True), nl=False)
        return
    if format_of(output) == "csv":
        table = _flat(table)
    with Writer(output, table.schema) as writer:
        writer.write(table)


def _flat(table: pa.Table) -> pa.Table:
    """The same with samples as JSON texts, since CSV has no lists."""
    if "sample" not in table.column_names:
        return table
    texts = [json.dumps(events, ensure_ascii=False, default=str) for events in table["sample"].to_pylist()]
    return table.set_column(table.column_names.index("sample"), "sample", pa.array(texts, pa.string()))


def _sum_up(searched: Searched, took: float, output: str | None, as_json: bool) -> None:
    events, found = searched.events, searched.found
    if as_json and output is not None:
        counts = {"events": events, "results": found, "subscriptions": len(searched.matcher)}
        click.echo(json.dumps({**counts, "seconds": round(took, 3), "output": output}))
    elif not as_json:
        click.echo(f"{_counted(events, 'event')}, {_counted(found, 'result')} in {took:.1f} s", err=True)
