"""Into which shard does a subscription go, so that an event meets few shards?

Two ways to cut, learned from a sample; the one under which events meet fewer shards is taken:

    regions    a kd-tree: the lower or the upper end of the range on some attribute below a threshold, or not. For books
               in which most subscriptions constrain the same few attributes.

                              price.hi < 40                 a tree of shards - 1 inner nodes, kept as rows of
                             /             \\                (axis, end, threshold, left, right); a leaf is a shard
                       age.lo < 30        shard 2
                       /         \\
                  shard 0      shard 1

    clusters   subscriptions that ask for the same ranges of the same attributes, of which there may be thousands, stay
               together. An (attribute, cell of its keys) is a token; a subscription goes to the shard under which its
               tokens are most likely (a naive Bayes model, made by hard expectation maximisation from clusters around
               seeds, which are folded into as many shards as are wanted).

Both look at the first clause alone; whatever they do, answers stay the same, since every event is sent wherever the
covers of a shard say that it may match (covers.py).

How good a cut is, is measured: the sample is cut and covered, and points like the subscriptions themselves are routed.
Such a point has the attributes of two clauses of the sample, since an event has more attributes than a subscription
that it matches. On each attribute it is in the middle of the range, or at the bound of a range that has only one, such
as `price > 30`.

Complexity: learning O(sample); cutting a subscription O(axes + depth) by region, O(constraints x shards) by cluster.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.curves.space import variable_cuts
from earmark.engine import covers
from earmark.engine.covers import Bounds, Ends, Flags
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import F64, I32, I64, frozen
from earmark.segment.arrays import SegmentArrays, gather, offsets, spread, with_constraints

SAMPLE = 40_000
"""Subscriptions that a cut is learned from, about."""
PROXIES = 400
_AXES = 16
_CELL_BITS = 3
_SEEDS, _ROUNDS, _REFINEMENTS = 512, 6, 10
_CHUNK = 8_192
_SMOOTHING = 0.05
DEALT = -1
"""In place of an axis: nothing tells the members apart, so they are dealt out by sequence number."""
_DEALT_TO = 1 << 16

Weights = NDArray[np.float32]


class Regions(NamedTuple):
    """A kd-tree. Children are nodes, or shard s as ~s."""

    attr: I32
    axis: I32
    end: I32
    threshold: I64
    left: I32
    right: I32


class Clusters(NamedTuple):
    """Tokens, and how much each speaks for a shard; the last row is for a subscription without any."""

    first_token: I32
    """By attribute; tokens of attribute a are first_token[a] .. first_token[a + 1]."""
    cut_start: I32
    cuts: I64
    weight: Weights
    bias: F64


Cut = Regions | Clusters


def learned(sample: SegmentArrays, shards: int) -> Cut:
    """Learn the better cut for a table like this sample."""
    bounds = covers.bounds_of(first_clauses(sample))
    regions = _regions(bounds, sample.sequence, shards)
    if len(sample.sequence) < 2 * shards:
        return regions
    clusters = _clusters(bounds, shards)
    events = proxies(sample)
    if _touched(sample, clusters, shards, events) < _touched(sample, regions, shards, events):
        return clusters
    return regions


def shards_of(table: SegmentArrays, cut: Cut) -> I32:
    """The shard of each slot."""
    start, attr, lo, hi = covers.ends_of(first_clauses(table))
    if isinstance(cut, Regions):
        return _in_regions(start, attr, lo, hi, table.sequence, cut)
    return _likeliest(start, tokens_of(attr, lo, hi, cut), cut.weight, cut.bias)


def first_clauses(table: SegmentArrays) -> SegmentArrays:
    """The first clause of each slot; a slot without any gets an empty one."""
    counts = np.diff(table.clause_start)
    if (counts == 1).all():
        return table
    clauses = table.clause_start[:-1][counts > 0].astype(np.int64)
    held = np.zeros(len(counts), np.int64)
    held[counts > 0] = np.diff(table.constraint_start)[clauses]
    first = with_constraints(table, offsets(held), spread(table.constraint_start, clauses)[1])
    return first._replace(clause_start=np.arange(len(counts) + 1, dtype=np.int32))


# --- regions -------------------------------------------------------------------------------------------------


def _regions(bounds: Bounds, sequence: I64, shards: int) -> Regions:
    count = np.bincount(bounds.attr, minlength=1)
    most = np.sort(np.argsort(-count, kind="stable")[:_AXES])
    attributes: I32 = most[count[most] > 0].astype(np.int32)
    ends = covers.ends_on(attributes, bounds.start, bounds.attr, bounds.lo, bounds.hi)
    rows: list[list[int]] = []

    def cut(members: I64, wanted: int, first: int) -> int:
        """Cut members into the wanted number of shards, from `first`; returns the node, or the shard as ~first."""
        if wanted == 1:
            return ~first
        at, half = len(rows), wanted // 2
        axis, end, threshold = _best_split(ends, members, half / wanted) or (DEALT, at, half * _DEALT_TO // wanted)
        rows.append([axis, end, threshold])
        left = _is_left(ends, sequence, members, axis, end, threshold)
        rows[at] += [cut(members[left], half, first), cut(members[~left], wanted - half, first + half)]
        return at

    cut(np.arange(bounds.clauses), shards, 0)
    axis, end, threshold, left, right = np.array(rows, np.int64).reshape(-1, 5).T
    small = [column.astype(np.int32) for column in (attributes, axis, end, left, right)]
    return Regions(small[0], small[1], small[2], threshold, small[3], small[4])


def _best_split(ends: Ends, members: I64, share: float) -> tuple[int, int, int] | None:
    """The axis, end and threshold that put about this share on the left, and the fewest points into both halves."""
    best: tuple[float, int, int, int] | None = None
    for axis, end, threshold, left in covers.splits(ends, members, share, share / 2):
        lo, hi = ends.lo[members, axis], ends.hi[members, axis]
        points, cost = covers.typical(lo, hi), 0.0
        for side in (left, ~left):
            inside = (points >= lo[side].min()) & (points <= hi[side].max())
            cost += np.count_nonzero(side) * float(inside.mean())
        if best is None or (cost, axis, end, threshold) < best:
            best = (cost, axis, end, threshold)
    return None if best is None else best[1:]


def _is_left(ends: Ends, sequence: I64, members: I64, axis: int, end: int, threshold: int) -> Flags:
    if axis == DEALT:  # multiplicative hashing, another one at every node, so that neighbours go to different sides
        mixed = (sequence[members].astype(np.uint64) + np.uint64(end)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        return (mixed >> np.uint64(48)) < np.uint64(threshold)
    chosen = ends.lo if end == covers.LOWER else ends.hi
    left: Flags = chosen[members, axis] < threshold
    return left


def _in_regions(start: I32, attr: I32, lo: I64, hi: I64, sequence: I64, cut: Regions) -> I32:
    slots = len(start) - 1
    shard = np.zeros(slots, np.int32)
    ends = covers.ends_on(cut.attr, start, attr, lo, hi)
    waiting = [(0, np.arange(slots))] if len(cut.axis) else []
    while waiting:
        node, members = waiting.pop()
        if node < 0:
            shard[members] = ~node
            continue
        axis, end, threshold = int(cut.axis[node]), int(cut.end[node]), int(cut.threshold[node])
        left = _is_left(ends, sequence, members, axis, end, threshold)
        waiting += [(int(cut.left[node]), members[left]), (int(cut.right[node]), members[~left])]
    return shard


# --- clusters ------------------------------------------------------------------------------------------------


def _clusters(bounds: Bounds, shards: int) -> Clusters:
    first_token, cut_start, cuts = _tokens(bounds)
    none = np.empty((1, shards), np.float32)
    model = Clusters(first_token, cut_start, cuts, none, np.zeros(shards))
    token = tokens_of(bounds.attr, bounds.lo, bounds.hi, model)
    count = int(first_token[-1])
    seeds = min(max(_SEEDS, 4 * shards), max(bounds.clauses // 4, shards))
    random = np.random.default_rng(1)
    chosen = np.sort(random.choice(bounds.clauses, min(seeds, bounds.clauses), replace=False))
    weight = np.zeros((count + 1, len(chosen)), np.float32)
    for column, clause in enumerate(chosen):
        weight[token[bounds.start[clause] : bounds.start[clause + 1]], column] = 1.0
    for _ in range(_ROUNDS):
        label = _likeliest(bounds.start, token, weight)
        counts = _counts(bounds.start, token, label, count, len(chosen))
        weight = (counts / np.sqrt((counts**2).sum(axis=0) + 1.0)).astype(np.float32)
    label = _folded(weight, np.bincount(label, minlength=len(chosen)), shards)[label]
    bias = np.zeros(shards)
    for _ in range(_REFINEMENTS):
        counts = _counts(bounds.start, token, label, count, shards)
        size = np.maximum(np.bincount(label, minlength=shards), 1)
        bias -= np.log(size / size.mean())
        likely = np.log((counts + _SMOOTHING) / (size + _SMOOTHING * count)).astype(np.float32)
        model = model._replace(weight=likely, bias=bias.copy())
        label = _likeliest(bounds.start, token, likely, bias)
    return model


def _tokens(bounds: Bounds) -> tuple[I32, I32, I64]:
    """Cells for the keys of every attribute, by quantiles of the middles of its ranges."""
    middle = covers.middles(bounds.lo, bounds.hi)
    cuts = [np.empty(0, np.int64)] * (int(bounds.attr.max(initial=-1)) + 1)
    for number, mine in covers.by_attribute(bounds.attr):
        cuts[number] = variable_cuts(middle[mine], _CELL_BITS)
    start = offsets([len(one) for one in cuts])
    first = offsets([len(one) + 1 for one in cuts])
    return first, start, np.concatenate([*cuts, np.empty(0, np.int64)])


def tokens_of(attr: I32, lo: I64, hi: I64, model: Clusters) -> I64:
    """The token of each bound; the last one for an attribute that the sample did not have."""
    middle = covers.middles(lo, hi)
    token = np.full(len(attr), int(model.first_token[-1]))
    known = len(model.first_token) - 1
    for number, mine in covers.by_attribute(attr):
        if number < known:
            own = model.cuts[model.cut_start[number] : model.cut_start[number + 1]]
            token[mine] = model.first_token[number] + np.searchsorted(own, middle[mine], "right")
    return token


def _likeliest(start: I32, token: I64, weight: Weights, bias: F64 | float = 0.0) -> I32:
    """The column with the greatest sum of weights for each clause."""
    clauses = len(start) - 1
    label = np.empty(clauses, np.int32)
    for first in range(0, clauses, _CHUNK):
        own = start[first : first + _CHUNK + 1].astype(np.int64)
        score = np.zeros((len(own) - 1, weight.shape[1]), np.float32)
        some = np.flatnonzero(np.diff(own))
        for place in range(int(np.diff(own).max(initial=0))):  # the first tokens of all, then the second ones
            some = some[own[some] + place < own[some + 1]]
            score[some] += weight[token[own[some] + place]]
        label[first : first + _CHUNK] = (score + bias).argmax(axis=1)
    return label


def _counts(start: I32, token: I64, label: I32, tokens: int, labels: int) -> F64:
    """How often each token occurs under each label."""
    of = np.repeat(label.astype(np.int64), np.diff(start))
    made = np.bincount(token * labels + of, minlength=(tokens + 1) * labels)
    return made.reshape(tokens + 1, labels).astype(np.float64)


def _folded(weight: Weights, size: I64, shards: int) -> I32:
    """The shard of each cluster: the largest first, each to the shard it is most like that still has room."""
    alike = weight.T @ weight
    room = size.sum() / shards * 1.05
    shard, load = np.zeros(len(size), np.int32), np.zeros(shards)
    likeness = np.zeros((shards, len(size)))
    for cluster in np.argsort(-size, kind="stable").tolist():
        fits = load + size[cluster] <= room
        if not fits.any():
            fits = load == load.min()
        gain = 10 * likeness[:, cluster] / np.sqrt(np.maximum(load, 1)) - load / (2 * room)
        best = int(np.where(fits, gain, -np.inf).argmax())
        shard[cluster] = best
        load[best] += size[cluster]
        likeness[best] += alike[cluster] * size[cluster]
    return shard


# --- how good a cut is ---------------------------------------------------------------------------------------


def proxies(sample: SegmentArrays, count: int = PROXIES) -> EventArrays:
    """Return events like the subscriptions of a sample: each has typical values of the ranges of two of them."""
    start, attr, lo, hi = covers.ends_of(first_clauses(sample))
    slots = len(start) - 1
    if not slots:
        return _events(np.zeros(1, np.int64), attr, lo)
    step = max(slots // count, 1)
    typical = covers.typical(lo, hi)
    starts, attrs, keys = [0], [], []
    for one in range(0, slots, step):
        other = (one * 7919 + slots // 2) % slots
        found: dict[int, int] = {}
        for clause in (other, one):
            mine = slice(start[clause], start[clause + 1])
            found.update(zip(attr[mine].tolist(), typical[mine].tolist(), strict=True))
        attrs += sorted(found)
        keys += [found[a] for a in sorted(found)]
        starts.append(len(attrs))
    key = np.array(keys, np.int64)
    return _events(np.array(starts, np.int64), np.array(attrs, np.int32), key)


def _events(start: I64, attr: I32, key: I64) -> EventArrays:
    return EventArrays(frozen(start), frozen(attr), frozen(key), frozen(key), frozen(np.empty(0)))


def _touched(sample: SegmentArrays, cut: Cut, shards: int, events: EventArrays) -> float:
    """How many shards an event meets on average, each counted by its size: the work that routing leaves."""
    shard = shards_of(sample, cut)
    total = 0.0
    for number in range(shards):
        mine = np.flatnonzero(shard == number)
        if len(mine):
            part = gather(sample, mine)
            few = covers.covers_of(part, events, covers.usual(len(part.constraint_start) - 1))
            total += len(covers.met(few, events)) * len(mine)
    return total * shards / max((len(events.start) - 1) * len(shard), 1)
