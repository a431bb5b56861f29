"""Fewer conditions that take every event these subscriptions take, and few others.

mics.txt, section 3.6: merging replaces several subscriptions by one. Figure 5b's bounding boxes are ordinary
conditions; what they take beyond that is *extra traffic*, events that nobody wants and that are sent all the same
(section 6.2). Which sets to merge is NP-complete; here neighbours merge, cheapest first, until a budget of **measured**
extra traffic is spent:

    subscriptions  --covered ones go to who covers them-->  roots  --perfect merges-->  --imperfect merges-->  groups
                      free, from conditions alone              free                        on a budget

    round 1   a  b  c  d  e  f  g  h      boxes along a curve, so that neighbours are near each other
              a [b  c] d [e  f] g  h      the cheapest pairs of neighbours merge, a small share of all
    round 2   g [e  f] a  h [b  c] d      another curve, other neighbours, the boxes of the first round among them

**The sample** is split: from a sixth of it the costs of merges are estimated, a third stops the rounds, and the half
that took no part in any decision says what the result costs. (Costs alone would not do: among a million boxes, nearly
all pairs have no event of a sample between them, and each looks free.) Merges are let through as long as the extra
events in the third, and a margin for chance, are within the budget; a sample so small that one event exceeds it permits
only perfect merges.

Cost of a pair: the events of the sixth that nobody wants and the box around the pair takes, and the mass of the box
beyond that of the two (`unite.py`).

Left as they are: subscriptions of several clauses (OR across attributes), unless another covers them. Dropped: those
that no event can match. Scores, weights and tags play no part.

Invariant: every event that a subscription takes is taken by the condition of its group.
Complexity: O(n log n) for the order and for each of O(log n) rounds; perfect merges, as much for each place in the list
of constraints, usually twice; a covering query each; the boxes of a round against the sample by `index/scan`. No pair
of subscriptions is looked at unless they are neighbours in some order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from earmark.cover.audit import constraint_hashes, mixed, sums, tops
from earmark.cover.canonical import canonical, domains, without_full
from earmark.cover.cover_index import version_of
from earmark.cover.merging import traffic
from earmark.cover.merging.traffic import Traffic, check_budget
from earmark.cover.merging.unite import PIECES, Marginals, around, marginals, masses
from earmark.cover.written import ConditionWriter
from earmark.curves import grid, hilbert
from earmark.errors import check_whole
from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.events.frames import encode_many
from earmark.flat import bits
from earmark.flat.arrays import F64, I64, Flags, frozen, pointers_of
from earmark.jit import kernel
from earmark.language.words import counted
from earmark.notebook import html_table
from earmark.segment.arrays import SegmentArrays, boxes_table, concat, gather
from earmark.segment.explain import condition_text
from earmark.segment.ids import Id
from earmark.segment.life import refuse_lives
from earmark.segment.segment import Segment

if TYPE_CHECKING:
    import pyarrow as pa

SHARE = 0.125
"""At most this share of the groups merges in a round."""
CURVE_BITS, CURVE_AXES = 10, 8
KINDS_FIRST = 4
"""In one round of this many all boxes can be neighbours; in the others, only those on the same attributes."""
LINE = 1 << 16
"""Places on an attribute are ranks among at most about this many ends."""
Progress = Callable[[int], None] | None
PERFECT_ROUNDS, PERFECT_PASSES = 20, 20
"""How often neighbours merge at one place of the constraints, and how often all places are visited, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """Groups of subscriptions, by the age of their oldest member, and one condition for each.

    Members of group g are at start[g] .. start[g + 1], oldest first. A group whose condition is that of a subscription
    is named by it (`name`), and its box is -1; others are named by their oldest member, and have a box of `boxes`.
    """

    view: Segment
    start: I64
    members: I64
    name: I64
    box: I64
    boxes: SegmentArrays
    never: tuple[Id, ...]
    """Subscriptions that no event can match, in order of insertion."""
    budget: float
    decided: Traffic
    """On the events that stopped the merging."""
    held_back: Traffic
    """On events that took no part in any decision."""

    def __len__(self) -> int:
        """How many conditions there are."""
        return len(self.name)

    def __repr__(self) -> str:
        return f"<Merged: {counted(self.before, 'subscription')} into {counted(len(self), 'condition')}>"

    def _repr_html_(self) -> str:
        caption = f"{repr(self)[1:-1]}, {self.held_back.share:.2%} extra traffic"
        rows = ((id, condition, ", ".join(map(str, ids))) for id, condition, ids in self.rows())
        return html_table(caption, ("id", "condition", "stands for"), rows, len(self))

    @property
    def before(self) -> int:
        """How many subscriptions there were."""
        return len(self.members) + len(self.never)

    def stands_for(self, group: int) -> list[Id]:
        """The subscriptions of a group, oldest first."""
        return [self.view.ids[slot] for slot in self.members[self.start[group] : self.start[group + 1]].tolist()]

    def rows(self) -> Iterator[tuple[Id, str, list[Id]]]:
        """Each group: an id, its condition, and the ids that it stands for."""
        writer, ids = ConditionWriter(self.view.schema), self.view.ids
        for group, (slot, box) in enumerate(zip(self.name.tolist(), self.box.tolist(), strict=True)):
            text = condition_text(self.view, slot) if box < 0 else writer.condition(self.boxes, box)
            yield ids[slot], text, self.stands_for(group)

    def to_arrow(self) -> pa.Table:
        """The groups as a table (id, condition, stands_for) that `Matcher.add_many` takes."""
        import pyarrow as pa

        kind = pa.int64() if len(self.name) and isinstance(self.view.ids[int(self.name[0])], int) else pa.string()
        types = {"id": kind, "condition": pa.string(), "stands_for": pa.list_(kind)}
        columns = list(zip(*self.rows(), strict=True)) or [()] * len(types)
        return pa.table([pa.array(c, t) for c, t in zip(columns, types.values(), strict=True)], list(types))


