"""Ready-made subscriptions: bounds in columns, taken in without a loop over rows.

Two forms, beside `id` and the optional `score`, `weights` and `tags`:

    bounds   a lower and an upper column an attribute (`age_lo`, `age_hi`, or names given by the caller)
    ranges   one column, a list of {attribute, lo, hi[, weight]} a row, for many attributes of which a row uses few;
             several ranges on one attribute intersect

Bounds are inclusive; NULL leaves the side open, both NULL leave the attribute unconstrained. They mean what `>=` and
`<=` with that literal mean; a lower bound above the upper makes a clause that never matches, and is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.errors import AttributeTypeError, EarmarkError, SubscriptionError
from earmark.events.frames import is_text, one_array, plain_array
from earmark.events.mappings import checked_weights
from earmark.flat.types import F64, I32, I64
from earmark.keys.cuts import cut, float_keys, type_of
from earmark.keys.numbers import constant_of, is_narrow, narrow_key, position_of
from earmark.keys.schema import (
    FLOAT,
    INT64_MAX,
    INT64_MIN,
    INTEGER,
    NUMBER,
    STRING,
    Attribute,
    AttributeType,
    Draft,
    Schema,
)
from earmark.segment.arrays import SegmentArrays
from earmark.segment.builder import Prepared, as_mapping
from earmark.segment.ids import Id
from earmark.segment.rows import offsets
from earmark.segment.segment import Tags
from earmark.segment.subscription import checked_id, checked_tags

if TYPE_CHECKING:
    import pyarrow as pa

Bounds = Mapping[str, tuple[str, str]]
_EXACT = 2**53


class Pieces(NamedTuple):
    """Ranges of one attribute: which rows, and the Arrow columns of their bounds (NULL is open)."""

    attribute: Attribute
    rows: I64
    lo: pa.Array
    hi: pa.Array
    weight: F64


def prepare_columns(schema: Schema, frame: pa.Table, bounds: Bounds | None) -> Prepared:
    """Check a frame of bounds; an error names the column or the row."""
    draft = Draft(schema)
    count = frame.num_rows
    ids = _ids(frame)
    if "ranges" in frame.column_names and bounds is None:
        pieces = _from_ranges(draft, frame)
    else:
        pieces = _from_bounds(draft, frame, bounds or named_bounds(frame.column_names))
    pieces = [_typed(draft, p) for p in pieces]
    for piece in pieces:
        _note_constants(draft, piece)
    scores = _scores(frame)
    tags = _tags(frame)
    weights = _row_weights(frame, pieces)

    return Prepared(draft, ids, lambda keyed: _arrays(keyed, pieces, count, scores, weights), tags=tags)


# --- reading the frame --------------------------------------------------------------------------------------


def _ids(frame: pa.Table) -> list[Id]:
    if "id" not in frame.column_names:
        raise SubscriptionError(f"the frame has no column 'id'; its columns are {', '.join(frame.column_names)}")
    ids: list[Id] = frame.column("id").to_pylist()
    for row, one in enumerate(ids):
        if type(one) is not int or not -(2**63) <= one < 2**63:
            try:
                checked_id(one)
            except EarmarkError as problem:
                raise SubscriptionError(f"row {row}: {problem}") from None
    return ids


def named_bounds(names: Sequence[str]) -> Bounds:
    """Pairs of columns by attribute, from names such as `age_lo` and `age_hi`."""
    found = {n[:-3]: (n, n[:-3] + "_hi") for n in names if n.endswith("_lo") and n[:-3] + "_hi" in names}
    if not found:
        raise SubscriptionError(
            "the frame has neither a column 'condition', nor 'ranges', nor pairs such as 'age_lo' and 'age_hi'; "
            f"its columns are {', '.join(names)}"
        )
    return found


def _from_bounds(draft: Draft, frame: pa.Table, bounds: Bounds) -> list[Pieces]:
    pieces = []
    for name, pair in bounds.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise SubscriptionError(f"the bounds of {name!r} are a pair of columns, lower and upper; got {pair!r}")
        for column in pair:
            if column not in frame.column_names:
                raise SubscriptionError(f"the bounds of {name!r} name a column {column!r} that the frame does not have")
        low, high = (_plain(frame.column(column)) for column in pair)
        rows = np.flatnonzero(~(np.asarray(low.is_null()) & np.asarray(high.is_null())))
        pieces.append(Pieces(draft.get(name), rows, low.take(rows), high.take(rows), np.empty(0)))
    return pieces


def _plain(column: Any) -> pa.Array:
    """A column of bounds in one piece, of a type that Arrow computes with."""
    import pyarrow as pa

    column = plain_array(one_array(column))
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_float16(column.type):
        return column.cast(pa.float32())
    if is_text(column.type):
        return column.cast(pa.large_string())
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        try:
            return column.cast(pa.timestamp("us", column.type.tz))
        except pa.ArrowInvalid:
            raise SubscriptionError("a column of bounds has nanoseconds; earmark keeps microseconds") from None
    return column


def _from_ranges(draft: Draft, frame: pa.Table) -> list[Pieces]:
    import pyarrow as pa

    column = one_array(frame.column("ranges"))
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    is_struct = is_list and pa.types.is_struct(column.type.value_type)
    fields = {f.name for f in column.type.value_type} if is_struct else set()
    if not {"attribute", "lo", "hi"} <= fields:
        raise SubscriptionError(
            f"the column 'ranges' holds a list of {{attribute, lo, hi}} a row; its type is {column.type}"
        )
    if column.null_count:
        raise SubscriptionError(f"row {np.flatnonzero(np.asarray(column.is_null()))[0]}: 'ranges' is NULL")
    flat = column.flatten()
    parts = dict(zip([f.name for f in flat.type], flat.flatten(), strict=True))
    rows = np.repeat(np.arange(len(column)), np.diff(np.asarray(column.offsets)))
    names = _plain(parts["attribute"]).dictionary_encode()
    if names.null_count:
        raise SubscriptionError(f"row {rows[np.asarray(names.is_null())][0]}: an entry of 'ranges' has no attribute")
    codes = np.asarray(names.indices).astype(np.int64)
    low, high = _plain(parts["lo"]), _plain(parts["hi"])
    weight = _weight_field(parts.get("weight"), rows)
    bounded = np.flatnonzero(~(np.asarray(low.is_null()) & np.asarray(high.is_null())))
    order = bounded[np.argsort(codes[bounded], kind="stable")]
    borders = np.searchsorted(codes[order], np.arange(len(names.dictionary) + 1))
    pieces = []
    for code, name in enumerate(names.dictionary.to_pylist()):
        mine = order[borders[code] : borders[code + 1]]
        if not len(mine):
            continue
        own = weight[mine] if len(weight) else weight
        with _naming(int(rows[mine[0]])):
            attribute = draft.get(name)
        pieces.append(Pieces(attribute, rows[mine], low.take(mine), high.take(mine), own))
    return pieces


@contextmanager
def _naming(row: int) -> Iterator[None]:
    """An error inside names the row."""
    try:
        yield
    except EarmarkError as problem:
        kind = AttributeTypeError if isinstance(problem, AttributeTypeError) else SubscriptionError
        raise kind(f"row {row}: {problem}") from None


def _weight_field(column: pa.Array | None, rows: I64) -> F64:
    if column is None:
        return np.empty(0)
    weight = _doubles(column, "weight", 1.0)
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        raise SubscriptionError(
            f"row {rows[bad[0]]}: a weight is {weight[bad[0]]}; weights are finite and not negative"
        )
    return weight


def _doubles(column: pa.Array, name: str, default: float) -> F64:
    import pyarrow as pa

    if _family(column) == "other" and not pa.types.is_decimal(column.type) and not pa.types.is_null(column.type):
        raise SubscriptionError(f"{name!r} holds numbers; its type here is {column.type}")
    return np.asarray(column.cast("float64", safe=False).fill_null(default))


def _scores(frame: pa.Table) -> F64:
    if "score" not in frame.column_names:
        return np.empty(0)
    scores = _doubles(one_array(frame.column("score")), "score", 0.0)
    if not np.isfinite(scores).all():
        row = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise SubscriptionError(f"row {row}: a score is finite; got {scores[row]}")
    return scores if scores.any() else np.empty(0)


def _tags(frame: pa.Table) -> list[Tags] | None:
    if "tags" not in frame.column_names:
        return None
    made = []
    for row, given in enumerate(frame.column("tags").to_pylist()):
        with _naming(row):
            made.append(checked_tags(as_mapping(given)))
    return made


def _row_weights(frame: pa.Table, pieces: list[Pieces]) -> list[dict[int, float]] | None:
    """The column of weights by attribute number; it may name any attribute that the frame bounds."""
    if "weights" not in frame.column_names:
        return None
    numbers = {p.attribute.name: p.attribute.number for p in pieces}
    made = []
    for row, given in enumerate(frame.column("weights").to_pylist()):
        checked = checked_weights(as_mapping(given), f"row {row}", SubscriptionError)
        for name in checked:
            if name not in numbers:
                raise SubscriptionError(f"row {row}: weights name {name!r}, of which the frame has no bounds")
        made.append({numbers[name]: weight for name, weight in checked.items()})
    return made


# --- types and keys -----------------------------------------------------------------------------------------


def _typed(draft: Draft, piece: Pieces) -> Pieces:
    """Learn the attribute's type from the first bound there is."""
    attribute = piece.attribute
    known = [column for column in (piece.lo, piece.hi) if column.null_count < len(column)]
    if attribute.type is None and known:
        value = known[0].drop_null()[0].as_py()
        attribute = draft.set_type(attribute, type_of(value), f"a column of bounds, {value!r}")
    for column in known:
        _check_family(draft, attribute, column, piece.rows)
    return piece._replace(attribute=attribute)


