"""Which members cover this subscription: look at every one. The paper's *naive* algorithm, and the others' oracle.

It has no structure: the members are a bitmap, their clauses are read from the table one by one, and a clause is left
at the first attribute on which it does not contain the query.

Invariant: that of `members.py`.

Complexity: O(members) per query, mostly one or two comparisons of keys each; insert and remove O(1).
"""

from __future__ import annotations

import numpy as np

from earmark.cover.containment import reports
from earmark.cover.indexes.members import COMPARISONS, Members
from earmark.flat.arrays import I32, I64, U64
from earmark.flat.machine import at, ctz64
from earmark.jit import kernel
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import eligible_word


class Linear(Members):
    """Every member against the query."""

    def _search(self, slot: int, k: int, counters: I64) -> I32:
        out = np.empty(k, np.int32)
        return out[: scan_covering(self.table, self._live, slot, out, counters)]


@kernel
def scan_covering(table: SegmentArrays, live: U64, slot: int, out: I32, counters: I64) -> int:
    """Up to len(out) members that cover the slot, ascending."""
    found, compared, slots = 0, 0, len(table.sequence)
    for word in range(len(live)):
        bits = eligible_word(live, word, 0, slots)
        while bits and found < len(out):
            other = (word << 6) + ctz64(bits)
            bits &= bits - np.uint64(1)
            for clause in range(at(table.clause_start, other), at(table.clause_start, other + 1)):
                compared += 1
                if reports(table, other, clause, slot):
                    out[found] = other
                    found += 1
                    break
    counters[COMPARISONS] += compared
    return found