def merge(source: Any, sample: Any, budget: float, *, pieces: int = PIECES, seed: int = 0) -> Merged:
    """Merge the subscriptions of a Matcher, or of a batch as `Matcher.add_many` takes it.

    `sample`: past events; `budget`: extra traffic, 0.02 for 2 %. `pieces`: the most intervals per attribute that a
    merged condition has. The result depends on the order of the sample only through `seed`, by which it is split.
    """
    whole = version_of(source).whole
    return merge_segment(whole, encode_many(whole.schema, sample), budget, pieces=pieces, seed=seed)


def merge_segment(
    view: Segment, events: EventArrays, budget: float, *, pieces: int = PIECES, seed: int = 0, progress: Progress = None
) -> Merged:
    """Merge the subscriptions of a segment, given events in its keys. `progress` gets the count after each round."""
    check_budget(budget)
    check_whole(pieces, "pieces", 1)
    refuse_lives(view, "merged")
    parts, table = traffic.split(events, seed), canonical(view)
    clauses = np.diff(table.clause_start)
    slots = np.flatnonzero(clauses)
    top = tops(table, slots)
    roots = slots[top == slots]
    simple = roots[clauses[roots] == 1]
    eligible = bits.from_slots(roots, len(table.sequence))
    wanted = [traffic.taken(table, eligible, part) for part in parts]
    merging = _Merging(gather(table, simple), domains(view.schema), pieces, budget, progress)
    merging.perfectly()
    if budget > 0:
        merging.within(parts, wanted)
    groups = _assembled(slots, _grouped(table, top, simple, merging), merging.groups)
    never = tuple(view.ids[slot] for slot in np.flatnonzero(clauses == 0).tolist())
    measured = []
    for part, one in zip(parts[1:], wanted[1:], strict=True):
        extra = traffic.taken_by_boxes(groups[-1], some_events(part, np.flatnonzero(~one)))
        measured.append(Traffic(len(one), int(one.sum()), int(extra.sum())))
    return Merged(view, *groups, never, budget, *measured)


