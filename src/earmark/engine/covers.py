"""A few clauses that together cover all clauses of a shard, so that other events pass it by; and how clauses are split.

A shard's clauses are cut into groups of similar ones, and each group is merged into one clause that covers all its
members: on every attribute that all of them constrain, the hull of what they accept (imperfect merging, mics.txt 4.2,
with boxes in place of ranges of a curve, since a shard may use hundreds of attributes).

    members     a IN [3, 5] AND b IN [1, 1]                   cover     a IN [3, 9]      (b is not in the second)
                a IN [4, 9] AND c IN [0, 7]

Invariant: an event that matches a member matches its cover. A constraint that accepts NULL holds for events without the
attribute, so it is left out of the cover; so is one that accepts nothing. A clause without constraints makes a cover
without any, which every event matches.

How groups are found. The group that is met by the most wasted comparisons (members times the estimated share of events
that meet its cover) is split first, until there are enough groups. A split is the cheaper of two:

    by value       at the median of the lower or of the upper ends on an attribute that all members constrain
    by attribute   each member goes with its attribute that is most used in the group, of those not used by all

The share of events is estimated from the bounds themselves, which are where the events are expected: an event is taken
to have an attribute twice as often as clauses constrain it, and to fall between two bounds by the number of bounds
between them, each independent of the others. Bad estimates make loose covers, never wrong ones.

`splits` is the same idea for whoever cuts subscriptions by their ends: into shards (cutting.py), and into the homes of
an audit (cover/homes.py).

Complexity: O(constraints) per level of splitting, about log(groups) levels.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.flat.arrays import F64, I32, I64
from earmark.index.scan import Scan
from earmark.jit import kernel
from earmark.keys.schema import INT64_MAX, INT64_MIN, attribute_type
from earmark.segment.arrays import SegmentArrays, boxes_table, offsets, spread

MEMBERS = 6
"""Clauses for which a shard has about one cover."""
FEWEST, MOST = 64, 1 << 14
"""The fewest and the most covers of a shard that keeps events away."""
SMALL = 1_024
"""A shard of at most this many clauses has a cover for each, even if covers so fine gain little: they cost little
beside the fixed cost of searching in a shard."""
_PRESENCE = 2.0
"""An event has more attributes than the subscriptions it matches."""
MANY = 32
"""Covers of one shard that an event may meet; if it meets more, fewer and coarser covers are tried."""
_FEW, _GAIN = 0.4, 0.93
"""Covers are enough when at most the first share of events meets them, and twice as many covers leave more than the
second share of those events."""
LOWER, UPPER = 0, 1
"""Which ends a split compares with its threshold."""
_POINT = 1e-4
"""The least share of events that is taken to meet a group."""
_TYPES = [attribute_type(name) for name in ("number", "integer", "date")]
LOWEST, HIGHEST = (np.array(keys, np.int64) for keys in zip(*((t.low, t.high) for t in _TYPES), strict=True))
"""The ends of ranges that have no bound: `price > 30` ends at the highest key of its type, where no events are."""

Flags = NDArray[np.bool_]


class Bounds(NamedTuple):
    """The constraints of clauses that can keep an event away, and the places of their ends among all ends."""

    start: I32
    attr: I32
    lo: I64
    hi: I64
    low: F64
    high: F64
    presence: F64
    """The estimated share of events that have an attribute."""

    @property
    def clauses(self) -> int:
        """Number of clauses."""
        return len(self.start) - 1


def ends_of(table: SegmentArrays, every: bool = False) -> tuple[I32, I32, I64, I64]:
    """By clause, the constraints that can keep an event away: (start, attribute, lower end, upper end).

    With `every`, all constraints; one that accepts no value has the greatest key as lower end, the least as upper end.
    """
    opens, closes = table.interval_start[:-1], table.interval_start[1:]
    some = opens < closes
    usable = np.ones(len(some), bool) if every else some & (table.accepts_null == 0)
    lo, hi = np.full(len(some), INT64_MAX, np.int64), np.full(len(some), INT64_MIN, np.int64)
    lo[some], hi[some] = table.lo[opens[some]], table.hi[closes[some] - 1]
    start = offsets(usable)[table.constraint_start]
    return start, table.attr[usable], lo[usable], hi[usable]


class Ends(NamedTuple):
    """Ends of clauses on some attributes, one row per clause, one column per attribute.

    Where a clause does not constrain an attribute, they are the ends of all keys.
    """

    used: Flags
    """Whether there is a constraint."""
    lo: I64
    hi: I64


def ends_on(attributes: I32, start: I32, attr: I32, lo: I64, hi: I64) -> Ends:
    """The ends on these attributes, of clauses as `ends_of` gives them."""
    row = np.repeat(np.arange(len(start) - 1), np.diff(start))
    axis_of = np.full(max(int(attr.max(initial=0)), int(attributes.max(initial=0))) + 1, -1)
    axis_of[attributes] = np.arange(len(attributes))
    column = axis_of[attr]
    mine = column >= 0
    shape = (len(start) - 1, len(attributes))
    ends = Ends(np.zeros(shape, bool), np.full(shape, INT64_MIN, np.int64), np.full(shape, INT64_MAX, np.int64))
    place = row[mine], column[mine]
    ends.used[place], ends.lo[place], ends.hi[place] = True, lo[mine], hi[mine]
    return ends


def below_quantile(keys: NDArray[Any], share: float = 0.5) -> tuple[NDArray[Any], Flags]:
    """By column, the key at a quantile of the rows, and which rows are below it."""
    place = int(share * len(keys))
    quantile = np.partition(keys, place, axis=0)[place]
    return quantile, keys < quantile


def splits(ends: Ends, members: I64, share: float, slack: float) -> Iterator[tuple[int, int, int, Flags]]:
    """Ways to put about this share of the members to the left: (axis, LOWER or UPPER, threshold, who goes left).

    Those whose end is below the threshold go left. A split whose share differs by more than `slack`, since too many
    have the same end, is left out.
    """
    if not len(members):
        return
    sides = [below_quantile(column[members], share) for column in (ends.lo, ends.hi)]
    for axis in range(ends.lo.shape[1]):
        for side, (quantile, below) in enumerate(sides):
            left = below[:, axis]
            if abs(left.mean() - share) <= slack:
                yield axis, side, int(quantile[axis]), left


def bounds_of(table: SegmentArrays) -> Bounds:
    """The bounds of all clauses of a table."""
    start, attr, lo, hi = ends_of(table)
    low, high = np.zeros(len(attr)), np.ones(len(attr))
    presence = np.zeros(int(attr.max(initial=-1)) + 1)
    for number, mine in by_attribute(attr):
        ends = np.concatenate([lo[mine], hi[mine]])
        ends = np.sort(ends[~np.isin(ends, LOWEST) & ~np.isin(ends, HIGHEST)])
        low[mine] = np.searchsorted(ends, lo[mine], "left") / max(len(ends), 1)
        high[mine] = np.searchsorted(ends, hi[mine], "right") / max(len(ends), 1)
        presence[number] = min(1.0, _PRESENCE * len(mine) / max(len(start) - 1, 1))
    return Bounds(start, attr, lo, hi, low, high, presence)


def middles(lo: I64, hi: I64) -> I64:
    """Halfway between the ends, which may be further apart than an int64 reaches."""
    apart = np.ascontiguousarray(hi).view(np.uint64) - np.ascontiguousarray(lo).view(np.uint64)
    return lo + (apart >> np.uint64(1)).view(np.int64)


def typical(lo: I64, hi: I64) -> I64:
    """Return a key of each range at which events may be expected: its middle, or its bound if it has only one."""
    has_lower, has_upper = ~np.isin(lo, LOWEST), ~np.isin(hi, HIGHEST)
    return np.where(has_lower == has_upper, middles(lo, hi), np.where(has_lower, lo, hi))


def by_attribute(attr: I32) -> Iterator[tuple[int, I64]]:
    """Each attribute in use, and the positions of its constraints."""
    order = np.argsort(attr, kind="stable")
    numbers, first = np.unique(attr[order], return_index=True)
    ends = [*first[1:].tolist(), len(order)]
    for number, begin, end in zip(numbers.tolist(), first.tolist(), ends, strict=False):
        yield number, order[begin:end]


class Group(NamedTuple):
    """Clauses, the positions of their bounds on the attributes that all of them have (one row each), and the others."""

    members: I64
    common: I64
    partial: I64
    partial_of: I64
    """The place among the members of the clause that each of `partial` belongs to."""


def _group(bounds: Bounds, members: I64) -> Group:
    start, positions = spread(bounds.start, members)
    attr = bounds.attr[positions]
    count = np.bincount(attr, minlength=1)
    everywhere = count[attr] == len(members)
    of = np.repeat(np.arange(len(members)), np.diff(start))
    shared = positions[everywhere].reshape(len(members), -1)
    return Group(members, shared, positions[~everywhere], of[~everywhere])


def _share(bounds: Bounds, group: Group) -> float:
    """The estimated share of events that meet the cover."""
    if not group.common.shape[1]:
        return 1.0
    wide = bounds.high[group.common].max(axis=0) - bounds.low[group.common].min(axis=0) + _POINT
    presence = bounds.presence[bounds.attr[group.common[0]]]
    return float(np.prod(np.minimum(wide, 1.0) * presence))


class Grouping:
    """Groups of clauses, together all of them, the one to split next at the top of a heap."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._waiting: list[tuple[float, int, Group]] = []
        self._done: list[Group] = []
        self._number = 0
        if bounds.clauses:
            self._take(_group(bounds, np.arange(bounds.clauses)))

    def _take(self, group: Group) -> None:
        members = len(group.members)
        if members == 1:
            self._done.append(group)
            return
        self._number += 1
        heapq.heappush(self._waiting, (-members * _share(self.bounds, group), self._number, group))

    def split_to(self, count: int) -> bool:
        """Split until there are this many groups; False when no group can be split any more."""
        while self._waiting and len(self._waiting) + len(self._done) < count:
            _, _, group = heapq.heappop(self._waiting)
            parts = _split(self.bounds, group)
            if len(parts) == 1:
                self._done.append(group)
            else:
                for part in parts:
                    self._take(part)
        return bool(self._waiting)

    def covers(self) -> SegmentArrays:
        """A cover for each group, one slot each."""
        bounds, groups = self.bounds, self._done + [group for _, _, group in self._waiting]
        attr = [bounds.attr[group.common[0]] for group in groups]
        lo = [bounds.lo[group.common].min(axis=0) for group in groups]
        hi = [bounds.hi[group.common].max(axis=0) for group in groups]
        start, constraints, none = offsets([len(one) for one in attr]), sum(map(len, attr)), np.empty(0, np.int64)
        numbers, low, high = (np.concatenate([*column, none]) for column in (attr, lo, hi))
        null, interval_start = np.zeros(constraints, np.uint8), np.arange(constraints + 1, dtype=np.int32)
        return boxes_table(start, numbers.astype(np.int32), null, interval_start, low, high)


