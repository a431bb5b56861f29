"""From a table to scored lists: which interval of which clause is in which list, with which score.

Exact search wants one order for all lists, the score of the clause. A matching event meets *every* constraint of a
clause, so one of them is enough to find it by: the clause is *routed* through the constraint that the fewest events
are likely to meet, and verified. (`intersect` lists all of them, as the paper does.) Relaxed search can meet any
constraint, so all are listed, each with its own weight.

    a BETWEEN 0 AND 9 AND b = 4     weights .2 .7     score 3       exact:   b: [4, 4] at 3.9
                                                                    relaxed: a: [0, 9] at 3.2   b: [4, 4] at 3.7

A constraint that accepts NULL holds for events that no list of its attribute sees, so it never routes. Clauses that
it leaves without a route are *loose*: a list of slots by score, verified one by one until their scores are too low.
In relaxed search that is every clause that has such a constraint, because absence alone makes it qualify.

What the relaxed lists are sorted by, the *regime*: the weight where all static scores are equal (the Threshold
Algorithm as published); static score + weight where they differ; and where no clause has two constraints, relaxed is
the same as exact, and the exact lists serve both.

Invariant: in a list scores descend, and sequences ascend inside equal scores. Sums are those of `clause_score`, bit
for bit, so the score of a routed entry is what a point event without weights gets.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

import earmark.index.ranked.arrays as sc
from earmark.flat.arrays import F64, I32, I64, Flags, pointers_of
from earmark.index.ranked.arrays import ScoredArrays
from earmark.jit import kernel
from earmark.segment.arrays import SegmentArrays, offsets, spread

GRID = 64
"""Sampled endpoints of an attribute by which the reach of an interval is estimated."""
SAMPLED = 1 << 17
"""Intervals of the whole table that are looked at for the sample."""


class EntryColumns(NamedTuple):
    """Intervals with scores and slots, side by side."""

    lo: I64
    hi: I64
    score: F64
    slot: I32


class ScoredLists(NamedTuple):
    """Entries grouped by list, in the order of the list: the rows `start[i]` to `start[i + 1]` are list i."""

    attr: I32
    start: I64
    lo: I64
    hi: I64
    score: F64
    slot: I32
    sole: Flags
    heaviest: F64

    def entries(self, number: int) -> EntryColumns:
        """The entries of one list."""
        part = slice(int(self.start[number]), int(self.start[number + 1]))
        return EntryColumns(self.lo[part], self.hi[part], self.score[part], self.slot[part])

    def permuted(self, order: I64) -> ScoredLists:
        """The same lists with their entries in another order, which moves none to another list."""
        return self._replace(lo=self.lo[order], hi=self.hi[order], score=self.score[order], slot=self.slot[order])


class LooseSlots(NamedTuple):
    """Slots that no list finds, by score descending, then sequence."""

    slot: I32
    score: F64


class Grids(NamedTuple):
    """Per attribute, a sample of its endpoints, ascending, and the number of its constraints at that time.

    Routes depend on nothing else, so that an index can find again where it put a clause.
    """

    start: I32
    key: I64
    used: I64


class Layout(NamedTuple):
    """Everything an index is built from, beside the table."""

    exact: ScoredLists
    relaxed: ScoredLists
    loose_exact: LooseSlots
    loose_relaxed: LooseSlots
    regime: int
    grids: Grids


class ClauseFacts(NamedTuple):
    """What is needed of each clause and constraint, computed once."""

    slot: I32
    clause: I64
    sum: F64
    dead: Flags
    constraints: I64
    keyable: I64
    """How many constraints can route the clause: those that do not accept NULL."""


def describe(table: SegmentArrays) -> ClauseFacts:
    """Facts about every clause: its slot, its sum, whether it can match at all, what of it accepts a NULL."""
    clauses = len(table.constraint_start) - 1
    slot = np.repeat(np.arange(len(table.clause_start) - 1, dtype=np.int32), np.diff(table.clause_start))
    constraints = np.diff(table.constraint_start).astype(np.int64)
    clause = np.repeat(np.arange(clauses, dtype=np.int64), constraints)
    keyable = table.accepts_null == 0
    empty = (np.diff(table.interval_start) == 0) & keyable
    dead, routable = (np.bincount(clause[flag], minlength=clauses) for flag in (empty, keyable))
    return ClauseFacts(slot, clause, clause_sums(table), dead > 0, constraints, routable)


def lay_out(
    table: SegmentArrays,
    modes: str = "both",
    intersect: bool = False,
    grids: Grids | None = None,
    only: Flags | None = None,
    regime: int | None = None,
) -> Layout:
    """Lay out the lists of a table. `only` restricts them to some slots; pass the index's `grids` and `regime` then."""
    facts = describe(table)
    grids = grids if grids is not None else sample(table)
    chosen = np.ones(len(facts.slot), bool) if only is None else only[facts.slot]
    if regime is None:
        equal = not len(table.score) or (table.score == table.score[0]).all()
        shared = modes == "both" and not (facts.constraints > 1).any()
        other = sc.SHARED if shared else sc.BY_WEIGHT if equal else sc.BY_SUM
        regime = sc.ABSENT_LISTS if modes == "exact" else other
    nullable = facts.keyable < facts.constraints
    exact_loose = chosen & ~facts.dead & (facts.keyable == 0)
    relaxed_loose = chosen & (nullable | (facts.constraints == 0))
    route = routes(table, grids)
    route[~chosen | facts.dead | exact_loose] = sc.EMPTY
    routed, wanted = np.zeros((2, len(table.attr)), bool)
    if modes != "relaxed":
        if intersect:
            routed = (table.accepts_null == 0) & (chosen & ~facts.dead)[facts.clause]
        else:
            routed[route[route != sc.EMPTY]] = True
    if regime in (sc.BY_WEIGHT, sc.BY_SUM):
        wanted = (chosen & ~nullable)[facts.clause]
    scores = _weights(table)
    if regime == sc.BY_SUM and len(table.score):
        scores = table.score[facts.slot[facts.clause]] + scores
    return Layout(
        _lists(table, facts, routed, facts.sum[facts.clause]),
        _lists(table, facts, wanted, scores),
        in_score_order(table, facts.slot[exact_loose], facts.sum[exact_loose]),
        in_score_order(table, facts.slot[relaxed_loose], facts.sum[relaxed_loose]),
        regime,
        grids,
    )


