"""Which clauses can an event match: partition by attribute, cluster by value, and so on in turn. The BE*-Tree.

Sadoghi and Jacobsen, "Relevance Matters: Capitalizing on Less" (BE*-Tree): sections III to VI, Algorithms 1 to 7.

    root c-node    l-node: clauses without an attribute that was worth a p-node, or that must be (always true, NULL)
      p-directory
        p-node a                                        only events that have attribute a come here
          c-directory: buckets over the values of a     left and right never overlap, what spans both stays above
            bucket [3, 90]  own c-node: l-node, p-directory { p-node b: ... }
            bucket [3, 40]  ...       bucket [55, 90]  ...

**Invariant** (`check`). Left and right of a bucket are disjoint; every bucket's box is the bounding box of its clauses,
on its active and its inactive dimensions; bounds on scores are the maxima of its clauses; no attribute partitions twice
on a path; a clause is only below attributes on which it has a constraint that does not accept NULL; counts agree;
nothing is lost between the tree and its free lists.

**Complexity.** n clauses of c constraints. Bulk build O(n c depth); insert and remove O(depth x c), amortised; a match
visits the buckets that the event's values meet; space 150 to 250 bytes per clause of 8 constraints.

Read on in this order: `arrays.py` (the drawing), `change.py`, `settle.py`, `bounds.py`, `search.py`, `topk.py`,
`adapt.py`, `check.py`. Where we differ from the paper, and why: each file, and
docs/papers/be-star-tree.md. BE-Tree (`be_tree.py`) is the same tree over cells of halved domains.

Threads: searches only read. Everything that changes the tree (`insert`, `remove`, `adapt`) is for a copy that no other
thread holds yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import earmark.index.be_star_tree.adapt as adapt
import earmark.index.be_star_tree.arrays as be
from earmark.errors import EarmarkError, require
from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.flat import bits
from earmark.flat.arrays import I32
from earmark.index.be_star_tree.adapt import Outlook, Seen
from earmark.index.be_star_tree.arrays import TreeArrays, copied, empty_tree
from earmark.index.be_star_tree.change import TreeChange
from earmark.index.be_star_tree.check import check_tree
from earmark.index.be_star_tree.search import TreeScratch, match_events, new_scratch
from earmark.index.be_star_tree.topk import rank_events, rank_events_by
from earmark.index.contract import TreeAdaptation
from earmark.index.counters import COUNTERS
from earmark.index.driver import ArrayIndex, read_only_events, read_only_table
from earmark.index.kernels import Asked
from earmark.segment.arrays import SegmentArrays
from earmark.segment.combine import Combination, scoring_of

SPLITS = ("exhaustive", "approximate")
RANKINGS = ("popularity", "histogram")
CAPACITIES = ((0.01, 5), (0.1, 20), (np.inf, 160))
"""Table II(a): the leaf capacity for matching probabilities below a bound."""
LEAF_FACTOR = 16
"""How many times the clauses of Table II(a) an l-node holds: a signature rejects a clause for a sixteenth of the cost
of visiting a node (docs/papers/be-star-tree.md has the measurement)."""
LEAST_SHARE = 8
"""A p-node is made for at least this fraction (one eighth) of a leaf's capacity, in clauses."""


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
        *,
        alpha: float = 0.1,
        beta: float = 4.0,
        capacity: int | None = None,
        split: str = "exhaustive",
        ranking: str = "popularity",
        extension: float = 0.0,
        bulk: bool = True,
    ) -> Self:
        """Build the tree of a table. O(n c depth).

        `alpha` is the least share of a bucket that left and right get; `beta` how many times a bucket may grow before
        it gets a parent instead; `capacity` the clauses of an l-node, by default from Table II(a), following the
        matching probability that `adapt` measures; `split` is exhaustive or approximate; `ranking` by popularity, or
        with histograms of values; `extension` the mean length of extended events in keys, the distance that siblings
        keep. `bulk=False` inserts clause by clause (BE*), instead of all at once (BE*-B).
        """
        table = read_only_table(table)
        size = LEAF_FACTOR * CAPACITIES[0][1] if capacity is None else capacity
        whole = isinstance(size, int | np.integer) and not isinstance(size, bool)
        for fits, wanted, got in (
            (0 <= alpha <= 0.5, "alpha, the least share of left and right, from 0 to 0.5", alpha),
            (1 <= beta < np.inf, "beta, how many times a bucket may grow, to be 1 or more", beta),
            (whole and 1 <= size <= 2**20, f"capacity, a number of clauses, from 1 to {2**20:,}", size),
            (split in SPLITS, f"split to be {' or '.join(map(repr, SPLITS))}", split),
            (ranking in RANKINGS, f"ranking to be {' or '.join(map(repr, RANKINGS))}", ranking),
            (0 <= extension < np.inf, "extension, a length in keys, to be 0 or more", extension),
        ):
            if not fits:
                raise EarmarkError(f"expected {wanted}, got {got!r}")
        settings = {
            be.CAPACITY: size,
            be.LEAST: max(2, size // LEAST_SHARE),
            be.RIGID: int(cls.rigid),
            be.APPROXIMATE: int(split == "approximate"),
            be.FOLLOWS: int(capacity is None),
            be.HISTOGRAM: int(ranking == "histogram"),
        }
        attributes, weighted = int(table.attr.max(initial=-1)) + 1, bool(len(table.weight))
        tree = empty_tree([alpha, beta, extension], settings, attributes, weighted)
        tree.apart[:] = extension
        return cls._filled(tree, table, bulk)

    @classmethod
    def _filled(cls, tree: TreeArrays, table: SegmentArrays, bulk: bool = True) -> Self:
        """Insert all slots of a table into an empty tree."""
        change = TreeChange(tree, table)
        slots = np.arange(len(table.clause_start) - 1, dtype=np.int32)
        (change.build if bulk else change.insert)(slots)
        return cls(table, change.tree)

    def build_learned(self, table: SegmentArrays, old: ArrayIndex[Any]) -> Self | None:
        """Build the tree of a table with the options of this one and what another has learned; None if that is nothing.

        What is learned: the rates of attributes, the distances of siblings, and the capacity where it follows events.
        """
        if not isinstance(old, type(self)) or not old._tree.head[be.LEARNED]:
            return None
        table, learned = read_only_table(table), old._tree
        settings = {field: int(self._tree.head[field]) for field in be.SETTINGS}
        settings[be.LEARNED] = int(learned.head[be.LEARNED])
        if settings[be.FOLLOWS] and learned.head[be.FOLLOWS]:
            settings |= {field: int(learned.head[field]) for field in (be.CAPACITY, be.LEAST)}
        attributes = max(len(learned.rate), int(table.attr.max(initial=-1)) + 1)
        tree = empty_tree(self._tree.knob.tolist(), settings, attributes, bool(len(table.weight)))
        tree.apart[:] = self._tree.knob[be.EXTENSION]
        tree.rate[: len(learned.rate)] = learned.rate
        tree.apart[: len(learned.apart)] = np.maximum(tree.apart[: len(learned.apart)], learned.apart)
        return self._filled(tree, table)

    @classmethod
    def restore(cls, table: SegmentArrays, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Open stored arrays, which may be mapped, as a tree; AssertionError where kernels could not rely on them."""
        fields = TreeArrays._fields
        require(set(arrays) == set(fields), f"expected the arrays {sorted(fields)}, got {sorted(arrays)}")
        return super().restore(table, arrays)

    @classmethod
    def _check_arrays(cls, arrays: TreeArrays, table: SegmentArrays) -> None:
        check_tree(arrays, table)
        require(bool(arrays.head[be.RIGID]) == cls.rigid, "the arrays are those of another kind of tree")

    # --- the structure ---------------------------------------------------------------------------------------

    @property
    def capacity(self) -> int:
        """The number of clauses that an l-node may have."""
        return int(self._tree.head[be.CAPACITY])

    def check(self) -> None:
        """Raise AssertionError, naming what is broken, unless the invariant holds. O(size x depth)."""
        check_tree(self._arrays, self._table)

    def copy(self) -> Self:
        """Copy the tree. O(size), at the speed of memory."""
        return type(self)(self._table, copied(self._tree))

    def insert(self, table: SegmentArrays, slots: I32) -> None:
        """Insert new slots of a table that has grown. O(depth x constraints) per clause, amortised."""
        self._change(read_only_table(table), lambda change: change.insert(np.asarray(slots, np.int32)))

    def remove(self, slots: I32) -> None:
        """Remove slots. O(depth x constraints) per clause, amortised."""
        self._change(self._table, lambda change: change.remove(np.asarray(slots, np.int32)))

    def adapt(self, events: EventArrays, window: int = 1000) -> TreeAdaptation:
        """Learn from the last `window` of these events, and move what they show to be badly placed (`adapt.py`).

        It changes the tree, so call it on a copy and publish that. O(search of the events + clauses recycled).
        """
        if window < 1:
            raise EarmarkError(f"expected a window of at least 1 event, got {window!r}")
        batch = len(events.start) - 1
        count = min(window, batch)
        events = read_only_events(some_events(events, np.arange(batch - count, batch)))
        if not count:
            return TreeAdaptation(0, 0.0, self.capacity, 0, 0)

        def learn(change: TreeChange) -> tuple[int, int]:
            """Bring rates, capacity and structure up to date; how many clauses were inserted, and clustered, again."""
            tree, head = change.tree, change.tree.head
            adapt.set_losses(tree, seen)
            known, rates = len(tree.rate), adapt.event_rates(self._table, events)
            tree.rate[: len(rates)] = rates[:known]
            tree.apart[:] = np.maximum(adapt.extensions(events, known), tree.knob[be.EXTENSION])
            head[be.LEARNED] = count
            if head[be.FOLLOWS]:
                capacity = LEAF_FACTOR * next(size for bound, size in CAPACITIES if probability < bound)
                if capacity != head[be.CAPACITY]:
                    head[be.CAPACITY], head[be.LEAST] = capacity, max(2, capacity // LEAST_SHARE)
                    change.rebuild_all()
                    return 0, int(head[be.CLAUSES])
            options = adapt.options_of(tree, self._table, events, seen)
            (low, worn), (moved, aims) = adapt.fallen(tree, seen), adapt.better_places(tree, options)
            clustered, recycled = change.cluster_again(worn), change.recycle(low, moved, aims)
            if clustered or recycled:
                change.tidy()
            return recycled, clustered

        recycled = clustered = 0
        for _ in range(adapt.PASSES):
            seen, matched = self._seen(events)
            probability = matched / count / max(1, int(self._tree.head[be.CLAUSES]))
            moved, again = self._change(self._table, learn)
            recycled, clustered = recycled + moved, clustered + again
            if not moved:
                break
        return TreeAdaptation(count, probability, self.capacity, recycled, clustered)

    def outlook(self, events: EventArrays) -> Outlook:
        """What inserting clauses again could gain on these events (`adapt.py`). The tree stays as it is."""
        events = read_only_events(events)
        seen, _ = self._seen(events)
        return adapt.outlook_of(self._tree, adapt.options_of(self._tree, self._table, events, seen))

    def _seen(self, events: EventArrays) -> tuple[Seen, int]:
        """What events do in the tree, and the clauses that they match."""
        seen = adapt.nothing_seen(self._tree)
        asked = Asked(events, bits.all_set(0), 0, len(events.start) - 1)
        work = np.zeros(COUNTERS, np.int64)
        return seen, adapt.observe(self._searched.value, asked, self._new_scratch(), seen, work)

    def _change(self, table: SegmentArrays, run: Callable[[TreeChange], Any]) -> Any:
        """Change the tree, or a copy of it where its arrays are not its own."""
        writable = all(array.flags.writeable for array in self._tree)
        change = TreeChange(self._tree if writable else copied(self._tree), table)
        returned = run(change)
        self._hold(table, change.tree)
        return returned

    def _hold(self, table: SegmentArrays, arrays: TreeArrays) -> None:
        super()._hold(table, arrays)
        self._tree = arrays

    # --- searching -------------------------------------------------------------------------------------------

    def _combined_kernel(self, asked: Asked, combination: Combination) -> Any:
        return rank_events_by(scoring_of(combination))

    def _new_scratch(self) -> TreeScratch:
        return new_scratch(self._arrays, len(self._table.clause_start) - 1)