# --- rounds ------------------------------------------------------------------------------------------------------


class _Merging:
    """Groups in some order, merging with their neighbours. `label` says of each root which group it is in."""

    def __init__(
        self, roots: SegmentArrays, domains: tuple[I64, I64], pieces: int, budget: float, progress: Progress
    ) -> None:
        self._domains = domains
        self.pieces, self.budget = pieces, budget
        self.label: I64 = np.arange(len(roots.sequence), dtype=np.int64)
        self.groups = boxes_table(*roots[1:7])
        self._progress = progress

    def __len__(self) -> int:
        return len(self.groups.sequence)

    def reorder(self, order: I64) -> None:
        """Put the groups in another order."""
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self.label = place[self.label]
        self.groups = _boxes(self.groups, order)

    def apply(self, left: I64, boxes: SegmentArrays) -> None:
        """Join groups left[i] and left[i] + 1 into one, with the i-th of these boxes."""
        count = len(self)
        source = np.arange(count, dtype=np.int64)
        source[left] = count + np.arange(len(left))
        stays = np.ones(count, np.bool_)
        stays[left + 1] = False
        self.label = (np.cumsum(stays) - 1)[self.label]
        made = without_full(boxes, *self._domains)  # canonical, so that what covers is seen to cover
        self.groups = _boxes(concat(self.groups, made), source[stays])
        if self._progress is not None:
            self._progress(len(self))

    # --- perfect merging -------------------------------------------------------------------------------------

    def perfectly(self) -> None:
        """Merge what merges without any extra traffic: boxes that differ on one attribute alone.

        For each place in the list of constraints, boxes that agree on all others come side by side. Merges at
        one place make boxes that agree at another, so places are visited again until none has anything to merge.
        """
        place, idle, visits = 0, 0, 0
        while idle < (widest := int(np.diff(self.groups.constraint_start).max(initial=0))):
            place = place if place < widest else 0
            idle = 0 if self._at(place) else idle + 1
            place, visits = place + 1, visits + 1
            if visits >= PERFECT_PASSES * widest:
                break

    def _at(self, place: int) -> bool:
        """Merge boxes that agree on all constraints but the one at this place; returns whether there were any."""
        count = len(self)
        if (np.diff(self.groups.constraint_start) > place).sum() < 2:
            return False
        self.reorder(_by_all_but(self.groups, place))
        for _ in range(PERFECT_ROUNDS):
            pairs = np.arange(max(len(self) - 1, 0))
            boxes, perfect = around(self.groups, pairs, pairs + 1, self.pieces)
            chosen = choose_pairs(np.flatnonzero(perfect), len(self), len(self))
            if not len(chosen):
                break
            self.apply(chosen, _boxes(boxes, chosen))
        return len(self) < count

    # --- imperfect merging -----------------------------------------------------------------------------------

    def within(self, parts: list[EventArrays], wanted: list[Flags]) -> None:
        """Merge neighbours, cheapest first, while the second part of the sample shows the budget to be kept."""
        sample = marginals(parts[0], int(self.groups.attr.max(initial=-1)) + 1)
        costing, stopping = (some_events(p, np.flatnonzero(~w)) for p, w in zip(parts[:2], wanted[:2], strict=True))
        extra, allowed = 0, self.budget * int(wanted[1].sum())
        shown = max(len(parts[0].start) - 1, 1)
        random = np.random.default_rng(len(self))
        going, turn = True, 0
        while going and len(self) > 1:
            self.reorder(_along_curve(self.groups, random, by_attributes=turn % KINDS_FIRST != 0))
            left, boxes, cost = self._cheapest(sample)
            cost += np.bincount(traffic.takers(boxes, costing).thing, minlength=len(left)) / shown
            order = np.argsort(cost, kind="stable")
            # Which merges come, and in which order, does not depend on these events, only how far it goes: so what they
            # show of the result is hardly better than the truth.
            taken, gone = traffic.takers(boxes, stopping).permitted(order, extra, allowed)
            extra, stopping = extra + int(gone.sum()), some_events(stopping, np.flatnonzero(~gone))
            chosen = np.sort(order[:taken])
            self.apply(left[chosen], _boxes(boxes, chosen))
            going, turn = taken == len(order), turn + 1

    def _cheapest(self, sample: Marginals) -> tuple[I64, SegmentArrays, F64]:
        """Pairs of neighbours with the least mass added, no group in two of them: left ones, boxes, masses."""
        pairs = np.arange(len(self) - 1, dtype=np.int64)
        boxes, perfect = around(self.groups, pairs, pairs + 1, self.pieces)
        own, mass = masses(self.groups, sample), masses(boxes, sample)
        cost = np.where(perfect, 0.0, np.maximum(mass - own[:-1] - own[1:], 0.0) + mass / 1024)
        order = np.argsort(cost, kind="stable")
        left = np.sort(choose_pairs(order, max(1, int(SHARE * len(self))), len(self)))
        return left, _boxes(boxes, left), cost[left]


