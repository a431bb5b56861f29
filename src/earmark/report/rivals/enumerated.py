"""k-index as it was published: a posting list for every value, and a range enumerated value by value.

Whang et al., "Indexing Boolean Expressions" (VLDB 2009), as the BE*-Tree paper describes it (section VII-C, Dimension
Cardinality): `BETWEEN [v1, v2]` becomes v2 - v1 + 1 postings, which is exponential in the digits of the numbers. Ours
(`index/k_index/`) posts a range at O(log) nodes of a tree instead. This one exists to be measured: it answers by
counting, one event at a time, and is built only up to a number of postings.

    attribute a, subscriptions 0: a in [3, 5] and 1: a in [5, 6]
    key        a3   a4   a5     a6
    posting     0    0   0 1     1
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from earmark.flat.arrays import I32, I64, pointers_of
from earmark.workload.standard import UNUSED, Workload

POSTING_BYTES = 4


def postings_of(workload: Workload) -> int:
    """Return how many postings an enumerating index of these subscriptions has."""
    used = workload.sub_attr != UNUSED
    return int((workload.sub_hi[used] - workload.sub_lo[used] + 1).sum())


class Enumerated(NamedTuple):
    """The list of key[i] is posting[start[i] : start[i + 1]]; a key is attribute × domain + value."""

    key: I64
    start: I64
    posting: I32
    required: I32
    domain: int

    @classmethod
    def build(cls, workload: Workload) -> Enumerated:
        """Enumerate every range. O(postings log postings)."""
        used = workload.sub_attr != UNUSED
        slot = np.nonzero(used)[0]
        lo, width = workload.sub_lo[used], (workload.sub_hi - workload.sub_lo)[used] + 1
        first = workload.sub_attr[used].astype(np.int64) * workload.domain + lo
        before = np.cumsum(width) - width
        keys = np.repeat(first - before, width) + np.arange(width.sum())
        order = np.argsort(keys, kind="stable")
        key, counts = np.unique(keys, return_counts=True)
        posting = np.repeat(slot.astype(np.int32), width)[order]
        return cls(key, pointers_of(counts), posting, used.sum(axis=1).astype(np.int32), workload.domain)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.key.nbytes + self.start.nbytes + self.posting.nbytes + self.required.nbytes

    def match(self, attr: I32, value: I64) -> I64:
        """Return the subscriptions that an event matches, ascending."""
        used = attr != UNUSED
        wanted = attr[used].astype(np.int64) * self.domain + value[used]
        place = np.searchsorted(self.key, wanted)
        inside = place[place < len(self.key)]
        hit = inside[self.key[inside] == wanted[place < len(self.key)]]
        lists = [self.posting[self.start[i] : self.start[i + 1]] for i in hit]
        counts = np.bincount(np.concatenate([np.empty(0, np.int32), *lists]), minlength=len(self.required))
        return np.flatnonzero(counts == self.required)
