"""Ready-made subscriptions: bounds in columns, taken in without a loop over rows.

Two forms, beside `id` and the optional `score`, `weights`, `tags`, `starts` and `ends`:

    bounds   a lower and an upper column an attribute (`age_lo`, `age_hi`, or names given by the caller)
    ranges   one column, a list of {attribute, lo, hi[, weight]} a row, for many attributes of which a row uses few;
             several ranges on one attribute intersect

Bounds are inclusive; NULL leaves the side open, both NULL leave the attribute unconstrained. They mean what `>=` and
`<=` with that literal mean; a lower bound above the upper makes a clause that never matches, and is kept.

Everything is looked at once, and an error has the problems of all rows at fault, one for each. A row at fault teaches
nothing: without it, the others are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from earmark.errors import AttributeTypeError, EarmarkError, SubscriptionError, refuse, shown
from earmark.events.frames import is_text, one_array, plain_array
from earmark.events.mappings import checked_weights
from earmark.events.moments import moment_key
from earmark.flat.arrays import F64, I64, PackedStrings, from_arrow, frozen
from earmark.keys.cuts import cut
from earmark.keys.numbers import constant_of, float_keys, is_narrow, narrow_key, position_of
from earmark.keys.schema import INT64_MAX, INT64_MIN, Attribute, AttributeType, Draft, Kind, Schema, type_of
from earmark.lazy import lazy_property
from earmark.segment.arrays import NO_MOMENTS, SegmentArrays, offsets
from earmark.segment.builder import Prepared, as_mapping, checked_score, checked_tags, id_problems
from earmark.segment.ids import MAX_ID, Base, Id, IdColumn, checked_id
from earmark.segment.life import ALWAYS, checked_life, key_before, life_attribute, moments_in
from earmark.segment.segment import Tags

Bounds = Mapping[str, tuple[str, str]]
_EXACT = 2**53


class Pieces(NamedTuple):
    """Ranges of one attribute: which rows, and the Arrow columns of their bounds (NULL is open)."""

    attribute: Attribute
    rows: I64
    lo: pa.Array
    hi: pa.Array
    weight: F64


class Faults:
    """The problems of rows, the first of each."""

    def __init__(self, ids: list[Id] | Base) -> None:
        self._ids = ids
        self._problems: dict[int, EarmarkError] = {}

    def add(self, row: int, problem: EarmarkError) -> None:
        """Note a problem of a row, unless it has one already."""
        if row not in self._problems:
            self._problems[row] = problem.at(row=row, id=self.id_of(row))

    def id_of(self, row: int) -> Id:
        """The id of a row."""
        return self._ids[row]

    def checked(self, row: int, check: Callable[..., Any], *given: Any) -> Any:
        """What a check of a row's value gives; None where the value is wrong, which is noted."""
        try:
            return check(*given)
        except EarmarkError as problem:
            self.add(row, problem)

    def __len__(self) -> int:
        """How many rows have a problem."""
        return len(self._problems)

    def good(self, rows: I64) -> I64:
        """Those of the rows that have no problem."""
        return rows[~np.isin(rows, np.fromiter(self._problems, np.int64, len(self)))] if len(self) else rows

    def raise_all(self) -> None:
        """Raise what was noted, if anything, in the order of the rows."""
        refuse([self._problems[row] for row in sorted(self._problems)])


def prepare_columns(schema: Schema, frame: pa.Table, bounds: Bounds | None) -> Prepared:
    """Check a frame of bounds; an error names the column, or has the problem of every row at fault."""
    draft = Draft(schema)
    count = frame.num_rows
    ids = _ids(frame)
    faults = Faults(ids if isinstance(ids, list) else Base(ids))
    _check_ids(ids, faults)
    if "ranges" in frame.column_names and bounds is None:
        pieces = _from_ranges(draft, frame, faults)
    else:
        pieces = _from_bounds(draft, frame, bounds or named_bounds(frame.column_names), faults)
    scores = _scores(frame, faults)
    tags = _tags(frame, faults)
    weights = _row_weights(frame, pieces, faults)
    pieces = _typed(draft, pieces, faults)
    first, last = _lives(draft, frame, faults)
    _check_distinct(ids, faults)
    faults.raise_all()
    for piece in pieces:
        _note_constants(draft, piece)

    def arrays(keyed: Schema) -> SegmentArrays:
        return _arrays(keyed, pieces, count, scores, weights)._replace(first_moment=first, last_moment=last)

    return Prepared(draft, ids, arrays, tags=tags)