def _split(bounds: Bounds, group: Group) -> list[Group]:
    """The group in two or more parts; in one, where no split tells its members apart."""
    by_value, left = _by_value(bounds, group)
    by_attribute, attribute = _by_attribute(bounds, group)
    if min(by_value, by_attribute) >= 1.0:
        return [group]
    if by_value <= by_attribute:
        return [_part(bounds, group, left), _part(bounds, group, ~left)]
    order = np.argsort(attribute, kind="stable")
    borders = np.flatnonzero(np.diff(attribute[order])) + 1
    return [_group(bounds, group.members[part]) for part in np.split(order, borders)]


def _part(bounds: Bounds, group: Group, chosen: Flags) -> Group:
    """The group of the chosen members."""
    if len(group.partial):
        return _group(bounds, group.members[chosen])
    return group._replace(members=group.members[chosen], common=group.common[chosen])


def _by_value(bounds: Bounds, group: Group) -> tuple[float, Flags]:
    """What the best split at a median leaves of the cost, and who goes left."""
    left = np.zeros(len(group.members), bool)
    if not group.common.shape[1]:
        return 1.0, left
    low, high = (np.ascontiguousarray(ends[group.common].T) for ends in (bounds.low, bounds.high))
    return float(best_split(low, high, left)), left


@kernel
def best_split(low: Any, high: Any, left: Any) -> float:
    """Note in `left` who goes left in the best split at a median; what it leaves of the cost, 1 where there is none.

    `low` and `high` have the ends by attribute (rows) and member.
    """
    attributes, members = low.shape
    best, best_axis, best_side, best_border = 1.0, 0, LOWER, 0.0
    for side in (LOWER, UPPER):
        for axis in range(attributes):
            lower, upper = low[axis], high[axis]
            keys = lower if side == LOWER else upper
            border = left_border(keys)
            counts, ends, begins = np.zeros(2), np.full(2, -1.0), np.full(2, 2.0)
            for member in range(members):
                part = 0 if keys[member] <= border else 1
                counts[part] += 1
                ends[part] = max(ends[part], upper[member])
                begins[part] = min(begins[part], lower[member])
            if counts[1] == 0:
                continue
            whole = ends.max() - begins.min() + _POINT
            cost = (counts * np.maximum(ends - begins + _POINT, 0.0)).sum() / (members * whole)
            if cost < best:
                best, best_axis, best_side, best_border = cost, axis, side, border
    if best < 1.0:
        chosen = low[best_axis] if best_side == LOWER else high[best_axis]
        for member in range(members):
            left[member] = chosen[member] <= best_border
    return best


