"""Which subscriptions match: blocks of 64 compared at once, under boxes compared at once. The project's own engine.

Not a paper's structure. Clauses are grouped by *what* they constrain before any value is looked at, and values are
codes of 16 bits, so that one instruction compares 64 clauses. Many clauses on the same attributes are trees of blocks;
sets of attributes that few clauses have are found by pairs of attributes. `arrays.py` draws it, `axes.py` has the
codes, `build.py` makes it, `search.py` and `topk.py` ask it.

**Invariant** (`check`): every clause is one entry, of a tree or of a bucket. Where codes do not decide alone (several
intervals, more ends than codes), the entry is marked, and the clause is verified in the table.

**Complexity**: an event O(trees, pairs of its attributes, blocks not ruled out, matches); a build O(n log n). Space:
4 bytes a constraint in a tree, 6 in a bucket, and 16 to 32 a clause. It is static: a table that changes is followed
by `live.py`, with a scanned tail and a new build in time.

**Where a scan is quicker.** Clauses on many different sets of attributes, met by events that have all of these, are
neither ruled out by their attributes nor many enough of a kind for trees; a scan of a whole batch is then quicker. A
few events of a large batch show how much work they are, and the batch goes to `scan` if that is more than a scan would
be. Relaxed search is that of `scan` always.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.errors import require
from earmark.events.arrays import EventArrays
from earmark.flat.bits import read_only
from earmark.flat.types import F64, I32, I64, U64
from earmark.index.answers import pointers_of, ranked, roomier, together
from earmark.index.blocks.arrays import BLOCKS, LOOSE, PAIR, VACANT, BlockArrays, check_arrays
from earmark.index.blocks.axes import Query, new_query
from earmark.index.blocks.build import built
from earmark.index.blocks.order import near_first
from earmark.index.blocks.search import match_events, scratch_words
from earmark.index.blocks.topk import rank_events
from earmark.index.contract import Work
from earmark.index.counters import COUNTERS, MATCHED
from earmark.index.flat import check_types, from_stored
from earmark.index.given import check_event, checked_k, read_only_events, read_only_table
from earmark.index.held import Held
from earmark.index.ranking import new_heaps
from earmark.index.scan import Scan
from earmark.index.scan.lanes import LANES as SCAN_LANES
from earmark.segment.arrays import SegmentArrays

SPARES = 4
"""Rooms kept for the next searches."""
RANKED_ENTRIES = 1 << 22
"""Ranked search takes fewer events at a time when k is so large that their heaps would exceed this."""
FIRST_ROOM = 1 << 12
LONG_ANSWERS = 64
"""Answers that are longer than this are put in order as a whole, not slot by slot."""
ASKED_FROM, TRIED = 128, 4
"""Of a batch of so many events so many are tried, to see whether a scan would be quicker."""
LEAF, COMPARISON, CLAUSE, SCANNED = 40, 2, 20, 100
"""Nanoseconds, roughly: a block, a comparison, a loose clause; and a slot in the scan of a whole group of events."""


class Room(NamedTuple):
    """What a search writes to: an event's query, entries that match, the bitmap that sorts them, trees to visit."""

    query: Query
    hits: I32
    scratch: U64
    trees: I32


