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

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from earmark.errors import EarmarkError, require
from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.flat.types import F64, I32, I64, U64
from earmark.index.answers import pointers_of
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
    RIGID,
    TreeArrays,
    as_read_only,
    copied,
    empty_tree,
)
from earmark.index.be_star_tree.change import TreeChange
from earmark.index.be_star_tree.check import check_shape, check_tree
from earmark.index.be_star_tree.search import TreeScratch, match_events, new_scratch
from earmark.index.be_star_tree.topk import rank_events, ranked
from earmark.index.contract import TreeAdaptation
from earmark.index.counters import COUNTERS
from earmark.index.driver import ArrayIndex
from earmark.index.given import read_only_events, read_only_table
from earmark.index.kernels import Asked, Searched
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


class BEStarTree(ArrayIndex[TreeArrays]):
    """The tree as an index: built in bulk or clause by clause, searched, ranked, adapted to events."""

    is_updatable = True
    is_adaptive = True
    rigid = False
    _kind = TreeArrays
    _match_kernel = match_events
    _rank_kernel = rank_events

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
        change = TreeChange(tree, table)
        slots = np.arange(len(table.clause_start) - 1, dtype=np.int32)
        if bulk:
            change.build(slots)
        else:
            change.insert(slots)
        return cls(table, change.tree)

    @classmethod
    def restore(cls, table: SegmentArrays, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The tree from stored arrays, which may be mapped; AssertionError where they are not what kernels rely on."""
        fields = TreeArrays._fields
        require(set(arrays) == set(fields), f"the arrays are {sorted(arrays)}, not {sorted(fields)}")
        restored = super().restore(table, arrays)
        restored.check()
        return restored

    @classmethod
    def _check_arrays(cls, arrays: TreeArrays, table: SegmentArrays) -> None:
        check_shape(arrays, table)
        require(bool(arrays.head[RIGID]) == cls.rigid, "the arrays are another kind of tree's")

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
        asked = Asked(events, bits.all_set(0), 0, count)
        matched = observe(Searched(self._table, as_read_only(tree)), asked, self._new_scratch(), loss, work)
        sum_losses(tree, loss, count)
        known = len(tree.rate)
        rates = event_rates(self._table, events)
        tree.rate[: len(rates)] = rates[:known]
        tree.apart[:] = np.maximum(extensions(events, known), tree.knob[EXTENSION])
        probability = matched / count / max(1, int(tree.head[CLAUSES]))
        change = TreeChange(tree, self._table)
        recycled = self._recycle(change, probability)
        self._hold(self._table, change.tree)
        return TreeAdaptation(count, probability, self.capacity, recycled)

    @staticmethod
    def _recycle(change: TreeChange, probability: float) -> int:
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

    def _change(self, table: SegmentArrays, run: Callable[[TreeChange], None]) -> None:
        tree = self._tree
        if not all(array.flags.writeable for array in tree):
            tree = copied(tree)
        change = TreeChange(tree, table)
        run(change)
        self._hold(table, change.tree)

    def _hold(self, table: SegmentArrays, arrays: TreeArrays) -> None:
        super()._hold(table, arrays)
        self._tree = arrays

    # --- searching -------------------------------------------------------------------------------------------

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
        key = getattr(step, "py_func", step)
        if key not in _SCORES:
            _SCORES[key] = ranked(key)
        asked = self._asked(events, k, eligible, relaxed, 0, len(events.start) - 1)
        counts, slots, scores, self._counted = self._ranks(asked, None, _SCORES[key])
        return pointers_of(counts), slots, scores

    def _new_scratch(self) -> TreeScratch:
        return new_scratch(self._arrays, len(self._table.clause_start) - 1)


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