def _family(column: pa.Array) -> str:
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        return "i"
    return "f" if pa.types.is_floating(column.type) else "other"


def _check_family(draft: Draft, attribute: Attribute, column: pa.Array, rows: I64) -> None:
    assert attribute.type is not None
    first = int(np.flatnonzero(~np.asarray(column.is_null()))[0])
    value = column[first].as_py()
    if attribute.type.kind == STRING:
        fits = isinstance(value, str)
    elif attribute.type.kind == NUMBER:
        fits = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    else:
        fits = cut(attribute.type, value, draft.schema.zone) is not None
    if not fits:
        raise AttributeTypeError(
            f"row {rows[first]}: attribute {attribute.name!r} is {attribute.described()}, "
            f"but a column of bounds holds {value!r}"
        )


def _note_constants(draft: Draft, piece: Pieces) -> None:
    """Note what needs a key: strings, and all bounds of a number attribute that is wide, or becomes so."""
    type_ = piece.attribute.type
    if type_ is None or not (type_.kind == STRING or (type_.kind == NUMBER and _is_wide(type_, piece))):
        return
    for column in (piece.lo, piece.hi):
        for value in column.unique().to_pylist():
            if value is not None:
                draft.constant(piece.attribute, _constant(type_, value))


def _constant(type_: AttributeType, value: Any) -> bytes:
    return constant_of(position_of(value)) if type_.kind == NUMBER else value.encode()


