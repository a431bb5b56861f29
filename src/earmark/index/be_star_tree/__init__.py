"""Which clauses can an event match: partition by attribute, cluster by value, and so on in turn. The BE*-Tree.

Sadoghi and Jacobsen, "Relevance Matters: Capitalizing on Less" (BE*-Tree): sections III to VI, Algorithms 1 to 7.

    root c-node    l-node: clauses without an attribute that was worth a p-node, or that must be (always true, NULL)
      p-directory
        p-node a                                        only events that have attribute a come here
          c-directory: buckets over the values of a     left and right never overlap, what spans them is at home above
            bucket [3, 90]  own c-node: l-node, p-directory { p-node b: ... }
            bucket [3, 40]  ...       bucket [55, 90]  ...

**Invariant** (`check`). Left and right of a bucket are disjoint; every bucket's box is the bounding box of its clauses,
on its active and its inactive dimensions; bounds on scores are the maxima of its clauses; no attribute partitions twice
on a path; a clause lies only below attributes on which it has a constraint that does not accept NULL; counts agree;
nothing is lost between the tree and its free lists.

**Complexity.** n clauses of c constraints. Bulk build O(n c depth); insert and remove O(depth x c), amortised; a match
visits the buckets that the event's values meet; space 150 to 250 bytes a clause of 8 constraints.

Read on in this order: `arrays.py` (the drawing), `insert.py`, `settle.py` and `split.py`, `bounds.py`, `remove.py`,
`search.py`, `topk.py`, `adapt.py`, `check.py`. Where we differ from the paper, and why: each file, and
docs/papers/be-star-tree.md. BE-Tree (`be_tree.py`) is the same tree over cells of halved domains.

Threads: searches only read. Everything that changes the tree (`insert`, `remove`, `adapt`) is for a copy that no other
thread holds yet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from earmark.errors import EarmarkError, require
from earmark.events.arrays import EventArrays
from earmark.flat.bits import read_only
from earmark.flat.types import F64, I32, I64, U64
from earmark.index.answers import MOST_ANSWERS, check_room
from earmark.index.be_star_tree.adapt import (
    clauses_below,
    event_rates,
    extensions,
    fallen,
    histogram_rates,
    observe,
    sum_losses,
)
from earmark.index.be_star_tree.arrays import (
    ALPHA,
    APPROXIMATE,
    BETA,
    BUCKETS,
    CAPACITY,
    CLAUSES,
    EXTENSION,
    FOLLOWS,
    HISTOGRAM,
    LEAST,
    PNODES,
    RIGID,
    Tree,
    as_read_only,
    copied,
    empty_tree,
)
from earmark.index.be_star_tree.change import Change
from earmark.index.be_star_tree.check import check_shape, check_tree
from earmark.index.be_star_tree.search import Room, match_events, new_room
from earmark.index.be_star_tree.topk import new_queue, rank_events, ranked
from earmark.index.contract import TreeAdaptation, Work
from earmark.index.counters import COUNTERS
from earmark.index.flat import from_stored
from earmark.index.given import check_event, checked_k, read_only_events, read_only_table
from earmark.index.held import Held
from earmark.index.ranking import new_heaps
from earmark.segment.arrays import SegmentArrays

SPLITS = ("exhaustive", "approximate")
RANKINGS = ("popularity", "histogram")
CAPACITIES = ((0.01, 5), (0.1, 20), (np.inf, 160))
"""Table II(a): the leaf capacity for matching probabilities below a bound."""
LEAF_FACTOR = 16
"""An l-node holds so many times the clauses of Table II(a): a signature rejects a clause for a sixteenth of the cost of
visiting a node (docs/papers/be-star-tree.md has the measurement)."""
LEAST_SHARE = 8
"""A p-node is worth making for a leaf's capacity divided by this, in clauses."""


