"""Which few subscriptions stand for many: the summary of a shard, by which events are kept away from it.

A shard's clauses are cut into groups of likes, and each group is merged into one clause that covers all its members: on
every attribute that all of them constrain, the hull of what they accept (imperfect merging, mics.txt 4.2, with boxes in
place of ranges of a curve, since a shard may use hundreds of attributes).

    members     a IN [3, 5] AND b IN [1, 1]                   cover     a IN [3, 9]      (b is not in the second)
                a IN [4, 9] AND c IN [0, 7]

Invariant: an event that matches a member matches its cover. A constraint that accepts NULL holds for events without the
attribute, so it is left out of the cover; so is one that accepts nothing. A clause without constraints makes a cover
without any, which every event matches.

How groups are found. The group that is met by the most wasted comparisons (members times the estimated share of events
that meet its cover) is split first, until there are enough groups. A split is the cheaper of two:

    by value       at the median of the lower or of the upper ends on an attribute that all members constrain
    by attribute   each member goes with the attribute that is most used in the group, of those not used by all

The share of events is estimated from the bounds themselves, which lie where the events are expected: an event is taken
to have an attribute twice as often as clauses constrain it, and to fall between two bounds by the number of bounds
between them, each independent of the others. Bad estimates make loose covers, never wrong ones.

Complexity: O(constraints) a level of splitting, about log(groups) levels.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.events.arrays import EventArrays
from earmark.flat import bits
from earmark.flat.types import F64, I32, I64, frozen
from earmark.index.scan import Scan
from earmark.keys.schema import INT64_MAX, INT64_MIN
from earmark.segment.arrays import SegmentArrays
from earmark.segment.rows import offsets, spread

MEMBERS = 6
"""A shard has about one cover for so many clauses ..."""
FEWEST, MOST = 64, 1 << 14
"""... but at least and at most so many."""
_PRESENCE = 2.0
"""An event has more attributes than the subscriptions it matches."""
_FEW, _GAIN = 0.4, 0.93
"""Covers are enough when at most this share of the events meets them, and twice as many leave more than this of it."""
_POINT = 1e-4
"""The share of events that a group of points is met by, at the least."""


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
        """How many clauses."""
        return len(self.start) - 1


def ends_of(table: SegmentArrays) -> tuple[I32, I32, I64, I64]:
    """Of each clause: (start, attribute, lower end, upper end) of the constraints that can keep an event away."""
    opens, closes = table.interval_start[:-1], table.interval_start[1:]
    usable = (table.accepts_null == 0) & (opens < closes)
    kept = np.flatnonzero(usable)
    start = np.concatenate([[0], np.cumsum(usable)])[table.constraint_start].astype(np.int32)
    return start, table.attr[kept], table.lo[opens[kept]], table.hi[closes[kept] - 1]


def bounds_of(table: SegmentArrays) -> Bounds:
    """The bounds of all clauses of a table."""
    start, attr, lo, hi = ends_of(table)
    low, high = np.zeros(len(attr)), np.ones(len(attr))
    presence = np.zeros(int(attr.max(initial=-1)) + 1)
    for number, mine in by_attribute(attr):
        ends = np.concatenate([lo[mine], hi[mine]])
        ends = np.sort(ends[(ends != INT64_MIN) & (ends != INT64_MAX)])
        low[mine] = np.searchsorted(ends, lo[mine], "left") / max(len(ends), 1)
        high[mine] = np.searchsorted(ends, hi[mine], "right") / max(len(ends), 1)
        presence[number] = min(1.0, _PRESENCE * len(mine) / max(len(start) - 1, 1))
    return Bounds(start, attr, lo, hi, low, high, presence)


def middles(lo: I64, hi: I64) -> I64:
    """Halfway between the ends, which may lie further apart than an int64 reaches."""
    apart = np.ascontiguousarray(hi).view(np.uint64) - np.ascontiguousarray(lo).view(np.uint64)
    return lo + (apart >> np.uint64(1)).view(np.int64)


def by_attribute(attr: I32) -> Iterator[tuple[int, I64]]:
    """Each attribute in use, and where it stands."""
    order = np.argsort(attr, kind="stable")
    numbers, first = np.unique(attr[order], return_index=True)
    ends = [*first[1:].tolist(), len(order)]
    for number, begin, end in zip(numbers.tolist(), first.tolist(), ends, strict=False):
        yield number, order[begin:end]


class Group(NamedTuple):
    """Clauses, the positions of their bounds on the attributes that all of them have (a row each), and the others'."""

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
            self._take(np.arange(bounds.clauses))

    def _take(self, members: I64) -> None:
        group = _group(self.bounds, members)
        if len(members) == 1:
            self._done.append(group)
            return
        self._number += 1
        heapq.heappush(self._waiting, (-len(members) * _share(self.bounds, group), self._number, group))

    def split_to(self, count: int) -> bool:
        """Split until there are so many groups; False when no group can be split any more."""
        while self._waiting and len(self._waiting) + len(self._done) < count:
            _, _, group = heapq.heappop(self._waiting)
            parts = _split(self.bounds, group)
            if len(parts) == 1:
                self._done.append(group)
            else:
                for members in parts:
                    self._take(members)
        return bool(self._waiting)

    def covers(self) -> SegmentArrays:
        """A cover for each group, a slot each."""
        bounds, groups = self.bounds, self._done + [group for _, _, group in self._waiting]
        attr = [bounds.attr[group.common[0]] for group in groups]
        none = np.empty(0, np.int64)
        constraints = sum(map(len, attr))
        return SegmentArrays(
            clause_start=np.arange(len(groups) + 1, dtype=np.int32),
            constraint_start=offsets([len(one) for one in attr]),
            attr=np.concatenate([*attr, none]).astype(np.int32),
            accepts_null=np.zeros(constraints, np.uint8),
            interval_start=np.arange(constraints + 1, dtype=np.int32),
            lo=np.concatenate([*(bounds.lo[group.common].min(axis=0) for group in groups), none]),
            hi=np.concatenate([*(bounds.hi[group.common].max(axis=0) for group in groups), none]),
            weight=np.empty(0),
            score=np.empty(0),
            sequence=np.arange(len(groups), dtype=np.int64),
        )