def _is_wide(type_: AttributeType, piece: Pieces) -> bool:
    """Whether bounds are to be looked up in a dictionary: they are already, or some lies at 2^53 or beyond."""
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
    """Keys of the lower and upper bounds; (high, low) of the domain where no value can lie between."""
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
    """Keys of lower (side 0) or upper (side 1) bounds, open where NULL, and which lie beyond the whole domain."""
    type_ = attribute.type
    assert type_ is not None
    inside = np.zeros(len(column), bool)
    open_key = (type_.low, type_.high)[side]
    known = ~np.asarray(column.is_null())
    if not known.any():
        return np.full(len(column), open_key), inside
    family = _family(column)
    if type_.kind == INTEGER and family == "i" and str(column.type) != "uint64":
        return np.where(known, np.asarray(column.cast("int64").fill_null(0)), open_key), inside
    if type_.kind in (FLOAT, NUMBER) and family in "if" and not type_.keyed:
        return np.where(
            known, float_keys(np.asarray(column.cast("float64", safe=False).fill_null(0.0))), open_key
        ), inside
    coded = column.dictionary_encode()
    keys = [_bound_key(schema, attribute, value.as_py(), side) for value in coded.dictionary]
    beyond = np.array([k > type_.high if side == 0 else k < type_.low for k in keys])
    clipped = np.array([min(max(k, type_.low), type_.high) for k in keys], np.int64)
    codes = np.asarray(coded.indices.fill_null(0))
    return np.where(known, clipped[codes], open_key), known & beyond[codes]


