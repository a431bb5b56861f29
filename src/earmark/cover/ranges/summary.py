"""All that these subscriptions ask for, as one short list of ranges that a neighbour can keep.

mics.txt, sections 3.3, 3.6 and 6.3: the union of the subscriptions' ranges of curve numbers (`projection.py`), on a few
attributes whose cells begin where constraints begin and end, with gaps between ranges closed (imperfect merging). The
paper closes gaps below a threshold; here they are closed in order of what they cost, and a budget of measured extra
traffic (`traffic.py`) says how many:

    ranges    [2, 9]    [15, 17] [20, 31]        [90, 95]
    gaps           10–14      18–19      32–89                  events of the sample in each: 3, 0, 41
    closed    [2, 9]    [15 ........ 31]         [90, 95]       the cheapest first

Cells alone can cost something, too, where there are more ends than cells, or attributes without an axis: an event in a
cell that a subscription only touches. Where that is beyond the budget already, no gap is closed, and the report says
what the cells cost.

Invariant: the cell of every event that a subscription takes is in a range.
Complexity: O(r log r) for r ranges of all subscriptions; O(log r) an event.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from earmark.cover.canonical import canonical
from earmark.cover.cover_index import version_of
from earmark.cover.given import check_budget, check_whole
from earmark.cover.merging.conditions import ConditionWriter
from earmark.cover.merging.traffic import Flags, Traffic, permitted, split, taken
from earmark.cover.ranges.projection import Projection, ranges_of_events
from earmark.cover.ranges.subsumption import AXES, BITS, learned_space
from earmark.cover.ranges.table import Ranges
from earmark.curves.space import FEWEST_BITS, MOST_BITS, Space, bounds_on, space_of
from earmark.engine.batch import encode_many
from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.flat import bits
from earmark.flat.arrays import I64
from earmark.keys.schema import INT64_MAX, INT64_MIN
from earmark.keys.strings import StringKeys
from earmark.language.words import counted
from earmark.segment.arrays import SegmentArrays, gather
from earmark.segment.segment import Segment

if TYPE_CHECKING:
    import pyarrow as pa

SPACE_KEY = b"earmark.space"
"""Under this name a file's metadata holds the space as JSON, for people."""
KEYS_KEY = b"earmark.keys"
"""And under this one all that turns events into numbers, for `range_summary.py`."""
VERSION = 1


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """The ranges, the space whose cells they number, and what they cost."""

    view: Segment
    space: Space
    ranges: Ranges
    before: int
    """Ranges before any gap was closed."""
    budget: float
    decided: Traffic
    held_back: Traffic

    def __len__(self) -> int:
        """How many ranges there are."""
        return len(self.ranges.first)

    def __repr__(self) -> str:
        ranges, axes = counted(len(self), "range"), counted(self.space.axes, "attribute")
        return f"<Summary: {counted(len(self.view), 'subscription')} as {ranges} on {axes}>"

    def holds(self, events: EventArrays) -> Flags:
        """Which events are in a range."""
        return places(self.space, self.ranges, events)[0]

    def described(self) -> dict[str, Any]:
        """The space for others: 2^bits cells per axis, and by axis the attribute and the values at which cells begin.

        Cell 0 of an axis is NULL, cell 1 is below the first cut, cell i + 1 begins at cut i.
        """
        writer, names = ConditionWriter(self.view.schema), self.view.schema.names
        axes = []
        for axis, attr in enumerate(self.space.attr.tolist()):
            cuts = self.space.cuts[self.space.cut_start[axis] : self.space.cut_start[axis + 1]]
            axes.append({"attribute": names[attr], "cuts": [writer.bound(attr, cut) for cut in cuts.tolist()]})
        return {"bits": int(self.space.bits[0]), "axes": axes}

    def to_arrow(self) -> pa.Table:
        """The ranges as a table (first, last), with the space in its metadata. `RangeSummary` reads it."""
        import pyarrow as pa

        made = pa.table({"first": self.ranges.first, "last": self.ranges.last})
        records = {SPACE_KEY: self.described(), KEYS_KEY: self._keys()}
        return made.replace_schema_metadata(
            {name: json.dumps(record, ensure_ascii=False).encode() for name, record in records.items()}
        )

    def _keys(self) -> dict[str, Any]:
        """The space for programs: how values become keys, and the keys at which cells begin."""
        schema, space, axes = self.view.schema, self.space, []
        for axis, attr in enumerate(space.attr.tolist()):
            attribute = schema.by_name[schema.names[attr]]
            cuts = space.cuts[space.cut_start[axis] : space.cut_start[axis + 1]].tolist()
            axes.append(
                {
                    "attribute": attribute.name,
                    "type": str(attribute.type) if attribute.type else None,
                    "keyed": attr in schema.strings,
                    "declared": attribute.declared,
                    "keys": _at_constants(schema.strings[attr], cuts) if attr in schema.strings else cuts,
                }
            )
        return {"version": VERSION, "zone": schema.zone_name, "bits": int(space.bits[0]), "axes": axes}


def _at_constants(strings: StringKeys, cuts: list[int]) -> list[tuple[str, int]]:
    """Cuts among the keys of strings: the constant at each or below it, in hex, and 1 where the cut is just above it.

    Between a constant and the next all strings have one key, so a cut further up is at the next.
    """
    constants, known = strings.items()
    keys, found = known.tolist(), []
    for cut in cuts:
        place = bisect_right(keys, cut) - 1
        above = cut - keys[place]
        found.append((constants[place + (above > 1)].hex(), int(above == 1)))
    return found