# --- reading the frame --------------------------------------------------------------------------------------


def _ids(frame: pa.Table) -> list[Id] | IdColumn:
    """The ids, as arrays where all of them can be ids, else as they are."""
    if "id" not in frame.column_names:
        raise SubscriptionError(f"there is no column 'id'; the columns are {', '.join(frame.column_names)}")
    column = frame.column("id")
    if not column.null_count and len(column):
        if pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type):
            return frozen(np.array(one_array(column).cast("int64")))
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            strings = from_arrow(one_array(column))
            lengths = np.diff(strings.start)
            if lengths.min() > 0 and lengths.max() <= MAX_ID:
                strings.check("ids")
                return PackedStrings(frozen(strings.start), frozen(strings.joined.copy()))  # the frame may go
    ids: list[Id] = column.to_pylist()
    return ids


def _check_ids(ids: list[Id] | IdColumn, faults: Faults) -> None:
    for row, one in enumerate(ids if isinstance(ids, list) else ()):
        if type(one) is not int or not -(2**63) <= one < 2**63:
            faults.checked(row, checked_id, one)


def _check_distinct(ids: list[Id] | IdColumn, faults: Faults) -> None:
    """The ids of rows without a fault must be of one kind, and given once."""
    rows: Sequence[int] = range(len(ids))
    if len(faults):
        rows = faults.good(np.arange(len(ids))).tolist()
        ids = [faults.id_of(row) for row in rows]
    for problem in id_problems(ids, rows):
        assert problem.row is not None
        faults.add(problem.row, problem)


def named_bounds(names: Sequence[str]) -> Bounds:
    """Pairs of columns by attribute, from names such as `age_lo` and `age_hi`."""
    found = {n[:-3]: (n, n[:-3] + "_hi") for n in names if n.endswith("_lo") and n[:-3] + "_hi" in names}
    if not found:
        raise SubscriptionError(
            "there is neither a column 'condition', nor 'ranges', nor a pair such as 'age_lo' and 'age_hi'; "
            f"the columns are {', '.join(names)}"
        )
    return found


def _from_bounds(draft: Draft, frame: pa.Table, bounds: Bounds, faults: Faults) -> list[Pieces]:
    pieces = []
    all_rows = np.arange(frame.num_rows)
    for name, pair in bounds.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise SubscriptionError(
                f"expected a pair of columns, lower and upper, as the bounds of {name!r}, got {shown(pair)}"
            )
        for column in pair:
            if column not in frame.column_names:
                raise SubscriptionError(f"the bounds of {name!r} refer to a column {column!r}, which is not there")
        low, high = (_plain(frame.column(column), all_rows, faults) for column in pair)
        rows = all_rows
        if low.null_count and high.null_count:
            rows = np.flatnonzero(~(np.asarray(low.is_null()) & np.asarray(high.is_null())))
            low, high = low.take(rows), high.take(rows)
        pieces.append(Pieces(draft.get(name), rows, low, high, np.empty(0)))
    return pieces


def _plain(column: Any, rows: I64, faults: Faults) -> pa.Array:
    """A column of bounds, of these rows, in one piece and of a type that Arrow computes with."""

    column = plain_array(one_array(column))
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_float16(column.type):
        return column.cast(pa.float32())
    if is_text(column.type):
        return column.cast(pa.large_string())
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        nanoseconds = np.asarray(column.cast("int64").fill_null(0))
        for at in np.flatnonzero(nanoseconds % 1000).tolist():
            moment = np.datetime64(int(nanoseconds[at]), "ns")
            faults.add(int(rows[at]), SubscriptionError(f"expected bounds without nanoseconds, got {moment}"))
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return column


