"""Following the events: rank, recycling, leaf capacity, distance of siblings. Section V-B and Algorithm 4, line 11.

Searches change nothing, so that any number of threads can read a tree. Statistics of events are collected only on
request: `adapt(events)` on a copy, which is then published in place of the old tree. It

1. searches the window of events, counting for each l-node the events that visit it and its loss: the clauses that were
   evaluated there in vain (a signature that rejects a clause counts as a sixteenth of one), and one for each visit
   without a match;
2. sets the loss of each p-node: what its l-nodes lost, per event that reached the c-node it belongs to. These are the
   events for which it competes with the p-nodes beside it. rank = gain - loss, where gain is the number of clauses
   below, for each of which the p-node's predicate is evaluated once for all. Inserts go to the highest rank;
3. sets the rate of each attribute: the share of its clauses that an event of the window reaches by it. The next
   partitioning ranks attributes by number of clauses x (1 - rate);
4. sets the leaf capacity from the matching probability (Table II(a)), when it was not fixed, and the distance that
   siblings keep to the mean extension of events (footnote 4). Another capacity means building the tree again;
5. recycles. A p-node whose rank is too low for it to be made again is removed, and its clauses are inserted again. Of
   the l-nodes that account for nearly all of the loss, the clauses that events would come upon less than half as often
   below another attribute are inserted again, below that attribute (and the window is searched once more, for those
   that the moves have left in a bad place):

       l-node below a: visited by 600 of 1000 events       clause 7: a in [3, 9], b = 5, c = 1

       events that have b: 500, and b = 5: 20     p-node b has 8,000 clauses in l-nodes of 80: 20 + 500 / 100 = 25
       events that have c: 900, and c = 1: 800    p-node c ...                                  800 + ...
                                                                                     -> clause 7 goes below b

6. clusters again the p-nodes that events visit, and of which more clauses were added or removed since they were built
   than half of what they have.

Where we differ: the paper leaves the threshold of recycling open, and how inserting again avoids ending in the same
place. A fixed threshold recycles the same nodes at every call where all places are equally bad; comparing with the best
other place does not, and moves only what gains.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import earmark.index.be_star_tree.arrays as be
import earmark.index.be_star_tree.search as search
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import F64, I32, I64
from earmark.flat.machine import at
from earmark.index.be_star_tree.arrays import TreeArrays
from earmark.index.be_star_tree.nodes import whole
from earmark.index.be_star_tree.search import TreeScratch
from earmark.index.kernels import Asked, Searched
from earmark.jit import kernel
from earmark.segment.arrays import SegmentArrays, spread

SIGNATURE_COST = 1 / 16
"""What a signature that rejects a clause costs, in false candidates."""
SAMPLE = 4096
"""Constraints of an attribute from which its rate is computed."""
ENOUGH = 8
"""Fewer visits than these say nothing about a node."""
LOSS_SHARE = 0.95
"""The l-nodes that are looked at account for this share of the loss."""
BETTER = 0.5
"""A clause is inserted again when events come upon it at most this share as often as where it is."""
ROUNDS = 3
"""How often attributes too few clauses chose are given up, and these choose again."""
PASSES = 2
"""How often the window is searched, and clauses are moved, in one adaptation."""


class Seen(NamedTuple):
    """What a window of events did in a tree, by bucket: events that visited its own c-node, and the loss there."""

    visits: I64
    loss: F64


def nothing_seen(tree: TreeArrays) -> Seen:
    """Make room for what will be seen."""
    buckets = int(tree.head[be.BUCKETS])
    return Seen(np.zeros(buckets, np.int64), np.zeros(buckets))


@kernel
def observe(searched: Searched[TreeArrays], asked: Asked, scratch: TreeScratch, seen: Seen, work: I64) -> int:
    """Search the events, and count what they do at each bucket; returns the clauses matched."""
    tree, events = searched.arrays, asked.events
    matched = 0
    for e in range(asked.first, asked.last):
        sign = search.spread_event(events, e, scratch)
        scratch.stack[0], height = be.ROOT, 1
        while height:
            height -= 1
            b = whole(at(scratch.stack, height))
            height = search.push_children(tree, b, scratch, height, False)
            if not search.meets_own(tree, b, scratch):
                continue
            height = search.push_pnodes(tree, events, e, b, scratch, height, False)
            before = matched
            seen.visits[b] += 1
            first = at(tree.link, b * be.LINK + be.FIRST)
            for entry in range(first, first + at(tree.link, b * be.LINK + be.COUNT)):
                if at(tree.sign, entry) & ~sign:
                    seen.loss[b] += SIGNATURE_COST
                elif search.entry_holds(searched, events, e, entry, scratch, work):
                    matched += 1
                else:
                    seen.loss[b] += 1.0
            seen.loss[b] += 1.0 if matched == before else 0.0
        search.clear_event(events, e, scratch)
    return matched


def set_losses(tree: TreeArrays, seen: Seen) -> None:
    """Set the loss of each p-node: that of all buckets below it, per event that reached its owner."""
    part, more = tree.pnode.reshape(-1, be.PART), tree.more.reshape(-1, be.MORE)
    tree.loss[:] = 0.0
    b = np.flatnonzero(seen.loss)
    lost = seen.loss[b]
    while len(b):
        inside = more[b, be.LEVEL] > 0
        p, lost = more[b[inside], be.PNODE], lost[inside]
        np.add.at(tree.loss, p, lost)
        b = part[p, be.POWNER]
    live = np.flatnonzero(tree.loss)
    tree.loss[live] /= np.maximum(seen.visits[part[live, be.POWNER]], 1)


# --- what events would do elsewhere ----------------------------------------------------------------------------------


def keyed_boxes(table: SegmentArrays, constraints: I64) -> tuple[I64, I64]:
    """The boxes of constraints that can key: (lo, hi)."""
    return table.lo[table.interval_start[constraints]], table.hi[table.interval_start[constraints + 1] - 1]


def able(table: SegmentArrays, constraints: I64) -> I64:
    """Those of the constraints that can key."""
    some = table.interval_start[constraints + 1] > table.interval_start[constraints]
    keyed: I64 = constraints[some & (table.accepts_null[constraints] == 0)]
    return keyed


def by_attribute(attr: I32, attributes: int) -> tuple[I64, I64]:
    """An order by attribute, and where each attribute begins in it."""
    order = np.argsort(attr, kind="stable")
    return order, np.searchsorted(attr[order], np.arange(attributes + 1))


def event_rates(table: SegmentArrays, events: EventArrays) -> F64:
    """By attribute, the share of its clauses that an event reaches by it, on average over the events."""
    constraints = able(table, np.arange(len(table.attr)))
    attributes = int(table.attr.max(initial=-1)) + 1
    order, starts = by_attribute(table.attr[constraints], attributes)
    sampled = [
        order[np.unique(np.linspace(begin, end - 1, min(end - begin, SAMPLE)).astype(np.int64))]
        for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        if end > begin
    ]
    chosen = constraints[np.concatenate([order[:0], *sampled])]
    counts = np.bincount(table.attr[chosen], minlength=attributes)
    reached = np.bincount(table.attr[chosen], reaches(table, chosen, events), minlength=attributes)
    rates: F64 = reached / np.maximum(counts, 1)
    return rates


def reaches(table: SegmentArrays, constraints: I64, events: EventArrays) -> F64:
    """The share of events that meet each of some constraints that can key."""
    (lo, hi), attr = keyed_boxes(table, constraints), table.attr[constraints]
    attributes = int(attr.max(initial=-1)) + 1
    order, starts = by_attribute(attr, attributes)
    by_event, places = by_attribute(events.attr, attributes)
    found = np.zeros(len(constraints))
    for a in np.unique(events.attr[events.attr < attributes]).tolist():
        own, values = order[starts[a] : starts[a + 1]], by_event[places[a] : places[a + 1]]
        begun = np.searchsorted(np.sort(events.lo[values]), hi[own], "right")
        found[own] = begun - np.searchsorted(np.sort(events.hi[values]), lo[own], "left")
    return found / max(1, len(events.start) - 1)


def extensions(events: EventArrays, attributes: int) -> F64:
    """By attribute, the mean extension of the events that have it, in keys."""
    known = events.attr < attributes
    attr = events.attr[known]
    lengths = events.hi[known].astype(np.float64) - events.lo[known].astype(np.float64)
    counts = np.bincount(attr, minlength=attributes)
    return np.bincount(attr, lengths, minlength=attributes) / np.maximum(counts, 1)


# --- what to recycle --------------------------------------------------------------------------------------------------


def fallen(tree: TreeArrays, seen: Seen) -> tuple[I64, I64]:
    """p-nodes, upper levels first: those whose rank is too low to be made again, and those to be clustered again."""
    part, more = tree.pnode.reshape(-1, be.PART)[: tree.head[be.PNODES]], tree.more.reshape(-1, be.MORE)
    live = np.flatnonzero(part[:, be.POWNER] != be.NONE)
    live = live[np.argsort(more[part[live, be.PROOT], be.LEVEL], kind="stable")]
    below, changed = more[part[live, be.PROOT]][:, [be.BELOW, be.CHANGED]].T
    least, expected = tree.head[be.LEAST], below * (1.0 - tree.rate[part[live, be.PATTR]])
    low = (below - tree.loss[live] < least) & (expected < least) & (seen.visits[part[live, be.POWNER]] >= ENOUGH)
    worn = (2 * changed > below) & (tree.loss[live] > 0) & ~low
    return live[low], live[worn]


class Options(NamedTuple):
    """Clauses of lossy l-nodes, how often an event visits each, and the constraints by which they could be found.

    Constraint i is of clause number `of[i]`, on attribute `attr[i]`, and a share `reach[i]` of the events meets it. By
    attribute: a share `has` of the events has it, and `there` clauses are below its p-node of the root.
    """

    clauses: I64
    here: F64
    of: I64
    attr: I32
    reach: F64
    has: F64
    there: I64

    def best(self, tree: TreeArrays, size: I64) -> tuple[I64, F64]:
        """The constraint of each clause by which events come upon it least, and how often; p-nodes have these sizes."""
        with np.errstate(divide="ignore"):
            share = self.has * np.minimum(1.0, int(tree.head[be.CAPACITY]) / size)  # of the p-node, that an event reads
        expected = np.where(size[self.attr] < tree.head[be.LEAST], np.inf, self.reach + share[self.attr])
        order = np.lexsort((expected, self.of))
        first = order[np.searchsorted(self.of[order], np.unique(self.of))]
        return first, expected[first]

    @property
    def size(self) -> I64:
        """By attribute, the clauses of its p-node if all of these went there."""
        size: I64 = self.there + np.bincount(self.attr, minlength=len(self.there))
        return size


class Outlook(NamedTuple):
    """What moving clauses could gain."""

    lossy: int
    """Clauses in l-nodes with nearly all of the loss."""
    here: float
    """The share of events that visits the l-node of such a clause, on average."""
    elsewhere: float
    """The share that would come upon it below its best other attribute of the root, on average."""
    better: int
    """Such clauses for which that is at most `BETTER` times as often."""


def options_of(tree: TreeArrays, table: SegmentArrays, events: EventArrays, seen: Seen) -> Options:
    """Where the clauses of lossy l-nodes could be found instead."""
    clauses, here, top = _lossy_clauses(tree, seen, len(events.start) - 1)
    starts, c = spread(table.constraint_start, clauses)
    of = np.repeat(np.arange(len(clauses)), np.diff(starts))
    keyed = np.isin(c, able(table, c))
    c, of = c[keyed], of[keyed]
    c, of = c[table.attr[c] != top[of]], of[table.attr[c] != top[of]]
    attributes = len(tree.rate)
    has = np.bincount(events.attr[events.attr < attributes], minlength=attributes) / (len(events.start) - 1)
    return Options(clauses, here, of, table.attr[c], reaches(table, c, events), has, _clauses_by_attribute(tree))


def outlook_of(tree: TreeArrays, options: Options) -> Outlook:
    """What moving clauses could gain."""
    first, expected = options.best(tree, options.size)
    here = options.here[options.of[first]]
    known = np.isfinite(expected)
    if not known.any():
        return Outlook(len(options.clauses), float(options.here.mean()) if len(options.here) else 0.0, 0.0, 0)
    better = int((expected <= BETTER * here).sum())
    return Outlook(len(options.clauses), float(options.here.mean()), float(expected[known].mean()), better)


def better_places(tree: TreeArrays, options: Options) -> tuple[I32, I32]:
    """Clauses that the events would come upon less often below another attribute of the root: (clauses, attributes)."""
    size, aims = options.size, np.full(len(options.clauses), be.NONE)
    for _ in range(ROUNDS):
        first, expected = options.best(tree, size)
        good = first[expected <= BETTER * options.here[options.of[first]]]
        aims[:] = be.NONE
        aims[options.of[good]] = options.attr[good]
        size = options.there + np.bincount(options.attr[good], minlength=len(options.there))
    aims[(aims != be.NONE) & (size[aims] < tree.head[be.LEAST])] = be.NONE
    moved = aims != be.NONE
    return options.clauses[moved].astype(np.int32), aims[moved].astype(np.int32)


def _lossy_clauses(tree: TreeArrays, seen: Seen, events: int) -> tuple[I64, F64, I64]:
    """Clauses of l-nodes with nearly all of the loss; how often an event visits them; their attribute at the root."""
    link, more = tree.link.reshape(-1, be.LINK), tree.more.reshape(-1, be.MORE)
    part = tree.pnode.reshape(-1, be.PART)
    loss = seen.loss * (link[: len(seen.loss), be.COUNT] > 0)
    order = np.argsort(-loss, kind="stable")
    lossy = order[: int(np.searchsorted(np.cumsum(loss[order]), LOSS_SHARE * loss.sum())) + 1]
    lossy = lossy[(seen.visits[lossy] >= ENOUGH) & (loss[lossy] > 0)]
    above = lossy.copy()
    while (deep := more[above, be.LEVEL] > 1).any():
        above[deep] = part[more[above[deep], be.PNODE], be.POWNER]
    first, count = link[lossy, be.FIRST].astype(np.int64), link[lossy, be.COUNT]
    places = np.repeat(first - (np.cumsum(count) - count), count) + np.arange(count.sum())
    here = np.repeat(seen.visits[lossy] / events, count)
    return tree.clause[places].astype(np.int64), here, np.repeat(link[above, be.ATTR], count)


def _clauses_by_attribute(tree: TreeArrays) -> I64:
    """By attribute, the clauses of its p-node at the root."""
    first, width = tree.link[be.ROOT * be.LINK + be.PDIR], tree.link[be.ROOT * be.LINK + be.WIDTH]
    roots = tree.pnode.reshape(-1, be.PART)[tree.pdir_node[first : first + width], be.PROOT]
    counts = np.zeros(len(tree.rate), np.int64)
    counts[tree.pdir_attr[first : first + width]] = tree.more.reshape(-1, be.MORE)[roots, be.BELOW]
    return counts
