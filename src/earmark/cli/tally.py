"""The counts behind `backtest`: how often each subscription matches, and the first events of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from earmark.flat.arrays import I64
from earmark.matcher import Matcher


class Tally:
    """Counts of matches, and the first events that each subscription matches. Memory: O(subscriptions)."""

    def __init__(self, matcher: Matcher, sample: int) -> None:
        self.ids = matcher.ids()
        self._place = {id: i for i, id in enumerate(self.ids)}
        self._counts: I64 = np.zeros(len(self.ids), np.int64)
        self._size = sample
        self._shown: list[list[Any]] = [[] for _ in self.ids]
        self._event_type: pa.DataType = pa.int64()

    def take(self, results: Iterable[pa.Table]) -> None:
        """Count (event, subscription) pairs that come in the order of events."""
        for table in results:
            self._event_type = table.schema.field("event").type
            coded = table["subscription"].combine_chunks().dictionary_encode()
            places = np.array([self._place[id] for id in coded.dictionary.to_pylist()], np.int64)
            codes = np.asarray(coded.indices).astype(np.int64)
            before = self._counts[places]
            self._counts[places] += np.bincount(codes, minlength=len(places))
            order = np.argsort(codes, kind="stable")
            starts = np.searchsorted(codes[order], np.arange(len(places)))
            rank = np.arange(len(order)) - starts[codes[order]] + before[codes[order]]
            first = order[rank < self._size]
            events = table["event"].take(pa.array(first)).to_pylist()
            for place, event in zip(places[codes[first]].tolist(), events, strict=True):
                self._shown[place].append(event)

    def table(self, events: int) -> pa.Table:
        """Return (subscription, matches, share, sample), in order of insertion."""
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