class BlockIndex(Held[BlockArrays]):
    """Clauses in blocks of 64. Its work: a vector comparison serves 64 clauses and counts once."""

    def __init__(self, table: SegmentArrays, arrays: BlockArrays) -> None:
        self._hold(table, arrays)
        self._scan = Scan(self._table)
        self._by_use = _by_use(self._arrays)
        self._rooms: deque[Room] = deque(maxlen=SPARES)

    # --- making ----------------------------------------------------------------------------------------------

    @classmethod
    def build(cls, table: SegmentArrays) -> BlockIndex:
        """An index of all slots of a table. O(n log n)."""
        return cls(table, built(read_only_table(table)))

    @classmethod
    def restore(cls, table: SegmentArrays, arrays: Mapping[str, Any]) -> BlockIndex:
        """The index whose arrays these are. AssertionError where kernels could not rely on them. O(size)."""
        made = from_stored(BlockArrays, arrays)
        check_arrays(made, table)
        return cls(table, made)

    # --- looking at it ---------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """How the clauses are laid out."""
        arrays = self._arrays
        return {
            "axes": len(arrays.axis_attr),
            "inexact_axes": int((arrays.axis_exact == 0).sum()),
            "trees": len(arrays.tree_size),
            "in_trees": int(arrays.tree_size.sum()),
            "blocks": int(arrays.info[BLOCKS]),
            "loose": int(arrays.info[LOOSE]),
            "buckets": int((arrays.pairs[::PAIR] != VACANT).sum()),
        }

    def check(self) -> None:
        """Raise AssertionError unless the arrays are those of the table. O(build)."""
        check_types(self._arrays)
        check_arrays(self._arrays, self._table)
        wanted = built(self._table)._asdict()
        for name, own in self._arrays._asdict().items():
            require(np.array_equal(own, wanted[name]), f"{name} is not what the table says")

    # --- searching -------------------------------------------------------------------------------------------

    def match(self, events: EventArrays, eligible: U64, e: int = 0) -> I32:
        """Eligible slots that match event e, ascending."""
        check_event(events, e)
        return self._matched(read_only_events(events), eligible, np.array([e], np.int32))[1]

    def match_many(self, events: EventArrays, eligible: U64) -> tuple[I64, I32]:
        """Per event the eligible slots that match, ascending: (event_ptr, slots)."""
        events = read_only_events(events)
        order = near_first(events, self._by_use)
        if self._scan_is_quicker(events, eligible, order):
            found = self._scan.match_many(events, eligible)
            self._work = self._scan.work._replace(matched=len(found[1]))
            return found
        pointers, slots = _in_order(order, *self._matched(events, eligible, order))
        return pointers, slots

    def top_k(self, events: EventArrays, k: int, eligible: U64, relaxed: bool = False, e: int = 0) -> tuple[I32, F64]:
        """The k best for event e, best first: (slots, scores)."""
        check_event(events, e)
        k = checked_k(k, self._table)
        if relaxed:
            found = self._scan.top_k(events, k, eligible, relaxed, e)
            self._work = self._scan.work
            return found
        _, slots, scores = self._ranked(read_only_events(events), k, eligible, np.array([e], np.int32))
        return slots, scores

    def top_k_many(self, events: EventArrays, k: int, eligible: U64, relaxed: bool = False) -> tuple[I64, I32, F64]:
        """Per event the k best, best first: (event_ptr, slots, scores)."""
        k = checked_k(k, self._table)
        events = read_only_events(events)
        order = near_first(events, self._by_use)
        if relaxed or self._scan_is_quicker(events, eligible, order, k):
            whole = self._scan.top_k_many(events, k, eligible, relaxed)
            self._work = self._scan.work
            return whole
        start, slots, scores = _in_order(order, *self._ranked(events, k, eligible, order))
        return start, slots, scores

    # --- inside ----------------------------------------------------------------------------------------------

    def _scan_is_quicker(self, events: EventArrays, eligible: U64, order: I32, k: int = 0) -> bool:
        """Whether the work of a few events says so, by what each kind of step costs. Small batches are not asked.

        `k`: how many are wanted of each event; 0 is all.
        """
        if len(order) < ASKED_FROM:
            return False
        few = np.ascontiguousarray(order[:: -(-len(order) // TRIED)])
        if k:
            self._ranked(events, k, eligible, few)
        else:
            self._matched(events, eligible, few)
        work = self._work
        steps = 1 * work.nodes + LEAF * work.leaves + COMPARISON * work.compared + CLAUSE * work.candidates
        return steps / len(few) > SCANNED * len(self._table.sequence) / min(len(order), SCAN_LANES)

    def _matched(self, events: EventArrays, eligible: U64, order: I32) -> tuple[I64, I32]:
        """The answers of events in the order given."""
        eligible = read_only(eligible)
        counters, counts = np.zeros(COUNTERS, np.int64), np.zeros(len(order), np.int64)
        out = np.empty(FIRST_ROOM, np.int32)
        room, order = self._borrowed(), read_only(order)
        found = done = 0
        while True:
            more, done = match_events(
                self._table,
                self._arrays,
                events,
                eligible,
                order,
                done,
                room.query,
                room.hits,
                room.scratch,
                counts,
                out[found:],
                counters,
            )
            found += more
            if done == len(order):
                break
            out = roomier(out, found, done, len(order))
        self._rooms.append(room)
        counters[MATCHED] = found
        self._work = Work.counted(counters)
        return pointers_of(counts), out[:found]

    def _ranked(self, events: EventArrays, k: int, eligible: U64, order: I32) -> tuple[I64, I32, F64]:
        """The k best of events in the order given: (event_ptr, slots, scores)."""
        eligible = read_only(eligible)
        counters = np.zeros(COUNTERS, np.int64)
        heaviest = float(events.weight.max()) if len(events.weight) else 1.0
        room, order = self._borrowed(), read_only(order)
        at_once = max(1, RANKED_ENTRIES // k)
        parts = []
        for begin in range(0, len(order), at_once):
            end = min(begin + at_once, len(order))
            heaps = new_heaps(end - begin, k)
            rank_events(
                self._table,
                self._arrays,
                events,
                eligible,
                order,
                begin,
                end,
                k,
                heaviest,
                room.query,
                room.trees,
                room.hits,
                heaps,
                counters,
            )
            parts.append(ranked(heaps, k))
        self._rooms.append(room)
        self._work = Work.counted(counters)
        return together(parts)

    def _borrowed(self) -> Room:
        """Room for a search; searches in other threads have their own."""
        try:
            return self._rooms.pop()
        except IndexError:
            arrays = self._arrays
            most = max(int(arrays.tree_size.max(initial=0)), int(arrays.info[LOOSE]))
            scratch = np.zeros(scratch_words(len(self._table.sequence)), np.uint64)
            trees = np.empty(len(arrays.tree_size), np.int32)
            return Room(new_query(arrays), np.empty(most, np.int32), scratch, trees)


def _by_use(arrays: BlockArrays) -> I32:
    """The attributes that clauses in trees constrain, the most constrained first."""
    attr = arrays.axis_attr[arrays.tree_axis]
    used = np.bincount(attr, np.repeat(arrays.tree_size, np.diff(arrays.tree_axis_start)))
    return np.argsort(-used, kind="stable")[: np.count_nonzero(used)].astype(np.int32)


def _in_order(order: I32, pointers: I64, *columns: NDArray[Any]) -> tuple[Any, ...]:
    """Answers that were found in this order of events, in the order of their numbers."""
    if bool((order[:-1] < order[1:]).all()):
        return pointers, *columns
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    start = pointers_of(np.diff(pointers)[place])
    if start[-1] > LONG_ANSWERS * len(order):
        ends = list(zip(pointers[place].tolist(), pointers[place + 1].tolist(), strict=True))
        return start, *(np.concatenate([column[a:b] for a, b in ends]) for column in columns)
    positions = np.arange(start[-1]) + np.repeat(pointers[place] - start[:-1], np.diff(start))
    return start, *(column[positions] for column in columns)