def lay_out_again(arrays: ScoredArrays, table: SegmentArrays, only: Flags | None = None) -> Layout:
    """Lay out the lists of a table (of the slots in `only`) as the index with these arrays does."""
    grids = Grids(arrays.grid_start, arrays.grid, arrays.grid_used)
    return lay_out(table, modes_of(arrays.info), bool(len(arrays.needed)), grids, only, int(arrays.info[sc.REGIME]))


def modes_of(info: I64) -> str:
    """The searches that an index was built for."""
    return "relaxed" if not info[sc.EXACT] else "exact" if info[sc.REGIME] == sc.ABSENT_LISTS else "both"


def _weights(table: SegmentArrays) -> F64:
    return table.weight if len(table.weight) else np.ones(len(table.attr))


def needed(table: SegmentArrays, intersect: bool) -> I32:
    """Per slot, the number of lists in which an event must meet it; empty without intersection."""
    if not intersect:
        return np.empty(0, np.int32)
    facts = describe(table)
    lists = np.zeros(len(table.clause_start) - 1, np.int32)
    lists[facts.slot] = facts.keyable
    return lists


def sample(table: SegmentArrays) -> Grids:
    """Up to GRID endpoints of each attribute, evenly through their order."""
    attributes = int(table.attr.max(initial=-1)) + 1
    used = np.bincount(table.attr, minlength=attributes).astype(np.int64)
    if not (np.diff(table.constraint_start) > 1).any():
        nothing = np.empty(0, np.int64)  # there is nothing to choose between
        return Grids(np.zeros(attributes + 1, np.int32), nothing, used)
    every = max(1, len(table.lo) // SAMPLED)
    attr = np.repeat(table.attr, np.diff(table.interval_start))[::every]
    both = np.concatenate([attr, attr]).astype(np.int64)
    keys = np.concatenate([table.lo[::every], table.hi[::every]])
    order = np.lexsort((keys, both))
    keys = keys[order]
    start = pointers_of(np.bincount(both, minlength=attributes))
    sampled = [np.empty(0, np.int64)]
    for begin, end in pairwise(start.tolist()):
        sampled.append(keys[np.unique(np.linspace(begin, end - 1, min(GRID, end - begin)).astype(np.int64))])
    return Grids(offsets([len(part) for part in sampled[1:]]), np.concatenate(sampled), used)


def routes(table: SegmentArrays, grids: Grids) -> I64:
    """Per clause, the constraint that the fewest events are likely to meet, or EMPTY when none can route."""
    # A rare attribute is in few events; weighted so low that it only decides between equal reaches.
    used = np.append(grids.used, 0)[np.minimum(table.attr, len(grids.used))]
    cost = estimate_reach(table, grids.start, grids.key) + 1e-3 * used / max(1, int(grids.used.sum()))
    cost[table.accepts_null != 0] = np.inf
    return cheapest_constraint(table, cost)


def _lists(table: SegmentArrays, facts: ClauseFacts, constraints: Flags, scores: F64) -> ScoredLists:
    """The intervals of the chosen constraints as lists by attribute, in order."""
    rows = np.flatnonzero(constraints)
    start, intervals = spread(table.interval_start, rows)
    owner = np.repeat(rows, np.diff(start))
    attr, score = table.attr[owner], scores[owner]
    slot = facts.slot[facts.clause[owner]]
    order = in_order(attr, score, table.sequence[slot])
    attrs, first = np.unique(attr[order], return_index=True)
    one_clause = np.diff(table.clause_start) == 1
    lone = one_clause[slot] & (facts.constraints[facts.clause[owner]] == 1)
    sole, heaviest = lone[:0], score[:0]
    if len(first):
        sole = np.logical_and.reduceat(lone[order], first)
        heaviest = np.maximum.reduceat(_weights(table)[owner[order]], first)
    return ScoredLists(
        attrs.astype(np.int32),
        np.append(first, len(order)).astype(np.int64),
        table.lo[intervals][order],
        table.hi[intervals][order],
        score[order],
        slot[order],
        sole,
        heaviest,
    )


def joined(a: ScoredLists, b: ScoredLists) -> ScoredLists:
    """The lists of `a`, then those of `b`."""
    pairs: Any = zip(a, b, strict=True)
    both = ScoredLists._make([np.concatenate(pair) for pair in pairs])
    return both._replace(start=np.concatenate([a.start, b.start[1:] + a.start[-1]]))


def in_order(attr: I32, score: F64, sequence: I64) -> I64:
    """The order by attribute, then score descending, then sequence; of equals, the earlier first."""
    if len(sequence) and (sequence[:-1] <= sequence[1:]).all() and (attr == attr[0]).all():
        return np.argsort(-score, kind="stable")
    return np.lexsort((sequence, -score, attr))


def in_score_order(table: SegmentArrays, slot: I32, score: F64) -> LooseSlots:
    """Loose slots by score descending, then sequence."""
    order = in_order(np.zeros(len(slot), np.int32), score, table.sequence[slot])
    return LooseSlots(slot[order], score[order])


@kernel
def clause_sums(table: SegmentArrays) -> F64:
    """The score of every clause when all its constraints hold, summed as `clause_score` does."""
    out = np.empty(len(table.constraint_start) - 1)
    for slot in range(len(table.clause_start) - 1):
        for clause in range(table.clause_start[slot], table.clause_start[slot + 1]):
            total = table.score[slot] if len(table.score) else 0.0
            for constraint in range(table.constraint_start[clause], table.constraint_start[clause + 1]):
                total += table.weight[constraint] if len(table.weight) else 1.0
            out[clause] = total
    return out


@kernel
def estimate_reach(table: SegmentArrays, grid_start: I32, grid: I64) -> F64:
    """Per constraint, the share of sampled endpoints that its intervals cover, and a little for each."""
    out = np.zeros(len(table.attr))
    for constraint in range(len(table.attr)):
        attr = table.attr[constraint]
        if attr < len(grid_start) - 1:
            begin, end = grid_start[attr], grid_start[attr + 1]
            for interval in range(table.interval_start[constraint], table.interval_start[constraint + 1]):
                low = np.searchsorted(grid[begin:end], table.lo[interval], "left")
                high = np.searchsorted(grid[begin:end], table.hi[interval], "right")
                out[constraint] += (high - low + 0.1) / (end - begin + 1)
    return out


@kernel
def cheapest_constraint(table: SegmentArrays, cost: F64) -> I64:
    """Per clause, the constraint of least finite cost, or EMPTY where there is none."""
    out = np.full(len(table.constraint_start) - 1, sc.EMPTY, np.int64)
    for clause in range(len(out)):
        least = np.inf
        for constraint in range(table.constraint_start[clause], table.constraint_start[clause + 1]):
            if cost[constraint] < least:
                least, out[clause] = cost[constraint], constraint
    return out