def _bound_key(schema: Schema, attribute: Attribute, value: Any, side: int) -> int:
    type_ = attribute.type
    assert type_ is not None
    if type_.keyed:
        return schema.strings[attribute.number].of_constant(_constant(type_, value))
    if type_.kind == NUMBER:
        return narrow_key(value)
    found = cut(type_, value, schema.zone)
    assert found is not None, "checked before"
    return found[0] + 1 if side == 0 else found[1]


def _arrays(
    schema: Schema, pieces: list[Pieces], count: int, scores: F64, weights: list[dict[int, float]] | None
) -> SegmentArrays:
    number = np.concatenate([np.full(len(p.rows), p.attribute.number, np.int32) for p in pieces] or [_NONE32])
    rows = np.concatenate([p.rows for p in pieces] or [_NONE])
    ends = [_intervals(schema, p) for p in pieces]
    lo = np.concatenate([low for low, _ in ends] or [_NONE])
    hi = np.concatenate([high for _, high in ends] or [_NONE])
    weight = _piece_weights(pieces, rows, number, weights)
    order = np.lexsort((number, rows))
    rows, number, lo, hi = rows[order], number[order], lo[order], hi[order]
    weight = weight[order] if len(weight) else weight
    first = np.flatnonzero(np.r_[True, (rows[1:] != rows[:-1]) | (number[1:] != number[:-1])][: len(rows)])
    if len(first) < len(rows):
        lo, hi = np.maximum.reduceat(lo, first), np.minimum.reduceat(hi, first)
        rows, number, weight = rows[first], number[first], weight[first] if len(weight) else weight
    some = lo <= hi
    return SegmentArrays(
        clause_start=np.arange(count + 1, dtype=np.int32),
        constraint_start=offsets(np.bincount(rows, minlength=count)),
        attr=number,
        accepts_null=np.zeros(len(rows), np.uint8),
        interval_start=offsets(some.astype(np.int64)),
        lo=lo[some],
        hi=hi[some],
        weight=weight,
        score=scores,
        sequence=np.empty(0, np.int64),
    )


def _piece_weights(pieces: list[Pieces], rows: I64, number: I32, weights: list[dict[int, float]] | None) -> F64:
    if weights is not None:
        made = [weights[r].get(n, 1.0) for r, n in zip(rows.tolist(), number.tolist(), strict=True)]
        return np.array(made, np.float64)
    if any(len(p.weight) for p in pieces):
        return np.concatenate([p.weight if len(p.weight) else np.ones(len(p.rows)) for p in pieces])
    return np.empty(0)


_NONE: I64 = np.empty(0, np.int64)
_NONE32: NDArray[np.int32] = np.empty(0, np.int32)
