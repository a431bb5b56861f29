"""Following the events: rank, recycling, leaf capacity, distance of siblings. Section V-B and Algorithm 4, line 11.

Searches change nothing, so that any number of threads can read a tree. Statistics of events are collected only on
request: `adapt(events)` on a copy, which is then published in place of the old tree. It

1. searches the window of events, counting at each bucket the predicates evaluated in vain (`loss`; a signature that
   rejects a clause counts as a sixteenth of one), the matches, and the mean extension of events by attribute;
2. sets the loss of each p-node: the mean over the window, of all buckets below it. rank = gain - loss, where gain is
   the number of clauses below, for each of which the p-node's predicate is evaluated once for all;
3. sets the rate of each attribute: the share of its clauses that an event of the window reaches by it. The next
   partitioning ranks attributes by number of clauses x (1 - rate);
4. sets the leaf capacity from the matching probability (Table II(a)), when it was not fixed, and the distance that
   siblings keep to the mean extension of events (footnote 4);
5. recycles: the clauses of a p-node whose rank has fallen below 0 are inserted again; a p-node that events visit, and
   of which more clauses were added or removed since it was built than half of what it has, is clustered again. If that
   is half of the tree, or the capacity changed, the whole tree is rebuilt.

Without events the histogram ranking gets its rates from the clauses: the average bucket of a histogram of an
attribute's boxes over the occupied buckets, as a share of its clauses.
"""

from __future__ import annotations

import numpy as np

import earmark.index.be_star_tree.arrays as be
import earmark.index.be_star_tree.search as search
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import F64, I64
from earmark.flat.machine import at
from earmark.index.be_star_tree.arrays import TreeArrays
from earmark.index.be_star_tree.nodes import whole
from earmark.index.be_star_tree.search import TreeScratch
from earmark.index.counters import COMPARED
from earmark.index.kernels import Asked, Searched
from earmark.jit import kernel
from earmark.segment.arrays import SegmentArrays

HISTOGRAM_BINS = 64
SIGNATURE_COST = 1 / 16
"""What a signature that rejects a clause costs, in predicate evaluations."""
SAMPLE = 4096
"""Constraints of an attribute from which its rate is computed."""


@kernel
def observe(searched: Searched[TreeArrays], asked: Asked, scratch: TreeScratch, loss: F64, work: I64) -> int:
    """Search the events; adds to loss[bucket] the predicates evaluated in vain. Returns the clauses matched."""
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
            first = at(tree.link, b * be.LINK + be.FIRST)
            for entry in range(first, first + at(tree.link, b * be.LINK + be.COUNT)):
                if at(tree.sign, entry) & ~sign:
                    loss[b] += SIGNATURE_COST
                    continue
                before = work[int(COMPARED)]
                if search.entry_holds(searched, events, e, entry, scratch, work):
                    matched += 1
                else:
                    loss[b] += work[int(COMPARED)] - before
        search.clear_event(events, e, scratch)
    return matched


def sum_losses(tree: TreeArrays, loss: F64, events: int) -> None:
    """Set the loss of each p-node, per event, from that of the buckets: their own p-node's, and those above."""
    part, more = tree.pnode.reshape(-1, be.PART), tree.more.reshape(-1, be.MORE)
    tree.loss[:] = 0.0
    b = np.flatnonzero(loss)
    lost = loss[b] / events
    while len(b):
        inside = more[b, be.LEVEL] > 0
        p, lost = more[b[inside], be.PNODE], lost[inside]
        np.add.at(tree.loss, p, lost)
        b = part[p, be.POWNER]


def boxes_by_attribute(table: SegmentArrays) -> tuple[I64, I64, I64]:
    """(where each attribute's constraints begin, lo, hi) of all constraints that can key, ordered by attribute."""
    chosen = np.flatnonzero((np.diff(table.interval_start) > 0) & (table.accepts_null == 0))
    order = chosen[np.argsort(table.attr[chosen], kind="stable")]
    attributes = int(table.attr.max(initial=-1)) + 1
    starts = np.searchsorted(table.attr[order], np.arange(attributes + 1))
    return starts, table.lo[table.interval_start[order]], table.hi[table.interval_start[order + 1] - 1]