def _from_ranges(draft: Draft, frame: pa.Table, faults: Faults) -> list[Pieces]:

    column = one_array(frame.column("ranges"))
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    is_struct = is_list and pa.types.is_struct(column.type.value_type)
    fields = {f.name for f in column.type.value_type} if is_struct else set()
    if not {"attribute", "lo", "hi"} <= fields:
        raise SubscriptionError(
            f"expected lists of {{attribute, lo, hi}} in the column 'ranges', got the type {column.type}"
        )
    for row in np.flatnonzero(np.asarray(column.is_null())).tolist():
        faults.add(row, SubscriptionError("'ranges' is NULL"))
    flat = column.flatten()
    parts = dict(zip([f.name for f in flat.type], flat.flatten(), strict=True))
    rows = np.repeat(np.arange(len(column)), np.asarray(pc.list_value_length(column).fill_null(0)))
    names = _plain(parts["attribute"], rows, faults).dictionary_encode()
    codes = np.asarray(names.indices.fill_null(_NAMELESS)).astype(np.int64)
    for row in rows[codes == _NAMELESS].tolist():
        faults.add(row, SubscriptionError("an entry of 'ranges' has no attribute"))
    low, high = _plain(parts["lo"], rows, faults), _plain(parts["hi"], rows, faults)
    weight = _weight_field(parts.get("weight"), names, rows, faults)
    some = ~(np.asarray(low.is_null()) & np.asarray(high.is_null()))
    bounded = np.flatnonzero(some & (codes != _NAMELESS))
    order = bounded[np.argsort(codes[bounded], kind="stable")]
    borders = np.searchsorted(codes[order], np.arange(len(names.dictionary) + 1))
    pieces = []
    for code, name in enumerate(names.dictionary.to_pylist()):
        mine = order[borders[code] : borders[code + 1]]
        if not len(mine):
            continue
        own = weight[mine] if len(weight) else weight
        try:
            attribute = draft.get(name)
        except EarmarkError as problem:
            for row in rows[mine].tolist():
                faults.add(row, SubscriptionError(problem.reason, attribute=name))
            continue
        pieces.append(Pieces(attribute, rows[mine], low.take(mine), high.take(mine), own))
    return pieces


def _weight_field(column: pa.Array | None, names: pa.Array, rows: I64, faults: Faults) -> F64:
    if column is None:
        return np.empty(0)
    weight = _doubles(column, "weight", 1.0)
    for at in np.flatnonzero(~(np.isfinite(weight) & (weight >= 0))).tolist():
        faults.checked(int(rows[at]), checked_weights, {names[at].as_py(): float(weight[at])}, SubscriptionError)
    return weight


def _doubles(column: pa.Array, name: str, default: float) -> F64:

    if _family(column) == "other" and not pa.types.is_decimal(column.type) and not pa.types.is_null(column.type):
        raise SubscriptionError(f"expected numbers in the column {name!r}, got the type {column.type}")
    return np.asarray(column.cast("float64", safe=False).fill_null(default))


def _scores(frame: pa.Table, faults: Faults) -> F64:
    if "score" not in frame.column_names:
        return np.empty(0)
    scores = _doubles(one_array(frame.column("score")), "score", 0.0)
    for row in np.flatnonzero(~np.isfinite(scores)).tolist():
        faults.checked(row, checked_score, float(scores[row]))
    return scores if scores.any() else np.empty(0)


def _tags(frame: pa.Table, faults: Faults) -> list[Tags] | None:
    if "tags" not in frame.column_names:
        return None
    given = enumerate(frame.column("tags").to_pylist())
    return [faults.checked(row, checked_tags, as_mapping(tags)) for row, tags in given]


def _lives(draft: Draft, frame: pa.Table, faults: Faults) -> tuple[I64, I64]:
    """The first and the last moments of rows; empty where none starts or ends."""
    names = [name for name in ("starts", "ends") if name in frame.column_names]
    if not any(frame.column(name).null_count < frame.num_rows for name in names):
        return NO_MOMENTS, NO_MOMENTS
    life_attribute(draft)
    zone = draft.schema.zone
    keys = [np.full(frame.num_rows, key, np.int64) for key in ALWAYS]
    for name in names:
        coded = one_array(frame.column(name)).dictionary_encode()
        found = [_moment(value, zone, name) for value in moments_in(coded.dictionary)]
        codes = np.asarray(coded.indices.fill_null(_NAMELESS)).astype(np.int64)
        for row in np.flatnonzero(codes != _NAMELESS).tolist() if any(isinstance(f, str) for f in found) else ():
            if isinstance(problem := found[codes[row]], str):
                faults.add(row, SubscriptionError(problem))
        plain = np.array([0 if isinstance(one, str) else one for one in found], np.int64)
        known = codes != _NAMELESS
        keys[name == "ends"][known] = plain[codes[known]]
    first, last = keys
    for row in faults.good(np.flatnonzero(first > last)).tolist():
        faults.checked(row, checked_life, *(frame.column(name)[row].as_py() for name in ("starts", "ends")), zone)
    return first, last