def _boxes(table: SegmentArrays, chosen: I64) -> SegmentArrays:
    """Some boxes, numbered from 0 and frozen."""
    return boxes_table(*gather(table, chosen)[1:7])


@kernel
def choose_pairs(order: I64, most: int, groups: int) -> I64:
    """Of pairs (i, i + 1) of groups, in this order, the first `most` of which no two share a group."""
    used, out, found = np.zeros(groups, np.bool_), np.empty(min(most, len(order)), np.int64), 0
    for pair in order:
        if found == len(out):
            break
        if not used[pair] and not used[pair + 1]:
            used[pair] = used[pair + 1] = True
            out[found] = pair
            found += 1
    return out[:found]


# --- orders ------------------------------------------------------------------------------------------------------


def _by_all_but(table: SegmentArrays, place: int) -> I64:
    """Boxes that agree on all constraints but the one at a place side by side, by its lower end."""
    hashes = constraint_hashes(table)
    whole = sums(hashes, table.constraint_start)
    has = np.diff(table.constraint_start) > place
    at_place = table.constraint_start[:-1][has] + place
    rest = whole.copy()
    rest[has] += mixed(table.attr[at_place].astype(np.uint64)) - hashes[at_place]
    low = np.zeros(len(whole), np.int64)
    first = table.interval_start[at_place]
    some = first < table.interval_start[at_place + 1]
    low[np.flatnonzero(has)[some]] = table.lo[first[some]]
    order: I64 = np.lexsort((low, rest))
    return order


