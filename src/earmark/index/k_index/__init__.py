"""Which clauses have all their predicates among the posting lists of an event: k-index, a rival of the BE*-Tree.

Whang et al., "Indexing Boolean Expressions" (VLDB 2009), as the BE*-Tree paper describes and measures it (sections II
and VII): clauses are partitioned by their number of predicates K; each (attribute, value) has a list of the clauses
that accept it, ascending; an event merges the lists of its values, skipping what cannot be in K of them (`search.py`,
the conjunction algorithm); the best k are found with one flat bound per list. `arrays.py` draws the structure.

    build(table, fanout=4, merge="conjunction")      merge="counting": no order is kept, every posting is read once

Conjunction is what was published, and what the BE*-Tree paper measured; it skips postings, above all in ranked search.
Counting over the same lists does less work per posting and is often faster where all matches are wanted: the benchmarks
(`benchmarks/be_star_tree.py`) show both.

**Invariant** (`check`): entries are the clauses by K descending, then clause; the list of a node has exactly the
entries with an interval whose canonical decomposition has that node, ascending; its bound is the greatest weight there,
rounded up. Hence K hits are a match without looking at the clause again, unless it is *loose*.

**Complexity.** For n intervals over c cells per attribute: space O(n fan-out log c) at worst and near n where intervals
cover few cells; an event of t attributes reads at most the postings of its t log c lists. Static: a change of the table
is a new build.

Where we differ from the papers, and why:
- A range is not enumerated value by value, which is exponential in the length of a number, but cut into nodes of a tree
  over the ends of intervals (`arrays.py`): O(log) postings, any domain, the same answers.
- The lists of one attribute are one term: among the K lists of the algorithm each attribute counts once.
- `!=`, `NOT IN` and several intervals are postings like any other, where Whang et al. treat NOT apart. A constraint
  that accepts NULL has no postings, since no value need be there to find it: it does not count towards K, and the
  clause is verified. A clause with nothing else is verified for every event (their partition 0).
- The pivot of a ranked search moves on until the terms up to it can reach the k-th score (as WAND does), where Whang
  et al. compare only once the K lists have met.
- Interval values, and relaxed search, which they do not have, are answered by counting.
"""

from __future__ import annotations

import numpy as np

from earmark.errors import EarmarkError, require
from earmark.index.driver import ArrayIndex, read_only_table
from earmark.index.k_index.arrays import BITS, KIndexArrays, build_arrays, check_form
from earmark.index.k_index.search import Postings, PostingScratch, match_events, new_scratch, rank_events
from earmark.segment.arrays import SegmentArrays

MERGES = ("conjunction", "counting")


class KIndex(ArrayIndex[KIndexArrays]):
    """Posting lists by attribute and value, partitioned by the number of predicates.

    Its work: nodes are posting lists. Comparisons are the postings that a merge or a count looks at, and the
    constraints of clauses that postings alone do not decide.
    """

    _kind = KIndexArrays
    _match_kernel = match_events
    _rank_kernel = rank_events
    _check_arrays = staticmethod(check_form)

    def __init__(self, table: SegmentArrays, arrays: KIndexArrays, merge: str = "conjunction") -> None:
        if merge not in MERGES:
            raise EarmarkError(f"expected merge to be {' or '.join(map(repr, MERGES))}, got {merge!r}")
        self._merge = merge
        super().__init__(table, arrays)

    @classmethod
    def build(cls, table: SegmentArrays, fanout: int = 4, merge: str = "conjunction") -> KIndex:
        """Build an index of this table. O(n log n) for n intervals, plus the postings."""
        bits = fanout.bit_length() - 1
        if not 1 <= bits <= 8 or fanout != 1 << bits:
            raise EarmarkError(f"expected the fan-out to be a power of two from 2 to 256, got {fanout}")
        table = read_only_table(table)
        return cls(table, build_arrays(table, bits), merge)

    def check(self) -> None:
        """Raise AssertionError, naming the array, unless it is what the table asks for. O(build)."""
        check_form(self._arrays, self._table)
        wanted = build_arrays(self._table, int(self._arrays.header[BITS]))
        for name in KIndexArrays._fields:
            same = np.array_equal(getattr(self._arrays, name), getattr(wanted, name))
            require(same, f"{name} differs from that of the table")
        inside = np.ones(len(wanted.posting), bool)
        inside[wanted.posting_start[:-1][wanted.posting_start[:-1] < len(inside)]] = False
        require((np.diff(wanted.posting, prepend=0)[inside] > 0).all(), "a posting list does not ascend")
        for scratch in list(self._spare):
            require(np.array_equal(scratch.value.left, wanted.required), "a search left counts behind")

    def _read_by_kernels(self) -> Postings:
        highest, extra = (float(a.max(initial=0.0)) for a in (self._table.score, self._arrays.partition_extra))
        return Postings(self._arrays, self._merge == "conjunction", highest, extra)

    def _new_scratch(self) -> PostingScratch:
        return new_scratch(self._arrays, len(self._table.clause_start) - 1)