def _moment(value: Any, zone: tzinfo, name: str) -> int | str:
    """The key of a moment, for `ends` of the one before, or what is wrong with it."""
    try:
        return key_before(value, zone) if name == "ends" else moment_key(value, zone, name)
    except SubscriptionError as problem:
        return problem.reason


def _row_weights(frame: pa.Table, pieces: list[Pieces], faults: Faults) -> list[dict[int, float]] | None:
    """The column of weights by attribute number; it may name any attribute that the frame bounds."""
    if "weights" not in frame.column_names:
        return None
    numbers = {p.attribute.name: p.attribute.number for p in pieces}
    given = enumerate(frame.column("weights").to_pylist())
    return [faults.checked(row, _numbered, as_mapping(weights), numbers) for row, weights in given]


def _numbered(given: Any, numbers: dict[str, int]) -> dict[int, float]:
    weights = checked_weights(given, SubscriptionError)
    for name in weights:
        if name not in numbers:
            raise SubscriptionError(f"weights refer to {name!r}, but the frame has no bounds for it", attribute=name)
    return {numbers[name]: weight for name, weight in weights.items()}


# --- types and keys -----------------------------------------------------------------------------------------


class Side:
    """The lower or the upper bounds of an attribute, as far as they are not NULL, and their rows.

    All are of one type of Arrow's, so whether they fit the attribute's type is the same for all.
    """

    def __init__(self, rows: I64, column: pa.Array) -> None:
        self._rows = rows
        self._column = column

    @lazy_property
    def known(self) -> I64:
        """Where the column has a bound."""
        return np.flatnonzero(~np.asarray(self._column.is_null()))

    @property
    def rows(self) -> I64:
        """The rows with a bound."""
        return self._rows[self.known]

    @lazy_property
    def value(self) -> Any:
        """The first bound."""
        return self._column[int(self.known[0])].as_py()

    def learned(self, draft: Draft, attribute: Attribute, row: int | None = None) -> Attribute:
        """The attribute with the type of these bounds, as that of the first, or that of a row, says it."""
        at = self.known[0] if row is None else self.known[self.rows == row][0]
        value = self._column[int(at)].as_py()
        return draft.set_type(attribute, type_of(value), f"a column of bounds, {value!r}")

    def check(self, draft: Draft, attribute: Attribute, faults: Faults, rows: I64 | None = None) -> None:
        """Note all rows, or some, as wrong, unless these bounds are of the attribute's type."""
        if _fits(draft, attribute.type, self.value):
            return
        for at in (self.known if rows is None else self.known[np.isin(self.rows, rows)]).tolist():
            reason = f"{attribute.expected()}, got {shown(self._column[at].as_py())}"
            faults.add(int(self._rows[at]), AttributeTypeError(reason, attribute=attribute.name))


def _typed(draft: Draft, pieces: list[Pieces], faults: Faults) -> list[Pieces]:
    """Give attributes without a type that of the first bound there is; rows with bounds of other types are wrong."""
    made: list[Pieces] = []
    contested: list[tuple[Attribute, list[Side]]] = []
    for piece in pieces:
        attribute = piece.attribute
        columns = [column for column in (piece.lo, piece.hi) if column.null_count < len(column)]
        sides = [Side(piece.rows, column) for column in columns]
        if attribute.type is None and len(sides) == 2 and not _fits(draft, type_of(sides[0].value), sides[1].value):
            contested.append((attribute, sides))
        elif sides:
            if attribute.type is None:
                attribute = sides[0].learned(draft, attribute)
            for side in sides:
                side.check(draft, attribute, faults)
        made.append(piece._replace(attribute=attribute))
    _settle(draft, contested, faults)
    return made


