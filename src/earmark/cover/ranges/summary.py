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

**A file** has the ranges and the space, all that a broker or a publishing client needs to turn events into numbers
itself (section 4.3, Algorithm 2, and section 6.1): `Summary.to_arrow` as Parquet, which `RangeSummary` reads.

    columns     first  last                        ranges of Hilbert's curve, ascending
    metadata    earmark.space                      for people: where cells begin, >= 10  > 'Oslo'
                earmark.keys                       JSON: version, zone, bits, and for every axis
                  attribute, type, declared        so that a value means here what it meant to the subscriptions
                  keyed                            whether keys come from a dictionary (strings, wide numbers)
                  keys                             where cells begin; if keyed, [constant in hex, 0 or 1]

A key is a number that keeps order (`keys/cuts.py`), the same everywhere, but for those of a dictionary, which depend on
which constants there are. So a cut between such keys is stored as the constant at which it is (0) or just above which
it is (1), and gets a key among the cuts when the file is opened; a string that is not among them falls between two.

Whatever is read is treated as hostile: sizes first, every field by type, then all that kernels rely on.

Invariant: the cell of every event that a subscription takes is in a range.
Complexity: O(r log r) for r ranges of all subscriptions; O(log r) an event; opening a file O(ranges + cuts).
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from earmark.cover.canonical import canonical
from earmark.cover.cover_index import version_of
from earmark.cover.merging.traffic import Takers, Traffic, check_budget, split, taken
from earmark.cover.ranges.projection import Projection, ranges_of_events
from earmark.cover.ranges.table import Ranges
from earmark.cover.written import ConditionWriter
from earmark.curves.hilbert import MOST_DIMENSIONS
from earmark.curves.space import AXES, BITS, FEWEST_BITS, MOST_BITS, Space, bounds_on, learned_space, space_of
from earmark.errors import EarmarkError, TableError, check_whole
from earmark.events.arrays import EventArrays
from earmark.events.choice import some_events
from earmark.events.frames import encode_many
from earmark.flat import bits
from earmark.flat.arrays import I64, Flags, frozen
from earmark.keys.numbers import check_numbers
from earmark.keys.schema import INT64_MAX, INT64_MIN, WIDE_NUMBER, Attribute, Kind, Schema, attribute_type, check_name
from earmark.keys.strings import StringKeys
from earmark.language.words import counted
from earmark.segment.arrays import SegmentArrays
from earmark.segment.life import refuse_lives
from earmark.segment.segment import Segment

if TYPE_CHECKING:
    import pyarrow as pa

SPACE_KEY = b"earmark.space"
"""Under this name a file's metadata holds the space as JSON, for people."""
KEYS_KEY = b"earmark.keys"
"""And under this one all that turns events into numbers, for `RangeSummary`."""
VERSION = 1
MOST_RANGES = 1 << 26
MOST_METADATA = 64 << 20
"""Rows and bytes of metadata that a file may have."""


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
        writer, names, axes = ConditionWriter(self.view.schema), self.view.schema.names, []
        for attr, cuts in self.space.cuts_of_axes():
            axes.append({"attribute": names[attr], "cuts": [writer.bound(attr, cut) for cut in cuts]})
        return {"bits": int(self.space.bits[0]), "axes": axes}

    def to_arrow(self) -> pa.Table:
        """The ranges as a table (first, last), with the space in its metadata. `RangeSummary` reads it."""
        import pyarrow as pa

        made = pa.table({"first": self.ranges.first, "last": self.ranges.last})
        records = {SPACE_KEY: self.described(), KEYS_KEY: self._keys()}
        texts = {name: json.dumps(record, ensure_ascii=False).encode() for name, record in records.items()}
        return made.replace_schema_metadata(texts)

    def _keys(self) -> dict[str, Any]:
        """The space for programs: how values become keys, and the keys at which cells begin."""
        schema, axes = self.view.schema, []
        for number, cuts in self.space.cuts_of_axes():
            attribute, keyed = schema.by_name[schema.names[number]], number in schema.strings
            keys = _at_constants(schema.strings[number], cuts) if keyed else cuts
            about = {"attribute": attribute.name, "type": str(attribute.type) if attribute.type else None}
            axes.append({**about, "keyed": keyed, "declared": attribute.declared, "keys": keys})
        return {"version": VERSION, "zone": schema.zone_name, "bits": int(self.space.bits[0]), "axes": axes}


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
    events = encode_many(whole.schema, sample)
    return summarize_segment(whole, events, budget, axes=axes, cell_bits=cell_bits, seed=seed)