class BEStarTree(Held[Tree]):
    """The tree as an index: built in bulk or clause by clause, searched, ranked, adapted to events."""

    rigid = False

    def __init__(self, table: SegmentArrays, tree: Tree) -> None:
        self._set_tree(table, tree)

    @classmethod
    def build(
        cls,
        table: SegmentArrays,
        alpha: float = 0.1,
        beta: float = 4.0,
        capacity: int | None = None,
        split: str = "exhaustive",
        ranking: str = "popularity",
        extension: float = 0.0,
        bulk: bool = True,
    ) -> Self:
        """The tree of a table. O(n c depth).

        `alpha` is the least share of a bucket that left and right get; `beta` how many times a bucket may grow before
        it gets a parent instead; `capacity` the clauses of an l-node, by default from Table II(a), following the
        matching probability that `adapt` measures; `split` is exhaustive or approximate; `ranking` by popularity, or
        with histograms of values; `extension` the mean length of extended events in keys, by which siblings stay
        apart. `bulk=False` inserts clause by clause (BE*), instead of all at once (BE*-B).
        """
        table = read_only_table(table)
        follows = capacity is None
        size = LEAF_FACTOR * CAPACITIES[0][1] if capacity is None else capacity
        _check_options(alpha, beta, size, split, ranking, extension)
        settings = {
            CAPACITY: size,
            LEAST: max(2, size // LEAST_SHARE),
            RIGID: int(cls.rigid),
            APPROXIMATE: int(split == "approximate"),
            FOLLOWS: int(follows),
            HISTOGRAM: int(ranking == "histogram"),
        }
        attributes = int(table.attr.max(initial=-1)) + 1
        tree = empty_tree(
            {ALPHA: alpha, BETA: beta, EXTENSION: extension}, settings, attributes, bool(len(table.weight))
        )
        tree.apart[:] = extension
        if ranking == "histogram":
            tree.rate[:] = histogram_rates(table)
        change = Change(tree, table)
        slots = np.arange(len(table.clause_start) - 1, dtype=np.int32)
        if bulk:
            change.build(slots)
        else:
            change.insert(slots)
        return cls(table, change.tree)

    @classmethod
    def restore(cls, table: SegmentArrays, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The tree from stored arrays, which may be mapped; AssertionError where they are not what kernels rely on."""
        require(set(arrays) == set(Tree._fields), f"the arrays are {sorted(arrays)}, not {sorted(Tree._fields)}")
        tree = from_stored(Tree, arrays)
        check_shape(tree, read_only_table(table))
        require(bool(tree.head[RIGID]) == cls.rigid, "the arrays are another kind of tree's")
        made = cls(table, tree)
        made.check()
        return made

    # --- the structure ---------------------------------------------------------------------------------------

    @property
    def capacity(self) -> int:
        """Clauses that an l-node may have."""
        return int(self._tree.head[CAPACITY])

    def check(self) -> None:
        """Raise AssertionError, naming what is broken, unless the invariant holds. O(size x depth)."""
        check_tree(self._arrays, self._table)

    def copy(self) -> Self:
        """The same tree in memory of its own. O(size), at the speed of memory."""
        return type(self)(self._table, copied(self._tree))

    def insert(self, table: SegmentArrays, slots: I32) -> None:
        """Take in new slots of a table that has grown. O(depth x constraints) a clause, amortised."""
        self._change(read_only_table(table), lambda change: change.insert(np.asarray(slots, np.int32)))

    def remove(self, slots: I32) -> None:
        """Forget slots. O(depth x constraints) a clause, amortised."""
        self._change(self._table, lambda change: change.remove(np.asarray(slots, np.int32)))

    def adapt(self, events: EventArrays, window: int = 1000) -> TreeAdaptation:
        """Learn from the last `window` of these events, and recycle what they show to be ill placed (`adapt.py`).

        It changes the tree, so call it on a copy and publish that. O(search of the events + clauses recycled).
        """
        if window < 1:
            raise EarmarkError(f"a window is a number of events, 1 or more; got {window!r}.")
        events = read_only_events(_last(events, window))
        count = len(events.start) - 1
        if not count:
            return TreeAdaptation(0, 0.0, self.capacity, 0)
        tree = self._tree if self._tree.head.flags.writeable else copied(self._tree)
        loss, work = np.zeros(int(tree.head[BUCKETS])), np.zeros(COUNTERS, np.int64)
        matched = observe(as_read_only(tree), self._table, events, 0, count, self._room(), loss, work)
        sum_losses(tree, loss, count)
        known = len(tree.rate)
        rates = event_rates(self._table, events)
        tree.rate[: len(rates)] = rates[:known]
        tree.apart[:] = np.maximum(extensions(events, known), tree.knob[EXTENSION])
        probability = matched / count / max(1, int(tree.head[CLAUSES]))
        change = Change(tree, self._table)
        recycled = self._recycle(change, probability)
        self._set_tree(self._table, change.tree)
        return TreeAdaptation(count, probability, self.capacity, recycled)

    @staticmethod
    def _recycle(change: Change, probability: float) -> int:
        """Bring capacity and structure up to date; how many clauses were placed again."""
        head = change.tree.head
        capacity = int(head[CAPACITY])
        if head[FOLLOWS]:
            capacity = LEAF_FACTOR * next(size for bound, size in CAPACITIES if probability < bound)
        low, worn = fallen(change.tree)
        everything = int(head[CLAUSES])
        if capacity != head[CAPACITY] or 2 * clauses_below(change.tree, np.concatenate([low, worn])) > everything:
            head[CAPACITY], head[LEAST] = capacity, max(2, capacity // LEAST_SHARE)
            change.rebuild_all()
            return everything
        return change.recycle_all(low, worn)

    def _change(self, table: SegmentArrays, run: Callable[[Change], None]) -> None:
        tree = self._tree
        if not all(array.flags.writeable for array in tree):
            tree = copied(tree)
        change = Change(tree, table)
        run(change)
        self._set_tree(table, change.tree)

    def _set_tree(self, table: SegmentArrays, tree: Tree) -> None:
        self._hold(table, tree)
        self._tree = tree
        self._rooms = threading.local()

    # --- searching -------------------------------------------------------------------------------------------

    def match(self, events: EventArrays, eligible: U64, e: int = 0) -> I32:
        """Eligible slots that match event e, ascending."""
        events = read_only_events(events)
        check_event(events, e)
        return self._match(events, eligible, e, e + 1)[1]

    def match_many(self, events: EventArrays, eligible: U64) -> tuple[I64, I32]:
        """Per event the eligible slots that match, ascending: (event_ptr, slots)."""
        events = read_only_events(events)
        return self._match(events, eligible, 0, len(events.start) - 1)

    def _match(self, events: EventArrays, eligible: U64, first: int, last: int) -> tuple[I64, I32]:
        tree, table, eligible = self._arrays, self._table, read_only(eligible)
        room, work = self._room(), np.zeros(COUNTERS, np.int64)
        ends = np.zeros(last + 1, np.int64)
        parts: list[I32] = []
        done, size = 0, 1 << 10
        e = first
        while e < last:
            out = np.empty(size, np.int32)
            begin = e
            e, found = match_events(tree, table, events, eligible, e, last, room, out, ends[1:], work)
            ends[begin + 1 : e + 1] += done
            done += found
            check_room(done)
            parts.append(out[:found])
            expected = int(done / (e - first) * (last - e) * 1.2) if e > first else 0
            size = max(size * 2, min(expected, MOST_ANSWERS))
        self._work = Work.counted(work)
        return ends[first:], parts[0] if len(parts) == 1 else np.concatenate([*parts, np.empty(0, np.int32)])

    def top_k(self, events: EventArrays, k: int, eligible: U64, relaxed: bool = False, e: int = 0) -> tuple[I32, F64]:
        """The k best for event e, best first: (slots, scores)."""
        events = read_only_events(events)
        check_event(events, e)
        return self._rank(rank_events, events, k, eligible, relaxed, e, e + 1)[1:]

    def top_k_many(self, events: EventArrays, k: int, eligible: U64, relaxed: bool = False) -> tuple[I64, I32, F64]:
        """Per event the k best, best first: (event_ptr, slots, scores)."""
        events = read_only_events(events)
        return self._rank(rank_events, events, k, eligible, relaxed, 0, len(events.start) - 1)

    def top_k_by(
        self,
        step: Callable[[float, float, float], float],
        events: EventArrays,
        k: int,
        eligible: U64,
        relaxed: bool = False,
    ) -> tuple[I64, I32, F64]:
        """The k best under another score: step(total, weight, event weight), from the static score on (`topk.py`).

        `step` must not decrease in any argument nor fall below `total`: then the same step over the maxima of a node
        bounds it. A Python function that Numba can compile; it is compiled once.
        """
        if not callable(step):
            raise EarmarkError(f"a score is a function of (total, weight, event weight), not {step!r}.")
        events = read_only_events(events)
        key = getattr(step, "py_func", step)
        if key not in _SCORES:
            _SCORES[key] = ranked(key)
        return self._rank(_SCORES[key], events, k, eligible, relaxed, 0, len(events.start) - 1)

    def _rank(
        self, kernel: Any, events: EventArrays, k: int, eligible: U64, relaxed: bool, first: int, last: int
    ) -> tuple[I64, I32, F64]:
        tree, table, eligible = self._arrays, self._table, read_only(eligible)
        k = checked_k(k, table)
        room, work = self._room(), np.zeros(COUNTERS, np.int64)
        queue = new_queue(int(tree.head[PNODES]))
        heaps = new_heaps(1, k)
        ends = np.zeros(last + 1, np.int64)
        slots, scores = [], []
        e, done = first, 0
        while e < last:
            size = k * max(1, min(last - e, (1 << 20) // k))
            out, out_score, begin = np.empty(size, np.int32), np.empty(size), e
            e, found = kernel(
                tree, table, events, eligible, e, last, k, relaxed, room, queue, heaps, out, out_score, ends[1:], work
            )
            ends[begin + 1 : e + 1] += done
            done += found
            slots.append(out[:found])
            scores.append(out_score[:found])
        self._work = Work.counted(work)
        return (
            ends[first:],
            np.concatenate([*slots, np.empty(0, np.int32)]),
            np.concatenate([*scores, np.empty(0)]),
        )

    def _room(self) -> Room:
        """Working room of this thread; searches leave it as they found it."""
        room: Room | None = getattr(self._rooms, "room", None)
        if room is None:
            slots = len(self._table.clause_start) - 1
            room = self._rooms.room = new_room(len(self._tree.rate), int(self._tree.head[BUCKETS]), slots)
        return room


_SCORES: dict[Any, Any] = {}
"""Searches under other scores, by their step."""


def _check_options(alpha: float, beta: float, capacity: int, split: str, ranking: str, extension: float) -> None:
    if not 0 <= alpha <= 0.5:
        raise EarmarkError(f"alpha is the least share of left and right, 0 to 0.5; got {alpha!r}.")
    if not 1 <= beta < np.inf:
        raise EarmarkError(f"beta is how many times a bucket may grow, 1 or more; got {beta!r}.")
    if isinstance(capacity, bool) or not isinstance(capacity, int | np.integer) or not 1 <= capacity <= 2**20:
        raise EarmarkError(f"capacity is a number of clauses, 1 to {2**20:,}; got {capacity!r}.")
    if split not in SPLITS:
        raise EarmarkError(f"split is {' or '.join(map(repr, SPLITS))}; got {split!r}.")
    if ranking not in RANKINGS:
        raise EarmarkError(f"ranking is {' or '.join(map(repr, RANKINGS))}; got {ranking!r}.")
    if not 0 <= extension < np.inf:
        raise EarmarkError(f"extension is a length in keys, 0 or more; got {extension!r}.")


def _last(events: EventArrays, count: int) -> EventArrays:
    """The last so many events of a batch."""
    first = max(0, len(events.start) - 1 - count)
    begin = int(events.start[first])
    weight = events.weight[begin:] if len(events.weight) else events.weight
    start = events.start[first:] - begin
    return EventArrays(start, events.attr[begin:], events.lo[begin:], events.hi[begin:], weight)