def _settle(draft: Draft, contested: list[tuple[Attribute, list[Side]]], faults: Faults) -> None:
    """Note the rows that are wrong where the lower and the upper bounds of attributes are of different types.

    The first row without a fault decides, as it would if rows came one by one; a row with both bounds has a fault.
    """
    for attribute, (low, high) in contested:
        both = np.intersect1d(low.rows, high.rows)
        if len(both):
            high.check(draft, low.learned(Draft(draft.schema), attribute), faults, both)
    while contested:
        deciders = [[*faults.good(low.rows)[:1], *faults.good(high.rows)[:1]] for _, (low, high) in contested]
        first = [min(rows, default=_NO_ROW) for rows in deciders]
        attribute, sides = contested.pop(int(np.argmin(first)))
        decider = next((side for side in sides if min(first) in side.rows), None)
        if decider is None:
            return  # the rows that are left all have a fault
        learned = decider.learned(draft, attribute, min(first))
        for side in sides:
            side.check(draft, learned, faults)


def _fits(draft: Draft, type_: AttributeType | None, value: Any) -> bool:
    """Whether a bound of an attribute of this type can be this value, or any of the same Arrow type."""
    assert type_ is not None
    if type_.kind == Kind.STRING:
        return isinstance(value, str)
    if type_.kind == Kind.NUMBER:
        return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return cut(type_, value, draft.schema.zone) is not None


def _family(column: pa.Array) -> str:

    if pa.types.is_integer(column.type):
        return "i"
    return "f" if pa.types.is_floating(column.type) else "other"


def _note_constants(draft: Draft, piece: Pieces) -> None:
    """Note what needs a key: strings, and all bounds of a number attribute that is wide, or becomes so."""
    type_ = piece.attribute.type
    if type_ is None or not (type_.kind == Kind.STRING or (type_.kind == Kind.NUMBER and _is_wide(type_, piece))):
        return
    for column in (piece.lo, piece.hi):
        for value in column.unique().to_pylist():
            if value is not None:
                draft.constant(piece.attribute, _constant(type_, value))


def _constant(type_: AttributeType, value: Any) -> bytes:
    return constant_of(position_of(value)) if type_.kind == Kind.NUMBER else value.encode()


def _is_wide(type_: AttributeType, piece: Pieces) -> bool:
    """Whether bounds are to be looked up in a dictionary: they are already, or one is at 2^53 or beyond."""
    return type_.keyed or any(_is_beyond(column) for column in (piece.lo, piece.hi))


def _is_beyond(column: pa.Array) -> bool:
    if column.null_count == len(column):
        return False
    if _family(column) == "other":
        return not all(is_narrow(value) for value in column.drop_null().to_pylist())
    values = np.asarray(column.drop_null())
    if values.dtype.kind == "f":
        values = values[np.isfinite(values)]
    return bool(len(values)) and (int(values.max()) >= _EXACT or int(values.min()) <= -_EXACT)


def _intervals(schema: Schema, piece: Pieces) -> tuple[I64, I64]:
    """Keys of the lower and upper bounds; (high, low) of the domain where no value is between."""
    attribute = schema.by_name[piece.attribute.name]
    type_ = attribute.type
    if type_ is None:  # every bound is NULL, so there are no rows
        return _NONE, _NONE
    lo, above = _bound_keys(schema, attribute, piece.lo, 0)
    hi, below = _bound_keys(schema, attribute, piece.hi, 1)
    never = above | below
    lo[never], hi[never] = type_.high, type_.low
    whole = (lo <= type_.low) & (hi >= type_.high)
    lo[whole], hi[whole] = INT64_MIN, INT64_MAX
    return lo, hi