def _split(bounds: Bounds, group: Group) -> list[I64]:
    """The members in two or more parts; in one, where no split tells them apart."""
    by_value, left = _by_value(bounds, group)
    by_attribute, attribute = _by_attribute(bounds, group)
    if min(by_value, by_attribute) >= 1.0:
        return [group.members]
    if by_value <= by_attribute:
        return [group.members[left], group.members[~left]]
    order = np.argsort(attribute, kind="stable")
    borders = np.flatnonzero(np.diff(attribute[order])) + 1
    return [group.members[part] for part in np.split(order, borders)]


def _by_value(bounds: Bounds, group: Group) -> tuple[float, NDArray[np.bool_]]:
    """What the best split at a median leaves of the cost, and who goes left."""
    members, common = len(group.members), group.common
    best, chosen = 1.0, np.zeros(members, bool)
    if not common.shape[1]:
        return best, chosen
    low, high = bounds.low[common], bounds.high[common]
    whole = high.max(axis=0) - low.min(axis=0) + _POINT
    for key in (low, high):
        median = np.partition(key, members // 2, axis=0)[members // 2]
        left = key < median
        left = np.where(left.any(axis=0), left, key <= median)
        cost = np.zeros(common.shape[1])
        for side in (left, ~left):
            wide = np.where(side, high, -1.0).max(axis=0) - np.where(side, low, 2.0).min(axis=0) + _POINT
            cost += side.sum(axis=0) * np.maximum(wide, 0.0)
        cost = np.where(left.all(axis=0), 1.0, cost / (members * whole))
        at = int(cost.argmin())
        if cost[at] < best:
            best, chosen = float(cost[at]), left[:, at]
    return best, chosen


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
    """Covers of all clauses of a table, a slot each: what an event must meet to match any of its subscriptions.

    With `events` like those to come there are no more covers than make a difference to them.
    """
    grouping = Grouping(bounds_of(table))
    clauses = grouping.bounds.clauses
    most = most or min(max(clauses // MEMBERS, FEWEST), MOST)
    count, before = FEWEST, 1.0
    while grouping.split_to(min(count, most)) and count < most:
        count *= 2
        if events is None or len(events.start) < 2:
            continue
        share = len(met(grouping.covers(), events)) / (len(events.start) - 1)
        if share <= _FEW and share > _GAIN * before:
            break
        before = share
    return grouping.covers()


def met(covers: SegmentArrays, events: EventArrays) -> I64:
    """Which events meet a cover."""
    made = SegmentArrays._make(frozen(column) for column in covers)
    pointers, _ = Scan.build(made).match_many(events, bits.all_set(len(covers.sequence)))
    return np.flatnonzero(np.diff(pointers))