def event_rates(table: SegmentArrays, events: EventArrays) -> F64:
    """By attribute, the share of its clauses that an event reaches by it, on average over the events."""
    starts, lo, hi = boxes_by_attribute(table)
    rates = np.zeros(len(starts) - 1)
    count = max(1, len(events.start) - 1)
    order = np.argsort(events.attr, kind="stable")
    places = np.searchsorted(events.attr[order], np.arange(len(starts)))
    for attr in np.unique(events.attr[events.attr < len(rates)]):
        begin, end = int(starts[attr]), int(starts[attr + 1])
        if begin == end:
            continue
        chosen = np.unique(np.linspace(begin, end - 1, min(end - begin, SAMPLE)).astype(np.int64))
        values = order[places[attr] : places[attr + 1]]
        reached = np.searchsorted(np.sort(lo[chosen]), events.hi[values], "right")
        missed = np.searchsorted(np.sort(hi[chosen]), events.lo[values], "left")
        rates[attr] = float((reached - missed).sum()) / len(chosen) / count
    return rates


def histogram_rates(table: SegmentArrays) -> F64:
    """By attribute, the average occupied bucket of a histogram of its clauses' boxes, as a share of them."""
    starts, lo, hi = boxes_by_attribute(table)
    rates = np.zeros(len(starts) - 1)
    for attr in range(len(rates)):
        low, high = lo[starts[attr] : starts[attr + 1]], hi[starts[attr] : starts[attr + 1]]
        if len(low):
            origin, length = float(low.min()), max(1.0, float(high.max()) - float(low.min()) + 1.0)
            share = (np.stack([low, high]).astype(np.float64) - origin) / length
            first, last = np.minimum(share * HISTOGRAM_BINS, HISTOGRAM_BINS - 1).astype(np.int64)
            begun, ended = (np.bincount(bins, minlength=HISTOGRAM_BINS + 1) for bins in (first, last + 1))
            sizes = np.cumsum(begun - ended)[:HISTOGRAM_BINS]
            rates[attr] = float(sizes[sizes > 0].mean()) / len(low)
    return rates


def extensions(events: EventArrays, attributes: int) -> F64:
    """By attribute, the mean extension of the events that have it, in keys."""
    known = events.attr < attributes
    attr = events.attr[known]
    lengths = events.hi[known].astype(np.float64) - events.lo[known].astype(np.float64)
    counts = np.bincount(attr, minlength=attributes)
    return np.bincount(attr, lengths, minlength=attributes) / np.maximum(counts, 1)


def fallen(tree: TreeArrays) -> tuple[I64, I64]:
    """p-nodes to recycle, upper levels first: those whose rank is below 0, and those to be clustered again."""
    part, more = tree.pnode.reshape(-1, be.PART)[: tree.head[be.PNODES]], tree.more.reshape(-1, be.MORE)
    live = np.flatnonzero(part[:, be.POWNER] != be.NONE)
    live = live[np.argsort(more[part[live, be.PROOT], be.LEVEL], kind="stable")]
    below, changed = more[part[live, be.PROOT]][:, [be.BELOW, be.CHANGED]].T
    low = tree.loss[live] > below
    worn = (2 * changed > below) & (tree.loss[live] > 0) & ~low
    return live[low], live[worn]


def clauses_below(tree: TreeArrays, pnodes: I64) -> int:
    """The number of clauses in some p-nodes, those in nested ones counted once."""
    part, more = tree.pnode.reshape(-1, be.PART), tree.more.reshape(-1, be.MORE)
    chosen, total = set(pnodes.tolist()), 0
    for p in chosen:
        b = part[p, be.POWNER]
        while b > be.ROOT and int(more[b, be.PNODE]) not in chosen:
            b = part[more[b, be.PNODE], be.POWNER]
        if b == be.ROOT:
            total += int(more[part[p, be.PROOT], be.BELOW])
    return total