@kernel
def left_border(keys: Any) -> float:
    """The greatest key below the median; the median where there is none."""
    ordered = np.sort(keys)
    median = ordered[len(ordered) // 2]
    below = np.searchsorted(ordered, median)
    return float(ordered[below - 1]) if below > 0 else float(median)


def _by_attribute(bounds: Bounds, group: Group) -> tuple[float, I64]:
    """What a split by attribute leaves of the cost, and the attribute of each member, -1 where it has none left."""
    members = len(group.members)
    if not len(group.partial):
        return 1.0, np.zeros(members, np.int64)
    attr = bounds.attr[group.partial]
    count = np.bincount(attr)
    rank = np.empty(len(count), np.int64)
    order = np.argsort(-count, kind="stable")
    rank[order] = np.arange(len(count))
    first = np.full(members, len(count))
    np.minimum.at(first, group.partial_of, rank[attr])
    order = np.append(order, -1)
    chosen = order[first]
    cost = np.where(chosen < 0, 1.0, bounds.presence[np.maximum(chosen, 0)]).sum()
    if len(np.unique(chosen)) == 1:
        return 1.0, chosen
    return float(cost) / members, chosen


def covers_of(table: SegmentArrays, events: EventArrays | None = None, most: int | None = None) -> SegmentArrays:
    """Return covers of all clauses of a table, one slot each: what an event must meet to match any subscription in it.

    `events` are like those to come: there are no more covers than make a difference to them, unless the table is small.
    Where an event that meets one cover meets very many, there are fewer if those keep as many events away.
    """
    grouping = Grouping(bounds_of(table))
    clauses = grouping.bounds.clauses
    if events is not None and len(events.start) < 2:
        events = None
    tried = [grouping.covers()]
    if most is None and clauses <= SMALL:
        grouping.split_to(clauses)
        return _enough([*tried, grouping.covers()], events)
    most = most or usual(clauses)
    count, before = FEWEST, 1.0
    while grouping.split_to(min(count, most)) and count < most:
        count *= 2
        if events is None:
            continue
        tried.append(grouping.covers())
        share = _reach(tried[-1], events)[0]
        if share <= _FEW and share > _GAIN * before:
            return _enough(tried, events)
        before = share
    return _enough([*tried, grouping.covers()], events)


def _enough(tried: list[SegmentArrays], events: EventArrays | None) -> SegmentArrays:
    """Return the last of several covers of a table, each finer than the one before, if events meet few of them.

    Otherwise return the first that keep about as many events away.
    """
    finest = tried[-1]
    if events is None:
        return finest
    share, each = _reach(finest, events)
    if each <= MANY:
        return finest
    return next(covers for covers in tried if covers is finest or _GAIN * _reach(covers, events)[0] <= share)


def _reach(covers: SegmentArrays, events: EventArrays) -> tuple[float, float]:
    """Return the share of events that meet a cover, and how many covers each of those meets on average."""
    counts = np.diff(_met(covers, events))
    reached = int(np.count_nonzero(counts))
    return reached / len(counts), float(counts.sum()) / max(reached, 1)


def usual(clauses: int) -> int:
    """Return the most covers of a shard with this number of clauses, unless it is small."""
    return min(max(clauses // MEMBERS, FEWEST), MOST)


def met(covers: SegmentArrays, events: EventArrays) -> I64:
    """Return the numbers of the events that meet a cover."""
    return np.flatnonzero(np.diff(_met(covers, events)))


def _met(covers: SegmentArrays, events: EventArrays) -> I64:
    """Return where the covers that each event meets would begin, in a list of all."""
    pointers, _ = Scan.build(covers).match_many(events, bits.all_set(len(covers.sequence)))
    return pointers