def _along_curve(table: SegmentArrays, random: np.random.Generator, by_attributes: bool) -> I64:
    """The order of boxes along Hilbert's curve through their middles, moved and turned at random.

    By attributes: boxes that ask about the same attributes together, each kind on a curve of its own. Otherwise one
    curve for all, through the attributes that most of them ask about, where an attribute not asked about is its middle.
    """
    middle = _middles(table)
    counts = np.diff(table.constraint_start)
    if by_attributes:
        kinds = sums(mixed(table.attr.astype(np.uint64)), table.constraint_start)
        number = np.zeros(len(counts), np.int64)
        for count in np.unique(counts[counts > 0]).tolist():
            rows = np.flatnonzero(counts == count)
            places = random.permutation(count)[:CURVE_AXES]
            number[rows] = _numbers(middle[table.constraint_start[rows][:, None] + places], random)
        order: I64 = np.lexsort((number, kinds))
        return order
    axes = random.permutation(np.argsort(-np.bincount(table.attr), kind="stable")[:CURVE_AXES])
    if not len(axes):
        return np.arange(len(counts))
    cells = np.full((len(counts), len(axes)), LINE // 2, np.int64)
    owner = np.repeat(np.arange(len(counts)), counts)
    for axis, attr in enumerate(axes.tolist()):
        of_it = table.attr == attr
        cells[owner[of_it], axis] = middle[of_it]
    return np.argsort(_numbers(cells, random), kind="stable")


def _numbers(cells: I64, random: np.random.Generator) -> I64:
    """Numbers on a curve over twice the line, on which the cells begin anywhere in the lower half."""
    kept = min(CURVE_BITS, grid.MOST_BITS // cells.shape[1])
    moved = cells + random.integers(0, LINE, cells.shape[1])
    return hilbert.numbers(moved >> (LINE.bit_length() - kept), kept)


def _middles(table: SegmentArrays) -> I64:
    """Where each constraint is on its attribute, by rank among all ends there, from 0 to LINE - 1."""
    first, last = table.interval_start[:-1], table.interval_start[1:]
    some = np.flatnonzero(first < last)
    low, high = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
    low[some], high[some] = table.lo[first[some]], table.hi[last[some] - 1]
    middle = np.zeros(len(first), np.int64)
    order = some[np.argsort(table.attr[some], kind="stable")]
    borders = np.flatnonzero(np.diff(table.attr[order])) + 1
    for mine in np.split(order, borders):
        if not len(mine):
            continue
        line = np.concatenate([low[mine], high[mine]])
        line = np.sort(line[:: max(1, len(line) // LINE)])
        ranks = np.searchsorted(line, low[mine]) + np.searchsorted(line, high[mine])
        middle[mine] = (ranks * (LINE - 1)) // (2 * len(line))
    return middle


# --- what comes of it --------------------------------------------------------------------------------------------


def _grouped(table: SegmentArrays, top: I64, simple: I64, merging: _Merging) -> I64:
    """For each slot a group: below the number of boxes one of them, else that number and a root's slot.

    A merged box can cover roots, and other boxes, that it did not come from: one more covering query for those.
    """
    count = len(merging)
    sizes = np.bincount(merging.label, minlength=count)
    group = count + np.arange(len(table.sequence), dtype=np.int64)  # by root: itself, or a box that is truly merged
    in_box = sizes[merging.label] > 1
    group[simple[in_box]] = merging.label[in_box]
    boxes = np.flatnonzero(sizes > 1)
    roots = np.unique(top)
    others = roots[group[roots] >= count]
    if len(boxes):
        asked = concat(_boxes(merging.groups, boxes), gather(table, others)._replace(weight=np.empty(0)))
        sequence = frozen(np.arange(len(boxes) + len(others), dtype=np.int64))
        asked = SegmentArrays._make(frozen(np.ascontiguousarray(c).view()) for c in asked._replace(sequence=sequence))
        numbers = np.concatenate([boxes, count + others])
        moved = np.arange(count + len(table.sequence), dtype=np.int64)
        moved[numbers] = numbers[tops(asked, sequence)]
        group = moved[group]
    return group[top]


def _assembled(slots: I64, grouped: I64, boxes: SegmentArrays) -> tuple[I64, I64, I64, I64, SegmentArrays]:
    """Groups by the age of their oldest member, as `Merged` has them; `slots` and `grouped` go by age."""
    count = len(boxes.sequence)
    _, first, inverse = np.unique(grouped, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    number = rank[inverse.reshape(-1)]
    order = np.argsort(number, kind="stable")
    group = grouped[np.sort(first)]
    is_box = group < count
    name = np.where(is_box, slots[np.sort(first)], group - count)
    box = np.where(is_box, np.cumsum(is_box) - 1, -1)
    start = pointers_of(np.bincount(number, minlength=len(first)))
    return start, slots[order], name, box, _boxes(boxes, group[is_box])