def _bound_keys(schema: Schema, attribute: Attribute, column: pa.Array, side: int) -> tuple[I64, NDArray[np.bool_]]:
    """Keys of lower (side 0) or upper (side 1) bounds, open where NULL, and which are beyond the whole domain."""
    type_ = attribute.known_type
    inside = np.zeros(len(column), bool)
    open_key = (type_.low, type_.high)[side]
    known = ~np.asarray(column.is_null())
    if not known.any():
        return np.full(len(column), open_key), inside
    family = _family(column)
    if type_.kind == Kind.INTEGER and family == "i" and str(column.type) != "uint64":
        return np.where(known, np.asarray(column.cast("int64").fill_null(0)), open_key), inside
    if type_.kind in (Kind.FLOAT, Kind.NUMBER) and family in "if" and not type_.keyed:
        keys = float_keys(np.asarray(column.cast("float64", safe=False).fill_null(0.0)))
        return np.where(known, keys, open_key), inside
    if type_.kind == Kind.TIMESTAMP and column.type == pa.timestamp("us", "UTC"):
        return np.where(known, np.asarray(column.cast("int64").fill_null(0)), open_key), inside
    coded = column.dictionary_encode()
    found = [_bound_key(schema, attribute, value.as_py(), side) for value in coded.dictionary]
    beyond = np.array([k > type_.high if side == 0 else k < type_.low for k in found])
    clipped = np.array([min(max(k, type_.low), type_.high) for k in found], np.int64)
    codes = np.asarray(coded.indices.fill_null(0))
    return np.where(known, clipped[codes], open_key), known & beyond[codes]


def _bound_key(schema: Schema, attribute: Attribute, value: Any, side: int) -> int:
    type_ = attribute.known_type
    if type_.keyed:
        return schema.strings[attribute.number].of_constant(_constant(type_, value))
    if type_.kind == Kind.NUMBER:
        return narrow_key(value)
    found = cut(type_, value, schema.zone)
    assert found is not None, "checked before"
    return found[0] + 1 if side == 0 else found[1]


def _arrays(
    schema: Schema, pieces: list[Pieces], count: int, scores: F64, weights: list[dict[int, float]] | None
) -> SegmentArrays:
    """The arrays of all rows: attribute by attribute, ascending, each piece goes where its rows have come to.

    Beside the arrays themselves, only one piece at a time needs memory.
    """
    firsts = [_first_of_row(piece) for piece in pieces]
    counts: Any = np.zeros(count, np.int32)
    for piece, first in zip(pieces, firsts, strict=True):
        counts[piece.rows[first]] += 1
    start = offsets(counts)
    to, total = start[:-1].copy(), int(start[-1])
    number, weight = np.empty(total, np.int32), np.ones(total if _is_weighted(pieces, weights) else 0)
    lo, hi = np.empty(total, np.int64), np.empty(total, np.int64)
    for piece, first in sorted(zip(pieces, firsts, strict=True), key=lambda pair: pair[0].attribute.number):
        low, high = _intervals(schema, piece)
        if not isinstance(first, slice):  # several ranges on one attribute intersect
            at = np.flatnonzero(first)
            low, high = np.maximum.reduceat(low, at), np.minimum.reduceat(high, at)
        rows = piece.rows[first]
        places = to[rows]
        to[rows] += 1
        lo[places], hi[places], number[places] = low, high, piece.attribute.number
        if weights is not None:
            weight[places] = [weights[row].get(piece.attribute.number, 1.0) for row in rows.tolist()]
        elif len(piece.weight):
            weight[places] = piece.weight[first]
    some: Any = lo <= hi
    if not some.all():
        lo, hi = lo[some], hi[some]
    return SegmentArrays(
        clause_start=np.arange(count + 1, dtype=np.int32),
        constraint_start=start,
        attr=number,
        accepts_null=np.zeros(total, np.uint8),
        interval_start=offsets(some),
        lo=lo,
        hi=hi,
        weight=weight,
        score=scores,
        sequence=np.empty(0, np.int64),
    )


def _first_of_row(piece: Pieces) -> NDArray[np.bool_] | slice:
    """Which ranges are the first of their rows, which ascend; a slice where all are."""
    same = piece.rows[1:] == piece.rows[:-1]
    return np.concatenate([[True], ~same]) if same.any() else slice(None)


def _is_weighted(pieces: list[Pieces], weights: list[dict[int, float]] | None) -> bool:
    return weights is not None or any(len(piece.weight) for piece in pieces)


_NAMELESS = -1
_NO_ROW = 1 << 62
_NONE: I64 = np.empty(0, np.int64)