def summarize(
    source: Any, sample: Any, budget: float, *, axes: int = AXES, cell_bits: int = BITS, seed: int = 0
) -> Summary:
    """Summarize the subscriptions of a Matcher, or of a batch as `Matcher.add_many` takes it.

    `sample`: past events; `budget`: extra traffic, 0.02 for 2 %. The grid has the `axes` attributes that tell most
    subscriptions apart, each cut into at most 2^cell_bits cells. `seed` splits the sample.
    """
    whole = version_of(source).whole
    return summarize_segment(
        whole, encode_many(whole.schema, sample), budget, axes=axes, cell_bits=cell_bits, seed=seed
    )


def summarize_segment(
    view: Segment, events: EventArrays, budget: float, *, axes: int = AXES, cell_bits: int = BITS, seed: int = 0
) -> Summary:
    """Summarize the subscriptions of a segment, given events in its keys."""
    check_budget(budget)
    check_whole(axes, "axes", 1)
    check_whole(cell_bits, "cell_bits", FEWEST_BITS, MOST_BITS)
    table, live = canonical(view), np.arange(len(view))
    parts = split(events, seed)
    eligible = bits.from_slots(live, len(table.sequence))
    wanted = [taken(table, eligible, part) for part in parts]
    unwanted = [some_events(part, np.flatnonzero(~one)) for part, one in zip(parts, wanted, strict=True)]
    space = _space(gather(table, live.astype(np.int64)), unwanted[0], axes, cell_bits)  # the dead teach nothing
    exact = Projection.build(table, live.astype(np.int32), space=space).ranges()
    closed = _closed(space, exact, unwanted[0], unwanted[1], budget * int(wanted[1].sum()))
    measured = [
        Traffic(len(one), int(one.sum()), int(places(space, closed, rest)[0].sum()))
        for one, rest in zip(wanted[1:], unwanted[1:], strict=True)
    ]
    return Summary(view, space, closed, len(exact.first), budget, *measured)


def _space(table: SegmentArrays, unwanted: EventArrays, axes: int, cell_bits: int) -> Space:
    """The most telling attributes, cut where constraints begin and end: everywhere, if that is not too often.

    Otherwise the cuts are spread so that unwanted events, and the ends themselves, are equally many in every cell: only
    unwanted events can be sent in vain. The grid is no finer than the axis with the most cuts needs: what is asked for
    on an axis would fall into more ranges in a finer one.
    """
    chosen = learned_space(table, axes, 1).attr
    cuts = [_cuts(table, unwanted, attr, cell_bits) for attr in chosen.tolist()]
    cells = 2 + max(map(len, cuts))  # NULL, and what is below the first cut
    return space_of(chosen, cuts, max(FEWEST_BITS, (cells - 1).bit_length()))


def _cuts(table: SegmentArrays, unwanted: EventArrays, attribute: int, cell_bits: int) -> I64:
    low, high = np.split(bounds_on(table, attribute), 2)
    ends = np.unique(np.concatenate([low[low != INT64_MIN], high[high != INT64_MAX] + 1]))
    most = (1 << cell_bits) - 2
    if len(ends) <= most:
        return ends
    keys = np.sort(unwanted.lo[unwanted.attr == attribute])
    inside = np.diff(np.searchsorted(keys, ends), append=len(keys))
    weight = np.cumsum(inside + max(float(inside.mean()), 1.0))
    places = np.searchsorted(weight, np.arange(1, most + 1) * (weight[-1] / (most + 1)))
    cuts: I64 = np.unique(ends[places.clip(0, len(ends) - 1)])
    return cuts


def _closed(space: Space, ranges: Ranges, costing: EventArrays, stopping: EventArrays, allowed: float) -> Ranges:
    """The ranges with the cheapest gaps closed, as many as are allowed."""
    gaps = max(len(ranges.first) - 1, 0)
    _, _, gap = places(space, ranges, costing)
    cost = np.bincount(gap, minlength=gaps)[:gaps]
    order = np.lexsort((ranges.first[1:] - ranges.last[:-1], cost))
    rank = np.full(gaps + 1, gaps, np.int64)  # the last entry is for what is beyond the outer ranges
    rank[order] = np.arange(gaps)
    inside, owner, gap = places(space, ranges, stopping)
    first = np.full(len(inside), gaps, np.int64)
    np.minimum.at(first, owner, rank[gap])
    extra = int(inside.sum()) + np.searchsorted(np.sort(first[~inside]), np.arange(1, gaps + 1))
    open_ = np.ones(gaps, np.bool_)
    open_[order[: permitted(extra, allowed)]] = False
    begins, ends = np.concatenate([[True], open_]), np.concatenate([open_, [True]])
    return Ranges(ranges.first[begins], ranges.last[ends]) if gaps else ranges


def places(space: Space, ranges: Ranges, events: EventArrays) -> tuple[Flags, I64, I64]:
    """Which events are in a range; and of the others, the gaps that they touch: (inside, events, gaps).

    Gap i comes after range i; what is outside of all ranges is numbered as the gap after the last.
    """
    count = len(events.start) - 1
    start, first, last = ranges_of_events(space, events)
    owner = np.repeat(np.arange(count), np.diff(start))
    behind = np.searchsorted(ranges.last, first)  # the first range that ends there or later
    known = len(ranges.first)
    meets = np.zeros(len(first), np.bool_)
    some = behind < known
    meets[some] = ranges.first[behind[some]] <= last[some]
    inside = np.zeros(count, np.bool_)
    inside[owner[meets]] = True
    apart = ~inside[owner]
    gap = np.where((behind == 0) | (behind == known), max(known - 1, 0), behind - 1)
    return inside, owner[apart], gap[apart]