def summarize_segment(
    view: Segment, events: EventArrays, budget: float, *, axes: int = AXES, cell_bits: int = BITS, seed: int = 0
) -> Summary:
    """Summarize the subscriptions of a segment, given events in its keys."""
    check_budget(budget)
    check_whole(axes, "axes", 1)
    refuse_lives(view, "summarized")
    check_whole(cell_bits, "cell_bits", FEWEST_BITS, MOST_BITS)
    table, parts = canonical(view), split(events, seed)
    wanted = [taken(table, bits.all_set(len(view)), part) for part in parts]
    unwanted = [some_events(part, np.flatnonzero(~one)) for part, one in zip(parts, wanted, strict=True)]
    space = _space(table, unwanted[0], axes, cell_bits)
    exact = Projection.build(table, space=space).ranges()
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
    cells = 2 + max(map(len, cuts), default=0)  # NULL, and what is below the first cut
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
    inside, owner, gap = places(space, ranges, stopping)
    between = gap < gaps  # not beyond the outer ranges
    closing = Takers(len(inside), owner[between], gap[between])
    open_ = np.ones(gaps, np.bool_)
    open_[order[: closing.permitted(order, int(inside.sum()), allowed)[0]]] = False
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


# --- files --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class RangeSummary:
    """Ranges that were written elsewhere, the space whose cells they number, and how values become keys in it."""

    schema: Schema
    space: Space
    ranges: Ranges

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """The summary in a Parquet file, as `earmark merge --ranges` writes it."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        _require(Path(path).is_file(), f"there is no file {str(path)!r}")
        if Path(path).suffix.lower() != ".parquet":
            raise TableError(f"{str(path)!r} is no .parquet file; no other has the grid that a summary's ranges need")
        try:
            with pq.ParquetFile(path) as file:
                rows = file.metadata.num_rows
                _require(rows <= MOST_RANGES, f"it has {rows:,} rows; a summary has at most {MOST_RANGES:,}")
                _check_columns(file.schema_arrow)
                table = file.read()
            return cls.from_arrow(table)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
            said = " ".join(str(problem).split())[:300]
            raise TableError(f"{str(path)!r} cannot be read as a range summary: {said}") from None
        except TableError as problem:
            raise TableError(f"{str(path)!r} cannot be read as a range summary: {problem}") from None

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Self:
        """The summary in an Arrow table, as `Summary.to_arrow` makes it."""
        import pyarrow as pa

        _require(isinstance(table, pa.Table), f"expected a range summary as an Arrow table, got {type(table).__name__}")
        _check_columns(table.schema)
        schema, space = _grid(_record(table.schema.metadata or {}))
        first, last = (_numbers(table.column(name)) for name in ("first", "last"))
        cells = 1 << (space.axes * int(space.bits[0]))
        if len(first) and not (
            first[0] >= 0 and last[-1] < cells and (first <= last).all() and (last[:-1] < first[1:]).all()
        ):
            raise TableError(f"its ranges are not ascending, apart, and from 0 to {cells - 1}")
        return cls(schema, space, Ranges(frozen(first), frozen(last)))

    def __len__(self) -> int:
        """How many ranges there are."""
        return len(self.ranges.first)

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.schema.names))
        return f"<RangeSummary: {counted(len(self), 'range')} on {names}>"

    def wants(self, events: Any) -> Flags:
        """Which events to send: every one that a subscription behind this takes, and some others.

        Events are a sequence of mappings, an Arrow table or record batch, or a pandas or polars frame. Attributes
        without an axis are not looked at.
        """
        return places(self.space, self.ranges, encode_many(self.schema, events))[0]


def _require(holds: object, problem: str) -> None:
    """Raise an error that names the problem, unless the condition holds."""
    if not holds:
        raise TableError(problem)


def _check_columns(schema: pa.Schema) -> None:
    import pyarrow as pa

    try:
        columns = [(field.name, field.type) for field in schema]
    except UnicodeDecodeError:
        raise TableError("the name of a column is not UTF-8") from None
    if columns != [("first", pa.int64()), ("last", pa.int64())]:
        raise TableError("it does not have the columns first and last of 64-bit integers, and no others")


def _numbers(column: pa.ChunkedArray) -> I64:
    _require(not column.null_count, "a range has no beginning or no end")
    numbers: I64 = np.array(column, np.int64)
    return numbers


def _record(metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    """What the metadata say, as far as it is JSON of this version."""
    text = metadata.get(KEYS_KEY, b"")
    if not text or len(text) > MOST_METADATA:
        raise TableError(f"its metadata {KEYS_KEY.decode()!r}, the grid, are missing or too long")
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        raise TableError(f"its metadata {KEYS_KEY.decode()!r}, the grid, are not JSON") from None
    version = record.get("version") if isinstance(record, dict) else None
    if type(version) is not int or version != VERSION:
        raise TableError(f"its version is {str(version)[:50]}; this earmark reads {VERSION}: make the summary again")
    found: dict[str, Any] = record
    return found


def _grid(record: dict[str, Any]) -> tuple[Schema, Space]:
    """The attributes and the space of a record."""
    axes, bits = _field(record, "axes", list), _field(record, "bits", int)
    held = len(axes) <= MOST_DIMENSIONS and 1 <= bits <= MOST_BITS
    _require(held, f"it has not at most {MOST_DIMENSIONS} axes of 1 to {MOST_BITS} bits")
    try:
        schema = Schema(_field(record, "zone", str))
        cuts = [_axis(schema, axis, (1 << bits) - 2) for axis in axes]
        _require(all((one[:-1] < one[1:]).all() for one in cuts), "the cuts of an axis do not ascend")
        return schema, space_of(np.arange(len(axes), dtype=np.int32), cuts, bits)
    except TableError:
        raise
    except EarmarkError as problem:
        raise TableError(f"its grid makes no sense: {str(problem)[:300]}") from None


def _axis(schema: Schema, axis: Any, most: int) -> I64:
    """Add the attribute of an axis to the schema; its cuts in the keys that it has there."""
    _require(isinstance(axis, dict), "an axis is not described by names and values")
    name, keys = _field(axis, "attribute", str), _field(axis, "keys", list)
    _require(len(keys) <= most, f"expected at most {most:,} cuts on an axis, got {len(keys):,}")
    check_name(name)
    _require(name not in schema.by_name, f"the attribute {name!r} has two axes")
    type_ = attribute_type(_field(axis, "type", str)) if axis.get("type") is not None else None
    number = len(schema)
    if _field(axis, "keyed", bool) and type_ is not None and type_.kind == Kind.NUMBER:
        type_ = WIDE_NUMBER
    schema.put(Attribute(number, name, type_, _field(axis, "declared", bool), "the range summary"))
    if type_ is not None and type_.keyed:
        cuts = _constant_cuts(schema.strings[number], keys)
        if type_.kind == Kind.NUMBER:
            _check_numbers(schema.strings[number])
        return cuts
    good = all(type(key) is int and INT64_MIN <= key <= INT64_MAX for key in keys)
    _require(good, f"a key of {name!r} is not a 64-bit integer")
    return np.array(keys, np.int64)


def _check_numbers(constants: StringKeys) -> None:
    try:
        check_numbers(constants.constants())
    except AssertionError as problem:
        raise TableError(str(problem)) from None


def _constant_cuts(strings: StringKeys, keys: list[Any]) -> I64:
    """Cuts at constants and just above them, as keys among these constants alone."""
    places = []
    for key in keys:
        good = isinstance(key, list) and len(key) == 2 and isinstance(key[0], str) and type(key[1]) is int
        _require(good, "a cut between strings is not a constant in hex, and 0 or 1")
        try:
            places.append((bytes.fromhex(key[0]), key[1]))
        except ValueError:
            raise TableError(f"{key[0][:50]!r} is not a constant in hex") from None
    good = all(above in (0, 1) for _, above in places)
    _require(good, "a cut between strings is at a constant, 0, or just above it, 1")
    strings.insert(constant for constant, _ in places)
    return np.array([strings.of_constant(constant) + above for constant, above in places], np.int64)


def _field(record: dict[str, Any], name: str, kind: type[Any]) -> Any:
    value = record.get(name)
    shown = f"{name!r} {str(value)[:50]!r}"
    _require(type(value) is kind, f"its grid has {shown}, which is not a JSON {kind.__name__}")
    return value
